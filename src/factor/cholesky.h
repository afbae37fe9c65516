/* The Cholesky factor of Cmm0 in a backend's memory, by panels of columns: the steps that every
 * order of them takes, and the order of a group of devices that have all columns (host_factor.c has
 * the one where columns are streamed from host memory; over ranks without devices ScaLAPACK makes
 * it, factor/bcmat.h). */
#ifndef MOAO_CHOLESKY_H
#define MOAO_CHOLESKY_H

#include "engine/engine.h"
#include "engine/group.h"
#include "engine/plan.h"

/* Local. C (rows x n, on and below its diagonal) -= A A(0:n, :)', A rows x k. The products have at
 * most `most` rows at a time. work: whether it may use the engine's, in the stream of ctx. */
status cholesky_update(engine *e, backend_ctx *ctx, int64_t rows, int64_t n, int64_t k,
                       const double *a, int64_t lda, double *c, int64_t ldc, int64_t most,
                       bool work);
/* Local. The factor of a panel (rows x n) that all updates have reached. */
status cholesky_make(engine *e, int64_t rows, int64_t n, double *a, int64_t lda, int *info);
/* Local; waits. Order of the first minor that is not positive, 0: none, from the info (on the
 * device) of panels first, first + step, ... of `count` panels of `width` columns. */
status cholesky_minor(engine *e, int64_t count, int64_t width, const int *info, int64_t first,
                      int64_t step, int *minor);

typedef struct { /* m x m numbers whose lower triangle becomes the factor, on every member */
    engine *e;
    device_group *group;
    double *a;
    int64_t block;     /* columns of a panel */
    int64_t strip;     /* columns of a strip, which one member of the group makes; divides block */
    int *info;         /* [strips] on the device */
    int moduli;        /* > 0: by products of integers, on this device alone; */
    int64_t rows;      /* of W of a target, */
    void *residues;    /* cholesky_residues bytes, */
    int32_t *exponent; /* [m] */
    int solve_moduli;  /* of solves: those of the factor, or fewer, */
    int32_t *of_solve; /* [m] and exponents for them */
} cholesky;

/* Collective. The devices of the node that make a factor together, after cholesky_widths; apart: no
 * device serves two ranks; say: a line tells how. */
status cholesky_join(cholesky *f, bool apart, bool say);

/* Local. The widths that suit an order, and bytes of the engine's work that follow. */
void cholesky_widths(cholesky *f, int64_t panel);
int64_t cholesky_strips(const cholesky *f);
size_t cholesky_work(const cholesky *f);
/* Local; needs no device. Memory of a factor of order m by integers, and of solves of `rows` rows.
 */
size_t cholesky_residues(const backend *be, int64_t m, int moduli, int64_t rows);
/* Local, of a factor by integers. W := W (L L')^-1 for n blocks of at most `rows` rows. */
status cholesky_solve_integers(const cholesky *f, int n, const wrows *w);

/* Collective in the group, but for a failure, on which this rank ends the run if it has a group.
 * Cmm0 of a profile, and its factor; *minor among this rank's strips. */
status cholesky_factor(cholesky *f, const profile *p, int *minor);

#endif
