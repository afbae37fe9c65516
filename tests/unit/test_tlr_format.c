/* Tile low-rank matrices: order, kinds of tiles, errors of tiles against the singular values that
 * were dropped, products with vectors, statistics. */
#include "support/tlr_case.h"

enum { B = 32 };

/* --- order --- */

static void each_index_once(void **state) {
    (void)state;
    for (tlr_order order = TLR_KD; order <= TLR_NATURAL; order++)
        for (int64_t each = 1; each <= 2; each++) {
            int64_t start[5] = {0, 70, 70, 75, 200}; /* an empty group, one smaller than a tile */
            double x[200], y[200];
            tlr_layout l;
            char seen[400] = {0};
            for (int i = 0; i < 200; i++)
                x[i] = uniform(), y[i] = uniform();
            ok(tlr_layout_points(&(tlr_points){4, start, x, y, each}, B, order, &l));
            assert_int_equal(l.n, 200 * each);
            assert_int_equal(l.first[0], 0);
            assert_int_equal(l.first[l.nt], l.n);
            for (int64_t i = 0; i < l.n; i++) {
                assert_in_range(l.perm[i], 0, l.n - 1);
                assert_false(seen[l.perm[i]]++);
            }
            for (int64_t k = 0; k < l.nt; k++)
                assert_in_range(l.first[k + 1] - l.first[k], 1, B);
            tlr_layout_free(&l);
        }
}

/* Tiles do not span groups, and hold x and y of the same points. */
static void tiles_of_groups(void **state) {
    (void)state;
    int64_t start[4] = {0, 90, 95, 200};
    double x[200], y[200];
    for (int i = 0; i < 200; i++)
        x[i] = uniform(), y[i] = uniform();
    for (tlr_order order = TLR_KD; order <= TLR_NATURAL; order++) {
        tlr_layout l;
        int spanning = 0;
        ok(tlr_layout_points(&(tlr_points){3, start, x, y, 2}, B, order, &l));
        for (int64_t k = 0; k < l.nt; k++) {
            const int64_t half = (l.first[k + 1] - l.first[k]) / 2;
            int64_t first_group = -1;
            for (int64_t i = 0; i < half; i++) {
                const int64_t px = l.perm[l.first[k] + i], py = l.perm[l.first[k] + half + i];
                int64_t g = 0;
                while (px >= 2 * start[g + 1])
                    g++;
                assert_int_equal(py - px, start[g + 1] - start[g]);
                assert_in_range(px, 2 * start[g], start[g] + start[g + 1] - 1);
                spanning += first_group >= 0 && g != first_group;
                first_group = g;
            }
        }
        assert_int_equal(spanning, 0);
        tlr_layout_free(&l);
    }
}

/* Near points share a tile: its diagonal is far shorter than in the given order. */
static void tiles_are_small(void **state) {
    (void)state;
    double sum[TLR_NATURAL + 1] = {0};
    for (tlr_order order = TLR_KD; order <= TLR_NATURAL; order++) {
        points p = points_new(1024, B, order);
        for (int64_t k = 0; k < p.l.nt; k++) {
            double low[2] = {1, 1}, high[2] = {0, 0};
            for (int64_t i = p.l.first[k]; i < p.l.first[k + 1]; i++)
                for (int a = 0; a < 2; a++) {
                    low[a] = fmin(low[a], p.at[2 * i + a]);
                    high[a] = fmax(high[a], p.at[2 * i + a]);
                }
            sum[order] += hypot(high[0] - low[0], high[1] - low[1]) / (double)p.l.nt;
        }
        points_free(&p);
    }
    assert_true(sum[TLR_KD] < 0.4);
    assert_true(sum[TLR_NATURAL] > 1);
}

