/* Small systems that threads solve side by side are solved by one thread each: hundreds of calls
 * that all wake the threads of BLAS took minutes on a host of many cores. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "field/field.h"

int openblas_get_num_threads(void);
void openblas_set_num_threads(int n);

static int calls, most;

/* In place of LAPACK's, which it calls. */
void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivot, double *b,
            const int *ldb, int *info) {
    void (*real)(const int *, const int *, double *, const int *, int *, double *, const int *,
                 int *);
    void *found = dlsym(RTLD_NEXT, "dgesv_");
    memcpy(&real, &found, sizeof real);
#pragma omp critical
    {
        calls++;
        most = omp_in_parallel() && openblas_get_num_threads() > most ? openblas_get_num_threads()
                                                                      : most;
    }
    real(n, nrhs, a, lda, pivot, b, ldb, info);
}

static void one_thread_solves_weights(void **unused) {
    (void)unused;
    sensor star = {.lgs = false, .dir = {5 / ARCSEC_PER_RAD, -7 / ARCSEC_PER_RAD}};
    double at[21 * 21][2];
    sys s = {.ntarget = 21 * 21, .nsensor = 1, .sensors = &star, .targets = at};
    field f;
    field_weights w;
    for (int i = 0; i < s.ntarget; i++) {
        at[i][0] = (i % 21 - 10) * 3 / ARCSEC_PER_RAD;
        at[i][1] = (i / 21 - 10) * 3 / ARCSEC_PER_RAD;
    }
    omp_set_num_threads(2);
    openblas_set_num_threads(2);
    const int threads = openblas_get_num_threads();
    assert_int_equal(field_init(&s, NULL, 10 / ARCSEC_PER_RAD, NULL, 0, &f), MOAO_OK);
    assert_int_equal(field_interpolate(&f, 0, -1, f.nwant, f.want, NULL, &w), MOAO_OK);
    assert_true(calls > 100);
    assert_true(most <= 1);
    assert_int_equal(openblas_get_num_threads(), threads);
    field_weights_free(&w);
    field_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_thread_solves_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
