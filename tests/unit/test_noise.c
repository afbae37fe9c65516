/* Noise covariances of the sensors and the laser stars' tip-tilt constant against figures worked
 * out here. */
#include "matcov/formula.h"
#include "support/matcov_case.h"

#include <malloc.h>
#include <mpi.h>
#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void); /* not every gcc ships its header */
#endif

static comm world;

static const case_sensor stars[] = {{5, {0, 0}, 88000, 1.02, 0.4, {0.03, -0.1}, 0},
                                    {5, {20, -10}, 95000, 1, 0, {0}, 0},
                                    {6, {30, 5}, INFINITY, 1, 0.2, {0}, 12.5}};
enum { N = 3 };
static const double no_layer[1][5] = {{0, 25, 0, 0, 0}};

static void expect_close(double got, double want, double unit, const char *what) {
    if (!(fabs(got - want) <= 1e-12 * unit))
        fail_msg("%s is %.17g, expected %.17g", what, got, want);
}

/* Cmm of a profile without turbulence, whose r0 is set all the same: noise and tip-tilt constants
 * alone. */
static double *noise_matrix(const sys *s, double r0) {
    profile p;
    matcov *mc;
    case_profile(1, no_layer, &p);
    p.r0 = r0;
    case_ok(matcov_init(&world, s, &p, &mc));
    double *a = calloc(s->m * s->m, sizeof *a);
    case_ok(matcov_fill_cmm(mc, 0, s->m, 0, s->m, a, s->m));
    matcov_free(mc);
    case_profile_free(&p);
    return a;
}

/* A natural star of magnitude 12.5 by hand: flux, seeing at its wavelength, photon and read-out
 * noise; the same for every subaperture, x and y uncorrelated, and nothing between subapertures. */
static void test_natural_star(void **state) {
    (void)state;
    sys s;
    case_sys(6, 0, 6, N, stars, &s);
    double *a = noise_matrix(&s, 0.1);
    const sensor *o = &s.sensors[2];
    double flux = pow(10, 2.9 - 0.4 * 12.5) * 0.425 * 1 * 0.004 * 3300 * 1e4;
    double seeing = 206264.80624709636 * 500e-9 / 0.1 * pow(500. / 650, 0.2);
    double want = 0.32 / flux * seeing * seeing + 0.82 * pow(3 / (flux * 0.3), 2) * pow(seeing, 4);
    for (size_t j = o->first; j < s.m; j++)
        for (size_t i = o->first; i < s.m; i++)
            expect_close(a[i + j * s.m], i == j ? want : 0, want, "noise of a natural star");
    free(a);
    sys_free(&s);
}

/* What people quote is the mean of what enters the matrix. */
static void test_figures(void **state) {
    (void)state;
    sys s;
    noise_figures f;
    case_sys(6, 0, 6, N, stars, &s);
    for (int w = 0; w < s.nsensor; w++)
        s.sensors[w].noise.tiptilt = 0;
    double *a = noise_matrix(&s, 0.1);
    profile p;
    case_profile(1, no_layer, &p);
    p.r0 = 0.1;
    for (int w = 0; w < s.nsensor; w++) {
        const sensor *o = &s.sensors[w];
        double sum = 0;
        for (size_t i = 0; i < 2 * (size_t)o->nsub; i++)
            sum += a[(o->first + i) * (s.m + 1)] / (2 * o->nsub);
        matcov_noise_figures(&s, &p, w, &f);
        expect_close(f.variance, sum, sum, "mean variance of the noise");
        assert_true(o->lgs ? f.along > 1.01 * f.across : f.along == f.across);
    }
    matcov_noise_figures(&s, &p, 2, &f);
    expect_close(f.photons, pow(10, 2.9 - 0.4 * 12.5) * 0.425 * 1 * 0.004 * 3300 * 1e4, f.photons,
                 "photons");
    expect_close(f.across, 206264.80624709636 * 500e-9 / 0.1 * pow(500. / 650, 0.2), f.across,
                 "spot");
    s.sensors[2].noise.variance = 0.25;
    matcov_noise_figures(&s, &p, 2, &f);
    assert_true(f.variance == 0.25 && isnan(f.photons) && isnan(f.across));
    case_profile_free(&p);
    free(a);
    sys_free(&s);
}

/* A laser star: the covariance of each subaperture as a tensor along and across the vector from the
 * launch point to its registered position, turned into the axes of the rotated sensor. */
