#include "job/run_state.h"

#include "base/progress.h"
#include "base/stop.h"
#include "base/text.h"
#include "job/matrices.h"
#include "job/summary.h"
#include "maps/maps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether exposure e is still to do for some target in [t0, t1). */
static bool is_pending(const run *r, int e, int t0, int t1) {
    for (int t = t0; t < t1; t++)
        if (!r->done[cell(r, e, t)])
            return true;
    return false;
}

static bool any_pending(const run *r, int k, int t0, int t1) {
    int first, end;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (int e = first; e < end; e++)
        if (is_pending(r, e, t0, t1))
            return true;
    return false;
}

/* End of the chunk that starts at target t0: a multiple of the chunk's size, earlier where what is
 * done changes (after a run on another number of ranks), so that a chunk's exposures are done for
 * all its targets or none. */
static int chunk_end(const run *r, int k, int t0) {
    int end = (t0 / r->chunk + 1) * r->chunk, first, last;
    end = end < r->u.s.ntarget ? end : r->u.s.ntarget;
    atmos_exposures_of(&r->u.a, k, &first, &last);
    for (int e = first; e < last; e++)
        for (int t = t0 + 1; t < end; t++)
            if (r->done[cell(r, e, t)] != r->done[cell(r, e, t0)])
                end = t;
    return end;
}

/* Local. The next part of the run for the progress: its expected time [s] and flops. */
static void begin_part(run *r, double seconds, double flops) {
    r->rep.shown = 0;
    for (int i = 0; i < STAGE_COUNT; i++)
        r->rep.shown += i == STAGE_SETUP ? 0 : r->rep.flops[i];
    progress_part(seconds, flops);
}

/* Collective. The results of an exposure of a chunk, some of them checked. */
static status expose(run *r, int e, obsexposure *ex, obsseq_accuracy *how, result_block *b) {
    const profile *p = atmos_profile_at(&r->u.a, r->u.a.exposure_time[e]);
    const profile *p0 = atmos_tor_profile(&r->u.a, atmos_tor_of(&r->u.a, e));
    const double from = report_now();
    probe *look;
    status st;
    TRY(verify_begin(&r->ver, e, b->t0, b->t0 + b->nt, &look));
    obsseq_number(&r->seq, &r->u.a, e);
    TRY(obsseq_expose(&r->seq, p, ex, how, look, b));
    const double done = report_now();
    st = verify_end(&r->ver, &r->seq, e, how->approximate, p, p0, done - from);
    r->rep.wall[STAGE_EXPOSURE] += report_now() - done;
done:
    return st;
}

/* Whether nothing is done of the reconstructor of exposure e. */
static bool is_fresh(const run *r, int e) {
    int first, end;
    atmos_exposures_of(&r->u.a, atmos_tor_of(&r->u.a, e), &first, &end);
    for (int i = first; i < end; i++)
        for (int t = 0; t < r->u.s.ntarget; t++)
            if (r->done[cell(r, i, t)] == 1)
                return false;
    return true;
}

