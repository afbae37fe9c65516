/* A run that computes at nodes (field/field.h): comparison with targets that are computed too,
 * nodes that are added, and the results of all targets. */
#include "job/node_values.h"

#include "base/progress.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PER_RANK = 32 }; /* targets of a rank whose results are collected at once */
#define SUSPICIOUS 15.0 /* a node that far from its neighbours, in medians, is computed again */
#define ROUNDING 2e-5   /* of results from what is kept, in single precision, of a node */

/* Rows of weights of directions from .. end. */
static obsseq_rows rows_of(const field_weights *w, int from, int end, const node_values *v) {
    return (obsseq_rows){
        .n = end - from, .first = w->first + from, .node = w->node, .w = w->w, .kept = v->kept};
}

static const profile *profile_of(const run *r, int e) {
    return atmos_profile_at(&r->u.a, r->u.a.exposure_time[e]);
}

/* --- comparison */

/* Collective. Results of an exposure between nodes against those that were computed there. */
static status compare_exposure(run *r, int k, int e, obsexposure *ex, const field_weights *w,
                               field_check *check) {
    const size_t nq = node_quality_count(r), n = (size_t)w->n;
    const int from = w->n * r->c->rank / r->c->size, end = w->n * (r->c->rank + 1) / r->c->size;
    const result_block b = run_block(r, e, 0, 1);
    node_values v = {0};
    double *all = NULL;
    status st;
    TRY(node_values_load(r, k, e, true, &v));
    st = ALLOC(all, n * nq, "comparisons");
    if (st == MOAO_OK) {
        const obsseq_rows rows = rows_of(w, from, end, &v);
        memset(all, 0, n * nq * sizeof *all);
        st =
            obsseq_interpolate(&r->seq, profile_of(r, e), ex, &rows, all + (size_t)from * nq, NULL);
    }
    TRY(comm_agree(r->c, st));
    comm_sum(r->c, all, n * nq);
    for (size_t i = 0; i < n; i++) {
        const double gap =
            obsseq_difference(&b, all + i * nq, v.scalars + (size_t)check[i].node * v.ns);
        check[i].error = fmax(check[i].error, gap);
        if (!field_follows(&r->u.f, k, e))
            check[i].whole = fmax(check[i].whole, gap);
    }
done:
    node_values_free(&v);
    free(all);
    return st;
}

/* Collective. All comparisons under reconstructor k: *check, in new memory. */
static status compare(run *r, int k, obsexposure *ex, field_check **check, int *n) {
    const field *f = &r->u.f;
    double(*at)[2] = NULL;
    field_weights w = {0};
    int first, end;
    status st = ALLOC(*check, (size_t)f->nnode, "comparisons");
    *n = 0;
    if (st == MOAO_OK)
        st = ALLOC(at, (size_t)f->nnode, "comparisons");
    for (int i = 0; st == MOAO_OK && i < f->nnode; i++)
        if (f->node[i].kind == NODE_CHECK && f->node[i].tor <= k) {
            memcpy(at[*n], f->node[i].at, sizeof *at);
            (*check)[(*n)++] = (field_check){.node = i};
        }
    if (st == MOAO_OK)
        st = field_interpolate(f, k, -1, *n, (const double(*)[2])at, NULL, &w);
    TRY(comm_agree(r->c, st));
    for (int i = 0; i < *n; i++)
        (*check)[i].power = w.power[i];
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (int e = first; e<end && * n> 0; e++)
        TRY(compare_exposure(r, k, e, &ex[e], &w, *check));
done:
    field_weights_free(&w);
    free(at);
    return st;
}

/* --- nodes that do not fit their neighbours */

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Adds to gap[] what the Strehl ratios and ensquared energies of each source of exposure e are off
 * those between the others, in units of kriging's deviation; the largest difference itself to
 * off[]. */
