/* Batched routines of the CPU backend: the specification, OpenMP over the batch. Every routine is
 * brought to one lower triangle on the left (transposed operands swap their strides, an upper
 * triangle is counted from its end) and is then a sequence of the steps below. */
#include "cpu_blas.h"
#include "cpu_own.h"
#include "moao/cpu_threads.h"
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum {
    FACTOR = 1,    /* A := L, A = L L^T */
    INVERT = 2,    /* A := A^-1 */
    SQUARE = 4,    /* A := A^T A, lower triangle */
    FORWARD = 8,   /* B := A^-1 B */
    BACKWARD = 16, /* B := A^-T B */
    MULTIPLY = 32, /* B := A B */
    ON_B = FORWARD | BACKWARD | MULTIPLY
};

union scalar {
    double d;
    float s;
};

/* Element (i, j) of an operand lies at p + i si + j sj elements. */
typedef struct {
    void *p;
    int64_t si, sj;
} view;

#define REAL double
#define NAME(x) x##_d
#define REAL_MIN DBL_MIN
#define REAL_MAX DBL_MAX
#define root_d sqrt
#include "batch_cpu_real.h"
#undef REAL
#undef NAME
#undef REAL_MIN
#undef REAL_MAX

#define REAL float
#define NAME(x) x##_s
#define REAL_MIN FLT_MIN
#define REAL_MAX FLT_MAX
#define root_s sqrtf
#include "batch_cpu_real.h"

/* An operand of the batch: as given, transposed, and counted from the end of its rows or columns.
 */
typedef struct {
    batch_mat m;
    bool trans, rev_i, rev_j;
} operand;

static view view_of(operand o, backend_type t, int64_t b, int64_t rows, int64_t cols) {
    size_t size = backend_size(t);
    int64_t ld = o.m.lds ? o.m.lds[b] : o.m.ld, shift = 0;
    view v = {NULL, o.trans ? ld : 1, o.trans ? 1 : ld};
    if (o.rev_i) {
        shift += (rows - 1) * v.si;
        v.si = -v.si;
    }
    if (o.rev_j) {
        shift += (cols - 1) * v.sj;
        v.sj = -v.sj;
    }
    shift += o.m.ptrs ? 0 : b * o.m.stride;
    v.p = (char *)(o.m.ptrs ? o.m.ptrs[b] : o.m.base) + shift * (int64_t)size;
    return v;
}

/* Size of matrix b, -1 when it is out of range. */
static int64_t size_of(batch_dim d, int64_t b) {
    int64_t n = d.each ? d.each[b] : d.n;
    return n < 0 || n > d.n ? -1 : n;
}

/* Whether so many operations are worth the threads of a team, which meet at its end: on a busy
 * machine that takes a thousand times as long as a product of a few numbers. */
static bool many(double operations) {
    return operations > 65536;
}

static status scratch_get(backend_type t, int64_t n, char **p, size_t *per) {
    *per = (size_t)(n * n) * backend_size(t);
    return mem_alloc((void **)p, (unsigned long)omp_get_max_threads(), *per, "batched matrices");
}

/* One call: the same steps for each matrix. */
typedef struct {
    backend_type t;
    unsigned steps;
    int64_t count;
    batch_dim n, m;
    operand a, b;
    bool unit, zero; /* zero: alpha is 0, B := 0 */
    const void *alpha;
    int *info;
} job;

static int one(const job *q, int64_t k, void *scratch) {
    int64_t n = size_of(q->n, k), m = q->steps & ON_B ? size_of(q->m, k) : 0;
    if (n < 0)
        return -1;
    if (n == 0)
        return 0;
    view a = view_of(q->a, q->t, k, n, n), b = {NULL, 0, 0};
    if (m > 0)
        b = view_of(q->b, q->t, k, n, m);
    if (q->t == BACKEND_D) {
        if (!q->zero)
            return run_d(q->steps, a, b, n, m, q->unit, q->alpha ? *(const double *)q->alpha : 1,
                         scratch);
        zero_d(b, n, m);
    } else {
        if (!q->zero)
            return run_s(q->steps, a, b, n, m, q->unit, q->alpha ? *(const float *)q->alpha : 1,
                         scratch);
        zero_s(b, n, m);
    }
    return 0;
}

static status run_job(const job *q) {
    char *scratch = NULL;
    size_t per;
    status st;
    TRY(scratch_get(q->t, q->n.n, &scratch, &per));
    const double each = (double)q->n.n * (double)q->n.n * (double)(q->n.n + q->m.n);
#pragma omp parallel for schedule(dynamic, 16) if (many((double)q->count * each))
    for (int64_t k = 0; k < q->count; k++) {
        int info = one(q, k, scratch + (size_t)omp_get_thread_num() * per);
        if (q->info)
            q->info[k] = info;
    }
done:
    free(scratch);
    return st;
}

