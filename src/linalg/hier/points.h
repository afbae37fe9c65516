/* A source of the entries of any kernel (points.c). */
#ifndef MOAO_HIER_POINTS_H
#define MOAO_HIER_POINTS_H

#include "moao/hier.h"

/* Arguments that were checked. f->table lies in the host's memory and is copied. Coordinates `at`
 * are borrowed for as long as the source lives; where `owned` is not NULL, it is `at` and the
 * source frees it. moao_hier_points_close ends it. */
status hier_function_open(const backend *be, backend_ctx *ctx, const hier_function *f, int dim,
                          int64_t n, const double *at, double *owned, hier_source *s);

#endif
