#include "resident/internal.h"
#include "resident/mixed.h"

#include "tor/tor.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE ((size_t)128 << 20) /* bytes that travel at a time */

status resident_gemm(resident *r, char ta, char tb, int64_t m, int64_t n, int64_t k, double alpha,
                     const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                     double *c, int64_t ldc) {
    return r->be->gemm(r->ctx, BACKEND_D, ta, tb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc,
                       r->work, r->lwork);
}

status resident_copy(resident *r, double *dst, const double *src, int64_t count) {
    const int64_t bytes = count * (int64_t)sizeof(double);
    return r->be->copy(r->ctx, dst, bytes, src, bytes, bytes, 1);
}

status resident_sync(resident *r) {
    status st = comm_fault(r->u.c, "device");
    if (st == MOAO_OK)
        st = r->be->sync(r->ctx);
    return st == MOAO_OK && comm_alarmed(r->u.c) ? MOAO_INTERNAL : st;
}

status resident_agree(const resident *r, status st) {
    char text[1024];
    if (st != MOAO_OK)
        comm_alarm(r->u.c);
    if (st == MOAO_INTERNAL && status_message()[0] != '\0') {
        snprintf(text, sizeof text,
                 "%.800s; what is finished is kept: go on with --resume, on another device or with "
                 "compute.backend=cpu",
                 status_message());
        status_clear();
        status_adopt(text);
    }
    return comm_agree(r->u.c, st);
}

status resident_use(resident *r, matcov *mc) {
    matcov_model model = {0};
    status st;
    TRY(matcov_model_init(mc, &model));
    if (r->cov == NULL) {
        TRY(r->mat->open(r->ctx, &model, &r->cov));
        TRY(r->mat->open_target(r->cov, &r->target));
    } else {
        TRY(r->mat->load(r->cov, &model));
    }
    matcov_free(r->mc);
    r->mc = mc;
    mc = NULL;
done:
    matcov_model_free(&model);
    matcov_free(mc);
    return st;
}

status resident_load(resident *r, const profile *p) {
    matcov *mc = NULL;
    status st = matcov_prepare(r->u.s, p, &mc);
    return st != MOAO_OK ? st : resident_use(r, mc);
}

status resident_project(resident *r, bool truth, int64_t j, int64_t n, double alpha, double beta,
                        double *out) {
    const backend_matcov *mat = r->mat;
    status st = truth ? mat->fill_ctt(r->cov, BACKEND_D, 'A', 0, r->t, j, n, r->ctm, r->t)
                      : mat->fill_ctm(r->target, BACKEND_D, 0, r->t, j, n, r->ctm, r->t);
    return st != MOAO_OK ? st
                         : resident_gemm(r, 'N', 'N', r->v, n, r->t, alpha, r->dplus, r->v, r->ctm,
                                         r->t, beta, out, r->v);
}

/* --- life */

status resident_array(resident *r, size_t bytes, const char *what, void **p) {
    const device_plan *d = r->u.plan;
    status st = r->be->alloc(r->ctx, bytes > 0 ? bytes : 1, p);
    if (st != MOAO_MEMORY)
        return st;
    status_clear();
    return status_fail(MOAO_MEMORY,
                       "the device has no room for %s (%.2f GB); this run needs %.2f GB of it for "
                       "one target at a time: use a GPU with more memory that nothing else "
                       "uses, smaller sensors, or compute.backend=cpu",
                       what, (double)bytes / 1e9, (double)(d->fixed + d->target) / 1e9);
}

status resident_doubles(resident *r, int64_t count, const char *what, double **p) {
    return resident_array(r, (size_t)count * sizeof(double), what, (void **)p);
}

static status take_device(resident *r) {
    int n = r->be->devices();
    if (n < 1)
        return status_fail(MOAO_INPUT, "compute.backend: no device was found");
    r->device = r->u.c->node_rank % n;
    status st = r->be->open(r->device, NULL, &r->ctx);
    return st == MOAO_OK ? r->be->open_behind(r->ctx, &r->behind) : st;
}

/* What makes PSFs, and its sums. */
static status take_imager(resident *r) {
    const size_t nsep = psf_sep_count(r->u.ps);
    psf_model model;
    status st;
    psf_model_init(r->u.ps, &model);
    TRY(r->img->open(r->ctx, &model, &r->imager));
    TRY(resident_doubles(r, (int64_t)nsep, "a stationary average", &r->sum));
    TRY(resident_doubles(r, (int64_t)nsep, "a stationary average", &r->mtt));
    TRY(r->be->alloc_host(r->ctx, nsep * sizeof(double), (void **)&r->average));
done:
    return st;
}

