/* ULV factor of an HSS matrix and solves with it (Chandrasekaran, Gu, Pals 2006), by orthogonal
 * transforms alone, so that the matrix need not be symmetric or definite.
 *
 * Node with n unknowns, basis of k columns (U for rows, V for columns), e = n - k:
 *   Q = [Q1 Q2] from U, so that Q2' U = 0: the equations Q2' D x = Q2' b have no other unknowns;
 *   (Q2' D)' = W1 R, W = [W1 W2], x = W [y; y~]: y = R^-T Q2' b is known, the k unknowns y~ are
 * left; their equations (Q1' D W2) y~ + Q1' U (...) = Q1' b - (Q1' D W1) y go to the parent, with
 *   U~ = Q1' U, V~ = W2' V, and z = (W1' V)' y, what y does to others.
 * So b -> [y; b~; z] is one matrix F' for a node, and x = W [y; y~] another. A parent's right-hand
 * side is made of its children's [b~; z]: that too goes into its matrix G. A solve is then one
 * launch of sums for each level on the way up, and one on the way down. The inverse of R is
 * multiplied out; R comes from orthogonal transforms of rows of A, so its condition is at most that
 * of A. */
#include "hss_factor.h"
#include <stdlib.h>

/* What a level leaves to the one above, and works with. */
typedef struct {
    hss *h;
    int l;
    factor_level *v;
    size_t size;
    char *d, *u, *b;                /* of this level: D, U, V (b) */
    char *q, *tau, *c, *m, *wv, *f; /* Q; Q1'D; Q1'D W; W'V; F */
    char *ut;                       /* U~ */
    char *one;                      /* the identity */
    int64_t ld_one;
    pack args;
    int *info;
} maker;

static void *allocate(const format *f, size_t bytes, status *st) {
    void *p = NULL;
    if (*st == MOAO_OK)
        *st = borrow(f, bytes, &p);
    return p;
}

/* --- arguments of batched calls ------------------------------------------------------------------
 */

/* The number of an element of node i's matrix where an operand begins. */
typedef int64_t place(const maker *w, int64_t i);

static int64_t e_of(const maker *w, int64_t i) {
    return w->v->n[i] - w->v->k[i];
}
static int64_t at_start(const maker *w, int64_t i) {
    (void)w, (void)i;
    return 0;
}
static int64_t after_k_columns(const maker *w, int64_t i) {
    return w->v->k[i] * w->v->rows;
}
static int64_t after_e_columns(const maker *w, int64_t i) {
    return e_of(w, i) * w->v->rows;
}
static int64_t after_n_columns(const maker *w, int64_t i) {
    return w->v->n[i] * w->v->rows;
}

/* An operand of each node of a level: base, elements between nodes, where in a node's. */
typedef struct {
    char *base;
    int64_t stride, ld;
    place *from;
} operand;

static char *operand_of(const maker *w, const operand *o, int64_t i) {
    return o->base + w->size * (size_t)(i * o->stride + o->from(w, i));
}

/* A size of node i: 'n', 'k', 'e'. */
static int64_t size_of(const maker *w, int64_t i, char what) {
    return what == 'n' ? w->v->n[i] : what == 'k' ? w->v->k[i] : e_of(w, i);
}

/* One product for each node of the level. */
static status each(maker *w, char ta, char tb, const char sizes[3], double alpha, operand a,
                   operand b, double beta, operand c) {
    call q;
    status st = call_open(&w->h->f, &w->args, &q, w->v->nodes);
    for (int64_t i = 0; i < w->v->nodes && st == MOAO_OK; i++)
        call_set(&w->args, &q, i, size_of(w, i, sizes[0]), size_of(w, i, sizes[1]),
                 size_of(w, i, sizes[2]), operand_of(w, &a, i), operand_of(w, &b, i),
                 operand_of(w, &c, i));
    return st != MOAO_OK ? st
                         : call_gemm(&w->h->f, &w->args, &q, ta, tb, alpha, a.ld, b.ld, beta, c.ld);
}

/* --- one level
 * ------------------------------------------------------------------------------------ */

/* Z := Z R^-1, R the triangles of order e at the head of a; those of large nodes, which are few,
 * one by one. */
