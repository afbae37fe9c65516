/* W of a target by a factor in FP16, against double precision, with the covariances of a
 * parameter file:
 *   bench_fp16_solve [-b cpu|gpu] [-e exposure] [-s sample] [-r tiles] [-t tile,panel,depth]...
 *                    [-a accuracy]... [-d depth]... [-q] [-f] [-R] [FILE [key=value]...]
 * For each -t (default: fp16_factor_defaults) and each -a (default 1, 1e-4, 3e-5, 0;
 * fp16_factor.h): share of tiles in three products, time, |B - W Cmm0| / |B|, and what the Strehl
 * ratios of an exposure change, with Cmm of the exposure multiplied as it is (whole) and with W
 * Cmm0 = B taken for granted (differences, as compute.precision mixed does). -r: ranks of that many
 * tiles of 256 x 256 of the factor, at three accuracies, as CSV. -d: each solve with these largest
 * inner sizes too, with the residual of some columns alone, which is all that -q looks at. -f: at
 * the last -a also W kept as its first halves alone. -R: D' in the place of D+ = J M^-1 D', and J
 * M^-1 applied to the residual covariance of the commands. */
#include "fp16_solve_case.h"
#include "fp16_solve_ranks.h"

#include <getopt.h>

typedef struct {
    const char *backend;
    int exposure, ranks, ntile, naccuracy, ndepth;
    bool quick, first;
    long tile[MOST][3], depth[MOST];
    double accuracy[MOST];
} arguments;

/* --- what is compared */

/* C := alpha P A + beta C for n columns, P = D+ or D', of type D. */
static void commands(int64_t n, double alpha, const double *p, double beta, double *c) {
    if (inverse != NULL)
        check(be->sparse->times(ctx, BACKEND_D, &stencil[0], n, alpha, p, t, beta, c, v));
    else
        multiply('N', 'N', v, n, t, alpha, dplus, v, p, t, beta, c, v);
}

/* B = P Ctm0, v x m: in double precision, and in split FP16 in three products (P = D': in single
 * precision). */
static void right_side(void) {
    for (int64_t j = 0, n; j < m; j += n) {
        n = width(j, m);
        check(mat->fill_ctm(target, BACKEND_D, (matcov_region){0, t, j, n}, panel, t));
        commands(n, 1, panel, 0, b0 + j * v);
    }
}

static status right_side_fp16(backend_type fills, int exponent, int64_t piece) {
    status st;
    for (int64_t j = 0, n; j < m; j += n) {
        n = width(j, m);
        TRY(mat->fill_ctm(target, fills, (matcov_region){0, t, j, n}, panel, t));
        if (inverse != NULL && fills == BACKEND_S) {
            TRY(be->sparse->times(ctx, fills, &stencil[1], n, 1, panel, t, 0, b32 + j * v, v));
            continue;
        }
        TRY(be->fp16->split(ctx, fills, 'A', t, n, exponent, panel, t, wide16[0], t, wide16[1], t));
        TRY(fp16_gemm_part(be, ctx, FP16_ALL, piece, 'N', 'N', v, n, t, 1,
                           (fp16_pair){dplus16[0], dplus16[1], v, dplus_exponent},
                           (fp16_pair){wide16[0], wide16[1], t, exponent}, 0, b32 + j * v, v));
    }
done:
    return st;
}

/* Sum of squares of a v x n matrix. */
static double squares(const double *p, int64_t n) {
    double sum;
    check(be->fp16->squares(ctx, BACKEND_D, v, n, p, v, v + n, number, 1));
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
        check(
            mat->fill_cmm(cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, m, j, n}, panel, m));
        copy(z, b0 + j * v, (size_t)(v * n) * sizeof *z);
        multiply('N', 'N', v, n, m, -1, w, v, panel, m, 1, z, v);
        sum += squares(z, n);
        multiply('N', 'T', v, v, n, 1, z, v, w + j * v, v, j > 0, g, v);
    }
    return sqrt(sum / squares(b0, m));
}

/* |b0 - w Cmm0| / |b0| of some columns. */
static double residual_of_some(void) {
    enum { GROUPS = 16 };
    const int64_t n = m < 64 ? m : 64;
    double sum = 0, whole = 0;
    load(atmos_profile_at(&air, air.tor_time[0]), false);
    for (int64_t k = 0; k < GROUPS; k++) {
        const int64_t j = (m - n) * k / (GROUPS - 1);
        check(
            mat->fill_cmm(cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, m, j, n}, panel, m));
        copy(z, b0 + j * v, (size_t)(v * n) * sizeof *z);
        whole += squares(z, n);
        multiply('N', 'N', v, n, m, -1, w, v, panel, m, 1, z, v);
        sum += squares(z, n);
    }
    return sqrt(sum / whole);
}

