/* A run current: shared by the files of this folder that make it (run.c, run_prepare.c). */
#ifndef MOAO_RUN_STATE_H
#define MOAO_RUN_STATE_H

#include "base/machine.h"
#include "job/accuracy.h"
#include "job/device.h"
#include "job/plan.h"
#include "job/run.h"
#include "job/verify.h"
#include "obsseq/obsseq.h"
#include "store/store.h"
#include "tor/command.h"

enum { NEVER = 2 }; /* of run.done: not to be computed (field_leave) */

typedef struct { /* of a run at nodes (run_nodes.c) */
    field_report report;
    double *error; /* [targets] expected, the largest of the reconstructors */
    int *again;    /* [capacity] the node that computes a suspicious one again, 0: none */
    int pending;   /* such a one that is not judged yet, -1: none */
    int judged;    /* reconstructors of which one was */
} run_nodes;

typedef struct {
    const comm *c;
    const cmdline *cl;
    const char *dir;
    setup u;
    machine mach;         /* what there is, */
    device_start start;   /* while devices start; */
    background preparing; /* of the executor's first covariances, on a thread */
    engine_model first;
    request req;    /* what is asked for, */
    const plan *pl; /* and what follows; its request and machine stay as they are */
    int chunk;      /* targets at a time: the plan's, or fewer where a device has room for fewer */
    report rep;
    obsseq seq; /* the executor */
    accuracy acc;
    verify ver;
    store *st;            /* rank 0 only */
    double *dplus;        /* P: D+, v x t, or F where commands are fitted to the phase */
    double *low;          /* Z and M Z of low orders, or NULL (tor/low_orders.h) */
    double *inverse;      /* H of D+ = H D' (tor/command.h), v x v; NULL: D+ is applied as it is */
    mirror_budget mirror; /* where an error budget is wanted */
    unsigned char *done;  /* [nexposure][stride], of targets or nodes: 0, 1 or NEVER */
    int stride;           /* targets, or nodes at most */
    run_nodes nodes;
    bool finished; /* the directory holds the results already */
} run;

static inline bool is_root(const run *r) {
    return r->c->rank == 0;
}

static inline size_t cell(const run *r, int exposure, int target) {
    return (size_t)exposure * (size_t)r->stride + (size_t)target;
}

/* Local. Threads of a rank: those asked for, or as many as the case is worth. */
void run_choose_threads(const run *r, comm *c);
/* Local. Ends what the executor's covariances are prepared by. */
void run_drop_first(run *r);
/* Collective. The store's state on every rank, and the plan that follows. */
status run_prepare_plan(run *r, comm *c);
/* Rank 0. What is going to be computed, and where. */
void run_announce(const run *r);
/* Collective. D+. */
status run_prepare_stages(run *r);
/* Collective. The executor and its memory. */
status run_open_executor(run *r);

/* A run at nodes. init: local, after the setup. check: collective, after the nodes of reconstructor
 * k are computed; *more: nodes were added, and want to be. fill: collective, the results of all
 * targets. ex: exposures, by their numbers. */
status run_nodes_init(run *r);
/* Rank 0. r->done of nodes from `from` on. */
void run_nodes_find(run *r, int from);
/* Local. Residuals of nodes that were computed, of all exposures. */
long run_nodes_residuals(const run *r);
status run_nodes_check(run *r, int k, obsexposure *ex, bool *more);
status run_nodes_fill(run *r, int k, obsexposure *ex);

/* Results of an exposure for nt targets from t0 on, without their arrays and images. */
static inline result_block run_block(const run *r, int exposure, int t0, int nt) {
    return (result_block){.exposure = exposure,
                          .t0 = t0,
                          .nt = nt,
                          .nlambda = r->u.o.nlambda,
                          .nbox = r->u.o.nbox,
                          .nbudget = r->u.o.budget ? budget_count(&r->u.s) : 0};
}

/* run_gain.c: gains of loops that are to be found. restore: collective, that of an earlier run
 * into the store. find: collective, once, by exposure e of the targets t0 .. t1, which are solved;
 * kept in the store. ex: of that exposure. */
bool run_seeks_gain(const run *r); /* local: whether one is to be found yet */
status run_restore_gain(run *r);
status run_find_gain(run *r, int e, int t0, int t1, obsexposure *ex);

/* Collective. The factor of reconstructor k, of profile p: where it is compressed, as accurate as
 * the parameters ask for (job/accuracy.h). ex: exposures, by their numbers. */
status run_factor(run *r, int k, const profile *p, obsexposure *ex);

/* Local. P = p of this run: D+, with H where that is, F, or another one. */
command_matrix run_command(const run *r, const double *p);
/* Collective. After a failure `st` of devices at the start: the CPU takes their place, where the
 * user left that open. */
status run_without_devices(run *r, status st);

#endif
