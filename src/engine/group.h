/* The ranks whose devices work together: broadcasts from device to device. */
#ifndef MOAO_ENGINE_GROUP_H
#define MOAO_ENGINE_GROUP_H

#include "base/comm.h"
#include "moao/backend_group.h"

typedef struct {
    int rank, size; /* of this rank in its group; size 1: it works alone */
    char why[256];  /* why the ranks of a node do not work together; "" where there is nothing to
                       say */
    /* private */
    const comm *c;
    MPI_Comm ranks; /* those of the node or, all_nodes, of the run */
    bool all_nodes;
    const backend *be;
    backend_ctx *ctx;
    backend_link *link;
    char *stage; /* on the device: a message, contiguous */
    size_t room;
} device_group;

/* Collective. All ranks of a node make a group if they have a device each (apart: no device of any
 * node serves two ranks) or the devices' memory is the host's, then all ranks of the run if
 * all_nodes is wanted; else, or where the library for it is missing or fails, every rank is alone,
 * and why tells the reason. room: bytes of a message. Errors are those of memory. */
status group_open(const comm *c, const backend *be, backend_ctx *ctx, bool apart, bool all_nodes,
                  size_t room, device_group *g);
void group_close(device_group *g);
/* Local. A line of progress: who makes a factor together, or why nobody does. */
void group_tell(const device_group *g);

/* Collective in the group. The worst status of its members; the one that failed keeps its message.
 */
status group_agree(const device_group *g, status local);
/* Collective in the group. v[k], on the host, becomes the largest v[k] of its members, k < n. */
void group_largest(const device_group *g, int64_t *v, int64_t n);

/* Collective in the group. rows x cols doubles at a (leading dimension lda) of member `root` come
 * to a of the others, in stream order, in messages of as many columns as fit in the room (one at
 * least: room >= 8 rows). Alone: nothing. */
status group_bcast(device_group *g, int64_t rows, int64_t cols, double *a, int64_t lda, int root);
/* The same of contiguous bytes, as they are. */
status group_send(device_group *g, void *p, size_t bytes, int root);

#endif
