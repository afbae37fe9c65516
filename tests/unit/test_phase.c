/* The residual phase on the pupil: covariances of phase and slopes against the closed form, and
 * sums over pairs of points against the pairs themselves. */
#include "matcov/formula.h"
#include "psf/psf.h"
#include "support/matcov_case.h"

#include <mpi.h>

static comm world;

/* Stars of three altitudes, one below a layer; every nssp, registration and outer scale another. */
static void system_of_many(sys *s, profile *p) {
    const case_sensor o[] = {{9, {12, 21}, 90000, 1, CASE_DEGREE(7.3), {0.07, -0.11}, 0},
                             {8, {31, -8}, INFINITY, 1.03, CASE_DEGREE(-11), {-0.05, 0.02}, 10},
                             {3, {-14, 27}, INFINITY, 1, 0, {0}, 9},
                             {7, {4, -9}, 6000, 0.96, 0, {0.1, 0}, 0}};
    const double layer[][5] = {
        {0, 22, 20, 7, 2}, {3000, INFINITY, 9, -9, 8}, {6000, 11, 5, 20, 1}, {11000, 60, 8, 3, 31}};
    case_sys(3.9, 0.31, 7, 4, o, s);
    case_profile(4, layer, p);
}

/* Every entry of any block is the closed form's, to rounding of the largest: with wind, cone effect
 * and registration, at points in any number; what lies beyond the block stays as it was. */
