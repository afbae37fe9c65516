/* Many products of halves at once: results of all widths against double precision, nothing else
 * written, the same bits again. */
#include "support/terms.h"

/* Halves of numbers between -1 and 1. */
static backend_f16 *random_halves(int64_t n) {
    float *x = malloc(sizeof *x * (size_t)n);
    backend_f16 *h = malloc(sizeof *h * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)lin_random();
    must(backend_cpu.half->cast_to_half(NULL, BACKEND_S, n, 1, 0, x, n, h, n));
    free(x);
    return h;
}

static double *values_of(int64_t n, const backend_f16 *h) {
    backend_f16 *const none = calloc((size_t)n, sizeof *none);
    double *x = malloc(sizeof *x * (size_t)n);
    must(backend_cpu.half->join(NULL, n, 1, 0, h, n, none, n, x, n));
    free(none);
    return x;
}

enum { MANY_TASKS = 9, MANY_SEGMENTS = 3, LDB = 192 };

/* Tasks of all widths, whose segments have inner sizes beside multiples of the step. */
typedef struct {
    terms_task task[MANY_TASKS];
    terms_segment segment[MANY_TASKS * MANY_SEGMENTS];
    int64_t tasks, segments, a_cols, b_cols, cols;
} many;

static void plan_many(many *t) {
    static const int32_t cols[MANY_TASKS] = {1, 64, 65, 100, 128, 129, 192, 17, 3},
                         inner[] = {64, 1, 100, 17, 128, 63};
    memset(t, 0, sizeof *t);
    for (int e = 0; e < MANY_TASKS; e++) {
        terms_task *task = t->task + t->tasks++;
        *task = (terms_task){(int32_t)t->segments, e % MANY_SEGMENTS + 1, cols[e], (int32_t)t->cols,
                             1 + e % 2};
        t->cols += cols[e] + e % 2;
        for (int k = 0; k < task->segments; k++) {
            const int32_t n = inner[(e + k) % 6];
            const bool down = (e + k) % 2 || cols[e] > 128; /* else from row 64 on */
            const int32_t of_b = down ? cols[e] : (n + TERMS_STEP - 1) / TERMS_STEP * TERMS_STEP;
            t->segment[t->segments++] = (terms_segment){.a = (int32_t)t->a_cols,
                                                        .b = (int32_t)t->b_cols,
                                                        .row = down ? 0 : LDB - 128,
                                                        .inner = n,
                                                        .down = down,
                                                        .scale = ldexpf(-1, k / 2 * 3 - 4)};
            t->a_cols += n;
            t->b_cols += of_b;
        }
    }
    t->a_cols += 5;
}

/* B, with zeros where a segment ends before a multiple of the step. */
static backend_f16 *right_of(const many *t) {
    backend_f16 *b = random_halves(LDB * t->b_cols);
    for (int64_t s = 0; s < t->segments; s++) {
        const terms_segment g = t->segment[s];
        const int64_t next = s + 1 < t->segments ? t->segment[s + 1].b : t->b_cols;
        for (int64_t c = g.b; c < next; c++)
            for (int64_t r = 0; r < LDB; r++)
                if (g.down ? r >= g.inner : c - g.b >= g.inner)
                    b[r + c * LDB] = 0;
    }
    return b;
}

/* Column j of the result of a task in double precision, and the sum of moduli. */
static void result_of(const many *t, const terms_task *k, int64_t m, int64_t lda, int64_t j,
                      const double *a, const double *b, double *sum, double *most) {
    for (int64_t i = 0; i < m; i++)
        sum[i] = most[i] = 0;
    for (int s = k->first; s < k->first + k->segments; s++) {
        const terms_segment g = t->segment[s];
        for (int64_t c = 0; c < g.inner; c++) {
            const double y = g.scale * (g.down ? b[g.row + c + (g.b + j) * LDB]
                                               : b[g.row + j + (g.b + c) * LDB]);
            for (int64_t i = 0; i < m; i++) {
                sum[i] += a[i + (g.a + c) * lda] * y;
                most[i] += fabs(a[i + (g.a + c) * lda] * y);
            }
        }
    }
}

/* Both results against double precision; nothing else is written. */
typedef struct {
    const many *t;
    int64_t m, lda, ldc;
    double *a, *b; /* values of the operands */
    float *c, *before;
    backend_f16 *h;
    const terms_place *place;
} outcome;

