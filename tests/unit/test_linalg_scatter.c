/* Batched products whose columns go to places of their own, and sums of products that are added to
 * matrices, of a backend (the CPU's, or the one named by MOAO_TEST_BACKEND): errors in units of
 * eps, everything else of C poisoned and compared bit by bit, and bits that do not depend on the
 * places or on the other products. */
#include "support/operand.h"

#define ALLOWED 1.5 /* of (k + 4) eps */

/* Rows of C for one product, or for two that share them with columns of their own. */
typedef struct {
    int64_t m, n, k;
    bool more; /* of the same rows as the one before */
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

/* Every third product has A transposed. */
static bool turned(int64_t q) {
    return q % 3 == 0;
}
static int64_t lda_of(const work *w, int64_t q) {
    return (turned(q) ? w->of[q].k : w->of[q].m) + w->pad;
}
static int64_t ldb_of(const work *w, int64_t q) {
    return w->of[q].k + w->pad;
}

static void build(work *w) {
    const size_t len = sizeof(int64_t) * (size_t)w->count, e = backend_size(w->t);
    w->a = malloc(len), w->b = malloc(len), w->row = malloc(len), w->first = malloc(len);
    w->numbers = w->pad;
    int64_t used = 0; /* columns of the current rows */
    for (int64_t q = 0; q < w->count; q++) {
        const shape *s = w->of + q;
        w->a[q] = w->numbers;
        w->b[q] = w->a[q] + lda_of(w, q) * (turned(q) ? s->m : s->k);
        w->numbers = w->b[q] + ldb_of(w, q) * s->n;
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
            w->column[w->first[q] + x] = at + (q % 4 == 1 ? x : n - 1 - other);
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
                                      (char *)w->dev_x + e * w->b[q],
                                      (char *)w->dev_c + e * w->row[q],
                                      lda_of(w, q),
                                      ldb_of(w, q),
                                      s->m,
                                      s->n,
                                      s->k,
                                      w->first[q],
                                      turned(q)};
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
    for (int64_t k = 0; k < s->k; k++) {
        const double term =
            number(w, w->x, w->a[q] + (turned(q) ? k + i * lda_of(w, q) : i + k * lda_of(w, q))) *
            number(w, w->x, w->b[q] + k + j * ldb_of(w, q));
        sum += term;
        *size += fabs(term);
    }
    return sum;
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

static const shape shapes[] = {{40, 70, 20, false},   {40, 6, 20, true},     {33, 1, 1, false},
                               {130, 66, 17, false},  {0, 5, 5, false},      {16, 0, 4, false},
                               {12, 9, 0, false},     {20, 18, 18, false},   {7, 130, 33, false},
                               {254, 300, 28, false}, {254, 64, 5, true},    {256, 200, 256, false},
                               {256, 256, 64, true},  {130, 129, 129, false}};

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

/* --- sums --- */

/* Matrices one below the other in C, each with a sum of products of these inner extents. */
typedef struct {
    int64_t m, n, k[4], parts;
} sum_shape;

static const sum_shape sums[] = {{20, 30, {7}, 1},        {33, 66, {17, 1, 40}, 3},
                                 {130, 5, {16, 0, 3}, 3}, {4, 4, {0}, 0},
                                 {0, 3, {5}, 1},          {254, 254, {28, 256, 60, 33}, 4},
                                 {256, 130, {64, 5}, 2},  {129, 256, {12}, 1}};

typedef struct {
    backend_type t;
    int64_t count, pad, rows, cols, numbers, parts;
    int64_t row[8], first[8], a[32], b[32], ld[32][2], k[32];
    char *x;
    double *before, *c;
} sum_work;

static void place_sums(sum_work *w) {
    w->numbers = w->pad;
    for (int64_t q = 0; q < w->count; q++) {
        w->row[q] = w->rows + w->pad;
        w->rows = w->row[q] + sums[q].m;
        w->cols = sums[q].n > w->cols ? sums[q].n : w->cols;
        w->first[q] = w->parts;
        for (int64_t o = 0; o < sums[q].parts; o++, w->parts++) {
            w->k[w->parts] = sums[q].k[o];
            w->ld[w->parts][0] = sums[q].m + w->pad;
            w->ld[w->parts][1] = sums[q].n + w->pad;
            w->a[w->parts] = w->numbers;
            w->b[w->parts] = w->numbers + w->ld[w->parts][0] * sums[q].k[o];
            w->numbers = w->b[w->parts] + w->ld[w->parts][1] * sums[q].k[o] + w->pad;
        }
    }
}

/* C after a call for sums from .. to. */
static void call_sums(sum_work *w, int64_t from, int64_t to, double alpha) {
    const int64_t e = (int64_t)backend_size(w->t), ldc = w->rows + w->pad;
    const size_t bytes = sizeof(double) * (size_t)(ldc * w->cols);
    char *x = device_copy(w->x, (size_t)(e * w->numbers));
    double *c = device_copy(w->before, bytes);
    batch_gather list[8];
    batch_part part[32];
    for (int64_t q = 0; q < w->count; q++)
        list[q] = (batch_gather){c + w->row[q], sums[q].m, sums[q].n, w->first[q], sums[q].parts};
    for (int64_t o = 0; o < w->parts; o++)
        part[o] = (batch_part){x + e * w->a[o], x + e * w->b[o], w->ld[o][0], w->ld[o][1], w->k[o]};
    void *there = device_copy(list + from, sizeof *list * (size_t)(to - from)),
         *parts = device_copy(part, sizeof *part * (size_t)w->parts);
    int64_t most = 0;
    for (int64_t q = from; q < to; q++)
        most = sums[q].m > most ? sums[q].m : most;
    must(be->batch->gather(ctx, w->t, to - from, most, 256, there, parts, alpha, ldc));
    must(be->copy(ctx, w->c, (int64_t)bytes, c, (int64_t)bytes, (int64_t)bytes, 1));
    must(be->sync(ctx));
    be->release(ctx, x), be->release(ctx, c), be->release(ctx, there), be->release(ctx, parts);
}

static double number_of(const sum_work *w, int64_t at) {
    return w->t == BACKEND_D ? ((const double *)(const void *)w->x)[at]
                             : (double)((const float *)(const void *)w->x)[at];
}

/* Largest error of sum q in units of (k + 4) eps, k all inner extents together. */
static double error_of_sum(const sum_work *w, int64_t q, double alpha) {
    const int64_t ldc = w->rows + w->pad;
    double most = 0;
    for (int64_t j = 0; j < sums[q].n; j++)
        for (int64_t i = 0; i < sums[q].m; i++) {
            const int64_t at = w->row[q] + i + j * ldc;
            double x = w->before[at], size = fabs(x), inner = 4;
            for (int64_t o = w->first[q]; o < w->first[q] + sums[q].parts; o++)
                for (int64_t k = 0; k < w->k[o]; k++, inner++) {
                    const double term = alpha * number_of(w, w->a[o] + i + k * w->ld[o][0]) *
                                        number_of(w, w->b[o] + j + k * w->ld[o][1]);
                    x += term;
                    size += fabs(term);
                }
            const double e = fabs(w->c[at] - x) / (size * eps_of(w->t) * inner);
            most = e <= most ? most : e;
            if (isnan(e))
                most = INFINITY;
        }
    return most;
}

static sum_work sums_of(backend_type t, int64_t pad) {
    sum_work w = {.t = t, .count = small() ? 5 : (int64_t)(sizeof sums / sizeof *sums), .pad = pad};
    place_sums(&w);
    w.x = malloc(backend_size(t) * (size_t)w.numbers);
    for (int64_t i = 0; i < w.numbers; i++)
        if (t == BACKEND_D)
            ((double *)(void *)w.x)[i] = rnd();
        else
            ((float *)(void *)w.x)[i] = (float)rnd();
    const size_t n = (size_t)((w.rows + pad) * w.cols);
    w.before = malloc(sizeof(double) * n);
    w.c = malloc(sizeof(double) * n);
    for (size_t i = 0; i < n; i++)
        w.before[i] = rnd();
    return w;
}

/* Errors of both types; rows and columns of none stay as they are; one sum at a time gives the bits
 * of all together. */
static void sums_of_products(void **state) {
    (void)state;
    for (int v = 0; v < 10; v++) {
        sum_work w = sums_of(v % 2 ? BACKEND_S : BACKEND_D, v / 2);
        const int64_t ldc = w.rows + w.pad, n = ldc * w.cols;
        call_sums(&w, 0, w.count, -0.75);
        for (int64_t q = 0; q < w.count; q++) {
            assert_true(error_of_sum(&w, q, -0.75) <= ALLOWED);
            for (int64_t j = sums[q].n; j < w.cols; j++)
                for (int64_t i = 0; i < sums[q].m + w.pad; i++) {
                    const int64_t at = w.row[q] - w.pad + i + j * ldc;
                    assert_true(w.c[at] == w.before[at]);
                }
        }
        double *together = malloc(sizeof(double) * (size_t)n);
        memcpy(together, w.c, sizeof(double) * (size_t)n);
        for (int64_t q = 0; q < w.count; q++) {
            call_sums(&w, q, q + 1, -0.75);
            for (int64_t j = 0; j < sums[q].n && sums[q].m > 0; j++)
                assert_memory_equal(w.c + w.row[q] + j * ldc, together + w.row[q] + j * ldc,
                                    sizeof(double) * (size_t)sums[q].m);
        }
        free(together), free(w.x), free(w.before), free(w.c);
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
    batch_gather_op *const g = be->batch->gather;
    assert_int_equal(g(ctx, BACKEND_S, 0, 10, 10, NULL, NULL, 1, 10), MOAO_OK);
    assert_int_equal(g(ctx, BACKEND_D, 1, 10, 10, NULL, NULL, 1, 9), MOAO_INPUT);
    assert_int_equal(g(ctx, BACKEND_C, 1, 10, 10, NULL, NULL, 1, 10), MOAO_INPUT);
    assert_int_equal(g(ctx, BACKEND_D, 1, 10, -1, NULL, NULL, 1, 10), MOAO_INPUT);
    assert_int_equal(g(ctx, BACKEND_D, INT32_MAX, 65, 1, NULL, NULL, 1, 65), MOAO_INPUT);
    status_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(sums_of_products),
        cmocka_unit_test(arguments),
    };
    return RUN_ON_BACKENDS(tests);
}
