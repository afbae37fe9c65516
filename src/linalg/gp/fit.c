/* Parameters of the largest likelihood: the method of Broyden, Fletcher, Goldfarb and Shanno
 * (Nocedal and Wright, Numerical Optimization, 2006, section 6.1) in the logarithms of the free
 * parameters, projected on a box, with a line search by halving and interpolation. */
#include "internal.h"

#include <math.h>
#include <string.h>

enum { P = MOAO_GP_PARAMETERS };

/* x: logarithms of the free parameters; what is minimized is minus the likelihood's. */
typedef struct {
    moao_gp *g;
    gp_kernel k; /* the fixed parameters, and the form */
    int d, which[P];
    double low[P], high[P];
    int calls, most;
    double tol;
} search;

typedef struct {
    double x[P], cost, slope[P];
    gp_result r;
} point;

static double *parameter(gp_kernel *k, int p) {
    return p == MOAO_GP_VARIANCE ? &k->variance
           : p == MOAO_GP_SHAPE  ? &k->shape
           : p == MOAO_GP_NUGGET ? &k->nugget
                                 : &k->length[p - MOAO_GP_LENGTH];
}

/* A covariance that has no factor costs infinitely much. */
static status evaluate(search *s, point *at) {
    gp_kernel k = s->k;
    status st;
    for (int i = 0; i < s->d; i++) {
        double *p = parameter(&k, s->which[i]);
        *p = exp(at->x[i]);
        if (s->which[i] == MOAO_GP_SHAPE) /* rounding does not leave the range */
            *p = fmin(fmax(*p, 0.1), k.family == MOAO_GP_MATERN ? 50 : 2);
    }
    s->calls++;
    st = gp_likelihood(s->g, &k, true, 0, &at->r);
    at->cost = st == MOAO_OK ? -at->r.likelihood : INFINITY;
    for (int i = 0; i < s->d; i++)
        at->slope[i] = st == MOAO_OK ? -at->r.gradient[s->which[i]] : NAN;
    if (st == MOAO_NUMERIC) {
        status_clear();
        st = MOAO_OK;
    }
    return st;
}

/* At a bound, and downhill leads out. */
static bool blocked(const search *s, const point *at, int i) {
    return (at->x[i] <= s->low[i] && at->slope[i] > 0) ||
           (at->x[i] >= s->high[i] && at->slope[i] < 0);
}

/* Direction -H slope of the parameters that are not blocked; downhill, at most 1.5 (a factor
 * of 4.5) in each. Returns slope' direction. */
static double direction(const search *s, const point *at, double h[P][P], double *to) {
    double slope = 0, most = 0;
    for (int turn = 0; turn < 2; turn++) {
        slope = most = 0;
        for (int i = 0; i < s->d; i++) {
            to[i] = 0;
            for (int j = 0; j < s->d && !blocked(s, at, i); j++)
                to[i] -= blocked(s, at, j) ? 0 : h[i][j] * at->slope[j];
            slope += to[i] * at->slope[i];
            most = fmax(most, fabs(to[i]));
        }
        if (slope <= 0)
            break;
        for (int i = 0; i < s->d; i++) /* what is left of H was no minimum's: begin again */
            for (int j = 0; j < s->d; j++)
                h[i][j] = i == j ? 0.3 / (1e-300 + fabs(at->slope[i])) : 0;
    }
    const double by = most > 1.5 ? 1.5 / most : 1;
    for (int i = 0; i < s->d; i++)
        to[i] *= by;
    return by * slope;
}

