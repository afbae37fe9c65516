/* What partly lit subapertures change of covariances that are made of whole squares. Model
 * section 4. */
#include "formula.h"
#include "internal.h"
#include "moao/clones.h"
#include "outline_formula.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 64 /* nodes */

/* Nodes of an outline on a layer, times kappa, and both weights: `size` of them, a multiple of 8,
 * the last ones of weight 0; what is at them. */
typedef struct {
    _Alignas(64) double x[AT_ONCE];
    _Alignas(64) double y[AT_ONCE];
    _Alignas(64) double w[2][AT_ONCE];
    _Alignas(64) double d[2][AT_ONCE];
    int n, size;
} nodes;

/* kappa (c p + of) of n places p, and of the last one up to `size`. */
CLONES static void scale_places(int n, int size, const double *p, double c, double of, double kappa,
                                double *to) {
#pragma omp simd
    for (int j = 0; j < n; j++)
        to[j] = kappa * (c * p[j] + of);
    for (int j = n; j < size; j++)
        to[j] = to[n - 1];
}

/* Those from `from` on; returns the one after them. */
static int take_nodes(const matcov_outline *o, int set, int from, int end, double c,
                      const double of[2], double kappa, nodes *to) {
    const int n = end - from < AT_ONCE ? end - from : AT_ONCE;
    to->n = n;
    to->size = (n + 7) / 8 * 8;
    scale_places(n, to->size, o->x[set] + from, c, of[0], kappa, to->x);
    scale_places(n, to->size, o->y[set] + from, c, of[1], kappa, to->y);
    for (int axis = 0; axis < 2; axis++) {
        memcpy(to->w[axis], o->w[set][axis] + from, (size_t)n * sizeof to->w[axis][0]);
        memset(to->w[axis] + n, 0, (size_t)(to->size - n) * sizeof to->w[axis][0]);
    }
    return from + n;
}

/* Sums of values times both weights. */
CLONES static void weigh(const nodes *v, const double *value, double sum[2]) {
    double a = 0.0, b = 0.0;
#pragma omp simd reduction(+ : a, b)
    for (int j = 0; j < v->size; j++) {
        a += value[j] * v->w[0][j];
        b += value[j] * v->w[1][j];
    }
    sum[0] = a, sum[1] = b;
}

/* The structure function between (x, y) and the nodes, weighed. */
static void weigh_structure(const structure_table *t, structure_kernel *kernel, nodes *v, double x,
                            double y, double sum[2]) {
    memset(v->d[0], 0, (size_t)v->size * sizeof v->d[0][0]);
    kernel(t, (size_t)v->size, v->x, v->y, x, y, 1.0, v->d[0]);
    weigh(v, v->d[0], sum);
}

/* The number of a subaperture's outline, or -1. */
static int outline_number(const footprint *f, int k) {
    const int i = f->outline.n > 0 ? f->outline.number[k] : -1;
    return i >= 0 && f->difference && f->outline.kept[i] < 0 ? -1 : i;
}

int outline_served(const footprint *f) {
    return f->difference ? f->outline.nkept : f->outline.n;
}

static bool outlined(const footprint *f, int k) {
    return outline_number(f, k) >= 0;
}

/* Squared separation [m^2] of so many root mean square sizes on the layer, 0: of a point. */
static double squared(double sizes, double size_a, double size_b) {
    return sizes * sizes * 0.5 * (size_a * size_a + size_b * size_b);
}

