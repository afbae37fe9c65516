/* Formats of covariances between points, from a kernel that is data (moao/from_points.h). */
#include "moao/from_points.h"
#include "../hier/points.h"
#include "entries.h"
#include "internal.h"

#include <stdlib.h>

hier_function gp_function(const gp_kernel *k, const gp_radial *r) {
    const bool table = r->steps > 0;
    return (hier_function){.kernel = k->family == MOAO_GP_MATERN                ? HIER_MATERN
                                     : k->family == MOAO_GP_SQUARED_EXPONENTIAL ? HIER_GAUSSIAN
                                                                                : HIER_POWERED,
                           .length = 1,
                           .shape = r->shape,
                           .variance = k->variance,
                           .nugget = k->nugget,
                           .table = table ? r->table[0] : NULL,
                           .steps = r->steps,
                           .first = r->first};
}

/* In the order of perm (NULL: as they are). */
static status open_source(const backend *be, backend_ctx *ctx, const gp_kernel *k, int dim,
                          int64_t n, const double *at, const int64_t *perm, hier_source *s) {
    gp_radial r = {0};
    double *scaled = NULL;
    status st;
    *s = (hier_source){0};
    TRY(gp_check_kernel(k, dim));
    if (!be->hier || n < 0 || n > INT32_MAX)
        TRY(status_fail(MOAO_INPUT, "a kernel at %lld points: at most %d are possible%s",
                        (long long)n, INT32_MAX,
                        be->hier ? "" : ", on a backend that computes entries"));
    TRY(ALLOC(scaled, (size_t)(dim * n), "scaled coordinates"));
    TRY(gp_scale(k, dim, n, at, perm, scaled));
    TRY(gp_radial_set(&r, k, false));
    const hier_function f = gp_function(k, &r);
    TRY(hier_function_open(be, ctx, &f, dim, n, scaled, scaled, s));
    scaled = NULL;
done:
    gp_radial_free(&r);
    free(scaled);
    return st;
}

status moao_hier_kernel_open(const backend *be, backend_ctx *ctx, const gp_kernel *k, int dim,
                             int64_t n, const double *at, hier_source *s) {
    return open_source(be, ctx, k, dim, n, at, NULL, s);
}

static status hier_from_points(const backend *be, backend_ctx *ctx, hier_kind kind,
                               const gp_kernel *k, int dim, int64_t n, const double *at,
                               const hier_options *o, moao_hier **out) {
    hier_options with = *o;
    hier_source s;
    status st;
    *out = NULL;
    with.kind = kind;
    TRY(open_source(be, ctx, k, dim, n, at, NULL, &s));
    st = hier_open(be, ctx, &s, &with, out);
done:
    hier_points_close(&s);
    return st;
}

status moao_hss_from_points(const backend *be, backend_ctx *ctx, const gp_kernel *k, int dim,
                            int64_t n, const double *at, const hier_options *o, moao_hier **out) {
    return hier_from_points(be, ctx, HIER_HSS, k, dim, n, at, o, out);
}

status moao_h2_from_points(const backend *be, backend_ctx *ctx, const gp_kernel *k, int dim,
                           int64_t n, const double *at, const hier_options *o, moao_hier **out) {
    return hier_from_points(be, ctx, HIER_H2, k, dim, n, at, o, out);
}

typedef struct {
    backend_ctx *ctx;
    hier_source s;
} filling;

static status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                   int64_t lda) {
    const filling *f = arg;
    return ni > 0 && nj > 0 ? f->s.block(f->s.from, f->ctx, BACKEND_D, i0, ni, j0, nj, a, lda)
                            : MOAO_OK;
}

status moao_tlr_from_points(const backend *be, backend_ctx *ctx, const tlr_layout *layout,
                            const gp_kernel *k, int dim, const double *at, const tlr_options *o,
                            tlr **out) {
    filling f = {.ctx = ctx};
    status st;
    *out = NULL;
    TRY(open_source(be, ctx, k, dim, layout->n, at, layout->perm, &f.s));
    st = tlr_build(be, ctx, layout, NULL, fill, &f, o, out);
done:
    hier_points_close(&f.s);
    return st;
}
