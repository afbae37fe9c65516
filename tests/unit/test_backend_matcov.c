/* Covariances by the backends: one body for every backend that is usable here, compared with the
 * stage's fills and with the closed form. The variable MOAO_TEST_BACKEND picks one.
 * seconds: 40 */
#include "support/matcov_backend.h"

#include "backend/backend_matcov.h"

static uint64_t random_state = 88172645463325252u;

/* 0 .. n-1 */
static int64_t random_below(int64_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)((random_state >> 11) % (uint64_t)n);
}

/* Laser and natural stars of several sizes: pairs on one lattice, and pairs made unlike by
 * altitude, size, magnification and rotation. */
static const case_sensor sensors[] = {{11, {20, 5}, 9e4, 1, 0, {0}, 0},
                                      {11, {-15, 12}, 9e4, 1, 0, {0.02, -0.1}, 0},
                                      {10, {-3, -30}, 8e4, 1, 0, {0}, 0},
                                      {11, {30, -9}, INFINITY, 1, 0, {0}, 10},
                                      {7, {-8, 22}, INFINITY, 1.02, 0.05, {0}, 9},
                                      {11, {0, 5}, INFINITY, 1, 0, {0.1, 0}, 9},
                                      {22, {6, -7}, INFINITY, 1, 0, {0}, 8},
                                      {11, {9, 9}, INFINITY, 1, -0.3, {0, 0.2}, 9}};
/* Stars whose subapertures are as wide as the pupil or half of it, all of them by nodes. */
static const case_sensor few[] = {{11, {20, 5}, 9e4, 1, 0, {0}, 0},
                                  {1, {-15, 12}, INFINITY, 1, 0.1, {0}, 9},
                                  {22, {30, -9}, INFINITY, 1, 0, {0.03, 0}, 10},
                                  {2, {-8, 22}, INFINITY, 1, 0, {0}, 9}};
/* a zero layer, one without outer scale, a strong one, and one above the lasers */
static const double layers[][5] = {{0, 25, 60, 4, -3},     {0, 12, 0, 9, 9},
                                   {2500, 40, 20, 10, 2},  {9000, INFINITY, 7, -20, 8},
                                   {12000, 80, 5, 15, 15}, {9.5e4, 20, 3, 5, 5}};
#define NLAYER ((int)(sizeof layers / sizeof *layers))

typedef struct {
    sys s;
    profile p;
    matcov *mc;         /* with its tables: the stage */
    matcov_model model; /* of `plain` */
    matcov *plain;
    backend_cov *c;
    double variance; /* of the largest slope variance, the scale of the errors */
} fixture;

/* What the tests run with: slopes as mean gradients, of all sensors or of every other one, and so
 * many of the sensors, or of others. */
static bool gradients, mixed;
static const case_sensor *stars = sensors;
#define NSENSOR (int)(sizeof sensors / sizeof *sensors)
static int nsensor = NSENSOR;

static void setup(fixture *f, int nlayer, const double (*lay)[5]) {
    *f = (fixture){0};
    case_sys(8, 0.25, 11, nsensor, stars, &f->s);
    f->s.ts.gradient = gradients;
    for (int w = 0; w < nsensor; w++)
        f->s.sensors[w].gradient = gradients && (!mixed || w % 2 == 0);
    case_profile(nlayer, lay, &f->p);
    case_ok(matcov_init(&world, &f->s, &f->p, &f->mc));
    case_ok(matcov_prepare(&f->s, &f->p, &f->plain));
    case_ok(matcov_model_init(f->plain, &f->model));
    case_ok(ops->open(ctx, &f->model, &f->c));
    f->variance = matcov_direct_cmm(&f->s, &f->p, 0, 0);
}

static void teardown(fixture *f) {
    ops->close(f->c);
    matcov_model_free(&f->model);
    matcov_free(f->plain);
    matcov_free(f->mc);
    case_profile_free(&f->p);
    sys_free(&f->s);
}