/* Collective. One exposure of a chunk, kept on disk before it returns. */
static status one_exposure(run *r, int e, int t0, int t1, obsexposure *ex) {
    result_block b = run_block(r, e, t0, t1 - t0);
    b.crop = r->u.par->output_psf == PSF_NONE || r->u.sampled ? 0 : r->u.o.crop;
    b.nkept = r->u.sampled ? psf_kept_count(r->u.ps) : 0;
    const size_t nimage = (size_t)b.nt * (size_t)b.nlambda;
    const double m = (double)r->u.s.m, v = sys_commands(&r->u.s);
    begin_part(r, r->pl->time.common + r->pl->time.exposure * b.nt,
               b.nt * v * m * (m + 2 * (double)sys_fit_rows(&r->u.s) + 2 * v));
    status st = MOAO_OK;
    if (is_root(r)) {
        progress_step("exposure %d/%d, targets %d-%d of %d", e + 1, r->u.a.nexposure, t0 + 1, t1,
                      r->u.s.ntarget);
        st =
            ALLOC(b.scalars, (size_t)b.nt * store_scalars(b.nlambda, b.nbox, b.nbudget), "results");
        if (st == MOAO_OK && b.crop > 0)
            st = ALLOC(b.images, nimage * (size_t)b.crop * (size_t)b.crop, "PSFs of a chunk");
        if (st == MOAO_OK && b.nkept > 0)
            st = ALLOC(b.kept, (size_t)b.nt * b.nkept, "what is kept of nodes");
    }
    TRY(comm_agree(r->c, st));
    obsseq_accuracy how = accuracy_plan(&r->acc, e, t0, t1, is_fresh(r, e));
    TRY(expose(r, e, ex, &how, &b));
    b.mixed = how.approximate || r->acc.factors;
    double from = report_now();
    st = accuracy_record(&r->acc, e, t0, t1, &how, r->seq.t.op->f->accuracy.level, r->st);
    report_phase("output: results of an exposure");
    if (is_root(r) && st == MOAO_OK)
        st = store_put(r->st, &b);
    st = comm_agree(r->c, st);
    r->rep.wall[STAGE_OUTPUT] += report_now() - from;
    for (int t = b.t0; t < b.t0 + b.nt; t++)
        r->done[cell(r, e, t)] = 1;
done:
    free(b.scalars);
    free(b.images);
    free(b.kept);
    return st;
}

static size_t count_all(const run *r) {
    return (size_t)r->u.a.nexposure * (size_t)r->u.s.ntarget;
}

static size_t count_done(const run *r) {
    size_t n = 0;
    for (int e = 0; e < r->u.a.nexposure; e++)
        for (int t = 0; t < r->u.s.ntarget; t++)
            n += r->done[cell(r, e, t)] != 0;
    return n;
}

/* Called by the watch over signals. */
static void describe_done(void *of, char *text, size_t size) {
    const run *r = of;
    snprintf(text, size, "%zu of %zu PSFs", count_done(r), count_all(r));
}

static double seconds_to_checkpoint(void *of) {
    (void)of;
    return progress_part_left();
}

/* Collective. A signal was received: say what is done and how to go on. */
static status stop_if_asked(const run *r) {
    char done[64];
    if (!stop_requested(r->c) || count_done(r) == count_all(r))
        return MOAO_OK;
    describe_done((void *)r, done, sizeof done);
    return status_fail(MOAO_STOPPED, "stopped by a signal with %s finished; go on with --resume",
                       done);
}

/* Of ToR k, whose exposures are computed in three turns, the one after exposure e of a turn that is
 * pending for targets t0 .. t1; beyond the last one: none. */
static int next_pending(const run *r, int k, int t0, int t1, int *turn, int e) {
    int first, end;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (; *turn < 3; ++*turn, e = first - 1)
        for (e++; e < end; e++)
            if (accuracy_turn(&r->acc, e, t0, t1) == *turn && is_pending(r, e, t0, t1))
                return e;
    return end;
}

/* Collective. W of a chunk of targets, then all its exposures of ToR k. */
static status one_chunk(run *r, int k, int t0, int t1, obsexposure *ex) {
    double residual;
    status st;
    const double m = (double)r->u.s.m, rows = (double)(t1 - t0) * sys_commands(&r->u.s);
    begin_part(r, r->pl->time.solve * (t1 - t0),
               2 * rows * m * (m + (double)sys_fit_rows(&r->u.s)));
    if (is_root(r))
        progress_step("reconstructor %d/%d, targets %d-%d of %d", k + 1, r->u.a.ntor, t0 + 1, t1,
                      r->u.s.ntarget);
    TRY(tor_solve(&r->seq.t, t0, t1 - t0, &residual));
    if (is_root(r) && !isnan(residual)) {
        progress_note(r->u.s.fit.phase ? "  |W Cmm - F Cpm| / |F Cpm| = %.1e"
                                       : "  |W Cmm - D+ Ctm| / |D+ Ctm| = %.1e",
                      residual);
        /* a W that is not exact: its effect is sampled */
        const double usual = 10 * linop_expected(r->seq.t.op);
        if (!(residual <= fmax(r->u.par->compute_residual_tolerance, usual)))
            progress_warn("that residual is over compute.residual_tolerance: Cmm is "
                          "ill-conditioned; give the sensors "
                          "more noise or a smaller tiptilt_factor");
    }
    TRY(stop_if_asked(r));
    int first, end;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    if (run_seeks_gain(r) && first < end)
        TRY(run_find_gain(r, first, t0, t1, &ex[first]));
    int turn = 0, e = next_pending(r, k, t0, t1, &turn, first - 1);
    while (e < end) {
        const int next = next_pending(r, k, t0, t1, &turn, e);
        if (next < end)
            obsseq_expect(&r->seq, atmos_profile_at(&r->u.a, r->u.a.exposure_time[next]),
                          &ex[next]);
        TRY(one_exposure(r, e, t0, t1, &ex[e]));
        TRY(stop_if_asked(r));
        e = next;
    }
done:
    return st;
}

