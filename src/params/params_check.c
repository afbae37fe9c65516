#include "params_load.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TIMES = 100000, MAX_FOLDER = 900 };
static const double MAX_SHARE_ABOVE_STAR = 0.05; /* of r0^(-5/3) */

/* --- schedule */

int params_schedule(const real_list *times, double interval, double start, double end,
                    double *out) {
    int n = 0;
    if (times->n > 0 || !params_given(interval)) {
        for (int i = 0; out != NULL && i < times->n; i++)
            out[i] = times->v[i];
        if (out != NULL && times->n == 0)
            out[0] = start;
        return times->n > 0 ? times->n : 1;
    }
    /* "before the end" must not hang on the last bit of a product */
    for (n = 0; start + n * interval < end - 1e-9 * interval; n++) {
        if (n >= MAX_TIMES)
            return -1;
        if (out != NULL)
            out[n] = start + n * interval;
    }
    return n;
}

static status check_increasing(const real_list *v, const ynode *node, const char *path) {
    char item[PARAM_PATH];
    for (int i = 1; i < v->n; i++) {
        if (v->v[i] > v->v[i - 1])
            continue;
        snprintf(item, sizeof item, "%s[%d]", path, i);
        return yaml_tree_fail(node->kind == YAML_TREE_LIST ? node->item[i] : node, item,
                              "%.10g s after %.10g s, expected increasing times", v->v[i],
                              v->v[i - 1]);
    }
    return MOAO_OK;
}

static status check_interval(const params *par, const ynode *map, const char *key,
                             const real_list *times, double interval) {
    char path[PARAM_PATH];
    const ynode *node = yaml_tree_get(map, key);
    snprintf(path, sizeof path, "schedule.%s", key);
    if (!params_given(interval))
        return MOAO_OK;
    if (!params_given(par->schedule_end))
        return yaml_tree_fail(map, "schedule.end", "missing, expected a time with %s", key);
    if (!(par->schedule_end > par->schedule_start))
        return yaml_tree_fail(yaml_tree_get(map, "end"), "schedule.end",
                              "%.10g s is not after the start at %.10g s, expected a later time",
                              par->schedule_end, par->schedule_start);
    int n = params_schedule(times, interval, par->schedule_start, par->schedule_end, NULL);
    if (n == 0)
        return yaml_tree_fail(yaml_tree_get(map, "end"), "schedule.end",
                              "leaves no time for %s, expected a later time", key);
    if (n < 0)
        return yaml_tree_fail(node, path, "more than %d times before the end, expected fewer",
                              MAX_TIMES);
    return MOAO_OK;
}

static status check_schedule(const params *par, const ynode *root) {
    const ynode *map = yaml_tree_get(root, "schedule");
    const ynode *tor = param_node(map, "tor_times"), *exposure = param_node(map, "exposure_times");
    status st;
    TRY(params_check_alternatives(map, "schedule", "schedule"));
    TRY(check_interval(par, map, "tor_interval", &par->schedule_tor_times,
                       par->schedule_tor_interval));
    TRY(check_interval(par, map, "exposure_interval", &par->schedule_exposure_times,
                       par->schedule_exposure_interval));
    if (tor != NULL)
        TRY(check_increasing(&par->schedule_tor_times, tor, "schedule.tor_times"));
    if (exposure != NULL)
        TRY(check_increasing(&par->schedule_exposure_times, exposure, "schedule.exposure_times"));
    double first_tor = tor ? par->schedule_tor_times.v[0] : par->schedule_start;
    double first = exposure ? par->schedule_exposure_times.v[0] : par->schedule_start;
    if (first < first_tor)
        return yaml_tree_fail(exposure ? exposure
                              : tor    ? tor
                                       : map,
                              exposure ? "schedule.exposure_times" : "schedule.tor_times",
                              "an exposure at %.10g s before the first reconstructor at %.10g s, "
                              "expected a reconstructor first",
                              first, first_tor);
done:
    return st;
}

/* --- geometry */

