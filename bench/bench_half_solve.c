/* W of a target by a factor in halves, against double precision, with the covariances of a
 * parameter file:
 *   bench_half_solve [-b cpu|gpu] [-e exposure] [-s sample] [-r tiles] [-t tile,panel,depth]...
 *                    [-a accuracy]... [FILE [key=value]...]
 * For each -t (default: half_factor_defaults) and each -a (default 1, 1e-4, 3e-5, 0;
 * half_factor.h): share of tiles in three products, time, |B - W Cmm0| / |B|, and what the Strehl
 * ratios of an exposure change, with Cmm of the exposure multiplied as it is (whole) and with W
 * Cmm0 = B taken for granted (differences, as compute.precision mixed does). -r: ranks of that many
 * tiles of 256 x 256 of the factor, at three accuracies, as CSV. */
#include "backend/backend_matcov.h"
#include "job/psf_params.h"
#include "linalg/half_factor.h"
#include "matcov/matcov.h"
#include "params/params.h"
#include "psf/psf.h"
#include "timing.h"
#include "tor/command.h"

#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <string.h>

#define PANEL ((int64_t)1024) /* columns of a panel of covariances */
#define MOST 8                /* tilings, accuracies, figures of merit */

extern void dgesdd_(const char *, const int *, const int *, double *, const int *, double *,
                    double *, const int *, double *, const int *, double *, const int *, int *,
                    int *, size_t);

static const backend *be;
static const backend_matcov *mat;
static const backend_psf *img;
static backend_ctx *ctx;
static comm world;

static params par;
static sys s;
static atmos air;
static psf_opts opts;
static psf *images;
static int64_t m, t, v, sample = 256;

/* On the device. */
static backend_cov *cov;
static backend_cov_target *target;
static backend_imager *imager;
static double *dplus, *a, *b0, *w, *panel, *z, *g, *y, *average, *mtt, *number;
static float *b32, *x32;
static backend_f16 *dplus16[2], *wide16[2], *w16[2];
static void *work;
static size_t lwork;
static int dplus_exponent;
static double bound; /* of the entries of L */

static void *take(size_t count, size_t size) {
    void *p;
    check(be->alloc(ctx, count * size, &p));
    return p;
}

static void fetch(void *to, const void *from, size_t bytes) {
    const int64_t n = (int64_t)bytes;
    check(be->copy(ctx, to, n, from, n, n, 1));
    check(be->sync(ctx));
}

static void copy(void *to, const void *from, size_t bytes) {
    const int64_t rows = 1 << 20, whole = (int64_t)bytes / rows, rest = (int64_t)bytes % rows;
    check(be->copy(ctx, to, rows, from, rows, rows, whole));
    check(be->copy(ctx, (char *)to + whole * rows, rest, (const char *)from + whole * rows, rest,
                   rest, 1));
}

static void multiply(char ta, char tb, int64_t rows, int64_t cols, int64_t k, double alpha,
                     const double *p, int64_t ldp, const double *q, int64_t ldq, double beta,
                     double *c, int64_t ldc) {
    check(be->gemm(ctx, BACKEND_D, ta, tb, rows, cols, k, &alpha, p, ldp, q, ldq, &beta, c, ldc,
                   work, lwork));
}

static int64_t width(int64_t j, int64_t end) {
    return end - j < PANEL ? end - j : PANEL;
}

/* Make p the profile of the covariances to come; shifted: with the wind of an exposure. */
static void load(const profile *p, bool shifted) {
    static matcov *mc; /* what the CPU backend computes from */
    matcov_model model;
    matcov *before = mc;
    check(matcov_prepare(&s, p, &mc));
    check(matcov_model_init(mc, &model));
    if (cov == NULL) {
        check(mat->open(ctx, &model, &cov));
        check(mat->open_target(cov, &target));
    } else {
        check(mat->load(cov, &model));
    }
    check(mat->aim(target, s.targets[s.ntarget / 2], shifted));
    check(be->sync(ctx));
    matcov_model_free(&model);
    matcov_free(before);
}

/* --- what is compared */

/* B = D+ Ctm0, v x m: in double precision, and by halves in three products. */
static void right_side(void) {
    for (int64_t j = 0, n; j < m; j += n) {
        n = width(j, m);
        check(mat->fill_ctm(target, BACKEND_D, 0, t, j, n, panel, t));
        multiply('N', 'N', v, n, t, 1, dplus, v, panel, t, 0, b0 + j * v, v);
    }
}

static double largest(backend_type type, int64_t rows, int64_t cols, const void *p) {
    double most;
    check(be->half->largest(ctx, type, rows, cols, p, rows, number));
    fetch(&most, number, sizeof most);
    return most;
}

