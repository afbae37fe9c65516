/* What partly lit subapertures cost a GPU, at full scale in mixed precision: bench_outlines
 * [params/mosaic.yaml [layers [double [key=value ...]]]]. Prints medians with slopes over whole
 * subapertures, with those over lit parts, and the difference: of an exposure, whatever its
 * targets, what sensors on a common lattice change (`outlined`) and the covariances of the others;
 * of a target and exposure, those of the phase with all measurements; and, unless double is 0, Cmm
 * in double precision by panels of 521 columns, once. */
#include "matcov/matcov.h"
#include "params/params.h"
#include "profile.h"
#include "residual/lattice_pairs.h"

#include <mpi.h>

#define WIDTH 4224 /* columns of a panel */
#define DOUBLES 521

static const backend *be;
static const backend_matcov *ops;
static backend_ctx *ctx;
static comm world;

enum { LATTICE, OTHERS, PHASE, CMM, NKIND };
static const char *const kinds[NKIND] = {"an exposure: sensors on a lattice",
                                         "an exposure: other sensors",
                                         "a target and exposure: phase", "Cmm in double precision"};

typedef struct {
    sys s;
    profile p, p0;
    lattice_pairs lattice;
    int64_t np;
    double *x, *y; /* on the device */
    void *a;
} fixture;

/* As the residual phase has them, on a sheared lattice inside the pupil. */
static void make_points(fixture *f) {
    const int side = (int)ceil(sqrt(2) * f->s.dm.nssp);
    const double h = f->s.diameter / side;
    double *x = calloc((size_t)(side * side) + 1, 8), *y = calloc((size_t)(side * side) + 1, 8);
    for (int i = 0; i < side * side; i++) {
        x[f->np] = (i % side + 0.25 + 0.5 * (i / side & 1) - 0.5 * side) * h;
        y[f->np] = (i / side + 0.25 - 0.5 * side) * h;
        const double r = hypot(x[f->np], y[f->np]) / (0.5 * f->s.diameter);
        f->np += r < 1 && r >= f->s.obs;
    }
    check(be->alloc(ctx, (size_t)f->np * 8, (void **)&f->x));
    check(be->alloc(ctx, (size_t)f->np * 8, (void **)&f->y));
    check(be->copy(ctx, f->x, f->np * 8, x, f->np * 8, f->np * 8, 1));
    check(be->copy(ctx, f->y, f->np * 8, y, f->np * 8, f->np * 8, 1));
    check(be->sync(ctx));
    free(x);
    free(y);
}

static status outlined_pairs(const fixture *f, backend_cov *c) {
    for (int k = 0; k < f->lattice.ngroup; k++) {
        const lattice_pairs_group *g = &f->lattice.group[k];
        for (int i = 0; i < g->nsensor * g->nsensor; i++) {
            const int a = g->sensor[i / g->nsensor], b = g->sensor[i % g->nsensor];
            bool copied = false; /* as lattice_pairs_load copies blocks of stars with themselves */
            for (int l = 0; l < i / g->nsensor && a == b; l++)
                copied = copied || f->s.sensors[g->sensor[l]].nssp == f->s.sensors[a].nssp;
            if (f->lattice.outlines.n[a] > 0 && !copied)
                check(ops->outlined(c, BACKEND_S, a, b, f->a, f->lattice.outlines.n[a]));
        }
    }
    return MOAO_OK;
}

static status other_pairs(const fixture *f, backend_cov *c) {
    const int64_t room = (int64_t)f->s.m * WIDTH;
    for (lattice_pairs_block b = {0}; lattice_pairs_next_block(&f->s, &f->lattice, room, &b);)
        check(ops->fill_cmm(c, BACKEND_S, 'A', 0, (matcov_region){b.j, b.n, b.row, b.rows}, f->a,
                            b.n));
    return MOAO_OK;
}

