/* Fitting error and aliasing. With IF the influence functions at the points, M = I - 11'/points,
 * A = M IF and P the projector on the shapes A c of all commands c without piston,
 *
 *     fitting               V[(1 - P) phi] = V[phi] - tr(P Cphi)/points
 *     fitting and aliasing  V[phi - IF D+ s_t] = V[phi] + <D+'G D+, Ctt> - 2/points <A D+, Cpt>
 *
 * with Cphi = -D/2, which M makes the covariance. What multiplies Cphi, Ctt and Cpt depends on the
 * mirror alone, and is used for every outer scale at once. Direction and altitude do not matter, so
 * a layer of strength 1 on the ground stands for all of an outer scale. The truth sensor's part is
 * made in truth.c. */
#include "budget/mirror.h"

#include "budget/truth.h"
#include "linalg/scalapack.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SCALES 16 /* outer scales, before they are taken from a table */
#define RIDGE 1e-13    /* of the mean of G's diagonal, where its factor needs one */

typedef struct { /* a row of points, and the influence functions that reach it there */
    psf_strip s;
    double *influence; /* nact x n */
} strip;

typedef struct {
    const sys *s;
    const psf *p;
    const double *dplus;
    int v, np, rows;
    strip *strips; /* [rows] */
    size_t most;   /* numbers of the largest strip's influence functions */
    double *mean;  /* [v] of each influence function over the points */
    double *g;     /* v x v */
    double *fit;   /* v x v: (points times) the inverse of G among commands without piston */
    double *sums;  /* [2 n]: tr(P Cphi)/points, then fitting and aliasing less V[phi] */
} work;

/* --- outer scales */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Different ones of all layers; where they are many, steps of their logarithm. */
static status find_scales(const atmos *a, mirror_budget *b) {
    size_t most = MOST_SCALES + 1;
    int n = 0;
    status st;
    for (int i = 0; i < a->nprofile; i++)
        most += (size_t)a->profiles[i].nlayer;
    TRY(ALLOC(b->L0, most, "outer scales"));
    for (int i = 0; i < a->nprofile; i++)
        for (int l = 0; l < a->profiles[i].nlayer; l++)
            if (a->profiles[i].strength[l] > 0)
                b->L0[n++] = a->profiles[i].L0[l];
    qsort(b->L0, (size_t)n, sizeof *b->L0, by_size);
    for (int i = 0; i < n; i++)
        if (b->n == 0 || b->L0[i] > b->L0[b->n - 1])
            b->L0[b->n++] = b->L0[i];
    const int infinite = b->n > 0 && isinf(b->L0[b->n - 1]);
    if (b->n - infinite > MOST_SCALES) {
        const double low = b->L0[0], ratio = b->L0[b->n - 1 - infinite] / low;
        for (int i = 0; i < MOST_SCALES; i++)
            b->L0[i] = low * pow(ratio, i / (MOST_SCALES - 1.0));
        b->L0[MOST_SCALES] = INFINITY;
        b->n = MOST_SCALES + infinite;
    }
    TRY(ALLOC(b->fitting, (size_t)b->n, "fitting errors"));
    TRY(ALLOC(b->aliasing, (size_t)b->n, "aliasing"));
done:
    return st;
}

static double value_at(const mirror_budget *b, const double *of, double L0) {
    int i = 0;
    while (i < b->n - 1 && b->L0[i] < L0 * (1 - 1e-12))
        i++;
    if (i == 0 || isinf(L0) || fabs(b->L0[i] - L0) <= 1e-12 * L0)
        return of[i];
    const double x = log(L0 / b->L0[i - 1]) / log(b->L0[i] / b->L0[i - 1]);
    return of[i - 1] + x * (of[i] - of[i - 1]);
}

void mirror_budget_of(const mirror_budget *b, const profile *p, double *fitting, double *aliasing) {
    *fitting = *aliasing = 0;
    for (int l = 0; l < p->nlayer; l++)
        if (p->strength[l] > 0) {
            *fitting += p->strength[l] * value_at(b, b->fitting, p->L0[l]);
            *aliasing += p->strength[l] * value_at(b, b->aliasing, p->L0[l]);
        }
}

