/* Recompression of sums as a call: what it names and leaves alone, sizes and cuts of each matrix,
 * factors that it must not read, repeatable bits, many matrices; and the calls of the other
 * low-rank routines that their own tests leave out. One body for every backend (MOAO_TEST_BACKEND).
 */
#include "support/lowrank_case.h"

/* --- a call of recompress */
typedef struct {
    backend_type t;
    char job;
    int64_t count, m, n, k, k2;
    double beta, alpha;
    batch_cut cut;
    int layout;
    bool varied, least; /* sizes of each matrix; only the workspace of one matrix */
    uint64_t from;      /* seed of the first matrix, */
    int64_t first;      /* which is that of a larger batch */
    /* built */
    int64_t *size[4]; /* m, n, k, k2 of each */
    batch_dim dim[4];
    operand f[4]; /* U, V, U2, V2 */
    int64_t *rank;
    int *info;
    void *drank, *dinfo, *work;
} sum;

static sum plain_sum(int64_t m, int64_t n, int64_t k, int64_t k2) {
    sum q = {.t = BACKEND_D, .job = 'L', .count = 3, .m = m, .n = n, .k = k, .k2 = k2};
    q.beta = 1, q.alpha = -0.5, q.from = 77, q.layout = (int)((m + n) % LAYOUTS);
    q.cut = (batch_cut){.tol = 1e-6, .kind = 'R', .norm = 'F', .most = k + k2};
    return q;
}

/* Matrix b: columns that shrink, so that there is something to cut; the same wherever it stands. */
static void fill_factors(sum *q, int64_t b) {
    seed = q->from + 1000 * (uint64_t)(q->first + b);
    for (int p = 0; p < 4; p++)
        for (int64_t j = 0; j < q->size[2 + p / 2][b]; j++)
            for (int64_t i = 0; i < q->size[p % 2][b]; i++)
                set(&q->f[p], b, i, j, noise() * (p % 2 ? 1 : pow(10, -(double)j / 2)));
}

static void sum_build(sum *q) {
    const int64_t most[] = {q->m, q->n, q->k, q->k2};
    const size_t len = sizeof(int64_t) * (size_t)(q->count + 1);
    seed = 5;
    for (int s = 0; s < 4; s++) {
        q->size[s] = calloc(1, len);
        for (int64_t b = 0; b < q->count; b++)
            q->size[s][b] = q->varied && b > 0 ? some(most[s]) : most[s];
    }
    for (int p = 0; p < 4; p++) {
        int64_t *cols = malloc(len);
        for (int64_t b = 0; b < q->count; b++)
            cols[b] = p < 2 && q->cut.most > q->size[2][b] ? q->cut.most : q->size[2 + p / 2][b];
        q->f[p] = operand_new(q->t, q->count, q->size[p % 2], cols, q->layout);
        free(cols);
    }
    for (int64_t b = 0; b < q->count; b++)
        fill_factors(q, b);
    q->rank = malloc(len), q->info = malloc(sizeof(int) * (size_t)(q->count + 1));
    for (int64_t b = 0; b < q->count; b++)
        q->rank[b] = -77, q->info[b] = -77;
}

/* Sends what was built, calls, and brings all back. */
static void sum_run(sum *q) {
    const int64_t most[] = {q->m, q->n, q->k, q->k2};
    const float f[2] = {(float)q->beta, (float)q->alpha};
    const double d[2] = {q->beta, q->alpha};
    const bool wide = q->t == BACKEND_D;
    size_t lwork = be->lowrank->workspace(BATCH_RECOMPRESS, q->t, q->least ? 1 : q->count, q->m,
                                          q->n, q->k + q->k2);
    for (int s = 0; s < 4; s++)
        q->dim[s] = (batch_dim){
            most[s],
            q->varied ? device_copy(q->size[s], sizeof(int64_t) * (size_t)q->count) : NULL};
    for (int p = 0; p < 4; p++)
        send(&q->f[p]);
    q->drank = device_copy(q->rank, sizeof(int64_t) * (size_t)q->count);
    q->dinfo = device_copy(q->info, sizeof(int) * (size_t)q->count);
    must(be->alloc(ctx, lwork + 1, &q->work));
    must(be->lowrank->recompress(ctx, q->t, q->job, &q->cut, q->count, q->dim[0], q->dim[1],
                                 wide ? (const void *)d : f, q->dim[2], q->f[0].m, q->f[1].m,
                                 wide ? (const void *)(d + 1) : f + 1, q->dim[3], q->f[2].m,
                                 q->f[3].m, q->drank, q->dinfo, q->work, lwork));
    for (int p = 0; p < 4; p++)
        fetch(&q->f[p]);
    bring(q->rank, q->drank, q->count * (int64_t)sizeof(int64_t));
    bring(q->info, q->dinfo, q->count * (int64_t)sizeof(int));
}