static void add_gaps(const run *r, int k, int e, const field_weights *w, const node_values *v,
                     double *gap, double *off) {
    const result_block b = run_block(r, 0, 0, 1);
    double between[512];
    const size_t nq = node_quality_count(r) < 512 ? node_quality_count(r) : 0;
    for (int i = 0; i < w->n; i++) {
        if (!field_computes(&r->u.f, i, k, e))
            continue;
        memset(between, 0, sizeof between);
        for (int j = w->first[i]; j < w->first[i + 1]; j++)
            for (size_t q = 0; q < nq; q++)
                between[q] += w->w[j] * v->scalars[(size_t)w->node[j] * v->ns + q];
        const double d =
            nq > 0 ? obsseq_difference(&b, between, v->scalars + (size_t)i * v->ns) : 0;
        off[i] = fmax(off[i], d);
        gap[i] = fmax(gap[i], w->power[i] > 0 ? d / w->power[i] : 0);
    }
}

/* Weights of each node between the others of an exposure. */
static status weights_without(const field *f, int k, int e, field_weights *w) {
    const size_t n = (size_t)f->nnode;
    double(*at)[2] = NULL;
    int *self = NULL;
    status st;
    TRY(ALLOC(at, n, "nodes"));
    TRY(ALLOC(self, n, "nodes"));
    for (size_t i = 0; i < n; i++) {
        memcpy(at[i], f->node[i].at, sizeof *at);
        self[i] = (int)i;
    }
    st = field_interpolate(f, k, e, (int)n, (const double(*)[2])at, self, w);
done:
    free(at);
    free(self);
    return st;
}

/* Collective. The source that is farthest from its neighbours, if that is suspicious; else -1. */
static status find_suspect(run *r, int k, int *suspect) {
    const field *f = &r->u.f;
    const size_t n = (size_t)f->nnode;
    double *gap = NULL;
    int first, end, sources = 0;
    field_weights w = {0}, few = {0}; /* between all nodes; between those of every exposure */
    *suspect = -1;
    status st = ALLOC(gap, 3 * n, "nodes");
    atmos_exposures_of(&r->u.a, k, &first, &end);
    if (st == MOAO_OK)
        st = weights_without(f, k, -1, &w);
    for (int e = first; e < end && st == MOAO_OK; e++)
        if (field_follows(f, k, e) && few.n == 0)
            st = weights_without(f, k, e, &few);
    TRY(comm_agree(r->c, st));
    double *const off = gap + n, *const sorted = off + n;
    memset(gap, 0, 2 * n * sizeof *gap);
    for (int e = first; e < end; e++) {
        node_values v;
        TRY(node_values_load(r, k, e, false, &v));
        add_gaps(r, k, e, field_follows(f, k, e) ? &few : &w, &v, gap, off);
        node_values_free(&v);
    }
    int most = -1;
    for (int i = 0; i < (int)n; i++) {
        if (!field_is_source(&f->node[i]) || !field_computes(f, i, k, -1) ||
            r->nodes.again[i] != 0 || !field_inside(f, &f->node[i]))
            continue;
        sorted[sources++] = gap[i];
        if (most < 0 || gap[i] > gap[most])
            most = i;
    }
    qsort(sorted, (size_t)sources, sizeof *sorted, compare_doubles);
    if (most >= 0 && gap[most] > SUSPICIOUS * sorted[sources / 2] &&
        off[most] > r->u.par->targets_tolerance)
        *suspect = most;
done:
    field_weights_free(&w);
    field_weights_free(&few);
    free(gap);
    return st;
}

/* Collective. A node that was computed twice: the same results, or something has erred. */
static status judge_again(run *r, int k, int node, int again) {
    int first, end;
    status st = MOAO_OK;
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (int e = first; e < end; e++) {
        const result_block b = run_block(r, e, 0, 1);
        node_values v;
        if (!field_computes(&r->u.f, node, k, e))
            continue;
        TRY(node_values_load(r, k, e, false, &v));
        const double gap = obsseq_difference(&b, v.scalars + (size_t)node * v.ns,
                                             v.scalars + (size_t)again * v.ns);
        const double *at = r->u.f.node[node].at;
        node_values_free(&v);
        if (!(gap <= r->u.par->targets_tolerance))
            TRY(status_fail(
                MOAO_NUMERIC,
                "exposure %d: the node at [%.2f, %.2f] arcsec was computed twice, and a "
                "Strehl ratio or ensquared energy differs by %.1e (targets.tolerance "
                "%.1e): memory or a processor of this machine has erred; start again "
                "with --overwrite on another one",
                e + 1, at[0] * ARCSEC_PER_RAD, at[1] * ARCSEC_PER_RAD, gap,
                r->u.par->targets_tolerance));
    }
done:
    return st;
}

