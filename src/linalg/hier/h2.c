/* H2 matrices: their life, and products. */
#include "h2.h"
#include <math.h>
#include <stdlib.h>

enum { LEAF = 64, MOST_RANK = BATCH_ORTH_MAX };
enum { FROM_X, FROM_UP, FROM_DOWN };

/* --- pairs
 * ----------------------------------------------------------------------------------------- */

/* Pairs first .. last of nodes as blocks, each once; the numbers within a level begin at `offset`.
 */
static status number_pairs(const lists *l, const int64_t *partner, int64_t *block, int64_t first,
                           int64_t last, pair_blocks *b) {
    status st;
    int64_t n = 0;
    for (int64_t a = first; a < last; a++)
        for (int64_t e = l->first[a]; e < l->first[a + 1]; e++)
            b->count += a <= l->item[e];
    TRY(ALLOC(b->row, (unsigned long)b->count, "pairs of nodes"));
    TRY(ALLOC(b->col, (unsigned long)b->count, "pairs of nodes"));
    for (int64_t a = first; a < last; a++)
        for (int64_t e = l->first[a]; e < l->first[a + 1]; e++)
            if (a <= l->item[e]) {
                b->row[n] = a - first, b->col[n] = l->item[e] - first;
                block[e] = n++;
            } else {
                block[e] = block[partner[e]];
            }
done:
    return st;
}

status h2_number_pairs(h2 *h, const char *who) {
    const int levels = h->t.levels;
    int64_t *far = NULL, *near = NULL;
    status st;
    TRY(lists_partners(&h->far_of, who, &far));
    TRY(lists_partners(&h->near_of, who, &near));
    TRY(ALLOC(h->far_block, (unsigned long)h->far_of.first[h->far_of.count], "pairs of nodes"));
    TRY(ALLOC(h->near_block, (unsigned long)h->near_of.first[h->near_of.count], "pairs of nodes"));
    h->top = levels + 1;
    for (int l = levels; l >= 0; l--) {
        TRY(number_pairs(&h->far_of, far, h->far_block, tree_node(l, 0), tree_node(l + 1, 0),
                         h->far + l));
        h->top = h->far[l].count > 0 ? l : h->top;
    }
    TRY(number_pairs(&h->near_of, near, h->near_block, 0, tree_nodes(levels), &h->near));
done:
    free(far), free(near);
    return st;
}

static status find_pairs(h2 *h, const hier_source *s) {
    const status st = tree_pairs(&h->t, h->f.o.eta, s, &h->far_of, &h->near_of);
    return st != MOAO_OK ? st : h2_number_pairs(h, "an H2 matrix");
}

/* --- launches of a product
 * --------------------------------------------------------------------------- */

static status plan_up(h2 *h) {
    plan *p = &h->plan;
    status st = MOAO_OK;
    for (int l = h->t.levels; l >= h->top; l--) {
        const nested_level *v = h->level + l;
        TRY(plan_launch(p));
        for (int64_t i = 0; i < v->nodes; i++) {
            TRY(plan_sum(p, v->up[i], v->rank[i]));
            if (l == h->t.levels)
                TRY(plan_term(p, h2_basis(h, l, i), v->rows, true, v->size[i], FROM_X,
                              h->t.first[tree_node(l, i)]));
            else
                TRY(plan_term(p, h2_basis(h, l, i), v->rows, true, v->size[i], FROM_UP,
                              v[1].up[2 * i]));
        }
    }
    h->sums_up = p->launches;
done:
    return st;
}

/* What the clusters apart from each node give it: all levels in one launch for ranks up to 32, and
 * one for larger ones, so that the tiles of a launch fit its sums. */
