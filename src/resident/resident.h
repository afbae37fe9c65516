/* Reconstructors and exposures with everything resident on one device of a backend for each rank:
 * the factor of Cmm0, Cmm of the exposure, W of a chunk of targets. Only the PSFs of a target
 * leave the device, while the next one is computed there. Model sections 6 and 7.
 *
 * One array of m x m numbers holds the factor L of Cmm0 in its lower triangle and the exposure's T
 * (Cmm = T + T', transposed) above it, but for the blocks of T on the diagonal, which lie beside
 * it. Ranks exchange nothing but the panels of the factor and results, and these do not depend on
 * the number of ranks or on how many targets are computed together.
 *
 * Where the plan says so (device_plan.streamed), the factor lies in the host's memory instead and
 * passes by (stream.c); then every rank factors for itself. */
#ifndef MOAO_RESIDENT_H
#define MOAO_RESIDENT_H

#include "backend/backend.h"
#include "obsseq/obsseq.h"
#include "resident/device_plan.h"

typedef struct resident resident;

typedef struct { /* borrowed, all of it */
    const backend *be;
    const comm *c;
    const sys *s;
    report *rep;
    psf *ps;
    const double *dplus;    /* v x t */
    const profile *largest; /* the one with the most layers */
    const device_plan *plan;
    int edge;         /* mixed precision (plan->mixed): the target that is computed in both */
    double tolerance; /* largest difference of a Strehl ratio or ensquared energy of it */
    int chunk;        /* targets at a time, on all ranks together */
    int sharing;      /* ranks on one device, at most */
    int nsample;      /* columns of the sampled residual */
} resident_setup;

/* Collective. Takes a device (the rank's number on its node, modulo the devices there) and the
 * memory of the plan. Where that memory is short, fewer targets are computed together: *chunk, a
 * multiple of the number of ranks when it is smaller than asked for. MOAO_MEMORY when not even one
 * fits. rep->dgemm becomes the device's rate. A line of progress tells how factors will be made. */
status resident_open(const resident_setup *u, resident **r, int *chunk);
void resident_close(resident *r);

/* Collective. Fills Cmm0 of a profile and factors it (factor.c), by the devices of each node
 * together where they can; errors as tor_init. The profile must outlive the solves. */
status resident_factor(resident *r, const profile *p);

/* Collective. W of targets first .. first + count of the reconstructor; residual as tor_solve. */
status resident_solve(resident *r, int first, int count, double *residual);

typedef struct {       /* how an exposure of a chunk is computed */
    bool mixed;        /* in: try mixed precision; out: results are of it */
    double difference; /* out: largest difference of a Strehl ratio or ensquared energy between
                          mixed and double precision; NAN: the chunk has no sampled target */
} resident_precision;

/* Collective. One exposure of the targets solved last; as obsseq_run, and for the targets of `look`
 * (may be NULL) q and y of the probe, 0 where another rank has them. In mixed precision the target
 * `edge`, if it is among them, is computed in double precision too, which is its result; where the
 * difference exceeds the tolerance, all of them are. The same on every rank. */
status resident_expose(resident *r, const profile *p, obsexposure *ex, resident_precision *how,
                       probe *look, result_block *block);

/* Collective. probe_forms on the devices under a profile; shifted: Ctm of the exposure. */
status resident_forms(resident *r, const profile *p, bool shifted, const probe *look, double *a,
                      double *b);

#endif
