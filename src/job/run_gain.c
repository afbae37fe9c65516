/* loop.gain: optimal. The variance of the residual has one minimum: noise grows with the gain, lag
 * falls. Golden sections find it. */
#include "job/run_state.h"

#include "base/progress.h"

#include <math.h>
#include <stdlib.h>

#define SECTIONS 11
#define UNIT 1e6 /* gains are multiples of 1 / UNIT: a resumed run has the same */

static status use_gain(run *r, double gain) {
    status st = loop_change_gain(&r->u.s.loop, gain);
    r->u.s.loop.optimal = false;
    r->u.want.loop = r->u.s.loop; /* borrowed, as all of it */
    return st;
}

status run_restore_gain(run *r) {
    long known = 0;
    if (!r->u.s.loop.optimal)
        return MOAO_OK;
    if (is_root(r))
        known = store_get_fact(r->st, "loop_gain", 0);
    MPI_Bcast(&known, 1, MPI_LONG, 0, r->c->mpi);
    return known > 0 ? comm_agree(r->c, use_gain(r, (double)known / UNIT)) : MOAO_OK;
}

/* Collective. Mean residual variance of targets with a gain. */
static status variance(run *r, double gain, const profile *of, const obsseq_accuracy *as,
                       obsexposure *ex, result_block *b, double *out) {
    loop_filter f = r->u.s.loop;
    profile p = *of;
    obsseq_accuracy how = {.approximate = as->approximate};
    const size_t n = store_scalars(b->nlambda, b->nbox, b->nbudget);
    status st;
    f.h = f.mean = f.one = NULL;
    f.gain = gain;
    f.optimal = false;
    p.loop = &f;
    TRY(comm_agree(r->c, loop_init(&f)));
    TRY(obsseq_expose(&r->seq, &p, ex, &how, NULL, b));
    *out = 0;
    for (int t = 0; is_root(r) && t < b->nt; t++)
        *out += b->scalars[(size_t)t * n + 2] / b->nt;
    MPI_Bcast(out, 1, MPI_DOUBLE, 0, r->c->mpi);
done:
    loop_free(&f);
    return st;
}

/* Collective. The gain with the least variance between two. */
static status search(run *r, double low, double high, const profile *p, const obsseq_accuracy *how,
                     obsexposure *ex, result_block *b, double *gain) {
    const double golden = 0.5 * (sqrt(5) - 1);
    double x[2] = {high - golden * (high - low), low + golden * (high - low)}, v[2];
    status st = MOAO_OK;
    for (int i = 0; i < 2; i++)
        TRY(variance(r, x[i], p, how, ex, b, &v[i]));
    for (int i = 0; i < SECTIONS; i++) {
        const int worse = v[0] > v[1] ? 0 : 1; /* not that one's side */
        *(worse == 0 ? &low : &high) = x[worse];
        x[worse] = x[!worse];
        v[worse] = v[!worse];
        x[!worse] = worse == 0 ? low + golden * (high - low) : high - golden * (high - low);
        TRY(variance(r, x[!worse], p, how, ex, b, &v[!worse]));
    }
    *gain = v[0] < v[1] ? x[0] : x[1];
done:
    return st;
}

status run_find_gain(run *r, int e, int t0, int t1, obsexposure *ex) {
    const double limit = loop_limit(r->u.s.loop.type, r->u.s.loop.frames);
    const double high = r->u.s.loop.type == LOOP_LEAKY ? 1 : 0.9 * limit;
    const obsseq_accuracy how = accuracy_plan(&r->acc, e, t0, t1, false);
    const profile *p = atmos_profile_at(&r->u.a, r->u.a.exposure_time[e]);
    const mirror_budget *mirror = r->seq.budget.mirror;
    result_block b = run_block(r, e, t0, t1 - t0);
    double gain = 0;
    char text[256];
    status st = MOAO_OK;
    b.nbudget = 0;
    r->seq.budget.mirror = NULL; /* no terms meanwhile */
    if (is_root(r)) {
        progress_step("gain of the loop, targets %d-%d", t0 + 1, t1);
        st = ALLOC(b.scalars, (size_t)b.nt * store_scalars(b.nlambda, b.nbox, 0), "results");
    }
    TRY(comm_agree(r->c, st));
    TRY(search(r, 0.01, high, p, &how, ex, &b, &gain));
    gain = fmax(1, round(gain * UNIT)) / UNIT;
    st = use_gain(r, gain);
    if (st == MOAO_OK && is_root(r))
        st = store_set_fact(r->st, "loop_gain", lround(gain * UNIT));
    TRY(comm_agree(r->c, st));
    loop_describe(&r->u.s.loop, text, sizeof text);
    if (is_root(r))
        progress_note("  optimal: %s", text);
done:
    r->seq.budget.mirror = mirror;
    free(b.scalars);
    return st;
}
