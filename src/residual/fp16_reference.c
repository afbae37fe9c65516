/* The reference of the product in FP16: W of one target in double precision, and W T of an
 * exposure, T block by block.
 *
 * That W comes from the factor in FP16 too, by steps with a residual in double precision, R = B0
 * - W Cmm0 with Cmm0 made anew: each shrinks R a thousand times or so, so that one step is enough
 * as a rule. What the factor in FP16 is like decides nothing about where it ends.
 *
 * Cmm0 is symmetric: each of its blocks is formed once on a device, for the two panels of columns
 * of R that it enters. Where devices sample together, they take turns at these panels and at those
 * of W T, and have W from the sampler. Panels are the same whoever computes them, and the sampler
 * adds up their norms in their order: the bits are those of one device alone. */
#include "residual/fp16_internal.h"

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

/* r := columns j .. j + n of B0 in double precision: as many at once as x->columns, or ctm64, has
 * room for. */
static status right_at(fp16 *x, int64_t j, int64_t n, double *r) {
    engine *e = x->base.e;
    const int64_t v = x->v, t = e->t, room = fp16_columns_room(e->m, e->width) / t,
                  most = room > e->width ? room : e->width;
    double *const ctm = room > e->width ? x->columns : x->ctm64;
    status st = MOAO_OK;
    for (int64_t i = 0, some; i < n; i += some) {
        some = n - i < most ? n - i : most;
        for (int d = 0; d < e->ndir; d++) {
            TRY(engine_aim_right(e, x->target, d));
            TRY(engine_fill_right(e, x->target, BACKEND_D, j + i, some, ctm));
            TRY(engine_gemm(e, 'N', 'N', v, some, t, 1.0, x->proj + d * v * t, v, ctm, t, d > 0,
                            r + i * v, v));
        }
    }
done:
    return st;
}

