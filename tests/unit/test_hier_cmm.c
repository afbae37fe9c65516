/* Formats of the covariance of measurements against dense products with the entries that fill_cmm
 * gives: HSS with clusters of all sensors together, H2 sensor by sensor with what is apart on every
 * layer, dense; odd sensors, noise, sides, transposition, both parts, numbers of vectors, another
 * profile; entries at lists of rows and columns; what is apart. */
#include "support/engine_case.h"
#include "support/matcov_backend.h"

#include "support/hier_case.h"

#include "engine/cmm_source.h"

/* laser and natural stars, 1:2, one subaperture across, registration, magnification, one row */
static const case_sensor sensors[] = {{12, {20, 5}, 9e4, 1, 0, {0}, 0},
                                      {10, {30, -9}, INFINITY, 1, 0, {0}, 10},
                                      {12, {-15, 12}, 9e4, 1, 0, {0.02, -0.1}, 0},
                                      {9, {-3, -30}, 8e4, 1, 0.05, {0}, 0},
                                      {5, {-8, 22}, INFINITY, 1.02, 0.05, {0}, 9},
                                      {1, {2, 2}, INFINITY, 1, 0, {0}, 9},
                                      {2, {9, 9}, INFINITY, 1, -0.3, {0, 0.2}, 9}};
#define NSENSOR ((int)(sizeof sensors / sizeof *sensors))
static const double layers[2][3][5] = {
    {{0, 25, 60, 4, -3}, {2500, 40, 20, 10, 2}, {9000, 20, 7, 1, 8}},
    {{0, 30, 40, 1, 3}, {2500, 30, 30, 9, 2}, {9000, 25, 9, 1, 8}}};

typedef struct {
    engine e;
    sys s;
    profile p[2];
    report rep;
    double *dense; /* Cmm of the profile loaded, with noise */
    double variance;
} fixture;

/* The engine's stream is another one than that of copies to the host. */
static void await(const fixture *f) {
    must(f->e.be->sync(f->e.ctx));
}

static void load(fixture *f, int which) {
    const int64_t m = f->e.m;
    double *dev = poison(8 * (size_t)(m * m));
    case_ok(engine_load(&f->e, &f->p[which]));
    must(f->e.mat->fill_cmm(f->e.cov, BACKEND_D, 'A', MATCOV_NOISE, 0, m, 0, m, dev, m));
    await(f);
    to_host(f->dense, dev, 8 * (size_t)(m * m));
    be->release(ctx, dev);
}

static void setup(fixture *f) {
    *f = (fixture){0};
    case_sys(8, 0.2, 5, NSENSOR, sensors, &f->s);
    for (int i = 0; i < 2; i++)
        case_profile(3, layers[i], &f->p[i]);
    case_engine(&world, &f->s, &f->rep, &f->e);
    f->dense = malloc(8 * f->s.m * f->s.m);
    assert_non_null(f->dense);
    load(f, 0);
    f->variance = f->dense[0];
}

static void teardown(fixture *f) {
    free(f->dense);
    engine_close(&f->e);
    for (int i = 0; i < 2; i++)
        case_profile_free(&f->p[i]);
    sys_free(&f->s);
}

/* Y := X A by the format, its rows in the source's order; A by unit vectors gives its entries. */
static void product(const fixture *f, const format *g, char side, char trans, char part,
                    int64_t nvec, const double *x, double *y) {
    const int64_t m = f->e.m;
    const size_t bytes = 8 * (size_t)(m * nvec), lwork = hier_workspace(g, side, nvec);
    const bool left = side == 'L';
    hier_info info;
    double *there = malloc(bytes);
    void *work = poison(lwork), *dy = poison(bytes);
    assert_non_null(there);
    hier_describe(g, &info);
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < nvec; k++) {
            const int64_t row = info.order != NULL ? info.order[i] : i;
            there[left ? i + k * m : k + i * nvec] = x[left ? row + k * m : k + row * nvec];
        }
    void *dx = device_copy(there, bytes);
    must(hier_apply(g, side, trans, part, nvec, 1, dx, left ? m : nvec, 0, dy, left ? m : nvec,
                    work, lwork));
    await(f);
    to_host(there, dy, bytes);
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < nvec; k++) {
            const int64_t row = info.order != NULL ? info.order[i] : i;
            y[left ? row + k * m : k + row * nvec] = there[left ? i + k * m : k + i * nvec];
        }
    be->release(ctx, dx), be->release(ctx, dy), be->release(ctx, work);
    free(there);
}

/* Root of the mean square of what is wrong with the entries of a format, and their asymmetry of
 * part H: 2 H - A. */
