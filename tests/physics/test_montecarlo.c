/* Covariances of slopes against random plane waves drawn from the power spectrum of the turbulence
 * and sampled at the edges of the subapertures: nothing is shared with the program but the validity
 * of subapertures. The geometry is asymmetric in everything; reversing any one thing in the plane
 * waves' geometry must be noticed. timeout: 240 */
#include "support/matcov_case.h"

#include <cblas.h>
#include <mpi.h>

#define WAVES 120000
#define PI 3.14159265358979324

static comm world;

/* Things that are reversed in the plane waves' geometry. */
enum { AS_IS, ROTATION, SHIFT, WIND, CONE, XY_ORDER, MAGNIFICATION, DIRECTION, REVERSALS };
static const char *const reversal_name[REVERSALS] = {
    "nothing",       "rotation", "shift", "wind", "cone", "the order of x and y",
    "magnification", "direction"};

static const case_sensor sensors[] = {{4, {25, 10}, 20000, 1, 0, {0}, 0},
                                      {4, {-20, 15}, 26000, 1.06, 0.25, {0.25, -0.15}, 0},
                                      {5, {-10, -30}, INFINITY, 0.95, -0.2, {-0.2, 0.1}, 10},
                                      {4, {15, -20}, INFINITY, 1, 0, {0}, 10}};
static const double layer[3][5] = {
    {0, 15, 25, 9, -4}, {4000, 30, 15, -6, 12}, {9000, 10, 12, 14, 10}};
static const double target[2] = {CASE_ARCSEC(8), CASE_ARCSEC(-5)};

static double random01(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0;
}

/* One sensor's two edge points of every slope on a layer, in the order of its slopes:
 * e[slope][edge][x or y]; moved: by a vector [m]. */
static void edges_on_layer(const sys *s, const sensor *o, double h, int reversed,
                           const double moved[2], double (*e)[2][2]) {
    double d = s->diameter / o->nssp, turn = (reversed == ROTATION ? -1 : 1) * o->rot;
    double cone = reversed == CONE ? 1 + h / o->altitude : 1 - h / o->altitude;
    double shift = reversed == SHIFT ? -1 : 1, look = reversed == DIRECTION ? -1 : 1;
    double mag = reversed == MAGNIFICATION ? 1 / o->mag : o->mag;
    for (int axis = 0; axis < 2; axis++)
        for (int k = 0; k < o->nsub; k++) {
            int slot = reversed == XY_ORDER ? 1 - axis : axis;
            for (int edge = 0; edge < 2; edge++) {
                double x = (o->sub[k] % o->nssp + 0.5) * d - s->diameter / 2;
                double y = (o->sub[k] / o->nssp + 0.5) * d - s->diameter / 2;
                double *p = e[slot * o->nsub + k][edge];
                *(axis == 0 ? &x : &y) += edge == 0 ? -d / 2 : d / 2;
                p[0] = (mag * (cos(turn) * x - sin(turn) * y) + shift * o->shift[0]) * cone +
                       look * o->dir[0] * h + moved[0];
                p[1] = (mag * (sin(turn) * x + cos(turn) * y) + shift * o->shift[1]) * cone +
                       look * o->dir[1] * h + moved[1];
            }
        }
}

/* Edge points of the truth sensor's slopes at rest, of those shifted by the wind, and of all
 * sensors' slopes. */
static void edges_of_all(const sys *s, int l, int reversed, double (*e)[2][2]) {
    double wind = reversed == WIND ? -s->delay : s->delay;
    double at_rest[2] = {0, 0}, moved[2] = {-layer[l][3] * wind, -layer[l][4] * wind};
    sensor ts = s->ts;
    memcpy(ts.dir, target, sizeof target);
    /* the target's own direction is not what is reversed */
    edges_on_layer(s, &ts, layer[l][0], reversed == DIRECTION ? AS_IS : reversed, at_rest, e);
    edges_on_layer(s, &ts, layer[l][0], reversed == DIRECTION ? AS_IS : reversed, moved, e + s->t);
    for (int w = 0; w < s->nsensor; w++)
        edges_on_layer(s, &s->sensors[w], layer[l][0], reversed, at_rest,
                       e + 2 * s->t + s->sensors[w].first);
}

/* Slopes [arcsec] over the size of each sensor's subapertures per radian of phase difference. */
static void scales(const sys *s, double *scale) {
    double unit = 500e-9 / (2 * PI) * 206264.80624709636;
    for (size_t i = 0; i < 2 * s->t; i++)
        scale[i] = unit / (s->diameter / s->ts.nssp);
    for (size_t i = 0; i < s->m; i++) {
        int w, axis, k;
        sys_slope_at(s, i, &w, &axis, &k);
        scale[2 * s->t + i] = unit / (s->sensors[w].mag * s->diameter / s->sensors[w].nssp);
    }
}

/* Joint covariance of (truth sensor, shifted truth sensor, sensors), n x n lower triangle: the
 * spectrum W(f) = 0.0229 r0^(-5/3) (f^2 + L0^-2)^(-11/6) integrated over plane waves of random
 * direction and of random wave number, stratified in its logarithm. */