/* A block in the backend's memory, its host copy, and a guard of poison around it. */
typedef struct {
    backend_type type;
    int64_t ni, nj, lda;
    void *device;
    unsigned char *host;
} block;

#define POISON 0xfb

static size_t block_bytes(const block *b) {
    return (size_t)(b->lda * (b->nj + 1)) * backend_size(b->type);
}

static block block_new(backend_type t, int64_t ni, int64_t nj) {
    block b = {t, ni, nj, ni + 1 + random_below(5), NULL, NULL};
    size_t n = block_bytes(&b);
    case_ok(be->alloc(ctx, n, &b.device));
    b.host = malloc(n);
    assert_non_null(b.host);
    memset(b.host, POISON, n);
    case_ok(be->copy(ctx, b.device, (int64_t)n, b.host, (int64_t)n, (int64_t)n, 1));
    case_ok(be->sync(ctx));
    return b;
}

static void block_fetch(block *b) {
    int64_t n = (int64_t)block_bytes(b);
    case_ok(be->copy(ctx, b->host, n, b->device, n, n, 1));
    case_ok(be->sync(ctx));
}

static void block_free(block *b) {
    be->release(ctx, b->device);
    free(b->host);
}

static bool poisoned(const block *b, int64_t i, int64_t j) {
    size_t n = backend_size(b->type), at = (size_t)(i + j * b->lda) * n;
    for (size_t k = 0; k < n; k++)
        if (b->host[at + k] != POISON)
            return false;
    return true;
}

static double entry(const block *b, int64_t i, int64_t j) {
    int64_t at = i + j * b->lda;
    return b->type == BACKEND_D ? ((double *)b->host)[at] : (double)((float *)b->host)[at];
}

/* Every entry is what `want` says, to `most`, and all of them on the average (rms) to `usual`; what
 * is above the diagonal (of parts L and T) and beyond the block is still poison. below(0, 0) = i0 -
 * j0. */
static void expect_within(const char *what, const block *b, char part, int64_t below,
                          const double *want, double variance, double most, double usual) {
    double sum = 0, n = 0;
    for (int64_t j = 0; j <= b->nj; j++)
        for (int64_t i = 0; i < b->lda; i++) {
            bool out = i >= b->ni || j >= b->nj || (part != 'A' && below + i - j < 0);
            if (out) {
                if (!poisoned(b, i, j))
                    fail_msg("%s: (%d, %d) beyond the part was written", what, (int)i, (int)j);
                continue;
            }
            double w = want[i + j * b->ni] * (part == 'T' && below + i - j == 0 ? 0.5 : 1.0);
            double scale = b->type == BACKEND_D ? 0 : 1e-6 * fabs(w); /* large constants, rounded */
            double off = fmax(0, fabs(entry(b, i, j) - w) - scale);
            if (!(off <= most * variance))
                fail_msg("%s: (%d, %d) is %.17g, not %.17g: %.3g of the variance", what, (int)i,
                         (int)j, entry(b, i, j), w, off / variance);
            sum += off * off, n++;
        }
    if (!(sqrt(sum / fmax(n, 1)) <= usual * variance))
        fail_msg("%s: off by %.3g of the variance (rms)", what, sqrt(sum / n) / variance);
}

/* The same to the accuracy of the block's type. Tables of mean gradients jump by 1e-9 of the
 * variance where their intervals meet, and rounding decides on which side of that a few places
 * are. */
static void expect(const char *what, const block *b, char part, int64_t below, const double *want,
                   double variance) {
    const double usual = b->type == BACKEND_D ? 1e-10 : gradients ? 6e-6 : 1e-6;
    const double most = b->type == BACKEND_D && gradients ? 3e-9 : usual;
    expect_within(what, b, part, below, want, variance, most, usual);
}

static const int64_t sides[] = {1, 2, 7, 31, 64, 100, 255, 257, 600};
#define NSIDE ((int)(sizeof sides / sizeof *sides))

