#include "obsseq/obsseq.h"
#include "obsseq/residual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Stationary average of a covariance (nrow x nrow) of which this rank has rows i0 .. i0 + ni. */
static status average(obsseq *o, int i0, int ni, const double *c, bool both, double *sum) {
    if (ni == o->t.t.nrow)
        return o->img->average(o->imager, c, ni, both, sum);
    memset(sum, 0, psf_sep_count(o->ps) * sizeof *sum); /* of a group of ranks: host memory */
    psf_accumulate(o->ps, (size_t)i0, (size_t)ni, c, ni > 0 ? (size_t)ni : 1, both, sum);
    return MOAO_OK;
}

/* Sums of W Cpm' of every target under the reconstructor's profile, of which an operator takes a
 * share: once after a solve. */
static status make_base(obsseq *o, linop *op) {
    tor *t = &o->t;
    engine *e = &t->e;
    phase_term *ph = &o->phase;
    const int64_t v = t->t.nlrow;
    status st = MOAO_OK;
    if (ph->nsep == 0 || !op->product->leaves_share || ph->solved == t->solved)
        return st;
    TRY(engine_load(e, t->prof));
    for (int k = 0; k < t->ch.nmine; k++) {
        TRY(e->mat->aim(tor_target(t, k), tor_direction(t, k), false));
        TRY(phase_share(t, ph, op, k));
        TRY(o->img->aim(o->imager, tor_direction(t, k)));
        TRY(engine_zero(e, BACKEND_D, v, v, t->y[k], v));
        TRY(o->img->pairs(o->imager, t->y[k], v, phase_of(ph, t, k), v, phase_base(ph, t, k),
                          phase_base_pairs(ph, t, k)));
    }
    ph->solved = t->solved;
done:
    return st;
}

/* The share of W Cpm' that an operator leaves out, times what it is now. */
static status add_share(obsseq *o, const linop *op, int k) {
    engine *e = &o->t.e;
    const phase_term *ph = &o->phase;
    const double share = linop_share(op), one = 1;
    const float share32 = (float)share, one32 = 1;
    status st = engine_gemm(e, 'N', 'N', ph->nsep, 1, 1, share, phase_base(ph, &o->t, k), ph->nsep,
                            ph->one, 1, one, o->sum, ph->nsep);
    if (st == MOAO_OK && ph->pairs > 0)
        st = e->be->gemm(e->ctx, BACKEND_S, 'N', 'N', ph->pairs, 1, 1, &share32,
                         phase_base_pairs(ph, &o->t, k), ph->pairs, ph->one32, 1, &one32,
                         o->pairwise, ph->pairs, e->work, e->lwork);
    return st;
}

/* The sums of a target. Of a group of ranks: of this rank's rows. */
static status target_sums(obsseq *o, const linop *op, int k) {
    const team *t = &o->t.t;
    const double *y = o->t.y[k], *ct = phase_of(&o->phase, &o->t, k);
    status st;
    if (o->phase.n == 0)
        return average(o, t->row0, t->nlrow, y, true, o->sum);
    TRY(o->img->aim(o->imager, tor_direction(&o->t, k)));
    if (t->nlrow == t->nrow) {
        st = o->img->pairs(o->imager, y, t->nlrow, ct, t->nlrow, o->sum, o->pairwise);
        return st == MOAO_OK && op->product->leaves_share ? add_share(o, op, k) : st;
    }
    memset(o->sum, 0, psf_sep_count(o->ps) * sizeof *o->sum);
    if (o->pair_sums != NULL)
        memset(o->pair_sums, 0, psf_pairwise_count(o->ps) * sizeof *o->pair_sums);
    st = psf_accumulate_phase(o->ps, (size_t)t->row0, (size_t)t->nlrow, y, (size_t)t->nlrow, ct,
                              (size_t)t->nlrow, o->sum, o->pair_sums);
done:
    return st;
}

/* --- tables */

/* What an exposure of profile p by an operator needs of the host (prepare), with the reconstructor
 * of profile tor. */
static exposure_tables needs(const obsseq *o, const linop *op, const profile *tor, const profile *p,
                             const obsexposure *ex) {
    const engine *e = &o->t.e;
    const bool lag = budget_at_once(&o->budget, op, e->s, p), phase = psf_is_phase(o->ps);
    exposure_tables t = {.c = e->c,
                         .s = e->s,
                         .ps = o->ps,
                         .p = p,
                         .wants_mtt = phase && ex->mtt == NULL,
                         .wants_fit = ex->fit == NULL,
                         .wants_noise = o->budget.mirror != NULL};
    if (e->collective || o->formed) /* formed: no covariance is computed */
        return t;
    if (op->product->differences)
        t.nmodel = op->product->models(tor, p, lag, t.model);
    if (op->x->whole_y) /* no T of a difference */
        t.model[lag] = (engine_model){.p = p};
    if (!op->product->differences || (ex->mtt == NULL && !phase))
        t.model[t.nmodel++] = (engine_model){.p = p};
    return t;
}

