/* loop.gain: optimal. The variance of the residual has one minimum: noise grows with the gain, lag
 * falls. Golden sections find it. */
#include "job/run_state.h"

#include "base/progress.h"

#include <math.h>
#include <stdlib.h>

#define SECTIONS 11
#define UNIT 1e6 /* gains are multiples of 1 / UNIT: a resumed run has the same */

/* The loop of all, or of the stars for low orders. */
enum { OF_ALL, OF_LOW, OF_MOST };
static const char *const fact_name[OF_MOST] = {"loop_gain", "low_gain"};

static loop_filter *filter_of(run *r, int which) {
    return which == OF_LOW ? &r->u.s.low.loop : &r->u.s.loop;
}

static status use_gain(run *r, int which, double gain) {
    status st = loop_change_gain(filter_of(r, which), gain);
    filter_of(r, which)->optimal = false;
    if (st == MOAO_OK)
        st = sys_see_common(&r->u.s);
    r->u.want.loop = r->u.s.loop; /* borrowed, as all of it */
    r->u.want.low.loop = r->u.s.low.loop;
    r->u.want.fit.split = r->u.s.fit.split;
    return st;
}

bool run_seeks_gain(const run *r) {
    return r->u.s.loop.optimal || r->u.s.low.loop.optimal;
}

status run_restore_gain(run *r) {
    status st = MOAO_OK;
    for (int i = 0; i < OF_MOST; i++) {
        long known = 0;
        if (!filter_of(r, i)->optimal)
            continue;
        if (is_root(r))
            known = store_get_fact(r->st, fact_name[i], 0);
        MPI_Bcast(&known, 1, MPI_LONG, 0, r->c->mpi);
        if (known > 0)
            TRY(comm_agree(r->c, use_gain(r, i, (double)known / UNIT)));
    }
done:
    return st;
}

typedef struct { /* what variances are found with */
    const profile *p;
    const obsseq_accuracy *how;
    obsexposure *ex;
    result_block b;
    double gain[OF_MOST];
} seeking;

/* Collective. Mean residual variance of targets with these gains. */
static status variance(run *r, seeking *x, double *out) {
    loop_filter f[OF_MOST], seen = {0};
    profile p = *x->p;
    obsseq_accuracy how = {.approximate = x->how->approximate};
    const size_t n = store_scalars(x->b.nlambda, x->b.nbox, x->b.nbudget);
    status st = MOAO_OK;
    for (int i = 0; i < OF_MOST; i++) {
        f[i] = *filter_of(r, i);
        f[i].h = f[i].mean = f[i].one = NULL;
        f[i].gain = x->gain[i];
        f[i].optimal = false;
        if (st == MOAO_OK && f[i].type != LOOP_OPEN)
            st = loop_init(&f[i]);
    }
    p.loop[0] = &f[OF_ALL];
    if (f[OF_LOW].type != LOOP_OPEN)
        p.loop[1] = &f[OF_LOW];
    if (p.loop[2] != NULL && st == MOAO_OK)
        st = loop_join(&f[OF_ALL], &r->u.s.fit.split.own, &seen);
    if (p.loop[2] != NULL)
        p.loop[2] = &seen;
    TRY(comm_agree(r->c, st));
    TRY(obsseq_expose(&r->seq, &p, x->ex, &how, NULL, &x->b));
    *out = 0;
    for (int t = 0; is_root(r) && t < x->b.nt; t++)
        *out += x->b.scalars[(size_t)t * n + 2] / x->b.nt;
    MPI_Bcast(out, 1, MPI_DOUBLE, 0, r->c->mpi);
done:
    loop_free(&seen);
    for (int i = 0; i < OF_MOST; i++)
        loop_free(&f[i]);
    return st;
}

/* Collective. The gain of a loop with the least variance between two, into x. */
static status search(run *r, int which, double low, double high, seeking *x) {
    const double golden = 0.5 * (sqrt(5) - 1);
    double at[2] = {high - golden * (high - low), low + golden * (high - low)}, v[2];
    double *gain = &x->gain[which];
    status st = MOAO_OK;
    for (int i = 0; i < 2; i++) {
        *gain = at[i];
        TRY(variance(r, x, &v[i]));
    }
    for (int i = 0; i < SECTIONS; i++) {
        const int worse = v[0] > v[1] ? 0 : 1; /* not that one's side */
        *(worse == 0 ? &low : &high) = at[worse];
        at[worse] = at[!worse];
        v[worse] = v[!worse];
        at[!worse] = worse == 0 ? low + golden * (high - low) : high - golden * (high - low);
        *gain = at[!worse];
        TRY(variance(r, x, &v[!worse]));
    }
    *gain = v[0] < v[1] ? at[0] : at[1];
done:
    return st;
}

/* Collective. All gains that are to be found: the one under a first one of the other, and, where
 * there are two, each again under that of the other. */
static status search_all(run *r, seeking *x) {
    const bool both = r->u.s.loop.optimal && r->u.s.low.loop.optimal;
    status st = MOAO_OK;
    for (int i = 0; i < OF_MOST; i++)
        x->gain[i] = filter_of(r, i)->gain;
    for (int turn = 0; turn < (both ? 2 * OF_MOST : OF_MOST); turn++) {
        const loop_filter *f = filter_of(r, turn % OF_MOST);
        const double most = f->type == LOOP_LEAKY ? 1 : 0.9 * loop_limit(f->type, f->frames);
        const double known = x->gain[turn % OF_MOST];
        if (f->optimal && turn < OF_MOST)
            TRY(search(r, turn, 0.01, most, x));
        else if (f->optimal)
            TRY(search(r, turn % OF_MOST, fmax(0.01, known / 1.5), fmin(most, known * 1.5), x));
    }
done:
    return st;
}

/* Collective. */
static status keep_gain(run *r, int which, double found) {
    const double gain = fmax(1, round(found * UNIT)) / UNIT;
    char text[256];
    status st = use_gain(r, which, gain);
    if (st == MOAO_OK && is_root(r))
        st = store_set_fact(r->st, fact_name[which], lround(gain * UNIT));
    TRY(comm_agree(r->c, st));
    loop_describe(filter_of(r, which), text, sizeof text);
    if (is_root(r))
        progress_note("  optimal%s: %s", which == OF_LOW ? ", low orders" : "", text);
done:
    return st;
}

status run_find_gain(run *r, int e, int t0, int t1, obsexposure *ex) {
    const obsseq_accuracy how = accuracy_plan(&r->acc, e, t0, t1, false);
    mirror_budget *mirror = r->seq.budget.mirror;
    seeking x = {.p = atmos_profile_at(&r->u.a, r->u.a.exposure_time[e]),
                 .how = &how,
                 .ex = ex,
                 .b = run_block(r, e, t0, t1 - t0)};
    status st = MOAO_OK;
    x.b.nbudget = 0;
    r->seq.budget.mirror = NULL; /* no terms meanwhile */
    if (is_root(r)) {
        progress_step("gain of the loop, targets %d-%d", t0 + 1, t1);
        st =
            ALLOC(x.b.scalars, (size_t)x.b.nt * store_scalars(x.b.nlambda, x.b.nbox, 0), "results");
    }
    TRY(comm_agree(r->c, st));
    TRY(search_all(r, &x));
    for (int i = 0; i < OF_MOST; i++)
        if (filter_of(r, i)->optimal)
            TRY(keep_gain(r, i, x.gain[i]));
done:
    r->seq.budget.mirror = mirror;
    free(x.b.scalars);
    return st;
}
