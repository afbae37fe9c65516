#include "obsseq/fit.h"

#include "base/fault.h"
#include "budget/fitting.h"
#include "factor/scalapack.h"
#include "moao/cpu_threads.h"
#include "tor/command.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MU 1e-3  /* of curvature: 1e-4 to 3e-3 change a wavefront error by less than 0.3 % */
#define EPS 1e-5 /* of commands: 1e-9 to 1e-4, less than 0.1 % */
/* Columns of F that a rank has are whole blocks of these (tor/command.c), and no product crosses
 * them: bits do not depend on the ranks. */
#define COLUMNS 128

typedef struct {
    const sys *s;
    psf *p;
    int v, np;
    double *m;    /* v x v: M, then its inverse */
    double *mean; /* [directions][v] of the influence functions */
} job;

static const double axis[2] = {0, 0}, all = 1; /* where each target has its own direction */

static const double *direction_of(const sys *s, int d) {
    return d < s->fit.ndir ? s->fit.dir[d] : axis;
}

static const double *weight_of(const sys *s, int d) {
    return d < s->fit.ndir ? &s->fit.weight[d] : &all;
}

/* Mirrors that are fitted to direction d: of a split system the common one, and that of the target
 * to the last direction. */
static void mirrors_of(const job *k, int d, int *m0, int *m1) {
    const bool on = k->s->fit.split.on, own = d == k->s->fit.ndir;
    *m0 = on && own ? 1 : 0;
    *m1 = on && !own ? 1 : psf_mirrors(k->p);
}

/* m += the terms that hold what the pupil does not see. */
static status regularise(const job *k) {
    const sys *s = k->s;
    const double area = sys_area(s);
    status st = MOAO_OK;
    for (int i = 0; i < s->fit.nmirror || i == 0; i++) {
        const dmirror *dm = s->fit.nmirror > 0 ? &s->fit.mirrors[i] : &s->dm;
        TRY(command_regularise_mirror(dm, dm->pitch * dm->pitch / area, MU, EPS,
                                      k->m + (size_t)dm->first * (size_t)(k->v + 1), (size_t)k->v));
    }
done:
    return st;
}

/* m := M^-1, whole. */
static status invert_normal(const job *k) {
    const size_t v = (size_t)k->v;
    int info = 0;
    status st = MOAO_OK;
    for (int d = 0; d < sys_fit_directions(k->s); d++) {
        int m0, m1;
        mirrors_of(k, d, &m0, &m1);
        psf_aim(k->p, direction_of(k->s, d));
        TRY(mirror_shapes_add(k->p, k->v, m0, m1, *weight_of(k->s, d), k->mean + (size_t)d * v,
                              k->m));
    }
    TRY(regularise(k));
    dpotrf_("L", &k->v, k->m, &k->v, &info);
    if (info != 0)
        TRY(status_fail(MOAO_NUMERIC,
                        "reconstructor.fit: the normal matrix of the mirrors' shapes is not "
                        "positive definite (minor %d of %d); use a smaller dm.coupling",
                        info, k->v));
    dpotri_("L", &k->v, k->m, &k->v, &info);
    mirror_shapes_whole(k->v, k->m);
done:
    return st;
}

typedef struct { /* what columns j0 .. j1 of F have of direction d, which has `before` before it */
    int d, before, j0, j1;
    const double *level; /* w_d M^-1 mean/n */
} part;

/* Of the commands from r on, at most PSF_PRODUCT_ROWS, those to points of row j, into f:
 * w_d M^-1 (N_d - mean)'/n by blocks of COLUMNS. room: psf_influence_room. */
static void fit_row(const job *k, const part *of, int r, int j, double *room, double *f) {
    const size_t v = (size_t)k->v;
    const int rows = k->v - r < PSF_PRODUCT_ROWS ? k->v - r : PSF_PRODUCT_ROWS;
    const psf_strip z = psf_influence(k->p, j, 0, NULL);
    const int first = of->before + z.first, end = first + z.n < of->j1 ? first + z.n : of->j1;
    int m0, m1;
    mirrors_of(k, of->d, &m0, &m1);
    for (int i = first > of->j0 ? first : of->j0, to; i < end; i = to) {
        to = (i / COLUMNS + 1) * COLUMNS < end ? (i / COLUMNS + 1) * COLUMNS : end;
        double *out = f + (size_t)i * v + r;
        for (int c = 0; c < to - i; c++)
            for (int a = 0; a < rows; a++)
                out[(size_t)c * v + (size_t)a] = -of->level[r + a];
        for (int m = m0; m < m1; m++)
            psf_influence_product(k->p, j, m, i - first, to - i, rows,
                                  *weight_of(k->s, of->d) / k->np, k->m + r, v, out, v, room);
    }
}

/* Of direction d, columns j0 .. j1 of F, which has d np before it. Commands are the outer loop:
 * what rows of points next to one another have in common of M^-1 stays in the cache. */
