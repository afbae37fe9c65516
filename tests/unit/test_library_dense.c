/* Dense and batched operations of the installed library with sizes of -1, 0, 1, 3 and huge ones,
 * leading dimensions that do not do, numbers that are not finite, and operands that are one: each
 * call returns, and the right status. Sanitizers see the rest. */
#include "moao/backend_fp16.h"
#include "moao/backend_lowrank.h"
#include "support/edges.h"
#include <float.h>

typedef status dense_call(backend_type t, int64_t m, int64_t n, int64_t ld, void *a, void *b,
                          void *c, void *work, size_t lwork, int *info);

static const double one_d = 1;
static const float one_s = 1;
static const void *one_of(backend_type t) {
    return t == BACKEND_D ? (const void *)&one_d : &one_s;
}

#define CALL(name, call)                                                                           \
    static status name(backend_type t, int64_t m, int64_t n, int64_t ld, void *a, void *b,         \
                       void *c, void *work, size_t lwork, int *info) {                             \
        const void *one = one_of(t);                                                               \
        (void)m, (void)n, (void)ld, (void)a, (void)b, (void)c, (void)work, (void)lwork,            \
            (void)info;                                                                            \
        (void)one;                                                                                 \
        return call;                                                                               \
    }
CALL(call_gemm_nn, be->gemm(ctx, t, 'N', 'N', m, n, 3, one, a, ld, b, N, one, c, ld, work, lwork))
CALL(call_gemm_tt, be->gemm(ctx, t, 'T', 'T', m, n, 3, one, a, N, b, n > 1 && n <= 3 ? n : N, one,
                            c, ld, work, lwork))
CALL(call_trsm, be->trsm(ctx, t, 'L', 'L', 'N', 'N', m, n, one, a, ld, c, ld, work, lwork))
CALL(call_trmm, be->trmm(ctx, t, 'L', 'U', 'T', 'U', m, n, one, a, ld, c, ld, work, lwork))
CALL(call_symm, be->symm(ctx, t, 'L', 'L', m, n, one, a, ld, b, ld, one, c, ld, work, lwork))
CALL(call_max_abs, be->fp16->max_abs(ctx, t, m, n, a, ld, c))
CALL(call_squares, be->fp16->squares(ctx, t, m, n, a, ld, 2, c, N))
#undef CALL

/* Dense operations on blocks of m x n, with operands that are one where they are only read. */
static void test_dense(void **state) {
    static const struct {
        dense_call *call;
        const char *name;
        backend_op op;
    } row[] = {
        {call_gemm_nn, "gemm", BACKEND_GEMM},   {call_gemm_tt, "gemm, transposed", BACKEND_GEMM},
        {call_trsm, "trsm", BACKEND_TRSM},      {call_trmm, "trmm", BACKEND_TRMM},
        {call_symm, "symm", BACKEND_SYMM},      {call_max_abs, "max_abs", BACKEND_GEMM},
        {call_squares, "squares", BACKEND_GEMM}};
    static const int64_t lds[] = {-1, 0, 1, 3, N, INT64_MAX};
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        for (int type = 0; type < 2; type++)
            for (int e = 0; e < SIZES * SIZES * 6; e++) {
                const backend_type t = type ? BACKEND_S : BACKEND_D;
                const int64_t m = sizes[e % SIZES], n = sizes[e / SIZES % SIZES],
                              ld = lds[e / SIZES / SIZES];
                if (!holds(m, n, ld) || (k == 1 && n > 3) || (k == 6 && (m > 3 || n > 3)))
                    continue;
                const bool legal = m >= 0 && n >= 0 && fits(m, ld);
                const size_t lwork =
                    legal && m <= 3 && n <= 3 ? be->workspace(row[k].op, t, m, n) : 0;
                void *a = numbers(t), *c = numbers(t), *work = poison(lwork);
                expect(row[k].call(t, m, n, ld, a, a, c, work, lwork, NULL), legal, row[k].name, m,
                       n, ld);
                must(be->sync(ctx));
                be->release(ctx, a), be->release(ctx, c), be->release(ctx, work);
            }
}

