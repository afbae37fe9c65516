/* QR of tall matrices by their Gram matrices, in single precision. */
#include "qr_gram_kernel.cuh"

namespace lowrank {

template <>
status launch_qr_gram<float>(int op, const QrWarpArgs<float> &a, int64_t cols, cudaStream_t s) {
    return start_gram<float>(op, a, cols, s);
}

} // namespace lowrank
