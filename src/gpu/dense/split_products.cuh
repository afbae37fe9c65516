/* Many products in several terms: what the kernels share that make them. */
#ifndef MOAO_GPU_SPLIT_PRODUCTS_CUH
#define MOAO_GPU_SPLIT_PRODUCTS_CUH

#include "moao/backend_split.h"
#include "split_fp16.cuh"

/* Where results go: to C (add: where there are numbers), or to H, of whose entries each is 2^*of_h
 * times what is added to C. */
typedef struct {
    float *c;
    __half *h;
    const int32_t *of_h;
    const split_place *place;
    bool add;
    int64_t ld, cols; /* of C or H; of C alone */
} split_target;

/* The scale of a segment. */
__device__ inline float split_scale(const split_segment &g, const int32_t *exponent) {
    return g.scale * split_power(-exponent[g.of]) *
           (g.of_b < 0 ? 1 : split_power(-exponent[g.of_b]));
}

/* split_hopper.cu; *served: whether the device and the operands' places allow it. */
extern "C" status split_hopper(backend_ctx *ctx, const split_products *p, const split_target *to,
                               bool *served);

#endif
