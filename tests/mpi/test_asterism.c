/* ranks: 1 2
 * Asterisms: variances from sub-matrices of shared covariances are those of each system by itself;
 * the search of all finds the best, and the greedy search with exchange the same; on every number
 * of ranks. */
#include "asterism/case.h"
#include "asterism/images.h"
#include "asterism/search.h"
#include "factor/scalapack.h"
#include "matcov/matcov.h"
#include "tor/command.h"

#include "support/matcov_case.h"

#include <cblas.h>

enum { FIXED = 2, STARS = 9, TARGETS = 3 };

static comm world;

/* Sensors: two laser stars, nine natural ones of several magnitudes; `only`: the natural ones that
 * are there, -1 ends the list, NULL: all. */
static void make_system(const int *only, sys *s, profile *p) {
    static const double place[STARS][3] = {{30, 5, 11},  {-25, 22, 12}, {-8, -33, 13},
                                           {12, 28, 12}, {-35, -6, 11}, {22, -24, 14},
                                           {3, 8, 15},   {41, 33, 10},  {-15, 4, 13.5}};
    static double target[TARGETS][2] = {{0, 0}, {10, 6}, {-12, 9}};
    static const double layer[3][5] = {
        {0, 25, 12, 8, 3}, {4000, 25, 6, -9, 10}, {11000, 25, 4, 20, -8}};
    case_sensor o[FIXED + STARS] = {{5, {18, 18}, 90000, 1, 0, {0}, 0},
                                    {5, {-18, -18}, 90000, 1, 0, {0}, 0}};
    int n = FIXED;
    for (int i = 0; i < STARS && (only == NULL || only[i] >= 0); i++) {
        const double *a = place[only != NULL ? only[i] : i];
        o[n++] = (case_sensor){5, {a[0], a[1]}, INFINITY, 1, 0, {0}, a[2]};
    }
    case_sys(4, 0.2, 6, n, o, s);
    case_profile(3, layer, p);
    s->ntarget = TARGETS;
    case_ok(ALLOC(s->targets, TARGETS, "targets"));
    for (int t = 0; t < TARGETS; t++)
        for (int i = 0; i < 2; i++)
            s->targets[t][i] = CASE_ARCSEC(target[t][i]);
}

static void times(bool ta, bool tb, size_t m, size_t n, size_t k, const double *a, const double *b,
                  double *c) {
    cblas_dgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                (int)m, (int)n, (int)k, 1, a, (int)(ta ? k : m), b, (int)(tb ? n : k), 0, c,
                (int)m);
}

/* Variances of a system by itself: W, then every term of the residual of model section 6. */
static void by_itself(const int *star, double *var) {
    sys s;
    profile p;
    matcov *mc;
    make_system(star, &s, &p);
    const size_t m = s.m, t = s.t, v = (size_t)s.dm.nact;
    double *dplus = calloc(v * t, 8), *area = calloc(v * v, 8), *cmm = calloc(m * m, 8),
           *chol = calloc(m * m, 8), *ctt = calloc(t * t, 8), *ctm = calloc(t * m, 8),
           *b0 = calloc(v * m, 8), *bs = calloc(v * m, 8), *wt = calloc(m * v, 8),
           *x = calloc(v * m + v * t, 8), *c = calloc(v * v, 8), *d = calloc(v * v, 8);
    const int order = (int)m, cols = (int)v;
    int info;
    case_ok(command_init(&world, &s, dplus, NULL));
    case_ok(ast_pupil_area(&s, area));
    case_ok(matcov_init(&world, &s, &p, &mc));
    case_ok(matcov_fill_cmm(mc, 0, m, 0, m, cmm, m));
    case_ok(matcov_fill_ctt(mc, 0, t, 0, t, ctt, t));
    memcpy(chol, cmm, m * m * 8);
    dpotrf_("L", &order, chol, &order, &info);
    assert_int_equal(info, 0);
    for (int i = 0; i < TARGETS; i++) {
        for (int k = 0; k < 2; k++) {
            matcov_target *mt;
            case_ok(matcov_target_init(mc, s.targets[i], k == 1, &mt));
            case_ok(matcov_fill_ctm(mt, 0, m, ctm, t));
            times(false, false, v, m, t, dplus, ctm, k == 1 ? bs : b0);
            matcov_target_free(mt);
        }
        for (size_t a = 0; a < v; a++)
            for (size_t k = 0; k < m; k++)
                wt[k + a * m] = b0[a + k * v];
        dpotrs_("L", &order, &cols, chol, &order, wt, &order, &info);
        times(false, false, v, t, t, dplus, ctt, x); /* P Ctt P' - W Bs' - Bs W' + W Cmm W' */
        times(false, true, v, v, t, x, dplus, c);
        times(true, true, v, v, m, wt, bs, d);
        for (size_t a = 0; a < v; a++)
            for (size_t b = 0; b < v; b++)
                c[a + b * v] -= d[a + b * v] + d[b + a * v];
        times(true, false, v, m, m, wt, cmm, x);
        times(false, false, v, v, m, x, wt, d);
        var[i] = 0;
        for (size_t k = 0; k < v * v; k++)
            var[i] += area[k] * (c[k] + d[k]);
    }
    matcov_free(mc);
    double *all[] = {dplus, area, cmm, chol, ctt, ctm, b0, bs, wt, x, c, d};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    sys_free(&s);
    case_profile_free(&p);
}

