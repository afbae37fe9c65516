/* Fitting error. With IF the influence functions at the points, M = I - 11'/points, A = M IF and P
 * the projector on the shapes A c of all commands c without piston,
 *
 *     fitting = V[(1 - P) phi] = V[phi] - tr(P Clow)/points
 *
 * Clow: covariance of the frequencies that the lattice of points resolves. On the points the higher
 * ones are indistinguishable from lower ones, which the mirror would seem to fit. Clow is -D/2 of
 * their structure function, which M makes the covariance. P depends on the mirror alone. */
#include "budget/fitting.h"

#include "factor/scalapack.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>

#define RIDGE 1e-13 /* of the mean of G's diagonal, where its factor needs one */
#define SHARED 1e-9 /* the same of several mirrors, which make pistons and tilts together */
#define DENSE 2     /* points a pitch, at least */

typedef struct {
    const psf *p;
    double coupling, ridge;
    int v, np, rows;
    size_t most;       /* numbers of the largest row's influence functions */
    double *influence; /* [2 most] */
    double *mean;      /* [v] of each influence function over the points */
    double *fit;       /* v x v: G, then (points times) its inverse among commands without piston */
} work;

/* --- the mirror's shapes */

/* Of a row of points and mirror m: means, and products with mirrors m0 .. m of the same row. */
static void add_row(const psf_strip *z, double *const *influence, int m0, int m, double np,
                    double weight, int v, double *mean, double *g) {
    const psf_strip *a = &z[m];
    if (a->n == 0 || a->nact == 0)
        return;
    for (int i = 0; i < a->n; i++)
        for (int b = 0; b < a->nact; b++)
            mean[a->act + b] += influence[m][(size_t)i * (size_t)a->nact + (size_t)b] / np;
    cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, a->nact, a->n, weight / np, influence[m],
                a->nact, 1.0, g + (size_t)a->act * (size_t)(v + 1), v);
    for (int k = m0; k < m; k++)
        if (z[k].nact > 0)
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, a->nact, z[k].nact, a->n,
                        weight / np, influence[m], a->nact, influence[k], z[k].nact, 1.0,
                        g + (size_t)a->act + (size_t)z[k].act * (size_t)v, v);
}

status mirror_shapes_add(const psf *p, int v, int m0, int m1, double weight, double *mean,
                         double *g) {
    const double *x, *y, np = (double)psf_points(p, &x, &y);
    const size_t most = psf_influence_most(p);
    double *room = NULL, **influence = NULL;
    psf_strip *z = NULL;
    status st;
    TRY(ALLOC(room, most * (size_t)m1, "influence functions"));
    TRY(ALLOC(influence, (size_t)m1, "influence functions"));
    TRY(ALLOC(z, (size_t)m1, "influence functions"));
    for (int j = 0; j < psf_lattice_rows(p); j++)
        for (int m = m0; m < m1; m++) {
            influence[m] = room + (size_t)m * most;
            z[m] = psf_influence(p, j, m, influence[m]);
            add_row(z, influence, m0, m, np, weight, v, mean, g);
        }
    cblas_dsyr(CblasColMajor, CblasLower, v, -weight, mean, 1, g, v);
done:
    free(room);
    free(influence);
    free(z);
    return st;
}

void mirror_shapes_whole(int v, double *g) {
#pragma omp parallel for schedule(dynamic, 64)
    for (int j = 0; j < v; j++)
        for (int i = 0; i < j; i++)
            g[(size_t)i + (size_t)j * (size_t)v] = g[(size_t)j + (size_t)i * (size_t)v];
}

status mirror_shapes(const psf *p, int v, double *mean, double *g) {
    const status st = mirror_shapes_add(p, v, 0, psf_mirrors(p), 1, mean, g);
    mirror_shapes_whole(v, g);
    return st;
}

/* From G the inverse of N G N on its range, N = I - 11'/v: with c 11'/v added the inverse has
 * 11'/(v c), which is taken off again. Where influence functions are so wide that G is singular to
 * rounding, a ridge. */