/* --- the mirror's shapes */

/* Means of the influence functions, and G. */
static void fill_shapes(work *k) {
    const int v = k->v;
    for (int j = 0; j < k->rows; j++) {
        const psf_strip z = k->strips[j].s;
        const double *influence = k->strips[j].influence;
        if (z.n == 0 || z.nact == 0)
            continue;
        for (int i = 0; i < z.n; i++)
            for (int b = 0; b < z.nact; b++)
                k->mean[z.act + b] += influence[(size_t)i * (size_t)z.nact + (size_t)b] / k->np;
        cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, z.nact, z.n, 1.0 / k->np, influence,
                    z.nact, 1.0, k->g + (size_t)z.act * (size_t)(v + 1), v);
    }
    cblas_dsyr(CblasColMajor, CblasLower, v, -1.0, k->mean, 1, k->g, v);
    for (int j = 0; j < v; j++)
        for (int i = 0; i < j; i++)
            k->g[(size_t)i + (size_t)j * (size_t)v] = k->g[(size_t)j + (size_t)i * (size_t)v];
}

/* fit = the inverse of N G N on its range, N = I - 11'/v: with c 11'/v added the inverse has 11'/(v
 * c), which is taken off again. Where influence functions are so wide that G is singular to
 * rounding, a ridge. */
static status fill_inverse(work *k) {
    const int v = k->v;
    const size_t n = (size_t)v;
    double *row = NULL, all = 0, c = 0;
    int info = 1;
    status st;
    TRY(ALLOC(row, n, "means of rows"));
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < n; i++)
            row[j] += k->g[i + j * n] / v;
        all += row[j] / v;
        c += k->g[j + j * n] / v;
    }
    for (double ridge = 0; info != 0 && ridge<1e-3; ridge = ridge> 0 ? 10 * ridge : RIDGE) {
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++)
                k->fit[i + j * n] =
                    k->g[i + j * n] - row[i] - row[j] + all + c / v + (i == j ? c * ridge : 0);
        dpotrf_("L", &v, k->fit, &v, &info);
    }
    if (info == 0)
        dpotri_("L", &v, k->fit, &v, &info);
    if (info != 0)
        TRY(status_fail(MOAO_NUMERIC,
                        "the shapes of the mirror's actuators cannot be told apart (dm.coupling "
                        "%g); use output.budget=none",
                        k->s->dm.coupling));
    for (size_t j = 0; j < n; j++)
        for (size_t i = j; i < n; i++)
            k->fit[j + i * n] = k->fit[i + j * n] -= 1 / (v * c);
done:
    free(row);
    return st;
}

/* --- fitting error */

/* Of Z = IF fit IF'/points at the points of a row: its diagonal, and Z 1 = IF fit mean. */
static void row_of_projector(const work *k, const double *command, int j, double *diagonal,
                             double *sum, double *room) {
    const strip *z = &k->strips[j];
    if (z->s.n == 0 || z->s.nact == 0)
        return;
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, z->s.nact, z->s.n, z->s.nact,
                1.0 / k->np, k->fit + (size_t)z->s.act * (size_t)(k->v + 1), k->v, z->influence,
                z->s.nact, 0.0, room, z->s.nact);
    for (int i = 0; i < z->s.n; i++) {
        const double *f = z->influence + (size_t)i * (size_t)z->s.nact;
        diagonal[z->s.first + i] =
            cblas_ddot(z->s.nact, room + (size_t)i * (size_t)z->s.nact, 1, f, 1);
        sum[z->s.first + i] = cblas_ddot(z->s.nact, command + z->s.act, 1, f, 1);
    }
}

/* This rank's part of tr(P Cphi) for structure functions d (by separation) of each outer scale,
 * P = M Z M. Sums over pairs give Z(x, x) - Z(x', x); what M and the diagonal add needs the sum of
 * d from each point to all the others alone. */
