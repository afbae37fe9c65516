/* Stationary average of covariances and the phase covariance that follows, against the plain sums
 * of the model. */
#include "support/psf_case.h"

#include "psf/psf_phase.h"
#include "psf/psf_plan.h"

#include <omp.h>

/* Column and row of actuator a. */
static int act_x(const sys *s, size_t a) {
    return s->dm.act[a] % (s->dm.nssp + 1);
}
static int act_y(const sys *s, size_t a) {
    return s->dm.act[a] / (s->dm.nssp + 1);
}

static size_t separation(const sys *s, size_t a, size_t b) {
    int n = s->dm.nssp, dx = act_x(s, b) - act_x(s, a), dy = act_y(s, b) - act_y(s, a);
    return (size_t)((dy + n) * (2 * n + 1) + dx + n);
}

static double *random_matrix(size_t n, unsigned seed) {
    double *c = case_doubles(n);
    for (size_t i = 0; i < n; i++)
        c[i] = case_random(&seed);
    return c;
}

static const struct {
    int n;
    double obs;
} mirror[] = {{1, 0}, {2, 0.1}, {7, 0.285}, {8, 0}, {13, 0.6}, {20, 0.3}};
#define NMIRROR (sizeof mirror / sizeof *mirror)

/* Every element lands on its separation with the weights of its actuators, and on the opposite
 * separation too where it stands for itself and its transpose; for odd, even and strongly obscured
 * mirrors. */
static void test_sums(void **in) {
    (void)in;
    for (size_t i = 0; i < NMIRROR; i++)
        for (int both = 0; both < 2; both++) {
            sys s = case_system(mirror[i].n, 8, mirror[i].obs);
            psf_opts o = case_opts();
            psf *p;
            o.weighted = true;
            OK(psf_init(&s, &o, &p));
            size_t v = (size_t)s.dm.nact, nsep = psf_sep_count(p);
            double *c = random_matrix(v * v, 3), *sum = case_doubles(nsep),
                   *want = case_doubles(nsep);
            for (size_t b = 0; b < v; b++)
                for (size_t a = 0; a < v; a++) {
                    double x = p->weight[a] * p->weight[b] * c[a + b * v];
                    want[separation(&s, a, b)] += x;
                    want[separation(&s, b, a)] += both ? x : 0;
                }
            psf_accumulate(p, 0, v, c, v, both, sum);
            for (size_t j = 0; j < nsep; j++)
                NEAR(sum[j], want[j], 1e-12 * (double)v);
            free(want);
            free(sum);
            free(c);
            psf_free(p);
            sys_free(&s);
        }
}

/* Ranks may add any rows they own, from arrays with a leading dimension of their own: the total is
 * the whole, and nothing but the rows is read. */
static void test_rows(void **in) {
    (void)in;
    const size_t cut[] = {0, 1, 8, 8, 31, 32, 33, 100, 101, 250, 1000};
    for (size_t i = 2; i < NMIRROR; i++)
        for (int both = 0; both < 2; both++) {
            sys s = case_system(mirror[i].n, 8, mirror[i].obs);
            psf_opts o = case_opts();
            psf *p;
            OK(psf_init(&s, &o, &p));
            size_t v = (size_t)s.dm.nact, nsep = psf_sep_count(p);
            double *c = random_matrix(v * v, 11), *sum = case_doubles(nsep),
                   *whole = case_doubles(nsep);
            psf_accumulate(p, 0, v, c, v, both, whole);
            for (size_t k = 0; k + 1 < sizeof cut / sizeof *cut; k++) {
                size_t a0 = cut[k] < v ? cut[k] : v, a1 = cut[k + 1] < v ? cut[k + 1] : v;
                size_t na = a1 - a0, ld = na + 3;
                double *part = case_doubles(ld * v);
                for (size_t b = 0; b < v; b++)
                    for (size_t a = 0; a < ld; a++)
                        part[a + b * ld] = a < na ? c[a0 + a + b * v] : NAN;
                psf_accumulate(p, a0, na, part, ld, both, sum);
                free(part);
            }
            for (size_t j = 0; j < nsep; j++)
                NEAR(sum[j], whole[j], 1e-13 * (double)v);
            free(whole);
            free(sum);
            free(c);
            psf_free(p);
            sys_free(&s);
        }
}

