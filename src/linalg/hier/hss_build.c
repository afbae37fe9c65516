/* An HSS matrix from entries of its source, level by level from the leaves: of each node, columns
 * (and rows) outside it are sampled at the rows that span the levels below; QR of them, then
 * pivoted QR of the small triangle, choose the rows that span this node (an interpolative
 * decomposition). The bases are then made orthonormal, and the blocks of siblings are gathered
 * between the chosen rows. */
#include "hss_build.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND = 4 };             /* ranks are multiples of it, so that blocks of rows are aligned */
#define CHUNK ((size_t)1 << 30) /* bytes of samples at a time */

/* --- rows and samples of the nodes, on the host ------------------------------------------------
 */

status hss_build_rows(hss_builder *w) {
    hss *h = w->h;
    nested_level *v = h->level + w->l, *low = v + 1;
    const bool leaf = w->l == h->t.levels;
    status st;
    v->nodes = tree_nodes(w->l), v->rows = 0;
    TRY(ALLOC(v->size, (unsigned long)v->nodes, "sizes of nodes"));
    TRY(ALLOC(v->rank, (unsigned long)v->nodes, "ranks of nodes"));
    TRY(ALLOC(v->up, (unsigned long)v->nodes, "places of nodes"));
    for (int64_t i = 0; i < v->nodes; i++) {
        v->size[i] = leaf ? h->t.size[tree_node(w->l, i)] : low->rank[2 * i] + low->rank[2 * i + 1];
        v->rows = v->size[i] > v->rows ? v->size[i] : v->rows;
    }
    v->rows = v->rows < 1 ? 1 : (v->rows + 1) / 2 * 2;
    TRY(ALLOC(w->mine, (unsigned long)(v->nodes * v->rows), "rows of nodes"));
    for (int64_t i = 0; i < v->nodes; i++) {
        int64_t *to = w->mine + i * v->rows;
        for (int64_t e = 0; e < v->size[i] && leaf; e++)
            to[e] = h->t.first[tree_node(w->l, i)] + e;
        for (int64_t c = 2 * i; c < 2 * i + 2 && !leaf; to += low->rank[c++])
            memcpy(to, w->chosen + c * low->most, sizeof *to * (size_t)low->rank[c]);
    }
done:
    return st;
}

/* --- samples and their decomposition, on the device --------------------------------------------
 */

static status samples_open(const hss_builder *w, hss_samples *q) {
    const hss *h = w->h;
    const format *f = &h->f;
    const nested_level *v = h->level + w->l;
    const size_t size = backend_size(f->o.type);
    const size_t nodes = (size_t)v->nodes, rows = (size_t)v->rows;
    status st;
    q->rows = w->most_samples * (w->once ? 1 : 2);
    const size_t each = size * rows * ((size_t)q->rows + rows);
    q->count = each > 0 ? (int64_t)(CHUNK / each) : v->nodes;
    q->count = q->count < 1 ? 1 : q->count > v->nodes ? v->nodes : q->count;
    q->bound = v->rows < f->o.rank ? v->rows : f->o.rank;
    q->lwork = f->be->lowrank->workspace(BATCH_QR, f->o.type, q->count, q->rows, v->rows, 0);
    TRY(borrow(f, size * rows * (size_t)(q->rows * q->count), (void **)&q->g));
    TRY(borrow(f, size * rows * rows * (size_t)q->count, (void **)&q->small));
    TRY(borrow(f, q->lwork, (void **)&q->work));
    TRY(borrow(f, size * rows * (size_t)q->bound * nodes, (void **)&q->u));
    TRY(borrow(f, sizeof(int) * rows * nodes, (void **)&q->order));
    TRY(borrow(f, sizeof(int) * nodes, (void **)&q->info));
    TRY(borrow(f, sizeof(int64_t) * nodes, (void **)&q->rank));
done:
    return st;
}

void hss_samples_close(const hss_builder *w, hss_samples *q) {
    const format *f = &w->h->f;
    void *all[] = {q->g, q->small, q->work, q->u, q->order, q->info, q->rank};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        give(f, all[i]);
}

