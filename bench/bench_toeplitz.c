/* Block-Toeplitz products: bench_toeplitz [BACKEND [VECTORS [N IMAGES]...]], without arguments the
 * like half of params/mosaic.yaml (6 laser stars of 76 and 8 natural ones of 67 subapertures
 * across) by 64 vectors on the CPU. Prints times, bytes, and what a dense product would take at the
 * rate of this machine's gemm, and the error of sampled numbers against their sums, relative to
 * these; then the product in two calls, of which the first is for several loads of values. */
#include "moao/backend_toeplitz.h"
#include "timing.h"

#include <math.h>
#include <string.h>

static const backend *be;
static backend_ctx *ctx;

typedef struct {
    int n, g;
    int64_t count, m;
    int64_t counts[64], first[64];
    int *place;
    const int *places[64];
    toeplitz_pair pair[64 * 64];
    double *value;
} group;

/* An annulus, with an obscuration of 0.275. */
static void make(group *a, int n, int g) {
    const int width = 2 * n - 1;
    double *host = malloc(sizeof(double) * (size_t)(width * width));
    const int64_t bytes = (int64_t)sizeof(double) * width * width;
    *a = (group){.n = n, .g = g, .place = malloc(sizeof(int) * (size_t)(n * n))};
    for (int k = 0; k < n * n; k++) {
        const double r = hypot(k % n - 0.5 * (n - 1), k / n - 0.5 * (n - 1)) / (0.5 * n);
        if (r < 1 && r > 0.275)
            a->place[a->count++] = k;
    }
    for (int i = 0; i < g; i++) {
        a->counts[i] = a->count;
        a->first[i] = i * a->count;
        a->places[i] = a->place;
    }
    a->m = g * a->count;
    for (int k = 0; k < width * width; k++)
        host[k] = exp(-0.1 * hypot(k % width - n + 1, k / width - n + 1));
    check(be->alloc(ctx, (size_t)bytes, (void **)&a->value));
    check(be->copy(ctx, a->value, bytes, host, bytes, bytes, 1));
    check(be->sync(ctx));
    for (int i = 0; i < g * g; i++)
        a->pair[i] = (toeplitz_pair){.value = a->value, .step = 1, .width = width, .origin = n - 1};
    free(host);
}

/* Rate of a product of v rows with a matrix of m x m [flop/s]. */
static double gemm_rate(backend_type t, int64_t v, int64_t m, const void *x, void *y, void *a) {
    const double one = 1, zero = 0;
    const float ones = 1, zeros = 0;
    const bool d = t == BACKEND_D;
    const double s = TIME(be->gemm(ctx, t, 'N', 'N', v, m, m, d ? (const void *)&one : &ones, x, v,
                                   a, m, d ? (const void *)&zero : &zeros, y, v, NULL, 0));
    return 2.0 * (double)(v * m) * (double)m / s;
}

/* Vector v of column j, in -1 to 1, alike in nothing. */
static double number_of(int64_t v, int64_t j) {
    uint64_t z = ((uint64_t)v << 32) + (uint64_t)j + 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)(z >> 40) * 0x1p-23 - 1;
}

/* X on the device, halves 2^15 times as large. */
static void fill(const group *a, toeplitz_type number, int64_t v, char *x) {
    const int64_t size = number == TOEPLITZ_D ? 8 : 4, half = sizeof(backend_f16);
    char *some = malloc((size_t)(size * v));
    void *panel;
    check(be->alloc(ctx, (size_t)(size * v), &panel));
    for (int64_t j = 0; j < a->m; j++) {
        for (int64_t i = 0; i < v; i++)
            if (number == TOEPLITZ_D)
                ((double *)(void *)some)[i] = number_of(i, j);
            else
                ((float *)(void *)some)[i] = (float)number_of(i, j);
        void *to = number == TOEPLITZ_FP16 ? panel : x + size * v * j;
        check(be->copy(ctx, to, size * v, some, size * v, size * v, 1));
        if (number == TOEPLITZ_FP16)
            check(be->fp16->cast_to_fp16(ctx, BACKEND_S, v, 1, 15, panel, v,
                                         (backend_f16 *)(void *)(x + half * v * j), v));
        check(be->sync(ctx));
    }
    be->release(ctx, panel);
    free(some);
}

/* Of 64 numbers of Y, root of the mean square, relative to that of their sums. */
static double error_of(const group *a, toeplitz_type number, int64_t v, char *y) {
    const int64_t size = number == TOEPLITZ_D ? 8 : 4;
    double sum = 0, gaps = 0;
    for (int64_t k = 0; k < 64; k++) {
        const int64_t j = a->m / 67 * k + k, i = v * k / 64, place = a->place[j % a->count];
        double want = 0, is;
        float f;
        for (int64_t l = 0; l < a->m; l++) {
            const int64_t d = a->place[l % a->count];
            want += number_of(i, l) * exp(-0.1 * hypot((double)(d % a->n - place % a->n),
                                                       (double)(d / a->n - place / a->n)));
        }
        check(be->copy(ctx, number == TOEPLITZ_D ? (void *)&is : &f, size, y + size * (i + j * v),
                       size, size, 1));
        check(be->sync(ctx));
        is = number == TOEPLITZ_D ? is : number == TOEPLITZ_S ? f : ldexp(f, -15);
        gaps += (is - want) * (is - want);
        sum += want * want;
    }
    return sqrt(gaps / sum);
}