/* What both ways of keeping the factor need. */
static status take_arrays(resident *r) {
    const int64_t m = r->m, v = r->v, n = r->u.nsample;
    status st;
    TRY(resident_doubles(r, v * r->t, "the command matrix", &r->dplus));
    TRY(resident_doubles(r, r->t * r->w, "panels of Ctm", &r->ctm));
    TRY(resident_doubles(r, v * r->w, "panels of W T", &r->z));
    TRY(resident_doubles(r, m * n, "a sampled residual", &r->columns));
    for (int i = 0; i < 2; i++)
        TRY(r->be->alloc_host(r->ctx, (size_t)(v * n) * sizeof(double), (void **)&r->host[i]));
    TRY(resident_load(r, r->u.largest));
    TRY(take_imager(r));
    TRY(resident_copy(r, r->dplus, r->u.dplus, v * r->t));
    TRY(resident_sync(r));
done:
    return st;
}

/* The factor and the exposure's T on the device. */
static status take_factor(resident *r) {
    const backend *be = r->be;
    const int64_t m = r->m, v = r->v;
    status st;
    size_t trsm = be->workspace(BACKEND_TRSM, BACKEND_D, v, m);
    r->lwork = factor_work(r);
    r->lwork = r->lwork > trsm ? r->lwork : trsm;
    TRY(resident_doubles(r, m * m, "the factor of Cmm", &r->a));
    TRY(resident_doubles(r, r->w * m, "blocks of Cmm", &r->diag));
    TRY(resident_doubles(r, v * v, "a residual covariance", &r->y));
    TRY(resident_doubles(r, v * r->u.nsample, "a sampled residual", &r->sample));
    TRY(resident_array(r, (size_t)factor_strips(r) * sizeof(int), "numbers", (void **)&r->info));
    TRY(resident_array(r, r->lwork, "work", &r->work));
    /* what lies above the diagonals stays 0: products read it, nothing writes it */
    TRY(resident_gemm(r, 'N', 'N', r->w, m, 1, 0.0, r->diag, r->w, r->diag, 1, 0.0, r->diag, r->w));
done:
    return st;
}

static status take_target(resident *r, int k) {
    status st = resident_doubles(r, r->v * r->m, "W of a target", &r->wt[k]);
    if (st == MOAO_OK && r->mixed != NULL && (st = mixed_take(r, k)) != MOAO_OK) {
        r->be->release(r->ctx, r->wt[k]);
        r->wt[k] = NULL;
    }
    return st;
}

/* W of as many targets as this rank gets of a chunk; of fewer where memory ends, but for room that
 * the libraries may still want. */
static status take_targets(resident *r) {
    status st = ALLOC(r->wt, (size_t)r->most, "targets of a device");
    while (st == MOAO_OK && r->nw < r->most) {
        st = take_target(r, r->nw);
        r->nw += st == MOAO_OK;
    }
    if (st == MOAO_MEMORY && r->nw > 0) {
        status_clear();
        st = MOAO_OK;
        if (r->nw > 1) {
            r->be->release(r->ctx, r->wt[--r->nw]);
            r->wt[r->nw] = NULL;
        }
    }
    return st;
}

/* Collective. The devices of the node that make a factor together. */
static status take_group(resident *r) {
    const size_t d = sizeof(double), m = (size_t)r->m, all = m * (size_t)r->strip * d;
    const size_t room = m * d > MESSAGE ? m * d : all < MESSAGE ? all : MESSAGE;
    const comm *c = r->u.c;
    status st = MOAO_OK;
    r->group.size = 1;
    if (r->stream == NULL)
        st = group_open(c, r->be, r->ctx, r->u.sharing == 1, room, &r->group);
    if (st != MOAO_OK || c->rank != 0 || c->size == 1)
        return st;
    if (r->group.size > 1)
        progress_note("the %d devices of a node make each factor together", r->group.size);
    else if (r->group.why[0] != '\0')
        progress_note("each rank makes the factors for itself: %s", r->group.why);
    return st;
}

/* Rate of gemm on the device, of D+' D+ into the room of the factor or, streamed, of a W. */
static status measure(resident *r) {
    const int64_t most = r->stream != NULL ? r->v : r->m, n = r->t < most ? r->t : most;
    double *room = r->stream != NULL ? r->wt[0] : r->a;
    double best = 0;
    status st = MOAO_OK;
    for (int k = 0; k < 4 && st == MOAO_OK; k++) {
        double from = report_now();
        st = resident_gemm(r, 'T', 'N', n, n, r->v, 1.0, r->dplus, r->v, r->dplus, r->v, 0.0, room,
                           r->m);
        if (st == MOAO_OK)
            st = resident_sync(r);
        double rate = 2.0 * (double)n * (double)n * (double)r->v / (report_now() - from);
        best = k > 0 && rate > best ? rate : best; /* the first one sets up */
    }
    r->u.rep->dgemm = best;
    return st;
}

