/* What holds ranks together when one of them fails: the same status and one message on all, in
 * bounded time; and what each is given of its node. The programs' stages are run on a rank that
 * fails in the middle of a panel of columns, of W Cpm', of a factor.
 * ranks: 1 2 3
 * timeout: 60 */
#include "base/memory_limits.h"
#include "obsseq/residual.h"
#include "support/matcov_case.h"

#include <sched.h>
#include <unistd.h>

static comm world;

/* The tests end in any case. */
static int set_alarm(void **state) {
    (void)state;
    status_clear();
    alarm(120);
    return 0;
}

static int clear_alarm(void **state) {
    (void)state;
    status_clear();
    return (int)alarm(0) < 0;
}

static bool last(void) {
    return world.rank == world.size - 1;
}

/* Every rank has this status and this message. */
static void expect_all(status st, status want, const char *words) {
    assert_int_equal(st, want);
    if (strstr(status_message(), words) == NULL)
        fail_msg("rank %d: '%s' is not '%s'", world.rank, status_message(), words);
    status_clear();
}

/* --- comm_agree */

/* The lowest of those with the worst status speaks; one that knows a reason before one that was
 * told of a failure only, whatever its rank and status. */
static void whose_message(void **state) {
    (void)state;
    char words[64];
    expect_all(comm_agree(&world, MOAO_OK), MOAO_OK, "");
    status st = last() ? status_fail(MOAO_MEMORY, "mine alone") : MOAO_OK;
    snprintf(words, sizeof words, world.size > 1 ? "rank %d: mine alone" : "mine alone",
             world.size - 1);
    expect_all(comm_agree(&world, st), MOAO_MEMORY, words);
    st = status_fail(MOAO_MEMORY, "of rank %d", world.rank);
    expect_all(comm_agree(&world, st), MOAO_MEMORY,
               world.size > 1 ? "rank 0: of rank 0" : "of rank 0");
    st = last() ? status_fail(MOAO_IO, "the reason") : MOAO_INTERNAL; /* told of it */
    expect_all(comm_agree(&world, st), MOAO_IO, "the reason");
    st = last() ? status_fail(MOAO_NUMERIC, "worse")
                : status_fail(MOAO_INPUT, "of rank %d", world.rank);
    const bool worse = MOAO_NUMERIC > MOAO_INPUT || world.size == 1;
    expect_all(comm_agree(&world, st), worse ? MOAO_NUMERIC : MOAO_INPUT,
               worse ? "worse" : "of rank 0");
    st = last() ? status_fail(MOAO_INPUT, "no number") : MOAO_OK; /* the user's: no rank is named */
    expect_all(comm_agree(&world, st), MOAO_INPUT, "no number");
    st = last() ? status_fail(MOAO_INPUT, "no number") : MOAO_OK;
    comm_agree(&world, st);
    assert_string_equal(status_message(), "no number");
}

/* --- the node */

/* The ranks of a node have its memory together, not each. */
static void memory_of_a_node(void **state) {
    (void)state;
    comm alone;
    assert_int_equal(comm_init(MPI_COMM_SELF, &alone), MOAO_OK);
    assert_int_equal(world.node_size, world.size); /* these tests run on one */
    assert_int_equal(world.nnode, 1);
    assert_int_equal(world.node_rank, world.rank);
    const double all = (double)alone.memory, mine = (double)world.memory * world.size;
    if (!(mine < 1.35 * all && mine > 0.65 * all)) /* others take and give while this runs */
        fail_msg("%d ranks with %.4g bytes each of %.4g", world.size, (double)world.memory, all);
    comm_free(&alone);
    comm_set_threads(&world, world.threads);
}

