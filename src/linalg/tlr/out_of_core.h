/* The updates of a left-looking factor whose block columns come from the host's memory. Those
 * that wait for updates share a pass over the block columns before them: each of these comes once
 * for all, and each of the waiting ones gets the sums it would get alone. While the block columns
 * of one such group are finished one after another, those of the next one are in a pass. */
#ifndef MOAO_TLR_PASSES_H
#define MOAO_TLR_PASSES_H

#include "internal.h"

#define TLR_SHARE 4 /* block columns of a group, at most */

typedef struct tlr_ooc tlr_ooc;
/* Entries of block column p into d, in the stream of the factor. */
typedef status tlr_ooc_read(void *arg, int64_t p, double *d);
/* main: of what finishes block columns; ahead: of updates, in a stream of its own (a device) or the
 * same. apart: the update by the block column before is a sum of its own, as where updates go
 * concurrently with what finishes it. most: block columns of a group. All is borrowed. With
 * options.room memory of both and of l comes from one piece (pool.h) until the passes are closed,
 * when they have none. */
status tlr_ooc_open(tlr_work *main, tlr_work *ahead, tlr *l, bool apart, int most,
                    tlr_ooc_read *read, void *arg, tlr_ooc **out);
void tlr_ooc_close(tlr_ooc *x);
/* D of block column p with all its updates, in the stream of main; p = 0, 1, 2, ... */
status tlr_ooc_complete(tlr_ooc *x, int64_t p, double **d);
/* What those after p can have before p is finished, in the stream of ahead: first their entries, so
 * that it runs concurrently with what follows in the stream of main from then on; then the updates.
 */
status tlr_ooc_begin_ahead(tlr_ooc *x, int64_t p);
status tlr_passes_look_ahead(tlr_ooc *x, int64_t p);
/* Block columns of the largest group so far. */
int tlr_ooc_most(const tlr_ooc *x);

#endif
