/* Correctors: mirrors that all targets share, and the directions that their commands are fitted to.
 * Lists are completed here, so that effective.yaml has what is used. Model section 6. */
#include "params_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const mode_name[] = {"moao", "glao", "ltao", "mcao", "split"};

/* A mistake at a key, or where the mode is. */
static status fail_at(const params_loader *l, const char *key, const char *what) {
    const ynode *at = param_node(l->root, key);
    return yaml_tree_fail(at != NULL ? at : param_node(l->root, "mode"), key, "%s", what);
}

/* Modes with correctors fit the phase. */
static status choose_fit(params_loader *l) {
    params *par = l->par;
    if (param_node(l->root, "reconstructor.fit") != NULL && par->reconstructor_fit != FIT_PHASE)
        return yaml_tree_fail(param_node(l->root, "reconstructor.fit"), "reconstructor.fit",
                              "slopes with mode: %s, whose commands are fitted to the phase; "
                              "expected phase, or mode=moao",
                              mode_name[par->mode]);
    par->reconstructor_fit = FIT_PHASE;
    return MOAO_OK;
}

static status add_direction(point_list *to, const double dir[2]) {
    for (int i = 0; i < to->n; i++)
        if (hypot(to->v[i][0] - dir[0], to->v[i][1] - dir[1]) < 1e-9)
            return MOAO_OK;
    double(*grown)[2] = realloc(to->v, (size_t)(to->n + 1) * sizeof *grown);
    if (grown == NULL)
        return status_fail(MOAO_MEMORY, "no memory for directions");
    memcpy(grown[to->n], dir, sizeof *grown);
    to->v = grown;
    to->n++;
    return MOAO_OK;
}

/* Directions where none are given: the axis, or those of the stars. */
static status choose_directions(params_loader *l) {
    params *par = l->par;
    point_list *to = &par->optimise_list;
    const double axis[2] = {0, 0};
    status st = MOAO_OK;
    if (to->n == 0 && par->mode == MODE_MCAO)
        return fail_at(l, "optimise.list",
                       "missing, expected the directions that mode: mcao corrects best");
    if (to->n == 0 && par->mode == MODE_LTAO)
        TRY(add_direction(to, axis));
    const bool given = to->n > 0;
    for (int i = 0;
         (par->mode == MODE_GLAO || par->mode == MODE_SPLIT) && !given && i < par->sensors.n; i++)
        if (!par->sensors.v[i].low_order)
            TRY(add_direction(to, par->sensors.v[i].direction));
    if (par->mode == MODE_LTAO && to->n != 1)
        return fail_at(l, "optimise.list",
                       "more than one direction with mode: ltao, expected one, or mode=glao");
done:
    return st;
}

/* A list of n numbers: as given, or one for all, or `value` where there is none. */
static status complete(params_loader *l, const char *key, real_list *v, int n, double value) {
    if (v->n == n)
        return MOAO_OK;
    if (v->n > 1)
        return yaml_tree_fail(param_node(l->root, key), key,
                              "%d numbers for %d mirrors, expected as many, or one for all", v->n,
                              n);
    double one = v->n == 1 ? v->v[0] : value, *grown = realloc(v->v, (size_t)n * sizeof *grown);
    if (grown == NULL)
        return status_fail(MOAO_MEMORY, "no memory for mirrors");
    for (int i = 0; i < n; i++)
        grown[i] = one;
    v->v = grown;
    v->n = n;
    return MOAO_OK;
}

static status choose_weights(params_loader *l) {
    params *par = l->par;
    double sum = 0;
    if (par->optimise_weights.n > 1 && par->optimise_weights.n != par->optimise_list.n)
        return yaml_tree_fail(param_node(l->root, "optimise.weights"), "optimise.weights",
                              "%d weights for %d directions, expected as many",
                              par->optimise_weights.n, par->optimise_list.n);
    status st = complete(l, "optimise.weights", &par->optimise_weights, par->optimise_list.n, 1);
    for (int i = 0; i < par->optimise_weights.n; i++)
        sum += par->optimise_weights.v[i];
    return st == MOAO_OK && !(sum > 0)
               ? fail_at(l, "optimise.weights", "all are 0, expected some weight")
               : st;
}

