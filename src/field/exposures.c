/* The step of the lattice, and exposures in which all of its nodes are computed. */
#include "field/field_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* error 1e-3 at LENGTH (D / 8 m)^GROWTH over the layers' altitude, and as step^POWER */
#define STEP_LENGTH 0.28
#define STEP_GROWTH 0.59
#define STEP_POWER 3.3
#define STEP_ALTITUDE 3.5
/* What is left of the structure of an exposure less a multiple of a whole one's, of its own:
 * measured with the night of params/mosaic.yaml on a telescope of 4 m
 * (bench/results/field-maps-cpu.txt) */
#define SAME_W 0.025 /* under the same reconstructor */
#define OTHER_W 0.1  /* under an earlier one */
#define LACKING 0.4  /* of its error: expected of what an exposure lacks, at most, */
#define IN_ALL 1.3   /* or with its error as many tolerances: predictions are of the worst place */
#define SAVES 0.9    /* of the time at most, else all exposures are whole */
#define SPARE 0.3    /* nodes of every exposure, of all, about; */
#define HALF 0.55    /* and of half of them */
#define SOLVE 2.0    /* time of W of a node, in units of its residual, about */

enum { BINS = 64 };
#define BIN 600.0 /* m of altitude */

/* Altitude that counts: of strong and high layers [m]. */
static double rough_altitude(const profile *p) {
    double sum = 0, all = 0;
    for (int l = 0; l < p->nlayer; l++) {
        sum += p->strength[l] * pow(p->h[l], STEP_ALTITUDE);
        all += p->strength[l];
    }
    return all > 0 ? pow(sum / all, 1 / STEP_ALTITUDE) : 0;
}

static double length_of(const sys *s) {
    return STEP_LENGTH * pow(s->diameter / 8, STEP_GROWTH);
}

double field_step(const sys *s, const atmos *a, double tolerance) {
    double high = 0;
    for (int e = 0; e < a->nexposure; e++)
        high += rough_altitude(atmos_profile_at(a, a->exposure_time[e])) / a->nexposure;
    return length_of(s) * pow(tolerance / 1e-3, 1 / STEP_POWER) / fmax(high, 1.0);
}

/* Structure of a map by altitude: shares of altitude^STEP_ALTITUDE [m^STEP_ALTITUDE]. */
static void structure_of(const profile *p, double out[BINS]) {
    double all = 0;
    memset(out, 0, BINS * sizeof *out);
    for (int l = 0; l < p->nlayer; l++)
        all += p->strength[l];
    for (int l = 0; l < p->nlayer && all > 0; l++) {
        const int bin = (int)fmin(p->h[l] / BIN, BINS - 1);
        out[bin] += p->strength[l] / all * pow(p->h[l], STEP_ALTITUDE);
    }
}

static double dot(const double x[BINS], const double y[BINS]) {
    double sum = 0;
    for (int i = 0; i < BINS; i++)
        sum += x[i] * y[i];
    return sum;
}

/* x less its projection on y. */
static void project_out(double x[BINS], const double y[BINS]) {
    const double norm = dot(y, y), a = norm > 0 ? dot(x, y) / norm : 0;
    for (int i = 0; i < BINS; i++)
        x[i] -= a * y[i];
}

/* Sum of a structure. */
static double sum_of(const double x[BINS]) {
    double sum = 0;
    for (int i = 0; i < BINS; i++)
        sum += fabs(x[i]);
    return sum;
}

/* Error expected of a map with as much structure, at a step of the lattice [rad]. */
static double error_of(const sys *s, double step, double structure) {
    const double h = pow(structure, 1 / STEP_ALTITUDE);
    return 1e-3 * pow(step * h / length_of(s), STEP_POWER);
}

int field_bases(const unsigned char *level, const atmos *a, int e, int base[FIELD_BASES]) {
    const int tor = atmos_tor_of(a, e);
    int n = 0;
    for (int b = a->nexposure - 1; b >= 0 && n < FIELD_BASES; b--) {
        const int of = atmos_tor_of(a, b);
        if (level[b] <= level[e] || of > tor ||
            (n > 0 && of < tor && atmos_tor_of(a, base[0]) == tor))
            continue;
        base[n++] = b;
    }
    return n;
}

