/* Blocks of covariances as products of low rank, by adaptive cross approximation: rows and columns
 * of the block, evaluated where what is left of it is largest, are subtracted until little is left
 * (Bebendorf, Approximation of boundary element matrices, Numer. Math. 86, 2000). One evaluation of
 * the tables gives both axes of both subapertures, so that a cross is of two rows and two columns.
 */
#include "formula.h"
#include "internal.h"
#include "moao/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A step adds rank 2 at most. What is left is about the last step: tol is for this share of it. */
#define STEP 2
/* Pivots that small against the first of a step are rounding. */
#define PIVOT 1e-6
/* Layers where the two sides are far apart are a product of low rank in whole tiles too, if there
 * are more than so many. */
#define FAR 4
/* Their tolerance, which costs little, against that of tiles. */
#define WHOLE 0.3
/* Lines of the whole tile are made of so many items at a time. */
#define ITEMS 8

typedef struct {           /* rows or columns of a tile */
    int n, axes;           /* subapertures with 2 axes, or points */
    int size;              /* n axes */
    float *x, *y;          /* [layer][n] on the layers, less where the first row is there [m] */
    gradient_axes both[2]; /* of lines along this side, with the other one's two axes */
    bool *used;            /* [n] */
} side;

typedef struct { /* of one thread */
    const matcov *mc;
    const matcov_target *mt;
    side of[2]; /* rows, columns */
    int nlayer;
    int first, last;               /* layers that lines are of, first <= l < last */
    const matcov_gradient **table; /* [nlayer] of both */
    int *layer;                    /* [nlayer] their numbers */
    const matcov_cluster *sides[2];
    double *coef;
    double turn[2];
    int most;                      /* rank */
    double *factor[2];             /* U and V: size x most */
    double *line[2];               /* [STEP][size] residuals of two columns, of two rows */
    double *lines;                 /* [ITEMS][2][size] of the whole tile */
    float *sum;                    /* the same, while lines are evaluated */
    const gradient_single *single; /* of all tables */
    int at[2][STEP]; /* where these columns are among the columns, these rows among the rows */
} block;

/* Of tiles with such rows. */
static const layers *layers_of(const matcov *mc, const matcov_cluster *rows) {
    return rows->sensor < 0 ? &mc->phase : &mc->slopes;
}

/* Of the sensor of side s. */
static const footprint *footprint_of(const matcov *mc, const matcov_cluster *of, int s) {
    return s == 0 ? &mc->rows[of->sensor] : &mc->feet[of->sensor];
}

/* Place of the pupil p on layer l, of a sensor or of the target: c p + offset [m]. */
static void on_layer(const block *b, int l, int side, double *c, double offset[2]) {
    const matcov_cluster *of = b->sides[side];
    const layers *lay = layers_of(b->mc, b->sides[0]);
    const footprint *f = of->sensor < 0 ? &b->mt->ts : footprint_of(b->mc, of, side);
    double drift[2];
    footprint_drift(lay, l, f, drift);
    formula_on_layer(lay->h[l], 1.0, f->altitude, f->dir, drift, c, offset);
}

/* Places of both sides on layer l, number i of those that both see. */
static void project(block *b, const matcov_cluster *const of[2], int l, int i) {
    double origin[2] = {0, 0};
    for (int s = 0; s < 2; s++) {
        const matcov_cluster *k = of[s];
        const footprint *f = k->sensor < 0 ? NULL : &b->mc->feet[k->sensor];
        float *x = b->of[s].x + i * k->n, *y = b->of[s].y + i * k->n;
        double c, offset[2];
        on_layer(b, l, s, &c, offset);
        for (int e = 0; e < k->n; e++) {
            const double px = f != NULL ? f->centre[0][k->sub[e]] : k->x[e],
                         py = f != NULL ? f->centre[1][k->sub[e]] : k->y[e];
            if (s == 0 && e == 0)
                origin[0] = c * px + offset[0], origin[1] = c * py + offset[1];
            x[e] = (float)(c * px + offset[0] - origin[0]);
            y[e] = (float)(c * py + offset[1] - origin[1]);
        }
    }
}

