/* Pupils with spiders, segments and amplitude maps: areas, light, outlines and OTFs against points
 * that are counted here, published losses, and Monte Carlo of segments' errors. */
#include "support/psf_case.h"

#include "matcov/internal.h"
#include "psf/psf_plan.h"

/* A system on a pupil; one sensor of n subapertures. */
static sys system_on(double diameter, double obs, const pupil_opts *given, int n) {
    pupil_opts o = *given;
    sys s = {.diameter = diameter, .obs = obs, .nsensor = 1};
    o.diameter = diameter, o.obs = obs;
    o.min_light = 0.5;
    s.ts = (sensor){.nssp = 8, .mag = 1, .altitude = INFINITY, .gradient = true};
    s.dm = (dmirror){.nssp = 8, .coupling = 0.2, .mu = 3e-3};
    OK(ALLOC(s.sensors, 1, "sensor"));
    s.sensors[0] = (sensor){.nssp = n, .mag = 1, .altitude = INFINITY, .gradient = true};
    OK(pupil_init(&o, &s.pupil));
    OK(sys_derive(&s));
    return s;
}

typedef struct { /* spiders at equal angles, as the tests count them */
    double diameter, obs, width, first, offset;
    int number;
} spiders;

static bool lit(const spiders *k, double x, double y) {
    const double r = 2 * hypot(x, y) / k->diameter;
    if (r >= 1 || r < k->obs)
        return false;
    for (int i = 0; i < k->number; i++) {
        const double t = k->first + 2 * M_PI * i / k->number;
        if (x * cos(t) + y * sin(t) > 0 &&
            fabs(y * cos(t) - x * sin(t) - k->offset) < 0.5 * k->width)
            return false;
    }
    return true;
}

static sys spidered(const spiders *k, int n) {
    double angle[8], offset[8];
    for (int i = 0; i < k->number; i++) {
        angle[i] = k->first + 2 * M_PI * i / k->number;
        offset[i] = k->offset;
    }
    const pupil_opts o = {.nspider = k->number,
                          .spider_angle = angle,
                          .spider_offset = offset,
                          .spider_width = k->width};
    return system_on(k->diameter, k->obs, &o, n);
}

/* What spiders take of the peak of a diffraction-limited image: (1 - area/annulus)^2. */
static void test_published_losses(void **in) {
    (void)in;
    static const struct {
        spiders k;
        double loss;
    } all[] = {{{8, 0.14, 0.05, 0, 0, 4}, 0.028},
               {{38.5, 0.28, 0.5, 0.3, 0, 6}, 0.076},
               {{8, 0.14, 0.05, 0.4, 0, 4}, 0.028}};
    for (int i = 0; i < 3; i++) {
        const spiders *k = &all[i].k;
        const double length = 0.5 * k->diameter * (1 - k->obs);
        const double clear = M_PI / 4 * k->diameter * k->diameter * (1 - k->obs * k->obs);
        sys s = spidered(k, 10);
        CLOSE(sys_area(&s), clear - k->number * k->width * length, 2e-4);
        CLOSE(sys_peak(&s), pow(sys_area(&s) / clear, 2), 2e-4);
        NEAR(1 - sys_peak(&s), all[i].loss, 6e-4);
        sys_free(&s);
    }
}

