/* Exposures in mixed precision, by differences. With W Cmm0 = B0 = D+ Ctm0, dT the lower triangle
 * (diagonal halved) of the difference dC = Cmm - beta Cmm0 without tip-tilt constants, K and K0
 * those constants, and any beta, Y = (W dT + 1/2 W (K - beta K0) - D+ (Ctm - beta Ctm0)) W' -
 * beta/2 B0 W' is what the dense operator's products make, but for an antisymmetric part. The
 * differences are small, so their products may be of low precision: they are products of halves on
 * tensor cores, and the entries come in single precision. The two other terms, B0 W' and those of
 * rank one in W K W', are made of double precision with the reconstructor. Model section 6. */
#include "operator/half.h"

#include "operator/operator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF_TOP 32768.0 /* no half made here is larger */

typedef struct {
    linop base;
    linop *exact; /* the dense operator: factor, solve, and the reference */
    const profile *tor;
    int64_t v;
    int nk; /* constants: laser stars times axes */
    void *room;
    backend_f16 *dt; /* room: dT, panel by panel: the block on the diagonal, then what is below,
                        transposed */
    double *b0;      /* the same room, at the solve: D+ Ctm0 of a target, v x m */
    backend_f16 *w;  /* v x m: W of the target in hand */
    backend_f16 *dplus, *ctm, *z; /* v x t, t x width, v x width */
    float *wide;                  /* width x m, t x width: covariances on their way to halves */
    float *diag;                  /* width x width: a block of dT on the diagonal, 0 above it */
    float *sum, *y;               /* v x width, v x v */
    backend_f16 *cpm;             /* points x (width + 1): both axes of width / 2 subapertures */
    float *ct;                    /* v x points */
    int ep;                       /* exponent of Cpm - beta Cpm0 */
    double *axes;                 /* m x nk: 1 where a measurement is of that laser star and axis */
    double *kd;                   /* v x nk: W K times `constants` */
    double *constants;            /* nk x nk, diagonal: halves of K - beta K0 */
    double *largest;
    int *ew, ed, et, ec, es, ez; /* exponents: W [targets], D+, dT, Ctm - beta Ctm0, W dT, z */
    double beta;
    double *host; /* pinned: constants, largest; the former are 0 beside their diagonal */
} half;

/* Of a target, in its own memory: B0 W' (v x v), then W times `axes` (v x nk). */
static int64_t half_own(const linop *base) {
    const half *x = (const half *)base;
    return engine_aligned(x->v * x->v) + x->v * x->nk;
}

static double *axes_of(const half *x, double *own) {
    return own + engine_aligned(x->v * x->v);
}

/* --- memory */

int half_constants(const sys *s) {
    int n = 0;
    for (int w = 0; w < s->nsensor; w++)
        n += s->sensors[w].lgs ? 2 : 0;
    return n;
}

size_t half_differences(size_t m, size_t rows, size_t width) {
    const size_t halves = (m * (m + width) / 2 + width * width) * sizeof(backend_f16);
    const size_t doubles = rows * m * sizeof(double);
    return halves > doubles ? halves : doubles;
}

static void bytes(const linop_case *c, linop_bytes *b) {
    const size_t m = c->s->m, t = c->s->t, v = (size_t)c->rows, w = c->width;
    const size_t h = sizeof(backend_f16), f = sizeof(float), d = sizeof(double);
    const size_t nk = (size_t)half_constants(c->s);
    linop_dense.bytes(c, b);
    linop_add(b, "mixed: difference of two T", half_differences(m, v, w));
    linop_add(b, "mixed: W and D+ in halves", v * (m + t) * h);
    linop_add(b, "mixed: panels", (m + w + v) * w * f + (t + v) * w * h);
    if (c->points > 0)
        linop_add(b, "mixed: phase on the pupil",
                  (size_t)c->points *
                      ((w + 1) * h + (v + 1) * f + ((size_t)c->points > m ? w * f : 0)));
    linop_add(b, "mixed: residual covariance and tip-tilt", v * v * f + (m + v + nk) * nk * d);
    b->per_target = "W of a target, D+ Ctm0 W'";
    b->target += (v * v + v * nk) * d;
}

