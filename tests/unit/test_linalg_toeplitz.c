/* Block-Toeplitz products against dense ones: sizes, masks, lattices of two steps, tables of either
 * direction, diagonals, sides, transposition, types, alpha and beta, NaN where nothing is read,
 * work that is poisoned, other values, the same bits twice. */
#include "moao/backend_toeplitz.h"
#include "moao/hier.h"
#include "moao/toeplitz.h"
#include "support/matrix.h"
#include "support/toeplitz_case.h"

/* Largest error of a product relative to |A| |x|. */
static double product_error(const matrix *a, backend_toeplitz_plan *p, backend_type t, char side,
                            char trans, int64_t nvec, double alpha, double beta) {
    const bool left = side == 'L';
    mat x = mat_new(t, left ? a->m : nvec, left ? nvec : a->m, 3);
    mat y = mat_new(t, left ? a->m : nvec, left ? nvec : a->m, 1);
    double worst = 0;
    void *work;
    const size_t lwork = be->toeplitz->workspace(p, nvec);
    char *poison = malloc(lwork + 1);
    assert_non_null(poison);
    memset(poison, 0xff, lwork + 1);
    work = send(poison, lwork);
    free(poison);
    mat_fill(&x, 'A');
    if (beta != 0)
        mat_fill(&y, 'A');
    mat_up(&x), mat_up(&y);
    must(be->toeplitz->apply(p, side, trans, nvec, alpha, x.dev, x.ld, beta, y.dev, y.ld, work,
                             lwork));
    mat_down(&y);
    mat before = y;
    before.host = y.before;
    for (int64_t j = 0; j < a->m; j++)
        for (int64_t v = 0; v < nvec; v++) {
            double sum = 0, size = 1;
            if (!in_image(a, j))
                continue;
            for (int64_t i = 0; i < a->m; i++) {
                const double e =
                    left == (trans == 'N') ? a->dense[j + i * a->m] : a->dense[i + j * a->m];
                if (e != 0)
                    sum += e * creal(left ? mat_get(&x, i, v) : mat_get(&x, v, i));
                size += e * e;
            }
            const double was =
                beta != 0 ? beta * creal(left ? mat_get(&before, j, v) : mat_get(&before, v, j))
                          : 0;
            const double is = creal(left ? mat_get(&y, j, v) : mat_get(&y, v, j));
            const double gap = fabs(is - alpha * sum - was) / sqrt(size);
            worst = gap <= worst ? worst : gap;
        }
    be->release(ctx, work);
    mat_free(&x), mat_free(&y);
    return worst;
}

static void test_products(void **state) {
    (void)state;
    static const struct {
        int n, nimage, step;
        bool full;
        int64_t nvec;
        int thin;
    } cases[] = {{1, 1, 1, true, 1, 1},
                 {1, 2, 1, true, 7, 1},
                 {2, 2, 1, true, 64, 1},
                 {5, 1, 1, true, 7, 1},
                 {7, 4, 1, false, 33, 1},
                 {9, 3, 2, false, 16, 1},
                 {13, 4, 2, false, 5, 1},
                 {12, 2, 1, false, 0, 1},
                 {8, 0, 1, false, 3, 1},
                 {16, 2, 1, false, 34, 1},
                 {34, 13, 1, true, 9, 97},
                 {67, 2, 1, true, 9, 499},
                 /* more images, and larger lattices, than a block of a GPU takes at once */
                 {7, 18, 1, true, 70, 5},
                 {135, 3, 3, true, 4, 997}};
    if (be->toeplitz == NULL)
        skip();
    for (int t = BACKEND_D; t <= BACKEND_S; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            matrix a;
            backend_toeplitz_plan *p;
            thin = cases[i].thin;
            make(&a, cases[i].n, cases[i].nimage, cases[i].step, cases[i].full);
            thin = 1;
            must(be->toeplitz->open(ctx, &a.shape, (toeplitz_type)t, &p));
            for (int again = 0; again < 2; again++) {
                must(be->toeplitz->load(p, a.pair));
                for (int k = 0; k < 4; k++) {
                    const double e =
                        product_error(&a, p, (backend_type)t, "LR"[k / 2], "NT"[k % 2],
                                      cases[i].nvec, again ? -0.7 : 1, again ? 0.3 : 0);
                    if (!(e <= (t == BACKEND_D ? 1e-13 : 2e-6)))
                        fail_msg("%d x %d places, %d images, %c %c: wrong by %g", cases[i].n,
                                 cases[i].n, cases[i].nimage, "LR"[k / 2], "NT"[k % 2], e);
                }
                drop_values(&a);
                make_values(&a);
            }
            be->toeplitz->close(p);
            drop(&a);
        }
}

