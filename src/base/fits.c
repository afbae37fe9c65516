#include "fits.h"

#include "fits_driver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status report(fitsout *o) {
    char why[FLEN_STATUS] = "";
    fits_get_errstatus(o->err, why);
    fits_clear_errmsg();
    if (o->out.err != 0)
        return file_fail(o->out.path, "write", o->out.err);
    return status_fail(MOAO_IO, "%s: cannot write: %s", file_shown(o->out.path), why);
}

status fitsout_create(fitsout *o, const char *path) {
    char name[FLEN_FILENAME];
    status st;
    memset(o, 0, sizeof *o);
    file_limits_as_errors();
    TRY(file_begin(&o->out, path));
    TRY(fits_driver_lend(&o->out, name, sizeof name));
    if (fits_create_file(&o->f, name, &o->err) != 0) {
        o->f = NULL;
        TRY(report(o));
    }
    fits_create_img(o->f, BYTE_IMG, 0, NULL, &o->err);
    o->nhdu = 1;
done:
    if (st != MOAO_OK)
        fitsout_abandon(o);
    return st;
}

static void finish_hdu(fitsout *o) {
    fits_write_date(o->f, &o->err);
    fits_write_chksum(o->f, &o->err);
}

/* NULL when the file, read back, is what was written; else what is wrong. */
static const char *wrong_at_reading(const fitsout *o, const char *name) {
    fitsfile *f = NULL;
    int err = 0, ignored = 0, nhdu = 0, data = 0, header = 0;
    LONGLONG end = 0;
    const char *wrong = NULL;
    if (fits_open_file(&f, name, READONLY, &err) != 0) {
        fits_clear_errmsg();
        return "it cannot be opened";
    }
    for (int i = 1; i <= o->nhdu && wrong == NULL; i++) {
        fits_movabs_hdu(f, i, NULL, &err);
        fits_verify_chksum(f, &data, &header, &err);
        fits_get_hduaddrll(f, NULL, NULL, &end, &err);
        if (err != 0 || data != 1 || header != 1)
            wrong = "a checksum is wrong";
    }
    if (wrong == NULL && (fits_get_num_hdus(f, &nhdu, &err) != 0 || nhdu != o->nhdu))
        wrong = "extensions are missing";
    if (wrong == NULL && (uint64_t)end != o->out.size)
        wrong = "its size is wrong";
    fits_close_file(f, &ignored);
    fits_clear_errmsg();
    return wrong;
}

status fitsout_verify(fitsout *o) {
    char name[FLEN_FILENAME];
    status st = fits_driver_lend(&o->out, name, sizeof name);
    if (st != MOAO_OK)
        return st;
    const char *wrong = wrong_at_reading(o, name);
    fits_driver_return(&o->out);
    if (wrong == NULL)
        return MOAO_OK;
    return status_fail(MOAO_IO,
                       "%s: read back after writing, %s; look at the file system there, and try "
                       "again",
                       file_shown(o->out.path), wrong);
}

status fitsout_finish(fitsout *o) {
    int err = 0;
    status st = MOAO_OK;
    if (o->finished)
        return MOAO_OK;
    finish_hdu(o);
    fits_close_file(o->f, o->err == 0 ? &o->err : &err);
    o->f = NULL;
    if (o->err != 0 || o->out.err != 0) /* cfitsio forgets some failures of its last writes */
        return report(o);
    TRY(file_finish(&o->out));
    TRY(fitsout_verify(o));
    o->finished = true;
done:
    return st;
}

status fitsout_commit(fitsout *o) {
    status st = fitsout_finish(o);
    if (st == MOAO_OK)
        st = file_commit(&o->out);
    fitsout_abandon(o);
    return st;
}

void fitsout_abandon(fitsout *o) {
    int err = 0;
    if (o->f != NULL) {
        fits_close_file(o->f, &err);
        fits_clear_errmsg();
    }
    fits_driver_return(&o->out);
    file_abandon(&o->out);
    free(o->ascii.s);
    memset(o, 0, sizeof *o);
}

/* A text as headers and tables have it, until the next call. */
static char *ascii(fitsout *o, const char *s) {
    static char none[1];
    o->ascii.len = 0;
    text_add_ascii(&o->ascii, s);
    if (o->ascii.failed == MOAO_OK)
        return o->ascii.s;
    o->err = o->err != 0 ? o->err : MEMORY_ALLOCATION;
    none[0] = '\0';
    return none;
}

size_t fitsout_width(const char *s) {
    text t = {0};
    text_add_ascii(&t, s);
    const size_t n = t.failed != MOAO_OK ? 0 : t.len > 0 ? t.len : 1;
    free(t.s);
    return n;
}

