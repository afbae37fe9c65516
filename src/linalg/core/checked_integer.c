/* Checks of products by integers. `workspace`, which no context leads to, is that of the table that
 * callers have: the largest that any backend asks for. */
#include "checked.h"

static bool moduli_ok(int moduli) {
    return moduli >= 2 && moduli <= INTEGER_MODULI;
}

/* Scales are those of integers of some bits only. */
static bool scale_ok(int moduli, int64_t longest, int64_t m) {
    return moduli_ok(moduli) && longest >= 0 && longest <= INTEGER_LONGEST && m >= 0 &&
           integer_error(moduli, longest) < 1;
}

static bool matrix_ok(const integer_matrix *a) {
    return a->m >= 0 && a->k >= 0 && backend_is(a->trans, "NT") &&
           backend_ld_ok(a->trans == 'N' ? a->m : a->k, a->lda) &&
           (a->inner == NULL || a->sign == 1 || a->sign == -1);
}

static extent matrix_extent(const integer_matrix *a) {
    const bool plain = a->trans == 'N';
    return (extent){a->a, plain ? a->m : a->k, plain ? a->k : a->m, a->lda, sizeof *a->a};
}

static status scale(backend_ctx *ctx, int moduli, int64_t longest, const integer_matrix *a,
                    int32_t *exponent, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = scale_ok(moduli, longest, a->m) && matrix_ok(a) && a->k <= longest;
    const extent x[] = {matrix_extent(a),
                        {exponent, a->m, 1, a->m, sizeof *exponent},
                        {a->inner, a->k, 1, a->k, sizeof *a->inner},
                        {work, (int64_t)lwork, 1, (int64_t)lwork, 1}};
    const char *name = "scales of rows";
    const status st =
        extents_check(checked_admit(own, own->integer != NULL, fine, name), name, 4, x);
    return st != MOAO_OK ? st
           : a->m > 0    ? own->integer->scale(ctx, moduli, longest, a, exponent, work, lwork)
                         : MOAO_OK;
}

static status scale_squares(backend_ctx *ctx, int moduli, int64_t longest, int64_t m,
                            const double *square, int64_t inc, int32_t *exponent) {
    const backend *own = backend_own(ctx);
    const bool fine = scale_ok(moduli, longest, m) && inc >= 1;
    const extent x[] = {{square, 1, m, inc, sizeof *square}, {exponent, m, 1, m, sizeof *exponent}};
    const char *name = "scales of rows";
    const status st =
        extents_check(checked_admit(own, own->integer != NULL, fine, name), name, 2, x);
    return st != MOAO_OK ? st
           : m > 0 ? own->integer->scale_squares(ctx, moduli, longest, m, square, inc, exponent)
                   : MOAO_OK;
}

static status extend(backend_ctx *ctx, int moduli, int64_t longest, const integer_matrix *a,
                     int64_t before, bool front, const integer_growth *g, void *work,
                     size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine =
        scale_ok(moduli, longest, a->m) && matrix_ok(a) && before >= 0 && a->k <= longest - before;
    const extent x[] = {matrix_extent(a),
                        {g->exponent, a->m, 1, a->m, sizeof *g->exponent},
                        {g->span, 2 * a->m, 1, 2 * a->m, sizeof *g->span},
                        {g->unit, a->m, 1, a->m, sizeof *g->unit},
                        {g->sum, a->m, 1, a->m, sizeof *g->sum},
                        {a->inner, a->k, 1, a->k, sizeof *a->inner},
                        {work, (int64_t)lwork, 1, (int64_t)lwork, 1}};
    const char *name = "exponents of rows that grow";
    const status st =
        extents_check(checked_admit(own, own->integer != NULL, fine, name), name, 7, x);
    return st != MOAO_OK ? st
           : a->m > 0 ? own->integer->extend(ctx, moduli, longest, a, before, front, g, work, lwork)
                      : MOAO_OK;
}

static bool rows_ok(const integer_rows *r, int moduli, int64_t k) {
    bool fine = r->first >= 0 && r->first <= moduli;
    for (int part = 0; part < 2; part++) {
        const bool used = part == 0 ? r->first > 0 : r->first < moduli;
        const bool even = r->ld[part] % INTEGER_STEP == 0 && r->step[part] % INTEGER_STEP == 0 &&
                          (uintptr_t)r->r[part] % INTEGER_STEP == 0;
        fine = fine && (!used || (even && r->step[part] >= 0 && r->ld[part] >= integer_ld(k)));
    }
    return fine;
}

static status convert(backend_ctx *ctx, int moduli, const integer_matrix *a,
                      const integer_rows *rows) {
    const backend *own = backend_own(ctx);
    const bool fine = moduli_ok(moduli) && matrix_ok(a) && rows_ok(rows, moduli, a->k);
    const int64_t width = fine ? integer_ld(a->k) : 0;
    const extent x[] = {matrix_extent(a),
                        {rows->exponent, a->m, 1, a->m, sizeof *rows->exponent},
                        {a->inner, a->k, 1, a->k, sizeof *a->inner},
                        {a->span, 2 * a->m, 1, 2 * a->m, sizeof *a->span},
                        {rows->first > 0 ? rows->r[0] : NULL, width, a->m, rows->ld[0], 1},
                        {rows->first < moduli ? rows->r[1] : NULL, width, a->m, rows->ld[1], 1}};
    const char *name = "residues of rows";
    const status st =
        extents_check(checked_admit(own, own->integer != NULL, fine, name), name, 6, x);
    return st != MOAO_OK          ? st
           : a->m > 0 && a->k > 0 ? own->integer->convert(ctx, moduli, a, rows)
                                  : MOAO_OK;
}

static status gemm(backend_ctx *ctx, const integer_product *p, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine =
        moduli_ok(p->moduli) && backend_is(p->part, "AL") && p->m >= 0 && p->n >= 0 && p->k >= 0 &&
        p->k <= INTEGER_LONGEST && (p->part == 'A' || p->m == p->n) && p->a.first == p->b.first &&
        rows_ok(&p->a, p->moduli, p->k) && rows_ok(&p->b, p->moduli, p->k) && p->depth >= 0 &&
        p->depth <= INTEGER_DEPTH && p->depth % INTEGER_STEP == 0 && backend_ld_ok(p->m, p->ldc);
    const extent x[] = {{p->c, p->m, p->n, p->ldc, sizeof *p->c},
                        {p->a.exponent, p->m, 1, p->m, sizeof *p->a.exponent},
                        {p->b.exponent, p->n, 1, p->n, sizeof *p->b.exponent},
                        {work, (int64_t)lwork, 1, (int64_t)lwork, 1}};
    const char *name = "product by integers";
    const status st =
        extents_check(checked_admit(own, own->integer != NULL, fine, name), name, 4, x);
    return st != MOAO_OK          ? st
           : p->m > 0 && p->n > 0 ? own->integer->gemm(ctx, p, work, lwork)
                                  : MOAO_OK;
}

/* A tile of sums in 32 bits, of each modulus. */
static size_t workspace(int moduli, int64_t m, int64_t n) {
    const int64_t rows = integer_ld(m < 8192 ? m : 8192), cols = n < 4096 ? n : 4096;
    return (size_t)(moduli * rows * cols) * sizeof(int32_t);
}

const backend_integer checked_integer = {.size = sizeof(backend_integer),
                                         .workspace = workspace,
                                         .scale = scale,
                                         .scale_squares = scale_squares,
                                         .extend = extend,
                                         .convert = convert,
                                         .gemm = gemm};
