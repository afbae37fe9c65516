/* C := alpha A B^T + beta C tile by tile of the inner extent: each product of a tile of A with one
 * of B has few columns and is added to the tile of C by recompression. One call for all tiles of a
 * block column of C; their ranks stay in the backend's memory until the last product is in. */
#include "internal.h"

/* Sums of one block column. */
typedef struct {
    tlr_work *w;
    const tlr *a, *b;
    tlr *c;
    panel *to;
    tlr_batch sum;
    int64_t inner;    /* number of inner tiles */
    int64_t extra;    /* largest number of columns of a product */
    double *own;      /* columns made for products: b x extra for each tile */
    char *host, *dev; /* a block for each inner tile: places, leading dimensions, columns */
    size_t block;
    int *info, *info_host; /* [inner][tiles] */
    int64_t *rank[2];      /* [tiles] before and after a sum, in the backend's memory */
    product_list straight, turned;
} job;

/* A block. */
typedef struct {
    const double **u, **v;
    int64_t *ldu, *ldv, *cols;
} parts;

static parts parts_of(char *block, int64_t count) {
    parts x;
    x.u = (const double **)block;
    x.v = x.u + count;
    x.ldu = (int64_t *)(block + 2 * (size_t)count * sizeof *x.v);
    x.ldv = x.ldu + count;
    x.cols = x.ldv + count;
    return x;
}

/* The product of tile (i, j) of a with tile (k, j) of b as U V^T, place t of the sum: the core is
 * taken to the side that leaves fewer columns. */
static status add_product(job *s, int64_t i, int64_t k, int64_t j, int64_t t, parts x) {
    const panel *pa = panel_of(s->a, j), *pb = panel_of(s->b, j);
    const tlr_tile *ta = panel_tile(pa, i, j), *tb = panel_tile(pb, k, j);
    const int64_t m = tlr_extent(s->a->rows, i), n = tlr_extent(s->b->rows, k),
                  b = tlr_extent(s->a->cols, j), from = panel_vcol(pb, s->to->c0, j),
                  ld = largest(pa->vcols[j - pa->c0], 1);
    const double *ua = panel_u(s->a, pa, i, j), *va = panel_v(s->a, pa, i, j),
                 *ub = panel_u(s->b, pb, k, j), *vb = panel_v(s->b, pb, k, j),
                 *core = s->w->buf[BUF_CORE] + ta->v + (tb->v - from) * ld;
    double *own = s->own + t * s->c->b * s->extra;
    x.u[t] = ua, x.v[t] = ub;
    x.ldu[t] = largest(m, 1), x.ldv[t] = largest(n, 1);
    x.cols[t] = 0;
    if (ta->kind == TLR_EMPTY || tb->kind == TLR_EMPTY)
        return MOAO_OK;
    if (ta->kind == TLR_DENSE && tb->kind == TLR_DENSE)
        return status_fail(MOAO_NUMERIC,
                           "tlr_gemm by recompression: inner tile %lld is dense in both matrices; "
                           "accumulate instead",
                           (long long)j);
    if (ta->kind == TLR_DENSE || (tb->kind == TLR_LOWRANK && tb->rank < ta->rank)) {
        x.u[t] = own;
        x.cols[t] = tb->rank;
        return ta->kind == TLR_DENSE
                   ? tlr_list_add(&s->straight, (product){ua, vb, own, m, b, m, m, tb->rank, b})
                   : tlr_list_add(&s->straight,
                                  (product){ua, core, own, m, ld, m, m, tb->rank, ta->rank});
    }
    x.v[t] = own;
    x.cols[t] = ta->rank;
    return tb->kind == TLR_DENSE
               ? tlr_list_add(&s->straight, (product){ub, va, own, n, b, n, n, ta->rank, b})
               : tlr_list_add(&s->turned,
                              (product){ub, core, own, n, ld, n, n, ta->rank, tb->rank});
}

