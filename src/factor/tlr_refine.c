#include "factor/tlr_refine.h"

#include "engine/lgs_tiptilt.h"
#include "factor/fp16.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH ((int64_t)256) /* inner size of a piece of a sum, as moao/fp16_gemm.h says why */
#define COLUMNS ((int64_t)(REFINE_GROUPS * REFINE_GROUP))
#define ROUND ((int64_t)192) /* columns of a product are as many on a GPU */

int64_t tlr_refine_doubles(int64_t v, int64_t m) {
    return (v + 1) * m + 64;
}

status tlr_refine_open(engine *e, int64_t v, double *x, double *area, double *r, tlr_refine *f) {
    const int nk = tiptilt_constants(e->s);
    status st;
    *f = (tlr_refine){.e = e, .v = v, .x = x, .area = area, .r = r, .nk = nk};
    TRY(engine_array(e, (size_t)(fp16_rows(v) * e->m) * sizeof *f->step, "a step of W in FP16",
                     (void **)&f->step));
    TRY(engine_doubles(e, e->m * nk, "tip-tilt constants", &f->axes));
    TRY(engine_doubles(e, nk * nk, "tip-tilt constants", &f->constants));
    TRY(engine_doubles(e, 2 * v * nk, "tip-tilt constants", &f->along));
    TRY(engine_doubles(e, 2 * v * COLUMNS, "a sampled residual", &f->some));
    TRY(engine_doubles(e, 2 * REFINE_GROUPS, "numbers", &f->numbers));
    st = tiptilt_axes(e, f->axes);
done:
    return st;
}

void tlr_refine_close(tlr_refine *f) {
    if (f->e != NULL)
        ENGINE_RELEASE(f->e, f->step, f->axes, f->constants, f->along, f->some, f->numbers);
    *f = (tlr_refine){0};
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The g-th group of columns of a check: the first of them; how many. */
static int64_t group(const engine *e, int g, int64_t *n) {
    const int64_t j = e->m * (2 * g + 1) / (2 * REFINE_GROUPS);
    *n = least(e->m - j, least(e->width, REFINE_GROUP));
    return j;
}

status tlr_refine_start(tlr_refine *f, const wrows *w) {
    const engine *e = f->e;
    const int64_t v = w->rows, d = sizeof(double);
    status st;
    TRY(e->be->copy(e->ctx, f->r, v * d, w->w, w->ld * d, v * d, e->m));
    for (int g = 0; g < REFINE_GROUPS; g++) {
        int64_t n;
        const int64_t j = group(e, g, &n);
        TRY(e->be->copy(e->ctx, f->some + g * REFINE_GROUP * v, v * d, w->w + j * w->ld, w->ld * d,
                        v * d, n));
    }
done:
    return st;
}

/* Exponent for m x n numbers. Waits. */
static status exponent_of(tlr_refine *f, int64_t m, int64_t n, const double *a, int64_t lda,
                          int *exponent) {
    engine *e = f->e;
    double most;
    status st;
    TRY(e->be->fp16->max_abs(e->ctx, BACKEND_D, m, n, a, lda, f->numbers));
    TRY(engine_copy(e, &most, f->numbers, 1));
    TRY(engine_sync(e));
    *exponent = backend_fp16_exponent(most);
done:
    return st;
}

status tlr_refine_advance(tlr_refine *f, const tlr_cmm *c, bool add, const wrows *w) {
    engine *e = f->e;
    const backend *be = e->be;
    const int64_t v = w->rows, m = e->m, ld = fp16_rows(v), nk = f->nk;
    const int64_t most = least(m, least(e->width, m * e->width / (v + ld / 4 + 1)));
    double *part = f->area;
    backend_f16 *none = (backend_f16 *)(void *)(f->area + v * most);
    status st;
    TRY(exponent_of(f, v, m, f->x, v, &f->exponent));
    TRY(engine_zero(e, BACKEND_S, ld / 2, most, none, ld / 2));
    for (int64_t j = 0, n; j < m; j += n) {
        n = least(m - j, most);
        TRY(be->gather(e->ctx, BACKEND_D, v, n, NULL, c->back + j, f->x, v, 0, part, v));
        TRY(be->fp16->cast_to_fp16(e->ctx, BACKEND_D, v, n, f->exponent, part, v, f->step + j * ld,
                                   ld));
        TRY(be->fp16->join(e->ctx, v, n, f->exponent, f->step + j * ld, ld, none, ld, part, v));
        TRY(be->gather(e->ctx, BACKEND_D, v, n, NULL, NULL, part, v, add, w->w + j * w->ld, w->ld));
        if (nk > 0)
            TRY(engine_gemm(e, 'N', 'N', v, nk, n, 1.0, part, v, f->axes + j, m, j > 0, f->along,
                            v));
    }
done:
    return st;
}

/* Constants of the profile that is loaded. */
static status send_constants(tlr_refine *f) {
    engine *e = f->e;
    const int64_t nk = f->nk;
    double *host = NULL;
    status st;
    TRY(ALLOC(host, (size_t)(nk * nk), "tip-tilt constants"));
    tiptilt_fp16(e, host);
    TRY(engine_copy(e, f->constants, host, nk * nk));
    TRY(engine_sync(e));
done:
    free(host);
    return st;
}

/* R -= D K, K the constants. */
static status subtract_constants(tlr_refine *f, int64_t v) {
    engine *e = f->e;
    const int64_t nk = f->nk;
    double *times = f->along + v * nk;
    status st = MOAO_OK;
    if (nk == 0)
        return st;
    TRY(send_constants(f));
    TRY(engine_gemm(e, 'N', 'N', v, nk, nk, 2.0, f->along, v, f->constants, nk, 0.0, times, v));
    st = engine_gemm(e, 'N', 'T', v, e->m, nk, -1.0, times, v, f->axes, e->m, 1.0, f->r, v);
done:
    return st;
}

/* C (v x n) (+)= D(:, i:i+k) B or, along, with B' (n x k); B in split FP16. */
static status add_product(const tlr_refine *f, bool along, int64_t v, int64_t n, int64_t k,
                          int64_t i, const fp16_pair *b, bool add, float *c) {
    const engine *e = f->e;
    const int64_t ld = fp16_rows(v);
    const backend_f16 *d = f->step + i * ld;
    const fp16_product p[] = {{d, b->lo, 8 * DEPTH}, {d, b->hi, DEPTH}};
    const float scale = ldexpf(1, -f->exponent - b->exponent);
    if (n == 0)
        return MOAO_OK;
    if (!isnormal(scale))
        return status_fail(MOAO_INPUT, "refinement of W: exponents out of range");
    return e->be->fp16->gemm_rounded(e->ctx, 'N', along ? 'T' : 'N', v, n, k, scale, 2, p, ld,
                                     b->ld, add, c, v);
}

/* Columns of a panel of Cmm0: its two FP16 parts follow D Cmm0 (v x m, FP32) in x. */
static int64_t panel_columns(const tlr_refine *f, int64_t at) {
    const engine *e = f->e;
    const int64_t all = 2 * (tlr_refine_doubles(f->v, e->m) - at) / fp16_rows(e->m);
    const int64_t n = least(e->m, least(all, e->width));
    return n >= ROUND ? n / ROUND * ROUND : n >= 8 ? n / 8 * 8 : n;
}

/* Cmm0 is symmetric: a panel from its block on the diagonal on serves its columns and its rows. */
status tlr_refine_residual(tlr_refine *f, int64_t v) {
    engine *e = f->e;
    const int64_t m = e->m, ld = fp16_rows(m), at = engine_aligned(v * m / 2 + 1),
                  most = panel_columns(f, at);
    float *sum = (float *)(void *)f->x;
    backend_f16 *hi = (backend_f16 *)(void *)(f->x + at);
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < m; j += n) {
        fp16_pair c = {hi, hi + ld * most, ld, 0}, below = c;
        n = least(m - j, most);
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_NOISE, (matcov_region){j, m - j, j, n},
                             f->area, m));
        TRY(exponent_of(f, m - j, n, f->area, m, &c.exponent));
        TRY(e->be->fp16->split(e->ctx, BACKEND_D, 'A', m - j, n, c.exponent, f->area, m, hi, ld,
                               hi + ld * most, ld));
        below = (fp16_pair){c.hi + n, c.lo + n, ld, c.exponent};
        TRY(add_product(f, false, v, n, m - j, j, &c, j > 0, sum + j * v));
        TRY(add_product(f, true, v, m - j - n, n, j, &below, j > 0, sum + (j + n) * v));
    }
    TRY(e->be->fp16->cast_to_double(e->ctx, v, m, -1, sum, v, 1, f->r, v));
    st = subtract_constants(f, v);
