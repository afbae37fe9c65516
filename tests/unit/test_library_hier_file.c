/* HSS and H2 matrices in files (moao/hier_file.h): back bit for bit, with the factor, in both
 * types; they go on as those that were saved. What is damaged, hostile or not such a file is
 * refused in one line, by whom and why. */
#include "linalg/hier/internal.h"
#include "moao/from_points.h"
#include "moao/hier_file.h"
#include "support/hier_case.h"
#include "support/number_file_case.h"

#include <unistd.h>

/* Words of a file: two that say what it is, the head, the leaves of the tree. */
enum {
    AT_KIND = 2,
    AT_TYPE,
    AT_FLAGS,
    AT_N,
    AT_DIM,
    AT_LEVELS,
    AT_LEAF,
    AT_RANK,
    AT_ORDER = 11,
    AT_TOL = 15,
    AT_ETA,
    AT_RCOND = 19,
    AT_FAR,
    AT_NEAR,
    AT_TREE,
    N = 60,
    LEVELS = 3
};

static void refused(status as, const char *word) {
    format *f;
    const status st = moao_hier_restore(be, ctx, path, &f);
    assert_null(f);
    expect_refusal(st, as, word);
}

/* A covariance at n points of a square, or of a line, in the format's own order. */
static format *covariance(hier_kind kind, backend_type type, int64_t n, int leaf, double length,
                          double **at) {
    const gp_kernel k = {MOAO_GP_MATERN, 1, {length}, 0.5, 0.1};
    const hier_options o = {.type = type,
                            .tol = type == BACKEND_D ? 1e-8 : 1e-4,
                            .leaf = leaf,
                            .lean = n % 2,
                            .seed = 9};
    const int dim = kind == HIER_H2 ? 2 : 1;
    format *f;
    *at = dim == 2 ? square_points(n) : line_points(n);
    must((dim == 2 ? moao_h2_from_points : moao_hss_from_points)(be, ctx, &k, dim, n, *at, &o, &f));
    return f;
}

static void same_entries(const format *a, const format *b) {
    hier_info ia, ib;
    hier_describe(a, &ia), hier_describe(b, &ib);
    assert_memory_equal(&ia, &ib, offsetof(hier_info, error));
    assert_true(ia.rcond == ib.rcond || (isnan(ia.rcond) && isnan(ib.rcond)));
    if (ia.rows == 0)
        return;
    const backend_type type = a->o.type;
    double *x = entries_of(a, type), *y = entries_of(b, type);
    assert_memory_equal(ia.order, ib.order, sizeof *ia.order * (size_t)ia.rows);
    assert_memory_equal(x, y, sizeof *x * (size_t)(ia.rows * ia.rows));
    free(x), free(y);
}

static void same_solves(const format *a, const format *b, int64_t n) {
    const size_t bytes = backend_size(a->o.type) * (size_t)(2 * n),
                 lwork = hier_solve_workspace(a, 2);
    void *host = random_host(a->o.type, n, 2, 3), *other = malloc(bytes);
    assert_int_equal(lwork, hier_solve_workspace(b, 2));
    for (int c = 0; c < 2; c++) {
        void *x = device_copy(host, bytes), *y = device_copy(host, bytes), *work = poison(lwork);
        must(hier_solve(a, "NT"[c], 2, x, n, work, lwork));
        must(hier_solve(b, "NT"[c], 2, y, n, work, lwork));
        to_host(other, y, bytes);
        void *one = malloc(bytes);
        to_host(one, x, bytes);
        assert_memory_equal(one, other, bytes);
        free(one);
        be->release(ctx, x), be->release(ctx, y), be->release(ctx, work);
    }
    free(host), free(other);
}

static format *again(const format *f) {
    format *g;
    must(moao_hier_save(f, path));
    must(moao_hier_restore(be, ctx, path, &g));
    return g;
}

/* Both kinds and types, sizes from nothing on; then what is done with a matrix is done with both.
 */
static void back_again(void **state) {
    static const int64_t counts[] = {0, 1, 7, 60, 150};
    (void)state;
    for (int e = 0; e < 20; e++) {
        const hier_kind kind = e % 2 ? HIER_H2 : HIER_HSS;
        const backend_type type = e / 2 % 2 ? BACKEND_S : BACKEND_D;
        const int64_t n = counts[e / 4];
        const double cut = type == BACKEND_D ? 1e-5 : 1e-3;
        const gp_kernel shorter = {MOAO_GP_MATERN, 1, {0.3}, 0.5, 0.2};
        double *at;
        hier_source s;
        format *a = covariance(kind, type, n, 8, 0.7, &at), *b;
        if (kind == HIER_HSS && n > 0 && e / 4 % 2 == 1)
            must(hier_factor(a, 0.5));
        b = again(a);
        same_entries(a, b);
        if (kind == HIER_HSS && n > 0 && e / 4 % 2 == 0)
            must(hier_factor(a, 0.5)), must(hier_factor(b, 0.5));
        if (kind == HIER_HSS && n > 0)
            same_solves(a, b, n);
        must(hier_compress(a, cut, 'W', 0)), must(hier_compress(b, cut, 'W', 0));
        same_entries(a, b);
        must(moao_hier_kernel_open(be, ctx, &shorter, kind == HIER_H2 ? 2 : 1, n, at, &s));
        must(hier_load(a, &s)), must(hier_load(b, &s));
        same_entries(a, b);
        moao_hier_points_close(&s);
        hier_close(a), hier_close(b), free(at);
    }
}

