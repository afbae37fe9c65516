/* What a run needs before its first reconstructor: plan, store, executor. */
#include "job/run_state.h"

#include "base/fault.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/text.h"
#include "factor/tlr_group.h"
#include "obsseq/fit.h"
#include "tor/command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool on_host(const run *r) {
    return !r->mach.devices || r->mach.host;
}

/* Whether threads of the host compute what the mirror leaves while devices factor Cmm. */
static bool budget_is_apart(const run *r) {
    const char *word = test_choice("apart");
    return r->u.o.budget && (word != NULL ? strcmp(word, "yes") == 0 : !on_host(r));
}

/* A fact that a resumed run on as many ranks reuses, so that its results equal the first run's bit
 * for bit. */
static status reuse_fact(run *r, const char *key, long *value) {
    if (store_get_fact(r->st, "ranks", r->c->size) == r->c->size)
        *value = store_get_fact(r->st, key, *value);
    return store_set_fact(r->st, key, *value);
}

/* The same for the way in which D+ is applied; runs of before there were two have no such fact. */
static status reuse_way(run *r, long *way) {
    if (store_get_fact(r->st, "ranks", r->c->size + 1) == r->c->size)
        *way = store_get_fact(r->st, "projection", COMMAND_MATRIX);
    return store_set_fact(r->st, "projection", *way);
}

/* How a compressed factor is made, whatever the number of ranks: whether it is distributed, for
 * its bits are. What was found of the factors (job/accuracy.h) is of one order of the measurements.
 */
static status reuse_compressed(run *r, long *distributed) {
    if (store_get_fact(r->st, "tlr_order", 0) != 0)
        return status_fail(MOAO_INPUT,
                           "%s: --resume of a run with compute.tlr_order joint or morton, which "
                           "this version does not have; start again with --overwrite",
                           r->dir);
    *distributed = store_get_fact(r->st, "tlr_distributed", *distributed);
    return store_set_fact(r->st, "tlr_distributed", *distributed);
}

/* Nodes of an earlier version, which had other ones or no such fact, are not those of this one. */
static status same_nodes(run *r) {
    const bool begun = store_get_fact(r->st, "ranks", 0) != 0;
    if (begun && store_get_fact(r->st, "node_rule", 0) != FIELD_RULE)
        return status_fail(MOAO_INPUT,
                           "%s: --resume of a run whose nodes another version of the program has "
                           "chosen; go on with that version, or start again with --overwrite",
                           r->dir);
    return store_set_fact(r->st, "node_rule", FIELD_RULE);
}

/* A folder that was mistyped looks like a run that goes on. */
static void warn_resume(const run *r) {
    char *path = NULL;
    if (r->cl->resume && file_join(r->dir, "checkpoint", &path) == MOAO_OK && !file_exists(path))
        progress_warn("--resume: %s holds no run yet; this one starts there", r->dir);
    free(path);
}

/* What the first run decides for those that resume it. */
enum {
    FACT_CHUNK,
    FACT_THREADS,
    FACT_WAY,
    FACT_DISTRIBUTED,
    FACT_FORMAT,
    FACT_SPLIT,
    FACT_REFERENCE,
    FACT_LAYERS,
    FACTS
};

/* How a factor in split FP16 is computed, whatever the number of ranks; runs of before there were
 * two ways have no such fact. */
static status reuse_split(run *r, long *moduli) {
    if (store_get_fact(r->st, "ranks", 0) > 0)
        *moduli = store_get_fact(r->st, "split_moduli", 0);
    return store_set_fact(r->st, "split_moduli", *moduli);
}

/* The same of the sampled target's reference. */
static status reuse_reference(run *r, long *moduli) {
    if (store_get_fact(r->st, "ranks", 0) > 0)
        *moduli = store_get_fact(r->st, "moduli_reference", 0);
    return store_set_fact(r->st, "moduli_reference", *moduli);
}

/* Whether phases come from tables by layer; runs of before there were such have no such fact. */
static status reuse_layers(run *r, long *layers) {
    if (store_get_fact(r->st, "ranks", 0) > 0)
        *layers = store_get_fact(r->st, "layers", 0);
    const int asked = r->u.par->compute_phase;
    if (asked != PHASE_PARAM_AUTO && (asked == PHASE_PARAM_LAYERS) != (*layers > 0))
        return status_fail(MOAO_INPUT,
                           "%s: --resume of a run with compute.phase: %s, where %s would compute "
                           "now; put that parameter back, or start again with --overwrite",
                           r->dir, *layers > 0 ? "layers" : "direct",
                           *layers > 0 ? "direct" : "layers");
    return store_set_fact(r->st, "layers", *layers);
}

