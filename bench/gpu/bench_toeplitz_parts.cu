// Parts of a product of FP16 numbers of sensors on a common lattice on a GPU, each alone: bench_toeplitz_parts
// [VECTORS], 5,336 by default. What transforms by cuFFT cost in two layouts, and transforms as
// products with a matrix of cosines in double, single and half precision (sums in single), with the
// couplings of all images at each frequency. 6 laser stars of 76 and 8 natural ones of 67
// subapertures across.
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cufft.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        const int e_ = (int)(call);                                                                \
        if (e_) {                                                                                  \
            fprintf(stderr, "%s:%d: error %d\n", __FILE__, __LINE__, e_);                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static cublasHandle_t blas;
static char *room;
static size_t room_bytes;

template <class F> static double ms(F f, int repeat = 5) {
    cudaEvent_t a, b;
    std::vector<float> t;
    MUST(cudaEventCreate(&a));
    MUST(cudaEventCreate(&b));
    for (int r = 0; r <= repeat; r++) {
        float one;
        MUST(cudaEventRecord(a));
        f();
        MUST(cudaEventRecord(b));
        MUST(cudaEventSynchronize(b));
        MUST(cudaEventElapsedTime(&one, a, b));
        if (r > 0)
            t.push_back(one);
    }
    std::sort(t.begin(), t.end());
    MUST(cudaGetLastError());
    return t[t.size() / 2];
}

struct kind {
    const char *name;
    cudaDataType_t type;
    cublasComputeType_t sum;
    size_t size;
};
static const kind kinds[] = {{"double", CUDA_R_64F, CUBLAS_COMPUTE_64F, 8},
                             {"single", CUDA_R_32F, CUBLAS_COMPUTE_32F, 4},
                             {"single by TF32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4},
                             {"half", CUDA_R_16F, CUBLAS_COMPUTE_32F, 2}};

// C (m x n) = A (m x k) B (k x n), `batch` of them.
static void gemm(const kind &k, int64_t m, int64_t n, int64_t inner, size_t a, int64_t lda,
                 int64_t sa, size_t b, int64_t ldb, int64_t sb, size_t c, int64_t ldc, int64_t sc,
                 int64_t batch) {
    const double d1 = 1, d0 = 0;
    const float f1 = 1, f0 = 0;
    const bool d = k.type == CUDA_R_64F;
    MUST(cublasGemmStridedBatchedEx(
        blas, CUBLAS_OP_N, CUBLAS_OP_N, (int)m, (int)n, (int)inner, d ? (const void *)&d1 : &f1,
        room + a, k.type, (int)lda, sa, room + b, k.type, (int)ldb, sb, d ? (const void *)&d0 : &f0,
        room + c, k.type, (int)ldc, sc, (int)batch, k.sum, CUBLAS_GEMM_DEFAULT));
}

// Transforms as products, P vectors at a time.
static void products(int64_t v, int n, int N, int g) {
    for (const kind &k : kinds)
        for (int64_t P : {256, 512, 1024}) {
            const int64_t K = N / 2 + 1, times = (v + P - 1) / P;
            const size_t one = k.size * (size_t)P * n * n, mid = k.size * (size_t)P * 2 * K * n,
                         full = k.size * (size_t)P * 2 * K * N * g, table = (size_t)64 << 20;
            if (table + g * (one + mid) + 2 * full > room_bytes)
                continue;
            const size_t at1 = table, at2 = at1 + g * one, at3 = at2 + g * mid, at4 = at3 + full;
            const double s1 = ms([&] { // along y: all x at a time
                gemm(k, n * P, 2 * K, n, at1, n * P, (int64_t)n * n * P, 0, n, 0, at2, n * P,
                     2 * K * n * P, g);
            });
            const double s2 = ms([&] { // along x, an image and one of re, im at a time
                for (int i = 0; i < g; i++)
                    for (int part = 0; part < 2; part++)
                        gemm(k, P, N, 2 * n, at2 + i * mid, P, 2 * n * P, 0, 2 * n, 0,
                             at3 + k.size * (size_t)(2 * i + part) * P, 2 * g * P,
                             (int64_t)N * 2 * g * P, K);
            });
            const double s2b = ms([&] { // the same, all of an image contiguous
                gemm(k, P, 2 * N, 2 * n, at2, P, 2 * n * P, 0, 2 * n, 0, at3, P, 2 * N * P, K * g);
            });
            const double s3 = ms([&] { // couplings
                gemm(k, P, 2 * g, 2 * g, at3, P, 2 * g * P, 0, 2 * g,
                     k.type == CUDA_R_64F ? 0 : 4 * g * g, at4, P, 2 * g * P, K * N);
            });
            const double s4b = ms([&] {
                gemm(k, P, 2 * n, 2 * N, at3, P, 2 * N * P, 0, 2 * N, 0, at2, P, 2 * n * P, K * g);
            });
            const double s5 = ms([&] {
                gemm(k, n * P, n, 2 * K, at2, n * P, 2 * K * n * P, 0, 2 * K, 0, at1, n * P,
                     (int64_t)n * n * P, g);
            });
            printf("  as products, %-14s %4lld vectors at a time: y %6.2f, x %6.2f (contiguous "
                   "%6.2f), couple "
                   "%6.2f, x %6.2f, y %6.2f; all (contiguous) %7.2f ms for %lld vectors\n",
                   k.name, (long long)P, s1 * times, s2 * times, s2b * times, s3 * times,
                   s4b * times, s5 * times, (s1 + s2b + s3 + s4b + s5) * times, (long long)v);
            fflush(stdout);
        }
}

// Transforms of cuFFT, two vectors in a complex one, whole lattices.
static void transforms(int64_t v, int n, int N, int g) {
    (void)n;
    for (cufftType t : {CUFFT_Z2Z, CUFFT_C2C})
        for (int64_t P : {32, 64, 128}) {
            const size_t size = t == CUFFT_Z2Z ? 16 : 8, image = size * (size_t)N * N * P;
            const int64_t times = (v + 2 * P - 1) / (2 * P);
            if (2 * g * image > room_bytes)
                continue;
            double s[2], c;
            for (int layout = 0; layout < 2; layout++) { // vectors innermost; outermost
                cufftHandle plan;
                int shape[2] = {N, N};
                MUST(layout == 0 ? cufftPlanMany(&plan, 2, shape, shape, (int)P, 1, shape, (int)P,
                                                 1, t, (int)P)
                                 : cufftPlanMany(&plan, 2, shape, shape, 1, N * N, shape, 1, N * N,
                                                 t, (int)P));
                s[layout] = ms([&] {
                    for (int i = 0; i < g; i++)
                        for (int way = 0; way < 2; way++) {
                            char *at = room + i * image;
                            if (t == CUFFT_Z2Z)
                                MUST(cufftExecZ2Z(plan, (cufftDoubleComplex *)at,
                                                  (cufftDoubleComplex *)at,
                                                  way ? CUFFT_INVERSE : CUFFT_FORWARD));
                            else
                                MUST(cufftExecC2C(plan, (cufftComplex *)at, (cufftComplex *)at,
                                                  way ? CUFFT_INVERSE : CUFFT_FORWARD));
                        }
                });
                cufftDestroy(plan);
            }
            c = ms([&] {
                const cuDoubleComplex z1 = {1, 0}, z0 = {0, 0};
                const cuComplex c1 = {1, 0}, c0 = {0, 0};
                const size_t out = g * image;
                if (t == CUFFT_Z2Z)
                    MUST(cublasZgemmStridedBatched(
                        blas, CUBLAS_OP_N, CUBLAS_OP_N, (int)P, g, g, &z1, (cuDoubleComplex *)room,
                        (int)(N * N * P), P, (cuDoubleComplex *)room, g, 0, &z0,
                        (cuDoubleComplex *)(room + out), (int)(N * N * P), P, N * N));
                else
                    MUST(cublasCgemmStridedBatched(
                        blas, CUBLAS_OP_N, CUBLAS_OP_N, (int)P, g, g, &c1, (cuComplex *)room,
                        (int)(N * N * P), P, (cuComplex *)room, g, g * g, &c0,
                        (cuComplex *)(room + out), (int)(N * N * P), P, N * N));
            });
            printf("  cuFFT %s, %3lld pairs of vectors at a time: there and back %7.2f ms vectors "
                   "innermost, "
                   "%7.2f outermost; couple %6.2f ms, for %lld vectors\n",
                   t == CUFFT_Z2Z ? "double" : "single", (long long)P, s[0] * times, s[1] * times,
                   c * times, (long long)v);
            fflush(stdout);
        }
}

int main(int argc, char **argv) {
    const int64_t v = argc > 1 ? atoi(argv[1]) : 5336;
    cudaDeviceProp prop;
    size_t all;
    MUST(cudaGetDeviceProperties(&prop, 0));
    MUST(cudaMemGetInfo(&room_bytes, &all));
    room_bytes = std::min(room_bytes - ((size_t)3 << 30), (size_t)60 << 30);
    MUST(cudaMalloc((void **)&room, room_bytes));
    MUST(cudaMemset(room, 0x11, room_bytes));
    MUST(cublasCreate(&blas));
    printf("%s, %lld vectors; parts alone, times of all vectors\n", prop.name, (long long)v);
    struct {
        int n, N, g;
    } list[] = {{76, 160, 12}, {76, 152, 12}, {67, 144, 16}, {67, 135, 16}};
    for (auto &c : list) {
        printf("%d images of %d x %d, transforms of %d x %d\n", c.g, c.n, c.n, c.N, c.N);
        products(v, c.n, c.N, c.g);
        transforms(v, c.n, c.N, c.g);
    }
    return 0;
}
