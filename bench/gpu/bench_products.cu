/* Batched gemm on one GPU against the vendor's batched calls: products of small squares, and of
 * tall factors as compressed tiles have them, C (256 x 256) -= U (256 x r) V' with one rank for
 * all, and with ranks of their own up to r, where the vendor's calls take the largest.
 *
 *   bench_products [CSV file]       MOAO_BENCH_TYPES=d restricts it
 *
 * Time of one call, median of 7; TFLOP/s of the products that are asked for (with ranks of their
 * own: those alone); the results of both are compared. */
#include "moao/backend.h"
#include "bench_check.cuh"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cublas_v2.h>
#include <vector>

static const backend *be;
static backend_ctx *ctx;
static cudaStream_t stream;
static cublasHandle_t blas;
static const int SWEEPS = 7;

template <class T> struct Vendor;
template <> struct Vendor<double> {
    static constexpr auto strided = cublasDgemmStridedBatched;
    static constexpr auto pointers = cublasDgemmBatched;
};
template <> struct Vendor<float> {
    static constexpr auto strided = cublasSgemmStridedBatched;
    static constexpr auto pointers = cublasSgemmBatched;
};

template <class T> __global__ void fill(T *a, int64_t total) {
    for (int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; e < total;
         e += (int64_t)gridDim.x * blockDim.x) {
        const uint64_t h = (uint64_t)(e + 1) * 0x9E3779B97F4A7C15ull;
        a[e] = (T)((double)(int64_t)(h ^ h >> 31) * 0x1p-63);
    }
}

template <class F> static double median_time(F f) {
    cudaEvent_t t0, t1;
    std::vector<float> ms(SWEEPS);
    CHECK(cudaEventCreate(&t0));
    CHECK(cudaEventCreate(&t1));
    for (int r = -1; r < SWEEPS; r++) {
        CHECK(cudaEventRecord(t0, stream));
        f();
        CHECK(cudaEventRecord(t1, stream));
        CHECK(cudaEventSynchronize(t1));
        if (r >= 0)
            CHECK(cudaEventElapsedTime(&ms[r], t0, t1));
    }
    std::sort(ms.begin(), ms.end());
    return ms[SWEEPS / 2] * 1e-3;
}

template <class T> static T *take(int64_t n) {
    T *p;
    CHECK(cudaMalloc(&p, (size_t)n * sizeof(T)));
    return p;
}

template <class T> static T **pointers(T *base, int64_t step, int64_t count) {
    std::vector<T *> p(count);
    for (int64_t k = 0; k < count; k++)
        p[k] = base + k * step;
    T **q = take<T *>(count);
    CHECK(cudaMemcpy(q, p.data(), sizeof(T *) * count, cudaMemcpyHostToDevice));
    return q;
}

