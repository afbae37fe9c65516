/* Blocks and tables of the covariances of sensors that measure mean gradients. Model section 4. */
#include "formula.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

gradient_relation gradients_relation(const gradients *g, const footprint *a, const footprint *b) {
    gradient_relation r;
    r.c = &g->classes[gradients_class(g, a, b, &r.swapped)];
    r.parts[0] = r.c->parts[r.swapped];
    r.parts[1] = r.c->parts[!r.swapped];
    r.step[0] = r.c->size[r.swapped];
    r.step[1] = r.c->size[!r.swapped];
    double n = (double)r.parts[0] * r.parts[0] * r.parts[1] * r.parts[1];
    r.scale = formula_slope_scale(r.c->size[0], r.c->size[1]) / n;
    return r;
}

gradient_axes gradients_axes_of(const gradient_relation *r, int kinds, const footprint *a,
                                const footprint *b, int axis_b) {
    const double rot = r->swapped ? b->rot : a->rot;
    gradient_axes x = {.rows = {cos(a->rot), sin(a->rot)}, .turn = {cos(rot), sin(rot)}};
    for (int axis = 0; axis < 2; axis++)
        x.kind[axis] =
            r->swapped ? gradient_kind(kinds, axis_b, axis) : gradient_kind(kinds, axis, axis_b);
    x.v[0] = axis_b == 0 ? cos(b->rot) : -sin(b->rot);
    x.v[1] = axis_b == 0 ? sin(b->rot) : cos(b->rot);
    return x;
}

void gradients_axes(const gradients *g, const footprint *a, const footprint *b, int kinds,
                    gradient_axes axes[2]) {
    const gradient_relation r = gradients_relation(g, a, b);
    for (int axis = 0; axis < 2; axis++)
        axes[axis] = gradients_axes_of(&r, kinds, a, b, axis);
}

const matcov_gradient *gradients_table(const gradients *g, int l, const footprint *a,
                                       const footprint *b, double *scale) {
    const gradient_relation r = gradients_relation(g, a, b);
    *scale = r.scale;
    return r.c->table[l] >= 0 ? &g->tables[r.c->table[l]] : NULL;
}

const matcov_gradient *gradients_phase(const gradients *g, int l, const footprint *f,
                                       double *scale) {
    const int table = g->classes[g->phase_of[f->kind]].table[l];
    *scale = formula_phase_scale(f->size);
    return table >= 0 ? &g->tables[table] : NULL;
}

/* Numbers of the grids in single precision. */
static size_t near_single_size(const matcov_gradient *t) {
    return gradient_near_size(t) / (size_t)t->kinds * (t->kinds == 2 ? 2 : 4);
}

static void fill_single(const gradients *g, const matcov_gradient *t, float *value,
                        gradient_single *to) {
    const size_t kinds = (size_t)t->kinds, wide = kinds == 2 ? 2 : 4;
    const size_t cells = gradient_near_size(t) / kinds;
    float *near = value + GRADIENT_LINES;
    for (size_t k = 0; k < GRADIENT_LINES; k++)
        value[k] = (float)g->values[t->radial + k];
    for (size_t c = 0; c < cells; c++)
        for (size_t k = 0; k < kinds; k++)
            near[c * wide + k] = (float)g->values[t->near + c * kinds + k];
    *to = (gradient_single){t, value, near, (float)t->near2};
}

status gradients_single(const gradients *g, const bool *wanted, gradient_single **tables,
                        float **values) {
    size_t n = 0;
    status st;
    for (int i = 0; i < g->ntable; i++)
        n += wanted[i] ? GRADIENT_LINES + near_single_size(&g->tables[i]) : 0;
    TRY(ALLOC(*tables, (size_t)g->ntable, "tables of covariances"));
    TRY(ALLOC(*values, n, "tables of covariances"));
    n = 0;
    for (int i = 0; i < g->ntable; i++)
        if (wanted[i]) {
            fill_single(g, &g->tables[i], *values + n, &(*tables)[i]);
            n += GRADIENT_LINES + near_single_size(&g->tables[i]);
        }
done:
    return st;
}

void gradients_part_at(const double turn[2], double step, int n, int i, double at[2]) {
    const double x = (i % n - 0.5 * (n - 1)) * step, y = (i / n - 0.5 * (n - 1)) * step;
    at[0] = turn[0] * x - turn[1] * y;
    at[1] = turn[1] * x + turn[0] * y;
}

