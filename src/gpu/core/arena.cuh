/* Parts of one piece of device memory, and of its mirror on the host. */
#ifndef MOAO_GPU_ARENA_CUH
#define MOAO_GPU_ARENA_CUH

#include <stddef.h>

/* NULL bases only count. */
struct gpu_arena {
    char *device, *host;
    size_t used;
};

/* n elements, 256-byte aligned; host, if wanted: their place in the mirror. */
template <class T> static T *gpu_take(gpu_arena *r, size_t n, T **host) {
    const size_t at = r->used;
    r->used += (n * sizeof(T) + 255) / 256 * 256;
    if (host)
        *host = r->host ? (T *)(r->host + at) : NULL;
    return r->device ? (T *)(r->device + at) : NULL;
}

#endif
