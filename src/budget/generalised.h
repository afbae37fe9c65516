/* What commands that are fitted to known phases in the directions of `optimise` leave more than the
 * best shape that a target could have. Model section 7, "Error budget". */
#ifndef MOAO_BUDGET_GENERALISED_H
#define MOAO_BUDGET_GENERALISED_H

#include "base/comm.h"
#include "psf/psf.h"
#include "system/atmos.h"
#include "system/system.h"

/* Of every target, of the profiles of a run or, where they are fewer, of their layers. */
typedef struct {
    int n;          /* profiles or layers, of which values are sums; 0: there is no such term */
    profile *parts; /* [n] of one layer, or with all; without wind */
    double *value;  /* [targets][n] variance [m^2]; of a layer, of strength 1 m^(-5/3) */
} generalised;

/* Collective. f: sys.fit's F (obsseq/fit.h), v x sys_fit_columns, on every rank; nothing is done
 * where targets have commands of their own. p: aimed elsewhere after it. free: fine on {0}.
 * MOAO_MEMORY, MOAO_NUMERIC. */
status generalised_init(const comm *c, const sys *s, psf *p, const double *f, const atmos *a,
                        generalised *g);
void generalised_free(generalised *g);
/* Local. Variance of a target under a profile of the run [m^2]. */
double generalised_of(const generalised *g, const profile *p, int target);

/* Local, for the plan: bytes of a rank while it is computed; floating-point operations of all
 * ranks. */
size_t generalised_bytes(const sys *s, const psf_opts *o);
double generalised_flops(const sys *s, const psf_opts *o, const atmos *a);

#endif
