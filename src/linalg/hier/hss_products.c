/* Samples of an HSS matrix by products with random vectors, Y = A X (and Z = A' X of a matrix that
 * is not symmetric). Of a leaf, Y_i - D_i X_i has the range of its block row outside; above, rows
 * that were chosen below and X~ = U' X take the places of rows and of X (Martinsson 2011, section
 * 4). */
#include "hss_build.h"
#include "moao/backend_random.h"
#include <math.h>
#include <stdlib.h>

/* One of X, Y, Z of all nodes: of the current level rows x count each, and what it leaves to the
 * next, most x count each. */
typedef struct {
    char *now, *next;
} sampled;

struct hss_products {
    int64_t count;
    sampled part[3]; /* X, Y, Z */
    int parts;       /* 2: symmetric */
    char *whole[3];  /* n x count in the format's order, before the leaves took theirs */
    char *one;       /* the identity */
    int64_t ld_one;
    int64_t most_below;
    size_t size;
};

/* n x count numbers: random on the host in the source's order, then X and the products in the
 * format's. */
static status multiply(const hss *h, const hier_source *s, int64_t count, uint64_t seed,
                       bool turned, char *whole[3]) {
    const format *f = &h->f;
    const int64_t n = h->t.n, size = (int64_t)backend_size(f->o.type), bytes = size * n;
    const bool d = f->o.type == BACKEND_D;
    void *host = NULL, *sorted = NULL, *x = NULL, *y = NULL;
    status st;
    TRY(mem_alloc(&host, (unsigned long)(n * count), (unsigned long)size, "random vectors"));
    TRY(mem_alloc(&sorted, (unsigned long)(n * count), (unsigned long)size, "random vectors"));
    for (int64_t j = 0; j < count; j++)
        for (int64_t i = 0; i < n; i++) {
            float v[4];
            backend_random(seed, i / 4, j, v);
            number_set(f->o.type, host, i + j * n, (double)v[i % 4]);
        }
    TRY(hier_upload(f, host, (size_t)(bytes * count), &x));
    TRY(take(f, (size_t)(bytes * count), &y));
    for (int part = 0; part < (turned ? 3 : 2); part++) {
        if (part > 0) {
            TRY(s->times(s->from, f->ctx, f->o.type, part == 1 ? 'N' : 'T', count, x, n, y, n));
            TRY(f->be->copy(f->ctx, host, bytes, y, bytes, bytes, count));
            TRY(f->be->sync(f->ctx));
        }
        for (int64_t j = 0; j < count; j++)
            for (int64_t i = 0; i < n; i++) {
                const int64_t from = h->t.order[i] + j * n;
                number_set(f->o.type, sorted, i + j * n,
                           d ? ((const double *)host)[from] : (double)((const float *)host)[from]);
            }
        TRY(hier_upload(f, sorted, (size_t)(bytes * count), (void **)&whole[part]));
    }
done:
    free(host), free(sorted);
    f->be->release(f->ctx, x), f->be->release(f->ctx, y);
    return st;
}

status hss_products_open(hss_builder *w, int64_t count) {
    const format *f = &w->h->f;
    struct hss_products *p;
    status st;
    TRY(ALLOC(p, 1, "samples of an HSS matrix"));
    w->products = p;
    p->count = count, p->parts = w->once ? 2 : 3, p->size = backend_size(f->o.type);
    p->ld_one = BATCH_ORTH_MAX;
    TRY(identity_make(f, p->ld_one, &p->one));
    TRY(multiply(w->h, w->s, count, f->o.seed, p->parts > 2, p->whole));
done:
    return st;
}

void hss_products_close(hss_builder *w) {
    const format *f = &w->h->f;
    struct hss_products *p = w->products;
    if (!p)
        return;
    for (int k = 0; k < 3; k++) {
        f->be->release(f->ctx, p->part[k].now), f->be->release(f->ctx, p->part[k].next);
        f->be->release(f->ctx, p->whole[k]);
    }
    f->be->release(f->ctx, p->one);
    free(p);
    w->products = NULL;
}

static char *of_node(const struct hss_products *p, char *base, int64_t i, int64_t rows,
                     int64_t row) {
    return base + p->size * (size_t)(i * rows * p->count + row);
}

