/* Recompression by Gram matrices (gram.cuh), between recompress.cu and sum_gram_kernel.cuh. */
#ifndef MOAO_GPU_SUM_GRAM_H
#define MOAO_GPU_SUM_GRAM_H
#include "gpu/batch/batch_args.cuh"
#include "gpu/core/error.cuh"

namespace lowrank {

constexpr int SUM_GRAM_WIDTH = 128; /* most columns of [U U2] */
constexpr int SUM_GRAM_RANK = 64;   /* largest rank asked for */
/* Shared memory of a block for more than half of that width, at most. */
constexpr size_t SUM_GRAM_BYTES = 180 * 1024;

/* One of the two factors of a sum: F = [first * a, second * b]. */
template <class T> struct SumSide {
    batch::Mat<T> a, b;
    batch::Dim rows;
    double first, second;
    T *scratch; /* rows.n x width of each matrix */
};

/* A chunk of sums. r: R of both sides, width x width each; cells: -R in blocks and inverses of
 * those on the diagonal, of both sides; scale: of columns of side 0. state: of each matrix and
 * side, how R was found: SUM_NOT, not at all; SUM_ONCE, by one Gram matrix; SUM_TWICE, with shifts,
 * by a second one, to an error of 1e-11 of the norms: then scratch holds the Q of the first. */
enum { SUM_NOT, SUM_ONCE, SUM_TWICE };
template <class T> struct SumGram {
    SumSide<T> side[2]; /* side 0 becomes orthonormal */
    batch::Dim k, k2;
    bool old, fresh, roots, relative, frobenius;
    int width, most;
    int64_t count;
    double tol;
    const double *tol_each;
    double *r, *cells, *scale, *cut;
    int *state, *shift, *mine, *svd, *info;
    T *core, *x, *sigma;
    int64_t *columns, *core0, *core1, *rank, *rank_out;
};

/* Doubles of cells of one side (Triangle<W>::SIZE, W = 32, 64 or 128). */
inline int64_t sum_gram_cells(int64_t width) {
    const int64_t n = (width <= 32 ? 32 : width <= 64 ? 64 : 128) / 8;
    return (n * (n + 1) / 2 + n) * 64;
}

/* R of both sides. */
template <class T> status launch_sum_factors(const SumGram<T> &a, cudaStream_t s);
/* S = Ru Rv^T and its sizes; state[2 b] becomes SUM_NOT where another way has to be taken. */
template <class T> status launch_sum_cores(const SumGram<T> &a, cudaStream_t s);
/* From left vectors x and values of S: U := Q x, V := G Ru^T x, info and ranks. */
template <class T> status launch_sum_results(const SumGram<T> &a, cudaStream_t s);

} // namespace lowrank
#endif
