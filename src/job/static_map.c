#include "job/static_map.h"

#include "base/crc.h"
#include "base/file.h"
#include "base/fits_image.h"
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
#define EDGE 1e-3         /* of a pixel's light that makes it dark or whole */
#define DOUBTFUL_M 1e-12  /* rms of nm below which they are likely metres, */
#define DOUBTFUL_UM 1e-10 /* or micrometres */
#define LOSS 0.01         /* of the rms that resampling may lose without a word, */
#define SMOOTH 0.005      /* and that lines between pixels may lose */

typedef struct {
    int n[2];
    double pixel;
} head;

typedef struct { /* the pupil, the annulus in pixels of the map */
    double radius, hole;
    const pupil *shape; /* NULL: all of it */
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

/* Size of a pixel: as the parameters say, else the header, else from one edge of the pupil to the
 * other. */
static double pixel_of(fits_image *in, const params *par) {
    char unit[FLEN_VALUE];
    double step = 0;
    if (params_given(par->errors_static_pixel))
        return par->errors_static_pixel;
    fits_image_text(in, "CUNIT1", unit);
    if (strcasecmp(unit, "m") == 0 && fits_key_number(in->f, "CDELT1", &step))
        return fabs(step);
    return par->telescope_diameter / (double)in->nx;
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
    if (a->shape != NULL) {
        const double light = pupil_light(a->shape, (i - 0.5 * m->nx) * m->pixel,
                                         (j - 0.5 * m->ny) * m->pixel, m->pixel);
        return light < EDGE ? 0 : light > 1 - EDGE ? 1 : light;
    }
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
static status read_image(fits_image *in, const params *par, static_map *s) {
    char unit[FLEN_VALUE], line[200];
    psf_map *m = &s->map;
    status st;
    fits_image_text(in, "BUNIT", unit);
    s->no_unit = unit[0] == '\0';
    const double scale = metres(unit);
    if (scale == 0) {
        snprintf(line, sizeof line, "BUNIT is %.40s, expected nm, um or m (none: nm)", unit);
        return fits_image_refuse(in, line);
    }
    m->pixel = pixel_of(in, par);
    m->nx = in->nx;
    m->ny = in->ny;
    if (!(m->pixel > 0 && isfinite(m->pixel)))
        return fits_image_refuse(in, "CDELT1 is no size of a pixel; give errors.static_pixel");
    const size_t all = (size_t)m->nx * (size_t)m->ny;
    TRY(ALLOC(m->path, all, "static map"));
    TRY(fits_image_read(in, m->path));
    for (size_t i = 0; i < all; i++)
        m->path[i] *= scale;
done:
    return st;
}

static status read_file(const char *path, const params *par, static_map *m) {
    fits_image in;
    status st = fits_image_open(&in, "errors.static_map", path, MOST);
    if (st == MOAO_OK)
        st = read_image(&in, par, m);
    fits_image_close(&in);
    return st;
}

/* Tilt and rms of the samples; every one has a value. */
static status measure(const sys *s, const char *path, static_map *m) {
    const double D = s->diameter;
    double n = 0, mean = 0, square = 0, xx = 0, xp[2] = {0, 0}, shift = NAN;
    char line[240];
    for (int j = 0; j < m->samples; j++)
        for (int i = 0; i < m->samples; i++) {
            const double x = ((i + 0.5) / m->samples - 0.5) * D;
            const double y = ((j + 0.5) / m->samples - 0.5) * D;
            if (!sys_is_lit(s, x, y))
                continue;
            double v = psf_map_path(&m->map, x, y);
            if (!isfinite(v) && s->pupil != NULL && pupil_crosses(s->pupil, x, y, 0))
                continue; /* a pixel on the edge, most of which is dark */
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
static status prepare(const params *par, const sys *s, const char *path, static_map *m) {
    const double D = s->diameter;
    annulus a;
    status st;
    TRY(read_file(path, par, m));
    a.radius = 0.5 * D / m->map.pixel;
    a.hole = a.radius * s->obs;
    a.shape = s->pupil;
    TRY(check_pixels(path, &a, &m->map));
    m->pixels = fill_and_measure(&a, &m->map);
    m->samples = psf_map_samples(&m->map, D, par->dm_nssp * par->psf_oversampling);
    TRY(measure(s, path, m));
    m->map.blocks = loses(m, SMOOTH);
    if (m->map.blocks)
        TRY(measure(s, path, m));
done:
    return st;
}

status static_map_name(params *par) {
    return par->errors_static_map != NULL ? file_make_absolute(&par->errors_static_map) : MOAO_OK;
}

status static_map_read(const comm *c, const params *par, const sys *s, static_map *m) {
    status st = MOAO_OK;
    *m = (static_map){0};
    if (par->errors_static_map == NULL)
        return st;
    if (c->rank == 0)
        st = prepare(par, s, par->errors_static_map, m);
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
