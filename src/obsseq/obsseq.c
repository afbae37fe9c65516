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
    const size_t nsep = psf_sep_count(o->ps), pairs = psf_pairwise_count(o->ps) * sizeof(float);
    int i0, ni;
    psf_model model;
    status st;
    o->img = psf_backend(e->be);
    psf_model_init(o->ps, &model);
    TRY(o->img->open(e->ctx, &model, &o->imager));
    o->last = o->img;
    o->last_imager = o->imager;
    if (psf_on_host(o->ps) && e->be != &backend_cpu) {
        o->last = psf_backend(&backend_cpu);
        o->last_imager = NULL;
        TRY(e->be->alloc_host(e->ctx, nsep * sizeof(double), (void **)&o->host_sum));
        if (pairs > 0)
            TRY(e->be->alloc_host(e->ctx, pairs, (void **)&o->host_pairwise));
        TRY(o->last->open(e->ctx, &model, &o->last_imager));
    }
    TRY(engine_doubles(e, (int64_t)nsep, "a stationary average", &o->sum));
    TRY(engine_doubles(e, (int64_t)nsep, "a stationary average", &o->mtt));
    if (pairs > 0)
        TRY(engine_array(e, pairs, "pairs of points", (void **)&o->pairwise));
    if (pairs > 0 && e->collective && e->c->size > 1)
        TRY(engine_doubles(e, (int64_t)psf_pairwise_count(o->ps), "pairs of points",
                           &o->pair_sums));
    TRY(e->be->alloc_host(e->ctx, nsep * sizeof(double), (void **)&o->average));
    if (o->keep && pairs > 0)
        TRY(engine_doubles(e, (int64_t)nsep * psf_wavelengths(o->ps), "logs of pairs", &o->logs));
    for (int i = 0; o->keep && i < PSF_SLOTS; i++)
        TRY(e->be->alloc_host(e->ctx, (1 + (size_t)psf_wavelengths(o->ps)) * nsep * sizeof(double),
                              (void **)&o->kept[i]));
    residual_rows(&o->t, &i0, &ni);
    if (e->collective && !psf_is_phase(o->ps))
        TRY(engine_doubles(e, (int64_t)ni * e->rows, "rows of D+ Ctt D+'", &o->truth));
done:
    return st;
}

#define MESSAGE ((size_t)16 << 20) /* bytes: the first takes what all need, before targets do */

/* Collective. Devices that sample a target together, where the sampled W comes from a factor that
 * each has in split FP16. */
static status open_group(obsseq *o) {
    const tor *t = &o->t;
    const linop *of = t->op->reference;
    const bool may = of != NULL && of->product->sharpen != NULL && of->factor->split &&
                     t->e.c->size > 1 && residual_may_share(t);
    o->group.size = 1;
    return may ? group_open(t->e.c, t->e.be, t->e.ctx, t->plan->sharing == 1, false, MESSAGE,
                            &o->group)
               : MOAO_OK;
}

/* Whether the host has time while this rank's backend computes. */
static bool works_apart(const engine *e) {
    const char *word = test_choice("ahead");
    return !e->collective && (word != NULL ? strcmp(word, "yes") == 0 : e->be != &backend_cpu);
}

status obsseq_open(psf *ps, mirror_budget *mirror, double tolerance, obsseq *o, int *chunk) {
    const comm *c = o->t.e.c;
    int64_t beside = 0;
    status st;
    *o = (obsseq){.t = o->t,
                  .ps = ps,
                  .edge = o->t.plan->sample,
                  .tolerance = tolerance,
                  .keep = o->t.plan->keep};
    o->t.e.phase = psf_is_phase(ps);
    o->apart = works_apart(&o->t.e);
    TRY(comm_agree(c, take_imager(o)));
    TRY(comm_agree(c, phase_open(&o->t, ps, &o->phase, &beside)));
    TRY(comm_agree(c, budget_open(&o->t, ps, mirror, &o->budget)));
    TRY(open_group(o));
    o->t.op->x->whole_y = o->t.shared && o->phase.n > 0 && o->t.op->reference != NULL &&
                          o->t.op->reference->product->exact_rows != NULL;
    st = tor_take(&o->t, beside, chunk);
done:
    return st;
}

void obsseq_close(obsseq *o) {
    const engine *e = &o->t.e;
    tables_drop(&o->now);
    tables_drop(&o->ahead);
    if (e->ctx != NULL) {
        if (o->last != NULL && o->last != o->img)
            o->last->close(o->last_imager);
        if (o->img != NULL)
            o->img->close(o->imager);
        e->be->release_host(e->ctx, o->host_sum);
        e->be->release_host(e->ctx, o->host_pairwise);
        group_close(&o->group);
        layer_tables_free(&o->t, &o->layers);
        phase_close(&o->t, &o->phase);
        budget_close(&o->t, &o->budget);
        ENGINE_RELEASE(e, o->sum, o->mtt, o->truth, o->pairwise, o->pair_sums, o->logs);
        for (int i = 0; i < PSF_SLOTS; i++)
            e->be->release_host(e->ctx, o->kept[i]);
        e->be->release_host(e->ctx, o->average);
    }
    tor_close(&o->t);
    *o = (obsseq){0};
}

status obsseq_forms(obsseq *o, const profile *p, bool shifted, const probe *look,
                    const residual_check_forms *f) {
    engine *e = &o->t.e;
    report_phase("exposure: check");
    status st = engine_agree(e, STAGE_EXPOSURE, engine_load(e, p));
    return st == MOAO_OK ? residual_check_make_forms(e, o->t.target[0], shifted, look, o->phase.x,
                                                     o->phase.y, f)
                         : st;
}

/* Ranks make PSFs of consecutive targets, in the order of the ranks. */
status obsseq_collect(const tor *t, const double *scalars, const float *images, const float *kept,
                      result_block *b) {
    const int ns = (int)store_scalars(b->nlambda, b->nbox, b->nbudget),
              np = b->nlambda * b->crop * b->crop;
    const comm *c = t->e.c;
    MPI_Datatype of_scalars, of_image, of_kept; /* an int counts targets */
    int *count = NULL, mine, k0;
    status st = ALLOC(count, 2 * (size_t)c->size, "targets of the ranks");
    if ((st = comm_agree(c, st)) != MOAO_OK)
        return st;
    team_owned(&t->t, &t->ch, t->t.member, &k0, &mine);
    MPI_Type_contiguous(ns, MPI_DOUBLE, &of_scalars);
    MPI_Type_contiguous(np, MPI_FLOAT, &of_image);
    MPI_Type_contiguous((int)b->nkept, MPI_FLOAT, &of_kept);
    MPI_Type_commit(&of_kept);
    MPI_Type_commit(&of_scalars);
    MPI_Type_commit(&of_image);
    TIMED_WAIT(t->e.rep, STAGE_PSF, MPI_Gather(&mine, 1, MPI_INT, count, 1, MPI_INT, 0, c->mpi));
    for (int r = 1; r < c->size; r++)
        count[c->size + r] = count[c->size + r - 1] + count[r - 1];
    MPI_Gatherv(scalars, mine, of_scalars, b->scalars, count, count + c->size, of_scalars, 0,
                c->mpi);
    if (images != NULL)
        MPI_Gatherv(images, mine, of_image, b->images, count, count + c->size, of_image, 0, c->mpi);
    if (kept != NULL)
        MPI_Gatherv(kept, mine, of_kept, b->kept, count, count + c->size, of_kept, 0, c->mpi);
    MPI_Type_free(&of_kept);
    MPI_Type_free(&of_scalars);
    MPI_Type_free(&of_image);
    free(count);
    return st;
}
