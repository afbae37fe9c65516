/* Sums of two H2 matrices of one tree and the same pairs: bases side by side, [U_A U_B], couplings
 * on the diagonal, dense blocks added; then the compression of h2_compress.c (Boukaram, Turkiyyah,
 * Keyes 2019, ACM Trans. Math. Softw. 45, 3: low rank updates of H2 matrices). */
#include "h2.h"

#include <math.h>
#include <string.h>

typedef struct {
    h2 *c;
    const h2 *of[2];
    double factor[2];
    char *one; /* the identity, of order BATCH_ORTH_MAX: products with it put blocks to places */
    pack args;
} sum;

static bool same_lists(const lists *a, const lists *b) {
    return a->count == b->count &&
           !memcmp(a->first, b->first, sizeof *a->first * (size_t)(a->count + 1)) &&
           !memcmp(a->item, b->item, sizeof *a->item * (size_t)a->first[a->count]);
}

static bool same_tree(const h2 *a, const h2 *b) {
    const tree *s = &a->t, *t = &b->t;
    return s->n == t->n && s->levels == t->levels && s->dim == t->dim &&
           !memcmp(s->order, t->order, sizeof *s->order * (size_t)s->n) &&
           !memcmp(s->size, t->size, sizeof *s->size * (size_t)tree_node(s->levels + 1, 0)) &&
           same_lists(&a->far_of, &b->far_of) && same_lists(&a->near_of, &b->near_of);
}

static status copy_tree(const tree *a, tree *t) {
    const size_t nodes = (size_t)tree_node(a->levels + 1, 0);
    const status st = tree_alloc(a->n, a->dim, a->levels, t);
    if (st != MOAO_OK)
        return st;
    memcpy(t->order, a->order, sizeof *t->order * (size_t)a->n);
    memcpy(t->at, a->at, sizeof *t->at * (size_t)(a->n * a->dim));
    memcpy(t->first, a->first, sizeof *t->first * nodes);
    memcpy(t->size, a->size, sizeof *t->size * nodes);
    memcpy(t->low, a->low, 3 * sizeof *t->low * nodes);
    memcpy(t->high, a->high, 3 * sizeof *t->high * nodes);
    return MOAO_OK;
}

static status copy_lists(const lists *a, lists *l) {
    status st;
    l->count = a->count;
    TRY(ALLOC(l->first, (unsigned long)(a->count + 1), "lists of pairs"));
    TRY(ALLOC(l->item, (unsigned long)a->first[a->count], "lists of pairs"));
    memcpy(l->first, a->first, sizeof *l->first * (size_t)(a->count + 1));
    memcpy(l->item, a->item, sizeof *l->item * (size_t)a->first[a->count]);
done:
    return st;
}

static char *at(const h2 *h, char *p, int64_t elements) {
    return p + elements * (int64_t)backend_size(h->f.o.type);
}

/* Sizes of level l, and memory for its bases, all zero. */
static status shape_level(sum *s, int l) {
    h2 *c = s->c;
    nested_level *v = c->level + l;
    const nested_level *a = s->of[0]->level + l, *b = s->of[1]->level + l;
    call q;
    status st;
    v->nodes = tree_nodes(l), v->rows = v->most = 1;
    TRY(ALLOC(v->size, (unsigned long)v->nodes, "sizes of nodes"));
    TRY(ALLOC(v->rank, (unsigned long)v->nodes, "ranks of nodes"));
    TRY(ALLOC(v->up, (unsigned long)v->nodes, "places of nodes"));
    for (int64_t i = 0; i < v->nodes; i++) {
        v->rank[i] = a->rank[i] + b->rank[i];
        v->size[i] =
            l == c->t.levels ? c->t.size[tree_node(l, i)] : v[1].rank[2 * i] + v[1].rank[2 * i + 1];
        v->rows = v->size[i] > v->rows ? v->size[i] : v->rows;
        v->most = v->rank[i] > v->most ? v->rank[i] : v->most;
    }
    v->rows = (v->rows + 1) / 2 * 2;
    if (v->most > BATCH_ORTH_MAX)
        TRY(status_fail(MOAO_MEMORY,
                        "hier_add: a node has %lld columns of both matrices, at most %d serve; "
                        "compress them before",
                        (long long)v->most, BATCH_ORTH_MAX));
    TRY(take(&c->f, backend_size(c->f.o.type) * (size_t)(v->rows * v->most * v->nodes),
             (void **)&v->u));
    TRY(call_open(&c->f, &s->args, &q, v->nodes));
    for (int64_t i = 0; i < v->nodes; i++)
        call_set(&s->args, &q, i, v->rows, v->most, 0, s->one, s->one, h2_basis(c, l, i));
    TRY(call_gemm(&c->f, &s->args, &q, 'N', 'N', 0, BATCH_ORTH_MAX, BATCH_ORTH_MAX, 0, v->rows));
    TRY(c->f.be->sync(c->f.ctx));
done:
    return st;
}

