/* The factor of a process's covariance: dense (one triangle of one array) or tile low-rank. */
#include "../hier/points.h"
#include "internal.h"

#include "moao/backend_random.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Rows i0 .. i0 + ni, columns j0 .. j0 + nj of the covariance with nugget: a tlr_fill. */
static status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                   int64_t lda) {
    const moao_gp *g = arg;
    const bool here = g->be == &backend_cpu; /* its memory is the host's */
    double *host = a;
    int64_t ld = lda;
    status st = MOAO_OK;
    if (g->entries.block && ni > 0 && nj > 0)
        return g->entries.block(g->entries.from, g->ctx, BACKEND_D, i0, ni, j0, nj, a, lda);
    if (!here) {
        ld = ni;
        TRY(ALLOC(host, (size_t)(ni * nj), "entries of a covariance"));
    }
    gp_values(&g->radial, g->k.variance, g->dim, ni, g->scaled + g->dim * i0, nj,
              g->scaled + g->dim * j0, host, ld);
    for (int64_t j = 0; j < nj; j++)
        if (j0 + j >= i0 && j0 + j < i0 + ni)
            host[j0 + j - i0 + j * ld] += g->k.nugget;
    if (!here) {
        TRY(g->be->copy(g->ctx, a, 8 * lda, host, 8 * ni, 8 * ni, nj));
        TRY(g->be->sync(g->ctx));
    }
done:
    if (!here)
        free(host);
    return st;
}

/* The device computes entries itself, of the coordinates that were scaled last. */
static status open_entries(moao_gp *g) {
    const hier_function f = gp_function(&g->k, &g->radial);
    hier_points_close(&g->entries);
    if (g->be == &backend_cpu || !g->be->hier)
        return MOAO_OK;
    return hier_function_open(g->be, g->ctx, &f, g->dim, g->n, g->scaled, NULL, &g->entries);
}

/* --- dense ----------------------------------------------------------------------------------- */

/* Operation op of an n x n matrix, with its workspace and its info. */
static status on_triangle(const moao_gp *g, backend_op op, backend_factor_op *run, int *info) {
    const size_t lwork = g->be->workspace(op, BACKEND_D, g->n, g->n);
    void *work = NULL, *where = NULL;
    status st;
    TRY(g->be->alloc(g->ctx, lwork + 1, &work));
    TRY(g->be->alloc(g->ctx, sizeof *info, &where));
    TRY(run(g->ctx, BACKEND_D, 'L', g->n, g->a, g->n, where, work, lwork));
    TRY(g->be->copy(g->ctx, info, sizeof *info, where, sizeof *info, sizeof *info, 1));
    TRY(g->be->sync(g->ctx));
done:
    g->be->release(g->ctx, work), g->be->release(g->ctx, where);
    return st;
}

static status copy_diagonal(const moao_gp *g, double *to, bool back) {
    const int64_t ld = 8 * (g->n + 1);
    const status st = back ? g->be->copy(g->ctx, g->a, ld, to, 8, 8, g->n)
                           : g->be->copy(g->ctx, to, 8, g->a, ld, 8, g->n);
    return st == MOAO_OK ? g->be->sync(g->ctx) : st;
}

/* A pivot is wrong by the rounding of n products, as in moao_tlr_factor. */
static status check_pivots(const moao_gp *g) {
    double *d = NULL, least = INFINITY, most = 0;
    status st;
    TRY(ALLOC(d, (size_t)g->n, "diagonal of a factor"));
    TRY(copy_diagonal(g, d, false));
    for (int64_t i = 0; i < g->n; i++)
        least = fmin(least, d[i]), most = fmax(most, d[i]);
    if (!(least / most * (least / most) >= (double)g->n * DBL_EPSILON / 2))
        st = status_fail(MOAO_NUMERIC,
                         "covariance: singular up to rounding with length %g and nugget %g: a "
                         "larger nugget helps",
                         g->k.length[0], g->k.nugget);
done:
    free(d);
    return st;
}

