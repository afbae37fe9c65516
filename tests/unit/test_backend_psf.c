/* Point-spread functions by the backends: one body for every backend that is usable here, compared
 * with the stage's own functions. The variable MOAO_TEST_BACKEND picks one. */
#include "support/psf_case.h"

#include "psf/psf_plan.h"
#include "support/backend.h"

#include <stdbool.h>

static const backend_psf *ops;

/* A mirror, its grids, and what is asked for. */
typedef struct {
    int n, k;
    double obs, span;
    int nlambda, nbox, crop;
    bool weighted;
    int pupil; /* 0: an annulus; 1: spiders; 2: and segments with errors */
} kind;

static const kind kinds[] = {
    {7, 4, 0.285, 3, 3, 3, 0, true, 0}, {8, 2, 0.14, 3, 1, 0, 16, false, 0},
    {13, 3, 0, 2.3, 2, 1, 30, true, 0}, {10, 4, 0.7, 3, 1, 3, 64, true, 0},
    {1, 4, 0, 3, 2, 2, 0, false, 0},    {16, 5, 0.3, 3, 3, 2, 128, true, 0},
    {2, 7, 0.2, 5, 1, 1, 8, true, 0},   {9, 4, 0.2, 3, 2, 1, 32, true, 1},
    {7, 5, 0, 3, 3, 2, 40, true, 2},    {40, 4, 0.28, 3.1, 2, 2, 128, true, 0}};

/* A checking tool (MOAO_TEST_SMALL) leaves out the last and largest. */
static size_t kind_count(void) {
    return sizeof kinds / sizeof *kinds - (getenv("MOAO_TEST_SMALL") != NULL);
}

typedef struct {
    sys s;
    psf *p;
    size_t v, nsep, ns, np; /* np: pixels of all images */
    psf_fit *fit;
    psf_fit_model fitted;
    backend_imager *b;
    double *y, *sum, *common; /* in the backend's memory */
    size_t ld;
} fixture;

static double *backend_doubles(size_t n) {
    double *p;
    OK(be->alloc(ctx, n * sizeof *p, (void **)&p));
    return p;
}

static void transfer(double *to, const double *from, size_t n) {
    const int64_t bytes = (int64_t)(n * sizeof *to);
    OK(be->copy(ctx, to, bytes, from, bytes, bytes, 1));
    OK(be->sync(ctx));
}

static psf_fit *make_fit(const fixture *f, double r0) {
    double L0 = 25, strength, h;
    profile prof = case_profile(r0, &L0, &strength, &h);
    psf_fit *fit;
    OK(psf_fit_init(f->p, &prof, &fit));
    return fit;
}

/* Pupils whose OTF has no symmetry but that of its own. */
static void cut_pupil(sys *s, int pupil) {
    static const double angle[3] = {0.3, 2, 4.5}, offset[3] = {0, 0.1, 0};
    pupil_opts o = {.diameter = s->diameter, .obs = s->obs, .min_light = 0.5};
    o.nspider = pupil > 0 ? 3 : 0;
    o.spider_angle = angle;
    o.spider_offset = offset;
    o.spider_width = 0.05 * s->diameter;
    if (pupil > 1)
        o.segments = (pupil_segments){.tiling = PUPIL_HEXAGONS,
                                      .size = 0.3 * s->diameter,
                                      .gap = 0.01 * s->diameter,
                                      .within = {0, INFINITY},
                                      .piston = 100e-9,
                                      .tiptilt = 30e-9 / s->diameter};
    OK(pupil_init(&o, &s->pupil));
    OK(sys_derive(s));
}

static void setup(fixture *f, const kind *k) {
    psf_opts o = case_opts();
    psf_model model;
    *f = (fixture){.s = case_system(k->n, 0.5 * k->n, k->obs)};
    cut_pupil(&f->s, k->pupil);
    o.nlambda = k->nlambda;
    o.nbox = k->nbox;
    o.oversampling = k->k;
    o.span = k->span;
    o.crop = k->crop;
    o.weighted = k->weighted;
    OK(psf_init(&f->s, &o, &f->p));
    f->v = (size_t)f->s.dm.nact;
    f->ld = f->v + 3;
    f->nsep = psf_sep_count(f->p);
    f->ns = (size_t)k->nlambda * (3 + (size_t)k->nbox);
    f->np = (size_t)k->nlambda * (size_t)psf_crop_size(f->p) * (size_t)psf_crop_size(f->p);
    f->fit = make_fit(f, 0.3);
    psf_fit_model_init(f->fit, &f->fitted);
    psf_model_init(f->p, &model);
    OK(ops->open(ctx, &model, &f->b));
    f->y = backend_doubles(f->ld * f->v);
    f->sum = backend_doubles(f->nsep);
    f->common = backend_doubles(f->nsep);
}

