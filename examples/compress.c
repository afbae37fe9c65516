/* Compress a covariance matrix by tiles: points in the unit square with covariance exp(-distance /
 * 0.3), ordered so that neighbours stand together, cut into tiles; every tile off the diagonal
 * becomes U V^T to a relative tolerance, all tiles in one call. Prints the ranks and what is saved.
 * With the installed library alone: cc compress.c $(pkg-config --cflags --libs moao-linalg) -lm -o
 * compress && ./compress [cpu|gpu|auto] [tolerance] */
#include <math.h>
#include <moao/backend.h>
#include <stdio.h>
#include <stdlib.h>

/* TILES^2 tiles of SIDE x SIDE; MOST: columns that there is room for in U and V */
enum { TILES = 8, SIDE = 128, COUNT = TILES * TILES, MOST = 64 };

/* Bit-reversed coordinates order points as a quadtree does: first the quadrant, then its quadrant.
 */
static double coordinate(int point, int axis) {
    double x = 0, step = 0.5;
    for (int bit = 9 - axis; bit >= 0; bit -= 2, step /= 2)
        x += (point >> bit & 1) * step;
    return x;
}

static double covariance(int i, int j) {
    return exp(-hypot(coordinate(i, 0) - coordinate(j, 0), coordinate(i, 1) - coordinate(j, 1)) /
               0.3);
}

static void fill(double *a) {
    for (int t = 0; t < COUNT; t++)
        for (int j = 0; j < SIDE; j++)
            for (int i = 0; i < SIDE; i++)
                a[((size_t)t * SIDE + j) * SIDE + i] =
                    covariance(t % TILES * SIDE + i, t / TILES * SIDE + j);
}

/* Tiles on the diagonal, and those for which MOST columns are too few, stay as they are. */
static bool is_compressed(int t, const int *info) {
    return t % TILES != t / TILES && info[t] == 0;
}

/* Largest error of a compressed tile relative to its norm. */
static double worst_error(const double *a, const double *u, const double *v, const int64_t *rank,
                          const int *info) {
    double worst = 0;
    for (int t = 0; t < COUNT; t++) {
        double off = 0, norm = 0;
        if (!is_compressed(t, info))
            continue;
        for (int j = 0; j < SIDE; j++)
            for (int i = 0; i < SIDE; i++) {
                double x = a[((size_t)t * SIDE + j) * SIDE + i];
                norm += x * x;
                for (int64_t p = 0; p < rank[t]; p++)
                    x -=
                        u[((size_t)t * MOST + p) * SIDE + i] * v[((size_t)t * MOST + p) * SIDE + j];
                off += x * x;
            }
        worst = fmax(worst, sqrt(off / norm));
    }
    return worst;
}

static void print(const int64_t *rank, const int *info, double error) {
    int64_t kept = 0;
    int missed = 0;
    for (int i = 0; i < TILES; i++) {
        for (int j = 0; j < TILES; j++) {
            const int t = i + j * TILES;
            printf(i == j ? "   *" : "%4d", (int)rank[t]);
            kept += is_compressed(t, info) ? 2 * SIDE * rank[t] : SIDE * SIDE;
            missed += i != j && info[t] != 0;
        }
        printf("\n");
    }
    printf(
        "ranks of the tiles of order %d; %.0f %% of the matrix is kept, %d tiles off the diagonal "
        "need more than %d columns, largest error of the others %.1e\n",
        SIDE, 100.0 * (double)kept / ((double)COUNT * SIDE * SIDE), missed, MOST, error);
}

/* u, v, rank, info := those of all tiles in one call. */
static moao_status compress(const moao_backend *be, moao_backend_ctx *ctx, double tol,
                            const double *a, double *u, double *v, int64_t *rank, int *info) {
    const moao_batch_cut cut = {.tol = tol, .kind = 'R', .norm = 'F', .most = MOST};
    const moao_batch_dim side = moao_batch_size(SIDE);
    const int64_t bytes = 8 * SIDE * SIDE * COUNT, half = 8 * SIDE * MOST * COUNT;
    const size_t lwork =
        be->lowrank->workspace(MOAO_BATCH_ARA, MOAO_BACKEND_D, COUNT, SIDE, SIDE, MOST);
    void *da = NULL, *du = NULL, *dv = NULL, *dr = NULL, *di = NULL, *work = NULL;
    moao_status st;
    MOAO_TRY(be->alloc(ctx, (size_t)bytes, &da));
    MOAO_TRY(be->alloc(ctx, (size_t)half, &du));
    MOAO_TRY(be->alloc(ctx, (size_t)half, &dv));
    MOAO_TRY(be->alloc(ctx, 8 * COUNT, &dr));
    MOAO_TRY(be->alloc(ctx, sizeof(int) * COUNT, &di));
    MOAO_TRY(be->alloc(ctx, lwork + 1, &work));
    MOAO_TRY(be->copy(ctx, da, bytes, a, bytes, bytes, 1));
    MOAO_TRY(be->lowrank->ara(ctx, MOAO_BACKEND_D, 'L', &cut, 1, COUNT, side, side,
                              moao_batch_strided(da, SIDE, SIDE * SIDE),
                              moao_batch_strided(du, SIDE, SIDE * MOST),
                              moao_batch_strided(dv, SIDE, SIDE * MOST), dr, di, work, lwork));
    MOAO_TRY(be->copy(ctx, u, half, du, half, half, 1));
    MOAO_TRY(be->copy(ctx, v, half, dv, half, half, 1));
    MOAO_TRY(be->copy(ctx, rank, 8 * COUNT, dr, 8 * COUNT, 8 * COUNT, 1));
    MOAO_TRY(be->copy(ctx, info, 4 * COUNT, di, 4 * COUNT, 4 * COUNT, 1));
    MOAO_TRY(be->sync(ctx));
done:
    be->release(ctx, da), be->release(ctx, du), be->release(ctx, dv);
    be->release(ctx, dr), be->release(ctx, di), be->release(ctx, work);
    return st;
}

int main(int argc, char **argv) {
    const moao_backend *be;
    moao_backend_ctx *ctx = NULL;
    double *a = malloc(sizeof(double) * SIDE * SIDE * COUNT),
           *u = calloc((size_t)SIDE * MOST * COUNT, sizeof(double)),
           *v = calloc((size_t)SIDE * MOST * COUNT, sizeof(double));
    int64_t rank[COUNT];
    int info[COUNT];
    moao_status st = MOAO_MEMORY;
    if (!a || !u || !v)
        goto done;
    fill(a);
    MOAO_TRY(moao_backend_get(argc > 1 ? argv[1] : "auto", &be));
    MOAO_TRY(be->open(0, NULL, &ctx));
    MOAO_TRY(compress(be, ctx, argc > 2 ? atof(argv[2]) : 1e-3, a, u, v, rank, info));
    print(rank, info, worst_error(a, u, v, rank, info));
done:
    if (st != MOAO_OK)
        fprintf(stderr, "compress: %s\n", moao_status_message());
    if (ctx)
        be->close(ctx);
    free(a), free(u), free(v);
    return moao_status_exit_code(st);
}
