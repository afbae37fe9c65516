/* Products by integers, the specification (moao/backend_integer.h): each residue of each result as
 * a sum of products of bytes. */
#include "cpu_own.h"
#include "linalg/integer/integer_constants.h"

/* Entry l of row i of op(A) D. */
static double entry_at(const integer_matrix *a, int64_t i, int64_t l) {
    const double x = a->trans == 'N' ? a->a[i + l * a->lda] : a->a[l + i * a->lda];
    return a->inner != NULL ? x * integer_power(a->sign * a->inner[l]) : x;
}

/* The largest modulus of a row, NaN where it has one, and the sum of squares in units of that. */
static double row_size(const integer_matrix *a, int64_t i, uint64_t *sum) {
    double largest = 0;
    int top;
    *sum = 0;
    for (int64_t l = 0; l < a->k; l++) {
        const double x = fabs(entry_at(a, i, l));
        largest = x > largest || isnan(x) ? x : largest;
        if (isnan(largest))
            return largest;
    }
    if (largest > 0 && largest < (double)INFINITY) {
        (void)frexp(largest, &top);
        const integer_factors f = integer_factors_of(20 - top);
        for (int64_t l = 0; l < a->k; l++) {
            const uint64_t u = integer_coarse(entry_at(a, i, l), f);
            *sum += u * u;
        }
    }
    return largest;
}

static status scale(backend_ctx *ctx, int moduli, int64_t longest, const integer_matrix *a,
                    int32_t *exponent, void *work, size_t lwork) {
    const double limit = integer_square(moduli, longest);
    (void)ctx, (void)work, (void)lwork;
#pragma omp parallel for if (a->m * a->k > 65536)
    for (int64_t i = 0; i < a->m; i++) {
        uint64_t sum;
        const double largest = row_size(a, i, &sum);
        exponent[i] = integer_row_exponent(limit, largest, sum);
    }
    return MOAO_OK;
}

static status extend(backend_ctx *ctx, int moduli, int64_t longest, const integer_matrix *a,
                     int64_t before, bool front, const integer_growth *g, void *work,
                     size_t lwork) {
    const double limit = integer_square(moduli, longest);
    (void)ctx, (void)work, (void)lwork;
#pragma omp parallel for if (a->m * a->k > 65536)
    for (int64_t i = 0; i < a->m; i++) {
        integer_block b = {.limit = limit, .before = before, .n = a->k, .front = front};
        b.largest = row_size(a, i, &b.sum);
        integer_grow(&b, i, g);
    }
    return MOAO_OK;
}

static status scale_squares(backend_ctx *ctx, int moduli, int64_t longest, int64_t m,
                            const double *square, int64_t inc, int32_t *exponent) {
    const double limit = integer_square(moduli, longest);
    (void)ctx;
    for (int64_t i = 0; i < m; i++)
        exponent[i] = integer_square_exponent(limit, square[i * inc]);
    return MOAO_OK;
}

static int8_t *place(const integer_rows *r, int t, int64_t i) {
    const int part = t >= r->first;
    return r->r[part] + (t - (part ? r->first : 0)) * r->step[part] + i * r->ld[part];
}

static status convert(backend_ctx *ctx, int moduli, const integer_matrix *a,
                      const integer_rows *rows) {
    const integer_constants s = integer_constants_of(moduli);
    (void)ctx;
#pragma omp parallel for if (a->m * a->k > 65536)
    for (int64_t i = 0; i < a->m; i++) {
        const bool marked = rows->exponent[i] == INTEGER_BAD;
        const integer_factors f = integer_factors_of(marked ? 0 : rows->exponent[i]);
        bool fits = !marked;
        const int64_t begin = a->span != NULL ? a->span[2 * i] : 0,
                      end = a->span != NULL ? a->span[2 * i + 1] : a->k;
        for (int64_t l = begin; l < integer_ld(end); l++) {
            const int64_t v =
                l < a->k && !marked ? integer_entry(entry_at(a, i, l), f, s.top, &fits) : 0;
            for (int t = 0; t < moduli; t++)
                place(rows, t, i)[l] =
                    (int8_t)integer_residue(v, s.p[t], s.magic[t], s.w20[t], s.w40[t]);
        }
        if (!fits)
            rows->exponent[i] = INTEGER_BAD;
    }
    return MOAO_OK;
}

/* The sum of products of n bytes, n <= INTEGER_DEPTH, and what came before, |before| <= 128. It
 * wraps around where that does not matter: modulo 256. */
static int dot(int before, int64_t n, const int8_t *a, const int8_t *b) {
    unsigned sum = (unsigned)before;
    for (int64_t l = 0; l < n; l++)
        sum += (unsigned)(a[l] * b[l]);
    return (int)sum;
}

/* Entry (i, j) of A B' in units of its rows'. */
static double entry(const integer_constants *s, const integer_product *p, int64_t i, int64_t j) {
    const int64_t depth = p->depth > 0 ? p->depth : INTEGER_DEPTH;
    double high = 0, low = 0;
    for (int t = 0; t < s->n; t++) {
        const int8_t *a = place(&p->a, t, i), *b = place(&p->b, t, j);
        int r = 0;
        for (int64_t l = 0; l < p->k; l += depth)
            r = integer_reduce(dot(r, p->k - l < depth ? p->k - l : depth, a + l, b + l), s->p[t],
                               s->magic[t]);
        high = fma(r, s->high[t], high);
        low = fma(r, s->low[t], low);
    }
    return integer_rebuild(s, high, low);
}

static status gemm(backend_ctx *ctx, const integer_product *p, void *work, size_t lwork) {
    const integer_constants s = integer_constants_of(p->moduli);
    (void)ctx, (void)work, (void)lwork;
#pragma omp parallel for schedule(dynamic)
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = p->part == 'L' ? j : 0; i < p->m; i++) {
            double *c = p->c + i + j * p->ldc;
            const double sum =
                p->alpha == 0 || p->k == 0
                    ? 0
                    : integer_scaled(entry(&s, p, i, j), p->a.exponent[i], p->b.exponent[j]);
            *c = integer_update(p->alpha, sum, p->beta, c);
        }
    return MOAO_OK;
}

const backend_integer integer_cpu = {.size = sizeof(backend_integer),
                                     .scale = scale,
                                     .scale_squares = scale_squares,
                                     .extend = extend,
                                     .convert = convert,
                                     .gemm = gemm};
