/* Batched products whose columns go to places of their own, of a backend (the CPU's, or the one
 * named by MOAO_TEST_BACKEND): errors in units of eps, everything else of C poisoned and compared
 * bit by bit, and bits that do not depend on the places or on the other products. */
#include "support/operand.h"

#define ALLOWED 1.5 /* of (k + 4) eps */

/* Rows of C for one product, or for two that share them with columns of their own. */
typedef struct {
    int64_t m, n, k;
    bool turned, own; /* own: the columns of A themselves */
    bool more;        /* of the same rows as the one before */
} shape;

typedef struct {
    backend_type t;
    int64_t count, pad; /* pad: rows between products, and what leading dimensions are longer by */
    const shape *of;
    int64_t *a, *b, *row, *first, rows, columns, numbers, places, ldc; /* where they begin */
    int64_t *column;
    char *x, *c;                   /* A and B, C */
    void *dev_x, *dev_c, *dev_col; /* in the backend's memory */
} work;

static double number(const work *w, const char *p, int64_t at) {
    return w->t == BACKEND_D ? ((const double *)(const void *)p)[at]
                             : (double)((const float *)(const void *)p)[at];
}

static int64_t lda_of(const work *w, int64_t q) {
    return w->of[q].m + w->pad;
}
static int64_t ldb_of(const work *w, int64_t q) {
    return (w->of[q].turned ? w->of[q].n : w->of[q].k) + w->pad;
}

static void build(work *w) {
    const size_t len = sizeof(int64_t) * (size_t)w->count, e = backend_size(w->t);
    w->a = malloc(len), w->b = malloc(len), w->row = malloc(len), w->first = malloc(len);
    w->numbers = w->pad;
    int64_t used = 0; /* columns of the rows in hand */
    for (int64_t q = 0; q < w->count; q++) {
        const shape *s = w->of + q;
        w->a[q] = w->numbers;
        w->b[q] = w->a[q] + lda_of(w, q) * s->k;
        w->numbers = w->b[q] + ldb_of(w, q) * (s->turned ? s->k : s->n);
        w->row[q] = s->more ? w->row[q - 1] : w->rows + w->pad;
        w->rows = w->row[q] + s->m;
        used = s->more ? used : 0;
        w->first[q] = w->places;
        w->places += s->n;
        used += s->n;
        w->columns = used + 3 > w->columns ? used + 3 : w->columns;
    }
    w->ldc = w->rows + w->pad;
    w->column = malloc(sizeof(int64_t) * (size_t)(w->places + 1));
    for (int64_t q = 0, at = 0; q < w->count; q++) {
        const int64_t n = w->of[q].n;
        at = w->of[q].more ? at : 1;
        for (int64_t x = 0; x < n;
             x++) { /* in order, or in pairs that change places, from the end */
            const int64_t other = (x | 1) < n ? x ^ 1 : x;
            w->column[w->first[q] + x] = at + (w->of[q].turned ? x : n - 1 - other);
        }
        at += n;
    }
    w->x = malloc(e * (size_t)w->numbers);
    w->c = malloc(e * (size_t)(w->ldc * w->columns));
    for (int64_t i = 0; i < w->numbers; i++)
        if (w->t == BACKEND_D)
            ((double *)(void *)w->x)[i] = rnd();
        else
            ((float *)(void *)w->x)[i] = (float)rnd();
    memset(w->c, 0xff, e * (size_t)(w->ldc * w->columns));
    w->dev_x = device_copy(w->x, e * (size_t)w->numbers);
    w->dev_c = device_copy(w->c, e * (size_t)(w->ldc * w->columns));
    w->dev_col = device_copy(w->column, sizeof(int64_t) * (size_t)w->places);
}

static void dismantle(work *w) {
    be->release(ctx, w->dev_x), be->release(ctx, w->dev_c), be->release(ctx, w->dev_col);
    free(w->a), free(w->b), free(w->row), free(w->first), free(w->column), free(w->x), free(w->c);
}

/* Products from .. to, into C. */
static status call(work *w, int64_t from, int64_t to) {
    const int64_t e = (int64_t)backend_size(w->t);
    batch_scatter *p = calloc((size_t)(to - from + 1), sizeof *p);
    int64_t most = 0;
    for (int64_t q = from; q < to; q++) {
        const shape *s = w->of + q;
        most = s->m > most ? s->m : most;
        p[q - from] = (batch_scatter){(char *)w->dev_x + e * w->a[q],
                                      s->own ? NULL : (char *)w->dev_x + e * w->b[q],
                                      (char *)w->dev_c + e * w->row[q],
                                      lda_of(w, q),
                                      ldb_of(w, q),
                                      s->m,
                                      s->n,
                                      s->k,
                                      w->first[q],
                                      s->turned};
    }
    void *there = device_copy(p, sizeof *p * (size_t)(to - from));
    const status st = be->batch->scatter(ctx, w->t, to - from, most, there, w->dev_col, w->ldc);
    if (st == MOAO_OK) {
        const int64_t bytes = e * w->ldc * w->columns;
        assert_int_equal(be->copy(ctx, w->c, bytes, w->dev_c, bytes, bytes, 1), MOAO_OK);
        assert_int_equal(be->sync(ctx), MOAO_OK);
    }
    be->release(ctx, there);
    free(p);
    return st;
}

