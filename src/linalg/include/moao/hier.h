/* Formats of a matrix that has structure: one interface over block-Toeplitz matrices (products by
 * FFT), HSS and H2 matrices (trees of low-rank blocks), and dense ones to compare with. A format is
 * opened from a source of entries, holds device memory and the description of its tree, and is then
 * applied to dense matrices, from either side.
 *
 * The code is host code that drives the tables of a backend: the same runs on the CPU and on a GPU.
 * The conventions of backend.h hold: column-major, int64_t sizes, arrays of numbers in the
 * backend's memory, work in the stream of the context. open, load, check and factor allocate and
 * wait; apply and solve do neither: they can be captured in a CUDA graph, and the same call gives
 * the same bits.
 *
 * Order: a format works in an order of its own, that of the leaves of its tree, so that what
 * belongs together lies together: row i of the format is row order[i] of the source
 * (moao_hier_describe). */
#ifndef MOAO_HIER_H
#define MOAO_HIER_H

#include "backend.h"
#include "backend_hier.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MOAO_HIER_DENSE,
    MOAO_HIER_TOEPLITZ, /* blocks of sensors on a common lattice: the FFT's product */
    MOAO_HIER_HSS,      /* weak admissibility: one block for two siblings */
    MOAO_HIER_H2,       /* strong admissibility: low rank only where clusters are apart */
} moao_hier_kind;

/* Where entries come from; borrowed while a format is opened, loaded or checked. Callbacks enqueue
 * work in the stream of the context; indices are those of the source. */
typedef struct {
    void *from; /* first argument of the callbacks */
    int64_t rows, cols;
    bool symmetric;
    bool mirrored;    /* a_ij = +- a_ji off the diagonal: columns span what rows span */
    int dim;          /* of the points, 1 to 3; 0: none, the order is kept */
    const double *at; /* host: coordinates at[dim i + d] of row (and column) i */
    const void
        *detail; /* what only one kind of format knows, by its own header (lattices, tables) */
    /* Rows i0 .. i0 + ni, columns j0 .. j0 + nj into a. */
    moao_status (*block)(void *from, moao_backend_ctx *ctx, moao_backend_type t, int64_t i0,
                         int64_t ni, int64_t j0, int64_t nj, void *a, int64_t lda);
    /* Many blocks at lists of rows and columns. */
    moao_status (*gather)(void *from, moao_backend_ctx *ctx, moao_backend_type t,
                          const moao_hier_blocks *blocks);
    /* The same between points that are no rows: indices into coordinates x[dim i + d] (backend's
     * memory); NULL where entries are no function of coordinates. */
    moao_status (*values)(void *from, moao_backend_ctx *ctx, moao_backend_type t, const double *x,
                          const moao_hier_blocks *blocks);
    /* Y := A X, n columns; NULL where there is none. trans T: A transposed. */
    moao_status (*times)(void *from, moao_backend_ctx *ctx, moao_backend_type t, char trans,
                         int64_t n, const void *x, int64_t ldx, void *y, int64_t ldy);
    /* H2: how far clusters are apart whose points lie in the boxes a and b (coordinates low[3],
     * high[3]), in units of the mean of their diameters; the same for (b, a). NULL: the boxes'
     * distance is what counts. Host; asked while the format is opened. */
    double (*apart)(void *from, const double *low_a, const double *high_a, const double *low_b,
                    const double *high_b);
} moao_hier_source;

typedef struct {
    moao_hier_kind kind;
    moao_backend_type type; /* of the format's numbers: D or S */
    bool half;              /* products in FP16 where the format has them */
    double tol;             /* HSS, H2: absolute error of an entry (rms) that is aimed at */
    int leaf;               /* rows of a leaf at most; 0: the format's choice */
    int rank;               /* largest rank; 0: the format's choice */
    int samples;            /* HSS from products: first number of samples; 0: from entries */
    uint64_t seed;
    double eta; /* H2: clusters are apart when their distance is at least eta times the mean of
                   their diameters; 0: 1 */
    bool
        mean_split; /* H2: nodes are cut at the mean of their points, not into leaves of one size */
    bool lean;      /* HSS: the tree alone, even where all entries would be few (moao_hier_apply) */
    int order;      /* H2: Chebyshev nodes a dimension; 0: bases from sampled entries, to tol */
    int verify;     /* HSS, H2 from sampled entries: rows that are compared with the source
                       (moao_hier_open);     0: all up to 2,048 rows, beyond 2^22 / rows of them, 32 at
                       least
                     */
    int together; /* HSS: levels of the tree that products by few columns take at once; 0: on a CPU
                     one, elsewhere the format's choice */
} moao_hier_options;