/* H of the step taken and the change of slope; not where the curvature is not positive. */
static void update(const search *s, const point *from, const point *to, bool first,
                   double h[P][P]) {
    double step[P], change[P], hy[P] = {0}, sy = 0, yy = 0, yhy = 0;
    for (int i = 0; i < s->d; i++) {
        step[i] = to->x[i] - from->x[i], change[i] = to->slope[i] - from->slope[i];
        sy += step[i] * change[i], yy += change[i] * change[i];
    }
    if (!(sy > 1e-18 * yy))
        return;
    for (int i = 0; first && i < s->d; i++)
        for (int j = 0; j < s->d; j++)
            h[i][j] = i == j ? sy / yy : 0;
    for (int i = 0; i < s->d; i++)
        for (int j = 0; j < s->d; j++)
            hy[i] += h[i][j] * change[j];
    for (int i = 0; i < s->d; i++)
        yhy += change[i] * hy[i];
    for (int i = 0; i < s->d; i++)
        for (int j = 0; j < s->d; j++)
            h[i][j] +=
                (1 + yhy / sy) * step[i] * step[j] / sy - (hy[i] * step[j] + step[i] * hy[j]) / sy;
}

/* A lower point along the direction. *better: there is one. */
static status line_search(search *s, const point *from, const double *to, double slope, point *at,
                          bool *better) {
    double t = 1;
    status st = MOAO_OK;
    *better = false;
    for (int turn = 0; turn < 12 && s->calls < s->most && !*better; turn++) {
        for (int i = 0; i < s->d; i++)
            at->x[i] = fmin(fmax(from->x[i] + t * to[i], s->low[i]), s->high[i]);
        TRY(evaluate(s, at));
        *better = at->cost <= from->cost + 1e-4 * t * slope;
        const double parabola = -slope * t / (2 * ((at->cost - from->cost) / t - slope));
        t = isfinite(at->cost) && parabola > 0.1 * t && parabola < 0.5 * t ? parabola : 0.25 * t;
    }
done:
    return st;
}

static status minimize(search *s, point *at, bool *converged) {
    double h[P][P] = {{0}}, to[P];
    bool better = true;
    status st = MOAO_OK;
    for (int i = 0; i < s->d; i++)
        h[i][i] = 0.3 / (1e-300 + fabs(at->slope[i]));
    *converged = false;
    for (bool first = true; s->calls < s->most; first = false) {
        const double slope = direction(s, at, h, to);
        point next = *at;
        if (-slope / 2 <= s->tol * (first ? 1e-3 : 1)) {
            *converged = true;
            break;
        }
        TRY(line_search(s, at, to, slope, &next, &better));
        if (!better) /* below what compression and rounding leave of the likelihood */
            break;
        update(s, at, &next, first, h);
        *at = next;
    }
done:
    return st;
}

/* Covariances and standard errors: the inverse of the second derivatives, by central
 * differences of the slopes; NaN where one steps over a bound or the matrix is not positive. */
static status standard_errors(search *s, const point *best, gp_fit_result *r) {
    const double h = 0.02;
    double a[P][2 * P] = {{0}};
    const int d = s->d;
    status st = MOAO_OK;
    for (int i = 0; i < d; i++) {
        for (int side = -1; side <= 1; side += 2) {
            point at = *best;
            at.x[i] += side * h;
            at.slope[0] = NAN;
            if (at.x[i] >= s->low[i] && at.x[i] <= s->high[i])
                TRY(evaluate(s, &at));
            else
                for (int j = 0; j < d; j++)
                    at.slope[j] = NAN;
            for (int j = 0; j < d; j++)
                a[i][j] += side * at.slope[j] / (2 * h);
        }
        a[i][d + i] = 1;
    }
    for (int i = 0; i < d; i++)
        for (int j = 0; j < i; j++)
            a[i][j] = a[j][i] = (a[i][j] + a[j][i]) / 2;
    for (int k = 0; k < d; k++) /* Gauss and Jordan; a pivot is positive at a minimum */
        for (int i = 0; i < d; i++) {
            const double by = i == k ? 1 - 1 / a[k][k] : a[i][k] / a[k][k];
            for (int j = 0; j < 2 * d; j++)
                a[i][j] -= by * (a[k][k] > 0 ? a[k][j] : NAN);
        }
    for (int i = 0; i < d; i++) {
        r->error[s->which[i]] = sqrt(a[i][d + i]);
        for (int j = 0; j < d; j++)
            r->covariance[s->which[i]][s->which[j]] = a[i][d + j];
    }
done:
    return st;
}