/* The tables of this exposure, from those that were prepared ahead where they are for it. */
static status take_tables(obsseq *o, const linop *op, const profile *p, obsexposure *ex) {
    exposure_tables *t = &o->now;
    status st = MOAO_OK;
    tables_drop(t);
    *t = needs(o, op, o->t.prof, p, ex);
    if (o->ahead.p == p)
        TRY(tables_take(&o->ahead, t));
    TRY(tables_make(t));
    if (t->wants_mtt)
        ex->mtt = t->mtt;
    if (t->wants_fit)
        ex->fit = t->fit;
    t->mtt = NULL, t->fit = NULL;
    o->t.e.ready = t->model;
    o->t.e.nready = t->nmodel;
done:
    return st;
}

static void drop_tables(obsseq *o) {
    o->t.e.ready = NULL;
    o->t.e.nready = 0;
    tables_drop(&o->now);
}

/* Those of the next exposure, by the same operator, on a thread. */
static void begin_next(obsseq *o, const linop *op) {
    if (o->next.p == NULL || !o->apart)
        return;
    tables_drop(&o->ahead);
    o->ahead = needs(o, op, o->t.prof, o->next.p, o->next.ex);
    o->next.p = NULL;
    tables_begin(&o->ahead);
}

void obsseq_expect(obsseq *o, const profile *p, const obsexposure *ex) {
    o->next.p = p;
    o->next.ex = ex;
}

void obsseq_begin(obsseq *o, const profile *tor, const profile *p, const obsexposure *ex) {
    if (!o->apart)
        return;
    tables_drop(&o->ahead);
    o->ahead = needs(o, o->t.op, tor, p, ex);
    tables_begin(&o->ahead);
}

/* --- what all targets share */

/* The average of P Ctt P' on the device; at the first chunk a copy of it is in transit to the host.
 */
static status common_average(obsseq *o, const obsexposure *ex) {
    tor *t = &o->t;
    const int nsep = (int)psf_sep_count(o->ps);
    double *c = o->truth != NULL ? o->truth : t->y[0];
    int i0, ni;
    status st;
    residual_rows(t, &i0, &ni);
    if (ex->mtt != NULL) {
        memcpy(o->average, ex->mtt, (size_t)nsep * sizeof(double));
        return engine_agree_now(&t->e, STAGE_EXPOSURE,
                                engine_copy(&t->e, o->mtt, o->average, nsep));
    }
    st = residual_truth(t, c);
    if (st == MOAO_OK)
        st = average(o, i0, ni, c, false, o->mtt);
    TRY(engine_agree_now(&t->e, STAGE_EXPOSURE, st));
    if (t->e.collective && t->e.c->size > 1)
        TIMED_WAIT(t->e.rep, STAGE_EXPOSURE,
                   MPI_Allreduce(MPI_IN_PLACE, o->mtt, nsep, MPI_DOUBLE, MPI_SUM, t->e.c->mpi));
    st = engine_copy(&t->e, o->average, o->mtt, nsep);
done:
    return st;
}

/* W Cpm' of the targets to come from tables by layer, or, NULL, from covariances of each. */
static void use_layers(obsseq *o, const layer_tables *g) {
    o->phase.layers = o->budget.few.layers = g;
}

/* Where the plan has them. */
static status make_layers(obsseq *o, linop *op, const profile *p) {
    status st = MOAO_OK;
    use_layers(o, NULL);
    if (!o->t.plan->by_layers)
        return st;
    TRY(layer_tables_make(&o->t, o->ps, &o->phase, op, p, o->budget.lags, &o->layers));
    use_layers(o, &o->layers);
done:
    return st;
}

/* What all targets of an exposure share: conditions, T of the operator, average of the truth term,
 * fitting error. Collective where ranks work in lockstep. */
static status prepare_load(obsseq *o, linop *op, const profile *p, obsexposure *ex) {
    engine *e = &o->t.e;
    status st;
    report_phase("exposure: profile");
    TRY(engine_agree_now(e, STAGE_EXPOSURE, comm_fault(e->c, "exposure")));
    o->t.has_y = false;
    TRY(make_base(o, op));
    TRY(engine_agree_now(e, STAGE_EXPOSURE, take_tables(o, op, p, ex)));
    TRY(engine_agree_now(e, STAGE_EXPOSURE,
                         budget_prepare(&o->t, &o->budget, op, p, o->now.noise)));
    TRY(make_layers(o, op, p));
    if (!o->formed && (!op->product->differences || ex->mtt == NULL)) /* else mtt is there */
        TRY(engine_load(e, p));
    st = common_average(o, ex);
done:
    return st;
}

/* In the group that samples, where one does: the worst status of its members. */
static status agree_on(const linop *op, status st) {
    return op->x->group != NULL ? group_agree(op->x->group, st) : st;
}

/* Y of targets that share W, by the reference: of one W that costs little in double precision,
 * where FP16 would change a Strehl ratio by 1e-2 (35 layers, noise of sensors from 1e-10 to 1e-2
 * arcsec^2 that a loop filters: T - Cmm0 is that noise). */
