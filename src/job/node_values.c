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
    node_values *v, base[FIELD_BASES];
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

/* Adds `by` times the numbers from .. end of a node of x to sum. */
static void add_kept(const node_values *x, size_t node, size_t from, size_t end, double by,
                     double *sum) {
    const float *a = x->kept + node * x->nkept;
    for (size_t j = from; j < end; j++)
        sum[j - from] += by * (double)a[j];
}

/* Numbers from .. end, all of one plane, of row i: K_e = sum_b c_b K_b + sum_j w_j (K_e - sum_b c_b
 * K_b)(x_j). */
static void follow_kept(const following *q, int i, size_t from, size_t end, const double *c) {
    const size_t node = (size_t)q->node[i];
    const field_weights *w = &q->w;
    double sum[BLOCK] = {0};
    for (int j = w->first[i]; j < w->first[i + 1]; j++)
        add_kept(q->v, (size_t)w->node[j], from, end, w->w[j], sum);
    for (int b = 0; b < q->of->n; b++) {
        add_kept(&q->base[b], node, from, end, c[b], sum);
        for (int j = w->first[i]; j < w->first[i + 1]; j++)
            add_kept(&q->base[b], (size_t)w->node[j], from, end, -c[b] * w->w[j], sum);
    }
    for (size_t j = from; j < end; j++)
        q->v->kept[node * q->v->nkept + j] = (float)sum[j - from];
}

/* The same of the terms of the error budget, which are variances. */
static void follow_terms(const following *q, int i) {
    const size_t ns = q->v->ns, node = (size_t)q->node[i];
    const field_weights *w = &q->w;
    for (size_t t = node_quality_count(q->r); t < ns; t++) {
        double sum = 0;
        for (int j = w->first[i]; j < w->first[i + 1]; j++) {
            const size_t to = (size_t)w->node[j] * ns + t;
            sum += w->w[j] * q->v->scalars[to];
            for (int b = 0; b < q->of->n; b++)
                sum -= w->w[j] * q->of->share[b] * q->base[b].scalars[to];
        }
        for (int b = 0; b < q->of->n; b++)
            sum += q->of->share[b] * q->base[b].scalars[node * ns + t];
        q->v->scalars[node * ns + t] = sum;
    }
}

static void follow_all(const following *q) {
    const size_t planes = psf_kept_planes(q->r->u.ps), n = q->v->nkept / planes;
#pragma omp parallel for schedule(dynamic, 4)
    for (int i = 0; i < q->n; i++) {
        follow_terms(q, i);
        for (size_t l = 0; l < planes && n > 0; l++)
            for (size_t from = 0; from < n; from += BLOCK) {
                const size_t end = n - from < BLOCK ? n : from + BLOCK;
                follow_kept(q, i, l * n + from, l * n + end, l == 0 ? q->of->share : q->of->square);
            }
    }
}

status node_values_load(const run *r, int k, int e, bool kept, node_values *v) {
    const field *f = &r->u.f;
    following q = {.r = r, .k = k, .e = e, .v = v};
    status st;
    TRY(load_computed(r, k, e, kept, v));
    if (!field_follows(f, k, e))
        return st;
    q.of = &f->follow[e];
    for (int b = 0; b < q.of->n; b++)
        TRY(load_computed(r, k, q.of->base[b], kept, &q.base[b]));
    TRY(comm_agree(r->c, choose_rows(&q)));
    follow_all(&q);
done:
    for (int b = 0; b < FIELD_BASES; b++)
        node_values_free(&q.base[b]);
    free(q.node);
    field_weights_free(&q.w);
    if (st != MOAO_OK)
        node_values_free(v);
    return st;
}
