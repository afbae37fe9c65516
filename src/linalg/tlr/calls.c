/* Tile low-rank matrices by one call each (moao/from_dense.h). */
#include "internal.h"
#include "moao/from_dense.h"

#include <math.h>

status moao_tlr_potrf(const tlr *a, tlr **l) {
    *l = NULL;
    if (a == NULL || !a->symmetric || a->factor)
        return status_fail(MOAO_INPUT,
                           "moao_tlr_potrf: argument 1 (a) is %s, a symmetric matrix is expected",
                           a == NULL   ? "NULL"
                           : a->factor ? "a factor"
                                       : "rectangular");
    const tlr_source from = {.layout = a->rows, .a = a};
    return tlr_factor(a->be, a->ctx, &from, 'L', &a->o, &(tlr_rescue){.retries = 2}, l, NULL);
}

static status wrong(int at, const char *arg, double is, const char *expected) {
    return status_fail(MOAO_INPUT, "moao_tlr_posv: argument %d (%s) is %.15g, %s is expected", at,
                       arg, is, expected);
}

static status check(int64_t n, int64_t nrhs, const double *a, int64_t lda, int dim,
                    const double *at, double tau, const double *b, int64_t ldb) {
    if (n < 0)
        return wrong(3, "n", (double)n, "at least 0");
    if (nrhs < 0)
        return wrong(4, "nrhs", (double)nrhs, "at least 0");
    if (a == NULL && n > 0)
        return status_fail(MOAO_INPUT, "moao_tlr_posv: argument 5 (a) is NULL");
    if (lda < largest(n, 1))
        return wrong(6, "lda", (double)lda, "at least n, and 1,");
    if (dim < 0 || dim > 3)
        return wrong(7, "dim", dim, "0 to 3");
    if ((at == NULL) != (dim == 0) && n > 0)
        return status_fail(MOAO_INPUT, "moao_tlr_posv: argument 8 (at) is %s with dim %d",
                           at == NULL ? "NULL" : "not NULL", dim);
    if (!(tau > 0) || !isfinite(tau))
        return wrong(9, "tau", tau, "a positive number");
    if (b == NULL && n > 0 && nrhs > 0)
        return status_fail(MOAO_INPUT, "moao_tlr_posv: argument 10 (b) is NULL");
    if (ldb < largest(n, 1))
        return wrong(11, "ldb", (double)ldb, "at least n, and 1,");
    return MOAO_OK;
}

/* B := A^-1 B, in the order of the layout on the way. */
static status solve(const tlr *l, const tlr_layout *order, int64_t nrhs, double *b, int64_t ldb) {
    const int64_t n = order->n, bytes = 8 * n * nrhs;
    double *host = NULL;
    void *there = NULL;
    status st;
    TRY(ALLOC(host, (size_t)(n * nrhs), "right-hand sides"));
    TRY(l->be->alloc(l->ctx, (size_t)bytes + 1, &there));
    for (int64_t j = 0; j < nrhs; j++)
        for (int64_t i = 0; i < n; i++)
            host[i + j * n] = b[order->perm[i] + j * ldb];
    TRY(l->be->copy(l->ctx, there, bytes, host, bytes, bytes, 1));
    TRY(tlr_solve(l, 'L', 'A', nrhs, there, n));
    TRY(l->be->copy(l->ctx, host, bytes, there, bytes, bytes, 1));
    TRY(l->be->sync(l->ctx));
    for (int64_t j = 0; j < nrhs; j++)
        for (int64_t i = 0; i < n; i++)
            b[order->perm[i] + j * ldb] = host[i + j * n];
done:
    l->be->release(l->ctx, there);
    free(host);
    return st;
}

/* Rows of a tile: about 2 sqrt(n), a multiple of 32. */
static int64_t tile_of(int64_t n) {
    const int64_t b = 32 * (int64_t)lround(2 * sqrt((double)n) / 32);
    return b < 32 ? 32 : b > 512 ? 512 : b;
}

status moao_tlr_posv(const backend *be, backend_ctx *ctx, int64_t n, int64_t nrhs, const double *a,
                     int64_t lda, int dim, const double *at, double tau, double *b, int64_t ldb) {
    const tlr_options o = {.tau = tau, .cut = -1};
    tlr_layout order = {0};
    tlr *c = NULL, *l = NULL;
    status st;
    TRY(check(n, nrhs, a, lda, dim, at, tau, b, ldb));
    if (n == 0)
        goto done;
    TRY(dim > 0 ? tlr_layout_cloud(dim, n, at, tile_of(n), &order)
                : tlr_layout_plain(n, tile_of(n), &order));
    TRY(moao_tlr_from_dense(be, ctx, &order, a, lda, &o, &c));
    TRY(moao_tlr_potrf(c, &l));
    if (nrhs > 0)
        TRY(solve(l, &order, nrhs, b, ldb));
done:
    tlr_close(c), tlr_close(l);
    tlr_layout_free(&order);
    return st;
}
