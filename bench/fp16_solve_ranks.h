/* Ranks of tiles of the Cholesky factor, for bench_fp16_solve. */
#ifndef MOAO_BENCH_FP16_SOLVE_RANKS_H
#define MOAO_BENCH_FP16_SOLVE_RANKS_H

#include "fp16_solve_case.h"

extern void dgesdd_(const char *, const int *, const int *, double *, const int *, double *,
                    double *, const int *, double *, const int *, double *, const int *, int *,
                    int *, size_t);

static int rank_at(const double *sv, int n, double error) {
    double rest = 0;
    int r = n;
    while (r > 0 && rest + sv[r - 1] * sv[r - 1] <= error * error) {
        rest += sv[r - 1] * sv[r - 1];
        r--;
    }
    return r;
}

/* Ranks of tiles drawn from below the diagonal: the error relative to the tile, and to the rms tile
 * of L. trace: of Cmm0. */
static void tile_ranks(int count, double trace) {
    enum { N = 256, LENGTH = 64 * N };
    static const double eps[] = {1e-3, 3e-4, 1e-4};
    static double x[N * N], sv[N], space[LENGTH];
    static int iwork[8 * N];
    const int n = N, length = LENGTH, one = 1;
    const int64_t nt = m / N;
    double norm;
    uint64_t seed = 88172645463325252u;
    if (nt < 2)
        return;
    norm = sqrt(trace) / (double)nt; /* |L|^2 is that */
    printf("tile_row,tile_column,norm,own_1e-3,own_3e-4,own_1e-4,all_1e-3,all_3e-4,all_1e-4\n");
    for (int k = 0; k < count; k++) {
        int info;
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        const int64_t p = (int64_t)((seed >> 20) % (uint64_t)nt),
                      q = (int64_t)((seed >> 4) % (uint64_t)nt);
        if (p == q)
            continue;
        const int64_t i = p > q ? p : q, j = p > q ? q : p;
        check(be->copy(ctx, x, N * 8, a + i * N + j * N * m, m * 8, N * 8, N));
        check(be->sync(ctx));
        dgesdd_("N", &n, &n, x, &n, sv, NULL, &one, NULL, &one, space, &length, iwork, &info, 1);
        double own = 0;
        for (int l = 0; l < N; l++)
            own += sv[l] * sv[l];
        own = sqrt(own);
        printf("%d,%d,%.4g", (int)i, (int)j, own / norm);
        for (int e = 0; e < 6; e++)
            printf(",%d", rank_at(sv, N, eps[e % 3] * (e < 3 ? own : norm)));
        printf("\n");
    }
}

#endif
