#include "yaml_tree.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_TEXT = 512 };

ynode *yaml_tree_get(const ynode *map, const char *key) {
    if (map == NULL || map->kind != YAML_TREE_MAP)
        return NULL;
    for (int i = 0; i < map->n; i++)
        if (strcmp(map->key[i]->text, key) == 0)
            return map->item[i];
    return NULL;
}

static void join_path(char *out, const char *path, const char *key) {
    snprintf(out, PATH_TEXT, "%.250s%s%.250s", path, *path ? "." : "", key);
}

static void drop_excluded(ynode *map, const char *key, const char *path,
                          yaml_tree_excludes excludes) {
    int kept = 0;
    for (int i = 0; i < map->n; i++) {
        if (excludes(path, key, map->key[i]->text))
            continue;
        map->key[kept] = map->key[i];
        map->item[kept++] = map->item[i];
    }
    map->n = kept;
}

static status add_key(yaml_tree *t, ynode *map, ynode *key, ynode *value) {
    status st;
    ynode **items, **keys;
    size_t n = (size_t)map->n;
    TRY(yaml_tree_alloc(t, (void **)&items, (n + 1) * sizeof *items));
    TRY(yaml_tree_alloc(t, (void **)&keys, (n + 1) * sizeof *keys));
    if (n > 0) {
        memcpy(items, map->item, n * sizeof *items);
        memcpy(keys, map->key, n * sizeof *keys);
    }
    items[n] = value;
    keys[n] = key;
    map->item = items;
    map->key = keys;
    map->n++;
done:
    return st;
}

static int find_key(const ynode *map, const char *key) {
    for (int i = 0; i < map->n; i++)
        if (strcmp(map->key[i]->text, key) == 0)
            return i;
    return -1;
}

/* Set one key of a map: merge two maps, replace anything else. */
static status put(yaml_tree *t, ynode *base, ynode *key, ynode *value, const char *path,
                  yaml_tree_excludes excludes) {
    char below[PATH_TEXT];
    int i = find_key(base, key->text);
    if (i < 0)
        return add_key(t, base, key, value);
    if (base->item[i]->kind == YAML_TREE_MAP && value->kind == YAML_TREE_MAP) {
        join_path(below, path, key->text);
        return yaml_tree_merge(t, base->item[i], value, below, excludes);
    }
    base->key[i] = key;
    base->item[i] = value;
    return MOAO_OK;
}

status yaml_tree_merge(yaml_tree *t, ynode *base, const ynode *over, const char *path,
                       yaml_tree_excludes excludes) {
    status st = MOAO_OK;
    for (int i = 0; i < over->n; i++)
        drop_excluded(base, over->key[i]->text, path, excludes);
    for (int i = 0; i < over->n && st == MOAO_OK; i++)
        st = put(t, base, over->key[i], over->item[i], path, excludes);
    return st;
}

status yaml_tree_scalar(yaml_tree *t, const ynode *at, const char *text, ynode **out) {
    void *copy;
    status st;
    TRY(yaml_tree_alloc(t, (void **)out, sizeof **out));
    TRY(yaml_tree_alloc(t, &copy, strlen(text) + 1));
    strcpy(copy, text);
    **out = (ynode){.kind = YAML_TREE_SCALAR, .file = at->file, .line = at->line};
    (*out)->column = at->column;
    (*out)->text = copy;
done:
    return st;
}

status yaml_tree_add(yaml_tree *t, ynode *map, const char *key, ynode *value) {
    ynode *node;
    status st;
    TRY(yaml_tree_scalar(t, value, key, &node));
    TRY(add_key(t, map, node, value));
done:
    return st;
}

status yaml_tree_copy(yaml_tree *t, const ynode *from, ynode **to) {
    status st;
    size_t bytes = (size_t)from->n * sizeof *from->item;
    TRY(yaml_tree_alloc(t, (void **)to, sizeof **to));
    **to = *from; /* texts are never changed, and may be shared */
    if (from->kind == YAML_TREE_SCALAR)
        goto done;
    TRY(yaml_tree_alloc(t, (void **)&(*to)->item, bytes));
    if (from->kind == YAML_TREE_MAP) {
        TRY(yaml_tree_alloc(t, (void **)&(*to)->key, bytes));
        memcpy((*to)->key, from->key, bytes);
    }
    for (int i = 0; i < from->n; i++)
        TRY(yaml_tree_copy(t, from->item[i], &(*to)->item[i]));
done:
    return st;
}

