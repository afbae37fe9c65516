/* Memory in pages of the device, by the driver's virtual memory management: physical pages are made
 * once, and mapped to other addresses later. */
#include "common.cuh"
#include "moao/backend_mapped.h"
#include <cudaTypedefs.h>
#include <vector>

namespace {
struct driver {
    PFN_cuMemGetAllocationGranularity_v10020 granularity;
    PFN_cuMemAddressReserve_v10020 reserve;
    PFN_cuMemAddressFree_v10020 unreserve;
    PFN_cuMemCreate_v10020 create;
    PFN_cuMemRelease_v10020 release;
    PFN_cuMemMap_v10020 map;
    PFN_cuMemUnmap_v10020 unmap;
    PFN_cuMemSetAccess_v10020 access;
    bool whole;
};

void *entry(const char *name) {
    void *p = NULL;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    const cudaError_t e =
        cudaGetDriverEntryPointByVersion(name, &p, 10020, cudaEnableDefault, &result);
#else
    const cudaError_t e = cudaGetDriverEntryPoint(name, &p, cudaEnableDefault, &result);
#endif
    if (e != cudaSuccess)
        cudaGetLastError();
    return e == cudaSuccess && result == cudaDriverEntryPointSuccess ? p : NULL;
}

const driver &calls() {
    static const driver found = [] {
        driver d = {};
        d.granularity =
            (PFN_cuMemGetAllocationGranularity_v10020)entry("cuMemGetAllocationGranularity");
        d.reserve = (PFN_cuMemAddressReserve_v10020)entry("cuMemAddressReserve");
        d.unreserve = (PFN_cuMemAddressFree_v10020)entry("cuMemAddressFree");
        d.create = (PFN_cuMemCreate_v10020)entry("cuMemCreate");
        d.release = (PFN_cuMemRelease_v10020)entry("cuMemRelease");
        d.map = (PFN_cuMemMap_v10020)entry("cuMemMap");
        d.unmap = (PFN_cuMemUnmap_v10020)entry("cuMemUnmap");
        d.access = (PFN_cuMemSetAccess_v10020)entry("cuMemSetAccess");
        d.whole = d.granularity && d.reserve && d.unreserve && d.create && d.release && d.map &&
                  d.unmap && d.access;
        return d;
    }();
    return found;
}
} // namespace

struct moao_mapped_memory {
    int device;
    CUdeviceptr at;
    size_t room, page;
    CUmemAccessDesc access;
    std::vector<CUmemGenericAllocationHandle> place; /* by page of addresses, 0: nothing is there */
};

static void mapped_close(mapped_memory *x) {
    if (!x)
        return;
    gpu_device_guard guard(x->device);
    for (size_t k = 0; k < x->place.size(); k++)
        if (x->place[k]) {
            calls().unmap(x->at + k * x->page, x->page);
            calls().release(x->place[k]);
        }
    if (x->at)
        calls().unreserve(x->at, x->room);
    delete x;
}

/* The pages that are mapped at `to` may be read and written. */
static bool open_access(const mapped_memory *x, size_t to, size_t bytes) {
    return calls().access(x->at + to, bytes, &x->access, 1) == CUDA_SUCCESS;
}

static status fill(mapped_memory *x, const CUmemAllocationProp *kind, size_t bytes) {
    for (size_t k = 0; k < bytes / x->page; k++) {
        CUmemGenericAllocationHandle h = 0;
        if (calls().create(&h, x->page, kind, 0) != CUDA_SUCCESS)
            return status_fail(MOAO_MEMORY, "GPU %d has no room for %zu bytes", x->device, bytes);
        if (calls().map(x->at + k * x->page, x->page, 0, h, 0) != CUDA_SUCCESS) {
            calls().release(h);
            return status_fail(MOAO_MEMORY, "GPU %d cannot map %zu bytes", x->device, bytes);
        }
        x->place[k] = h;
    }
    return open_access(x, 0, bytes)
               ? MOAO_OK
               : status_fail(MOAO_MEMORY, "GPU %d cannot map %zu bytes", x->device, bytes);
}