/* Diameters and pitches: the field of the directions, at the airmass. */
static status complete_mirrors(params_loader *l, int n) {
    params *par = l->par;
    const double D = par->telescope_diameter, X = 1 / cos(par->telescope_zenith);
    double field = 0;
    status st;
    for (int i = 0; i < par->optimise_list.n; i++)
        field = fmax(field, hypot(par->optimise_list.v[i][0], par->optimise_list.v[i][1]));
    const bool sized = par->mirrors_diameter.n > 0;
    TRY(complete(l, "mirrors.diameter", &par->mirrors_diameter, n, D));
    for (int i = 0; i < n && !sized; i++)
        par->mirrors_diameter.v[i] += 2 * fabs(par->mirrors_altitude.v[i]) * X * field;
    TRY(complete(l, "mirrors.coupling", &par->mirrors_coupling, n, par->dm_coupling));
    if ((par->mirrors_pitch.n > 0) == (par->mirrors_actuators.n > 0))
        return fail_at(
            l, "mirrors.pitch",
            "mirrors need a pitch or a number of actuators across, expected one of them");
    const bool counted = par->mirrors_actuators.n > 0;
    TRY(complete(l, "mirrors.actuators", &par->mirrors_actuators, n, 2));
    TRY(complete(l, "mirrors.pitch", &par->mirrors_pitch, n, 1));
    for (int i = 0; i < n && counted; i++)
        par->mirrors_pitch.v[i] = par->mirrors_diameter.v[i] / (par->mirrors_actuators.v[i] - 1);
    free(par->mirrors_actuators.v);
    par->mirrors_actuators = (real_list){0};
done:
    return st;
}

/* FP16, compressed factors and products by pairs of sensors have no commands that follow from
 * others; auto is what has. */
status params_choose_exact(params_loader *l, const char *what) {
    params *par = l->par;
    static const char *const product[] = {"exact", "fp16", "toeplitz"}, *const factor[] = {
                                                                            FACTOR_PARAM_WORDS};
    char text[160];
    if (par->compute_precision == PRECISION_PARAM_MIXED) {
        snprintf(text, sizeof text,
                 "mixed with %s, which FP16 does not compute; expected double or auto", what);
        return fail_at(l, "compute.precision", text);
    }
    if (par->compute_product != PRODUCT_PARAM_EXACT && par->compute_product != PRODUCT_PARAM_AUTO) {
        snprintf(text, sizeof text, "%s with %s, which it does not compute; expected exact or auto",
                 product[par->compute_product], what);
        return fail_at(l, "compute.product", text);
    }
    if (par->compute_factor != FACTOR_PARAM_DENSE && par->compute_factor != FACTOR_PARAM_AUTO) {
        snprintf(text, sizeof text, "%s with %s, which it does not compute; expected dense or auto",
                 factor[par->compute_factor], what);
        return fail_at(l, "compute.factor", text);
    }
    par->compute_precision = PRECISION_PARAM_DOUBLE;
    par->compute_product = PRODUCT_PARAM_EXACT;
    par->compute_factor = FACTOR_PARAM_DENSE;
    return MOAO_OK;
}

static void swap(real_list *v) {
    const double first = v->v[0];
    v->v[0] = v->v[1];
    v->v[1] = first;
}

static status append(real_list *v, double value) {
    double *grown = realloc(v->v, (size_t)(v->n + 1) * sizeof *grown);
    if (grown == NULL)
        return status_fail(MOAO_MEMORY, "no memory for mirrors");
    grown[v->n] = value;
    v->v = grown;
    v->n++;
    return MOAO_OK;
}

/* The common mirror first, then that of the targets, which is dm's where it is not in the lists. */
static status order_split(params_loader *l) {
    params *par = l->par;
    text_list *of = &par->mirrors_for;
    real_list *const all[] = {&par->mirrors_altitude, &par->mirrors_pitch, &par->mirrors_diameter,
                              &par->mirrors_coupling, &par->mirrors_delay};
    const double dm[] = {0, par->telescope_diameter / par->dm_nssp, par->telescope_diameter,
                         par->dm_coupling, par->loop_delay};
    status st = MOAO_OK;
    if (of->n == 1) {
        char **grown = realloc(of->v, 2 * sizeof *grown);
        if (grown == NULL)
            return status_fail(MOAO_MEMORY, "no memory for mirrors");
        of->v = grown;
        if ((of->v[1] = strdup("target")) == NULL)
            return status_fail(MOAO_MEMORY, "no memory for mirrors");
        of->n = 2;
        for (int i = 0; i < 5; i++)
            if (all[i]->n > 0)
                TRY(append(all[i], dm[i]));
    } else if (strcmp(of->v[0], "target") == 0) {
        char *first = of->v[0];
        of->v[0] = of->v[1];
        of->v[1] = first;
        for (int i = 0; i < 5; i++)
            if (all[i]->n > 1)
                swap(all[i]);
    }
    if (par->mirrors_altitude.v[1] != 0)
        st = fail_at(l, "mirrors.altitude",
                     "the mirror of a target is on the pupil, expected 0 for it");
done:
    return st;
}