static void refused_layouts(void **state) {
    (void)state;
    int64_t start[2] = {0, 1}, back[3] = {0, 2, 1};
    double x[2] = {0}, bad[2] = {NAN};
    tlr_layout l;
    assert_int_equal(tlr_layout_points(&(tlr_points){1, start, x, x, 2}, 1, TLR_KD, &l),
                     MOAO_INPUT);
    assert_int_equal(tlr_layout_points(&(tlr_points){1, start, bad, x, 1}, 4, TLR_KD, &l),
                     MOAO_INPUT);
    assert_int_equal(tlr_layout_points(&(tlr_points){1, start, x, bad, 1}, 4, TLR_KD, &l),
                     MOAO_INPUT);
    bad[0] = INFINITY;
    assert_int_equal(tlr_layout_points(&(tlr_points){1, start, x, bad, 1}, 4, TLR_NATURAL, &l),
                     MOAO_INPUT);
    assert_int_equal(tlr_layout_points(&(tlr_points){2, back, x, x, 1}, 4, TLR_KD, &l), MOAO_INPUT);
    assert_int_equal(tlr_layout_points(&(tlr_points){-1, start, x, x, 1}, 4, TLR_KD, &l),
                     MOAO_INPUT);
    assert_int_equal(tlr_layout_plain(4, 0, &l), MOAO_INPUT);
    status_clear();
}

/* --- tiles --- */

/* A matrix with every kind of tile: tile (i, k) has singular values by its place. */
typedef struct {
    int64_t m, n;
    double *a;
} given;

static status give(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                   int64_t lda) {
    const given *g = arg;
    status st = be->copy(ctx, a, 8 * lda, g->a + i0 + j0 * g->m, 8 * g->m, 8 * ni, nj);
    return st == MOAO_OK ? be->sync(ctx) : st;
}

/* Value p of the kind: random (flat), Hilbert's, exponential, flat to half, rank 0, rank b, one
 * huge and one tiny, nothing above tau. */
static double value(int kind, int64_t p) {
    switch (kind) {
    case 0:
        return 1;
    case 1:
        return pow(0.03, (double)p);
    case 2:
        return pow(0.5, (double)p);
    case 3:
        return p < B / 2 - 1;
    case 4:
        return 0;
    case 5:
        return 1 / (1 + (double)p);
    case 6:
        return p == 0 ? 1e3 : p == 1 ? 1e-8 : 0;
    default:
        return p == 0 ? 0.9e-3 : 0;
    }
}
enum { KINDS = 8 };

/* Orthonormal columns. */
static double *frame(int64_t m, int64_t r) {
    double *q = noise(m * r);
    for (int64_t j = 0; j < r; j++)
        for (int twice = 0; twice < 2; twice++) {
            for (int64_t k = 0; k < j; k++) {
                double s = 0;
                for (int64_t i = 0; i < m; i++)
                    s += q[i + k * m] * q[i + j * m];
                for (int64_t i = 0; i < m; i++)
                    q[i + j * m] -= s * q[i + k * m];
            }
            const double norm = distance(q + j * m, NULL, m);
            for (int64_t i = 0; i < m; i++)
                q[i + j * m] /= norm;
        }
    return q;
}

static void put_tile(given *g, const tlr_layout *r, const tlr_layout *c, int64_t i, int64_t k) {
    const int64_t m = r->first[i + 1] - r->first[i], n = c->first[k + 1] - c->first[k],
                  s = m < n ? m : n;
    double *u = frame(m, s), *v = frame(n, s);
    for (int64_t p = 0; p < s; p++)
        for (int64_t x = 0; x < m; x++)
            u[x + p * m] *= value((int)(i + k) % KINDS, p);
    product_host('N', 'T', m, n, s, 1, u, m, v, n, 0, g->a + r->first[i] + c->first[k] * g->m,
                 g->m);
    free(u), free(v);
}

static given rectangle(const tlr_layout *r, const tlr_layout *c) {
    given g = {r->n, c->n, malloc(sizeof(double) * (size_t)(r->n * c->n + 1))};
    for (int64_t i = 0; i < r->nt; i++)
        for (int64_t k = 0; k < c->nt; k++)
            put_tile(&g, r, c, i, k);
    return g;
}

/* What is dropped with r columns, of the tile's values. */
static double tail(int kind, int64_t r, int64_t s) {
    double sum = 0;
    for (int64_t p = r; p < s; p++)
        sum += value(kind, p) * value(kind, p);
    return sqrt(sum);
}

/* Samples miss rest^2 <= BATCH_ARA_SHARE tau^2, and the cut of what they found, whose values
 * are not above those of the tile, is the least rank that leaves at most tau^2 - rest^2: with a
 * column less more than half of tau is left, and the error is that of the cut and the rest. */
