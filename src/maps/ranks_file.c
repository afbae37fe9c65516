#include "ranks_file.h"

#include "base/file.h"
#include "base/fits.h"
#include "version.h"

#include <stdio.h>
#include <stdlib.h>

static void write_image(fitsout *o, const factor_ranks *r, const report_compression *of) {
    long naxes[2] = {(long)r->n, (long)r->n}, first[2] = {1, 1};
    fitsout_image(o, "RANKS", FLOAT_IMG, 2, naxes, 0);
    fitsout_text(o, "BUNIT", "column", "columns of U and V of a tile");
    fitsout_text(o, "TITLE", "ranks of the tiles of the factor of Cmm", "");
    fitsout_text(o, "FACTOR", of->form, "tiles, refined (W is) or dense");
    fitsout_integer(o, "TLRTILE", of->tile, "measurements of the largest tile");
    fitsout_real(o, "TLRTOL", of->tolerance, "[arcsec2] norm of what may be dropped of a tile");
    fitsout_real(o, "TLRNOISE", of->noise, "[arcsec2] least noise of a slope");
    fitsout_real(o, "TLRRANK", of->mean, "mean rank, dense tiles counted whole");
    fitsout_real(o, "TLRBYTES", of->bytes, "[byte] memory of the factor");
    fitsout_comment(o, "NAXIS2 counts tile rows, NAXIS1 tile columns. 0: an empty tile; a dense "
                       "one: the number of its columns (ORDER in TILES). NaN: above the diagonal, "
                       "or in a block on it, which is dense.");
    fitsout_pixels_float(o, first, naxes, r->rank);
}

static void write_tiles(fitsout *o, const factor_ranks *r) {
    static const fitsout_column columns[] = {
        {"ORDER", "J", "", "measurements of the tile"},
        {"SENSOR", "J", "", "whose they are, a row of GUIDESTARS; 0: of several"}};
    fitsout_table(o, "TILES", (long)r->n, 2, columns);
    for (long i = 0; i < (long)r->n; i++) {
        fitsout_cell_integer(o, 1, i + 1, r->order[i]);
        fitsout_cell_integer(o, 2, i + 1, r->sensor[i] + 1);
    }
}

status maps_write_ranks(const char *dir, const char *name, const factor_ranks *r,
                        const report_compression *of) {
    char *folder = NULL, *path = NULL, file[160];
    fitsout o = {0};
    status st;
    snprintf(file, sizeof file, "%s.fits", name);
    TRY(file_join(dir, "matrices", &folder));
    TRY(file_make_dir(folder));
    TRY(file_join(folder, file, &path));
    TRY(fitsout_create(&o, path));
    fitsout_text(&o, "CREATOR", "moao " MOAO_VERSION, "program that wrote this file");
    write_image(&o, r, of);
    write_tiles(&o, r);
    st = fitsout_commit(&o);
done:
    fitsout_abandon(&o);
    free(path);
    free(folder);
    return st;
}
