#include "base/text.h"
#include "legacy.h"
#include "params_load.h"
#include "params_mistakes.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_PROFILES = 100000 };

static void set_label(profile_params *p, const char *name) {
    const char *slash = strrchr(name, '/');
    snprintf(p->label, sizeof p->label, "%.60s", slash ? slash + 1 : name);
    for (size_t n = strlen(p->label); n > 0 && !text_is_utf8(p->label); n--)
        p->label[n - 1] = '\0'; /* no part of a character */
}

static double sum(const real_list *v) {
    double s = 0;
    for (int i = 0; i < v->n; i++)
        s += v->v[i];
    return s;
}

/* What these files hold must be what a parameter file may state, as it is written into one. */
static status check_legacy_ranges(const char *name, const legacy_profile *p) {
    const struct {
        const char *key;
        const double *v;
    } array[] = {
        {"layers.strength", p->strength}, {"layers.altitude", p->altitude}, {"layers.L0", p->L0}};
    char expected[256];
    for (int k = 0; k < 3; k++) {
        const param_field *f = param_table_find(&params_profile_table, array[k].key);
        param_field one = *f;
        one.kind = KIND_real;
        for (int i = 0; i < p->n; i++) {
            if (param_in_range(f, array[k].v[i]))
                continue;
            param_field_expected(&one, expected, sizeof expected);
            return yaml_tree_fail_at(name, 1, 1, array[k].key, "layer %d has %g, expected %s",
                                     i + 1, array[k].v[i], expected);
        }
    }
    return MOAO_OK;
}

/* Take the arrays of a profile file of the MOAO framework. */
static status take_legacy(params_loader *l, const char *name, const ynode *at, const char *path,
                          profile_params *p) {
    const params_file *f;
    legacy_profile legacy = {0};
    int line, column;
    status st;
    const char *stated = at->kind == YAML_TREE_SCALAR ? at->text : NULL;
    TRY(params_files_get_stated(l->files, name, stated, &f));
    if (f->error != 0)
        return yaml_tree_fail(at, path, "%s cannot be read (%s), expected a file", name,
                              params_files_stated_reason(f, stated));
    name = params_files_name(f);
    if (params_files_find_nul(f, &line, &column))
        return yaml_tree_fail_at(name, line, column, path, "a NUL character, expected text");
    TRY(legacy_profile_parse(name, f->data, &legacy));
    TRY(check_legacy_ranges(name, &legacy));
    real_list *const to[3] = {&p->layers_strength, &p->layers_altitude, &p->layers_L0};
    double **const from[3] = {&legacy.strength, &legacy.altitude, &legacy.L0};
    for (int i = 0; i < 3; i++) {
        free(to[i]->v);
        *to[i] = (real_list){legacy.n, *from[i]};
        *from[i] = NULL;
    }
    set_label(p, name);
    double r0 = pow(sum(&p->layers_strength), -0.6);
    if (!(fabs(r0 / legacy.r0 - 1) <= 0.01))
        TRY(params_note(l->par,
                        "%s: r0 is %.4g m from the strengths, which count, not %.4g m as stated",
                        name, r0, legacy.r0));
done:
    legacy_profile_free(&legacy);
    return st;
}

static status fail_layers(const ynode *map, const char *path, const char *key, const char *what) {
    char full[PARAM_PATH];
    const ynode *at = param_node(map, key);
    const ynode *layers = strchr(key, '.') != NULL ? yaml_tree_get(map, "layers") : NULL;
    param_join(full, path, key);
    return yaml_tree_fail(at ? at : layers ? layers : map, full, "%s", what);
}

/* One value for each of n layers: a single one (the default, or not written as a list) counts for
 * all. */
