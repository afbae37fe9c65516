/* H2 matrices of the covariance of Boukaram et al., section 8: points of a jittered grid of the
 * unit square, exponential kernel of length 0.1, Chebyshev nodes 8 x 8 (leaves of 64) and 11 x 11
 * (coarser pairs). Compression at several tolerances: bytes before and after, seconds; products
 * with many vectors against the copy's bandwidth. usage: bench_h2 [--csv FILE] [--seconds S]
 * [--single] [compress | coarse | times]... */
#include "bench_gpu.cuh"
#include "linalg/hier/h2.h"
#include <math.h>

static double budget = 1e9;
static backend_type type = BACKEND_D;
static bool mean_split = true;

static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A number in (0, 1) that depends on i alone. */
static double uniform(uint64_t i) {
    uint64_t z = i * 0x9e3779b97f4a7c15u + 0x1234567;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

struct problem {
    std::vector<double> x;
    hier_source s;
    format *f;
    hier_info info;
    double seconds, scale; /* scale: rms of an entry */
    problem(int64_t n, int order, double eta, int leaf) : x(2 * (size_t)n) {
        const int64_t side = (int64_t)ceil(sqrt((double)n));
        for (int64_t i = 0; i < n; i++) {
            x[2 * (size_t)i] = ((double)(i % side) + 0.1 + 0.8 * uniform(2 * i)) / (double)side;
            x[2 * (size_t)i + 1] =
                ((double)(i / side) + 0.1 + 0.8 * uniform(2 * i + 1)) / (double)side;
        }
        OK(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.1, 2, n, x.data(), &s));
        hier_options o = {};
        o.kind = HIER_H2, o.type = type, o.leaf = leaf, o.order = order, o.eta = eta,
        o.mean_split = mean_split;
        const double begin = now();
        OK(hier_open(be, ctx, &s, &o, &f));
        seconds = now() - begin;
        hier_describe(f, &info);
        double sum = 0;
        int64_t count = 0;
        for (int64_t i = 0; i < n; i += n / 64 + 1)
            for (int64_t j = 0; j < n; j += n / 4096 + 1, count++)
                sum += exp(-2 * hypot(x[2 * i] - x[2 * j], x[2 * i + 1] - x[2 * j + 1]) / 0.1);
        scale = sqrt(sum / (double)count);
    }
    ~problem() {
        hier_close(f);
        hier_points_close(&s);
    }
    double error() {
        double rms, worst;
        OK(hier_check(f, &s, x.size() > 400000 ? 8 : 16, 1, &rms, &worst));
        return rms / scale;
    }
};

static void compress(int64_t n, int order, double eta, int leaf, double tol, char weights,
                     int samples, bool check) {
    problem p(n, order, eta, leaf);
    const double e0 = check ? p.error() : NAN;
    CU(cudaDeviceSynchronize());
    const double begin = now();
    OK(hier_compress(p.f, tol, weights, samples));
    CU(cudaDeviceSynchronize());
    const double s = now() - begin, e1 = check ? p.error() : NAN;
    hier_info a;
    hier_describe(p.f, &a);
    const double low0 = 1e-6 * (double)(p.info.bytes - p.info.bytes_dense_part),
                 low1 = 1e-6 * (double)(a.bytes - a.bytes_dense_part),
                 dense = 1e-6 * (double)a.bytes_dense_part;
    printf("%8lld %c %2d^2 eta %.2f leaf %3d tol %.0e %c %3d  build %7.3f s  compress %7.3f s  low "
           "rank %9.1f -> %8.1f MB (%5.1f x) "
           "dense %8.1f MB  rank %3d -> %3d (%3d)  error %.1e -> %.1e\n",
           (long long)n, type == BACKEND_D ? 'D' : 'S', order, eta, leaf, tol, weights, samples,
           p.seconds, s, low0, low1, low0 / low1, dense, p.info.rank_mean, a.rank_mean, a.rank_max,
           e0, e1);
    if (csv)
        fprintf(csv, "%lld,%c,%d,%g,%d,%g,%c,%d,%g,%g,%g,%g,%g,%d,%d,%g,%g\n", (long long)n,
                type == BACKEND_D ? 'D' : 'S', order, eta, leaf, tol, weights, samples, p.seconds,
                s, low0, low1, dense, a.rank_mean, a.rank_max, e0, e1);
    fflush(stdout);
}