static status on_b(unsigned step, backend_type t, char side, char uplo, char trans, char diag,
                   int64_t count, batch_dim m, batch_dim n, const void *alpha, batch_mat a,
                   batch_mat b) {
    const bool left = side == 'L', tr = (trans != 'N') != !left, rev = (uplo == 'L') == tr;
    job q = {.t = t,
             .steps = step,
             .count = count,
             .n = left ? m : n,
             .m = left ? n : m,
             .a = {a, tr, rev, rev},
             .b = {b, !left, rev, false},
             .unit = diag == 'U',
             .zero = t == BACKEND_D ? *(const double *)alpha == 0 : *(const float *)alpha == 0,
             .alpha = alpha};
    return run_job(&q);
}

static status cpu_batch_trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans,
                             char diag, int64_t count, batch_dim m, batch_dim n, const void *alpha,
                             batch_mat a, batch_mat b) {
    (void)ctx;
    return on_b(FORWARD, t, side, uplo, trans, diag, count, m, n, alpha, a, b);
}

static status cpu_batch_trmm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans,
                             char diag, int64_t count, batch_dim m, batch_dim n, const void *alpha,
                             batch_mat a, batch_mat b) {
    (void)ctx;
    return on_b(MULTIPLY, t, side, uplo, trans, diag, count, m, n, alpha, a, b);
}

/* One product a thread, by BLAS with one thread: the bits do not depend on the number of them. */
static status cpu_batch_gemm(backend_ctx *ctx, backend_type t, char transa, char transb,
                             int64_t count, batch_dim m, batch_dim n, batch_dim k,
                             const void *alpha, batch_mat a, batch_mat b, const void *beta,
                             batch_mat c) {
    const int blas = blas_alone();
    const operand oa = {.m = a}, ob = {.m = b}, oc = {.m = c};
    const double each = (double)m.n * (double)n.n * (double)k.n;
    (void)ctx;
#pragma omp parallel for schedule(dynamic) if (many((double)count * each))
    for (int64_t q = 0; q < count; q++) {
        const int64_t mq = size_of(m, q), nq = size_of(n, q), kq = size_of(k, q);
        if (mq <= 0 || nq <= 0 || kq < 0)
            continue;
        const view va = view_of(oa, t, q, 0, 0), vb = view_of(ob, t, q, 0, 0),
                   vc = view_of(oc, t, q, 0, 0);
        cpu_gemm_panel(t, transa, transb, mq, nq, kq, alpha, va.p, va.sj, vb.p, vb.sj, beta, vc.p,
                       vc.sj);
    }
    blas_together(blas);
    return MOAO_OK;
}

/* Scalars of a type. */
static const void *scalar_of(backend_type t, double x, union scalar *at) {
    if (t == BACKEND_D)
        at->d = x;
    else
        at->s = (float)x;
    return at;
}

/* One product: those of its columns that stand together in C in one call. */
static void scatter_one(backend_type t, const batch_scatter *p, const int64_t *to, int64_t ldc) {
    const int64_t e = (int64_t)backend_size(t);
    union scalar one, zero;
    for (int64_t x = 0, end; p->m > 0 && x < p->n; x = end) {
        for (end = x + 1; end < p->n && to[end] == to[end - 1] + 1;)
            end++;
        cpu_gemm_panel(t, p->turned ? 'T' : 'N', 'N', p->m, end - x, p->k, scalar_of(t, 1, &one),
                       p->a, p->lda, (const char *)p->b + e * x * p->ldb, p->ldb,
                       scalar_of(t, 0, &zero), (char *)p->c + e * ldc * to[x], ldc);
    }
}

static status cpu_batch_scatter(backend_ctx *ctx, backend_type t, int64_t count, int64_t rows,
                                const batch_scatter *list, const int64_t *column, int64_t ldc) {
    const int blas = blas_alone();
    double operations = 0;
    (void)ctx;
    (void)rows;
    for (int64_t q = 0; q < count; q++)
        operations += (double)list[q].m * (double)list[q].n * (double)list[q].k;
#pragma omp parallel for schedule(dynamic) if (many(operations))
    for (int64_t q = 0; q < count; q++)
        scatter_one(t, list + q, column + list[q].first, ldc);
    blas_together(blas);
    return MOAO_OK;
}

/* One sum. s: room for the matrix in single precision, where products are. */
static void gather_one(backend_type t, const batch_gather *p, const batch_part *part, double alpha,
                       int64_t ldc, float *s) {
    const bool single = t == BACKEND_S;
    union scalar scale, keep;
    if (p->m <= 0 || p->n <= 0)
        return;
    for (int64_t o = 0; o < p->parts; o++)
        cpu_gemm_panel(t, 'N', 'T', p->m, p->n, part[o].k, scalar_of(t, single ? 1 : alpha, &scale),
                       part[o].a, part[o].lda, part[o].b, part[o].ldb,
                       scalar_of(t, single && o == 0 ? 0 : 1, &keep),
                       single ? (void *)s : (void *)p->c, single ? p->m : ldc);
    for (int64_t j = 0; single && p->parts > 0 && j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++)
            p->c[i + j * ldc] += alpha * (double)s[i + j * p->m];
}