static status spread(const ynode *map, const char *path, const char *key, int n, real_list *v) {
    const ynode *node = param_node(map, key);
    char what[96];
    if (v->n == n)
        return MOAO_OK;
    if (v->n != 1 || (node != NULL && node->kind == YAML_TREE_LIST)) {
        snprintf(what, sizeof what, "%d value%s, expected %d (one for each altitude)", v->n,
                 text_plural(v->n), n);
        return fail_layers(map, path, key, what);
    }
    double *all;
    status st;
    TRY(ALLOC(all, (size_t)n, key));
    for (int i = 0; i < n; i++)
        all[i] = v->v[0];
    free(v->v);
    *v = (real_list){n, all};
done:
    return st;
}

/* Turn fractions and r0 into strengths; scale given strengths to a given r0. */
static status resolve_strengths(params_loader *l, const ynode *map, const char *path,
                                profile_params *p) {
    bool fractions = p->layers_fraction.n > 0;
    if (params_given(p->seeing))
        p->r0 = SEEING_LAMBDA / p->seeing;
    p->seeing = NAN;
    const char *key = fractions ? "layers.fraction" : "layers.strength";
    real_list *v = fractions ? &p->layers_fraction : &p->layers_strength;
    status st = MOAO_OK;
    if (v->n == 0)
        return fail_layers(map, path, "layers.fraction",
                           "missing, expected fractions or strengths");
    TRY(spread(map, path, key, p->layers_altitude.n, v));
    double total = sum(v);
    if (fractions && !params_given(p->r0))
        return fail_layers(map, path, "r0",
                           "missing, expected r0 (a length in m) or seeing with fractions");
    if (params_given(p->r0) && !(total > 1e-300)) /* so that its inverse is finite */
        return fail_layers(map, path, key, "all zero, expected at least one positive value");
    if (fractions && !(fabs(total - 1) <= 0.01))
        TRY(params_note(l->par, "%s.layers.fraction: the sum is %.4g and is scaled to 1", path,
                        total));
    double scale = params_given(p->r0) ? pow(p->r0, -5. / 3) / total : 1;
    for (int i = 0; i < v->n; i++)
        v->v[i] *= scale;
    if (fractions) {
        free(p->layers_strength.v);
        p->layers_strength = p->layers_fraction;
        p->layers_fraction = (real_list){0};
    }
    p->r0 = NAN;
done:
    return st;
}

static status resolve_layers(params_loader *l, const ynode *map, const char *path,
                             profile_params *p) {
    status st;
    int n = p->layers_altitude.n;
    if (n == 0)
        return fail_layers(map, path, "layers.altitude", "missing, expected the layers' altitudes");
    TRY(resolve_strengths(l, map, path, p));
    TRY(spread(map, path, "layers.L0", n, &p->layers_L0));
    TRY(spread(map, path, "layers.wind_speed", n, &p->layers_wind_speed));
    TRY(spread(map, path, "layers.wind_direction", n, &p->layers_wind_direction));
    if (sum(&p->layers_wind_speed) > 0 && param_node(map, "layers.wind_direction") == NULL &&
        l->aimless++ == 0)
        snprintf(l->first, sizeof l->first, "%s", p->label);
done:
    return st;
}

