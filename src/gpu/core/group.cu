/* Groups of GPUs of several processes: NCCL, loaded when a group is wanted, so that the plugin
 * needs none to load. What is declared here of its interface has been the same since its
 * version 2.0. */
#include "common.cuh"
#include "moao/backend_group.h"
#include <dlfcn.h>
#include <stdlib.h>

/* Multiprocessors that a broadcast may occupy: few enough to leave the rest to the
 * arithmetic in progress. On eight GPUs 16 make a factor in 1.31 s, 8 in 1.40 s, 32 in 1.31 s. */
#define BROADCAST_BLOCKS "16"

typedef struct nccl_communicator nccl_communicator;

static struct {
    void *library;
    const char *(*text)(int result);
    int (*identity)(backend_group_id *id);
    int (*init)(nccl_communicator **c, int size, backend_group_id id, int rank);
    int (*bcast)(const void *src, void *dst, size_t count, int type, int root, nccl_communicator *c,
                 cudaStream_t stream);
    int (*destroy)(nccl_communicator *c);
} nccl;

struct backend_link {
    backend_ctx *ctx;
    nccl_communicator *c;
};

#define NCCL_BYTES 0 /* element type */
#define NCCL_TRY(call)                                                                             \
    do {                                                                                           \
        int e_ = (call);                                                                           \
        if (e_ != 0)                                                                               \
            return status_fail(MOAO_INTERNAL, "NCCL: %s (%s)", nccl.text(e_), #call);              \
    } while (0)

/* The function of a name; false where there is none. */
template <class F> static bool find(F *f, const char *name) {
    *f = (F)dlsym(nccl.library, name);
    return *f != NULL;
}

static status available(void) {
    const char *named = getenv("MOAO_NCCL");
    if (nccl.library)
        return MOAO_OK;
    /* multicast over NVLink can put the GPUs of a shared machine out of service */
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    setenv("NCCL_MAX_CTAS", BROADCAST_BLOCKS, 0);
    nccl.library = dlopen(named && *named ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!nccl.library)
        return status_fail(MOAO_INPUT, "NCCL is missing: %s", dlerror());
    if (find(&nccl.text, "ncclGetErrorString") && find(&nccl.identity, "ncclGetUniqueId") &&
        find(&nccl.init, "ncclCommInitRank") && find(&nccl.bcast, "ncclBroadcast") &&
        find(&nccl.destroy, "ncclCommDestroy"))
        return MOAO_OK;
    dlclose(nccl.library);
    nccl.library = NULL;
    return status_fail(MOAO_INPUT, "NCCL lacks a function: it is too old");
}

static status identity(backend_group_id *id) {
    GPU_TRY(available());
    NCCL_TRY(nccl.identity(id));
    return MOAO_OK;
}

static status open_link(backend_ctx *ctx, const backend_group_id *id, int rank, int size,
                        backend_link **link) {
    gpu_device_guard guard(ctx->device);
    nccl_communicator *c = NULL;
    *link = NULL;
    GPU_TRY(available());
    NCCL_TRY(nccl.init(&c, size, *id, rank));
    *link = (backend_link *)calloc(1, sizeof **link);
    if (!*link) {
        nccl.destroy(c);
        return status_fail(MOAO_MEMORY, "cannot allocate a link");
    }
    (*link)->ctx = ctx;
    (*link)->c = c;
    return MOAO_OK;
}

static void close_link(backend_link *link) {
    if (!link)
        return;
    gpu_device_guard guard(link->ctx->device);
    nccl.destroy(link->c);
    free(link);
}

static status bcast(backend_link *link, void *p, size_t bytes, int root) {
    gpu_device_guard guard(link->ctx->device);
    NCCL_TRY(nccl.bcast(p, p, bytes, NCCL_BYTES, root, link->c, link->ctx->main.stream));
    return MOAO_OK;
}

extern const backend_group backend_group_gpu;
const backend_group backend_group_gpu = {
    .size = sizeof(backend_group),
    .available = available,
    .identity = identity,
    .open = open_link,
    .close = close_link,
    .bcast = bcast,
};
