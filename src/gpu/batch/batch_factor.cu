/* The factor kernels for orders up to 64, double. */
#include "batch_factor.cuh"

namespace batch {

template <int OP> static status factor_pick(const Args<double> &a, int n_max, cudaStream_t s) {
    return n_max <= 16   ? factor_start<16, OP>(a, s)
           : n_max <= 32 ? factor_start<32, OP>(a, s)
                         : factor_start<64, OP>(a, s);
}

/* Which orders come here: batch.cu. */
status launch_factor(int op, const Args<double> &a, int n_max, cudaStream_t s) {
    switch (op) {
    case FACTOR: /* no right-hand side */
    case FACTOR | FORWARD | BACKWARD:
        return factor_pick<FACTOR | FORWARD | BACKWARD>(a, n_max, s);
    case FACTOR | INVERT | SQUARE:
        return factor_pick<FACTOR | INVERT | SQUARE>(a, n_max, s);
    case SQUARE:
        return factor_start<64, SQUARE>(a, s);
    case INVERT | SQUARE:
        return factor_start<64, INVERT | SQUARE>(a, s);
    case FORWARD | BACKWARD:
        return n_max <= 32 ? factor_start<32, FORWARD | BACKWARD>(a, s)
                           : factor_start<64, FORWARD | BACKWARD>(a, s);
    default:
        return gpu_no_kernel();
    }
}

} // namespace batch
