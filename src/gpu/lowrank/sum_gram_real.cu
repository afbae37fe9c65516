/* Recompression by Gram matrices. */
#include "sum_gram_kernel.cuh"

namespace lowrank {

template <> status launch_sum_factors<REAL>(const SumGram<REAL> &a, cudaStream_t s) {
    return start_factors<REAL>(a, s);
}
template <> status launch_sum_cores<REAL>(const SumGram<REAL> &a, cudaStream_t s) {
    return start_cores<REAL>(a, s);
}
template <> status launch_sum_results<REAL>(const SumGram<REAL> &a, cudaStream_t s) {
    return start_results<REAL>(a, s);
}

} // namespace lowrank
