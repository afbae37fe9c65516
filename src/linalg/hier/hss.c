/* HSS matrices: their life, and products. */
#include "hss_build.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Up to SMALL rows all entries are kept, and used where rows^2 nvec is at most FAST (H200: cuBLAS
 * takes less time for such a product than the launches of a tree). */
enum { SMALL = 1536 };
#define FAST 1.2e9
/* Where launches cost, products by up to FEW columns take TOGETHER levels of the tree at a time;
 * those by more, the levels above TOP. */
enum { FEW = 256, TOGETHER = 4, TOP = 4 };

enum { LEAF = 128, MOST_LEAF = BATCH_ORTH_MAX, MOST_RANK = BATCH_ORTH_MAX / 2 };

/* Launches of op(A) X: leaves up, levels up, levels down, leaves: 2 L + 1. */
static status make_plan(hss *h, bool turned, plan *p) {
    const int levels = h->t.levels;
    const int64_t first = tree_node(levels, 0);
    status st = MOAO_OK;
    for (int l = levels; l >= 1; l--) {
        const nested_level *v = h->level + l;
        TRY(plan_launch(p));
        for (int64_t i = 0; i < v->nodes; i++) {
            TRY(plan_sum(p, v->up[i], v->rank[i]));
            if (l == levels)
                TRY(plan_term(p, hss_basis(h, l, i), v->rows, true, v->size[i], HSS_X,
                              h->t.first[first + i]));
            else
                TRY(plan_term(p, hss_basis(h, l, i), v->rows, true, v->size[i], HSS_UP,
                              h->level[l + 1].up[2 * i]));
        }
    }
    for (int l = 1; l <= levels; l++) {
        const nested_level *v = h->level + l, *above = v - 1;
        TRY(plan_launch(p));
        for (int64_t i = 0; i < v->nodes; i++) {
            const int64_t other = i ^ 1, at = i & 1 ? v->rank[i - 1] : 0;
            TRY(plan_sum(p, v->up[i], v->rank[i]));
            TRY(plan_term(p, hss_coupling(h, l, turned ? other : i), v->most, turned,
                          v->rank[other], HSS_UP, v->up[other]));
            if (l > 1)
                TRY(plan_term(p,
                              hss_basis(h, l - 1, i / 2) + at * (int64_t)backend_size(h->f.o.type),
                              above->rows, false, above->rank[i / 2], HSS_DOWN, above->up[i / 2]));
        }
    }
    TRY(plan_launch(p));
    for (int64_t i = 0; i < tree_nodes(levels); i++) {
        const int64_t n = h->t.size[first + i], row = h->t.first[first + i];
        TRY(plan_sum(p, row, n));
        TRY(plan_term(p, hss_diagonal(h, i), h->leaf, turned, n, HSS_X, row));
        if (levels > 0)
            TRY(plan_term(p, hss_basis(h, levels, i), h->level[levels].rows, false,
                          h->level[levels].rank[i], HSS_DOWN, h->level[levels].up[i]));
    }
    TRY(plan_send(&h->f, p));
done:
    return st;
}

static void count(hss *h) {
    hier_info *info = &h->f.info;
    const size_t size = backend_size(h->f.o.type);
    const int64_t leaves = tree_nodes(h->t.levels);
    info->levels = h->t.levels, info->rank_max = 0, info->order = h->t.order;
    info->bytes_dense_part = size * (size_t)(leaves * h->leaf * h->leaf);
    info->bytes_dense_part += h->all ? size * (size_t)(h->t.n * h->t.n) : 0;
    info->bytes = info->bytes_dense_part + h->few.bytes + h->wide.bytes;
    int64_t nodes = 0;
    for (int l = 1; l <= h->t.levels; l++) {
        const nested_level *v = h->level + l;
        nodes += v->nodes;
        info->rank_max = v->most > info->rank_max ? (int)v->most : info->rank_max;
        info->bytes += size * (size_t)(v->nodes * v->most * (v->rows + v->most));
    }
    info->rank_mean = nodes ? (int)((h->ranks + nodes / 2) / nodes) : 0;
    info->flops = plan_flops(&h->straight);
}

void hss_close(format *f) {
    hss *h = (hss *)f;
    hss_clear(h);
    tree_free(&h->t);
    free(h);
}

/* Launches that take several levels at a time, where launches cost: for few columns all levels
 * above the leaves in groups, for many those at the top, whose nodes are few. */
