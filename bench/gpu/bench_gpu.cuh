/* What the GPU benches share: timing by events, random data made on the device, one line per
 * measurement as a table and as CSV. All variants of a row (ours, the vendor's, the ceiling) are
 * timed in the same process on the same data. */
#ifndef MOAO_BENCH_GPU_CUH
#define MOAO_BENCH_GPU_CUH

#include "moao/backend_hier.h"
#include <algorithm>
#include <chrono>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <functional>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <time.h>
#include <vector>

static inline void bench_check(bool good, const char *call, const char *why, const char *file,
                               int line) {
    if (!good) {
        fprintf(stderr, "%s:%d: %s failed: %s\n", file, line, call, why);
        exit(1);
    }
}
static inline void bench_cuda(cudaError_t e, const char *call, const char *file, int line) {
    bench_check(e == cudaSuccess, call, cudaGetErrorString(e), file, line);
}
/* A CUDA call, and a call of a library or of the backend (0 is success). */
#define CU(call) bench_cuda((call), #call, __FILE__, __LINE__)
#define OK(call) bench_check((int)(call) == 0, #call, status_message(), __FILE__, __LINE__)

static const backend *be;
static backend_ctx *ctx;
static cudaStream_t stream;
static cublasHandle_t blas;
static FILE *csv;

/* Opens the GPU backend and a cuBLAS handle of the vendor's defaults on the same stream. */
static inline void bench_open(const char *csv_path) {
    char text[256];
    time_t now = time(NULL);
    int driver;
    OK(backend_get("gpu", &be));
    CU(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(be->open(0, stream, &ctx));
    OK(be->describe(0, text, sizeof text));
    OK(cublasCreate(&blas));
    OK(cublasSetStream(blas, stream));
    CU(cudaDriverGetVersion(&driver));
    strftime(text + strlen(text), sizeof text - strlen(text), "; %Y-%m-%d", gmtime(&now));
    printf("# %s\n", text);
    csv = csv_path ? fopen(csv_path, "a") : NULL;
    if (csv && ftell(csv) == 0)
        fprintf(csv, "operation,type,shape,ours_ms,vendor_ms,flops,bytes,ours_tflops,vendor_tflops,"
                     "ratio,ceiling_tflops,share\n");
}

__device__ inline double bench_hash(int64_t k, uint64_t seed) {
    uint64_t z = (uint64_t)k * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

/* a(i, j) = off * uniform(-1, 1), diagonal = diag + off * uniform. */
template <class T>
__global__ void bench_fill_kernel(T *a, int64_t m, int64_t n, int64_t ld, double off, double diag,
                                  uint64_t seed) {
    const int64_t count = m * n, stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < count; k += stride) {
        const int64_t i = k % m, j = k / m;
        a[i + j * ld] = (T)(off * bench_hash(k, seed) + (i == j ? diag : 0));
    }
}

static inline void bench_fill(backend_type t, void *a, int64_t m, int64_t n, double off,
                              double diag, uint64_t seed = 1) {
    if (t == BACKEND_D)
        bench_fill_kernel<<<132 * 16, 256, 0, stream>>>((double *)a, m, n, m, off, diag, seed);
    else
        bench_fill_kernel<<<132 * 16, 256, 0, stream>>>((float *)a, m, n, m, off, diag, seed);
    CU(cudaGetLastError());
}

static inline void *bench_alloc(size_t bytes) {
    void *p;
    CU(cudaMalloc(&p, bytes ? bytes : 1));
    return p;
}

/* Seconds for which what takes more than 0.2 ms is repeated before it is timed: when the load
 * changes, the control of power lets the clock swing for about as long. */
static double bench_settle = 0;

/* Median of `reps` runs after one warm-up or more, in ms; `before` runs outside the timed region.
 */
static inline double bench_time(int reps, const std::function<void()> &before,
                                const std::function<void()> &run) {
    cudaEvent_t a, b;
    std::vector<double> ms;
    CU(cudaEventCreate(&a));
    CU(cudaEventCreate(&b));
    const auto start = std::chrono::steady_clock::now();
    for (bool warm = false; (int)ms.size() < reps;) {
        float t;
        before();
        CU(cudaEventRecord(a, stream));
        run();
        CU(cudaEventRecord(b, stream));
        CU(cudaEventSynchronize(b));
        CU(cudaEventElapsedTime(&t, a, b));
        if (warm)
            ms.push_back(t);
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
        warm = warm || t < 0.2 || passed.count() >= bench_settle;
    }
    CU(cudaEventDestroy(a));
    CU(cudaEventDestroy(b));
    std::sort(ms.begin(), ms.end());
    return ms[ms.size() / 2];
}

/* One row. vendor_ms or ceiling (TFLOP/s) 0: not measured. */
static inline void bench_row(const char *op, backend_type t, const char *shape, double ours,
                             double vendor, double flops, double ceiling, const char *note = "") {
    const double tf = flops / ours * 1e-9, vf = vendor > 0 ? flops / vendor * 1e-9 : 0;
    printf("%-14s %c %-22s ours %9.3f ms %7.2f TF | vendor %9.3f ms %7.2f TF | ratio %5.2f | "
           "ceiling %6.2f TF share %5.1f %% %s\n",
           op, "dszc"[t], shape, ours, tf, vendor, vf, vendor / ours, ceiling,
           ceiling > 0 ? 100 * tf / ceiling : 0, note);
    fflush(stdout);
    if (csv)
        fprintf(csv, "%s,%c,%s,%.4f,%.4f,%.4g,,%.3f,%.3f,%.3f,%.2f,%.4f\n", op, "dszc"[t], shape,
                ours, vendor, flops, tf, vf, vendor / ours, ceiling,
                ceiling > 0 ? tf / ceiling : 0);
}

#endif