/* mode: split: whose the mirrors are; the lists of them, as many as there are. */
static status check_split(params_loader *l, int *n) {
    params *par = l->par;
    const text_list *of = &par->mirrors_for;
    status st;
    *n = of->n;
    if (of->n < 1 || of->n > 2 || (of->n == 1 && strcmp(of->v[0], "common") != 0) ||
        (of->n == 2 && strcmp(of->v[0], of->v[1]) == 0))
        return fail_at(l, "mirrors.for",
                       "expected [common, target], or [common], with which the mirror of a "
                       "target is that of dm");
    TRY(params_choose_exact(l, "mode: split"));
    TRY(complete(l, "mirrors.altitude", &par->mirrors_altitude, of->n, 0));
    if (par->loop_type == LOOP_OPEN)
        st = complete(l, "mirrors.delay", &par->mirrors_delay, of->n, par->loop_delay);
done:
    return st;
}

/* Keys of mode: split beside another mode. */
static status refuse_split(const params_loader *l) {
    static const char *const key[] = {"mirrors.for",  "mirrors.delay", "split.slopes",
                                      "split.common", "split.shift",   "split.rotation",
                                      "split.scale"};
    const params *par = l->par;
    char what[120];
    const bool asked[] = {par->mirrors_for.n > 0,
                          par->mirrors_delay.n > 0,
                          par->split_slopes != SPLIT_PSEUDO_OPEN,
                          par->split_common != SPLIT_KNOWN,
                          par->split_shift[0] != 0 || par->split_shift[1] != 0,
                          par->split_rotation != 0,
                          par->split_scale != 1};
    for (size_t i = 0; i < sizeof asked / sizeof *asked && par->mode != MODE_SPLIT; i++)
        if (asked[i]) {
            snprintf(what, sizeof what, "of mode: split, with mode: %s; expected mode: split",
                     mode_name[par->mode]);
            return fail_at(l, key[i], what);
        }
    return MOAO_OK;
}

/* Whether anything is asked of mirrors: an empty list `for`, as effective.yaml has it, does not. */
static bool mirrors_asked(const params_loader *l) {
    static const char *const key[] = {"mirrors.pitch", "mirrors.actuators", "mirrors.diameter",
                                      "mirrors.coupling", "mirrors.delay"};
    for (size_t i = 0; i < sizeof key / sizeof *key; i++)
        if (param_node(l->root, key[i]) != NULL)
            return true;
    return l->par->mirrors_for.n > 0;
}

static status check_mirrors(params_loader *l) {
    params *par = l->par;
    int n = par->mirrors_altitude.n;
    char what[160];
    status st;
    if (par->mode == MODE_SPLIT)
        TRY(check_split(l, &n));
    if (n == 0 && mirrors_asked(l))
        return fail_at(l, "mirrors.altitude", "missing, expected the altitudes of the mirrors");
    if (n == 0)
        return par->mode == MODE_MCAO
                   ? fail_at(l, "mirrors.altitude", "missing, expected the mirrors of mode: mcao")
                   : MOAO_OK;
    if (n > 1 && par->mode != MODE_MCAO && par->mode != MODE_SPLIT)
        return fail_at(l, "mirrors.altitude", "more than one mirror, expected one, or mode=mcao");
    TRY(complete_mirrors(l, n));
    if (par->mode == MODE_SPLIT)
        TRY(order_split(l));
    for (int i = 0; i < par->mirrors_pitch.n; i++) {
        const int least = (int)ceil(par->telescope_diameter / par->mirrors_pitch.v[i] * (1 - 1e-9));
        if (par->mirrors_diameter.v[i] / par->mirrors_pitch.v[i] > 1000)
            return fail_at(l, "mirrors.pitch", "more than 1000 actuators across, expected fewer");
        if (par->dm_nssp >= least)
            continue;
        snprintf(what, sizeof what,
                 "%d is coarser than a mirror's pitch of %.4g m: with mirrors it gives the lattice "
                 "of points and images, expected at least %d",
                 par->dm_nssp, par->mirrors_pitch.v[i], least);
        return fail_at(l, "dm.nssp", what);
    }
    if (par->mode != MODE_SPLIT)
        goto done;
    if (par->compute_backend == BACKEND_GPU)
        return fail_at(l, "compute.backend",
                       "gpu with mode: split, which is computed on CPUs alone; expected cpu or "
                       "auto");
    par->compute_backend = BACKEND_CPU;
done:
    return st;
}