static status take(half *x, size_t count, size_t size, const char *what, void *p) {
    return engine_array(x->base.e, count * size, what, (void **)p);
}

static status take_arrays(half *x, const linop_setup *u) {
    engine *e = x->base.e;
    const size_t m = (size_t)e->m, t = (size_t)e->t, v = (size_t)x->v, w = (size_t)e->width;
    const size_t h = sizeof(backend_f16), f = sizeof(float), d = sizeof(double);
    const size_t nk = (size_t)x->nk, np = (size_t)u->size.points;
    status st;
    TRY(take(x, half_differences(m, v, w), 1, "the difference of two T", &x->room));
    x->dt = x->room;
    x->b0 = x->room;
    TRY(take(x, v * m, h, "halves of W", &x->w));
    TRY(take(x, v * t, h, "halves of D+", &x->dplus));
    TRY(take(x, t * w, h, "halves of Ctm", &x->ctm));
    TRY(take(x, v * w, h, "halves of W T", &x->z));
    TRY(take(x, w * (m > np ? m : np) + np, f, "a panel of covariances", &x->wide));
    TRY(take(x, np * (w + 1), h, "halves of Cpm", &x->cpm));
    TRY(take(x, v * np, f, "W Cpm'", &x->ct));
    TRY(take(x, w * w, f, "a block of covariances", &x->diag));
    TRY(take(x, v * w, f, "a panel of W T", &x->sum));
    TRY(take(x, v * v, f, "a residual covariance", &x->y));
    TRY(take(x, m * nk, d, "tip-tilt constants", &x->axes));
    TRY(take(x, v * nk, d, "tip-tilt constants", &x->kd));
    TRY(take(x, nk * nk, d, "tip-tilt constants", &x->constants));
    TRY(take(x, 1, d, "a number", &x->largest));
    TRY(e->be->alloc_host(e->ctx, (nk * nk + 1) * d, (void **)&x->host));
    memset(x->host, 0, (nk * nk + 1) * d);
    TRY(ALLOC(x->ew, (size_t)u->most, "targets of a device"));
done:
    return st;
}

/* Which measurements are of which laser star and axis, to the device. */
static status send_axes(half *x) {
    engine *e = x->base.e;
    const sys *s = e->s;
    double *a = NULL;
    int k = 0;
    status st;
    TRY(ALLOC(a, (size_t)(e->m * x->nk), "tip-tilt constants"));
    for (int w = 0; w < s->nsensor; w++)
        for (int axis = 0; axis < 2 && s->sensors[w].lgs; axis++, k++)
            for (int i = 0; i < s->sensors[w].nsub; i++)
                a[(int64_t)s->sensors[w].first + axis * s->sensors[w].nsub + i + k * e->m] = 1;
    TRY(engine_copy(e, x->axes, a, e->m * x->nk));
    TRY(engine_sync(e));
done:
    free(a);
    return st;
}

/* Exponent for a matrix of doubles on the device. Waits. */
static status find_exponent(half *x, int64_t m, int64_t n, const double *a, int *exponent) {
    engine *e = x->base.e;
    double *most = x->host + x->nk * x->nk;
    status st;
    TRY(e->be->half->max_abs(e->ctx, BACKEND_D, m, n, a, m, x->largest));
    TRY(engine_copy(e, most, x->largest, 1));
    TRY(engine_sync(e));
    *exponent = backend_half_exponent(*most);
done:
    return st;
}

