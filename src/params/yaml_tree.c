#include "yaml_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_DEPTH = 32, MAX_NODES = YAML_TREE_MAX_NODES, MAX_ANCHORS = 1000, MAX_KEYS = 1000 };

/* Nodes and short texts share blocks: one allocation for each would cost more than they do. */
enum { BLOCK = 1 << 16, LARGE = BLOCK / 8 };

typedef struct block {
    struct block *next;
    size_t used; /* of the bytes behind the header */
} block;

struct yaml_tree {
    block *blocks;
    long nodes;
};

status yaml_tree_new(yaml_tree **t) {
    return ALLOC(*t, 1, "parameter tree");
}

void yaml_tree_free(yaml_tree *t) {
    if (t == NULL)
        return;
    for (block *b = t->blocks; b != NULL;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    free(t);
}

status yaml_tree_alloc(yaml_tree *t, void **p, size_t bytes) {
    const size_t align = sizeof(max_align_t), header = (sizeof(block) + align - 1) / align * align;
    block *b = t->blocks;
    *p = NULL;
    bytes = (bytes + align - 1) / align * align;
    bool large = bytes > LARGE;
    if (large || b == NULL || b->used + bytes > BLOCK) {
        b = calloc(1, header + (large ? bytes : BLOCK));
        if (b == NULL)
            return status_fail(MOAO_MEMORY, "no memory for the parameter tree");
        b->next = t->blocks;
        t->blocks = b;
        if (large)
            b->used = BLOCK; /* nothing else fits */
    }
    if (large) {
        *p = (char *)b + header;
        return MOAO_OK;
    }
    *p = (char *)b + header + b->used;
    b->used += bytes;
    return MOAO_OK;
}

static status tree_text(yaml_tree *t, const char *text, size_t len, const char **copy) {
    void *p;
    status st = yaml_tree_alloc(t, &p, len + 1);
    if (st == MOAO_OK)
        memcpy(p, text, len);
    *copy = p;
    return st;
}

/* Replace what a terminal would obey: C0, DEL, and C1 in UTF-8 (C2 80 to C2 9F). */
static void without_controls(char *s, char by) {
    for (unsigned char *p = (unsigned char *)s; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = (unsigned char)by;
        else if (*p == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0)
            p[0] = p[1] = (unsigned char)by;
}

yaml_tree_quoted yaml_tree_quote(const char *text) {
    yaml_tree_quoted q;
    size_t limit = 44, n = strlen(text), i;
    bool cut = n > limit;
    if (cut)
        for (n = limit; n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80;)
            n--;
    memcpy(q.s, text, n);
    q.s[n] = '\0';
    without_controls(q.s, '?');
    i = n;
    memcpy(q.s + i, cut ? "..." : "", cut ? 4 : 1);
    return q;
}

static status fail_va(const char *file, int line, int column, const char *path, const char *fmt,
                      va_list ap) {
    char text[1536];
    vsnprintf(text, sizeof text, fmt, ap);
    without_controls(text, ' ');
    return status_fail(MOAO_INPUT, "%s:%d:%d: %s: %s", file, line, column, path, text);
}

status yaml_tree_fail(const ynode *at, const char *path, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    status st = fail_va(at ? at->file : "parameters", at ? at->line : 1, at ? at->column : 1, path,
                        fmt, ap);
    va_end(ap);
    return st;
}

status yaml_tree_fail_at(const char *file, int line, int column, const char *path, const char *fmt,
                         ...) {
    va_list ap;
    va_start(ap, fmt);
    status st = fail_va(file, line, column, path, fmt, ap);
    va_end(ap);
    return st;
}

typedef struct { /* one parse */
    yaml_tree *tree;
    yaml_document_t doc;
    const char *file;
    int column0;
} reader;

static void place(const reader *r, yaml_mark_t mark, ynode *node) {
    node->file = r->file;
    node->line = (int)mark.line + 1;
    node->column = (int)mark.column + 1 + (mark.line == 0 ? r->column0 : 0);
}

static status fail_depth(const ynode *at) {
    return yaml_tree_fail(at, "syntax", "nested deeper than %d levels, expected at most 6",
                          MAX_DEPTH);
}

static status fail_values(const ynode *at) {
    return yaml_tree_fail(at, "syntax", "more than %d values, expected fewer", MAX_NODES);
}

static status build(reader *r, int index, int depth, ynode **out);

static status build_scalar(reader *r, const yaml_node_t *y, ynode *node) {
    const char *text = (const char *)y->data.scalar.value;
    size_t len = y->data.scalar.length;
    if (memchr(text, '\0', len) != NULL)
        return yaml_tree_fail(node, "syntax", "a NUL character, expected text");
    return tree_text(r->tree, text, len, &node->text);
}

static status build_list(reader *r, const yaml_node_t *y, int depth, ynode *node) {
    yaml_node_item_t *first = y->data.sequence.items.start;
    node->kind = YAML_TREE_LIST;
    node->n = (int)(y->data.sequence.items.top - first);
    status st =
        yaml_tree_alloc(r->tree, (void **)&node->item, (size_t)node->n * sizeof *node->item);
    for (int i = 0; i < node->n && st == MOAO_OK; i++)
        st = build(r, first[i], depth + 1, &node->item[i]);
    return st;
}

static int compare_keys(const void *a, const void *b) {
    const ynode *ka = *(ynode *const *)a, *kb = *(ynode *const *)b;
    int order = strcmp(ka->text, kb->text);
    if (order != 0)
        return order;
    if (ka->line != kb->line)
        return ka->line < kb->line ? -1 : 1;
    return (ka->column > kb->column) - (ka->column < kb->column);
}

static status check_duplicates(const ynode *node) {
    status st = MOAO_OK;
    ynode **sorted;
    st = ALLOC(sorted, (size_t)node->n, "keys");
    if (st != MOAO_OK)
        return st;
    memcpy(sorted, node->key, (size_t)node->n * sizeof *sorted);
    qsort(sorted, (size_t)node->n, sizeof *sorted, compare_keys);
    for (int i = 1; i < node->n && st == MOAO_OK; i++)
        if (strcmp(sorted[i - 1]->text, sorted[i]->text) == 0)
            st = yaml_tree_fail(sorted[i], yaml_tree_quote(sorted[i]->text).s,
                                "duplicate key (first on line %d), expected it once",
                                sorted[i - 1]->line);
    free(sorted);
    return st;
}

static status build_map(reader *r, const yaml_node_t *y, int depth, ynode *node) {
    status st;
    yaml_node_pair_t *first = y->data.mapping.pairs.start;
    node->kind = YAML_TREE_MAP;
    node->n = (int)(y->data.mapping.pairs.top - first);
    if (node->n > MAX_KEYS)
        return yaml_tree_fail(node, "syntax", "%d keys in a mapping, expected at most %d", node->n,
                              MAX_KEYS);
    size_t bytes = (size_t)node->n * sizeof *node->item;
    TRY(yaml_tree_alloc(r->tree, (void **)&node->item, bytes));
    TRY(yaml_tree_alloc(r->tree, (void **)&node->key, bytes));
    for (int i = 0; i < node->n; i++) {
        TRY(build(r, first[i].key, depth + 1, &node->key[i]));
        if (node->key[i]->kind != YAML_TREE_SCALAR)
            return yaml_tree_fail(node->key[i], "syntax",
                                  "a list or mapping as a key, expected a name");
        TRY(build(r, first[i].value, depth + 1, &node->item[i]));
    }
    st = check_duplicates(node);
done:
    return st;
}

/* Copy node `index` of the document; an alias is copied as if written out. */
static status build(reader *r, int index, int depth, ynode **out) {
    status st;
    yaml_node_t *y = yaml_document_get_node(&r->doc, index);
    ynode *node;
    TRY(yaml_tree_alloc(r->tree, (void **)&node, sizeof *node));
    *out = node;
    place(r, y->start_mark, node);
    if (depth > MAX_DEPTH)
        return fail_depth(node);
    if (++r->tree->nodes > MAX_NODES)
        return fail_values(node);
    if (y->type == YAML_SCALAR_NODE)
        st = build_scalar(r, y, node);
    else if (y->type == YAML_SEQUENCE_NODE)
        st = build_list(r, y, depth, node);
    else
        st = build_map(r, y, depth, node);
done:
    return st;
}

/* Whether a tab stands at a mark that only blanks and tabs precede in its line. */
static bool tab_at(const char *text, size_t len, yaml_mark_t mark) {
    const char *p = text, *end = text + len;
    for (size_t line = 0; line < mark.line && p != NULL; line++)
        p = memchr(p, '\n', (size_t)(end - p)) != NULL
                ? (const char *)memchr(p, '\n', (size_t)(end - p)) + 1
                : NULL;
    for (size_t i = 0; p != NULL && p < end && i <= mark.column; i++, p++)
        if (*p == '\t')
            return true;
        else if (*p != ' ')
            return false;
    return false;
}

static status syntax_failure(const reader *r, const yaml_parser_t *p, const char *text,
                             size_t len) {
    const char *what = p->problem ? p->problem : "not readable";
    bool bytes = p->error == YAML_READER_ERROR;
    ynode at;
    if (p->error == YAML_MEMORY_ERROR)
        return status_fail(MOAO_MEMORY, "no memory to parse %s", r->file);
    place(r, p->problem_mark, &at);
    /* libyaml knows no place of bad bytes, and puts the end of a text without newline a line too
     * far */
    int line = 1, column = 1;
    for (size_t i = 0; i < (bytes ? p->problem_offset : len) && i < len; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    if (bytes || at.line > line) {
        at.line = line;
        at.column = column + (line == 1 ? r->column0 : 0);
    }
    if (p->error == YAML_SCANNER_ERROR && tab_at(text, len, p->problem_mark))
        return yaml_tree_fail(&at, "syntax", "a tab character, expected blanks before a key");
    return yaml_tree_fail(&at, "syntax", "%s, expected %s", what,
                          bytes ? "text in UTF-8" : "YAML (key: value)");
}

/* Refuse runaway nesting, values and anchors as they come: libyaml's loader takes a time that grows
 * with the square of their number. What is wrong in the syntax is left to the loader to tell. */
static status check_extent(const reader *r, const char *text, size_t len) {
    yaml_parser_t parser;
    yaml_event_t event;
    status st = MOAO_OK;
    bool more = true;
    if (!yaml_parser_initialize(&parser))
        return status_fail(MOAO_MEMORY, "no memory to parse %s", r->file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    for (int depth = 0, anchors = 0, values = 0; more && yaml_parser_parse(&parser, &event);) {
        ynode at;
        place(r, event.start_mark, &at);
        bool opens =
            event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        bool closes = event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        depth += opens - closes;
        values += !closes;
        anchors +=
            (event.type == YAML_SCALAR_EVENT && event.data.scalar.anchor != NULL) ||
            (event.type == YAML_SEQUENCE_START_EVENT && event.data.sequence_start.anchor != NULL) ||
            (event.type == YAML_MAPPING_START_EVENT && event.data.mapping_start.anchor != NULL);
        if (depth > MAX_DEPTH + 1)
            st = fail_depth(&at);
        else if (values > MAX_NODES + 4) /* stream and document have events too */
            st = fail_values(&at);
        else if (anchors > MAX_ANCHORS)
            st = yaml_tree_fail(&at, "syntax", "more than %d anchors, expected fewer", MAX_ANCHORS);
        more = st == MOAO_OK && event.type != YAML_STREAM_END_EVENT && event.type != YAML_NO_EVENT;
        yaml_event_delete(&event);
    }
    if (st == MOAO_OK && parser.error == YAML_MEMORY_ERROR)
        st = status_fail(MOAO_MEMORY, "no memory to parse %s", r->file);
    yaml_parser_delete(&parser);
    return st;
}

/* Refuse what follows the first document. */
static status check_single(reader *r, yaml_parser_t *p, const char *text, size_t len) {
    yaml_document_t next;
    ynode at;
    if (!yaml_parser_load(p, &next))
        return syntax_failure(r, p, text, len);
    bool more = yaml_document_get_root_node(&next) != NULL;
    place(r, next.start_mark, &at);
    yaml_document_delete(&next);
    return more ? yaml_tree_fail(&at, "syntax", "a second document, expected one") : MOAO_OK;
}

status yaml_tree_parse(yaml_tree *t, const char *file, int column0, const char *text, size_t len,
                       ynode **root) {
    status st;
    yaml_parser_t parser;
    reader r = {.tree = t, .column0 = column0};
    *root = NULL;
    if (!yaml_parser_initialize(&parser))
        return status_fail(MOAO_MEMORY, "no memory to parse %s", file);
    TRY(tree_text(t, file, strlen(file), &r.file));
    TRY(check_extent(&r, text, len));
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (!yaml_parser_load(&parser, &r.doc)) {
        st = syntax_failure(&r, &parser, text, len);
        goto done;
    }
    if (yaml_document_get_root_node(&r.doc) == NULL)
        st = yaml_tree_fail_at(r.file, 1, 1 + column0, "syntax", "empty, expected a value");
    else if ((st = build(&r, 1, 0, root)) == MOAO_OK)
        st = check_single(&r, &parser, text, len);
    yaml_document_delete(&r.doc);
done:
    yaml_parser_delete(&parser);
    return st;
}
