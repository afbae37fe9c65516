/* The kernels for orders up to 32, float. */
#include "batch_warp.cuh"

namespace batch {

template <> status launch_warp<float>(int op, const Args<float> &a, int n_max, cudaStream_t s) {
    switch (op) {
    case FACTOR:
        return warp_pick<float, FACTOR>(a, n_max, s);
    case INVERT:
        return warp_pick<float, INVERT>(a, n_max, s);
    case SQUARE:
        return warp_pick<float, SQUARE>(a, n_max, s);
    case INVERT | SQUARE:
        return warp_pick<float, INVERT | SQUARE>(a, n_max, s);
    case FACTOR | INVERT | SQUARE:
        return warp_pick<float, FACTOR | INVERT | SQUARE>(a, n_max, s);
    case FORWARD:
        return warp_pick<float, FORWARD>(a, n_max, s);
    case BACKWARD:
        return warp_pick<float, BACKWARD>(a, n_max, s);
    case FORWARD | BACKWARD:
        return warp_pick<float, FORWARD | BACKWARD>(a, n_max, s);
    case FACTOR | FORWARD | BACKWARD:
        return warp_pick<float, FACTOR | FORWARD | BACKWARD>(a, n_max, s);
    case MULTIPLY:
        return warp_pick<float, MULTIPLY>(a, n_max, s);
    default:
        return gpu_no_kernel();
    }
}

template <> status launch_syrk_warp<float>(const GemmArgs<float> &a, int n_max, cudaStream_t s) {
    return n_max <= 8    ? syrk_start<float, 8>(a, s)
           : n_max <= 16 ? syrk_start<float, 16>(a, s)
                         : syrk_start<float, 32>(a, s);
}

} // namespace batch
