#include "job/node_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BASES = FIELD_BASES, FITTED = 512 }; /* FITTED: numbers of a plane that are fitted */
enum { BLOCK = 64 };                        /* numbers that are completed at a time */
enum { FEWEST = 6 }; /* nodes for each of the a_b: fewer tell nothing of them */
#define RIDGE 1e-6   /* of the mean square of what is fitted */

void dposv_(const char *uplo, const int *n, const int *nrhs, double *a, const int *lda, double *b,
            const int *ldb, int *info);

void node_values_free(node_values *v) {
    free(v->scalars);
    free(v->kept);
    *v = (node_values){0};
}

/* Collective. What was computed in an exposure of reconstructor k, 0 elsewhere. */
static status load_computed(const run *r, int k, int e, bool kept, node_values *v) {
    const result_block b = run_block(r, e, 0, 1);
    const size_t n = (size_t)r->u.f.nnode;
    status st;
    *v = (node_values){.ns = store_scalars(b.nlambda, b.nbox, b.nbudget),
                       .nkept = kept ? psf_kept_count(r->u.ps) : 0};
    st = ALLOC(v->scalars, n * v->ns, "results of nodes");
    if (st == MOAO_OK)
        st = ALLOC(v->kept, n * v->nkept, "what is kept of nodes");
    if (st == MOAO_OK) {
        memset(v->scalars, 0, n * v->ns * sizeof *v->scalars);
        memset(v->kept, 0, n * v->nkept * sizeof *v->kept);
    }
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
    run *r;
    bool stored; /* bases are those of run_nodes */
    int k, nbase, base[BASES];
    field_sources from; /* what D is interpolated from, */
    int *missing, nmissing;
    field_weights to;          /* to the nodes that the exposure lacks, [nmissing]; */
    int *inner, ninner;        /* nodes in the field of them, */
    field_weights others;      /* and each from the others, [ninner] */
    node_values of[1 + BASES]; /* the exposure's, then the whole ones' */
} completion;

static void completion_free(completion *c) {
    for (int b = 0; b < BASES && !c->stored; b++)
        node_values_free(&c->of[1 + b]);
    free(c->missing);
    free(c->inner);
    field_weights_free(&c->to);
    field_weights_free(&c->others);
}

/* Exposures of a higher level, and nodes that all of them have and e too. */
static void choose_bases(completion *c, int e) {
    const field *f = &c->r->u.f;
    const atmos *a = &c->r->u.a;
    c->nbase = field_bases(f->level, a, e, c->base);
    c->from = (field_sources){.tor = c->k, .since = c->k, .level = f->level[e]};
    for (int b = 0; b < c->nbase; b++)
        c->from.since = atmos_tor_of(a, c->base[b]);
}

/* Rows of weights. */
static status choose_rows(completion *c, int e) {
    const field *f = &c->r->u.f;
    const size_t n = (size_t)f->nnode;
    double(*at)[2] = NULL;
    status st;
    TRY(ALLOC(c->missing, n, "nodes"));
    TRY(ALLOC(c->inner, n, "nodes"));
    TRY(ALLOC(at, n, "nodes"));
    for (int i = 0; i < f->nnode; i++)
        if (field_exists(f, i, c->k) && !field_computes(f, i, c->k, e)) {
            memcpy(at[c->nmissing], f->node[i].at, sizeof *at);
            c->missing[c->nmissing++] = i;
        }
    TRY(field_interpolate_from(f, c->from, c->nmissing, (const double(*)[2])at, NULL, &c->to));
    for (int i = 0; i < f->nnode; i++)
        if (field_from(f, &f->node[i], c->from) && field_inside(f, &f->node[i])) {
            memcpy(at[c->ninner], f->node[i].at, sizeof *at);
            c->inner[c->ninner++] = i;
        }
    TRY(field_interpolate_from(f, c->from, c->ninner, (const double(*)[2])at, c->inner,
                               &c->others));
done:
    free(at);
    return st;
}

