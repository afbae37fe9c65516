/* A factor out of core, whose block columns share passes over those before them: the same bits as
 * with its tiles in the backend's memory, for any number of block columns in a pass and any memory
 * for intermediate products; what comes from the host's memory against a count made here; the room
 * that was given; memory that runs out. */
#include "support/tlr_case.h"

enum { B = 32 };

/* --- the backend with counted memory */

static const backend *whole; /* the backend itself */
static backend counted;
static int64_t held, most_held; /* bytes */
static size_t limit;            /* that a call may hold, 0: any */
static struct {
    void *p;
    size_t bytes;
} block[4096];

static status count_alloc(backend_ctx *c, size_t bytes, void **p) {
    size_t k = 0;
    if (limit > 0 && (size_t)held + bytes > limit)
        return status_fail(MOAO_MEMORY, "no memory for a test");
    const status st = whole->alloc(c, bytes, p);
    while (block[k].p)
        assert_true(++k < sizeof block / sizeof *block);
    if (st == MOAO_OK) {
        block[k].p = *p;
        block[k].bytes = bytes;
        held += (int64_t)bytes;
        most_held = held > most_held ? held : most_held;
    }
    return st;
}

/* On the CPU: what the stream of block columns in transit is to do is done as late as may be, when
 * another one waits for it, so that who does not wait finds nothing. That stream is the first one
 * that is opened from another than the caller's. */
static backend_ctx *feed;
static backend_fp16 late_half;
static int64_t done_late;
static int waiting;
static struct {
    bool cast;
    int64_t ldd, lds, rows, cols;
    double alpha, beta;
    void *to;
    const void *from;
} task[1024];

static status do_late(void) {
    status st = MOAO_OK;
    for (int k = 0; k < waiting && st == MOAO_OK; k++, done_late++)
        st = task[k].cast ? whole->fp16->cast_to_double(feed, task[k].rows, task[k].cols,
                                                        task[k].alpha, task[k].from, task[k].lds,
                                                        task[k].beta, task[k].to, task[k].ldd)
                          : whole->copy(feed, task[k].to, task[k].ldd, task[k].from, task[k].lds,
                                        task[k].rows, task[k].cols);
    waiting = 0;
    return st;
}

static status late_copy(backend_ctx *c, void *dst, int64_t ldd, const void *src, int64_t lds,
                        int64_t rows, int64_t cols) {
    if (c != feed || feed == NULL)
        return whole->copy(c, dst, ldd, src, lds, rows, cols);
    assert_true(waiting < (int)(sizeof task / sizeof *task));
    task[waiting].cast = false;
    task[waiting].to = dst, task[waiting].ldd = ldd;
    task[waiting].from = src, task[waiting].lds = lds;
    task[waiting].rows = rows, task[waiting].cols = cols;
    waiting++;
    return MOAO_OK;
}

static status late_cast(backend_ctx *c, int64_t m, int64_t n, double alpha, const float *x,
                        int64_t ldx, double beta, double *y, int64_t ldy) {
    if (c != feed || feed == NULL)
        return whole->fp16->cast_to_double(c, m, n, alpha, x, ldx, beta, y, ldy);
    assert_true(waiting < (int)(sizeof task / sizeof *task));
    task[waiting].cast = true;
    task[waiting].to = y, task[waiting].ldd = ldy;
    task[waiting].from = x, task[waiting].lds = ldx;
    task[waiting].rows = m, task[waiting].cols = n;
    task[waiting].alpha = alpha, task[waiting].beta = beta;
    waiting++;
    return MOAO_OK;
}

static status late_open(backend_ctx *other, backend_ctx **c) {
    const status st = whole->open_low_priority(other, c);
    if (st == MOAO_OK && other != ctx && feed == NULL)
        feed = *c;
    return st;
}

static status late_wait_for(backend_ctx *c, backend_ctx *other) {
    if (other == feed)
        must(do_late());
    return whole->wait_for(c, other);
}

static void late_close(backend_ctx *c) {
    if (c == feed && c != NULL) {
        must(do_late());
        feed = NULL;
    }
    whole->close(c);
}

static void count_release(backend_ctx *c, void *p) {
    must(do_late()); /* waits for all streams */
    for (size_t k = 0; p && k < sizeof block / sizeof *block; k++)
        if (block[k].p == p) {
            held -= (int64_t)block[k].bytes;
            block[k].p = NULL;
            break;
        }
    whole->release(c, p);
}

