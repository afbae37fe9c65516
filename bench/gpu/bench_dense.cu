/* Dense operations on one GPU: ours, the vendor's and the ceiling (gemm of the same order) in one
 * run. bench_dense [--csv FILE] [--float] [--settle] GROUP... [size=value...]   groups: see main
 * --settle: half a second of the same call before it is timed */
#include "bench_gpu.cuh"
#include <cusolverDn.h>

static const double one = 1, zero = 0;
static const float one_f = 1, zero_f = 0;
static backend_type type = BACKEND_D;
static cusolverDnHandle_t solver;

static size_t es() {
    return backend_size(type);
}
static const void *c1() {
    return type == BACKEND_D ? (const void *)&one : &one_f;
}
static const void *c0() {
    return type == BACKEND_D ? (const void *)&zero : &zero_f;
}

static int reps_for(double flops) {
    const double ms = flops / 20e9; /* at 20 TFLOP/s */
    return ms > 10000 ? 1 : ms > 1000 ? 3 : ms > 100 ? 5 : ms > 10 ? 7 : 15;
}

static void vendor_gemm(int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b,
                        int64_t ldb, void *c, int64_t ldc) {
    if (type == BACKEND_D)
        OK(cublasDgemm_64(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, (double *)a, lda,
                          (double *)b, ldb, &zero, (double *)c, ldc));
    else
        OK(cublasSgemm_64(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one_f, (float *)a, lda,
                          (float *)b, ldb, &zero_f, (float *)c, ldc));
}

/* TFLOP/s of a gemm of order n, measured once per n. */
static double ceiling(int64_t n) {
    static std::vector<std::pair<int64_t, double>> known;
    for (auto &k : known)
        if (k.first == n)
            return k.second;
    void *a = bench_alloc(n * n * es()), *b = bench_alloc(n * n * es()),
         *c = bench_alloc(n * n * es());
    bench_fill(type, a, n, n, 1, 0, 1);
    bench_fill(type, b, n, n, 1, 0, 2);
    const double flops = 2.0 * n * n * n;
    const double ms = bench_time(
        reps_for(flops), [] {}, [&] { vendor_gemm(n, n, n, a, n, b, n, c, n); });
    CU(cudaFree(a)), CU(cudaFree(b)), CU(cudaFree(c));
    known.push_back({n, flops / ms * 1e-9});
    return known.back().second;
}

struct tri_case {
    char side, uplo, trans;
};

static cublasStatus_t vendor_tri(bool solve, tri_case v, int64_t m, int64_t n, const void *a,
                                 int64_t lda, const void *b, void *c, int64_t ldb) {
    const auto s = v.side == 'L' ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
    const auto u = v.uplo == 'L' ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    const auto o = v.trans == 'N' ? CUBLAS_OP_N : CUBLAS_OP_T;
    const auto d = CUBLAS_DIAG_NON_UNIT;
    if (type == BACKEND_D)
        return solve ? cublasDtrsm_64(blas, s, u, o, d, m, n, &one, (double *)a, lda, (double *)c,
                                      ldb)
                     : cublasDtrmm_64(blas, s, u, o, d, m, n, &one, (double *)a, lda, (double *)b,
                                      ldb, (double *)c, ldb);
    return solve ? cublasStrsm_64(blas, s, u, o, d, m, n, &one_f, (float *)a, lda, (float *)c, ldb)
                 : cublasStrmm_64(blas, s, u, o, d, m, n, &one_f, (float *)a, lda, (float *)b, ldb,
                                  (float *)c, ldb);
}

/* Relative difference of two results (norm of the difference over the norm), as a check beside each
 * timing. */
static double difference(const void *x, const void *y, int64_t count) {
    const int64_t some = std::min<int64_t>(count, 1 << 22);
    std::vector<char> hx(some * es()), hy(some * es());
    double d = 0, s = 0;
    CU(cudaMemcpyAsync(hx.data(), x, some * es(), cudaMemcpyDefault, stream));
    CU(cudaMemcpyAsync(hy.data(), y, some * es(), cudaMemcpyDefault, stream));
    CU(cudaStreamSynchronize(stream));
    for (int64_t i = 0; i < some; i++) {
        const double p = type == BACKEND_D ? ((double *)hx.data())[i] : ((float *)hx.data())[i];
        const double q = type == BACKEND_D ? ((double *)hy.data())[i] : ((float *)hy.data())[i];
        d += (p - q) * (p - q), s += q * q;
    }
    return sqrt(d / (s > 0 ? s : 1));
}

