/* The matrix as it is: what the other formats are compared with, and what serves where none pays.
 */
#include "internal.h"
#include <stdlib.h>

typedef struct {
    format f;
    void *a;
} dense;

static status bytes(const backend *be, const hier_source *s, const hier_options *o, size_t *all,
                    size_t *most_work) {
    (void)be;
    *all = backend_size(o->type) * (size_t)s->rows * (size_t)s->cols;
    *most_work = 0;
    return MOAO_OK;
}

static void close_dense(format *f) {
    f->be->release(f->ctx, ((dense *)f)->a);
    free(f);
}

static status load(format *f, const hier_source *s) {
    return s->block(s->from, f->ctx, f->o.type, 0, s->rows, 0, s->cols, ((dense *)f)->a,
                    s->rows > 1 ? s->rows : 1);
}

static status open_dense(const backend *be, backend_ctx *ctx, const hier_source *s,
                         const hier_options *o, format **out) {
    dense *d;
    status st;
    *out = NULL;
    if (!s->block)
        return status_fail(MOAO_INPUT, "a dense format needs a source that gives blocks");
    TRY(ALLOC(d, 1, "a dense format"));
    hier_begin(&d->f, &hier_dense, be, ctx, s, o);
    d->f.info.bytes = d->f.info.bytes_dense_part =
        backend_size(o->type) * (size_t)s->rows * (size_t)s->cols;
    d->f.info.flops = 2.0 * (double)s->rows * (double)s->cols;
    *out = &d->f;
    TRY(be->alloc(ctx, d->f.info.bytes, &d->a));
    TRY(load(&d->f, s));
done:
    if (st != MOAO_OK && *out) {
        close_dense(*out);
        *out = NULL;
    }
    return st;
}

static size_t workspace(const format *f, char side, int64_t nvec) {
    (void)f, (void)side, (void)nvec;
    return 0;
}

static status apply(const format *f, char side, char trans, char part, int64_t nvec, double alpha,
                    const void *x, int64_t ldx, double beta, void *y, int64_t ldy, void *work) {
    const dense *d = (const dense *)f;
    const bool turned = (trans != 'N') == (side == 'L');
    const int64_t in = turned ? f->info.rows : f->info.cols,
                  out = turned ? f->info.cols : f->info.rows,
                  lda = f->info.rows > 1 ? f->info.rows : 1;
    const double ad = part == 'H' ? alpha / 2 : alpha;
    const float as = (float)ad, bs = (float)beta;
    const void *pa = f->o.type == BACKEND_D ? (const void *)&ad : &as;
    const void *pb = f->o.type == BACKEND_D ? (const void *)&beta : &bs;
    (void)work;
    return side == 'L' ? f->be->gemm(f->ctx, f->o.type, trans, 'N', out, nvec, in, pa, d->a, lda, x,
                                     ldx, pb, y, ldy, NULL, 0)
                       : f->be->gemm(f->ctx, f->o.type, 'N', trans, nvec, out, in, pa, x, ldx, d->a,
                                     lda, pb, y, ldy, NULL, 0);
}

const hier_table hier_dense = {.kind = HIER_DENSE,
                               .name = "dense",
                               .bytes = bytes,
                               .open = open_dense,
                               .load = load,
                               .close = close_dense,
                               .workspace = workspace,
                               .apply = apply};