/* Random blocks of Cmm, across sensors and axes, of both types and all parts, equal the stage's;
 * the diagonal is met in every second one. */
static void test_cmm(void **state) {
    (void)state;
    fixture f;
    setup(&f, NLAYER, layers);
    int64_t m = (int64_t)f.s.m;
    for (int k = 0; k < 60; k++) {
        int64_t ni = sides[random_below(NSIDE)], nj = sides[random_below(NSIDE)];
        int64_t j0 = random_below(m - nj + 1), i0 = random_below(m - ni + 1);
        if (k % 2 == 0 && j0 + ni <= m)
            i0 = j0 - (j0 > 3 ? random_below(3) : 0);
        backend_type t = random_below(3) ? BACKEND_D : BACKEND_S;
        char part = "ALT"[random_below(3)];
        block b = block_new(t, ni, nj);
        double *want = malloc((size_t)(ni * nj) * sizeof *want);
        case_ok(matcov_fill_cmm(f.mc, (size_t)i0, (size_t)ni, (size_t)j0, (size_t)nj, want,
                                (size_t)ni));
        case_ok(ops->fill_cmm(f.c, t, part, MATCOV_ALL, (matcov_region){i0, ni, j0, nj}, b.device,
                              b.lda));
        block_fetch(&b);
        expect("Cmm", &b, part, i0 - j0, want, f.variance);
        block_free(&b);
        free(want);
    }
    teardown(&f);
}

/* The whole of Cmm without noise and constants equals the closed form at entries of every pair of
 * sensors; with one of the two, only their entries change, by the right amount. */
static void test_parts(void **state) {
    (void)state;
    fixture f;
    setup(&f, NLAYER, layers);
    int64_t m = (int64_t)f.s.m;
    block b[4];
    for (unsigned with = 0; with < 4; with++) {
        b[with] = block_new(BACKEND_D, m, m);
        case_ok(ops->fill_cmm(f.c, BACKEND_D, 'A', with, (matcov_region){0, m, 0, m},
                              b[with].device, b[with].lda));
        block_fetch(&b[with]);
    }
    for (int k = 0; k < 3000; k++) {
        int64_t i = random_below(m), j = k % 8 ? random_below(m) : i;
        double want = matcov_direct_cmm(&f.s, &f.p, (size_t)i, (size_t)j), e = entry(&b[0], i, j);
        if (!(fabs(e - want) <= 1e-10 * f.variance))
            fail_msg("(%d, %d) is %.17g, closed form %.17g", (int)i, (int)j, e, want);
        int w[2], axis[2], sub[2];
        sys_slope_at(&f.s, (size_t)i, &w[0], &axis[0], &sub[0]);
        sys_slope_at(&f.s, (size_t)j, &w[1], &axis[1], &sub[1]);
        bool same = w[0] == w[1];
        double noise = entry(&b[MATCOV_NOISE], i, j) - e,
               constant = entry(&b[MATCOV_TIPTILT], i, j) - e;
        assert_true(same && sub[0] == sub[1] ? noise != 0 || axis[0] != axis[1] : noise == 0);
        assert_true((same && axis[0] == axis[1] && f.s.sensors[w[0]].lgs) == (constant > 0));
        double all = entry(&b[MATCOV_ALL], i, j);
        assert_true(fabs(all - (e + noise + constant)) <= 1e-12 * (fabs(all) + f.variance));
    }
    for (unsigned with = 0; with < 4; with++)
        block_free(&b[with]);
    teardown(&f);
}

/* Ctt, and Ctm of targets in several directions, still and shifted, in panels: equal the stage's.
 */
