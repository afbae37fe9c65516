#include "params_table.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_ITEMS = 1000000, LONGEST_TEXT = 2000, LONGEST_FILE = 4095 }; /* bytes */

static void *member(const param_field *f, void *base) {
    return (char *)base + f->offset;
}

static status fail_value(const param_field *f, const ynode *node, const char *path,
                         const char *wrong) {
    char expected[512];
    param_field_expected(f, expected, sizeof expected);
    if (node->kind != YAML_TREE_SCALAR)
        return yaml_tree_fail(node, path, "%s, expected %s", wrong, expected);
    if (*node->text == '\0')
        return yaml_tree_fail(node, path, "no value, expected %s", expected);
    return yaml_tree_fail(node, path, "'%s' %s, expected %s", yaml_tree_quote(node->text).s, wrong,
                          expected);
}

static status need_scalar(const param_field *f, const ynode *node, const char *path) {
    if (node->kind == YAML_TREE_SCALAR)
        return MOAO_OK;
    return fail_value(f, node, path, node->kind == YAML_TREE_LIST ? "a list" : "a mapping");
}

static status need_list(const param_field *f, const ynode *node, const char *path) {
    if (node->kind == YAML_TREE_LIST && node->n <= MAX_ITEMS)
        return MOAO_OK;
    if (node->kind == YAML_TREE_LIST)
        return fail_value(f, node, path, "too long a list");
    return fail_value(f, node, path, node->kind == YAML_TREE_MAP ? "a mapping" : "is not a list");
}

/* Bounds of the range "[a, b]", "(a, b]"..., in the field's unit; false when it has none. */
static bool bounds(const param_field *f, double v[2]) {
    char low[64], high[64], why[256];
    const char *comma = strchr(f->range, ',');
    if (comma == NULL)
        return false;
    snprintf(low, sizeof low, "%.*s", (int)(comma - f->range - 1), f->range + 1);
    snprintf(high, sizeof high, "%.*s", (int)strlen(comma + 1) - 2, comma + 2);
    v[0] = v[1] = NAN; /* params.def is wrong: nothing lies in such a range */
    units_parse(low, f->dim, f->unit, true, &v[0], why, sizeof why);
    units_parse(high, f->dim, f->unit, true, &v[1], why, sizeof why);
    return true;
}

bool param_in_range(const param_field *f, double v) {
    static const char *range, *unit; /* long lists ask for one field again and again */
    static dimension dim;
    static double bound[2];
    static bool any;
    if (range != f->range || unit != f->unit || dim != f->dim) {
        any = bounds(f, bound);
        range = f->range;
        unit = f->unit;
        dim = f->dim;
    }
    if (!any)
        return true;
    bool above = f->range[0] == '(' ? v > bound[0] : v >= bound[0];
    bool below = f->range[strlen(f->range) - 1] == ')' ? v < bound[1] : v <= bound[1];
    return above && below;
}

status param_real_read(const param_field *f, const ynode *node, const char *path, double *v) {
    char why[512];
    status st;
    TRY(need_scalar(f, node, path));
    if (!units_parse(node->text, f->dim, f->unit, strstr(f->range, "inf") != NULL, v, why,
                     sizeof why))
        return fail_value(f, node, path, why);
    if (f->dim == DIM_BYTES && *v > 0 && *v < 1e6 &&
        node->text[strspn(node->text, "0123456789.")] == '\0')
        return yaml_tree_fail(node, path,
                              "'%s' is %.4g bytes, expected an amount with its unit, such as %s GB",
                              yaml_tree_quote(node->text).s, *v, yaml_tree_quote(node->text).s);
    if (!param_in_range(f, *v))
        return fail_value(f, node, path, "is out of range");
done:
    return st;
}

static status read_count(const param_field *f, const ynode *node, const char *path, int *v) {
    status st;
    char *end;
    TRY(need_scalar(f, node, path));
    const char *s = node->text;
    errno = 0;
    long long x = strtoll(s, &end, 10);
    if (isspace((unsigned char)*s) || end == s || *end != '\0')
        return fail_value(f, node, path, "is not a whole number");
    if (errno == ERANGE || x > INT_MAX || x < INT_MIN || !param_in_range(f, (double)x))
        return fail_value(f, node, path, "is out of range");
    *v = (int)x;
done:
    return st;
}

