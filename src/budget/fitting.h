/* The least that the mirror's shapes leave of the turbulence. Model section 7, "Error budget". */
#ifndef MOAO_BUDGET_FITTING_H
#define MOAO_BUDGET_FITTING_H

#include "base/comm.h"
#include "psf/psf.h"
#include "system/system.h"

/* Of v influence functions at the points of p: their means, mean[v], and g (v x v, symmetric) =
 * A'A/points, A = influence functions less their means. mean and g come zeroed. Local. MOAO_MEMORY.
 */
status mirror_shapes(const psf *p, int v, double *mean, double *g);
/* The lower triangle of g += weight times that of mirrors m0 .. m1 (psf_mirrors) alone, mean +=
 * theirs; mean comes zeroed. Local. MOAO_MEMORY. Then the other triangle := the transpose of the
 * lower one.
 */
status mirror_shapes_add(const psf *p, int v, int m0, int m1, double weight, double *mean,
                         double *g);
void mirror_shapes_whole(int v, double *g);
/* Actuators that reach a row of points, of all mirrors, at most; for the plan. Local. */
double mirror_row_actuators(const sys *s);
/* Floating-point operations of psf_influence_product of so many rows with all mirrors at all of
 * these points; for the plan. Local. */
double mirror_product_flops(const sys *s, double points, double rows);

/* g of mirror_shapes, of all commands of the system, becomes B for which A B A'/points is the
 * projector on the shapes of commands without piston. Local. MOAO_MEMORY, MOAO_NUMERIC. */
status fitting_invert(const sys *s, int v, double *g);

/* Directions in which mirrors have a fitting error of their own: the targets, or 1 where all
 * mirrors are on the pupil. */
int fitting_directions(const sys *s);

/* out[fitting_directions][n] = this rank's part of the fitting error's variance [m^2] over the
 * pupil, of layers of strength 1 m^(-5/3) with the outer scales L0[n] [m]; the sum over ranks is
 * meant. Of several mirrors: what all their shapes leave, as a target sees them. Where the lattice
 * of p has less than 2 points a pitch, on one that has. p: aimed elsewhere after it. Local.
 * MOAO_MEMORY, MOAO_NUMERIC. */
status fitting_variance(const comm *c, const sys *s, psf *p, int n, const double *L0, double *out);

/* Local, for the plan: bytes of a rank while it runs, floating-point operations of all ranks. o:
 * options of the images. */
size_t fitting_bytes(const sys *s, const psf_opts *o);
double fitting_flops(const sys *s, const psf_opts *o);

#endif
