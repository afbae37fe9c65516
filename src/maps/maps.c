#include "maps.h"

#include "base/file.h"
#include "base/fits.h"
#include "base/progress.h"
#include "budget/terms.h"
#include "maps_field.h"
#include "maps_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOW_STREHL 0.03 /* below it an image has no core to speak of */

/* All scalars of the run: [nscalar][nlambda][nexposure][ntarget], and their means over exposures.
 */
static status load_scalars(maps_data *m) {
    status st;
    size_t nt = (size_t)m->ntarget, ne = (size_t)m->nexposure, nl = (size_t)m->nlambda;
    size_t nq = (size_t)m->nscalar;
    double *one = NULL;
    TRY(ALLOC(m->value, nq * nl * ne * nt, "maps"));
    TRY(ALLOC(m->mean, nq * nl * nt, "maps"));
    TRY(ALLOC(one, nl * nq + (size_t)m->nbudget, "results of a target"));
    for (size_t e = 0; e < ne; e++)
        for (size_t t = 0; t < nt; t++) {
            TRY(store_read_scalars(m->st, (int)e, (int)t, one));
            if (m->nbudget > 0)
                TRY(maps_budget_load(m, (int)e, (int)t, one + nl * nq));
            for (size_t l = 0; l < nl; l++)
                for (size_t q = 0; q < nq; q++) {
                    m->value[((q * nl + l) * ne + e) * nt + t] = one[l * nq + q];
                    m->mean[(q * nl + l) * nt + t] += one[l * nq + q] / (double)ne;
                }
        }
    if (ne > 1) /* the mean of widths is not the width of the mean image */
        for (size_t i = 0; i < nl * nt; i++)
            m->mean[SCALAR_FWHM * nl * nt + i] = NAN;
done:
    free(one);
    return st;
}

/* Keywords of a map; its axes are x, y, exposure (unless long), wavelength. */
static void map_header(fitsout *o, const maps_data *m, const maps_quantity *q, bool is_long) {
    const sys *s = m->s;
    fitsout_text(o, "BUNIT", q->unit,
                 q->unit[0] != '\0' ? "unit of the values" : "without dimension");
    fitsout_text(o, "TITLE", q->title, "");
    if (q->box > 0)
        fitsout_real(o, "EEBOX", q->box * ARCSEC_PER_RAD * 1e3, "[mas] side of the box");
    double step[2];
    for (int i = 0; i < 2; i++) {
        step[i] = s->grid_step[i] > 0 ? s->grid_step[i] : 1 / ARCSEC_PER_RAD;
        fitsout_axis(o, i + 1, i == 0 ? "X" : "Y", "arcsec", 1, s->targets[0][i] * ARCSEC_PER_RAD,
                     step[i] * ARCSEC_PER_RAD);
    }
    if (!is_long)
        fitsout_axis(o, 3, "EXPOSURE", "", 1, 1, 1);
    fitsout_axis(o, is_long ? 3 : 4, "LAMBDA", "", 1, 1, 1);
    maps_celestial_axes(o, m, s->targets[0], step, is_long ? 3 : 4);
    if (is_long && q->scalar == SCALAR_FWHM && m->nexposure > 1 && m->par->output_psf == PSF_NONE)
        fitsout_comment(o, "NaN: the width of the mean image needs the images (output.psf: long).");
}

/* One map of a grid: all short exposures, or the long one. */
static status write_map(fitsout *o, const maps_data *m, int i, bool is_long) {
    status st;
    maps_quantity q;
    maps_quantity_at(m, i, &q);
    char name[48];
    long ne = is_long ? 1 : m->nexposure;
    long naxes[4] = {m->s->grid[0], m->s->grid[1], is_long ? m->nlambda : ne, m->nlambda};
    long first[4] = {1, 1, 1, 1};
    size_t n = (size_t)m->ntarget * (size_t)ne * (size_t)m->nlambda;
    const double *from = (is_long ? m->mean : m->value) + (size_t)q.scalar * n;
    double *plane = NULL;
    TRY(ALLOC(plane, n, "map"));
    for (size_t k = 0; k < n; k++)
        plane[k] = from[k] * q.scale;
    snprintf(name, sizeof name, "%s%s", q.name, is_long ? "_LONG" : "");
    fitsout_image(o, name, DOUBLE_IMG, is_long ? 3 : 4, naxes, 0);
    map_header(o, m, &q, is_long);
    fitsout_pixels_double(o, first, naxes, plane);
done:
    free(plane);
    return st;
}