/* Of a call until its results are there [s]: of the processor on a CPU, where other work would
 * count else. */
static double clocked(bool begin) {
    static double from;
    struct timespec t;
    clock_gettime(strcmp(be->name, "cpu") == 0 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    const double at = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec, gone = at - from;
    if (begin)
        from = at;
    return gone;
}
#define CLOCKED(call)                                                                              \
    (check(be->sync(ctx)), (void)clocked(true), check(call), check(be->sync(ctx)), clocked(false))

/* The product in two calls beside that at once, in turns: medians. */
static void row_kept(backend_toeplitz_plan *p, int64_t v, const void *x, void *y, void *work,
                     size_t lwork) {
    const backend_toeplitz *z = be->toeplitz;
    const size_t lkept = z->kept_bytes(p, v);
    double once[REPEAT], to[REPEAT], from[REPEAT];
    void *kept;
    check(be->alloc(ctx, lkept, &kept));
    for (int r = -1; r < REPEAT; r++) { /* the first ones warm up */
        const int k = r < 0 ? 0 : r;
        to[k] = CLOCKED(z->keep(p, 'R', v, x, v, kept, lkept, work, lwork));
        once[k] = CLOCKED(z->apply(p, 'R', 'N', v, 1, x, v, 0, y, v, work, lwork));
        from[k] =
            CLOCKED(z->apply_kept(p, 'R', 'N', v, 1, kept, lkept, x, v, 0, y, v, work, lwork));
    }
    qsort(to, REPEAT, sizeof *to, by_value);
    qsort(once, REPEAT, sizeof *once, by_value);
    qsort(from, REPEAT, sizeof *from, by_value);
    printf("   in turns: at once %9.3f ms; X kept %9.3f ms, product from it %9.3f ms (%.2f); kept "
           "%.3f GB\n",
           1e3 * once[REPEAT / 2], 1e3 * to[REPEAT / 2], 1e3 * from[REPEAT / 2],
           from[REPEAT / 2] / once[REPEAT / 2], 1e-9 * (double)lkept);
    be->release(ctx, kept);
}

static void row(group *a, toeplitz_type number, int64_t v) {
    const backend_type t = number == TOEPLITZ_D ? BACKEND_D : BACKEND_S; /* of y; x has no more */
    const toeplitz_shape shape = {a->n, a->g, a->counts, a->first, a->places};
    const size_t size = backend_size(t);
    const int64_t m = a->m < 4096 ? a->m : 4096;
    backend_toeplitz_plan *p;
    void *x, *y, *work, *square;
    check(be->toeplitz->open(ctx, &shape, number, &p));
    const double load = TIME(be->toeplitz->load(p, a->pair));
    const size_t lwork = be->toeplitz->workspace(p, v);
    check(be->alloc(ctx, size * (size_t)(v * a->m), &x));
    check(be->alloc(ctx, size * (size_t)(v * a->m), &y));
    check(be->alloc(ctx, size * (size_t)(m * m), &square));
    check(be->alloc(ctx, lwork, &work));
    fill(a, number, v, x);
    const double s = TIME(be->toeplitz->apply(p, 'R', 'N', v, 1, x, v, 0, y, v, work, lwork));
    const double error = error_of(a, number, v, y);
    const double rate = gemm_rate(t, v, m, x, y, square);
    printf("%c  %2d images of %2d x %2d, N %3d, %6lld rows of %lld vectors: load %8.3f ms, product "
           "%9.3f ms; dense %9.3f ms (%.3g Gflop/s), half of it as a triangle; plan %.3f GB, work "
           "%.3f GB; error %.1e\n",
           number == TOEPLITZ_D   ? 'D'
           : number == TOEPLITZ_S ? 'S'
                                  : 'H',
           a->g, a->n, a->n, be->toeplitz->order(a->n), (long long)a->m, (long long)v, 1e3 * load,
           1e3 * s, 1e3 * 2.0 * (double)(v * a->m) * (double)a->m / rate, 1e-9 * rate,
           1e-9 * (double)be->toeplitz->bytes(&shape, number), 1e-9 * (double)lwork, error);
    row_kept(p, v, x, y, work, lwork);
    fflush(stdout);
    be->release(ctx, x), be->release(ctx, y), be->release(ctx, work), be->release(ctx, square);
    be->toeplitz->close(p);
}

int main(int argc, char **argv) {
    static const char *standard[] = {"76", "12", "67", "16"};
    const int64_t v = argc > 2 ? atoi(argv[2]) : 64;
    const int n = argc > 3 ? argc - 3 : 4;
    const char *const *list = argc > 3 ? (const char *const *)argv + 3 : standard;
    char text[256];
    check(backend_get(argc > 1 ? argv[1] : "cpu", &be));
    check(be->describe(0, text, sizeof text));
    check(be->open(0, NULL, &ctx));
    printf("%s\n", text);
    for (int i = 0; i + 1 < n; i += 2) {
        static group a;
        make(&a, atoi(list[i]), atoi(list[i + 1]));
        row(&a, TOEPLITZ_D, v);
        row(&a, TOEPLITZ_S, v);
        row(&a, TOEPLITZ_FP16, v);
        be->release(ctx, a.value);
        free(a.place);
    }
    be->close(ctx);
    return 0;
}
