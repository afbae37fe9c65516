/* Nested bases of a tree, which HSS and H2 matrices share: a leaf keeps its basis, a node above the
 * matrix [E_1; E_2] that makes its basis from those of its children. */
#ifndef MOAO_HIER_NESTED_H
#define MOAO_HIER_NESTED_H

#include "pack.h"
#include "tree.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NESTED_LEVELS 31

/* Level l of the tree, nodes as in tree.h; node i's matrices begin at i times their stride. */
typedef struct {
    int64_t nodes;
    int64_t rows; /* largest number of rows of a basis: points of a leaf, ranks of two children */
    int64_t most; /* largest rank */
    int64_t *size, *rank; /* host: of each node, rows and columns of its basis */
    int64_t *up;          /* host: first row of each node in the workspaces of a product */
    char *u;              /* rows x most each: basis of a leaf; above, [E_1; E_2] */
    char *b;              /* most x most each: blocks of pairs of this level */
} nested_level;

/* Frees what a level holds. */
void nested_level_free(const format *f, nested_level *v);

#ifdef __cplusplus
}
#endif
#endif