static status invert(work *k) {
    const int v = k->v;
    const size_t n = (size_t)v;
    double *row = NULL, *g = NULL, all = 0, c = 0;
    int info = 1;
    status st;
    TRY(ALLOC(row, n, "means of rows"));
    TRY(ALLOC(g, n * n, "shapes of the mirror"));
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < n; i++) {
            g[i + j * n] = k->fit[i + j * n];
            row[j] += g[i + j * n] / v;
        }
        all += row[j] / v;
        c += g[j + j * n] / v;
    }
    for (double ridge = k->ridge; info != 0 && ridge<1e-3; ridge = ridge> 0 ? 10 * ridge : RIDGE) {
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++)
                k->fit[i + j * n] =
                    g[i + j * n] - row[i] - row[j] + all + c / v + (i == j ? c * ridge : 0);
        dpotrf_("L", &v, k->fit, &v, &info);
    }
    if (info == 0)
        dpotri_("L", &v, k->fit, &v, &info);
    if (info != 0)
        TRY(status_fail(MOAO_NUMERIC,
                        "the shapes of the mirror's actuators cannot be told apart (dm.coupling "
                        "%g); use output.budget=none",
                        k->coupling));
    for (size_t j = 0; j < n; j++)
        for (size_t i = j; i < n; i++)
            k->fit[j + i * n] = k->fit[i + j * n] -= 1 / (v * c);
done:
    free(row);
    free(g);
    return st;
}

status fitting_invert(const sys *s, int v, double *g) {
    work k = {
        .coupling = s->dm.coupling, .ridge = s->fit.nmirror > 1 ? SHARED : 0, .v = v, .fit = g};
    return invert(&k);
}

/* --- what of a covariance the shapes hold */

/* Of Z = IF fit IF'/points at the points of a row: its diagonal, and Z 1 = IF fit mean. */
static void row_of_projector(const work *k, const double *command, int j, double *diagonal,
                             double *sum, double *room) {
    double *other = k->influence + k->most;
    for (int m = 0; m < psf_mirrors(k->p); m++) {
        const psf_strip z = psf_influence(k->p, j, m, k->influence);
        for (int l = 0; l <= m && z.n > 0 && z.nact > 0; l++) { /* pairs of mirrors count twice */
            const psf_strip y = psf_influence(k->p, j, l, other);
            if (y.nact == 0)
                continue;
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, z.nact, z.n, y.nact,
                        (l < m ? 2.0 : 1.0) / k->np,
                        k->fit + (size_t)z.act + (size_t)y.act * (size_t)k->v, k->v, other, y.nact,
                        0.0, room, z.nact);
            for (int i = 0; i < z.n; i++)
                diagonal[z.first + i] += cblas_ddot(z.nact, room + (size_t)i * (size_t)z.nact, 1,
                                                    k->influence + (size_t)i * (size_t)z.nact, 1);
        }
        for (int i = 0; i < z.n; i++)
            sum[z.first + i] += cblas_ddot(z.nact, command + z.act, 1,
                                           k->influence + (size_t)i * (size_t)z.nact, 1);
    }
}

/* out[n] -= this rank's part of tr(P C)/points for structure functions d (by separation) of each
 * outer scale, P = M Z M. Sums over pairs give Z(x, x) - Z(x', x); what M and the diagonal add
 * needs the sum of d from each point to all the others alone. */
