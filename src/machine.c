#include "machine.h"

#include "progress.h"

#include <cblas.h>
#include <fftw3.h>
#include <fitsio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Rate of dgemm on this rank while all ranks compute at once [flop/s]: the best of a few products
 * within about a third of a second. Collective. */
static double dgemm_rate(const comm *c) {
    const int n = 1024;
    const size_t nn = (size_t)n * (size_t)n;
    double *a = malloc(3 * nn * sizeof *a), best = 0;
    MPI_Barrier(c->mpi);
    if (a == NULL)
        return 0;
    for (size_t i = 0; i < 3 * nn; i++)
        a[i] = (double)(i % 1013) / 1013 - 0.5;
    double from = report_now();
    for (int k = 0; k < 50 && (k < 3 || report_now() - from < 0.3); k++) {
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

void machine_choose_kernel(char **argv) {
    const char *kernel = suitable_kernel();
    if (kernel == NULL || getenv("OPENBLAS_CORETYPE") != NULL ||
        strcmp(openblas_get_corename(), "Prescott") != 0)
        return;
    setenv("OPENBLAS_CORETYPE", kernel, 1);
    if (comm_catches_signals())
        comm_hold_signals();
    execv("/proc/self/exe", argv); /* returns only on failure: then the slow kernel serves */
    if (comm_catches_signals())
        comm_catch_signals();
}

const char *machine_blas_warning(double rate, int threads) {
    const char *kernel = suitable_kernel();
    double least = kernel == NULL ? 0 : strcmp(kernel, "SKYLAKEX") == 0 ? 25e9 : 10e9;
    if (rate / threads >= least || strcasecmp(kernel, openblas_get_corename()) == 0)
        return NULL;
    static char text[400];
    snprintf(text, sizeof text,
             "dgemm reaches %.1f GFLOP/s a thread with OpenBLAS's kernel %s: if that one is for an "
             "older processor than this, set OPENBLAS_CORETYPE=%s",
             rate / threads / 1e9, openblas_get_corename(), kernel);
    return text;
}

static size_t status_field(const char *name) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0, n = strlen(name);
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, n) == 0)
            kib = strtoull(line + n, NULL, 10);
    if (f != NULL)
        fclose(f);
    return kib * 1024;
}

size_t machine_memory_now(void) {
    return status_field("VmRSS:");
}

size_t machine_memory_peak(void) {
    return status_field("VmHWM:");
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

machine_room machine_measure(const comm *c, double limit) {
    machine_room r = {.nrank = c->size, .threads = c->threads};
    r.rate = dgemm_rate(c);
    warm_up_mpi(c);
    unsigned long long most[2] = {machine_memory_now(), machine_memory_peak()};
    unsigned long long least = (unsigned long long)(limit > 0 ? limit : 0.85 * (double)c->memory);
    MPI_Allreduce(MPI_IN_PLACE, most, 2, MPI_UNSIGNED_LONG_LONG, MPI_MAX, c->mpi);
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, c->mpi);
    r.base = most[0];
    r.peak = most[1];
    r.available = least;
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
