/* HSS and H2 matrices in files, HSS with its factor: what took long to compute is kept, for other
 * programs and for later.
 *
 * A file is of one version of the format, in the byte order of the machine that wrote it; others
 * are refused. It has the tree with the order of its rows and their coordinates, the ranks, all
 * numbers in the format's type, and a sum over everything before it. */
#ifndef MOAO_HIER_FILE_H
#define MOAO_HIER_FILE_H

#include "hier.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes an HSS or H2 matrix from the memory of its backend, in whole: the file appears under its
 * name when it is complete (PATH.part before). The factor of moao_hier_factor goes with it.
 * MOAO_INPUT: another kind, or a format that holds no matrix. MOAO_IO: the file cannot be written.
 * Waits. Local. */
MOAO_PUBLIC moao_status moao_hier_save(const moao_hier *f, const char *path);

/* Reads one into the memory of a backend, which may be another than the one that wrote it: the same
 * matrix, bit for bit, that multiplies, is factored, compressed, checked or loaded anew as the one
 * that was saved. Where it was factored it solves at once, and moao_hier_info.rcond is a number.
 * *out is NULL on failure; moao_hier_close ends it. Nothing of a file is believed: its size has to
 * be that of what it says it holds before memory for that is taken. MOAO_IO: it cannot be read;
 * MOAO_INPUT: it is no such file, of another version or byte order, cut short, or its tree, its
 * sum or a number in it is wrong. Waits. Local. */
MOAO_PUBLIC moao_status moao_hier_restore(const moao_backend *be, moao_backend_ctx *ctx,
                                          const char *path, moao_hier **out);

#ifdef __cplusplus
}
#endif
#endif