static status prepare(half *x, const linop_setup *u) {
    engine *e = x->base.e;
    const float none = 0;
    status st;
    TRY(take_arrays(x, u));
    TRY(send_axes(x));
    /* what lies above the diagonal stays 0 */
    TRY(e->be->gemm(e->ctx, BACKEND_S, 'N', 'N', e->width, e->width, 1, &none, x->diag, e->width,
                    x->diag, 1, &none, x->diag, e->width, e->work, e->lwork));
    TRY(find_exponent(x, x->v, e->t, u->proj, &x->ed));
    st = e->be->half->cast_to_half(e->ctx, BACKEND_D, x->v, e->t, x->ed, u->proj, x->v, x->dplus,
                                   x->v);
done:
    return st;
}

static void half_close(linop *base) {
    half *x = (half *)base;
    if (x == NULL)
        return;
    const engine *e = base->e;
    void *const mine[] = {x->room, x->w,    x->dplus, x->ctm,       x->z,
                          x->wide, x->diag, x->cpm,   x->ct,        x->sum,
                          x->y,    x->axes, x->kd,    x->constants, x->largest};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        e->be->release(e->ctx, mine[i]);
    e->be->release_host(e->ctx, x->host);
    linop_dense.close(x->exact);
    free(x->ew);
    free(x);
}

static status half_open(engine *e, const linop_setup *u, linop **out) {
    half *x = NULL;
    status st = comm_agree(e->c, ALLOC(x, 1, "mixed precision"));
    if (st != MOAO_OK)
        goto done;
    x->base = (linop){.kind = &linop_half, .e = e};
    x->v = u->size.rows;
    x->nk = half_constants(e->s);
    TRY(linop_dense.open(e, u, &x->exact));
    x->base.reference = x->exact;
    TRY(comm_agree(e->c, prepare(x, u)));
done:
    if (st != MOAO_OK) {
        half_close(&x->base);
        x = NULL;
    }
    *out = &x->base;
    return st;
}

/* --- reconstructor */

static status half_factor(linop *base, const profile *p, int *minor) {
    half *x = (half *)base;
    x->tor = p;
    return linop_dense.factor(x->exact, p, minor);
}

/* W of each target from its B0 = D+ Ctm0; B0 W', W K and the exponent of W beside it. Waits. */
static status half_solve(linop *base, int n, const wrows *w, double *const *own) {
    half *x = (half *)base;
    engine *e = base->e;
    const int64_t m = e->m, v = x->v, nk = x->nk;
    status st = MOAO_OK;
    for (int k = 0; k < n; k++) {
        TRY(engine_copy(e, x->b0, w[k].w, v * m));
        TRY(linop_dense.solve(x->exact, 1, &w[k], NULL));
        TRY(engine_gemm(e, 'N', 'T', v, v, m, 1.0, x->b0, v, w[k].w, v, 0.0, own[k], v));
        TRY(engine_gemm(e, 'N', 'N', v, nk, m, 1.0, w[k].w, v, x->axes, m, 0.0, axes_of(x, own[k]),
                        v));
        TRY(find_exponent(x, v, m, w[k].w, &x->ew[w[k].slot]));
        e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * m) * (double)(v + nk);
    }
done:
    return st;
}

/* --- exposures */

/* Panel by panel, dT in halves. */
static status fill_halves(half *x) {
    engine *e = x->base.e;
    const backend_matcov *mat = e->mat;
    const int64_t m = e->m;
    backend_f16 *to = x->dt;
    status st = MOAO_OK;
    report_phase("exposure: T of Cmm");
    for (int64_t j = 0, n; j < m; j += n) {
        n = engine_width(e, j, m);
        const int64_t below = m - j - n;
        TRY(mat->fill_cmm(e->cov, BACKEND_S, 'T', MATCOV_NOISE, j, n, j, n, x->diag, e->width));
        TRY(e->be->half->cast_to_half(e->ctx, BACKEND_S, n, n, x->et, x->diag, e->width, to, n));
        to += n * n;
        if (below > 0)
            TRY(mat->fill_cmm(e->cov, BACKEND_S, 'A', MATCOV_NOISE, j, n, j + n, below, x->wide,
                              n));
        TRY(e->be->half->cast_to_half(e->ctx, BACKEND_S, n, below, x->et, x->wide, n, to, n));
        to += n * below;
    }
done:
    return st;
}