/* Triangles and systems of order n; numbers that are not finite are told by info, or stay there. */
static void test_factors(void **state) {
    static const double bad[] = {0, NAN, INFINITY, -INFINITY, 1e300, 1e-300};
    (void)state;
    for (int type = 0; type < 2; type++)
        for (int e = 0; e < SIZES; e++)
            for (int64_t ld = 0; ld <= N; ld += 3) {
                const backend_type t = type ? BACKEND_S : BACKEND_D;
                const int64_t n = sizes[e], order = n > 0 && n <= 3 ? n : 0;
                const bool legal = fits(n, ld);
                size_t lwork = be->workspace(BACKEND_POSV, t, 2, order);
                const size_t more = be->workspace(BACKEND_POTI, t, order, order);
                lwork = more > lwork ? more : lwork;
                void *a = numbers(t), *b = numbers(t), *c = numbers(t), *work = poison(lwork);
                int *info = poison(64);
                expect(be->potrf(ctx, t, 'L', n, a, ld, info, work, lwork), legal, "potrf", n, n,
                       ld);
                expect(be->potrs(ctx, t, 'L', n, 2, a, ld, b, ld, work, lwork), legal, "potrs", n,
                       2, ld);
                expect(be->potri(ctx, t, 'L', n, a, ld, info, work, lwork), legal, "potri", n, n,
                       ld);
                expect(be->mirror(ctx, t, 'L', n, a, ld), legal, "mirror", n, n, ld);
                expect(be->trtri(ctx, t, 'U', 'N', n, c, ld, info, work, lwork), legal, "trtri", n,
                       n, ld);
                expect(be->lauum(ctx, t, 'U', n, c, ld, work, lwork), legal, "lauum", n, n, ld);
                be->release(ctx, c);
                c = numbers(t);
                expect(be->posv(ctx, t, 'U', n, 2, c, ld, b, ld, info, work, lwork), legal, "posv",
                       n, 2, ld);
                expect(be->posv(ctx, t, 'U', n, -1, c, ld, b, ld, info, work, lwork), false, "posv",
                       n, -1, ld);
                be->release(ctx, a);
                a = numbers(t);
                expect(be->poti(ctx, t, 'L', n, a, ld, info, work, lwork), legal, "poti", n, n, ld);
                expect(be->syrk(ctx, t, 'L', 'N', n, 2, one_of(t), a, ld, one_of(t), c, ld, work,
                                be->workspace(BACKEND_SYRK, t, order, 2)),
                       legal, "syrk", n, 2, ld);
                expect(be->syr2k(ctx, t, 'L', 'N', n, 2, one_of(t), a, ld, a, ld, one_of(t), c, ld,
                                 work, lwork),
                       legal, "syr2k", n, 2, ld);
                expect(be->potrf(ctx, t, 'X', n, a, ld, info, work, lwork), false, "potrf X", n, n,
                       ld);
                be->release(ctx, a), be->release(ctx, b), be->release(ctx, c),
                    be->release(ctx, work);
                be->release(ctx, info);
            }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        double host[9] = {4, 1, bad[k], 1, 4, 1, bad[k], 1, bad[k] > 1e200 ? bad[k] : 4};
        const size_t lwork = be->workspace(BACKEND_POTRF, BACKEND_D, 3, 3);
        void *a = device_copy(host, sizeof host), *work = poison(lwork);
        int *info = poison(64), got;
        const status st = be->potrf(ctx, BACKEND_D, 'L', 3, a, 3, info, work, lwork);
        to_host(&got, info, sizeof got);
        to_host(host, a, sizeof host);
        /* positive definite, or the minor is told, or the factor shows it */
        assert_true(st == MOAO_OK || st == MOAO_NUMERIC);
        assert_true(got != 0 || isfinite(bad[k]) || !isfinite(host[2] + host[5] + host[8]));
        status_clear();
        be->release(ctx, a), be->release(ctx, work), be->release(ctx, info);
    }
}

