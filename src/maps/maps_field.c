/* field.fits: what images of the nodes are made of, for directions that nobody asked for yet; and
 * images of such directions. */
#include "maps_field.h"

#include "maps_parts.h"
#include "psf/psf.h"
#include "version.h"

#include <stdlib.h>
#include <string.h>

/* Nodes by their places; which of them are interpolated between, and from which reconstructor on.
 */
static void write_nodes(fitsout *o, const maps_data *m, size_t nkept) {
    const field *f = m->sampling->f;
    const fitsout_column columns[] = {{"X", "1D", "arcsec", "direction of the node"},
                                      {"Y", "1D", "arcsec", "direction of the node"},
                                      {"TOR", "1J", "", "first reconstructor that has it"},
                                      {"SOURCE", "1J", "", "0: it is compared with alone"}};
    fitsout_table(o, "NODES", f->nnode, 4, columns);
    fitsout_real(o, "NODESTEP", f->step * ARCSEC_PER_RAD, "[arcsec] of the lattice of nodes");
    fitsout_real(o, "AXISX", f->axis[0], "direction of its rows");
    fitsout_real(o, "AXISY", f->axis[1], "direction of its rows");
    fitsout_integer(o, "LINE", f->line, "1: it has one row");
    fitsout_integer(o, "NKEPT", (long)nkept, "numbers of a node and exposure");
    for (int i = 0; i < f->nnode; i++) {
        const field_node *n = &f->node[i];
        const double at[2] = {n->at[0] * ARCSEC_PER_RAD, n->at[1] * ARCSEC_PER_RAD};
        fitsout_cells_double(o, 1, i + 1, 1, 1, &at[0]);
        fitsout_cells_double(o, 2, i + 1, 1, 1, &at[1]);
        fitsout_cell_integer(o, 3, i + 1, n->tor + 1);
        fitsout_cell_integer(o, 4, i + 1, field_is_source(n));
    }
}

/* Numbers of all nodes under one exposure, 0 where a node came later. */
static status write_kept(fitsout *o, const maps_data *m, int e, size_t nkept, double *scalars,
                         float *kept, double *row) {
    const field *f = m->sampling->f;
    const int tor = atmos_tor_of(m->a, e);
    char name[24], form[24];
    snprintf(name, sizeof name, "KEPT_%d", e + 1);
    snprintf(form, sizeof form, "%zuE", nkept);
    const fitsout_column column = {"KEPT", form, "",
                                   "mean S [m2] by separation, ln c by wavelength"};
    fitsout_table(o, name, f->nnode, 1, &column);
    fitsout_integer(o, "EXPOSURE", e + 1, "number of the exposure");
    for (int i = 0; i < f->nnode; i++) {
        if (f->node[i].tor > tor)
            continue;
        const status st = store_read_node(m->st, e, i, scalars, kept);
        if (st != MOAO_OK)
            return st;
        for (size_t j = 0; j < nkept; j++)
            row[j] = (double)kept[j];
        fitsout_cells_double(o, 1, i + 1, 1, (long)nkept, row);
    }
    return MOAO_OK;
}

status maps_write_field(const maps_data *m, const psf *p, const char *effective, fitsout *o) {
    static const char *const comments[] = {
        "What images of the run's nodes are made of; moao psf DIR --at x,y makes",
        "images of any direction between them.", NULL};
    const size_t nkept = psf_kept_count(p);
    double *scalars = NULL, *row = NULL;
    float *kept = NULL;
    char *path = NULL;
    status st;
    TRY(ALLOC(scalars, store_scalars(m->nlambda, m->nscalar - SCALAR_EE, m->nbudget), "a node"));
    TRY(ALLOC(kept, nkept, "what is kept of a node"));
    TRY(ALLOC(row, nkept, "what is kept of a node"));
    TRY(file_join(m->dir, "field.fits", &path));
    TRY(fitsout_create(o, path));
    maps_run_header(o, m, comments);
    write_nodes(o, m, nkept);
    for (int e = 0; e < m->nexposure; e++)
        TRY(write_kept(o, m, e, nkept, scalars, kept, row));
    maps_table_parameters(o, effective);
    st = fitsout_finish(o);
done:
    free(path);
    free(scalars);
    free(kept);
    free(row);
    return st;
}