static status times_inverse(maker *w, char *a, batch_dim n, batch_dim e, char *z) {
    const format *f = &w->h->f;
    const factor_level *v = w->v;
    const backend_type t = f->o.type;
    const int64_t square = v->rows * v->rows, wide = v->rows * (v->rows + v->most);
    const double one = 1;
    const float one_s = 1;
    const void *p1 = t == BACKEND_D ? (const void *)&one : &one_s;
    const size_t lwork = f->be->workspace(BACKEND_TRSM, t, v->rows, v->rows);
    void *work = NULL;
    status st = MOAO_OK;
    if (e.n <= BATCH_MAX)
        return f->be->batch->trsm(f->ctx, t, 'R', 'U', 'N', 'N', v->nodes, n, e, p1,
                                  batch_strided(a, v->rows, square),
                                  batch_strided(z, v->rows, wide));
    TRY(take(f, lwork, &work));
    for (int64_t i = 0; i < v->nodes; i++)
        TRY(f->be->trsm(f->ctx, t, 'R', 'U', 'N', 'N', v->n[i], e_of(w, i), p1,
                        a + w->size * (size_t)(i * square), v->rows,
                        z + w->size * (size_t)(i * wide), v->rows, work, lwork));
    TRY(f->be->sync(f->ctx));
done:
    f->be->release(f->ctx, work);
    return st;
}

/* The first `columns` (k, or e where A holds (Q2'D)') of each matrix to Q, all n columns of it;
 * with `triangle`, Z := Z R^-1 in between. */
static status orthogonal(maker *w, char *a, char columns, char *z) {
    const format *f = &w->h->f;
    const factor_level *v = w->v;
    const backend_lowrank *low = f->be->lowrank;
    const int64_t square = v->rows * v->rows;
    const batch_mat m = batch_strided(a, v->rows, square),
                    tau = batch_strided(w->tau, v->rows, v->rows);
    call q;
    status st;
    TRY(call_open(&w->h->f, &w->args, &q, v->nodes));
    for (int64_t i = 0; i < v->nodes; i++)
        call_set(&w->args, &q, i, v->n[i], size_of(w, i, columns), v->n[i], NULL, NULL, NULL);
    TRY(pack_send(f, &w->args));
    const batch_dim n = call_dim(&w->args, &q, 0), k = call_dim(&w->args, &q, 1);
    TRY(low->geqrf(f->ctx, f->o.type, v->nodes, n, k, m, tau, w->info));
    if (z)
        TRY(times_inverse(w, a, n, k, z));
    TRY(low->orgqr(f->ctx, f->o.type, v->nodes, n, n, k, m, tau));
done:
    return st;
}

/* Q, W, F and what goes to the parent, from D, U, V of all nodes of the level. */
static status eliminate(maker *w) {
    const format *f = &w->h->f;
    const factor_level *v = w->v;
    const int64_t square = v->rows * v->rows, wide = v->rows * (v->rows + v->most),
                  flat = v->rows * v->most, k2 = v->most * v->most;
    const int64_t bytes = (int64_t)w->size * flat;
    const operand d = {w->d, square, v->rows, at_start}, u = {w->u, flat, v->rows, at_start},
                  b = {w->b, flat, v->rows, at_start}, q1 = {w->q, square, v->rows, at_start},
                  q2 = {w->q, square, v->rows, after_k_columns},
                  one = {w->one, 0, w->ld_one, at_start}, wm = {v->w, square, v->rows, at_start},
                  z = {w->f, wide, v->rows, at_start}, f2 = {w->f, wide, v->rows, after_e_columns},
                  f3 = {w->f, wide, v->rows, after_n_columns}, c = {w->c, flat, v->most, at_start},
                  m = {w->m, flat, v->most, at_start}, wv = {w->wv, flat, v->rows, at_start},
                  ut = {w->ut, k2, v->most, at_start};
    status st;
    TRY(f->be->copy(f->ctx, w->q, (int64_t)w->size * square, w->u, bytes, bytes, v->nodes));
    TRY(orthogonal(w, w->q, 'k', NULL));
    TRY(each(w, 'T', 'N', "nen", 1, d, q2, 0, wm));
    TRY(each(w, 'N', 'N', "nee", 1, q2, one, 0, z));
    TRY(orthogonal(w, v->w, 'e', w->f));
    TRY(each(w, 'T', 'N', "knn", 1, q1, d, 0, c));
    TRY(each(w, 'N', 'N', "knn", 1, c, wm, 0, m));
    TRY(each(w, 'T', 'N', "nkn", 1, wm, b, 0, wv));
    TRY(each(w, 'N', 'N', "nkk", 1, q1, one, 0, f2));
    TRY(each(w, 'N', 'T', "nke", -1, z, m, 1, f2));
    TRY(each(w, 'N', 'N', "nke", 1, z, wv, 0, f3));
    TRY(each(w, 'T', 'N', "kkn", 1, q1, u, 0, ut));
done:
    return st;
}