/* Of layer l, NULL: one of the two sides does not see it. */
static const matcov_gradient *table_of(const matcov *mc, const matcov_tile *t, int l,
                                       double *scale) {
    const footprint *cols = &mc->feet[t->col->sensor];
    return t->row->sensor < 0
               ? gradients_phase(&mc->means, l, cols, scale)
               : gradients_table(&mc->means, l, &mc->feet[t->row->sensor], cols, scale);
}

/* The layers of a tile, and its two sides on them. */
static void aim(block *b, const matcov_tile *t) {
    const matcov *mc = b->mc;
    const layers *lay = layers_of(mc, t->row);
    const matcov_cluster *const c[2] = {t->row, t->col};
    const bool points = c[0]->sensor < 0;
    b->sides[0] = c[0], b->sides[1] = c[1];
    const footprint *cols = &mc->feet[c[1]->sensor];
    for (int s = 0; s < 2; s++) {
        b->of[s].n = c[s]->n;
        b->of[s].axes = c[s]->sensor < 0 ? 1 : 2;
        b->of[s].size = b->of[s].n * b->of[s].axes;
        memset(b->of[s].used, 0, (size_t)c[s]->n * sizeof *b->of[s].used);
    }
    b->turn[0] = cos(cols->rot), b->turn[1] = sin(cols->rot);
    b->nlayer = 0;
    for (int l = 0; l < lay->n; l++) {
        const int i = b->nlayer;
        double scale;
        b->table[i] = table_of(mc, t, l, &scale);
        if (b->table[i] == NULL || layer_is_unused(lay, l))
            continue;
        b->coef[i] = scale * lay->coef[l];
        b->layer[i] = l;
        for (int s = 0; s < 2 && i == 0 && !points; s++) /* those of all layers */
            gradients_axes(&mc->means, &mc->feet[c[s]->sensor], &mc->feet[c[!s]->sensor],
                           b->table[i]->kinds, b->of[s].both);
        project(b, c, l, i);
        b->nlayer++;
    }
    b->first = 0, b->last = b->nlayer;
}

/* Gap between the two sides on layer i [m], along the axis where it is largest; < 0: they overlap.
 */
static float gap(const block *b, int i) {
    float least[2][2], most[2][2], widest = -INFINITY;
    for (int s = 0; s < 2; s++)
        for (int a = 0; a < 2; a++) {
            const size_t n = (size_t)b->of[s].n;
            const float *at = (a == 0 ? b->of[s].x : b->of[s].y) + (size_t)i * n;
            least[s][a] = most[s][a] = at[0];
            for (size_t e = 1; e < n; e++) {
                least[s][a] = at[e] < least[s][a] ? at[e] : least[s][a];
                most[s][a] = at[e] > most[s][a] ? at[e] : most[s][a];
            }
        }
    for (int a = 0; a < 2; a++) {
        widest = fmaxf(widest, least[0][a] - most[1][a]);
        widest = fmaxf(widest, least[1][a] - most[0][a]);
    }
    return widest;
}

static void swap_layers(block *b, int i, int j) {
    const matcov_gradient *const table = b->table[i];
    const double coef = b->coef[i];
    const int layer = b->layer[i];
    b->table[i] = b->table[j], b->coef[i] = b->coef[j];
    b->table[j] = table, b->coef[j] = coef;
    b->layer[i] = b->layer[j], b->layer[j] = layer;
    for (int s = 0; s < 2; s++)
        for (int a = 0; a < 2; a++) {
            float *at = a == 0 ? b->of[s].x : b->of[s].y;
            const size_t n = (size_t)b->of[s].n;
            for (size_t e = 0; e < n; e++) {
                const float x = at[(size_t)i * n + e];
                at[(size_t)i * n + e] = at[(size_t)j * n + e];
                at[(size_t)j * n + e] = x;
            }
        }
}

