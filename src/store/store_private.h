/* Shared by the files of the store. Local. */
#ifndef MOAO_STORE_PRIVATE_H
#define MOAO_STORE_PRIVATE_H

#include "store.h"
#include "store_facts.h"
#include "store_part.h"

/* DIR/checkpoint/ holds
 *   effective.yaml  the effective parameters: its presence says that a run was begun here
 *   facts           lines "key value", sealed
 *   part-*.bin      what is done
 *   finished        written when the final files are in place, before the parts are removed: their
 *                   sizes and checksums, sealed
 *   lock            locked (flock) while a run writes here; the lock ends with the process */

struct store {
    char *dir, *checkpoint, *effective;
    part_run run;
    bool mixed; /* parts in mixed precision are welcome */
    part_shape *parts;
    int nparts, capacity;
    int *part_of; /* [nexposure * ntarget] index in parts, -1: not done */
    size_t done;
    bool finished;
    int lock_fd;
    fact_list facts;
    int left_out;   /* parts that do not count */
    part_file open; /* the part that was read last */
    int open_part;  /* its index, -1: none */
};

/* The path of a file of the checkpoint, in new memory (*out, to free). */
status store_path(const store *s, const char *name, char **out);
/* Index of a result in part_of; how many there are. */
size_t store_cell(const store *s, int exposure, int target);
size_t store_cells(const store *s);

/* Take a part into the lists of what is done. */
status store_add_part(store *s, const part_shape *p);
status store_write_facts(store *s);

/* Remove every part from the directory. */
status store_remove_parts(store *s);
/* MOAO_INPUT when the directory holds a run, or results, that would be lost. */
status store_refuse_results(store *s, bool resume);
/* Begin a run where another one may have been. */
status store_start_anew(store *s);
/* Go on with the run that the directory holds, if any. */
status store_load(store *s);

#endif