static void sum_free(sum *q) {
    for (int s = 0; s < 4; s++) {
        be->release(ctx, (void *)q->dim[s].each);
        free(q->size[s]), operand_free(&q->f[s]);
    }
    be->release(ctx, q->drank), be->release(ctx, q->dinfo), be->release(ctx, q->work);
    free(q->rank), free(q->info);
}

/* Factors times their transposes, of the columns of matrix b: what job promises. */
static void job_right(sum *q, int64_t b) {
    const int64_t r = q->rank[b];
    const real allowed = 4 * (real)eps_of(q->t) * (real)(q->k + q->k2 + 4);
    real *g[2];
    for (int p = 0; p < 2; p++) {
        g[p] = calloc((size_t)(r * r + 1), sizeof(real));
        for (int64_t x = 0; x < r * r; x++)
            for (int64_t i = 0; i < q->size[p][b]; i++)
                g[p][x] += (real)get(&q->f[p], b, i, x % r) * get(&q->f[p], b, i, x / r);
    }
    for (int64_t x = 0; x < r * r; x++) {
        const real scale = sqrtl(g[0][0] * g[1][0]); /* largest singular value */
        if (q->job != 'B')
            assert_true(fabsl(g[q->job == 'R'][x] - (x % r == x / r)) <= allowed);
        else if (x % r == x / r) { /* both carry the square root; a Gram matrix squares the range */
            const real gap = fabsl(g[0][x] - g[1][x]),
                       most = 1e-3L * g[0][x] + 10 * allowed * scale * (1 + scale / g[0][x] / 64);
            if (!(gap <= most))
                fail_msg("matrix %d, column %d of %d: %Lg and %Lg, apart by %Lg of %Lg", (int)b,
                         (int)(x % r), (int)r, g[0][x], g[1][x], gap, most);
        }
    }
    free(g[0]), free(g[1]);
}

/* Error of every matrix, and that nothing else was written. */
static void sum_right(sum *q) {
    for (int64_t b = 0; b < q->count; b++) {
        const int64_t m = q->size[0][b], n = q->size[1][b];
        double *a = calloc((size_t)(m * n + 1), sizeof *a);
        for (int64_t x = 0; x < m * n; x++) {
            real s = 0;
            for (int64_t j = 0; j < q->size[2][b] && q->beta != 0; j++)
                s += (real)q->beta * was(&q->f[0], b, x % m, j) * was(&q->f[1], b, x / m, j);
            for (int64_t j = 0; j < q->size[3][b] && q->alpha != 0; j++)
                s += (real)q->alpha * was(&q->f[2], b, x % m, j) * was(&q->f[3], b, x / m, j);
            a[x] = (double)s;
        }
        const double tol = q->cut.tol + 50 * eps_of(q->t) * (double)(q->k + q->k2 + 4);
        assert_int_equal(q->info[b], 0);
        assert_in_range(q->rank[b], 0, least_of(least_of(m, n), q->size[2][b] + q->size[3][b]));
        for (int64_t j = 0; j < q->rank[b]; j++)
            for (int p = 0; p < 2; p++)
                for (int64_t i = 0; i < q->size[p][b]; i++)
                    allow(&q->f[p], b, i, j);
        assert_true(distance(a, m, n, &q->f[0], &q->f[1], NULL, b, q->rank[b]) <=
                    1.001L * tol * frobenius(m * n, a));
        job_right(q, b);
        free(a);
    }
    for (int p = 0; p < 4; p++)
        assert_int_equal(trespasses(&q->f[p]), 0);
}

