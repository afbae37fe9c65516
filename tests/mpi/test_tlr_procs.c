/* A tile low-rank factor by several processes (tlr_procs): the same bits as by one alone, for all
 * forms and any number of parts; what they do about pivots; and a member that fails at any meeting.
 * ranks: 1 2 3 */
#include "support/tlr_case.h"
#include "support/tlr_counted.h"

#include <mpi.h>

enum { B = 32 };

static int rank, size;

/* --- the processes of MPI as members */

typedef struct {
    int met, fail_at; /* meetings so far; that at which this one fails, -1: none */
    bool told;
    int64_t bytes; /* that came or went */
} meeting;

static status merge(void *arg, status local, int64_t *v, int64_t n) {
    meeting *m = arg;
    if (m->told)
        return local != MOAO_OK ? local : MOAO_INTERNAL;
    if (local == MOAO_OK && m->met++ == m->fail_at)
        local = status_fail(MOAO_INTERNAL, "failed on purpose");
    int code = (int)local;
    MPI_Allreduce(MPI_IN_PLACE, &code, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    m->told = code != MOAO_OK;
    if (code == MOAO_OK && n > 0)
        MPI_Allreduce(MPI_IN_PLACE, v, (int)n, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    return (status)code;
}

static status bcast(void *arg, void *p, size_t bytes, int root) {
    ((meeting *)arg)->bytes += (int64_t)bytes;
    MPI_Bcast(p, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    return MOAO_OK;
}

/* --- a matrix */

typedef struct {
    points p;
    int calls, fail_at; /* of the fill; that which fails, -1: none */
    int64_t entries;    /* that it made */
    int64_t column;     /* up to where the last call went; */
    bool back;          /* one went back by more than a tile, but to the first column */
    bool wrong;         /* the first entry is -1 in the first call */
} matrix;

static status fill_matrix(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                          int64_t lda) {
    matrix *m = arg;
    if (m->calls == m->fail_at)
        return status_fail(MOAO_INTERNAL, "no entries, on purpose");
    const status st = fill(&m->p, i0, ni, j0, nj, a, lda);
    if (m->wrong && m->calls == 0) /* on the CPU */
        a[0] = -1;
    m->calls++;
    m->entries += ni * nj;
    m->back = m->back || (j0 > 0 && j0 + B < m->column);
    m->column = j0 + nj;
    return st;
}

typedef struct {
    tlr_options o;
    tlr_rescue rescue;
    bool compressed; /* input */
    bool own_rows;   /* each asks for those alone */
} form;

/* together: by all processes; else by each alone. */
static status make(matrix *m, const form *f, bool together, meeting *met, tlr **l,
                   tlr_report *report) {
    const tlr_procs all = {rank, size, met, merge, bcast};
    tlr_source from = {.layout = &m->p.l,
                       .fill = fill_matrix,
                       .arg = m,
                       .members = together ? &all : NULL,
                       .own_rows = f->own_rows};
    tlr *a = NULL;
    if (f->compressed)
        ok(tlr_build(be, ctx, &m->p.l, NULL, fill, &m->p, &f->o, &a));
    from.a = a;
    const status st = tlr_factor(be, ctx, &from, 'L', &f->o, &f->rescue, l, report);
    tlr_close(a);
    return st;
}

static void same_tiles(const tlr *a, const tlr *b, const tlr_layout *l) {
    for (int64_t i = 0; i < l->nt; i++)
        for (int64_t k = 0; k < l->nt; k++) {
            const tlr_tile *s = tlr_tile_at(a, i, k), *t = tlr_tile_at(b, i, k);
            assert_true(!s == !t);
            if (s) {
                assert_int_equal(s->kind, t->kind);
                assert_int_equal(s->rank, t->rank);
                assert_int_equal(s->fp16, t->fp16);
                assert_memory_equal(&s->dropped, &t->dropped, sizeof s->dropped);
            }
        }
}

/* A factor together and one alone: tiles, entries and reports bit for bit, and solves with both. */
static tlr_report same(matrix *m, const form *f, int64_t *bytes) {
    const int64_t n = m->p.n, v = 5;
    meeting met = {.fail_at = -1};
    tlr_report report[2];
    double *full[2], *x[2], *start = noise(v * n);
    tlr *l[2];
    int64_t entries[2];
    MPI_Bcast(start, (int)(v * n), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int k = 0; k < 2; k++) {
        m->calls = 0;
        m->entries = 0;
        m->back = false;
        ok(make(m, f, k == 1, &met, &l[k], &report[k]));
        entries[k] = m->entries;
        assert_false(m->back); /* a source holds columns of one sensor */
        full[k] = expanded(l[k], n, n);
        double *there = up(start, v * n);
        ok(tlr_solve(l[k], 'R', 'A', v, there, v));
        x[k] = down(there, v * n);
        be->release(ctx, there);
    }
    assert_memory_equal(full[0], full[1], sizeof(double) * (size_t)(n * n));
    assert_memory_equal(x[0], x[1], sizeof(double) * (size_t)(n * v));
    assert_true(report[1].fetched <= report[0].fetched);
    report[1].fetched = report[0].fetched; /* every member fetches for its own rows */
    assert_memory_equal(&report[0], &report[1], sizeof *report);
    same_tiles(l[0], l[1], &m->p.l);
    assert_true(met.told == false && met.met > 0);
    if (f->own_rows && size > 1 && f->o.parts > 2 && n > 10 * B && !f->compressed)
        assert_true(entries[1] < entries[0]);
    else
        assert_true(entries[1] == entries[0] || f->own_rows);
    for (int k = 0; k < 2; k++) {
        tlr_close(l[k]);
        free(full[k]), free(x[k]);
    }
    free(start);
    *bytes = met.bytes;
    return report[0];
}

/* Of a distributed factor a member has its share of the columns; and solves, products and the
 * logarithm of the determinant where members have different numbers of vectors, or none, are those
 * of the factor that one has alone. */
static void different_vectors(matrix *m, const form *f) {
    const int64_t n = m->p.n, v = rank == 0 ? 23 : rank == 1 ? 0 : 4;
    static const char sides[] = "RRRLLLR", jobs[] = "ANTANTA";
    meeting met = {.fail_at = -1};
    tlr_report report;
    tlr *l[2];
    double logdet[2];
    for (int k = 0; k < 2; k++) {
        tlr_stats s;
        m->calls = 0;
        ok(make(m, f, k == 1, &met, &l[k], &report));
        tlr_statistics(l[k], &s);
        assert_true(k == 0 || size == 1 ? s.here == s.bytes : s.here < s.bytes);
        ok(tlr_logdet(l[k], &logdet[k]));
    }
    assert_memory_equal(&logdet[0], &logdet[1], sizeof logdet[0]);
    for (int c = 0; c < 8; c++) { /* the last ones: in terms, where that may be; a product */
        const char side = c < 7 ? sides[c] : 'R';
        const int64_t ld = side == 'R' ? v + 1 : n, count = side == 'R' ? ld * n : ld * (v + 1);
        double *start = noise(24 * n), *x[2]; /* all draw alike */
        for (int k = 0; k < 2; k++) {
            double *there = up(start, count), *y = up(NULL, count);
            if (c == 6)
                tlr_set_split(l[k], 3, 0);
            if (k == 1 || v > 0)
                ok(c < 7 ? tlr_solve(l[k], side, jobs[c], v, there, ld)
                         : tlr_apply(l[k], side, 'N', v, 1, there, ld, 0, y, ld));
            x[k] = down(c < 7 ? there : y, count);
            be->release(ctx, there), be->release(ctx, y);
        }
        for (int64_t i = 0; i < (side == 'R' ? n : 1); i++)
            assert_memory_equal(x[0] + i * ld, x[1] + i * ld,
                                sizeof(double) * (size_t)(side == 'R' ? v : v * n));
        free(x[0]), free(x[1]), free(start);
    }
    for (int k = 0; k < 2; k++)
        tlr_close(l[k]);
}

static matrix new_matrix(int64_t n) {
    matrix m = {.p = points_new(n, B, TLR_KD), .fail_at = -1};
    return m;
}

/* --- */

/* All forms in all numbers of parts, bit for bit; narrow: which of these has block columns of one
 * tile column. */
static void all_forms(const tlr_options *forms, size_t nform, const int *parts, size_t nparts,
                      size_t narrow, bool distributed) {
    matrix m = new_matrix(420);
    for (size_t k = 0; k < nform; k++)
        for (size_t c = 0; c < nparts; c++) {
            form f = {.o = forms[k], .compressed = k == 0 && c == 2};
            int64_t bytes;
            f.o.width = c == narrow ? 1 : 64;
            f.o.seed = 1;
            f.o.memory = c % 2 ? 40000 : 0;
            f.o.parts = parts[c];
            f.o.distributed = distributed;
            f.own_rows = (k + c) % 2;
            m.p.nugget = forms[k].rank > 0 ? 2 : 0.05;
            same(&m, &f, &bytes);
            if (rank == 0 && c == 2)
                print_message("form %d: %lld bytes came or went\n", (int)k, (long long)bytes);
            if (distributed && c > 1)
                different_vectors(&m, &f);
        }
    points_free(&m.p);
}

static void same_bits(void **state) {
    (void)state;
    static const tlr_options forms[] = {
        {.tau = 1e-4, .cut = -1},
        {.tau = 1e-4, .cut = 8, .norms = true},
        {.tau = 1e-4, .cut = -1, .fp32 = true},
        {.tau = 1e-4, .cut = -1, .host = true},
        {.tau = 1e-4, .cut = -1, .fp32 = true, .host = true},
        {.tau = 1e-4, .cut = 8, .fp32 = true, .mixed = true},
        {.tau = 1e-4, .cut = 8, .fp32 = true, .mixed = true, .terms = 3},
        {.tau = 1e-4, .cut = 8, .fp32 = true, .fp16 = true},
        {.tau = 1e-4, .cut = -1, .fp32 = true, .fp16 = true, .mixed = true, .terms = 3},
        {.tau = 0, .cut = -1},
        {.rank = 6, .cut = -1}};
    static const int parts[] = {1, 2, 3, 7, 50};
    all_forms(forms, sizeof forms / sizeof *forms, parts, 5, 4, false);
}

/* The same where each member keeps its rows alone. */
static void distributed(void **state) {
    (void)state;
    static const tlr_options forms[] = {
        {.tau = 1e-4, .cut = -1},
        {.tau = 1e-4, .cut = 8, .norms = true},
        {.tau = 1e-4, .cut = -1, .fp32 = true},
        {.tau = 1e-4, .cut = 8, .fp32 = true, .mixed = true},
        {.tau = 1e-4, .cut = 8, .fp32 = true, .mixed = true, .terms = 3},
        {.tau = 1e-4, .cut = 8, .fp32 = true, .fp16 = true}, /* not so kept */
        {.tau = 0, .cut = -1},
        {.rank = 6, .cut = -1}};
    static const int parts[] = {1, 3, 4, 9};
    all_forms(forms, sizeof forms / sizeof *forms, parts, 4, 2, true);
}

static void sizes(void **state) {
    (void)state;
    for (int64_t n = 2; n <= 2 * B + 4; n += 9)
        for (int d = 0; d < 2; d++) {
            matrix m = new_matrix(n);
            form f = {.o = small_options(1e-5)};
            int64_t bytes;
            f.o.parts = 3;
            f.o.distributed = d;
            same(&m, &f, &bytes);
            points_free(&m.p);
        }
}

/* Parts change the order of sums and no more. */
static void parts_round(void **state) {
    (void)state;
    matrix m = new_matrix(420);
    form f = {.o = small_options(1e-4)};
    double *full[2];
    for (int k = 0; k < 2; k++) {
        tlr *l;
        tlr_report report;
        f.o.parts = 5 * k;
        ok(make(&m, &f, false, NULL, &l, &report));
        full[k] = expanded(l, m.p.n, m.p.n);
        tlr_close(l);
    }
    assert_true(distance(full[0], full[1], m.p.n * m.p.n) <
                1e-10 * distance(full[0], NULL, m.p.n * m.p.n));
    free(full[0]), free(full[1]);
    points_free(&m.p);
}

/* Every rescue in its turn, and none: all members do the same. */
static void rescues(void **state) {
    (void)state;
    static const tlr_rescue way[] = {
        {.retries = 9}, {.shift = 100}, {.retries = 1, .shift = 100}, {.dense = true}};
    matrix m = new_matrix(400);
    form f = {.o = small_options(0.2)};
    m.p.nugget = 1e-3;
    f.o.parts = 4;
    for (int mixed = 0; mixed < 4; mixed++) {
        tlr *l;
        tlr_report report;
        f.o.fp32 = f.o.mixed = mixed % 2;
        f.o.distributed = mixed > 1;
        for (size_t k = 0; k < sizeof way / sizeof *way; k++) {
            int64_t bytes;
            f.rescue = way[k];
            const tlr_report r = same(&m, &f, &bytes);
            assert_true((r.restarts > 0) == (way[k].retries > 0));
            assert_true(r.shifts > 0 || k % 3 != 1);
            assert_true(r.dense == way[k].dense);
        }
        f.rescue = (tlr_rescue){0};
        meeting met = {.fail_at = -1};
        assert_int_equal(make(&m, &f, true, &met, &l, &report), MOAO_NUMERIC);
        assert_null(l);
        assert_true(report.minor > 0 && !report.not_positive);
        status_clear();
    }
    f.o.tau = 1e-3;
    m.p.lift = -3; /* not positive definite itself */
    f.rescue = way[0];
    tlr *l;
    tlr_report report;
    meeting met = {.fail_at = -1};
    assert_int_equal(make(&m, &f, true, &met, &l, &report), MOAO_NUMERIC);
    assert_true(report.not_positive && report.restarts == 0);
    status_clear();
    points_free(&m.p);
}

/* A pivot that is not positive on the last member alone: all begin anew with it, and what they make
 * is what each makes alone with that tolerance. */
static void one_pivot(void **state) {
    (void)state;
    matrix m = new_matrix(300);
    form f = {.o = small_options(1e-3), .rescue = {.retries = 2, .dense = true}};
    meeting met = {.fail_at = -1};
    tlr_report report;
    tlr *l, *alone;
    f.o.parts = 4;
    f.o.fp32 = f.o.mixed = true;
    m.wrong = rank == size - 1;
    ok(make(&m, &f, true, &met, &l, &report));
    assert_true(report.minor == 0 && report.restarts == 0); /* products in doubles were enough */
    m.wrong = false;
    f.o.mixed = false;
    ok(make(&m, &f, false, NULL, &alone, &report));
    double *a = expanded(l, m.p.n, m.p.n), *b = expanded(alone, m.p.n, m.p.n);
    assert_memory_equal(a, b, sizeof(double) * (size_t)(m.p.n * m.p.n));
    free(a), free(b);
    tlr_close(l), tlr_close(alone);
    points_free(&m.p);
}

/* One member fails at a meeting, or before it: all end, with its status. */
static void member_fails(void **state) {
    (void)state;
    matrix m = new_matrix(200);
    form f = {.o = small_options(1e-4)};
    int failures = 0;
    f.o.parts = 3;
    for (int what = 0; what < 4; what++)
        for (int at = 0, more = 1; more; at++) {
            const bool me = rank == at % size;
            meeting met = {.fail_at = what % 2 == 0 && me ? at : -1};
            tlr_report report;
            tlr *l;
            m.calls = 0;
            m.fail_at = what % 2 == 1 && me ? at : -1;
            f.o.distributed = what > 1;
            status st = make(&m, &f, true, &met, &l, &report);
            if (st == MOAO_OK && f.o.distributed) { /* the two meetings of a solve */
                double *x = up(m.p.x, m.p.n);
                st = tlr_solve(l, 'R', 'A', 1, x, 1);
                be->release(ctx, x);
                if (st != MOAO_OK) {
                    tlr_close(l);
                    l = NULL;
                }
            }
            assert_true(st == MOAO_OK || st == MOAO_INTERNAL);
            assert_true((st == MOAO_OK) == (l != NULL));
            assert_true(st == MOAO_OK || !me || strstr(status_message(), "on purpose"));
            status_clear();
            int codes[2] = {(int)st, -(int)st};
            MPI_Allreduce(MPI_IN_PLACE, codes, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
            assert_int_equal(codes[0], -codes[1]);
            more = st != MOAO_OK;
            failures += more;
            tlr_close(l);
        }
    assert_true(failures > 10);
    m.fail_at = -1;
    m.p.bad_i = 150; /* not finite: one of them sees it */
    m.p.bad_j = 10;
    meeting met = {.fail_at = -1};
    tlr_report report;
    tlr *l;
    assert_int_equal(make(&m, &f, true, &met, &l, &report), MOAO_NUMERIC);
    status_clear();
    points_free(&m.p);
}

/* An allocation fails on one member, each of them once, in a distributed factor or a solve with it:
 * all end alike, and nothing is kept. */
static void no_memory(void **state) {
    (void)state;
    matrix m = new_matrix(150);
    form f = {.o = small_options(1e-4)};
    int64_t failures = 0;
    f.o.parts = 3;
    f.o.distributed = f.o.fp32 = true;
    counting_begin();
    for (int64_t at = 0, more = 1; more; at++) {
        double *x = up(m.p.x, m.p.n);
        const int64_t before = live;
        meeting met = {.fail_at = -1};
        tlr_report report;
        tlr *l = NULL;
        left = rank == at % size ? at / size : -1;
        m.calls = 0;
        status st = make(&m, &f, true, &met, &l, &report);
        if (st == MOAO_OK)
            st = tlr_solve(l, 'R', 'A', 1, x, 1);
        const bool through = left >= 0;
        left = -1;
        tlr_close(l);
        assert_int_equal(live, before);
        be->release(ctx, x);
        status_clear();
        int codes[3] = {(int)st, -(int)st, through};
        MPI_Allreduce(MPI_IN_PLACE, codes, 3, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        assert_int_equal(codes[0], -codes[1]);
        assert_true(codes[0] == MOAO_MEMORY || (codes[0] == MOAO_OK && codes[2]));
        more = codes[0] != MOAO_OK;
        failures += more;
    }
    counting_end();
    if (rank == 0)
        print_message("%lld allocations failed\n", (long long)failures);
    assert_true(failures > 20);
    points_free(&m.p);
}

static void bad_arguments(void **state) {
    (void)state;
    matrix m = new_matrix(100);
    meeting met = {.fail_at = -1};
    const tlr_procs all = {rank, size, &met, merge, bcast};
    const tlr_source from = {.layout = &m.p.l, .fill = fill_matrix, .arg = &m, .members = &all};
    tlr_options o = small_options(1e-4);
    tlr *l;
    assert_int_equal(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL), MOAO_INPUT);
    o.parts = 2;
    met.told = false;
    assert_int_equal(tlr_factor(be, ctx, &from, 'R', &o, NULL, &l, NULL), MOAO_INPUT);
    met.told = false;
    o.distributed = o.host = true;
    assert_int_equal(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL), MOAO_INPUT);
    met.told = o.host = false;
    ok(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL));
    tlr *copy = NULL;
    assert_int_equal(tlr_copy(l, 'N', &copy), size > 1 ? MOAO_INPUT : MOAO_OK);
    tlr_close(copy), tlr_close(l);
    status_clear();
    points_free(&m.p);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),    cmocka_unit_test(distributed),
        cmocka_unit_test(sizes),        cmocka_unit_test(parts_round),
        cmocka_unit_test(rescues),      cmocka_unit_test(one_pivot),
        cmocka_unit_test(member_fails), cmocka_unit_test(no_memory),
        cmocka_unit_test(bad_arguments)};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int failed =
        run_on(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL}, "cpu", true);
    MPI_Finalize();
    return failed;
}