/* Where the arguments of the calls on a chunk lie in the pack. */
typedef struct {
    size_t m, n, k, twice, rows, cols, list, to, turned;
} chunk_args;

static status chunk_arguments(hss_builder *w, const hss_samples *q, int64_t first, int64_t count,
                              chunk_args *a) {
    const nested_level *v = w->h->level + w->l;
    const size_t p = sizeof(void *), i = sizeof(int64_t), size = backend_size(w->h->f.o.type);
    const int64_t each = w->most_samples + v->rows, *order = w->h->t.order;
    const int kinds = w->once ? 1 : 2;
    status st;
    pack_clear(&w->args);
    TRY(pack_add(&w->args, count, i, &a->m));
    TRY(pack_add(&w->args, count, i, &a->n));
    TRY(pack_add(&w->args, count, i, &a->k));
    TRY(pack_add(&w->args, count, i, &a->twice));
    TRY(pack_add(&w->args, count, p, &a->rows));
    TRY(pack_add(&w->args, count, p, &a->cols));
    TRY(pack_add(&w->args, count, p, &a->to));
    TRY(pack_add(&w->args, count, p, &a->turned));
    TRY(pack_add(&w->args, count * each, sizeof(int), &a->list));
    TRY(pack_place(&w->h->f, &w->args));
    const int *device = pack_device(&w->args, a->list);
    for (int64_t b = 0; b < count; b++) {
        const int64_t node = first + b, m = w->samples[node], n = v->size[node], all = kinds * m;
        int *list = (int *)pack_host(&w->args, a->list) + b * each;
        char *to = q->g + (size_t)(b * q->rows * v->rows) * size;
        ((int64_t *)pack_host(&w->args, a->m))[b] = m;
        ((int64_t *)pack_host(&w->args, a->n))[b] = n;
        ((int64_t *)pack_host(&w->args, a->twice))[b] = all;
        ((int64_t *)pack_host(&w->args, a->k))[b] = all < n ? all : n;
        for (int64_t e = 0; e < m && w->sample; e++)
            list[e] = (int)order[w->sample[node * w->room + e]];
        for (int64_t e = 0; e < n; e++)
            list[w->most_samples + e] = (int)order[w->mine[node * v->rows + e]];
        ((const int **)pack_host(&w->args, a->rows))[b] = device + b * each;
        ((const int **)pack_host(&w->args, a->cols))[b] = device + b * each + w->most_samples;
        ((void **)pack_host(&w->args, a->to))[b] = to;
        ((void **)pack_host(&w->args, a->turned))[b] = to + (size_t)m * size;
    }
    TRY(pack_send(&w->h->f, &w->args));
done:
    return st;
}

/* Norm of what a row's samples may keep: they are entries, or products with random vectors of
 * variance 1/3, which have the norm of the row for each. */
static double threshold(const hss_builder *w) {
    return w->products ? w->h->f.o.tol * sqrt((double)w->most_samples / 3) : w->h->f.o.tol;
}

