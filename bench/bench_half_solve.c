/* W of a target by a factor in halves, against double precision, with the covariances of a
 * parameter file:
 *   bench_half_solve [-b cpu|gpu] [-e exposure] [-s sample] [-r tiles] [-t tile,panel,depth]...
 *                    [-a accuracy]... [-R] [FILE [key=value]...]
 * For each -t (default: half_factor_defaults) and each -a (default 1, 1e-4, 3e-5, 0;
 * half_factor.h): share of tiles in three products, time, |B - W Cmm0| / |B|, and what the Strehl
 * ratios of an exposure change, with Cmm of the exposure multiplied as it is (whole) and with W
 * Cmm0 = B taken for granted (differences, as compute.precision mixed does). -r: ranks of that many
 * tiles of 256 x 256 of the factor, at three accuracies, as CSV. At the last -a also W kept as its
 * first halves alone. -R: D' in the place of D+ = J M^-1 D', and J M^-1 applied to the residual
 * covariance of the commands. */
#include "half_solve_case.h"

#include <getopt.h>

extern void dgesdd_(const char *, const int *, const int *, double *, const int *, double *,
                    double *, const int *, double *, const int *, double *, const int *, int *,
                    int *, size_t);

/* --- what is compared */

/* C := alpha P A + beta C for n columns, P = D+ or D', of type D. */
static void commands(int64_t n, double alpha, const double *p, double beta, double *c) {
    if (inverse != NULL)
        check(be->sparse->times(ctx, BACKEND_D, &stencil[0], n, alpha, p, t, beta, c, v));
    else
        multiply('N', 'N', v, n, t, alpha, dplus, v, p, t, beta, c, v);
}

/* B = P Ctm0, v x m: in double precision, and by halves in three products (P = D': in single
 * precision). */
static void right_side(void) {
    for (int64_t j = 0, n; j < m; j += n) {
        n = width(j, m);
        check(mat->fill_ctm(target, BACKEND_D, 0, t, j, n, panel, t));
        commands(n, 1, panel, 0, b0 + j * v);
    }
}

static status right_side_halves(backend_type fills, int exponent) {
    status st;
    for (int64_t j = 0, n; j < m; j += n) {
        n = width(j, m);
        TRY(mat->fill_ctm(target, fills, 0, t, j, n, panel, t));
        if (inverse != NULL && fills == BACKEND_S) {
            TRY(be->sparse->times(ctx, fills, &stencil[1], n, 1, panel, t, 0, b32 + j * v, v));
            continue;
        }
        TRY(be->half->split(ctx, fills, 'A', t, n, exponent, panel, t, wide16[0], t, wide16[1], t));
        TRY(half_gemm(be, ctx, 'N', 'N', v, n, t, 1,
                      (half_pair){dplus16[0], dplus16[1], v, dplus_exponent},
                      (half_pair){wide16[0], wide16[1], t, exponent}, 0, b32 + j * v, v));
    }
done:
    return st;
}

/* Sum of squares of a v x n matrix. */
static double squares(const double *p, int64_t n) {
    double sum;
    check(be->half->squares(ctx, BACKEND_D, v, n, p, v, v + n, number, 1));
    fetch(&sum, number, sizeof sum);
    return sum;
}

typedef struct {
    double rho;         /* |B - W Cmm0| / |B| */
    double sr[2][MOST]; /* Strehl ratio by wavelength: whole, differences */
} outcome;

/* b0 - w Cmm0: its norm, and g = (b0 - w Cmm0) w'. */
static double residual(void) {
    double sum = 0;
    load(atmos_profile_at(&air, air.tor_time[0]), false);
    for (int64_t j = 0, n; j < m; j += n) {
        n = width(j, m);
        check(mat->fill_cmm(cov, BACKEND_D, 'A', MATCOV_ALL, 0, m, j, n, panel, m));
        copy(z, b0 + j * v, (size_t)(v * n) * sizeof *z);
        multiply('N', 'N', v, n, m, -1, w, v, panel, m, 1, z, v);
        sum += squares(z, n);
        multiply('N', 'T', v, v, n, 1, z, v, w + j * v, v, j > 0, g, v);
    }
    return sqrt(sum / squares(b0, m));
}

