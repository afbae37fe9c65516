/* The factor in split FP16 (fp16.c) for products that want W in double precision: W is refined with
 * Cmm0 itself, which is computed anew panel by panel, R = B0 - W Cmm0 and W += R Cmm0^-1, until R
 * is what rounding leaves. It takes a quarter of a dense factor's memory; each residual takes as
 * many operations in double precision as the two triangles of a dense factor. */
#include "factor/fp16.h"

#include <math.h>
#include <stdlib.h>

#define ROUNDED 1e-12 /* |R| / |B0| of a W that is not refined any more */
#define ENOUGH 1e-9   /* and of one that cannot be, at most */
#define STEPS 8       /* each shrinks R a thousand times or so */

typedef struct {
    factor base;
    factor *split;
    int64_t v;            /* rows of W of a target */
    double *b0;           /* v x m */
    float *r;             /* v x m: R, or B0, in single precision */
    backend_f16 *hi, *lo; /* v x m: what the factor gives */
    double *part;         /* v x width: columns of R */
    double *norms;        /* squares of the parts of R, then of B0; largest entry of B0 */
    double *host;         /* the same, pinned */
    int64_t npart;
} refined;

static int64_t parts_of(int64_t m, int64_t width) {
    return (m + width - 1) / width;
}

static void add_bytes(const sys *s, const factor_kind *split, plan *p) {
    const size_t m = s->m, v = (size_t)p->rows, v8 = (size_t)fp16_rows(p->rows), w = p->width,
                 d = sizeof(double);
    split->bytes(s, p);
    plan_add(p, "panel of Cmm0 or of Cmm of an exposure", (m + v) * w * d);
    plan_add(p, "refinement of W", v * m * (d + sizeof(float)) + 2 * v8 * m * sizeof(backend_f16));
}

static void bytes(const sys *s, plan *p) {
    add_bytes(s, &factor_fp16, p);
}

static void bytes_host(const sys *s, plan *p) {
    add_bytes(s, &factor_fp16_host, p);
}

static size_t host_bytes(const sys *s, const plan *p, int targets) {
    return factor_fp16_host.host(s, p, targets);
}

static void refined_close(factor *base) {
    refined *x = (refined *)base;
    const engine *e = base->e;
    factor_close(x->split);
    ENGINE_RELEASE(e, base->panel, x->b0, x->r, x->hi, x->lo, x->part, x->norms);
    e->be->release_host(e->ctx, x->host);
}

static status take_memory(refined *x) {
    engine *e = x->base.e;
    const int64_t v = x->v, m = e->m;
    const size_t parts = (size_t)(fp16_rows(v) * m) * sizeof(backend_f16),
                 count = 2 * (size_t)x->npart + 1;
    status st;
    TRY(engine_doubles(e, m * e->width, "columns of Cmm", &x->base.panel));
    TRY(engine_doubles(e, v * m, "the right-hand side of a target", &x->b0));
    TRY(engine_array(e, (size_t)(v * m) * sizeof(float), "a residual of W", (void **)&x->r));
    TRY(engine_array(e, parts, "W in FP16", (void **)&x->hi));
    TRY(engine_array(e, parts, "W in FP16", (void **)&x->lo));
    TRY(engine_doubles(e, v * e->width, "columns of a residual", &x->part));
    TRY(engine_doubles(e, (int64_t)count, "norms", &x->norms));
    st = e->be->alloc_host(e->ctx, count * sizeof(double), (void **)&x->host);
done:
    return st;
}

static status refined_open(factor *base, const plan *p, const double *proj) {
    refined *x = (refined *)base;
    engine *e = base->e;
    status st;
    x->v = p->rows;
    x->npart = parts_of(e->m, e->width);
    TRY(factor_open(base->kind->on_host ? &factor_fp16_host : &factor_fp16, e, p, proj, &x->split));
    st = take_memory(x);
done:
    return st;
}

/* --- what the split factor does */

static const refined *of(const factor *base) {
    return (const refined *)base;
}

static int64_t refined_ground(const factor *base) {
    return of(base)->split->kind->ground(of(base)->split);
}

static int64_t refined_room(const factor *base, int n, int64_t kept) {
    return of(base)->split->kind->room(of(base)->split, n, kept);
}

static status refined_set_workspace(factor *base, int n, double *room, int64_t kept) {
    return of(base)->split->kind->set_workspace(of(base)->split, n, room, kept);
}

static status refined_make(factor *base, const profile *p, int *minor) {
    return of(base)->split->kind->make(of(base)->split, p, minor);
}

/* --- W */

