/* Tile low-rank algebra against dense operations: bench_tlr [group...]
 *   lld      batched products of low-rank tiles into dense ones, 1,000 at a time, against cuBLAS
 *   gemm     C dense, from matrices of one rank (n = 40,960, tiles of 1,024 and 256), against dgemm
 *   lll      C compressed (n = 61,440, rank 32)
 *   potrf    squared exponential covariances, tiles of 1,024, rank 24 and tolerance 1e-9, four
 *            variants, n from 20,480 to 102,400 (right-looking ones of that with right=1)
 *   matern   exp(-d / 0.1)-like likelihood: factor, solve with one column, logarithm of determinant
 *   steps    where the time of such a factor goes (DL left, n = 102,400)
 *   mosaic   Cmm of params/mosaic.yaml (or of `file=FILE`): factor at several tolerances, ranks by
 *            column, bytes, two triangles with 5,336 rows
 *   factor   the same at nu / 2, kept in single precision and by products of FP16 numbers: factor alone,
 *            then its steps
 *   terms    the same by products of FP16 numbers: factor with its steps, triangles in 3, 2, 1 terms and
 *            in single precision, how far they are from those in 3
 *   columns  the same with columns in FP16 and without: bytes, factor, error; triangles in 3
 *            terms (those of FP16 numbers in 2 and in 1), in 2 and in 1, beside X of the factor without
 *   solves   the same by double precision's products at tau = nu / part, columns in FP16:
 *            triangles in double precision and in 3, 2, 1 terms, how far they are from the first
 *   twice    the same with its tiles in single precision at tau = nu / part, for cases of more
 *            sensors (file=FILE): on the device, or in the host's memory where that does not do
 *   kept     the same at nu / 2, on the device and in the host's memory in turn: times, bytes that
 *            come from there, the most memory in use at any time, and whether bits are the same
 *
 * order=N: gemm, lll and potrf of that order alone. width=N: columns of block columns (2,048; gemm
 * and lll: all). memory=GB: for intermediate products (1; lll: 2). ranks=FILE: ranks of the first
 * factor of mosaic, for scripts/plot_ranks.py. part=8: of twice and solves. apart=1: twice in the
 * host's memory at once. room=GB: what may be in use of the device with a factor in the host's
 * memory, of kept (24) and of twice (120).
 *
 * Every row names its sizes; errors are measured on the device in the same run. */
#include "tlr_mosaic.cuh"

/* --- batched --- */

static void bench_lld(int64_t n, int64_t r) {
    const int64_t count = 1000;
    double *u = (double *)bench_alloc(8 * n * r * count),
           *v = (double *)bench_alloc(8 * n * r * count),
           *w = (double *)bench_alloc(8 * n * r * count),
           *core = (double *)bench_alloc(8 * r * r * count),
           *c = (double *)bench_alloc(8 * n * n * count);
    bench_fill(BACKEND_D, u, n, r * count, 1, 0, 1);
    bench_fill(BACKEND_D, v, n, r * count, 1, 0, 2);
    const batch_mat U = batch_strided(u, n, n * r), V = batch_strided(v, n, n * r),
                    W = batch_strided(w, n, n * r), K = batch_strided(core, r, r * r),
                    C = batch_strided(c, n, n * n);
    const backend_batch *q = be->batch;
    const double ours = bench_time(
        9, [] {},
        [&] {
            OK(q->gemm(ctx, BACKEND_D, 'T', 'N', count, batch_size(r), batch_size(r), batch_size(n),
                       &one, V, U, &zero, K));
            OK(q->gemm(ctx, BACKEND_D, 'N', 'N', count, batch_size(n), batch_size(r), batch_size(r),
                       &one, U, K, &zero, W));
            OK(q->gemm(ctx, BACKEND_D, 'N', 'T', count, batch_size(n), batch_size(n), batch_size(r),
                       &one, W, V, &zero, C));
        });
    double vendor = 0;
    if (24 * n * n * count < (int64_t)100e9) {
        double *a = (double *)bench_alloc(8 * n * n * count),
               *b = (double *)bench_alloc(8 * n * n * count);
        bench_fill(BACKEND_D, a, n, n * count, 1, 0, 3);
        bench_fill(BACKEND_D, b, n, n * count, 1, 0, 4);
        vendor = bench_time(
            9, [] {},
            [&] {
                OK(cublasDgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n,
                                             n * n, b, n, n * n, &zero, c, n, n * n, count));
            });
        CU(cudaFree(a));
        CU(cudaFree(b));
    }
    char shape[64];
    snprintf(shape, sizeof shape, "%lldx%lldx%lld,r%lld", (long long)count, (long long)n,
             (long long)n, (long long)r);
    bench_row("batched-lld", BACKEND_D, shape, ours, vendor,
              (double)count * (4.0 * n * r * r + 2.0 * n * n * r), 0);
    for (double *p : {u, v, w, core, c})
        CU(cudaFree(p));
}