/* y = (1/2 w Cmm - D+ Ctm) w' of the exposure that is loaded. */
static void expose(void) {
    for (int64_t j = 0, n; j < m; j += n) {
        n = width(j, m);
        check(mat->fill_cmm(cov, BACKEND_D, 'A', MATCOV_ALL, 0, m, j, n, panel, m));
        multiply('N', 'N', v, n, m, 0.5, w, v, panel, m, 0, z, v);
        check(mat->fill_ctm(target, BACKEND_D, 0, t, j, n, panel, t));
        commands(n, -1, panel, 1, z);
        multiply('N', 'T', v, v, n, 1, z, v, w + j * v, v, j > 0, y, v);
    }
}

static void truth(void) {
    for (int64_t j = 0, n; j < t; j += n) {
        n = width(j, t);
        check(mat->fill_ctt(cov, BACKEND_D, 'A', 0, t, j, n, panel, t));
        multiply('N', 'N', v, n, t, 1, dplus, v, panel, t, 0, z, v);
        multiply('N', 'T', v, v, n, 1, z, v, dplus + j * v, v, j > 0, y, v);
    }
    check(img->average(imager, y, v, false, mtt));
}

static void strehl(double *sr) {
    double *scalars;
    check(ALLOC(scalars, (size_t)(opts.nlambda * (3 + opts.nbox)), "results"));
    check(img->average(imager, y, v, true, average));
    check(img->compute(imager, 0, average, mtt));
    check(img->collect(imager, 0, scalars, NULL));
    for (int l = 0; l < opts.nlambda && l < MOST; l++)
        sr[l] = scalars[l * (3 + opts.nbox)];
    free(scalars);
}

/* y := J M^-1 y M^-1 J, by way of z, panel by panel. */
static void to_commands(double *square) {
    for (int k = 0; k < 2 && inverse != NULL; k++) {
        copy(panel, square, (size_t)(v * v) * sizeof *square);
        multiply('N', k == 0 ? 'N' : 'T', v, v, v, 1, k == 0 ? inverse : panel, v,
                 k == 0 ? panel : inverse, v, 0, square, v);
    }
}

/* Everything about the W in w; `full`: b0 times the transpose of a better W, which differences take
 * for the term that is no difference, or NULL. */
static outcome judge(const profile *p, const double *full) {
    outcome o;
    const double half_beta = 0.5 * matcov_scale(p, atmos_profile_at(&air, air.tor_time[0]));
    double *one = NULL;
    o.rho = residual();
    if (full != NULL) { /* g += b0 w' - full */
        multiply('N', 'T', v, v, m, 1, b0, v, w, v, 1, g, v);
        check(ALLOC(one, (size_t)(v * v), "an identity"));
        for (int64_t i = 0; i < v; i++)
            one[i * (v + 1)] = -1;
        copy(panel, one, (size_t)(v * v) * sizeof *one);
        multiply('N', 'N', v, v, v, 1, panel, v, full, v, 1, g, v);
        check(be->sync(ctx));
        free(one);
        one = NULL;
    }
    load(p, true);
    truth();
    expose();
    to_commands(y);
    to_commands(g);
    strehl(o.sr[0]);
    /* y += beta/2 g by way of a product with 1 */
    check(ALLOC(one, (size_t)(v * v), "an identity"));
    for (int64_t i = 0; i < v; i++)
        one[i * (v + 1)] = half_beta;
    copy(panel, one, (size_t)(v * v) * sizeof *one);
    check(be->sync(ctx));
    multiply('N', 'N', v, v, v, 1, panel, v, g, v, 1, y, v);
    strehl(o.sr[1]);
    free(one);
    return o;
}

static void print_outcome(const outcome *o, const outcome *ref) {
    printf("  rho %8.2e  dSR", o->rho);
    for (int form = 0; form < 2; form++)
        for (int l = 0; l < opts.nlambda && l < MOST; l++)
            printf(" %s%+.1e", form == 1 && l == 0 ? " differences " : "",
                   o->sr[form][l] - ref->sr[0][l]);
    printf("\n");
    fflush(stdout);
}

/* --- the factor */

static double clocked(double *from) {
    check(be->sync(ctx));
    const double to = now(), passed = to - *from;
    *from = to;
    return passed;
}