/* --- the loop of a reconstructor */

void run_nodes_find(run *r, int from) {
    const field *f = &r->u.f;
    for (int e = 0; e < r->u.a.nexposure; e++)
        for (int i = from; i < f->nnode; i++)
            r->done[cell(r, e, i)] = !field_computes(f, i, atmos_tor_of(&r->u.a, e), e) ? NEVER
                                     : store_node_done(r->st, e, i)                     ? 1
                                                                                        : 0;
}

/* Collective. Nodes from `from` on are new or asked for anew: what is done of them is known on
 * every rank. */
static void take_new(run *r, int from) {
    setup_more_nodes(&r->u);
    if (is_root(r))
        run_nodes_find(r, from);
    for (int e = 0; e < r->u.a.nexposure; e++)
        comm_bcast(r->c, r->done + cell(r, e, from), (size_t)(r->u.f.nnode - from));
}

/* Whether a node of reconstructor k computes every target: nothing is interpolated. */
static bool computes_all(const field *f, int k) {
    for (int t = 0; t < f->nwant; t++)
        if (f->node_of[t] < 0 || f->node[f->node_of[t]].tor > k)
            return false;
    return true;
}

/* Of several reconstructors the fewest comparisons and the largest difference are reported. */
static void keep_found(run *r, int k, const field_check *check, int n, double largest) {
    field_report *s = &r->nodes.report;
    const bool all = computes_all(&r->u.f, k);
    int drawn = 0; /* a random sample of what is between the nodes */
    for (int i = 0; i < n; i++)
        drawn += !r->u.f.node[check[i].node].picked;
    s->nodes = r->u.f.nnode;
    if (!all) {
        s->checked = s->checked > 0 && s->checked < drawn ? s->checked : drawn;
        s->largest = fmax(s->largest, largest);
    }
    r->rep.nodes = s->nodes;
    r->rep.nodes_added = s->added;
    r->rep.nodes_checked = s->checked;
    r->rep.node_largest = s->largest;
    r->rep.node_tolerance = r->u.par->targets_tolerance;
    for (int i = 0; is_root(r) && i < n && r->cl->verbose && !all; i++) {
        const field_node *p = &r->u.f.node[check[i].node];
        progress_note("  target %d at [%.1f, %.1f] arcsec: %.1e off", p->target + 1,
                      p->at[0] * ARCSEC_PER_RAD, p->at[1] * ARCSEC_PER_RAD, check[i].error);
    }
    if (is_root(r) && all)
        progress_note("reconstructor %d: %d nodes; all %d targets are computed", k + 1,
                      r->u.f.nnode, r->u.f.nwant);
    else if (is_root(r))
        progress_note("reconstructor %d: %d nodes; %d targets that were computed too are within "
                      "%.1e (targets.tolerance %.1e); at most %.2g %% of the others are over it, "
                      "at 95 %% confidence",
                      k + 1, r->u.f.nnode, n, largest, r->u.par->targets_tolerance,
                      drawn > 0 ? fmin(100, 300.0 / drawn) : 100);
}

/* Expected errors of all targets, the largest of the reconstructors; of a node that follows in some
 * exposures the mean one. */
static void keep_errors(run *r, int k) {
    const field *f = &r->u.f;
    double mean = 0;
    int left = 0;
    for (int t = 0; t < f->nwant; t++)
        if (f->node_of[t] < 0) {
            mean += f->error[t];
            left++;
        }
    mean /= left > 0 ? left : 1;
    for (int t = 0; t < f->nwant; t++) {
        const bool follows = f->node_of[t] >= 0 && f->node[f->node_of[t]].fine && k < f->whole_from;
        r->nodes.error[t] = fmax(r->nodes.error[t], follows ? mean : f->error[t]);
    }
}

