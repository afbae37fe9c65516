/* The operator `half`: the factor of Cmm0 in FP16, and W of a target by it. */
#include "factor/host_factor.h"
#include "residual/fp16_internal.h"

#include <math.h>
#include <stdlib.h>

/* Of B0 W': columns at a time, and measurements whose sum is in single precision. */
#define STRIP ((int64_t)1152)
#define PART ((int64_t)16384)
/* Inner size of a piece of B0: what tensor cores cut off its sums (linalg/fp16/fp16_gemm.h) counts
 * in full there, as B0 W' stands for W Cmm0 W' and for the term with Ctm0. */
#define PIECE ((int64_t)256)

/* |W Cmm0 - B0| / |B0| that single products of FP16 numbers may add up to, by level; 0: three
 * everywhere. At the full scale the first takes 5 % of the tiles in three products, and changes a
 * Strehl ratio by 4e-6. Twice of it takes 1 %, a tenth off the triangles, with no change of a
 * Strehl ratio that could be told there (params/mosaic.yaml, 4 and 26 targets), but 2e-5 more in
 * small systems (params/demo.yaml), where the triangles do not count. */
static const double accuracy[] = {2e-5, 5e-6, 0};
#define LARGE ((int64_t)65536)
/* What sums on tensor cores cut off, and single precision, add to that. */
#define FLOOR 5e-5

/* Doubles that sample_rows works in. */
static int64_t picking(const fp16 *x) {
    const engine *e = x->base.e;
    const int64_t n = x->sample;
    return engine_aligned(n * x->v) + engine_aligned(n * e->t) + engine_aligned(e->t * e->width);
}

int64_t fp16_sampling(const fp16 *x) {
    const engine *e = x->base.e;
    const int64_t n = x->sample, d = sizeof(double);
    const fp16_factor_options o = fp16_factor_defaults(e->m, x->v, 0);
    int64_t all = engine_aligned(n * e->m) + picking(x);
    if (x->passing == NULL)
        return all + engine_aligned((int64_t)fp16_factor_make_work(x->l, n) / d + 1);
    all += 2 * engine_aligned(n * e->m) + engine_aligned(e->m * o.panel);
    return all + engine_aligned((int64_t)fp16_factor_panel_work(x->l, n) / d + 1);
}

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

/* --- the factor */

/* The next `count` doubles of some memory. */
static double *cut(double **from, int64_t count) {
    double *here = *from;
    *from += engine_aligned(count);
    return here;
}

/* Evenly spread rows of P Ctm0 in the sample's direction, n x m, with `room` for `picking` numbers
 * more. Conditions are the reconstructor's. Waits. */
static status sample_rows(fp16 *x, double *b, double *room) {
    engine *e = x->base.e;
    const int64_t n = x->sample, t = e->t, step = x->v / n;
    double *pick = cut(&room, n * x->v), *p = cut(&room, n * t), *ctm = cut(&room, t * e->width);
    double *ones = NULL;
    status st;
    TRY(ALLOC(ones, (size_t)(n * x->v), "a sample of rows"));
    for (int64_t i = 0; i < n; i++)
        ones[i + i * step * n] = 1;
    TRY(engine_copy(e, pick, ones, n * x->v));
    TRY(engine_gemm(e, 'N', 'N', n, t, x->v, 1.0, pick, n, x->proj, x->v, 0.0, p, n));
    TRY(engine_sync(e));
    TRY(e->mat->aim(x->target, x->direction, false));
    for (int64_t j = 0, w; j < e->m; j += w) {
        w = engine_width(e, j, e->m);
        TRY(e->mat->fill_ctm(x->target, BACKEND_D, 0, t, j, w, ctm, t));
        TRY(engine_gemm(e, 'N', 'N', n, w, t, 1.0, p, n, ctm, t, 0.0, b + j * n, n));
    }
done:
    free(ones);
    return st;
}