/* Images whose core is lost in the halo: in the header, and as warnings. */
static void note_low_strehl(fitsout *o, const maps_data *m) {
    char line[280], image[48];
    for (int l = 0; l < m->nlambda; l++) {
        const double *strehl =
            m->mean + ((size_t)SCALAR_STREHL * (size_t)m->nlambda + (size_t)l) * (size_t)m->ntarget;
        double sum = 0;
        int low = 0;
        for (int t = 0; t < m->ntarget; t++) {
            sum += strehl[t];
            low += strehl[t] < LOW_STREHL;
        }
        if (low == 0)
            continue;
        params_image_label(m->par, l, image, sizeof image);
        snprintf(line, sizeof line,
                 "%s %s the Strehl ratio is below %g for %d of %d target%s (mean %.2g): "
                 "compare FWHM and ensquared energies there, the PSF model is doubtful",
                 m->par->images.width[l] > 0 ? "in" : "at", image, LOW_STREHL, low, m->ntarget,
                 text_plural(m->ntarget), sum / m->ntarget);
        fitsout_comment(o, line);
        progress_warn("psf.wavelengths: %s", line);
    }
}

/* maps.fits, finished but not in place. */
static status write_maps(const maps_data *m, const char *effective, fitsout *o) {
    static const char *const comments[] = {
        "Maps, when the targets are a grid: STREHL, EE_<box>mas, FWHM, VARIANCE",
        "with axes x, y, exposure, wavelength; the same with _LONG, of the long",
        "exposure (mean of the short ones): x, y, wavelength.",
        "Axes EXPOSURE and LAMBDA count rows of tables EXPOSURES, WAVELENGTHS.",
        "Table TARGETS has the same values target by target. NaN: not known.",
        "VARIANCE_LONG is the mean of the variances.",
        NULL};
    status st;
    char *path = NULL;
    TRY(file_join(m->dir, "maps.fits", &path));
    TRY(fitsout_create(o, path));
    maps_run_header(o, m, comments);
    note_low_strehl(o, m);
    for (int i = 0; i < m->nscalar && m->s->grid[0] > 0; i++) {
        TRY(write_map(o, m, i, false));
        TRY(write_map(o, m, i, true));
    }
    maps_table_targets(o, m, true);
    maps_table_guidestars(o, m);
    maps_table_exposures(o, m);
    maps_table_wavelengths(o, m);
    maps_table_parameters(o, effective);
    st = fitsout_finish(o);
done:
    free(path);
    return st;
}

status maps_write(const char *dir, const params *par, const sys *s, const atmos *a, const psf *p,
                  store *store, const maps_sampling *sampling, report *rep) {
    status st;
    char *effective = NULL;
    fitsout psf_file = {0}, field_file = {0}, maps_file = {0};
    maps_data m = {.dir = dir,
                   .par = par,
                   .s = s,
                   .a = a,
                   .st = store,
                   .sampling = sampling,
                   .crop = psf_crop_size(p),
                   .nlambda = par->images.n,
                   .nexposure = a->nexposure,
                   .ntarget = s->ntarget,
                   .nscalar = SCALAR_EE + par->psf_ee_boxes.n,
                   .nbudget = params_wants_budget(par) ? BUDGET_TERMS + sys_stars(s) : 0};
    params_sky(par, &m.sk);
    if (store_finished(store)) {
        progress_note("%s: the run was finished before; its files stay as they are", dir);
        return MOAO_OK;
    }
    effective = params_effective_text(par);
    if (effective == NULL)
        return status_fail(MOAO_MEMORY, "effective parameters: no memory");
    TRY(ALLOC(m.pixel, (size_t)m.nlambda, "wavelengths"));
    for (int i = 0; i < m.nlambda; i++)
        m.pixel[i] = psf_image_pixel(p, i);
    m.ps = p;
    TRY(load_scalars(&m));
    if (rep != NULL)
        TRY(maps_budget_summary(&m, rep));
    if (par->output_psf != PSF_NONE)
        TRY(maps_write_psf(&m, effective, &psf_file));
    if (sampling != NULL && par->output_field)
        TRY(maps_write_field(&m, p, effective, &field_file));
    TRY(write_maps(&m, effective, &maps_file));
    /* both are on the disk and were read back: now they appear */
    if (par->output_psf != PSF_NONE)
        TRY(fitsout_commit(&psf_file));
    if (sampling != NULL && par->output_field)
        TRY(fitsout_commit(&field_file));
    st = fitsout_commit(&maps_file);
done:
    fitsout_abandon(&psf_file);
    fitsout_abandon(&field_file);
    fitsout_abandon(&maps_file);
    free(m.pixel);
    free(m.value);
    free(m.mean);
    free(m.budget);
    free(m.budget_mean);
    free(effective);
    return st;
}