static void tri(bool solve, tri_case v, int64_t m, int64_t n, bool vendor, bool both_places) {
    const int64_t order = v.side == 'L' ? m : n;
    const double flops = (double)m * n * order;
    void *a = bench_alloc(order * order * es()), *b0 = bench_alloc(m * n * es()),
         *b = bench_alloc(m * n * es());
    void *c = vendor ? bench_alloc(m * n * es()) : NULL;
    const size_t lwork = be->workspace(solve ? BACKEND_TRSM : BACKEND_TRMM, type, m, n);
    void *work = bench_alloc(lwork);
    char shape[64], note[128] = "";
    bench_fill(type, a, order, order, 1.0 / order, 1.5, 3);
    bench_fill(type, b0, m, n, 1, 0, 4);
    const int reps = reps_for(flops);
    const auto refill = [&](void *x) {
        CU(cudaMemcpyAsync(x, b0, m * n * es(), cudaMemcpyDefault, stream));
    };
    const double ours = bench_time(
        reps, [&] { refill(b); },
        [&] {
            OK((solve ? be->trsm : be->trmm)(ctx, type, v.side, v.uplo, v.trans, 'N', m, n, c1(), a,
                                             order, b, m, work, lwork));
        });
    double theirs = 0;
    if (vendor) {
        theirs = bench_time(
            reps, [&] { refill(c); }, [&] { OK(vendor_tri(solve, v, m, n, a, order, c, c, m)); });
        snprintf(note, sizeof note, "difference %.1e work %.0f MiB", difference(b, c, m * n),
                 lwork / 1048576.0);
    }
    snprintf(shape, sizeof shape, "%c%c%c %ldx%ld", v.side, v.uplo, v.trans, (long)m, (long)n);
    bench_row(solve ? "trsm" : "trmm", type, shape, ours, theirs, flops,
              order <= 32768 ? ceiling(order) : 0, note);
    if (vendor && both_places) {
        const double out = bench_time(
            reps, [] {}, [&] { OK(vendor_tri(false, v, m, n, a, order, b0, c, m)); });
        bench_row("trmm/out", type, shape, ours, out, flops, flops / out * 1e-9,
                  "vendor out of place");
    }
    CU(cudaFree(a)), CU(cudaFree(b0)), CU(cudaFree(b)), CU(cudaFree(work));
    if (c)
        CU(cudaFree(c));
}

static void trsm_group() {
    for (int64_t n : {1024, 2048, 4096, 8192, 16384})
        tri(true, {'L', 'L', 'N'}, n, 512, true, false);
    for (int64_t n : {1024, 2048, 4096, 8192, 16384})
        tri(true, {'L', 'L', 'N'}, n, n, true, false);
}
static void trsm_few() {
    for (int64_t nrhs : {1, 8, 64, 128, 256})
        for (int64_t n : {4096, 16384})
            tri(true, {'L', 'L', 'N'}, n, nrhs, true, false);
}
static void trmm_group() {
    for (int64_t n : {1024, 2048, 4096, 8192, 16384})
        tri(false, {'L', 'L', 'N'}, n, 512, true, true);
    for (int64_t n : {4096, 16384})
        tri(false, {'L', 'L', 'N'}, n, n, true, true);
}
static void variants_group() {
    for (int v = 0; v < 8; v++) {
        const tri_case c = {"LR"[v >> 2], "LU"[v >> 1 & 1], "NT"[v & 1]};
        const int64_t m = c.side == 'L' ? 8192 : 512, n = c.side == 'L' ? 512 : 8192;
        tri(true, c, m, n, true, false);
        tri(false, c, m, n, true, true);
    }
}
static void tri_big() {
    const int64_t n = 102400, m = 5336;
    tri(false, {'R', 'L', 'N'}, m, n, false, false);
    tri(true, {'R', 'L', 'T'}, m, n, true, false);
}