/* Bases of level l of one of the matrices to their columns. */
static status put_bases(sum *s, int which, int l) {
    h2 *c = s->c;
    const h2 *from = s->of[which];
    const nested_level *v = c->level + l, *a = s->of[0]->level + l, *x = from->level + l;
    const bool leaf = l == c->t.levels;
    const int64_t parts = leaf ? 1 : 2;
    call q;
    status st;
    TRY(call_open(&c->f, &s->args, &q, v->nodes * parts));
    for (int64_t i = 0; i < v->nodes; i++)
        for (int64_t k = 0; k < parts; k++) {
            const int64_t child = 2 * i + k, col = which ? a->rank[i] : 0;
            /* rows of the child in [E_1; E_2] of the matrix, and in that of the sum */
            const int64_t rows = leaf ? v->size[i] : x[1].rank[child],
                          row = k ? x[1].rank[child - 1] : 0,
                          to = leaf ? 0
                                    : (k ? v[1].rank[child - 1] : 0) +
                                          (which ? a[1].rank[child] : 0);
            call_set(&s->args, &q, i * parts + k, rows, x->rank[i], x->rank[i],
                     at(c, h2_basis(from, l, i), row), s->one,
                     at(c, h2_basis(c, l, i), to + col * v->rows));
        }
    TRY(call_gemm(&c->f, &s->args, &q, 'N', 'N', 1, x->rows, BATCH_ORTH_MAX, 0, v->rows));
    TRY(c->f.be->sync(c->f.ctx));
done:
    return st;
}

/* Far blocks of level l: diag(alpha S_A, beta S_B). */
static status add_far(sum *s, int l) {
    h2 *c = s->c;
    pair_blocks *b = c->far + l;
    const nested_level *v = c->level + l, *a = s->of[0]->level + l;
    call q;
    status st = MOAO_OK;
    b->ld = (v->most + 1) / 2 * 2, b->stride = b->ld * v->most;
    if (b->count == 0)
        return st;
    TRY(take(&c->f, backend_size(c->f.o.type) * (size_t)(b->stride * b->count), (void **)&b->s));
    TRY(call_open(&c->f, &s->args, &q, b->count));
    for (int64_t e = 0; e < b->count; e++)
        call_set(&s->args, &q, e, b->ld, v->most, 0, s->one, s->one, h2_block(c, b, e));
    TRY(call_gemm(&c->f, &s->args, &q, 'N', 'N', 0, BATCH_ORTH_MAX, BATCH_ORTH_MAX, 0, b->ld));
    for (int which = 0; which < 2; which++) {
        const h2 *from = s->of[which];
        const nested_level *x = from->level + l;
        TRY(c->f.be->sync(c->f.ctx));
        TRY(call_open(&c->f, &s->args, &q, b->count));
        for (int64_t e = 0; e < b->count; e++) {
            const int64_t row = which ? a->rank[b->row[e]] : 0,
                          col = which ? a->rank[b->col[e]] : 0;
            call_set(&s->args, &q, e, x->rank[b->row[e]], x->rank[b->col[e]], x->rank[b->col[e]],
                     h2_block(from, from->far + l, e), s->one,
                     at(c, h2_block(c, b, e), row + col * b->ld));
        }
        TRY(call_gemm(&c->f, &s->args, &q, 'N', 'N', s->factor[which], from->far[l].ld,
                      BATCH_ORTH_MAX, 0, b->ld));
    }
    TRY(c->f.be->sync(c->f.ctx));
done:
    return st;
}