static double entries_error(const fixture *f, const format *g, char part) {
    const int64_t m = f->e.m;
    double *one = calloc((size_t)(m * m), 8), *a = malloc(8 * (size_t)(m * m)), sum = 0;
    assert_true(one && a);
    for (int64_t i = 0; i < m; i++)
        one[i * (m + 1)] = 1;
    product(f, g, 'L', 'N', part, m, one, a);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++) {
            const double is = part == 'H' ? a[i + j * m] + a[j + i * m] : a[i + j * m];
            sum += (is - f->dense[i + j * m]) * (is - f->dense[i + j * m]);
        }
    free(one), free(a);
    return sqrt(sum / (double)(m * m));
}

/* Products of random vectors: root of the mean square relative to that of the dense ones. */
static double vectors_error(const fixture *f, const format *g, char side, char trans,
                            int64_t nvec) {
    const int64_t m = f->e.m;
    const bool left = side == 'L';
    double *x = random_host(BACKEND_D, left ? m : nvec, left ? nvec : m, 11);
    double *y = malloc(8 * (size_t)(m * nvec)), gap = 0, size = 0;
    assert_non_null(y);
    product(f, g, side, trans, 'A', nvec, x, y);
    for (int64_t k = 0; k<nvec; k += nvec> 20 ? 13 : 1)
        for (int64_t j = 0; j < m; j++) {
            double want = 0;
            for (int64_t i = 0; i < m; i++)
                want += f->dense[i + j * m] * x[left ? i + k * m : k + i * nvec];
            const double e = y[left ? j + k * m : k + j * nvec] - want;
            gap += e * e;
            size += want * want;
        }
    free(x), free(y);
    return sqrt(gap / size);
}

static void all_products(const fixture *f, format *g, const hier_source *s, double tol,
                         const char *name) {
    static const int64_t nvec[] = {1, 7, 64, 300};
    double rms, worst;
    hier_info info;
    const double truth = entries_error(f, g, 'A');
    must(hier_check(g, s, 256, 3, &rms, &worst));
    hier_describe(g, &info);
    print_message("%-8s tolerance %.0e of the variance: entries wrong by %.1e, estimate %.1e; rank "
                  "%d of %lld, %.2f of its numbers\n",
                  name, tol, truth / f->variance, rms / f->variance, info.rank_max,
                  (long long)f->e.m, (double)info.bytes / (8 * (double)(f->e.m * f->e.m)));
    assert_true(truth <= tol * f->variance);
    /* a few rows have most of it, so that a third of them is not all */
    assert_true(rms <= 2 * truth + 1e-15 * f->variance && rms >= truth / 4);
    assert_true(entries_error(f, g, 'H') <= tol * f->variance + 1e-15);
    for (int k = 0; k < 4; k++) {
        const double e = vectors_error(f, g, "LR"[k % 2], "NT"[k / 2], nvec[k]);
        if (!(e <= 3 * tol + 1e-14))
            fail_msg("%s, %d vectors: wrong by %g", name, (int)nvec[k], e);
    }
}

static void test_formats(void **state) {
    static const struct {
        const char *name;
        hier_kind kind;
        cmm_clusters how;
        double tol;
    } cases[] = {{"dense", HIER_DENSE, CMM_JOINT, 0},
                 {"HSS", HIER_HSS, CMM_JOINT, 1e-3},
                 {"HSS", HIER_HSS, CMM_JOINT, 1e-6},
                 {"H2", HIER_H2, CMM_BY_SENSOR, 1e-4},
                 {"H2", HIER_H2, CMM_BY_SENSOR, 1e-6}};
    (void)state;
    fixture f;
    if (ops == NULL || be->hier == NULL)
        skip();
    setup(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].tol == 1e-6 && getenv("MOAO_TEST_SMALL") != NULL)
            continue; /* the code of the larger tolerance; a checking tool needs it once */
        hier_source s;
        format *g;
        const hier_options o = {.kind = cases[i].kind,
                                .type = BACKEND_D,
                                .tol = cases[i].tol * f.variance,
                                .leaf = cases[i].kind == HIER_H2 ? 24 : 48,
                                .seed = 1,
                                .mean_split = cases[i].how == CMM_BY_SENSOR,
                                .lean = true};
        case_ok(cmm_source_open(&f.e, cases[i].how, &f.p[0], MATCOV_NOISE, &s));
        must(hier_open(f.e.be, f.e.ctx, &s, &o, &g));
        all_products(&f, g, &s, cases[i].tol, cases[i].name);
        load(&f, 1);
        must(hier_load(g, &s));
        all_products(&f, g, &s, cases[i].tol, "  again");
        load(&f, 0);
        hier_close(g);
        cmm_source_close(&s);
    }
    teardown(&f);
}

