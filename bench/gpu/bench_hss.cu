/* HSS matrices of the HSS paper's kernel, 1 / (x - y) on -1 to 1: construction, and products with
 * dense matrices beside a port of the paper's scheme, cuBLAS's grouped products and the dense
 * product, all on one tree. usage: bench_hss [--csv FILE] [--leaf N] [--together N] [--seconds S]
 * [table | short | small | wide | few | launches | wide-launches | products | solve | build]... */
#include "hss_rivals.cuh"
#include <math.h>

static double budget = 1e9;
static int leaf, together;
static double tolerance = 1e-6; /* gives products an error of a few 1e-8 */
static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct problem {
    std::vector<double> x;
    hier_source s;
    format *f;
    hier_info info;
    double seconds;
    explicit problem(int64_t n, int leaf) : x((size_t)n) {
        for (int64_t i = 0; i < n; i++)
            x[(size_t)i] = -1 + 2.0 * (double)i / (double)(n - 1);
        OK(hier_points_open(be, ctx, HIER_CAUCHY, 1, 1, n, x.data(), &s));
        hier_options o = {};
        o.kind = HIER_HSS, o.type = BACKEND_D, o.tol = tolerance * sqrt((double)n), o.leaf = leaf,
        o.together = together;
        const double begin = now();
        OK(hier_open(be, ctx, &s, &o, &f));
        seconds = now() - begin;
        hier_describe(f, &info);
    }
    ~problem() {
        hier_close(f);
        hier_points_close(&s);
    }
};

/* |a - b| / |b|, Frobenius norms, sampled on the host. */
static double difference(const double *a, const double *b, int64_t rows, int64_t cols) {
    std::vector<double> p((size_t)rows), q((size_t)rows);
    double d = 0, s = 0;
    for (int64_t j = 0; j<cols; j += cols> 8 ? cols / 8 : 1) {
        CU(cudaMemcpy(p.data(), a + j * rows, 8 * (size_t)rows, cudaMemcpyDeviceToHost));
        CU(cudaMemcpy(q.data(), b + j * rows, 8 * (size_t)rows, cudaMemcpyDeviceToHost));
        for (int64_t i = 0; i < rows; i++)
            d += (p[i] - q[i]) * (p[i] - q[i]), s += q[i] * q[i];
    }
    return sqrt(d / s);
}

/* A run recorded once and replayed, ms. */
static double replayed(int reps, const std::function<void()> &run) {
    cudaGraph_t g;
    cudaGraphExec_t e;
    CU(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    run();
    CU(cudaStreamEndCapture(stream, &g));
    CU(cudaGraphInstantiate(&e, g, 0));
    const double ms = bench_time(
        reps, [] {}, [&] { CU(cudaGraphLaunch(e, stream)); });
    CU(cudaGraphExecDestroy(e));
    CU(cudaGraphDestroy(g));
    return ms;
}

static void row(problem &p, const double *dense, int64_t n, int64_t cols) {
    const int reps = n * cols > 20000000 ? 5 : 11;
    const size_t lwork = hier_workspace(p.f, 'L', cols);
    const size_t bytes = 8 * (size_t)(n * cols);
    const hss *h = (const hss *)p.f;
    double *x = (double *)bench_alloc(bytes), *y = (double *)bench_alloc(bytes),
           *z = (double *)bench_alloc(bytes);
    char *work = (char *)bench_alloc(lwork);
    bench_fill(BACKEND_D, x, n, cols, 1, 0);
    CU(cudaMemset(y, 0xff, bytes));
    auto ours = [&] { OK(hier_apply(p.f, 'L', 'N', 'A', cols, 1, x, n, 0, y, n, work, lwork)); };
    const double plain = bench_time(
        reps, [] {}, ours);
    const double graph = replayed(reps, ours);
    const rival_memory w = {(double *)work, (double *)work + (lwork / 2) / 8, z, n};
    double port = 0, grouped = 0, gemm = 0, e1 = 0, e2 = 0, e3 = 0;
    int steps = 0;
    {
        paper_plan q;
        q.open(launches_of(h, x, n, w, true), (int)cols);
        steps = (int)q.steps.size();
        port = bench_time(
            reps, [] {}, [&] { q.run((int)cols); });
        CU(cudaGetLastError());
        e1 = difference(y, z, n, cols);
    }
    {
        grouped_plan q;
        CU(cudaMemset(z, 0xff, bytes));
        q.open(launches_of(h, x, n, w, false), (int)cols);
        grouped = bench_time(
            reps, [] {}, [&] { q.run(); });
        e2 = difference(y, z, n, cols);
    }
    if (dense) {
        const double one = 1, zero = 0;
        gemm = bench_time(
            n * cols > 50000000 ? 2 : reps, [] {},
            [&] {
                cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, (int)n, (int)cols, (int)n, &one, dense,
                            (int)n, x, (int)n, &zero, z, (int)n);
            });
        e3 = difference(y, z, n, cols);
    }
    const double flops = p.info.flops * (double)cols;
    printf("%6lld %5lld %9.4f %9.4f %9.4f %9.4f %9.4f  %6.2f %6.2f %7.2f  %6.2f  %.0e %.0e %.1e "
           "(%d)\n",
           (long long)n, (long long)cols, plain, graph, port, grouped, gemm, port / plain,
           grouped / plain, gemm / plain, flops / plain * 1e-9, e1, e2, e3, steps);
    if (csv)
        fprintf(csv, "%lld,%lld,%g,%g,%g,%g,%g,%g,%g,%g,%g\n", (long long)n, (long long)cols, plain,
                graph, port, grouped, gemm, flops, e1, e2, e3);
    fflush(stdout);
    CU(cudaFree(x)), CU(cudaFree(y)), CU(cudaFree(z)), CU(cudaFree(work));
}

