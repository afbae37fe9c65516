/* Double precision by integer tensor cores against the vendor's double precision, in one process.
 *   bench_integer [--csv FILE] [--scale PER_CENT] [--block COLUMNS] [--targets N]
 * [products|bytes|factor N...]... products: C := C - A B' of the shapes of a factor, of W and of
 * exposures, random data over three decades; vendor: cuBLAS dgemm; by 10, 12, 14 and 15 moduli,
 * residues formed in the call, of A kept, of both kept; the difference to dgemm in units of |a_i|
 * |b_j| in a sample of entries. bytes: sums of products of bytes alone, all moduli in one call of
 * the vendor's and one by one. factor N: Cholesky of a covariance of order N by integers, by potrf;
 * seconds, and |A v - L L' v|
 * /
 * (|A| |v|) of both; then both triangles for 5,336 rows. --scale: sizes of products in per cent;
 * --block: columns of a block of factors; --targets: blocks of 5,336 rows that are solved for
 * together, time of one. */
#include "bench_gpu.cuh"
#include "moao/integer_factor.h"
#include <cmath>
#include <vector>

static double scale = 1;
static int64_t block; /* 0: the library's choice */
static int targets = 1;

static integer_factor_options options_of(int64_t n) {
    integer_factor_options o = integer_factor_defaults(n, true);
    o.block = block > 0 ? block : o.block;
    return o;
}

__global__ void decades_kernel(double *a, int64_t count, uint64_t seed) {
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < count; k += stride)
        a[k] = bench_hash(k, seed) * exp10(1.5 * bench_hash(k, seed + 100));
}

static double *decades(int64_t count, uint64_t seed) {
    double *a = (double *)bench_alloc((size_t)count * 8);
    decades_kernel<<<132 * 16, 256, 0, stream>>>(a, count, seed);
    CU(cudaGetLastError());
    return a;
}

static int64_t scaled(int64_t n) {
    return std::max<int64_t>(64, (int64_t)(n * scale) / 64 * 64);
}

/* --- products */

struct operand {
    int64_t m, k;
    double *a;
    int8_t *r;
    integer_rows rows;
    void *work;
    int moduli;
};

static operand operand_new(int64_t m, int64_t k, uint64_t seed) {
    operand o = {m, k, decades(m * k, seed), NULL, {}, NULL, 0};
    o.r = (int8_t *)bench_alloc(integer_bytes(INTEGER_MODULI, m, k));
    o.rows.exponent = (int32_t *)bench_alloc((size_t)m * 4);
    o.work = bench_alloc((size_t)m * 16);
    return o;
}

static void operand_free(operand *o) {
    CU(cudaFree(o->a)), CU(cudaFree(o->r)), CU(cudaFree(o->rows.exponent)), CU(cudaFree(o->work));
}

static void convert(operand *o, int moduli) {
    o->rows = integer_plain(moduli, o->m, o->k, o->r, o->rows.exponent);
    const integer_matrix x = {'N', o->m, o->k, o->a, o->m, NULL, 0, NULL};
    OK(be->integer->scale(ctx, moduli, o->k, &x, o->rows.exponent, o->work, (size_t)o->m * 16));
    OK(be->integer->convert(ctx, moduli, &x, &o->rows));
}

/* Largest difference of c and d in a sample of entries, in units of |a_i| |b_j|. */
static double difference(int64_t m, int64_t n, int64_t k, const operand *a, const operand *b,
                         const double *c, const double *d) {
    enum { SAMPLE = 64 };
    double worst = 0;
    for (int s = 0; s < SAMPLE; s++) {
        const int64_t i = (s * 7919ll + 13) % m, j = (s * 104729ll + 7) % n;
        double x[2], norm[2];
        CU(cudaMemcpy(&x[0], c + i + j * m, 8, cudaMemcpyDefault));
        CU(cudaMemcpy(&x[1], d + i + j * m, 8, cudaMemcpyDefault));
        OK(cublasDnrm2_64(blas, k, a->a + i, m, &norm[0]));
        OK(cublasDnrm2_64(blas, k, b->a + j, n, &norm[1]));
        worst = std::max(worst, fabs(x[0] - x[1]) / (norm[0] * norm[1]));
    }
    return worst;
}

