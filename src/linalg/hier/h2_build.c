/* Blocks of an H2 matrix: dense ones from entries, bases and far blocks by interpolation at
 * Chebyshev nodes of the clusters' boxes (Hackbusch, Boerm 2002). */
#include "h2.h"
#include <math.h>
#include <stdlib.h>

/* Blocks of entries of pairs into b->s: lists of rows of node i begin at first[i] of `index`
 * (device). */
static status fill_pairs(const h2 *h, pair_blocks *b, const int64_t *first, const int64_t *size,
                         const int *index, pack *args,
                         status (*fill)(const h2 *h, const void *arg, const hier_blocks *q),
                         const void *arg) {
    const format *f = &h->f;
    size_t m, n, rows, cols;
    int64_t most = 1;
    status st;
    pack_clear(args);
    TRY(pack_add(args, b->count, 8, &m));
    TRY(pack_add(args, b->count, 8, &n));
    TRY(pack_add(args, b->count, sizeof(void *), &rows));
    TRY(pack_add(args, b->count, sizeof(void *), &cols));
    TRY(pack_place(f, args));
    for (int64_t e = 0; e < b->count; e++) {
        const int64_t p = b->row[e], q = b->col[e];
        ((int64_t *)pack_host(args, m))[e] = size[p];
        ((int64_t *)pack_host(args, n))[e] = size[q];
        ((const int **)pack_host(args, rows))[e] = index + first[p];
        ((const int **)pack_host(args, cols))[e] = index + first[q];
        most = size[p] > most ? size[p] : most;
        most = size[q] > most ? size[q] : most;
    }
    b->ld = (most + 1) / 2 * 2, b->stride = b->ld * most;
    TRY(take(f, backend_size(f->o.type) * (size_t)(b->stride * b->count), (void **)&b->s));
    TRY(pack_send(f, args));
    const hier_blocks q = {b->count,
                           {most, pack_device(args, m)},
                           {most, pack_device(args, n)},
                           pack_device(args, rows),
                           pack_device(args, cols),
                           batch_strided(b->s, b->ld, b->stride),
                           false};
    TRY(fill(h, arg, &q));
    TRY(f->be->sync(f->ctx));
done:
    return st;
}

static status by_rows(const h2 *h, const void *arg, const hier_blocks *q) {
    const hier_source *s = arg;
    return s->gather(s->from, h->f.ctx, h->f.o.type, q);
}

status h2_gather(const h2 *h, const hier_source *s, pair_blocks *b, const int64_t *first,
                 const int64_t *size, const int *index, pack *args) {
    return fill_pairs(h, b, first, size, index, args, by_rows, s);
}

status h2_dense_blocks(h2 *h, const hier_source *s) {
    const format *f = &h->f;
    const int64_t leaf = tree_node(h->t.levels, 0);
    int *host = NULL, *index = NULL;
    pack args = {0};
    status st;
    TRY(ALLOC(host, (unsigned long)h->t.n, "rows of an H2 matrix"));
    for (int64_t i = 0; i < h->t.n; i++)
        host[i] = (int)h->t.order[i];
    TRY(hier_upload(f, host, sizeof *host * (size_t)h->t.n, (void **)&index));
    TRY(fill_pairs(h, &h->near, h->t.first + leaf, h->t.size + leaf, index, &args, by_rows, s));
done:
    free(host);
    f->be->release(f->ctx, index);
    pack_free(f, &args);
    return st;
}

/* --- interpolation
 * ------------------------------------------------------------------------------------- */

typedef struct {
    const hier_source *s;
    int64_t k;      /* nodes of a box */
    double *points; /* device: coordinates of the tree's points */
    double *nodes;  /* device: of the Chebyshev nodes, k for each tree node */
    int *number;    /* device: 0, 1, 2, ... k for each node of the largest level */
    pack args;
} interpolation;

/* Coordinates of the Chebyshev nodes of all boxes, the first axis fastest. */
static void place_nodes(const h2 *h, int64_t k, double *to) {
    const tree *t = &h->t;
    const int order = h->f.o.order;
    const double pi = 3.14159265358979323846;
#pragma omp parallel for if (t->levels > 9)
    for (int64_t a = 0; a < tree_node(t->levels + 1, 0); a++)
        for (int64_t e = 0; e < k; e++) {
            int64_t rest = e;
            for (int d = 0; d < t->dim; d++, rest /= order) {
                const double low = t->low[3 * a + d], high = t->high[3 * a + d];
                to[(a * k + e) * t->dim + d] =
                    (low + high) / 2 +
                    (high - low) / 2 * cos(pi * (2 * (double)(rest % order) + 1) / (2 * order));
            }
        }
}