/* Values of a table of one kind (gradient_near) at (x0, y0) less n places. */
CLONES static void look_up(const matcov_gradient *t, const double *near, int n, const double *x,
                           const double *y, double x0, double y0, double *out) {
    const double inner = t->inner, half[2] = {t->half[0], t->half[1]},
                 inverse[2] = {t->inverse[0], t->inverse[1]}, sixth = 1.0 / 6.0;
    const int64_t side[2] = {t->side[0], t->side[1]}, second = gradient_cells(t, 0);
#pragma omp simd
    for (int e = 0; e < n; e++) {
        const double dx = x0 - x[e], dy = y0 - y[e];
        const bool fine = (fabs(dx) < inner) & (fabs(dy) < inner);
        const double h = fine ? half[0] : half[1], w = fine ? inverse[0] : inverse[1];
        const double ax = (dx + h) * w, ay = (dy + h) * w;
        const int64_t i = (int64_t)ax, j = (int64_t)ay, s = fine ? side[0] : side[1];
        const double *c = near + (fine ? 0 : second) + (j - 1) * s + i - 1;
        const double f = ax - (double)i, u = ay - (double)j, g = 1.0 - f, v = 1.0 - u;
        const double wx[4] = {sixth * g * g * g, 2.0 / 3.0 - 0.5 * f * f * (1.0 + g),
                              2.0 / 3.0 - 0.5 * g * g * (1.0 + f), sixth * f * f * f};
        const double wy[4] = {sixth * v * v * v, 2.0 / 3.0 - 0.5 * u * u * (1.0 + v),
                              2.0 / 3.0 - 0.5 * v * v * (1.0 + u), sixth * u * u * u};
        double sum = 0.0;
        for (int k = 0; k < 4; k++)
            sum += wy[k] * (wx[0] * c[k * s] + wx[1] * c[k * s + 1] + wx[2] * c[k * s + 2] +
                            wx[3] * c[k * s + 3]);
        out[e] = sum;
    }
}

/* The same of a closed loop, at (x, y) less each node [m]. */
static void weigh_plane(const outline_pair *p, nodes *v, double x, double y, double sum[2]) {
    look_up(p->plane, p->g->values + p->plane->near, v->size, v->x, v->y, x, y, v->d[0]);
    weigh(v, v->d[0], sum);
}

/* Squared separation of rows and columns, at the age at which they are closest [m^2]. */
static double closest2(const outline_pair *p, const double q[2]) {
    if (p->plane == NULL)
        return q[0] * q[0] + q[1] * q[1];
    const double at = fmin(fmax(q[0] * p->along[0] + q[1] * p->along[1], p->line[0]), p->line[1]),
                 x = q[0] - at * p->along[0], y = q[1] - at * p->along[1];
    return x * x + y * y;
}

bool outline_open(const gradients *g, const layers *lay, int l, const footprint *a,
                  const footprint *b, outline_pair *x) {
    const bool always = a->outline.always || b->outline.always;
    *x = (outline_pair){.g = g, .f = {a, b}, .d = lay->table[l], .kappa = lay->kappa[l]};
    if ((a->outline.n == 0 && b->outline.n == 0) ||
        !footprint_metres(lay, l, a, &x->c[0], x->of[0]) ||
        !footprint_metres(lay, l, b, &x->c[1], x->of[1]))
        return false;
    const double size[2] = {a->size * x->c[0], b->size * x->c[1]};
    x->kernel = structure_kernel_best();
    x->r = gradients_relation(g, a, b);
    x->t = &g->tables[x->r.c->table[l]];
    x->coef = lay->coef[l] * x->r.scale;
    x->scale = lay->coef[l] * formula_slope_scale(1.0, 1.0);
    for (int k = 0; k < 2; k++) {
        x->axes[k] = gradients_axes_of(&x->r, x->t->kinds, a, b, k);
        x->turn[k][0] = cos(x->f[k]->rot), x->turn[k][1] = sin(x->f[k]->rot);
        x->phase[k] = &g->tables[g->classes[g->phase_of[x->f[k]->kind]].table[l]];
    }
    x->radius2 = always ? INFINITY : squared(OUTLINE_RADIUS, size[0], size[1]);
    x->apart2 = always ? INFINITY : squared(OUTLINE_APART, size[0], size[1]);
    x->moments2 =
        a->centre[0] == b->centre[0] ? INFINITY : squared(OUTLINE_MOMENTS, size[0], size[1]);
    if (g->planes != NULL) {
        const double v = hypot(g->wind[0][l], g->wind[1][l]);
        x->plane = &g->tables[g->planes[l]];
        for (int k = 0; k < 2; k++) {
            x->along[k] = v > 0 ? g->wind[k][l] / v : 0;
            x->line[k] = g->line[2 * l + k];
        }
    }
    return true;
}

