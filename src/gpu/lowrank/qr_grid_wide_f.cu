/* QR of two blocks of columns, and products with reflectors, in single precision. */
#include "qr_grid_wide.cuh"

namespace lowrank {

template <> status launch_qr_twice<float>(int op, const QrWarpArgs<float> &a, cudaStream_t s) {
    return start_twice<float>(op, a, s);
}
template <> status launch_qr_apply<float>(const QrApply<float> &a, int64_t rows, cudaStream_t s) {
    return rows <= 256 ? start_apply<Grid<float, 32, 8, 8, 4>>(a, s)
                       : start_apply<Grid<float, 32, 16, 16, 2>>(a, s);
}

} // namespace lowrank