static status form_shared_y(obsseq *o, const profile *p) {
    tor *t = &o->t;
    linop *op = t->op->reference;
    status st;
    TRY(linop_sharpen(op, 0, tor_direction(t, 0)));
    TRY(engine_load(&t->e, p));
    TRY(linop_load(op, p));
    TRY(residual_of_w(t, &o->phase, op));
    o->has_shared_y = true;
done:
    return st;
}

/* In that group agreed before the load, which its devices share. */
static status prepare(obsseq *o, linop *op, const profile *p, obsexposure *ex) {
    engine *e = &o->t.e;
    const bool whole = o->t.op->x->whole_y;
    psf_fit_model fit;
    status st;
    TRY(agree_on(op, prepare_load(o, op, p, ex)));
    if (whole && o->t.ch.nmine > 0 && (op == o->t.op || !o->has_shared_y))
        TRY(form_shared_y(o, p));
    o->t.has_y = whole;
    if (!whole || op == o->t.op)
        TRY(linop_load(op, p));
    psf_fit_model_init(ex->fit, &fit);
    TRY(engine_agree_now(e, STAGE_EXPOSURE, o->last->load(o->last_imager, &fit)));
    begin_next(o, op);
done:
    drop_tables(o);
    return st;
}

/* The copy has arrived. */
static status keep_common(const obsseq *o, obsexposure *ex) {
    const size_t nsep = psf_sep_count(o->ps);
    if (ex->mtt != NULL)
        return MOAO_OK;
    status st = ALLOC(ex->mtt, nsep, "stationary average of D+ Ctt D+'");
    if (st == MOAO_OK)
        memcpy(ex->mtt, o->average, nsep * sizeof(double));
    return st;
}

/* --- targets */

typedef struct { /* results of this rank, by target that it owns */
    double *scalars;
    float *images, *kept;
    size_t ns, np, nkept; /* of a target */
    size_t nq;            /* of its scalars those that are not the error budget's */
    double path;          /* of a radian at the first wavelength [m] */
    int first;            /* of them */
    int most;             /* how many */
} results;

/* This rank's part of x'C z for the i-th target of the probe, C = W Cpm' of the k-th current; dx: x
 * on the device, out: a number there. */
static status look_at_phase(obsseq *o, const linop *op, int k, int i, const double *dx,
                            double *out) {
    const team *t = &o->t.t;
    engine *e = &o->t.e;
    probe *p = o->look;
    const int64_t np = o->phase.n, nlrow = t->nlrow;
    double *dz = NULL, *dc = NULL;
    status st;
    TRY(engine_doubles(e, np, "a check", &dz));
    TRY(engine_doubles(e, nlrow, "a check", &dc));
    TRY(engine_copy(e, dz, p->z + i * np, np));
    TRY(engine_gemm(e, 'N', 'N', nlrow, 1, np, 1.0, phase_of(&o->phase, &o->t, k), nlrow, dz, np,
                    0.0, dc, nlrow));
    TRY(engine_gemm(e, 'T', 'N', 1, 1, nlrow, 1.0, dx + t->row0, nlrow, dc, nlrow, 0.0, out, 1));
    TRY(engine_copy(e, p->c + i, out, 1));
    TRY(engine_sync(e));
    p->share[i] = t->row0 == 0 ? linop_share(op) : 0;
done:
    e->be->release(e->ctx, dz);
    e->be->release(e->ctx, dc);
    return st;
}

/* This rank's part of q, y and c of the probe from W, Y and W Cpm', when it looks at the k-th
 * target. Waits then. */
static status look_at(obsseq *o, linop *op, int k) {
    tor *t = &o->t;
    engine *e = &t->e;
    probe *p = o->look;
    const int i = residual_check_find(p, t->ch.mine + k);
    const int64_t m = e->m, v = e->rows, nlrow = t->t.nlrow;
    double *dx = NULL, *dq = NULL, *dy = NULL;
    status st = MOAO_OK;
    if (i < 0 || nlrow == 0)
        return st;
    TRY(engine_doubles(e, v, "a check", &dx));
    TRY(engine_doubles(e, m > v ? m : v, "a check", &dq));
    TRY(engine_doubles(e, 1, "a check", &dy));
    TRY(engine_copy(e, dx, p->x + i * v, v));
    TRY(tor_w_transposed(t, op, k, dx, dq));
    TRY(engine_copy(e, p->q + i * m, dq, m));
    TRY(engine_gemm(e, 'N', 'N', nlrow, 1, v, 1.0, t->y[k], nlrow, dx, v, 0.0, dq, nlrow));
    TRY(engine_gemm(e, 'T', 'N', 1, 1, nlrow, 1.0, dx + t->t.row0, nlrow, dq, nlrow, 0.0, dy, 1));
    TRY(engine_copy(e, p->y + i, dy, 1));
    TRY(engine_sync(e));
    if (p->points > 0)
        st = look_at_phase(o, op, k, i, dx, dy);
done:
    ENGINE_RELEASE(e, dx, dq, dy);
    return st;
}

