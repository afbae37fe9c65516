/* The residual phase on the pupil by the backends: one body for every backend that is usable here,
 * compared with the stages' own functions. The variable MOAO_TEST_BACKEND picks one. */
#include "support/matcov_backend.h"

#include "psf/psf.h"

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
    const size_t size = backend_size(type), ld = np + 2;
    double *x = calloc(np + 1, sizeof *x), *y = calloc(np + 1, sizeof *y), worst = 0, most = 0;
    double *want = calloc(np * nj + 1, sizeof *want);
    char *got = malloc(ld * nj * size), *a = device(ld * nj * size);
    double *dx = device((np + 1) * sizeof *x), *dy = device((np + 1) * sizeof *y);
    for (size_t i = 0; i < np; i++)
        x[i] = case_random(-2.1, 2.1), y[i] = case_random(-2.1, 2.1);
    memset(got, 0x7f, ld * nj * size);
    move(a, got, ld * nj * size);
    move(dx, x, np * sizeof *x);
    move(dy, y, np * sizeof *y);
    case_ok(ops->fill_cpm(v->target, type, (matcov_points){(int64_t)np, dx, dy}, (int64_t)j0,
                          (int64_t)nj, a, (int64_t)ld));
    case_ok(be->sync(ctx));
    move(got, a, ld * nj * size);
    case_ok(matcov_fill_cpm(mt, (matcov_points){np, x, y}, j0, nj, want, np));
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

/* Both axes of subapertures k0 .. k0 + n of a sensor at once, apart columns apart. */
static void check_both(const covariances *v, const matcov_target *mt, backend_type type, size_t np,
                       int sensor, size_t k0, size_t n, size_t apart) {
    const size_t size = backend_size(type), ld = np + 1, cols = apart + n;
    const size_t first = v->s.sensors[sensor].first + k0, nsub = (size_t)v->s.sensors[sensor].nsub;
    double *x = calloc(np, sizeof *x), *y = calloc(np, sizeof *y), worst = 0, most = 0;
    double *want = calloc(2 * np * n, sizeof *want);
    char *got = malloc(ld * cols * size), *a = device(ld * cols * size);
    double *dx = device(np * sizeof *x), *dy = device(np * sizeof *y);
    for (size_t i = 0; i < np; i++)
        x[i] = case_random(-2.1, 2.1), y[i] = case_random(-2.1, 2.1);
    memset(got, 0x7f, ld * cols * size);
    move(a, got, ld * cols * size);
    move(dx, x, np * sizeof *x);
    move(dy, y, np * sizeof *y);
    case_ok(ops->fill_cpm_both(v->target, type, (matcov_points){(int64_t)np, dx, dy},
                               (matcov_slopes){sensor, (int64_t)k0, (int64_t)n, (int64_t)apart}, a,
                               (int64_t)ld));
    case_ok(be->sync(ctx));
    move(got, a, ld * cols * size);
    for (size_t axis = 0; axis < 2; axis++)
        case_ok(matcov_fill_cpm(mt, (matcov_points){np, x, y}, first + axis * nsub, n,
                                want + axis * np * n, np));
    for (size_t j = 0; j < cols; j++)
        for (size_t i = 0; i < ld; i++) {
            const char *at = got + (i + j * ld) * size;
            const bool inside = i < np && (j < n || j >= apart);
            for (size_t k = 0; k < size && !inside; k++)
                assert_true(at[k] == 0x7f);
            if (!inside)
                continue;
            const double value = type == BACKEND_D ? *(const double *)at : *(const float *)at;
            const double w = want[i + (j < n ? j : j - apart + n) * np];
            worst = fmax(worst, isnan(value) ? INFINITY : fabs(value - w));
            most = fmax(most, fabs(w));
        }
    if (!(worst <= (type == BACKEND_D ? 1e-11 : 1e-5) * most))
        fail_msg("both axes, type %d, %zu points, sensor %d: %.3g of the largest", (int)type, np,
                 sensor, worst / most);
    be->release(ctx, a);
    be->release(ctx, dx);
    be->release(ctx, dy);
    free(got);
    free(want);
    free(x);
    free(y);
}

