/* From a dense block column to tiles, and back. */
#include "internal.h"

#include <math.h>

void tlr_place_tiles(const tlr *a, const panel *p, const double *src, int64_t lds, tlr_batch *c) {
    const int64_t top = a->rows->first[p->r0], left = a->cols->first[p->c0];
    int64_t t = 0;
    for (int64_t i = p->r0; i < p->r1; i++) { /* bounds are all tiles': bits depend on them */
        c->bm = largest(c->bm, tlr_extent(a->rows, i));
        for (int64_t k = p->c0; tlr_batch_has(c, p, i) && k < p->c1; k++, t++) {
            c->at[t] = src + a->rows->first[i] - top + (a->cols->first[k] - left) * lds;
            c->m[t] = tlr_extent(a->rows, i);
            c->n[t] = tlr_extent(a->cols, k);
        }
    }
    for (int64_t k = p->c0; p->r1 > p->r0 && k < p->c1; k++)
        c->bn = largest(c->bn, tlr_extent(a->cols, k));
}

status tlr_batch_open(tlr_work *w, const tlr *a, const panel *p, tlr_batch *c) {
    double *dev;
    status st;
    c->count = 0;
    for (int64_t i = p->r0; i < p->r1; i++)
        c->count += tlr_batch_has(c, p, i) ? p->c1 - p->c0 : 0;
    c->most = a->o.rank > 0 ? least(a->o.rank, a->b) : a->o.cut;
    c->bytes = (size_t)c->count * (4 * sizeof(int64_t) + sizeof(int));
    TRY(mem_alloc((void **)&c->host, c->bytes, 1, "sizes and ranks of tiles"));
    TRY(tlr_work_room(w, BUF_BATCH, (int64_t)(c->bytes / sizeof(double)) + 1, &dev));
    c->dev = (char *)dev;
    c->at = (const double **)c->host;
    c->m = (int64_t *)(c->host + (size_t)c->count * sizeof *c->at);
    c->n = c->m + c->count;
    c->rank = c->n + c->count;
    c->info = (int *)(c->rank + c->count);
    TRY(tlr_work_room(w, BUF_U, c->count * a->b * c->most, &c->u));
    TRY(tlr_work_room(w, BUF_V, c->count * a->b * c->most, &c->v));
done:
    return st;
}

void tlr_batch_close(tlr_batch *c) {
    free(c->host);
}

batch_cut tlr_cut(const tlr *a, int64_t most) {
    return (batch_cut){.tol = a->o.rank > 0 ? 0 : a->o.tau,
                       .kind = 'A',
                       .norm = 'F',
                       .most = most,
                       .or_nothing = a->o.rank == 0}; /* a tile of too high a rank is dense */
}

/* Of a fixed rank: columns of a sample beyond it, where there is room for them, and power
 * iterations. Where singular values decay as a fixed rank asks for, that is within 3 % of the best
 * (bench/results/tlr-h200.md). */
#define BEYOND 8
#define POWER 0
static int64_t samples_beyond(const tlr_batch *c) {
    return least(BEYOND, BATCH_SVD_MAX - c->most);
}

/* Tiles of one call, at most `most` columns of each: their places and sizes, and where the answers
 * go, in the backend's memory. */
typedef struct {
    int64_t count, most;
    batch_dim m, n;
    batch_mat src, u, v;
    int64_t *rank;
    int *info;
} tile_call;

/* Bytes of work for so many tiles of the call. */
static size_t call_bytes(const tlr *a, const tlr_batch *c, int64_t most, int64_t count) {
    const bool fixed = a->o.rank > 0;
    return a->be->lowrank->workspace(fixed ? BATCH_RSVD : BATCH_ARA, BACKEND_D, count, c->bm, c->bn,
                                     most + (fixed ? samples_beyond(c) : 0));
}

