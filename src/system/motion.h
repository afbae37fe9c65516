/* What a loop leaves of the image's motion. Model section 7, "OTF and PSF". All local; nothing is
 * allocated. */
#ifndef MOAO_MOTION_H
#define MOAO_MOTION_H

#include "loop.h"

#include <stdbool.h>

enum {
    REJECTION_OFF,
    REJECTION_DELAY,
    REJECTION_INTEGRATOR,
    REJECTION_TABLE,
    REJECTION_LOOP,
    REJECTION_AUTO /* one of the others, before it is used */
};

typedef struct {
    int kind;
    double delay;                    /* from the end of a frame to the mirror's new shape [s] */
    double frame;                    /* time of a frame [s]; above 0 for an integrator */
    double gain;                     /* of the integrator */
    int n;                           /* of a table: */
    const double *frequency, *power; /* [n] increasing [Hz]; |E|^2, constant beyond the ends */
    loop_filter loop, behind;        /* REJECTION_LOOP: those of loop_rejection; type LOOP_OPEN:
                                        there is none behind */
} rejection;

/* |E(f)|^2: share of the motion's power at a frequency [Hz] that is left. */
double rejection_at(const rejection *r, double f);
/* Whether the loop is stable; only an integrator may not be. */
bool rejection_is_stable(const rejection *r);

/* Integral of a one-sided spectrum [unit^2/Hz] at n increasing frequencies [Hz] times |E|^2: a
 * power law between two values above 0, else a straight line; nothing beyond the ends. */
double motion_variance(int n, const double *frequency, const double *spectrum, const rejection *r);

#endif
