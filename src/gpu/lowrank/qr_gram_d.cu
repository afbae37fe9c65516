/* QR of tall matrices by their Gram matrices, in double precision. */
#include "qr_gram_kernel.cuh"

namespace lowrank {

template <>
status launch_qr_gram<double>(int op, const QrWarpArgs<double> &a, int64_t cols, cudaStream_t s) {
    return start_gram<double>(op, a, cols, s);
}

} // namespace lowrank
