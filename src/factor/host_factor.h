/* A factor in the host's memory: sizes, for the plan too, and what those that use one ask of it. */
#ifndef MOAO_HOST_FACTOR_H
#define MOAO_HOST_FACTOR_H

#include "factor/factor.h"

#include <stddef.h>

/* Local. Columns of a panel of the factor, a multiple of `width`, while it is made in the room that
 * later holds W of `targets`, rows each. */
size_t host_factor_width(size_t width, size_t rows, int targets);
/* Local. The host's memory that the panels of an m x m factor take in the end [bytes]. */
size_t host_factor_bytes(size_t m, size_t factor_width);

/* Local, after factor. W := W L'^-1 (forward), then W L^-1 (backward), for n blocks of rows. */
status streamed_triangles(factor *f, bool forward, bool backward, int n, const wrows *w);
/* Local, after factor, in stream order. Columns j .. j + n of L on the device, from row j on; what
 * lies above the diagonal is unspecified. */
status streamed_columns_of(factor *f, int64_t j, int64_t n, double *to, int64_t ld);

/* Local, for what uses `panel` of the factor. Wait for the transfers in, and what they had to wait
 * for; and let them wait for all work that was given to the device. */
status host_factor_pace(factor *f);
status host_factor_follow(factor *f);

#endif
