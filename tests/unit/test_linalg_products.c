/* Batched gemm of a backend (the CPU's, or the one named by MOAO_TEST_BACKEND): errors of every
 * pair of transposes in units of eps, with padding and the gaps between matrices poisoned and
 * compared bit by bit; sizes and ranks that differ and lie in the backend's memory; what is left
 * alone. */
#include "support/operand.h"

#define COUNT(a) ((int64_t)(sizeof(a) / sizeof *(a)))
#define ALLOWED 1.5 /* of (k + 4) eps */

/* C := alpha op(A) op(B) + beta C, each C m x n. */
typedef struct {
    backend_type t;
    char ta, tb;
    int layout;
    bool varied;
    int64_t count, m, n, k;
    double alpha, beta;
    /* built */
    int64_t *ms, *ns, *ks;
    void *dms, *dns, *dks;
    operand a, b, c;
} product;

static void fill(operand *o) {
    for (int64_t b = 0; b < o->count; b++)
        for (int64_t j = 0; j < o->cols[b]; j++)
            for (int64_t i = 0; i < o->rows[b]; i++)
                set(o, b, i, j, rnd());
}

static void build(product *p) {
    const size_t len = sizeof(int64_t) * (size_t)(p->count + 1);
    p->ms = calloc(1, len), p->ns = calloc(1, len), p->ks = calloc(1, len);
    for (int64_t b = 0; b < p->count; b++) {
        const bool full = !p->varied || b == 0;
        p->ms[b] = full ? p->m : (int64_t)((rnd() + 1) / 2 * (double)(p->m + 1));
        p->ns[b] = full ? p->n : (int64_t)((rnd() + 1) / 2 * (double)(p->n + 1));
        p->ks[b] = full ? p->k : (int64_t)((rnd() + 1) / 2 * (double)(p->k + 1));
    }
    const bool ta = p->ta != 'N', tb = p->tb != 'N';
    p->a = operand_new(p->t, p->count, ta ? p->ks : p->ms, ta ? p->ms : p->ks, p->layout);
    p->b = operand_new(p->t, p->count, tb ? p->ns : p->ks, tb ? p->ks : p->ns, p->layout);
    p->c = operand_new(p->t, p->count, p->ms, p->ns, p->layout);
    fill(&p->a), fill(&p->b);
    if (p->beta != 0) /* else C is NaN, which must not be read */
        fill(&p->c);
    for (int64_t b = 0; b < p->count; b++)
        for (int64_t j = 0; j < p->ns[b]; j++)
            for (int64_t i = 0; i < p->ms[b]; i++)
                allow(&p->c, b, i, j);
    send(&p->a), send(&p->b), send(&p->c);
    p->dms = device_copy(p->ms, sizeof(int64_t) * (size_t)p->count);
    p->dns = device_copy(p->ns, sizeof(int64_t) * (size_t)p->count);
    p->dks = device_copy(p->ks, sizeof(int64_t) * (size_t)p->count);
}

static status call(const product *p) {
    const float als = (float)p->alpha, bts = (float)p->beta;
    const bool d = p->t != BACKEND_S;
    const batch_dim m = {p->m, p->varied ? p->dms : NULL}, n = {p->n, p->varied ? p->dns : NULL},
                    k = {p->k, p->varied ? p->dks : NULL};
    return be->batch->gemm(ctx, p->t, p->ta, p->tb, p->count, m, n, k,
                           d ? (const void *)&p->alpha : &als, p->a.m, p->b.m,
                           d ? (const void *)&p->beta : &bts, p->c.m);
}

static void dismantle(product *p) {
    operand_free(&p->a), operand_free(&p->b), operand_free(&p->c);
    be->release(ctx, p->dms), be->release(ctx, p->dns), be->release(ctx, p->dks);
    free(p->ms), free(p->ns), free(p->ks);
}

/* Error of product q in units of (k + 4) eps. */
static double error_of(product *p, int64_t q) {
    dense a = read_full(&p->a, BEFORE, q), b = read_full(&p->b, BEFORE, q),
          x = read_full(&p->c, NOW, q), c = read_full(&p->c, BEFORE, q);
    dense r = dense_new(p->ms[q], p->ns[q]), s = dense_new(p->ms[q], p->ns[q]);
    a = p->ta == 'N' ? a : transposed(a);
    b = p->tb == 'N' ? b : transposed(b);
    if (p->alpha != 0)
        accumulate(r, s, p->alpha, a, b);
    add(r, s, -1, x);
    if (p->beta != 0)
        add(r, s, p->beta, c);
    const double e = worst(r, s, eps_of(p->t), (double)p->ks[q] + 4, 'A');
    free(a.v), free(b.v), free(x.v), free(c.v), free(r.v), free(s.v);
    return e;
}