/* --- products of matrices --- */

/* |C - A B'| / |C| on one column block, from the entries themselves, would take the dense product:
 * the check is C x against A (B' x). */
static double product_error(const tlr *a, const tlr *b, const double *c, int64_t n) {
    double *x = (double *)bench_alloc(8 * n), *y = (double *)bench_alloc(8 * n),
           *z = (double *)bench_alloc(8 * n);
    double error, norm;
    const double minus = -1;
    bench_fill(BACKEND_D, x, n, 1, 1, 0, 7);
    OK(tlr_apply(b, 'L', 'T', 1, 1, x, n, 0, y, n));
    OK(tlr_apply(a, 'L', 'N', 1, 1, y, n, 0, z, n));
    OK(cublasDnrm2(blas, n, z, 1, &norm));
    OK(cublasDgemv(blas, CUBLAS_OP_N, n, n, &one, c, n, x, 1, &minus, z, 1));
    OK(cublasDnrm2(blas, n, z, 1, &error));
    for (double *p : {x, y, z})
        CU(cudaFree(p));
    return error / norm;
}

static int64_t width_given, order_given; /* of block columns; of the matrices (potrf, lll), 0: all */
static bool right_looking;               /* of the largest order too */

static void bench_gemm(int64_t n, int64_t b, int64_t r, bool compressed) {
    Points p = make_points(n, b, 0.3, 0);
    tlr_options o = options(0, r, width_given > 0 ? width_given : n, -1);
    if (compressed && o.memory == 0)
        o.memory = (size_t)2 << 30;
    tlr *a, *d, *e = NULL;
    double *c = (double *)bench_alloc(8 * n * n), *x = NULL;
    double from = clock_now();
    OK(tlr_build(be, ctx, &p.layout, &p.layout, fill_points, &p, &o, &a));
    const double build = clock_now() - from;
    OK(tlr_build(be, ctx, &p.layout, &p.layout, fill_points, &p, &o, &d));
    if (compressed)
        OK(tlr_build(be, ctx, &p.layout, &p.layout, fill_points, &p, &o, &e));
    auto run = [&](char way) {
        return 1e-3 * bench_time(
                          3, [] {},
                          [&] {
                              OK(way == 'D' ? tlr_gemm_dense(1, a, 'N', d, 'T', 0, c, n)
                                            : tlr_gemm(way, 1, a, 'N', d, 'T', 0, e));
                          });
    };
    const double ours = run(compressed ? 'A' : 'D');
    const double stepwise = compressed ? run('R') : 0;
    if (compressed)
        OK(tlr_expand(e, c, n));
    const double error = product_error(a, d, c, n);
    say("A", a, b);
    tlr_close(a), tlr_close(d), tlr_close(e);
    double dense = 0;
    if (n <= 61440) {
        x = (double *)bench_alloc(8 * n * n);
        bench_fill(BACKEND_D, x, n, n, 1, 0, 1);
        dense = 1e-3 * bench_time(
                           1, [] {},
                           [&] {
                               OK(cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, x, n,
                                              x, n, &zero, c, n));
                           });
        CU(cudaFree(x));
    }
    printf(
        "%-8s n %6lld b %4lld r %2lld: %.4f s, with compression of A and B %.4f s, dgemm %.4f s: "
        "%.1f and %.1f times; recompressed after each inner tile %.4f s; error %.1e\n",
        compressed ? "gemm-lll" : "gemm-lld", (long long)n, (long long)b, (long long)r, ours,
        ours + 2 * build, dense, dense / ours, dense / (ours + 2 * build), stepwise, error);
    fflush(stdout);
    CU(cudaFree(c));
    free_points(&p);
}

