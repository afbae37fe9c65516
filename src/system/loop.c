#include "loop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAIL 1e-6  /* of the sum of |h|: what older frames have */
#define POWER 1.85 /* of the age in the equivalent delay */

/* D = (1 - part) z^-whole + part z^-(whole+1), the delay of the loop. */
typedef struct {
    int whole;
    double part;
} lag;

static lag lag_of(double frames) {
    const double whole = floor(frames + 1e-9), part = frames - whole;
    return (lag){(int)whole, part > 1e-9 ? part : 0};
}

/* Whether all roots of z^n - z^(n-1) + g ((1-part) z + part) z^(n-whole-1), n = whole + 1, lie
 * within the unit circle: Schur and Cohn's test. */
static bool is_stable(double gain, double frames) {
    const lag d = lag_of(frames);
    const int n = d.whole + 1;
    double a[n + 1], b[n + 1]; /* coefficients of z^i */
    memset(a, 0, sizeof a);
    a[n] = 1;
    a[n - 1] -= 1;
    a[1] += gain * (1 - d.part);
    a[0] += gain * d.part;
    for (int m = n; m > 0; m--) {
        if (!(fabs(a[0]) < fabs(a[m])))
            return false;
        for (int i = 0; i < m; i++)
            b[i] = a[m] * a[i + 1] - a[0] * a[m - 1 - i];
        memcpy(a, b, (size_t)m * sizeof *a);
    }
    return true;
}

double loop_limit(int type, double frames) {
    double low = 0, high = 2;
    if (type != LOOP_INTEGRATOR)
        return high;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        *(is_stable(middle, frames) ? &low : &high) = middle;
    }
    return low;
}

/* Commands of an impulse at age 0, before the delay, of which h is (D u): integrator u_k = u_(k-1)
 * + g [k = 0] - g (D u)_k, leaky u_k = g (1-g)^k. */
static double next(const loop_filter *f, const lag *d, const double *u, int k) {
    if (f->type == LOOP_LEAKY)
        return f->gain * pow(1 - f->gain, k);
    const double fed = (k >= d->whole ? (1 - d->part) * u[k - d->whole] : 0) +
                       (k > d->whole ? d->part * u[k - d->whole - 1] : 0);
    return (k > 0 ? u[k - 1] : 0) + f->gain * ((k == 0) - fed);
}

/* h of LOOP_MOST frames; cut where what is left is below TAIL, and brought to sum 1. */
static status respond(loop_filter *f) {
    const lag d = lag_of(f->frames);
    double *u = NULL, sum = 0, left = 0, all = 0;
    status st;
    TRY(ALLOC(u, LOOP_MOST, "the loop"));
    TRY(ALLOC(f->h, LOOP_MOST, "the loop"));
    for (int k = 0; k < LOOP_MOST; k++) {
        u[k] = next(f, &d, u, k);
        f->h[k] = (k >= d.whole ? (1 - d.part) * u[k - d.whole] : 0) +
                  (k > d.whole ? d.part * u[k - d.whole - 1] : 0);
        all += fabs(f->h[k]);
    }
    f->n = LOOP_MOST;
    while (f->n > 1 && left + fabs(f->h[f->n - 1]) <= TAIL * all)
        left += fabs(f->h[--f->n]);
    for (int k = 0; k < f->n; k++)
        sum += f->h[k];
    /* the last tenth is quiet where the response has died away */
    if (f->n > LOOP_MOST - LOOP_MOST / 10 || fabs(sum - 1) > 1e-3)
        TRY(status_fail(MOAO_INPUT,
                        "a gain of %.4g remembers more than %d frames, expected a larger one, or "
                        "one further below the limit of stability, %.4g",
                        f->gain, LOOP_MOST - LOOP_MOST / 10, loop_limit(f->type, f->frames)));
    for (int k = 0; k < f->n; k++)
        f->h[k] /= sum;
done:
    free(u);
    return st;
}

/* sum_k h_k k^p - 1/2 sum_l a_l |l|^p, a_l = sum_k h_k h_(k+l), is that of a pure delay. */
static double equivalent(const loop_filter *f) {
    double sum = 0;
    for (int k = 0; k < f->n; k++)
        sum += f->h[k] * pow(k, POWER);
    for (int l = 1; l < f->n; l++) {
        double a = 0;
        for (int k = 0; k + l < f->n; k++)
            a += f->h[k] * f->h[k + l];
        sum -= a * pow(l, POWER);
    }
    return sum > 0 ? f->period * pow(sum, 1 / POWER) : 0;
}

