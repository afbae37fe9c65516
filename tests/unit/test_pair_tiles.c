/* Products by tiles of low rank against dense ones with the entries that fill_cmm and fill_cpm
 * give: laser and natural stars, registration, turned sensors, points of the pupil seen in a moved
 * target's direction; which sensors can be tiled. */
#include "support/engine_case.h"

#include "residual/lattice_pairs.h"
#include "residual/pair_tiles.h"

#include <mpi.h>

static comm world;

static const case_sensor sensors[] = {{30, {60, 35}, 9e4, 1, 0, {0}, 0},
                                      {27, {30, -9}, INFINITY, 1, 0, {0}, 10},
                                      {30, {-75, 12}, 9e4, 1, 0, {0.02, -0.1}, 0},
                                      {22, {-20, -50}, INFINITY, 1.02, 0.3, {0}, 9}};
#define NSENSOR ((int)(sizeof sensors / sizeof *sensors))
static const double layers[3][5] = {{0, 25, 60, 4, -3}, {2500, 40, 20, 10, 2}, {9000, 20, 7, 1, 8}};

typedef struct {
    engine e;
    sys s;
    profile p;
    report rep;
} fixture;

static void setup(fixture *f) {
    *f = (fixture){0};
    case_sys(15, 0.3, 5, NSENSOR, sensors, &f->s);
    f->s.ts.gradient = true;
    for (int w = 0; w < NSENSOR; w++)
        f->s.sensors[w].gradient = true;
    case_profile(3, layers, &f->p);
    case_engine(&world, &f->s, &f->rep, &f->e);
    case_ok(engine_load(&f->e, &f->p));
}

static void teardown(fixture *f) {
    engine_close(&f->e);
    case_profile_free(&f->p);
    sys_free(&f->s);
}

/* Root mean square, over the products y = x A, of what is wrong with an entry of A: x is v x m with
 * entries of variance 1/3, a(k, j) the dense matrix, 0 where no tile is. */
static double error_of(fixture *f, const tiling *t, int64_t v, const double *a, int64_t n) {
    const int64_t m = f->e.m;
    const size_t lwork = (size_t)(3 * v * (m + t->low)); /* some rows of many at a time */
    assert_true((int64_t)pair_tiles_work(&f->s, n > m ? n : 0, 1) >= pair_tiles_row(t));
    float *x = malloc(sizeof *x * (size_t)(v * m)), *y = calloc((size_t)(v * n), sizeof *y);
    float *work = malloc(lwork * sizeof *work);
    double gap = 0;
    assert_true(x && y && work);
    for (int64_t i = 0; i < v * m; i++)
        x[i] = (float)case_random(-1, 1);
    case_ok(pair_tiles_apply(&f->e, t, v, x, y, work, lwork));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < v; i++) {
            double want = 0;
            for (int64_t k = 0; k < m; k++)
                want += (double)x[i + k * v] * a[k + j * m];
            gap += pow((double)y[i + j * v] - want, 2);
        }
    free(x), free(y), free(work);
    return sqrt(3 * gap / (double)(v * n) / (double)m);
}

/* How many tiles are of low rank, and no two share an entry. */
static int64_t low_tiles(const tiling *t) {
    int64_t low = 0;
    for (int i = 0; i < t->ntile; i++) {
        low += t->at[0][i] >= 0;
        for (int j = 0; j < i; j++)
            assert_false(t->in[i] == t->in[j] && t->out[i] == t->out[j]);
    }
    return low;
}

