/* The loop in time. Model section 6, "The loop in time". */
#include "params_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_name[] = {"open", "integrator", "leaky"};

static bool given(const params_loader *l, const char *key) {
    return param_node(l->root, key) != NULL;
}

/* loop.gain as a number; NAN: not one that a gain can be. */
static double gain_of(const params *par) {
    char *end;
    const double gain = strtod(par->loop_gain, &end);
    return *end == '\0' && end != par->loop_gain && gain > 0 && gain <= 2 ? gain : NAN;
}

static bool is_optimal(const params *par) {
    return strcmp(par->loop_gain, "optimal") == 0;
}

/* Where the gain is to be found: half of the largest. */
static loop_filter filter_of(const params *par) {
    loop_filter f = {.type = par->loop_type,
                     .gain = is_optimal(par)
                                 ? 0.5 * fmin(1, loop_limit(par->loop_type, par->loop_frames))
                                 : gain_of(par),
                     .optimal = is_optimal(par),
                     .frames = par->loop_frames,
                     .period = 1 / par->loop_rate,
                     .size = INFINITY,
                     .step = 0.2,
                     .exact = par->loop_lags == LAGS_EXACT};
    for (int w = 0; w < par->sensors.n; w++) {
        f.size = fmin(f.size, par->telescope_diameter / par->sensors.v[w].nssp);
        if (par->sensors.v[w].slope == SLOPE_POINTS)
            f.step = 0.1;
    }
    return f;
}

/* What belongs to a closed loop alone, and is not as it is without one. */
static status check_open(const params_loader *l) {
    const params *par = l->par;
    const struct {
        const char *key;
        bool other;
    } keys[] = {{"loop.gain", gain_of(par) != 0.5},
                {"loop.frames", par->loop_frames != 2},
                {"loop.rate", params_given(par->loop_rate)},
                {"loop.lags", par->loop_lags != LAGS_EXACT}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (given(l, keys[i].key) && keys[i].other)
            return yaml_tree_fail(param_node(l->root, keys[i].key), keys[i].key,
                                  "of a closed loop, beside loop.type: open, which has loop.delay; "
                                  "expected loop.type: integrator or leaky");
    return MOAO_OK;
}

/* What a closed loop has by itself. */
static status check_delays(const params_loader *l) {
    const params *par = l->par;
    const char *const keys[] = {"loop.delay", "loop.integration"};
    const double value[] = {par->loop_delay, par->loop_integration};
    char path[PARAM_PATH];
    for (int i = 0; i < 2; i++)
        if (value[i] > 0)
            return yaml_tree_fail(param_node(l->root, keys[i]), keys[i],
                                  "beside loop.type: %s, whose delay is loop.frames over "
                                  "loop.rate; expected none",
                                  type_name[par->loop_type]);
    for (int w = 0; w < par->sensors.n; w++)
        if (params_given(par->sensors.v[w].delay)) {
            params_sensor_path(l, w, "delay", path);
            return yaml_tree_fail(param_node(l->root, path), path,
                                  "beside loop.type: %s, which has one delay for all sensors; "
                                  "expected none",
                                  type_name[par->loop_type]);
        }
    return MOAO_OK;
}

static status choose_rate(params_loader *l) {
    params *par = l->par;
    if (params_given(par->loop_rate))
        return MOAO_OK;
    for (int w = 1; w < par->sensors.n; w++)
        if (par->sensors.v[w].frame_time != par->sensors.v[0].frame_time)
            return yaml_tree_fail(param_node(l->root, "loop.type"), "loop.rate",
                                  "missing, and the sensors have frames of %.4g and %.4g ms; "
                                  "expected the frames of the loop per second",
                                  1e3 * par->sensors.v[0].frame_time,
                                  1e3 * par->sensors.v[w].frame_time);
    par->loop_rate = 1 / par->sensors.v[0].frame_time;
    return MOAO_OK;
}

status params_check_loop(params_loader *l) {
    params *par = l->par;
    char why[256];
    status st;
    if (par->loop_type == LOOP_OPEN)
        return check_open(l);
    if (par->mode == MODE_MOAO && par->loop_type == LOOP_INTEGRATOR)
        return yaml_tree_fail(param_node(l->root, "loop.type"), "loop.type",
                              "integrator beside mode: moao, whose sensors do not see the mirrors; "
                              "expected open, or leaky, which filters commands in time");
    if (par->mode == MODE_SPLIT)
        return yaml_tree_fail(param_node(l->root, "loop.type"), "loop.type",
                              "%s beside mode: split, which has the delays of both mirrors; "
                              "expected open",
                              type_name[par->loop_type]);
    TRY(check_delays(l));
    if (!is_optimal(par) && isnan(gain_of(par)))
        return yaml_tree_fail(param_node(l->root, "loop.gain"), "loop.gain",
                              "%s is no gain, expected a number above 0 and up to 2, or optimal",
                              yaml_tree_quote(par->loop_gain).s);
    TRY(choose_rate(l));
    loop_filter f = filter_of(par);
    st = loop_init(&f);
    loop_free(&f);
    if (st == MOAO_INPUT) {
        const ynode *at = param_node(l->root, "loop.gain");
        snprintf(why, sizeof why, "%s", status_message());
        status_clear();
        st = yaml_tree_fail(at != NULL ? at : param_node(l->root, "loop.type"), "loop.gain", "%s",
                            why);
    }
done:
    return st;
}

status params_set_loop(const params *par, sys *s) {
    if (par->loop_type == LOOP_OPEN)
        return MOAO_OK;
    s->loop = filter_of(par);
    return loop_init(&s->loop);
}
