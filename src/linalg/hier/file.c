/* HSS and H2 matrices in files (moao/hier_file.h). */
#include "file.h"
#include "moao/hier_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, PIECE = 1 << 20 };
#define WHAT "an HSS or H2 matrix"
/* Ranks of a level and points of leaves differ; so much more memory than numbers is no matrix. */
#define PADDING 1000.0
#define FREE (64.0 * 1024 * 1024)

status hier_file_wrong(const hier_file *q, const char *what) {
    return status_fail(MOAO_INPUT, "%s: %s", q->f.path, what);
}

/* --- the head -----------------------------------------------------------------------------------
 */

static void head_of(const format *f, hier_file_head *h) {
    const hier_options *o = &f->o;
    *h =
        (hier_file_head){.kind = f->is->kind,
                         .type = o->type,
                         .flags = (f->symmetric ? FILE_SYMMETRIC : 0) | (o->half ? FILE_HALF : 0) |
                                  (o->mean_split ? FILE_MEAN_SPLIT : 0) | (o->lean ? FILE_LEAN : 0),
                         .n = f->info.rows,
                         .levels = f->info.levels,
                         .leaf = o->leaf,
                         .rank = o->rank,
                         .samples = o->samples,
                         .order = o->order,
                         .verify = o->verify,
                         .together = o->together,
                         .seed = o->seed,
                         .tol = o->tol,
                         .eta = o->eta,
                         .error = f->info.error,
                         .worst = f->info.worst,
                         .rcond = f->info.rcond};
}

static bool known(double x) {
    return isnan(x) || (x >= 0 && isfinite(x));
}

/* A head that a file of so many bytes may have. */
static bool head_is_possible(const hier_file *q) {
    const hier_file_head *h = &q->head;
    const int64_t option[] = {h->leaf, h->rank, h->samples, h->order, h->verify, h->together};
    const bool hss = h->kind == HIER_HSS;
    for (size_t i = 0; i < sizeof option / sizeof *option; i++)
        if (option[i] < 0 || option[i] > INT32_MAX)
            return false;
    return (hss || h->kind == HIER_H2) && (h->type == BACKEND_D || h->type == BACKEND_S) &&
           !(h->flags & ~FILE_FLAGS) &&
           (hss || (h->flags & FILE_SYMMETRIC && h->dim > 0 &&
                    !(h->flags & (FILE_ENTRIES | FILE_FACTOR)))) &&
           h->n >= 0 && h->n <= INT32_MAX && h->n <= q->f.size / 8 && h->dim >= 0 && h->dim <= 3 &&
           h->levels >= 0 && h->levels < NESTED_LEVELS && h->leaf <= BATCH_ORTH_MAX &&
           h->rank <= BATCH_ORTH_MAX / 2 && h->order <= 16 && h->tol >= 0 && h->eta >= 0 &&
           known(h->error) && known(h->worst) && known(h->rcond);
}

void hier_file_begin(const hier_file *q, format *f, const hier_table *is) {
    const hier_file_head *h = &q->head;
    const hier_options o = {.kind = (hier_kind)h->kind,
                            .type = (backend_type)h->type,
                            .half = h->flags & FILE_HALF,
                            .tol = h->tol,
                            .leaf = (int)h->leaf,
                            .rank = (int)h->rank,
                            .samples = (int)h->samples,
                            .seed = h->seed,
                            .eta = h->eta,
                            .mean_split = h->flags & FILE_MEAN_SPLIT,
                            .lean = h->flags & FILE_LEAN,
                            .order = (int)h->order,
                            .verify = (int)h->verify,
                            .together = (int)h->together};
    const hier_source s = {.rows = h->n, .cols = h->n, .symmetric = h->flags & FILE_SYMMETRIC};
    hier_begin(f, is, q->be, q->ctx, &s, &o);
    f->info.error = h->error, f->info.worst = h->worst, f->info.rcond = h->rcond;
}

/* --- the tree -----------------------------------------------------------------------------------
 */

static status check_tree(const hier_file *q, const tree *t) {
    const int64_t *leaf = t->size + tree_node(t->levels, 0);
    int64_t left = t->n;
    char *seen = NULL;
    status st;
    for (int64_t i = 0; i < tree_nodes(t->levels); i++) {
        if (leaf[i] < 0 || leaf[i] > left)
            return hier_file_wrong(q, "the leaves of its tree do not add up to its rows");
        left -= leaf[i];
    }
    if (left != 0)
        return hier_file_wrong(q, "the leaves of its tree do not add up to its rows");
    TRY(ALLOC(seen, (unsigned long)t->n, "order of rows"));
    for (int64_t i = 0; i < t->n; i++) {
        if (t->order[i] < 0 || t->order[i] >= t->n || seen[t->order[i]])
            TRY(hier_file_wrong(q, "its order of rows is none"));
        seen[t->order[i]] = 1;
    }
    for (int64_t i = 0; i < t->n * t->dim; i++)
        if (!isfinite(t->at[i]))
            TRY(hier_file_wrong(q, "a coordinate of its rows is not finite"));
done:
    free(seen);
    return st;
}

