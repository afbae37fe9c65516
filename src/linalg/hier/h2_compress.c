/* Compression of an H2 matrix: new bases level by level from the leaves, one batched decomposition
 * for each, and the far blocks in these bases (Boukaram et al., section 8.2). Without weights the
 * singular values are those of a basis itself; with them, of the basis times what the matrix does
 * with it. */
#include "h2.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND = 4 };
#define CHUNK ((int64_t)1 << 28) /* elements of a buffer for a part of the far blocks */

/* T = Unew' M of a level: old basis = new basis times T, up to what is cut. */
typedef struct {
    char *t;            /* most x cols each */
    int64_t most, cols; /* largest new rank, largest old rank */
    int64_t *old;       /* host: old ranks */
} change;

typedef struct {
    h2 *h;
    bool cut; /* singular values are cut; else bases become orthonormal by QR */
    double tol;
    int samples;
    char *const *z; /* weights of each level, or NULL */
    char *one;
    int64_t ld_one;
    size_t size;
    pack args;
    int l;
    nested_level *v; /* level l */
    char *m;         /* its bases in terms of the new ones below, rows x now.cols each */
    change now, below;
} sweep;

/* M of the level: [T_1 E_1; T_2 E_2], or the bases of leaves. */
static status stack(sweep *w) {
    const format *f = &w->h->f;
    nested_level *v = w->v, *low = v + 1;
    const int64_t rows = v->rows, cols = w->now.cols;
    char *old = v->u;
    call q;
    status st = MOAO_OK;
    v->u = NULL;
    w->m = old;
    if (w->l == w->h->t.levels)
        return MOAO_OK;
    w->m = NULL, v->rows = 1;
    for (int64_t i = 0; i < v->nodes; i++) {
        v->size[i] = low->rank[2 * i] + low->rank[2 * i + 1];
        v->rows = v->size[i] > v->rows ? v->size[i] : v->rows;
    }
    v->rows = (v->rows + 1) / 2 * 2;
    TRY(take(f, w->size * (size_t)(v->rows * cols * v->nodes), (void **)&w->m));
    TRY(call_open(f, &w->args, &q, low->nodes));
    for (int64_t c = 0; c < low->nodes; c++) {
        const int64_t from = c & 1 ? w->below.old[c - 1] : 0, to = c & 1 ? low->rank[c - 1] : 0;
        call_set(&w->args, &q, c, low->rank[c], w->now.old[c / 2], w->below.old[c],
                 w->below.t + w->size * (size_t)(c * w->below.most * w->below.cols),
                 old + w->size * (size_t)(c / 2 * rows * cols + from),
                 w->m + w->size * (size_t)(c / 2 * v->rows * cols + to));
    }
    TRY(call_gemm(f, &w->args, &q, 'N', 'N', 1, w->below.most, rows, 0, v->rows));
    TRY(f->be->sync(f->ctx));
done:
    f->be->release(f->ctx, old);
    return st;
}

/* Sizes of M (rows, columns) as arguments of a call without products. */
static status sizes_of_m(sweep *w, call *q) {
    const format *f = &w->h->f;
    status st;
    TRY(call_open(f, &w->args, q, w->v->nodes));
    for (int64_t i = 0; i < w->v->nodes; i++)
        call_set(&w->args, q, i, w->v->size[i], w->now.old[i], w->v->rank[i], NULL, NULL, NULL);
    TRY(pack_send(f, &w->args));
done:
    return st;
}

/* a := M Z' of all nodes, or M. */
static status weighted(sweep *w, char *a) {
    const format *f = &w->h->f;
    const nested_level *v = w->v;
    const int64_t cols = w->now.cols, bytes = (int64_t)w->size * v->rows * cols * v->nodes;
    call q;
    status st;
    if (!w->z)
        return f->be->copy(f->ctx, a, bytes, w->m, bytes, bytes, 1);
    TRY(call_open(f, &w->args, &q, v->nodes));
    for (int64_t i = 0; i < v->nodes; i++)
        call_set(&w->args, &q, i, v->size[i], w->now.old[i], w->now.old[i],
                 w->m + w->size * (size_t)(i * v->rows * cols),
                 w->z[w->l] + w->size * (size_t)(i * cols * cols),
                 a + w->size * (size_t)(i * v->rows * cols));
    TRY(call_gemm(f, &w->args, &q, 'N', 'T', 1, v->rows, cols, 0, v->rows));
done:
    return st;
}

