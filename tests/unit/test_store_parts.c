/* Parts of a checkpoint are what their names and the run say: those that hold other targets, or
 * results in another precision, are not read. */
#include "support/store_case.h"

/* Results of some targets of an exposure. */
static void put_some(store *s, int e, int t0, int nt) {
    double scalars[NT * NL * NS];
    float images[NT * NL * CROP * CROP] = {0};
    for (int i = 0; i < NT * NL * NS; i++)
        scalars[i] = 100 * e + 10 * t0 + i;
    const result_block b = {e, t0, nt, NL, NB, CROP, scalars, images, false, 0, NULL, 0};
    assert_int_equal(store_put(s, &b), MOAO_OK);
}

/* A part whose name says other targets than it holds: other ones, fewer, more, or another exposure.
 * It is left out, and what its name says is computed again. */
static void test_other_targets(void **state) {
    (void)state;
    static const struct {
        int e, t0, nt;
    } named[] = {{0, 2, 2}, {0, 1, 2}, {0, 0, 1}, {0, 0, 3}, {1, 0, 2}};
    store *s = open_ok(EFFECTIVE, begin);
    put_some(s, 0, 0, 2);
    store_close(s);
    char held[160];
    snprintf(held, sizeof held, "%s", in_dir("checkpoint/part-0000-000000-000002.bin"));
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        char name[80], other[160];
        snprintf(name, sizeof name, "checkpoint/part-%04d-%06d-%06d.bin", named[i].e, named[i].t0,
                 named[i].nt);
        snprintf(other, sizeof other, "%s", in_dir(name));
        assert_int_equal(rename(held, other), 0);
        s = open_ok(EFFECTIVE, resume);
        assert_int_equal(store_done_count(s), 0);
        for (int e = 0; e < NE; e++)
            for (int k = 0; k < NT; k++)
                assert_false(store_done(s, e, k));
        store_close(s);
        assert_int_equal(rename(other, held), 0);
    }
    s = open_ok(EFFECTIVE, resume);
    assert_int_equal(store_done_count(s), 2);
    store_close(s);
}

/* Files whose names are only like those of parts: they are not read, and stay. */
static void test_other_names(void **state) {
    (void)state;
    static const char *const names[] = {
        "checkpoint/part-0-0-2.bin", "checkpoint/part-0000-000000-000002.bin.old",
        "checkpoint/part-0000-000000-000002.bin~", "checkpoint/part-0000-0000000-000002.bin"};
    store *s = open_ok(EFFECTIVE, begin);
    put_some(s, 0, 0, 2);
    store_close(s);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char held[160], other[160];
        snprintf(held, sizeof held, "%s", in_dir("checkpoint/part-0000-000000-000002.bin"));
        snprintf(other, sizeof other, "%s", in_dir(names[i]));
        assert_int_equal(rename(held, other), 0);
        s = open_ok(EFFECTIVE, resume);
        assert_int_equal(store_done_count(s), 0);
        store_close(s);
        s = open_ok(EFFECTIVE, overwrite);
        store_close(s);
        assert_int_equal(access(other, F_OK), 0);
        assert_int_equal(rename(other, held), 0);
    }
}

/* A run of the same parameters, but of another shape (its lists were read from files): nothing of
 * the other one counts, neither parts nor facts. */
static void test_other_shape(void **state) {
    (void)state;
    const store_run here = run_of(EFFECTIVE);
    for (int what = 0; what < 6; what++) {
        store *s;
        store_run other = here;
        int *const shape[] = {&other.ntarget, &other.nexposure, &other.nlambda,
                              &other.nbox,    &other.crop,      &other.nbudget};
        *shape[what] += what == 4 ? 2 : 1;
        s = open_ok(EFFECTIVE, overwrite);
        assert_int_equal(store_set_fact(s, "ranks", 7), MOAO_OK);
        assert_int_equal(store_set_fact(s, "other", 8), MOAO_OK);
        put_some(s, 0, 0, 2);
        store_close(s);
        assert_int_equal(open_run(dir, &other, resume, &s), MOAO_OK);
        assert_int_equal(store_done_count(s), 0);
        assert_int_equal(store_get_fact(s, "ranks", -1), -1);
        assert_int_equal(store_get_fact(s, "other", -1), -1);
        store_close(s);
    }
}

/* Facts that no run of this shape can have: all of them are forgotten. Those at their limits stay.
 */
static void test_absurd_facts(void **state) {
    (void)state;
    static const struct {
        const char *key;
        long value;
        bool sane;
    } of[] = {
        {"ranks", 1, true},        {"ranks", 0, false},        {"threads", 4096, true},
        {"threads", 0, false},     {"threads", 4097, false},   {"chunk", NT, true},
        {"chunk", NT + 1, false},  {"chunk", 0, false},        {"precision_1", 1, true},
        {"precision_2", 1, false}, {"precision_-1", 1, false}, {"precision_1_limit", 1, true}};
    store_run run = run_of(EFFECTIVE);
    run.mixed = true;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        store *s;
        assert_int_equal(open_run(dir, &run, overwrite, &s), MOAO_OK);
        assert_int_equal(store_set_fact(s, "other", 5), MOAO_OK);
        assert_int_equal(store_set_fact(s, of[i].key, of[i].value), MOAO_OK);
        store_close(s);
        assert_int_equal(open_run(dir, &run, resume, &s), MOAO_OK);
        if (store_get_fact(s, "other", -7) != (of[i].sane ? 5 : -7))
            fail_msg("%s %ld", of[i].key, of[i].value);
        store_close(s);
    }
}

