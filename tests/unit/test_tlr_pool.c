/* The memory that a factor's buffers are cut from: nothing lies in another's place, whatever comes
 * and goes; who takes what the other side gave waits for it, and only then; what does not fit is
 * the backend's; at the end all is one piece again. */
#include "linalg/tlr/pool.h"
#include "moao/backend_mapped.h"
#include "support/tlr_counted.h"

static int waits; /* of either side */
static backend_ctx *side[2];

static status count_wait(backend_ctx *c, backend_ctx *other) {
    assert_true(c != other);
    waits++;
    return whole->wait_for(c, other);
}

static int setup(void **state) {
    (void)state;
    counting_begin();
    counted.wait_for = count_wait;
    for (int k = 0; k < 2; k++)
        must(be->open(0, NULL, &side[k]));
    live = waits = 0;
    return 0;
}
static int teardown(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++)
        be->close(side[k]);
    counting_end();
    assert_int_equal(live, 0);
    return 0;
}

static tlr_pool *pool_of(size_t bytes) {
    tlr_pool *x;
    must(tlr_pool_open(be, side[0], side[1], bytes, NULL, &x));
    return x;
}
static char *take(tlr_pool *x, int of, bool low, size_t bytes) {
    void *p;
    must(tlr_pool_take(x, be, side[of], of, low, bytes, &p));
    return p;
}
static void hand_back(tlr_pool *x, int of, char *p) {
    tlr_pool_give(x, be, side[of], of, p);
}

/* Buffers that are there at one time, of random sizes and lifetimes. */
static void apart(void **state) {
    (void)state;
    enum { PLACES = 40, STEPS = 20000 };
    struct {
        char *at;
        size_t bytes;
        int of;
    } held[PLACES] = {0};
    const size_t all = (size_t)3 << 19;
    tlr_pool *x = pool_of(all);
    uint32_t seed = 1;
    int beyond = 0;
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525u + 1013904223u;
        const int k = (int)(seed >> 8) % PLACES, of = (int)(seed >> 30) & 1;
        if (held[k].at) {
            hand_back(x, held[k].of, held[k].at);
            held[k].at = NULL;
            continue;
        }
        held[k].bytes = (seed >> 10) % 200000;
        held[k].of = of;
        held[k].at = take(x, of, (seed >> 29) & 1, held[k].bytes);
        for (int j = 0; j < PLACES; j++)
            assert_true(j == k || !held[j].at || held[j].at + held[j].bytes <= held[k].at ||
                        held[k].at + held[k].bytes <= held[j].at);
        beyond = live > beyond ? (int)live : beyond;
    }
    assert_true(beyond > 1); /* some found no place */
    for (int k = 0; k < PLACES; k++)
        if (held[k].at)
            hand_back(x, held[k].of, held[k].at);
    assert_int_equal(live, 1);
    assert_true(tlr_pool_fits(x, all, 0)); /* one piece again */
    assert_false(tlr_pool_fits(x, all, 512));
    tlr_pool_close(x);
}

/* What stays lies at the upper end, in the smallest place; what does not at the lower one. */
static void ends(void **state) {
    (void)state;
    tlr_pool *x = pool_of(8192);
    char *const low = take(x, TLR_MAIN, true, 1024), *const high = take(x, TLR_MAIN, false, 1000),
                *const next = take(x, TLR_MAIN, true, 1), *const beyond = take(x, 0, false, 8192);
    assert_true(high == low + 8192 - 1024 && next == low + 1024);
    assert_true(beyond < low || beyond >= low + 8192);
    assert_false(tlr_pool_fits(x, 512, 0)); /* there is something beyond it */
    hand_back(x, TLR_MAIN, beyond);
    assert_true(tlr_pool_fits(x, 4096, 1024) && !tlr_pool_fits(x, 4096, 2048));
    hand_back(x, TLR_MAIN, low);
    assert_true(take(x, TLR_MAIN, false, 700) == low);
    hand_back(x, TLR_MAIN, low);
    hand_back(x, TLR_MAIN, high);
    hand_back(x, TLR_MAIN, next);
    assert_true(tlr_pool_fits(x, 8192, 0));
    tlr_pool_close(x);
}

static void waiting(void **state) {
    (void)state;
    tlr_pool *x = pool_of(4096);
    char *a = take(x, TLR_MAIN, true, 4096);
    hand_back(x, TLR_MAIN, a);
    a = take(x, TLR_MAIN, true, 2048); /* one's own */
    assert_int_equal(waits, 0);
    char *b = take(x, TLR_AHEAD, true, 512);
    assert_int_equal(waits, 1);
    char *c = take(x, TLR_AHEAD, true, 512); /* it has waited for that too */
    assert_int_equal(waits, 1);
    hand_back(x, TLR_AHEAD, c);
    hand_back(x, TLR_AHEAD, b);
    tlr_pool_met(x, TLR_MAIN); /* main has waited since */
    b = take(x, TLR_MAIN, true, 2048);
    assert_int_equal(waits, 1);
    hand_back(x, TLR_AHEAD, a);
    hand_back(x, TLR_MAIN, b);
    tlr_pool_met(x, TLR_MAIN); /* says nothing of what main has to do */
    a = take(x, TLR_AHEAD, true, 4096);
    assert_int_equal(waits, 2);
    hand_back(x, TLR_AHEAD, a);
    tlr_pool_close(x);
}