/* Ranks of the level by its singular values, k for each node: what is cut has a norm of at most tol
 * times that of all; then up to a multiple of ROUND, so that blocks of rows are aligned. */
static status choose_ranks(sweep *w, const char *values, int64_t k, const int64_t *rank,
                           const int *info) {
    const format *f = &w->h->f;
    nested_level *v = w->v;
    const int64_t size = (int64_t)w->size;
    int *host = NULL;
    void *s = NULL;
    status st;
    TRY(ALLOC(host, (unsigned long)v->nodes, "what became of nodes"));
    TRY(mem_alloc(&s, (unsigned long)(k * v->nodes), w->size, "singular values"));
    TRY(f->be->copy(f->ctx, host, 4 * v->nodes, info, 4 * v->nodes, 4 * v->nodes, 1));
    TRY(f->be->copy(f->ctx, v->rank, 8 * v->nodes, rank, 8 * v->nodes, 8 * v->nodes, 1));
    TRY(f->be->copy(f->ctx, s, size * k, values, size * k, size * k, v->nodes));
    TRY(f->be->sync(f->ctx));
    v->most = 1;
    for (int64_t i = 0; i < v->nodes; i++) {
        const int64_t all = v->rank[i];
        const double first = all > 0 ? number_get(f->o.type, s, i * k) : 0;
        double sum = 0, cut = 0; /* in units of the largest value */
        if (host[i] > 0)
            TRY(status_fail(MOAO_NUMERIC, "a number of a hierarchical matrix is not finite"));
        for (int64_t e = 0; e < all && first > 0; e++) {
            const double x = number_get(f->o.type, s, i * k + e) / first;
            sum += x * x;
        }
        int64_t r = first > 0 ? all : 0;
        for (; r > 0; r--) {
            const double x = number_get(f->o.type, s, i * k + r - 1) / first;
            if (!(cut + x * x <= w->tol * w->tol * sum))
                break;
            cut += x * x;
        }
        r = (r + ROUND - 1) / ROUND * ROUND;
        v->rank[i] = r < all ? r : all;
        v->most = v->rank[i] > v->most ? v->rank[i] : v->most;
    }
done:
    free(host), free(s);
    return st;
}

/* All columns: the rank of a decomposition that is not cut. */
static status least_extents(sweep *w, int64_t *rank) {
    const format *f = &w->h->f;
    const int64_t bytes = 8 * w->v->nodes;
    int64_t *all = NULL;
    status st;
    TRY(ALLOC(all, (unsigned long)w->v->nodes, "ranks of nodes"));
    for (int64_t i = 0; i < w->v->nodes; i++)
        all[i] = batch_least(w->v->size[i], w->now.old[i]);
    TRY(f->be->copy(f->ctx, rank, bytes, all, bytes, bytes, 1));
    TRY(f->be->sync(f->ctx));
done:
    free(all);
    return st;
}