static double seen[2];

static bool verdict(product *p, bool quiet) {
    const int64_t bad = trespasses(&p->a) + trespasses(&p->b) + trespasses(&p->c);
    double w = 0;
    for (int64_t q = 0; q < p->count; q++) {
        const double e = error_of(p, q);
        w = e <= w ? w : e;
    }
    const bool good = bad == 0 && w <= ALLOWED;
    if (good && w > seen[p->t == BACKEND_S])
        seen[p->t == BACKEND_S] = w;
    if (!good && !quiet)
        print_error("gemm %c trans %c %c m %ld n %ld k %ld layout %d varied %d: error %.3g "
                    "(k + 4) eps, %ld elements outside written\n",
                    "DS"[p->t == BACKEND_S], p -> ta, p -> tb, (long)p -> m, (long)p -> n,
                    (long)p -> k, p -> layout, p -> varied, w, (long)bad);
    return good;
}

static void run_case(product p) {
    build(&p);
    assert_int_equal(call(&p), MOAO_OK);
    fetch(&p.a), fetch(&p.b), fetch(&p.c);
    assert_true(verdict(&p, false));
    dismantle(&p);
}

static product plain(backend_type t, int64_t m, int64_t n, int64_t k) {
    return (product){.t = t, .ta = 'N', .tb = 'N', .count = 3, .m = m, .n = n, .k = k, .alpha = 1};
}

static const double alphas[] = {1, -0.75, 2.5}, betas[] = {0, 1, -0.5, 0};

/* Every pair of transposes and both types, at sizes around the tiles of a device: of one size, and
 * of many; strided, by pointers, and with columns that begin at multiples of 16 bytes. */
static void every_form(void **state) {
    (void)state;
    static const int64_t all[][3] = {{1, 1, 1},      {7, 5, 3},       {32, 32, 32},  {33, 64, 16},
                                     {64, 64, 65},   {65, 31, 100},   {128, 130, 9}, {0, 4, 4},
                                     {4, 0, 4},      {200, 3, 17},    {3, 200, 47},  {64, 128, 256},
                                     {256, 256, 32}, {1000, 17, 130}, {20, 20, 0}};
    static const int64_t few[][3] = {{5, 3, 7}, {33, 66, 17}, {64, 64, 32}, {9, 4, 0}};
    const int64_t(*sizes)[3] = small() ? few : all;
    unsigned q = 0;
    for (int64_t i = 0; i < (small() ? COUNT(few) : COUNT(all)); i++)
        for (unsigned v = 0; v < 8; v++)
            for (int layout = 0; layout < LAYOUTS; layout++, q++) {
                product p =
                    plain(v & 4 ? BACKEND_S : BACKEND_D, sizes[i][0], sizes[i][1], sizes[i][2]);
                p.ta = v & 1 ? "TC"[q % 2] : 'N', p.tb = v & 2 ? "CT"[q % 2] : 'N';
                p.layout = layout, p.varied = (q + v) % 2;
                p.count = p.varied ? 7 : 3;
                p.alpha = alphas[q % 3], p.beta = betas[q / 3 % 4];
                run_case(p);
            }
}

/* Products of tall factors as a compressed matrix has them: U (256 x r) times V' (r x n), every
 * rank its own, read where a compression left it, added to and taken from tiles. */
static void ranks_of_tiles(void **state) {
    (void)state;
    for (int v = 0; v < 4; v++) {
        product p = plain(v & 1 ? BACKEND_S : BACKEND_D, small() ? 40 : 256, small() ? 70 : 256,
                          small() ? 20 : 96);
        p.tb = 'T', p.varied = true, p.count = small() ? 5 : 60,
        p.layout = v & 2 ? ALIGNED : POINTERS;
        p.alpha = -1, p.beta = 1;
        run_case(p);
    }
}

/* A matrix of which any size is negative or above its bound is left alone; the others are not
 * disturbed. */
