/* The figure by which asterisms are ranked: one number for all targets. Local. */
#ifndef MOAO_ASTERISM_WANT_H
#define MOAO_ASTERISM_WANT_H

#include "moao/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum { WANT_STREHL, WANT_EE, WANT_RMS } want_quantity;
typedef enum { WANT_MEAN, WANT_MIN, WANT_MAX, WANT_PERCENTILE } want_over;

typedef struct {
    want_quantity quantity;
    double box;    /* of an ensquared energy [rad] */
    double lambda; /* or centre of the band [m]; 0: not given */
    double width;  /* of the band [m]; 0: a single wavelength */
    char band[32]; /* its name; "": a single wavelength */
    want_over over;
    double percent; /* 0 to 100: of a percentile */
} want;

/* "min ee 75mas over targets", "mean strehl at 2.2um", "p10 ee 75 mas", "max rms" (the residual,
 * nm): mean, min, max, median or pN; strehl, ee BOX, rms; "at WAVELENGTH" or "in BAND" (of
 * psf.bands, whose centre and width the caller looks up) and "over targets" may be left out.
 * MOAO_INPUT with one line. */
status want_parse(const char *text, want *w);
/* The same in words that want_parse reads. */
void want_name(const want *w, char *out, size_t n);
/* Name of the column of TARGETS that has it: STREHL, EE_75mas, VARIANCE. */
void want_column(const want *w, char *out, size_t n);

/* One number from those of n targets; NAN when one of them is. `scratch` has room for n. */
double want_value(const want *w, int n, const double *v, double *scratch);
/* Whether a larger value is the better one. */
bool want_larger(const want *w);
/* A guess of the figure of a target from its residual variance over the pupil [m^2]: that of the
 * extended Marechal approximation, exp(-variance) in rad^2; monotone, so that minima and
 * percentiles over targets pick the target that they should. */
double want_guess(const want *w, double variance);

#endif