#define ROWS 256

/* Subapertures of the first, `row` of them in the order given: numbers of their outlines,
 * separations from that of the second [m], what they add to it: e[axis of the first + 2 axis of the
 * second]. */
typedef struct {
    int n, row[ROWS], number[ROWS];
    double x[ROWS], y[ROWS], e[4][ROWS];
} row_list;

/* e += w times the table at (x + dx, y + dy). */
static void add_table(const outline_pair *p, int n, const double *x, const double *y, double dx,
                      double dy, double w, double e[4][ROWS]) {
    gradient_add_axes(p->t, p->g->values, p->axes, (size_t)n, x, y, -dx, -dy, w * p->coef,
                      (double *const[]){e[0], e[1], e[2], e[3]});
}

/* What second moments of the second's outline add: second differences. */
static void add_moments_second(const outline_pair *p, int number, const double d[2], row_list *v) {
    double middle = 0.0;
    for (int k = 0; k < 2; k++) {
        const double *m = p->f[1]->outline.moments + 6 * number + 3 * k;
        const double x = p->c[1] * m[0], y = p->c[1] * m[1];
        add_table(p, v->n, v->x, v->y, d[0] + x, d[1] + y, m[2], v->e);
        add_table(p, v->n, v->x, v->y, d[0] - x, d[1] - y, m[2], v->e);
        middle -= 2.0 * m[2];
    }
    add_table(p, v->n, v->x, v->y, d[0], d[1], middle, v->e);
}

/* The same of those of the first that have outlines: each its own. */
static void add_moments_first(const outline_pair *p, const double d[2], row_list *v) {
    double x[ROWS], y[ROWS], w[ROWS], e[4][ROWS];
    int n = 0, which[ROWS];
    for (int i = 0; i < v->n; i++)
        if (v->number[i] >= 0)
            which[n++] = i;
    for (int place = 0; place < 5 && n > 0; place++) { /* twice the axes' ends, and the middle */
        const double sign = place % 2 ? -p->c[0] : p->c[0];
        for (int i = 0; i < n; i++) {
            const double *all = p->f[0]->outline.moments + 6 * v->number[which[i]],
                         *m = all + place / 2 * 3;
            x[i] = v->x[which[i]] + (place < 4 ? sign * m[0] : 0.0);
            y[i] = v->y[which[i]] + (place < 4 ? sign * m[1] : 0.0);
            w[i] = place < 4 ? m[2] : -2.0 * (all[2] + all[5]);
        }
        for (int k = 0; k < 4; k++)
            memset(e[k], 0, (size_t)n * sizeof e[k][0]);
        add_table(p, n, x, y, d[0], d[1], 1.0, e);
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < n; i++)
                v->e[k][which[i]] += w[i] * e[k][i];
    }
}

/* Less what the tables have (near: nodes take their place), or what second moments add to them;
 * with parts of squares of very different sizes. number: of the second's outline, or -1. */
static void add_tables(const outline_pair *p, int number, bool near, row_list *v) {
    for (int i = 0; i < p->r.parts[0] * p->r.parts[0]; i++)
        for (int j = 0; j < p->r.parts[1] * p->r.parts[1]; j++) {
            double pa[2], pb[2], d[2];
            gradients_part_at(p->turn[0], p->r.step[0], p->r.parts[0], i, pa);
            gradients_part_at(p->turn[1], p->r.step[1], p->r.parts[1], j, pb);
            for (int k = 0; k < 2; k++)
                d[k] = p->c[0] * pa[k] - p->c[1] * pb[k];
            if (near) {
                add_table(p, v->n, v->x, v->y, d[0], d[1], -1.0, v->e);
                continue;
            }
            if (number >= 0)
                add_moments_second(p, number, d, v);
            add_moments_first(p, d, v);
        }
}