/* Chunks of a ToR with something to compute, first those that decide on the accuracy; from
 * {.deciding = 1}. */
typedef struct {
    int deciding, t0, t1;
} chunk_turn;

static bool next_chunk(const run *r, int k, chunk_turn *c) {
    for (; c->deciding >= 0; c->deciding--, c->t1 = 0)
        while (c->t1 < r->u.s.ntarget) {
            c->t0 = c->t1;
            c->t1 = chunk_end(r, k, c->t0);
            if (accuracy_decides(&r->acc, c->t0, c->t1) == c->deciding &&
                any_pending(r, k, c->t0, c->t1))
                return true;
        }
    return false;
}

/* The tables of the exposure that comes first with ToR k, of profile p, while that is factored;
 * not where its loop's gain is sought before. */
static void begin_first_tables(run *r, int k, const profile *p, obsexposure *ex) {
    chunk_turn c = {.deciding = 1};
    int first, end, turn = 0;
    if (run_seeks_gain(r) || !next_chunk(r, k, &c))
        return;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    const int e = next_pending(r, k, c.t0, c.t1, &turn, first - 1);
    obsseq_begin(&r->seq, p, atmos_profile_at(&r->u.a, r->u.a.exposure_time[e]), &ex[e]);
}

/* Collective. Factor of ToR k, unless it is there, then chunk after chunk. */
static status all_chunks(run *r, int k, obsexposure *ex, bool *factored) {
    status st = MOAO_OK;
    const profile *p = atmos_tor_profile(&r->u.a, k);
    begin_part(r, r->pl->time.tor, r->pl->flops[STAGE_FACTOR] / r->u.a.ntor);
    if (is_root(r) && !*factored)
        progress_step("reconstructor %d/%d: Cmm and Cholesky, r0 %.3f m", k + 1, r->u.a.ntor,
                      p->r0);
    if (!*factored) {
        begin_first_tables(r, k, p, ex);
        TRY(run_factor(r, k, p, ex));
    }
    *factored = true;
    TRY(stop_if_asked(r));
    for (chunk_turn c = {.deciding = 1}; next_chunk(r, k, &c);)
        TRY(one_chunk(r, k, c.t0, c.t1, ex));
done:
    return st;
}

/* Collective. One ToR. Of nodes: more of them until the targets between are as exact as asked. */
static status one_tor(run *r, int k) {
    const int ne = r->u.a.nexposure;
    bool factored = false;
    if (!any_pending(r, k, 0, r->u.s.ntarget) && !r->u.sampled)
        return MOAO_OK;
    obsexposure *ex = NULL;
    status st;
    TRY(comm_agree(r->c, ALLOC(ex, (size_t)ne, "exposures of a reconstructor")));
    for (bool more = true; more;) {
        if (any_pending(r, k, 0, r->u.s.ntarget))
            TRY(all_chunks(r, k, ex, &factored));
        more = false;
        if (r->u.sampled)
            TRY(run_nodes_check(r, k, ex, &more));
    }
    if (r->u.sampled)
        st = run_nodes_fill(r, k, ex);
done:
    for (int e = 0; ex != NULL && e < ne; e++)
        obsexposure_free(&ex[e]);
    free(ex);
    return st;
}

