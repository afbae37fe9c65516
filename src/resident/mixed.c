/* Exposures in mixed precision, by differences. With W Cmm0 = B0 = D+ Ctm0, dT the lower triangle
 * (diagonal halved) of the difference dC = Cmm - beta Cmm0 without tip-tilt constants, K and K0
 * those constants, and any beta, Y = (W dT + 1/2 W (K - beta K0) - D+ (Ctm - beta Ctm0)) W' -
 * beta/2 B0 W' is what residual() in expose.c makes, but for an antisymmetric part. The differences
 * are small, so their products may be of low precision: they are products of halves on tensor
 * cores, and the entries come in single precision. The two other terms, B0 W' and those of rank one
 * in W K W', are made of double precision with the reconstructor. Model section 6. */
#include "resident/mixed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HALF_TOP 32768.0 /* no half made here is larger */

struct mixed {
    int nk; /* constants: laser stars times axes */
    void *room;
    backend_f16 *dt; /* room: dT, panel by panel: the block on the diagonal, then what is below,
                        transposed */
    double *b0;      /* the same room, at the solve: D+ Ctm0 of a target, v x m */
    backend_f16 *w;  /* v x m: W of the target in hand */
    backend_f16 *dplus, *ctm, *z; /* v x t, t x w, v x w */
    float *wide;                  /* w x m, t x w: covariances on their way to halves */
    float *diag;                  /* w x w: a block of dT on the diagonal, 0 above it */
    float *sum, *y;               /* v x w, v x v */
    double **g, **k;              /* [nw] of a target: B0 W' (v x v), W times `axes` (v x nk) */
    double *axes;                 /* m x nk: 1 where a measurement is of that laser star and axis */
    double *kd;                   /* v x nk: k times `constants` */
    double *constants;            /* nk x nk, diagonal: halves of K - beta K0 */
    double *largest;
    int nw;
    int *ew, ed, et, ec; /* exponents: W [nw], D+, dT, Ctm - beta Ctm0 */
    double beta;
    double *host; /* pinned: constants, largest; the former are 0 beside their diagonal */
};

/* --- life */

static status take(resident *r, size_t count, size_t size, const char *what, void *p) {
    return resident_array(r, count * size, what, (void **)p);
}

status mixed_take(resident *r, int k) {
    struct mixed *x = r->mixed;
    status st;
    TRY(take(r, (size_t)(r->v * r->v), sizeof(double), "B0 W'", &x->g[k]));
    st = take(r, (size_t)(r->v * x->nk), sizeof(double), "W K", &x->k[k]);
done:
    return st;
}

static status take_arrays(resident *r, struct mixed *x) {
    const size_t m = (size_t)r->m, t = (size_t)r->t, v = (size_t)r->v, w = (size_t)r->w;
    const size_t h = sizeof(backend_f16), f = sizeof(float), d = sizeof(double);
    const size_t nk = (size_t)x->nk;
    status st;
    TRY(take(r, device_plan_differences(r->u.s, w), 1, "the difference of two T", &x->room));
    x->dt = x->room;
    x->b0 = x->room;
    TRY(take(r, v * m, h, "halves of W", &x->w));
    TRY(take(r, v * t, h, "halves of D+", &x->dplus));
    TRY(take(r, t * w, h, "halves of Ctm", &x->ctm));
    TRY(take(r, v * w, h, "halves of W T", &x->z));
    TRY(take(r, w * m, f, "a panel of covariances", &x->wide));
    TRY(take(r, w * w, f, "a block of covariances", &x->diag));
    TRY(take(r, v * w, f, "a panel of W T", &x->sum));
    TRY(take(r, v * v, f, "a residual covariance", &x->y));
    TRY(take(r, m * nk, d, "tip-tilt constants", &x->axes));
    TRY(take(r, v * nk, d, "tip-tilt constants", &x->kd));
    TRY(take(r, nk * nk, d, "tip-tilt constants", &x->constants));
    TRY(take(r, 1, d, "a number", &x->largest));
    TRY(r->be->alloc_host(r->ctx, (nk * nk + 1) * d, (void **)&x->host));
    memset(x->host, 0, (nk * nk + 1) * d);
    TRY(ALLOC(x->g, (size_t)x->nw, "targets of a device"));
    TRY(ALLOC(x->k, (size_t)x->nw, "targets of a device"));
    TRY(ALLOC(x->ew, (size_t)x->nw, "targets of a device"));
done:
    return st;
}

