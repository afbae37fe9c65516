/* Which tables the mean gradients of a system need: one for each outer scale and pair of sizes on a
 * layer. Model section 4. */
#include "internal.h"

#include <math.h>
#include <pthread.h>
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

/* Tables that were made, which all profiles with the same layers' altitudes and outer scales share:
 * those of a night, and the two of a difference. One takes a millisecond to make, and a turned one
 * twenty. Beside those in use the ones used last are kept. */
struct gradient_set {
    gradient_set *next;
    int users;
    long serial;
    int n;
    gradient_key *keys;
    matcov_gradient *tables;
    double *values;
    size_t nvalue;
};
static gradient_set *made; /* the one used last comes first */
static long nmade;
/* Also of a thread that prepares the next exposure: a critical section is of one team's threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void free_set(gradient_set *s) {
    if (s == NULL)
        return;
    free(s->keys);
    free(s->tables);
    free(s->values);
    free(s);
}

static bool same_keys(const gradient_set *s, const gradient_key *keys, int n) {
    bool same = s->n == n;
    for (int i = 0; i < n && same; i++)
        same = same_key(&s->keys[i], &keys[i]);
    return same;
}

/* Its tables are taken by one more user; NULL: there is none. */
static gradient_set *take_set(const gradient_key *keys, int n) {
    gradient_set *found = NULL;
    pthread_mutex_lock(&lock);
    for (gradient_set **at = &made; *at != NULL && found == NULL; at = &(*at)->next)
        if (same_keys(*at, keys, n)) {
            found = *at;
            *at = found->next;
            found->next = made;
            made = found;
            found->users++;
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

/* After s was added or lost a user: nobody's sets go, but for the last. */
static void forget_sets(void) {
    bool kept = false;
    for (gradient_set **at = &made; *at != NULL;) {
        gradient_set *s = *at;
        if (s->users > 0 || !kept) {
            kept = kept || s->users == 0;
            at = &s->next;
            continue;
        }
        *at = s->next;
        free_set(s);
    }
}

static void add_set(gradient_set *s) {
    pthread_mutex_lock(&lock);
    s->users = 1;
    s->serial = ++nmade;
    s->next = made;
    made = s;
    forget_sets();
    pthread_mutex_unlock(&lock);
}

static void leave_set(gradient_set *s) {
    pthread_mutex_lock(&lock);
    s->users--;
    forget_sets();
    pthread_mutex_unlock(&lock);
}

/* Place of every table among the values. */
static status lay_out(gradient_set *s) {
    status st;
    TRY(ALLOC(s->tables, (size_t)s->n, "tables of mean gradients"));
    for (int i = 0; i < s->n; i++) {
        s->tables[i] = gradient_shape(&s->keys[i]);
        s->tables[i].radial = s->nvalue;
        s->tables[i].near = s->nvalue + (size_t)GRADIENT_INTERVALS * 2 * GRADIENT_TERMS;
        s->nvalue = s->tables[i].near + gradient_near_size(&s->tables[i]);
        s->nvalue += s->nvalue % 2; /* gradient_two */
    }
    TRY(ALLOC(s->values, s->nvalue, "tables of mean gradients"));
done:
    return st;
}

/* The same table of a set that there is. */
static bool copy_table(const gradient_key *k, size_t n, double *value) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (const gradient_set *s = made; s != NULL && !found; s = s->next)
        for (int i = 0; i < s->n && !found; i++)
            if (same_key(&s->keys[i], k)) {
                memcpy(value, s->values + s->tables[i].radial, n * sizeof *value);
                found = true;
            }
    pthread_mutex_unlock(&lock);
    return found;
}

static status fill_tables(gradient_set *s) {
    status st = MOAO_OK;
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < s->n; i++) {
        const matcov_gradient *t = &s->tables[i];
        double *value = s->values + t->radial;
        if (copy_table(&s->keys[i], t->near - t->radial + gradient_near_size(t), value))
            continue;
        gradient_fill_radial(&s->keys[i], t, value);
        status one = gradient_fill_near(&s->keys[i], t, s->values + t->near);
        if (one != MOAO_OK) {
#pragma omp critical(gradients)
            st = one;
        }
    }
    return st;
}

/* The tables of keys, which are the set's or freed afterwards. */
static status make_set(gradient_key *keys, int n, gradient_set **set) {
    gradient_set *s = take_set(keys, n);
    status st = MOAO_OK;
    if (s != NULL) {
        free(keys);
        goto done;
    }
    st = ALLOC(s, 1, "tables of mean gradients");
    if (st != MOAO_OK) {
        free(keys);
        goto done;
    }
    s->keys = keys;
    s->n = n;
    TRY(lay_out(s));
    TRY(fill_tables(s));
    add_set(s);
done:
    if (st != MOAO_OK) {
        free_set(s);
        s = NULL;
    }
    *set = s;
    return st;
}

status gradients_init(footprint *feet, int nsensor, footprint *ts, const layers *lay,
                      const structure_table *kolmogorov, gradients *g) {
    status st;
    const footprint **kinds = NULL;
    *g = (gradients){0};
    TRY(ALLOC(kinds, (size_t)nsensor + 1, "kinds of sensors"));
    for (int w = 0; w < nsensor + (ts != NULL); w++) {
        footprint *f = w < nsensor ? &feet[w] : ts;
        f->kind = f->gradient ? kind_of(f, kinds, &g->nkind) : -1;
    }
    if (g->nkind == 0)
        goto done;
    bool phase = ts != NULL;
    for (int w = 0; w < nsensor; w++)
        phase = phase || feet[w].outline.n > 0;
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
        g->phase_of[a] = phase ? add_class(g, NULL, kinds[a], lay, kolmogorov) : -1;
    }
    st = make_set(g->keys, g->ntable, &g->set);
    g->keys = NULL;
    if (st == MOAO_OK) {
        g->tables = g->set->tables;
        g->values = g->set->values;
        g->nvalue = g->set->nvalue;
        g->serial = g->set->serial;
    }
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
    free(g->keys);
    if (g->set != NULL)
        leave_set(g->set);
    *g = (gradients){0};
}

int gradients_class(const gradients *g, const footprint *a, const footprint *b, bool *swapped) {
    *swapped = a->kind > b->kind;
    if (a->kind < 0 || b->kind < 0)
        return -1;
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

status gradients_count(const sys *s, int nlayer, size_t *bytes) {
    footprint *feet = NULL;
    const footprint **kinds = NULL;
    size_t values = 0, nfeet = (size_t)s->nsensor + 1;
    int n = 0;
    status st;
    TRY(ALLOC(feet, nfeet, "footprints"));
    TRY(ALLOC(kinds, nfeet, "kinds of sensors"));
    for (int w = 0; w <= s->nsensor; w++) {
        const sensor *o = w < s->nsensor ? &s->sensors[w] : &s->ts;
        feet[w] = (footprint){.size = o->mag * s->diameter / o->nssp,
                              .rot = o->rot,
                              .altitude = w < s->nsensor ? o->altitude : INFINITY};
        if (o->gradient)
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
    *bytes = values * sizeof(double);
    return st;
}