static status subtract_shapes(const comm *c, const work *k, int n, double *const *d, double *out) {
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
    TRY(psf_accumulate_phase(k->p, a0, a1 - a0, k->fit + a0, v, none, 0, pairs, NULL));
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
            out[i] -= 0.5 * pairs[x] * d[i][x] / k->np;
        psf_pair_sums(k->p, d[i], all);
        for (size_t x = 0; c->rank == 0 && x < np; x++)
            out[i] += 0.5 * all[x] * (diagonal[x] - 2 * sum[x] + total) / k->np;
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

static status fitting_on(const comm *c, const sys *s, const psf *p, int n, const double *L0,
                         double *out) {
    const double *x, *y;
    const size_t nsep = psf_sep_count(p), v = (size_t)sys_commands(s);
    double **d = NULL, *beyond = NULL, strength = 1, none = 0;
    work k = {.p = p,
              .coupling = s->dm.coupling,
              .ridge = s->fit.nmirror > 1 ? SHARED : 0,
              .v = sys_commands(s),
              .np = (int)psf_points(p, &x, &y),
              .rows = psf_lattice_rows(p),
              .most = psf_influence_most(p)};
    status st;
    TRY(ALLOC(k.influence, 2 * k.most, "influence functions"));
    TRY(ALLOC(k.mean, v, "influence functions"));
    TRY(ALLOC(k.fit, v * v, "shapes of the mirror"));
    TRY(ALLOC(d, (size_t)n, "structure functions"));
    TRY(ALLOC(beyond, nsep, "structure function beyond the lattice"));
    TRY(mirror_shapes(p, k.v, k.mean, k.fit));
    TRY(invert(&k));
    for (int i = 0; i < n; i++) {
        double scale = L0[i];
        const profile one = {.nlayer = 1, .h = &none, .L0 = &scale, .strength = &strength};
        TRY(ALLOC(d[i], nsep, "structure function by separation"));
        TRY(psf_structure(p, &one, d[i]));
        out[i] = c->rank == 0 ? 0.5 * psf_pair_mean(p, d[i]) : 0;
        TRY(psf_structure_beyond(p, L0[i], beyond));
        for (size_t j = 0; j < nsep; j++)
            d[i][j] -= beyond[j];
    }
    st = subtract_shapes(c, &k, n, d, out);
done:
    for (int i = 0; d != NULL && i < n; i++)
        free(d[i]);
    free(d);
    free(beyond);
    free(k.influence);
    free(k.mean);
    free(k.fit);
    return st;
}

/* Options with which a psf is little more than its points. */
static psf_opts dense_options(const sys *s) {
    return (psf_opts){.oversampling = 1,
                      .span = 2,
                      .phase = true,
                      .average = PSF_AVERAGE_MEAN,
                      .across = DENSE * s->dm.nssp};
}

int fitting_directions(const sys *s) {
    return sys_is_aloft(s) ? s->ntarget : 1;
}

status fitting_variance(const comm *c, const sys *s, psf *p, int n, const double *L0, double *out) {
    const psf_opts o = dense_options(s);
    psf *dense = NULL;
    status st = MOAO_OK;
    if (psf_lattice_rows(p) < o.across)
        TRY(psf_init(s, &o, &dense));
    for (int i = 0; i < fitting_directions(s); i++) {
        psf *on = dense != NULL ? dense : p;
        if (sys_is_aloft(s))
            psf_aim(on, s->targets[i]);
        TRY(fitting_on(c, s, on, n, L0, out + (size_t)i * (size_t)n));
    }
done:
    psf_free(dense);
    return st;
}

/* --- what it takes */

double mirror_row_actuators(const sys *s) {
    const double v = sys_commands(s);
    double sum = 0;
    for (int i = 0; i < s->fit.nmirror; i++) {
        const dmirror *m = &s->fit.mirrors[i];
        const double rows = 1 + 2 * PSF_CUT / sqrt(-2 * log(m->coupling));
        sum += fmin(m->nact, rows * (m->nssp + 1));
    }
    return s->fit.nmirror > 0 ? sum : fmin(v, 14 * sqrt(v));
}

/* A row of points, and its actuators once along y; a group of points, and the columns of actuators
 * that it sees. */
double mirror_product_flops(const sys *s, double points, double rows) {
    const int n = s->fit.nmirror > 0 ? s->fit.nmirror : 1;
    const double lattice = sqrt(points / (sys_area(s) / (s->diameter * s->diameter)));
    double columns = 0;
    for (int i = 0; i < n; i++) {
        const dmirror *m = s->fit.nmirror > 0 ? &s->fit.mirrors[i] : &s->dm;
        const double beam = PSF_PRODUCT_POINTS * s->diameter / (lattice * m->pitch),
                     reach = 1 + 2 * PSF_CUT / sqrt(-2 * log(m->coupling));
        columns += fmin(m->nssp + 1, beam + reach);
    }
    return 2 * rows * (lattice * mirror_row_actuators(s) + points * columns);
}

/* The options by which the points are chosen. */
static psf_opts points_of(const sys *s, const psf_opts *o) {
    const psf_opts dense = dense_options(s);
    return psf_points_of(s, o) < psf_points_of(s, &dense) ? dense : *o;
}

size_t fitting_bytes(const sys *s, const psf_opts *o) {
    const psf_opts used = points_of(s, o);
    const size_t v = (size_t)sys_commands(s), np = psf_points_of(s, &used);
    const size_t row = (size_t)(1.5 * sqrt((double)np) * mirror_row_actuators(s));
    return (2 * v * v + 3 * row + 23 * psf_sep_count_of(s, &used)) * sizeof(double) +
           psf_phase_work(s, &used, v, 1) + (used.across > 0 ? psf_bytes(s, &used) : 0);
}

double fitting_flops(const sys *s, const psf_opts *o) {
    const psf_opts used = points_of(s, o);
    const double v = sys_commands(s), np = (double)psf_points_of(s, &used);
    /* inverse, shapes of the points */
    return fitting_directions(s) *
           (v * v * v + 2 * np * v * mirror_row_actuators(s) + 4 * np * sqrt(np) * v);
}
