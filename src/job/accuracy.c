#include "base/mix.h"
#include "job/run_state.h"
#include "maps/ranks_file.h"
#include "matcov/matcov.h"
#include "store/store_accuracy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONVERGES 0.5 /* a refinement must shrink the residual of W at least by that */
/* Residual of a refined W at few columns that is as small as was asked for. */
#define W_SETTLED (2 * FACTOR_REFINED)
#define LOOSER 50 /* a factor that many times better than asked: the next one is looser */

/* Which exposures of reconstructor k are sampled. */
static status choose_samples(const atmos *s, int k, int every, accuracy *a) {
    const profile *p0 = atmos_tor_profile(s, k);
    double most = -1;
    int first, end, worst;
    status st = MOAO_OK;
    atmos_exposures_of(s, k, &first, &end);
    worst = first;
    for (int e = first; e < end; e++) {
        double distance;
        TRY(matcov_distance(atmos_profile_at(s, s->exposure_time[e]), p0, &distance));
        a->tor[e] = k;
        a->sample[e] =
            mix_bits((uint64_t)e) % (uint64_t)every == 0 ? ACCURACY_DRAWN : ACCURACY_OTHER;
        worst = distance > most ? e : worst;
        most = fmax(most, distance);
    }
    if (first < end)
        a->sample[worst] = ACCURACY_WORST;
done:
    return st;
}

status accuracy_init(const setup *u, accuracy *a) {
    const size_t n = (size_t)u->a.nexposure, ntor = (size_t)u->a.ntor;
    status st;
    double far = -1;
    *a = (accuracy){0};
    TRY(ALLOC(a->state, n, "accuracy of the exposures"));
    TRY(ALLOC(a->difference, n, "accuracy of the exposures"));
    TRY(ALLOC(a->sample, n, "accuracy of the exposures"));
    TRY(ALLOC(a->tor, n, "accuracy of the exposures"));
    TRY(ALLOC(a->of, ntor, "accuracy of the reconstructors"));
    TRY(ALLOC(a->told, ntor, "accuracy of the reconstructors"));
    a->n = u->a.nexposure; /* with its arrays, or none */
    a->ntor = u->a.ntor;
    for (int e = 0; e < a->n; e++)
        a->difference[e] = NAN;
    for (int k = 0; k < a->ntor; k++)
        TRY(choose_samples(&u->a, k, u->par->compute_mixed_samples, a));
    for (int t = 0; t < u->s.ntarget; t++) {
        const double r = hypot(u->s.targets[t][0], u->s.targets[t][1]);
        if (r > far) {
            far = r;
            a->edge = t;
        }
    }
done:
    return st;
}

void accuracy_free(accuracy *a) {
    free(a->state);
    free(a->difference);
    free(a->sample);
    free(a->tor);
    free(a->of);
    free(a->told);
    *a = (accuracy){0};
}

void accuracy_want(accuracy *a, const linop_pair *pair) {
    a->factors = pair->factor->compressed;
    a->exposures = !pair->product->exact;
}

void accuracy_restore(const comm *c, const store *st, accuracy *a) {
    for (int e = 0; st != NULL && e < a->n; e++) {
        bool mixed;
        if (store_get_precision(st, e, &mixed, &a->difference[e]))
            a->state[e] = mixed ? ACCURACY_APPROXIMATE : ACCURACY_EXACT;
    }
    for (int k = 0; st != NULL && k < a->ntor; k++) {
        store_compression s;
        a->of[k].w.level = store_get_level(st, k);
        if (store_get_compression(st, k, &s))
            a->of[k] = (struct accuracy_of){.w = {.level = s.level,
                                                  .refine = s.form == COMPRESSION_REFINED,
                                                  .dense = s.form == COMPRESSION_DENSE},
                                            .known = true,
                                            .difference = s.difference};
    }
    MPI_Bcast(a->state, a->n * (int)sizeof *a->state, MPI_BYTE, 0, c->mpi);
    MPI_Bcast(a->difference, a->n, MPI_DOUBLE, 0, c->mpi);
    MPI_Bcast(a->of, a->ntor * (int)sizeof *a->of, MPI_BYTE, 0, c->mpi);
}

/* --- exposures */

bool accuracy_decides(const accuracy *a, int t0, int t1) {
    return a->exposures && t0 <= a->edge && a->edge < t1;
}

