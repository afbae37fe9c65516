/* A Gaussian process: data, parameters, factor. */
#ifndef MOAO_GP_INTERNAL_H
#define MOAO_GP_INTERNAL_H

#include "entries.h"
#include "moao/hier.h"
#include "radial.h"

enum { GP_PANEL = 256 }; /* columns that are computed, solved and copied together */

struct moao_gp {
    const backend *be;
    backend_ctx *ctx;
    gp_options o; /* no defaults left */
    int dim;
    int64_t n;
    double *at, *y;      /* in the caller's order */
    int64_t twin[2];     /* two points in the same place; -1: none */
    gp_kernel k;         /* of the factor */
    gp_radial radial;    /* of k */
    tlr_layout order;    /* of the factor */
    double *scaled;      /* [dim n] coordinates in units of the lengths, in the factor's order */
    hier_source entries; /* on another backend than the CPU's: of the covariance, in that order */
    bool ready;          /* there is a factor, and what follows */
    double *a;           /* dense: it, in triangle uplo; with the other one (mirrored, uplo U) */
    char uplo;           /* the inverse was formed in L */
    tlr *l;              /* TLR, of this tau */
    double tau;
    double *alpha;    /* [n] C^-1 (y - mean) */
    double *ones;     /* [n] C^-1 1, where the mean is estimated */
    double precision; /* 1' C^-1 1 */
    double mean;
};

static inline bool gp_dense(const struct moao_gp *g) {
    return g->o.method == MOAO_GP_DENSE;
}

/* Parameters in range for points in so many dimensions. */
status gp_check_kernel(const gp_kernel *k, int dim);
/* Coordinates [dim n], in the order of perm (NULL: as they are), in units of the lengths. */
status gp_scale(const gp_kernel *k, int dim, int64_t n, const double *at, const int64_t *perm,
                double *scaled);
/* Length of dimension d. */
static inline double gp_length(const gp_kernel *k, int d) {
    return k->length[1] == 0 ? k->length[0] : k->length[d];
}
/* Lengths that are parameters. */
static inline int gp_lengths(const gp_kernel *k, int dim) {
    return k->length[1] == 0 ? 1 : dim;
}
static inline double gp_square(int dim, const double *a, const double *b) {
    double s = 0;
    for (int d = 0; d < dim; d++)
        s += (a[d] - b[d]) * (a[d] - b[d]);
    return s;
}
/* c := variance f(x_i, y_j), n x m, of scaled coordinates. */
void gp_values(const gp_radial *r, double variance, int dim, int64_t n, const double *x, int64_t m,
               const double *y, double *c, int64_t ldc);

/* MOAO_INPUT: two points are in the same place, and there is no nugget. */
status gp_check_twins(const struct moao_gp *g, const gp_kernel *k);
/* factor.c. Factor of the covariance of parameters that were checked; g->order, g->scaled.
 * of_shape: derivatives by the shape will be asked for. */
status gp_make_factor(struct moao_gp *g, const gp_kernel *k, bool of_shape);
void gp_drop_factor(struct moao_gp *g);
status gp_logdet(const struct moao_gp *g, double *value);
/* Host vectors x [n x v] := L^-1 x (N), L^-T x (T), C^-1 x (A). */
status gp_solve(const struct moao_gp *g, char job, int64_t v, double *x);
/* x := L x. Dense, after gp_make_factor. */
status gp_times_factor(const struct moao_gp *g, double *x);
/* Dense: triangle L holds C^-1 until gp_invert_end; diagonal [n] keeps the factor's. */
status gp_invert(struct moao_gp *g, double *diagonal);
status gp_invert_end(struct moao_gp *g, double *diagonal);
status gp_logdet_error(struct moao_gp *g, int probes, double *error, double *deviation);
/* gradient.c: derivatives of the likelihood by the logarithms; alpha is that of the factor. */
status gp_gradient(struct moao_gp *g, double gradient[MOAO_GP_PARAMETERS]);

#endif