/* Images of the sums where they are kept: of sums and logs, copies of which are in transit. */
static status make_kept(obsseq *o, int slot) {
    engine *e = &o->t.e;
    const int64_t nsep = (int64_t)psf_sep_count(o->ps), nlogs = nsep * psf_wavelengths(o->ps);
    double *logs = o->logs != NULL ? o->kept[slot] + nsep : NULL;
    status st = MOAO_OK;
    if (logs != NULL) {
        TRY(o->img->logs(o->imager, o->sum, o->pairwise, o->logs));
        TRY(engine_copy(e, logs, o->logs, nlogs));
    }
    TRY(engine_copy(e, o->kept[slot], o->sum, nsep));
    if (o->last == o->img)
        return o->last->images(o->last_imager, slot, o->sum, o->mtt, o->logs);
    TRY(engine_sync(e));
    st = o->last->images(o->last_imager, slot, o->kept[slot], o->average, logs);
done:
    return st;
}

/* Images of the sums, where those are or on the host. */
static status make_images(obsseq *o, int slot) {
    engine *e = &o->t.e;
    if (o->keep)
        return make_kept(o, slot);
    const int64_t nsep = (int64_t)psf_sep_count(o->ps);
    const int64_t pairs = (int64_t)(psf_pairwise_count(o->ps) * sizeof(float));
    status st;
    if (o->host_sum == NULL)
        return o->last->compute(o->last_imager, slot, o->sum, o->mtt, o->pairwise);
    TRY(engine_copy(e, o->host_sum, o->sum, nsep));
    if (pairs > 0)
        TRY(e->be->copy(e->ctx, o->host_pairwise, pairs, o->pairwise, pairs, pairs, 1));
    TRY(engine_sync(e));
    st = o->last->compute(o->last_imager, slot, o->host_sum, o->average, o->host_pairwise);
done:
    return st;
}

/* Sums over the rows of all ranks of the group, to the rank that makes the images. */
static status sum_of_group(obsseq *o, int owner) {
    const team *t = &o->t.t;
    const bool mine = owner == t->member;
    if (t->group_size == 1)
        return MOAO_OK;
    TIMED_WAIT(o->t.e.rep, STAGE_PSF,
               MPI_Reduce(mine ? MPI_IN_PLACE : o->sum, o->sum, (int)psf_sep_count(o->ps),
                          MPI_DOUBLE, MPI_SUM, owner, t->group));
    const size_t pairs = o->pair_sums != NULL ? psf_pairwise_count(o->ps) : 0, most = 1 << 28;
    for (size_t i = 0; i < pairs; i += most) { /* an int counts them */
        double *here = o->pair_sums + i;
        const int n = (int)(pairs - i < most ? pairs - i : most);
        TIMED_WAIT(
            o->t.e.rep, STAGE_PSF,
            MPI_Reduce(mine ? MPI_IN_PLACE : here, here, n, MPI_DOUBLE, MPI_SUM, owner, t->group));
    }
    if (mine && pairs > 0)
        psf_round_pairwise(o->ps, o->pair_sums, o->pairwise);
    return MOAO_OK;
}

/* PSFs of the k-th target from its Y. Collective in the group. */
static status start_psf(obsseq *o, linop *op, int k) {
    const team *t = &o->t.t;
    const int owner = team_owner(t, &o->t.ch, k);
    report_phase("exposure: PSF");
    status st = look_at(o, op, k);
    const double from = report_now();
    if (st == MOAO_OK)
        st = target_sums(o, op, k);
    if ((st = team_agree(t, st)) == MOAO_OK)
        st = budget_lag(&o->t, &o->budget, op, k, phase_of(&o->phase, &o->t, k), o->formed);
    TIMED_WAIT(o->t.e.rep, STAGE_PSF, st = team_agree(t, st));
    if (st == MOAO_OK)
        st = sum_of_group(o, owner);
    if (st == MOAO_OK && owner == t->member)
        st = make_images(o, k % PSF_SLOTS);
    if (op->factor
            ->collective) /* elsewhere the device makes them while the next target is computed */
        o->psf_seconds += report_now() - from;
    return st;
}

static status finish_psf(obsseq *o, int k, results *r) {
    const size_t i = (size_t)(k - r->first);
    status st;
    report_phase("exposure: results");
    TRY(comm_fault(o->t.e.c, "psf"));
    TRY(comm_fault(o->t.e.c, "device"));
    TRY(o->last->collect(o->last_imager, k % PSF_SLOTS, r->scalars + i * r->ns,
                         r->images != NULL ? r->images + i * r->np : NULL));
    const double *sum = o->kept[k % PSF_SLOTS];
    if (r->kept != NULL)
        psf_keep(o->ps, sum, o->average, sum + psf_sep_count(o->ps), r->kept + i * r->nkept);
    if (o->budget.mirror != NULL)
        budget_fill(&o->t, &o->budget, k, r->scalars[i * r->ns + 2] * r->path * r->path,
                    r->scalars + i * r->ns + r->nq);
    engine_progress(&o->t.e);
    st = !o->t.e.collective && comm_alarmed(o->t.e.c) ? MOAO_INTERNAL : MOAO_OK;
done:
    return st;
}

