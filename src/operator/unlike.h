/* Products of W with the covariances of unlike sensors (operator/alike.h) in halves, by tiles of
 * low rank that the backend's batched compression makes: U V' of each block of neighbouring
 * subapertures of one sensor with those of another. U is orthonormal, so that W U needs no scale of
 * its own. With products of like sensors by Fourier transforms, W times a difference of
 * covariances. */
#ifndef MOAO_UNLIKE_H
#define MOAO_UNLIKE_H

#include "backend/backend_half.h"
#include "operator/alike.h"
#include "tlr/tlr.h"

/* Columns of one sensor w with the rows of all sensors of later groups. The columns of U lie by
 * tiles of rows and then of columns of the matrix, those of V by tiles of columns and then of rows.
 */
typedef struct {
    int sensor;
    int64_t nin, nout, rows; /* tiles of rows, of columns; rows of all tiles */
    int64_t *in, out;        /* [nin] numbers of the tiles of rows; of the first one of columns */
    int64_t *ucol, *vcol;    /* [nin + 1], [nout + 1] columns of U and of V before each tile's */
    backend_f16 *u, *v;      /* step x columns each */
    int64_t *to;             /* on the device: column of V of each column of U */
} unlike_block;

typedef struct {
    engine *e;
    tlr_layout order;           /* tiles of near subapertures of one sensor */
    int64_t *first;             /* [sensors + 1] measurements before each */
    int64_t step, most;         /* leading dimension of U and V; largest rank that is not dense */
    int64_t *place, *at, *back; /* [m] on the device: measurement of each of the order, counted from
                                   its sensor's first; inverse of the order, of all measurements and
                                   counted from the sensor's first */
    int nblock;
    unlike_block *block;
    int exponent;                /* of V */
    int64_t tiles, dense, ranks; /* after load: all, those that are dense, sum of the ranks */
    void *work;                  /* of products */
    size_t lwork;
} unlike;

/* Local. Tiles of about `tile` measurements of the sensors of a, which is borrowed while open runs.
 * close: fine on {0}. */
status unlike_open(engine *e, const alike *a, int64_t tile, unlike *u);
void unlike_close(unlike *u);
/* Local. Waits. Covariances of the profile loaded, without noise and tip-tilt constants, entries
 * with a root mean square error of at most rms; none is larger than bound (both [arcsec^2]). */
status unlike_load(unlike *u, double rms, double bound);
/* Local. Y := Y + alpha X C, C the blocks of Cmm of rows of sensors of later groups with columns of
 * earlier ones: each pair once; X in halves, none larger than 2^15, Y in single precision, both
 * nvec x m. Allocates where nvec is larger than before. */
status unlike_apply(unlike *u, int64_t nvec, double alpha, const backend_f16 *x, int64_t ldx,
                    float *y, int64_t ldy);

#endif
