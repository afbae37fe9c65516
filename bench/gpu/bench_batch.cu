/* Batched routines on one GPU against the best sequence of the vendor's calls and the copy
 * bandwidth.
 *
 *   bench_batch [CSV file]          MOAO_BENCH_OPS=potrf,trsm  MOAO_BENCH_SIZES=16,32
 *                                   MOAO_BENCH_TYPES=d  MOAO_BENCH_SIDES=ours restrict it
 *
 * For each routine, type and order n: `ours` and `vendor` are the time of one call on 10,240
 * matrices, from a sweep over as many batches as hold more than 1 GiB (median of 7 sweeps; inputs
 * refilled before each, outside the timed region). GB/s is that of one call on all of them,
 * counting each triangle as n(n+1)/2 and each operand once per direction; % is its share of a
 * device-to-device copy measured in this run. */
#include "moao/backend.h"
#include "bench_check.cuh"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cublas_v2.h>
#include <cusolverDn.h>
#include <string>
#include <vector>

static const backend *be;
static backend_ctx *ctx;
static cudaStream_t stream;
static cublasHandle_t blas;
static cusolverDnHandle_t solver;
static double copy_rate; /* bytes per second */
static const int BATCH = 10240, SWEEPS = 7;

/* --- the vendor's calls by type --- */
template <class T> struct Vendor;
#define VENDOR(T, X)                                                                               \
    template <> struct Vendor<T> {                                                                 \
        static constexpr auto trsm = cublas##X##trsmBatched;                                       \
        static constexpr auto gemm = cublas##X##gemmStridedBatched;                                \
        static constexpr auto matinv = cublas##X##matinvBatched;                                   \
        static constexpr auto potrf = cusolverDn##X##potrfBatched;                                 \
        static constexpr auto potrs = cusolverDn##X##potrsBatched;                                 \
    }
VENDOR(double, D);
VENDOR(float, S);

/* Symmetric, diagonally dominant, different in every matrix: an SPD matrix and a good triangle. */
template <class T> __global__ void fill_square(T *a, int64_t n, int64_t total) {
    for (int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; e < total;
         e += (int64_t)gridDim.x * blockDim.x) {
        int64_t k = e / (n * n), i = e % n, j = e / n % n, lo = i < j ? i : j, hi = i < j ? j : i;
        uint64_t h = (uint64_t)(k * 1000003 + lo * 1009 + hi + 1) * 0x9E3779B97F4A7C15ull;
        h ^= h >> 29, h *= 0xBF58476D1CE4E5B9ull, h ^= h >> 32;
        double u = (double)(int64_t)h * 0x1p-63;
        a[e] = (T)(i == j ? 2 + 0.5 * u : u / (double)n);
    }
}

struct Data {
    void *a, *a0, *b, *b0,
        *c;                /* working copies and what they are refilled from; c: third operand */
    void **pa, **pb, **pc; /* pointers to each matrix */
    int *info;
    int64_t n, m, count, bytes_a, bytes_b;
};

