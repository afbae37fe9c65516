/* Memory that the steps of one call share, and the dense operations on it. */
#include "pool.h"
#include "update.h"

#include <time.h>

static const double one = 1, zero = 0;

#define GROWTH ((int64_t)1 << 23) /* numbers up to which a buffer grows by as much again */

/* Sizes and places of products, one array after another. */
enum { LIST_M, LIST_N, LIST_K, LIST_A, LIST_B, LIST_C, LIST_LDA, LIST_LDB, LIST_LDC, LIST_PARTS };
#define LIST_ENTRY ((int64_t)(LIST_PARTS * sizeof(int64_t)))
#define LIST_MOST ((int64_t)1 << 17) /* products of one call */

void tlr_work_open(tlr_work *w, const backend *be, backend_ctx *ctx) {
    memset(w, 0, sizeof *w);
    w->be = be;
    w->ctx = ctx;
}

status tlr_work_fork(tlr_work *w) {
    status st = MOAO_OK;
    if (!w->ctx)
        return st; /* the CPU */
    for (; w->streams < TLR_STREAMS; w->streams++)
        if (w->streams == 0)
            w->stream[0] = w->ctx;
        else
            TRY(w->be->open_low_priority(w->stream[0], &w->stream[w->streams]));
    for (int k = 1; k < w->streams; k++)
        TRY(w->be->wait_for(w->stream[k], w->stream[0]));
done:
    return st;
}

status tlr_work_join(tlr_work *w) {
    status st = MOAO_OK;
    if (w->streams == 0)
        return st;
    w->turn = 0;
    w->ctx = w->stream[0];
    for (int k = 1; k < w->streams; k++)
        TRY(w->be->wait_for(w->ctx, w->stream[k]));
done:
    return st;
}

status tlr_work_take(tlr_work *w, size_t bytes, void **p) {
    return tlr_pool_take(w->pool, w->be, w->ctx, w->side, w->low, bytes, p);
}

void tlr_work_give(tlr_work *w, void *p) {
    tlr_pool_give(w->pool, w->be, w->ctx, w->side, p);
}

static void give_all(tlr_work *w) {
    for (int i = 0; i < BUFFERS; i++)
        tlr_work_give(w, w->buf[i]);
    tlr_work_give(w, w->work);
    tlr_work_give(w, w->list);
    w->be->release_host(w->ctx, w->list_host);
}

void tlr_work_close(tlr_work *w) {
    if (!w->be)
        return;
    if (w->streams > 0)
        w->ctx = w->stream[0];
    for (int k = 1; k < w->streams; k++)
        w->be->close(w->stream[k]);
    tlr_store_forget(w);
    give_all(w);
    tlr_work_open(w, NULL, NULL);
}

void tlr_work_empty(tlr_work *w) {
    w->be->sync(w->ctx); /* an error is seen again by the next one */
    tlr_store_forget(w);
    give_all(w);
    memset(w->buf, 0, sizeof w->buf);
    memset(w->count, 0, sizeof w->count);
    w->work = NULL;
    w->lwork = 0;
    w->identity = 0;
    w->list = w->list_host = NULL;
    w->list_count = w->list_used = 0;
}

void tlr_work_rest(tlr_work *w) {
    tlr_store_forget(w);
    w->list_used = 0;
}

void tlr_work_lap(tlr_work *w, int step) {
    struct timespec t;
    if (!w->seconds || w->be->sync(w->ctx) != MOAO_OK)
        return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (step >= 0)
        w->seconds[step] += now - w->lap;
    w->lap = now;
}

status tlr_work_room(tlr_work *w, int which, int64_t count, double **p) {
    status st = MOAO_OK;
    if (count > w->count[which] || !w->buf[which]) {
        void *fresh = NULL;
        /* not a little at a time: giving memory back waits for the device */
        if (!w->pool)
            count = largest(count, w->count[which] + largest(w->count[which] / 4,
                                                             least(w->count[which], GROWTH)));
        tlr_work_give(w, w->buf[which]);
        w->buf[which] = NULL;
        w->count[which] = 0;
        st = tlr_work_take(w, sizeof(double) * (size_t)largest(count, 1), &fresh);
        if (st == MOAO_OK) {
            w->buf[which] = fresh;
            w->count[which] = count;
        }
    }
    *p = w->buf[which];
    return st;
}

void tlr_work_drop(tlr_work *w, int which) {
    tlr_work_give(w, w->buf[which]);
    w->buf[which] = NULL;
    w->count[which] = 0;
}

status tlr_work_typed(tlr_work *w, int which, backend_type t, int64_t count, void **p) {
    const int64_t of = (int64_t)(sizeof(double) / backend_size(t));
    double *at;
    const status st = tlr_work_room(w, which, (count + of - 1) / of, &at);
    *p = at;
    return st;
}

