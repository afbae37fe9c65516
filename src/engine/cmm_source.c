#include "engine/cmm_source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Indices of a list that are no further from each other are filled together. */
#define GAP 3

typedef struct {
    engine *e;
    const profile *p;
    unsigned with;
    double *at;   /* [m][dim] */
    double apart; /* coordinates of two sensors in the third dimension [m] */
} source;

/* --- where measurements are */

/* As in matcov/geometry.c. */
void cmm_place(const sys *s, int w, int k, double at[2]) {
    const sensor *o = &s->sensors[w];
    const double d = s->diameter / o->nssp, c = o->mag * cos(o->rot), n = o->mag * sin(o->rot);
    const double u = (o->sub[k] % o->nssp + 0.5 - 0.5 * o->nssp) * d;
    const double v = (o->sub[k] / o->nssp + 0.5 - 0.5 * o->nssp) * d;
    at[0] = c * u - n * v + o->shift[0];
    at[1] = n * u + c * v + o->shift[1];
}

static void place(const sys *s, int w, double apart, int dim, double *at) {
    const sensor *o = &s->sensors[w];
    for (int k = 0; k < 2 * o->nsub; k++) {
        double *to = at + (o->first + (size_t)k) * (size_t)dim;
        cmm_place(s, w, k % o->nsub, to);
        if (dim > 2)
            to[2] = w * apart;
    }
}

/* Shadow on a layer of a box of the pupil, subapertures of size d at its edges, towards a star. */
typedef struct {
    double low[2], high[2];
} shadow;

static shadow shadow_of(const sensor *o, double h, double d, const double *low,
                        const double *high) {
    const double cone = isinf(o->altitude) ? 1 : 1 - h / o->altitude;
    shadow z;
    for (int i = 0; i < 2; i++) {
        z.low[i] = cone * (low[i] - d / 2) + h * o->dir[i];
        z.high[i] = cone * (high[i] + d / 2) + h * o->dir[i];
    }
    return z;
}

/* Distance of two shadows in units of their mean diameter. */
static double ratio(const shadow *a, const shadow *b) {
    double gap = 0, one = 0, two = 0;
    for (int i = 0; i < 2; i++) {
        const double g = fmax(fmax(a->low[i] - b->high[i], b->low[i] - a->high[i]), 0);
        gap += g * g;
        one += (a->high[i] - a->low[i]) * (a->high[i] - a->low[i]);
        two += (b->high[i] - b->low[i]) * (b->high[i] - b->low[i]);
    }
    return 2 * sqrt(gap) / (sqrt(one) + sqrt(two));
}

/* The least ratio of all layers that both see; 0 where a box is of several sensors. */
static double apart(void *from, const double *low_a, const double *high_a, const double *low_b,
                    const double *high_b) {
    const source *x = from;
    const sys *s = x->e->s;
    double least = INFINITY;
    if (low_a[2] != high_a[2] || low_b[2] != high_b[2])
        return 0;
    const sensor *a = &s->sensors[lround(low_a[2] / x->apart)];
    const sensor *b = &s->sensors[lround(low_b[2] / x->apart)];
    for (int l = 0; l < x->p->nlayer; l++) {
        const double h = x->p->h[l];
        if (x->p->strength[l] == 0 || h >= a->altitude || h >= b->altitude)
            continue;
        const shadow one = shadow_of(a, h, a->mag * s->diameter / a->nssp, low_a, high_a);
        const shadow two = shadow_of(b, h, b->mag * s->diameter / b->nssp, low_b, high_b);
        least = fmin(least, ratio(&one, &two));
    }
    return least;
}

/* --- entries */

/* An index of a list, and its number there. */
typedef struct {
    int index;
    int64_t number;
} item;

/* A list of indices in increasing order, in spans without large gaps. */
typedef struct {
    int64_t spans;
    item *item;
    int64_t *first; /* of span i its first item; first[spans]: their number */
} sorted;

static void sorted_free(sorted *z) {
    free(z->item), free(z->first);
}