/* y = (1/2 w Cmm - D+ Ctm) w' of the exposure that is loaded. */
static void expose(void) {
    for (int64_t j = 0, n; j < m; j += n) {
        n = width(j, m);
        check(
            mat->fill_cmm(cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, m, j, n}, panel, m));
        multiply('N', 'N', v, n, m, 0.5, w, v, panel, m, 0, z, v);
        check(mat->fill_ctm(target, BACKEND_D, (matcov_region){0, t, j, n}, panel, t));
        commands(n, -1, panel, 1, z);
        multiply('N', 'T', v, v, n, 1, z, v, w + j * v, v, j > 0, y, v);
    }
}

static void truth(void) {
    for (int64_t j = 0, n; j < t; j += n) {
        n = width(j, t);
        check(mat->fill_ctt(cov, BACKEND_D, 'A', (matcov_region){0, t, j, n}, panel, t));
        multiply('N', 'N', v, n, t, 1, dplus, v, panel, t, 0, z, v);
        multiply('N', 'T', v, v, n, 1, z, v, dplus + j * v, v, j > 0, y, v);
    }
    check(img->average(imager, y, v, false, mtt));
}

static void strehl(double *sr) {
    double *scalars;
    check(ALLOC(scalars, (size_t)(opts.nlambda * (3 + opts.nbox)), "results"));
    check(img->average(imager, y, v, true, average));
    check(img->compute(imager, 0, average, mtt, NULL));
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
    const double fp16_beta = 0.5 * matcov_scale(p, atmos_profile_at(&air, air.tor_time[0]));
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
        one[i * (v + 1)] = fp16_beta;
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
    check(mat->fill_cmm(cov, BACKEND_D, 'L', MATCOV_ALL, (matcov_region){0, m, 0, m}, a, m));
    printf("fill %.3f s, ", clocked(&from));
    check(be->potrf(ctx, BACKEND_D, 'L', m, a, m, where, work, lwork));
    printf("factor %.3f s\n", clocked(&from));
    fetch(&info, where, sizeof info);
    if (info != 0)
        check(status_fail(MOAO_NUMERIC, "Cmm0 is not positive: minor %d", info));
    be->release(ctx, where);
}

/* Of every 256th variance: the bound, with some room; the trace of Cmm0. */
static double variances(void) {
    double sum = 0, most = 0;
    for (int64_t i = 0; i < m; i += 256) {
        double c;
        check(
            mat->fill_cmm(cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){i, 1, i, 1}, number, 1));
        fetch(&c, number, sizeof c);
        sum += c * 256;
        most = c > most ? c : most;
    }
    bound = sqrt(2 * most);
    return sum;
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

static double solve_time(fp16_factor *f, void *room) {
    double times[3];
    for (int k = -1; k < 3; k++) {
        copy(x32, b32, (size_t)(v * m) * sizeof *x32);
        check(be->sync(ctx));
        double from = now();
        check(fp16_factor_solve(f, v, x32, v, w16[0], w16[1], v, room, fp16_factor_solve_work(f)));
        if (k >= 0)
            times[k] = clocked(&from);
    }
    qsort(times, 3, sizeof *times, by_value);
    return times[1];
}

/* w := the first split FP16 parts of W alone. */
static void first_fp16(int exponent) {
    const int64_t n = PANEL < m ? PANEL : m;
    double *one;
    backend_f16 *identity = take((size_t)(n * n), sizeof *identity);
    check(ALLOC(one, (size_t)(n * n), "an identity"));
    for (int64_t i = 0; i < n; i++)
        one[i * (n + 1)] = 1;
    copy(panel, one, (size_t)(n * n) * sizeof *one);
    check(be->fp16->cast_to_fp16(ctx, BACKEND_D, n, n, 0, panel, n, identity, n));
    for (int64_t j = 0, k; j < m; j += k) {
        k = width(j, m);
        check(be->fp16->gemm(ctx, 'N', 'N', v, k, k, ldexpf(1, -exponent), w16[0] + j * v, v,
                             identity, n, 0, x32 + j * v, v));
    }
    check(be->fp16->cast_to_double(ctx, v, m, 1, x32, v, 0, w, v));
    check(be->sync(ctx));
    be->release(ctx, identity);
    free(one);
}

