/* Exposures in which all nodes are computed, and how the others follow from these. */
#include "field/field.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4 };
static const int steps[STEPS] = {2, 3, 4, 6}; /* rows of a node of every exposure, of the lattice */
#define FEWEST_ROWS 5                         /* of these nodes, each way */
#define NOISE 0.1   /* structure by noise of measurements, of that by turbulence */
#define LACKING 0.5 /* of the tolerance: error of what an exposure lacks, at most */
#define SOLVE 2.6   /* time of W of a node, in units of its residual, about */
#define SAVES 0.9   /* of the time at most, else every exposure computes all nodes */
#define RIDGE 1e-10 /* of the mean square of the bases */

void dposv_(const char *uplo, const int *n, const int *nrhs, double *a, const int *lda, double *b,
            const int *ldb, int *info);

/* Structure of a map: of each layer strength altitude^FIELD_STEP_ALTITUDE, then that of the noise,
 * which is of the same size in all exposures. */
typedef struct {
    int n;
    double *x;   /* [exposures][n] */
    double mean; /* of the sums over layers */
} structure;

static bool same_layers(const profile *p, const profile *q) {
    const size_t size = (size_t)p->nlayer * sizeof *p->h;
    return p->nlayer == q->nlayer && memcmp(p->h, q->h, size) == 0 &&
           memcmp(p->L0, q->L0, size) == 0;
}

static status structure_init(const atmos *a, structure *s) {
    const profile *first = atmos_profile_at(a, a->exposure_time[0]);
    s->n = first->nlayer + 1;
    s->mean = 0;
    const status st = ALLOC(s->x, (size_t)a->nexposure * (size_t)s->n, "profiles");
    if (st != MOAO_OK)
        return st;
    for (int e = 0; e < a->nexposure; e++) {
        const profile *p = atmos_profile_at(a, a->exposure_time[e]);
        double *x = s->x + (size_t)e * (size_t)s->n;
        for (int l = 0; l < first->nlayer; l++) {
            x[l] = p->strength[l] * pow(p->h[l], FIELD_STEP_ALTITUDE);
            s->mean += x[l] / a->nexposure;
        }
    }
    for (int e = 0; e < a->nexposure; e++)
        s->x[(size_t)e * (size_t)s->n + (size_t)first->nlayer] = NOISE * s->mean;
    return st;
}

static double product(const structure *s, int e, int f) {
    const double *x = s->x + (size_t)e * (size_t)s->n, *y = s->x + (size_t)f * (size_t)s->n;
    double sum = 0;
    for (int l = 0; l < s->n; l++)
        sum += x[l] * y[l];
    return sum;
}

/* The multiples of the bases' structures that are nearest to that of exposure e; squares: of the
 * structures' products with themselves, x x', as ln c is of the second order. */
static void fit(const structure *s, int e, const field_follow *f, bool squares, double *c) {
    double g[FIELD_BASES * FIELD_BASES], trace = 0;
    const int n = f->n, one = 1;
    int info;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            const double p = product(s, f->base[i], f->base[j]);
            g[i + j * n] = squares ? p * p : p;
        }
        const double p = product(s, f->base[i], e);
        c[i] = squares ? p * p : p;
        trace += g[i + i * n] / n;
    }
    for (int i = 0; i < n; i++)
        g[i + i * n] += RIDGE * trace;
    dposv_("U", &n, &one, g, &n, c, &n, &info);
    for (int i = 0; i < n && info != 0; i++)
        c[i] = i == 0;
}

/* What is left of the structure of exposure e, in units of the mean. */
static double left_of(const structure *s, int e, const field_follow *f) {
    double sum = 0;
    for (int l = 0; l < s->n; l++) {
        double x = s->x[(size_t)e * (size_t)s->n + (size_t)l];
        for (int b = 0; b < f->n; b++)
            x -= f->share[b] * s->x[(size_t)f->base[b] * (size_t)s->n + (size_t)l];
        sum += fabs(x);
    }
    return s->mean > 0 ? sum / s->mean : 0;
}

/* The exposure of those of a reconstructor that is not among the bases in f of which most is left,
 * *most in units of the mean; -1: none. Without bases the one with the largest structure. */