static status plan_far(h2 *h) {
    plan *p = &h->plan;
    status st = MOAO_OK;
    for (int large = 0; large < 2 && h->top <= h->t.levels; large++) {
        TRY(plan_launch(p));
        for (int l = h->t.levels; l >= h->top; l--) {
            const nested_level *v = h->level + l;
            for (int64_t i = 0; i < v->nodes; i++) {
                const int64_t a = tree_node(l, i);
                if ((v->rank[i] > 32) != large)
                    continue;
                TRY(plan_sum(p, v->up[i], v->rank[i]));
                for (int64_t e = h->far_of.first[a]; e < h->far_of.first[a + 1]; e++) {
                    const int64_t b = h->far_of.item[e], k = b - tree_node(l, 0);
                    TRY(plan_term(p, h2_block(h, h->far + l, h->far_block[e]), h->far[l].ld, a > b,
                                  v->rank[k], FROM_UP, v->up[k]));
                }
            }
        }
    }
    h->sums_far = p->launches;
done:
    return st;
}

/* Down the tree (added to what is there), then leaves with the dense blocks. */
static status plan_down(h2 *h) {
    const int levels = h->t.levels;
    plan *p = &h->plan;
    const int64_t first = tree_node(levels, 0);
    status st = MOAO_OK;
    for (int l = h->top + 1; l <= levels; l++) {
        const nested_level *v = h->level + l, *above = v - 1;
        TRY(plan_launch(p));
        for (int64_t i = 0; i < v->nodes; i++) {
            const int64_t at = i & 1 ? v->rank[i - 1] : 0;
            TRY(plan_sum(p, v->up[i], v->rank[i]));
            TRY(plan_term(p, h2_basis(h, l - 1, i / 2) + at * (int64_t)backend_size(h->f.o.type),
                          above->rows, false, above->rank[i / 2], FROM_DOWN, above->up[i / 2]));
        }
    }
    TRY(plan_launch(p));
    for (int64_t i = 0; i < tree_nodes(levels); i++) {
        TRY(plan_sum(p, h->t.first[first + i], h->t.size[first + i]));
        for (int64_t e = h->near_of.first[i]; e < h->near_of.first[i + 1]; e++) {
            const int64_t j = h->near_of.item[e];
            TRY(plan_term(p, h2_block(h, &h->near, h->near_block[e]), h->near.ld, i > j,
                          h->t.size[first + j], FROM_X, h->t.first[first + j]));
        }
        if (h->top <= levels)
            TRY(plan_term(p, h2_basis(h, levels, i), h->level[levels].rows, false,
                          h->level[levels].rank[i], FROM_DOWN, h->level[levels].up[i]));
    }
done:
    return st;
}

status h2_plan(h2 *h) {
    hier_info *info = &h->f.info;
    const double size = (double)backend_size(h->f.o.type);
    int64_t nodes = 0;
    double bytes = 0, dense = 0;
    status st;
    plan_free(&h->f, &h->plan);
    h->ranks = 0, info->rank_max = 0;
    for (int l = h->t.levels; l >= h->top; l--) {
        const nested_level *v = h->level + l;
        for (int64_t i = 0; i < v->nodes; i++) {
            v->up[i] = h->ranks, h->ranks += v->rank[i];
            bytes += size * (double)(v->size[i] * v->rank[i]);
            info->rank_max = v->rank[i] > info->rank_max ? (int)v->rank[i] : info->rank_max;
        }
        for (int64_t e = 0; e < h->far[l].count; e++)
            bytes += size * (double)(v->rank[h->far[l].row[e]] * v->rank[h->far[l].col[e]]);
        nodes += v->nodes;
    }
    for (int64_t e = 0; e < h->near.count; e++)
        dense += size * (double)(h->t.size[tree_node(h->t.levels, h->near.row[e])] *
                                 h->t.size[tree_node(h->t.levels, h->near.col[e])]);
    info->bytes = (size_t)(bytes + dense), info->bytes_dense_part = (size_t)dense;
    info->levels = h->t.levels, info->order = h->t.order;
    info->rank_mean = nodes ? (int)((h->ranks + nodes / 2) / nodes) : 0;
    TRY(plan_up(h));
    TRY(plan_far(h));
    TRY(plan_down(h));
    TRY(plan_send(&h->f, &h->plan));
    info->flops = plan_flops(&h->plan);
done:
    return st;
}

/* --- life
 * ---------------------------------------------------------------------------------------------- */

