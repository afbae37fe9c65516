/* CPU backend: tile low-rank Cholesky factor, two triangles with many right-hand sides and the
 * product of two matrices, against the same backend's dense ones.
 * bench_tlr [order, 4096] [tile, 256] [tolerance, 1e-4] [right-hand sides, 500] */
#include "timing.h"

#include "moao/tlr.h"

#include <math.h>
#include <string.h>

static const backend *be = &backend_cpu;
static backend_ctx *ctx;
static int64_t n = 4096, v = 500;
static double *at; /* [2 n] points, in the order of the tiles */
static tlr_layout layout;

static double uniform(void) {
    static uint64_t x = 1;
    x = x * 6364136223846793005u + 1442695040888963407u;
    return (double)(x >> 11) * 0x1p-53;
}

static void scatter(int64_t b) {
    double *x = malloc(sizeof(double) * (size_t)n), *y = malloc(sizeof(double) * (size_t)n);
    const int64_t start[2] = {0, n};
    at = malloc(sizeof(double) * (size_t)(2 * n));
    for (int64_t i = 0; i < n; i++)
        x[i] = uniform(), y[i] = uniform();
    check(tlr_layout_points(&(tlr_points){1, start, x, y, 1}, b, TLR_KD, &layout));
    for (int64_t i = 0; i < n; i++)
        at[2 * i] = x[layout.perm[i]], at[2 * i + 1] = y[layout.perm[i]];
    free(x), free(y);
}

/* exp(-distance / 0.3), and 0.05 more on the diagonal. */
static status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                   int64_t lda) {
    (void)arg;
#pragma omp parallel for
    for (int64_t j = 0; j < nj; j++)
        for (int64_t i = 0; i < ni; i++)
            a[i + j * lda] = exp(-hypot(at[2 * (i0 + i)] - at[2 * (j0 + j)],
                                        at[2 * (i0 + i) + 1] - at[2 * (j0 + j) + 1]) /
                                 0.3) +
                             (i0 + i == j0 + j ? 0.05 : 0);
    return MOAO_OK;
}

static double *random_numbers(int64_t count) {
    double *a = malloc(sizeof(double) * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        a[i] = uniform() - 0.5;
    return a;
}

static void row(const char *what, double ours, double dense) {
    printf("%-34s %8.3f s, dense %8.3f s: %5.2f times as fast\n", what, ours, dense, dense / ours);
    fflush(stdout);
}

/* Seconds of one call. */
#define ONCE(call)                                                                                 \
    __extension__({                                                                                \
        const double from_ = now();                                                                \
        check(call);                                                                               \
        now() - from_;                                                                             \
    })

static void bench_factor(double tau) {
    const tlr_options o = {.tau = tau, .cut = -1, .seed = 1, .width = 1024};
    const tlr_source from = {.layout = &layout, .fill = fill};
    double *a = malloc(sizeof(double) * (size_t)(n * n)), *x = random_numbers(n * v),
           *y = malloc(sizeof(double) * (size_t)(n * v)), error = 0, size = 0;
    const double one = 1;
    int info;
    tlr *l;
    tlr_stats s;
    memcpy(y, x, sizeof(double) * (size_t)(n * v));
    const double entries = ONCE(fill(NULL, 0, n, 0, n, a, n));
    const double dense = ONCE(be->potrf(ctx, BACKEND_D, 'L', n, a, n, &info, NULL, 0));
    row("factor, with the entries", ONCE(tlr_factor(be, ctx, &from, 'L', &o, NULL, &l, NULL)),
        dense + entries);
    tlr_statistics(l, &s);
    printf("    %.3f GB, dense triangle %.3f; mean rank %.1f, nine tenths up to %d, %d of %d tiles "
           "dense\n",
           s.bytes / 1e9, s.bytes_dense / 1e9, s.mean, (int)s.p90, (int)s.dense, (int)s.tiles);
    double t = ONCE(be->trsm(ctx, BACKEND_D, 'R', 'L', 'T', 'N', v, n, &one, a, n, x, v, NULL, 0));
    t += ONCE(be->trsm(ctx, BACKEND_D, 'R', 'L', 'N', 'N', v, n, &one, a, n, x, v, NULL, 0));
    row("two triangles", ONCE(tlr_solve(l, 'R', 'A', v, y, v)), t);
    for (int64_t i = 0; i < n * v; i++)
        error += (x[i] - y[i]) * (x[i] - y[i]), size += x[i] * x[i];
    printf("    relative difference of the solutions %.1e\n", sqrt(error / size));
    double det;
    printf("    determinant %.1f us\n", 1e6 * TIME(tlr_logdet(l, &det)));
    tlr_close(l);
    free(a), free(x), free(y);
}

static void bench_product(double tau) {
    const tlr_options o = {.tau = tau, .cut = -1, .seed = 1, .width = n};
    const double one = 1, zero = 0;
    double *a = random_numbers(n * n), *c = malloc(sizeof(double) * (size_t)(n * n));
    tlr *x;
    const double t =
        ONCE(be->gemm(ctx, BACKEND_D, 'N', 'T', n, n, n, &one, a, n, a, n, &zero, c, n, NULL, 0));
    const double build = ONCE(tlr_build(be, ctx, &layout, &layout, fill, NULL, &o, &x));
    const double ours = ONCE(tlr_gemm_dense(1, x, 'N', x, 'T', 0, c, n));
    row("product into a dense matrix", ours, t);
    row("    with the compression of one", ours + build, t);
    tlr_close(x);
    free(a), free(c);
}

int main(int argc, char **argv) {
    const int64_t b = argc > 2 ? atoll(argv[2]) : 256;
    const double tau = argc > 3 ? atof(argv[3]) : 1e-4;
    char text[256];
    n = argc > 1 ? atoll(argv[1]) : n;
    v = argc > 4 ? atoll(argv[4]) : v;
    check(be->open(0, NULL, &ctx));
    check(be->describe(0, text, sizeof text));
    printf("%s\norder %lld, tiles of %lld, tolerance %.0e, %lld right-hand sides\n", text,
           (long long)n, (long long)b, tau, (long long)v);
    scatter(b);
    bench_factor(tau);
    bench_product(tau);
    tlr_layout_free(&layout);
    free(at);
    be->close(ctx);
    return 0;
}