/* Rows of leaves from the whole; then Y := Y - D X, Z := Z - D' X. */
static status leaves(hss_builder *w) {
    const hss *h = w->h;
    const format *f = &h->f;
    struct hss_products *p = w->products;
    const nested_level *v = h->level + w->l;
    const int64_t n = h->t.n;
    call q;
    status st = MOAO_OK;
    for (int k = 0; k < p->parts; k++) {
        TRY(call_open(f, &w->args, &q, v->nodes));
        for (int64_t i = 0; i < v->nodes; i++)
            call_set(&w->args, &q, i, v->size[i], p->count, v->size[i], p->one,
                     p->whole[k] + p->size * (size_t)h->t.first[tree_node(w->l, i)],
                     of_node(p, p->part[k].now, i, v->rows, 0));
        TRY(call_gemm(f, &w->args, &q, 'N', 'N', 1, p->ld_one, n > 0 ? n : 1, 0, v->rows));
    }
    for (int k = 1; k < p->parts; k++) {
        TRY(call_open(f, &w->args, &q, v->nodes));
        for (int64_t i = 0; i < v->nodes; i++)
            call_set(&w->args, &q, i, v->size[i], p->count, v->size[i], hss_diagonal(h, i),
                     of_node(p, p->part[0].now, i, v->rows, 0),
                     of_node(p, p->part[k].now, i, v->rows, 0));
        TRY(call_gemm(f, &w->args, &q, k == 1 ? 'N' : 'T', 'N', -1, h->leaf, v->rows, 1, v->rows));
    }
done:
    return st;
}

/* Rows of the two children; Y of each less B X~ of its sibling, Z less B' of the sibling's B. */
static status join(hss_builder *w) {
    const hss *h = w->h;
    const format *f = &h->f;
    struct hss_products *p = w->products;
    const nested_level *v = h->level + w->l, *low = v + 1;
    const int64_t square = low->most * low->most;
    call q;
    status st = MOAO_OK;
    for (int k = 0; k < p->parts; k++) {
        TRY(call_open(f, &w->args, &q, low->nodes));
        for (int64_t c = 0; c < low->nodes; c++)
            call_set(&w->args, &q, c, low->rank[c], p->count, low->rank[c], p->one,
                     of_node(p, p->part[k].next, c, low->most, 0),
                     of_node(p, p->part[k].now, c / 2, v->rows, c & 1 ? low->rank[c - 1] : 0));
        TRY(call_gemm(f, &w->args, &q, 'N', 'N', 1, p->ld_one, low->most, 0, v->rows));
    }
    for (int k = 1; k < p->parts; k++) {
        TRY(call_open(f, &w->args, &q, low->nodes));
        for (int64_t c = 0; c < low->nodes; c++)
            call_set(&w->args, &q, c, low->rank[c], p->count, low->rank[c ^ 1],
                     w->raw + p->size * (size_t)((k == 1 ? c : c ^ 1) * square),
                     of_node(p, p->part[0].next, c ^ 1, low->most, 0),
                     of_node(p, p->part[k].now, c / 2, v->rows, c & 1 ? low->rank[c - 1] : 0));
        TRY(call_gemm(f, &w->args, &q, k == 1 ? 'N' : 'T', 'N', -1, low->most, low->most, 1,
                      v->rows));
    }
done:
    return st;
}

status hss_products_level(hss_builder *w) {
    const format *f = &w->h->f;
    struct hss_products *p = w->products;
    const nested_level *v = w->h->level + w->l;
    status st;
    TRY(ALLOC(w->samples, (unsigned long)v->nodes, "samples of nodes"));
    for (int64_t i = 0; i < v->nodes; i++)
        w->samples[i] = p->count;
    w->most_samples = p->count;
    for (int k = 0; k < p->parts; k++) {
        f->be->release(f->ctx, p->part[k].now);
        p->part[k].now = NULL;
        TRY(take(f, p->size * (size_t)(v->nodes * v->rows * p->count), (void **)&p->part[k].now));
    }
    TRY(w->l == w->h->t.levels ? leaves(w) : join(w));
    TRY(f->be->sync(f->ctx));
done:
    return st;
}

