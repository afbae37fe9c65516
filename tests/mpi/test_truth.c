/* ranks: 1 3
 * What the commands of a noiseless truth sensor leave, by autocorrelations of its slopes, against
 * the sums over all pairs of slopes, and of slopes and points, one by one; fitting error and
 * aliasing against an orthonormal basis of the mirror's shapes; what stands between outer scales.
 */
#include "budget/aliasing.h"
#include "budget/truth.h"
#include "matcov/formula.h"
#include "matcov/matcov.h"
#include "support/psf_case.h"

#include <mpi.h>

static comm world;
static double L0[] = {12, 25, INFINITY};
enum { SCALES = sizeof L0 / sizeof *L0 };

/* A' of each point: influence functions (v x points) less their means. */
static double *shapes(const sys *s, const psf *p, size_t np, double *mean) {
    const size_t v = (size_t)s->dm.nact;
    double *a = case_doubles(v * np), *strip = case_doubles(v * np);
    for (int j = 0; j < psf_lattice_rows(p); j++) {
        const psf_strip z = psf_influence(p, j, 0, strip);
        for (int i = 0; i < z.n; i++)
            for (int b = 0; b < z.nact; b++)
                a[(size_t)(z.first + i) * v + (size_t)(z.act + b)] = strip[i * z.nact + b];
    }
    for (size_t b = 0; b < v; b++) {
        for (size_t i = 0; i < np; i++)
            mean[b] += a[i * v + b] / (double)np;
        for (size_t i = 0; i < np; i++)
            a[i * v + b] -= mean[b];
    }
    free(strip);
    return a;
}

/* The sums as they stand, of one outer scale; b: A D+ (t x points). */
static double direct(const sys *s, const psf *p, size_t np, double scale, const double *b) {
    sys seen = *s;
    double h = 0, strength = 1, wind = 0, sum = 0;
    const double *x, *y;
    const size_t t = s->t;
    matcov *mc;
    matcov_target *mt;
    seen.sensors = &seen.ts;
    seen.nsensor = 1;
    seen.m = t;
    const profile one = {
        .nlayer = 1, .h = &h, .L0 = &scale, .strength = &strength, .wind = {&wind, &wind}, .r0 = 1};
    double *ctt = case_doubles(t * t), *cpt = case_doubles(np * t);
    psf_points(p, &x, &y);
    OK(matcov_init(&world, &seen, &one, &mc));
    OK(matcov_target_init(mc, (double[2]){0, 0}, false, &mt));
    OK(matcov_fill_ctt(mc, 0, t, 0, t, ctt, t));
    OK(matcov_fill_cpm(mt, (matcov_points){np, x, y}, 0, t, cpt, np));
    for (size_t k = 0; k < np; k++)
        for (size_t i = 0; i < t; i++) {
            double row = 0;
            for (size_t j = 0; j < t; j++)
                row += ctt[i + j * t] * b[k * t + j];
            sum += b[k * t + i] * (row - 2 * cpt[k + i * np]) / (double)np;
        }
    matcov_target_free(mt);
    matcov_free(mc);
    free(ctt);
    free(cpt);
    return sum;
}

static void test_against_all_pairs(void **state) {
    (void)state;
    const struct {
        int nssp;
        double obs;
        bool gradient;
    } of[] = {{7, 0.31, false}, {7, 0.31, true}, {10, 0, true}, {2, 0.2, true}, {1, 0, false}};
    for (size_t turn = 0; turn < sizeof of / sizeof *of; turn++) {
        sys s = case_system(of[turn].nssp, 0.6 * of[turn].nssp, of[turn].obs);
        s.ts.gradient = of[turn].gradient;
        psf_opts o = case_opts();
        psf *p;
        o.phase = true;
        OK(psf_init(&s, &o, &p));
        const double *x, *y;
        const size_t np = psf_points(p, &x, &y), v = (size_t)s.dm.nact, t = s.t;
        double *dplus = case_doubles(v * t), *mean = case_doubles(v), *b = case_doubles(t * np),
               out[SCALES] = {0}, *a = shapes(&s, p, np, mean);
        unsigned seed = 7;
        for (size_t i = 0; i < v * t; i++)
            dplus[i] = case_random(&seed);
        for (size_t k = 0; k < np; k++)
            for (size_t j = 0; j < t; j++)
                for (size_t i = 0; i < v; i++)
                    b[k * t + j] += a[k * v + i] * dplus[i + j * v];
        OK(truth_variance(&world, &s, p, dplus, mean, SCALES, L0, out));
        comm_sum(&world, out, SCALES);
        for (int l = 0; l < SCALES; l++)
            CLOSE(out[l], direct(&s, p, np, L0[l], b), 1e-11);
        free(dplus);
        free(mean);
        free(b);
        free(a);
        psf_free(p);
        sys_free(&s);
    }
}