/* Panel by panel every measurement comes once, with the other axis of its subaperture. */
static void test_slope_pairs(void **state) {
    (void)state;
    sys s;
    profile p;
    system_of_many(true, &s, &p);
    for (int64_t width = 1; width < 70; width += 17) {
        int *seen = calloc(s.m, sizeof *seen);
        for (int64_t j = 0; j < (int64_t)s.m; j += width) {
            const int64_t n = j + width < (int64_t)s.m ? width : (int64_t)s.m - j;
            slope_pairs q = {0};
            while (slope_pairs_next(&s, j, n, width / 2, &q)) {
                assert_true(q.n >= 1 && q.n <= (width > 3 ? width / 2 : 1));
                assert_true(q.column[0] == (int64_t)s.sensors[q.slopes.sensor].first + q.slopes.k0);
                assert_true(q.column[1] == q.column[0] + s.sensors[q.slopes.sensor].nsub);
                for (int64_t k = 0; k < q.n; k++)
                    seen[q.column[0] + k]++, seen[q.column[1] + k]++;
            }
        }
        for (size_t i = 0; i < s.m; i++)
            assert_int_equal(seen[i], 1);
        free(seen);
    }
    case_profile_free(&p);
    sys_free(&s);
}

/* Any block of the covariances of phase and slopes, for slopes between points and for mean
 * gradients, with wind and without, is that of the stage. */
