#include "commands.h"

#include "backend/families.h"
#include "base/machine.h"
#include "base/machine_constants.h"
#include "base/progress.h"
#include "base/text.h"
#include "cmd_check.h"
#include "job/device.h"
#include "job/launch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cmd_check_usage[] =
    "usage: moao check FILE... [key=value ...] [options]\n"
    "\n"
    "Validates a parameter file and tells what a run of it takes: measurements,\n"
    "grids, memory, results, work, time (from a short dgemm measured here), whether\n"
    "this machine can compute it, and the lines to type. Nothing large is computed.\n"
    "\n"
    "  --ranks N     plan for N ranks (default: as many as suit the machine)\n"
    "  --memory GB   that a rank may use; with --nodes, --cores or --gpus: a node\n"
    "\n"
    "Planning for another machine than this one:\n"
    "\n"
    "  --nodes K     number of nodes (default: as many as it takes)\n"
    "  --cores C     of a node (default: those here)\n"
    "  --gpus G      of a node, computing on them (default: none); their memory is\n"
    "                compute.gpu_memory\n"
    "  --gpu NAME    of this model (\"RTX 4090\", A100-80GB), which need not be here:\n"
    "                its memory and rates; alone: one node with one of them\n"
    "  --gflops G    dgemm in double precision of one core, or of one GPU\n"
    "                (default: measured here; of a GPU that of its model, and where\n"
    "                none is named that of an H200, 64000)\n"
    "  --time H      longest time of a job, in hours or with a unit (default 24)\n"
    "\n"
    "  --json        all of it as JSON on standard output\n"
    "  --effective   nothing but every parameter as a run has it, defaults included,\n"
    "                as the file effective.yaml of a run; with --json a member of it\n";

/* Name of the results' folder for the lines to type: that of the last file, without its ending. */
static void choose_dir(const cmdline *cl, char *out, size_t size) {
    const char *file = cl->files[cl->nfile - 1], *slash = strrchr(file, '/');
    snprintf(out, size, "%s", slash != NULL ? slash + 1 : file);
    char *dot = strrchr(out, '.');
    if (dot != NULL && dot != out)
        *dot = '\0';
    if (strcmp(out, file) == 0)
        snprintf(out, size, "moao-out");
}

/* The machine of the options. */
static machine_kind described(const comm *c, const cmdline *cl, const gpu_model *model,
                              const machine *m) {
    machine_kind k = {.nodes = cl->nodes,
                      .ranks = cl->ranks,
                      .cores = cl->cores > 0 ? cl->cores : c->threads * c->node_size,
                      .gpus = cl->gpus,
                      .model = model,
                      .base = m->base};
    k.memory = cl->memory > 0 ? cl->memory : (double)m->available * c->node_size;
    k.rate = cl->gflops > 0 ? 1e9 * cl->gflops
             : cl->gpus > 0 ? gpu_model_rate(model != NULL ? model : gpu_model_reference())
                            : m->rate / m->threads;
    return k;
}

/* A node of many clusters, for a case that does not fit here. */
static machine_kind usual(const machine *m) {
    return (machine_kind){
        .cores = 64, .memory = 256e9, .base = m->base, .rate = m->rate / m->threads};
}

/* Whether there is a GPU here, and its model as far as it is known. */
static bool gpu_is_here(const gpu_model **model) {
    const backend *be;
    char text[320];
    const bool here = families_backend("gpu", &be) == MOAO_OK;
    *model = here && be->devices() > 0 && be->describe(0, text, sizeof text) == MOAO_OK
                 ? gpu_model_of_device(text)
                 : NULL;
    status_clear();
    return here;
}

/* The card of --gpu, which refuses a name that it does not know, or one that moao has no code for.
 */
