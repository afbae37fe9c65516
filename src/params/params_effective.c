#define _GNU_SOURCE
#include "base/text.h"
#include "params_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    text out;
    int indent;
    const char *bullet;     /* "- " before the first key of a list's item */
    char group[PARAM_PATH]; /* whose header was written last */
} writer;

static void begin_line(writer *w, int depth) {
    int n = w->indent + 2 * depth;
    size_t used = strlen(w->bullet);
    text_add(&w->out, "%*s%s", n - (int)used, "", w->bullet);
    w->bullet = "";
}

static void add_number(writer *w, const param_field *f, double v) {
    char number[64];
    units_format(v, f->dim, f->unit, number, sizeof number);
    text_add(&w->out, "%s", number);
}

/* Between two items of a list: a line of a table of FITS is not endless. */
static void separate(writer *w) {
    enum { LONGEST_LINE = 2000 };
    const char *line = w->out.s != NULL ? memrchr(w->out.s, '\n', w->out.len) : NULL;
    const size_t used = line != NULL ? (size_t)(w->out.s + w->out.len - line) : w->out.len;
    if (used > LONGEST_LINE)
        text_add(&w->out, ",\n%*s", w->indent + 8, "");
    else
        text_add(&w->out, ", ");
}

static void add_numbers(writer *w, const param_field *f, int n, const double *v) {
    text_add(&w->out, "[");
    for (int i = 0; i < n; i++) {
        if (i > 0)
            separate(w);
        add_number(w, f, v[i]);
    }
    text_add(&w->out, "]");
}

static void add_word(writer *w, const char *words, int i) {
    for (; i > 0; i--)
        words += strcspn(words, "|") + 1;
    text_add(&w->out, "%.*s", (int)strcspn(words, "|"), words);
}

/* Whether the member holds something that a file would state. */
static bool is_set(const param_field *f, const void *p) {
    switch (f->kind) {
    case KIND_text:
    case KIND_file:
        return *(char *const *)p != NULL;
    case KIND_real:
    case KIND_pair:
        return params_given(*(const double *)p);
    case KIND_count:
        return *(const int *)p != 0 || strcmp(f->def[0], "none") != 0;
    case KIND_reals:
        return ((const real_list *)p)->n > 0;
    case KIND_points:
        return ((const point_list *)p)->n > 0;
    case KIND_texts:
    case KIND_files:
        return ((const text_list *)p)->n > 0;
    case KIND_sensor_keys:
        return false;
    default:
        return true;
    }
}

static void add_texts(writer *w, const text_list *v) {
    text_add(&w->out, "[");
    for (int i = 0; i < v->n; i++) {
        if (i > 0)
            separate(w);
        text_add_quoted(&w->out, v->v[i]);
    }
    text_add(&w->out, "]");
}

static void add_points(writer *w, const param_field *f, const point_list *v) {
    for (int i = 0; i < v->n; i++) {
        text_add(&w->out, "\n%*s- ", w->indent + 4, "");
        add_numbers(w, f, 2, v->v[i]);
    }
}

static void add_value(writer *w, const param_field *f, const void *p) {
    const int *whole = p;
    const double *real = p;
    if (f->kind == KIND_text || f->kind == KIND_file)
        text_add_quoted(&w->out, *(char *const *)p);
    else if (f->kind == KIND_flag)
        text_add(&w->out, *(const bool *)p ? "true" : "false");
    else if (f->kind == KIND_choice)
        add_word(w, f->range, *whole);
    else if (f->kind == KIND_count)
        text_add(&w->out, "%d", *whole);
    else if (f->kind == KIND_counts)
        text_add(&w->out, "[%d, %d]", whole[0], whole[1]);
    else if (f->kind == KIND_real)
        add_number(w, f, *real);
    else if (f->kind == KIND_pair)
        add_numbers(w, f, 2, real);
    else if (f->kind == KIND_reals)
        add_numbers(w, f, ((const real_list *)p)->n, ((const real_list *)p)->v);
    else if (f->kind == KIND_words || f->kind == KIND_texts)
        add_texts(w, p);
    else if (f->kind == KIND_points)
        add_points(w, f, p);
}