/* `bytes` at p become these numbers, and are them. */
static void write_at(char *p, size_t bytes, int seed) {
    char *a = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        a[i] = (char)((size_t)seed * 31 + i * 7 + i / 4096);
    must(be->copy(side[0], p, (int64_t)bytes, a, (int64_t)bytes, (int64_t)bytes, bytes > 0));
    must(be->sync(side[0]));
    free(a);
}
static void read_at(const char *p, size_t bytes, int seed) {
    char *a = malloc(bytes + 1);
    must(be->copy(side[0], a, (int64_t)bytes, p, (int64_t)bytes, (int64_t)bytes, bytes > 0));
    must(be->sync(side[0]));
    for (size_t i = 0; i < bytes; i++)
        assert_true(a[i] == (char)((size_t)seed * 31 + i * 7 + i / 4096));
    free(a);
}

/* Where memory can be mapped no hole is lost: buffers of random sizes and lifetimes all find a
 * place as long as whole pages of all are not more than there are, and none changes its contents.
 */
static void pages(void **state) {
    (void)state;
    enum { PLACES = 24, STEPS = 1500 };
    struct {
        char *at;
        size_t bytes;
        int of;
    } held[PLACES] = {0};
    mapped_memory *map = NULL;
    const size_t page = (size_t)2 << 20, all = 48 * page; /* a page of a GPU */
    size_t unit = 0, got = 0, taken = 0, most = 0;
    void *at;
    counted.mapped = whole->mapped;
    if (whole->mapped == NULL ||
        whole->mapped->open(side[0], all, 2 * all, 48, &unit, &got, &at, &map) != MOAO_OK) {
        print_message("memory is not mapped by pages here: %s\n", status_message());
        status_clear();
        return;
    }
    assert_true(unit == page && got == all);
    whole->mapped->close(map);
    tlr_pool *x = pool_of(all);
    uint32_t seed = 5;
    assert_int_equal(live, 0); /* nothing of the backend's own */
    for (int step = 0; step < STEPS; step++) {
        seed = seed * 1664525u + 1013904223u;
        const int k = (int)(seed >> 8) % PLACES, of = (int)(seed >> 30) & 1;
        if (held[k].at) {
            read_at(held[k].at, held[k].bytes, k);
            hand_back(x, held[k].of, held[k].at);
            taken -= held[k].bytes / page + 2;
            held[k].at = NULL;
            continue;
        }
        held[k].bytes = (seed >> 9) % 8 == 0 ? (seed >> 12) % (20 * page) : (seed >> 12) % page;
        if (taken + held[k].bytes / page + 2 > 47) /* both ends of it share a page with others */
            continue;
        held[k].of = of;
        held[k].at = take(x, of, (seed >> 29) & 1, held[k].bytes);
        taken += held[k].bytes / page + 2;
        most = taken > most ? taken : most;
        assert_int_equal(live, 0);
        write_at(held[k].at, held[k].bytes, k);
        for (int j = 0; j < PLACES; j++)
            assert_true(j == k || !held[j].at || held[j].at + held[j].bytes <= held[k].at ||
                        held[k].at + held[k].bytes <= held[j].at);
    }
    assert_true(most > 40);
    for (int k = 0; k < PLACES; k++)
        if (held[k].at) {
            read_at(held[k].at, held[k].bytes, k);
            hand_back(x, held[k].of, held[k].at);
        }
    assert_true(tlr_pool_fits(x, 40 * page, 7 * page)); /* wherever they are */
    assert_false(tlr_pool_fits(x, 40 * page, 9 * page));
    tlr_pool_close(x);
}

/* Every second of equal buffers is given back: nearly half of the memory is there in one place, and
 * is not where memory stays one piece; both streams are waited for. */
static void holes(void **state) {
    (void)state;
    enum { PIECES = 24 };
    const size_t page = (size_t)2 << 20,
                 half = (PIECES / 2 - 1) * page; /* ends of pages are lost */
    char *at[PIECES];
    for (int mapped = 0; mapped < 2; mapped++) {
        counted.mapped = mapped ? whole->mapped : NULL;
        tlr_pool *x = pool_of(PIECES * page);
        const int64_t before = live;
        const bool pages = before == 0;
        for (int k = 0; k < PIECES; k++) {
            at[k] = take(x, TLR_MAIN, true, page);
            write_at(at[k], page, k);
        }
        for (int k = 0; k < PIECES; k += 2)
            hand_back(x, k & 2 ? TLR_MAIN : TLR_AHEAD, at[k]);
        assert_int_equal(tlr_pool_fits(x, half, 0), pages);
        char *const large = take(x, TLR_AHEAD, false, half);
        assert_int_equal(live, before + !pages);
        write_at(large, half, 99);
        for (int k = 1; k < PIECES; k += 2) {
            read_at(at[k], page, k);
            hand_back(x, TLR_MAIN, at[k]);
        }
        read_at(large, half, 99);
        hand_back(x, TLR_AHEAD, large);
        char *const again = take(x, TLR_MAIN, true, PIECES * page); /* from everywhere */
        assert_int_equal(live, before);
        hand_back(x, TLR_MAIN, again);
        tlr_pool_close(x);
    }
}

/* Without a pool all is the backend's. */
static void none(void **state) {
    (void)state;
    char *const p = take(NULL, TLR_MAIN, true, 100);
    assert_int_equal(live, 1);
    hand_back(NULL, TLR_AHEAD, p);
    hand_back(NULL, TLR_MAIN, NULL);
    tlr_pool *x = pool_of(512);
    hand_back(x, TLR_MAIN, NULL);
    assert_true(tlr_pool_fits(x, 512, 0));
    tlr_pool_close(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(apart, setup, teardown),
        cmocka_unit_test_setup_teardown(ends, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting, setup, teardown),
        cmocka_unit_test_setup_teardown(none, setup, teardown),
        cmocka_unit_test_setup_teardown(pages, setup, teardown),
        cmocka_unit_test_setup_teardown(holes, setup, teardown),
    };
    return RUN_ON_BACKENDS(tests);
}