static void factor(void) {
    double from = now();
    int info, *where = take(1, sizeof *where);
    check(mat->fill_cmm(cov, BACKEND_D, 'L', MATCOV_ALL, 0, m, 0, m, a, m));
    printf("fill %.3f s, ", clocked(&from));
    check(be->potrf(ctx, BACKEND_D, 'L', m, a, m, where, work, lwork));
    printf("factor %.3f s\n", clocked(&from));
    fetch(&info, where, sizeof info);
    if (info != 0)
        check(status_fail(MOAO_NUMERIC, "Cmm0 is not positive: minor %d", info));
    be->release(ctx, where);
}

static int rank_at(const double *sv, int n, double error) {
    double rest = 0;
    int r = n;
    while (r > 0 && rest + sv[r - 1] * sv[r - 1] <= error * error) {
        rest += sv[r - 1] * sv[r - 1];
        r--;
    }
    return r;
}

/* Of every 256th variance: the bound, with some room; the trace of Cmm0. */
static double variances(void) {
    double sum = 0, most = 0;
    for (int64_t i = 0; i < m; i += 256) {
        double c;
        check(mat->fill_cmm(cov, BACKEND_D, 'A', MATCOV_ALL, i, 1, i, 1, number, 1));
        fetch(&c, number, sizeof c);
        sum += c * 256;
        most = c > most ? c : most;
    }
    bound = sqrt(2 * most);
    return sum;
}

/* Ranks of tiles drawn from below the diagonal: the error relative to the tile, and to the rms tile
 * of L. */
static void tile_ranks(int count) {
    enum { N = 256, LENGTH = 64 * N };
    static const double eps[] = {1e-3, 3e-4, 1e-4};
    static double x[N * N], sv[N], space[LENGTH];
    static int iwork[8 * N];
    const int n = N, length = LENGTH, one = 1;
    const int64_t nt = m / N;
    double norm;
    uint64_t seed = 88172645463325252u;
    if (nt < 2)
        return;
    norm = sqrt(variances()) / (double)nt; /* |L|^2 is the trace of Cmm0 */
    printf("tile_row,tile_column,norm,own_1e-3,own_3e-4,own_1e-4,all_1e-3,all_3e-4,all_1e-4\n");
    for (int k = 0; k < count; k++) {
        int info;
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        const int64_t p = (int64_t)((seed >> 20) % (uint64_t)nt),
                      q = (int64_t)((seed >> 4) % (uint64_t)nt);
        if (p == q)
            continue;
        const int64_t i = p > q ? p : q, j = p > q ? q : p;
        check(be->copy(ctx, x, N * 8, a + i * N + j * N * m, m * 8, N * 8, N));
        check(be->sync(ctx));
        dgesdd_("N", &n, &n, x, &n, sv, NULL, &one, NULL, &one, space, &length, iwork, &info, 1);
        double own = 0;
        for (int l = 0; l < N; l++)
            own += sv[l] * sv[l];
        own = sqrt(own);
        printf("%d,%d,%.4g", (int)i, (int)j, own / norm);
        for (int e = 0; e < 6; e++)
            printf(",%d", rank_at(sv, N, eps[e % 3] * (e < 3 ? own : norm)));
        printf("\n");
    }
}

/* W in double precision. */
static void solve_double(void) {
    const double one = 1;
    double from = now();
    copy(w, b0, (size_t)(v * m) * sizeof *w);
    clocked(&from);
    for (int k = 0; k < 2; k++)
        check(be->trsm(ctx, BACKEND_D, 'R', 'L', k == 0 ? 'T' : 'N', 'N', v, m, &one, a, m, w, v,
                       work, lwork));
    const double passed = clocked(&from);
    printf("W in double precision %.3f s, %.1f TFLOP/s\n", passed,
           2e-12 * (double)(v * m) * (double)m / passed);
}

/* Rows of b0, evenly spread, in the room of w. */
static int64_t take_sample(void) {
    const int64_t n = sample < v ? sample : v, step = v / n;
    for (int64_t i = 0; i < n; i++)
        check(be->copy(ctx, w + i, n * 8, b0 + i * step, v * 8, 8, m));
    return n;
}