static status run_call(tlr_work *w, const tlr *a, const tlr_batch *c, const tile_call *k) {
    const backend_lowrank *low = w->be->lowrank;
    batch_cut cut = tlr_cut(a, k->most);
    const size_t one = call_bytes(a, c, k->most, 1), best = call_bytes(a, c, k->most, k->count),
                 most = 2 * a->o.memory; /* as two buffers of products */
    double *values;
    status st;
    cut.later = k->most < c->most ? c->most : 0;
    TRY(tlr_work_bytes(w, best <= most ? best : one > most ? one : most));
    if (a->o.rank > 0) {
        TRY(tlr_work_room(w, BUF_CORE, k->count * k->most, &values));
        st = low->rsvd(w->ctx, BACKEND_D, 'U', 'S', &cut, samples_beyond(c), POWER, a->o.seed,
                       k->count, k->m, k->n, k->src, batch_strided(values, k->most, k->most), k->u,
                       k->v, k->rank, k->info, w->work, w->lwork);
    } else {
        st = low->ara(w->ctx, BACKEND_D, 'L', &cut, a->o.seed, k->count, k->m, k->n, k->src, k->u,
                      k->v, k->rank, k->info, w->work, w->lwork);
    }
done:
    return st;
}

/* On a device a call takes for each of its tiles the time and the memory that the largest rank
 * needs: most tiles go with a smaller one, and those of which this says nothing once more. */
#define FEW 64
static int64_t first_most(const tlr_work *w, const tlr *a, const tlr_batch *c) {
    return w->ctx && a->o.rank == 0 && c->most >= FEW + FEW / 2 ? FEW : c->most;
}

/* Those of which a call for fewer columns has said nothing. Waits. */
static status adapt_again(tlr_work *w, const tlr *a, tlr_batch *c, int64_t lds) {
    enum { AT, ROWS, COLUMNS, TO_U, TO_V, RANK, INFO, PARTS };
    const int64_t e = sizeof(int64_t);
    int64_t n = 0, x = 0;
    int64_t *host, *there;
    status st;
    for (int64_t t = 0; t < c->count; t++)
        n += c->info[t] == -3;
    if (n == 0)
        return MOAO_OK;
    TRY(tlr_work_indices(w, PARTS * n, &host, &there));
    for (int64_t t = 0; t < c->count; t++) {
        if (c->info[t] != -3)
            continue;
        host[AT * n + x] = (int64_t)(intptr_t)c->at[t];
        host[ROWS * n + x] = c->m[t];
        host[COLUMNS * n + x] = c->n[t];
        host[TO_U * n + x] = (int64_t)(intptr_t)(c->u + t * a->b * c->most);
        host[TO_V * n + x] = (int64_t)(intptr_t)(c->v + t * a->b * c->most);
        x++;
    }
    TRY(tlr_work_send(w, RANK * n, host, there));
    TRY(run_call(w, a, c,
                 &(tile_call){n,
                              c->most,
                              {c->bm, there + ROWS * n},
                              {c->bn, there + COLUMNS * n},
                              batch_pointers((void *const *)(there + AT * n), lds),
                              batch_pointers((void *const *)(there + TO_U * n), a->b),
                              batch_pointers((void *const *)(there + TO_V * n), a->b),
                              there + RANK * n,
                              (int *)(there + INFO * n)}));
    TRY(w->be->copy(w->ctx, host + RANK * n, 2 * e * n, there + RANK * n, 2 * e * n, 2 * e * n, 1));
    TRY(w->be->sync(w->ctx));
    x = 0;
    for (int64_t t = 0; t < c->count; t++) {
        if (c->info[t] != -3)
            continue;
        c->rank[t] = host[RANK * n + x];
        c->info[t] = ((const int *)(host + INFO * n))[x];
        x++;
    }
done:
    return st;
}

