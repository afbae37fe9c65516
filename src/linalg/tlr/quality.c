/* What a compressed factor is worth: how far the determinant of L L^T is from that of the matrix
 * itself, by products of random vectors with its entries; and the condition of L L^T. */
#include "internal.h"
#include "linalg/core/norm_estimate.h"
#include "moao/backend_random.h"

#include <float.h>
#include <math.h>

extern int dstev_(const char *, const int *, double *, double *, double *, const int *, double *,
                  int *, size_t);

/* --- the matrix itself ----------------------------------------------------------------------- */

/* n x k vectors in transit: the factor's order, in the backend's memory. */
typedef struct {
    const tlr *l;
    const tlr_source *of;
    int64_t n, k;
    double *x, *y, *block; /* block: a block column of entries */
} residual;

static status copy(const tlr *l, void *to, const void *from, int64_t numbers) {
    const int64_t bytes = 8 * numbers;
    const status st = l->be->copy(l->ctx, to, bytes, from, bytes, bytes, 1);
    return st == MOAO_OK ? l->be->sync(l->ctx) : st;
}

/* y := A x, a block column of entries on and below the diagonal at a time. */
static status times_matrix(const residual *r) {
    const tlr *l = r->l;
    const double one = 1, zero = 0;
    status st = MOAO_OK;
    if (r->of->a)
        return tlr_apply(r->of->a, 'L', 'N', r->k, 1, r->x, r->n, 0, r->y, r->n);
    for (int64_t q = 0; q < l->panels; q++) {
        const int64_t j = l->cols->first[l->panel[q].c0], w = l->panel[q].width, rows = r->n - j;
        double *below = r->block + w;
        TRY(r->of->fill(r->of->arg, j, rows, j, w, r->block, rows));
        if (q == 0)
            TRY(l->be->gemm(l->ctx, BACKEND_D, 'N', 'N', rows, r->k, w, &one, r->block, rows, r->x,
                            r->n, &zero, r->y, r->n, NULL, 0));
        else
            TRY(l->be->gemm(l->ctx, BACKEND_D, 'N', 'N', rows, r->k, w, &one, r->block, rows,
                            r->x + j, r->n, &one, r->y + j, r->n, NULL, 0));
        if (rows > w)
            TRY(l->be->gemm(l->ctx, BACKEND_D, 'T', 'N', w, r->k, rows - w, &one, below, rows,
                            r->x + j + w, r->n, &one, r->y + j, r->n, NULL, 0));
    }
done:
    return st;
}

/* v := L^-1 A L^-T v, on the host. */
static status times_residual(const residual *r, double *v) {
    const int64_t numbers = r->n * r->k;
    status st;
    TRY(copy(r->l, r->x, v, numbers));
    TRY(tlr_solve(r->l, 'L', 'T', r->k, r->x, r->n));
    TRY(times_matrix(r));
    TRY(tlr_solve(r->l, 'L', 'N', r->k, r->y, r->n));
    st = copy(r->l, v, r->y, numbers);
done:
    return st;
}

static status residual_open(residual *r) {
    const tlr *l = r->l;
    int64_t most = 0;
    status st;
    for (int64_t q = 0; q < l->panels; q++)
        most = largest(most, l->panel[q].width * (r->n - l->cols->first[l->panel[q].c0]));
    TRY(l->be->alloc(l->ctx, (size_t)(8 * r->n * r->k), (void **)&r->x));
    TRY(l->be->alloc(l->ctx, (size_t)(8 * r->n * r->k), (void **)&r->y));
    if (!r->of->a)
        TRY(l->be->alloc(l->ctx, (size_t)(8 * most), (void **)&r->block));
done:
    return st;
}

static void residual_close(residual *r) {
    const tlr *l = r->l;
    l->be->release(l->ctx, r->x), l->be->release(l->ctx, r->y), l->be->release(l->ctx, r->block);
}

/* --- trace of the logarithm by Lanczos' method ------------------------------------------------ */

enum { STEPS = 24 };