static void clear(h2 *h) {
    const format *f = &h->f;
    plan_free(f, &h->plan);
    for (int l = 0; l < NESTED_LEVELS; l++) {
        nested_level_free(f, h->level + l);
        f->be->release(f->ctx, h->far[l].s);
        h->far[l].s = NULL;
    }
    f->be->release(f->ctx, h->near.s);
    h->near.s = NULL;
}

void h2_close(format *f) {
    h2 *h = (h2 *)f;
    clear(h);
    for (int l = 0; l < NESTED_LEVELS; l++)
        free(h->far[l].row), free(h->far[l].col);
    free(h->near.row), free(h->near.col), free(h->far_block), free(h->near_block);
    lists_free(&h->far_of), lists_free(&h->near_of);
    tree_free(&h->t);
    free(h);
}

/* `more`: of sampled entries; NULL: by interpolation. */
static status make(h2 *h, const hier_source *s, const refinement *more) {
    status st;
    clear(h);
    TRY(h2_dense_blocks(h, s));
    TRY(more ? h2_sketch(h, s, more) : h2_interpolate(h, s));
    TRY(h2_plan(h));
done:
    return st;
}

/* From sampled entries until the comparison with rows of the source finds nothing wrong. */
static status load(format *f, const hier_source *s) {
    h2 *h = (h2 *)f;
    refinement more = {0};
    bool fine = h->top > h->t.levels;
    status st;
    if (f->o.order > 0)
        return make(h, s, NULL);
    do {
        TRY(make(h, s, &more));
        if (!fine)
            TRY(hier_verify(f, s, &more, &fine));
    } while (!fine);
done:
    refinement_free(&more);
    return st;
}

/* Columns of a basis at most. */
static int64_t nodes_of(const hier_source *s, const hier_options *o) {
    int64_t k = 1;
    for (int d = 0; d < s->dim; d++)
        k *= o->order;
    return o->order > 0 ? k : o->rank > 0 ? o->rank : MOST_RANK / 4;
}

static status check(const hier_source *s, const hier_options *o) {
    if (!s->symmetric || s->dim < 1 || !s->gather || (o->order > 0 && !s->values))
        return status_fail(MOAO_INPUT,
                           "an H2 format needs a symmetric source at points, with gathers and, for "
                           "interpolation, values between any two points");
    if (o->order > 16 || nodes_of(s, o) > MOST_RANK || o->leaf > BATCH_ORTH_MAX ||
        o->rank > MOST_RANK / 2)
        return status_fail(MOAO_INPUT,
                           "an H2 format takes at most 16 Chebyshev nodes a dimension, %d in all, "
                           "ranks of at most %d and leaves of at most %d rows",
                           MOST_RANK, MOST_RANK / 2, BATCH_ORTH_MAX);
    return MOAO_OK;
}

static status open_h2(const backend *be, backend_ctx *ctx, const hier_source *s,
                      const hier_options *o, format **out) {
    h2 *h;
    status st;
    *out = NULL;
    TRY(check(s, o));
    TRY(ALLOC(h, 1, "an H2 matrix"));
    hier_begin(&h->f, &hier_h2, be, ctx, s, o);
    if (!(h->f.o.eta > 0))
        h->f.o.eta = 1;
    if (h->f.o.rank == 0)
        h->f.o.rank = MOST_RANK / 2;
    *out = &h->f;
    TRY(tree_make(s->rows, s->dim, s->at, o->leaf > 0 ? o->leaf : LEAF, o->mean_split ? 'M' : 'E',
                  &h->t));
    TRY(find_pairs(h, s));
    TRY(load(&h->f, s));
done:
    if (st != MOAO_OK && *out) {
        h2_close(*out);
        *out = NULL;
    }
    return st;
}

