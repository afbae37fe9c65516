/* The reference of the product in FP16: W of one target in double precision, and T of an exposure
 * panel by panel, which is made, used and overwritten.
 *
 * That W comes from the factor in FP16 too, by steps with a residual in double precision, R = B0
 * - W Cmm0 with Cmm0 made anew: each shrinks R a thousand times or so, so that one step is enough
 * as a rule. What the factor in FP16 is like decides nothing about where it ends.
 *
 * Where devices sample together, they take turns at the columns of R, and have W from the sampler.
 * Columns are the same whoever computes them, and the sampler adds up their norms in their order:
 * the bits are those of one device alone. */
#include "residual/fp16_internal.h"
#include "residual/fp64_panels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* |R| / |B0| that is enough: products with W as it is feel its errors in second order (2e-4 changes
 * a Strehl ratio by 1.4e-6 at the full scale), those of the residual phase in first order, where
 * the 8e-5 of W itself change one by 7e-5 at most: 5e-7 then changes it by less than 5e-7. One step
 * leaves 7e-8 (published model) to 3e-7 (residual phase) at the full scale. */
#define SETTLED 5e-7
#define STEPS 4
#define STEPS_DOUBLE 8 /* of a compressed factor, whose tolerance may be loose */
#define GROUPS 8       /* of columns at which R is looked at after a step, */
#define GROUP 8        /* and columns of each */

/* B0 of columns j .. j + n into r, and its |B0|^2 into *square. */
static status right_side(fp16 *x, int64_t j, int64_t n, double *r, double *square) {
    engine *e = x->base.e;
    const int64_t v = x->v, t = e->t;
    status st;
    for (int d = 0; d < e->ndir; d++) {
        TRY(engine_aim_right(e, x->target, d));
        TRY(engine_fill_right(e, x->target, BACKEND_D, j, n, x->ctm64));
        TRY(engine_gemm(e, 'N', 'N', v, n, t, 1.0, x->proj + d * v * t, v, x->ctm64, t, d > 0, r,
                        v));
    }
    st = e->be->fp16->squares(e->ctx, BACKEND_D, v, n, r, v, v > n ? v : n, square, 1);
done:
    return st;
}

/* |R|^2 and |B0|^2 of few columns j .. j + n, added to sum. Waits. */
static status add_residual(fp16 *x, int64_t j, int64_t n, double sum[2]) {
    engine *e = x->base.e;
    const int64_t v = x->v, m = e->m;
    double *r = x->some[0], *host = x->host + x->nk * x->nk;
    status st;
    TRY(right_side(x, j, n, r, x->numbers + 1));
    TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, 0, m, j, n, x->columns, m));
    TRY(engine_gemm(e, 'N', 'N', v, n, m, -1.0, x->exact.w, v, x->columns, m, 1.0, r, v));
    TRY(e->be->fp16->squares(e->ctx, BACKEND_D, v, n, r, v, v > n ? v : n, x->numbers, 1));
    TRY(engine_copy(e, host, x->numbers, FP16_NUMBERS));
    TRY(engine_sync(e));
    sum[0] += host[0];
    sum[1] += host[1];
done:
    return st;
}

/* --- all columns of R, by parts of a panel. B0 and Cmm0 of a part are evaluated in the stream of
 * the covariances while the product of the part before is computed in that of low priority: two
 * parts have memory of their own. */

typedef struct {
    int64_t j, n;        /* its columns */
    double *r, *columns; /* v x n, m x n */
    double *norms;       /* on the device: |R|^2 and |B0|^2 */
} part;

enum { PARTS = 2, NORMS = 2 };

/* Part i of the panel of n columns at j; n may be 0. */
static part part_of(const fp16 *x, int64_t j, int64_t n, int i, double *norms) {
    const int64_t most = (x->base.e->width + 1) / PARTS, first = n < most ? n : most;
    return (part){.j = j + i * first,
                  .n = i == 0 ? first : n - first,
                  .r = x->some[0] + i * most * x->v,
                  .columns = x->columns + i * most * x->base.e->m,
                  .norms = norms + i * NORMS};
}

