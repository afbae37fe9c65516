/* Celestial coordinates in the results, where the parameters say where the field is. */
#include "maps_parts.h"

#include <math.h>

static const double DEGREE = M_PI / 180;

bool maps_on_sky(const maps_data *m) {
    return !isnan(m->sk.ra) && !isnan(m->sk.dec);
}

void maps_sky_header(fitsout *o, const maps_data *m) {
    const sky *s = &m->sk;
    if (maps_on_sky(m)) {
        fitsout_real(o, "RA", s->ra / DEGREE, "[deg] ICRS, of x = y = 0");
        fitsout_real(o, "DEC", s->dec / DEGREE, "[deg] ICRS, of x = y = 0");
    }
    if (!isnan(s->angle))
        fitsout_real(o, "POSANGLE", s->angle / DEGREE, "[deg] of the y axis, north through east");
    if (!isnan(s->zenith)) {
        fitsout_real(o, "HOURANGL", s->hour_angle / DEGREE, "[deg] of the field's centre");
        fitsout_real(o, "PARANGLE", s->parallactic / DEGREE, "[deg] parallactic angle");
    }
}

/* A second description of axes 1 and 2, named A: gnomonic, beside the linear one in arcsec. Pixels
 * count from 1; xi = -x cos + y sin and eta = x sin + y cos of the position angle. */
void maps_celestial_axes(fitsout *o, const maps_data *m, const double first[2],
                         const double step[2], int naxis) {
    static const char *const type[2] = {"RA---TAN", "DEC--TAN"};
    const sky *s = &m->sk;
    const double c = cos(s->angle), n = sin(s->angle), ratio = step[1] / step[0];
    const double pc[2][2] = {{-c, n * ratio}, {n / ratio, c}};
    char key[16];
    if (!maps_on_sky(m))
        return;
    fitsout_integer(o, "WCSAXESA", naxis, "axes; the first two are on the sky");
    fitsout_text(o, "WCSNAMEA", "celestial", "");
    fitsout_text(o, "RADESYSA", "ICRS", "");
    for (int i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "CTYPE%dA", i + 1);
        fitsout_text(o, key, type[i], "");
        snprintf(key, sizeof key, "CUNIT%dA", i + 1);
        fitsout_text(o, key, "deg", "");
        snprintf(key, sizeof key, "CRPIX%dA", i + 1);
        fitsout_real(o, key, 1 - first[i] / step[i], "x = y = 0");
        snprintf(key, sizeof key, "CRVAL%dA", i + 1);
        fitsout_real(o, key, (i == 0 ? s->ra : s->dec) / DEGREE, "");
        snprintf(key, sizeof key, "CDELT%dA", i + 1);
        fitsout_real(o, key, step[i] / DEGREE, "");
        for (int k = 0; k < 2; k++) {
            snprintf(key, sizeof key, "PC%d_%dA", i + 1, k + 1);
            fitsout_real(o, key, pc[i][k], "");
        }
    }
}

void maps_sky_cells(fitsout *o, const maps_data *m, int col, long row, const double xy[2]) {
    double at[2];
    if (!maps_on_sky(m))
        return;
    sky_deproject(&m->sk, xy, &at[0], &at[1]);
    for (int i = 0; i < 2; i++) {
        at[i] /= DEGREE;
        fitsout_cells_double(o, col + i, row, 1, 1, &at[i]);
    }
}
