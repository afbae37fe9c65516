/* Operands of products of FP16 numbers in one to three terms: every term against the split FP16
 * that a number is split into, places that nothing is written to, and what the terms add up to;
 * numbers as they are kept, some in FP16, and sums of squares. */
#include "support/split.h"

static const char *const orders[] = {"h", "hr", "rh", "hrh", "rhh"};
enum { ORDERS = sizeof orders / sizeof *orders };

/* Columns of X and, turned, of Y, gaps between them. */
static void columns_case(const char *parts, int64_t m, int64_t n, int64_t pad) {
    const int64_t ldx = m + pad, ldh = m + 2 * pad, step = n + 2, all = 3 * step;
    float *x = numbers(ldx * n), *y = numbers(ldx * n);
    backend_f16 *want = poisoned(ldh * all), *got = poisoned(ldh * all), *h = poisoned(m),
                *r = poisoned(m);
    split_column *list = malloc(sizeof *list * (size_t)n);
    for (int64_t e = 0; e < n; e++) {
        const int64_t from = (7 * e) % n;
        list[e] = (split_column){e % 3 == 1 ? -1 - from : from, e, step};
        fp16_of(m, 3, (e % 3 == 1 ? y : x) + from * ldx, h, r);
        for (int t = 0; parts[t]; t++)
            memcpy(want + (e + t * step) * ldh, parts[t] == 'r' ? r : h, sizeof *h * (size_t)m);
    }
    float *const xd = sent(x, sizeof *x * (size_t)(ldx * n)), *const yd = sent(
                                                                  y, sizeof *y * (size_t)(ldx * n));
    split_column *const there = sent(list, sizeof *list * (size_t)n);
    backend_f16 *const hd = sent(got, sizeof *got * (size_t)(ldh * all));
    must(be->split->columns(ctx, parts, m, n, there, 3, xd, ldx, yd, ldx, hd, ldh));
    fetched(got, hd, sizeof *got * (size_t)(ldh * all));
    same(got, want, ldh * all);
    be->release(ctx, xd), be->release(ctx, yd), be->release(ctx, there), be->release(ctx, hd);
    free(x), free(y), free(want), free(got), free(h), free(r), free(list);
}

/* Blocks of different sizes, beside each other and stacked. */
static void blocks_case(const char *parts, bool stacked, int64_t n) {
    int64_t total = 0, most = 0;
    split_block *list = malloc(sizeof *list * (size_t)n);
    for (int64_t e = 0; e < n; e++) {
        const int64_t rows = 1 + (37 * e) % 256, cols = (11 * e) % 70, at = 3 * total;
        list[e] = stacked
                      ? (split_block){total, rows, cols, at, (int64_t)strlen(parts) * rows, rows}
                      : (split_block){total, rows, cols, at, rows, rows * cols};
        total += rows * cols;
        most = rows * cols > most ? rows * cols : most;
    }
    const size_t bytes = sizeof(backend_f16) * (size_t)(3 * total + 1);
    float *x = numbers(total + 1);
    backend_f16 *want = poisoned(3 * total + 1), *got = poisoned(3 * total + 1),
                *h = poisoned(total + 1), *r = poisoned(total + 1);
    fp16_of(total + 1, -2, x, h, r);
    for (int64_t e = 0; e < n; e++)
        for (int64_t k = 0; k < list[e].rows * list[e].cols; k++)
            for (int t = 0; parts[t]; t++)
                want[list[e].to + t * list[e].step + k % list[e].rows +
                     k / list[e].rows * list[e].ld] = (parts[t] == 'r' ? r : h)[list[e].from + k];
    float *const xd = sent(x, sizeof *x * (size_t)(total + 1));
    split_block *const there = sent(list, sizeof *list * (size_t)n);
    backend_f16 *const hd = sent(got, bytes);
    must(be->split->blocks(ctx, parts, n, there, most, -2, xd, hd));
    fetched(got, hd, bytes);
    same(got, want, 3 * total + 1);
    be->release(ctx, xd), be->release(ctx, there), be->release(ctx, hd);
    free(x), free(want), free(got), free(h), free(r), free(list);
}