typedef struct { /* numbers of nodes, in rows: of the scalars, or of what is kept */
    const completion *c;
    bool kept;
} numbers;

static double number(const numbers *q, int b, int node, size_t j) {
    const node_values *v = &q->c->of[b];
    return q->kept ? (double)v->kept[(size_t)node * v->nkept + j]
                   : v->scalars[(size_t)node * v->ns + j];
}

/* Adds the normal equations of number j, weighted by kriging's deviation: g [BASES + 1][BASES + 1],
 * the last row and column of the exposure itself. */
static void add_normal(const numbers *q, size_t j, double g[BASES + 1][BASES + 1]) {
    const completion *c = q->c;
    const field_weights *w = &c->others;
    for (int i = 0; i < c->ninner; i++) {
        double off[BASES + 1];
        if (!(w->power[i] > 0))
            continue;
        for (int b = 0; b <= c->nbase; b++) {
            double d = number(q, b, c->inner[i], j);
            for (int k = w->first[i]; k < w->first[i + 1]; k++)
                d -= w->w[k] * number(q, b, w->node[k], j);
            off[b] = d / w->power[i];
        }
        for (int a = 0; a <= c->nbase; a++)
            for (int b = 0; b <= c->nbase; b++)
                g[a][b] += off[a] * off[b];
    }
}

/* a_b of numbers from .. end, by least squares; (1, 0 ..) where nodes are too few. */
static void fit(const numbers *q, size_t from, size_t end, double *a) {
    const completion *c = q->c;
    const size_t stride = (end - from + FITTED - 1) / FITTED;
    double g[BASES + 1][BASES + 1] = {{0}}, h[BASES * BASES], trace = 0;
    const int n = c->nbase;
    for (int b = 0; b < n; b++)
        a[b] = b == 0;
    if (c->ninner < FEWEST * n)
        return;
    for (size_t j = from; j < end; j += stride) /* in one order: the same bits on every rank */
        add_normal(q, j, g);
    for (int b = 1; b <= n; b++)
        trace += g[b][b] / n;
    if (!(trace > 0) || !isfinite(trace))
        return;
    double right[BASES];
    for (int x = 0; x < n; x++) {
        right[x] = g[0][x + 1];
        for (int y = 0; y < n; y++)
            h[x + y * n] = g[x + 1][y + 1] + (x == y ? RIDGE * trace : 0);
    }
    int info, one = 1;
    dposv_("U", &n, &one, h, &n, right, &n, &info);
    if (info == 0)
        memcpy(a, right, (size_t)n * sizeof *a);
}

/* D of a source, n numbers from `from` on. */
static void difference(const numbers *q, int node, size_t from, size_t n, const double *a,
                       double *out) {
    for (size_t j = 0; j < n; j++) {
        out[j] = number(q, 0, node, from + j);
        for (int b = 0; b < q->c->nbase; b++)
            out[j] -= a[b] * number(q, 1 + b, node, from + j);
    }
}

/* n numbers from `from` on of the nodes that the exposure lacks. diff: [nnode][BLOCK]. */
static void complete_block(const numbers *q, size_t from, size_t n, const double *a, double *diff) {
    const completion *c = q->c;
    const field *f = &c->r->u.f;
    const node_values *v = &c->of[0];
    for (int i = 0; i < f->nnode; i++)
        if (field_from(f, &f->node[i], c->from))
            difference(q, i, from, n, a, diff + (size_t)i * BLOCK);
    for (int i = 0; i < c->nmissing; i++) {
        const size_t node = (size_t)c->missing[i];
        double sum[BLOCK] = {0};
        for (int b = 0; b < c->nbase; b++)
            for (size_t j = 0; j < n; j++)
                sum[j] += a[b] * number(q, 1 + b, c->missing[i], from + j);
        for (int k = c->to.first[i]; k < c->to.first[i + 1]; k++) {
            const double w = c->to.w[k], *of = diff + (size_t)c->to.node[k] * BLOCK;
            for (size_t j = 0; j < n; j++)
                sum[j] += w * of[j];
        }
        for (size_t j = 0; j < n && q->kept; j++)
            v->kept[node * v->nkept + from + j] = (float)sum[j];
        for (size_t j = 0; j < n && !q->kept; j++)
            v->scalars[node * v->ns + from + j] = sum[j];
    }
}