/* Which measurements are of which laser star and axis, to the device. */
static status send_axes(resident *r, struct mixed *x) {
    const sys *s = r->u.s;
    double *a = NULL;
    int k = 0;
    status st;
    TRY(ALLOC(a, (size_t)(r->m * x->nk), "tip-tilt constants"));
    for (int w = 0; w < s->nsensor; w++)
        for (int axis = 0; axis < 2 && s->sensors[w].lgs; axis++, k++)
            for (int i = 0; i < s->sensors[w].nsub; i++)
                a[(int64_t)s->sensors[w].first + axis * s->sensors[w].nsub + i + k * r->m] = 1;
    TRY(resident_copy(r, x->axes, a, r->m * x->nk));
    TRY(resident_sync(r));
done:
    free(a);
    return st;
}

/* Exponent for a matrix of doubles on the device. Waits. */
static status find_exponent(resident *r, int64_t m, int64_t n, const double *a, int *exponent) {
    struct mixed *x = r->mixed;
    double *most = x->host + x->nk * x->nk;
    status st;
    TRY(r->be->half->largest(r->ctx, BACKEND_D, m, n, a, m, x->largest));
    TRY(resident_copy(r, most, x->largest, 1));
    TRY(resident_sync(r));
    *exponent = backend_half_exponent(*most);
done:
    return st;
}

status mixed_open(resident *r, int most) {
    struct mixed *x = NULL;
    const float none = 0;
    status st = ALLOC(x, 1, "mixed precision");
    if (st != MOAO_OK)
        return st;
    r->mixed = x;
    x->nw = most;
    x->nk = device_plan_constants(r->u.s);
    TRY(take_arrays(r, x));
    TRY(send_axes(r, x));
    /* what lies above the diagonal stays 0 */
    TRY(r->be->gemm(r->ctx, BACKEND_S, 'N', 'N', r->w, r->w, 1, &none, x->diag, r->w, x->diag, 1,
                    &none, x->diag, r->w, r->work, r->lwork));
    TRY(find_exponent(r, r->v, r->t, r->dplus, &x->ed));
    st = r->be->half->narrow(r->ctx, BACKEND_D, r->v, r->t, x->ed, r->dplus, r->v, x->dplus, r->v);
done:
    return st;
}

void mixed_close(resident *r) {
    struct mixed *x = r->mixed;
    if (x == NULL)
        return;
    void *const mine[] = {x->room, x->w, x->dplus, x->ctm, x->z,         x->wide,   x->diag,
                          x->sum,  x->y, x->axes,  x->kd,  x->constants, x->largest};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        r->be->release(r->ctx, mine[i]);
    for (int i = 0; x->g != NULL && x->k != NULL && i < x->nw; i++) {
        r->be->release(r->ctx, x->g[i]);
        r->be->release(r->ctx, x->k[i]);
    }
    r->be->release_host(r->ctx, x->host);
    free(x->g);
    free(x->k);
    free(x->ew);
    free(x);
    r->mixed = NULL;
}

/* --- reconstructor */

status mixed_keep(resident *r, const double *b0) {
    return resident_copy(r, r->mixed->b0, b0, r->v * r->m);
}

status mixed_solved(resident *r, int k, const double *w) {
    struct mixed *x = r->mixed;
    const int64_t m = r->m, v = r->v, nk = x->nk;
    status st;
    TRY(resident_gemm(r, 'N', 'T', v, v, m, 1.0, x->b0, v, w, v, 0.0, x->g[k], v));
    TRY(resident_gemm(r, 'N', 'N', v, nk, m, 1.0, w, v, x->axes, m, 0.0, x->k[k], v));
    TRY(find_exponent(r, v, m, w, &x->ew[k]));
    r->u.rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * m) * (double)(v + nk);
done:
    return st;
}

/* --- exposures */

/* Panel by panel, dT in halves. */
static status fill_halves(resident *r) {
    struct mixed *x = r->mixed;
    const backend_matcov *mat = r->mat;
    const int64_t m = r->m;
    backend_f16 *to = x->dt;
    status st = MOAO_OK;
    report_phase("exposure: T of Cmm");
    for (int64_t j = 0, n; j < m; j += n) {
        n = resident_width(r, j, m);
        const int64_t below = m - j - n;
        TRY(mat->fill_cmm(r->cov, BACKEND_S, 'T', MATCOV_NOISE, j, n, j, n, x->diag, r->w));
        TRY(r->be->half->narrow(r->ctx, BACKEND_S, n, n, x->et, x->diag, r->w, to, n));
        to += n * n;
        if (below > 0)
            TRY(mat->fill_cmm(r->cov, BACKEND_S, 'A', MATCOV_NOISE, j, n, j + n, below, x->wide,
                              n));
        TRY(r->be->half->narrow(r->ctx, BACKEND_S, n, below, x->et, x->wide, n, to, n));
        to += n * below;
    }
done:
    return st;
}

