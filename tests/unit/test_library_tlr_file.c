/* Tile low-rank matrices in files (moao/tlr_file.h): back bit for bit; what is damaged, hostile or
 * not such a file is refused in one line, by whom and why. */
#include "moao/tlr_file.h"
#include "support/number_file_case.h"
#include "support/tlr_case.h"

#include <errno.h>
#include <unistd.h>

enum {
    TILE = 8,
    HEAD = 8
}; /* words of the head: magic, version and order, n, nt, width, factor, ... */

static void refused(status as, const char *word) {
    tlr_layout l;
    tlr *a;
    const status st = moao_tlr_load(be, ctx, path, &l, &a, NULL, NULL);
    assert_true(a == NULL && l.first == NULL && l.perm == NULL);
    expect_refusal(st, as, word);
}

static tlr *factored(points *p, int64_t n, double tau) {
    const tlr_options o = {.tau = tau, .cut = -1, .width = 2 * TILE, .seed = 1};
    tlr *l;
    *p = points_new(n, TILE, TLR_KD);
    const tlr_source from = {.layout = &p->l, .fill = fill, .arg = p};
    ok(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL));
    return l;
}

/* x := L^-T L^-1 x on the host. */
static void solved(const tlr *l, int64_t n, double *x) {
    double *dx = up(x, n), *hx;
    ok(tlr_solve(l, 'L', 'A', 1, dx, n));
    hx = down(dx, n);
    memcpy(x, hx, sizeof *hx * (size_t)n);
    free(hx);
    be->release(ctx, dx);
}

/* A factor whose tiles are stored in another form than doubles on the device: its bits and those of
 * its solves come back, and single precision takes half of the place. */
static void other_forms(void **state) {
    static const tlr_options forms[] = {{.fp32 = true},
                                        {.fp32 = true, .mixed = true},
                                        {.fp32 = true, .mixed = true, .terms = 2},
                                        {.host = true},
                                        {.fp32 = true, .host = true}};
    enum { N = 150 };
    int64_t words[sizeof forms / sizeof *forms];
    (void)state;
    for (size_t e = 0; e < sizeof forms / sizeof *forms; e++) {
        uniform_state = 1; /* the same points */
        points p = points_new(N, TILE, TLR_KD);
        const tlr_source from = {.layout = &p.l, .fill = fill, .arg = &p};
        tlr_options o = forms[e];
        tlr_layout l;
        tlr *a, *b;
        bool factor;
        o.tau = 1e-3, o.cut = -1, o.width = 2 * TILE, o.seed = 1;
        ok(tlr_factor(be, ctx, &from, 'L', &o, NULL, &a, NULL));
        ok(moao_tlr_save(a, path));
        ok(moao_tlr_load(be, ctx, path, &l, &b, &factor, NULL));
        assert_true(factor);
        tlr_stats s, t;
        tlr_statistics(a, &s), tlr_statistics(b, &t);
        assert_true(s.columns == t.columns && s.columns > 0 && (o.host || s.bytes == t.bytes));
        double *x = expanded(a, N, N), *y = expanded(b, N, N), one[N], other[N];
        assert_memory_equal(x, y, sizeof *x * N * N);
        for (int i = 0; i < N; i++)
            one[i] = other[i] = i % 7;
        solved(a, N, one), solved(b, N, other);
        assert_memory_equal(one, other, sizeof one);
        content c = read_file();
        words[e] = c.words;
        free(c.w), free(x), free(y);
        tlr_close(a), tlr_close(b);
        tlr_layout_free(&l), points_free(&p);
    }
    assert_true(words[0] == words[1] && words[0] == words[4] && words[3] > words[0] + 1000);
}

