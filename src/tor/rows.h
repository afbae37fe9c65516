/* The stacked rows of a chunk of targets: how they lie on the ranks, and the products made with
 * them.
 *
 * Each target has `nrow` rows: its DM commands (nrow = v, projected by D+) or its truth-sensor
 * slopes (nrow = t, no projection). The ranks form groups of equal size; a group holds whole
 * targets, and each of its ranks the same slice of rows of every one. A rank holds all m columns of
 * its rows, so rows are never exchanged: triangular matrices (the Cholesky factor, the covariance
 * of an exposure) pass by in column panels, which all ranks use at the same time with the same
 * number of rows. That keeps ranks from idling in the loop over exposures. The price, m^2/2 numbers
 * received per rank and pass, is shared by all the rows of the rank. */
#ifndef MOAO_ROWS_H
#define MOAO_ROWS_H

#include "base/comm.h"
#include "base/progress.h"
#include "matcov/matcov.h"
#include "system/system.h"
#include <stddef.h>

typedef struct { /* the ranks of a run, in groups, and their work arrays */
    const comm *c;
    const sys *s;
    report *rep;
    MPI_Comm group; /* the ranks that share my targets */
    int ngroup, group_size;
    int mygroup, member; /* rank = mygroup * group_size + member */
    size_t width;        /* columns of a panel */
    double *panel;       /* panel of a triangular matrix, and what gathering it needs */
    double *ctm;         /* t x width: Ctm of one target */
    double *z;           /* rows x width */
    int *count;          /* [2 size]: of gather_columns, which must not fail on one rank */
    double *piece; /* nrow x width: a target's rows of all the group, when it has several ranks */
} rowteam;

typedef struct {      /* the rows of a chunk of targets on one rank */
    int first, count; /* targets of the chunk */
    int mine, nmine;  /* targets of my group: mine .. mine + nmine */
    int nrow;         /* rows per target */
    int row0, nlrow;  /* this rank's slice of each target's rows */
    size_t ld;        /* nmine * nlrow, at least 1: rows held, and leading dimension */
    double *w;        /* ld x m */
} rowchunk;

/* Targets that group g holds of `count`: g's share is [*t0, *t0 + *nt). */
void rows_share(int count, int ngroup, int g, int *t0, int *nt);
/* Rows [*r0, *r0 + *nr) of `nrow` that member i of a group holds. */
void rows_slice(int nrow, int group_size, int i, int *r0, int *nr);

/* Collective. ld_max: the most rows that a chunk will put on a rank; panel_work: doubles for
 * `panel`; nrow: of the chunks to come. The arrays are allocated once for the run. */
status rows_init(const comm *c, const sys *s, report *rep, int group_size, size_t width,
                 size_t panel_work, size_t ld_max, int nrow, rowteam *t);
void rows_free(rowteam *t);

/* Collective. Lays out targets first..first+count and allocates w (zeroed). */
status rows_chunk_init(const rowteam *t, int nrow, int first, int count, rowchunk *ch);
void rows_chunk_free(rowchunk *ch);

/* Collective in the group. Gather the w columns of a matrix of `rows` rows, of which each member made
 * its share (rows_share), in place. */
void rows_gather(const rowteam *t, size_t rows, size_t w, double *a);

/* Collective in the group. The worst status of the group's ranks; the one that failed keeps its
 * message. */
status rows_group_agree(const rowteam *t, status local);

/* Collective in the group. out (nlrow x width_j, leading dimension ldo) = alpha proj(I,:) Ctm(:,
 * j0..) + beta out for one target, I this rank's slice of rows. proj: nrow x t (leading dimension
 * nrow), NULL: identity. The columns of Ctm are shared out over the group. */
status rows_project_ctm(const rowteam *t, const rowchunk *ch, const matcov_target *mt,
                        const double *proj, size_t j0, size_t w, double alpha, double beta,
                        double *out, size_t ldo, stage stg);

/* Collective. Columns j0..j0+w, rows j0..m of Cmm in t->panel (leading dimension m - j0), its
 * diagonal halved: a panel of T of Cmm = T + T' (Model section 6). The columns are shared out over
 * the ranks. */
status rows_half_panel(const rowteam *t, const matcov *mc, size_t j0, size_t w, stage stg);

/* Collective in the group. y (nlrow x nrow, leading dimension nlrow) += z_s (nlrow x w, leading
 * dimension ldz) times W_s(:, j0..j0+w)' of slot s of the chunk, W_s having the rows of the whole
 * group. */
void rows_outer(const rowteam *t, const rowchunk *ch, int slot, size_t j0, size_t w,
                const double *z, size_t ldz, double *y, stage stg);

/* Local. Tell the progress display of the work done since the last call. */
void rows_progress(const rowteam *t);

/* Wait for the other ranks of an MPI call, timed: seconds are added to rep->wait[stg]. */
#define ROWS_WAIT(t, stg, call)                                                                    \
    do {                                                                                           \
        double wait_from_ = report_now();                                                          \
        call;                                                                                      \
        (t)->rep->wait[stg] += report_now() - wait_from_;                                          \
    } while (0)

#endif
