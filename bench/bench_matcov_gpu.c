/* Covariances at full scale by the GPU backend: bench_matcov_gpu [params/mosaic.yaml [layers
 * [cmm [difference [night [key=value ...]]]]]]. Prints preparation, Cmm (lower triangle, unless cmm
 * is 0), Ctt, Ctm of a target, Cpm on 10,300 points of the pupil: time, entries and evaluations per
 * second and, of structure functions, what share of the FP64 instructions of the chip they take;
 * and entries drawn at random against the closed form or, of Cpm, those of single against double
 * precision. With `difference` (anything) instead of all that Ctm and Cpm of the difference of two
 * profiles, of both axes at once too, with `night` (1) and its outer scales 20 and 25 m alone. */
#include "backend/backend_matcov.h"
#include "matcov/matcov.h"
#include "params/params.h"
#include "profile.h"
#include "timing.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Of an H200: FP64 operations per second outside the tensor cores, and bytes per second from shared
 * memory (132 multiprocessors, 128 bytes a clock, 1.98 GHz). */
#define PEAK 33.5e12
#define SHARED 33.4e12
/* FP64 operations and bytes of coefficients of one evaluation in either precision. */
static const double flops[2] = {15, 8}, bytes[2] = {32, 16};

static const backend *be;
static const backend_matcov *ops;
static backend_ctx *ctx;
static comm world;
static bool night; /* two outer scales, where every layer has its own */

/* Entries of the lower triangle of Cmm, or of Ctm, that other pairs have. */
static double other_entries(const matcov_model *m, int list) {
    double n = 0;
    int first = list == MATCOV_CMM ? 0 : m->nsensor, rows = list == MATCOV_CMM ? m->nsensor : 1;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < m->nsensor; j++)
            if (m->list[list].links[i * m->nsensor + j].table < 0 && (list == MATCOV_CTM || j < i))
                n += 4.0 * m->sensors[first + i].nsub * m->sensors[j].nsub;
    return n;
}

static void line(const char *what, double t, double entries, double evaluations, int type) {
    printf("%-26s %9.2f ms %9.3g entries/s", what, 1e3 * t, entries / t);
    if (evaluations > 0)
        printf(" %9.3g times layers", evaluations / t);
    if (evaluations > 0 && type >= 0)
        printf(": %4.1f %% of FP64 peak, %4.1f %% of shared memory",
               100 * evaluations * flops[type] / t / PEAK,
               100 * evaluations * bytes[type] / t / SHARED);
    printf("\n");
    fflush(stdout);
}

/* Worst error of entries drawn at random from a matrix on the device, relative to the slope
 * variance; mt: of a target in direction dir, else of the lower triangle of Cmm without noise. */
static double worst(const sys *s, const profile *p, const double *dir, const void *a, int64_t ld,
                    backend_type t) {
    double most = 0, variance = matcov_direct_cmm(s, p, 0, 0);
    uint64_t x = 88172645463325252u;
    const int count = s->ts.gradient ? 60 : 1500; /* quadrature takes its time */
    for (int k = 0; k < count; k++) {
        union {
            double d;
            float s;
        } v;
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        int64_t i = (int64_t)((x >> 20) % (dir ? s->t : s->m)), j = (int64_t)((x >> 3) % s->m);
        if (!dir && j > i) {
            int64_t swap = i;
            i = j, j = swap;
        }
        size_t n = backend_size(t);
        check(be->copy(ctx, &v, 8, (const char *)a + (size_t)(i + j * ld) * n, 8, (int64_t)n, 1));
        check(be->sync(ctx));
        double want = dir ? matcov_direct_ctm(s, p, dir, true, (size_t)i, (size_t)j)
                          : matcov_direct_cmm(s, p, (size_t)i, (size_t)j);
        double e = fabs((t == BACKEND_D ? v.d : (double)v.s) - want) / variance;
        most = e > most || isnan(e) ? e : most;
    }
    return most;
}

