/* Products with block-Toeplitz matrices of two levels by Fourier transforms. The conventions of
 * backend.h hold: column-major, int64_t sizes, work in the stream of the context; open and load may
 * allocate and wait, apply does neither.
 *
 * Rows and columns of the matrix belong to images, such as the slopes of one axis of a sensor; row
 * i of an image has a place on a lattice of n x n points that all images share, and an entry
 * depends on the images of row and column and on the difference of their places only. Places that
 * are not there (a pupil's corners) cost nothing but the lattice. A product transforms X image by
 * image on a lattice of N >= 2 n - 1, multiplies each frequency by a small matrix of all pairs of
 * images, and transforms back: exact up to rounding.
 *
 * Where the same X is multiplied by matrices of several loads, as a reconstructor is by the
 * covariances of its exposures, what a product needs of X alone can be kept: the same numbers, bit
 * for bit, for less work and much memory. */
#ifndef MOAO_BACKEND_TOEPLITZ_H
#define MOAO_BACKEND_TOEPLITZ_H

#include "backend_fp16.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Borrowed while open runs; on the host. */
typedef struct {
    int n, nimage;
    const int64_t *count;    /* [nimage] rows of each image */
    const int64_t *first;    /* [nimage] number of its first row and column in the matrix */
    const int *const *place; /* [nimage][count] iy n + ix, 0 <= ix, iy < n */
} moao_toeplitz_shape;

/* Entries of the rows of one image with the columns of another: that at places a and b has the
 * value[(y / step + origin) width + x / step + origin], (x, y) = a - b, or b - a if `reversed`;
 * differences that are no multiples of step do not occur. Where `diagonal` is not NULL, the images
 * have the same places, and rows and columns of the same number i have diagonal[i stride] added.
 * Numbers are doubles in the backend's memory. A GPU takes two such pairs of an image at most. */
typedef struct {
    const double *value; /* NULL: nothing */
    int step, width, origin;
    bool reversed;
    const double *diagonal;
    int64_t stride;
} moao_toeplitz_pair;

/* Numbers of a plan. HALF: X in FP16, Y and the values' spectra in single precision on the CPU;
 * on a GPU (up to 16 images and 80 places across; else it is as on the CPU) transforms are products
 * with matrices of FP16 numbers on tensor cores, whose relative error is about 1e-3, and exponents
 * are chosen for an X whose largest entries are near 2^15 and not equal all over the lattice: what
 * exceeds the range all the same becomes infinite or NaN in Y. */
typedef enum {
    MOAO_TOEPLITZ_D = MOAO_BACKEND_D,
    MOAO_TOEPLITZ_S = MOAO_BACKEND_S,
    MOAO_TOEPLITZ_FP16 = 16
} moao_toeplitz_type;

typedef struct moao_backend_toeplitz_plan moao_backend_toeplitz_plan;

typedef struct moao_backend_toeplitz {
    size_t size; /* sizeof(moao_backend_toeplitz) */

    /* Order N of the transforms of a lattice of n x n, and bytes that open takes. */
    int (*order)(int n);
    size_t (*bytes)(const moao_toeplitz_shape *s, moao_toeplitz_type t);

    /* A plan for products in type t; no values yet. close(NULL) is fine. */
    moao_status (*open)(moao_backend_ctx *ctx, const moao_toeplitz_shape *s, moao_toeplitz_type t,
                        moao_backend_toeplitz_plan **p);
    void (*close)(moao_backend_toeplitz_plan *p);
    /* pairs[r nimage + c]: image r of the rows with image c of the columns. Allocates nothing. */
    moao_status (*load)(moao_backend_toeplitz_plan *p, const moao_toeplitz_pair *pairs);

    /* Y := alpha X op(A) + beta Y (side R, X and Y with nvec rows) or alpha op(A) X + beta Y (side
     * L, nvec columns); trans N or T. Columns (side R) of X and Y, or their rows (side L), are
     * numbered as those of the matrix; those of no image are neither read nor written. X and Y are
     * different; HALF: side R and trans N only. Rows share transforms by pairs, so that bits depend
     * on their place in the call.
     */
    size_t (*workspace)(const moao_backend_toeplitz_plan *p, int64_t nvec);
    moao_status (*apply)(moao_backend_toeplitz_plan *p, char side, char trans, int64_t nvec,
                         double alpha, const void *x, int64_t ldx, double beta, void *y,
                         int64_t ldy, void *work, size_t lwork);

    /* The same in two calls, which give the bits of apply. keep writes what a product needs of X
     * transformed into `kept`, kept_bytes(p, nvec) bytes of the backend's memory, whatever is
     * loaded or loaded later: the whole spectrum on a CPU, lattices transformed along y on a GPU,
     * where they pass through memory. apply_kept multiplies it, for either trans; side, nvec and X
     * are those of keep, and X itself is read for the diagonals only. work is that of apply. */
    size_t (*kept_bytes)(const moao_backend_toeplitz_plan *p, int64_t nvec);
    moao_status (*keep)(moao_backend_toeplitz_plan *p, char side, int64_t nvec, const void *x,
                        int64_t ldx, void *kept, size_t lkept, void *work, size_t lwork);
    moao_status (*apply_kept)(moao_backend_toeplitz_plan *p, char side, char trans, int64_t nvec,
                              double alpha, const void *kept, size_t lkept, const void *x,
                              int64_t ldx, double beta, void *y, int64_t ldy, void *work,
                              size_t lwork);
} moao_backend_toeplitz;

/* Argument checks that every backend makes. */
static inline bool moao_toeplitz_shape_ok(const moao_toeplitz_shape *s, moao_toeplitz_type t) {
    bool fine = s->n >= 1 && s->n <= 16384 && s->nimage >= 0 && s->nimage <= 1024 &&
                (t == MOAO_TOEPLITZ_D || t == MOAO_TOEPLITZ_S || t == MOAO_TOEPLITZ_FP16);
    for (int i = 0; fine && i < s->nimage; i++) {
        fine = s->count[i] >= 0 && s->first[i] >= 0;
        for (int64_t k = 0; fine && k < s->count[i]; k++)
            fine = s->place[i][k] >= 0 && s->place[i][k] < s->n * s->n;
    }
    return fine;
}

static inline bool moao_toeplitz_values_ok(const moao_toeplitz_shape *s,
                                           const moao_toeplitz_pair *pairs) {
    bool fine = true;
    for (int i = 0; fine && i < s->nimage * s->nimage; i++)
        fine = (pairs[i].value == NULL || (pairs[i].step >= 1 && pairs[i].width >= 1)) &&
               (pairs[i].diagonal == NULL || s->count[i / s->nimage] == s->count[i % s->nimage]);
    return fine;
}

#ifdef __cplusplus
}
#endif
#endif