typedef struct {
    moao_hier_kind kind;
    int64_t rows, cols;
    size_t bytes, bytes_dense_part; /* on the device now; of these in dense blocks */
    double flops;                   /* of a product with one vector */
    int rank_mean, rank_max, levels;
    double error, worst; /* of an entry: rms and largest by the last check, or rms by the comparison
                            at the last construction from samples; NaN: unknown */
    double rcond; /* HSS: reciprocal condition that moao_hier_factor has estimated; NaN before */
    const int64_t *order; /* [rows] host: row of the source of each row; NULL: the source's order */
} moao_hier_info;

typedef struct moao_hier moao_hier;

/* Bytes on the device that a format will take at most, and in *most_work those in use while it is
 * made; host only. */
MOAO_PUBLIC moao_status moao_hier_bytes(const moao_backend *be, const moao_hier_source *s,
                                        const moao_hier_options *o, size_t *bytes,
                                        size_t *most_work);
/* MOAO_MEMORY: the rank that the tolerance needs is beyond the bound, or sampled entries do not
 * tell the matrix (use MOAO_HIER_DENSE and say so); MOAO_NUMERIC: a coordinate or an entry is not
 * finite; MOAO_INPUT: the kind cannot be made of this source. *out is NULL on failure;
 * moao_hier_close(NULL) is fine. be and ctx must outlive the format.
 *
 * HSS, and H2 with options.order = 0: sampled entries do not see everything. So the format is
 * compared with rows of the source (options.verify) by products with 8 random vectors. Where a
 * row's error has a norm of more than 2 tol sqrt(columns), it is made anew with twice as many
 * samples and with the entries that were wrong, up to four times; what is wrong then is refused. Of
 * the rows compared, one with 10 times that error passes with a probability below 2e-7. Where not
 * all rows are compared, wrong rows that are a part p of all are missed with (1 - p)^(rows
 * compared), at most. */
MOAO_PUBLIC moao_status moao_hier_open(const moao_backend *be, moao_backend_ctx *ctx,
                                       const moao_hier_source *s, const moao_hier_options *o,
                                       moao_hier **out);
/* Other values of the same shape (points, groups): another profile. Fails as moao_hier_open. After
 * a load, or a compression, that has failed the format holds no matrix (MOAO_INPUT where one is
 * asked for) until the next load. */
MOAO_PUBLIC moao_status moao_hier_load(moao_hier *f, const moao_hier_source *s);
MOAO_PUBLIC void moao_hier_close(moao_hier *f);

/* Bytes of work for apply with so many vectors. */
MOAO_PUBLIC size_t moao_hier_workspace(const moao_hier *f, char side, int64_t nvec);
/* Y := alpha op(A) X + beta Y (side L; X and Y of nvec columns) or alpha X op(A) + beta Y (side R;
 * nvec rows). part 'A': A; 'H' (symmetric only): any A_h with A_h + A_h' = A, where only Y + Y' of
 * something is used. X and Y are of the format's type (half: X as the kind says), rows in the
 * format's order; beta = 0 does not read Y. An HSS matrix of up to 1,536 rows keeps all entries as
 * well, unless it is to be lean, and multiplies with them where that is faster. */
MOAO_PUBLIC moao_status moao_hier_apply(const moao_hier *f, char side, char trans, char part,
                                        int64_t nvec, double alpha, const void *x, int64_t ldx,
                                        double beta, void *y, int64_t ldy, void *work,
                                        size_t lwork);

/* A product in two calls, for an X that is multiplied again after other values have been loaded:
 * moao_hier_keep puts what a product needs of X transformed (Toeplitz: its spectrum) into `kept`,
 * moao_hier_kept_bytes bytes of the backend's memory; moao_hier_apply_kept is moao_hier_apply for
 * the same X, side and nvec, bit for bit, and reads from X only what is not kept. Kinds that
 * transform nothing keep nothing: 0 bytes, and the product is moao_hier_apply's. MOAO_INPUT: `kept`
 * or work is too small. Work as for moao_hier_apply. */