/* Time of preparing a profile on the host and of handing it to the backend. */
static double prepare(const sys *s, const profile *p, backend_cov *c, double *host) {
    double from = now(), to;
    matcov *mc;
    matcov_model m;
    check(matcov_prepare(s, p, &mc));
    check(matcov_model_init(mc, &m));
    to = now();
    check(ops->load(c, &m));
    check(be->sync(ctx));
    *host = to - from;
    double all = now() - from;
    matcov_model_free(&m);
    matcov_free(mc);
    return all;
}

static void bench_cmm(const sys *s, const profile *p, const matcov_model *m, backend_cov *c) {
    int64_t n = (int64_t)s->m;
    double entries = 0.5 * (double)n * (double)(n + 1), d = (double)m->nlayer;
    void *a;
    for (int t = BACKEND_D; t <= BACKEND_S; t++) {
        bool two = t == BACKEND_D;
        check(be->alloc(ctx, (size_t)n * (size_t)n * backend_size(t), &a));
        line(two ? "Cmm, lower triangle" : "Cmm in single precision",
             TIME(ops->fill_cmm(c, t, 'L', MATCOV_ALL, (matcov_region){0, n, 0, n}, a, n)), entries,
             d * other_entries(m, MATCOV_CMM), s->ts.gradient ? -1 : t);
        check(ops->fill_cmm(c, t, 'L', 0, (matcov_region){0, n, 0, n}, a, n));
        printf("%-26s %9.2e of the slope variance\n", "  largest error",
               worst(s, p, NULL, a, n, t));
        be->release(ctx, a);
    }
}

static void bench_ctm(const sys *s, const profile *p, const matcov_model *m, backend_cov *c) {
    int64_t rows = (int64_t)s->t, n = (int64_t)s->m;
    double dir[2] = {3e-4, -2e-4}, entries = (double)rows * (double)n, d = (double)m->nlayer;
    backend_cov_target *v;
    void *a;
    check(be->alloc(ctx, (size_t)rows * (size_t)n * 8, &a));
    check(ops->open_target(c, &v));
    line("Ctt", TIME(ops->fill_ctt(c, BACKEND_D, 'A', (matcov_region){0, rows, 0, rows}, a, rows)),
         (double)rows * (double)rows, 0, 0);
    printf("%-26s %9.2f ms\n", "aim", 1e3 * TIME(ops->aim(v, dir, true)));
    for (int t = BACKEND_D; t <= BACKEND_S; t++) {
        bool two = t == BACKEND_D;
        line(two ? "Ctm" : "Ctm in single precision",
             TIME(ops->fill_ctm(v, t, (matcov_region){0, rows, 0, n}, a, rows)), entries,
             d * other_entries(m, MATCOV_CTM), s->ts.gradient ? -1 : t);
        printf("%-26s %9.2e of the slope variance\n", "  largest error",
               worst(s, p, dir, a, rows, t));
    }
    ops->close_target(v);
    be->release(ctx, a);
}

/* Points as the residual phase has them, on a sheared lattice inside the pupil. */
static int64_t make_points(const sys *s, double *x, double *y) {
    const int side = (int)ceil(sqrt(2) * s->dm.nssp);
    const double h = s->diameter / side;
    int64_t n = 0;
    for (int j = 0; j < side; j++)
        for (int i = 0; i < side; i++) {
            x[n] = (i + 0.25 + 0.5 * (j & 1) - 0.5 * side) * h;
            y[n] = (j + 0.25 - 0.5 * side) * h;
            const double r = hypot(x[n], y[n]) / (0.5 * s->diameter);
            n += r < 1 && r >= s->obs;
        }
    return n;
}

