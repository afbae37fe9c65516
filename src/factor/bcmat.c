#include "factor/bcmat.h"

#include "base/fault.h"
#include "scalapack.h"

#include <stdlib.h>
#include <string.h>

static const int zero = 0, one = 1;

int pilaenv_(const int *context, const char *precision) {
    (void)context;
    (void)precision;
    return 256;
}

static int min_int(int a, int b) {
    return a < b ? a : b;
}

size_t bcmat_bytes(int n, int nb, int nprow, int npcol) {
    size_t rows = (size_t)numroc_(&n, &nb, &zero, &zero, &nprow);
    size_t cols = (size_t)numroc_(&n, &nb, &zero, &zero, &npcol);
    return rows * cols * sizeof(double);
}

status bcmat_init(const comm *c, int n, int nb, int nprow, int npcol, bcmat *m) {
    memset(m, 0, sizeof *m);
    m->c = c;
    m->n = n;
    m->nb = nb;
    int handle = Csys2blacs_handle(c->mpi);
    m->context = handle;
    Cblacs_gridinit(&m->context, "R", nprow, npcol);
    Cblacs_gridinfo(m->context, &m->nprow, &m->npcol, &m->myrow, &m->mycol);
    Cfree_blacs_system_handle(handle);
    m->nlrow = numroc_(&n, &nb, &m->myrow, &zero, &m->nprow);
    m->nlcol = numroc_(&n, &nb, &m->mycol, &zero, &m->npcol);
    m->ld = m->nlrow > 0 ? (size_t)m->nlrow : 1;
    status st = ALLOC(m->a, m->ld * (size_t)m->nlcol, "covariance matrix of the measurements");
    return comm_agree(c, st);
}

void bcmat_free(bcmat *m) {
    free(m->a);
    if (m->nprow > 0)
        Cblacs_gridexit(m->context);
    memset(m, 0, sizeof *m);
}

/* Global index of local row or column l of process me among nproc. */
static int global_index(int l, int nb, int me, int nproc) {
    return (l / nb * nproc + me) * nb + l % nb;
}

/* Number of local rows (or columns) before global index g, a multiple of nb or the end of the
 * matrix. */
static int local_before(int g, int nb, int me, int nproc) {
    return numroc_(&g, &nb, &me, &zero, &nproc);
}

status bcmat_fill(bcmat *m, bcmat_fill_fn *fill, void *ctx) {
    status st = comm_fault(m->c, "matcov");
    for (int lj = 0; st == MOAO_OK && lj < m->nlcol; lj += m->nb) {
        int j0 = global_index(lj, m->nb, m->mycol, m->npcol), nj = min_int(m->nb, m->n - j0);
        for (int li = local_before(j0, m->nb, m->myrow, m->nprow);
             st == MOAO_OK && li < m->nlrow;) {
            /* with one process row the rest of the block column is contiguous: one tall block */
            int i0 = global_index(li, m->nb, m->myrow, m->nprow);
            int ni = m->nprow == 1 ? m->n - i0 : min_int(m->nb, m->n - i0);
            st = fill(ctx, (size_t)i0, (size_t)ni, (size_t)j0, (size_t)nj,
                      m->a + (size_t)li + (size_t)lj * m->ld, m->ld);
            li += ni;
        }
    }
    return comm_agree(m->c, st);
}

/* Order of the first leading minor whose pivot on this rank is not a positive number, or n + 1:
 * some kernels let a NaN through the factorisation's own test. */
static int first_bad_pivot(const bcmat *m) {
    for (int lj = 0; lj < m->nlcol; lj++) {
        int g = global_index(lj, m->nb, m->mycol, m->npcol);
        if (g / m->nb % m->nprow != m->myrow)
            continue;
        int li = g / m->nb / m->nprow * m->nb + g % m->nb;
        if (!(m->a[(size_t)li + (size_t)lj * m->ld] > 0))
            return g + 1;
    }
    return m->n + 1;
}

