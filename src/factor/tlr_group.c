#include "factor/tlr_group.h"
#include "factor/tlr_cmm.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE ((size_t)64 << 20) /* bytes of entries that travel at a time */

status tlr_group_agree(tlr_group *g, status local) {
    status st = local;
    if (g->failed)
        return st != MOAO_OK ? st : MOAO_INTERNAL;
    if (st == MOAO_OK)
        st = comm_fault(g->e->c, "tlr-member");
    TIMED_WAIT(g->e->rep, STAGE_FACTOR, st = group_agree(&g->group, st));
    g->failed = st != MOAO_OK;
    return st;
}

static status merge(void *arg, status local, int64_t *v, int64_t n) {
    tlr_group *g = arg;
    const status st = tlr_group_agree(g, local);
    if (st == MOAO_OK && n > 0)
        TIMED_WAIT(g->e->rep, STAGE_FACTOR, group_largest(&g->group, v, n));
    return st;
}

/* The others may wait for a message of this rank: where it cannot send one, it ends the run. */
static status bcast(void *arg, void *p, size_t bytes, int root) {
    tlr_group *g = arg;
    status st = comm_fault(g->e->c, "tlr-message");
    if (st == MOAO_OK)
        TIMED_WAIT(g->e->rep, STAGE_FACTOR, st = group_send(&g->group, p, bytes, root));
    if (st != MOAO_OK)
        comm_abort(g->e->c);
    return st;
}

int tlr_group_factors(bool host, bool apart, int ranks, int nodes) {
    return host ? 1 : apart ? nodes : ranks;
}

status tlr_group_open(engine *e, bool apart, bool say, tlr_group *g) {
    const size_t all = (size_t)(e->m * tlr_cmm_widest(e->s)) * sizeof(double),
                 column = (size_t)tlr_cmm_widest(e->s) * sizeof(double);
    const size_t room = all < MESSAGE ? all : column > MESSAGE ? column : MESSAGE;
    *g = (tlr_group){.e = e, .group.size = 1};
    const status st = group_open(e->c, e->be, e->ctx, apart, true, room, &g->group);
    if (st == MOAO_OK && say && e->c->rank == 0)
        group_tell(&g->group);
    g->members = (tlr_procs){g->group.rank, g->group.size, g, merge, bcast};
    return st;
}

void tlr_group_alone(engine *e, tlr_group *g) {
    *g = (tlr_group){.e = e, .group.size = 1};
}

void tlr_group_close(tlr_group *g) {
    group_close(&g->group);
}

status tlr_group_round(tlr_group *g, status local, bool more, bool *any) {
    int64_t v = more;
    status st = local;
    if (g->group.size > 1)
        st = merge(g, local, &v, 1);
    *any = st == MOAO_OK && v > 0;
    return st;
}

status tlr_group_begin(tlr_group *g, status local) {
    g->failed = false;
    return tlr_group_agree(g, local);
}

const tlr_procs *tlr_group_procs(const tlr_group *g) {
    return g->group.size > 1 ? &g->members : NULL;
}

/* Parts of about a thousand rows on a CPU, in numbers that many divide; never by the number of
 * ranks, for the bits depend on the parts. On devices 4, which cost one of them 0.2 % (4.12 s for
 * 4.11 s) and let two take 2.49 s (bench/results/tlr-devices-h100.txt). */
int tlr_group_parts(const tlr_group *g, bool distributed, int64_t m) {
    if (g->e->be->group != NULL)
        return distributed ? 16 : 4;
    return m < 12000 ? 6 : m < 48000 ? 12 : 24;
}
