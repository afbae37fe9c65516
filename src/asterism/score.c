#include "asterism/score.h"

#include "moao/backend_batch.h"
#include "moao/cpu_threads.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ast_scores {
    const backend *be;
    int device;
    const ast_case *k;
    backend_ctx *ctx;
    double *s;    /* mc x mc */
    double *diag; /* [ncand] n x n: diagonal blocks of S */
    double *gram; /* [pair][ntarget] n x n, pair (i, j) with j <= i at i (i + 1)/2 + j: rows i,
                     columns j */
};

struct ast_worker {
    ast_scores *q;
    backend_ctx *ctx;
    int nbase, range;
    double *l;   /* S_AA, its factor, then its inverse */
    double *y;   /* L^-1 S_A,k */
    double *kk;  /* K */
    double *z;   /* [range] n x n */
    double *zk;  /* [range] n x nA: Z K' */
    double *u;   /* [range] n x n: a block of K Z K' */
    double *sum; /* ntarget x (range + 1) on the device: increments, then the base's own */
    int *info;   /* [range] on the device */
    void *work;
    size_t lwork;
    double *host; /* copies of sum and info */
    int *host_info;
};

static size_t pair_at(int i, int j) {
    return (size_t)i * (size_t)(i + 1) / 2 + (size_t)j;
}

/* --- what all workers share --- */

/* Blocks of G of target t with candidate i and all j <= i, on the host. eq = (2 rs - r0) area, of
 * that target (mc x v). */
static void gram_row(const ast_case *k, int i, int t, const double *eq, double *row) {
    const int n = (int)k->n, v = k->v, mc = (int)k->mc;
    const double *r0 = k->r0 + (size_t)t * (size_t)v * k->mc;
    for (int j = 0; j <= i; j++) {
        double *g = row + ((size_t)j * (size_t)k->ntarget + (size_t)t) * k->n * k->n;
        const size_t ri = (size_t)i * k->n, rj = (size_t)j * k->n;
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, n, n, v, 0.5, eq + ri, mc, r0 + rj, mc,
                    0, g, n);
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, n, n, v, 0.5, r0 + ri, mc, eq + rj, mc,
                    1, g, n);
    }
}

static status upload_gram(ast_scores *q) {
    const ast_case *k = q->k;
    const size_t v = (size_t)k->v, nt = (size_t)k->ntarget, block = k->n * k->n;
    const int mc = (int)k->mc;
    double *e = NULL, *eq = NULL, *row = NULL;
    status st;
    TRY(ALLOC(e, k->mc * v, "covariances of commands and candidates"));
    TRY(ALLOC(eq, k->mc * v * nt, "weighted covariances of commands and candidates"));
    TRY(ALLOC(row, (size_t)k->ncand * nt * block, "Gram blocks"));
    for (size_t t = 0; t < nt; t++) {
        const double *r0 = k->r0 + t * v * k->mc, *rs = k->rs + t * v * k->mc;
        for (size_t i = 0; i < k->mc * v; i++)
            e[i] = 2 * rs[i] - r0[i];
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, mc, k->v, k->v, 1, e, mc, k->area,
                    k->v, 0, eq + t * v * k->mc, mc);
    }
    const int blas = blas_alone(); /* the products are small: the targets are shared out instead */
    for (int i = 0; i < k->ncand && st == MOAO_OK; i++) {
#pragma omp parallel for schedule(static)
        for (int t = 0; t < k->ntarget; t++)
            gram_row(k, i, t, eq + (size_t)t * v * k->mc, row);
        const size_t bytes = (size_t)(i + 1) * nt * block * sizeof *row;
        st = q->be->copy(q->ctx, q->gram + pair_at(i, 0) * nt * block, (int64_t)bytes, row,
                         (int64_t)bytes, (int64_t)bytes, 1);
        if (st == MOAO_OK)
            st = q->be->sync(q->ctx); /* before the row is used again */
    }
    blas_together(blas);
done:
    free(e);
    free(eq);
    free(row);
    return st;
}

