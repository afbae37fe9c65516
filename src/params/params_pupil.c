/* The telescope's pupil: what spiders and segments need beside each other, and the FITS image of
 * its amplitude. */
#include "base/crc.h"
#include "base/file.h"
#include "base/fits_image.h"
#include "base/fits_in.h"
#include "params_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST 4096     /* pixels of an axis */
#define DARK 0.01     /* of the light outside the pupil that is lost without a word */
#define SHORT 0.9     /* of the diameter that a map lights without a word */
#define LIKE_ONE 1e-6 /* largest values that are 1 */

static const char KEY[] = "telescope.pupil";

/* --- spiders and segments */

static status missing(const params_loader *l, const char *group, const char *key,
                      const char *expected) {
    return yaml_tree_fail(param_node(l->root, group), key, "missing, expected %s", expected);
}

static status check_spiders(const params_loader *l) {
    static const char group[] = "telescope.spiders", offset[] = "telescope.spiders.offset";
    const params *par = l->par;
    const int angles = par->telescope_spiders_angles.n, given = par->telescope_spiders_offset.n;
    const int n = angles > 0 ? angles : par->telescope_spiders_number;
    const ynode *map = param_node(l->root, group);
    status st;
    if (map == NULL)
        return MOAO_OK;
    TRY(params_check_alternatives(map, group, group));
    if (n == 0)
        return params_given(par->telescope_spiders_width)
                   ? missing(l, group, "telescope.spiders.number", "it, or angles, with a width")
                   : MOAO_OK;
    if (!params_given(par->telescope_spiders_width))
        return missing(l, group, "telescope.spiders.width", "a length in m");
    if (given > 1 && given != n)
        return yaml_tree_fail(param_node(l->root, offset), offset,
                              "%d values of %d spiders, expected one, or one each", given, n);
done:
    return st;
}

static status check_segments(const params_loader *l) {
    static const char group[] = "telescope.segments";
    const params *par = l->par;
    const double *within = par->telescope_segments_within;
    if (par->telescope_segments_shape == 0)
        return params_given(par->telescope_segments_size)
                   ? missing(l, group, "telescope.segments.shape", "hexagon or square")
                   : MOAO_OK;
    if (!params_given(par->telescope_segments_size))
        return missing(l, group, "telescope.segments.size", "a length in m from flat to flat");
    if (!(within[0] < within[1]))
        return yaml_tree_fail(
            param_node(l->root, "telescope.segments.within"), "telescope.segments.within",
            "from %.4g to %.4g m, expected the smaller distance first", within[0], within[1]);
    return MOAO_OK;
}

status params_check_pupil(const params_loader *l) {
    const status st = check_spiders(l);
    return st == MOAO_OK ? check_segments(l) : st;
}

/* --- the image */

static double pixel_of(fits_image *in, const params *par) {
    char unit[FLEN_VALUE];
    double step = 0;
    if (params_given(par->telescope_pupil_pixel))
        return par->telescope_pupil_pixel;
    fits_image_text(in, "CUNIT1", unit);
    if (strcasecmp(unit, "m") == 0 && fits_key_number(in->f, "CDELT1", &step))
        return fabs(step);
    if (fits_key_number(in->f, "PUPLSCAL", &step))
        return fabs(step);
    return par->telescope_diameter / in->nx;
}

static status check_values(const fits_image *in, const pupil_map *m, double *most) {
    char line[160];
    *most = 0;
    for (int j = 0; j < m->ny; j++)
        for (int i = 0; i < m->nx; i++) {
            const double v = m->amplitude[(size_t)j * (size_t)m->nx + (size_t)i];
            if (!isfinite(v))
                snprintf(line, sizeof line,
                         "pixel (%d, %d) has no finite value (NaN, Inf or BLANK), expected an "
                         "amplitude: 0 where the pupil is dark",
                         i + 1, j + 1);
            else if (v < 0)
                snprintf(line, sizeof line,
                         "pixel (%d, %d) is %.4g, expected an amplitude from 0 (dark) to 1", i + 1,
                         j + 1, v);
            if (!isfinite(v) || v < 0)
                return fits_image_refuse(in, line);
            *most = fmax(*most, v);
        }
    return *most > 0 ? MOAO_OK : fits_image_refuse(in, "all of its pixels are 0, expected a pupil");
}