/* Layers where the two sides are near each other come first; returns how many. */
static int near_first(block *b, float reach) {
    int near = 0;
    for (int i = 0; i < b->nlayer; i++)
        if (gap(b, i) < reach)
            swap_layers(b, i, near++);
    return near;
}

/* What partly lit subapertures change of the lines along side s of item k of the other side, on
 * layer l: of points and slopes; of slopes. */
static void add_outlined_points(const block *b, int l, int s, int k, double *line) {
    const side *along = &b->of[s];
    const matcov_cluster *one = b->sides[s], *points = b->sides[0];
    const bool at_point = one->sensor < 0; /* the lines go along points */
    const matcov_cluster *slopes = at_point ? b->sides[!s] : one;
    double c, of[2];
    outline_phase lit;
    if (!outline_open_phase(&b->mc->means, &b->mc->phase, b->layer[l], &b->mc->feet[slopes->sensor],
                            &lit))
        return;
    on_layer(b, b->layer[l], 0, &c, of);
    for (int i = 0; i < along->n; i++) {
        const int p = at_point ? i : k, sub = slopes->sub[at_point ? k : i];
        double e[2] = {0, 0};
        outline_add_phase(&lit, c * points->x[p] + of[0], c * points->y[p] + of[1], sub,
                          formula_phase_scale(1.0), e);
        line[i] += e[0];
        line[i + (at_point ? along->size : along->n)] += e[1];
    }
}

static void add_outlined_slopes(const block *b, int l, int s, int k, double *line) {
    const side *along = &b->of[s];
    const matcov_cluster *one = b->sides[s], *two = b->sides[!s];
    outline_pair pair;
    if (!outline_open(&b->mc->means, &b->mc->slopes, b->layer[l], footprint_of(b->mc, one, s),
                      footprint_of(b->mc, two, !s), &pair))
        return;
    double *const to[4] = {line, line + along->n, line + along->size,
                           line + along->size + along->n};
    outline_add(&pair, along->n, 0, one->sub, two->sub[k], to);
}

static void add_outlines(const block *b, int s, int k, double *line) {
    const bool points = b->sides[0]->sensor < 0 || b->sides[1]->sensor < 0;
    for (int l = b->first; l < b->last; l++)
        if (points)
            add_outlined_points(b, l, s, k, line);
        else
            add_outlined_slopes(b, l, s, k, line);
}

/* Lines along side s, of items k .. k + count of the other side, count <= ITEMS: of both axes of a
 * subaperture, of a point. A layer's tables serve all of them while they are at hand. */
static void evaluate(const block *b, int s, int k, int count, double *line) {
    const side *along = &b->of[s], *across = &b->of[!s];
    const size_t n = (size_t)along->n, size = (size_t)along->size;
    const size_t one = (size_t)across->axes * size, all = (size_t)count * one;
    const gradients *g = &b->mc->means;
    const bool both = along->axes == 2 && across->axes == 2;
    const size_t at[4] = {0, both || s == 1 ? n : size, size, size + n};
    memset(b->sum, 0, all * sizeof *b->sum);
    for (int l = b->first; l < b->last; l++) {
        const gradient_single *table = &b->single[b->table[l] - g->tables];
        const float *x = along->x + (size_t)l * n, *y = along->y + (size_t)l * n;
        const float *const x0 = across->x + (size_t)l * (size_t)across->n + k,
                           *const y0 = across->y + (size_t)l * (size_t)across->n + k;
        const float coef = (float)b->coef[l];
        for (int i = 0; i < count; i++) {
            float *const to = b->sum + (size_t)i * one;
            float *const out[4] = {to + at[0], to + at[1], to + at[2], to + at[3]};
            if (both)
                gradient_add_both(table, along->both, n, x, y, x0[i], y0[i], coef, out);
            else /* an odd function of the point less the slope */
                gradient_add_phase_single(table, b->turn, n, x, y, x0[i], y0[i],
                                          s == 0 ? coef : -coef, out);
        }
    }
    for (size_t i = 0; i < all; i++)
        line[i] = (double)b->sum[i];
    for (int i = 0; i < count; i++)
        add_outlines(b, s, k + i, line + (size_t)i * one);
}

