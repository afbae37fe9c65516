/* Block-Toeplitz products on a GPU: the plan, and what its kernels (toeplitz_kernels.cu) and their
 * callers (toeplitz.cu) share.
 *
 * Two vectors are real and imaginary part of one, a pair; P pairs at a time go through all stages,
 * and pairs lie innermost in every array, so that all accesses are to runs of T pairs. A block of
 * threads transforms T pairs along one line of a lattice in shared memory. Lattices are never
 * stored with the zeros around them: `half` holds them transformed along y, for the n places along
 * x only, [ky][image][x][pair], `full` and `coupled` wholly transformed, [ky][kx][image][pair], so
 * that the coupling of images is a product of small matrices for each frequency. */
#ifndef MOAO_GPU_TOEPLITZ_CUH
#define MOAO_GPU_TOEPLITZ_CUH

#include "backend/backend_toeplitz.h"
#include "gpu/core/error.cuh"
#include <cuda_runtime.h>

#define TOEPLITZ_PAIRS 128 /* at a time */

struct toeplitz_steps {
    int order, n, radix[16];
};

/* What is added to the columns of an image: diagonal[i] times row i of image `row`. */
struct toeplitz_diagonal {
    int row;
    const double *value;
};

/* A plan as kernels see it; all arrays on the device. */
struct toeplitz_device {
    toeplitz_steps steps;
    int n, g, lanes;      /* places along a side, images, T */
    int64_t symbols;      /* numbers of a frequency, >= g^2 */
    const int *start, *y; /* rows of an image by x, as on the CPU */
    const int64_t *column, *first;
    const void *twiddle;       /* [order] complex */
    void *symbol;              /* [ky][kx][column image][row image] */
    const int *diagonals_from; /* [2][g + 1]: of X A, of X A' */
    const toeplitz_diagonal *diagonals;
};

/* A product of some pairs. */
struct toeplitz_job {
    int64_t nvec, first; /* vectors of the call; the first one of these pairs */
    int64_t pairs;       /* stride P of the arrays */
    double alpha, beta;
    bool turned;
    const void *x;
    void *y;
    int64_t xv, xc, yv, yc; /* steps from vector to vector and from column to column */
    void *half, *full, *coupled;
};

/* Largest T that shared memory has room for, 0: none. */
int toeplitz_lanes(backend_type t, int order);
/* Spectra of the pairs of images (on the device). */
status toeplitz_spectra(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                        const toeplitz_pair *pairs);
/* x to full; coupled to y, with the diagonals. */
status toeplitz_forward(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                        const toeplitz_job *q);
status toeplitz_backward(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                         const toeplitz_job *q);

#endif
