/* Both triangles of a Cholesky factor against rows, by products of integers
 * (moao/integer_factor.h). Block columns of L are converted when their turn comes, once for all
 * blocks of rows that are solved for together; rows as they become known, and anew where they have
 * outgrown their scales. */
#include "linalg/core/backend_check.h"
#include "moao/integer_factor.h"

typedef struct {
    const backend *be;
    backend_ctx *ctx;
    integer_factor_options o;
    const double *l;
    int64_t lda, rows;       /* rows: of a block, at most */
    const int32_t *exponent; /* of the rows of L */
    int32_t *of_l;
    int8_t *panel; /* residues of a block column of L */
    void *work;
    size_t lwork;
} solve;

/* Rows of a right-hand side, and the residues of their solution so far. */
typedef struct {
    integer_solve_rows w;
    integer_rows r;
    integer_growth g;
} solution;

#define TOGETHER 16 /* blocks of rows, at most */

static size_t aligned(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static int64_t width_of(const integer_factor_options *o, int64_t at) {
    return o->n - at < o->block ? o->n - at : o->block;
}

/* Inner size of products, at most: all but one block of columns. */
static int64_t inner_of(const integer_factor_options *o) {
    return o->n > o->block ? o->n : 0;
}

static size_t steps_work(const backend *be, const integer_factor_options *o, int64_t rows) {
    const size_t scales = (size_t)(16 * (rows > o->block ? rows : o->block));
    const int64_t b = width_of(o, 0);
    return larger(larger(scales, be->integer->workspace(o->moduli, rows, b)),
                  be->workspace(BACKEND_TRSM, BACKEND_D, rows, b));
}

static bool in_range(const backend *be, const integer_factor_options *o) {
    return be->integer != NULL && o->moduli >= 2 && o->moduli <= INTEGER_MODULI && o->n >= 0 &&
           o->n <= INTEGER_LONGEST && o->block >= INTEGER_STEP && o->block % INTEGER_STEP == 0;
}

/* Of a block of rows: exponents, units, spans and sums; residues. */
static size_t bytes_each(const integer_factor_options *o, int64_t rows) {
    return aligned((size_t)rows * (4 * sizeof(int32_t) + sizeof(double))) +
           aligned(integer_bytes(o->moduli, rows, inner_of(o)));
}

static size_t bytes_shared(const backend *be, const integer_factor_options *o, int64_t rows) {
    return aligned((size_t)o->block * sizeof(int32_t)) +
           aligned(integer_bytes(o->moduli, o->block, inner_of(o))) +
           aligned(steps_work(be, o, rows));
}

size_t integer_solve_bytes(const backend *be, const integer_factor_options *o, int64_t rows) {
    return in_range(be, o) && rows > 0 ? bytes_shared(be, o, rows) + bytes_each(o, rows) : 0;
}

/* Residues of A by scales of its own. */
static status rows_of(const solve *s, const integer_matrix *a, int8_t *r, int32_t *exponent,
                      integer_rows *out) {
    status st;
    *out = integer_plain(s->o.moduli, a->m, a->k, r, exponent);
    TRY(s->be->integer->scale(s->ctx, s->o.moduli, a->k, a, exponent, s->work, s->lwork));
    TRY(s->be->integer->convert(s->ctx, s->o.moduli, a, out));
done:
    return st;
}

/* The part of L that the columns j to j + n need: its rows to the left (trans T), whose norms are
 * bounded by their exponents, or its columns below (N). */
typedef struct {
    char trans;
    int64_t j, n, from, k; /* from, k: columns of W that enter */
    integer_rows r;
} panel;

static status panel_of(const solve *s, char trans, int64_t j, panel *p) {
    const bool left = trans == 'T';
    const int64_t n = width_of(&s->o, j), from = left ? 0 : j + n, k = left ? j : s->o.n - from;
    integer_matrix l = {.trans = left ? 'N' : 'T',
                        .m = n,
                        .k = k,
                        .a = left ? s->l + j : s->l + from + j * s->lda,
                        .lda = s->lda};
    const int64_t bytes = n * (int64_t)sizeof(int32_t);
    status st = MOAO_OK;
    *p = (panel){.trans = trans, .j = j, .n = n, .from = from, .k = k};
    if (k == 0)
        return st;
    if (!left) {
        l.inner = s->exponent + from, l.sign = 1;
        return rows_of(s, &l, s->panel, s->of_l, &p->r);
    }
    p->r = integer_plain(s->o.moduli, n, k, s->panel, s->of_l);
    TRY(s->be->copy(s->ctx, s->of_l, bytes, s->exponent + j, bytes, bytes, 1));
    TRY(s->be->integer->convert(s->ctx, s->o.moduli, &l, &p->r));
done:
    return st;
}

/* Columns j .. j + n of the solution are known: their residues. */
static status extend(const solve *s, solution *x, const panel *l) {
    const bool front = l->trans == 'N';
    const int64_t before = l->k, from = front ? l->j : 0, n = before + l->n;
    integer_matrix a = {.trans = 'N',
                        .m = x->w.rows,
                        .k = l->n,
                        .a = x->w.w + l->j * x->w.ld,
                        .lda = x->w.ld,
                        .inner = front ? s->exponent + l->j : NULL,
                        .sign = -1};
    integer_rows r = x->r;
    status st = MOAO_OK;
    if (n == s->o.n) /* the last block: nothing follows */
        return st;
    r.r[0] += from;
    TRY(s->be->integer->extend(s->ctx, s->o.moduli, s->o.n, &a, before, front, &x->g, s->work,
                               s->lwork));
    a.k = n;
    a.a = x->w.w + from * x->w.ld;
    a.inner = front ? s->exponent + from : NULL;
    a.span = x->g.span;
    TRY(s->be->integer->convert(s->ctx, s->o.moduli, &a, &r));
done:
    return st;
}

/* W(j) -= W(from: from + k) op(L), then times the inverse of the block on the diagonal, or of its
 * transpose. */
static status one_block(const solve *s, solution *x, const panel *l) {
    const double one = 1;
    const integer_solve_rows *w = &x->w;
    status st;
    if (l->k > 0) {
        integer_product p = {.moduli = s->o.moduli,
                             .part = 'A',
                             .m = w->rows,
                             .n = l->n,
                             .k = l->k,
                             .alpha = -1,
                             .beta = 1,
                             .a = x->r,
                             .b = l->r,
                             .c = w->w + l->j * w->ld,
                             .ldc = w->ld};
        p.a.r[0] += l->from;
        TRY(s->be->integer->gemm(s->ctx, &p, s->work, s->lwork));
    }
    TRY(s->be->trsm(s->ctx, BACKEND_D, 'R', 'L', l->trans, 'N', w->rows, l->n, &one,
                    s->l + l->j + l->j * s->lda, s->lda, w->w + l->j * w->ld, w->ld, s->work,
                    s->lwork));
    TRY(extend(s, x, l));
done:
    return st;
}

static status one_column(const solve *s, char trans, int64_t j, int count, solution *x) {
    panel l;
    status st = panel_of(s, trans, j, &l);
    for (int i = 0; i < count && st == MOAO_OK; i++)
        st = x[i].w.rows > 0 ? one_block(s, x + i, &l) : MOAO_OK;
    return st;
}

/* Blocks whose residues are stored at the same time, at `at` on. */
static status solve_together(const solve *s, int count, const integer_solve_rows *w, char *at) {
    const integer_factor_options *o = &s->o;
    const int64_t last = (o->n - 1) / o->block * o->block, rows = s->rows;
    solution x[TOGETHER];
    status st = MOAO_OK;
    for (int i = 0; i < count; i++, at += bytes_each(o, rows)) {
        double *sum = (void *)at;
        int32_t *exponent = (void *)(sum + rows);
        int8_t *r = (int8_t *)at + aligned((size_t)rows * (4 * sizeof(int32_t) + sizeof(double)));
        x[i] = (solution){.w = w[i],
                          .r = integer_plain(o->moduli, rows, inner_of(o), r, exponent),
                          .g = {exponent, exponent + 2 * rows, exponent + rows, sum}};
    }
    for (int64_t j = 0; j <= last && st == MOAO_OK; j += o->block)
        st = one_column(s, 'T', j, count, x);
    for (int64_t j = last; j >= 0 && st == MOAO_OK; j -= o->block)
        st = one_column(s, 'N', j, count, x);
    return st;
}

status integer_solve(const backend *be, backend_ctx *ctx, const integer_factor_options *o,
                     const double *l, int64_t lda, const int32_t *exponent, int count,
                     const integer_solve_rows *w, void *work, size_t lwork) {
    solve s = {.be = be, .ctx = ctx, .o = *o, .l = l, .lda = lda, .exponent = exponent};
    bool fine = in_range(be, o) && backend_ld_ok(o->n, lda) && count >= 0;
    for (int i = 0; i < count && fine; i++) {
        fine = w[i].rows >= 0 && backend_ld_ok(w[i].rows, w[i].ld);
        s.rows = w[i].rows > s.rows ? w[i].rows : s.rows;
    }
    if (!fine)
        return status_fail(MOAO_INPUT, "solve by integers: an argument is out of range");
    if (lwork < integer_solve_bytes(be, o, s.rows))
        return status_fail(MOAO_INPUT, "solve by integers: the workspace is too small");
    if (o->n == 0 || s.rows == 0)
        return MOAO_OK;
    char *at = work;
    s.of_l = (int32_t *)at, at += aligned((size_t)o->block * sizeof(int32_t));
    s.panel = (int8_t *)at, at += aligned(integer_bytes(o->moduli, o->block, inner_of(o)));
    s.lwork = steps_work(be, o, s.rows);
    s.work = at, at += aligned(s.lwork);
    const size_t many = (lwork - bytes_shared(be, o, s.rows)) / bytes_each(o, s.rows);
    const int together = many < TOGETHER ? (int)many : TOGETHER;
    status st = MOAO_OK;
    for (int k = 0, n; k < count && st == MOAO_OK; k += n) {
        n = count - k < together ? count - k : together;
        st = solve_together(&s, n, w + k, at);
    }
    return st;
}