/* Targets k0 .. k1 of this rank. The results of a target are fetched once the next one is under
 * way, so that the device never waits for the host. */
static status expose_targets(obsseq *o, linop *op, obsexposure *ex, int k0, int k1, results *r) {
    const int pass = op->together ? k1 - k0 : 1;
    const bool shared = op->x->group != NULL; /* by the devices of the group, one by one */
    const bool passes = !o->formed;
    int last = -1; /* whose results are to be fetched */
    status st =
        passes && op->factor->collective ? residual_pass(&o->t, &o->phase, op, k0, pass) : MOAO_OK;
    for (int k = k0; k < k1 && st == MOAO_OK; k++) {
        if (shared)
            TRY(residual_together(&o->t, &o->phase, op, k, tor_direction(&o->t, k)));
        else if (passes && !op->factor->collective && (k - k0) % pass == 0)
            TRY(residual_pass(&o->t, &o->phase, op, k, pass));
        st = start_psf(o, op, k);
        if (st == MOAO_OK && last >= 0)
            st = finish_psf(o, last, r);
        last = team_owner(&o->t.t, &o->t.ch, k) == o->t.t.member ? k : last;
        TIMED_WAIT(o->t.e.rep, STAGE_PSF, st = team_agree(&o->t.t, st));
    }
    if (st == MOAO_OK && last >= 0)
        st = finish_psf(o, last, r);
    if (st == MOAO_OK)
        st = engine_sync(&o->t.e);
    if (st == MOAO_OK)
        st = keep_common(o, ex);
done:
    return st;
}

/* --- accuracy */

double obsseq_difference(const result_block *b, const double *x, const double *y) {
    double most = 0;
    for (int l = 0; l < b->nlambda; l++)
        for (int i = 0; i < 3 + b->nbox; i++, x++, y++)
            if (i == 0 || i >= 3)
                most = fmax(most, isfinite(*x - *y) ? fabs(*x - *y) : INFINITY);
    return most;
}

#define LAG_ACCURACY 1e-3 /* of the lag as a root mean square, or of a tenth of the whole error */

/* Difference of the lags in two results of a target, in units of what is allowed; -1: they have
 * none by points. */
static double lag_difference(const obsseq *o, const results *r, const double *x, const double *y) {
    if (o->budget.mirror == NULL || !o->budget.lags)
        return -1;
    const double *one = x + r->nq, *two = y + r->nq;
    const double total = budget_rms(one[BUDGET_TOTAL]), lag = budget_rms(one[BUDGET_LAG]),
                 gap = fabs(lag - budget_rms(two[BUDGET_LAG]));
    const double allowed = LAG_ACCURACY * fmax(fabs(lag), 0.1 * fabs(total));
    return !isfinite(gap) ? INFINITY : gap > 0 ? gap / allowed : 0;
}

/* --- exposures that are multiples of others */

void obsseq_number(obsseq *o, const atmos *a, int e) {
    int end;
    o->in.a = a;
    o->in.number = e;
    atmos_exposures_of(a, atmos_tor_of(a, e), &o->in.first, &end);
}

static const profile *profile_at(const obsseq *o, int e) {
    return atmos_profile_at(o->in.a, o->in.a->exposure_time[e]);
}

/* The number of the exposure of which the one to be computed follows, step by step: its own where
 * it follows of none. */
static int find_head(const obsseq *o) {
    int e = o->in.number;
    while (e > o->in.first && multiple_of(o->t.e.s, profile_at(o, e), profile_at(o, e - 1)) > 0)
        e--;
    return e;
}

/* Collective. Residuals and lags of all targets in an exposure whose results are not wanted. */
static status expose_head(obsseq *o, linop *op, const profile *p) {
    const int n = o->t.ch.nmine;
    obsexposure ex = {0};
    status st;
    TRY(prepare(o, op, p, &ex));
    TRY(residual_pass(&o->t, &o->phase, op, 0, n));
    for (int k = 0; k < n && st == MOAO_OK; k++)
        st = budget_lag(&o->t, &o->budget, op, k, phase_of(&o->phase, &o->t, k), false);
    TRY(engine_agree_now(&o->t.e, STAGE_EXPOSURE, st));
done:
    obsexposure_free(&ex);
    return st;
}

/* Collective. Before the targets of an exposure by an operator, whose conditions are loaded after
 * it: residuals that follow from those of another exposure (o->formed). */
static status form_multiple(obsseq *o, linop *op) {
    status st = MOAO_OK;
    o->formed = false;
    if (o->in.a == NULL || !multiple_may(&o->t, &o->phase, op) || o->t.plan->by_layers)
        return st;
    const int head = find_head(o), end = o->in.number;
    const bool there = o->last_residual.any && o->last_residual.solved == o->t.solved &&
                       o->last_residual.number >= head && o->last_residual.number < end;
    if (head == end)
        return st;
    if (!there)
        TRY(expose_head(o, op, profile_at(o, head)));
    for (int e = there ? o->last_residual.number : head; e < end; e++) {
        const profile *p = profile_at(o, e + 1), *before = profile_at(o, e);
        const double s = multiple_of(o->t.e.s, p, before);
        TRY(multiple_form(&o->t, &o->phase, op, p, before, s));
        budget_scale_lags(&o->t, &o->budget, s);
    }
    o->formed = true;
done:
    return st;
}

