/* The list of sensors: rings written out, defaults of the types, names. */
#include "params_load.h"
#include "params_mistakes.h"
#include "system/photometry.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_SENSORS = 1000 };

/* --- names */

/* The name of item i as it will be: its own, or its type and number; "" when it has no type. */
static void item_name(const ynode *list, int i, char *out, size_t n) {
    const ynode *name = yaml_tree_get(list->item[i], "name");
    const ynode *type = yaml_tree_get(list->item[i], "type");
    int number = 0;
    out[0] = '\0';
    if (name != NULL && name->kind == YAML_TREE_SCALAR && *name->text != '\0') {
        snprintf(out, n, "%s", name->text);
        return;
    }
    for (int k = 0; k <= i && type != NULL && type->kind == YAML_TREE_SCALAR; k++) {
        const ynode *other = yaml_tree_get(list->item[k], "type");
        number += other != NULL && other->kind == YAML_TREE_SCALAR &&
                  strcasecmp(other->text, type->text) == 0;
    }
    if (number > 0)
        snprintf(out, n, "%s %d", strcasecmp(type->text, "lgs") == 0 ? "LGS" : "NGS", number);
}

/* Whether a name of len bytes is this one, blanks and case left out. */
static bool same_name(const char *name, size_t len, const char *other) {
    const char *end = name + len;
    for (;; name++, other++) {
        while (name < end && *name == ' ')
            name++;
        while (*other == ' ')
            other++;
        if (name == end || *other == '\0')
            return name == end && *other == '\0';
        if (tolower((unsigned char)*name) != tolower((unsigned char)*other))
            return false;
    }
}

/* The names of all items, separated by commas, as far as there is room. */
static void list_names(const ynode *list, char *out, size_t n) {
    char own[64];
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < list->n; i++) {
        item_name(list, i, own, sizeof own);
        if (*own && used + strlen(own) + 8 < n)
            used += (size_t)snprintf(out + used, n - used, "%s%s", used ? ", " : "", own);
    }
}

int params_find_sensor(const ynode *list, const char *path, const char *name, size_t len, char *why,
                       size_t n) {
    char own[64], names[256] = "";
    int found = -1, loose = -1, nfound = 0, nloose = 0, begun = 0;
    if (strcmp(path, "sensors") != 0 || list->n > MAX_SENSORS) {
        snprintf(why, n, "a key below what is a list in the files, expected [0], [1], ...");
        return -1;
    }
    for (int i = 0; i < list->n; i++) {
        item_name(list, i, own, sizeof own);
        if (strlen(own) == len && strncmp(own, name, len) == 0)
            found = i, nfound++;
        if (same_name(name, len, own))
            loose = i, nloose++;
        begun += strncasecmp(own, name, len) == 0; /* LGS of a ring, whose stars are LGS 1, LGS 2 */
    }
    list_names(list, names, sizeof names);
    if (nfound == 1 || (nfound == 0 && nloose == 1))
        return nfound == 1 ? found : loose;
    if (nfound + nloose > 0)
        snprintf(why, n, "%d sensors have this name, expected an index as [0] or different names",
                 nfound > 0 ? nfound : nloose);
    else
        snprintf(why, n, "no sensor has this name, expected one of %s%s%.*s%s", names,
                 begun > 0 ? ", or " : "", begun > 0 ? (int)len : 0, name, begun > 0 ? "*" : "");
    return -1;
}

/* Small letters without blanks. */
static void fold(const char *s, size_t len, char *out, size_t n) {
    size_t k = 0;
    for (size_t i = 0; i < len && k + 1 < n; i++)
        if (s[i] != ' ')
            out[k++] = (char)tolower((unsigned char)s[i]);
    out[k] = '\0';
}

/* Whether a sensor as it stands in the files has a key: that of its type, of a ring only where
 * there is one. An unknown key counts, and is refused where it is read. */