static void sizes_out_of_range(void **state) {
    (void)state;
    for (int v = 0; v < 12; v++) {
        product p = plain(v & 1 ? BACKEND_S : BACKEND_D, 40, 70, 20);
        const int which = v / 4;
        p.varied = true, p.beta = v & 2 ? 0.5 : 1, p.alpha = v & 2 ? 0 : 1;
        build(&p);
        int64_t bad[3] = {which == 0 ? p.m : which == 1 ? p.n : p.k, -1, 0};
        bad[2] = bad[0] + 1;
        void **sizes = which == 0 ? &p.dms : which == 1 ? &p.dns : &p.dks;
        be->release(ctx, *sizes);
        *sizes = device_copy(bad, sizeof bad);
        assert_int_equal(call(&p), MOAO_OK);
        fetch(&p.c);
        assert_true(error_of(&p, 0) <= ALLOWED);
        for (int64_t b = 1; b < 3; b++)
            for (int64_t j = 0; j < p.ns[b]; j++)
                for (int64_t i = 0; i < p.ms[b]; i++)
                    assert_true(get(&p.c, b, i, j) == was(&p.c, b, i, j));
        dismantle(&p);
    }
}

/* Wrong letters, types, sizes and leading dimensions are refused, and so are more tiles than can be
 * counted; an empty batch is fine. */
static void arguments(void **state) {
    (void)state;
    product p = plain(BACKEND_D, 10, 12, 8), q;
    build(&p);
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        q = p;                                                                                     \
        change;                                                                                    \
        assert_int_equal(call(&q), MOAO_INPUT);                                                    \
        status_clear();                                                                            \
    } while (0)
    REFUSED(q.ta = 'X');
    REFUSED(q.tb = 'L');
    REFUSED(q.t = BACKEND_Z);
    REFUSED(q.count = -1);
    REFUSED(q.m = -1);
    REFUSED(q.n = -1);
    REFUSED(q.k = BATCH_WIDE_MAX + 1);
    REFUSED(q.a.m.ld = 9);
    REFUSED(q.b.m.ld = 7);
    REFUSED(q.c.m.ld = 9);
    REFUSED((q.ta = 'T', q.a.m.ld = 7));
    REFUSED((q.tb = 'T', q.b.m.ld = 11));
    REFUSED((q.n = BATCH_WIDE_MAX, q.count = 40000));
    q = p, q.count = 0;
    assert_int_equal(call(&q), MOAO_OK);
    fetch(&p.c);
    for (int64_t i = 0; i < p.c.total; i++) /* nothing was done */
        p.c.may[i] = false;
    assert_int_equal(trespasses(&p.c), 0);
    dismantle(&p);
}

/* alpha = 0 reads neither A nor B (NaN here), beta = 0 not C; k = 0 scales C alone. */
static void zero_scalars(void **state) {
    (void)state;
    for (int v = 0; v < 16; v++) {
        product p = plain(v & 1 ? BACKEND_S : BACKEND_D, v & 2 ? 100 : 20, 33, 5);
        p.alpha = 0, p.beta = v & 4 ? -0.5 : 0;
        p.layout = v & 8 ? POINTERS : STRIDED;
        build(&p);
        operand *in[] = {&p.a, &p.b};
        for (int i = 0; i < 2; i++) {
            const int64_t bytes = in[i]->total * (int64_t)backend_size(p.t);
            memset(in[i]->host, 0xff, (size_t)bytes);
            assert_int_equal(be->copy(ctx, in[i]->dev, bytes, in[i]->host, bytes, bytes, 1),
                             MOAO_OK);
        }
        assert_int_equal(call(&p), MOAO_OK);
        fetch(&p.c);
        for (int64_t b = 0; b < p.count; b++)
            for (int64_t j = 0; j < p.ns[b]; j++)
                for (int64_t i = 0; i < p.ms[b]; i++)
                    assert_true(get(&p.c, b, i, j) ==
                                (p.beta != 0 ? p.beta * was(&p.c, b, i, j) : 0));
        assert_int_equal(trespasses(&p.c), 0);
        dismantle(&p);
    }
}

