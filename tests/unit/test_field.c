/* Nodes of a map and what is interpolated from them. */
#include "field/field.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ARCSEC (1 / ARCSEC_PER_RAD)

static sensor stars[2] = {{.lgs = false, .dir = {5 * ARCSEC, -7 * ARCSEC}}, {.lgs = true}};

/* A square of n x n targets of a side [arcsec], turned; or a line where ny is 1. */
static sys square(int nx, int ny, double side, double turn) {
    sys s = {.ntarget = nx * ny, .nsensor = 2, .sensors = stars};
    s.targets = calloc((size_t)s.ntarget, sizeof *s.targets);
    for (int i = 0; i < s.ntarget; i++) {
        const double x = (nx > 1 ? (i % nx) / (nx - 1.0) - 0.5 : 0) * side * ARCSEC,
                     y = (ny > 1 ? (i / nx) / (ny - 1.0) - 0.5 : 0) * side * ARCSEC;
        s.targets[i][0] = cos(turn) * x - sin(turn) * y;
        s.targets[i][1] = sin(turn) * x + cos(turn) * y;
    }
    return s;
}

static void make(const sys *s, double step, field *f) {
    if (field_init(s, NULL, step * ARCSEC, NULL, 0, f) != MOAO_OK)
        fail_msg("%s", status_message());
}

typedef double function(double x, double y);
static double cubic(double x, double y) {
    return 1 + 0.3 * x - 0.2 * y + 0.01 * x * y - 2e-3 * x * x * x + 1e-3 * x * y * y;
}
static double bell(double x, double y) {
    return exp(-(x * x + y * y) / (2 * 20 * 20));
}
static double cusp(double x, double y) {
    return bell(x, y) - 0.02 * pow(hypot(x - 6, y - 4), 5.0 / 3);
}

/* Largest difference at targets that no node computes. */
static double worst(const field *f, function *g) {
    field_weights w;
    double most = 0;
    assert_int_equal(field_interpolate(f, 0, -1, f->nwant, f->want, NULL, &w), MOAO_OK);
    for (int t = 0; t < f->nwant; t++) {
        double sum = 0, ones = 0;
        for (int k = w.first[t]; k < w.first[t + 1]; k++) {
            const double *at = f->node[w.node[k]].at;
            assert_true(field_is_source(&f->node[w.node[k]]));
            sum += w.w[k] * g(at[0] / ARCSEC, at[1] / ARCSEC);
            ones += w.w[k];
        }
        assert_true(fabs(ones - 1) < 1e-10);
        if (f->node_of[t] >= 0 && field_is_source(&f->node[f->node_of[t]]))
            assert_true(w.first[t + 1] == w.first[t] + 1 && w.node[w.first[t]] == f->node_of[t]);
        most = fmax(most, fabs(sum - g(f->want[t][0] / ARCSEC, f->want[t][1] / ARCSEC)));
    }
    field_weights_free(&w);
    return most;
}

/* Cubics are exact, also on a turned line and on a list without rows; half the step makes a smooth
 * function at least 5 times as exact. */
static void test_interpolation(void **state) {
    (void)state;
    sys s = square(21, 21, 50, 0), line = square(40, 1, 60, 0.4), turned = square(19, 19, 50, 0.3);
    field f;
    make(&s, 10, &f);
    assert_true(worst(&f, cubic) < 1e-8);
    const double coarse = worst(&f, bell);
    field_free(&f);
    make(&s, 5, &f);
    const double fine = worst(&f, bell);
    if (!(fine < coarse / 5 && coarse < 2e-2))
        fail_msg("errors %.2e of a step, %.2e of half of it", coarse, fine);
    field_free(&f);
    make(&line, 6, &f);
    assert_true(f.line && f.nnode < 40);
    assert_true(worst(&f, cubic) < 1e-8);
    field_free(&f);
    make(&turned, 8, &f);
    assert_true(worst(&f, cubic) < 1e-8);
    field_free(&f);
    free(s.targets);
    free(line.targets);
    free(turned.targets);
}

/* A lattice with one row more than the targets on every side, nodes about the natural star alone,
 * and at least 8 targets of all strata to compare with, the same every time. */
