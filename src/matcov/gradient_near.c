/* Grids of the covariance of two mean gradients near zero separation. Model section 4.
 *
 * With S = (la + lb) / 2, d = (la - lb) / 2 and the operator T f = f(+S) - f(+d) - f(-d) + f(-S),
 * averages over two parallel edges and differences between them are T of antiderivatives:
 *
 *   xx = Tx Ty of the second antiderivative in y,      xy = Tx Ty of the one in x and y,
 *
 * each over 2 la lb. The structure function is sampled once, on the product of the Lobatto points
 * of some cells, and is a polynomial of degree 4 on each: an antiderivative at any point is a sum
 * over samples, and a grid the product of three matrices. Cells grow from the kink at zero
 * outwards. */
#include "gradient.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEGREE 4  /* of the polynomials; a cell shares one of its 5 points with the next */
#define EDGE 5    /* steps of a grid beyond what it serves, where the spline's end is felt */
#define TURNED 6  /* squares across, by which a turned footprint is averaged */
#define CELLS 200 /* most cells */

static const double lobatto[DEGREE + 1] = {-1.0, -0.65465367070797714380, 0.0,
                                           0.65465367070797714380, 1.0};

static bool is_turned(const gradient_key *k) {
    return k->turn != 0.0;
}

static bool is_phase(const gradient_key *k) {
    return k->la == 0.0;
}

matcov_gradient gradient_shape(const gradient_key *k) {
    double high = fmax(k->la, k->lb), low = fmin(k->la, k->lb), mean = 0.5 * (k->la + k->lb);
    double near2 = GRADIENT_RADIUS * GRADIENT_RADIUS * 0.5 * (k->la * k->la + k->lb * k->lb);
    double step[2] = {fmax(fmin(high / 16.0, low / 10.0), high / 40.0), mean / 4.0};
    matcov_gradient t = {
        .near2 = near2, .inner = GRADIENT_INNER * mean, .kinds = is_turned(k) ? 4 : 3};
    if (is_phase(k))
        t.kinds = 2, t.inner = GRADIENT_INNER_PHASE * k->lb, step[1] = k->lb / 6.0;
    double reach[2] = {t.inner, sqrt(near2)};
    for (int g = 0; g < 2; g++) {
        int n = (int)ceil(reach[g] / step[g]) + EDGE;
        t.half[g] = n * step[g];
        t.inverse[g] = 1.0 / step[g];
        t.side[g] = 2 * n + 1;
    }
    int exponent;
    frexp(near2, &exponent);
    /* an octave below it too, for what may be less exact */
    t.lowest = (1023 + exponent - 2) << GRADIENT_BITS;
    return t;
}

size_t gradient_near_size(const matcov_gradient *t) {
    return (size_t)t->kinds * ((size_t)gradient_cells(t, 0) + (size_t)gradient_cells(t, 1));
}

/* Cells on [0, reach] and, for each point of a cell, the coefficients of the polynomial that is 1
 * there and 0 at the others. */
typedef struct {
    int n;
    double start[CELLS + 1];
    double basis[DEGREE + 1][DEGREE + 1];
    double whole[DEGREE + 1][2]; /* their antiderivatives over the cell */
} cells;

/* First and second antiderivative from -1 to t, -1 <= t <= 1, of a polynomial. */
static void antiderivatives(const double p[DEGREE + 1], double t, double a[2]) {
    double power = t, sign = -1.0; /* t^(k+1), (-1)^(k+1) */
    a[0] = a[1] = 0.0;
    for (int k = 0; k <= DEGREE; k++, power *= t, sign = -sign) {
        a[0] += p[k] * (power - sign) / (k + 1);
        a[1] += p[k] * ((power * t + sign) / ((k + 1) * (k + 2)) - sign * (t + 1.0) / (k + 1));
    }
}

static void make_cells(double reach, double first, double most, cells *c) {
    c->n = 0;
    c->start[0] = 0.0;
    for (double width = first; c->start[c->n] < reach && c->n < CELLS; width *= 1.4)
        c->n++, c->start[c->n] = c->start[c->n - 1] + fmin(width, most);
    for (int i = 0; i <= DEGREE; i++) {
        double *p = c->basis[i], scale = 1.0;
        memset(p, 0, sizeof c->basis[i]);
        p[0] = 1.0;
        for (int j = 0; j <= DEGREE; j++) {
            if (j == i)
                continue;
            scale *= lobatto[i] - lobatto[j];
            for (int k = DEGREE; k >= 0; k--)
                p[k] = (k > 0 ? p[k - 1] : 0.0) - lobatto[j] * p[k];
        }
        for (int k = 0; k <= DEGREE; k++)
            p[k] /= scale;
        antiderivatives(p, 1.0, c->whole[i]);
    }
}

