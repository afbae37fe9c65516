/* Batched QR, SVD and low-rank routines of the CPU backend: the specification, OpenMP over the
 * batch, one thread for each matrix. */
#include "cpu_own.h"
#include "moao/backend_random.h"
#include "moao/cpu_threads.h"
#include <assert.h>
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define LAPACK_BLOCK 64 /* columns of work for LAPACK's blocked routines */
#define BIDIAG_PANEL 16
#define REFLECT_PANEL 24
/* Up to so many columns all singular values come from rotations; ROTATED_ASKED where the caller
 * limits or counts the sweeps. */
enum { ROTATED = 16, ROTATED_ASKED = 32 };

/* Work of one thread, given out in pieces; its size is known before (scratch_bytes). */
typedef struct {
    char *p;
    size_t used, size;
} arena;

/* count elements, 64-byte aligned, with whatever they hold */
static void *room(arena *a, int64_t count, size_t element) {
    const size_t bytes = ((size_t)(count > 0 ? count : 1) * element + 63) / 64 * 64;
    char *p = a->p + a->used;
    assert(a->used + bytes <= a->size);
    a->used += bytes;
    return p;
}
/* The same, zeroed. */
static void *take(arena *a, int64_t count, size_t element) {
    void *p = room(a, count, element);
    return memset(p, 0, (size_t)(count > 0 ? count : 1) * element);
}

/* Where one matrix is cut. */
typedef struct {
    bool on, sampled, or_nothing; /* sampled: s has `most` entries at most */
    double tol;
    char kind, norm;
    int64_t most, later;
    int sweeps_most, *sweeps; /* sweeps: of this matrix; NULL: not wanted */
} cut_one;

static int64_t rotated_most(const cut_one *cut) {
    return cut->sweeps || cut->sweeps_most < BATCH_SWEEPS_MAX ? ROTATED_ASKED : ROTATED;
}

/* The least rank that meets the cut, for values sig[0..c) (2^e times the true ones) and the square
 * of the norm of what was dropped before. */
static int64_t cut_rank(const cut_one *cut, int64_t c, const double *sig, double dropped, int e,
                        int *info) {
    double all = dropped, tail = dropped;
    int64_t r = c;
    if (!cut->on)
        return c;
    for (int64_t p = c; p-- > 0;)
        all += sig[p] * sig[p];
    const double norm = cut->norm == '2' ? (c > 0 ? sig[0] : 0) : sqrt(all),
                 t = cut->kind == 'A' ? ldexp(cut->tol, e) : cut->tol * norm;
    for (; r > 0; r--) {
        const double s = sig[r - 1] * sig[r - 1], next = (cut->norm == '2' ? dropped : tail) + s;
        if (!(next <= t * t) || (s == 0 && sig[r - 1] > t)) /* its square underflows */
            break;
        tail += s;
    }
    if (r <= cut->most)
        return r;
    if (cut->tol > 0 && *info == 0)
        *info = -3;
    return cut->most;
}

/* One call of any routine. */
typedef enum { GEQRF, ORGQR, ORMQR, QR, GESVJ, RSVD, ARA, RECOMPRESS } op;
typedef struct {
    op op;
    backend_type t;
    char job, jobu, jobv, side, trans;
    const batch_cut *cut;
    int64_t over;
    int power;
    uint64_t seed;
    int64_t count;
    batch_dim m, n, k, k2;
    batch_mat a, s, u, v, u2, v2; /* s: values or tau; u: R or C where there are no vectors */
    const void *beta, *alpha;
    int64_t *rank;
    int *info;
} call;

#define REAL double
#define NAME(x) x##_d
#define LAPACK(x) d##x##_
#define CBLAS(x) cblas_d##x
#define IAMAX cblas_idamax
#define SQRT sqrt
#define COPYSIGN copysign
#define UNIT (DBL_EPSILON / 2)
#define NORM_EXPONENT 480
#define ANGLE_BIG 0x1p27
#define VECTOR_LEAST 0x1p-500
#define EXACT_LEAST 3e-7
#include "lowrank_cpu_bidiag.h"
#include "lowrank_cpu_real.h"
#include "lowrank_cpu_sketch.h"
#undef REAL
#undef NAME
#undef LAPACK
#undef CBLAS
#undef IAMAX
#undef SQRT
#undef COPYSIGN
#undef UNIT
#undef NORM_EXPONENT
#undef ANGLE_BIG
#undef VECTOR_LEAST
#undef EXACT_LEAST