typedef struct {
    const sys *s;
    const atmos *a;
    double tolerance, step;
    unsigned char *level; /* [exposures] */
} choice;

static double structure_sum(const choice *c, int e, double of[BINS]) {
    structure_of(atmos_profile_at(c->a, c->a->exposure_time[e]), of);
    return sum_of(of);
}

/* Error expected of what exposure e lacks, and of what those lack from which it follows; INFINITY:
 * from none. */
static double lacking_error(const choice *c, int e) {
    double left[BINS], other[FIELD_BASES][BINS], more = 0;
    int base[FIELD_BASES];
    const int n = field_bases(c->level, c->a, e, base);
    if (c->level[e] == FIELD_WHOLE)
        return 0;
    if (n == 0)
        return INFINITY;
    const bool same = atmos_tor_of(c->a, base[0]) == atmos_tor_of(c->a, e);
    const double own = (same ? SAME_W : OTHER_W) * structure_sum(c, e, left);
    for (int b = 0; b < n; b++) {
        structure_sum(c, base[b], other[b]);
        for (int d = 0; d < b; d++)
            project_out(other[b], other[d]);
        project_out(left, other[b]);
        more = fmax(more, lacking_error(c, base[b]));
    }
    const double wide = c->level[e] == FIELD_HALF ? M_SQRT2 : 2;
    return more + error_of(c->s, wide * c->step, sum_of(left) + own);
}

/* The same in units of what is allowed. */
static double lacking(const choice *c, int e) {
    double of[BINS];
    const double error = error_of(c->s, c->step, structure_sum(c, e, of));
    return lacking_error(c, e) / fmax(LACKING * error, IN_ALL * c->tolerance - error);
}

static bool is_rougher(const atmos *a, int e, int than) {
    return rough_altitude(atmos_profile_at(a, a->exposure_time[e])) >
           rough_altitude(atmos_profile_at(a, a->exposure_time[than]));
}

/* The exposure of a reconstructor that lacks most, if that is too much; else -1. */
static int find_worst(const choice *c, int first, int end) {
    double most = 1;
    int worst = -1;
    for (int e = first; e < end; e++) {
        const double of = lacking(c, e);
        if (of > most || (worst >= 0 && of == most && is_rougher(c->a, e, worst))) {
            most = of;
            worst = e;
        }
    }
    return worst;
}

/* Time of a reconstructor's W and residuals, all nodes in all exposures: 1 each. */
static double time_of(const choice *c, int first, int end, bool line) {
    const double part[] = {
        [FIELD_SPARSE] = line ? 0.55 : SPARE, [FIELD_HALF] = HALF, [FIELD_WHOLE] = 1};
    double residuals = 0, solve = 0;
    for (int e = first; e < end; e++) {
        residuals += part[c->level[e]];
        solve = fmax(solve, part[c->level[e]]);
    }
    return residuals + SOLVE * solve;
}

bool field_choose_levels(const sys *s, const atmos *a, double tolerance, double step, bool line,
                         unsigned char *level) {
    const choice c = {s, a, tolerance, step, level};
    double time = 0;
    memset(level, FIELD_SPARSE, (size_t)a->nexposure);
    for (int k = 0; k < a->ntor; k++) {
        int first, end;
        atmos_exposures_of(a, k, &first, &end);
        for (int e; (e = find_worst(&c, first, end)) >= 0;) {
            level[e] = level[e] == FIELD_SPARSE && !line ? FIELD_HALF : FIELD_WHOLE;
            if (lacking(&c, e) > 1)
                level[e] = FIELD_WHOLE;
        }
        time += time_of(&c, first, end, line);
    }
    const bool pays = time < SAVES * (SOLVE * a->ntor + a->nexposure);
    if (!pays)
        memset(level, FIELD_WHOLE, (size_t)a->nexposure);
    return pays;
}

void field_work(const field *f, const atmos *a, double *solves, double *residuals) {
    *solves = *residuals = 0;
    for (int k = 0; k < a->ntor; k++) {
        int first, end;
        atmos_exposures_of(a, k, &first, &end);
        for (int i = 0; i < f->nnode; i++) {
            int of = 0;
            for (int e = first; e < end; e++)
                of += field_computes(f, i, k, e);
            *solves += of > 0;
            *residuals += of;
        }
    }
}