/* Columns of all tiles into c->u and c->v, their numbers into c->rank and c->info. Waits. */
static status adapt(tlr_work *w, const tlr *a, tlr_batch *c, int64_t lds) {
    const int64_t stride = a->b * c->most, asked = (int64_t)((char *)c->rank - c->host),
                  answered = (int64_t)c->bytes - asked, first = first_most(w, a, c);
    int64_t *host, *there;
    status st;
    TRY(tlr_work_indices(w, asked / (int64_t)sizeof *host, &host, &there));
    memcpy(host, c->host, (size_t)asked);
    TRY(tlr_work_send(w, asked / (int64_t)sizeof *host, host, (int64_t *)(void *)c->dev));
    TRY(run_call(w, a, c,
                 &(tile_call){c->count,
                              first,
                              {c->bm, tlr_on_device(c, c->m)},
                              {c->bn, tlr_on_device(c, c->n)},
                              batch_pointers(tlr_on_device(c, c->at), lds),
                              batch_strided(c->u, a->b, stride),
                              batch_strided(c->v, a->b, stride),
                              tlr_on_device(c, c->rank),
                              tlr_on_device(c, c->info)}));
    TRY(w->be->copy(w->ctx, c->rank, answered, c->dev + asked, answered, answered, 1));
    TRY(w->be->sync(w->ctx));
    if (first < c->most)
        st = adapt_again(w, a, c, lds);
done:
    return st;
}

/* Kind and rank of each tile from the answers. */
status tlr_decide(const tlr *a, const tlr_batch *c, panel *p) {
    const bool all = c->most == 0;
    int64_t t = 0;
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; tlr_batch_has(c, p, i) && k < p->c1; k++, t++) {
            tlr_tile *tile = panel_tile(p, i, k);
            tile->dropped = NAN;
            tile->fp16 = 0;
            if (!all && c->info[t] > 0)
                return status_fail(MOAO_NUMERIC,
                                   "tile (%lld, %lld) of the tile low-rank matrix holds a number "
                                   "that is not finite",
                                   (long long)i, (long long)k);
            if (c->m[t] == 0 || c->n[t] == 0 || (!all && c->info[t] == 0 && c->rank[t] == 0)) {
                tile->kind = TLR_EMPTY;
                tile->rank = 0;
            } else if (all || (c->info[t] != 0 && (c->info[t] != -3 || a->o.rank == 0))) {
                tile->kind = TLR_DENSE; /* no convergence, or too many columns */
                tile->rank = (int32_t)c->n[t];
            } else {
                tile->kind = TLR_LOWRANK;
                tile->rank = (int32_t)c->rank[t];
            }
        }
    return MOAO_OK;
}

/* All in one batch, as products with the identity. */
status tlr_settle(tlr_work *w, const tlr *a, const tlr_batch *c, const panel *p, bool right,
                  const double *exact, int64_t lde) {
    const int64_t top = a->rows->first[p->r0], left = a->cols->first[p->c0], b = a->b;
    product_list l = {0};
    double *one;
    int64_t t = 0;
    status st;
    TRY(tlr_work_identity(w, largest(c->most, 1), &one));
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; tlr_batch_has(c, p, i) && k < p->c1; k++, t++) {
            const tlr_tile *tile = panel_tile(p, i, k);
            const int64_t m = c->m[t], n = c->n[t], at = t * b * c->most, r = tile->rank;
            double *u = panel_u(a, p, i, k), *v = panel_v(a, p, i, k);
            if (tile->kind == TLR_DENSE && exact) {
                TRY(tlr_dense_copy(
                    w, m, n, exact + a->rows->first[i] - top + (a->cols->first[k] - left) * lde,
                    lde, u, m));
            } else if (tile->kind == TLR_LOWRANK) {
                TRY(tlr_list_add(&l, (product){c->u + at, one, u, b, w->identity, m, m, r, r}));
                if (right)
                    TRY(tlr_list_add(&l, (product){c->v + at, one, v, b, w->identity, n, n, r, r}));
            }
        }
    TRY(tlr_list_run(w, &l, BACKEND_D, 'N', 'N'));
done:
    tlr_list_free(&l);
    return st;
}

static double tile_norm(const double *x, int64_t m, int64_t n, int64_t ld) {
    double most = 0, s = 0; /* in units of the largest, whose square may be out of range */
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            most = fmax(most, fabs(x[i + j * ld]));
    for (int64_t j = 0; j < n && most > 0; j++)
        for (int64_t i = 0; i < m; i++)
            s += x[i + j * ld] / most * (x[i + j * ld] / most);
    return most * sqrt(s);
}