static status evaluate(fp16 *x, const part *q) {
    engine *e = x->base.e;
    const int64_t m = e->m;
    status st;
    TRY(right_side(x, q->j, q->n, q->r, q->norms + 1));
    st = e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, 0, m, q->j, q->n, q->columns, m);
done:
    return st;
}

/* R of the part, into b32 or where the factor takes it. */
static status multiply(fp16 *x, const part *q) {
    const engine *e = x->base.e;
    const backend_fp16 *h = e->be->fp16;
    const int64_t v = x->v, n = q->n, bytes = v * n * (int64_t)sizeof(double);
    status st;
    TRY(fp16_exact_gemm(x, e->low, 0, e->m, n, -1, q->columns, e->m, q->r, v));
    TRY(h->squares(e->low, BACKEND_D, v, n, q->r, v, v > n ? v : n, q->norms, 1));
    if (!x->split && x->base.f->spare != NULL)
        TRY(e->be->copy(e->low, x->base.f->spare + q->j * v, bytes, q->r, bytes, bytes, 1));
    if (x->split)
        TRY(h->cast_to_single(e->low, v, n, q->r, v, x->b32 + q->j * v, v));
done:
    return st;
}

/* A panel; norms: PARTS NORMS numbers on the device. */
static status one_panel(fp16 *x, int64_t j, int64_t n, double *norms) {
    const engine *e = x->base.e;
    status st = MOAO_OK;
    for (int i = 0; i < PARTS; i++) {
        const part q = part_of(x, j, n, i, norms);
        if (q.n == 0)
            continue;
        TRY(evaluate(x, &q));
        TRY(e->be->wait_for(e->low, e->ctx));
        TRY(e->be->wait_for(e->ctx, e->low)); /* the part before, whose memory is next */
        TRY(multiply(x, &q));
    }
done:
    return st;
}

/* --- together */

/* What the sampler says next: R is to be computed; W is exact; it cannot be. The others listen with
 * 0. */
enum { COLUMNS = 1, EXACT, FAILED };

static int64_t hear(const fp16 *x, int64_t word) {
    if (x->exact.base.group != NULL)
        group_largest(x->exact.base.group, &word, 1);
    return word;
}

/* W of the sampler on all devices. */
static status send_w(const fp16 *x) {
    device_group *g = x->exact.base.group;
    return g == NULL ? MOAO_OK
                     : group_send(g, x->exact.w, (size_t)(x->v * x->base.e->m) * sizeof(double),
                                  x->exact.base.sampler);
}

/* The others may wait for columns of this rank. */
static status or_abort(const fp16 *x, status st) {
    if (st != MOAO_OK && x->exact.base.group != NULL && status_message()[0] != '\0')
        comm_abort(x->base.e->c);
    return st;
}

/* Panels [from, end) of R from their owners, to all. */
static status send_columns(const fp16 *x, int64_t from, int64_t end) {
    const product *base = &x->exact.base;
    const engine *e = x->base.e;
    status st = MOAO_OK;
    for (int64_t p = from; p < end && base->group != NULL && st == MOAO_OK; p++) {
        const int64_t j = p * e->width, n = engine_width(e, j, e->m);
        st = group_send(base->group, x->b32 + j * x->v, (size_t)(x->v * n) * sizeof(float),
                        product_owner(base, p));
    }
    return st;
}

/* R in b32, or where the factor takes it: this rank's panels, those of all where they are several.
 * norms: [panels][PARTS][NORMS], on the device, 0 where there is no such part or it is another
 * rank's. */