/* Collective. Targets of this rank with an operator that needs no W of its own for any. */
static status expose_all_exactly(obsseq *o, linop *op, const profile *p, obsexposure *ex,
                                 results *r) {
    status st;
    TRY(form_multiple(o, op));
    o->last_residual.any = false;
    const bool formed = o->formed;
    TRY(prepare(o, op, p, ex));
    o->t.has_y = formed && o->t.shared;
    TRY(expose_targets(o, op, ex, 0, o->t.ch.nmine, r));
    o->last_residual.any = o->in.a != NULL;
    o->last_residual.number = o->in.number;
    o->last_residual.solved = o->t.solved;
done:
    o->formed = false;
    return st;
}

/* Targets k0 .. k1 of this rank with the reference; one by one where each needs a W of its own. */
static status expose_exactly(obsseq *o, const profile *p, obsexposure *ex, int k0, int k1,
                             results *r) {
    linop *op = o->t.op->reference != NULL ? o->t.op->reference : o->t.op;
    status st = MOAO_OK;
    if (op->product->sharpen == NULL && op == o->t.op && k0 == 0 && k1 == o->t.ch.nmine)
        return expose_all_exactly(o, op, p, ex, r);
    if (op->product->sharpen == NULL) {
        TRY(prepare(o, op, p, ex));
        return expose_targets(o, op, ex, k0, k1, r);
    }
    for (int k = k0; k < k1; k++) {
        TRY(agree_on(
            op, linop_sharpen(op, o->t.shared ? 0 : o->t.ch.mine + k, tor_direction(&o->t, k))));
        TRY(agree_on(op, prepare(o, op, p, ex)));
        TRY(expose_targets(o, op, ex, k, k + 1, r));
    }
done:
    return st;
}

/* What the others of the group do while one of them is in expose_exactly with the target of number
 * `edge`. */
static status help_sample(obsseq *o, const profile *p) {
    engine *e = &o->t.e;
    linop *op = o->t.op->reference;
    const double *dir = e->s->targets[o->edge];
    status st;
    TRY(agree_on(op, linop_sharpen(op, o->edge, dir)));
    st = agree_on(op, engine_load(e, p)); /* as prepare does */
    TRY(agree_on(op, st == MOAO_OK ? linop_load(op, p) : st));
    st = residual_together(&o->t, &o->phase, op, -1, dir);
done:
    return st;
}

/* Collective in the group, if there is one. The sampled target, this rank's k-th or (k < 0)
 * another's, with the reference; st: what became of this rank's other targets. */
static status sample_target(obsseq *o, const profile *p, obsexposure *ex, int k, results *r,
                            status st) {
    device_group *g = &o->group;
    if (g->size == 1)
        return st == MOAO_OK && k >= 0 ? expose_exactly(o, p, ex, k, k + 1, r) : st;
    product *x = o->t.op->reference->x;
    int64_t sampler = k >= 0 ? g->rank + 1 : 0;
    const status worst = group_agree(g, st);
    group_largest(g, &sampler, 1);
    if (worst != MOAO_OK || sampler == 0)
        return st != MOAO_OK ? st : worst;
    x->group = g;
    x->sampler = (int)sampler - 1;
    st = k >= 0 ? expose_exactly(o, p, ex, k, k + 1, r) : help_sample(o, p);
    x->group = NULL;
    return st;
}

/* Collective. Results differ by `excess` times what is allowed. *again: the operator is more
 * accurate now. */
static status tighten(obsseq *o, double excess, bool fresh, bool *again) {
    linop_step next;
    double residual;
    status st;
    TRY(linop_reduce_tolerance(o->t.op, excess, fresh ? LINOP_SOLVE : LINOP_LOAD, &next));
    *again = next != LINOP_NOTHING;
    if (next == LINOP_SOLVE)
        st = tor_solve(&o->t, o->t.ch.first, o->t.ch.count, &residual);
done:
    return st;
}

enum { FOUND = 5 };

/* This rank's targets with an operator that is not exact; the sampled one with its reference after
 * that, by the devices of the group or, where there is none, by this rank if it has it. found: the
 * largest difference of results, -1 without a sample; seconds that the sample took; root mean
 * square and largest error of an entry of T (product_kind.check), -1; lag_difference. */