/* The sums are the same bits whatever the number of threads. */
static void test_threads(void **in) {
    (void)in;
    int threads = omp_get_max_threads();
    sys s = case_system(20, 8, 0.3);
    psf_opts o = case_opts();
    psf *p;
    OK(psf_init(&s, &o, &p));
    size_t v = (size_t)s.dm.nact, nsep = psf_sep_count(p);
    double *c = random_matrix(v * v, 17), *one = case_doubles(nsep), *many = case_doubles(nsep);
    assert_true(v * v > 65536); /* large enough to be shared out */
    omp_set_num_threads(1);
    psf_accumulate(p, 0, v, c, v, true, one);
    for (int t = 2; t <= 30; t += 7) {
        omp_set_num_threads(t);
        memset(many, 0, nsep * sizeof *many);
        psf_accumulate(p, 0, v, c, v, true, many);
        assert_memory_equal(one, many, nsep * sizeof *one);
    }
    omp_set_num_threads(threads);
    free(many);
    free(one);
    free(c);
    psf_free(p);
    sys_free(&s);
}

/* Weights are the influence functions' energies over the pupil's pixels of d_t/4, in proportion;
 * without them all count the same. */
static void test_weights(void **in) {
    (void)in;
    for (size_t i = 0; i < NMIRROR; i++) {
        sys s = case_system(mirror[i].n, 8, mirror[i].obs);
        psf_opts o = case_opts();
        psf *p, *plain;
        OK(psf_init(&s, &o, &plain));
        o.weighted = true;
        OK(psf_init(&s, &o, &p));
        int n = mirror[i].n;
        double d = s.dm.pitch, x0 = d / sqrt(-2 * log(0.2)), scale = 0;
        for (size_t a = 0; a < (size_t)s.dm.nact; a++) {
            double energy = 0;
            for (int y = 0; y < 4 * n; y++)
                for (int x = 0; x < 4 * n; x++) {
                    double px = (x + 0.5) * d / 4 - 4, py = (y + 0.5) * d / 4 - 4;
                    double r = hypot(px, py);
                    double to = hypot(px - (act_x(&s, a) * d - 4), py - (act_y(&s, a) * d - 4));
                    double f = exp(-to * to / (2 * x0 * x0));
                    if (r >= 4 * mirror[i].obs && r < 4)
                        energy += f * f;
                }
            scale = a == 0 ? p->weight[0] / energy : scale;
            CLOSE(p->weight[a], scale * energy, 1e-12);
            NEAR(plain->weight[a], 1, 1e-14);
        }
        psf_free(plain);
        psf_free(p);
        sys_free(&s);
    }
}

/* C(rho) at grid points is 1/d_t^2 sum_delta M(delta) A(rho - delta), A the integral of the product
 * of two influence functions: Gaussian, checked against its sum over a fine mesh. */
static void test_covariance(void **in) {
    (void)in;
    for (int k = 2; k <= 4; k++) {
        sys s = case_system(9, 6.3, 0.3);
        psf_opts o = case_opts();
        psf *p;
        o.weighted = true;
        o.oversampling = k;
        OK(psf_init(&s, &o, &p));
        size_t v = (size_t)s.dm.nact, nsep = psf_sep_count(p);
        double *c = random_matrix(v * v, 23), *sum = case_doubles(nsep), *norm = case_doubles(nsep);
        double d = s.dm.pitch, x0 = d / sqrt(-2 * log(0.2)), h = x0 / 8;
        for (size_t b = 0; b < v; b++)
            for (size_t a = 0; a < v; a++) {
                norm[separation(&s, a, b)] += p->weight[a] * p->weight[b];
                c[a + b * v] +=
                    b < a ? c[b + a * v] : 0; /* any matrix: only its even part counts */
            }
        psf_accumulate(p, 0, v, c, v, true, sum);
        psf_covariance(p, sum);
        for (int u = 0; u < p->P; u += 5)
            for (int w = -p->vmax[u]; w <= p->vmax[u]; w += 7) {
                double want = 0;
                for (int dy = -9; dy <= 9; dy++)
                    for (int dx = -9; dx <= 9; dx++) {
                        size_t j = (size_t)((dy + 9) * 19 + dx + 9);
                        double x = u * p->pixel - dx * d, y = w * p->pixel - dy * d, ax = 0, ay = 0;
                        for (int t = -80; t <= 80; t++) {
                            ax += h * exp(-(pow(t * h, 2) + pow(t * h + x, 2)) / (2 * x0 * x0));
                            ay += h * exp(-(pow(t * h, 2) + pow(t * h + y, 2)) / (2 * x0 * x0));
                        }
                        want += norm[j] > 0 ? 0.5 * sum[j] / norm[j] * ax * ay / (d * d) : 0;
                    }
                /* `sum` holds c + c': twice the mean */
                NEAR(0.5 * p->otf[u * p->stride + (w < 0 ? w + p->N : w)], want, 1e-13);
            }
        free(norm);
        free(sum);
        free(c);
        psf_free(p);
        sys_free(&s);
    }
}