static status factor_dense(moao_gp *g) {
    const int64_t n = g->n;
    int info = 0;
    status st;
    TRY(tlr_layout_plain(n, n, &g->order));
    TRY(gp_scale(&g->k, g->dim, n, g->at, NULL, g->scaled));
    TRY(open_entries(g));
    TRY(g->be->alloc(g->ctx, (size_t)(8 * n * n), (void **)&g->a));
    g->uplo = 'L';
    for (int64_t j = 0; j < n; j += GP_PANEL)
        TRY(fill(g, j, n - j, j, n - j < GP_PANEL ? n - j : GP_PANEL, g->a + j * (n + 1), n));
    TRY(on_triangle(g, BACKEND_POTRF, g->be->potrf, &info));
    if (info)
        TRY(status_fail(MOAO_NUMERIC,
                        "covariance: not positive definite up to rounding with length %g and "
                        "nugget %g: a larger nugget helps",
                        g->k.length[0], g->k.nugget));
    st = check_pivots(g);
done:
    return st;
}

/* --- tile low-rank --------------------------------------------------------------------------- */

/* Tolerance of this nugget, where none was given. */
static double tolerance(const moao_gp *g) {
    return g->o.tau > 0 ? g->o.tau : fmax(1e-4 * g->k.nugget, 1e-10 * g->k.variance);
}

static status factor_tlr(moao_gp *g) {
    const int64_t least = 2 * g->o.tile, part = g->n / 16,
                  width = part < least  ? least
                          : part > 2048 ? 2048
                                        : part;
    const tlr_options o = {.tau = tolerance(g), .cut = -1, .width = width, .seed = g->o.seed};
    const tlr_source from = {.layout = &g->order, .fill = fill, .arg = g};
    tlr_report report;
    status st;
    TRY(gp_scale(&g->k, g->dim, g->n, g->at, NULL, g->scaled));
    TRY(tlr_layout_cloud(g->dim, g->n, g->scaled, g->o.tile, &g->order));
    TRY(gp_scale(&g->k, g->dim, g->n, g->at, g->order.perm, g->scaled));
    TRY(open_entries(g));
    TRY(tlr_factor(g->be, g->ctx, &from, 'L', &o, &(tlr_rescue){.retries = 2}, &g->l, &report));
    g->tau = report.tau;
done:
    return st;
}

/* --- either ---------------------------------------------------------------------------------- */

void gp_drop_factor(moao_gp *g) {
    g->be->release(g->ctx, g->a);
    tlr_close(g->l);
    tlr_layout_free(&g->order);
    hier_points_close(&g->entries);
    g->a = NULL, g->l = NULL, g->ready = false, g->tau = 0;
}

status gp_make_factor(moao_gp *g, const gp_kernel *k, bool of_shape) {
    status st;
    g->k = *k;
    TRY(gp_radial_set(&g->radial, k, of_shape));
    st = gp_dense(g) ? factor_dense(g) : factor_tlr(g);
done:
    return st;
}

status gp_logdet(const moao_gp *g, double *value) {
    double *d = NULL;
    status st;
    *value = 0;
    if (g->l)
        return tlr_logdet(g->l, value);
    TRY(ALLOC(d, (size_t)g->n, "diagonal of a factor"));
    TRY(copy_diagonal(g, d, false));
    for (int64_t i = 0; i < g->n; i++)
        *value += 2 * log(d[i]);
done:
    free(d);
    return st;
}

/* x in the backend's memory. */
static status solve_there(const moao_gp *g, char job, int64_t v, double *x) {
    const double one = 1;
    const bool turned = g->uplo == 'U'; /* the factor is its transpose there */
    const size_t lwork = g->l ? 0 : g->be->workspace(BACKEND_TRSM, BACKEND_D, g->n, v);
    void *work = NULL;
    status st = MOAO_OK;
    if (g->l)
        return tlr_solve(g->l, 'L', job, v, x, g->n);
    TRY(g->be->alloc(g->ctx, lwork + 1, &work));
    if (job != 'T')
        TRY(g->be->trsm(g->ctx, BACKEND_D, 'L', g->uplo, turned ? 'T' : 'N', 'N', g->n, v, &one,
                        g->a, g->n, x, g->n, work, lwork));
    if (job != 'N')
        TRY(g->be->trsm(g->ctx, BACKEND_D, 'L', g->uplo, turned ? 'N' : 'T', 'N', g->n, v, &one,
                        g->a, g->n, x, g->n, work, lwork));
    st = g->be->sync(g->ctx);
done:
    g->be->release(g->ctx, work);
    return st;
}

