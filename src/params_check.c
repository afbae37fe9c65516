#include "params_load.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TIMES = 100000, MAX_TARGETS = 1000000 };
static const double MAX_SHARE_ABOVE_STAR = 0.05; /* of r0^(-5/3) */

/* --- targets */

static status read_target_line(const char *file, int line, const char *text, double out[2]) {
    const param_field *f = param_table_find(&params_main_table, "targets.list");
    char word[2][64] = {"", ""};
    int n = sscanf(text, " %63[^ \t,\r\n]%*[ \t,]%63[^ \t,\r\n]", word[0], word[1]);
    const char *rest = text + strspn(text, " \t\r");
    for (int i = 0; i < 2; i++) {
        ynode node = {.kind = YAML_TREE_SCALAR, .file = file, .line = line, .text = word[i]};
        param_field real = *f;
        real.kind = KIND_real;
        node.column = (int)(rest - text) + 1;
        if (i >= n)
            return yaml_tree_fail(&node, "targets.file", "%d number, expected x and y", n);
        status st = param_real_read(&real, &node, "targets.file", &out[i]);
        if (st != MOAO_OK)
            return st;
        rest += strlen(word[i]);
        rest += strspn(rest, " \t,\r");
    }
    if (*rest != '\0')
        return yaml_tree_fail_at(file, line, (int)(rest - text) + 1, "targets.file",
                                 "more than two numbers, expected x and y");
    return MOAO_OK;
}

static status read_target_file(params_loader *l, const ynode *at) {
    const char *name = l->par->targets_file;
    const params_file *f;
    char *copy = NULL;
    point_list *out = &l->par->targets_list;
    status st;
    TRY(params_files_get(l->files, name, &f));
    if (f->error != 0)
        return yaml_tree_fail(at, "targets.file", "%s cannot be read (%s), expected a file", name,
                              strerror(f->error));
    size_t lines = 1;
    for (size_t i = 0; i < f->len; i++)
        lines += f->data[i] == '\n';
    TRY(ALLOC(out->v, lines, "targets"));
    TRY(ALLOC(copy, f->len + 1, "targets"));
    memcpy(copy, f->data, f->len);
    int line = 1;
    for (char *p = copy, *next; p != NULL && st == MOAO_OK; p = next, line++) {
        next = strchr(p, '\n');
        if (next != NULL)
            *next++ = '\0';
        p[strcspn(p, "#")] = '\0';
        if (p[strspn(p, " \t\r")] != '\0')
            st = read_target_line(name, line, p, out->v[out->n++]);
    }
    if (st == MOAO_OK && out->n == 0)
        st = yaml_tree_fail_at(name, 1, 1, "targets.file", "no target, expected x and y on a line");
    free(l->par->targets_file);
    l->par->targets_file = NULL;
done:
    free(copy);
    return st;
}

static status complete_grid(params *par, const ynode *grid) {
    if (par->targets_grid_nx == 0)
        return yaml_tree_fail(grid, "targets.grid.nx",
                              "missing, expected a whole number in [1, 1000]");
    if (par->targets_grid_ny == 0)
        par->targets_grid_ny = par->targets_grid_nx;
    bool wide = par->targets_grid_nx > 1, high = par->targets_grid_ny > 1;
    if (!params_given(par->targets_grid_width) &&
        (wide || (high && !params_given(par->targets_grid_height))))
        return yaml_tree_fail(grid, "targets.grid.width", "missing, expected an angle in arcsec");
    if (!params_given(par->targets_grid_width))
        par->targets_grid_width = 0;
    if (!params_given(par->targets_grid_height))
        par->targets_grid_height = par->targets_grid_width;
    if (wide && !(par->targets_grid_width > 0))
        return yaml_tree_fail(yaml_tree_get(grid, "width"), "targets.grid.width",
                              "0 for %d targets, expected a positive angle", par->targets_grid_nx);
    if (high && !(par->targets_grid_height > 0))
        return yaml_tree_fail(yaml_tree_get(grid, "height"), "targets.grid.height",
                              "0 for %d targets, expected a positive angle", par->targets_grid_ny);
    return MOAO_OK;
}

status params_read_targets(params_loader *l) {
    const ynode *map = yaml_tree_get(l->root, "targets");
    status st;
    TRY(params_check_alternatives(map, "targets", "targets"));
    if (param_node(map, "grid") != NULL)
        return complete_grid(l->par, param_node(map, "grid"));
    if (param_node(map, "file") != NULL)
        return read_target_file(l, param_node(map, "file"));
    if (param_node(map, "list") == NULL)
        st = yaml_tree_fail(map ? map : l->root, "targets",
                            "missing, expected a grid, a list or a file");
done:
    return st;
}

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
        return yaml_tree_fail(map, "schedule.end", "missing, expected a time beside %s", key);
    if (!(par->schedule_end > par->schedule_start))
        return yaml_tree_fail(yaml_tree_get(map, "end"), "schedule.end",
                              "%.10g s is not after the start at %.10g s, expected a later time",
                              par->schedule_end, par->schedule_start);
    if (params_schedule(times, interval, par->schedule_start, par->schedule_end, NULL) < 0)
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
        snprintf(path, sizeof path, i < 0 ? "dm.nssp" : "sensors[%d].nssp", i);
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
            snprintf(path, sizeof path, "sensors[%d].altitude", i);
            return yaml_tree_fail(
                sensor_node(l, i, "altitude"), path,
                "%g m is below layers with %.1f %% of r0^(-5/3) of %s, expected a "
                "star above all but 5 %%",
                s->altitude, 100 * above / total, p->label);
        }
    }
    return MOAO_OK;
}

status params_check(params_loader *l) {
    const params *par = l->par;
    status st;
    TRY(check_schedule(par, l->root));
    TRY(check_subapertures(l));
    TRY(check_stars_above_layers(l));
    if (par->output_crop % 2 != 0)
        return yaml_tree_fail(param_node(l->root, "output.crop"), "output.crop",
                              "%d is odd, expected an even number", par->output_crop);
    if ((par->compute_grid[0] == 0) != (par->compute_grid[1] == 0))
        return yaml_tree_fail(param_node(l->root, "compute.grid"), "compute.grid",
                              "one is 0, expected two positive numbers or [0, 0]");
done:
    return st;
}