/* Light of subapertures, which of them are used, and single points. */
static void test_light(void **in) {
    (void)in;
    static const spiders k = {8, 0.2, 0.3, 0.5, 0.2, 3}, whole = {8, 0.2, 0, 0, 0, 0};
    for (int n = 1; n <= 27; n += 13) {
        sys s = spidered(&k, n);
        const sensor *o = &s.sensors[0];
        const double d = k.diameter / n;
        for (int i = 0; i < o->nsub; i++) {
            const double x = d * (o->sub[i] % n) - 4, y = d * (o->sub[i] / n) - 4;
            int count = 0, apart = 0, all = 0;
            for (int j = 0; j < 200 * 200; j++) {
                const double px = x + d * (j % 200 + 0.5) / 200, py = y + d * (j / 200 + 0.5) / 200;
                const bool in_light = lit(&k, px, py);
                count += in_light;
                all += lit(&whole, px, py);
                apart += in_light != sys_is_lit(&s, px, py);
            }
            assert_true(apart < 3);
            NEAR(sys_lit_share(&s, o, i), count / 4e4, 3e-3);
            assert_true(count > 0.49 * all || n == 1);
            assert_true(sys_is_whole(&s, o, i) ? count == 40000 : count < 40000 || d < 0.4);
        }
        sys_free(&s);
    }
}

/* Mean gradients over the lit part of x + xy + x^2 y + x^3 - y^2, at the nodes of the outlines. */
static void test_outlines(void **in) {
    (void)in;
    static const spiders all[] = {{4, 0.2, 0.15, 0.3, 0, 3}, {4, 0, 0.3, 0, 0.25, 4}};
    for (int i = 0; i < 6; i++) {
        const spiders *k = &all[i % 2];
        const int n = i < 2 ? 1 : i < 4 ? 2 : 7, q = n == 1 ? 12 : n == 2 ? 20 : 6;
        sys s = spidered(k, n);
        const sensor *o = &s.sensors[0];
        for (int sub = 0; sub < o->nsub; sub++) {
            const double d = k->diameter / n, x0 = d * (o->sub[sub] % n) - 2,
                         y0 = d * (o->sub[sub] / n) - 2;
            const size_t count = (size_t)outline_count(&s, o, sub, false, q);
            double *node = calloc(4 * count, sizeof *node), want[2] = {0, 0}, got[2] = {0, 0};
            double *x = node, *y = x + count, *wx = y + count, *wy = wx + count, points = 0;
            assert_int_equal(outline_nodes(&s, o, sub, false, q, x, y, wx, wy), count);
            for (int j = 0; j < 300 * 300; j++) {
                const double px = x0 + d * (j % 300 + 0.5) / 300,
                             py = y0 + d * (j / 300 + 0.5) / 300;
                if (!lit(k, px, py))
                    continue;
                points++;
                want[0] += 1 + py + 2 * px * py + 3 * px * px;
                want[1] += px + px * px - 2 * py;
            }
            for (size_t j = 0; j < count; j++) {
                const double f =
                    x[j] + x[j] * y[j] + x[j] * x[j] * y[j] + pow(x[j], 3) - y[j] * y[j];
                got[0] += wx[j] * f, got[1] += wy[j] * f;
            }
            NEAR(got[0], want[0] / points, 1e-2);
            NEAR(got[1], want[1] / points, 5e-3);
            free(node);
        }
        sys_free(&s);
    }
}

/* Part of the grid's points x of which x + rho is lit too, over those that are lit. */
static double pairs(const spiders *k, double x, double y) {
    const int n = 1000;
    double both = 0, one = 0;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            const double px = ((i + 0.5) / n - 0.5) * k->diameter,
                         py = ((j + 0.5) / n - 0.5) * k->diameter;
            if (!lit(k, px, py))
                continue;
            one++;
            both += lit(k, px + x, py + y);
        }
    return both / one;
}

/* The OTF at separations of all directions, and no symmetry but that of its own. */
static void test_otf(void **in) {
    (void)in;
    static const spiders k = {8, 0.14, 0.25, 0.4, 0, 3};
    static const int at[][2] = {{1, 0},    {0, 3},   {7, 5},  {7, -5},
                                {13, -20}, {13, 20}, {2, 25}, {29, 6}};
    sys s = spidered(&k, 8);
    psf_opts o = case_opts();
    psf *p;
    OK(psf_init(&s, &o, &p));
    assert_int_equal(p->ntel, 1);
    const double zero = telescope_row(p, 0, 0)[0];
    double sum = 0;
    for (int u = 0; u < p->P; u++)
        for (int v = 1 - p->P; v < p->P; v++)
            sum += (u ? 2 : 1) * telescope_row(p, 2, u)[v];
    NEAR(sum, 1, 1e-12);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        NEAR(telescope_row(p, 1, at[i][0])[at[i][1]] / zero,
             pairs(&k, at[i][0] * p->pixel, at[i][1] * p->pixel), 6e-4);
    NEAR(telescope_row(p, 0, 0)[5], telescope_row(p, 0, 0)[-5], 1e-13);
    psf_free(p);
    sys_free(&s);
}