static void refill(const Data &d) {
    CHECK(cudaMemcpyAsync(d.a, d.a0, d.bytes_a, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemcpyAsync(d.b, d.b0, d.bytes_b, cudaMemcpyDeviceToDevice, stream));
}

template <class F> static double median_time(const Data &d, F f) {
    cudaEvent_t t0, t1;
    std::vector<float> ms(SWEEPS);
    CHECK(cudaEventCreate(&t0));
    CHECK(cudaEventCreate(&t1));
    for (int r = -1; r < SWEEPS; r++) {
        refill(d);
        CHECK(cudaEventRecord(t0, stream));
        f();
        CHECK(cudaEventRecord(t1, stream));
        CHECK(cudaEventSynchronize(t1));
        if (r >= 0)
            CHECK(cudaEventElapsedTime(&ms[r], t0, t1));
    }
    CHECK(cudaGetLastError());
    std::sort(ms.begin(), ms.end());
    CHECK(cudaEventDestroy(t0));
    CHECK(cudaEventDestroy(t1));
    return ms[SWEEPS / 2] * 1e-3;
}

enum { SYRK, TRSM, TRMM, POTRF, TRTRI, LAUUM, POTRI, POTI, POTRS, POSV, OPS };
static const char *const op_name[] = {"syrk",  "trsm",  "trmm", "potrf", "trtri",
                                      "lauum", "potri", "poti", "potrs", "posv"};

template <class T> struct Row {
    Data d;
    int op;
    T one = 1, zero = 0;
    backend_type t = sizeof(T) == 8 ? BACKEND_D : BACKEND_S;

    T *a(int64_t k) const {
        return (T *)d.a + k * d.n * d.n;
    }
    T *b(int64_t k) const {
        return (T *)d.b + k * d.n * d.m;
    }
    void ours(int64_t first, int64_t count) const;
    void trsm(cublasOperation_t trans, void **x, int64_t cols, int64_t first) const;
    void gemm(cublasOperation_t ta, cublasOperation_t tb, const void *x, const void *y, void *z,
              int64_t m, int64_t k, int64_t first, int64_t sx, int64_t sy, int64_t sz) const;
    void potrf(int64_t first) const;
    void product(int64_t first) const;
    void inverse(int64_t first) const;
    void solve(int way, int64_t first) const;
    const char *vendor(int way) const;
    void vendor_run(int way, int64_t first) const;
    double bytes() const;
    double flops() const;
};

template <class T> void Row<T>::ours(int64_t first, int64_t count) const {
    const backend_batch *q = be->batch;
    batch_dim n = batch_size(d.n), m = batch_size(d.m);
    batch_mat A = batch_strided(a(first), d.n, d.n * d.n),
              B = batch_strided(b(first), d.n, d.n * d.m);
    int *info = d.info + first;
    switch (op) {
    case SYRK:
        CHECK(q->syrk(ctx, t, 'L', 'N', count, n, m, &one, B, &zero, A));
        break;
    case TRSM:
        CHECK(q->trsm(ctx, t, 'L', 'L', 'N', 'N', count, n, m, &one, A, B));
        break;
    case TRMM:
        CHECK(q->trmm(ctx, t, 'L', 'L', 'N', 'N', count, n, m, &one, A, B));
        break;
    case POTRF:
        CHECK(q->potrf(ctx, t, 'L', count, n, A, info));
        break;
    case TRTRI:
        CHECK(q->trtri(ctx, t, 'L', 'N', count, n, A, info));
        break;
    case LAUUM:
        CHECK(q->lauum(ctx, t, 'L', count, n, A));
        break;
    case POTRI:
        CHECK(q->potri(ctx, t, 'L', count, n, A, info));
        break;
    case POTI:
        CHECK(q->poti(ctx, t, 'L', count, n, A, info));
        break;
    case POTRS:
        CHECK(q->potrs(ctx, t, 'L', count, n, m, A, B));
        break;
    default:
        CHECK(q->posv(ctx, t, 'L', count, n, m, A, B, info));
    }
}

template <class T>
void Row<T>::trsm(cublasOperation_t trans, void **x, int64_t cols, int64_t first) const {
    CHECK(Vendor<T>::trsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, trans,
                          CUBLAS_DIAG_NON_UNIT, (int)d.n, (int)cols, &one, (T *const *)d.pa + first,
                          (int)d.n, (T *const *)x + first, (int)d.n, BATCH));
}

/* n x m results */
template <class T>
void Row<T>::gemm(cublasOperation_t ta, cublasOperation_t tb, const void *x, const void *y, void *z,
                  int64_t m, int64_t k, int64_t first, int64_t sx, int64_t sy, int64_t sz) const {
    CHECK(Vendor<T>::gemm(blas, ta, tb, (int)d.n, (int)m, (int)k, &one, (const T *)x + first * sx,
                          (int)d.n, sx, (const T *)y + first * sy, (int)d.n, sy, &zero,
                          (T *)z + first * sz, (int)d.n, sz, BATCH));
}

template <class T> void Row<T>::potrf(int64_t first) const {
    CHECK(Vendor<T>::potrf(solver, CUBLAS_FILL_MODE_LOWER, (int)d.n, (T **)d.pa + first, (int)d.n,
                           d.info + first, BATCH));
}

