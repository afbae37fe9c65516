/* The Cholesky factor by products of integers (moao/integer_factor.h). Residues of L are stored by
 * rows of blocks: row i, moduli one after the other, entries of a row of L contiguous. With
 * `above`, those of eight moduli of row r are the bytes of column r of A above its diagonal block,
 * which has eight for each entry of L to the left of it. */
#include "integer_constants.h"
#include "linalg/core/backend_check.h"
#include "moao/integer_factor.h"

#include <stdlib.h>

#define ABOVE 8 /* bytes of a number in double precision */

typedef struct {
    const backend *be;
    backend_ctx *ctx;
    integer_factor_options o;
    int64_t count; /* of block columns */
    double *a;
    int64_t lda;
    int32_t *exponent;
    int *info; /* [count] */
    int8_t *residues;
    void *work; /* of products and triangles */
    size_t lwork;
} potrf;

integer_factor_options integer_factor_defaults(int64_t n, bool above) {
    const int64_t eighth = (n / 8 + 127) / 128 * 128;
    return (integer_factor_options){.moduli = integer_moduli(n, 0),
                                    .n = n,
                                    .block = n >= 32768      ? 4096
                                             : eighth > 2048 ? 2048
                                             : eighth > 128  ? eighth
                                                             : 128,
                                    .above = above};
}

