/* Whether format grid pays on a CPU: processor time of all exposures, by counts and measured
 * times. */
#include "job/plan.h"

#include "matcov/matcov.h"
#include "residual/lattice_pairs.h"
#include "residual/pair_tiles.h"

#include <math.h>

/* Times of the CPU [s], measured: bench/results/cpu-grid.txt. An entry of Cmm or Ctm on a layer,
 * and one of Cpm, in double precision, far from each other; near ones (NEAR, in units of 1 /
 * nssp^2) take twice that, a processor with AVX-512 half. What an entry of Cpm takes besides, and
 * Cmm of a sample more than that of a run. */
#define LOOK_UP 4.2e-9
#define LOOK_UP_PHASE 3.1e-9
#define NEAR 210.0
#define ENTRY_PHASE 1.9e-8
#define SAMPLED 1.1
/* By tiles: an evaluation on a layer, and what goes with it once for all layers. */
#define LOOK_UP_TILED 3.2e-9
#define ENTRY_TILED 9e-9
#define ENTRY_TILED_PHASE 2.4e-8
/* A floating-point operation in double precision, single takes half; one of a product with tiles;
 * one of a product by transforms, for each vector, number and doubling of the lattice. */
#define FLOP 2.6e-11
#define FLOP_TILED 4e-11
#define BUTTERFLY 1.3e-10
/* An exposure besides; the first one of a run takes so much more of one target's time, for memory
 * that is touched for the first time. */
#define PASS 3e-3
#define FIRST 0.05
/* What has to be won: one part in so many. */
#define GAIN 20

/* Times [s] that targets share, and of each target. */
typedef struct {
    double common, target;
} cost;

typedef struct { /* of an exposure */
    double m, t, v, rows, layers;
    double unlike;  /* entries of sensors that are not alike, each pair once */
    double lattice; /* images of like ones and their lattices */
    bool phase, tiled;
    double kept, looks[2]; /* shares by tiles: of numbers; of evaluations, Cmm and Cpm */
} sizes;

static status count(const sys *s, const atmos *a, const psf_opts *o, sizes *z) {
    lattice_pairs k;
    status st;
    *z = (sizes){.m = (double)s->m,
                 .t = (double)s->t,
                 .v = s->dm.nact,
                 .rows = o->phase ? (double)psf_points_of(s, o) : (double)s->t,
                 .phase = o->phase,
                 .tiled = matcov_tileable(s)};
    for (int i = 0; i < a->nprofile; i++)
        z->layers = fmax(z->layers, a->profiles[i].nlayer);
    TRY(lattice_pairs_init(s, &k));
    for (int i = 0; i < s->nsensor; i++)
        for (int j = 0; j < i; j++)
            z->unlike += k.of[i] != k.of[j] ? 4.0 * s->sensors[i].nsub * s->sensors[j].nsub : 0;
    for (int g = 0; g < k.ngroup; g++) {
        const double n = k.group[g].shape.n, N = 2 * n, images = k.group[g].shape.nimage;
        z->lattice += images * N * (2 * (N + n) * log2(N) + N * images);
    }
    if (z->tiled) {
        const profile *p = atmos_profile_at(a, a->exposure_time[0]);
        z->kept = pair_tiles_share(s);
        z->looks[0] = pair_tiles_looks(s, p, k.of);
        z->looks[1] = o->phase ? pair_tiles_looks(s, p, NULL) : 0;
    }
done:
    lattice_pairs_close(NULL, &k);
    return st;
}

/* Both formats' exposures. */
static void times(const sys *s, const sizes *z, cost *dense, cost *grid) {
    double across = 1;
    for (int w = 0; w < s->nsensor; w++)
        across = fmax(across, s->sensors[w].nssp);
    const double near = 1 + fmin(1, NEAR / (across * across)), wide = matcov_wide() ? 0.5 : 1;
    const double look = wide * near * LOOK_UP, phase = wide * near * LOOK_UP_PHASE;
    const double m = z->m, t = z->t, v = z->v, rows = z->rows, layers = z->layers;
    const double truth = z->phase ? 0 : (2 * v * t * t + 2 * v * v * t) * FLOP;
    const double out = (2 * v * v * m + 2 * v * rows * m) * FLOP;
    const double seen = rows * m * (z->phase ? layers * phase + ENTRY_PHASE : layers * look);
    *dense = (cost){truth + z->unlike * layers * look, seen + v * m * m * FLOP + out};
    *grid = (cost){truth + z->unlike * layers * look, seen + v * z->lattice * BUTTERFLY + out / 2};
    grid->target += v * z->unlike * (z->tiled ? z->kept * FLOP_TILED : FLOP);
    if (z->tiled)
        grid->common = truth + z->unlike * z->looks[0] * (layers * LOOK_UP_TILED + ENTRY_TILED);
    if (z->tiled && z->phase)
        grid->target +=
            rows * m * z->looks[1] * (layers * LOOK_UP_TILED + ENTRY_TILED_PHASE) - seen;
}

/* Transforms of sensors on a common lattice on a GPU, in FP16: from so many measurements on, where
 * covariances of sensors on a common lattice are that share of Cmm. At 102,752 measurements and
 * 0.51 a target takes 0.125 s instead of 0.16 (bench/results/mixed-h200.txt). */
#define LATTICE_PAIRS_MEASUREMENTS 32768
#define LATTICE_PAIRS_SHARE 0.25

bool plan_lattice_pays(const sys *s) {
    lattice_pairs a = {0};
    double entries = 0;
    const status st = s->m < LATTICE_PAIRS_MEASUREMENTS ? MOAO_OK : lattice_pairs_init(s, &a);
    if (st != MOAO_OK)
        status_clear();
    for (int g = 0; g < a.ngroup && st == MOAO_OK; g++) {
        double m = 0;
        for (int i = 0; i < a.group[g].nsensor; i++)
            m += 2.0 * s->sensors[a.group[g].sensor[i]].nsub;
        entries += m * m;
    }
    lattice_pairs_close(NULL, &a);
    return entries > 0 && entries >= LATTICE_PAIRS_SHARE * (double)s->m * (double)s->m;
}

bool plan_toeplitz_pays(const params *par, const sys *s, const atmos *a, const psf_opts *o) {
    const double nt = s->ntarget, ne = a->nexposure;
    const double samples = a->ntor + (ne - a->ntor) / par->compute_mixed_samples;
    cost dense, grid;
    sizes z;
    if (count(s, a, o, &z) != MOAO_OK) {
        status_clear();
        return false;
    }
    times(s, &z, &dense, &grid);
    const double sample = SAMPLED * dense.common + dense.target,
                 first = FIRST * (grid.common + grid.target);
    return ne * (PASS + grid.common + nt * grid.target) + first + samples * sample <
           (1 - 1.0 / GAIN) * ne * (dense.common + nt * dense.target);
}