/* Products with inner tile j, made; parts x of them on the host and their copy in the backend. */
static status products(job *s, int64_t j, parts x) {
    const panel *pa = panel_of(s->a, j), *pb = panel_of(s->b, j);
    const int64_t n = tlr_extent(s->a->cols, j), ra = pa->vcols[j - pa->c0],
                  rb = panel_vcol(pb, s->to->c1, j) - panel_vcol(pb, s->to->c0, j);
    double *core;
    status st;
    int64_t t = 0;
    TRY(tlr_work_room(s->w, BUF_CORE, ra * rb, &core));
    TRY(tlr_dense_gemm(s->w, 'T', 'N', ra, rb, n, 1, panel_v(s->a, pa, 0, j), n,
                       panel_v(s->b, pb, s->to->c0, j), n, 0, core, largest(ra, 1)));
    for (int64_t i = s->to->r0; i < s->to->r1; i++)
        for (int64_t k = s->to->c0; k < s->to->c1; k++, t++)
            TRY(add_product(s, i, k, j, t, x));
    TRY(s->w->be->copy(s->w->ctx, s->dev + (size_t)j * s->block, (int64_t)s->block,
                       s->host + (size_t)j * s->block, (int64_t)s->block, (int64_t)s->block, 1));
    TRY(tlr_list_run(s->w, &s->straight, BACKEND_D, 'N', 'N'));
    TRY(tlr_list_run(s->w, &s->turned, BACKEND_D, 'N', 'T'));
done:
    return st;
}

/* All tiles of the sum, with the products of inner tile j. */
static status recompress(job *s, double alpha, int64_t j, double beta) {
    const tlr_batch *c = &s->sum;
    const parts x = parts_of(s->dev + (size_t)j * s->block, c->count);
    const batch_cut cut = tlr_cut(s->c, c->most);
    const int64_t stride = s->c->b * c->most;
    const batch_mat u2 = {NULL, 0, (void *const *)x.u, 0, x.ldu},
                    v2 = {NULL, 0, (void *const *)x.v, 0, x.ldv};
    const batch_dim before = {c->most, s->rank[j % 2]}, more = {s->extra, x.cols};
    return s->w->be->lowrank->recompress(
        s->w->ctx, BACKEND_D, 'L', &cut, c->count, (batch_dim){c->bm, tlr_on_device(c, c->m)},
        (batch_dim){c->bn, tlr_on_device(c, c->n)}, &beta, before,
        batch_strided(c->u, s->c->b, stride), batch_strided(c->v, s->c->b, stride), &alpha, more,
        u2, v2, s->rank[(j + 1) % 2], s->info + j * c->count, s->w->work, s->w->lwork);
}

/* Largest number of columns that a product can have. */
static int64_t most_extra(const job *s) {
    int64_t most = 1;
    for (int64_t j = 0; j < s->inner; j++) {
        int64_t ra = 0, rb = 0;
        for (int64_t i = 0; i < s->a->rows->nt; i++)
            if (panel_tile(panel_of(s->a, j), i, j)->kind == TLR_LOWRANK)
                ra = largest(ra, panel_tile(panel_of(s->a, j), i, j)->rank);
        for (int64_t k = s->to->c0; k < s->to->c1; k++)
            if (panel_tile(panel_of(s->b, j), k, j)->kind == TLR_LOWRANK)
                rb = largest(rb, panel_tile(panel_of(s->b, j), k, j)->rank);
        most = largest(most, largest(ra, rb));
    }
    return most;
}

static status check_columns(const job *s) {
    if (s->sum.most + s->extra > BATCH_SUM_MAX)
        return status_fail(MOAO_INPUT,
                           "tlr_gemm by recompression: tiles of %lld columns and products of %lld "
                           "are together more than %d; accumulate instead",
                           (long long)s->sum.most, (long long)s->extra, BATCH_SUM_MAX);
    for (int64_t t = 0; t < s->sum.count; t++)
        if (s->to->tile[t].kind == TLR_DENSE)
            return status_fail(MOAO_INPUT, "tlr_gemm by recompression: C has dense tiles; "
                                           "accumulate instead");
    return MOAO_OK;
}

/* What C holds, to where sums are made. */
static status load(job *s, double beta) {
    const tlr_batch *c = &s->sum;
    int64_t t = 0;
    status st = MOAO_OK;
    for (int64_t i = s->to->r0; i < s->to->r1; i++)
        for (int64_t k = s->to->c0; k < s->to->c1; k++, t++) {
            const int64_t r = beta == 0 ? 0 : s->to->tile[t].rank, at = t * s->c->b * c->most;
            c->rank[t] = r;
            TRY(tlr_dense_copy(s->w, c->m[t], r, panel_u(s->c, s->to, i, k), c->m[t], c->u + at,
                               s->c->b));
            TRY(tlr_dense_copy(s->w, c->n[t], r, panel_v(s->c, s->to, i, k), c->n[t], c->v + at,
                               s->c->b));
        }
    TRY(s->w->be->copy(s->w->ctx, c->dev, (int64_t)c->bytes, c->host, (int64_t)c->bytes,
                       (int64_t)c->bytes, 1));
    TRY(s->w->be->copy(s->w->ctx, s->rank[0], 8 * c->count, c->rank, 8 * c->count, 8 * c->count,
                       1));
done:
    return st;
}