static status try_approximate(obsseq *o, const profile *p, obsexposure *ex, bool sample,
                              const result_block *b, double found[FOUND], results *r) {
    linop *op = o->t.op;
    const int k = o->edge - o->t.ch.mine;
    const bool mine = sample && k >= 0 && k < o->t.ch.nmine;
    double *before = NULL, from = 0;
    status st;
    found[0] = found[2] = found[3] = found[4] = -1;
    found[1] = 0;
    TRY(prepare(o, op, p, ex));
    if (mine && op->product->check != NULL)
        TRY(op->product->check(op->x, (uint64_t)o->edge, &found[2], &found[3]));
    TRY(expose_targets(o, op, ex, 0, o->t.ch.nmine, r));
    if (mine) {
        TRY(ALLOC(before, r->ns, "results of a target"));
        memcpy(before, r->scalars + (size_t)k * r->ns, r->ns * sizeof *before);
    }
    from = report_now();
done:
    if (sample)
        st = sample_target(o, p, ex, mine ? k : -1, r, st);
    if (st == MOAO_OK && mine) {
        found[0] = obsseq_difference(b, r->scalars + (size_t)k * r->ns, before);
        found[1] = report_now() - from;
        if (op->product->leaves_share)
            found[4] = lag_difference(o, r, r->scalars + (size_t)k * r->ns, before);
    }
    free(before);
    return st;
}

/* The target of this rank's nearest to the axis, on which tables by layer are checked: the better
 * an image is, the more it feels. */
static int nearest(const tor *t) {
    int near = 0;
    for (int k = 1; k < t->ch.nmine; k++) {
        const double *a = tor_direction(t, k), *b = tor_direction(t, near);
        if (hypot(a[0], a[1]) < hypot(b[0], b[1]))
            near = k;
    }
    return near;
}

/* Collective where ranks work on the same panels. How much results of one target differ by
 * covariances of its own; what the tables gave stays. */
static status try_layers(obsseq *o, linop *op, const result_block *b, const results *r,
                         double *gap) {
    tor *t = &o->t;
    const int k = nearest(t), some = t->ch.nmine > 0;
    const bool mine = some && team_owner(&t->t, &t->ch, k) == t->t.member;
    double *scalars = mine ? r->scalars + (size_t)(k - r->first) * r->ns : NULL, *before = NULL;
    probe *look = o->look;
    results one = *r;
    status st;
    one.images = one.kept = NULL;
    *gap = 0;
    o->look = NULL;
    use_layers(o, NULL);
    t->has_y = true;
    st = ALLOC(before, r->ns, "results of a target");
    TRY(engine_agree_now(&t->e, STAGE_EXPOSURE, st));
    if (mine)
        memcpy(before, scalars, r->ns * sizeof *before);
    TRY(residual_pass(t, &o->phase, op, k, some));
    if (some)
        TRY(start_psf(o, op, k));
    if (mine) {
        TRY(finish_psf(o, k, &one));
        *gap = obsseq_difference(b, before, scalars);
        memcpy(scalars, before, r->ns * sizeof *before);
    }
    TRY(engine_sync(&t->e));
    if (t->e.collective)
        MPI_Allreduce(MPI_IN_PLACE, gap, 1, MPI_DOUBLE, MPI_MAX, t->e.c->mpi);
done:
    use_layers(o, &o->layers);
    o->look = look;
    free(before);
    return st;
}

/* The same. Results by tables stay where these differ by less than is allowed. */
static status check_layers(obsseq *o, linop *op, obsexposure *ex, const result_block *b,
                           results *r) {
    report *rep = o->t.e.rep;
    double gap;
    status st;
    TRY(try_layers(o, op, b, r, &gap));
    if (gap <= o->tolerance) {
        rep->layers_difference = fmax(rep->layers_difference, gap);
        return MOAO_OK;
    }
    rep->layers_over++;
    use_layers(o, NULL);
    st = expose_targets(o, op, ex, 0, o->t.ch.nmine, r);
    use_layers(o, &o->layers);
done:
    return st;
}

/* Collective. With an operator that is not exact as far as that holds, tighter where it can be. */
static status expose_all(obsseq *o, const profile *p, obsexposure *ex, obsseq_accuracy *how,
                         const result_block *b, results *r) {
    status st = MOAO_OK;
    how->difference = NAN;
    o->has_shared_y = false;
    for (bool again = how->approximate; again;) {
        double found[FOUND], gap; /* -1: no sample */
        again = false;
        TRY(engine_agree(
            &o->t.e, STAGE_EXPOSURE,
            linop_solved(o->t.op, try_approximate(o, p, ex, how->sample, b, found, r))));
        MPI_Allreduce(MPI_IN_PLACE, found, FOUND, MPI_DOUBLE, MPI_MAX, o->t.e.c->mpi);
        gap = found[4] > 1 ? fmax(found[0], found[4] * o->tolerance) : found[0];
        o->t.e.rep->sample_seconds += found[1];
        o->t.e.rep->entries_rms = fmax(o->t.e.rep->entries_rms, found[2]);
        o->t.e.rep->entries_worst = fmax(o->t.e.rep->entries_worst, found[3]);
        how->difference = gap >= 0 ? gap : NAN;
        how->approximate = gap <= o->tolerance;
        if (!how->approximate)
            TRY(tighten(o, gap / o->tolerance, how->fresh, &again));
    }
    if (!how->approximate) {
        st = expose_exactly(o, p, ex, 0, o->t.ch.nmine, r);
        if (st == MOAO_OK && o->phase.layers != NULL)
            st = check_layers(o, o->t.op, ex, b, r);
        st = linop_solved(o->t.op, st);
    }
done:
    if (st != MOAO_OK)
        o->t.e.be->sync(o->t.e.ctx); /* nothing may write to the host's arrays any more */
    return st;
}

