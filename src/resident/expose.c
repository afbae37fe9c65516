#include "resident/internal.h"
#include "resident/mixed.h"

#include <math.h>
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
    if (st == MOAO_OK)
        st = resident_flip(r, "flip-t", r->diag);
    return st;
}

/* The stationary average of D+ Ctt D+' into mtt, by way of y. */
static status truth(resident *r) {
    const int64_t v = r->v, t = r->t;
    status st;
    report_phase("exposure: D+ Ctt D+'");
    for (int64_t j = 0, n; j < t; j += n) {
        n = resident_width(r, j, t);
        TRY(resident_project(r, true, j, n, 1.0, 0.0, r->z));
        TRY(resident_gemm(r, 'N', 'T', v, v, n, 1.0, r->z, v, r->dplus + j * v, v, j > 0, r->y, v));
    }
    TRY(r->img->average(r->imager, r->y, v, false, r->mtt));
    r->u.rep->flops[STAGE_EXPOSURE] += 2.0 * (double)(v * t) * (double)(t + v);
done:
    return st;
}

/* Y = (W T - D+ Ctm) W' of one target, panel by panel. */
static status residual(resident *r, int target, const double *w) {
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
    r->u.rep->flops[STAGE_EXPOSURE] += (double)(v * m) * (double)(m + 2 * r->t + 2 * v);
done:
    return st;
}

/* What all targets of an exposure share: its fitting error, T, of which mixed precision has its own
 * kind, and mtt on the device; at the first chunk a copy of it is on its way to the host. Streamed:
 * Y of all targets. */
static status prepare(resident *r, const profile *p, obsexposure *ex, bool mixed) {
    const int64_t nsep = (int64_t)psf_sep_count(r->u.ps);
    psf_fit_model fit;
    status st;
    report_phase("exposure: profile");
    TRY(comm_fault(r->u.c, "exposure"));
    if (!mixed || ex->mtt == NULL)
        TRY(resident_load(r, p));
    if (ex->mtt == NULL) {
        TRY(truth(r));
        TRY(resident_copy(r, r->average, r->mtt, nsep));
    } else {
        memcpy(r->average, ex->mtt, (size_t)nsep * sizeof(double));
        TRY(resident_copy(r, r->mtt, r->average, nsep));
    }
    TRY(mixed ? mixed_load(r, p) : r->stream != NULL ? stream_residuals(r) : fill_triangle(r));
    if (ex->fit == NULL)
        TRY(psf_fit_init(r->u.ps, p, &ex->fit));
    psf_fit_model_init(ex->fit, &fit);
    st = r->img->load(r->imager, &fit);
done:
    return st;
}

/* The copy has arrived. */
static status keep_common(const resident *r, obsexposure *ex) {
    const size_t nsep = psf_sep_count(r->u.ps);
    if (ex->mtt != NULL)
        return MOAO_OK;
    status st = ALLOC(ex->mtt, nsep, "stationary average of D+ Ctt D+'");
    if (st == MOAO_OK)
        memcpy(ex->mtt, r->average, nsep * sizeof(double));
    return st;
}

typedef struct { /* results of this rank, by target */
    double *scalars;
    float *images;
    size_t ns, np; /* of a target */
} results;

/* PSFs of the k-th target from its Y. */
static status start_psf(resident *r, int k, const double *y) {
    report_phase("exposure: PSF");
    status st = r->img->average(r->imager, y, r->v, true, r->sum);
    return st != MOAO_OK ? st : r->img->compute(r->imager, k % PSF_SLOTS, r->sum, r->mtt);
}

static status finish_psf(resident *r, int k, results *o) {
    status st;
    report_phase("exposure: results");
    TRY(comm_fault(r->u.c, "psf"));
    TRY(comm_fault(r->u.c, "device"));
    TRY(r->img->collect(r->imager, k % PSF_SLOTS, o->scalars + (size_t)k * o->ns,
                        o->images != NULL ? o->images + (size_t)k * o->np : NULL));
    rows_progress(&r->team);
    st = comm_alarmed(r->u.c) ? MOAO_INTERNAL : MOAO_OK;
done:
    return st;
}

/* Targets k0 .. k1 of this rank. The results of a target are fetched once the next one is under
 * way, so that the device never waits for the host. */