static int count_subapertures(int n, double obs) {
    int count = 0;
    for (int iy = 0; iy < n; iy++)
        for (int ix = 0; ix < n; ix++)
            count += sys_subaperture_valid(n, obs, ix, iy);
    return count;
}

/* Where a key of a sensor was given: by itself or in the defaults of its type. */
static const ynode *sensor_node(const params_loader *l, int i, const char *key) {
    const ynode *own = yaml_tree_get(l->root, "sensors")->item[i];
    bool lgs = l->par->sensors.v[i].type == SENSOR_LGS;
    const ynode *node = yaml_tree_get(own, key);
    if (node == NULL)
        node = yaml_tree_get(yaml_tree_get(l->root, lgs ? "lgs_defaults" : "ngs_defaults"), key);
    return node ? node : own;
}

static status check_subapertures(const params_loader *l) {
    char path[PARAM_PATH];
    const params *par = l->par;
    for (int i = -1, done = 0; i < par->sensors.n; i++) {
        int n = i < 0 ? par->dm_nssp : par->sensors.v[i].nssp;
        if (n == done)
            continue;
        done = n;
        if (i < 0)
            snprintf(path, sizeof path, "dm.nssp");
        else
            params_sensor_path(l, i, "nssp", path);
        if (count_subapertures(n, par->telescope_obscuration) == 0)
            return yaml_tree_fail(
                i < 0 ? param_node(l->root, "dm.nssp") : sensor_node(l, i, "nssp"), path,
                "%d with an obscuration of %g leaves no valid subaperture, "
                "expected more subapertures",
                n, par->telescope_obscuration);
    }
    return MOAO_OK;
}

static status check_stars_above_layers(const params_loader *l) {
    char path[PARAM_PATH];
    const params *par = l->par;
    for (int i = 0; i < par->sensors.n; i++) {
        const sensor_params *s = &par->sensors.v[i];
        for (int k = 0; s->type == SENSOR_LGS && k < par->atmosphere_profiles.n; k++) {
            const profile_params *p = &par->atmosphere_profiles.v[k];
            double above = 0, total = 0;
            for (int j = 0; j < p->layers_altitude.n; j++) {
                total += p->layers_strength.v[j];
                above += p->layers_altitude.v[j] >= s->altitude ? p->layers_strength.v[j] : 0;
            }
            if (!(above > MAX_SHARE_ABOVE_STAR * total))
                continue;
            params_sensor_path(l, i, "altitude", path);
            return yaml_tree_fail(
                sensor_node(l, i, "altitude"), path,
                "%g m is below layers with %.1f %% of r0^(-5/3) of %s, expected a "
                "star above all but 5 %%",
                s->altitude, 100 * above / total, p->label);
        }
    }
    return MOAO_OK;
}

/* effective.yaml is read again: what it would hold must not be more than a tree may have. */
static status check_extent(const params_loader *l) {
    const params *par = l->par;
    long targets = 4L * par->targets_list.n, layers = 0;
    for (int i = 0; i < par->atmosphere_profiles.n; i++)
        layers += 20 + 5L * par->atmosphere_profiles.v[i].layers_altitude.n;
    long rest = 80L * par->sensors.n + par->images.n + par->psf_ee_boxes.n +
                par->schedule_tor_times.n + par->schedule_exposure_times.n + 1000;
    const char *most = targets > layers ? "targets" : "atmosphere";
    if (targets + layers + rest <= YAML_TREE_MAX_NODES)
        return MOAO_OK;
    return yaml_tree_fail(param_node(l->root, most), most,
                          "some %ld values, expected at most %d in all (targets and layers)",
                          targets + layers + rest, YAML_TREE_MAX_NODES);
}

/* What is wrong with the name of a folder, NULL when nothing is. */
static const char *folder_mistake(const char *name) {
    if (*name == '\0')
        return "an empty name, expected that of a folder";
    if (isspace((unsigned char)*name))
        return "the name begins with a blank, expected one that does not (./ may stand before it)";
    if (strlen(name) > MAX_FOLDER)
        return "the name is longer than 900 bytes, expected a shorter path";
    return NULL;
}

