/* One matrix as DIR/matrices/NAME.fits, whole or not at all, written at once or by panels of
 * columns. Rank 0 only; local. */
#ifndef MOAO_MATRIX_FILE_H
#define MOAO_MATRIX_FILE_H

#include "moao/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct matrix_file matrix_file;

/* The image (first extension, EXTNAME = name) has NAXIS1 = cols and NAXIS2 = rows, float64, so that
 * Python's data[i, j] is row i, column j; slopes in the order of the model. */
status maps_matrix_open(const char *dir, const char *name, const char *unit, const char *title,
                        size_t rows, size_t cols, matrix_file **f);
/* Columns j0 .. j0+nj-1, column-major with leading dimension ld, in any order, each once. */
status maps_matrix_columns(matrix_file *f, size_t j0, size_t nj, const double *a, size_t ld);
/* Makes the file appear, or removes it unless `keep`. f is freed; NULL is fine. */
status maps_matrix_close(matrix_file *f, bool keep);

#endif
