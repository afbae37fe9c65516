/* Errors that no loop corrects: jitter of the image, focus by the sodium layer's altitude, and a
 * static error of the optics. All are
 * structure functions that scale with lambda^-2, so they are added to that of the fitting error.
 * Model section 7. */
#include "psf_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BANDS 600 /* of the static error's spectrum, in equal steps of the logarithm */
#define FINE 4    /* radii a pixel at which its structure function is tabulated */

bool psf_has_errors(const psf_opts *o) {
    return o->jitter[0] > 0 || o->jitter[1] > 0 || o->static_rms > 0 || o->focus > 0;
}

/* Jitter of rms a on the sky along an axis tilts the phase by a times the coordinate: over a
 * distance its variance is (2 pi a rho / lambda)^2, whatever its spectrum in time. */
static void add_jitter(psf *p, const double jitter[2], const sys *s) {
    const double k = 2 * M_PI / LAMBDA_REF * p->pixel;
    const double diameter = p->P * p->pixel, wave = 2 * M_PI / LAMBDA_REF;
    for (int u = 0; u < p->P; u++)
        for (int v = 0; v < p->P; v++) {
            double a = k * jitter[0] * u, b = k * jitter[1] * v;
            p->errors[(size_t)u * (size_t)p->P + (size_t)v] += a * a + b * b;
        }
    /* mean square of a coordinate over the annulus: D^2 (1 + o^2) / 16 */
    p->errors_part[0] = wave * wave * (jitter[0] * jitter[0] + jitter[1] * jitter[1]) * diameter *
                        diameter * (1 + s->obs * s->obs) / 16;
    if (s->pupil != NULL) {
        const double *square = pupil_about(s->pupil)->square;
        p->errors_part[0] =
            wave * wave * (jitter[0] * jitter[0] * square[0] + jitter[1] * jitter[1] * square[1]);
    }
}

/* Structure function, for a variance of 1, of a spectrum f^-power from 1/D to the grid's highest
 * frequency: 2 (1 - mean of J0(2 pi f rho)), at radius[i] = i pixel / FINE. */
static void power_law(const psf *p, double power, int n, double *radius) {
    const double low = 1.0 / p->P, high = 0.5; /* per pixel */
    double frequency[BANDS], weight[BANDS], total = 0;
    for (int i = 0; i < BANDS; i++) {
        frequency[i] = low * pow(high / low, (i + 0.5) / BANDS);
        weight[i] = pow(frequency[i] / low, 2 - power); /* f^-power f df, df = f dlog f */
        total += weight[i];
    }
#pragma omp parallel for schedule(static)
    for (int r = 0; r < n; r++) {
        double sum = 0;
        for (int i = 0; i < BANDS; i++)
            sum += weight[i] * (1 - j0(2 * M_PI * frequency[i] * r / FINE));
        radius[r] = 2 * sum / total;
    }
}

static status add_static(psf *p, double rms, double power) {
    const int n = (int)(FINE * 1.5 * p->P) + 2;
    const double scale = pow(2 * M_PI * rms / LAMBDA_REF, 2);
    double *radius;
    status st = ALLOC(radius, (size_t)n, "structure function of the static error");
    if (st != MOAO_OK)
        return st;
    power_law(p, power, n, radius);
    for (int u = 0; u < p->P; u++)
        for (int v = 0; v < p->P; v++) {
            double r = FINE * hypot(u, v);
            int i = (int)r;
            double d = radius[i] + (r - i) * (radius[i + 1] - radius[i]);
            p->errors[(size_t)u * (size_t)p->P + (size_t)v] += scale * d;
        }
    p->errors_part[1] = scale;
    free(radius);
    return MOAO_OK;
}

/* Mean of x^2 over the middles of the pairs of points of the annulus that are rho apart along x, in
 * units of the radius; 0 where there are none. */
static double middles(double rho, double obs) {
    const int n = 160; /* samples of a quadrant along an axis */
    double sum = 0;
    long count = 0;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            const double x = (i + 0.5) / n, y = (j + 0.5) / n;
            const double far = hypot(x + 0.5 * rho, y), near = hypot(x - 0.5 * rho, y);
            if (far >= 1 || near < obs || far < obs)
                continue;
            sum += x * x;
            count++;
        }
    return count > 0 ? sum / (double)count : 0;
}

/* A focus error c r^2 of rms c: between two points its difference is 2 c m.rho, m their middle, so
 * D(rho) = (4 pi c rho/lambda)^2 times the mean of (m.rho)^2/rho^2 over the pairs. Its variance is
 * c^2 (D/2)^4 (1 - o^2)^2/12. */
static void add_focus(psf *p, double c, double obs) {
    enum { RADII = 256 };
    const double radius = 0.5 * p->P * p->pixel, k = 2 * M_PI / LAMBDA_REF * c * radius * radius;
    double mean[RADII + 2] = {0};
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i <= RADII; i++)
        mean[i] = middles(2.0 * i / RADII, obs);
    for (int u = 0; u < p->P; u++)
        for (int v = 0; v < p->P; v++) {
            const double rho = 2 * hypot(u, v) / p->P, at = 0.5 * rho * RADII;
            const int i = (int)fmin(at, RADII);
            const double m = mean[i] + fmin(1, at - i) * (mean[i + 1] - mean[i]);
            p->errors[(size_t)u * (size_t)p->P + (size_t)v] += 4 * k * k * rho * rho * m;
        }
    p->errors_part[2] = k * k * pow(1 - obs * obs, 2) / 12;
}

/* The same on another pupil: D = k^2 times the mean of (r'^2 - r^2)^2 over the pairs. */
static status add_focus_on(psf *p, double c, const pupil *shape) {
    const double radius = 0.5 * p->P * p->pixel, k = 2 * M_PI / LAMBDA_REF * c * radius * radius;
    double *mean = NULL, variance = 0;
    status st;
    TRY(ALLOC(mean, p->nerrors, "focus error"));
    TRY(telescope_radii(p, shape, mean, &variance));
    for (size_t i = 0; i < p->nerrors; i++)
        p->errors[i] += k * k * mean[i];
    p->errors_part[2] = k * k * variance;
done:
    free(mean);
    return st;
}

status psf_errors_init(psf *p, const sys *s, const psf_opts *o) {
    if (!psf_has_errors(o))
        return MOAO_OK;
    memset(p->errors, 0, (size_t)p->P * (size_t)p->P * sizeof *p->errors);
    status st = MOAO_OK;
    add_jitter(p, o->jitter, s);
    if (o->focus > 0 && s->pupil != NULL)
        st = add_focus_on(p, o->focus, s->pupil);
    else if (o->focus > 0)
        add_focus(p, o->focus, s->obs);
    if (st == MOAO_OK && o->static_rms > 0)
        st = add_static(p, o->static_rms, o->static_power);
    return st;
}

void psf_errors_add(const psf *p, psf_fit *f) {
    for (size_t i = 0; i < p->nerrors; i++)
        f->d[i] += p->errors[i];
    f->variance += p->errors_part[0] + p->errors_part[1] + p->errors_part[2];
}

void psf_errors_variance(const psf *p, double *jitter, double *fixed, double *focus) {
    const double scale = pow(LAMBDA_REF / (2 * M_PI), 2);
    *jitter = scale * p->errors_part[0];
    *fixed = scale * p->errors_part[1];
    *focus = scale * p->errors_part[2];
}