static int depth_of(const char *group) {
    int depth = *group != '\0';
    for (; *group; group++)
        depth += *group == '_';
    return depth;
}

/* Write the headers of the levels of a group that are not open yet. */
static void open_group(writer *w, const char *group) {
    int depth = 0;
    for (const char *p = group; *p; depth++) {
        size_t n = strcspn(p, "_"), upto = (size_t)(p - group) + n;
        bool open = strncmp(w->group, group, upto) == 0 &&
                    (w->group[upto] == '\0' || w->group[upto] == '_');
        if (!open) {
            begin_line(w, depth);
            text_add(&w->out, "%.*s:\n", (int)n, p);
        }
        p += n + (p[n] == '_');
    }
    snprintf(w->group, sizeof w->group, "%s", group);
}

static void write_table(writer *w, const param_table *t, int type, const void *base);

static void write_items(writer *w, const param_field *f, const param_table *t, int n, size_t size,
                        const char *items) {
    writer item = *w;
    item.indent = w->indent + 2 * depth_of(f->group) + 4;
    text_add(&item.out, "\n");
    for (int i = 0; i < n; i++) {
        const void *base = items + (size_t)i * size;
        int type = t == &params_sensor_table ? ((const sensor_params *)base)->type : 0;
        item.bullet = "- ";
        item.group[0] = '\0';
        write_table(&item, t, type, base);
    }
    w->out = item.out;
}

static bool skipped(const param_field *f, const param_table *t, int type, const void *base) {
    if (strcmp(f->def[type], "-") == 0 || strcmp(f->group, "atmosphere_legacy") == 0)
        return true;
    return t == &params_main_table && strcmp(f->group, "targets_grid") == 0 &&
           ((const params *)base)->targets_grid_nx == 0;
}

static void write_table(writer *w, const param_table *t, int type, const void *base) {
    for (int i = 0; i < t->n; i++) {
        const param_field *f = &t->fields[i];
        const char *p = (const char *)base + f->offset;
        if (skipped(f, t, type, base) || !is_set(f, p))
            continue;
        open_group(w, f->group);
        begin_line(w, depth_of(f->group));
        text_add(&w->out, "%s:%s", f->key,
                 f->kind == KIND_sensors || f->kind == KIND_profiles || f->kind == KIND_points
                     ? ""
                     : " ");
        if (f->kind == KIND_sensors) {
            const sensor_list *v = (const void *)p;
            write_items(w, f, &params_sensor_table, v->n, sizeof *v->v, (const char *)v->v);
            continue;
        }
        if (f->kind == KIND_profiles) {
            const profile_list *v = (const void *)p;
            write_items(w, f, &params_profile_table, v->n, sizeof *v->v, (const char *)v->v);
            continue;
        }
        add_value(w, f, p);
        bool unit = *f->unit && f->kind != KIND_points;
        text_add(&w->out, "%s%s\n", unit ? " # " : "", unit ? f->unit : "");
    }
}

char *params_effective_text(const params *par) {
    writer w = {.bullet = ""};
    text_add(&w.out, "# effective parameters\n");
    write_table(&w, &params_main_table, 0, par);
    if (w.out.failed != MOAO_OK) {
        free(w.out.s);
        return NULL;
    }
    return w.out.s;
}

/* What cannot change results. */
static bool irrelevant(const char *path) {
    return strcmp(path, "title") == 0 || strcmp(path, "output.directory") == 0 ||
           strcmp(path, "output.ranks") == 0 || strcmp(path, "compute") == 0;
}

static const char *short_text(const ynode *node, yaml_tree_quoted *q) {
    if (node == NULL)
        return "not given";
    *q = yaml_tree_quote(node->kind == YAML_TREE_SCALAR ? node->text : "a list or mapping");
    return q->s;
}

