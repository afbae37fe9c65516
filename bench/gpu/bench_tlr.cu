/* Tile low-rank algebra against dense operations: bench_tlr [group...]
 *   lld      batched products of low-rank tiles into dense ones, 1,000 at a time, against cuBLAS
 *   gemm     C dense, from matrices of one rank (n = 40,960, tiles of 1,024 and 256), against dgemm
 *   lll      C compressed (n = 61,440, rank 32)
 *   potrf    squared exponential covariances, tiles of 1,024, rank 24 and tolerance 1e-9, four
 *            variants, n from 20,480 to 102,400
 *   matern   exp(-d / 0.1)-like likelihood: factor, solve with one column, logarithm of determinant
 *   steps    where the time of such a factor goes (DL left, n = 102,400)
 *   mosaic   Cmm of params/mosaic.yaml (or of `file=FILE`): factor at several tolerances, ranks by
 *            column, bytes, two triangles with 5,336 rows
 *   terms    the same by products of halves: factor with its steps, triangles in 3, 2, 1 terms and
 *            in single precision, how far they are from those in 3
 *   columns  the same with columns as halves and without: bytes, factor, error; triangles in 3
 * terms, with halves in 2 and in 1, and in 2 and 1 terms, beside X of the factor without twice the
 * same at one tolerance, without steps: for cases of more sensors (file=FILE) kept     the same in
 * single precision, and in the host's memory ranks=FILE: ranks of the first factor of mosaic, for
 * scripts/plot_ranks.py. Every row names its sizes; errors are measured on the device in the same
 * run. */
#include "tlr_data.cuh"
#include <array>

/* tlr_case.c: covariances of the first profile of a parameter file. */
extern "C" status tlr_case_open(const char *file, matcov_model *m);

static const double one = 1, zero = 0;
static const char *ranks_file; /* `ranks=FILE` */