/* line += `sign` times what U V' has of line number `at` of the other side. */
CLONES static void add_product(const block *b, int s, int at, int rank, double sign, double *line) {
    const size_t size = (size_t)b->of[s].size, other = (size_t)b->of[!s].size;
    for (int k = 0; k < rank; k++) {
        const double f = sign * b->factor[!s][(size_t)k * other + (size_t)at];
        const double *u = b->factor[s] + (size_t)k * size;
        for (size_t i = 0; i < size; i++)
            line[i] += f * u[i];
    }
}

/* Residual of the lines of item k of the other side. */
static void take_item(block *b, int s, int k, int first, int rank) {
    const side *across = &b->of[!s];
    evaluate(b, s, k, 1, b->line[s] + (size_t)first * (size_t)b->of[s].size);
    b->of[!s].used[k] = true;
    for (int a = 0; a < across->axes; a++) {
        b->at[!s][first + a] = k + a * across->n;
        add_product(b, s, k + a * across->n, rank, -1,
                    b->line[s] + (size_t)(first + a) * (size_t)b->of[s].size);
    }
}

/* The item of side s not used so far where the lines along it current are largest; -1: all are. */
static int largest(const block *b, int s) {
    const side *o = &b->of[s];
    const size_t size = (size_t)o->size;
    double most = -1;
    int best = -1;
    for (int k = 0; k < o->n; k++) {
        double sum = 0;
        for (int a = 0; a < o->axes; a++)
            for (int i = 0; i < STEP; i++) {
                const double e = b->line[s][(size_t)i * size + (size_t)(k + a * o->n)];
                sum += e * e;
            }
        if (!o->used[k] && sum > most) {
            most = sum;
            best = k;
        }
    }
    return best;
}

static double norm2(const double *v, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    return sum;
}

/* Terms of the current cross: elimination in the 2 x 2 block where rows and columns meet, with the
 * larger pivot first. Adds up their squared norms; returns how many there are. */
static int add_terms(block *b, int rank, double *sum) {
    const size_t m = (size_t)b->of[0].size, n = (size_t)b->of[1].size;
    double *col[2] = {b->line[0], b->line[0] + m}, *row[2] = {b->line[1], b->line[1] + n};
    double meet[2][2], first = 0;
    int p = 0, q = 0, count = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            meet[i][j] = col[j][b->at[0][i]];
            if (fabs(meet[i][j]) > fabs(meet[p][q]))
                p = i, q = j;
        }
    for (; count < STEP; count++, p = !p, q = !q) {
        const double pivot = meet[p][q];
        if (!(fabs(pivot) > PIVOT * first))
            break;
        double *u = b->factor[0] + (size_t)(rank + count) * m;
        double *v = b->factor[1] + (size_t)(rank + count) * n;
        first = fabs(pivot);
        for (size_t i = 0; i < m; i++)
            u[i] = col[q][i];
        for (size_t i = 0; i < n; i++)
            v[i] = row[p][i] / pivot;
        *sum += norm2(u, m) * norm2(v, n);
        for (size_t i = 0; i < m; i++)
            col[!q][i] -= u[i] * (meet[p][!q] / pivot);
        for (size_t i = 0; i < n; i++)
            row[!p][i] -= v[i] * meet[!p][q];
        meet[!p][!q] -= meet[!p][q] * meet[p][!q] / pivot;
    }
    return count;
}

