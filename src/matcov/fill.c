/* Blocks of covariance matrices: look-ups for like pairs of sensors, else differences of structure
 * functions summed over layers, one evaluation per pair of edge points and layer. Model section 4.
 */
#include "aged.h"
#include "formula.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_PER_TILE 512
#define COLS_PER_TILE 512
#define COLS_LEAST 32

/* Part of one axis of one sensor: subapertures k0 <= k < k1, from row or column `at` of the block
 * on. */
typedef struct {
    const footprint *f;
    int sensor, axis, k0, k1;
    size_t at;
    bool with_y; /* of mean gradients' x axis: y slopes of the same subapertures go with it, */
    bool with_x; /* and these are those */
    size_t y_at;
} piece;

/* Work space of one thread for the pairs that are not alike. */
typedef struct {
    double *x, *y; /* [layer][nedge] scaled positions of the rows' edge points */
    double
        *ring; /* [depth][nedge] sums over layers between these and one edge point of the columns */
    int *held; /* [depth] the columns' edge point that a line of the ring holds, or -1 */
    size_t nedge, depth;
} scratch;

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

/* Cut slopes [i0, i0+ni) into pieces of one sensor, one axis and at most `most` slopes. */
static status cut(const footprint *f, int nsensor, size_t i0, size_t ni, int most, piece **out,
                  size_t *count) {
    status st;
    size_t first = 0, n = 0;
    TRY(ALLOC(*out, 4 * (size_t)nsensor + ni / (size_t)most + 1, "parts of a block"));
    for (int w = 0; w < nsensor; w++)
        for (int axis = 0; axis < 2; axis++, first += (size_t)f[w].nsub) {
            size_t end = first + (size_t)f[w].nsub;
            size_t from = i0 > first ? i0 : first, to = i0 + ni < end ? i0 + ni : end;
            for (; from < to; from += (size_t)most)
                (*out)[n++] = (piece){
                    .f = &f[w],
                    .sensor = w,
                    .axis = axis,
                    .k0 = (int)(from - first),
                    .k1 = (int)((to - from > (size_t)most ? from + (size_t)most : to) - first),
                    .at = from - i0};
        }
    *count = n;
done:
    return st;
}

/* Pieces of x slopes of mean gradients that have all their y slopes in another piece. */
static void find_twins(piece *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; p[i].axis == 0 && p[i].f->gradient && j < n; j++)
            if (p[j].sensor == p[i].sensor && p[j].axis == 1 && p[j].k0 == p[i].k0 &&
                p[j].k1 == p[i].k1) {
                p[i].with_y = p[j].with_x = true;
                p[i].y_at = p[j].at;
            }
}

/* a[i] = v[i step] + constant, or a[i] += v[i step]. */
static void copy_line(const double *v, ptrdiff_t step, size_t n, double constant, double *a) {
    if (step == 1)
        for (size_t i = 0; i < n; i++)
            a[i] = v[i] + constant;
    else
        for (size_t i = 0; i < n; i++)
            a[i] = v[(ptrdiff_t)i * step] + constant;
}

static void add_line(const double *v, ptrdiff_t step, size_t n, double *a) {
    for (size_t i = 0; i < n; i++)
        a[i] += v[(ptrdiff_t)i * step];
}

/* Look up a tile; on top of what is there when the table is of the ground only. */
static void fill_like(const like *t, bool reversed, const piece *r, const piece *c, double constant,
                      double *a, size_t ld) {
    static const int kinds[2][2] = {{LIKE_XX, LIKE_XY}, {LIKE_YX, LIKE_YY}};
    int kind = reversed ? kinds[c->axis][r->axis] : kinds[r->axis][c->axis];
    ptrdiff_t n = t->n, row_step = reversed ? -t->steps[1] : t->steps[0];
    ptrdiff_t col_step = reversed ? t->steps[0] : -t->steps[1];
    for (int j = c->k0; j < c->k1; j++) {
        const run *cr = &c->f->runs[c->f->run_of[j]];
        const double *v = t->value[kind] + t->origin * (n + 1) +
                          col_step * (cr->iy * n + cr->ix + (j - cr->first));
        double *col = a + (size_t)(j - c->k0) * ld;
        for (int k = r->k0; k < r->k1;) {
            const run *rr = &r->f->runs[r->f->run_of[k]];
            int end = rr->first + rr->n < r->k1 ? rr->first + rr->n : r->k1;
            const double *from = v + row_step * (rr->iy * n + rr->ix + (k - rr->first));
            if (t->ground)
                add_line(from, row_step, (size_t)(end - k), col + (k - r->k0));
            else
                copy_line(from, row_step, (size_t)(end - k), constant, col + (k - r->k0));
            k = end;
        }
    }
}

