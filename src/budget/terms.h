/* The terms of the residual phase's variance: what is kept of each target and exposure, beside its
 * images. Model section 7, "Error budget". */
#ifndef MOAO_BUDGET_TERMS_H
#define MOAO_BUDGET_TERMS_H

/* Variances over the pupil without piston [m^2]. The total is the sum of those after it. */
enum {
    BUDGET_TOTAL,
    BUDGET_TOMOGRAPHY, /* what is left, with the cross terms; may be negative */
    BUDGET_NOISE,      /* of all stars; each star's stands after the terms */
    BUDGET_ALIASING,   /* and what the command matrix leaves */
    BUDGET_FITTING,
    BUDGET_LAG, /* may be negative */
    BUDGET_JITTER,
    BUDGET_STATIC,
    BUDGET_SODIUM,      /* has columns only where errors.sodium_... are given */
    BUDGET_GENERALISED, /* has columns only where all targets share their commands */
    BUDGET_TERMS
};

/* Terms that psf.residual: sensor does not tell apart: a key of the table of results and its value,
 * which is said wherever a budget is shown. */
#define BUDGET_WITHOUT "WFE_NONE"
#define BUDGET_WITHOUT_WORDS "servo lag and aliasing are in the tomography"
#define BUDGET_FIT_WORDS "aliasing is in the tomography" /* of reconstructor.fit: phase */

/* The parameter by which these words stand in a table. */
const char *budget_without(const char *words);

/* A variance as a root mean square with its sign [m]. */
double budget_rms(double variance);

/* Name of a term in tables of results ("WFE_TOMO"...) and in words. */
const char *budget_column(int term);
const char *budget_words(int term);

#endif
