/* Matrices of covariances between points, from a kernel that is data (moao_gp_kernel: Matern of any
 * nu, squared and powered exponential; a length for each dimension; a nugget): one call each, no
 * function to write. Entries are computed where the backend is, in double precision or in that of
 * the format.
 *
 * at: host, n points of 1 to 3 dimensions, at[dim i + d]. Local; they wait. MOAO_INPUT: a parameter
 * of the kernel or a coordinate is out of range (the message names it), or a point meets another
 * one without a nugget (a factor finds that). *out is NULL on failure. */
#ifndef MOAO_FROM_POINTS_H
#define MOAO_FROM_POINTS_H

#include "gp.h"
#include "hier.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A source for moao_hier_open, moao_hier_load and moao_hier_check: another kernel at the same
 * points is another source of the same shape, if its lengths have the same ratio. Rows are ordered
 * by coordinates in units of the lengths. at is copied. moao_hier_points_close ends it. */
MOAO_PUBLIC moao_status moao_hier_kernel_open(const moao_backend *be, moao_backend_ctx *ctx,
                                              const moao_gp_kernel *kernel, int dim, int64_t n,
                                              const double *at, moao_hier_source *s);

/* HSS and H2, as moao_hier_open with options.kind set here. The nugget is on the diagonal: factor
 * with a shift of 0. */
MOAO_PUBLIC moao_status moao_hss_from_points(const moao_backend *be, moao_backend_ctx *ctx,
                                             const moao_gp_kernel *kernel, int dim, int64_t n,
                                             const double *at, const moao_hier_options *o,
                                             moao_hier **out);
MOAO_PUBLIC moao_status moao_h2_from_points(const moao_backend *be, moao_backend_ctx *ctx,
                                            const moao_gp_kernel *kernel, int dim, int64_t n,
                                            const double *at, const moao_hier_options *o,
                                            moao_hier **out);

/* Tile low-rank, symmetric, as moao_tlr_build; layout says how the points are ordered
 * (moao_tlr_layout_cloud) and must outlive the matrix. */
MOAO_PUBLIC moao_status moao_tlr_from_points(const moao_backend *be, moao_backend_ctx *ctx,
                                             const moao_tlr_layout *layout,
                                             const moao_gp_kernel *kernel, int dim,
                                             const double *at, const moao_tlr_options *o,
                                             moao_tlr **out);

#ifdef __cplusplus
}
#endif
#endif
