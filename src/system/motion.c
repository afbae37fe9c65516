#include "motion.h"

#include <complex.h>
#include <math.h>

#define STEPS 64 /* of Simpson's rule between two frequencies, at least */

static double sinc(double x) {
    return fabs(x) < 1e-8 ? 1 : sin(x) / x;
}

/* Open loop of an integrator at s = 2 pi i f: mean over a frame, delay, g/(1 - exp(-sT)), hold. The
 * mean over a frame and the hold are (1 - exp(-sT))/(sT) each. */
static complex double open_loop(const rejection *r, double f) {
    const complex double s = 2 * M_PI * f * I, z = 1 - cexp(-s * r->frame);
    return r->gain * z * cexp(-s * r->delay) / (s * r->frame * s * r->frame);
}

static double table_at(const rejection *r, double f) {
    int i = 0;
    if (f <= r->frequency[0])
        return r->power[0];
    if (f >= r->frequency[r->n - 1])
        return r->power[r->n - 1];
    while (f > r->frequency[i + 1])
        i++;
    const double x = (f - r->frequency[i]) / (r->frequency[i + 1] - r->frequency[i]);
    return r->power[i] + x * (r->power[i + 1] - r->power[i]);
}

double rejection_at(const rejection *r, double f) {
    switch (r->kind) {
    case REJECTION_DELAY: {
        const double a = 2 * M_PI * f * (r->delay + 0.5 * r->frame), w = sinc(M_PI * f * r->frame);
        return (1 - w) * (1 - w) + 4 * w * pow(sin(0.5 * a), 2);
    }
    case REJECTION_INTEGRATOR: {
        const double e = f > 0 ? cabs(1 / (1 + open_loop(r, f))) : 0;
        return e * e;
    }
    case REJECTION_TABLE:
        return table_at(r, f);
    case REJECTION_LOOP:
        return loop_rejection(&r->loop, r->behind.type != LOOP_OPEN ? &r->behind : NULL, f);
    default:
        return 1;
    }
}

/* |L| < 1 where its phase, -90 degrees at low frequencies, first reaches -180. */
bool rejection_is_stable(const rejection *r) {
    const int steps = 20000;
    if (r->kind != REJECTION_INTEGRATOR)
        return true;
    for (int i = 1; i <= steps; i++) {
        const complex double l = open_loop(r, (double)i / steps / r->frame);
        if (creal(l) < 0 && cimag(l) >= 0)
            return cabs(l) < 1;
    }
    return true;
}

/* Between two frequencies, by Simpson's rule in the frequency or, of a power law, its logarithm. */
static double between(double f0, double f1, double s0, double s1, const rejection *r) {
    const bool law = f0 > 0 && s0 > 0 && s1 > 0;
    const double length = law ? log(f1 / f0) : f1 - f0;
    const double period =
        r->kind == REJECTION_LOOP ? (r->loop.frames + 1) * r->loop.period : r->delay + 2 * r->frame;
    const double cycles = period * (law ? f1 * length : length);
    const int steps = STEPS + 2 * (int)fmin(1e5, 16 * cycles + (law ? 8 * length : 0));
    const double h = length / steps, power = law ? log(s1 / s0) / length : 0;
    double sum = 0;
    for (int i = 0; i <= steps; i++) {
        const double f = law ? f0 * exp(i * h) : f0 + i * h;
        const double s = law ? f * s0 * exp(power * i * h) : s0 + (s1 - s0) * i / steps;
        sum += (i == 0 || i == steps ? 1 : i % 2 ? 4 : 2) * s * rejection_at(r, f);
    }
    return sum * h / 3;
}

double motion_variance(int n, const double *frequency, const double *spectrum, const rejection *r) {
    double sum = 0;
    for (int i = 0; i + 1 < n; i++)
        sum += between(frequency[i], frequency[i + 1], spectrum[i], spectrum[i + 1], r);
    return sum;
}