/* X in FP16, whose largest number is near 2^15: relative error of Y as a whole. */
static double fp16_error(const matrix *a, backend_toeplitz_plan *p, int64_t nvec) {
    mat x = mat_new(BACKEND_S, nvec, a->m, 0), y = mat_new(BACKEND_S, nvec, a->m, 1);
    const size_t lwork = be->toeplitz->workspace(p, nvec);
    double sum = 0, size = 0;
    backend_f16 *h;
    void *work;
    mat_fill(&x, 'A'), mat_fill(&y, 'A');
    mat_up(&x), mat_up(&y);
    must(be->alloc(ctx, sizeof *h * (size_t)(nvec * a->m), (void **)&h));
    must(be->alloc(ctx, lwork, &work));
    must(be->fp16->cast_to_fp16(ctx, BACKEND_S, nvec, a->m, 15, x.dev, x.ld, h, nvec));
    must(be->toeplitz->apply(p, 'R', 'N', nvec, 0x1p-15, h, nvec, -0.5, y.dev, y.ld, work, lwork));
    mat_down(&y);
    mat before = y;
    before.host = y.before;
    for (int64_t j = 0; j < a->m; j++)
        for (int64_t v = 0; v < nvec && in_image(a, j); v++) {
            double want = -0.5 * creal(mat_get(&before, v, j));
            for (int64_t i = 0; i < a->m; i++)
                if (a->dense[i + j * a->m] != 0)
                    want += a->dense[i + j * a->m] * creal(mat_get(&x, v, i));
            const double gap = creal(mat_get(&y, v, j)) - want;
            sum += gap * gap;
            size += want * want;
        }
    be->release(ctx, h), be->release(ctx, work);
    mat_free(&x), mat_free(&y);
    return sqrt(sum / size);
}

static void test_halves(void **state) {
    (void)state;
    static const int cases[][6] = {/* n, images, step, whole, vectors, one of so many places */
                                   {1, 2, 1, 1, 3, 1},
                                   {6, 1, 1, 0, 64, 1},
                                   {13, 6, 2, 0, 70, 1},
                                   {20, 2, 1, 1, 9, 1},
                                   {40, 15, 1, 1, 3, 61},
                                   {67, 2, 1, 0, 5, 11},
                                   /* in single precision on a GPU too */
                                   {7, 18, 1, 1, 5, 3},
                                   {90, 2, 1, 1, 5, 61}};
    if (be->toeplitz == NULL)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        matrix a;
        backend_toeplitz_plan *p;
        thin = cases[i][5];
        make(&a, cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
        thin = 1;
        must(be->toeplitz->open(ctx, &a.shape, TOEPLITZ_FP16, &p));
        must(be->toeplitz->load(p, a.pair));
        const double e = fp16_error(&a, p, cases[i][4]);
        print_message("%d x %d places, %d images: relative error %.1e\n", cases[i][0], cases[i][0],
                      cases[i][1], e);
        assert_true(e <= 1e-3);
        be->toeplitz->close(p);
        drop(&a);
    }
}

/* sum x A x' over vectors, numbers of type t: x [m][nvec] in double precision and exact in FP16.
 */
static double variance(const matrix *a, toeplitz_type t, int64_t nvec, const double *x) {
    const backend_type from = t == TOEPLITZ_D ? BACKEND_D : BACKEND_S;
    mat in = mat_new(from, nvec, a->m, 0), out = mat_new(from, nvec, a->m, 0);
    backend_toeplitz_plan *p;
    backend_f16 *half;
    void *work;
    double sum = 0;
    must(be->toeplitz->open(ctx, &a->shape, t, &p));
    must(be->toeplitz->load(p, a->pair));
    const size_t lwork = be->toeplitz->workspace(p, nvec);
    must(be->alloc(ctx, lwork, &work));
    must(be->alloc(ctx, sizeof *half * (size_t)(nvec * a->m), (void **)&half));
    for (int64_t j = 0; j < a->m; j++)
        for (int64_t v = 0; v < nvec; v++)
            mat_set(&in, v, j, x[v + j * nvec]), mat_set(&out, v, j, 0);
    mat_up(&in), mat_up(&out);
    must(be->fp16->cast_to_fp16(ctx, from, nvec, a->m, 14, in.dev, in.ld, half, nvec));
    must(be->toeplitz->apply(p, 'R', 'N', nvec, t == TOEPLITZ_FP16 ? 0x1p-14 : 1,
                             t == TOEPLITZ_FP16 ? half : in.dev, t == TOEPLITZ_FP16 ? nvec : in.ld,
                             0, out.dev, out.ld, work, lwork));
    mat_down(&out);
    for (int64_t j = 0; j < a->m; j++)
        for (int64_t v = 0; v < nvec; v++)
            sum += x[v + j * nvec] * creal(mat_get(&out, v, j));
    be->release(ctx, work), be->release(ctx, half);
    be->toeplitz->close(p);
    mat_free(&in), mat_free(&out);
    return sum;
}