static void product_case(const char *what, int64_t m0, int64_t n0, int64_t k0) {
    static const int moduli[] = {10, 12, 14, 15};
    const int64_t m = scaled(m0), n = scaled(n0), k = scaled(k0);
    const double minus = -1, one = 1, flops = 2.0 * m * n * k;
    operand a = operand_new(m, k, 1), b = operand_new(n, k, 2);
    double *c = decades(m * n, 3), *d = decades(m * n, 3);
    const size_t lwork = be->integer->workspace(INTEGER_MODULI, m, n);
    void *work = bench_alloc(lwork);
    char shape[96];
    snprintf(shape, sizeof shape, "%ldx%ldx%ld", (long)m, (long)n, (long)k);
    const double native = bench_time(
        3, [] {},
        [&] {
            OK(cublasDgemm_64(blas, CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &minus, a.a, m, b.a, n, &one,
                              d, m));
        });
    printf("%s %s: native %.1f TF\n", what, shape, flops / native * 1e-9);
    for (int s : moduli) {
        integer_product p = {s, 'A', m, n, k, -1, 0, {}, {}, c, m, 0};
        double ms[3];
        for (int kept = 0; kept < 3; kept++)
            ms[kept] = bench_time(
                3, [&] { convert(&a, s), convert(&b, s); },
                [&] {
                    if (kept < 1)
                        convert(&a, s);
                    if (kept < 2)
                        convert(&b, s);
                    p.a = a.rows, p.b = b.rows, p.beta = 1;
                    OK(be->integer->gemm(ctx, &p, work, lwork));
                });
        const double zero = 0;
        p.beta = 0;
        OK(be->integer->gemm(ctx, &p, work, lwork));
        OK(cublasDgemm_64(blas, CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &minus, a.a, m, b.a, n, &zero, d,
                          m));
        CU(cudaStreamSynchronize(stream));
        printf("  %2d moduli: %6.1f TF, residues of A kept %6.1f, of both %6.1f; difference %.1e "
               "(bound %.1e)\n",
               s, flops / ms[0] * 1e-9, flops / ms[1] * 1e-9, flops / ms[2] * 1e-9,
               difference(m, n, k, &a, &b, c, d), integer_error(s, k));
        snprintf(shape, sizeof shape, "%ldx%ldx%ld by %d", (long)m, (long)n, (long)k, s);
        if (csv)
            bench_row("integer_gemm", BACKEND_D, shape, ms[0], native, flops, 0);
    }
    fflush(stdout);
    operand_free(&a), operand_free(&b);
    CU(cudaFree(c)), CU(cudaFree(d)), CU(cudaFree(work));
}

static void products() {
    product_case("factor", 51200, 4096, 51200);
    product_case("factor", 51200, 4096, 16384);
    product_case("factor", 90000, 4096, 8192);
    product_case("W", 5336, 4096, 49152);
    product_case("W", 5336, 8192, 98304);
    product_case("exposure", 10672, 4096, 98304);
    product_case("square", 16384, 16384, 16384);
}

/* --- bytes alone */

static void bytes() {
    enum { MODULI = 14 };
    const int64_t n = scaled(4096), k = scaled(49152);
    const int32_t one = 1, none = 0;
    int8_t *a = (int8_t *)bench_alloc((size_t)(MODULI * n * k)),
           *b = (int8_t *)bench_alloc((size_t)(MODULI * n * k));
    int32_t *c = (int32_t *)bench_alloc((size_t)(MODULI * n * n) * 4);
    CU(cudaMemset(a, 0x35, (size_t)(MODULI * n * k)));
    decades_kernel<<<132 * 16, 256, 0, stream>>>((double *)b, MODULI * n * k / 8, 5);
    decades_kernel<<<132 * 16, 256, 0, stream>>>((double *)a, MODULI * n * k / 8, 6);
    const double together = bench_time(
        3, [] {},
        [&] {
            OK(cublasGemmStridedBatchedEx_64(blas, CUBLAS_OP_T, CUBLAS_OP_N, n, n, k, &one, a,
                                             CUDA_R_8I, k, n * k, b, CUDA_R_8I, k, n * k, &none, c,
                                             CUDA_R_32I, n, n * n, MODULI, CUBLAS_COMPUTE_32I,
                                             CUBLAS_GEMM_DEFAULT));
        });
    const double each = bench_time(
        3, [] {},
        [&] {
            for (int t = 0; t < MODULI; t++)
                OK(cublasGemmEx_64(blas, CUBLAS_OP_T, CUBLAS_OP_N, n, n, k, &one, a + t * n * k,
                                   CUDA_R_8I, k, b + t * n * k, CUDA_R_8I, k, &none, c + t * n * n,
                                   CUDA_R_32I, n, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT));
        });
    const double ops = 2.0 * MODULI * n * n * k;
    printf("bytes %ldx%ldx%ld, %d moduli: in one call %.0f TOP/s, one by one %.0f\n", (long)n,
           (long)n, (long)k, (int)MODULI, ops / together * 1e-9, ops / each * 1e-9);
    CU(cudaFree(a)), CU(cudaFree(b)), CU(cudaFree(c));
}