/* Nodes first .. first + count: A(samples, rows), and below it A(rows, samples)'; decomposed. */
static status decompose_chunk(hss_builder *w, hss_samples *q, int64_t first, int64_t count) {
    const hss *h = w->h;
    const format *f = &h->f;
    const nested_level *v = h->level + w->l;
    const backend_type t = f->o.type;
    const size_t size = backend_size(t);
    const int64_t stride = v->rows * v->rows;
    chunk_args a;
    status st;
    if (w->products)
        TRY(hss_products_fill(w, q, first, count));
    TRY(chunk_arguments(w, q, first, count, &a));
    const batch_dim m = {w->most_samples, pack_device(&w->args, a.m)},
                    n = {v->rows, pack_device(&w->args, a.n)},
                    all = {q->rows, pack_device(&w->args, a.twice)},
                    k = {q->rows < v->rows ? q->rows : v->rows, pack_device(&w->args, a.k)};
    hier_blocks b = {count,
                     m,
                     n,
                     pack_device(&w->args, a.rows),
                     pack_device(&w->args, a.cols),
                     batch_pointers(pack_device(&w->args, a.to), q->rows),
                     false};
    if (!w->products)
        TRY(w->s->gather(w->s->from, f->ctx, t, &b));
    if (!w->products && !w->once) {
        b = (hier_blocks){count,
                          n,
                          m,
                          pack_device(&w->args, a.cols),
                          pack_device(&w->args, a.rows),
                          batch_pointers(pack_device(&w->args, a.turned), q->rows),
                          true};
        TRY(w->s->gather(w->s->from, f->ctx, t, &b));
    }
    TRY(f->be->lowrank->qr(
        f->ctx, t, 'R', count, all, n, batch_strided(q->g, q->rows, q->rows * v->rows),
        batch_strided(q->small, v->rows, stride), q->info + first, q->work, q->lwork));
    const batch_mat u = batch_strided(q->u + size * (size_t)(first * v->rows * q->bound), v->rows,
                                      v->rows * q->bound);
    TRY(f->be->hier->id(f->ctx, t, count, k, n, batch_strided(q->small, v->rows, stride),
                        threshold(w), ROUND, f->o.rank, q->order + first * v->rows, u,
                        q->rank + first, q->info + first));
done:
    return st;
}

/* The ranks to the host, and the rows that were chosen. */
static status take_ranks(hss_builder *w, const hss_samples *q, int64_t **chosen) {
    const format *f = &w->h->f;
    nested_level *v = w->h->level + w->l;
    const int64_t n = v->nodes;
    int *order = NULL, *info = NULL;
    status st;
    TRY(ALLOC(order, (unsigned long)(n * v->rows), "chosen rows"));
    TRY(ALLOC(info, (unsigned long)n, "what became of nodes"));
    TRY(f->be->copy(f->ctx, order, 4 * v->rows, q->order, 4 * v->rows, 4 * v->rows, n));
    TRY(f->be->copy(f->ctx, info, 4 * n, q->info, 4 * n, 4 * n, 1));
    TRY(f->be->copy(f->ctx, v->rank, 8 * n, q->rank, 8 * n, 8 * n, 1));
    TRY(f->be->sync(f->ctx));
    for (int64_t i = 0; i < n; i++) {
        v->most = v->rank[i] > v->most ? v->rank[i] : v->most;
        if (info[i] > 0)
            TRY(status_fail(MOAO_NUMERIC, "an entry of the source of an HSS matrix is not finite"));
        if (info[i] == -3)
            TRY(status_fail(MOAO_MEMORY,
                            "an HSS matrix needs ranks above %d for this tolerance: take the dense "
                            "format, or a larger tolerance",
                            f->o.rank));
    }
    v->most = v->most < 1 ? 1 : v->most;
    TRY(ALLOC(*chosen, (unsigned long)(n * v->most), "chosen rows"));
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < v->rank[i]; e++)
            (*chosen)[i * v->most + e] = w->mine[i * v->rows + order[i * v->rows + e]];
    if (w->products)
        TRY(hss_products_carry(w, q, order));
done:
    free(order), free(info);
    return st;
}

/* --- orthonormal bases and blocks of siblings ---------------------------------------------------
 */

