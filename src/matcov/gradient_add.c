/* Covariances of mean gradients from their tables. Model section 4. One evaluation at a separation
 * gives those of both axes of the rows. */
#include "gradient_kernels.h"
#include "matcov.h"
#include "moao/clones.h"

#include <string.h>

/* An entry that is near, along and across the axis (cos, sin) = turn. */
static void list(near_places *p, size_t e, const double turn[2], double dx, double dy) {
    p->entry[p->n] = (int32_t)e;
    p->x[p->n] = turn[0] * dx + turn[1] * dy;
    p->y[p->n] = turn[0] * dy - turn[1] * dx;
    p->n++;
}

CLONES static void add_far(const matcov_gradient *t, const double *radial,
                           const gradient_axes *axes, size_t n, const double *x, const double *y,
                           double x0, double y0, double coef, double *f, double *g,
                           near_places *places) {
    const double c = axes->rows[0], s1 = axes->rows[1], vx = axes->v[0], vy = axes->v[1];
    const double along = c * vx + s1 * vy, across = c * vy - s1 * vx;
    places->n = 0;
    for (size_t e = 0; e < n; e++) {
        const double dx = x[e] - x0, dy = y[e] - y0, s = dx * dx + dy * dy;
        double m;
        if (s < t->near2) {
            list(places, e, axes->turn, dx, dy);
            continue;
        }
        const double *k = radial + (size_t)gradient_interval(t, s, &m) * 2 * GRADIENT_TERMS;
        const double P = coef * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
        const double q = coef * (vx * dx + vy * dy) * (k[4] + m * (k[5] + m * (k[6] + m * k[7])));
        f[e] += along * P + (c * dx + s1 * dy) * q;
        g[e] += across * P + (c * dy - s1 * dx) * q;
    }
}

CLONES static void add_far_axes(const matcov_gradient *t, const double *radial,
                                const gradient_axes axes[2], size_t n, const double *x,
                                const double *y, double x0, double y0, double coef,
                                double *const out[4], near_places *places) {
    const double c = axes[0].rows[0], s1 = axes[0].rows[1];
    places->n = 0;
    for (size_t e = 0; e < n; e++) {
        const double dx = x[e] - x0, dy = y[e] - y0, s = dx * dx + dy * dy;
        double m;
        if (s < t->near2) {
            list(places, e, axes[0].turn, dx, dy);
            continue;
        }
        const double *k = radial + (size_t)gradient_interval(t, s, &m) * 2 * GRADIENT_TERMS;
        const double P = coef * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
        const double Q = k[4] + m * (k[5] + m * (k[6] + m * k[7]));
        for (int b = 0; b < 2; b++) {
            const double vx = axes[b].v[0], vy = axes[b].v[1], q = coef * (vx * dx + vy * dy) * Q;
            out[2 * b][e] += (c * vx + s1 * vy) * P + (c * dx + s1 * dy) * q;
            out[2 * b + 1][e] += (c * vy - s1 * vx) * P + (c * dy - s1 * dx) * q;
        }
    }
}

CLONES static void add_far_phase(const matcov_gradient *t, const double *radial,
                                 const double turn[2], size_t n, const double *x, const double *y,
                                 double x0, double y0, double coef, double *f, double *g,
                                 near_places *places) {
    places->n = 0;
    for (size_t e = 0; e < n; e++) {
        const double dx = x[e] - x0, dy = y[e] - y0, s = dx * dx + dy * dy;
        double m;
        if (s < t->near2) {
            list(places, e, turn, dx, dy);
            continue;
        }
        const double *k = radial + (size_t)gradient_interval(t, s, &m) * 2 * GRADIENT_TERMS;
        const double P = coef * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
        f[e] += (turn[0] * dx + turn[1] * dy) * P;
        g[e] += (turn[0] * dy - turn[1] * dx) * P;
    }
}

static void list_single(near_single *p, size_t e, const double turn[2], float dx, float dy) {
    p->entry[p->n] = (int32_t)e;
    p->x[p->n] = (float)turn[0] * dx + (float)turn[1] * dy;
    p->y[p->n] = (float)turn[0] * dy - (float)turn[1] * dx;
    p->n++;
}

