/* Singular values of matrices of up to 128 rows and columns. */
#include "svd_core.cuh"

namespace lowrank {

template <>
status launch_svd_core<REAL>(const SvdArgs<REAL> &a, int most, int64_t blocks, cudaStream_t s) {
    return most <= 64   ? start_svd_core<REAL, Core64<REAL>>(a, blocks, s)
           : most <= 96 ? start_svd_core<REAL, Core96<REAL>>(a, blocks, s)
                        : start_svd_core<REAL, Core128<REAL>>(a, blocks, s);
}

} // namespace lowrank
