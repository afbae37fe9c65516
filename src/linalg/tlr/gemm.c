/* Products of compressed matrices, and the triangular solve with a compressed right side: a
 * block column of C is accumulated densely and compressed once. */
#include "update.h"

static bool same_tiles(const tlr_layout *a, const tlr_layout *b) {
    return a == b || (a->n == b->n && a->nt == b->nt &&
                      !memcmp(a->first, b->first, sizeof *a->first * (size_t)(a->nt + 1)));
}

static status refuse(const char *what) {
    return status_fail(MOAO_INPUT,
                       "%s: matrices do not fit (rectangular or symmetric, the same tiles, orders "
                       "of tiles and widths of block columns)",
                       what);
}

/* op(A) and op(B)^T: the matrices themselves, or transposed copies (which are the caller's). */
typedef struct {
    const tlr *a, *b;
    tlr *copy_a, *copy_b;
} operands;

static status operands_open(const tlr *a, char transa, const tlr *b, char transb, operands *o) {
    status st = MOAO_OK;
    *o = (operands){a, b, NULL, NULL};
    if ((transa != 'N' && transa != 'T') || (transb != 'N' && transb != 'T') || a->symmetric ||
        b->symmetric)
        return refuse("tlr_gemm");
    if (transa == 'T') {
        TRY(tlr_copy(a, 'T', &o->copy_a));
        o->a = o->copy_a;
    }
    if (transb == 'N') {
        TRY(tlr_copy(b, 'T', &o->copy_b));
        o->b = o->copy_b;
    }
    if (!same_tiles(o->a->cols, o->b->cols) || o->a->step != o->b->step)
        st = refuse("tlr_gemm");
done:
    return st;
}

static void operands_close(operands *o) {
    tlr_close(o->copy_a);
    tlr_close(o->copy_b);
}

/* Tile rows of b from k on whose left factors for all rows of a from ia on fit in the memory, at
 * least one: so that large products have many rows, and small ones are many at a time. */
static int64_t rows_that_fit(const tlr *a, const tlr *b, int64_t ia, int64_t k, int64_t kb) {
    const tlr_span s = {.a = a, .b = b};
    const int64_t rows = a->rows->n - a->rows->first[ia];
    int64_t columns = tlr_span_columns(&s, k++, b->panels);
    for (; k < kb; k++) {
        columns += tlr_span_columns(&s, k, b->panels);
        if ((size_t)(rows * columns) * sizeof(double) > a->o.memory)
            break;
    }
    return k;
}

/* D += alpha A(ia .., :) B(ka .. kb, :)^T. */
static status add_products(tlr_work *w, double alpha, const tlr *a, const tlr *b, int64_t ia,
                           int64_t ka, int64_t kb, double *d, int64_t ldd) {
    status st = MOAO_OK;
    for (int64_t k = ka, end; alpha != 0 && k < kb; k = end) {
        end = rows_that_fit(a, b, ia, k, kb);
        TRY(tlr_update(w, alpha, a, b, 0, a->panels, ia, a->rows->nt, k, end,
                       d + (b->rows->first[k] - b->rows->first[ka]) * ldd, ldd));
    }
done:
    return st;
}

status tlr_gemm_dense(double alpha, const tlr *a, char transa, const tlr *b, char transb,
                      double beta, double *c, int64_t ldc) {
    tlr_work w;
    operands o;
    status st;
    tlr_work_open(&w, a->be, a->ctx);
    TRY(operands_open(a, transa, b, transb, &o));
    const tlr_layout *cols = o.b->rows;
    if (ldc < largest(o.a->rows->n, 1))
        TRY(refuse("tlr_gemm_dense"));
    TRY(tlr_dense_scale(&w, o.a->rows->n, cols->n, beta, c, ldc));
    for (int64_t k = 0; k < cols->nt; k += o.b->step)
        TRY(add_products(&w, alpha, o.a, o.b, 0, k, least(k + o.b->step, cols->nt),
                         c + cols->first[k] * ldc, ldc));
    TRY(a->be->sync(a->ctx));
done:
    tlr_work_close(&w);
    operands_close(&o);
    return st;
}

