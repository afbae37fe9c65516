/* CHECK(call): ends the program where a call of CUDA, a library of it or the backend does not
 * return 0. */
#ifndef MOAO_BENCH_CHECK_CUH
#define MOAO_BENCH_CHECK_CUH

#include "moao/status.h"
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        auto rc_ = (call);                                                                         \
        if ((int)rc_ != 0) {                                                                       \
            fprintf(stderr, "%s:%d: %s returned %d (%s)\n", __FILE__, __LINE__, #call, (int)rc_,   \
                    status_message());                                                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
