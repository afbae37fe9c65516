/* From the Schur complement D of a block column's rows below the block on its diagonal to what is
 * compressed of them, M_ij = L_ij L_jj^T: with G_jc = L_jc L_cc^-1 of the block's tiles, c < j,
 *
 *     M_ij = D_ij - sum over c < j of L_ic L_jc^T = D_ij - sum over c < j of M_ic G_jc^T,
 *
 * products alone. L_ij itself, M_ij L_jj^-T, is made of dense tiles only; of the others V :=
 * L_jj^-1 V leads there. */
#include "internal.h"

status tlr_inner_factors(tlr_work *w, const tlr *l, int64_t p, const double *d, int64_t ldd,
                         double **g) {
    const panel *here = l->panel + p;
    const int64_t n = here->width, first = l->cols->first[here->c0];
    status st;
    TRY(tlr_work_room(w, BUF_METRIC, n * n, g));
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

/* Inverses of the triangles L_jj, [tile columns of the block][b][b] in BUF_METRIC, where G was. */
static status invert_tiles(tlr_work *w, const tlr *l, int64_t p, const double *d, int64_t ldd,
                           double **inverse) {
    const panel *here = l->panel + p;
    const int64_t first = l->cols->first[here->c0], b = l->b;
    double *one;
    status st;
    TRY(tlr_work_identity(w, b, &one));
    TRY(tlr_work_room(w, BUF_METRIC, (here->c1 - here->c0) * b * b, inverse));
    for (int64_t j = here->c0; j < here->c1; j++) {
        const int64_t n = tlr_extent(l->cols, j), at = l->cols->first[j] - first;
        double *const to = *inverse + (j - here->c0) * b * b;
        TRY(tlr_dense_copy(w, n, n, one, w->identity, to, b));
        TRY(tlr_dense_trsm(w, 'L', 'N', n, n, d + at * (ldd + 1), ldd, to, b));
    }
done:
    return st;
}

/* V := L_jj^-1 V of all low-rank tiles of a tile column at once, part by part. */
static status divide_columns(tlr_work *w, const tlr *l, int64_t p, const tlr_batch *c,
                             const double *d, int64_t ldd) {
    const panel *here = l->panel + p;
    const int64_t first = l->cols->first[here->c0];
    int64_t i0, i1;
    status st = MOAO_OK;
    for (int64_t k = 0; k < tlr_parts(l); k++) {
        tlr_part(l, p, k, &i0, &i1);
        for (int64_t j = here->c0; i0 < i1 && tlr_batch_has(c, here, i0) && j < here->c1; j++)
            TRY(tlr_dense_trsm(w, 'L', 'N', tlr_extent(l->cols, j),
                               panel_vcol(here, i1, j) - panel_vcol(here, i0, j),
                               d + (l->cols->first[j] - first) * (ldd + 1), ldd,
                               panel_v(l, here, i0, j), tlr_extent(l->cols, j)));
    }
done:
    return st;
}

status tlr_divide(tlr_work *w, const tlr *l, int64_t p, const tlr_batch *c, const double *d,
                  int64_t ldd) {
    const panel *here = l->panel + p;
    const int64_t b = l->b;
    const bool few = tlr_few_columns(here);
    product_list dense = {0}, low = {0};
    double *inverse = NULL;
    int64_t t = 0;
    status st = MOAO_OK;
    for (int64_t i = here->r0; i < here->r1; i++)
        for (int64_t j = here->c0; tlr_batch_has(c, here, i) && j < here->c1; j++, t++) {
            const tlr_tile *tile = panel_tile(here, i, j);
            const int64_t m = c->m[t], n = c->n[t], by = (j - here->c0) * b * b;
            if (tile->kind != TLR_EMPTY && !inverse && (!few || tile->kind == TLR_DENSE))
                TRY(invert_tiles(w, l, p, d, ldd, &inverse));
            if (tile->kind == TLR_DENSE)
                TRY(tlr_list_add(&dense, (product){c->at[t], inverse + by, panel_u(l, here, i, j),
                                                   ldd, b, m, m, n, n}));
            else if (tile->kind == TLR_LOWRANK && !few)
                TRY(tlr_list_add(&low,
                                 (product){inverse + by, c->v + t * b * c->most,
                                           panel_v(l, here, i, j), b, b, n, n, tile->rank, n}));
        }
    TRY(tlr_list_run(w, &dense, BACKEND_D, 'N', 'T'));
    st = few ? divide_columns(w, l, p, c, d, ldd) : tlr_list_run(w, &low, BACKEND_D, 'N', 'N');
done:
    tlr_list_free(&dense);
    tlr_list_free(&low);
    return st;
}