/* Matrix b of both has the same bits. */
static void same_result(sum *x, int64_t b, sum *y, int64_t c) {
    assert_int_equal(x->rank[b], y->rank[c]);
    assert_int_equal(x->info[b], y->info[c]);
    for (int p = 0; p < 2; p++)
        for (int64_t j = 0; j < x->rank[b]; j++)
            for (int64_t i = 0; i < x->size[p][b]; i++) {
                const double one = get(&x->f[p], b, i, j), other = get(&y->f[p], c, i, j);
                assert_memory_equal(&one, &other, sizeof one);
            }
}

/* Few and many columns: what goes by Gram matrices, and by reflectors. */
static const int64_t shapes[][4] = {
    {20, 16, 4, 5}, {9, 40, 7, 6}, {70, 64, 16, 16}, {60, 70, 30, 20}, {100, 90, 45, 40}};
static sum shape(size_t i) {
    return plain_sum(shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
}

/* Values equal or apart by roundings: only the span of their vectors is determined. [D 0; 0 0] from
 * I and D (a second half of 1e-4), or D = I from R and R^-T, R = I + a superdiagonal of 1/2. */
static double equal_entry(bool diagonal, bool right, int64_t k, int64_t i, int64_t at) {
    if (diagonal)
        return i != at ? 0 : right && at >= k ? 1e-4 * (1 + 1e-15 * (double)(at % 3)) : 1;
    if (right)
        return i < at || i >= 2 * k ? 0 : pow(-0.5, (double)(i - at));
    return (i == at) + 0.5 * (i + 1 == at);
}
static void values_close_together(void **state) {
    (void)state;
    for (int v = 0; v < 12; v++) {
        sum q = plain_sum(66, 70, 15 - v / 6 * 6, 15 - v / 6 * 6);
        q.alpha = 1, q.job = "LRB"[v % 3], q.t = v % 4 == 3 ? BACKEND_S : BACKEND_D;
        q.cut.tol = v % 2 ? 1e-3 : 1e-5, q.cut.norm = v % 3 ? 'F' : '2';
        sum_build(&q);
        for (int64_t p = 0; p < 4 * q.count; p++)
            for (int64_t e = 0; e < q.k * q.size[p % 2][p / 4]; e++)
                set(&q.f[p % 4], p / 4, e / q.k, e % q.k,
                    equal_entry(v % 6 < 4, p % 2, q.k, e / q.k, e % q.k + p % 4 / 2 * q.k));
        sum_run(&q), sum_right(&q);
        assert_int_equal(q.rank[0], v % 6 < 4 && v % 2 ? q.k : 2 * q.k);
        sum_free(&q);
    }
}

static void each_has_its_sizes(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int v = 0; v < 6; v++) {
            sum q = shape(i);
            q.varied = true, q.count = 6, q.layout = v % LAYOUTS, q.job = "LRB"[v % 3];
            q.t = v < 3 ? BACKEND_D : BACKEND_S, q.cut.tol = v < 3 ? 1e-6 : 1e-3;
            sum_build(&q), sum_run(&q), sum_right(&q), sum_free(&q);
        }
}

/* A factor of 0: what it multiplies may be anything. Both 0: nothing is left. */
static void zero_factors_are_not_read(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int v = 0; v < 4; v++) {
            sum q = shape(i);
            q.t = v & 1 ? BACKEND_S : BACKEND_D, q.cut.tol = 1e-3;
            q.beta = 0, q.alpha = v & 2 ? 0 : 1;
            sum_build(&q);
            for (int p = 0; p < (v & 2 ? 4 : 2); p++)
                for (int64_t b = 0; b < q.count; b++)
                    for (int64_t x = 0; x < q.size[p % 2][b] * q.size[2 + p / 2][b]; x++)
                        set(&q.f[p], b, x % q.size[p % 2][b], x / q.size[p % 2][b], NAN);
            sum_run(&q), sum_right(&q);
            assert_true((q.rank[0] == 0) == (q.alpha == 0));
            sum_free(&q);
            q = shape(i);
            q.alpha = 0;
            sum_build(&q);
            set(&q.f[2], 1, 0, 0, NAN), set(&q.f[3], 1, 0, 0, INFINITY);
            sum_run(&q), sum_right(&q), sum_free(&q);
        }
}