static void test_truth_sensor(void **state) {
    (void)state;
    fixture f;
    setup(&f, NLAYER, layers);
    int64_t m = (int64_t)f.s.m, n = (int64_t)f.s.t;
    double *want = malloc((size_t)(n * m) * sizeof *want);
    for (int t = BACKEND_D; t <= BACKEND_S; t++) {
        block b = block_new(t, n - 3, n);
        case_ok(matcov_fill_ctt(f.mc, 2, (size_t)n - 3, 0, (size_t)n, want, (size_t)n - 3));
        case_ok(ops->fill_ctt(f.c, t, 'T', (matcov_region){2, n - 3, 0, n}, b.device, b.lda));
        block_fetch(&b);
        expect("Ctt", &b, 'T', 2, want, f.variance);
        block_free(&b);
    }
    backend_cov_target *v;
    case_ok(ops->open_target(f.c, &v));
    for (int k = 0; k < 8; k++) {
        double dir[2] = {CASE_ARCSEC(5.0 * k), CASE_ARCSEC(20 - 7.0 * k)};
        int64_t nj = sides[random_below(NSIDE)], j0 = random_below(m - nj + 1);
        int64_t ni = k % 2 ? n : n / 3, i0 = k % 2 ? 0 : n / 2;
        matcov_target *mt;
        block b = block_new(k < 6 ? BACKEND_D : BACKEND_S, ni, nj);
        double *part = malloc((size_t)(ni * nj) * sizeof *part);
        case_ok(matcov_target_init(f.mc, dir, k % 3 != 0, &mt));
        case_ok(matcov_fill_ctm(mt, (size_t)j0, (size_t)nj, want, (size_t)n));
        for (int64_t j = 0; j < nj; j++)
            memcpy(part + j * ni, want + j * n + i0, (size_t)ni * sizeof *part);
        case_ok(ops->aim(v, dir, k % 3 != 0));
        case_ok(ops->fill_ctm(v, b.type, (matcov_region){i0, ni, j0, nj}, b.device, b.lda));
        block_fetch(&b);
        expect("Ctm", &b, 'A', 0, part, f.variance);
        double direct = matcov_direct_ctm(&f.s, &f.p, dir, k % 3 != 0, (size_t)i0, (size_t)j0);
        assert_true(fabs(entry(&b, 0, 0) - direct) <= (gradients ? 5e-5 : 1e-6) * f.variance);
        matcov_target_free(mt);
        block_free(&b);
        free(part);
    }
    ops->close_target(v);
    free(want);
    teardown(&f);
}

/* After a profile with more layers than the first (and its targets), then one without turbulence,
 * everything follows. */
static void test_load(void **state) {
    (void)state;
    fixture f;
    double many[150][5];
    for (int l = 0; l < 150; l++)
        memcpy(many[l], (double[]){100.0 * l, l % 5 ? 20 + l : INFINITY, 0.5, 0.1 * l, 3},
               sizeof many[l]);
    const double none[1][5] = {{0, 25, 0, 0, 0}};
    setup(&f, NLAYER, layers);
    backend_cov_target *v;
    case_ok(ops->open_target(f.c, &v));
    assert_true(ops->bytes(&f.model) == 0 || be != &backend_cpu);
    for (int k = 0; k < 2; k++) {
        profile p;
        matcov *mc, *plain;
        matcov_target *mt;
        matcov_model model;
        int64_t n = 97, t = (int64_t)f.s.t;
        double want[97 * 97], *ctm = malloc((size_t)(t * n) * sizeof *ctm);
        case_profile(k ? 1 : 150, k ? none : (const double(*)[5])many, &p);
        p.r0 = k ? 0.2 : p.r0;
        case_ok(matcov_init(&world, &f.s, &p, &mc));
        case_ok(matcov_prepare(&f.s, &p, &plain));
        case_ok(matcov_model_init(plain, &model));
        case_ok(ops->load(f.c, &model));
        case_ok(ops->aim(v, (double[2]){1e-5, 2e-5}, true));
        matcov_model_free(&model);
        block b = block_new(BACKEND_D, n, n), c = block_new(BACKEND_D, t, n);
        case_ok(ops->fill_cmm(f.c, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){301, n, 10, n},
                              b.device, b.lda));
        case_ok(ops->fill_ctm(v, BACKEND_D, (matcov_region){0, t, 100, n}, c.device, c.lda));
        block_fetch(&b);
        block_fetch(&c);
        case_ok(matcov_fill_cmm(mc, 301, 97, 10, 97, want, 97));
        case_ok(matcov_target_init(mc, (double[2]){1e-5, 2e-5}, true, &mt));
        case_ok(matcov_fill_ctm(mt, 100, 97, ctm, (size_t)t));
        expect("Cmm of another profile", &b, 'A', 291, want, f.variance);
        expect("Ctm of another profile", &c, 'A', 0, ctm, f.variance);
        matcov_target_free(mt);
        block_free(&c);
        block_free(&b);
        free(ctm);
        matcov_free(plain);
        matcov_free(mc);
        case_profile_free(&p);
    }
    ops->close_target(v);
    teardown(&f);
}