static bool is_yaml(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* Put the profile's own keys on top of those of its YAML file; *map is then the result. */
static status merge_yaml(params_loader *l, const char *name, const ynode *file, const char *path,
                         const ynode **map) {
    char full[PARAM_PATH];
    ynode *root;
    status st;
    param_join(full, path, "file");
    TRY(params_parse_file(l, name, file, full, &root));
    if (yaml_tree_get(root, "file") != NULL)
        return yaml_tree_fail(yaml_tree_get(root, "file"), "file",
                              "a file named in a profile's file, expected layers");
    TRY(yaml_tree_merge(l->tree, root, *map, "atmosphere.profiles", params_excludes));
    *map = root;
done:
    return st;
}

static status read_profile(params_loader *l, const ynode *map, const char *path,
                           profile_params *p) {
    static const char *const given[] = {"layers.altitude", "layers.fraction", "layers.strength"};
    const param_table *t = &params_profile_table;
    char full[PARAM_PATH];
    const int before = mistakes_count();
    status st;
    if (map->kind != YAML_TREE_MAP)
        return yaml_tree_fail(map, path, "not a mapping, expected keys of a profile");
    TRY(param_table_defaults(t, 0, p));
    const ynode *file = yaml_tree_get(map, "file");
    param_join(full, path, "file");
    if (file != NULL) {
        TRY(param_field_read(param_table_find(t, "file"), file, full, p));
        if (is_yaml(p->file))
            TRY(merge_yaml(l, p->file, file, path, &map));
        else
            TRY(take_legacy(l, p->file, file, full, p));
    }
    for (int i = 0; file != NULL && !is_yaml(p->file) && i < 3; i++)
        if (param_node(map, given[i]) != NULL)
            return fail_layers(map, path, given[i], "given with file, expected only one of them");
    TRY(param_table_read(t, 0, map, path, p));
    TRY(params_check_alternatives(map, "atmosphere.profiles", path));
    param_join(full, path, "layers");
    TRY(params_check_alternatives(yaml_tree_get(map, "layers"), "atmosphere.profiles.layers",
                                  full));
    if (file != NULL)
        set_label(p, p->file);
    if (mistakes_count() > before)
        return MOAO_OK; /* what follows is of its values */
    TRY(resolve_layers(l, map, path, p));
    free(p->file);
    p->file = NULL;
done:
    return st;
}

static status read_profiles(params_loader *l, const ynode *list, const char *where) {
    char path[PARAM_PATH], full[PARAM_PATH];
    profile_list *out = &l->par->atmosphere_profiles;
    bool whole = true; /* no mistake up to here */
    status st;
    if (list->kind != YAML_TREE_LIST || list->n == 0 || list->n > MAX_PROFILES)
        return yaml_tree_fail(list, where, "%s, expected a list of profiles",
                              list->kind != YAML_TREE_LIST ? "not a list"
                              : list->n == 0               ? "an empty list"
                                                           : "too long a list");
    TRY(ALLOC(out->v, (size_t)list->n, "profiles"));
    out->n = list->n;
    for (int i = 0; i < list->n; i++) {
        profile_params *p = &out->v[i];
        const int before = mistakes_count();
        snprintf(path, sizeof path, "%s[%d]", where, i);
        snprintf(p->label, sizeof p->label, "profile %d", i + 1);
        TRY(mistakes_keep(read_profile(l, list->item[i], path, p)));
        param_join(full, path, "time");
        whole = whole && mistakes_count() == before;
        if (i > 0 && whole && !(p->time > p[-1].time)) {
            const ynode *time = yaml_tree_get(list->item[i], "time");
            return yaml_tree_fail(time ? time : list->item[i], full,
                                  "%.10g s after a profile at %.10g s, expected increasing times",
                                  p->time, p[-1].time);
        }
    }
done:
    return st;
}

static status read_legacy_names(params_loader *l, int n, char **names, const ynode *at) {
    profile_list *out = &l->par->atmosphere_profiles;
    status st;
    TRY(ALLOC(out->v, (size_t)n, "profiles"));
    out->n = n;
    for (int i = 0; i < n; i++) {
        profile_params *p = &out->v[i];
        TRY(param_table_defaults(&params_profile_table, 0, p));
        p->time = l->par->atmosphere_legacy_start + i * l->par->atmosphere_legacy_interval;
        const param_field *time = param_table_find(&params_profile_table, "time");
        if (!param_in_range(time, p->time) || (i > 0 && !(p->time > p[-1].time)))
            return yaml_tree_fail(at, "atmosphere.legacy.interval",
                                  "%d profiles from %.10g s every %.10g s, expected increasing "
                                  "times up to 1e9 s",
                                  n, l->par->atmosphere_legacy_start,
                                  l->par->atmosphere_legacy_interval);
        TRY(take_legacy(l, names[i], at->kind == YAML_TREE_LIST ? at->item[i] : at,
                        "atmosphere.legacy", p));
        TRY(resolve_layers(l, at, "atmosphere.legacy", p));
    }
done:
    return st;
}

static status read_legacy_pattern(params_loader *l, const ynode *at) {
    const params_file *match;
    const char *pattern = l->par->atmosphere_legacy_pattern;
    char *copy = NULL, **names = NULL;
    int n = 0;
    status st;
    TRY(params_files_match(l->files, pattern, &match));
    if (match->error != 0)
        return yaml_tree_fail(at, "atmosphere.legacy.pattern",
                              "no file matches %s, expected profile files", pattern);
    TRY(ALLOC(names, match->len + 1, "names"));
    copy = strdup(match->data);
    if (copy == NULL) {
        st = status_fail(MOAO_MEMORY, "no memory for names of files");
        goto done;
    }
    for (char *p = copy; *p; n++) {
        names[n] = p;
        p += strcspn(p, "\n");
        *p++ = '\0';
    }
    st = read_legacy_names(l, n, names, at);
done:
    free(copy);
    free(names);
    return st;
}

static status read_atmosphere_file(params_loader *l, const ynode *at) {
    ynode *root;
    status st;
    if (l->par->atmosphere_file == NULL) /* the key has no value, which was reported */
        return MOAO_OK;
    TRY(params_parse_file(l, l->par->atmosphere_file, at, "atmosphere.file", &root));
    for (int i = 0; i < root->n; i++)
        if (strcmp(root->key[i]->text, "profiles") != 0)
            return yaml_tree_fail(root->key[i], yaml_tree_quote(root->key[i]->text).s,
                                  "unknown key, expected only profiles in this file");
    const ynode *list = yaml_tree_get(root, "profiles");
    if (list == NULL)
        return yaml_tree_fail(root, "profiles", "missing, expected a list of profiles");
    TRY(read_profiles(l, list, "profiles"));
    /* its content is in the list now: the effective parameters need no other file */
    free(l->par->atmosphere_file);
    l->par->atmosphere_file = NULL;
done:
    return st;
}

/* Lag terms depend on where the layers move to. */
static status note_directions(params_loader *l) {
    const params *par = l->par;
    bool lags = par->loop_delay > 0 || par->loop_integration > 0;
    for (int w = 0; w < par->sensors.n; w++)
        lags = lags || params_given(par->sensors.v[w].delay);
    for (int i = 0; i < par->mirrors_delay.n; i++)
        lags = lags || par->mirrors_delay.v[i] > 0;
    if (l->aimless == 0 || !lags)
        return MOAO_OK;
    return params_note(l->par,
                       "%s%s: wind_speed without wind_direction: all layers move along x, and with "
                       "them the servo lag; give the directions (0 for that)",
                       l->first, l->aimless > 1 ? " and others" : "");
}

static status read_atmosphere(params_loader *l) {
    const ynode *map = yaml_tree_get(l->root, "atmosphere");
    const ynode *legacy = param_node(map, "legacy");
    const ynode *list = param_node(map, "profiles"), *file = param_node(map, "file");
    status st;
    TRY(params_check_alternatives(map, "atmosphere", "atmosphere"));
    TRY(params_check_alternatives(legacy, "atmosphere.legacy", "atmosphere.legacy"));
    if (list != NULL)
        return read_profiles(l, list, "atmosphere.profiles");
    if (file != NULL)
        return read_atmosphere_file(l, file);
    if (param_node(legacy, "files") != NULL)
        return read_legacy_names(l, l->par->atmosphere_legacy_files.n,
                                 l->par->atmosphere_legacy_files.v, param_node(legacy, "files"));
    if (param_node(legacy, "pattern") != NULL)
        return read_legacy_pattern(l, param_node(legacy, "pattern"));
    if (legacy != NULL)
        return yaml_tree_fail(legacy, "atmosphere.legacy.files",
                              "missing, expected files or pattern");
    st = yaml_tree_fail(map ? map : l->root, "atmosphere.profiles",
                        "missing, expected profiles, file or legacy");
done:
    return st;
}

status params_read_atmosphere(params_loader *l) {
    status st = read_atmosphere(l);
    return st == MOAO_OK ? note_directions(l) : st;
}