/* Rank of the tile, within `most`; -1: it has none. */
static int cross(block *b, double tol) {
    const double allowed = tol * tol * (double)b->of[0].size * (double)b->of[1].size;
    int rank = 0, next = b->of[1].n / 2;
    while (rank + STEP <= b->most) {
        double sum = 0;
        take_item(b, 0, next, 0, rank);
        for (int first = 0; first < STEP; first += b->of[0].axes) {
            const int k = largest(b, 0);
            if (k < 0)
                return -1;
            take_item(b, 1, k, first, rank);
        }
        next = largest(b, 1); /* before the current rows are eliminated */
        const int count = add_terms(b, rank, &sum);
        rank += count;
        if (sum <= allowed)
            return rank;
        if (next < 0 || count == 0)
            return -1;
    }
    return -1;
}

static status keep(const double *from, size_t n, float **to) {
    status st = ALLOC(*to, n > 0 ? n : 1, "a tile of covariances");
    for (size_t i = 0; st == MOAO_OK && i < n; i++)
        (*to)[i] = (float)from[i];
    return st;
}

/* The block itself, transposed. Layers where the two sides are not near each other are a product of
 * low rank first. */
static status keep_all(block *b, double tol, matcov_tile *t) {
    const side *rows = &b->of[0];
    const size_t n = (size_t)b->of[1].size;
    const float reach = (float)(MATCOV_TILES_REACH * b->mc->feet[t->col->sensor].size);
    status st = ALLOC(t->v, n * (size_t)rows->size, "a tile of covariances");
    int rank = 0;
    if (st == MOAO_OK && rows->n > 0 && n > 0) {
        b->first = near_first(b, reach);
        for (int s = 0; s < 2; s++)
            memset(b->of[s].used, 0, (size_t)b->of[s].n * sizeof *b->of[s].used);
        if (b->nlayer - b->first > FAR)
            rank = cross(b, WHOLE * tol);
        b->last = rank > 0 ? b->first : b->nlayer;
        b->first = 0;
    }
    t->rank = rows->size;
    for (int k = 0, some; st == MOAO_OK && k < rows->n; k += some) {
        some = rows->n - k < ITEMS ? rows->n - k : ITEMS;
        evaluate(b, 1, k, some, b->lines);
        for (int i = 0; i < some * rows->axes; i++) {
            const int row = k + i / rows->axes + i % rows->axes * rows->n;
            double *line = b->lines + (size_t)i * n;
            add_product(b, 1, row, rank, 1, line);
            for (size_t j = 0; j < n; j++)
                t->v[(size_t)row * n + j] = (float)line[j];
        }
    }
    return st;
}

static status make_tile(block *b, double tol, matcov_tile *t) {
    status st = MOAO_OK;
    aim(b, t);
    const size_t m = (size_t)b->of[0].size, n = (size_t)b->of[1].size;
    /* two products of half of the block's entries take as long as one with it */
    b->most = m + n > 0 ? (int)(m * n / (2 * (m + n))) : 0;
    t->u = t->v = NULL;
    t->rank = t->full || m * n == 0 ? -1 : cross(b, tol);
    if (t->rank < 0)
        return keep_all(b, tol, t);
    TRY(keep(b->factor[0], m * (size_t)t->rank, &t->u));
    st = keep(b->factor[1], n * (size_t)t->rank, &t->v);
done:
    return st;
}

