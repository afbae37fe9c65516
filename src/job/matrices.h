/* The matrices that output.matrices asks for, as FITS files in the order of the model's section 1.
 */
#ifndef MOAO_MATRICES_H
#define MOAO_MATRICES_H

#include "job/run_state.h"

/* Collective. Writes DIR/matrices/: D, Dplus; per reconstructor Cmm0, and per target Ctm0, R, W;
 * per exposure Cmm, Ctt, and per target Ctm, Cee, Cvv. An executor like that of the run makes them,
 * on the same devices, one target at a time; Cee and Cvv always in double precision. Nothing when
 * output.matrices is empty. */
status matrices_write(run *r);

#endif