status bcmat_cholesky(bcmat *m, int *minor) {
    status st = comm_agree(m->c, comm_fault(m->c, "factor"));
    *minor = 0;
    if (st != MOAO_OK || m->n == 0)
        return st;
    int info = 0, ld = (int)m->ld;
    if (m->c->size == 1) {
        dpotrf_("L", &m->n, m->a, &ld, &info);
    } else {
        int desc[9];
        descinit_(desc, &m->n, &m->n, &m->nb, &m->nb, &zero, &zero, &m->context, &ld, &info);
        if (info == 0)
            pdpotrf_("L", &m->n, m->a, &one, &one, desc, &info);
    }
    if (info < 0)
        st = status_fail(MOAO_INTERNAL, "Cholesky factorisation: argument %d is wrong", -info);
    if ((st = comm_agree(m->c, st)) != MOAO_OK)
        return st;
    int mine = info > 0 ? info : first_bad_pivot(m), first;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, m->c->mpi);
    if (first > m->n)
        return MOAO_OK;
    *minor = first;
    return status_fail(
        MOAO_NUMERIC,
        "the covariance matrix of the measurements is not positive definite (leading minor "
        "of order %d)",
        first);
}

typedef struct { /* what a rank holds of a panel: local rows r0..r0+nr, local columns c0..c0+nc */
    int row, col, r0, nr, c0, nc;
} share;

static share panel_share(const bcmat *m, int rank, int j0, int w) {
    share s = {.row = rank / m->npcol, .col = rank % m->npcol};
    s.r0 = local_before(j0, m->nb, s.row, m->nprow);
    s.nr = local_before(m->n, m->nb, s.row, m->nprow) - s.r0;
    s.c0 = local_before(j0, m->nb, s.col, m->npcol);
    s.nc = local_before(j0 + w, m->nb, s.col, m->npcol) - s.c0;
    return s;
}

size_t bcmat_panel_work(int n, int nb, int nprow, int npcol, size_t w) {
    if (nprow * npcol == 1)
        return 0;
    size_t rows = ((size_t)n / (size_t)nb / (size_t)nprow + 1) * (size_t)nb;
    size_t cols = (w / (size_t)nb / (size_t)npcol + 1) * (size_t)nb;
    return 2 * (size_t)n * w + rows * (cols < w ? cols : w);
}

/* Put the packed piece of one rank at its place in the panel (first row and column j0, leading
 * dimension ld). */
static void unpack(const bcmat *m, share s, int j0, const double *piece, double *panel, size_t ld) {
    for (int c = 0; c < s.nc; c++) {
        int gj = global_index(s.c0 + c, m->nb, s.col, m->npcol);
        for (int r = 0, run; r < s.nr; r += run) {
            int gi = global_index(s.r0 + r, m->nb, s.row, m->nprow);
            run = min_int(m->nb - gi % m->nb, s.nr - r);
            memcpy(panel + (size_t)(gi - j0) + (size_t)(gj - j0) * ld,
                   piece + (size_t)r + (size_t)c * (size_t)s.nr, (size_t)run * sizeof(double));
        }
    }
}

status bcmat_panel(const bcmat *m, size_t j0, size_t w, double *work, const double **panel,
                   size_t *ld) {
    if (m->c->size == 1) {
        *panel = m->a + j0 + j0 * m->ld;
        *ld = m->ld;
        return MOAO_OK;
    }
    const int nrank = m->c->size;
    size_t rows = (size_t)m->n - j0;
    double *pieces = work + rows * w, *mine = pieces + rows * w;
    int *count = NULL;
    status st = ALLOC(count, 2 * (size_t)nrank, "panel of the Cholesky factor");
    if ((st = comm_agree(m->c, st)) != MOAO_OK)
        return st;
    int *offset = count + nrank;
    for (int r = 0, at = 0; r < nrank; r++) {
        share s = panel_share(m, r, (int)j0, (int)w);
        count[r] = s.nr * s.nc;
        offset[r] = at;
        at += count[r];
    }
    share s = panel_share(m, m->c->rank, (int)j0, (int)w);
    for (int c = 0; c < s.nc; c++)
        memcpy(mine + (size_t)c * (size_t)s.nr, m->a + (size_t)s.r0 + (size_t)(s.c0 + c) * m->ld,
               (size_t)s.nr * sizeof(double));
    MPI_Allgatherv(mine, s.nr * s.nc, MPI_DOUBLE, pieces, count, offset, MPI_DOUBLE, m->c->mpi);
    for (int r = 0; r < nrank; r++)
        unpack(m, panel_share(m, r, (int)j0, (int)w), (int)j0, pieces + offset[r], work, rows);
    free(count);
    *panel = work;
    *ld = rows;
    return MOAO_OK;
}