static double entry_of(const work *w, int64_t q, int64_t i, int64_t j, double *size) {
    const shape *s = w->of + q;
    double sum = 0;
    *size = 0;
    for (int64_t k = 0; k < s->k && !s->own; k++) {
        const double term =
            number(w, w->x, w->a[q] + i + k * lda_of(w, q)) *
            number(w, w->x, w->b[q] + (s->turned ? j + k * ldb_of(w, q) : k + j * ldb_of(w, q)));
        sum += term;
        *size += fabs(term);
    }
    return s->own ? number(w, w->x, w->a[q] + i + j * lda_of(w, q)) : sum;
}

/* Largest error in units of (k + 4) eps; what is written beside the products: infinite. */
static double worst_of(const work *w) {
    bool *ours = calloc((size_t)(w->ldc * w->columns), 1);
    double most = 0;
    for (int64_t q = 0; q < w->count; q++)
        for (int64_t j = 0; j < w->of[q].n; j++)
            for (int64_t i = 0; i < w->of[q].m; i++) {
                const int64_t at = w->row[q] + i + w->column[w->first[q] + j] * w->ldc;
                double size, is = number(w, w->c, at), x = entry_of(w, q, i, j, &size);
                const double off = fabs(is - x),
                             e = off == 0 ? 0
                                          : off / (size * eps_of(w->t) * ((double)w->of[q].k + 4));
                ours[at] = true;
                most = e <= most ? most : e;
                if (isnan(e))
                    most = INFINITY;
            }
    const size_t e = backend_size(w->t);
    for (int64_t at = 0; at < w->ldc * w->columns; at++)
        for (size_t x = 0; x < e && !ours[at]; x++)
            if (w->c[(size_t)at * e + x] != (char)0xff)
                most = INFINITY;
    free(ours);
    return most;
}

static const shape shapes[] = {
    {40, 70, 20, false, false, false},   {40, 6, 20, true, false, true},
    {33, 1, 1, false, false, false},     {130, 66, 17, false, false, false},
    {0, 5, 5, false, false, false},      {16, 0, 4, false, false, false},
    {12, 9, 0, false, false, false},     {20, 18, 18, false, true, false},
    {7, 130, 33, true, false, false},    {254, 300, 28, false, false, false},
    {254, 64, 5, true, false, true},     {256, 200, 256, false, false, false},
    {256, 256, 64, true, false, false},  {256, 256, 256, false, true, false},
    {130, 129, 129, false, false, false}};

static int64_t shapes_here(void) {
    return small() ? 9 : (int64_t)(sizeof shapes / sizeof *shapes);
}

/* Both types, with places at every multiple of 4 bytes. */
static void every_shape(void **state) {
    double most = 0;
    (void)state;
    for (int v = 0; v < 10; v++) {
        work w = {
            .t = v % 2 ? BACKEND_S : BACKEND_D, .of = shapes, .count = shapes_here(), .pad = v / 2};
        build(&w);
        assert_int_equal(call(&w, 0, w.count), MOAO_OK);
        const double e = worst_of(&w);
        most = e > most ? e : most;
        assert_true(e <= ALLOWED);
        dismantle(&w);
    }
    print_message("%s scatter  worst error %.2f of (k + 4) eps, allowed %.1f\n", be->name, most,
                  ALLOWED);
}

/* One product at a time gives the bits of all together. */
static void same_bits(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++) {
        work w = {.t = v ? BACKEND_S : BACKEND_D, .of = shapes, .count = shapes_here(), .pad = 2};
        build(&w);
        assert_int_equal(call(&w, 0, w.count), MOAO_OK);
        const size_t bytes = backend_size(w.t) * (size_t)(w.ldc * w.columns);
        char *together = malloc(bytes);
        memcpy(together, w.c, bytes);
        for (int64_t q = w.count; q-- > 0;)
            assert_int_equal(call(&w, q, q + 1), MOAO_OK);
        assert_memory_equal(together, w.c, bytes);
        free(together);
        dismantle(&w);
    }
}

static void arguments(void **state) {
    (void)state;
    batch_scatter_op *const f = be->batch->scatter;
    assert_int_equal(f(ctx, BACKEND_D, 0, 10, NULL, NULL, 10), MOAO_OK);
    assert_int_equal(f(ctx, BACKEND_D, 1, 10, NULL, NULL, 9), MOAO_INPUT);
    assert_int_equal(f(ctx, BACKEND_Z, 1, 10, NULL, NULL, 10), MOAO_INPUT);
    assert_int_equal(f(ctx, BACKEND_D, -1, 10, NULL, NULL, 10), MOAO_INPUT);
    assert_int_equal(f(ctx, BACKEND_D, 1, -1, NULL, NULL, 10), MOAO_INPUT);
    assert_int_equal(f(ctx, BACKEND_D, INT32_MAX, 65, NULL, NULL, 65), MOAO_INPUT);
    status_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(arguments),
    };
    return RUN_ON_BACKENDS(tests);
}