/* Expected errors of all targets, and nodes that comparisons ask for. */
static status refine_nodes(run *r, int k, const field_check *check, int n, int *added) {
    field *f = &r->u.f;
    field_weights w;
    status st = field_interpolate(f, k, -1, f->nwant, f->want, NULL, &w);
    if (st == MOAO_OK) {
        field_errors(f, w.power, check, n);
        st = field_refine(f, k, r->u.par->targets_tolerance, check, n, added);
    }
    field_weights_free(&w);
    if (st == MOAO_OK && *added == 0)
        keep_errors(r, k);
    return st;
}

/* All targets are nodes from reconstructor k on: the other nodes are computed no more, unless
 * field.fits is to have them or one of them is the sample of mixed precision. */
static void leave_nodes(run *r, int k) {
    if (is_root(r))
        progress_note(
            "targets.tolerance %.1e asks for more nodes than save anything: all %d targets "
            "are computed",
            r->u.par->targets_tolerance, r->u.f.nwant);
    if (!r->u.par->output_field)
        field_leave(&r->u.f, k, r->acc.edge);
}

/* Collective. The node that is suspicious is computed again, or was, once under a reconstructor;
 * *more: nodes were added. */
static status check_sources(run *r, int k, bool *more) {
    run_nodes *s = &r->nodes;
    const int before = r->u.f.nnode;
    int suspect, again;
    status st = MOAO_OK;
    *more = false;
    if (s->pending >= 0) { /* computed by now */
        TRY(judge_again(r, k, s->pending, s->again[s->pending]));
        s->pending = -1;
        s->judged = k + 1;
    } else if (s->judged < k + 1) {
        TRY(find_suspect(r, k, &suspect));
        if (suspect < 0)
            goto done;
        if (is_root(r))
            progress_note("the node at [%.1f, %.1f] arcsec is far from its neighbours: it is "
                          "computed again",
                          r->u.f.node[suspect].at[0] * ARCSEC_PER_RAD,
                          r->u.f.node[suspect].at[1] * ARCSEC_PER_RAD);
        TRY(comm_agree(r->c, field_again(&r->u.f, suspect, k, &again)));
        s->again[suspect] = again;
        s->pending = suspect;
    }
    *more = r->u.f.nnode > before;
    take_new(r, before);
done:
    return st;
}

status run_nodes_check(run *r, int k, obsexposure *ex, bool *more) {
    const double tolerance = r->u.par->targets_tolerance, from = report_now();
    const int before = r->u.f.nnode, followed = r->u.f.whole_from;
    const bool whole = r->u.f.whole;
    field_check *check = NULL;
    int n, added = 0;
    double largest = 0;
    status st;
    report_phase("nodes: comparison");
    TRY(check_sources(r, k, more));
    if (*more)
        goto done;
    TRY(compare(r, k, ex, &check, &n));
    for (int i = 0; i < n; i++)
        largest = fmax(largest, check[i].error);
    r->nodes.report.found = fmax(r->nodes.report.found, largest);
    TRY(comm_agree(r->c, refine_nodes(r, k, check, n, &added)));
    if (r->u.f.nnode > before && is_root(r))
        progress_note("%d target%s compared, up to %.1e off (targets.tolerance %.1e): %d node%s "
                      "added",
                      n, text_plural(n), largest, tolerance, r->u.f.nnode - before,
                      text_plural(r->u.f.nnode - before));
    r->nodes.report.added += r->u.f.nnode - before;
    if (r->u.f.whole && !whole)
        leave_nodes(r, k);
    else if (added > 0 && r->u.f.nnode == before && is_root(r))
        progress_note("a target that was computed too is up to %.1e off in an exposure that "
                      "follows from others: %s nodes are computed in every exposure",
                      largest, r->u.f.whole_from != followed ? "all" : "more");
    if (added > 0)
        take_new(r, 0);
    if (added == 0)
        keep_found(r, k, check, n, largest);
    *more = added > 0;
done:
    free(check);
    r->rep.wall[STAGE_PSF] += report_now() - from;
    return st;
}

