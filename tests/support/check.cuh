/* What tests of the GPU share: an end where something does not hold, the same bits, memory that
 * calls keep. */
#ifndef MOAO_TEST_GPU_CHECK_CUH
#define MOAO_TEST_GPU_CHECK_CUH

#include "moao/status.h"
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fflush(stdout); /* what went well before stands above */                               \
            fprintf(stderr, "%s:%d: %s failed: %s; %s\n", __FILE__, __LINE__, #what,               \
                    status_message(), cudaGetErrorString(cudaPeekAtLastError()));                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline bool same_bits(const std::vector<double> &x, const std::vector<double> &y) {
    return x.size() == y.size() && memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0;
}
/* The same bits? Else the first difference is printed. */
static inline bool same(const std::vector<double> &now, const std::vector<double> &before) {
    if (same_bits(now, before))
        return true;
    size_t first = 0;
    while (first < now.size() && first < before.size() &&
           memcmp(&now[first], &before[first], sizeof now[0]) == 0)
        first++;
    if (first < now.size() && first < before.size())
        printf("number %zu of %zu is %.17g, was %.17g\n", first, now.size(), now[first],
               before[first]);
    return false;
}

/* Do the calls leave exactly as much memory free as before? That is the whole GPU's: nothing else
 * may begin or end on it. Under a checking tool (MOAO_TEST_SMALL), which allocates too and runs
 * beside others, the calls are made, and that is all. */
template <class Calls> static bool keep_no_memory(Calls calls) {
    size_t before, after, total;
    CHECK(cudaMemGetInfo(&before, &total) == cudaSuccess);
    calls();
    CHECK(cudaMemGetInfo(&after, &total) == cudaSuccess);
    if (after == before || getenv("MOAO_TEST_SMALL") != NULL)
        return true;
    printf("%zu bytes are free, %zu were before the calls\n", after, before);
    return false;
}

#endif
