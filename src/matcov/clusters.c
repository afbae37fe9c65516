/* Blocks of Cmm between any subapertures of two sensors. Model section 4. */
#include "internal.h"

#include <stdlib.h>

/* Places of a cluster's subapertures on the array of its sensor, in units of a lattice's pitch,
 * `step` of which are a subaperture's; the least and the largest along each axis. */
typedef struct {
    int n, *at[2];
    int least[2], most[2];
} places;

static status find_places(const footprint *f, const matcov_cluster *c, int step, places *p) {
    status st;
    *p = (places){.n = c->n};
    for (int axis = 0; axis < 2; axis++)
        TRY(ALLOC(p->at[axis], (size_t)c->n, "places of subapertures"));
    for (int k = 0; k < c->n; k++) {
        const run *r = &f->runs[f->run_of[c->sub[k]]];
        const int at[2] = {r->ix + c->sub[k] - r->first, r->iy};
        for (int axis = 0; axis < 2; axis++) {
            p->at[axis][k] = step * at[axis];
            if (k == 0 || p->at[axis][k] < p->least[axis])
                p->least[axis] = p->at[axis][k];
            if (k == 0 || p->at[axis][k] > p->most[axis])
                p->most[axis] = p->at[axis][k];
        }
    }
done:
    return st;
}

static void free_places(places *p) {
    free(p->at[0]), free(p->at[1]);
}

/* The differences of places that two clusters have, each once. */
typedef struct {
    int first[2], wide, high; /* a window of differences, */
    int *number;              /* [high][wide] of those that occur, else -1 */
    int n, *at[2];            /* these, along each axis */
} differences;

static size_t window_at(const differences *d, const places *a, int i, const places *b, int j) {
    return (size_t)(a->at[1][i] - b->at[1][j] - d->first[1]) * (size_t)d->wide +
           (size_t)(a->at[0][i] - b->at[0][j] - d->first[0]);
}

static status find_differences(const places *a, const places *b, differences *d) {
    status st;
    *d = (differences){.first = {a->least[0] - b->most[0], a->least[1] - b->most[1]},
                       .wide = a->most[0] - a->least[0] + b->most[0] - b->least[0] + 1,
                       .high = a->most[1] - a->least[1] + b->most[1] - b->least[1] + 1};
    const size_t window = (size_t)d->wide * (size_t)d->high;
    TRY(ALLOC(d->number, window, "differences of places"));
    for (int axis = 0; axis < 2; axis++)
        TRY(ALLOC(d->at[axis], window, "differences of places"));
    for (int j = 0; j < b->n; j++)
        for (int i = 0; i < a->n; i++)
            d->number[window_at(d, a, i, b, j)] = 1;
    for (size_t k = 0; k < window; k++) {
        const bool occurs = d->number[k] == 1;
        d->number[k] = occurs ? d->n : -1;
        if (occurs) {
            d->at[0][d->n] = d->first[0] + (int)(k % (size_t)d->wide);
            d->at[1][d->n++] = d->first[1] + (int)(k / (size_t)d->wide);
        }
    }
done:
    return st;
}

static void free_differences(differences *d) {
    free(d->number), free(d->at[0]), free(d->at[1]);
}

/* Clusters of sensors on a common lattice: t is their lattice. */
static status fill_like(const matcov *mc, const like *t, const matcov_cluster *row,
                        const matcov_cluster *col, double *a) {
    const size_t m = (size_t)row->n, n = (size_t)col->n;
    places rows = {0}, cols = {0};
    differences d = {0};
    double *value = NULL;
    status st;
    TRY(find_places(t->first, row, t->steps[0], &rows));
    TRY(find_places(t->second, col, t->steps[1], &cols));
    TRY(find_differences(&rows, &cols, &d));
    TRY(ALLOC(value, 6 * (size_t)d.n, "covariances of like sensors"));
    for (size_t axis = 0; axis < 2; axis++) {
        double *const of[2] = {value, value + d.n};
        gradients_differences(&mc->means, &mc->slopes, t, (int)axis, (size_t)d.n, d.at[0], d.at[1],
                              value + 2 * d.n, of);
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < m; i++) {
                double *to = a + i + (j + axis * n) * 2 * m;
                const int k = d.number[window_at(&d, &rows, (int)i, &cols, (int)j)];
                to[0] = of[0][k], to[m] = of[1][k];
            }
    }
