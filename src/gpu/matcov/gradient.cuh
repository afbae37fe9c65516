/* Covariances of mean gradients on a GPU: tables in the device's memory, and kernels. */
#ifndef MOAO_GPU_MATCOV_GRADIENT_CUH
#define MOAO_GPU_MATCOV_GRADIENT_CUH

#include "matcov.cuh"
#include "matcov/gradient_formula.h"

/* For results of type S the radial functions are straight lines in the mantissa of the squared
 * separation, on 2^GPU_LINE_BITS intervals of each octave: P = x + y m, Q = z + w m, 1 <= m < 1 +
 * 2^-GPU_LINE_BITS. They are within 2e-6 of the slope variance. */
#define GPU_LINE_BITS 6
#define GPU_LINES (GRADIENT_OCTAVES << GPU_LINE_BITS)

/* The tables of a profile, and what is made of them on the device: the values as floats and the
 * lines. */
struct gpu_cov_gradients {
    int nlayer;                    /* all classes' layers, in the order of gpu_cov_layer */
    const matcov_gradient *tables; /* [tables] */
    const int *table;              /* [classes][nlayer] number of the tables, or -1 */
    const double *values;
    float *floats; /* the grids, from gpu_floats_at of each table on; four numbers at each place, or
                      two of the phase */
    float4 *lines; /* [tables][GPU_LINES] */
};

static __host__ __device__ inline size_t gpu_floats_at(size_t near) {
    return (near / 3 + 1) * 4;
}

/* For differences of profiles in single precision the grids serve up to 0.7 times their radius:
 * beyond it the radial functions are within 4e-5 of the slope variance. */
#define GPU_NEAR 0.5f /* squared */

/* What a pair of sensors has of its class, rows first. */
struct gpu_cov_pair {
    int gradient;   /* class; -1: not of mean gradients */
    bool swapped;   /* its first is the columns' sensor */
    int parts[2];   /* of a subaperture of the rows and of the columns */
    double step[2]; /* between them in the pupil [m] */
    double scale;   /* of an entry, per unit of a layer's coefficient */
};

/* Slopes rk .. rk + nr of sensor rs with ck .. ck + nc of sensor cs, of `rows` and `cols` axes
 * each: one axis, ra or ca, or both; all of them from one evaluation. rows = 0: points in place of
 * the rows' slopes, of the pupil, or, where rs >= 0, edge points of axis ra of sensor rs. row, col:
 * where each axis is in the block. */
struct gpu_cov_mean_job {
    short rs, cs;
    char ra, ca, rows, cols;
    bool whole; /* all slopes of the rows' axes */
    int rk, nr, ck, nc, block0;
    int64_t row[2], col[2];
    gpu_cov_pair pair;
};

/* Jobs of one number of axes. */
struct gpu_cov_means {
    int njob;
    char part;
    const gpu_cov_sensor *sensors;
    const gpu_cov_layer *layers;
    gpu_cov_gradients gradients;
    gpu_cov_set_direction aim;
    const double *px, *py;                /* the points */
    const double2 *row_place, *col_place; /* not NULL: positions in place of subapertures and points
                                             [m] */
    double reach;                         /* no two points of the pupil are further apart [m] */
    float near;          /* by which the squared radius of the grids is multiplied, of type S */
    int intervals, deep; /* of the radial functions that are needed; layers held at a time */
    float to_fp16;       /* not 0: a is of FP16 numbers of so many times the entries */
    void *a;
    int64_t lda, i0, j0;
    gpu_cov_mean_job job[GPU_COV_JOBS];
};

static_assert(sizeof(gpu_cov_means) <= 4096, "arguments of a kernel");

struct host_gradients;
/* Of two sensors at infinity, or points and one, the sums over layers at all differences of their
 * positions (surface.cu). */
struct gpu_surface {
    bool made;
    int rs, cs;
    gpu_cov_set_direction aim;
    int n[2], cells[2], fold, planes; /* numbers; n / fold; steps of the rows' pitch */
    double pitch, base[2], first[2];  /* of the lattice; of the rows' first place [m] */
    float *value;                     /* [rows' axis + 2 columns' axis, or columns' axis][y][x] */
};

/* Launches, on `stream`. farthest: no two points on a layer are further apart [m]. */
status gpu_cov_fill_means(cudaStream_t stream, backend_type t, gpu_cov_means *p, double farthest,
                          const host_gradients *host);
/* Tables of like pairs, of classes pairs[ntable]. */
status gpu_cov_tabulate_means(cudaStream_t stream, const gpu_cov_table *tables,
                              const gpu_cov_pair *pairs, int ntable, int largest,
                              const gpu_cov_means *p);
/* What is made on the device of the tables sent last. */
status gpu_cov_convert(cudaStream_t stream, const gpu_cov_gradients *g, int ntable);

#endif
