/* Batched routines of the CPU backend: the specification, OpenMP over the batch. Every routine is
 * brought to one lower triangle on the left (transposed operands swap their strides, an upper
 * triangle is counted from its end) and is then a sequence of the steps below. */
#include "backend/backend_batch.h"
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
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t k = 0; k < q->count; k++) {
        int info = one(q, k, scratch + (size_t)omp_get_thread_num() * per);
        if (q->info)
            q->info[k] = info;
    }
done:
    free(scratch);
    return st;
}

static status refused(const char *name) {
    return status_fail(MOAO_INPUT, "batched %s: an argument is out of range (order at most %d)",
                       name, BATCH_MAX);
}

static status on_b(const char *name, unsigned step, backend_type t, char side, char uplo,
                   char trans, char diag, int64_t count, batch_dim m, batch_dim n,
                   const void *alpha, batch_mat a, batch_mat b) {
    const bool left = side == 'L', tr = (trans != 'N') != !left, rev = (uplo == 'L') == tr;
    if (!batch_tri_ok(t, side, uplo, trans, diag, count, m, n, a, b))
        return refused(name);
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

static status cpu_trsm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans,
                       char diag, int64_t count, batch_dim m, batch_dim n, const void *alpha,
                       batch_mat a, batch_mat b) {
    (void)ctx;
    return on_b("trsm", FORWARD, t, side, uplo, trans, diag, count, m, n, alpha, a, b);
}

static status cpu_trmm(backend_ctx *ctx, backend_type t, char side, char uplo, char trans,
                       char diag, int64_t count, batch_dim m, batch_dim n, const void *alpha,
                       batch_mat a, batch_mat b) {
    (void)ctx;
    return on_b("trmm", MULTIPLY, t, side, uplo, trans, diag, count, m, n, alpha, a, b);
}

static status cpu_syrk(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t count,
                       batch_dim n, batch_dim k, const void *alpha, batch_mat a, const void *beta,
                       batch_mat c) {
    char *scratch = NULL;
    size_t per;
    status st;
    (void)ctx;
    if (!batch_syrk_ok(t, uplo, trans, count, n, k, a, c))
        return refused("syrk");
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
static status on_a(const char *name, unsigned steps, backend_type t, char uplo, char diag,
                   int64_t count, batch_dim n, batch_dim nrhs, batch_mat a, batch_mat b,
                   int *info) {
    if (!batch_common_ok(t, uplo, count, n) || !batch_letter(diag, "NU") || !batch_mat_ok(a, n.n) ||
        ((steps & ON_B) && (!batch_dim_ok(nrhs, BATCH_WIDE_MAX) || !batch_mat_ok(b, n.n))))
        return refused(name);
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

static status cpu_potrf(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                        batch_mat a, int *info) {
    (void)ctx;
    return on_a("potrf", FACTOR, t, uplo, 'N', count, n, ZERO, a, NONE, info);
}

static status cpu_trtri(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t count,
                        batch_dim n, batch_mat a, int *info) {
    (void)ctx;
    return on_a("trtri", INVERT, t, uplo, diag, count, n, ZERO, a, NONE, info);
}

static status cpu_lauum(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                        batch_mat a) {
    (void)ctx;
    return on_a("lauum", SQUARE, t, uplo, 'N', count, n, ZERO, a, NONE, NULL);
}

static status cpu_potri(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                        batch_mat a, int *info) {
    (void)ctx;
    return on_a("potri", INVERT | SQUARE, t, uplo, 'N', count, n, ZERO, a, NONE, info);
}

static status cpu_poti(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                       batch_mat a, int *info) {
    (void)ctx;
    return on_a("poti", FACTOR | INVERT | SQUARE, t, uplo, 'N', count, n, ZERO, a, NONE, info);
}

static status cpu_potrs(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                        batch_dim nrhs, batch_mat a, batch_mat b) {
    (void)ctx;
    return on_a("potrs", FORWARD | BACKWARD, t, uplo, 'N', count, n, nrhs, a, b, NULL);
}

static status cpu_posv(backend_ctx *ctx, backend_type t, char uplo, int64_t count, batch_dim n,
                       batch_dim nrhs, batch_mat a, batch_mat b, int *info) {
    (void)ctx;
    return on_a("posv", FACTOR | FORWARD | BACKWARD, t, uplo, 'N', count, n, nrhs, a, b, info);
}

const backend_batch backend_batch_cpu = {
    .syrk = cpu_syrk,
    .trsm = cpu_trsm,
    .trmm = cpu_trmm,
    .potrf = cpu_potrf,
    .trtri = cpu_trtri,
    .lauum = cpu_lauum,
    .potri = cpu_potri,
    .poti = cpu_poti,
    .potrs = cpu_potrs,
    .posv = cpu_posv,
};
