/* QR of two blocks of columns, and products with reflectors. */
#include "qr_grid_wide.cuh"

namespace lowrank {

template <>
status launch_qr_twice<REAL>(int op, const QrWarpArgs<REAL> &a, cudaStream_t s, bool *served) {
    return start_twice<REAL>(op, a, s, served);
}
template <>
status launch_qr_apply<REAL>(const QrApply<REAL> &a, int64_t rows, cudaStream_t s, bool *served) {
    return rows <= 256 ? start_apply<Grid<REAL, 32, 8, 8, 4>>(a, s, served)
                       : start_apply<Grid<REAL, 32, 16, 16, 2>>(a, s, served);
}

} // namespace lowrank
