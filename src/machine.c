#include "machine.h"

#include "progress.h"

#include <cblas.h>
#include <fftw3.h>
#include <fitsio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double machine_dgemm_rate(const comm *c) {
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

const char *machine_blas_warning(double rate, int threads) {
    double least = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        least = 25e9;
    else if (__builtin_cpu_supports("avx2"))
        least = 10e9;
#endif
    if (rate / threads >= least)
        return NULL;
    static char text[400];
    snprintf(
        text, sizeof text,
        "dgemm reaches %.1f GFLOP/s a thread with OpenBLAS's kernel %s, slow for this processor: "
        "if that kernel "
        "is for an older one, set OPENBLAS_CORETYPE=%s; else other programs may be using the cores",
        rate / threads / 1e9, openblas_get_corename(), least > 20e9 ? "SKYLAKEX" : "HASWELL");
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

void machine_print_versions(void) {
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n;
    float fits;
    MPI_Get_library_version(mpi, &n);
    mpi[strcspn(mpi, ",\n")] = '\0';
    ffvers(&fits);
    printf("MPI      %s\n", mpi);
    printf("BLAS     %s, kernel %s\n", openblas_get_config(), openblas_get_corename());
    printf("FFTW     %s\n", fftw_version);
    printf("cfitsio  %.3f\n", (double)fits);
}