static status panels_of_it(fp16 *x, double *norms) {
    const product *base = &x->exact.base;
    const engine *e = x->base.e;
    const int64_t count = (e->m + e->width - 1) / e->width;
    const int size = base->group != NULL ? base->group->size : 1;
    status st;
    TRY(fp16_integers_take(x));
    for (int64_t p = 0; p < count; p++) {
        const int64_t j = p * e->width;
        if (base->group == NULL || product_owner(base, p) == base->group->rank)
            TRY(one_panel(x, j, engine_width(e, j, e->m), norms + p * PARTS * NORMS));
        if ((p + 1) % size != 0 && p + 1 < count)
            continue;
        if (base->group != NULL)
            TRY(e->be->wait_for(e->ctx, e->low));
        TRY(send_columns(x, p - p % size, p + 1));
    }
    st = e->be->wait_for(e->ctx, e->low);
done:
    return st;
}

/* R and sums of |R|^2 and |B0|^2. Norms are exchanged as bits: those of numbers that are not
 * negative are ordered as the numbers. */
static status columns_of_it(fp16 *x, double sum[NORMS]) {
    const product *base = &x->exact.base;
    engine *e = x->base.e;
    const int64_t all = (e->m + e->width - 1) / e->width * PARTS * NORMS;
    double *norms = NULL, *host = NULL;
    int64_t *bits = NULL;
    status st;
    TRY(ALLOC(host, (size_t)all, "norms of columns"));
    TRY(ALLOC(bits, (size_t)all, "norms of columns"));
    TRY(engine_doubles(e, all, "norms of columns", &norms));
    TRY(engine_copy(e, norms, host, all)); /* zeros */
    TRY(engine_sync(e));
    TRY(panels_of_it(x, norms));
    TRY(engine_copy(e, host, norms, all));
    TRY(engine_sync(e));
    for (int64_t i = 0; i < all; i++)
        host[i] = fabs(host[i]); /* the sign of a NaN */
    memcpy(bits, host, (size_t)all * sizeof *bits);
    if (base->group != NULL)
        group_largest(base->group, bits, all);
    memcpy(host, bits, (size_t)all * sizeof *bits);
    for (int64_t i = 0; i < all; i++)
        sum[i % NORMS] += host[i];
done:
    if (st != MOAO_OK) { /* nothing may write to the host's array any more */
        e->be->sync(e->low);
        e->be->sync(e->ctx);
    }
    ENGINE_RELEASE(e, norms);
    free(bits);
    free(host);
    return or_abort(x, st);
}

/* What the others than the sampler do while it settles. *exact: they have that W. */
static status help(fp16 *x, bool *exact) {
    double sum[2] = {0, 0};
    int64_t word;
    status st = MOAO_OK;
    while ((word = hear(x, 0)) != FAILED && !*exact) {
        TRY(send_w(x));
        *exact = word == EXACT;
        if (*exact)
            break;
        TRY(columns_of_it(x, sum));
    }
done:
    return or_abort(x, st);
}

/* |R| / |B0|, and R in b32, or where the factor takes it. */
static status all_of_it(fp16 *x, double *rho) {
    const engine *e = x->base.e;
    double sum[2] = {0, 0};
    status st;
    hear(x, COLUMNS);
    TRY(or_abort(x, send_w(x)));
    TRY(columns_of_it(x, sum));
    *rho = sum[1] > 0 ? sqrt(sum[0] / sum[1]) : 0;
    e->rep->flops[STAGE_EXPOSURE] += 2.0 * (double)(x->v * e->m) * (double)(e->m + e->t);
done:
    return st;
}

/* The same at some columns, spread over the measurements. */
static status some_of_it(fp16 *x, double *rho) {
    const int64_t m = x->base.e->m, width = x->base.e->width;
    double sum[2] = {0, 0};
    status st = MOAO_OK;
    for (int k = 0; k < GROUPS; k++) {
        const int64_t j = m * (2 * k + 1) / (2 * GROUPS), most = width < GROUP ? width : GROUP;
        TRY(add_residual(x, j, m - j < most ? m - j : most, sum));
    }
    *rho = sum[1] > 0 ? sqrt(sum[0] / sum[1]) : 0;
done:
    return st;
}