static void columns(void **state) {
    (void)state;
    for (int k = 0; k < ORDERS; k++) {
        columns_case(orders[k], 1, 1, 1);
        columns_case(orders[k], 256, 37, 0);
        columns_case(orders[k], 333, 19, 2); /* places that are not aligned */
        columns_case(orders[k], small() ? 515 : 5336, 64, 4);
    }
    must(be->split->columns(ctx, "hrh", 5, 0, NULL, 0, NULL, 5, NULL, 5, NULL, 5));
    must(be->split->columns(ctx, "hrh", 0, 5, NULL, 0, NULL, 1, NULL, 1, NULL, 1));
}

static void blocks(void **state) {
    (void)state;
    for (int k = 0; k < ORDERS; k++)
        for (int stacked = 0; stacked < 2; stacked++) {
            blocks_case(orders[k], stacked, 1);
            blocks_case(orders[k], stacked, small() ? 20 : 300);
        }
    must(be->split->blocks(ctx, "hrh", 0, NULL, 0, 0, NULL, NULL));
}

/* Runs of even and odd lengths to singles and halves and back, gaps between them. */
static void runs_case(int64_t n, int exponent) {
    split_run *list = malloc(sizeof *list * (size_t)n);
    int64_t all = 0, kept[2] = {1, 1}, most = 0;
    for (int64_t e = 0; e < n; e++) {
        const int64_t count = e % 5 == 4 ? 2 * e + 2 : (41 * e) % 300, gap = e % 3;
        const bool half = e % 4 > 0;
        list[e] = (split_run){all, count, half ? -1 - kept[1] : kept[0]};
        kept[half] += count + gap;
        all += count + gap;
        most = count > most ? count : most;
    }
    all += 2;
    float *x = numbers(all), *s = calloc((size_t)kept[0] + 1, sizeof *s), *back;
    backend_f16 *h = poisoned(kept[1] + 1), *want = poisoned(kept[1] + 1), *top = poisoned(all),
                *rest = poisoned(all);
    x[all / 3] = INFINITY, x[all / 4] = -0.0f, x[all / 5] = 0x1p-30f;
    fp16_of(all, exponent, x, top, rest);
    float *const xd = sent(x, sizeof *x * (size_t)all), *const sd = sent(
                                                            s, sizeof *s * (size_t)(kept[0] + 1));
    split_run *const there = sent(list, sizeof *list * (size_t)n);
    backend_f16 *const hd = sent(h, sizeof *h * (size_t)(kept[1] + 1));
    must(be->split->narrow(ctx, n, there, most, exponent, xd, sd, hd));
    fetched(s, sd, sizeof *s * (size_t)(kept[0] + 1));
    fetched(h, hd, sizeof *h * (size_t)(kept[1] + 1));
    back = calloc((size_t)all, sizeof *back);
    float *const bd = sent(back, sizeof *back * (size_t)all);
    must(be->split->widen(ctx, n, there, most, exponent, sd, hd, bd));
    fetched(back, bd, sizeof *back * (size_t)all);
    float *const rounded = calloc((size_t)all, sizeof *rounded);
    for (int64_t e = 0; e < n; e++)
        for (int64_t i = list[e].at; i < list[e].at + list[e].count; i++) {
            const int64_t to = i - list[e].at;
            double value = x[i];
            if (list[e].kept >= 0) {
                assert_memory_equal(s + list[e].kept + to, x + i, sizeof *x);
            } else {
                const backend_f16 none = 0;
                want[-1 - list[e].kept + to] = top[i];
                must(backend_cpu.fp16->join(NULL, 1, 1, exponent, top + i, 1, &none, 1, &value, 1));
            }
            rounded[i] = (float)value;
        }
    same(h, want, kept[1] + 1);
    for (int64_t i = 0; i < all; i++)
        if (!(isnan(rounded[i]) ? isnan(back[i]) : rounded[i] == back[i]))
            fail_msg("number %d is %g, not %g", (int)i, (double)back[i], (double)rounded[i]);
    be->release(ctx, xd), be->release(ctx, sd), be->release(ctx, hd), be->release(ctx, bd);
    be->release(ctx, there);
    free(list), free(x), free(s), free(h), free(want), free(top), free(rest), free(back);
    free(rounded);
}

static void runs(void **state) {
    (void)state;
    runs_case(1, 0);
    runs_case(9, 17);
    runs_case(60, -40);
    runs_case(60, 60);
    must(be->split->narrow(ctx, 0, NULL, 0, 0, NULL, NULL, NULL));
    must(be->split->widen(ctx, 0, NULL, 0, 0, NULL, NULL, NULL));
}