CLONES static void add_single_both(const gradient_single *table, const gradient_axes axes[2],
                                   size_t n, const float *x, const float *y, float x0, float y0,
                                   float coef, float *const out[4], near_single *places) {
    const matcov_gradient *t = table->t;
    const float c = (float)axes[0].rows[0], s1 = (float)axes[0].rows[1], near2 = table->near2;
    places->n = 0;
    for (size_t e = 0; e < n; e++) {
        const float dx = x[e] - x0, dy = y[e] - y0, s = dx * dx + dy * dy;
        float m;
        if (s < near2) {
            list_single(places, e, axes[0].turn, dx, dy);
            continue;
        }
        const float *k = table->radial + gradient_interval_single(t, s, &m) * 2 * GRADIENT_TERMS;
        const float P = coef * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
        const float Q = coef * (k[4] + m * (k[5] + m * (k[6] + m * k[7])));
        for (int b = 0; b < 2; b++) {
            const float vx = (float)axes[b].v[0], vy = (float)axes[b].v[1];
            const float q = (vx * dx + vy * dy) * Q;
            out[2 * b][e] += (c * vx + s1 * vy) * P + (c * dx + s1 * dy) * q;
            out[2 * b + 1][e] += (c * vy - s1 * vx) * P + (c * dy - s1 * dx) * q;
        }
    }
}

CLONES static void add_single_phase(const gradient_single *table, const double turn[2], size_t n,
                                    const float *x, const float *y, float x0, float y0, float coef,
                                    float *const out[2], near_single *places) {
    const matcov_gradient *t = table->t;
    const float c = (float)turn[0], s1 = (float)turn[1], near2 = table->near2;
    places->n = 0;
    for (size_t e = 0; e < n; e++) {
        const float dx = x[e] - x0, dy = y[e] - y0, s = dx * dx + dy * dy;
        float m;
        if (s < near2) {
            list_single(places, e, turn, dx, dy);
            continue;
        }
        const float *k = table->radial + gradient_interval_single(t, s, &m) * 2 * GRADIENT_TERMS;
        const float P = coef * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
        out[0][e] += (c * dx + s1 * dy) * P;
        out[1][e] += (c * dy - s1 * dx) * P;
    }
}

CLONES static void find_places(const matcov_gradient *t, near_places *p) {
    for (int e = 0; e < p->n; e++) {
        const int grid = !(fabs(p->x[e]) < t->inner && fabs(p->y[e]) < t->inner);
        const double ax = (p->x[e] + t->half[grid]) * t->inverse[grid],
                     ay = (p->y[e] + t->half[grid]) * t->inverse[grid];
        const int64_t i = (int64_t)ax, j = (int64_t)ay, n = t->side[grid];
        double wx[4], wy[4];
        gradient_spline(ax - (double)i, wx);
        gradient_spline(ay - (double)j, wy);
        p->from[e] = ((grid ? gradient_cells(t, 0) : 0) + (j - 1) * n + i - 1) * t->kinds;
        p->step[e] = n * t->kinds;
        for (int k = 0; k < 4; k++)
            p->wx[k][e] = wx[k], p->wy[k][e] = wy[k];
    }
}

/* `count` of `kinds` kinds, which a grid has side by side: what is in a row of it of the four
 * places of a separation is summed over the rows first. */
static inline __attribute__((always_inline)) void add_places(const near_places *p,
                                                             const double *near, int kinds,
                                                             int count, const int *kind,
                                                             double coef, double *const *out) {
    for (int e = 0; e < p->n; e++) {
        const double *c = near + p->from[e];
        const int64_t step = p->step[e];
        const double w0 = p->wy[0][e], w1 = p->wy[1][e], w2 = p->wy[2][e], w3 = p->wy[3][e];
        double s[4 * 4] = {0};
#pragma omp simd
        for (int k = 0; k < 4 * kinds; k++)
            s[k] = (w0 * c[k] + w1 * c[k + step]) + (w2 * c[k + 2 * step] + w3 * c[k + 3 * step]);
        for (int a = 0; a < count; a++) {
            const double *const of = s + kind[a];
            out[a][p->entry[e]] +=
                coef * (p->wx[0][e] * of[0] + p->wx[1][e] * of[kinds] +
                        (p->wx[2][e] * of[2 * kinds] + p->wx[3][e] * of[3 * kinds]));
        }
    }
}

CLONES void gradient_near_phase(const near_places *p, const double *near, double coef,
                                double *const out[2]) {
    static const int kind[2] = {0, 1};
    add_places(p, near, 2, 2, kind, coef, out);
}

CLONES static void add_upright(const near_places *p, const double *near, const int kind[2],
                               double coef, double *const out[2]) {
    add_places(p, near, 3, 2, kind, coef, out);
}

CLONES static void add_turned(const near_places *p, const double *near, const int kind[2],
                              double coef, double *const out[2]) {
    add_places(p, near, 4, 2, kind, coef, out);
}

CLONES static void add_upright_axes(const near_places *p, const double *near, const int kind[4],
                                    double coef, double *const out[4]) {
    add_places(p, near, 3, 4, kind, coef, out);
}

