#include "residual/pair_tiles.h"

#include "moao/cpu_threads.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Memory is taken with one part in so many to spare. */
#define GROWTH 16

/* Numbers of work that products are content with, and rows of W that a thread takes at a time. */
#define WORK ((size_t)64 << 20)
#define ROWS 256

static int square_of(double at, int n) {
    const int i = (int)(at * n);
    return i < 0 ? 0 : i < n ? i : n - 1;
}

/* Cluster of square `square` of sensor w, number k: its subapertures are appended to the list. */
static status add_cluster(const sensor *o, int w, int square, clusters *c, int *nsub) {
    matcov_cluster *k = &c->cluster[c->ncluster];
    int64_t *column;
    status st;
    *k = (matcov_cluster){.sensor = w, .sub = c->sub + *nsub};
    for (int i = 0; i < o->nsub; i++) {
        const double x = (o->sub[i] % o->nssp + 0.5) / o->nssp,
                     y = (o->sub[i] / o->nssp + 0.5) / o->nssp;
        if (square_of(x, c->n) + c->n * square_of(y, c->n) == square)
            c->sub[*nsub + k->n++] = i;
    }
    if (k->n == 0)
        return MOAO_OK;
    TRY(ALLOC(column, 2 * (size_t)k->n, "clusters of subapertures"));
    for (int i = 0; i < 2 * k->n; i++)
        column[i] =
            (int64_t)o->first + (i < k->n ? k->sub[i] : (int64_t)o->nsub + k->sub[i - k->n]);
    c->column[c->ncluster] = column;
    c->square[c->ncluster++] = square;
    c->most = 2 * k->n > c->most ? 2 * k->n : c->most;
    *nsub += k->n;
done:
    return st;
}

/* The same of points. */
static status add_points(const sys *s, int square, int64_t np, const double *x, const double *y,
                         clusters *c, int64_t *from) {
    matcov_cluster *k = &c->cluster[c->ncluster];
    int64_t *column;
    status st = ALLOC(column, (size_t)np, "clusters of points");
    if (st != MOAO_OK)
        return st;
    *k = (matcov_cluster){.sensor = -1, .x = c->at[0] + *from, .y = c->at[1] + *from};
    for (int64_t i = 0; i < np; i++)
        if (square_of(x[i] / s->diameter + 0.5, c->n) +
                c->n * square_of(y[i] / s->diameter + 0.5, c->n) ==
            square) {
            c->at[0][*from + k->n] = x[i];
            c->at[1][*from + k->n] = y[i];
            column[k->n++] = i;
        }
    if (k->n == 0) {
        free(column);
        return st;
    }
    c->column[c->ncluster] = column;
    c->square[c->ncluster++] = square;
    c->most = k->n > c->most ? k->n : c->most;
    *from += k->n;
    return st;
}

status clusters_init(const sys *s, int64_t np, const double *x, const double *y, clusters *c) {
    int nsub = 0;
    int64_t from = 0;
    status st;
    *c = (clusters){0};
    c->n = pair_tiles_squares(s);
    const size_t most = (size_t)(s->nsensor + 1) * (size_t)(c->n * c->n);
    TRY(ALLOC(c->cluster, most, "clusters"));
    TRY(ALLOC(c->square, most, "clusters"));
    TRY(ALLOC(c->column, most, "clusters"));
    TRY(ALLOC(c->sub, s->m / 2, "clusters"));
    for (int i = 0; i < 2; i++)
        TRY(ALLOC(c->at[i], (size_t)np, "clusters"));
    for (int w = 0; w <= s->nsensor; w++)
        for (int square = 0; square < c->n * c->n; square++)
            if (w < s->nsensor)
                TRY(add_cluster(&s->sensors[w], w, square, c, &nsub));
            else
                TRY(add_points(s, square, np, x, y, c, &from));
done:
    return st;
}

void clusters_free(clusters *c) {
    for (int k = 0; k < c->ncluster; k++)
        free(c->column[k]);
    free(c->cluster), free(c->square), free(c->column), free(c->sub);
    free(c->at[0]), free(c->at[1]);
    *c = (clusters){0};
}

/* Whether two squares are the same or have an edge in common: blocks of such are hardly ever of a
 * rank that is low enough (bench/results/cpu-tiles.txt). */
static bool adjacent(const clusters *c, int a, int b) {
    const int x = c->square[a] % c->n - c->square[b] % c->n,
              y = c->square[a] / c->n - c->square[b] / c->n;
    return x * x + y * y <= 1;
}

static int size_of(const matcov_cluster *k) {
    return k->sensor < 0 ? k->n : 2 * k->n;
}

