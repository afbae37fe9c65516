/* The kernels for orders up to 32, double. */
#include "batch_warp.cuh"

namespace batch {

template <> status launch_warp<double>(int op, const Args<double> &a, int n_max, cudaStream_t s) {
    switch (op) {
    case FACTOR:
        return warp_start<double, 8, FACTOR>(a, s); /* above: the factor kernel */
    case INVERT:
        return warp_pick<double, INVERT>(a, n_max, s);
    case SQUARE:
        return warp_pick<double, SQUARE>(a, n_max, s);
    case INVERT | SQUARE:
        return warp_pick<double, INVERT | SQUARE>(a, n_max, s);
    case FACTOR | INVERT | SQUARE:
        return warp_start<double, 8, FACTOR | INVERT | SQUARE>(a, s);
    case FORWARD:
        return warp_pick<double, FORWARD>(a, n_max, s);
    case BACKWARD:
        return warp_pick<double, BACKWARD>(a, n_max, s);
    case FORWARD | BACKWARD:
        return warp_pick<double, FORWARD | BACKWARD>(a, n_max, s);
    case FACTOR | FORWARD | BACKWARD:
        return warp_pick<double, FACTOR | FORWARD | BACKWARD>(a, n_max, s);
    case MULTIPLY:
        return warp_pick<double, MULTIPLY>(a, n_max, s);
    default:
        return gpu_no_kernel();
    }
}

template <> status launch_syrk_warp<double>(const GemmArgs<double> &a, int n_max, cudaStream_t s) {
    return n_max <= 8    ? syrk_start<double, 8>(a, s)
           : n_max <= 16 ? syrk_start<double, 16>(a, s)
                         : syrk_start<double, 32>(a, s);
}

} // namespace batch
