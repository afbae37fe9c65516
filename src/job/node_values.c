#include "job/node_values.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512 }; /* numbers at a time */

void node_values_free(node_values *v) {
    free(v->scalars);
    free(v->kept);
    *v = (node_values){0};
}

size_t node_quality_count(const run *r) {
    return store_scalars(r->u.o.nlambda, r->u.o.nbox, 0);
}

/* Collective. What was computed in the exposure. */
static status load_computed(const run *r, int k, int e, bool kept, node_values *v) {
    const result_block b = run_block(r, e, 0, 1);
    const size_t n = (size_t)r->u.f.nnode;
    status st;
    *v = (node_values){.ns = store_scalars(b.nlambda, b.nbox, b.nbudget),
                       .nkept = kept ? psf_kept_count(r->u.ps) : 0};
    st = ALLOC(v->scalars, n * v->ns, "results of nodes");
    if (st == MOAO_OK)
        st = ALLOC(v->kept, n * v->nkept, "what is kept of nodes");
    for (int i = 0; is_root(r) && st == MOAO_OK && i < (int)n; i++)
        if (field_computes(&r->u.f, i, k, e))
            st = store_read_node(r->st, e, i, v->scalars + (size_t)i * v->ns,
                                 kept ? v->kept + (size_t)i * v->nkept : NULL);
    TRY(comm_agree(r->c, st));
    comm_bcast(r->c, v->scalars, n * v->ns * sizeof *v->scalars);
    comm_bcast(r->c, v->kept, n * v->nkept * sizeof *v->kept);
done:
    if (st != MOAO_OK)
        node_values_free(v);
    return st;
}

typedef struct {
    const run *r;
    int k, e;
    const field_follow *of;
    int n, *node;    /* nodes that follow */
    field_weights w; /* their rows, of nodes that are computed in e */
    node_values *v;
} following;

/* Rows of the nodes that exist and are not computed in the exposure. */
static status choose_rows(following *q) {
    const field *f = &q->r->u.f;
    double(*at)[2] = NULL;
    status st;
    TRY(ALLOC(q->node, (size_t)f->nnode, "nodes that follow"));
    TRY(ALLOC(at, (size_t)f->nnode, "nodes that follow"));
    for (int i = 0; i < f->nnode; i++)
        if (field_computes(f, i, q->k, -1) && !field_computes(f, i, q->k, q->e)) {
            memcpy(at[q->n], f->node[i].at, sizeof *at);
            q->node[q->n++] = i;
        }
    st = field_interpolate(f, q->k, q->e, q->n, (const double(*)[2])at, NULL, &q->w);
done:
    free(at);
    return st;
}

/* sum += by times numbers from .. end of a node of x. */
static void add_kept(const node_values *x, size_t node, size_t from, size_t end, double by,
                     double *sum) {
    const float *a = x->kept + node * x->nkept;
    for (size_t j = from; j < end; j++)
        sum[j - from] += by * (double)a[j];
}

/* Numbers from .. end of row i += own x(x_i) + between sum_j w_j x(x_j). */
static void add_numbers(const following *q, int i, size_t from, size_t end, const node_values *x,
                        double own, double between) {
    const size_t node = (size_t)q->node[i];
    const field_weights *w = &q->w;
    double sum[BLOCK] = {0};
    float *out = q->v->kept + node * q->v->nkept;
    if (own != 0)
        add_kept(x, node, from, end, own, sum);
    for (int j = w->first[i]; j < w->first[i + 1]; j++)
        add_kept(x, (size_t)w->node[j], from, end, between * w->w[j], sum);
    for (size_t j = from; j < end; j++)
        out[j] = (float)(out[j] + sum[j - from]);
}

/* The same of the terms of the error budget, which are variances. */
static void add_terms(const following *q, int i, const node_values *x, double own, double between) {
    const size_t ns = q->v->ns, node = (size_t)q->node[i];
    const field_weights *w = &q->w;
    for (size_t t = node_quality_count(q->r); t < ns; t++) {
        double sum = own * x->scalars[node * ns + t];
        for (int j = w->first[i]; j < w->first[i + 1]; j++)
            sum += between * w->w[j] * x->scalars[(size_t)w->node[j] * ns + t];
        q->v->scalars[node * ns + t] += sum;
    }
}

/* Adds to all rows what x contributes: of K_e itself (base -1), sum_j w_j K_e(x_j); of base b,
 *     share_b (K_b(x_i) - sum_j w_j K_b(x_j)). */
static void add_to_rows(const following *q, const node_values *x, int base) {
    const size_t planes = psf_kept_planes(q->r->u.ps), n = q->v->nkept / planes;
    const double share = base < 0 ? 0 : q->of->share[base],
                 square = base < 0 ? 0 : q->of->square[base];
#pragma omp parallel for schedule(dynamic, 4)
    for (int i = 0; i < q->n; i++) {
        add_terms(q, i, x, share, base < 0 ? 1 : -share);
        for (size_t l = 0; l < planes && n > 0; l++)
            for (size_t from = 0; from < n; from += BLOCK) {
                const size_t end = n - from < BLOCK ? n : from + BLOCK;
                const double c = l == 0 ? share : square;
                add_numbers(q, i, l * n + from, l * n + end, x, c, base < 0 ? 1 : -c);
            }
    }
}

status node_values_load(const run *r, int k, int e, bool kept, node_values *v) {
    const field *f = &r->u.f;
    following q = {.r = r, .k = k, .e = e, .v = v};
    node_values base = {0}; /* of one exposure at a time */
    status st;
    TRY(load_computed(r, k, e, kept, v));
    if (!field_follows(f, k, e))
        return st;
    q.of = &f->follow[e];
    TRY(comm_agree(r->c, choose_rows(&q)));
    add_to_rows(&q, v, -1);
    for (int b = 0; b < q.of->n; b++) {
        TRY(load_computed(r, k, q.of->base[b], kept, &base));
        add_to_rows(&q, &base, b);
        node_values_free(&base);
    }
done:
    node_values_free(&base);
    free(q.node);
    field_weights_free(&q.w);
    if (st != MOAO_OK)
        node_values_free(v);
    return st;
}