static status add_projector(const comm *c, work *k, int n, double *const *d, double *out) {
    const size_t nsep = psf_sep_count(k->p), np = (size_t)k->np, v = (size_t)k->v;
    double *pairs = NULL, *none = NULL, *command = NULL, *point = NULL, *room = NULL;
    status st;
    TRY(ALLOC(pairs, nsep, "shapes of the mirror by separation"));
    TRY(ALLOC(none, v, "commands"));
    TRY(ALLOC(command, v, "commands"));
    TRY(ALLOC(point, 3 * np, "shapes at the points"));
    TRY(ALLOC(room, k->most, "influence functions"));
    double *diagonal = point, *sum = point + np, *all = point + 2 * np, total = 0;
    const size_t a0 = v * (size_t)c->rank / (size_t)c->size,
                 a1 = v * ((size_t)c->rank + 1) / (size_t)c->size;
    TRY(psf_accumulate_phase(k->p, a0, a1 - a0, k->fit + a0, v, none, 0, pairs));
    for (size_t i = 0; i < nsep; i++)
        pairs[i] *= 0.25 / k->np;
    cblas_dgemv(CblasColMajor, CblasNoTrans, k->v, k->v, 1.0, k->fit, k->v, k->mean, 1, 0.0,
                command, 1);
    for (int j = 0; j < k->rows; j++)
        row_of_projector(k, command, j, diagonal, sum, room);
    for (size_t x = 0; x < np; x++) {
        sum[x] /= k->np;
        total += sum[x] / k->np;
    }
    for (int i = 0; i < n; i++) {
        for (size_t x = 0; x < nsep; x++)
            out[i] += 0.5 * pairs[x] * d[i][x];
        psf_pair_sums(k->p, d[i], all);
        for (size_t x = 0; c->rank == 0 && x < np; x++)
            out[i] -= 0.5 * all[x] * (diagonal[x] - 2 * sum[x] + total);
    }
done:
    free(pairs);
    free(none);
    free(command);
    free(point);
    free(room);
    return st;
}

/* --- life */

static status open_work(work *k, mirror_budget *b) {
    const size_t v = (size_t)k->v;
    status st;
    k->most = 1;
    TRY(ALLOC(k->strips, (size_t)k->rows, "rows of points"));
    for (int j = 0; j < k->rows; j++) {
        strip *z = &k->strips[j];
        z->s = psf_influence(k->p, j, NULL);
        const size_t n = (size_t)z->s.n * (size_t)z->s.nact;
        k->most = n > k->most ? n : k->most;
        TRY(ALLOC(z->influence, n, "influence functions"));
        psf_influence(k->p, j, z->influence);
    }
    TRY(ALLOC(k->mean, v, "influence functions"));
    TRY(ALLOC(k->fit, v * v, "shapes of the mirror"));
    TRY(ALLOC(k->sums, 2 * (size_t)b->n, "variances"));
    TRY(ALLOC(b->influence, v * v, "shapes of the mirror"));
    k->g = b->influence;
done:
    return st;
}

/* This rank's part of the variances. */
static status add_all(const comm *c, work *k, mirror_budget *b) {
    const size_t nsep = psf_sep_count(k->p);
    double *projected = NULL, **d = NULL, strength = 1, none = 0;
    status st;
    TRY(ALLOC(projected, (size_t)b->n, "variances"));
    TRY(ALLOC(d, (size_t)b->n, "structure functions"));
    fill_shapes(k);
    TRY(fill_inverse(k));
    for (int i = 0; i < b->n; i++) {
        const profile one = {.nlayer = 1, .h = &none, .L0 = &b->L0[i], .strength = &strength};
        TRY(ALLOC(d[i], nsep, "structure function by separation"));
        TRY(psf_structure(k->p, &one, d[i]));
    }
    TRY(add_projector(c, k, b->n, d, projected));
    for (int i = 0; i < b->n; i++) {
        const double turbulence = c->rank == 0 ? 0.5 * psf_pair_mean(k->p, d[i]) : 0;
        k->sums[i] = turbulence - projected[i] / k->np;
        k->sums[b->n + i] = turbulence;
    }
    st = truth_variance(c, k->s, k->p, k->dplus, k->mean, b->n, b->L0, k->sums + b->n);
done:
    for (int i = 0; d != NULL && i < b->n; i++)
        free(d[i]);
    free(d);
    free(projected);
    return st;
}

