/* Groups of devices: every GPU of this machine is a member, fed by a thread of its own as by a
 * process; what one sends comes to all, in the order of the stream. With one GPU a group of one.
 * Where NCCL is missing that is said and nothing is tested. Run on a GPU: make check-gpu. */
#include "moao/backend_group.h"
#include "support/check.cuh"
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <thread>
#include <vector>

static const backend *be;

/* A value of element k that member `from` sends the n-th time. */
static int value(int from, int n, size_t k) {
    return (int)((size_t)(from + 1) * 1000003u + (size_t)n * 7919u + k * 31u);
}

/* Every member sends twice in turn, from the same place; the stream's order keeps apart what would
 * be mixed up otherwise. */
static void member(backend_ctx *ctx, const backend_group_id *id, int rank, int size, size_t count) {
    backend_link *link;
    const int64_t bytes = (int64_t)(count * sizeof(int));
    const int messages = 2 * size;
    std::vector<int> mine(count), got(count * (size_t)messages, -1);
    int *p;
    CHECK(be->group->open(ctx, id, rank, size, &link) == MOAO_OK);
    CHECK(be->alloc(ctx, (size_t)bytes, (void **)&p) == MOAO_OK);
    for (int n = 0; n < messages; n++) {
        if (n % size == rank) {
            for (size_t k = 0; k < count; k++)
                mine[k] = value(rank, n, k);
            CHECK(be->copy(ctx, p, bytes, mine.data(), bytes, bytes, 1) == MOAO_OK);
            CHECK(be->sync(ctx) == MOAO_OK); /* mine is filled anew */
        }
        CHECK(be->group->bcast(link, p, (size_t)bytes, n % size) == MOAO_OK);
        CHECK(be->copy(ctx, got.data() + count * (size_t)n, bytes, p, bytes, bytes, 1) == MOAO_OK);
    }
    CHECK(be->sync(ctx) == MOAO_OK);
    for (int n = 0; n < messages; n++)
        for (size_t k = 0; k < count; k++)
            CHECK(got[count * (size_t)n + k] == value(n % size, n, k));
    be->release(ctx, p);
    be->group->close(link);
}

int main() {
    backend_group_id id;
    std::vector<backend_ctx *> ctx;
    std::vector<std::string> names;
    if (backend_get("gpu", &be) != MOAO_OK) {
        printf("no GPU is used: %s\n", status_message());
        return 77;
    }
    const int size = be->devices();
    for (int g = 0; g < size; g++) {
        char name[BACKEND_IDENTITY], again[BACKEND_IDENTITY];
        CHECK(be->identify(g, name) == MOAO_OK && be->identify(g, again) == MOAO_OK);
        CHECK(strlen(name) == 32 && strcmp(name, again) == 0);
        for (const std::string &other : names)
            CHECK(other != name);
        names.push_back(name);
        ctx.push_back(NULL);
        CHECK(be->open(g, NULL, &ctx[(size_t)g]) == MOAO_OK);
    }
    be->group->close(NULL);
    if (getenv("MOAO_TEST_SMALL")) {
        printf(
            "groups are not tested: the kernels are the vendor's, a checking tool has no part in "
            "them\n");
        return 0;
    }
    if (be->group->available() != MOAO_OK) {
        printf("groups are not tested: %s\n", status_message());
        return 0;
    }
    for (size_t count : {(size_t)1, (size_t)1 << 20}) {
        std::vector<std::thread> threads;
        CHECK(be->group->identity(&id) == MOAO_OK);
        for (int g = 0; g < size; g++)
            threads.emplace_back(member, ctx[(size_t)g], &id, g, size, count);
        for (std::thread &one : threads)
            one.join();
        printf("broadcasts of %zu numbers among %d GPUs\n", count, size);
    }
    for (backend_ctx *c : ctx)
        be->close(c);
    return 0;
}