static void test_laser_star(void **state) {
    (void)state;
    sys s;
    case_sys(6, 0.3, 6, N, stars, &s);
    s.zenith = 0.5;
    case_ok(sys_derive(&s));
    for (int w = 0; w < 2; w++)
        s.sensors[w].noise.tiptilt = 0;
    s.sensors[0].noise.launch[0] = -4;
    s.sensors[0].noise.launch[1] = 1.5;
    double *a = noise_matrix(&s, 0.14), largest = 0;
    for (int w = 0; w < 2; w++) {
        const sensor *o = &s.sensors[w];
        size_t n = (size_t)o->nsub;
        double d = 6. / 5, flux = 7e6 * 0.004 * d * d * 0.382 / 0.84;
        double seeing = 206264.80624709636 * 500e-9 / 0.14 * pow(500. / 589, 0.2),
               width2 = seeing * seeing + 1;
        for (size_t k = 0; k < n; k++) {
            double x = (o->sub[k] % 5 - 2) * d, y = (o->sub[k] / 5 - 2) * d, c = cos(o->rot),
                   e = sin(o->rot);
            double b[2] = {o->mag * (c * x - e * y) + o->shift[0] - o->noise.launch[0],
                           o->mag * (e * x + c * y) + o->shift[1] - o->noise.launch[1]};
            double b2 = b[0] * b[0] + b[1] * b[1], z = o->altitude;
            double elongation = 206264.80624709636 * 5000 / cos(0.5) * sqrt(b2) / (z * z);
            double along2 = width2 + elongation * elongation, ron = pow(3 / flux, 2);
            double va = 0.32 / flux * along2 + 0.82 * ron * pow(along2, 1.5) * sqrt(width2);
            double vc = 0.32 / flux * width2 + 0.82 * ron * pow(width2, 1.5) * sqrt(along2);
            double t[2][2], axis[2][2] = {{c, e}, {-e, c}}, got[2][2];
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    t[i][j] = vc * (i == j) + (va - vc) * b[i] * b[j] / b2;
            size_t at[2] = {o->first + k, o->first + n + k};
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++) {
                    double want = 0;
                    for (int p = 0; p < 2; p++)
                        for (int q = 0; q < 2; q++)
                            want += axis[i][p] * t[p][q] * axis[j][q];
                    got[i][j] = a[at[i] + at[j] * s.m];
                    expect_close(got[i][j], want, va, "noise of a laser star");
                }
            largest = fmax(largest, fabs(got[0][1]) / va);
        }
    }
    assert_true(largest > 0.01); /* the case does exercise xy */
    free(a);
    sys_free(&s);
}

/* Tip-tilt constants: on all xx and all yy of a laser star and nowhere else; as given, or ten times
 * the slope variance k sum D(size on the layer) of the sensor, layers above the star left out. A
 * given variance replaces the noise model. */
static void test_tiptilt(void **state) {
    (void)state;
    sys s;
    profile p;
    matcov *mc;
    const double layer[3][5] = {
        {0, 25, 30, 0, 0}, {20000, INFINITY, 8, 0, 0}, {89000, 25, 8, 0, 0}};
    case_sys(6, 0.3, 6, N, stars, &s);
    for (int w = 0; w < N; w++)
        s.sensors[w].noise.variance = 0.125;
    s.sensors[1].noise.tiptilt = 3;
    case_profile(3, layer, &p);
    case_ok(matcov_init(&world, &s, &p, &mc));
    double *a = calloc(s.m * s.m, sizeof *a), d = 1.02 * 6 / 5;
    case_ok(matcov_fill_cmm(mc, 0, s.m, 0, s.m, a, s.m));
    double k = pow(500e-9 / (2 * 3.14159265358979324) * 206264.80624709636 / d, 2);
    double first =
        10 * k *
        (formula_structure(30, 25, d) + formula_structure(8, INFINITY, d * (1 - 20. / 88)));
    for (size_t j = 0; j < s.m; j++)
        for (size_t i = 0; i < s.m; i++) {
            int w, v, wa, va, wi, vi;
            sys_slope_at(&s, i, &w, &wa, &wi);
            sys_slope_at(&s, j, &v, &va, &vi);
            double want = matcov_direct_cmm(&s, &p, i, j) + (i == j ? 0.125 : 0);
            if (w == v && wa == va)
                want += (double[]){first, 3, 0}[w];
            if (!(fabs(a[i + j * s.m] - want) <= 1e-10 * first))
                fail_msg("Cmm(%zu, %zu) is %.17g, expected %.17g", i, j, a[i + j * s.m], want);
        }
    free(a);
    matcov_free(mc);
    case_profile_free(&p);
    sys_free(&s);
}