/* Memory of a thread for tiles of at most n items a side, of `low` where they are not full. */
static status open_block(const matcov *mc, const matcov_target *mt, const gradient_single *single,
                         size_t n, size_t low, block *b) {
    const size_t nl = (size_t)mc->lay.n, most = low / 2 + 1;
    status st;
    *b = (block){.mc = mc, .mt = mt, .single = single};
    TRY(ALLOC(b->table, nl, "layers of a tile"));
    TRY(ALLOC(b->coef, nl, "layers of a tile"));
    TRY(ALLOC(b->layer, nl, "layers of a tile"));
    TRY(ALLOC(b->sum, ITEMS * 2 * 2 * n, "lines of a tile"));
    TRY(ALLOC(b->lines, ITEMS * 2 * 2 * n, "lines of a tile"));
    for (int s = 0; s < 2; s++) {
        TRY(ALLOC(b->of[s].x, nl * n, "layers of a tile"));
        TRY(ALLOC(b->of[s].y, nl * n, "layers of a tile"));
        TRY(ALLOC(b->of[s].used, n, "a tile"));
        TRY(ALLOC(b->line[s], STEP * 2 * n, "lines of a tile"));
        TRY(ALLOC(b->factor[s], 2 * low * (most + STEP), "a tile"));
    }
done:
    return st;
}

static void close_block(block *b) {
    free(b->table), free(b->coef), free(b->layer), free(b->sum), free(b->lines);
    for (int s = 0; s < 2; s++) {
        free(b->of[s].x), free(b->of[s].y), free(b->of[s].used);
        free(b->line[s]), free(b->factor[s]);
    }
}

bool matcov_tileable(const sys *s) {
    double least = INFINITY, most = 0;
    for (int w = 0; w < s->nsensor; w++) {
        const double size = s->sensors[w].mag / s->sensors[w].nssp;
        if (!s->sensors[w].gradient)
            return false;
        least = fmin(least, size);
        most = fmax(most, size);
    }
    return most <= GRADIENT_RATIO * least;
}

/* In single precision, those that the tiles need. */
static status take_tables(const matcov *mc, int ntile, const matcov_tile *tile,
                          gradient_single **single, float **values) {
    const gradients *g = &mc->means;
    bool *wanted = NULL;
    double scale;
    status st = ALLOC(wanted, (size_t)g->ntable, "tables of covariances");
    for (int i = 0; i < ntile && st == MOAO_OK; i++)
        for (int l = 0; l < mc->lay.n; l++) {
            const matcov_gradient *t = table_of(mc, &tile[i], l, &scale);
            if (t != NULL)
                wanted[t - g->tables] = true;
        }
    if (st == MOAO_OK)
        st = gradients_single(g, wanted, single, values);
    free(wanted);
    return st;
}

status matcov_tiles(const matcov *mc, const matcov_target *mt, double tol, int ntile,
                    matcov_tile *tile) {
    size_t most = 1, low = 1;
    gradient_single *single = NULL;
    float *values = NULL;
    status worst = MOAO_OK;
    for (int i = 0; i < ntile; i++) {
        const int one = tile[i].row->n, two = tile[i].col->n, n = one > two ? one : two;
        most = (size_t)n > most ? (size_t)n : most;
        low = !tile[i].full && (size_t)n > low ? (size_t)n : low;
        tile[i].u = tile[i].v = NULL;
    }
    worst = take_tables(mc, ntile, tile, &single, &values);
#pragma omp parallel
    {
        block b = {0};
        status st = worst == MOAO_OK ? open_block(mc, mt, single, most, low, &b) : worst;
#pragma omp for schedule(dynamic)
        for (int i = 0; i < ntile; i++)
            if (st == MOAO_OK)
                st = make_tile(&b, tol, &tile[i]);
        close_block(&b);
#pragma omp critical
        worst = st != MOAO_OK ? st : worst;
    }
    free(single), free(values);
    if (worst == MOAO_OK)
        return worst;
    matcov_tiles_free(ntile, tile);
    return status_fail(worst,
                       "no memory for tiles of covariances; use a smaller compute.memory, or "
                       "another compute.product");
}

void matcov_tiles_free(int ntile, matcov_tile *tile) {
    for (int i = 0; i < ntile; i++) {
        free(tile[i].u), free(tile[i].v);
        tile[i].u = tile[i].v = NULL;
    }
}