status tlr_work_identity(tlr_work *w, int64_t n, double **p) {
    double *host = NULL;
    status st = MOAO_OK;
    if (n > w->identity) {
        w->identity = 0;
        TRY(tlr_work_room(w, BUF_IDENTITY, n * n, p));
        TRY(ALLOC(host, (size_t)(n * n), "identity"));
        for (int64_t i = 0; i < n; i++)
            host[i * (n + 1)] = 1;
        TRY(tlr_dense_copy(w, n, n, host, n, *p, n));
        TRY(w->be->sync(w->ctx));
        w->identity = n;
    }
    *p = w->buf[BUF_IDENTITY];
done:
    free(host);
    return st;
}

size_t tlr_work_held(const tlr_work *w) {
    size_t bytes = w->lwork + (size_t)(w->list_count * LIST_ENTRY);
    for (int k = 0; k < BUFFERS; k++)
        bytes += sizeof(double) * (size_t)w->count[k];
    for (int k = 0; k < 2; k++)
        bytes += w->place[k].bytes;
    return bytes + w->used.bytes;
}

status tlr_work_bytes(tlr_work *w, size_t bytes) {
    status st = MOAO_OK;
    if (bytes > w->lwork) {
        tlr_work_give(w, w->work);
        w->work = NULL;
        w->lwork = 0;
        if ((st = tlr_work_take(w, bytes, &w->work)) == MOAO_OK)
            w->lwork = bytes;
    }
    return st;
}

status tlr_full_gemm(tlr_work *w, backend_type t, char ta, char tb, int64_t m, int64_t n, int64_t k,
                     double alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                     double beta, void *c, int64_t ldc) {
    const float narrow[2] = {(float)alpha, (float)beta};
    const double wide[2] = {alpha, beta};
    const char *scalars = t == BACKEND_S ? (const char *)narrow : (const char *)wide;
    if (m == 0 || n == 0 || (k == 0 && beta == 1))
        return MOAO_OK;
    return w->be->gemm(w->ctx, t, ta, tb, m, n, k, scalars, a, lda, b, ldb,
                       scalars + backend_size(t), c, ldc, NULL, 0);
}