MOAO_PUBLIC size_t moao_hier_kept_bytes(const moao_hier *f, int64_t nvec);
MOAO_PUBLIC moao_status moao_hier_keep(const moao_hier *f, char side, int64_t nvec, const void *x,
                                       int64_t ldx, void *kept, size_t lkept, void *work,
                                       size_t lwork);
MOAO_PUBLIC moao_status moao_hier_apply_kept(const moao_hier *f, char side, char trans, char part,
                                             int64_t nvec, double alpha, const void *kept,
                                             size_t lkept, const void *x, int64_t ldx, double beta,
                                             void *y, int64_t ldy, void *work, size_t lwork);

/* `samples` random rows of the source in double precision against those of the format: the rms
 * error of an entry (unbiased in its square) and the worst one seen; both recorded in
 * moao_hier_describe. MOAO_NUMERIC: a coordinate, or an entry of either, is not finite. */
MOAO_PUBLIC moao_status moao_hier_check(moao_hier *f, const moao_hier_source *s, int samples,
                                        uint64_t seed, double *rms, double *worst);

/* HSS: factor of A + shift I, and X := op(A + shift I)^-1 X. MOAO_INPUT for kinds without one.
 * moao_hier_factor estimates the reciprocal condition in the 1-norm (moao_hier_info.rcond; nearly
 * always within a factor of 9, by at most 11 products and 11 solves with one vector) and refuses
 * with MOAO_NUMERIC what is below 4 units of rounding of the format's type: singular. */
MOAO_PUBLIC moao_status moao_hier_factor(moao_hier *f, double shift);
MOAO_PUBLIC size_t moao_hier_solve_workspace(const moao_hier *f, int64_t nvec);
MOAO_PUBLIC moao_status moao_hier_solve(const moao_hier *f, char trans, int64_t nvec, void *x,
                                        int64_t ldx, void *work, size_t lwork);

/* H2, HSS: bases cut anew at tol, relative to the whole matrix. weights 'N': singular values of the
 * bases alone (those of HSS are orthonormal, so that nothing of them is cut), 'W': weighted by the
 * couplings. samples > 0: randomized SVD of so many samples. A factor has to be made anew; all
 * entries of a small HSS matrix (moao_hier_apply) stay. */
MOAO_PUBLIC moao_status moao_hier_compress(moao_hier *f, double tol, char weights, int samples);

/* H2: C := alpha A + beta B, a new matrix in A's context, compressed at tol as moao_hier_compress
 * with weights 'W' (0: not at all, ranks add up). A and B have the same type, points, leaves and
 * pairs of clusters, as matrices of several kernels at the same points have; a compressed one may
 * be added to one that is not. The error is that of both matrices and tol times the norm of the
 * sum. MOAO_MEMORY: ranks of a node that are together above 512: compress before. *out is NULL on
 * failure. */
MOAO_PUBLIC moao_status moao_hier_add(double alpha, const moao_hier *a, double beta,
                                      const moao_hier *b, double tol, moao_hier **out);

MOAO_PUBLIC void moao_hier_describe(const moao_hier *f, moao_hier_info *info);

/* Every block of the matrix in the format's order: rows row .. row + rows, columns col .. col +
 * cols, of that rank; rank -1: dense. For pictures and statistics; kinds without blocks have none.
 */
typedef void moao_hier_part(void *arg, int64_t row, int64_t rows, int64_t col, int64_t cols,
                            int rank);
MOAO_PUBLIC void moao_hier_parts(const moao_hier *f, moao_hier_part *part, void *arg);

/* A source of a kernel's entries at points: at[dim i + d], n of them (the array is borrowed). */
MOAO_PUBLIC moao_status moao_hier_points_open(const moao_backend *be, moao_backend_ctx *ctx,
                                              moao_hier_kernel kernel, double length, int dim,
                                              int64_t n, const double *at, moao_hier_source *s);
MOAO_PUBLIC void moao_hier_points_close(moao_hier_source *s);

#ifdef __cplusplus
}
#endif
#endif