typedef struct { /* one key=value being applied */
    yaml_tree *tree;
    const char *text;      /* whole */
    size_t pos;            /* in text */
    char whole[PATH_TEXT]; /* the key as given, for messages */
    char path[PATH_TEXT];  /* so far, without indices */
    yaml_tree_rules rules;
} override;

static status fail_here(const override *o, const char *what) {
    return yaml_tree_fail_at("command line", 1, (int)o->pos + 1, o->whole, "%s", what);
}

/* A map or scalar node that stands at the current place of the command line. */
static status new_node(const override *o, yaml_tree_kind kind, const char *text, size_t len,
                       ynode **out) {
    status st;
    void *copy = NULL;
    TRY(yaml_tree_alloc(o->tree, (void **)out, sizeof **out));
    TRY(yaml_tree_alloc(o->tree, &copy, len + 1));
    memcpy(copy, text, len);
    **out = (ynode){.kind = kind, .file = "command line", .line = 1, .column = (int)o->pos + 1};
    (*out)->text = copy;
done:
    return st;
}

/* Read [index] and step into that item of the list *slot. */
static status step_index(override *o, ynode ***slot) {
    char *end, why[96];
    long index = strtol(o->text + o->pos + 1, &end, 10);
    if (!isdigit((unsigned char)o->text[o->pos + 1]) || *end != ']')
        return fail_here(o, "not an index, expected [0], [1], ...");
    ynode *list = **slot;
    if (list == NULL || list->kind != YAML_TREE_LIST)
        return fail_here(o, "an index into what is no list in the files, expected a list there");
    if (index >= list->n) {
        snprintf(why, sizeof why, "index %ld out of range, expected 0 to %d", index, list->n - 1);
        return fail_here(o, why);
    }
    o->pos = (size_t)(end + 1 - o->text);
    *slot = &list->item[index];
    return MOAO_OK;
}

/* Read the name of an item and step into it. */
static status step_name(override *o, ynode ***slot) {
    char why[512];
    const char *name = o->text + o->pos;
    size_t len = strcspn(name, ".[=");
    int i = len == 0 ? -1 : o->rules.named(**slot, o->path, name, len, why, sizeof why);
    if (i < 0)
        return fail_here(o, len == 0 ? "no name, expected that of an item" : why);
    *slot = &(**slot)->item[i];
    o->pos += len;
    return MOAO_OK;
}

/* Read a name and step into that key of the map *slot, made when absent; *slot then points to the
 * value, which is NULL for a new key. */
static status step_key(override *o, ynode ***slot) {
    status st;
    ynode *key;
    size_t len = 0;
    const char *name = o->text + o->pos;
    if (**slot != NULL && (**slot)->kind == YAML_TREE_LIST)
        return step_name(o, slot);
    while (isalnum((unsigned char)name[len]) || name[len] == '_')
        len++;
    if (len == 0 || len > 100)
        return fail_here(o, "not a key, expected key=value with a key such as sensors[0].nssp");
    if (**slot == NULL)
        TRY(new_node(o, YAML_TREE_MAP, "", 0, *slot));
    ynode *map = **slot;
    if (map->kind != YAML_TREE_MAP)
        return fail_here(o, "a key below what is no mapping in the files, expected one there");
    TRY(new_node(o, YAML_TREE_SCALAR, name, len, &key));
    drop_excluded(map, key->text, o->path, o->rules.excludes);
    if (find_key(map, key->text) < 0)
        TRY(add_key(o->tree, map, key, NULL));
    *slot = &map->item[find_key(map, key->text)];
    char below[PATH_TEXT];
    join_path(below, o->path, key->text);
    memcpy(o->path, below, sizeof below);
    o->pos += len;
done:
    return st;
}

