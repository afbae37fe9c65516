/* Correlations of the kernels of moao/gp.h.
 *
 * Matern of any nu: with t = sqrt(2 nu) d, f = 2 (t / 2)^nu / Gamma(nu) K_nu(t) and
 * K_nu(t) = int_0^inf exp(-t cosh u) cosh(nu u) du (Abramowitz and Stegun, 9.6.24), by the
 * trapezoidal rule, which converges geometrically; dK_nu / dnu by the derivative of the integrand;
 * t df/dt = -2 (t / 2)^nu / Gamma(nu) t K_(nu-1)(t). Tabulated in log t, where all are smooth, and
 * interpolated by polynomials through eight values: to about 1e-14. */
#include "radial.h"
#include "../core/radial_formula.h"

#include <math.h>
#include <stdlib.h>

static const double last_log = 6.62; /* t = 750: f below 1e-300 of large nu as well */
static const double du = 0.0625;     /* of the trapezoidal rule */

static bool closed(const gp_radial *r) {
    return r->family != MOAO_GP_MATERN || radial_matern_closed(r->shape);
}

/* Derivative of log Gamma: recurrence to x >= 8, and the asymptotic series (Abramowitz and Stegun,
 * 6.3.18). */
static double digamma(double x) {
    double sum = 0;
    for (; x < 8; x++)
        sum -= 1 / x;
    const double y = 1 / (x * x);
    return sum + log(x) - 0.5 / x -
           y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
}

/* f, df / dlog d and df / dlog nu at t. Terms are exponentials of sums of logarithms: none
 * overflows. */
static void matern(double nu, double t, double *f, double *g, double *s) {
    const double c = nu * log(t / 2) - lgamma(nu), mu = nu - 1;
    double k = 0, ku = 0, lower = 0;
    for (int i = 0;; i++) {
        const double u = du * i, w = i == 0 ? 0.5 : 1, base = c - t * cosh(u);
        const double up = exp(base + nu * u), down = exp(base - nu * u),
                     low = t * (exp(base + mu * u) + exp(base - mu * u));
        k += w * (up + down), ku += w * u * (up - down), lower += w * low;
        /* past the largest term, and what follows adds nothing */
        if (t * sinh(u) > nu + 1 && up * (1 + u) + low <= 1e-18 * (k + lower))
            break;
    }
    *f = du * k, *g = -du * lower;
    const double by_nu = (log(t / 2) - digamma(nu)) * *f + du * ku; /* at constant t */
    *s = nu * by_nu + *g / 2;                                       /* t = sqrt(2 nu) d */
}

void gp_radial_free(gp_radial *r) {
    for (int i = 0; i < 3; i++)
        free(r->table[i]);
    *r = (gp_radial){0};
}

status gp_radial_set(gp_radial *r, const gp_kernel *k, bool of_shape) {
    status st = MOAO_OK;
    if (r->family == k->family && r->shape == k->shape && r->steps > 0)
        return MOAO_OK;
    gp_radial_free(r);
    r->family = k->family;
    r->shape = k->family == MOAO_GP_SQUARED_EXPONENTIAL ? 2 : k->shape;
    r->scale = sqrt(2 * r->shape);
    if (closed(r) && !(of_shape && r->family == MOAO_GP_MATERN))
        return MOAO_OK;
    const double nu = r->shape;
    r->first = -40 / fmin(2, 2 * nu); /* 1 - f is of order t^min(2, 2 nu) */
    const int64_t steps = (int64_t)((last_log - r->first) / RADIAL_STEP) + 1;
    for (int i = 0; i < 3; i++)
        TRY(ALLOC(r->table[i], (size_t)steps, "table of a kernel"));
#pragma omp parallel for schedule(dynamic, 64)
    for (int64_t i = 0; i < steps; i++)
        matern(nu, exp(r->first + RADIAL_STEP * (double)i), r->table[0] + i, r->table[1] + i,
               r->table[2] + i);
    r->steps = steps;
done:
    if (st != MOAO_OK)
        gp_radial_free(r);
    return st;
}

static bool place(const gp_radial *r, double square, int64_t *at, double w[8]) {
    return radial_place(r->first, r->steps, 0.5 * log(square) + log(r->scale), at, w);
}

static double in_closed_form(const gp_radial *r, double square) {
    if (r->family == MOAO_GP_SQUARED_EXPONENTIAL)
        return exp(-square / 2);
    if (r->family == MOAO_GP_POWERED_EXPONENTIAL)
        return radial_powered(r->shape, square);
    return radial_matern(r->shape, r->scale * sqrt(square));
}

double gp_radial_value(const gp_radial *r, double square) {
    double w[8];
    int64_t at;
    if (closed(r))
        return in_closed_form(r, square);
    if (!place(r, square, &at, w))
        return at < 0 ? 1 : 0;
    return radial_weighted(r->table[0] + at, w);
}

void gp_radial_all(const gp_radial *r, double square, bool of_shape, double *f, double *g,
                   double *s) {
    double w[8];
    int64_t at;
    *f = 1, *g = *s = 0;
    if (square == 0)
        return;
    if (r->family == MOAO_GP_SQUARED_EXPONENTIAL) {
        *f = exp(-square / 2);
        *g = -square * *f;
    } else if (r->family == MOAO_GP_POWERED_EXPONENTIAL) {
        const double power = pow(square, r->shape / 2);
        *f = exp(-power);
        *g = -r->shape * power * *f;
        *s = *g * log(square) / 2; /* p d(-d^p)/dp = -p d^p log d */
    } else if (closed(r) && !of_shape) {
        const double t = r->scale * sqrt(square), e = exp(-t);
        *f = in_closed_form(r, square);
        *g = r->shape == 0.5 ? -t * e : r->shape == 1.5 ? -t * t * e : -t * t * (1 + t) / 3 * e;
    } else if (place(r, square, &at, w)) {
        *f = radial_weighted(r->table[0] + at, w);
        *g = radial_weighted(r->table[1] + at, w);
        *s = radial_weighted(r->table[2] + at, w);
    } else if (at >= 0) {
        *f = 0;
    }
}