/* New bases by singular values: the left vectors of the weighted M, cut. */
static status by_singular_values(sweep *w) {
    const format *f = &w->h->f;
    const backend_lowrank *low = f->be->lowrank;
    nested_level *v = w->v;
    const backend_type t = f->o.type;
    const int64_t cols = w->now.cols, flat = v->rows * cols, k = batch_least(v->rows, cols),
                  over = 8, wide = w->samples < k ? w->samples : k;
    const bool random = w->samples > 0;
    const batch_cut cut = {.kind = 'R', .norm = 'F', .most = wide};
    const size_t lwork = low->workspace(random ? BATCH_RSVD : BATCH_GESVJ, t, v->nodes, v->rows,
                                        cols, random ? wide + over : 0);
    char *a = NULL, *s = NULL, *u = NULL;
    int64_t *rank = NULL;
    int *info = NULL;
    void *work = NULL;
    call q;
    status st;
    TRY(borrow(f, w->size * (size_t)(flat * v->nodes), (void **)&a));
    TRY(borrow(f, w->size * (size_t)(v->rows * k * v->nodes), (void **)&u));
    TRY(borrow(f, w->size * (size_t)(k * v->nodes), (void **)&s));
    TRY(borrow(f, sizeof *rank * (size_t)v->nodes, (void **)&rank));
    TRY(borrow(f, sizeof *info * (size_t)v->nodes, (void **)&info));
    TRY(borrow(f, lwork, &work));
    TRY(weighted(w, a));
    TRY(sizes_of_m(w, &q));
    const batch_dim m = {v->rows, call_dim(&w->args, &q, 0).each},
                    n = {cols, call_dim(&w->args, &q, 1).each};
    const batch_mat ma = batch_strided(a, v->rows, flat),
                    ms = batch_strided(s, random ? wide : k, random ? wide : k),
                    mu = batch_strided(u, v->rows, v->rows * k);
    TRY(random ? low->rsvd(f->ctx, t, 'U', 'N', &cut, over, 0, f->o.seed + 1, v->nodes, m, n, ma,
                           ms, mu, mu, rank, info, work, lwork)
               : low->gesvj(f->ctx, t, 'U', 'N', NULL, v->nodes, m, n, ma, ms, mu, mu, rank, info,
                            work, lwork));
    if (!random)
        TRY(least_extents(w, rank));
    TRY(choose_ranks(w, s, random ? wide : k, rank, info));
    const int64_t bytes = (int64_t)w->size * v->rows * v->most;
    TRY(take(f, (size_t)(bytes * v->nodes), (void **)&v->u));
    TRY(f->be->copy(f->ctx, v->u, bytes, u, (int64_t)w->size * v->rows * k, bytes, v->nodes));
    TRY(f->be->sync(f->ctx));
done:;
    void *all[] = {a, s, u, rank, info, work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        give(f, all[i]);
    return st;
}

/* Orthonormal bases of all columns; T is the triangle. */
static status by_qr(sweep *w) {
    const format *f = &w->h->f;
    nested_level *v = w->v;
    const int64_t cols = w->now.cols;
    int *info = NULL;
    void *work = NULL;
    const size_t lwork = f->be->lowrank->workspace(BATCH_QR, f->o.type, v->nodes, v->rows, cols, 0);
    call q;
    status st;
    v->most = batch_least(v->rows, cols) > 1 ? batch_least(v->rows, cols) : 1; /* the triangles' */
    for (int64_t i = 0; i < v->nodes; i++)
        v->rank[i] = batch_least(v->size[i], w->now.old[i]);
    w->now.most = v->most;
    TRY(take(f, w->size * (size_t)(v->most * cols * v->nodes), (void **)&w->now.t));
    TRY(take(f, sizeof *info * (size_t)v->nodes, (void **)&info));
    TRY(take(f, lwork, &work));
    TRY(sizes_of_m(w, &q));
    const batch_dim m = {v->rows, call_dim(&w->args, &q, 0).each},
                    n = {cols, call_dim(&w->args, &q, 1).each};
    TRY(f->be->lowrank->qr(f->ctx, f->o.type, 'Q', v->nodes, m, n,
                           batch_strided(w->m, v->rows, v->rows * cols),
                           batch_strided(w->now.t, v->most, v->most * cols), info, work, lwork));
    const int64_t bytes = (int64_t)w->size * v->rows * v->most;
    TRY(take(f, (size_t)(bytes * v->nodes), (void **)&v->u));
    TRY(f->be->copy(f->ctx, v->u, bytes, w->m, (int64_t)w->size * v->rows * cols, bytes, v->nodes));
    TRY(f->be->sync(f->ctx));
done:
    f->be->release(f->ctx, info), f->be->release(f->ctx, work);
    return st;
}

/* T = Unew' M. */
static status projections(sweep *w) {
    const format *f = &w->h->f;
    const nested_level *v = w->v;
    const int64_t cols = w->now.cols;
    call q;
    status st;
    w->now.most = v->most;
    TRY(take(f, w->size * (size_t)(v->most * cols * v->nodes), (void **)&w->now.t));
    TRY(call_open(f, &w->args, &q, v->nodes));
    for (int64_t i = 0; i < v->nodes; i++)
        call_set(&w->args, &q, i, v->rank[i], w->now.old[i], v->size[i],
                 v->u + w->size * (size_t)(i * v->rows * v->most),
                 w->m + w->size * (size_t)(i * v->rows * cols),
                 w->now.t + w->size * (size_t)(i * v->most * cols));
    TRY(call_gemm(f, &w->args, &q, 'T', 'N', 1, v->rows, v->rows, 0, v->most));
    TRY(f->be->sync(f->ctx));
done:
    return st;
}

/* S := T_p S T_q' for the far blocks of the level, a part at a time. */
static status project_blocks(sweep *w) {
    const format *f = &w->h->f;
    pair_blocks *b = w->h->far + w->l;
    const nested_level *v = w->v;
    const change *t = &w->now;
    const int64_t ld = (v->most + 1) / 2 * 2, stride = ld * v->most, flat = ld * t->cols,
                  most = CHUNK / flat > 0 ? CHUNK / flat : 1, each = t->most * t->cols;
    char *x = NULL, *s = NULL;
    call q;
    status st;
    TRY(take(f, w->size * (size_t)(stride * b->count), (void **)&s));
    TRY(borrow(f, w->size * (size_t)(flat * batch_least(most, b->count)), (void **)&x));
    for (int64_t e0 = 0; e0 < b->count; e0 += most) {
        const int64_t n = batch_least(most, b->count - e0);
        for (int side = 0; side < 2; side++) {
            TRY(call_open(f, &w->args, &q, n));
            for (int64_t i = 0; i < n; i++) {
                const int64_t e = e0 + i, p = b->row[e], c = b->col[e];
                char *to = x + w->size * (size_t)(i * flat);
                if (side == 0)
                    call_set(&w->args, &q, i, v->rank[p], t->old[c], t->old[p],
                             t->t + w->size * (size_t)(p * each), h2_block(w->h, b, e), to);
                else
                    call_set(&w->args, &q, i, v->rank[p], v->rank[c], t->old[c], to,
                             t->t + w->size * (size_t)(c * each),
                             s + w->size * (size_t)(e * stride));
            }
            TRY(call_gemm(f, &w->args, &q, 'N', side ? 'T' : 'N', 1, side ? ld : t->most,
                          side ? t->most : b->ld, 0, ld));
        }
    }
    TRY(f->be->sync(f->ctx));
    f->be->release(f->ctx, b->s);
    b->s = s, b->ld = ld, b->stride = stride, s = NULL;
done:
    give(f, x);
    f->be->release(f->ctx, s);
    return st;
}

/* Bases and far blocks of all levels. */
static status run(sweep *w) {
    h2 *h = w->h;
    const format *f = &h->f;
    status st = MOAO_OK;
    for (w->l = h->t.levels; w->l >= h->top; w->l--) {
        w->v = h->level + w->l;
        w->now = (change){NULL, 0, w->v->most, NULL};
        TRY(ALLOC(w->now.old, (unsigned long)w->v->nodes, "ranks of nodes"));
        memcpy(w->now.old, w->v->rank, sizeof *w->now.old * (size_t)w->v->nodes);
        TRY(stack(w));
        if (w->cut) {
            TRY(by_singular_values(w));
            TRY(projections(w));
        } else {
            TRY(by_qr(w));
        }
        TRY(project_blocks(w));
        f->be->release(f->ctx, w->m), f->be->release(f->ctx, w->below.t);
        free(w->below.old);
        w->m = NULL, w->below = w->now, w->now = (change){0};
    }
done:
    f->be->release(f->ctx, w->m), f->be->release(f->ctx, w->below.t),
        f->be->release(f->ctx, w->now.t);
    free(w->below.old), free(w->now.old);
    w->m = NULL, w->below = w->now = (change){0};
    return st;
}

status h2_compress(format *f, double tol, char weights, int samples) {
    h2 *h = (h2 *)f;
    const status st = h2_cut(h, tol, weights, samples);
    return st != MOAO_OK || h->top > h->t.levels ? st : h2_plan(h);
}

status h2_cut(h2 *h, double tol, char weights, int samples) {
    format *f = &h->f;
    char *z[NESTED_LEVELS] = {NULL};
    sweep w = {.h = h,
               .tol = tol,
               .samples = samples,
               .ld_one = BATCH_ORTH_MAX,
               .size = backend_size(f->o.type)};
    status st = MOAO_OK;
    if (h->top > h->t.levels)
        return MOAO_OK;
    TRY(pool_open(f));
    TRY(identity_make(f, w.ld_one, &w.one));
    if (weights == 'W') {
        TRY(run(&w));
        TRY(h2_weights(h, w.one, w.ld_one, &w.args, z));
        w.z = z;
        /* what is cut at each level, of rows and of columns, adds up */
        w.tol = tol / sqrt(2.0 * (h->t.levels - h->top + 1));
    }
    w.cut = true;
    TRY(run(&w));
done:
    for (int l = 0; l < NESTED_LEVELS; l++)
        f->be->release(f->ctx, z[l]);
    f->be->release(f->ctx, w.one);
    pool_close(f);
    pack_free(f, &w.args);
    return st;
}