static bool takes_key(const ynode *item, const char *key) {
    const ynode *type = yaml_tree_get(item, "type");
    const param_field *f = param_table_find(&params_sensor_table, key);
    if (strncmp(key, "ring", 4) == 0 && yaml_tree_get(item, "ring") == NULL)
        return false;
    if (f == NULL || type == NULL || type->kind != YAML_TREE_SCALAR)
        return true;
    return strcmp(f->def[strcasecmp(type->text, "lgs") == 0 ? SENSOR_LGS : SENSOR_NGS], "-") != 0;
}

int params_choose_items(const ynode *list, const char *path, const char *pattern, size_t len,
                        const char *below, bool *chosen, char *why, size_t n) {
    char own[64], name[64], like[64], key[64], names[256];
    const bool sensors = strcmp(path, "sensors") == 0 && list->n <= MAX_SENSORS;
    int nlike = 0, nchosen = 0;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(below + (*below == '.'), "[="),
             below + (*below == '.'));
    fold(pattern, len, like, sizeof like);
    if (!sensors && strcmp(like, "*") != 0) {
        snprintf(why, n, "a list of items without names, expected * or [*] for all of them");
        return 0;
    }
    for (int i = 0; i < list->n; i++) {
        if (sensors)
            item_name(list, i, own, sizeof own);
        fold(own, sensors ? strlen(own) : 0, name, sizeof name);
        const bool named = !sensors || fnmatch(like, name, 0) == 0;
        nlike += named;
        chosen[i] = named && (!sensors || *key == '\0' || takes_key(list->item[i], key));
        nchosen += chosen[i];
    }
    if (nchosen > 0)
        return nchosen;
    if (!sensors || list->n == 0) {
        snprintf(why, n, "a * into an empty list, expected items there");
        return 0;
    }
    list_names(list, names, sizeof names);
    if (nlike > 0)
        snprintf(why, n, "none of these sensors takes %s, expected a key of theirs", key);
    else
        snprintf(why, n, "no sensor has such a name, expected one of %s", names);
    return 0;
}

int params_names_star(const char *override) {
    size_t n = strcspn(override, "=");
    const char *ring = strstr(override, ".ring");
    return strncmp(override, "sensors.", 8) == 0 && !(ring != NULL && ring < override + n);
}

void params_sensor_path(const params_loader *l, int i, const char *key, char out[PARAM_PATH]) {
    snprintf(out, PARAM_PATH, "sensors[%d]%s%s", l->item_of[i], *key ? "." : "", key);
}

/* --- rings */

/* The keys of a ring, checked; 0 stars when the item has none. */
static status read_ring(const ynode *item, const char *path, sensor_params *ring) {
    static const char *const needed[] = {"n", "radius"};
    char full[PARAM_PATH], expected[256];
    ynode *map = yaml_tree_get(item, "ring"), key = {.kind = YAML_TREE_SCALAR, .text = "ring"};
    ynode *keys[1] = {&key}, *items[1] = {map};
    ynode only = {.kind = YAML_TREE_MAP, .n = 1, .item = items, .key = keys};
    status st;
    ring->ring_n = 0;
    if (map == NULL)
        return MOAO_OK;
    TRY(params_check_alternatives(item, "sensors", path));
    ring->ring_angle = 0;
    TRY(param_table_read(&params_sensor_table, SENSOR_NGS, &only, path, ring));
    for (int i = 0; i < 2; i++) {
        if (yaml_tree_get(map, needed[i]) != NULL)
            continue;
        snprintf(full, sizeof full, "ring.%s", needed[i]);
        param_field_expected(param_table_find(&params_sensor_table, full), expected,
                             sizeof expected);
        param_join(full, path, i == 0 ? "ring.n" : "ring.radius");
        return yaml_tree_fail(map, full, "missing, expected %s", expected);
    }
done:
    return st;
}

typedef struct {
    const char *path; /* of the item */
    const sensor_params *ring;
    int k;
} ring_star;

/* cos or sin of a multiple of 90 degrees is 0 or 1, not 6e-17. */
static double without_dust(double v) {
    return fabs(v) < 1e-15 ? 0 : v;
}

