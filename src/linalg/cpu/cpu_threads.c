#include "moao/cpu_threads.h"

#include <cblas.h>

int blas_alone(void) {
    const int threads = openblas_get_num_threads();
    if (threads > 1)
        openblas_set_num_threads(1);
    return threads;
}

void blas_together(int threads) {
    if (threads > 1)
        openblas_set_num_threads(threads);
}