/* The bits of a product are the same alone, among others, and in another place among them. */
static void same_bits(void **state) {
    (void)state;
    for (int v = 0; v < 4; v++) {
        product p = plain(v & 1 ? BACKEND_S : BACKEND_D, 70, 45, 33);
        p.ta = v & 2 ? 'T' : 'N', p.tb = v & 2 ? 'N' : 'T', p.count = 5, p.beta = 1;
        build(&p);
        assert_int_equal(call(&p), MOAO_OK);
        fetch(&p.c);
        const int64_t bytes = p.c.total * (int64_t)backend_size(p.t),
                      size = (int64_t)backend_size(p.t);
        char *together = malloc((size_t)bytes);
        memcpy(together, p.c.host, (size_t)bytes);
        assert_int_equal(be->copy(ctx, p.c.dev, bytes, p.c.before, bytes, bytes, 1), MOAO_OK);
        for (int64_t b = p.count - 1; b >= 0; b--) {
            product one = p;
            operand *const o[] = {&one.a, &one.b, &one.c};
            one.count = 1;
            for (int i = 0; i < 3; i++)
                o[i]->m.base = (char *)o[i]->m.base + b * o[i]->m.stride * size;
            assert_int_equal(call(&one), MOAO_OK);
        }
        fetch(&p.c);
        assert_memory_equal(p.c.host, together, (size_t)bytes);
        free(together);
        dismantle(&p);
    }
}

/* More products than a grid has rows, one A for all of them (stride 0). */
static void large_batch(void **state) {
    (void)state;
    const int64_t count = small() ? 300 : 70000, n = 3;
    const double one = 1, zero = 0;
    double *a = calloc((size_t)(n * n), sizeof *a),
           *b = malloc(sizeof(double) * (size_t)(n * count));
    for (int64_t j = 0; j < n; j++)
        a[j * n + j] = 2;
    for (int64_t i = 0; i < n * count; i++)
        b[i] = (double)i;
    const int64_t bytes = n * count * 8;
    double *da = device_copy(a, sizeof(double) * (size_t)(n * n)),
           *db = device_copy(b, (size_t)bytes), *dc = device_copy(b, (size_t)bytes);
    assert_int_equal(be->batch->gemm(ctx, BACKEND_D, 'N', 'N', count, batch_size(n), batch_size(1),
                                     batch_size(n), &one, batch_strided(da, n, 0),
                                     batch_strided(db, n, n), &zero, batch_strided(dc, n, n)),
                     MOAO_OK);
    assert_int_equal(be->copy(ctx, b, bytes, dc, bytes, bytes, 1), MOAO_OK);
    assert_int_equal(be->sync(ctx), MOAO_OK);
    for (int64_t i = 0; i < n * count; i++)
        if (b[i] != 2 * (double)i)
            fail_msg("element %ld is %g", (long)i, b[i]);
    be->release(ctx, da), be->release(ctx, db), be->release(ctx, dc);
    free(a), free(b);
}

/* The checks notice an error of 100 (k + 4) eps in one element, NaN, and one element outside. */
static void checks_notice_errors(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++) {
        product p = plain(v ? BACKEND_S : BACKEND_D, 20, 30, 40);
        build(&p);
        assert_int_equal(call(&p), MOAO_OK);
        fetch(&p.a), fetch(&p.b), fetch(&p.c);
        assert_true(verdict(&p, false));
        const double x = get(&p.c, 2, 3, 3), off = 100 * 44 * eps_of(p.t) * 40;
        set(&p.c, 2, 3, 3, x + off);
        assert_false(verdict(&p, true));
        set(&p.c, 2, 3, 3, NAN);
        assert_false(verdict(&p, true));
        set(&p.c, 2, 3, 3, x);
        assert_true(verdict(&p, false));
        set(&p.c, 1, p.m, 2, 1.0); /* the padding below a column */
        assert_false(verdict(&p, true));
        dismantle(&p);
    }
}

static void chosen(void) {
    seen[0] = seen[1] = 0;
}

static void print_errors(void) {
    print_message("%s gemm  worst error %.2f (FP64) %.2f (FP32) of (k + 4) eps, allowed %.1f\n",
                  be->name, seen[0], seen[1], ALLOWED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form),         cmocka_unit_test(ranks_of_tiles),
        cmocka_unit_test(sizes_out_of_range), cmocka_unit_test(arguments),
        cmocka_unit_test(zero_scalars),       cmocka_unit_test(same_bits),
        cmocka_unit_test(large_batch),        cmocka_unit_test(checks_notice_errors),
    };
    const backend_tests all = {tests, (size_t)COUNT(tests), chosen, print_errors};
    return run_on_backends(&all);
}
