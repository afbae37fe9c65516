/* The families of operations that the simulator adds to a backend of the library: covariances and
 * PSFs. For those who write a backend, and for the stages. */
#ifndef MOAO_BACKEND_FAMILIES_H
#define MOAO_BACKEND_FAMILIES_H

#include "backend_matcov.h"
#include "backend_psf.h"
#include "moao/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Local. backend_get (moao/backend.h) for the simulator: a plugin whose tables of covariances and
 * PSFs have other sizes than here is refused, MOAO_INPUT. A plugin may have neither. */
status families_backend(const char *name, const backend **out);

/* What every backend_cov, backend_cov_target and backend_imager begins with, for the same; open and
 * open_target fill it. */
typedef struct {
    const struct backend_matcov *own;
    int64_t m, t; /* slopes of all sensors, of the truth sensor */
} backend_cov_head;
typedef struct {
    const backend_cov_head *cov;
    bool aimed; /* of the checks */
} backend_cov_target_head;
typedef struct {
    const struct backend_psf *own;
    int64_t nact;
    bool pairs, pairwise; /* there is a lattice of points, with sampled ones */
} backend_imager_head;

/* *table is a backend's own with its operations checked. What they work with leads to the own one.
 */
void checked_matcov(const backend_matcov *own, backend_matcov *table);
void checked_psf(const backend_psf *own, backend_psf *table);

#ifdef __cplusplus
}
#endif
#endif
