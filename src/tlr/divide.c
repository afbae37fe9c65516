/* From the Schur complement D of a super-panel's rows below the block on its diagonal to what is
 * compressed of them, M_ij = L_ij L_jj^T: with G_jc = L_jc L_cc^-1 of the block's tiles, c < j,
 *
 *     M_ij = D_ij - sum over c < j of L_ic L_jc^T = D_ij - sum over c < j of M_ic G_jc^T,
 *
 * products alone. L_ij itself is made of dense tiles only; of the others V leads there. */
#include "tlr/internal.h"

status tlr_inner_factors(tlr_work *w, const tlr *l, int64_t p, const double *d, int64_t ldd,
                         double **g) {
    const panel *here = l->panel + p;
    const int64_t n = here->width, first = l->cols->first[here->c0];
    status st;
    TRY(tlr_work_room(w, BUF_METRIC, n * n, g));
    /* that of dense tiles, of which there may be none so far: passes.c counts on what is held */
    TRY(tlr_work_bytes(w, w->be->workspace(BACKEND_TRSM, BACKEND_D, ldd - n, l->b)));
    TRY(tlr_dense_copy(w, n, n, d, ldd, *g, n));
    for (int64_t c = here->c0; c + 1 < here->c1; c++) {
        const int64_t at = l->cols->first[c] - first, end = l->cols->first[c + 1] - first;
        TRY(tlr_dense_trsm(w, 'R', 'N', n - end, end - at, d + at * (ldd + 1), ldd,
                           *g + end + at * n, n));
    }
done:
    return st;
}

status tlr_to_metric(tlr_work *w, const tlr *l, int64_t p, int64_t k, const double *g, double *d,
                     int64_t ldd) {
    const panel *here = l->panel + p;
    const int64_t first = l->cols->first[here->c0], n = here->width;
    int64_t i0, i1;
    status st = MOAO_OK;
    tlr_part(l, p, k, &i0, &i1);
    const int64_t row = l->rows->first[i0] - first, rows = l->rows->first[i1] - first - row;
    for (int64_t j = here->c0 + 1; rows > 0 && j < here->c1; j++) {
        const int64_t at = l->cols->first[j] - first;
        TRY(tlr_dense_gemm(w, 'N', 'T', rows, tlr_extent(l->cols, j), at, -1, d + row, ldd, g + at,
                           n, 1, d + row + at * ldd, ldd));
    }
done:
    return st;
}

status tlr_divide_dense(tlr_work *w, const tlr *l, int64_t p, int64_t k, int64_t j, double *d,
                        int64_t ldd) {
    const panel *here = l->panel + p;
    const int64_t first = l->cols->first[here->c0], at = l->cols->first[j] - first;
    int64_t i0, i1;
    status st = MOAO_OK;
    tlr_part(l, p, k, &i0, &i1);
    for (int64_t i = i0, end, last; i < i1; i = end) {
        for (end = last = i; end < i1; end++) {
            const bool dense = panel_tile(here, end, j)->kind == TLR_DENSE;
            if (!dense && (last == i || l->o.norms))
                break;
            last = dense ? end + 1 : last;
        }
        end = largest(end, i + 1);
        if (last > i)
            TRY(tlr_dense_trsm(w, 'R', 'T', l->rows->first[last] - l->rows->first[i],
                               tlr_extent(l->cols, j), d + at * (ldd + 1), ldd,
                               d + l->rows->first[i] - first + at * ldd, ldd));
    }
done:
    return st;
}
