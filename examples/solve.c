/* Solve A X = B for a symmetric positive definite A, on the GPU where there is one and on the CPU
 * otherwise, with the installed library alone: cc solve.c $(pkg-config --cflags --libs moao-linalg)
 * -lm -o solve && ./solve [cpu|gpu|auto] */
#include <math.h>
#include <moao/backend.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000, NRHS = 3 };

static double entry(int i, int j) {
    return exp(-abs(i - j) / 50.0) + (i == j);
}

/* Largest residual |A x - b| for b = 1. */
static double residual(const double *x) {
    double worst = 0;
    for (int k = 0; k < NRHS; k++)
        for (int i = 0; i < N; i++) {
            double r = -1;
            for (int j = 0; j < N; j++)
                r += entry(i, j) * x[j + k * N];
            worst = fmax(worst, fabs(r));
        }
    return worst;
}

static moao_status solve(const moao_backend *be, moao_backend_ctx *ctx, double *a, double *b,
                         int *info) {
    const size_t lwork = be->workspace(MOAO_BACKEND_POSV, MOAO_BACKEND_D, NRHS, N);
    void *da = NULL, *db = NULL, *di = NULL, *work = NULL;
    moao_status st;
    MOAO_TRY(be->alloc(ctx, sizeof(double) * N * N, &da));
    MOAO_TRY(be->alloc(ctx, sizeof(double) * N * NRHS, &db));
    MOAO_TRY(be->alloc(ctx, sizeof *info, &di));
    MOAO_TRY(be->alloc(ctx, lwork, &work));
    MOAO_TRY(be->copy(ctx, da, 8 * N, a, 8 * N, 8 * N, N));
    MOAO_TRY(be->copy(ctx, db, 8 * N, b, 8 * N, 8 * N, NRHS));
    MOAO_TRY(be->posv(ctx, MOAO_BACKEND_D, 'L', N, NRHS, da, N, db, N, di, work, lwork));
    MOAO_TRY(be->copy(ctx, b, 8 * N, db, 8 * N, 8 * N, NRHS));
    MOAO_TRY(be->copy(ctx, info, sizeof *info, di, sizeof *info, sizeof *info, 1));
    MOAO_TRY(be->sync(ctx));
done:
    be->release(ctx, da), be->release(ctx, db), be->release(ctx, di), be->release(ctx, work);
    return st;
}

int main(int argc, char **argv) {
    const moao_backend *be;
    moao_backend_ctx *ctx = NULL;
    char text[256];
    int info = -1;
    moao_status st;
    double *a = malloc(sizeof *a * N * N), *b = malloc(sizeof *b * N * NRHS);
    if (!a || !b)
        return 1;
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            a[i + j * N] = entry(i, j);
    for (int k = 0; k < N * NRHS; k++)
        b[k] = 1;
    MOAO_TRY(moao_backend_get(argc > 1 ? argv[1] : "auto", &be));
    MOAO_TRY(be->describe(0, text, sizeof text));
    MOAO_TRY(be->open(0, NULL, &ctx));
    MOAO_TRY(solve(be, ctx, a, b, &info));
    printf("%s: info %d, largest residual %.1e\n", text, info, residual(b));
    be->close(ctx);
done:
    if (st != MOAO_OK)
        fprintf(stderr, "%s\n", moao_status_message());
    free(a), free(b);
    return st == MOAO_OK && info == 0 ? 0 : 1;
}
