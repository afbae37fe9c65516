/* The kernels for orders up to 32. */
#include "batch_warp.cuh"

namespace batch {

/* In double precision orders above 8 are factored by another kernel (batch_factor.cu). */
template <class T, int OP> static status factored(const Args<T> &a, int n_max, cudaStream_t s) {
    if constexpr (sizeof(T) == sizeof(double))
        return warp_start<T, 8, OP>(a, s);
    else
        return warp_pick<T, OP>(a, n_max, s);
}

template <> status launch_warp<REAL>(int op, const Args<REAL> &a, int n_max, cudaStream_t s) {
    switch (op) {
    case FACTOR:
        return factored<REAL, FACTOR>(a, n_max, s);
    case INVERT:
        return warp_pick<REAL, INVERT>(a, n_max, s);
    case SQUARE:
        return warp_pick<REAL, SQUARE>(a, n_max, s);
    case INVERT | SQUARE:
        return warp_pick<REAL, INVERT | SQUARE>(a, n_max, s);
    case FACTOR | INVERT | SQUARE:
        return factored<REAL, FACTOR | INVERT | SQUARE>(a, n_max, s);
    case FORWARD:
        return warp_pick<REAL, FORWARD>(a, n_max, s);
    case BACKWARD:
        return warp_pick<REAL, BACKWARD>(a, n_max, s);
    case FORWARD | BACKWARD:
        return warp_pick<REAL, FORWARD | BACKWARD>(a, n_max, s);
    case FACTOR | FORWARD | BACKWARD:
        return warp_pick<REAL, FACTOR | FORWARD | BACKWARD>(a, n_max, s);
    case MULTIPLY:
        return warp_pick<REAL, MULTIPLY>(a, n_max, s);
    default:
        return gpu_no_kernel();
    }
}

template <> status launch_syrk_warp<REAL>(const GemmArgs<REAL> &a, int n_max, cudaStream_t s) {
    return n_max <= 8    ? syrk_start<REAL, 8>(a, s)
           : n_max <= 16 ? syrk_start<REAL, 16>(a, s)
                         : syrk_start<REAL, 32>(a, s);
}

} // namespace batch
