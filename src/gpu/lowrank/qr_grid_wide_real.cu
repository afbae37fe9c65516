/* QR of two blocks of columns, and products with reflectors. */
#include "qr_grid_wide.cuh"

namespace lowrank {

template <> status launch_qr_twice<REAL>(int op, const QrWarpArgs<REAL> &a, cudaStream_t s) {
    return start_twice<REAL>(op, a, s);
}
template <> status launch_qr_apply<REAL>(const QrApply<REAL> &a, int64_t rows, cudaStream_t s) {
    return rows <= 256 ? start_apply<Grid<REAL, 32, 8, 8, 4>>(a, s)
                       : start_apply<Grid<REAL, 32, 16, 16, 2>>(a, s);
}

} // namespace lowrank