static void heading() {
    printf("# times in ms; ratios: port / ours, grouped / ours, dense / ours; TFLOP/s of ours; "
           "differences to port, grouped, dense "
           "(launches of the port)\n#    n  cols      ours   (graph)      port   grouped     dense "
           "   port  group   dense  TFLOP/s\n");
}

static void table(const std::vector<int64_t> &sizes, const std::vector<int64_t> &columns,
                  bool dense) {
    const double begin = now();
    heading();
    for (int64_t n : sizes) {
        problem p(n, leaf);
        double *a = dense ? (double *)bench_alloc(8 * (size_t)(n * n)) : NULL;
        if (a)
            OK(p.s.block(p.s.from, ctx, BACKEND_D, 0, n, 0, n, a, n));
        printf("# n = %lld: %d levels, rank %d, largest %d, %.1f MB (%.3f %% of dense), built in "
               "%.1f ms\n",
               (long long)n, p.info.levels, p.info.rank_mean, p.info.rank_max,
               1e-6 * (double)p.info.bytes,
               100.0 * (double)p.info.bytes / (8.0 * (double)n * (double)n), 1e3 * p.seconds);
        for (int64_t c : columns)
            if (now() - begin < budget)
                row(p, a, n, c);
        if (a)
            CU(cudaFree(a));
    }
}

static void build() {
    for (int64_t n : {(int64_t)35000, (int64_t)1 << 17, (int64_t)1 << 20})
        for (int turn = 0; turn < 2; turn++) {
            problem p(n, leaf);
            double rms = 0, worst = 0;
            if (turn)
                OK(hier_check(p.f, &p.s, 8, 1, &rms, &worst));
            printf("# build n = %lld: %.1f ms; %d levels, rank %d, largest %d, %.1f MB; rms %.1e "
                   "(entries %.1e), worst %.1e\n",
                   (long long)n, 1e3 * p.seconds, p.info.levels, p.info.rank_mean, p.info.rank_max,
                   1e-6 * (double)p.info.bytes, rms, 0.9 * sqrt((double)n), worst);
            fflush(stdout);
        }
}

/* Each launch of a product by itself, of the lists that a product by so many columns takes. */
static void launches(int64_t n, int64_t cols) {
    problem q(n, leaf);
    const hss *h = (const hss *)q.f;
    const hss_launches *merged = cols <= 256 /* FEW, hss.c */ ? &h->few : &h->wide;
    const plan *p = merged->way[0].launches > 0 ? merged->way : &h->straight;
    const int ups = merged->way[0].launches > 0 ? merged->ups : h->t.levels;
    const size_t lwork = hier_workspace(q.f, 'L', cols), bytes = 8 * (size_t)(n * cols);
    char *x = (char *)bench_alloc(bytes), *y = (char *)bench_alloc(bytes),
         *work = (char *)bench_alloc(lwork);
    bench_fill(BACKEND_D, x, n, cols, 1, 0);
    CU(cudaMemset(work, 0, lwork));
    const hier_operand from[HIER_OPERANDS] = {
        {x, n}, {work, h->ranks}, {work + lwork / 2, h->ranks}, {NULL, 1}};
    printf("# launches of n = %lld, %lld columns, leaves of %lld: sums, largest m, ms, TFLOP/s\n",
           (long long)n, (long long)cols, (long long)h->leaf);
    for (int l = 0; l < p->launches; l += (int)p->linked[l]) {
        const hier_gemm_sums s = plan_part(p, l);
        const int levels = (int)p->linked[l];
        const bool last = l + 1 == p->launches;
        const hier_fused c = plan_chain(p, l, l >= ups, l < ups ? HSS_UP : HSS_DOWN);
        char *to = last ? y : l < ups ? work : work + lwork / 2;
        double flops = 0;
        for (int64_t b = p->first[l];
             b < (l + levels < p->launches ? p->first[l + levels] : p->sums); b++)
            for (int e = 0; e < p->sum[b].terms; e++)
                flops += 2.0 * p->sum[b].m * p->term[p->sum[b].first + e].k * (double)cols;
        const double ms = bench_time(
            5, [] {},
            [&] {
                if (levels > 1)
                    OK(be->hier->chain(ctx, BACKEND_D, 'L', &c, cols, from, to, h->ranks));
                else
                    OK(be->hier->sums(ctx, BACKEND_D, 'L', &s, cols, 1, from, 0, to,
                                      last ? n : h->ranks));
            });
        printf("  %2d %6lld %4lld %9.4f %7.2f  %d levels\n", l, (long long)s.count,
               (long long)s.most, ms, flops / ms * 1e-9, levels);
    }
    CU(cudaFree(x)), CU(cudaFree(y)), CU(cudaFree(work));
}

