#include "job/static_map.h"

#include "base/crc.h"
#include "base/file.h"
#include "base/fits.h"
#include "base/fits_in.h"
#include "base/progress.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MOST 16384        /* pixels of an axis */
#define LARGEST 1e-3      /* of a path [m] */
#define PARTS 16          /* of a pixel on the pupil's edge, along each axis, for its area inside */
#define DOUBTFUL_M 1e-12  /* rms of nm below which they are likely metres, */
#define DOUBTFUL_UM 1e-10 /* or micrometres */
#define LOSS 0.01         /* of the rms that resampling may lose without a word, */
#define SMOOTH 0.005      /* and that lines between pixels may lose */

typedef struct {
    int n[2];
    double pixel;
} head;

typedef struct { /* the pupil, in pixels of the map */
    double radius, hole;
} annulus;

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
    if (params_given(par->errors_static_pixel))
        return par->errors_static_pixel;
    text_of(f, "CUNIT1", unit);
    if (strcasecmp(unit, "m") == 0 && fits_key_number(f, "CDELT1", &step))
        return fabs(step);
    return par->telescope_diameter / (double)columns;
}

static status refuse(const char *path, const char *what) {
    return status_fail(MOAO_INPUT, "errors.static_map: %s: %s", file_shown(path), what);
}

/* --- pixels */

/* Distances of the pixel's nearest and farthest point, and of its middle, from the pupil's. */
static void reach(const psf_map *m, int i, int j, double r[3]) {
    const double x = fabs(i - 0.5 * (m->nx - 1)), y = fabs(j - 0.5 * (m->ny - 1));
    r[0] = hypot(fmax(0, x - 0.5), fmax(0, y - 0.5));
    r[1] = hypot(x + 0.5, y + 0.5);
    r[2] = hypot(x, y);
}

/* The part of a pixel's area that lies in the pupil: 0 outside, 1 inside. */
static double area_inside(const psf_map *m, const annulus *a, int i, int j) {
    double r[3];
    int n = 0;
    reach(m, i, j, r);
    if (r[0] >= a->radius || (a->hole > 0 && r[1] <= a->hole))
        return 0;
    if (r[1] <= a->radius && r[0] >= a->hole)
        return 1;
    for (int k = 0; k < PARTS * PARTS; k++) {
        const double x = i - 0.5 * m->nx + (k % PARTS + 0.5) / PARTS;
        const double y = j - 0.5 * m->ny + (k / PARTS + 0.5) / PARTS;
        const double d = hypot(x, y);
        n += d < a->radius && d >= a->hole;
    }
    return (double)n / (PARTS * PARTS);
}

/* Mean of the neighbours that have a value; NAN without any. */
static double neighbours(const psf_map *m, int i, int j) {
    double sum = 0;
    int n = 0;
    for (int k = 0; k < 9; k++) {
        const int x = i + k % 3 - 1, y = j + k / 3 - 1;
        if (x < 0 || y < 0 || x >= m->nx || y >= m->ny)
            continue;
        const double v = m->path[(size_t)y * (size_t)m->nx + (size_t)x];
        sum += isfinite(v) ? v : 0;
        n += isfinite(v);
    }
    return n > 0 ? sum / n : NAN;
}

static status refuse_pixel(const char *path, const psf_map *m, int i, int j, const char *what) {
    return status_fail(MOAO_INPUT,
                       "errors.static_map: %s: pixel (%d, %d), at (%.4g, %.4g) m inside the pupil, "
                       "%s",
                       file_shown(path), i + 1, j + 1, (i - 0.5 * (m->nx - 1)) * m->pixel,
                       (j - 0.5 * (m->ny - 1)) * m->pixel, what);
}