/* What halves round off transforms and symbols is the same for all vectors: variances of a smooth
 * covariance must not shift with it. Vectors as a reconstructor's: dipoles, and smooth ones. */
static void test_variance(void **state) {
    (void)state;
    static const struct {
        int n;
        double length;
    } cases[] = {{20, 60}, {40, 20}, {67, 8}, {67, 60}, {76, 20}};
    enum { NVEC = 256 };
    if (be->toeplitz == NULL)
        skip();
    gap = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int n = cases[i].n, width = 2 * n - 1;
        matrix a = {0};
        if (small() && n > 40)
            break;
        make_places(&a, n, 1, 1, false);
        double *value = malloc(sizeof *value * (size_t)(width * width));
        double *x = malloc(sizeof *x * (size_t)(NVEC * a.m));
        assert_true(value && x);
        for (int k = 0; k < width * width; k++)
            value[k] = exp(-hypot(k % width - n + 1, k / width - n + 1) / cases[i].length);
        a.pair[0] = (toeplitz_pair){.step = 1, .width = width, .origin = n - 1};
        a.pair[0].value = send(value, sizeof *value * (size_t)(width * width));
        for (int v = 0; v < NVEC; v++) {
            const double x0 = n * (0.5 + 0.5 * lin_random()), y0 = n * (0.5 + 0.5 * lin_random());
            for (int64_t j = 0; j < a.m; j++) {
                const double dx = a.place[0][j] % n - x0, dy = (int)(a.place[0][j] / n) - y0;
                const double r2 = dx * dx + dy * dy;
                x[v + j * NVEC] =
                    round(0x1p10 * (v % 2 ? dx / (1 + r2) : exp(-36 * r2 / (n * n)))) * 0x1p-10;
            }
        }
        const double want = variance(&a, TOEPLITZ_D, NVEC, x);
        const double shift = variance(&a, TOEPLITZ_FP16, NVEC, x) / want - 1;
        print_message("%d x %d places, length %g: variances shifted by %.1e\n", n, n,
                      cases[i].length, shift);
        assert_true(want > 0 && fabs(shift) <= 3e-5);
        free(value), free(x);
        drop(&a);
    }
    gap = 2;
}

/* Values loaded after others, and products of the same rows, give the same bits as at first. */
static void test_bits(void **state) {
    (void)state;
    matrix a, b;
    backend_toeplitz_plan *p, *q;
    char *bits[3];
    if (be->toeplitz == NULL)
        skip();
    make(&a, 11, 4, 1, false);
    make(&b, 11, 4, 1, false);
    for (int t = BACKEND_D; t <= BACKEND_S; t++) {
        const int64_t nvec = 37;
        const size_t bytes = backend_size((backend_type)t) * (size_t)(nvec * a.m);
        mat x = mat_new((backend_type)t, nvec, a.m, 0);
        mat_fill(&x, 'A');
        mat_up(&x);
        must(be->toeplitz->open(ctx, &a.shape, (toeplitz_type)t, &p));
        must(be->toeplitz->open(ctx, &a.shape, (toeplitz_type)t, &q));
        must(be->toeplitz->load(p, b.pair));
        must(be->toeplitz->load(p, a.pair));
        must(be->toeplitz->load(q, a.pair));
        const size_t lwork = be->toeplitz->workspace(p, nvec);
        void *work, *y;
        must(be->alloc(ctx, lwork, &work));
        must(be->alloc(ctx, bytes, &y));
        for (int k = 0; k < 3; k++) {
            bits[k] = calloc(bytes, 1);
            assert_non_null(bits[k]);
            must(be->copy(ctx, y, (int64_t)bytes, bits[k], (int64_t)bytes, (int64_t)bytes, 1));
            must(be->toeplitz->apply(k == 0 ? q : p, 'R', 'N', nvec, 1, x.dev, x.ld, 0, y, nvec,
                                     work, lwork));
            must(be->copy(ctx, bits[k], (int64_t)bytes, y, (int64_t)bytes, (int64_t)bytes, 1));
            must(be->sync(ctx));
        }
        assert_memory_equal(bits[0], bits[1], bytes);
        assert_memory_equal(bits[1], bits[2], bytes);
        for (int k = 0; k < 3; k++)
            free(bits[k]);
        be->release(ctx, work), be->release(ctx, y);
        be->toeplitz->close(p), be->toeplitz->close(q);
        mat_free(&x);
    }
    drop(&a), drop(&b);
}

