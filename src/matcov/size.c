/* Memory of the tables, known before any is made. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static status add_lattice_table(const footprint *firsts, int nfirst, const footprint *seconds,
                                int nsecond, bool symmetric, size_t *bytes) {
    const size_t pairs = (size_t)nfirst * (size_t)nsecond;
    lattice_table k;
    const status st = lattice_table_plan(firsts, nfirst, seconds, nsecond, symmetric, false, &k);
    if (st != MOAO_OK)
        return st;
    *bytes += k.nvalue * sizeof(double) + pairs * (sizeof *k.tables + sizeof *k.links);
    lattice_table_free(&k);
    return MOAO_OK;
}

status matcov_count(const sys *s, int nlayer, matcov_sizes *z) {
    footprint *feet = NULL;
    status st;
    *z = (matcov_sizes){.nlayer = nlayer};
    TRY(ALLOC(feet, (size_t)s->nsensor, "footprints"));
    for (int w = 0; w < s->nsensor; w++)
        feet[w] = footprint_outline(s, &s->sensors[w]);
    /* no two sensors are seen alike from a direction that nothing else has */
    sensor o = truth_sensor(s, (double[2]){0.1234567, 0.7654321});
    footprint ts = footprint_outline(s, &o);
    TRY(add_lattice_table(feet, s->nsensor, feet, s->nsensor, true, &z->profile));
    TRY(add_lattice_table(&ts, 1, &ts, 1, false, &z->profile));
    TRY(add_lattice_table(&ts, 1, feet, s->nsensor, false, &z->target));
    TRY(gradients_count(s, nlayer, &z->gradients));
done:
    free(feet);
    return st;
}

/* Of matcov_prepare, without what profiles share: outlines and the tables of mean gradients. Those
 * of the structure functions are the process's. */
static size_t prepared_bytes(const sys *s, int nlayer) {
    bool gradient = s->ts.gradient;
    for (int w = 0; w < s->nsensor; w++)
        gradient = gradient || s->sensors[w].gradient;
    size_t bytes = sizeof(matcov);
    bytes += (size_t)nlayer * (5 * sizeof(double) + sizeof(void *));
    bytes +=
        (size_t)s->nsensor * (sizeof(footprint) + sizeof(double)) + 3 * (s->m / 2) * sizeof(double);
    for (int w = 0; w < s->nsensor; w++)
        bytes += footprint_bytes(s->sensors[w].nssp, s->sensors[w].nsub);
    bytes += footprint_bytes(s->ts.nssp, s->ts.nsub);
    if (gradient)
        bytes += (s->m + s->t) * sizeof(double); /* centres of subapertures */
    return bytes;
}

static size_t own_bytes(const sys *s, const matcov_sizes *z) {
    return prepared_bytes(s, z->nlayer) + z->profile;
}

/* Whether two sensors share their outlines (outline.c). */
static bool same_outlines(const sensor *a, const sensor *b) {
    return a->nssp == b->nssp && a->mag == b->mag && a->rot == b->rot &&
           a->shift[0] == b->shift[0] && a->shift[1] == b->shift[1] && a->gradient == b->gradient &&
           a->whole == b->whole && a->nsub == b->nsub &&
           memcmp(a->sub, b->sub, (size_t)a->nsub * sizeof *a->sub) == 0;
}

/* Of all sensors; shared: of each geometry once. */
static size_t all_outlines(const sys *s, bool shared) {
    size_t bytes = 0;
    for (int w = 0; w < s->nsensor; w++) {
        int i = shared ? 0 : w;
        while (i < w && !same_outlines(&s->sensors[i], &s->sensors[w]))
            i++;
        bytes += i == w ? outline_bytes(s, &s->sensors[w]) : 0;
    }
    return bytes;
}

size_t matcov_bytes(const sys *s, const matcov_sizes *z) {
    return own_bytes(s, z) + z->gradients + all_outlines(s, true);
}

size_t matcov_held_bytes(const sys *s, const matcov_sizes *z, int layerings) {
    return 2 * own_bytes(s, z) + (size_t)layerings * z->gradients + all_outlines(s, true);
}

size_t matcov_prepared_bytes(const sys *s, const matcov_sizes *z, int count, int layerings) {
    return (size_t)count * prepared_bytes(s, z->nlayer) + (size_t)layerings * z->gradients +
           all_outlines(s, true);
}

size_t matcov_device_bytes(const sys *s, const matcov_sizes *z) {
    return own_bytes(s, z) + all_outlines(s, false) + 2 * STRUCTURE_SIZE * sizeof(double) +
           z->gradients / 8 * 13;
}

size_t matcov_target_bytes(const matcov_sizes *z) {
    return sizeof(matcov_target) + z->target;
}