done:
    e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * m) * (double)m;
    return st;
}

status tlr_refine_check(tlr_refine *f, const wrows *w, double *rho) {
    engine *e = f->e;
    const int64_t v = w->rows, m = e->m, tile = v > REFINE_GROUP ? v : REFINE_GROUP;
    double *r = f->some + v * COLUMNS, host[2 * REFINE_GROUPS], sum[2] = {0, 0};
    status st;
    for (int g = 0; g < REFINE_GROUPS; g++) {
        int64_t n;
        const int64_t j = group(e, g, &n), at = g * REFINE_GROUP * v;
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, m, j, n},
                             f->area, m));
        TRY(e->be->gather(e->ctx, BACKEND_D, v, n, NULL, NULL, f->some + at, v, 0, r + at, v));
        TRY(engine_gemm(e, 'N', 'N', v, n, m, -1.0, w->w, w->ld, f->area, m, 1.0, r + at, v));
        TRY(e->be->fp16->squares(e->ctx, BACKEND_D, v, n, r + at, v, tile, f->numbers + 2 * g, 1));
        TRY(e->be->fp16->squares(e->ctx, BACKEND_D, v, n, f->some + at, v, tile,
                                 f->numbers + 2 * g + 1, 1));
    }
    TRY(engine_copy(e, host, f->numbers, 2 * REFINE_GROUPS));
    TRY(engine_sync(e));
    for (int g = 0; g < REFINE_GROUPS; g++)
        sum[0] += host[2 * g], sum[1] += host[2 * g + 1];
    *rho = sum[1] > 0 ? sqrt(sum[0] / sum[1]) : 0;
done:
    return st;
}
