/* The product in FP16: exposures, by differences to the reconstructor's conditions in FP16. */
#include "residual/fp16_internal.h"

#include <math.h>

#define FP16_TOP 32768.0 /* no FP16 number here is larger */

/* Panel by panel, dT in FP16. */
static status fill_fp16(fp16 *x) {
    engine *e = x->base.e;
    const backend_matcov *mat = e->mat;
    const int64_t m = e->m;
    backend_f16 *to = x->dt;
    status st = MOAO_OK;
    report_phase("exposure: T of Cmm");
    for (int64_t j = 0, n; j < m; j += n) {
        n = engine_width(e, j, m);
        const int64_t below = m - j - n;
        TRY(mat->fill_cmm(e->cov, BACKEND_S, 'T', MATCOV_NOISE, (matcov_region){j, n, j, n},
                          x->diag, e->width));
        TRY(e->be->fp16->cast_to_fp16(e->ctx, BACKEND_S, n, n, x->et, x->diag, e->width, to, n));
        to += n * n;
        if (below > 0)
            TRY(mat->fill_cmm(e->cov, BACKEND_S, 'A', MATCOV_NOISE,
                              (matcov_region){j, n, j + n, below}, x->wide, n));
        TRY(e->be->fp16->cast_to_fp16(e->ctx, BACKEND_S, n, below, x->et, x->wide, n, to, n));
        to += n * below;
    }
done:
    return st;
}

/* A block of x->wide becomes part of the pieces of its columns. */
static status cast_block(fp16 *x, const lattice_pairs_block *b) {
    const engine *e = x->base.e;
    status st = MOAO_OK;
    for (int i = 0; i < x->npiece; i++) {
        const lattice_pairs_piece *p = &x->piece[i];
        if (p->j < b->j || p->j >= b->j + b->n || b->row < p->row || b->row >= p->row + p->rows)
            continue;
        TRY(e->be->fp16->cast_to_fp16(e->ctx, BACKEND_S, p->n, b->rows, x->et,
                                      x->wide + (p->j - b->j), b->n,
                                      x->dt + p->at + (b->row - p->row) * p->ld, p->ld));
    }
done:
    return st;
}

/* The same where sensors on a common lattice are left to their transforms: other ones, by blocks
 * of whole sensors, or piece by piece where there is no room for one. */
static status fill_pieces(fp16 *x) {
    engine *e = x->base.e;
    const int64_t room = e->width * e->m;
    bool fits = true;
    status st;
    report_phase("exposure: T of Cmm");
    TRY(lattice_pairs_load(e, x->et, &x->like));
    for (lattice_pairs_block b = {0}; lattice_pairs_next_block(e->s, &x->like, room, &b);)
        fits = fits && b.n * b.rows <= room;
    for (lattice_pairs_block b = {0}; fits && lattice_pairs_next_block(e->s, &x->like, room, &b);) {
        TRY(e->mat->fill_cmm(e->cov, BACKEND_S, 'A', 0, (matcov_region){b.j, b.n, b.row, b.rows},
                             x->wide, b.n));
        TRY(cast_block(x, &b));
    }
    for (int i = 0; i < x->npiece && !fits; i++) {
        const lattice_pairs_piece *p = &x->piece[i];
        TRY(e->mat->fill_cmm(e->cov, BACKEND_S, 'A', 0,
                             (matcov_region){p->j, p->n, p->row, p->rows}, x->wide, p->n));
        TRY(e->be->fp16->cast_to_fp16(e->ctx, BACKEND_S, p->n, p->rows, x->et, x->wide, p->n,
                                      x->dt + p->at, p->ld));
    }
done:
    return st;
}

/* Make the difference C(p) - beta C(p0) the model of the covariances to come. */
static status load_difference(fp16 *x, engine_model m, int *exponent) {
    const status st = engine_load_model(x->base.e, &m);
    *exponent = backend_fp16_exponent(m.bound);
    if (st == MOAO_OK && x->base.e->phase && m.drifts)
        x->ep = backend_fp16_exponent(m.phase);
    return st;
}