/* W += R Cmm0^-1, R about rho times as large as B0: brought near the size of that, for FP16.
 */
static status step(fp16 *x, double rho) {
    const int up = rho > 0 ? (int)floor(-log2(rho)) - FP16_SMALLER : 0;
    return fp16_factor_step(x->base.f, up, x->b32, x->b0[0], x->b0[1], true, x->exact.w, x->v);
}

/* W by another factor, unless the last solve was of that target, and the same step of it. */
static status start_double(fp16 *x) {
    engine *e = x->base.e;
    const int64_t v = x->v, t = e->t;
    const wrows w = {.rows = v, .ld = v, .w = x->exact.w};
    status st = MOAO_OK;
    for (int d = 0; d < e->ndir; d++) {
        TRY(engine_aim_right(e, x->target, d));
        for (int64_t j = 0, n; j < e->m; j += n) {
            n = engine_width(e, j, e->m);
            TRY(engine_fill_right(e, x->target, BACKEND_D, j, n, x->ctm64));
            TRY(engine_gemm(e, 'N', 'N', v, n, t, 1.0, x->proj + d * v * t, v, x->ctm64, t, d > 0,
                            x->exact.w + j * v, v));
        }
    }
    st = x->base.f->kind->solve(x->base.f, 1, &w);
done:
    return st;
}

static status step_double(fp16 *x, bool again) {
    factor *f = x->base.f;
    const wrows w = {.rows = x->v, .ld = x->v, .w = x->exact.w};
    return f->kind->refine != NULL ? f->kind->refine(f, &w, again) : MOAO_OK;
}

/* The first W by a factor in split FP16. */
static status start(fp16 *x) {
    const engine *e = x->base.e;
    status st;
    TRY(fp16_factor_begin_solves(x->base.f, true));
    TRY(fp16_right(&x->base, x->target));
    TRY(fp16_factor_divide(x->base.f, x->b32, x->b0[0], x->b0[1]));
    TRY(e->be->fp16->cast_to_double(e->ctx, x->v, e->m, 1, x->b32, x->v, 0, x->exact.w, x->v));
done:
    return st;
}

/* Steps of a compressed factor take a residual in split FP16; one in double precision at first, and
 * again where they shrink it no more. */
static status settle(fp16 *x, bool begun) {
    double rho = NAN, before = INFINITY;
    bool exact = true;
    status st = MOAO_OK;
    if (!begun)
        TRY(x->split ? start(x) : start_double(x));
    for (int k = 0; k < (x->split ? STEPS : STEPS_DOUBLE); k++) {
        if (exact || x->split)
            TRY(all_of_it(x, &rho));
        if (rho <= SETTLED)
            return st;
        if (!(rho < (x->split ? 0.5 : 0.9) * before)) {
            if (exact || x->split)
                break;
            exact = true;
            before = INFINITY;
            continue;
        }
        before = rho;
        TRY(x->split ? step(x, rho) : step_double(x, !exact));
        exact = false;
        TRY(some_of_it(x, &rho));
        if (rho <= SETTLED)
            return st;
    }
    st = status_fail(MOAO_NUMERIC,
                     "mixed precision: W of a target cannot be made exact (its residual stays at "
                     "%.1e): Cmm is too badly conditioned; use compute.precision=double or give "
                     "the sensors more noise",
                     rho);
done:
    return st;
}

/* No panel of T is there yet. */
static void begin_panels(fp16 *x) {
    x->exact.panel = x->columns;
    x->exact.ahead = fp16_rows(x->v) >= x->base.e->width ? (double *)(void *)x->b32 : NULL;
    x->exact.next = -1;
}

