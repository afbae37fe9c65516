/* W times a difference of covariances of measurements, by pairs of sensors: like ones by Fourier
 * transforms (operator/alike.h), unlike ones by tiles of low rank (operator/unlike.h), both in
 * halves; beside a dense product of the unlike ones. bench_unlike [backend=gpu]
 * [file=params/mosaic.yaml] [key=value ...] [rows=0: those of W] [tile=512] [rms=1e-6: of an entry,
 * in slope variances] [later=1: profile of the exposure]. Prints times, ranks, and errors of
 * sampled numbers. */
#include "timing.h"

#include "operator/unlike.h"
#include "params/params.h"

#include <math.h>
#include <mpi.h>
#include <string.h>

static const backend *be;
static backend_ctx *ctx;
static params par;
static sys s;
static atmos a;
static engine e;
static report rep;
static comm world;
static int64_t tile = 512, v;
static int later = 1;
static double rms = 1e-6;

static void read_arguments(int argc, char **argv) {
    const char *file = "params/mosaic.yaml", *name = "gpu",
               **set = malloc(sizeof *set * (size_t)argc);
    int n = 0;
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "file=", 5))
            file = argv[i] + 5;
        else if (!strncmp(argv[i], "backend=", 8))
            name = argv[i] + 8;
        else if (!strncmp(argv[i], "tile=", 5))
            tile = atoll(argv[i] + 5);
        else if (!strncmp(argv[i], "rows=", 5))
            v = atoll(argv[i] + 5);
        else if (!strncmp(argv[i], "rms=", 4))
            rms = atof(argv[i] + 4);
        else if (!strncmp(argv[i], "later=", 6))
            later = atoi(argv[i] + 6);
        else
            set[n++] = argv[i];
    check(params_load(&world, 1, &file, n, set, &par));
    check(backend_get(name, &be));
    free(set);
}

/* Number (i, j) of W: halves are right to the last place. */
static double number_of(int64_t i, int64_t j) {
    uint64_t z = ((uint64_t)i << 32) + (uint64_t)j + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)(int)(z >> 54) - 512;
}

/* W in halves, 2^6 times as large. */
static void fill(backend_f16 *x) {
    const int64_t bytes = v * (int64_t)sizeof(float);
    float *host = malloc((size_t)bytes), *panel;
    check(engine_array(&e, (size_t)bytes, "a bench", (void **)&panel));
    for (int64_t j = 0; j < e.m; j++) {
        for (int64_t i = 0; i < v; i++)
            host[i] = (float)number_of(i, j);
        check(be->copy(ctx, panel, bytes, host, bytes, bytes, 1));
        check(be->half->cast_to_half(ctx, BACKEND_S, v, 1, 6, panel, v, x + j * v, v));
        check(be->sync(ctx));
    }
    be->release(ctx, panel);
    free(host);
}

/* Of W C with all blocks, and of those that `alike` says are wanted only: what 64 sums are, and how
 * far off y is; part: 0 unlike ones, each pair once, 1 all. Y is to be 2^6 times half of the like
 * ones and the unlike ones. */
static void errors(const alike *like, const float *y, int part, double variance) {
    double *column = malloc(sizeof *column * (size_t)e.m), *dev, gap = 0, sum = 0, entries = 0;
    check(engine_doubles(&e, e.m, "a bench", &dev));
    for (int64_t k = 0; k < 64; k++) {
        const int64_t j = (2 * k + 1) * e.m / 128, i = (k * v / 64 + k) % v;
        double want = 0, norm = 0;
        float is;
        int w = 0;
        while (w + 1 < s.nsensor && (int64_t)s.sensors[w + 1].first <= j)
            w++;
        check(e.mat->fill_cmm(e.cov, BACKEND_D, 'A', MATCOV_NOISE, 0, e.m, j, 1, dev, e.m));
        check(be->copy(ctx, column, 8 * e.m, dev, 8 * e.m, 8 * e.m, 1));
        check(be->copy(ctx, &is, 4, y + i + j * v, 4, 4, 1));
        check(be->sync(ctx));
        for (int r = 0; r < s.nsensor; r++) {
            const bool same = like->of[r] == like->of[w], wanted = like->of[r] > like->of[w];
            if (!wanted && !(same && part == 1))
                continue;
            for (int64_t l = 0; l < 2 * s.sensors[r].nsub; l++) {
                const int64_t row = (int64_t)s.sensors[r].first + l;
                const double f = same ? 0.5 : 1, x = number_of(i, row);
                want += f * x * column[row];
                norm += wanted ? x * x : 0;
            }
        }
        gap += (ldexp(is, -6) - want) * (ldexp(is, -6) - want);
        sum += want * want;
        entries += norm;
    }
    printf("    error of %s: %.2e of the sums", part == 0 ? "unlike pairs" : "all pairs",
           sqrt(gap / sum));
    if (part == 0)
        printf("; as that of an entry %.2e of the slope variance", sqrt(gap / entries) / variance);
    printf("\n");
    be->release(ctx, dev);
    free(column);
}