status pair_tiles_init(const clusters *c, const int *of, bool points, pair_tiles_memory *m,
                       tiling *t) {
    status st = MOAO_OK;
    *t = (tiling){.c = c, .memory = m};
    for (int pass = 0; pass < 2; pass++) {
        t->ntile = 0;
        for (int a = 0; a < c->ncluster; a++)
            for (int b = 0; b < c->ncluster; b++) {
                const int one = c->cluster[a].sensor, two = c->cluster[b].sensor;
                if (two < 0 || (one < 0) != points || (!points && of[one] >= of[two]))
                    continue;
                if (pass == 1) {
                    t->out[t->ntile] = a;
                    t->in[t->ntile] = b;
                    t->tile[t->ntile] = (matcov_tile){
                        .row = &c->cluster[a], .col = &c->cluster[b], .full = adjacent(c, a, b)};
                }
                t->ntile++;
            }
        if (pass == 0) {
            TRY(ALLOC(t->tile, (size_t)t->ntile, "tiles"));
            TRY(ALLOC(t->out, (size_t)t->ntile, "tiles"));
            TRY(ALLOC(t->in, (size_t)t->ntile, "tiles"));
            for (int s = 0; s < 2; s++)
                TRY(ALLOC(t->at[s], (size_t)t->ntile, "tiles"));
        }
    }
done:
    return st;
}

void pair_tiles_free(tiling *t) {
    free(t->tile), free(t->out), free(t->in), free(t->at[0]), free(t->at[1]);
    *t = (tiling){0};
}

void pair_tiles_memory_free(pair_tiles_memory *m) {
    free(m->at[0]), free(m->at[1]);
    *m = (pair_tiles_memory){0};
}

/* Of side s; what is there is lost. */
static status take_memory(pair_tiles_memory *m, int s, size_t count) {
    status st = MOAO_OK;
    if (m->at[s] != NULL && count <= m->room[s])
        return st;
    free(m->at[s]);
    m->at[s] = NULL;
    m->room[s] = count + count / GROWTH; /* ranks of the next exposure differ a little */
    st = ALLOC(m->at[s], m->room[s], "covariances of clusters");
    return st;
}

/* Factors of all tiles side by side: s = 0: U by clusters `out`, 1: V by clusters `in`. */
static status pack(tiling *t, int s) {
    const int *of = s == 0 ? t->out : t->in;
    size_t count = 0;
    int64_t at = 0;
    status st;
    for (int i = 0; i < t->ntile; i++)
        count += s == 1 || t->tile[i].u != NULL
                     ? (size_t)t->tile[i].rank * (size_t)size_of(&t->c->cluster[of[i]])
                     : 0;
    TRY(take_memory(t->memory, s, count));
    for (int k = 0; k < t->c->ncluster; k++)
        for (int i = 0; i < t->ntile; i++) {
            const float *from = s == 0 ? t->tile[i].u : t->tile[i].v;
            const int64_t n = (int64_t)t->tile[i].rank * size_of(&t->c->cluster[k]);
            if (of[i] != k)
                continue;
            t->at[s][i] = from != NULL ? at : -1;
            if (from == NULL)
                continue;
            memcpy(t->memory->at[s] + at, from, (size_t)n * sizeof(float));
            at += n;
        }
done:
    return st;
}

status pair_tiles_fill(engine *e, backend_cov_target *target, double tol, tiling *t) {
    status st;
    TRY(e->mat->tiles(e->cov, target, tol, t->ntile, t->tile));
    st = pack(t, 0);
    if (st == MOAO_OK)
        st = pack(t, 1);
    matcov_tiles_free(t->ntile, t->tile);
    t->low = 0;
    for (int i = 0; st == MOAO_OK && i < t->ntile; i++)
        t->low += t->at[0][i] >= 0 ? t->tile[i].rank : 0;
done:
    return st;
}

/* The largest cluster, and the sum of the ranks of a cluster's tiles, of which the second stage
 * takes a largest cluster, too. */
static int64_t widest(const tiling *t) {
    int64_t wide = t->c->most;
    for (int k = 0; k < t->c->ncluster; k++) {
        int64_t rank = 0;
        for (int i = 0; i < t->ntile; i++)
            rank += t->in[i] == k ? t->tile[i].rank : 0;
        wide = rank > wide ? rank : wide;
    }
    return wide;
}

int64_t pair_tiles_row(const tiling *t) {
    return t->c->most + widest(t) + t->low;
}

/* A bound of pair_tiles_row: of a tile the rank is at most half of the side of `in`, or, where
 * squares are the same or neighbours, as three of them at least are of n x n, it is full: the side
 * of `out`.
 */
static size_t widest_row(const sys *s, int64_t points) {
    const size_t n = (size_t)pair_tiles_squares(s),
                 side = (size_t)points > s->m ? (size_t)points : s->m;
    const size_t far = n > 1 ? (size_t)s->nsensor * (n * n - 3) : 0;
    return s->m * ((far + 1) / 2) + 2 * side;
}

size_t pair_tiles_work(const sys *s, int64_t points, int64_t v) {
    const size_t row = widest_row(s, points), all = row * (size_t)v;
    return all < WORK ? all : row < WORK ? WORK : row;
}

size_t pair_tiles_work_touched(const sys *s, int64_t points, int64_t v) {
    const size_t rows = (size_t)(v < ROWS ? v : ROWS), threads = (size_t)omp_get_max_threads();
    const size_t used = widest_row(s, points) * rows * threads, all = pair_tiles_work(s, points, v);
    return used < all ? used : all;
}