/* Noise that is not finite is refused with the sensor's name; r0 = infinity leaves the spot's own
 * width. */
static void test_limits(void **state) {
    (void)state;
    sys s;
    profile p;
    matcov *mc;
    case_sys(6, 0.3, 6, N, stars, &s);
    double *a = noise_matrix(&s, INFINITY);
    size_t ngs = s.sensors[2].first;
    assert_true(a[0] > 0 && isfinite(a[0]));
    assert_true(a[ngs + ngs * s.m] == 0);
    free(a);
    case_profile(1, no_layer, &p);
    s.sensors[2].noise.throughput = 0;
    assert_int_equal(matcov_init(&world, &s, &p, &mc), MOAO_NUMERIC);
    assert_non_null(strstr(status_message(), "S2"));
    assert_null(mc);
    status_clear();
    case_profile_free(&p);
    sys_free(&s);
}

static size_t allocated(void) {
#ifdef __SANITIZE_ADDRESS__
    return __sanitizer_get_current_allocated_bytes();
#else
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#endif
}

static void expect_bytes(size_t got, size_t planned) {
    if (!(fabs((double)got - (double)planned) <= 0.02 * (double)planned + 8192))
        fail_msg("planned %zu bytes, allocated %zu", planned, got);
}

/* Profiles with the same layers share the tables of mean gradients; the planned ones are bounds. */
static void test_shared_bytes(void **state) {
    (void)state;
    static const case_sensor large[] = {{30, {10, 0}, INFINITY, 1, 0, {0}, 9},
                                        {20, {7, 5}, INFINITY, 1, 0, {0}, 9}};
    const double layer[2][2][5] = {{{0, 25, 30, 0, 0}, {9000, 25, 8, 0, 0}},
                                   {{0, 25, 30, 0, 0}, {9000, 26, 8, 0, 0}}};
    const size_t any = 4096;
    matcov_sizes z;
    sys s;
    profile p[2];
    matcov *held, *next;
    case_sys(30, 0.3, 40, 2, large, &s);
    s.ts.gradient = s.sensors[0].gradient = s.sensors[1].gradient = true;
    for (int i = 0; i < 2; i++)
        case_profile(2, layer[i], &p[i]);
    case_ok(matcov_init(&world, &s, &p[0], &held)); /* threads make their allocations */
    matcov_free(held);
    case_ok(matcov_init(&world, &s, &p[0], &held));
    case_ok(matcov_count(&s, 2, &z));
    const size_t one = matcov_bytes(&s, &z), lattice_pairs = matcov_held_bytes(&s, &z, 1),
                 unlike = matcov_held_bytes(&s, &z, 2);
    assert_true(lattice_pairs < unlike && unlike <= 2 * one);
    size_t before = allocated();
    case_ok(matcov_init(&world, &s, &p[0], &next));
    expect_bytes(allocated() - before, lattice_pairs - one);
    matcov_free(next);
    before = allocated();
    case_ok(matcov_init(&world, &s, &p[1], &next));
    const size_t more = allocated() - before;
    if (more > one + any || more < lattice_pairs - one + (unlike - lattice_pairs) / 2)
        fail_msg("planned %zu bytes, %zu of them own, allocated %zu", one, lattice_pairs - one,
                 more);
    matcov_free(next);
    matcov_free(held);
    for (int i = 0; i < 2; i++)
        case_profile_free(&p[i]);
    sys_free(&s);
}

/* The planned memory is what is allocated, to 2 %, where the tables count (large) and where they do
 * not. */
