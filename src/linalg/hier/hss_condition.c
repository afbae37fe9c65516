/* The condition of an HSS matrix with its factor, by products and solves with one vector. */
#include "hss_factor.h"
#include "linalg/core/norm_estimate.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
    const hss *h;
    double shift;
    bool inverse;
    void *host, *x, *y, *work; /* numbers of the format's type */
    size_t lwork;
} black_box;

static status multiply(void *arg, bool turned, double *v) {
    const black_box *b = arg;
    const hss *h = b->h;
    const format *f = &h->f;
    const int64_t n = h->t.n, bytes = n * (int64_t)backend_size(f->o.type);
    void *result = b->inverse ? b->x : b->y;
    const hier_product product = {.side = 'L',
                                  .trans = turned && !f->symmetric ? 'T' : 'N',
                                  .nvec = 1,
                                  .alpha = 1,
                                  .x = b->x,
                                  .ldx = n,
                                  .y = b->y,
                                  .ldy = n,
                                  .work = b->work};
    status st;
    for (int64_t i = 0; i < n; i++)
        number_set(f->o.type, b->host, i, v[i]);
    TRY(f->be->copy(f->ctx, b->x, bytes, b->host, bytes, bytes, 1));
    TRY(b->inverse ? hss_solve(f, turned ? 'T' : 'N', 1, b->x, n, b->work)
                   : f->is->apply(f, &product));
    TRY(f->be->copy(f->ctx, b->host, bytes, result, bytes, bytes, 1));
    TRY(f->be->sync(f->ctx));
    for (int64_t i = 0; i < n; i++)
        v[i] = number_get(f->o.type, b->host, i) + (b->inverse ? 0 : b->shift * v[i]);
done:
    return st;
}

status hss_condition(hss *h, double shift) {
    format *f = &h->f;
    const int64_t n = h->t.n, size = (int64_t)backend_size(f->o.type);
    const double unit = f->o.type == BACKEND_D ? DBL_EPSILON / 2 : FLT_EPSILON / 2;
    const size_t solving = hss_solve_workspace(f, 1), applying = hier_workspace(f, 'L', 1);
    black_box b = {.h = h, .shift = shift, .lwork = solving > applying ? solving : applying};
    double norm, inverse;
    status st;
    f->info.rcond = NAN;
    if (n == 0)
        return MOAO_OK;
    f->checked = true; /* what is factored is what is approximated */
    TRY(mem_alloc(&b.host, (unsigned long)n, (unsigned long)size, "a vector of a norm"));
    TRY(take(f, (size_t)(n * size), &b.x));
    TRY(take(f, (size_t)(n * size), &b.y));
    TRY(take(f, b.lwork, &b.work));
    TRY(norm_estimate(n, multiply, &b, &norm));
    b.inverse = true;
    TRY(norm_estimate(n, multiply, &b, &inverse));
    f->info.rcond = norm > 0 && isfinite(norm) && isfinite(inverse) ? 1 / norm / inverse : 0;
    if (!(f->info.rcond >= norm_least_rcond(unit)))
        st = status_fail(MOAO_NUMERIC,
                         "an HSS matrix of reciprocal condition %.1e is singular to its precision: "
                         "add a shift to its diagonal",
                         f->info.rcond);
done:
    f->checked = false;
    free(b.host);
    f->be->release(f->ctx, b.x), f->be->release(f->ctx, b.y), f->be->release(f->ctx, b.work);
    return st;
}
