/* Typed calls (moao/batched.h): each gives the bits of the table's operation, by strides and by
 * pointers; products of dense and low-rank matrices against their sums in long double; a matrix
 * that fails is named. Wrong arguments: tests/e2e/test_batched.py. */
#include "linalg/core/backend_own.h"
#include "moao/batched.h"
#include "support/hier_case.h"
#include <math.h>
#include <string.h>

enum { M = 7, N = 5, K = 4, LD = 9, STRIDE = LD * LD, COUNT = 3, OPERANDS = 6 };

typedef struct {
    const char *name;
    status (*call)(int v);
} routine;

static void *x[OPERANDS], *px[OPERANDS][COUNT]; /* in the backend's memory; pointers to each */
static int info[COUNT], *dinfo;
static int64_t rank[COUNT], *drank, *dka, *dkb;
static int64_t ka[COUNT], kb[COUNT];
static const int64_t kc[COUNT] = {0, 2, 1};
static void *room;
static size_t lwork;

static batch_dim dim(int64_t n) {
    return batch_size(n);
}

/* room, lwork := what an operation needs. */
static void work(batch_op op, backend_type t, int64_t k) {
    lwork = be->lowrank->workspace(op, t, COUNT, M, N, k);
    be->release(ctx, room);
    must(be->alloc(ctx, lwork + 1, &room));
}

#define REAL double
#define TYPE BACKEND_D
#define CALL(name) moao_d##name
#define NAME(name) name##_d
#include "support/batched_real.h"
#undef REAL
#undef TYPE
#undef CALL
#undef NAME

#define REAL float
#define TYPE BACKEND_S
#define CALL(name) moao_s##name
#define NAME(name) name##_s
#include "support/batched_real.h"
#undef REAL
#undef TYPE
#undef CALL
#undef NAME

/* Entry e of operand i: dominant diagonals, so that all can be factored. */
static double entry(int i, int e) {
    const int in = e % STRIDE, row = in % LD, col = in / LD;
    return (row == col ? 4 : 0) + cos(e * (0.7 + i) + i);
}

static void load(backend_type t) {
    const int64_t bytes = COUNT * STRIDE * (int64_t)backend_size(t);
    for (int i = 0; i < OPERANDS; i++) {
        double host[COUNT * STRIDE];
        for (int e = 0; e < COUNT * STRIDE; e++)
            if (t == BACKEND_D)
                host[e] = entry(i, e);
            else
                ((float *)host)[e] = (float)entry(i, e);
        must(be->copy(ctx, x[i], bytes, host, bytes, bytes, 1));
        must(be->sync(ctx));
        for (int b = 0; b < COUNT; b++)
            px[i][b] = (char *)x[i] + b * bytes / COUNT;
    }
    for (int b = 0; b < COUNT; b++)
        info[b] = rank[b] = 0;
}

/* All operands, ranks and info as they are now. */
typedef struct {
    char x[OPERANDS][COUNT * STRIDE * sizeof(double)];
    int64_t rank[COUNT];
} snapshot;

static void keep(snapshot *s, backend_type t, bool by_table) {
    memset(s, 0, sizeof *s);
    for (int i = 0; i < OPERANDS; i++)
        to_host(s->x[i], x[i], COUNT * STRIDE * backend_size(t));
    if (by_table)
        to_host(s->rank, drank, sizeof s->rank);
    else
        memcpy(s->rank, rank, sizeof rank);
}

static void same_bits(void **state) {
    static snapshot want, got;
    (void)state;
    for (int e = 0; e < 2; e++) {
        const backend_type t = e ? BACKEND_S : BACKEND_D;
        const routine *r = e ? routines_s : routines_d;
        for (size_t i = 0; i < sizeof routines_d / sizeof *r; i++) {
            static const int64_t none[COUNT];
            load(t);
            must(be->copy(ctx, drank, sizeof none, none, sizeof none, sizeof none, 1));
            must(r[i].call(0));
            must(be->sync(ctx));
            keep(&want, t, true);
            for (int v = 1; v <= 2; v++) {
                load(t);
                must(r[i].call(v));
                keep(&got, t, false);
                if (memcmp(&want, &got, sizeof got) != 0)
                    fail_msg("%s in type %d, way %d: other bits", r[i].name, e, v);
            }
            load(t);
            keep(&got, t, false);
            if (memcmp(&want, &got, sizeof got) == 0)
                fail_msg("%s in type %d does nothing", r[i].name, e);
        }
    }
}

