/* QR of matrices that fit a grid of threads, in single precision. */
#include "qr_grid_kernel.cuh"

namespace lowrank {

template <>
status launch_qr_grid<float>(int op, const QrWarpArgs<float> &a, int64_t rows, int64_t cols,
                             cudaStream_t s) {
    return start_grid_shape<float>(op, a, rows, cols, s);
}

} // namespace lowrank