/* Layers of strength 1 on the ground with these outer scales. */
static atmos layers(int n, double *scale, double *none, double *one, profile *p) {
    for (int i = 0; i < n; i++)
        none[i] = 0, one[i] = 1;
    *p = (profile){.nlayer = n, .h = none, .L0 = scale, .strength = one, .wind = {none, none}};
    return (atmos){.nprofile = 1, .profiles = p};
}

/* Orthonormal basis of the shapes a (v x points) of commands without piston, by Gram-Schmidt,
 * twice; the number of its vectors. */
static size_t basis(const double *a, size_t v, size_t np, double *q) {
    size_t n = 0;
    for (size_t b = 0; b + 1 < v; b++) {
        double *x = q + n * np, norm = 0;
        for (size_t k = 0; k < np; k++)
            x[k] = a[k * v + b] - a[k * v + v - 1];
        for (size_t l = 0; l < 2 * n; l++) {
            double dot = 0;
            for (size_t k = 0; k < np; k++)
                dot += x[k] * q[l % n * np + k];
            for (size_t k = 0; k < np; k++)
                x[k] -= dot * q[l % n * np + k];
        }
        for (size_t k = 0; k < np; k++)
            norm += x[k] * x[k];
        assert_true(norm > 1e-6);
        for (size_t k = 0; k < np; k++)
            x[k] /= sqrt(norm);
        n++;
    }
    return n;
}

/* V[phi] [m^2] over the points; *shape: what of it, of the frequencies that the lattice resolves,
 * the basis q holds. */
static double variances(const psf *p, size_t np, double diameter, double scale, const double *q,
                        size_t n, double *shape) {
    const double unit = pow(500e-9 / (2 * M_PI), 2);
    const double *x, *y;
    const int rows = psf_lattice_rows(p);
    double *row = case_doubles(np), *beyond = case_doubles(psf_sep_count(p)), all = 0;
    psf_points(p, &x, &y);
    OK(psf_structure_beyond(p, scale, beyond));
    *shape = 0;
    for (size_t k = 0; k < np; k++) {
        for (size_t l = 0; l < np; l++) {
            row[l] = -0.5 * unit * formula_structure(1, scale, hypot(x[k] - x[l], y[k] - y[l]));
            all -= row[l] / (double)np / (double)np;
            const int dj = (int)lround((y[l] - y[k]) * rows / diameter),
                      di = (int)lround((x[l] - x[k]) * rows / diameter - (dj & 1 ? 0.5 : 0));
            row[l] += 0.5 * beyond[(dj + rows) * (2 * rows + 1) + di + rows];
        }
        for (size_t i = 0; i < n; i++)
            for (size_t l = 0; l < np; l++)
                *shape += q[i * np + k] * row[l] * q[i * np + l] / (double)np;
    }
    free(row);
    free(beyond);
    return all;
}

/* On a thread the same bits; also where D+ comes later, or never. */
static void check_apart(const sys *s, psf *p, const double *dplus, const atmos *air,
                        const mirror_budget *m, bool early) {
    const size_t v = (size_t)s->dm.nact, all = v * s->t;
    double *late = case_doubles(all);
    mirror_budget b;
    for (size_t i = 0; i < all; i++)
        late[i] = early ? (double)NAN : dplus[i];
    assert_true(mirror_budget_is_early(s, p));
    OK(early ? mirror_budget_begin_early(&world, s, p, late, air, &b)
             : mirror_budget_begin(&world, s, p, late, air, &b));
    assert_non_null(b.work);
    OK(mirror_budget_shapes(&b));
    if (early)
        memcpy(late, dplus, all * sizeof *late);
    mirror_budget_command(&b);
    OK(mirror_budget_end(&world, &b));
    assert_null(b.work);
    OK(mirror_budget_end(&world, &b));
    assert_memory_equal(b.fitting, m->fitting, SCALES * sizeof(double));
    assert_memory_equal(b.aliasing, m->aliasing, SCALES * sizeof(double));
    assert_memory_equal(b.influence, m->influence, v * v * sizeof(double));
    mirror_budget_free(&b);
    OK(early ? mirror_budget_begin_early(&world, s, p, late, air, &b)
             : mirror_budget_begin(&world, s, p, late, air, &b));
    mirror_budget_free(&b);
    free(late);
}

