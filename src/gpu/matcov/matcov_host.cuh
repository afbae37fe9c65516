/* What the callers of the covariance kernels share: memory (matcov_memory.cu), profiles and targets
 * (matcov.cu), and blocks cut into jobs (matcov_block.cu). */
#ifndef MOAO_GPU_MATCOV_HOST_CUH
#define MOAO_GPU_MATCOV_HOST_CUH

#include "backend/families.h"
#include "gpu/core/common.cuh"
#include "gradient.cuh"
#include "matcov.cuh"
#include "outline.cuh"
#include "pairs.cuh"

/* Host copy of what cuts a block into jobs. */
struct host_sensor {
    int nssp, nsub, nedge[2];
    const int *minus[2], *plus[2];
    int phase_class;           /* of mean gradients with the phase at a point, or -1 */
    double size, rot;          /* of a subaperture [m]; [rad] */
    double altitude, shift[2]; /* of the star; registration, in the sensor's axes [m] */
    double dir[2];             /* [rad] */
    int noutline, nkept;       /* outlines, those of a difference of profiles, */
    const int *outline;        /* of these subapertures, in order */
    double reach;              /* no point of a subaperture is further from the axis [m] */
};

struct pair_list {
    int ntable, largest, nsecond;
    matcov_table *tables;
    matcov_link *links;
};

/* Tables of mean gradients: the classes' geometry, and where the rest is in the staging buffer. */
struct host_gradients {
    int nclass;
    matcov_class *classes;                      /* without their layers' tables */
    size_t tables_room, values_room, tables_at; /* they are the last of the staging buffer */
    long serial;                                /* of those on the device; 0: none */
    matcov_gradient *tables;
    int *table;
    double *values;
    int lowest;   /* of all tables, */
    double near2; /* and that table's */
};

struct backend_cov {
    backend_cov_head head;
    backend_ctx *ctx;
    int nsensor, room, from[GPU_COV_CLASSES + 1];
    int64_t m, t;
    host_sensor *host; /* [nsensor + 1] */
    double *tiptilt;   /* [nsensor] */
    pair_list list[MATCOV_LISTS];
    char *device, *staging; /* the staging buffer mirrors the beginning of the device's memory */
    size_t profile_at, profile_bytes;
    gpu_cov_layer *layers_host;
    double highest, drift; /* of the layers [m] */
    bool difference;       /* of two profiles */
    double *noise_host;
    host_gradients means;
    cudaEvent_t sent; /* the last transfer from the staging buffer is over */
    /* on the device */
    gpu_cov_sensor *sensors;
    gpu_cov_table *tables; /* of Cmm, then of Ctt */
    gpu_cov_layer *layers;
    int64_t *first;
    double *noise, *sums;
    gpu_structure *structure;
    gpu_radial *radial; /* of both functions */
    size_t nsums;
    gpu_cov_gradients gradients;
    gpu_cov_pair *pairs; /* of the tables */
    gpu_surface surface; /* where the sums are, until they are used */
};

struct backend_cov_target {
    backend_cov_target_head head;
    backend_cov *c;
    gpu_cov_set_direction aim;
    bool aimed;
    char *device;
    gpu_cov_table *tables;
    gpu_cov_pair *pairs;
};

/* Bytes that a profile and a target take on the device. */
size_t gpu_cov_bytes(const matcov_model *m);
size_t gpu_cov_target_bytes(const matcov_model *m);
/* Takes memory for the model, fills and sends the geometry, and fits the structure functions. */
status gpu_cov_build(backend_cov *c, const matcov_model *m);
void gpu_cov_release(backend_cov *c);
/* Takes the memory of a target's tables and describes them there; may wait. */
status gpu_cov_build_target(backend_cov_target *t);

/* What the kernels need of the layers, for a truth sensor aimed so. */
gpu_cov_edges gpu_cov_edges_of(const backend_cov *c, const gpu_cov_set_direction *aim);