#define REAL float
#define NAME(x) x##_s
#define LAPACK(x) s##x##_
#define CBLAS(x) cblas_s##x
#define IAMAX cblas_isamax
#define SQRT sqrtf
#define COPYSIGN copysignf
#define UNIT (FLT_EPSILON / 2)
#define NORM_EXPONENT 60
#define ANGLE_BIG 0x1p12f
#define VECTOR_LEAST 0x1p-60f
#define EXACT_LEAST 1e-3
#include "lowrank_cpu_bidiag.h"
#include "lowrank_cpu_real.h"
#include "lowrank_cpu_sketch.h"

/* --- one matrix of a batch */
static void *matrix(batch_mat m, backend_type t, int64_t b) {
    if (m.ptrs)
        return m.ptrs[b];
    return m.base ? (char *)m.base + b * m.stride * (int64_t)backend_size(t) : NULL;
}
static int64_t leading(batch_mat m, int64_t b) {
    return m.lds ? m.lds[b] : m.ld;
}
/* Size of matrix b, -1 when it is out of range. */
static int64_t size_of(batch_dim d, int64_t b) {
    int64_t n = d.each ? d.each[b] : d.n;
    return n < 0 || n > d.n ? -1 : n;
}

static cut_one cut_of(const batch_cut *c, int64_t b) {
    cut_one one = {.on = c != NULL, .sweeps_most = BATCH_SWEEPS_MAX};
    if (!c)
        return one;
    if (c->sweeps_most > 0)
        one.sweeps_most = c->sweeps_most;
    one.tol = c->tol_each ? c->tol_each[b] : c->tol;
    one.tol = one.tol > 0 ? one.tol : 0;
    one.kind = c->kind, one.norm = c->norm, one.most = c->most, one.or_nothing = c->or_nothing;
    one.later = c->later;
    if (c->most_each && c->most_each[b] >= 0 && c->most_each[b] < c->most)
        one.most = c->most_each[b];
    return one;
}

/* The operand `x` of matrix b and its leading dimension, for a call of a routine. */
#define MAT(x) matrix(q->x, q->t, b), leading(q->x, b)
#define COLUMN(x) matrix(q->x, q->t, b)
#define BY_TYPE(F, ...) (q->t == BACKEND_D ? F##_d(__VA_ARGS__) : F##_s(__VA_ARGS__))
#define SCALAR(x) (q->t == BACKEND_D ? *(const double *)(x) : *(const float *)(x))

static int geqrf_one(const call *q, int64_t b, arena *mem, int64_t m, int64_t n) {
    const int bad = BY_TYPE(bad_column, MAT(a), m, n);
    if (!bad)
        BY_TYPE(geqrf, mem, m, n, MAT(a), COLUMN(s));
    return bad;
}

static int one(const call *q, int64_t b, arena *mem) {
    const int64_t m = size_of(q->m, b), n = size_of(q->n, b), k = size_of(q->k, b),
                  k2 = size_of(q->k2, b);
    cut_one cut = cut_of(q->cut, b);
    int64_t unused = 0, *rank = q->rank ? q->rank + b : &unused;
    *rank = 0;
    if (q->op == GESVJ && q->cut && q->cut->sweeps) {
        cut.sweeps = q->cut->sweeps + b;
        *cut.sweeps = 0;
    }
    if (m < 0 || n < 0 || k < 0 || k2 < 0)
        return -1;
    switch (q->op) {
    case GEQRF:
        return geqrf_one(q, b, mem, m, n);
    case ORGQR:
        if (n <= m && k <= n)
            BY_TYPE(orgqr, mem, m, n, k, MAT(a), COLUMN(s));
        return 0;
    case ORMQR:
        if (k <= (q->side == 'L' ? m : n))
            BY_TYPE(ormqr, mem, q->side, q->trans, m, n, k, MAT(a), COLUMN(s), MAT(u));
        return 0;
    case QR:
        return BY_TYPE(qr, mem, q->job, m, n, MAT(a), MAT(u));
    case GESVJ:
        return BY_TYPE(svd, mem, q->jobu, q->jobv, &cut, m, n, MAT(a), COLUMN(s), MAT(u), MAT(v),
                       rank);
    case RSVD:
        cut.sampled = true;
        return BY_TYPE(rsvd, mem, q, cut, m, n, MAT(a), COLUMN(s), MAT(u), MAT(v), rank);
    case ARA:
        return BY_TYPE(ara, mem, q, cut, m, n, MAT(a), MAT(u), MAT(v), rank);
    default:
        if (q->t == BACKEND_D)
            return recompress_d(mem, q, cut, m, n, SCALAR(q->beta), k, MAT(u), MAT(v),
                                SCALAR(q->alpha), k2, MAT(u2), MAT(v2), rank);
        return recompress_s(mem, q, cut, m, n, (float)SCALAR(q->beta), k, MAT(u), MAT(v),
                            (float)SCALAR(q->alpha), k2, MAT(u2), MAT(v2), rank);
    }
}

