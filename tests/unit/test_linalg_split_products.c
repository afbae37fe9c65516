/* Many products of FP16 numbers at once: exponents in the backend's memory, operands from where
 * numbers are kept, and results of all widths against double precision; the same bits again. */
#include "support/split.h"

/* Exponents of the largest entry so far and of multiples of it, NaN, 0, limits. */
static void exponents_of(void **state) {
    (void)state;
    static const double most[] = {0, 0.75, 0.5, 1e30, 1e-3, NAN, 2}, factor[] = {1, 3, 1e-60};
    double bound = 0;
    double *const there = sent(&bound, sizeof bound);
    int32_t e, *const out = sent(&e, sizeof e);
    for (int k = 0; k < 7; k++) {
        double *const one = sent(most + k, sizeof *most);
        bound = isnan(bound) || most[k] <= bound ? bound : most[k];
        for (int f = 0; f < 3; f++) {
            double got;
            const int want = backend_fp16_exponent(factor[f] * bound);
            must(be->split->exponent(ctx, f == 0 ? one : NULL, there, factor[f], out));
            fetched(&e, out, sizeof e);
            fetched(&got, there, sizeof got);
            assert_true(isnan(bound) ? isnan(got) : got == bound);
            assert_int_equal(e, want > SPLIT_EXPONENT    ? SPLIT_EXPONENT
                                : want < -SPLIT_EXPONENT ? -SPLIT_EXPONENT
                                                         : want);
        }
        be->release(ctx, one);
    }
    be->release(ctx, there), be->release(ctx, out);
}

/* All of X, in one or two parts. */
static void take_case(int parts, int64_t m, int64_t n, int64_t pad) {
    const int64_t ldx = m + pad, ldh = m + 2 * pad, step = n + 1,
                  all = ldh * (parts > 1 ? step + n : n);
    const int32_t exponent = 5;
    float *x = numbers(ldx * n);
    backend_f16 *want = poisoned(all), *got = poisoned(all), *r = poisoned(m);
    for (int64_t j = 0; j < n; j++)
        fp16_of(m, exponent, x + j * ldx, want + j * ldh, parts > 1 ? want + (step + j) * ldh : r);
    float *const xd = sent(x, sizeof *x * (size_t)(ldx * n));
    int32_t *const ed = sent(&exponent, sizeof exponent);
    backend_f16 *const hd = sent(got, sizeof *got * (size_t)all);
    must(be->split->take(ctx, parts, m, n, ed, xd, ldx, step, hd, ldh));
    fetched(got, hd, sizeof *got * (size_t)all);
    same(got, want, all);
    be->release(ctx, xd), be->release(ctx, ed), be->release(ctx, hd);
    free(x), free(want), free(got), free(r);
}

static void take(void **state) {
    (void)state;
    for (int parts = 1; parts <= 2; parts++) {
        take_case(parts, 1, 1, 0);
        take_case(parts, 256, 37, 4);
        take_case(parts, 333, 9, 1);
    }
    must(be->split->take(ctx, 1, 0, 3, NULL, NULL, 1, 3, NULL, 1));
}

/* Columns from singles and from halves, zeros below them and beside, and a list of places. */
static void pack(void **state) {
    (void)state;
    enum { N = 20, ROWS = 130 };
    split_pack list[N + 1];
    int64_t kept[2] = {1, 2}, cols = 0;
    for (int e = 0; e < N; e++) {
        const int64_t rows = 1 + (29 * e) % ROWS, n = (5 * e) % 13, half = e % 3 == 0;
        const int parts = e % 3 == 1 ? 2 : 1;
        list[e] = (split_pack){.kept = half ? -1 - kept[1] : kept[0],
                               .rows = (int32_t)rows,
                               .cols = (int32_t)n,
                               .to = (int32_t)cols,
                               .step = (int32_t)n + 1,
                               .parts = parts,
                               .place = {e % 2 ? 7 * e : -1, e}};
        kept[half] += rows * n + e % 2;
        cols += parts * (n + 1);
    }
    list[N] = (split_pack){.cols = 3, .to = (int32_t)cols, .parts = 1, .place = {-1, 0}};
    cols += 4;
    float *s = numbers(kept[0]);
    backend_f16 *h = poisoned(kept[1]), *want = poisoned(ROWS * cols), *got = poisoned(ROWS * cols),
                *top = poisoned(kept[0]), *rest = poisoned(kept[0]);
    split_place *places = calloc((size_t)cols, sizeof *places),
                *there = calloc((size_t)cols, sizeof *there);
    fp16_of(kept[0], -3, s, top, rest);
    for (int64_t k = 0; k < kept[1]; k++)
        h[k] = (backend_f16)k;
    for (int e = 0; e <= N; e++)
        for (int64_t j = 0; j < list[e].cols; j++) {
            const split_pack t = list[e];
            for (int part = 0; part < t.parts; part++)
                for (int64_t i = 0; i < ROWS; i++) {
                    const int64_t at = j * t.rows + i;
                    want[i + (t.to + part * t.step + j) * ROWS] = i >= t.rows  ? 0
                                                                  : t.kept < 0 ? h[at - 1 - t.kept]
                                                                  : part == 0  ? top[at + t.kept]
                                                                               : rest[at + t.kept];
                }
            if (t.place.to >= 0)
                places[t.to + j] = (split_place){(int32_t)(t.place.to + j), t.place.step};
        }
    void *const sd = sent(s, sizeof *s * (size_t)kept[0]),
                *const hd = sent(h, sizeof *h * (size_t)kept[1]),
                *const ld = sent(list, sizeof list),
                *const bd = sent(got, sizeof *got * (size_t)(ROWS * cols)),
                *const pd = sent(there, sizeof *there * (size_t)cols);
    must(be->split->pack(ctx, N + 1, ld, -3, sd, hd, bd, ROWS, pd));
    fetched(got, bd, sizeof *got * (size_t)(ROWS * cols));
    fetched(there, pd, sizeof *there * (size_t)cols);
    same(got, want, ROWS * cols);
    assert_memory_equal(there, places, sizeof *there * (size_t)cols);
    must(be->split->pack(ctx, 0, NULL, 0, NULL, NULL, NULL, ROWS, NULL));
    be->release(ctx, sd), be->release(ctx, hd), be->release(ctx, ld), be->release(ctx, bd);
    be->release(ctx, pd);
    free(s), free(h), free(want), free(got), free(top), free(rest), free(places), free(there);
}

