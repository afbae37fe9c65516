/* QR of tall matrices by their Gram matrices. */
#include "qr_gram_kernel.cuh"

namespace lowrank {

template <>
status launch_qr_gram<REAL>(int op, const QrWarpArgs<REAL> &a, int64_t cols, cudaStream_t s) {
    return start_gram<REAL>(op, a, cols, s);
}

} // namespace lowrank
