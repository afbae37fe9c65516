#include "params_load.h"
#include "params_mistakes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *path;
    const char *keys; /* separated and enclosed by '|' */
} alternatives[] = {
    {"targets", "|grid|list|file|"},
    {"sky", "|hour_angle|time|"},
    {"telescope.spiders", "|angles|number|"},
    {"telescope.spiders", "|angles|angle|"},
    {"atmosphere", "|profiles|file|legacy|"},
    {"atmosphere.legacy", "|files|pattern|"},
    {"atmosphere.profiles.layers", "|fraction|strength|"},
    {"compute", "|format|factor|"},
    {"compute", "|format|product|"},
    {"schedule", "|tor_times|tor_interval|"},
    {"schedule", "|exposure_times|exposure_interval|"},
    {"targets", "|grid|names|"},
    {"atmosphere.profiles", "|r0|seeing|"},
    {"sensors", "|frame_time|frame_rate|"},
    {"sensors", "|direction|ring|"},
    {"sensors", "|magnitude|photons|"},
    {"sensors", "|lgs_return|photons|"},
    {"ngs_defaults", "|frame_time|frame_rate|"},
    {"ngs_defaults", "|magnitude|photons|"},
    {"lgs_defaults", "|frame_time|frame_rate|"},
    {"lgs_defaults", "|lgs_return|photons|"},
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
            return yaml_tree_fail(map->key[i], full, "given with %s, expected only one of them",
                                  map->key[j]->text);
        }
    return MOAO_OK;
}

static status add_line(text_list *list, const char *fmt, va_list ap) {
    char line[1024];
    vsnprintf(line, sizeof line, fmt, ap);
    char **grown = realloc(list->v, (size_t)(list->n + 1) * sizeof *grown);
    if (grown != NULL)
        list->v = grown;
    if (grown == NULL || (grown[list->n] = strdup(line)) == NULL)
        return status_fail(MOAO_MEMORY, "no memory for a warning");
    list->n++;
    return MOAO_OK;
}

status params_note(params *par, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const status st = add_line(&par->notes, fmt, ap);
    va_end(ap);
    return st;
}

status params_tell(params *par, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const status st = add_line(&par->told, fmt, ap);
    va_end(ap);
    return st;
}

static void free_lines(text_list *list) {
    for (int i = 0; i < list->n; i++)
        free(list->v[i]);
    free(list->v);
}

status params_parse_file(params_loader *l, const char *name, const ynode *at, const char *path,
                         ynode **root) {
    const params_file *f;
    status st;
    TRY(params_files_get_stated(l->files, name, at != NULL ? at->text : NULL, &f));
    if (f->error != 0 && at != NULL)
        return yaml_tree_fail(at, path, "%s cannot be read (%s), expected a file", name,
                              params_files_stated_reason(f, at->text));
    if (f->error != 0)
        return yaml_tree_fail_at(name, 1, 1, path,
                                 "cannot be read (%s), expected a parameter file or key=value",
                                 params_files_reason(f));
    TRY(yaml_tree_parse(l->tree, params_files_name(f), 0, f->data, f->len, root));
    if ((*root)->kind != YAML_TREE_MAP)
        st = yaml_tree_fail(*root, "syntax", "not a mapping, expected key: value lines");
done:
    return st;
}

static status merge_sources(params_loader *l, int nfile, const char *const *files, int noverride,
                            const char *const *overrides) {
    const yaml_tree_rules rules = {params_excludes, params_find_sensor, params_choose_items};
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
    /* the stars of a ring have names once the ring itself is settled */
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < noverride; i++)
            if (params_names_star(overrides[i]) == pass)
                TRY(mistakes_keep(yaml_tree_override(l->tree, l->root, overrides[i], rules)));
        if (pass == 0)
            TRY(params_expand_rings(l));
    }
done:
    return st;
}

static status load(params_files *files, int nfile, const char *const *names, int noverride,
                   const char *const *overrides, params *par) {
    status st;
    params_loader l = {.par = par, .files = files};
    mistakes_begin();
    TRY(yaml_tree_new(&l.tree));
    TRY(merge_sources(&l, nfile, names, noverride, overrides));
    TRY(param_table_defaults(&params_main_table, 0, par));
    TRY(param_table_read(&params_main_table, 0, l.root, "", par));
    TRY(param_table_require(&params_main_table, 0, l.root, NULL, ""));
    /* after a mistake all is read whose meaning does not hang on it */
    if (!mistakes_about("sky"))
        TRY(mistakes_keep(params_read_sky(&l)));
    if (!mistakes_about("telescope"))
        TRY(mistakes_keep(params_check_pupil(&l)));
    TRY(mistakes_keep(params_read_sensors(&l)));
    if (!mistakes_about("targets") && !mistakes_about("sky"))
        TRY(mistakes_keep(params_read_targets(&l)));
    if (!mistakes_about("errors") && !mistakes_about("loop"))
        TRY(mistakes_keep(params_read_motion(&l)));
    if (!mistakes_about("atmosphere.legacy"))
        TRY(mistakes_keep(params_read_atmosphere(&l)));
    if (!mistakes_about("psf"))
        TRY(mistakes_keep(params_read_images(&l)));
    if (mistakes_count() == 0)
        TRY(params_check(&l));
done:
    yaml_tree_free(l.tree);
    return mistakes_end(st);
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
        TRY(comm_agree(c, local)); /* its message, not that a file is missing here */
        if (c->rank != 0)
            local = load(&held, nfile, files, noverride, overrides, par);
        local = comm_agree(c, local);
    }
    st = local;
    if (st == MOAO_OK)
        st = params_read_pupil(c, par);
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
    free(par->pupil.amplitude);
    free_lines(&par->notes);
    free_lines(&par->told);
    free(par->images.lambda);
    free(par->images.width);
    free(par->images.name);
    param_table_free(&params_main_table, par);
    memset(par, 0, sizeof *par);
}

bool params_wants_matrix(const params *par, const char *name) {
    for (int i = 0; i < par->output_matrices.n; i++)
        if (strcmp(par->output_matrices.v[i], name) == 0)
            return true;
    return false;
}
