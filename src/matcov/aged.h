/* Tables of a closed loop, for the files of this folder. */
#ifndef MOAO_MATCOV_AGED_H
#define MOAO_MATCOV_AGED_H

#include "internal.h"

typedef struct { /* rows and columns of two kinds and loops */
    int kind[2], loop[2], class;
    gradients means; /* what fills take in the place of matcov.means */
    double *values;
    matcov_gradient *tables;
    int *index;   /* [layer][3] slopes; the phase with slopes of the rows, of the columns; -1 */
    int *table;   /* the same, [3][layer] */
    int *plane;   /* [layer] the structure function between nodes, -1 */
    double *line; /* [layer][2] ages' displacements along the wind, first and last [m] */
    matcov_class *classes;
} aged_pair;

struct aged_tables {
    int n;
    aged_pair *pair;
    layers once;     /* each layer of the profile at rest, coefficient 1 */
    int *of, *first; /* its number by entry of matcov.lay; one of its entries */
    double *wind[2]; /* [layer] [m/s] */
};

/* Whether a profile has layers of several ages that they are for: of mirrors that all targets share
 * (the others' entries stay sums age by age, to the last bit). */
bool aged_wanted(const matcov *mc);
/* Local. MOAO_MEMORY. free: fine on NULL. */
status aged_make(const matcov *mc, aged_tables **g);
void aged_free(aged_tables *g);

/* What gives entries of slopes of a with those of b, and with which layers; NULL: g has none for
 * them, or g is NULL. */
const gradients *aged_between(const aged_tables *g, const footprint *a, const footprint *b,
                              layers *lay);

#endif