/* a_i -= beta b_i; the largest of what is left. */
static double subtract(double *a, const double *b, double beta, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        a[i] -= beta * b[i];
        most = fmax(most, fabs(a[i]));
    }
    return most;
}

/* No entry of the whole difference without tip-tilt constants is above the bound, and the bound is
 * not far above. */
static void check_bound(fixture *f, backend_type t, double bound) {
    const int64_t m = (int64_t)f->s.m;
    double top = 0;
    block b = block_new(t, m, m);
    case_ok(
        ops->fill_cmm(f->c, t, 'A', MATCOV_NOISE, (matcov_region){0, m, 0, m}, b.device, b.lda));
    block_fetch(&b);
    for (int64_t k = 0; k < m * m; k++)
        top = fmax(top, fabs(entry(&b, k % m, k / m)));
    assert_true(top > 0.02 * bound && top <= bound * (1 + 1e-6));
    block_free(&b);
}

/* Rows i0 .. i0 + ni and columns j0 .. j0 + n of Cmm of a difference, or (dir) of Ctm, by the host.
 */
static void fill_difference(matcov *mc, const double dir[2], int64_t i0, int64_t j0, int64_t ni,
                            int64_t n, double *a) {
    matcov_target *mt;
    case_ok(matcov_tabulate(mc));
    if (dir == NULL) {
        case_ok(matcov_fill_cmm(mc, (size_t)i0, (size_t)ni, (size_t)j0, (size_t)n, a, (size_t)ni));
        return;
    }
    case_ok(matcov_target_init(mc, dir, true, &mt));
    case_ok(matcov_fill_ctm(mt, (size_t)j0, (size_t)n, a, (size_t)ni));
    matcov_target_free(mt);
}

/* The profile whose covariances are those of one minus a multiple of another's: layers that agree
 * in part, in altitude but not in outer scale, or not at all. Cmm and Ctm are the differences, in
 * both types, and under the bound. */