/* A layer that both sensors see: scaled positions of the rows' edge points, and the columns'
 * projection. */
typedef struct {
    int layer;
    double cone, offset[2];
} projection;

/* ground: with the layers at h = 0. Returns how many layers are seen. */
static int project_rows(const layers *lay, const piece *r, const footprint *cf, const scratch *ws,
                        bool ground, projection *seen) {
    int n = 0, e0 = r->f->minus[r->axis][r->k0], e1 = r->f->plus[r->axis][r->k1 - 1] + 1;
    const double *px = r->f->x[r->axis] + e0, *py = r->f->y[r->axis] + e0;
    for (int l = 0; l < lay->n; l++) {
        double c, of[2];
        if ((!ground && lay->h[l] == 0.0) || !footprint_on_layer(lay, l, r->f, &c, of) ||
            !footprint_on_layer(lay, l, cf, &seen[n].cone, seen[n].offset))
            continue;
        double *x = ws->x + (size_t)n * ws->nedge, *y = ws->y + (size_t)n * ws->nedge;
        for (int e = 0; e < e1 - e0; e++) {
            x[e] = c * px[e] + of[0];
            y[e] = c * py[e] + of[1];
        }
        for (size_t e = (size_t)(e1 - e0); e < ws->nedge; e++)
            x[e] = y[e] = 0.0;
        seen[n++].layer = l;
    }
    return n;
}

/* The ring's line of the columns' edge point e, evaluated unless it is there already. */
static const double *line_of(const layers *lay, structure_kernel *kernel, const projection *seen,
                             int nseen, const piece *c, int e, size_t nedge, const scratch *ws) {
    size_t slot = (size_t)e % ws->depth;
    double *f = ws->ring + slot * ws->nedge;
    if (ws->held[slot] == e)
        return f;
    ws->held[slot] = e;
    memset(f, 0, nedge * sizeof *f);
    for (int i = 0; i < nseen; i++) {
        const projection *p = &seen[i];
        size_t at = (size_t)i * ws->nedge;
        kernel(lay->table[p->layer], nedge, ws->x + at, ws->y + at,
               p->cone * c->f->x[c->axis][e] + p->offset[0],
               p->cone * c->f->y[c->axis][e] + p->offset[1], lay->coef[p->layer], f);
    }
    return f;
}

/* Entries of one column from the lines of its two edge points. */
static void combine(const piece *r, const double *minus, const double *plus, double scale,
                    double *col) {
    const int *em = r->f->minus[r->axis], *ep = r->f->plus[r->axis];
    int e0 = em[r->k0];
    for (int k = r->k0; k < r->k1;) {
        const run *rr = &r->f->runs[r->f->run_of[k]];
        int end = rr->first + rr->n < r->k1 ? rr->first + rr->n : r->k1;
        const double *mm = minus + (em[k] - e0), *mp = plus + (em[k] - e0);
        const double *pm = minus + (ep[k] - e0), *pp = plus + (ep[k] - e0);
        double *out = col + (k - r->k0);
        for (int i = 0; i < end - k; i++)
            out[i] = scale * formula_second_difference(pp[i], pm[i], mp[i], mm[i]);
        k = end;
    }
}

static void fill_other(const layers *lay, structure_kernel *kernel, const piece *r, const piece *c,
                       const scratch *ws, bool ground, double *a, size_t ld) {
    projection seen[lay->most > 0 ? lay->most : 1];
    int nseen = project_rows(lay, r, c->f, ws, ground, seen);
    size_t nedge =
        round_up((size_t)(r->f->plus[r->axis][r->k1 - 1] - r->f->minus[r->axis][r->k0]) + 1, 8);
    double scale = formula_slope_scale(r->f->size, c->f->size);
    for (size_t i = 0; i < ws->depth; i++)
        ws->held[i] = -1;
    for (int j = c->k0; j < c->k1; j++) {
        int em = c->f->minus[c->axis][j], ep = c->f->plus[c->axis][j];
        const double *minus = line_of(lay, kernel, seen, nseen, c, em, nedge, ws);
        const double *plus = line_of(lay, kernel, seen, nseen, c, ep, nedge, ws);
        combine(r, minus, plus, scale, a + (size_t)(j - c->k0) * ld);
    }
}

/* The table that serves two pieces, NULL for none; a table of the ground is none when no layer is
 * there. */
