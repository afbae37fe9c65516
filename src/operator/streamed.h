/* Sizes of a factor in the host's memory, for the plan too. Local. */
#ifndef MOAO_STREAMED_H
#define MOAO_STREAMED_H

#include <stddef.h>

/* Columns of a panel of the factor, a multiple of `width`, while it is made in the room that later
 * holds W of `targets`, rows each. */
size_t streamed_width(size_t width, size_t rows, int targets);
/* The host's memory that the panels of an m x m factor take in the end [bytes]. */
size_t streamed_host_bytes(size_t m, size_t factor_width);

#endif