/* --- Cholesky --- */

static void one_factor(const char *name, Points *p, int64_t b, char look, bool compressed,
                       const tlr_options *o) {
    tlr_source from = {};
    tlr_report report;
    tlr *a = NULL, *l;
    from.layout = &p->layout;
    from.fill = fill_points;
    from.arg = p;
    double t0 = clock_now(), build = 0;
    if (compressed) {
        OK(tlr_build(be, ctx, &p->layout, NULL, fill_points, p, o, &a));
        from.a = a;
        build = clock_now() - t0;
    }
    t0 = clock_now();
    const status st = tlr_factor(be, ctx, &from, look, o, NULL, &l, &report);
    const double t = clock_now() - t0;
    if (st != MOAO_OK) {
        printf("%-20s n %6lld b %4lld: %s\n", name, (long long)p->n, (long long)b,
               status_message());
        status_clear();
    } else {
        printf("%-20s n %6lld b %4lld: %.3f s (compressed before in %.3f s), error %.1e\n", name,
               (long long)p->n, (long long)b, t, build,
               factor_error(l, &p->layout, fill_points, p));
        say("L", l, b);
        if (o->timed)
            say_steps(&report);
    }
    fflush(stdout);
    tlr_close(a), tlr_close(l);
}

static void bench_potrf(int64_t n, int64_t width) {
    const int64_t b = 1024;
    Points p = make_points(n, b, 0.1, 1e-2);
    for (int mode = 0; mode < 2; mode++)
        for (int v = 0; v < 4; v++) {
            const tlr_options o = options(1e-9, mode ? 0 : 24, width, mode ? 256 : -1);
            char name[64];
            if (v % 2 && n > 51200 && (width < 2048 || !right_looking))
                continue; /* all of the matrix dense; compressed many times: if asked for */
            snprintf(name, sizeof name, "%s-%s%s w%lld", v / 2 ? "LL" : "DL",
                     v % 2 ? "right" : "left", mode ? " 1e-9" : " r24", (long long)width);
            one_factor(name, &p, b, v % 2 ? 'R' : 'L', v / 2, &o);
        }
    if (width < 2048) { /* the dense one is timed once */
        free_points(&p);
        return;
    }
    int *info = (int *)bench_alloc(256);
    double *a = (double *)bench_alloc(8 * n * n);
    const size_t lwork = be->workspace(BACKEND_POTRF, BACKEND_D, n, n);
    void *work = bench_alloc(lwork);
    OK(fill_points(&p, 0, n, 0, n, a, n));
    const double t0 = clock_now();
    OK(be->potrf(ctx, BACKEND_D, 'L', n, a, n, info, work, lwork));
    printf("%-20s n %6lld: %.3f s\n", "dense potrf", (long long)n, clock_now() - t0);
    fflush(stdout);
    CU(cudaFree(a)), CU(cudaFree(work)), CU(cudaFree(info));
    free_points(&p);
}

