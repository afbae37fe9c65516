/* ranks: 1 3
 * What the commands of a noiseless truth sensor leave, by autocorrelations of its slopes, against
 * the sums over all pairs of slopes, and of slopes and points, one by one. */
#include "budget/truth.h"
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
        const psf_strip z = psf_influence(p, j, strip);
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
    OK(matcov_fill_cpm(mt, np, x, y, 0, t, cpt, np));
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

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_all_pairs)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_WORLD, &world);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