int accuracy_turn(const accuracy *a, int e, int t0, int t1) {
    return accuracy_decides(a, t0, t1) ? (int)a->sample[e] : 0;
}

/* Whether a sample of exposure e's reconstructor was over the tolerance. */
static bool has_failed(const accuracy *a, int e) {
    for (int i = 0; i < a->n; i++)
        if (a->tor[i] == a->tor[e] && a->sample[i] != ACCURACY_OTHER &&
            a->state[i] == ACCURACY_EXACT)
            return true;
    return false;
}

obsseq_accuracy accuracy_plan(const accuracy *a, int e, int t0, int t1, bool fresh) {
    const bool decides = accuracy_decides(a, t0, t1);
    const bool known = a->state[e] == ACCURACY_APPROXIMATE;
    const bool open = a->state[e] == ACCURACY_UNKNOWN && decides;
    return (obsseq_accuracy){.approximate = a->exposures && (known || open),
                             .sample =
                                 decides && (a->sample[e] != ACCURACY_OTHER || has_failed(a, e)),
                             .fresh = fresh,
                             .difference = NAN};
}

static status keep_level(accuracy *a, int k, int level, store *st) {
    if (a->of[k].w.level == level)
        return MOAO_OK;
    a->of[k].w.level = level;
    if (st == NULL)
        return MOAO_OK;
    progress_note("  reconstructors W are made more exact from now on, as a sample asks for it");
    return store_set_level(st, k, level);
}

status accuracy_record(accuracy *a, int e, int t0, int t1, const obsseq_accuracy *how, int level,
                       store *st) {
    if (!accuracy_decides(a, t0, t1) || (isnan(how->difference) && !how->approximate))
        return MOAO_OK;
    const status kept = keep_level(a, a->tor[e], level, st);
    if (kept != MOAO_OK)
        return kept;
    a->state[e] = how->approximate ? ACCURACY_APPROXIMATE : ACCURACY_EXACT;
    a->difference[e] = how->difference;
    if (st == NULL)
        return MOAO_OK;
    if (!how->approximate)
        progress_note("  exposure %d: mixed precision would change results by %.1e, more than "
                      "compute.mixed_tolerance: computed in double precision",
                      e + 1, how->difference);
    return store_set_precision(st, e, how->approximate, how->difference);
}

/* At most this share of the exposures that were not sampled is over the tolerance, at 95 %
 * confidence, as none of n drawn at random was. */
static double unseen(int n) {
    return 1 - pow(0.05, 1.0 / n);
}

void accuracy_report(const accuracy *a, report *rep) {
    int drawn = 0;
    rep->mixed = a->exposures;
    for (int e = 0; e < a->n; e++) {
        const bool sampled = !isnan(a->difference[e]);
        rep->exposures_sampled += sampled;
        drawn += sampled && a->sample[e] == ACCURACY_DRAWN;
        rep->mixed_over += sampled && a->state[e] == ACCURACY_EXACT;
        rep->exposures_mixed += a->state[e] == ACCURACY_APPROXIMATE;
        rep->exposures_double += a->state[e] != ACCURACY_APPROXIMATE;
        if (a->state[e] == ACCURACY_APPROXIMATE)
            rep->mixed_difference = fmax(rep->mixed_difference, a->difference[e]);
    }
    for (int k = 0; k < a->ntor && a->exposures; k++)
        rep->mixed_level =
            a->of[k].w.level > rep->mixed_level ? a->of[k].w.level : rep->mixed_level;
    rep->mixed_unseen =
        rep->exposures_sampled < rep->exposures_mixed && drawn > 0 ? unseen(drawn) : NAN;
    rep->compression = a->told;
    rep->ncompression = a->factors ? a->ntor : 0;
}

/* --- W by a compressed factor */

/* Collective. Results of the sampled target in exposure e, by W as the operator now makes it. */
static status results(run *r, int e, obsexposure *ex, double *residual, result_block *b) {
    obsseq_accuracy how = {.approximate = false, .difference = NAN};
    status st;
    TRY(tor_solve(&r->seq.t, r->acc.edge, 1, residual));
    st = obsseq_expose(&r->seq, atmos_profile_at(&r->u.a, r->u.a.exposure_time[e]), ex, &how, NULL,
                       b);
done:
    return st;
}