static void test_phase_slopes(void **state) {
    (void)state;
    static const double dir[2] = {CASE_ARCSEC(5), CASE_ARCSEC(-17)};
    sys s;
    profile p;
    matcov *mc;
    matcov_target *mt;
    system_of_many(&s, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    for (int turn = 0; turn < 8; turn++) {
        const size_t np = (size_t[]){1, 7, 8, 63, 512, 513, 700, 0}[turn], ld = np + 3;
        const size_t j0 = turn % 2 ? 37 * (size_t)turn : 0, nj = turn % 3 ? s.m - j0 : 5;
        double *x = calloc(np + 1, sizeof *x), *y = calloc(np + 1, sizeof *y), worst = 0, most = 0;
        double *a = malloc(ld * nj * sizeof *a);
        for (size_t i = 0; i < np; i++)
            x[i] = case_random(-2, 2), y[i] = case_random(-2, 2);
        for (size_t i = 0; i < ld * nj; i++)
            a[i] = 1e30;
        case_ok(matcov_target_init(mc, dir, turn % 2, &mt));
        case_ok(matcov_fill_cpm(mt, (matcov_points){np, x, y}, j0, nj, a, ld));
        for (size_t j = 0; j < nj; j++) {
            for (size_t i = 0; i < np; i++) {
                double want = matcov_direct_cpm(&s, &p, dir, turn % 2, x[i], y[i], j0 + j);
                worst = fmax(worst, fabs(a[i + j * ld] - want));
                most = fmax(most, fabs(want));
            }
            for (size_t i = np; i < ld; i++)
                assert_true(a[i + j * ld] == 1e30);
        }
        if (!(worst <= 1e-12 * most))
            fail_msg("turn %d: %.3g of the largest", turn, worst / most);
        matcov_target_free(mt);
        free(a);
        free(x);
        free(y);
    }
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

static void test_mean_gradients(void **state) {
    (void)state;
    static const double dir[2] = {CASE_ARCSEC(5), CASE_ARCSEC(-17)};
    sys s;
    profile p;
    matcov *mc;
    matcov_target *mt;
    system_of_many(&s, &p);
    for (int w = 0; w < s.nsensor; w++)
        s.sensors[w].gradient = true;
    s.ts.gradient = true;
    case_ok(matcov_init(&world, &s, &p, &mc));
    case_ok(matcov_target_init(mc, dir, false, &mt));
    double x[50], y[50], *a = malloc(50 * s.m * sizeof *a), worst = 0, most = 0;
    for (int i = 0; i < 50; i++)
        x[i] = case_random(-2, 2), y[i] = case_random(-2, 2);
    case_ok(matcov_fill_cpm(mt, (matcov_points){50, x, y}, 0, s.m, a, 50));
    for (size_t j = 0; j < s.m; j += 3)
        for (size_t i = 0; i < 50; i++) {
            double want = matcov_direct_cpm(&s, &p, dir, false, x[i], y[i], j);
            worst = fmax(worst, fabs(a[i + j * 50] - want));
            most = fmax(most, fabs(want));
        }
    if (!(worst <= 8e-4 * most)) /* at the outline of a partly lit subaperture */
        fail_msg("%.3g of the largest", worst / most);
    print_message("mean gradients: %.3g of the largest\n", worst / most);
    free(a);
    matcov_target_free(mt);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* A difference of phases over the size of a subaperture is a slope: Ctm follows from Cpm. */
static void test_slopes_are_differences(void **state) {
    (void)state;
    sys s;
    profile p;
    matcov *mc;
    matcov_target *mt;
    system_of_many(&s, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    case_ok(matcov_target_init(mc, (double[2]){1e-5, 4e-5}, true, &mt));
    const size_t n = s.t / 2;
    const double d = s.diameter / s.ts.nssp;
    double *ctm = malloc(s.t * s.m * sizeof *ctm), *a = malloc(4 * n * s.m * sizeof *a);
    double *x = malloc(4 * n * sizeof *x), *y = malloc(4 * n * sizeof *y), worst = 0, most = 0;
    for (size_t k = 0; k < n; k++) {
        double cx = (s.ts.sub[k] % s.ts.nssp + 0.5) * d - s.diameter / 2;
        double cy = (s.ts.sub[k] / s.ts.nssp + 0.5) * d - s.diameter / 2;
        for (int e = 0; e < 4; e++) {
            x[4 * k + (size_t)e] = cx + (e == 0 ? d / 2 : e == 1 ? -d / 2 : 0);
            y[4 * k + (size_t)e] = cy + (e == 2 ? d / 2 : e == 3 ? -d / 2 : 0);
        }
    }
    case_ok(matcov_fill_ctm(mt, 0, s.m, ctm, s.t));
    case_ok(matcov_fill_cpm(mt, (matcov_points){4 * n, x, y}, 0, s.m, a, 4 * n));
    for (size_t j = 0; j < s.m; j++)
        for (size_t k = 0; k < s.t; k++) {
            const double *at = a + 4 * (k % n) + (k < n ? 0 : 2) + j * 4 * n;
            double want = ctm[k + j * s.t];
            worst = fmax(worst, fabs((at[0] - at[1]) / d * ARCSEC_PER_RAD - want));
            most = fmax(most, fabs(want));
        }
    assert_true(worst <= 1e-11 * most);
    free(ctm);
    free(a);
    free(x);
    free(y);
    matcov_target_free(mt);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* A mirror, and the residual phase of it on the pupil. */
static void mirror_of(int nssp, double diameter, double obs, double coupling, int k, sys *s,
                      psf **p) {
    static const double lambda[] = {2.2e-6, 1.65e-6}, box[] = {CASE_ARCSEC(0.1)};
    const case_sensor one = {nssp, {0, 0}, INFINITY, 1, 0, {0}, 8};
    const psf_opts o = {.nlambda = 2,
                        .lambda = lambda,
                        .nbox = 1,
                        .box = box,
                        .oversampling = k,
                        .span = 3,
                        .weighted = true,
                        .phase = true};
    case_sys(diameter, obs, nssp, 1, &one, s);
    s->dm.coupling = coupling;
    case_ok(psf_init(s, &o, p));
}

static double influence(const sys *s, size_t a, double x, double y) {
    const int side = s->dm.nssp + 1, ix = s->dm.act[a] % side, iy = s->dm.act[a] / side;
    const double x0 = s->dm.pitch / sqrt(-2 * log(s->dm.coupling));
    const double dx = x - (ix - 0.5 * s->dm.nssp) * s->dm.pitch;
    const double dy = y - (iy - 0.5 * s->dm.nssp) * s->dm.pitch;
    return exp(-(dx * dx + dy * dy) / (2 * x0 * x0));
}

/* Z(x', x) = sum_a IF_a(x') [sum_b y(a, b) IF_b(x) - ct(a, x)], np x np. */
static double *pairs_of(const sys *s, size_t np, const double *x, const double *y, const double *c,
                        const double *ct) {
    const size_t v = (size_t)s->dm.nact;
    double *f = malloc(np * v * sizeof *f), *g = malloc(v * np * sizeof *g);
    double *z = malloc(np * np * sizeof *z);
    for (size_t i = 0; i < np; i++)
        for (size_t a = 0; a < v; a++)
            f[a + i * v] = influence(s, a, x[i], y[i]);
    for (size_t i = 0; i < np; i++)
        for (size_t a = 0; a < v; a++) {
            double sum = -ct[a + i * v];
            for (size_t b = 0; b < v; b++)
                sum += c[a + b * v] * f[b + i * v];
            g[a + i * v] = sum;
        }
    for (size_t i = 0; i < np; i++)
        for (size_t j = 0; j < np; j++) {
            double sum = 0;
            for (size_t a = 0; a < v; a++)
                sum += f[a + j * v] * g[a + i * v];
            z[j + i * np] = sum;
        }
    free(f);
    free(g);
    return z;
}

/* The sums are those over the pairs themselves, whichever rows come from which rank: all of them,
 * and for every two pairs of one separation they lie at one place. */
static void test_sums_over_pairs(void **state) {
    (void)state;
    for (int turn = 0; turn < 4; turn++) {
        sys s;
        psf *p;
        const double *x, *y;
        mirror_of((int[]){7, 8, 10, 5}[turn], 4, (double[]){0.3, 0, 0.14, 0.5}[turn],
                  (double[]){0.2, 0.6, 0.1, 0.3}[turn], 4, &s, &p);
        const size_t v = (size_t)s.dm.nact, np = psf_points(p, &x, &y), nsep = psf_sep_count(p);
        double *c = malloc(v * v * sizeof *c), *ct = malloc(v * np * sizeof *ct);
        double *sum = calloc(nsep, sizeof *sum), *want = calloc(nsep, sizeof *want), most = 0;
        for (size_t i = 0; i < v * v; i++)
            c[i] = case_random(-1, 1);
        for (size_t i = 0; i < v * np; i++)
            ct[i] = case_random(-1, 1);
        double *z = pairs_of(&s, np, x, y, c, ct);
        const int side = (int)(sqrt((double)nsep) + 0.5), half = side / 2;
        const double h = s.diameter / half;
        for (size_t i = 0; i < np; i++)
            for (size_t j = 0; j < np; j++) {
                const int dj = (int)lround((y[j] - y[i]) / h);
                const int di = (int)floor((x[j] - x[i]) / h + (dj & 1 ? 0 : 0.5) + 1e-6);
                assert_true(fabs(y[j] - y[i] - dj * h) < 1e-9);
                assert_true(fabs(x[j] - x[i] - (di + (dj & 1 ? 0.5 : 0)) * h) < 1e-9);
                want[(dj + half) * side + di + half] += 4 * (z[i + i * np] - z[j + i * np]);
            }
        for (size_t a0 = 0, na; a0 < v; a0 += na) { /* rows in slices, each with its own spacing */
            na = v - a0 < 17 ? v - a0 : 17;
            double *slice = malloc((na + 2) * v * sizeof *slice);
            double *part = malloc((na + 1) * np * sizeof *part);
            for (size_t b = 0; b < v; b++)
                memcpy(slice + b * (na + 2), c + a0 + b * v, na * sizeof *slice);
            for (size_t i = 0; i < np; i++)
                memcpy(part + i * (na + 1), ct + a0 + i * v, na * sizeof *part);
            case_ok(psf_accumulate_phase(p, a0, na, slice, na + 2, part, na + 1, sum, NULL));
            free(slice);
            free(part);
        }
        for (size_t i = 0; i < nsep; i++)
            most = fmax(most, fabs(want[i]));
        for (size_t i = 0; i < nsep; i++)
            if (!(fabs(sum[i] - want[i]) <= 1e-12 * most))
                fail_msg("turn %d, place %zu: %.17g, expected %.17g", turn, i, sum[i], want[i]);
        free(z);
        free(c);
        free(ct);
        free(sum);
        free(want);
        psf_free(p);
        sys_free(&s);
    }
}

/* A mirror at rest leaves the turbulence: OTF_tel exp(-D/2), exact at every separation of the grid,
 * with D under an outer scale and without, for grids finer and coarser than the lattice. */
static void test_mirror_at_rest(void **state) {
    (void)state;
    const double layer[][5] = {{0, 20, 4, 0, 0}, {5000, INFINITY, 2, 0, 0}, {9000, 20, 1, 0, 0}};
    for (int k = 2; k <= 5; k++) {
        sys s;
        psf *p;
        psf_fit *rest;
        profile prof;
        mirror_of(8, 4, 0.2, 0.2, k, &s, &p);
        case_profile(3, layer, &prof);
        double *sum = calloc(psf_sep_count(p), sizeof *sum), ee[1], variance = 0, pairs = 0;
        const double *x, *y;
        const size_t np = psf_points(p, &x, &y);
        psf_result r = {.ee = ee};
        case_ok(psf_rest_init(p, &prof, &rest));
        case_ok(psf_phase_common(p, &prof, sum));
        case_ok(psf_compute(p, sum, rest, 0, &r));
        double strehl = 0, tel = 0, pixel = psf_grid_pixel(p);
        const double R = 2, c = 0.4;
        for (int u = 1 - 8 * k; u < 8 * k; u++)
            for (int v = 1 - 8 * k; v < 8 * k; v++) {
                double rho = hypot(u, v) * pixel, area = 0, d = 0;
                if (rho >= 4)
                    continue;
                for (int i = 0; i < 3; i++) { /* overlaps of the discs */
                    double a = i == 2 ? c : R, b = i == 0 ? R : c, t;
                    if (rho <= a - b)
                        t = M_PI * b * b;
                    else if (rho >= a + b)
                        t = 0;
                    else {
                        double ca = acos((rho * rho + a * a - b * b) / (2 * rho * a));
                        double cb = acos((rho * rho + b * b - a * a) / (2 * rho * b));
                        t = a * a * (ca - sin(ca) * cos(ca)) + b * b * (cb - sin(cb) * cos(cb));
                    }
                    area += i == 1 ? -2 * t : t;
                }
                for (int l = 0; l < 3; l++)
                    d += formula_structure(prof.strength[l], prof.L0[l], rho);
                tel += area;
                strehl += area * exp(-0.5 * d * pow(500e-9 / 2.2e-6, 2));
            }
        for (size_t i = 0; i < np; i++)
            for (size_t j = 0; j < np; j++, pairs++)
                for (int l = 0; l < 3; l++)
                    variance += 0.5 * pow(500e-9 / 2.2e-6, 2) *
                                formula_structure(prof.strength[l], prof.L0[l],
                                                  hypot(x[i] - x[j], y[i] - y[j]));
        print_message("k %d: Strehl ratio %.9f, expected %.9f; variance %.9f, expected %.9f\n", k,
                      r.strehl, strehl / tel, r.variance, variance / pairs);
        assert_true(fabs(r.strehl / (strehl / tel) - 1) < 1e-5);
        assert_true(fabs(r.variance / (variance / pairs) - 1) < 1e-12);
        free(sum);
        psf_fit_free(rest);
        psf_free(p);
        case_profile_free(&prof);
        sys_free(&s);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phase_slopes), cmocka_unit_test(test_mean_gradients),
        cmocka_unit_test(test_slopes_are_differences), cmocka_unit_test(test_sums_over_pairs),
        cmocka_unit_test(test_mirror_at_rest)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_SELF, &world);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