/* Bytes of "[*]" or of ".name" with a * in it at the current place; 0: something else is there. */
static size_t star_length(const override *o) {
    const char *at = o->text + o->pos;
    if (strncmp(at, "[*]", 3) == 0)
        return 3;
    size_t len = *at == '.' ? 1 + strcspn(at + 1, ".[=") : 0;
    return memchr(at, '*', len) != NULL ? len : 0;
}

/* Parse the value behind '=' and put it at *slot. */
static status set_value(override *o, ynode **slot) {
    const size_t start = o->pos + 1;
    const char *value = o->text + start;
    ynode *node;
    if (value[strspn(value, " \t")] == '\0')
        return fail_here(o, "no value, expected key=value");
    status st = yaml_tree_parse(o->tree, "command line", (int)start, value, strlen(value), &node);
    if (st == MOAO_INPUT) { /* say in which argument */
        char why[1024];
        snprintf(why, sizeof why, "%s", status_message());
        status_clear();
        return status_fail(st, "%s in %s=", why, o->whole);
    }
    if (st != MOAO_OK)
        return st;
    if (*slot != NULL && (*slot)->kind == YAML_TREE_MAP && node->kind == YAML_TREE_MAP)
        return yaml_tree_merge(o->tree, *slot, node, o->path, o->rules.excludes);
    *slot = node;
    return MOAO_OK;
}

/* Follow the key from the current place below *slot, and set the value at its end: in every chosen
 * item of a list where the key has a *. */
static status descend(override *o, ynode **slot) {
    char why[512];
    bool *chosen = NULL;
    size_t star = 0;
    status st;
    while (o->text[o->pos] != '=' && (star = star_length(o)) == 0) {
        const char c = o->text[o->pos];
        if (o->pos > 0 && c == '[') {
            TRY(step_index(o, &slot));
            continue;
        }
        if (o->pos > 0 && c != '.')
            return fail_here(o, "not part of a key, expected key=value");
        o->pos += o->pos > 0;
        TRY(step_key(o, &slot));
    }
    if (star == 0)
        return set_value(o, slot);
    ynode *list = *slot;
    if (list == NULL || list->kind != YAML_TREE_LIST)
        return fail_here(o, "a * below what is no list in the files, expected a list there");
    TRY(yaml_tree_alloc(o->tree, (void **)&chosen, (size_t)list->n * sizeof *chosen));
    const char *pattern = o->text + o->pos + 1;
    const size_t len = o->text[o->pos] == '[' ? 1 : star - 1;
    if (o->rules.choose(list, o->path, pattern, len, o->text + o->pos + star, chosen, why,
                        sizeof why) == 0)
        return fail_here(o, why);
    for (int i = 0; i < list->n; i++) {
        override one = *o;
        one.pos += star;
        if (chosen[i])
            TRY(descend(&one, &list->item[i]));
    }
done:
    return st;
}

/* Take out keys that were made for a value that did not come. */
static void drop_unset(ynode *node) {
    int kept = 0;
    for (int i = 0; node->kind != YAML_TREE_SCALAR && i < node->n; i++) {
        if (node->item[i] == NULL)
            continue;
        drop_unset(node->item[i]);
        node->item[kept] = node->item[i];
        if (node->kind == YAML_TREE_MAP)
            node->key[kept] = node->key[i];
        kept++;
    }
    node->n = node->kind == YAML_TREE_SCALAR ? node->n : kept;
}

status yaml_tree_override(yaml_tree *t, ynode *root, const char *text, yaml_tree_rules rules) {
    override o = {.tree = t, .text = text, .rules = rules};
    const char *equal = strchr(text, '=');
    snprintf(o.whole, sizeof o.whole, "%s", yaml_tree_quote(text).s);
    if (equal == NULL)
        return fail_here(&o, "no '=' in it, expected key=value");
    const size_t n = (size_t)(equal - text);
    if (n < 44)
        o.whole[n] = '\0';
    if (n == 0)
        return yaml_tree_fail_at("command line", 1, 1, "syntax",
                                 "no key before '=', expected key=value");
    status st = descend(&o, &root);
    if (st == MOAO_INPUT) /* others are read all the same */
        drop_unset(root);
    return st;
}