/* Halves of numbers between -1 and 1. */
static backend_f16 *random_fp16(int64_t n) {
    float *x = malloc(sizeof *x * (size_t)n);
    backend_f16 *h = malloc(sizeof *h * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)lin_random();
    must(backend_cpu.fp16->cast_to_fp16(NULL, BACKEND_S, n, 1, 0, x, n, h, n));
    free(x);
    return h;
}

static double *values_of(int64_t n, const backend_f16 *h) {
    backend_f16 *const none = calloc((size_t)n, sizeof *none);
    double *x = malloc(sizeof *x * (size_t)n);
    must(backend_cpu.fp16->join(NULL, n, 1, 0, h, n, none, n, x, n));
    free(none);
    return x;
}

enum { MANY_TASKS = 9, MANY_SEGMENTS = 3, LDB = 192 };

static const int32_t exponents[] = {3, 1, -1, 2}; /* of segments, of results */

/* Tasks of all widths, whose segments have inner sizes beside multiples of the step. */
typedef struct {
    split_task task[MANY_TASKS];
    split_segment segment[MANY_TASKS * MANY_SEGMENTS];
    int64_t tasks, segments, a_cols, b_cols, cols;
} many;

static void plan_many(many *t) {
    static const int32_t cols[MANY_TASKS] = {1, 64, 65, 100, 128, 129, 192, 17, 3},
                         inner[] = {64, 1, 100, 17, 128, 63};
    memset(t, 0, sizeof *t);
    for (int e = 0; e < MANY_TASKS; e++) {
        split_task *task = t->task + t->tasks++;
        *task = (split_task){(int32_t)t->segments, e % MANY_SEGMENTS + 1, cols[e], (int32_t)t->cols,
                             1 + e % 2};
        t->cols += cols[e] + e % 2;
        for (int k = 0; k < task->segments; k++) {
            const int32_t n = inner[(e + k) % 6];
            const bool down = (e + k) % 2 || cols[e] > 128; /* else from row 64 on */
            const int32_t of_b = down ? cols[e] : (n + SPLIT_STEP - 1) / SPLIT_STEP * SPLIT_STEP;
            t->segment[t->segments++] = (split_segment){.a = (int32_t)t->a_cols,
                                                        .b = (int32_t)t->b_cols,
                                                        .row = down ? 0 : LDB - 128,
                                                        .inner = n,
                                                        .down = down,
                                                        .of = k,
                                                        .of_b = e % 3 - 1,
                                                        .scale = ldexpf(-1, k / 2 * 3 - 4)};
            t->a_cols += n;
            t->b_cols += of_b;
        }
    }
    t->a_cols += 5;
}

/* B, with zeros where a segment ends before a multiple of the step. */
static backend_f16 *right_of(const many *t) {
    backend_f16 *b = random_fp16(LDB * t->b_cols);
    for (int64_t s = 0; s < t->segments; s++) {
        const split_segment g = t->segment[s];
        const int64_t next = s + 1 < t->segments ? t->segment[s + 1].b : t->b_cols;
        for (int64_t c = g.b; c < next; c++)
            for (int64_t r = 0; r < LDB; r++)
                if (g.down ? r >= g.inner : c - g.b >= g.inner)
                    b[r + c * LDB] = 0;
    }
    return b;
}