static void teardown(fixture *f) {
    be->release(ctx, f->y);
    be->release(ctx, f->sum);
    be->release(ctx, f->common);
    ops->close(f->b);
    psf_fit_free(f->fit);
    psf_free(f->p);
    sys_free(&f->s);
}

/* A covariance of commands [m^2] with a part that is neither symmetric nor stationary; in ld x v
 * numbers, NaN beyond the v rows. */
static double *commands(const fixture *f, double sigma, unsigned seed) {
    double *smooth = case_covariance(&f->s, sigma, 1.5), *c = case_doubles(f->ld * f->v);
    for (size_t b = 0; b < f->v; b++)
        for (size_t a = 0; a < f->ld; a++)
            c[a + b * f->ld] =
                a < f->v ? smooth[a + b * f->v] + 0.1 * sigma * sigma * case_random(&seed) : NAN;
    free(smooth);
    return c;
}

/* A sum of the backend on the host; it was NaN before. */
static double *averaged(const fixture *f, const double *c, bool both, double *to) {
    double *sum = case_doubles(f->nsep);
    for (size_t i = 0; i < f->nsep; i++)
        sum[i] = NAN;
    transfer(to, sum, f->nsep);
    transfer(f->y, c, f->ld * f->v);
    OK(ops->average(f->b, f->y, (int64_t)f->ld, both, to));
    transfer(sum, to, f->nsep);
    return sum;
}

/* Sums by separation equal the stage's, to rounding in units of the sum of magnitudes, whether the
 * matrix stands for itself or also for its transpose; twice the same bits. */
static void test_average(void **state) {
    (void)state;
    for (size_t i = 0; i < kind_count(); i++)
        for (int both = 0; both < 2; both++) {
            fixture f;
            setup(&f, &kinds[i]);
            double *c = commands(&f, 1, 5), *size = case_doubles(f.ld * f.v);
            double *want = case_doubles(f.nsep), *most = case_doubles(f.nsep);
            for (size_t j = 0; j < f.ld * f.v; j++)
                size[j] = fabs(c[j]);
            psf_accumulate(f.p, 0, f.v, c, f.ld, both, want);
            psf_accumulate(f.p, 0, f.v, size, f.ld, both, most);
            double *sum = averaged(&f, c, both, f.sum), *again = averaged(&f, c, both, f.sum);
            for (size_t j = 0; j < f.nsep; j++)
                NEAR(sum[j], want[j], 1e-14 * most[j]);
            assert_memory_equal(sum, again, f.nsep * sizeof *sum);
            free(again);
            free(sum);
            free(most);
            free(want);
            free(size);
            free(c);
            teardown(&f);
        }
}

typedef struct {
    double *scalars;
    float *images;
} result;

static result result_new(const fixture *f) {
    result r = {case_doubles(f->ns), calloc(f->np, sizeof(float))};
    assert_non_null(r.images);
    for (size_t i = 0; i < f->ns; i++)
        r.scalars[i] = -1;
    return r;
}

static void result_free(result *r) {
    free(r->scalars);
    free(r->images);
}

/* What the stage makes of sum + common. */
static result expected(const fixture *f, const double *sum, const double *common,
                       const psf_fit *fit) {
    result r = result_new(f);
    double *total = case_doubles(f->nsep);
    for (size_t i = 0; i < f->nsep; i++)
        total[i] = sum[i] + (common != NULL ? common[i] : 0);
    OK(psf_compute_all(f->p, total, fit, r.scalars, r.images));
    free(total);
    return r;
}

/* Scalars to 1e-12, the FWHM to what its search leaves; both NaN also counts as equal. Images to
 * the precision they are kept in. */
