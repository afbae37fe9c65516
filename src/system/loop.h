/* The loop in time: a mirror's shape has slopes of past frames, c_n = sum_k h_k W s_(n-k). Model
 * section 6, "The loop in time". All local. */
#ifndef MOAO_LOOP_H
#define MOAO_LOOP_H

#include "moao/status.h"
#include <stdbool.h>
#include <stddef.h>

enum { LOOP_OPEN, LOOP_INTEGRATOR, LOOP_LEAKY };

/* Loops of one run at most: that of all or of a common mirror; that of the stars for low orders, or
 * of the mirrors of targets behind a common one; and of the residual slopes that these have. */
#define LOOPS 3

typedef struct {
    int type;
    double gain;
    bool optimal;  /* the gain is to be found by the run (job/gain.h), and is a first one until then
                    */
    double frames; /* from the middle of the frame measured to that of the frame corrected */
    double period; /* of a frame [s] */
    int held;     /* steps of a finer loop in a frame, which averages slopes over them and holds its
                     commands; 0 and 1: none */
    int n;        /* ages that count, 0 <= k < n */
    double *h;    /* [n] weights of slopes k frames old, sum 1 */
    int nstep;    /* held > 1: ages in steps of period/held, */
    double *mean; /* [nstep] their weights, mean over the steps for which commands are held, */
    double *one;  /* [nstep] and at the first of them */
    double noise; /* sum of h^2: what of the variance of W's noise is in the commands */
    double delay; /* equivalent pure delay [s] */
    double size;  /* of the smallest subaperture [m]: steps between ages are short of it */
    double step;  /* largest displacement between two ages that are evaluated, in units of it */
    bool exact;   /* covariances are summed over ages, else taken at the equivalent delay */
} loop_filter;

/* The gain below which the recursion is stable. integrator: h_k = h_(k-1) - g h_(k-d) + g [k = d],
 * found by the Schur-Cohn test; leaky: h_k = g (1-g)^(k-d). Frames between whole numbers share
 * their weight between the two. */
double loop_limit(int type, double frames);
/* h, noise and equivalent delay of type, gain, frames and period. MOAO_INPUT, in one line, where
 * the recursion is not stable or remembers more than LOOP_MOST frames; MOAO_MEMORY. Free with
 * loop_free, also after a failure, fine on {0}. */
#define LOOP_MOST 8000
#define LOOP_MOST_STEPS 32000 /* of a finer loop */
status loop_init(loop_filter *f);
/* The same with another gain; on a failure f stays as it is. */
status loop_change_gain(loop_filter *f, double gain);
void loop_free(loop_filter *f);
/* Slopes that have both, b's commands those of a's as its slopes: h_k = sum_j a_j b_(k-j), frames
 * of one length, none held. Type, gain and frames are those of a. Free with loop_free, also after a
 * failure. MOAO_MEMORY. */
status loop_join(const loop_filter *a, const loop_filter *b, loop_filter *both);
/* sum_k a_k b_k: what of a frame's noise commands of both have in common. Where they are the same,
 * `noise`. Frames of one length. */
double loop_shared_noise(const loop_filter *a, const loop_filter *b);
/* What a loop is and does, in a line. */
void loop_describe(const loop_filter *f, char *out, size_t n);

/* Ages at which a layer of that speed [m/s] is evaluated: first + j step, 0 <= j < n, and the
 * weights onto which h falls, h itself where the ages follow each other, else by 4-point Lagrange
 * interpolation. correlation[l], 0 <= l < n: sum_j weight_j weight_(j+l). Arrays of `weight` and
 * `correlation` are freed by loop_ages_free. MOAO_MEMORY. */
typedef struct {
    int n;
    double first, step;           /* [s] */
    double *weight, *correlation; /* of a loop with steps: of the mean over them, of one */
} loop_ages;
status loop_ages_init(const loop_filter *f, double speed, loop_ages *a);
void loop_ages_free(loop_ages *a);
/* How many ages a layer of that speed has. */
int loop_count_ages(const loop_filter *f, double speed);

/* Ages of slopes of loop b less those of loop a, with the products of their weights: of covariances
 * between two loops, mean over the steps of the slower one. Freed with loop_ages_free; no
 * correlation. MOAO_MEMORY. */
typedef struct {
    int n;
    double *age, *weight; /* [n] [s] */
} loop_gaps;
status loop_gaps_init(const loop_ages *a, const loop_ages *b, loop_gaps *g);
void loop_gaps_free(loop_gaps *g);
/* How many at most. */
int loop_count_gaps(const loop_filter *a, const loop_filter *b, double speed);

/* |E(f)|^2 at a frequency [Hz] of a motion that the loop sees over whole frames and corrects by
 * commands that it holds for a frame, with H the sum of h_k exp(-2 pi i f k period):
 * 1 - sinc^2(pi f period) (2 Re H - |H|^2). behind: NULL, or a second loop of the same frames whose
 * slopes are what the first one leaves, 1 - H = (1 - H_f) (1 - H_behind). */
double loop_rejection(const loop_filter *f, const loop_filter *behind, double frequency);

#endif