static void back_again(void **state) {
    static const int64_t counts[] = {0, 1, 5, 8, 40, 150};
    (void)state;
    for (size_t e = 0; e < 2 * sizeof counts / sizeof *counts; e++) {
        const int64_t n = counts[e / 2];
        points p;
        tlr_layout l;
        tlr *a = factored(&p, n, 1e-3), *b;
        bool factor;
        double tau;
        if (e % 2) { /* the matrix itself */
            tlr_close(a);
            ok(tlr_build(be, ctx, &p.l, NULL, fill, &p,
                         &(tlr_options){.tau = 1e-3, .cut = -1, .width = 2 * TILE}, &a));
        }
        ok(moao_tlr_save(a, path));
        ok(moao_tlr_load(be, ctx, path, &l, &b, &factor, &tau));
        assert_true(factor == (e % 2 == 0) && tau == 1e-3);
        assert_memory_equal(l.perm, p.l.perm, sizeof *l.perm * (size_t)n);
        double *x = expanded(a, n, n), *y = expanded(b, n, n);
        assert_memory_equal(x, y, sizeof *x * (size_t)(n * n));
        if (factor && n > 0) { /* it solves */
            double one[150], other[150];
            for (int64_t i = 0; i < n; i++)
                one[i] = other[i] = (double)(i % 7);
            solved(a, n, one), solved(b, n, other);
            assert_memory_equal(one, other, sizeof *one * (size_t)n);
        }
        free(x), free(y);
        tlr_close(a), tlr_close(b);
        tlr_layout_free(&l), points_free(&p);
    }
}

/* Every byte changed, and every length: the sum, or what comes before it, says so. */
static void damaged(void **state) {
    points p;
    tlr *a = factored(&p, 40, 1e-2);
    (void)state;
    ok(moao_tlr_save(a, path));
    content c = read_file();
    unsigned char *byte = (unsigned char *)c.w;
    const size_t bytes = 8 * (size_t)c.words;
    for (size_t i = 0; i < bytes; i += i < 1000 ? 1 : 37) {
        byte[i] ^= 0x41;
        write_file(byte, bytes);
        refused(MOAO_INPUT, "");
        byte[i] ^= 0x41;
    }
    for (size_t cut = 0; cut < bytes; cut += 61) {
        write_file(byte, cut);
        refused(MOAO_INPUT, "");
    }
    c.w[c.words] = 0;
    write_file(byte, bytes + 8);
    refused(MOAO_INPUT, "its tiles take");
    free(c.w), tlr_close(a), points_free(&p);
}

/* Whole files, with the right sum, that say what cannot be. */
static void hostile(void **state) {
    const int64_t n = 40, nt = 6, first = HEAD, perm = first + nt + 1, tiles = perm + n;
    const struct {
        int64_t at;
        uint64_t value;
        const char *says;
    } word[] = {
        {0, 1, "no file of a tile low-rank matrix"},
        {1, (uint64_t)0x01020304 << 32 | 3, "version 3, this library reads versions 1 to 2"},
        {1, (uint64_t)0x01020304 << 32, "version 0"},
        {1, (uint64_t)0x01020304 << 32 | 2, "form 1 do not fit version 2"},
        {1, (uint64_t)0x04030201 << 32 | 1, "order of bytes"},
        {2, UINT64_C(1) << 40, "do not fit"},
        {2, (uint64_t)-1, "do not fit"},
        {3, 0, "do not fit"},
        {3, 41, "do not fit"},
        {4, 0, "do not fit"},
        {5, 2, "do not fit"},
        {6, 0x7ff8000000000000, "do not fit"},
        {first, 1, "order of its rows"},
        {first + 2, 0, "order of its rows"},
        {first + 2, UINT64_C(1) << 62, "order of its rows"},
        {perm, 40, "order of its rows"},
        {perm, (uint64_t)-1, "order of its rows"},
        {tiles, 7, "has kind 7"},
        {tiles, (uint64_t)-5 << 32 | 1, "rank -5"},
        {tiles, UINT64_C(0x7fffffff) << 32 | 1, "rank 2147483647"},
        {tiles, UINT64_C(3) << 32 | 2, "kind 2 and rank 3"}};
    points p;
    tlr *a = factored(&p, n, 1e-2);
    (void)state;
    ok(moao_tlr_save(a, path));
    content c = read_file();
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        const uint64_t kept = c.w[word[i].at];
        c.w[word[i].at] = word[i].value;
        write_summed(&c);
        refused(MOAO_INPUT, word[i].says);
        c.w[word[i].at] = kept;
    }
    const uint64_t kept = c.w[perm];
    c.w[perm] = c.w[perm + 1]; /* a row twice */
    write_summed(&c);
    refused(MOAO_INPUT, "order of its rows");
    c.w[perm] = kept, c.w[c.words - 3] = 0x7ff8000000000000;
    write_summed(&c);
    refused(MOAO_INPUT, "is nan");
    free(c.w), tlr_close(a), points_free(&p);
}