/* syrk, trmm and lauum by a gemm of full matrices, out of place */
template <class T> void Row<T>::product(int64_t first) const {
    const int64_t nn = d.n * d.n, nm = d.n * d.m;
    if (op == SYRK)
        gemm(CUBLAS_OP_N, CUBLAS_OP_T, d.b, d.b, d.c, d.n, d.m, first, nm, nm, nn);
    else if (op == TRMM)
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, d.a, d.b, d.c, d.m, d.n, first, nn, nm, nn);
    else
        gemm(CUBLAS_OP_T, CUBLAS_OP_N, d.a, d.a, d.c, d.n, d.n, first, nn, nn, nn);
}

/* Inverses by solving for the identity, which c holds at first (making it is not counted). */
template <class T> void Row<T>::inverse(int64_t first) const {
    const int64_t nn = d.n * d.n;
    if (op == POTI)
        potrf(first);
    trsm(CUBLAS_OP_N, d.pc, d.n, first);
    if (op != TRTRI)
        gemm(CUBLAS_OP_T, CUBLAS_OP_N, d.c, d.c, d.a, d.n, d.n, first, nn, nn, nn);
}

template <class T> void Row<T>::solve(int way, int64_t first) const {
    if (op == POSV)
        potrf(first);
    if (way == 1) {
        CHECK(Vendor<T>::potrs(solver, CUBLAS_FILL_MODE_LOWER, (int)d.n, 1, (T **)d.pa + first,
                               (int)d.n, (T **)d.pb + first, (int)d.n, d.info, BATCH));
        return;
    }
    trsm(CUBLAS_OP_N, d.pb, d.m, first);
    if (op != TRSM)
        trsm(CUBLAS_OP_T, d.pb, d.m, first);
}

/* Names of the vendor's ways to do it, NULL when there is no way `way`. */
template <class T> const char *Row<T>::vendor(int way) const {
    static const char *const first[] = {
        "gemm",      "trsm",           "gemm",      "potrf",
        "trsm",      "gemm",           "trsm gemm", "potrf trsm gemm",
        "trsm trsm", "potrf trsm trsm"};
    if (way == 0)
        return first[op];
    if ((op == TRTRI || op == POTI) && d.n <= 32)
        return "matinv";
    if ((op == POTRS || op == POSV) && d.m == 1)
        return op == POSV ? "potrf potrs" : "potrs";
    return NULL;
}

template <class T> void Row<T>::vendor_run(int way, int64_t first) const {
    if (op == SYRK || op == TRMM || op == LAUUM)
        product(first);
    else if (op == TRSM || op == POTRS || op == POSV)
        solve(way, first);
    else if (op == POTRF)
        potrf(first);
    else if (way == 0)
        inverse(first);
    else
        CHECK(Vendor<T>::matinv(blas, (int)d.n, (const T *const *)d.pa + first, (int)d.n,
                                (T **)d.pc + first, (int)d.n, d.info + first, BATCH));
}

template <class T> double Row<T>::bytes() const {
    double tri = 0.5 * d.n * (d.n + 1), full = (double)d.n * d.m;
    double e = op == SYRK                                ? tri + full
               : op == TRSM || op == TRMM || op == POTRS ? tri + 2 * full
               : op == POSV                              ? 2 * tri + 2 * full
                                                         : 2 * tri;
    return e * sizeof(T);
}

template <class T> double Row<T>::flops() const {
    double n = (double)d.n, m = (double)d.m, c = n * n * n / 3;
    static const double part[] = {0, 0, 0, 1, 1, 1, 2, 3, 0, 1};
    double on_b = op == SYRK || op == TRSM || op == TRMM ? n * n * m
                  : op == POTRS || op == POSV            ? 2 * n * n * m
                                                         : 0;
    return part[op] * c + on_b;
}

/* What is asked for (FP64): ratio to the vendor, share of the copy bandwidth; 0: nothing. */
static void required(int op, int64_t n, double &ratio, double &share) {
    const bool product = op == SYRK || op == TRMM || op == LAUUM;
    ratio = n >= 16 && n <= 64 ? (op == POTRF ? 5 : 4) : 2;
    share = n < 16 || n > 64 ? 0 : op == TRSM ? 0.7 : op == POTRF && n <= 32 ? 0.6 : 0.5;
    if (product) {
        ratio = n < 32 ? (n == 8 ? 1.2 : 0) : n <= 64 ? 1.3 : 1.2;
        share = n == 32 || n == 64 ? 0.6 : 0;
    }
}