static status merge(hss *h) {
    const format *f = &h->f;
    const int levels = h->t.levels, together = f->o.together > 0 ? f->o.together : TOGETHER;
    int anchor[NESTED_LEVELS], anchors = 0;
    status st = MOAO_OK;
    if (f->o.together == 0 && (!strcmp(f->be->name, "cpu") || f->o.lean))
        return st;
    if (levels > 1 && together > 1) {
        for (int l = levels; l >= 1; l -= together)
            anchor[anchors++] = l;
        TRY(hss_merge(h, anchor, anchors, &h->few));
    }
    if (levels > TOP && together > 1) {
        for (anchors = 0; levels - anchors >= TOP; anchors++)
            anchor[anchors] = levels - anchors;
        TRY(hss_merge(h, anchor, anchors, &h->wide));
    }
done:
    return st;
}

status hss_launch(hss *h) {
    status st;
    plan_free(&h->f, &h->straight), plan_free(&h->f, &h->turned);
    hss_launches_free(&h->f, &h->few), hss_launches_free(&h->f, &h->wide);
    h->ranks = 0;
    for (int l = h->t.levels; l >= 1; l--)
        for (int64_t i = 0; i < h->level[l].nodes; i++) {
            h->level[l].up[i] = h->ranks;
            h->ranks += h->level[l].rank[i];
        }
    TRY(make_plan(h, false, &h->straight));
    if (!h->f.symmetric)
        TRY(make_plan(h, true, &h->turned));
    TRY(merge(h));
    count(h);
done:
    return st;
}

/* By so many products (0: from entries), with the launches of products. */
static status make(hss *h, const hier_source *s, int64_t samples, const refinement *more) {
    status st;
    hss_clear(h);
    TRY(hss_build(h, s, samples, more));
    if (!h->f.o.lean && h->t.n <= SMALL && h->t.levels > 0)
        TRY(hss_all_entries(h, s));
    st = hss_launch(h);
done:
    return st;
}

/* From sampled entries, until the comparison with rows of the source finds nothing wrong. */
static status from_entries(hss *h, const hier_source *s) {
    refinement more = {0};
    bool fine = h->t.levels == 0;
    status st;
    do {
        TRY(make(h, s, 0, &more));
        if (!fine)
            TRY(hier_verify(&h->f, s, &more, &fine));
    } while (!fine);
done:
    refinement_free(&more);
    return st;
}

/* Products are doubled while a rank is near their number, or fresh ones show a larger error. */
static status load(format *f, const hier_source *s) {
    hss *h = (hss *)f;
    double rms = 0;
    int64_t wrong = 0;
    status st;
    if (f->o.samples == 0 || h->t.levels == 0)
        return from_entries(h, s);
    for (int64_t samples = f->o.samples;; samples *= 2) {
        TRY(make(h, s, samples, NULL));
        TRY(hss_products_error(h, s, &rms, &wrong));
        if (wrong == 0 && rms <= f->o.tol && f->info.rank_max + 8 <= samples)
            break;
        if (2 * samples > BATCH_ORTH_MAX)
            TRY(status_fail(
                MOAO_MEMORY,
                "an HSS matrix is not found by %lld products (error %.1e, %lld rows wrong): take "
                "the dense format, or a larger tolerance",
                (long long)samples, rms, (long long)wrong));
    }
done:
    return st;
}

/* By default as many leaves as a full tree has, of LEAF / sqrt(2) to sqrt(2) LEAF rows. */
static int64_t leaf_of(const hier_options *o, int64_t n) {
    int64_t leaves = 1;
    while ((double)n > M_SQRT2 * LEAF * (double)leaves)
        leaves *= 2;
    return o->leaf > 0 ? o->leaf : ((n + leaves - 1) / leaves + 7) / 8 * 8;
}

static status open_hss(const backend *be, backend_ctx *ctx, const hier_source *s,
                       const hier_options *o, format **out) {
    hss *h;
    status st;
    *out = NULL;
    if (s->rows != s->cols || !s->gather || (o->samples > 0 && !s->times) ||
        leaf_of(o, s->rows) > MOST_LEAF || o->rank > MOST_RANK)
        return status_fail(MOAO_INPUT,
                           "an HSS format needs a square source that gathers entries (and "
                           "multiplies, where options.samples says so), leaves of at most %d "
                           "rows and ranks of at most %d",
                           MOST_LEAF, MOST_RANK);
    TRY(ALLOC(h, 1, "an HSS matrix"));
    hier_begin(&h->f, &hier_hss, be, ctx, s, o);
    if (h->f.o.rank == 0)
        h->f.o.rank = MOST_RANK;
    *out = &h->f;
    TRY(tree_make(s->rows, s->dim, s->at, leaf_of(o, s->rows), 'E', &h->t));
    TRY(load(&h->f, s));
done:
    if (st != MOAO_OK && *out) {
        hss_close(*out);
        *out = NULL;
    }
    return st;
}

