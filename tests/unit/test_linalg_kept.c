/* Block-Toeplitz products from what is kept of X: the bits of the product at once, for all types,
 * sides and shapes of a plan, values loaded after X was kept and others after these, X itself read
 * for diagonals only, NaN where nothing is read, guards, refusals; the same of formats. */
#include "moao/hier.h"
#include "moao/toeplitz.h"
#include "support/toeplitz_case.h"

#define GUARD 256

/* An operand of a product, the results of both ways and what they work with. */
typedef struct {
    toeplitz_type t;
    bool left;
    int64_t nvec;
    mat x, y[2];
    void *half; /* X where it is in FP16 */
    void *kept, *work;
    size_t lkept, lwork;
} operands;

static void *poisoned(size_t bytes) {
    unsigned char *host = malloc(bytes + 1);
    assert_non_null(host);
    memset(host, 0xff, bytes + 1);
    void *dev = send(host, bytes);
    free(host);
    return dev;
}

static const void *x_of(const operands *o) {
    return o->t == TOEPLITZ_FP16 ? o->half : o->x.dev;
}

static int64_t ldx_of(const operands *o) {
    return o->t == TOEPLITZ_FP16 ? o->nvec : o->x.ld;
}

static operands operands_of(const matrix *a, const backend_toeplitz_plan *p, toeplitz_type t,
                            char side, int64_t nvec) {
    const backend_type type = t == TOEPLITZ_D ? BACKEND_D : BACKEND_S;
    operands o = {.t = t, .left = side == 'L', .nvec = nvec};
    const int64_t rows = o.left ? a->m : nvec, cols = o.left ? nvec : a->m;
    o.x = mat_new(type, rows, cols, 3);
    mat_fill(&o.x, 'A');
    mat_up(&o.x);
    for (int k = 0; k < 2; k++)
        o.y[k] = mat_new(type, rows, cols, 1);
    if (t == TOEPLITZ_FP16 && nvec > 0) {
        must(be->alloc(ctx, sizeof(backend_f16) * (size_t)(nvec * a->m + 1), &o.half));
        must(be->fp16->cast_to_fp16(ctx, BACKEND_S, nvec, a->m, 15, o.x.dev, o.x.ld, o.half, nvec));
    }
    o.lkept = be->toeplitz->kept_bytes(p, nvec);
    o.lwork = be->toeplitz->workspace(p, nvec);
    o.kept = poisoned(o.lkept + GUARD);
    o.work = poisoned(o.lwork);
    return o;
}

static void operands_free(operands *o) {
    mat_free(&o->x), mat_free(&o->y[0]), mat_free(&o->y[1]);
    be->release(ctx, o->half), be->release(ctx, o->kept), be->release(ctx, o->work);
}

static void keep(backend_toeplitz_plan *p, const operands *o) {
    must(be->toeplitz->keep(p, o->left ? 'L' : 'R', o->nvec, x_of(o), ldx_of(o), o->kept, o->lkept,
                            o->work, o->lwork));
}

/* The product at once and from what is kept, which may not need X. */
static void compare(backend_toeplitz_plan *p, operands *o, char trans, double beta, bool with_x) {
    const char side = o->left ? 'L' : 'R';
    const double alpha = o->t == TOEPLITZ_FP16 ? 0x1p-15 : -0.7;
    if (beta != 0) {
        mat_fill(&o->y[0], 'A');
        memcpy(o->y[1].host, o->y[0].host, o->y[0].bytes);
    }
    mat_up(&o->y[0]), mat_up(&o->y[1]);
    must(be->toeplitz->apply(p, side, trans, o->nvec, alpha, x_of(o), ldx_of(o), beta, o->y[0].dev,
                             o->y[0].ld, o->work, o->lwork));
    be->release(ctx, o->work);
    o->work = poisoned(o->lwork);
    must(be->toeplitz->apply_kept(p, side, trans, o->nvec, alpha, o->kept, o->lkept,
                                  with_x ? x_of(o) : NULL, ldx_of(o), beta, o->y[1].dev, o->y[1].ld,
                                  o->work, o->lwork));
    mat_down(&o->y[0]), mat_down(&o->y[1]);
    assert_memory_equal(o->y[0].host, o->y[1].host, o->y[0].bytes);
}

