#include "commands.h"

#include "job/noise_table.h"
#include "job/plan.h"
#include "machine.h"
#include "progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: moao check FILE... [key=value ...] [--ranks N] [--memory GB]\n"
    "\n"
    "Validates a parameter file and prints what follows from it: measurements, actuators, grid of "
    "the PSFs, memory\n"
    "per rank, outputs, work, expected time (from a short dgemm measured here) and the SLURM line "
    "to use.\n"
    "\n"
    "  --ranks N    plan for N ranks (default: the ranks of this call)\n"
    "  --memory GB  that a rank may use (default: compute.memory, or what this machine has free)\n";

/* Share of dgemm's rate that the linear algebra of a run reaches, and time of one evaluation of the
 * structure function on one thread [s]: measured, see bench/results/cpu-matcov.txt. */
#define EFFICIENCY 0.8
#define EVALUATION 3e-9

static void print_sensors(const sys *s) {
    printf("sensors         %-16s %-4s %6s %12s  %s\n", "name", "type", "nssp", "measurements",
           "direction [arcsec]");
    for (int w = 0; w < s->nsensor; w++) {
        const sensor *k = &s->sensors[w];
        printf("  %2d            %-16s %-4s %6d %12d  (%.1f, %.1f)\n", w, k->name,
               k->lgs ? "LGS" : "NGS", k->nssp, 2 * k->nsub, k->dir[0] * ARCSEC_PER_RAD,
               k->dir[1] * ARCSEC_PER_RAD);
    }
    printf("measurements    %zu in all\n", s->m);
    printf("truth sensor    %d subapertures across, %zu measurements\n", s->ts.nssp, s->t);
    printf("DM              %d actuators, pitch %.3f m\n", s->dm.nact, s->dm.pitch);
}

static void print_sequence(const setup *u) {
    const sys *s = &u->s;
    int layers = 0;
    double lo = INFINITY, hi = 0;
    for (int i = 0; i < u->a.nprofile; i++) {
        const profile *p = &u->a.profiles[i];
        layers = p->nlayer > layers ? p->nlayer : layers;
        lo = p->r0 < lo ? p->r0 : lo;
        hi = p->r0 > hi ? p->r0 : hi;
    }
    if (s->grid[0] > 0)
        printf("targets         %d x %d\n", s->grid[0], s->grid[1]);
    else
        printf("targets         %d\n", s->ntarget);
    printf("atmosphere      %d profiles of up to %d layers\n", u->a.nprofile, layers);
    printf("line of sight   r0 %.3f to %.3f m, seeing %.2f to %.2f arcsec (0.976 x 500 nm/r0)\n",
           lo, hi, SEEING_LAMBDA / hi * ARCSEC_PER_RAD, SEEING_LAMBDA / lo * ARCSEC_PER_RAD);
    printf("schedule        %d reconstructors, %d exposures\n", u->a.ntor, u->a.nexposure);
    printf("PSF             grid of %d x %d, pixel %.4f m; %d x %d pixels kept\n",
           psf_grid_size(u->ps), psf_grid_size(u->ps), psf_grid_pixel(u->ps), u->o.crop, u->o.crop);
    for (int l = 0; l < u->o.nlambda; l++)
        printf("  %.4g um       pixel %.3f mas\n", u->o.lambda[l] * 1e6,
               psf_image_pixel(u->ps, l) * ARCSEC_PER_RAD * 1e3);
}

static void print_time(double seconds) {
    if (seconds < 1)
        printf("under 1 s");
    else if (seconds < 120)
        printf("%.0f s", seconds);
    else if (seconds < 7200)
        printf("%.0f min", seconds / 60);
    else
        printf("%.1f h", seconds / 3600);
}