static void test_bytes(void **state) {
    (void)state;
    static const case_sensor large[] = {
        {30, {10, 0}, 9e4, 1, 0, {0}, 0},     {30, {-10, 0}, 9e4, 1, 0, {0}, 0},
        {40, {0, 9}, 9e4, 1, 0, {0}, 0},      {40, {0, 5}, INFINITY, 1, 0, {0}, 9},
        {20, {7, 5}, INFINITY, 1, 0, {0}, 9}, {37, {7, 5}, INFINITY, 1, 0, {0}, 9}};
    const double layer[2][5] = {{0, 25, 30, 0, 0}, {9000, 25, 8, 0, 0}};
    for (int big = 0; big < 2; big++) {
        sys s;
        profile p;
        matcov *mc;
        matcov_target *mt;
        matcov_sizes z;
        case_sys(30, 0.3, big ? 40 : 6, big ? 6 : N, big ? large : stars, &s);
        case_profile(2, layer, &p);
        case_ok(
            matcov_init(&world, &s, &p, &mc)); /* threads and libraries make their allocations */
        matcov_free(mc);
        size_t before = allocated();
        case_ok(matcov_init(&world, &s, &p, &mc));
        size_t after = allocated();
        case_ok(matcov_count(&s, p.nlayer, &z));
        expect_bytes(after - before, matcov_bytes(&s, &z));
        case_ok(matcov_target_init(mc, (double[2]){1e-5, 2e-5}, true, &mt));
        expect_bytes(allocated() - after, matcov_target_bytes(&z));
        matcov_target_free(mt);
        matcov_free(mc);
        case_profile_free(&p);
        sys_free(&s);
    }
}

/* Spots of seeing, diffraction and pixel by hand: of 80 subapertures on 8 m at 0.65 um under r0
 * 12.5 cm the variance of photon noise is four times that of the published spot. */
static void test_full_spot(void **state) {
    (void)state;
    static const case_sensor star = {80, {0, 0}, INFINITY, 1, 0, {0}, 0};
    sys s;
    profile p;
    noise_figures f[2];
    case_sys(8, 0, 80, 1, &star, &s);
    case_profile(1, no_layer, &p);
    p.r0 = 0.125;
    sensor_noise *n = &s.sensors[0].noise;
    n->ron = 0;
    for (int full = 0; full < 2; full++) {
        n->full_spot = full;
        matcov_noise_figures(&s, &p, 0, &f[full]);
    }
    const double lambda = 650e-9, r0 = 0.125 * pow(650. / 500, 1.2);
    const double seeing = 0.976 * lambda / r0, diffraction = lambda / 0.1,
                 pixel2 = pow(0.3 / 206264.80624709636, 2) * 8 * log(2) / 12;
    const double want =
        206264.80624709636 * sqrt(seeing * seeing + diffraction * diffraction + pixel2);
    expect_close(f[1].across, want, want, "spot");
    /* 0.764 arcsec of seeing, 1.341 of diffraction, 0.204 of the pixel, against 0.783 */
    assert_true(fabs(f[1].across - 1.557) < 1e-3);
    assert_true(fabs(f[1].variance / f[0].variance - 3.95) < 0.02);
    case_profile_free(&p);
    sys_free(&s);
}

/* A field stop cuts a Gaussian along both axes: its light and variance by quadrature. */
static void test_field_stop(void **state) {
    (void)state;
    for (double field = 0.002; field < 20; field *= 3) {
        const double sigma = 1.7 / sqrt(8 * log(2));
        const int steps = 20000;
        double width = 1.7, light = 0, second = 0;
        for (int i = 0; i < steps; i++) {
            const double x = field * ((i + 0.5) / steps - 0.5),
                         g = exp(-0.5 * x * x / (sigma * sigma)) / (sigma * sqrt(2 * M_PI));
            light += g * field / steps;
            second += g * x * x * field / steps;
        }
        const double kept = formula_stop(field, &width);
        assert_true(fabs(kept / light - 1) < 1e-7);
        const double ratio = width / sqrt(8 * log(2) * second / light);
        if (!(fabs(ratio - 1) < 1e-6))
            fail_msg("a field of %g: width is %.9g times that by quadrature", field, ratio);
    }
}

/* Photons are those within the stop; a spot that is longer than it is cut to about its size. */
static void test_truncated_spots(void **state) {
    (void)state;
    sys s;
    profile p;
    noise_figures f, cut;
    case_sys(6, 0.3, 6, N, stars, &s);
    case_profile(1, no_layer, &p);
    p.r0 = 0.14;
    s.sensors[1].noise.launch[0] = -400; /* an elongation of tens of arcsec */
    matcov_noise_figures(&s, &p, 1, &f);
    s.sensors[1].noise.field_stop = 3 / 206264.80624709636;
    matcov_noise_figures(&s, &p, 1, &cut);
    assert_true(f.along > 30 && cut.along < 3 * sqrt(8 * log(2) / 12) && cut.along > 2);
    assert_true(cut.across < f.across && cut.photons < 3 / f.along * f.photons);
    case_profile_free(&p);
    sys_free(&s);
}

