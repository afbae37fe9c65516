/* Covariances of the first profile of a parameter file, for bench_tlr: what needs MPI stays here.
 */
#include "matcov/matcov.h"
#include "params/params.h"
#include <mpi.h>

status tlr_case_open(const char *file, matcov_model *m);

/* What the model borrows from lives until the program ends. */
status tlr_case_open(const char *file, matcov_model *m) {
    static comm world;
    static params par;
    static sys s;
    static atmos a;
    matcov *mc;
    status st;
    MPI_Init(NULL, NULL);
    TRY(comm_init(MPI_COMM_SELF, &world));
    TRY(params_load(&world, 1, &file, 0, NULL, &par));
    TRY(sys_init(&par, &s));
    TRY(atmos_init(&par, &s, &a));
    TRY(matcov_prepare(&s, &a.profiles[0], &mc));
    TRY(matcov_model_init(mc, m));
done:
    return st;
}