int fp16_models(const profile *tor, const profile *p, bool lag, engine_model *m) {
    const double beta = matcov_scale(p, tor);
    if (lag)
        *m++ = (engine_model){.p = p, .p0 = p, .beta = 1, .drifts = true};
    m[0] = (engine_model){.p = p, .p0 = tor, .beta = beta};
    m[1] = (engine_model){.p = p, .p0 = tor, .beta = beta, .drifts = true};
    return 2 + lag;
}

status fp16_load(product *base, const profile *p) {
    fp16 *x = (fp16 *)base;
    engine *e = base->e;
    const int64_t nk = x->nk;
    const sys *s = e->s;
    engine_model m[PRODUCT_MODELS];
    status st;
    fp16_models(x->tor, p, false, m);
    x->beta = m[0].beta;
    if (base->whole_y)
        return load_difference(x, m[1], &x->ec);
    TRY(load_difference(x, m[0], &x->et));
    TRY(engine_sync(e)); /* before what earlier work reads on the host changes */
    for (int w = 0, k = 0; w < s->nsensor; w++)
        for (int axis = 0; axis < 2 && s->sensors[w].lgs; axis++, k++)
            x->host[k + k * nk] = 0.5 * matcov_tiptilt(e->mc, w);
    TRY(engine_copy(e, x->constants, x->host, nk * nk));
    TRY(x->lattice_pairs ? fill_pieces(x) : fill_fp16(x));
    st = load_difference(x, m[1], &x->ec);
done:
    return st;
}

/* What wind changes is small against Cpm, so that FP16 numbers of this difference leave 1e-5 of it,
 * where the difference of two sums of them would leave 1e-2. */
status fp16_load_lag(product *base, const profile *p) {
    engine_model m[PRODUCT_MODELS];
    int exponent;
    fp16_models(((fp16 *)base)->tor, p, true, m);
    return load_difference((fp16 *)base, m[0], &exponent);
}

/* What columns and project add up: 2^(ew + et) (W dT - D+ (Ctm - beta Ctm0)), in single precision.
 * No sum is larger than its bound: all factors are below FP16_TOP. */
status fp16_begin(product *base, const wrows *w, double *own) {
    fp16 *x = (fp16 *)base;
    engine *e = base->e;
    const int es = fp16_exponent_of(x, w) + x->et;
    const double projected = e->s->fit.phase ? 0 : ldexp((double)e->t, es - x->ed - x->ec),
                 most = FP16_TOP * FP16_TOP * ((double)e->m + projected);
    (void)own;
    x->es = es;
    x->ez = backend_fp16_exponent(most);
    x->sensor = -1;
    if (!x->lattice_pairs)
        return MOAO_OK;
    report_phase("exposure: W T of sensors on a lattice");
    return lattice_pairs_apply(e, &x->like, x->v, ldexp(0.5, x->et), fp16_w(x, w, 0).hi,
                               fp16_rows(x->v), 0, x->wt, x->v);
}

/* The panel of dT at column j. */
static const backend_f16 *panel_at(const fp16 *x, int64_t j) {
    const engine *e = x->base.e;
    const backend_f16 *dt = x->dt;
    for (int64_t i = 0; i < j; i += e->width)
        dt += engine_width(e, i, e->m) * (e->m - i);
    return dt;
}

/* Columns j .. j + n of what sensors on a common lattice have left in wt, and the pieces of other
 * ones. */
static status add_pieces(fp16 *x, const wrows *w, int64_t j, int64_t n) {
    const engine *e = x->base.e;
    status st = MOAO_OK;
    x->sum = x->wt + j * x->v;
    for (int i = 0; i < x->npiece; i++) {
        const lattice_pairs_piece *p = &x->piece[i];
        if (p->j >= j && p->j < j + n)
            TRY(e->be->fp16->gemm(e->ctx, 'N', 'T', x->v, p->n, p->rows, 1, fp16_w(x, w, p->row).hi,
                                  fp16_rows(x->v), x->dt + p->at, p->ld, 1, x->wt + p->j * x->v,
                                  x->v));
    }
done:
    return st;
}

