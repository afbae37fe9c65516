/* Stars for low orders: what they are used with, and whether their loop is complete. Model section
 * 6, "Low orders in a loop of their own". */
#include "params_load.h"

#include <stdio.h>
#include <string.h>

static const char *const control_name[] = {"split", "cascade", "independent", "joint"};

static status fail_at(const params_loader *l, const char *key, const char *what) {
    const ynode *at = param_node(l->root, key);
    return yaml_tree_fail(at != NULL ? at : param_node(l->root, "mode"), key, "%s", what);
}

/* What belongs to low orders alone, and is not as it is without them. */
static status refuse(const params_loader *l, bool any) {
    const params *par = l->par;
    const bool own = par->loop_low_type != LOOP_OPEN;
    const struct {
        const char *key;
        bool asked, of_loop;
    } keys[] = {{"loop.low.control", par->loop_low_control != LOW_SPLIT, false},
                {"loop.low.modes", par->loop_low_modes != LOW_TIPTILT, false},
                {"loop.low.type", own, false},
                {"loop.low.gain", strcmp(par->loop_low_gain, "0.5") != 0, true},
                {"loop.low.frames", par->loop_low_frames != 2, true},
                {"loop.low.rate", params_given(par->loop_low_rate), true}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (keys[i].asked && !any)
            return fail_at(l, keys[i].key,
                           "without a star for low orders, expected low_order: true of some of "
                           "the sensors");
        if (keys[i].asked && keys[i].of_loop && !own)
            return fail_at(l, keys[i].key,
                           "of a loop of these sensors' own, with loop.low.type: loop; "
                           "expected loop.low.type: integrator or leaky");
    }
    return MOAO_OK;
}

/* Plate scale is tilt that differs over the field: of several mirrors, and directions on no line.
 */
static status check_modes(const params_loader *l) {
    const params *par = l->par;
    double sum[3] = {0, 0, 0};
    if (par->loop_low_modes != LOW_PLATE_SCALE && par->loop_low_modes != LOW_ALL)
        return MOAO_OK;
    for (int i = 0; i < par->optimise_list.n; i++) {
        const double *d = par->optimise_list.v[i];
        sum[0] += d[0] * d[0];
        sum[1] += d[1] * d[1];
        sum[2] += d[0] * d[1];
    }
    const double all = sum[0] + sum[1];
    if (par->mode != MODE_MCAO || par->mirrors_altitude.n < 2)
        return fail_at(l, "loop.low.modes",
                       "plate scale without several mirrors, expected tiptilt or focus, or "
                       "mode: mcao with two mirrors or more");
    if (!(sum[0] * sum[1] - sum[2] * sum[2] > 1e-6 * all * all))
        return fail_at(l, "loop.low.modes",
                       "plate scale with directions of optimise on one line, expected some that "
                       "are not, or tiptilt or focus");
    return MOAO_OK;
}

status params_check_low_order(params_loader *l) {
    params *par = l->par;
    char what[60];
    int n = 0, high = 0;
    status st;
    for (int w = 0; w < par->sensors.n; w++) {
        n += par->sensors.v[w].low_order;
        high += !par->sensors.v[w].low_order;
    }
    TRY(refuse(l, n > 0));
    if (n == 0)
        return st;
    if (high == 0)
        return fail_at(l, "sensors",
                       "all are for low orders, expected some without low_order: true");
    if (par->mode == MODE_MOAO || par->mode == MODE_SPLIT)
        return fail_at(l, "mode",
                       "stars for low orders (low_order: true) with a mirror for each target, "
                       "expected glao, ltao or mcao");
    if (par->loop_low_type != LOOP_OPEN && par->loop_type == LOOP_OPEN)
        return fail_at(l, "loop.low.type",
                       "a closed loop with loop.type: open, expected loop.type: integrator or "
                       "leaky (with gain 1 a pure delay of loop.frames), or loop.low.type: loop");
    TRY(check_modes(l));
    snprintf(what, sizeof what, "loop.low.control: %s", control_name[par->loop_low_control]);
    st = params_choose_exact(l, what);
done:
    return st;
}
