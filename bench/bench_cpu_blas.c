/* The CPU backend's triangular solves and products, which recurse into gemm, against OpenBLAS's
 * own; and products with one vector by the backend's gemm and symm against gemv and symv. Processor
 * time of one thread, the least of several runs, so that other programs on the machine matter
 * little:
 *
 *   OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 bench_cpu_blas [largest order] */
#include "timing.h"

#include <cblas.h>
#include <string.h>

enum { TIMES = 5 };

static const backend *be;
static backend_ctx *ctx;

static double processor(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
    const char *name;
    int64_t n, other; /* order of A, columns of B */
    double *a, *b, *c, *work;
    size_t lwork;
} job;

static void ours(const job *j) {
    const double one = 1, zero = 0;
    if (!strcmp(j->name, "trsm"))
        check(be->trsm(ctx, BACKEND_D, 'L', 'L', 'N', 'N', j->n, j->other, &one, j->a, j->n, j->c,
                       j->n, j->work, j->lwork));
    else if (!strcmp(j->name, "trmm"))
        check(be->trmm(ctx, BACKEND_D, 'L', 'L', 'N', 'N', j->n, j->other, &one, j->a, j->n, j->c,
                       j->n, j->work, j->lwork));
    else if (!strcmp(j->name, "gemv"))
        check(be->gemm(ctx, BACKEND_D, 'N', 'N', j->n, 1, j->n, &one, j->a, j->n, j->b, j->n, &zero,
                       j->c, j->n, NULL, 0));
    else
        check(be->symm(ctx, BACKEND_D, 'L', 'L', j->n, 1, &one, j->a, j->n, j->b, j->n, &zero, j->c,
                       j->n, j->work, j->lwork));
}

static void theirs(const job *j) {
    const int n = (int)j->n, k = (int)j->other;
    if (!strcmp(j->name, "trsm"))
        cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, n, k, 1, j->a,
                    n, j->c, n);
    else if (!strcmp(j->name, "trmm"))
        cblas_dtrmm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, n, k, 1, j->a,
                    n, j->c, n);
    else if (!strcmp(j->name, "gemv"))
        cblas_dgemv(CblasColMajor, CblasNoTrans, n, n, 1, j->a, n, j->b, 1, 0, j->c, 1);
    else
        cblas_dsymv(CblasColMajor, CblasLower, n, 1, j->a, n, j->b, 1, 0, j->c, 1);
}

/* The least time of each, in turns [s]. */
static void measure(const job *j, double *mine, double *other) {
    const size_t bytes = sizeof *j->b * (size_t)(j->n * j->other);
    *mine = *other = 1e9;
    for (int r = 0; r < 2 * TIMES; r++) {
        double *const best = r % 2 ? other : mine;
        memcpy(j->c, j->b, bytes);
        const double from = processor();
        (r % 2 ? theirs : ours)(j);
        const double took = processor() - from;
        *best = took < *best ? took : *best;
    }
}

static void row(const char *name, backend_op op, int64_t n, int64_t other) {
    job j = {.name = name, .n = n, .other = other, .lwork = be->workspace(op, BACKEND_D, n, other)};
    double mine, rival;
    j.a = malloc(sizeof *j.a * (size_t)(n * n));
    j.b = malloc(sizeof *j.b * (size_t)(n * other)),
    j.c = malloc(sizeof *j.c * (size_t)(n * other));
    j.work = malloc(j.lwork + 1);
    if (!j.a || !j.b || !j.c || !j.work)
        exit(1);
    for (int64_t e = 0; e < n * n; e++)
        j.a[e] = e % (n + 1) == 0 ? 2 : (double)(e % 17 - 8) / (double)(9 * n);
    for (int64_t e = 0; e < n * other; e++)
        j.b[e] = (double)(e % 13) - 6;
    measure(&j, &mine, &rival);
    printf("%s %6d %6d  %9.3f ms %7.2f Gflop/s  %9.3f ms  %5.2f\n", name, (int)n, (int)other,
           1e3 * mine, 1e-9 * (other > 1 ? 1 : 2) * (double)n * (double)n * (double)other / mine,
           1e3 * rival, rival / mine);
    fflush(stdout);
    free(j.a), free(j.b), free(j.c), free(j.work);
}

int main(int argc, char **argv) {
    const int64_t most = argc > 1 ? atol(argv[1]) : 2048;
    char text[200];
    check(backend_get("cpu", &be));
    check(be->open(0, NULL, &ctx));
    check(be->describe(0, text, sizeof text));
    printf("# %s\n# operation, order, columns, backend, OpenBLAS, times as fast\n", text);
    for (int64_t n = 256; n <= most; n *= 2)
        for (int64_t other = 16; other <= 512; other = other == 16 ? 128 : 4 * other) {
            row("trsm", BACKEND_TRSM, n, other);
            row("trmm", BACKEND_TRMM, n, other);
        }
    for (int64_t n = 256; n <= most; n *= 2) {
        row("gemv", BACKEND_GEMM, n, 1);
        row("symv", BACKEND_SYMM, n, 1);
    }
    be->close(ctx);
    return 0;
}
