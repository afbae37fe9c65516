#ifndef MOAO_PSF_PARAMS_H
#define MOAO_PSF_PARAMS_H

#include "params/params.h"
#include "psf/psf.h"

/* What the parameters ask of the psf stage; the lists are borrowed from par. Local. */
void params_psf_opts(const params *par, psf_opts *o);

#endif