/* A run that goes on computes in double precision as it did before. */
static status check_double(const run *r) {
    const int now = r->pl->moduli;
    const long then = store_get_fact(r->st, "moduli", now);
    static const char *const word[] = {"native", "integer"};
    if (then != now)
        return status_fail(MOAO_INPUT,
                           "%s: --resume of a run with compute.double: %s, where %s would compute "
                           "now; put that parameter back, or start again with --overwrite",
                           r->dir, word[then > 0], word[now > 0]);
    const int of_exposures = now > 0 ? r->pl->moduli_exposure : 0;
    const long before = store_get_fact(r->st, "moduli_exposure", of_exposures);
    if (before != of_exposures)
        return status_fail(
            MOAO_INPUT,
            "%s: --resume of a run whose exposures are computed by %ld moduli, where "
            "compute.integer_tolerance asks for %d; put that parameter back, or "
            "start again with --overwrite",
            r->dir, before, of_exposures);
    const status st = store_set_fact(r->st, "moduli", now);
    return st != MOAO_OK ? st : store_set_fact(r->st, "moduli_exposure", of_exposures);
}

/* A run that goes on keeps the form in which it began; it is not continued in another one that is
 * asked for by name, or where this machine has not got it. */
static status check_format(const run *r, long number) {
    const linop_pair *kept = linop_numbered(number), *now = r->pl->pair;
    const params *par = r->u.par;
    if (kept == NULL)
        return status_fail(MOAO_INPUT,
                           "%s: --resume of a run in a form (%ld) that this version does not know",
                           r->dir, number);
    const char *then = linop_format(kept);
    if (strcmp(then, linop_format(now)) == 0 &&
        strcmp(kept->product->word, now->product->word) == 0 &&
        plan_factor_named(kept->factor, par->compute_factor))
        return MOAO_OK;
    if (par->compute_factor != FACTOR_PARAM_AUTO || par->compute_product != PRODUCT_PARAM_AUTO)
        return status_fail(
            MOAO_INPUT,
            "%s: --resume of a run in format %s (factor %s, product %s), where factor %s and "
            "product %s "
            "would compute now; put the parameters of "
            "that run (compute.factor, compute.product%s) back, or start again with --overwrite",
            r->dir, then, kept->factor->word, kept->product->word, now->factor->word,
            now->product->word,
            strcmp(then, "half") == 0 || r->pl->mixed ? ", compute.precision" : "");
    if (strcmp(then, "half") == 0 && on_host(r))
        return status_fail(MOAO_INPUT,
                           "%s: --resume of a run in format half, which needs a GPU; go on where "
                           "there is one, or start again with --overwrite",
                           r->dir);
    return MOAO_OK;
}

/* Rank 0: open the store, load what is done; facts may come from the first run. */
/* What an image held when the run began. */
static status same_image(run *r, const char *fact, const char *key, long sum) {
    if (store_get_fact(r->st, fact, sum) != sum)
        return status_fail(MOAO_INPUT,
                           "%s: --resume with another %s than that of the run; put it back, or "
                           "start again with --overwrite",
                           r->dir, key);
    return r->finished ? MOAO_OK : store_set_fact(r->st, fact, sum);
}