static status right_side_halves(backend_type fills, int exponent) {
    status st;
    for (int64_t j = 0, n; j < m; j += n) {
        n = width(j, m);
        TRY(mat->fill_ctm(target, fills, 0, t, j, n, panel, t));
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
        multiply('N', 'N', v, n, t, -1, dplus, v, panel, t, 1, z, v);
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

/* Everything about the W in w. */
static outcome judge(const profile *p) {
    outcome o;
    const double half_beta = 0.5 * matcov_scale(p, atmos_profile_at(&air, air.tor_time[0]));
    double *one = NULL;
    o.rho = residual();
    load(p, true);
    truth();
    expose();
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
    check(half_factor_make(f, a, m, bound, n, w, n, place, room, bytes, &info));
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
        check(be->half->widen(ctx, v, m, 1, x32, v, 0, w, v));
        const outcome o1 = judge(p);
        print_outcome(&o1, ref);
    }
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
            check(be->half->widen(ctx, v, n, -1, b32 + j * v, v, 1, z, v));
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

/* --- set up */

static void take_memory(void) {
    const size_t d = sizeof(double), h = sizeof(backend_f16), f = sizeof(float);
    const size_t vm = (size_t)(v * m), vv = (size_t)(v * v), w0 = (size_t)PANEL;
    const size_t tall = (size_t)(m > t ? m : t) * w0, ns = psf_sep_count(images);
    const backend_op ops[] = {BACKEND_POTRF, BACKEND_TRSM};
    for (int k = 0; k < 2; k++) {
        const size_t need = be->workspace(ops[k], BACKEND_D, k == 0 ? m : v, m);
        lwork = need > lwork ? need : lwork;
    }
    work = take(lwork, 1);
    a = take((size_t)m * (size_t)m, d);
    dplus = take((size_t)(v * t), d);
    b0 = take(vm, d), w = take(vm > (size_t)(sample * m) ? vm : (size_t)(sample * m), d);
    panel = take(tall > vv ? tall : vv, d), z = take((size_t)v * w0, d);
    g = take(vv, d), y = take(vv, d);
    average = take(ns, d), mtt = take(ns, d), number = take(1, d);
    b32 = take(vm, f), x32 = take(vm > vv ? vm : vv, f);
    for (int k = 0; k < 2; k++) {
        w16[k] = take(vm, h);
        dplus16[k] = take((size_t)(v * t), h);
        wide16[k] = take((size_t)t * w0, h);
    }
}

static void set_up(int nfile, const char *const *files, int nover, const char *const *over) {
    double *host;
    psf_model pm;
    psf_fit *fit;
    psf_fit_model fm;
    check(params_load(&world, nfile, files, nover, over, &par));
    check(sys_init(&par, &s));
    check(atmos_init(&par, &s, &air));
    params_psf_opts(&par, &opts);
    opts.crop = 2;
    check(psf_init(&s, &opts, &images));
    m = (int64_t)s.m, t = (int64_t)s.t, v = s.dm.nact;
    take_memory();
    psf_model_init(images, &pm);
    check(img->open(ctx, &pm, &imager));
    check(psf_fit_init(images, atmos_profile_at(&air, air.exposure_time[0]), &fit));
    psf_fit_model_init(fit, &fm);
    check(img->load(imager, &fm));
    check(ALLOC(host, (size_t)(v * t), "D+"));
    check(command_init(&world, &s, host));
    copy(dplus, host, (size_t)(v * t) * sizeof *host);
    check(be->sync(ctx));
    free(host);
    dplus_exponent = backend_half_exponent(largest(BACKEND_D, v, t, dplus));
    check(be->half->split(ctx, BACKEND_D, 'A', v, t, dplus_exponent, dplus, v, dplus16[0], v,
                          dplus16[1], v));
    load(atmos_profile_at(&air, air.tor_time[0]), false);
}

typedef struct {
    const char *backend;
    int exposure, ranks, ntile, naccuracy;
    long tile[MOST][3];
    double accuracy[MOST];
} arguments;

static arguments parse(int argc, char **argv) {
    arguments g1 = {.backend = "gpu", .exposure = -1};
    for (int c; (c = getopt(argc, argv, "b:e:s:r:t:a:")) != -1;) {
        long *k = g1.tile[g1.ntile];
        if (c == 'b')
            g1.backend = optarg;
        else if (c == 'e')
            g1.exposure = atoi(optarg);
        else if (c == 's')
            sample = atol(optarg);
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
    const outcome ref = judge(p);
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
