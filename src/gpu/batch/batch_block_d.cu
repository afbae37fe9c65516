/* The kernels for orders 33 to 128, double. */
#include "batch_block.cuh"

namespace batch {

template <> status launch_block<double>(int op, const Args<double> &a, int n_max, cudaStream_t s) {
    switch (op) {
    case FACTOR:
        return block_start<double, FACTOR>(a, n_max, s);
    case INVERT:
        return block_start<double, INVERT>(a, n_max, s);
    case SQUARE:
        return block_start<double, SQUARE>(a, n_max, s);
    case INVERT | SQUARE:
        return block_start<double, INVERT | SQUARE>(a, n_max, s);
    case FACTOR | INVERT | SQUARE:
        return block_start<double, FACTOR | INVERT | SQUARE>(a, n_max, s);
    case FORWARD:
        return block_start<double, FORWARD>(a, n_max, s);
    case BACKWARD:
        return block_start<double, BACKWARD>(a, n_max, s);
    case FORWARD | BACKWARD:
        return block_start<double, FORWARD | BACKWARD>(a, n_max, s);
    default:
        return gpu_no_kernel();
    }
}

} // namespace batch