static void quick(fp16_factor *f, void *room, const char *how) {
    const double passed = solve_time(f, room);
    check(be->fp16->cast_to_double(ctx, v, m, 1, x32, v, 0, w, v));
    printf("    %s %8.4f s %6.1f TFLOP/s  rho of some columns %8.2e\n", how, passed,
           1e-12 * fp16_factor_flops(f, v) / passed, residual_of_some());
    fflush(stdout);
}

/* ref: NULL: no Strehl ratios. */
static void solve_fp16(const fp16_factor_options *o, const arguments *g1, const profile *p,
                       const outcome *ref) {
    fp16_factor *f;
    int info;
    check(fp16_factor_open(be, ctx, m, o, &f));
    void *place = take(fp16_factor_bytes(m, o), 1);
    const int64_t n = take_sample();
    const size_t bytes = fp16_factor_make_work(f, n);
    void *room = take(bytes, 1);
    double from = now();
    clocked(&from);
    check(fp16_factor_make(f, a, m, n, w, n, place, room, bytes, &info));
    printf("tile %d, panel %d, depth %d: split in %.3f s, %.2f GB, from a sample of %d rows\n",
           (int)o->tile, (int)o->panel, (int)o->depth, clocked(&from),
           1e-9 * (double)fp16_factor_bytes(m, o), (int)n);
    if (info != 0)
        check(status_fail(MOAO_NUMERIC, "factor in split FP16: info %d", info));
    for (int k = 0; k < g1->naccuracy; k++) {
        check(fp16_factor_choose(f, g1->accuracy[k]));
        printf("  accuracy %-7.1g share %.3f\n", g1->accuracy[k], fp16_factor_share(f));
        for (int i = 0; i < g1->ndepth && k == 0; i++) {
            char how[32];
            snprintf(how, sizeof how, "depth %5d", (int)g1->depth[i]);
            fp16_factor_pieces(f, g1->depth[i]);
            quick(f, room, how);
        }
        fp16_factor_pieces(f, o->depth);
        quick(f, room, "as it is   ");
        if (ref != NULL) {
            const outcome o1 = judge(p, NULL);
            print_outcome(&o1, ref);
        }
    }
    if (g1->first && ref != NULL) {
        double *full = take((size_t)(v * v), sizeof *full);
        multiply('N', 'T', v, v, m, 1, b0, v, w, v, 0, full, v);
        first_fp16(fp16_factor_exponent(f));
        const outcome kept = judge(p, full);
        check(be->sync(ctx));
        be->release(ctx, full);
        printf("  the same, upper parts of W:");
        print_outcome(&kept, ref);
    }
    be->release(ctx, room);
    be->release(ctx, place);
    fp16_factor_close(f);
}

static void bench_right_side(void) {
    double from = now();
    clocked(&from);
    right_side();
    printf("B = D+ Ctm0 in double precision %.3f s\n", clocked(&from));
    check(mat->fill_ctm(target, BACKEND_D, (matcov_region){0, t, 0, width(0, m)}, panel, t));
    const int exponent = backend_fp16_exponent(4 * largest(BACKEND_D, t, width(0, m), panel));
    for (int64_t piece = 128; piece <= 256; piece *= 2) {
        check(right_side_fp16(BACKEND_S, exponent, piece));
        clocked(&from);
        check(right_side_fp16(BACKEND_S, exponent, piece));
        const double passed = clocked(&from);
        double sum = 0;
        for (int64_t j = 0, n; j < m; j += n) {
            n = width(j, m);
            copy(z, b0 + j * v, (size_t)(v * n) * sizeof *z);
            check(be->fp16->cast_to_double(ctx, v, n, -1, b32 + j * v, v, 1, z, v));
            sum += squares(z, n);
        }
        printf(
            "the same in three products of FP32 numbers, pieces of %d: %.4f s, difference %.2e\n",
            (int)piece, passed, sqrt(sum / squares(b0, m)));
    }
    clocked(&from);
    for (int64_t j = 0; j < m; j += width(j, m))
        check(mat->fill_ctm(target, BACKEND_S, (matcov_region){0, t, j, width(j, m)}, panel, t));
    printf("Ctm0 in single precision alone %.4f s\n", clocked(&from));
}

/* B0 W' of a target, its lower half: in double precision, and in three products of FP16 numbers; b0
 * and b32 stand for both. */