/* Norms of what was dropped: src less the products, looked at on the host. */
static status measure(tlr_work *w, const tlr *a, const tlr_batch *c, panel *p, double *src,
                      int64_t lds) {
    const int64_t rows = a->rows->first[p->r1] - a->rows->first[p->r0];
    double *host = NULL;
    int64_t t = 0;
    status st;
    TRY(ALLOC(host, (size_t)(rows * p->width), "what was dropped of tiles"));
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; tlr_batch_has(c, p, i) && k < p->c1; k++, t++)
            if (panel_tile(p, i, k)->kind == TLR_LOWRANK)
                TRY(tlr_dense_gemm(w, 'N', 'T', c->m[t], c->n[t], panel_tile(p, i, k)->rank, -1,
                                   c->u + t * a->b * c->most, a->b, c->v + t * a->b * c->most, a->b,
                                   1, (double *)c->at[t], lds));
    TRY(tlr_dense_copy(w, rows, p->width, src, lds, host, rows));
    TRY(w->be->sync(w->ctx));
    t = 0;
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; tlr_batch_has(c, p, i) && k < p->c1; k++, t++) {
            const int64_t at = c->at[t] - src;
            tlr_tile *tile = panel_tile(p, i, k);
            tile->dropped = tile->kind == TLR_DENSE ? 0
                                                    : tile_norm(host + at % lds + at / lds * rows,
                                                                c->m[t], c->n[t], rows);
        }
done:
    free(host);
    return st;
}

/* Sums of squares of the columns of tiles of a kind, each tile's r of them to out + t b on; x: what
 * the tiles' places are counted from. */
static status squares_of(tlr_work *w, const tlr *a, const tlr_batch *c, const panel *p,
                         tlr_kind kind, const double *x, int64_t ld, double *out) {
    const int64_t each = (int64_t)(sizeof(split_part) / sizeof(int64_t));
    int64_t *host, *there, n = 0, t = 0, most = 0;
    status st;
    TRY(tlr_work_indices(w, each * c->count, &host, &there));
    split_part *const list = (split_part *)(void *)host;
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; tlr_batch_has(c, p, i) && k < p->c1; k++, t++) {
            const int64_t r = panel_tile(p, i, k)->rank;
            if (panel_tile(p, i, k)->kind != kind)
                continue;
            most = largest(most, r);
            list[n++] = kind == TLR_DENSE
                            ? (split_part){c->at[t] - x, c->m[t], r, ld, t * a->b}
                            : (split_part){t * a->b * c->most, c->n[t], r, ld, t * a->b};
        }
    TRY(tlr_work_send(w, each * n, host, there));
    st = w->be->split->squares(w->ctx, n, (const split_part *)there, most, x, out);
done:
    return st;
}

/* How many columns of each tile may be FP16 numbers: the last ones, which carry the smallest
 * singular values s; FP16 rounds U and V by 2^-11 at most, the product by 2^-11 |s| each. Of a
 * dense tile all or none. Waits. */
static status choose_fp16(tlr_work *w, const tlr *a, const tlr_batch *c, panel *p,
                          const double *src, int64_t lds) {
    const int64_t n = c->count * a->b;
    const double most = ldexp(a->o.tau, 11);
    double *there, *host = NULL;
    int64_t t = 0;
    status st;
    TRY(ALLOC(host, (size_t)n, "norms of columns"));
    TRY(tlr_work_room(w, BUF_CORE, n, &there));
    TRY(squares_of(w, a, c, p, TLR_LOWRANK, c->v, a->b, there));
    TRY(squares_of(w, a, c, p, TLR_DENSE, src, lds, there));
    TRY(tlr_dense_copy(w, n, 1, there, largest(n, 1), host, largest(n, 1)));
    TRY(w->be->sync(w->ctx));
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; tlr_batch_has(c, p, i) && k < p->c1; k++, t++) {
            tlr_tile *tile = panel_tile(p, i, k);
            double sum = 0;
            int32_t r = 0;
            for (; r < tile->rank; r++) {
                sum += host[t * a->b + tile->rank - 1 - r];
                if (!(sum <= most * most))
                    break;
            }
            tile->fp16 = tile->kind == TLR_DENSE && r < tile->rank ? 0 : r;
        }
