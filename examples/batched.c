/* A thousand small systems and singular value decompositions, each by one call: random matrices G,
 * their singular values, and the solution of (G^T G + I) x = b. Prints how far the sum of squared
 * singular values is from the squared Frobenius norm, the residual, and what a wrong argument is
 * told. With the installed library alone: cc batched.c $(pkg-config --cflags --libs moao-linalg)
 * -lm -o batched && ./batched [cpu|gpu|auto] */
#include <math.h>
#include <moao/batched.h>
#include <stdio.h>
#include <stdlib.h>

enum { ORDER = 24, SIZE = ORDER * ORDER, COUNT = 1000 };

/* Entries between -1 and 1. */
static void fill(double *g) {
    unsigned x = 1;
    for (int e = 0; e < SIZE * COUNT; e++) {
        x = x * 1664525u + 1013904223u;
        g[e] = x / 2147483648.0 - 1;
    }
}

/* Largest |sum s^2 - norm_F^2| / norm_F^2. */
static double values_off(const double *g, const double *s) {
    double worst = 0;
    for (int b = 0; b < COUNT; b++) {
        double norm = 0, sum = 0;
        for (int e = 0; e < SIZE; e++)
            norm += g[b * SIZE + e] * g[b * SIZE + e];
        for (int i = 0; i < ORDER; i++)
            sum += s[b * ORDER + i] * s[b * ORDER + i];
        worst = fmax(worst, fabs(sum - norm) / norm);
    }
    return worst;
}

/* Largest |(G^T G + I) x - 1|. */
static double residual(const double *g, const double *x) {
    double worst = 0;
    for (int b = 0; b < COUNT; b++) {
        double gx[ORDER] = {0};
        for (int j = 0; j < ORDER; j++)
            for (int i = 0; i < ORDER; i++)
                gx[i] += g[b * SIZE + j * ORDER + i] * x[b * ORDER + j];
        for (int j = 0; j < ORDER; j++) {
            double r = x[b * ORDER + j] - 1;
            for (int i = 0; i < ORDER; i++)
                r += g[b * SIZE + j * ORDER + i] * gx[i];
            worst = fmax(worst, fabs(r));
        }
    }
    return worst;
}

/* x := the solutions, s := singular values. Matrices lie in the memory of the context's device. */
static moao_status solve(const moao_backend *be, moao_backend_ctx *ctx, const double *g, double *x,
                         double *s) {
    double unit[SIZE] = {0};
    const int64_t matrices = 8 * SIZE * COUNT, vectors = 8 * ORDER * COUNT;
    void *dg = NULL, *da = NULL, *dx = NULL, *ds = NULL;
    moao_status st;
    for (int i = 0; i < ORDER; i++)
        unit[i * (ORDER + 1)] = 1;
    MOAO_TRY(be->alloc(ctx, (size_t)matrices, &dg));
    MOAO_TRY(be->alloc(ctx, (size_t)matrices, &da));
    MOAO_TRY(be->alloc(ctx, (size_t)vectors, &dx));
    MOAO_TRY(be->alloc(ctx, (size_t)vectors, &ds));
    for (int64_t b = 0; b < COUNT; b++)
        MOAO_TRY(be->copy(ctx, (double *)da + b * SIZE, 8 * SIZE, unit, 8 * SIZE, 8 * SIZE, 1));
    MOAO_TRY(be->copy(ctx, dg, matrices, g, matrices, matrices, 1));
    MOAO_TRY(be->copy(ctx, dx, vectors, x, vectors, vectors, 1));
    /* A := G^T G + A, x := A^-1 x, then the singular values of G, which is overwritten */
    MOAO_TRY(moao_dsyrk_strided_batched(ctx, 'L', 'T', ORDER, ORDER, 1, dg, ORDER, SIZE, 1, da,
                                        ORDER, SIZE, COUNT));
    MOAO_TRY(moao_dposv_strided_batched(ctx, 'L', ORDER, 1, da, ORDER, SIZE, dx, ORDER, ORDER, NULL,
                                        COUNT));
    MOAO_TRY(moao_dgesvj_strided_batched(ctx, 'N', 'N', ORDER, ORDER, dg, ORDER, SIZE, ds, ORDER,
                                         NULL, 0, 0, NULL, 0, 0, NULL, COUNT));
    MOAO_TRY(be->copy(ctx, x, vectors, dx, vectors, vectors, 1));
    MOAO_TRY(be->copy(ctx, s, vectors, ds, vectors, vectors, 1));
    MOAO_TRY(be->sync(ctx));
done:
    be->release(ctx, dg), be->release(ctx, da), be->release(ctx, dx), be->release(ctx, ds);
    return st;
}

int main(int argc, char **argv) {
    const moao_backend *be;
    moao_backend_ctx *ctx = NULL;
    double *g = malloc(sizeof *g * SIZE * COUNT), *x = malloc(sizeof *x * ORDER * COUNT),
           *s = malloc(sizeof *s * ORDER * COUNT);
    moao_status st = MOAO_MEMORY;
    if (!g || !x || !s)
        goto done;
    fill(g);
    for (int e = 0; e < ORDER * COUNT; e++)
        x[e] = 1;
    MOAO_TRY(moao_backend_get(argc > 1 ? argv[1] : "auto", &be));
    MOAO_TRY(be->open(0, NULL, &ctx));
    MOAO_TRY(solve(be, ctx, g, x, s));
    printf("%d matrices of order %d: singular values off by %.1e, residual %.1e\n", COUNT, ORDER,
           values_off(g, s), residual(g, x));
    if (moao_dpotrf_strided_batched(NULL, 'L', 5, g, 3, 25, NULL, 2) == MOAO_INPUT)
        printf("%s\n", moao_status_message());
    moao_status_clear();
done:
    if (st != MOAO_OK)
        fprintf(stderr, "batched: %s\n", moao_status_message());
    if (ctx)
        be->close(ctx);
    free(g), free(x), free(s);
    return moao_status_exit_code(st);
}