status ast_scores_init(const backend *be, int device, const ast_case *k, ast_scores **out) {
    ast_scores *q = NULL;
    const size_t block = k->n * k->n, column = k->mc * sizeof(double);
    status st = ALLOC(q, 1, "scores");
    *out = NULL;
    if (st != MOAO_OK)
        return st;
    *q = (ast_scores){.be = be, .device = device, .k = k};
    TRY(be->open(device, NULL, &q->ctx));
    TRY(be->alloc(q->ctx, k->mc * column, (void **)&q->s));
    TRY(be->alloc(q->ctx, (size_t)k->ncand * block * sizeof(double), (void **)&q->diag));
    TRY(be->alloc(q->ctx, pair_at(k->ncand, 0) * (size_t)k->ntarget * block * sizeof(double),
                  (void **)&q->gram));
    TRY(be->copy(q->ctx, q->s, (int64_t)column, k->S, (int64_t)column, (int64_t)column,
                 (int64_t)k->mc));
    for (int i = 0; i < k->ncand; i++) {
        const size_t at = (size_t)i * k->n, bytes = k->n * sizeof(double);
        TRY(be->copy(q->ctx, q->diag + (size_t)i * block, (int64_t)bytes, k->S + at + at * k->mc,
                     (int64_t)column, (int64_t)bytes, (int64_t)k->n));
    }
    TRY(upload_gram(q));
done:
    if (st != MOAO_OK)
        ast_scores_free(q);
    else
        *out = q;
    return st;
}

void ast_scores_free(ast_scores *q) {
    if (q == NULL)
        return;
    if (q->ctx != NULL) {
        q->be->release(q->ctx, q->s);
        q->be->release(q->ctx, q->diag);
        q->be->release(q->ctx, q->gram);
    }
    q->be->close(q->ctx);
    free(q);
}

/* --- a worker */