static int by_index(const void *a, const void *b) {
    const item *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

static status sort(const int *index, int64_t n, sorted *z) {
    status st;
    TRY(ALLOC(z->item, (size_t)n, "entries"));
    TRY(ALLOC(z->first, (size_t)n + 1, "entries"));
    for (int64_t k = 0; k < n; k++)
        z->item[k] = (item){index[k], k};
    qsort(z->item, (size_t)n, sizeof *z->item, by_index);
    for (int64_t k = 0; k < n; k++)
        if (k == 0 || z->item[k].index - z->item[k - 1].index > GAP)
            z->first[z->spans++] = k;
    z->first[z->spans] = n;
done:
    return st;
}

static int64_t span_first(const sorted *z, int64_t i) {
    return z->item[z->first[i]].index;
}

static int64_t span_size(const sorted *z, int64_t i) {
    return z->item[z->first[i + 1] - 1].index - span_first(z, i) + 1;
}

static int64_t longest(const sorted *z) {
    int64_t most = 1;
    for (int64_t i = 0; i < z->spans; i++)
        most = span_size(z, i) > most ? span_size(z, i) : most;
    return most;
}

/* A copy of the backend's memory, or back. */
static status transfer(engine *e, void *to, const void *from, size_t bytes) {
    const int64_t n = (int64_t)bytes;
    const status st = n > 0 ? e->be->copy(e->ctx, to, n, from, n, n, 1) : MOAO_OK;
    return st == MOAO_OK ? e->be->sync(e->ctx) : st;
}

/* Where a block is put together. */
typedef struct {
    size_t size; /* of a number */
    void *panel; /* a span of rows with one of columns: the backend's memory, */
    char *host;  /* and the host's */
    char *block; /* ld x n, as it is stored; host */
    int64_t ld;
    bool turned;
} assembly;

/* Entries of spans i and j from the panel into the block. */
static void pick(const assembly *w, const sorted *r, const sorted *c, int64_t i, int64_t j) {
    const int64_t r0 = span_first(r, i), c0 = span_first(c, j), ni = span_size(r, i);
    for (int64_t k = r->first[i]; k < r->first[i + 1]; k++)
        for (int64_t l = c->first[j]; l < c->first[j + 1]; l++) {
            const int64_t row = r->item[k].number, col = c->item[l].number;
            const int64_t to = w->turned ? col + row * w->ld : row + col * w->ld;
            const int64_t at = r->item[k].index - r0 + (c->item[l].index - c0) * ni;
            memcpy(w->block + w->size * (size_t)to, w->host + w->size * (size_t)at, w->size);
        }
}

static status fill_spans(const source *x, backend_type t, const sorted *r, const sorted *c,
                         const assembly *w) {
    engine *e = x->e;
    status st = MOAO_OK;
    for (int64_t i = 0; i < r->spans; i++)
        for (int64_t j = 0; j < c->spans; j++) {
            const int64_t ni = span_size(r, i), nj = span_size(c, j);
            TRY(e->mat->fill_cmm(e->cov, t, 'A', x->with, span_first(r, i), ni, span_first(c, j),
                                 nj, w->panel, ni));
            TRY(transfer(e, w->host, w->panel, w->size * (size_t)(ni * nj)));
            pick(w, r, c, i, j);
        }
done:
    return st;
}

/* One block, m x n, of lists on the host, to `a` of the backend. */
static status block_of(const source *x, backend_type t, const int *rows, int64_t m, const int *cols,
                       int64_t n, void *a, int64_t lda, bool turned) {
    engine *e = x->e;
    const int64_t high = turned ? n : m, wide = turned ? m : n;
    assembly w = {.size = backend_size(t), .ld = high, .turned = turned};
    sorted r = {0}, c = {0};
    status st = MOAO_OK;
    if (m == 0 || n == 0)
        return MOAO_OK;
    TRY(sort(rows, m, &r));
    TRY(sort(cols, n, &c));
    const size_t most = (size_t)(longest(&r) * longest(&c));
    TRY(e->be->alloc(e->ctx, w.size * most, &w.panel));
    TRY(mem_alloc((void **)&w.host, most, w.size, "entries"));
    TRY(mem_alloc((void **)&w.block, (size_t)(m * n), w.size, "entries"));
    TRY(fill_spans(x, t, &r, &c, &w));
    const int64_t column = (int64_t)w.size * high, ld = (int64_t)w.size * lda;
    TRY(e->be->copy(e->ctx, a, ld, w.block, column, column, wide));
    TRY(e->be->sync(e->ctx));
done:
    e->be->release(e->ctx, w.panel);
    free(w.host), free(w.block);
    sorted_free(&r), sorted_free(&c);
    return st;
}

/* Sizes of the blocks, on the host. */
static status sizes(engine *e, const batch_dim *d, int64_t count, int64_t *to) {
    for (int64_t b = 0; b < count; b++)
        to[b] = d->n;
    return d->each != NULL ? transfer(e, to, d->each, sizeof *to * (size_t)count) : MOAO_OK;
}

/* Pointers of blocks, and the lists of one of them. */
typedef struct {
    int64_t *m, *n, *ld;
    const int **rows, **cols;
    void **a;
    int *row, *col;
} fetched;

static void fetched_free(fetched *f) {
    free(f->m), free(f->n), free(f->ld), free(f->rows), free(f->cols);
    free(f->a), free(f->row), free(f->col);
}

static status fetch(engine *e, const hier_blocks *q, fetched *f) {
    const size_t count = (size_t)q->count;
    int64_t rows = 0, cols = 0;
    status st;
    TRY(ALLOC(f->m, count, "blocks of entries"));
    TRY(ALLOC(f->n, count, "blocks of entries"));
    TRY(ALLOC(f->rows, count, "blocks of entries"));
    TRY(ALLOC(f->cols, count, "blocks of entries"));
    TRY(ALLOC(f->a, count, "blocks of entries"));
    TRY(ALLOC(f->ld, count, "blocks of entries"));
    TRY(sizes(e, &q->m, q->count, f->m));
    TRY(sizes(e, &q->n, q->count, f->n));
    TRY(sizes(e, &(batch_dim){q->a.ld, q->a.lds}, q->count, f->ld));
    TRY(transfer(e, f->rows, q->rows, sizeof *f->rows * count));
    TRY(transfer(e, f->cols, q->cols, sizeof *f->cols * count));
    if (q->a.ptrs != NULL)
        TRY(transfer(e, f->a, q->a.ptrs, sizeof *f->a * count));
    for (size_t b = 0; b < count; b++) {
        rows = f->m[b] > rows ? f->m[b] : rows;
        cols = f->n[b] > cols ? f->n[b] : cols;
    }
    TRY(ALLOC(f->row, (size_t)rows, "blocks of entries"));
    TRY(ALLOC(f->col, (size_t)cols, "blocks of entries"));
done:
    return st;
}

static status gather(void *from, backend_ctx *ctx, backend_type t, const hier_blocks *q) {
    const source *x = from;
    engine *e = x->e;
    fetched f = {0};
    status st;
    (void)ctx;
    TRY(fetch(e, q, &f));
    for (int64_t b = 0; b < q->count; b++) {
        char *to = q->a.ptrs != NULL
                       ? f.a[b]
                       : (char *)q->a.base + (int64_t)backend_size(t) * b * q->a.stride;
        TRY(transfer(e, f.row, f.rows[b], sizeof *f.row * (size_t)f.m[b]));
        TRY(transfer(e, f.col, f.cols[b], sizeof *f.col * (size_t)f.n[b]));
        TRY(block_of(x, t, f.row, f.m[b], f.col, f.n[b], to, f.ld[b], q->turned));
    }
done:
    fetched_free(&f);
    return st;
}

static status block(void *from, backend_ctx *ctx, backend_type t, int64_t i0, int64_t ni,
                    int64_t j0, int64_t nj, void *a, int64_t lda) {
    const source *x = from;
    (void)ctx;
    return x->e->mat->fill_cmm(x->e->cov, t, 'A', x->with, i0, ni, j0, nj, a, lda);
}

/* --- life */

status cmm_source_open(engine *e, cmm_clusters how, const profile *p, unsigned with,
                       hier_source *s) {
    const int dim = how == CMM_JOINT ? 2 : 3;
    source *x = NULL;
    status st;
    *s = (hier_source){0};
    TRY(ALLOC(x, 1, "a source of entries"));
    *x = (source){.e = e, .p = p, .with = with, .apart = 8 * e->s->diameter};
    *s = (hier_source){.from = x,
                       .rows = e->m,
                       .cols = e->m,
                       .symmetric = true,
                       .mirrored = true,
                       .dim = dim,
                       .block = block,
                       .gather = gather,
                       .apart = how == CMM_BY_SENSOR ? apart : NULL};
    TRY(ALLOC(x->at, (size_t)(e->m * dim), "places of measurements"));
    for (int w = 0; w < e->s->nsensor; w++)
        place(e->s, w, x->apart, dim, x->at);
    s->at = x->at;
done:
    if (st != MOAO_OK)
        cmm_source_close(s);
    return st;
}

void cmm_source_close(hier_source *s) {
    source *x = s->from;
    if (x != NULL)
        free(x->at);
    free(x);
    *s = (hier_source){0};
}
