/* The matrix: its block columns, their memory, and what is in them. */
#include "distributed.h"
#include "pool.h"

#include <math.h>

static status check_options(const tlr_options *o, const tlr_layout *rows, const tlr_layout *cols) {
    for (int side = 0; side < 2; side++) {
        const tlr_layout *l = side ? cols : rows;
        for (int64_t i = 0; i < l->nt; i++)
            if (tlr_extent(l, i) < 0 || l->first[l->nt] != l->n)
                return status_fail(MOAO_INPUT, "tile layout: boundaries do not increase up to %lld",
                                   (long long)l->n);
    }
    if (o->rank < 0 || o->rank > BATCH_SVD_MAX || o->cut > BATCH_SVD_MAX || o->width < 0)
        return status_fail(MOAO_INPUT,
                           "tile low-rank matrix: rank %lld, cut %lld and width %lld must not be "
                           "negative or above %d columns of a tile",
                           (long long)o->rank, (long long)o->cut, (long long)o->width,
                           BATCH_SVD_MAX);
    if (o->terms < 0 || o->terms > 3)
        return status_fail(MOAO_INPUT, "tile low-rank matrix: products in %d terms, not 0 to 3",
                           o->terms);
    if (o->rank == 0 && !(o->tau >= 0 && isfinite(o->tau)))
        return status_fail(MOAO_INPUT, "tile low-rank matrix: tolerance %g must not be negative",
                           o->tau);
    return MOAO_OK;
}

static void set_defaults(tlr *a) {
    a->b = 1;
    for (int64_t i = 0; i < a->rows->nt; i++)
        a->b = largest(a->b, tlr_extent(a->rows, i));
    for (int64_t k = 0; k < a->cols->nt; k++)
        a->b = largest(a->b, tlr_extent(a->cols, k));
    if (a->o.width == 0)
        a->o.width = least(TLR_WIDTH, largest(2 * a->b, a->cols->n / 16));
    if (a->o.memory == 0)
        a->o.memory = TLR_MEMORY;
    if (a->o.cut < 0)
        a->o.cut = a->b / 2;
    if (a->o.rank == 0 && a->o.tau == 0)
        a->o.cut = 0;
    a->o.cut = least(a->o.cut, least(a->b, BATCH_SVD_MAX));
    a->step = largest(1, a->o.width / a->b);
    a->panels = (a->cols->nt + a->step - 1) / a->step;
    if (a->o.distributed && a->o.parts > 0)
        a->block = a->step * largest(1, (a->panels + a->o.parts - 1) / a->o.parts);
}

static status new_panel(tlr *a, int64_t q) {
    panel *p = a->panel + q;
    status st;
    p->c0 = q * a->step;
    p->c1 = least(p->c0 + a->step, a->cols->nt);
    p->r0 = a->symmetric ? p->c1 : 0;
    p->r1 = a->rows->nt;
    p->width = a->cols->first[p->c1] - a->cols->first[p->c0];
    const size_t rows = (size_t)(p->r1 - p->r0), cols = (size_t)(p->c1 - p->c0);
    TRY(ALLOC(p->tile, rows * cols, "tiles"));
    TRY(ALLOC(p->ubegin, rows, "tile rows"));
    TRY(ALLOC(p->ucols, rows, "tile rows"));
    TRY(ALLOC(p->lcols, rows, "tile rows"));
    TRY(ALLOC(p->vbegin, cols, "tile columns"));
    TRY(ALLOC(p->vcols, cols, "tile columns"));
done:
    return st;
}

status tlr_new(const backend *be, backend_ctx *ctx, const tlr_layout *rows, const tlr_layout *cols,
               bool symmetric, const tlr_options *o, tlr **out) {
    tlr *a = NULL;
    status st;
    *out = NULL;
    TRY(check_options(o, rows, cols));
    TRY(ALLOC(a, 1, "tile low-rank matrix"));
    a->be = be;
    a->ctx = ctx;
    a->rows = rows;
    a->cols = cols;
    a->symmetric = symmetric;
    a->o = *o;
    a->o.mixed = o->mixed && o->fp32 && !o->host;
    a->o.terms = a->o.mixed && be->split ? o->terms : 0;
    a->o.fp16 = o->fp16 && o->fp32 && !o->host && !o->distributed && o->rank == 0 && be->split;
    a->terms = a->o.terms;
    a->of_fp16 = a->terms < 3 ? 1 : 2;
    set_defaults(a);
    TRY(ALLOC(a->solving, 1, "tile low-rank matrix"));
    TRY(ALLOC(a->panel, (size_t)a->panels, "block columns"));
    for (int64_t q = 0; q < a->panels; q++)
        TRY(new_panel(a, q));
    *out = a;
    a = NULL;
done:
    tlr_close(a);
    return st;
}