static int setup(void **state) {
    (void)state;
    whole = be;
    counted = *be;
    counted.alloc = count_alloc, counted.release = count_release;
    counted.mapped = NULL; /* all memory is counted */
    if (strcmp(be->name, "cpu") == 0) {
        late_half = *be->fp16;
        late_half.cast_to_double = late_cast;
        counted.fp16 = &late_half;
        counted.copy = late_copy, counted.wait_for = late_wait_for;
        counted.open_low_priority = late_open, counted.close = late_close;
    }
    be = &counted;
    held = most_held = 0;
    done_late = 0;
    limit = 0;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    assert_int_equal(held, 0);
    assert_true(strcmp(be->name, "cpu") != 0 || done_late > 100);
    be = whole;
    return 0;
}

/* --- factors */

typedef struct {
    tlr *l;
    double *x; /* [5 n] solutions with it */
    tlr_report report;
    int64_t peak; /* bytes of the backend's memory, beyond those before */
} result;

static status try_factor(const points *p, const tlr_options *o, result *r) {
    const tlr_source from = {.layout = &p->l, .fill = fill, .arg = (void *)p};
    const int64_t before = most_held = held;
    const status st = tlr_factor(be, ctx, &from, 'L', o, NULL, &r->l, &r->report);
    r->peak = most_held - before;
    r->x = NULL;
    return st;
}

static result factor(const points *p, const tlr_options *o) {
    const int64_t count = 5 * p->n;
    double *start = malloc(sizeof(double) * (size_t)count);
    result r;
    ok(try_factor(p, o, &r));
    for (int64_t k = 0; k < count; k++)
        start[k] = sin((double)k);
    double *there = up(start, count);
    ok(tlr_solve(r.l, 'R', 'A', 5, there, 5));
    r.x = down(there, count);
    be->release(ctx, there);
    free(start);
    return r;
}

static void done_with(result *r) {
    tlr_close(r->l);
    free(r->x);
}

/* Ranks, entries, and solutions. */
static void same(const points *p, const result *a, const result *b) {
    const int64_t n = p->n;
    double *full[2] = {expanded(a->l, n, n), expanded(b->l, n, n)};
    for (int64_t i = 0; i < p->l.nt; i++)
        for (int64_t k = 0; k < i; k++) {
            const tlr_tile *s = tlr_tile_at(a->l, i, k), *t = tlr_tile_at(b->l, i, k);
            assert_true(!s == !t);
            assert_true(!s || (s->kind == t->kind && s->rank == t->rank));
        }
    assert_memory_equal(full[0], full[1], sizeof(double) * (size_t)(n * n));
    assert_memory_equal(a->x, b->x, sizeof(double) * (size_t)(5 * n));
    free(full[0]), free(full[1]);
}

/* Bytes of the block column of tile columns c0 .. c1 in tile rows from i0 on, as they are kept: U,
 * V; a whole one in one piece, in which V begins at a multiple of 64 numbers. */
static double bytes_from(const tlr *l, const tlr_layout *at, int64_t c0, int64_t c1, int64_t i0,
                         size_t size) {
    int64_t u = 0, v = 0;
    for (int64_t i = i0; i < at->nt; i++)
        for (int64_t k = c0; k < c1; k++) {
            const tlr_tile *t = tlr_tile_at(l, i, k);
            u += t->rank * (at->first[i + 1] - at->first[i]);
            v += t->kind == TLR_LOWRANK ? t->rank * (at->first[k + 1] - at->first[k]) : 0;
        }
    return (double)((i0 > c1 ? u : (u + 63) / 64 * 64) + v) * (double)size;
}

/* --- what should come from the host's memory, where no two block columns share large products */

typedef struct {
    const tlr *l;
    const tlr_layout *at;
    int64_t step, panels;
    size_t size;
    int64_t held[2], from[2]; /* the last two that came, and from which tile row on */
    double bytes;
    int64_t next[64], end[64]; /* updates of each block column: made, to be made now */
} transfers;

static void come(transfers *t, int64_t q, int64_t i0, bool there) {
    for (int k = 0; k < 2; k++)
        if (t->held[k] == q && t->from[k] <= i0) {
            if (k == 0) { /* held[1]: the last one */
                const int64_t other = t->held[1], rows = t->from[1];
                t->held[1] = q, t->from[1] = t->from[0];
                t->held[0] = other, t->from[0] = rows;
            }
            return;
        } else if (t->held[k] == q) {
            t->held[k] = -1;
        }
    if (!there)
        t->bytes +=
            bytes_from(t->l, t->at, q * t->step,
                       (q + 1) * t->step < t->at->nt ? (q + 1) * t->step : t->at->nt, i0, t->size);
    t->held[0] = t->held[1], t->from[0] = t->from[1];
    t->held[1] = q, t->from[1] = i0;
}

