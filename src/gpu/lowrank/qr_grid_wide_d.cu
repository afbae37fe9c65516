/* QR of two blocks of columns, and products with reflectors, in double precision. */
#include "qr_grid_wide.cuh"

namespace lowrank {

template <> status launch_qr_twice<double>(int op, const QrWarpArgs<double> &a, cudaStream_t s) {
    return start_twice<double>(op, a, s);
}
template <> status launch_qr_apply<double>(const QrApply<double> &a, int64_t rows, cudaStream_t s) {
    return rows <= 256 ? start_apply<Grid<double, 32, 8, 8, 4>>(a, s)
                       : start_apply<Grid<double, 32, 16, 16, 2>>(a, s);
}

} // namespace lowrank
