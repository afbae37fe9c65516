/* QR of matrices that fit a grid of threads, in double precision. */
#include "qr_grid_kernel.cuh"

namespace lowrank {

template <>
status launch_qr_grid<double>(int op, const QrWarpArgs<double> &a, int64_t rows, int64_t cols,
                              cudaStream_t s) {
    return start_grid_shape<double>(op, a, rows, cols, s);
}

} // namespace lowrank
