/* Blocks of covariances as products of low rank, by adaptive cross approximation: rows and columns
 * of the block, evaluated where what is left of it is largest, are subtracted until little is left
 * (Bebendorf, Approximation of boundary element matrices, Numer. Math. 86, 2000). One evaluation of
 * the tables gives both axes of both subapertures, so that a cross is of two rows and two columns.
 */
#include "formula.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A step adds rank 2 at most. What is left is about the last step: tol is for this share of it. */
#define STEP 2
/* Pivots that small against the first of a step are rounding. */
#define PIVOT 1e-6

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
    const matcov_gradient **table; /* [nlayer] of both */
    double *coef;
    double turn[2];
    int most;            /* rank */
    double *factor[2];   /* U and V: size x most */
    double *line[2];     /* [STEP][size] residuals of two columns, of two rows */
    float *far;          /* [STEP][size] what is not near of lines that are evaluated */
    const float *radial; /* of all tables (gradient_single) */
    int at[2][STEP];     /* where these columns are among the columns, these rows among the rows */
} block;

/* Place of the pupil p on layer l, of a sensor or of the target: c p + offset [m]. */
static void on_layer(const block *b, int l, const matcov_cluster *of, double *c, double offset[2]) {
    const layers *lay = &b->mc->lay;
    const footprint *f = of->sensor < 0 ? &b->mt->ts : &b->mc->feet[of->sensor];
    const double drift[2] = {f->drifts ? lay->drift[0][l] : 0, f->drifts ? lay->drift[1][l] : 0};
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
        on_layer(b, l, k, &c, offset);
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

/* The layers of a tile, and its two sides on them. */
static void aim(block *b, const matcov_tile *t) {
    const matcov *mc = b->mc;
    const layers *lay = &mc->lay;
    const matcov_cluster *const c[2] = {t->row, t->col};
    const bool points = c[0]->sensor < 0;
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
        if (points)
            b->table[i] = gradients_phase(&mc->means, l, cols, &scale);
        else
            b->table[i] = gradients_table(&mc->means, l, &mc->feet[c[0]->sensor], cols, &scale);
        if (b->table[i] == NULL)
            continue;
        b->coef[i] = scale * lay->coef[l];
        for (int s = 0; s < 2 && i == 0 && !points; s++) /* those of all layers */
            gradients_axes(&mc->means, &mc->feet[c[s]->sensor], &mc->feet[c[!s]->sensor],
                           b->table[i]->kinds, b->of[s].both);
        project(b, c, l, i);
        b->nlayer++;
    }
}

/* Lines along side s, of item k of the other side: of both axes of a subaperture, of a point. */
static void evaluate(const block *b, int s, int k, double *line) {
    const side *along = &b->of[s], *across = &b->of[!s];
    const size_t n = (size_t)along->n, size = (size_t)along->size;
    const size_t all = (size_t)across->axes * size;
    const gradients *g = &b->mc->means;
    const bool both = along->axes == 2 && across->axes == 2;
    const size_t at[4] = {0, both || s == 1 ? n : size, size, size + n};
    float *far[4];
    double *near[4];
    for (int i = 0; i < (both ? 4 : 2); i++)
        far[i] = b->far + at[i], near[i] = line + at[i];
    memset(line, 0, all * sizeof *line);
    memset(b->far, 0, all * sizeof *b->far);
    for (int l = 0; l < b->nlayer; l++) {
        const gradient_single table = {b->table[l], g->values,
                                       b->radial + (b->table[l] - g->tables) * GRADIENT_LINES};
        const float *x = along->x + (size_t)l * n, *y = along->y + (size_t)l * n;
        const size_t of = (size_t)l * (size_t)across->n + (size_t)k;
        if (both)
            gradient_add_both(&table, along->both, n, x, y, across->x[of], across->y[of],
                              b->coef[l], far, near);
        else /* an odd function of the point less the slope */
            gradient_add_phase_single(&table, b->turn, n, x, y, across->x[of], across->y[of],
                                      s == 0 ? b->coef[l] : -b->coef[l], far, near);
    }
    for (size_t i = 0; i < all; i++)
        line[i] += (double)b->far[i];
}

/* line := line of the block number `at` of the other side, less what U V' has of it. */
static void subtract(const block *b, int s, int at, int rank, double *line) {
    const size_t size = (size_t)b->of[s].size, other = (size_t)b->of[!s].size;
    for (int k = 0; k < rank; k++) {
        const double f = b->factor[!s][(size_t)k * other + (size_t)at];
        const double *u = b->factor[s] + (size_t)k * size;
        for (size_t i = 0; i < size; i++)
            line[i] -= f * u[i];
    }
}

