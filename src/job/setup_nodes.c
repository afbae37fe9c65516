/* Whether a case is computed at nodes, and at which (field/field.h). */
#include "job/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* targets.exact: numbers of targets from 1 on. */
static status exact_targets(const params *par, int ntarget, int **out) {
    const real_list *v = &par->targets_exact;
    status st = ALLOC(*out, (size_t)v->n, "targets that are computed");
    for (int i = 0; st == MOAO_OK && i < v->n; i++) {
        if (!(v->v[i] >= 1 && v->v[i] <= ntarget && v->v[i] == floor(v->v[i])))
            return status_fail(
                MOAO_INPUT,
                "targets.exact: element %d is %g, expected the number of a target, 1 "
                "to %d",
                i + 1, v->v[i], ntarget);
        (*out)[i] = (int)v->v[i] - 1;
    }
    return st;
}

/* The targets of the executor are the nodes. */
static status take_nodes(setup *u) {
    double(*at)[2] = NULL;
    const status st = ALLOC(at, (size_t)u->f.capacity, "nodes");
    if (st != MOAO_OK)
        return st;
    u->want = u->s;
    u->sampled = true;
    u->s.targets = at;
    u->s.grid[0] = u->s.grid[1] = 0;
    setup_more_nodes(u);
    return MOAO_OK;
}

void setup_more_nodes(setup *u) {
    for (int i = 0; i < u->f.nnode; i++)
        memcpy(u->s.targets[i], u->f.node[i].at, sizeof u->s.targets[i]);
    u->s.ntarget = u->f.nnode;
}

const sys *setup_wanted(const setup *u) {
    return u->sampled ? &u->want : &u->s;
}

status setup_nodes(setup *u) {
    const params *par = u->par;
    int *exact = NULL;
    status st = MOAO_OK;
    const bool asked = par->targets_sampling == SAMPLING_NODES || par->output_field;
    if (par->targets_sampling == SAMPLING_EXACT && par->output_field)
        return status_fail(MOAO_INPUT,
                           "output.field with targets.sampling: exact, which has no nodes; give "
                           "targets.sampling: nodes, or auto");
    if (par->targets_sampling == SAMPLING_EXACT)
        return st;
    if (par->output_matrices.n > 0 && asked)
        return status_fail(MOAO_INPUT,
                           "output.matrices with %s, which computes at other directions than the "
                           "targets; give targets.sampling: exact",
                           par->output_field ? "output.field" : "targets.sampling: nodes");
    if (par->output_matrices.n > 0)
        return st;
    TRY(exact_targets(par, u->s.ntarget, &exact));
    /* field.fits has all nodes of every exposure */
    TRY(field_init(&u->s, par->output_field ? NULL : &u->a,
                   field_step(&u->s, &u->a, par->targets_tolerance), exact, par->targets_exact.n,
                   &u->f));
    if (asked || field_pays(&u->f))
        st = take_nodes(u);
    else
        field_free(&u->f);
done:
    free(exact);
    return st;
}