static bool wanted(const char *variable, const char *word) {
    const char *list = getenv(variable);
    if (!list || !*list)
        return true;
    std::string all = std::string(",") + list + ",";
    return all.find(std::string(",") + word + ",") != std::string::npos;
}

/* Operands of d.count matrices with their pointers. */
template <class T> static void data_make(Data &d) {
    const int64_t n = d.n, m = d.m, ea = n * n, eb = n * m;
    d.bytes_a = d.count * ea * (int64_t)sizeof(T), d.bytes_b = d.count * eb * (int64_t)sizeof(T);
    CHECK(cudaMalloc(&d.a, d.bytes_a));
    CHECK(cudaMalloc(&d.a0, d.bytes_a));
    CHECK(cudaMalloc(&d.b, d.bytes_b));
    CHECK(cudaMalloc(&d.b0, d.bytes_b));
    CHECK(cudaMalloc(&d.c, d.bytes_a));
    CHECK(cudaMalloc(&d.info, sizeof(int) * d.count));
    std::vector<void *> p(d.count);
    auto pointers = [&](void *base, int64_t step) {
        void **q;
        for (int64_t k = 0; k < d.count; k++)
            p[k] = (T *)base + k * step;
        CHECK(cudaMalloc(&q, sizeof(void *) * d.count));
        CHECK(cudaMemcpy(q, p.data(), sizeof(void *) * d.count, cudaMemcpyHostToDevice));
        return q;
    };
    d.pa = pointers(d.a, ea), d.pb = pointers(d.b, eb), d.pc = pointers(d.c, ea);
    fill_square<<<4096, 256, 0, stream>>>((T *)d.a0, n, d.count * ea);
    fill_square<<<4096, 256, 0, stream>>>((T *)d.c, n, d.count * ea);
    if (m == n)
        CHECK(cudaMemcpyAsync(d.b0, d.a0, d.bytes_b, cudaMemcpyDeviceToDevice, stream));
    else
        fill_square<<<4096, 256, 0, stream>>>((T *)d.b0, 1, d.count * eb);
    CHECK(cudaGetLastError());
}

static void data_free(const Data &d) {
    for (void *q :
         {d.a, d.a0, d.b, d.b0, d.c, (void *)d.pa, (void *)d.pb, (void *)d.pc, (void *)d.info})
        CHECK(cudaFree(q));
}

template <class T> static void bench(int op, int64_t n, int64_t m, FILE *csv) {
    Row<T> r;
    Data &d = r.d;
    const int64_t target = (int64_t)1200 << 20;
    r.op = op;
    d = {};
    d.n = n, d.m = m;
    const int64_t batches = (int64_t)(target / (r.bytes() * BATCH)) + 1;
    d.count = batches * BATCH;
    data_make<T>(d);

    const double all = median_time(d, [&] { r.ours(0, d.count); });
    const double ours = median_time(d,
                                    [&] {
                                        for (int64_t k = 0; k < batches; k++)
                                            r.ours(k * BATCH, BATCH);
                                    }) /
                        (double)batches;
    double best = 1e30;
    const char *name = "";
    for (int w = 0; w < 2; w++) {
        if (!r.vendor(w) || !wanted("MOAO_BENCH_SIDES", "vendor"))
            continue;
        double t = median_time(d,
                               [&] {
                                   for (int64_t k = 0; k < batches; k++)
                                       r.vendor_run(w, k * BATCH);
                               }) /
                   (double)batches;
        if (t < best)
            best = t, name = r.vendor(w);
    }
    const double rate = r.bytes() * (double)d.count / all;
    double need_ratio, need_share;
    required(op, n, need_ratio, need_share);
    if (sizeof(T) == 4)
        need_ratio = need_share = 0;
    const bool met = best / ours >= need_ratio && rate / copy_rate >= need_share;
    printf("%-4s %-5s %4ld %4ld %9.2f %9.2f  %-15s %6.2f %5.1f %6.0f %5.1f %4.0f %6.2f  %s\n",
           sizeof(T) == 8 ? "FP64" : "FP32", op_name[op], (long)n, (long)m, ours * 1e6, best * 1e6,
           name, best / ours, need_ratio, rate * 1e-9, 100 * rate / copy_rate, 100 * need_share,
           r.flops() * (double)d.count / all * 1e-12,
           need_ratio > 0 || need_share > 0 ? (met ? "met" : "SHORT") : "");
    fflush(stdout);
    if (csv)
        fprintf(csv, "%s,%s,%ld,%ld,%ld,%.3f,%.3f,%s,%.3f,%.1f,%.1f,%.3f,%.3f,%.2f,%.3f\n",
                sizeof(T) == 8 ? "FP64" : "FP32", op_name[op], (long)n, (long)m, (long)d.count,
                ours * 1e6, best * 1e6, name, best / ours, need_ratio, rate * 1e-9,
                rate / copy_rate, need_share, r.flops() * (double)d.count / all * 1e-12,
                copy_rate * 1e-9);
    data_free(d);
}

