/* A matrix in the host's memory as a source of tiles and of HSS blocks (moao/from_dense.h). */
#include "moao/from_dense.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
    const backend *be;
    backend_ctx *ctx;
    int64_t n, lda;
    const double *a;
    const int64_t *perm;
} matrix;

/* Sizes, finite entries; *symmetric: to rounding. *i, *j: where it is least so. */
static status check(const matrix *x, bool *symmetric, int64_t *i, int64_t *j) {
    double most = 0, worst = 0;
    if (x->n < 0 || x->n > INT32_MAX || x->lda < (x->n > 1 ? x->n : 1))
        return status_fail(MOAO_INPUT, "from_dense: %lld rows with leading dimension %lld",
                           (long long)x->n, (long long)x->lda);
    *i = *j = 0;
    for (int64_t c = 0; c < x->n; c++)
        for (int64_t r = 0; r < x->n; r++) {
            const double v = x->a[r + c * x->lda], off = fabs(v - x->a[c + r * x->lda]);
            if (!isfinite(v))
                return status_fail(MOAO_NUMERIC, "from_dense: entry (%lld, %lld) is %g",
                                   (long long)r, (long long)c, v);
            most = fmax(most, fabs(v));
            if (off > worst)
                worst = off, *i = r, *j = c;
        }
    *symmetric = worst <= 32 * DBL_EPSILON * most;
    return MOAO_OK;
}

static status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *to,
                   int64_t ld) {
    const matrix *x = arg;
    double *host;
    status st;
    TRY(ALLOC(host, (size_t)(ni * nj), "entries of a matrix"));
    for (int64_t j = 0; j < nj; j++)
        for (int64_t i = 0; i < ni; i++)
            host[i + j * ni] = x->a[x->perm[i0 + i] + x->perm[j0 + j] * x->lda];
    TRY(x->be->copy(x->ctx, to, 8 * ld, host, 8 * ni, 8 * ni, nj));
    st = x->be->sync(x->ctx);
done:
    free(host);
    return st;
}

status moao_tlr_from_dense(const backend *be, backend_ctx *ctx, const tlr_layout *layout,
                           const double *a, int64_t lda, const tlr_options *o, tlr **out) {
    matrix x = {be, ctx, layout->n, lda, a, layout->perm};
    bool symmetric;
    int64_t i, j;
    status st;
    *out = NULL;
    TRY(check(&x, &symmetric, &i, &j));
    if (!symmetric)
        TRY(status_fail(MOAO_INPUT,
                        "from_dense: not symmetric: entry (%lld, %lld) is %.9g, (%lld, %lld) is "
                        "%.9g",
                        (long long)i, (long long)j, a[i + j * lda], (long long)j, (long long)i,
                        a[j + i * lda]));
    st = tlr_build(be, ctx, layout, NULL, fill, &x, o, out);
done:
    return st;
}

/* --- HSS ----------------------------------------------------------------------------------------
 */

/* Lists in the backend's memory, on the host. */
static status fetch(const matrix *x, void *to, const void *from, int64_t bytes) {
    status st = x->be->copy(x->ctx, to, bytes, from, bytes, bytes, 1);
    return st == MOAO_OK ? x->be->sync(x->ctx) : st;
}

static status fetch_sizes(const matrix *x, batch_dim d, int64_t count, int64_t *size) {
    for (int64_t b = 0; b < count; b++)
        size[b] = d.n;
    return d.each && count ? fetch(x, size, d.each, 8 * count) : MOAO_OK;
}

typedef struct {
    int64_t *m, *n, *ld;
    const int **rows, **cols;
    void **to;
    int *row, *col; /* of one block */
    void *entry;
} gathering;

/* Block b: m x n at its lists, or stored n x m. */
static status gather_block(const matrix *x, backend_type t, const hier_blocks *q,
                           const gathering *g, int64_t b) {
    const int64_t m = g->m[b], n = g->n[b], size = (int64_t)backend_size(t),
                  down = q->turned ? n : m, across = q->turned ? m : n;
    status st = MOAO_OK;
    if (m == 0 || n == 0)
        return MOAO_OK;
    TRY(fetch(x, g->row, g->rows[b], (int64_t)sizeof(int) * m));
    TRY(fetch(x, g->col, g->cols[b], (int64_t)sizeof(int) * n));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            const double v = x->a[g->row[i] + g->col[j] * x->lda];
            const int64_t at = q->turned ? j + i * n : i + j * m;
            if (t == BACKEND_D)
                ((double *)g->entry)[at] = v;
            else
                ((float *)g->entry)[at] = (float)v;
        }
    TRY(x->be->copy(x->ctx, g->to[b], size * g->ld[b], g->entry, size * down, size * down, across));
    st = x->be->sync(x->ctx);