/* Products with many vectors: time, TFLOP/s, and the bytes that must move once (factors, X, Y). */
static void times(int64_t n, double tol) {
    problem p(n, 8, 1, 64);
    OK(hier_compress(p.f, tol, 'W', 0));
    hier_info a;
    hier_describe(p.f, &a);
    const size_t size = backend_size(type);
    void *big = bench_alloc((size_t)2 << 30);
    const double copy = bench_time(
        7, [] {},
        [&] {
            CU(cudaMemcpyAsync(big, (char *)big + ((size_t)1 << 30), (size_t)1 << 30,
                               cudaMemcpyDeviceToDevice, stream));
        });
    CU(cudaFree(big));
    const double rate = 2.0 * 1073741824.0 / copy * 1e-6;
    printf("# n = %lld %c: rank %d, %.1f MB, copy %.0f GB/s; columns, ms, TFLOP/s, GB/s of once, "
           "share of the copy\n",
           (long long)n, type == BACKEND_D ? 'D' : 'S', a.rank_mean, 1e-6 * (double)a.bytes, rate);
    for (int64_t cols : {1, 8, 64, 256}) {
        const size_t bytes = size * (size_t)(n * cols), lwork = hier_workspace(p.f, 'L', cols);
        void *x = bench_alloc(bytes), *y = bench_alloc(bytes), *work = bench_alloc(lwork);
        bench_fill(type, x, n, cols, 1, 0);
        const double ms = bench_time(
            7, [] {},
            [&] { OK(hier_apply(p.f, 'L', 'N', 'A', cols, 1, x, n, 0, y, n, work, lwork)); });
        const double once = ((double)a.bytes + 2 * (double)bytes) / ms * 1e-6;
        printf("  %4lld %9.3f %7.2f %8.0f %6.2f\n", (long long)cols, ms,
               a.flops * (double)cols / ms * 1e-9, once, once / rate);
        fflush(stdout);
        CU(cudaFree(x)), CU(cudaFree(y)), CU(cudaFree(work));
    }
    const h2 *h = (const h2 *)p.f;
    const plan *q = &h->plan;
    const int64_t cols = 64;
    const size_t bytes = size * (size_t)(n * cols), lwork = hier_workspace(p.f, 'L', cols);
    char *x = (char *)bench_alloc(bytes), *y = (char *)bench_alloc(bytes),
         *work = (char *)bench_alloc(lwork);
    CU(cudaMemset(work, 0, lwork));
    bench_fill(type, x, n, cols, 1, 0);
    const hier_operand from[HIER_OPERANDS] = {
        {x, n}, {work, h->ranks}, {work + lwork / 2, h->ranks}, {NULL, 1}};
    for (int l = 0; l < q->launches; l++) {
        const hier_gemm_sums s = plan_part(q, l);
        double flops = 0;
        for (int64_t b = q->first[l]; b < q->first[l] + s.count; b++)
            for (int e = 0; e < q->sum[b].terms; e++)
                flops += 2.0 * q->sum[b].m * q->term[q->sum[b].first + e].k * (double)cols;
        const bool last = l + 1 == q->launches;
        const double ms = bench_time(
            3, [] {},
            [&] {
                OK(be->hier->sums(ctx, type, 'L', &s, cols, 1, from, 0,
                                  last             ? y
                                  : l < h->sums_up ? work
                                                   : work + lwork / 2,
                                  last ? n : h->ranks));
            });
        printf("    launch %2d: %6lld sums of up to %3lld, %8.3f ms, %6.2f TFLOP/s\n", l,
               (long long)s.count, (long long)s.most, ms, flops / ms * 1e-9);
    }
    CU(cudaFree(x)), CU(cudaFree(y)), CU(cudaFree(work));
}

int main(int argc, char **argv) {
    const double begin = now();
    std::vector<std::string> what;
    const char *file = NULL;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--csv") && i + 1 < argc)
            file = argv[++i];
        else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
            budget = atof(argv[++i]);
        else if (!strcmp(argv[i], "--single"))
            type = BACKEND_S;
        else
            what.push_back(argv[i]);
    bench_open(NULL);
    if (file) {
        csv = fopen(file, "a");
        if (ftell(csv) == 0)
            fprintf(csv, "n,type,order,eta,leaf,tol,weights,samples,build_s,compress_s,low_before_"
                         "mb,low_after_mb,dense_mb,rank,"
                         "rank_max,error_before,error_after\n");
    }
    const double fine = type == BACKEND_D ? 1e-7 : 1e-5;
    for (const std::string &w : what)
        if (w == "compress") {
            for (double tol : {1e-3, 1e-5, fine})
                compress(1 << 14, 8, 1, 64, tol, 'W', 0, true);
            for (int64_t n = 1 << 14; n <= 1 << 20; n *= 4)
                for (int k = 0; k < 3 && now() - begin < budget; k++)
                    compress(n, 8, 1, 64, fine, k ? 'W' : 'N', k == 2 ? 32 : 0, true);
        } else if (w == "coarse") {
            for (int64_t n = 1 << 14; n <= 1 << 18; n *= 4)
                for (int k = 0; k < 3 && now() - begin < budget; k++)
                    compress(n, 11, 0.7, 128, fine, k ? 'W' : 'N', k == 2 ? 64 : 0, true);
        } else if (w == "times") {
            mean_split = false;
            times(1 << 17, fine);
            if (now() - begin < budget)
                times(1 << 20, fine);
        }
    if (csv)
        fclose(csv);
    return 0;
}
