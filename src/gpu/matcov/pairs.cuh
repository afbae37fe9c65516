/* Covariances of differences of profiles in single precision, both axes of both sensors at once:
 * tables in the device's memory, and the launch (pairs.cu). */
#ifndef MOAO_GPU_MATCOV_PAIRS_CUH
#define MOAO_GPU_MATCOV_PAIRS_CUH

#include "gradient.cuh"

/* Derivatives of a scale-free structure function B of the squared separation s, on 2^RADIAL_BITS
 * intervals of each octave from 2^RADIAL_FIRST on: 2 B' and 4 B'' as straight lines in the
 * mantissa, and 24 B''' and 16 B'''' as numbers of 16 bits (the upper half of a float), which are
 * small corrections where they count. Near zero separation B itself, cubics on 2^RADIAL_NEAR_BITS
 * intervals. */
#define RADIAL_BITS 6
#define RADIAL_FIRST (-26)
#define RADIAL_OCTAVES 40
#define RADIAL_INTERVALS (RADIAL_OCTAVES << RADIAL_BITS)
#define RADIAL_NEAR_BITS 4
#define RADIAL_NEAR_FIRST (-30)
#define RADIAL_NEAR_INTERVALS (40 << RADIAL_NEAR_BITS)
struct gpu_radial {
    float4 line[RADIAL_INTERVALS];
    unsigned high[RADIAL_INTERVALS];
    float4 near[RADIAL_NEAR_INTERVALS];
};

/* Intervals that a block holds at most. */
#define RADIAL_MOST 1024

/* Of slopes that are differences between points, in root mean square sizes of two footprints on a
 * layer: closer than this exactly, by B; the expansion is within 4e-5 of the slope variance there.
 */
#define RADIAL_NEAR 6.0f
/* Further apart than this two layers of the same altitude and outer scale, of which one drifts by a
 * little, are one and its first derivative. */
#define RADIAL_MIDDLE 12.0f
/* Further apart than this terms of the fourth order are left out, which are below 4e-5 of it, or,
 * with the phase at a point, 2e-5 of the covariance. */
#define RADIAL_PLAIN 20.0f
#define RADIAL_PLAIN_PHASE 56.0f

/* One job: all that it needs. near, plain: squared, in mean squares of the two sizes. */
struct gpu_cov_pairs {
    const gpu_cov_sensor *sensors;
    const gpu_cov_layer *layers;
    const gpu_radial *radial; /* von Karman's and Kolmogorov's */
    gpu_cov_gradients gradients;
    gpu_cov_set_direction aim;
    int nlayer, from[2], low[2],
        count[2];                         /* Kolmogorov's layers are the last: from[1]; intervals */
    const double *px, *py;                /* the points, where job.rows = 0 */
    const double2 *row_place, *col_place; /* not NULL: positions in place of subapertures [m] */
    float near, middle, plain;
    float to_fp16; /* not 0: a is of FP16 numbers of so many times the entries */
    bool all_cols; /* of their sensor */
    void *a;
    int64_t lda;
    gpu_cov_mean_job job;
};

/* Launches, on `stream`: the tables (of both functions), and a job, both axes of the columns and of
 * the rows, or points (job.rows = 0). means: slopes are mean gradients. */
status gpu_cov_fit_radial(cudaStream_t stream, gpu_radial *radial);
status gpu_cov_fill_pairs(cudaStream_t stream, const gpu_cov_pairs *p, bool means);

#endif