static void bench_steps(int64_t n, int64_t b) {
    Points p = make_points(n, b, 0.1, 1e-2);
    tlr_options o = options(1e-9, 24, 2048, -1);
    one_factor("DL-left r24", &p, b, 'L', false, &o);
    o.timed = true;
    one_factor("DL-left r24", &p, b, 'L', false, &o);
    o.rank = 0;
    o.cut = 256;
    one_factor("DL-left 1e-9", &p, b, 'L', false, &o);
    free_points(&p);
}

static void bench_likelihood(int64_t n, int64_t b, double tau) {
    Points p = make_points(n, b, 0.05, 1e-2);
    const tlr_options o = options(tau, 0, 0, b / 4);
    tlr_source from = {};
    tlr *l;
    double *z = (double *)bench_alloc(8 * n), det;
    from.layout = &p.layout;
    from.fill = fill_points;
    from.arg = &p;
    bench_fill(BACKEND_D, z, n, 1, 1, 0, 3);
    const double t0 = clock_now();
    OK(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL));
    const double t1 = clock_now();
    OK(tlr_solve(l, 'L', 'N', 1, z, n));
    OK(tlr_logdet(l, &det));
    const double t2 = clock_now();
    printf(
        "likelihood n %6lld b %4lld tau %.0e: factor %.3f s, solve and determinant %.3f s, error "
        "%.1e, log det %.10g\n",
        (long long)n, (long long)b, tau, t1 - t0, t2 - t1,
        factor_error(l, &p.layout, fill_points, &p), det);
    say("L", l, b);
    fflush(stdout);
    tlr_close(l);
    CU(cudaFree(z));
    free_points(&p);
}

int main(int argc, char **argv) {
    const char *file = "params/mosaic.yaml";
    std::vector<std::string> groups;
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "file=", 5))
            file = argv[i] + 5;
        else if (!strncmp(argv[i], "ranks=", 6))
            ranks_file = argv[i] + 6;
        else if (!strncmp(argv[i], "part=", 5))
            part_of_noise = atof(argv[i] + 5);
        else if (!strncmp(argv[i], "room=", 5))
            room = atof(argv[i] + 5);
        else if (!strncmp(argv[i], "memory=", 7))
            memory_given = atof(argv[i] + 7);
        else if (!strncmp(argv[i], "width=", 6))
            width_given = atoll(argv[i] + 6);
        else if (!strncmp(argv[i], "order=", 6))
            order_given = atoll(argv[i] + 6);
        else if (!strncmp(argv[i], "right=", 6))
            right_looking = atoi(argv[i] + 6) != 0;
        else if (!strncmp(argv[i], "apart=", 6))
            apart = atoi(argv[i] + 6) != 0;
        else
            groups.push_back(argv[i]);
    if (groups.empty())
        groups = {"lld", "gemm", "lll", "potrf", "matern", "mosaic"};
    bench_open(NULL);
    for (const std::string &g : groups) {
        if (g == "lld")
            for (int64_t n : {256, 512, 1024})
                for (int64_t r : {16, 32, 64, 128})
                    bench_lld(n, r);
        if (g == "gemm")
            for (int64_t n : {10240, 20480, 40960})
                for (int64_t b : {1024, 256})
                    if (order_given == 0 || n == order_given)
                        bench_gemm(n, b, 16, false);
        if (g == "lll")
            for (int64_t n : {20480, 61440})
                if (order_given == 0 || n == order_given)
                    bench_gemm(n, 1024, 32, true);
        if (g == "potrf")
            for (int64_t n : {20480, 51200, 102400})
                for (int64_t width : {1024, 2048})
                    if (order_given == 0 || n == order_given)
                        bench_potrf(n, width > 1024 && width_given > 0 ? width_given : width);
        if (g == "steps")
            bench_steps(102400, 1024);
        if (g == "matern")
            for (double tau : {1e-4, 1e-7})
                bench_likelihood(102400, 512, tau);
        if (g == "mosaic" || g == "factor" || g == "kept" || g == "terms" || g == "columns" ||
            g == "solves" || g == "twice")
            bench_mosaic(file, 256, g);
    }
    return 0;
}