static void name_hdu(fitsout *o, const char *extname) {
    o->nhdu++;
    fits_update_key_str(o->f, "EXTNAME", extname, "name of this extension", &o->err);
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
    char **word = calloc(3 * (size_t)ncol, sizeof *word);
    finish_hdu(o);
    for (int i = 0; i < ncol && word != NULL; i++) {
        word[i] = strdup(ascii(o, columns[i].name));
        if (word[i] == NULL)
            o->err = o->err != 0 ? o->err : MEMORY_ALLOCATION;
        else if (strlen(word[i]) > FITSOUT_NAME)
            o->err = o->err != 0 ? o->err : BAD_KEYCHAR;
        /* cfitsio's prototype lacks const; it only reads */
        memcpy(&word[ncol + i], &columns[i].form, sizeof *word);
        memcpy(&word[2 * ncol + i], &columns[i].unit, sizeof *word);
    }
    if (word == NULL)
        o->err = o->err != 0 ? o->err : MEMORY_ALLOCATION;
    else
        fits_create_tbl(o->f, BINARY_TBL, nrow, ncol, word, word + ncol, word + 2 * ncol, NULL,
                        &o->err);
    for (int i = 0; i < ncol && word != NULL; i++) {
        snprintf(key, sizeof key, "TTYPE%d", i + 1);
        fits_modify_comment(o->f, key, columns[i].comment, &o->err);
        free(word[i]);
    }
    free(word);
    name_hdu(o, extname);
}

void fitsout_real(fitsout *o, const char *key, double value, const char *comment) {
    if (isfinite(value))
        fits_update_key_dbl(o->f, key, value, -15, comment, &o->err);
    else
        fits_update_key_null(o->f, key, comment, &o->err);
}

void fitsout_integer(fitsout *o, const char *key, long value, const char *comment) {
    fits_update_key_lng(o->f, key, value, comment, &o->err);
}

/* A text of several cards, by the convention of CONTINUE. cfitsio 4.2 never ends where a text has
 * many quotes. */
static void long_text(fitsout *o, const char *key, const char *s, const char *comment) {
    enum { PIECE = 67 }; /* characters between the quotes of a card, before & */
    char card[FLEN_CARD + 64];
    int n = snprintf(card, sizeof card, "%-8.8s= '", key), used = 0;
    fits_write_key_longwarn(o->f, &o->err);
    for (; *s != '\0'; s++) {
        const int size = *s == '\'' ? 2 : 1;
        if (used + size > PIECE) {
            strcpy(card + n, "&'");
            fits_write_record(o->f, card, &o->err);
            n = snprintf(card, sizeof card, "CONTINUE  '");
            used = 0;
        }
        for (int i = 0; i < size; i++)
            card[n++] = *s;
        used += size;
    }
    n += snprintf(card + n, sizeof card - (size_t)n, "'");
    if (comment[0] != '\0' && (size_t)n + 3 + strlen(comment) < FLEN_CARD)
        snprintf(card + n, sizeof card - (size_t)n, " / %s", comment);
    fits_write_record(o->f, card, &o->err);
}

void fitsout_text(fitsout *o, const char *key, const char *value, const char *comment) {
    char *s = ascii(o, value);
    size_t n = 0;
    for (const char *p = s; *p != '\0'; p++)
        n += *p == '\'' ? 2 : 1;
    if (n > FITSOUT_NAME)
        long_text(o, key, s, comment);
    else
        fits_update_key_str(o->f, key, s, comment, &o->err);
}

void fitsout_comment(fitsout *o, const char *text) {
    fits_write_comment(o->f, ascii(o, text), &o->err);
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
}

void fitsout_pixels_float(fitsout *o, long *first, long *last, const float *a) {
    fits_write_subset(o->f, TFLOAT, first, last, readable(a), &o->err);
}

void fitsout_cells_double(fitsout *o, int col, long row, long element, long n, const double *a) {
    fits_write_col(o->f, TDOUBLE, col, row, element, n, readable(a), &o->err);
}

void fitsout_cell_integer(fitsout *o, int col, long row, long value) {
    fits_write_col(o->f, TLONG, col, row, 1, 1, &value, &o->err);
}

void fitsout_cell_text(fitsout *o, int col, long row, const char *value) {
    char *s = ascii(o, value);
    fits_write_col(o->f, TSTRING, col, row, 1, 1, &s, &o->err);
}

void fitsout_cell_line(fitsout *o, int col, long row, const char *line) {
    char *s = readable(line);
    fits_write_col(o->f, TSTRING, col, row, 1, 1, &s, &o->err);
}