typedef struct { /* what the cases share */
    sys s;
    profile p;
    ast_case *k;
    ast_scores *q;
} shared;

static shared all;

static int setup(void **state) {
    (void)state;
    make_system(NULL, &all.s, &all.p);
    case_ok(ast_case_init(&world, &all.s, FIXED, &all.p, &all.k));
    case_ok(ast_scores_init(&backend_cpu, 0, all.k, &all.q));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ast_scores_free(all.q);
    ast_case_free(all.k);
    sys_free(&all.s);
    case_profile_free(&all.p);
    return 0;
}

/* Bases of none to three stars, in and out of order, against the systems by themselves. */
static void test_variances(void **state) {
    (void)state;
    static const int base[][4] = {{0}, {4}, {2, 7}, {7, 2}, {8, 0, 5}};
    static const int nbase[] = {0, 1, 2, 2, 3};
    ast_worker *w;
    double var[STARS * TARGETS], own[TARGETS];
    int compared = 0;
    case_ok(ast_worker_init(all.q, 3, STARS, &w));
    for (size_t b = 0; b < sizeof nbase / sizeof *nbase; b++) {
        case_ok(ast_worker_run(w, base[b], nbase[b], 0, STARS, var));
        for (int k = 0; k < STARS; k += 2) {
            int star[STARS] = {-1, -1, -1, -1, -1};
            bool twice = false;
            for (int i = 0; i < nbase[b]; i++) {
                star[i] = base[b][i];
                twice = twice || base[b][i] == k;
            }
            star[nbase[b]] = k;
            if (twice) {
                assert_true(isnan(var[k * TARGETS]));
                continue;
            }
            by_itself(star, own);
            for (int t = 0; t < TARGETS; t++, compared++) {
                assert_true(own[t] > 0);
                if (fabs(var[k * TARGETS + t] / own[t] - 1) > 1e-8)
                    fail_msg("base %zu star %d target %d: %.12g, by itself %.12g", b, k, t,
                             var[k * TARGETS + t], own[t]);
            }
        }
    }
    assert_true(compared > 50);
    ast_worker_free(w);
}

/* `area` against sums over the same points, one by one, means left out. */
static void test_area(void **state) {
    (void)state;
    enum { ACROSS = 4 }; /* points of a pitch */
    sys s;
    profile p;
    make_system(NULL, &s, &p);
    const int n = s.dm.nssp, v = s.dm.nact;
    const double x0 = 1 / sqrt(-2 * log(s.dm.coupling));
    double *area = calloc((size_t)(v * v), 8), *one = calloc((size_t)v, 8),
           *mean = calloc((size_t)v, 8), *square = calloc((size_t)(v * v), 8), count = 0;
    case_ok(ast_pupil_area(&s, area));
    for (int j = 0; j < ACROSS * n; j++)
        for (int i = 0; i < ACROSS * n; i++) {
            const double x = (i + 0.5) / ACROSS, y = (j + 0.5) / ACROSS,
                         r = hypot(x - n / 2.0, y - n / 2.0);
            if (r >= n / 2.0 || r < s.obs * n / 2.0)
                continue;
            for (int a = 0; a < v; a++) {
                const int at = s.dm.act[a];
                one[a] = exp(-pow(hypot(x - at % (n + 1), y - (double)(at / (n + 1))) / x0, 2) / 2);
                mean[a] += one[a];
            }
            cblas_dsyr(CblasColMajor, CblasLower, v, 1, one, 1, square, v);
            count++;
        }
    for (int b = 0; b < v; b++)
        for (int a = b; a < v; a++) {
            const double expected = (square[a + b * v] - mean[a] * mean[b] / count) / count,
                         scale = square[v / 2 * (v + 1)] / count;
            if (!(fabs(area[a + b * v] - expected) < 1e-12 * scale))
                fail_msg("area of %d and %d: %g, not %g (%g)", a, b, area[a + b * v], expected,
                         scale);
        }
    free(area), free(one), free(mean), free(square);
    sys_free(&s);
    case_profile_free(&p);
}

