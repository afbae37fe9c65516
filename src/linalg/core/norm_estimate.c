/* Estimate of a 1-norm. */
#include "norm_estimate.h"
#include <math.h>
#include <stdlib.h>

enum { TURNS = 5 };

static double one_norm(int64_t n, const double *x) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fabs(x[i]);
    return isfinite(sum) ? sum : INFINITY;
}

static int64_t place_of_largest(int64_t n, const double *x) {
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        at = fabs(x[i]) > fabs(x[at]) ? i : at;
    return at;
}

/* sign := signs of x; whether they were that already. */
static bool take_signs(int64_t n, const double *x, double *sign) {
    bool same = true;
    for (int64_t i = 0; i < n; i++) {
        const double s = x[i] < 0 ? -1 : 1;
        same = same && s == sign[i];
        sign[i] = s;
    }
    return same;
}

/* From unit vector to unit vector, as long as the norm of a column grows. */
static status climb(int64_t n, norm_product *product, void *arg, double *x, double *sign,
                    double *norm) {
    int64_t j = -1;
    status st = MOAO_OK;
    for (int turn = 0; turn < TURNS && isfinite(*norm); turn++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = sign[i];
        TRY(product(arg, true, x));
        const int64_t next = place_of_largest(n, x);
        if (j >= 0 && fabs(x[next]) <= fabs(x[j]))
            break;
        j = next;
        for (int64_t i = 0; i < n; i++)
            x[i] = i == j;
        TRY(product(arg, false, x));
        const double column = one_norm(n, x);
        const bool same = take_signs(n, x, sign), grown = column > *norm;
        *norm = grown ? column : *norm;
        if (same || !grown)
            break;
    }
done:
    return st;
}

status norm_estimate(int64_t n, norm_product *product, void *arg, double *norm) {
    double *x = NULL, *sign = NULL;
    status st;
    *norm = 0;
    if (n == 0)
        return MOAO_OK;
    TRY(ALLOC(x, (unsigned long)n, "a vector of a norm"));
    TRY(ALLOC(sign, (unsigned long)n, "signs of a norm"));
    for (int64_t i = 0; i < n; i++)
        x[i] = 1 / (double)n;
    TRY(product(arg, false, x));
    *norm = one_norm(n, x);
    take_signs(n, x, sign);
    if (n == 1)
        goto done;
    TRY(climb(n, product, arg, x, sign, norm));
    for (int64_t i = 0; i < n; i++)
        x[i] = (i % 2 ? -1 : 1) * (1 + (double)i / (double)(n - 1));
    TRY(product(arg, false, x));
    *norm = fmax(*norm, 2 * one_norm(n, x) / (3 * (double)n));
done:
    free(x), free(sign);
    return st;
}