/* Make the difference of the profile and the reconstructor's the model of the covariances to come.
 */
static status load_difference(half *x, const profile *p, bool drifts, int *exponent) {
    matcov *mc;
    double bound;
    status st = matcov_prepare_difference(x->base.e->s, p, x->tor, x->beta, drifts, &mc, &bound);
    if (st != MOAO_OK)
        return st;
    *exponent = backend_half_exponent(bound);
    return engine_use(x->base.e, mc);
}

static status half_load(linop *base, const profile *p) {
    half *x = (half *)base;
    engine *e = base->e;
    const int64_t nk = x->nk;
    const sys *s = e->s;
    status st;
    x->beta = matcov_scale(p, x->tor);
    TRY(load_difference(x, p, false, &x->et));
    TRY(engine_sync(e)); /* before what earlier work reads on the host changes */
    for (int w = 0, k = 0; w < s->nsensor; w++)
        for (int axis = 0; axis < 2 && s->sensors[w].lgs; axis++, k++)
            x->host[k + k * nk] = 0.5 * matcov_tiptilt(e->mc, w);
    TRY(engine_copy(e, x->constants, x->host, nk * nk));
    TRY(fill_halves(x));
    st = load_difference(x, p, true, &x->ec);
    if (st == MOAO_OK && e->phase)
        x->ep = backend_half_exponent(matcov_phase_bound(s, p, x->tor, x->beta));
done:
    return st;
}

/* What columns and project add up: 2^(ew + et) (W dT - D+ (Ctm - beta Ctm0)), in single precision.
 * No sum is larger than its bound: all factors are below HALF_TOP. */
static status half_begin(linop *base, const wrows *w, double *own) {
    half *x = (half *)base;
    const engine *e = base->e;
    const int es = x->ew[w->slot] + x->et;
    const double most =
        HALF_TOP * HALF_TOP * ((double)e->m + ldexp((double)e->t, es - x->ed - x->ec));
    (void)own;
    x->es = es;
    x->ez = backend_half_exponent(most);
    return e->be->half->cast_to_half(e->ctx, BACKEND_D, x->v, e->m, x->ew[w->slot], w->w, x->v,
                                     x->w, x->v);
}

/* The panel of dT at column j. */
static const backend_f16 *panel_at(const half *x, int64_t j) {
    const engine *e = x->base.e;
    const backend_f16 *dt = x->dt;
    for (int64_t i = 0; i < j; i += e->width)
        dt += engine_width(e, i, e->m) * (e->m - i);
    return dt;
}

static status half_columns(linop *base, const wrows *w, int64_t j, int64_t n, double *z,
                           int64_t ldz) {
    const half *x = (const half *)base;
    const engine *e = base->e;
    const backend_half *h = e->be->half;
    const backend_f16 *dt = panel_at(x, j);
    const int64_t v = x->v;
    status st;
    (void)w, (void)z, (void)ldz;
    TRY(h->gemm(e->ctx, 'N', 'N', v, n, n, 1, x->w + j * v, v, dt, n, 0, x->sum, v));
    st = h->gemm(e->ctx, 'N', 'T', v, n, e->m - j - n, 1, x->w + (j + n) * v, v, dt + n * n, n, 1,
                 x->sum, v);
done:
    return st;
}

