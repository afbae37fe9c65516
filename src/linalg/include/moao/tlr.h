/* Tile low-rank (TLR) matrices: a matrix is cut into tiles of order about b; a tile is empty,
 * dense, or a product U V^T of few columns. Formats, products, Cholesky factor, solves,
 * determinants.
 *
 * The code is host code that drives the tables of a backend (backend.h): the same runs on the CPU
 * and on a GPU. The conventions of backend.h hold: column-major, int64_t sizes, arrays of numbers
 * in the backend's memory, work in the stream of the context. Unlike the tables' operations, these
 * functions allocate, and wait for the stream where they need ranks (once for each block column).
 *
 * Layout. Tile columns are taken in block columns of about `width` columns. A symmetric matrix or a
 * triangular factor keeps the blocks of block columns on its diagonal dense, and tiles below them;
 * a rectangular matrix has tiles only. In a block column the U of one tile row lie side by side,
 * and so do the V of one tile column, so that products with many columns are large ones.
 *
 * A matrix times a power of two has the same ranks; on a GPU where the squares of its entries and
 * of tau are normal numbers (double precision: about 1e-150 to 1e150). Accuracy is absolute: of
 * each tile a part of Frobenius norm at most `tau` is dropped. With fixed rank (options.rank > 0)
 * the `rank` largest singular values of each tile are kept, whatever is dropped.
 *
 * All matrices are indexed in the order of their layouts; perm leads to the caller's own order. */
#ifndef MOAO_TLR_H
#define MOAO_TLR_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- order and tile boundaries ------------------------------------------------------------- */

typedef struct {
    int64_t n;      /* rows (or columns) of the matrix */
    int64_t nt;     /* number of tiles */
    int64_t *first; /* [nt + 1] first index of each tile */
    int64_t *perm;  /* [n] caller's index of each index */
} moao_tlr_layout;

typedef enum {
    MOAO_TLR_KD,      /* each group: medians of its longer side, into leaves of nearly equal size */
    MOAO_TLR_NATURAL, /* as given, each group cut into equal runs */
} moao_tlr_order;

/* Points in groups (sensors): points start[g] .. start[g + 1] are group g. Each point has `each`
 * entries of the matrix (2: the slopes x and y of a subaperture), which stay together in a tile;
 * the caller's index of entry e of point p of group g is each start[g] + e (points of g) + p -
 * start[g]. Tiles have at most b indices, b >= each. */
typedef struct {
    int64_t groups;
    const int64_t *start; /* [groups + 1] */
    const double *x, *y;
    int64_t each;
} moao_tlr_points;
MOAO_PUBLIC moao_status moao_tlr_layout_points(const moao_tlr_points *p, int64_t b,
                                               moao_tlr_order order, moao_tlr_layout *l);
/* n points in 1 to 3 dimensions, at[dim i + k], one entry each, ordered as by MOAO_TLR_KD.
 * MOAO_INPUT: a coordinate is not finite. */
MOAO_PUBLIC moao_status moao_tlr_layout_cloud(int dim, int64_t n, const double *at, int64_t b,
                                              moao_tlr_layout *l);
/* One group of n entries as they are, in tiles of b, the last one smaller. */
MOAO_PUBLIC moao_status moao_tlr_layout_plain(int64_t n, int64_t b, moao_tlr_layout *l);
MOAO_PUBLIC void moao_tlr_layout_free(moao_tlr_layout *l);

/* --- matrices ------------------------------------------------------------------------------- */

/* Rows i0 .. i0 + ni, columns j0 .. j0 + nj (in the order of the layouts) into a, which lies in the
 * memory of the backend; work goes into the stream of the context. Of a symmetric matrix blocks on
 * and below the diagonal are asked for, wholly: both triangles of those on it. */
typedef moao_status moao_tlr_fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj,
                                  double *a, int64_t lda);