/* Without OMP_NUM_THREADS ranks that may use the same cores divide them, others use their own. */
static void cores_of_a_node(void **state) {
    (void)state;
    static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"};
    char *asked[2];
    cpu_set_t before, all, mine;
    comm c;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (int i = 0; i < 2; i++) {
        asked[i] = getenv(names[i]) != NULL ? strdup(getenv(names[i])) : NULL;
        unsetenv(names[i]);
    }
    memset(&all, 0xff, sizeof all);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0); /* as many as the system gives */
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    const int cores = CPU_COUNT(&all), own = cores / world.size;
    const int quota = (int)fmin(limits_cores() / world.size, cores);
    assert_int_equal(comm_init(world.mpi, &c), MOAO_OK);
    assert_int_equal(c.threads, own < 1 || quota < 1 ? 1 : own < quota ? own : quota);
    comm_free(&c);
    CPU_ZERO(&mine);
    for (int i = 0, n = 0; i < CPU_SETSIZE && own > 0; i++)
        if (CPU_ISSET(i, &all) && n++ / own == world.rank)
            CPU_SET(i, &mine);
    if (own > 0) { /* a rank for each core at least */
        assert_int_equal(sched_setaffinity(0, sizeof mine, &mine), 0);
        assert_int_equal(comm_init(world.mpi, &c), MOAO_OK);
        assert_int_equal(c.threads, quota < 1 ? 1 : own < quota ? own : quota);
        comm_free(&c);
    }
    sched_setaffinity(0, sizeof before, &before);
    for (int i = 0; i < 2; i++)
        if (asked[i] != NULL)
            setenv(names[i], asked[i], 1), free(asked[i]);
    comm_set_threads(&world, world.threads);
}

/* --- teams */

/* The rows of a target over all ranks: a failure of one is replicated, columns and rows arrive
 * where they belong, every target has one owner. */
static void teams(void **state) {
    (void)state;
    enum { ROWS = 7, WIDTH = 5 };
    team t;
    double a[ROWS * WIDTH], w[ROWS * WIDTH];
    assert_int_equal(team_init(&world, world.size, ROWS, WIDTH, &t), MOAO_OK);
    assert_int_equal(team_agree(&t, MOAO_OK), MOAO_OK);
    for (int who = 0; who < world.size; who++)
        assert_int_equal(team_agree(&t, world.rank == who ? MOAO_MEMORY : MOAO_OK), MOAO_MEMORY);
    int first, some;
    rows_share(WIDTH, t.group_size, t.member, &first, &some);
    for (int i = 0; i < ROWS * WIDTH; i++)
        a[i] = i / ROWS >= first && i / ROWS < first + some ? i : -1;
    team_gather(&t, ROWS, WIDTH, a);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(a[i] == i);
    for (int j = 0; j < WIDTH; j++)
        for (int i = 0; i < t.nlrow; i++)
            w[i + j * t.nlrow] = t.row0 + i + j * ROWS;
    if (world.size > 1)
        team_rows(&t, WIDTH, w, t.nlrow, a);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(a[i] == i);
    const chunk ch = team_chunk(&t, 11, 5);
    assert_int_equal(ch.mine, 11);
    assert_int_equal(ch.nmine, 5);
    for (int k = 0; k < 5; k++) {
        int owners = 0, k0, n;
        for (int who = 0; who < world.size; who++) {
            team_owned(&t, &ch, who, &k0, &n);
            owners += k >= k0 && k < k0 + n;
            assert_true(!(k >= k0 && k < k0 + n) || team_owner(&t, &ch, k) == who);
        }
        assert_int_equal(owners, 1);
    }
    team_free(&t);
}

/* --- stages, with an operator and covariances that do nothing but fail */

enum { M = 12, PANEL = 3, PANELS = M / PANEL };
static int asked; /* panels that this rank began */
static int fails_at = -1, minor_here;

static status no_aim(backend_cov_target *t, const double dir[2], bool shifted) {
    (void)t, (void)dir, (void)shifted;
    return MOAO_OK;
}

static status some_columns(product *op, const wrows *w, int64_t j, int64_t n, double *z,
                           int64_t ldz) {
    (void)op, (void)w, (void)n, (void)z, (void)ldz;
    asked++;
    return last() && j / PANEL == fails_at
               ? status_fail(MOAO_MEMORY, "no room in panel %d", fails_at)
               : MOAO_OK;
}

static status no_project(product *op, backend_cov_target *target, int64_t j, int64_t n) {
    (void)op, (void)target, (void)j, (void)n;
    return MOAO_OK;
}

static status some_outer(product *op, const wrows *w, int64_t j, int64_t n) {
    (void)op, (void)w, (void)n;
    return last() && j / PANEL == fails_at - PANELS ? status_fail(MOAO_MEMORY, "no room in Y")
                                                    : MOAO_OK;
}

static status some_phase(product *op, backend_cov_target *target, const wrows *w, matcov_points p,
                         int64_t j, int64_t n) {
    (void)op, (void)target, (void)w, (void)p, (void)n;
    return last() && j / PANEL == fails_at - 2 * PANELS
               ? status_fail(MOAO_MEMORY, "no room in W Cpm'")
               : MOAO_OK;
}

