/* Bases of an H2 matrix from entries, level by level from the leaves as those of an HSS matrix:
 * samples are of the clusters that are apart from a node or from one above it; far blocks are
 * entries between the rows that were chosen. */
#include "h2.h"
#include "hss_build.h"
#include <stdlib.h>

/* Points that are sampled of each cluster apart from a node, fewer for those of the nodes above. */
static int64_t points_of(int above) {
    return above < 3 ? 8 >> above : 1;
}

/* Whether points i and j are in clusters that are apart, at level l or above. */
static bool is_far(const h2 *h, int l, int64_t i, int64_t j) {
    int64_t p = 0, q = 0;
    for (int m = 0; m <= l; m++) {
        if (m > 0) {
            p = 2 * p + (i >= h->t.first[tree_node(m, 2 * p + 1)]);
            q = 2 * q + (j >= h->t.first[tree_node(m, 2 * q + 1)]);
        }
        const int64_t a = tree_node(m, p), b = tree_node(m, q);
        for (int64_t e = h->far_of.first[a]; e < h->far_of.first[a + 1]; e++)
            if (h->far_of.item[e] == b)
                return true;
    }
    return false;
}

/* Points of node i, and those apart from them for which entries were found to be wrong. */
static int64_t wrong_samples(const h2 *h, const hss_builder *w, int64_t i, int64_t *out) {
    const int64_t a = tree_node(w->l, i), first = h->t.first[a], end = first + h->t.size[a];
    int64_t used = 0;
    for (int64_t e = 0; e < w->more->count; e++)
        for (int k = 0; k < 2; k++) {
            const int64_t mine = w->more->entry[e][k], other = w->more->entry[e][1 - k];
            if (mine >= first && mine < end && is_far(h, w->l, mine, other)) {
                if (out)
                    out[used] = other;
                used++;
            }
        }
    return used;
}

/* Samples of node i: their number; into `out` if that is not NULL. */
static int64_t far_samples(const h2 *h, const hss_builder *w, int64_t i, int64_t *out) {
    const tree *t = &h->t;
    const int l = w->l;
    int64_t used = 0;
    for (int m = l; m >= h->top; m--) {
        const int64_t a = tree_node(m, i >> (l - m));
        for (int64_t e = h->far_of.first[a]; e < h->far_of.first[a + 1]; e++) {
            const int64_t b = h->far_of.item[e], n = t->size[b];
            const int64_t few =
                w->more->all ? n : batch_least(n, points_of(l - m) << w->more->turn);
            for (int64_t k = 0; k < few; k++, used++)
                if (out)
                    out[used] = t->first[b] + ((2 * k + 1) * n / (2 * few) + i) % n;
        }
    }
    return used + wrong_samples(h, w, i, out ? out + used : NULL);
}

static status samples_of_level(const h2 *h, hss_builder *w) {
    const int64_t nodes = tree_nodes(w->l);
    status st;
    TRY(ALLOC(w->samples, (unsigned long)nodes, "samples of nodes"));
    w->room = 1, w->most_samples = 0;
    for (int64_t i = 0; i < nodes; i++) {
        w->samples[i] = far_samples(h, w, i, NULL);
        w->most_samples = w->samples[i] > w->most_samples ? w->samples[i] : w->most_samples;
    }
    w->room = w->most_samples > 0 ? w->most_samples : 1;
    TRY(ALLOC(w->sample, (unsigned long)(nodes * w->room), "samples of nodes"));
#pragma omp parallel for if (nodes > 512)
    for (int64_t i = 0; i < nodes; i++)
        far_samples(h, w, i, w->sample + i * w->room);
done:
    return st;
}

/* The level's bases and far blocks into h. */
static status keep_level(h2 *h, hss_builder *w, const hss_samples *q, const int64_t *chosen) {
    const format *f = &h->f;
    nested_level *v = w->h->level + w->l;
    const int64_t bytes = (int64_t)backend_size(f->o.type) * v->rows * v->most,
                  from = (int64_t)backend_size(f->o.type) * v->rows * q->bound;
    int64_t *first = NULL;
    int *host = NULL, *index = NULL;
    status st;
    TRY(take(f, (size_t)(bytes * v->nodes), (void **)&v->u));
    TRY(f->be->copy(f->ctx, v->u, bytes, q->u, from, bytes, v->nodes));
    TRY(ALLOC(first, (unsigned long)v->nodes, "places of nodes"));
    TRY(ALLOC(host, (unsigned long)(v->nodes * v->most), "chosen rows"));
    for (int64_t i = 0; i < v->nodes; i++) {
        first[i] = i * v->most;
        for (int64_t e = 0; e < v->rank[i]; e++)
            host[i * v->most + e] = (int)h->t.order[chosen[i * v->most + e]];
    }
    TRY(hier_upload(f, host, sizeof *host * (size_t)(v->nodes * v->most), (void **)&index));
    TRY(h2_gather(h, w->s, h->far + w->l, first, v->rank, index, &w->args));
    TRY(f->be->sync(f->ctx));
done:
    free(first), free(host);
    f->be->release(f->ctx, index);
    return st;
}

static status sketch_level(h2 *h, hss_builder *w) {
    hss_samples q = {0};
    int64_t *chosen = NULL;
    status st;
    TRY(hss_build_rows(w));
    TRY(samples_of_level(h, w));
    TRY(hss_build_decompose(w, &q, &chosen));
    TRY(keep_level(h, w, &q, chosen));
    free(w->chosen);
    w->chosen = chosen, chosen = NULL;
done:
    hss_samples_close(w, &q);
    free(chosen), free(w->mine), free(w->sample), free(w->samples);
    w->mine = w->sample = w->samples = NULL;
    return st;
}

status h2_sketch(h2 *h, const hier_source *s, const refinement *more) {
    hss *levels = NULL; /* as much of an HSS matrix as the builder needs: format, tree, levels */
    hss_builder w = {.s = s, .once = true, .more = more};
    status st = MOAO_OK;
    if (h->top > h->t.levels)
        return MOAO_OK;
    TRY(ALLOC(levels, 1, "levels of an H2 matrix"));
    TRY(pool_open(&h->f));
    levels->f = h->f, levels->t = h->t, w.h = levels;
    for (w.l = h->t.levels; w.l >= h->top; w.l--)
        TRY(sketch_level(h, &w));
done:
    for (int l = 0; levels && l < NESTED_LEVELS; l++)
        h->level[l] = levels->level[l];
    pool_close(&h->f);
    pack_free(&h->f, &w.args);
    free(w.chosen), free(levels);
    return st;
}