typedef struct {
    double tau;    /* largest Frobenius norm of what is dropped of a tile; 0: all tiles are dense */
    int64_t rank;  /* > 0: fixed rank, tau is not used */
    int64_t cut;   /* a tile that needs more columns is dense; < 0: half the tile's order; at most
                      512. 0: all tiles are dense */
    int64_t width; /* columns of a block column (the block on the diagonal is not compressed); 0: a
                      16th of the matrix, two tiles at least, 2,048 at most */
    uint64_t seed; /* of the samples of compression */
    size_t memory; /* bytes for intermediate products, in each of two buffers; 0: 1 GB. Sums are
                      made in as few pieces as it allows: the bits of results depend on it */
    bool fp32;     /* a factor's tiles are kept in single precision, narrowed when they are made, so
                         that all that follows uses what is kept; the diagonal blocks stay as they are.
                         MOAO_NUMERIC: the largest pivot is not between 2^-70 and 2^110 */
    bool fp16;     /* with fp32, not with host, distributed, or a fixed rank: of each tile of a
                        factor as many of the last columns of U and V as together lose tau / 2^11 or
                        less are kept in FP16 of one exponent for a block column, and so is a dense
                        tile whose norm in the metric of the matrix is at most 2^11 tau. All that
                        follows uses what is kept
                      */
    bool mixed;    /* with fp32, not with host: products with a factor's tiles are made and summed
                      in single precision too; what they are subtracted from stays in doubles */
    int terms;     /* with mixed, > 0: the large products of updates are products of FP16 numbers in
                      three   terms (moao_backend_split_ops.h), and solves from the right in so many (1
                      to   3).   What is   rounded on the way adds to the ranks where tau is small */
    bool host;     /* a factor's tiles are kept in the host's memory; the bits are the same */
    size_t room;   /* with host: bytes of the backend's memory that making a left-looking factor may
                      take; as many block columns (up to four) as it allows, but one at least, share
                      what comes from the host's memory. It is taken in one piece, where the
                      backend has that (pool.h). 0: no limit */
    void *workspace; /* with room, NULL or as much of the backend's memory, less the blocks on the
                        diagonal (the factor's own), at a multiple of 512 bytes: borrowed until
                        moao_tlr_factor returns, instead of taking it */
    bool timed;      /* a factor's steps are timed (each is waited for) */
    int parts; /* > 0: tile rows below a block column's diagonal block are worked at in so many
                  parts, which several members of a factor share; its bits depend on their number,
                  not on who has which. 0: all rows at once */
    bool distributed; /* with parts, not with host or fp16: each of several members of a factor
                         keeps only its own tile rows of L, which are blocks of whole block columns,
                         as many as parts, dealt out in turn (the blocks on the diagonal are
                         replicated) */
    bool norms; /* record the norm of what is dropped of each tile (takes time: on the host) */
} moao_tlr_options;

typedef enum { MOAO_TLR_EMPTY, MOAO_TLR_LOWRANK, MOAO_TLR_DENSE } moao_tlr_kind;

typedef struct {
    moao_tlr_kind kind;
    int32_t rank;           /* columns of U and V; of a dense tile its columns */
    int32_t fp16;           /* of these, the last ones, so many are kept in FP16 */
    double dropped;         /* Frobenius norm of what was dropped, NaN where it is not known */
    int64_t u, v;           /* columns before it in U of its row and V of its column */
    int64_t u_fp16, v_fp16; /* of these, those in FP16 */
} moao_tlr_tile;

typedef struct moao_tlr moao_tlr;

typedef struct {
    int64_t order;                        /* of the largest tile */
    int64_t tiles, empty, lowrank, dense; /* of those off the diagonal blocks */
    int64_t histogram[16];                /* low-rank tiles by rank, in 16ths of the order b */
    int64_t most, p90;                    /* largest rank, and that of 90 % (of low-rank tiles) */
    double mean;                          /* rank, empty tiles as 0, dense as their order */
    int64_t columns, fp16;                /* of U and of dense tiles; of these in FP16 */
    int64_t dense_fp16;                   /* dense tiles that are */
    double bytes, bytes_dense;            /* stored; those of the matrix (of a triangle) in FP64 */
    double here;                          /* of bytes, those on this member (options.distributed) */
    double dropped;                       /* Frobenius norm of all that was dropped, NaN: unknown */
} moao_tlr_stats;

/* A matrix from its entries, a block column at a time; cols NULL: symmetric. be, ctx, and layouts
 * must outlive it. MOAO_NUMERIC: an entry is not finite. *out is NULL on failure; close(NULL) is
 * fine. */
MOAO_PUBLIC moao_status moao_tlr_build(const moao_backend *be, moao_backend_ctx *ctx,
                                       const moao_tlr_layout *rows, const moao_tlr_layout *cols,
                                       moao_tlr_fill *fill, void *arg, const moao_tlr_options *o,
                                       moao_tlr **out);
MOAO_PUBLIC void moao_tlr_close(moao_tlr *a);
/* A copy, as it is or (rectangular matrices) transposed. */
MOAO_PUBLIC moao_status moao_tlr_copy(const moao_tlr *a, char trans, moao_tlr **out);
/* The whole matrix in a (for tests): of a factor the lower triangle, zeros above; of a symmetric
 * matrix both triangles. */
