#include "params_table.h"

#include "params_mistakes.h"
#include "params_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const param_field main_fields[] = {
#define TOP(key, kind, dim, unit, def, range, sentence)                                            \
    {"", #key, KIND_##kind, DIM_##dim, unit, {def, def}, range, sentence, offsetof(params, key)},
#define IN(group, key, kind, dim, unit, def, range, sentence)                                      \
    {#group,    #key,     KIND_##kind,                                                             \
     DIM_##dim, unit,     {def, def},                                                              \
     range,     sentence, offsetof(params, group##_##key)},
#include "params.def"
};

static const param_field sensor_fields[] = {
#define SENSOR(key, kind, dim, unit, ngs, lgs, range, sentence)                                    \
    {"",        #key,     KIND_##kind,                                                             \
     DIM_##dim, unit,     {ngs, lgs},                                                              \
     range,     sentence, offsetof(sensor_params, key)},
#define SENSOR_IN(group, key, kind, dim, unit, def, range, sentence)                               \
    {#group,    #key,     KIND_##kind,                                                             \
     DIM_##dim, unit,     {def, def},                                                              \
     range,     sentence, offsetof(sensor_params, group##_##key)},
#include "params.def"
};

static const param_field profile_fields[] = {
#define PROFILE_TOP(key, kind, dim, unit, def, range, sentence)                                    \
    {"",        #key,     KIND_##kind,                                                             \
     DIM_##dim, unit,     {def, def},                                                              \
     range,     sentence, offsetof(profile_params, key)},
#define PROFILE_IN(group, key, kind, dim, unit, def, range, sentence)                              \
    {#group,    #key,     KIND_##kind,                                                             \
     DIM_##dim, unit,     {def, def},                                                              \
     range,     sentence, offsetof(profile_params, group##_##key)},
#include "params.def"
};

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))
const param_table params_main_table = {"the parameters", COUNT(main_fields), main_fields};
const param_table params_sensor_table = {"a sensor", COUNT(sensor_fields), sensor_fields};
const param_table params_profile_table = {"a profile", COUNT(profile_fields), profile_fields};

void param_field_path(const param_field *f, char out[PARAM_PATH]) {
    int n = snprintf(out, PARAM_PATH, "%s", f->group);
    for (char *p = out; *p; p++)
        if (*p == '_')
            *p = '.';
    snprintf(out + n, PARAM_PATH - (size_t)n, "%s%s", n ? "." : "", f->key);
}

void param_join(char out[PARAM_PATH], const char *path, const char *key) {
    snprintf(out, PARAM_PATH, "%.250s%s%.250s", path, *path ? "." : "", key);
}

/* How many characters of a path agree with a field's group, written with dots. Every key of a file
 * is compared with most fields of a table: their paths are not written for it. */
static size_t agreement(const param_field *f, const char *path) {
    size_t k = 0;
    while (f->group[k] && path[k] == (f->group[k] == '_' ? '.' : f->group[k]))
        k++;
    return k;
}

const param_field *param_table_find(const param_table *t, const char *path) {
    for (int i = 0; i < t->n; i++) {
        const param_field *f = &t->fields[i];
        size_t k = agreement(f, path);
        bool in_group = f->group[k] == '\0' && (k == 0 || path[k] == '.');
        if (in_group && strcmp(path + k + (k > 0), f->key) == 0)
            return f;
    }
    return NULL;
}

bool param_table_has_group(const param_table *t, const char *path) {
    size_t n = strlen(path);
    for (int i = 0; i < t->n && n > 0; i++) {
        size_t k = agreement(&t->fields[i], path);
        if (k == n && (t->fields[i].group[k] == '\0' || t->fields[i].group[k] == '_'))
            return true;
    }
    return false;
}

void param_range_words(const char *words, char *out, size_t n) {
    size_t used = 0;
    for (const char *p = words; *p && used + 3 < n; p++) {
        if (*p == '|') {
            out[used++] = ',';
            out[used++] = ' ';
        } else {
            out[used++] = *p;
        }
    }
    out[used] = '\0';
}

/* "a length in m, (0, 200]" */
static void expected_number(const param_field *f, char *out, size_t n) {
    bool whole = f->kind == KIND_count || f->kind == KIND_counts;
    const char *open = f->range;
    snprintf(out, n, "%s%s%s in %s%s", whole ? "a whole number" : units_dimension_name(f->dim),
             *f->unit ? " in " : "", f->unit, open,
             f->dim == DIM_WAVELENGTH ? ", or a band such as H" : "");
}

void param_field_expected(const param_field *f, char *out, size_t n) {
    char words[256], number[256];
    param_range_words(f->range, words, sizeof words);
    expected_number(f, number, sizeof number);
    switch (f->kind) {
    case KIND_text:
        snprintf(out, n, "text");
        break;
    case KIND_file:
        snprintf(out, n, "the name of a file");
        break;
    case KIND_flag:
        snprintf(out, n, "true or false");
        break;
    case KIND_choice:
        snprintf(out, n, "one of %s", words);
        break;
    case KIND_count:
    case KIND_real:
        snprintf(out, n, "%s", number);
        break;
    case KIND_pair:
    case KIND_counts:
        snprintf(out, n, "a list of two, each %s", number);
        break;
    case KIND_reals:
        snprintf(out, n, "a list, each %s", number);
        break;
    case KIND_words:
        snprintf(out, n, "a list of words among %s", words);
        break;
    case KIND_texts:
        snprintf(out, n, "a list of texts");
        break;
    case KIND_files:
        snprintf(out, n, "a list of names of files");
        break;
    case KIND_points:
        snprintf(out, n, "a list of [x, y], each %s", number);
        break;
    case KIND_sensors:
        snprintf(out, n, "a list of sensors");
        break;
    case KIND_profiles:
        snprintf(out, n, "a list of profiles");
        break;
    case KIND_sensor_keys:
        snprintf(out, n, "a mapping with keys of a sensor");
        break;
    }
}

/* Levenshtein distance of two short words; long ones count as far apart. */
static int edit_distance(const char *a, const char *b) {
    int row[65];
    size_t na = strlen(a), nb = strlen(b);
    if (na > 64 || nb > 64)
        return 1000;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int up = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            if (up + 1 < best)
                best = up + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = up;
            row[j] = best;
        }
    }
    return row[nb];
}

/* The part of a field's path right below a group: "telescope" below "", "nx" below "targets.grid".
 */
static bool next_level(const param_field *f, const char *group, char out[PARAM_PATH]) {
    char path[PARAM_PATH];
    size_t n = strlen(group);
    param_field_path(f, path);
    if (n > 0 && (strncmp(path, group, n) != 0 || path[n] != '.'))
        return false;
    snprintf(out, PARAM_PATH, "%s", path + n + (n > 0));
    out[strcspn(out, ".")] = '\0';
    return true;
}

void param_table_suggest(const param_table *t, const char *group, const char *key, char *out,
                         size_t n) {
    char level[PARAM_PATH], nearest[PARAM_PATH] = "", list[PARAM_PATH] = "", last[PARAM_PATH] = "";
    int best = (int)strlen(key) / 3 + 2, length = 0;
    params_word_hint(t, key, out, n);
    if (*out != '\0')
        return;
    for (int i = 0; i < t->n; i++) {
        if (strcmp(t->fields[i].key, key) == 0 && best > 1) {
            param_field_path(&t->fields[i], nearest); /* right name, elsewhere: the first */
            best = 1;
        }
        if (!next_level(&t->fields[i], group, level))
            continue;
        int d = edit_distance(level, key);
        if (d < best) {
            best = d;
            snprintf(nearest, sizeof nearest, "%s", level);
        }
        if (strcmp(level, last) != 0 && length < PARAM_PATH - 64)
            length += snprintf(list + length, sizeof list - (size_t)length, "%s%s",
                               length ? ", " : "", level);
        memcpy(last, level, sizeof last);
    }
    if (*nearest)
        snprintf(out, n, "did you mean %s?", nearest);
    else
        snprintf(out, n, "expected one of %s", list);
}

const ynode *param_node(const ynode *map, const char *path) {
    char part[PARAM_PATH];
    while (map != NULL && *path) {
        size_t n = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        map = yaml_tree_get(map, part);
        path += n + (path[n] == '.');
    }
    return map;
}

status param_table_require(const param_table *t, int type, const ynode *map, const ynode *defaults,
                           const char *prefix) {
    char path[PARAM_PATH], group[PARAM_PATH], full[PARAM_PATH], expected[512], hint[128];
    char whole[PARAM_PATH + 16];
    status st = MOAO_OK;
    for (int i = 0; i < t->n; i++) {
        const param_field *f = &t->fields[i];
        param_field_path(f, path);
        if (strcmp(f->def[type], "required") != 0 || param_node(map, path) != NULL ||
            param_node(defaults, path) != NULL)
            continue;
        snprintf(group, sizeof group, "%s", path);
        char *dot = strrchr(group, '.');
        *(dot ? dot : group) = '\0';
        const ynode *at = param_node(map, group);
        snprintf(hint, sizeof hint, "did you mean %s?", f->key);
        snprintf(whole, sizeof whole, "did you mean %s?", path);
        if (mistakes_mention(hint) || mistakes_mention(whole))
            continue; /* told as an unknown key */
        param_field_expected(f, expected, sizeof expected);
        param_join(full, prefix, path);
        st = mistakes_keep(yaml_tree_fail(at ? at : map, full, "missing, expected %s", expected));
        if (st != MOAO_OK)
            break;
    }
    return st;
}

static status read_key(const param_table *t, int type, const ynode *key, const ynode *value,
                       const char *group, const char *where, void *base);

static status read_map(const param_table *t, int type, const ynode *map, const char *group,
                       const char *where, void *base) {
    status st = MOAO_OK;
    if (map->kind != YAML_TREE_MAP)
        return yaml_tree_fail(map, *where ? where : "syntax",
                              "not a mapping, expected key: value lines with keys of %s", t->name);
    for (int i = 0; i < map->n && st == MOAO_OK; i++)
        st = mistakes_keep(read_key(t, type, map->key[i], map->item[i], group, where, base));
    return st;
}

static status read_key(const param_table *t, int type, const ynode *key, const ynode *value,
                       const char *group, const char *where, void *base) {
    char path[PARAM_PATH], full[PARAM_PATH], hint[PARAM_PATH + 64];
    yaml_tree_quoted name = yaml_tree_quote(key->text);
    param_join(path, group, name.s);
    param_join(full, where, name.s);
    const param_field *f = param_table_find(t, path);
    if (f == NULL && param_table_has_group(t, path))
        return read_map(t, type, value, path, full, base);
    if (f == NULL) {
        bool was;
        const status st = params_read_removed(t, path, full, value, base, &was);
        if (was)
            return st;
        param_table_suggest(t, group, name.s, hint, sizeof hint);
        return yaml_tree_fail(key, full, "unknown key, %s", hint);
    }
    if (strcmp(f->def[type], "-") == 0)
        return yaml_tree_fail(key, full, "does not apply to %s guide star, expected no such key",
                              type == SENSOR_LGS ? "a laser" : "a natural");
    return param_field_read(f, value, full, base);
}

status param_table_read(const param_table *t, int type, const ynode *map, const char *path,
                        void *base) {
    return read_map(t, type, map, "", path, base);
}