static status named_model(cmdline *cl, const gpu_model **model) {
    *model = cl->gpu != NULL ? gpu_model_find(cl->gpu) : NULL;
    if (cl->gpu == NULL)
        return MOAO_OK;
    if (*model == NULL) {
        text t = {0};
        for (size_t i = 0; gpu_model_at(i) != NULL; i++)
            text_add(&t, "%s%s", i > 0 ? ", " : "", gpu_model_at(i)->name);
        const status st = status_fail(MOAO_INPUT, "--gpu: '%s' is none, or several, of %s", cl->gpu,
                                      t.s != NULL ? t.s : "the GPUs that are known");
        free(t.s);
        return st;
    }
    if (!gpu_model_serves(*model))
        return status_fail(MOAO_INPUT,
                           "--gpu: %s (compute %d.%d): moao has code for 8.0 (Ampere) and later; "
                           "use compute.backend=cpu",
                           (*model)->name, (*model)->major, (*model)->minor);
    cl->nodes = cl->nodes == 0 && cl->gpus == 0 ? 1 : cl->nodes;
    cl->gpus = cl->gpus > 0 ? cl->gpus : 1;
    return MOAO_OK;
}

/* GPUs that are asked about compute, or the question is refused. */
static status may_use_gpus(const cmdline *cl, const params *par) {
    const char *reason = device_host_only(par);
    if (reason == NULL && par->compute_backend == BACKEND_CPU)
        reason =
            par->mode == MODE_SPLIT ? "mode: split is computed on CPUs" : "compute.backend is cpu";
    if (cl->gpus == 0 || reason == NULL)
        return MOAO_OK;
    return status_fail(MOAO_INPUT, "--gpus: %s; ask about --nodes and --cores alone", reason);
}

/* This machine: its GPUs, else as many ranks of its cores as suit the case. */
static status plan_here(const comm *c, const request *q, const machine *m, double limit,
                        check_facts *f) {
    const int wanted = q->par->compute_backend, cores = m->threads;
    const bool alone = c->size == 1 && f->cl->ranks == 0;
    status st = MOAO_OK;
    const gpu_model *model;
    const bool gpu = gpu_is_here(&model);
    if (wanted == BACKEND_GPU || (wanted == BACKEND_AUTO && gpu)) {
        machine_kind k = {.nodes = 1, .gpus = m->nrank, .cores = cores * m->nrank, .model = model};
        k.memory = (double)m->available * m->nrank;
        k.base = m->base;
        k.rate = f->cl->gflops > 0 ? 1e9 * f->cl->gflops
                                   : gpu_model_rate(model != NULL ? model : gpu_model_reference());
        st = advise_nodes(q, &k, limit, &f->here);
        if (st != MOAO_OK || wanted == BACKEND_GPU || f->here.fits)
            return st;
    }
    const int threads = plan_threads(q->s, cores);
    if (alone && threads < cores) {
        machine shared = *m;
        const int most = q->s->ntarget; /* ranks beyond have none */
        shared.nrank = cores / threads < most ? cores / threads : most;
        shared.threads = threads;
        shared.rate = m->rate * threads / cores;
        shared.available = m->available / (size_t)shared.nrank;
        shared.total = m->total / (size_t)shared.nrank;
        st = advise_ranks(q, &shared, limit, &f->here);
        if (st != MOAO_OK || f->here.fits)
            return st;
    }
    return advise_ranks(q, m, limit, &f->here);
}

