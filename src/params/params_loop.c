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

/* A gain as a number; NAN: not one that a gain can be. */
static double gain_of(const char *text) {
    char *end;
    const double gain = strtod(text, &end);
    return *end == '\0' && end != text && gain > 0 && gain <= 2 ? gain : NAN;
}

static bool is_optimal(const char *text) {
    return strcmp(text, "optimal") == 0;
}

static bool has_low_orders(const params *par) {
    for (int w = 0; w < par->sensors.n; w++)
        if (par->sensors.v[w].low_order)
            return true;
    return false;
}

/* Where the gain is to be found: half of the largest. */
static loop_filter filter_of(const params *par, int type, const char *gain, double frames,
                             double rate) {
    loop_filter f = {.type = type,
                     .gain =
                         is_optimal(gain) ? 0.5 * fmin(1, loop_limit(type, frames)) : gain_of(gain),
                     .optimal = is_optimal(gain),
                     .frames = frames,
                     .period = 1 / rate,
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

void params_filters(const params *par, loop_filter *loop, loop_filter *low) {
    *loop = filter_of(par, par->loop_type, par->loop_gain, par->loop_frames, par->loop_rate);
    *low = (loop_filter){.type = LOOP_OPEN};
    if (par->loop_low_type == LOOP_OPEN || !has_low_orders(par))
        return;
    *low = filter_of(par, par->loop_low_type, par->loop_low_gain, par->loop_low_frames,
                     par->loop_low_rate);
    const double ratio = loop->period / low->period;
    loop->held = ratio > 1 ? (int)lround(ratio) : 1;
    low->held = ratio < 1 ? (int)lround(1 / ratio) : 1;
}

loop_filter params_target_filter(const params *par) {
    const double frames =
        params_given(par->loop_target_frames) ? par->loop_target_frames : par->loop_frames;
    loop_filter f = filter_of(par, LOOP_LEAKY, "1", frames, par->loop_rate);
    f.gain = par->loop_target_gain;
    return f;
}

/* What belongs to a common mirror in closed loop, without one. */
static status check_targets(params_loader *l) {
    const params *par = l->par;
    const bool some = par->mode == MODE_SPLIT && par->loop_type != LOOP_OPEN;
    const char *const key[] = {"loop.target.frames", "loop.target.gain"};
    const bool asked[] = {params_given(par->loop_target_frames), par->loop_target_gain != 1};
    for (int i = 0; i < 2; i++)
        if (asked[i] && !some)
            return yaml_tree_fail(param_node(l->root, key[i]), key[i],
                                  "of the mirrors of targets behind a common one in closed loop, "
                                  "expected mode: split and loop.type: integrator or leaky");
    if (some && par->mirrors_delay.n > 0)
        return yaml_tree_fail(param_node(l->root, "mirrors.delay"), "mirrors.delay",
                              "with loop.type: %s, whose delays are loop.frames and "
                              "loop.target.frames over loop.rate; expected none",
                              type_name[par->loop_type]);
    const bool misplaced = par->split_shift[0] != 0 || par->split_shift[1] != 0 ||
                           par->split_rotation != 0 || par->split_scale != 1;
    if (some && misplaced && par->split_slopes == SPLIT_RESIDUAL)
        return yaml_tree_fail(param_node(l->root, "split.slopes"), "split.slopes",
                              "residual with loop.type: %s and a model error of the common mirror "
                              "(split.shift, rotation, scale), expected pseudo_open or no error",
                              type_name[par->loop_type]);
    return MOAO_OK;
}

/* What belongs to a closed loop alone, and is not as it is without one. */
static status check_open(const params_loader *l) {
    const params *par = l->par;
    const struct {
        const char *key;
        bool other;
    } keys[] = {{"loop.gain", gain_of(par->loop_gain) != 0.5},
                {"loop.frames", par->loop_frames != 2},
                {"loop.rate", params_given(par->loop_rate)},
                {"loop.lags", par->loop_lags != LAGS_EXACT}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (given(l, keys[i].key) && keys[i].other)
            return yaml_tree_fail(param_node(l->root, keys[i].key), keys[i].key,
                                  "of a closed loop, with loop.type: open, which has loop.delay; "
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
                                  "with loop.type: %s, whose delay is loop.frames over "
                                  "loop.rate; expected none",
                                  type_name[par->loop_type]);
    for (int w = 0; w < par->sensors.n; w++)
        if (params_given(par->sensors.v[w].delay)) {
            params_sensor_path(l, w, "delay", path);
            return yaml_tree_fail(param_node(l->root, path), path,
                                  "with loop.type: %s, which has one delay for all sensors; "
                                  "expected none",
                                  type_name[par->loop_type]);
        }
    return MOAO_OK;
}

/* A rate that is not given: that of the frames of the sensors for low orders, or of the others. */
static status choose_rate(params_loader *l, bool low, const char *type, const char *key,
                          double *rate) {
    const params *par = l->par;
    double frame = NAN;
    if (params_given(*rate))
        return MOAO_OK;
    for (int w = 0; w < par->sensors.n; w++) {
        const sensor_params *o = &par->sensors.v[w];
        if (par->loop_low_type != LOOP_OPEN && o->low_order != low)
            continue;
        if (!isnan(frame) && o->frame_time != frame)
            return yaml_tree_fail(param_node(l->root, type), key,
                                  "missing, and the sensors have frames of %.4g and %.4g ms; "
                                  "expected the frames of the loop per second",
                                  1e3 * frame, 1e3 * o->frame_time);
        frame = o->frame_time;
    }
    *rate = 1 / frame;
    return MOAO_OK;
}

/* A gain that is none, or of a loop that is not stable. */
static status check_gain(const params_loader *l, const char *text, const char *key,
                         const char *type, loop_filter *f) {
    char why[256];
    const ynode *at = param_node(l->root, key);
    if (!is_optimal(text) && isnan(gain_of(text)))
        return yaml_tree_fail(at, key,
                              "%s is no gain, expected a number above 0 and up to 2, or optimal",
                              yaml_tree_quote(text).s);
    status st = loop_init(f);
    loop_free(f);
    if (st == MOAO_INPUT) {
        snprintf(why, sizeof why, "%s", status_message());
        status_clear();
        st = yaml_tree_fail(at != NULL ? at : param_node(l->root, type), key, "%s", why);
    }
    return st;
}

static status check_low_loop(params_loader *l) {
    params *par = l->par;
    loop_filter loop, low;
    status st = MOAO_OK;
    if (par->loop_low_type == LOOP_OPEN || !has_low_orders(par))
        return st;
    TRY(choose_rate(l, true, "loop.low.type", "loop.low.rate", &par->loop_low_rate));
    const double ratio = par->loop_rate / par->loop_low_rate, whole = fmax(ratio, 1 / ratio);
    if (fabs(whole - round(whole)) > 1e-6 * whole)
        return yaml_tree_fail(param_node(l->root, "loop.low.rate"), "loop.low.rate",
                              "%.6g Hz with a loop.rate of %.6g Hz, expected that over a whole "
                              "number, or times one",
                              par->loop_low_rate, par->loop_rate);
    params_filters(par, &loop, &low);
    st = check_gain(l, par->loop_low_gain, "loop.low.gain", "loop.low.type", &low);
done:
    return st;
}

status params_check_loop(params_loader *l) {
    params *par = l->par;
    loop_filter loop, low;
    status st;
    TRY(check_targets(l));
    if (par->loop_type == LOOP_OPEN)
        return check_open(l);
    if (par->mode == MODE_MOAO && par->loop_type == LOOP_INTEGRATOR)
        return yaml_tree_fail(param_node(l->root, "loop.type"), "loop.type",
                              "integrator with mode: moao, whose sensors do not see the mirrors; "
                              "expected open, or leaky, which filters commands in time");
    TRY(check_delays(l));
    TRY(choose_rate(l, false, "loop.type", "loop.rate", &par->loop_rate));
    params_filters(par, &loop, &low);
    TRY(check_gain(l, par->loop_gain, "loop.gain", "loop.type", &loop));
    if (par->mode == MODE_SPLIT) {
        if (!params_given(par->loop_target_frames))
            par->loop_target_frames = par->loop_frames;
        loop = params_target_filter(par);
        TRY(check_gain(l, "1", "loop.target.gain", "loop.target.frames", &loop));
    }
    st = check_low_loop(l);
done:
    return st;
}

status params_set_loop(const params *par, sys *s) {
    status st = MOAO_OK;
    if (par->loop_type == LOOP_OPEN)
        return st;
    params_filters(par, &s->loop, &s->low.loop);
    TRY(loop_init(&s->loop));
    if (s->low.loop.type != LOOP_OPEN)
        TRY(loop_init(&s->low.loop));
    if (par->mode != MODE_SPLIT)
        goto done;
    s->fit.split.own = params_target_filter(par);
    TRY(loop_init(&s->fit.split.own));
    st = sys_see_common(s);
done:
    return st;
}