/* Collective. What a refinement of W changes in the sampled target, in the first exposure of
 * reconstructor k; INFINITY where it does not converge. */
static status sample_factor(run *r, int k, obsexposure *ex, double *difference) {
    linop *op = r->seq.t.op;
    result_block b[2] = {0};
    double residual[2] = {0, 0};
    int first, end;
    status st = MOAO_OK;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (int i = 0; i < 2; i++) {
        b[i] = run_block(r, first, r->acc.edge, 1);
        if (is_root(r))
            st = ALLOC(b[i].scalars, store_scalars(b[i].nlambda, b[i].nbox, b[i].nbudget),
                       "results");
        TRY(comm_agree(r->c, st));
        op->f->accuracy.refine = i == 1;
        TRY(results(r, first, &ex[first], &residual[i], &b[i]));
    }
    op->f->accuracy.refine = false;
    if (is_root(r))
        *difference = obsseq_difference(&b[0], b[1].scalars, b[0].scalars);
    MPI_Bcast(difference, 1, MPI_DOUBLE, 0, r->c->mpi);
    /* residuals of rounding need not shrink */
    if (residual[1] > 1e-9 && !(residual[1] <= CONVERGES * residual[0]))
        *difference = INFINITY;
done:
    free(b[0].scalars);
    free(b[1].scalars);
    return st;
}

/* Collective. The same of W that is refined in any case: what it and the products of an exposure
 * change, against W and products in double precision; INFINITY where refinement does not converge,
 * which a smaller tolerance helps. residual: of W, which changes a result by as much at most. */
static status sample_refined(run *r, int k, obsexposure *ex, double *difference, double *residual) {
    obsseq_accuracy how = {.approximate = true, .sample = true, .difference = NAN};
    result_block b = {0};
    int first, end;
    status st = MOAO_OK;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    b = run_block(r, first, r->acc.edge, 1);
    if (is_root(r))
        st = ALLOC(b.scalars, store_scalars(b.nlambda, b.nbox, b.nbudget), "results");
    TRY(comm_agree(r->c, st));
    TRY(tor_solve(&r->seq.t, r->acc.edge, 1, residual));
    if (!(*residual > W_SETTLED)) /* or no columns are sampled */
        TRY(obsseq_expose(&r->seq, atmos_profile_at(&r->u.a, r->u.a.exposure_time[first]),
                          &ex[first], &how, NULL, &b));
    *difference = *residual > W_SETTLED ? INFINITY : how.difference;
done:
    free(b.scalars);
    return st;
}

/* The first guess: as the reconstructor before, looser where that was much better than asked. */
static factor_accuracy guess(const run *r, int k) {
    const struct accuracy_of *before = r->acc.of + (k > 0 ? k - 1 : 0);
    const bool looser = before->difference < r->u.par->compute_tlr_strehl / LOOSER;
    if (!before->known)
        return (factor_accuracy){.level = request_level(r->u.par, r->pl->pair->product->refined)};
    return (factor_accuracy){.level = before->w.level - (looser ? FACTOR_OCTAVE : 0)};
}

/* Rank 0. The lines of the log. */
static void say_factor(const run *r, const report_compression *to, const struct accuracy_of *of) {
    progress_note(
        "  factor compressed to %.1e arcsec^2 a tile (%.2g of the noise): ranks %.1f mean, "
        "90 %% up to %ld, %ld at most of %d; %ld of %ld tiles dense; %.3g GB of %.3g",
        to->tolerance, to->noise > 0 ? to->tolerance / to->noise : 0, to->mean_lowrank, to->p90,
        to->largest, to->tile, to->dense, to->tiles, to->bytes / 1e9, to->bytes_dense / 1e9);
    if (of->w.dense)
        progress_note("  compressed, it would not be positive definite, or W not exact enough: "
                      "nothing is dropped");
    else
        progress_note("  changes Strehl ratios and ensquared energies of target %d by %.1e%s",
                      r->acc.edge + 1, of->difference,
                      r->seq.t.op->f->refines ? "; W of all targets is refined"
                      : of->w.refine
                          ? ", more than compute.tlr_strehl allows: W of all targets is refined"
                          : "");
    if (to->shifts > 0)
        progress_note("  %.1e arcsec^2 of noise at most was added in %ld places, for pivots to be "
                      "positive",
                      to->shift, to->shifts);
    if (2 * to->dense > to->tiles && to->tiles > 0 && !of->w.dense)
        progress_note("  more than half of its tiles are dense: compression does not pay here "
                      "(compute.factor=dense)");
}