done:
    free(value);
    free_differences(&d);
    free_places(&rows), free_places(&cols);
    return st;
}

static status fill_other(const matcov *mc, const matcov_cluster *row, const matcov_cluster *col,
                         double *a) {
    const size_t m = (size_t)row->n, n = (size_t)col->n;
    const gradient_slopes rows = {&mc->rows[row->sensor], 0, 0, row->n, row->sub};
    double *work = NULL;
    status st = ALLOC(work, 3 * m, "places of subapertures");
    for (size_t axis = 0; axis < 2 && st == MOAO_OK; axis++) {
        const gradient_slopes cols = {&mc->feet[col->sensor], (int)axis, 0, col->n, col->sub};
        double *to = a + axis * n * 2 * m;
        gradients_fill(&mc->means, &mc->slopes, &rows, &cols, work, to, to + m, 2 * m);
    }
    free(work);
    return st;
}

static int run_at(const matcov_cluster *c, int k) {
    int end = k + 1;
    while (end < c->n && c->sub[end] == c->sub[end - 1] + 1)
        end++;
    return end - k;
}

/* One axis of each, by runs of subapertures that follow each other. */
static status fill_runs(const matcov *mc, const matcov_cluster *row, int axis_row,
                        const matcov_cluster *col, int axis_col, double *a, size_t ld) {
    const sensor *r = &mc->s->sensors[row->sensor], *c = &mc->s->sensors[col->sensor];
    const size_t from_r = r->first + (size_t)axis_row * (size_t)r->nsub,
                 from_c = c->first + (size_t)axis_col * (size_t)c->nsub;
    status st = MOAO_OK;
    for (int j = 0, nj; j < col->n; j += nj) {
        nj = run_at(col, j);
        for (int i = 0, ni; i < row->n; i += ni) {
            ni = run_at(row, i);
            TRY(fill_cmm_with(mc, MATCOV_TIPTILT,
                              (cov_block){from_r + (size_t)row->sub[i], (size_t)ni,
                                          from_c + (size_t)col->sub[j], (size_t)nj,
                                          a + (size_t)i + (size_t)j * ld, ld}));
        }
    }
done:
    return st;
}

status matcov_fill_clusters(const matcov *mc, const matcov_cluster *row, const matcov_cluster *col,
                            double *a) {
    const footprint *r = &mc->rows[row->sensor], *c = &mc->feet[col->sensor];
    const size_t m = (size_t)row->n, n = (size_t)col->n;
    double *work = NULL;
    like t;
    status st;
    for (int k = 0; k < 4 && !(r->gradient && c->gradient); k++) {
        const size_t axis_row = (size_t)k % 2, axis_col = (size_t)k / 2;
        st = fill_runs(mc, row, (int)axis_row, col, (int)axis_col,
                       a + axis_row * m + axis_col * n * 2 * m, 2 * m);
        if (st != MOAO_OK || k == 3)
            return st;
    }
    const bool lattice = like_lattice(r, c, &t);
    TRY(lattice ? fill_like(mc, &t, row, col, a) : fill_other(mc, row, col, a));
    TRY(ALLOC(work, 3 * m, "places of subapertures"));

    double *part[4];
    gradient_slopes rows = {r, 0, 0, row->n, row->sub}, cols = {c, 0, 0, col->n, col->sub};
    for (int k = 0; k < 4; k++) {
        rows.axis = k % 2, cols.axis = k / 2;
        part[k] = a + (size_t)rows.axis * m + (size_t)cols.axis * n * 2 * m;
        if (lattice)
            outline_squares(&mc->means, &mc->slopes, &rows, &cols, 0.0, work, part[k], 2 * m);
    }
    outline_correct(&mc->means, &mc->slopes, &rows, &cols, part, 2 * m);
    for (size_t j = 0; row->sensor == col->sensor && j < n; j++)
        for (size_t i = 0; i < m; i++) {
            a[i + j * 2 * m] += mc->tiptilt[row->sensor];
            a[i + m + (j + n) * 2 * m] += mc->tiptilt[row->sensor];
        }
done:
    free(work);
    return st;
}
