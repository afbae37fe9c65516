#include "fits_table.h"

#include "plain.h"

#include <stdio.h>
#include <string.h>

enum { KEY = 80 };

void fits_table_go(fitsfile *f, const char *name, long *rows, int *err) {
    char key[KEY];
    snprintf(key, sizeof key, "%s", name);
    fits_movnam_hdu(f, BINARY_TBL, key, 0, err);
    fits_get_num_rows(f, rows, err);
}

/* Number of a column, 0: there is none. */
static int column_of(fitsfile *f, const char *column) {
    char key[KEY];
    int col = 0, none = 0;
    snprintf(key, sizeof key, "%s", column);
    return fits_get_colnum(f, CASEINSEN, key, &col, &none) == 0 ? col : 0;
}

bool fits_table_has(fitsfile *f, const char *column, int *err) {
    return *err == 0 && column_of(f, column) > 0;
}

status fits_table_numbers(fitsfile *f, const char *column, long n, long each, long first,
                          double **out, int *err) {
    char key[KEY];
    int col = 0;
    status st;
    snprintf(key, sizeof key, "%s", column);
    fits_get_colnum(f, CASEINSEN, key, &col, err);
    TRY(ALLOC(*out, (size_t)(n * each), "results"));
    for (long i = 0; i < n && *err == 0; i++)
        fits_read_col(f, TDOUBLE, col, i + 1, first + 1, each, NULL, *out + i * each, NULL, err);
done:
    return st;
}

void fits_table_texts(fitsfile *f, const char *column, long n, size_t width, char *out, int *err) {
    const int col = *err == 0 ? column_of(f, column) : 0;
    for (long i = 0; i < n && col > 0; i++) {
        char value[FLEN_VALUE + 256] = "", *p[] = {value}, *to = out + (size_t)i * width;
        long bytes = 0, repeat = 0;
        int type = 0;
        fits_get_coltype(f, col, &type, &repeat, &bytes, err);
        if (*err == 0 && bytes < (long)sizeof value)
            fits_read_col(f, TSTRING, col, i + 1, 1, 1, NULL, p, NULL, err);
        snprintf(to, width, "%s", value);
        plain_text(to);
        for (size_t k = strlen(to); k > 0 && to[k - 1] == ' '; k--)
            to[k - 1] = '\0';
    }
}