/* What is wanted of an asterism, without what the searches share. */
static double value_of(const want *w, ast_worker *one, const int *star, int n) {
    double var[TARGETS], scratch[TARGETS];
    case_ok(ast_search_one(one, star, n, var));
    for (int t = 0; t < TARGETS; t++)
        var[t] = want_guess(w, var[t]);
    return want_value(w, TARGETS, var, scratch);
}

/* The figures of all combinations, one after another, without what the search shares. */
static void brute_force(int choose, const want *w, ast_combo *best) {
    ast_worker *one;
    best->guess = NAN;
    case_ok(ast_worker_init(all.q, choose - 1, 1, &one));
    for (int mask = 0; mask < 1 << STARS; mask++) {
        int star[AST_MOST], n = 0;
        for (int i = 0; i < STARS; i++)
            if (mask & (1 << i))
                star[n++] = i;
        if (n != choose)
            continue;
        const double value = value_of(w, one, star, n);
        if (isnan(best->guess) || (want_larger(w) ? value > best->guess : value < best->guess)) {
            best->guess = value;
            memcpy(best->star, star, sizeof star);
        }
    }
    ast_worker_free(one);
}

static void test_searches(void **state) {
    (void)state;
    static const char *const wanted[] = {"mean strehl at 2.2um", "min strehl at 2.2um", "max rms",
                                         "p50 rms"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (int choose = 1; choose <= 4; choose++) {
            want w;
            ast_combo best = {0};
            ast_list every, greedy;
            double tried;
            case_ok(want_parse(wanted[i], &w));
            w.lambda = 2.2e-6;
            const ast_search s = {.choose = choose, .w = &w, .keep = 20};
            brute_force(choose, &w, &best);
            case_ok(ast_search_all(&world, all.q, all.k, &s, 2, &every));
            case_ok(ast_search_exchange(&world, all.q, all.k, &s, 2, 3, &tried, &greedy));
            const int expected = (int)ast_combinations(STARS, choose);
            assert_int_equal(every.n, expected < 20 ? expected : 20);
            assert_memory_equal(every.v[0].star, best.star, (size_t)choose * sizeof(int));
            assert_memory_equal(greedy.v[0].star, best.star, (size_t)choose * sizeof(int));
            assert_true(fabs(every.v[0].guess / best.guess - 1) < 1e-9);
            for (int k = 1; k < every.n; k++) /* in order, none twice */
                assert_true(want_larger(&w) ? every.v[k].guess <= every.v[k - 1].guess
                                            : every.v[k].guess >= every.v[k - 1].guess);
            ast_list_free(&every);
            ast_list_free(&greedy);
        }
}

/* The greedy search goes on until no exchange of one star makes it better, whatever is wanted. */
static void test_exchanges(void **state) {
    (void)state;
    static const char *const wanted[] = {"min strehl at 2.2um", "max rms", "mean rms"};
    int further = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (int choose = 2; choose <= 4; choose++) {
            want w;
            ast_list found;
            ast_worker *one;
            double tried;
            case_ok(want_parse(wanted[i], &w));
            w.lambda = 2.2e-6;
            const ast_search s = {.choose = choose, .w = &w, .keep = 1};
            case_ok(ast_search_exchange(&world, all.q, all.k, &s, 1, 0, &tried, &found));
            const double rounds = (tried - choose * STARS + choose * (choose - 1) / 2.0) /
                                  (choose * (STARS - choose + 1.0));
            assert_true(rounds >= 1 && rounds == floor(rounds));
            further += rounds > 1;
            case_ok(ast_worker_init(all.q, choose - 1, 1, &one));
            for (int out = 0; out < choose; out++)
                for (int in = 0; in < STARS; in++) {
                    int star[AST_MOST], n = 0;
                    bool twice = false;
                    for (int k = 0; k < choose; k++) {
                        twice = twice || found.v[0].star[k] == in;
                        if (k != out)
                            star[n++] = found.v[0].star[k];
                    }
                    star[n] = in;
                    if (twice)
                        continue;
                    const double other = value_of(&w, one, star, choose), best = found.v[0].guess;
                    if (want_larger(&w) ? other > best * (1 + 1e-8) : other < best * (1 - 1e-8))
                        fail_msg("%s, %d stars: %.12g, with star %d for %d %.12g", wanted[i],
                                 choose, best, in, found.v[0].star[out], other);
                }
            ast_worker_free(one);
            ast_list_free(&found);
        }
    assert_true(further > 1);
}

/* What has no figure is in no list; a list that is full keeps the better half, each asterism once.
 */
static void test_list(void **state) {
    (void)state;
    enum { ROOM = 10 };
    for (int larger = 0; larger < 2; larger++) {
        ast_list l = {.room = ROOM};
        int added = 0;
        case_ok(ALLOC(l.v, ROOM, "asterisms"));
        for (int i = 0; i < 40; i++) {
            const int star = i * 7 % 20; /* each twice; one in three without a figure */
            const double guess = star % 3 == 0 ? NAN : larger ? star : -star;
            ast_list_add(&l, &(ast_combo){.star = {star}, .guess = guess, .figure = NAN}, 1,
                         larger);
            added += !isnan(guess);
            assert_true(l.n > 0 ? l.n <= ROOM : added == 0);
            assert_true(added >= ROOM || l.n == added);
        }
        ast_list_sort(&l, 1, larger, false);
        static const int best[] = {19, 17, 16, 14, 13};
        assert_true(l.n >= 5);
        for (int i = 0; i < 5; i++)
            assert_int_equal(l.v[i].star[0], best[i]);
        ast_list_free(&l);
    }
}

/* Stars that may not be together are in no asterism. */
static void test_apart(void **state) {
    (void)state;
    bool apart[STARS * STARS];
    want w;
    ast_list found[2];
    double tried;
    case_ok(want_parse("mean rms", &w));
    for (int i = 0; i < STARS * STARS; i++)
        apart[i] = (i / STARS + i % STARS) % 2 == 1; /* an even and an odd one */
    const ast_search s = {.choose = 2, .w = &w, .keep = 50, .apart = apart};
    case_ok(ast_search_all(&world, all.q, all.k, &s, 1, &found[0]));
    case_ok(ast_search_exchange(&world, all.q, all.k, &s, 1, 2, &tried, &found[1]));
    assert_int_equal(found[0].n, 20);
    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < found[f].n; i++)
            assert_int_equal((found[f].v[i].star[0] + found[f].v[i].star[1]) % 2, 1);
        ast_list_free(&found[f]);
    }
    const ast_search three = {.choose = 3, .w = &w, .keep = 50, .apart = apart};
    assert_int_equal(ast_search_exchange(&world, all.q, all.k, &three, 1, 2, &tried, &found[0]),
                     MOAO_INPUT);
    assert_non_null(strstr(status_message(), "keep apart"));
    status_clear();
}

