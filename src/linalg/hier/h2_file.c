/* H2 matrices in files (file.h): partners of all nodes that are apart, then of the leaves that are
 * not; ranks from the leaves up; dense blocks; bases and blocks from the leaves up. */
#include "file.h"
#include "h2.h"

#include <stdlib.h>

enum { LISTS = 2 * NESTED_LEVELS + 1 };

static void near_block(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols) {
    const h2 *h = of;
    *rows = h->t.size[tree_node(level, h->near.row[i])];
    *cols = h->t.size[tree_node(level, h->near.col[i])];
}

static void far_block(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols) {
    const h2 *h = of;
    *rows = h->level[level].rank[h->far[level].row[i]];
    *cols = h->level[level].rank[h->far[level].col[i]];
}

static void basis(const void *of, int level, int64_t i, int64_t *rows, int64_t *cols) {
    const nested_level *v = ((const h2 *)of)->level + level;
    *rows = v->size[i], *cols = v->rank[i];
}

static int64_t columns(const pair_blocks *b) {
    return b->ld > 0 ? b->stride / b->ld : 0;
}

static int lists_of(h2 *h, file_matrices list[LISTS]) {
    const int levels = h->t.levels;
    int n = 0;
    list[n++] = (file_matrices){
        &h->near.s, h->near.count, h->near.ld, columns(&h->near), near_block, h, levels};
    for (int l = levels; l >= h->top; l--) {
        nested_level *v = h->level + l;
        pair_blocks *b = h->far + l;
        list[n++] = (file_matrices){&v->u, v->nodes, v->rows, v->most, basis, h, l};
        list[n++] = (file_matrices){&b->s, b->count, b->ld, columns(b), far_block, h, l};
    }
    return n;
}

static status check_lists(const hier_file *q, const lists *l, int64_t items) {
    if (l->first[0] != 0 || l->first[l->count] != items)
        return hier_file_wrong(q, "its lists of pairs are none");
    for (int64_t a = 0; a < l->count; a++)
        if (l->first[a + 1] < l->first[a])
            return hier_file_wrong(q, "its lists of pairs are none");
    return MOAO_OK;
}

/* Lists of `count` nodes with so many items in all. */
static status partners(hier_file *q, lists *l, int64_t count, int64_t items) {
    status st;
    l->count = count;
    TRY(number_file_array(&q->f, &l->first, count + 1));
    if (!q->f.writing)
        TRY(check_lists(q, l, items));
    TRY(number_file_array(&q->f, &l->item, items));
done:
    return st;
}

/* Pairs apart are of one level and of two nodes, and all pairs make the matrix, each entry once. */
static status check_pairs(const hier_file *q, const h2 *h) {
    const tree *t = &h->t;
    const lists *far = &h->far_of, *near = &h->near_of;
    const int64_t leaf = tree_node(t->levels, 0);
    uint64_t entries = 0;
    for (int l = 0; l <= t->levels; l++)
        for (int64_t a = tree_node(l, 0); a < tree_node(l + 1, 0); a++)
            for (int64_t e = far->first[a]; e < far->first[a + 1]; e++) {
                const int64_t b = far->item[e];
                if (b < tree_node(l, 0) || b >= tree_node(l + 1, 0) || b == a)
                    return hier_file_wrong(q, "two nodes of a pair are not of one level");
                entries += (uint64_t)t->size[a] * (uint64_t)t->size[b];
            }
    for (int64_t a = 0; a < near->count; a++)
        for (int64_t e = near->first[a]; e < near->first[a + 1]; e++) {
            if (near->item[e] < 0 || near->item[e] >= near->count)
                return hier_file_wrong(q, "two nodes of a pair are not of one level");
            entries += (uint64_t)t->size[leaf + a] * (uint64_t)t->size[leaf + near->item[e]];
        }
    return entries == (uint64_t)t->n * (uint64_t)t->n
               ? MOAO_OK
               : hier_file_wrong(q, "its pairs of nodes do not make a matrix");
}

static status write_h2(h2 *h, hier_file *q) {
    file_matrices list[LISTS];
    status st;
    q->head.dim = h->t.dim;
    q->head.far = h->far_of.first[h->far_of.count];
    q->head.near = h->near_of.first[h->near_of.count];
    TRY(number_file_words(&q->f, &q->head, sizeof q->head / 8));
    TRY(hier_file_tree(q, &h->t));
    TRY(partners(q, &h->far_of, h->far_of.count, q->head.far));
    TRY(partners(q, &h->near_of, h->near_of.count, q->head.near));
    for (int l = h->t.levels; l >= h->top; l--)
        TRY(hier_file_level(q, &h->t, h->level + l, l, 0, false));
    st = hier_file_numbers(q, &h->f, list, lists_of(h, list));
done:
    return st;
}

/* Room for blocks of at most `most` rows and columns. */
static void shape(pair_blocks *b, int64_t most) {
    b->ld = (most + 1) / 2 * 2, b->stride = b->ld * most;
}

static status read_h2(h2 *h, hier_file *q) {
    file_matrices list[LISTS];
    int64_t leaf = 1;
    status st;
    TRY(hier_file_tree(q, &h->t));
    TRY(partners(q, &h->far_of, tree_node(h->t.levels + 1, 0), q->head.far));
    TRY(partners(q, &h->near_of, tree_nodes(h->t.levels), q->head.near));
    TRY(check_pairs(q, h));
    TRY(h2_number_pairs(h, q->f.path));
    for (int64_t i = tree_node(h->t.levels, 0); i < tree_node(h->t.levels + 1, 0); i++)
        leaf = h->t.size[i] > leaf ? h->t.size[i] : leaf;
    shape(&h->near, leaf);
    for (int l = h->t.levels; l >= h->top; l--) {
        TRY(hier_file_level(q, &h->t, h->level + l, l, BATCH_ORTH_MAX, false));
        shape(h->far + l, h->level[l].most);
    }
    TRY(hier_file_numbers(q, &h->f, list, lists_of(h, list)));
    st = h2_plan(h);
done:
    return st;
}

status h2_store(format **f, hier_file *q) {
    h2 *h;
    if (q->f.writing)
        return write_h2((h2 *)*f, q);
    const status st = ALLOC(h, 1, "an H2 matrix");
    if (st != MOAO_OK)
        return st;
    hier_file_begin(q, &h->f, &hier_h2);
    *f = &h->f;
    return read_h2(h, q);
}
