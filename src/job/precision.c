#include "job/precision.h"

#include "matcov/matcov.h"
#include "store/store_precision.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Mixes the bits of a number (SplitMix64 by Steele et al. 2014). */
static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Which exposures of reconstructor k are sampled. */
static status choose_samples(const atmos *a, int k, int every, precision *p) {
    const profile *p0 = atmos_profile_at(a, a->tor_time[k]);
    double most = -1;
    int first, end, worst;
    status st = MOAO_OK;
    atmos_exposures_of(a, k, &first, &end);
    worst = first;
    for (int e = first; e < end; e++) {
        double distance;
        TRY(matcov_distance(atmos_profile_at(a, a->exposure_time[e]), p0, &distance));
        p->tor[e] = k;
        p->sample[e] = mix((uint64_t)e) % (uint64_t)every == 0 ? PRECISION_DRAWN : PRECISION_OTHER;
        worst = distance > most ? e : worst;
        most = fmax(most, distance);
    }
    if (first < end)
        p->sample[worst] = PRECISION_WORST;
done:
    return st;
}

status precision_init(const setup *u, precision *p) {
    status st;
    double far = -1;
    memset(p, 0, sizeof *p);
    TRY(ALLOC(p->state, (size_t)u->a.nexposure, "precision of the exposures"));
    TRY(ALLOC(p->difference, (size_t)u->a.nexposure, "precision of the exposures"));
    TRY(ALLOC(p->sample, (size_t)u->a.nexposure, "precision of the exposures"));
    TRY(ALLOC(p->tor, (size_t)u->a.nexposure, "precision of the exposures"));
    TRY(ALLOC(p->level, (size_t)u->a.ntor, "precision of the reconstructors"));
    p->n = u->a.nexposure; /* with its arrays, or none */
    p->ntor = u->a.ntor;
    for (int e = 0; e < p->n; e++)
        p->difference[e] = NAN;
    for (int k = 0; k < p->ntor; k++)
        TRY(choose_samples(&u->a, k, u->par.compute_mixed_samples, p));
    for (int t = 0; t < u->s.ntarget; t++) {
        const double r = hypot(u->s.targets[t][0], u->s.targets[t][1]);
        if (r > far) {
            far = r;
            p->edge = t;
        }
    }
done:
    return st;
}

void precision_free(precision *p) {
    free(p->state);
    free(p->difference);
    free(p->sample);
    free(p->tor);
    free(p->level);
    memset(p, 0, sizeof *p);
}

static void level_key(int tor, char key[32]) {
    snprintf(key, 32, "accuracy_%d", tor);
}

void precision_restore(const comm *c, const store *st, precision *p) {
    for (int e = 0; st != NULL && e < p->n; e++) {
        bool mixed;
        if (store_get_precision(st, e, &mixed, &p->difference[e]))
            p->state[e] = mixed ? PRECISION_MIXED : PRECISION_DOUBLE;
    }
    for (int k = 0; st != NULL && k < p->ntor; k++) {
        char key[32];
        level_key(k, key);
        p->level[k] = (int)store_get_fact(st, key, 0);
    }
    MPI_Bcast(p->state, p->n * (int)sizeof *p->state, MPI_BYTE, 0, c->mpi);
    MPI_Bcast(p->difference, p->n, MPI_DOUBLE, 0, c->mpi);
    MPI_Bcast(p->level, p->ntor, MPI_INT, 0, c->mpi);
}

bool precision_decides(const precision *p, int t0, int t1) {
    return p->wanted && t0 <= p->edge && p->edge < t1;
}

int precision_turn(const precision *p, int e, int t0, int t1) {
    return precision_decides(p, t0, t1) ? (int)p->sample[e] : 0;
}

/* Whether a sample of exposure e's reconstructor was over the tolerance. */
static bool has_failed(const precision *p, int e) {
    for (int i = 0; i < p->n; i++)
        if (p->tor[i] == p->tor[e] && p->sample[i] != PRECISION_OTHER &&
            p->state[i] == PRECISION_DOUBLE)
            return true;
    return false;
}

obsseq_accuracy precision_plan(const precision *p, int e, int t0, int t1, bool fresh) {
    const bool decides = precision_decides(p, t0, t1);
    const bool known = p->state[e] == PRECISION_MIXED;
    const bool open = p->state[e] == PRECISION_UNKNOWN && decides;
    return (obsseq_accuracy){.approximate = p->wanted && (known || open),
                             .sample =
                                 decides && (p->sample[e] != PRECISION_OTHER || has_failed(p, e)),
                             .fresh = fresh,
                             .difference = NAN};
}

static status keep_level(precision *p, int k, int level, store *st) {
    char key[32];
    if (p->level[k] == level)
        return MOAO_OK;
    p->level[k] = level;
    if (st == NULL)
        return MOAO_OK;
    progress_note("  reconstructors W are made more exact from now on, as a sample asks for it");
    level_key(k, key);
    return store_set_fact(st, key, level);
}

status precision_record(precision *p, int e, int t0, int t1, const obsseq_accuracy *how, int level,
                        store *st) {
    if (!p->wanted || !precision_decides(p, t0, t1) ||
        (isnan(how->difference) && !how->approximate))
        return MOAO_OK;
    const status kept = keep_level(p, p->tor[e], level, st);
    if (kept != MOAO_OK)
        return kept;
    p->state[e] = how->approximate ? PRECISION_MIXED : PRECISION_DOUBLE;
    p->difference[e] = how->difference;
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

void precision_report(const precision *p, report *rep) {
    int drawn = 0;
    rep->mixed = p->wanted;
    for (int e = 0; e < p->n; e++) {
        const bool sampled = !isnan(p->difference[e]);
        rep->exposures_sampled += sampled;
        drawn += sampled && p->sample[e] == PRECISION_DRAWN;
        rep->mixed_over += sampled && p->state[e] == PRECISION_DOUBLE;
        rep->exposures_mixed += p->state[e] == PRECISION_MIXED;
        rep->exposures_double += p->state[e] != PRECISION_MIXED;
        if (p->state[e] == PRECISION_MIXED)
            rep->mixed_difference = fmax(rep->mixed_difference, p->difference[e]);
    }
    for (int k = 0; k < p->ntor; k++)
        rep->mixed_level = p->level[k] > rep->mixed_level ? p->level[k] : rep->mixed_level;
    rep->mixed_unseen =
        rep->exposures_sampled < rep->exposures_mixed && drawn > 0 ? unseen(drawn) : NAN;
}