static void give(tlr *a, tlr_pool *pool, double *p) {
    tlr_pool_give(pool, a->be, a->ctx, TLR_MAIN, p);
}

void tlr_panel_release(tlr *a, int64_t q) {
    panel *p = a->panel + q;
    if (!tlr_in_blocks(a)) /* they go back with the factor */
        a->be->release(a->ctx, p->diag);
    if (p->kept) {
        tlr_store_release(a, p); /* u and v were of a place */
    } else if (!tlr_in_blocks(a)) {
        give(a, a->pool, p->u);
        give(a, a->pool, p->v);
    }
    p->diag = p->u = p->v = NULL;
}

void tlr_close(tlr *a) {
    if (!a)
        return;
    if (a->solving)
        tlr_work_close(a->solving);
    free(a->solving);
    for (int64_t q = 0; a->panel && q < a->panels; q++) {
        panel *p = a->panel + q;
        tlr_panel_release(a, q);
        free(p->tile), free(p->ubegin), free(p->ucols), free(p->lcols);
        free(p->vbegin), free(p->vcols);
    }
    tlr_block_free(a);
    tlr_panel_no_spare(a);
    tlr_distributed_close(a);
    free(a->panel);
    free(a);
}

void tlr_panel_no_spare(tlr *a) {
    for (int k = 0; k < 2; k++) {
        give(a, a->pool, a->spare[k].p);
        a->spare[k].p = NULL;
    }
}

void tlr_panel_give(tlr *a, panel *p) {
    double *const old[2] = {p->u, p->v};
    p->u = p->v = NULL;
    tlr_panel_no_spare(a);
    for (int k = 0; k < 2; k++)
        if (a->factor) {
            a->spare[k].p = old[k];
            a->spare[k].room = a->taken[k];
        } else {
            a->be->release(a->ctx, old[k]);
        }
}

static status slab(tlr *a, tlr_pool *pool, int64_t count, double **p) {
    const size_t bytes = sizeof(double) * (size_t)largest(count, 1);
    void *fresh = NULL;
    give(a, pool, *p);
    *p = NULL;
    const status st = tlr_pool_take(pool, a->be, a->ctx, TLR_MAIN, false, bytes, &fresh);
    *p = fresh;
    return st;
}

/* u or v, from what is spare where that is enough. */
static status vectors(tlr *a, int k, int64_t count, double **p) {
    if (a->spare[k].p && a->spare[k].room >= count) {
        *p = a->spare[k].p;
        a->spare[k].p = NULL;
        return MOAO_OK;
    }
    if (a->spare[k].p)
        count = tlr_more(count, a->spare[k].room);
    give(a, a->pool, a->spare[k].p);
    a->spare[k].p = NULL;
    a->taken[k] = largest(count, 1);
    return slab(a, a->pool, count, p);
}

/* So many numbers of u, of v, and the block on the diagonal. */
static status place(tlr *a, int64_t q, int64_t u, int64_t v) {
    panel *p = a->panel + q;
    const int64_t bu = tlr_block_round(8 * u), bv = tlr_block_round(8 * v);
    char *at;
    const status st = tlr_block_room(a, q, bu + bv + 8 * p->width * p->width, &at);
    if (st == MOAO_OK) {
        p->u = (double *)(void *)at;
        p->v = (double *)(void *)(at + bu);
        p->diag = (double *)(void *)(at + bu + bv);
    }
    return st;
}

