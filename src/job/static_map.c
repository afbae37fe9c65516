#include "job/static_map.h"

#include "base/crc.h"
#include "base/file.h"
#include "base/fits.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MOST 16384   /* pixels of an axis */
#define LARGEST 1e-3 /* of a path [m] */
#define ACROSS 128   /* points across the pupil at which a map is looked at */

typedef struct {
    int n[2];
    double pixel;
} head;

/* Metres of a unit; 0: not a length that is known. */
static double metres(const char *unit) {
    static const struct {
        const char *name;
        double value;
    } known[] = {{"", 1e-9},       {"nm", 1e-9}, {"nanometer", 1e-9}, {"um", 1e-6},
                 {"micron", 1e-6}, {"m", 1.0},   {"meter", 1.0}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(unit, known[i].name) == 0)
            return known[i].value;
    return 0;
}

static void text_of(fitsfile *f, const char *key, char *out) {
    int err = 0;
    if (fits_read_key(f, TSTRING, key, out, NULL, &err) != 0)
        out[0] = '\0';
    for (size_t n = strlen(out); n > 0 && out[n - 1] == ' '; n--)
        out[n - 1] = '\0';
}

/* Size of a pixel: as the parameters say, else the header, else from one edge of the pupil to the
 * other. */
static double pixel_of(fitsfile *f, const params *par, long columns) {
    char unit[FLEN_VALUE];
    double step = 0;
    int err = 0;
    if (params_given(par->errors_static_pixel))
        return par->errors_static_pixel;
    text_of(f, "CUNIT1", unit);
    if (strcasecmp(unit, "m") == 0 && fits_read_key(f, TDOUBLE, "CDELT1", &step, NULL, &err) == 0)
        return fabs(step);
    return par->telescope_diameter / (double)columns;
}

static status refuse(const char *path, const char *what) {
    return status_fail(MOAO_INPUT, "errors.static_map: %s: %s", file_shown(path), what);
}

/* Values [m], in new memory. */
static status read_image(fitsfile *f, const char *path, const params *par, psf_map *m, int *err) {
    char unit[FLEN_VALUE], line[200];
    long n[2] = {0, 0};
    int naxis = 0, any = 0;
    double none = NAN, scale;
    status st;
    fits_get_img_dim(f, &naxis, err);
    if (*err == 0 && naxis != 2)
        return refuse(path, "its first image has not two axes, expected a map of x and y");
    fits_get_img_size(f, 2, n, err);
    if (*err != 0)
        return MOAO_OK;
    if (n[0] < 2 || n[1] < 2 || n[0] > MOST || n[1] > MOST)
        return refuse(path, "its axes have less than 2 or more than 16384 pixels");
    text_of(f, "BUNIT", unit);
    scale = metres(unit);
    if (scale == 0) {
        snprintf(line, sizeof line, "BUNIT is %.40s, expected nm, um or m (none: nm)", unit);
        return refuse(path, line);
    }
    m->pixel = pixel_of(f, par, n[0]);
    m->nx = (int)n[0];
    m->ny = (int)n[1];
    const size_t all = (size_t)n[0] * (size_t)n[1];
    TRY(ALLOC(m->path, all, "static map"));
    fits_read_img(f, TDOUBLE, 1, (LONGLONG)all, &none, m->path, &any, err);
    for (size_t i = 0; i < all && *err == 0; i++) {
        m->path[i] *= scale;
        if (fabs(m->path[i]) > LARGEST) {
            snprintf(line, sizeof line, "a value of %.3g m, expected at most 1 mm: is BUNIT right?",
                     m->path[i]);
            TRY(refuse(path, line));
        }
    }
    st = MOAO_OK;
done:
    return st;
}