static long double at(const snapshot *s, backend_type t, int i, int b, int row, int col) {
    const int e = b * STRIDE + col * LD + row;
    return t == BACKEND_D ? ((const double *)s->x[i])[e] : ((const float *)s->x[i])[e];
}

/* Entry of operand i, or of the product of i and i + 1 of so many columns. */
static long double of(const snapshot *s, backend_type t, int i, int b, char low, int64_t k, int row,
                      int col) {
    long double sum = 0;
    if (low != 'l')
        return at(s, t, i, b, row, col);
    for (int r = 0; r < k; r++)
        sum += at(s, t, i, b, row, r) * at(s, t, i + 1, b, col, r);
    return sum;
}

static long double sum_error(const char *kind, backend_type t, char ta, char tb,
                             const snapshot *before, const snapshot *after) {
    long double worst = 0;
    for (int b = 0; b < COUNT; b++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < M; i++) {
                long double want = -of(before, t, 4, b, kind[2], kc[b], i, j);
                for (int l = 0; l < K; l++)
                    want += 2 *
                            (ta == 'N' ? of(before, t, 0, b, kind[0], ka[b], i, l)
                                       : of(before, t, 0, b, kind[0], ka[b], l, i)) *
                            (tb == 'N' ? of(before, t, 2, b, kind[1], kb[b], l, j)
                                       : of(before, t, 2, b, kind[1], kb[b], j, l));
                const long double off = of(after, t, 4, b, kind[2], after->rank[b], i, j) - want;
                worst = fmaxl(worst, fabsl(off));
            }
    for (int i = 0; i < 4; i++) /* A and B are only read */
        if (memcmp(before->x[i], after->x[i], sizeof before->x[i]) != 0)
            return INFINITY;
    return worst;
}

static void products(void **state) {
    static const char *const kinds[] = {"lld", "dld", "ldd", "lll", "dll", "ldl"};
    static snapshot before, after, other;
    (void)state;
    for (int e = 0; e < 48 * 4; e++) {
        const char *kind = kinds[e / 8 % 6], ta = e & 1 ? 'T' : 'N', tb = e & 2 ? 'C' : 'N';
        const backend_type t = e & 4 ? BACKEND_S : BACKEND_D;
        if (e / 48 % 2) /* the other factor is multiplied first */
            ka[1] = 2, ka[2] = 0, kb[0] = 3, kb[2] = 0;
        else
            ka[1] = 3, ka[2] = 1, kb[0] = 2, kb[2] = 2;
        for (int strided = 0; strided < 2; strided++) {
            load(t);
            memcpy(rank, kc, sizeof rank);
            keep(&before, t, false);
            must((t == BACKEND_D ? product_d : product_s)(kind, strided, ta, tb));
            keep(strided ? &after : &other, t, false);
        }
        assert_memory_equal(&after, &other, sizeof after);
        const long double off = sum_error(kind, t, ta, tb, &before, &after);
        /* sums of at most 36 products of up to 1300, or what a tolerance cuts of their norm */
        const bool d = t == BACKEND_D;
        const double unit = d ? 0x1p-53 : 0x1p-24, tol = d ? 1e-13 : 1e-6;
        if (!(off < (kind[2] == 'l' ? 3e3 * tol : 2e4 * unit)))
            fail_msg("%s %c%c in type %d: off by %.2Lg", kind, ta, tb, (int)t, off);
        for (int b = 0; kind[2] == 'l' && b < COUNT; b++) /* the rank of the sum, no more */
            assert_in_range(rank[b], 0,
                            kc[b] + (kind[0] != 'l'   ? kb[b]
                                     : kind[1] != 'l' ? ka[b]
                                                      : batch_least(ka[b], kb[b])));
    }
}