static status fit_direction(const job *k, int d, int j0, int j1, double *f) {
    const size_t v = (size_t)k->v;
    const int lattice = psf_lattice_rows(k->p);
    double *level = NULL;
    status st, worst = MOAO_OK;
    TRY(ALLOC(level, v, "influence functions"));
    psf_aim(k->p, direction_of(k->s, d));
    cblas_dgemv(CblasColMajor, CblasNoTrans, k->v, k->v, *weight_of(k->s, d) / k->np, k->m, k->v,
                k->mean + (size_t)d * v, 1, 0, level, 1);
    const part of = {.d = d, .before = d * k->np, .j0 = j0, .j1 = j1, .level = level};
    const int blas = blas_alone();
#pragma omp parallel
    {
        double *room = NULL;
        const status mine = ALLOC(room, psf_influence_room(k->p), "influence functions");
        if (mine != MOAO_OK)
#pragma omp critical
            worst = mine;
#pragma omp for schedule(dynamic, 4) collapse(2)
        for (int r = 0; r < k->v; r += PSF_PRODUCT_ROWS)
            for (int j = 0; j < lattice; j++)
                if (room != NULL)
                    fit_row(k, &of, r, j, room, f);
        free(room);
    }
    blas_together(blas);
    st = worst;
done:
    free(level);
    return st;
}

/* Columns j0 .. j1 of F; j0 is a multiple of COLUMNS. */
static status some_columns(job *k, int j0, int j1, double *f) {
    const size_t v = (size_t)k->v;
    status st;
    TRY(ALLOC(k->m, v * v, "normal matrix of the mirror"));
    TRY(ALLOC(k->mean, v * (size_t)sys_fit_directions(k->s), "influence functions"));
    TRY(invert_normal(k));
    for (int d = j0 / k->np; d * k->np < j1; d++)
        TRY(fit_direction(k, d, j0, j1, f));
done:
    free(k->m);
    free(k->mean);
    return st;
}

status fit_init(const comm *c, const sys *s, psf *p, double *f) {
    job k = {.s = s, .p = p, .v = sys_commands(s), .np = (int)sys_fit_rows(s)};
    command_columns of;
    status st = command_deal(c, sys_fit_columns(s), COLUMNS, &of);
    if (st != MOAO_OK)
        return st;
    st = comm_fault(c, "command");
    if (st == MOAO_OK)
        st = some_columns(&k, of.first, of.first + of.n, f);
    if ((st = comm_agree(c, st)) == MOAO_OK)
        command_gather(c, (size_t)k.v, &of, f);
    else
        free(of.count);
    return st;
}

/* The low orders in direction d at the points, less their means: y (points x modes). */
static void fill_orders(const sys *s, psf *p, int d, double *y) {
    const double *px, *py;
    const size_t n = psf_points(p, &px, &py);
    const int modes = sys_low_modes(s);
    double value[LOW_MOST], mean[LOW_MOST] = {0};
    for (size_t i = 0; i < n; i++) {
        sys_low_at(s, d, px[i], py[i], value);
        for (int k = 0; k < modes; k++) {
            y[i + (size_t)k * n] = value[k];
            mean[k] += value[k] / (double)n;
        }
    }
    for (int k = 0; k < modes; k++)
        for (size_t i = 0; i < n; i++)
            y[i + (size_t)k * n] -= mean[k];
}

/* q += w_d N_d'y/n; y has no mean, so that those of N_d do not matter. */
static status add_orders(const sys *s, psf *p, int d, const double *y, double *q) {
    const int modes = sys_low_modes(s), v = sys_commands(s);
    const size_t n = sys_fit_rows(s);
    double *strip = NULL;
    status st = MOAO_OK;
    TRY(ALLOC(strip, psf_influence_most(p), "influence functions"));
    psf_aim(p, direction_of(s, d));
    for (int j = 0; j < psf_lattice_rows(p); j++)
        for (int m = 0; m < psf_mirrors(p); m++) {
            const psf_strip z = psf_influence(p, j, m, strip);
            if (z.n > 0 && z.nact > 0)
                cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, z.nact, modes, z.n,
                            *weight_of(s, d) / (double)n, strip, z.nact, y + z.first, (int)n, 1,
                            q + z.act, v);
        }
done:
    free(strip);
    return st;
}

status fit_low_orders(const sys *s, psf *p, const double *f, double *z, double *q) {
    const int modes = sys_low_modes(s), v = sys_commands(s), n = (int)sys_fit_rows(s);
    double *y = NULL;
    status st;
    TRY(ALLOC(y, (size_t)n * (size_t)modes, "low orders"));
    memset(z, 0, (size_t)v * (size_t)modes * sizeof *z);
    memset(q, 0, (size_t)v * (size_t)modes * sizeof *q);
    for (int d = 0; d < sys_fit_directions(s); d++) {
        fill_orders(s, p, d, y);
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, v, modes, n, 1,
                    f + (size_t)d * (size_t)v * (size_t)n, v, y, n, 1, z, v);
        TRY(add_orders(s, p, d, y, q));
    }
done:
    free(y);
    return st;
}

size_t fit_work_bytes(const sys *s, const psf_opts *o) {
    const size_t v = (size_t)sys_commands(s), np = psf_points_of(s, o);
    return v * (2 * v + (size_t)sys_fit_directions(s) + (size_t)(1.5 * sqrt((double)np))) *
           sizeof(double);
}

double fit_flops(const sys *s, const psf_opts *o, int nrank) {
    const double v = sys_commands(s), np = (double)psf_points_of(s, o), n = sys_fit_directions(s);
    const double reach = mirror_row_actuators(s);
    return nrank * (v * v * v + n * np * reach * reach) + n * mirror_product_flops(s, np, v);
}
