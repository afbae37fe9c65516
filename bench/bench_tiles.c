/* Ranks of tiles of the covariances of sensors that are not alike: bench_tiles [FILE [TOLERANCE]],
 * without words params/elt-small.yaml and 3e-6 of a slope's variance. For the profile of the first
 * exposure, and for its difference to that of the first reconstructor: of some tiles, by the
 * distance of their squares of the pupil, ranks, the numbers kept as a share of all, and what is
 * wrong in the mean; processor time against that of all entries. */
#include "job/setup.h"
#include "residual/lattice_pairs.h"
#include "residual/pair_tiles.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SAMPLE 400 /* tiles */

static double processor(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sum of the squares of what a tile of low rank has wrong. */
static double wrong(const matcov_tile *low, const matcov_tile *full) {
    const size_t m = 2 * (size_t)low->row->n, n = 2 * (size_t)low->col->n;
    double sum = 0;
    for (size_t i = 0; i < m && low->u != NULL; i++)
        for (size_t j = 0; j < n; j++) {
            double e = (double)full->v[i * n + j];
            for (size_t k = 0; k < (size_t)low->rank; k++)
                e -= (double)low->u[k * m + i] * (double)low->v[k * n + j];
            sum += e * e;
        }
    return sum;
}

static void table(const clusters *c, const tiling *t, const matcov_tile *full, double variance) {
    double kept = 0, all = 0, gap = 0;
    printf("squares apart  tiles  of low rank  mean rank  kept of all\n");
    for (int d = 0; d <= 2 * c->n * c->n; d++) {
        double here = 0, stored = 0;
        int n = 0, low = 0;
        long ranks = 0;
        for (int i = 0; i < t->ntile; i++) {
            const matcov_tile *k = &t->tile[i];
            const int a = c->square[t->out[i]], b = c->square[t->in[i]];
            const int x = a % c->n - b % c->n, y = a / c->n - b / c->n;
            const double rows = 2.0 * k->row->n, cols = 2.0 * k->col->n;
            if (x * x + y * y != d)
                continue;
            n++;
            low += k->u != NULL;
            ranks += k->u != NULL ? k->rank : 0;
            here += rows * cols;
            stored += k->u != NULL ? k->rank * (rows + cols) : rows * cols;
            gap += wrong(k, &full[i]);
        }
        if (n > 0)
            printf("%13.1f %6d %12d %10.1f %12.2f\n", sqrt(d), n, low,
                   low > 0 ? (double)ranks / low : 0.0, stored / here);
        kept += stored;
        all += here;
    }
    printf("%13s %6d %36.2f; error %.1e of a slope's variance, root mean square\n", "all", t->ntile,
           kept / all, sqrt(gap / all) / variance);
}

static status show(const matcov *mc, const clusters *c, tiling *t, double variance, double tol) {
    matcov_tile *full = NULL;
    double seconds[3];
    status st;
    TRY(ALLOC(full, (size_t)t->ntile, "tiles"));
    for (int i = 0; i < t->ntile; i++) {
        full[i] = t->tile[i];
        full[i].full = true;
    }
    seconds[0] = processor();
    TRY(matcov_tiles(mc, NULL, tol * variance, t->ntile, t->tile));
    seconds[1] = processor();
    TRY(matcov_tiles(mc, NULL, tol * variance, t->ntile, full));
    seconds[2] = processor();
    table(c, t, full, variance);
    printf("processor time %.3f s, of all entries %.3f s\n", seconds[1] - seconds[0],
           seconds[2] - seconds[1]);
    matcov_tiles_free(t->ntile, t->tile);
    matcov_tiles_free(t->ntile, full);
done:
    free(full);
    return st;
}

/* Every so manieth tile. */
static void thin(tiling *t) {
    const int step = t->ntile / SAMPLE > 1 ? t->ntile / SAMPLE : 1;
    int n = 0;
    for (int i = 0; i < t->ntile; i += step, n++) {
        t->tile[n] = t->tile[i];
        t->in[n] = t->in[i];
        t->out[n] = t->out[i];
    }
    t->ntile = n;
}

static status run(const setup *u, const comm *world, double tol) {
    const profile *p = atmos_profile_at(&u->a, u->a.exposure_time[0]);
    const profile *p0 = atmos_profile_at(&u->a, u->a.tor_time[0]);
    matcov *mc = NULL, *change = NULL;
    lattice_pairs a = {0};
    clusters c = {0};
    tiling t = {0};
    double bound, variance;
    status st;
    TRY(matcov_init(world, &u->s, p, &mc));
    TRY(matcov_prepare_difference(&u->s, p, p0, matcov_scale(p, p0), false, &change, &bound));
    TRY(lattice_pairs_init(&u->s, false, &a));
    TRY(clusters_init(&u->s, 0, NULL, NULL, &c));
    TRY(pair_tiles_init(&c, a.of, false, NULL, &t));
    variance = matcov_direct_cmm(&u->s, p, 0, 0);
    printf("%zu measurements, %d x %d squares, %d tiles, tolerance %.0e of %.3g arcsec^2\n", u->s.m,
           c.n, c.n, t.ntile, tol, variance);
    thin(&t);
    printf("Cmm of the exposure\n");
    TRY(show(mc, &c, &t, variance, tol));
    printf("its difference to the reconstructor's\n");
    TRY(show(change, &c, &t, variance, tol));
done:
    pair_tiles_free(&t);
    clusters_free(&c);
    lattice_pairs_close(NULL, &a);
    matcov_free(mc);
    matcov_free(change);
    return st;
}

int main(int argc, char **argv) {
    char *words[] = {"bench_tiles", argc > 1 ? argv[1] : "params/elt-small.yaml"};
    comm c;
    cmdline cl = {0};
    setup u;
    status st;
    TRY(cmdline_parse(2, words, "-o", &cl));
    setenv("OMPI_MCA_plm_rsh_agent", "/bin/false", 0);
    MPI_Init(NULL, NULL);
    TRY(comm_init(MPI_COMM_WORLD, &c));
    TRY(setup_init(&c, &cl, &u));
    TRY(run(&u, &c, argc > 2 ? atof(argv[2]) : 3e-6));
    comm_free(&c);
    MPI_Finalize();
done:
    if (st != MOAO_OK)
        fprintf(stderr, "%s\n", status_message());
    return status_exit_code(st);
}