static status open_store(run *r, long fact[FACTS]) {
    const params *par = r->u.par;
    char *text = params_effective_text(par);
    if (text == NULL)
        return status_fail(MOAO_MEMORY, "effective parameters: no memory");
    const store_run what = {.effective = text,
                            .ntarget = setup_wanted(&r->u)->ntarget,
                            .nnode = r->u.sampled ? r->stride : 0,
                            .nkept = r->u.sampled ? psf_kept_count(r->u.ps) : 0,
                            .nexposure = r->u.a.nexposure,
                            .nlambda = r->u.o.nlambda,
                            .nbox = r->u.o.nbox,
                            .nbudget = r->u.o.budget ? budget_count(&r->u.s) : 0,
                            .crop = par->output_psf == PSF_NONE ? 0 : r->u.o.crop,
                            .mixed = true}; /* as far as its form has such exposures */
    warn_resume(r);
    const store_how how = {r->cl->resume, r->cl->overwrite, r->cl->force};
    status st = store_open(r->dir, &what, &how, &r->st);
    free(text);
    if (st != MOAO_OK)
        return st;
    r->finished = store_finished(r->st);
    if (r->u.o.map != NULL)
        TRY(same_image(r, "static_map", "errors.static_map", (long)r->u.map.sum));
    if (par->telescope_pupil != NULL)
        TRY(same_image(r, "pupil_map", "telescope.pupil", (long)params_pupil_sum(par)));
    if (r->finished)
        return MOAO_OK;
    if (r->u.sampled) {
        TRY(same_nodes(r));
        run_nodes_find(r, 0);
    }
    for (int e = 0; e < r->u.a.nexposure && !r->u.sampled; e++)
        for (int k = 0; k < r->u.s.ntarget; k++)
            r->done[cell(r, e, k)] = store_done(r->st, e, k);
    fact[FACT_FORMAT] = store_get_fact(r->st, "format", fact[FACT_FORMAT]);
    TRY(check_format(r, fact[FACT_FORMAT]));
    TRY(store_set_fact(r->st, "format", fact[FACT_FORMAT]));
    TRY(check_double(r));
    TRY(reuse_way(r, &fact[FACT_WAY]));
    TRY(reuse_compressed(r, &fact[FACT_DISTRIBUTED]));
    TRY(reuse_split(r, &fact[FACT_SPLIT]));
    TRY(reuse_reference(r, &fact[FACT_REFERENCE]));
    TRY(reuse_layers(r, &fact[FACT_LAYERS]));
    TRY(reuse_fact(r, "chunk", &fact[FACT_CHUNK]));
    TRY(reuse_fact(r, "threads", &fact[FACT_THREADS]));
    TRY(store_set_fact(r->st, "ranks", r->c->size));
done:
    return st;
}

/* Local. The CPU takes the place of devices that do not serve, where the user left that open and it
 * computes the form that is asked for; the failure `st` becomes the reason that announce gives. */
static status leave_devices(run *r, status st) {
    const bool half = r->req.kept != NULL ? strcmp(linop_format(r->req.kept), "half") == 0
                                          : request_mixed(&r->req, false);
    const bool open = r->u.par->compute_backend == BACKEND_AUTO && !half && !r->mach.own;
    machine *m = &r->mach;
    if (!open && !(m->own && r->req.factor == FACTOR_PARAM_AUTO))
        return st;
    snprintf(m->text, sizeof m->text, "%s", status_message());
    status_clear();
    m->own = m->host = m->devices = open && request_own_device(&r->req, r->c->size);
    m->be = m->own ? &backend_cpu : NULL;
    m->device_free = m->device_memory = INFINITY;
    m->sharing = r->c->node_size;
    r->rep.backend = m->own ? m->be->name : NULL;
    r->rep.device = NULL;
    return MOAO_OK;
}

/* Local. The plan; *lacks: devices, or the host beside them, have not the memory at all. */
static status try_plan(const run *r, int chunk, plan *p, bool *lacks) {
    status st = plan_make(&r->req, &r->mach, chunk, p);
    *lacks = st == MOAO_INPUT && r->mach.devices && p->pair != NULL && !p->held;
    if (st != MOAO_OK || !r->mach.devices)
        return st;
    *lacks = p->peak > r->mach.total;
    return plan_check_host(p, &r->mach);
}

/* Collective. The plan, for about `chunk` targets at a time: on the CPU, where the user left that
 * open, if devices have not the memory, but not because it is in use at the moment. */
static status make_plan(run *r, int chunk) {
    plan *p = NULL;
    bool lacks = false;
    status st = comm_agree(r->c, ALLOC(p, 1, "plan"));
    while (st == MOAO_OK) {
        st = comm_agree(r->c, try_plan(r, chunk, p, &lacks));
        if (st == MOAO_OK || !lacks || (st = leave_devices(r, st)) != MOAO_OK)
            break;
    }
    if (st != MOAO_OK) {
        free(p);
        return st;
    }
    free((void *)r->pl);
    r->pl = p;
    r->chunk = p->chunk;
    accuracy_want(&r->acc, p->pair);
    r->rep.format = linop_format(p->pair);
    r->rep.factor = p->pair->factor->word;
    r->rep.product = p->pair->product->word;
    r->rep.planned = (double)plan_rank_memory(p);
    return st;
}