static double solve_time(half_factor *f, void *room) {
    double times[3];
    for (int k = -1; k < 3; k++) {
        copy(x32, b32, (size_t)(v * m) * sizeof *x32);
        check(be->sync(ctx));
        double from = now();
        check(half_factor_solve(f, v, x32, v, w16[0], w16[1], v, room, half_factor_solve_work(f)));
        if (k >= 0)
            times[k] = clocked(&from);
    }
    qsort(times, 3, sizeof *times, by_value);
    return times[1];
}

/* w := the first halves of W alone. */
static void first_halves(int exponent) {
    const int64_t n = PANEL < m ? PANEL : m;
    double *one;
    backend_f16 *identity = take((size_t)(n * n), sizeof *identity);
    check(ALLOC(one, (size_t)(n * n), "an identity"));
    for (int64_t i = 0; i < n; i++)
        one[i * (n + 1)] = 1;
    copy(panel, one, (size_t)(n * n) * sizeof *one);
    check(be->half->cast_to_half(ctx, BACKEND_D, n, n, 0, panel, n, identity, n));
    for (int64_t j = 0, k; j < m; j += k) {
        k = width(j, m);
        check(be->half->gemm(ctx, 'N', 'N', v, k, k, ldexpf(1, -exponent), w16[0] + j * v, v,
                             identity, n, 0, x32 + j * v, v));
    }
    check(be->half->cast_to_double(ctx, v, m, 1, x32, v, 0, w, v));
    check(be->sync(ctx));
    be->release(ctx, identity);
    free(one);
}

static void solve_halves(const half_factor_options *o, const double *accuracy, int count,
                         const profile *p, const outcome *ref) {
    half_factor *f;
    int info;
    check(half_factor_open(be, ctx, m, o, &f));
    void *place = take(half_factor_bytes(m, o), 1);
    const int64_t n = take_sample();
    const size_t bytes = half_factor_make_work(f, n);
    void *room = take(bytes, 1);
    double from = now();
    clocked(&from);
    check(half_factor_make(f, a, m, n, w, n, place, room, bytes, &info));
    printf("tile %d, panel %d, depth %d: split in %.3f s, %.2f GB, from a sample of %d rows\n",
           (int)o->tile, (int)o->panel, (int)o->depth, clocked(&from),
           1e-9 * (double)half_factor_bytes(m, o), (int)n);
    if (info != 0)
        check(status_fail(MOAO_NUMERIC, "factor in halves: info %d", info));
    for (int k = 0; k < count; k++) {
        check(half_factor_choose(f, accuracy[k]));
        const double passed = solve_time(f, room);
        printf("  accuracy %-7.1g share %.3f %8.3f s %6.1f TFLOP/s", accuracy[k],
               half_factor_share(f), passed, 1e-12 * half_factor_flops(f, v) / passed);
        check(be->half->cast_to_double(ctx, v, m, 1, x32, v, 0, w, v));
        const outcome o1 = judge(p, NULL);
        print_outcome(&o1, ref);
    }
    double *full = take((size_t)(v * v), sizeof *full);
    multiply('N', 'T', v, v, m, 1, b0, v, w, v, 0, full, v);
    first_halves(half_factor_exponent(f));
    const outcome kept = judge(p, full);
    check(be->sync(ctx));
    be->release(ctx, full);
    printf("  the same, first halves of W:");
    print_outcome(&kept, ref);
    be->release(ctx, room);
    be->release(ctx, place);
    half_factor_close(f);
}

static void bench_right_side(void) {
    double from = now();
    clocked(&from);
    right_side();
    printf("B = D+ Ctm0 in double precision %.3f s\n", clocked(&from));
    check(mat->fill_ctm(target, BACKEND_D, 0, t, 0, width(0, m), panel, t));
    const int exponent = backend_half_exponent(4 * largest(BACKEND_D, t, width(0, m), panel));
    for (int fills = BACKEND_D; fills <= BACKEND_S; fills++) {
        clocked(&from);
        check(right_side_halves((backend_type)fills, exponent));
        const double passed = clocked(&from);
        double sum = 0;
        for (int64_t j = 0, n; j < m; j += n) {
            n = width(j, m);
            copy(z, b0 + j * v, (size_t)(v * n) * sizeof *z);
            check(be->half->cast_to_double(ctx, v, n, -1, b32 + j * v, v, 1, z, v));
            sum += squares(z, n);
        }
        printf("the same in three products, Ctm in %s precision %.3f s, difference %.2e\n",
               fills == BACKEND_D ? "double" : "single", passed, sqrt(sum / squares(b0, m)));
    }
    /* B0 W' of a target, three products: b32 and itself stand for both */
    const half_pair p = {w16[0], w16[1], v, backend_half_exponent(largest(BACKEND_S, v, m, b32))};
    clocked(&from);
    check(be->half->split(ctx, BACKEND_S, 'A', v, m, p.exponent, b32, v, w16[0], v, w16[1], v));
    printf("split of v x m numbers %.4f s, ", clocked(&from));
    check(half_gemm(be, ctx, 'N', 'T', v, v, m, 1, p, p, 0, x32, v));
    clocked(&from);
    check(half_gemm(be, ctx, 'N', 'T', v, v, m, 1, p, p, 0, x32, v));
    printf("v x m times m x v in three products %.4f s\n", clocked(&from));
}