static status add_near(sum *s) {
    h2 *c = s->c;
    pair_blocks *b = &c->near;
    const int64_t leaf = tree_node(c->t.levels, 0);
    call q;
    status st = MOAO_OK;
    b->ld = s->of[0]->near.ld, b->stride = s->of[0]->near.stride;
    if (b->count == 0)
        return st;
    TRY(take(&c->f, backend_size(c->f.o.type) * (size_t)(b->stride * b->count), (void **)&b->s));
    for (int which = 0; which < 2; which++) {
        const pair_blocks *x = &s->of[which]->near;
        TRY(call_open(&c->f, &s->args, &q, b->count));
        for (int64_t e = 0; e < b->count; e++) {
            const int64_t m = c->t.size[leaf + b->row[e]], n = c->t.size[leaf + b->col[e]];
            call_set(&s->args, &q, e, m, n, n, h2_block(s->of[which], x, e), s->one,
                     h2_block(c, b, e));
        }
        TRY(call_gemm(&c->f, &s->args, &q, 'N', 'N', s->factor[which], x->ld, BATCH_ORTH_MAX, which,
                      b->ld));
        TRY(c->f.be->sync(c->f.ctx));
    }
done:
    return st;
}

/* The sum without compression. */
static status add(sum *s) {
    h2 *c = s->c;
    const h2 *a = s->of[0];
    status st;
    TRY(copy_tree(&a->t, &c->t));
    TRY(copy_lists(&a->far_of, &c->far_of));
    TRY(copy_lists(&a->near_of, &c->near_of));
    TRY(h2_number_pairs(c, "hier_add"));
    TRY(identity_make(&c->f, BATCH_ORTH_MAX, &s->one));
    TRY(add_near(s));
    for (int l = c->t.levels; l >= c->top; l--) {
        TRY(shape_level(s, l));
        TRY(put_bases(s, 0, l));
        TRY(put_bases(s, 1, l));
        TRY(add_far(s, l));
    }
done:
    return st;
}

static status check(double alpha, const format *a, double beta, const format *b, double tol) {
    status st;
    if (a->is != &hier_h2 || b->is != &hier_h2)
        return status_fail(MOAO_INPUT, "hier_add: format '%s' has no sums: H2 matrices have",
                           a->is != &hier_h2 ? a->is->name : b->is->name);
    if (!isfinite(alpha) || !isfinite(beta) || !(tol >= 0))
        return status_fail(
            MOAO_INPUT,
            "hier_add: factors %g and %g have to be finite, and the tolerance %g not "
            "negative",
            alpha, beta, tol);
    TRY(hier_has_values(a));
    TRY(hier_has_values(b));
    if (a->be != b->be || a->o.type != b->o.type || !same_tree((const h2 *)a, (const h2 *)b))
        return status_fail(MOAO_INPUT,
                           "hier_add: both matrices have to be of one type and backend, with the "
                           "same points, leaves and pairs of clusters (options leaf, eta, "
                           "mean_split)");
done:
    return st;
}

status hier_add(double alpha, const format *a, double beta, const format *b, double tol,
                format **out) {
    sum s = {.of = {(const h2 *)a, (const h2 *)b}, .factor = {alpha, beta}};
    const hier_source like = {.rows = a->info.rows, .cols = a->info.cols, .symmetric = true};
    status st;
    *out = NULL;
    TRY(check(alpha, a, beta, b, tol));
    if (a->ctx != b->ctx)
        TRY(b->be->sync(b->ctx));
    TRY(ALLOC(s.c, 1, "an H2 matrix"));
    hier_begin(&s.c->f, &hier_h2, a->be, a->ctx, &like, &a->o);
    *out = &s.c->f;
    TRY(add(&s));
    if (tol > 0)
        TRY(h2_cut(s.c, tol, 'W', 0));
    TRY(h2_plan(s.c));
done:
    a->be->release(a->ctx, s.one);
    if (s.c)
        pack_free(&s.c->f, &s.args);
    if (st != MOAO_OK && *out) {
        h2_close(*out);
        *out = NULL;
    }
    return st;
}