static void pass_one(transfers *t, int64_t q, int64_t p0, int64_t p1) {
    int64_t first = -1;
    for (int64_t p = p0; p < p1; p++)
        if (t->next[p] == q && q < t->end[p]) {
            first = first < 0 ? p : first;
            t->next[p] = q + 1;
        }
    if (first >= 0)
        come(t, q, first * t->step, false);
}

/* The last one that is made is at hand, and goes first. */
static void pass(transfers *t, int64_t p0, int64_t p1, int64_t made) {
    pass_one(t, made - 1, p0, p1);
    for (int64_t q = 0; q < made; q++)
        pass_one(t, q, p0, p1);
}

/* Groups of so many block columns; while one is finished, the next one is in a pass. */
static double predicted(const tlr *l, const tlr_layout *at, int64_t step, int64_t group,
                        size_t size) {
    transfers t = {.l = l, .at = at, .step = step, .size = size, .held = {-1, -1}};
    int64_t a0 = 0, a1 = 0, b1 = group;
    t.panels = (at->nt + step - 1) / step;
    assert_true(t.panels <= 64);
    for (int64_t p = 0; p < t.panels; p++) {
        if (p == a1)
            a0 = p, a1 = b1;
        t.end[p] = p;
        pass(&t, p, p + 1, p);
        if (b1 == a1)
            b1 = a1 + group < t.panels ? a1 + group : t.panels;
        for (int64_t k = p + 1; k < b1; k++)
            t.end[k] = k < a1 ? p : p * (p - a0 + 1) / (a1 - a0);
        pass(&t, p + 1, b1, p);
        come(&t, p, 0, true); /* it was made on the device */
    }
    return t.bytes;
}

/* --- */

typedef struct {
    const char *name;
    tlr_options o;
    double nugget;
} form;
static const form forms[] = {
    {"all sums apart", {.tau = 1e-4, .cut = -1, .memory = 1}, 0.05},
    {"all sums apart, single precision", {.tau = 1e-4, .cut = -1, .memory = 1, .fp32 = true}, 0.05},
    {"some together", {.tau = 1e-4, .cut = 8, .memory = 20000}, 0.05},
    {"many together, single precision",
     {.tau = 1e-4, .cut = -1, .memory = 40000, .fp32 = true},
     0.05},
    {"all together", {.tau = 1e-3, .cut = -1}, 0.05},
    {"dense tiles", {.tau = 0, .cut = 0, .memory = 12500}, 0.05},
    {"fixed rank, wide block columns", {.rank = 5, .cut = -1, .memory = 30000, .width = 64}, 2},
};
enum { FORMS = sizeof forms / sizeof *forms };

static tlr_options options_of(const form *f) {
    tlr_options o = f->o;
    o.seed = 1;
    o.width = o.width ? o.width : 1; /* a tile column */
    return o;
}

/* The same in a workspace that is given, of which it takes that much less, and no more than it. */
static void in_workspace(const points *p, tlr_options o, const result *resident,
                         const result *apart) {
    const size_t bytes = o.room / 512 * 512;
    const char mark[] = "beyond it";
    char *given;
    result r;
    ok(whole->alloc(ctx, bytes + sizeof mark, (void **)&given));
    ok(be->copy(ctx, given + bytes, sizeof mark, mark, sizeof mark, sizeof mark, 1));
    o.workspace = given;
    r = factor(p, &o);
    assert_int_equal(r.report.together, apart->report.together);
    assert_true(r.peak < apart->peak - (int64_t)(o.room / 2));
    char after[sizeof mark];
    ok(be->copy(ctx, after, sizeof mark, given + bytes, sizeof mark, sizeof mark, 1));
    ok(be->sync(ctx));
    assert_string_equal(after, mark);
    same(p, resident, &r);
    done_with(&r);
    whole->release(ctx, given);
}