/* The ceiling of shapes with an order of 102400: a gemm m x n x n. */
static double big_gemm(int64_t m, int64_t n) {
    void *a = bench_alloc(n * n * es()), *b = bench_alloc(m * n * es()),
         *c = bench_alloc(m * n * es());
    bench_fill(type, a, n, n, 1, 0, 1);
    bench_fill(type, b, m, n, 1, 0, 2);
    const double ms = bench_time(
        3, [] {}, [&] { vendor_gemm(m, n, n, b, m, a, n, c, m); });
    CU(cudaFree(a)), CU(cudaFree(b)), CU(cudaFree(c));
    printf("gemm %ld x %ld x %ld: %.3f ms, %.2f TFLOP/s\n", (long)m, (long)n, (long)n, ms,
           2.0 * m * n * n / ms * 1e-9);
    return 2.0 * m * n * n / ms * 1e-9;
}

static void symm(char side, char uplo, int64_t m, int64_t n, bool vendor, double top) {
    const int64_t order = side == 'L' ? m : n;
    const double flops = 2.0 * m * n * order;
    void *a = bench_alloc(order * order * es()), *b = bench_alloc(m * n * es()),
         *c = bench_alloc(m * n * es());
    const size_t lwork = be->workspace(BACKEND_SYMM, type, m, n);
    void *work = bench_alloc(lwork);
    char shape[64];
    bench_fill(type, a, order, order, 1, 0, 3);
    bench_fill(type, b, m, n, 1, 0, 4);
    const int reps = reps_for(flops);
    const double ours = bench_time(
        reps, [] {},
        [&] {
            OK(be->symm(ctx, type, side, uplo, m, n, c1(), a, order, b, m, c0(), c, m, work,
                        lwork));
        });
    const auto s = side == 'L' ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
    const auto u = uplo == 'L' ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    const double theirs =
        !vendor ? 0
                : bench_time(
                      flops > 1e14 ? 1 : reps, [] {},
                      [&] {
                          if (type == BACKEND_D)
                              OK(cublasDsymm_64(blas, s, u, m, n, &one, (double *)a, order,
                                                (double *)b, m, &zero, (double *)c, m));
                          else
                              OK(cublasSsymm_64(blas, s, u, m, n, &one_f, (float *)a, order,
                                                (float *)b, m, &zero_f, (float *)c, m));
                      });
    snprintf(shape, sizeof shape, "%c%c %ldx%ld", side, uplo, (long)m, (long)n);
    bench_row("symm", type, shape, ours, theirs, flops, top > 0 ? top : ceiling(order));
    CU(cudaFree(a)), CU(cudaFree(b)), CU(cudaFree(c)), CU(cudaFree(work));
}

static void syrk(bool two, int64_t n, int64_t k) {
    const double flops = (two ? 2.0 : 1.0) * n * n * k;
    void *a = bench_alloc(n * k * es()), *b = bench_alloc(n * k * es()),
         *c = bench_alloc(n * n * es());
    char shape[64];
    bench_fill(type, a, n, k, 1, 0, 3);
    bench_fill(type, b, n, k, 1, 0, 4);
    const auto u = CUBLAS_FILL_MODE_LOWER;
    const auto o = CUBLAS_OP_N;
    const int reps = reps_for(flops);
    const double ours = bench_time(
        reps, [] {},
        [&] {
            if (two)
                OK(be->syr2k(ctx, type, 'L', 'N', n, k, c1(), a, n, b, n, c0(), c, n, NULL, 0));
            else
                OK(be->syrk(ctx, type, 'L', 'N', n, k, c1(), a, n, c0(), c, n, NULL, 0));
        });
    const double theirs = bench_time(
        reps, [] {},
        [&] {
            if (type == BACKEND_D && two)
                OK(cublasDsyr2k_64(blas, u, o, n, k, &one, (double *)a, n, (double *)b, n, &zero,
                                   (double *)c, n));
            else if (type == BACKEND_D)
                OK(cublasDsyrk_64(blas, u, o, n, k, &one, (double *)a, n, &zero, (double *)c, n));
            else if (two)
                OK(cublasSsyr2k_64(blas, u, o, n, k, &one_f, (float *)a, n, (float *)b, n, &zero_f,
                                   (float *)c, n));
            else
                OK(cublasSsyrk_64(blas, u, o, n, k, &one_f, (float *)a, n, &zero_f, (float *)c, n));
        });
    snprintf(shape, sizeof shape, "LN %ld k %ld", (long)n, (long)k);
    bench_row(two ? "syr2k" : "syrk", type, shape, ours, theirs, flops,
              ceiling(std::max(n, k) == k ? k : n));
    CU(cudaFree(a)), CU(cudaFree(b)), CU(cudaFree(c));
}