/* A stationary covariance is its own average, weighted or not: both averages give the same PSF. */
static void test_stationary(void **in) {
    (void)in;
    double ee[2][3];
    psf_result r[2] = {{.ee = ee[0]}, {.ee = ee[1]}};
    sys s = case_system(13, 8, 0.4);
    double *c = case_covariance(&s, 2e-7, 1.4);
    for (int w = 0; w < 2; w++) {
        psf_opts o = case_opts();
        psf *p;
        o.weighted = w == 1;
        OK(psf_init(&s, &o, &p));
        double *sum = case_sums(p, &s, c);
        OK(psf_compute(p, sum, NULL, 1, &r[w]));
        free(sum);
        psf_free(p);
    }
    CLOSE(r[1].strehl, r[0].strehl, 1e-12);
    CLOSE(ee[1][1], ee[0][1], 1e-12);
    CLOSE(r[1].fwhm, r[0].fwhm, 1e-9);
    free(c);
    sys_free(&s);
}

/* What of the sums is not even in the separation does not count: those of a matrix and of its
 * symmetric part give the same phase covariance. */
static void test_halves(void **in) {
    (void)in;
    sys s = case_system(7, 8, 0.2);
    psf_opts o = case_opts();
    psf *p;
    o.weighted = true;
    OK(psf_init(&s, &o, &p));
    const size_t v = (size_t)s.dm.nact, n = (size_t)p->P * (size_t)p->stride;
    double *c = random_matrix(v * v, 5), *even = case_doubles(v * v), *kept = case_doubles(n),
           most = 0;
    for (size_t b = 0; b < v; b++)
        for (size_t a = 0; a < v; a++)
            even[a + b * v] = 0.5 * (c[a + b * v] + c[b + a * v]);
    double *sum = case_sums(p, &s, c), *same = case_sums(p, &s, even);
    psf_covariance(p, sum);
    memcpy(kept, p->otf, n * sizeof *kept);
    psf_covariance(p, same);
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(p->otf[i]));
    assert_true(most > 1e-3);
    for (size_t i = 0; i < n; i++)
        NEAR(kept[i], p->otf[i], 1e-12 * most);
    free(c), free(even), free(kept), free(sum), free(same);
    psf_free(p);
    sys_free(&s);
}

/* The variance of images is <g, c>: of any covariance, by rows, with either weighting; fitting
 * errors of an ideal filter are those of the images too. */
static void test_variance_weights(void **in) {
    (void)in;
    for (int turn = 0; turn < 4; turn++) {
        sys s = case_system(turn < 2 ? 9 : 4, 6.3, 0.3);
        psf_opts o = case_opts();
        double ee[3], L0[] = {25, INFINITY, 25}, h[] = {0, 1, 2}, strength[] = {20, 7, 3}, fitting;
        const profile layers = {.nlayer = 3, .h = h, .L0 = L0, .strength = strength, .r0 = 0.1};
        psf_result r = {.ee = ee};
        psf_fit *fit;
        psf *p;
        o.weighted = turn % 2 == 1;
        OK(psf_init(&s, &o, &p));
        const size_t v = (size_t)s.dm.nact;
        const double radian = case_lambda[1] / (2 * M_PI);
        double *c = random_matrix(v * v, 31), *g = case_doubles(v * v),
               *sum = case_doubles(psf_sep_count(p)), variance = 0;
        for (size_t i = 0; i < v * v; i++)
            c[i] *= 1e-16;
        for (size_t i = 0; i < v; i++)
            c[i + i * v] += 1e-14;
        psf_variance_weights(p, g);
        for (size_t i = 0; i < v * v; i++)
            variance += 2 * g[i] * c[i]; /* of c + c' */
        psf_accumulate(p, 0, v, c, v, true, sum);
        OK(psf_fit_init(p, &layers, &fit));
        OK(psf_fit_ideal(p, &layers, &fitting));
        OK(psf_compute(p, sum, NULL, 1, &r));
        CLOSE(r.variance * radian * radian, variance, 1e-12);
        OK(psf_compute(p, sum, fit, 1, &r));
        CLOSE(r.variance * radian * radian, variance + fitting, 1e-12);
        psf_fit_free(fit);
        free(c);
        free(g);
        free(sum);
        psf_free(p);
        sys_free(&s);
    }
}

