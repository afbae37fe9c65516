/* Arguments that the batched families share: operands and sizes in range. What lies in arrays of
 * the backend's memory is not looked at. */
#ifndef MOAO_BACKEND_CHECKED_BATCH_H
#define MOAO_BACKEND_CHECKED_BATCH_H

#include "checked.h"

static inline bool batch_mat_ok(batch_mat m, int64_t rows) {
    return m.lds != NULL || m.ld >= (rows > 1 ? rows : 1);
}

static inline bool batch_dim_ok(batch_dim d, int64_t bound) {
    return d.n >= 0 && d.n <= bound;
}

#endif
