/* Mirrors and checks shared by the tests of the PSF stage. */
#ifndef PSF_CASE_H
#define PSF_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "psf/psf.h"

#define OK(call) assert_int_equal((call), MOAO_OK)

/* |a - b| <= tol, false for NaN. */
#define NEAR(a, b, tol)                                                                            \
    do {                                                                                           \
        double near_a = (a), near_b = (b), near_tol = (tol);                                       \
        if (!(fabs(near_a - near_b) <= near_tol)) {                                                \
            print_error("%s = %.17g, expected %.17g +- %.3g\n", #a, near_a, near_b, near_tol);     \
            fail();                                                                                \
        }                                                                                          \
    } while (0)
#define CLOSE(a, b, rel) NEAR((a), (b), (rel)*fabs(b))

static inline sys case_system(int nssp, double diameter, double obs) {
    sys s = {.diameter = diameter, .obs = obs, .airmass = 1};
    s.ts.nssp = s.dm.nssp = nssp;
    s.ts.mag = 1;
    s.ts.altitude = INFINITY;
    s.dm.coupling = 0.2;
    s.dm.mu = 3e-3;
    OK(sys_derive(&s));
    return s;
}

static const double case_lambda[] = {1.25e-6, 1.65e-6, 2.2e-6};
static const double case_box[] = {0.040 / ARCSEC_PER_RAD, 0.080 / ARCSEC_PER_RAD,
                                  0.150 / ARCSEC_PER_RAD};

static inline psf_opts case_opts(void) {
    return (psf_opts){.nlambda = 3,
                      .lambda = case_lambda,
                      .nbox = 3,
                      .box = case_box,
                      .oversampling = 4,
                      .span = 3};
}

/* One layer at the ground. */
static inline profile case_profile(double r0, double *L0, double *strength, double *h) {
    *h = 0;
    *strength = pow(r0, -5.0 / 3);
    return (profile){.nlayer = 1, .h = h, .L0 = L0, .strength = strength, .r0 = r0};
}

/* Numbers of a reproducible sequence, in [-0.5, 0.5). */
static inline double case_random(unsigned *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed / 4294967296.0 - 0.5;
}

static inline double *case_doubles(size_t n) {
    double *a = calloc(n ? n : 1, sizeof *a);
    assert_non_null(a);
    return a;
}

/* Covariance c(a, b) = sigma^2 exp(-|a - b|^2/(2 len^2)), positions in pitches; len 0:
 * uncorrelated. */
static inline double *case_covariance(const sys *s, double sigma, double len) {
    size_t v = (size_t)s->dm.nact, side = (size_t)s->dm.nssp + 1;
    double *c = case_doubles(v * v);
    for (size_t b = 0; b < v; b++)
        for (size_t a = 0; a < v; a++) {
            int dx = s->dm.act[b] % (int)side - s->dm.act[a] % (int)side;
            int dy = s->dm.act[b] / (int)side - s->dm.act[a] / (int)side;
            double r2 = (double)dx * dx + (double)dy * dy;
            c[a + b * v] = sigma * sigma * (len > 0 ? exp(-r2 / (2 * len * len)) : r2 == 0 ? 1 : 0);
        }
    return c;
}

/* Sums of the whole of a covariance. */
static inline double *case_sums(const psf *p, const sys *s, const double *c) {
    size_t v = (size_t)s->dm.nact;
    double *sum = case_doubles(psf_sep_count(p));
    psf_accumulate(p, 0, v, c, v, false, sum);
    return sum;
}

#endif