static int sample_count(const cells *c) {
    return DEGREE * c->n + 1;
}

static double sample_at(const cells *c, int i) {
    int cell = i / DEGREE < c->n ? i / DEGREE : c->n - 1;
    double half = 0.5 * (c->start[cell + 1] - c->start[cell]);
    return c->start[cell] + half * (1.0 + lobatto[i - DEGREE * cell]);
}

static double value_of(const double p[DEGREE + 1], double t) {
    double v = p[DEGREE];
    for (int k = DEGREE - 1; k >= 0; k--)
        v = v * t + p[k];
    return v;
}

/* row += factor times the functional that takes the samples of an even function to its
 * antiderivative of some order at x, from zero on. */
static void add_functional(const cells *c, int order, double x, double factor, double *row) {
    double at = fabs(x);
    if (order == 1 && x < 0.0)
        factor = -factor;
    for (int k = 0; k < c->n && (k == 0 || c->start[k] < at); k++) {
        double half = 0.5 * (c->start[k + 1] - c->start[k]);
        double far = (at - c->start[k]) / half - 1.0, t = fmin(far, 1.0), a[2];
        if (order == 0 && far > 1.0 && k + 1 < c->n)
            continue;
        for (int i = 0; i <= DEGREE; i++) {
            if (order > 0 && far < 1.0)
                antiderivatives(c->basis[i], t, a);
            else
                memcpy(a, c->whole[i], sizeof a);
            double v = order == 0   ? value_of(c->basis[i], t)
                       : order == 1 ? half * a[0]
                                    : half * half * (a[1] + a[0] * (far - t));
            row[DEGREE * k + i] += factor * v;
        }
    }
}

/* What the grids of an upright pair are made with: samples [n][n], three matrices [side][n]. */
typedef struct {
    double la, lb;
    cells c;
    int n;
    double *samples, *rows[3], *work;
} builder;

/* T of the antiderivative of each order at points first .. side of a grid. */
static void fill_functionals(const builder *b, const matcov_gradient *t, int g, int first,
                             double *const rows[3]) {
    const double S = 0.5 * (b->la + b->lb), d = 0.5 * (b->la - b->lb);
    const double offset[4] = {S, d, -d, -S}, sign[4] = {1.0, -1.0, -1.0, 1.0};
    for (int order = 0; order < 3; order++) {
        memset(rows[order], 0, (size_t)t->side[g] * (size_t)b->n * sizeof **rows);
        for (int i = first; i < t->side[g]; i++)
            for (int o = 0; o < 4; o++)
                add_functional(&b->c, order, i / t->inverse[g] - t->half[g] + offset[o], sign[o],
                               rows[order] + (size_t)i * (size_t)b->n);
    }
}

/* out[j][i] = factor times rows[i] samples cols[j], first <= i, j < side. */
static void product(const builder *b, int first, int side, const double *rows, const double *cols,
                    double factor, double *out) {
    const size_t n = (size_t)b->n;
    for (int j = first; j < side; j++) {
        double *h = b->work;
        memset(h, 0, n * sizeof *h);
        for (size_t l = 0; l < n; l++) {
            const double w = cols[(size_t)j * n + l], *s = b->samples + l * n;
            for (size_t k = 0; w != 0.0 && k < n; k++)
                h[k] += w * s[k];
        }
        for (int i = first; i < side; i++) {
            const double *r = rows + (size_t)i * n;
            double sum = 0.0;
            for (size_t k = 0; k < n; k++)
                sum += r[k] * h[k];
            out[j * side + i] = factor * sum;
        }
    }
}

/* Values to coefficients of cubic B-splines along one direction, straight beyond the ends. */
static void to_spline(double *v, int n, int step, double *work) {
    double before = v[0];
    work[0] = 0.0;
    for (int i = 1; i < n - 1; i++) {
        double pivot = 4.0 - work[i - 1];
        work[i] = 1.0 / pivot;
        before = (6.0 * v[i * step] - before) / pivot;
        v[i * step] = before;
    }
    for (int i = n - 2; i > 0; i--)
        v[i * step] -= work[i] * v[(i + 1) * step];
}

/* The other quadrants of an upright pair, from that of positive x and y; and yy, which is xx with x
 * and y exchanged. */
static void mirror(int side, double *xx, double *xy, double *yy) {
    for (int j = 0; j < side; j++)
        for (int i = 0; i < side; i++) {
            int pi = i < side / 2 ? side - 1 - i : i, pj = j < side / 2 ? side - 1 - j : j;
            xx[j * side + i] = xx[pj * side + pi];
            xy[j * side + i] = (pi == i) == (pj == j) ? xy[pj * side + pi] : -xy[pj * side + pi];
        }
    for (int j = 0; j < side; j++)
        for (int i = 0; i < side; i++)
            yy[j * side + i] = xx[i * side + j];
}