/* Products with the children's blocks, two for each node of the level above `w->l`: operand by
 * operand, at places that the caller computes. */
typedef struct {
    const maker *below; /* what the level of the children has left */
    const factor_level *low;
    const nested_level *tree_level;
    int64_t rows, most; /* of the parents */
} family;

static char *child(const family *q, char *base, int64_t stride, int64_t i, int64_t offset) {
    return base + q->below->size * (size_t)(i * stride + offset);
}
static int64_t row_of(const family *q, int64_t i) {
    return i & 1 ? q->low->k[i - 1] : 0;
}

/* D, U, V of the parents; x: U~ B of each child. */
static status assemble(maker *w, const family *q, char *x) {
    const hss *h = w->h;
    const maker *c = q->below;
    const factor_level *low = q->low;
    const int64_t count = low->nodes, k2 = low->most * low->most, flat = low->rows * low->most;
    const int64_t square = q->rows * q->rows, wide = q->rows * q->most;
    call a;
    status st;
    TRY(call_open(&w->h->f, &w->args, &a, count)); /* x = U~ B */
    for (int64_t i = 0; i < count; i++)
        call_set(&w->args, &a, i, low->k[i], low->k[i ^ 1], low->k[i], child(q, c->ut, k2, i, 0),
                 hss_coupling(h, w->l + 1, i), child(q, x, k2, i, 0));
    TRY(call_gemm(&w->h->f, &w->args, &a, 'N', 'N', 1, low->most, q->tree_level->most, 0,
                  low->most));
    TRY(call_open(&w->h->f, &w->args, &a, count)); /* diagonal blocks of D */
    for (int64_t i = 0; i < count; i++) {
        const int64_t e = low->n[i] - low->k[i];
        call_set(&w->args, &a, i, low->k[i], low->k[i], low->k[i],
                 child(q, c->m, flat, i, e * low->most), w->one,
                 child(q, w->d, square, i / 2, row_of(q, i) * (q->rows + 1)));
    }
    TRY(call_gemm(&w->h->f, &w->args, &a, 'N', 'N', 1, low->most, w->ld_one, 0, q->rows));
    TRY(call_open(&w->h->f, &w->args, &a, count)); /* the other blocks: x V~' of the sibling */
    for (int64_t i = 0; i < count; i++) {
        const int64_t e = low->n[i ^ 1] - low->k[i ^ 1];
        call_set(&w->args, &a, i, low->k[i], low->k[i ^ 1], low->k[i ^ 1], child(q, x, k2, i, 0),
                 child(q, c->wv, flat, i ^ 1, e),
                 child(q, w->d, square, i / 2, row_of(q, i) + row_of(q, i ^ 1) * q->rows));
    }
    TRY(call_gemm(&w->h->f, &w->args, &a, 'N', 'T', 1, low->most, low->rows, 0, q->rows));
    for (int both = 0; both < 2 && w->l > 0; both++) { /* U~ E and V~ E */
        TRY(call_open(&w->h->f, &w->args, &a, count));
        for (int64_t i = 0; i < count; i++) {
            const int64_t e = low->n[i] - low->k[i];
            call_set(&w->args, &a, i, low->k[i], w->v->k[i / 2], low->k[i],
                     both ? child(q, c->wv, flat, i, e) : child(q, c->ut, k2, i, 0),
                     hss_basis(h, w->l, i / 2) + w->size * (size_t)row_of(q, i),
                     child(q, both ? w->b : w->u, wide, i / 2, row_of(q, i)));
        }
        TRY(call_gemm(&w->h->f, &w->args, &a, 'N', 'N', 1, both ? low->rows : low->most,
                      h->level[w->l].rows, 0, q->rows));
    }
    TRY(w->h->f.be->sync(w->h->f.ctx));
done:
    return st;
}

