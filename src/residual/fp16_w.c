/* The product in FP16: W of a target, and what is constant in all exposures with it. */
#include "residual/fp16_internal.h"

#include <string.h>

/* Of B0 W': columns at a time, and measurements whose sum is in single precision. */
#define STRIP ((int64_t)1152)
#define PART ((int64_t)16384)
/* Inner size of a piece of B0: what tensor cores cut off its sums (moao/fp16_gemm.h) counts
 * in full there, as B0 W' stands for W Cmm0 W' and for the term with Ctm0. */
#define PIECE ((int64_t)256)

status fp16_exponent(fp16 *x, backend_type t, int64_t m, int64_t n, const void *a, int *exponent) {
    engine *e = x->base.e;
    double *most = x->host + x->nk * x->nk;
    status st;
    TRY(e->be->fp16->max_abs(e->ctx, t, m, n, a, m, x->numbers));
    TRY(engine_copy(e, most, x->numbers, 1));
    TRY(engine_sync(e));
    *exponent = backend_fp16_exponent(*most);
done:
    return st;
}

/* Columns j .. j + n of b32 (+)= P Ctm0 in direction d: panels of it, of covariances that are
 * formed together. */
static status right_columns(fp16 *x, backend_cov_target *target, int d, int64_t j, int64_t n) {
    engine *e = x->base.e;
    const int64_t v = x->v, t = e->t, t8 = fp16_rows(t), v8 = fp16_rows(v);
    const fp16_pair p = {x->dplus[0] + d * v8 * t, x->dplus[1] + d * v8 * t, v8, x->ed};
    status st;
    TRY(engine_fill_right(e, target, BACKEND_S, j, n, x->wide));
    for (int64_t i = 0, some; i < n; i += some) {
        const float *from = x->wide + i * t;
        fp16_pair c = {x->ctm[0], x->ctm[1], t8, 0};
        some = engine_width(e, i, n);
        TRY(fp16_exponent(x, BACKEND_S, t, some, from, &c.exponent));
        TRY(e->be->fp16->split(e->ctx, BACKEND_S, 'A', t, some, c.exponent, from, t, x->ctm[0], t8,
                               x->ctm[1], t8));
        TRY(fp16_gemm_part(e->be, e->ctx, FP16_ALL, PIECE, 'N', 'N', v, some, t, 1, p, c, d > 0,
                           x->b32 + (j + i) * v, v));
    }
done:
    return st;
}

/* b32 (+)= P Ctm0 in direction d, a sensor's columns at a time: entries of both axes of a
 * subaperture come from one evaluation of the covariances on the layers. */
static status right_of(fp16 *x, backend_cov_target *target, int d) {
    engine *e = x->base.e;
    const int64_t most = fp16_wide(x) / e->t;
    status st;
    TRY(engine_aim_right(e, target, d));
    for (sensor_columns p = engine_first_columns(e, most); p.j < e->m;
         p = engine_columns_after(e, most, p))
        TRY(right_columns(x, target, d, p.j, p.end - p.j));
    e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(x->v * e->m) * (double)e->t;
done:
    return st;
}

status fp16_right(product *base, backend_cov_target *target) {
    status st = MOAO_OK;
    for (int d = 0; d < base->e->ndir && st == MOAO_OK; d++)
        st = right_of((fp16 *)base, target, d);
    return st;
}

/* The same in double precision, and rounded to single. */
static status right_double(fp16 *x, backend_cov_target *target) {
    engine *e = x->base.e;
    const int64_t v = x->v, t = e->t, m = e->m;
    double *b = x->some[0];
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < m; j += n) {
        n = engine_width(e, j, m);
        for (int d = 0; d < e->ndir; d++) {
            if (j == 0 || e->ndir > 1)
                TRY(engine_aim_right(e, target, d));
            TRY(engine_fill_right(e, target, BACKEND_D, j, n, x->ctm64));
            TRY(engine_gemm(e, 'N', 'N', v, n, t, 1.0, x->proj + d * v * t, v, x->ctm64, t, d > 0,
                            b, v));
        }
        TRY(e->be->fp16->cast_to_single(e->ctx, v, n, b, v, x->b32 + j * v, v));
    }
    e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * m) * (double)(t * e->ndir);
done:
    return st;
}

status fp16_right_column(product *base, int64_t j, double *out) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    return e->be->fp16->cast_to_double(e->ctx, x->v, 1, 1, x->b32 + j * x->v, x->v, 0, out, x->v);
}

/* FP16 parts of B0, which is in b32 still. */
static status keep_right(fp16 *x) {
    engine *e = x->base.e;
    const int64_t v = x->v, ld = fp16_rows(v);
    status st;
    TRY(fp16_exponent(x, BACKEND_S, v, e->m, x->b32, &x->eb));
    st = e->be->fp16->split(e->ctx, BACKEND_S, 'A', v, e->m, x->eb, x->b32, v, x->b0[0], ld,
                            x->b0[1], ld);
done:
    return st;
}

/* W times `axes`, in double precision. */
static status keep_axes(fp16 *x, double *out) {
    engine *e = x->base.e;
    const int64_t v = x->v, m = e->m, nk = x->nk;
    double *w = x->some[1];
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < m && nk > 0; j += n) {
        n = engine_width(e, j, m);
        TRY(e->be->fp16->cast_to_double(e->ctx, v, n, 1, x->b32 + j * v, v, 0, w, v));
        TRY(engine_gemm(e, 'N', 'N', v, nk, n, 1.0, w, v, x->axes + j, m, j > 0, out, v));
    }
done:
    return st;
}

