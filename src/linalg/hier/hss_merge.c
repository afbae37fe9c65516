/* Products with an HSS matrix by fewer launches than its tree has levels: sums up and down are
 * formed at some levels only, the *anchors*, and what lies between two anchors is taken at once.
 * The bases of the nodes between are made explicit on the rows of the anchor below, U = diag(U_1,
 * U_2) E carried out, and so are their products with the blocks of siblings, U B, with which a
 * descendant's rows are multiplied. L levels with anchors at the leaves and at every g-th level
 * above take about 2 L / g launches in place of 2 L + 1. The leaves are as they were and above them
 * there is little, so that this adds little work; it pays where launches take longer than what they
 * do. Anchors at levels next to each other are chains of a backend (hier_fused), which keeps
 * sums of one level for the next one. */
#include "hss.h"
#include <stdlib.h>

/* Explicit matrices of a level: node i's basis on its rows at the level's anchor, rows x rank, at
 * e[i], and times its sibling's block (rows x rank of the sibling; [1] for A') at w[.][i]; all with
 * leading dimension ld. NULL: the nested level's own serves. */
typedef struct {
    int anchor; /* level of the rows; levels + 1: points */
    int64_t ld;
    char **e, **w[2];
} explicit_level;

typedef struct {
    hss *h;
    hss_launches *to;
    explicit_level level[NESTED_LEVELS];
    const int *anchor; /* levels, from the leaves up; without the points */
    int anchors;
    pack args;
} merger;

/* First row of node i of level l among the rows of level c (points: levels + 1), and its rows. */
static int64_t rows_from(const hss *h, int l, int64_t i, int c, int64_t *count) {
    if (c > h->t.levels) {
        *count = h->t.size[tree_node(l, i)];
        return h->t.first[tree_node(l, i)];
    }
    const nested_level *v = h->level + c;
    const int64_t first = i << (c - l), last = ((i + 1) << (c - l)) - 1;
    *count = v->up[last] + v->rank[last] - v->up[first];
    return v->up[first];
}

static bool is_top(const merger *w, int l) { /* of its anchor's levels: nested matrices serve */
    return l == (w->level[l].anchor > w->h->t.levels ? w->h->t.levels : w->level[l].anchor - 1);
}

static char *basis(const merger *w, int l, int64_t i, int64_t *ld) {
    const explicit_level *x = w->level + l;
    *ld = x->e ? x->ld : w->h->level[l].rows;
    return x->e ? x->e[i] : hss_basis(w->h, l, i);
}

/* --- explicit matrices ------------------------------------------------------------------------ */

static status places(merger *w, int l, bool couplings) {
    hss *h = w->h;
    const nested_level *v = h->level + l;
    explicit_level *x = w->level + l;
    const size_t size = backend_size(h->f.o.type);
    const int kinds = !couplings ? 0 : h->f.symmetric ? 1 : 2;
    int64_t used = 0, rows;
    status st = MOAO_OK;
    char *memory = NULL;
    for (int64_t i = 0; i < v->nodes; i++) {
        rows_from(h, l, i, x->anchor, &rows);
        x->ld = rows > x->ld ? rows : x->ld;
    }
    x->ld = x->ld < 1 ? 1 : (x->ld + 1) / 2 * 2;
    for (int64_t i = 0; i < v->nodes; i++)
        used += (is_top(w, l) ? 0 : v->rank[i]) + kinds * v->rank[i ^ 1];
    TRY(take(&h->f, size * (size_t)(x->ld * used), (void **)&memory));
    w->to->memory[l] = memory;
    w->to->bytes += size * (size_t)(x->ld * used);
    for (int k = is_top(w, l) ? 0 : -1; k < kinds; k++) {
        char ***to = k < 0 ? &x->e : &x->w[k];
        TRY(ALLOC(*to, (unsigned long)v->nodes, "explicit bases"));
        for (int64_t i = 0; i < v->nodes; i++) {
            (*to)[i] = memory;
            memory += size * (size_t)(x->ld * v->rank[k < 0 ? i : i ^ 1]);
        }
    }
done:
    return st;
}

static status fill(merger *w, int l) {
    hss *h = w->h;
    const format *f = &h->f;
    const nested_level *v = h->level + l;
    explicit_level *x = w->level + l;
    const int64_t size = (int64_t)backend_size(f->o.type);
    int64_t rows, before, ld = 1, ldc = 1;
    status st = MOAO_OK;
    call q;
    if (x->e) { /* the children's bases times their parts of E */
        const nested_level *low = v + 1;
        TRY(call_open(f, &w->args, &q, low->nodes));
        for (int64_t c = 0; c < low->nodes; c++) {
            const int64_t i = c / 2, first = rows_from(h, l, i, x->anchor, &rows);
            const int64_t at = c & 1 ? low->rank[c - 1] : 0;
            before = rows_from(h, l + 1, c, x->anchor, &rows) - first;
            char *from = basis(w, l + 1, c, &ldc);
            call_set(&w->args, &q, c, rows, v->rank[i], low->rank[c], from,
                     hss_basis(h, l, i) + at * size, x->e[i] + before * size);
        }
        TRY(call_gemm(f, &w->args, &q, 'N', 'N', 1, ldc, v->rows, 0, x->ld));
    }
    for (int k = 0; k < 2 && x->w[k]; k++) {
        TRY(call_open(f, &w->args, &q, v->nodes));
        for (int64_t i = 0; i < v->nodes; i++) {
            rows_from(h, l, i, x->anchor, &rows);
            char *from = basis(w, l, i, &ld);
            call_set(&w->args, &q, i, rows, v->rank[i ^ 1], v->rank[i], from,
                     hss_coupling(h, l, k ? i ^ 1 : i), x->w[k][i]);
        }
        TRY(call_gemm(f, &w->args, &q, 'N', k ? 'T' : 'N', 1, ld, v->most, 0, x->ld));
    }
done:
    return st;
}

