#include "loop.h"

#include <complex.h>
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

/* Weights by steps of a finer loop: slopes of a frame are the mean over `held` steps, and commands
 * of a frame stay for as many. Step i of frame 0 is k held + p - i old at step p of frame k. */
static status respond_by_steps(loop_filter *f) {
    const int r = f->held;
    status st = MOAO_OK;
    if (r < 2)
        return st;
    if ((double)f->n * r > LOOP_MOST_STEPS)
        return status_fail(MOAO_INPUT,
                           "a gain of %.4g remembers %.0f frames of the faster loop, more than %d; "
                           "expected a larger one, or rates that are closer",
                           f->gain, (double)f->n * r, LOOP_MOST_STEPS);
    f->nstep = f->n * r;
    TRY(ALLOC(f->mean, (size_t)f->nstep, "the loop"));
    TRY(ALLOC(f->one, (size_t)f->nstep, "the loop"));
    for (int k = 0; k < f->n; k++)
        for (int j = 1 - r; j < r && f->h[k] != 0; j++) {
            f->mean[k * r + j] += f->h[k] * (r - abs(j)) / r / r;
            if (j <= 0)
                f->one[k * r + j] += f->h[k] / r;
        }
done:
    return st;
}

/* Ages in steps: how many, weights of the mean and of one, length [s]. */
typedef struct {
    int n;
    const double *mean, *one;
    double period;
} steps;

static steps steps_of(const loop_filter *f) {
    return f->held > 1 ? (steps){f->nstep, f->mean, f->one, f->period / f->held}
                       : (steps){f->n, f->h, f->h, f->period};
}

/* sum_k h_k k^p - 1/2 sum_l a_l |l|^p, a_l = sum_k h_k h_(k+l), is that of a pure delay. */
static double equivalent(const loop_filter *f) {
    const steps s = steps_of(f);
    double sum = 0;
    for (int k = 0; k < s.n; k++)
        sum += s.mean[k] * pow(k, POWER);
    for (int l = 1; l < s.n; l++) {
        double a = 0;
        for (int k = 0; k + l < s.n; k++)
            a += s.one[k] * s.one[k + l];
        sum -= a * pow(l, POWER);
    }
    return sum > 0 ? s.period * pow(sum, 1 / POWER) : 0;
}

status loop_init(loop_filter *f) {
    const double limit = loop_limit(f->type, f->frames);
    status st;
    if (!(f->gain > 0 && f->gain < limit))
        return status_fail(MOAO_INPUT,
                           "a gain of %.4g over %.4g frames is not stable, expected less than %.4g",
                           f->gain, f->frames, limit);
    TRY(respond(f));
    TRY(respond_by_steps(f));
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
    other.h = other.mean = other.one = NULL;
    const status st = loop_init(&other);
    loop_free(st == MOAO_OK ? f : &other);
    if (st == MOAO_OK)
        *f = other;
    return st;
}

void loop_free(loop_filter *f) {
    free(f->h);
    free(f->mean);
    free(f->one);
    f->h = f->mean = f->one = NULL;
    f->n = f->nstep = 0;
}

status loop_join(const loop_filter *a, const loop_filter *b, loop_filter *both) {
    status st;
    *both = *a;
    both->h = both->mean = both->one = NULL;
    both->n = a->n + b->n - 1;
    both->noise = 0;
    TRY(ALLOC(both->h, (size_t)both->n, "the loop"));
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++)
            both->h[i + j] += a->h[i] * b->h[j];
    both->noise = loop_shared_noise(both, both);
    both->delay = equivalent(both);
done:
    return st;
}

double loop_shared_noise(const loop_filter *a, const loop_filter *b) {
    double sum = 0;
    for (int k = 0; k < a->n && k < b->n; k++)
        sum += a->h[k] * b->h[k];
    return sum;
}

/* H of z, a frame. */
static double complex response(const loop_filter *f, double complex z) {
    const lag d = lag_of(f->frames);
    const double complex late = cpow(z, d.whole) * (1 - d.part + d.part * z);
    return f->type == LOOP_LEAKY ? f->gain * late / (1 - (1 - f->gain) * z)
                                 : f->gain * late / (1 - z + f->gain * late);
}

