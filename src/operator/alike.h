/* Groups of like sensors, whose covariances depend on differences of indices only, and products of
 * W with them by Fourier transforms (backend/backend_toeplitz.h): exact but for rounding, at a
 * small part of the work of dense ones. */
#ifndef MOAO_ALIKE_H
#define MOAO_ALIKE_H

#include "backend/backend_toeplitz.h"
#include "operator/engine.h"

typedef struct {
    int nsensor, *sensor; /* in the order of the system */
    int pitch;            /* subapertures across of the lattice that they share */
    toeplitz_shape shape; /* two images of each sensor: x slopes, y slopes */
    backend_toeplitz_plan *plan;
} alike_group;

typedef struct alike {
    int ngroup;
    alike_group *group;
    int *of;             /* [sensors] group of each */
    toeplitz_pair *pair; /* of the largest group */
} alike;

/* Local. The groups of a system, without plans; every sensor is in one. free: fine on {0}. */
status alike_init(const sys *s, alike *a);
/* Local. Plans for products in type t on the engine's device. close frees all. */
status alike_open(engine *e, toeplitz_type t, alike *a);
void alike_close(engine *e, alike *a);

/* Bytes on a device, or on the host as one, of plans and of the work of products with so many rows
 * of W, at most; no device is needed. */
size_t alike_bytes(const alike *a, toeplitz_type t, int64_t rows, bool host);
size_t alike_workspace(const engine *e, const alike *a, int64_t nvec);

/* Local. Values of the profile loaded, noise included, tip-tilt constants not. */
status alike_load(engine *e, alike *a);
/* Local. Y := alpha X C + beta Y, C the blocks of Cmm of sensors of one group; X and Y nvec x m, of
 * the plans' type. */
status alike_apply(engine *e, alike *a, int64_t nvec, double alpha, const void *x, int64_t ldx,
                   double beta, void *y, int64_t ldy);

/* The covariances of unlike sensors, each pair once: columns j .. j + n of Cmm, of one sensor and
 * one panel, with rows row .. row + rows, of sensors whose groups come after that sensor's. In
 * pieces by increasing j; block number k has room from number `at` on, for its transpose with
 * leading dimension ld, a multiple of 8. */
typedef struct {
    int64_t j, n, row, rows, ld, at;
} alike_piece;

/* Local. *numbers: of all pieces together. pieces NULL: only that. */
status alike_pieces(const sys *s, const alike *a, int64_t width, int *count, alike_piece **pieces,
                    int64_t *numbers);

#endif
