/* PSFs of one target at full scale by the CPU's and the GPU's backend: bench_psf_gpu
 * [params/mosaic.yaml]. Prints the time of the stationary average, with what share of the memory's
 * rate it reads the covariance, and of all that follows from it. */
#include "backend/backend_psf.h"
#include "job/setup.h"
#include "params/params.h"
#include "timing.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define RATE 4300e9 /* bytes per second that a copy reads and writes on an H200 */

static comm world;

/* Commands of 200 nm rms, correlated over a few actuators. */
static void fill_commands(const psf_model *m, double *y) {
    const int side = m->n + 1;
    for (int b = 0; b < m->nact; b++)
        for (int a = 0; a < m->nact; a++) {
            int dx = m->place[b] % side - m->place[a] % side;
            int dy = m->place[b] / side - m->place[a] / side;
            y[(size_t)b * (size_t)m->nact + (size_t)a] = 4e-14 / (1 + 0.1 * (dx * dx + dy * dy));
        }
}

static void bench(const backend *be, const psf_model *m, const psf_fit *fit) {
    const backend_psf *ops = psf_backend(be);
    const size_t v = (size_t)m->nact, nsep = (size_t)(2 * m->n + 1) * (size_t)(2 * m->n + 1);
    const int64_t bytes = (int64_t)(v * v * sizeof(double));
    char text[256];
    backend_ctx *ctx;
    backend_imager *p;
    psf_fit_model f;
    double *y, *sum, *host = malloc((size_t)bytes);
    double *scalars = malloc((size_t)m->nlambda * (3 + (size_t)m->nbox) * sizeof *scalars);
    check(be->describe(0, text, sizeof text));
    check(be->open(0, NULL, &ctx));
    printf("%s\n", text);
    double from = now();
    check(ops->open(ctx, m, &p));
    printf("  %-20s %9.3f ms\n", "open", 1e3 * (now() - from));
    psf_fit_model_init(fit, &f);
    check(ops->load(p, &f));
    check(be->alloc(ctx, (size_t)bytes, (void **)&y));
    check(be->alloc(ctx, nsep * sizeof(double), (void **)&sum));
    fill_commands(m, host);
    check(be->copy(ctx, y, bytes, host, bytes, bytes, 1));
    double t = TIME(ops->average(p, y, m->nact, true, sum));
    printf("  %-20s %9.3f ms  %5.1f %% of %.0f GB/s\n", "average", 1e3 * t,
           100 * (double)bytes / t / RATE, RATE / 1e9);
    t = TIME(ops->compute(p, 0, sum, NULL, NULL));
    check(ops->collect(p, 0, scalars, NULL));
    printf("  %-20s %9.3f ms  %d wavelengths, grid %d; Strehl ratio %.6f, FWHM %.6f mas\n",
           "compute", 1e3 * t, m->nlambda, m->N, scalars[0], scalars[1] * ARCSEC_PER_RAD * 1e3);
    be->release(ctx, y);
    be->release(ctx, sum);
    ops->close(p);
    be->close(ctx);
    free(scalars);
    free(host);
}

int main(int argc, char **argv) {
    const char *file = argc > 1 ? argv[1] : "params/mosaic.yaml";
    double L0 = 25, h = 0, strength = 23.6; /* r0 of 15 cm */
    const profile one = {.nlayer = 1, .h = &h, .L0 = &L0, .strength = &strength, .r0 = 0.15};
    const backend *gpu;
    params par;
    psf_opts o;
    psf_model model;
    psf_fit *fit;
    psf *p;
    sys s;
    MPI_Init(&argc, &argv);
    check(comm_init(MPI_COMM_SELF, &world));
    check(params_load(&world, 1, &file, 0, NULL, &par));
    check(sys_init(&par, &s));
    params_psf_opts(&par, &o);
    check(psf_init(&s, &o, &p));
    psf_model_init(p, &model);
    double from = now();
    check(psf_fit_init(p, &one, &fit));
    printf("%s\nfitting error on the host %.3f ms\n", file, 1e3 * (now() - from));
    bench(&backend_cpu, &model, fit);
    if (backend_get("gpu", &gpu) == MOAO_OK)
        bench(gpu, &model, fit);
    else
        printf("%s\n", status_message());
    psf_fit_free(fit);
    psf_free(p);
    comm_free(&world);
    MPI_Finalize();
    return 0;
}
