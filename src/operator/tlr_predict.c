/* Ranks of a factor before it is made: tiles of Cmm, drawn at random, are looked at on the CPU.
 *
 * What is compressed of tile (i, k) is its part of the Schur complement, the covariance of i and k
 * once what stands before k is known. Each sensor before adds images of the layers' shifts between
 * i and k, by products of tiles with it: the fuller they are, the more, until there is no room. So
 * a tile's share f of the columns from which on it is dense follows a logistic curve,
 *     f / (1 - f) = e^(GROWTH n) r / (most - r),
 * r its rank in Cmm and n the number of sensors before that of k, of which the first few count:
 * what they have not told the next ones tell little of. Tiles of k's own sensor change next to
 * nothing. Both constants are those of factors of all cases together (docs/performance-tlr.md). */
#include "operator/tlr_cmm.h"

#include <math.h>
#include <stdlib.h>

#define SAMPLE 48    /* tiles; twice as many of order 128 or less */
#define GROWTH 1.0   /* logarithm of odds, for each sensor before, */
#define GROW_FIRST 3 /* of which the first so many count */
#define DENSE 5      /* of tiles full by a share f some are dense, about f^5 */

/* LAPACK: singular values. */
void dgesvd_(const char *jobu, const char *jobv, const int *m, const int *n, double *a,
             const int *lda, double *s, double *u, const int *ldu, double *vt, const int *ldvt,
             double *work, const int *lwork, int *info);

typedef struct {
    const matcov *mc;
    tlr_layout order;
    int64_t *first; /* [sensors + 1] measurements before each */
    int64_t b;      /* largest tile */
    int *sub;       /* [2 b] subapertures of the tile in hand, sorted; then those of its columns */
    double *a;      /* b x b */
    double *value;  /* [b] singular values */
    double *work;
    int lwork;
} sample;