static status mapped_move(mapped_memory *x, size_t count, const size_t *from, size_t to) {
    gpu_device_guard guard(x->device);
    for (size_t k = 0; k < count; k++) {
        CUmemGenericAllocationHandle *const old = &x->place[from[k] / x->page];
        if (calls().unmap(x->at + from[k], x->page) != CUDA_SUCCESS)
            return status_fail(MOAO_MEMORY, "GPU %d cannot unmap %zu bytes", x->device, x->page);
        const CUmemGenericAllocationHandle h = *old;
        *old = 0;
        if (calls().map(x->at + to + k * x->page, x->page, 0, h, 0) != CUDA_SUCCESS) {
            calls().release(h);
            return status_fail(MOAO_MEMORY, "GPU %d cannot map %zu bytes", x->device, x->page);
        }
        x->place[to / x->page + k] = h;
    }
    return open_access(x, to, count * x->page)
               ? MOAO_OK
               : status_fail(MOAO_MEMORY, "GPU %d cannot map %zu bytes", x->device, x->page);
}

/* Whether copies cross the ends of pages and pages keep what they hold, here and on this driver:
 * where they do not, memory stays in one piece. */
static bool works(mapped_memory *x, size_t bytes) {
    const size_t first = 0, away = bytes;
    const int64_t sent[2] = {0x6d6f616f31, 0x6d6f616f32};
    int64_t got[2] = {0, 0}, moved = 0;
    char *const at = (char *)x->at, *const end = at + x->page - sizeof sent[0];
    if (bytes < 2 * x->page || x->room < bytes + x->page)
        return false;
    const bool fine =
        cudaMemcpy2D(end, sizeof sent, sent, sizeof sent, sizeof sent, 1, cudaMemcpyDefault) ==
            cudaSuccess &&
        cudaMemcpy2D(got, sizeof got, end, sizeof got, sizeof got, 1, cudaMemcpyDefault) ==
            cudaSuccess &&
        got[0] == sent[0] && got[1] == sent[1] && mapped_move(x, 1, &first, away) == MOAO_OK &&
        cudaMemcpy(&moved, end + away, sizeof moved, cudaMemcpyDefault) == cudaSuccess &&
        moved == sent[0] && mapped_move(x, 1, &away, 0) == MOAO_OK;
    cudaGetLastError();
    return fine;
}

static status mapped_open(backend_ctx *c, size_t bytes, size_t room, size_t pages, size_t *page,
                          size_t *got, void **at, mapped_memory **out) {
    gpu_device_guard guard(c->device);
    const driver &d = calls();
    CUmemAllocationProp kind = {};
    size_t unit = 0;
    *out = NULL;
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    kind.location.id = c->device;
    cudaFree(NULL); /* the driver's context of the device */
    if (!d.whole ||
        d.granularity(&unit, &kind, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) != CUDA_SUCCESS ||
        unit == 0)
        return status_fail(MOAO_INPUT, "GPU %d cannot map memory by pages", c->device);
    *page = (bytes / (pages > 0 ? pages : 1) + unit - 1) / unit * unit;
    *page = *page > 0 ? *page : unit;
    *got = bytes / *page * *page;
    mapped_memory *x = new mapped_memory();
    x->device = c->device;
    x->page = *page;
    x->room = room / *page * *page;
    x->access.location = kind.location;
    x->access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    x->place.resize(x->room / *page);
    status st = MOAO_OK;
    if (*got == 0 || *got > x->room || d.reserve(&x->at, x->room, 0, 0, 0) != CUDA_SUCCESS) {
        x->at = 0;
        st = status_fail(MOAO_MEMORY, "GPU %d cannot map %zu bytes", c->device, bytes);
    }
    if (st == MOAO_OK)
        st = fill(x, &kind, *got);
    if (st == MOAO_OK && !works(x, *got))
        st = status_fail(MOAO_INPUT, "GPU %d cannot move pages of memory", c->device);
    if (st != MOAO_OK) {
        mapped_close(x);
        return st;
    }
    *at = (void *)x->at;
    *out = x;
    return MOAO_OK;
}

extern const backend_mapped backend_mapped_gpu;
const backend_mapped backend_mapped_gpu = {.size = sizeof(backend_mapped),
                                           .open = mapped_open,
                                           .move = mapped_move,
                                           .close = mapped_close};