static void print_plan(const plan *p, const machine_room *room, int nexposure) {
    const int nrank = room->nrank, threads = room->threads;
    printf("ranks           %d of %d threads; Cmm on a grid of %d x %d; %d ranks a target\n", nrank,
           threads, p->nprow, p->npcol, p->group_size);
    printf("targets         %d at a time\n", p->chunk);
    printf("memory          %.3f GB on the fullest rank\n", (double)p->memory / 1e9);
    for (int i = 0; i < p->nitem; i++)
        printf("  %9.3f GB  %s\n", (double)p->item[i].bytes / 1e9, p->item[i].name);
    double total = 0;
    for (int i = 0; i < STAGE_COUNT; i++)
        total += p->flops[i];
    printf("work            %.3g flop (reconstructors %.0f %%, exposures %.0f %%)\n", total,
           100 * (p->flops[STAGE_FACTOR] + p->flops[STAGE_SOLVE]) / total,
           100 * p->flops[STAGE_EXPOSURE] / total);
    printf("output          %.3g GB\n", p->output / 1e9);
    double time =
        total / (EFFICIENCY * room->rate * nrank) + p->evaluations * EVALUATION / (nrank * threads);
    printf("expected time   ");
    print_time(time);
    printf(" (dgemm measured here: %.1f GFLOP/s a rank)\n", room->rate / 1e9);
    double step = time * p->flops[STAGE_EXPOSURE] / total / (p->nchunk * nexposure);
    printf("checkpoints     interval ");
    print_time(step);
    printf("\n");
    int minutes = (int)ceil(1.5 * time / 60) + 5, notice = 120 + 2 * (int)ceil(step);
    printf(
        "SLURM           sbatch --ntasks=%d --cpus-per-task=%d --mem-per-cpu=%.0fM --time=%d \\\n"
        "                --signal=B:USR1@%d scripts/moao.sbatch FILE\n",
        nrank, threads, ceil(1.15 * (double)p->memory / threads / 1048576), minutes, notice);
}

/* Memory of a GPU, for as many targets at a time as fit, and what its host must offer. */
static void print_device(const plan *p, const machine_room *room, double memory) {
    const device_plan *d = &p->device;
    const int n = p->chunk < d->fits ? p->chunk : d->fits;
    printf("GPU             %.3f GB of %.3f GB, with W of %d target%s; %d would fit\n",
           (double)(d->fixed + (size_t)n * d->target) / 1e9, memory / 1e9, n, n == 1 ? "" : "s",
           d->fits);
    for (int i = 0; i < d->nitem; i++)
        printf("  %9.3f GB  %s\n", (double)d->item[i].bytes / 1e9, d->item[i].name);
    printf("  %9.3f GB  %s, times %d\n", (double)d->target / 1e9, d->per_target, n);
    printf("GPU's host      %.3f GB for each rank\n", (double)p->memory / 1e9);
    for (int i = 0; i < p->nitem; i++)
        printf("  %9.3f GB  %s\n", (double)p->item[i].bytes / 1e9, p->item[i].name);
    if (plan_check_host(p, room) != MOAO_OK)
        printf("  not here: %.3f GB are available\n", (double)room->available / 1e9);
    status_clear();
}

/* Local. The plan for GPUs, which need not be here, and then the one for the CPU's ranks unless
 * only GPUs are wanted. */
static status check_plans(const setup *u, const machine_room *room) {
    const params *par = &u->par;
    const int wanted = par->compute_backend, chunk = par->compute_targets_per_chunk;
    plan p;
    status st = MOAO_OK;
    if (wanted != BACKEND_CPU) {
        st = plan_make_resident(par, &u->s, &u->a, &u->o, room, chunk, par->compute_gpu_memory, &p);
        if (st == MOAO_OK) {
            print_device(&p, room, par->compute_gpu_memory);
        } else if (wanted == BACKEND_AUTO) {
            printf("GPU             too little memory: %s\n", status_message());
            status_clear();
            st = MOAO_OK;
        }
    }
    if (st == MOAO_OK && wanted != BACKEND_GPU &&
        (st = plan_make(par, &u->s, &u->a, &u->o, room, chunk, &p)) == MOAO_OK)
        print_plan(&p, room, u->a.nexposure);
    return st;
}

/* Collective. */
static status check_all(const comm *c, const cmdline *cl, setup *u) {
    status st;
    TRY(setup_init(c, cl, u));
    machine_room room = machine_measure(c, cl->memory > 0 ? cl->memory : u->par.compute_memory);
    if (cl->ranks > 0)
        room.nrank = cl->ranks;
    if (c->rank == 0) {
        print_sensors(&u->s);
        noise_table_print(&u->s, atmos_profile_at(&u->a, u->a.exposure_time[0]));
        print_sequence(u);
        TRY(check_plans(u, &room));
        const char *slow = machine_blas_warning(room.rate, room.threads);
        if (slow != NULL)
            progress_warn("%s", slow);
        st = setup_warn(u);
    }
done:
    return comm_agree(c, st);
}

int cmd_check(int argc, char **argv) {
    if (command_wants_help(argc, argv, usage))
        return 0;
    comm c;
    cmdline cl = {0};
    setup u = {0};
    command_start(&argc, &argv);
    status st = comm_init(MPI_COMM_WORLD, &c);
    if (st == MOAO_OK)
        st = comm_agree(&c, cmdline_parse(argc, argv, "--ranks --memory ", &cl));
    if (st == MOAO_OK)
        st = check_all(&c, &cl, &u);
    setup_free(&u);
    return command_end(&c, &cl, st);
}
