/* Singular values of matrices of up to 128 rows and columns, in single precision. */
#include "svd_core.cuh"

namespace lowrank {

template <>
status launch_svd_core<float>(const SvdArgs<float> &a, int most, int64_t blocks, cudaStream_t s) {
    return a.shear ? choose_svd_core<1>(a, most, blocks, s)
                   : choose_svd_core<0>(a, most, blocks, s);
}

} // namespace lowrank