static status interpolation_open(const h2 *h, interpolation *q) {
    const format *f = &h->f;
    const int64_t nodes = tree_node(h->t.levels + 1, 0), numbers = tree_nodes(h->t.levels);
    double *host = NULL;
    int *number = NULL;
    status st;
    q->k = 1;
    for (int d = 0; d < h->t.dim; d++)
        q->k *= f->o.order;
    TRY(ALLOC(host, (unsigned long)(nodes * q->k * h->t.dim), "Chebyshev nodes"));
    TRY(ALLOC(number, (unsigned long)(numbers * q->k), "numbers of Chebyshev nodes"));
    place_nodes(h, q->k, host);
    for (int64_t i = 0; i < numbers * q->k; i++)
        number[i] = (int)i;
    TRY(hier_upload(f, host, sizeof *host * (size_t)(nodes * q->k * h->t.dim), (void **)&q->nodes));
    TRY(hier_upload(f, h->t.at, sizeof *h->t.at * (size_t)(h->t.n * h->t.dim),
                    (void **)&q->points));
    TRY(hier_upload(f, number, sizeof *number * (size_t)(numbers * q->k), (void **)&q->number));
done:
    free(host), free(number);
    return st;
}

/* Polynomials of node i's box at its points (leaves), or at the nodes of its two children. */
static status bases(h2 *h, interpolation *q, int l) {
    const format *f = &h->f;
    const tree *t = &h->t;
    nested_level *v = h->level + l;
    const bool leaf = l == t->levels;
    const int64_t count = leaf ? v->nodes : 2 * v->nodes;
    const size_t size = backend_size(f->o.type);
    size_t m, points, box, to;
    status st;
    TRY(take(f, size * (size_t)(v->rows * v->most * v->nodes), (void **)&v->u));
    pack_clear(&q->args);
    TRY(pack_add(&q->args, count, 8, &m));
    TRY(pack_add(&q->args, count, sizeof(void *), &points));
    TRY(pack_add(&q->args, count, 6 * sizeof(double), &box));
    TRY(pack_add(&q->args, count, sizeof(void *), &to));
    TRY(pack_place(f, &q->args));
    for (int64_t i = 0; i < count; i++) {
        const int64_t p = leaf ? i : i / 2, a = tree_node(l, p), c = tree_node(l + 1, i);
        double *b = (double *)pack_host(&q->args, box) + 6 * i;
        for (int d = 0; d < 3; d++)
            b[d] = t->low[3 * a + d], b[3 + d] = t->high[3 * a + d];
        ((int64_t *)pack_host(&q->args, m))[i] = leaf ? t->size[a] : q->k;
        ((const double **)pack_host(&q->args, points))[i] =
            leaf ? q->points + t->first[a] * t->dim : q->nodes + c * q->k * t->dim;
        ((char **)pack_host(&q->args, to))[i] =
            h2_basis(h, l, p) + (leaf || i % 2 == 0 ? 0 : size * (size_t)q->k);
    }
    TRY(pack_send(f, &q->args));
    const batch_dim rows = {leaf ? v->rows : q->k, pack_device(&q->args, m)};
    TRY(f->be->hier->chebyshev(f->ctx, f->o.type, t->dim, f->o.order, count, rows,
                               pack_device(&q->args, points), pack_device(&q->args, box),
                               batch_pointers(pack_device(&q->args, to), v->rows)));
    TRY(f->be->sync(f->ctx));
done:
    return st;
}

typedef struct {
    const interpolation *q;
    int l;
} of_level;

static status by_nodes(const h2 *h, const void *arg, const hier_blocks *b) {
    const of_level *a = arg;
    return a->q->s->values(a->q->s->from, h->f.ctx, h->f.o.type,
                           a->q->nodes + tree_node(a->l, 0) * a->q->k * h->t.dim, b);
}

static status level_of(h2 *h, interpolation *q, int l) {
    const tree *t = &h->t;
    nested_level *v = h->level + l;
    int64_t *first = NULL, *ranks = NULL;
    const of_level arg = {q, l};
    status st;
    v->nodes = tree_nodes(l), v->most = q->k, v->rows = 1;
    TRY(ALLOC(v->size, (unsigned long)v->nodes, "sizes of nodes"));
    TRY(ALLOC(v->rank, (unsigned long)v->nodes, "ranks of nodes"));
    TRY(ALLOC(v->up, (unsigned long)v->nodes, "places of nodes"));
    TRY(ALLOC(first, (unsigned long)v->nodes, "places of nodes"));
    for (int64_t i = 0; i < v->nodes; i++) {
        v->rank[i] = q->k, first[i] = i * q->k;
        v->size[i] = l == t->levels ? t->size[tree_node(l, i)] : 2 * q->k;
        v->rows = v->size[i] > v->rows ? v->size[i] : v->rows;
    }
    v->rows = (v->rows + 1) / 2 * 2;
    TRY(bases(h, q, l));
    TRY(fill_pairs(h, h->far + l, first, v->rank, q->number, &q->args, by_nodes, &arg));
done:
    free(first), free(ranks);
    return st;
}

status h2_interpolate(h2 *h, const hier_source *s) {
    const format *f = &h->f;
    interpolation q = {.s = s};
    status st = MOAO_OK;
    if (h->top > h->t.levels)
        return MOAO_OK;
    TRY(interpolation_open(h, &q));
    for (int l = h->t.levels; l >= h->top; l--)
        TRY(level_of(h, &q, l));
done:
    f->be->release(f->ctx, q.points), f->be->release(f->ctx, q.nodes),
        f->be->release(f->ctx, q.number);
    pack_free(f, &q.args);
    return st;
}