double loop_rejection(const loop_filter *f, const loop_filter *behind, double frequency) {
    const double x = M_PI * frequency * f->period, box = fabs(x) < 1e-8 ? 1 : sin(x) / x;
    const double complex z = cexp(-2 * I * x); /* of a frame */
    if (frequency == 0)
        return 0;
    const double complex first = response(f, z),
                         h = behind == NULL ? first : 1 - (1 - first) * (1 - response(behind, z));
    return 1 - box * box * (2 * creal(h) - creal(h * conj(h)));
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

/* The first one that counts; frames or steps between ages. */
static int first_of(const steps *s) {
    int k = 0;
    while (k < s->n - 1 && s->mean[k] == 0)
        k++;
    return k;
}

static int step_of(const loop_filter *f, const steps *s, double speed) {
    const double frames = f->step * f->size / (speed * s->period);
    return frames < 2 ? 1 : frames > s->n ? s->n : (int)frames;
}

int loop_count_ages(const loop_filter *f, double speed) {
    const steps s = steps_of(f);
    const int span = s.n - first_of(&s), step = step_of(f, &s, speed);
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

/* Weights of `span` frames or steps onto n ages that are `step` of them apart. */
static void gather(const double *h, int span, int step, int n, double *weight) {
    if (n == 1)
        weight[0] = 1;
    for (int k = 0; n > 1 && k < span; k++) {
        double w[4];
        const int at = k / step - 1, low = at < 0 ? 0 : at > n - 4 ? n - 4 : at;
        if (step == 1) {
            weight[k] = h[k];
            continue;
        }
        lagrange((double)k / step - low, w);
        for (int i = 0; i < 4; i++)
            weight[low + i] += h[k] * w[i];
    }
}

status loop_ages_init(const loop_filter *f, double speed, loop_ages *a) {
    const steps s = steps_of(f);
    const int first = first_of(&s), span = s.n - first;
    const int step = span <= 4 ? 1 : step_of(f, &s, speed);
    double *one = NULL;
    status st;
    *a = (loop_ages){.n = loop_count_ages(f, speed),
                     .first = f->exact ? first * s.period : f->delay,
                     .step = step * s.period};
    TRY(ALLOC(a->weight, (size_t)a->n, "ages of slopes"));
    TRY(ALLOC(a->correlation, (size_t)a->n, "ages of slopes"));
    TRY(ALLOC(one, (size_t)a->n, "ages of slopes"));
    gather(s.mean + first, span, step, a->n, a->weight);
    gather(s.one + first, span, step, a->n, one);
    for (int l = 0; l < a->n; l++)
        for (int j = 0; j + l < a->n; j++)
            a->correlation[l] += one[j] * one[j + l];
done:
    free(one);
    if (st != MOAO_OK)
        loop_ages_free(a);
    return st;
}

/* Whether the ages of two loops are on one lattice. */
static bool on_lattice(const loop_ages *a, const loop_ages *b) {
    return fabs(a->step - b->step) < 1e-9 * a->step;
}

status loop_gaps_init(const loop_ages *a, const loop_ages *b, loop_gaps *g) {
    const bool one = on_lattice(a, b);
    const int n = one ? a->n + b->n - 1 : a->n * b->n;
    status st;
    *g = (loop_gaps){.n = n};
    TRY(ALLOC(g->age, (size_t)n, "ages of slopes"));
    TRY(ALLOC(g->weight, (size_t)n, "ages of slopes"));
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            const int k = one ? j - i + a->n - 1 : i * b->n + j;
            g->age[k] = b->first - a->first + (one ? (j - i) * a->step : j * b->step - i * a->step);
            g->weight[k] += a->weight[i] * b->weight[j];
        }
done:
    if (st != MOAO_OK)
        loop_gaps_free(g);
    return st;
}

void loop_gaps_free(loop_gaps *g) {
    free(g->age);
    free(g->weight);
    *g = (loop_gaps){0};
}

int loop_count_gaps(const loop_filter *a, const loop_filter *b, double speed) {
    const int na = loop_count_ages(a, speed), nb = loop_count_ages(b, speed);
    return na <= 4 || nb <= 4 ? na * nb : na + nb;
}

void loop_ages_free(loop_ages *a) {
    free(a->weight);
    free(a->correlation);
    a->weight = a->correlation = NULL;
}
