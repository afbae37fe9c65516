/* Singular values of matrices of up to 128 rows and columns, in double precision. */
#include "svd_core.cuh"

namespace lowrank {

template <>
status launch_svd_core<double>(const SvdArgs<double> &a, int most, int64_t blocks, cudaStream_t s) {
    return a.shear == 2 ? choose_svd_core<2>(a, most, blocks, s)
           : a.shear    ? choose_svd_core<1>(a, most, blocks, s)
                        : choose_svd_core<0>(a, most, blocks, s);
}

} // namespace lowrank