status hier_file_tree(hier_file *q, tree *t) {
    const int64_t n = q->head.n, leaves = tree_nodes((int)q->head.levels);
    status st;
    if (!q->f.writing) {
        if (leaves > q->f.left / 8 || n + n * q->head.dim > q->f.left / 8 - leaves)
            return hier_file_wrong(q, "it is cut short");
        TRY(tree_alloc(n, (int)q->head.dim, (int)q->head.levels, t));
    }
    TRY(number_file_words(&q->f, t->size + tree_node(t->levels, 0), (size_t)leaves));
    TRY(number_file_words(&q->f, t->order, (size_t)n));
    TRY(number_file_words(&q->f, t->at, (size_t)(n * t->dim)));
    if (q->f.writing)
        return MOAO_OK;
    TRY(check_tree(q, t));
    tree_complete(t);
done:
    return st;
}

status hier_file_level(hier_file *q, const tree *t, nested_level *v, int l, int64_t most,
                       bool within) {
    const bool leaf = l == t->levels;
    status st;
    if (q->f.writing)
        return number_file_words(&q->f, v->rank, (size_t)v->nodes);
    v->nodes = tree_nodes(l);
    TRY(number_file_array(&q->f, &v->rank, v->nodes));
    TRY(ALLOC(v->size, (unsigned long)v->nodes, "sizes of nodes"));
    TRY(ALLOC(v->up, (unsigned long)v->nodes, "places of nodes"));
    v->rows = v->most = 1;
    for (int64_t i = 0; i < v->nodes; i++) {
        v->size[i] = leaf ? t->size[tree_node(l, i)] : v[1].rank[2 * i] + v[1].rank[2 * i + 1];
        if (v->rank[i] < 0 || v->rank[i] > most || (within && v->rank[i] > v->size[i]))
            TRY(status_fail(MOAO_INPUT, "%s: node %lld of level %d has rank %lld and %lld rows",
                            q->f.path, (long long)i, l, (long long)v->rank[i],
                            (long long)v->size[i]));
        v->rows = v->size[i] > v->rows ? v->size[i] : v->rows;
        v->most = v->rank[i] > v->most ? v->rank[i] : v->most;
    }
    v->rows = (v->rows + 1) / 2 * 2;
done:
    return st;
}

/* --- the numbers --------------------------------------------------------------------------------
 */

/* Bytes of one matrix in the file, whole words. */
static int64_t bytes_of(const file_matrices *m, int64_t i, size_t size) {
    int64_t rows, cols;
    m->size(m->of, m->level, i, &rows, &cols);
    return (rows * cols * (int64_t)size + 7) / 8 * 8;
}

/* Whether the file has the numbers, and no memory is taken for what is none. */
static status check_length(const hier_file *q, const format *f, const file_matrices *list,
                           int lists) {
    const size_t size = backend_size(f->o.type);
    double need = 8, room = 0;
    for (int k = 0; k < lists; k++) {
        const file_matrices *m = list + k;
        for (int64_t i = 0; i < m->count; i++)
            need += (double)bytes_of(m, i, size);
        room += (double)m->count * (double)m->ld * (double)m->cols * (double)size;
    }
    if (!q->f.writing && need != (double)q->f.left)
        return status_fail(MOAO_INPUT, "%s: its numbers take %.0f bytes, and it has %.0f for them",
                           q->f.path, need, (double)q->f.left);
    if (room > FREE + PADDING * need)
        return status_fail(MOAO_INPUT,
                           "%s: %.0f bytes of numbers take %.0f bytes of memory: the sizes of its "
                           "nodes differ too much",
                           q->f.path, need, room);
    return MOAO_OK;
}

static status check_finite(const hier_file *q, backend_type t, const void *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(number_get(t, x, i)))
            return status_fail(MOAO_INPUT, "%s: one of its numbers is %g", q->f.path,
                               number_get(t, x, i));
    return MOAO_OK;
}