/* More columns than a recompression takes: 190 of C and 100 of a product, whose sizes decay. */
static void many_columns(void **state) {
    enum { L = 300, KC = 190, R = 100, SIZE = L * L };
    double *host = calloc(6 * SIZE, sizeof *host), *got = calloc(2 * SIZE, sizeof *got);
    void *p[6];
    int64_t ks = R, kcs = KC;
    long double norm = 0, off = 0;
    (void)state;
    for (int i = 0; i < 6; i++) {
        for (int e = 0; e < SIZE; e++) {
            float v[4];
            backend_random((uint64_t)i, e, 0, v);
            host[i * SIZE + e] = v[0] * pow(10, -(e / L) / 20.0);
        }
        p[i] = device_copy(host + i * SIZE, sizeof(double) * SIZE);
    }
    must(moao_dgemm_lll_strided_batched(ctx, 'N', 'N', L, L, L, 2, &ks, p[0], L, 0, p[1], L, 0, &ks,
                                        p[2], L, 0, p[3], L, 0, -1, 1e-6, 'R', L, &kcs, p[4], L,
                                        SIZE, p[5], L, SIZE, info, 1));
    assert_in_range(kcs, 20, 150);
    to_host(got, p[4], sizeof(double) * SIZE), to_host(got + SIZE, p[5], sizeof(double) * SIZE);
    double core[R][R]; /* va^T ub */
    for (int r = 0; r < R; r++)
        for (int q = 0; q < R; q++) {
            core[r][q] = 0;
            for (int l = 0; l < L; l++)
                core[r][q] += host[SIZE + r * L + l] * host[2 * SIZE + q * L + l];
        }
    for (int i = 0; i < L; i += 37) { /* some rows */
        double row[R] = {0};
        for (int q = 0; q < R; q++)
            for (int r = 0; r < R; r++)
                row[q] += host[r * L + i] * core[r][q];
        for (int j = 0; j < L; j++) {
            long double want = 0, is = 0;
            for (int q = 0; q < R; q++)
                want += 2 * row[q] * host[3 * SIZE + q * L + j];
            for (int q = 0; q < KC; q++)
                want -= host[4 * SIZE + q * L + i] * host[5 * SIZE + q * L + j];
            for (int q = 0; q < kcs; q++)
                is += got[q * L + i] * got[SIZE + q * L + j];
            norm += want * want, off += (is - want) * (is - want);
        }
    }
    assert_true(norm > 0 && sqrtl(off / norm) < 5e-6);
    for (int i = 0; i < 6; i++)
        be->release(ctx, p[i]);
    free(host), free(got);
}

static void expect_text(status st, status wanted, const char *text) {
    if (st != wanted || strcmp(status_message(), text) != 0)
        fail_msg("status %d, \"%s\" instead of \"%s\"", (int)st, status_message(), text);
    status_clear();
}

static void failures(void **state) {
    const double bad[] = {-1e9, NAN};
    (void)state;
    load(BACKEND_D);
    must(be->copy(ctx, (double *)x[0] + STRIDE + 1 + LD, 8, bad, 8, 8, 1)); /* (1, 1) of matrix 1 */
    must(be->sync(ctx));
    expect_text(moao_dpotrf_strided_batched(ctx, 'L', N, x[0], LD, STRIDE, info, COUNT),
                MOAO_NUMERIC,
                "moao_dpotrf_strided_batched: matrix 1 of 3: the leading minor of order 2 is not "
                "positive (info 2)");
    assert_true(info[0] == 0 && info[1] == 2 && info[2] == 0);
    load(BACKEND_D);
    must(be->copy(ctx, (double *)x[0] + 2 * STRIDE + 3 * LD, 8, bad + 1, 8, 8, 1));
    must(be->sync(ctx));
    expect_text(moao_dgesvj_batched(ctx, 'N', 'N', M, N, (double *const *)px[0], LD,
                                    (double *const *)px[1], NULL, 0, NULL, 0, NULL, COUNT),
                MOAO_NUMERIC,
                "moao_dgesvj_batched: matrix 2 of 3: column 4 has a NaN or an infinity (info 4)");
    load(BACKEND_D);
    expect_text(moao_dara_strided_batched(ctx, 'L', M, N, 1e-10, 'R', 1, 1, x[0], LD, STRIDE, x[1],
                                          LD, STRIDE, x[2], LD, STRIDE, rank, info, COUNT),
                MOAO_NUMERIC,
                "moao_dara_strided_batched: matrix 0 of 3: the tolerance is not met with so many "
                "columns (info -3)");
    assert_true(info[0] == -3 && info[2] == -3 && rank[1] == 1);
}