status params_check_directory(const char *option, const char *name) {
    const char *what = folder_mistake(name);
    return what == NULL
               ? MOAO_OK
               : status_fail(MOAO_INPUT, "%s '%s': %s", option, yaml_tree_quote(name).s, what);
}

/* A box is a column of the results, which its side names with six digits. */
static status check_boxes(const params *par, const ynode *root) {
    const ynode *list = param_node(root, "psf.ee_boxes");
    char name[2][32], path[PARAM_PATH];
    for (int i = 1; i < par->psf_ee_boxes.n; i++) {
        snprintf(name[0], sizeof name[0], "%.6g",
                 units_in(par->psf_ee_boxes.v[i], DIM_ANGLE, "mas"));
        for (int k = 0; k < i; k++) {
            snprintf(name[1], sizeof name[1], "%.6g",
                     units_in(par->psf_ee_boxes.v[k], DIM_ANGLE, "mas"));
            if (strcmp(name[0], name[1]) != 0)
                continue;
            snprintf(path, sizeof path, "psf.ee_boxes[%d]", i);
            return yaml_tree_fail(
                list != NULL && list->kind == YAML_TREE_LIST ? list->item[i] : list, path,
                "a box of %s mas for the second time, expected each once", name[0]);
        }
    }
    return MOAO_OK;
}

/* The word of earlier versions becomes what it is called now. */
static status read_format(params *par, const ynode *root) {
    static const struct {
        int factor, product;
        const char *now;
    } of[] = {
        [FORMAT_DENSE] = {FACTOR_PARAM_DENSE, PRODUCT_PARAM_AUTO, "compute.factor: dense"},
        [FORMAT_HALF] = {FACTOR_PARAM_DENSE, PRODUCT_PARAM_FP16, "compute.product: fp16"},
        [FORMAT_TLR] = {FACTOR_PARAM_TLR, PRODUCT_PARAM_AUTO, "compute.factor: tlr"},
        [FORMAT_GRID] = {FACTOR_PARAM_DENSE, PRODUCT_PARAM_TOEPLITZ, "compute.product: toeplitz"},
        [FORMAT_AUTO] = {FACTOR_PARAM_AUTO, PRODUCT_PARAM_AUTO, "compute.factor: auto"}};
    const int word = par->compute_format;
    if (word == FORMAT_NONE)
        return MOAO_OK;
    if (param_node(root, "compute.factor") != NULL || param_node(root, "compute.product") != NULL)
        return yaml_tree_fail(param_node(root, "compute.format"), "compute.format",
                              "given with compute.factor or compute.product, which it stands for: "
                              "expected only one of them");
    par->compute_factor = of[word].factor;
    par->compute_product = of[word].product;
    par->compute_format = FORMAT_NONE;
    return params_note(par, "compute.format: write %s; the old word is read for one more version",
                       of[word].now);
}

/* Where a compressed factor is kept has one name; and a product by name against the short form of
 * factor and product. */
static status check_product(const params *par, const ynode *root) {
    if (par->compute_factor == FACTOR_PARAM_TLR_HOST && par->compute_tlr_distributed)
        return yaml_tree_fail(param_node(root, "compute.tlr_distributed"),
                              "compute.tlr_distributed",
                              "true with compute.factor: tlr_host, which keeps all of it in the "
                              "memory of each rank's host: expected only one of them");
    if (par->compute_product != PRODUCT_PARAM_EXACT ||
        par->compute_precision != PRECISION_PARAM_MIXED ||
        par->compute_factor == FACTOR_PARAM_TLR || par->compute_factor == FACTOR_PARAM_TLR_HOST)
        return MOAO_OK;
    return yaml_tree_fail(param_node(root, "compute.product"), "compute.product",
                          "exact with compute.precision: mixed, which asks for products in FP16: "
                          "expected only one of them");
}

