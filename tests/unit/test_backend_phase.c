/* The residual phase on the pupil by the backends: one body for every backend that is usable here,
 * compared with the stages' own functions. The variable MOAO_TEST_BACKEND picks one. */
#include "support/matcov_case.h"

#include "psf/psf.h"
#include "support/backend.h"

#include <mpi.h>

static comm world;

static double random_in(double lo, double hi) {
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return lo + (hi - lo) * ((double)(x >> 11) / 9007199254740992.0);
}

static void *device(size_t bytes) {
    void *p;
    case_ok(be->alloc(ctx, bytes, &p));
    return p;
}

static void move(void *to, const void *from, size_t bytes) {
    case_ok(be->copy(ctx, to, (int64_t)bytes, from, (int64_t)bytes, (int64_t)bytes, 1));
    case_ok(be->sync(ctx));
}

static void system_of_many(bool gradients, sys *s, profile *p) {
    const case_sensor o[] = {{11, {12, 21}, 90000, 1, CASE_DEGREE(7.3), {0.07, -0.11}, 0},
                             {8, {31, -8}, INFINITY, 1.03, CASE_DEGREE(-11), {-0.05, 0.02}, 10},
                             {2, {-14, 27}, INFINITY, 1, 0, {0}, 9},
                             {9, {4, -9}, 6000, 0.96, 0, {0.1, 0}, 0}};
    const double layer[][5] = {{0, 22, 20, 7, 2},
                               {0, 12, 0, 9, 9},
                               {3000, INFINITY, 9, -9, 8},
                               {6000, 11, 5, 20, 1},
                               {11000, 60, 8, 3, 31}};
    case_sys(4.2, 0.2, 9, 4, o, s);
    case_profile(5, layer, p);
    s->ts.gradient = gradients;
    for (int w = 0; w < s->nsensor; w++)
        s->sensors[w].gradient = gradients;
}

typedef struct {
    sys s;
    profile p;
    matcov *mc;
    backend_cov *c;
    backend_cov_target *target;
} covariances;

/* One block against the stage's, of either type; nothing beyond it is written. */
static void check_block(const covariances *v, const matcov_target *mt, backend_type type, size_t np,
                        size_t j0, size_t nj) {
    const backend_matcov *ops = matcov_backend(be);
    const size_t size = backend_size(type), ld = np + 2;
    double *x = calloc(np + 1, sizeof *x), *y = calloc(np + 1, sizeof *y), worst = 0, most = 0;
    double *want = calloc(np * nj + 1, sizeof *want);
    char *got = malloc(ld * nj * size), *a = device(ld * nj * size);
    double *dx = device((np + 1) * sizeof *x), *dy = device((np + 1) * sizeof *y);
    for (size_t i = 0; i < np; i++)
        x[i] = random_in(-2.1, 2.1), y[i] = random_in(-2.1, 2.1);
    memset(got, 0x7f, ld * nj * size);
    move(a, got, ld * nj * size);
    move(dx, x, np * sizeof *x);
    move(dy, y, np * sizeof *y);
    case_ok(ops->fill_cpm(v->target, type, (int64_t)np, dx, dy, (int64_t)j0, (int64_t)nj, a,
                          (int64_t)ld));
    case_ok(be->sync(ctx));
    move(got, a, ld * nj * size);
    case_ok(matcov_fill_cpm(mt, np, x, y, j0, nj, want, np));
    for (size_t j = 0; j < nj; j++)
        for (size_t i = 0; i < ld; i++) {
            const char *at = got + (i + j * ld) * size;
            for (size_t k = 0; k < size && i >= np; k++)
                assert_true(at[k] == 0x7f);
            if (i >= np)
                continue;
            const double value = type == BACKEND_D ? *(const double *)at : *(const float *)at;
            worst = fmax(worst, isnan(value) ? INFINITY : fabs(value - want[i + j * np]));
            most = fmax(most, fabs(want[i + j * np]));
        }
    if (!(worst <= (type == BACKEND_D ? 1e-11 : 1e-5) * most))
        fail_msg("type %d, %zu points, slopes %zu + %zu: %.3g of the largest", (int)type, np, j0,
                 nj, worst / most);
    be->release(ctx, a);
    be->release(ctx, dx);
    be->release(ctx, dy);
    free(got);
    free(want);
    free(x);
    free(y);
}

/* Any block of the covariances of phase and slopes, for slopes between points and for mean
 * gradients, with wind and without, is that of the stage. */
static void test_phase_slopes(void **state) {
    (void)state;
    static const double dir[2] = {CASE_ARCSEC(5), CASE_ARCSEC(-17)};
    for (int gradients = 0; gradients < 2; gradients++) {
        const backend_matcov *ops = matcov_backend(be);
        covariances v;
        matcov_model model;
        matcov *plain;
        matcov_target *mt;
        system_of_many(gradients, &v.s, &v.p);
        case_ok(matcov_init(&world, &v.s, &v.p, &v.mc));
        case_ok(matcov_prepare(&v.s, &v.p, &plain));
        case_ok(matcov_model_init(plain, &model));
        case_ok(ops->open(ctx, &model, &v.c));
        case_ok(ops->open_target(v.c, &v.target));
        for (int shifted = 0; shifted < 2; shifted++) {
            case_ok(matcov_target_init(v.mc, dir, shifted, &mt));
            case_ok(ops->aim(v.target, dir, shifted));
            check_block(&v, mt, BACKEND_D, 1, 0, v.s.m);
            check_block(&v, mt, BACKEND_D, 129, 33, 77);
            check_block(&v, mt, BACKEND_S, 257, 7, v.s.m - 7);
            check_block(&v, mt, BACKEND_D, 700, 0, v.s.m);
            matcov_target_free(mt);
        }
        ops->close_target(v.target);
        ops->close(v.c);
        matcov_model_free(&model);
        matcov_free(plain);
        matcov_free(v.mc);
        case_profile_free(&v.p);
        sys_free(&v.s);
    }
}