/* The same for mean gradients; and what a pair has of class `gradient`. */
gpu_cov_means gpu_cov_means_of(const backend_cov *c, const gpu_cov_set_direction *aim);
/* By how much points on a layer can be further apart than in the pupil [m]. */
double gpu_cov_field(const backend_cov *c, const gpu_cov_set_direction *aim);
/* A job of p in single precision by interpolation, where that is possible and worth it. */
status gpu_cov_by_surface(backend_cov *c, const gpu_cov_means *p, const gpu_cov_mean_job *job,
                          bool *done);
/* A job of p, of all axes, of a difference in single precision, by expansions (pairs.cu), where
 * they serve; slopes may be differences between points (job->pair.gradient = -1). No two points are
 * further apart than `reach` in the pupil [m]. */
status gpu_cov_by_pairs(backend_cov *c, const gpu_cov_means *p, const gpu_cov_mean_job *job,
                        double reach, bool *done);
/* No two points of the pupil, or of a subaperture and one of them, are further apart [m]. */
double gpu_cov_reach(const backend_cov *c, bool points);
/* Launch the jobs of p, of one number of axes, and empty it. */
status gpu_cov_flush_means(backend_cov *c, backend_type t, gpu_cov_means *p);
gpu_cov_pair gpu_cov_pair_of(const backend_cov *c, int gradient, bool swapped);

/* Outlines (outline_block.cu). Jobs gathered for a block, of the two kinds of launch. */
struct gpu_cov_outlines {
    backend_type type;
    gpu_outlines whole, both;
};
gpu_cov_outlines gpu_cov_outlines_of(const backend_cov *c, const gpu_cov_set_direction *aim,
                                     backend_type t);
/* A pair of sides of the block; tables: NULL, or those of the list. */
status gpu_cov_add_outlines(backend_cov *c, gpu_cov_outlines *p, const gpu_outline_side *rows,
                            const gpu_outline_side *cols, matcov_link link,
                            const gpu_cov_table *tables);
status gpu_cov_flush_outlines(backend_cov *c, gpu_cov_outlines *p);
/* A job of points, or of edge points of a sensor, that is done; scale: of a phase and of a slope
 * over 1 m. */
status gpu_cov_outline_points(backend_cov *c, const gpu_cov_means *p, backend_type t, double scale);
/* The operation `outlined`. */
status gpu_cov_outlined(backend_cov *c, const gpu_cov_set_direction *aim, backend_type t, int a,
                        int b, void *e, int64_t lde);

/* Covariances of the phase at points with slopes (phase.cu). */
status gpu_cov_fill_phase(backend_cov *c, const gpu_cov_set_direction *aim, backend_type t,
                          matcov_points at, int64_t j0, int64_t nj, void *a, int64_t lda);
status gpu_cov_fill_phase_both(backend_cov *c, const gpu_cov_set_direction *aim, backend_type t,
                               matcov_points at, matcov_slopes k, void *a, int64_t lda);
/* Of a difference in FP16 of to_fp16 times the entries, if there is a way. */
status gpu_cov_fill_phase_fp16(backend_cov *c, const gpu_cov_set_direction *aim, matcov_points at,
                               matcov_slopes k, float to_fp16, void *a, int64_t lda, bool *done);
/* A job of slopes between points and mean gradients: done at once, by way of `sums`. */
status gpu_cov_fill_mixed(backend_cov *c, const gpu_cov_set_direction *aim, backend_type t,
                          const gpu_cov_entries *p, const gpu_cov_job *job);
/* The truth sensor's slopes with those of a sensor; _single: in floats, or in FP16 of to_fp16 times
 * the entries (where that is not 0), if there is a way. */
status gpu_cov_fill_single(backend_cov *c, const gpu_cov_set_direction *aim, matcov_slopes k,
                           float to_fp16, void *a, int64_t lda, bool *done);
status gpu_cov_fill_both(backend_cov *c, const gpu_cov_set_direction *aim,
                         const gpu_cov_table *tables, backend_type t, matcov_slopes k, void *a,
                         int64_t lda);
status gpu_cov_fill(backend_cov *c, int list, const gpu_cov_set_direction *aim,
                    const gpu_cov_table *tables, backend_type t, char part, unsigned with,
                    matcov_region g, void *a, int64_t lda);

#endif
