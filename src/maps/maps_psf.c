#include "maps_parts.h"

#include "base/file.h"
#include "moao/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Quantisation of compressed images, in units of the diffraction-limited peak. The rounding is
 * independent from pixel to pixel (dithered), so that an ensquared energy over n pixels moves by
 * about sqrt(n) 3e-8 of the flux in the central pixel of a perfect image. */
#define COMPRESS_STEP 1e-7
/* Memory for the sums of long exposures [bytes]. */
#define SUM_BYTES 67108864

enum { REACH = 16 }; /* half-width of the interpolation kernel, pixels */

/* Weights of pixels i0 .. i0 + 2 REACH - 1 for the position x: sinc under a bell that ends at
 * REACH. The sine of pi times a distance is the same for all, but for its sign. */
static int kernel(double x, double w[2 * REACH]) {
    const double whole = floor(x), sine = sin(M_PI * (x - whole)) / M_PI;
    const int i0 = (int)whole - REACH + 1;
    for (int i = 0; i < 2 * REACH; i++) {
        double d = x - (i0 + i), u = d / REACH;
        double bell = fabs(u) < 1 ? exp(8 * (sqrt(1 - u * u) - 1)) : 0;
        w[i] = bell * (d == 0 ? 1 : (i % 2 == (REACH - 1) % 2 ? sine : -sine) / d);
    }
    return i0;
}

/* sum of n weights times pixels */
CLONES static double weigh_row(int n, const double *w, const float *pixel) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++)
        sum += w[i] * (double)pixel[i];
    return sum;
}

static double image_at(const float *image, int n, double x, double y) {
    double wx[2 * REACH], wy[2 * REACH], sum = 0;
    const int x0 = kernel(x, wx), y0 = kernel(y, wy);
    const int from = x0 < 0 ? -x0 : 0, end = x0 + 2 * REACH > n ? n - x0 : 2 * REACH;
    for (int j = 0; j < 2 * REACH; j++)
        if (y0 + j >= 0 && y0 + j < n && from < end)
            sum += wy[j] * weigh_row(end - from, wx + from,
                                     image + (size_t)(y0 + j) * (size_t)n + (size_t)(x0 + from));
    return sum;
}

/* Radius in direction (c, s) at which the image falls to `half`; NaN when it does not. */
static double half_radius(const float *image, int n, double c, double s, double half) {
    const double step = 0.5;
    double axis = n / 2, r0 = 0, f0 = half, r1 = 0, f1;
    do { /* the first step that brackets it */
        r0 = r1;
        r1 += step;
        if (r1 > n / 2 - 1)
            return NAN;
        f1 = image_at(image, n, axis + r1 * c, axis + r1 * s) - half;
    } while (f1 > 0);
    if (r0 > 0)
        f0 = image_at(image, n, axis + r0 * c, axis + r0 * s) - half;
    for (int k = 0; k < 40 && r1 - r0 > 1e-7; k++) { /* false position, halving every third time */
        double r = k % 3 == 2 ? (r0 + r1) / 2 : r0 + (r1 - r0) * f0 / (f0 - f1);
        double f = image_at(image, n, axis + r * c, axis + r * s) - half;
        if (f == 0)
            return r;
        *(f > 0 ? &r0 : &r1) = r;
        *(f > 0 ? &f0 : &f1) = f;
    }
    return r0 + (r1 - r0) * f0 / (f0 - f1);
}

double maps_image_fwhm(const float *image, int n) {
    enum { DIRECTIONS = 36 };
    double half = (double)image[(size_t)(n / 2) * (size_t)n + (size_t)(n / 2)] / 2, sum = 0;
    if (!(half > 0) || !isfinite(half))
        return NAN;
    for (int k = 0; k < DIRECTIONS; k++)
        sum += half_radius(image, n, cos(k * M_PI / DIRECTIONS), sin(k * M_PI / DIRECTIONS), half);
    return 2 * sum / DIRECTIONS;
}

/* Begin the cube (axes x, y, target) of one wavelength and exposure; exposure -1: the long one.
 * Three axes, as not every reader of compressed images takes more. */
