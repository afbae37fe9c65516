#include "psf_params.h"

#include <math.h>

void params_psf_opts(const params *par, psf_opts *o) {
    *o = (psf_opts){.nlambda = par->psf_wavelengths.n,
                    .lambda = par->psf_wavelengths.v,
                    .nbox = par->psf_ee_boxes.n,
                    .box = par->psf_ee_boxes.v,
                    .oversampling = par->psf_oversampling,
                    .span = par->psf_span,
                    .weighted = par->psf_weighting == WEIGHTING_ENERGY,
                    .phase = par->psf_residual == RESIDUAL_PHASE,
                    .crop = par->output_crop,
                    .jitter = {hypot(par->errors_jitter[0], par->errors_windshake[0]),
                               hypot(par->errors_jitter[1], par->errors_windshake[1])},
                    .static_rms = par->errors_static_rms,
                    .static_power = par->errors_static_power,
                    .budget = params_wants_budget(par)};
}