static int by_number(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The subapertures of tile t, which are of one sensor; both slopes of each are in the tile. */
static matcov_cluster subapertures(const sample *s, int64_t t, int *list) {
    const int64_t *of = s->order.perm + s->order.first[t];
    const int64_t n = s->order.first[t + 1] - s->order.first[t];
    matcov_cluster c = {.sub = list};
    while (s->first[c.sensor + 1] <= of[0])
        c.sensor++;
    const int64_t from = s->first[c.sensor], all = (s->first[c.sensor + 1] - from) / 2;
    for (int64_t k = 0; k < n; k++)
        if (of[k] - from < all) /* its x slope */
            list[c.n++] = (int)(of[k] - from);
    qsort(list, (size_t)c.n, sizeof *list, by_number);
    return c;
}

/* Entries of tile (i, k), and the sum of their squares. */
static status fill_tile(sample *s, int64_t i, int64_t k, double *squares) {
    const matcov_cluster row = subapertures(s, i, s->sub), col = subapertures(s, k, s->sub + s->b);
    status st = matcov_fill_clusters(s->mc, &row, &col, s->a);
    *squares = 0;
    for (int64_t x = 0; st == MOAO_OK && x < 4 * (int64_t)row.n * col.n; x++)
        *squares += s->a[x] * s->a[x];
    return st;
}

/* Rank of the tile in hand, of m x n, whose tail has a norm of tau at most. */
static status rank_of(sample *s, int64_t m, int64_t n, double tau, int64_t *rank) {
    const int rows = (int)m, cols = (int)n, least = rows < cols ? rows : cols, one = 1;
    int info = 0;
    double tail = 0;
    dgesvd_("N", "N", &rows, &cols, s->a, &rows, s->value, NULL, &one, NULL, &one, s->work,
            &s->lwork, &info);
    if (info != 0)
        return status_fail(MOAO_NUMERIC, "singular values of a tile of Cmm: no convergence");
    for (*rank = least; *rank > 0; (*rank)--) {
        tail += s->value[*rank - 1] * s->value[*rank - 1];
        if (tail > tau * tau)
            break;
    }
    return MOAO_OK;
}

/* Repeatable, from 0 to 1. */
static double fraction(int t) {
    uint64_t x = 0x9e3779b97f4a7c15u * (uint64_t)(t + 1);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

/* Tile (i, k), i > k, number t of a sample of `count`: all tiles, column by column, are cut into as
 * many runs as are drawn, of which each gives one. */
static void draw(int64_t nt, int t, int count, int64_t *i, int64_t *k) {
    const double pairs = (double)nt * (double)(nt - 1) / 2;
    const int64_t pair = (int64_t)((t + fraction(t)) / count * pairs); /* from the last column on */
    int64_t below = (int64_t)((1 + sqrt(1 + 8.0 * (double)pair)) / 2);
    while (below * (below - 1) / 2 > pair)
        below--;
    while ((below + 1) * below / 2 <= pair)
        below++;
    *k = nt - 1 - below;
    *i = nt - 1 - (pair - below * (below - 1) / 2);
}

/* How full a tile of the factor is expected to be, of `most` columns, if Cmm's has r; k: its
 * column.
 */
static double fullness(const sample *s, int64_t r, double most, int64_t k) {
    const double columns = fmin(fmax((double)r, 0.5), most - 0.5);
    int before = 0;
    if ((double)r > most)
        return 1;
    while (before < GROW_FIRST && s->first[before + 1] <= s->order.first[k])
        before++;
    const double odds = exp(GROWTH * before) * columns / (most - columns);
    return odds / (1 + odds);
}

static status open_sample(const sys *s, const matcov *mc, int64_t tile, sample *x) {
    status st;
    *x = (sample){.mc = mc};
    TRY(tlr_cmm_layout(s, tile, &x->order, &x->first));
    for (int64_t t = 0; t < x->order.nt; t++) {
        const int64_t n = x->order.first[t + 1] - x->order.first[t];
        x->b = n > x->b ? n : x->b;
    }
    const size_t b = (size_t)x->b;
    x->lwork = (int)(64 * x->b);
    TRY(ALLOC(x->sub, 2 * b, "a sample of tiles"));
    TRY(ALLOC(x->a, b * b, "a sample of tiles"));
    TRY(ALLOC(x->value, b, "a sample of tiles"));
    TRY(ALLOC(x->work, 64 * b, "a sample of tiles"));
done:
    return st;
}

static void close_sample(sample *x) {
    free(x->first), free(x->sub), free(x->a), free(x->value), free(x->work);
    tlr_layout_free(&x->order);
}

status tlr_predict(const sys *s, const profile *p, int64_t tile, int steps, tlr_prediction *out) {
    matcov *mc = NULL;
    sample x = {0};
    double squares = 0, full = 0, dense = 0;
    status st;
    *out = (tlr_prediction){0};
    TRY(matcov_prepare_clusters(s, p, &mc));
    TRY(open_sample(s, mc, tile, &x));
    TRY(tlr_cmm_noise(mc, (int64_t)s->m, &out->noise));
    out->tau = out->noise > 0 ? out->noise * exp2(-(double)steps / 8) : 0;
    const double nt = (double)x.order.nt, b = (double)s->m / nt;
    const int count = x.b > 128 ? SAMPLE : 2 * SAMPLE;
    for (int t = 0; t < count && x.order.nt > 1; t++) {
        int64_t i, k, r = 0;
        double norm;
        draw(x.order.nt, t, count, &i, &k);
        const int64_t m = x.order.first[i + 1] - x.order.first[i],
                      n = x.order.first[k + 1] - x.order.first[k];
        TRY(fill_tile(&x, i, k, &norm));
        TRY(rank_of(&x, m, n, out->tau, &r));
        const double f = out->tau > 0 ? fullness(&x, r, (double)(x.b / 2), k) : 1;
        squares += norm / count;
        full += f / count;
        dense += pow(f, DENSE) / count;
    }
    const double wide = fmin((double)tlr_cmm_width(x.b), (double)s->m),
                 pairs = nt * (nt - 1) / 2 - nt * (wide / b - 1) / 2;
    out->tile = (int)x.b;
    out->tiles = fmax(pairs, 0);
    out->mean = (full + dense) * b / 2; /* a dense tile counts whole */
    out->dense = dense;
    out->eps = squares > 0 ? out->tau / sqrt(squares) : 0;
    /* tiles in single precision, unless none is compressed */
    out->bytes = (out->tau > 0 ? 4 : 8) * out->tiles * b * b * full + 8 * (double)s->m * wide;
    out->bytes_dense = 4.0 * (double)s->m * (double)(s->m + 1);
done:
    close_sample(&x);
    matcov_free(mc);
    return st;
}
