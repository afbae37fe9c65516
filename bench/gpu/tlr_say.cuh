/* What all groups of bench_tlr share: options, and what is said of a matrix and of a factor. */
#ifndef MOAO_BENCH_TLR_SAY_CUH
#define MOAO_BENCH_TLR_SAY_CUH

#include "tlr_data.cuh"

static const double one = 1, zero = 0;
static inline double clock_now() {
    CU(cudaStreamSynchronize(stream));
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

static double memory_given; /* GB for intermediate products, 0: the library's choice */

static inline tlr_options options(double tau, int64_t rank, int64_t width, int64_t cut) {
    tlr_options o = {};
    o.tau = tau;
    o.rank = rank;
    o.width = width;
    o.cut = cut;
    o.seed = 1;
    o.memory = (size_t)(1e9 * memory_given);
    return o;
}

static inline void say(const char *what, const tlr *a, int64_t b) {
    tlr_stats s;
    tlr_statistics(a, &s);
    printf("#   %s: %.2f GB of %.2f dense, mean rank %.1f of %lld, 90 %% below %lld, most %lld, "
           "%lld tiles dense, %lld empty of %lld\n",
           what, s.bytes * 1e-9, s.bytes_dense * 1e-9, s.mean, (long long)b, (long long)s.p90,
           (long long)s.most, (long long)s.dense, (long long)s.empty, (long long)s.tiles);
}

/* |(L L' - A) x| / |A x|, A by block columns. */
static inline double factor_error(const tlr *l, const tlr_layout *layout, tlr_fill *fill,
                                  void *arg) {
    const int64_t n = layout->n, w = 2048;
    double *x = (double *)bench_alloc(8 * n), *y = (double *)bench_alloc(8 * n),
           *z = (double *)bench_alloc(8 * n), *a = (double *)bench_alloc(8 * n * w);
    double error, norm;
    const double minus = -1;
    bench_fill(BACKEND_D, x, n, 1, 1, 0, 7);
    CU(cudaMemsetAsync(z, 0, 8 * n, stream));
    for (int64_t j = 0; j < n; j += w) {
        const int64_t c = std::min(w, n - j);
        OK(fill(arg, 0, n, j, c, a, n));
        OK(cublasDgemv(blas, CUBLAS_OP_N, n, c, &one, a, n, x + j, 1, &one, z, 1));
    }
    OK(cublasDnrm2(blas, n, z, 1, &norm));
    OK(tlr_apply(l, 'L', 'T', 1, 1, x, n, 0, y, n));
    OK(tlr_apply(l, 'L', 'N', 1, 1, y, n, -1, z, n));
    (void)minus;
    OK(cublasDnrm2(blas, n, z, 1, &error));
    for (double *p : {x, y, z, a})
        CU(cudaFree(p));
    return error / norm;
}

static inline void say_steps(const tlr_report *r) {
    static const char *const name[TLR_STEPS] = {"entries",        "V'V",    "U core", "dense tiles",
                                                "large products", "pivots", "divide", "compress",
                                                "settle"};
    printf("#   steps, each waited for:");
    for (int k = 0; k < TLR_STEPS; k++)
        printf(" %s %.3f s%s", name[k], r->seconds[k], k + 1 < TLR_STEPS ? "," : "\n");
}

#endif
