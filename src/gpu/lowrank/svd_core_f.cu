/* Singular values of matrices of up to 128 rows and columns, in single precision. */
#include "svd_core.cuh"

namespace lowrank {

template <>
status launch_svd_core<float>(const SvdArgs<float> &a, int most, int64_t blocks, cudaStream_t s) {
    return most <= 64   ? start_svd_core<float, Core64<float>>(a, blocks, s)
           : most <= 96 ? start_svd_core<float, Core96<float>>(a, blocks, s)
                        : start_svd_core<float, Core128<float>>(a, blocks, s);
}

} // namespace lowrank
