#include "engine/group.h"
#include "base/progress.h"

#include <stdio.h>
#include <string.h>

status group_send(device_group *g, void *p, size_t bytes, int root) {
    const size_t most = (size_t)1 << 30; /* MPI counts with int */
    if (g->size == 1)
        return MOAO_OK;
    if (g->link != NULL)
        return g->be->group->bcast(g->link, p, bytes, root);
    status st = g->be->sync(g->ctx);
    for (size_t at = 0, n; at < bytes && st == MOAO_OK; at += n) {
        n = bytes - at < most ? bytes - at : most;
        MPI_Bcast((char *)p + at, (int)n, MPI_BYTE, root, g->ranks);
    }
    return st;
}

/* Collective on the node. The first reason that a rank of it gives, on all of them; status_clear.
 */
static bool all_can(device_group *g, status st) {
    int first = st == MOAO_OK ? g->c->node_size : g->c->node_rank, least;
    MPI_Allreduce(&first, &least, 1, MPI_INT, MPI_MIN, g->c->node);
    if (least == g->c->node_size)
        return true;
    snprintf(g->why, sizeof g->why, "%s", status_message());
    MPI_Bcast(g->why, sizeof g->why, MPI_CHAR, least, g->c->node);
    status_clear();
    return false;
}

/* Collective on the node. The link among its devices; without it, link stays NULL. */
static void join(device_group *g) {
    const comm *c = g->c;
    const backend_group *way = g->be->group;
    backend_group_id id = {{0}};
    status st = way->available();
    if (!all_can(g, st))
        return;
    if (c->node_rank == 0)
        st = way->identity(&id);
    if (!all_can(g, st))
        return;
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, c->node);
    st = way->open(g->ctx, &id, c->node_rank, c->node_size, &g->link);
    if (st == MOAO_OK) /* the first message takes the memory that all need */
        st = way->bcast(g->link, g->stage, g->room, 0);
    if (st == MOAO_OK)
        st = g->be->sync(g->ctx);
    if (all_can(g, st))
        return;
    way->close(g->link);
    g->link = NULL;
}

status group_open(const comm *c, const backend *be, backend_ctx *ctx, bool apart, bool all_nodes,
                  size_t room, device_group *g) {
    const bool all = all_nodes && be->group == NULL;
    *g = (device_group){.size = 1,
                        .c = c,
                        .ranks = all ? c->mpi : c->node,
                        .all_nodes = all,
                        .be = be,
                        .ctx = ctx,
                        .room = room};
    const bool several = (all ? c->size : c->node_size) > 1;
    const bool shared = several && be->group != NULL && !apart;
    status st = MOAO_OK;
    if (shared)
        snprintf(g->why, sizeof g->why, "ranks share a device");
    else if (several)
        st = be->alloc(ctx, room, (void **)&g->stage);
    /* with ranks that are alone on their node, too: nodes may have different numbers of them */
    if ((st = comm_agree(c, st)) != MOAO_OK || shared || !several)
        return st;
    if (be->group != NULL)
        join(g);
    if (be->group == NULL || g->link != NULL) {
        g->rank = all ? c->rank : c->node_rank;
        g->size = all ? c->size : c->node_size;
    }
    return MOAO_OK;
}

void group_close(device_group *g) {
    if (g->be == NULL)
        return;
    if (g->link != NULL)
        g->be->group->close(g->link);
    g->be->release(g->ctx, g->stage);
    *g = (device_group){.size = 1};
}

void group_tell(const device_group *g) {
    if (g->size > 1)
        progress_note(g->all_nodes ? "the %d ranks make each factor together"
                                   : "the %d devices of a node make each factor together",
                      g->size);
    else if (g->why[0] != '\0')
        progress_note("each rank makes the factors for itself: %s", g->why);
}

status group_agree(const device_group *g, status local) {
    int code = (int)local;
    if (g->size > 1)
        MPI_Allreduce(MPI_IN_PLACE, &code, 1, MPI_INT, MPI_MAX, g->ranks);
    return (status)code;
}

void group_largest(const device_group *g, int64_t *v, int64_t n) {
    const int64_t most = (int64_t)1 << 30;
    for (int64_t at = 0; g->size > 1 && at < n; at += most)
        MPI_Allreduce(MPI_IN_PLACE, v + at, (int)(n - at < most ? n - at : most), MPI_INT64_T,
                      MPI_MAX, g->ranks);
}

status group_bcast(device_group *g, int64_t rows, int64_t cols, double *a, int64_t lda, int root) {
    const int64_t e = sizeof(double), most = (int64_t)g->room / (rows * e);
    status st = MOAO_OK;
    if (g->size == 1)
        return MOAO_OK;
    for (int64_t j = 0, n; j < cols && st == MOAO_OK; j += n) {
        n = cols - j < most ? cols - j : most;
        double *part = a + j * lda;
        if (g->rank == root)
            TRY(g->be->copy(g->ctx, g->stage, rows * e, part, lda * e, rows * e, n));
        TRY(group_send(g, g->stage, (size_t)(rows * n * e), root));
        if (g->rank != root)
            TRY(g->be->copy(g->ctx, part, lda * e, g->stage, rows * e, rows * e, n));
    }
done:
    return st;
}