MOAO_PUBLIC moao_status moao_tlr_expand(const moao_tlr *a, double *dense, int64_t ld);
/* Tile (i, k), i a tile row and k a tile column; NULL in and above diagonal blocks. */
MOAO_PUBLIC const moao_tlr_tile *moao_tlr_tile_at(const moao_tlr *a, int64_t i, int64_t k);
MOAO_PUBLIC void moao_tlr_statistics(const moao_tlr *a, moao_tlr_stats *s);

/* --- algebra -------------------------------------------------------------------------------- */

/* Y := alpha op(A) X + beta Y (side L; X, Y of v columns) or alpha X op(A) + beta Y (side R; v
 * rows). beta = 0 does not read Y. A rectangular, symmetric, or a factor L. */
MOAO_PUBLIC moao_status moao_tlr_apply(const moao_tlr *a, char side, char trans, int64_t v,
                                       double alpha, const double *x, int64_t ldx, double beta,
                                       double *y, int64_t ldy);

/* C := alpha op(A) op(B) + beta C; A, B rectangular with the same tiles along the inner extent.
 * Dense C (LLD): one product after another accumulates in C. */
MOAO_PUBLIC moao_status moao_tlr_gemm_dense(double alpha, const moao_tlr *a, char transa,
                                            const moao_tlr *b, char transb, double beta, double *c,
                                            int64_t ldc);
/* The same with C rectangular TLR (LLL), compressed with C's options. way: 'A' accumulate a
 * block column of C densely, compress it once; 'R' recompress the sum after every inner tile
 * (columns of C and of a product together at most 256; a tile of C beyond its cut: MOAO_NUMERIC).
 */
MOAO_PUBLIC moao_status moao_tlr_gemm(char way, double alpha, const moao_tlr *a, char transa,
                                      const moao_tlr *b, char transb, double beta, moao_tlr *c);
/* C := alpha A A^T + beta C; dense: lower triangle of C and of its diagonal tiles all (LD); TLR: C
 * symmetric (LL). A rectangular. */
MOAO_PUBLIC moao_status moao_tlr_syrk_dense(double alpha, const moao_tlr *a, double beta, double *c,
                                            int64_t ldc);
MOAO_PUBLIC moao_status moao_tlr_syrk(double alpha, const moao_tlr *a, double beta, moao_tlr *c);
/* A := A L^-T, A rectangular with L's tiles as columns; compressed with A's options. */
MOAO_PUBLIC moao_status moao_tlr_trsm(const moao_tlr *l, moao_tlr *a);

/* --- Cholesky factor ------------------------------------------------------------------------ */

/* Processes that make one factor together, each with a device of its own; L is whole on all of them
 * at the end (options.distributed: each has its rows), and its bits are those that one of them
 * alone makes with the same options.parts. Each of them calls moao_tlr_factor with the same source
 * and options. Tile rows below the diagonal block of a block column are dealt out in parts; the
 * block itself is replicated. Where one fails, all do, with the worst status; a message has who
 * knows the reason.
 *
 * Of a distributed factor moao_tlr_solve, moao_tlr_apply and moao_tlr_expand are collective among
 * its members, with the same arguments but for vectors, of which each has its own or none (v = 0);
 * it is not copied, and not for moao_tlr_trsm. merge and bcast must live as long as it does. */
typedef struct {
    int rank, size; /* of this process among them */
    void *arg;
    /* Collective. The worst status of all; where that is MOAO_OK, v[k] becomes the largest v[k] of
     * all, k < n, the same n everywhere unless a status is worse; v on the host. After it has told
     * of a failure it returns one at once, without the others. */
    moao_status (*merge)(void *arg, moao_status local, int64_t *v, int64_t n);
    /* Collective. bytes at p, in the backend's memory, of member root come to p of the others, in
     * the order of the stream of the factor's context. It does not return where it fails for one of
     * them alone. */
    moao_status (*bcast)(void *arg, void *p, size_t bytes, int root);
} moao_tlr_procs;

/* The matrix to be factored: entries (DL), or a symmetric TLR matrix (LL; fill NULL). members:
 * NULL, or those who make a left-looking factor together, with options.parts; all of them ask for
 * all entries, in the same order, and a fill may share that work out itself; or (own_rows) each for
 * what it needs, the diagonal blocks and its own rows. */
typedef struct {
    const moao_tlr_layout *layout;
    moao_tlr_fill *fill;
    void *arg;
    const moao_tlr *a;
    const moao_tlr_procs *members;
    bool own_rows;
} moao_tlr_source;

/* What may be done where a pivot is not positive, in this order. */
typedef struct {
    int retries;  /* times that the factor is made anew with tau / 4 */
    double shift; /* largest constant that may be added to the diagonal of a block column */
    bool dense;   /* a factor without compression at last */
} moao_tlr_rescue;