/* A pixel that counts must have a value; what stands outside the pupil is dropped. */
static status check_pixels(const char *path, const annulus *a, psf_map *m) {
    char what[200];
    for (int j = 0; j < m->ny; j++)
        for (int i = 0; i < m->nx; i++) {
            double *v = &m->path[(size_t)j * (size_t)m->nx + (size_t)i];
            const double inside = area_inside(m, a, i, j);
            if (inside == 0 || (inside < 1 && !isfinite(*v)))
                *v = NAN;
            else if (!isfinite(*v)) {
                snprintf(what, sizeof what,
                         "has no finite value (NaN, Inf or BLANK), expected one: 0 where there is "
                         "no error; the map's pixels of %.3g m reach over %.4g x %.4g m",
                         m->pixel, m->pixel * m->nx, m->pixel * m->ny);
                return refuse_pixel(path, m, i, j, what);
            } else if (fabs(*v) > LARGEST) {
                snprintf(what, sizeof what,
                         "has a value of %.3g m, expected at most 1 mm: is BUNIT right?", *v);
                return refuse_pixel(path, m, i, j, what);
            }
        }
    return MOAO_OK;
}

/* Pixels on the pupil's edge that have no value take that of their neighbours; the rms of all, each
 * by its area in the pupil [m]. */
static double fill_and_measure(const annulus *a, psf_map *m) {
    double n = 0, mean = 0, square = 0, shift = NAN;
    for (int j = 0; j < m->ny; j++)
        for (int i = 0; i < m->nx; i++) {
            double *v = &m->path[(size_t)j * (size_t)m->nx + (size_t)i];
            const double w = area_inside(m, a, i, j);
            if (w == 0)
                continue;
            if (!isfinite(*v))
                *v = neighbours(m, i, j);
            if (!isfinite(*v))
                continue;
            shift = isnan(shift) ? *v : shift; /* a piston may be much larger than the rms */
            n += w;
            mean += w * (*v - shift);
            square += w * (*v - shift) * (*v - shift);
        }
    return n > 0 ? sqrt(fmax(0, square / n - mean * mean / (n * n))) : 0;
}

/* --- the file */

/* Values [m], in new memory. */
static status read_image(fitsfile *f, const char *path, const params *par, static_map *s,
                         int *err) {
    char unit[FLEN_VALUE], line[200];
    long n[2] = {0, 0};
    int naxis = 0, any = 0;
    double none = NAN, scale;
    psf_map *m = &s->map;
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
    s->no_unit = unit[0] == '\0';
    scale = metres(unit);
    if (scale == 0) {
        snprintf(line, sizeof line, "BUNIT is %.40s, expected nm, um or m (none: nm)", unit);
        return refuse(path, line);
    }
    m->pixel = pixel_of(f, par, n[0]);
    m->nx = (int)n[0];
    m->ny = (int)n[1];
    if (!(m->pixel > 0 && isfinite(m->pixel)))
        return refuse(path, "CDELT1 is no size of a pixel; give errors.static_pixel");
    const size_t all = (size_t)n[0] * (size_t)n[1];
    TRY(ALLOC(m->path, all, "static map"));
    fits_read_img(f, TDOUBLE, 1, (LONGLONG)all, &none, m->path, &any, err);
    for (size_t i = 0; i < all && *err == 0; i++)
        m->path[i] *= scale;
    st = MOAO_OK;
done:
    return st;
}

static const char *cards_wrong(const char *path) {
    uint64_t size = 0;
    int fd = -1;
    const bool open = file_open_plain(path, &fd, &size) == MOAO_OK;
    const char *wrong = open ? fits_cards_wrong(fd, size) : "cannot be read";
    if (open)
        close(fd);
    else
        status_clear();
    return wrong;
}

