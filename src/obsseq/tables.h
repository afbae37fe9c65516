/* What the host prepares of an exposure's profile before a device computes: covariances to be
 * loaded, the turbulence that all targets have in common, fitting error and noise. All of it
 * follows from system and profiles alone, so that a thread prepares the next exposure's while the
 * devices compute the present one. */
#ifndef MOAO_OBSSEQ_TABLES_H
#define MOAO_OBSSEQ_TABLES_H

#include "base/background.h"
#include "psf/psf.h"
#include "residual/product.h"

/* Models of a product, and of the profile. */
enum { TABLES_MODELS = PRODUCT_MODELS + 1 };

typedef struct { /* {0}: of no exposure */
    const comm *c;
    const sys *s;
    const psf *ps;
    const profile *p; /* NULL: none; borrowed */
    engine_model model[TABLES_MODELS];
    int nmodel;
    double *mtt;   /* psf_phase_common, and */
    psf_fit *fit;  /* psf_rest_init; NULL: known already */
    double *noise; /* [m/2][3] matcov_noise, NULL: not wanted */
    bool wants_mtt, wants_fit, wants_noise;
    background work;
} exposure_tables;

/* Local, of the host alone: fills in what is listed and wanted, and not there. */
status tables_make(exposure_tables *t);
/* Local. The same on a thread, until tables_take or tables_drop. t stays where it is. */
void tables_begin(exposure_tables *t);
/* Local. Waits for the thread of `from`; to has from it what it lists and wants and `from` has, and
 * the rest is dropped. The status of the thread. */
status tables_take(exposure_tables *from, exposure_tables *to);
/* Local. Waits for a thread, and frees all; fine on {0}. */
void tables_drop(exposure_tables *t);
/* Bytes of the host that those of the present exposure and of the next one take, of a night of so
 * many layerings (atmos_count_layerings). Local. */
size_t tables_bytes(const sys *s, const psf_opts *o, const matcov_sizes *z, int layerings);

#endif
