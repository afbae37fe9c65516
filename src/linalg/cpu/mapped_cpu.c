/* Pages of a file without a name, in the system's memory, at addresses that are set aside. */
#include "cpu_own.h"
#include "moao/backend_mapped.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct moao_mapped_memory {
    char *at;
    size_t room, page;
    int file;
    int64_t *place; /* for each page of addresses the page of the file, -1: none */
};

static void cpu_mapped_close(mapped_memory *x) {
    if (x == NULL)
        return;
    if (x->at != NULL)
        munmap(x->at, x->room);
    if (x->file >= 0)
        close(x->file);
    free(x->place);
    free(x);
}

static status cpu_mapped_open(backend_ctx *ctx, size_t bytes, size_t room, size_t pages,
                              size_t *page, size_t *got, void **at, mapped_memory **out) {
    const size_t unit = (size_t)sysconf(_SC_PAGESIZE);
    mapped_memory *x = NULL;
    status st;
    (void)ctx;
    *out = NULL;
    *page = (bytes / (pages > 0 ? pages : 1) + unit - 1) / unit * unit;
    *page = *page > 0 ? *page : unit;
    *got = bytes / *page * *page;
    TRY(ALLOC(x, 1, "mapped memory"));
    *x = (mapped_memory){.room = room / *page * *page, .page = *page, .file = -1};
    TRY(ALLOC(x->place, x->room / *page + 1, "mapped memory"));
    x->file = memfd_create("moao", MFD_CLOEXEC);
    x->at = mmap(NULL, x->room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x->at == MAP_FAILED)
        x->at = NULL;
    if (x->file < 0 || x->at == NULL || *got == 0 || *got > x->room ||
        ftruncate(x->file, (off_t)*got) != 0 ||
        mmap(x->at, *got, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, x->file, 0) == MAP_FAILED)
        TRY(status_fail(MOAO_MEMORY, "cannot map %zu bytes", bytes));
    for (size_t k = 0; k < x->room / *page; k++)
        x->place[k] = k < *got / *page ? (int64_t)k : -1;
    *at = x->at;
    *out = x;
    x = NULL;
done:
    cpu_mapped_close(x);
    return st;
}

static status cpu_mapped_move(mapped_memory *x, size_t count, const size_t *from, size_t to) {
    for (size_t k = 0; k < count; k++) {
        char *const old = x->at + from[k], *const now = x->at + to + k * x->page;
        int64_t *const place = x->place + from[k] / x->page;
        if (mmap(now, x->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, x->file,
                 (off_t)*place * (off_t)x->page) == MAP_FAILED ||
            mmap(old, x->page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                 -1, 0) == MAP_FAILED)
            return status_fail(MOAO_MEMORY, "cannot map %zu bytes elsewhere", x->page);
        x->place[to / x->page + k] = *place;
        *place = -1;
    }
    return MOAO_OK;
}

const backend_mapped mapped_cpu = {.size = sizeof(backend_mapped),
                                   .open = cpu_mapped_open,
                                   .move = cpu_mapped_move,
                                   .close = cpu_mapped_close};