/* B0 W', symmetric but for what W is wrong by: its lower triangle, mirrored. Three products of
 * FP16 numbers: the residual is what the variances in B0 W' leave of each other, some hundredths of
 * them, so that sums are in short pieces, and in double precision over parts of the measurements.
 */
static status keep_products(fp16 *x, fp16_pair w, double *own) {
    engine *e = x->base.e;
    const backend_fp16 *h = e->be->fp16;
    const int64_t v = x->v, m = e->m, ld = fp16_rows(v);
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < m; j += n) {
        n = m - j < PART ? m - j : PART;
        for (int64_t c = 0, nc; c < v; c += nc) {
            const int64_t at = c + j * ld;
            const fp16_pair p = {x->b0[0] + at, x->b0[1] + at, ld, x->eb},
                            q = {w.hi + at, w.lo + at, ld, w.exponent};
            nc = v - c < STRIP ? v - c : STRIP;
            TRY(fp16_gemm_part(e->be, e->ctx, FP16_ALL, FP16_SHORT, 'N', 'T', v - c, nc, n, 1, p, q,
                               0, x->y, v));
            TRY(h->cast_to_double(e->ctx, v - c, nc, 1, x->y, v, j > 0, own + c * (v + 1), v));
        }
    }
    TRY(e->be->mirror(e->ctx, BACKEND_D, 'L', v, own, v));
    e->rep->flops[STAGE_SOLVE] += (double)(v * m) * (double)(v + 2 * x->nk);
done:
    return st;
}

/* comm_flip of a number of W. */
static status flip(fp16 *x, backend_f16 *w) {
    engine *e = x->base.e;
    const int64_t bytes = sizeof *w;
    backend_f16 value;
    status st;
    if (!comm_flips(e->c, "flip-w"))
        return MOAO_OK;
    TRY(e->be->copy(e->ctx, &value, bytes, w, bytes, bytes, 1));
    TRY(engine_sync(e));
    value ^= 0x4000; /* of the exponent: 2^16 times as large, or as small */
    TRY(e->be->copy(e->ctx, w, bytes, &value, bytes, bytes, 1));
    TRY(engine_sync(e));
done:
    return st;
}

/* W of a split factor, from its right-hand side in b32. */
static status solve(fp16 *x, const wrows *w) {
    const double m = (double)x->base.e->m;
    backend_f16 *hi = (backend_f16 *)(void *)w->w;
    status st;
    report_phase("solve: triangles");
    TRY(fp16_factor_begin_solves(x->base.f, false));
    if (!x->base.whole_y)
        TRY(keep_right(x));
    TRY(fp16_factor_divide(x->base.f, x->b32, hi, hi + fp16_w_size(x)));
    x->base.e->rep->flops[STAGE_SOLVE] += 2.0 * (double)x->v * m * m;
done:
    return st;
}

/* The same of another factor's, which is solved for in double precision, where B0 has been lost. In
 * the place of W it is cast by way of b32. */
static status cast(fp16 *x, const double dir[2], const wrows *solved, const wrows *w,
                   double *axes) {
    engine *e = x->base.e;
    const int64_t v = x->v, m = e->m, nk = x->nk, ld = fp16_rows(v), bytes = ld * m * 2;
    backend_f16 *to = (backend_f16 *)(void *)w->w, *hi = to, *lo = to + fp16_w_size(x);
    status st;
    if (!x->base.whole_y) {
        TRY(e->mat->aim(x->target, dir, false));
        /* B0 W' stands for W Cmm0 W': entries in FP32 would be missing there */
        TRY(right_double(x, x->target));
        TRY(keep_right(x));
        TRY(engine_gemm(e, 'N', 'N', v, nk, m, 1.0, solved->w, solved->ld, x->axes, m, 0.0, axes,
                        v));
    }
    TRY(fp16_exponent(x, BACKEND_D, v, m, solved->w, &x->ew[w->slot]));
    if (solved->w == w->w) {
        hi = (backend_f16 *)(void *)x->b32;
        lo = hi + ld * m;
    }
    TRY(e->be->fp16->split(e->ctx, BACKEND_D, 'A', v, m, x->ew[w->slot], solved->w, solved->ld, hi,
                           ld, lo, ld));
    if (hi == to)
        return st;
    TRY(e->be->copy(e->ctx, to, bytes, hi, bytes, bytes, 1));
    TRY(e->be->copy(e->ctx, to + fp16_w_size(x), bytes, lo, bytes, bytes, 1));
done:
    return st;
}

status fp16_keep(product *base, const double dir[2], const wrows *solved, const wrows *w,
                 double *own) {
    fp16 *x = (fp16 *)base;
    double *axes = fp16_axes(x, own);
    status st;
    if (x->split) {
        TRY(solve(x, w));
        if (!base->whole_y)
            TRY(keep_axes(x, axes));
    } else {
        if (solved->w == x->exact.w) {
            x->exact.target = -1; /* its W is lost */
            x->exact.solved = true;
            memcpy(x->exact.dir, dir, sizeof x->exact.dir);
        }
        TRY(cast(x, dir, solved, w, axes));
    }
    if (!base->whole_y)
        TRY(keep_products(x, fp16_w(x, w, 0), own));
    st = flip(x, (backend_f16 *)(void *)w->w + fp16_rows(x->v) * (base->e->m / 2));
done:
    return st;
}

status fp16_get(product *base, const wrows *w, int64_t j, int64_t n, double *out) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    const fp16_pair p = fp16_w(x, w, j);
    return e->be->fp16->join(e->ctx, x->v, n, p.exponent, p.hi, p.ld, p.lo, p.ld, out, x->v);
}