/* Add factor times the covariance by nodes of set sa of outline ia with those of set sb of outline
 * ib. */
static void add_sets(const outline_pair *p, int sa, int ia, int sb, int ib, double factor,
                     double e[4]) {
    const matcov_outline *a = &p->f[0]->outline, *b = &p->f[1]->outline;
    const double of[2] = {p->of[1][0] - p->of[0][0], p->of[1][1] - p->of[0][1]};
    const double unit = p->plane != NULL ? 1.0 : p->kappa, c = unit * p->c[0];
    const int end = b->first[sb][ib + 1];
    nodes v;
    for (int j = b->first[sb][ib]; j < end;) {
        j = take_nodes(b, sb, j, end, p->c[1], of, unit, &v);
        for (int i = a->first[sa][ia]; i < a->first[sa][ia + 1]; i++) {
            double sum[2];
            if (p->plane != NULL)
                weigh_plane(p, &v, c * a->x[sa][i], c * a->y[sa][i], sum);
            else
                weigh_structure(p->d, p->kernel, &v, c * a->x[sa][i], c * a->y[sa][i], sum);
            for (int k = 0; k < 4; k++)
                e[k] -= 0.5 * factor * a->w[sa][k % 2][i] * sum[k / 2];
        }
    }
}

static void add_pair(const outline_pair *p, int ia, int ib, bool apart, double e[4]) {
    const double other = 0.5 * (1.0 - OUTLINE_SAME) * p->scale;
    if (apart) {
        add_sets(p, 2, ia, 2, ib, p->scale, e);
        return;
    }
    add_sets(p, 0, ia, 0, ib, OUTLINE_SAME * p->scale, e);
    add_sets(p, 0, ia, 1, ib, other, e);
    add_sets(p, 1, ia, 0, ib, other, e);
}

/* The same of outline i of sensor s with a whole subaperture of the other one at `at`, from its
 * covariance with the phase: e[axis of the outline + 2 axis of the other]. */
static void add_whole(const outline_pair *p, int s, int i, const double at[2], bool apart,
                      double e[4]) {
    const matcov_outline *o = &p->f[s]->outline;
    const int set = apart ? 2 : 1, end = o->first[set][i + 1];
    const double factor = p->scale / p->f[!s]->size;
    nodes v;
    for (int j = o->first[set][i]; j < end;) {
        j = take_nodes(o, set, j, end, p->c[s], p->of[s], 1.0, &v);
        for (int b = 0; b < 2; b++)
            memset(v.d[b], 0, (size_t)v.size * sizeof v.d[b][0]);
        gradient_add_phase(p->phase[!s], p->g->values, p->turn[!s], (size_t)(v.n + 3) / 4 * 4, v.x,
                           v.y, at[0], at[1], factor, v.d[0], v.d[1]);
        for (int b = 0; b < 2; b++) {
            double sum[2];
            weigh(&v, v.d[b], sum);
            e[2 * b] += sum[0], e[2 * b + 1] += sum[1];
        }
    }
}

/* The nodes' covariances of subapertures at at[0] and at[1]. */
static void add_nodes(const outline_pair *p, const int number[2], double at[2][2], bool apart,
                      double e[4]) {
    double v[4] = {0, 0, 0, 0};
    if (number[0] >= 0 && number[1] >= 0) {
        add_pair(p, number[0], number[1], apart, e);
        return;
    }
    const int s = number[0] < 0; /* the one with the outline */
    add_whole(p, s, number[s], at[!s], apart, v);
    for (int i = 0; i < 4; i++)
        e[i] += s == 0 ? v[i] : v[i / 2 + 2 * (i % 2)];
}

static void find_place(const outline_pair *p, int s, int k, double at[2]) {
    for (int i = 0; i < 2; i++)
        at[i] = p->c[s] * p->f[s]->centre[i][k] + p->of[s][i];
}

/* The rows of a list and what they add, to their places. */
static void add_rows(const row_list *v, double *const to[4]) {
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < v->n && to[k] != NULL; i++)
            to[k][v->row[i]] += v->e[k][i];
}