/* One matrix between `whole`, which is ld x cols, and the file. */
static status one_matrix(hier_file *q, const format *f, const file_matrices *m, int64_t i,
                         char *whole, char *packed) {
    const int64_t size = (int64_t)backend_size(f->o.type), words = bytes_of(m, i, (size_t)size) / 8;
    int64_t rows, cols;
    status st;
    m->size(m->of, m->level, i, &rows, &cols);
    if (words == 0)
        return MOAO_OK;
    memset(packed + 8 * (words - 1), 0, 8);
    for (int64_t j = 0; j < cols && q->f.writing; j++)
        memcpy(packed + j * rows * size, whole + j * m->ld * size, (size_t)(rows * size));
    TRY(number_file_words(&q->f, packed, (size_t)words));
    if (q->f.writing)
        return MOAO_OK;
    TRY(check_finite(q, f->o.type, packed, rows * cols));
    for (int64_t j = 0; j < cols; j++)
        memcpy(whole + j * m->ld * size, packed + j * rows * size, (size_t)(rows * size));
done:
    return st;
}

/* As many matrices at a time as a piece of the host's memory takes. */
static status matrices(hier_file *q, const format *f, const file_matrices *m) {
    const int64_t size = (int64_t)backend_size(f->o.type), each = m->ld * m->cols * size;
    const int64_t some = each > 0 && each < PIECE ? PIECE / each : 1;
    char *whole = NULL, *packed = NULL;
    status st = MOAO_OK;
    if (m->count == 0 || each == 0)
        return MOAO_OK;
    TRY(ALLOC(whole, (unsigned long)(each * some), "a part of a file"));
    TRY(ALLOC(packed, (unsigned long)each + 8, "a part of a file"));
    for (int64_t i = 0; i < m->count; i += some) {
        const int64_t now = m->count - i < some ? m->count - i : some, bytes = now * each;
        if (q->f.writing) {
            TRY(f->be->copy(f->ctx, whole, bytes, *m->at + i * each, bytes, bytes, 1));
            TRY(f->be->sync(f->ctx));
        } else {
            memset(whole, 0, (size_t)bytes);
        }
        for (int64_t k = 0; k < now; k++)
            TRY(one_matrix(q, f, m, i + k, whole + k * each, packed));
        if (!q->f.writing) {
            TRY(f->be->copy(f->ctx, *m->at + i * each, bytes, whole, bytes, bytes, 1));
            TRY(f->be->sync(f->ctx));
        }
    }
done:
    free(whole), free(packed);
    return st;
}

status hier_file_numbers(hier_file *q, const format *f, const file_matrices *list, int lists) {
    const size_t size = backend_size(f->o.type);
    status st;
    TRY(check_length(q, f, list, lists));
    for (int k = 0; k < lists && !q->f.writing; k++)
        TRY(take(f, size * (size_t)(list[k].count * list[k].ld * list[k].cols),
                 (void **)list[k].at));
    for (int k = 0; k < lists; k++)
        TRY(matrices(q, f, list + k));
    st = number_file_finish(&q->f);
done:
    return st;
}

/* --- files --------------------------------------------------------------------------------------
 */

status moao_hier_save(const format *f, const char *path) {
    format *same = (format *)f; /* which is not changed by writing */
    hier_file q = {0};
    uint32_t version = VERSION;
    status st;
    if (!f->is->store)
        return status_fail(MOAO_INPUT, "%s: format '%s' is not saved: HSS and H2 matrices are",
                           path, f->is->name);
    TRY(hier_has_values(f));
    TRY(number_file_create(&q.f, path));
    head_of(f, &q.head);
    TRY(number_file_head(&q.f, "MOAOHIER", &version, VERSION, WHAT));
    st = f->is->store(&same, &q);
done:
    number_file_close(&q.f);
    return st;
}

status moao_hier_restore(const backend *be, backend_ctx *ctx, const char *path, format **out) {
    hier_file q = {.be = be, .ctx = ctx};
    uint32_t version;
    status st;
    *out = NULL;
    if (!be->hier)
        return status_fail(MOAO_INPUT, "the %s backend has no operations of formats", be->name);
    TRY(number_file_open(&q.f, path));
    TRY(number_file_head(&q.f, "MOAOHIER", &version, VERSION, WHAT));
    TRY(number_file_words(&q.f, &q.head, sizeof q.head / 8));
    if (!head_is_possible(&q))
        TRY(status_fail(MOAO_INPUT,
                        "%s: a matrix of kind %lld with %lld rows and %lld levels, or an option of "
                        "it, is out of range",
                        path, (long long)q.head.kind, (long long)q.head.n,
                        (long long)q.head.levels));
    st = hier_table_of((hier_kind)q.head.kind)->store(out, &q);
done:
    number_file_close(&q.f);
    if (st != MOAO_OK) {
        hier_close(*out);
        *out = NULL;
    }
    return st;
}