/* All of Cpm, panel by panel, both axes at once or as they come. */
static status all_cpm(const sys *s, backend_cov_target *v, backend_type t, bool both, int64_t np,
                      const double *x, const double *y, void *a) {
    const int64_t m = (int64_t)s->m, width = 2816;
    for (int64_t j = 0; j < m; j += width) {
        const int64_t n = m - j < width ? m - j : width;
        slope_pairs p = {0};
        if (!both)
            check(ops->fill_cpm(v, t, (matcov_points){np, x, y}, j, n, a, np));
        while (both && slope_pairs_next(s, j, n, width / 2, &p))
            check(ops->fill_cpm_both(v, t, (matcov_points){np, x, y}, p.slopes, a, np));
    }
    return MOAO_OK;
}

static void bench_cpm(const sys *s, const matcov_model *m, backend_cov *c) {
    const size_t side = (size_t)ceil(sqrt(2) * s->dm.nssp), n = 16;
    const double dir[2] = {3e-4, -2e-4};
    double *x = calloc(side * side + 1, 8), *y = calloc(side * side + 1, 8), worst = 0, most = 0;
    const int64_t np = make_points(s, x, y);
    const double entries = (double)np * (double)s->m;
    double *dx, *dy, *two = calloc((size_t)np * 2 * n, 8);
    float *one = calloc((size_t)np * 2 * n, 4);
    backend_cov_target *v;
    void *a;
    check(be->alloc(ctx, (size_t)np * 8, (void **)&dx));
    check(be->alloc(ctx, (size_t)np * 8, (void **)&dy));
    check(be->alloc(ctx, (size_t)np * 2816 * 8, &a));
    check(be->copy(ctx, dx, np * 8, x, np * 8, np * 8, 1));
    check(be->copy(ctx, dy, np * 8, y, np * 8, np * 8, 1));
    check(ops->open_target(c, &v));
    check(ops->aim(v, dir, true));
    for (int t = m->difference ? BACKEND_S : BACKEND_D; t <= BACKEND_S; t++)
        for (int both = 0; both < 2; both++) {
            char what[64];
            snprintf(what, sizeof what, "Cpm%s%s", t == BACKEND_S ? " in single precision" : "",
                     both ? ", both" : "");
            line(what, TIME(all_cpm(s, v, t, both, np, dx, dy, a)), entries, entries * m->nlayer,
                 -1);
        }
    for (int w = 0; w < s->nsensor; w++) {
        const int64_t k0 = s->sensors[w].nsub / 3, bytes = np * 2 * (int64_t)n;
        check(ops->fill_cpm_both(v, BACKEND_D, (matcov_points){np, dx, dy},
                                 (matcov_slopes){w, k0, (int64_t)n, (int64_t)n}, a, np));
        check(be->copy(ctx, two, bytes * 8, a, bytes * 8, bytes * 8, 1));
        check(be->sync(ctx));
        check(ops->fill_cpm_both(v, BACKEND_S, (matcov_points){np, dx, dy},
                                 (matcov_slopes){w, k0, (int64_t)n, (int64_t)n}, a, np));
        check(be->copy(ctx, one, bytes * 4, a, bytes * 4, bytes * 4, 1));
        check(be->sync(ctx));
        for (int64_t i = 0; i < bytes; i++) {
            worst = fmax(worst, isnan(one[i]) ? INFINITY : fabs(one[i] - two[i]));
            most = fmax(most, fabs(two[i]));
        }
    }
    printf("%-26s %9.2e of the largest\n", "  single against double", worst / most);
    ops->close_target(v);
    be->release(ctx, a);
    be->release(ctx, dx);
    be->release(ctx, dy);
    free(x);
    free(y);
    free(one);
    free(two);
}

/* Both axes of all subapertures of sensors first to end. */
static status ctm_both(const sys *s, backend_cov_target *v, int first, int end, float *a) {
    const int64_t rows = (int64_t)s->t;
    for (int w = first; w < end; w++)
        check(ops->fill_ctm_both(v, BACKEND_S,
                                 (matcov_slopes){w, 0, s->sensors[w].nsub, s->sensors[w].nsub},
                                 a + rows * (int64_t)s->sensors[w].first, rows));
    return MOAO_OK;
}

