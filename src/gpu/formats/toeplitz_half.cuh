/* Block-Toeplitz products in halves: transforms as products with matrices of cosines on the tensor
 * cores. V vectors at a time lie innermost in every array; ri: real and imaginary part.
 *
 * lattice [image][y][x][v]         halves of X, zero where there is no row
 * lines   [image][ky][ri][x][v]    transformed along y, 0 <= ky <= N/2
 * full    [image][ky][ri][kx][v]   and along x; coupled: the same after the coupling of images
 * lines, sums [image][y][x][v]     back again; the last one in single precision */
#ifndef MOAO_GPU_TOEPLITZ_HALF_CUH
#define MOAO_GPU_TOEPLITZ_HALF_CUH

#include "backend/backend_toeplitz.h"
#include "gpu/core/common.cuh"
#include <cuda_fp16.h>

#define TOEPLITZ_VECTORS 512 /* at a time */

struct toeplitz_halves {
    int n, g, N, K;           /* places along a side, images, order, N/2 + 1 */
    int nx;                   /* places along x in memory: a multiple of 4 */
    int order;                /* of a coupling in memory: 2 g up to a multiple of 16 */
    int64_t total;            /* rows of all images */
    int ldy, ldx, ldbx, ldby; /* leading dimensions of the four matrices */
    /* on the device */
    const int *at;                         /* [g][n n] row of the image at each place, -1: none */
    const int64_t *first;                  /* [g] */
    const int *image, *place;              /* [total] */
    const int64_t *column;                 /* [total] */
    __half *to_y, *to_x, *from_x, *from_y; /* matrices of the transforms */
    __half *symbol;                        /* [K][N][order][order]: column (r, ri) of row (c, ri) */
    float *scale; /* largest number of the spectra, then 1 / scale of the symbols */
};

/* Matrices of the transforms, into device memory. */
status toeplitz_half_tables(cudaStream_t stream, const toeplitz_halves *h);
/* Couplings from spectra [ky][kx][column image][row image] of `stride` complex numbers each. */
status toeplitz_half_symbols(cudaStream_t stream, const toeplitz_halves *h, const float2 *spectra,
                             int64_t stride);
size_t toeplitz_half_work(const toeplitz_halves *h, int64_t nvec);
/* Y := alpha X A + beta Y, X in halves; diagonals as in toeplitz.cuh. */
status toeplitz_half_apply(gpu_queue *q, const toeplitz_halves *h, const int *diagonals_from,
                           const struct toeplitz_diagonal *diagonals, int64_t nvec, float alpha,
                           const __half *x, int64_t ldx, float beta, float *y, int64_t ldy,
                           char *work);

#endif