/* --- segments */

static pupil_opts hexagons(double size, double gap) {
    pupil_opts o = {0};
    o.segments.tiling = PUPIL_HEXAGONS;
    o.segments.size = size;
    o.segments.gap = gap;
    o.segments.within[1] = 1000;
    return o;
}

/* 36 hexagons in three rings around a missing one: their area, and gaps that slopes do not see. */
static void test_segments(void **in) {
    (void)in;
    static const double missing[1][2] = {{0.1, 0}};
    pupil_opts o = hexagons(1.2, 0.02);
    const double(*centre)[2];
    o.segments.within[1] = 3 * 1.22 + 0.01;
    o.segments.nmissing = 1;
    o.segments.missing = missing;
    sys s = system_on(9.5, 0, &o, 9);
    assert_int_equal(pupil_segment_count(s.pupil, &centre), 36);
    CLOSE(sys_area(&s), 36 * sqrt(3) / 2 * 1.2 * 1.2, 1e-3);
    /* the circle in the missing one, closed by the gaps around it */
    NEAR(s.obs, 1.22 / 9.5, 0.02 / 9.5);
    assert_true(sys_is_lit(&s, 1.5 * 1.22, 0.001) && !sys_is_lit(&s, 0.5, 0.1));
    const pupil_edge *edge;
    double around = 0;
    for (int i = pupil_edges(s.pupil, &edge) - 1; i >= 0; i--)
        around += hypot(edge[i].to[0] - edge[i].from[0], edge[i].to[1] - edge[i].from[1]);
    CLOSE(around, (6 * 7 + 6) * 1.22 / sqrt(3), 0.01); /* sides of the outer ring, of the hole */
    sys_free(&s);
    pupil *p = NULL;
    static const double nowhere[1][2] = {{5, 5}};
    o.segments.missing = nowhere;
    o.diameter = 9.5;
    assert_int_equal(pupil_init(&o, &p), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "telescope.segments.missing"));
    status_clear();
    o = hexagons(0.001, 0);
    o.diameter = 9.5;
    assert_int_equal(pupil_init(&o, &p), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "telescope.segments.size"));
    status_clear();
}

/* Two normal numbers. */
static void normal(double v[2]) {
    static uint64_t x = 88172645463325252u;
    double u[2];
    for (int i = 0; i < 2; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        u[i] = ((double)(x >> 11) + 0.5) / 9007199254740992.0;
    }
    v[0] = sqrt(-2 * log(u[0])) * cos(2 * M_PI * u[1]);
    v[1] = sqrt(-2 * log(u[0])) * sin(2 * M_PI * u[1]);
}

enum { CELLS = 64, DRAWS = 2000 };