/* NaN or infinity: named by the column of [U V U2 V2]; the neighbours have the bits that they have
 * without it. */
static void names_bad_columns(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (int p = 0; p < 4; p++)
            for (int v = 0; v < 4; v++) {
                sum q = shape(i), clean = q;
                q.t = clean.t = v & 1 ? BACKEND_S : BACKEND_D, q.cut.tol = clean.cut.tol = 1e-3;
                sum_build(&q), sum_build(&clean);
                const int64_t col = v & 2 ? q.size[2 + p / 2][1] - 1 : 0,
                              before[] = {0, q.k, 2 * q.k, 2 * q.k + q.k2};
                set(&q.f[p], 1, (3 * v + p) % q.size[p % 2][1], col, v & 1 ? NAN : -INFINITY);
                sum_run(&q), sum_run(&clean);
                assert_int_equal(q.info[1], before[p] + col + 1);
                assert_int_equal(q.rank[1], 0);
                same_result(&q, 0, &clean, 0), same_result(&q, 2, &clean, 2);
                assert_int_equal(trespasses(&q.f[2]) + trespasses(&q.f[3]), 0);
                sum_free(&q), sum_free(&clean);
            }
}

static void sizes_out_of_range(void **state) {
    (void)state;
    for (int s = 0; s < 4; s++)
        for (int v = 0; v < 2; v++) {
            sum q = plain_sum(20, 16, 4, 5);
            q.varied = true;
            sum_build(&q);
            const int64_t right = q.size[s][1];
            q.size[s][1] = v ? -1 : 21;
            sum_run(&q);
            assert_int_equal(q.info[1], -1);
            assert_int_equal(q.rank[1], 0);
            q.size[s][1] = right;
            for (int b = 0; b < 3; b += 2)
                for (int p = 0; p < 2; p++)
                    for (int64_t x = 0; x < q.size[p][b] * q.rank[b]; x++)
                        allow(&q.f[p], b, x % q.size[p][b], x / q.size[p][b]);
            for (int p = 0; p < 4; p++)
                assert_int_equal(trespasses(&q.f[p]), 0);
            sum_free(&q);
        }
}

static void nothing_to_add(void **state) {
    (void)state;
    const int64_t sizes[][4] = {{0, 9, 3, 3}, {9, 0, 3, 3}, {9, 9, 0, 0}, {0, 0, 0, 0}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        sum q = plain_sum(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
        sum_build(&q), sum_run(&q), sum_right(&q);
        assert_int_equal(q.rank[1], 0);
        sum_free(&q);
    }
}

/* Tolerance and largest rank of each matrix; absolute ones; too few columns. */
static void cuts_of_each(void **state) {
    (void)state;
    double tol[3] = {1e-1, 1e-6, 1e-6};
    int64_t most[3] = {9, 9, 3};
    for (int v = 0; v < 4; v++) {
        sum q = plain_sum(40, 30, 5, 5);
        q.job = "LRBL"[v], q.least = v & 1;
        void *dt = device_copy(tol, sizeof tol), *dm = device_copy(most, sizeof most);
        q.cut.tol_each = dt, q.cut.most_each = dm, q.cut.norm = v & 1 ? '2' : 'F';
        sum_build(&q), sum_run(&q);
        assert_true(q.rank[0] > 0 && q.rank[0] < q.rank[1] && q.rank[2] == 3);
        assert_int_equal(q.info[0], 0);
        assert_int_equal(q.info[2], -3);
        be->release(ctx, dt), be->release(ctx, dm), sum_free(&q);
    }
    sum q = plain_sum(40, 30, 5, 5);
    q.cut.kind = 'A', q.cut.tol = 1e9;
    sum_build(&q), sum_run(&q);
    assert_int_equal(q.rank[0] + q.rank[1] + q.rank[2], 0);
    assert_int_equal(q.info[0], 0);
    sum_free(&q);
}

/* The bits of a matrix: alone and at place 17 of 40, in a second stream, with the least workspace.
 */
static void repeatable(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        backend_ctx *first = ctx, *second = NULL;
        sum q = shape(i);
        q.count = 40, q.layout = ALIGNED;
        sum other = q, one = q;
        other.least = true, one.count = 1, one.first = 17;
        sum_build(&q), sum_build(&other), sum_build(&one);
        sum_run(&q);
        must(be->open(0, NULL, &second));
        ctx = second;
        sum_run(&other), sum_run(&one);
        for (int64_t b = 0; b < q.count; b++)
            same_result(&q, b, &other, b);
        same_result(&q, 17, &one, 0);
        sum_free(&other), sum_free(&one);
        ctx = first;
        sum_free(&q), be->close(second);
    }
}