static void test_nodes(void **state) {
    (void)state;
    sys s = square(33, 33, 50, 0);
    field f, g;
    make(&s, 10, &f);
    make(&s, 10, &g);
    assert_int_equal(field_count(&f, NODE_LATTICE), 8 * 8);
    assert_in_range(field_count(&f, NODE_STAR), 3, 5);
    assert_int_equal(field_count(&f, NODE_CHECK), 8 + 2);
    assert_int_equal(f.nnode, g.nnode);
    int of[FIELD_STRATA] = {0};
    for (int i = 0; i < f.nnode; i++) {
        assert_memory_equal(f.node[i].at, g.node[i].at, sizeof f.node[i].at);
        if (f.node[i].kind == NODE_CHECK)
            of[f.stratum[f.node[i].target]]++;
        if (f.node[i].target >= 0)
            assert_int_equal(f.node_of[f.node[i].target], i);
    }
    assert_true(of[STRATUM_CENTRE] >= 2 && of[STRATUM_EDGE] >= 2 && of[STRATUM_STAR] >= 2);
    assert_true(field_pays(&f));
    field_free(&f);
    field_free(&g);
    const int exact[2] = {7, 500};
    assert_int_equal(field_init(&s, NULL, 10 * ARCSEC, exact, 2, &f), MOAO_OK);
    assert_int_equal(f.node[f.node_of[7]].kind, NODE_TARGET);
    assert_int_equal(f.node[f.node_of[500]].kind, NODE_TARGET);
    field_free(&f);
    make(&s, 1.5, &f);
    assert_false(field_pays(&f));
    field_free(&f);
    free(s.targets);
}

/* Largest error of the first comparisons, and how many targets are over the tolerance. */
typedef struct {
    double first;
    int over;
} outcome;

/* Compare, add nodes, until it holds; returns the rounds. tolerance 0: 1.5 times the largest error
 * of the first comparisons. */
static int certify(field *f, function *g, double tolerance, outcome *out) {
    *out = (outcome){0, 0};
    for (int round = 0; round < 20; round++) {
        field_weights w;
        field_check check[1024];
        int n = 0, added;
        double most = 0;
        assert_int_equal(field_interpolate(f, 0, -1, f->nwant, f->want, NULL, &w), MOAO_OK);
        out->over = 0;
        for (int t = 0; t < f->nwant; t++) {
            const int i = f->node_of[t];
            double sum = 0;
            for (int k = w.first[t]; k < w.first[t + 1]; k++)
                sum += w.w[k] *
                       g(f->node[w.node[k]].at[0] / ARCSEC, f->node[w.node[k]].at[1] / ARCSEC);
            sum -= g(f->want[t][0] / ARCSEC, f->want[t][1] / ARCSEC);
            out->over += i < 0 && fabs(sum) > tolerance;
            if (i >= 0 && f->node[i].kind == NODE_CHECK) {
                assert_true(n < 1024);
                check[n++] = (field_check){i, fabs(sum), w.power[t], fabs(sum)};
                most = fmax(most, fabs(sum));
            }
        }
        out->first = round == 0 ? most : out->first;
        tolerance = tolerance > 0 ? tolerance : 1.5 * most;
        field_errors(f, w.power, check, n);
        field_weights_free(&w);
        assert_int_equal(field_refine(f, 0, tolerance, check, n, &added), MOAO_OK);
        if (added == 0)
            return round;
    }
    return 20;
}

/* A smooth function holds at once; roughness at a place is found where a drawn target is near, and
 * nodes are added there until the error is within the tolerance; a function that is rough
 * everywhere makes every target a node. */
static void test_refine(void **state) {
    (void)state;
    sys s = square(33, 33, 50, 0);
    field f;
    outcome found;
    make(&s, 7, &f);
    assert_int_equal(certify(&f, bell, 2e-3, &found), 0);
    for (int t = 0; t < f.nwant; t++)
        assert_true((f.error[t] > 0) == (f.node_of[t] < 0) && f.error[t] < 1e-2);
    field_free(&f);
    make(&s, 7, &f);
    const int before = f.nnode;
    const int rounds = certify(&f, cusp, 2e-3, &found);
    if (!(rounds > 0 && rounds < 10 && f.nnode > before && f.nnode < f.nwant))
        fail_msg("%d rounds, %d nodes of %d", rounds, f.nnode, before);
    field_free(&f);
    free(s.targets);
}

/* As rough everywhere: plane waves of the length of some steps. */
static double waves(double x, double y) {
    double sum = 0;
    for (int i = 0; i < 60; i++) {
        const double k = 0.15 + 0.008 * i, turn = 2.4 * i;
        sum += pow(k, -3) * cos(k * (cos(turn) * x + sin(turn) * y) + 1.7 * i * i);
    }
    return 1e-3 * sum;
}

/* Comparisons that hold by a third of the tolerance leave next to nothing to be done, though larger
 * errors are expected elsewhere: some of those targets are compared. A tolerance that is missed
 * everywhere makes the field finer as a whole, in few rounds. Few targets are over it at the end.
 */
