/* Systems and profiles for the tests of the covariances, built without a parameter file. */
#ifndef TESTS_MATCOV_CASE_H
#define TESTS_MATCOV_CASE_H

#include "matcov/matcov.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASE_ARCSEC(x) ((x) / ARCSEC_PER_RAD)
#define CASE_DEGREE(x) ((x)*0.017453292519943295)

static inline void case_ok(status st) {
    if (st != MOAO_OK)
        fail_msg("status %d: %s", (int)st, status_message());
}

/* A uniform random number of [lo, hi), the same ones in every run of a program. */
static inline double case_random(double lo, double hi) {
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return lo + (hi - lo) * ((double)(x >> 11) / 9007199254740992.0);
}

/* One sensor: star direction [arcsec], altitude [m] (INFINITY: natural), registration. */
typedef struct {
    int nssp;
    double dir[2], altitude, mag, rot, shift[2];
    double magnitude;
} case_sensor;

/* The noise of the golden case: detectors of natural and laser stars. */
static inline sensor_noise case_noise(const case_sensor *o, double diameter) {
    bool lgs = !isinf(o->altitude);
    double norm = hypot(o->dir[0], o->dir[1]), edge = diameter / 2;
    return (sensor_noise){.variance = -1,
                          .frame_time = 0.004,
                          .ron = 3,
                          .pixel = CASE_ARCSEC(lgs ? 1.0 : 0.3),
                          .wavelength = lgs ? 589e-9 : 650e-9,
                          .bandwidth = 330e-9,
                          .throughput = lgs ? 0.382 : 0.425,
                          .magnitude = o->magnitude,
                          .lgs_return = 7e6,
                          .t_atm = 0.84,
                          .lgs_width = CASE_ARCSEC(1.0),
                          .lgs_depth = 5000,
                          .launch = {norm > 0 ? edge * o->dir[0] / norm : edge,
                                     norm > 0 ? edge * o->dir[1] / norm : 0},
                          .tiptilt = -1,
                          .tiptilt_factor = 10};
}

static inline void case_sys(double diameter, double obs, int ts_nssp, int nsensor,
                            const case_sensor *o, sys *s) {
    *s = (sys){.diameter = diameter, .obs = obs, .nsensor = nsensor, .delay = 0.01};
    s->ts = (sensor){.name = "TS", .nssp = ts_nssp, .altitude = INFINITY, .mag = 1};
    s->dm = (dmirror){.nssp = ts_nssp, .coupling = 0.2, .mu = 3e-3};
    case_ok(ALLOC(s->sensors, (size_t)nsensor, "sensors"));
    for (int w = 0; w < nsensor; w++) {
        s->sensors[w] = (sensor){.lgs = !isinf(o[w].altitude),
                                 .nssp = o[w].nssp,
                                 .dir = {CASE_ARCSEC(o[w].dir[0]), CASE_ARCSEC(o[w].dir[1])},
                                 .altitude = o[w].altitude,
                                 .mag = o[w].mag,
                                 .rot = o[w].rot,
                                 .shift = {o[w].shift[0], o[w].shift[1]},
                                 .noise = case_noise(&o[w], diameter)};
        snprintf(s->sensors[w].name, sizeof s->sensors[w].name, "S%d", w);
    }
    case_ok(sys_derive(s));
}

/* layer: {altitude [m], outer scale [m], strength [m^(-5/3)], wind x, y [m/s]} */
static inline void case_profile(int n, const double (*layer)[5], profile *p) {
    *p = (profile){.nlayer = n};
    double sum = 0, **member[] = {&p->h, &p->L0, &p->strength, &p->wind[0], &p->wind[1]};
    for (int i = 0; i < 5; i++) {
        case_ok(ALLOC(*member[i], (size_t)n, "profile"));
        for (int l = 0; l < n; l++)
            (*member[i])[l] = layer[l][i];
    }
    for (int l = 0; l < n; l++)
        sum += layer[l][2];
    p->r0 = pow(sum, -0.6);
}

static inline void case_profile_free(profile *p) {
    free(p->h);
    free(p->L0);
    free(p->strength);
    free(p->wind[0]);
    free(p->wind[1]);
    *p = (profile){0};
}

/* The golden case: 4.2 m, 4 laser stars at 21 km and 3 natural ones, 7 subapertures across. */
static inline void case_golden(sys *s, profile *p) {
    static const double a = 16.617009;
    const case_sensor o[7] = {
        {7, {a, a}, 21000, 1, 0, {0}, 0},          {7, {-a, a}, 21000, 1, 0, {0}, 0},
        {7, {-a, -a}, 21000, 1, 0, {0}, 0},        {7, {a, -a}, 21000, 1, 0, {0}, 0},
        {7, {40, 10}, INFINITY, 1, 0, {0}, 11},    {7, {-25, 30}, INFINITY, 1, 0, {0}, 10.5},
        {7, {-10, -45}, INFINITY, 1, 0, {0}, 11.5}};
    double total = pow(0.12, -5.0 / 3);
    const double layer[3][5] = {{0, 25, 0.55 * total, 0, 0},
                                {4000, 25, 0.25 * total, 0, 0},
                                {10000, 25, 0.2 * total, 0, 0}};
    case_sys(4.2, 0.285, 7, 7, o, s);
    case_profile(3, layer, p);
}

/* One array of a file of arrays: each a line "name rows columns" and the rows as little-endian
 * float64. */
static inline double *case_read(const char *path, const char *name, size_t *rows, size_t *cols) {
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail_msg("cannot open %s (run from the root)", path);
    for (char word[64], line[128]; fgets(line, sizeof line, f) != NULL;) {
        if (sscanf(line, "%63s %zu %zu", word, rows, cols) != 3)
            break;
        if (strcmp(word, name) != 0) {
            assert_int_equal(fseek(f, (long)(*rows * *cols * sizeof(double)), SEEK_CUR), 0);
            continue;
        }
        double *v = malloc(*rows * *cols * sizeof *v);
        assert_non_null(v);
        assert_int_equal(fread(v, sizeof *v, *rows * *cols, f), *rows * *cols);
        fclose(f);
        return v;
    }
    fclose(f);
    fail_msg("%s has no array %s", path, name);
    return NULL;
}

#endif