static double clock_now() {
    CU(cudaStreamSynchronize(stream));
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

static tlr_options options(double tau, int64_t rank, int64_t width, int64_t cut) {
    tlr_options o = {};
    o.tau = tau;
    o.rank = rank;
    o.width = width;
    o.cut = cut;
    o.seed = 1;
    return o;
}

static void say(const char *what, const tlr *a, int64_t b) {
    tlr_stats s;
    tlr_statistics(a, &s);
    printf("#   %s: %.2f GB of %.2f dense, mean rank %.1f of %lld, 90 %% below %lld, most %lld, "
           "%lld tiles dense, %lld empty of %lld\n",
           what, s.bytes * 1e-9, s.bytes_dense * 1e-9, s.mean, (long long)b, (long long)s.p90,
           (long long)s.most, (long long)s.dense, (long long)s.empty, (long long)s.tiles);
}

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

static void bench_gemm(int64_t n, int64_t b, int64_t r, bool compressed) {
    Points p = make_points(n, b, 0.3, 0);
    const tlr_options o = options(0, r, compressed ? 8192 : n, -1);
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

/* |(L L' - A) x| / |A x|, A by super-panels. */
static double factor_error(const tlr *l, const tlr_layout *layout, tlr_fill *fill, void *arg) {
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

static void say_steps(const tlr_report *r) {
    static const char *const name[TLR_STEPS] = {"entries", "V'V",    "U core",   "large products",
                                                "pivots",  "divide", "compress", "settle"};
    printf("#   steps, each waited for:");
    for (int k = 0; k < TLR_STEPS; k++)
        printf(" %s %.3f s%s", name[k], r->seconds[k], k + 1 < TLR_STEPS ? "," : "\n");
}

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
            if (v % 2 && n > 51200)
                continue; /* all of the matrix dense; compressed many times */
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

/* --- the tomographic covariance --- */

/* Mean rank by thirds of the tile columns. */
static void ranks_by_column(const tlr *l, const tlr_layout *layout, int64_t b) {
    double sum[3] = {}, count[3] = {};
    for (int64_t k = 0; k < layout->nt; k++)
        for (int64_t i = k + 1; i < layout->nt; i++)
            if (const tlr_tile *t = tlr_tile_at(l, i, k)) {
                sum[3 * k / layout->nt] += t->rank;
                count[3 * k / layout->nt]++;
            }
    printf("#   mean rank in the first, second and last third of the columns: %.1f %.1f %.1f of "
           "%lld\n",
           sum[0] / count[0], sum[1] / count[1], sum[2] / count[2], (long long)b);
}

/* For scripts/plot_ranks.py. */
static void write_ranks(const tlr *l, const tlr_layout *layout, int64_t b, const char *name) {
    FILE *f = fopen(name, "w");
    if (!f)
        return;
    fprintf(f, "row,column,rank,order\n");
    for (int64_t k = 0; k < layout->nt; k++)
        for (int64_t i = k + 1; i < layout->nt; i++)
            if (const tlr_tile *t = tlr_tile_at(l, i, k))
                fprintf(f, "%lld,%lld,%lld,%lld\n", (long long)i, (long long)k,
                        (long long)(t->kind == TLR_DENSE ? b : t->rank), (long long)b);
    fclose(f);
}

/* Some of the numbers there, to compare bits. */
static void first_numbers(const double *there, double *to) {
    CU(cudaMemcpy(to, there, 8 * 64, cudaMemcpyDeviceToHost));
}

static void solve_rows(const tlr *l, int64_t n, int64_t v) {
    double *w = (double *)bench_alloc(8 * n * v);
    bench_fill(BACKEND_D, w, v, n, 1, 0, 5);
    const double t0 = clock_now();
    OK(tlr_solve(l, 'R', 'A', v, w, v));
    double some[64], sum = 0;
    const double t = clock_now() - t0;
    first_numbers(w + n / 2 * v, some);
    for (double x : some)
        sum += x;
    printf("#   two triangles with %lld rows: %.3f s (sum of 64 numbers %.17g)\n", (long long)v, t,
           sum);
    CU(cudaFree(w));
}

/* Two triangles by products of halves in several ways, terms and of these with columns as halves
 * (tlr_set_terms; 0 terms: in single precision, once): seconds of the second of two calls, and |X -
 * first| / |first|. *first: X of the first way, the caller's, unless it is there already. */
typedef std::vector<std::array<int, 2>> Ways;
static void solve_ways(tlr *l, int64_t n, int64_t v, const Ways &ways, double **first) {
    double *w = (double *)bench_alloc(8 * n * v);
    const double minus = -1;
    for (const auto &way : ways) {
        double t = 0, norm = 1, error = 0;
        tlr_set_terms(l, way[0], way[1]);
        for (int turn = way[0] == 0; turn < 2; turn++) {
            bench_fill(BACKEND_D, w, v, n, 1, 0, 5);
            const double t0 = clock_now();
            OK(tlr_solve(l, 'R', 'A', v, w, v));
            t = clock_now() - t0;
        }
        if (!*first) {
            *first = w;
            w = (double *)bench_alloc(8 * n * v);
        } else {
            OK(cublasDnrm2_v2_64(blas, n * v, *first, 1, &norm));
            OK(cublasDaxpy_v2_64(blas, n * v, &minus, *first, 1, w, 1));
            OK(cublasDnrm2_v2_64(blas, n * v, w, 1, &error));
        }
        printf("#   two triangles with %lld rows, %d terms, %d of halves: %.3f s, off by %.1e\n",
               (long long)v, way[0], way[1], t, error / norm);
        fflush(stdout);
    }
    CU(cudaFree(w));
}

static void say_halves(const tlr *l) {
    tlr_stats s;
    tlr_statistics(l, &s);
    printf("#   %.2f %% of %lld columns as halves, %lld of %lld dense tiles\n",
           100.0 * (double)s.halves / (double)s.columns, (long long)s.columns,
           (long long)s.dense_halves, (long long)s.dense);
}

enum { DOUBLES, SINGLES, HOST, IN_TERMS, HALVES }; /* ways to keep and to compute */

/* first: NULL, or X of solves by factors with halves and without (solve_ways). */
static void mosaic_factor(Slopes *s, int64_t b, double tau, int64_t cut, int how, bool timed,
                          double **first = NULL) {
    static const char *const name[] = {"doubles", "singles", "singles in the host's memory",
                                       "three terms", "three terms, columns as halves"};
    const bool terms = how >= IN_TERMS;
    tlr_options o = options(tau, 0, 0, cut);
    o.timed = timed;
    o.singles = how >= SINGLES;
    o.host = how == HOST;
    o.mixed = terms;
    o.terms = terms ? 3 : 0;
    o.halves = how == HALVES;
    o.memory = terms ? (size_t)3 << 29 : 0;
    tlr_source from = {};
    tlr_report report;
    tlr *l;
    from.layout = &s->layout;
    from.fill = fill_slopes;
    from.arg = s;
    s->held[0] = s->held[1] = -1;
    const double t0 = clock_now();
    const status st = tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, &report);
    const double t = clock_now() - t0;
    if (st != MOAO_OK) {
        printf("mosaic n %lld tau %.1e: %s\n", (long long)s->n, tau, status_message());
        status_clear();
        return;
    }
    printf("mosaic n %lld b %lld tau %.1e cut %lld, %s%s: factor %.3f s\n", (long long)s->n,
           (long long)b, tau, (long long)cut, name[how], timed ? ", steps timed" : "", t);
    fflush(stdout);
    say("L", l, b);
    if (timed)
        say_steps(&report);
    ranks_by_column(l, &s->layout, b);
    if (ranks_file)
        write_ranks(l, &s->layout, b, ranks_file);
    ranks_file = NULL; /* of the first factor */
    size_t left, all;
    CU(cudaMemGetInfo(&left, &all));
    printf("#   %.1f GB of the device in use\n", 1e-9 * (double)(all - left));
    if (first) {
        say_halves(l);
        solve_ways(l, s->n, 5336, {{3, 2}, {3, 1}, {2, 1}, {1, 1}}, first);
    } else if (how == IN_TERMS && !timed) {
        double *own = NULL; /* of many sensors only in three */
        solve_ways(l, s->n, 5336,
                   s->n > 150000 ? Ways{{3, 2}} : Ways{{3, 2}, {2, 1}, {1, 1}, {0, 0}}, &own);
        CU(cudaFree(own));
    } else if (!terms) {
        solve_rows(l, s->n, 5336);
    }
    printf("#   error %.1e\n", factor_error(l, &s->layout, fill_slopes, s));
    fflush(stdout);
    tlr_close(l);
}

/* Smallest eigenvalue of the noise of a subaperture's two slopes. */
static double least_noise(const matcov_model *m) {
    double least = INFINITY;
    for (int64_t k = 0; k < m->m / 2; k++) {
        const double xx = m->noise[3 * k], yy = m->noise[3 * k + 1], xy = m->noise[3 * k + 2];
        least = fmin(least, (xx + yy) / 2 - sqrt((xx - yy) * (xx - yy) / 4 + xy * xy));
    }
    return least;
}

static void bench_mosaic(const char *file, int64_t b, const std::string &group) {
    matcov_model m;
    Slopes s = {};
    OK(tlr_case_open(file, &m));
    const double nu = least_noise(&m);
    printf("# %s: %lld measurements, least noise %.3g arcsec^2\n", file, (long long)m.m, nu);
    open_slopes(&m, b, &s);
    if (group == "kept")
        for (int how : {SINGLES, HOST})
            mosaic_factor(&s, b, nu / 2, b / 2, how, false);
    if (group == "terms")
        for (bool timed : {false, true})
            for (double part : {2.0, 8.0})
                mosaic_factor(&s, b, nu / part, b / 2, IN_TERMS, timed);
    if (group == "columns")
        for (double part : {2.0, 8.0}) {
            double *first = NULL;
            for (int how : {IN_TERMS, HALVES})
                mosaic_factor(&s, b, nu / part, b / 2, how, false, &first);
            CU(cudaFree(first));
            mosaic_factor(&s, b, nu / part, b / 2, HALVES, true);
        }
    if (group == "twice")
        mosaic_factor(&s, b, nu / 2, b / 2, IN_TERMS, false);
    if (group == "mosaic")
        for (double part : {2.0, 8.0})
            for (int how : {DOUBLES, SINGLES})
                mosaic_factor(&s, b, nu / part, b / 2, how, how == DOUBLES);
}

int main(int argc, char **argv) {
    const char *file = "params/mosaic.yaml";
    std::vector<std::string> groups;
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "file=", 5))
            file = argv[i] + 5;
        else if (!strncmp(argv[i], "ranks=", 6))
            ranks_file = argv[i] + 6;
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
                    bench_gemm(n, b, 16, false);
        if (g == "lll")
            for (int64_t n : {20480, 61440})
                bench_gemm(n, 1024, 32, true);
        if (g == "potrf")
            for (int64_t n : {20480, 51200, 102400})
                for (int64_t width : {1024, 2048})
                    bench_potrf(n, width);
        if (g == "steps")
            bench_steps(102400, 1024);
        if (g == "matern")
            for (double tau : {1e-4, 1e-7})
                bench_likelihood(102400, 512, tau);
        if (g == "mosaic" || g == "kept" || g == "terms" || g == "twice" || g == "columns")
            bench_mosaic(file, 256, g);
    }
    return 0;
}
