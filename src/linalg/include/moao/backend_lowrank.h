/* Batched orthogonal factors and low-rank approximation of a backend: QR, SVD, randomized and
 * adaptive sketches, and the recompression of sums of products U V^T. Many small matrices at once;
 * types D and S. The conventions of backend.h and moao_backend_batch.h hold (types, streams,
 * moao_batch_mat and moao_batch_dim, repeatability, what lies in the backend's memory), with these
 * additions.
 * - Any ratio of rows m to columns n, m < n too; sizes of 0. k = min(m, n) is at most
 * MOAO_BATCH_ORTH_MAX (QR) or MOAO_BATCH_SVD_MAX (SVD); the other extent at most
 * MOAO_BATCH_WIDE_MAX.
 * - tau and s (singular values) are moao_batch_mat of one column: ld is not used beyond ld >= 1.
 * - rank: one int64_t for each matrix, in the backend's memory, so that it can be
 * moao_batch_dim.each of the next call.
 * - info, one int for each matrix, always written: 0 fine; k > 0: column k of the input is the
 * first that holds a NaN or an infinity (of recompress: of U, V, U2, V2 in this order, the columns
 * of each counted on); the outputs of that matrix are unspecified, its rank 0; -1: a size is out of
 * range (nothing of it is touched, rank 0); -2: no convergence in 30 sweeps, or in sweeps_most of
 * a moao_batch_cut (the outputs are the iterate: sorted values, vectors of norm 1, those of one
 * side at least orthonormal, those of the other as far as the rotations came); -3: the tolerance is
 * not met with `most` columns (the best result with `most` is returned); -4: see
 * moao_batch_cut.later. No matrix disturbs another.
 * - Nothing overflows or underflows on the way: a singular value is Inf only where it is beyond the
 * type's range. -0 counts as 0.
 * - The bits of a result depend on the matrix, its sizes, the bounds of the call and its options,
 * not on the number of matrices, the position in the batch, the stream, or how much workspace
 * there is.
 * - work: see backend.h. workspace(op, t, count, m, n, k) is what a call uses at best; every
 *   routine runs with what count = 1 asks for (in more and smaller steps). */
#ifndef MOAO_BACKEND_LOWRANK_H
#define MOAO_BACKEND_LOWRANK_H

#include "backend_batch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MOAO_BATCH_ORTH_MAX 512  /* min(m, n) of geqrf, orgqr, ormqr (k), qr */
#define MOAO_BATCH_SVD_MAX 512   /* min(m, n) of gesvj; most (+ over) of ara and rsvd */
#define MOAO_BATCH_SUM_MAX 256   /* k + k2 of recompress */
#define MOAO_BATCH_SWEEPS_MAX 30 /* sweeps of Jacobi rotations before info is -2 */
/* Share of t^2 that ara leaves at most to what no sample found: the cut of what was found then has
 * the rest, and keeps a column or two more than need be at most. */
#define MOAO_BATCH_ARA_SHARE 0.75

/* Where a product is cut. The cut rank r is the least one whose error meets the threshold, at most
 * `most` and min(m, n). NULL instead of a moao_batch_cut: all min(m, n) columns, also those of zero
 * singular values. */
typedef struct {
    double tol;               /* the threshold; 0: only `most` cuts, and zero singular values */
    const double *tol_each;   /* not NULL (backend's memory): tol of each matrix */
    char kind;                /* 'R': t = tol times the norm of this matrix; 'A': t = tol */
    char norm;                /* '2': sigma_{r+1} <= t; 'F': sqrt(sum of the cut sigma^2) <= t */
    int64_t most;             /* largest rank; outputs have room for so many columns */
    const int64_t *most_each; /* not NULL (backend's memory): of each matrix, at most `most` */
    bool or_nothing; /* of ara: with info -3 the outputs are not used, nor the rank; it may be given
                        as soon as the decay of the samples foresees it */
    int64_t later; /* with or_nothing, > most: columns that another call may give a matrix of which
                      info is -3. It is -4 where the decay foresees that they will not do either */
    int sweeps_most; /* sweeps of rotations of an SVD; 0: MOAO_BATCH_SWEEPS_MAX, at most that */
    int *sweeps; /* of gesvj, not NULL (backend's memory): how many sweeps each matrix took, the one
                    that found nothing (or little) to rotate included; 0: no rotations were made */
} moao_batch_cut;