/* The sum of the squares of n columns is added to *sum. Waits. */
static status add_squares(fp16 *x, int64_t n, const double *r, double *sum) {
    engine *e = x->base.e;
    double *host = x->host + x->nk * x->nk;
    status st;
    TRY(e->be->fp16->squares(e->ctx, BACKEND_D, x->v, n, r, x->v, x->v > n ? x->v : n, x->numbers,
                             1));
    TRY(engine_copy(e, host, x->numbers, 1));
    TRY(engine_sync(e));
    *sum += host[0];
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

/* --- R on all devices, in panels of columns that take turns: those of a sensor, so that
 * covariances of both axes of two subapertures are formed together, or equal parts of them where
 * its block of Cmm0 has no room */

/* Numbers that x->columns holds of a block, less what its sides are padded by. */
#define PADDED ((int64_t)(2 * INTEGER_STEP))

static sensor_columns panel_after(const fp16 *x, sensor_columns p) {
    const engine *e = x->base.e;
    return engine_columns_after(
        e, (int64_t)sqrt((double)fp16_columns_room(e->m, e->width)) - PADDED, p);
}

static sensor_columns first_panel(const fp16 *x) {
    return panel_after(x, (sensor_columns){-1, 0, 0});
}

static bool is_panel(const fp16 *x, const sensor_columns *p) {
    return p->j < x->base.e->m;
}

static bool is_mine(const fp16 *x, const sensor_columns *p) {
    const device_group *g = x->exact.base.group;
    return g == NULL || product_owner(&x->exact.base, p->number) == g->rank;
}

/* R from column j on, in double precision, in the place of b32 and b0. */
static double *exact_at(const fp16 *x, int64_t j) {
    return (double *)(void *)x->b32 + j * x->v;
}

/* C(I, P) in x->columns: I the rows of panels `from` to `to`, of which this device needs some. Row
 * i and column j are at rows and columns that equal them modulo INTEGER_STEP, behind zeros. */
typedef struct {
    sensor_columns p, from, to; /* to: the last */
    int64_t ld;
    double *at; /* C(from.j, p.j) */
} block;

static int64_t ahead(int64_t i) {
    return i % INTEGER_STEP;
}

/* As many panels from `from` on as there is room for. */
static block block_of(const fp16 *x, sensor_columns p, sensor_columns from) {
    const engine *e = x->base.e;
    const int64_t room = fp16_columns_room(e->m, e->width) / (p.end - p.j + PADDED) - PADDED;
    block b = {.p = p, .from = from, .to = from};
    for (sensor_columns q = from; is_panel(x, &q) && q.end - from.j <= room; q = panel_after(x, q))
        b.to = q;
    b.ld = integer_ld(ahead(from.j) + b.to.end - from.j);
    b.at = x->columns + ahead(from.j) + ahead(p.j) * b.ld;
    return b;
}

/* Sensor by sensor: what an entry is rounded to may depend on the block in which it is formed.
 * part: A, or T: lower triangle with half the diagonal, zeros above. */
static status fill_block(fp16 *x, char part, const block *b) {
    engine *e = x->base.e;
    const int64_t n = b->p.end - b->p.j, before = ahead(b->from.j), left = ahead(b->p.j);
    status st;
    TRY(engine_zero(e, BACKEND_D, b->ld, left, x->columns, b->ld));
    TRY(engine_zero(e, BACKEND_D, before, n, b->at - before, b->ld));
    if (part == 'T' && b->from.j == b->p.j)
        TRY(engine_zero(e, BACKEND_D, n, n, b->at, b->ld));
    for (sensor_columns q = b->from; q.number <= b->to.number; q = panel_after(x, q))
        if (is_mine(x, &b->p) || is_mine(x, &q))
            TRY(e->mat->fill_cmm(e->cov, BACKEND_D, q.number == b->p.number ? part : 'A',
                                 MATCOV_ALL, (matcov_region){q.j, q.end - q.j, b->p.j, n},
                                 b->at + (q.j - b->from.j), b->ld));
done:
    return st;
}

/* R(P) -= W(I) C(I, P), and R(Q) -= W(P) C(Q, P)' for the panels Q of I behind P, as far as R is on
 * this device. A panel has its terms in the same order whoever has it; sums of integers are the
 * same however columns are grouped. */
static status take_block(fp16 *x, const block *b) {
    const int64_t v = x->v, n = b->p.end - b->p.j;
    status st;
    TRY(fill_block(x, 'A', b));
    if (is_mine(x, &b->p))
        TRY(fp16_exact_gemm(x, 'N', b->from.j, b->to.end - b->from.j, n, -1, b->at, b->ld,
                            exact_at(x, b->p.j), v));
    for (sensor_columns q = b->from, last; q.number <= b->to.number; q = panel_after(x, last)) {
        last = q;
        if (q.number == b->p.number || !is_mine(x, &q))
            continue;
        for (sensor_columns next = panel_after(x, q);
             x->integers.moduli > 0 && next.number <= b->to.number && is_mine(x, &next);
             next = panel_after(x, next))
            last = next;
        TRY(fp16_exact_gemm(x, 'T', b->p.j, n, last.end - q.j, -1, b->at + (q.j - b->from.j), b->ld,
                            exact_at(x, q.j), v));
    }
done:
    return st;
}

static status take_panel(fp16 *x, sensor_columns p) {
    status st = MOAO_OK;
    for (sensor_columns from = p; is_panel(x, &from) && st == MOAO_OK;) {
        const block b = block_of(x, p, from);
        bool any = is_mine(x, &p);
        for (sensor_columns q = from; q.number <= b.to.number; q = panel_after(x, q))
            any = any || is_mine(x, &q);
        st = any ? take_block(x, &b) : st;
        from = panel_after(x, b.to);
    }
    return st;
}

/* Columns of R go where steps take them: into b32, or to the factor. Those before are there
 * already: in single precision none reaches into those behind. */
static status keep_columns(fp16 *x, int64_t j, int64_t n) {
    const engine *e = x->base.e;
    const int64_t v = x->v, bytes = v * n * (int64_t)sizeof(double);
    double *const spare = x->base.f->spare, *r = exact_at(x, j);
    status st = MOAO_OK;
    if (!x->split && spare != NULL)
        TRY(e->be->copy(e->ctx, spare + j * v, bytes, r, bytes, bytes, 1));
    if (x->split) {
        TRY(e->be->copy(e->ctx, x->some[0], bytes, r, bytes, bytes, 1));
        TRY(e->be->fp16->cast_to_single(e->ctx, v, n, x->some[0], v, x->b32 + j * v, v));
    }
done:
    return st;
}

/* The panels of R from their owners, to all. */
static status send_columns(const fp16 *x) {
    const product *base = &x->exact.base;
    status st = MOAO_OK;
    for (sensor_columns p = first_panel(x); is_panel(x, &p) && base->group != NULL && st == MOAO_OK;
         p = panel_after(x, p))
        st = group_send(base->group, x->b32 + p.j * x->v,
                        (size_t)(x->v * (p.end - p.j)) * sizeof(float),
                        product_owner(base, p.number));
    return st;
}

/* This device's panels of R; norms: |R|^2 and |B0|^2 of each, as they are, others stay. */
static status form_columns(fp16 *x, double *norms) {
    const engine *e = x->base.e;
    status st;
    TRY(fp16_integers_take(x));
    for (sensor_columns p = first_panel(x); is_panel(x, &p); p = panel_after(x, p)) {
        if (!is_mine(x, &p))
            continue;
        TRY(right_at(x, p.j, p.end - p.j, exact_at(x, p.j)));
        TRY(add_squares(x, p.end - p.j, exact_at(x, p.j), norms + 2 * p.number + 1));
    }
    for (sensor_columns p = first_panel(x); is_panel(x, &p); p = panel_after(x, p))
        TRY(take_panel(x, p));
    for (sensor_columns p = first_panel(x); is_panel(x, &p); p = panel_after(x, p))
        for (int64_t j = p.j, n; j < p.end && is_mine(x, &p); j += n) {
            n = engine_width(e, j, p.end);
            TRY(add_squares(x, n, exact_at(x, j), norms + 2 * p.number));
            TRY(keep_columns(x, j, n));
        }
done:
    return st;
}

static int64_t panels_of(const fp16 *x) {
    sensor_columns p = first_panel(x);
    while (is_panel(x, &p))
        p = panel_after(x, p);
    return p.number;
}

/* R in b32, or where the factor takes it, and sums of |R|^2 and |B0|^2. Norms are exchanged as
 * bits: those of numbers that are not negative are ordered as the numbers. */
static status columns_of_it(fp16 *x, double sum[2]) {
    const product *base = &x->exact.base;
    const int64_t count = panels_of(x);
    const size_t bytes = 2 * (size_t)count * sizeof(double);
    int64_t *bits = NULL;
    double *norms = NULL;
    status st;
    TRY(ALLOC(bits, 2 * (size_t)count, "norms of columns"));
    TRY(ALLOC(norms, 2 * (size_t)count, "norms of columns"));
    TRY(form_columns(x, norms));
    TRY(send_columns(x));
    for (int64_t i = 0; i < 2 * count; i++)
        norms[i] = fabs(norms[i]); /* the sign of a NaN */
    memcpy(bits, norms, bytes);
    if (base->group != NULL)
        group_largest(base->group, bits, 2 * count);
    memcpy(norms, bits, bytes);
    for (int64_t i = 0; i < 2 * count; i++)
        sum[i % 2] += norms[i];
done:
    free(bits);
    free(norms);
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

/* Group k of some columns, `most` of them where there are so many. */
static sensor_columns some_columns(int64_t m, int64_t k, int64_t groups, int64_t most) {
    const int64_t j = m * (2 * k + 1) / (2 * groups);
    return (sensor_columns){(int)k, j, m - j < most ? m : j + most};
}

/* The same at some columns, spread over the measurements: B0 direction by direction, whose tables
 * take longer than few columns. */
static status some_of_it(fp16 *x, double *rho) {
    engine *e = x->base.e;
    const int64_t v = x->v, m = e->m, t = e->t, width = e->width,
                  groups = width < GROUPS ? width : GROUPS,
                  most = width / groups < GROUP ? width / groups : GROUP;
    double sum[2] = {0, 0};
    status st = MOAO_OK;
    for (int d = 0; d < e->ndir; d++) {
        TRY(engine_aim_right(e, x->target, d));
        for (int64_t k = 0; k < groups; k++) {
            const sensor_columns p = some_columns(m, k, groups, most);
            TRY(engine_fill_right(e, x->target, BACKEND_D, p.j, p.end - p.j, x->ctm64));
            TRY(engine_gemm(e, 'N', 'N', v, p.end - p.j, t, 1.0, x->proj + d * v * t, v, x->ctm64,
                            t, d > 0, x->some[0] + k * most * v, v));
        }
    }
    for (int64_t k = 0; k < groups; k++) {
        const sensor_columns p = some_columns(m, k, groups, most);
        const int64_t n = p.end - p.j;
        double *r = x->some[0] + k * most * v;
        TRY(add_squares(x, n, r, sum + 1));
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, m, p.j, n},
                             x->columns, m));
        TRY(engine_gemm(e, 'N', 'N', v, n, m, -1.0, x->exact.w, v, x->columns, m, 1.0, r, v));
        TRY(add_squares(x, n, r, sum));
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
    else if (x->base.f->kind->refine == NULL) /* a factor in double precision: some columns tell */
        TRY(some_of_it(x, &rho));
    if (rho <= SETTLED)
        return st;
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
    x->exact.target = st == MOAO_OK && exact ? target : -1;
    return st;
}