/* The covariances of an upright pair on a grid. */
static void fill_upright(const builder *b, const matcov_gradient *t, int g, double *grid) {
    const int side = t->side[g], first = side / 2;
    const size_t cells = (size_t)gradient_cells(t, g);
    const double scale = 0.5 / (b->la * b->lb);
    fill_functionals(b, t, g, first, b->rows);
    product(b, first, side, b->rows[0], b->rows[2], scale, grid);
    product(b, first, side, b->rows[1], b->rows[1], scale, grid + cells);
    mirror(side, grid, grid + cells, grid + 2 * cells);
}

static void grid_to_spline(const matcov_gradient *t, int g, double *grid, double *work) {
    const int side = t->side[g];
    for (int kind = 0; kind < t->kinds; kind++, grid += gradient_cells(t, g)) {
        for (int i = 0; i < side; i++)
            to_spline(grid + (size_t)i * (size_t)side, side, 1, work);
        for (int i = 0; i < side; i++)
            to_spline(grid + i, side, side, work);
    }
}

/* Phase with slopes: half the difference over the footprint of D averaged along its edges. */
static void fill_phase(const builder *b, const matcov_gradient *t, int g, double *grid) {
    const int side = t->side[g];
    for (int order = 0; order < 2; order++) {
        memset(b->rows[order], 0, (size_t)side * (size_t)b->n * sizeof **b->rows);
        for (int i = 0; i < side; i++)
            for (int o = -1; o < 2; o += 2)
                add_functional(&b->c, order, i / t->inverse[g] - t->half[g] + 0.5 * o * b->lb, o,
                               b->rows[order] + (size_t)i * (size_t)b->n);
    }
    product(b, 0, side, b->rows[0], b->rows[1], 0.5 / b->lb, grid);
    for (int j = 0; j < side; j++)
        for (int i = 0; i < side; i++)
            grid[gradient_cells(t, g) + j * side + i] = grid[i * side + j];
}

static status builder_init(const gradient_key *k, const matcov_gradient *t, builder *b) {
    status st;
    const double high = fmax(k->la, k->lb), low = is_phase(k) ? k->lb : fmin(k->la, k->lb);
    const size_t side = (size_t)(t->side[0] > t->side[1] ? t->side[0] : t->side[1]);
    *b = (builder){.la = k->la, .lb = k->lb};
    make_cells(fmax(t->half[0], t->half[1]) + 1.01 * high, low / 32.0, 0.2 * (k->la + k->lb),
               &b->c);
    b->n = sample_count(&b->c);
    const size_t n = (size_t)b->n;
    TRY(ALLOC(b->samples, n * n, "samples of the structure function"));
    TRY(ALLOC(b->rows[0], 3 * side * n, "grids of mean gradients"));
    TRY(ALLOC(b->work, n + side, "grids of mean gradients"));
    b->rows[1] = b->rows[0] + side * n;
    b->rows[2] = b->rows[1] + side * n;
    for (int j = 0; j < b->n; j++)
        for (int i = 0; i <= j; i++) {
            double x = sample_at(&b->c, i), y = sample_at(&b->c, j);
            double s = k->kappa * k->kappa * (x * x + y * y), u = sqrt(s);
            b->samples[(size_t)j * n + (size_t)i] = b->samples[(size_t)i * n + (size_t)j] =
                k->kolmogorov ? u * cbrt(s) : formula_bracket(u);
        }
done:
    return st;
}

static void builder_free(builder *b) {
    free(b->samples);
    free(b->rows[0]);
    free(b->work);
}

static status near_upright(const gradient_key *k, const matcov_gradient *t, double *near) {
    builder b = {0};
    status st = builder_init(k, t, &b);
    for (int g = 0; g < 2 && st == MOAO_OK; g++) {
        (is_phase(k) ? fill_phase : fill_upright)(&b, t, g, near);
        grid_to_spline(t, g, near, b.work);
        near += (size_t)t->kinds * (size_t)gradient_cells(t, g);
    }
    builder_free(&b);
    return st;
}

/* Add to row j of a grid the covariances with a part of a turned footprint, as if it were upright,
 * at `part` from its centre: a difference over a part of the size counts `weight`. x, f: scratch.
 */