/* Rooms from none to what four in a pass take. */
static void same_bits(void **state) {
    (void)state;
    points p = points_new(330, B, TLR_KD);
    for (int f = 0; f < FORMS; f++) {
        tlr_options o = options_of(&forms[f]);
        int64_t peak[2];
        double fetched[2];
        unsigned seen = 0;
        p.nugget = forms[f].nugget;
        result resident = factor(&p, &o);
        assert_true(resident.report.fetched == 0 && resident.report.together == 0);
        o.host = true;
        for (int k = 0; k < 7; k++) { /* all, one, then between */
            o.room = k == 0   ? 0
                     : k == 1 ? 1
                              : (size_t)(peak[1] + (peak[0] - peak[1]) * (k - 1) / 6);
            result apart = factor(&p, &o);
            const int together = apart.report.together;
            if (k < 2) {
                peak[k] = apart.peak;
                fetched[k] = apart.report.fetched;
                assert_int_equal(together, k ? 1 : 4);
            }
            assert_true(together >= 1 && together <= 4);
            if (k == 4)
                in_workspace(&p, o, &resident, &apart);
            /* and what found no place in one piece */
            assert_true(together == 1 || k == 0 ||
                        apart.peak <= (int64_t)(o.room + 3 * sizeof(double) * (size_t)(p.n * B)));
            seen |= 1U << together;
            same(&p, &resident, &apart);
            done_with(&apart);
        }
        print_message("%s: %.0f kB of %d kB instead of %.0f kB of %d kB, numbers seen %x\n",
                      forms[f].name, 1e-3 * fetched[0], (int)(peak[0] / 1000), 1e-3 * fetched[1],
                      (int)(peak[1] / 1000), seen);
        /* large products of all block columns wait for the last of them */
        assert_true(fetched[0] < fetched[1] || o.memory == 0);
        done_with(&resident);
    }
    points_free(&p);
}

/* To the byte, where no two block columns share large products. */
static void transfers_counted(void **state) {
    (void)state;
    points p = points_new(500, B, TLR_KD);
    for (int f = 0; f < 4; f++) {
        tlr_options o = options_of(&forms[f % 2]);
        const size_t size = o.fp32 ? sizeof(float) : sizeof(double);
        const int64_t step = f / 2 ? 2 : 1, group = f == 1 || f == 2 ? 1 : 4;
        o.width = step * B;
        o.tau = 1e-8; /* a tile row without columns goes with any other */
        o.host = true;
        o.room = group == 1;
        result r = factor(&p, &o);
        const double model = predicted(r.l, &p.l, step, group, size);
        print_message("%.0f bytes, predicted %.0f\n", r.report.fetched, model);
        assert_true(r.report.fetched == model);
        assert_true(model > 0 || f == 3); /* two groups: all is in the two places */
        done_with(&r);
    }
    points_free(&p);
}

/* Less and less memory, which the call does not know of: with fewer block columns at a time the
 * factor is the same, until there is none. */
static void memory_runs_out(void **state) {
    (void)state;
    points p = points_new(330, B, TLR_KD);
    tlr_options o = options_of(&forms[1]);
    result resident = factor(&p, &o), r;
    int64_t peak[2];
    unsigned seen = 0;
    o.host = true;
    for (int k = 0; k < 2; k++) { /* as many as may be, one */
        o.room = k;
        ok(try_factor(&p, &o, &r));
        peak[k] = r.peak;
        tlr_close(r.l);
    }
    o.room = 0;
    for (int k = 0; k <= 6; k++) {
        limit = (size_t)(held + peak[0] - (peak[0] - peak[1]) * k / 8);
        const status st = try_factor(&p, &o, &r);
        limit = 0;
        ok(st);
        assert_string_equal(status_message(), ""); /* nothing of what was tried before */
        r.x = NULL;
        seen |= 1U << r.report.together;
        double *full[2] = {expanded(resident.l, p.n, p.n), expanded(r.l, p.n, p.n)};
        assert_memory_equal(full[0], full[1], sizeof(double) * (size_t)(p.n * p.n));
        free(full[0]), free(full[1]);
        tlr_close(r.l);
    }
    print_message("numbers seen %x\n", seen);
    assert_true((seen & 1U << 4) && (seen & 1U << 1)); /* all, and begun anew with one */
    limit = (size_t)(held + peak[1] / 2);
    assert_int_equal(try_factor(&p, &o, &r), MOAO_MEMORY);
    assert_null(r.l);
    status_clear();
    limit = 0;
    done_with(&resident);
    points_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(transfers_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_runs_out, setup, teardown),
    };
    return run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL});
}