/* Numbers from .. end, with a_b of their own. */
static status complete_plane(const numbers *q, size_t from, size_t end) {
    const size_t nnode = (size_t)q->c->r->u.f.nnode;
    bool lacking = false;
    double a[BASES];
    fit(q, from, end, a);
#pragma omp parallel
    {
        double *diff = malloc(nnode * BLOCK * sizeof *diff);
#pragma omp critical
        lacking = lacking || diff == NULL;
#pragma omp barrier
#pragma omp for schedule(static)
        for (size_t j = from; j < end; j += BLOCK)
            if (!lacking)
                complete_block(q, j, end - j < BLOCK ? end - j : BLOCK, a, diff);
        free(diff);
    }
    return lacking ? status_fail(MOAO_MEMORY, "no memory for numbers of %zu nodes", nnode)
                   : MOAO_OK;
}

static status complete(completion *c) {
    const size_t planes = psf_kept_planes(c->r->u.ps), n = c->of[0].nkept / planes;
    const numbers scalars = {c, false}, kept = {c, true};
    status st = MOAO_OK;
    for (size_t j = 0; j < c->of[0].ns; j++)
        TRY(complete_plane(&scalars, j, j + 1));
    for (size_t l = 0; n > 0 && l < planes; l++)
        TRY(complete_plane(&kept, l * n, (l + 1) * n));
done:
    return st;
}

static status load(run *r, int k, int e, bool kept, bool store, node_values *v);

static bool is_base(const completion *c, int e) {
    for (int b = 0; b < c->nbase; b++)
        if (c->base[b] == e)
            return true;
    return false;
}

/* Collective. A base from those that are stored, or into the place of one that is none now. */
static status take_stored(completion *c, int b, bool kept) {
    run_nodes *s = &c->r->nodes;
    const int e = c->base[b];
    int place = -1;
    status st = MOAO_OK;
    for (int i = 0; i < BASES; i++)
        if (s->base[i].v.scalars != NULL && s->base[i].exposure == e &&
            (s->base[i].v.nkept > 0 || !kept)) {
            c->of[1 + b] = s->base[i].v;
            return st;
        }
    for (int i = 0; i < BASES; i++)
        if (s->base[i].v.scalars == NULL || !is_base(c, s->base[i].exposure) ||
            s->base[i].exposure == e)
            place = i;
    node_values_free(&s->base[place].v);
    s->base[place].exposure = e;
    st = load(c->r, atmos_tor_of(&c->r->u.a, e), e, kept, false, &s->base[place].v);
    c->of[1 + b] = s->base[place].v;
    return st;
}

void node_values_forget(run *r) {
    for (int i = 0; i < BASES; i++)
        node_values_free(&r->nodes.base[i].v);
}

/* Collective. store: bases stay for the next exposure; those of bases do not. */
static status load(run *r, int k, int e, bool kept, bool store, node_values *v) {
    completion c = {.r = r, .k = k, .stored = store};
    status st;
    TRY(load_computed(r, k, e, kept, v));
    if (field_is_complete(&r->u.f, k, e))
        goto done;
    choose_bases(&c, e);
    c.of[0] = *v;
    for (int b = 0; b < c.nbase; b++) {
        const int base = c.base[b];
        TRY(store ? take_stored(&c, b, kept)
                  : load(r, atmos_tor_of(&r->u.a, base), base, kept, false, &c.of[1 + b]));
    }
    st = choose_rows(&c, e);
    if (st == MOAO_OK)
        st = complete(&c);
    TRY(comm_agree(r->c, st));
done:
    completion_free(&c);
    if (st != MOAO_OK)
        node_values_free(v);
    return st;
}

status node_values_load(run *r, int k, int e, bool kept, node_values *v) {
    return load(r, k, e, kept, true, v);
}