/* Enough for one matrix within the bounds of a call. */
static size_t scratch_bytes(const call *q) {
    const int64_t m = q->m.n, n = q->n.n, least = batch_least(m, n), wide = m > n ? m : n,
                  most = q->cut ? q->cut->most : 0;
    int64_t l = 0, words = 0; /* l: columns of a sketch or a sum */
    if (q->op == RSVD)
        l = most + (q->over < 0 ? 8 : q->over);
    else if (q->op == ARA)
        l = most + 32;
    else if (q->op == RECOMPRESS)
        l = q->k.n + q->k2.n;
    l = q->op == RECOMPRESS ? l : batch_least(l, least);
    if (q->op == GESVJ)
        words = 6 * m * n + 16 * least * least;
    else if (q->op >= RSVD)
        words = (q->op == RECOMPRESS ? 0 : m * n) + 14 * (m + n) * l + 30 * l * l;
    words += 2 * LAPACK_BLOCK * (m + n + l + q->k.n) + 20 * wide;
    return (size_t)words * 8 + ((size_t)1 << 18);
}

static status run(const call *q) {
    const int threads = (int)batch_least(omp_get_max_threads(), q->count > 1 ? q->count : 1);
    const size_t per = scratch_bytes(q);
    char *scratch = NULL;
    status st;
    scratch = malloc(per * (size_t)threads); /* not zeroed: most calls use little of it */
    if (!scratch)
        return status_fail(MOAO_MEMORY, "%zu MiB for batched factors could not be allocated",
                           per * (size_t)threads >> 20);
    const int blas = blas_alone(); /* also for one matrix */
    st = MOAO_OK;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t b = 0; b < q->count; b++) {
        arena mem = {scratch + (size_t)omp_get_thread_num() * per, 0, per};
        const int info = one(q, b, &mem);
        if (q->info)
            q->info[b] = info;
        if (q->rank && (info > 0 || info == -1))
            q->rank[b] = 0;
    }
    blas_together(blas);
    free(scratch);
    return st;
}

/* --- the table */
size_t lowrank_cpu_workspace(batch_op o, backend_type t, int64_t count, int64_t m, int64_t n,
                             int64_t k) {
    (void)o, (void)t, (void)count, (void)m, (void)n, (void)k;
    return 0;
}

static status cpu_geqrf(backend_ctx *ctx, backend_type t, int64_t count, batch_dim m, batch_dim n,
                        batch_mat a, batch_mat tau, int *info) {
    const call q = {
        .op = GEQRF, .t = t, .count = count, .m = m, .n = n, .a = a, .s = tau, .info = info};
    (void)ctx;
    return run(&q);
}

static status cpu_orgqr(backend_ctx *ctx, backend_type t, int64_t count, batch_dim m, batch_dim n,
                        batch_dim k, batch_mat a, batch_mat tau) {
    const call q = {.op = ORGQR, .t = t, .count = count, .m = m, .n = n, .k = k, .a = a, .s = tau};
    (void)ctx;
    return run(&q);
}

static status cpu_ormqr(backend_ctx *ctx, backend_type t, char side, char trans, int64_t count,
                        batch_dim m, batch_dim n, batch_dim k, batch_mat a, batch_mat tau,
                        batch_mat c) {
    const call q = {.op = ORMQR,
                    .t = t,
                    .side = side,
                    .trans = trans,
                    .count = count,
                    .m = m,
                    .n = n,
                    .k = k,
                    .a = a,
                    .s = tau,
                    .u = c};
    (void)ctx;
    return run(&q);
}

