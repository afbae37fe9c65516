/* Which tables the mean gradients of a system need: one for each outer scale and pair of sizes on a
 * layer. Model section 4. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Number of a footprint's kind; a new one is appended to `kinds`. */
static int kind_of(const footprint *f, const footprint **kinds, int *n) {
    for (int i = 0; i < *n; i++)
        if (kinds[i]->size == f->size && kinds[i]->altitude == f->altitude &&
            kinds[i]->rot == f->rot)
            return i;
    kinds[(*n)++] = f;
    return *n - 1;
}

/* Whole number of equal parts that brings `size` to at most GRADIENT_RATIO times the other. */
static int parts_of(double size, double other) {
    double ratio = size / (GRADIENT_RATIO * other);
    return ratio > 1.0 ? (int)ceil(ratio - 1e-9) : 1;
}

static matcov_class class_between(const footprint *a, const footprint *b) {
    matcov_class c = {.parts = {parts_of(a->size, b->size), parts_of(b->size, a->size)}};
    c.size[0] = a->size / c.parts[0];
    c.size[1] = b->size / c.parts[1];
    return c;
}

static bool same_key(const gradient_key *a, const gradient_key *b) {
    return a->kappa == b->kappa && a->la == b->la && a->lb == b->lb && a->turn == b->turn &&
           a->kolmogorov == b->kolmogorov;
}

/* Number of the table of a key, a new one if there is none. */
static int table_for(gradients *g, const gradient_key *k) {
    for (int i = 0; i < g->ntable; i++)
        if (same_key(&g->keys[i], k))
            return i;
    g->keys[g->ntable] = *k;
    return g->ntable++;
}

/* Tables of one class, by layer; a: NULL for the phase at a point. */
static void index_class(gradients *g, const footprint *a, const footprint *b, const layers *lay,
                        const structure_table *kolmogorov, const matcov_class *c, int *index) {
    for (int l = 0; l < lay->n; l++) {
        const double ca = a != NULL ? 1.0 - lay->h[l] / a->altitude : 1.0;
        const double cb = 1.0 - lay->h[l] / b->altitude;
        gradient_key k = {.kappa = lay->kappa[l],
                          .la = c->size[0] * ca,
                          .lb = c->size[1] * cb,
                          .turn = a != NULL ? b->rot - a->rot : 0.0,
                          .kolmogorov = lay->table[l] == kolmogorov};
        index[l] = ca > 0.0 && cb > 0.0 ? table_for(g, &k) : -1;
    }
}

/* Append a class and the tables of its layers; a: NULL for the phase at a point. */
static int add_class(gradients *g, const footprint *a, const footprint *b, const layers *lay,
                     const structure_table *kolmogorov) {
    int *index = g->index + (size_t)g->nclass * (size_t)lay->n;
    matcov_class *c = &g->classes[g->nclass];
    *c = a != NULL ? class_between(a, b) : (matcov_class){.size = {0, b->size}, .parts = {1, 1}};
    c->table = index;
    index_class(g, a, b, lay, kolmogorov, c, index);
    return g->nclass++;
}

/* Place of every table among the values. */
static status lay_out(gradients *g) {
    status st;
    TRY(ALLOC(g->tables, (size_t)g->ntable, "tables of mean gradients"));
    for (int i = 0; i < g->ntable; i++) {
        g->tables[i] = gradient_shape(&g->keys[i]);
        g->tables[i].radial = g->nvalue;
        g->tables[i].near = g->nvalue + (size_t)GRADIENT_INTERVALS * 2 * GRADIENT_TERMS;
        g->nvalue = g->tables[i].near + gradient_near_size(&g->tables[i]);
    }
    TRY(ALLOC(g->values, g->nvalue, "tables of mean gradients"));
done:
    return st;
}

/* Tables that were made before, by key: profiles of a night share altitudes, and every exposure of
 * every chunk asks for them again, while one takes a millisecond to make and a turned one twenty.
 * Local to the process; forgotten as a whole when it holds more than CACHE_BYTES. */
#define CACHE_BYTES ((size_t)256 << 20)
typedef struct made {
    struct made *next;
    gradient_key key;
    size_t n;
    double value[];
} made;
static made *cache;
static size_t cached;

static bool from_cache(const gradient_key *k, size_t n, double *value) {
    bool found = false;
#pragma omp critical(gradient_cache)
    for (const made *m = cache; m != NULL && !found; m = m->next)
        if (m->n == n && same_key(&m->key, k)) {
            memcpy(value, m->value, n * sizeof *value);
            found = true;
        }
    return found;
}

/* Where memory is short nothing is kept. */
static void to_cache(const gradient_key *k, size_t n, const double *value) {
    const size_t bytes = sizeof(made) + n * sizeof *value;
    made *m = bytes < CACHE_BYTES ? malloc(bytes) : NULL;
    if (m == NULL)
        return;
    m->key = *k;
    m->n = n;
    memcpy(m->value, value, n * sizeof *value);
#pragma omp critical(gradient_cache)
    {
        for (made *next; cached + bytes > CACHE_BYTES && cache != NULL; cache = next) {
            next = cache->next;
            cached -= sizeof(made) + cache->n * sizeof *value;
            free(cache);
        }
        m->next = cache;
        cache = m;
        cached += bytes;
    }
}