typedef struct { /* rows of W current */
    engine *e;
    const tiling *t;
    int64_t rows, ld;
    const float *x;
    float *y;
    float *lines, *wide, *low; /* rows x most, x ranks of a cluster `in`, x ranks of all tiles */
} pass;

static status gemm(const pass *p, char tb, int64_t n, int64_t k, const float *a, const float *b,
                   int64_t ldb, float *c) {
    const float one = 1, zero = 0;
    const engine *e = p->e;
    return e->be->gemm(e->ctx, BACKEND_S, 'N', tb, p->rows, n, k, &one, a, p->rows, b, ldb, &zero,
                       c, p->rows, e->work, e->lwork);
}

/* y += the columns of cluster k current. */
static void add_columns(const pass *p, int k, const float *from) {
    const int n = size_of(&p->t->c->cluster[k]);
    for (int j = 0; j < n; j++) {
        float *to = p->y + p->t->c->column[k][j] * p->ld;
        for (int64_t i = 0; i < p->rows; i++)
            to[i] += from[(int64_t)j * p->rows + i];
    }
}

/* x of cluster k times V of all its tiles: of full ones the result, of others a part of `low`. */
static status first_stage(const pass *p, int k) {
    const tiling *t = p->t;
    const int size = size_of(&t->c->cluster[k]);
    const float *v = NULL;
    int64_t rank = 0, at = 0, low = 0;
    status st = MOAO_OK;
    for (int i = 0; i < t->ntile; i++)
        if (t->in[i] == k) {
            v = rank == 0 ? t->memory->at[1] + t->at[1][i] : v;
            rank += t->tile[i].rank;
        }
    if (rank == 0)
        return st;
    for (int j = 0; j < size; j++)
        memcpy(p->lines + j * p->rows, p->x + t->c->column[k][j] * p->ld,
               (size_t)p->rows * sizeof(float));
    TRY(gemm(p, 'N', rank, size, p->lines, v, size, p->wide));
    for (int i = 0; i < t->ntile; i++) {
        const int64_t r = t->tile[i].rank;
        const bool full = t->at[0][i] < 0;
        if (t->in[i] == k && full)
            add_columns(p, t->out[i], p->wide + at * p->rows);
        else if (t->in[i] == k)
            memcpy(p->low + low * p->rows, p->wide + at * p->rows,
                   (size_t)(r * p->rows) * sizeof(float));
        at += t->in[i] == k ? r : 0;
        low += full ? 0 : r;
    }
done:
    return st;
}

/* The others, by clusters `out`. */
static status second_stage(const pass *p) {
    const tiling *t = p->t;
    int64_t low = 0, rank;
    status st = MOAO_OK;
    for (int i = 0, k; i < t->ntile; low += rank) {
        const float *u = NULL;
        for (k = t->out[i], rank = 0; i < t->ntile && t->out[i] == k; i++)
            if (t->at[0][i] >= 0) {
                u = rank == 0 ? t->memory->at[0] + t->at[0][i] : u;
                rank += t->tile[i].rank;
            }
        const int size = size_of(&t->c->cluster[k]);
        if (rank == 0)
            continue;
        TRY(gemm(p, 'T', size, rank, p->low + low * p->rows, u, size, p->wide));
        add_columns(p, k, p->wide);
    }
done:
    return st;
}

static status one_pass(const pass *p) {
    status st = MOAO_OK;
    for (int k = 0; k < p->t->c->ncluster && st == MOAO_OK; k++)
        st = first_stage(p, k);
    return st == MOAO_OK ? second_stage(p) : st;
}

/* Products are small: the rows are shared out instead, in the same blocks for any number of
 * threads, as far as the work goes round. */
status pair_tiles_apply(engine *e, const tiling *t, int64_t v, const float *x, float *y,
                        float *work, size_t lwork) {
    const int64_t most = t->c->most, wide = widest(t), one = pair_tiles_row(t);
    status worst = MOAO_OK;
    const int64_t room = (int64_t)lwork / (one > 0 ? one : 1);
    const int64_t step = room < ROWS ? room : ROWS, at_once = step > 0 ? room / step : 0;
    const int threads = at_once < omp_get_max_threads() ? (int)at_once : omp_get_max_threads();
    if (step < 1)
        return status_fail(MOAO_INTERNAL,
                           "products by tiles: work for %zu numbers, one row takes %lld", lwork,
                           (long long)one);
    const int blas = blas_alone();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < v; i += step) {
        float *own = work + omp_get_thread_num() * one * step;
        const pass p = {.e = e,
                        .t = t,
                        .rows = v - i < step ? v - i : step,
                        .ld = v,
                        .x = x + i,
                        .y = y + i,
                        .lines = own,
                        .wide = own + most * step,
                        .low = own + (most + wide) * step};
        const status mine = one_pass(&p);
        if (mine != MOAO_OK) {
#pragma omp critical
            worst = mine;
        }
    }
    blas_together(blas);
    return worst;
}
