/* From what is asked for and the machine to the plan of a run (engine/plan.h): layout, factor and
 * product, chunks of targets, memory, work, time. */
#ifndef MOAO_PLAN_H
#define MOAO_PLAN_H

#include "base/machine.h"
#include "factor/tlr_cmm.h"
#include "field/field.h"
#include "obsseq/layer_tables.h"
#include "operator/operator.h"
#include "params/params.h"
#include "psf/psf.h"
#include "system/atmos.h"
#include "tor/command.h"

typedef struct { /* what is asked for; borrowed */
    const params *par;
    const sys *s;
    const atmos *a;
    const psf_opts *o;

    /* as the parameters say, or as the run that goes on began */
    int factor, product;    /* compute.factor, compute.product */
    bool distributed;       /* compute.tlr_distributed */
    int way;                /* how D+ is applied (command_way), -1: chosen */
    const linop_pair *kept; /* devices compute by this one; NULL: chosen */
    int sample;             /* target by which what is not exact is checked */
    bool keep;              /* what images are made of is kept of every target: they are nodes, */
    int want;               /* between which so many are interpolated; 0: none */
    double residuals;       /* of an exposure, of those of all targets, in the mean */
    size_t node_values;     /* results of a node that a rank holds, of one exposure [bytes] */

    /* what follows from these alone, whatever the machine and the number of targets [bytes] */
    int nlayer, nexposure; /* most of any profile, of any reconstructor */
    size_t points;         /* of the pupil, for the residual phase */
    matcov_sizes sizes;
    size_t psf, tables, target_tables, command, image;
    int tile;             /* size of the tiles of a compressed factor */
    int split_moduli;     /* of a factor in split FP16 (plan.h), as a run began; -1: to be chosen */
    int moduli_reference; /* the same of the sampled target's reference, where compute.double does
                             not say */
    /* whether these are expected to save the time of compute.auto_saves: */
    bool toeplitz_pays;       /* products by transforms on one rank of a CPU, */
    bool mixed_pays;          /* products in FP16 on a GPU */
    bool integer_pays;        /* double precision by integers is faster on a GPU */
    layer_tables_size layers; /* of commands that targets share, where tables by layer may be made;
                                 else 0; */
    bool layers_pay;          /* whether these save that time, */
    int layers_kept;          /* or a run that goes on began with them; -1: it is to be chosen */
    tlr_prediction ranks;     /* of a compressed factor, where one may be used; tile 0: not */
} request;

/* Local. Made once for any number of plans; from counts, nothing is computed. It depends on the
 * case alone, so that a resumed run chooses the same. MOAO_MEMORY where there is none to count
 * by. */
status request_init(const params *par, const sys *s, const atmos *a, const psf_opts *o, request *q);
/* Local. The targets are nodes. */
void request_nodes(request *q, const field *f);
/* Local. For GPUs of a model: what pays depends on their rates. A run that goes on keeps what it
 * began with. */
void request_for_gpu(request *q, const gpu_model *model);
/* Local. What is predicted of a compressed factor where one may be used (takes about a second of
 * the CPU). gpu: there may be one. */
status request_predict(request *q, bool gpu);
/* Local. Whether exposures in mixed precision are wanted, where a device has room. */
bool request_mixed(const request *q, bool gpu);
/* Local. Whether the factor may be compressed where memory of a device holds no other: mixed
 * precision is expected to save time, or asked for by name. */
bool request_may_compress(const request *q);
/* Local. Whether factor and product are both left to the program, and not to be in double
 * precision. */
bool request_automatic(const request *q);
/* Local. Whether each rank is a device of its own where there is no GPU: a compressed factor,
 * products by transforms, or both chosen by the program, on one rank, where these pay (several
 * ranks share the work of a dense factor). */
bool request_own_device(const request *q, int nrank);
/* Local. The factor and product of a pair, as if the parameters had asked for them. */
void request_name(request *q, const linop_pair *pair);
/* Local. The tolerance of a compressed factor at first (factor_accuracy.level); fp16: it serves
 * products in FP16. */
int request_level(const params *par, bool fp16);