/* Block column p of C: dense, its scaled contents and products added, compressed again. */
static status accumulate(tlr_work *w, double alpha, const tlr *a, const tlr *b, double beta, tlr *c,
                         int64_t p) {
    panel *to = c->panel + p;
    const int64_t rows = panel_rows(c, p), ld = largest(rows, 1),
                  below = c->symmetric ? to->width : 0;
    double *d;
    status st;
    TRY(tlr_work_room(w, BUF_PANEL, rows * to->width, &d));
    TRY(tlr_expand_panel(w, c, p, beta, d, ld));
    TRY(add_products(w, alpha, a, b, c->symmetric ? to->c0 : 0, to->c0, to->c1, d, ld));
    TRY(tlr_compress_panel(w, c, p, d + below, ld, d + below, ld));
    if (c->symmetric)
        TRY(tlr_dense_copy(w, to->width, to->width, d, ld, to->diag, to->width));
done:
    return st;
}

status tlr_gemm(char way, double alpha, const tlr *a, char transa, const tlr *b, char transb,
                double beta, tlr *c) {
    tlr_work w;
    operands o;
    status st;
    tlr_work_open(&w, a->be, a->ctx);
    TRY(operands_open(a, transa, b, transb, &o));
    if ((way != 'A' && way != 'R') || c->symmetric || !same_tiles(c->rows, o.a->rows) ||
        !same_tiles(c->cols, o.b->rows))
        TRY(refuse("tlr_gemm"));
    for (int64_t p = 0; p < c->panels; p++)
        TRY(way == 'A' ? accumulate(&w, alpha, o.a, o.b, beta, c, p)
                       : tlr_recompress_panel(&w, alpha, o.a, o.b, beta, c, p));
    TRY(a->be->sync(a->ctx));
done:
    tlr_work_close(&w);
    operands_close(&o);
    return st;
}

status tlr_syrk_dense(double alpha, const tlr *a, double beta, double *c, int64_t ldc) {
    const tlr_layout *l = a->rows;
    tlr_work w;
    status st = MOAO_OK;
    if (a->symmetric || ldc < largest(l->n, 1))
        return refuse("tlr_syrk_dense");
    tlr_work_open(&w, a->be, a->ctx);
    for (int64_t k = 0; k < l->nt; k++) {
        const int64_t at = l->first[k];
        TRY(tlr_dense_scale(&w, l->n - at, tlr_extent(l, k), beta, c + at * (ldc + 1), ldc));
        TRY(add_products(&w, alpha, a, a, k, k, k + 1, c + at * (ldc + 1), ldc));
    }
    TRY(a->be->sync(a->ctx));
done:
    tlr_work_close(&w);
    return st;
}

status tlr_syrk(double alpha, const tlr *a, double beta, tlr *c) {
    tlr_work w;
    status st = MOAO_OK;
    if (a->symmetric || !c->symmetric || c->factor || !same_tiles(a->rows, c->rows))
        return refuse("tlr_syrk");
    tlr_work_open(&w, a->be, a->ctx);
    for (int64_t p = 0; p < c->panels; p++)
        TRY(accumulate(&w, alpha, a, a, beta, c, p));
    TRY(a->be->sync(a->ctx));
done:
    tlr_work_close(&w);
    return st;
}

status tlr_trsm(const tlr *l, tlr *a) {
    tlr_work w;
    status st = MOAO_OK;
    if (!l->factor || l->spread || a->symmetric || !same_tiles(l->rows, a->cols) ||
        l->step != a->step)
        return refuse("tlr_trsm");
    tlr_work_open(&w, a->be, a->ctx);
    for (int64_t p = 0; p < a->panels; p++) {
        const panel *here = a->panel + p;
        const int64_t rows = a->rows->n, ld = largest(rows, 1);
        double *d;
        TRY(tlr_work_room(&w, BUF_PANEL, rows * here->width, &d));
        TRY(tlr_expand_panel(&w, a, p, 1, d, ld));
        TRY(tlr_update(&w, -1, a, l, 0, p, 0, a->rows->nt, here->c0, here->c1, d, ld));
        TRY(tlr_dense_trsm(&w, 'R', 'T', rows, here->width, l->panel[p].diag, here->width, d, ld));
        TRY(tlr_compress_panel(&w, a, p, d, ld, d, ld));
    }
    TRY(a->be->sync(a->ctx));
done:
    tlr_work_close(&w);
    return st;
}