/* Squares of the entries of b0, and the largest one. */
static status measure(refined *x, double *norm, double *largest) {
    engine *e = x->base.e;
    const int64_t v = x->v, m = e->m;
    status st = MOAO_OK;
    for (int64_t p = 0; p < x->npart; p++) {
        const int64_t j = p * e->width, n = engine_width(e, j, m), most = v > n ? v : n;
        TRY(e->be->fp16->squares(e->ctx, BACKEND_D, v, n, x->b0 + j * v, v, most, x->norms + p, 1));
    }
    TRY(e->be->fp16->max_abs(e->ctx, BACKEND_D, v, m, x->b0, v, x->norms + x->npart));
    TRY(engine_copy(e, x->host, x->norms, x->npart + 1));
    TRY(engine_sync(e));
    *norm = 0;
    for (int64_t p = 0; p < x->npart; p++)
        *norm += x->host[p];
    *norm = sqrt(*norm);
    *largest = x->host[x->npart];
done:
    return st;
}

/* R = B0 - W Cmm0 in single precision; |R|. */
static status residual(refined *x, const wrows *w, double *norm) {
    engine *e = x->base.e;
    const int64_t v = x->v, m = e->m, d = sizeof(double);
    status st = MOAO_OK;
    for (int64_t p = 0; p < x->npart; p++) {
        const int64_t j = p * e->width, n = engine_width(e, j, m), most = v > n ? v : n;
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, m, j, n},
                             x->base.panel, m));
        TRY(e->be->copy(e->ctx, x->part, v * d, x->b0 + j * v, v * d, v * d, n));
        TRY(engine_gemm(e, 'N', 'N', v, n, m, -1.0, w->w, w->ld, x->base.panel, m, 1.0, x->part,
                        v));
        TRY(e->be->fp16->squares(e->ctx, BACKEND_D, v, n, x->part, v, most, x->norms + p, 1));
        TRY(e->be->fp16->cast_to_single(e->ctx, v, n, x->part, v, x->r + j * v, v));
    }
    TRY(engine_copy(e, x->host, x->norms, x->npart));
    TRY(engine_sync(e));
    *norm = 0;
    for (int64_t p = 0; p < x->npart; p++)
        *norm += x->host[p];
    *norm = sqrt(*norm);
    e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * m) * (double)m;
done:
    return st;
}

/* W of one target from its right-hand side. */
static status refine(refined *x, const wrows *w) {
    engine *e = x->base.e;
    const int64_t v = x->v, m = e->m, d = sizeof(double);
    double size, largest, norm, rho = INFINITY, before;
    status st;
    TRY(e->be->copy(e->ctx, x->b0, v * d, w->w, w->ld * d, v * d, m));
    TRY(measure(x, &size, &largest));
    if (!(size > 0) && largest == 0)
        return st; /* W = 0 */
    const int up = ilogb(fp16_factor_right(x->split) / largest) - FP16_SMALLER;
    TRY(e->be->fp16->cast_to_single(e->ctx, v, m, x->b0, v, x->r, v));
    TRY(fp16_factor_step(x->split, up, x->r, x->hi, x->lo, false, w->w, w->ld));
    for (int k = 0; k < STEPS; k++) {
        before = rho;
        TRY(residual(x, w, &norm));
        rho = norm / size;
        if (rho <= ROUNDED || !(rho < before / 2))
            break;
        TRY(fp16_factor_step(x->split, up + (int)floor(-log2(rho)), x->r, x->hi, x->lo, true, w->w,
                             w->ld));
    }
    if (!(rho <= ENOUGH))
        st = status_fail(MOAO_NUMERIC,
                         "compute.factor: %s: W of a target cannot be refined (its residual stays "
                         "at %.1e): Cmm is too badly conditioned; use compute.factor=dense or give "
                         "the sensors more noise",
                         x->base.kind->word, rho);
done:
    return st;
}

static status refined_solve(factor *base, int n, const wrows *w) {
    refined *x = (refined *)base;
    status st;
    report_phase("solve: triangles in FP16, refinement");
    TRY(fp16_factor_begin_solves(x->split, true));
    for (int k = 0; k < n; k++) {
        TRY(refine(x, &w[k]));
        base->e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(x->v * base->e->m) * (double)base->e->m;
    }
done:
    return st;
}

#define REFINED_TABLE                                                                              \
    .size = sizeof(factor_kind), .object = sizeof(refined), .open = refined_open,                  \
    .shares_panel = true, .residuals = 3, .close = refined_close, .ground = refined_ground,        \
    .room = refined_room, .set_workspace = refined_set_workspace, .make = refined_make,            \
    .solve = refined_solve

const factor_kind factor_fp16_refined = {
    .name = "fp16, refined", .word = "fp16", .bytes = bytes, REFINED_TABLE};
const factor_kind factor_fp16_host_refined = {.name = "fp16_host, refined",
                                              .word = "fp16_host",
                                              .on_host = true,
                                              .bytes = bytes_host,
                                              .host = host_bytes,
                                              REFINED_TABLE};
