/* Many products in several terms: what the kernels share that make them. */
#ifndef MOAO_GPU_TERMS_PRODUCTS_CUH
#define MOAO_GPU_TERMS_PRODUCTS_CUH

#include "backend/backend_terms.h"
#include "terms_halves.cuh"

/* Where results go: to C, or as halves to H. */
typedef struct {
    float *c;
    __half *h;
    const terms_place *place;
    int64_t ld;
} terms_target;

/* terms_hopper.cu; *served: whether the device and the operands' places allow it. */
extern "C" status terms_hopper(backend_ctx *ctx, const terms_products *p, const terms_target *to,
                               bool *served);

#endif