/* Position of a word among "a|b|c", -1 when it is none; names of matrices differ by case. */
static int find_word(const param_field *f, const char *word) {
    size_t n = strlen(word);
    int i = 0;
    for (const char *p = f->range;; p += strcspn(p, "|") + 1, i++) {
        if (strcspn(p, "|") == n &&
            (f->kind == KIND_choice ? strncasecmp(p, word, n) == 0 : strncmp(p, word, n) == 0))
            return i;
        if (p[strcspn(p, "|")] == '\0')
            return -1;
    }
}

static status read_choice(const param_field *f, const ynode *node, const char *path, int *v) {
    status st;
    TRY(need_scalar(f, node, path));
    int i = find_word(f, node->text);
    if (i < 0)
        return fail_value(f, node, path, "is not known");
    *v = i;
done:
    return st;
}

static status read_flag(const param_field *f, const ynode *node, const char *path, bool *v) {
    status st;
    TRY(need_scalar(f, node, path));
    *v = strcmp(node->text, "true") == 0;
    if (!*v && strcmp(node->text, "false") != 0)
        return fail_value(f, node, path, "is neither");
done:
    return st;
}

/* effective.yaml and the tables of FITS have a text in one line, where a byte may take six. */
static status check_length(const ynode *node, const char *path, const char *v, size_t most) {
    const size_t n = strlen(v);
    return n <= most ? MOAO_OK
                     : yaml_tree_fail(node, path, "%zu bytes long, expected at most %zu", n, most);
}

static status read_text(const param_field *f, const ynode *node, const char *path, char **v) {
    status st;
    TRY(need_scalar(f, node, path));
    TRY(check_length(node, path, node->text, LONGEST_TEXT));
    char *copy = strdup(node->text);
    if (copy == NULL)
        return status_fail(MOAO_MEMORY, "no memory for %s", path);
    for (char *p = copy; *p; p++) /* headers and logs are lines */
        if ((unsigned char)*p < 0x20)
            *p = ' ';
    free(*v);
    *v = copy;
done:
    return st;
}

/* A name relative to the folder of the file that states it. */
static status read_file(const param_field *f, const ynode *node, const char *path, char **v) {
    status st;
    TRY(need_scalar(f, node, path));
    if (*node->text == '\0')
        return fail_value(f, node, path, "");
    const char *slash = strrchr(node->file, '/');
    size_t folder = slash && node->text[0] != '/' ? (size_t)(slash - node->file) + 1 : 0;
    char *name = malloc(folder + strlen(node->text) + 1);
    if (name == NULL)
        return status_fail(MOAO_MEMORY, "no memory for %s", path);
    memcpy(name, node->file, folder);
    strcpy(name + folder, node->text);
    free(*v);
    *v = name;
    st = check_length(node, path, name, LONGEST_FILE);
done:
    return st;
}

static status read_numbers(const param_field *f, const ynode *node, const char *path, int n,
                           double *real, int *count) {
    char item[PARAM_PATH];
    param_field single = *f; /* what is expected of one number */
    single.kind = real ? KIND_real : KIND_count;
    status st;
    TRY(need_list(f, node, path));
    if (node->n != n) {
        snprintf(item, sizeof item, "a list of %d", node->n);
        return fail_value(f, node, path, item);
    }
    for (int i = 0; i < n; i++) {
        snprintf(item, sizeof item, "%.400s[%d]", path, i);
        if (real)
            TRY(param_real_read(&single, node->item[i], item, &real[i]));
        else
            TRY(read_count(&single, node->item[i], item, &count[i]));
    }
done:
    return st;
}

/* A list, or a single number for a list of one. */
static status read_reals(const param_field *f, const ynode *node, const char *path, real_list *v) {
    status st;
    double *values;
    bool single = node->kind == YAML_TREE_SCALAR && *node->text != '\0';
    if (!single)
        TRY(need_list(f, node, path));
    int n = single ? 1 : node->n;
    if (n == 0)
        return fail_value(f, node, path, "an empty list");
    TRY(ALLOC(values, (size_t)n, path));
    free(v->v);
    *v = (real_list){n, values};
    if (single)
        TRY(param_real_read(f, node, path, values));
    else
        TRY(read_numbers(f, node, path, n, values, NULL));
done:
    return st;
}

static void free_texts(text_list *v) {
    for (int i = 0; i < v->n; i++)
        free(v->v[i]);
    free(v->v);
    *v = (text_list){0};
}

