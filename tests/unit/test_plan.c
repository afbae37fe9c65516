/* The plan of a run on CPUs: grid of ranks, panels, threads, memory, and the work that times and
 * progress follow from. */
#include "base/machine_constants.h"
#include "job/plan.h"
#include "job/setup.h"
#include "params_case.h"

#include <math.h>

/* What a plan is made of; the machine has as much memory as any case here takes. */
typedef struct {
    params par;
    sys s;
    atmos a;
    psf_opts o;
    request q;
    machine m;
} given;

static void open_given(const char *override, int nrank, given *g) {
    *g = (given){.m = {.nrank = nrank,
                       .nnode = 1,
                       .threads = 1,
                       .available = (size_t)4 << 30,
                       .total = (size_t)4 << 30,
                       .base = 1 << 20,
                       .rate = 1e9,
                       .sharing = 1,
                       .device_free = 4e9,
                       .device_memory = 4e9}};
    load_all("case.yaml", override, &g->par, &g->s, &g->a);
    params_psf_opts(&g->par, &g->o);
    g->s.fit.points = g->s.fit.phase ? psf_points_of(&g->s, &g->o) : 0;
    assert_int_equal(request_init(&g->par, &g->s, &g->a, &g->o, &g->q), MOAO_OK);
}

static void close_given(given *g) {
    atmos_free(&g->a);
    sys_free(&g->s);
    params_free(&g->par);
}

static status make_plan(const given *g, plan *p) {
    return plan_make(&g->q, &g->m, 0, p);
}