/* Position on a layer: c p + offset [m]. False: the layer is at or above the star. */
bool footprint_metres(const layers *lay, int l, const footprint *f, double *c, double offset[2]) {
    double drift[2];
    footprint_drift(lay, l, f, drift);
    return !layer_is_unused(lay, l) &&
           formula_on_layer(lay->h[l], 1.0, f->altitude, f->dir, drift, c, offset);
}

/* The subaperture that is number k of slopes. */
static size_t numbered(const gradient_slopes *s, int k) {
    return (size_t)(s->sub != NULL ? s->sub[k] : k);
}

/* Where entries go: a[axis of the rows + 2 axis of the columns], from column to column ld. */
typedef struct {
    bool both; /* axes of the columns */
    double *a[4];
    size_t ld[2];
} gradient_sink;

/* One layer of a tile, the rows' positions on it given; axes: of the columns' axes. */
static void add_layer(const gradients *g, const matcov_gradient *t, const gradient_axes axes[2],
                      const gradient_relation *r, const gradient_slopes *cols, double cone,
                      const double offset[2], double coef, size_t n, const double *x,
                      const double *y, const gradient_sink *to) {
    const footprint *f = cols->f;
    const double turn[2] = {cos(f->rot), sin(f->rot)};
    for (int part = 0; part < r->parts[1] * r->parts[1]; part++) {
        double at[2];
        gradients_part_at(turn, r->step[1], r->parts[1], part, at);
        for (int j = cols->k0; j < cols->k1; j++) {
            const size_t k = numbered(cols, j), column = (size_t)(j - cols->k0);
            const double x0 = cone * (f->centre[0][k] + at[0]) + offset[0],
                         y0 = cone * (f->centre[1][k] + at[1]) + offset[1];
            double *out[4];
            for (int i = 0; i < (to->both ? 4 : 2); i++)
                out[i] = to->a[i] + column * to->ld[i % 2];
            if (to->both)
                gradient_add_axes(t, g->values, axes, n, x, y, x0, y0, coef, out);
            else
                gradient_add(t, g->values, axes, n, x, y, x0, y0, coef, out[0], out[1]);
        }
    }
}

static void fill_layers(const gradients *g, const layers *lay, const gradient_slopes *rows,
                        const gradient_slopes *cols, double *work, const gradient_sink *to) {
    const gradient_relation r = gradients_relation(g, rows->f, cols->f);
    const size_t n = (size_t)(rows->k1 - rows->k0);
    double *x = work, *y = work + n;
    for (int j = 0; j < cols->k1 - cols->k0; j++)
        for (int i = 0; i < (to->both ? 4 : 2); i++)
            memset(to->a[i] + (size_t)j * to->ld[i % 2], 0, n * sizeof *work);
    for (int l = 0; l < lay->n; l++) {
        double c, cone, of[2], offset[2];
        if (r.c->table[l] < 0 || !footprint_metres(lay, l, rows->f, &c, of) ||
            !footprint_metres(lay, l, cols->f, &cone, offset))
            continue;
        const matcov_gradient *t = &g->tables[r.c->table[l]];
        gradient_axes axes[2];
        for (int b = 0; b < (to->both ? 2 : 1); b++)
            axes[b] = gradients_axes_of(&r, t->kinds, rows->f, cols->f, to->both ? b : cols->axis);
        const double turn[2] = {cos(rows->f->rot), sin(rows->f->rot)};
        for (int part = 0; part < r.parts[0] * r.parts[0]; part++) {
            double at[2];
            gradients_part_at(turn, r.step[0], r.parts[0], part, at);
            for (int k = rows->k0; k < rows->k1; k++) {
                const size_t i = numbered(rows, k);
                x[k - rows->k0] = c * (rows->f->centre[0][i] + at[0]) + of[0];
                y[k - rows->k0] = c * (rows->f->centre[1][i] + at[1]) + of[1];
            }
            add_layer(g, t, axes, &r, cols, cone, offset, lay->coef[l] * r.scale, n, x, y, to);
        }
    }
}

void gradients_fill(const gradients *g, const layers *lay, const gradient_slopes *rows,
                    const gradient_slopes *cols, double *work, double *ax, double *ay, size_t ld) {
    double *none = work + 2 * (rows->k1 - rows->k0);
    const gradient_sink to = {.a = {ax != NULL ? ax : none, ay != NULL ? ay : none},
                              .ld = {ax != NULL ? ld : 0, ay != NULL ? ld : 0}};
    fill_layers(g, lay, rows, cols, work, &to);
}

void gradients_fill_axes(const gradients *g, const layers *lay, const gradient_slopes *rows,
                         const gradient_slopes *cols, double *work, double *const a[4], size_t ld) {
    const gradient_sink to = {.both = true, .a = {a[0], a[1], a[2], a[3]}, .ld = {ld, ld}};
    fill_layers(g, lay, rows, cols, work, &to);
}

