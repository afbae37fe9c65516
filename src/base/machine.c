#include "machine.h"

#include "memory_limits.h"
#include "progress.h"
#include "stop.h"

#include <cblas.h>
#include <fftw3.h>
#include <fitsio.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Rate of dgemm on this rank while all ranks compute at once [flop/s]: the best of a few products
 * of order n within about `seconds`. Collective. */
static double dgemm_rate(const comm *c, int n, double seconds) {
    const size_t nn = (size_t)n * (size_t)n;
    double *a = malloc(3 * nn * sizeof *a), best = 0;
    MPI_Barrier(c->mpi);
    if (a == NULL)
        return 0;
    for (size_t i = 0; i < 3 * nn; i++)
        a[i] = (double)(i % 1013) / 1013 - 0.5;
    double from = report_now();
    for (int k = 0; k < 50 && (k < 3 || report_now() - from < seconds); k++) {
        double t0 = report_now();
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0, a, n, a + nn, n, 0.0,
                    a + 2 * nn, n);
        double rate = 2.0 * n * n * n / (report_now() - t0);
        best = k > 0 && rate > best ? rate : best; /* the first one sets up */
    }
    free(a);
    return best;
}

/* OpenBLAS's name of the kernel for this processor's instructions, NULL when it has none that we
 * know of. */
static const char *suitable_kernel(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return "SKYLAKEX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "HASWELL";
#endif
    return NULL;
}

/* Whether OpenBLAS took its oldest kernel; then the variable that names a better one is set. */
static bool choose_kernel(void) {
    const char *kernel = suitable_kernel();
    if (kernel == NULL || getenv("OPENBLAS_CORETYPE") != NULL ||
        strcmp(openblas_get_corename(), "Prescott") != 0)
        return false;
    setenv("OPENBLAS_CORETYPE", kernel, 1);
    return true;
}

bool machine_wait_quietly(void) {
    bool set = false;
    if (getenv("OMP_WAIT_POLICY") == NULL && getenv("GOMP_SPINCOUNT") == NULL)
        set = setenv("OMP_WAIT_POLICY", "passive", 1) == 0;
    if (getenv("OPENBLAS_THREAD_TIMEOUT") == NULL) /* 2^16 cycles: 20 us */
        set = setenv("OPENBLAS_THREAD_TIMEOUT", "16", 1) == 0 || set;
    return set;
}

void machine_prepare(char **argv, bool computes) {
    bool again = choose_kernel();
    again = (computes && machine_wait_quietly()) || again;
    if (!again)
        return;
    if (stop_catches_signals())
        stop_hold_signals();
    execv("/proc/self/exe", argv); /* returns only on failure: then it goes on as it is */
    if (stop_catches_signals())
        stop_catch_signals();
}

/* Whether OpenBLAS's kernel is for processors without AVX2 while this one has it: by name, as a
 * measured rate says as much about what else runs here. */
static bool kernel_is_old(const char *name) {
    static const char *const old[] = {"Prescott",     "Katmai",    "Coppermine", "Northwood",
                                      "Banias",       "Atom",      "Core2",      "Penryn",
                                      "Dunnington",   "Nehalem",   "Athlon",     "Opteron",
                                      "Opteron_SSE3", "Barcelona", "Bobcat",     "Nano",
                                      "Sandybridge",  "Bulldozer", "Piledriver"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        if (strcasecmp(name, old[i]) == 0)
            return true;
    return false;
}

void machine_warn(void) {
    const char *kernel = suitable_kernel(), *used = openblas_get_corename();
    if (kernel != NULL && kernel_is_old(used))
        progress_warn("OpenBLAS computes with its kernel %s, which is for older processors than "
                      "this one and slow here: set OPENBLAS_CORETYPE=%s",
                      used, kernel);
    const char *threads = comm_threads_warning();
    if (threads != NULL)
        progress_warn("%s", threads);
}

size_t machine_memory_now(void) {
    return limits_proc_field("/proc/self/status", "VmRSS:");
}

size_t machine_memory_peak(void) {
    return limits_proc_field("/proc/self/status", "VmHWM:");
}

/* Let MPI set up the buffers and connections that a run will use. */
static void warm_up_mpi(const comm *c) {
    const int n = 1 << 16;
    double *a = calloc((size_t)n * (size_t)c->size, sizeof *a);
    int mine = a != NULL, all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, c->mpi);
    if (all)
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DOUBLE, a, n, MPI_DOUBLE, c->mpi);
    free(a);
}

/* What libraries take when they are used for the first time, after that [bytes]. */
#define LATER ((size_t)5 << 20)

machine machine_measure(const comm *c, double limit, machine_rate measure) {
    machine r = {.nrank = c->size, .nnode = c->nnode, .threads = c->threads};
    if (measure != MACHINE_NO_RATE)
        r.rate = measure == MACHINE_RATE ? dgemm_rate(c, 1024, 0.3) : dgemm_rate(c, 384, 0.02);
    warm_up_mpi(c);
    unsigned long long most[2] = {machine_memory_now(), machine_memory_peak()};
    size_t own = limits_process();
    const size_t node[2] = {c->memory, c->total};
    unsigned long long least[2]; /* free, and in all */
    for (int i = 0; i < 2; i++)
        least[i] = (unsigned long long)(limit > 0 ? fmin(limit, (double)own)
                                                  : 0.85 * fmin((double)node[i], (double)own));
    MPI_Allreduce(MPI_IN_PLACE, most, 2, MPI_UNSIGNED_LONG_LONG, MPI_MAX, c->mpi);
    MPI_Allreduce(MPI_IN_PLACE, least, 2, MPI_UNSIGNED_LONG_LONG, MPI_MIN, c->mpi);
    r.base = most[0] + LATER;
    r.peak = most[1];
    r.available = least[0];
    r.total = least[1];
    return r;
}

void machine_get_versions(machine_versions *v) {
    int n;
    float fits;
    MPI_Get_library_version(v->mpi, &n);
    v->mpi[strcspn(v->mpi, ",\n")] = '\0';
    v->blas = openblas_get_config();
    v->blas_kernel = openblas_get_corename();
    v->fftw = fftw_version;
    snprintf(v->cfitsio, sizeof v->cfitsio, "%.4g", (double)ffvers(&fits));
}