static status cpu_batch_gather(backend_ctx *ctx, backend_type t, int64_t count, int64_t rows,
                               int64_t cols, const batch_gather *list, const batch_part *part,
                               double alpha, int64_t ldc) {
    const size_t each = t == BACKEND_S ? (size_t)(rows * cols) : 0;
    float *s = NULL;
    double operations = 0;
    status st;
    int blas;
    (void)ctx;
    TRY(mem_alloc((void **)&s, (unsigned long)omp_get_max_threads(), sizeof *s * each + 1,
                  "sums of products"));
    for (int64_t q = 0; q < count; q++)
        for (int64_t o = 0; o < list[q].parts; o++)
            operations += (double)list[q].m * (double)list[q].n * (double)part[list[q].first + o].k;
    blas = blas_alone();
#pragma omp parallel for schedule(dynamic) if (many(operations))
    for (int64_t q = 0; q < count; q++)
        gather_one(t, list + q, part + list[q].first, alpha, ldc,
                   s + each * (size_t)omp_get_thread_num());
    blas_together(blas);
done:
    free(s);
    return st;
}

static status cpu_batch_syrk(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t count,
                             batch_dim n, batch_dim k, const void *alpha, batch_mat a,
                             const void *beta, batch_mat c) {
    char *scratch = NULL;
    size_t per;
    status st;
    (void)ctx;
    const operand oa = {a, trans != 'N', false, false}, oc = {c, uplo == 'U', false, false};
    TRY(scratch_get(t, n.n, &scratch, &per));
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t q = 0; q < count; q++) {
        int64_t nq = size_of(n, q), kq = size_of(k, q);
        void *s = scratch + (size_t)omp_get_thread_num() * per;
        if (nq <= 0 || kq < 0)
            continue;
        view va = view_of(oa, t, q, nq, kq), vc = view_of(oc, t, q, nq, nq);
        if (t == BACKEND_D)
            syrk_d(va, vc, nq, kq, *(const double *)alpha, *(const double *)beta, s);
        else
            syrk_s(va, vc, nq, kq, *(const float *)alpha, *(const float *)beta, s);
    }
done:
    free(scratch);
    return st;
}

/* The operations on the triangle of a symmetric or triangular matrix, with or without B. */
static status on_a(unsigned steps, backend_type t, char uplo, char diag, int64_t count, batch_dim n,
                   batch_dim nrhs, batch_mat a, batch_mat b, int *info) {
    job q = {.t = t,
             .steps = steps,
             .count = count,
             .n = n,
             .m = nrhs,
             .a = {a, uplo == 'U', false, false},
             .b = {b, false, false, false},
             .unit = diag == 'U',
             .info = info};
    return run_job(&q);
}

static const batch_mat NONE;
static const batch_dim ZERO;

static status cpu_batch_potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                              batch_dim n, batch_mat a, int *info) {
    (void)ctx;
    return on_a(FACTOR, t, uplo, 'N', count, n, ZERO, a, NONE, info);
}

static status cpu_batch_trtri(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t count,
                              batch_dim n, batch_mat a, int *info) {
    (void)ctx;
    return on_a(INVERT, t, uplo, diag, count, n, ZERO, a, NONE, info);
}

static status cpu_batch_lauum(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                              batch_dim n, batch_mat a) {
    (void)ctx;
    return on_a(SQUARE, t, uplo, 'N', count, n, ZERO, a, NONE, NULL);
}

static status cpu_batch_potri(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                              batch_dim n, batch_mat a, int *info) {
    (void)ctx;
    return on_a(INVERT | SQUARE, t, uplo, 'N', count, n, ZERO, a, NONE, info);
}

static status cpu_batch_poti(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                             batch_dim n, batch_mat a, int *info) {
    (void)ctx;
    return on_a(FACTOR | INVERT | SQUARE, t, uplo, 'N', count, n, ZERO, a, NONE, info);
}

static status cpu_batch_potrs(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                              batch_dim n, batch_dim nrhs, batch_mat a, batch_mat b) {
    (void)ctx;
    return on_a(FORWARD | BACKWARD, t, uplo, 'N', count, n, nrhs, a, b, NULL);
}

static status cpu_batch_posv(backend_ctx *ctx, backend_type t, char uplo, int64_t count,
                             batch_dim n, batch_dim nrhs, batch_mat a, batch_mat b, int *info) {
    (void)ctx;
    return on_a(FACTOR | FORWARD | BACKWARD, t, uplo, 'N', count, n, nrhs, a, b, info);
}

const backend_batch batch_cpu = {
    .size = sizeof(backend_batch),
    .gemm = cpu_batch_gemm,
    .syrk = cpu_batch_syrk,
    .trsm = cpu_batch_trsm,
    .trmm = cpu_batch_trmm,
    .potrf = cpu_batch_potrf,
    .trtri = cpu_batch_trtri,
    .lauum = cpu_batch_lauum,
    .potri = cpu_batch_potri,
    .poti = cpu_batch_poti,
    .potrs = cpu_batch_potrs,
    .posv = cpu_batch_posv,
    .scatter = cpu_batch_scatter,
    .gather = cpu_batch_gather,
};