/* What of its light counts; `most` was its largest value. */
static status note_light(params *par, double most) {
    const pupil_map *m = &par->pupil;
    const double D = par->telescope_diameter;
    double all = 0, lost = 0, far = 0;
    status st = MOAO_OK;
    for (int j = 0; j < m->ny; j++)
        for (int i = 0; i < m->nx; i++) {
            const double v = m->amplitude[(size_t)j * (size_t)m->nx + (size_t)i];
            const double r = m->pixel * hypot(i - 0.5 * (m->nx - 1), j - 0.5 * (m->ny - 1));
            all += v * v;
            lost += r > 0.5 * D + m->pixel ? v * v : 0;
            far = v >= 0.5 ? fmax(far, r) : far;
        }
    if (fabs(most - 1) > LIKE_ONE)
        TRY(params_note(par, "%s: its largest value is %.6g, by which all are divided", KEY, most));
    if (lost > DARK * all)
        TRY(params_note(par,
                        "%s: %.3g %% of its light is outside telescope.diameter, %.4g m, and is "
                        "lost; is its pixel of %.4g m right (telescope.pupil_pixel)?",
                        KEY, 100 * lost / all, D, m->pixel));
    if (2 * far < SHORT * D)
        TRY(params_note(par,
                        "%s: its light ends at %.4g m from the centre, telescope.diameter at "
                        "%.4g m; is its pixel of %.4g m right (telescope.pupil_pixel)?",
                        KEY, far, 0.5 * D, m->pixel));
done:
    return st;
}

static status read_image(params *par, const char *path, double *most) {
    fits_image in;
    pupil_map *m = &par->pupil;
    status st;
    TRY(fits_image_open(&in, KEY, path, MOST));
    m->nx = in.nx;
    m->ny = in.ny;
    m->pixel = pixel_of(&in, par);
    if (!(m->pixel > 0 && m->pixel < par->telescope_diameter))
        TRY(fits_image_refuse(&in, "its header has no size of a pixel in m below the diameter, "
                                   "give telescope.pupil_pixel"));
    TRY(ALLOC(m->amplitude, (size_t)m->nx * (size_t)m->ny, "pupil"));
    TRY(fits_image_read(&in, m->amplitude));
    TRY(check_values(&in, m, most));
    for (size_t i = 0; i < (size_t)m->nx * (size_t)m->ny; i++)
        m->amplitude[i] /= *most;
done:
    fits_image_close(&in);
    return st;
}

static status share_image(const comm *c, pupil_map *m) {
    double *mine = m->amplitude;
    status st = MOAO_OK;
    comm_bcast(c, m, sizeof *m);
    m->amplitude = mine; /* an address of rank 0 otherwise */
    const size_t all = (size_t)m->nx * (size_t)m->ny;
    if (c->rank != 0)
        st = ALLOC(m->amplitude, all, "pupil");
    TRY(comm_agree(c, st));
    comm_bcast(c, m->amplitude, all * sizeof *m->amplitude);
done:
    return st;
}

status params_read_pupil(const comm *c, params *par) {
    double most = 1;
    status st = MOAO_OK;
    if (par->telescope_pupil == NULL)
        return st;
    st = file_make_absolute(&par->telescope_pupil);
    if (st == MOAO_OK && (c == NULL || c->rank == 0))
        st = read_image(par, par->telescope_pupil, &most);
    if (c != NULL) {
        TRY(comm_agree(c, st));
        comm_bcast(c, &most, sizeof most);
        TRY(share_image(c, &par->pupil));
    }
    if (st == MOAO_OK)
        st = note_light(par, most);
done:
    return st;
}

uint32_t params_pupil_sum(const params *par) {
    const pupil_map *m = &par->pupil;
    const double head[3] = {m->nx, m->ny, m->pixel};
    return crc_update(crc_update(0, head, sizeof head), m->amplitude,
                      (size_t)m->nx * (size_t)m->ny * sizeof *m->amplitude);
}