static void draw_covariance(const sys *s, int reversed, int waves, size_t n, double *c) {
    enum { batch = 64 };
    const double f0 = 1e-3, f1 = 100, range = log(f1 / f0);
    double(*e)[2][2] = calloc(n, sizeof *e), *a = calloc(2 * batch * n, sizeof *a),
    *scale = calloc(n, sizeof *scale);
    uint64_t seed = 20240229;
    memset(c, 0, n * n * sizeof *c);
    scales(s, scale);
    for (int l = 0; l < 3; l++) {
        edges_of_all(s, l, reversed, e);
        for (int i = 0; i < waves; i++) {
            double f = f0 * exp(range * (i + random01(&seed)) / waves),
                   angle = 2 * PI * random01(&seed);
            double fx = f * cos(angle), fy = f * sin(angle);
            double power =
                0.02289558710855518 * layer[l][2] * pow(f * f + pow(layer[l][1], -2), -11. / 6);
            double weight = sqrt(power * 2 * PI * f * f * range / waves);
            double *re = a + 2 * (size_t)(i % batch) * n, *im = re + n;
            for (size_t k = 0; k < n; k++) {
                double minus = 2 * PI * (fx * e[k][0][0] + fy * e[k][0][1]);
                double plus = 2 * PI * (fx * e[k][1][0] + fy * e[k][1][1]);
                re[k] = weight * scale[k] * (cos(plus) - cos(minus));
                im[k] = weight * scale[k] * (sin(plus) - sin(minus));
            }
            if (i % batch == batch - 1 || i == waves - 1)
                cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, (int)n, 2 * (i % batch + 1), 1,
                            a, (int)n, 1, c, (int)n);
        }
    }
    free(e);
    free(a);
    free(scale);
}

typedef struct {
    double *cmm, *ctm, *ctt, *r; /* Cmm without noise; r: reconstructor t x m of some noise */
} matrices;

/* X = B A^-1 in place of B (t x m): A = L L' (m x m, overwritten), then the two triangular solves.
 */
static void solve(size_t t, size_t m, double *a, double *b) {
    for (size_t j = 0; j < m; j++) {
        for (size_t k = 0; k < j; k++)
            for (size_t i = j; i < m; i++)
                a[i + j * m] -= a[i + k * m] * a[j + k * m];
        assert_true(a[j + j * m] > 0);
        double d = sqrt(a[j + j * m]);
        for (size_t i = j; i < m; i++)
            a[i + j * m] /= d;
    }
    cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)t, (int)m, 1,
                a, (int)m, b, (int)t);
    cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, (int)t, (int)m,
                1, a, (int)m, b, (int)t);
}

static void program_matrices(const sys *s, const profile *p, matrices *x) {
    matcov *mc;
    matcov_target *mt;
    size_t m = s->m, t = s->t;
    double *noisy = malloc(m * m * sizeof(double));
    x->cmm = malloc(m * m * sizeof(double));
    x->ctm = malloc(t * m * sizeof(double));
    x->r = malloc(t * m * sizeof(double));
    x->ctt = malloc(t * t * sizeof(double));
    case_ok(matcov_init(&world, s, p, &mc));
    case_ok(matcov_fill_cmm(mc, 0, m, 0, m, x->cmm, m));
    case_ok(matcov_fill_ctt(mc, 0, t, 0, t, x->ctt, t));
    case_ok(matcov_target_init(mc, target, true, &mt));
    case_ok(matcov_fill_ctm(mt, 0, m, x->ctm, t));
    matcov_target_free(mt);
    case_ok(matcov_target_init(mc, target, false, &mt));
    case_ok(matcov_fill_ctm(mt, 0, m, x->r, t));
    matcov_target_free(mt);
    matcov_free(mc);
    memcpy(noisy, x->cmm, m * m * sizeof(double));
    for (size_t i = 0; i < m; i++)
        noisy[i + i * m] += 0.002;
    solve(t, m, noisy, x->r);
    free(noisy);
}

static void free_matrices(matrices *x) {
    free(x->cmm);
    free(x->ctm);
    free(x->ctt);
    free(x->r);
}

/* Difference of an nr x nc matrix from a part of the joint covariance, relative, in the Frobenius
 * norm. */
static double distance(size_t nr, size_t nc, const double *a, const double *c, size_t n, size_t i0,
                       size_t j0) {
    double difference = 0, norm = 0;
    for (size_t j = 0; j < nc; j++)
        for (size_t i = 0; i < nr; i++) {
            size_t row = i0 + i > j0 + j ? i0 + i : j0 + j, col = i0 + i > j0 + j ? j0 + j : i0 + i;
            double want = c[row + col * n];
            difference += (a[i + j * nr] - want) * (a[i + j * nr] - want);
            norm += want * want;
        }
    return sqrt(difference / norm);
}

