/* Compression of an HSS matrix as that of an H2 matrix of which the far blocks are those of
 * siblings: weights downwards, bases and blocks upwards (h2_compress.c). Of a matrix that is not
 * symmetric both blocks of a pair go in, the second one transposed, as two blocks between the same
 * nodes: one basis serves rows and columns, and is weighted by both. */
#include "h2.h"
#include "hss.h"
#include <stdlib.h>

typedef struct {
    h2 view;
    hss *h;
    int kinds; /* blocks of a pair of siblings */
    char *one; /* the identity */
    pack args;
} compression;

/* Each node's only partner is its sibling. */
static status partners(compression *c) {
    h2 *v = &c->view;
    const int64_t nodes = tree_node(v->t.levels + 1, 0);
    status st;
    v->far_of.count = nodes;
    TRY(ALLOC(v->far_of.first, (unsigned long)nodes + 1, "pairs of nodes"));
    TRY(ALLOC(v->far_of.item, (unsigned long)(nodes * c->kinds), "pairs of nodes"));
    TRY(ALLOC(v->far_block, (unsigned long)(nodes * c->kinds), "pairs of nodes"));
    for (int l = 1; l <= v->t.levels; l++)
        for (int64_t i = 0; i < tree_nodes(l); i++) {
            const int64_t a = tree_node(l, i), at = (a - 1) * c->kinds;
            v->far_of.first[a] = at, v->far_of.first[a + 1] = at + c->kinds;
            for (int k = 0; k < c->kinds; k++) {
                v->far_of.item[at + k] = tree_node(l, i ^ 1);
                v->far_block[at + k] = i / 2 * c->kinds + k;
            }
        }
done:
    return st;
}

/* Blocks of level l from the couplings of HSS (`to_blocks`), or back. */
static status carry(compression *c, int l, bool to_blocks) {
    const format *f = &c->h->f;
    const nested_level *v = c->view.level + l;
    const pair_blocks *b = c->view.far + l;
    const int64_t size = (int64_t)backend_size(f->o.type);
    status st = MOAO_OK;
    for (int turned = 0; turned < 2; turned++) { /* the second couplings are transposed */
        const bool kept = turned && c->kinds == 1;
        call q;
        if (to_blocks && kept)
            break;
        TRY(call_open(f, &c->args, &q, v->nodes / 2));
        for (int64_t k = 0; k < v->nodes / 2; k++) {
            const int64_t i = 2 * k + turned, m = v->rank[to_blocks ? 2 * k : i],
                          n = v->rank[to_blocks ? 2 * k + 1 : i ^ 1];
            char *block = h2_block(&c->view, b, c->kinds * k + (kept ? 0 : turned)),
                 *coupling = v->b + i * v->most * v->most * size;
            call_set(&c->args, &q, k, m, n, n, to_blocks ? coupling : block, c->one,
                     to_blocks ? block : coupling);
        }
        TRY(call_gemm(f, &c->args, &q, turned ? 'T' : 'N', 'N', 1, to_blocks ? v->most : b->ld,
                      BATCH_ORTH_MAX, 0, to_blocks ? b->ld : v->most));
    }
    TRY(f->be->sync(f->ctx));
done:
    return st;
}

static status blocks_of_level(compression *c, int l) {
    const format *f = &c->h->f;
    nested_level *v = c->view.level + l;
    pair_blocks *b = c->view.far + l;
    status st;
    b->count = v->nodes / 2 * c->kinds;
    b->ld = (v->most + 1) / 2 * 2, b->stride = b->ld * v->most;
    TRY(ALLOC(b->row, (unsigned long)b->count, "pairs of nodes"));
    TRY(ALLOC(b->col, (unsigned long)b->count, "pairs of nodes"));
    for (int64_t e = 0; e < b->count; e++)
        b->row[e] = e / c->kinds * 2, b->col[e] = b->row[e] + 1;
    TRY(take(f, backend_size(f->o.type) * (size_t)(b->stride * b->count), (void **)&b->s));
    TRY(carry(c, l, true));
    f->be->release(f->ctx, v->b);
    v->b = NULL;
done:
    return st;
}

static status couplings_of_level(compression *c, int l) {
    const format *f = &c->h->f;
    nested_level *v = c->view.level + l;
    status st;
    TRY(take(f, backend_size(f->o.type) * (size_t)(v->most * v->most * v->nodes), (void **)&v->b));
    st = carry(c, l, false);
done:
    return st;
}

status hss_compress(format *f, double tol, char weights, int samples) {
    hss *h = (hss *)f;
    compression c = {.h = h, .kinds = f->symmetric ? 1 : 2};
    status st = MOAO_OK;
    if (h->t.levels == 0)
        return st;
    hss_factor_free(h);
    c.view.f = h->f, c.view.t = h->t, c.view.top = 1;
    for (int l = 0; l < NESTED_LEVELS; l++)
        c.view.level[l] = h->level[l];
    TRY(partners(&c));
    TRY(identity_make(f, BATCH_ORTH_MAX, &c.one));
    for (int l = 1; l <= h->t.levels; l++)
        TRY(blocks_of_level(&c, l));
    TRY(h2_cut(&c.view, tol, weights, samples));
    for (int l = 1; l <= h->t.levels; l++)
        TRY(couplings_of_level(&c, l));
done:
    for (int l = 0; l < NESTED_LEVELS; l++) {
        h->level[l] = c.view.level[l];
        f->be->release(f->ctx, c.view.far[l].s);
        free(c.view.far[l].row), free(c.view.far[l].col);
    }
    lists_free(&c.view.far_of), free(c.view.far_block);
    f->be->release(f->ctx, c.one);
    pack_free(f, &c.args);
    return st == MOAO_OK ? hss_launch(h) : st;
}