static void expect_equal(const fixture *f, const result *r, const result *want) {
    const size_t each = f->ns / (size_t)f->p->nlambda;
    const size_t pixels = f->np / (size_t)f->p->nlambda;
    for (size_t i = 0; i < f->ns; i++) {
        if (i % each == 1 && isnan(want->scalars[i]))
            assert_true(isnan(r->scalars[i]));
        else
            CLOSE(r->scalars[i], want->scalars[i], i % each == 1 ? 1e-10 : 1e-12);
    }
    for (int l = 0; l < f->p->nlambda; l++) {
        double peak = want->scalars[(size_t)l * each];
        for (size_t i = 0; i < pixels; i++)
            NEAR(r->images[(size_t)l * pixels + i], want->images[(size_t)l * pixels + i],
                 1.2e-7 * peak);
    }
}

/* Strehl ratio, FWHM, variance, ensquared energies and images at every wavelength, from good to
 * hopeless correction (no half-peak radius within the grid), with and without the part that all
 * targets share and the fitting error. */
static void test_compute(void **state) {
    (void)state;
    const double sigma[] = {0, 5e-8, 2e-7, 3e-6};
    int wide = 0;
    for (size_t i = 0; i < kind_count(); i++) {
        fixture f;
        setup(&f, &kinds[i]);
        double *c = commands(&f, 4e-8, 7), *common = averaged(&f, c, false, f.common);
        free(c);
        for (size_t j = 0; j < 4 * sizeof sigma / sizeof *sigma; j++) {
            c = commands(&f, sigma[j / 4], (unsigned)j);
            double *sum = averaged(&f, c, true, f.sum);
            bool with_common = j % 2 == 1, with_fit = j % 4 < 2;
            result r = result_new(&f),
                   want = expected(&f, sum, with_common ? common : NULL, with_fit ? f.fit : NULL);
            OK(ops->load(f.b, with_fit ? &f.fitted : NULL));
            OK(ops->compute(f.b, j % PSF_SLOTS, f.sum, with_common ? f.common : NULL, NULL));
            OK(ops->collect(f.b, j % PSF_SLOTS, r.scalars, r.images));
            expect_equal(&f, &r, &want);
            wide += isnan(want.scalars[1]);
            result_free(&want);
            result_free(&r);
            free(sum);
            free(c);
        }
        free(common);
        teardown(&f);
    }
    assert_true(wide > 0);
}

/* Targets in turn through both slots, each collected after the next one was put into the stream,
 * which reuses its arrays: results are those of the targets one by one, bit for bit; so are they
 * when no image is wanted, and after another profile came and went. */
static void test_slots(void **state) {
    (void)state;
    enum { COUNT = 5 };
    fixture f;
    setup(&f, &kinds[5]);
    result alone[COUNT], r[COUNT];
    double *c[COUNT], *scalars = case_doubles(f.ns);
    psf_fit *other = make_fit(&f, 0.1);
    psf_fit_model other_model;
    psf_fit_model_init(other, &other_model);
    OK(ops->load(f.b, &f.fitted));
    for (int i = 0; i < COUNT; i++) {
        c[i] = commands(&f, 1e-7 * (1 + i), 3);
        free(averaged(&f, c[i], true, f.sum));
        alone[i] = result_new(&f);
        OK(ops->compute(f.b, 1, f.sum, NULL, NULL));
        OK(ops->collect(f.b, 1, alone[i].scalars, alone[i].images));
    }
    for (int i = 0; i <= COUNT; i++) {
        if (i < COUNT) {
            int64_t bytes = (int64_t)(f.ld * f.v * sizeof(double));
            OK(be->copy(ctx, f.y, bytes, c[i], bytes, bytes, 1));
            OK(ops->average(f.b, f.y, (int64_t)f.ld, true, f.sum));
            OK(ops->load(f.b, &other_model));
            OK(ops->load(f.b, &f.fitted));
            OK(ops->compute(f.b, i % PSF_SLOTS, f.sum, NULL, NULL));
        }
        if (i == 0)
            continue;
        r[i - 1] = result_new(&f);
        OK(ops->collect(f.b, (i - 1) % PSF_SLOTS, r[i - 1].scalars, r[i - 1].images));
    }
    OK(ops->collect(f.b, (COUNT - 1) % PSF_SLOTS, scalars, NULL));
    assert_memory_equal(scalars, alone[COUNT - 1].scalars, f.ns * sizeof *scalars);
    for (int i = 0; i < COUNT; i++) {
        assert_memory_equal(r[i].scalars, alone[i].scalars, f.ns * sizeof(double));
        assert_memory_equal(r[i].images, alone[i].images, f.np * sizeof(float));
        assert_true(i == COUNT - 1 || alone[i].scalars[0] != alone[i + 1].scalars[0]);
        result_free(&r[i]);
        result_free(&alone[i]);
        free(c[i]);
    }
    psf_fit_free(other);
    free(scalars);
    teardown(&f);
}

