#include "job/advise.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WEEK (7 * 86400.0)
#define MOST_NODES 4096
#define THREADS 8         /* of a rank, at least, where the node has them */
#define MOST_NOTICE 65535 /* SLURM's limit [s] */

/* Times of jobs that follow from the plan. */
static void find_jobs(double limit, advice *a) {
    const plan *p = &a->p;
    const double chunk = p->chunk;
    a->step = p->time.common + p->time.exposure * chunk;
    a->first = p->time.start + p->time.tor + p->time.solve * chunk + a->step;
    a->notice = (int)fmin(120 + 2 * ceil(a->step), MOST_NOTICE);
    a->limit = limit;
    /* half as much again for what the estimate misses */
    if (1.5 * p->time.total + 300 <= limit) {
        a->limit = ceil((1.5 * p->time.total + 300) / 60) * 60;
        a->jobs = 1;
    } else if (a->first + a->notice < limit) {
        double jobs = ceil(1.5 * p->time.total / (limit - a->notice - (a->first - a->step)));
        a->jobs = jobs > INT_MAX / 2 ? INT_MAX / 2 : (int)fmax(jobs, 2);
    } else {
        a->jobs = 0;
    }
}

/* The plan for a->m. */
static status make_plan(const request *q, double limit, advice *a) {
    machine *m = &a->m;
    status st;
    if (a->gpus == 0 && request_own_device(q, m->nrank)) {
        m->devices = m->host = m->own = true; /* each rank is its own device */
        m->device_free = m->device_memory = INFINITY;
        m->sharing = m->nnode > 0 ? (m->nrank + m->nnode - 1) / m->nnode : m->nrank;
    }
    st = plan_make(q, m, q->par->compute_targets_per_chunk, &a->p);
    a->memory = plan_rank_memory(&a->p);
    a->fits = st == MOAO_OK && a->memory <= m->available;
    if (st == MOAO_INPUT && a->p.memory[PLAN_HOST].n + a->p.memory[PLAN_DEVICE].n > 0) {
        status_clear(); /* it does not fit */
        st = MOAO_OK;
    }
    a->limit = limit;
    a->notice = 120;
    if (a->fits)
        find_jobs(limit, a);
    if (st == MOAO_OK)
        st = plan_check_named(q, &a->p);
    return st;
}

status advise_ranks(const request *q, const machine *m, double limit, advice *a) {
    *a = (advice){.m = *m};
    return make_plan(q, limit, a);
}

/* So many nodes with so many ranks each. */
static status try_nodes(const request *q, const machine_kind *k, int nodes, int per_node,
                        double limit, advice *a) {
    const int threads = k->cores / per_node > 0 ? k->cores / per_node : 1;
    double rate = k->rate * (k->gpus > 0 ? 1 : threads);
    const double device = k->model != NULL ? gpu_model_usable(k->model) : INFINITY;
    *a = (advice){.nodes = nodes, .gpus = k->gpus};
    a->m = (machine){.nrank = k->ranks > 0 ? k->ranks : nodes * per_node,
                     .nnode = nodes,
                     .threads = threads,
                     .rate = k->gpus > 0 ? 0 : rate, /* of the host of GPUs: not known */
                     .base = k->base,
                     .peak = k->base,
                     .available = (size_t)(k->memory / per_node),
                     .devices = k->gpus > 0,
                     .sharing = 1,
                     .device_free = device,
                     .device_memory = device,
                     .device_rate = rate,
                     .model = k->model};
    a->m.total = a->m.available;
    return make_plan(q, limit, a);
}

/* Ranks of a node: as asked for, one for each GPU, or as many as leave each some threads and
 * memory. */
static status on_nodes(const request *q, const machine_kind *k, int nodes, double limit,
                       advice *a) {
    if (k->gpus > 0)
        return try_nodes(q, k, nodes, k->gpus, limit, a);
    if (k->ranks > 0)
        return try_nodes(q, k, nodes, (k->ranks + nodes - 1) / nodes, limit, a);
    status st = MOAO_OK;
    const int least = k->cores < THREADS ? k->cores : THREADS;
    for (int threads = least; threads <= k->cores; threads++) {
        if (k->cores % threads != 0)
            continue;
        st = try_nodes(q, k, nodes, k->cores / threads, limit, a);
        if (st != MOAO_OK || a->fits)
            break;
    }
    return st;
}

status advise_nodes(const request *q, const machine_kind *kind, double limit, advice *a) {
    if (kind->nodes > 0)
        return on_nodes(q, kind, kind->nodes, limit, a);
    status st = MOAO_OK;
    for (int n = 1; n <= MOST_NODES; n *= 2) {
        advice next;
        if ((st = on_nodes(q, kind, n, limit, &next)) != MOAO_OK)
            break;
        *a = next;
        if (next.fits && next.p.time.total <= WEEK)
            break;
    }
    return st;
}

/* --- the line for SLURM --- */

long advise_core_memory(const advice *a) {
    const double mib = 1048576, rank = 1.15 * (double)a->memory / mib + 256;
    long each = ((long)ceil(rank / a->m.threads) + 49) / 50 * 50;
    const long has = (long)((double)a->m.available / mib / a->m.threads);
    return a->nodes > 0 && a->fits && each > has ? has : each; /* no more than there is */
}

