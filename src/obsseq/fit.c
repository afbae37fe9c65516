#include "obsseq/fit.h"

#include "base/fault.h"
#include "budget/fitting.h"
#include "factor/scalapack.h"
#include "tor/command.h"

#include <math.h>
#include <stdlib.h>

#define MU 1e-3  /* of curvature: 1e-4 to 3e-3 change a wavefront error by less than 0.3 % */
#define EPS 1e-5 /* of commands: 1e-9 to 1e-4, less than 0.1 % */
/* Columns that are solved for at once, always the same ones (tor/command.c). */
#define COLUMNS 128

/* The factor of M into m (v x v, lower triangle), means of the influence functions into mean[v]. */
static status factor_normal(const sys *s, const psf *p, double *mean, double *m) {
    const int v = s->dm.nact;
    const double area = M_PI / 4 * s->diameter * s->diameter * (1 - s->obs * s->obs);
    int info = 0;
    status st;
    TRY(mirror_shapes(p, v, mean, m));
    TRY(command_regularise_mirror(&s->dm, s->dm.pitch * s->dm.pitch / area, MU, EPS, m, (size_t)v));
    dpotrf_("L", &v, m, &v, &info);
    if (info != 0)
        st = status_fail(
            MOAO_NUMERIC,
            "reconstructor.fit: the normal matrix of the mirror's shapes is not positive "
            "definite (minor %d of %d); use a smaller dm.coupling",
            info, v);
done:
    return st;
}

/* A'/n at the points of the lattice's rows that reach into j0 .. j1, into columns of f. */
static status fill_shapes(const sys *s, const psf *p, const double *mean, int j0, int j1,
                          double *f) {
    const size_t v = (size_t)s->dm.nact;
    const double *x, *y, n = (double)psf_points(p, &x, &y);
    double *strip = NULL;
    status st = MOAO_OK;
    for (int j = 0; j < psf_lattice_rows(p); j++) {
        const psf_strip size = psf_influence(p, j, NULL);
        if (size.first + size.n <= j0 || size.first >= j1)
            continue;
        free(strip);
        TRY(ALLOC(strip, (size_t)size.n * (size_t)size.nact + 1, "influence functions"));
        const psf_strip z = psf_influence(p, j, strip);
        for (int i = 0; i < z.n; i++) {
            double *column = f + (size_t)(z.first + i) * v;
            if (z.first + i < j0 || z.first + i >= j1)
                continue;
            for (size_t a = 0; a < v; a++)
                column[a] = -mean[a] / n;
            for (int a = 0; a < z.nact; a++)
                column[z.act + a] += strip[(size_t)i * (size_t)z.nact + (size_t)a] / n;
        }
    }
done:
    free(strip);
    return st;
}

/* Columns j0 .. j1 of F; j0 is a multiple of COLUMNS. */
static status some_columns(const sys *s, const psf *p, int j0, int j1, double *f) {
    const int v = s->dm.nact;
    double *m = NULL, *mean = NULL;
    int info;
    status st;
    TRY(ALLOC(m, (size_t)v * (size_t)v, "normal matrix of the mirror"));
    TRY(ALLOC(mean, (size_t)v, "influence functions"));
    TRY(factor_normal(s, p, mean, m));
    TRY(fill_shapes(s, p, mean, j0, j1, f));
    for (int j = j0; j < j1; j += COLUMNS) {
        const int some = j1 - j < COLUMNS ? j1 - j : COLUMNS;
        dpotrs_("L", &v, &some, m, &v, f + (size_t)j * (size_t)v, &v, &info);
    }
done:
    free(m);
    free(mean);
    return st;
}

status fit_init(const comm *c, const sys *s, const psf *p, double *f) {
    command_columns of;
    status st = command_deal(c, sys_fit_rows(s), COLUMNS, &of);
    if (st != MOAO_OK)
        return st;
    st = comm_fault(c, "command");
    if (st == MOAO_OK)
        st = some_columns(s, p, of.first, of.first + of.n, f);
    if ((st = comm_agree(c, st)) == MOAO_OK)
        command_gather(c, (size_t)s->dm.nact, &of, f);
    else
        free(of.count);
    return st;
}

size_t fit_work_bytes(const sys *s, const psf_opts *o) {
    const size_t v = (size_t)s->dm.nact, np = psf_points_of(s, o);
    return (v * v + v + (size_t)(1.5 * sqrt((double)np)) * v) * sizeof(double);
}

double fit_flops(const sys *s, const psf_opts *o) {
    const double v = s->dm.nact, np = (double)psf_points_of(s, o);
    return v * v * v / 3 + 2 * v * v * np + np * v * fmin(v, 14 * sqrt(v));
}
