/* Hierarchically semiseparable (HSS) matrices: a binary tree of clusters; the block of two siblings
 * is of low rank, U_1 B_12 U_2', and bases are nested, U_parent = diag(U_1, U_2) E. One basis
 * serves rows and columns: it spans [A(I, rest), A(rest, I)'], which for matrices whose values
 * depend on distances has the rank of either. Bases are orthonormal.
 *
 * Sources: Chandrasekaran, Gu, Pals, SIAM J. Matrix Anal. Appl. 28 (2006) 603 (form, factor);
 * Martinsson, ibid. 32 (2011) 1251 (interpolative decompositions, construction from products). */
#ifndef MOAO_HIER_HSS_H
#define MOAO_HIER_HSS_H

#include "nested.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Launches of products that take several levels of the tree at a time (hss_merge.c). */
typedef struct {
    plan way[2]; /* A X, A' X */
    int ups;     /* launches that go up */
    char *memory[NESTED_LEVELS];
    size_t bytes;
} hss_launches;

typedef struct {
    format f;
    tree t;
    nested_level level[NESTED_LEVELS]; /* 1 .. t.levels */
    char *all;                         /* every entry, n x n, of a small matrix; or NULL */
    char *d;                           /* diagonal blocks of leaves, leaf x leaf each */
    int64_t leaf;                      /* points of the largest leaf */
    int64_t ranks;                     /* sum of all ranks: rows of a workspace */
    plan straight, turned;             /* launches of A X and of A' X */
    hss_launches few, wide;            /* the same by several levels at a time, or none */
    struct hss_factor *factor;
} hss;

/* Operands of the sums of a product: X, sums up the tree, sums down. */
enum { HSS_X, HSS_UP, HSS_DOWN };

static inline char *hss_basis(const hss *h, int l, int64_t i) {
    const nested_level *v = h->level + l;
    return v->u + i * v->rows * v->most * (int64_t)backend_size(h->f.o.type);
}
static inline char *hss_coupling(const hss *h, int l, int64_t i) {
    const nested_level *v = h->level + l;
    return v->b + i * v->most * v->most * (int64_t)backend_size(h->f.o.type);
}
static inline char *hss_diagonal(const hss *h, int64_t i) {
    return h->d + i * h->leaf * h->leaf * (int64_t)backend_size(h->f.o.type);
}

/* The pieces of making one (hss_build.c), and of its factor (hss_factor.c). */
/* samples: products with random vectors; 0: sampled entries, and those of `more` (or NULL). */
struct refinement;
status hss_build(hss *h, const hier_source *s, int64_t samples, const struct refinement *more);
status hss_all_entries(hss *h, const hier_source *s);
/* Launches and statistics, after ranks have changed (hss.c). */
status hss_launch(hss *h);
status hss_compress(format *f, double tol, char weights, int samples); /* hss_compress.c */
/* Launches with sums up and down at `anchors` levels only, from the leaves up (hss_merge.c). */
status hss_merge(hss *h, const int *anchor, int anchors, hss_launches *to);
void hss_launches_free(const format *f, hss_launches *l);
status hss_store(format **f, hier_file *file); /* hss_file.c */
void hss_close(format *f);
void hss_clear(hss *h); /* all that depends on values */
status hss_factor_make(format *f, double shift);
void hss_factor_free(hss *h);
size_t hss_solve_workspace(const format *f, int64_t nvec);
status hss_solve(const format *f, char trans, int64_t nvec, void *x, int64_t ldx, void *work);

#ifdef __cplusplus
}
#endif
#endif