static void measure_copy() {
    Data d = {};
    const int64_t bytes = (int64_t)2 << 30;
    d.bytes_a = d.bytes_b = 0;
    CHECK(cudaMalloc(&d.a, bytes));
    CHECK(cudaMalloc(&d.b, bytes));
    CHECK(cudaMemset(d.a, 1, bytes));
    d.a0 = d.a, d.b0 = d.b;
    double t = median_time(
        d, [&] { CHECK(cudaMemcpyAsync(d.b, d.a, bytes, cudaMemcpyDeviceToDevice, stream)); });
    copy_rate = 2.0 * (double)bytes / t;
    CHECK(cudaFree(d.a));
    CHECK(cudaFree(d.b));
}

template <class T> static void bench_type(FILE *csv) {
    for (int op = 0; op < OPS; op++)
        for (int64_t n : {8, 16, 32, 64, 128, 256})
            if (wanted("MOAO_BENCH_OPS", op_name[op]) &&
                wanted("MOAO_BENCH_SIZES", std::to_string(n).c_str())) {
                if (op == POTRS || op == POSV)
                    bench<T>(op, n, 1, csv);
                bench<T>(op, n, n, csv);
            }
}

int main(int argc, char **argv) {
    cudaDeviceProp prop;
    int driver = 0, runtime = 0, version = 0;
    char date[32];
    time_t now = time(nullptr);
    CHECK(backend_get("gpu", &be));
    CHECK(be->open(0, NULL, &ctx));
    stream = (cudaStream_t)be->stream(ctx);
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    CHECK(cusolverDnCreate(&solver));
    CHECK(cusolverDnSetStream(solver, stream));
    CHECK(cudaGetDeviceProperties(&prop, 0));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cublasGetVersion(blas, &version));
    measure_copy();
    strftime(date, sizeof date, "%Y-%m-%d", localtime(&now));
    printf(
        "# %s, %s, %d SMs, CUDA driver API %d, runtime %d, cuBLAS %d, copy %.0f GB/s\n# command:",
        date, prop.name, prop.multiProcessorCount, driver, runtime, version, copy_rate * 1e-9);
    for (int i = 0; i < argc; i++)
        printf(" %s", argv[i]);
    printf("\n%-4s %-5s %4s %4s %9s %9s  %-15s %6s %5s %6s %5s %4s %6s\n", "type", "op", "n",
           "nrhs", "ours us", "vendor us", "vendor's calls", "ratio", "need", "GB/s", "%", "need",
           "TF/s");
    FILE *csv = argc > 1 ? fopen(argv[1], "w") : nullptr;
    if (csv)
        fprintf(csv,
                "type,op,n,nrhs,batch,ours_us,vendor_us,vendor_calls,ratio,required_ratio,GB_per_s,"
                "share,required_share,tflops,copy_GB_per_s\n");
    if (wanted("MOAO_BENCH_TYPES", "d"))
        bench_type<double>(csv);
    if (wanted("MOAO_BENCH_TYPES", "s"))
        bench_type<float>(csv);
    if (csv)
        fclose(csv);
    CHECK(cublasDestroy(blas));
    CHECK(cusolverDnDestroy(solver));
    be->close(ctx);
    return 0;
}