/* Batches: counts and bounds, sizes of matrices that are out of range, entries that are not finite.
 */
static void test_lowrank(void **state) {
    static const double scale[] = {1, 1e-300, 1e300, 0, NAN, INFINITY, DBL_MAX, DBL_TRUE_MIN};
    enum { COUNT = 3 };
    const backend_lowrank *low = be->lowrank;
    (void)state;
    for (size_t k = 0; k < sizeof scale / sizeof *scale; k++)
        for (int e = 0; e < SIZES; e++) {
            const int64_t m = 4, n = 3, bound = sizes[e], q = bound > 0 && bound <= 3 ? bound : 0;
            const batch_cut cut = {.tol = 1e-3, .kind = 'R', .norm = 'F', .most = 2};
            double host[COUNT * 12];
            for (int i = 0; i < COUNT * 12; i++)
                host[i] = cos(3.0 * i * i) * (i / 12 == 1 ? scale[k] : 1);
            int64_t each[COUNT] = {3, 3, k % 2 ? -1 : INT64_MAX}; /* the last one is out of range */
            void *a = device_copy(host, sizeof host), *to = device_copy(each, sizeof each);
            void *u = poison(sizeof host), *v = poison(sizeof host), *s = poison(sizeof host);
            int64_t *rank = poison(8 * COUNT), ranks[COUNT];
            int *info = poison(4 * COUNT), infos[COUNT];
            const bool legal = bound >= 0 && bound <= 3;
            const batch_dim dm = batch_size(m),
                            dn = legal && bound == 3 ? (batch_dim){n, to} : batch_size(bound);
            const batch_mat ma = batch_strided(a, m, 12), mu = batch_strided(u, m, 12),
                            mv = batch_strided(v, 3, 9), ms = batch_strided(s, 4, 4);
            size_t lwork = 0;
            for (int o = 0; o <= BATCH_RECOMPRESS; o++) {
                const size_t w = low->workspace((batch_op)o, BACKEND_D, COUNT, m, q, 10);
                lwork = w > lwork ? w : lwork;
            }
            void *work = poison(lwork);
            expect(low->ara(ctx, BACKEND_D, 'B', &cut, 1, COUNT, dm, dn, ma, mu, mv, rank, info,
                            work, lwork),
                   legal, "ara", m, bound, m);
            if (legal && bound == 3) {
                to_host(infos, info, sizeof infos), to_host(ranks, rank, sizeof ranks);
                assert_int_equal(infos[2], -1);
                assert_int_equal(ranks[2], 0);
                assert_true(isfinite(scale[k]) ? infos[1] <= 0 : infos[1] == 1);
                assert_in_range(ranks[0], 0, 2);
            }
            expect(low->rsvd(ctx, BACKEND_D, 'U', 'S', &cut, 1, 1, 1, COUNT, dm, dn, ma, ms, mu, mv,
                             rank, info, work, lwork),
                   legal, "rsvd", m, bound, m);
            expect(low->qr(ctx, BACKEND_D, 'R', COUNT, dm, dn, ma, mv, info, work, lwork), legal,
                   "qr", m, bound, m);
            be->release(ctx, a);
            a = device_copy(host, sizeof host);
            const batch_mat mb = batch_strided(a, m, 12);
            expect(low->gesvj(ctx, BACKEND_D, 'U', 'U', NULL, COUNT, dm, dn, mb, ms, mb, mv, rank,
                              info, work, lwork), /* U in place of A */
                   legal, "gesvj", m, bound, m);
            be->release(ctx, a);
            a = device_copy(host, sizeof host);
            const batch_mat mc = batch_strided(a, m, 12);
            expect(low->geqrf(ctx, BACKEND_D, COUNT, dm, dn, mc, ms, info), legal, "geqrf", m,
                   bound, m);
            expect(low->orgqr(ctx, BACKEND_D, COUNT, dm, dn, dn, mc, ms), legal, "orgqr", m, bound,
                   m);
            expect(low->ormqr(ctx, BACKEND_D, 'L', 'T', COUNT, dm, batch_size(1), dn, mc, ms, mu),
                   legal, "ormqr", m, bound, m);
            expect(low->recompress(ctx, BACKEND_D, 'L', &cut, COUNT, dm, dm, &one_d, dn, mu, mu,
                                   &one_d, dn, mc, mc, rank, info, work, lwork),
                   legal, "recompress", m, bound, m);
            expect(low->ara(ctx, BACKEND_D, 'L', &cut, 1, -1, dm, dn, ma, mu, mv, rank, info, work,
                            lwork),
                   false, "ara of -1", m, bound, m);
            must(be->sync(ctx));
            be->release(ctx, a), be->release(ctx, u), be->release(ctx, v), be->release(ctx, s);
            be->release(ctx, rank), be->release(ctx, info), be->release(ctx, to),
                be->release(ctx, work);
        }
}

