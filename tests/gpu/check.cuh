/* End a test of the GPU where something does not hold. */
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

#endif
