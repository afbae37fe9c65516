/* Ranks of a factor before it is made: tiles of Cmm, drawn at random, are looked at on the CPU.
 *
 * What is compressed of tile (i, k) is its part of the Schur complement, the covariance of i and k
 * once what stands before k is known. Each sensor before adds images of the layers' shifts between
 * i and k, by products of tiles with it: the fuller they are, the more, until there is no room. So
 * a tile's share f of the columns from which on it is dense follows a logistic curve,
 *     f / (1 - f) = e^(GROWTH n) r / (most - r),
 * r its rank in Cmm and n the number of sensors before that of k, of which the first few count:
 * what they have not told the next ones tell little of. Tiles of k's own sensor change next to
 * nothing. What was largest in a tile is told first: its large singular values, which decide what
 * is kept in FP16, shrink with n. The constants are those of factors of all cases together
 * (docs/tlr.md). */
#include "factor/tlr_cmm.h"
#include "moao/cpu_threads.h"

#include <math.h>
#include <stdlib.h>

#define SAMPLE 48    /* tiles; twice as many of order 128 or less */
#define GROWTH 1.0   /* logarithm of odds, for each sensor before, */
#define GROW_FIRST 3 /* of which the first so many count */
#define SHRINK 0.5   /* of large singular values, which become smaller */
#define DENSE 5      /* of tiles full by a share f some are dense, about f^5 */

/* LAPACK: singular values. */
void dgesvd_(const char *jobu, const char *jobv, const int *m, const int *n, double *a,
             const int *lda, double *s, double *u, const int *ldu, double *vt, const int *ldvt,
             double *work, const int *lwork, int *info);

typedef struct {
    const matcov *mc;
    int sensors;
    tlr_layout order;
    int64_t *first; /* [sensors + 1] measurements before each */
    int64_t b;      /* largest tile */
    int count;      /* tiles drawn */
    /* of each of them: its place, the sum of its squares, its rank, columns of it that would not
     * be kept in FP16 */
    int64_t *i, *k, *rank, *leading;
    double *squares;
} sample;

/* The tile that a thread has current. */
typedef struct {
    int *sub;           /* [2 b] its subapertures, those of each sensor sorted; then those of its
                           columns */
    matcov_cluster *of; /* [2 sensors] these, by sensors */
    double *a, *part;   /* b x b; what two sensors have of it */
    double *value /* [b] singular values */, *work;
    int lwork;
} tile_room;

