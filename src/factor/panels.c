#include "factor/panels.h"

static status divide(engine *e, const wrows *w, char trans, int64_t n, const double *l, int64_t ldl,
                     double *here) {
    const double one = 1;
    return e->be->trsm(e->ctx, BACKEND_D, 'R', 'L', trans, 'N', w->rows, n, &one, l, ldl, here,
                       w->ld, e->work, e->lwork);
}

status panel_forward(engine *e, const wrows *w, int64_t j, int64_t n, const double *l,
                     int64_t ldl) {
    const int64_t below = e->m - j - n;
    double *here = w->w + j * w->ld;
    status st = divide(e, w, 'T', n, l, ldl, here);
    if (st == MOAO_OK && below > 0)
        st = engine_gemm(e, 'N', 'T', w->rows, below, n, -1.0, here, w->ld, l + n, ldl, 1.0,
                         here + n * w->ld, w->ld);
    return st;
}

status panel_backward(engine *e, const wrows *w, int64_t j, int64_t n, const double *l,
                      int64_t ldl) {
    const int64_t below = e->m - j - n;
    double *here = w->w + j * w->ld;
    status st = MOAO_OK;
    if (below > 0)
        st = engine_gemm(e, 'N', 'N', w->rows, n, below, -1.0, here + n * w->ld, w->ld, l + n, ldl,
                         1.0, here, w->ld);
    return st == MOAO_OK ? divide(e, w, 'N', n, l, ldl, here) : st;
}