/* u := diag(R_1, R_2) u, R the triangles of the two children: v keeps the result. */
static status carry_triangles(hss_builder *w, const hss_samples *q) {
    const hss *h = w->h;
    const format *f = &h->f;
    const nested_level *v = h->level + w->l, *low = v + 1;
    const size_t size = backend_size(f->o.type);
    const int64_t count = 2 * v->nodes;
    const double one = 1, zero = 0;
    const float one_s = 1, zero_s = 0;
    const bool d = f->o.type == BACKEND_D;
    size_t m, n, a, b, c;
    status st;
    pack_clear(&w->args);
    TRY(pack_add(&w->args, count, 8, &m));
    TRY(pack_add(&w->args, count, 8, &n));
    TRY(pack_add(&w->args, count, sizeof(void *), &a));
    TRY(pack_add(&w->args, count, sizeof(void *), &b));
    TRY(pack_add(&w->args, count, sizeof(void *), &c));
    TRY(pack_place(f, &w->args));
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i & 1 ? low->rank[i - 1] : 0;
        ((int64_t *)pack_host(&w->args, m))[i] = low->rank[i];
        ((int64_t *)pack_host(&w->args, n))[i] = v->rank[i / 2];
        ((char **)pack_host(&w->args, a))[i] =
            w->below + size * (size_t)(i * low->most * low->most);
        ((char **)pack_host(&w->args, b))[i] =
            q->u + size * (size_t)(i / 2 * v->rows * q->bound + at);
        ((char **)pack_host(&w->args, c))[i] = hss_basis(h, w->l, i / 2) + size * (size_t)at;
    }
    TRY(pack_send(f, &w->args));
    const batch_dim dm = {low->most, pack_device(&w->args, m)},
                    dn = {v->most, pack_device(&w->args, n)};
    TRY(f->be->batch->gemm(
        f->ctx, f->o.type, 'N', 'N', count, dm, dn, dm, d ? (const void *)&one : &one_s,
        batch_pointers(pack_device(&w->args, a), low->most),
        batch_pointers(pack_device(&w->args, b), v->rows), d ? (const void *)&zero : &zero_s,
        batch_pointers(pack_device(&w->args, c), v->rows)));
done:
    return st;
}

/* Bases of the level into h, orthonormal; their triangles into w->r. */
static status orthonormal(hss_builder *w, const hss_samples *q) {
    hss *h = w->h;
    const format *f = &h->f;
    nested_level *v = h->level + w->l;
    const size_t size = backend_size(f->o.type), nodes = (size_t)v->nodes;
    const int64_t bytes = (int64_t)size * v->rows * v->most;
    const size_t lwork =
        f->be->lowrank->workspace(BATCH_QR, f->o.type, v->nodes, v->rows, v->most, 0);
    size_t m, n;
    void *work = NULL;
    status st;
    TRY(take(f, (size_t)bytes * nodes, (void **)&v->u));
    TRY(borrow(f, size * (size_t)(v->most * v->most) * nodes, (void **)&w->r));
    TRY(borrow(f, lwork, &work));
    if (w->l < h->t.levels)
        TRY(carry_triangles(w, q));
    else
        TRY(f->be->copy(f->ctx, v->u, bytes, q->u, (int64_t)size * v->rows * q->bound, bytes,
                        v->nodes));
    pack_clear(&w->args);
    TRY(pack_add(&w->args, v->nodes, 8, &m));
    TRY(pack_add(&w->args, v->nodes, 8, &n));
    TRY(pack_place(f, &w->args));
    memcpy(pack_host(&w->args, m), v->size, 8 * nodes);
    memcpy(pack_host(&w->args, n), v->rank, 8 * nodes);
    TRY(pack_send(f, &w->args));
    const batch_dim dm = {v->rows, pack_device(&w->args, m)},
                    dn = {v->most, pack_device(&w->args, n)};
    TRY(f->be->lowrank->qr(f->ctx, f->o.type, 'Q', v->nodes, dm, dn,
                           batch_strided(v->u, v->rows, v->rows * v->most),
                           batch_strided(w->r, v->most, v->most * v->most), q->info, work, lwork));
    TRY(f->be->sync(f->ctx));
done:
    give(f, work);
    return st;
}