/* The same in FP16, of all sensors. */
static status ctm_fp16(const sys *s, backend_cov_target *v, uint16_t *a) {
    const int64_t rows = (int64_t)s->t;
    bool done;
    for (int w = 0; w < s->nsensor; w++)
        check(ops->fill_ctm_fp16(v, 16,
                                 (matcov_slopes){w, 0, s->sensors[w].nsub, s->sensors[w].nsub},
                                 a + rows * (int64_t)s->sensors[w].first, rows, &done));
    return MOAO_OK;
}

/* Ctm by sensors: all, laser stars and natural ones. */
static void bench_ctm_both(const sys *s, backend_cov_target *v, int nlayer, float *a) {
    int lasers = 0;
    while (lasers < s->nsensor && s->sensors[lasers].lgs)
        lasers++;
    const int range[3][2] = {{0, s->nsensor}, {0, lasers}, {lasers, s->nsensor}};
    const char *const what[3] = {"Ctm, both axes at once", "  laser stars", "  natural stars"};
    for (int k = 0; k < 3; k++) {
        double numbers = 0;
        for (int w = range[k][0]; w < range[k][1]; w++)
            numbers += 2.0 * s->sensors[w].nsub * (double)s->t;
        if (k == 0)
            line("Ctm, both axes, in FP16", TIME(ctm_fp16(s, v, (uint16_t *)(void *)a)), numbers,
                 numbers * nlayer, -1);
        line(what[k], TIME(ctm_both(s, v, range[k][0], range[k][1], a)), numbers, numbers * nlayer,
             -1);
    }
}

/* Rows of Ctm of both axes against fill_ctm in double precision, by sensor; relative to the root
 * mean square of all. */
static void compare_ctm(const sys *s, backend_cov_target *v, float *a) {
    const int64_t rows = (int64_t)s->t, n = 64;
    double *two = calloc((size_t)(rows * n), 8), all = 0, count = 0, square[2] = {0}, most = 0;
    float *one = calloc((size_t)(rows * n), 4);
    void *d;
    check(be->alloc(ctx, (size_t)(rows * n) * 8, &d));
    for (int w = 0; w < s->nsensor; w += 3)
        for (int axis = 0; axis < 2; axis++) {
            const int64_t nsub = s->sensors[w].nsub,
                          j = (int64_t)s->sensors[w].first + axis * nsub + nsub / 3;
            check(ops->fill_ctm(v, BACKEND_D, (matcov_region){0, rows, j, n}, d, rows));
            check(be->copy(ctx, two, rows * n * 8, d, rows * n * 8, rows * n * 8, 1));
            check(be->copy(ctx, one, rows * n * 4, a + j * rows, rows * n * 4, rows * n * 4, 1));
            check(be->sync(ctx));
            for (int64_t i = 0; i < rows * n; i++) {
                const double e = isnan(one[i]) ? INFINITY : one[i] - two[i];
                all += two[i] * two[i];
                square[!s->sensors[w].lgs] += e * e;
                count++;
                most = fmax(most, fabs(e));
            }
        }
    const double unit = sqrt(all / count);
    printf("%-26s %9.2e of the rms, lasers %.2e rms, natural stars %.2e\n", "  largest error",
           most / unit, sqrt(2 * square[0] / count) / unit, sqrt(2 * square[1] / count) / unit);
    be->release(ctx, d);
    free(one);
    free(two);
}