/* Time that what is pending of reconstructor k is expected to take [s]. */
static double seconds_of(const run *r, int k) {
    const plan *p = r->pl;
    double seconds = p->time.tor;
    int first, end;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (int t0 = 0, t1; t0 < r->u.s.ntarget; t0 = t1) {
        t1 = chunk_end(r, k, t0);
        if (any_pending(r, k, t0, t1))
            seconds += p->time.solve * (t1 - t0);
        for (int e = first; e < end; e++)
            if (is_pending(r, e, t0, t1))
                seconds += p->time.common + p->time.exposure * (t1 - t0);
    }
    return seconds;
}

/* Time of the matrices that are asked for: a reconstructor and its W each. */
static double matrix_seconds(const run *r) {
    const plan *p = r->pl;
    return r->u.par->output_matrices.n == 0
               ? 0
               : r->u.a.ntor * (p->time.tor + 2 * r->u.s.ntarget * p->time.solve);
}

/* Time of the rest of the run [s], with maps_seconds for its end. */
static double seconds_left(const run *r, double maps_seconds) {
    double seconds = maps_seconds + matrix_seconds(r);
    for (int k = 0; k < r->u.a.ntor; k++)
        if (any_pending(r, k, 0, r->u.s.ntarget))
            seconds += seconds_of(r, k);
    return seconds;
}

static double maps_seconds(const run *r) {
    return 0.02 * (r->pl->time.total - r->pl->time.start);
}

/* Local. The parameters that results state: what the run kept of its beginning is what computed.
 * Its lists are those of the run's. */
static params stated(const run *r) {
    params par = *r->u.par;
    par.compute_factor = r->req.factor;
    par.compute_product = r->req.product;
    par.compute_tlr_distributed = r->req.distributed;
    return par;
}

/* Rank 0, at the end: the files a user gets. The parts stay until run.json is there too. */
static status write_results(run *r) {
    double from = report_now();
    report_phase("maps");
    begin_part(r, maps_seconds(r), 0);
    progress_step("writing maps");
    const params par = stated(r);
    r->rep.node_residuals = r->u.sampled ? run_nodes_residuals(r) : 0;
    const maps_sampling sampling = {.f = &r->u.f,
                                    .node_of = r->u.f.node_of,
                                    .error = r->nodes.error,
                                    .nodes = r->u.f.nnode,
                                    .residuals = r->rep.node_residuals,
                                    .checked = r->nodes.report.checked,
                                    .step = r->u.f.step,
                                    .tolerance = par.targets_tolerance,
                                    .largest = r->nodes.report.largest};
    status st = maps_write(r->dir, &par, setup_wanted(&r->u), &r->u.a, r->u.ps, r->st,
                           r->u.sampled ? &sampling : NULL, &r->rep);
    r->rep.wall[STAGE_OUTPUT] += report_now() - from;
    return st;
}

static status run_stages(run *r, comm *c) {
    status st;
    report_phase("setup: parameters");
    TRY(setup_init(c, r->cl, &r->u));
    r->dir = r->cl->dir != NULL ? r->cl->dir : r->u.par->output_directory;
    TRY(params_check_directory("moao run: -o", r->dir));
    run_choose_threads(r, c);
    TRY(comm_agree(c, run_nodes_init(r)));
    if (r->u.sampled)
        TRY(setup_psf(c, &r->u)); /* the store has to know what is kept of a node */
    report_phase("setup: devices, plan");
    TRY(run_prepare_plan(r, c));
    progress_init(is_root(r) && !r->cl->quiet, seconds_left(r, maps_seconds(r)));
    const stop_progress watched = {seconds_to_checkpoint, describe_done, r};
    TRY(comm_agree(c, stop_watch(c, &watched)));
    if (r->finished) {
        if (is_root(r))
            progress_note("finished already: results in %s", r->dir);
        goto done;
    }
    TRY(stop_if_asked(r));
    TRY(run_restore_gain(r));
    report_phase("setup: warnings");
    if (is_root(r)) {
        run_announce(r);
        st = setup_warn(&r->u);
    }
    TRY(comm_agree(c, st));
    report_phase("setup: plans of PSFs");
    if (r->u.ps == NULL)
        TRY(setup_psf(c, &r->u));
    TRY(run_prepare_stages(r));
    TRY(stop_if_asked(r));
    begin_part(r, matrix_seconds(r), matrix_seconds(r) * r->mach.rate * r->c->size);
    TRY(matrices_write(r));
    TRY(run_open_executor(r));
    for (int k = 0; k < r->u.a.ntor; k++)
        TRY(one_tor(r, k));
    obsseq_close(&r->seq); /* make room for the maps */
    free(r->dplus);
    free(r->low);
    free(r->inverse);
    r->dplus = r->inverse = r->low = NULL;
    if (is_root(r))
        st = write_results(r);
    st = comm_agree(c, st);
done:
    stop_unwatch();
    progress_end();
    return st;
}