status resident_open(const resident_setup *u, resident **out, int *chunk) {
    const int nrank = u->c->size, share = (u->chunk + nrank - 1) / nrank;
    resident *r = NULL;
    status st = ALLOC(r, 1, "resident executor");
    if ((st = comm_agree(u->c, st)) != MOAO_OK)
        goto done;
    r->u = *u;
    r->be = u->be;
    r->mat = matcov_backend(u->be);
    r->img = psf_backend(u->be);
    r->m = (int64_t)u->s->m;
    r->t = (int64_t)u->s->t;
    r->v = u->s->dm.nact;
    r->w = (int64_t)u->plan->width;
    r->block = factor_width(r->m, r->w);
    r->strip = factor_strip(r->block);
    r->u.nsample = u->nsample < r->v ? u->nsample : (int)r->v;
    r->team = (rowteam){.c = u->c,
                        .s = u->s,
                        .rep = u->rep,
                        .ngroup = nrank,
                        .group_size = 1,
                        .mygroup = u->c->rank};
    r->most = share;
    st = take_device(r);
    if (st == MOAO_OK)
        st = take_arrays(r);
    if (st == MOAO_OK)
        st = u->plan->streamed ? panels_open(r) : take_factor(r);
    if (st == MOAO_OK && u->plan->mixed)
        st = mixed_open(r, share);
    TRY(comm_agree(u->c, st));
    TRY(take_group(r));
    if (r->stream == NULL)
        st = take_targets(r);
    if (st == MOAO_OK)
        st = measure(r);
    TRY(comm_agree(u->c, st));
    int least;
    MPI_Allreduce(&r->nw, &least, 1, MPI_INT, MPI_MIN, u->c->mpi);
    *chunk = least < share ? least * nrank : u->chunk;
done:
    if (st != MOAO_OK) {
        resident_close(r);
        r = NULL;
    }
    *out = r;
    return st;
}

void resident_close(resident *r) {
    if (r == NULL)
        return;
    const backend *be = r->be;
    if (r->ctx != NULL) {
        const bool streamed = r->stream != NULL; /* W then lies in its room */
        panels_close(r);
        mixed_close(r);
        if (r->target != NULL)
            r->mat->close_target(r->target);
        if (r->cov != NULL)
            r->mat->close(r->cov);
        r->img->close(r->imager);
        void *const mine[] = {r->a,   r->diag, r->dplus,  r->ctm,     r->z,    r->y,
                              r->sum, r->mtt,  r->sample, r->columns, r->info, r->work};
        for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
            be->release(r->ctx, mine[i]);
        for (int i = 0; i < r->nw && !streamed; i++)
            be->release(r->ctx, r->wt[i]);
        for (int i = 0; i < 2; i++)
            be->release_host(r->ctx, r->host[i]);
        be->release_host(r->ctx, r->average);
        group_close(&r->group);
        be->close(r->behind);
        be->close(r->ctx);
    }
    matcov_free(r->mc);
    free(r->wt);
    free(r);
}

/* --- reconstructor */

status resident_factor(resident *r, const profile *p) {
    int minor = 0;
    status st = r->stream != NULL ? stream_factor(r, p, &minor) : factor_make(r, p, &minor);
    ROWS_WAIT(&r->team, STAGE_FACTOR, st = resident_agree(r, st));
    if (st != MOAO_OK)
        return st;
    r->tor = p;
    minor = minor > 0 ? minor : INT_MAX; /* the first one that any rank found */
    MPI_Allreduce(MPI_IN_PLACE, &minor, 1, MPI_INT, MPI_MIN, r->u.c->mpi);
    rows_progress(&r->team);
    return minor < INT_MAX ? tor_explain_minor(r->u.s, minor) : MOAO_OK;
}

/* Measurement of the k-th sampled column. */
static int64_t sampled(const resident *r, int k) {
    return (int64_t)((double)r->m * (k + 0.5) / r->u.nsample);
}