static status cpu_qr(backend_ctx *ctx, backend_type t, char job, int64_t count, batch_dim m,
                     batch_dim n, batch_mat a, batch_mat r, int *info, void *work, size_t lwork) {
    const call q = {
        .op = QR, .t = t, .job = job, .count = count, .m = m, .n = n, .a = a, .u = r, .info = info};
    (void)ctx, (void)work, (void)lwork;
    return run(&q);
}

static status cpu_gesvj(backend_ctx *ctx, backend_type t, char jobu, char jobv,
                        const batch_cut *cut, int64_t count, batch_dim m, batch_dim n, batch_mat a,
                        batch_mat s, batch_mat u, batch_mat v, int64_t *rank, int *info, void *work,
                        size_t lwork) {
    const call q = {.op = GESVJ,
                    .t = t,
                    .jobu = jobu,
                    .jobv = jobv,
                    .cut = cut,
                    .count = count,
                    .m = m,
                    .n = n,
                    .a = a,
                    .s = s,
                    .u = u,
                    .v = v,
                    .rank = rank,
                    .info = info};
    (void)ctx, (void)work, (void)lwork;
    return run(&q);
}

static status cpu_rsvd(backend_ctx *ctx, backend_type t, char jobu, char jobv, const batch_cut *cut,
                       int64_t over, int power, uint64_t seed, int64_t count, batch_dim m,
                       batch_dim n, batch_mat a, batch_mat s, batch_mat u, batch_mat v,
                       int64_t *rank, int *info, void *work, size_t lwork) {
    const call q = {.op = RSVD,
                    .t = t,
                    .jobu = jobu,
                    .jobv = jobv,
                    .cut = cut,
                    .over = over,
                    .power = power,
                    .seed = seed,
                    .count = count,
                    .m = m,
                    .n = n,
                    .a = a,
                    .s = s,
                    .u = u,
                    .v = v,
                    .rank = rank,
                    .info = info};
    (void)ctx, (void)work, (void)lwork;
    return run(&q);
}

static status cpu_ara(backend_ctx *ctx, backend_type t, char job, const batch_cut *cut,
                      uint64_t seed, int64_t count, batch_dim m, batch_dim n, batch_mat a,
                      batch_mat u, batch_mat v, int64_t *rank, int *info, void *work,
                      size_t lwork) {
    const call q = {.op = ARA,
                    .t = t,
                    .job = job,
                    .cut = cut,
                    .seed = seed,
                    .count = count,
                    .m = m,
                    .n = n,
                    .a = a,
                    .u = u,
                    .v = v,
                    .rank = rank,
                    .info = info};
    (void)ctx, (void)work, (void)lwork;
    return run(&q);
}

static status cpu_recompress(backend_ctx *ctx, backend_type t, char job, const batch_cut *cut,
                             int64_t count, batch_dim m, batch_dim n, const void *beta, batch_dim k,
                             batch_mat u, batch_mat v, const void *alpha, batch_dim k2,
                             batch_mat u2, batch_mat v2, int64_t *rank, int *info, void *work,
                             size_t lwork) {
    const call q = {.op = RECOMPRESS,
                    .t = t,
                    .job = job,
                    .cut = cut,
                    .count = count,
                    .m = m,
                    .n = n,
                    .k = k,
                    .k2 = k2,
                    .u = u,
                    .v = v,
                    .u2 = u2,
                    .v2 = v2,
                    .beta = beta,
                    .alpha = alpha,
                    .rank = rank,
                    .info = info};
    (void)ctx, (void)work, (void)lwork;
    return run(&q);
}

const backend_lowrank lowrank_cpu = {
    .size = sizeof(backend_lowrank),
    .workspace = lowrank_cpu_workspace,
    .geqrf = cpu_geqrf,
    .orgqr = cpu_orgqr,
    .ormqr = cpu_ormqr,
    .qr = cpu_qr,
    .gesvj = cpu_gesvj,
    .rsvd = cpu_rsvd,
    .ara = cpu_ara,
    .recompress = cpu_recompress,
};