static status no_phase_end(product *op, const wrows *w, int64_t np, double *ct) {
    (void)op, (void)w, (void)np, (void)ct;
    return MOAO_OK;
}

static status a_factor(factor *op, const profile *p, int *minor) {
    (void)op, (void)p;
    *minor = minor_here;
    return MOAO_OK;
}

static status no_end(product *op, const wrows *w, double *own, double *y) {
    (void)op, (void)w, (void)own, (void)y;
    return MOAO_OK;
}

static const factor_kind kind = {.size = sizeof(factor_kind),
                                 .name = "none",
                                 .together = true,
                                 .collective = true,
                                 .make = a_factor};
static const product_kind products = {.size = sizeof(product_kind),
                                      .name = "none",
                                      .together = true,
                                      .own_products = true,
                                      .own_phase = true,
                                      .columns = some_columns,
                                      .project = no_project,
                                      .outer = some_outer,
                                      .end = no_end,
                                      .phase = some_phase,
                                      .phase_end = no_phase_end};

/* The member that fails in a panel does so in W T, in Y, in W Cpm': no rank begins another panel.
 */
static void a_panel(void **state) {
    (void)state;
    double w[4 * M] = {0}, z[4 * PANEL] = {0}, y[16] = {0}, ct[16] = {0}, at[4] = {0};
    double(*targets)[2] = (double[2][2]){{0}};
    double *ws[] = {w}, *ys[] = {y}, *own[] = {NULL}, *beside[] = {ct};
    backend_cov_target *target[] = {NULL};
    const backend_matcov mat = {.aim = no_aim};
    const sys s = {.targets = targets, .ntarget = 2, .m = M};
    report rep = {0};
    factor f = {.kind = &kind};
    product x = {.kind = &products};
    linop op = {.factor = &kind, .product = &products, .f = &f, .x = &x, .together = true};
    const phase_term ph = {.n = 4, .ld = 4, .x = at, .y = at, .room = ct};
    tor t = {.e = {.c = &world,
                   .s = &s,
                   .rep = &rep,
                   .mat = &mat,
                   .be = &backend_cpu,
                   .collective = true,
                   .m = M,
                   .t = 4,
                   .rows = 4,
                   .width = PANEL},
             .op = &op,
             .z = z,
             .w = ws,
             .y = ys,
             .own = own,
             .beside = beside,
             .target = target,
             .ntarget = 1,
             .nw = 1,
             .ld = 4,
             .ch = {.count = 1, .nmine = 1}};
    assert_int_equal(team_init(&world, 1, 4, PANEL, &t.t), MOAO_OK);
    for (int turn = 0; turn < 6 * PANELS; turn++) {
        static const char *const words[] = {"no room in panel", "no room in Y",
                                            "no room in W Cpm'"};
        fails_at = turn % (3 * PANELS);
        const int what = fails_at / PANELS;
        t.shared = turn >= 3 * PANELS; /* W of all targets */
        t.has_y = false;
        asked = 0;
        const status st = residual_pass(&t, what == 2 ? &ph : NULL, &op, 0, 1);
        assert_int_equal(asked, fails_at % PANELS + 1);
        expect_all(st, MOAO_MEMORY, words[what]);
    }
    fails_at = -1;
    for (int shared = 0; shared < 2; shared++) {
        t.shared = shared, t.has_y = false, asked = 0;
        expect_all(residual_pass(&t, NULL, &op, 0, 1), MOAO_OK, "");
        assert_int_equal(asked, PANELS);
    }
    team_free(&t.t);
}

static status some_cpm(backend_cov_target *t, backend_type type, matcov_points p, matcov_slopes k,
                       void *out, int64_t ld) {
    (void)t, (void)type, (void)p, (void)k, (void)out, (void)ld;
    asked++;
    return last() && asked == fails_at ? status_fail(MOAO_MEMORY, "no room for Cpm") : MOAO_OK;
}

/* Ranks that share a target: one fails in its part of Cpm, all leave W Cpm' before the next part.
 */