static void test_fitting_and_aliasing(void **state) {
    (void)state;
    sys s = case_system(4, 2.4, 0.2);
    psf_opts o = case_opts();
    psf *p;
    o.phase = true;
    OK(psf_init(&s, &o, &p));
    const double *x, *y;
    const size_t np = psf_points(p, &x, &y), v = (size_t)s.dm.nact, t = s.t;
    double *dplus = case_doubles(v * t), *mean = case_doubles(v), *b = case_doubles(t * np);
    double *q = case_doubles(v * np), *a = shapes(&s, p, np, mean), none[SCALES], one[SCALES];
    const size_t n = basis(a, v, np, q);
    unsigned seed = 7;
    for (size_t i = 0; i < v * t; i++)
        dplus[i] = 1e-8 * case_random(&seed);
    for (size_t k = 0; k < np; k++)
        for (size_t j = 0; j < t; j++)
            for (size_t i = 0; i < v; i++)
                b[k * t + j] += a[k * v + i] * dplus[i + j * v];
    profile prof;
    const atmos air = layers(SCALES, L0, none, one, &prof);
    mirror_budget m;
    double strengths[SCALES], sums[2] = {0}, both[2];
    OK(mirror_budget_init(&world, &s, p, dplus, &air, &m));
    check_apart(&s, p, dplus, &air, &m, false);
    check_apart(&s, p, dplus, &air, &m, true);
    for (int l = 0; l < SCALES; l++) {
        double shape, fitting, aliasing, strength = 3;
        const double all = variances(p, np, s.diameter, L0[l], q, n, &shape);
        const profile only = {
            .nlayer = 1, .h = none, .L0 = &L0[l], .strength = &strength, .wind = {none, none}};
        mirror_budget_of(&m, &only, 0, &fitting, &aliasing, &(double){0});
        assert_true(all - shape < 0.1 * all);
        CLOSE(fitting, 3 * (all - shape), 1e-9);
        CLOSE(aliasing, 3 * (shape + direct(&s, p, np, L0[l], b)), 1e-9);
        strengths[l] = 1 + l;
        sums[0] += strengths[l] / 3 * fitting;
        sums[1] += strengths[l] / 3 * aliasing;
    }
    const profile every = {
        .nlayer = SCALES, .h = none, .L0 = L0, .strength = strengths, .wind = {none, none}};
    mirror_budget_of(&m, &every, 0, &both[0], &both[1], &(double){0});
    CLOSE(both[0], sums[0], 1e-12); /* each layer has its own outer scale's */
    CLOSE(both[1], sums[1], 1e-12);
    mirror_budget_free(&m);
    free(dplus);
    free(mean);
    free(b);
    free(q);
    free(a);
    psf_free(p);
    sys_free(&s);
}

/* More outer scales than are computed one by one: every value is that of its own within a tenth of
 * the step between the neighbours that were; infinity is exact. */
static void test_between_outer_scales(void **state) {
    (void)state;
    enum { MANY = 30, FEW = 6 };
    sys s = case_system(4, 2.4, 0);
    psf_opts o = case_opts();
    psf *p;
    o.phase = true;
    OK(psf_init(&s, &o, &p));
    const size_t v = (size_t)s.dm.nact;
    double *dplus = case_doubles(v * s.t), none[MANY], one[MANY], many[MANY], few[FEW];
    profile prof[2];
    mirror_budget m[2];
    for (int i = 0; i < MANY - 1; i++)
        many[i] = 1.7 * pow(60 / 1.7, i / (MANY - 2.0));
    many[MANY - 1] = INFINITY;
    for (int i = 0; i < FEW; i++)
        few[i] = many[i < FEW - 1 ? 7 * i : MANY - 1]; /* the ends of the table among them */
    atmos air = layers(MANY, many, none, one, &prof[0]);
    OK(mirror_budget_init(&world, &s, p, dplus, &air, &m[0]));
    air = layers(FEW, few, none, one, &prof[1]);
    OK(mirror_budget_init(&world, &s, p, dplus, &air, &m[1]));
    assert_true(m[0].n < MANY && m[1].n == FEW);
    for (int i = 0; i < FEW; i++) {
        const profile only = {
            .nlayer = 1, .h = none, .L0 = &few[i], .strength = one, .wind = {none, none}};
        double fitting[2], aliasing[2];
        int k = 1;
        for (int j = 0; j < 2; j++)
            mirror_budget_of(&m[j], &only, 0, &fitting[j], &aliasing[j], &(double){0});
        while (k < m[0].n - 1 && m[0].L0[k] < few[i])
            k++;
        const bool exact = i == 0 || i >= FEW - 2;
        const double f = fabs(m[0].fitting[k] - m[0].fitting[k - 1]),
                     a = fabs(m[0].aliasing[k] - m[0].aliasing[k - 1]);
        NEAR(fitting[0], fitting[1], exact ? 1e-12 * fitting[1] : 0.1 * f);
        NEAR(aliasing[0], aliasing[1], exact ? 1e-12 * fitting[1] : 0.1 * a);
    }
    for (int j = 0; j < 2; j++)
        mirror_budget_free(&m[j]);
    free(dplus);
    psf_free(p);
    sys_free(&s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_all_pairs),
                                       cmocka_unit_test(test_fitting_and_aliasing),
                                       cmocka_unit_test(test_between_outer_scales)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_WORLD, &world);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
