/* HSS matrices in files (file.h): ranks from the leaves up; blocks on the diagonal; bases and
 * couplings from the leaves up; all entries of a small matrix; G and W of the factor, from the
 * leaves up. */
#include "file.h"
#include "hss_factor.h"

#include <math.h>
#include <stdlib.h>

enum { LISTS = 4 * NESTED_LEVELS + 2 };

static void diagonal(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols) {
    const hss *h = of;
    *rows = *cols = h->t.size[tree_node(level, i)];
}

static void basis(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols) {
    const nested_level *v = ((const hss *)of)->level + level;
    *rows = v->size[i], *cols = v->rank[i];
}

static void coupling(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols) {
    const nested_level *v = ((const hss *)of)->level + level;
    *rows = v->rank[i], *cols = v->rank[i ^ 1];
}

static void column(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols) {
    (void)level, (void)i;
    *rows = ((const hss *)of)->t.n, *cols = 1;
}

static void gathered(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols) {
    const hss *h = of;
    const factor_level *v = h->factor->level + level;
    *rows = (level == h->t.levels ? 1 : 2) * v->n[i], *cols = v->n[i] + v->k[i];
}

static void orthogonal(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols) {
    const factor_level *v = ((const hss *)of)->factor->level + level;
    *rows = *cols = v->n[i];
}

/* All that a matrix holds; how many lists. */
static int lists_of(hss *h, bool entries, file_matrices list[LISTS]) {
    const int levels = h->t.levels;
    int n = 0;
    list[n++] = (file_matrices){&h->d, tree_nodes(levels), h->leaf, h->leaf, diagonal, h, levels};
    for (int l = levels; l >= 1; l--) {
        nested_level *v = h->level + l;
        list[n++] = (file_matrices){&v->u, v->nodes, v->rows, v->most, basis, h, l};
        list[n++] = (file_matrices){&v->b, v->nodes, v->most, v->most, coupling, h, l};
    }
    if (entries)
        list[n++] = (file_matrices){&h->all, h->t.n, h->t.n, 1, column, h, 0};
    for (int l = levels; l >= 0 && h->factor; l--) {
        factor_level *v = h->factor->level + l;
        list[n++] = (file_matrices){&v->g, v->nodes, v->ldg, v->rows + v->most, gathered, h, l};
        list[n++] = (file_matrices){&v->w, v->nodes, v->rows, v->rows, orthogonal, h, l};
    }
    return n;
}

static status write_hss(hss *h, hier_file *q) {
    file_matrices list[LISTS];
    status st;
    q->head.dim = h->t.dim;
    q->head.flags |= (h->all ? FILE_ENTRIES : 0) | (h->factor ? FILE_FACTOR : 0);
    TRY(number_file_words(&q->f, &q->head, sizeof q->head / 8));
    TRY(hier_file_tree(q, &h->t));
    for (int l = h->t.levels; l >= 1; l--)
        TRY(hier_file_level(q, &h->t, h->level + l, l, 0, false));
    st = hier_file_numbers(q, &h->f, list, lists_of(h, h->all != NULL, list));
done:
    return st;
}

static status read_hss(hss *h, hier_file *q) {
    file_matrices list[LISTS];
    status st;
    TRY(hier_file_tree(q, &h->t));
    h->leaf = 1;
    for (int64_t i = 0; i < tree_nodes(h->t.levels); i++)
        h->leaf = h->t.size[tree_node(h->t.levels, i)] > h->leaf
                      ? h->t.size[tree_node(h->t.levels, i)]
                      : h->leaf;
    h->leaf = (h->leaf + 1) / 2 * 2;
    if (h->leaf > BATCH_ORTH_MAX)
        TRY(hier_file_wrong(q, "a leaf of its tree is too large"));
    for (int l = h->t.levels; l >= 1; l--)
        TRY(hier_file_level(q, &h->t, h->level + l, l, BATCH_ORTH_MAX / 2, true));
    if (q->head.flags & FILE_FACTOR) {
        TRY(ALLOC(h->factor, 1, "an HSS factor"));
        for (int l = h->t.levels; l >= 0; l--)
            TRY(hss_factor_sizes(h, h->factor, l));
    } else {
        h->f.info.rcond = NAN;
    }
    TRY(hier_file_numbers(q, &h->f, list, lists_of(h, q->head.flags & FILE_ENTRIES, list)));
    TRY(hss_launch(h));
    if (h->factor)
        TRY(hss_solve_launch(h));
done:
    return st;
}

status hss_store(format **f, hier_file *q) {
    hss *h;
    if (q->f.writing)
        return write_hss((hss *)*f, q);
    const status st = ALLOC(h, 1, "an HSS matrix");
    if (st != MOAO_OK)
        return st;
    hier_file_begin(q, &h->f, &hier_hss);
    *f = &h->f;
    return read_hss(h, q);
}