static void sym_group() {
    for (int64_t n : {1024, 2048, 4096, 8192, 16384})
        symm('R', 'L', 512, n, true, 0);
    for (int64_t n : {2048, 4096, 16384})
        symm('L', 'U', n, n, true, 0);
    for (int64_t n : {2048, 4096, 8192, 16384})
        syrk(false, n, n);
    for (int64_t n : {4096, 16384})
        syrk(false, n, 256);
    for (int64_t n : {2048, 4096, 8192, 16384})
        syrk(true, n, n);
}
static void symm_big() {
    const double top = big_gemm(5336, 102400);
    symm('R', 'L', 5336, 102400, true, top);
}

static void factor(bool inverse, char uplo, int64_t n, bool vendor, double top) {
    const double flops = inverse ? 2.0 / 3 * n * n * n : 1.0 / 3 * n * n * n;
    void *a = bench_alloc(n * n * es()),
         *b = vendor && n < 50000 ? bench_alloc(n * n * es()) : NULL;
    int *info = (int *)bench_alloc(4), got = -1;
    const size_t lwork = std::max(be->workspace(BACKEND_POTRF, type, 0, n),
                                  be->workspace(BACKEND_POTRI, type, 0, n));
    void *work = bench_alloc(lwork);
    char shape[64], note[64] = "";
    const int reps = reps_for(flops);
    const auto prepare = [&](void *x) {
        bench_fill(type, x, n, n, 1.0 / n, 2, 5);
        if (inverse)
            OK(be->potrf(ctx, type, uplo, n, x, n, info, work, lwork));
    };
    const double ours = bench_time(
        reps, [&] { prepare(a); },
        [&] {
            OK((inverse ? be->potri : be->potrf)(ctx, type, uplo, n, a, n, info, work, lwork));
        });
    CU(cudaMemcpyAsync(&got, info, 4, cudaMemcpyDefault, stream));
    CU(cudaStreamSynchronize(stream));
    const auto u = uplo == 'L' ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    const cudaDataType_t dt = type == BACKEND_D ? CUDA_R_64F : CUDA_R_32F;
    double theirs = 0;
    if (vendor) {
        void *x = b ? b : a, *dw;
        size_t dev = 0, host = 0;
        int lw = 0;
        if (inverse)
            OK(type == BACKEND_D
                   ? cusolverDnDpotri_bufferSize(solver, u, (int)n, (double *)x, (int)n, &lw)
                   : cusolverDnSpotri_bufferSize(solver, u, (int)n, (float *)x, (int)n, &lw)),
                dev = lw * es();
        else
            OK(cusolverDnXpotrf_bufferSize(solver, NULL, u, n, dt, x, n, dt, &dev, &host));
        dw = bench_alloc(dev);
        std::vector<char> hw(host + 1);
        theirs = bench_time(
            reps, [&] { prepare(x); },
            [&] {
                if (!inverse)
                    OK(cusolverDnXpotrf(solver, NULL, u, n, dt, x, n, dt, dw, dev, hw.data(), host,
                                        info));
                else if (type == BACKEND_D)
                    OK(cusolverDnDpotri(solver, u, (int)n, (double *)x, (int)n, (double *)dw, lw,
                                        info));
                else
                    OK(cusolverDnSpotri(solver, u, (int)n, (float *)x, (int)n, (float *)dw, lw,
                                        info));
            });
        CU(cudaFree(dw));
    }
    snprintf(shape, sizeof shape, "%c %ld", uplo, (long)n);
    /* the triangle alone is compared: the first column of a lower one, the last of an upper one */
    if (b)
        snprintf(note, sizeof note, "info %d difference %.1e", got,
                 difference(uplo == 'L' ? a : (char *)a + n * (n - 1) * es(),
                            uplo == 'L' ? b : (char *)b + n * (n - 1) * es(), n));
    bench_row(inverse ? "potri" : "potrf", type, shape, ours, theirs, flops,
              top > 0 ? top : ceiling(n), note);
    CU(cudaFree(a)), CU(cudaFree(info)), CU(cudaFree(work));
    if (b)
        CU(cudaFree(b));
}