/* Of k random vectors with entries +-1, each with a space of its own. */
typedef struct {
    int64_t n, k;
    int steps;
    double *basis;           /* [STEPS + 1][k][n] */
    double *alpha, *beta;    /* [k][STEPS] */
    bool *ended;             /* [k] the space is whole */
    double value, deviation; /* of the trace, over the vectors */
} lanczos;

static double dot(int64_t n, const double *x, const double *y) {
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += x[i] * y[i];
    return s;
}

static double *vector_of(const lanczos *z, int step, int64_t p) {
    return z->basis + (step * z->k + p) * z->n;
}

/* The next vector of probe p from M times the last one, at w. */
static void extend(lanczos *z, int64_t p, double *w) {
    const int j = z->steps;
    double *next = vector_of(z, j + 1, p);
    z->alpha[p * STEPS + j] = dot(z->n, w, vector_of(z, j, p));
    for (int turn = 0; turn < 2; turn++) /* orthogonal to all before, twice is enough */
        for (int e = 0; e <= j; e++) {
            const double *v = vector_of(z, e, p), by = dot(z->n, w, v);
            for (int64_t i = 0; i < z->n; i++)
                w[i] -= by * v[i];
        }
    const double norm = sqrt(dot(z->n, w, w));
    z->beta[p * STEPS + j] = norm;
    z->ended[p] = !(norm > 1e-12 * fabs(z->alpha[p * STEPS + j])) || j + 1 >= z->n;
    for (int64_t i = 0; i < z->n; i++)
        next[i] = z->ended[p] ? 0 : w[i] / norm;
}

/* z' log(M) z by Gauss' rule of the steps so far. */
static status quadrature(const lanczos *z, int64_t p, int steps, double *value) {
    double d[STEPS], e[STEPS], v[STEPS * STEPS], work[2 * STEPS];
    int info = 0;
    memcpy(d, z->alpha + p * STEPS, sizeof *d * (size_t)steps);
    memcpy(e, z->beta + p * STEPS, sizeof *e * (size_t)steps);
    dstev_("V", &steps, d, e, v, &steps, work, &info, 1);
    *value = 0;
    for (int i = 0; i < steps; i++) {
        if (info != 0 || !(d[i] > 0))
            return status_fail(MOAO_NUMERIC,
                               "tlr_logdet_error: the matrix is not positive definite, or its "
                               "factor has nothing to do with it");
        *value += (double)z->n * v[i * steps] * v[i * steps] * log(d[i]);
    }
    return MOAO_OK;
}

/* Mean of the probes and its standard deviation. */
static status evaluate(lanczos *z, const int *steps) {
    double squares = 0, value;
    status st = MOAO_OK;
    z->value = 0;
    for (int64_t p = 0; p < z->k; p++) {
        TRY(quadrature(z, p, steps[p], &value));
        const double off = value - z->value;
        z->value += off / (double)(p + 1);
        squares += off * (value - z->value);
    }
    z->deviation = sqrt(squares / (double)(z->k * (z->k > 1 ? z->k - 1 : 1)));
done:
    return st;
}

/* Steps until the value changes by a tenth of its deviation or a thousandth of itself at most. */
static status run(lanczos *z, const residual *r, int *steps) {
    double *w = NULL, before = NAN;
    status st;
    TRY(ALLOC(w, (unsigned long)(z->n * z->k), "vectors of a determinant"));
    for (z->steps = 0; z->steps < STEPS; z->steps++) {
        bool all = true;
        memcpy(w, vector_of(z, z->steps, 0), sizeof *w * (size_t)(z->n * z->k));
        TRY(times_residual(r, w));
        for (int64_t p = 0; p < z->k; p++) {
            if (!z->ended[p]) {
                extend(z, p, w + p * z->n);
                steps[p] = z->steps + 1;
            }
            all = all && z->ended[p];
        }
        TRY(evaluate(z, steps));
        const double change = fabs(z->value - before);
        if (all || change <= fmax(0.1 * z->deviation, 1e-3 * fabs(z->value)))
            break;
        before = z->value;
    }
    z->deviation = hypot(z->deviation, isnan(before) ? 0 : z->value - before);
done:
    free(w);
    return st;
}

