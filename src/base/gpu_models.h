/* The GPUs that forecasts know: what cannot be asked of a device that is not there. */
#ifndef MOAO_GPU_MODELS_H
#define MOAO_GPU_MODELS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name;
    int major, minor;        /* compute capability */
    double memory;           /* as sold [GB] */
    double fp64;             /* largest rate, of tensor cores where they have it [Tflop/s], */
    double fp64_vector;      /* without them */
    double fp32, fp16, int8; /* FP16 and INT8 of tensor cores, dense, sums in FP32 and INT32 */
    double bandwidth;        /* of its memory [GB/s] */
    int multiprocessors, l2; /* second-level cache [MB] */
} gpu_model;

/* The model of a name, the longest that is part of it or, failing that, of which it is part
 * ("4090"); letter case and blanks do not matter. NULL: none, or several. */
const gpu_model *gpu_model_find(const char *name);
/* The model of a device by what a backend says of it: its name, up to the first bracket or comma.
 */
const gpu_model *gpu_model_of_device(const char *described);
/* All of them, in the order of the table; NULL after the last one. */
const gpu_model *gpu_model_at(size_t i);
/* The one that rates of forecasts were measured on. */
const gpu_model *gpu_model_reference(void);

/* Shared memory that a thread block may have [bytes]. */
size_t gpu_model_shared(const gpu_model *g);
/* Bytes that a program can have of its memory. */
double gpu_model_usable(const gpu_model *g);
/* Whether packages of moao have machine code, or intermediate code, for it (GPU_ARCH=all). */
bool gpu_model_serves(const gpu_model *g);

/* Rates that linear algebra of a run reaches, from those measured on the reference in proportion to
 * the largest ones of both; exact for the reference. */
double gpu_model_rate(const gpu_model *g);          /* dgemm [flop/s] */
double gpu_model_fp16_exposure(const gpu_model *g); /* products in FP16 of it, in units of dgemm */
double gpu_model_fp16_solve(const gpu_model *g);    /* and of W in split FP16 */
/* Whether products of bytes, eight for one, are faster than its double precision. */
bool gpu_model_integer_pays(const gpu_model *g);
double gpu_model_integers(const gpu_model *g); /* products in double precision by integers */
double gpu_model_threads(const gpu_model *g);  /* threads of a CPU whose evaluations it replaces */
double gpu_model_fp32_entries(const gpu_model *g); /* and how much faster in FP32 */

#endif
