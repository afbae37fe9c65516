/* D' of a mirror as a filter against the interaction matrix: models of slopes, couplings from
 * narrow to too wide, sizes of the grid, obscurations, types, strides, alpha and beta, NaN where
 * nothing is read. */
#include "moao/backend_sparse.h"
#include "support/matrix.h"

#include "matcov/matcov.h"

typedef struct {
    int nssp;
    double coupling, obs;
    bool gradient;
} mirror;

static void make(const mirror *o, sys *s) {
    *s = (sys){.diameter = 0.5 * o->nssp, .obs = o->obs};
    s->ts = (sensor){.nssp = o->nssp, .altitude = INFINITY, .mag = 1};
    s->dm = (dmirror){.nssp = o->nssp, .coupling = o->coupling, .mu = 3e-3};
    must(sys_derive(s));
    s->ts.gradient = o->gradient;
}

static int *send(const int *host, int64_t count) {
    void *dev;
    const int64_t bytes = count * (int64_t)sizeof *host;
    must(be->alloc(ctx, (size_t)bytes + 1, &dev));
    must(be->copy(ctx, dev, bytes, host, bytes, bytes, 1));
    must(be->sync(ctx));
    return dev;
}

/* Largest error of B = alpha D'A + beta B relative to |alpha| |D|'|A| + |beta B|. */
static double gap(const double *d, int64_t t, const mat *a, const mat *b, const mat *before,
                  double alpha, double beta) {
    double most = 0;
    for (int64_t j = 0; j < b->n; j++)
        for (int64_t i = 0; i < b->m; i++) {
            long double sum = 0; /* or the thousands of its terms would err by more */
            double size = 0;
            for (int64_t k = 0; k < t; k++) {
                const long double x = (long double)d[k + i * t] * creal(mat_get(a, k, j));
                sum += x;
                size += fabs((double)x);
            }
            const double was = beta != 0 ? beta * creal(mat_get(before, i, j)) : 0;
            const double off = fabs((double)(creal(mat_get(b, i, j)) - (alpha * sum + was)));
            size = fabs(alpha) * size + fabs(was);
            assert_true(isfinite(off));
            most = off > 0 ? fmax(most, off / size) : most;
        }
    return most;
}

/* Of a mirror, with n columns. */
static void check(const mirror *o, backend_type type, int64_t n, double alpha, double beta) {
    sys s;
    backend_filter f;
    make(o, &s);
    must(matcov_interaction_filter(&s, &f));
    assert_true(f.reach > 0 && f.corners == s.dm.nact && 2 * f.squares == (int64_t)s.t);
    const int64_t t = (int64_t)s.t, v = s.dm.nact;
    double *d = malloc((size_t)(t * v + 1) * sizeof *d);
    assert_non_null(d);
    must(matcov_fill_interaction(&s, d, s.t));
    f.square = send(s.ts.sub, f.squares);
    f.corner = send(s.dm.act, v);
    mat a = mat_new(type, t, n, 3), b = mat_new(type, v, n, 2);
    mat_fill(&a, 'A');
    if (beta != 0)
        mat_fill(&b, 'A');
    mat_up(&a), mat_up(&b);
    must(be->sparse->filter(ctx, type, &f, n, alpha, a.dev, a.ld, beta, b.dev, b.ld));
    mat_down(&b);
    assert_true(mat_untouched(&b, 'A'));
    mat before = b;
    before.host = b.before;
    const double off = gap(d, t, &a, &b, &before, alpha, beta);
    if (!(off <= (type == BACKEND_D ? 1e-15 : 5e-7)))
        fail_msg("%d subapertures, coupling %g, obscuration %g: wrong by %g", o->nssp, o->coupling,
                 o->obs, off);
    be->release(ctx, (void *)f.square);
    be->release(ctx, (void *)f.corner);
    mat_free(&a), mat_free(&b);
    free(d);
    sys_free(&s);
}

static void test_mirrors(void **state) {
    (void)state;
    static const mirror of[] = {{1, 0.2, 0, false},    {2, 0.2, 0, true},     {7, 0.2, 0.2, false},
                                {7, 0.9, 0.2, true},   {16, 0.9, 0, false},   {17, 0.01, 0, false},
                                {20, 0.2, 0.3, true},  {20, 0.2, 0.3, false}, {23, 0.6, 0.1, true},
                                {33, 0.15, 0.4, true}, {40, 0.8, 0.275, true}};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        for (int type = BACKEND_D; type <= BACKEND_S; type++)
            for (int64_t n = 0; n <= 5; n += 5)
                check(&of[k], (backend_type)type, n, 1, 0);
}

static void test_factors(void **state) {
    (void)state;
    static const mirror of = {12, 0.3, 0.2, true};
    static const double factor[][2] = {{1, 1}, {-0.5, 0}, {0, 2}, {-1, -3}, {0, 0}};
    for (size_t k = 0; k < sizeof factor / sizeof *factor; k++)
        for (int type = BACKEND_D; type <= BACKEND_S; type++)
            check(&of, (backend_type)type, 3, factor[k][0], factor[k][1]);
}

/* Larger than what a block of threads holds at a time. */
static void test_large(void **state) {
    (void)state;
    static const mirror of[] = {{84, 0.2, 0.28, true}, {130, 0.2, 0.9, true}};
    for (int k = 0; k < (small() ? 1 : 2); k++)
        for (int type = BACKEND_D; type <= BACKEND_S; type++)
            check(&of[k], (backend_type)type, 2, 1, 0);
}

/* What does not matter in double precision is left out; what is too wide has no filter. */
static void test_reach(void **state) {
    (void)state;
    static const struct {
        mirror o;
        int from, to;
    } of[] = {{{40, 0.2, 0, false}, 5, 6},
              {{40, 0.2, 0, true}, 5, 6},
              {{3, 0.2, 0, true}, 3, 3},
              {{40, 0.9, 0, false}, 0, 0},
              {{16, 0.9, 0, false}, 16, 16}};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        sys s;
        backend_filter f;
        make(&of[k].o, &s);
        must(matcov_interaction_filter(&s, &f));
        assert_in_range(f.reach, of[k].from, of[k].to);
        sys_free(&s);
    }
}

static void test_arguments(void **state) {
    (void)state;
    const backend_filter f = {.n = 1, .squares = 1, .corners = 4, .reach = 1};
    backend_filter wide = f;
    sparse_filter_op *const filter = be->sparse->filter;
    wide.reach = BACKEND_REACH + 1;
    assert_int_equal(filter(ctx, BACKEND_Z, &f, 1, 1, NULL, 2, 0, NULL, 4), MOAO_INPUT);
    assert_int_equal(filter(ctx, BACKEND_D, &f, 1, 1, NULL, 1, 0, NULL, 4), MOAO_INPUT);
    assert_int_equal(filter(ctx, BACKEND_D, &f, 1, 1, NULL, 2, 0, NULL, 3), MOAO_INPUT);
    assert_int_equal(filter(ctx, BACKEND_D, &f, -1, 1, NULL, 2, 0, NULL, 4), MOAO_INPUT);
    assert_int_equal(filter(ctx, BACKEND_D, &wide, 1, 1, NULL, 2, 0, NULL, 4), MOAO_INPUT);
    status_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mirrors),
                                       cmocka_unit_test(test_factors), cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_reach),
                                       cmocka_unit_test(test_arguments)};
    return RUN_ON_BACKENDS(tests);
}
