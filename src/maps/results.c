#include "results.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static status rows_of(results *r, const char *table, long *rows) {
    status st = fitsin_table(&r->in, table);
    *rows = r->in.rows;
    return st;
}

static status read_wavelengths(results *r) {
    fitsin_column c;
    bool bands;
    status st;
    TRY(rows_of(r, "WAVELENGTHS", &r->nlambda));
    TRY(fitsin_column_find(&r->in, "LAMBDA", &c, NULL));
    TRY(fitsin_numbers(&r->in, &c, 1, 0, 1, &r->lambda));
    for (long i = 0; i < r->nlambda; i++)
        if (!(r->lambda[i] > 0) || !isfinite(r->lambda[i]))
            TRY(status_fail(MOAO_INPUT,
                            "%s: table WAVELENGTHS, row %ld: LAMBDA is %g, expected a wavelength "
                            "in um",
                            file_shown(r->in.path), i + 1, r->lambda[i]));
    TRY(ALLOC(r->band, (size_t)r->nlambda, "names of bands"));
    TRY(fitsin_column_find(&r->in, "BAND", &c, &bands));
    for (long i = 0; i < r->nlambda && bands; i++)
        TRY(fitsin_text(&r->in, &c, i + 1, r->band[i], sizeof *r->band));
done:
    return st;
}

status results_open(results *r, const char *dir) {
    char *path = NULL;
    status st;
    *r = (results){0};
    TRY(file_of_run(dir, "maps.fits", "the folder of a finished run", &path));
    TRY(fitsin_open(&r->in, path));
    TRY(rows_of(r, "EXPOSURES", &r->nexposure));
    TRY(read_wavelengths(r));
    st = rows_of(r, "TARGETS", &r->ntarget);
done:
    free(path);
    return st;
}

void results_close(results *r) {
    fitsin_close(&r->in);
    free(r->lambda);
    free(r->band);
    *r = (results){0};
}

void results_label(const results *r, long i, char *out, size_t n) {
    if (r->band[i][0] != '\0')
        snprintf(out, n, "in %s", r->band[i]);
    else
        snprintf(out, n, "at %.4g um", r->lambda[i]);
}

status results_long(results *r, const fitsin_column *c, double **out) {
    return fitsin_numbers(&r->in, c, r->nlambda, 0, r->nlambda, out);
}

status results_term(results *r, const fitsin_column *c, double **out) {
    return fitsin_numbers(&r->in, c, 1, 0, 1, out);
}