static void test_phase_slopes(void **state) {
    (void)state;
    static const double dir[2] = {CASE_ARCSEC(5), CASE_ARCSEC(-17)};
    for (int gradients = 0; gradients < 2; gradients++) {
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
            for (int w = 0; w < v.s.nsensor; w++) {
                const size_t nsub = (size_t)v.s.sensors[w].nsub;
                check_both(&v, mt, BACKEND_D, 300, w, 0, nsub, nsub);
                check_both(&v, mt, BACKEND_S, 270, w, 1, nsub - 1, nsub + 3);
            }
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

typedef struct { /* a mirror, its imager, and matrices on both sides */
    sys s;
    profile prof;
    psf *p;
    psf_fit *rest;
    backend_imager *b;
    size_t v, np, nsep, ld, npair;
    double *c, *ct, *sum, *common;     /* on the host: y, W Cpm', the stage's sums */
    double *dc, *dct, *dsum, *dcommon; /* in the backend's memory */
    double gain;                       /* Strehl ratio of check_results */
    float *pair, *dpair;               /* the same of single pairs */
} mirror;

static bool square; /* the lattice of points of the next mirror */
static bool aloft;  /* three mirrors at altitudes in its place */

/* On the pupil, below it, and high up with a coarse pitch. */
static void add_mirrors(sys *s) {
    static const double altitude[] = {0, -700, 9000}, pitch[] = {0.5, 0.55, 1.2},
                        wide[] = {1, 1.1, 1.9};
    s->fit.nmirror = 3;
    s->fit.mirrors = calloc(3, sizeof *s->fit.mirrors);
    for (int i = 0, first = 0; i < 3; i++) {
        dmirror *dm = &s->fit.mirrors[i];
        *dm = (dmirror){.nssp = (int)ceil(wide[i] * s->diameter / pitch[i]),
                        .pitch = pitch[i],
                        .coupling = 0.15 + 0.1 * i,
                        .altitude = altitude[i],
                        .first = first};
        case_ok(sys_derive_mirror(s, dm));
        first += dm->nact;
    }
}

static void mirror_open(int nssp, double obs, double coupling, int k, psf_average_kind average,
                        int all_pairs, mirror *f) {
    static const double lambda[] = {2.2e-6, 1.65e-6}, box[] = {CASE_ARCSEC(0.1)};
    const case_sensor one = {nssp, {0, 0}, INFINITY, 1, 0, {0}, 8};
    const double layer[][5] = {{0, 25, 8, 0, 0}, {9000, INFINITY, 2, 0, 0}};
    const psf_opts o = {.nlambda = 2,
                        .lambda = lambda,
                        .nbox = 1,
                        .box = box,
                        .oversampling = k,
                        .span = 3,
                        .phase = true,
                        .average = average,
                        .all_pairs = all_pairs,
                        .square = square,
                        .crop = 32};
    const double *x, *y;
    psf_fit_model fitted;
    psf_model model;
    case_sys(0.5 * nssp, obs, nssp, 1, &one, &f->s);
    f->s.dm.coupling = coupling;
    if (aloft)
        add_mirrors(&f->s);
    case_profile(2, layer, &f->prof);
    case_ok(psf_init(&f->s, &o, &f->p));
    case_ok(psf_rest_init(f->p, &f->prof, &f->rest));
    psf_fit_model_init(f->rest, &fitted);
    psf_model_init(f->p, &model);
    case_ok(psf_backend(be)->open(ctx, &model, &f->b));
    case_ok(psf_backend(be)->load(f->b, &fitted));
    f->v = (size_t)sys_commands(&f->s);
    f->np = psf_points(f->p, &x, &y);
    f->nsep = psf_sep_count(f->p);
    f->npair = psf_pairwise_count(f->p);
    f->ld = f->v + 3;
}

/* Matrices drawn at random, NaN beyond their rows, and the stage's sums of them. */
static void mirror_fill(mirror *f) {
    const size_t d = sizeof(double), ld = f->ld;
    f->c = calloc(ld * f->v, d);
    f->ct = calloc(ld * f->np, d);
    f->sum = calloc(f->nsep, d);
    f->common = calloc(f->nsep, d);
    for (size_t i = 0; i < ld * f->v; i++)
        f->c[i] = i % ld < f->v ? case_random(-1e-14, 1e-14) : NAN;
    for (size_t i = 0; i < ld * f->np; i++)
        f->ct[i] = i % ld < f->v ? case_random(-1e-14, 1e-14) : NAN;
    f->pair = calloc(f->npair + 1, sizeof *f->pair);
    f->dpair = (float *)device((f->npair + 1) * sizeof *f->pair);
    double *pairs = calloc(f->npair + 1, sizeof *pairs);
    case_ok(psf_accumulate_phase(f->p, 0, f->v, f->c, ld, f->ct, ld, f->sum, pairs));
    psf_round_pairwise(f->p, pairs, f->pair);
    free(pairs);
    case_ok(psf_phase_common(f->p, &f->prof, f->common));
    f->dc = device(ld * f->v * d);
    f->dct = device(ld * f->np * d);
    f->dsum = device(f->nsep * d);
    f->dcommon = device(f->nsep * d);
    move(f->dc, f->c, ld * f->v * d);
    move(f->dct, f->ct, ld * f->np * d);
    move(f->dcommon, f->common, f->nsep * d);
}

static void mirror_close(mirror *f) {
    double *const gone[] = {f->dc, f->dct, f->dsum, f->dcommon};
    double *const host[] = {f->c, f->ct, f->sum, f->common};
    be->release(ctx, f->dpair);
    free(f->pair);
    for (size_t i = 0; i < 4; i++) {
        be->release(ctx, gone[i]);
        free(host[i]);
    }
    psf_backend(be)->close(f->b);
    psf_fit_free(f->rest);
    psf_free(f->p);
    case_profile_free(&f->prof);
    sys_free(&f->s);
}

/* All that follows from the sums is the stage's too. */
static void check_results(mirror *f, bool averaged) {
    const backend_psf *imager = psf_backend(be);
    const size_t pixels = 2 * 32 * 32;
    double scalars[8], wanted[8];
    float *image = malloc(pixels * sizeof *image), *wimage = malloc(pixels * sizeof *image);
    psf_use_pairwise(f->p, averaged ? f->pair : NULL, f->sum);
    case_ok(imager->compute(f->b, 0, f->dsum, f->dcommon, averaged ? f->dpair : NULL));
    case_ok(imager->collect(f->b, 0, scalars, image));
    for (size_t i = 0; i < f->nsep; i++)
        f->sum[i] += f->common[i];
    case_ok(psf_compute_all(f->p, f->sum, f->rest, wanted, wimage));
    for (int i = 0; i < 8; i++) /* single pairs are in single precision */
        if (!(fabs(scalars[i] - wanted[i]) <= (averaged ? 1e-7 : 1e-9) * fabs(wanted[i])))
            fail_msg("result %d: %.17g, expected %.17g", i, scalars[i], wanted[i]);
    for (size_t i = 0; i < f->nsep; i++)
        f->sum[i] -= f->common[i];
    f->gain = wanted[0];
    for (size_t i = 0; i < pixels; i++)
        assert_true(fabs((double)image[i] - (double)wimage[i]) < 1e-6);
    free(image);
    free(wimage);
}

static void near_results(const double *got, const double *wanted, double tolerance) {
    for (int i = 0; i < 8; i++)
        if (!(fabs(got[i] - wanted[i]) <= tolerance * fabs(wanted[i])))
            fail_msg("result %d: %.17g, expected %.17g", i, got[i], wanted[i]);
}

/* Images of ln c are those of the single pairs it was made of; so are, to single precision, those
 * of what is kept of a target. */
static void check_kept(mirror *f) {
    const backend_psf *imager = psf_backend(be);
    const size_t d = sizeof(double), nlogs = 2 * f->nsep, n = psf_kept_count(f->p);
    double of_pairs[8], of_logs[8], of_kept[8];
    double *logs = calloc(nlogs, d), *kept = calloc(n, d), *dlogs = device(nlogs * d);
    double *sum = calloc(f->nsep, d), *dsum = device(f->nsep * d);
    float *few = calloc(n, sizeof *few);
    assert_true(n > 0 && n < 3 * f->nsep * 2 / 3);
    case_ok(imager->compute(f->b, 0, f->dsum, f->dcommon, f->dpair));
    case_ok(imager->collect(f->b, 0, of_pairs, NULL));
    case_ok(imager->logs(f->b, f->dsum, f->dpair, dlogs));
    case_ok(imager->images(f->b, 1, f->dsum, f->dcommon, dlogs));
    case_ok(imager->collect(f->b, 1, of_logs, NULL));
    near_results(of_logs, of_pairs, 1e-13);
    move(logs, dlogs, nlogs * d);
    move(sum, f->dsum, f->nsep * d);
    psf_keep(f->p, sum, f->common, logs, few);
    for (size_t i = 0; i < n; i++)
        kept[i] = few[i];
    psf_unkeep(f->p, kept, sum, logs);
    move(dlogs, logs, nlogs * d);
    move(dsum, sum, f->nsep * d);
    case_ok(imager->images(f->b, 0, dsum, NULL, dlogs));
    case_ok(imager->collect(f->b, 0, of_kept, NULL));
    near_results(of_kept, of_pairs, 1e-5);
    be->release(ctx, dlogs);
    be->release(ctx, dsum);
    free(logs);
    free(kept);
    free(sum);
    free(few);
}

/* Single pairs are the stage's. */
static void check_single(const mirror *f) {
    float *got = malloc(f->npair * sizeof *got), most = 0;
    move(got, f->dpair, f->npair * sizeof *got);
    for (size_t i = 0; i < f->npair; i++)
        most = fmaxf(most, fabsf(f->pair[i]));
    for (size_t i = 0; i < f->npair; i++)
        if (!(fabsf(got[i] - f->pair[i]) <= 1e-6f * most))
            fail_msg("pair %zu: %.9g, expected %.9g", i, got[i], f->pair[i]);
    free(got);
}

/* Sums of a mirror on the device against the host's, to 1e-12 of the largest, which is returned. */
static double check_sums(const mirror *f, const double *got, const char *what, int number) {
    double most = 0;
    for (size_t i = 0; i < f->nsep; i++)
        most = fmax(most, fabs(f->sum[i]));
    for (size_t i = 0; i < f->nsep; i++)
        if (!(fabs(got[i] - f->sum[i]) <= 1e-12 * most))
            fail_msg("%s %d, place %zu: %.17g, expected %.17g", what, number, i, got[i], f->sum[i]);
    return most;
}

/* Sums over pairs, single pairs, and the images of both are the stage's. */
static void check_pairs(int nssp, double obs, double coupling, int k, psf_average_kind average,
                        int all_pairs) {
    const backend_psf *imager = psf_backend(be);
    mirror f;
    mirror_open(nssp, obs, coupling, k, average, all_pairs, &f);
    mirror_fill(&f);
    const int64_t ld = (int64_t)f.ld;
    double *got = malloc(f.nsep * sizeof *got);
    case_ok(imager->pairs(f.b, f.dc, ld, f.dct, ld, f.dsum, f.npair > 0 ? f.dpair : NULL));
    case_ok(be->sync(ctx));
    move(got, f.dsum, f.nsep * sizeof *got);
    check_sums(&f, got, "nssp", nssp);
    check_results(&f, false);
    const double mean = f.gain;
    if (f.npair > 0) {
        check_single(&f);
        check_results(&f, true);
        check_kept(&f);
        print_message("nssp %d: Strehl ratio %.6f, of the mean of D %.6f\n", nssp, f.gain, mean);
        assert_true(f.gain > 1.001 * mean);
    }
    assert_int_equal(imager->pairs(f.b, f.dc, (int64_t)f.v - 1, f.dct, ld, f.dsum, NULL),
                     MOAO_INPUT);
    status_clear();
    free(got);
    mirror_close(&f);
}

/* Influence functions of a row of points by their formula: what is left out is nil; a row fits into
 * `room` numbers, which psf_influence_most gave for another direction. */
static void check_influence(const mirror *f, const double dir[2], size_t room) {
    const double *x, *y;
    double *strip = malloc(room * sizeof *strip), worst = 0;
    psf_points(f->p, &x, &y);
    assert_int_equal(psf_mirrors(f->p), f->s.fit.nmirror);
    for (int m = 0; m < f->s.fit.nmirror; m++)
        for (int j = 0; j < psf_lattice_rows(f->p); j++) {
            const dmirror *dm = &f->s.fit.mirrors[m];
            assert_in_range(
                psf_influence(f->p, j, m, NULL).n * psf_influence(f->p, j, m, NULL).nact, 0, room);
            const psf_strip z = psf_influence(f->p, j, m, strip);
            for (int i = z.first; i < z.first + z.n; i++)
                for (int a = 0; a < dm->nact; a++) {
                    const int side = dm->nssp + 1, at = dm->first + a - z.act;
                    const double px = (dm->act[a] % side - 0.5 * dm->nssp) * dm->pitch,
                                 py = (dm->act[a] / side - 0.5 * dm->nssp) * dm->pitch,
                                 r = hypot(x[i] + dir[0] * dm->altitude - px,
                                           y[i] + dir[1] * dm->altitude - py) /
                                     dm->pitch;
                    const double got =
                        at >= 0 && at < z.nact ? strip[(i - z.first) * z.nact + at] : 0;
                    worst = fmax(worst, fabs(got - pow(dm->coupling, r * r)));
                }
        }
    print_message("influence functions: %.1e\n", worst);
    assert_true(worst < 2e-14);
    free(strip);
}

/* Products with them, of more rows than are taken at once and of a row's points but the first two,
 * against those with the whole functions; what is there before stays. */
static void check_products(const mirror *f, size_t room) {
    enum { ROWS = 300 };
    double *a = malloc(ROWS * f->v * sizeof *a), *strip = malloc(room * sizeof *strip);
    double *work = malloc(psf_influence_room(f->p) * sizeof *work), worst = 0;
    for (size_t i = 0; i < ROWS * f->v; i++)
        a[i] = case_random(-1, 1);
    for (int j = 0; j < psf_lattice_rows(f->p); j++)
        for (int m = 0; m < psf_mirrors(f->p); m++) {
            const psf_strip z = psf_influence(f->p, j, m, strip);
            const int n = z.n > 2 ? z.n - 2 : 0;
            double *out = calloc((size_t)(ROWS * n) + 1, sizeof *out);
            for (int i = 0; i < ROWS * n; i++)
                out[i] = i % 7;
            psf_influence_product(f->p, j, m, 2, n, ROWS, 0.5, a, ROWS, out, ROWS, work);
            for (int i = 0; i < n; i++)
                for (int r = 0; r < ROWS; r++) {
                    double sum = (r + ROWS * i) % 7;
                    for (int k = 0; k < z.nact; k++)
                        sum += 0.5 * a[r + (z.act + k) * ROWS] * strip[(i + 2) * z.nact + k];
                    worst = fmax(worst, fabs(out[r + ROWS * i] - sum));
                }
            free(out);
        }
    print_message("products with influence functions: %.1e\n", worst);
    assert_true(worst < 1e-13);
    free(a);
    free(strip);
    free(work);
}

/* The same of mirrors at altitudes, as one target after the other sees them: near the axis, and so
 * far off that a part of the pupil has no actuators. */
static void test_mirrors(void **state) {
    static const double dir[][2] = {
        {0, 0}, {CASE_ARCSEC(31), CASE_ARCSEC(-17)}, {CASE_ARCSEC(-90), CASE_ARCSEC(60)}};
    const backend_psf *imager = psf_backend(be);
    (void)state;
    mirror f;
    aloft = true;
    mirror_open(getenv("MOAO_TEST_SMALL") != NULL ? 5 : 7, 0.2, 0.2, 3, PSF_AVERAGE_EXACT, 200, &f);
    aloft = false;
    double *got = malloc(f.nsep * sizeof *got);
    double *pairs = calloc(f.npair + 1, sizeof *pairs), before = 0;
    psf_aim(f.p, dir[2]);
    const size_t room = psf_influence_most(f.p);
    mirror_fill(&f);
    for (int i = 0; i < 3; i++) {
        psf_aim(f.p, dir[i]);
        check_influence(&f, dir[i], room);
        check_products(&f, room);
        memset(f.sum, 0, f.nsep * sizeof *f.sum);
        memset(pairs, 0, (f.npair + 1) * sizeof *pairs);
        case_ok(psf_accumulate_phase(f.p, 0, f.v, f.c, f.ld, f.ct, f.ld, f.sum, pairs));
        psf_round_pairwise(f.p, pairs, f.pair);
        for (size_t k = 0; k < f.nsep; k++)
            got[k] = NAN;
        move(f.dsum, got, f.nsep * sizeof *got);
        if (i > 0) /* the axis is where it begins */
            case_ok(imager->aim(f.b, dir[i]));
        case_ok(imager->pairs(f.b, f.dc, (int64_t)f.ld, f.dct, (int64_t)f.ld, f.dsum, f.dpair));
        case_ok(be->sync(ctx));
        move(got, f.dsum, f.nsep * sizeof *got);
        const double most = check_sums(&f, got, "direction", i);
        check_single(&f);
        check_results(&f, true);
        assert_true(most != before);
        before = most;
    }
    assert_int_equal(imager->aim(f.b, (double[2]){NAN, 0}), MOAO_INPUT);
    status_clear();
    free(pairs);
    free(got);
    mirror_close(&f);
}

static void test_pairs(void **state) {
    (void)state;
    check_pairs(7, 0.3, 0.2, 4, PSF_AVERAGE_EXACT, 0);
    check_pairs(10, 0, 0.6, 3, PSF_AVERAGE_MEAN, 0);
    check_pairs(7, 0, 0.3, 2, PSF_AVERAGE_EXACT, 100);
    square = true;
    check_pairs(5, 0.3, 0.2, 3, PSF_AVERAGE_EXACT, 200);
    square = false;
    if (getenv("MOAO_TEST_SMALL") == NULL) {
        check_pairs(16, 0.14, 0.1, 5, PSF_AVERAGE_MEAN, 0);
        check_pairs(51, 0.28, 0.2, 2, PSF_AVERAGE_EXACT, 3000);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_pairs), cmocka_unit_test(test_mirrors),
    cmocka_unit_test(test_phase_slopes), cmocka_unit_test(test_slope_pairs)};

int main(void) {
    return run_alone(tests, sizeof tests / sizeof *tests);
}