/* Tables by layer: of commands that targets share, and of the phase. */
static status check_layers(const params *par, const ynode *root) {
    const bool shares = par->mode != MODE_MOAO && par->mode != MODE_SPLIT;
    if (par->compute_phase != PHASE_PARAM_LAYERS)
        return MOAO_OK;
    if (!shares)
        return yaml_tree_fail(param_node(root, "compute.phase"), "compute.phase",
                              "layers with mode: %s, whose targets have commands of their own; "
                              "expected direct or auto, or mode=ltao, glao or mcao",
                              par->mode == MODE_MOAO ? "moao" : "split");
    if (par->compute_product != PRODUCT_PARAM_EXACT && par->compute_product != PRODUCT_PARAM_AUTO)
        return yaml_tree_fail(param_node(root, "compute.phase"), "compute.phase",
                              "layers with a compute.product that has the phase by a method of its "
                              "own; expected compute.product=exact or auto");
    return MOAO_OK;
}

/* Commands fitted to the phase: what follows from the truth sensor is not there. */
static status check_fit(const params *par, const ynode *root) {
    const ynode *list = param_node(root, "output.matrices");
    char path[PARAM_PATH];
    if (par->reconstructor_fit != FIT_PHASE)
        return MOAO_OK;
    if (par->psf_residual == RESIDUAL_SENSOR)
        return yaml_tree_fail(
            param_node(root, "psf.residual"), "psf.residual",
            "sensor with reconstructor.fit: phase, whose commands follow from the "
            "phase at points of the pupil, not from a truth sensor; expected phase, "
            "or reconstructor.fit=slopes");
    for (int i = 0; i < par->output_matrices.n; i++) {
        const char *name = par->output_matrices.v[i];
        if (strcmp(name, "Cmm") == 0 || strcmp(name, "W") == 0)
            continue;
        snprintf(path, sizeof path, "output.matrices[%d]", i);
        return yaml_tree_fail(
            list != NULL && list->kind == YAML_TREE_LIST ? list->item[i] : list, path,
            "%s belongs to a truth sensor, which reconstructor.fit: phase does not "
            "have; expected Cmm or W, or reconstructor.fit=slopes",
            name);
    }
    return MOAO_OK;
}

status params_check(params_loader *l) {
    const params *par = l->par;
    status st;
    TRY(read_format(l->par, l->root));
    TRY(check_product(par, l->root));
    TRY(check_extent(l));
    TRY(check_schedule(par, l->root));
    TRY(check_subapertures(l));
    TRY(check_boxes(par, l->root));
    TRY(check_stars_above_layers(l));
    const char *folder = folder_mistake(par->output_directory);
    if (folder != NULL)
        return yaml_tree_fail(param_node(l->root, "output.directory"), "output.directory", "%s",
                              folder);
    if (par->psf_average == AVERAGE_EXACT && par->psf_residual == RESIDUAL_SENSOR)
        return yaml_tree_fail(param_node(l->root, "psf.average"), "psf.average",
                              "exact needs the residual phase at points of the pupil, which "
                              "psf.residual=sensor does not have; expected auto or mean, or "
                              "psf.residual=phase");
    TRY(params_check_correctors(l));
    TRY(params_check_low_order(l));
    TRY(params_check_loop(l));
    TRY(check_fit(par, l->root));
    TRY(check_layers(par, l->root));
    if (params_given(par->psf_subaperture) &&
        !(par->psf_subaperture <= 0.7 * par->telescope_diameter))
        return yaml_tree_fail(param_node(l->root, "psf.subaperture"), "psf.subaperture",
                              "%.4g m, a square that does not lie in the pupil of %.4g m; expected "
                              "0.7 of it at most",
                              par->psf_subaperture, par->telescope_diameter);
    if (par->psf_oversampling == 1)
        return yaml_tree_fail(param_node(l->root, "psf.oversampling"), "psf.oversampling",
                              "1 is too coarse, expected 2 to 16, or 0: as many as are needed");
    if (par->output_crop % 2 != 0)
        return yaml_tree_fail(param_node(l->root, "output.crop"), "output.crop",
                              "%d is odd, expected an even number", par->output_crop);
    if ((par->compute_grid[0] == 0) != (par->compute_grid[1] == 0))
        return yaml_tree_fail(param_node(l->root, "compute.grid"), "compute.grid",
                              "one is 0, expected two positive numbers or [0, 0]");
done:
    return st;
}
