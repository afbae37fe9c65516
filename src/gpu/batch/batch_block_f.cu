/* The kernels for orders 33 to 128, float. */
#include "batch_block.cuh"

namespace batch {

template <> status launch_block<float>(int op, const Args<float> &a, int n_max, cudaStream_t s) {
    switch (op) {
    case FACTOR:
        return block_start<float, FACTOR>(a, n_max, s);
    case INVERT:
        return block_start<float, INVERT>(a, n_max, s);
    case SQUARE:
        return block_start<float, SQUARE>(a, n_max, s);
    case INVERT | SQUARE:
        return block_start<float, INVERT | SQUARE>(a, n_max, s);
    case FACTOR | INVERT | SQUARE:
        return block_start<float, FACTOR | INVERT | SQUARE>(a, n_max, s);
    case FORWARD:
        return block_start<float, FORWARD>(a, n_max, s);
    case BACKWARD:
        return block_start<float, BACKWARD>(a, n_max, s);
    case FORWARD | BACKWARD:
        return block_start<float, FORWARD | BACKWARD>(a, n_max, s);
    case MULTIPLY:
        return block_start<float, MULTIPLY>(a, n_max, s);
    default:
        return gpu_no_kernel();
    }
}

} // namespace batch