static void expect_near(double a, double b) {
    if (!(fabs(a - b) <= 1e-12 * fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

/* As many ranks as the run has, as square as may be; a grid of other ranks is refused. */
static void test_grid(void **state) {
    (void)state;
    const struct {
        const char *asked;
        int nrank, nprow, npcol; /* 0: refused */
    } of[] = {{NULL, 1, 1, 1},  {NULL, 6, 2, 3},         {NULL, 7, 1, 7},  {NULL, 16, 4, 4},
              {"3,2", 6, 3, 2}, {"1,6", 6, 1, 6},        {"2,2", 1, 0, 0}, {"2,2", 6, 0, 0},
              {"3,2", 5, 0, 0}, {"65536,65536", 1, 0, 0}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char override[64] = "title=any", words[64];
        given g;
        plan p;
        if (of[i].asked != NULL)
            snprintf(override, sizeof override, "compute.grid=[%s]", of[i].asked);
        open_given(override, of[i].nrank, &g);
        const status st = make_plan(&g, &p);
        assert_int_equal(st, of[i].nprow > 0 ? MOAO_OK : MOAO_INPUT);
        if (st == MOAO_OK) {
            assert_int_equal(p.grid[0], of[i].nprow);
            assert_int_equal(p.grid[1], of[i].npcol);
        } else {
            snprintf(words, sizeof words, "is not the number of ranks, %d", of[i].nrank);
            assert_non_null(strstr(status_message(), "compute.grid: "));
            assert_non_null(strstr(status_message(), words));
            status_clear();
        }
        /* on devices it is the same */
        g.m.devices = true;
        assert_int_equal(make_plan(&g, &p), st);
        status_clear();
        close_given(&g);
    }
}

/* Panels are blocks of the factor side by side. */
static void test_panels(void **state) {
    (void)state;
    static const char *const of[] = {"compute={block: 64, panel: 200}", "compute.panel=1000",
                                     "compute.block=96", "title=any"};
    static const int block[] = {64, 128, 96, 128}, width[] = {256, 1024, 288, 256};
    for (int i = 0; i < 4; i++) {
        given g;
        plan p;
        open_given(of[i], 1, &g);
        assert_int_equal(make_plan(&g, &p), MOAO_OK);
        assert_int_equal(p.block, block[i]);
        assert_int_equal(p.width, width[i]);
        close_given(&g);
    }
}

/* Every reconstructor has a factor and solves, every exposure its products; and times follow. */
static void test_work(void **state) {
    (void)state;
    static const char *const schedule[] = {
        "schedule={tor_times: [0], exposure_times: [0, 300]}",
        "schedule={tor_times: [0, 600], exposure_times: [0, 300]}",
        "schedule={tor_times: [0, 100, 200, 600], exposure_times: [0, 300]}",
        "schedule={tor_times: [0], exposure_times: [0, 300, 400, 500]}"};
    plan p[4];
    double m = 0, noise = 0, phase[4];
    for (int i = 0; i < 4; i++) {
        given g;
        open_given(schedule[i], 1, &g);
        g.o.budget = false; /* whose noise is of each reconstructor, in the exposures */
        assert_int_equal(make_plan(&g, &p[i]), MOAO_OK);
        phase[i] = p[i].flops[STAGE_EXPOSURE];
        g.o.phase = false; /* in which exposures of one profile follow from each other */
        assert_int_equal(make_plan(&g, &p[i]), MOAO_OK);
        m = (double)g.s.m;
        noise = 2 * pow(sys_commands(&g.s), 2) * m * g.s.ntarget; /* of an exposure */
        close_given(&g);
    }
    const double tor[4] = {1, 2, 4, 1}, exposures[4] = {1, 1, 1, 2};
    expect_near(p[0].flops[STAGE_FACTOR], m * m * m / 3);
    for (int i = 1; i < 4; i++) {
        expect_near(p[i].flops[STAGE_FACTOR], tor[i] * p[0].flops[STAGE_FACTOR]);
        expect_near(p[i].flops[STAGE_SOLVE], tor[i] * p[0].flops[STAGE_SOLVE]);
        expect_near(p[i].flops[STAGE_EXPOSURE], exposures[i] * p[0].flops[STAGE_EXPOSURE]);
        expect_near(p[i].flops[STAGE_SETUP], p[0].flops[STAGE_SETUP]);
        expect_near(p[i].time.tor, p[0].time.tor); /* of one */
        expect_near(p[i].time.solve, p[0].time.solve);
        expect_near(p[i].time.exposure, p[0].time.exposure);
    }
    /* no residual */
    expect_near(phase[3] - phase[0], 2 * noise);
    const double one = p[1].time.total - p[0].time.total; /* reconstructor, its targets solved */
    assert_true(one > p[0].time.tor);
    expect_near(p[2].time.total, p[0].time.total + 3 * one);
}

/* Of mirrors that all targets share: phases of every direction that commands are fitted to, and
 * what a check evaluates. */
static void test_directions(void **state) {
    (void)state;
    given g;
    plan all, one, off;
    open_given("mode=glao", 1, &g);
    const double directions = sys_fit_directions(&g.s), m = (double)g.s.m,
                 t = (double)sys_fit_rows(&g.s), v = sys_commands(&g.s);
    assert_true(directions > 1 && t > 0);
    assert_int_equal(make_plan(&g, &all), MOAO_OK);
    g.par.compute_verify = VERIFY_OFF;
    assert_int_equal(make_plan(&g, &off), MOAO_OK);
    g.s.fit.ndir = 1;
    assert_int_equal(make_plan(&g, &one), MOAO_OK);
    const double flop = 1 / (MACHINE_EFFICIENCY * g.m.rate),
                 value = g.q.nlayer * MACHINE_EVALUATION;
    expect_near(g.s.ntarget * (off.time.solve - one.time.solve),
                off.nchunk * (directions - 1) * t * m * (2 * v * flop + value));
    /* Cmm and phases of two profiles, one of them in all directions */
    const double check = all.time.total - off.time.total;
    assert_true(check > (m * m + directions * t * m) * value * (1 - 1e-9));
    assert_true(check < (m * m + 2 * directions * t * m) * value);
    g.s.fit.ndir = (int)directions;
    /* every rank inverts the mirrors' normal matrix */
    g.m.nrank = 4;
    assert_int_equal(make_plan(&g, &one), MOAO_OK);
    assert_true(one.flops[STAGE_SETUP] - all.flops[STAGE_SETUP] > 3 * v * v * v);
    g.m.nrank = 1;
    close_given(&g);
}

/* A plan fits into the memory that there is, or there is none; W has numbers of eight bytes. */
static void test_memory(void **state) {
    (void)state;
    given g;
    plan p;
    int fits = 0, refused = 0, chunks = 0;
    open_given("targets={grid: {nx: 8, ny: 3, width: 60, height: 30}}", 1, &g);
    assert_int_equal(make_plan(&g, &p), MOAO_OK);
    assert_int_equal(p.nchunk, 1);
    const size_t all = p.peak;
    size_t w = 0, sum = 0;
    for (int i = 0; i < p.memory[PLAN_HOST].n; i++) {
        const size_t bytes = p.memory[PLAN_HOST].item[i].bytes;
        sum += bytes;
        w = strcmp(p.memory[PLAN_HOST].item[i].name, "reconstructors W") == 0 ? bytes : w;
    }
    assert_true(sum == all);
    assert_true(w == sizeof(double) * (size_t)(24 * g.s.dm.nact) * g.s.m);
    for (int i = 0; i <= 40; i++) {
        g.m.available = g.m.total = all / 40 * (size_t)i;
        if (make_plan(&g, &p) != MOAO_OK) {
            assert_non_null(strstr(status_message(), "GB"));
            status_clear();
            assert_int_equal(fits, 0); /* more memory never fits less */
            refused++;
            continue;
        }
        assert_true(p.peak <= g.m.available);
        assert_true(p.chunk * p.nchunk >= 24 && p.chunk * (p.nchunk - 1) < 24);
        fits++;
        chunks += p.nchunk > 1;
    }
    assert_true(refused > 3 && chunks > 3);
    close_given(&g);
}

/* A rank holds what is kept of all nodes under an exposure, and of one more where exposures follow
 * from others. */
static void test_nodes(void **state) {
    (void)state;
    given g;
    plan p;
    field f;
    field_follow *follow;
    size_t found[2] = {0, 0};
    open_given("targets={grid: {nx: 8, ny: 3, width: 60, height: 30}}", 1, &g);
    assert_int_equal(field_init(&g.s, NULL, 1e-4, NULL, 0, &f), MOAO_OK);
    follow = calloc((size_t)g.a.nexposure, sizeof *follow);
    for (int k = 0; k < 2; k++) {
        f.follow = k == 1 ? follow : NULL;
        request_nodes(&g.q, &f);
        assert_int_equal(make_plan(&g, &p), MOAO_OK);
        for (int i = 0; i < p.memory[PLAN_HOST].n; i++)
            if (strcmp(p.memory[PLAN_HOST].item[i].name, "results of nodes") == 0)
                found[k] = p.memory[PLAN_HOST].item[i].bytes;
    }
    field_free(&f);
    psf *ps;
    assert_int_equal(psf_init(&g.s, &g.o, &ps), MOAO_OK);
    const size_t kept = 24 * psf_kept_count(ps) * sizeof(float);
    assert_in_range(found[0], kept, 1.3 * kept + 24 * 100 * sizeof(double));
    assert_true(found[1] == 2 * found[0]);
    psf_free(ps);
    close_given(&g);
}

/* None is without a thread, none has more than there are cores. */
static void test_threads(void **state) {
    (void)state;
    int before = 1;
    for (size_t m = 2; m < 200000; m = m * 5 / 4 + 1) {
        const sys s = {.m = m};
        const int n = plan_threads(&s, 8);
        assert_true(n >= before && n <= 8);
        assert_int_equal(plan_threads(&s, 1), 1);
        before = n;
    }
    assert_int_equal(before, 8);
    assert_int_equal(plan_threads(&(sys){.m = 2}, 8), 1);
    /* a single target leaves no cores to other ranks */
    assert_int_equal(plan_threads(&(sys){.m = 1632, .ntarget = 2}, 8), 1);
    assert_int_equal(plan_threads(&(sys){.m = 1632, .ntarget = 1}, 8), 2);
    assert_int_equal(plan_threads(&(sys){.m = 200, .ntarget = 1}, 8), 1);
}

/* Memory of a device below which a precision has no plan. */
static double least_memory(given *g, int precision) {
    double low = 0, high = g->m.device_memory;
    plan p;
    g->par.compute_precision = precision;
    while (high - low > 1e3) {
        g->m.device_free = g->m.device_memory = (low + high) / 2;
        *(make_plan(g, &p) == MOAO_OK ? &high : &low) = g->m.device_memory;
        status_clear();
    }
    return high;
}

/* Where a device's memory holds double precision and no mixed, what is to be chosen becomes double
 * and says what mixed would need; mixed by name is refused. */
static void test_too_little_for_mixed(void **state) {
    given g;
    plan p;
    (void)state;
    open_given("psf.residual=phase", 1, &g);
    g.m.devices = true;
    g.q.mixed_pays = true;
    g.m.device_free = g.m.device_memory = 4e9;
    g.par.compute_precision = PRECISION_PARAM_AUTO;
    assert_int_equal(make_plan(&g, &p), MOAO_OK);
    assert_true(p.pair->product->fp16 && p.mixed_needs == 0);
    const double with_double = least_memory(&g, PRECISION_PARAM_DOUBLE);
    g.m.device_memory = 4e9;
    const double with_mixed = least_memory(&g, PRECISION_PARAM_MIXED);
    assert_true(with_double + 1e4 < with_mixed);
    g.m.device_free = g.m.device_memory = (with_double + with_mixed) / 2;
    for (int pays = 0; pays < 2; pays++) { /* a compressed factor was tried last in both cases */
        g.q.mixed_pays = pays != 0;
        assert_int_equal(make_plan(&g, &p), MOAO_INPUT);
        assert_non_null(strstr(status_message(), "one target at a time needs"));
        assert_non_null(strstr(status_message(), "compressed by tiles"));
        status_clear();
    }
    g.par.compute_precision = PRECISION_PARAM_AUTO;
    assert_int_equal(make_plan(&g, &p), MOAO_OK);
    assert_true(p.pair->product->exact);
    assert_true(p.mixed_needs > g.m.device_memory && p.mixed_needs < 1.01 * with_mixed);
    close_given(&g);
}

/* In mixed precision one target is computed with the reference, too, in sampled exposures, with a W
 * of its own; where that shows too large a difference, all are. */
static void test_sample(void **state) {
    static const char *const modes[] = {"mode=glao", "psf.residual=phase"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        given g;
        plan p, other;
        open_given(modes[i], 1, &g);
        g.m.devices = true;
        g.m.device_rate = 1e12;
        g.par.compute_precision = PRECISION_PARAM_DOUBLE;
        assert_int_equal(make_plan(&g, &p), MOAO_OK);
        assert_true(p.pair->product->exact && p.time.sample == 0 && p.time.sample_w == 0);
        expect_near(p.time.exact, p.time.total);
        g.par.compute_precision = PRECISION_PARAM_MIXED;
        assert_int_equal(make_plan(&g, &p), MOAO_OK);
        assert_true(p.pair->product->fp16);
        const double ne = g.a.nexposure, ntor = g.a.ntor, m = (double)g.s.m, v = sys_commands(&g.s),
                     flop = 1 / (MACHINE_EFFICIENCY * g.m.device_rate),
                     value = MACHINE_EVALUATION / MACHINE_DEVICE_THREADS;
        assert_true(ne > ntor && ntor > 0);
        /* W Cpm' and Cpm; W T, Y and T, where all share W once an exposure; R and B0, Cmm0 and
         * Ctm0, and two steps in FP16, where W is not there */
        const bool shares = sys_shares(&g.s);
        const double np = (double)g.q.points,
                     t = (double)sys_fit_rows(&g.s) * sys_fit_directions(&g.s),
                     of_w = 2 * v * m * (m + t) * flop / MACHINE_INTEGERS +
                            (0.5 * m * m + t * m) * g.q.nlayer * value,
                     of_e = 2 * v * m * (m + v) * flop / MACHINE_INTEGERS +
                            0.5 * m * m * g.q.nlayer * value * 0.99,
                     of_d = 2 * v * m * np * flop / MACHINE_INTEGERS +
                            np * m * g.q.nlayer * value * 0.99;
        assert_true(p.time.sample > (shares ? of_d : of_e + of_d));
        assert_true(shares ? p.time.sample_w == 0 && p.time.total > ne * of_e
                           : p.time.sample_w > of_w);
        g.par.compute_mixed_samples = 1; /* every exposure */
        assert_int_equal(make_plan(&g, &p), MOAO_OK);
        g.par.compute_mixed_samples = 2;
        assert_int_equal(make_plan(&g, &other), MOAO_OK);
        assert_true(fabs(p.time.total - other.time.total - (ne - ntor) / 2 * p.time.sample) <
                    1e-12 * p.time.total);
        const int levels = p.pair->factor->levels;
        const double nt = g.s.ntarget,
                     anew = nt * (p.time.solve + p.time.exposure) + p.nchunk * p.time.common +
                            p.time.sample_w + p.time.sample,
                     over =
                         p.time.exact - p.time.total - (levels > 1 ? levels - 1 : 0) * ntor * anew;
        const double each = p.time.sample + p.time.sample_w;
        assert_true(over >= ne * nt * each * (1 - 1e-12));
        assert_true(!shares || over < 1.5 * ne * nt * each); /* no W T or Y in it */
        close_given(&g);
    }
}

static int write_the_case(void **state) {
    const int st = enter_folder(state);
    if (st == 0)
        write_case("case.yaml");
    return st;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),    cmocka_unit_test(test_panels),
        cmocka_unit_test(test_work),    cmocka_unit_test(test_directions),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_too_little_for_mixed),
        cmocka_unit_test(test_sample),
    };
    return cmocka_run_group_tests(tests, write_the_case, leave_folder);
}