typedef enum {
    MOAO_BATCH_QR,         /* m, n; k unused */
    MOAO_BATCH_GESVJ,      /* m, n; k unused */
    MOAO_BATCH_RSVD,       /* m, n; k = most + over */
    MOAO_BATCH_ARA,        /* m, n; k = most */
    MOAO_BATCH_RECOMPRESS, /* m, n; k = the bound of k plus that of k2 */
} moao_batch_op;

static inline int64_t moao_batch_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The operations, by the types of their functions (see backend.h). */

/* A = Q R by Householder reflections, in LAPACK's layout and signs: R on and above the
 * diagonal, vectors (first entry 1 not stored) below, H_j = I - tau_j v_j v_j^T, Q = H_1 H_2
 * ...; R_jj = -sign(a_jj) norm; a column whose tail is exactly 0: tau 0. tau: min(m, n)
 * entries. */
typedef moao_status moao_lowrank_geqrf_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t count,
                                          moao_batch_dim m, moao_batch_dim n, moao_batch_mat a,
                                          moao_batch_mat tau, int *info);

/* A := the first n columns of Q = H_1 ... H_k, A m x n, k <= n <= m (a matrix with other sizes
 * is left alone). */
typedef moao_status moao_lowrank_orgqr_op(moao_backend_ctx *ctx, moao_backend_type t, int64_t count,
                                          moao_batch_dim m, moao_batch_dim n, moao_batch_dim k,
                                          moao_batch_mat a, moao_batch_mat tau);

/* C := op(Q) C (side L) or C op(Q) (side R), trans N or T; C m x n; the k vectors of a have m
 * (L) or n (R) entries, k at most that. */
typedef moao_status moao_lowrank_ormqr_op(moao_backend_ctx *ctx, moao_backend_type t, char side,
                                          char trans, int64_t count, moao_batch_dim m,
                                          moao_batch_dim n, moao_batch_dim k, moao_batch_mat a,
                                          moao_batch_mat tau, moao_batch_mat c);

/* A = Q R with R_jj >= 0, R k x n with zeros below its diagonal, Q m x k orthonormal whatever
 * A's rank. job 'Q': Q in place of A (its first k columns; others, where m < n, unspecified);
 * 'R': only R, A unspecified afterwards. r must not overlap a. */
typedef moao_status moao_lowrank_qr_op(moao_backend_ctx *ctx, moao_backend_type t, char job,
                                       int64_t count, moao_batch_dim m, moao_batch_dim n,
                                       moao_batch_mat a, moao_batch_mat r, int *info, void *work,
                                       size_t lwork);

/* A = U S V^T by one-sided Jacobi rotations. jobu, jobv: 'N' none, 'U' orthonormal vectors,
 * 'S' vectors times their singular values. s: min(m, n) values, descending, >= 0, those beyond
 * the cut rank written as 0. u: m x r, v: n x r, further columns untouched. A is unspecified
 * afterwards; u may be a itself. Sign: the entry of largest modulus (the first of equals) of
 * each column of u is positive; of v if jobu is N. Every singular value is accurate to a few
 * eps relative to itself where A = D1 B D2, D1 and D2 diagonal, B well conditioned, min(m, n)
 * <= 128 and max(m, n) <= 1,024 (A = B D2 for larger ones); where rows and columns have entries of
 * about one size (largest ones within 256 of each other) errors may be a few eps of the largest
 * value: then matrices from about 64 columns on go by a bidiagonal matrix (CPU) or begin from
 * eigenvectors of A^T A (GPU, double precision, without a tolerance or a limit of sweeps). rank may
 * be NULL when cut is. */