/* --- images of directions */

static void write_cube(fitsout *o, const maps_directions *d, int il) {
    const double pixel = d->pixel[il] * ARCSEC_PER_RAD;
    long naxes[3] = {d->crop, d->crop, d->n};
    fitsout_image(o, "PSF", FLOAT_IMG, 3, naxes, 0);
    fitsout_integer(o, "EXTVER", il + 1, "number of the wavelength");
    fitsout_real(o, "LAMBDA", d->par->images.lambda[il] * 1e6, "[um] wavelength");
    fitsout_real(o, "PIXEL", pixel * 1e3, "[mas] side of a pixel");
    fitsout_text(o, "BUNIT", "", "relative to the diffraction-limited peak");
    fitsout_axis(o, 1, "X", "arcsec", d->crop / 2 + 1, 0, pixel);
    fitsout_axis(o, 2, "Y", "arcsec", d->crop / 2 + 1, 0, pixel);
    fitsout_axis(o, 3, "DIRECTION", "", 1, 1, 1);
    const size_t np = (size_t)d->crop * (size_t)d->crop, nl = (size_t)d->par->images.n;
    for (int i = 0; i < d->n; i++) {
        long first[3] = {1, 1, i + 1}, last[3] = {d->crop, d->crop, i + 1};
        fitsout_pixels_float(o, first, last, d->images + ((size_t)i * nl + (size_t)il) * np);
    }
}

/* Strehl ratio, FWHM and ensquared energies of each direction, by wavelength. */
static void write_qualities(fitsout *o, const maps_directions *d) {
    const int nl = d->par->images.n, nb = d->par->psf_ee_boxes.n;
    const size_t nq = 3 + (size_t)nb;
    char form[24];
    snprintf(form, sizeof form, "%dD", nl);
    const maps_data m = {.par = d->par, .nscalar = SCALAR_EE + nb};
    fitsout_column columns[64] = {{"X", "1D", "arcsec", "direction"},
                                  {"Y", "1D", "arcsec", "direction"}};
    maps_quantity q[62];
    const int many = 3 + nb < 62 ? 3 + nb : 62;
    for (int i = 0; i < many; i++) {
        maps_quantity_at(&m, i, &q[i]);
        columns[2 + i] = (fitsout_column){q[i].name, form, q[i].unit, q[i].title};
    }
    fitsout_table(o, "DIRECTIONS", d->n, 2 + many, columns);
    fitsout_comment(o, "Cells: wavelength.");
    for (int t = 0; t < d->n; t++) {
        const double at[2] = {d->at[t][0] * ARCSEC_PER_RAD, d->at[t][1] * ARCSEC_PER_RAD};
        fitsout_cells_double(o, 1, t + 1, 1, 1, &at[0]);
        fitsout_cells_double(o, 2, t + 1, 1, 1, &at[1]);
        for (int i = 0; i < many; i++)
            for (int l = 0; l < nl; l++) {
                const double v =
                    d->scalars[((size_t)t * (size_t)nl + (size_t)l) * nq + (size_t)q[i].scalar] *
                    q[i].scale;
                fitsout_cells_double(o, 3 + i, t + 1, l + 1, 1, &v);
            }
    }
}

status maps_write_directions(const char *path, const maps_directions *d, const char *effective) {
    fitsout o = {0};
    status st;
    TRY(fitsout_create(&o, path));
    fitsout_text(&o, "CREATOR", "moao " MOAO_VERSION, "program that wrote this file");
    fitsout_real(&o, "TELDIAM", d->par->telescope_diameter, "[m] diameter of the telescope");
    fitsout_real(&o, "OBSCUR", d->par->telescope_obscuration, "central obscuration / diameter");
    if (d->exposure > 0)
        fitsout_integer(&o, "EXPOSURE", d->exposure, "number of the exposure");
    fitsout_comment(&o, d->exposure > 0
                            ? "Images of a short exposure between the nodes of a run."
                            : "Images of the long exposure between the nodes of a run.");
    for (int l = 0; l < d->par->images.n; l++)
        write_cube(&o, d, l);
    write_qualities(&o, d);
    maps_table_parameters(&o, effective);
    st = fitsout_commit(&o);
done:
    fitsout_abandon(&o);
    return st;
}
