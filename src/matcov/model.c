/* What a backend needs to make the covariances itself. */
#include "internal.h"

#include <stdlib.h>

static void describe_sensor(const matcov *mc, const footprint *f, const sensor *o,
                            matcov_sensor *v) {
    *v = (matcov_sensor){.nssp = f->nssp,
                         .nsub = f->nsub,
                         .size = f->size,
                         .rot = f->rot,
                         .shift = {f->shift[0], f->shift[1]},
                         .altitude = f->altitude,
                         .dir = {f->dir[0], f->dir[1]},
                         .sub = o->sub,
                         .nedge = {f->nedge[0], f->nedge[1]},
                         .gradient = f->gradient,
                         .centre = {f->centre[0], f->centre[1]},
                         .outline = f->outline,
                         .phase_class = f->kind >= 0 ? mc->means.phase_of[f->kind] : -1};
    for (int axis = 0; axis < 2; axis++) {
        v->minus[axis] = f->minus[axis];
        v->plus[axis] = f->plus[axis];
        v->x[axis] = f->x[axis];
        v->y[axis] = f->y[axis];
    }
}

/* Number of a footprint: of a sensor, or nsensor for the truth sensor. */
static int number(const matcov *mc, const footprint *f) {
    if (f == &mc->ts)
        return mc->nsensor;
    return (int)(f >= mc->rows && f < mc->rows + mc->nsensor ? f - mc->rows : f - mc->feet);
}

/* The tables that serve every layer; those of the ground alone save too little to be worth it. */
static status describe_pairs(const matcov *mc, const lattice_table *k, matcov_model *m, int list) {
    const footprint *firsts = list == MATCOV_CMM ? mc->feet : &mc->ts;
    const footprint *seconds = list == MATCOV_CTT ? &mc->ts : mc->feet;
    status st;
    int *kept = NULL, n = 0;
    size_t pairs = (size_t)k->nfirst * (size_t)k->nsecond;
    TRY(ALLOC(kept, (size_t)k->ntable, "tables of like sensors"));
    TRY(ALLOC(m->list[list].tables, (size_t)k->ntable, "tables of like sensors"));
    TRY(ALLOC(m->list[list].links, pairs, "pairs of sensors"));
    for (int i = 0; i < k->ntable; i++) {
        const like *t = &k->tables[i];
        kept[i] = t->ground ? -1 : n++;
        if (t->ground)
            continue;
        matcov_table *v = &m->list[list].tables[kept[i]];
        *v = (matcov_table){.first = number(mc, t->first),
                            .second = number(mc, t->second),
                            .steps = {t->steps[0], t->steps[1]},
                            .n = t->n,
                            .origin = t->origin,
                            .gradient = -1};
        v->gradient = gradients_class(&mc->means, t->first, t->second, &v->swapped);
    }
    m->list[list].ntable = n;
    for (size_t i = 0; i < pairs; i++) {
        int table = k->links[i].table;
        matcov_link *v = &m->list[list].links[i];
        *v = (matcov_link){.table = table < 0 ? -1 : kept[table],
                           .reversed = k->links[i].reversed,
                           .gradient = -1};
        v->gradient = gradients_class(&mc->means, &firsts[i / (size_t)k->nsecond],
                                      &seconds[i % (size_t)k->nsecond], &v->swapped);
    }
done:
    free(kept);
    return st;
}

status matcov_model_init(matcov *mc, matcov_model *m) {
    status st;
    lattice_table target = {0};
    const layers *lay = &mc->lay;
    *m = (matcov_model){.m = (int64_t)mc->s->m,
                        .t = (int64_t)mc->s->t,
                        .nlayer = lay->n,
                        .h = lay->h,
                        .kappa = lay->kappa,
                        .coef = lay->coef,
                        .drift = {lay->drift[0], lay->drift[1]},
                        .nsensor = mc->nsensor,
                        .noise = mc->noise,
                        .tiptilt = mc->tiptilt,
                        .ngradient = mc->means.ntable,
                        .nclass = mc->means.nclass,
                        .gradients = mc->means.tables,
                        .classes = mc->means.classes,
                        .gradient_values = mc->means.values,
                        .ngradient_value = mc->means.nvalue,
                        .difference = mc->difference,
                        .gradient_serial = mc->means.serial,
                        .host = mc};
    bool *kolmogorov = NULL;
    TRY(ALLOC(kolmogorov, (size_t)lay->n, "layers"));
    m->kolmogorov = kolmogorov;
    for (int l = 0; l < lay->n; l++)
        kolmogorov[l] = lay->table[l] == &mc->kolmogorov;
    TRY(ALLOC(m->sensors, (size_t)mc->nsensor + 1, "sensors"));
    for (int w = 0; w < mc->nsensor; w++)
        describe_sensor(mc, &mc->feet[w], &mc->s->sensors[w], &m->sensors[w]);
    describe_sensor(mc, &mc->ts, &mc->s->ts, &m->sensors[mc->nsensor]);
    /* which sensors are alike with the truth sensor does not depend on its direction */
    TRY(lattice_table_plan(&mc->ts, 1, mc->feet, mc->nsensor, false, false, &target));
    TRY(describe_pairs(mc, &mc->pairs, m, MATCOV_CMM));
    TRY(describe_pairs(mc, &mc->self, m, MATCOV_CTT));
    TRY(describe_pairs(mc, &target, m, MATCOV_CTM));
done:
    lattice_table_free(&target);
    if (st != MOAO_OK)
        matcov_model_free(m);
    return st;
}

void matcov_model_free(matcov_model *m) {
    for (int i = 0; i < MATCOV_LISTS; i++) {
        free(m->list[i].tables);
        free(m->list[i].links);
    }
    free((void *)m->kolmogorov);
    free(m->sensors);
    *m = (matcov_model){0};
}
