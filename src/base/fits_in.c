#include "fits_in.h"

#include "decimal.h"
#include "file.h"
#include "fits_driver.h"
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { CARD = 80, BLOCK = 2880, LONGEST_NUMBER = 40 };
enum { MOST_ROWS = 1000000000 }; /* products of two numbers of rows are far from overflow */

/* "PATH: table T, column C: what is wrong" */
static status bad(const fitsin *in, const char *column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static status bad(const fitsin *in, const char *column, const char *fmt, ...) {
    char what[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    fits_clear_errmsg();
    return status_fail(MOAO_INPUT,
                       "%s: %s%.20s%s%.68s%s%s; was it cut, or written by another program?",
                       file_shown(in->path), in->table[0] != '\0' ? "table " : "", in->table,
                       column != NULL ? ", column " : "", column != NULL ? column : "",
                       in->table[0] != '\0' ? ": " : "", what);
}

/* A failure of cfitsio. */
static status failed(const fitsin *in, const char *column, int err) {
    char why[FLEN_STATUS] = "";
    fits_get_errstatus(err, why);
    return bad(in, column, "cannot be read as FITS: %s", why);
}

/* Whether every extension, header and data, lies within the file. */
static status check_extent(fitsin *in) {
    int err = 0, nhdu = 0;
    LONGLONG end = 0;
    if (fits_get_num_hdus(in->f, &nhdu, &err) != 0)
        return failed(in, NULL, err);
    for (int i = 1; i <= nhdu; i++) {
        if (fits_movabs_hdu(in->f, i, NULL, &err) != 0 ||
            fits_get_hduaddrll(in->f, NULL, NULL, &end, &err) != 0)
            return failed(in, NULL, err);
        if (end < 0 || (uint64_t)end > in->size)
            return bad(in, NULL, "has %llu bytes, expected %lld", (unsigned long long)in->size,
                       (long long)end);
    }
    return MOAO_OK;
}

/* Whether a card is a comment, or goes on with the text of the one before. */
static bool is_comment(const char *card) {
    static const char *const of[] = {"        ", "COMMENT ", "HISTORY ", "CONTINUE"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (memcmp(card, of[i], 8) == 0)
            return true;
    return false;
}

/* Whether a card has a value that is no text and longer than any number; cfitsio needs no blank
 * before it, and no keyword of eight characters. A text begins with its quote: one further behind
 * belongs to another value. */
static bool long_value(const char *card) {
    const char *equals = memchr(card, '=', CARD);
    if (equals == NULL || is_comment(card))
        return false;
    int n = 0, i = (int)(equals - card) + 1;
    while (i < CARD && card[i] == ' ')
        i++;
    if (i < CARD && card[i] == '\'')
        return false;
    for (; i < CARD && card[i] != '/'; i++)
        n += card[i] != ' ';
    return n > LONGEST_NUMBER;
}

const char *fits_cards_wrong(int fd, uint64_t size) {
    char block[BLOCK];
    bool header = false;
    for (uint64_t at = 0; at + BLOCK <= size; at += BLOCK) {
        if (pread(fd, block, BLOCK, (off_t)at) != BLOCK)
            return "cannot be read";
        header = header || memcmp(block, "SIMPLE  ", 8) == 0 || memcmp(block, "XTENSION", 8) == 0;
        for (int i = 0; i < BLOCK && header; i += CARD) {
            if (memcmp(block + i, "END     ", 8) == 0)
                header = false;
            else if (long_value(block + i))
                return "a keyword of a header has a value that is neither a text nor a number";
        }
    }
    return NULL;
}

status fitsin_open(fitsin *in, const char *path) {
    char name[FLEN_FILENAME];
    int err = 0;
    status st;
    *in = (fitsin){.fd = -1};
    TRY(ALLOC(in->path, strlen(path) + 1, "file name"));
    strcpy(in->path, path);
    TRY(file_open_plain(path, &in->fd, &in->size));
    const char *wrong = fits_cards_wrong(in->fd, in->size);
    if (wrong != NULL)
        TRY(bad(in, NULL, "%s", wrong));
    TRY(fits_driver_lend_input(in, in->fd, in->path, in->size, name, sizeof name));
    if (fits_open_file(&in->f, name, READONLY, &err) != 0) {
        in->f = NULL;
        TRY(failed(in, NULL, err));
    }
    st = check_extent(in);
done:
    return st;
}

void fitsin_close(fitsin *in) {
    int err = 0;
    if (in->path == NULL)
        return;
    if (in->f != NULL)
        fits_close_file(in->f, &err);
    fits_clear_errmsg();
    fits_driver_return(in);
    if (in->fd >= 0)
        close(in->fd);
    free(in->path);
    *in = (fitsin){.fd = -1};
}

status fitsin_table(fitsin *in, const char *name) {
    char copy[FLEN_VALUE];
    LONGLONG start = 0, end = 0;
    double rows = 0, row = 0;
    int err = 0;
    snprintf(copy, sizeof copy, "%s", name);
    in->table[0] = '\0';
    fits_movnam_hdu(in->f, BINARY_TBL, copy, 0, &err);
    if (err == BAD_HDU_NUM || err == END_OF_FILE)
        return bad(in, NULL, "has no table %s", name);
    if (err != 0)
        return failed(in, NULL, err);
    snprintf(in->table, sizeof in->table, "%s", name);
    if (!fits_key_number(in->f, "NAXIS1", &row) || !fits_key_number(in->f, "NAXIS2", &rows))
        return bad(in, NULL, "NAXIS1 or NAXIS2 is not a number");
    fits_get_num_cols(in->f, &in->ncol, &err);
    fits_get_hduaddrll(in->f, NULL, &start, &end, &err);
    if (err != 0)
        return failed(in, NULL, err);
    if (rows < 1 || rows > MOST_ROWS || rows != floor(rows))
        return bad(in, NULL, "%.15g rows, expected at least one", rows);
    if (row < 1 || start < 0 || (uint64_t)start > in->size ||
        row * rows > (double)(in->size - (uint64_t)start))
        return bad(in, NULL, "%.15g rows of %.15g bytes are more than the file has", rows, row);
    in->rows = (long)rows;
    return MOAO_OK;
}

status fitsin_column_at(fitsin *in, int number, fitsin_column *c) {
    LONGLONG repeat = 0, width = 0;
    char key[FLEN_KEYWORD];
    int err = 0, none = 0;
    *c = (fitsin_column){.number = number};
    snprintf(key, sizeof key, "TTYPE%d", number);
    if (fits_read_key(in->f, TSTRING, key, c->name, NULL, &none) != 0)
        c->name[0] = '\0';
    fits_clear_errmsg();
    fits_get_coltypell(in->f, number, &c->type, &repeat, &width, &err);
    if (err != 0)
        return failed(in, c->name, err);
    if (repeat < 0 || width < 0 || (uint64_t)repeat > in->size || (uint64_t)width > in->size)
        return bad(in, c->name, "cells of %lld values are more than the file has",
                   (long long)repeat);
    c->repeat = (long)repeat;
    c->width = (long)width;
    return MOAO_OK;
}

status fitsin_column_find(fitsin *in, const char *name, fitsin_column *c, bool *there) {
    bool found = false;
    status st = MOAO_OK;
    for (int i = 1; i <= in->ncol && !found; i++) {
        TRY(fitsin_column_at(in, i, c));
        found = strcasecmp(c->name, name) == 0;
    }
    if (there != NULL)
        *there = found;
    else if (!found)
        st = bad(in, NULL, "has no column %s", name);
done:
    return st;
}

/* A cell is not what was expected. */
static status other_form(fitsin *in, const fitsin_column *c, const char *expected) {
    char key[FLEN_KEYWORD], form[FLEN_VALUE] = "";
    int err = 0;
    snprintf(key, sizeof key, "TFORM%d", c->number);
    fits_read_key(in->f, TSTRING, key, form, NULL, &err);
    return bad(in, c->name, "its form is %.20s, expected %s", form, expected);
}

status fitsin_numbers(fitsin *in, const fitsin_column *c, long repeat, long first, long each,
                      double **out) {
    static const int numeric[] = {TBYTE, TSHORT, TLONG, TLONGLONG, TFLOAT, TDOUBLE};
    char expected[60];
    bool good = c->repeat == repeat;
    int err = 0;
    status st;
    for (size_t i = 0, n = sizeof numeric / sizeof *numeric; i <= n && good; i++)
        if (i == n)
            good = false;
        else if (c->type == numeric[i])
            break;
    snprintf(expected, sizeof expected, "%ldD, as many numbers in a cell", repeat);
    if (!good)
        return other_form(in, c, expected);
    if (first < 0 || each < 1 || first + each > repeat)
        return status_fail(MOAO_INTERNAL, "%s: no such part of a cell", c->name);
    TRY(ALLOC(*out, (size_t)in->rows * (size_t)each, "results"));
    if (each == repeat)
        fits_read_col(in->f, TDOUBLE, c->number, 1, 1, (LONGLONG)in->rows * each, NULL, *out, NULL,
                      &err);
    for (long i = 0; i < in->rows && each < repeat && err == 0; i++)
        fits_read_col(in->f, TDOUBLE, c->number, i + 1, first + 1, each, NULL, *out + i * each,
                      NULL, &err);
    if (err != 0)
        st = failed(in, c->name, err);
done:
    return st;
}

status fitsin_text(fitsin *in, const fitsin_column *c, long row, char *out, size_t size) {
    char *cell = NULL;
    int err = 0;
    status st = MOAO_OK;
    if (c->type != TSTRING || c->width != c->repeat)
        return other_form(in, c, "one text in a cell");
    TRY(ALLOC(cell, (size_t)c->repeat + 1, "a text of a table"));
    if (c->repeat > 0)
        fits_read_col(in->f, TSTRING, c->number, row, 1, 1, NULL, &cell, NULL, &err);
    if (err != 0)
        TRY(failed(in, c->name, err));
    for (size_t k = strlen(cell); k > 0 && cell[k - 1] == ' '; k--)
        cell[k - 1] = '\0';
    snprintf(out, size, "%s", text_from_ascii(cell));
done:
    free(cell);
    return st;
}

bool fits_key_number(fitsfile *f, const char *key, double *v) {
    char value[FLEN_VALUE] = "", comment[FLEN_COMMENT];
    int err = 0;
    if (fits_read_keyword(f, key, value, comment, &err) != 0) {
        fits_clear_errmsg();
        return false;
    }
    for (char *p = value; *p != '\0'; p++)
        if (*p == 'D' || *p == 'd') /* FITS has exponents with a D too */
            *p = 'e';
    return decimal_read(value, v);
}

void fitsin_key_text(fitsin *in, const char *key, char *out, size_t size) {
    char *value = NULL;
    int err = 0;
    out[0] = '\0';
    if (fits_read_key_longstr(in->f, key, &value, NULL, &err) == 0 && value != NULL)
        snprintf(out, size, "%s", text_from_ascii(value));
    if (value != NULL)
        fits_free_memory(value, &err);
    fits_clear_errmsg();
}
