/* Arguments of the kernels of sums (gemm_sums.cu). */
#ifndef MOAO_GPU_HIER_SUMS_ARGS_CUH
#define MOAO_GPU_HIER_SUMS_ARGS_CUH
#include "moao/backend_hier.h"
#include <cuda_runtime.h>

namespace {
struct Operands {
    hier_operand x[HIER_OPERANDS];
};

template <class T> struct SumArgs {
    const hier_gemm_sum *sum;
    const hier_gemm_term *term;
    Operands x;
    T alpha, beta;
    T *y;
    int64_t ldy, nvec;
    int row_tiles, col_tiles;
};

/* alpha acc + beta y to the result, from row `row` and column j0 on, of which there are m and cols:
 * a warp's 16 MT columns and 8 NT rows from accumulators of products with the columns as the 16-row
 * side. Lane l = 4 g + q holds rows 8 t + 2 q, + 1 and columns 16 i + g, + 8. */
template <bool LEFT, int MT, int NT>
__device__ inline void write_tile(const SumArgs<double> &args, const double (&acc)[MT][NT][4],
                                  int64_t row, int64_t j0, int g, int q, int cols, int m) {
    const bool pairs = LEFT && args.ldy % 2 == 0 && (uintptr_t)(args.y + row) % 16 == 0;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int j = 16 * i + 8 * h + g;
            if (j >= cols)
                continue;
#pragma unroll
            for (int t = 0; t < NT; t++) {
                const int n = 8 * t + 2 * q;
                double u = args.alpha * acc[i][t][2 * h], v = args.alpha * acc[i][t][2 * h + 1];
                const int64_t step = LEFT ? 1 : args.ldy;
                double *y =
                    args.y + (LEFT ? row + n + (j0 + j) * args.ldy : (row + n) * step + j0 + j);
                if (args.beta != 0) {
                    if (n < m)
                        u += args.beta * y[0];
                    if (n + 1 < m)
                        v += args.beta * y[step];
                }
                if (pairs && n + 1 < m) {
                    *(double2 *)y = make_double2(u, v);
                } else {
                    if (n < m)
                        y[0] = u;
                    if (n + 1 < m)
                        y[step] = v;
                }
            }
        }
}
} // namespace
#endif
