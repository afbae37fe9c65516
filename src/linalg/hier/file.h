/* HSS and H2 matrices in files: what the kinds share. Each function writes, or reads and checks, as
 * the file is open. In this order, in 8 byte words: the head, the tree, what a kind has of pairs
 * and ranks, the numbers, the sum. */
#ifndef MOAO_HIER_INTERNAL_FILE_H
#define MOAO_HIER_INTERNAL_FILE_H

#include "linalg/core/number_file.h"
#include "nested.h"

enum {
    FILE_SYMMETRIC = 1,
    FILE_HALF = 2,
    FILE_MEAN_SPLIT = 4,
    FILE_LEAN = 8,
    FILE_ENTRIES = 16, /* all entries of a small HSS matrix */
    FILE_FACTOR = 32,
    FILE_FLAGS = 63
};

typedef struct {
    int64_t kind, type, flags, n, dim, levels;
    int64_t leaf, rank, samples, order, verify, together; /* options */
    uint64_t seed;
    double tol, eta, error, worst, rcond;
    int64_t far, near; /* H2: pairs in the lists of all nodes */
} hier_file_head;

struct hier_file {
    number_file f;
    hier_file_head head;
    const backend *be; /* those of what is read */
    backend_ctx *ctx;
};

/* Matrices in the backend's memory, `count` of ld x cols at *at, of which the first rows and
 * columns are in use; what is read gets its memory. */
typedef struct {
    char **at;
    int64_t count, ld, cols;
    void (*size)(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols);
    const void *of;
    int level;
} file_matrices;

/* A format that is read: options and shape from the head. */
void hier_file_begin(const hier_file *q, format *f, const hier_table *is);

status hier_file_tree(hier_file *q, tree *t);

/* Ranks of a level whose ranks below (but for leaves) are known, with its sizes and memory for
 * `up`; a rank is `most` at most, and where it is `within` no larger than its node. */
status hier_file_level(hier_file *q, const tree *t, nested_level *v, int l, int64_t most,
                       bool within);

/* All numbers, the last of a file before its sum. MOAO_INPUT: it is not as long as they are, or a
 * number is not finite. */
status hier_file_numbers(hier_file *q, const format *f, const file_matrices *list, int lists);

/* MOAO_INPUT: what the file says cannot be. */
status hier_file_wrong(const hier_file *q, const char *what);

#endif