/* Rank 0. */
static status make_plans(const comm *c, const setup *u, const machine *m, check_facts *f) {
    const double limit = f->cl->limit > 0 ? f->cl->limit : ADVISE_LIMIT;
    status st = may_use_gpus(f->cl, u->par);
    if (st != MOAO_OK)
        return st;
    machine_kind k = f->described ? described(c, f->cl, f->model, m) : usual(m);
    st = request_init(u->par, &u->s, &u->a, &u->o, &f->q);
    if (st != MOAO_OK)
        return st;
    if (u->sampled)
        request_nodes(&f->q, &u->f);
    const int wanted = u->par->compute_backend;
    const gpu_model *model;
    const bool gpu = gpu_is_here(&model);
    request_for_gpu(&f->q, f->described ? f->model : model);
    st = request_predict(&f->q, f->described
                                    ? f->cl->gpus > 0
                                    : wanted == BACKEND_GPU || (wanted == BACKEND_AUTO && gpu));
    if (st == MOAO_OK && !f->described)
        st = plan_here(c, &f->q, m, limit, f);
    if (st == MOAO_OK && (f->described || (!f->here.fits && f->here.gpus == 0))) {
        f->elsewhere = true;
        f->node = k.memory;
        f->cores = k.cores;
        st = advise_nodes(&f->q, &k, limit, &f->there);
    }
    f->asked = k.memory;
    f->lacking = st == MOAO_OK && f->elsewhere && !f->there.fits && f->there.memory > 0;
    f->need = (double)f->there.memory;
    if (f->lacking && k.nodes > 0) { /* more of them */
        k.nodes = 0;
        st = advise_nodes(&f->q, &k, limit, &f->there);
    }
    if (st == MOAO_OK && f->lacking && !f->there.fits) {
        /* with as much memory on a node as one rank there needs at least */
        k.memory = ceil(1.02e-9 * (double)f->there.memory) * 1e9 * (k.gpus > 0 ? k.gpus : 1);
        f->node = k.memory;
        st = advise_nodes(&f->q, &k, limit, &f->there);
    }
    return st;
}

/* Rank 0. */
static status print_effective(const setup *u) {
    char *text = params_effective_text(u->par);
    if (text == NULL)
        return status_fail(MOAO_MEMORY, "effective parameters: no memory");
    fputs(text, stdout);
    free(text);
    return fflush(stdout) == 0 ? MOAO_OK : status_fail(MOAO_IO, "standard output: cannot write");
}

/* Collective. */
static status check_all(const comm *c, cmdline *cl, setup *u) {
    check_facts f = {.u = u, .cl = cl};
    char dir[256];
    status st;
    TRY(named_model(cl, &f.model));
    f.measured = !(cl->gflops > 0) && cl->gpus == 0;
    f.described = cl->nodes > 0 || cl->cores > 0 || cl->gpus > 0;
    choose_dir(cl, dir, sizeof dir);
    f.dir = dir;
    TRY(setup_init(c, cl, u));
    if (cl->effective && !cl->json)
        return comm_agree(c, c->rank == 0 ? print_effective(u) : MOAO_OK);
    const double memory = !f.described && cl->memory > 0 ? cl->memory : u->par->compute_memory;
    machine m = machine_measure(c, memory, f.measured ? plan_rate(&u->s) : MACHINE_NO_RATE);
    m.base += launch_memory();
    if (cl->gflops > 0)
        m.rate = 1e9 * cl->gflops * m.threads;
    if (cl->ranks > 0)
        m.nrank = cl->ranks;
    if (c->rank == 0) {
        TRY(make_plans(c, u, &m, &f));
        TRY(cl->json ? check_json(&f) : check_print(&f));
        fflush(stdout);
        machine_warn();
        st = setup_warn(u);
    }
done:
    return comm_agree(c, st);
}

int cmd_check(int argc, char **argv) {
    if (command_wants_help(argc, argv, cmd_check_usage))
        return 0;
    comm c;
    cmdline cl = {0};
    setup u = {0};
    status st = cmdline_parse(
        argc, argv,
        "--ranks --memory --nodes --cores --gpus --gpu --gflops --time --json --effective", &cl);
    if (st != MOAO_OK && !launch_is_rank()) {
        cmdline_free(&cl);
        return command_fail(st);
    }
    command_start(&argc, &argv);
    status joined = comm_init(MPI_COMM_WORLD, &c);
    st = joined != MOAO_OK ? joined : comm_agree(&c, st);
    if (st == MOAO_OK)
        st = check_all(&c, &cl, &u);
    setup_free(&u);
    return command_end(&c, &cl, st);
}