done:
    return st;
}

static void places(const hier_blocks *q, backend_type t, gathering *g) {
    for (int64_t b = 0; b < q->count; b++) {
        if (!q->a.ptrs)
            g->to[b] = (char *)q->a.base + (int64_t)backend_size(t) * q->a.stride * b;
        if (!q->a.lds)
            g->ld[b] = q->a.ld;
    }
}

static status gather(void *from, backend_ctx *ctx, backend_type t, const hier_blocks *q) {
    const matrix *x = from;
    const int64_t count = q->count, pointers = count * (int64_t)sizeof(void *);
    const size_t some = (size_t)count;
    gathering g = {0};
    status st;
    (void)ctx;
    TRY(ALLOC(g.m, some, "sizes of blocks"));
    TRY(ALLOC(g.n, some, "sizes of blocks"));
    TRY(ALLOC(g.ld, some, "sizes of blocks"));
    TRY(ALLOC(g.rows, some, "lists of blocks"));
    TRY(ALLOC(g.cols, some, "lists of blocks"));
    TRY(ALLOC(g.to, some, "lists of blocks"));
    TRY(ALLOC(g.row, (size_t)q->m.n, "rows of a block"));
    TRY(ALLOC(g.col, (size_t)q->n.n, "columns of a block"));
    TRY(mem_alloc(&g.entry, (size_t)q->m.n * (size_t)q->n.n, backend_size(t),
                  "entries of a block"));
    if (count == 0)
        goto done;
    TRY(fetch_sizes(x, q->m, count, g.m));
    TRY(fetch_sizes(x, q->n, count, g.n));
    TRY(fetch(x, (void *)g.rows, q->rows, pointers));
    TRY(fetch(x, (void *)g.cols, q->cols, pointers));
    if (q->a.ptrs)
        TRY(fetch(x, (void *)g.to, (const void *)q->a.ptrs, pointers));
    if (q->a.lds)
        TRY(fetch(x, g.ld, q->a.lds, 8 * count));
    places(q, t, &g);
    for (int64_t b = 0; b < count; b++)
        TRY(gather_block(x, t, q, &g, b));
done:
    free(g.m), free(g.n), free(g.ld), free((void *)g.rows), free((void *)g.cols);
    free((void *)g.to), free(g.row), free(g.col), free(g.entry);
    return st;
}

static status block(void *from, backend_ctx *ctx, backend_type t, int64_t i0, int64_t ni,
                    int64_t j0, int64_t nj, void *to, int64_t ld) {
    const matrix *x = from;
    const int64_t size = (int64_t)backend_size(t);
    float *single = NULL;
    status st = MOAO_OK;
    if (t == BACKEND_D) {
        TRY(x->be->copy(ctx, to, size * ld, x->a + i0 + j0 * x->lda, size * x->lda, size * ni, nj));
    } else {
        TRY(ALLOC(single, (size_t)(ni * nj), "entries of a matrix"));
        for (int64_t j = 0; j < nj; j++)
            for (int64_t i = 0; i < ni; i++)
                single[i + j * ni] = (float)x->a[i0 + i + (j0 + j) * x->lda];
        TRY(x->be->copy(ctx, to, size * ld, single, size * ni, size * ni, nj));
    }
    st = x->be->sync(ctx);
done:
    free(single);
    return st;
}

status moao_hss_from_dense(const backend *be, backend_ctx *ctx, int64_t n, const double *a,
                           int64_t lda, int dim, const double *at, const hier_options *o,
                           moao_hier **out) {
    matrix x = {be, ctx, n, lda, a, NULL};
    hier_options with = *o;
    bool symmetric;
    int64_t i, j;
    status st;
    *out = NULL;
    TRY(check(&x, &symmetric, &i, &j));
    if (dim < 0 || dim > 3 || (dim > 0) != (at != NULL))
        TRY(status_fail(MOAO_INPUT,
                        "from_dense: coordinates of %d dimensions, 1 to 3 are possible, "
                        "or none",
                        dim));
    for (int64_t k = 0; k < dim * n; k++)
        if (!isfinite(at[k]))
            TRY(status_fail(MOAO_NUMERIC, "from_dense: coordinate %lld of row %lld is %g",
                            (long long)(k % dim), (long long)(k / dim), at[k]));
    with.kind = HIER_HSS, with.samples = 0;
    const hier_source s = {.from = &x,
                           .rows = n,
                           .cols = n,
                           .symmetric = symmetric,
                           .mirrored = symmetric,
                           .dim = dim,
                           .at = at,
                           .block = block,
                           .gather = gather};
    st = hier_open(be, ctx, &s, &with, out);
done:
    return st;
}
