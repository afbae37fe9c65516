/* What partly lit subapertures change of covariances that are made of whole squares. Model
 * section 4. */
#include "formula.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A layer's structure function. */
typedef struct {
    const structure_table *t;
    double kappa2;
} layer_function;

/* The polynomials of structure_add_portable at one separation. */
static inline double structure_at(const layer_function *f, double r2) {
    double s = fmin(fmax(f->kappa2 * r2, f->t->lo), f->t->hi), m;
    int64_t bits;
    memcpy(&bits, &s, sizeof bits);
    int64_t i = (bits >> STRUCTURE_SHIFT) - STRUCTURE_ZERO;
    i = (i & (STRUCTURE_HALF - 1)) + (i >> 3) * (STRUCTURE_TERMS * STRUCTURE_WINDOW);
    bits = (bits & STRUCTURE_REST) | STRUCTURE_ONE;
    memcpy(&m, &bits, sizeof m);
    m -= STRUCTURE_MIDDLE;
    double g = f->t->coef[i + (STRUCTURE_TERMS - 1) * STRUCTURE_WINDOW];
    for (int k = STRUCTURE_TERMS - 2; k >= 0; k--)
        g = g * m + f->t->coef[i + k * STRUCTURE_WINDOW];
    return g;
}

#define OUTLINE_WHERE
#define OUTLINE_LAYER const layer_function *
#define OUTLINE_STRUCTURE(layer, s) structure_at(layer, s)
#include "outline_formula.h"

static layer_function function_of(const layers *lay, int l) {
    return (layer_function){lay->table[l], lay->kappa[l] * lay->kappa[l]};
}

static bool outlined(const footprint *f, int k) {
    return f->outline.n > 0 && f->outline.number[k] >= 0;
}

/* Whether a separation q [m] is below so many root mean square sizes on the layer, 0: of a point.
 */
static bool is_below(double sizes, const double q[2], double size_a, double size_b) {
    return q[0] * q[0] + q[1] * q[1] < sizes * sizes * 0.5 * (size_a * size_a + size_b * size_b);
}

/* A pair of sensors on a layer, as the tables have it. */
typedef struct {
    const footprint *a, *b;
    gradient_relation r;
    const matcov_gradient *t;
    gradient_axes axes[2];
    double ca, cb, coef;
} pair;

static pair pair_of(const gradients *g, const layers *lay, int l, const footprint *a,
                    const footprint *b, double ca, double cb) {
    pair p = {.a = a, .b = b, .ca = ca, .cb = cb, .r = gradients_relation(g, a, b)};
    p.t = &g->tables[p.r.c->table[l]];
    p.coef = lay->coef[l] * p.r.scale;
    for (int axis = 0; axis < 2; axis++)
        p.axes[axis] = gradients_axes_of(&p.r, p.t->kinds, a, b, axis);
    return p;
}

/* Separation of parts i of the first and j of the second. */
static void between(const pair *p, const double q[2], int i, int j, double d[2]) {
    double pa[2], pb[2];
    gradients_part_at(p->a, p->r.step[0], p->r.parts[0], i, pa);
    gradients_part_at(p->b, p->r.step[1], p->r.parts[1], j, pb);
    for (int k = 0; k < 2; k++)
        d[k] = q[k] + p->ca * pa[k] - p->cb * pb[k];
}

/* What the tables have, with parts of squares of very different sizes. */
static void subtract_table(const gradients *g, const pair *p, const double q[2], double e[4]) {
    for (int i = 0; i < p->r.parts[0] * p->r.parts[0]; i++)
        for (int j = 0; j < p->r.parts[1] * p->r.parts[1]; j++) {
            double d[2];
            between(p, q, i, j, d);
            outline_table(p->t, g->values, p->axes, d[0], d[1], -p->coef, e);
        }
}

/* What the second moments of both add to them. */
static void add_moments(const gradients *g, const pair *p, int ka, int kb, const double q[2],
                        double e[4]) {
    for (int i = 0; i < p->r.parts[0] * p->r.parts[0]; i++)
        for (int j = 0; j < p->r.parts[1] * p->r.parts[1]; j++) {
            double d[2];
            between(p, q, i, j, d);
            if (outlined(p->a, ka))
                outline_moments(p->t, g->values, p->axes, &p->a->outline, p->a->outline.number[ka],
                                p->ca, d[0], d[1], p->coef, e);
            if (outlined(p->b, kb))
                outline_moments(p->t, g->values, p->axes, &p->b->outline, p->b->outline.number[kb],
                                p->cb, d[0], d[1], p->coef, e);
        }
}