static void check_guard(const operands *o) {
    unsigned char *bytes = malloc(o->lkept + GUARD);
    const int64_t n = (int64_t)o->lkept + GUARD;
    assert_non_null(bytes);
    must(be->copy(ctx, bytes, n, o->kept, n, n, 1));
    must(be->sync(ctx));
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(bytes[o->lkept + (size_t)i], 0xff);
    free(bytes);
}

static void drop_diagonals(matrix *a) {
    for (int i = 0; i < MOST * MOST; i++) {
        be->release(ctx, (void *)a->pair[i].diagonal);
        a->pair[i].diagonal = NULL;
    }
}

static void one_case(matrix *a, toeplitz_type t, char side, int64_t nvec) {
    backend_toeplitz_plan *p;
    must(be->toeplitz->open(ctx, &a->shape, t, &p));
    must(be->toeplitz->load(p, a->pair));
    operands o = operands_of(a, p, t, side, nvec);
    keep(p, &o);
    compare(p, &o, 'N', 0, true);
    drop_values(a);
    make_values(a);
    must(be->toeplitz->load(p, a->pair));
    compare(p, &o, t == TOEPLITZ_FP16 ? 'N' : 'T', 0.3, true);
    drop_diagonals(a);
    must(be->toeplitz->load(p, a->pair));
    compare(p, &o, 'N', 0.3, false);
    check_guard(&o);
    operands_free(&o);
    be->toeplitz->close(p);
}

static void test_kept(void **state) {
    (void)state;
    static const struct {
        int n, nimage, step;
        bool full;
        int64_t nvec;
        int thin;
    } cases[] = {{1, 1, 1, true, 1, 1},
                 {12, 2, 1, false, 0, 1},
                 {8, 0, 1, false, 3, 1},
                 {7, 4, 1, false, 33, 1},
                 {13, 6, 2, false, 20, 1},
                 {34, 13, 1, true, 9, 97},
                 /* more vectors than a GPU takes at a time, of transforms in one block or not */
                 {2, 1, 1, true, 1030, 1},
                 {2, 17, 1, true, 259, 1},
                 {2, 1, 1, true, 2051, 1},
                 /* more images, and larger lattices, than a block of a GPU takes at once */
                 {7, 18, 1, true, 9, 5},
                 {135, 3, 3, true, 4, 997}};
    static const toeplitz_type types[] = {TOEPLITZ_D, TOEPLITZ_S, TOEPLITZ_FP16};
    if (be->toeplitz == NULL)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 5; k++) {
            const toeplitz_type t = types[k / 2];
            if (small() && (cases[i].n > 13 || k == 1 || k == 2))
                continue;
            matrix a;
            thin = cases[i].thin;
            make(&a, cases[i].n, cases[i].nimage, cases[i].step, cases[i].full);
            thin = 1;
            one_case(&a, t, t == TOEPLITZ_FP16 || k % 2 == 0 ? 'R' : 'L', cases[i].nvec);
            drop(&a);
        }
}

static void test_refusals(void **state) {
    (void)state;
    matrix a;
    backend_toeplitz_plan *p;
    if (be->toeplitz == NULL)
        skip();
    make(&a, 6, 2, 1, false);
    must(be->toeplitz->open(ctx, &a.shape, TOEPLITZ_FP16, &p));
    must(be->toeplitz->load(p, a.pair));
    operands o = operands_of(&a, p, TOEPLITZ_FP16, 'R', 5);
    assert_true(o.lkept > 0 && o.lwork > 0);
    const size_t small = o.lkept - 1, little = o.lwork - 1;
    assert_int_equal(be->toeplitz->keep(p, 'R', 5, o.half, 5, o.kept, small, o.work, o.lwork),
                     MOAO_INPUT);
    assert_non_null(strstr(status_message(), "kept"));
    status_clear();
    assert_int_equal(be->toeplitz->keep(p, 'R', 5, o.half, 5, o.kept, o.lkept, o.work, little),
                     MOAO_INPUT);
    assert_int_equal(be->toeplitz->keep(p, 'L', 5, o.half, a.m, o.kept, o.lkept, o.work, o.lwork),
                     MOAO_INPUT);
    assert_int_equal(be->toeplitz->apply_kept(p, 'R', 'N', 5, 1, o.kept, small, o.half, 5, 0,
                                              o.y[0].dev, o.y[0].ld, o.work, o.lwork),
                     MOAO_INPUT);
    assert_int_equal(be->toeplitz->apply_kept(p, 'R', 'T', 5, 1, o.kept, o.lkept, o.half, 5, 0,
                                              o.y[0].dev, o.y[0].ld, o.work, o.lwork),
                     MOAO_INPUT);
    status_clear();
    operands_free(&o);
    be->toeplitz->close(p);
    drop(&a);
}