static void a_group(void **state) {
    (void)state;
    const case_sensor o[2] = {{4, {10, 0}, INFINITY, 1, 0, {0}, 11},
                              {5, {0, 9}, 90000, 1, 0, {0}, 0}};
    product_kind plain = products;
    sys s;
    report rep = {0};
    plain.own_phase = false;
    product x = {.kind = &plain};
    linop op = {.factor = &kind, .product = &plain, .x = &x, .together = true};
    case_sys(4, 0, 4, 2, o, &s);
    enum { POINTS = 6, WIDE = 8, ROWS = 5 };
    double *w = calloc(ROWS * s.m, sizeof *w), ct[POINTS * ROWS], cpm[POINTS * (WIDE + 1)] = {0},
           at[POINTS] = {0};
    double *ws[] = {w}, *beside[] = {ct};
    backend_cov_target *target[] = {NULL};
    const backend_matcov mat = {.fill_cpm_both = some_cpm};
    const phase_term ph = {.n = POINTS, .ld = POINTS, .x = at, .y = at, .cpm = cpm};
    tor t = {.e = {.c = &world,
                   .s = &s,
                   .rep = &rep,
                   .mat = &mat,
                   .be = &backend_cpu,
                   .m = (int64_t)s.m,
                   .width = WIDE},
             .op = &op,
             .w = ws,
             .beside = beside,
             .target = target,
             .ntarget = 1,
             .nw = 1};
    assert_int_equal(backend_cpu.open(0, NULL, &t.e.ctx), MOAO_OK);
    assert_int_equal(team_init(&world, world.size, ROWS, WIDE, &t.t), MOAO_OK);
    t.ld = t.t.nlrow;
    for (fails_at = 1; fails_at < 5; fails_at++) {
        asked = 0;
        const status st = phase_columns(&t, &ph, &op, false, 0, 0, (int64_t)s.m);
        assert_int_equal(asked, fails_at);
        assert_int_equal(st, MOAO_MEMORY);
        status_clear();
    }
    fails_at = -1;
    assert_int_equal(phase_columns(&t, &ph, &op, false, 0, 0, (int64_t)s.m), MOAO_OK);
    team_free(&t.t);
    backend_cpu.close(t.e.ctx);
    free(w);
    sys_free(&s);
}

/* The leading minor that is not positive: the first one that any rank knows, its sensor, its axis
 * and its subaperture. */
static void a_minor(void **state) {
    (void)state;
    const case_sensor o[2] = {{4, {10, 0}, INFINITY, 1, 0, {0}, 11},
                              {5, {0, 9}, 90000, 1, 0, {0}, 0}};
    sys s;
    report rep = {0};
    factor f = {.kind = &kind};
    product x = {.kind = &products};
    linop op = {.factor = &kind, .product = &products, .f = &f, .x = &x, .together = true};
    case_sys(4, 0, 4, 2, o, &s);
    tor t = {.e = {.c = &world, .s = &s, .rep = &rep, .collective = true, .m = (int64_t)s.m},
             .op = &op};
    const profile p = {0};
    for (int minor = 0; minor <= (int)s.m; minor++) {
        char words[128];
        int k = minor - 1, w = 0;
        minor_here = last() ? minor : minor > 0 && world.rank == 0 ? minor + 3 : 0;
        for (; w < 1 && k >= 2 * s.sensors[w].nsub; w++)
            k -= 2 * s.sensors[w].nsub;
        const int nsub = s.sensors[w].nsub;
        snprintf(words, sizeof words,
                 "leading minor of order %d, %c slope of subaperture %d of sensor %d (S%d)", minor,
                 k < nsub ? 'x' : 'y', k % nsub, w, w);
        const status st = tor_factor(&t, &p);
        expect_all(st, minor > 0 ? MOAO_NUMERIC : MOAO_OK, minor > 0 ? words : "");
    }
    sys_free(&s);
}

/* A rank that fails for good tells all others, who find out while they work, and not itself. The
 * last test: nobody takes the message. */
static void an_alarm(void **state) {
    (void)state;
    assert_false(comm_alarmed(&world));
    MPI_Barrier(world.mpi);
    if (last())
        comm_alarm(&world);
    const double from = MPI_Wtime();
    while (!last() && !comm_alarmed(&world) && MPI_Wtime() < from + 60)
        usleep(1000);
    assert_int_equal(comm_alarmed(&world), !last());
    MPI_Barrier(world.mpi);
    assert_int_equal(comm_alarmed(&world), !last());
}

int main(int argc, char **argv) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_alarm, clear_alarm)
    const struct CMUnitTest tests[] = {
        TEST(whose_message), TEST(memory_of_a_node), TEST(cores_of_a_node), TEST(teams),
        TEST(a_panel),       TEST(a_group),          TEST(a_minor),         TEST(an_alarm)};
    MPI_Init(&argc, &argv);
    if (comm_init(MPI_COMM_WORLD, &world) != MOAO_OK)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
