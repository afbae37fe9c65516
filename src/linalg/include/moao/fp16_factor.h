/* A Cholesky factor L kept in split FP16 entry, and the rows of W = B (L L')^-1 by it: what
 * tensor cores do instead of two triangular solves in double precision. Works with the table of
 * any backend; local.
 *
 * L is cut into square tiles. A tile on the diagonal acts by its inverse, made in double precision
 * and split, in three products (hi hi, hi lo, lo hi: 22 bits); a tile off it in one (11 bits), or
 * in three where one would cost too much of the accuracy asked for. Sums are in single precision.
 * Which tiles these are follows from a sample of rows of B that is solved in double precision, and
 * is decided once for a factor, so that later solves are the same bit for bit whatever rows come
 * together.
 *
 * Memory: panel by panel (its columns from the panel's first row on) the upper parts, then the
 * second ones: 2 m^2 bytes and a little, which may lie where L lay. */
#ifndef MOAO_FP16_FACTOR_H
#define MOAO_FP16_FACTOR_H

#include "fp16_gemm.h"

typedef struct {
    int64_t tile;    /* order of a tile */
    int64_t panel;   /* columns stored together, a multiple of the tile */
    int64_t depth;   /* largest inner size of a product, see MOAO_FP16_DEPTH */
    int64_t rows;    /* of B that are solved together */
    double accuracy; /* |B - W L L'| / |B| that single products may add up to (estimated, rms over
                        the sample); 0: three products everywhere */
} moao_fp16_factor_options;

/* What suits a GPU and m measurements. */
moao_fp16_factor_options moao_fp16_factor_defaults(int64_t m, int64_t rows, double accuracy);

typedef struct moao_fp16_factor moao_fp16_factor;

/* Bytes of the split FP16 parts of L. */
size_t moao_fp16_factor_bytes(int64_t m, const moao_fp16_factor_options *o);

/* For factors of order m, one after another. Takes memory on the device for the inverses: 4 m tile
 * bytes. close(NULL) is fine. */
moao_status moao_fp16_factor_open(const moao_backend *be, moao_backend_ctx *ctx, int64_t m,
                                  const moao_fp16_factor_options *o, moao_fp16_factor **f);
void moao_fp16_factor_close(moao_fp16_factor *f);

/* Some rows of a right-hand side and what they become, n x m in double precision on the device: B,
 * X = B L'^-1, W = X L^-1. All B to come are of one size: entries that are more than 32 times as
 * large as the largest here become infinite. */
typedef struct {
    int64_t n;
    const double *b;
    int64_t ldb;
    const double *x, *w;
    int64_t ld; /* of x and of w */
} moao_fp16_sample;

/* A factor that comes panel by panel, as from the host's memory: begin, each panel once in any
 * order, end. begin: bound: no entry of L is larger (the root of the largest variance); place:
 * moao_fp16_factor_bytes, used as long as the factor is; the sample must stay until end. panel:
 * columns from j on, a multiple of o->panel, as many as a panel has; l: in double precision, its
 * entry (j, j), what is above the diagonal is not used; work: moao_fp16_factor_panel_work bytes for
 * a sample of n rows. panel and end wait. *info: 0; k > 0: the k-th diagonal entry of L is 0; -1:
 * an entry of L or of the sample is not finite, or far over the bound. Then there is no factor. */
moao_status moao_fp16_factor_begin(moao_fp16_factor *f, double bound,
                                   const moao_fp16_sample *sample, void *place);
size_t moao_fp16_factor_panel_work(const moao_fp16_factor *f, int64_t n);
moao_status moao_fp16_factor_panel(moao_fp16_factor *f, int64_t j, const double *l, int64_t ldl,
                                   void *work, size_t lwork);
moao_status moao_fp16_factor_end(moao_fp16_factor *f, int *info);

/* All of it from a factor in the lower triangle of l and n rows of B. place may be l itself, or
 * NULL: the parts then lie within the lower triangle of l, and what is above the blocks of
 * o->panel columns on the diagonal is not touched; L is lost in both cases. work:
 * moao_fp16_factor_make_work bytes. */
size_t moao_fp16_factor_make_work(const moao_fp16_factor *f, int64_t n);
moao_status moao_fp16_factor_make(moao_fp16_factor *f, double *l, int64_t ldl, int64_t n,
                                  const double *b, int64_t ldb, void *place, void *work,
                                  size_t lwork, int *info);

/* Bytes of work for a solve. */
size_t moao_fp16_factor_solve_work(const moao_fp16_factor *f);

/* Choose the tiles anew, for another accuracy. */
moao_status moao_fp16_factor_choose(moao_fp16_factor *f, double accuracy);
/* Another largest inner size of products. */
void moao_fp16_factor_pieces(moao_fp16_factor *f, int64_t depth);

/* In stream order: b, n x m in single precision, becomes W; w: its FP16 parts too, n x m each,
 * 2^moao_fp16_factor_exponent times W. NaN and infinite entries stay in their rows. work:
 * moao_fp16_factor_solve_work bytes. */
moao_status moao_fp16_factor_solve(moao_fp16_factor *f, int64_t n, float *b, int64_t ldb,
                                   moao_backend_f16 *hi, moao_backend_f16 *lo, int64_t ldw,
                                   void *work, size_t lwork);
int moao_fp16_factor_exponent(const moao_fp16_factor *f);

/* Share of the operations off the diagonal that are made in three products; operations on tensor
 * cores of a solve of n rows. Both after moao_fp16_factor_make. */
double moao_fp16_factor_share(const moao_fp16_factor *f);
double moao_fp16_factor_flops(const moao_fp16_factor *f, int64_t n);
/* Is tile (i, j), i > j, in three products in solve 0 (with L') or 1 (with L)? */
bool moao_fp16_factor_three(const moao_fp16_factor *f, int solve, int64_t i, int64_t j);

#endif