/* Y' of the nodes, below it Z'. */
status hss_products_fill(hss_builder *w, const hss_samples *s, int64_t first, int64_t count) {
    const format *f = &w->h->f;
    struct hss_products *p = w->products;
    const nested_level *v = w->h->level + w->l;
    call q;
    status st = MOAO_OK;
    for (int k = 1; k < p->parts; k++) {
        TRY(call_open(f, &w->args, &q, count));
        for (int64_t b = 0; b < count; b++)
            call_set(&w->args, &q, b, p->count, v->size[first + b], v->size[first + b],
                     of_node(p, p->part[k].now, first + b, v->rows, 0), p->one,
                     s->g + p->size * (size_t)(b * s->rows * v->rows + (k - 1) * p->count));
        TRY(call_gemm(f, &w->args, &q, 'T', 'N', 1, v->rows, p->ld_one, 0, s->rows));
    }
    TRY(f->be->sync(f->ctx));
done:
    return st;
}

/* X~ = U' X and the chosen rows of Y and Z, which U' of a matrix of zeros and ones picks. */
status hss_products_carry(hss_builder *w, const hss_samples *s, const int *order) {
    const format *f = &w->h->f;
    struct hss_products *p = w->products;
    const nested_level *v = w->h->level + w->l;
    const int64_t flat = v->rows * v->most;
    void *host = NULL;
    char *pick = NULL;
    call q;
    status st;
    TRY(mem_alloc(&host, (unsigned long)(flat * v->nodes), p->size, "chosen rows"));
    for (int64_t i = 0; i < v->nodes; i++)
        for (int64_t e = 0; e < v->rank[i]; e++)
            number_set(f->o.type, host, i * flat + order[i * v->rows + e] + e * v->rows, 1);
    TRY(hier_upload(f, host, p->size * (size_t)(flat * v->nodes), (void **)&pick));
    for (int k = 0; k < p->parts; k++) {
        f->be->release(f->ctx, p->part[k].next);
        p->part[k].next = NULL;
        TRY(take(f, p->size * (size_t)(v->nodes * v->most * p->count), (void **)&p->part[k].next));
        TRY(call_open(f, &w->args, &q, v->nodes));
        for (int64_t i = 0; i < v->nodes; i++)
            call_set(&w->args, &q, i, v->rank[i], p->count, v->size[i],
                     k == 0 ? s->u + p->size * (size_t)(i * v->rows * s->bound)
                            : pick + p->size * (size_t)(i * flat),
                     of_node(p, p->part[k].now, i, v->rows, 0),
                     of_node(p, p->part[k].next, i, v->most, 0));
        TRY(call_gemm(f, &w->args, &q, 'T', 'N', 1, v->rows, v->rows, 0, v->most));
    }
    TRY(f->be->sync(f->ctx));
done:
    free(host);
    f->be->release(f->ctx, pick);
    return st;
}

status hss_products_error(hss *h, const hier_source *s, double *rms, int64_t *wrong) {
    enum { FRESH = HIER_VECTORS };
    const format *f = &h->f;
    const int64_t n = h->t.n, size = (int64_t)backend_size(f->o.type);
    const size_t lwork = hier_workspace(f, 'L', FRESH);
    char *whole[3] = {NULL};
    void *work = NULL, *host = NULL;
    double *on_device = NULL, largest = 0, left[FRESH];
    status st;
    *rms = 0, *wrong = 0;
    TRY(multiply(h, s, FRESH, f->o.seed + 1000003, false, whole));
    TRY(take(f, lwork, &work));
    TRY(take(f, sizeof largest, (void **)&on_device));
    TRY(f->be->fp16->max_abs(f->ctx, f->o.type, n, FRESH, whole[1], n, on_device));
    TRY(f->be->copy(f->ctx, &largest, sizeof largest, on_device, sizeof largest, sizeof largest,
                    1));
    h->f.checked = true;
    const hier_product less = {'L', 'N', FRESH, -1, NULL, whole[0], n, 1, whole[1], n, work};
    TRY(f->is->apply(f, &less));
    TRY(mem_alloc(&host, (unsigned long)(n * FRESH), (unsigned long)size, "errors of products"));
    TRY(f->be->copy(f->ctx, host, size * n, whole[1], size * n, size * n, FRESH));
    TRY(f->be->sync(f->ctx));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < FRESH; j++)
            left[j] = number_get(f->o.type, host, i + j * n);
        const double e = hier_residual(left);
        *rms = hypot(*rms, e / (double)n);
        *wrong += !(e <= 2 * hier_allowed(f, largest));
    }
done:
    h->f.checked = false;
    free(host);
    f->be->release(f->ctx, whole[0]), f->be->release(f->ctx, whole[1]);
    f->be->release(f->ctx, work), f->be->release(f->ctx, on_device);
    return st;
}