static void test_difference(void **state) {
    (void)state;
    static const double earlier[][5] = {
        {0, 25, 50, -2, 1}, {2500, 30, 25, 10, 2}, {7000, 40, 9, 0, 0}, {12000, 80, 5, 15, 15}};
    fixture f;
    setup(&f, NLAYER, layers);
    const int64_t m = (int64_t)f.s.m, t = (int64_t)f.s.t, n = 300, j0 = m / 2, i0 = j0 - 2;
    const size_t most = (size_t)((t > n ? t : n) * n);
    const double dir[2] = {2e-5, -1e-5};
    double *want = malloc(most * sizeof *want), *other = malloc(most * sizeof *other), bound;
    profile p0;
    matcov *mc0, *mc;
    matcov_target *mt, *mt0;
    matcov_model model;
    backend_cov_target *v;
    case_profile(4, earlier, &p0);
    case_ok(matcov_init(&world, &f.s, &p0, &mc0));
    case_ok(matcov_target_init(f.mc, dir, true, &mt));
    case_ok(matcov_target_init(mc0, dir, false, &mt0));
    case_ok(ops->open_target(f.c, &v));
    const double beta = matcov_scale(&f.p, &p0);
    assert_true(fabs(beta - 95. / 89) < 1e-14);
    for (int k = 0; k < 4; k++) {
        const bool drifts = k % 2;
        block b = block_new(k < 2 ? BACKEND_D : BACKEND_S, drifts ? t : n, n);
        case_ok(matcov_prepare_difference(&f.s, &f.p, &p0, beta, drifts, &mc, &bound));
        case_ok(matcov_model_init(mc, &model));
        assert_int_equal(model.nlayer, drifts ? 9 : 7); /* without a layer of strength 0 */
        case_ok(ops->load(f.c, &model));
        if (drifts) {
            case_ok(ops->aim(v, dir, true));
            case_ok(ops->fill_ctm(v, b.type, (matcov_region){0, t, j0, n}, b.device, b.lda));
            case_ok(matcov_fill_ctm(mt, (size_t)j0, (size_t)n, want, (size_t)t));
            case_ok(matcov_fill_ctm(mt0, (size_t)j0, (size_t)n, other, (size_t)t));
        } else {
            case_ok(ops->fill_cmm(f.c, b.type, 'A', MATCOV_ALL, (matcov_region){i0, n, j0, n},
                                  b.device, b.lda));
            case_ok(matcov_fill_cmm(f.mc, (size_t)i0, (size_t)n, (size_t)j0, (size_t)n, want,
                                    (size_t)n));
            case_ok(matcov_fill_cmm(mc0, (size_t)i0, (size_t)n, (size_t)j0, (size_t)n, other,
                                    (size_t)n));
        }
        block_fetch(&b);
        const double top = subtract(want, other, beta, (size_t)(b.ni * n));
        if (gradients) /* which leaves out outlines of nearly whole subapertures */
            fill_difference(mc, drifts ? dir : NULL, i0, j0, b.ni, n, want);
        if (gradients && b.type == BACKEND_S) /* rough where it is small: backend_matcov.h */
            expect_within("difference", &b, 'A', 0, want, f.variance, 5e-4, 2e-5);
        else
            expect("difference", &b, 'A', 0, want, f.variance);
        if (drifts)
            assert_true(top > 0 && top <= bound);
        else
            check_bound(&f, b.type, bound);
        matcov_model_free(&model);
        matcov_free(mc);
        block_free(&b);
    }
    ops->close_target(v);
    matcov_target_free(mt);
    matcov_target_free(mt0);
    matcov_free(mc0);
    case_profile_free(&p0);
    free(want);
    free(other);
    teardown(&f);
}

/* A difference of equal profiles: no layer is left, and all entries are 0. */
static void test_no_difference(void **state) {
    (void)state;
    fixture f;
    setup(&f, NLAYER, layers);
    const int64_t m = (int64_t)f.s.m;
    for (int k = 0; k < 2; k++) {
        block b = block_new(k ? BACKEND_S : BACKEND_D, m, m);
        matcov_model model;
        matcov *mc;
        double bound;
        case_ok(matcov_prepare_difference(&f.s, &f.p, &f.p, 1, false, &mc, &bound));
        case_ok(matcov_model_init(mc, &model));
        assert_int_equal(model.nlayer, 0);
        case_ok(ops->load(f.c, &model));
        case_ok(ops->fill_cmm(f.c, b.type, 'A', MATCOV_ALL, (matcov_region){0, m, 0, m}, b.device,
                              b.lda));
        block_fetch(&b);
        for (int64_t i = 0; i < m * m; i++)
            assert_true(fabs(entry(&b, i % m, i / m)) <= 1e-15 * f.variance);
        matcov_model_free(&model);
        matcov_free(mc);
        block_free(&b);
    }
    teardown(&f);
}

