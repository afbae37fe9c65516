/* Broadcasts among devices of several processes, in stream order. The processes of a group have a
 * device each, no two the same one; they find one another by an identity that one of them makes and
 * hands to the others (by MPI). */
#ifndef MOAO_BACKEND_GROUP_H
#define MOAO_BACKEND_GROUP_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    char bytes[128];
} moao_backend_group_id;

typedef struct moao_backend_link moao_backend_link; /* a process's membership */

typedef struct moao_backend_group {
    size_t size; /* sizeof(moao_backend_group) */
    /* Local. MOAO_INPUT with the reason where the library for it is missing. */
    moao_status (*available)(void);
    /* Local, on one process of a group that is to be. */
    moao_status (*identity)(moao_backend_group_id *id);
    /* Collective in the group: member `rank` of `size`. Waits for the others. */
    moao_status (*open)(moao_backend_ctx *ctx, const moao_backend_group_id *id, int rank, int size,
                        moao_backend_link **link);
    /* Local; after the stream is empty. close(NULL) is fine. */
    void (*close)(moao_backend_link *link);
    /* Collective in the group, every member in the same order: `bytes` at p on member `root` come
     * to p on the others, in order of the stream of the context that the link was opened with. */
    moao_status (*bcast)(moao_backend_link *link, void *p, size_t bytes, int root);
} moao_backend_group;

#ifdef __cplusplus
}
#endif
#endif
