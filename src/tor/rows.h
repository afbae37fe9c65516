/* How the rows of targets lie on the ranks.
 *
 * Each target has `nrow` rows: its DM commands (projected by D+) or its truth-sensor slopes. The
 * ranks form groups of equal size; a group holds whole targets, and each of its ranks the same
 * rows of every one, with all m columns: rows are never exchanged. */
#ifndef MOAO_ROWS_H
#define MOAO_ROWS_H

#include "engine/engine.h"

typedef struct { /* the ranks of a run, in groups */
    const comm *c;
    MPI_Comm group; /* the ranks that share my targets; not made where they are one */
    int ngroup, group_size;
    int mygroup, member; /* rank = mygroup * group_size + member */
    int nrow;            /* rows per target */
    int row0, nlrow;     /* this rank's share of them */
    int *count;          /* [2 group_size]: of team_gather, which must not fail on one rank */
    double *packed;      /* 2 x nrow x width: rows of W of the group, where it has several ranks */
} team;

typedef struct {      /* targets that are computed together */
    int first, count; /* all of them */
    int mine, nmine;  /* of my group: mine .. mine + nmine */
} chunk;

/* Part g of `ngroup` of `count` things: [*t0, *t0 + *nt). */
void rows_share(int count, int ngroup, int g, int *t0, int *nt);

/* Collective. width: columns of a panel. */
status team_init(const comm *c, int group_size, int nrow, size_t width, team *t);
void team_free(team *t);
/* Local. */
chunk team_chunk(const team *t, int first, int count);
/* Local. Targets of its group that a rank makes PSFs of: k0 .. k0 + n of the group's part of the
 * chunk; and the member that has the k-th. */
void team_owned(const team *t, const chunk *ch, int member, int *k0, int *n);
int team_owner(const team *t, const chunk *ch, int k);

/* Collective in the group, nothing in a group of one. The worst status of its ranks; the one that
 * failed keeps its message. */
status team_agree(const team *t, status local);
/* The same. Columns [w i/n, w (i+1)/n) of a matrix of `rows` rows come from member i of n. */
void team_gather(const team *t, size_t rows, size_t w, double *a);
/* Collective in the group, which has several ranks. out (nrow x n, leading dimension nrow) = W of
 * all its rows; w: nlrow x n of each member. */
void team_rows(const team *t, size_t n, const double *w, int64_t ldw, double *out);
/* Collective in the group, which has several ranks. y (nlrow x nrow, leading dimension nlrow) =
 * beta y + z (nlrow x n) W', W (nlrow x n of each member) having the rows of the whole group. */
status team_outer(const team *t, engine *e, int64_t n, const double *z, int64_t ldz,
                  const double *w, int64_t ldw, double beta, double *y);

#endif
