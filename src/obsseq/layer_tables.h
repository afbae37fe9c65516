/* Covariances of commands that all targets share with the phase on each layer,
 *
 *     Gamma_l(y) = cov(phi_l(y), c) = W cov(s, phi_l(y)),    y: places of a lattice on the layer,
 *
 * for all layers at one altitude. Those of a target in direction d, W Cpm', are sums over layers at
 * x + d h_l: weighted sums of a few columns, by Lagrange's polynomials in x and y. On low
 * layers those are polynomials in d h_l: over the small displacements of all targets the
 * covariances of a point hardly have kinks. So measurements, and the ages of a closed loop, count
 * once an exposure, not once a target. Model section 7. */
#ifndef MOAO_OBSSEQ_LAYER_TABLES_H
#define MOAO_OBSSEQ_LAYER_TABLES_H

#include "obsseq/phase.h"

typedef struct {
    double h;        /* [m] */
    double drift[2]; /* of a pure delay: by which the phase of an exposure is displaced [m] */
    double from[2];  /* first place of the lattice; or displacement of the points [m] */
    double step[2];  /* [m] */
    int n[2];        /* places, or displacements, along x and y */
    int *column;     /* [n[1]][n[0]] of value, -1: no target sees it */
    int64_t count;   /* columns */
    double *x, *y;   /* [count] their places [m] */
    double *value;   /* on the host: rows x count, leading dimension rows */
    bool shifts;     /* low: columns are the points, at each of the displacements */
    bool points;     /* on the ground: columns are the points themselves, */
    bool still;      /* without wind, */
    bool moved;      /* or with it, where there is a table of either */
} layer_table;

struct layer_tables {
    int n;
    layer_table *table;  /* [n] by altitude */
    int64_t rows;        /* of W on this rank */
    const double *x, *y; /* points of the pupil, borrowed */
    int64_t points;
    profile one; /* of the layer loaded last */
    phase_term part;
};

/* Local, for the plan: columns of all tables of a system under a profile, and evaluations for each
 * measurement, of which a layer takes one for each of its ages. Points of the pupil. still: places
 * without the wind's displacement are wanted too. MOAO_MEMORY. */
typedef struct {
    double columns, evaluations;
} layer_tables_size;
status layer_tables_count(const sys *s, const profile *p, size_t points, bool still,
                          layer_tables_size *z);
/* Bytes of a rank with so many rows of W. */
size_t layer_tables_bytes(const layer_tables_size *z, size_t rows);

/* Collective where ranks work on the same panels. Tables of an exposure's profile, whose
 * covariances are not loaded afterwards; of CPUs, with W of all targets solved. still: as above.
 * free: fine on {0}. MOAO_MEMORY. */
status layer_tables_make(tor *t, const psf *ps, const phase_term *ph, linop *op, const profile *p,
                         bool still, layer_tables *g);
void layer_tables_free(tor *t, layer_tables *g);

/* Local. W Cpm' of this rank's rows of a target in direction dir [rad], rows x n at ct: at all
 * points (at NULL, n of them), or those numbers; still: without wind. MOAO_MEMORY. */
status layer_tables_look_up(const layer_tables *g, const double dir[2], bool still, int64_t n,
                            const int *at, double *ct);

#endif