/* What is on the device becomes halves in its own place. */
static status take_made(fp16 *x, int *info) {
    const int64_t m = x->base.e->m, n = x->sample;
    const size_t work = fp16_factor_make_work(x->l, n);
    double *room = x->room + engine_aligned(m * m), *b = cut(&room, n * m);
    status st;
    TRY(sample_rows(x, b, room));
    room += picking(x);
    st = fp16_factor_make(x->l, x->room, m, n, b, n, x->room, room, work, info);
done:
    return st;
}

/* Root of twice the largest of the variances, of which every 64th is looked at, and its
 * neighbours. */
static status find_bound(fp16 *x, double *tile, double *bound) {
    enum { N = 8, STEP = 64 };
    engine *e = x->base.e;
    double host[N * N], most = 0;
    status st = MOAO_OK;
    for (int64_t j = 0; j < e->m; j += STEP) {
        const int64_t n = e->m - j < N ? e->m - j : N;
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, j, n, j, n, tile, n));
        TRY(engine_copy(e, host, tile, n * n));
        TRY(engine_sync(e));
        for (int64_t i = 0; i < n; i++)
            most = fmax(most, host[i * (n + 1)]);
    }
    *bound = sqrt(2 * most);
done:
    return st;
}

/* What is in the host's memory comes panel by panel and becomes halves. */
static status take_host(fp16 *x, int *info) {
    engine *e = x->base.e;
    const int64_t m = e->m, n = x->sample, size = n * m;
    const fp16_factor_options o = fp16_factor_defaults(m, x->v, 0);
    const size_t lwork = fp16_factor_panel_work(x->l, n);
    double *room = x->room + fp16_place(m) + fp16_area(m, e->t, x->v, e->width);
    double *b = cut(&room, size), *const behind = room;
    double *w, *solved, *stage, bound;
    status st;
    TRY(sample_rows(x, b, behind));
    room += picking(x);
    solved = cut(&room, size), w = cut(&room, size), stage = cut(&room, m * o.panel);
    const wrows rows = {.rows = n, .ld = n, .w = w};
    TRY(engine_copy(e, w, b, size));
    TRY(streamed_triangles(x->passing, true, false, 1, &rows));
    TRY(engine_copy(e, solved, w, size));
    TRY(streamed_triangles(x->passing, false, true, 1, &rows));
    TRY(find_bound(x, stage, &bound));
    TRY(fp16_factor_begin(x->l, bound, &(fp16_sample){n, b, n, solved, w, n}, x->room));
    for (int64_t j = 0, some; j < m; j += some) {
        some = m - j < o.panel ? m - j : o.panel;
        TRY(streamed_columns_of(x->passing, j, some, stage, m - j));
        TRY(fp16_factor_panel(x->l, j, stage, m - j, room, lwork));
    }
    st = fp16_factor_end(x->l, info);
done:
    return st;
}

/* Whether any rank has found a minor that is not positive: what it is then made of is no factor. */
static bool found(const engine *e, int minor) {
    int any = minor > 0;
    MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, e->c->mpi);
    return any != 0;
}

status fp16_factor_of(linop *base, const profile *p, int *minor) {
    fp16 *x = (fp16 *)base;
    engine *e = base->e;
    int info = 0;
    status st = x->passing != NULL ? linop_host.factor(x->passing, p, minor)
                                   : cholesky_factor(&x->made, p, minor);
    TRY(engine_agree(e, STAGE_FACTOR, st));
    x->tor = p;
    if (e->phase)
        x->ep0 = backend_fp16_exponent(matcov_phase_bound(e->s, p, p, 0));
    x->exact.target = -1;
    if (found(e, *minor))
        return st;
    const double from = report_now();
    report_phase("reconstructor: halves");
    TRY(x->passing != NULL ? take_host(x, &info) : take_made(x, &info));
    TRY(engine_sync(e));
    if (info != 0)
        st = status_fail(MOAO_NUMERIC, "the factor of Cmm0 cannot be kept in halves; use "
                                       "compute.precision=double");
    e->rep->wall[STAGE_FACTOR] += report_now() - from;
done:
    return st;
}