static void test_expected(void **state) {
    (void)state;
    sys s = square(49, 49, 150, 0);
    field f;
    outcome found;
    make(&s, 7, &f);
    const int before = f.nnode;
    int rounds = certify(&f, waves, 0, &found);
    if (!(rounds < 5 && f.nnode < 1.25 * before && found.over < 0.02 * f.nwant))
        fail_msg("%d rounds, %d nodes of %d, %d over", rounds, f.nnode, before, found.over);
    field_free(&f);
    make(&s, 7, &f);
    rounds = certify(&f, waves, found.first / 2, &found);
    if (!(rounds > 0 && rounds < 8 && f.nnode < f.nwant && found.over < 0.02 * f.nwant))
        fail_msg("%d rounds, %d nodes of %d, %d over", rounds, f.nnode, before, found.over);
    field_free(&f);
    free(s.targets);
}

/* Refines where one of the compared targets is over the tolerance by a factor and the others hold;
 * returns the nodes that are added, but for targets. */
static int refine_one(field *f, field_stratum stratum, double factor, int *held) {
    field_check check[64] = {{0}};
    int n = 0, failed = -1, added, count = 0;
    const int before = f->nnode;
    *held = 0;
    for (int i = 0; i < before; i++) {
        if (f->node[i].kind != NODE_CHECK)
            continue;
        const bool mine = f->stratum[f->node[i].target] == stratum, fails = mine && failed < 0;
        assert_true(n < 64);
        check[n++] = (field_check){i, fails ? factor * 1e-3 : 1e-4, 1, 0};
        failed = fails ? i : failed;
        *held += mine && !fails;
    }
    assert_int_equal(field_refine(f, 0, 1e-3, check, n, &added), MOAO_OK);
    for (int i = 0; i < before; i++) /* those that held are interpolated from, in that stratum */
        if (f->node[i].target >= 0 && f->stratum[f->node[i].target] == stratum)
            assert_true(f->node[i].kind != NODE_CHECK);
    for (int i = before; i < f->nnode; i++)
        count += f->node[i].kind == NODE_REFINED;
    return count;
}

/* The larger the error, the more nodes a cell gets at once. Targets that held beside one that
 * failed are interpolated from, and new ones are compared. */
static void test_size_of_error(void **state) {
    (void)state;
    sys s = square(49, 49, 100, 0);
    field f;
    int held, checks;
    make(&s, 10, &f);
    assert_int_equal(refine_one(&f, STRATUM_CENTRE, 1.5, &held), 1); /* in the middle */
    assert_true(held > 0);
    checks = 0;
    for (int i = 0; i < f.nnode; i++)
        checks += f.node[i].kind == NODE_CHECK && f.stratum[f.node[i].target] == STRATUM_CENTRE;
    assert_in_range(checks, 24, 25);
    field_free(&f);
    make(&s, 10, &f);
    assert_int_equal(refine_one(&f, STRATUM_CENTRE, 6, &held), 5); /* in those of the sides, too */
    field_free(&f);
    free(s.targets);
}

static double noise(double x, double y) {
    return fmod(fabs(sin(12.9898 * x + 78.233 * y) * 43758.5453), 1.0);
}

/* What no node lowers: all targets are computed besides the nodes up to there, and nodes that are
 * no targets leave after that reconstructor. */
static void test_rough(void **state) {
    (void)state;
    sys s = square(25, 25, 50, 0);
    field f;
    outcome found;
    make(&s, 7, &f);
    assert_true(certify(&f, noise, 1e-4, &found) < 20);
    for (int t = 0; t < f.nwant; t++)
        assert_true(f.node_of[t] >= 0);
    if (!(f.whole && f.nnode <= f.most + f.nwant))
        fail_msg("%d nodes for %d targets", f.nnode, f.nwant);
    assert_true(f.node[0].target < 0);
    field_leave(&f, 0, 1);
    for (int i = 0; i < f.nnode; i++) {
        assert_true(field_computes(&f, i, 0, -1));
        assert_true(field_computes(&f, i, 1, -1) == (f.node[i].target >= 0 || i == 1));
    }
    field_free(&f);
    free(s.targets);
}

/* Six exposures of a reconstructor whose layers are mixtures of two profiles. */
typedef struct {
    double h[2][3], L0[3], strength[6][3], time[6], tor[1];
    profile p[6];
    atmos a;
} night;