status fp16_columns(product *base, const wrows *w, int64_t j, int64_t n, double *z, int64_t ldz) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    const backend_fp16 *h = e->be->fp16;
    const backend_f16 *dt = panel_at(x, j);
    const int64_t v = x->v;
    status st;
    (void)z, (void)ldz;
    if (x->lattice_pairs)
        return add_pieces(x, w, j, n);
    TRY(h->gemm(e->ctx, 'N', 'N', v, n, n, 1, fp16_w(x, w, j).hi, fp16_rows(v), dt, n, 0, x->sum,
                v));
    st = h->gemm(e->ctx, 'N', 'T', v, n, e->m - j - n, 1, fp16_w(x, w, j + n).hi, fp16_rows(v),
                 dt + n * n, n, 1, x->sum, v);
done:
    return st;
}

/* The block of sensor w: both axes of its subapertures from one evaluation, as many at a time as
 * there is room for on the way to FP16. */
static status fill_block(fp16 *x, backend_cov_target *target, int w) {
    const engine *e = x->base.e;
    const int64_t t = e->t, nsub = e->s->sensors[w].nsub,
                  room = e->width * (e->m > t ? e->m : t) / (2 * t), most = room > 0 ? room : 1;
    status st = MOAO_OK;
    bool done = false;
    if (e->mat->fill_ctm_fp16 != NULL)
        TRY(e->mat->fill_ctm_fp16(target, x->ec, (matcov_slopes){w, 0, nsub, nsub}, x->block,
                                  fp16_rows(t), &done));
    for (int64_t k = 0, n; k < nsub && !done; k += n) {
        n = nsub - k < most ? nsub - k : most;
        TRY(e->mat->fill_ctm_both(target, BACKEND_S, (matcov_slopes){w, k, n, n}, x->wide, t));
        for (int axis = 0; axis < 2; axis++)
            TRY(e->be->fp16->cast_to_fp16(e->ctx, BACKEND_S, t, n, x->ec, x->wide + axis * n * t, t,
                                          x->block + (axis * nsub + k) * fp16_rows(t),
                                          fp16_rows(t)));
    }
    x->sensor = w;
done:
    return st;
}

status fp16_project(product *base, backend_cov_target *target, int64_t j, int64_t n) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    const int64_t v = x->v, t = e->t;
    status st = MOAO_OK;
    for (int w = 0; w < e->s->nsensor; w++) {
        const int64_t first = (int64_t)e->s->sensors[w].first,
                      end = first + 2 * e->s->sensors[w].nsub, from = j > first ? j : first,
                      some = (j + n < end ? j + n : end) - from;
        if (some <= 0)
            continue;
        if (x->sensor != w)
            TRY(fill_block(x, target, w));
        TRY(e->be->fp16->gemm(e->ctx, 'N', 'N', v, some, t, ldexpf(-1, x->es - x->ed - x->ec),
                              x->dplus[0], fp16_rows(v), x->block + (from - first) * fp16_rows(t),
                              fp16_rows(t), 1, x->sum + (from - j) * v, v));
    }
done:
    return st;
}

status fp16_outer(product *base, const wrows *w, int64_t j, int64_t n) {
    const fp16 *x = (const fp16 *)base;
    const engine *e = base->e;
    const int64_t v = x->v;
    status st;
    TRY(e->be->fp16->cast_to_fp16(e->ctx, BACKEND_S, v, n, x->ez, x->sum, v, x->z, v));
    st = e->be->fp16->gemm(e->ctx, 'N', 'T', v, v, n, 1, x->z, v, fp16_w(x, w, j).hi, fp16_rows(v),
                           j > 0, x->y, v);
done:
    return st;
}

/* The terms in double precision, then the sum of FP16 numbers. */
status fp16_end(product *base, const wrows *w, double *own, double *y) {
    const fp16 *x = (const fp16 *)base;
    engine *e = base->e;
    const int64_t v = x->v, nk = x->nk;
    const double *k = fp16_axes(x, own);
    status st;
    (void)w;
    TRY(engine_copy(e, y, own, v * v));
    TRY(engine_gemm(e, 'N', 'N', v, nk, nk, 1.0, k, v, x->constants, nk > 0 ? nk : 1, 0.0, x->kd,
                    v));
    TRY(engine_gemm(e, 'N', 'T', v, v, nk, 1.0, x->kd, v, k, v, (e->phase ? 0.5 : -0.5) * x->beta,
                    y, v));
    TRY(e->be->fp16->cast_to_double(e->ctx, v, v, ldexp(1, -x->es - x->ez - fp16_exponent_of(x, w)),
                                    x->y, v, 1.0, y, v));
done:
    return st;
}