static int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static size_t aligned(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static int64_t rows_of(const integer_factor_options *o, int64_t i) {
    return min_of(o->block, o->n - i * o->block);
}

/* Whether residues of block row i are above the diagonal: those of a row beyond the last, up to a
 * multiple of INTEGER_ROWS, would be beyond A. */
static bool is_above(const integer_factor_options *o, int64_t i) {
    return o->above && rows_of(o, i) % INTEGER_ROWS == 0;
}

/* Bytes of block row i in the array of residues. */
static size_t bytes_of_row(const integer_factor_options *o, int64_t i) {
    const int stored = o->moduli - (is_above(o, i) ? ABOVE : 0);
    return stored > 0 ? integer_bytes(stored, rows_of(o, i), i * o->block) : 0;
}

static int64_t count_of(const integer_factor_options *o) {
    return (o->n + o->block - 1) / o->block;
}

static size_t residues_of(const integer_factor_options *o, int64_t rows) {
    size_t bytes = 0;
    for (int64_t i = 0; i < rows; i++)
        bytes += bytes_of_row(o, i);
    return bytes;
}

/* What the steps take at a time. */
static size_t steps_work(const backend *be, const integer_factor_options *o) {
    const int64_t b = min_of(o->block, o->n);
    const size_t product = be->integer->workspace(o->moduli, b, b);
    const size_t factor = be->workspace(BACKEND_POTRF, BACKEND_D, b, b);
    size_t most = product > factor ? product : factor;
    for (int64_t j = b; j < o->n; j += b) {
        const size_t solve = be->workspace(BACKEND_TRSM, BACKEND_D, o->n - j, b);
        most = most > solve ? most : solve;
    }
    return most;
}

static bool in_range(const backend *be, const integer_factor_options *o) {
    return be->integer != NULL && o->moduli >= 2 && o->moduli <= INTEGER_MODULI && o->n >= 0 &&
           o->n <= INTEGER_LONGEST && o->block >= INTEGER_STEP && o->block % INTEGER_STEP == 0;
}

size_t integer_potrf_bytes(const backend *be, const integer_factor_options *o) {
    if (!in_range(be, o) || o->n == 0)
        return 0;
    return aligned((size_t)count_of(o) * sizeof(int)) + aligned(residues_of(o, count_of(o))) +
           steps_work(be, o);
}

/* Residues of L(i, 0:i), block row i. */
static integer_rows rows_at(const potrf *f, int64_t i) {
    const integer_factor_options *o = &f->o;
    const int64_t width = i * o->block, rows = rows_of(o, i);
    const int first = o->moduli < ABOVE || !o->above ? o->moduli : ABOVE;
    int8_t *own = f->residues + residues_of(o, i);
    integer_rows r = integer_plain(o->moduli, rows, width, own, f->exponent + width);
    r.first = first;
    r.ld[1] = r.ld[0], r.step[1] = r.step[0];
    if (is_above(o, i)) {
        r.r[0] = (int8_t *)(f->a + width * f->lda);
        r.ld[0] = (int64_t)sizeof(double) * f->lda;
        r.step[0] = width;
        r.r[1] = own;
    } else {
        r.r[1] = own + first * r.step[0];
    }
    return r;
}

static double *block_at(const potrf *f, int64_t i, int64_t j) {
    return f->a + (i + j * f->lda) * f->o.block;
}

/* A(i, j) -= L(i, 0:j) L(j, 0:j)' for i >= j. */
static status update(const potrf *f, int64_t j) {
    status st = MOAO_OK;
    for (int64_t i = j; j > 0 && i < f->count && st == MOAO_OK; i++) {
        const integer_product p = {.moduli = f->o.moduli,
                                   .part = i == j ? 'L' : 'A',
                                   .m = rows_of(&f->o, i),
                                   .n = rows_of(&f->o, j),
                                   .k = j * f->o.block,
                                   .alpha = -1,
                                   .beta = 1,
                                   .a = rows_at(f, i),
                                   .b = rows_at(f, j),
                                   .c = block_at(f, i, j),
                                   .ldc = f->lda};
        st = f->be->integer->gemm(f->ctx, &p, f->work, f->lwork);
    }
    return st;
}

/* L(j:, j) from A(j:, j), which all updates have reached, and its residues. */
static status make_column(const potrf *f, int64_t j) {
    const int64_t n = rows_of(&f->o, j), below = f->o.n - j * f->o.block - n;
    const double one = 1;
    status st;
    TRY(f->be->potrf(f->ctx, BACKEND_D, 'L', n, block_at(f, j, j), f->lda, f->info + j, f->work,
                     f->lwork));
    if (below > 0)
        TRY(f->be->trsm(f->ctx, BACKEND_D, 'R', 'L', 'T', 'N', below, n, &one, block_at(f, j, j),
                        f->lda, block_at(f, j + 1, j), f->lda, f->work, f->lwork));
    for (int64_t i = j + 1; i < f->count; i++) {
        integer_rows r = rows_at(f, i);
        r.r[0] += j * f->o.block, r.r[1] += j * f->o.block;
        TRY(f->be->integer->convert(f->ctx, f->o.moduli,
                                    &(integer_matrix){.trans = 'N',
                                                      .m = rows_of(&f->o, i),
                                                      .k = n,
                                                      .a = block_at(f, i, j),
                                                      .lda = f->lda},
                                    &r));
    }
done:
    return st;
}

/* The order of the first minor that is not positive. */
static status find_minor(const potrf *f, int64_t *minor) {
    const int64_t bytes = f->count * (int64_t)sizeof(int);
    int *list = NULL;
    status st;
    TRY(ALLOC(list, (size_t)f->count, "orders of minors"));
    st = f->be->copy(f->ctx, list, bytes, f->info, bytes, bytes, 1);
    if (st == MOAO_OK)
        st = f->be->sync(f->ctx);
    else
        f->be->sync(f->ctx); /* nothing may write to the list any more */
    for (int64_t j = 0; j < f->count && st == MOAO_OK && *minor == 0; j++)
        *minor = list[j] > 0 ? j * f->o.block + list[j] : 0;
done:
    free(list);
    return st;
}

status integer_potrf_columns(const backend *be, backend_ctx *ctx, const integer_factor_options *o,
                             const integer_columns *columns, double *a, int64_t lda,
                             int32_t *exponent, int64_t *minor, void *work, size_t lwork) {
    *minor = 0;
    if (!in_range(be, o) || !backend_ld_ok(o->n, lda) ||
        (o->above && (lda % 2 != 0 || (uintptr_t)a % 16 != 0)))
        return status_fail(MOAO_INPUT, "factor by integers: an argument is out of range");
    if (lwork < integer_potrf_bytes(be, o))
        return status_fail(MOAO_INPUT, "factor by integers: the workspace is too small");
    potrf f = {be, ctx, *o, count_of(o), a, lda, exponent, work, NULL, NULL, 0};
    char *at = (char *)work;
    at += aligned((size_t)f.count * sizeof(int));
    f.residues = (int8_t *)at;
    f.work = at + aligned(residues_of(o, f.count));
    f.lwork = steps_work(be, o);
    status st = MOAO_OK;
    if (o->n == 0)
        return MOAO_OK;
    TRY(be->integer->scale_squares(ctx, o->moduli, o->n, o->n, a, lda + 1, f.exponent));
    for (int64_t j = 0; j < f.count; j++) {
        if (columns != NULL)
            TRY(columns->form(columns->of, j * o->block, rows_of(o, j)));
        TRY(update(&f, j));
        TRY(make_column(&f, j));
    }
    TRY(find_minor(&f, minor));
done:
    return st;
}

status integer_exponents(const backend *be, backend_ctx *ctx, const integer_factor_options *of,
                         int moduli, int32_t *exponent) {
    const int64_t bytes = of->n * (int64_t)sizeof *exponent;
    int32_t *e = NULL;
    status st;
    if (!in_range(be, of) || moduli < 2 || moduli > of->moduli)
        return status_fail(MOAO_INPUT, "exponents of %d moduli: the factor has %d", moduli,
                           of->moduli);
    const double larger = integer_square(of->moduli, of->n) / integer_square(moduli, of->n);
    if (!(larger < (double)INFINITY))
        return status_fail(MOAO_INPUT, "exponents: %d moduli are too few for the order %lld",
                           moduli, (long long)of->n);
    const int less = (int)ceil(0.5 * log2(larger));
    if (of->n == 0 || moduli == of->moduli)
        return MOAO_OK;
    TRY(ALLOC(e, (size_t)of->n, "exponents"));
    st = be->copy(ctx, e, bytes, exponent, bytes, bytes, 1);
    if (st == MOAO_OK)
        st = be->sync(ctx);
    for (int64_t i = 0; i < of->n && st == MOAO_OK; i++)
        e[i] -= e[i] == INTEGER_BAD ? 0 : less;
    if (st == MOAO_OK)
        st = be->copy(ctx, exponent, bytes, e, bytes, bytes, 1);
    const status ended = be->sync(ctx); /* nothing may use the list any more */
    st = st != MOAO_OK ? st : ended;
done:
    free(e);
    return st;
}

status integer_potrf(const backend *be, backend_ctx *ctx, const integer_factor_options *o,
                     double *a, int64_t lda, int32_t *exponent, int64_t *minor, void *work,
                     size_t lwork) {
    return integer_potrf_columns(be, ctx, o, NULL, a, lda, exponent, minor, work, lwork);
}
