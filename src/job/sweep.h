/* The runs of a sweep: which keys take which values, and the list of runs in its folder. Local. */
#ifndef MOAO_SWEEP_H
#define MOAO_SWEEP_H

#include "base/text.h"
#include "job/cmdline.h"
#include "params/params_table.h"

typedef struct { /* one swept key and its values, as they are typed */
    char *key;
    int n;
    char **value;
    bool missed; /* a range whose steps do not reach its end, */
    double end;  /* which is this, in the unit as typed */
} sweep_axis;

typedef struct {
    int naxis, nplain;
    sweep_axis *axis;
    const char **plain; /* [nplain] overrides that all runs share; borrowed strings */
    int nrun;           /* product of the axes' n */
} sweep_grid;

#define SWEEP_MOST 10000 /* runs */

/* Overrides of the form key=a..b[:step] (numbers, a unit behind the last one; without a step 1) and
 * key=[...] where the parameter takes no list, or a list of lists where it does, are swept; the
 * others hold for all runs. MOAO_INPUT with one line. sweep_free also after a failure. */
status sweep_parse(const cmdline *cl, sweep_grid *g);
void sweep_free(sweep_grid *g);
/* Value of an axis in run i (the last axis is the fastest). */
const char *sweep_value(const sweep_grid *g, int axis, int i);

/* The field that a key of the command line names; NULL when unknown. */
const param_field *sweep_field(const char *key);

typedef struct {  /* one run of the list */
    char *folder; /* below the sweep's */
    int n;        /* words: the swept key=value, in the order of the keys, then those of all */
    char **word;
    bool damaged; /* its results cannot be read, which was said */
} sweep_run;

typedef struct {
    int nkey, nrun;
    char **key;
    sweep_run *run;
} sweep_list;

/* The runs of a grid. MOAO_INPUT for what the list and the table could not give back: control
 * characters, names of keys and values that are too long for FITS. */
status sweep_list_make(const sweep_grid *g, sweep_list *l);
/* DIR/runs.txt, the list that campaign.sbatch reads too; *l is empty when there is none. */
status sweep_list_read(const char *dir, sweep_list *l);
status sweep_list_write(const char *dir, const sweep_list *l);
/* Add to l the runs of `old` whose folders are not in l. MOAO_INPUT when the keys differ. */
status sweep_list_join(sweep_list *l, sweep_list *old, const char *dir);
void sweep_list_free(sweep_list *l);

#endif