/* Both axes of some subapertures, in FP16 with leading dimension ld, by way of `wide`. */
static status fill_phase(fp16 *x, backend_cov_target *target, matcov_points p, matcov_slopes k,
                         int64_t ld) {
    const engine *e = x->base.e;
    bool done = false;
    status st = MOAO_OK;
    if (e->mat->fill_cpm_fp16 != NULL)
        TRY(e->mat->fill_cpm_fp16(target, x->ep, p, k, x->cpm[0], ld, &done));
    if (done)
        return st;
    TRY(e->mat->fill_cpm_both(target, BACKEND_S, p, k, x->wide, p.n));
    st = e->be->fp16->cast_to_fp16(e->ctx, BACKEND_S, p.n, 2 * k.n, x->ep, x->wide, p.n, x->cpm[0],
                                   ld);
done:
    return st;
}

status fp16_phase(product *base, backend_cov_target *target, const wrows *w, matcov_points p,
                  int64_t j, int64_t n) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    const int64_t ld = fp16_rows(p.n);
    status st = MOAO_OK;
    for (slope_pairs s = {0}; slope_pairs_next(e->s, j, n, e->width / 2, &s);) {
        TRY(fill_phase(x, target, p, s.slopes, ld));
        for (int axis = 0; axis < 2; axis++)
            TRY(e->be->fp16->gemm(
                e->ctx, 'N', 'T', x->v, ld, s.n, 1, fp16_w(x, w, s.column[axis]).hi,
                fp16_rows(x->v), x->cpm[0] + axis * s.n * ld, ld, s.column[axis] > 0, x->ct, x->v));
    }
done:
    return st;
}

/* Three products of FP16 numbers, as accurate as W itself; sums as of B0 W', in double precision
 * over the parts. */
status fp16_phase_share(product *base, backend_cov_target *target, const wrows *w, matcov_points p,
                        int64_t j, int64_t n, double *ct) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    const backend_fp16 *h = e->be->fp16;
    const int64_t v = x->v;
    fp16_pair c = {x->cpm[0], x->cpm[1], fp16_rows(p.n), x->ep0};
    status st = MOAO_OK;
    for (slope_pairs s = {0}; slope_pairs_next(e->s, j, n, e->width / 2, &s);) {
        TRY(e->mat->fill_cpm_both(target, BACKEND_S, p, s.slopes, x->wide, p.n));
        TRY(h->split(e->ctx, BACKEND_S, 'A', p.n, 2 * s.n, c.exponent, x->wide, p.n, x->cpm[0],
                     c.ld, x->cpm[1], c.ld));
        for (int axis = 0; axis < 2; axis++) {
            const int64_t at = axis * s.n * c.ld;
            const fp16_pair part = {c.hi + at, c.lo + at, c.ld, c.exponent};
            TRY(fp16_gemm_part(e->be, e->ctx, FP16_ALL, FP16_SHORT, 'N', 'T', v, c.ld, s.n, 1,
                               fp16_w(x, w, s.column[axis]), part, 0, x->ct, v));
            TRY(h->cast_to_double(e->ctx, v, p.n, 1, x->ct, v, s.column[axis] > 0, ct, v));
        }
    }
done:
    return st;
}

status fp16_phase_end(product *base, const wrows *w, int64_t np, double *ct) {
    const fp16 *x = (const fp16 *)base;
    const engine *e = base->e;
    (void)w;
    return e->be->fp16->cast_to_double(e->ctx, x->v, np, ldexp(1, -x->ep - fp16_exponent_of(x, w)),
                                       x->ct, x->v, 0.0, ct, x->v);
}

double fp16_share(const product *base) {
    return ((const fp16 *)base)->beta;
}