/* --- the factor */

/* Points on a line, with noise: entries of the lower triangle, in columns from `first` on. */
__global__ void covariance_kernel(double *a, int64_t n, int64_t first) {
    const int64_t j = first + blockIdx.y;
    for (int64_t i = j + blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const double d = (double)(i - j) / 400;
        a[i + j * n] = exp(-d) * (1 + 0.2 * bench_hash(i, 1)) * (1 + 0.2 * bench_hash(j, 1)) +
                       (i == j ? 1e-3 : 0);
    }
}

static void covariance(double *a, int64_t n) {
    for (int64_t j = 0; j < n; j += 32768)
        covariance_kernel<<<dim3(64, (unsigned)std::min<int64_t>(32768, n - j)), 256, 0, stream>>>(
            a, n, j);
    CU(cudaGetLastError());
}

/* |A v - L L' v| / |A v|, A v before the factor. */
struct check_of {
    double *v, *av, *w;
};

static double backward(int64_t n, const double *a, const check_of *x) {
    const double minus = -1;
    double norm, error;
    CU(cudaMemcpyAsync(x->w, x->v, (size_t)n * 8, cudaMemcpyDefault, stream));
    OK(cublasDtrmv_64(blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, CUBLAS_DIAG_NON_UNIT, n, a, n,
                      x->w, 1));
    OK(cublasDtrmv_64(blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, n, a, n,
                      x->w, 1));
    OK(cublasDaxpy_64(blas, n, &minus, x->av, 1, x->w, 1));
    OK(cublasDnrm2_64(blas, n, x->w, 1, &error));
    OK(cublasDnrm2_64(blas, n, x->av, 1, &norm));
    return error / norm;
}

/* Both triangles for the rows of a target, by integers and by trsm, and how far they are apart. */
static void solve_case(int64_t n, const double *a, const int32_t *exponent) {
    const int64_t rows = 5336;
    const integer_factor_options o = options_of(n);
    const double one = 1, minus = -1, flops = 2.0 * rows * n * n;
    double *w[2], seconds[2], norm[2];
    for (int way = 0; way < 2; way++) {
        const size_t some = way ? integer_solve_bytes(be, &o, rows)
                                : be->workspace(BACKEND_TRSM, BACKEND_D, rows, n);
        const int count = way ? targets : 1;
        const size_t each = integer_bytes(o.moduli, rows, n) + (1 << 20);
        const size_t lwork = some + (size_t)(count - 1) * each;
        void *work = bench_alloc(lwork);
        std::vector<integer_solve_rows> r;
        for (int k = count - 1; k >= 0; k--)
            r.push_back({rows, w[way] = decades(rows * n, 11), rows});
        seconds[way] = 1e-3 / count *
                       bench_time(
                           2,
                           [&] {
                               for (auto &x : r)
                                   decades_kernel<<<132 * 16, 256, 0, stream>>>(x.w, rows * n, 11);
                           },
                           [&] {
                               if (way)
                                   OK(integer_solve(be, ctx, &o, a, n, exponent, count, r.data(),
                                                    work, lwork));
                               for (int pass = 0; !way && pass < 2; pass++)
                                   OK(be->trsm(ctx, BACKEND_D, 'R', 'L', pass ? 'N' : 'T', 'N',
                                               rows, n, &one, a, n, w[0], rows, work, lwork));
                           });
        OK(cublasDnrm2_64(blas, rows * n, w[way], 1, &norm[0]));
        for (auto &x : r)
            if (x.w != w[way])
                CU(cudaFree(x.w));
        CU(cudaFree(work));
    }
    OK(cublasDaxpy_64(blas, rows * n, &minus, w[0], 1, w[1], 1));
    OK(cublasDnrm2_64(blas, rows * n, w[1], 1, &norm[1]));
    printf("triangles of %ld, %ld rows: native %.3f s, %.1f TF; by integers (%d together) %.3f s, "
           "%.1f TF; difference %.1e of W\n",
           (long)n, (long)rows, seconds[0], flops / seconds[0] * 1e-12, targets, seconds[1],
           flops / seconds[1] * 1e-12, norm[1] / norm[0]);
    fflush(stdout);
    CU(cudaFree(w[0])), CU(cudaFree(w[1]));
}

