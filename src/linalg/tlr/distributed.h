/* A factor that is spread over members (distributed.c). Without (a->spread NULL) all of these do
 * nothing, and end as they are told. */
#ifndef MOAO_TLR_SPREAD_H
#define MOAO_TLR_SPREAD_H

#include "internal.h"

/* Bytes of the first block columns that other members have. */
double tlr_distributed_elsewhere(const tlr *l, int64_t panels);
status tlr_distributed_open(tlr *l, const tlr_procs *m);
void tlr_distributed_close(tlr *l);
/* Collective with options.terms. A finished block column: what is this member's of it is kept, u
 * and v are gone. */
status tlr_distributed_store(tlr_work *w, tlr *l, int64_t q);
/* Collective, in the factor's stream: the rows of block column p in block columns q0 .. q1 come to
 * all members, for the updates that follow. */
status tlr_distributed_gather(tlr_work *w, const tlr *l, int64_t q0, int64_t q1, int64_t p);
/* tlr_store_typed of it: rows that are this member's, were gathered, or are there in a round. */
status tlr_distributed_rows(tlr_work *w, const tlr *l, backend_type t, int64_t q, int64_t i0,
                            int64_t i1);
/* Collective. A round over block columns 0 .. panels, in type t: `passes` of them (of the members
 * the most), each in the directions `forms` one after another: 'T' upwards, 'N' downwards. next:
 * the block column whose turn it is, q, is there wholly until the next one. end: also for members
 * that failed or had less to do; the worst status of all. */
status tlr_distributed_begin(tlr_work *w, const tlr *l, backend_type t, int64_t passes,
                             const char *forms, int64_t panels);
status tlr_distributed_next(tlr_work *w, const tlr *l, int64_t q);
status tlr_distributed_end(tlr_work *w, const tlr *l, status local);

#endif