static void take_row(row_list *v, int row, int number, const double q[2]) {
    const int i = v->n++;
    v->row[i] = row, v->number[i] = number;
    v->x[i] = q[0], v->y[i] = q[1];
    for (int k = 0; k < 4; k++)
        v->e[k][i] = 0.0;
}

/* outline_add of ROWS subapertures at most. */
static void add_some(const outline_pair *p, int n, int k0, const int *sub, int kb,
                     double *const to[4]) {
    const int second = outline_number(p->f[1], kb);
    double at[2][2];
    row_list near, apart;
    near.n = apart.n = 0;
    find_place(p, 1, kb, at[1]);
    for (int i = 0; i < n; i++) {
        const int ka = sub != NULL ? sub[k0 + i] : k0 + i,
                  number[2] = {outline_number(p->f[0], ka), second};
        if (number[0] < 0 && second < 0)
            continue;
        find_place(p, 0, ka, at[0]);
        const double q[2] = {at[0][0] - at[1][0], at[0][1] - at[1][1]}, q2 = closest2(p, q);
        if (q2 < p->radius2) {
            double e[4] = {0, 0, 0, 0};
            add_nodes(p, number, at, !(q2 < p->apart2), e);
            take_row(&near, i, number[0], q);
            for (int k = 0; k < 4; k++)
                near.e[k][near.n - 1] = e[k];
        } else if (q2 < p->moments2) {
            take_row(&apart, i, number[0], q);
        }
    }
    if (near.n > 0)
        add_tables(p, second, true, &near);
    if (apart.n > 0)
        add_tables(p, second, false, &apart);
    add_rows(&near, to);
    add_rows(&apart, to);
}

void outline_add(const outline_pair *p, int n, int k0, const int *sub, int kb,
                 double *const to[4]) {
    for (int i = 0; i < n; i += ROWS) {
        double *from[4];
        for (int k = 0; k < 4; k++)
            from[k] = to[k] != NULL ? to[k] + i : NULL;
        add_some(p, n - i < ROWS ? n - i : ROWS, k0 + i, sub, kb, from);
    }
}

bool outline_open_phase(const gradients *g, const layers *lay, int l, const footprint *f,
                        outline_phase *x) {
    const int table = f->outline.n > 0 ? g->classes[g->phase_of[f->kind]].table[l] : -1;
    *x = (outline_phase){.g = g, .f = f, .d = lay->table[l], .kappa = lay->kappa[l]};
    if (table < 0 || !footprint_metres(lay, l, f, &x->c, x->of))
        return false;
    x->kernel = structure_kernel_best();
    x->t = &g->tables[table];
    x->coef = lay->coef[l];
    x->turn[0] = cos(f->rot), x->turn[1] = sin(f->rot);
    x->radius2 = f->outline.always ? INFINITY : squared(OUTLINE_RADIUS, 0.0, f->size * x->c);
    x->apart2 = f->outline.always ? INFINITY : squared(OUTLINE_APART, 0.0, f->size * x->c);
    return true;
}

void outline_add_phase(const outline_phase *p, double x, double y, int k, double scale,
                       double e[2]) {
    const footprint *f = p->f;
    if (!outlined(f, k))
        return;
    const double q[2] = {x - p->c * f->centre[0][k] - p->of[0],
                         y - p->c * f->centre[1][k] - p->of[1]};
    const double q2 = q[0] * q[0] + q[1] * q[1];
    if (!(q2 < p->radius2))
        return;
    const matcov_outline *o = &f->outline;
    const int set = q2 < p->apart2 ? 1 : 2, i = o->number[k], end = o->first[set][i + 1];
    nodes v;
    for (int j = o->first[set][i]; j < end;) {
        double sum[2];
        j = take_nodes(o, set, j, end, p->c, p->of, p->kappa, &v);
        weigh_structure(p->d, p->kernel, &v, p->kappa * x, p->kappa * y, sum);
        for (int axis = 0; axis < 2; axis++)
            e[axis] -= 0.5 * scale * p->coef * sum[axis];
    }
    double square[2];
    gradient_phases(p->t, p->g->values, p->turn, q[0], q[1], square);
    for (int axis = 0; axis < 2; axis++)
        e[axis] -= scale * p->coef / f->size * square[axis];
}

