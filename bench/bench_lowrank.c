/* CPU backend: batched singular values and adaptive compression against LAPACK's gesdd, one matrix
 * for each core in both, called in turn. bench_lowrank [order, 256] [matrices, 16] */
#include "timing.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#define ROUNDS 21

extern void dgesdd_(const char *, const int *, const int *, double *, const int *, double *,
                    double *, const int *, double *, const int *, double *, const int *, int *,
                    int *, size_t);
extern void openblas_set_num_threads(int);

static int64_t n = 256, count = 16;
static double *source, *a, *s, *u, *v;
static int64_t *rank;
static int *info;

static double uniform(void) {
    static uint64_t x = 1;
    x = x * 6364136223846793005u + 1442695040888963407u;
    return (double)(x >> 11) * 0x1p-53;
}

/* Uniform entries, or covariances between the points of two neighbouring squares. */
static void fill(bool covariance) {
    double *p = malloc(sizeof(double) * (size_t)(4 * n));
    for (int64_t b = 0; b < count; b++) {
        for (int64_t i = 0; i < 4 * n; i++)
            p[i] = uniform() + (i % 2 == 0 && i >= 2 * n);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < n; i++) {
                const double d =
                    hypot(p[2 * i] - p[2 * (n + j)], p[2 * i + 1] - p[2 * (n + j) + 1]);
                source[i + (j + b * n) * n] = covariance ? exp(-d / 0.3) : uniform() - 0.5;
            }
    }
    free(p);
}

static void lapack(void) {
    const int order = (int)n, len = (int)(8 * n * n + 256 * n);
#pragma omp parallel
    {
        double *work = malloc(sizeof(double) * (size_t)len);
        int *iwork = malloc(sizeof(int) * (size_t)(8 * n)), bad;
#pragma omp for schedule(dynamic)
        for (int64_t b = 0; b < count; b++)
            dgesdd_("S", &order, &order, a + b * n * n, &order, s + b * n, u + b * n * n, &order,
                    v + b * n * n, &order, work, &len, iwork, &bad, 1);
        free(work), free(iwork);
    }
}

static void ours(int way) {
    const backend_lowrank *q = backend_cpu.lowrank;
    const batch_dim d = batch_size(n);
    const batch_mat A = batch_strided(a, n, n * n), S = batch_strided(s, n, n),
                    U = batch_strided(u, n, n * n), V = batch_strided(v, n, n * n);
    const batch_cut cut = {.tol = 1e-6, .kind = 'R', .norm = 'F', .most = n < 512 ? n : 512};
    if (way == 0)
        check(q->gesvj(NULL, BACKEND_D, 'U', 'U', NULL, count, d, d, A, S, U, V, rank, info, NULL,
                       0));
    else if (way == 1)
        check(q->gesvj(NULL, BACKEND_D, 'U', 'S', &cut, count, d, d, A, S, U, V, rank, info, NULL,
                       0));
    else
        check(q->ara(NULL, BACKEND_D, 'L', &cut, 1, count, d, d, A, U, V, rank, info, NULL, 0));
}

/* One call's time of the processor [ms for each matrix]; way -1: LAPACK. */
static double spent(int way) {
    struct timespec from, to;
    memcpy(a, source, sizeof(double) * (size_t)(n * n * count));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    if (way < 0)
        lapack();
    else
        ours(way);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    return ((double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec)) * 1e3 /
           (double)count;
}

static double middle(double *x) {
    qsort(x, ROUNDS, sizeof *x, by_value);
    return x[ROUNDS / 2];
}

int main(int argc, char **argv) {
    static const char *const name[] = {"gesvj U,S,V", "gesvj cut 1e-6", "ara 1e-6"};
    n = argc > 1 ? atoi(argv[1]) : n, count = argc > 2 ? atoi(argv[2]) : count;
    const size_t all = sizeof(double) * (size_t)(n * n * count);
    source = malloc(all), a = malloc(all), u = malloc(all), v = malloc(all);
    s = malloc(sizeof(double) * (size_t)(n * count));
    rank = malloc(sizeof *rank * (size_t)count), info = malloc(sizeof *info * (size_t)count);
    openblas_set_num_threads(1);
    printf("%d threads, %" PRId64 " matrices of order %" PRId64 ", ms of the processor for each "
           "matrix\n",
           omp_get_max_threads(), count, n);
    for (int k = 0; k < 2; k++) {
        fill(k == 1);
        const int ways = k ? 3 : 1;
        double t[4][ROUNDS], ratio[3][ROUNDS]; /* LAPACK and the ways, in turn */
        for (int r = -1; r < ROUNDS; r++)
            for (int way = -1; way < ways; way++) {
                const int at = r < 0 ? 0 : r;
                t[way + 1][at] = spent(way);
                if (way >= 0)
                    ratio[way][at] = t[0][at] / t[way + 1][at];
            }
        for (int way = 0; way < ways; way++)
            printf("%-15s %-10s %7.3f   gesdd %7.3f   ratio %.2f\n", name[way],
                   k ? "covariance" : "uniform", middle(t[way + 1]), middle(t[0]),
                   middle(ratio[way]));
    }
    free(source), free(a), free(u), free(v), free(s), free(rank), free(info);
    return 0;
}