/* Arguments out of range are refused, and an empty block writes nothing. */
static void test_arguments(void **state) {
    (void)state;
    fixture f;
    setup(&f, NLAYER, layers);
    const backend_matcov *o = ops;
    int64_t m = (int64_t)f.s.m, t = (int64_t)f.s.t;
    block b = block_new(BACKEND_D, 4, 4);
    backend_cov_target *v;
    case_ok(o->open_target(f.c, &v));
    assert_int_equal(
        o->fill_cmm(f.c, BACKEND_D, 'A', 3, (matcov_region){m - 3, 4, 0, 4}, b.device, 4),
        MOAO_INPUT);
    assert_int_equal(o->fill_cmm(f.c, BACKEND_D, 'A', 3, (matcov_region){0, 4, 0, 4}, b.device, 3),
                     MOAO_INPUT);
    assert_int_equal(o->fill_cmm(f.c, BACKEND_D, 'X', 3, (matcov_region){0, 4, 0, 4}, b.device, 4),
                     MOAO_INPUT);
    assert_int_equal(o->fill_cmm(f.c, BACKEND_Z, 'A', 3, (matcov_region){0, 4, 0, 4}, b.device, 4),
                     MOAO_INPUT);
    assert_int_equal(o->fill_cmm(f.c, BACKEND_D, 'A', 4, (matcov_region){0, 4, 0, 4}, b.device, 4),
                     MOAO_INPUT);
    assert_int_equal(o->fill_ctt(f.c, BACKEND_D, 'A', (matcov_region){t - 3, 4, 0, 4}, b.device, 4),
                     MOAO_INPUT);
    assert_int_equal(o->fill_ctm(v, BACKEND_D, (matcov_region){0, 4, 0, 4}, b.device, 4),
                     MOAO_INPUT);
    case_ok(o->aim(v, (double[2]){0, 0}, false));
    assert_int_equal(o->fill_ctm(v, BACKEND_D, (matcov_region){0, 4, -1, 4}, b.device, 4),
                     MOAO_INPUT);
    case_ok(o->fill_ctm(v, BACKEND_D, (matcov_region){0, 0, 0, 4}, b.device, 1));
    case_ok(o->fill_cmm(f.c, BACKEND_D, 'A', 3, (matcov_region){5, 4, 5, 0}, b.device, 4));
    case_ok(o->fill_cmm(f.c, BACKEND_D, 'L', 3, (matcov_region){0, 4, m - 4, 4}, b.device, b.lda));
    block_fetch(&b);
    for (int64_t i = 0; i < 4; i++)
        for (int64_t j = 0; j < 4; j++)
            assert_true(poisoned(&b, i, j));
    status_clear();
    o->close_target(v);
    o->close_target(NULL);
    o->close(NULL);
    block_free(&b);
    teardown(&f);
}

/* Where structure functions grow a thousandfold over the pupil, without outer scale or with a huge
 * one, their differences still have the stated accuracy: entries against the closed form. */
static void test_steep(void **state) {
    (void)state;
    const case_sensor two[] = {{80, {0, 5}, 9e4, 1, 0, {0}, 0},
                               {78, {9, 5}, INFINITY, 1, 0, {0}, 9}};
    const double layer[2][5] = {{1000, INFINITY, 10, 0, 0}, {6000, 3000, 10, 0, 0}};
    fixture f = {0};
    case_sys(39, 0, 20, 2, two, &f.s);
    case_profile(2, layer, &f.p);
    case_ok(matcov_prepare(&f.s, &f.p, &f.plain));
    case_ok(matcov_model_init(f.plain, &f.model));
    case_ok(ops->open(ctx, &f.model, &f.c));
    f.variance = matcov_direct_cmm(&f.s, &f.p, 0, 0);
    int64_t n = 80, i0 = 100, j0 = (int64_t)f.s.m - n;
    for (int t = BACKEND_D; t <= BACKEND_S; t++) {
        block b = block_new(t, n, n);
        case_ok(
            ops->fill_cmm(f.c, t, 'A', MATCOV_ALL, (matcov_region){i0, n, j0, n}, b.device, b.lda));
        block_fetch(&b);
        for (int k = 0; k < 400; k++) {
            int64_t i = random_below(n), j = random_below(n);
            double want = matcov_direct_cmm(&f.s, &f.p, (size_t)(i0 + i), (size_t)(j0 + j));
            double error = fabs(entry(&b, i, j) - want) / f.variance;
            if (!(error <= (t == BACKEND_D ? 1e-10 : 1e-6)))
                fail_msg("type %d, (%d, %d): error %.3g", t, (int)i, (int)j, error);
        }
        block_free(&b);
    }
    teardown(&f);
}