static const like *table_of(const fill_source *src, const piece *r, const piece *c,
                            bool *reversed) {
    size_t pair = (size_t)r->sensor * (size_t)src->pairs->nsecond + (size_t)c->sensor;
    int table = src->pairs->links[pair].table;
    if (reversed != NULL)
        *reversed = src->pairs->links[pair].reversed;
    if (table < 0 || (src->pairs->tables[table].ground && src->lay->nground == 0))
        return NULL;
    return &src->pairs->tables[table];
}

/* Work space enough for every unlike tile: the edge points of a row piece; and for the ring, those
 * between the two edges of a subaperture, which are at most a row of the array. */
static scratch scratch_size(const fill_source *src, const piece *rows, size_t nrow,
                            const piece *cols, size_t ncol) {
    scratch ws = {0};
    for (size_t i = 0; i < nrow; i++) {
        const piece *r = &rows[i];
        size_t n = (size_t)(r->f->plus[r->axis][r->k1 - 1] - r->f->minus[r->axis][r->k0]) + 1;
        for (size_t j = 0; j < ncol; j++) {
            const piece *c = &cols[j];
            const like *t = table_of(src, r, c, NULL);
            if (t != NULL && !t->ground && r->f->outline.n == 0 && c->f->outline.n == 0)
                continue;
            ws.nedge = round_up(n, 8) > ws.nedge ? round_up(n, 8) : ws.nedge;
            size_t depth = (size_t)c->f->nssp + 2;
            ws.depth = depth > ws.depth ? depth : ws.depth;
        }
    }
    return ws;
}

/* What entries of mean gradients of two sensors are made of. */
static const gradients *means_between(const fill_source *src, const footprint *a,
                                      const footprint *b, layers *lay) {
    const gradients *g = aged_between(src->aged, a, b, lay);
    if (g == NULL)
        *lay = layers_between(src->lay, a, b);
    return g != NULL ? g : src->means;
}

static void fill_tile(const fill_source *src, structure_kernel *kernel, const piece *r,
                      const piece *c, const scratch *ws, double *a, size_t ld) {
    bool reversed, own = src->constant != NULL && r->sensor == c->sensor && r->axis == c->axis;
    const like *t = table_of(src, r, c, &reversed);
    layers lay;
    const gradients *means = means_between(src, r->f, c->f, &lay);
    double *to = a + r->at + c->at * ld;
    const gradient_slopes rows = {r->f, r->axis, r->k0, r->k1, NULL},
                          cols = {c->f, c->axis, c->k0, c->k1, NULL};
    if (t == NULL && r->f->gradient != c->f->gradient) {
        gradients_fill_mixed(means, &lay, &rows, &cols, ws->x, to, ld);
    } else if (t == NULL && r->with_y && c->with_y) {
        double *const both[4] = {to, a + r->y_at + c->at * ld, a + r->at + c->y_at * ld,
                                 a + r->y_at + c->y_at * ld};
        gradients_fill_axes(means, &lay, &rows, &cols, ws->x, both, ld);
    } else if (t == NULL && r->f->gradient) {
        if (!r->with_x && !(r->with_y && c->with_x))
            gradients_fill(means, &lay, &rows, &cols, ws->x, r->axis == 0 ? to : NULL,
                           r->axis == 1 ? to
                           : r->with_y  ? a + r->y_at + c->at * ld
                                        : NULL,
                           ld);
    } else if (t == NULL || t->ground)
        fill_other(&lay, kernel, r, c, ws, t == NULL, to, ld);
    if (t != NULL)
        fill_like(t, reversed, r, c, own ? src->constant[r->sensor] : 0.0, to, ld);
    if (t != NULL && r->f->gradient)
        outline_squares(means, &lay, &rows, &cols, own ? src->constant[r->sensor] : 0.0, ws->x, to,
                        ld);
}

/* What outlines change of all pairs of axes of two pieces of mean gradients. */
static void add_outlines(const fill_source *src, const piece *r, const piece *c, double *a,
                         size_t ld) {
    const gradient_slopes rows = {r->f, r->axis, r->k0, r->k1, NULL},
                          cols = {c->f, c->axis, c->k0, c->k1, NULL};
    layers lay;
    const gradients *means = means_between(src, r->f, c->f, &lay);
    double *to[4] = {NULL, NULL, NULL, NULL};
    if (r->with_x || c->with_x || !r->f->gradient || !c->f->gradient)
        return;
    to[r->axis + 2 * c->axis] = a + r->at + c->at * ld;
    if (r->with_y)
        to[1 + 2 * c->axis] = a + r->y_at + c->at * ld;
    if (c->with_y)
        to[r->axis + 2] = a + r->at + c->y_at * ld;
    if (r->with_y && c->with_y)
        to[3] = a + r->y_at + c->y_at * ld;
    outline_correct(means, &lay, &rows, &cols, to, ld);
}