status loop_init(loop_filter *f) {
    const double limit = loop_limit(f->type, f->frames);
    status st;
    if (!(f->gain > 0 && f->gain < limit))
        return status_fail(MOAO_INPUT,
                           "a gain of %.4g over %.4g frames is not stable, expected less than %.4g",
                           f->gain, f->frames, limit);
    TRY(respond(f));
    f->noise = 0;
    for (int k = 0; k < f->n; k++)
        f->noise += f->h[k] * f->h[k];
    f->delay = equivalent(f);
done:
    return st;
}

status loop_change_gain(loop_filter *f, double gain) {
    loop_filter other = *f;
    other.gain = gain;
    other.h = NULL;
    const status st = loop_init(&other);
    loop_free(st == MOAO_OK ? f : &other);
    if (st == MOAO_OK)
        *f = other;
    return st;
}

void loop_free(loop_filter *f) {
    free(f->h);
    f->h = NULL;
    f->n = 0;
}

void loop_describe(const loop_filter *f, char *out, size_t n) {
    if (f->optimal) {
        snprintf(out, n, "%s, %.4g frames at %.4g Hz, gain (stable below %.4g) to be found",
                 f->type == LOOP_LEAKY ? "leaky" : "integrator", f->frames, 1 / f->period,
                 loop_limit(f->type, f->frames));
        return;
    }
    snprintf(out, n,
             "%s, gain %.4g (stable below %.4g), %.4g frames at %.4g Hz: commands have %.4g of the "
             "noise's variance, and lag about as after %.4g ms",
             f->type == LOOP_LEAKY ? "leaky" : "integrator", f->gain,
             loop_limit(f->type, f->frames), f->frames, 1 / f->period, f->noise, 1e3 * f->delay);
}

/* The first frame that counts; frames between ages. */
static int first_of(const loop_filter *f) {
    int k = 0;
    while (k < f->n - 1 && f->h[k] == 0)
        k++;
    return k;
}

static int step_of(const loop_filter *f, double speed) {
    const double frames = f->step * f->size / (speed * f->period);
    return frames < 2 ? 1 : frames > f->n ? f->n : (int)frames;
}

int loop_count_ages(const loop_filter *f, double speed) {
    const int span = f->n - first_of(f), step = step_of(f, speed);
    if (!f->exact || speed == 0)
        return 1;
    return step == 1 || span <= 4 ? span : 4 + (span - 1) / step;
}

/* Lagrange's weights of the points 0 to 3 at t. */
static void lagrange(double t, double w[4]) {
    w[0] = -(t - 1) * (t - 2) * (t - 3) / 6;
    w[1] = t * (t - 2) * (t - 3) / 2;
    w[2] = -t * (t - 1) * (t - 3) / 2;
    w[3] = t * (t - 1) * (t - 2) / 6;
}

status loop_ages_init(const loop_filter *f, double speed, loop_ages *a) {
    const int first = first_of(f), span = f->n - first;
    const int step = span <= 4 ? 1 : step_of(f, speed);
    status st;
    *a = (loop_ages){.n = loop_count_ages(f, speed),
                     .first = f->exact ? first * f->period : f->delay,
                     .step = step * f->period};
    TRY(ALLOC(a->weight, (size_t)a->n, "ages of slopes"));
    TRY(ALLOC(a->correlation, (size_t)a->n, "ages of slopes"));
    if (a->n == 1)
        a->weight[0] = 1;
    for (int k = 0; a->n > 1 && k < span; k++) {
        double w[4];
        const int at = k / step - 1, low = at < 0 ? 0 : at > a->n - 4 ? a->n - 4 : at;
        if (step == 1) {
            a->weight[k] = f->h[first + k];
            continue;
        }
        lagrange((double)k / step - low, w);
        for (int i = 0; i < 4; i++)
            a->weight[low + i] += f->h[first + k] * w[i];
    }
    for (int l = 0; l < a->n; l++)
        for (int j = 0; j + l < a->n; j++)
            a->correlation[l] += a->weight[j] * a->weight[j + l];
done:
    if (st != MOAO_OK)
        loop_ages_free(a);
    return st;
}

void loop_ages_free(loop_ages *a) {
    free(a->weight);
    free(a->correlation);
    a->weight = a->correlation = NULL;
}
