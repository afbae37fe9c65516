/* D+ times covariances: bench_filter [BACKEND [COLUMNS [NSSP]...]], without arguments 512 columns
 * of mirrors of 16, 40 and 84 subapertures on the CPU. For each type of numbers the filter by D'
 * (backend_sparse.h: time, its bytes a second) and the product with H = (I - 11'/v) M^-1 that
 * follows, against the product with D+ whose place the two take, and against D' as a sparse matrix.
 * Wall time, median of 9, and on the CPU the processor's, in turn. */
#include "matcov/matcov.h"
#include "moao/backend_sparse.h"
#include "timing.h"

#include <math.h>
#include <string.h>

static const backend *be;
static backend_ctx *ctx;

static void *send(size_t bytes, const void *host) {
    void *p;
    const int64_t n = (int64_t)bytes;
    check(be->alloc(ctx, bytes, &p));
    check(be->copy(ctx, p, n, host, n, n, 1));
    check(be->sync(ctx));
    return p;
}

/* count numbers of a type on the device, of either sign. */
static void *numbers(backend_type t, int64_t count) {
    char *host = malloc((size_t)count * backend_size(t));
    for (int64_t i = 0; i < count; i++) {
        const double x = sin((double)(i % 100003));
        if (t == BACKEND_D)
            ((double *)host)[i] = x;
        else
            ((float *)host)[i] = (float)x;
    }
    void *p = send((size_t)count * backend_size(t), host);
    free(host);
    return p;
}

/* D' with its entries above 1e-17 of the largest. */
static backend_rows sparse_of(const sys *s, backend_type t) {
    const size_t v = (size_t)s->dm.nact;
    double *d = malloc(s->t * v * sizeof *d), most = 0;
    size_t width = 0;
    check(matcov_fill_interaction(s, d, s->t));
    for (size_t i = 0; i < s->t * v; i++)
        most = fmax(most, fabs(d[i]));
    for (size_t a = 0; a < v; a++) {
        size_t count = 0;
        for (size_t k = 0; k < s->t; k++)
            count += fabs(d[k + a * s->t]) > 1e-17 * most;
        width = count > width ? count : width;
    }
    int *column = malloc(v * width * sizeof *column);
    char *value = calloc(v * width, backend_size(t));
    memset(column, 0xff, v * width * sizeof *column); /* -1: no entry */
    for (size_t a = 0; a < v; a++)
        for (size_t k = 0, i = a; k < s->t; k++)
            if (fabs(d[k + a * s->t]) > 1e-17 * most) {
                column[i] = (int)k;
                if (t == BACKEND_D)
                    ((double *)value)[i] = d[k + a * s->t];
                else
                    ((float *)value)[i] = (float)d[k + a * s->t];
                i += v;
            }
    const backend_rows r = {(int64_t)v, (int64_t)s->t, (int64_t)width,
                            send(v * width * sizeof *column, column),
                            send(v * width * backend_size(t), value)};
    free(d), free(column), free(value);
    return r;
}

static status times(backend_type t, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                    void *c) {
    const double one = 1, zero = 0;
    const float ones = 1, zeros = 0;
    const bool d = t == BACKEND_D;
    return be->gemm(ctx, t, 'N', 'N', m, n, k, d ? (const void *)&one : &ones, a, m, b, k,
                    d ? (const void *)&zero : &zeros, c, m, NULL, 0);
}

/* Time of a call, and of the processor [ms]. */
#define BOTH(wall, cpu, call)                                                                      \
    do {                                                                                           \
        const double from_ = (double)clock();                                                      \
        wall = 1e3 * TIME(call);                                                                   \
        cpu = 1e3 * ((double)clock() - from_) / CLOCKS_PER_SEC / (REPEAT + 1);                     \
    } while (0)

static void measure(int nssp, bool gradient, backend_type t, int64_t n) {
    sys s = {.diameter = 0.46 * nssp, .obs = 0.28};
    backend_filter f;
    double wall[4], cpu[4];
    s.ts = (sensor){.nssp = nssp, .altitude = INFINITY, .mag = 1};
    s.dm = (dmirror){.nssp = nssp, .coupling = 0.2, .mu = 3e-3};
    check(sys_derive(&s));
    s.ts.gradient = gradient;
    check(matcov_interaction_filter(&s, &f));
    const int64_t slopes = (int64_t)s.t, v = s.dm.nact;
    const size_t bytes = backend_size(t) * (size_t)((slopes + v) * n);
    f.square = send((size_t)f.squares * sizeof(int), s.ts.sub);
    f.corner = send((size_t)v * sizeof(int), s.dm.act);
    const backend_rows r = sparse_of(&s, t);
    void *ctm = numbers(t, slopes * n), *q = numbers(t, v * n), *out = numbers(t, v * n),
         *plus = numbers(t, v * slopes);
    BOTH(wall[0], cpu[0], be->sparse->filter(ctx, t, &f, n, 1, ctm, slopes, 0, q, v));
    BOTH(wall[1], cpu[1], times(t, v, n, v, plus, q, out)); /* H is as good as D+ begins */
    BOTH(wall[2], cpu[2], times(t, v, n, slopes, plus, ctm, out));
    BOTH(wall[3], cpu[3], be->sparse->times(ctx, t, &r, n, 1, ctm, slopes, 0, q, v));
    printf("%4d %6ld %6ld %3s %5d %10.3f %8.1f %10.3f %10.3f %10.3f %6.2f", nssp, (long)slopes,
           (long)v, t == BACKEND_D ? "D" : "S", f.reach, wall[0], (double)bytes / (wall[0] * 1e6),
           wall[1], wall[2], wall[3], (wall[0] + wall[1]) / wall[2]);
    if (be == &backend_cpu)
        printf("  %10.3f %10.3f %10.3f %10.3f %6.2f", cpu[0], cpu[1], cpu[2], cpu[3],
               (cpu[0] + cpu[1]) / cpu[2]);
    printf("\n");
    void *const all[] = {
        ctm, q, out, plus, (void *)r.column, (void *)r.value, (void *)f.square, (void *)f.corner};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        be->release(ctx, all[i]);
    sys_free(&s);
}

int main(int argc, char **argv) {
    const int64_t n = argc > 2 ? atol(argv[2]) : 512;
    static const int sizes[] = {16, 40, 84};
    char text[320];
    check(backend_get(argc > 1 ? argv[1] : "cpu", &be));
    check(be->open(0, NULL, &ctx));
    check(be->describe(0, text, sizeof text));
    printf("%s; %ld columns, mean gradients, coupling 0.2\n", text, (long)n);
    printf("nssp slopes  corners type reach  filter ms  GB/s       H ms      D+ ms   sparse ms  "
           "ratio%s\n",
           be == &backend_cpu ? "  the same, time of the processor" : "");
    for (int i = 0; i < (argc > 3 ? argc - 3 : 3); i++)
        for (int t = BACKEND_D; t <= BACKEND_S; t++)
            measure(argc > 3 ? atoi(argv[3 + i]) : sizes[i], true, (backend_type)t, n);
    be->close(ctx);
    return 0;
}
