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
#define GROUPS 8       /* of columns of which R is computed after a step, */
#define GROUP 8        /* and columns of each */

/* |R|^2 and |B0|^2 of columns j .. j + n, added to sum; keep: R into b32. Waits. */
static status residual(fp16 *x, int64_t j, int64_t n, bool keep, double sum[2]) {
    engine *e = x->base.e;
    const backend_fp16 *h = e->be->fp16;
    const int64_t v = x->v, m = e->m, t = e->t, most = v > n ? v : n, d = sizeof(double);
    double *r = x->some[0], *host = x->host + x->nk * x->nk;
    status st;
    for (int d = 0; d < e->ndir; d++) {
        TRY(engine_aim_right(e, x->target, d));
        TRY(engine_fill_right(e, x->target, BACKEND_D, j, n, x->ctm64));
        TRY(engine_gemm(e, 'N', 'N', v, n, t, 1.0, x->proj + d * v * t, v, x->ctm64, t, d > 0, r,
                        v));
    }
    TRY(h->squares(e->ctx, BACKEND_D, v, n, r, v, most, x->numbers + 1, 1));
    TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, m, j, n},
                         x->columns, m));
    if (keep)
        TRY(fp16_exact_gemm(x, 0, m, n, -1, x->columns, m, r, v));
    else /* few columns */
        TRY(engine_gemm(e, 'N', 'N', v, n, m, -1.0, x->exact.w, v, x->columns, m, 1.0, r, v));
    TRY(h->squares(e->ctx, BACKEND_D, v, n, r, v, most, x->numbers, 1));
    if (keep && !x->split && x->base.f->spare != NULL)
        TRY(e->be->copy(e->ctx, x->base.f->spare + j * v, v * n * d, r, v * n * d, v * n * d, 1));
    if (keep && x->split)
        TRY(h->cast_to_single(e->ctx, v, n, r, v, x->b32 + j * v, v));
    TRY(engine_copy(e, host, x->numbers, FP16_NUMBERS));
    TRY(engine_sync(e));
    sum[0] += host[0];
    sum[1] += host[1];
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

/* R in b32, or where the factor takes it, and sums of |R|^2 and |B0|^2. Norms are exchanged as
 * bits: those of numbers that are not negative are ordered as the numbers. */
static status columns_of_it(fp16 *x, double sum[2]) {
    const product *base = &x->exact.base;
    const engine *e = x->base.e;
    const int64_t count = (e->m + e->width - 1) / e->width;
    const int size = base->group != NULL ? base->group->size : 1;
    int64_t *bits = NULL;
    double norms[2];
    status st;
    TRY(ALLOC(bits, 2 * (size_t)count, "norms of columns"));
    TRY(fp16_integers_take(x));
    for (int64_t p = 0; p < count; p++) {
        if (base->group == NULL || product_owner(base, p) == base->group->rank) {
            const int64_t j = p * e->width;
            norms[0] = norms[1] = 0;
            TRY(residual(x, j, engine_width(e, j, e->m), true, norms));
            for (int i = 0; i < 2; i++)
                norms[i] = fabs(norms[i]); /* the sign of a NaN */
            memcpy(bits + 2 * p, norms, sizeof norms);
        }
        if ((p + 1) % size == 0 || p + 1 == count)
            TRY(send_columns(x, p - p % size, p + 1));
    }
    if (base->group != NULL)
        group_largest(base->group, bits, 2 * count);
    for (int64_t p = 0; p < count; p++) {
        memcpy(norms, bits + 2 * p, sizeof norms);
        sum[0] += norms[0];
        sum[1] += norms[1];
    }
done:
    free(bits);
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
        TRY(residual(x, j, m - j < most ? m - j : most, false, sum));
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
    return st;
}

static wrows exact_rows(product *base, int slot) {
    const fp16 *x = ((fp16_exact *)base)->of;
    return (wrows){.slot = slot, .rows = x->v, .ld = x->v, .w = x->exact.w};
}

static status panel(product *base, int64_t j, int64_t n) {
    const fp16 *x = ((fp16_exact *)base)->of;
    engine *e = base->e;
    return e->mat->fill_cmm(e->cov, BACKEND_D, 'T', MATCOV_ALL, (matcov_region){j, e->m - j, j, n},
                            x->columns, e->m);
}

static status begin(product *base, const wrows *w, double *own) {
    (void)w, (void)own;
    return fp16_integers_take(((fp16_exact *)base)->of);
}

static status columns(product *base, const wrows *w, int64_t j, int64_t n, double *z, int64_t ldz) {
    fp16 *x = ((fp16_exact *)base)->of;
    const int64_t m = base->e->m, next = j + n;
    status st;
    if (x->integers.moduli == 0)
        return panel_product(base->e, w, j, n, x->columns, m, z, ldz);
    TRY(panel_diagonal(base->e, w, j, n, x->columns, m, z, ldz));
    if (next < m)
        TRY(fp16_exact_gemm(x, next, m - next, n, 1, x->columns + n, m, z, ldz));
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