static status phase_of_target(const fixture *f, backend_cov_target *v) {
    const int64_t m = (int64_t)f->s.m;
    for (int64_t j = 0; j < m; j += WIDTH) {
        const int64_t n = m - j < WIDTH ? m - j : WIDTH;
        slope_pairs p = {0};
        bool done = false;
        while (slope_pairs_next(&f->s, j, n, WIDTH / 2, &p)) {
            if (ops->fill_cpm_fp16 != NULL)
                check(ops->fill_cpm_fp16(v, 16, (matcov_points){f->np, f->x, f->y}, p.slopes, f->a,
                                         f->np, &done));
            if (!done)
                check(ops->fill_cpm_both(v, BACKEND_S, (matcov_points){f->np, f->x, f->y}, p.slopes,
                                         f->a, f->np));
        }
    }
    return MOAO_OK;
}

static status all_cmm(const fixture *f, backend_cov *c) {
    const int64_t m = (int64_t)f->s.m;
    for (int64_t j = 0; j < m; j += DOUBLES)
        check(ops->fill_cmm(c, BACKEND_D, 'L', MATCOV_ALL,
                            (matcov_region){j, m - j, j, m - j < DOUBLES ? m - j : DOUBLES}, f->a,
                            m));
    return MOAO_OK;
}

enum { BLOCK_LATTICE, BLOCK_OTHERS, BLOCK_PHASE, NBLOCK };

/* Blocks of two sensors, and of the points with one, of type t. */
static void one_block(const fixture *f, backend_cov *c, backend_cov_target *v, int k,
                      backend_type t, int64_t *rows, int64_t *cols) {
    const sys *s = &f->s;
    const int last = s->nsensor - 1, nsub = s->sensors[last].nsub < 1024 ? 1 : 1024;
    *rows = k == BLOCK_LATTICE  ? f->lattice.outlines.n[0]
            : k == BLOCK_OTHERS ? 2 * s->sensors[0].nsub
                                : f->np;
    *cols = k == BLOCK_LATTICE ? 2 * s->sensors[1].nsub : 2 * nsub;
    if (k == BLOCK_LATTICE)
        check(ops->outlined(c, t, 0, 1, f->a, *rows));
    else if (k == BLOCK_OTHERS)
        check(ops->fill_cmm(c, t, 'A', 0,
                            (matcov_region){(int64_t)s->sensors[0].first, *rows,
                                            (int64_t)s->sensors[last].first, *cols},
                            f->a, *rows));
    else
        check(ops->fill_cpm_both(v, t, (matcov_points){f->np, f->x, f->y},
                                 (matcov_slopes){0, 0, nsub, nsub}, f->a, f->np));
}

/* Entries in single precision against double precision: largest and root mean square error, in
 * units of the largest entry. */
static void compare(const fixture *f, backend_cov *c, backend_cov_target *v, int k) {
    static const char *const of[NBLOCK] = {"sensors on a lattice", "other sensors", "phase"};
    int64_t rows, cols;
    one_block(f, c, v, k, BACKEND_D, &rows, &cols);
    const int64_t n = rows * cols;
    double *d = malloc((size_t)n * sizeof *d), top = 0, most = 0, sum = 0;
    float *single = malloc((size_t)n * sizeof *single);
    check(be->copy(ctx, d, n * 8, f->a, n * 8, n * 8, 1));
    check(be->sync(ctx));
    one_block(f, c, v, k, BACKEND_S, &rows, &cols);
    check(be->copy(ctx, single, n * 4, f->a, n * 4, n * 4, 1));
    check(be->sync(ctx));
    for (int64_t i = 0; i < n; i++) {
        const double e = fabs(single[i] - d[i]);
        top = fmax(top, fabs(d[i])), most = fmax(most, e), sum += e * e;
    }
    printf("single precision, %-22s errors at most %.1e, rms %.1e of the largest entry %.3e\n",
           of[k], most / top, sqrt(sum / (double)n) / top, top);
    free(d);
    free(single);
}

/* A difference of profiles (target: whose layers move), or (p0 NULL) one. */
static void open_cov(const fixture *f, const profile *p0, bool target, matcov **mc,
                     matcov_model *model, backend_cov **c) {
    double bound;
    if (p0 != NULL)
        check(matcov_prepare_difference(&f->s, &f->p, p0, matcov_scale(&f->p, p0), target, mc,
                                        &bound));
    else
        check(matcov_prepare(&f->s, &f->p, mc));
    check(matcov_model_init(*mc, model));
    check(ops->open(ctx, model, c));
}