static void one_tile(const given *g, const double *got, const tlr *a, const tlr_layout *r,
                     const tlr_layout *c, int64_t i, int64_t k, double tau, int64_t *kinds) {
    const int64_t m = r->first[i + 1] - r->first[i], n = c->first[k + 1] - c->first[k],
                  s = m < n ? m : n;
    const int kind = (int)(i + k) % KINDS;
    const tlr_tile *t = tlr_tile_at(a, i, k);
    const double rounding = 1e-14 * tail(kind, 0, s);
    const double missed = sqrt(BATCH_ARA_SHARE), left = 0.999 * sqrt(1 - BATCH_ARA_SHARE);
    double error = 0;
    for (int64_t y = c->first[k]; y < c->first[k + 1]; y++)
        for (int64_t x = r->first[i]; x < r->first[i + 1]; x++)
            error += pow(got[x + y * g->m] - g->a[x + y * g->m], 2);
    error = sqrt(error);
    assert_true(error <= tau + rounding);
    kinds[t->kind]++;
    assert_true(fabs(t->dropped - error) <= 1e-6 * tau + rounding);
    if (t->kind == TLR_DENSE) {
        assert_true(error == 0 && tail(kind, s / 2, s) > left * tau); /* needs more than the cut */
    } else {
        assert_true(t->rank == 0 || tail(kind, t->rank - 1, s) > left * tau);
        assert_true(error <= hypot(tail(kind, t->rank, s), missed * tau) + rounding);
    }
}

/* The worst tile counts, not the mean. */
static void tile_errors(void **state) {
    (void)state;
    tlr_layout r, c;
    int64_t kinds[3] = {0};
    const double tau = 1e-3;
    ok(tlr_layout_plain(9 * B + 5, B, &r));
    ok(tlr_layout_plain(6 * B + 1, B, &c));
    given g = rectangle(&r, &c);
    tlr_options o = small_options(tau);
    tlr *a;
    o.norms = true;
    ok(tlr_build(be, ctx, &r, &c, give, &g, &o, &a));
    double *got = expanded(a, r.n, c.n);
    for (int64_t i = 0; i < r.nt; i++)
        for (int64_t k = 0; k < c.nt; k++)
            one_tile(&g, got, a, &r, &c, i, k, tau, kinds);
    assert_true(kinds[TLR_EMPTY] > 0 && kinds[TLR_LOWRANK] > 0 && kinds[TLR_DENSE] > 0);
    assert_null(tlr_tile_at(a, r.nt, 0));
    tlr_stats s;
    tlr_statistics(a, &s);
    assert_int_equal(s.empty, kinds[TLR_EMPTY]);
    assert_int_equal(s.lowrank, kinds[TLR_LOWRANK]);
    assert_int_equal(s.dense, kinds[TLR_DENSE]);
    double *difference = malloc(sizeof(double) * (size_t)(r.n * c.n));
    memcpy(difference, g.a, sizeof(double) * (size_t)(r.n * c.n));
    assert_true(fabs(s.dropped - distance(difference, got, r.n * c.n)) < 1e-3 * s.dropped + 1e-6);
    free(difference), free(got), free(g.a);
    tlr_close(a);
    tlr_layout_free(&r), tlr_layout_free(&c);
}

/* Ranks of a fixed case, to one. */
static void ranks_pinned(void **state) {
    (void)state;
    tlr_layout r, c;
    ok(tlr_layout_plain(KINDS * B, B, &r));
    ok(tlr_layout_plain(B, B, &c));
    given g = rectangle(&r, &c);
    tlr_options o = small_options(1e-3);
    tlr *a;
    ok(tlr_build(be, ctx, &r, &c, give, &g, &o, &a));
    /* 0.03^2 is below 1e-3; 2^-10 with its tail is above it; tails of 1 / (1 + p) never are below
     */
    const int rank[KINDS] = {B, 2, 11, B / 2 - 1, 0, B, 1, 0};
    for (int k = 0; k < KINDS; k++)
        assert_true(abs(tlr_tile_at(a, k, 0)->rank - rank[k]) <= (k == 2));
    free(g.a);
    tlr_close(a);
    tlr_layout_free(&r), tlr_layout_free(&c);
}

/* --- products with vectors --- */