static void test_sensors(void **state) {
    fixture f;
    lattice_pairs a;
    clusters c;
    tiling t;
    pair_tiles_memory memory = {0};
    (void)state;
    setup(&f);
    if (f.e.mat->tiles == NULL) {
        teardown(&f);
        skip();
    }
    const size_t m = f.s.m;
    double *dense = malloc(m * m * sizeof *dense);
    assert_non_null(dense);
    case_ok(lattice_pairs_init(&f.s, false, &a));
    assert_int_equal(a.ngroup, 3);
    assert_true(matcov_tileable(&f.s));
    case_ok(clusters_init(&f.s, 0, NULL, NULL, &c));
    case_ok(pair_tiles_init(&c, a.of, false, &memory, &t));
    case_ok(f.e.mat->fill_cmm(f.e.cov, BACKEND_D, 'A', 0,
                              (matcov_region){0, (int64_t)m, 0, (int64_t)m}, dense, (int64_t)m));
    const double variance = dense[0];
    for (int v = 0; v < NSENSOR; v++) /* columns of a group before that of the rows */
        for (int w = 0; w < NSENSOR; w++)
            for (int j = 0; j < 2 * f.s.sensors[w].nsub && a.of[w] >= a.of[v]; j++)
                memset(dense + f.s.sensors[v].first + (f.s.sensors[w].first + (size_t)j) * m, 0,
                       2 * (size_t)f.s.sensors[v].nsub * sizeof *dense);
    int64_t before = INT64_MAX;
    for (double tol = 1e-7; tol < 1e-3; tol *= 10) {
        case_ok(pair_tiles_fill(&f.e, NULL, tol * variance, &t));
        const double e = error_of(&f, &t, 37, dense, (int64_t)m) / variance;
        print_message("tolerance %.0e: error %.1e, %d of %d tiles of low rank, mean %.1f\n", tol, e,
                      (int)low_tiles(&t), t.ntile, (double)t.low / (double)low_tiles(&t));
        assert_true(e <= 2 * tol + 3e-7); /* single precision */
        assert_true(low_tiles(&t) > 0 && low_tiles(&t) < t.ntile);
        if (tol > 1e-6) /* ranks fall, once the tiles of low rank are much the same */
            assert_true(t.low / low_tiles(&t) <= before);
        before = t.low / low_tiles(&t);
    }
    pair_tiles_free(&t);
    pair_tiles_memory_free(&memory);
    clusters_free(&c);
    lattice_pairs_close(&f.e, &a);
    free(dense);
    teardown(&f);
}

static void test_points(void **state) {
    fixture f;
    clusters c;
    tiling t;
    pair_tiles_memory memory = {0};
    backend_cov_target *target;
    enum { N = 23 };
    double x[N * N], y[N * N], most = 0;
    (void)state;
    setup(&f);
    if (f.e.mat->tiles == NULL) {
        teardown(&f);
        skip();
    }
    const int64_t m = f.e.m, np = N * N;
    for (int i = 0; i < np; i++) /* some outside the pupil */
        x[i] = (i % N - 11) * 0.7, y[i] = (i / N - 11) * 0.7;
    double *cpm = malloc(sizeof *cpm * (size_t)(m * np)),
           *dense = malloc(sizeof *dense * (size_t)(m * np));
    assert_true(cpm && dense);
    case_ok(f.e.mat->open_target(f.e.cov, &target));
    case_ok(clusters_init(&f.s, np, x, y, &c));
    case_ok(pair_tiles_init(&c, NULL, true, &memory, &t));
    assert_int_not_equal(pair_tiles_fill(&f.e, target, 1, &t), MOAO_OK); /* not aimed */
    status_clear();
    case_ok(f.e.mat->aim(target, (double[]){1e-4, -2e-4}, true));
    case_ok(f.e.mat->fill_cpm(target, BACKEND_D, (matcov_points){np, x, y}, 0, m, cpm, np));
    for (int64_t j = 0; j < np; j++)
        for (int64_t k = 0; k < m; k++) {
            dense[k + j * m] = cpm[j + k * np];
            most = fmax(most, fabs(cpm[j + k * np]));
        }
    for (double tol = 1e-6; tol < 1e-3; tol *= 10) {
        case_ok(pair_tiles_fill(&f.e, target, tol * most, &t));
        const double e = error_of(&f, &t, 5, dense, np) / most;
        print_message("points, tolerance %.0e: error %.1e, %d of %d tiles of low rank\n", tol, e,
                      (int)low_tiles(&t), t.ntile);
        assert_true(e <= 2 * tol + 3e-7);
        assert_true(low_tiles(&t) > 0);
    }
    f.e.mat->close_target(target);
    pair_tiles_free(&t);
    pair_tiles_memory_free(&memory);
    clusters_free(&c);
    free(cpm), free(dense);
    teardown(&f);
}

/* Slopes between points, and subapertures of very unequal sizes, go another way. */
static void test_tileable(void **state) {
    fixture f;
    (void)state;
    setup(&f);
    f.s.sensors[1].gradient = false;
    assert_false(matcov_tileable(&f.s));
    f.s.sensors[1].gradient = true;
    f.s.sensors[1].mag = 2;
    assert_false(matcov_tileable(&f.s));
    f.s.sensors[1].mag = 1;
    teardown(&f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sensors),
        cmocka_unit_test(test_points),
        cmocka_unit_test(test_tileable),
    };
    MPI_Init(&argc, &argv);
    case_ok(comm_init(MPI_COMM_SELF, &world));
    const int failed = RUN_ON_BACKENDS(tests);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