/* Mean peak over that without errors, of drawn pistons and tilts [rad, rad/m], and its error. */
static double drawn(const pupil *p, double diameter, double piston, double tilt, double *error) {
    static double a[CELLS * CELLS];
    static int of[CELLS * CELLS];
    const double(*centre)[2];
    const int count = pupil_segment_count(p, &centre);
    double error_of[64][3], all = 0, mean = 0, square = 0;
    assert_true(count <= 64);
    pupil_cells(p, CELLS, a, NULL);
    for (int i = 0; i < CELLS * CELLS; i++) {
        of[i] = pupil_segment_at(p, ((i % CELLS + 0.5) / CELLS - 0.5) * diameter,
                                 ((i / CELLS + 0.5) / CELLS - 0.5) * diameter);
        all += a[i];
    }
    for (int k = 0; k < DRAWS; k++) {
        double re = 0, im = 0;
        for (int i = 0; i < count; i++) {
            double v[2];
            normal(v);
            error_of[i][0] = piston * v[0];
            normal(v);
            error_of[i][1] = tilt * v[0], error_of[i][2] = tilt * v[1];
        }
        for (int i = 0; i < CELLS * CELLS; i++) {
            if (!(a[i] > 0) || of[i] < 0)
                continue;
            const double x = ((i % CELLS + 0.5) / CELLS - 0.5) * diameter - centre[of[i]][0],
                         y = ((i / CELLS + 0.5) / CELLS - 0.5) * diameter - centre[of[i]][1];
            const double *e = error_of[of[i]], phase = e[0] + e[1] * x + e[2] * y;
            re += a[i] * cos(phase), im += a[i] * sin(phase);
        }
        const double peak = (re * re + im * im) / (all * all);
        mean += peak / DRAWS;
        square += peak * peak / DRAWS;
    }
    *error = sqrt((square - mean * mean) / DRAWS);
    return mean;
}

/* Pistons, tilts and both: the Strehl ratio of the OTF against the drawn one, and the variance over
 * the pupil against small errors' exp(-variance). */
static void test_segments_errors(void **in) {
    (void)in;
    static const double errors[][2] = {{250e-9, 0}, {0, 0.06 / 206265}, {150e-9, 0.03 / 206265}};
    for (int k = 0; k < 3; k++) {
        pupil_opts o = hexagons(2.2, 0.01);
        o.segments.piston = errors[k][0];
        o.segments.tiptilt = errors[k][1];
        sys s = system_on(8, 0, &o, 8);
        psf_opts wanted = case_opts();
        psf *p;
        OK(psf_init(&s, &wanted, &p));
        assert_int_equal(p->ntel, 3);
        for (int l = 0; l < 3; l += 2) {
            const double wave = 2 * M_PI / case_lambda[l];
            double sum = 0, error;
            for (int u = 0; u < p->P; u++)
                for (int v = 1 - p->P; v < p->P; v++)
                    sum += (u ? 2 : 1) * telescope_row(p, l, u)[v];
            const double want = drawn(s.pupil, 8, wave * errors[k][0], wave * errors[k][1], &error);
            print_message("%.4f, drawn %.4f +- %.4f\n", sum, want, error);
            NEAR(sum, want, 3.5 * error + 2e-3);
        }
        double jitter, fixed, focus;
        psf_errors_variance(p, &jitter, &fixed, &focus);
        const double t = errors[k][1], r2 = 5 * 2.2 * 2.2 / 36; /* of a hexagon, whole */
        NEAR(fixed / (errors[k][0] * errors[k][0] + t * t * r2), 0.95, 0.06);
        psf_free(p);
        sys_free(&s);
    }
}

/* --- maps */

static pupil_map annulus_map(int n, double diameter, double obs) {
    pupil_map m = {.nx = n, .ny = n, .pixel = diameter / n};
    OK(ALLOC(m.amplitude, (size_t)(n * n), "map"));
    for (int k = 0; k < n * n; k++) {
        const double r = hypot(k % n + 0.5 - 0.5 * n, k / n + 0.5 - 0.5 * n) / (0.5 * n);
        m.amplitude[k] = r < 1 && r >= obs;
    }
    return m;
}