/* Column j of the result of a task in double precision, and the sum of moduli. */
static void result_of(const many *t, const split_task *k, int64_t m, int64_t lda, int64_t j,
                      const double *a, const double *b, double *sum, double *most) {
    for (int64_t i = 0; i < m; i++)
        sum[i] = most[i] = 0;
    for (int s = k->first; s < k->first + k->segments; s++) {
        const split_segment g = t->segment[s];
        for (int64_t c = 0; c < g.inner; c++) {
            const double y =
                ldexp(g.scale, -exponents[g.of] - (g.of_b < 0 ? 0 : exponents[g.of_b])) *
                (g.down ? b[g.row + c + (g.b + j) * LDB] : b[g.row + j + (g.b + c) * LDB]);
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
    bool add;
    double *a, *b; /* values of the operands */
    float *c, *before;
    backend_f16 *h;
    const split_place *place;
} outcome;

static void check_column(outcome *o, const split_task *k, int64_t j, const double *hv, double *sum,
                         double *most) {
    const int64_t to = k->to + j, at = o->place[to].to, rest = at + o->place[to].step;
    const double bound = k->parts > 1 ? 0x1p-20 : 0x1p-11;
    result_of(o->t, k, o->m, o->lda, j, o->a, o->b, sum, most);
    for (int64_t i = 0; i < o->m; i++) {
        float *c = o->c + i + to * o->ldc, *before = o->before + i + to * o->ldc;
        const double one = *c - (o->add ? *before : 0),
                     two = ldexp(hv[i + at * o->ldc] + (k->parts > 1 ? hv[i + rest * o->ldc] : 0),
                                 -exponents[3]);
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
    for (const split_task *k = o->t->task; k < o->t->task + o->t->tasks; k++)
        for (int64_t j = 0; j < k->cols; j++)
            check_column(o, k, j, hv, sum, most);
    assert_memory_equal(o->c, o->before, sizeof *o->c * (size_t)(o->ldc * c_cols));
    for (int64_t i = 0; i < o->ldc * h_cols; i++)
        assert_int_equal(o->h[i], POISON);
    free(sum), free(most), free(hv);
}

static void many_case(int64_t m, int64_t pad, bool add) {
    many t;
    plan_many(&t);
    const int64_t lda = (m + 7) / 8 * 8, ldc = m + pad, z = 2 * t.cols;
    backend_f16 *a = random_fp16(lda * t.a_cols), *b = right_of(&t), *h = poisoned(ldc * z),
                *again = poisoned(ldc * z);
    const size_t c_bytes = sizeof(float) * (size_t)(ldc * t.cols),
                 h_bytes = sizeof *h * (size_t)(ldc * z);
    float *c = malloc(c_bytes), *before = malloc(c_bytes);
    split_place *place = malloc(sizeof *place * (size_t)t.cols);
    for (int64_t i = 0; i < ldc * t.cols; i++)
        before[i] = (float)lin_random();
    for (int64_t j = 0; j < t.cols; j++) /* backwards */
        place[j] = (split_place){(int32_t)(t.cols - 1 - j), (int32_t)t.cols};
    void *const ad = sent(a, sizeof *a * (size_t)(lda * t.a_cols)),
                *const bd = sent(b, sizeof *b * (size_t)(LDB * t.b_cols)),
                *const hd = sent(h, h_bytes), *const cd = sent(before, c_bytes),
                *const td = sent(t.task, sizeof t.task),
                *const sd = sent(t.segment, sizeof t.segment),
                *const pd = sent(place, sizeof *place * (size_t)t.cols),
                *const xd = sent(exponents, sizeof exponents);
    const split_products p = {.m = m,
                              .count = t.tasks,
                              .task = td,
                              .segment = sd,
                              .exponent = xd,
                              .a = ad,
                              .b = bd,
                              .lda = lda,
                              .a_cols = t.a_cols,
                              .ldb = LDB,
                              .b_cols = t.b_cols};
    for (int turn = 0; turn < 2; turn++) { /* the same bits */
        must(be->split->halve(ctx, &p, (int32_t *)xd + 3, pd, hd, ldc));
        fetched(turn ? again : h, hd, h_bytes);
    }
    assert_memory_equal(h, again, h_bytes);
    must(be->split->sum(ctx, &p, add, cd, ldc, t.cols));
    fetched(c, cd, c_bytes);
    outcome o = {
        &t, m,      lda, ldc,  add, values_of(lda * t.a_cols, a), values_of(LDB * t.b_cols, b),
        c,  before, h,   place};
    check_outcome(&o, t.cols, z);
    for (int k = 0; k < 8; k++)
        be->release(ctx, ((void *[]){ad, bd, hd, cd, td, sd, pd, xd})[k]);
    free(a), free(b), free(h), free(again), free(c), free(before), free(place), free(o.a),
        free(o.b);
}

static void many_products(void **state) {
    (void)state;
    many_case(1, 0, true);
    many_case(131, 1, true);
    many_case(264, 0, false);
    if (!small())
        many_case(5336, 8, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exponents_of), cmocka_unit_test(take),
                                       cmocka_unit_test(pack), cmocka_unit_test(many_products)};
    return RUN_ON_BACKENDS(tests);
}