/* What was asked for by name computes, or nothing does; a run that goes on keeps what it had. */
static status check_named(const run *r) {
    return r->req.kept != NULL ? MOAO_OK : plan_check_named(&r->req, r->pl);
}

/* Collective. What computes; begun as in device_choose. */
static status choose_device(run *r, const comm *c, const device_start *begun) {
    machine *m = &r->mach;
    status st = device_choose(c, r->u.par, request_own_device(&r->req, c->size), begun, m);
    if (st == MOAO_OK && m->devices) {
        r->rep.backend = m->be->name;
        r->rep.device = m->text;
    }
    return st;
}

/* Collective. The host, and what computes. While a driver starts, PSFs are planned. */
static status find_machine(run *r, const comm *c) {
    const params *par = r->u.par;
    int likely = device_is_likely(par);
    status st = MOAO_OK;
    MPI_Allreduce(MPI_IN_PLACE, &likely, 1, MPI_INT, MPI_MIN, c->mpi);
    const machine_rate rate = plan_rate(&r->u.s);
    r->mach = machine_measure(c, par->compute_memory, likely ? MACHINE_QUICK_RATE : rate);
    TRY(comm_agree(c, request_init(par, &r->u.s, &r->u.a, &r->u.o, &r->req)));
    if (r->u.sampled)
        request_nodes(&r->req, &r->u.f);
    if (likely) {
        device_begin(c, &r->start);
        report_phase("setup: plans of PSFs");
        st = r->u.ps == NULL ? setup_psf(c, &r->u) : MOAO_OK;
        report_phase("setup: devices, plan");
        device_wait(&r->start);
        TRY(st);
    }
    TRY(choose_device(r, c, likely ? &r->start : NULL));
    if (likely && !r->mach.devices)
        r->mach.rate = machine_measure(c, par->compute_memory, rate).rate;
    r->rep.dgemm = r->mach.rate;
done:
    return st;
}

/* Collective. A run that goes on computes by the pair that it began with. On the CPUs of all ranks
 * and on devices, dense matrices are different pairs; they may take each other's place. */
static status keep_format(run *r, const comm *c, const linop_pair *kept) {
    const linop_pair *now = r->pl->pair;
    status st = MOAO_OK;
    if (kept == now || (strcmp(linop_format(kept), linop_format(now)) == 0 &&
                        (kept->factor->collective || now->factor->collective)))
        return st;
    device_end(&r->start); /* what is free of a device is read anew */
    request_name(&r->req, kept);
    r->req.kept = kept->factor->collective ? NULL : kept;
    r->rep.backend = r->rep.device = NULL;
    st = choose_device(r, c, NULL);
    return st;
}

/* Collective. The store's state on every rank, and the plan that follows. */
status run_prepare_plan(run *r, comm *c) {
    status st;
    const params *par = r->u.par;
    const size_t ncell = (size_t)r->u.a.nexposure * (size_t)r->stride;
    TRY(find_machine(r, c));
    request_for_gpu(&r->req, r->mach.model);
    TRY(comm_agree(c, request_predict(&r->req, r->mach.devices && !r->mach.host)));
    TRY(comm_agree(c, accuracy_init(&r->u, &r->acc)));
    r->req.sample = r->acc.edge;
    r->req.keep = r->u.sampled;
    TRY(make_plan(r, par->compute_targets_per_chunk));
    if (!r->cl->resume) /* else once it is known what the run began with */
        TRY(check_named(r));
    const linop_pair *chosen = r->pl->pair;
    st = comm_agree(c, ALLOC(r->done, ncell, "list of what is done"));
    if (st != MOAO_OK)
        goto done;
    long fact[FACTS] = {r->pl->chunk,
                        c->threads,
                        r->pl->way,
                        par->compute_tlr_distributed,
                        linop_number(chosen),
                        plan_split(r->pl),
                        plan_reference(r->pl),
                        r->pl->by_layers};
    if (is_root(r))
        st = open_store(r, fact);
    TRY(comm_agree(c, st));
    comm_bcast(c, r->done, ncell);
    MPI_Bcast(fact, FACTS, MPI_LONG, 0, c->mpi);
    MPI_Bcast(&r->finished, 1, MPI_C_BOOL, 0, c->mpi);
    accuracy_restore(c, r->st, &r->acc);
    r->req.way = fact[FACT_WAY] > COMMAND_RAW ? COMMAND_MATRIX : (int)fact[FACT_WAY];
    comm_set_threads(c, (int)fact[FACT_THREADS]);
    const bool other = fact[FACT_DISTRIBUTED] != (long)r->req.distributed;
    r->req.distributed = fact[FACT_DISTRIBUTED] != 0;
    r->req.split_moduli = (int)fact[FACT_SPLIT];
    r->req.moduli_reference = (int)fact[FACT_REFERENCE];
    r->req.layers_kept = (int)fact[FACT_LAYERS];
    TRY(keep_format(r, c, linop_numbered(fact[FACT_FORMAT])));
    if (other || linop_numbered(fact[FACT_FORMAT]) != chosen)
        TRY(comm_agree(c, request_predict(&r->req, r->mach.devices && !r->mach.host)));
    if (other || fact[FACT_CHUNK] != r->pl->chunk || r->req.way != (int)r->pl->way ||
        r->req.split_moduli != plan_split(r->pl) ||
        r->req.moduli_reference != plan_reference(r->pl) ||
        (r->req.layers_kept > 0) != r->pl->by_layers || linop_numbered(fact[FACT_FORMAT]) != chosen)
        TRY(make_plan(r, (int)fact[FACT_CHUNK]));
    st = check_named(r);
done:
    return st;
}

