#define _GNU_SOURCE
#include "fits.h"

#include "file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 4096 };

/* After each call of cfitsio: keep the reason of the first failure. */
static void keep_cause(fitsout *o) {
    if (o->err == 0)
        errno = 0;
    else if (o->cause == 0)
        o->cause =
            errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO ? errno : -1;
}

static status report(fitsout *o) {
    char why[FLEN_STATUS] = "";
    keep_cause(o);
    fits_get_errstatus(o->err, why);
    fits_clear_errmsg();
    return status_fail(MOAO_IO, "%s: cannot write: %s", o->path,
                       o->cause > 0 ? strerror(o->cause) : why);
}

status fitsout_create(fitsout *o, const char *path) {
    status st;
    memset(o, 0, sizeof *o);
    file_limits_as_errors();
    TRY(ALLOC(o->path, strlen(path) + 1, "file name"));
    strcpy(o->path, path);
    TRY(file_temp_name(path, &o->temp));
    if (unlink(o->temp) != 0 && errno != ENOENT) {
        st = status_fail(MOAO_IO, "%s: cannot replace: %s", o->temp, strerror(errno));
        goto done;
    }
    errno = 0;
    fits_create_diskfile(&o->f, o->temp, &o->err);
    if (o->err != 0) {
        int why = errno;
        fits_clear_errmsg();
        o->f = NULL;
        st = status_fail(MOAO_IO, "%s: cannot write: %s", path,
                         why != 0 ? strerror(why) : "the file cannot be created");
        goto done;
    }
    fits_create_img(o->f, BYTE_IMG, 0, NULL, &o->err);
    o->nhdu = 1;
    keep_cause(o);
done:
    if (st != MOAO_OK)
        fitsout_abandon(o);
    return st;
}

static void finish_hdu(fitsout *o) {
    fits_write_date(o->f, &o->err);
    fits_write_chksum(o->f, &o->err);
    keep_cause(o);
}

status fitsout_commit(fitsout *o) {
    status st = MOAO_OK;
    int err = 0;
    finish_hdu(o);
    fits_close_file(o->f, o->err == 0 ? &o->err : &err);
    o->f = NULL;
    if (o->err != 0) {
        st = report(o);
        unlink(o->temp);
    } else {
        st = file_publish(o->temp, o->path);
    }
    fitsout_abandon(o);
    return st;
}

void fitsout_abandon(fitsout *o) {
    int err = 0;
    if (o->f != NULL) {
        fits_close_file(o->f, &err);
        fits_clear_errmsg();
        unlink(o->temp);
    }
    free(o->path);
    free(o->temp);
    memset(o, 0, sizeof *o);
}

/* Printable ASCII only, as headers and tables of text need. */
static const char *ascii(const char *text) {
    static char out[TEXT_MAX];
    size_t n = 0;
    for (; *text != '\0' && n + 1 < sizeof out; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c & 0xC0) != 0x80) /* one mark for all bytes of a character */
            out[n++] = c >= 0x20 && c < 0x7f ? (char)c : c == '\t' ? ' ' : '?';
    }
    out[n] = '\0';
    return out;
}

static void name_hdu(fitsout *o, const char *extname) {
    o->nhdu++;
    fits_update_key_str(o->f, "EXTNAME", extname, "name of this extension", &o->err);
    keep_cause(o);
}

void fitsout_image(fitsout *o, const char *extname, int bitpix, int naxis, const long *naxes,
                   double compress_step) {
    long size[6] = {1, 1, 1, 1, 1, 1}, tile[6] = {1, 1, 1, 1, 1, 1};
    finish_hdu(o);
    for (int i = 0; i < naxis; i++) {
        size[i] = naxes[i];
        tile[i] = i < 2 ? naxes[i] : 1;
    }
    if (compress_step > 0) {
        fits_set_compression_type(o->f, RICE_1, &o->err);
        fits_set_tile_dim(o->f, naxis, tile, &o->err);
        fits_set_quantize_level(o->f, (float)-compress_step, &o->err); /* negative: absolute */
        fits_set_quantize_method(o->f, SUBTRACTIVE_DITHER_1, &o->err);
        fits_set_dither_seed(o->f, 1, &o->err); /* the same file from the same data */
    }
    fits_create_img(o->f, bitpix, naxis, size, &o->err);
    if (compress_step > 0)
        fits_set_compression_type(o->f, 0, &o->err);
    name_hdu(o, extname);
}

