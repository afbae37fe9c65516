/* A source of entries: a kernel at points. */
#include "points.h"
#include "internal.h"
#include <math.h>
#include <stdlib.h>

typedef struct {
    const backend *be;
    backend_ctx *ctx;
    hier_function f;
    int dim;
    int64_t n;
    double *at;        /* device */
    double *table;     /* device, or NULL */
    double *owned;     /* host: coordinates that belong to the source, or NULL */
    int *number;       /* device: 0, 1, 2, ... */
    const int **lists; /* device: where the rows and the columns of a block begin */
} points;

static status gather(void *from, backend_ctx *ctx, backend_type t, const hier_blocks *blocks) {
    const points *p = from;
    return p->be->hier->entries(ctx, t, &p->f, p->dim, p->at, p->at, blocks);
}

/* Between places that are no points of the source: none has a nugget. */
static status values(void *from, backend_ctx *ctx, backend_type t, const double *x,
                     const hier_blocks *blocks) {
    const points *p = from;
    hier_function f = p->f;
    f.nugget = 0;
    return p->be->hier->entries(ctx, t, &f, p->dim, x, x, blocks);
}

static status block(void *from, backend_ctx *ctx, backend_type t, int64_t i0, int64_t ni,
                    int64_t j0, int64_t nj, void *a, int64_t lda) {
    points *p = from;
    const int *where[2] = {p->number + i0, p->number + j0};
    status st = p->be->copy(ctx, p->lists, sizeof where, where, sizeof where, sizeof where, 1);
    const hier_blocks b = {
        1, batch_size(ni), batch_size(nj), p->lists, p->lists + 1, batch_strided(a, lda, 0), false};
    if (st == MOAO_OK)
        st = p->be->sync(ctx);
    return st != MOAO_OK ? st : gather(from, ctx, t, &b);
}

/* n doubles to the device. */
static status send(const points *p, const double *from, int64_t n, double **to) {
    status st;
    TRY(p->be->alloc(p->ctx, 8 * (size_t)n + 1, (void **)to));
    TRY(p->be->copy(p->ctx, *to, 8 * n, from, 8 * n, 8 * n, 1));
    st = p->be->sync(p->ctx);
done:
    return st;
}

status hier_function_open(const backend *be, backend_ctx *ctx, const hier_function *f, int dim,
                          int64_t n, const double *at, double *owned, hier_source *s) {
    points *p = NULL;
    int *number = NULL;
    status st = MOAO_OK;
    *s = (hier_source){0};
    TRY(ALLOC(p, 1, "a source of entries"));
    *p = (points){.be = be, .ctx = ctx, .f = *f, .dim = dim, .n = n, .owned = owned};
    *s = (hier_source){.from = p,
                       .rows = n,
                       .cols = n,
                       .symmetric = f->kernel != HIER_CAUCHY,
                       .mirrored = true,
                       .dim = dim,
                       .at = at,
                       .block = block,
                       .gather = gather,
                       .values = values};
    TRY(ALLOC(number, (unsigned long)n, "numbers of points"));
    for (int64_t i = 0; i < n; i++)
        number[i] = (int)i;
    const int64_t ints = (int64_t)sizeof(int) * n;
    TRY(send(p, at, dim * n, &p->at));
    if (f->steps > 0)
        TRY(send(p, f->table, f->steps, &p->table));
    p->f.table = p->table;
    TRY(be->alloc(ctx, (size_t)ints, (void **)&p->number));
    TRY(be->alloc(ctx, 2 * sizeof(int *), (void **)&p->lists));
    TRY(be->copy(ctx, p->number, ints, number, ints, ints, 1));
    TRY(be->sync(ctx));
done:
    free(number);
    if (st != MOAO_OK && p)
        p->owned = NULL; /* the caller's still */
    if (st != MOAO_OK)
        hier_points_close(s);
    return st;
}

status hier_points_open(const backend *be, backend_ctx *ctx, hier_kernel kernel, double length,
                        int dim, int64_t n, const double *at, hier_source *s) {
    const hier_function f = {.kernel = kernel, .length = length, .variance = 1};
    *s = (hier_source){0};
    if (!be->hier || n < 0 || n > INT32_MAX || dim < 1 || dim > 3 || kernel > HIER_GAUSSIAN ||
        (kernel == HIER_CAUCHY && dim != 1) ||
        (kernel != HIER_CAUCHY && !(length > 0 && isfinite(length))))
        return status_fail(MOAO_INPUT, "a kernel at %lld points of %d dimensions, length %g",
                           (long long)n, dim, length);
    for (int64_t i = 0; i < n * dim; i++)
        if (!isfinite(at[i]))
            return status_fail(MOAO_NUMERIC, "coordinate %lld of point %lld is %g",
                               (long long)(i % dim), (long long)(i / dim), at[i]);
    return hier_function_open(be, ctx, &f, dim, n, at, NULL, s);
}

void hier_points_close(hier_source *s) {
    points *p = s->from;
    if (p) {
        p->be->release(p->ctx, p->at), p->be->release(p->ctx, p->number);
        p->be->release(p->ctx, (void *)p->lists), p->be->release(p->ctx, p->table);
        free(p->owned);
    }
    free(p);
    *s = (hier_source){0};
}
