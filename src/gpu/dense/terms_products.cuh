/* Many products in several terms: what the kernels share that make them. */
#ifndef MOAO_GPU_TERMS_PRODUCTS_CUH
#define MOAO_GPU_TERMS_PRODUCTS_CUH

#include "backend/backend_terms.h"
#include "terms_halves.cuh"

/* Where results go: to C (add: where there are numbers), or to H, of whose entries each is 2^*of_h
 * times what is added to C. */
typedef struct {
    float *c;
    __half *h;
    const int32_t *of_h;
    const terms_place *place;
    bool add;
    int64_t ld, cols; /* of C or H; of C alone */
} terms_target;

/* The scale of a segment. */
__device__ inline float terms_scale(const terms_segment &g, const int32_t *exponent) {
    return g.scale * terms_power(-exponent[g.of]) *
           (g.of_b < 0 ? 1 : terms_power(-exponent[g.of_b]));
}

/* terms_hopper.cu; *served: whether the device and the operands' places allow it. */
extern "C" status terms_hopper(backend_ctx *ctx, const terms_products *p, const terms_target *to,
                               bool *served);

#endif
