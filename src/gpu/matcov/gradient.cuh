/* Covariances of mean gradients on a GPU: tables in the device's memory, and kernels. */
#ifndef MOAO_GPU_MATCOV_GRADIENT_CUH
#define MOAO_GPU_MATCOV_GRADIENT_CUH

#include "matcov.cuh"
#include "matcov/gradient_formula.h"

/* The tables of a profile. The radial functions are there twice: of type double among the values,
 * and as floats, P and Q of an interval side by side. */
struct gpu_cov_gradients {
    int nlayer;                    /* all classes' layers, in the order of gpu_cov_layer */
    const matcov_gradient *tables; /* [tables] */
    const int *table;              /* [classes][nlayer] number of the tables, or -1 */
    const double *values;
    const float4 *radial; /* [tables][GRADIENT_INTERVALS][2] */
};

/* What a pair of sensors has of its class, rows first. */
struct gpu_cov_pair {
    int gradient;   /* class */
    bool swapped;   /* its first is the columns' sensor */
    int parts[2];   /* of a subaperture of the rows and of the columns */
    double step[2]; /* between them in the pupil [m] */
    double scale;   /* of an entry, per unit of a layer's coefficient */
};

/* Part of one axis of two sensors, as gpu_cov_job. */
struct gpu_cov_mean_job {
    short rs, cs;
    char ra, ca;
    int rk, nr, ck, nc, block0;
    int64_t row, col;
    gpu_cov_pair pair;
};

/* Entries of pairs that are not alike. */
struct gpu_cov_means {
    int njob;
    char part;
    const gpu_cov_sensor *sensors;
    const gpu_cov_layer *layers;
    gpu_cov_gradients gradients;
    gpu_cov_aim aim;
    void *a;
    int64_t lda, i0, j0;
    gpu_cov_mean_job job[GPU_COV_JOBS];
};

static_assert(sizeof(gpu_cov_means) <= 4096, "arguments of a kernel");

/* Launches, on `stream`. */
status gpu_cov_fill_means(cudaStream_t stream, backend_type t, gpu_cov_means *p);
/* Tables of like pairs, of classes pairs[ntable]. */
status gpu_cov_tabulate_means(cudaStream_t stream, const gpu_cov_table *tables,
                              const gpu_cov_pair *pairs, int ntable, int largest,
                              const gpu_cov_means *p);

#endif
