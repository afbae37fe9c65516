/* A YAML text as a tree whose every node knows its place, so that each mistake can be told with
 * file, line and column. libyaml does the syntax; duplicate keys, several documents and runaway
 * nesting are refused here. All functions are local. Errors are MOAO_INPUT, one line
 * "file:line:column: key: what is wrong". */
#ifndef MOAO_YAML_TREE_H
#define MOAO_YAML_TREE_H

#include "moao/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum { YAML_TREE_SCALAR, YAML_TREE_LIST, YAML_TREE_MAP } yaml_tree_kind;

typedef struct ynode {
    yaml_tree_kind kind;
    const char *file;
    int line, column;    /* from 1 */
    const char *text;    /* scalar */
    int n;               /* list, map: number of children */
    struct ynode **item; /* [n] list: items; map: values */
    struct ynode **key;  /* [n] map: scalars */
} ynode;

enum { YAML_TREE_MAX_NODES = 1000 * 1000 }; /* values, keys included, that a tree may have */

typedef struct yaml_tree yaml_tree; /* owns the nodes of any number of texts */

status yaml_tree_new(yaml_tree **t);
void yaml_tree_free(yaml_tree *t);

/* Zeroed memory that lives as long as the tree. */
status yaml_tree_alloc(yaml_tree *t, void **p, size_t bytes);

/* Parse one document. `file` is copied; column0 is added to the columns of the first line. */
status yaml_tree_parse(yaml_tree *t, const char *file, int column0, const char *text, size_t len,
                       ynode **root);

/* Value of a key of a map (borrowed), NULL when absent or when `map` is no map. */
ynode *yaml_tree_get(const ynode *map, const char *key);

/* True when `a` and `b` are alternatives in the mapping at `path` (without indices of lists): a
 * later source that sets one drops the other. */
typedef bool (*yaml_tree_excludes)(const char *path, const char *a, const char *b);

/* Put `over` on top of `base`: mappings merge, anything else replaces. Both are maps. */
status yaml_tree_merge(yaml_tree *t, ynode *base, const ynode *over, const char *path,
                       yaml_tree_excludes excludes);

/* Number of the item of the list at `path` (without indices) that is called `name`, of len bytes;
 * -1, with what is wrong and expected in `why`, when there is not exactly one. */
typedef int (*yaml_tree_named)(const ynode *list, const char *path, const char *name, size_t len,
                               char *why, size_t n);

/* Choose the items of the list at `path` that a pattern with a * of len bytes stands for, where
 * `below` is the rest of the key: chosen[list->n], zero before. Returns their number; 0 with what
 * is wrong and expected in `why`. */
typedef int (*yaml_tree_choose)(const ynode *list, const char *path, const char *pattern,
                                size_t len, const char *below, bool *chosen, char *why, size_t n);

typedef struct {
    yaml_tree_excludes excludes;
    yaml_tree_named named;
    yaml_tree_choose choose;
} yaml_tree_rules;

/* Apply "key=value" to the map `root`: key is a dotted path with [index] or the name of an item
 * into lists, [*] or a name with a * for several items, the value is YAML. Mistakes are told as
 * "command line:1:column: ...". */
status yaml_tree_override(yaml_tree *t, ynode *root, const char *text, yaml_tree_rules rules);

/* A copy that shares nothing with the original; and one more key of a mapping. */
status yaml_tree_copy(yaml_tree *t, const ynode *from, ynode **to);
status yaml_tree_add(yaml_tree *t, ynode *map, const char *key, ynode *value);
/* A scalar that stands where another node does. */
status yaml_tree_scalar(yaml_tree *t, const ynode *at, const char *text, ynode **out);

/* Record a mistake at a node (NULL: no place known) about the key `path`; returns MOAO_INPUT. */
status yaml_tree_fail(const ynode *at, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same at a place that is no node. */
status yaml_tree_fail_at(const char *file, int line, int column, const char *path, const char *fmt,
                         ...) __attribute__((format(printf, 5, 6)));

/* A text for messages: on one line, cut to some 40 characters. */
typedef struct {
    char s[64];
} yaml_tree_quoted;
yaml_tree_quoted yaml_tree_quote(const char *text);

#endif
