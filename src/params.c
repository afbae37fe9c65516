#include "params_load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SENSORS = 1000 };

static const struct {
    const char *path;
    const char *keys; /* separated and enclosed by '|' */
} alternatives[] = {
    {"targets", "|grid|list|file|"},          {"atmosphere", "|profiles|file|legacy|"},
    {"atmosphere.legacy", "|files|pattern|"}, {"atmosphere.profiles.layers", "|fraction|strength|"},
    {"schedule", "|tor_times|tor_interval|"}, {"schedule", "|exposure_times|exposure_interval|"},
};

static bool among(const char *keys, const char *key) {
    char enclosed[64];
    if (strlen(key) > 60)
        return false;
    snprintf(enclosed, sizeof enclosed, "|%s|", key);
    return strstr(keys, enclosed) != NULL;
}

bool params_excludes(const char *path, const char *a, const char *b) {
    if (strcmp(a, b) == 0)
        return false;
    for (size_t i = 0; i < sizeof alternatives / sizeof *alternatives; i++)
        if (strcmp(path, alternatives[i].path) == 0 && among(alternatives[i].keys, a) &&
            among(alternatives[i].keys, b))
            return true;
    return false;
}

status params_check_alternatives(const ynode *map, const char *path, const char *where) {
    char full[PARAM_PATH];
    for (int i = 0; map != NULL && map->kind == YAML_TREE_MAP && i < map->n; i++)
        for (int j = 0; j < i; j++) {
            if (!params_excludes(path, map->key[i]->text, map->key[j]->text))
                continue;
            param_join(full, where, map->key[i]->text);
            return yaml_tree_fail(map->key[i], full, "given beside %s, expected only one of them",
                                  map->key[j]->text);
        }
    return MOAO_OK;
}

status params_note(params *par, const char *fmt, ...) {
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    char **grown = realloc(par->notes.v, (size_t)(par->notes.n + 1) * sizeof *grown);
    if (grown != NULL)
        par->notes.v = grown;
    if (grown == NULL || (grown[par->notes.n] = strdup(line)) == NULL)
        return status_fail(MOAO_MEMORY, "no memory for a warning");
    par->notes.n++;
    return MOAO_OK;
}

status params_parse_file(params_loader *l, const char *name, const ynode *at, const char *path,
                         ynode **root) {
    const params_file *f;
    status st;
    TRY(params_files_get(l->files, name, &f));
    if (f->error != 0 && at != NULL)
        return yaml_tree_fail(at, path, "%s cannot be read (%s), expected a file", name,
                              strerror(f->error));
    if (f->error != 0)
        return yaml_tree_fail_at(name, 1, 1, path, "cannot be read (%s), expected a parameter file",
                                 strerror(f->error));
    TRY(yaml_tree_parse(l->tree, name, 0, f->data, f->len, root));
    if ((*root)->kind != YAML_TREE_MAP)
        st = yaml_tree_fail(*root, "syntax", "not a mapping, expected key: value lines");
done:
    return st;
}

static status merge_sources(params_loader *l, int nfile, const char *const *files, int noverride,
                            const char *const *overrides) {
    status st;
    ynode *next;
    TRY(yaml_tree_alloc(l->tree, (void **)&l->root, sizeof *l->root));
    *l->root = (ynode){.kind = YAML_TREE_MAP, .line = 1, .column = 1};
    l->root->file = nfile > 0 ? files[0] : "command line";
    for (int i = 0; i < nfile; i++) {
        TRY(params_parse_file(l, files[i], NULL, "file", &next));
        if (i == 0)
            *l->root = *next;
        else
            TRY(yaml_tree_merge(l->tree, l->root, next, "", params_excludes));
    }
    for (int i = 0; i < noverride; i++)
        TRY(yaml_tree_override(l->tree, l->root, overrides[i], params_excludes));
done:
    return st;
}

/* Keys of sensors that all stars of a type share; read once on their own so that mistakes show. */
static status check_sensor_defaults(const ynode *map, int type, const char *path) {
    static const char *const own[] = {"name", "type", "direction"};
    char full[PARAM_PATH];
    sensor_params scratch = {0};
    status st = MOAO_OK;
    if (map == NULL)
        return MOAO_OK;
    for (int i = 0; i < 3; i++) {
        const ynode *node = yaml_tree_get(map, own[i]);
        param_join(full, path, own[i]);
        if (node != NULL)
            return yaml_tree_fail(node, full, "belongs to one sensor, expected it in sensors");
    }
    TRY(param_table_defaults(&params_sensor_table, type, &scratch));
    TRY(param_table_read(&params_sensor_table, type, map, path, &scratch));
done:
    param_table_free(&params_sensor_table, &scratch);
    return st;
}

static status name_sensor(const ynode *map, const char *path, int number, sensor_params *s) {
    char name[32], full[PARAM_PATH];
    if (s->name != NULL && s->name[0] != '\0') {
        param_join(full, path, "name");
        if (strlen(s->name) < sizeof name)
            return MOAO_OK;
        return yaml_tree_fail(yaml_tree_get(map, "name"), full,
                              "longer than 31 bytes, expected less");
    }
    free(s->name);
    snprintf(name, sizeof name, "%s %d", s->type == SENSOR_LGS ? "LGS" : "NGS", number);
    s->name = strdup(name);
    return s->name ? MOAO_OK : status_fail(MOAO_MEMORY, "no memory for the name of a sensor");
}