/* Products by many columns: ms a call, of a recorded run that is replayed, and the share of
 * cuBLAS's rate with large square matrices. */
static void products(int64_t n, double rate) {
    problem q(n, leaf);
    for (int64_t cols : {512, 1024, 2048, 4096}) {
        const size_t lwork = hier_workspace(q.f, 'L', cols), bytes = 8 * (size_t)(n * cols);
        double *x = (double *)bench_alloc(bytes), *y = (double *)bench_alloc(bytes);
        void *work = bench_alloc(lwork);
        bench_fill(BACKEND_D, x, n, cols, 1, 0);
        auto run = [&] { OK(hier_apply(q.f, 'L', 'N', 'A', cols, 1, x, n, 0, y, n, work, lwork)); };
        const double plain = bench_time(
                         9, [] {}, run),
                     graph = replayed(9, run), speed = q.info.flops * (double)cols / plain * 1e-9;
        printf("%6lld %5lld %9.4f %9.4f %7.2f TFLOP/s, %.2f of cuBLAS\n", (long long)n,
               (long long)cols, plain, graph, speed, speed / rate);
        fflush(stdout);
        CU(cudaFree(x)), CU(cudaFree(y)), CU(cudaFree(work));
    }
}
static double square_rate() {
    const int n = 8192;
    double *a = (double *)bench_alloc(24 * (size_t)n * n), *b = a + (size_t)n * n,
           *c = b + (size_t)n * n;
    const double one = 1, zero = 0;
    bench_fill(BACKEND_D, a, n, 2 * n, 1, 0);
    const double ms = bench_time(
        5, [] {},
        [&] {
            cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
        });
    CU(cudaFree(a));
    printf("# cublasDgemm of order %d: %.1f TFLOP/s\n", n, 2e-9 * n * (double)n * n / ms);
    return 2e-9 * n * (double)n * n / ms;
}

/* Products by few columns: the tree with 1 (nested) to 5 levels at a time (3 and many columns:
 * those at the top), or with all entries where the format takes those; ms, and of a recorded run
 * that is replayed. */
static void few(int64_t n) {
    static const int groups[] = {1, 3, 4, 5, 1};
    for (int64_t cols : {1, 4, 16, 64, 128, 256, 1024, 4096}) {
        const size_t bytes = 8 * (size_t)(n * cols);
        double *x = (double *)bench_alloc(bytes), *y = (double *)bench_alloc(bytes),
               *z = (double *)bench_alloc(bytes);
        bench_fill(BACKEND_D, x, n, cols, 1, 0);
        printf("%6lld %4lld", (long long)n, (long long)cols);
        for (int k = 0; k <= 4; k++) {
            together = groups[k];
            if (cols > 256 && together > 3)
                continue;
            if (k == 4) { /* cuBLAS with a handle of its own */
                if (n > 10000 || cols > 256)
                    continue;
                double *a = (double *)bench_alloc(8 * (size_t)(n * n));
                problem q(n, leaf);
                OK(q.s.block(q.s.from, ctx, BACKEND_D, 0, n, 0, n, a, n));
                const double one = 1, zero = 0;
                auto run = [&] {
                    cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, (int)n, (int)cols, (int)n, &one, a,
                                (int)n, x, (int)n, &zero, z, (int)n);
                };
                const double plain = bench_time(
                                 15, [] {}, run),
                             graph = replayed(15, run);
                printf("  cublas %.4f %.4f (%.0e)", plain, graph, difference(y, z, n, cols));
                CU(cudaFree(a));
                continue;
            }
            problem q(n, leaf);
            const size_t lwork = hier_workspace(q.f, 'L', cols);
            void *work = bench_alloc(lwork);
            CU(cudaMemset(work, 0xff, lwork));
            auto run = [&] {
                OK(hier_apply(q.f, 'L', 'N', 'A', cols, 1, x, n, 0, k == 0 ? y : z, n, work,
                              lwork));
            };
            const double plain = bench_time(
                             15, [] {}, run),
                         graph = replayed(15, run);
            if (k == 0)
                printf("  nested %.4f %.4f", plain, graph);
            else
                printf("  by%d %.4f %.4f (%.0e)", together, plain, graph,
                       difference(z, y, n, cols));
            CU(cudaFree(work));
        }
        printf("\n");
        fflush(stdout);
        CU(cudaFree(x)), CU(cudaFree(y)), CU(cudaFree(z));
    }
}

