#include "job/compression.h"

#include "job/run_state.h"
#include "store/store_precision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TURNS 3       /* factors with smaller tolerances, before W is refined instead */
#define CONVERGES 0.5 /* a refinement must shrink the residual of W at least by that */
#define LOOSER 50     /* a change that many times below the limit: a larger tolerance next time */

status compression_init(int ntor, compression *c) {
    status st;
    *c = (compression){0};
    TRY(ALLOC(c->accuracy, (size_t)ntor, "accuracy of reconstructors"));
    TRY(ALLOC(c->told, (size_t)ntor, "accuracy of reconstructors"));
    c->n = ntor;
done:
    return st;
}

void compression_free(compression *c) {
    free(c->accuracy);
    free(c->told);
    *c = (compression){0};
}

int compression_tighter(double difference, double limit) {
    double factor = 0.7 * sqrt(limit / difference);
    factor = factor >= 1.0 / 16 ? fmin(factor, 1) : 1.0 / 16; /* NaN, too */
    return (int)fmax(1, ceil(-LINOP_OCTAVE * log2(factor)));
}

/* Collective. Results of the sampled target in exposure e, by W of the accuracy given. */
static status results(run *r, const linop_accuracy *a, int e, obsexposure *ex, double *residual,
                      result_block *b) {
    obsseq *o = &r->seq;
    obsseq_accuracy how = {.approximate = false, .difference = NAN};
    status st;
    o->t.op->kind->choose(o->t.op, a);
    TRY(tor_solve(&o->t, r->prec.edge, 1, residual));
    st = obsseq_expose(o, atmos_profile_at(&r->u.a, r->u.a.exposure_time[e]), ex, &how, NULL, b);
done:
    return st;
}

/* Collective. What a refinement of W changes in the sampled target, in the first exposure of
 * reconstructor k; INFINITY where it does not converge. */
static status sample(run *r, int k, const linop_accuracy *a, obsexposure *ex, double *change) {
    result_block b[2] = {0};
    double residual[2] = {0, 0};
    int first, end;
    status st = MOAO_OK;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (int i = 0; i < 2; i++) {
        b[i] = (result_block){.exposure = first,
                              .t0 = r->prec.edge,
                              .nt = 1,
                              .nlambda = r->u.o.nlambda,
                              .nbox = r->u.o.nbox,
                              .nbudget = r->u.o.budget ? budget_count(&r->u.s) : 0};
        if (is_root(r))
            st = ALLOC(b[i].scalars, store_scalars(b[i].nlambda, b[i].nbox, b[i].nbudget),
                       "results");
        TRY(comm_agree(r->c, st));
        const linop_accuracy as = {.steps = a->steps, .refine = i == 1};
        TRY(results(r, &as, first, &ex[first], &residual[i], &b[i]));
    }
    if (is_root(r))
        *change = obsseq_difference(&b[0], b[1].scalars, b[0].scalars);
    MPI_Bcast(change, 1, MPI_DOUBLE, 0, r->c->mpi);
    /* residuals of rounding need not shrink */
    if (residual[1] > 1e-9 && !(residual[1] <= CONVERGES * residual[0]))
        *change = INFINITY;
done:
    free(b[0].scalars);
    free(b[1].scalars);
    return st;
}

/* Collective. What an earlier run into the store decided for reconstructor k. */
static bool recall(const run *r, int k, linop_accuracy *a, double *change) {
    store_compression s = {0};
    bool known = is_root(r) && store_get_compression(r->st, k, &s);
    MPI_Bcast(&known, 1, MPI_C_BOOL, 0, r->c->mpi);
    MPI_Bcast(&s, (int)sizeof s, MPI_BYTE, 0, r->c->mpi);
    if (known) {
        *a = (linop_accuracy){s.steps, s.form == COMPRESSION_REFINED, s.form == COMPRESSION_DENSE};
        *change = s.change;
    }
    return known;
}

/* The first guess: as the reconstructor before, looser where that was much better than asked. */
static linop_accuracy guess(const run *r, int k, double limit) {
    const compression *c = &r->comp;
    linop_accuracy a = {.steps = plan_first_steps(&r->u.par)};
    if (k > 0 && c->told[k - 1].tile > 0) {
        a.steps = c->accuracy[k - 1].steps;
        a.steps -= c->told[k - 1].change < limit / LOOSER ? LINOP_OCTAVE : 0;
    }
    return a;
}

static const char *form_of(const linop_accuracy *a) {
    return a->dense ? "dense" : a->refine ? "refined" : "tiles";
}