static status read_sensor(params_loader *l, const ynode *map, const char *path, sensor_params *s) {
    char full[PARAM_PATH];
    const param_table *t = &params_sensor_table;
    status st;
    if (map->kind != YAML_TREE_MAP)
        return yaml_tree_fail(map, path, "not a mapping, expected keys of a sensor");
    const ynode *type = yaml_tree_get(map, "type");
    param_join(full, path, "type");
    if (type == NULL)
        return yaml_tree_fail(map, full, "missing, expected one of ngs, lgs");
    TRY(param_field_read(param_table_find(t, "type"), type, full, s));
    const ynode *defaults =
        yaml_tree_get(l->root, s->type == SENSOR_LGS ? "lgs_defaults" : "ngs_defaults");
    int kind = s->type;
    TRY(param_table_defaults(t, kind, s));
    if (defaults != NULL)
        TRY(param_table_read(t, kind, defaults, "", s));
    if (yaml_tree_get(map, "tiptilt_factor") != NULL)
        s->tiptilt_variance = NAN; /* the sensor's own factor goes before a common constant */
    TRY(param_table_read(t, kind, map, path, s));
    TRY(param_table_require(t, kind, map, defaults, path));
    if (kind == SENSOR_NGS && !params_given(s->magnitude) && !params_given(s->noise_variance)) {
        param_join(full, path, "magnitude");
        st = yaml_tree_fail(map, full, "missing, expected a magnitude or noise_variance");
    }
done:
    return st;
}

static status read_sensors(params_loader *l) {
    char path[PARAM_PATH];
    int number[2] = {0, 0};
    params *par = l->par;
    status st;
    const ynode *list = yaml_tree_get(l->root, "sensors");
    TRY(check_sensor_defaults(yaml_tree_get(l->root, "ngs_defaults"), SENSOR_NGS, "ngs_defaults"));
    TRY(check_sensor_defaults(yaml_tree_get(l->root, "lgs_defaults"), SENSOR_LGS, "lgs_defaults"));
    if (list->kind != YAML_TREE_LIST || list->n == 0 || list->n > MAX_SENSORS)
        return yaml_tree_fail(list, "sensors", "%s, expected a list of 1 to %d sensors",
                              list->kind != YAML_TREE_LIST ? "not a list"
                              : list->n == 0               ? "an empty list"
                                                           : "too long a list",
                              MAX_SENSORS);
    TRY(ALLOC(par->sensors.v, (size_t)list->n, "sensors"));
    par->sensors.n = list->n;
    for (int i = 0; i < list->n; i++) {
        sensor_params *s = &par->sensors.v[i];
        snprintf(path, sizeof path, "sensors[%d]", i);
        TRY(read_sensor(l, list->item[i], path, s));
        TRY(name_sensor(list->item[i], path, ++number[s->type == SENSOR_LGS], s));
    }
done:
    return st;
}

static status load(params_files *files, int nfile, const char *const *names, int noverride,
                   const char *const *overrides, params *par) {
    status st;
    params_loader l = {.par = par, .files = files};
    TRY(yaml_tree_new(&l.tree));
    TRY(merge_sources(&l, nfile, names, noverride, overrides));
    TRY(param_table_defaults(&params_main_table, 0, par));
    TRY(param_table_read(&params_main_table, 0, l.root, "", par));
    TRY(param_table_require(&params_main_table, 0, l.root, NULL, ""));
    TRY(read_sensors(&l));
    TRY(params_read_targets(&l));
    TRY(params_read_atmosphere(&l));
    TRY(params_check(&l));
done:
    yaml_tree_free(l.tree);
    return st;
}

status params_load(const comm *c, int nfile, const char *const *files, int noverride,
                   const char *const *overrides, params *par) {
    status st = MOAO_OK, local = MOAO_OK;
    params_files held = {0};
    memset(par, 0, sizeof *par);
    if (c == NULL || c->rank == 0)
        local = load(&held, nfile, files, noverride, overrides, par);
    if (c != NULL) {
        TRY(comm_agree(c, local)); /* before others fail for want of what rank 0 did not read */
        TRY(params_files_broadcast(c, &held));
        if (c->rank != 0)
            local = load(&held, nfile, files, noverride, overrides, par);
        local = comm_agree(c, local);
    }
    st = local;
done:
    params_files_free(&held);
    return st;
}

void params_free(params *par) {
    for (int i = 0; i < par->sensors.n; i++)
        param_table_free(&params_sensor_table, &par->sensors.v[i]);
    free(par->sensors.v);
    for (int i = 0; i < par->atmosphere_profiles.n; i++)
        param_table_free(&params_profile_table, &par->atmosphere_profiles.v[i]);
    free(par->atmosphere_profiles.v);
    for (int i = 0; i < par->notes.n; i++)
        free(par->notes.v[i]);
    free(par->notes.v);
    param_table_free(&params_main_table, par);
    memset(par, 0, sizeof *par);
}

bool params_wants_matrix(const params *par, const char *name) {
    for (int i = 0; i < par->output_matrices.n; i++)
        if (strcmp(par->output_matrices.v[i], name) == 0)
            return true;
    return false;
}
