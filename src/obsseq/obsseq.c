#include "obsseq/obsseq.h"

#include "obsseq/residual.h"

#include <stdlib.h>
#include <string.h>

void obsexposure_free(obsexposure *ex) {
    free(ex->mtt);
    psf_fit_free(ex->fit);
    memset(ex, 0, sizeof *ex);
}

/* What makes PSFs, and its sums. */
static status take_imager(obsseq *o) {
    engine *e = &o->t.e;
    const size_t nsep = psf_sep_count(o->ps);
    int i0, ni;
    psf_model model;
    status st;
    o->img = psf_backend(e->be);
    psf_model_init(o->ps, &model);
    TRY(o->img->open(e->ctx, &model, &o->imager));
    TRY(engine_doubles(e, (int64_t)nsep, "a stationary average", &o->sum));
    TRY(engine_doubles(e, (int64_t)nsep, "a stationary average", &o->mtt));
    TRY(e->be->alloc_host(e->ctx, nsep * sizeof(double), (void **)&o->average));
    residual_rows(&o->t, &i0, &ni);
    if (e->in_step && !psf_is_phase(o->ps))
        TRY(engine_doubles(e, (int64_t)ni * e->rows, "rows of D+ Ctt D+'", &o->truth));
done:
    return st;
}

status obsseq_open(const obsseq_setup *u, obsseq *o, int *chunk) {
    status st;
    *o = (obsseq){.ps = u->ps, .edge = u->edge, .tolerance = u->tolerance};
    TRY(tor_open(&u->tor, &o->t));
    o->t.e.phase = psf_is_phase(u->ps);
    TRY(comm_agree(u->tor.c, take_imager(o)));
    TRY(tor_take(&o->t, &u->tor, chunk));
    TRY(comm_agree(u->tor.c, phase_open(&o->t, u->ps, &o->phase)));
done:
    if (st != MOAO_OK)
        obsseq_close(o);
    return st;
}

void obsseq_close(obsseq *o) {
    const engine *e = &o->t.e;
    if (e->ctx != NULL) {
        if (o->img != NULL)
            o->img->close(o->imager);
        phase_close(&o->t, &o->phase);
        e->be->release(e->ctx, o->sum);
        e->be->release(e->ctx, o->mtt);
        e->be->release(e->ctx, o->truth);
        e->be->release_host(e->ctx, o->average);
    }
    tor_close(&o->t);
    *o = (obsseq){0};
}

status obsseq_forms(obsseq *o, const profile *p, bool shifted, const probe *look, double *a,
                    double *b) {
    engine *e = &o->t.e;
    report_phase("exposure: check");
    status st = engine_agree(e, STAGE_EXPOSURE, engine_load(e, p));
    return st == MOAO_OK ? probe_forms(e, o->t.target[0], shifted, look, a, b) : st;
}

/* --- results on their way to rank 0 */

/* Bring the results of every rank to rank 0, in the order of the targets. `own` has this rank's. */
static void gather_results(const tor *t, const double *scalars, const float *images, int *list,
                           double *take, float *take_images, result_block *b) {
    const size_t ns = (size_t)b->nlambda * (3 + (size_t)b->nbox);
    const size_t one = (size_t)b->crop * (size_t)b->crop, np = (size_t)b->nlambda * one;
    const comm *c = t->e.c;
    if (c->rank != 0) {
        int n = team_owned(&t->t, &t->ch, c->rank, list);
        MPI_Send(scalars, n * (int)ns, MPI_DOUBLE, 0, 0, c->mpi);
        for (int i = 0; i < n * b->nlambda && images != NULL; i++) /* an int counts one of them */
            MPI_Send(images + (size_t)i * one, (int)one, MPI_FLOAT, 0, 1, c->mpi);
        return;
    }
    for (int r = 0; r < c->size; r++) {
        int n = team_owned(&t->t, &t->ch, r, list);
        const double *from = r == 0 ? scalars : take;
        if (r > 0)
            MPI_Recv(take, n * (int)ns, MPI_DOUBLE, r, 0, c->mpi, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++) {
            memcpy(b->scalars + (size_t)list[i] * ns, from + (size_t)i * ns, ns * sizeof(double));
            if (images == NULL)
                continue;
            for (int l = 0; r > 0 && l < b->nlambda; l++)
                MPI_Recv(take_images + (size_t)l * one, (int)one, MPI_FLOAT, r, 1, c->mpi,
                         MPI_STATUS_IGNORE);
            memcpy(b->images + (size_t)list[i] * np, r == 0 ? images + (size_t)i * np : take_images,
                   np * sizeof(float));
        }
    }
}

status obsseq_collect(const tor *t, const double *scalars, const float *images, result_block *b) {
    const size_t ns = (size_t)b->nlambda * (3 + (size_t)b->nbox);
    const size_t np = (size_t)b->nlambda * (size_t)b->crop * (size_t)b->crop;
    double *take = NULL;
    float *take_images = NULL;
    int *list = NULL;
    status st;
    TRY(ALLOC(take, (size_t)t->ch.count * ns, "results"));
    TRY(ALLOC(list, (size_t)t->ch.count, "targets of a rank"));
    TRY(ALLOC(take_images, np, "PSFs of a target"));
done:
    if ((st = comm_agree(t->e.c, st)) == MOAO_OK)
        TIMED_WAIT(t->e.rep, STAGE_PSF,
                   gather_results(t, scalars, images, list, take, take_images, b));
    free(take);
    free(list);
    free(take_images);
    return st;
}