/* Residual of the lines of item k of the other side. */
static void take_item(block *b, int s, int k, int first, int rank) {
    const side *across = &b->of[!s];
    evaluate(b, s, k, b->line[s] + (size_t)first * (size_t)b->of[s].size);
    b->of[!s].used[k] = true;
    for (int a = 0; a < across->axes; a++) {
        b->at[!s][first + a] = k + a * across->n;
        subtract(b, s, k + a * across->n, rank,
                 b->line[s] + (size_t)(first + a) * (size_t)b->of[s].size);
    }
}

/* The item of side s not used so far where the lines along it in hand are largest; -1: all are. */
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

/* Terms of the cross in hand: elimination in the 2 x 2 block where rows and columns meet, with the
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
        next = largest(b, 1); /* before the rows in hand are eliminated */
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

/* The block itself, transposed. */
static status keep_all(block *b, matcov_tile *t) {
    const side *rows = &b->of[0];
    const size_t n = (size_t)b->of[1].size;
    status st = ALLOC(t->v, n * (size_t)rows->size, "a tile of covariances");
    t->rank = rows->size;
    for (int k = 0; st == MOAO_OK && k < rows->n; k++) {
        evaluate(b, 1, k, b->line[1]);
        for (int a = 0; a < rows->axes; a++)
            for (size_t j = 0; j < n; j++)
                t->v[(size_t)(k + a * rows->n) * n + j] = (float)b->line[1][(size_t)a * n + j];
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
        return keep_all(b, t);
    TRY(keep(b->factor[0], m * (size_t)t->rank, &t->u));
    st = keep(b->factor[1], n * (size_t)t->rank, &t->v);
done:
    return st;
}

/* Memory of a thread for tiles of at most n items a side. */
static status open_block(const matcov *mc, const matcov_target *mt, const float *radial, size_t n,
                         block *b) {
    const size_t nl = (size_t)mc->lay.n, most = n / 2 + 1;
    status st;
    *b = (block){.mc = mc, .mt = mt, .radial = radial};
    TRY(ALLOC(b->table, nl, "layers of a tile"));
    TRY(ALLOC(b->coef, nl, "layers of a tile"));
    TRY(ALLOC(b->far, STEP * 2 * n, "lines of a tile"));
    for (int s = 0; s < 2; s++) {
        TRY(ALLOC(b->of[s].x, nl * n, "layers of a tile"));
        TRY(ALLOC(b->of[s].y, nl * n, "layers of a tile"));
        TRY(ALLOC(b->of[s].used, n, "a tile"));
        TRY(ALLOC(b->line[s], STEP * 2 * n, "lines of a tile"));
        TRY(ALLOC(b->factor[s], 2 * n * (most + STEP), "a tile"));
    }
done:
    return st;
}

static void close_block(block *b) {
    free(b->table), free(b->coef), free(b->far);
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

status matcov_tiles(const matcov *mc, const matcov_target *mt, double tol, int ntile,
                    matcov_tile *tile) {
    size_t most = 1;
    float *radial = NULL;
    status worst = gradients_single(&mc->means, &radial);
    if (worst != MOAO_OK)
        return worst;
    for (int i = 0; i < ntile; i++) {
        most = (size_t)tile[i].row->n > most ? (size_t)tile[i].row->n : most;
        most = (size_t)tile[i].col->n > most ? (size_t)tile[i].col->n : most;
        tile[i].u = tile[i].v = NULL;
    }
#pragma omp parallel
    {
        block b;
        status st = open_block(mc, mt, radial, most, &b);
#pragma omp for schedule(dynamic)
        for (int i = 0; i < ntile; i++)
            if (st == MOAO_OK)
                st = make_tile(&b, tol, &tile[i]);
        close_block(&b);
#pragma omp critical
        worst = st != MOAO_OK ? st : worst;
    }
    free(radial);
    if (worst == MOAO_OK)
        return worst;
    matcov_tiles_free(ntile, tile);
    return status_fail(worst,
                       "no memory for tiles of covariances; use a smaller compute.memory, or "
                       "another compute.format");
}

void matcov_tiles_free(int ntile, matcov_tile *tile) {
    for (int i = 0; i < ntile; i++) {
        free(tile[i].u), free(tile[i].v);
        tile[i].u = tile[i].v = NULL;
    }
}