/* --- W */

status fp16_right(linop *base, backend_cov_target *target) {
    fp16 *x = (fp16 *)base;
    engine *e = base->e;
    const backend_fp16 *h = e->be->fp16;
    const int64_t v = x->v, t = e->t, m = e->m;
    const int64_t t8 = fp16_rows(t);
    const fp16_pair p = {x->dplus[0], x->dplus[1], fp16_rows(v), x->ed};
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < m; j += n) {
        fp16_pair c = {x->ctm[0], x->ctm[1], t8, 0};
        n = engine_width(e, j, m);
        TRY(e->mat->fill_ctm(target, BACKEND_S, 0, t, j, n, x->wide, t));
        TRY(fp16_exponent(x, BACKEND_S, t, n, x->wide, &c.exponent));
        TRY(h->split(e->ctx, BACKEND_S, 'A', t, n, c.exponent, x->wide, t, x->ctm[0], t8, x->ctm[1],
                     t8));
        TRY(fp16_gemm_part(e->be, e->ctx, FP16_ALL, PIECE, 'N', 'N', v, n, t, 1, p, c, 0,
                           x->b32 + j * v, v));
    }
    e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * m) * (double)t;
done:
    return st;
}

status fp16_right_column(linop *base, int64_t j, double *out) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    return e->be->fp16->cast_to_double(e->ctx, x->v, 1, 1, x->b32 + j * x->v, x->v, 0, out, x->v);
}

/* Halves of B0, which is in b32 still. */
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

status fp16_divide(fp16 *x, backend_f16 *hi, backend_f16 *lo) {
    return fp16_factor_solve(x->l, x->v, x->b32, x->v, hi, lo, fp16_rows(x->v), x->work, x->lwork);
}

/* Of the next solve. */
static double allowed(const linop *base) {
    const engine *e = base->e;
    const int level = base->accuracy.level;
    return (level == 0 && e->m >= LARGE && !e->phase ? 2 : 1) * accuracy[level];
}

double fp16_expected(const linop *base) {
    return allowed(base) + FLOOR;
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
 * halves: the residual is what the variances in B0 W' leave of each other, some hundredths of them,
 * so that sums are in short pieces, and in double precision over parts of the measurements. */
static status keep_products(fp16 *x, fp16_pair w, double *own) {
    engine *e = x->base.e;
    const backend_fp16 *h = e->be->fp16;
    const int64_t v = x->v, m = e->m, ld = fp16_rows(v);
    status st;
    TRY(keep_axes(x, fp16_axes(x, own)));
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

status fp16_solve(linop *base, int n, const wrows *w, double *const *own) {
    fp16 *x = (fp16 *)base;
    engine *e = base->e;
    const double m = (double)e->m;
    status st = MOAO_OK;
    report_phase("solve: triangles");
    TRY(fp16_factor_choose(x->l, allowed(base)));
    fp16_factor_pieces(x->l, FP16_DEPTH);
    for (int k = 0; k < n; k++) { /* one: fp16_right has made what follows */
        backend_f16 *hi = (backend_f16 *)(void *)w[k].w;
        TRY(keep_right(x));
        TRY(fp16_divide(x, hi, hi + fp16_w_size(x)));
        TRY(keep_products(x, fp16_w(x, &w[k], 0), own[k]));
        TRY(flip(x, hi + fp16_rows(x->v) * (e->m / 2)));
        e->rep->flops[STAGE_SOLVE] += 2.0 * (double)x->v * m * m;
    }
done:
    return st;
}

status fp16_get(linop *base, const wrows *w, int64_t j, int64_t n, double *out) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    const fp16_pair p = fp16_w(x, w, j);
    return e->be->fp16->join(e->ctx, x->v, n, p.exponent, p.hi, p.ld, p.lo, p.ld, out, x->v);
}