static int by_number(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The subapertures of tile t, sensor by sensor, into list and of; number of sensors. Both slopes of
 * each are in the tile. */
static int subapertures(const sample *s, int64_t t, int *list, matcov_cluster *of) {
    const int64_t *at = s->order.perm + s->order.first[t];
    const int64_t n = s->order.first[t + 1] - s->order.first[t];
    int sensors = 0;
    for (int w = 0; w < s->sensors; w++) {
        const int64_t from = s->first[w], all = (s->first[w + 1] - from) / 2;
        matcov_cluster c = {.sensor = w, .sub = list};
        for (int64_t k = 0; k < n; k++)
            if (at[k] >= from && at[k] - from < all) /* its x slope */
                list[c.n++] = (int)(at[k] - from);
        qsort(list, (size_t)c.n, sizeof *list, by_number);
        list += c.n;
        if (c.n > 0)
            of[sensors++] = c;
    }
    return sensors;
}

/* Entries of tile (i, k), sensor by sensor, and the sum of their squares. */
static status fill_tile(const sample *s, int64_t i, int64_t k, tile_room *h, double *squares) {
    matcov_cluster *row = h->of, *col = h->of + s->sensors;
    const int rows = subapertures(s, i, h->sub, row), cols = subapertures(s, k, h->sub + s->b, col);
    const int64_t ld = s->order.first[i + 1] - s->order.first[i];
    double *to = h->a;
    status st = MOAO_OK;
    *squares = 0;
    for (int q = 0; q < cols; to += 2 * col[q++].n * ld) {
        double *at = to;
        for (int p = 0; p < rows; at += 2 * row[p++].n) {
            TRY(matcov_fill_clusters(s->mc, &row[p], &col[q], h->part));
            for (int64_t x = 0; x < 4 * (int64_t)row[p].n * col[q].n; x++) {
                at[x % (2 * row[p].n) + x / (2 * row[p].n) * ld] = h->part[x];
                *squares += h->part[x] * h->part[x];
            }
        }
    }
done:
    return st;
}

/* How many of `count` values there are before a tail of a norm of tau at most. */
static int64_t before_tail(const double *value, int64_t count, double tau) {
    double tail = 0;
    for (; count > 0; count--) {
        tail += value[count - 1] * value[count - 1];
        if (tail > tau * tau)
            break;
    }
    return count;
}

/* Singular values of the current tile, of m x n. */
static status values_of(tile_room *h, int64_t m, int64_t n) {
    const int rows = (int)m, cols = (int)n, one = 1;
    int info = 0;
    dgesvd_("N", "N", &rows, &cols, h->a, &rows, h->value, NULL, &one, NULL, &one, h->work,
            &h->lwork, &info);
    if (info != 0)
        return status_fail(MOAO_NUMERIC, "singular values of a tile of Cmm: no convergence");
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

/* Sensors before that of tile column k, as many as count. */
static int sensors_before(const sample *s, int64_t k) {
    int before = 0;
    while (before < GROW_FIRST && s->first[before + 1] <= s->order.first[k])
        before++;
    return before;
}

/* How full a tile of the factor is expected to be, of `most` columns, if Cmm's has r; k: its
 * column.
 */
static double fullness(const sample *s, int64_t r, double most, int64_t k) {
    const double columns = fmin(fmax((double)r, 0.5), most - 0.5);
    if ((double)r > most)
        return 1;
    const double odds = exp(GROWTH * sensors_before(s, k)) * columns / (most - columns);
    return odds / (1 + odds);
}

static status open_sample(const sys *s, const matcov *mc, int64_t tile, sample *x) {
    status st;
    *x = (sample){.mc = mc, .sensors = s->nsensor};
    TRY(tlr_cmm_layout(s, tile, &x->order, &x->first));
    for (int64_t t = 0; t < x->order.nt; t++) {
        const int64_t n = x->order.first[t + 1] - x->order.first[t];
        x->b = n > x->b ? n : x->b;
    }
    x->count = x->order.nt < 2 ? 0 : x->b > 128 ? SAMPLE : 2 * SAMPLE;
    const size_t count = (size_t)x->count;
    TRY(ALLOC(x->i, count, "a sample of tiles"));
    TRY(ALLOC(x->k, count, "a sample of tiles"));
    TRY(ALLOC(x->rank, count, "a sample of tiles"));
    TRY(ALLOC(x->leading, count, "a sample of tiles"));
    TRY(ALLOC(x->squares, count, "a sample of tiles"));
    for (int t = 0; t < x->count; t++)
        draw(x->order.nt, t, x->count, x->i + t, x->k + t);
done:
    return st;
}

static void close_sample(sample *x) {
    free(x->first), free(x->i), free(x->k), free(x->rank), free(x->leading), free(x->squares);
    tlr_layout_free(&x->order);
}

static status open_room(const sample *x, tile_room *h) {
    const size_t b = (size_t)x->b;
    status st;
    h->lwork = (int)(64 * x->b);
    TRY(ALLOC(h->sub, 2 * b, "a tile of a sample"));
    TRY(ALLOC(h->of, 2 * (size_t)x->sensors, "a tile of a sample"));
    TRY(ALLOC(h->a, b * b, "a tile of a sample"));
    TRY(ALLOC(h->part, b * b, "a tile of a sample"));
    TRY(ALLOC(h->value, b, "a tile of a sample"));
    TRY(ALLOC(h->work, 64 * b, "a tile of a sample"));
done:
    return st;
}

static void close_room(tile_room *h) {
    free(h->sub), free(h->of), free(h->a), free(h->part), free(h->value), free(h->work);
}

/* Rank in Cmm and sum of squares of tile t of the sample. */
static status look_at(const sample *x, int t, double tau, tile_room *h) {
    const int64_t *first = x->order.first, m = first[x->i[t] + 1] - first[x->i[t]],
                  n = first[x->k[t] + 1] - first[x->k[t]];
    status st;
    TRY(fill_tile(x, x->i[t], x->k[t], h, x->squares + t));
    TRY(values_of(h, m, n));
    x->rank[t] = before_tail(h->value, m < n ? m : n, tau);
    x->leading[t] = before_tail(h->value, m < n ? m : n,
                                ldexp(tau, 11) * exp(SHRINK * sensors_before(x, x->k[t])));
done:
    return st;
}

/* Of all tiles: each thread takes whole ones, as what is done for one are many small steps. */
static status look_at_all(const sample *x, double tau) {
    status worst = MOAO_OK;
    const int blas = blas_alone();
#pragma omp parallel
    {
        tile_room h = {0};
        status st = open_room(x, &h);
#pragma omp for schedule(dynamic)
        for (int t = 0; t < x->count; t++)
            st = st == MOAO_OK ? look_at(x, t, tau, &h) : st;
        close_room(&h);
        if (st != MOAO_OK) {
#pragma omp critical
            worst = st;
        }
    }
    blas_together(blas);
    return worst;
}

/* Share of the columns of tile t that are kept in FP16; dense: its odds to be dense. */
static double share_of_fp16(const sample *x, int t, double dense) {
    const double leading = (double)x->leading[t], rank = fmax((double)x->rank[t], 1);
    return (1 - dense) * (1 - leading / rank) + dense * (x->leading[t] == 0);
}

status tlr_predict(const sys *s, const profile *p, int64_t tile, int steps, bool fp16,
                   tlr_prediction *out) {
    matcov *mc = NULL;
    sample x = {0};
    double squares = 0, full = 0, kept = 0, dense = 0;
    status st;
    *out = (tlr_prediction){0};
    TRY(matcov_prepare_clusters(s, p, &mc));
    TRY(open_sample(s, mc, tile, &x));
    TRY(tlr_cmm_noise(mc, (int64_t)s->m, &out->noise));
    out->tau = out->noise > 0 ? out->noise * exp2(-(double)steps / 8) : 0;
    TRY(look_at_all(&x, out->tau));
    const double nt = (double)x.order.nt, b = (double)s->m / nt;
    for (int t = 0; t < x.count; t++) {
        const double f = out->tau > 0 ? fullness(&x, x.rank[t], (double)(x.b / 2), x.k[t]) : 1;
        squares += x.squares[t] / x.count;
        full += f / x.count;
        dense += pow(f, DENSE) / x.count;
        kept += f * (fp16 ? 1 - share_of_fp16(&x, t, pow(f, DENSE)) / 2 : 1) / x.count;
    }
    const double wide = fmin((double)tlr_cmm_width(x.b), (double)s->m),
                 pairs = nt * (nt - 1) / 2 - nt * (wide / b - 1) / 2;
    out->tile = (int)x.b;
    out->tiles = fmax(pairs, 0);
    out->mean = (full + dense) * b / 2; /* a dense tile counts whole */
    out->dense = dense;
    out->eps = squares > 0 ? out->tau / sqrt(squares) : 0;
    /* tiles in single precision, unless none is compressed */
    out->fp16 = fp16 && out->tau > 0;
    out->bytes = (out->tau > 0 ? 4 : 8) * out->tiles * b * b * kept + 8 * (double)s->m * wide;
    out->bytes_dense = 4.0 * (double)s->m * (double)(s->m + 1);
done:
    close_sample(&x);
    matcov_free(mc);
    return st;
}