static void test_batches(void **state) {
    const backend_batch *b = be->batch;
    (void)state;
    for (int e = 0; e < SIZES; e++)
        for (int64_t count = -1; count <= 2; count++) {
            const batch_dim n = batch_size(sizes[e]);
            void *x = numbers(BACKEND_D), *y = numbers(BACKEND_D);
            const batch_mat a = batch_strided(x, N, N * N), c = batch_strided(y, N, N * N);
            int *info = poison(64);
            const bool legal = sizes[e] >= 0 && sizes[e] <= 3 && count >= 0;
            const int64_t s = sizes[e];
            expect(b->gemm(ctx, BACKEND_D, 'N', 'T', count, n, n, n, &one_d, a, a, &one_d, c),
                   legal, "batched gemm", s, s, N);
            expect(b->syrk(ctx, BACKEND_D, 'L', 'N', count, n, n, &one_d, a, &one_d, c), legal,
                   "batched syrk", s, s, N);
            expect(b->potrf(ctx, BACKEND_D, 'L', count, n, a, info), legal, "batched potrf", s, s,
                   N);
            expect(b->trsm(ctx, BACKEND_D, 'L', 'L', 'N', 'N', count, n, n, &one_d, a, c), legal,
                   "batched trsm", s, s, N);
            expect(b->trmm(ctx, BACKEND_D, 'R', 'L', 'T', 'N', count, n, n, &one_d, a, c), legal,
                   "batched trmm", s, s, N);
            expect(b->potrs(ctx, BACKEND_D, 'L', count, n, n, a, c), legal, "batched potrs", s, s,
                   N);
            expect(b->potri(ctx, BACKEND_D, 'L', count, n, a, info), legal, "batched potri", s, s,
                   N);
            expect(b->lauum(ctx, BACKEND_D, 'L', count, n, a), legal, "batched lauum", s, s, N);
            be->release(ctx, x);
            x = numbers(BACKEND_D);
            const batch_mat d = batch_strided(x, N, N * N);
            expect(b->posv(ctx, BACKEND_D, 'L', count, n, n, d, c, info), legal, "batched posv", s,
                   s, N);
            expect(b->trtri(ctx, BACKEND_D, 'L', 'N', count, n, d, info), legal, "batched trtri", s,
                   s, N);
            expect(b->poti(ctx, BACKEND_D, 'L', count, n, c, info), legal, "batched poti", s, s, N);
            must(be->sync(ctx));
            be->release(ctx, x), be->release(ctx, y), be->release(ctx, info);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_lowrank),
        cmocka_unit_test(test_batches),
    };
    return RUN_ON_BACKENDS(tests);
}
