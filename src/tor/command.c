#include "tor/command.h"

#include "base/fault.h"
#include "base/machine_constants.h"
#include "factor/scalapack.h"
#include "matcov/matcov.h"
#include "tor/command_internal.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Add scale * l l' for the three consecutive actuators k[], l = (1, -2, 1), to the lower triangle
 * of a. */
static void add_curvature(const int k[3], double scale, double *a, size_t v) {
    static const double l[3] = {1, -2, 1};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            if (k[i] >= k[j])
                a[(size_t)k[i] + (size_t)k[j] * v] += scale * l[i] * l[j];
}

status command_regularise_mirror(const dmirror *dm, double g, double mu, double ridge, double *a,
                                 size_t ld) {
    const int n1 = dm->nssp + 1, v = dm->nact;
    int *number = NULL; /* of the actuator at a place of the grid, -1: none */
    status st;
    TRY(ALLOC(number, (size_t)n1 * (size_t)n1, "actuator numbers"));
    for (int i = 0; i < n1 * n1; i++)
        number[i] = -1;
    for (int k = 0; k < v; k++)
        number[dm->act[k]] = k;
    for (int j = 0; j < v; j++)
        for (int i = j; i < v; i++)
            a[(size_t)i + (size_t)j * ld] += g / v + (i == j ? g * ridge : 0);
    for (int y = 0; y < n1; y++)
        for (int x = 0; x + 2 < n1; x++) {
            const int *p = number + y * n1 + x,
                      *q = number + x * n1 + y; /* along a row, a column */
            if (p[0] >= 0 && p[1] >= 0 && p[2] >= 0)
                add_curvature((const int[3]){p[0], p[1], p[2]}, g * mu, a, ld);
            if (q[0] >= 0 && q[n1] >= 0 && q[2 * n1] >= 0)
                add_curvature((const int[3]){q[0], q[n1], q[2 * n1]}, g * mu, a, ld);
        }
done:
    free(number);
    return st;
}

status command_regularise(const sys *s, double *a) {
    const double g = (ARCSEC_PER_RAD / s->dm.pitch) * (ARCSEC_PER_RAD / s->dm.pitch);
    return command_regularise_mirror(&s->dm, g, s->dm.mu, 0, a, (size_t)s->dm.nact);
}

status command_normal(const sys *s, const double *d, double *a) {
    const int v = s->dm.nact, t = (int)s->t;
    cblas_dsyrk(CblasColMajor, CblasLower, CblasTrans, v, t, 1.0, d, t, 0.0, a, v);
    return command_regularise(s, a);
}

/* Columns that are solved for at once. Always the same ones, whatever rank has them: BLAS treats
 * the last columns of a call otherwise, and the results of a run must not depend on the ranks. */
#define COLUMNS 128

void command_remove_piston(size_t v, size_t n, double *x) {
#pragma omp parallel for
    for (size_t j = 0; j < n; j++) {
        double mean = 0, *col = x + j * v;
        for (size_t i = 0; i < v; i++)
            mean += col[i];
        mean /= (double)v;
        for (size_t i = 0; i < v; i++)
            col[i] -= mean;
    }
}

status command_norm(const sys *s, const double *a, double *norm) {
    const size_t v = (size_t)s->dm.nact;
    double *sums = NULL; /* of the absolute values of a column */
    status st;
    TRY(ALLOC(sums, v, "condition of the DM"));
    *norm = 0;
    for (size_t j = 0; j < v; j++)
        for (size_t i = j; i < v; i++) {
            sums[j] += fabs(a[i + j * v]);
            sums[i] += i > j ? fabs(a[i + j * v]) : 0;
        }
    for (size_t j = 0; j < v; j++)
        *norm = fmax(*norm, sums[j]);
done:
    free(sums);
    return st;
}

double command_norm_of(size_t v, const double *a) {
    double norm = 0;
#pragma omp parallel for schedule(static) reduction(max : norm)
    for (size_t j = 0; j < v; j++) {
        double sum = 0;
        for (size_t i = 0; i < v; i++)
            sum += fabs(a[i + j * v]);
        norm = fmax(norm, sum);
    }
    return norm;
}

status command_not_positive(const sys *s, int minor) {
    return status_fail(
        MOAO_NUMERIC,
        "the normal matrix of the DM is not positive definite (minor %d of %d); raise dm.mu", minor,
        s->dm.nact);
}

/* H from M's factor, the lower triangle of inverse->h. norm: M's. */
static void invert(const sys *s, double norm, command_inverse *inverse) {
    const int v = s->dm.nact;
    double *h = inverse->h;
    int info;
    dpotri_("L", &v, h, &v, &info);
    for (int j = 0; j < v; j++)
        for (int i = 0; i < j; i++)
            h[i + (size_t)j * (size_t)v] = h[j + (size_t)i * (size_t)v];
    inverse->condition = norm * command_norm_of((size_t)v, h);
    command_remove_piston((size_t)v, (size_t)v, h);
}