static status read_file(const char *path, const params *par, psf_map *m) {
    fitsfile *f = NULL;
    int err = 0, closing = 0;
    status st = MOAO_OK;
    if (!file_exists(path))
        return refuse(path, "there is no such file");
    if (fits_open_diskfile(&f, path, READONLY, &err) == 0) {
        int count = 0, naxis = 0, type = 0;
        fits_get_num_hdus(f, &count, &err);
        for (int i = 1; i <= count && err == 0 && naxis == 0; i++) /* the first that has pixels */
            if (fits_movabs_hdu(f, i, &type, &err) == 0 && type == IMAGE_HDU)
                fits_get_img_dim(f, &naxis, &err);
        if (err == 0 && naxis == 0)
            st = refuse(path, "it has no image");
        else if (err == 0)
            st = read_image(f, path, par, m, &err);
    }
    if (f != NULL)
        fits_close_file(f, &closing);
    if (st == MOAO_OK && err != 0) {
        char line[80];
        snprintf(line, sizeof line, "it cannot be read as FITS (cfitsio's status %d)", err);
        st = refuse(path, line);
    }
    return st;
}

/* Tilt and rms over the pupil; every point of it has a value. */
static status look(const params *par, const char *path, static_map *m) {
    const double D = par->telescope_diameter, obs = par->telescope_obscuration;
    double n = 0, mean = 0, square = 0, xx = 0, xp[2] = {0, 0};
    char line[240];
    for (int j = 0; j < ACROSS; j++)
        for (int i = 0; i < ACROSS; i++) {
            const double x = ((i + 0.5) / ACROSS - 0.5) * D, y = ((j + 0.5) / ACROSS - 0.5) * D;
            const double r = hypot(x, y);
            if (r >= 0.5 * D || r < 0.5 * obs * D)
                continue;
            const double v = psf_map_path(&m->map, x, y);
            if (!isfinite(v)) {
                snprintf(line, sizeof line,
                         "no value at (%.3g, %.3g) m, inside the pupil of %.4g m; its pixels of "
                         "%.3g m reach over %.4g x %.4g m",
                         x, y, D, m->map.pixel, m->map.pixel * m->map.nx, m->map.pixel * m->map.ny);
                return refuse(path, line);
            }
            n++;
            mean += v;
            square += v * v;
            xx += x * x;
            xp[0] += x * v;
            xp[1] += y * v;
        }
    m->rms = sqrt(fmax(0, square / n - mean * mean / (n * n)));
    m->tilt[0] = xp[0] / xx;
    m->tilt[1] = xp[1] / xx;
    return MOAO_OK;
}

/* The same name, whatever folder the program is started in later. */
static status make_absolute(char **path) {
    char *here = NULL, *whole = NULL;
    status st = MOAO_OK;
    if ((*path)[0] == '/')
        return st;
    here = getcwd(NULL, 0);
    if (here == NULL)
        return file_fail(*path, "find", errno);
    TRY(file_join(here, *path, &whole));
    free(*path);
    *path = whole;
done:
    free(here);
    return st;
}

status static_map_read(const comm *c, params *par, static_map *m) {
    head h = {0};
    status st = MOAO_OK;
    *m = (static_map){0};
    if (par->errors_static_map == NULL)
        return st;
    TRY(comm_agree(c, make_absolute(&par->errors_static_map)));
    const char *path = par->errors_static_map;
    if (c->rank == 0 && (st = read_file(path, par, &m->map)) == MOAO_OK)
        h = (head){{m->map.nx, m->map.ny}, m->map.pixel};
    TRY(comm_agree(c, st));
    comm_bcast(c, &h, sizeof h);
    const size_t all = (size_t)h.n[0] * (size_t)h.n[1];
    if (c->rank != 0) {
        m->map = (psf_map){.nx = h.n[0], .ny = h.n[1], .pixel = h.pixel};
        st = ALLOC(m->map.path, all, "static map");
    }
    TRY(comm_agree(c, st));
    comm_bcast(c, m->map.path, all * sizeof *m->map.path);
    m->sum = crc_update(crc_update(0, &h, sizeof h), m->map.path, all * sizeof *m->map.path);
    st = comm_agree(c, look(par, path, m));
done:
    if (st != MOAO_OK)
        static_map_free(m);
    return st;
}

void static_map_free(static_map *m) {
    free(m->map.path);
    *m = (static_map){0};
}
