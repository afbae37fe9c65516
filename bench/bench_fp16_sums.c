/* What a product of FP16 numbers loses where its sums are cut off, and how fast it is in pieces:
 *   bench_fp16_sums [cpu|gpu [k...]]
 * For each inner size k of one product, over all entries of C, n x n: slope of (exact - got)
 * against exact, which is the part of a sum that is lost in the mean, and the rms of what is left
 * of the errors, relative to the rms of C; for factors of one sign and of both, and for shorter
 * pieces. Then the rates of products of 5336 rows in pieces. */
#include "linalg/fp16/fp16_gemm.h"
#include "moao/backend.h"
#include "timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 32768 /* inner size */

static const backend *be;
static backend_ctx *ctx;
static int64_t n = 2048;

static void *take(int64_t count, size_t size) {
    void *p;
    check(be->alloc(ctx, (size_t)count * size, &p));
    return p;
}

/* n x k numbers that halves keep as they are: sign * [1/2, 1). */
static void fill(int64_t k, bool both, double *host, double *dev, backend_f16 *h, uint64_t seed) {
    for (int64_t i = 0; i < n * k; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        const double x = 0.5 + (double)(seed >> 54) / 2048;
        host[i] = both && (seed >> 20 & 1) ? -x : x;
    }
    check(be->copy(ctx, dev, n * 8, host, n * 8, n * 8, k));
    check(be->fp16->cast_to_fp16(ctx, BACKEND_D, n, k, 0, dev, n, h, n));
    check(be->sync(ctx));
}

/* Sums over the entries of C. */
static void compare(int64_t k, bool both, const double *exact, const double *got) {
    double ee = 0, ge = 0, rest = 0;
    for (int64_t i = 0; i < n * n; i++) {
        ee += exact[i] * exact[i];
        ge += (exact[i] - got[i]) * exact[i];
    }
    const double slope = ge / ee;
    for (int64_t i = 0; i < n * n; i++)
        rest += pow(exact[i] - got[i] - slope * exact[i], 2);
    printf("k %6d, %s: lost %9.2e (%9.2e of the inner size), rest %8.2e\n", (int)k,
           both ? "both signs" : "one sign  ", slope, slope / (double)k, sqrt(rest / ee));
}

static void losses(int64_t k) {
    double *host, *out[2];
    check(ALLOC(host, (size_t)(n * k), "a factor"));
    check(ALLOC(out[0], (size_t)(n * n), "a product"));
    check(ALLOC(out[1], (size_t)(n * n), "a product"));
    double *a = take(n * k, 8), *b = take(n * k, 8), *c = take(n * n, 8);
    backend_f16 *x = take(n * k, 2), *y = take(n * k, 2);
    float *s = take(n * n, 4);
    const double one = 1, none = 0;
    for (int both = 0; both < 2; both++) {
        fill(k, both, host, a, x, 88172645463325252u);
        fill(k, both, host, b, y, 1234567891234567u);
        check(be->gemm(ctx, BACKEND_D, 'N', 'T', n, n, k, &one, a, n, b, n, &none, c, n, NULL, 0));
        check(be->copy(ctx, out[0], n * 8, c, n * 8, n * 8, n));
        for (int64_t depth = k; depth >= 64; depth = depth > 1024 ? 1024 : depth / 4) {
            const fp16_product p = {x, y, depth};
            check(be->fp16->gemm_rounded(ctx, 'N', 'T', n, n, k, 1, 1, &p, n, n, 0, s, n));
            check(be->fp16->cast_to_double(ctx, n, n, 1, s, n, 0, c, n));
            check(be->copy(ctx, out[1], n * 8, c, n * 8, n * 8, n));
            check(be->sync(ctx));
            printf("pieces of %5d: ", (int)depth);
            compare(k, both, out[0], out[1]);
        }
    }
    void *const all[] = {a, b, c, x, y, s};
    for (int i = 0; i < 6; i++)
        be->release(ctx, all[i]);
    free(host), free(out[0]), free(out[1]);
}

/* v x cols += v x k times k x cols, in pieces, `count` products at once. */
static void rate(int64_t piece, int64_t k, int64_t cols, bool along, int count) {
    static const char *const how[] = {"cuBLAS", "kernel"};
    const int64_t v = 5336, ldb = along ? cols : k;
    backend_f16 *a = take(v * k, 2), *b = take(cols * k, 2);
    float *c = take(v * cols, 4);
    double *x = take(v > cols ? v * k : cols * k, 8), *host;
    check(ALLOC(host, (size_t)(v > cols ? v * k : cols * k), "a factor"));
    for (int i = 0; i < 2; i++) {
        const int64_t all = n;
        n = i == 0 ? v : cols;
        fill(k, true, host, x, i == 0 ? a : b, i == 0 ? 88172645463325252u : 1234567891234567u);
        n = all;
    }
    const fp16_product p[] = {{a, b, piece}, {a, b, piece}, {a, b, piece}};
    check(be->fp16->gemm(ctx, 'N', 'N', v, cols, 0, 0, a, v, b, cols, 0, c, v));
    printf("%d x %d x %d, %d product%s, pieces of %5d:", (int)v, (int)cols, (int)k, count,
           along ? " B'" : " B ", (int)piece);
    for (int i = 0; i < 2; i++) {
        tune(be, "fp16_kernel", i);
        const double seconds = TIME(be->fp16->gemm_rounded(ctx, 'N', along ? 'T' : 'N', v, cols, k,
                                                           1, count, p, v, ldb, 1, c, v));
        printf(" %s %6.1f TFLOP/s", how[i],
               2e-12 * count * (double)(v * cols) * (double)k / seconds);
        fflush(stdout);
    }
    tune(be, "fp16_kernel", 1);
    printf("\n");
    be->release(ctx, a), be->release(ctx, b), be->release(ctx, c), be->release(ctx, x);
    free(host);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "gpu";
    static const int64_t pieces[] = {64, 128, 256, 1024, 4096}, usual[] = {256, 4096};
    char text[256];
    if (backend_get(name, &be) != MOAO_OK) {
        printf("bench_fp16_sums: %s\n", status_message());
        return 0;
    }
    check(be->describe(0, text, sizeof text));
    printf("%s\n", text);
    check(be->open(0, NULL, &ctx));
    n = strcmp(be->name, "cpu") == 0 ? 128 : n;
    for (int i = 0; i < (argc > 2 ? argc - 2 : 2); i++) {
        const int64_t k = argc > 2 ? atol(argv[i + 2]) : usual[i];
        if (k > 0 && k <= MOST)
            losses(k);
    }
    for (int i = 0; i < 5 && n > 128; i++)
        rate(pieces[i], 4096, 16384, true, 1);
    for (int i = 0; i < 2 && n > 128; i++) {
        rate(256, 4096, 16384, i, 3);
        rate(256, 1024, 1024, i, 1);
        rate(256, 1024, 1024, i, 3);
        rate(256, 2048, 2048, i, 1);
    }
    if (n > 128)
        rate(256, 10240, 2816, false, 3);
    be->close(ctx);
    return 0;
}
