/* Products with covariances of unlike sensors by tiles of low rank against dense ones with the
 * entries that fill_cmm gives: groups of one and of several sensors, tiles of several sizes, a
 * profile after another, tolerances, dense tiles, odd numbers of rows, strides. */
#include "support/matcov_backend.h"

#include "operator/unlike.h"

static const case_sensor sensors[] = {{9, {20, 5}, 9e4, 1, 0, {0}, 0},
                                      {8, {30, -9}, INFINITY, 1, 0, {0}, 10},
                                      {9, {-15, 12}, 9e4, 1, 0, {0.02, -0.1}, 0},
                                      {6, {-3, -30}, 8e4, 1, 0, {0}, 0},
                                      {8, {6, -7}, INFINITY, 1, 0, {0.1, 0}, 8}};
#define NSENSOR ((int)(sizeof sensors / sizeof *sensors))
static const double layers[2][3][5] = {
    {{0, 25, 60, 4, -3}, {2500, 40, 20, 10, 2}, {9000, 20, 7, 1, 8}},
    {{0, 30, 40, 1, 3}, {4000, 30, 30, 9, 2}, {15000, 25, 9, 1, 8}}};

typedef struct {
    engine e;
    sys s;
    profile p[2];
    report rep;
    alike like;
} fixture;

static void setup(fixture *f) {
    *f = (fixture){0};
    case_sys(10, 0.2, 5, NSENSOR, sensors, &f->s);
    for (int i = 0; i < 2; i++)
        case_profile(3, layers[i], &f->p[i]);
    f->e = (engine){.c = &world,
                    .s = &f->s,
                    .rep = &f->rep,
                    .be = be,
                    .m = (int64_t)f->s.m,
                    .t = (int64_t)f->s.t,
                    .rows = 1,
                    .width = 64};
    case_ok(engine_open(&f->e));
    case_ok(alike_init(&f->s, &f->like));
}

static void teardown(fixture *f) {
    alike_close(&f->e, &f->like);
    engine_close(&f->e);
    for (int i = 0; i < 2; i++)
        case_profile_free(&f->p[i]);
    sys_free(&f->s);
}

static void down(fixture *f, void *host, const void *dev, size_t bytes) {
    const int64_t n = (int64_t)bytes;
    must(be->copy(f->e.ctx, host, n, dev, n, n, 1));
    must(be->sync(f->e.ctx));
}

/* Rows of sensors of later groups with columns of earlier ones, 0 elsewhere; *bound: the largest.
 */
static double *dense_of(fixture *f, double *bound) {
    const size_t m = f->s.m;
    double *dev, *host = malloc(m * m * sizeof *host);
    assert_non_null(host);
    case_ok(engine_doubles(&f->e, (int64_t)(m * m), "a test", &dev));
    must(f->e.mat->fill_cmm(f->e.cov, BACKEND_D, 'A', 0, 0, (int64_t)m, 0, (int64_t)m, dev,
                            (int64_t)m));
    down(f, host, dev, m * m * sizeof *host);
    for (int v = 0; v < NSENSOR; v++)
        for (int w = 0; w < NSENSOR; w++)
            for (int j = 0; j < 2 * f->s.sensors[w].nsub && f->like.of[v] <= f->like.of[w]; j++)
                memset(host + f->s.sensors[v].first + (f->s.sensors[w].first + (size_t)j) * m, 0,
                       2 * (size_t)f->s.sensors[v].nsub * sizeof *host);
    *bound = 0;
    for (size_t i = 0; i < m * m; i++)
        *bound = fmax(*bound, fabs(host[i]));
    be->release(f->e.ctx, dev);
    return host;
}

/* Error of Y + 0.7 X C as a whole, relative to the product; X is v x m, of halves of leading
 * dimension v + 3. */
static double error_of(fixture *f, unlike *u, const double *c, int64_t v) {
    const int64_t m = f->e.m, ldx = v + 3, ldy = v + 1;
    float *x = malloc((size_t)(v * m) * sizeof *x), *y = malloc((size_t)(ldy * m) * sizeof *y);
    float *dx, *dy;
    backend_f16 *half;
    double gap = 0, norm = 0;
    assert_true(x && y);
    for (int64_t i = 0; i < v * m; i++)
        x[i] = (float)(int)case_random(-1000, 1000); /* a half as it is */
    for (int64_t i = 0; i < ldy * m; i++)
        y[i] = 3;
    case_ok(engine_array(&f->e, (size_t)(v * m) * 4, "a test", (void **)&dx));
    case_ok(engine_array(&f->e, (size_t)(ldy * m) * 4, "a test", (void **)&dy));
    case_ok(engine_array(&f->e, (size_t)(ldx * m) * 2, "a test", (void **)&half));
    must(be->copy(f->e.ctx, dx, 4 * v * m, x, 4 * v * m, 4 * v * m, 1));
    must(be->copy(f->e.ctx, dy, 4 * ldy * m, y, 4 * ldy * m, 4 * ldy * m, 1));
    must(be->half->cast_to_half(f->e.ctx, BACKEND_S, v, m, 5, dx, v, half, ldx));
    case_ok(unlike_apply(u, v, 0.7 * 0x1p-5, half, ldx, dy, ldy));
    down(f, y, dy, (size_t)(ldy * m) * 4);
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < v; i++) {
            double want = 0;
            for (int64_t k = 0; k < m; k++)
                want += 0.7 * x[i + k * v] * c[k + j * m];
            gap += pow(y[i + j * ldy] - want - 3, 2);
            norm += want * want;
        }
    for (int64_t j = 0; j < m; j++)
        assert_true(y[v + j * ldy] == 3);
    be->release(f->e.ctx, dx), be->release(f->e.ctx, dy), be->release(f->e.ctx, half);
    free(x), free(y);
    return sqrt(gap / norm);
}

static void test_products(void **state) {
    (void)state;
    static const struct {
        int64_t tile, v;
        double rms, most; /* of the slope variance; of the product */
    } cases[] = {
        {64, 6, 1e-5, 2e-3}, {64, 5, 1e-3, 0.1}, {24, 9, 1e-6, 2e-3}, {500, 3, 1e-6, 2e-3}};
    if (be->toeplitz == NULL || be->lowrank == NULL)
        skip();
    fixture f;
    setup(&f);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        unlike u;
        case_ok(unlike_open(&f.e, &f.like, cases[k].tile, &u));
        for (int p = 0; p < 2; p++) {
            double bound;
            case_ok(engine_load(&f.e, &f.p[p]));
            double *c = dense_of(&f, &bound);
            case_ok(unlike_load(&u, cases[k].rms * matcov_direct_cmm(&f.s, &f.p[p], 0, 0), bound));
            const double e = error_of(&f, &u, c, cases[k].v + p);
            print_message("tiles of %lld, %.0e: %lld of %lld dense, rank %.1f, error %.1e\n",
                          (long long)cases[k].tile, cases[k].rms, (long long)u.dense,
                          (long long)u.tiles, (double)u.ranks / (double)u.tiles, e);
            assert_true(e <= cases[k].most);
            free(c);
        }
        unlike_close(&u);
    }
    teardown(&f);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_products)};

int main(void) {
    return run_alone(tests, sizeof tests / sizeof *tests);
}