/* B of each node := R A(chosen, chosen of the sibling) R'. */
static status couplings(hss_builder *w, const int64_t *chosen) {
    hss *h = w->h;
    const format *f = &h->f;
    nested_level *v = h->level + w->l;
    const backend_type t = f->o.type;
    const size_t size = backend_size(t);
    const int64_t n = v->nodes, square = v->most * v->most;
    const double one = 1, zero = 0;
    const float one_s = 1, zero_s = 0;
    const void *p1 = t == BACKEND_D ? (const void *)&one : &one_s,
               *p0 = t == BACKEND_D ? (const void *)&zero : &zero_s;
    char *x = NULL;
    size_t k, ks, rows, cols, list, rs;
    status st;
    pack_clear(&w->args);
    TRY(take(f, size * (size_t)(square * n), (void **)&v->b));
    TRY(borrow(f, size * (size_t)(square * n), (void **)&x));
    TRY(pack_add(&w->args, n, 8, &k));
    TRY(pack_add(&w->args, n, 8, &ks));
    TRY(pack_add(&w->args, n, sizeof(void *), &rows));
    TRY(pack_add(&w->args, n, sizeof(void *), &cols));
    TRY(pack_add(&w->args, n, sizeof(void *), &rs));
    TRY(pack_add(&w->args, n * v->most, sizeof(int), &list));
    TRY(pack_place(f, &w->args));
    const int *device = pack_device(&w->args, list);
    for (int64_t i = 0; i < n; i++) {
        int *mine = (int *)pack_host(&w->args, list) + i * v->most;
        for (int64_t e = 0; e < v->rank[i]; e++)
            mine[e] = (int)h->t.order[chosen[i * v->most + e]];
        ((int64_t *)pack_host(&w->args, k))[i] = v->rank[i];
        ((int64_t *)pack_host(&w->args, ks))[i] = v->rank[i ^ 1];
        ((const int **)pack_host(&w->args, rows))[i] = device + i * v->most;
        ((const int **)pack_host(&w->args, cols))[i] = device + (i ^ 1) * v->most;
        ((char **)pack_host(&w->args, rs))[i] = w->r + size * (size_t)((i ^ 1) * square);
    }
    TRY(pack_send(f, &w->args));
    const batch_dim dk = {v->most, pack_device(&w->args, k)},
                    ds = {v->most, pack_device(&w->args, ks)};
    const batch_mat b = batch_strided(v->b, v->most, square),
                    r = batch_strided(w->r, v->most, square), y = batch_strided(x, v->most, square);
    const hier_blocks blocks = {
        n, dk, ds, pack_device(&w->args, rows), pack_device(&w->args, cols), b, false};
    TRY(w->s->gather(w->s->from, f->ctx, t, &blocks));
    if (w->products) {
        const int64_t bytes = (int64_t)size * square * n;
        f->be->release(f->ctx, w->raw);
        w->raw = NULL;
        TRY(take(f, (size_t)bytes, (void **)&w->raw));
        TRY(f->be->copy(f->ctx, w->raw, bytes, v->b, bytes, bytes, 1));
    }
    TRY(f->be->batch->gemm(f->ctx, t, 'N', 'N', n, dk, ds, dk, p1, r, b, p0, y));
    TRY(f->be->batch->gemm(f->ctx, t, 'N', 'T', n, dk, ds, ds, p1, y,
                           batch_pointers(pack_device(&w->args, rs), v->most), p0, b));
    TRY(f->be->sync(f->ctx));
done:
    give(f, x);
    return st;
}

/* --- the whole ----------------------------------------------------------------------------------
 */

status hss_build_decompose(hss_builder *w, hss_samples *q, int64_t **chosen) {
    const nested_level *v = w->h->level + w->l;
    status st;
    TRY(samples_open(w, q));
    for (int64_t i = 0; i < v->nodes; i += q->count)
        TRY(decompose_chunk(w, q, i, v->nodes - i < q->count ? v->nodes - i : q->count));
    TRY(take_ranks(w, q, chosen));
done:
    return st;
}

static status build_level(hss_builder *w) {
    hss *h = w->h;
    const format *f = &h->f;
    hss_samples q = {0};
    int64_t *chosen = NULL;
    status st;
    TRY(hss_build_rows(w));
    if (w->products)
        TRY(hss_products_level(w));
    else
        TRY(hss_sample_level(w));
    TRY(hss_build_decompose(w, &q, &chosen));
    TRY(orthonormal(w, &q));
    TRY(couplings(w, chosen));
    give(f, w->below);
    w->below = w->r, w->r = NULL;
    free(w->chosen);
    w->chosen = chosen, chosen = NULL;
done:
    hss_samples_close(w, &q);
    free(chosen), free(w->mine), free(w->sample), free(w->samples);
    w->mine = w->sample = w->samples = NULL;
    lists_free(&w->near);
    return st;
}

