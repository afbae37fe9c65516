/* Whether products by transforms of sensors on a common lattice pay on a CPU: processor time of all
 * exposures, by counts and measured times. */
#include "job/plan.h"

#include "base/machine_constants.h"
#include "matcov/matcov.h"
#include "residual/lattice_pairs.h"
#include "residual/pair_tiles.h"

#include <math.h>

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
                 .v = sys_commands(s),
                 .rows = o->phase ? (double)psf_points_of(s, o) : (double)s->t,
                 .phase = o->phase,
                 .tiled = matcov_tileable(s)};
    for (int i = 0; i < a->nprofile; i++)
        z->layers = fmax(z->layers, a->profiles[i].nlayer);
    TRY(lattice_pairs_init(s, false, &k));
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
    const double near = 1 + fmin(1, MACHINE_NEAR / (across * across)),
                 wide = matcov_wide() ? 0.5 : 1;
    const double look = wide * near * MACHINE_LOOK_UP, phase = wide * near * MACHINE_LOOK_UP_PHASE;
    const double m = z->m, t = z->t, v = z->v, rows = z->rows, layers = z->layers;
    const double truth = z->phase ? 0 : (2 * v * t * t + 2 * v * v * t) * MACHINE_FLOP;
    const double out = (2 * v * v * m + 2 * v * rows * m) * MACHINE_FLOP;
    const double seen =
        rows * m * (z->phase ? layers * phase + MACHINE_ENTRY_PHASE : layers * look);
    *dense = (cost){truth + z->unlike * layers * look, seen + v * m * m * MACHINE_FLOP + out};
    *grid = (cost){truth + z->unlike * layers * look,
                   seen + v * z->lattice * MACHINE_BUTTERFLY + out / 2};
    grid->target += v * z->unlike * (z->tiled ? z->kept * MACHINE_FLOP_TILED : MACHINE_FLOP);
    if (z->tiled)
        grid->common = truth + z->unlike * z->looks[0] *
                                   (layers * MACHINE_LOOK_UP_TILED + MACHINE_ENTRY_TILED);
    if (z->tiled && z->phase)
        grid->target +=
            rows * m * z->looks[1] * (layers * MACHINE_LOOK_UP_TILED + MACHINE_ENTRY_TILED_PHASE) -
            seen;
}

status plan_lattice_pays(const sys *s, bool *pays) {
    status st = MOAO_OK;
    lattice_pairs a = {0};
    double entries = 0;
    if (s->m >= MACHINE_LATTICE_MEASUREMENTS)
        TRY(lattice_pairs_init(s, false, &a));
    for (int g = 0; g < a.ngroup; g++) {
        double m = 0;
        for (int i = 0; i < a.group[g].nsensor; i++)
            m += 2.0 * s->sensors[a.group[g].sensor[i]].nsub;
        entries += m * m;
    }
done:
    lattice_pairs_close(NULL, &a);
    *pays = entries > 0 && entries >= MACHINE_LATTICE_SHARE * (double)s->m * (double)s->m;
    return st;
}

/* Time [s] that all exposures take with dense matrices, at most: without a count of pairs. */
static double most_time(const request *q) {
    const double m = (double)q->s->m, v = q->s->dm.nact, t = (double)q->s->t,
                 rows = q->o->phase ? (double)q->points : t,
                 look = 2 * (q->nlayer * MACHINE_LOOK_UP + MACHINE_ENTRY_PHASE);
    const double common = m * m * look + 2 * v * t * (t + v) * MACHINE_FLOP,
                 target = rows * m * look + v * m * (m + 2 * v + 2 * rows) * MACHINE_FLOP;
    return q->a->nexposure * (common + q->s->ntarget * target);
}

status plan_toeplitz_pays(const request *q, bool *pays) {
    const atmos *a = q->a;
    const double nt = q->s->ntarget, ne = a->nexposure;
    const double samples = a->ntor + (ne - a->ntor) / q->par->compute_mixed_samples;
    cost dense, grid;
    sizes z;
    status st = MOAO_OK;
    *pays = false;
    if (most_time(q) < q->par->compute_auto_saves)
        goto done;
    TRY(count(q->s, a, q->o, &z));
    times(q->s, &z, &dense, &grid);
    const double sample = MACHINE_SAMPLED * dense.common + dense.target,
                 first = MACHINE_FIRST * (grid.common + grid.target);
    const double all = ne * (dense.common + nt * dense.target);
    const double less =
        ne * (MACHINE_PASS + grid.common + nt * grid.target) + first + samples * sample;
    *pays = less < (1 - 1.0 / MACHINE_GAIN) * all && all - less >= q->par->compute_auto_saves;
done:
    return st;
}
