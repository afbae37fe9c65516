#include "resident/internal.h"

#include <stdlib.h>
#include <string.h>

/* The exposure's T of Cmm = T + T', transposed: its blocks below the diagonal are those of Cmm
 * above it. */
static status fill_triangle(resident *r) {
    const backend_matcov *mat = r->mat;
    const int64_t m = r->m;
    status st = MOAO_OK;
    report_phase("exposure: T of Cmm");
    for (int64_t j = 0, n; j < m && st == MOAO_OK; j += n) {
        n = resident_width(r, j, m);
        st =
            mat->fill_cmm(r->cov, BACKEND_D, 'T', MATCOV_ALL, j, n, j, n, r->diag + j * r->w, r->w);
        if (st == MOAO_OK && j + n < m)
            st = mat->fill_cmm(r->cov, BACKEND_D, 'A', MATCOV_ALL, j, n, j + n, m - j - n,
                               r->a + j + (j + n) * m, m);
    }
    return st;
}

/* D+ Ctt D+' on its way to the host. */
static status truth(resident *r) {
    const int64_t v = r->v, t = r->t;
    status st;
    report_phase("exposure: D+ Ctt D+'");
    for (int64_t j = 0, n; j < t; j += n) {
        n = resident_width(r, j, t);
        TRY(resident_project(r, true, j, n, 1.0, 0.0, r->z));
        TRY(resident_gemm(r, 'N', 'T', v, v, n, 1.0, r->z, v, r->dplus + j * v, v, j > 0, r->y, v));
    }
    TRY(resident_copy(r, r->host[2], r->y, v * v));
    r->u.rep->flops[STAGE_EXPOSURE] += 2.0 * (double)(v * t) * (double)(t + v);
done:
    return st;
}

/* Y = (W T - D+ Ctm) W' of one target, panel by panel, on its way to the host. */
static status residual(resident *r, int target, const double *w, double *host) {
    const int64_t m = r->m, v = r->v;
    status st;
    report_phase("exposure: next target");
    TRY(r->mat->aim(r->target, r->u.s->targets[target], true));
    for (int64_t j = 0, n; j < m; j += n) {
        n = resident_width(r, j, m);
        const int64_t below = m - j - n;
        report_phase("exposure: W T");
        TRY(resident_gemm(r, 'N', 'N', v, n, n, 1.0, w + j * v, v, r->diag + j * r->w, r->w, 0.0,
                          r->z, v));
        if (below > 0)
            TRY(resident_gemm(r, 'N', 'T', v, n, below, 1.0, w + (j + n) * v, v,
                              r->a + j + (j + n) * m, m, 1.0, r->z, v));
        report_phase("exposure: D+ Ctm");
        TRY(resident_project(r, false, j, n, -1.0, 1.0, r->z));
        report_phase("exposure: Y");
        TRY(resident_gemm(r, 'N', 'T', v, v, n, 1.0, r->z, v, w + j * v, v, j > 0, r->y, v));
    }
    TRY(resident_copy(r, host, r->y, v * v));
    r->u.rep->flops[STAGE_EXPOSURE] += (double)(v * m) * (double)(m + 2 * r->t + 2 * v);
done:
    return st;
}

/* What all targets of an exposure share, from host[2]. */
static status common_part(resident *r, obsexposure *ex) {
    if (ex->mtt != NULL)
        return MOAO_OK;
    const size_t v = (size_t)r->v;
    status st = ALLOC(ex->mtt, psf_sep_count(r->u.ps), "stationary average of D+ Ctt D+'");
    if (st == MOAO_OK)
        psf_accumulate(r->u.ps, 0, v, r->host[2], v, false, ex->mtt);
    return st;
}

typedef struct { /* results of this rank */
    double *sum, *scalars;
    float *images;
    size_t ns, np; /* of a target */
    double psf;    /* time that the host spent on them [s] */
} results;

static status target_psf(resident *r, obsexposure *ex, int k, results *o) {
    const size_t v = (size_t)r->v;
    double from = report_now();
    status st;
    report_phase("exposure: PSF");
    TRY(comm_fault(r->u.c, "psf"));
    TRY(common_part(r, ex));
    memset(o->sum, 0, psf_sep_count(r->u.ps) * sizeof(double));
    psf_accumulate(r->u.ps, 0, v, r->host[k % 2], v, true, o->sum);
    for (size_t i = 0; i < psf_sep_count(r->u.ps); i++)
        o->sum[i] += ex->mtt[i];
    st = psf_compute_all(r->u.ps, o->sum, ex->fit, o->scalars + (size_t)k * o->ns,
                         o->images != NULL ? o->images + (size_t)k * o->np : NULL);
done:
    o->psf += report_now() - from;
    return st;
}

/* The host makes the PSFs of a target while the device works on the next one. */
static status expose_local(resident *r, const profile *p, obsexposure *ex, results *o) {
    status st;
    report_phase("exposure: profile");
    TRY(comm_fault(r->u.c, "exposure"));
    TRY(resident_load(r, p));
    if (ex->mtt == NULL)
        TRY(truth(r));
    TRY(r->stream != NULL ? stream_residuals(r) : fill_triangle(r));
    if (ex->fit == NULL)
        TRY(psf_fit_init(r->u.ps, p, &ex->fit));
    for (int k = 0; k <= r->ch.nmine; k++) {
        if (k < r->ch.nmine)
            TRY(r->stream != NULL ? resident_copy(r, r->host[k % 2], stream_y(r, k), r->v * r->v)
                                  : residual(r, r->ch.mine + k, r->wt[k], r->host[k % 2]));
        if (k > 0)
            TRY(target_psf(r, ex, k - 1, o));
        TRY(resident_sync(r));
        rows_progress(&r->team);
    }
done:
    if (st != MOAO_OK)
        r->be->sync(r->ctx); /* nothing may write to the host's arrays any more */
    return st;
}

status resident_expose(resident *r, const profile *p, obsexposure *ex, result_block *b) {
    const size_t most = obsseq_most(&r->team, &r->ch);
    results o = {.ns = (size_t)b->nlambda * (3 + (size_t)b->nbox),
                 .np = (size_t)b->nlambda * (size_t)b->crop * (size_t)b->crop};
    report *rep = r->u.rep;
    double from = report_now();
    status st = ALLOC(o.sum, psf_sep_count(r->u.ps), "stationary average");
    if (st == MOAO_OK)
        st = ALLOC(o.scalars, most * o.ns, "results");
    if (st == MOAO_OK && b->crop > 0)
        st = ALLOC(o.images, most * o.np, "PSFs of a rank");
    if (st == MOAO_OK)
        st = expose_local(r, p, ex, &o);
    rep->wall[STAGE_EXPOSURE] += report_now() - from - o.psf;
    from = report_now();
    ROWS_WAIT(&r->team, STAGE_PSF, st = resident_agree(r, st));
    if (st == MOAO_OK)
        st = obsseq_collect(&r->team, &r->ch, o.scalars, o.images, b);
    rep->wall[STAGE_PSF] += report_now() - from + o.psf;
    free(o.sum);
    free(o.scalars);
    free(o.images);
    return st;
}
