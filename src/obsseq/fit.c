#include "obsseq/fit.h"

#include "base/fault.h"
#include "budget/fitting.h"
#include "factor/scalapack.h"
#include "tor/command.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MU 1e-3  /* of curvature: 1e-4 to 3e-3 change a wavefront error by less than 0.3 % */
#define EPS 1e-5 /* of commands: 1e-9 to 1e-4, less than 0.1 % */
/* Columns that are solved for at once, always the same ones (tor/command.c). */
#define COLUMNS 128

typedef struct {
    const sys *s;
    psf *p;
    int v, np;
    double *m;    /* v x v: M, then its factor, lower triangle */
    double *g;    /* v x v: A_d'A_d/n */
    double *mean; /* [directions][v] of the influence functions */
} job;

static const double axis[2] = {0, 0}, all = 1; /* where each target has its own direction */

static const double *direction_of(const sys *s, int d) {
    return d < s->fit.ndir ? s->fit.dir[d] : axis;
}

static const double *weight_of(const sys *s, int d) {
    return d < s->fit.ndir ? &s->fit.weight[d] : &all;
}

/* Commands that are fitted to direction d: of a split system those of the common mirror, and those
 * of the target's to the last one. */
static void commands_of(const sys *s, int d, int *a0, int *a1) {
    const int first = s->fit.split.on ? s->fit.mirrors[1].first : 0;
    *a0 = s->fit.split.on && d == s->fit.ndir ? first : 0;
    *a1 = s->fit.split.on && d < s->fit.ndir ? first : sys_commands(s);
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

static status factor_normal(const job *k) {
    const size_t v = (size_t)k->v, size = v * v;
    int info = 0;
    status st = MOAO_OK;
    for (int d = 0; d < sys_fit_directions(k->s); d++) {
        psf_aim(k->p, direction_of(k->s, d));
        memset(k->g, 0, size * sizeof *k->g);
        TRY(mirror_shapes(k->p, k->v, k->mean + (size_t)d * v, k->g));
        int a0, a1;
        commands_of(k->s, d, &a0, &a1);
        for (int a = a0; a < a1; a++)
            cblas_daxpy(a1 - a0, *weight_of(k->s, d), k->g + (size_t)a * v + a0, 1,
                        k->m + (size_t)a * v + a0, 1);
    }
    TRY(regularise(k));
    dpotrf_("L", &k->v, k->m, &k->v, &info);
    if (info != 0)
        st = status_fail(MOAO_NUMERIC,
                         "reconstructor.fit: the normal matrix of the mirrors' shapes is not "
                         "positive definite (minor %d of %d); use a smaller dm.coupling",
                         info, k->v);
done:
    return st;
}

/* w_d A_d'/n at points j0 .. j1 of direction d, into columns from f on. */
static status fill_shapes(const job *k, int d, int j0, int j1, double *f) {
    const size_t v = (size_t)k->v;
    const double n = k->np, w = *weight_of(k->s, d), *mean = k->mean + (size_t)d * v;
    double *strip = NULL;
    int a0, a1;
    status st = MOAO_OK;
    commands_of(k->s, d, &a0, &a1);
    psf_aim(k->p, direction_of(k->s, d));
    for (int j = 0; j < psf_lattice_rows(k->p); j++) {
        const psf_strip size = psf_influence(k->p, j, NULL);
        if (size.first + size.n <= j0 || size.first >= j1)
            continue;
        free(strip);
        TRY(ALLOC(strip, (size_t)size.n * (size_t)size.nact + 1, "influence functions"));
        const psf_strip z = psf_influence(k->p, j, strip);
        for (int i = 0; i < z.n; i++) {
            double *column = f + (size_t)(z.first + i - j0) * v;
            if (z.first + i < j0 || z.first + i >= j1)
                continue;
            for (int a = a0; a < a1; a++)
                column[a] = -w * mean[a] / n;
            for (int a = z.act < a0 ? a0 - z.act : 0; a < z.nact && z.act + a < a1; a++)
                column[z.act + a] += w * strip[(size_t)i * (size_t)z.nact + (size_t)a] / n;
        }
    }
done:
    free(strip);
    return st;
}

/* Columns j0 .. j1 of F; j0 is a multiple of COLUMNS. */
static status some_columns(job *k, int j0, int j1, double *f) {
    const size_t v = (size_t)k->v;
    int info;
    status st;
    TRY(ALLOC(k->m, v * v, "normal matrix of the mirror"));
    TRY(ALLOC(k->g, v * v, "normal matrix of the mirror"));
    TRY(ALLOC(k->mean, v * (size_t)sys_fit_directions(k->s), "influence functions"));
    TRY(factor_normal(k));
    for (int d = j0 / k->np; d * k->np < j1; d++) {
        const int from = j0 > d * k->np ? j0 : d * k->np,
                  end = j1 < (d + 1) * k->np ? j1 : (d + 1) * k->np;
        TRY(fill_shapes(k, d, from - d * k->np, end - d * k->np, f + (size_t)from * v));
    }
    for (int j = j0; j < j1; j += COLUMNS) {
        const int some = j1 - j < COLUMNS ? j1 - j : COLUMNS;
        dpotrs_("L", &k->v, &some, k->m, &k->v, f + (size_t)j * v, &k->v, &info);
    }
done:
    free(k->m);
    free(k->g);
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
    psf_aim(p, direction_of(s, d));
    for (int j = 0; j < psf_lattice_rows(p); j++) {
        const psf_strip size = psf_influence(p, j, NULL);
        free(strip);
        TRY(ALLOC(strip, (size_t)size.n * (size_t)size.nact + 1, "influence functions"));
        const psf_strip z = psf_influence(p, j, strip);
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

double fit_flops(const sys *s, const psf_opts *o) {
    const double v = sys_commands(s), np = (double)psf_points_of(s, o), n = sys_fit_directions(s);
    const double reach = s->fit.nmirror > 0 ? v : fmin(v, 14 * sqrt(v));
    return v * v * v / 3 + n * np * v * (2 * v + reach);
}