/* --- launches --------------------------------------------------------------------------------- */

/* Terms of rows of node j at level `to` (points: levels + 1): what the siblings of it and of its
 * ancestors give, down to level `end`, and the ancestor there, if it is not 0. */
static status terms(const merger *w, plan *p, bool turned, int to, int64_t j, int end) {
    const hss *h = w->h;
    const int64_t size = (int64_t)backend_size(h->f.o.type);
    const int low = to > h->t.levels ? h->t.levels : to;
    int64_t rows, ld;
    const int64_t first = rows_from(h, low, j, to, &rows);
    const int kind = turned ? 1 : 0;
    status st = MOAO_OK;
    for (int l = low; l > end; l--) {
        const int64_t i = j >> (low - l), other = i ^ 1;
        const nested_level *v = h->level + l;
        if (l == to) {
            TRY(plan_term(p, hss_coupling(h, l, turned ? other : i), v->most, turned,
                          v->rank[other], HSS_UP, v->up[other]));
        } else {
            const int64_t before = first - rows_from(h, l, i, to, &rows);
            TRY(plan_term(p, w->level[l].w[kind][i] + before * size, w->level[l].ld, false,
                          v->rank[other], HSS_UP, v->up[other]));
        }
    }
    if (end > 0 && end < NESTED_LEVELS) {
        const int64_t i = j >> (low - end), before = first - rows_from(h, end, i, to, &rows);
        const char *from = basis(w, end, i, &ld) + before * size;
        TRY(plan_term(p, from, ld, false, h->level[end].rank[i], HSS_DOWN, h->level[end].up[i]));
    }
done:
    return st;
}

/* Launches first .. first + count, one level each, by chains; those that do not make a whole one
 * are the farthest from the leaves. */
static void link_levels(plan *p, int first, int count, bool down) {
    int n;
    for (; count > 1; count -= n, first += n) {
        n = count < HIER_FUSED                ? count
            : down && count % HIER_FUSED != 0 ? count % HIER_FUSED
                                              : HIER_FUSED;
        plan_link(p, first, n);
    }
}

static status launches(const merger *w, bool turned, plan *p) {
    const hss *h = w->h;
    const int levels = h->t.levels;
    const bool adjacent =
        w->anchors > 1 && w->anchor[0] - w->anchor[w->anchors - 1] == w->anchors - 1;
    int64_t rows, ld;
    status st = MOAO_OK;
    p->whole = adjacent;
    for (int l = levels; l >= 1; l--) {
        const nested_level *v = h->level + l;
        const int c = w->level[l].anchor;
        if (is_top(w, l))
            TRY(plan_launch(p));
        for (int64_t i = 0; i < v->nodes; i++) {
            const int64_t row = rows_from(h, l, i, c, &rows);
            const char *from = basis(w, l, i, &ld);
            TRY(plan_sum(p, v->up[i], v->rank[i]));
            TRY(plan_term(p, from, ld, true, rows, c > levels ? HSS_X : HSS_UP, row));
        }
    }
    const int ups = p->launches;
    for (int a = w->anchors - 1; a >= 0; a--) {
        const nested_level *v = h->level + w->anchor[a];
        TRY(plan_launch(p));
        for (int64_t j = 0; j < v->nodes; j++) {
            TRY(plan_sum(p, v->up[j], v->rank[j]));
            TRY(terms(w, p, turned, w->anchor[a], j, a + 1 < w->anchors ? w->anchor[a + 1] : 0));
        }
    }
    if (adjacent) {
        link_levels(p, 0, w->anchors, false);
        link_levels(p, ups, w->anchors, true);
    }
    p->whole = false;
    TRY(plan_launch(p));
    for (int64_t i = 0; i < tree_nodes(levels); i++) {
        const int64_t n = h->t.size[tree_node(levels, i)], row = h->t.first[tree_node(levels, i)];
        TRY(plan_sum(p, row, n));
        TRY(plan_term(p, hss_diagonal(h, i), h->leaf, turned, n, HSS_X, row));
        if (n > 0)
            TRY(terms(w, p, turned, levels + 1, i, w->anchors > 0 ? w->anchor[0] : 0));
    }
    TRY(plan_send(&h->f, p));
done:
    return st;
}

status hss_merge(hss *h, const int *anchor, int anchors, hss_launches *to) {
    merger w = {.h = h, .to = to, .anchors = anchors, .anchor = anchor};
    const int levels = h->t.levels;
    status st = MOAO_OK;
    for (int l = levels, a = -1; l >= 1; l--) {
        const bool next = a + 1 < anchors && l == anchor[a + 1];
        w.level[l].anchor = a < 0 ? levels + 1 : anchor[a];
        TRY(places(&w, l, !next));
        TRY(fill(&w, l));
        a += next;
    }
    TRY(launches(&w, false, &to->way[0]));
    if (!h->f.symmetric)
        TRY(launches(&w, true, &to->way[1]));
    to->ups = to->way[0].launches - 1 - anchors;
done:
    for (int l = 1; l <= levels; l++)
        free(w.level[l].e), free(w.level[l].w[0]), free(w.level[l].w[1]);
    pack_free(&h->f, &w.args);
    return st;
}

void hss_launches_free(const format *f, hss_launches *l) {
    plan_free(f, l->way), plan_free(f, l->way + 1);
    for (int i = 0; i < NESTED_LEVELS; i++)
        f->be->release(f->ctx, l->memory[i]);
    *l = (hss_launches){.ups = 0};
}