/* Of a number that may be a list with one for each star of a ring, that of star k. */
static status pick_value(const ring_star *r, const char *key, ynode **value) {
    const param_field *f = param_table_find(&params_sensor_table, key);
    char full[PARAM_PATH];
    if (f == NULL || f->kind != KIND_real || (*value)->kind != YAML_TREE_LIST)
        return MOAO_OK;
    param_join(full, r->path, key);
    if ((*value)->n != r->ring->ring_n)
        return yaml_tree_fail(*value, full,
                              "a list of %d, expected one value for all or a list of %d, one for "
                              "each star of the ring",
                              (*value)->n, r->ring->ring_n);
    *value = (*value)->item[r->k];
    return MOAO_OK;
}

/* A star of a ring: a copy of the item with a direction, and a number behind its name. */
static status make_star(yaml_tree *t, const ynode *item, const ring_star *r, ynode **star) {
    const sensor_params *ring = r->ring;
    const int k = r->k;
    const ynode *at = yaml_tree_get(item, "ring"), *name = yaml_tree_get(item, "name");
    double angle = ring->ring_angle + 2 * 3.14159265358979323846 * k / ring->ring_n;
    const double xy[2] = {ring->ring_radius * without_dust(cos(angle)),
                          ring->ring_radius * without_dust(sin(angle))};
    char text[64];
    ynode *direction;
    status st;
    int kept = 0;
    TRY(yaml_tree_copy(t, item, star));
    for (int i = 0; i < (*star)->n; i++) {
        const char *key = (*star)->key[i]->text;
        bool named = name != NULL && name->kind == YAML_TREE_SCALAR && *name->text != '\0' &&
                     strcmp(key, "name") == 0;
        if (strcmp(key, "ring") == 0)
            continue;
        (*star)->key[kept] = (*star)->key[i];
        (*star)->item[kept] = (*star)->item[i];
        if (named) {
            snprintf(text, sizeof text, "%.50s %d", name->text, k + 1);
            TRY(yaml_tree_scalar(t, name, text, &(*star)->item[kept]));
        }
        TRY(pick_value(r, key, &(*star)->item[kept]));
        kept++;
    }
    (*star)->n = kept;
    TRY(yaml_tree_alloc(t, (void **)&direction, sizeof *direction));
    *direction = (ynode){.kind = YAML_TREE_LIST, .file = at->file, .line = at->line, .n = 2};
    direction->column = at->column;
    TRY(yaml_tree_alloc(t, (void **)&direction->item, 2 * sizeof *direction->item));
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%.17g rad", xy[i]);
        TRY(yaml_tree_scalar(t, at, text, &direction->item[i]));
    }
    TRY(yaml_tree_add(t, *star, "direction", direction));
done:
    return st;
}

status params_expand_rings(params_loader *l) {
    ynode *list = yaml_tree_get(l->root, "sensors"), **stars;
    char path[PARAM_PATH];
    int *item_of, n = 0;
    status st = MOAO_OK;
    if (list == NULL || list->kind != YAML_TREE_LIST || list->n > MAX_SENSORS)
        return MOAO_OK; /* refused where the list is read */
    TRY(yaml_tree_alloc(l->tree, (void **)&stars, (2 * MAX_SENSORS + 1) * sizeof *stars));
    TRY(yaml_tree_alloc(l->tree, (void **)&item_of, (2 * MAX_SENSORS + 1) * sizeof *item_of));
    for (int i = 0; i < list->n; i++) {
        sensor_params ring = {0};
        snprintf(path, sizeof path, "sensors[%d]", i);
        TRY(mistakes_keep(read_ring(list->item[i], path, &ring)));
        int count = ring.ring_n > 0 ? ring.ring_n : 1;
        if (n + count > MAX_SENSORS)
            return yaml_tree_fail(list->item[i], path, "%d sensors, expected at most %d", n + count,
                                  MAX_SENSORS);
        for (int k = 0; k < count; k++, n++) {
            item_of[n] = i;
            stars[n] = list->item[i];
            const ring_star star = {path, &ring, k};
            if (ring.ring_n > 0)
                TRY(make_star(l->tree, list->item[i], &star, &stars[n]));
        }
    }
    list->item = stars;
    list->n = n;
    l->item_of = item_of;
done:
    return st;
}