done:
    free(host);
    return st;
}

status tlr_compress_begin(tlr_work *w, tlr *a, int64_t q, const double *src, int64_t lds,
                          tlr_batch *c) {
    panel *p = a->panel + q;
    status st;
    TRY(tlr_batch_open(w, a, p, c));
    tlr_place_tiles(a, p, src, lds, c);
    if (c->most > 0 && c->count > 0)
        TRY(adapt(w, a, c, lds));
    tlr_work_lap(w, TLR_COMPRESS);
    TRY(tlr_decide(a, c, p));
    if (a->factor && a->o.fp16 && a->o.tau > 0)
        TRY(choose_fp16(w, a, c, p, src, lds));
done:
    return st;
}

status tlr_compress_end(tlr_work *w, tlr *a, int64_t q, const tlr_batch *c, double *src,
                        int64_t lds, bool right, const double *exact, int64_t lde) {
    panel *p = a->panel + q;
    status st;
    TRY(tlr_panel_reserve(a, q));
    TRY(tlr_settle(w, a, c, p, right, exact, lde));
    if (a->o.norms)
        TRY(measure(w, a, c, p, src, lds));
done:
    return st;
}

status tlr_compress_panel(tlr_work *w, tlr *a, int64_t q, double *src, int64_t lds,
                          const double *exact, int64_t lde) {
    tlr_batch c = {0};
    status st = tlr_compress_begin(w, a, q, src, lds, &c);
    if (st == MOAO_OK)
        st = tlr_compress_end(w, a, q, &c, src, lds, true, exact, lde);
    tlr_batch_close(&c);
    return st;
}

status tlr_expand_panel(tlr_work *w, const tlr *a, int64_t q, double alpha, double *d,
                        int64_t ldd) {
    const panel *p = a->panel + q;
    const int64_t top = panel_row(a, q), left = a->cols->first[p->c0];
    product_list l = {0};
    status st = MOAO_OK;
    if (alpha == 0)
        return tlr_dense_scale(w, panel_rows(a, q), p->width, 0, d, ldd);
    TRY(tlr_store_fetch(w, a, q, -1));
    if (a->factor) { /* L I, with zeros above its diagonal */
        double *identity;
        TRY(tlr_work_identity(w, p->width, &identity));
        TRY(tlr_dense_copy(w, p->width, p->width, identity, w->identity, d, ldd));
        TRY(tlr_dense_trmm(w, 'L', 'N', p->width, p->width, 1, p->diag, p->width, d, ldd));
    } else if (a->symmetric) {
        TRY(tlr_dense_copy(w, p->width, p->width, p->diag, p->width, d, ldd));
    }
    for (int64_t i = p->r0; i < p->r1; i++)
        for (int64_t k = p->c0; k < p->c1; k++) {
            const tlr_tile *t = panel_tile(p, i, k);
            const int64_t m = tlr_extent(a->rows, i), n = tlr_extent(a->cols, k);
            double *to = d + a->rows->first[i] - top + (a->cols->first[k] - left) * ldd;
            if (t->kind == TLR_DENSE)
                TRY(tlr_dense_copy(w, m, n, panel_u(a, p, i, k), m, to, ldd));
            else
                TRY(tlr_list_add(&l, (product){panel_u(a, p, i, k), panel_v(a, p, i, k), to, m, n,
                                               ldd, m, n, t->rank}));
        }
    TRY(tlr_list_run(w, &l, BACKEND_D, 'N', 'T'));
    TRY(tlr_dense_scale(w, panel_rows(a, q), p->width, alpha, d, ldd));
done:
    tlr_list_free(&l);
    return st;
}