status params_check_correctors(params_loader *l) {
    params *par = l->par;
    status st;
    TRY(refuse_split(l));
    if (par->mode == MODE_MOAO) {
        for (int i = 0; i < 2; i++) {
            const char *key = i == 0 ? "mirrors" : "optimise";
            if (param_node(l->root, key) != NULL &&
                par->optimise_list.n + par->mirrors_altitude.n > 0)
                return fail_at(l, key,
                               "of correctors that targets share, with mode: moao, which has one "
                               "for each target; expected mode: glao, ltao, mcao or split");
        }
        return MOAO_OK;
    }
    TRY(choose_fit(l));
    TRY(choose_directions(l));
    TRY(choose_weights(l));
    st = check_mirrors(l);
done:
    return st;
}

status params_set_correctors(const params *par, sys *s) {
    const int n = par->mirrors_altitude.n, ndir = par->optimise_list.n;
    double sum = 0;
    status st = MOAO_OK;
    s->fit.phase = par->reconstructor_fit == FIT_PHASE;
    if (par->mode == MODE_MOAO)
        return st;
    s->fit.ndir = ndir;
    TRY(ALLOC(s->fit.dir, (size_t)ndir, "directions"));
    TRY(ALLOC(s->fit.weight, (size_t)ndir, "weights"));
    for (int i = 0; i < ndir; i++)
        sum += par->optimise_weights.v[i];
    for (int i = 0; i < ndir; i++) {
        memcpy(s->fit.dir[i], par->optimise_list.v[i], sizeof *s->fit.dir);
        s->fit.weight[i] = par->optimise_weights.v[i] / sum;
    }
    if (n == 0)
        return st;
    TRY(ALLOC(s->fit.mirrors, (size_t)n, "mirrors"));
    s->fit.nmirror = n;
    for (int i = 0, first = 0; i < n; i++) {
        dmirror *dm = &s->fit.mirrors[i];
        const double pitch = par->mirrors_pitch.v[i];
        *dm = (dmirror){.nssp = (int)ceil(par->mirrors_diameter.v[i] / pitch * (1 - 1e-9)),
                        .pitch = pitch,
                        .coupling = par->mirrors_coupling.v[i],
                        .altitude = par->mirrors_altitude.v[i] * s->airmass,
                        .first = first};
        TRY(sys_derive_mirror(s, dm));
        first += dm->nact;
    }
    if (par->mode == MODE_SPLIT)
        s->fit.split = (split_control){.on = true,
                                       .residual = par->split_slopes == SPLIT_RESIDUAL,
                                       .unknown = par->split_common == SPLIT_UNKNOWN,
                                       .copies = s->fit.split.copies,
                                       .shift = {par->split_shift[0], par->split_shift[1]},
                                       .rot = par->split_rotation,
                                       .scale = par->split_scale};
done:
    return st;
}

status params_split_delays(const params *par, sys *s) {
    static const int loop[] = {1, 0, 2}; /* of a target's commands, the common mirror's, seen */
    const bool closed = par->loop_type != LOOP_OPEN;
    const int n = s->nsensor, copies = closed && par->split_slopes == SPLIT_RESIDUAL ? 3 : 2;
    if (par->mode != MODE_SPLIT)
        return MOAO_OK;
    const double *delay = par->mirrors_delay.v, apart = closed ? 0 : delay[1] - delay[0];
    if (!closed)
        s->delay += delay[1] - par->loop_delay;
    if (!closed && apart == 0)
        return MOAO_OK;
    sensor *grown = realloc(s->sensors, (size_t)(copies * n) * sizeof *grown);
    if (grown == NULL)
        return status_fail(MOAO_MEMORY, "no memory for sensors");
    for (int w = 0; w < copies * n; w++) {
        grown[w] = grown[w % n];
        grown[w].late += w < n ? 0 : apart;
        grown[w].loop = closed ? loop[w / n] : 0;
    }
    s->sensors = grown;
    s->nsensor = copies * n;
    s->fit.split.copies = copies;
    return MOAO_OK;
}