/* Ctm and Cpm of the difference of two profiles with the same layers, as mixed precision has it. */
static void bench_difference(const sys *s, int nlayer) {
    profile p, p0;
    matcov *mc;
    matcov_model m;
    backend_cov *c;
    double bound, dir[2] = {3e-4, -2e-4};
    const int64_t rows = (int64_t)s->t, n = (int64_t)s->m, width = 2816;
    backend_cov_target *v;
    void *a;
    make_profile(nlayer, night, &p);
    make_profile(nlayer, night, &p0);
    for (int l = 0; l < nlayer; l++)
        p.strength[l] *= 1 + 0.3 * sin(1.0 * l);
    check(matcov_prepare_difference(s, &p, &p0, matcov_scale(&p, &p0), true, &mc, &bound));
    check(matcov_model_init(mc, &m));
    check(ops->open(ctx, &m, &c));
    printf("difference of two profiles, %d layers\n", m.nlayer);
    check(be->alloc(ctx, (size_t)rows * (size_t)width * 4, &a));
    check(ops->open_target(c, &v));
    check(ops->aim(v, dir, true));
    double from = now(), took = 0;
    for (int k = 0; k < 3; k++, took = now() - from, from = now()) {
        for (int64_t j = 0; j < n; j += width)
            check(ops->fill_ctm(
                v, BACKEND_S, (matcov_region){0, rows, j, n - j < width ? n - j : width}, a, rows));
        check(be->sync(ctx));
    }
    line("Ctm in single precision", took, (double)rows * (double)n,
         m.nlayer * (double)rows * (double)n, -1);
    be->release(ctx, a);
    check(be->alloc(ctx, (size_t)rows * (size_t)n * 4, &a));
    bench_ctm_both(s, v, m.nlayer, (float *)a);
    compare_ctm(s, v, (float *)a);
    ops->close_target(v);
    be->release(ctx, a);
    bench_cpm(s, &m, c);
    ops->close(c);
    matcov_model_free(&m);
    matcov_free(mc);
}

static void bench(const sys *s, int nlayer, bool cmm) {
    profile p;
    matcov *mc;
    matcov_model m;
    backend_cov *c;
    double host, from;
    make_profile(nlayer, night, &p);
    check(matcov_prepare(s, &p, &mc));
    check(matcov_model_init(mc, &m));
    printf("%zu measurements, %zu of the truth sensor, %d layers; %.1f MB of tables and sums, %.1f "
           "MB a target\n",
           s->m, s->t, nlayer, 1e-6 * (double)ops->bytes(&m), 1e-6 * (double)ops->target_bytes(&m));
    from = now();
    check(ops->open(ctx, &m, &c));
    check(be->sync(ctx));
    printf("%-26s %9.2f ms\n", "open", 1e3 * (now() - from));
    for (int k = 0; k < 3; k++) {
        double all = prepare(s, &p, c, &host);
        printf("%-26s %9.2f ms, of which %.2f ms on the host\n", "preparing a profile", 1e3 * all,
               1e3 * host);
    }
    if (cmm)
        bench_cmm(s, &p, &m, c);
    bench_ctm(s, &p, &m, c);
    bench_cpm(s, &m, c);
    ops->close(c);
    matcov_model_free(&m);
    matcov_free(mc);
}

int main(int argc, char **argv) {
    const char *file = argc > 1 ? argv[1] : "params/mosaic.yaml";
    char text[256];
    params par;
    sys s;
    MPI_Init(&argc, &argv);
    check(comm_init(MPI_COMM_SELF, &world));
    if (backend_get("gpu", &be) != MOAO_OK) {
        printf("bench_matcov_gpu: %s\n", status_message());
    } else {
        ops = matcov_backend(be);
        check(be->describe(0, text, sizeof text));
        printf("%s\n%s\n", text, file);
        check(be->open(0, NULL, &ctx));
        night = argc > 5 && atoi(argv[5]) == 1;
        check(params_load(&world, 1, &file, argc > 6 ? argc - 6 : 0, (const char *const *)argv + 6,
                          &par));
        check(sys_init(&par, &s));
        if (argc > 4)
            bench_difference(&s, atoi(argv[2]));
        else
            bench(&s, argc > 2 ? atoi(argv[2]) : 60, argc < 4 || atoi(argv[3]) != 0);
        be->close(ctx);
    }
    comm_free(&world);
    MPI_Finalize();
    return 0;
}