/* Local. The plan on a machine. chunk > 0 asks for that many targets at a time. MOAO_INPUT when not
 * even one target fits, or the parameters ask for an impossible grid; p has what was counted. */
status plan_make(const request *q, const machine *m, int chunk, plan *p);
/* Local. The plan of what computes as `of` does, but exactly, quietly and one target at a time:
 * `rows` of it, on all ranks that work on the same panels. inverse: D+ is applied as a filter and
 * H. MOAO_INPUT where a device has no room. */
status plan_exact(const request *q, const machine *m, const plan *of, int rows, bool inverse,
                  plan *p);

/* Local. Whether a factor is one of a name (FACTOR_PARAM_...). */
bool plan_factor_named(const factor_kind *f, int name);
/* Local. MOAO_INPUT where a factor or a product is asked for by name and the pair of the plan is of
 * another one. */
status plan_check_named(const request *q, const plan *p);
/* Local. MOAO_INPUT when the host lacks the memory that the plan asks of it. */
status plan_check_host(const plan *p, const machine *m);
/* Local. Bytes of the host's memory that a rank takes in all. */
size_t plan_rank_memory(const plan *p);
/* Local. Moduli of the factor that is kept in split FP16, 0: it is computed in double precision, or
 * is another one; whether any factor is computed by integers, each device by itself. */
static inline int plan_split(const plan *p) {
    const factor_kind *f = p->pair->factor;
    return f == &factor_fp16 || f == &factor_fp16_refined ? p->split_moduli : 0;
}
/* Local. Moduli of the reference that compute.double does not ask for. */
static inline int plan_reference(const plan *p) {
    return p->moduli > 0 ? 0 : p->moduli_reference;
}
static inline bool plan_by_integers(const plan *p) {
    return p->moduli > 0 || plan_split(p) > 0;
}

/* Local. Threads that are worth while for a rank of a case, at most `cores`: in small cases
 * starting and joining them takes longer than they save, unless a single target leaves cores idle.
 * A run keeps its number, so that a resumed one computes the same bits. */
int plan_threads(const sys *s, int cores);
/* Local. How dgemm's rate is measured: of few measurements a run may take less time than a good
 * measurement, and less memory. */
machine_rate plan_rate(const sys *s);

/* --- parts of plan_make */

/* Local. What a rank may use of its device; the first pair, of those that compute what is asked
 * for, of which that holds one target, and its memory. rest: of the host's memory, what the rest of
 * the rank takes. MOAO_INPUT, with whose memory is too little, where none is held, or where the one
 * that is does not fit into what is free now: another one would depend on that. */
status plan_choose_pair(const request *q, const machine *m, double rest, plan *p);
/* Local. Whether exposures by transforms of sensors on a common lattice, those included that are
 * computed in both ways, are expected to save as much time on a CPU as they must; whether they take
 * less time in mixed precision on a GPU. From counts. MOAO_MEMORY. */
status plan_toeplitz_pays(const request *q, bool *pays);
status plan_lattice_pays(const sys *s, bool *pays);
/* Local. Layers of a profile of the run, each as often as entries of Cmm and of Cpm or Ctm have it:
 * once for each age in a closed loop. Most of all profiles. */
void plan_count_ages(const sys *s, const atmos *a, double *slopes, double *phase);
/* Local. What of q follows for tables by layer (compute.phase), MOAO_MEMORY; whether they are
 * wanted. */
status plan_count_layers(request *q);
bool plan_wants_layers(const request *q);
/* Local. Time [s] of their making for n ranks, of whose evaluations each takes `value` seconds; and
 * floating-point operations of it, and of a target that is interpolated. */
double plan_layers_value(const request *q, double value);
double plan_layers_flops(const request *q);
double plan_look_up_flops(const request *q);

typedef struct { /* seconds of all ranks together: an operation in double precision and in FP16, an
                    evaluation in double and single precision */
    double flop, fp16, value, single;
} plan_rates;
/* Local. What products that are not exact add to a plan's time.total, where samples are within the
 * tolerance, and to time.exact, where none is. */
void plan_sample_time(const request *q, const machine *k, const plan_rates *r, plan *p);

#endif