/* A layer at which a sensor of mean gradients and one of points look. */
typedef struct {
    const matcov_gradient *table; /* of the phase with the former's slopes */
    double cone, offset[2], coef; /* of the former */
    double at, to[2];             /* of the latter */
    bool lit;                     /* the former has outlines */
    outline_phase outlines;
} common_layer;

/* False: one does not see layer l. */
static bool common_at(const gradients *g, const layers *lay, int l, const footprint *mean,
                      const footprint *points, common_layer *c) {
    const int table = g->classes[g->phase_of[mean->kind]].table[l];
    if (table < 0 || !footprint_metres(lay, l, points, &c->at, c->to) ||
        !footprint_metres(lay, l, mean, &c->cone, c->offset))
        return false;
    c->table = &g->tables[table];
    c->coef = lay->coef[l] * formula_slope_scale(mean->size, points->size);
    c->lit = outline_open_phase(g, lay, l, mean, &c->outlines);
    return true;
}

/* Add to f the covariances of the phase at n points of the pupil with slope j. work: 3 n numbers.
 */
static void add_points(const gradients *g, const common_layer *c, const gradient_slopes *slopes,
                       int j, size_t n, const double *px, const double *py, double *work,
                       double *f) {
    const footprint *b = slopes->f;
    const double turn[2] = {cos(b->rot), sin(b->rot)};
    double *x = work, *y = work + n, *other = work + 2 * n;
    for (size_t e = 0; e < n; e++) {
        x[e] = c->at * px[e] + c->to[0];
        y[e] = c->at * py[e] + c->to[1];
    }
    memset(other, 0, n * sizeof *other);
    gradient_add_phase(c->table, g->values, turn, n, x, y, c->cone * b->centre[0][j] + c->offset[0],
                       c->cone * b->centre[1][j] + c->offset[1], c->coef,
                       slopes->axis == 0 ? f : other, slopes->axis == 0 ? other : f);
}

/* Add to f the covariances of slopes k0 .. k1 with the phase at a point of the pupil, times sign.
 */
static void add_slopes(const gradients *g, const common_layer *c, const gradient_slopes *slopes,
                       double px, double py, double sign, double *work, double *f) {
    const footprint *b = slopes->f;
    const double turn[2] = {cos(b->rot), sin(b->rot)};
    const size_t n = (size_t)(slopes->k1 - slopes->k0);
    double *x = work, *y = work + n, *other = work + 2 * n;
    for (size_t k = 0; k < n; k++) {
        x[k] = c->cone * b->centre[0][(size_t)slopes->k0 + k] + c->offset[0];
        y[k] = c->cone * b->centre[1][(size_t)slopes->k0 + k] + c->offset[1];
    }
    memset(other, 0, n * sizeof *other);
    /* an odd function of the point less the slope */
    gradient_add_phase(c->table, g->values, turn, n, x, y, c->at * px + c->to[0],
                       c->at * py + c->to[1], -sign * c->coef, slopes->axis == 0 ? f : other,
                       slopes->axis == 0 ? other : f);
}

/* What the outline of subaperture k of slopes adds to its covariance with the phase at a point of
 * the pupil. */
static double outline_at(const common_layer *c, const footprint *points, double px, double py,
                         const gradient_slopes *slopes, int k) {
    double e[2] = {0, 0};
    if (c->lit)
        outline_add_phase(&c->outlines, c->at * px + c->to[0], c->at * py + c->to[1], k,
                          formula_slope_scale(1.0, points->size), e);
    return e[slopes->axis];
}