static void potrf_group() {
    for (int64_t n : {64, 128, 256, 512, 768, 1024, 2048, 4096, 8192, 16384})
        factor(false, 'L', n, true, 0);
    factor(false, 'U', 4096, true, 0);
}
static void potri_group() {
    for (int64_t n : {256, 512, 1024, 2048, 4096, 8192, 16384})
        factor(true, 'L', n, true, 0);
    factor(true, 'U', 4096, true, 0);
}
static void potrf_big() {
    const int64_t n = 102400, w = 11776;
    void *a = bench_alloc(n * n * 8), *b = bench_alloc(n * w * 8), *c = bench_alloc(n * w * 8);
    bench_fill(type, a, n, n, 1, 0, 1);
    bench_fill(type, b, n, w, 1, 0, 2);
    const double ms = bench_time(
        1, [] {}, [&] { vendor_gemm(n, w, n, a, n, b, n, c, n); });
    CU(cudaFree(a)), CU(cudaFree(b)), CU(cudaFree(c));
    const double top = 2.0 * n * w * n / ms * 1e-9;
    printf("gemm %ld x %ld x %ld: %.3f ms, %.2f TFLOP/s\n", (long)n, (long)w, (long)n, ms, top);
    factor(false, 'L', n, true, top);
}

/* Ours alone at full size, once: for trying sizes out. */
static void potrf_huge() {
    factor(false, 'L', 102400, false, 1);
}

/* Backward error |op(A) X - B| / (|A| |X| + |B|) in eps for B = A X0, on ill-conditioned triangles;
 * ours at several sizes of inverted blocks, and the vendor's. */
__global__ void hard_triangle(double *a, int64_t n, int kind) {
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < n * n;
         k += (int64_t)gridDim.x * blockDim.x) {
        const int64_t i = k % n, j = k / n;
        const double far = (double)(i - j) * (double)(i - j);
        if (kind == 0) /* a Gaussian covariance, to be factored */
            a[k] = exp(-far / 800) + (i == j ? 1e-9 : 0);
        else /* Kahan's: the inverse grows by 1 + c per row */
            a[k] = i == j ? 1 : i > j ? -(kind == 1 ? 0.01 : 0.04) : 0;
    }
}
template <class F>
static double residual(int64_t n, int64_t w, const double *a, const double *b, double *x, double *r,
                       F norm) {
    const double minus = -1;
    CU(cudaMemcpyAsync(r, x, n * w * 8, cudaMemcpyDefault, stream));
    OK(cublasDtrmm_64(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                      CUBLAS_DIAG_NON_UNIT, n, w, &one, a, n, x, n, r, n));
    OK(cublasDaxpy_64(blas, n * w, &minus, b, 1, r, 1));
    return norm(r) / norm(x);
}
static void accuracy() {
    static const char *const names[] = {"covariance factor, condition 1e5 (L)", "Kahan c = 0.01",
                                        "Kahan c = 0.04"};
    const int64_t n = 2048, w = 64;
    double *a = (double *)bench_alloc(n * n * 8), *x0 = (double *)bench_alloc(n * w * 8),
           *b = (double *)bench_alloc(n * w * 8);
    double *x = (double *)bench_alloc(n * w * 8), *r = (double *)bench_alloc(n * w * 8);
    const size_t lwork = (size_t)64 << 20;
    void *work = bench_alloc(lwork);
    int *info = (int *)bench_alloc(4);
    const auto norm = [&](const double *v, int64_t count) {
        double s;
        OK(cublasDnrm2_64(blas, count, v, 1, &s));
        return s;
    };
    for (int kind = 0; kind < 3; kind++) {
        hard_triangle<<<1024, 256, 0, stream>>>(a, n, kind);
        if (kind == 0)
            OK(be->potrf(ctx, BACKEND_D, 'L', n, a, n, info, work, lwork));
        bench_fill(BACKEND_D, x0, n, w, 1, 0, 9);
        OK(cublasDtrmm_64(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                          CUBLAS_DIAG_NON_UNIT, n, w, &one, a, n, x0, n, b, n));
        const double size = norm(a, n * n);
        printf("%-40s", names[kind]);
        for (bool vendor : {true, false}) {
            CU(cudaMemcpyAsync(x, b, n * w * 8, cudaMemcpyDefault, stream));
            if (vendor) {
                OK(cublasDtrsm_64(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                                  CUBLAS_DIAG_NON_UNIT, n, w, &one, a, n, x, n));
            } else {
                OK(be->trsm(ctx, BACKEND_D, 'L', 'L', 'N', 'N', n, w, &one, a, n, x, n, work,
                            lwork));
            }
            const double res =
                residual(n, w, a, b, x, r, [&](const double *v) { return norm(v, n * w); });
            printf("  %s: %9.2e eps", vendor ? "vendor" : "inverted", res / size / 2.22e-16);
        }
        printf("\n");
    }
    CU(cudaFree(a)), CU(cudaFree(x0)), CU(cudaFree(b)), CU(cudaFree(x)), CU(cudaFree(r)),
        CU(cudaFree(work)), CU(cudaFree(info));
}