static status open_job(job *s) {
    const backend_lowrank *low = s->w->be->lowrank;
    tlr_batch *c = &s->sum;
    size_t one, best;
    status st;
    TRY(tlr_batch_open(s->w, s->c, s->to, c));
    tlr_place_tiles(s->c, s->to, NULL, 0, c);
    s->extra = most_extra(s);
    TRY(check_columns(s));
    s->block = (size_t)c->count * 5 * sizeof(int64_t);
    TRY(mem_alloc((void **)&s->host, s->block, (size_t)s->inner, "places of products"));
    TRY(ALLOC(s->info_host, (size_t)(s->inner * c->count), "answers of recompression"));
    TRY(s->w->be->alloc(s->w->ctx, s->block * (size_t)s->inner + 1, (void **)&s->dev));
    TRY(s->w->be->alloc(s->w->ctx, sizeof(int) * (size_t)(s->inner * c->count) + 1,
                        (void **)&s->info));
    for (int i = 0; i < 2; i++)
        TRY(s->w->be->alloc(s->w->ctx, 8 * (size_t)c->count + 1, (void **)&s->rank[i]));
    TRY(tlr_work_room(s->w, BUF_TILES, c->count * s->c->b * s->extra, &s->own));
    one = low->workspace(BATCH_RECOMPRESS, BACKEND_D, 1, c->bm, c->bn, c->most + s->extra);
    best = low->workspace(BATCH_RECOMPRESS, BACKEND_D, c->count, c->bm, c->bn, c->most + s->extra);
    TRY(tlr_work_bytes(s->w, best <= s->c->o.memory ? best
                             : one > s->c->o.memory ? one
                                                    : s->c->o.memory));
done:
    return st;
}

static void close_job(job *s) {
    const backend *be = s->w->be;
    be->release(s->w->ctx, s->dev);
    be->release(s->w->ctx, s->info);
    be->release(s->w->ctx, s->rank[0]);
    be->release(s->w->ctx, s->rank[1]);
    free(s->host), free(s->info_host);
    tlr_list_free(&s->straight);
    tlr_list_free(&s->turned);
    tlr_batch_close(&s->sum);
}

/* Ranks and complaints of all sums, of which the worst stays. Waits. */
static status fetch(job *s) {
    tlr_batch *c = &s->sum;
    const int64_t bytes = (int64_t)sizeof(int) * s->inner * c->count;
    status st;
    TRY(s->w->be->copy(s->w->ctx, s->info_host, bytes, s->info, bytes, bytes, 1));
    TRY(s->w->be->copy(s->w->ctx, c->rank, 8 * c->count, s->rank[s->inner % 2], 8 * c->count,
                       8 * c->count, 1));
    TRY(s->w->be->sync(s->w->ctx));
    for (int64_t t = 0; t < c->count; t++)
        for (int64_t j = 0; j < s->inner; j++) {
            const int info = s->info_host[t + j * c->count];
            if (info < 0 && (info != -3 || s->c->o.rank == 0))
                return status_fail(MOAO_NUMERIC,
                                   "tlr_gemm by recompression: a tile needs more than %lld "
                                   "columns; accumulate instead",
                                   (long long)c->most);
            c->info[t] = info > 0 ? info : c->info[t];
        }
done:
    return st;
}

status tlr_recompress_panel(tlr_work *w, double alpha, const tlr *a, const tlr *b, double beta,
                            tlr *c, int64_t p) {
    job s = {.w = w, .a = a, .b = b, .c = c, .to = c->panel + p, .inner = a->cols->nt};
    status st;
    TRY(open_job(&s));
    TRY(load(&s, beta));
    for (int64_t j = 0; j < s.inner; j++) {
        TRY(products(&s, j, parts_of(s.host + (size_t)j * s.block, s.sum.count)));
        TRY(recompress(&s, alpha, j, j == 0 ? beta : 1));
    }
    TRY(fetch(&s));
    TRY(tlr_decide(c, &s.sum, s.to));
    TRY(tlr_panel_reserve(c, p));
    TRY(tlr_settle(w, c, &s.sum, s.to, true, NULL, 1));
done:
    close_job(&s);
    return st;
}
