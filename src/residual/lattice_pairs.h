/* Groups of sensors on a common lattice, whose covariances depend on differences of indices only,
 * and products of W with them by Fourier transforms (linalg/include/moao/backend_toeplitz.h): exact
 * up to rounding, at a small part of the work of dense ones. */
#ifndef MOAO_LATTICE_PAIRS_H
#define MOAO_LATTICE_PAIRS_H

#include "engine/engine.h"
#include "moao/backend_toeplitz.h"

typedef struct {
    int nsensor, *sensor; /* in the order of the system */
    int pitch;            /* subapertures across of the lattice that they share */
    toeplitz_shape shape; /* two images of each sensor: x slopes, y slopes */
    backend_toeplitz_plan *plan;
} lattice_pairs_group;

/* What partly lit subapertures change of a group's products: T + T' of T = G/2 + E is Cmm, with the
 * lattices' G and E, the rows of the group's outlined slopes with all of its slopes. */
typedef struct {
    int *n;           /* [sensors] outlined slopes */
    int64_t most;     /* of them, of a group; X in FP16: its leading dimension is even */
    int64_t *columns; /* their numbers, sensor after sensor, on the device */
    void *e;          /* group after group, 2^exponent times, leading dimensions a multiple of 8 */
    float *staging;   /* a block of two sensors in FP32, before it is cast to FP16 */
    void *taken;      /* columns of X */
    int exponent;
} lattice_pairs_outlines;

typedef struct lattice_pairs {
    int ngroup;
    bool difference;
    toeplitz_type type;
    lattice_pairs_outlines outlines;
    lattice_pairs_group *group;
    int *of;             /* [sensors] group of each */
    toeplitz_pair *pair; /* of the largest group */
} lattice_pairs;

/* Local. The groups of a system, without plans; every sensor is in one. difference: the values to
 * come are those of differences of profiles. close: fine on {0}. */
status lattice_pairs_init(const sys *s, bool difference, lattice_pairs *a);
/* Local. Plans for products in type t, with X of nvec rows at most, on the engine's device. close
 * frees all. */
status lattice_pairs_open(engine *e, toeplitz_type t, int64_t nvec, lattice_pairs *a);
void lattice_pairs_close(engine *e, lattice_pairs *a);

/* Bytes on a device, or on the host as one, of plans and of the work of products with so many rows
 * of W, at most; no device is needed. */
size_t lattice_pairs_bytes(const sys *s, const lattice_pairs *a, toeplitz_type t, int64_t rows,
                           bool host);
size_t lattice_pairs_workspace(const engine *e, const lattice_pairs *a, int64_t nvec);

/* Local. Values of the profile loaded, noise included, tip-tilt constants not; HALF: entries are
 * below 2^-exponent times the largest half. */
status lattice_pairs_load(engine *e, int exponent, lattice_pairs *a);
/* Local. Y := alpha X (C + A) + beta Y, C the blocks of Cmm of sensors of one group, A
 * antisymmetric (where subapertures are partly lit, else 0), so that X Y' + Y X' is that of C; X
 * and Y nvec x m, of the plans' type, HALF: Y in single precision. */
status lattice_pairs_apply(engine *e, lattice_pairs *a, int64_t nvec, double alpha, const void *x,
                           int64_t ldx, double beta, void *y, int64_t ldy);

/* The covariances of other sensors, each pair once: columns j .. j + n of Cmm, of one sensor and
 * one panel, with rows row .. row + rows, of sensors whose groups come after that sensor's. In
 * pieces by increasing j; block number k has room from number `at` on, for its transpose with
 * leading dimension ld, a multiple of 8. */
typedef struct {
    int64_t j, n, row, rows, ld, at;
} lattice_pairs_piece;

/* Local. *numbers: of all pieces together. pieces NULL: only that. */
status lattice_pairs_pieces(const sys *s, const lattice_pairs *a, int64_t width, int *count,
                            lattice_pairs_piece **pieces, int64_t *numbers);

/* The same covariances in blocks of whole sensors, so that both axes of two subapertures come from
 * one evaluation: columns j .. j + n of one sensor with rows row .. row + rows of others, at most
 * `room` numbers, unless one sensor's rows are more. begin with {0}; false: there is no other. */
typedef struct {
    int sensor, next; /* of the columns; of the rows that follow */
    int64_t j, n, row, rows;
} lattice_pairs_block;

bool lattice_pairs_next_block(const sys *s, const lattice_pairs *a, int64_t room,
                              lattice_pairs_block *b);

#endif