/* Not symmetric, of a matrix; saved, read and saved: the file is the same. */
static void not_symmetric(void **state) {
    enum { M = 90 };
    double *a = malloc(sizeof *a * M * M);
    format *f, *g;
    (void)state;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++)
            a[i + j * M] = i == j ? 4 : (i > j ? 1.0 : 0.5) / (1 + abs(i - j));
    host_matrix m = {a, M};
    const hier_source s = host_source(&m, false, 0, NULL);
    must(hier_open(be, ctx, &s, &(hier_options){.kind = HIER_HSS, .tol = 1e-9, .leaf = 8}, &f));
    must(hier_factor(f, 0));
    g = again(f);
    same_entries(f, g);
    same_solves(f, g, M);
    content one = read_file();
    must(moao_hier_save(g, path));
    content two = read_file();
    assert_int_equal(one.words, two.words);
    assert_memory_equal(one.w, two.w, 8 * (size_t)one.words);
    free(one.w), free(two.w), hier_close(f), hier_close(g), free(a);
}

/* Every byte of the head and many others changed, and every length. */
static void damaged(void **state) {
    (void)state;
    for (int h2 = 0; h2 < 2; h2++) {
        double *at;
        format *f = covariance(h2 ? HIER_H2 : HIER_HSS, BACKEND_S, 61, 8, 0.7, &at);
        if (!h2)
            must(hier_factor(f, 0.1));
        must(moao_hier_save(f, path));
        content c = read_file();
        unsigned char *byte = (unsigned char *)c.w;
        const size_t bytes = 8 * (size_t)c.words;
        for (size_t i = 0; i < bytes; i += i < 200 ? 1 : 1 + bytes / 60) {
            byte[i] ^= 0x41;
            write_file(byte, bytes);
            refused(MOAO_INPUT, "");
            byte[i] ^= 0x41;
        }
        for (size_t cut = 0; cut < bytes; cut += 1 + bytes / 60) {
            write_file(byte, cut);
            refused(MOAO_INPUT, "");
        }
        c.w[c.words] = 0;
        write_file(byte, bytes + 8);
        refused(MOAO_INPUT, "its numbers take");
        free(c.w), hier_close(f), free(at);
    }
}

typedef struct {
    int64_t at;
    uint64_t value;
    const char *says;
} change;

#define HUGE_COUNT (UINT64_C(1) << 60)
#define NOT_A_NUMBER UINT64_C(0x7ff8000000000000)

/* Whole files with the right sum that say what cannot be. */
static void refuse_all(content *c, const change *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const int64_t at = list[i].at < 0 ? c->words + list[i].at : list[i].at;
        const uint64_t was = c->w[at];
        c->w[at] = list[i].value;
        write_summed(c);
        refused(MOAO_INPUT, list[i].says);
        c->w[at] = was;
    }
}

enum { LEAVES = 1 << LEVELS, ORDER = AT_TREE + LEAVES, COORDINATES = ORDER + N };

/* What both kinds refuse in the same words. */
static void refuse_head(content *c) {
    const change common[] = {{0, 1, "no file of an HSS or H2 matrix"},
                             {1, (uint64_t)0x01020304 << 32 | 2, "version 2"},
                             {1, (uint64_t)0x04030201 << 32 | 1, "order of bytes"},
                             {AT_KIND, HIER_DENSE, "out of range"},
                             {AT_KIND, 99, "out of range"},
                             {AT_TYPE, BACKEND_Z, "out of range"},
                             {AT_FLAGS, 64, "out of range"},
                             {AT_N, HUGE_COUNT, "out of range"},
                             {AT_N, (uint64_t)-1, "out of range"},
                             {AT_N, N - 1, ""},
                             {AT_DIM, 4, "out of range"},
                             {AT_DIM, (uint64_t)-1, "out of range"},
                             {AT_LEVELS, 30, "cut short"},
                             {AT_LEVELS, 31, "out of range"},
                             {AT_LEVELS, (uint64_t)-1, "out of range"},
                             {AT_LEAF, HUGE_COUNT, "out of range"},
                             {AT_RANK, 257, "out of range"},
                             {AT_ORDER, 17, "out of range"},
                             {AT_TOL, NOT_A_NUMBER, "out of range"},
                             {AT_ETA, NOT_A_NUMBER, "out of range"},
                             {AT_RCOND, UINT64_C(0xbff0000000000000), "out of range"},
                             {AT_TREE, N + 1, "do not add up"},
                             {AT_TREE, 1, "do not add up"},
                             {AT_TREE + 1, (uint64_t)-8, "do not add up"},
                             {ORDER, N, "order of rows"},
                             {ORDER, HUGE_COUNT, "order of rows"},
                             {COORDINATES + 1, NOT_A_NUMBER, "not finite"},
                             {-3, NOT_A_NUMBER, "one of its numbers is nan"}};
    refuse_all(c, common, sizeof common / sizeof *common);
    const uint64_t was = c->w[ORDER];
    c->w[ORDER] = c->w[ORDER + 1]; /* a row twice */
    write_summed(c);
    refused(MOAO_INPUT, "order of rows");
    c->w[ORDER] = was;
}