status gp_solve(const moao_gp *g, char job, int64_t v, double *x) {
    const int64_t bytes = 8 * g->n * v;
    void *there = NULL;
    status st;
    if (g->be == &backend_cpu)
        return solve_there(g, job, v, x);
    TRY(g->be->alloc(g->ctx, (size_t)bytes, &there));
    TRY(g->be->copy(g->ctx, there, bytes, x, bytes, bytes, 1));
    TRY(solve_there(g, job, v, there));
    TRY(g->be->copy(g->ctx, x, bytes, there, bytes, bytes, 1));
    st = g->be->sync(g->ctx);
done:
    g->be->release(g->ctx, there);
    return st;
}

status gp_times_factor(const moao_gp *g, double *x) {
    const size_t lwork = g->be->workspace(BACKEND_TRMM, BACKEND_D, g->n, 1);
    const int64_t bytes = 8 * g->n;
    const double one = 1;
    void *there = NULL, *work = NULL;
    status st;
    TRY(g->be->alloc(g->ctx, (size_t)bytes, &there));
    TRY(g->be->alloc(g->ctx, lwork + 1, &work));
    TRY(g->be->copy(g->ctx, there, bytes, x, bytes, bytes, 1));
    TRY(g->be->trmm(g->ctx, BACKEND_D, 'L', 'L', 'N', 'N', g->n, 1, &one, g->a, g->n, there, g->n,
                    work, lwork));
    TRY(g->be->copy(g->ctx, x, bytes, there, bytes, bytes, 1));
    st = g->be->sync(g->ctx);
done:
    g->be->release(g->ctx, there), g->be->release(g->ctx, work);
    return st;
}

status gp_invert(moao_gp *g, double *diagonal) {
    int info = 0;
    status st;
    TRY(copy_diagonal(g, diagonal, false));
    TRY(g->be->mirror(g->ctx, BACKEND_D, 'L', g->n, g->a, g->n));
    TRY(on_triangle(g, BACKEND_POTRI, g->be->potri, &info));
    g->uplo = 'U';
    if (info)
        st = status_fail(MOAO_NUMERIC, "covariance: its factor is singular");
done:
    return st;
}

status gp_invert_end(moao_gp *g, double *diagonal) {
    return copy_diagonal(g, diagonal, true);
}

/* Rounding of a dense factor: C + E = L L^T with |E_ij| of about sqrt(n) units of rounding of c_ii
 * (Higham, Accuracy and Stability of Numerical Algorithms, 2002, theorem 10.3, and random signs),
 * so that log det is wrong by tr(C^-1 E), of that size times tr C^-1: the mean of |L^-1 z|^2 over
 * vectors z of +-1. */
static status rounding_error(const moao_gp *g, int probes, double *error) {
    double *z = NULL, trace = 0;
    status st;
    TRY(ALLOC(z, (size_t)(g->n * probes), "probes of a trace"));
    for (int p = 0; p < probes; p++)
        for (int64_t i = 0; i < g->n; i++) {
            float v[4];
            backend_random(g->o.seed, i / 4, p, v);
            z[i + p * g->n] = v[i % 4] < 0 ? -1 : 1;
        }
    TRY(gp_solve(g, 'N', probes, z));
    for (int64_t i = 0; i < g->n * probes; i++)
        trace += z[i] * z[i] / probes;
    *error = sqrt((double)g->n) * DBL_EPSILON / 2 * (g->k.variance + g->k.nugget) * trace;
done:
    free(z);
    return st;
}

status gp_logdet_error(moao_gp *g, int probes, double *error, double *deviation) {
    const tlr_source of = {.layout = &g->order, .fill = fill, .arg = g};
    *deviation = 0;
    return g->l ? tlr_logdet_error(g->l, &of, probes, g->o.seed, error, deviation)
                : rounding_error(g, probes, error);
}