status run_without_devices(run *r, status st) {
    if (!r->mach.devices || r->mach.own || st != MOAO_INTERNAL)
        return st;                      /* what memory is free at the moment changes nothing */
    request_name(&r->req, r->pl->pair); /* its facts say so */
    TRY(leave_devices(r, st));
    if (is_root(r))
        progress_note("computing on the CPU: %s", r->mach.text);
    r->rep.dgemm = r->mach.rate;
    st = make_plan(r, r->pl->chunk);
done:
    return st;
}

command_matrix run_command(const run *r, const double *p) {
    command_matrix of = {.p = p, .inverse = p == r->dplus ? r->inverse : NULL};
    if (r->u.s.fit.phase)
        psf_points(r->u.ps, &of.x, &of.y);
    if (p == r->dplus && r->low != NULL) {
        of.modes = r->low;
        of.shapes = r->low + (size_t)sys_commands(&r->u.s) * (size_t)sys_low_modes(&r->u.s);
    }
    return of;
}

static status prepare_covariances(void *of) {
    run *r = of;
    return engine_prepare(&r->u.s, psf_is_phase(r->u.ps), &r->first);
}

/* What the executor loads first, on the host. */
static void begin_covariances(run *r) {
    r->first = (engine_model){.p = r->pl->largest};
    background_begin(&r->preparing, r->c->threads, prepare_covariances, r);
}

void run_drop_first(run *r) {
    background_drop(&r->preparing);
    engine_model_free(&r->first);
}

static status try_executor(run *r) {
    const command_matrix proj = run_command(r, r->dplus);
    int chunk;
    status st;
    report_phase("setup: executor");
    background_drop(&r->preparing); /* without it, or where it failed, tor_open does so */
    TRY(tor_open(r->c, &r->u.s, &r->rep, r->pl, &proj, &r->first, &r->seq.t));
    run_drop_first(r);
    report_phase("setup: executor, images");
    TRY(obsseq_open(r->u.ps, r->u.o.budget ? &r->mirror : NULL, r->u.par->compute_mixed_tolerance,
                    &r->seq, &chunk));
    if (chunk < r->chunk && is_root(r))
        progress_note("the device has room for %d target%s at a time, not %d", chunk,
                      text_plural(chunk), r->chunk);
    r->chunk = chunk < r->chunk ? chunk : r->chunk;
done:
    if (st != MOAO_OK)
        obsseq_close(&r->seq);
    return st;
}

status run_open_executor(run *r) {
    const double from = report_now();
    status st = try_executor(r);
    if (st != MOAO_OK) {
        TRY(run_without_devices(r, st));
        TRY(mirror_budget_end(r->c, &r->mirror)); /* the host's cores are needed */
        TRY(try_executor(r));
    }
    r->rep.wall[STAGE_SETUP] += report_now() - from;
done:
    return st;
}

/* Collective. D+ and H on the devices; *made: they are exact. A device that cannot do it is told of
 * when the executor is opened. */