/* --- more matrices than a grid of blocks has in its second extent */
#define MANY (small() ? 300 : 65600)
static void many_sums(void **state) {
    (void)state;
    sum q = plain_sum(4, 3, 1, 1);
    q.count = MANY, q.layout = STRIDED;
    sum_build(&q), sum_run(&q), sum_right(&q), sum_free(&q);
}

static void many_sketches(void **state) {
    (void)state;
    for (int op = RSVD; op <= ARA; op++) {
        lr_case c = plain(op, BACKEND_D, 4, 3);
        c.count = MANY, c.is_cut = true, c.layout = STRIDED;
        lr_build(&c);
        must(lr_call(&c));
        lr_collect(&c);
        for (int64_t b = 0; b < c.count; b++) { /* all columns: exact */
            real w[3];
            for (int p = 0; p < 3 && op == RSVD; p++)
                w[p] = get(&c.s, b, p, 0);
            assert_int_equal(c.info[b], 0);
            assert_int_equal(c.rank[b], 3);
            assert_true(distance(c.full[b], 4, 3, &c.u, &c.v, op == RSVD ? w : NULL, b, 3) <=
                        20 * unit_of(&c, b) * frobenius(12, c.full[b]));
        }
        assert_int_equal(lr_trespasses(&c), 0);
        lr_free(&c);
    }
}

/* Q of geqrf by orgqr: Q^T A by ormqr is R above the diagonal and 0 below it. */
static void many_reflectors(void **state) {
    (void)state;
    lr_case c = plain(FACTOR, BACKEND_D, 4, 3);
    const batch_dim m = batch_size(4), n = batch_size(3);
    c.count = MANY, c.layout = STRIDED;
    lr_build(&c);
    operand x = operand_new(c.t, c.count, c.ms, c.ns, c.layout);
    for (int64_t b = 0; b < c.count; b++)
        for (int64_t e = 0; e < 12; e++)
            set(&x, b, e % 4, e / 4, c.full[b][e]), allow(&x, b, e % 4, e / 4);
    send(&x);
    must(lr_call(&c));
    lr_collect(&c);
    must(be->lowrank->ormqr(ctx, c.t, 'L', 'T', c.count, m, n, n, c.a.m, c.s.m, x.m));
    fetch(&x);
    for (int64_t b = 0; b < c.count; b++)
        for (int64_t e = 0; e < 12; e++)
            assert_true(fabs(get(&x, b, e % 4, e / 4) -
                             (e % 4 <= e / 4 ? get(&c.a, b, e % 4, e / 4) : 0)) <= 1e-14);
    must(be->lowrank->orgqr(ctx, c.t, c.count, m, n, n, c.a.m, c.s.m));
    fetch(&c.a);
    for (int64_t b = 0; b < c.count; b++)
        assert_true(skew(&c.a, b, 4, 3) <= 2 * unit_of(&c, b));
    assert_int_equal(trespasses(&x) + trespasses(&c.a), 0);
    operand_free(&x), lr_free(&c);
}

/* --- the other routines: jobs beside a cut, in place, sizes out of range */

/* Every pair of jobs cuts at the same rank, with the same values, zeros beyond; the product of what
 * there is is A to the tolerance. */