static status read_file(const char *path, const params *par, static_map *m) {
    fitsfile *f = NULL;
    int err = 0, closing = 0;
    status st = MOAO_OK;
    const char *why = file_unreadable(path);
    if (why != NULL) {
        char line[160];
        snprintf(line, sizeof line, "cannot be read (%.80s), expected a FITS file", why);
        return refuse(path, line);
    }
    why = cards_wrong(path);
    if (why != NULL)
        return refuse(path, why);
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

/* Tilt and rms of the samples; every one has a value. */
static status measure(const params *par, const char *path, static_map *m) {
    const double D = par->telescope_diameter, obs = par->telescope_obscuration;
    double n = 0, mean = 0, square = 0, xx = 0, xp[2] = {0, 0}, shift = NAN;
    char line[240];
    for (int j = 0; j < m->samples; j++)
        for (int i = 0; i < m->samples; i++) {
            const double x = ((i + 0.5) / m->samples - 0.5) * D;
            const double y = ((j + 0.5) / m->samples - 0.5) * D;
            const double r = hypot(x, y);
            if (r >= 0.5 * D || r < 0.5 * obs * D)
                continue;
            double v = psf_map_path(&m->map, x, y);
            if (!isfinite(v)) {
                snprintf(line, sizeof line,
                         "no value at (%.3g, %.3g) m, inside the pupil of %.4g m; its pixels of "
                         "%.3g m reach over %.4g x %.4g m",
                         x, y, D, m->map.pixel, m->map.pixel * m->map.nx, m->map.pixel * m->map.ny);
                return refuse(path, line);
            }
            shift = isnan(shift) ? v : shift;
            v -= shift;
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

/* Whether the samples have another rms than the pixels, by more than a share of it. */
static bool loses(const static_map *m, double share) {
    return fabs(m->rms - m->pixels) > share * m->pixels;
}

/* The map of the file as the PSF takes it. Lines between pixels are smooth; where they would take
 * away from the rms, pixels are blocks. */
static status prepare(const params *par, const char *path, static_map *m) {
    const double D = par->telescope_diameter;
    annulus a;
    status st;
    TRY(read_file(path, par, m));
    a.radius = 0.5 * D / m->map.pixel;
    a.hole = a.radius * par->telescope_obscuration;
    TRY(check_pixels(path, &a, &m->map));
    m->pixels = fill_and_measure(&a, &m->map);
    m->samples = psf_map_samples(&m->map, D, par->dm_nssp * par->psf_oversampling);
    TRY(measure(par, path, m));
    m->map.blocks = loses(m, SMOOTH);
    if (m->map.blocks)
        TRY(measure(par, path, m));
done:
    return st;
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

status static_map_name(params *par) {
    return par->errors_static_map != NULL ? make_absolute(&par->errors_static_map) : MOAO_OK;
}

status static_map_read(const comm *c, const params *par, static_map *m) {
    status st = MOAO_OK;
    *m = (static_map){0};
    if (par->errors_static_map == NULL)
        return st;
    if (c->rank == 0)
        st = prepare(par, par->errors_static_map, m);
    TRY(comm_agree(c, st));
    double *path = m->map.path;
    comm_bcast(c, m, sizeof *m);
    m->map.path = path; /* an address of rank 0 otherwise */
    const head h = {{m->map.nx, m->map.ny}, m->map.pixel};
    const size_t all = (size_t)h.n[0] * (size_t)h.n[1];
    if (c->rank != 0)
        st = ALLOC(m->map.path, all, "static map");
    TRY(comm_agree(c, st));
    comm_bcast(c, m->map.path, all * sizeof *m->map.path);
    m->sum = crc_update(crc_update(0, &h, sizeof h), m->map.path, all * sizeof *m->map.path);
    if (m->map.blocks)
        m->sum = crc_update(m->sum, "blocks", 6);
done:
    if (st != MOAO_OK)
        static_map_free(m);
    return st;
}

void static_map_warn(const static_map *m) {
    if (m->map.path == NULL)
        return;
    if (loses(m, LOSS))
        progress_warn("errors.static_map: its pixels have %.3g nm rms over the pupil, its %d "
                      "samples across %.3g nm, which count: what is finer than a sample is lost",
                      m->pixels * 1e9, m->samples, m->rms * 1e9);
    if (m->no_unit && m->pixels > 0 && m->pixels < DOUBTFUL_M)
        progress_warn("errors.static_map: without BUNIT its values are nm, an rms of %.3g nm; are "
                      "they metres? Give BUNIT = 'm'",
                      m->pixels * 1e9);
    else if (m->no_unit && m->pixels > 0 && m->pixels < DOUBTFUL_UM)
        progress_warn("errors.static_map: without BUNIT its values are nm, an rms of %.3g nm; are "
                      "they micrometres? Give BUNIT = 'um'",
                      m->pixels * 1e9);
}

void static_map_free(static_map *m) {
    free(m->map.path);
    *m = (static_map){0};
}