static status command_of_device(run *r, command_inverse *inverse, bool *made) {
    status st = command_init_device(r->c, &r->u.s, r->mach.be, r->dplus, inverse);
    *made = st == MOAO_OK && command_exact(inverse);
    if (st == MOAO_MEMORY || st == MOAO_INTERNAL) {
        status_clear();
        st = MOAO_OK;
    }
    return st;
}

/* Commands of the low orders, which stars of their own see. */
static status make_low_orders(run *r) {
    const sys *s = &r->u.s;
    const size_t size = (size_t)sys_commands(s) * (size_t)sys_low_modes(s);
    status st = ALLOC(r->low, 2 * size, "low orders");
    if (st == MOAO_OK)
        st = fit_low_orders(s, r->u.ps, r->dplus, r->low, r->low + size);
    return comm_agree(r->c, st);
}

/* Collective. D+, and H where it is wanted and exact; F in its place where commands are fitted to
 * the phase. */
static status make_command(run *r) {
    const sys *s = &r->u.s;
    const size_t v = (size_t)sys_commands(s);
    bool keep = r->req.way != COMMAND_MATRIX, made = false;
    command_inverse inverse;
    status st = MOAO_OK;
    if (s->fit.phase) {
        TRY(fit_init(r->c, s, r->u.ps, r->dplus));
        return sys_low_follows(s) ? make_low_orders(r) : st;
    }
    if (keep || !on_host(r))
        st = ALLOC(r->inverse, v * v, "inverse of the mirror");
    TRY(comm_agree(r->c, st));
    inverse.h = r->inverse;
    if (!on_host(r))
        TRY(command_of_device(r, &inverse, &made));
    if (!made) {
        TRY(command_init(r->c, s, r->dplus, keep ? &inverse : NULL));
        keep = keep && command_exact(&inverse);
    }
    if (!keep) {
        free(r->inverse);
        r->inverse = NULL;
    }
done:
    return st;
}

status run_prepare_stages(run *r) {
    const sys *s = &r->u.s;
    const bool apart = budget_is_apart(r), early = apart && mirror_budget_is_early(s, r->u.ps);
    const size_t size = (size_t)sys_commands(s) * sys_fit_columns(s);
    double from = report_now();
    status st;
    TRY(comm_agree(r->c, ALLOC(r->dplus, size, "command matrix D+")));
    if (early)
        TRY(mirror_budget_begin_early(r->c, s, r->u.ps, r->dplus, &r->u.a, &r->mirror));
    if (!on_host(r))
        begin_covariances(r);
    report_phase("setup: libraries of devices");
    device_end(&r->start);
    report_phase("setup: command matrix");
    TRY(make_command(r));
    report_phase("setup: error budget");
    if (early)
        mirror_budget_command(&r->mirror);
    else if (apart)
        TRY(mirror_budget_begin(r->c, s, r->u.ps, r->dplus, &r->u.a, &r->mirror));
    else if (r->u.o.budget)
        TRY(mirror_budget_init(r->c, s, r->u.ps, r->dplus, &r->u.a, &r->mirror));
    verify_init(r->c, &r->u, r->dplus, &r->ver);
    r->rep.flops[STAGE_SETUP] = r->pl->flops[STAGE_SETUP] / r->c->size;
    r->rep.wall[STAGE_SETUP] = report_now() - from;
    if (is_root(r))
        machine_warn();
done:
    return st;
}

static void announce_integers(const run *r) {
    if (r->pl->moduli_reference > 0)
        progress_note("the reference of the sampled target is computed by integers: %d moduli",
                      r->pl->moduli_reference);
    else if (r->pl->moduli > 0)
        progress_note("the factor of Cmm is computed by integers: %d moduli, each device by "
                      "itself; W and exposures by %d",
                      r->pl->moduli, r->pl->moduli_exposure);
    if (plan_split(r->pl) > 0)
        progress_note("the factor of Cmm is computed by integers: %d moduli, each device by itself",
                      plan_split(r->pl));
}

