/* Recompression by Gram matrices, in single precision. */
#include "sum_gram_kernel.cuh"

namespace lowrank {

template <> status launch_sum_factors<float>(const SumGram<float> &a, cudaStream_t s) {
    return start_factors<float>(a, s);
}
template <> status launch_sum_cores<float>(const SumGram<float> &a, cudaStream_t s) {
    return start_cores<float>(a, s);
}
template <> status launch_sum_results<float>(const SumGram<float> &a, cudaStream_t s) {
    return start_results<float>(a, s);
}

} // namespace lowrank