static status fill_tiles(const fill_source *src, const piece *rows, size_t nrow, const piece *cols,
                         size_t ncol, int threads, double *a, size_t ld) {
    status st = MOAO_OK;
    scratch size = scratch_size(src, rows, nrow, cols, ncol);
    size_t position = (size_t)src->lay->most * size.nedge, ring = size.depth * size.nedge;
    size_t each = 2 * position + ring, count = (size_t)threads;
    double *memory = NULL;
    int *held = NULL;
    structure_kernel *kernel = structure_kernel_best();
    TRY(ALLOC(held, size.depth * count, "edge points of a block"));
    /* not zeroed: every word is written before it is read */
    if (each > 0 && (memory = aligned_alloc(64, each * count * sizeof *memory)) == NULL)
        TRY(status_fail(MOAO_MEMORY, "no memory for the edge points of a block (%zu bytes)",
                        each * count * sizeof *memory));
#pragma omp parallel num_threads(threads)
    {
        scratch ws = size;
        size_t me = (size_t)omp_get_thread_num();
        ws.held = held + me * size.depth;
        if (memory != NULL) {
            ws.x = memory + me * each;
            ws.y = ws.x + position;
            ws.ring = ws.y + position;
        }
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < nrow * ncol; i++)
            fill_tile(src, kernel, &rows[i % nrow], &cols[i / nrow], &ws, a, ld);
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < nrow * ncol; i++)
            add_outlines(src, &rows[i % nrow], &cols[i / nrow], a, ld);
    }
done:
    free(memory);
    free(held);
    return st;
}

/* Columns of a piece, so that all threads have some tiles. */
static int columns_of(size_t ni, size_t nj, int threads) {
    const size_t high = ni / ROWS_PER_TILE + 1;
    int wide = COLS_PER_TILE;
    while (wide > COLS_LEAST && high * (nj / (size_t)wide + 1) < 2 * (size_t)threads)
        wide /= 2;
    return wide;
}

status fill_block(const fill_source *src, cov_block b) {
    status st = MOAO_OK;
    piece *rows = NULL, *cols = NULL;
    size_t nrow = 0, ncol = 0;
    if (b.ni == 0 || b.nj == 0)
        return MOAO_OK;
    const int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    TRY(cut(src->rows, src->nrow, b.i0, b.ni, ROWS_PER_TILE, &rows, &nrow));
    TRY(cut(src->cols, src->ncol, b.j0, b.nj, columns_of(b.ni, b.nj, threads), &cols, &ncol));
    find_twins(rows, nrow);
    find_twins(cols, ncol);
    TRY(fill_tiles(src, rows, nrow, cols, ncol, threads, b.a, b.ld));
done:
    free(rows);
    free(cols);
    return st;
}

status fill_block_axes(const fill_source *src, size_t ni, matcov_slopes k, double *a, size_t ld) {
    const size_t n = (size_t)k.n;
    status st = MOAO_OK;
    piece *rows = NULL, *cols = NULL;
    size_t nrow = 0, ncol = 0, first = 0;
    if (ni == 0 || n == 0)
        return MOAO_OK;
    const int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    for (int w = 0; w < k.sensor; w++)
        first += 2 * (size_t)src->cols[w].nsub;
    TRY(cut(src->rows, src->nrow, 0, ni, ROWS_PER_TILE, &rows, &nrow));
    TRY(cut(src->cols, src->ncol, first + (size_t)k.k0, n, columns_of(ni, 2 * n, threads), &cols,
            &ncol));
    const size_t each = ncol;
    piece *all = realloc(cols, 2 * each * sizeof *cols);
    if (all == NULL)
        TRY(status_fail(MOAO_MEMORY, "no memory for the parts of a block"));
    cols = all;
    for (size_t i = 0; i < each; i++, ncol++) {
        cols[ncol] = cols[i];
        cols[ncol].axis = 1;
        cols[ncol].at += (size_t)k.apart;
    }
    find_twins(rows, nrow);
    find_twins(cols, ncol);
    TRY(fill_tiles(src, rows, nrow, cols, ncol, threads, a, ld));
done:
    free(rows);
    free(cols);
    return st;
}