/* --- all targets */

/* A target that a node computes has a row of its own. */
static status wanted_weights(const run *r, int k, field_weights *w) {
    const field *f = &r->u.f;
    status st = field_interpolate(f, k, -1, f->nwant, f->want, NULL, w);
    for (int t = 0, to = 0; st == MOAO_OK && t < f->nwant; t++) {
        const int node = f->node_of[t], from = w->first[t], end = w->first[t + 1];
        const bool alone = node >= 0 && f->node[node].tor <= k;
        const int n = alone ? 1 : end - from;
        memmove(w->node + to, w->node + from, (size_t)(end - from) * sizeof *w->node);
        memmove(w->w + to, w->w + from, (size_t)(end - from) * sizeof *w->w);
        w->first[t] = to;
        if (alone) {
            w->node[to] = node;
            w->w[to] = 1;
        }
        to += n;
        if (t == f->nwant - 1)
            w->first[f->nwant] = to;
    }
    return st;
}

/* Rank 0: the error budget of targets from nodes', and whether a node's results are its own. */
static status finish_block(const run *r, int k, const field_weights *w, const node_values *v,
                           const double *quality, result_block *b) {
    const size_t nq = node_quality_count(r), ns = v->ns;
    for (int i = 0; i < b->nt; i++) {
        const int t = b->t0 + i;
        double *out = b->scalars + (size_t)i * ns;
        memset(out, 0, ns * sizeof *out);
        for (int j = w->first[t]; j < w->first[t + 1]; j++)
            for (size_t q = nq; q < ns; q++)
                out[q] += w->w[j] * v->scalars[(size_t)w->node[j] * ns + q];
        memcpy(out, quality + (size_t)i * nq, nq * sizeof *out);
        if (w->first[t + 1] != w->first[t] + 1 ||
            !field_computes(&r->u.f, w->node[w->first[t]], k, b->exposure))
            continue;
        const double gap =
            obsseq_difference(b, out, v->scalars + (size_t)w->node[w->first[t]] * ns);
        if (!(gap <= ROUNDING))
            return status_fail(MOAO_NUMERIC,
                               "exposure %d, target %d: a Strehl ratio or ensquared energy from "
                               "what is kept of its node is %.1e off the one that was computed: "
                               "memory or a processor of this machine has erred; start again with "
                               "--overwrite on another one",
                               b->exposure + 1, t + 1, gap);
    }
    return MOAO_OK;
}

/* Collective. This rank's part of a block to rank 0: n numbers a target. */
static void gather(const run *r, const int *count, const int *first, size_t bytes, void *mine,
                   void *all) {
    MPI_Datatype of;
    MPI_Type_contiguous((int)bytes, MPI_BYTE, &of);
    MPI_Type_commit(&of);
    MPI_Gatherv(mine, count[r->c->rank], of, all, count, first, of, 0, r->c->mpi);
    MPI_Type_free(&of);
}