static int find_worst(const structure *s, int first, int end, field_follow *f, double *most) {
    int worst = -1;
    *most = 0;
    for (int e = first; e < end; e++) {
        bool base = false;
        for (int b = 0; b < f->n; b++)
            base = base || f->base[b] == e;
        if (base)
            continue;
        if (f->n > 0)
            fit(s, e, f, false, f->share);
        const double left = left_of(s, e, f);
        if (worst < 0 || left > *most) {
            *most = left;
            worst = e;
        }
    }
    return worst;
}

/* Bases of reconstructor k for coarse nodes `step` rows apart, into f; f->n: 0 where every exposure
 * has to be one. Returns residuals of a node, in the mean. */
static double choose_bases(const structure *s, const atmos *a, int k, int step, bool line,
                           field_follow *f) {
    int first, end;
    double left;
    atmos_exposures_of(a, k, &first, &end);
    const double wide = pow(step, FIELD_STEP_POWER), part = 1.0 / (line ? step : step * step);
    *f = (field_follow){0};
    for (int n = 1; n <= FIELD_BASES && n < end - first; n++) {
        f->base[n - 1] = find_worst(s, first, end, f, &left);
        f->n = n;
        find_worst(s, first, end, f, &left);
        if (wide * left <= LACKING)
            return n + (end - first - n) * part;
    }
    f->n = 0;
    return end - first;
}

static int rows_of(const field *f, int k) {
    return f->line && k == 1 ? INT_MAX : (int)ceil(f->size[k] - 1e-9) + 3;
}

/* Distance of coarse nodes that costs least [rows], 0: none pays. */
static int choose_step(const field *f, const atmos *a, const structure *s) {
    double least = SAVES * (SOLVE * a->ntor + a->nexposure);
    int best = 0;
    for (int i = 0; i < STEPS; i++) {
        double time = SOLVE * a->ntor;
        for (int k = 0; k < a->ntor; k++) {
            field_follow of;
            time += choose_bases(s, a, k, steps[i], f->line, &of);
        }
        if (time < least && rows_of(f, 0) / steps[i] >= FEWEST_ROWS &&
            rows_of(f, 1) / steps[i] >= FEWEST_ROWS) {
            least = time;
            best = steps[i];
        }
    }
    return best;
}

static void follow(const structure *s, const atmos *a, int k, const field *f) {
    int first, end;
    field_follow of;
    choose_bases(s, a, k, f->coarse, f->line, &of);
    atmos_exposures_of(a, k, &first, &end);
    for (int e = first; e < end && of.n > 0; e++) {
        field_follow *out = &f->follow[e];
        *out = of;
        fit(s, e, &of, false, out->share);
        fit(s, e, &of, true, out->square);
        for (int b = 0; b < of.n; b++)
            if (of.base[b] == e)
                out->n = 0;
    }
}

status field_follow_init(const atmos *a, field *f) {
    structure s = {0};
    status st = MOAO_OK;
    for (int e = 1; e < a->nexposure; e++)
        if (!same_layers(atmos_profile_at(a, a->exposure_time[0]),
                         atmos_profile_at(a, a->exposure_time[e])))
            return st;
    if (a->nexposure <= a->ntor)
        return st;
    TRY(structure_init(a, &s));
    f->coarse = choose_step(f, a, &s);
    if (f->coarse == 0)
        goto done;
    TRY(ALLOC(f->follow, (size_t)a->nexposure, "exposures"));
    for (int k = 0; k < a->ntor; k++)
        follow(&s, a, k, f);
done:
    free(s.x);
    return st;
}

int field_whole_exposures(const field *f, const atmos *a) {
    int n = 0;
    for (int e = 0; e < a->nexposure; e++)
        n += f->follow == NULL || f->follow[e].n == 0 || atmos_tor_of(a, e) >= f->whole_from;
    return n;
}

double field_residuals(const field *f, const atmos *a) {
    double n = 0;
    for (int e = 0; e < a->nexposure; e++)
        for (int i = 0; i < f->nnode; i++)
            n += field_computes(f, i, atmos_tor_of(a, e), e);
    return n;
}