static status diagonal_blocks(hss_builder *w) {
    hss *h = w->h;
    const format *f = &h->f;
    const int64_t leaves = tree_nodes(h->t.levels), first = tree_node(h->t.levels, 0);
    size_t n, rows, list;
    status st;
    h->leaf = 1;
    for (int64_t i = 0; i < leaves; i++)
        h->leaf = h->t.size[first + i] > h->leaf ? h->t.size[first + i] : h->leaf;
    h->leaf = (h->leaf + 1) / 2 * 2;
    TRY(take(f, backend_size(f->o.type) * (size_t)(h->leaf * h->leaf * leaves), (void **)&h->d));
    pack_clear(&w->args);
    TRY(pack_add(&w->args, leaves, 8, &n));
    TRY(pack_add(&w->args, leaves, sizeof(void *), &rows));
    TRY(pack_add(&w->args, h->t.n, sizeof(int), &list));
    TRY(pack_place(f, &w->args));
    const int *device = pack_device(&w->args, list);
    for (int64_t i = 0; i < h->t.n; i++)
        ((int *)pack_host(&w->args, list))[i] = (int)h->t.order[i];
    for (int64_t i = 0; i < leaves; i++) {
        ((int64_t *)pack_host(&w->args, n))[i] = h->t.size[first + i];
        ((const int **)pack_host(&w->args, rows))[i] = device + h->t.first[first + i];
    }
    TRY(pack_send(f, &w->args));
    const batch_dim dn = {h->leaf, pack_device(&w->args, n)};
    const int *const *where = pack_device(&w->args, rows);
    const hier_blocks b = {
        leaves, dn, dn, where, where, batch_strided(h->d, h->leaf, h->leaf * h->leaf), false};
    TRY(w->s->gather(w->s->from, f->ctx, f->o.type, &b));
    TRY(f->be->sync(f->ctx));
done:
    return st;
}

status hss_build(hss *h, const hier_source *s, int64_t samples, const refinement *more) {
    hss_builder w = {.h = h, .s = s, .once = h->f.symmetric || s->mirrored, .more = more};
    status st;
    TRY(pool_open(&h->f));
    TRY(diagonal_blocks(&w));
    if (samples > 0)
        TRY(hss_products_open(&w, samples));
    for (w.l = h->t.levels; w.l >= 1; w.l--)
        TRY(build_level(&w));
done:
    hss_products_close(&w);
    pack_free(&h->f, &w.args);
    give(&h->f, w.below), give(&h->f, w.r);
    pool_close(&h->f);
    h->f.be->release(h->f.ctx, w.raw);
    free(w.chosen);
    return st;
}

status hss_all_entries(hss *h, const hier_source *s) {
    const format *f = &h->f;
    const int64_t n = h->t.n;
    pack args = {0};
    size_t where, list;
    status st;
    TRY(pack_add(&args, 1, sizeof(void *), &where));
    TRY(pack_add(&args, n, sizeof(int), &list));
    TRY(pack_place(f, &args));
    for (int64_t i = 0; i < n; i++)
        ((int *)pack_host(&args, list))[i] = (int)h->t.order[i];
    *(const int **)pack_host(&args, where) = pack_device(&args, list);
    TRY(pack_send(f, &args));
    TRY(take(f, backend_size(f->o.type) * (size_t)(n * n), (void **)&h->all));
    const int *const *rows = pack_device(&args, where);
    const hier_blocks b = {
        1, batch_size(n), batch_size(n), rows, rows, batch_strided(h->all, n, 0), false};
    TRY(s->gather(s->from, f->ctx, f->o.type, &b));
    TRY(f->be->sync(f->ctx));
done:
    pack_free(f, &args);
    return st;
}

void hss_clear(hss *h) {
    const format *f = &h->f;
    hss_factor_free(h);
    plan_free(f, &h->straight), plan_free(f, &h->turned);
    f->be->release(f->ctx, h->d), f->be->release(f->ctx, h->all);
    h->d = h->all = NULL;
    hss_launches_free(f, &h->few), hss_launches_free(f, &h->wide);
    for (int l = 0; l < NESTED_LEVELS; l++)
        nested_level_free(f, h->level + l);
}
