/* Covariances of slopes on a GPU: what the kernels (matcov_kernels.cu) and their callers
 * (matcov.cu) share. */
#ifndef MOAO_GPU_MATCOV_CUH
#define MOAO_GPU_MATCOV_CUH

#include "backend/backend_matcov.h"
#include "gpu/core/capability.h"
#include <cuda_runtime.h>

/* Table of the scale-free structure functions: polynomials on 2^bits intervals of each octave of
 * the squared separation s, found from the bits of s. The kernels are bound by loads from shared
 * memory (with 16 bytes for a lane at the least 4 cycles each), so `quads` such loads get all
 * coefficients. For that they share words:
 *
 * doubles = 1: c0 with 32 bits of mantissa, c1 and c2 as floats, c3 with 11 bits;
 *
 * doubles = N: c0 .. c(N-4); c(N-3), c(N-2) and c(N-1) with 36, 32 and 24 bits; two floats.
 *
 * Conversions between float and double are slow too, and there are none: the leading `doubles`
 * terms, in powers of the position m within the interval, and the last ones, in powers of m as a
 * float (if doubles = 1, of 2^bits m), are summed apart; what the floats add is smaller than the
 * rest by more than a float's digits.
 *
 * The last interval also takes what lies beyond; the first is 0. The low octave is so far below any
 * subaperture that D is nothing there, the high one above 10,000 km. */
template <int BITS, int DOUBLES> struct gpu_shape {
    enum {
        bits = BITS,
        doubles = DOUBLES,
        terms = DOUBLES == 1 ? 4 : DOUBLES + 2,
        quads = DOUBLES == 1 ? 1 : DOUBLES / 2,
        octaves = 112,
        first = -64, /* exponent of the smallest s */
        intervals = octaves << BITS,
        shift = 20 - BITS, /* of the upper word of s, which leaves exponent and interval */
        lowest = (1023 + first) << BITS
    };
    uint4 quad[quads][intervals];
};
/* Largest error relative to the function: 1e-8, 1.3e-12 and 1.3e-14. */
using gpu_shape_coarse = gpu_shape<4, 1>;
using gpu_shape_fine = gpu_shape<4, 4>;
using gpu_shape_finest = gpu_shape<4, 6>;

/* Tables of von Karman's and Kolmogorov's function. */
struct gpu_structure {
    gpu_shape_coarse coarse[2];
    gpu_shape_fine fine[2];
    gpu_shape_finest finest[2];
};

/* Layers in the order in which they are kept. Where structure functions grow no more than
 * GPU_COV_GROWTH times from one subaperture on, results of type D take the fine and those of type S
 * the coarse table; the others, all of Kolmogorov's among them, where differences of large values
 * remain, a step finer. */
enum { GPU_COV_FLAT, GPU_COV_STEEP, GPU_COV_KOLMOGOROV, GPU_COV_CLASSES };
#define GPU_COV_GROWTH 100.0

struct gpu_cov_layer {
    double h, kappa, coef, drift[2];
    bool twin; /* of a difference: the next one has the same altitude and outer scale */
};

/* Edge points in two orders: GPU_COV_ROWS along the rows of the pupil, so that a range of slopes
 * needs a range of them, and GPU_COV_PATCHES by patches of 2 x 4 points: shared memory serves 8
 * threads at a time, and the separations of a patch from another point mostly lie in neighbouring
 * intervals of the table. */
enum { GPU_COV_ROWS, GPU_COV_PATCHES };
#define GPU_COV_PATCH_X 2
#define GPU_COV_PATCH_Y 4

/* Lists by order and axis. */
struct gpu_cov_sensor {
    double size, cos_rot, sin_rot, shift[2], altitude, dir[2];
    const int2 *place;     /* [nsub] ix, iy */
    const double2 *centre; /* [nsub] registered [m] */
    const int *patch;      /* [nsub] all of them, by patches of 8 x 4 */
    matcov_outline outline;
    int phase_class; /* of mean gradients with the phase at a point, or -1 */
    const int *minus[2][2], *plus[2][2];
    const double2 *edge[2][2];
};

/* A table of a like pair: value[kind][...], kind = axis of the first + 2 axis of the second. */
struct gpu_cov_table {
    int first, second, steps[2], n, origin;
    double *value;
};

/* Where the truth sensor looks; its number among the sensors. */
struct gpu_cov_set_direction {
    int sensor;
    bool drifts;
    double dir[2];
};

/* Part of one axis of two sensors: slopes rk .. rk + nr of sensor rs, ck .. ck + nc of sensor cs,
 * at (row, col) of the block. block0: the first thread block that works on it, in each of the two
 * kinds of launch. */
struct gpu_cov_job {
    short rs, cs;
    char ra, ca, order; /* axes; order of the rows' edge points */
    bool own, reversed;
    int rk, nr, ck, nc;
    int re, ce, nre, nce; /* first edge point and number of them */
    int table, block0, eblock0;
    int64_t row, col;
    size_t sums; /* where its sums between edge points are, [nce][nre] */
    double tiptilt;
};
#define GPU_COV_JOBS 32

/* The structure function between all edge points of the jobs, summed over layers. */
struct gpu_cov_edges {
    int njob, from[GPU_COV_CLASSES + 1]; /* layers of each class: from[c] .. from[c + 1] */
    const gpu_cov_sensor *sensors;
    const gpu_cov_layer *layers;
    const gpu_structure *structure;
    double *sums;
    gpu_cov_set_direction aim;
    const double *px, *py; /* not NULL: points of the pupil in place of the rows' edge points */
    gpu_cov_job job[GPU_COV_JOBS];
};

/* The entries of the jobs, from those sums or from tables of like pairs. */
struct gpu_cov_entries {
    int njob;
    char part;
    unsigned with;
    const gpu_cov_sensor *sensors;
    const gpu_cov_table *tables;
    const double *sums, *noise;
    void *a;
    int64_t lda, i0, j0;  /* of the block in the matrix */
    const int64_t *first; /* [sensors] number of the first subaperture, for the noise */
    gpu_cov_job job[GPU_COV_JOBS];
};

/* Launches, on `stream`; each sets the numbers of blocks in the jobs. */
status gpu_cov_fit(cudaStream_t stream, gpu_structure *structure);
/* pairs: of the tables; those of mean gradients are left out. */
struct gpu_cov_pair;
status gpu_cov_tabulate(cudaStream_t stream, const gpu_cov_table *tables, const gpu_cov_pair *pairs,
                        int ntable, int largest, const gpu_cov_edges *layers);
status gpu_cov_sum(cudaStream_t stream, backend_type t, gpu_cov_edges *p);
status gpu_cov_combine(cudaStream_t stream, backend_type t, gpu_cov_entries *p);
status gpu_cov_look_up(cudaStream_t stream, backend_type t, gpu_cov_entries *p);

#endif