static void apply_case(const tlr *a, const double *f, int64_t m, int64_t n, char side, char trans,
                       int64_t v, double alpha, double beta) {
    const int64_t rows = trans == 'N' ? m : n, cols = trans == 'N' ? n : m; /* of op(A) */
    const int64_t in = side == 'L' ? cols : rows, out = side == 'L' ? rows : cols;
    const int64_t ldx = (side == 'L' ? in : v) + 1, ldy = (side == 'L' ? out : v) + 2;
    const int64_t nx = ldx * (side == 'L' ? v : in), ny = ldy * (side == 'L' ? v : out);
    double *x = noise(nx), *y = noise(ny), *there_x = up(x, nx), *there_y = up(beta ? y : NULL, ny);
    ok(tlr_apply(a, side, trans, v, alpha, there_x, ldx, beta, there_y, ldy));
    double *got = down(there_y, ny), worst = 0;
    if (side == 'L')
        product_host(trans, 'N', rows, v, cols, alpha, f, m, x, ldx, beta, y, ldy);
    else
        product_host('N', trans, v, cols, rows, alpha, x, ldx, f, m, beta, y, ldy);
    for (int64_t j = 0; j < ny / ldy; j++)
        for (int64_t i = 0; i < ldy - 2; i++)
            worst = fmax(worst, isnan(got[i + j * ldy]) ? INFINITY
                                                        : fabs(got[i + j * ldy] - y[i + j * ldy]));
    assert_true(worst < 1e-12 * (double)(m + n));
    be->release(ctx, there_x), be->release(ctx, there_y);
    free(x), free(y), free(got);
}

static void apply_all(const tlr *a, int64_t m, int64_t n) {
    double *f = expanded(a, m, n);
    for (int64_t v = 1; v < 80; v *= 6)
        for (int c = 0; c < 4; c++)
            for (int scale = 0; scale < 3; scale++)
                apply_case(a, f, m, n, "LR"[c % 2], "NT"[c / 2], v, scale == 1 ? 0 : 1.5,
                           scale == 2 ? 0 : -0.5);
    free(f);
}

static void apply_rectangle(void **state) {
    (void)state;
    points p = points_new(200, B, TLR_KD);
    tlr_layout r, c;
    ok(tlr_layout_plain(5 * B + 7, B, &r));
    ok(tlr_layout_plain(4 * B + 1, B, &c));
    for (int64_t cut = 0; cut <= B; cut += B / 4) {
        tlr_options o = small_options(1e-4);
        tlr *a;
        o.cut = cut;
        ok(tlr_build(be, ctx, &r, &c, fill, &p, &o, &a));
        apply_all(a, r.n, c.n);
        tlr_close(a);
    }
    points_free(&p);
    tlr_layout_free(&r), tlr_layout_free(&c);
}

static void apply_symmetric(void **state) {
    (void)state;
    points p = points_new(230, B, TLR_KD);
    for (int64_t cut = 0; cut <= B; cut += B / 4) {
        tlr_options o = small_options(1e-4);
        tlr *a;
        o.cut = cut;
        ok(tlr_build(be, ctx, &p.l, NULL, fill, &p, &o, &a));
        double *f = expanded(a, p.n, p.n), *exact = dense(&p, 0, p.n, 0, p.n);
        assert_true(distance(f, exact, p.n * p.n) <= 1e-4 * (double)p.l.nt);
        for (int64_t i = 0; i < p.n; i++)
            for (int64_t j = 0; j < i; j++)
                assert_true(f[i + j * p.n] == f[j + i * p.n]);
        apply_all(a, p.n, p.n);
        free(f), free(exact);
        tlr_close(a);
    }
    points_free(&p);
}

static void apply_factor(void **state) {
    (void)state;
    points p = points_new(230, B, TLR_KD);
    for (int64_t cut = 0; cut <= B; cut += B / 4) {
        tlr_options o = small_options(1e-4);
        tlr_source from = {.layout = &p.l, .fill = fill, .arg = &p};
        tlr *l;
        o.cut = cut;
        ok(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL));
        apply_all(l, p.n, p.n);
        tlr_close(l);
    }
    points_free(&p);
}

/* --- copies, and what is refused --- */