static void check_column(outcome *o, const terms_task *k, int64_t j, const double *hv, double *sum,
                         double *most) {
    const int64_t to = k->to + j, at = o->place[to].to, rest = at + o->place[to].step;
    const double bound = k->parts > 1 ? 0x1p-20 : 0x1p-11;
    result_of(o->t, k, o->m, o->lda, j, o->a, o->b, sum, most);
    for (int64_t i = 0; i < o->m; i++) {
        float *c = o->c + i + to * o->ldc, *before = o->before + i + to * o->ldc;
        const double one = *c - *before,
                     two = hv[i + at * o->ldc] + (k->parts > 1 ? hv[i + rest * o->ldc] : 0);
        if (!(fabs(one - sum[i]) <= 0x1p-21 * (most[i] + 1)))
            fail_msg("entry %d %d is %g, not %g", (int)i, (int)j, one, sum[i]);
        if (!(fabs(two - sum[i]) <= bound * fabs(sum[i]) + 0x1p-20 * (most[i] + 1)))
            fail_msg("halves of entry %d %d are %g, not %g", (int)i, (int)j, two, sum[i]);
        *before = *c;
        o->h[i + at * o->ldc] = POISON;
        if (k->parts > 1)
            o->h[i + rest * o->ldc] = POISON;
    }
}

static void check_outcome(outcome *o, int64_t c_cols, int64_t h_cols) {
    double *sum = malloc(sizeof *sum * (size_t)o->m), *most = malloc(sizeof *most * (size_t)o->m),
           *hv = values_of(o->ldc * h_cols, o->h);
    for (const terms_task *k = o->t->task; k < o->t->task + o->t->tasks; k++)
        for (int64_t j = 0; j < k->cols; j++)
            check_column(o, k, j, hv, sum, most);
    assert_memory_equal(o->c, o->before, sizeof *o->c * (size_t)(o->ldc * c_cols));
    for (int64_t i = 0; i < o->ldc * h_cols; i++)
        assert_int_equal(o->h[i], POISON);
    free(sum), free(most), free(hv);
}

static void many_case(int64_t m, int64_t pad) {
    many t;
    plan_many(&t);
    const int64_t lda = (m + 7) / 8 * 8, ldc = m + pad, z = 2 * t.cols;
    backend_f16 *a = random_halves(lda * t.a_cols), *b = right_of(&t), *h = poisoned(ldc * z),
                *again = poisoned(ldc * z);
    const size_t c_bytes = sizeof(float) * (size_t)(ldc * t.cols),
                 h_bytes = sizeof *h * (size_t)(ldc * z);
    float *c = malloc(c_bytes), *before = malloc(c_bytes);
    terms_place *place = malloc(sizeof *place * (size_t)t.cols);
    for (int64_t i = 0; i < ldc * t.cols; i++)
        before[i] = (float)lin_random();
    for (int64_t j = 0; j < t.cols; j++) /* backwards */
        place[j] = (terms_place){(int32_t)(t.cols - 1 - j), (int32_t)t.cols};
    void *const ad = sent(a, sizeof *a * (size_t)(lda * t.a_cols)),
                *const bd = sent(b, sizeof *b * (size_t)(LDB * t.b_cols)),
                *const hd = sent(h, h_bytes), *const cd = sent(before, c_bytes),
                *const td = sent(t.task, sizeof t.task),
                *const sd = sent(t.segment, sizeof t.segment),
                *const pd = sent(place, sizeof *place * (size_t)t.cols);
    const terms_products p = {.m = m,
                              .count = t.tasks,
                              .task = td,
                              .segment = sd,
                              .a = ad,
                              .b = bd,
                              .lda = lda,
                              .a_cols = t.a_cols,
                              .ldb = LDB,
                              .b_cols = t.b_cols};
    for (int turn = 0; turn < 2; turn++) { /* the same bits */
        must(be->terms->halve(ctx, &p, pd, hd, ldc));
        fetched(turn ? again : h, hd, h_bytes);
    }
    assert_memory_equal(h, again, h_bytes);
    must(be->terms->add(ctx, &p, cd, ldc));
    fetched(c, cd, c_bytes);
    outcome o = {&t, m,      lda, ldc,  values_of(lda * t.a_cols, a), values_of(LDB * t.b_cols, b),
                 c,  before, h,   place};
    check_outcome(&o, t.cols, z);
    for (int k = 0; k < 7; k++)
        be->release(ctx, ((void *[]){ad, bd, hd, cd, td, sd, pd})[k]);
    free(a), free(b), free(h), free(again), free(c), free(before), free(place), free(o.a),
        free(o.b);
}

static void many_products(void **state) {
    (void)state;
    many_case(1, 0);
    many_case(131, 1);
    many_case(264, 0);
    if (!small())
        many_case(5336, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_products)};
    return RUN_ON_BACKENDS(tests);
}
