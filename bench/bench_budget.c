/* Times of what the error budget takes of a mirror before the first image: bench_budget
 * [params/mosaic.yaml [threads [key=value ...]]]. On the host, in the order of a run. D+ is of
 * numbers of no meaning, which takes as long. */
#include "budget/fitting.h"
#include "budget/truth.h"
#include "job/setup.h"
#include "timing.h"

#include <math.h>
#include <mpi.h>

static double began;

static void lap(const char *what) {
    const double t = now();
    printf("%-48s %8.2f s\n", what, t - began);
    fflush(stdout);
    began = now();
}

static void fill(double *d, size_t n) {
    for (size_t i = 0; i < n; i++)
        d[i] = 1e-3 * sin((double)(i % 10007));
}

static void bench(comm *c, const cmdline *cl) {
    enum { MOST = 64 };
    setup u;
    double *dplus, *mean, *g, L0[] = {20, 25}, out[2 * MOST] = {0};
    began = now();
    check(setup_init(c, cl, &u));
    lap("parameters, geometry");
    check(setup_psf(c, &u));
    lap("plans of the PSFs");
    const size_t v = (size_t)sys_commands(&u.s), t = u.s.t;
    check(ALLOC(dplus, v * t, "D+"));
    check(ALLOC(mean, v, "means"));
    check(ALLOC(g, v * v, "shapes"));
    fill(dplus, v * t);
    lap("(D+ of the bench)");
    check(mirror_shapes(u.ps, (int)v, mean, g));
    lap("shapes of the mirror");
    check(fitting_variance(c, &u.s, u.ps, 2, L0, out));
    lap("fitting error, two outer scales");
    check(truth_variance(c, &u.s, u.ps, dplus, mean, 2, L0, out));
    lap("aliasing, two outer scales");
    free(dplus);
    free(mean);
    free(g);
    setup_free(&u);
}

int main(int argc, char **argv) {
    comm world;
    MPI_Init(&argc, &argv);
    check(comm_init(MPI_COMM_SELF, &world));
    if (argc > 2)
        comm_set_threads(&world, atoi(argv[2]));
    const char *file = argc > 1 ? argv[1] : "params/mosaic.yaml";
    const cmdline cl = {.nfile = 1,
                        .files = &file,
                        .noverride = argc > 3 ? argc - 3 : 0,
                        .overrides = (const char **)argv + 3};
    printf("%s, %d threads\n", file, world.threads);
    bench(&world, &cl);
    comm_free(&world);
    MPI_Finalize();
    return 0;
}