static status read_texts(const param_field *f, const ynode *node, const char *path, text_list *v) {
    status st;
    char item[PARAM_PATH];
    TRY(need_list(f, node, path));
    if (node->n == 0 && f->kind != KIND_words)
        return fail_value(f, node, path, "an empty list");
    free_texts(v);
    TRY(ALLOC(v->v, (size_t)node->n, path));
    v->n = node->n;
    for (int i = 0; i < v->n; i++) {
        snprintf(item, sizeof item, "%.400s[%d]", path, i);
        if (f->kind == KIND_files) {
            TRY(read_file(f, node->item[i], item, &v->v[i]));
            continue;
        }
        TRY(need_scalar(f, node->item[i], item));
        if (f->kind == KIND_words && find_word(f, node->item[i]->text) < 0)
            return fail_value(f, node->item[i], item, "is not known");
        TRY(read_text(f, node->item[i], item, &v->v[i]));
    }
done:
    return st;
}

static status read_points(const param_field *f, const ynode *node, const char *path,
                          point_list *v) {
    status st;
    char item[PARAM_PATH];
    double(*values)[2];
    param_field pair = *f;
    pair.kind = KIND_pair;
    TRY(need_list(f, node, path));
    if (node->n == 0)
        return fail_value(f, node, path, "an empty list");
    TRY(ALLOC(values, (size_t)node->n, path));
    free(v->v);
    *v = (point_list){node->n, values};
    for (int i = 0; i < v->n; i++) {
        snprintf(item, sizeof item, "%.400s[%d]", path, i);
        TRY(read_numbers(&pair, node->item[i], item, 2, v->v[i], NULL));
    }
done:
    return st;
}

status param_field_read(const param_field *f, const ynode *node, const char *path, void *base) {
    void *p = member(f, base);
    switch (f->kind) {
    case KIND_text:
        return read_text(f, node, path, p);
    case KIND_file:
        return read_file(f, node, path, p);
    case KIND_flag:
        return read_flag(f, node, path, p);
    case KIND_choice:
        return read_choice(f, node, path, p);
    case KIND_count:
        return read_count(f, node, path, p);
    case KIND_real:
        return param_real_read(f, node, path, p);
    case KIND_pair:
        return read_numbers(f, node, path, 2, p, NULL);
    case KIND_counts:
        return read_numbers(f, node, path, 2, NULL, p);
    case KIND_reals:
        return read_reals(f, node, path, p);
    case KIND_words:
    case KIND_texts:
    case KIND_files:
        return read_texts(f, node, path, p);
    case KIND_points:
        return read_points(f, node, path, p);
    case KIND_sensors:
    case KIND_profiles:
    case KIND_sensor_keys: /* read by params_load */
        break;
    }
    return MOAO_OK;
}

static status read_default(const param_field *f, const char *text, void *base) {
    status st;
    yaml_tree *t = NULL;
    ynode *node;
    ynode scalar = {.kind = YAML_TREE_SCALAR, .file = "params.def", .line = 1, .column = 1};
    scalar.text = text;
    if (*text != '[')
        return param_field_read(f, &scalar, f->key, base);
    TRY(yaml_tree_new(&t));
    TRY(yaml_tree_parse(t, "params.def", 0, text, strlen(text), &node));
    TRY(param_field_read(f, node, f->key, base));
done:
    yaml_tree_free(t);
    return st;
}

status param_table_defaults(const param_table *t, int type, void *base) {
    status st = MOAO_OK;
    for (int i = 0; i < t->n && st == MOAO_OK; i++) {
        const param_field *f = &t->fields[i];
        const char *def = f->def[type];
        double *v = member(f, base);
        bool unset =
            strcmp(def, "none") == 0 || strcmp(def, "required") == 0 || strcmp(def, "-") == 0;
        if (!unset)
            st = read_default(f, def, base);
        else if (f->kind == KIND_real || f->kind == KIND_pair)
            for (int k = 0; k < (f->kind == KIND_pair ? 2 : 1); k++)
                v[k] = NAN;
    }
    return st;
}

void param_table_free(const param_table *t, void *base) {
    for (int i = 0; i < t->n; i++) {
        const param_field *f = &t->fields[i];
        void *p = member(f, base);
        if (f->kind == KIND_text || f->kind == KIND_file) {
            free(*(char **)p);
            *(char **)p = NULL;
        } else if (f->kind == KIND_words || f->kind == KIND_texts || f->kind == KIND_files) {
            free_texts(p);
        } else if (f->kind == KIND_reals) {
            free(((real_list *)p)->v);
            *(real_list *)p = (real_list){0};
        } else if (f->kind == KIND_points) {
            free(((point_list *)p)->v);
            *(point_list *)p = (point_list){0};
        }
    }
}