static void copies(void **state) {
    (void)state;
    points p = points_new(200, B, TLR_KD);
    tlr_layout r, c;
    ok(tlr_layout_plain(5 * B + 7, B, &r));
    ok(tlr_layout_plain(4 * B + 1, B, &c));
    tlr_options o = small_options(1e-4);
    tlr *a, *b, *t;
    o.cut = 10;
    ok(tlr_build(be, ctx, &r, &c, fill, &p, &o, &a));
    ok(tlr_copy(a, 'N', &b));
    ok(tlr_copy(a, 'T', &t));
    double *fa = expanded(a, r.n, c.n), *fb = expanded(b, r.n, c.n), *ft = expanded(t, c.n, r.n);
    assert_memory_equal(fa, fb, sizeof(double) * (size_t)(r.n * c.n));
    for (int64_t i = 0; i < r.n; i++)
        for (int64_t j = 0; j < c.n; j++)
            assert_true(fabs(fa[i + j * r.n] - ft[j + i * c.n]) < 1e-13);
    free(fa), free(fb), free(ft);
    tlr_close(a), tlr_close(b), tlr_close(t);
    ok(tlr_build(be, ctx, &p.l, NULL, fill, &p, &o, &a));
    assert_int_equal(tlr_copy(a, 'T', &t), MOAO_INPUT);
    assert_int_equal(tlr_apply(a, 'X', 'N', 1, 1, NULL, p.n, 0, NULL, p.n), MOAO_INPUT);
    assert_int_equal(tlr_apply(a, 'L', 'N', 1, 1, NULL, p.n - 1, 0, NULL, p.n), MOAO_INPUT);
    status_clear();
    tlr_close(a);
    points_free(&p);
    tlr_layout_free(&r), tlr_layout_free(&c);
}

static void refused_matrices(void **state) {
    (void)state;
    points p = points_new(100, B, TLR_KD);
    tlr *a;
    tlr_options o = small_options(-1);
    assert_int_equal(tlr_build(be, ctx, &p.l, NULL, fill, &p, &o, &a), MOAO_INPUT);
    assert_null(a);
    o = small_options(NAN);
    assert_int_equal(tlr_build(be, ctx, &p.l, NULL, fill, &p, &o, &a), MOAO_INPUT);
    o = small_options(1);
    o.cut = 513;
    assert_int_equal(tlr_build(be, ctx, &p.l, NULL, fill, &p, &o, &a), MOAO_INPUT);
    o = small_options(1e-3);
    p.bad_i = 99, p.bad_j = 1;
    status_clear();
    assert_int_equal(tlr_build(be, ctx, &p.l, NULL, fill, &p, &o, &a), MOAO_NUMERIC);
    assert_non_null(strstr(status_message(), "not finite"));
    assert_null(a);
    status_clear();
    points_free(&p);
}

/* A matrix of nothing, and of one entry. */
static void tiny(void **state) {
    (void)state;
    for (int64_t n = 0; n < 2; n++) {
        points p = points_new(100, B, TLR_KD);
        tlr_layout l;
        tlr_options o = small_options(1e-3);
        tlr *a;
        tlr_stats s;
        ok(tlr_layout_plain(n, B, &l));
        ok(tlr_build(be, ctx, &l, NULL, fill, &p, &o, &a));
        tlr_statistics(a, &s);
        assert_int_equal(s.tiles, 0);
        double *f = expanded(a, n, n);
        assert_true(n == 0 || f[0] == 1 + p.nugget);
        free(f);
        tlr_close(a);
        tlr_layout_free(&l);
        points_free(&p);
    }
}

/* With the width that is the library's choice a matrix of less than 2,048 rows is compressed. */
static void default_width(void **state) {
    points p = points_new(1024, 64, TLR_KD);
    tlr_stats s;
    tlr *a;
    (void)state;
    ok(tlr_build(be, ctx, &p.l, NULL, fill, &p, &(tlr_options){.tau = 1e-4, .cut = -1}, &a));
    tlr_statistics(a, &s);
    assert_true(s.lowrank > 0 && s.bytes < 0.7 * s.bytes_dense);
    tlr_close(a);
    points_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_index_once),  cmocka_unit_test(tiles_of_groups),
        cmocka_unit_test(tiles_are_small),  cmocka_unit_test(refused_layouts),
        cmocka_unit_test(tile_errors),      cmocka_unit_test(ranks_pinned),
        cmocka_unit_test(apply_rectangle),  cmocka_unit_test(apply_symmetric),
        cmocka_unit_test(apply_factor),     cmocka_unit_test(copies),
        cmocka_unit_test(refused_matrices), cmocka_unit_test(tiny),
        cmocka_unit_test(default_width),
    };
    return run_on_backends(&(backend_tests){tests, sizeof tests / sizeof *tests, chosen, NULL});
}