void advise_word(text *out, const char *word) {
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:@%";
    if (*word != '\0' && word[strspn(word, plain)] == '\0') {
        text_add(out, "%s", word);
        return;
    }
    text_add(out, "'");
    for (; *word != '\0'; word++)
        text_add(out, *word == '\'' ? "'\\''" : "%c", *word);
    text_add(out, "'");
}

/* A word of the line, on a new line of the terminal where it would pass column 76. */
static void add_word(text *out, size_t *column, const char *word) {
    text w = {0};
    advise_word(&w, word);
    const size_t n = w.s != NULL ? w.len : 0;
    if (*column > 0 && *column + n + 3 > 76) {
        text_add(out, " \\\n    ");
        *column = 4;
    } else if (*column > 0) {
        text_add(out, " ");
        *column += 1;
    }
    text_add(out, "%s", w.s != NULL ? w.s : "");
    if (w.failed != MOAO_OK)
        out->failed = w.failed;
    *column += n;
    free(w.s);
}

void advise_script(const char *name, char *path, size_t size) {
    static const char *const places[] = {"../share/moao/scripts", "../scripts", "scripts"};
    char exe[PATH_MAX], full[PATH_MAX + 128], here[PATH_MAX], real[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(exe, '/');
    snprintf(path, size, "scripts/%s", name);
    if (slash == NULL)
        return;
    *slash = '\0';
    for (int i = 0; i < 3; i++) {
        snprintf(full, sizeof full, "%s/%s/%s", exe, places[i], name);
        if (access(full, R_OK) != 0 || realpath(full, real) == NULL)
            continue;
        const size_t n = getcwd(here, sizeof here) != NULL ? strlen(here) : 0;
        bool below = n > 0 && strncmp(real, here, n) == 0 && real[n] == '/';
        snprintf(path, size, "%s", below ? real + n + 1 : real);
        return;
    }
}

/* Whether a program of this name on the PATH is that file. */
static bool on_the_path(const char *name, const char *file) {
    const char *path = getenv("PATH");
    char *copy = path != NULL ? strdup(path) : NULL, *rest = NULL, full[PATH_MAX];
    struct stat here, there;
    bool same = false;
    for (char *p = copy != NULL ? strtok_r(copy, ":", &rest) : NULL; p != NULL;
         p = strtok_r(NULL, ":", &rest)) {
        snprintf(full, sizeof full, "%s/%s", p, name);
        if (access(full, X_OK) != 0)
            continue;
        same = stat(full, &there) == 0 && stat(file, &here) == 0 && here.st_ino == there.st_ino &&
               here.st_dev == there.st_dev;
        break;
    }
    free(copy);
    return same;
}

void advise_results(const char *command, text *out) {
    char exe[PATH_MAX], name[64], full[PATH_MAX + 128];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(exe, '/');
    if (slash != NULL)
        *slash = '\0';
    snprintf(name, sizeof name, "moao-%s", command);
    snprintf(full, sizeof full, "%s/%s", exe, name);
    if (slash != NULL && access(full, X_OK) == 0) {
        advise_word(out, on_the_path(name, full) ? name : full);
        return;
    }
    advise_script("moao-results", full, sizeof full);
    advise_word(out, full);
    text_add(out, " %s", command);
}

void advise_program(char *path, size_t size) {
    char exe[PATH_MAX], here[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[len > 0 ? len : 0] = '\0';
    const size_t n = getcwd(here, sizeof here) != NULL ? strlen(here) : 0;
    bool below = n > 0 && strncmp(exe, here, n) == 0 && exe[n] == '/';
    snprintf(path, size, "%s",
             below                                      ? exe + n + 1
             : *exe == '\0' || on_the_path("moao", exe) ? "moao"
                                                        : exe);
}

void advise_slurm(const advice *a, const cmdline *cl, const char *dir, text *out) {
    char word[PATH_MAX];
    size_t column = 0;
    const long minutes = (long)ceil(a->limit / 60);
#define ADD(...) (snprintf(word, sizeof word, __VA_ARGS__), add_word(out, &column, word))
    if (a->jobs > 100)
        ADD("MOAO_MAX_RESTARTS=%d", 2 * a->jobs);
    ADD("sbatch");
    if (a->nodes > 0)
        ADD("--nodes=%d", a->nodes);
    if (a->gpus > 0) {
        ADD("--ntasks-per-node=%d", a->gpus);
        ADD("--gpus-per-node=%d", a->gpus);
    } else {
        ADD("--ntasks=%d", a->m.nrank);
    }
    ADD("--cpus-per-task=%d", a->m.threads);
    ADD("--mem-per-cpu=%ldM", advise_core_memory(a));
    ADD("--time=%ld:%02ld:00", minutes / 60, minutes % 60);
    ADD("--signal=B:USR1@%d", a->notice);
    char script[PATH_MAX];
    advise_script(a->gpus > 0 ? "moao-gpu.sbatch" : "moao.sbatch", script, sizeof script);
    ADD("%s", script);
#undef ADD
    for (int i = 0; i < cl->nfile; i++)
        add_word(out, &column, cl->files[i]);
    for (int i = 0; i < cl->noverride; i++)
        add_word(out, &column, cl->overrides[i]);
    add_word(out, &column, "-o");
    add_word(out, &column, dir);
}