#define POINTS 512 /* a multiple of GRADIENT_AT_ONCE */

/* Points of a line near a subaperture: their places there, times kappa, and what is at them; the
 * last point is repeated up to a multiple of 8. */
typedef struct {
    _Alignas(64) double x[POINTS];
    _Alignas(64) double y[POINTS];
    _Alignas(64) double d[POINTS];
    _Alignas(64) double e[2][POINTS];
    int n, size, place[POINTS];
} point_list;

static void take_points(const double *x, const double *y, double kappa, point_list *v) {
    v->size = (v->n + 7) / 8 * 8;
    for (int j = 0; j < v->size; j++) {
        const int i = v->place[j < v->n ? j : v->n - 1];
        v->x[j] = kappa * x[i];
        v->y[j] = kappa * y[i];
    }
}

/* f -= a d, g -= b d */
CLONES static void subtract_weighed(int n, const double *restrict d, double a, double b,
                                    double *restrict f, double *restrict g) {
#pragma omp simd
    for (int i = 0; i < n; i++) {
        f[i] -= a * d[i];
        g[i] -= b * d[i];
    }
}

/* Adds the covariances of the listed points of (x, y) by nodes of set `set` of outline i. */
static void add_by_nodes(const outline_phase *p, int set, int i, const double *x, const double *y,
                         point_list *v, double *f, double *g) {
    const matcov_outline *o = &p->f->outline;
    const double scale = 0.5 * formula_phase_scale(1.0) * p->coef;
    if (v->n == 0)
        return;
    take_points(x, y, p->kappa, v);
    for (int axis = 0; axis < 2; axis++)
        memset(v->e[axis], 0, (size_t)v->size * sizeof v->e[axis][0]);
    for (int j = o->first[set][i]; j < o->first[set][i + 1]; j++) {
        memset(v->d, 0, (size_t)v->size * sizeof *v->d);
        p->kernel(p->d, (size_t)v->size, v->x, v->y, p->kappa * (p->c * o->x[set][j] + p->of[0]),
                  p->kappa * (p->c * o->y[set][j] + p->of[1]), 1.0, v->d);
        subtract_weighed(v->size, v->d, scale * o->w[set][0][j], scale * o->w[set][1][j], v->e[0],
                         v->e[1]);
    }
    for (int j = 0; j < v->n; j++) {
        f[v->place[j]] += v->e[0][j];
        g[v->place[j]] += v->e[1][j];
    }
}

/* Adds the table's covariances of points beyond its grids; lists those within. */
static void add_beyond(const outline_phase *p, const double at[2], int n, const double *x,
                       const double *y, double *f, double *g, point_list *near, point_list *apart) {
    const double coef = formula_phase_scale(p->f->size) * p->coef;
    int found[GRADIENT_AT_ONCE];
    near->n = apart->n = 0;
    for (int from = 0; from < n; from += GRADIENT_AT_ONCE) {
        const int some = n - from < GRADIENT_AT_ONCE ? n - from : GRADIENT_AT_ONCE;
        const int count = gradient_add_phase_far(p->t, p->g->values, p->turn, some, x + from,
                                                 y + from, at, coef, f + from, g + from, found);
        for (int j = 0; j < count; j++) {
            const int i = from + found[j];
            const double dx = x[i] - at[0], dy = y[i] - at[1];
            point_list *to = dx * dx + dy * dy < p->apart2 ? near : apart;
            to->place[to->n++] = i;
        }
    }
}