static void factor_case(int64_t n) {
    const size_t all = (size_t)n * (size_t)n * 8;
    const integer_factor_options o = options_of(n);
    double *a = (double *)bench_alloc(all), seconds[2], error[2];
    check_of x = {decades(n, 9), (double *)bench_alloc((size_t)n * 8),
                  (double *)bench_alloc((size_t)n * 8)};
    const double one = 1, zero = 0;
    int *info = (int *)bench_alloc(sizeof *info);
    int32_t *exponent = (int32_t *)bench_alloc((size_t)n * 4);
    for (int way = 0; way < 2; way++) {
        const size_t lwork =
            way ? integer_potrf_bytes(be, &o) : be->workspace(BACKEND_POTRF, BACKEND_D, n, n);
        void *work = bench_alloc(lwork);
        seconds[way] = 1e30;
        for (int run = 0; run < 2; run++) {
            int64_t minor = 0;
            int host = 0;
            covariance(a, n);
            OK(cublasDsymv_64(blas, CUBLAS_FILL_MODE_LOWER, n, &one, a, n, x.v, 1, &zero, x.av, 1));
            CU(cudaStreamSynchronize(stream));
            const auto from = std::chrono::steady_clock::now();
            if (way) {
                OK(integer_potrf(be, ctx, &o, a, n, exponent, &minor, work, lwork));
            } else {
                OK(be->potrf(ctx, BACKEND_D, 'L', n, a, n, info, work, lwork));
                CU(cudaMemcpyAsync(&host, info, sizeof host, cudaMemcpyDefault, stream));
            }
            CU(cudaStreamSynchronize(stream));
            const std::chrono::duration<double> t = std::chrono::steady_clock::now() - from;
            seconds[way] = std::min(seconds[way], t.count());
            if (minor != 0 || host != 0)
                printf("order %ld: minor %ld is not positive\n", (long)n, (long)(minor + host));
        }
        error[way] = backward(n, a, &x);
        CU(cudaFree(work));
        printf("factor %ld %s (blocks of %ld): %.3f s, %.1f TF, |A v - L L' v| / |A v| %.1e\n",
               (long)n, way ? "by integers" : "native", (long)(way ? o.block : 0), seconds[way],
               (double)n * n * n / 3 / seconds[way] * 1e-12, error[way]);
        fflush(stdout);
    }
    solve_case(n, a, exponent);
    CU(cudaFree(a)), CU(cudaFree(x.v)), CU(cudaFree(x.av)), CU(cudaFree(x.w)), CU(cudaFree(info));
    CU(cudaFree(exponent));
}

int main(int argc, char **argv) {
    const char *path = NULL;
    int at = 1;
    bool factors = false;
    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--csv"))
            path = argv[at + 1];
        else if (!strcmp(argv[at], "--block"))
            block = atoll(argv[at + 1]);
        else if (!strcmp(argv[at], "--targets"))
            targets = atoi(argv[at + 1]);
        else
            scale = atof(argv[at + 1]) / 100;
    }
    bench_open(path);
    if (at == argc)
        products(), bytes(), factor_case(20480);
    for (; at < argc; at++) {
        if (!strcmp(argv[at], "products"))
            products();
        else if (!strcmp(argv[at], "bytes"))
            bytes();
        else if (!strcmp(argv[at], "factor"))
            factors = true;
        else if (factors)
            factor_case(atoll(argv[at]));
    }
    return 0;
}