void fitsout_table(fitsout *o, const char *extname, long nrow, int ncol,
                   const fitsout_column *columns) {
    char key[FLEN_KEYWORD];
    char **text = malloc(3 * (size_t)ncol * sizeof *text);
    if (text == NULL) {
        o->err = o->err != 0 ? o->err : MEMORY_ALLOCATION;
        return;
    }
    finish_hdu(o);
    for (int i = 0; i < ncol; i++) { /* cfitsio's prototype lacks const; it only reads */
        memcpy(&text[i], &columns[i].name, sizeof *text);
        memcpy(&text[ncol + i], &columns[i].form, sizeof *text);
        memcpy(&text[2 * ncol + i], &columns[i].unit, sizeof *text);
    }
    fits_create_tbl(o->f, BINARY_TBL, nrow, ncol, text, text + ncol, text + 2 * ncol, NULL,
                    &o->err);
    for (int i = 0; i < ncol; i++) {
        snprintf(key, sizeof key, "TTYPE%d", i + 1);
        fits_modify_comment(o->f, key, columns[i].comment, &o->err);
    }
    free(text);
    name_hdu(o, extname);
}

void fitsout_real(fitsout *o, const char *key, double value, const char *comment) {
    if (isfinite(value))
        fits_update_key_dbl(o->f, key, value, -15, comment, &o->err);
    else
        fits_update_key_null(o->f, key, comment, &o->err);
    keep_cause(o);
}

void fitsout_integer(fitsout *o, const char *key, long value, const char *comment) {
    fits_update_key_lng(o->f, key, value, comment, &o->err);
    keep_cause(o);
}

void fitsout_text(fitsout *o, const char *key, const char *value, const char *comment) {
    const char *text = ascii(value);
    if (strlen(text) > 60)
        fits_write_key_longwarn(o->f, &o->err);
    fits_update_key_longstr(o->f, key, text, comment, &o->err);
    keep_cause(o);
}

void fitsout_comment(fitsout *o, const char *text) {
    fits_write_comment(o->f, ascii(text), &o->err);
    keep_cause(o);
}

void fitsout_axis(fitsout *o, int axis, const char *ctype, const char *cunit, double crpix,
                  double crval, double cdelt) {
    char key[FLEN_KEYWORD];
    const struct {
        const char *name, *comment;
        double value;
    } real[] = {{"CRPIX", "reference pixel", crpix},
                {"CRVAL", "value there", crval},
                {"CDELT", "step", cdelt}};
    snprintf(key, sizeof key, "CTYPE%d", axis);
    fitsout_text(o, key, ctype, "axis");
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "%s%d", real[i].name, axis);
        fitsout_real(o, key, real[i].value, real[i].comment);
    }
    if (cunit[0] != '\0') {
        snprintf(key, sizeof key, "CUNIT%d", axis);
        fitsout_text(o, key, cunit, "unit");
    }
}

/* cfitsio's prototypes lack const for data that it only reads. */
static void *readable(const void *a) {
    void *p;
    memcpy(&p, &a, sizeof p);
    return p;
}

void fitsout_pixels_double(fitsout *o, long *first, long *last, const double *a) {
    fits_write_subset(o->f, TDOUBLE, first, last, readable(a), &o->err);
    keep_cause(o);
}

void fitsout_pixels_float(fitsout *o, long *first, long *last, const float *a) {
    fits_write_subset(o->f, TFLOAT, first, last, readable(a), &o->err);
    keep_cause(o);
}

void fitsout_cells_double(fitsout *o, int col, long row, long element, long n, const double *a) {
    fits_write_col(o->f, TDOUBLE, col, row, element, n, readable(a), &o->err);
    keep_cause(o);
}

void fitsout_cell_integer(fitsout *o, int col, long row, long value) {
    fits_write_col(o->f, TLONG, col, row, 1, 1, &value, &o->err);
    keep_cause(o);
}

void fitsout_cell_text(fitsout *o, int col, long row, const char *value) {
    char *text = readable(ascii(value));
    fits_write_col(o->f, TSTRING, col, row, 1, 1, &text, &o->err);
    keep_cause(o);
}
