/* The matrices that output.matrices asks for, as FITS files in the order of the model's section 1.
 */
#ifndef MOAO_MATRICES_H
#define MOAO_MATRICES_H

#include "job/plan.h"
#include "job/setup.h"
#include "tor/rows.h"

/* Collective. Writes DIR/matrices/: D, Dplus; per reconstructor Cmm0, and per target Ctm0, R, W;
 * per exposure Cmm, Ctt, and per target Ctm, Cee, Cvv. Computes them apart from the run, one target
 * at a time, with the same functions; nothing when output.matrices is empty. No rank holds a whole
 * m x m matrix but where there is one. */
status matrices_write(const rowteam *t, const setup *u, const plan *p, const double *dplus,
                      const char *dir);

#endif