/* Columns j0..j1 of D+ into dplus; j0 is a multiple of COLUMNS. inverse: as of command_init. */
static status some_columns(const sys *s, int j0, int j1, double *dplus, command_inverse *inverse) {
    const int v = s->dm.nact, t = (int)s->t, n = j1 - j0;
    double *d = NULL, *own = NULL, norm;
    status st;
    TRY(ALLOC(d, (size_t)t * (size_t)v, "interaction matrix"));
    if (inverse == NULL)
        TRY(ALLOC(own, (size_t)v * (size_t)v, "normal matrix of the DM"));
    double *a = inverse != NULL ? inverse->h : own;
    memset(a, 0, (size_t)v * (size_t)v * sizeof *a);
    TRY(matcov_fill_interaction(s, d, (size_t)t));
    TRY(command_normal(s, d, a));
    TRY(command_norm(s, a, &norm));
    int info;
    dpotrf_("L", &v, a, &v, &info);
    if (info != 0)
        TRY(command_not_positive(s, info));
    double *x = dplus + (size_t)j0 * (size_t)v;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < v; i++)
            x[(size_t)i + (size_t)j * (size_t)v] = d[(size_t)(j0 + j) + (size_t)i * (size_t)t];
    for (int j = 0; j < n; j += COLUMNS) {
        const int some = n - j < COLUMNS ? n - j : COLUMNS;
        dpotrs_("L", &v, &some, a, &v, x + (size_t)j * (size_t)v, &v, &info);
    }
    command_remove_piston((size_t)v, (size_t)n, x);
    if (inverse != NULL)
        invert(s, norm, inverse);
done:
    free(d);
    free(own);
    return st;
}

size_t command_work_bytes(const sys *s) {
    size_t v = (size_t)s->dm.nact;
    return (s->t * v + v * v) * sizeof(double);
}

size_t command_panel_rows(size_t rows, size_t t, command_way way) {
    return t + (way != COMMAND_MATRIX ? rows : 0);
}

size_t command_bytes(size_t rows, size_t t, command_way way, bool phase) {
    const size_t square = way == COMMAND_RAW && !phase ? rows : 0;
    return rows * (command_panel_rows(rows, t, way) + square) * sizeof(double);
}

command_way command_choose(const sys *s, bool host) {
    static const char *const names[] = {"matrix", "filter", "raw"};
    const char *wanted = test_choice("projection");
    backend_filter f;
    if (s->fit.phase)
        return COMMAND_MATRIX;
    if (matcov_interaction_filter(s, &f) != MOAO_OK) {
        status_clear();
        return COMMAND_MATRIX;
    }
    for (int i = 0; i < 3 && wanted != NULL && f.reach > 0; i++)
        if (strcmp(wanted, names[i]) == 0)
            return (command_way)i;
    const int least = host ? MACHINE_FILTER_PAYS : MACHINE_FILTER_PAYS_GPU;
    return f.reach > 0 && s->dm.nssp >= least ? COMMAND_RAW : COMMAND_MATRIX;
}

/* Loss of digits that is allowed: results in double precision are compared to 1e-12. */
#define EXACT 1e-12

bool command_exact(const command_inverse *inverse) {
    return inverse->condition * DBL_EPSILON <= EXACT;
}

status command_deal(const comm *c, size_t n, size_t each, command_columns *of) {
    const size_t blocks = (n + each - 1) / each;
    status st = ALLOC(of->count, 2 * (size_t)c->size, "columns of a matrix per rank");
    if ((st = comm_agree(c, st)) != MOAO_OK)
        return st;
    of->offset = of->count + c->size;
    for (int r = 0; r < c->size; r++) {
        const size_t from = blocks * (size_t)r / (size_t)c->size * each,
                     to = blocks * (size_t)(r + 1) / (size_t)c->size * each;
        of->offset[r] = (int)from; /* of whole blocks, the last of which begins before n */
        of->count[r] = (int)(to < n ? to : n) - of->offset[r];
    }
    of->first = of->offset[c->rank];
    of->n = of->count[c->rank];
    return st;
}

void command_gather(const comm *c, size_t rows, command_columns *of, double *a) {
    MPI_Datatype column;
    MPI_Type_contiguous((int)rows, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Allgatherv(MPI_IN_PLACE, 0, column, a, of->count, of->offset, column, c->mpi);
    MPI_Type_free(&column);
    free(of->count);
}

status command_init(const comm *c, const sys *s, double *dplus, command_inverse *inverse) {
    command_columns of;
    status st = command_deal(c, s->t, COLUMNS, &of);
    if (st != MOAO_OK)
        return st;
    st = comm_fault(c, "command");
    if (st == MOAO_OK)
        st = some_columns(s, of.first, of.first + of.n, dplus, inverse);
    if ((st = comm_agree(c, st)) != MOAO_OK) {
        free(of.count);
        return st;
    }
    if (inverse != NULL) /* so that all decide alike */
        MPI_Bcast(&inverse->condition, 1, MPI_DOUBLE, 0, c->mpi);
    command_gather(c, (size_t)s->dm.nact, &of, dplus);
    return st;
}
