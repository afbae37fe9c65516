/* Ranks of the tiles of a compressed factor as DIR/matrices/NAME.fits, whole or not at all. Rank 0
 * only; local. */
#ifndef MOAO_RANKS_FILE_H
#define MOAO_RANKS_FILE_H

#include "operator/operator.h"

/* Image RANKS, float32, [tile row][tile column]; table TILES, a row for each tile row. of: numbers
 * of the same factor, for the header. */
status maps_write_ranks(const char *dir, const char *name, const factor_ranks *r,
                        const report_compression *of);

#endif