/* Nothing to do needs nothing. */
static void nothing(void **state) {
    (void)state;
    must(moao_dpotrf_batched(ctx, 'L', N, NULL, N, NULL, 0));
    must(moao_sgesvj_strided_batched(ctx, 'U', 'U', 0, 0, NULL, 1, 0, NULL, 0, NULL, 1, 0, NULL, 1,
                                     0, info, COUNT));
    must(moao_dgemm_lld_batched(ctx, 'N', 'N', M, N, K, 1, NULL, NULL, M, NULL, K, NULL, NULL, K,
                                NULL, N, 0, NULL, M, 0));
}

static void opened(void) {
    memcpy(ka, (int64_t[]){1, 3, 0}, sizeof ka), memcpy(kb, (int64_t[]){2, 1, 3}, sizeof kb);
    for (int i = 0; i < OPERANDS; i++)
        must(be->alloc(ctx, sizeof(double) * COUNT * STRIDE, &x[i]));
    must(be->alloc(ctx, sizeof info, (void **)&dinfo));
    must(be->alloc(ctx, sizeof rank, (void **)&drank));
    dka = device_copy(ka, sizeof ka), dkb = device_copy(kb, sizeof kb);
}

static void closing(void) {
    for (int i = 0; i < OPERANDS; i++)
        be->release(ctx, x[i]);
    be->release(ctx, dinfo), be->release(ctx, drank), be->release(ctx, room);
    be->release(ctx, dka), be->release(ctx, dkb), room = NULL;
}

/* A context keeps what a call worked in: the second call of a size allocates nothing, a larger one
 * once more, and what is kept goes back with the context. Results are the same each time. */
static backend counted;
static int64_t allocated, released;

static status count_alloc(backend_ctx *c, size_t bytes, void **p) {
    allocated++;
    return backend_cpu_own.alloc(c, bytes, p);
}
static void count_release(backend_ctx *c, void *p) {
    released += p != NULL;
    backend_cpu_own.release(c, p);
}

static void kept_workspace(void **state) {
    enum { ORDER = 16, MANY = 40 };
    const backend *cpu;
    backend_ctx *c;
    static double a[2 * MANY * ORDER * ORDER], s[2 * MANY * ORDER], first[MANY * ORDER];
    int64_t before = 0;
    (void)state;
    must(backend_get("cpu", &cpu));
    must(cpu->open(0, NULL, &c));
    counted = backend_cpu_own, counted.alloc = count_alloc, counted.release = count_release;
    ((backend_head *)c)->own = &counted;
    allocated = released = 0;
    for (int call = 0; call < 8; call++) { /* small, small, large, large; after a trim, once more */
        const int64_t count = call % 4 < 2 ? MANY : 2 * MANY;
        for (int64_t e = 0; e < count * ORDER * ORDER; e++)
            a[e] = cos(0.37 * (double)e);
        must(moao_dgesvj_strided_batched(c, 'N', 'N', ORDER, ORDER, a, ORDER, ORDER * ORDER, s,
                                         ORDER, NULL, 0, 0, NULL, 0, 0, NULL, count));
        assert_true(call % 2 == 0 ? allocated > before : allocated == before);
        assert_true(allocated - released == 1); /* what is kept */
        before = allocated;
        if (call == 0)
            memcpy(first, s, sizeof first);
        assert_memory_equal(first, s, sizeof first);
        if (call == 3) {
            moao_batched_trim(c);
            assert_true(allocated == released);
        }
    }
    must(moao_dgesvj_strided_batched(NULL, 'N', 'N', ORDER, ORDER, a, ORDER, ORDER * ORDER, s,
                                     ORDER, NULL, 0, 0, NULL, 0, 0, NULL, 1));
    cpu->close(c);
    assert_true(allocated == released);
    cpu->close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits), cmocka_unit_test(products), cmocka_unit_test(many_columns),
        cmocka_unit_test(failures),  cmocka_unit_test(nothing),  cmocka_unit_test(kept_workspace)};
    const backend_tests all = {tests, sizeof tests / sizeof *tests, opened, closing};
    return run_on_backends(&all);
}
