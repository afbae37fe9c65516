/* Block-Toeplitz products in FP16: transforms as products with matrices of cosines and sines on
 * the tensor cores, at frequencies k + 1/2, 0 <= k < N: none is its own opposite, and N - 1 - k is
 * that of k, so that the real lines along y need the first N / 2 of them, and those along x have
 * the same four products for two. With frequencies of half a step the other side of the lattice has
 * its sign changed, which a product never sees.
 *
 * Vectors lie innermost by eights. lines [v / 8][image][ky][re, im][x][v % 8], 0 <= ky < N / 2, x
 * up to a multiple of 4: X transformed along y. A block of the second kernel takes the lines ky of
 * all images of eight vectors along x, couples the images at each frequency, and back, in their
 * place; the third one makes columns of Y of them. */
#ifndef MOAO_GPU_TOEPLITZ_FP16_CUH
#define MOAO_GPU_TOEPLITZ_FP16_CUH

#include "gpu/core/error.cuh"
#include "moao/backend_toeplitz.h"
#include "toeplitz.cuh"
#include <cuda_fp16.h>

#define TOEPLITZ_VECTORS 2048 /* at a time */
/* Frequencies |k + 1/2| below this along both axes carry nearly all of a covariance: what halves
 * round off their symbols, the same for all vectors, would shift its variances by up to 2e-4. They
 * have a second half. */
#define TOEPLITZ_LOW 16

struct toeplitz_fp16 {
    int n, g, N;
    /* on the device */
    const int *at;        /* [g][y][x] row of the image at each place, -1: none */
    const int64_t *first; /* [g] */
    /* matrices of the transforms: along y in fragments; along x rows of 8 numbers, [frequencies]
     * [places][cosines, sines][8 x 8] */
    uint4 *to_y, *along_x, *from_y;
    __half2 *wave; /* [N / 2][n] cosine and sine at k + 1/2, of which these are made */
    uint4 *symbol; /* [ky][k][frequency k, N - 1 - k][re, im] fragment: column c of row r */
    uint4 *rest;  /* what these leave of ky, k < TOEPLITZ_LOW (or all, if fewer), in the same way */
    float *scale; /* largest number of the spectra, then 1 / scale of the symbols */
};

/* Tiles of 16 numbers of a line. */
__host__ __device__ static inline int toeplitz_tiles(int n) {
    return (n + 15) / 16;
}

/* How many of the N / 2 frequencies of a line are low. */
__host__ __device__ static inline int toeplitz_low(int N) {
    return N / 2 < TOEPLITZ_LOW ? N / 2 : TOEPLITZ_LOW;
}

/* Whether there is room for lattices of n x n of g images. */
bool toeplitz_fp16_fits(int n, int g);
/* Numbers of 16 bytes of the arrays of a plan. */
size_t toeplitz_fp16_along_y(int n, int N);
size_t toeplitz_fp16_along_x(int n, int N);
size_t toeplitz_fp16_symbol(int N);
size_t toeplitz_fp16_rest(int N);

/* Matrices of the transforms, into device memory. */
status toeplitz_fp16_tables(cudaStream_t stream, const toeplitz_fp16 *h);
/* Couplings from spectra [ky][kx][column image g][row image gp], `stride` complex numbers of each
 * frequency. */
status toeplitz_fp16_symbols(cudaStream_t stream, const toeplitz_fp16 *h, const float2 *spectra,
                             int gp, int64_t stride);
size_t toeplitz_fp16_work(const toeplitz_fp16 *h, int64_t nvec);
/* Bytes of the lines of so many vectors, and these of X. */
size_t toeplitz_fp16_kept(const toeplitz_fp16 *h, int64_t nvec);
status toeplitz_fp16_keep(cudaStream_t stream, const toeplitz_fp16 *h, int64_t nvec,
                          const __half *x, int64_t ldx, uint4 *lines);
/* Y := alpha X A + beta Y, X in FP16; diagonals as in toeplitz.cuh. kept: lines of X, or NULL. */
status toeplitz_fp16_apply(cudaStream_t stream, const toeplitz_fp16 *h, const int *diagonals_from,
                           const toeplitz_diagonal *diagonals, int64_t nvec, float alpha,
                           const uint4 *kept, const __half *x, int64_t ldx, float beta, float *y,
                           int64_t ldy, char *work);

#endif