/* Rank 0. A factor that is made again. */
static void say_rejected(const report_compression *is, double difference) {
    char why[64];
    snprintf(why, sizeof why, "changes results by %.1e", difference);
    progress_note("  factor compressed to %.1e arcsec^2 a tile: %s; again with a smaller tolerance",
                  is->tolerance,
                  isfinite(difference) ? why : "W by it is too far off to be refined");
}

/* Rank 0. Ranks of the factor of reconstructor k, as it is now. */
static status write_ranks(const run *r, int k, const report_compression *to) {
    const linop *op = r->seq.t.op;
    factor_ranks of = {0};
    char name[48];
    status st;
    if (!r->u.par->output_ranks || op->factor->ranks == NULL)
        return MOAO_OK;
    snprintf(name, sizeof name, "Ranks_tor%d", k);
    TRY(op->factor->ranks(op->f, &of));
    st = maps_write_ranks(r->dir, name, &of, to);
done:
    free(of.rank), free(of.order), free(of.sensor);
    return st;
}

/* For the log, run.json and the store; restarts: factors rejected by what they change. */
static status record_factor(run *r, int k, int restarts) {
    static const char *const name[] = {"tiles", "refined", "dense"};
    const struct accuracy_of *of = &r->acc.of[k];
    const int form = of->w.dense    ? COMPRESSION_DENSE
                     : of->w.refine ? COMPRESSION_REFINED
                                    : COMPRESSION_TILES;
    report_compression *to = &r->acc.told[k];
    r->seq.t.op->factor->look(r->seq.t.op->f, to);
    to->form = name[form];
    to->restarts += restarts;
    to->difference = of->difference;
    if (!is_root(r))
        return MOAO_OK;
    say_factor(r, to, of);
    const store_compression keep = {.level = of->w.level,
                                    .form = form,
                                    .difference = of->difference,
                                    .tolerance = to->tolerance,
                                    .rank = to->mean,
                                    .bytes = to->bytes};
    const status st = write_ranks(r, k, to);
    return st == MOAO_OK ? store_set_compression(r->st, k, &keep) : st;
}

status run_factor(run *r, int k, const profile *p, obsexposure *ex) {
    const double limit = r->u.par->compute_tlr_strehl;
    struct accuracy_of *of = &r->acc.of[k];
    linop *op = r->seq.t.op;
    linop_step again = LINOP_FACTOR;
    double before = INFINITY, residual = INFINITY;
    int restarts = 0;
    status st;
    op->f->accuracy = r->acc.factors && !of->known ? guess(r, k) : of->w;
    TRY(tor_factor(&r->seq.t, p));
    if (!r->acc.factors)
        return st;
    while (again == LINOP_FACTOR && !of->known && !op->f->accuracy.dense) {
        report_compression is;
        TRY(op->f->refines ? sample_refined(r, k, ex, &of->difference, &residual)
                           : sample_factor(r, k, ex, &of->difference));
        /* other exposures may be worse; with a refined W each has a check of its own, and what
         * products in FP16 change does not shrink with the tolerance */
        if (of->difference <= (op->f->refines ? 0.8 : 0.5) * limit ||
            (op->f->refines && isfinite(of->difference) &&
             (residual < 0.1 * limit || of->difference > 0.7 * before)))
            break;
        before = of->difference;
        op->factor->look(op->f, &is);
        TRY(linop_reduce_tolerance(op, of->difference / limit, LINOP_FACTOR, &again));
        if (again != LINOP_FACTOR)
            break;
        if (is_root(r) && !op->f->accuracy.dense)
            say_rejected(&is, of->difference);
        restarts += 1 + is.restarts;
        TRY(tor_factor(&r->seq.t, p));
    }
    of->w = op->f->accuracy;
    of->w.refine = of->w.refine || op->f->refines;
    of->known = true;
    of->difference = of->w.dense ? 0 : of->difference;
    st = comm_agree(r->c, record_factor(r, k, restarts));
done:
    return st;
}