/* Make the difference of the profile and the reconstructor's the model of the covariances to come.
 */
static status load_difference(resident *r, const profile *p, bool drifts, int *exponent) {
    struct mixed *x = r->mixed;
    matcov *mc;
    double bound;
    status st = matcov_prepare_difference(r->u.s, p, r->tor, x->beta, drifts, &mc, &bound);
    if (st != MOAO_OK)
        return st;
    *exponent = backend_half_exponent(bound);
    return resident_use(r, mc);
}

status mixed_load(resident *r, const profile *p) {
    struct mixed *x = r->mixed;
    const int64_t nk = x->nk;
    const sys *s = r->u.s;
    status st;
    x->beta = matcov_scale(p, r->tor);
    TRY(load_difference(r, p, false, &x->et));
    TRY(resident_sync(r)); /* before what earlier work reads on the host changes */
    for (int w = 0, k = 0; w < s->nsensor; w++)
        for (int axis = 0; axis < 2 && s->sensors[w].lgs; axis++, k++)
            x->host[k + k * nk] = 0.5 * matcov_tiptilt(r->mc, w);
    TRY(resident_copy(r, x->constants, x->host, nk * nk));
    TRY(fill_halves(r));
    st = load_difference(r, p, true, &x->ec);
done:
    return st;
}

/* sum = 2^(ew + et) (W dT - D+ (Ctm - beta Ctm0)) for n columns from j on; dt: their panel. */
static status panel(resident *r, int ew, int64_t j, int64_t n, const backend_f16 *dt) {
    struct mixed *x = r->mixed;
    const backend_half *half = r->be->half;
    const int64_t m = r->m, v = r->v, t = r->t, below = m - j - n;
    const float scale = ldexpf(-1, ew + x->et - x->ed - x->ec);
    status st;
    report_phase("exposure: W T");
    TRY(half->gemm(r->ctx, 'N', 'N', v, n, n, 1, x->w + j * v, v, dt, n, 0, x->sum, v));
    TRY(half->gemm(r->ctx, 'N', 'T', v, n, below, 1, x->w + (j + n) * v, v, dt + n * n, n, 1,
                   x->sum, v));
    report_phase("exposure: D+ Ctm");
    TRY(r->mat->fill_ctm(r->target, BACKEND_S, 0, t, j, n, x->wide, t));
    TRY(half->narrow(r->ctx, BACKEND_S, t, n, x->ec, x->wide, t, x->ctm, t));
    st = half->gemm(r->ctx, 'N', 'N', v, n, t, scale, x->dplus, v, x->ctm, t, 1, x->sum, v);
done:
    return st;
}

status mixed_residual(resident *r, int k, int target, const double *w) {
    struct mixed *x = r->mixed;
    const backend_half *half = r->be->half;
    const int64_t m = r->m, v = r->v, nk = x->nk;
    const int ew = x->ew[k], es = ew + x->et;
    /* no sum is larger: all factors are below HALF_TOP */
    const double most = HALF_TOP * HALF_TOP * ((double)m + ldexp((double)r->t, es - x->ed - x->ec));
    const int ez = backend_half_exponent(most);
    const backend_f16 *dt = x->dt;
    status st;
    report_phase("exposure: next target");
    TRY(r->mat->aim(r->target, r->u.s->targets[target], true));
    TRY(half->narrow(r->ctx, BACKEND_D, v, m, ew, w, v, x->w, v));
    for (int64_t j = 0, n; j < m; dt += n * (m - j), j += n) {
        n = resident_width(r, j, m);
        TRY(panel(r, ew, j, n, dt));
        report_phase("exposure: Y");
        TRY(half->narrow(r->ctx, BACKEND_S, v, n, ez, x->sum, v, x->z, v));
        TRY(half->gemm(r->ctx, 'N', 'T', v, v, n, 1, x->z, v, x->w + j * v, v, j > 0, x->y, v));
    }
    TRY(resident_copy(r, r->y, x->g[k], v * v));
    TRY(resident_gemm(r, 'N', 'N', v, nk, nk, 1.0, x->k[k], v, x->constants, nk > 0 ? nk : 1, 0.0,
                      x->kd, v));
    TRY(resident_gemm(r, 'N', 'T', v, v, nk, 1.0, x->kd, v, x->k[k], v, -0.5 * x->beta, r->y, v));
    TRY(half->widen(r->ctx, v, v, ldexp(1, -es - ez - ew), x->y, v, 1.0, r->y, v));
    r->u.rep->flops[STAGE_EXPOSURE] += (double)(v * m) * (double)(m + 2 * r->t + 2 * v);
done:
    return st;
}