static status zero(float *y) { /* Y := 0 */
    const float none = 0;
    return be->gemm(ctx, BACKEND_S, 'N', 'N', v, e.m, 0, &none, y, v, y, 1, &none, y, v, e.work,
                    e.lwork);
}

static status both(alike *like, unlike *u, const backend_f16 *x, float *y) {
    const status st = alike_apply(&e, like, v, 0.5, x, v, 0, y, v);
    return st == MOAO_OK ? unlike_apply(u, v, 1, x, v, y, v) : st;
}

/* Rate of a product of halves with a square [flop/s]. */
static double dense_rate(const backend_f16 *x, float *y) {
    const int64_t n = e.m < 4096 ? e.m : 4096;
    const double t = TIME(be->half->gemm(ctx, 'N', 'N', v, n, n, 1, x, v, x + v * n, n, 0, y, v));
    return 2.0 * (double)v * (double)n * (double)n / t;
}

static void rows(alike *like, unlike *u) {
    double variance, bound, from, pairs = 0;
    backend_f16 *x;
    float *y;
    matcov *mc;
    const profile *p = &a.profiles[later < a.nprofile ? later : a.nprofile - 1];
    check(matcov_prepare_difference(&s, p, &a.profiles[0], matcov_scale(p, &a.profiles[0]), false,
                                    &mc, &bound));
    check(engine_use(&e, mc));
    variance = matcov_direct_cmm(&s, p, 0, 0);
    check(engine_array(&e, sizeof *x * (size_t)(v * e.m), "a bench", (void **)&x));
    check(engine_array(&e, sizeof *y * (size_t)(v * e.m), "a bench", (void **)&y));
    check(engine_work(&e, alike_workspace(&e, like, v)));
    fill(x);
    for (int again = 0; again < 2; again++) {
        from = now();
        check(alike_load(&e, like));
        check(be->sync(ctx));
        const double t = now() - from;
        check(unlike_load(u, rms * variance, bound));
        printf("load: like ones %.2f ms, unlike ones %.2f ms; difference at most %.2e of the slope "
               "variance\n",
               1e3 * t, 1e3 * (now() - from - t), bound / variance);
    }
    printf("tiles of at most %lld: %lld, %lld of them dense, rank %.1f on average, %.3f GB\n",
           (long long)u->step, (long long)u->tiles, (long long)u->dense,
           (double)u->ranks / (double)u->tiles, 4e-9 * (double)u->ranks * (double)u->step);
    fflush(stdout);
    check(zero(y));
    check(unlike_apply(u, v, 1, x, v, y, v));
    errors(like, y, 0, variance);
    const double t[] = {TIME(alike_apply(&e, like, v, 0.5, x, v, 0, y, v)),
                        TIME(unlike_apply(u, v, 1, x, v, y, v)), TIME(both(like, u, x, y))};
    errors(like, y, 1, variance);
    for (int i = 0; i < s.nsensor; i++)
        for (int j = 0; j < s.nsensor; j++)
            pairs += like->of[i] > like->of[j]
                         ? 4.0 * (double)s.sensors[i].nsub * (double)s.sensors[j].nsub
                         : 0;
    printf(
        "W dC: like pairs %.2f ms, unlike %.2f ms, both %.2f ms; dense: unlike %.2f ms, all as a "
        "triangle %.2f ms\n",
        1e3 * t[0], 1e3 * t[1], 1e3 * t[2], 2e3 * (double)v * pairs / dense_rate(x, y),
        1e3 * (double)v * (double)e.m * (double)e.m / dense_rate(x, y));
}

int main(int argc, char **argv) {
    alike like;
    unlike u;
    char text[256];
    check((MPI_Init(NULL, NULL), comm_init(MPI_COMM_SELF, &world)));
    read_arguments(argc, argv);
    check(sys_init(&par, &s));
    check(atmos_init(&par, &s, &a));
    v = v > 0 ? v : s.dm.nact;
    e = (engine){
        .c = &world, .s = &s, .rep = &rep, .be = be, .m = (int64_t)s.m, .rows = v, .width = 256};
    check(engine_open(&e));
    ctx = e.ctx;
    check(be->describe(0, text, sizeof text));
    check(alike_init(&s, &like));
    check(alike_open(&e, TOEPLITZ_HALF, &like));
    check(unlike_open(&e, &like, tile, &u));
    printf("%s\n%lld measurements, %lld rows of W, rms %.1e of the slope variance\n", text,
           (long long)e.m, (long long)v, rms);
    rows(&like, &u);
    unlike_close(&u);
    alike_close(&e, &like);
    engine_close(&e);
    MPI_Finalize();
    return 0;
}