/* Sums over pairs are the stage's, and so is all that follows from them. */
static void check_pairs(int nssp, double obs, double coupling, int k) {
    static const double lambda[] = {2.2e-6, 1.65e-6}, box[] = {CASE_ARCSEC(0.1)};
    const backend_psf *ops = psf_backend(be);
    const case_sensor one = {nssp, {0, 0}, INFINITY, 1, 0, {0}, 8};
    const double layer[][5] = {{0, 25, 8, 0, 0}, {9000, INFINITY, 2, 0, 0}};
    const psf_opts o = {.nlambda = 2,
                        .lambda = lambda,
                        .nbox = 1,
                        .box = box,
                        .oversampling = k,
                        .span = 3,
                        .weighted = true,
                        .phase = true,
                        .crop = 32};
    sys s;
    profile prof;
    psf *p;
    psf_fit *rest;
    psf_fit_model fitted;
    psf_model model;
    backend_imager *b;
    const double *x, *y;
    double scalars[8], wanted[8], most = 0;
    case_sys(0.5 * nssp, obs, nssp, 1, &one, &s);
    s.dm.coupling = coupling;
    case_profile(2, layer, &prof);
    case_ok(psf_init(&s, &o, &p));
    case_ok(psf_rest_init(p, &prof, &rest));
    psf_fit_model_init(rest, &fitted);
    psf_model_init(p, &model);
    case_ok(ops->open(ctx, &model, &b));
    case_ok(ops->load(b, &fitted));
    const size_t v = (size_t)s.dm.nact, np = psf_points(p, &x, &y), nsep = psf_sep_count(p);
    const size_t ld = v + 3, d = sizeof(double);
    double *c = calloc(ld * v, d), *ct = calloc(ld * np, d), *want = calloc(nsep, d);
    double *got = malloc(nsep * d), *common = calloc(nsep, d);
    double *dc = device(ld * v * d), *dct = device(ld * np * d), *dsum = device(nsep * d);
    double *dcommon = device(nsep * d);
    float *image = malloc(2 * 32 * 32 * sizeof *image),
          *wimage = malloc(2 * 32 * 32 * sizeof *image);
    for (size_t i = 0; i < ld * v; i++)
        c[i] = i % ld < v ? random_in(-1e-17, 1e-17) : NAN;
    for (size_t i = 0; i < ld * np; i++)
        ct[i] = i % ld < v ? random_in(-1e-16, 1e-16) : NAN;
    case_ok(psf_accumulate_phase(p, 0, v, c, ld, ct, ld, want));
    case_ok(psf_phase_common(p, &prof, common));
    move(dc, c, ld * v * d);
    move(dct, ct, ld * np * d);
    move(dcommon, common, nsep * d);
    case_ok(ops->pairs(b, dc, (int64_t)ld, dct, (int64_t)ld, dsum));
    case_ok(be->sync(ctx));
    move(got, dsum, nsep * d);
    for (size_t i = 0; i < nsep; i++)
        most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < nsep; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-12 * most))
            fail_msg("nssp %d, place %zu: %.17g, expected %.17g", nssp, i, got[i], want[i]);
    case_ok(ops->compute(b, 0, dsum, dcommon));
    case_ok(ops->collect(b, 0, scalars, image));
    for (size_t i = 0; i < nsep; i++)
        want[i] += common[i];
    case_ok(psf_compute_all(p, want, rest, wanted, wimage));
    for (int i = 0; i < 8; i++)
        if (!(fabs(scalars[i] - wanted[i]) <= 1e-9 * fabs(wanted[i])))
            fail_msg("nssp %d, result %d: %.17g, expected %.17g", nssp, i, scalars[i], wanted[i]);
    for (int i = 0; i < 2 * 32 * 32; i++)
        assert_true(fabs((double)image[i] - (double)wimage[i]) < 1e-6);
    assert_int_equal(ops->pairs(b, dc, (int64_t)v - 1, dct, (int64_t)ld, dsum), MOAO_INPUT);
    status_clear();
    double *const gone[] = {dc, dct, dsum, dcommon};
    for (size_t i = 0; i < 4; i++)
        be->release(ctx, gone[i]);
    ops->close(b);
    double *const host[] = {c, ct, want, got, common};
    for (size_t i = 0; i < 5; i++)
        free(host[i]);
    free(image);
    free(wimage);
    psf_fit_free(rest);
    psf_free(p);
    case_profile_free(&prof);
    sys_free(&s);
}

static void test_pairs(void **state) {
    (void)state;
    check_pairs(7, 0.3, 0.2, 4);
    check_pairs(10, 0, 0.6, 3);
    check_pairs(16, 0.14, 0.1, 5);
    if (getenv("MOAO_TEST_SMALL") == NULL)
        check_pairs(33, 0.28, 0.2, 4);
}

static void choose(void) {
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_phase_slopes),
                                          cmocka_unit_test(test_pairs)};

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_SELF, &world);
    const backend_tests all = {tests, sizeof tests / sizeof *tests, choose, NULL};
    int failed = run_on_backends(&all);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