CLONES static void add_turned_axes(const near_places *p, const double *near, const int kind[4],
                                   double coef, double *const out[4]) {
    add_places(p, near, 4, 4, kind, coef, out);
}

void gradient_near_axes(const near_places *p, const double *near, int kinds, const int kind[4],
                        double coef, double *const out[4]) {
    (kinds == 3 ? add_upright_axes : add_turned_axes)(p, near, kind, coef, out);
}

/* --- in single precision */

CLONES static void find_places_single(const matcov_gradient *t, int kinds, near_single *p) {
    const float inner = (float)t->inner, half[2] = {(float)t->half[0], (float)t->half[1]},
                inverse[2] = {(float)t->inverse[0], (float)t->inverse[1]};
    const int32_t second = gradient_cells(t, 0), side[2] = {t->side[0], t->side[1]};
    for (int e = 0; e < p->n; e++) {
        const float x = p->x[e], y = p->y[e];
        const int grid = !((fabsf(x) < inner) & (fabsf(y) < inner));
        const float h = grid ? half[1] : half[0], w = grid ? inverse[1] : inverse[0];
        const float ax = (x + h) * w, ay = (y + h) * w;
        const int32_t i = (int32_t)ax, j = (int32_t)ay, n = grid ? side[1] : side[0];
        const float fx = ax - (float)i, fy = ay - (float)j, gx = 1 - fx, gy = 1 - fy;
        const float sixth = 1.0f / 6, most = 2.0f / 3;
        p->from[e] = ((grid ? second : 0) + (j - 1) * n + i - 1) * kinds;
        p->step[e] = n * kinds;
        p->wx[0][e] = sixth * gx * gx * gx, p->wy[0][e] = sixth * gy * gy * gy;
        p->wx[1][e] = most - 0.5f * fx * fx * (1 + gx),
        p->wy[1][e] = most - 0.5f * fy * fy * (1 + gy);
        p->wx[2][e] = most - 0.5f * gx * gx * (1 + fx),
        p->wy[2][e] = most - 0.5f * gy * gy * (1 + fy);
        p->wx[3][e] = sixth * fx * fx * fx, p->wy[3][e] = sixth * fy * fy * fy;
    }
}

/* All of `kinds` kinds, 2 or 4, at the places of the near entries. */
static inline __attribute__((always_inline)) void add_places_single(const near_single *p,
                                                                    const float *near, int kinds,
                                                                    const int *kind, int count,
                                                                    float coef, float *const *out) {
    for (int e = 0; e < p->n; e++) {
        const float *c = near + p->from[e];
        const int64_t step = p->step[e];
        const float w0 = p->wy[0][e], w1 = p->wy[1][e], w2 = p->wy[2][e], w3 = p->wy[3][e];
        float s[4 * 4], sum[4] = {0};
#pragma omp simd
        for (int k = 0; k < 4 * kinds; k++)
            s[k] = (w0 * c[k] + w1 * c[k + step]) + (w2 * c[k + 2 * step] + w3 * c[k + 3 * step]);
#pragma omp simd
        for (int k = 0; k < kinds; k++)
            sum[k] = coef * ((p->wx[0][e] * s[k] + p->wx[1][e] * s[k + kinds]) +
                             (p->wx[2][e] * s[k + 2 * kinds] + p->wx[3][e] * s[k + 3 * kinds]));
        for (int a = 0; a < count; a++)
            out[a][p->entry[e]] += sum[kind[a]];
    }
}

CLONES static void add_single_near(const near_single *p, const float *near, const int kind[4],
                                   float coef, float *const out[4]) {
    add_places_single(p, near, 4, kind, 4, coef, out);
}

CLONES static void add_single_near_phase(const near_single *p, const float *near, float coef,
                                         float *const out[2]) {
    static const int kind[2] = {0, 1};
    add_places_single(p, near, 2, kind, 2, coef, out);
}

static const gradient_kernels plain = {
    add_far,          add_far_axes, add_far_phase,       add_single_both,
    add_single_phase, find_places,  gradient_near_phase, gradient_near_axes};

const gradient_kernels *gradient_kernels_plain(void) {
    return &plain;
}

/* Chosen at the first call. */
static const gradient_kernels *best(void) {
    static _Atomic(const gradient_kernels *) chosen;
    const gradient_kernels *k = chosen;
    if (k == NULL) {
        static gradient_kernels avx2;
        k = gradient_kernels_avx512();
#pragma omp critical(gradient_kernels)
        if (k == NULL) {
            gradient_kernels with = plain;
            (void)gradient_kernels_avx2(&with);
            avx2 = with;
            k = &avx2;
        }
        chosen = k;
    }
    return k;
}

