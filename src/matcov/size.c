/* Memory of the tables, known before any is made. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static size_t lattice_table_bytes(const footprint *firsts, int nfirst, const footprint *seconds,
                                  int nsecond, bool symmetric) {
    lattice_table k;
    if (lattice_table_plan(firsts, nfirst, seconds, nsecond, symmetric, false, &k) != MOAO_OK)
        return 0;
    size_t pairs = (size_t)nfirst * (size_t)nsecond;
    size_t bytes = k.nvalue * sizeof(double) + pairs * (sizeof *k.tables + sizeof *k.links);
    lattice_table_free(&k);
    return bytes;
}

/* With `target` the tables of one target, else those of the profile. */
static size_t tables_bytes(const sys *s, bool target) {
    footprint *feet;
    if (ALLOC(feet, (size_t)s->nsensor, "footprints") != MOAO_OK)
        return 0;
    for (int w = 0; w < s->nsensor; w++)
        feet[w] = footprint_outline(s, &s->sensors[w]);
    /* no two sensors are seen alike from a direction that nothing else has */
    sensor o = truth_sensor(s, (double[2]){0.1234567, 0.7654321});
    footprint ts = footprint_outline(s, &o);
    size_t bytes = target ? lattice_table_bytes(&ts, 1, feet, s->nsensor, false)
                          : lattice_table_bytes(feet, s->nsensor, feet, s->nsensor, true) +
                                lattice_table_bytes(&ts, 1, &ts, 1, false);
    free(feet);
    return bytes;
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

static size_t own_bytes(const sys *s, int nlayer) {
    return prepared_bytes(s, nlayer) + tables_bytes(s, false);
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

size_t matcov_bytes(const sys *s, int nlayer) {
    return own_bytes(s, nlayer) + gradients_bytes(s, nlayer) + all_outlines(s, true);
}

size_t matcov_held_bytes(const sys *s, int nlayer, int layerings) {
    return 2 * own_bytes(s, nlayer) + (size_t)layerings * gradients_bytes(s, nlayer) +
           all_outlines(s, true);
}

size_t matcov_prepared_bytes(const sys *s, int nlayer, int count, int layerings) {
    return (size_t)count * prepared_bytes(s, nlayer) +
           (size_t)layerings * gradients_bytes(s, nlayer) + all_outlines(s, true);
}

size_t matcov_device_bytes(const sys *s, int nlayer) {
    return own_bytes(s, nlayer) + all_outlines(s, false) + 2 * STRUCTURE_SIZE * sizeof(double) +
           gradients_bytes(s, nlayer) / 8 * 13;
}

size_t matcov_target_bytes(const sys *s, int nlayer) {
    (void)nlayer;
    return sizeof(matcov_target) + tables_bytes(s, true);
}