static void cut_jobs(void **state) {
    (void)state;
    static const int64_t ms[] = {24, 20, 40, 90, 150}, ns[] = {18, 33, 40, 70, 140};
    for (int op = SVD; op <= RSVD; op++)
        for (size_t i = 0; i < (small() ? 3 : COUNT(ms)); i++)
            for (int v = 0, rank = -1; v < 9; v++) {
                lr_case c = plain(op, BACKEND_D, ms[i], ns[i]);
                const int64_t k = least_of(ms[i], ns[i]);
                c.jobu = "USN"[v % 3], c.jobv = "USN"[v / 3], c.is_cut = true, c.count = 2;
                c.kind = COVARIANCE, c.cut.tol = 1e-3, c.cut.norm = i % 2 ? '2' : 'F';
                c.cut.most = op == RSVD ? 3 * k / 4 : k, c.power = 1;
                seed = 9;
                lr_build(&c);
                must(lr_call(&c));
                lr_collect(&c);
                rank = v == 0 ? (int)c.rank[1] : rank;
                assert_true(c.rank[1] == rank && rank > 1 && rank < c.cut.most);
                for (int64_t b = 0; b < 2; b++) {
                    real w[128];
                    assert_true(lr_error(&c, b) <= 1); /* order, zeros, signs, orthogonality */
                    for (int64_t p = 0; p < c.rank[b]; p++)
                        w[p] = c.jobu == 'S' || c.jobv == 'S' ? 1 : get(&c.s, b, p, 0);
                    if (c.jobu == 'N' || c.jobv == 'N' || (c.jobu == 'S' && c.jobv == 'S'))
                        continue;
                    const real t = 1e-3L * frobenius(ms[i] * ns[i], c.full[b]);
                    assert_true(distance(c.full[b], c.m, c.n, &c.u, &c.v, w, b, c.rank[b]) <=
                                (c.cut.norm == 'F' ? 1.01L : 3) * t);
                }
                assert_int_equal(lr_trespasses(&c), 0);
                lr_free(&c);
            }
}

/* Samples beyond the rank: less than 0 is 8, to the bit; with none the rank is the same; all
 * columns that there are make it exact. */
static void samples_beyond_the_rank(void **state) {
    (void)state;
    static const int64_t over[] = {8, -1, 0, 40};
    for (int v = 0; v < 2; v++) {
        const int64_t m = v ? 24 : 40, n = v ? 50 : 30, k = least_of(m, n), most = k / 3;
        lr_case c[COUNT(over)];
        for (size_t i = 0; i < COUNT(over); i++) {
            c[i] = plain(RSVD, BACKEND_D, m, n);
            c[i].is_cut = true, c[i].cut.most = most, c[i].layout = ALIGNED, c[i].kind = GAUSS;
            seed = 3;
            lr_build(&c[i]);
            const int64_t samples = most + (over[i] < 0 ? 8 : over[i]);
            const size_t lwork = be->lowrank->workspace(BATCH_RSVD, BACKEND_D, 3, m, n, samples);
            must(be->alloc(ctx, lwork + 1, &c[i].work));
            must(be->lowrank->rsvd(ctx, BACKEND_D, 'U', 'U', &c[i].cut, over[i], 0, 7, 3,
                                   batch_size(m), batch_size(n), c[i].a.m, c[i].s.m, c[i].u.m,
                                   c[i].v.m, c[i].drank, c[i].dinfo, c[i].work, lwork));
            lr_collect(&c[i]);
            for (int b = 0; b < 3; b++)
                assert_true(c[i].rank[b] == most && lr_error(&c[i], b) <= 1);
            assert_int_equal(lr_trespasses(&c[i]), 0);
        }
        assert_memory_equal(c[0].u.host, c[1].u.host, (size_t)c[0].u.total * 8);
        assert_memory_equal(c[0].s.host, c[1].s.host, (size_t)c[0].s.total * 8);
        for (int b = 0; b < 3; b++) {
            real a[64 * 64], *s;
            for (int64_t e = 0; e < m * n; e++)
                a[e] = c[3].full[b][e];
            s = values_of(m, n, a);
            for (int64_t p = 0; p < most; p++) {
                assert_true(fabsl(get(&c[3].s, b, p, 0) - s[p]) <= 12 * unit_of(&c[3], b) * s[0]);
                assert_true(get(&c[2].s, b, p, 0) <= (double)(s[p] * (1 + 1e-12L)));
            }
            assert_true(get(&c[2].s, b, most - 1, 0) < 0.999 * (double)s[most - 1]);
            free(s);
        }
        for (size_t i = 0; i < COUNT(over); i++)
            lr_free(&c[i]);
    }
}