/* Factor and solve: seconds, and the residual of one right-hand side by the product. */
static void solve(int64_t n, int64_t cols) {
    problem q(n, leaf);
    double begin = now();
    OK(hier_factor(q.f, 0));
    const double first = now() - begin;
    begin = now();
    OK(hier_factor(q.f, 0));
    const double factor = now() - begin;
    const size_t lwork = hier_solve_workspace(q.f, cols), bytes = 8 * (size_t)(n * cols),
                 lapply = hier_workspace(q.f, 'L', cols);
    double *b = (double *)bench_alloc(bytes), *x = (double *)bench_alloc(bytes),
           *r = (double *)bench_alloc(bytes);
    void *work = bench_alloc(lwork), *more = bench_alloc(lapply);
    bench_fill(BACKEND_D, b, n, cols, 1, 0);
    const double ms = bench_time(
        5, [&] { CU(cudaMemcpyAsync(x, b, bytes, cudaMemcpyDeviceToDevice, stream)); },
        [&] { OK(hier_solve(q.f, 'N', cols, x, n, work, lwork)); });
    OK(hier_apply(q.f, 'L', 'N', 'A', cols, 1, x, n, 0, r, n, more, lapply));
    CU(cudaStreamSynchronize(stream));
    printf("# n = %lld: factor %.1f ms (first %.1f), solve of %lld columns %.3f ms (workspace %.1f "
           "MB), |A x - b| / |b| %.1e\n",
           (long long)n, 1e3 * factor, 1e3 * first, (long long)cols, ms, 1e-6 * (double)lwork,
           difference(r, b, n, cols));
    CU(cudaFree(b)), CU(cudaFree(x)), CU(cudaFree(r)), CU(cudaFree(work)), CU(cudaFree(more));
}

int main(int argc, char **argv) {
    const char *file = NULL;
    std::vector<std::string> what;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--csv") && i + 1 < argc)
            file = argv[++i];
        else if (!strcmp(argv[i], "--leaf") && i + 1 < argc)
            leaf = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--together") && i + 1 < argc)
            together = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
            budget = atof(argv[++i]);
        else
            what.push_back(argv[i]);
    bench_open(NULL);
    if (file) {
        csv = fopen(file, "w");
        fprintf(csv, "n,columns,ours_ms,graph_ms,port_ms,grouped_ms,dense_ms,flops,diff_port,diff_"
                     "grouped,diff_dense\n");
    }
    for (const std::string &w : what)
        if (w == "table")
            table({35000, 32500, 30000, 27500, 25000, 22500, 20000, 17500, 15000, 12500, 10000,
                   7500, 5000, 2500, 1000, 500},
                  {1, 2, 4, 16, 64, 256, 1024, 4096}, true);
        else if (w == "short")
            table({35000, 10000, 5000, 2500, 1000, 500}, {1, 4, 16, 64, 256, 1024, 4096}, true);
        else if (w == "small")
            table({10000, 5000, 2500, 1000, 500}, {1, 16, 64, 256, 1024, 4096}, true);
        else if (w == "wide")
            table({35000}, {64, 4096}, false);
        else if (w == "launches")
            launches(35000, 64), launches(35000, 4096);
        else if (w == "wide-launches")
            launches(35000, 4096);
        else if (w == "products") {
            const double rate = square_rate();
            for (int64_t m : {35000, 10000})
                products(m, rate);
        } else if (w == "solve")
            solve(35000, 64), solve((int64_t)1 << 20, 64);
        else if (w == "few")
            for (int64_t n : {1000, 2500, 5000, 10000, 35000})
                few(n);
        else if (w == "build")
            build();
    if (csv)
        fclose(csv);
    return 0;
}