/* Bounds of a parameter around its start. */
static status bounds(search *s, const gp_fit_options *o, int p) {
    gp_kernel low = o->low ? *o->low : s->k, high = o->high ? *o->high : s->k;
    const double start = *parameter(&s->k, p);
    double from = *parameter(&low, p), to = *parameter(&high, p);
    if (!o->low)
        from = p == MOAO_GP_SHAPE    ? 0.1
               : p == MOAO_GP_NUGGET ? fmax(1e-5 * start, 1e-10 * s->k.variance)
                                     : 1e-5 * start;
    if (!o->high)
        to = p == MOAO_GP_SHAPE ? (s->k.family == MOAO_GP_MATERN ? 50 : 2) : 1e5 * start;
    if (p == MOAO_GP_NUGGET && start == 0)
        return status_fail(MOAO_INPUT, "fit: the nugget is to be estimated in its logarithm: give "
                                       "a start above 0");
    if (!(from > 0 && from <= start && start <= to && isfinite(to)))
        return status_fail(MOAO_INPUT, "fit: parameter %d starts at %g, its bounds are %g and %g",
                           p, start, from, to);
    s->which[s->d] = p;
    s->low[s->d] = log(from), s->high[s->d] = log(to);
    s->d++;
    return MOAO_OK;
}

static status free_parameters(search *s, const gp_fit_options *o) {
    const unsigned shape = 1u << MOAO_GP_SHAPE, all = (1u << P) - 1;
    const unsigned of = o->free ? o->free : all & ~shape;
    status st = MOAO_OK;
    if (of & ~all)
        return status_fail(MOAO_INPUT, "fit: free parameters %#x: bits of %d are known", of, P);
    for (int p = 0; p < P; p++) {
        const bool length = p >= MOAO_GP_LENGTH && p < MOAO_GP_SHAPE;
        if (length
                ? !(of & 1u << MOAO_GP_LENGTH) || p - MOAO_GP_LENGTH >= gp_lengths(&s->k, s->g->dim)
                : !(of & 1u << p))
            continue;
        if (p == MOAO_GP_SHAPE && s->k.family == MOAO_GP_SQUARED_EXPONENTIAL)
            return status_fail(MOAO_INPUT, "fit: the squared exponential has no shape");
        TRY(bounds(s, o, p));
    }
    if (s->g->n < s->d)
        st = status_fail(MOAO_INPUT, "fit: %lld data for %d parameters", (long long)s->g->n, s->d);
done:
    return st;
}

status gp_fit(moao_gp *g, const gp_kernel *start, const gp_fit_options *o, gp_fit_result *r) {
    static const gp_fit_options none = {0};
    const gp_fit_options with = o ? *o : none;
    search s = {.g = g, .k = *start, .most = with.most > 0 ? with.most : 200};
    gp_fit_result to = {0};
    point at = {0};
    status st;
    s.tol = with.tol > 0 ? with.tol : 1e-5;
    TRY(gp_check_kernel(start, g->dim));
    TRY(free_parameters(&s, &with));
    for (int i = 0; i < s.d; i++)
        at.x[i] = log(*parameter(&s.k, s.which[i]));
    TRY(evaluate(&s, &at));
    if (!isfinite(at.cost)) /* why */
        TRY(gp_likelihood(g, start, true, 0, &at.r));
    TRY(minimize(&s, &at, &to.converged));
    TRY(standard_errors(&s, &at, &to));
    const gp_kernel best = at.r.kernel;
    TRY(gp_likelihood(g, &best, true, with.probes, &to.at));
    to.evaluations = s.calls;
    *r = to;
done:
    if (st != MOAO_OK)
        gp_drop_factor(g);
    return st;
}
