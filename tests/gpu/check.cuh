/* End a test of the GPU where something does not hold; memory that calls keep. */
#ifndef MOAO_TEST_GPU_CHECK_CUH
#define MOAO_TEST_GPU_CHECK_CUH

#include "status.h"
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fflush(stdout); /* what went well before stands above */                               \
            fprintf(stderr, "%s:%d: %s failed: %s; %s\n", __FILE__, __LINE__, #what,               \
                    status_message(), cudaGetErrorString(cudaPeekAtLastError()));                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Do the calls leave as much memory free as before? That is the whole GPU's, where another process
 * may begin or end, so that they are made up to three times: what keeps memory does so each time.
 * A checking tool allocates too: under one the calls are made, and that is all. */
template <class Calls> static bool keep_no_memory(Calls calls) {
    size_t before, after, total;
    for (int r = 0; r < 3; r++) {
        CHECK(cudaMemGetInfo(&before, &total) == cudaSuccess);
        calls();
        CHECK(cudaMemGetInfo(&after, &total) == cudaSuccess);
        if (after == before || getenv("MOAO_TEST_SMALL") != NULL)
            return true;
        printf("%zu bytes are free, %zu were before the calls\n", after, before);
    }
    return false;
}

#endif