static void add_part(const gradient_key *k, const matcov_gradient *t, int g, int j,
                     const matcov_gradient *small, const double *values, const double part[2],
                     double weight, const double *x, double *f, double *grid) {
    static const gradient_axes axes[2] = {
        {.rows = {1, 0}, .v = {1, 0}, .turn = {1, 0}, .kind = {0, 1}},
        {.rows = {1, 0}, .v = {0, 1}, .turn = {1, 0}, .kind = {1, 2}}};
    const size_t n = (size_t)t->side[g], cells = (size_t)gradient_cells(t, g);
    const double c = weight * cos(k->turn), s = weight * sin(k->turn);
    double *const xx = f, *const xy = f + n, *const yy = f + 2 * n, *const y = f + 3 * n;
    double *const yx = f + 4 * n;
    double *const out = grid + (size_t)j * n;
    for (size_t i = 0; i < n; i++)
        y[i] = j / t->inverse[g] - t->half[g];
    memset(f, 0, 3 * n * sizeof *f);
    gradient_add(small, values, &axes[0], n, x, y, part[0], part[1], 1.0, xx, yx);
    gradient_add(small, values, &axes[1], n, x, y, part[0], part[1], 1.0, xy, yy);
    for (size_t i = 0; i < n; i++) { /* the second's axes: (c, s) and (-s, c) */
        out[i] += c * xx[i] + s * xy[i];
        out[cells + i] += c * xy[i] + s * yy[i];
        out[2 * cells + i] += -s * xx[i] + c * xy[i];
        out[3 * cells + i] += -s * xy[i] + c * yy[i];
    }
}

/* A turned footprint as TURNED x TURNED upright squares in their turned places: where they lie
 * matters, not how they are turned. */
static void fill_turned(const gradient_key *k, const matcov_gradient *t,
                        const matcov_gradient *small, const double *values, double *near,
                        double *work) {
    const double c = cos(k->turn), s = sin(k->turn);
    for (int g = 0; g < 2; g++) {
        const int n = t->side[g];
        memset(near, 0, (size_t)t->kinds * (size_t)gradient_cells(t, g) * sizeof *near);
        for (int i = 0; i < n; i++)
            work[i] = i / t->inverse[g] - t->half[g];
        for (int i = 0; i < TURNED * TURNED; i++) {
            double x = ((i % TURNED + 0.5) / TURNED - 0.5) * k->lb;
            double y = ((i / TURNED + 0.5) / TURNED - 0.5) * k->lb;
            const double part[2] = {c * x - s * y, s * x + c * y};
            for (int j = 0; j <= n / 2; j++)
                add_part(k, t, g, j, small, values, part, 1.0 / TURNED, work, work + n, near);
        }
        /* what is opposite is equal */
        for (int kind = 0; kind < t->kinds; kind++) {
            double *grid = near + (size_t)kind * (size_t)gradient_cells(t, g);
            for (int i = 0; i < gradient_cells(t, g) / 2; i++)
                grid[gradient_cells(t, g) - 1 - i] = grid[i];
        }
        grid_to_spline(t, g, near, work);
        near += (size_t)t->kinds * (size_t)gradient_cells(t, g);
    }
}

static status near_turned(const gradient_key *k, const matcov_gradient *t, double *near) {
    gradient_key upright = *k;
    upright.lb /= TURNED;
    upright.turn = 0.0;
    matcov_gradient small = gradient_shape(&upright);
    small.near = (size_t)GRADIENT_INTERVALS * 2 * GRADIENT_TERMS;
    const int side = t->side[0] > t->side[1] ? t->side[0] : t->side[1];
    double *values = NULL, *work = NULL;
    status st;
    TRY(ALLOC(values, small.near + gradient_near_size(&small), "grids of mean gradients"));
    TRY(ALLOC(work, 6 * (size_t)side, "grids of mean gradients"));
    gradient_fill_radial(&upright, &small, values);
    TRY(gradient_fill_near(&upright, &small, values + small.near));
    fill_turned(k, t, &small, values, near, work);
done:
    free(values);
    free(work);
    return st;
}

/* Kinds of both grids side by side. */
static void put_together(const matcov_gradient *t, const double *from, double *near) {
    for (int g = 0; g < 2; g++) {
        for (int kind = 0; kind < t->kinds; kind++, from += gradient_cells(t, g))
            for (int i = 0; i < gradient_cells(t, g); i++)
                near[i * t->kinds + kind] = from[i];
        near += t->kinds * gradient_cells(t, g);
    }
}

void gradient_to_splines(const matcov_gradient *t, double *grids, double *work, double *near) {
    double *at = grids;
    for (int g = 0; g < 2; g++) {
        grid_to_spline(t, g, at, work);
        at += t->kinds * gradient_cells(t, g);
    }
    put_together(t, grids, near);
}

status gradient_fill_near(const gradient_key *k, const matcov_gradient *t, double *near) {
    double *grids = NULL;
    status st;
    TRY(ALLOC(grids, gradient_near_size(t), "grids of mean gradients"));
    TRY(is_turned(k) && !is_phase(k) ? near_turned(k, t, grids) : near_upright(k, t, grids));
    put_together(t, grids, near);
done:
    free(grids);
    return st;
}
