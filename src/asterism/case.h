/* The covariances that all asterisms share, made once: of the sensors that every one of them has
 * (the laser stars), of all candidates, and of the targets' commands with both.
 *
 * With the fixed sensors' block eliminated, an asterism A (rows A of the candidates) leaves a
 * target
 *
 *     Cvv = cf - sym(2 rs_A' S_AA^-1 r0_A - r0_A' S_AA^-1 r0_A)
 *
 * S = Ccc - Ccf Cff^-1 Cfc, r0 and rs the covariances of the candidates' slopes with the commands
 * D+ s of the target (positions as the reconstructor and as the exposure see them), reduced in the
 * same way, cf what the fixed sensors alone leave. It is the residual of model section 6 for an
 * exposure under the conditions of its reconstructor. */
#ifndef MOAO_ASTERISM_CASE_H
#define MOAO_ASTERISM_CASE_H

#include "base/comm.h"
#include "system/atmos.h"
#include "system/system.h"

typedef struct {
    const sys *s; /* borrowed: sensors [0, nfixed) are fixed, the rest are candidates */
    int nfixed, ncand;
    int ntarget, v;  /* targets; commands of one */
    size_t n, mc;    /* slopes of a candidate, of all */
    double *S;       /* mc x mc, both triangles [arcsec^2] */
    double *r0, *rs; /* mc x (v ntarget), target by target [arcsec m]; rs is r0 without a delay */
    double *cf;      /* [ntarget] v x v, both triangles [m^2] */
    double *area; /* v x v: phase variance over the pupil of commands x is x' area x, no piston */
    double *var0; /* [ntarget] that variance with the fixed sensors alone [m^2] */
} ast_case;

/* Collective: every rank gets all of it, and may need the memory that ast_case_bytes says. The
 * candidates must have equally many subapertures (MOAO_INPUT). `s` must outlive *out. */
status ast_case_init(const comm *c, const sys *s, int nfixed, const profile *p, ast_case **out);
void ast_case_free(ast_case *k);
/* Local. Bytes that one rank holds at most, the Gram blocks of score.h included. */
double ast_case_bytes(const sys *s, int nfixed);

/* Local. `area` of a mirror (v x v, no unit): the integral over the pupil of the product of two
 * influence functions, less that of their means, over the area. */
status ast_pupil_area(const sys *s, double *area);

#endif