/* Cee = Ctt - Ctm R' - R Ctm' + R Cmm R' (t x t), noise left out; of Ctt and Cmm the lower
 * triangles count. */
static double *residual(size_t t, size_t m, const double *ctt, const double *ctm, const double *cmm,
                        const double *r) {
    int nt = (int)t, nm = (int)m;
    double *half = calloc(t * m, sizeof *half), *cee = calloc(t * t, sizeof *cee);
    cblas_dsymm(CblasColMajor, CblasRight, CblasLower, nt, nm, 0.5, cmm, nm, r, nt, 0, half, nt);
    for (size_t i = 0; i < t * m; i++)
        half[i] -= ctm[i];
    for (size_t j = 0; j < t; j++)
        for (size_t i = 0; i < t; i++)
            cee[i + j * t] = i > j ? ctt[i + j * t] : ctt[j + i * t];
    cblas_dsyr2k(CblasColMajor, CblasLower, CblasNoTrans, nt, nm, 1, half, nt, r, nt, 1, cee, nt);
    free(half);
    return cee;
}

/* The same of the joint covariance: its parts copied out. */
static double *residual_of_joint(size_t t, size_t m, const double *c, const double *r) {
    size_t n = 2 * t + m;
    double *ctt = calloc(t * t, sizeof *ctt), *ctm = calloc(t * m, sizeof *ctm),
           *cmm = calloc(m * m, sizeof *cmm);
    for (size_t j = 0; j < t; j++)
        for (size_t i = j; i < t; i++)
            ctt[i + j * t] = c[i + j * n];
    for (size_t j = 0; j < m; j++) {
        for (size_t i = 0; i < t; i++)
            ctm[i + j * t] = c[2 * t + j + (t + i) * n];
        for (size_t i = j; i < m; i++)
            cmm[i + j * m] = c[2 * t + i + (2 * t + j) * n];
    }
    double *cee = residual(t, m, ctt, ctm, cmm, r);
    free(ctt);
    free(ctm);
    free(cmm);
    return cee;
}

typedef struct {
    double cmm, ctm, ctt, cee; /* relative differences */
} distances;

static distances compare(const sys *s, const matrices *x, int reversed, int waves) {
    size_t m = s->m, t = s->t, n = 2 * t + m;
    double *c = malloc(n * n * sizeof *c);
    draw_covariance(s, reversed, waves, n, c);
    distances d = {.cmm = distance(m, m, x->cmm, c, n, 2 * t, 2 * t),
                   .ctm = distance(t, m, x->ctm, c, n, t, 2 * t),
                   .ctt = distance(t, t, x->ctt, c, n, 0, 0)};
    double *want = residual_of_joint(t, m, c, x->r),
           *cee = residual(t, m, x->ctt, x->ctm, x->cmm, x->r);
    for (size_t j = 0; j < t; j++)
        for (size_t i = 0; i < j; i++)
            cee[i + j * t] = cee[j + i * t];
    d.cee = distance(t, t, cee, want, t, 0, 0);
    free(want);
    free(cee);
    free(c);
    print_message("%-22s reversed: Cmm %.4f Ctm %.4f Ctt %.4f Cee %.4f\n", reversal_name[reversed],
                  d.cmm, d.ctm, d.ctt, d.cee);
    return d;
}

/* twice what the number of waves leaves */
static const double tolerance = 0.02;

static bool agrees(const distances *d) {
    return d->cmm <= tolerance && d->ctm <= tolerance && d->ctt <= tolerance && d->cee <= tolerance;
}

static sys system_;
static profile profile_;
static matrices matrices_;

static int setup(void **state) {
    (void)state;
    case_sys(4, 0.2, 4, sizeof sensors / sizeof *sensors, sensors, &system_);
    system_.delay = 0.05;
    for (int w = 0; w < system_.nsensor; w++)
        system_.sensors[w].noise.variance = system_.sensors[w].noise.tiptilt = 0;
    case_profile(3, layer, &profile_);
    program_matrices(&system_, &profile_, &matrices_);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    free_matrices(&matrices_);
    case_profile_free(&profile_);
    sys_free(&system_);
    return 0;
}

/* The program's matrices and the residual covariance of its reconstructor are those of the plane
 * waves. */
static void test_agrees(void **state) {
    (void)state;
    distances d = compare(&system_, &matrices_, AS_IS, WAVES);
    assert_true(agrees(&d));
}

/* With any one thing reversed in the plane waves' geometry the comparison fails, by a factor of 2
 * at least. */
static void test_reversals(void **state) {
    (void)state;
    for (int r = AS_IS + 1; r < REVERSALS; r++) {
        distances d = compare(&system_, &matrices_, r, WAVES / 4);
        if (!(fmax(d.cmm, d.ctm) > 2 * tolerance && d.cee > 2 * tolerance))
            fail_msg("reversing %s goes unnoticed", reversal_name[r]);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_agrees),
                                       cmocka_unit_test(test_reversals)};
    MPI_Init(&argc, &argv);
    comm_init(MPI_COMM_SELF, &world);
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
