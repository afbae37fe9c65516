/* QR of matrices that fit a grid of threads. */
#include "qr_grid_kernel.cuh"

namespace lowrank {

template <>
status launch_qr_grid<REAL>(int op, const QrWarpArgs<REAL> &a, int64_t rows, int64_t cols,
                            cudaStream_t s, bool *served) {
    return start_grid_shape<REAL>(op, a, rows, cols, s, served);
}

} // namespace lowrank