/* G of the parents from F: rows for b~ and z of the first child, then of the second. */
static status join(maker *w, const family *q, char *x) {
    const factor_level *low = q->low, *v = w->v;
    const int64_t count = low->nodes, k2 = low->most * low->most;
    const int64_t wide = q->rows * (q->rows + q->most), tall = v->ldg * (q->rows + q->most);
    call a;
    status st;
    TRY(call_open(&w->h->f, &w->args, &a, count)); /* b~: rows of F */
    for (int64_t i = 0; i < count; i++)
        call_set(&w->args, &a, i, low->k[i], v->n[i / 2] + v->k[i / 2], low->k[i], w->one,
                 child(q, w->f, wide, i / 2, row_of(q, i)),
                 child(q, v->g, tall, i / 2, 2 * row_of(q, i)));
    TRY(call_gemm(&w->h->f, &w->args, &a, 'N', 'N', 1, w->ld_one, q->rows, 0, v->ldg));
    TRY(call_open(&w->h->f, &w->args, &a,
                  count)); /* z: what it does to the sibling's right-hand side */
    for (int64_t i = 0; i < count; i++)
        call_set(&w->args, &a, i, low->k[i], v->n[i / 2] + v->k[i / 2], low->k[i ^ 1],
                 child(q, x, k2, i ^ 1, 0), child(q, w->f, wide, i / 2, row_of(q, i ^ 1)),
                 child(q, v->g, tall, i / 2, 2 * row_of(q, i) + low->k[i]));
    TRY(call_gemm(&w->h->f, &w->args, &a, 'T', 'N', -1, low->most, q->rows, 0, v->ldg));
    if (w->l > 0) { /* and to others: E' z */
        TRY(call_open(&w->h->f, &w->args, &a, count));
        for (int64_t i = 0; i < count; i++)
            call_set(
                &w->args, &a, i, low->k[i], v->k[i / 2], v->k[i / 2],
                hss_basis(w->h, w->l, i / 2) + w->size * (size_t)row_of(q, i), w->one,
                child(q, v->g, tall, i / 2, 2 * row_of(q, i) + low->k[i] + v->n[i / 2] * v->ldg));
        TRY(call_gemm(&w->h->f, &w->args, &a, 'N', 'N', 1, w->h->level[w->l].rows, w->ld_one, 1,
                      v->ldg));
    }
    TRY(w->h->f.be->sync(w->h->f.ctx));
done:
    return st;
}

/* --- levels upwards
 * -------------------------------------------------------------------------------- */

static void maker_release(maker *w) {
    const format *f = &w->h->f;
    char **all[] = {&w->d, &w->u, &w->b, &w->q, &w->tau, &w->c, &w->m, &w->wv, &w->f, &w->ut};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        give(f, *all[i]);
        *all[i] = NULL;
    }
    give(f, w->info);
    w->info = NULL;
}

status hss_factor_sizes(const hss *h, struct hss_factor *q, int l) {
    factor_level *v = q->level + l, *low = v + 1;
    const nested_level *const own =
        l > 0 && l < NESTED_LEVELS ? h->level + l : NULL; /* the root has none */
    const bool leaf = l == h->t.levels;
    status st;
    v->nodes = tree_nodes(l), v->most = own != NULL ? own->most : 1, v->rows = 1;
    int64_t **list[] = {&v->n, &v->k, &v->y, &v->s, &v->v, &v->t};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        TRY(ALLOC(*list[i], (unsigned long)v->nodes, "unknowns of nodes"));
    for (int64_t i = 0; i < v->nodes; i++) {
        v->n[i] = leaf ? h->t.size[tree_node(l, i)] : low->k[2 * i] + low->k[2 * i + 1];
        v->k[i] = own != NULL ? own->rank[i] : 0;
        v->rows = v->n[i] > v->rows ? v->n[i] : v->rows;
    }
    if (leaf && own != NULL)
        v->rows = own->rows > h->leaf ? own->rows : h->leaf;
    v->ldg = leaf ? v->rows : 2 * v->rows;
done:
    return st;
}

