/* Sums of small products, the operation that products with trees are made of, against plain loops:
 * every size of blocks for which a backend may have a kernel of its own, many sums and few, factors
 * as they lie and transposed, odd sizes and leading dimensions, sums without terms, neighbours with
 * common operands; and the decompositions that trees are made by. */
#include "support/hier_case.h"

typedef struct {
    int64_t count, most, nvec;
    char side;
    double alpha, beta;
    bool odd;     /* sizes and leading dimensions that allow no wide accesses */
    bool unknown; /* inner sizes are not told */
} sums_case;

static uint64_t seed;
static int64_t pick(int64_t n) { /* 0 .. n - 1 */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

enum { ROWS = 400, MOST_TERMS = 5, DEEPEST = 41 }; /* of each operand; of a sum; inner size */

static double entry(backend_type t, const hier_operand *x, char side, int64_t row, int64_t j) {
    return number(t, x->p, side == 'L' ? row + j * x->ld : j + row * x->ld);
}

typedef struct {
    hier_gemm_sum *sum, *dsum; /* host, device */
    hier_gemm_term *term, *dterm;
    char *a, *da; /* seven factors, `flat` numbers each */
    int64_t flat, rows, inner;
} lists_of;

/* Sums of random sizes and terms; every other term has the rows of one of the sum before. */
static void lists_make(const sums_case *c, backend_type t, lists_of *s) {
    const size_t size = backend_size(t);
    const int64_t odd = c->odd ? 1 : 4, lda = c->most + (c->odd ? 3 : 4),
                  ldt = DEEPEST + (c->odd ? 2 : 3);
    int64_t terms = 0;
    s->flat = (lda > ldt ? lda : ldt) * (c->most + DEEPEST), s->rows = s->inner = 0;
    s->sum = calloc((size_t)c->count, sizeof *s->sum);
    s->term = calloc((size_t)(c->count * MOST_TERMS), sizeof *s->term);
    s->a = random_host(t, s->flat, 7, 5);
    s->da = device_copy(s->a, size * (size_t)(s->flat * 7));
    for (int64_t b = 0; b < c->count; b++) {
        const int64_t m = b == 3 ? 0 : c->most - pick(c->most < 8 ? c->most : 8) / odd * odd;
        const int64_t common = terms - (b > 0 ? s->sum[b - 1].terms : 0);
        s->sum[b] = (hier_gemm_sum){s->rows, (int32_t)m,
                                    (int32_t)pick(c->most > 96 ? 4 : MOST_TERMS), terms};
        s->rows += m;
        int64_t inner = 0;
        for (int e = 0; e < s->sum[b].terms; e++) {
            const bool turned = pick(2);
            hier_gemm_term *q = s->term + terms++;
            *q = (hier_gemm_term){.a = s->da + size * (size_t)(s->flat * pick(7)),
                                  .row = pick(ROWS - DEEPEST) / odd * odd,
                                  .lda = (int32_t)(turned ? ldt : lda),
                                  .k = (int32_t)((1 + pick(DEEPEST)) / odd * odd),
                                  .from = (int32_t)pick(2),
                                  .trans = turned};
            if (pick(2) && common + e < s->sum[b].first)
                q->row = s->term[common + e].row, q->k = s->term[common + e].k,
                q->from = s->term[common + e].from;
            inner += (q->k + 7) / 8 * 8;
        }
        s->inner = inner > s->inner ? inner : s->inner;
    }
    s->dsum = device_copy(s->sum, sizeof *s->sum * (size_t)c->count);
    s->dterm = device_copy(s->term, sizeof *s->term * (size_t)(terms + 1));
}

static void lists_release(lists_of *s) {
    be->release(ctx, s->da), be->release(ctx, s->dsum), be->release(ctx, s->dterm);
    free(s->a), free(s->sum), free(s->term);
}

/* alpha times number (i, j) of sum b. */
static double wanted(const sums_case *c, backend_type t, const lists_of *s, const hier_operand *x,
                     int64_t b, int64_t i, int64_t j) {
    double sum = 0;
    for (int e = 0; e < s->sum[b].terms && c->alpha != 0; e++) {
        const hier_gemm_term *q = s->term + s->sum[b].first + e;
        const void *of = s->a + ((const char *)q->a - s->da);
        for (int64_t k = 0; k < q->k; k++)
            sum += number(t, of, q->trans ? k + i * q->lda : i + k * q->lda) *
                   entry(t, x + q->from, c->side, q->row + k, j);
    }
    return c->alpha * sum;
}

/* Vectors of a case on the host and on the backend, and where the result of so many rows goes. */
typedef struct {
    int64_t ldy, numbers; /* of the result, all */
    hier_operand x[HIER_OPERANDS], dx[HIER_OPERANDS];
} vectors_of;

static vectors_of vectors_make(backend_type t, char side, bool odd, int64_t nvec, int64_t rows) {
    const bool left = side == 'L';
    const int64_t pad = odd ? 3 : 2, even = nvec + nvec % 2, ldx = (left ? ROWS : even) + pad,
                  xs = ldx * (left ? nvec : ROWS);
    vectors_of v = {.ldy = (left ? rows + rows % 2 : even) + pad};
    v.numbers = v.ldy * (left ? nvec : rows);
    for (int f = 0; f < HIER_OPERANDS; f++)
        v.x[f] = v.dx[f] = (hier_operand){NULL, 1};
    for (int f = 0; f < 2; f++) {
        v.x[f] = (hier_operand){random_host(t, xs, 1, 20 + (uint64_t)f), ldx};
        v.dx[f] = (hier_operand){device_copy(v.x[f].p, backend_size(t) * (size_t)xs), ldx};
    }
    return v;
}

static void vectors_release(vectors_of *v) {
    for (int f = 0; f < 2; f++)
        be->release(ctx, (void *)v->dx[f].p), free((void *)v->x[f].p);
}

/* Largest difference between backend and loops, relative to the largest number. */
static double error_of(const sums_case *c, backend_type t) {
    const size_t size = backend_size(t);
    const bool left = c->side == 'L';
    lists_of l;
    lists_make(c, t, &l);
    vectors_of v = vectors_make(t, c->side, c->odd, c->nvec, l.rows);
    const int64_t ldy = v.ldy, ys = v.numbers;
    void *y0 = random_host(t, ys, 1, 30), *y = malloc(size * (size_t)ys + 1);
    if (c->beta == 0)
        memset(y0, 0xff, size * (size_t)ys);
    void *dy = device_copy(y0, size * (size_t)ys);
    const hier_gemm_sums s = {c->count, c->most, l.dsum, l.dterm, c->unknown ? 0 : l.inner};
    must(be->hier->sums(ctx, t, c->side, &s, c->nvec, c->alpha, v.dx, c->beta, dy, ldy));
    to_host(y, dy, size * (size_t)ys);
    double worst = 0, largest = 0;
    for (int64_t b = 0; b < c->count; b++)
        for (int64_t i = 0; i < l.sum[b].m; i++)
            for (int64_t j = 0; j < c->nvec; j++) {
                const int64_t r = l.sum[b].row + i, at = left ? r + j * ldy : j + r * ldy;
                const double want = wanted(c, t, &l, v.x, b, i, j) +
                                    (c->beta == 0 ? 0 : c->beta * number(t, y0, at));
                const double d = fabs(number(t, y, at) - want);
                worst = d <= worst ? worst : d;
                largest = fmax(largest, fabs(want));
            }
    const int64_t inside = left ? l.rows : c->nvec;
    for (int64_t j = 0; j < ys / ldy; j++) /* what lies between the columns */
        assert_memory_equal((char *)y + size * (size_t)(j * ldy + inside),
                            (char *)y0 + size * (size_t)(j * ldy + inside),
                            size * (size_t)(ldy - inside));
    vectors_release(&v);
    be->release(ctx, dy), lists_release(&l);
    free(y0), free(y);
    return largest > 0 ? worst / largest : worst;
}

static void test_sums(void **state) {
    static const int64_t most[] = {5, 20, 32, 44, 64, 100, 130, 190},
                         nvec[] = {1, 3, 13, 29, 66, 131, 270};
    (void)state;
    int n = 0;
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        for (size_t j = 0; j < sizeof nvec / sizeof *nvec; j++)
            for (int q = 0; q < 4; q++, n++) {
                if (small() && (n % 3 != 0 || (q & 1 && nvec[j] < 60)))
                    continue;
                const int64_t tiles = (most[i] + 63) / 64 * ((nvec[j] + 63) / 64);
                const sums_case c = {.count = n % 5 == 4 ? 9 : 290 / tiles,
                                     .most = most[i],
                                     .nvec = nvec[j],
                                     .side = q & 1 ? 'R' : 'L',
                                     .alpha = n % 11 == 10 ? 0 : 1.5,
                                     .beta = n % 2 ? -0.5 : 0,
                                     .odd = q & 2,
                                     .unknown = n % 7 == 6};
                for (int t = 0; t < 2; t++) {
                    const backend_type type = t ? BACKEND_S : BACKEND_D;
                    if (t && n % 4 != 0)
                        continue;
                    const double e = error_of(&c, type);
                    if (!(e < (t ? 1e-5 : 1e-13)))
                        fail_msg(
                            "%d sums of up to %d rows, %d vectors, side %c, %s, type %c: error %g",
                            (int)c.count, (int)c.most, (int)c.nvec, c.side, c.odd ? "odd" : "even",
                            t ? 'S' : 'D', e);
                }
            }
}

/* --- trees of sums */

typedef struct {
    int levels;
    bool down, odd;
    int64_t count, most, nvec;
    char side;
} tree_case;

/* Lists of trees whose nodes have up to `most` rows, some none. A node has one or two terms of its
 * own (up: in the first list only), then one of its parent's result, or of both children's. */
typedef struct {
    hier_gemm_sum *sum;
    hier_gemm_term *term;
    int64_t first[HIER_FUSED + 1], sums, terms, rows, lda, flat;
    int64_t most[HIER_FUSED], inner[HIER_FUSED];
    char *a, *da;
} trees_of;

enum { FROM = 2 };

static void tree_term(const tree_case *c, trees_of *s, int level, backend_type t, int64_t k,
                      int from, int64_t row) {
    hier_gemm_sum *q = s->sum + s->sums - 1;
    if (k == 0 || q->m == 0)
        return;
    s->term[s->terms++] =
        (hier_gemm_term){.a = s->da + backend_size(t) * (size_t)(s->flat * pick(7)),
                         .row = row,
                         .lda = (int32_t)s->lda,
                         .k = (int32_t)k,
                         .from = from,
                         .trans = (int32_t)pick(2)};
    q->terms++;
    int64_t inner = 0;
    for (int e = 0; e < q->terms; e++)
        inner += (s->term[q->first + e].k + 7) / 8 * 8;
    s->inner[level] = inner > s->inner[level] ? inner : s->inner[level];
    (void)c;
}

static void trees_make(const tree_case *c, backend_type t, trees_of *s) {
    const int64_t odd = c->odd ? 1 : 4;
    *s = (trees_of){.lda = 2 * c->most + DEEPEST + (c->odd ? 2 : 3)};
    s->flat = s->lda * s->lda;
    s->sum = calloc((size_t)(c->count << c->levels), sizeof *s->sum);
    s->term = calloc((size_t)(3 * c->count << c->levels), sizeof *s->term);
    s->a = random_host(t, s->flat, 7, 5);
    s->da = device_copy(s->a, backend_size(t) * (size_t)(s->flat * 7));
    for (int l = 0; l < c->levels; l++) {
        const int64_t nodes = c->count << (c->down ? l : c->levels - 1 - l);
        s->first[l] = s->sums;
        for (int64_t i = 0; i < nodes; i++) {
            const int64_t m = pick(9) == 0 ? 0 : (1 + pick(c->most)) / odd * odd;
            s->sum[s->sums++] = (hier_gemm_sum){s->rows, (int32_t)m, 0, s->terms};
            s->rows += m;
            s->most[l] = m > s->most[l] ? m : s->most[l];
            for (int64_t own = c->down || l == 0 ? pick(3) : 0; own > 0; own--)
                tree_term(c, s, l, t, (1 + pick(DEEPEST)) / odd * odd, (int)pick(2),
                          pick(ROWS - DEEPEST) / odd * odd);
            if (l == 0)
                continue;
            const hier_gemm_sum *low = s->sum + s->first[l - 1] + (c->down ? i / 2 : 2 * i);
            if (c->down || i % 3 == 0) {
                tree_term(c, s, l, t, low->m, FROM, low->row);
                if (!c->down)
                    tree_term(c, s, l, t, low[1].m, FROM, low[1].row);
            } else {
                tree_term(c, s, l, t, low->m + low[1].m, FROM, low->row);
            }
        }
    }
    s->first[c->levels] = s->sums;
}

/* Largest difference between backend and loops, relative to the largest number of its list. */
static double tree_error(const tree_case *c, backend_type t) {
    const size_t size = backend_size(t);
    const bool left = c->side == 'L';
    trees_of l;
    trees_make(c, t, &l);
    vectors_of v = vectors_make(t, c->side, c->odd, c->nvec, l.rows);
    const int64_t ldy = v.ldy, ys = v.numbers;
    void *y = malloc(size * (size_t)ys + 1);
    memset(y, 0xff, size * (size_t)ys);
    void *dy = device_copy(y, size * (size_t)ys);
    v.dx[FROM] = (hier_operand){dy, ldy};
    hier_gemm_sum *dsum = device_copy(l.sum, sizeof *l.sum * (size_t)l.sums);
    hier_gemm_term *dterm = device_copy(l.term, sizeof *l.term * (size_t)(l.terms + 1));
    hier_fused chain = {c->levels, c->down, FROM, c->count, {{0}}};
    for (int k = 0; k < c->levels; k++)
        chain.level[k] = (hier_gemm_sums){l.first[k + 1] - l.first[k], l.most[k], dsum + l.first[k],
                                          dterm, l.inner[k]};
    must(be->hier->chain(ctx, t, c->side, &chain, c->nvec, v.dx, dy, ldy));
    to_host(y, dy, size * (size_t)ys);
    double *want = calloc((size_t)(l.rows * c->nvec + 1), sizeof *want), error = 0;
    for (int k = 0; k < c->levels; k++) {
        double worst = 0, largest = 0;
        for (int64_t b = l.first[k]; b < l.first[k + 1]; b++)
            for (int64_t i = 0; i < l.sum[b].m; i++)
                for (int64_t j = 0; j < c->nvec; j++) {
                    const int64_t r = l.sum[b].row + i, at = left ? r + j * ldy : j + r * ldy;
                    double sum = 0;
                    for (int e = 0; e < l.sum[b].terms; e++) {
                        const hier_gemm_term *q = l.term + l.sum[b].first + e;
                        const void *of = l.a + ((const char *)q->a - l.da);
                        for (int64_t n = 0; n < q->k; n++)
                            sum +=
                                number(t, of, q->trans ? n + i * q->lda : i + n * q->lda) *
                                (q->from == FROM ? want[q->row + n + j * l.rows]
                                                 : entry(t, v.x + q->from, c->side, q->row + n, j));
                    }
                    want[r + j * l.rows] = sum;
                    if (c->down && k + 1 < c->levels)
                        continue;
                    const double d = fabs(number(t, y, at) - sum);
                    worst = d <= worst ? worst : d;
                    largest = fmax(largest, fabs(sum));
                }
        error = largest > 0 && !(worst / largest <= error) ? worst / largest : error;
    }
    vectors_release(&v);
    be->release(ctx, dy), be->release(ctx, dsum), be->release(ctx, dterm), be->release(ctx, l.da);
    free(l.a), free(l.sum), free(l.term), free(y), free(want);
    return error;
}

/* Trees for which a backend has one kernel, and others. */
static void test_trees(void **state) {
    static const struct {
        int64_t count, most, nvec;
    } size[] = {{3, 20, 5}, {1010, 20, 50}, {1010, 31, 50}, {1340, 40, 41}, {1010, 47, 50}};
    (void)state;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (int q = 0; q < 16; q++) {
            const tree_case c = {.levels = q & 1 ? 3 : 2,
                                 .down = q & 2,
                                 .odd = q & 4,
                                 .count = size[i].count,
                                 .most = size[i].most,
                                 .nvec = size[i].nvec,
                                 .side = q & 8 ? 'R' : 'L'};
            if (i > 0 && (q & 8 || (q & 4) != (i & 1 ? 4 : 0)))
                continue;
            if (i > 0 && small() && (q & 3) != 3 && (q & 3) != (int)i % 3)
                continue;
            for (int t = 0; t < (i == 1 ? 2 : 1); t++) {
                const double e = tree_error(&c, t ? BACKEND_S : BACKEND_D);
                if (!(e < (t ? 1e-5 : 1e-13)))
                    fail_msg("%d trees of up to %d rows, %d vectors, case %d, type %c: error %g",
                             (int)c.count, (int)c.most, (int)c.nvec, q, t ? 'S' : 'D', e);
            }
        }
}

/* Largest error of A(:, J) U^T, A of rank r, two matrices in one call; NaN where the rank is not r.
 */
static double id_error(backend_type t, int64_t m, int64_t n, int64_t r) {
    const size_t size = backend_size(t);
    double *had = malloc(16 * (size_t)(m * n)), worst = 0;
    char *sent = malloc(2 * size * (size_t)(m * n)), *u = malloc(2 * size * (size_t)(n * n));
    int *order = malloc(2 * sizeof *order * (size_t)n), info[2];
    int64_t rank[2];
    for (int64_t e = 0; e < 2 * m * n; e++) {
        had[e] = 0;
        for (int64_t k = 0; k < r; k++)
            had[e] += cos((double)((e % m) * (k + 1))) * sin((double)(e / m * (2 * k + 1) + k));
        if (t == BACKEND_D)
            ((double *)(void *)sent)[e] = had[e];
        else
            ((float *)(void *)sent)[e] = (float)had[e];
    }
    void *a = device_copy(sent, 2 * size * (size_t)(m * n)),
         *du = poison(2 * size * (size_t)(n * n)), *dorder = poison(2 * sizeof *order * (size_t)n),
         *drank = poison(sizeof rank), *dinfo = poison(sizeof info);
    must(be->hier->id(ctx, t, 2, (batch_dim){m, NULL}, (batch_dim){n, NULL},
                      batch_strided(a, m, m * n), t == BACKEND_D ? 1e-9 : 1e-3, 1, n, dorder,
                      batch_strided(du, n, n * n), drank, dinfo));
    const int64_t bytes[] = {2 * (int64_t)size * n * n, 2 * (int64_t)sizeof *order * n,
                             sizeof rank};
    must(be->copy(ctx, u, bytes[0], du, bytes[0], bytes[0], 1));
    must(be->copy(ctx, order, bytes[1], dorder, bytes[1], bytes[1], 1));
    must(be->copy(ctx, rank, bytes[2], drank, bytes[2], bytes[2], 1));
    must(be->copy(ctx, info, sizeof info, dinfo, sizeof info, sizeof info, 1));
    must(be->sync(ctx));
    for (int64_t e = 0; e < 2 * m * n; e++) {
        const int64_t b = e / (m * n), i = e % m, j = e / m % n;
        double x = rank[b] == r && info[b] == 0 ? -had[e] : NAN;
        for (int64_t k = 0; k < r; k++)
            x += had[i + order[b * n + k] * m + b * m * n] * number(t, u, b * n * n + j + k * n);
        worst = fabs(x) <= worst ? worst : fabs(x);
    }
    free(had), free(sent), free(u), free(order);
    be->release(ctx, a), be->release(ctx, du), be->release(ctx, dorder);
    be->release(ctx, drank), be->release(ctx, dinfo);
    return worst;
}

/* Interpolative decompositions; the larger ones take from 42 to 64 KiB, where a device's limit of
 * shared memory without permission is passed by the matrix alone, or with what else is there. */
static void test_decompositions(void **state) {
    static const int64_t size[][2] = {
        {1, 1}, {20, 33}, {75, 75}, {78, 78}, {108, 106},
    };
    (void)state;
    for (size_t k = 0; k < sizeof size / sizeof *size; k++)
        for (int t = 0; t < 2; t++) {
            const double e = id_error(t ? BACKEND_S : BACKEND_D, size[k][0], size[k][1],
                                      size[k][0] == 1 ? 1 : 5);
            if (!(e < (t ? 1e-3 : 1e-9)))
                fail_msg("%d x %d, type %c: error %g", (int)size[k][0], (int)size[k][1],
                         t ? 'S' : 'D', e);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_trees),
                                       cmocka_unit_test(test_decompositions)};
    return RUN_ON_BACKENDS(tests);
}