static void begin_cube(fitsout *o, const maps_data *m, int il, int exposure) {
    double pixel = m->pixel[il] * ARCSEC_PER_RAD;
    long naxes[3] = {m->crop, m->crop, m->ntarget};
    fitsout_image(o, exposure < 0 ? "PSF_LONG" : "PSF_SHORT", FLOAT_IMG, 3, naxes,
                  m->par->output_compress ? COMPRESS_STEP : 0);
    if (exposure < 0) {
        fitsout_integer(o, "EXTVER", il + 1, "number of the wavelength");
    } else {
        fitsout_integer(o, "EXTVER", il * m->nexposure + exposure + 1,
                        "(ILAMBDA-1) NEXPOSUR + EXPOSURE");
        fitsout_integer(o, "EXPOSURE", exposure + 1, "number of the exposure");
        fitsout_real(o, "TIME", m->a->exposure_time[exposure], "[s] of the exposure");
    }
    fitsout_text(o, "BUNIT", "", "relative to the diffraction-limited peak");
    fitsout_integer(o, "ILAMBDA", il + 1, "number of the wavelength");
    fitsout_real(o, "LAMBDA", m->par->images.lambda[il] * 1e6, "[um] wavelength");
    if (m->par->images.width[il] > 0) {
        fitsout_text(o, "BAND", m->par->images.name[il], "that the image is integrated over");
        fitsout_real(o, "BANDWID", m->par->images.width[il] * 1e6, "[um] its width");
        fitsout_integer(o, "BANDN", m->par->psf_band_wavelengths, "wavelengths (table BANDS)");
    }
    fitsout_real(o, "PIXEL", pixel * 1e3, "[mas] side of a pixel");
    fitsout_axis(o, 1, "X", "arcsec", m->crop / 2 + 1, 0, pixel);
    fitsout_axis(o, 2, "Y", "arcsec", m->crop / 2 + 1, 0, pixel);
    fitsout_axis(o, 3, "TARGET", "", 1, 1, 1);
    if (m->par->output_compress)
        fitsout_real(o, "QSTEP", COMPRESS_STEP, "step of the quantised values (lossy)");
}

static void write_plane(fitsout *o, const maps_data *m, int target, const float *image) {
    long first[3] = {1, 1, target + 1}, last[3] = {m->crop, m->crop, target + 1};
    fitsout_pixels_float(o, first, last, image);
}

static status write_short(fitsout *o, const maps_data *m, int il, float *image) {
    for (int e = 0; e < m->nexposure; e++) {
        begin_cube(o, m, il, e);
        for (int t = 0; t < m->ntarget; t++) {
            status st = store_read_image(m->st, e, t, il, image);
            if (st != MOAO_OK)
                return st;
            write_plane(o, m, t, image);
        }
    }
    return MOAO_OK;
}

/* Mean images of targets t0 .. t0+nt-1: into the file, and their FWHM into m->mean. */
static status write_long_batch(fitsout *o, maps_data *m, int il, int t0, int nt, double *sum,
                               float *image) {
    size_t n = (size_t)m->crop * (size_t)m->crop;
    double *fwhm =
        m->mean + ((size_t)SCALAR_FWHM * (size_t)m->nlambda + (size_t)il) * (size_t)m->ntarget;
    memset(sum, 0, (size_t)nt * n * sizeof *sum);
    for (int e = 0; e < m->nexposure; e++)
        for (int t = 0; t < nt; t++) {
            status st = store_read_image(m->st, e, t0 + t, il, image);
            if (st != MOAO_OK)
                return st;
            for (size_t i = 0; i < n; i++)
                sum[(size_t)t * n + i] += (double)image[i];
        }
    for (int t = 0; t < nt; t++) {
        for (size_t i = 0; i < n; i++)
            image[i] = (float)(sum[(size_t)t * n + i] / m->nexposure);
        write_plane(o, m, t0 + t, image);
        if (m->nexposure > 1)
            fwhm[t0 + t] = maps_image_fwhm(image, m->crop) * m->pixel[il];
    }
    return MOAO_OK;
}

static status write_long(fitsout *o, maps_data *m, int il, float *image) {
    status st = MOAO_OK;
    double *sum = NULL;
    size_t one = (size_t)m->crop * (size_t)m->crop * sizeof *sum;
    int batch = SUM_BYTES / one < 1 ? 1 : (int)(SUM_BYTES / one);
    batch = batch < m->ntarget ? batch : m->ntarget;
    TRY(ALLOC(sum, (size_t)batch * (size_t)m->crop * (size_t)m->crop, "sums of long exposures"));
    begin_cube(o, m, il, -1);
    for (int t = 0; t < m->ntarget; t += batch)
        TRY(write_long_batch(o, m, il, t, m->ntarget - t < batch ? m->ntarget - t : batch, sum,
                             image));
done:
    free(sum);
    return st;
}

status maps_write_psf(maps_data *m, const char *effective, fitsout *o) {
    static const char *const comments[] = {
        "Point-spread functions; axes x, y, target. The axis is on pixel CRPIX.",
        "A diffraction-limited image peaks at 1.",
        "PSF_LONG: mean of all exposures, one extension a wavelength (LAMBDA).",
        "PSF_SHORT, if asked for: one extension a wavelength and exposure.", NULL};
    status st;
    char *path = NULL;
    float *image = NULL;
    TRY(file_join(m->dir, "psf.fits", &path));
    TRY(ALLOC(image, (size_t)m->crop * (size_t)m->crop, "image"));
    TRY(fitsout_create(o, path));
    maps_run_header(o, m, comments);
    for (int il = 0; il < m->nlambda; il++) {
        if (m->par->output_psf == PSF_SHORT)
            TRY(write_short(o, m, il, image));
        TRY(write_long(o, m, il, image));
    }
    maps_table_targets(o, m, false);
    maps_table_exposures(o, m);
    maps_table_wavelengths(o, m);
    maps_table_parameters(o, effective);
    st = fitsout_finish(o);
done:
    free(image);
    free(path);
    return st;
}