static status one_psf(const fixture *f, int slot, result *r) {
    status st = ops->compute(f->b, slot, f->sum, NULL, NULL);
    return st != MOAO_OK ? st : ops->collect(f->b, slot, r->scalars, r->images);
}

/* One NaN, or commands that vary without bound, end with the stage's message; the next target is
 * as good as ever. */
static void test_not_finite(void **state) {
    (void)state;
    char message[512];
    fixture f;
    setup(&f, &kinds[0]);
    double *c = commands(&f, 1e-7, 9), *sum = averaged(&f, c, true, f.sum);
    double bad[] = {NAN, INFINITY};
    result r = result_new(&f), want = expected(&f, sum, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        double keep = c[5 + 11 * f.ld];
        c[5 + 11 * f.ld] = bad[i];
        double *poor = averaged(&f, c, true, f.sum);
        assert_int_equal(psf_compute_all(f.p, poor, NULL, r.scalars, r.images), MOAO_NUMERIC);
        snprintf(message, sizeof message, "%.500s", status_message());
        status_clear();
        assert_int_equal(one_psf(&f, i, &r), MOAO_NUMERIC);
        size_t same = (size_t)(strrchr(message, '(') - message); /* the source's line follows */
        assert_int_equal(strncmp(status_message(), message, same), 0);
        assert_non_null(strstr(message, "not finite"));
        status_clear();
        c[5 + 11 * f.ld] = keep;
        free(poor);
        free(averaged(&f, c, true, f.sum));
        OK(one_psf(&f, i, &r));
        expect_equal(&f, &r, &want);
    }
    result_free(&want);
    result_free(&r);
    free(sum);
    free(c);
    teardown(&f);
}

static void test_arguments(void **state) {
    (void)state;
    fixture f;
    setup(&f, &kinds[1]);
    double *scalars = case_doubles(f.ns);
    assert_int_equal(ops->average(f.b, f.y, (int64_t)f.v - 1, true, f.sum), MOAO_INPUT);
    assert_int_equal(ops->compute(f.b, PSF_SLOTS, f.sum, NULL, NULL), MOAO_INPUT);
    assert_int_equal(ops->compute(f.b, -1, f.sum, NULL, NULL), MOAO_INPUT);
    assert_int_equal(ops->collect(f.b, PSF_SLOTS, scalars, NULL), MOAO_INPUT);
    status_clear();
    ops->close(NULL);
    free(scalars);
    teardown(&f);
}

/* The mirror of an ELT, where rows of actuators are long and grids large; the CPU backend and a
 * checking tool (MOAO_TEST_SMALL) get a smaller one. */
static void test_large(void **state) {
    (void)state;
    const bool small = be == &backend_cpu || getenv("MOAO_TEST_SMALL") != NULL;
    const kind k = {small ? 30 : 84, 4, 0.28, 3, 2, 2, 128, true, 0};
    fixture f;
    setup(&f, &k);
    double *c = commands(&f, 1e-7, 1), *sum = averaged(&f, c, true, f.sum);
    double *want = case_doubles(f.nsep);
    psf_accumulate(f.p, 0, f.v, c, f.ld, true, want);
    for (size_t j = 0; j < f.nsep; j++)
        NEAR(sum[j], want[j], 1e-14 * (fabs(want[j]) + 1e-14 * (double)f.v));
    result r = result_new(&f), expect = expected(&f, want, NULL, f.fit);
    OK(ops->load(f.b, &f.fitted));
    OK(one_psf(&f, 0, &r));
    expect_equal(&f, &r, &expect);
    result_free(&expect);
    result_free(&r);
    free(want);
    free(sum);
    free(c);
    teardown(&f);
}

static void choose(void) {
    ops = psf_backend(be);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_average),   cmocka_unit_test(test_compute),
    cmocka_unit_test(test_slots),     cmocka_unit_test(test_not_finite),
    cmocka_unit_test(test_arguments), cmocka_unit_test(test_large)};

int main(void) {
    const backend_tests all = {tests, sizeof tests / sizeof *tests, choose, NULL};
    return run_on_backends(&all);
}