static void close_cov(matcov *mc, matcov_model *model, backend_cov *c) {
    ops->close(c);
    matcov_model_free(model);
    matcov_free(mc);
}

static void measure(const fixture *f, bool lit, bool in_double, double t[NKIND]) {
    const double dir[2] = {3e-4, -2e-4};
    matcov *mc;
    matcov_model model;
    backend_cov *c;
    backend_cov_target *v;
    open_cov(f, &f->p0, false, &mc, &model, &c);
    t[LATTICE] = TIME(outlined_pairs(f, c));
    t[OTHERS] = TIME(other_pairs(f, c));
    for (int k = 0; k < BLOCK_PHASE && lit; k++)
        if (k != BLOCK_LATTICE || f->lattice.of[0] == f->lattice.of[1])
            compare(f, c, NULL, k);
    close_cov(mc, &model, c);
    open_cov(f, &f->p0, true, &mc, &model, &c);
    check(ops->open_target(c, &v));
    check(ops->aim(v, dir, true));
    t[PHASE] = TIME(phase_of_target(f, v));
    if (lit)
        compare(f, NULL, v, BLOCK_PHASE);
    ops->close_target(v);
    close_cov(mc, &model, c);
    if (!in_double)
        return;
    open_cov(f, NULL, false, &mc, &model, &c);
    double from = now();
    for (int k = 0; k < 2; k++, t[CMM] = now() - from, from = now()) {
        check(all_cmm(f, c));
        check(be->sync(ctx));
    }
    close_cov(mc, &model, c);
}

static void setup(fixture *f, const params *par, int nlayer, bool lit) {
    *f = (fixture){0};
    check(sys_init(par, &f->s));
    for (int w = 0; w < f->s.nsensor; w++)
        f->s.sensors[w].whole = !lit;
    make_profile(nlayer, true, &f->p);
    make_profile(nlayer, true, &f->p0);
    for (int l = 0; l < nlayer; l++)
        f->p.strength[l] *= 1 + 0.3 * sin(1.0 * l);
    check(lattice_pairs_init(&f->s, true, &f->lattice));
    make_points(f);
    check(be->alloc(ctx, f->s.m * WIDTH * sizeof(double), &f->a));
}

static void teardown(fixture *f) {
    be->release(ctx, f->a), be->release(ctx, f->x), be->release(ctx, f->y);
    lattice_pairs_close(NULL, &f->lattice);
    sys_free(&f->s);
}

static void bench(const char *file, int argc, char **argv) {
    const int nlayer = argc > 2 ? atoi(argv[2]) : 45;
    const bool in_double = argc < 4 || atoi(argv[3]) != 0;
    double t[2][NKIND] = {{0}};
    params par;
    check(params_load(&world, 1, &file, argc > 4 ? argc - 4 : 0, (const char *const *)argv + 4,
                      &par));
    for (int lit = 0; lit < 2; lit++) {
        fixture f;
        setup(&f, &par, nlayer, lit);
        if (!lit)
            printf("%s: %zu measurements, %lld points, %d layers; ms\n%-36s %9s %9s %9s\n", file,
                   f.s.m, (long long)f.np, nlayer, "", "whole", "lit", "more");
        measure(&f, lit, in_double, t[lit]);
        teardown(&f);
    }
    for (int k = 0; k < (in_double ? NKIND : CMM); k++)
        printf("%-36s %9.2f %9.2f %9.2f\n", kinds[k], 1e3 * t[0][k], 1e3 * t[1][k],
               1e3 * (t[1][k] - t[0][k]));
}

int main(int argc, char **argv) {
    char text[256];
    MPI_Init(&argc, &argv);
    check(comm_init(MPI_COMM_SELF, &world));
    if (backend_get("gpu", &be) != MOAO_OK) {
        printf("bench_outlines: %s\n", status_message());
    } else {
        ops = matcov_backend(be);
        check(be->describe(0, text, sizeof text));
        printf("%s\n", text);
        check(be->open(0, NULL, &ctx));
        bench(argc > 1 ? argv[1] : "params/mosaic.yaml", argc, argv);
        be->close(ctx);
    }
    comm_free(&world);
    MPI_Finalize();
    return 0;
}