bool outline_phases(const outline_phase *p, int k, size_t n, const double *x, const double *y,
                    double *f, double *g) {
    const double at[2] = {p->c * p->f->centre[0][k] + p->of[0],
                          p->c * p->f->centre[1][k] + p->of[1]};
    point_list near, apart;
    if (!outlined(p->f, k))
        return false;
    const int i = p->f->outline.number[k];
    for (size_t some; n > 0; n -= some, x += some, y += some, f += some, g += some) {
        some = n < POINTS ? n : POINTS;
        if (p->f->outline.always) {
            apart.n = 0;
            for (near.n = 0; near.n < (int)some; near.n++)
                near.place[near.n] = near.n;
        } else {
            add_beyond(p, at, (int)some, x, y, f, g, &near, &apart);
        }
        add_by_nodes(p, 1, i, x, y, &near, f, g);
        add_by_nodes(p, 2, i, x, y, &apart, f, g);
    }
    return true;
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
    for (int l = 0; l < lay->n; l++) {
        outline_pair pair;
        if (!outline_open(g, lay, l, rows->f, cols->f, &pair))
            continue;
        for (int j = cols->k0; j < cols->k1; j++) {
            double *to[4];
            for (int k = 0; k < 4; k++)
                to[k] = a[k] != NULL ? a[k] + (size_t)(j - cols->k0) * ld : NULL;
            outline_add(&pair, rows->k1 - rows->k0, rows->k0, rows->sub, subaperture(cols, j), to);
        }
    }
}

/* Subtract the table's entries of the rows' subapertures with both axes of all of the columns', and
 * halve those with outlined ones. */
static void subtract_lattice(const like *t, bool reversed, const gradient_slopes *rows,
                             const footprint *b, double *e, size_t ld) {
    static const int kinds[2][2] = {{LIKE_XX, LIKE_XY}, {LIKE_YX, LIKE_YY}};
    const footprint *a = rows->f;
    for (int k = 0; k < 2 * b->nsub; k++)
        for (int i = 0; i < rows->k1; i++) {
            const int axis_b = k >= b->nsub, ka = rows->sub[i], kb = k - axis_b * b->nsub;
            const run *ra = &a->runs[a->run_of[ka]], *rb = &b->runs[b->run_of[kb]];
            const int sa = t->steps[reversed], sb = t->steps[!reversed], sign = reversed ? -1 : 1;
            const int x = sa * (ra->ix + ka - ra->first) - sb * (rb->ix + kb - rb->first);
            const int y = sa * ra->iy - sb * rb->iy;
            const int kind = reversed ? kinds[axis_b][rows->axis] : kinds[rows->axis][axis_b];
            double *to = e + (size_t)i + (size_t)k * ld;
            *to -= t->value[kind][(sign * y + t->origin) * t->n + sign * x + t->origin];
            if (outlined(b, kb))
                *to *= 0.5;
        }
}

status outline_of_lattice(const gradients *g, const layers *lay, const like *t, bool reversed,
                          double *e, size_t ld) {
    const footprint *a = reversed ? t->second : t->first, *b = reversed ? t->first : t->second;
    const size_t n = (size_t)outline_served(a), m = (size_t)b->nsub;
    gradient_slopes rows = {a, 0, 0, (int)n, NULL}, cols = {b, 0, 0, b->nsub, NULL};
    double *work = NULL, *const part[4] = {e, e + n, e + m * ld, e + n + m * ld};
    int *sub = NULL, at = 0;
    status st;
    TRY(ALLOC(sub, n, "places of subapertures"));
    for (int i = 0; i < a->outline.n; i++)
        if (outlined(a, a->outline.sub[i]))
            sub[at++] = a->outline.sub[i];
    rows.sub = sub;
    TRY(ALLOC(work, 3 * n, "places of subapertures"));
    for (int axis = 0; axis < 2; axis++) {
        cols.axis = axis;
        gradients_fill(g, lay, &rows, &cols, work, part[2 * axis], part[2 * axis + 1], ld);
    }
    outline_correct(g, lay, &rows, &cols, part, ld);
    for (rows.axis = 0; rows.axis < 2; rows.axis++)
        subtract_lattice(t, reversed, &rows, b, part[rows.axis], ld);
done:
    free(work), free(sub);
    return st;
}
