/* A pivot that is not positive: is it the compression's doing, or is the matrix not positive
 * definite?
 *
 * The factor made so far is the exact one of A + E, where E holds what was dropped of the tiles,
 * and the pivot is y^T (A + E) y for the vector y that solves the rows before it and is 1 in its
 * own. So y^T A y <= pivot + |E| |y|^2, and A is not positive definite where the right side is
 * negative. */
#include "distributed.h"

#include <math.h>

static int64_t compressed_in(const tlr *l, int64_t q, int64_t i0, int64_t i1) {
    const panel *p = l->panel + q;
    int64_t count = 0;
    for (int64_t i = largest(i0, p->r0); i < i1; i++)
        for (int64_t k = p->c0; k < p->c1; k++)
            count += panel_tile(p, i, k)->kind != TLR_DENSE;
    return count;
}

int64_t tlr_compressed_before(const tlr *l, int64_t p) {
    int64_t most = 0;
    for (int64_t i = l->panel[p].c0; i < l->panel[p].c1; i++) {
        int64_t count = 0;
        for (int64_t q = 0; q < p; q++)
            count += compressed_in(l, q, i, i + 1);
        most = largest(most, count);
    }
    return most;
}

/* Of the n x n block on the host whose leading minor of order k is the first that is not positive:
 * the pivot, and y [k] in the rows of the block. a is overwritten. */
static status look_at_block(double *a, int64_t n, int64_t k, double *pivot, double *y) {
    const double one = 1;
    int info = 0;
    status st;
    for (int64_t j = 0; j + 1 < k; j++)
        y[j] = a[k - 1 + j * n];
    *pivot = a[(k - 1) * (n + 1)];
    TRY(backend_cpu.potrf(NULL, BACKEND_D, 'L', k - 1, a, n, &info, NULL, 0));
    TRY(backend_cpu.trsm(NULL, BACKEND_D, 'L', 'L', 'N', 'N', k - 1, 1, &one, a, n, y, n, NULL, 0));
    for (int64_t j = 0; j + 1 < k; j++)
        *pivot -= y[j] * y[j];
    TRY(backend_cpu.trsm(NULL, BACKEND_D, 'L', 'L', 'T', 'N', k - 1, 1, &one, a, n, y, n, NULL, 0));
    for (int64_t j = 0; j + 1 < k; j++)
        y[j] = -y[j];
    y[k - 1] = 1;
done:
    return st;
}

/* The rest of y, before block column p: L^T y = 0 there. x [n] in the backend's memory. */
static status solve_before(tlr_work *w, const tlr *l, int64_t p, double *x) {
    const int64_t end = l->panel[p].c1, n = l->rows->n;
    status st = MOAO_OK;
    for (int64_t q = p - 1; q >= 0; q--) {
        const panel *here = l->panel + q;
        TRY(tlr_distributed_next(w, l, q));
        for (int64_t i = here->r0; i < end; i += l->step)
            TRY(tlr_side_product(w, l, q, i, least(i + l->step, end), 'L', 'N', 1, -1, x, n, x, n));
        TRY(tlr_dense_trsm(w, 'L', 'T', here->width, 1, here->diag, here->width,
                           x + l->cols->first[here->c0], n));
    }
done:
    return st;
}

/* tlr_pivot_is_certain where `tiles` tiles are compressed. */
static status is_certain(tlr_work *w, const tlr *l, int64_t p, const double *block, int64_t k,
                         double compressions, int64_t tiles, bool *certain) {
    const int64_t n = l->panel[p].width, from = l->cols->first[l->panel[p].c0];
    double *a = NULL, *y = NULL, *x, pivot, norm = 0;
    status st;
    TRY(ALLOC(a, (size_t)(n * n), "block with a pivot that is not positive"));
    TRY(ALLOC(y, (size_t)(from + n), "vector of a pivot that is not positive"));
    TRY(tlr_work_room(w, BUF_CORE, l->rows->n, &x));
    TRY(tlr_dense_copy(w, n, n, block, n, a, n));
    TRY(w->be->sync(w->ctx));
    TRY(look_at_block(a, n, k, &pivot, y + from));
    TRY(tlr_dense_copy(w, from + n, 1, y, from + n, x, from + n));
    TRY(solve_before(w, l, p, x));
    TRY(tlr_dense_copy(w, from + n, 1, x, from + n, y, from + n));
    TRY(w->be->sync(w->ctx));
    for (int64_t i = 0; i < from + n; i++)
        norm += y[i] * y[i];
    /* E has a part of each tile on both sides of the diagonal */
    *certain = pivot + compressions * l->o.tau * sqrt(2 * (double)tiles) * norm < 0;
done:
    free(a), free(y);
    return st;
}

status tlr_pivot_is_certain(tlr_work *w, const tlr *l, int64_t p, const double *block, int64_t k,
                            double compressions, bool *certain) {
    int64_t tiles = 0;
    status st;
    for (int64_t q = 0; q < p; q++)
        tiles += compressed_in(l, q, 0, l->panel[p].c1);
    *certain = tiles == 0;
    if (tiles == 0 || l->o.rank > 0)
        return MOAO_OK;
    TRY(tlr_distributed_begin(w, l, tlr_type(l), 1, "N", p));
    st = is_certain(w, l, p, block, k, compressions, tiles, certain);
    st = tlr_distributed_end(w, l, st);
done:
    return st;
}