/* The same as a format: both parts of a symmetric matrix add up, loads, refusals. */
static void test_format(void **state) {
    (void)state;
    matrix a;
    format *f;
    const int64_t nvec = 6;
    if (be->toeplitz == NULL || be->hier == NULL)
        skip();
    gap = 0;
    make(&a, 7, 3, 2, false);
    gap = 2;
    const hier_toeplitz_values v = {&a.shape, a.pair};
    hier_source s = {.rows = a.m, .cols = a.m, .detail = &v};
    const hier_options o = {.kind = HIER_TOEPLITZ, .type = BACKEND_D};
    must(hier_open(be, ctx, &s, &o, &f));
    must(hier_load(f, &s));
    const size_t lwork = hier_workspace(f, 'L', nvec);
    mat x = mat_new(BACKEND_D, a.m, nvec, 1), y = mat_new(BACKEND_D, a.m, nvec, 2);
    void *work;
    must(be->alloc(ctx, lwork, &work));
    mat_fill(&x, 'A');
    mat_up(&x), mat_up(&y);
    must(hier_apply(f, 'L', 'N', 'A', nvec, 2, x.dev, x.ld, 0, y.dev, y.ld, work, lwork));
    mat_down(&y);
    for (int64_t i = 0; i < a.m; i++)
        for (int64_t k = 0; k < nvec; k++) {
            double want = 0;
            for (int64_t j = 0; j < a.m; j++)
                want += 2 * a.dense[i + j * a.m] * creal(mat_get(&x, j, k));
            assert_true(fabs(creal(mat_get(&y, i, k)) - want) < 1e-11);
        }
    assert_true(mat_untouched(&y, 'A'));
    assert_int_equal(
        hier_apply(f, 'L', 'N', 'H', nvec, 1, x.dev, x.ld, 0, y.dev, y.ld, work, lwork),
        MOAO_INPUT); /* it is not symmetric */
    assert_int_equal(hier_factor(f, 0), MOAO_INPUT);
    hier_close(f);
    status_clear();
    s.rows = s.cols = a.m + 1;
    assert_int_equal(hier_open(be, ctx, &s, &o, &f), MOAO_INPUT);
    status_clear();
    be->release(ctx, work);
    mat_free(&x), mat_free(&y);
    drop(&a);
}

static void test_refusals(void **state) {
    (void)state;
    matrix a;
    backend_toeplitz_plan *p;
    double one = 1;
    if (be->toeplitz == NULL)
        skip();
    make(&a, 6, 2, 1, false);
    must(be->toeplitz->open(ctx, &a.shape, TOEPLITZ_D, &p));
    assert_int_equal(be->toeplitz->apply(p, 'R', 'N', 5, 1, &one, 5, 0, &one, 5, NULL, 0),
                     MOAO_INPUT);
    a.pair[0].step = 0;
    assert_int_equal(be->toeplitz->load(p, a.pair), MOAO_INPUT);
    be->toeplitz->close(p);
    a.place[0][0] = 36;
    assert_int_equal(be->toeplitz->open(ctx, &a.shape, TOEPLITZ_D, &p), MOAO_INPUT);
    assert_null(p);
    a.place[0][0] = 0;
    assert_int_equal(be->toeplitz->open(ctx, &a.shape, (toeplitz_type)BACKEND_Z, &p), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "toeplitz"));
    status_clear();
    drop(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products), cmocka_unit_test(test_halves),
        cmocka_unit_test(test_variance), cmocka_unit_test(test_bits),
        cmocka_unit_test(test_format),   cmocka_unit_test(test_refusals)};
    return RUN_ON_BACKENDS(tests);
}
