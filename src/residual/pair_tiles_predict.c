/* What products by tiles are expected to take, for the plan: counts from the geometry alone. */
#include "matcov/matcov.h"
#include "residual/pair_tiles.h"

#include <math.h>

/* Of a tile of low rank, against all of its entries: evaluations of its crosses, by the square of
 * its squares' distance (of all farther ones the last), and of a layer that is far from an
 * adjacent one (bench/results/cpu-tiles.txt, cpu-grid.txt). */
static const double crosses[] = {1, 1, 0.32, 0.24, 0.17, 0.14, 0.12, 0.11, 0.1, 0.08};
#define FARTHEST 9
#define FAR_LAYER 0.25

/* Subapertures across a square: ranks grow slower than its side, and the part of the blocks that
 * are near does, too (bench/results/cpu-tiles.txt). */
#define ACROSS 10.0

/* Squares across and sensors that are looked at, at most, for time's sake. */
#define MOST 32
#define SENSORS 40

int pair_tiles_squares(const sys *s) {
    int nssp = 1;
    for (int w = 0; w < s->nsensor; w++)
        nssp = s->sensors[w].nssp > nssp ? s->sensors[w].nssp : nssp;
    return (int)lround(nssp / ACROSS) > 1 ? (int)lround(nssp / ACROSS) : 1;
}

double pair_tiles_share(const sys *s) {
    return fmin(1.0, 1.8 / pair_tiles_squares(s));
}

/* Of pairs of squares that are d apart along an axis, the share that is near on a layer: footprints
 * of sizes a and b [m], n squares across, centres `offset` apart along that axis. */
static double near_share(int n, int d, double a, double b, double offset, double reach) {
    int near = 0, all = 0;
    for (int i = 0; i < n; i++)
        for (int j = i - d; j <= i + d; j += d > 0 ? 2 * d : 1) {
            if (j < 0 || j >= n)
                continue;
            const double apart = ((i + 0.5) / n - 0.5) * a - ((j + 0.5) / n - 0.5) * b + offset;
            near += fabs(apart) - (a + b) / (2 * n) < reach;
            all++;
        }
    return (double)near / all;
}

/* On one layer, of two pupils' squares: evaluations, as a share of all entries. */
static double layer_looks(int n, double a, double b, const double offset[2], double reach) {
    double near[2][MOST], sum = 0;
    for (int axis = 0; axis < 2; axis++)
        for (int d = 0; d < n; d++)
            near[axis][d] = near_share(n, d, a, b, offset[axis], reach);
    for (int dx = 0; dx < n; dx++)
        for (int dy = 0; dy < n; dy++) {
            const int apart = dx * dx + dy * dy;
            const double pairs =
                (double)((n - dx) * (dx > 0 ? 2 : 1)) * (n - dy) * (dy > 0 ? 2 : 1);
            const double close = near[0][dx] * near[1][dy];
            sum += pairs * (apart <= 1 ? close + (1 - close) * FAR_LAYER
                                       : crosses[apart < FARTHEST ? apart : FARTHEST]);
        }
    return sum / ((double)n * n * n * n);
}

/* Size of a cone on a layer [m], 0: the layer is above its star. */
static double footprint_size(const sys *s, double altitude, double h) {
    return s->diameter * fmax(0, 1 - h / altitude);
}

double pair_tiles_looks(const sys *s, const profile *p, const int *of) {
    const int n = pair_tiles_squares(s) < MOST ? pair_tiles_squares(s) : MOST;
    const int step = 1 + s->nsensor / SENSORS;
    double sum = 0, all = 0;
    for (int l = 0; l < p->nlayer; l++)
        for (int i = 0; i < s->nsensor; i += step)
            for (int j = of != NULL ? 0 : -1; j < (of != NULL ? i : 0); j += step) {
                /* j < 0: the phase in the direction of the target in the middle of the list */
                const sensor *x = &s->sensors[i], *y = j >= 0 ? &s->sensors[j] : &s->ts;
                const double *dir = j >= 0 ? y->dir : s->targets[s->ntarget / 2];
                const double a = footprint_size(s, x->altitude, p->h[l]),
                             b = footprint_size(s, j >= 0 ? y->altitude : INFINITY, p->h[l]);
                if ((j >= 0 && of[i] == of[j]) || a <= 0 || b <= 0 || p->strength[l] == 0)
                    continue;
                const double offset[2] = {p->h[l] * (x->dir[0] - dir[0]),
                                          p->h[l] * (x->dir[1] - dir[1])};
                const double pairs = (double)x->nsub * (j >= 0 ? y->nsub : 1);
                sum +=
                    pairs * layer_looks(n, a, b, offset, MATCOV_TILES_REACH * fmin(a, b) / x->nssp);
                all += pairs;
            }
    return all > 0 ? sum / all : 1;
}
