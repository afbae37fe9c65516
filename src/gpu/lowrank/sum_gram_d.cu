/* Recompression by Gram matrices, in double precision. */
#include "sum_gram_kernel.cuh"

namespace lowrank {

template <> status launch_sum_factors<double>(const SumGram<double> &a, cudaStream_t s) {
    return start_factors<double>(a, s);
}
template <> status launch_sum_cores<double>(const SumGram<double> &a, cudaStream_t s) {
    return start_cores<double>(a, s);
}
template <> status launch_sum_results<double>(const SumGram<double> &a, cudaStream_t s) {
    return start_results<double>(a, s);
}

} // namespace lowrank