/* With many actuators the norms of the separations come from transforms: they are the sums over
 * pairs all the same, and zero exactly where there is no pair. */
static void test_many_actuators(void **in) {
    (void)in;
    const int n = 160, side = n + 1;
    sys s = case_system(n, 38, 0.28);
    psf_opts o = case_opts();
    psf *p;
    o.oversampling = 2;
    o.span = 2.1;
    o.weighted = true;
    assert_true(s.dm.nact > 16384);
    OK(psf_init(&s, &o, &p));
    double *weight = case_doubles((size_t)side * (size_t)side);
    for (int a = 0; a < s.dm.nact; a++)
        weight[s.dm.act[a]] = p->weight[a];
    int none = 0;
    for (int k = 0; k < 60; k++) {
        /* from the centre to the corner, and across */
        int dx = k < 40 ? k * n / 39 : n - k, dy = k < 40 ? (k % 3 - 1) * k * n / 39 : k - n;
        double want = 0;
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++)
                if (y + dy >= 0 && y + dy < side && x + dx < side)
                    want += weight[y * side + x] * weight[(y + dy) * side + x + dx];
        double norm = p->norm[(size_t)(dy + n) * (size_t)p->nsep + (size_t)(dx + n)];
        if (want == 0) {
            assert_true(norm == 0);
            none++;
        } else {
            CLOSE(norm, want, 1e-9);
        }
    }
    assert_true(none > 5 && none < 50);
    free(weight);
    psf_free(p);
    sys_free(&s);
}

/* Opposite separations are as long, and each other's; rows of both kinds, both lattices. */
static void test_opposite(void **state) {
    (void)state;
    for (int square = 0; square < 2; square++) {
        sys s = case_system(8, 4, 0.2);
        psf_opts o = {.oversampling = 1, .span = 2, .phase = true, .across = 16, .square = square};
        psf *p;
        OK(psf_init(&s, &o, &p));
        for (int at = 0; at < p->nsep * p->nsep; at++) {
            const int edge = at % p->nsep, row = at / p->nsep;
            if (edge == 0 || edge == p->nsep - 1 || row == 0 || row == p->nsep - 1)
                continue;
            const int to = phase_opposite(p, at);
            assert_true(fabs(phase_length(p, to) - phase_length(p, at)) < 1e-12);
            assert_int_equal(phase_opposite(p, to), at);
        }
        psf_free(p);
        sys_free(&s);
    }
}

/* Samples are counted row by row, and are the points that phase_is_sample names; any thinning. */
static void test_samples(void **state) {
    (void)state;
    for (int square = 0; square < 2; square++) {
        sys s = case_system(8, 4, 0.2);
        psf_opts o = {.oversampling = 1, .span = 2, .phase = true, .across = 24, .square = square};
        psf *p;
        OK(psf_init(&s, &o, &p));
        for (int thinning = 1; thinning < 40; thinning++) {
            int want = 0;
            for (int j = 0; j < p->lattice; j++)
                for (int a = p->point_row[j]; a < p->point_row[j + 1]; a++)
                    want += phase_is_sample(thinning, p->point_column[a], j);
            assert_int_equal(phase_samples(p->lattice, &s, p->shift, thinning), want);
        }
        psf_free(p);
        sys_free(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_opposite),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_covariance),
        cmocka_unit_test(test_stationary),
        cmocka_unit_test(test_many_actuators),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_variance_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
