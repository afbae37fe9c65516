/* Tile low-rank matrices and factors in files: what took long to compute is kept, for other
 * programs and for later.
 *
 * A file is of one version of the format, in the byte order of the machine that wrote it; others
 * are refused. It has the order of the rows, the tiles with their ranks, their numbers in the
 * precision in which they are stored, and a sum over everything before it. Version 1 has double
 * precision alone; a factor with options.fp32 is written in version 2, which earlier libraries
 * refuse by name. */
#ifndef MOAO_TLR_FILE_H
#define MOAO_TLR_FILE_H

#include "tlr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a symmetric matrix or a factor, in whole: the file appears under its name when it is
 * complete (PATH.part before). Tiles in single precision (options.fp32) are written as they are,
 * with options.mixed and terms; those in the host's memory (options.host) too. MOAO_INPUT: a
 * rectangular matrix, or one that is distributed or has columns in FP16 (options.fp16). MOAO_IO:
 * the file cannot be written. Waits. Local. */
MOAO_PUBLIC moao_status moao_tlr_save(const moao_tlr *a, const char *path);

/* Reads one into the memory of a backend: the same matrix, bit for bit, also of one that was in the
 * host's memory. *layout is its order and
 * belongs to the caller, who frees it (moao_tlr_layout_free) after closing the matrix; both are
 * empty on failure; *factor and *tau (each may be NULL): whether it is one, and the tolerance of
 * its compression. Nothing of a file is believed: its size has to be that of what it says it holds
 * before memory is taken. MOAO_IO: it cannot be read; MOAO_INPUT: it is no such file, of another
 * version or byte order, cut short, or its sum or a number in it is wrong. Waits. Local. */
MOAO_PUBLIC moao_status moao_tlr_load(const moao_backend *be, moao_backend_ctx *ctx,
                                      const char *path, moao_tlr_layout *layout, moao_tlr **out,
                                      bool *factor, double *tau);

#ifdef __cplusplus
}
#endif
#endif