/* Images follow the variances: of the asterisms of two, the rms from the image is that of the pupil
 * to some per cent, and they rank alike. */
static void test_images(void **state) {
    (void)state;
    const psf_opts o = {.oversampling = 4, .span = 3, .weighted = true, .crop = 2};
    want w;
    ast_images *q;
    ast_worker *one;
    double value[TARGETS], var[TARGETS];
    case_ok(want_parse("mean rms at 2.2um", &w));
    case_ok(ast_images_init(all.k, &o, &all.p, 1e-9, &w, 2, &q));
    case_ok(ast_worker_init(all.q, 1, 1, &one));
    for (int a = 0; a < STARS; a += 2)
        for (int b = a + 1; b < STARS; b += 2) {
            const int star[] = {a, b};
            case_ok(ast_images_run(q, star, 2, value));
            case_ok(ast_search_one(one, star, 2, var));
            for (int t = 0; t < TARGETS; t++)
                if (fabs(value[t] * 1e-9 / sqrt(var[t]) - 1) > 0.12)
                    fail_msg("stars %d %d: %g nm from the image, %g over the pupil", a, b, value[t],
                             1e9 * sqrt(var[t]));
        }
    ast_worker_free(one);
    ast_images_free(q);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variances), cmocka_unit_test(test_area),
        cmocka_unit_test(test_list),      cmocka_unit_test(test_searches),
        cmocka_unit_test(test_exchanges), cmocka_unit_test(test_apart),
        cmocka_unit_test(test_images),
    };
    MPI_Init(&argc, &argv);
    if (comm_init(MPI_COMM_WORLD, &world) != MOAO_OK)
        return 1;
    int failed = cmocka_run_group_tests(tests, setup, teardown);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}
