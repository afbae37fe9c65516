/* Point-spread functions of single asterisms, from all of the covariances of a case. */
#ifndef MOAO_ASTERISM_IMAGES_H
#define MOAO_ASTERISM_IMAGES_H

#include "asterism/case.h"
#include "asterism/want.h"
#include "psf/psf.h"

typedef struct ast_images ast_images; /* plans and work arrays; one thread at a time */

/* Local; not from two threads at once (plans). For asterisms of up to nmost stars. `fit_share`:
 * factor on the layers' strengths for the fitting error, so that a mirror of reduced order leaves
 * that of the full one. psf_opts of the run; wavelength and box are those of `w`. Borrows k, p and
 * w. */
status ast_images_init(const ast_case *k, const psf_opts *o, const profile *p, double fit_share,
                       const want *w, int nmost, ast_images **out);
void ast_images_free(ast_images *q);

/* Local. The wanted quantity of every target with these stars: value[ntarget]; rms in nm. */
status ast_images_run(ast_images *q, const int *star, int nstar, double *value);

#endif