static void refuse_ranks(content *c) {
    const int64_t ranks = COORDINATES + N;
    const change hss[] = {{ranks, 9, "has rank 9 and 8 rows"},
                          {ranks, (uint64_t)-1, "has rank -1"},
                          {ranks, HUGE_COUNT, "has rank"},
                          {AT_FLAGS, 1, "its numbers take"},
                          {AT_FLAGS, 1 | 32, "its numbers take"}};
    refuse_all(c, hss, sizeof hss / sizeof *hss);
}

/* Lists of pairs: of all nodes, and of the leaves. */
static void refuse_pairs(content *c) {
    const int64_t far = COORDINATES + 2 * N, items = (int64_t)c->w[AT_FAR], nodes = 2 * LEAVES - 1,
                  first = far + nodes + 1, near = first + items, near_first = near + LEAVES + 1;
    assert_true(items > 0);
    const change pairs[] = {
        {AT_FAR, HUGE_COUNT, "pairs are none"},
        {AT_FAR, (uint64_t)-1, "pairs are none"},
        {AT_NEAR, HUGE_COUNT, ""},
        {AT_DIM, 0, "out of range"},
        {AT_FLAGS, 0, "out of range"},
        {AT_FLAGS, 1 | 32, "out of range"},
        {far, 1, "lists of pairs are none"},
        {far + 3, HUGE_COUNT, "lists of pairs are none"},
        {first, HUGE_COUNT, "not of one level"},
        {first, 0, "not of one level"},
        {near_first, (uint64_t)-1, "not of one level"},
        {near_first, LEAVES, "not of one level"},
        {near_first, c->w[near_first + 1], ""},
        {near_first + (int64_t)c->w[AT_NEAR], 513, "has rank 513"},
    };
    refuse_all(c, pairs, sizeof pairs / sizeof *pairs);
}

static void hostile(void **state) {
    (void)state;
    for (int h2 = 0; h2 < 2; h2++) {
        double *at;
        format *f = covariance(h2 ? HIER_H2 : HIER_HSS, BACKEND_D, N, 8, 0.7, &at);
        if (!h2)
            must(hier_factor(f, 0.1));
        must(moao_hier_save(f, path));
        content c = read_file();
        assert_int_equal(c.w[AT_LEVELS], LEVELS);
        refuse_head(&c);
        (h2 ? refuse_pairs : refuse_ranks)(&c);
        write_summed(&c);
        hier_close(f);
        must(moao_hier_restore(be, ctx, path, &f)); /* nothing of this was the file's fault */
        free(c.w), hier_close(f), free(at);
    }
}

static void not_files(void **state) {
    double *at, *a = calloc(16, sizeof *a);
    format *f = covariance(HIER_HSS, BACKEND_D, 20, 8, 1, &at), *dense;
    host_matrix m = {a, 4};
    const hier_source s = host_source(&m, true, 0, NULL);
    (void)state;
    remove(path);
    refused(MOAO_IO, "cannot be read");
    assert_int_equal(moao_hier_restore(be, ctx, "/", &dense), MOAO_IO);
    status_clear();
    write_file("short", 5);
    refused(MOAO_INPUT, "no file of an HSS or H2 matrix");
    assert_int_equal(moao_hier_save(f, "/nowhere/at/all"), MOAO_IO);
    assert_non_null(strstr(status_message(), "/nowhere/at/all"));
    status_clear();
    must(hier_open(be, ctx, &s, &(hier_options){.kind = HIER_DENSE}, &dense));
    assert_int_equal(moao_hier_save(dense, path), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "is not saved"));
    status_clear();
    hier_close(f), hier_close(dense), free(at), free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(back_again), cmocka_unit_test(not_symmetric), cmocka_unit_test(damaged),
        cmocka_unit_test(hostile),    cmocka_unit_test(not_files),
    };
    snprintf(path, sizeof path, "/tmp/moao-hier-%d", (int)getpid());
    const int failed = RUN_ON_BACKENDS(tests);
    remove(path);
    return failed;
}