static void bench_outer(void) {
    double from = now();
    clocked(&from);
    for (int64_t strip = 512; strip <= 2048; strip *= 2) {
        clocked(&from);
        for (int64_t j = 0, n; j < m; j += n) {
            n = m - j < 2816 ? m - j : 2816;
            for (int64_t c = 0, nc; c < v; c += nc) {
                nc = v - c < strip ? v - c : strip;
                multiply('N', 'T', v - c, nc, n, 1, b0 + c + j * v, v, b0 + c + j * v, v, j > 0,
                         g + c * (v + 1), v);
            }
        }
        printf("B0 W' in double precision, half of it, strips of %d: %.4f s\n", (int)strip,
               clocked(&from));
    }
    const fp16_pair p = {w16[0], w16[1], v, backend_fp16_exponent(largest(BACKEND_S, v, m, b32))};
    clocked(&from);
    check(be->fp16->split(ctx, BACKEND_S, 'A', v, m, p.exponent, b32, v, w16[0], v, w16[1], v));
    printf("split of v x m numbers %.4f s, ", clocked(&from));
    for (int64_t strip = 576; strip <= 2304; strip *= 2)
        for (int64_t piece = 64; piece <= 256; piece *= 2) {
            clocked(&from);
            for (int64_t j = 0, n; j < m; j += n) {
                n = m - j < 16384 ? m - j : 16384;
                for (int64_t c = 0, nc; c < v; c += nc) {
                    const fp16_pair q = {p.hi + c + j * v, p.lo + c + j * v, v, p.exponent};
                    nc = v - c < strip ? v - c : strip;
                    check(fp16_gemm_part(be, ctx, FP16_ALL, piece, 'N', 'T', v - c, nc, n, 1, q, q,
                                         0, x32, v));
                    check(be->fp16->cast_to_double(ctx, v - c, nc, 1, x32, v, j > 0,
                                                   y + c * (v + 1), v));
                }
            }
            const double passed = clocked(&from);
            double sum = 0, whole = 0;
            for (int64_t c = 0; c < v; c++) { /* against double precision: the diagonal */
                double one[2];
                fetch(&one[0], g + c * (v + 1), sizeof *one);
                fetch(&one[1], y + c * (v + 1), sizeof *one);
                sum += one[1] - one[0], whole += one[0];
                c += v / 50;
            }
            printf("the same in three products, strips of %d, pieces of %d: %.4f s, trace %+.2e\n",
                   (int)strip, (int)piece, passed, sum / whole);
        }
}

static arguments parse(int argc, char **argv) {
    arguments g1 = {.backend = "gpu", .exposure = -1};
    for (int c; (c = getopt(argc, argv, "b:e:s:r:t:a:d:qfR")) != -1;) {
        long *k = g1.tile[g1.ntile];
        if (c == 'b')
            g1.backend = optarg;
        else if (c == 'e')
            g1.exposure = atoi(optarg);
        else if (c == 's')
            sample = atol(optarg);
        else if (c == 'q')
            g1.quick = true;
        else if (c == 'f')
            g1.first = true;
        else if (c == 'd' && g1.ndepth < MOST)
            g1.depth[g1.ndepth++] = atol(optarg);
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
            check(status_fail(MOAO_INPUT, "see the head of bench/bench_fp16_solve.c"));
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
    const double trace = variances();
    factor();
    tile_ranks(o->ranks, trace);
    bench_right_side();
    bench_outer();
    outcome ref;
    if (!o->quick) {
        solve_double();
        ref = judge(p, NULL);
        printf("  Strehl ratio %.6f", ref.sr[0][0]);
        print_outcome(&ref, &ref);
    }
    for (int k = 0; k < (o->ntile > 0 ? o->ntile : 1); k++) {
        fp16_factor_options tiles = fp16_factor_defaults(m, v, 0);
        if (o->ntile > 0) {
            tiles.tile = o->tile[k][0];
            tiles.panel = o->tile[k][1];
            tiles.depth = o->tile[k][2];
        }
        solve_fp16(&tiles, o, p, k == 0 && !o->quick ? &ref : NULL);
    }
}

int main(int argc, char **argv) {
    const char *file = "params/mosaic.yaml";
    char text[256];
    MPI_Init(&argc, &argv);
    check(comm_init(MPI_COMM_SELF, &world));
    const arguments o = parse(argc, argv);
    if (backend_get(o.backend, &be) != MOAO_OK) {
        printf("bench_fp16_solve: %s\n", status_message());
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