/* By making the tree and its pairs on the host. */
static status bytes(const backend *be, const hier_source *s, const hier_options *o, size_t *all,
                    size_t *most_work) {
    h2 h = {0};
    const double size = (double)backend_size(o->type), k = (double)nodes_of(s, o);
    double sum = 0;
    status st;
    (void)be;
    TRY(check(s, o));
    h.f.o = *o;
    if (!(h.f.o.eta > 0))
        h.f.o.eta = 1;
    TRY(tree_make(s->rows, s->dim, s->at, o->leaf > 0 ? o->leaf : LEAF, o->mean_split ? 'M' : 'E',
                  &h.t));
    TRY(find_pairs(&h, s));
    int64_t leaf = 1;
    for (int64_t i = 0; i < tree_nodes(h.t.levels); i++) {
        const int64_t n = h.t.size[tree_node(h.t.levels, i)];
        leaf = n > leaf ? n : leaf;
    }
    for (int l = h.top; l <= h.t.levels; l++)
        sum += k * k * (double)(h.far[l].count + 2 * tree_nodes(l));
    sum +=
        (double)(leaf * leaf) * (double)h.near.count + k * (double)(leaf * tree_nodes(h.t.levels));
    *all = (size_t)(size * sum) +
           64 * (size_t)(h.far_of.first[h.far_of.count] + h.near_of.first[h.near_of.count]);
    *most_work = (size_t)(size * sum) + ((size_t)2 << 30);
done:
    for (int l = 0; l < NESTED_LEVELS; l++)
        free(h.far[l].row), free(h.far[l].col);
    free(h.near.row), free(h.near.col), free(h.far_block), free(h.near_block);
    lists_free(&h.far_of), lists_free(&h.near_of);
    tree_free(&h.t);
    return st;
}

/* --- products
 * -------------------------------------------------------------------------------------------- */

static size_t workspace(const format *f, char side, int64_t nvec) {
    const h2 *h = (const h2 *)f;
    (void)side;
    return 2 * hier_aligned(backend_size(f->o.type) * (size_t)(h->ranks * nvec));
}

static status apply(const format *f, const hier_product *q) {
    const h2 *h = (const h2 *)f;
    const plan *p = &h->plan;
    const char side = q->side;
    const int64_t nvec = q->nvec;
    const int64_t ld = side == 'L' ? (h->ranks > 0 ? h->ranks : 1) : nvec;
    char *up = q->work,
         *down = up + hier_aligned(backend_size(f->o.type) * (size_t)(h->ranks * nvec));
    const hier_operand from[HIER_OPERANDS] = {{q->x, q->ldx}, {up, ld}, {down, ld}, {NULL, 1}};
    status st = MOAO_OK;
    for (int l = 0; l < p->launches; l++) {
        const hier_gemm_sums s = plan_part(p, l);
        const bool last = l + 1 == p->launches;
        if (last)
            TRY(f->be->hier->sums(f->ctx, f->o.type, side, &s, nvec, q->alpha, from, q->beta, q->y,
                                  q->ldy));
        else
            TRY(f->be->hier->sums(f->ctx, f->o.type, side, &s, nvec, 1, from, l >= h->sums_far,
                                  l < h->sums_up ? up : down, ld));
    }
done:
    return st;
}

static void parts(const format *f, hier_part *part, void *arg) {
    const h2 *h = (const h2 *)f;
    const tree *t = &h->t;
    for (int64_t a = 0; a < h->far_of.count; a++)
        for (int64_t e = h->far_of.first[a]; e < h->far_of.first[a + 1]; e++) {
            const int64_t b = h->far_of.item[e];
            int l = 0;
            while (tree_node(l + 1, 0) <= a)
                l++;
            part(arg, t->first[a], t->size[a], t->first[b], t->size[b],
                 (int)h->level[l].rank[a - tree_node(l, 0)]);
        }
    for (int64_t i = 0; i < h->near_of.count; i++)
        for (int64_t e = h->near_of.first[i]; e < h->near_of.first[i + 1]; e++) {
            const int64_t a = tree_node(t->levels, i), b = tree_node(t->levels, h->near_of.item[e]);
            part(arg, t->first[a], t->size[a], t->first[b], t->size[b], -1);
        }
}

const hier_table hier_h2 = {.kind = HIER_H2,
                            .name = "H2",
                            .bytes = bytes,
                            .open = open_h2,
                            .load = load,
                            .close = h2_close,
                            .workspace = workspace,
                            .apply = apply,
                            .compress = h2_compress,
                            .store = h2_store,
                            .parts = parts};