/* Collective. Targets t0 .. t0 + nt of an exposure. */
static status fill_block(run *r, int k, int e, int t0, int nt, obsexposure *ex,
                         const field_weights *w, const node_values *v) {
    const int size = r->c->size, rank = r->c->rank;
    result_block b = run_block(r, e, t0, nt);
    b.crop = r->u.par->output_psf == PSF_NONE ? 0 : r->u.o.crop;
    b.mixed = r->acc.factors || (r->acc.exposures && r->acc.state[e] == ACCURACY_APPROXIMATE);
    const size_t nq = node_quality_count(r),
                 np = (size_t)b.nlambda * (size_t)b.crop * (size_t)b.crop;
    double *mine = NULL, *all = NULL;
    float *images = NULL;
    int *count = NULL;
    status st = ALLOC(count, 2 * (size_t)size, "targets of the ranks");
    if (st != MOAO_OK)
        return comm_agree(r->c, st);
    for (int i = 0; i < size; i++) {
        count[size + i] = (int)((long)nt * i / size);
        count[i] = (int)((long)nt * (i + 1) / size) - count[size + i];
    }
    const size_t few = (size_t)count[rank], root = is_root(r) ? (size_t)nt : 0;
    st = ALLOC(mine, few * nq, "results");
    if (st == MOAO_OK && np > 0)
        st = ALLOC(images, few * np, "PSFs of a rank");
    if (st == MOAO_OK)
        st = ALLOC(all, root * nq, "results");
    if (st == MOAO_OK)
        st = ALLOC(b.scalars, root * v->ns, "results");
    if (st == MOAO_OK && np > 0)
        st = ALLOC(b.images, root * np, "PSFs of a chunk");
    TRY(comm_agree(r->c, st));
    TRY(comm_agree(r->c, comm_fault(r->c, "nodes")));
    const int from = t0 + count[size + rank];
    const obsseq_rows rows = rows_of(w, from, from + count[rank], v);
    TRY(comm_agree(r->c, obsseq_interpolate(&r->seq, profile_of(r, e), ex, &rows, mine, images)));
    gather(r, count, count + size, nq * sizeof *mine, mine, all);
    if (np > 0)
        gather(r, count, count + size, np * sizeof *images, images, b.images);
    if (is_root(r))
        st = finish_block(r, k, w, v, all, &b);
    if (is_root(r) && st == MOAO_OK)
        st = store_put(r->st, &b);
    st = comm_agree(r->c, st);
done:
    free(count);
    free(mine);
    free(images);
    free(all);
    free(b.scalars);
    free(b.images);
    return st;
}

/* Collective. Whether rank 0 lacks the results of one of these targets. */
static bool lacks(const run *r, int e, int t0, int t1) {
    int any = 0;
    for (int t = t0; is_root(r) && t < t1; t++)
        any = any || !store_done(r->st, e, t);
    MPI_Bcast(&any, 1, MPI_INT, 0, r->c->mpi);
    return any != 0;
}

status run_nodes_fill(run *r, int k, obsexposure *ex) {
    const int nt = r->u.f.nwant, step = PER_RANK * r->c->size;
    field_weights w = {0};
    int first, end;
    const double from = report_now();
    status st = comm_agree(r->c, wanted_weights(r, k, &w));
    report_phase("nodes: all targets");
    atmos_exposures_of(&r->u.a, k, &first, &end);
    for (int e = first; e < end && st == MOAO_OK; e++) {
        node_values v = {0};
        if (!lacks(r, e, 0, nt))
            continue;
        if (is_root(r))
            progress_step("exposure %d/%d: %d targets from %d nodes", e + 1, r->u.a.nexposure, nt,
                          r->u.f.nnode);
        st = node_values_load(r, k, e, true, &v);
        for (int t = 0; t < nt && st == MOAO_OK; t += step) {
            const int n = t + step < nt ? step : nt - t;
            if (lacks(r, e, t, t + n))
                st = fill_block(r, k, e, t, n, &ex[e], &w, &v);
        }
        node_values_free(&v);
    }
    field_weights_free(&w);
    r->rep.wall[STAGE_PSF] += report_now() - from;
    return st;
}

long run_nodes_residuals(const run *r) {
    long n = 0;
    for (int e = 0; e < r->u.a.nexposure; e++)
        for (int i = 0; i < r->u.f.nnode; i++)
            n += r->done[cell(r, e, i)] == 1;
    return n;
}

status run_nodes_init(run *r) {
    const size_t n = r->u.sampled ? (size_t)r->u.f.capacity : 0;
    r->nodes.pending = -1;
    r->stride = r->u.sampled ? r->u.f.capacity : r->u.s.ntarget;
    const status st = ALLOC(r->nodes.error, (size_t)r->u.f.nwant, "errors of targets");
    return st == MOAO_OK ? ALLOC(r->nodes.again, n, "nodes") : st;
}