status tlr_panel_reserve(tlr *a, int64_t q) {
    panel *p = a->panel + q;
    int64_t u = 0, v = 0;
    status st;
    for (int64_t i = p->r0; i < p->r1; i++) {
        int64_t cols = 0, low = 0, fp16 = 0;
        for (int64_t k = p->c0; k < p->c1; k++) {
            tlr_tile *t = panel_tile(p, i, k);
            t->u = cols;
            t->u_fp16 = fp16;
            cols += t->rank;
            low += t->kind == TLR_LOWRANK ? t->rank : 0;
            fp16 += t->fp16;
        }
        p->ubegin[i - p->r0] = u;
        p->ucols[i - p->r0] = cols;
        p->lcols[i - p->r0] = low;
        u += cols * tlr_extent(a->rows, i);
    }
    for (int64_t k = p->c0; k < p->c1; k++) {
        int64_t cols = 0, fp16 = 0;
        for (int64_t i = p->r0; i < p->r1; i++) {
            tlr_tile *t = panel_tile(p, i, k);
            t->v = cols;
            t->v_fp16 = fp16;
            cols += t->kind == TLR_LOWRANK ? t->rank : 0;
            fp16 += t->kind == TLR_LOWRANK ? t->fp16 : 0;
        }
        p->vbegin[k - p->c0] = v;
        p->vcols[k - p->c0] = cols;
        v += cols * tlr_extent(a->cols, k);
    }
    if (tlr_in_blocks(a)) {
        TRY(place(a, q, u, v));
    } else {
        TRY(vectors(a, 0, u, &p->u));
        TRY(vectors(a, 1, v, &p->v));
        if (a->symmetric)
            TRY(slab(a, NULL, p->width * p->width, &p->diag));
    }
    p->bytes = 8.0 * (double)(u + v + (a->symmetric ? p->width * p->width : 0));
done:
    if (st != MOAO_OK)
        tlr_panel_release(a, q);
    return st;
}

const tlr_tile *tlr_tile_at(const tlr *a, int64_t i, int64_t k) {
    if (i < 0 || i >= a->rows->nt || k < 0 || k >= a->cols->nt || i < panel_of(a, k)->r0)
        return NULL;
    return panel_tile(panel_of(a, k), i, k);
}

/* Rank that nine tenths of the low-rank tiles do not exceed. */
static int64_t most_of(const int64_t *count, int64_t b, int64_t tiles) {
    int64_t seen = 0, r = 0;
    for (; r < b; r++) {
        seen += count[r];
        if ((double)seen >= 0.9 * (double)tiles)
            break;
    }
    return r;
}

static void count_tile(const tlr *a, const tlr_tile *t, int64_t *count, tlr_stats *s) {
    s->tiles++;
    s->mean += t->rank;
    s->columns += t->rank;
    s->fp16 += t->fp16;
    s->dropped = isnan(t->dropped) ? NAN : hypot(s->dropped, t->dropped);
    if (t->kind == TLR_EMPTY) {
        s->empty++;
    } else if (t->kind == TLR_DENSE) {
        s->dense++;
        s->dense_fp16 += t->fp16 > 0;
    } else {
        s->lowrank++;
        s->histogram[least(15, t->rank * 16 / a->b)]++;
        s->most = largest(s->most, t->rank);
        if (count)
            count[t->rank]++;
    }
}

void tlr_statistics(const tlr *a, tlr_stats *s) {
    tlr_statistics_of(a, a->panels, s);
}

void tlr_statistics_of(const tlr *a, int64_t panels, tlr_stats *s) {
    const double m = (double)a->rows->n, n = (double)a->cols->n;
    int64_t *count = calloc((size_t)a->b + 1, sizeof *count); /* NULL: no p90 */
    memset(s, 0, sizeof *s);
    s->order = a->b;
    for (int64_t q = 0; q < panels; q++) {
        const panel *p = a->panel + q;
        for (int64_t t = 0; t < (p->r1 - p->r0) * (p->c1 - p->c0); t++)
            count_tile(a, p->tile + t, count, s);
        s->bytes += p->bytes;
    }
    s->here = s->bytes - tlr_distributed_elsewhere(a, panels);
    if (count && s->lowrank)
        s->p90 = most_of(count, a->b, s->lowrank);
    s->mean /= s->tiles ? (double)s->tiles : 1;
    s->bytes_dense = 8 * (a->symmetric ? n * (n + 1) / 2 : m * n);
    free(count);
}
