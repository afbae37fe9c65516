/* Tests of covariances by the backends: the communicator, arrays in the backend's memory, the run.
 */
#ifndef TESTS_MATCOV_BACKEND_H
#define TESTS_MATCOV_BACKEND_H

#include "support/matcov_case.h"

#include "support/backend.h"

#include <mpi.h>

static comm world;                /* this process alone */
static const backend_matcov *ops; /* of the backend under test */

static inline void *device(size_t bytes) {
    void *p;
    case_ok(be->alloc(ctx, bytes, &p));
    return p;
}

/* Either way; waits. */
static inline void move(void *to, const void *from, size_t bytes) {
    case_ok(be->copy(ctx, to, (int64_t)bytes, from, (int64_t)bytes, (int64_t)bytes, 1));
    case_ok(be->sync(ctx));
}

static inline void choose_ops(void) {
    ops = matcov_backend(be);
}

/* The end of main: failures of the tests. */
static inline int run_alone(const struct CMUnitTest *tests, size_t count) {
    const backend_tests all = {tests, count, choose_ops, NULL};
    MPI_Init(NULL, NULL);
    case_ok(comm_init(MPI_COMM_SELF, &world));
    const int failed = run_on_backends(&all);
    comm_free(&world);
    MPI_Finalize();
    return failed;
}

#endif