/* A pair of large sensors, whose sums are made in several steps where memory for them is bounded:
 * columns all over the block equal the stage's. The CPU backend, which has no such steps, and a
 * checking tool (MOAO_TEST_SMALL) get smaller ones. */
static void test_large_pair(void **state) {
    (void)state;
    const bool small = be == &backend_cpu || getenv("MOAO_TEST_SMALL") != NULL;
    const case_sensor two[] = {{small ? 22 : 100, {20, 5}, 9e4, 1, 0, {0}, 0},
                               {small ? 21 : 98, {-9, 5}, INFINITY, 1, 0, {0}, 9}};
    const double layer[1][5] = {{5000, 30, 10, 0, 0}};
    fixture f = {0};
    case_sys(39, 0, 20, 2, two, &f.s);
    case_profile(1, layer, &f.p);
    case_ok(matcov_prepare(&f.s, &f.p, &f.plain));
    case_ok(matcov_tabulate(f.plain));
    case_ok(matcov_model_init(f.plain, &f.model));
    case_ok(ops->open(ctx, &f.model, &f.c));
    int64_t ni = 2 * f.s.sensors[0].nsub, nj = 2 * f.s.sensors[1].nsub, wide = 5;
    block b = block_new(BACKEND_S, ni, wide);
    void *all;
    double *want = malloc((size_t)(ni * wide) * sizeof *want);
    case_ok(be->alloc(ctx, (size_t)(ni * nj) * sizeof(float), &all));
    case_ok(ops->fill_cmm(f.c, BACKEND_S, 'A', 0, (matcov_region){0, ni, ni, nj}, all, ni));
    f.variance = matcov_direct_cmm(&f.s, &f.p, 0, 0);
    for (int64_t j = 0; j + wide <= nj; j += 677) {
        case_ok(be->copy(ctx, b.device, b.lda * 4, (float *)all + j * ni, ni * 4, ni * 4, wide));
        block_fetch(&b);
        case_ok(matcov_fill_cmm(f.plain, 0, (size_t)ni, (size_t)(ni + j), (size_t)wide, want,
                                (size_t)ni));
        expect("large pair", &b, 'A', 0, want, f.variance);
    }
    be->release(ctx, all);
    free(want);
    block_free(&b);
    teardown(&f);
}

/* The same with mean gradients; fewer sensors where there are many layers. */
static void test_gradients(void **state) {
    gradients = true;
    nsensor = 6;
    test_cmm(state);
    test_truth_sensor(state);
    nsensor = 4;
    test_load(state);
    test_difference(state);
    test_no_difference(state);
    nsensor = 6;
    mixed = true;
    test_cmm(state);
    test_truth_sensor(state);
    nsensor = NSENSOR;
    gradients = mixed = false;
}

/* The same of stars of 1 and 2. */
static void test_small_stars(void **state) {
    gradients = true;
    stars = few, nsensor = sizeof few / sizeof *few;
    test_cmm(state);
    test_truth_sensor(state);
    test_no_difference(state);
    stars = sensors, nsensor = NSENSOR;
    gradients = false;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_cmm),          cmocka_unit_test(test_parts),
    cmocka_unit_test(test_truth_sensor), cmocka_unit_test(test_load),
    cmocka_unit_test(test_difference),   cmocka_unit_test(test_no_difference),
    cmocka_unit_test(test_arguments),    cmocka_unit_test(test_steep),
    cmocka_unit_test(test_large_pair),   cmocka_unit_test(test_gradients),
    cmocka_unit_test(test_small_stars)};

int main(void) {
    return run_alone(tests, sizeof tests / sizeof *tests);
}