static status level_open(maker *w) {
    const format *f = &w->h->f;
    factor_level *v = w->v;
    status st;
    TRY(hss_factor_sizes(w->h, w->h->factor, w->l));
    const size_t s = w->size * (size_t)v->nodes, n = (size_t)v->rows, k = (size_t)v->most;
    w->d = allocate(f, s * n * n, &st), w->q = allocate(f, s * n * n, &st);
    w->u = allocate(f, s * n * k, &st), w->b = allocate(f, s * n * k, &st);
    w->c = allocate(f, s * n * k, &st), w->m = allocate(f, s * n * k, &st);
    w->wv = allocate(f, s * n * k, &st), w->f = allocate(f, s * n * (n + k), &st);
    w->ut = allocate(f, s * k * k, &st), w->tau = allocate(f, s * n, &st);
    w->info = allocate(f, sizeof(int) * (size_t)v->nodes, &st);
    TRY(st);
    TRY(take(f, s * n * n, (void **)&v->w));
    TRY(take(f, s * (size_t)v->ldg * (n + k), (void **)&v->g));
done:
    return st;
}

/* D + shift, U and V of the leaves. */
static status take_leaves(maker *w, double shift) {
    const hss *h = w->h;
    const format *f = &h->f;
    const factor_level *v = w->v;
    const int64_t nodes = v->nodes, row = (int64_t)w->size;
    const operand one = {w->one, 0, w->ld_one, at_start},
                  d = {w->d, v->rows * v->rows, v->rows, at_start};
    status st = MOAO_OK;
    for (int64_t i = 0; i < nodes && v->rows != h->leaf; i++)
        TRY(f->be->copy(f->ctx, w->d + row * i * v->rows * v->rows, row * v->rows,
                        hss_diagonal(h, i), row * h->leaf, row * v->n[i], v->n[i]));
    if (v->rows == h->leaf)
        TRY(f->be->copy(f->ctx, w->d, row * h->leaf, h->d, row * h->leaf, row * h->leaf,
                        h->leaf * nodes));
    if (shift != 0)
        TRY(each(w, 'N', 'N', "nnn", shift, one, one, 1, d));
    if (w->l > 0) {
        const int64_t low = h->level[w->l].rows;
        TRY(f->be->copy(f->ctx, w->u, row * v->rows, h->level[w->l].u, row * low, row * low,
                        v->most * nodes));
        TRY(f->be->copy(f->ctx, w->b, row * v->rows, h->level[w->l].u, row * low, row * low,
                        v->most * nodes));
    }
done:
    return st;
}

/* The level's matrices; what the level below left is used up. */
static status factor_level_make(maker *w, maker *below, factor_level *low, double shift) {
    const format *f = &w->h->f;
    char *x = NULL;
    status st;
    TRY(level_open(w));
    if (!low) {
        TRY(take_leaves(w, shift));
        TRY(eliminate(w));
        const int64_t bytes =
            (int64_t)w->size * w->v->nodes * w->v->rows * (w->v->rows + w->v->most);
        TRY(f->be->copy(f->ctx, w->v->g, bytes, w->f, bytes, bytes, 1));
    } else {
        const family q = {below, low, w->h->level + w->l + 1, w->v->rows, w->v->most};
        TRY(borrow(f, w->size * (size_t)(low->nodes * low->most * low->most), (void **)&x));
        TRY(assemble(w, &q, x));
        TRY(eliminate(w));
        TRY(join(w, &q, x));
        maker_release(below);
    }
    TRY(f->be->sync(f->ctx));
done:
    give(f, x);
    return st;
}

status hss_factor_make(format *f, double shift) {
    hss *h = (hss *)f;
    maker now = {.h = h, .size = backend_size(f->o.type)}, below = {.h = h};
    status st;
    hss_factor_free(h);
    TRY(pool_open(f));
    TRY(ALLOC(h->factor, 1, "an HSS factor"));
    now.ld_one = BATCH_ORTH_MAX;
    TRY(identity_make(f, now.ld_one, &now.one));
    for (now.l = h->t.levels; now.l >= 0; now.l--) {
        now.v = h->factor->level + now.l;
        TRY(factor_level_make(&now, &below, now.l < h->t.levels ? now.v + 1 : NULL, shift));
        below = now;
        now.d = now.u = now.b = now.q = now.tau = now.c = now.m = now.wv = now.f = now.ut = NULL;
        now.info = NULL;
    }
    TRY(hss_solve_prepare(h, shift));
done:
    maker_release(&now), maker_release(&below);
    f->be->release(f->ctx, now.one);
    pool_close(f);
    pack_free(f, &now.args);
    if (st != MOAO_OK)
        hss_factor_free(h);
    return st;
}