static status expose_targets(resident *r, obsexposure *ex, int k0, int k1, bool mixed, results *o) {
    status st = MOAO_OK;
    for (int k = k0; k <= k1 && k0 < k1; k++) {
        if (k < k1) {
            const int target = r->ch.mine + k;
            if (mixed)
                TRY(mixed_residual(r, k, target, r->wt[k]));
            else if (r->stream == NULL)
                TRY(residual(r, target, r->wt[k]));
            const double *y = r->stream != NULL ? stream_y(r, k) : r->y;
            TRY(resident_probe(r, target, r->wt[k], y));
            TRY(start_psf(r, k, y));
        }
        if (k > k0)
            TRY(finish_psf(r, k - 1, o));
    }
    TRY(resident_sync(r));
    st = keep_common(r, ex);
done:
    return st;
}

/* Largest difference of a Strehl ratio or ensquared energy between two lists of results. */
static double difference(const result_block *b, const double *x, const double *y) {
    double most = 0;
    for (int l = 0; l < b->nlambda; l++)
        for (int i = 0; i < 3 + b->nbox; i++, x++, y++)
            if (i == 0 || i >= 3)
                most = fmax(most, isfinite(*x - *y) ? fabs(*x - *y) : INFINITY);
    return most;
}

/* This rank's targets in mixed precision; the sampled one, if it is here, in double precision
 * after that. */
static status try_mixed(resident *r, const profile *p, obsexposure *ex, const result_block *b,
                        double *gap, results *o) {
    const int k = r->u.edge - r->ch.mine;
    double *before = NULL;
    status st;
    TRY(prepare(r, p, ex, true));
    TRY(expose_targets(r, ex, 0, r->ch.nmine, true, o));
    if (k < 0 || k >= r->ch.nmine)
        goto done;
    const double *mine = o->scalars + (size_t)k * o->ns;
    TRY(ALLOC(before, o->ns, "results of a target"));
    memcpy(before, mine, o->ns * sizeof *before);
    TRY(prepare(r, p, ex, false));
    TRY(expose_targets(r, ex, k, k + 1, false, o));
    *gap = difference(b, mine, before);
done:
    free(before);
    return st;
}

/* Collective. In mixed precision as far as it holds. */
static status expose_all(resident *r, const profile *p, obsexposure *ex, resident_precision *how,
                         const result_block *b, results *o) {
    double gap = -1; /* no sample */
    status st = MOAO_OK;
    how->difference = NAN;
    if (how->mixed) {
        st = try_mixed(r, p, ex, b, &gap, o);
        ROWS_WAIT(&r->team, STAGE_EXPOSURE, st = resident_agree(r, st));
        MPI_Allreduce(MPI_IN_PLACE, &gap, 1, MPI_DOUBLE, MPI_MAX, r->u.c->mpi);
        how->difference = gap >= 0 ? gap : NAN;
        how->mixed = gap <= r->u.tolerance;
    }
    if (st == MOAO_OK && !how->mixed) {
        TRY(prepare(r, p, ex, false));
        st = expose_targets(r, ex, 0, r->ch.nmine, false, o);
    }
done:
    if (st != MOAO_OK)
        r->be->sync(r->ctx); /* nothing may write to the host's arrays any more */
    return st;
}

status resident_expose(resident *r, const profile *p, obsexposure *ex, resident_precision *how,
                       probe *look, result_block *b) {
    const size_t most = obsseq_most(&r->team, &r->ch);
    results o = {.ns = (size_t)b->nlambda * (3 + (size_t)b->nbox),
                 .np = (size_t)b->nlambda * (size_t)b->crop * (size_t)b->crop};
    report *rep = r->u.rep;
    double from = report_now();
    status st = ALLOC(o.scalars, most * o.ns, "results");
    if (st == MOAO_OK && b->crop > 0)
        st = ALLOC(o.images, most * o.np, "PSFs of a rank");
    if (look != NULL) {
        memset(look->q, 0, (size_t)look->n * (size_t)r->m * sizeof *look->q);
        memset(look->y, 0, (size_t)look->n * sizeof *look->y);
    }
    r->look = look;
    if ((st = resident_agree(r, st)) == MOAO_OK)
        st = expose_all(r, p, ex, how, b, &o);
    r->look = NULL;
    rep->wall[STAGE_EXPOSURE] += report_now() - from;
    from = report_now();
    ROWS_WAIT(&r->team, STAGE_PSF, st = resident_agree(r, st));
    if (st == MOAO_OK)
        st = obsseq_collect(&r->team, &r->ch, o.scalars, o.images, b);
    rep->wall[STAGE_PSF] += report_now() - from;
    free(o.scalars);
    free(o.images);
    return st;
}