/* D+ Ctm0 of one target, and its sampled columns in `sample` (v x nsample). */
static status right_side(resident *r, int target, double *w, double *sample) {
    const int64_t m = r->m, v = r->v;
    status st;
    report_phase("solve: D+ Ctm");
    TRY(r->mat->aim(r->target, r->u.s->targets[target], false));
    for (int64_t j = 0; j < m; j += r->w)
        TRY(resident_project(r, false, j, resident_width(r, j, m), 1.0, 0.0, w + j * v));
    for (int k = 0; k < r->u.nsample; k++)
        TRY(resident_copy(r, sample + k * v, w + sampled(r, k) * v, v));
    r->u.rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * m) * (double)(m + r->t);
done:
    return st;
}

/* W of one target from D+ Ctm0: both triangles from the right, with L and with its mirror image
 * above the diagonal, so that all products are with a transposed block: those take less power than
 * products with a block as it is, and power is what bounds them at the full scale. */
static status solve_target(resident *r, double *w) {
    const int64_t m = r->m, v = r->v;
    const double one = 1;
    status st;
    report_phase("solve: triangles");
    TRY(r->be->trsm(r->ctx, BACKEND_D, 'R', 'L', 'T', 'N', v, m, &one, r->a, m, w, v, r->work,
                    r->lwork));
    TRY(r->be->trsm(r->ctx, BACKEND_D, 'R', 'U', 'T', 'N', v, m, &one, r->a, m, w, v, r->work,
                    r->lwork));
done:
    return st;
}

/* Adds to sum[] the squares of the sampled residual and of its right-hand side, which is in
 * `sample`. */
static status sample_residual(resident *r, const double *w, double *sample, double sum[2]) {
    const int64_t m = r->m, v = r->v, n = r->u.nsample;
    status st;
    report_phase("solve: sampled residual");
    TRY(resident_copy(r, r->host[0], sample, v * n));
    TRY(resident_gemm(r, 'N', 'N', v, n, m, 1.0, w, v, r->columns, m, -1.0, sample, v));
    TRY(resident_copy(r, r->host[1], sample, v * n));
    TRY(resident_sync(r));
    for (int64_t i = 0; i < v * n; i++) {
        sum[0] += r->host[1][i] * r->host[1][i];
        sum[1] += r->host[0][i] * r->host[0][i];
    }
done:
    return st;
}

static status solve_local(resident *r, double sum[2]) {
    status st;
    report_phase("solve: profile");
    TRY(comm_fault(r->u.c, "solve"));
    TRY(resident_load(r, r->tor));
    for (int k = 0; k < r->u.nsample; k++)
        TRY(r->mat->fill_cmm(r->cov, BACKEND_D, 'A', MATCOV_ALL, 0, r->m, sampled(r, k), 1,
                             r->columns + k * r->m, r->m));
    for (int k = 0; k < r->ch.nmine && r->stream != NULL; k++)
        TRY(right_side(r, r->ch.mine + k, r->wt[k], stream_y(r, k)));
    if (r->stream != NULL)
        TRY(stream_solve(r));
    else /* exposures have put T where the mirror image belongs */
        TRY(r->be->mirror(r->ctx, BACKEND_D, 'L', r->m, r->a, r->m));
    for (int k = 0; k < r->ch.nmine; k++) {
        double *sample = r->stream != NULL ? stream_y(r, k) : r->sample;
        if (r->stream == NULL) {
            TRY(right_side(r, r->ch.mine + k, r->wt[k], sample));
            if (r->mixed != NULL)
                TRY(mixed_keep(r, r->wt[k]));
            TRY(solve_target(r, r->wt[k]));
            if (r->mixed != NULL)
                TRY(mixed_solved(r, k, r->wt[k]));
        }
        TRY(resident_flip(r, "flip-w", r->wt[k] + r->v * (r->m / 2)));
        TRY(sample_residual(r, r->wt[k], sample, sum));
        rows_progress(&r->team);
    }
done:
    return st;
}

status resident_solve(resident *r, int first, int count, double *residual) {
    double sum[2] = {0, 0}, from = report_now();
    rowchunk *ch = &r->ch;
    *ch = (rowchunk){.first = first, .count = count, .nrow = (int)r->v, .nlrow = (int)r->v};
    rows_share(count, r->team.ngroup, r->team.mygroup, &ch->mine, &ch->nmine);
    ch->mine += first;
    status st = resident_agree(r, solve_local(r, sum));
    if (st == MOAO_OK)
        MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_DOUBLE, MPI_SUM, r->u.c->mpi);
    *residual = r->u.nsample > 0 && sum[1] > 0 ? sqrt(sum[0] / sum[1]) : NAN;
    r->u.rep->wall[STAGE_SOLVE] += report_now() - from;
    return st;
}
