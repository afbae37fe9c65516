/* Block-Toeplitz products on a GPU: the plan, and what its kernels and their callers (toeplitz.cu)
 * share.
 *
 * Two vectors are real and imaginary part of one, a pair; P pairs at a time go through all stages,
 * and pairs lie innermost in every array, so that all accesses are to runs of T pairs. Lattices are
 * never stored with the zeros around them: `half` holds them transformed along y, for the n places
 * along x only, [ky][image][x][pair]. Where shared memory has room for the lines ky of all images
 * of a few pairs (toeplitz_middle.cu), these are transformed along x, coupled at each frequency and
 * transformed back at once, in their place. Else `full` and `coupled` are them wholly transformed,
 * [ky][kx][image][pair], so that the coupling of images is a product of small matrices. */
#ifndef MOAO_GPU_TOEPLITZ_CUH
#define MOAO_GPU_TOEPLITZ_CUH

#include "gpu/core/error.cuh"
#include "moao/backend_toeplitz.h"
#include <cuda_runtime.h>

#define TOEPLITZ_PAIRS 512 /* at a time */
#define TOEPLITZ_WHOLE 128 /* and where whole spectra are in memory */

struct toeplitz_steps {
    int order, n, radix[16]; /* n >= 2 */
};

/* What is added to the columns of an image: diagonal[i] times row i of image `row`. */
struct toeplitz_diagonal {
    int row;
    const double *value;
};

/* A plan as kernels see it; all arrays on the device. */
struct toeplitz_device {
    toeplitz_steps steps, small; /* small: those of lines whose transforms are seldom */
    int n, g, lanes;             /* places along a side, images, T of lines */
    bool by_row;                 /* symbols are [row image][column image] instead */
    int gp;                      /* g up to an even number */
    int64_t symbols;             /* numbers of a frequency, >= g gp */
    const int *at;               /* [g][x][y] row of the image at each place, -1: none */
    const int64_t *first;
    const void *twiddle;       /* [order] complex */
    void *symbol;              /* [ky][kx][column image g][row image gp] */
    const int *diagonals_from; /* [2][g + 1]: of X A, of X A' */
    const toeplitz_diagonal *diagonals;
};

/* Of lines of all images in one block: pairs at a time (0: there is no room), images of symbols,
 * numbers from one first step to the next, of a line and from one image to the next. */
struct toeplitz_middle {
    int lanes, images, pitch, rows, step;
};

/* A product of some pairs. */
struct toeplitz_job {
    int64_t nvec, first; /* vectors of the call; the first one of these pairs */
    int64_t pairs;       /* stride P of the arrays */
    double alpha, beta;
    bool turned, fp16; /* halves: X is of FP16 numbers, Y of floats */
    const void *x;
    void *y;
    int64_t xv, xc, yv, yc; /* steps from vector to vector and from column to column */
    void *half, *full, *coupled;
    const void *kept; /* what half was before it was coupled, or NULL: it is in half */
};

/* Largest T that shared memory has room for, 0: none; s: the small steps. */
int toeplitz_lanes(backend_type t, const toeplitz_steps *s);
toeplitz_middle toeplitz_middle_of(backend_type t, const toeplitz_steps *s, int g);
/* Spectra of the pairs of images (on the device). half: at frequencies k + 1/2 in both directions
 * instead of k. */
status toeplitz_spectra(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                        const toeplitz_pair *pairs, bool half);
/* x to half; half to full; coupled to half; half to y, with the diagonals. */
status toeplitz_forward(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                        const toeplitz_job *q);
status toeplitz_along(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                      const toeplitz_job *q);
status toeplitz_back(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                     const toeplitz_job *q);
status toeplitz_backward(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                         const toeplitz_job *q);
/* half to half, all that is between; kept to half. */
status toeplitz_couple(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                       const toeplitz_middle *m, const toeplitz_job *q);
status toeplitz_couple_kept(cudaStream_t stream, backend_type t, const toeplitz_device *d,
                            const toeplitz_middle *m, const toeplitz_job *q);

#endif