static void night_init(night *n) {
    static const double first[3] = {9, 2, 1}, second[3] = {1, 3, 4};
    *n = (night){.h = {{0, 6e3, 12e3}, {0, 6e3, 13e3}}, .L0 = {25, 25, 25}};
    for (int e = 0; e < 6; e++) {
        n->time[e] = 600 * e;
        for (int l = 0; l < 3; l++)
            n->strength[e][l] = first[l] + e / 5.0 * (second[l] - first[l]);
        n->p[e] = (profile){
            .time = 600 * e, .nlayer = 3, .h = n->h[0], .L0 = n->L0, .strength = n->strength[e]};
    }
    n->a = (atmos){6, n->p, NULL, 1, n->tor, 6, n->time};
}

/* The first and the last exposure have all nodes, of which the strengths of the others are
 * mixtures; these have a fraction, from which alone is interpolated there. */
static void test_follow(void **state) {
    (void)state;
    static night n;
    sys s = square(49, 49, 100, 0);
    const int exact[1] = {60}; /* next to coarse nodes */
    double computed = 0;
    field f;
    field_weights w;
    night_init(&n);
    assert_int_equal(field_init(&s, &n.a, 5 * ARCSEC, exact, 1, &f), MOAO_OK);
    assert_non_null(f.follow);
    assert_int_equal(field_whole_exposures(&f, &n.a), 2);
    assert_int_equal(f.follow[0].n, 0);
    assert_int_equal(f.follow[5].n, 0);
    for (int e = 0; e < 6; e++) {
        for (int i = 0; i < f.nnode; i++)
            computed += field_computes(&f, i, 0, e);
        for (int l = 0; l < 3 && f.follow[e].n > 0; l++) {
            double sum = 0;
            for (int b = 0; b < f.follow[e].n; b++)
                sum += f.follow[e].share[b] * n.strength[f.follow[e].base[b]][l];
            assert_true(fabs(sum - n.strength[e][l]) < 1e-6 * n.strength[e][l]);
        }
    }
    assert_true(computed == field_residuals(&f, &n.a) && computed < 3.5 * f.nnode);
    for (int i = 0; i < f.nnode; i++) {
        assert_true(i == 0 || f.node[i].fine >= f.node[i - 1].fine);
        assert_true(!f.node[i].fine || f.node[i].kind == NODE_LATTICE);
        assert_true(f.node[i].target < 0 || f.node_of[f.node[i].target] == i);
    }
    assert_false(f.node[f.node_of[60]].fine);
    assert_int_equal(field_interpolate(&f, 0, 1, f.nwant, f.want, NULL, &w), MOAO_OK);
    for (int k = 0; k < w.first[f.nwant]; k++)
        assert_false(f.node[w.node[k]].fine);
    field_weights_free(&w);
    field_free(&f);
    for (int e = 1; e < 6; e += 2) /* other layers: no exposure follows from another */
        n.p[e].h = n.h[1];
    assert_int_equal(field_init(&s, &n.a, 5 * ARCSEC, NULL, 0, &f), MOAO_OK);
    assert_null(f.follow);
    field_free(&f);
    free(s.targets);
}

/* An error in an exposure that follows: no node is added, those about it are computed in all
 * exposures, then all nodes. One that the others have too adds nodes. */
static void test_follow_fails(void **state) {
    (void)state;
    static night n;
    sys s = square(49, 49, 100, 0);
    night_init(&n);
    for (int both = 0; both < 2; both++) {
        field f;
        int added, at = 0;
        assert_int_equal(field_init(&s, &n.a, 5 * ARCSEC, NULL, 0, &f), MOAO_OK);
        const int before = f.nnode;
        while (f.node[at].kind != NODE_CHECK)
            at++;
        const field_check check = {at, 3e-3, 1, both ? 2.5e-3 : 5e-4};
        assert_int_equal(field_refine(&f, 0, 1e-3, &check, 1, &added), MOAO_OK);
        assert_true(added > 0 && (f.nnode > before) == (both == 1));
        assert_true(field_follows(&f, 0, 1));
        int fine = 0;
        for (int i = 0; i < before && !both; i++) {
            const double x = f.node[i].at[0] - f.node[at].at[0],
                         y = f.node[i].at[1] - f.node[at].at[1];
            assert_true(!f.node[i].fine || hypot(x, y) > f.step);
            fine += f.node[i].fine;
        }
        assert_true(both || fine > 0);
        if (!both) {
            assert_int_equal(field_refine(&f, 0, 1e-3, &check, 1, &added), MOAO_OK);
            assert_true(added > 0 && !field_follows(&f, 0, 1));
            for (int i = 0; i < before; i++)
                assert_true(field_computes(&f, i, 0, 1));
        }
        field_free(&f);
    }
    free(s.targets);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interpolation), cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_refine),        cmocka_unit_test(test_expected),
        cmocka_unit_test(test_size_of_error), cmocka_unit_test(test_rough),
        cmocka_unit_test(test_follow),        cmocka_unit_test(test_follow_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
