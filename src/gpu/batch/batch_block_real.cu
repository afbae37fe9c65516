/* The kernels for orders 33 to 128. */
#include "batch_block.cuh"

namespace batch {

/* In double precision these products are by another kernel. */
template <class T> static status multiply(const Args<T> &a, int n_max, cudaStream_t s) {
    if constexpr (sizeof(T) == sizeof(float))
        return block_start<T, MULTIPLY>(a, n_max, s);
    else
        return gpu_no_kernel();
}

template <> status launch_block<REAL>(int op, const Args<REAL> &a, int n_max, cudaStream_t s) {
    switch (op) {
    case FACTOR:
        return block_start<REAL, FACTOR>(a, n_max, s);
    case INVERT:
        return block_start<REAL, INVERT>(a, n_max, s);
    case SQUARE:
        return block_start<REAL, SQUARE>(a, n_max, s);
    case INVERT | SQUARE:
        return block_start<REAL, INVERT | SQUARE>(a, n_max, s);
    case FACTOR | INVERT | SQUARE:
        return block_start<REAL, FACTOR | INVERT | SQUARE>(a, n_max, s);
    case FORWARD:
        return block_start<REAL, FORWARD>(a, n_max, s);
    case BACKWARD:
        return block_start<REAL, BACKWARD>(a, n_max, s);
    case FORWARD | BACKWARD:
        return block_start<REAL, FORWARD | BACKWARD>(a, n_max, s);
    case MULTIPLY:
        return multiply<REAL>(a, n_max, s);
    default:
        return gpu_no_kernel();
    }
}

} // namespace batch