static void squares(void **state) {
    (void)state;
    enum { N = 7, ROOM = 40000 };
    split_part list[N];
    double *x = malloc(sizeof *x * ROOM), *got, want[N * 80];
    int64_t at = 3;
    for (int i = 0; i < ROOM; i++)
        x[i] = lin_random();
    got = calloc(N * 80, sizeof *got);
    memset(want, 0, sizeof want);
    for (int e = 0; e < N; e++) {
        list[e] = (split_part){at, 1 + 11 * e, (13 * e) % 80, 70 + e, 80 * e};
        for (int64_t j = 0; j < list[e].cols; j++)
            for (int64_t i = 0; i < list[e].rows; i++)
                want[80 * e + j] += pow(x[at + i + j * list[e].ld], 2);
        at += list[e].ld * list[e].cols;
    }
    assert_true(at < ROOM);
    double *const xd = sent(x, sizeof *x * ROOM), *const out = sent(got, sizeof want);
    split_part *const there = sent(list, sizeof list);
    must(be->split->squares(ctx, N, there, 80, xd, out));
    fetched(got, out, sizeof want);
    for (int i = 0; i < N * 80; i++)
        assert_true(fabs(got[i] - want[i]) <= 1e-14 * want[i]);
    must(be->split->squares(ctx, 0, NULL, 0, NULL, NULL));
    be->release(ctx, xd), be->release(ctx, out), be->release(ctx, there);
    free(x), free(got);
}

/* A product of operands in terms, against doubles. */
static void products(void **state) {
    (void)state;
    enum { M = 70, N = 40, K = 33 };
    static const char *const left_parts[] = {"", "h", "hh", "hrh"}, *const right_parts[] = {
                                                                        "", "h", "rh", "rhh"};
    static const double bound[] = {0, 0x1p-8, 0x1p-8, 0x1p-17};
    float *a = malloc(sizeof *a * M * K), *b = malloc(sizeof *b * N * K);
    split_column list[K];
    const split_block block = {0, N, K, 0, N, N * K};
    for (int i = 0; i < M * K; i++)
        a[i] = (float)lin_random();
    for (int i = 0; i < N * K; i++)
        b[i] = (float)lin_random();
    for (int k = 0; k < K; k++)
        list[k] = (split_column){k, k, K};
    float *const ad = sent(a, sizeof *a * M * K), *const bd = sent(b, sizeof *b * N * K);
    void *const there = sent(list, sizeof list), *const one = sent(&block, sizeof block);
    for (int terms = 1; terms <= 3; terms++) {
        void *left, *right, *c;
        float got[M * N];
        double worst = 0;
        must(be->alloc(ctx, 2 * 3 * M * K, &left));
        must(be->alloc(ctx, 2 * 3 * N * K, &right));
        must(be->alloc(ctx, sizeof got, &c));
        must(be->split->columns(ctx, left_parts[terms], M, K, there, 10, ad, M, NULL, 1, left, M));
        must(be->split->blocks(ctx, right_parts[terms], 1, one, N * K, 10, bd, right));
        must(be->fp16->gemm(ctx, 'N', 'T', M, N, terms * K, 0x1p-20f, left, M, right, N, 0, c, M));
        fetched(got, c, sizeof got);
        for (int j = 0; j < N; j++)
            for (int i = 0; i < M; i++) {
                double sum = 0;
                for (int k = 0; k < K; k++)
                    sum += (double)a[i + k * M] * b[j + k * N];
                worst = fmax(worst, fabs(got[i + j * M] - sum));
            }
        print_message("%d terms: off by %.1e\n", terms, worst);
        assert_true(worst < bound[terms] && worst > bound[terms] / 64);
        be->release(ctx, left), be->release(ctx, right), be->release(ctx, c);
    }
    be->release(ctx, ad), be->release(ctx, bd), be->release(ctx, there), be->release(ctx, one);
    free(a), free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns), cmocka_unit_test(blocks),
                                       cmocka_unit_test(products), cmocka_unit_test(runs),
                                       cmocka_unit_test(squares)};
    return RUN_ON_BACKENDS(tests);
}
