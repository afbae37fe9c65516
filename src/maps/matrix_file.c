#include "matrix_file.h"

#include "base/file.h"
#include "base/fits.h"
#include "version.h"

#include <stdlib.h>
#include <string.h>

struct matrix_file {
    fitsout out;
    size_t rows, cols;
    double *row; /* part of the matrix, row-major */
    size_t capacity;
};

enum { BUFFER = 1 << 17 }; /* elements turned at a time, 1 MiB */

status maps_matrix_open(const char *dir, const char *name, const char *unit, const char *title,
                        size_t rows, size_t cols, matrix_file **f) {
    status st;
    char *folder = NULL, *path = NULL, file[160];
    matrix_file *m = NULL;
    long naxes[2] = {(long)cols, (long)rows};
    *f = NULL;
    snprintf(file, sizeof file, "%s.fits", name);
    TRY(file_join(dir, "matrices", &folder));
    TRY(file_make_dir(folder));
    TRY(file_join(folder, file, &path));
    TRY(ALLOC(m, 1, "matrix file"));
    m->rows = rows;
    m->cols = cols;
    m->capacity = cols > BUFFER ? cols : BUFFER;
    TRY(ALLOC(m->row, m->capacity, "buffer of a matrix file"));
    TRY(fitsout_create(&m->out, path));
    fitsout_text(&m->out, "CREATOR", "moao " MOAO_VERSION, "program that wrote this file");
    fitsout_image(&m->out, name, DOUBLE_IMG, 2, naxes, 0);
    fitsout_text(&m->out, "BUNIT", unit, "unit of the elements");
    fitsout_text(&m->out, "TITLE", title, "");
    fitsout_comment(
        &m->out,
        "NAXIS2 counts rows, NAXIS1 columns. Slopes are ordered by sensor; within a sensor all x "
        "slopes, then all y slopes, subapertures row by row.");
    *f = m;
done:
    if (st != MOAO_OK)
        maps_matrix_close(m, false);
    free(path);
    free(folder);
    return st;
}

status maps_matrix_columns(matrix_file *f, size_t j0, size_t nj, const double *a, size_t ld) {
    if (j0 + nj > f->cols || ld < f->rows)
        return status_fail(MOAO_INTERNAL,
                           "columns %zu to %zu of a matrix of %zu, leading dimension %zu", j0,
                           j0 + nj, f->cols, ld);
    if (nj == 0 || f->rows == 0)
        return MOAO_OK;
    size_t block = f->capacity / nj;
    for (size_t i = 0; i < f->rows; i += block) {
        size_t ni = f->rows - i < block ? f->rows - i : block;
        for (size_t j = 0; j < nj; j++)
            for (size_t k = 0; k < ni; k++)
                f->row[k * nj + j] = a[i + k + j * ld];
        long first[2] = {(long)j0 + 1, (long)i + 1}, last[2] = {(long)(j0 + nj), (long)(i + ni)};
        fitsout_pixels_double(&f->out, first, last, f->row);
    }
    return MOAO_OK;
}

status maps_matrix_close(matrix_file *f, bool keep) {
    status st = MOAO_OK;
    if (f == NULL)
        return MOAO_OK;
    if (keep)
        st = fitsout_commit(&f->out);
    fitsout_abandon(&f->out);
    free(f->row);
    free(f);
    return st;
}
