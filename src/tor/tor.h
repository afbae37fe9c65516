/* The tomographic reconstructor (ToR) of one profile: Cmm0 = L L', and W = P Ctm0 Cmm0^-1 of chunks
 * of targets, P = D+ (rows are DM commands) or the identity (rows are truth-sensor slopes, W = R).
 * Where P = H D' (command.h) and nothing but Y is made of W in exposures (psf.residual: sensor),
 * V = D' Ctm0 Cmm0^-1 is kept in its place, W = H V, so that H waits until Y is there.
 * Model section 6. Cmm0 is an operator (operator/operator.h) of some format; everything
 * else is made of operations of the backend, on a CPU or a GPU. */
#ifndef MOAO_TOR_H
#define MOAO_TOR_H

#include "operator/operator.h"
#include "tor/command.h"
#include "tor/low_orders.h"
#include "tor/rows.h"
#include "tor/split.h"

typedef struct {
    engine e;
    const plan *plan; /* borrowed */
    team t;
    chunk ch; /* solved last */
    linop *op;
    const profile *prof; /* conditions "0" */
    bool shared;         /* all targets have one W, in place 0 of w, y and own */
    bool has_y;          /* `shared`: Y of the exposure is there */
    long solved;         /* how often W was made */
    int nsample, most;   /* columns of the sampled residual; targets that a rank gets at most */
    const double *proj;  /* on the device: nrow x t */
    double *lent;        /* the same, where it is this one's own */
    const double *h;     /* on the device: H, nrow x nrow; NULL: P itself is applied */
    double *lent_h;
    backend_filter filter; /* D', where H is */
    double *points;        /* on the device, where W is fitted to the phase */
    int *places;           /* its own, on the device */
    double *ctm, *z;       /* t x width; rows of W that pass at a time x width */
    double *q;             /* nrow x width: D' Ctm, where H is */
    bool raw;              /* w[] is V */
    double *square;        /* nrow x nrow, where it is */
    double *columns;       /* m x nsample */
    double *host[2];       /* nlrow x nsample, pinned */
    double *room;  /* W, Y and what the operator keeps of the targets; lent to the operator */
    int64_t nroom; /* doubles there */
    double *one_y; /* Y where targets pass one by one */
    int nw;        /* targets that have room */
    int64_t ld;    /* leading dimension of W */
    double **w, **y, **own;      /* [nw] nlrow x m; nlrow x nrow (leading dimension nlrow) */
    double **beside;             /* [nw] what the caller keeps of a target */
    backend_cov_target **target; /* [nw], or one where targets pass one by one */
    int ntarget;
    split_commands split; /* of a common mirror in front, or {0} */
    low_orders low;       /* by stars of their own, or {0} */
} tor;

/* Collective. Takes a device (the rank's number on its node, modulo the devices there) and memory
 * for all but the targets, which tor_take does: where memory is short, of fewer than planned;
 * *chunk: how many of the plan's, a multiple of the number of groups when it is smaller. All is
 * borrowed until close, but for `ready`: NULL, or covariances of p->largest prepared already, which
 * it takes. beside: doubles that the caller keeps of each target. MOAO_MEMORY when not even one
 * fits. close: fine on {0}. */
status tor_open(const comm *c, const sys *s, report *rep, const plan *p, const command_matrix *proj,
                engine_model *ready, tor *t);
status tor_take(tor *t, int64_t beside, int *chunk);
void tor_close(tor *t);

/* Collective. Fills Cmm0 of a profile, which must outlive the solves, and factors it. Not positive
 * definite: MOAO_NUMERIC with the sensor that the leading minor belongs to and what to change. */
status tor_factor(tor *t, const profile *p);

/* Collective. W of targets first .. first + count. *residual: |W Cmm0 - P Ctm0| / |P Ctm0| in the
 * Frobenius norm, over all rows and nsample columns spread over the measurements (NAN: none). */
status tor_solve(tor *t, int first, int count, double *residual);

/* --- for what uses W. Local but where it says so. */

/* Collective in the team's group for a target. out (ni x n, leading dimension ldo) = alpha
 * P(i0:i0+ni, :) C(:, j:j+n) + beta out, C = Ctm of a target that was aimed, or Ctt (target NULL).
 */
status tor_project(tor *t, backend_cov_target *target, int64_t i0, int64_t ni, int64_t j, int64_t n,
                   double alpha, double beta, double *out, int64_t ldo, stage stg);
/* Operations of its product. */
double tor_project_flops(const tor *t, int64_t ni, int64_t n);
/* The k-th target of this rank's part of the chunk. */
static inline backend_cov_target *tor_target(const tor *t, int k) {
    return t->target[t->ntarget > 1 ? k : 0];
}
static inline const double *tor_direction(const tor *t, int k) {
    return t->e.s->targets[t->ch.mine + k];
}
/* Rows of W that are multiplied at once, from target k on: of *n targets. */
wrows tor_rows(const tor *t, linop *op, int k, int *n);
/* W of the k-th target, or V, as an operator (the reconstructor's or its reference) has it. */
wrows tor_w(const tor *t, linop *op, int k);
/* Number of W that n targets have. */
static inline int tor_distinct(const tor *t, int n) {
    return t->shared && n > 1 ? 1 : n;
}
/* Columns of W from j on in double precision: *w, with leading dimension *ld; valid until z is
 * used. *n: how many are wanted, then how many these are, e.width of them at least. */
status tor_w_columns(tor *t, linop *op, int k, int64_t j, int64_t *n, const double **w,
                     int64_t *ld);
/* q (m numbers, on the device) = W' x of this rank's rows of the k-th target, x: nrow numbers. Uses
 * z. */
status tor_w_transposed(tor *t, linop *op, int k, const double *x, double *q);
/* Where V is kept: out (nrow x n, leading dimension ldo) = alpha D' Ctm(:, j:j+n) + beta out of a
 * target that was aimed; and y (nrow x nrow) := H y H' in the end. */
status tor_raw_project(tor *t, backend_cov_target *target, int64_t j, int64_t n, double alpha,
                       double beta, double *out, int64_t ldo);
status tor_raw_end(tor *t, double *y);

#endif