/* --- formats */

/* Both ways of a format, from both sides and in both parts. */
static void compare_format(format *f, int64_t m, char side) {
    const int64_t nvec = 6;
    const bool left = side == 'L';
    const size_t lwork = hier_workspace(f, side, nvec), lkept = hier_kept_bytes(f, nvec);
    mat x = mat_new(BACKEND_D, left ? m : nvec, left ? nvec : m, 1), y[2];
    void *work = poisoned(lwork), *kept = poisoned(lkept);
    for (int k = 0; k < 2; k++) {
        y[k] = mat_new(BACKEND_D, x.m, x.n, 2);
        mat_up(&y[k]);
    }
    mat_fill(&x, 'A');
    mat_up(&x);
    must(hier_keep(f, side, nvec, x.dev, x.ld, kept, lkept, work, lwork));
    must(hier_apply(f, side, 'N', 'H', nvec, 2, x.dev, x.ld, 0, y[0].dev, y[0].ld, work, lwork));
    must(hier_apply_kept(f, side, 'N', 'H', nvec, 2, kept, lkept, x.dev, x.ld, 0, y[1].dev, y[1].ld,
                         work, lwork));
    mat_down(&y[0]), mat_down(&y[1]);
    assert_memory_equal(y[0].host, y[1].host, y[0].bytes);
    assert_true(mat_untouched(&y[1], 'A'));
    assert_int_equal(
        hier_keep(f, side, nvec, x.dev, left ? m - 1 : nvec - 1, kept, lkept, work, lwork),
        MOAO_INPUT);
    assert_int_equal(hier_apply_kept(f, side, 'X', 'A', nvec, 1, kept, lkept, x.dev, x.ld, 0,
                                     y[1].dev, y[1].ld, work, lwork),
                     MOAO_INPUT);
    if (lkept > 0) {
        assert_int_equal(hier_keep(f, side, nvec, x.dev, x.ld, kept, lkept - 1, work, lwork),
                         MOAO_INPUT);
        assert_int_equal(hier_apply_kept(f, side, 'N', 'A', nvec, 1, kept, lkept - 1, x.dev, x.ld,
                                         0, y[1].dev, y[1].ld, work, lwork),
                         MOAO_INPUT);
    }
    status_clear();
    be->release(ctx, work), be->release(ctx, kept);
    mat_free(&x), mat_free(&y[0]), mat_free(&y[1]);
}

static void test_toeplitz_format(void **state) {
    (void)state;
    matrix a;
    format *f;
    if (be->toeplitz == NULL || be->hier == NULL)
        skip();
    gap = 0;
    make(&a, 7, 3, 2, false);
    gap = 2;
    const hier_toeplitz_values v = {&a.shape, a.pair};
    /* random values are not symmetric, but it is only half of them that is compared */
    hier_source s = {.rows = a.m, .cols = a.m, .symmetric = true, .detail = &v};
    const hier_options o = {.kind = HIER_TOEPLITZ, .type = BACKEND_D};
    must(hier_open(be, ctx, &s, &o, &f));
    assert_true(hier_kept_bytes(f, 6) > 0);
    assert_int_equal(hier_kept_bytes(f, 0), 0);
    compare_format(f, a.m, 'L');
    compare_format(f, a.m, 'R');
    hier_close(f);
    drop(&a);
}

/* A kind that keeps nothing. */
static void test_other_format(void **state) {
    (void)state;
    const double at[] = {0.1, 0.4, 0.5, 0.8, 0.9};
    hier_source s;
    format *f;
    if (be->hier == NULL || small())
        skip();
    must(hier_points_open(be, ctx, HIER_EXPONENTIAL, 0.1, 1, 5, at, &s));
    const hier_options o = {.kind = HIER_DENSE, .type = BACKEND_D};
    must(hier_open(be, ctx, &s, &o, &f));
    assert_int_equal(hier_kept_bytes(f, 6), 0);
    compare_format(f, 5, 'L');
    compare_format(f, 5, 'R');
    hier_close(f);
    hier_points_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept), cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_toeplitz_format),
                                       cmocka_unit_test(test_other_format)};
    return RUN_ON_BACKENDS(tests);
}