/* --- keys */

/* Keys of sensors that all stars of a type share; read once on their own so that mistakes show. */
static status check_sensor_defaults(const ynode *map, int type, const char *path) {
    static const char *const own[] = {"name", "type", "direction", "ring"};
    char full[PARAM_PATH];
    sensor_params scratch = {0};
    status st = MOAO_OK;
    if (map == NULL)
        return MOAO_OK;
    for (int i = 0; i < 4; i++) {
        const ynode *node = yaml_tree_get(map, own[i]);
        param_join(full, path, own[i]);
        if (node != NULL)
            return yaml_tree_fail(node, full, "belongs to one sensor, expected it in sensors");
    }
    TRY(params_check_alternatives(map, path, path));
    TRY(param_table_defaults(&params_sensor_table, type, &scratch));
    TRY(param_table_read(&params_sensor_table, type, map, path, &scratch));
done:
    param_table_free(&params_sensor_table, &scratch);
    return st;
}

/* A rate stands for its frame time: a later source may state either. */
static void resolve_frame(sensor_params *s) {
    if (params_given(s->frame_rate))
        s->frame_time = 1 / s->frame_rate;
    s->frame_rate = NAN;
}

/* Light by its own key goes before a common one of the other kind. */
static void choose_light(const ynode *map, sensor_params *s) {
    const char *const key = s->type == SENSOR_LGS ? "lgs_return" : "magnitude";
    if (yaml_tree_get(map, key) != NULL)
        s->photons = NAN;
}

static status check_light(const ynode *map, const char *path, sensor_params *s) {
    char full[PARAM_PATH];
    double type;
    if (params_given(s->photons))
        s->magnitude = s->lgs_return = NAN;
    if (s->type == SENSOR_LGS)
        return MOAO_OK;
    if (s->spectral_type != NULL && *s->spectral_type != '\0' &&
        !photometry_type(s->spectral_type, &type)) {
        const ynode *at = yaml_tree_get(map, "spectral_type");
        param_join(full, path, "spectral_type");
        return yaml_tree_fail(at != NULL ? at : map, full,
                              "'%.40s' is no main-sequence type, expected " PHOTOMETRY_TYPES,
                              s->spectral_type);
    }
    if (params_given(s->magnitude) || params_given(s->photons) || params_given(s->noise_variance))
        return MOAO_OK;
    param_join(full, path, "magnitude");
    return yaml_tree_fail(map, full, "missing, expected a magnitude or noise_variance, or photons");
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
    const int before = mistakes_count();
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
    resolve_frame(s);
    if (yaml_tree_get(map, "tiptilt_factor") != NULL)
        s->tiptilt_variance = NAN; /* the sensor's own factor goes before a common constant */
    choose_light(map, s);
    TRY(params_check_alternatives(map, "sensors", path));
    TRY(param_table_read(t, kind, map, path, s));
    resolve_frame(s);
    TRY(param_table_require(t, kind, map, defaults, path));
    if (mistakes_count() == before)
        st = check_light(map, path, s);
done:
    return st;
}

status params_read_sensors(params_loader *l) {
    char path[PARAM_PATH];
    int number[2] = {0, 0};
    params *par = l->par;
    status st;
    const ynode *list = yaml_tree_get(l->root, "sensors");
    const ynode *ngs = yaml_tree_get(l->root, "ngs_defaults");
    const ynode *lgs = yaml_tree_get(l->root, "lgs_defaults");
    TRY(mistakes_keep(check_sensor_defaults(ngs, SENSOR_NGS, "ngs_defaults")));
    TRY(mistakes_keep(check_sensor_defaults(lgs, SENSOR_LGS, "lgs_defaults")));
    if (list == NULL)
        return MOAO_OK; /* told as missing */
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
        params_sensor_path(l, i, "", path);
        TRY(mistakes_keep(read_sensor(l, list->item[i], path, s)));
        TRY(mistakes_keep(name_sensor(list->item[i], path, ++number[s->type == SENSOR_LGS], s)));
    }
done:
    return st;
}