/* u is a itself. */
static void vectors_in_place(void **state) {
    (void)state;
    static const int64_t ms[] = {9, 24, 50, 30, 200, 150}, ns[] = {9, 30, 40, 8, 20, 140};
    for (size_t i = 0; i < (small() ? 4 : COUNT(ms)); i++)
        for (int v = 0; v < 4; v++) {
            lr_case c = plain(SVD, v & 1 ? BACKEND_S : BACKEND_D, ms[i], ns[i]);
            c.jobv = v & 2 ? 'S' : 'U', c.layout = (int)(i + (size_t)v) % LAYOUTS;
            lr_build(&c);
            operand *const own = malloc(sizeof *own);
            *own = c.u, c.u = c.a;
            must(lr_call(&c));
            lr_collect(&c);
            for (int64_t b = 0; b < c.count; b++)
                assert_true(lr_error(&c, b) <= 1);
            lr_permit(&c);
            assert_int_equal(trespasses(&c.a) + trespasses(&c.s) + trespasses(&c.v), 0);
            c.u = *own;
            free(own), lr_free(&c);
        }
}

static void reflectors_out_of_range(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++) {
        lr_case c = plain(FACTOR, BACKEND_D, 20, 12);
        c.varied = true, c.count = 4, c.layout = POINTERS;
        lr_build(&c);
        const int64_t right = c.ms[1];
        c.ms[1] = v ? -1 : 21;
        be->release(ctx, c.dms);
        c.dms = device_copy(c.ms, sizeof(int64_t) * 4);
        must(lr_call(&c));
        lr_collect(&c);
        assert_int_equal(c.info[1], -1);
        c.ms[1] = right;
        for (int64_t e = 0; e < c.ms[1] * c.ns[1]; e++) /* as it was */
            assert_true(get(&c.a, 1, e % c.ms[1], e / c.ms[1]) == c.full[1][e]);
        operand x = operand_new(c.t, 4, c.ms, c.ns, POINTERS);
        send(&x);
        const batch_dim m = {20, c.dms}, n = {12, c.dns}, none = batch_size(0);
        must(be->lowrank->ormqr(ctx, c.t, 'L', 'N', 4, m, n, none, c.a.m, c.s.m, x.m));
        must(be->lowrank->orgqr(ctx, c.t, 4, m, n, none, c.a.m, c.s.m));
        fetch(&x), fetch(&c.a);
        assert_int_equal(trespasses(&x), 0); /* no reflectors: C as it was, NaN */
        for (int64_t e = 0; e < c.ms[1] * c.ns[1]; e++)
            assert_true(get(&c.a, 1, e % c.ms[1], e / c.ms[1]) == c.full[1][e]);
        operand_free(&x), lr_free(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_close_together),
        cmocka_unit_test(each_has_its_sizes),
        cmocka_unit_test(zero_factors_are_not_read),
        cmocka_unit_test(names_bad_columns),
        cmocka_unit_test(sizes_out_of_range),
        cmocka_unit_test(nothing_to_add),
        cmocka_unit_test(cuts_of_each),
        cmocka_unit_test(repeatable),
        cmocka_unit_test(many_sums),
        cmocka_unit_test(many_sketches),
        cmocka_unit_test(many_reflectors),
        cmocka_unit_test(samples_beyond_the_rank),
        cmocka_unit_test(cut_jobs),
        cmocka_unit_test(vectors_in_place),
        cmocka_unit_test(reflectors_out_of_range),
    };
    return RUN_ON_BACKENDS(tests);
}