void gradients_fill_mixed(const gradients *g, const layers *lay, const gradient_slopes *rows,
                          const gradient_slopes *cols, double *work, double *a, size_t ld) {
    const bool points = !rows->f->gradient; /* they are the rows */
    const gradient_slopes *p = points ? rows : cols, *b = points ? cols : rows;
    const int *minus = p->f->minus[p->axis], *plus = p->f->plus[p->axis];
    const double *px = p->f->x[p->axis], *py = p->f->y[p->axis];
    const int e0 = minus[p->k0];
    const size_t n = points ? (size_t)(plus[p->k1 - 1] - e0) + 1 : (size_t)(b->k1 - b->k0);
    for (int j = cols->k0; j < cols->k1; j++) {
        double *out = a + (size_t)(j - cols->k0) * ld, *f = points ? work : out;
        memset(out, 0, (size_t)(rows->k1 - rows->k0) * sizeof *out);
        if (points && lay->n > 0)
            memset(f, 0, n * sizeof *f);
        for (int l = 0; l < lay->n; l++) {
            common_layer c;
            if (!common_at(g, lay, l, b->f, p->f, &c))
                continue;
            if (points) {
                add_points(g, &c, b, j, n, px + e0, py + e0, work + n, f);
                for (size_t e = 0; e < n; e++)
                    f[e] += outline_at(&c, p->f, px[(size_t)e0 + e], py[(size_t)e0 + e], b, j);
            } else {
                add_slopes(g, &c, b, px[plus[j]], py[plus[j]], 1.0, work, f);
                add_slopes(g, &c, b, px[minus[j]], py[minus[j]], -1.0, work, f);
                for (int k = b->k0; k < b->k1; k++)
                    f[k - b->k0] += outline_at(&c, p->f, px[plus[j]], py[plus[j]], b, k) -
                                    outline_at(&c, p->f, px[minus[j]], py[minus[j]], b, k);
            }
        }
        for (int k = rows->k0; points && lay->n > 0 && k < rows->k1; k++)
            out[k - rows->k0] = f[plus[k] - e0] - f[minus[k] - e0];
    }
}

void gradients_differences(const gradients *g, const layers *lay, const like *t, int axis_b,
                           size_t n, const int *ix, const int *iy, double *work,
                           double *const value[2]) {
    const footprint *a = t->first, *b = t->second;
    const gradient_relation rel = gradients_relation(g, a, b);
    const double turn_a[2] = {cos(a->rot), sin(a->rot)}, turn_b[2] = {cos(b->rot), sin(b->rot)};
    const double pitch = a->size / t->steps[0];
    const double half = 0.5 * (t->steps[0] - t->steps[1]);
    double *x = work, *y = work + n, *px = work + 2 * n, *py = work + 3 * n;
    for (size_t e = 0; e < n; e++) { /* in the pupil */
        const double along = (ix[e] + half) * pitch, across = (iy[e] + half) * pitch;
        px[e] = turn_a[0] * along - turn_a[1] * across + a->shift[0] - b->shift[0];
        py[e] = turn_a[1] * along + turn_a[0] * across + a->shift[1] - b->shift[1];
    }
    for (int axis = 0; axis < 2; axis++)
        memset(value[axis], 0, n * sizeof *x);
    for (int l = 0; l < lay->n; l++) {
        double c, cb, of[2], os[2];
        if (rel.c->table[l] < 0 || !footprint_metres(lay, l, a, &c, of) ||
            !footprint_metres(lay, l, b, &cb, os))
            continue;
        const matcov_gradient *table = &g->tables[rel.c->table[l]];
        const gradient_axes axes = gradients_axes_of(&rel, table->kinds, a, b, axis_b);
        for (size_t e = 0; e < n; e++) {
            x[e] = c * px[e] + (of[0] - os[0]);
            y[e] = c * py[e] + (of[1] - os[1]);
        }
        for (int i = 0; i < rel.parts[0] * rel.parts[0]; i++)
            for (int j = 0; j < rel.parts[1] * rel.parts[1]; j++) {
                double pa[2], pb[2];
                gradients_part_at(turn_a, rel.step[0], rel.parts[0], i, pa);
                gradients_part_at(turn_b, rel.step[1], rel.parts[1], j, pb);
                gradient_add(table, g->values, &axes, n, x, y, c * (pb[0] - pa[0]),
                             c * (pb[1] - pa[1]), lay->coef[l] * rel.scale, value[0], value[1]);
            }
    }
}

status gradients_like(const gradients *g, const layers *lay, like *t) {
    static const int kinds[2][2] = {{LIKE_XX, LIKE_YX}, {LIKE_XY, LIKE_YY}};
    const size_t n = (size_t)t->n;
    double *work = NULL;
    int *index = NULL;
    status st;
    TRY(ALLOC(work, 4 * n * n, "lattice of mean gradients"));
    TRY(ALLOC(index, 2 * n * n, "lattice of mean gradients"));
    for (int axis = 0; axis < 2; axis++) {
#pragma omp parallel for schedule(dynamic)
        for (int row = 0; row < t->n; row++) {
            const size_t at = n * (size_t)row;
            int *ix = index + 2 * at, *iy = ix + n;
            double *const value[2] = {t->value[kinds[axis][0]] + at, t->value[kinds[axis][1]] + at};
            for (int e = 0; e < t->n; e++)
                ix[e] = e - t->origin, iy[e] = row - t->origin;
            gradients_differences(g, lay, t, axis, n, ix, iy, work + 4 * at, value);
        }
    }
done:
    free(index);
    free(work);
    return st;
}