/* For the log, run.json and the store. */
static status tell(run *r, int k, const linop_accuracy *a, const linop_compression *is,
                   double change) {
    const tlr_stats *s = &is->ranks;
    report_compression *to = &r->comp.told[k];
    r->comp.accuracy[k] = *a;
    *to = (report_compression){.form = form_of(a),
                               .tile = (int)s->order,
                               .tolerance = is->tolerance,
                               .noise = is->noise,
                               .change = change,
                               .mean = s->mean,
                               .p90 = (long)s->p90,
                               .largest = (long)s->most,
                               .tiles = (long)s->tiles,
                               .dense = (long)s->dense,
                               .empty = (long)s->empty,
                               .bytes = s->bytes,
                               .shifts = is->shifts,
                               .shift = is->shift,
                               .bytes_dense = s->bytes_dense};
    for (int i = 0; i < 16; i++)
        to->histogram[i] = (long)s->histogram[i];
    if (!is_root(r))
        return MOAO_OK;
    progress_note(
        "  factor compressed to %.1e arcsec^2 a tile (%.2g of the noise): ranks %.1f mean, "
        "90 %% up to %ld, %ld at most of %d; %ld of %ld tiles dense; %.3g GB of %.3g",
        to->tolerance, is->noise > 0 ? to->tolerance / is->noise : 0, to->mean, to->p90,
        to->largest, to->tile, to->dense, to->tiles, to->bytes / 1e9, to->bytes_dense / 1e9);
    if (is->dense)
        progress_note("  compressed, it would not be positive definite, or W not exact enough: "
                      "nothing is dropped");
    else
        progress_note("  changes Strehl ratios and ensquared energies of target %d by %.1e%s",
                      r->prec.edge + 1, change,
                      a->refine ? ", more than compute.tlr_strehl allows: W of all targets is "
                                  "refined"
                                : "");
    if (is->shifts > 0)
        progress_note("  %.1e arcsec^2 of noise at most was added in %ld places, for pivots to be "
                      "positive",
                      is->shift, is->shifts);
    if (2 * s->dense > s->tiles && s->tiles > 0 && !is->dense)
        progress_note("  more than half of its tiles are dense: compression does not pay here "
                      "(compute.format=dense)");
    const store_compression keep = {.steps = a->steps,
                                    .form = is->dense   ? COMPRESSION_DENSE
                                            : a->refine ? COMPRESSION_REFINED
                                                        : COMPRESSION_TILES,
                                    .change = change,
                                    .tolerance = is->tolerance,
                                    .rank = s->mean,
                                    .bytes = s->bytes};
    return store_set_compression(r->st, k, &keep);
}

/* Collective. A factor of that accuracy; *a follows where a pivot asked for a smaller tolerance. */
static status factor(run *r, const profile *p, linop_accuracy *a, linop_compression *is) {
    linop *op = r->seq.t.op;
    status st;
    op->kind->choose(op, a);
    TRY(tor_factor(&r->seq.t, p));
    op->kind->look(op, is);
    a->steps += 2 * LINOP_OCTAVE * is->restarts; /* a fourth each time */
    a->dense = is->dense;
done:
    return st;
}

status run_factor(run *r, int k, const profile *p, obsexposure *ex) {
    linop *op = r->seq.t.op;
    const double limit = r->u.par.compute_tlr_strehl;
    linop_accuracy a;
    linop_compression is;
    double change = 0;
    status st;
    if (op->kind->choose == NULL)
        return tor_factor(&r->seq.t, p);
    const bool known = recall(r, k, &a, &change);
    if (!known)
        a = guess(r, k, limit);
    for (int turn = 0;; turn++) {
        TRY(factor(r, p, &a, &is));
        if (known || a.dense)
            break;
        TRY(sample(r, k, &a, ex, &change));
        if (change <= limit / 2)
            break;
        if (turn == TURNS) {
            a.refine = isfinite(change);
            a.dense = !a.refine;
            if (a.dense)
                TRY(factor(r, p, &a, &is));
            break;
        }
        if (is_root(r))
            progress_note("  factor compressed to %.1e arcsec^2 a tile: changes results by %.1e; "
                          "again with a smaller tolerance",
                          is.tolerance, change);
        a.steps += compression_tighter(change, limit);
    }
    if (a.dense)
        change = 0;
    op->kind->choose(op, &a);
    st = comm_agree(r->c, tell(r, k, &a, &is, change));
done:
    return st;
}