static status half_project(linop *base, backend_cov_target *target, int64_t j, int64_t n) {
    const half *x = (const half *)base;
    const engine *e = base->e;
    const int64_t v = x->v, t = e->t;
    status st;
    TRY(e->mat->fill_ctm(target, BACKEND_S, 0, t, j, n, x->wide, t));
    TRY(e->be->half->cast_to_half(e->ctx, BACKEND_S, t, n, x->ec, x->wide, t, x->ctm, t));
    st = e->be->half->gemm(e->ctx, 'N', 'N', v, n, t, ldexpf(-1, x->es - x->ed - x->ec), x->dplus,
                           v, x->ctm, t, 1, x->sum, v);
done:
    return st;
}

static status half_outer(linop *base, const wrows *w, int64_t j, int64_t n) {
    const half *x = (const half *)base;
    const engine *e = base->e;
    const int64_t v = x->v;
    status st;
    (void)w;
    TRY(e->be->half->cast_to_half(e->ctx, BACKEND_S, v, n, x->ez, x->sum, v, x->z, v));
    st = e->be->half->gemm(e->ctx, 'N', 'T', v, v, n, 1, x->z, v, x->w + j * v, v, j > 0, x->y, v);
done:
    return st;
}

/* The terms in double precision, then the sum of halves. */
static status half_end(linop *base, const wrows *w, double *own, double *y) {
    const half *x = (const half *)base;
    engine *e = base->e;
    const int64_t v = x->v, nk = x->nk;
    const double *k = axes_of(x, own);
    status st;
    TRY(engine_copy(e, y, own, v * v));
    TRY(engine_gemm(e, 'N', 'N', v, nk, nk, 1.0, k, v, x->constants, nk > 0 ? nk : 1, 0.0, x->kd,
                    v));
    TRY(engine_gemm(e, 'N', 'T', v, v, nk, 1.0, x->kd, v, k, v, (e->phase ? 0.5 : -0.5) * x->beta,
                    y, v));
    TRY(e->be->half->cast_to_double(e->ctx, v, v, ldexp(1, -x->es - x->ez - x->ew[w->slot]), x->y,
                                    v, 1.0, y, v));
done:
    return st;
}

static status half_phase(linop *base, backend_cov_target *target, const wrows *w, int64_t np,
                         const double *px, const double *py, int64_t j, int64_t n) {
    const half *x = (const half *)base;
    const engine *e = base->e;
    status st;
    (void)w;
    slope_pairs p = {0};
    while (slope_pairs_next(e->s, j, n, e->width / 2, &p)) {
        TRY(e->mat->fill_cpm_both(target, BACKEND_S, np, px, py, p.sensor, p.k0, p.n, x->wide, np,
                                  p.n));
        TRY(e->be->half->cast_to_half(e->ctx, BACKEND_S, np, 2 * p.n, x->ep, x->wide, np, x->cpm,
                                      np));
        for (int axis = 0; axis < 2; axis++)
            TRY(e->be->half->gemm(e->ctx, 'N', 'T', x->v, np, p.n, 1, x->w + p.column[axis] * x->v,
                                  x->v, x->cpm + axis * p.n * np, np, p.column[axis] > 0, x->ct,
                                  x->v));
    }
    st = MOAO_OK;
done:
    return st;
}

static status half_phase_end(linop *base, const wrows *w, int64_t np, double *ct) {
    const half *x = (const half *)base;
    const engine *e = base->e;
    return e->be->half->cast_to_double(e->ctx, x->v, np, ldexp(1, -x->ep - x->ew[w->slot]), x->ct,
                                       x->v, 0.0, ct, x->v);
}

static double half_share(const linop *base) {
    return ((const half *)base)->beta;
}

const linop_kind linop_half = {
    .size = sizeof(linop_kind),
    .name = "half",
    .differences = true,
    .bytes = bytes,
    .open = half_open,
    .close = half_close,
    .own = half_own,
    .factor = half_factor,
    .solve = half_solve,
    .load = half_load,
    .begin = half_begin,
    .columns = half_columns,
    .project = half_project,
    .outer = half_outer,
    .end = half_end,
    .phase = half_phase,
    .phase_end = half_phase_end,
    .share = half_share,
};
