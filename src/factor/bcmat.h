/* A square matrix distributed block-cyclically over a grid of ranks, lower triangle only, as
 * ScaLAPACK stores it: the covariance of the measurements, then its Cholesky factor. */
#ifndef MOAO_BCMAT_H
#define MOAO_BCMAT_H

#include "base/comm.h"
#include "moao/status.h"
#include <stddef.h>

typedef struct {
    const comm *c;
    int context;      /* BLACS context */
    int n;            /* order */
    int nb;           /* block size */
    int nprow, npcol; /* grid of ranks, in row-major order; 0 when freed */
    int myrow, mycol;
    int nlrow, nlcol; /* local rows and columns */
    size_t ld;        /* leading dimension of the local part, >= 1 */
    double *a;        /* local part, owned */
} bcmat;

/* Collective. Allocates an n x n matrix (zeroed). nprow * npcol must be the number of ranks. */
status bcmat_init(const comm *c, int n, int nb, int nprow, int npcol, bcmat *m);
void bcmat_free(bcmat *m);

/* Bytes of the largest local part. Local. */
size_t bcmat_bytes(int n, int nb, int nprow, int npcol);

/* Fill of a block: rows i0..i0+ni, columns j0..j0+nj into a (column-major, leading dimension ld).
 */
typedef status bcmat_fill_fn(void *ctx, size_t i0, size_t ni, size_t j0, size_t nj, double *a,
                             size_t ld);

/* Collective. Fills the blocks of the lower triangle that each rank owns (diagonal blocks whole).
 */
status bcmat_fill(bcmat *m, bcmat_fill_fn *fill, void *ctx);

/* Collective. Cholesky factorisation in place, A = L L' (lower). Not positive definite (or not a
 * number): MOAO_NUMERIC, and *minor = order of the first leading minor that is not positive, else
 * *minor = 0. */
status bcmat_cholesky(bcmat *m, int *minor);

/* Collective. Gathers columns j0..j0+w, rows j0..n of the lower triangle on every rank: element (i,
 * j) at
 * (*panel)[(i - j0) + (j - j0) * *ld]. On one rank a view of the matrix; otherwise `work` is
 * filled, of at least bcmat_panel_work doubles. j0 is a multiple of nb; w is one too, or reaches
 * the last column. */
status bcmat_panel(const bcmat *m, size_t j0, size_t w, double *work, const double **panel,
                   size_t *ld);
size_t bcmat_panel_work(int n, int nb, int nprow, int npcol, size_t w);

#endif