static status sharpen(product *base, int target, const double dir[2]) {
    fp16 *x = ((fp16_exact *)base)->of;
    engine *e = base->e;
    const bool samples = product_samples(base), known = samples && x->exact.target == target;
    bool begun, exact = samples;
    status st = MOAO_OK;
    if (known)
        goto done;
    report_phase("exposure: W of the sampled target");
    x->exact.target = -1;
    TRY(engine_load(e, x->tor));
    TRY(e->mat->aim(x->target, dir, false));
    begun = x->exact.solved && memcmp(dir, x->exact.dir, sizeof x->exact.dir) == 0;
    x->exact.solved = false;
    if (samples)
        TRY(settle(x, begun));
done:
    if (!samples) {
        st = st == MOAO_OK ? help(x, &exact) : or_abort(x, st);
    } else if (base->group != NULL) {
        hear(x, st == MOAO_OK ? EXACT : FAILED);
        st = st == MOAO_OK ? or_abort(x, send_w(x)) : st;
    }
    if (st == MOAO_OK && exact && base->group != NULL) /* whose exposures do not begin by `begin` */
        st = or_abort(x, fp16_integers_take(x));
    x->exact.target = st == MOAO_OK && exact ? target : -1;
    begin_panels(x);
    return st;
}

static wrows exact_rows(product *base, int slot) {
    const fp16 *x = ((fp16_exact *)base)->of;
    return (wrows){.slot = slot, .rows = x->v, .ld = x->v, .w = x->exact.w};
}

/* --- T of an exposure: while the product with a panel is computed in the stream of low priority,
 * the next panel is evaluated in that of the covariances, in the memory of the solve. */

static status fill_panel(const fp16 *x, int64_t j, double *to) {
    const engine *e = x->base.e;
    return e->mat->fill_cmm(e->cov, BACKEND_D, 'T', MATCOV_ALL, j, e->m - j, j,
                            engine_width(e, j, e->m), to, e->m);
}

static status begin(product *base, const wrows *w, double *own) {
    fp16 *x = ((fp16_exact *)base)->of;
    (void)w, (void)own;
    begin_panels(x);
    return fp16_integers_take(x);
}

static status panel(product *base, int64_t j, int64_t n) {
    fp16 *x = ((fp16_exact *)base)->of;
    fp16_exact *q = &x->exact;
    double *before = q->panel;
    (void)n;
    if (q->next != j)
        return fill_panel(x, j, q->panel);
    q->panel = q->ahead;
    q->ahead = before;
    q->next = -1;
    return MOAO_OK;
}

/* First column of this device's next panel, or one beyond the last. */
static int64_t column_after(const product *base, int64_t j) {
    const engine *e = base->e;
    int64_t p = j / e->width + 1;
    while (base->group != NULL && p * e->width < e->m &&
           product_owner(base, p) != base->group->rank)
        p++;
    return p * e->width;
}

static status columns(product *base, const wrows *w, int64_t j, int64_t n, double *z, int64_t ldz) {
    fp16 *x = ((fp16_exact *)base)->of;
    fp16_exact *q = &x->exact;
    engine *e = base->e;
    const int64_t m = e->m, below = j + n, after = column_after(base, j);
    status st;
    TRY(panel_diagonal(e, w, j, n, q->panel, m, z, ldz));
    TRY(e->be->wait_for(e->low, e->ctx));
    if (below < m)
        TRY(fp16_exact_gemm(x, e->low, below, m - below, n, 1, q->panel + n, m, z, ldz));
    if (q->ahead != NULL && q->next < 0 && after < m) {
        TRY(fill_panel(x, after, q->ahead));
        q->next = after;
    }
    st = e->be->wait_for(e->ctx, e->low);
done:
    return st;
}

const product_kind fp16_exact_kind = {
    .size = sizeof(product_kind),
    .name = "fp16, reference",
    .exact = true,
    .sharpen = sharpen,
    .exact_rows = exact_rows,
    .begin = begin,
    .panel = panel,
    .columns = columns,
};