/* Collective. Totals of the owned targets without wind, [targets] at *out: NULL where the lag does
 * not need them. */
static status still_totals(obsseq *o, const profile *p, obsexposure *ex, const obsseq_accuracy *how,
                           const result_block *b, results *r, double **out) {
    const sys *s = o->t.e.s;
    obsseq_accuracy as = {.approximate = how->approximate};
    float *images = r->images, *kept = r->kept;
    profile still = {0};
    status st = MOAO_OK;
    *out = NULL;
    if (o->budget.mirror == NULL || !budget_by_totals(s, p) || !budget_lags(s, p))
        return st;
    st = profile_still(p, &still);
    if (st == MOAO_OK)
        st = ALLOC(*out, (size_t)o->t.ch.nmine, "totals without wind");
    TRY(engine_agree(&o->t.e, STAGE_EXPOSURE, st));
    r->images = r->kept = NULL;
    st = expose_all(o, &still, ex, &as, b, r);
    r->images = images;
    r->kept = kept;
    for (int k = r->first; k < r->first + r->most && st == MOAO_OK; k++)
        (*out)[k] = r->scalars[(size_t)(k - r->first) * r->ns + 2] * r->path * r->path;
done:
    profile_free(&still);
    return st;
}

/* Collective. What the mirror leaves, which may have been computed meanwhile, in the error budgets
 * of this rank's targets. */
static status complete_budgets(obsseq *o, const results *r) {
    report *rep = o->t.e.rep;
    status st = MOAO_OK;
    if (o->budget.mirror == NULL)
        return st;
    const double from = report_now();
    report_phase("exposure: fitting error and aliasing");
    TRY(mirror_budget_end(o->t.e.c, o->budget.mirror));
    rep->wall[STAGE_SETUP] += report_now() - from;
    for (int k = r->first; k < r->first + r->most; k++)
        budget_complete(&o->t, &o->budget, k, r->scalars + (size_t)(k - r->first) * r->ns + r->nq);
done:
    return st;
}

status obsseq_expose(obsseq *o, const profile *p, obsexposure *ex, obsseq_accuracy *how,
                     probe *look, result_block *b) {
    tor *t = &o->t;
    int first, most;
    team_owned(&t->t, &t->ch, t->t.member, &first, &most);
    results r = {.ns = store_scalars(b->nlambda, b->nbox, b->nbudget),
                 .nq = store_scalars(b->nlambda, b->nbox, 0),
                 .path = psf_wavelength(o->ps, 0) / (2 * M_PI),
                 .np = (size_t)b->nlambda * (size_t)b->crop * (size_t)b->crop,
                 .first = first,
                 .most = most};
    double *still = NULL;
    report *rep = t->e.rep;
    double from = report_now();
    status st = ALLOC(r.scalars, (size_t)most * r.ns, "results");
    r.nkept = b->nkept;
    if (st == MOAO_OK && b->nkept > 0)
        st = ALLOC(r.kept, (size_t)most * b->nkept, "what is kept of nodes");
    if (st == MOAO_OK && b->crop > 0)
        st = ALLOC(r.images, (size_t)most * r.np, "PSFs of a rank");
    if (look != NULL) {
        memset(look->q, 0, (size_t)look->n * (size_t)t->e.m * sizeof *look->q);
        memset(look->y, 0, (size_t)look->n * sizeof *look->y);
        memset(look->c, 0, (size_t)look->n * sizeof *look->c);
        memset(look->share, 0, (size_t)look->n * sizeof *look->share);
    }
    o->psf_seconds = 0;
    if ((st = engine_agree(&t->e, STAGE_EXPOSURE, st)) == MOAO_OK)
        st = still_totals(o, p, ex, how, b, &r, &still);
    o->look = look;
    o->budget.still = still;
    if (st == MOAO_OK)
        st = expose_all(o, p, ex, how, b, &r);
    o->in.a = NULL;
    o->budget.still = NULL;
    o->look = NULL;
    rep->wall[STAGE_EXPOSURE] += report_now() - from - o->psf_seconds;
    from = report_now() - o->psf_seconds;
    st = engine_agree(&t->e, STAGE_PSF, st);
    rep->wall[STAGE_PSF] += report_now() - from;
    if (st == MOAO_OK)
        st = complete_budgets(o, &r);
    from = report_now();
    if (st == MOAO_OK)
        st = obsseq_collect(t, r.scalars, r.images, r.kept, b);
    rep->wall[STAGE_PSF] += report_now() - from;
    free(r.scalars);
    free(r.images);
    free(r.kept);
    free(still);
    return st;
}