static status fill_tables(gradients *g) {
    status st = MOAO_OK;
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < g->ntable; i++) {
        const matcov_gradient *t = &g->tables[i];
        const size_t n = t->near - t->radial + gradient_near_size(t);
        double *value = g->values + t->radial;
        if (from_cache(&g->keys[i], n, value))
            continue;
        gradient_fill_radial(&g->keys[i], t, value);
        status one = gradient_fill_near(&g->keys[i], t, g->values + t->near);
        if (one == MOAO_OK) {
            to_cache(&g->keys[i], n, value);
        } else {
#pragma omp critical(gradients)
            st = one;
        }
    }
    return st;
}

status gradients_init(footprint *feet, int nsensor, footprint *ts, const layers *lay,
                      const structure_table *kolmogorov, gradients *g) {
    status st;
    const footprint **kinds = NULL;
    *g = (gradients){0};
    if (!ts->gradient)
        return MOAO_OK;
    TRY(ALLOC(kinds, (size_t)nsensor + 1, "kinds of sensors"));
    for (int w = 0; w < nsensor; w++)
        feet[w].kind = kind_of(&feet[w], kinds, &g->nkind);
    ts->kind = kind_of(ts, kinds, &g->nkind);
    const size_t n = (size_t)g->nkind, most = n * (n + 1) / 2 + n;
    TRY(ALLOC(g->phase_of, n, "classes of sensors"));
    TRY(ALLOC(g->class_of, n * n, "classes of sensors"));
    TRY(ALLOC(g->classes, most, "classes of sensors"));
    TRY(ALLOC(g->index, most * (size_t)lay->n, "tables of mean gradients"));
    TRY(ALLOC(g->keys, most * (size_t)lay->n, "tables of mean gradients"));
    for (size_t a = 0; a < n; a++) {
        for (size_t b = a; b < n; b++)
            g->class_of[a * n + b] = g->class_of[b * n + a] =
                add_class(g, kinds[a], kinds[b], lay, kolmogorov);
        g->phase_of[a] = add_class(g, NULL, kinds[a], lay, kolmogorov);
    }
    TRY(lay_out(g));
    TRY(fill_tables(g));
done:
    free(kinds);
    if (st != MOAO_OK)
        gradients_free(g);
    return st;
}

void gradients_free(gradients *g) {
    free(g->class_of);
    free(g->phase_of);
    free(g->classes);
    free(g->index);
    free(g->tables);
    free(g->keys);
    free(g->values);
    *g = (gradients){0};
}

int gradients_class(const gradients *g, const footprint *a, const footprint *b, bool *swapped) {
    *swapped = a->kind > b->kind;
    return g->class_of[a->kind * g->nkind + b->kind];
}

/* Numbers in the tables of two sizes, at most: cones shrink one of two footprints. */
static size_t most_values(const matcov_class *c, bool cone) {
    size_t most = 0;
    for (int i = 0; i < (cone ? 4 : 1); i++) {
        const double shrunk = 1.0 - 0.25 * i;
        for (int which = 0; which < 2; which++) {
            gradient_key k = {.la = c->size[0] * (which ? shrunk : 1.0),
                              .lb = c->size[1] * (which ? 1.0 : shrunk),
                              .turn = 1.0};
            matcov_gradient t = gradient_shape(&k);
            size_t values = gradient_near_size(&t);
            most = values > most ? values : most;
        }
    }
    return most + (size_t)GRADIENT_INTERVALS * 2 * GRADIENT_TERMS;
}

size_t gradients_bytes(const sys *s, int nlayer) {
    footprint *feet = NULL;
    const footprint **kinds = NULL;
    size_t values = 0, nfeet = (size_t)s->nsensor + 1;
    int n = 0;
    if (!s->ts.gradient)
        return 0;
    if (ALLOC(feet, nfeet, "footprints") != MOAO_OK ||
        ALLOC(kinds, nfeet, "kinds of sensors") != MOAO_OK)
        goto done;
    for (int w = 0; w <= s->nsensor; w++) {
        const sensor *o = w < s->nsensor ? &s->sensors[w] : &s->ts;
        feet[w] = (footprint){.size = o->mag * s->diameter / o->nssp,
                              .rot = o->rot,
                              .altitude = w < s->nsensor ? o->altitude : INFINITY};
        kind_of(&feet[w], kinds, &n);
    }
    for (int a = 0; a < n; a++) {
        matcov_class phase = {.size = {0, kinds[a]->size}};
        values += (size_t)nlayer * most_values(&phase, false);
        for (int b = a; b < n; b++) {
            matcov_class c = class_between(kinds[a], kinds[b]);
            values += (size_t)nlayer *
                      most_values(&c, !isinf(kinds[a]->altitude) || !isinf(kinds[b]->altitude));
        }
    }
done:
    free(feet);
    free(kinds);
    return (values + (s->m + s->t)) * sizeof(double); /* and the centres of subapertures */
}
