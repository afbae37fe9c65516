#include "job/precision.h"

#include "store/store_precision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

status precision_init(const setup *u, precision *p) {
    status st;
    double far = -1;
    memset(p, 0, sizeof *p);
    TRY(ALLOC(p->state, (size_t)u->a.nexposure, "precision of the exposures"));
    TRY(ALLOC(p->difference, (size_t)u->a.nexposure, "precision of the exposures"));
    p->n = u->a.nexposure; /* with its arrays, or none */
    for (int e = 0; e < p->n; e++)
        p->difference[e] = NAN;
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
    memset(p, 0, sizeof *p);
}

void precision_restore(const comm *c, const store *st, precision *p) {
    for (int e = 0; st != NULL && e < p->n; e++) {
        bool mixed;
        if (store_get_precision(st, e, &mixed, &p->difference[e]))
            p->state[e] = mixed ? PRECISION_MIXED : PRECISION_DOUBLE;
    }
    MPI_Bcast(p->state, p->n * (int)sizeof *p->state, MPI_BYTE, 0, c->mpi);
    MPI_Bcast(p->difference, p->n, MPI_DOUBLE, 0, c->mpi);
}

bool precision_decides(const precision *p, int t0, int t1) {
    return p->wanted && t0 <= p->edge && p->edge < t1;
}

obsseq_accuracy precision_plan(const precision *p, int e, int t0, int t1) {
    const bool known = p->state[e] == PRECISION_MIXED;
    const bool open = p->state[e] == PRECISION_UNKNOWN && precision_decides(p, t0, t1);
    return (obsseq_accuracy){.approximate = p->wanted && (known || open), .difference = NAN};
}

status precision_record(precision *p, int e, const obsseq_accuracy *how, store *st) {
    if (isnan(how->difference))
        return MOAO_OK;
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

void precision_report(const precision *p, report *rep) {
    rep->mixed = p->wanted;
    for (int e = 0; e < p->n; e++) {
        rep->exposures_mixed += p->state[e] == PRECISION_MIXED;
        rep->exposures_double += p->state[e] != PRECISION_MIXED;
        if (p->state[e] == PRECISION_MIXED)
            rep->mixed_difference = fmax(rep->mixed_difference, p->difference[e]);
    }
}