status tlr_dense_gemm(tlr_work *w, char ta, char tb, int64_t m, int64_t n, int64_t k, double alpha,
                      const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                      double *c, int64_t ldc) {
    return tlr_full_gemm(w, BACKEND_D, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

status tlr_add_product(tlr_work *w, backend_type t, int which, char ta, char tb, int64_t m,
                       int64_t n, int64_t k, double alpha, const void *a, int64_t lda,
                       const void *b, int64_t ldb, double *c, int64_t ldc) {
    void *sum;
    status st = MOAO_OK;
    if (m == 0 || n == 0 || k == 0)
        return st;
    if (t == BACKEND_D)
        return tlr_full_gemm(w, t, ta, tb, m, n, k, alpha, a, lda, b, ldb, 1, c, ldc);
    TRY(tlr_work_typed(w, which, t, m * n, &sum));
    TRY(tlr_full_gemm(w, t, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, sum, m));
    st = w->be->fp16->cast_to_double(w->ctx, m, n, alpha, sum, m, 1, c, ldc);
done:
    return st;
}

status tlr_dense_scale(tlr_work *w, int64_t m, int64_t n, double beta, double *c, int64_t ldc) {
    if (m == 0 || n == 0 || beta == 1)
        return MOAO_OK;
    /* factors are not read where alpha is 0 */
    return w->be->gemm(w->ctx, BACKEND_D, 'N', 'N', m, n, 1, &zero, c, ldc, c, ldc, &beta, c, ldc,
                       NULL, 0);
}

status tlr_dense_copy(tlr_work *w, int64_t m, int64_t n, const double *a, int64_t lda, double *b,
                      int64_t ldb) {
    return tlr_full_copy(w, BACKEND_D, m, n, a, lda, b, ldb);
}

status tlr_full_copy(tlr_work *w, backend_type t, int64_t m, int64_t n, const void *a, int64_t lda,
                     void *b, int64_t ldb) {
    if (m == 0 || n == 0)
        return MOAO_OK;
    const int64_t e = (int64_t)backend_size(t);
    return lda == m && ldb == m ? w->be->copy(w->ctx, b, e * m * n, a, e * m * n, e * m * n, 1)
                                : w->be->copy(w->ctx, b, e * ldb, a, e * lda, e * m, n);
}

status tlr_widen_add(tlr_work *w, widen_list *l, const float *x, double *y, int64_t n) {
    if (n > 0)
        l->p[l->count++] = (fp16_piece){x, y, n};
    return l->count == WIDEN_PIECES ? tlr_widen_run(w, l) : MOAO_OK;
}

status tlr_widen_run(tlr_work *w, widen_list *l) {
    const int64_t count = l->count;
    l->count = 0;
    return count > 0 ? w->be->fp16->cast_pieces(w->ctx, count, l->p) : MOAO_OK;
}

status tlr_dense_trmm(tlr_work *w, char side, char trans, int64_t m, int64_t n, double alpha,
                      const double *l, int64_t ldl, double *b, int64_t ldb) {
    if (m == 0 || n == 0)
        return MOAO_OK;
    status st = tlr_work_bytes(w, w->be->workspace(BACKEND_TRMM, BACKEND_D, m, n));
    return st != MOAO_OK ? st
                         : w->be->trmm(w->ctx, BACKEND_D, side, 'L', trans, 'N', m, n, &alpha, l,
                                       ldl, b, ldb, w->work, w->lwork);
}

status tlr_dense_trsm(tlr_work *w, char side, char trans, int64_t m, int64_t n, const double *l,
                      int64_t ldl, double *b, int64_t ldb) {
    if (m == 0 || n == 0)
        return MOAO_OK;
    status st = tlr_work_bytes(w, w->be->workspace(BACKEND_TRSM, BACKEND_D, m, n));
    return st != MOAO_OK ? st
                         : w->be->trsm(w->ctx, BACKEND_D, side, 'L', trans, 'N', m, n, &one, l, ldl,
                                       b, ldb, w->work, w->lwork);
}

static status list_grow(product_list *l, int64_t room) {
    product *grown = realloc(l->p, sizeof *grown * (size_t)room);
    if (!grown)
        return status_fail(MOAO_MEMORY, "cannot allocate %lld products of tiles", (long long)room);
    l->p = grown;
    l->room = room;
    return MOAO_OK;
}

status tlr_list_add(product_list *l, product p) {
    status st = l->count < l->room ? MOAO_OK : list_grow(l, l->room ? 2 * l->room : 256);
    if (st == MOAO_OK)
        l->p[l->count++] = p;
    return st;
}

void tlr_list_free(product_list *l) {
    free(l->p);
    *l = (product_list){0};
}

/* Room for n more products in transit to the backend; what is in transit stays as it is. */
static status list_room(tlr_work *w, int64_t n, int64_t *at) {
    status st = MOAO_OK;
    if (w->list_used + n > w->list_count) {
        TRY(w->be->sync(w->ctx));
        w->list_used = 0;
    }
    if (n > w->list_count) {
        w->be->release_host(w->ctx, w->list_host);
        tlr_work_give(w, w->list);
        w->list_host = w->list = NULL;
        w->list_count = 0;
        const int64_t room = largest(n, least(largest(16 * n, 4096), 4 * LIST_MOST));
        TRY(w->be->alloc_host(w->ctx, (size_t)(room * LIST_ENTRY), (void **)&w->list_host));
        TRY(tlr_work_take(w, (size_t)(room * LIST_ENTRY), (void **)&w->list));
        w->list_count = room;
    }
    *at = w->list_used * LIST_PARTS;
    w->list_used += n;
done:
    return st;
}

/* n indices from pinned memory to the backend. Where block columns are copied during the work of w
 * a copy would wait for one that is needed later, for one engine makes all copies in a direction,
 * one after another, and so the work would wait for it too: what copies then is a kernel, which
 * reads the host's memory. */
status tlr_work_send(tlr_work *w, int64_t n, const int64_t *host, int64_t *there) {
    const int64_t bytes = n * (int64_t)sizeof(int64_t);
    if (n == 0)
        return MOAO_OK;
    return w->feed || w->beside
               ? w->be->gather(w->ctx, BACKEND_D, n, 1, NULL, NULL, host, n, 0, there, n)
               : w->be->copy(w->ctx, there, bytes, host, bytes, bytes, 1);
}

status tlr_work_rewind(tlr_work *w, int64_t products) {
    int64_t at;
    status st;
    TRY(w->be->sync(w->ctx));
    w->list_used = 0;
    TRY(list_room(w, products, &at));
    w->list_used = 0;
done:
    return st;
}

status tlr_work_indices(tlr_work *w, int64_t n, int64_t **host, int64_t **there) {
    int64_t at = 0;
    const status st = list_room(w, (n + LIST_PARTS - 1) / LIST_PARTS + 1, &at);
    *host = st == MOAO_OK ? w->list_host + at : NULL;
    *there = st == MOAO_OK ? w->list + at : NULL;
    return st;
}

static void list_write(const product *p, int64_t n, int64_t *to) {
#pragma omp parallel for if (n > 16384)
    for (int64_t i = 0; i < n; i++) {
        const int64_t entry[LIST_PARTS] = {p[i].m,
                                           p[i].n,
                                           p[i].k,
                                           (int64_t)(intptr_t)p[i].a,
                                           (int64_t)(intptr_t)p[i].b,
                                           (int64_t)(intptr_t)p[i].c,
                                           p[i].lda,
                                           p[i].ldb,
                                           p[i].ldc};
        for (int part = 0; part < LIST_PARTS; part++)
            to[part * n + i] = entry[part];
    }
}

static batch_mat list_mat(const int64_t *there, int64_t n, int place, int ld) {
    batch_mat m = {NULL, 0, (void *const *)(there + place * n), 0, there + ld * n};
    return m;
}

static status list_send(tlr_work *w, const product *p, int64_t n, backend_type t, char ta,
                        char tb) {
    const float narrow[2] = {1, 0};
    const bool single = t == BACKEND_S;
    int64_t at = 0;
    status st;
    int64_t bm = 0, bn = 0, bk = 0;
#pragma omp parallel for reduction(max : bm, bn, bk) if (n > 16384)
    for (int64_t i = 0; i < n; i++) {
        bm = largest(bm, p[i].m);
        bn = largest(bn, p[i].n);
        bk = largest(bk, p[i].k);
    }
    if (bm == 0 || bn == 0)
        return MOAO_OK;
    TRY(list_room(w, n, &at));
    list_write(p, n, w->list_host + at);
    const int64_t *there = w->list + at;
    TRY(tlr_work_send(w, n * LIST_PARTS, w->list_host + at, w->list + at));
    TRY(w->be->batch->gemm(
        w->ctx, t, ta, tb, n, (batch_dim){bm, there + LIST_M * n},
        (batch_dim){bn, there + LIST_N * n}, (batch_dim){bk, there + LIST_K * n},
        single ? (const void *)&narrow[0] : &one, list_mat(there, n, LIST_A, LIST_LDA),
        list_mat(there, n, LIST_B, LIST_LDB), single ? (const void *)&narrow[1] : &zero,
        list_mat(there, n, LIST_C, LIST_LDC)));
done:
    return st;
}

status tlr_list_run(tlr_work *w, product_list *l, backend_type t, char ta, char tb) {
    status st = MOAO_OK;
    for (int64_t i = 0; i < l->count && st == MOAO_OK; i += LIST_MOST)
        st = list_send(w, l->p + i, least(LIST_MOST, l->count - i), t, ta, tb);
    l->count = 0;
    return st;
}

status tlr_scatter_open(tlr_work *w, int64_t products, int64_t columns, scatter_list *l) {
    const int64_t each = (int64_t)(sizeof(batch_scatter) / sizeof(int64_t));
    int64_t *host, *there;
    const status st = tlr_work_indices(w, each * products + columns, &host, &there);
    if (st == MOAO_OK)
        *l = (scatter_list){.p = (batch_scatter *)(void *)host,
                            .column = host + each * products,
                            .there = there,
                            .column_there = there + each * products};
    return st;
}

status tlr_scatter_run(tlr_work *w, const scatter_list *l, backend_type t, int64_t rows,
                       int64_t ldc) {
    status st;
    if (l->count == 0 || l->columns == 0)
        return MOAO_OK;
    TRY(tlr_work_send(w, l->column + l->columns - (int64_t *)(void *)l->p,
                      (const int64_t *)(const void *)l->p, l->there));
    st = w->be->batch->scatter(w->ctx, t, l->count, rows,
                               (const batch_scatter *)(const void *)l->there, l->column_there, ldc);
done:
    return st;
}

status tlr_gather_open(tlr_work *w, int64_t sums, int64_t parts, gather_list *l) {
    const int64_t e = sizeof(int64_t), one = (int64_t)sizeof(batch_gather) / e,
                  each = (int64_t)sizeof(batch_part) / e;
    int64_t *host, *there;
    const status st = tlr_work_indices(w, one * sums + each * parts, &host, &there);
    if (st == MOAO_OK)
        *l = (gather_list){.p = (batch_gather *)(void *)host,
                           .part = (batch_part *)(void *)(host + one * sums),
                           .there = there,
                           .part_there = there + one * sums};
    return st;
}

status tlr_gather_run(tlr_work *w, const gather_list *l, backend_type t, int64_t rows, int64_t cols,
                      double alpha, int64_t ldc) {
    status st;
    if (l->count == 0)
        return MOAO_OK;
    TRY(tlr_work_send(w, (const int64_t *)(void *)(l->part + l->parts) - (int64_t *)(void *)l->p,
                      (const int64_t *)(const void *)l->p, l->there));
    st = w->be->batch->gather(w->ctx, t, l->count, least(rows, ldc), cols,
                              (const batch_gather *)(const void *)l->there,
                              (const batch_part *)(const void *)l->part_there, alpha, ldc);
done:
    return st;
}