/* Leaves of at most `leaf` rows, each level's ranks bounded by options.rank and by what lies below.
 */
static status bytes(const backend *be, const hier_source *s, const hier_options *o, size_t *all,
                    size_t *most_work) {
    const double size = (double)backend_size(o->type), n = (double)s->rows;
    const double leaf = (double)leaf_of(o, s->rows), most = o->rank > 0 ? o->rank : MOST_RANK;
    double sum = n * leaf, nodes = ceil(2 * n / leaf), rows = leaf, rank = fmin(most, leaf);
    (void)be;
    for (; nodes >= 2; nodes /= 2) {
        sum += nodes * rank * (rows + rank);
        rows = 2 * rank, rank = fmin(most, rows);
    }
    *all = (size_t)(2 * size * sum);
    *most_work = (size_t)4 << 30;
    return MOAO_OK;
}

static size_t workspace(const format *f, char side, int64_t nvec) {
    const hss *h = (const hss *)f;
    (void)side;
    return 2 * hier_aligned(backend_size(f->o.type) * (size_t)(h->ranks * nvec));
}

static status apply(const format *f, const hier_product *q) {
    const hss *h = (const hss *)f;
    const int levels = h->t.levels;
    const char side = q->side;
    const int64_t nvec = q->nvec;
    const hss_launches *m = nvec <= FEW ? &h->few : &h->wide;
    const bool merged = m->way[0].launches > 0;
    const int ups = merged ? m->ups : levels;
    const int64_t ld = side == 'L' ? (h->ranks > 0 ? h->ranks : 1) : nvec;
    char *up = q->work,
         *down = up + hier_aligned(backend_size(f->o.type) * (size_t)(h->ranks * nvec));
    const hier_operand from[HIER_OPERANDS] = {{q->x, q->ldx}, {up, ld}, {down, ld}, {NULL, 1}};
    status st = MOAO_OK;
    const bool fast =
        h->all && !f->checked && (double)h->t.n * (double)h->t.n * (double)nvec <= FAST;
    if (levels == 0 || fast) /* all entries: of a matrix that is one leaf, or small */
        return hier_apply_dense(f, fast ? h->all : h->d, fast ? h->t.n : h->leaf, q);
    /* Y = X A is Y' = A' X' */
    const bool turned = !f->symmetric && (q->trans != 'N') == (side == 'L');
    const plan *p = merged ? m->way + turned : turned ? &h->turned : &h->straight;
    for (int l = 0; l < p->launches; l += (int)p->linked[l]) {
        const hier_gemm_sums s = plan_part(p, l);
        const bool goes_up = l < ups;
        if (p->linked[l] > 1) {
            const hier_fused c = plan_chain(p, l, !goes_up, goes_up ? HSS_UP : HSS_DOWN);
            TRY(f->be->hier->chain(f->ctx, f->o.type, side, &c, nvec, from, goes_up ? up : down,
                                   ld));
        } else if (l + 1 < p->launches)
            TRY(f->be->hier->sums(f->ctx, f->o.type, side, &s, nvec, 1, from, 0,
                                  goes_up ? up : down, ld));
        else
            TRY(f->be->hier->sums(f->ctx, f->o.type, side, &s, nvec, q->alpha, from, q->beta, q->y,
                                  q->ldy));
    }
done:
    return st;
}

static void parts(const format *f, hier_part *part, void *arg) {
    const hss *h = (const hss *)f;
    const tree *t = &h->t;
    for (int l = 1; l <= t->levels; l++)
        for (int64_t i = 0; i < tree_nodes(l); i++) {
            const int64_t a = tree_node(l, i), b = tree_node(l, i ^ 1);
            if (t->size[a] > 0 && t->size[b] > 0)
                part(arg, t->first[a], t->size[a], t->first[b], t->size[b],
                     (int)h->level[l].rank[i]);
        }
    for (int64_t i = 0; i < tree_nodes(t->levels); i++) {
        const int64_t a = tree_node(t->levels, i);
        if (t->size[a] > 0)
            part(arg, t->first[a], t->size[a], t->first[a], t->size[a], -1);
    }
}

const hier_table hier_hss = {.kind = HIER_HSS,
                             .name = "HSS",
                             .bytes = bytes,
                             .open = open_hss,
                             .load = load,
                             .close = hss_close,
                             .workspace = workspace,
                             .apply = apply,
                             .factor = hss_factor_make,
                             .solve_workspace = hss_solve_workspace,
                             .solve = hss_solve,
                             .compress = hss_compress,
                             .store = hss_store,
                             .parts = parts};