/* Rank 0, at the end: how far exposures that are not exact are from double precision. */
static void say_difference(const report *rep) {
    if (rep->exposures_mixed > 0 && rep->exposures_sampled > 0)
        progress_note("largest difference of a Strehl ratio or ensquared energy from double "
                      "precision, in %d sampled exposure%s: %.1e",
                      rep->exposures_sampled, text_plural(rep->exposures_sampled),
                      rep->mixed_difference);
}

/* The same of phases by tables on layers. */
static void say_layers(const report *rep) {
    if (rep->layers_over > 0)
        progress_note("phases by layer would change results by more than compute.mixed_tolerance "
                      "in %d exposure%s of a chunk of targets: computed directly",
                      rep->layers_over, text_plural(rep->layers_over));
    if (rep->layers_difference > 0)
        progress_note("largest difference of a Strehl ratio or ensquared energy that phases by "
                      "layer make: %.1e",
                      rep->layers_difference);
}

/* Rank 0, after a failure with the store open. */
static void say_how_to_go_on(status st) {
    char text[2048];
    const bool may_pass = st == MOAO_IO || st == MOAO_MEMORY || st == MOAO_INTERNAL;
    if (!may_pass || strstr(status_message(), "--resume") != NULL)
        return;
    snprintf(text, sizeof text, "%.1900s; what is finished is kept: go on with --resume",
             status_message());
    status_clear();
    status_adopt(text);
}

/* Rank 0, with the results in place: what was found. Results that cannot be read back (somebody
 * moved them) are no failure of the run. */
static void say_results(const run *r) {
    const double seconds = r->finished ? NAN : report_now() - r->rep.start;
    if (summary_print(r->dir, &r->u.par->targets_names, seconds, r->c->size) == MOAO_OK)
        return;
    progress_warn("%s", status_message());
    status_clear();
}

status run_all(const comm *c, const cmdline *cl) {
    comm mine = *c;
    run r = {.c = &mine, .cl = cl, .rep = {.start = report_now()}};
    status st = run_stages(&r, &mine);
    accuracy_report(&r.acc, &r.rep);
    verify_report(&r.ver, &r.rep);
    if (st == MOAO_OK && !r.finished)
        st = report_finish(&mine, &r.rep, r.dir, cl->verbose && !cl->quiet);
    if (st == MOAO_OK && is_root(&r) && !cl->quiet) {
        say_difference(&r.rep);
        say_layers(&r.rep);
        say_results(&r);
    }
    if (st == MOAO_OK && !r.finished)
        st = comm_agree(&mine, is_root(&r) ? store_discard_parts(r.st) : MOAO_OK);
    if (r.st != NULL && st != MOAO_OK)
        say_how_to_go_on(st);
    store_close(r.st);
    obsseq_close(&r.seq);
    mirror_budget_free(&r.mirror); /* ends its thread, which reads D+ */
    device_end(&r.start);
    run_drop_first(&r);
    free(r.dplus);
    free(r.low);
    free(r.inverse);
    free((void *)r.pl);
    free(r.rep.budget);
    free(r.done);
    free(r.nodes.again);
    free(r.nodes.error);
    accuracy_free(&r.acc);
    verify_free(&r.ver);
    setup_free(&r.u);
    return st;
}