static size_t most(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Work that any operation of a worker needs. */
static size_t work_bytes(const backend *be, int64_t n, int64_t na, int64_t range, int64_t nt) {
    const backend_type d = BACKEND_D;
    size_t w =
        most(be->workspace(BACKEND_GEMM, d, n, n), be->workspace(BACKEND_GEMM, d, nt, range));
    w = most(w, be->workspace(BACKEND_GEMM, d, n, na));
    w = most(w, be->workspace(BACKEND_TRSM, d, na, n * range));
    w = most(w, be->workspace(BACKEND_SYRK, d, n, n));
    w = most(w, be->workspace(BACKEND_POTRF, d, na, na));
    w = most(w, be->workspace(BACKEND_POTI, d, n, n));
    return most(w, be->workspace(BACKEND_POTRI, d, na, na)) + 256;
}

status ast_worker_init(ast_scores *q, int nbase, int range, ast_worker **out) {
    const backend *be = q->be;
    const size_t n = q->k->n, na = n * (size_t)nbase, r = (size_t)range, nt = (size_t)q->k->ntarget;
    const size_t real = sizeof(double);
    ast_worker *w = NULL;
    status st = ALLOC(w, 1, "worker");
    *out = NULL;
    if (st != MOAO_OK)
        return st;
    *w = (ast_worker){.q = q, .nbase = nbase, .range = range};
    TRY(be->open(q->device, NULL, &w->ctx));
    w->lwork = work_bytes(be, (int64_t)n, (int64_t)na, (int64_t)r, (int64_t)nt);
    const struct {
        double **p;
        size_t count;
    } part[] = {{&w->l, na * na},       {&w->y, na * n * r},  {&w->kk, na * n * r},
                {&w->z, n * n * r},     {&w->zk, na * n * r}, {&w->u, n * n * r},
                {&w->sum, nt * (r + 1)}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        TRY(be->alloc(w->ctx, (part[i].count + 1) * real, (void **)part[i].p));
    TRY(be->alloc(w->ctx, r * sizeof(int), (void **)&w->info));
    TRY(be->alloc(w->ctx, w->lwork, &w->work));
    TRY(ALLOC(w->host, nt * (r + 1), "variances"));
    TRY(ALLOC(w->host_info, r, "variances"));
done:
    if (st != MOAO_OK)
        ast_worker_free(w);
    else
        *out = w;
    return st;
}

void ast_worker_free(ast_worker *w) {
    if (w == NULL)
        return;
    const backend *be = w->q->be;
    if (w->ctx != NULL) {
        void *const part[] = {w->l, w->y, w->kk, w->z, w->zk, w->u, w->sum, w->info, w->work};
        for (size_t i = 0; i < sizeof part / sizeof *part; i++)
            be->release(w->ctx, part[i]);
    }
    be->close(w->ctx);
    free(w->host);
    free(w->host_info);
    free(w);
}

/* Block (i, j) of G, all targets: (n n) x ntarget. */
static const double *gram_of(const ast_scores *q, int i, int j) {
    return q->gram + pair_at(i, j) * (size_t)q->k->ntarget * q->k->n * q->k->n;
}

/* sum (ntarget x count) += factor G_ij' u, u: count blocks of n n. */
static status add_traces(ast_worker *w, int i, int j, double factor, const double *u, int64_t count,
                         double *sum) {
    const double one = 1;
    const int64_t nt = w->q->k->ntarget, block = (int64_t)(w->q->k->n * w->q->k->n);
    return w->q->be->gemm(w->ctx, BACKEND_D, 'T', 'N', nt, count, block, &factor,
                          gram_of(w->q, i, j), block, u, block, &one, sum, nt, w->work, w->lwork);
}

/* C (m x cols) := op(A) B for n x n like blocks. */
static status product(ast_worker *w, char ta, char tb, int64_t rows, int64_t cols, int64_t inner,
                      const double *a, int64_t lda, const double *b, int64_t ldb, double *c) {
    const double one = 1, zero = 0;
    return w->q->be->gemm(w->ctx, BACKEND_D, ta, tb, rows, cols, inner, &one, a, lda, b, ldb, &zero,
                          c, rows, w->work, w->lwork);
}

/* Factor of S_AA and K, y = L^-1 S_A,range; then tr(S_AA^-1 G_AA) into the last column of sum. */
static status do_base(ast_worker *w, const int *base, int nbase, int k0, int nk) {
    const ast_scores *q = w->q;
    const backend *be = q->be;
    const int64_t n = (int64_t)q->k->n, na = n * nbase, mc = (int64_t)q->k->mc;
    const int64_t real = (int64_t)sizeof(double), cols = n * nk;
    const double one = 1;
    double *base_sum = w->sum + (size_t)q->k->ntarget * (size_t)w->range;
    status st;
    for (int a = 0; a < nbase; a++) {
        const double *rows = q->s + n * base[a];
        for (int b = 0; b <= a; b++)
            TRY(be->copy(w->ctx, w->l + a * n + b * n * na, na * real,
                         rows + (int64_t)base[b] * n * mc, mc * real, n * real, n));
        TRY(be->copy(w->ctx, w->y + a * n, na * real, rows + (int64_t)k0 * n * mc, mc * real,
                     n * real, cols));
    }
    TRY(be->potrf(w->ctx, BACKEND_D, 'L', na, w->l, na, w->info, w->work, w->lwork));
    TRY(be->trsm(w->ctx, BACKEND_D, 'L', 'L', 'N', 'N', na, cols, &one, w->l, na, w->y, na, w->work,
                 w->lwork));
    TRY(be->copy(w->ctx, w->kk, na * real, w->y, na * real, na * real, cols));
    TRY(be->trsm(w->ctx, BACKEND_D, 'L', 'L', 'T', 'N', na, cols, &one, w->l, na, w->kk, na,
                 w->work, w->lwork));
    TRY(be->potri(w->ctx, BACKEND_D, 'L', na, w->l, na, w->info, w->work, w->lwork));
    TRY(be->mirror(w->ctx, BACKEND_D, 'L', na, w->l, na));
    for (int a = 0; a < nbase; a++)
        for (int b = 0; b < nbase; b++) {
            if (base[b] > base[a])
                continue; /* G has the pairs j <= i */
            TRY(be->copy(w->ctx, w->u, n * real, w->l + a * n + b * n * na, na * real, n * real,
                         n));
            TRY(add_traces(w, base[a], base[b], a == b ? 1 : 2, w->u, 1, base_sum));
        }
done:
    return st;
}

/* Increments that do not need blocks of G of the candidate: tr(K Z K' G_AA), all k at once. */
static status add_base_blocks(ast_worker *w, const int *base, int nbase, int nk) {
    const int64_t n = (int64_t)w->q->k->n, na = n * nbase;
    status st = MOAO_OK;
    for (int a = 0; a < nbase; a++)
        for (int b = 0; b < nbase; b++) {
            if (base[b] > base[a])
                continue;
            for (int k = 0; k < nk; k++)
                TRY(product(w, 'N', 'N', n, n, n, w->kk + a * n + k * n * na, na,
                            w->zk + (k * na + b * n) * n, n, w->u + k * n * n));
            TRY(add_traces(w, base[a], base[b], a == b ? 1 : 2, w->u, nk, w->sum));
        }
done:
    return st;
}

/* Increments with the candidate's own blocks: tr(Z G_kk) - 2 tr(Z K' G_Ak). */
static status add_own_blocks(ast_worker *w, const int *base, int nbase, int k0, int nk) {
    const int64_t n = (int64_t)w->q->k->n, na = n * nbase, nt = w->q->k->ntarget;
    status st = MOAO_OK;
    for (int i = 0; i < nk; i++) {
        const double *z = w->z + i * n * n;
        double *sum = w->sum + i * nt;
        TRY(add_traces(w, k0 + i, k0 + i, 1, z, 1, sum));
        for (int a = 0; a < nbase; a++) {
            const double *zk = w->zk + (i * na + a * n) * n;
            if (base[a] > k0 + i) { /* the pair is kept as (A, k): K Z */
                TRY(product(w, 'N', 'N', n, n, n, w->kk + a * n + i * n * na, na, z, n, w->u));
                zk = w->u;
            }
            TRY(add_traces(w, base[a] > k0 + i ? base[a] : k0 + i,
                           base[a] > k0 + i ? k0 + i : base[a], -2, zk, 1, sum));
        }
    }
done:
    return st;
}

/* Z of every candidate, and Z K'. */
static status do_schur(ast_worker *w, int nbase, int k0, int nk) {
    const ast_scores *q = w->q;
    const backend *be = q->be;
    const int64_t n = (int64_t)q->k->n, na = n * nbase,
                  bytes = n * n * nk * (int64_t)sizeof(double);
    const double one = 1, minus = -1;
    status st;
    TRY(be->copy(w->ctx, w->z, bytes, q->diag + (int64_t)k0 * n * n, bytes, bytes, 1));
    for (int i = 0; i < nk && nbase > 0; i++)
        TRY(be->syrk(w->ctx, BACKEND_D, 'L', 'T', n, na, &minus, w->y + i * n * na, na, &one,
                     w->z + i * n * n, n, w->work, w->lwork));
    if (n <= BATCH_MAX)
        TRY(be->batch->poti(w->ctx, BACKEND_D, 'L', nk, batch_size(n),
                            batch_strided(w->z, n, n * n), w->info));
    for (int i = 0; i < nk && n > BATCH_MAX; i++)
        TRY(be->poti(w->ctx, BACKEND_D, 'L', n, w->z + i * n * n, n, w->info + i, w->work,
                     w->lwork));
    for (int i = 0; i < nk; i++) {
        TRY(be->mirror(w->ctx, BACKEND_D, 'L', n, w->z + i * n * n, n));
        if (nbase > 0)
            TRY(product(w, 'N', 'T', n, na, n, w->z + i * n * n, n, w->kk + i * n * na, na,
                        w->zk + i * na * n));
    }
done:
    return st;
}

static bool is_one_of(const int *base, int nbase, int k) {
    for (int a = 0; a < nbase; a++)
        if (base[a] == k)
            return true;
    return false;
}

status ast_worker_run(ast_worker *w, const int *base, int nbase, int k0, int k1, double *var) {
    const ast_scores *q = w->q;
    const backend *be = q->be;
    const int nk = k1 - k0, nt = q->k->ntarget;
    const int64_t bytes = (int64_t)nt * (w->range + 1) * (int64_t)sizeof(double);
    const int64_t flags = nk * (int64_t)sizeof(int);
    status st;
    if (nbase > w->nbase || nk < 1 || nk > w->range || k0 < 0 || k1 > q->k->ncand)
        return status_fail(MOAO_INPUT, "asterisms: %d stars and %d to %d are out of range", nbase,
                           k0, k1);
    memset(w->host, 0, (size_t)bytes);
    TRY(be->copy(w->ctx, w->sum, bytes, w->host, bytes, bytes, 1));
    if (nbase > 0)
        TRY(do_base(w, base, nbase, k0, nk));
    TRY(do_schur(w, nbase, k0, nk));
    TRY(add_base_blocks(w, base, nbase, nk));
    TRY(add_own_blocks(w, base, nbase, k0, nk));
    TRY(be->copy(w->ctx, w->host, bytes, w->sum, bytes, bytes, 1));
    TRY(be->copy(w->ctx, w->host_info, flags, w->info, flags, flags, 1));
    TRY(be->sync(w->ctx));
    for (int i = 0; i < nk; i++)
        for (int t = 0; t < nt; t++) {
            const double own = w->host[(size_t)w->range * (size_t)nt + (size_t)t];
            var[i * nt + t] = w->host_info[i] != 0 || is_one_of(base, nbase, k0 + i)
                                  ? NAN
                                  : q->k->var0[t] - own - w->host[i * nt + t];
        }
done:
    return st;
}