/* Out of place, blocks of inverses and other pieces alone: what the sizes in the table of methods
 * were chosen from. */
static void gemm_shapes() {
    for (int64_t n : {256, 512, 1024, 2048, 4096, 8192}) {
        void *a = bench_alloc(n * n * 8), *b = bench_alloc(n * 512 * 8),
             *c = bench_alloc(n * 512 * 8);
        bench_fill(BACKEND_D, a, n, n, 1, 0, 1);
        bench_fill(BACKEND_D, b, n, 512, 1, 0, 2);
        const double ms = bench_time(
                              15, [] {},
                              [&] {
                                  for (int i = 0; i < 10; i++)
                                      vendor_gemm(n, 512, n, a, n, b, n, c, n);
                              }) /
                          10;
        printf("gemm %ld x 512 x %ld: %.4f ms, %.2f TFLOP/s\n", (long)n, (long)n, ms,
               2.0 * n * n * 512 / ms * 1e-9);
        CU(cudaFree(a)), CU(cudaFree(b)), CU(cudaFree(c));
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } groups[] = {{"trsm", trsm_group},         {"few", trsm_few},      {"trmm", trmm_group},
                  {"variants", variants_group}, {"tribig", tri_big},    {"sym", sym_group},
                  {"symmbig", symm_big},        {"potrf", potrf_group}, {"potri", potri_group},
                  {"potrfbig", potrf_big},      {"accuracy", accuracy}, {"potrfhuge", potrf_huge},
                  {"shapes", gemm_shapes}};
    const char *file = NULL;
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--csv"))
            file = argv[i + 1];
    bench_open(file);
    OK(cusolverDnCreate(&solver));
    OK(cusolverDnSetStream(solver, stream));
    for (int i = 1; i < argc; i++) {
        bool known = false;
        if (!strcmp(argv[i], "--csv")) {
            i++;
            continue;
        }
        if (!strcmp(argv[i], "--float") || !strcmp(argv[i], "--double")) {
            type = argv[i][2] == 'f' ? BACKEND_S : BACKEND_D;
            continue;
        }
        if (!strcmp(argv[i], "--settle")) {
            bench_settle = 0.5;
            continue;
        }
        for (auto &g : groups)
            if (!strcmp(g.name, argv[i])) {
                g.run();
                known = true;
            }
        if (!known) {
            fprintf(stderr, "unknown group %s\n", argv[i]);
            return 2;
        }
    }
    if (csv)
        fclose(csv);
    be->close(ctx);
    return 0;
}