/* Largest difference of two arrays, for columns of the order of sqrt(k). */
template <class T> static double difference(const T *x, const T *y, int64_t n) {
    std::vector<T> a(n), b(n);
    double worst = 0;
    CHECK(cudaMemcpy(a.data(), x, sizeof(T) * n, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(b.data(), y, sizeof(T) * n, cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < n; i++)
        worst = std::max(worst, std::fabs((double)a[i] - (double)b[i]));
    return worst;
}

/* C := C - op(A) op(B), n x n, inner size k; varied: sizes of their own from 1 to k. */
template <class T>
static void bench(int64_t n, int64_t k, char ta, char tb, bool varied, FILE *csv) {
    const backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;
    const int64_t count = std::max<int64_t>(1, ((int64_t)1 << 30) / (n * n * 8)), nk = n * k;
    T *a = take<T>(count * nk), *b = take<T>(count * nk), *c = take<T>(count * n * n),
      *d = take<T>(count * n * n);
    const T minus = -1, one = 1;
    std::vector<int64_t> ranks(count);
    double sum = 0;
    for (int64_t q = 0; q < count; q++)
        sum += (double)(ranks[q] = varied ? 1 + (q * 7919) % k : k);
    int64_t *each = take<int64_t>(count);
    CHECK(cudaMemcpy(each, ranks.data(), 8 * count, cudaMemcpyHostToDevice));
    fill<<<4096, 256, 0, stream>>>(a, count * nk);
    fill<<<4096, 256, 0, stream>>>(b, count * nk);
    const batch_dim side = batch_size(n), inner = {k, varied ? each : NULL};
    const int64_t lda = ta == 'N' ? n : k, ldb = tb == 'N' ? k : n;
    const cublasOperation_t oa = ta == 'N' ? CUBLAS_OP_N : CUBLAS_OP_T,
                            ob = tb == 'N' ? CUBLAS_OP_N : CUBLAS_OP_T;
    T **pa = pointers(a, nk, count), **pb = pointers(b, nk, count),
      **pc = pointers(d, n * n, count);
    auto ours = [&] {
        CHECK(be->batch->gemm(ctx, t, ta, tb, count, side, side, inner, &minus,
                              batch_strided(a, lda, nk), batch_strided(b, ldb, nk), &one,
                              batch_strided(c, n, n * n)));
    };
    auto strided = [&] {
        CHECK(Vendor<T>::strided(blas, oa, ob, (int)n, (int)n, (int)k, &minus, a, (int)lda, nk, b,
                                 (int)ldb, nk, &one, d, (int)n, n * n, (int)count));
    };
    auto by_pointers = [&] {
        CHECK(Vendor<T>::pointers(blas, oa, ob, (int)n, (int)n, (int)k, &minus, pa, (int)lda, pb,
                                  (int)ldb, &one, pc, (int)n, (int)count));
    };
    CHECK(cudaMemsetAsync(c, 0, sizeof(T) * count * n * n, stream));
    CHECK(cudaMemsetAsync(d, 0, sizeof(T) * count * n * n, stream));
    ours();
    strided();
    CHECK(cudaStreamSynchronize(stream));
    const double off = varied ? 0 : difference(c, d, std::min<int64_t>(count * n * n, 1 << 22));
    if (!(off <= (sizeof(T) == 8 ? 1e-12 : 1e-4) * (double)k))
        fprintf(stderr, "n %ld k %ld %c%c: results differ by %g\n", (long)n, (long)k, ta, tb, off),
            exit(1);
    const double mine = median_time(ours), s = median_time(strided), p = median_time(by_pointers);
    const double flops = 2.0 * (double)(n * n) * sum, best = std::min(s, p);
    const char *type = sizeof(T) == 8 ? "FP64" : "FP32";
    printf("%s %5ld %5ld  %c%c %-7s %8ld %10.1f %10.1f %10.1f %7.2f %7.2f\n", type, (long)n,
           (long)k, ta, tb, varied ? "varied" : "", (long)count, mine * 1e6, s * 1e6, p * 1e6,
           best / mine, flops / mine * 1e-12);
    fflush(stdout);
    if (csv)
        fprintf(csv, "%s,%ld,%ld,%c%c,%d,%ld,%.3f,%.3f,%.3f,%.3f,%.3f\n", type, (long)n, (long)k,
                ta, tb, varied, (long)count, mine * 1e6, s * 1e6, p * 1e6, best / mine,
                flops / mine * 1e-12);
    for (void *q : {(void *)a, (void *)b, (void *)c, (void *)d, (void *)each, (void *)pa,
                    (void *)pb, (void *)pc})
        CHECK(cudaFree(q));
}

template <class T> static void bench_type(FILE *csv) {
    for (int64_t n : {8, 16, 32, 64, 128})
        bench<T>(n, n, 'N', 'N', false, csv);
    for (int64_t r : {8, 16, 32, 64, 128})
        bench<T>(256, r, 'N', 'T', false, csv);
    bench<T>(256, 32, 'N', 'N', false, csv);
    bench<T>(256, 32, 'T', 'N', false, csv);
    bench<T>(256, 32, 'T', 'T', false, csv);
    for (int64_t r : {32, 128})
        bench<T>(256, r, 'N', 'T', true, csv);
}

int main(int argc, char **argv) {
    const char *types = getenv("MOAO_BENCH_TYPES");
    FILE *csv = argc > 1 ? fopen(argv[1], "w") : NULL;
    char text[320];
    CHECK(backend_get("gpu", &be));
    CHECK(be->open(0, NULL, &ctx));
    CHECK(be->describe(0, text, sizeof text));
    stream = (cudaStream_t)be->stream(ctx);
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    printf(
        "%s\nC (n x n) -= op(A) op(B), inner size k; us: one call on all; times: the faster of the "
        "vendor's over ours\n"
        "type     n     k  op         matrices    ours us strided us pointers us   times TFLOP/s\n",
        text);
    if (csv)
        fprintf(csv, "type,n,k,op,varied,matrices,ours_us,strided_us,pointers_us,times,tflops\n");
    if (!types || strchr(types, 'd'))
        bench_type<double>(csv);
    if (!types || strchr(types, 's'))
        bench_type<float>(csv);
    if (csv)
        fclose(csv);
    CHECK(cublasDestroy(blas));
    be->close(ctx);
    return 0;
}