status tlr_logdet_error(const tlr *l, const tlr_source *of, int probes, uint64_t seed,
                        double *error, double *deviation) {
    residual r = {.l = l, .of = of, .n = l->rows->n, .k = probes};
    lanczos z = {.n = l->rows->n, .k = probes};
    int *steps = NULL;
    status st;
    *error = *deviation = 0;
    if (!l->factor || l->spread || probes < 2 || probes > 64 || of->layout != l->rows ||
        (of->a ? !of->a->symmetric || of->a->factor || of->a->rows != l->rows : !of->fill))
        return status_fail(MOAO_INPUT, "tlr_logdet_error: a factor that is not distributed, the "
                                       "matrix it was made of, and 2 to 64 vectors are needed");
    if (z.n == 0)
        return MOAO_OK;
    const unsigned long n = (unsigned long)z.n, k = (unsigned long)z.k;
    TRY(ALLOC(z.basis, (STEPS + 1) * n * k, "vectors of a determinant"));
    TRY(ALLOC(z.alpha, STEPS * k, "coefficients of a determinant"));
    TRY(ALLOC(z.beta, STEPS * k, "coefficients of a determinant"));
    TRY(ALLOC(z.ended, k, "vectors of a determinant"));
    TRY(ALLOC(steps, k, "vectors of a determinant"));
    TRY(residual_open(&r));
    for (int64_t p = 0; p < z.k; p++)
        for (int64_t i = 0; i < z.n; i++) {
            float v[4];
            backend_random(seed, i / 4, p, v);
            z.basis[p * z.n + i] = (v[i % 4] < 0 ? -1 : 1) / sqrt((double)z.n);
        }
    TRY(run(&z, &r, steps));
    *error = -z.value, *deviation = z.deviation;
done:
    residual_close(&r);
    free(z.basis), free(z.alpha), free(z.beta), free(z.ended), free(steps);
    return st;
}

/* --- condition -------------------------------------------------------------------------------- */

typedef struct {
    const tlr *l;
    bool inverse;
    double *x, *y;
} black_box;

static status multiply(void *arg, bool turned, double *v) {
    const black_box *b = arg;
    const int64_t n = b->l->rows->n;
    status st;
    (void)turned; /* L L^T is symmetric */
    TRY(copy(b->l, b->x, v, n));
    if (b->inverse) {
        TRY(tlr_solve(b->l, 'L', 'A', 1, b->x, n));
    } else {
        TRY(tlr_apply(b->l, 'L', 'T', 1, 1, b->x, n, 0, b->y, n));
        TRY(tlr_apply(b->l, 'L', 'N', 1, 1, b->y, n, 0, b->x, n));
    }
    st = copy(b->l, v, b->x, n);
done:
    return st;
}

status tlr_condition(const tlr *l, double *rcond) {
    black_box b = {.l = l};
    const int64_t n = l->rows->n;
    double norm, inverse;
    status st;
    *rcond = 1;
    if (!l->factor || l->spread)
        return status_fail(MOAO_INPUT,
                           "tlr_condition: the matrix is not a factor, or a distributed one");
    if (n == 0)
        return MOAO_OK;
    TRY(l->be->alloc(l->ctx, (size_t)(8 * n), (void **)&b.x));
    TRY(l->be->alloc(l->ctx, (size_t)(8 * n), (void **)&b.y));
    TRY(norm_estimate(n, multiply, &b, &norm));
    b.inverse = true;
    TRY(norm_estimate(n, multiply, &b, &inverse));
    *rcond = norm > 0 && isfinite(norm) && isfinite(inverse) ? 1 / norm / inverse : 0;
done:
    l->be->release(l->ctx, b.x), l->be->release(l->ctx, b.y);
    return st;
}