typedef struct {
    const char *backend;
    int exposure, ranks, ntile, naccuracy;
    long tile[MOST][3];
    double accuracy[MOST];
} arguments;

static arguments parse(int argc, char **argv) {
    arguments g1 = {.backend = "gpu", .exposure = -1};
    for (int c; (c = getopt(argc, argv, "b:e:s:r:t:a:R")) != -1;) {
        long *k = g1.tile[g1.ntile];
        if (c == 'b')
            g1.backend = optarg;
        else if (c == 'e')
            g1.exposure = atoi(optarg);
        else if (c == 's')
            sample = atol(optarg);
        else if (c == 'R')
            raw = true;
        else if (c == 'r')
            g1.ranks = atoi(optarg);
        else if (c == 't' && g1.ntile < MOST - 1 &&
                 sscanf(optarg, "%ld,%ld,%ld", k, k + 1, k + 2) == 3)
            g1.ntile++;
        else if (c == 'a' && g1.naccuracy < MOST)
            g1.accuracy[g1.naccuracy++] = atof(optarg);
        else
            check(status_fail(MOAO_INPUT, "see the head of bench/bench_half_solve.c"));
    }
    if (g1.naccuracy == 0) {
        const double usual[] = {1, 1e-4, 3e-5, 0};
        memcpy(g1.accuracy, usual, sizeof usual);
        g1.naccuracy = 4;
    }
    return g1;
}

static void bench(const arguments *o) {
    const int e = o->exposure < 0 ? air.nexposure - 1 : o->exposure;
    const profile *p = atmos_profile_at(&air, air.exposure_time[e]);
    printf("%d measurements, %d actuators; exposure at %g s\n", (int)m, (int)v,
           air.exposure_time[e]);
    variances();
    factor();
    tile_ranks(o->ranks);
    bench_right_side();
    solve_double();
    const outcome ref = judge(p, NULL);
    printf("  Strehl ratio %.6f", ref.sr[0][0]);
    print_outcome(&ref, &ref);
    for (int k = 0; k < (o->ntile > 0 ? o->ntile : 1); k++) {
        half_factor_options tiles = half_factor_defaults(m, v, 0);
        if (o->ntile > 0) {
            tiles.tile = o->tile[k][0];
            tiles.panel = o->tile[k][1];
            tiles.depth = o->tile[k][2];
        }
        solve_halves(&tiles, o->accuracy, o->naccuracy, p, &ref);
    }
}

int main(int argc, char **argv) {
    const char *file = "params/mosaic.yaml";
    char text[256];
    MPI_Init(&argc, &argv);
    check(comm_init(MPI_COMM_SELF, &world));
    const arguments o = parse(argc, argv);
    if (backend_get(o.backend, &be) != MOAO_OK) {
        printf("bench_half_solve: %s\n", status_message());
    } else {
        mat = matcov_backend(be);
        img = psf_backend(be);
        check(be->describe(0, text, sizeof text));
        printf("%s\n", text);
        check(be->open(0, NULL, &ctx));
        const int rest = argc - optind;
        set_up(1, rest > 0 ? (const char *const *)argv + optind : &file, rest > 1 ? rest - 1 : 0,
               (const char *const *)argv + optind + 1);
        bench(&o);
        be->close(ctx);
    }
    comm_free(&world);
    MPI_Finalize();
    return 0;
}