void outline_add(const gradients *g, const layers *lay, int l, const footprint *a, int ka,
                 const footprint *b, int kb, double e[4]) {
    const bool oa = outlined(a, ka), ob = outlined(b, kb);
    outline_place pa, pb;
    if (!(oa || ob) || !footprint_metres(lay, l, a, &pa.c, pa.of) ||
        !footprint_metres(lay, l, b, &pb.c, pb.of))
        return;
    const double at[2] = {pa.c * a->centre[0][ka] + pa.of[0], pa.c * a->centre[1][ka] + pa.of[1]};
    const double bt[2] = {pb.c * b->centre[0][kb] + pb.of[0], pb.c * b->centre[1][kb] + pb.of[1]};
    const double q[2] = {at[0] - bt[0], at[1] - bt[1]};
    const bool always = a->outline.always || b->outline.always;
    const bool apart = !always && !is_below(OUTLINE_APART, q, a->size * pa.c, b->size * pb.c);
    const pair p = pair_of(g, lay, l, a, b, pa.c, pb.c);
    if (!always && !is_below(OUTLINE_RADIUS, q, a->size * pa.c, b->size * pb.c)) {
        if (a == b || is_below(OUTLINE_MOMENTS, q, a->size * pa.c, b->size * pb.c))
            add_moments(g, &p, ka, kb, q, e);
        return;
    }
    const layer_function f = function_of(lay, l);
    const double scale = lay->coef[l] * formula_slope_scale(1.0, 1.0);
    subtract_table(g, &p, q, e);
    if (oa && ob) {
        outline_pair(&f, &a->outline, a->outline.number[ka], &pa, &b->outline,
                     b->outline.number[kb], &pb, apart, scale, 0, 1, e);
        return;
    }
    const footprint *w = oa ? b : a, *o = oa ? a : b; /* the whole one and the other */
    const double turn[2] = {cos(w->rot), sin(w->rot)}, *to = oa ? bt : at;
    double v[4] = {0, 0, 0, 0}; /* axis of o + 2 axis of w */
    outline_whole(&g->tables[g->classes[g->phase_of[w->kind]].table[l]], g->values, &o->outline,
                  o->outline.number[oa ? ka : kb], oa ? &pa : &pb, to[0], to[1], turn, apart,
                  scale / w->size, v);
    for (int k = 0; k < 4; k++)
        e[k] += oa ? v[k] : v[k / 2 + 2 * (k % 2)];
}

void outline_add_phase(const gradients *g, const layers *lay, int l, double x, double y,
                       const footprint *f, int k, double scale, double e[2]) {
    outline_place p;
    const int table = g->classes[g->phase_of[f->kind]].table[l];
    if (!outlined(f, k) || table < 0 || !footprint_metres(lay, l, f, &p.c, p.of))
        return;
    const double q[2] = {x - p.c * f->centre[0][k] - p.of[0], y - p.c * f->centre[1][k] - p.of[1]};
    const bool apart = !f->outline.always && !is_below(OUTLINE_APART, q, 0.0, f->size * p.c);
    if (!f->outline.always && !is_below(OUTLINE_RADIUS, q, 0.0, f->size * p.c))
        return;
    const layer_function d = function_of(lay, l);
    const double turn[2] = {cos(f->rot), sin(f->rot)};
    double square[2];
    outline_point(&d, &f->outline, f->outline.number[k], &p, x, y, apart, scale * lay->coef[l], e);
    gradient_phases(&g->tables[table], g->values, turn, q[0], q[1], square);
    for (int i = 0; i < 2; i++)
        e[i] -= scale * lay->coef[l] / f->size * square[i];
}

static int subaperture(const gradient_slopes *s, int k) {
    return s->sub != NULL ? s->sub[k] : k;
}