static bool report(const ynode *a, const ynode *b, const char *path, char *out, size_t n) {
    yaml_tree_quoted qa, qb;
    if (a != NULL && b != NULL && a->kind == YAML_TREE_LIST && b->kind == YAML_TREE_LIST)
        snprintf(out, n, "%s: %d items before, %d now", path, a->n, b->n);
    else
        snprintf(out, n, "%s: %s before, %s now", path, short_text(a, &qa), short_text(b, &qb));
    return true;
}

/* Depth first; true, with a line in out, at the first difference. */
static bool differ(const ynode *a, const ynode *b, const char *path, char *out, size_t n) {
    char below[PARAM_PATH];
    if (irrelevant(path))
        return false;
    if (a == NULL || b == NULL || a->kind != b->kind)
        return report(a, b, path, out, n);
    if (a->kind == YAML_TREE_SCALAR)
        return strcmp(a->text, b->text) != 0 && report(a, b, path, out, n);
    if (a->kind == YAML_TREE_LIST && a->n != b->n)
        return report(a, b, path, out, n);
    for (int i = 0; i < a->n; i++) {
        if (a->kind == YAML_TREE_MAP)
            param_join(below, path, a->key[i]->text);
        else
            snprintf(below, sizeof below, "%.480s[%d]", path, i);
        const ynode *other =
            a->kind == YAML_TREE_MAP ? yaml_tree_get(b, a->key[i]->text) : b->item[i];
        if (differ(a->item[i], other, below, out, n))
            return true;
    }
    for (int i = 0; a->kind == YAML_TREE_MAP && i < b->n; i++) {
        param_join(below, path, b->key[i]->text);
        if (yaml_tree_get(a, b->key[i]->text) == NULL && differ(NULL, b->item[i], below, out, n))
            return true;
    }
    return false;
}

status params_compare_effective(const char *old_text, const char *new_text, char *difference,
                                size_t n) {
    status st;
    yaml_tree *t = NULL;
    ynode *a, *b;
    snprintf(difference, n, "the parameters kept with the run are not readable");
    TRY(yaml_tree_new(&t));
    TRY(yaml_tree_parse(t, "before", 0, old_text, strlen(old_text), &a));
    TRY(yaml_tree_parse(t, "now", 0, new_text, strlen(new_text), &b));
    if (differ(a, b, "", difference, n))
        st = MOAO_INPUT;
    else
        difference[0] = '\0';
done:
    if (st != MOAO_OK)
        status_clear();
    yaml_tree_free(t);
    return st;
}

/* FNV-1a of a text and the zero at its end. */
static uint64_t hash_text(uint64_t h, const char *text) {
    do
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    while (*text++ != '\0');
    return h;
}

static uint64_t hash_node(uint64_t h, const ynode *node, const char *path) {
    char below[PARAM_PATH];
    if (irrelevant(path))
        return h;
    if (node->kind == YAML_TREE_SCALAR)
        return hash_text(hash_text(h, "="), node->text);
    h = hash_text(h, node->kind == YAML_TREE_MAP ? "{" : "[");
    for (int i = 0; i < node->n; i++) {
        below[0] = '\0';
        if (node->kind == YAML_TREE_MAP) {
            param_join(below, path, node->key[i]->text);
            if (!irrelevant(below))
                h = hash_text(h, node->key[i]->text);
        } else {
            snprintf(below, sizeof below, "%.480s[%d]", path, i);
        }
        h = hash_node(h, node->item[i], below);
    }
    return hash_text(h, "end");
}

status params_fingerprint(const char *effective, uint64_t *fingerprint) {
    status st;
    yaml_tree *t = NULL;
    ynode *root;
    TRY(yaml_tree_new(&t));
    TRY(yaml_tree_parse(t, "effective parameters", 0, effective, strlen(effective), &root));
    *fingerprint = hash_node(0xcbf29ce484222325u, root, "");
done:
    yaml_tree_free(t);
    return st;
}