/* A map that draws the annulus is the annulus to its resolution, in all that follows from it. */
static void test_map_of_annulus(void **in) {
    (void)in;
    const int n = 500;
    pupil_opts o = {.map = annulus_map(n, 8, 0.25)};
    sys s = system_on(8, 0, &o, 10), clear = system_on(8, 0.25, &(pupil_opts){0}, 10);
    const sensor *a = &s.sensors[0], *b = &clear.sensors[0];
    assert_null(clear.pupil);
    NEAR(s.obs, 0.25, 2. / n);
    CLOSE(sys_area(&s), sys_area(&clear), 5e-4);
    NEAR(sys_peak(&s), 1, 3e-3);
    assert_int_equal(a->nsub, b->nsub);
    assert_memory_equal(a->sub, b->sub, (size_t)a->nsub * sizeof *a->sub);
    assert_int_equal(s.ts.nsub, clear.ts.nsub);
    assert_int_equal(s.dm.nact, clear.dm.nact);
    for (int i = 0; i < a->nsub; i++)
        NEAR(sys_lit_share(&s, a, i), sys_lit_share(&clear, b, i), 6e-3);
    psf_opts wanted = case_opts();
    psf *p, *q;
    OK(psf_init(&s, &wanted, &p));
    OK(psf_init(&clear, &wanted, &q));
    for (int u = 0; u < p->P; u++)
        for (int v = 0; v < p->P; v += 3)
            NEAR(telescope_row(p, 0, u)[-v], telescope_row(q, 0, u)[v],
                 3e-3 * telescope_row(q, 0, 0)[0]);
    psf_free(p);
    psf_free(q);
    sys_free(&s);
    sys_free(&clear);
    free(o.map.amplitude);
}

/* Half the amplitude has a quarter of the light; a map without light and a ragged one are refused.
 */
static void test_maps(void **in) {
    (void)in;
    const int n = 400;
    pupil_opts o = {.map = annulus_map(n, 8, 0)};
    for (int k = 0; k < n * n / 2; k++)
        o.map.amplitude[k] *= 0.6;
    sys s = system_on(8, 0, &o, 10);
    CLOSE(sys_area(&s), M_PI * 16 * (1 + 0.36) / 2, 2e-3);
    CLOSE(sys_peak(&s), pow((1 + 0.6) / 2, 2), 4e-3);
    assert_true(sys_is_lit(&s, 1, -1));
    sys_free(&s);
    pupil *p = NULL;
    o.diameter = 8;
    for (int k = 0; k < n * n; k++)
        o.map.amplitude[k] = (k % n / 2 + k / n / 2) % 2;
    assert_int_equal(pupil_init(&o, &p), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "corners"));
    status_clear();
    memset(o.map.amplitude, 0, (size_t)(n * n) * sizeof(double));
    assert_int_equal(pupil_init(&o, &p), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "no light"));
    status_clear();
    free(o.map.amplitude);
}

/* Turned by an angle it is what turned spiders are. */
static void test_rotation(void **in) {
    (void)in;
    const double angle[3] = {0.2, 2, 4}, turned[3] = {0.9, 2.7, 4.7}, offset[3] = {0.1, 0.2, -0.1};
    pupil_opts o = {
        .nspider = 3, .spider_angle = angle, .spider_offset = offset, .spider_width = 0.3};
    o.angle = 0.7;
    sys a = system_on(8, 0.2, &o, 12);
    o.angle = 0;
    o.spider_angle = turned;
    sys b = system_on(8, 0.2, &o, 12);
    assert_int_equal(a.sensors[0].nsub, b.sensors[0].nsub);
    for (int i = 0; i < a.sensors[0].nsub; i++)
        NEAR(sys_lit_share(&a, &a.sensors[0], i), sys_lit_share(&b, &b.sensors[0], i), 1e-12);
    sys_free(&a);
    sys_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_losses), cmocka_unit_test(test_light),
        cmocka_unit_test(test_outlines),         cmocka_unit_test(test_otf),
        cmocka_unit_test(test_segments),         cmocka_unit_test(test_segments_errors),
        cmocka_unit_test(test_map_of_annulus),   cmocka_unit_test(test_maps),
        cmocka_unit_test(test_rotation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