void outline_squares(const gradients *g, const layers *lay, const gradient_slopes *rows,
                     const gradient_slopes *cols, double constant, double *work, double *a,
                     size_t ld) {
    const size_t m = (size_t)(rows->k1 - rows->k0), n = (size_t)(cols->k1 - cols->k0);
    gradient_slopes one = *cols;
    for (size_t j = 0; j < n; j++) {
        one.k0 = cols->k0 + (int)j, one.k1 = one.k0 + 1;
        double *to = a + j * ld;
        if (!outlined(cols->f, subaperture(cols, one.k0)))
            continue;
        gradients_fill(g, lay, rows, &one, work, rows->axis == 0 ? to : NULL,
                       rows->axis == 1 ? to : NULL, ld);
        for (size_t i = 0; i < m; i++)
            to[i] += constant;
    }
    one = *rows;
    for (size_t i = 0; i < m; i++) {
        one.k0 = rows->k0 + (int)i, one.k1 = one.k0 + 1;
        double *to = a + i;
        if (!outlined(rows->f, subaperture(rows, one.k0)))
            continue;
        gradients_fill(g, lay, &one, cols, work, rows->axis == 0 ? to : NULL,
                       rows->axis == 1 ? to : NULL, ld);
        for (size_t j = 0; j < n; j++)
            to[j * ld] += constant;
    }
}

void outline_correct(const gradients *g, const layers *lay, const gradient_slopes *rows,
                     const gradient_slopes *cols, double *const a[4], size_t ld) {
    if (rows->f->outline.n == 0 && cols->f->outline.n == 0)
        return;
    for (int j = cols->k0; j < cols->k1; j++)
        for (int i = rows->k0; i < rows->k1; i++) {
            const int ka = subaperture(rows, i), kb = subaperture(cols, j);
            const size_t at = (size_t)(i - rows->k0) + (size_t)(j - cols->k0) * ld;
            double e[4] = {0, 0, 0, 0};
            if (!outlined(rows->f, ka) && !outlined(cols->f, kb))
                continue;
            for (int l = 0; l < lay->n; l++)
                outline_add(g, lay, l, rows->f, ka, cols->f, kb, e);
            for (int k = 0; k < 4; k++)
                if (a[k] != NULL)
                    a[k][at] += e[k];
        }
}

/* Subtract the table's entries of the rows' subapertures with both axes of all of the columns', and
 * halve those with outlined ones. */
static void subtract_lattice(const like *t, bool reversed, const footprint *a, const footprint *b,
                             int axis_a, double *e, size_t ld) {
    static const int kinds[2][2] = {{LIKE_XX, LIKE_XY}, {LIKE_YX, LIKE_YY}};
    for (int k = 0; k < 2 * b->nsub; k++)
        for (int i = 0; i < a->outline.n; i++) {
            const int axis_b = k >= b->nsub, ka = a->outline.sub[i], kb = k - axis_b * b->nsub;
            const run *ra = &a->runs[a->run_of[ka]], *rb = &b->runs[b->run_of[kb]];
            const int sa = t->steps[reversed], sb = t->steps[!reversed], sign = reversed ? -1 : 1;
            const int x = sa * (ra->ix + ka - ra->first) - sb * (rb->ix + kb - rb->first);
            const int y = sa * ra->iy - sb * rb->iy;
            const int kind = reversed ? kinds[axis_b][axis_a] : kinds[axis_a][axis_b];
            double *to = e + (size_t)i + (size_t)k * ld;
            *to -= t->value[kind][(sign * y + t->origin) * t->n + sign * x + t->origin];
            if (outlined(b, kb))
                *to *= 0.5;
        }
}

status outline_of_lattice(const gradients *g, const layers *lay, const like *t, bool reversed,
                          double *e, size_t ld) {
    const footprint *a = reversed ? t->second : t->first, *b = reversed ? t->first : t->second;
    const size_t n = (size_t)a->outline.n, m = (size_t)b->nsub;
    gradient_slopes rows = {a, 0, 0, a->outline.n, a->outline.sub}, cols = {b, 0, 0, b->nsub, NULL};
    double *work = NULL, *const part[4] = {e, e + n, e + m * ld, e + n + m * ld};
    status st;
    TRY(ALLOC(work, 3 * n, "places of subapertures"));
    for (int axis = 0; axis < 2; axis++) {
        cols.axis = axis;
        gradients_fill(g, lay, &rows, &cols, work, part[2 * axis], part[2 * axis + 1], ld);
    }
    outline_correct(g, lay, &rows, &cols, part, ld);
    for (int axis = 0; axis < 2; axis++)
        subtract_lattice(t, reversed, a, b, axis, part[axis], ld);
done:
    free(work);
    return st;
}
