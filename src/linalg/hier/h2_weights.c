/* What an H2 matrix does with each basis: the triangle of its node's block row, downwards. */
#include "h2.h"
#include <stdlib.h>

#define CHUNK ((int64_t)1 << 28) /* elements of stacked blocks at a time */

/* Stacked rows of nodes first .. first + count of a level: S' of each far pair, and Z E' of the
 * node above. */
typedef struct {
    h2 *h;
    int l;
    char *one;
    int64_t ld_one;
    pack *args;
    size_t size;
    char *const *z;
    char *stacked;
    int64_t rows;    /* of the largest stack */
    int64_t *height; /* of each node of the level */
} weigher;

static status heights(weigher *w) {
    const h2 *h = w->h;
    const nested_level *v = h->level + w->l;
    status st;
    TRY(ALLOC(w->height, (unsigned long)v->nodes, "sizes of stacks"));
    w->rows = 1;
    for (int64_t i = 0; i < v->nodes; i++) {
        const int64_t a = tree_node(w->l, i);
        w->height[i] = w->l > h->top ? v[-1].rank[i / 2] : 0;
        for (int64_t e = h->far_of.first[a]; e < h->far_of.first[a + 1]; e++)
            w->height[i] += v->rank[h->far_of.item[e] - tree_node(w->l, 0)];
        w->rows = w->height[i] > w->rows ? w->height[i] : w->rows;
    }
done:
    return st;
}

/* Copies of S' (turned: of blocks that are stored transposed) of the chunk's far pairs. */
static status copy_blocks(weigher *w, int64_t first, int64_t count, bool turned) {
    const h2 *h = w->h;
    const nested_level *v = h->level + w->l;
    const pair_blocks *b = h->far + w->l;
    const int64_t node0 = tree_node(w->l, 0);
    int64_t n = 0, used = 0;
    call q;
    status st;
    for (int64_t a = node0 + first; a < node0 + first + count; a++)
        for (int64_t e = h->far_of.first[a]; e < h->far_of.first[a + 1]; e++)
            n += (a > h->far_of.item[e]) == turned;
    if (n == 0)
        return MOAO_OK;
    TRY(call_open(&h->f, w->args, &q, n));
    for (int64_t i = first; i < first + count; i++) {
        const int64_t a = node0 + i;
        int64_t row = w->l > h->top ? v[-1].rank[i / 2] : 0;
        for (int64_t e = h->far_of.first[a]; e < h->far_of.first[a + 1]; e++) {
            const int64_t j = h->far_of.item[e] - node0;
            if ((i > j) == turned)
                call_set(w->args, &q, used++, v->rank[j], v->rank[i],
                         turned ? v->rank[j] : v->rank[i],
                         turned ? w->one : h2_block(h, b, h->far_block[e]),
                         turned ? h2_block(h, b, h->far_block[e]) : w->one,
                         w->stacked + w->size * (size_t)((i - first) * w->rows * v->most + row));
            row += v->rank[j];
        }
    }
    /* i < j: the block is S_ij, wanted is its transpose; i > j: the block is S_ji, wanted as it is
     */
    TRY(call_gemm(&h->f, w->args, &q, turned ? 'N' : 'T', 'N', 1, turned ? w->ld_one : b->ld,
                  turned ? b->ld : w->ld_one, 0, w->rows));
done:
    return st;
}

/* Z E' of the node above. */
static status copy_above(weigher *w, int64_t first, int64_t count) {
    const h2 *h = w->h;
    const nested_level *v = h->level + w->l, *above = v - 1;
    call q;
    status st;
    TRY(call_open(&h->f, w->args, &q, count));
    for (int64_t i = first; i < first + count; i++) {
        const int64_t at = i & 1 ? v->rank[i - 1] : 0;
        call_set(w->args, &q, i - first, above->rank[i / 2], v->rank[i], above->rank[i / 2],
                 w->z[w->l - 1] + w->size * (size_t)(i / 2 * above->most * above->most),
                 h2_basis(h, w->l - 1, i / 2) + w->size * (size_t)at,
                 w->stacked + w->size * (size_t)((i - first) * w->rows * v->most));
    }
    TRY(call_gemm(&h->f, w->args, &q, 'N', 'T', 1, above->most, above->rows, 0, w->rows));
done:
    return st;
}

static status triangles(weigher *w, int64_t first, int64_t count, char *z, int *info) {
    const h2 *h = w->h;
    const format *f = &h->f;
    const nested_level *v = h->level + w->l;
    const size_t lwork = f->be->lowrank->workspace(BATCH_QR, f->o.type, count, w->rows, v->most, 0);
    void *work = NULL;
    call q;
    status st;
    TRY(take(f, lwork, &work));
    TRY(call_open(f, w->args, &q, count));
    for (int64_t i = 0; i < count; i++)
        call_set(w->args, &q, i, w->height[first + i], v->rank[first + i], 0, NULL, NULL, NULL);
    TRY(pack_send(f, w->args));
    const batch_dim m = {w->rows, call_dim(w->args, &q, 0).each},
                    n = {v->most, call_dim(w->args, &q, 1).each};
    TRY(f->be->lowrank->qr(f->ctx, f->o.type, 'R', count, m, n,
                           batch_strided(w->stacked, w->rows, w->rows * v->most),
                           batch_strided(z, v->most, v->most * v->most), info, work, lwork));
    TRY(f->be->sync(f->ctx));
done:
    f->be->release(f->ctx, work);
    return st;
}

static status level(weigher *w, char **z) {
    const h2 *h = w->h;
    const format *f = &h->f;
    const nested_level *v = h->level + w->l;
    const size_t square = w->size * (size_t)(v->most * v->most);
    char *zero = NULL;
    int *info = NULL;
    status st;
    TRY(heights(w));
    /* a node with fewer rows than columns leaves zeros below */
    w->rows = w->rows > v->most ? w->rows : v->most;
    const int64_t most = CHUNK / (w->rows * v->most) > 0 ? CHUNK / (w->rows * v->most) : 1;
    TRY(ALLOC(zero, (unsigned long)v->nodes * square, "weights of an H2 matrix"));
    TRY(hier_upload(f, zero, (size_t)v->nodes * square, (void **)z));
    TRY(take(f, w->size * (size_t)(w->rows * v->most * batch_least(most, v->nodes)),
             (void **)&w->stacked));
    TRY(take(f, sizeof *info * (size_t)v->nodes, (void **)&info));
    for (int64_t i = 0; i < v->nodes; i += most) {
        const int64_t n = batch_least(most, v->nodes - i);
        TRY(copy_blocks(w, i, n, false));
        TRY(copy_blocks(w, i, n, true));
        if (w->l > h->top)
            TRY(copy_above(w, i, n));
        TRY(triangles(w, i, n, *z + square * (size_t)i, info));
    }
done:
    free(zero), free(w->height);
    f->be->release(f->ctx, w->stacked), f->be->release(f->ctx, info);
    w->stacked = NULL, w->height = NULL;
    return st;
}

status h2_weights(h2 *h, char *one, int64_t ld_one, pack *args, char *z[NESTED_LEVELS]) {
    weigher w = {.h = h,
                 .one = one,
                 .ld_one = ld_one,
                 .args = args,
                 .size = backend_size(h->f.o.type),
                 .z = z};
    status st = MOAO_OK;
    for (w.l = h->top; w.l <= h->t.levels; w.l++)
        TRY(level(&w, &z[w.l]));
done:
    return st;
}
