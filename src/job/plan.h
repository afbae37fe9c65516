/* What follows from the parameters for a number of ranks: layout, chunks of targets, memory, work,
 * outputs. */
#ifndef MOAO_PLAN_H
#define MOAO_PLAN_H

#include "base/machine.h"
#include "base/progress.h"
#include "factor/tlr_cmm.h"
#include "job/device_plan.h"
#include "moao/status.h"
#include "params/params.h"
#include "psf/psf.h"
#include "system/atmos.h"
#include "system/system.h"
#include "tor/command.h"
#include <stdbool.h>

#define PLAN_ITEMS 16

typedef struct {     /* of the steps of a run, all ranks together, each [s] */
    double tor;      /* Cmm of a reconstructor and its factor */
    double solve;    /* W of one target */
    double common;   /* what the targets of a chunk share, in each exposure */
    double exposure; /* one target of one exposure */
    double start;    /* what comes before */
    double total;    /* of the whole run */
} plan_time;

typedef struct {
    int nprow, npcol;  /* grid of ranks for Cmm and its factor */
    int block;         /* its block size */
    size_t width;      /* columns of a panel */
    int group_size;    /* ranks that share targets */
    int chunk, nchunk; /* targets at a time, and how many times */
    size_t ld_max;     /* rows of W on a rank, at most */
    int nitem;         /* memory of a rank, by use [bytes] */
    struct {
        const char *name;
        size_t bytes;
    } item[PLAN_ITEMS];
    size_t memory;             /* peak of the fullest rank, the program itself included [bytes] */
    command_way way;           /* how D+ is applied */
    double flops[STAGE_COUNT]; /* of the whole run, all ranks */
    double output;             /* bytes that stay on disk */
    plan_time time;            /* expected [s] */
    const linop_pair *pair; /* format of Cmm: where the ranks do not work in lockstep, everything */
    device_plan device;     /* is on a device, and `memory` is the host's part */
    tlr_prediction ranks;   /* where the factor is compressed */
} plan;

/* What the memory of a rank follows from, whatever the machine and the number of targets [bytes].
 */
typedef struct {
    int nlayer, nexposure; /* most of any profile, of any ToR */
    size_t points;         /* of the pupil, for the residual phase */
    size_t psf, tables, target_tables, command, image;
    tlr_prediction ranks;   /* of a compressed factor, where one may be used (plan_predict) */
    bool grid_pays;         /* format auto is grid on one rank of a CPU (plan_predict) */
    const linop_pair *kept; /* of a run that goes on: devices compute by this one; NULL: choose */
    command_way way[2];     /* how D+ is applied: on a device, on the host */
} plan_sizes;

/* Local. Found once for any number of plans; from counts, nothing is computed. */
plan_sizes plan_find_sizes(const sys *s, const atmos *a, const psf_opts *o);

/* Local. Whether exposures in mixed precision are wanted, where a device has room. */
bool plan_wants_mixed(const params *par);
/* Local. Of a compressed factor: whether its columns may be kept in FP16; ranks over which it is
 * distributed, 0: each has all of it. */
bool plan_fp16(const params *par);
int plan_members(const params *par, const machine_room *room);
/* Local. Whether the parameters allow a compressed factor; its tolerance at first (linop_accuracy).
 */
bool plan_may_compress(const params *par);
/* Local. What the parameters add to the sizes: where they allow a compressed factor, what is
 * predicted of it (takes about a second of the CPU); where the format is chosen by the program,
 * whether grid takes less time on a CPU than dense, as a count of look-ups and products says, the
 * exposures included that are computed in both: it depends on the case alone, so that a resumed run
 * chooses the same. */
status plan_predict(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                    plan_sizes *z);
/* Local. Whether exposures of format grid, those included that are computed in both, are expected
 * to take less time on a CPU. From counts. */
bool plan_toeplitz_pays(const params *par, const sys *s, const atmos *a, const psf_opts *o);
/* Local. Whether products with sensors on a common lattice by transforms take less time in mixed
 * precision on a GPU. */
bool plan_lattice_pays(const sys *s);
/* Local. A format for which each rank is a device of its own where there is no GPU: tlr, grid, or
 * auto, on one rank, where grid pays (several ranks share the work of a dense factor). */
bool plan_own_device(const params *par, const plan_sizes *z, int nrank);
int plan_first_level(const params *par);

/* Local. What the ranks may use is in room (machine_measure, or other ranks than these). chunk > 0
 * asks for that many targets at a time. MOAO_INPUT when not even one target fits, or the parameters
 * ask for an impossible grid. */
status plan_make(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                 const machine_room *room, const plan_sizes *z, int chunk, plan *p);

/* Local. The same for one device a rank. flops count one factor for each reconstructor, however
 * many devices make one. */
status plan_make_device(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                        const machine_room *room, const plan_sizes *z, int chunk,
                        device_room memory, plan *p);

/* Local. Threads that are worth while for a rank of a case, at most `cores`: in small cases
 * starting and joining them takes longer than they save. A run keeps its number, so that a resumed
 * one computes the same bits. */
int plan_threads(const sys *s, int cores);

/* Local. How dgemm's rate is measured: of few measurements a run may take less time than a good
 * measurement, and less memory. */
static inline machine_rate plan_rate(const sys *s) {
    return s->m < 1000 ? MACHINE_QUICK_RATE : MACHINE_RATE;
}

/* Local. Expected times of a plan. rate: dgemm of a rank, or of its device [flop/s]; 0: a guess. */
void plan_estimate(plan *p, const sys *s, const atmos *a, const psf_opts *o,
                   const machine_room *room, double rate);

/* Local. Bytes of a rank that is its own device, of which the plan is: its host's part and the
 * device's. */
size_t plan_own_memory(const plan *p);

/* Local. MOAO_INPUT when the host lacks the memory that such a plan asks of it. */
status plan_check_host(const plan *p, const machine_room *room);

#endif