/* Gaussian spots, excess noise, sky, and what the atmosphere takes at 60 degrees, by hand. */
static void test_light(void **state) {
    (void)state;
    sys s;
    noise_figures f;
    profile p;
    case_sys(6, 0, 6, N, stars, &s);
    case_profile(1, no_layer, &p);
    p.r0 = 0.1;
    sensor_noise *n = &s.sensors[2].noise;
    double light = 0.425 * 1 * 0.004 * 3300 * 1e4, flux = pow(10, 2.9 - 0.4 * 12.5) * light;
    double seeing = 206264.80624709636 * 500e-9 / 0.1 * pow(500. / 650, 0.2);
    n->gaussian = n->has_sky = true;
    n->excess = 2;
    n->background = 1.5;
    n->sky = 17;
    double sky = pow(10, 2.9 - 0.4 * 17) * light * 0.3 * 0.3;
    matcov_noise_figures(&s, &p, 2, &f);
    double width = seeing / sqrt(8 * log(2)); /* standard deviation of the spot */
    double want = 2 * width * width / flux +
                  0.82 * (9 + 2 * (1.5 + sky)) / pow(flux * 0.3, 2) * pow(seeing, 4);
    expect_close(f.variance, want, want, "Gaussian spot on a sky, by an EMCCD");
    assert_true(sky > 0.1);
    double laser = sys_photons(&s, &s.sensors[0]);
    s.airmass = 2; /* alone: the geometry stays */
    for (int w = 0; w < 3; w++)
        s.sensors[w].noise.extinct = true, s.sensors[w].noise.extinction = 0.3;
    expect_close(sys_photons(&s, &s.sensors[2]), flux * pow(10, -0.4 * 0.3), flux, "dimmed star");
    expect_close(sys_photons(&s, &s.sensors[0]), laser * pow(10, -0.8 * 0.3) / 2, laser,
                 "dimmed laser star");
    case_profile_free(&p);
    sys_free(&s);
}

/* Shares of the light: one subaperture has that of the whole annulus; those of finer sensors add up
 * to it where all are valid; a quarter of a disc; and mean gradients alone have fewer photons in
 * partly lit subapertures. */
static void test_shares(void **state) {
    (void)state;
    const double pi = 3.14159265358979323846, obs[] = {0, 0.3};
    for (int i = 0; i < 2; i++)
        for (int n = 1; n <= 2; n++) {
            sys s;
            const case_sensor one = {n, {0}, INFINITY, 1, 0, {0}, 9};
            double sum = 0, want = pi / 4 * (1 - obs[i] * obs[i]);
            case_sys(8, obs[i], 8, 1, &one, &s);
            assert_int_equal(s.sensors[0].nsub, n * n);
            for (int k = 0; k < n * n; k++)
                sum += sys_lit_share(&s, &s.sensors[0], k) / (n * n);
            expect_close(sum, want, want, "light of a sensor");
            sys_free(&s);
        }
    sys s;
    profile p;
    noise_figures f[2];
    const case_sensor ten = {10, {0}, INFINITY, 1, 0, {0}, 12};
    case_sys(8, 0.25, 8, 1, &ten, &s);
    case_profile(1, no_layer, &p);
    p.r0 = 0.1;
    for (int k = 0; k < 2; k++) {
        s.sensors[0].gradient = k;
        matcov_noise_figures(&s, &p, 0, &f[k]);
    }
    assert_true(f[1].variance > 1.05 * f[0].variance && f[1].photons == f[0].photons);
    double middle = 0;
    for (int k = 0; k < s.sensors[0].nsub; k++)
        middle = fmax(middle, sys_lit_share(&s, &s.sensors[0], k));
    expect_close(middle, 1, 1, "a wholly lit subaperture");
    case_profile_free(&p);
    sys_free(&s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_natural_star),    cmocka_unit_test(test_figures),
        cmocka_unit_test(test_laser_star),      cmocka_unit_test(test_tiptilt),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_shared_bytes),    cmocka_unit_test(test_light),
        cmocka_unit_test(test_full_spot),       cmocka_unit_test(test_field_stop),
        cmocka_unit_test(test_truncated_spots), cmocka_unit_test(test_shares)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_SELF, &world);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