/* A part that another takes the place of during a run is not read: of other targets, or of the same
 * in another precision.
 */
static void test_replaced_under_way(void **state) {
    (void)state;
    char aside[160], name[160];
    double v[NL * NS];
    for (int what = 0; what < 2; what++) {
        store *s;
        store_run run = run_of(EFFECTIVE);
        run.mixed = what == 0;
        assert_int_equal(open_run(dir, &run, what == 0 ? begin : overwrite, &s), MOAO_OK);
        if (what == 0)
            put(s, 0, true);
        else
            put_some(s, 0, 0, 2);
        store_close(s);
        snprintf(name, sizeof name, "%s",
                 what == 0 ? part(0) : in_dir("checkpoint/part-0000-000000-000002.bin"));
        snprintf(aside, sizeof aside, "%s", in_dir("aside"));
        assert_int_equal(rename(name, aside), 0);
        run.mixed = false;
        assert_int_equal(open_run(dir, &run, overwrite, &s), MOAO_OK);
        if (what == 0)
            put(s, 0, false);
        else
            put_some(s, 0, 2, 2);
        snprintf(name, sizeof name, "%s",
                 what == 0 ? part(0) : in_dir("checkpoint/part-0000-000002-000002.bin"));
        assert_int_equal(rename(aside, name), 0);
        assert_int_equal(store_read_scalars(s, 0, what == 0 ? 0 : 2, v), MOAO_IO);
        assert_non_null(strstr(status_message(), "another part"));
        status_clear();
        store_close(s);
    }
}

/* Nodes and targets are numbered by themselves: what is kept of a node comes back, a target of that
 * number is not done, and a damaged number or a run with fewer kept numbers leaves the part out. */
static void test_nodes(void **state) {
    (void)state;
    enum { NODES = 3, KEPT = 7 };
    store_run run = run_of(EFFECTIVE);
    run.nnode = NODES;
    run.nkept = KEPT;
    double scalars[NODES * NL * NS], s1[NL * NS];
    float kept[NODES * KEPT], k1[KEPT];
    for (int i = 0; i < NODES * NL * NS; i++)
        scalars[i] = i;
    for (int i = 0; i < NODES * KEPT; i++)
        kept[i] = (float)(1000 + i);
    store *s;
    assert_int_equal(open_run(dir, &run, begin, &s), MOAO_OK);
    const result_block b = {1, 1, 2, NL, NB, CROP, scalars, NULL, false, 0, kept, KEPT};
    const result_block beyond = {1, 2, 2, NL, NB, CROP, scalars, NULL, false, 0, kept, KEPT};
    assert_int_equal(store_put(s, &b), MOAO_OK);
    assert_int_equal(store_put(s, &beyond), MOAO_INTERNAL);
    status_clear();
    put(s, 0, false);
    store_close(s);
    assert_int_equal(open_run(dir, &run, resume, &s), MOAO_OK);
    assert_int_equal(store_done_count(s), 2 + NT);
    assert_true(store_node_done(s, 1, 1) && store_node_done(s, 1, 2));
    assert_false(store_node_done(s, 1, 0) || store_node_done(s, 0, 1) || store_done(s, 1, 1));
    assert_true(store_done(s, 0, 1));
    assert_int_equal(store_read_node(s, 1, 2, s1, k1), MOAO_OK);
    assert_true(s1[0] == NL * NS && k1[0] == 1000 + KEPT && k1[KEPT - 1] == 1000 + 2 * KEPT - 1);
    assert_int_equal(store_read_scalars(s, 0, 1, s1), MOAO_OK);
    assert_true(s1[0] == NL * NS);
    store_close(s);
    run.nkept = KEPT - 1;
    assert_int_equal(open_run(dir, &run, resume, &s), MOAO_OK);
    assert_int_equal(store_done_count(s), 0);
    store_close(s);
    run.nkept = KEPT;
    FILE *f = fopen(in_dir("checkpoint/part-0001-000001-000002.bin"), "r+b");
    assert_non_null(f);
    fseek(f, -1, SEEK_END);
    fputc(0x55, f);
    fclose(f);
    assert_int_equal(open_run(dir, &run, resume, &s), MOAO_OK);
    assert_int_equal(store_done_count(s), NT);
    store_close(s);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {CASE(test_other_targets),      CASE(test_other_names),
                                       CASE(test_other_shape),        CASE(test_absurd_facts),
                                       CASE(test_replaced_under_way), CASE(test_nodes)};
    warnings = open("/dev/null", O_WRONLY);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
