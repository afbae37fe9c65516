/* The updates of a left-looking factor whose super-panels come from the host's memory. Those
 * that wait for updates share a pass over the super-panels before them: each of these comes once
 * for all, and each of the waiting ones gets the sums it would get alone. While the super-panels of
 * one such group are finished one after another, those of the next one are in a pass. */
#ifndef MOAO_TLR_PASSES_H
#define MOAO_TLR_PASSES_H

#include "tlr/internal.h"

#define TLR_SHARE 4 /* super-panels of a group, at most */

typedef struct tlr_passes tlr_passes;
/* Entries of super-panel p into d, in the stream of the factor. */
typedef status tlr_passes_read(void *arg, int64_t p, double *d);
/* main: of what finishes super-panels; ahead: of updates, in a stream of its own (a device) or the
 * same. apart: the update by the super-panel before is a sum of its own, as where updates go beside
 * what finishes it. most: super-panels of a group. All is borrowed. With options.room memory of
 * both and of l comes from one piece (pool.h) until the passes are closed, when they have none. */
status tlr_passes_open(tlr_work *main, tlr_work *ahead, tlr *l, bool apart, int most,
                       tlr_passes_read *read, void *arg, tlr_passes **out);
void tlr_passes_close(tlr_passes *x);
/* D of super-panel p with all its updates, in the stream of main; p = 0, 1, 2, ... */
status tlr_passes_complete(tlr_passes *x, int64_t p, double **d);
/* What those after p can have before p is finished, in the stream of ahead: first their entries, so
 * that it goes beside what follows in the stream of main from then on; then the updates. */
status tlr_passes_begin_ahead(tlr_passes *x, int64_t p);
status tlr_passes_look_ahead(tlr_passes *x, int64_t p);
/* Super-panels of the largest group so far. */
int tlr_passes_most(const tlr_passes *x);

#endif