/* Steps of a factor: entries (or expansion of a compressed matrix); of the updates the products of
 * V with V, those with U, those with dense tiles, and the large ones; factor of the diagonal
 * blocks; division by them; compression; columns to where they stay. */
enum {
    MOAO_TLR_ENTRIES,
    MOAO_TLR_CORES,
    MOAO_TLR_SMALL,
    MOAO_TLR_DENSE_TILES,
    MOAO_TLR_LARGE,
    MOAO_TLR_PIVOTS,
    MOAO_TLR_DIVIDE,
    MOAO_TLR_COMPRESS,
    MOAO_TLR_SETTLE,
    MOAO_TLR_STEPS
};

typedef struct {
    double tau;                     /* that of the factor */
    int restarts;                   /* with a smaller tau */
    int64_t shifts;                 /* block columns to whose diagonal something was added */
    double shift;                   /* the largest constant added */
    bool dense;                     /* made without compression */
    int64_t minor;                  /* order of the first minor that is not positive, 0: none */
    bool not_positive;              /* the pivot was further below zero than compression explains */
    double seconds[MOAO_TLR_STEPS]; /* where options.timed */
    double fetched;                 /* bytes that came from the host's memory (options.host) */
    int together;                   /* block columns of the largest group that shared them */
    int64_t columns;     /* where MOAO_MEMORY ended it: of the block columns that were finished, */
    moao_tlr_stats made; /* and their tiles */
} moao_tlr_report;

/* A = L L^T. variant: 'L' left-looking (memory: the factor and a block column), 'R' right-looking
 * (DL: all of the matrix dense; LL: a second copy of it). What is compressed is a tile of the Schur
 * complement, L_ik L_kk^T. MOAO_NUMERIC: an entry is not finite, or not positive definite and no
 * rescue helped, or singular: the least pivot is below n units of rounding of the largest; *report
 * (may be NULL) is written always. */
MOAO_PUBLIC moao_status moao_tlr_factor(const moao_backend *be, moao_backend_ctx *ctx,
                                        const moao_tlr_source *source, char variant,
                                        const moao_tlr_options *o, const moao_tlr_rescue *rescue,
                                        moao_tlr **l, moao_tlr_report *report);

/* X := op(L)^-1 X (side L; X of v columns) or X op(L)^-1 (side R; v rows). job: 'N' L, 'T' L^T, 'A'
 * the matrix L L^T. One call at a time: what it works in stays with the factor. */
MOAO_PUBLIC moao_status moao_tlr_solve(const moao_tlr *l, char side, char job, int64_t v, double *x,
                                       int64_t ldx);
/* Solves from the right that follow are made in so many terms, 0: in the precision of options.mixed
 * (at first options.terms); products with columns that are kept in FP16 in so many of them (1, or
 * with three terms 2, which leaves nothing out; else as at first: that). For a factor whose tiles
 * are kept in single precision in the backend's memory, whatever its own products were made in; no
 * effect on others. */
MOAO_PUBLIC void moao_tlr_set_split(moao_tlr *l, int terms, int of_fp16);
/* Natural logarithm of the determinant of L L^T = A + E. Waits. Where what was dropped (E) is not
 * small against the least eigenvalue of A it says little of A: moao_tlr_logdet_error says how much.
 */
MOAO_PUBLIC moao_status moao_tlr_logdet(const moao_tlr *l, double *logdet);
/* A posteriori: *error estimates moao_tlr_logdet less the logarithm of the determinant of the
 * matrix `of` that was factored, -tr log(L^-1 A L^-T), by Lanczos' quadrature with `probes` (2 to
 * 64) random vectors of +-1 (Ubaru, Chen, Saad, SIAM J. Matrix Anal. Appl. 38 (2017) 1075);
 * *deviation is the standard deviation of that estimate. Up to 24 steps, until the estimate changes
 * by a tenth of its deviation or a thousandth of itself; a step takes all entries on and below the
 * diagonal once, and two solves with all vectors. Nothing is learned below the rounding of the
 * solves, about 1e-15 times the order and the condition. MOAO_INPUT: a distributed factor, or
 * another layout. MOAO_NUMERIC: the matrix is not positive definite. Waits. */
MOAO_PUBLIC moao_status moao_tlr_logdet_error(const moao_tlr *l, const moao_tlr_source *of,
                                              int probes, uint64_t seed, double *error,
                                              double *deviation);
/* Estimate of the reciprocal condition of L L^T in the 1-norm, nearly always within a factor of 9,
 * by at most 11 products and 11 solves with one vector. MOAO_INPUT: a distributed factor. Waits. */
MOAO_PUBLIC moao_status moao_tlr_condition(const moao_tlr *l, double *rcond);

#ifdef __cplusplus
}
#endif
#endif
