/* Singular values of matrices of up to 128 rows and columns, in double precision. */
#include "svd_core.cuh"

namespace lowrank {

template <>
status launch_svd_core<double>(const SvdArgs<double> &a, int most, int64_t blocks, cudaStream_t s) {
    return most <= 64   ? start_svd_core<double, Core64<double>>(a, blocks, s)
           : most <= 96 ? start_svd_core<double, Core96<double>>(a, blocks, s)
                        : start_svd_core<double, Core128<double>>(a, blocks, s);
}

} // namespace lowrank