/* How Cmm0 is factored, where that is not the dense factor of the device or of the CPUs. */
static void announce_factor(const run *r) {
    const plan *p = r->pl;
    const factor_kind *f = p->pair->factor;
    if (f->compressed)
        progress_note("the factor of Cmm is compressed by tiles: about %.2f GB of %.2f, mean rank "
                      "%.0f of %d",
                      p->ranks->bytes / 1e9, p->ranks->bytes_dense / 1e9, p->ranks->mean,
                      p->ranks->tile);
    if (f->compressed && p->members > 1)
        progress_note("it is distributed: each of %d ranks keeps its tile rows alone", p->members);
    announce_integers(r);
    if (f == &factor_tlr_host)
        progress_note("it is kept in the host's memory and streamed to the device");
    if (f == &factor_host)
        progress_note("the factor of Cmm is kept in the host's memory and streamed to the device");
    if (f->distributed)
        progress_note("the factor of Cmm is distributed: each of %d ranks keeps a part of it in "
                      "its host's memory",
                      r->c->size);
    if (f->residuals > 0)
        progress_note("the factor of Cmm is in split FP16, and W is refined in double precision");
    if (plan_factor_named(f, FACTOR_PARAM_FP16_HOST))
        progress_note("the factor of Cmm is computed in the host's memory; the device keeps it in "
                      "FP16");
}

void run_announce(const run *r) {
    const sys *s = &r->u.s;
    const comm *c = r->c;
    char loop[256];
    progress_note("%d sensor%s, %zu measurements, %d actuators", sys_stars(s),
                  text_plural(sys_stars(s)), sys_slopes(s), sys_commands(s));
    loop_describe(&s->loop, loop, sizeof loop);
    if (s->loop.type != LOOP_OPEN)
        progress_note("loop: %s", loop);
    loop_describe(&s->low.loop, loop, sizeof loop);
    if (s->low.loop.type != LOOP_OPEN)
        progress_note("loop of the low orders: %s", loop);
    if (r->u.sampled)
        progress_note("%d targets from %d nodes %.1f arcsec apart, %d of them targets to compare "
                      "with",
                      r->u.f.nwant, r->u.f.nnode, r->u.f.step * ARCSEC_PER_RAD,
                      field_count(&r->u.f, NODE_CHECK));
    const int whole = field_whole_exposures(&r->u.f, &r->u.a);
    if (r->u.sampled && whole < r->u.a.nexposure)
        progress_note("all nodes in %d of %d exposures; the others compute those %d rows apart and "
                      "follow from these",
                      whole, r->u.a.nexposure, r->u.f.coarse);
    progress_note("%d target%s, %d at a time; %d reconstructor%s, %d exposure%s", s->ntarget,
                  text_plural(s->ntarget), r->pl->chunk, r->u.a.ntor, text_plural(r->u.a.ntor),
                  r->u.a.nexposure, text_plural(r->u.a.nexposure));
    progress_note("%d rank%s of %d thread%s on %d node%s, %.2f GB a rank", c->size,
                  text_plural(c->size), c->threads, text_plural(c->threads), c->nnode,
                  text_plural(c->nnode), r->rep.planned / 1e9);
    if (r->mach.devices)
        progress_note("%s: %s", r->mach.be->name, r->mach.text);
    if (r->pl->mixed_needs > 0)
        progress_note("in double precision: mixed precision, which would save time, needs %.2f GB "
                      "of the GPU for one target, %.2f GB are given (compute.gpu_memory)",
                      r->pl->mixed_needs / 1e9, r->pl->given.ever / 1e9);
    if (r->pl->by_layers)
        progress_note("phases of all targets come from covariances on each layer (compute.phase: "
                      "layers)");
    announce_factor(r);
    if (r->acc.exposures)
        progress_note("%s, checked on target %d of %s%s",
                      r->pl->pair->product->fp16 ? "mixed precision" : r->pl->pair->product->word,
                      r->acc.edge + 1,
                      r->u.par->compute_mixed_samples > 1 ? "sampled exposures" : "every exposure",
                      r->u.par->compute_precision == PRECISION_PARAM_AUTO
                          ? "; compute.precision=double takes longer and has no such difference"
                          : "");
    else if (request_mixed(&r->req, false) && !r->pl->pair->factor->compressed)
        progress_note(
            "compute.precision: mixed needs a GPU that holds the factor in FP16; computing "
            "in double precision");
    if (!r->mach.devices && r->mach.text[0] != '\0')
        progress_note("computing on the CPU: %s", r->mach.text);
    progress_note("results in %s", r->dir);
}

/* As the user says, else as many as the case is large enough for. */
void run_choose_threads(const run *r, comm *c) {
    if (r->u.par->compute_threads > 0)
        comm_set_threads(c, r->u.par->compute_threads);
    else if (comm_threads_asked() == 0)
        comm_set_threads(c, plan_threads(&r->u.s, c->threads));
}