typedef moao_status moao_lowrank_gesvj_op(moao_backend_ctx *ctx, moao_backend_type t, char jobu,
                                          char jobv, const moao_batch_cut *cut, int64_t count,
                                          moao_batch_dim m, moao_batch_dim n, moao_batch_mat a,
                                          moao_batch_mat s, moao_batch_mat u, moao_batch_mat v,
                                          int64_t *rank, int *info, void *work, size_t lwork);

/* A ~ U S V^T of rank cut->most from most + over random samples of A's columns, improved by
 * `power` (0 to 2) subspace iterations; then cut by cut->tol (of the sampled matrix Q^T A) if
 * that is > 0. A is only read. s: min(m, n, most) values. over < 0: 8. The samples are drawn
 * from `seed` by moao_backend_random (moao_backend_random.h), the same for every matrix. */
typedef moao_status moao_lowrank_rsvd_op(moao_backend_ctx *ctx, moao_backend_type t, char jobu,
                                         char jobv, const moao_batch_cut *cut, int64_t over,
                                         int power, uint64_t seed, int64_t count, moao_batch_dim m,
                                         moao_batch_dim n, moao_batch_mat a, moao_batch_mat s,
                                         moao_batch_mat u, moao_batch_mat v, int64_t *rank,
                                         int *info, void *work, size_t lwork);

/* A ~ U V^T to the tolerance of `cut`, whose rank is found by blocks of samples. A is only
 * read. job 'L': U orthonormal, V carries the singular values; 'R': V orthonormal; 'B': both
 * carry their square roots. The error is known exactly (Frobenius norm of A less that of what
 * is found) where t >= 3e-7 norm_F(A) (D) or 1e-3 norm_F(A) (S); below it is estimated from the
 * next block of samples. cut->norm '2' bounds sqrt(sigma_{r+1}^2 + what no sample found). */
typedef moao_status moao_lowrank_ara_op(moao_backend_ctx *ctx, moao_backend_type t, char job,
                                        const moao_batch_cut *cut, uint64_t seed, int64_t count,
                                        moao_batch_dim m, moao_batch_dim n, moao_batch_mat a,
                                        moao_batch_mat u, moao_batch_mat v, int64_t *rank,
                                        int *info, void *work, size_t lwork);

/* U V^T := beta U V^T + alpha U2 V2^T, cut. U m x k and V n x k hold the sum's factors
 * afterwards (room for `most` columns, and for k); U2 m x k2 and V2 n x k2 are only read. job
 * as for ara. beta and alpha: elements in host memory; 0: that product is not read. Nothing
 * below about 20 eps norm(U) norm(V) is meaningful. */
typedef moao_status moao_lowrank_recompress_op(moao_backend_ctx *ctx, moao_backend_type t, char job,
                                               const moao_batch_cut *cut, int64_t count,
                                               moao_batch_dim m, moao_batch_dim n, const void *beta,
                                               moao_batch_dim k, moao_batch_mat u, moao_batch_mat v,
                                               const void *alpha, moao_batch_dim k2,
                                               moao_batch_mat u2, moao_batch_mat v2, int64_t *rank,
                                               int *info, void *work, size_t lwork);

typedef struct moao_backend_lowrank {
    size_t size; /* sizeof(moao_backend_lowrank) */

    /* Bytes of work for one call on `count` matrices with these bounds; 0 where none is used. */
    size_t (*workspace)(moao_batch_op op, moao_backend_type t, int64_t count, int64_t m, int64_t n,
                        int64_t k);

    moao_lowrank_geqrf_op *geqrf;
    moao_lowrank_orgqr_op *orgqr;
    moao_lowrank_ormqr_op *ormqr;
    moao_lowrank_qr_op *qr;
    moao_lowrank_gesvj_op *gesvj;
    moao_lowrank_rsvd_op *rsvd;
    moao_lowrank_ara_op *ara;
    moao_lowrank_recompress_op *recompress;
} moao_backend_lowrank;

#ifdef __cplusplus
}
#endif
#endif
