/* The time of what is checked where products are not exact (job/accuracy.h): one target with the
 * reference, in double precision, in the exposures that are sampled. Operations and evaluations are
 * those of src/residual/fp16_reference.c. */
#include "job/plan.h"

/* Seconds of n operations in double precision and in FP16, and of evaluations of the structure
 * function in double and single precision, all ranks together. */
typedef struct {
    double flops, fp16, values, single;
} work;

static double seconds(const work *w, const plan_rates *r) {
    return w->flops * r->flop + w->fp16 * r->fp16 + w->values * r->value + w->single * r->single;
}

/* W_k: from the factor in FP16, then R = B0 - W Cmm0 and W += R Cmm0^-1, once. */
static work reconstructor_work(const request *q) {
    const sys *s = q->s;
    const double m = (double)s->m, t = (double)sys_fit_rows(s), v = sys_commands(s),
                 n = sys_fit_directions(s), right = 2 * v * t * m * n;
    return (work){.flops = 2 * v * m * m + right,
                  .fp16 = 4 * v * m * m + right,
                  .values = q->nlayer * (0.5 * m * m + t * m * n),
                  .single = q->nlayer * t * m * n};
}

/* An exposure of it: W T and Y; */
static work exposure_work(const request *q, double slopes) {
    const double m = (double)q->s->m, v = sys_commands(q->s);
    return (work){.flops = 2 * v * m * m + 2 * v * v * m, .values = 0.5 * m * m * slopes};
}

/* W Cpm' or P Ctm. */
static work direction_work(const request *q, double ages) {
    const double m = (double)q->s->m, v = sys_commands(q->s),
                 rows = q->o->phase ? (double)q->points : (double)sys_fit_rows(q->s);
    return (work){.flops = 2 * v * rows * m, .values = rows * m * ages};
}

void plan_sample_time(const request *q, const machine *k, const plan_rates *r, plan *p) {
    const atmos *a = q->a;
    const factor_kind *f = p->pair->factor;
    const double nt = q->s->ntarget, ne = a->nexposure, ntor = a->ntor, n = p->nrank;
    const bool own = p->pair->product->fp16, shares = sys_shares(q->s),
               whole = own && shares && q->o->phase; /* Y of all targets: the reference's */
    double slopes, ages;
    p->time.sample = p->time.sample_w = 0;
    p->time.exact = p->time.total;
    if (p->pair->product->exact)
        return;
    plan_count_ages(q->s, a, &slopes, &ages);
    const work w = own ? reconstructor_work(q) : (work){0}, e = exposure_work(q, slopes),
               d = direction_work(q, ages);
    const double of_w = seconds(&w, r), of_e = seconds(&e, r), of_d = seconds(&d, r);
    /* devices of a node sample together where each has the factor; else one rank does */
    const double alone = n / (f->split && k->nnode > 0 ? n / k->nnode : 1);
    const double samples = ntor + (ne - ntor) / q->par->compute_mixed_samples;
    p->time.sample_w = whole && !f->split ? 0 : of_w * alone; /* else W is there */
    p->time.sample = (whole ? of_d : of_e + of_d) * alone;
    p->time.total +=
        ntor * p->time.sample_w + samples * p->time.sample + (whole ? ne * n * of_e : 0);
    /* a sample is over the tolerance: W and the exposure with every tolerance that there is, then
     * all exposures sampled, and each target with the reference */
    const double levels = f->levels > 1 ? f->levels - 1 : 0,
                 exact = whole    ? nt * of_d
                         : shares ? n * of_e + nt * of_d
                                  : nt * (of_w + of_e + of_d);
    p->time.exact = p->time.total + (ne - samples) * p->time.sample +
                    ntor * levels *
                        (nt * (p->time.solve + p->time.exposure) + p->nchunk * p->time.common +
                         p->time.sample_w + p->time.sample) +
                    ne * q->residuals * exact;
}