/* The same of single precision. */
static void hostile_fp32(void **state) {
    const tlr_options o = {.tau = 1e-2, .cut = -1, .width = 2 * TILE, .fp32 = true};
    points p = points_new(40, TILE, TLR_KD);
    const tlr_source from = {.layout = &p.l, .fill = fill, .arg = &p};
    static const struct {
        uint64_t form;
        const char *says;
    } word[] = {{0, "form 0 do"},
                {2, "form 2 do"},
                {3 + 8, "form 11 do"},
                {7 + 32, "form 39 do"},
                {(uint64_t)-5, "form -5 do"},
                {3 + 16 + 64, "form 83 do"}};
    tlr *a;
    (void)state;
    ok(tlr_factor(be, ctx, &from, 'L', &o, NULL, &a, NULL));
    ok(moao_tlr_save(a, path));
    content c = read_file();
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        c.w[5] = word[i].form;
        write_summed(&c);
        refused(MOAO_INPUT, word[i].says);
    }
    c.w[1] = (uint64_t)0x01020304 << 32 | 1, c.w[5] = 1; /* its tiles as doubles */
    write_summed(&c);
    refused(MOAO_INPUT, "its tiles take");
    c.w[1]++, c.w[5] = 3;
    const int64_t tiles = HEAD + 7 + 40;
    int64_t u = tiles; /* the first word of u: after the words of all tiles */
    while (c.w[u] >> 32 <= TILE && (c.w[u] & 0xffffffff) <= 2)
        u++;
    c.w[u] = UINT64_C(0x7f800000) << 32 | (c.w[u] & 0xffffffff);
    write_summed(&c);
    refused(MOAO_INPUT, "is inf");
    free(c.w), tlr_close(a);
    const tlr_options fp16 = {
        .tau = 1e-2, .cut = -1, .width = 2 * TILE, .fp32 = true, .fp16 = true};
    ok(tlr_factor(be, ctx, &from, 'L', &fp16, NULL, &a, NULL));
    assert_int_equal(moao_tlr_save(a, path), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "columns in FP16"));
    status_clear();
    tlr_close(a), points_free(&p);
}

/* Tiles of one row each: their words cannot be in the file, and no memory is taken for them. */
static void many_tiles(void **state) {
    enum { ROWS = 30000 };
    content c = {HEAD + 2 * ROWS + 1 + 9, calloc(8, HEAD + 2 * ROWS + 10)};
    (void)state;
    memcpy(c.w, "MOAOTLR", 8);
    c.w[1] = (uint64_t)0x01020304 << 32 | 1;
    c.w[2] = c.w[3] = ROWS, c.w[4] = 1;
    for (uint64_t i = 0; i < ROWS; i++)
        c.w[HEAD + i + 1] = i + 1, c.w[HEAD + ROWS + 1 + i] = i;
    write_summed(&c);
    refused(MOAO_INPUT, "449985000 tiles");
    free(c.w);
}

static void not_files(void **state) {
    points p;
    tlr_layout l;
    tlr *a = factored(&p, 20, 1e-3), *b;
    (void)state;
    remove(path);
    refused(MOAO_IO, "cannot be read");
    assert_int_equal(moao_tlr_load(be, ctx, "/", &l, &b, NULL, NULL), MOAO_IO);
    status_clear();
    write_file("short", 5);
    refused(MOAO_INPUT, "no file of a tile low-rank matrix");
    assert_int_equal(moao_tlr_save(a, "/nowhere/at/all"), MOAO_IO);
    assert_non_null(strstr(status_message(), "/nowhere/at/all"));
    status_clear();
    ok(tlr_build(be, ctx, &p.l, &p.l, fill, &p, &(tlr_options){.tau = 1e-3, .cut = -1}, &b));
    assert_int_equal(moao_tlr_save(b, path), MOAO_INPUT);
    assert_non_null(strstr(status_message(), "rectangular"));
    status_clear();
    tlr_close(a), tlr_close(b), points_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(back_again), cmocka_unit_test(other_forms),  cmocka_unit_test(damaged),
        cmocka_unit_test(hostile),    cmocka_unit_test(hostile_fp32), cmocka_unit_test(many_tiles),
        cmocka_unit_test(not_files),
    };
    snprintf(path, sizeof path, "/tmp/moao-tlr-%d", (int)getpid());
    const int failed =
        run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL});
    remove(path);
    return failed;
}