static wrows exact_rows(product *base, int slot) {
    const fp16 *x = ((fp16_exact *)base)->of;
    return (wrows){.slot = slot, .rows = x->v, .ld = x->v, .w = x->exact.w};
}

/* --- W T of an exposure, in the place of R: panels take turns as those of R do, then all devices
 * have all of it */

/* (W T)(P) = W(I) T(I, P), I the rows from P on. */
static status take_products(fp16 *x, sensor_columns p) {
    const int64_t v = x->v, n = p.end - p.j;
    status st;
    TRY(engine_zero(x->base.e, BACKEND_D, v, n, exact_at(x, p.j), v));
    for (sensor_columns from = p; is_panel(x, &from);) {
        const block b = block_of(x, p, from);
        TRY(fill_block(x, 'T', &b));
        TRY(fp16_exact_gemm(x, 'N', b.from.j, b.to.end - b.from.j, n, 1, b.at, b.ld,
                            exact_at(x, p.j), v));
        from = panel_after(x, b.to);
    }
done:
    return st;
}

static status load(product *base, const profile *conditions) {
    fp16 *x = ((fp16_exact *)base)->of;
    status st;
    (void)conditions;
    report_phase("exposure: W T of the sampled target");
    TRY(fp16_integers_take(x));
    for (sensor_columns p = first_panel(x); is_panel(x, &p); p = panel_after(x, p))
        if (is_mine(x, &p))
            TRY(take_products(x, p));
    for (sensor_columns p = first_panel(x); is_panel(x, &p) && base->group != NULL;
         p = panel_after(x, p))
        TRY(group_send(base->group, exact_at(x, p.j),
                       (size_t)(x->v * (p.end - p.j)) * sizeof(double),
                       product_owner(base, p.number)));
done:
    return or_abort(x, st);
}

static status columns(product *base, const wrows *w, int64_t j, int64_t n, double *z, int64_t ldz) {
    const fp16 *x = ((fp16_exact *)base)->of;
    const int64_t d = sizeof(double);
    (void)w;
    return base->e->be->copy(base->e->ctx, z, ldz * d, exact_at(x, j), x->v * d, x->v * d, n);
}

const product_kind fp16_exact_kind = {
    .size = sizeof(product_kind),
    .name = "fp16, reference",
    .exact = true,
    .sharpen = sharpen,
    .exact_rows = exact_rows,
    .load = load,
    .columns = columns,
};
