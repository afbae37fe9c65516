/* A factor in transit, in the files of their names; and the block column of it that is current. */
#ifndef MOAO_TLR_FACTORING_H
#define MOAO_TLR_FACTORING_H

#include "distributed.h"
#include "out_of_core.h"

typedef struct {
    tlr_work w;
    /* left-looking on a device, or with terms: updates of the next block column, in a stream of
     * their own, concurrently with what finishes the current one */
    tlr_work ahead;
    backend_ctx *side; /* NULL: not a device */
    const tlr_source *from;
    const tlr_rescue *rescue;
    tlr_report *report;
    bool right, last; /* last: no smaller tolerance will be tried */
    tlr *l;
    int64_t finished; /* block columns of it */
    tlr_ooc *passes;  /* left-looking with block columns in the host's memory, NULL: not so */
    int share;        /* block columns that they take at a time, at most */
    bool passed;      /* there were any */
    tlr *trailing;    /* right-looking, compressed */
    double **held;    /* right-looking, dense: block columns not yet factored */
    void *answer;     /* in the backend's memory: largest entry (double), info (int) */
} tlr_factoring;

/* Block column p of the Schur complement, dense from its diagonal block on. */
typedef struct {
    int64_t p;
    double *d;
    int64_t ldd;
} tlr_step;

/* --- schur.c: the Schur complement, block column by block column --- */

/* What an attempt begins and ends with. */
status tlr_schur_open(tlr_factoring *s);
void tlr_schur_close(tlr_factoring *s);
/* Block column p, complete. */
status tlr_schur_complete(tlr_factoring *s, int64_t p, tlr_step *x);
/* Whether the next one is updated ahead; then: its entries, and what its updates by those before
 * the current one need; they run concurrently with what follows in the stream of s->w. */
bool tlr_schur_ahead(const tlr_factoring *s);
status tlr_schur_begin_ahead(tlr_factoring *s, int64_t p, tlr_step *x);
/* These updates; p - 1 is to be finished meanwhile. */
status tlr_schur_look_ahead(tlr_factoring *s, const tlr_step *x);
/* Right-looking: what follows block column p, less its product. */
status tlr_schur_update_trailing(tlr_factoring *s, int64_t p);

/* --- diagonal.c: the block on the diagonal --- */

/* It begins to be factored; what it was is kept. */
status tlr_diagonal_begin(tlr_factoring *s, const tlr_step *x);
/* What came of it, with what may be added to the diagonal, if that helps. report->minor: it did
 * not. Waits. */
status tlr_diagonal_end(tlr_factoring *s, const tlr_step *x);

#endif