/* Of psf.residual: sensor. */
static status init_of_sensor(const sys *s, const psf *p, mirror_budget *b) {
    const size_t v = (size_t)s->dm.nact;
    double strength = 1, none = 0;
    status st;
    TRY(ALLOC(b->influence, v * v, "shapes of the mirror"));
    psf_variance_weights(p, b->influence);
    for (int i = 0; i < b->n; i++) {
        const profile one = {.nlayer = 1, .h = &none, .L0 = &b->L0[i], .strength = &strength};
        TRY(psf_fit_ideal(p, &one, &b->fitting[i]));
    }
done:
    return st;
}

status mirror_budget_init(const comm *c, const sys *s, const psf *p, const double *dplus,
                          const atmos *a, mirror_budget *b) {
    const double *x, *y;
    work k = {.s = s,
              .p = p,
              .dplus = dplus,
              .v = s->dm.nact,
              .np = (int)psf_points(p, &x, &y),
              .rows = psf_lattice_rows(p)};
    status st;
    *b = (mirror_budget){0};
    st = find_scales(a, b);
    if (!psf_is_phase(p)) {
        if (st == MOAO_OK)
            st = init_of_sensor(s, p, b);
        return comm_agree(c, st);
    }
    if (st == MOAO_OK)
        st = open_work(&k, b);
    if (st == MOAO_OK)
        st = add_all(c, &k, b);
    TRY(comm_agree(c, st));
    comm_sum(c, k.sums, 2 * (size_t)b->n);
    for (int i = 0; i < b->n; i++) {
        b->fitting[i] = k.sums[i];
        b->aliasing[i] = k.sums[b->n + i] - k.sums[i];
    }
done:
    for (int j = 0; k.strips != NULL && j < k.rows; j++)
        free(k.strips[j].influence);
    free(k.strips);
    free(k.mean);
    free(k.fit);
    free(k.sums);
    if (st != MOAO_OK)
        mirror_budget_free(b);
    return st;
}

void mirror_budget_free(mirror_budget *b) {
    free(b->L0);
    free(b->fitting);
    free(b->aliasing);
    free(b->influence);
    *b = (mirror_budget){0};
}

/* --- what it takes */

size_t mirror_budget_bytes(const sys *s) {
    return (size_t)s->dm.nact * (size_t)s->dm.nact * sizeof(double);
}

size_t mirror_budget_work(const sys *s, const psf_opts *o) {
    if (!o->phase)
        return 0;
    const size_t v = (size_t)s->dm.nact, np = psf_points_of(s, o), truth = truth_bytes(s, np);
    const size_t reach = (size_t)fmin((double)v, 14 * sqrt((double)v)); /* actuators of a strip */
    const size_t pairs = 20 * psf_sep_count_of(s, o) * sizeof(double) + psf_phase_work(s, o, v, 1);
    return (2 * v * v + np * reach) * sizeof(double) + (truth > pairs ? truth : pairs);
}

double mirror_budget_flops(const sys *s, const psf_opts *o) {
    if (!o->phase)
        return 0;
    const double v = s->dm.nact, np = (double)psf_points_of(s, o);
    const double reach = fmin(v, 14 * sqrt(v)); /* actuators of a strip */
    /* inverse, shapes of the points */
    return v * v * v + 2 * np * v * reach + 4 * np * sqrt(np) * v +
           truth_flops(s, psf_points_of(s, o));
}