/* Entries at lists in any order, with repetitions, both types, stored either way. */
static void test_gather(void **state) {
    (void)state;
    fixture f;
    hier_source s;
    int list[2][40];
    const int64_t size[2][2] = {{37, 40}, {5, 0}}; /* rows, columns of two blocks */
    if (ops == NULL)
        skip();
    setup(&f);
    case_ok(cmm_source_open(&f.e, CMM_JOINT, NULL, MATCOV_NOISE, &s));
    for (int i = 0; i < 80; i++)
        list[i / 40][i % 40] = (int)(i % 3 == 0 ? (i * 37) % f.e.m : (i / 3 + i % 3) % f.e.m);
    int *dl[2] = {device_copy(list[0], sizeof list[0]), device_copy(list[1], sizeof list[1])};
    int *const two[2] = {dl[0], dl[0]}, *const other[2] = {dl[1], dl[1]};
    const int *const *rows = device_copy(two, sizeof two), *const *cols =
                                                               device_copy(other, sizeof other);
    const int64_t *each[2] = {device_copy(size[0], sizeof size[0]),
                              device_copy(size[1], sizeof size[1])};
    for (int t = 0; t < 4; t++) {
        const backend_type type = t % 2 ? BACKEND_S : BACKEND_D;
        const size_t bytes = backend_size(type) * 2 * 41 * 41;
        char *host = malloc(bytes);
        void *a = poison(bytes);
        const hier_blocks b = {
            2, {40, each[0]}, {40, each[1]}, rows, cols, batch_strided(a, 41, 41 * 41), t / 2 == 1};
        must(s.gather(s.from, f.e.ctx, type, &b));
        to_host(host, a, bytes);
        for (int64_t i = 0; i < size[0][0]; i++)
            for (int64_t j = 0; j < size[1][0]; j++) {
                const int64_t at = t / 2 ? j + 41 * i : i + 41 * j;
                const double is = type == BACKEND_D ? ((double *)(void *)host)[at]
                                                    : (double)((float *)(void *)host)[at];
                const double want = f.dense[list[0][i] + list[1][j] * f.e.m];
                assert_true(fabs(is - want) <= (type == BACKEND_D ? 1e-14 : 2e-6) * f.variance);
            }
        be->release(ctx, a);
        free(host);
    }
    for (int i = 0; i < 2; i++)
        be->release(ctx, dl[i]), be->release(ctx, (void *)each[i]);
    be->release(ctx, (void *)rows), be->release(ctx, (void *)cols);
    cmm_source_close(&s);
    teardown(&f);
}

/* Of one layer at 9 km two stars 10 arcsec apart look through places 0.44 m apart: what is near is
 * where these are, not where subapertures are. */
static void test_apart(void **state) {
    static const case_sensor pair[] = {{8, {0, 0}, INFINITY, 1, 0, {0}, 9},
                                       {8, {100, 0}, INFINITY, 1, 0, {0}, 9}};
    static const double high[1][5] = {{9000, 25, 60, 0, 0}};
    (void)state;
    fixture f = {0};
    hier_source s;
    if (ops == NULL)
        skip();
    case_sys(8, 0, 5, 2, pair, &f.s);
    case_profile(1, high, &f.p[0]);
    case_engine(&world, &f.s, &f.rep, &f.e);
    case_ok(cmm_source_open(&f.e, CMM_BY_SENSOR, &f.p[0], 0, &s));
    const double second = s.at[3 * (f.e.m - 1) + 2]; /* its third coordinate */
    assert_true(second > 8);
    /* 100 arcsec at 9 km: 4.36 m; a subaperture is 1 m */
    const double a[] = {0, 0, 0}, same[] = {-4.36, 0, second}, right[] = {0, 0, second};
    assert_true(s.apart(s.from, a, a, same, same) == 0);
    const double gap = s.apart(s.from, a, a, right, right);
    assert_true(fabs(gap - (4.363 - 1) / sqrt(2)) < 0.01);
    assert_true(s.apart(s.from, right, right, a, a) == gap);
    const double both[] = {0, 0, second};
    assert_true(s.apart(s.from, a, both, right, right) == 0); /* of two sensors */
    cmm_source_close(&s);
    engine_close(&f.e);
    case_profile_free(&f.p[0]);
    sys_free(&f.s);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_gather), cmocka_unit_test(test_apart), cmocka_unit_test(test_formats)};

int main(void) {
    return run_alone(tests, sizeof tests / sizeof *tests);
}