bool matcov_wide(void) {
    return gradient_kernels_avx512() != NULL;
}

void gradient_add(const matcov_gradient *table, const double *values, const gradient_axes *axes,
                  size_t n, const double *x, const double *y, double x0, double y0, double coef,
                  double *f, double *g) {
    const gradient_kernels *k = best();
    near_places p;
    while (n > 0) {
        const size_t some = n < GRADIENT_AT_ONCE ? n : GRADIENT_AT_ONCE;
        k->far(table, values + table->radial, axes, some, x, y, x0, y0, coef, f, g, &p);
        k->places(table, &p);
        (table->kinds == 3 ? add_upright : add_turned)(&p, values + table->near, axes->kind, coef,
                                                       (double *const[]){f, g});
        n -= some, x += some, y += some, f += some, g += some;
    }
}

void gradient_add_axes(const matcov_gradient *table, const double *values,
                       const gradient_axes axes[2], size_t n, const double *x, const double *y,
                       double x0, double y0, double coef, double *const out[4]) {
    const gradient_kernels *k = best();
    const int kind[4] = {axes[0].kind[0], axes[0].kind[1], axes[1].kind[0], axes[1].kind[1]};
    near_places p;
    for (size_t at = 0, some; at < n; at += some) {
        double *const to[4] = {out[0] + at, out[1] + at, out[2] + at, out[3] + at};
        some = n - at < GRADIENT_AT_ONCE ? n - at : GRADIENT_AT_ONCE;
        k->far_axes(table, values + table->radial, axes, some, x + at, y + at, x0, y0, coef, to,
                    &p);
        if (p.n == 0)
            continue;
        k->places(table, &p);
        k->near_axes(&p, values + table->near, table->kinds, kind, coef, to);
    }
}

void gradient_add_phase(const matcov_gradient *table, const double *values, const double turn[2],
                        size_t n, const double *x, const double *y, double x0, double y0,
                        double coef, double *f, double *g) {
    const gradient_kernels *k = best();
    near_places p;
    while (n > 0) {
        const size_t some = n < GRADIENT_AT_ONCE ? n : GRADIENT_AT_ONCE;
        k->far_phase(table, values + table->radial, turn, some, x, y, x0, y0, coef, f, g, &p);
        if (p.n > 0) {
            k->places(table, &p);
            k->near_phase(&p, values + table->near, coef, (double *const[]){f, g});
        }
        n -= some, x += some, y += some, f += some, g += some;
    }
}

int gradient_add_phase_far(const matcov_gradient *table, const double *values, const double turn[2],
                           int n, const double *x, const double *y, const double at[2], double coef,
                           double *f, double *g, int near[GRADIENT_AT_ONCE]) {
    near_places p;
    best()->far_phase(table, values + table->radial, turn, (size_t)n, x, y, at[0], at[1], coef, f,
                      g, &p);
    for (int i = 0; i < p.n; i++)
        near[i] = p.entry[i];
    return p.n;
}

void gradient_add_both(const gradient_single *table, const gradient_axes axes[2], size_t n,
                       const float *x, const float *y, float x0, float y0, float coef,
                       float *const out[4]) {
    const gradient_kernels *k = best();
    const int kind[4] = {axes[0].kind[0], axes[0].kind[1], axes[1].kind[0], axes[1].kind[1]};
    near_single p;
    for (size_t at = 0, some; at < n; at += some) {
        float *const f[4] = {out[0] + at, out[1] + at, out[2] + at, out[3] + at};
        some = n - at < GRADIENT_AT_ONCE ? n - at : GRADIENT_AT_ONCE;
        k->both(table, axes, some, x + at, y + at, x0, y0, coef, f, &p);
        if (p.n == 0)
            continue;
        find_places_single(table->t, 4, &p);
        add_single_near(&p, table->near, kind, coef, f);
    }
}

void gradient_add_phase_single(const gradient_single *table, const double turn[2], size_t n,
                               const float *x, const float *y, float x0, float y0, float coef,
                               float *const out[2]) {
    const gradient_kernels *k = best();
    near_single p;
    for (size_t at = 0, some; at < n; at += some) {
        float *const f[2] = {out[0] + at, out[1] + at};
        some = n - at < GRADIENT_AT_ONCE ? n - at : GRADIENT_AT_ONCE;
        k->phase(table, turn, some, x + at, y + at, x0, y0, coef, f, &p);
        if (p.n == 0)
            continue;
        find_places_single(table->t, 2, &p);
        add_single_near_phase(&p, table->near, coef, f);
    }
}
