/* What partly lit subapertures change of covariances of mean gradients: kernels (outline.cu). Model
 * section 4. */
#ifndef MOAO_GPU_MATCOV_OUTLINE_CUH
#define MOAO_GPU_MATCOV_OUTLINE_CUH

#include "gradient.cuh"

struct gpu_radial;

/* Slopes of a sensor in a block: subaperture k of an axis is in row or column at[axis] + k; where
 * an axis is not in the block, its range is empty. */
struct gpu_outline_side {
    short sensor;
    int k0[2], k1[2]; /* by axis */
    int64_t at[2];
};

/* Outlines o0 .. o0 + no of sensor `one`, in the rows (`down`) or the columns, with the other side,
 * of which kb .. kb + nb are subapertures, or outlines where `both`. table: of the lattice of the
 * two sensors, NULL where the entries are those of squares at centroids already. */
struct gpu_outline_job {
    gpu_outline_side one, other;
    bool down, reversed;
    int o0, no, kb, nb;
    gpu_cov_pair pair; /* `one` first */
    const gpu_cov_table *table;
};
#define GPU_OUTLINE_JOBS 12

struct gpu_outlines {
    int njob, nlayer, kolmogorov; /* layers; the first of Kolmogorov's */
    const gpu_cov_sensor *sensors;
    const gpu_cov_layer *layers;
    const gpu_structure *structure;
    const gpu_radial *radial; /* of a difference of profiles, else NULL */
    gpu_cov_gradients gradients;
    gpu_cov_set_direction aim;
    char part;
    float to_fp16;   /* not 0: a is in FP16, of so many times the entries */
    bool half;       /* entries of two outlines count half, */
    bool moments;    /* second moments beyond the outlines' reach */
    bool compact;    /* and rows are outlines, not subapertures */
    bool difference; /* of profiles: nearly whole subapertures are left out */
    void *a;
    int64_t lda, i0, j0;
    gpu_outline_job job[GPU_OUTLINE_JOBS];
};

/* Outlines o0 .. o0 + no of a sensor, in columns col[axis] + k of one axis or both, with np points
 * of the pupil, or (sensor >= 0) edge points of an axis of that sensor. */
struct gpu_outline_points {
    int nlayer, kolmogorov;
    const gpu_cov_sensor *sensors;
    const gpu_cov_layer *layers;
    const gpu_structure *structure;
    const gpu_radial *radial; /* of a difference of profiles, else NULL */
    gpu_cov_gradients gradients;
    gpu_cov_set_direction aim;
    const double *px, *py;
    short one, sensor;
    char axis;             /* of the edge points */
    bool wanted[2];        /* axes of the slopes */
    int o0, no, np, first; /* first: edge point */
    bool difference;       /* as above */
    double scale;          /* of a phase and of a slope over 1 m */
    float to_fp16;
    void *a;
    int64_t lda, col[2];
};

static_assert(sizeof(gpu_outlines) <= 4096, "arguments of a kernel");

/* Launches on `stream`: add to entries of type t (D, S, or S with to_fp16). both: of two outlines.
 */
status gpu_outline_add(cudaStream_t stream, backend_type t, const gpu_outlines *p, bool both);
status gpu_outline_add_points(cudaStream_t stream, backend_type t, const gpu_outline_points *p);

#endif
