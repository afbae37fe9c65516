/* Images of a band: the sum of images at some of its wavelengths. Model section 7, "Bands".
 *
 * Each is made of its own OTF on the grid of rho, and its pixels are those of the band's centre,
 * for which the sums over the OTF are products of matrices (matrix Fourier transform, Soummer et
 * al. 2007): no pixel is interpolated. */
#include "psf_plan.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

static bool is_band(const psf_opts *o, int i) {
    return o->width != NULL && o->width[i] > 0;
}

static int parts_of(const psf_opts *o, int i) {
    return is_band(o, i) ? o->band_wavelengths : 1;
}

void psf_band_sizes(psf *p, const psf_opts *o) {
    for (int i = 0; i < o->nlambda; i++) {
        const int n = parts_of(o, i);
        p->nmono += n;
        if (is_band(o, i)) {
            p->most = n > p->most ? n : p->most;
        }
    }
    p->nband = (size_t)p->most * (size_t)p->P * (size_t)p->ld;
}

/* Node i of n of Gauss and Legendre's rule on [-1, 1] and its weight, by Newton's method. */
static void gauss(int n, int i, double *x, double *w) {
    double z = -cos(M_PI * (i + 0.75) / (n + 0.5)), slope = 1;
    for (int step = 0; step < 8; step++) {
        double p = 1, before = 0;
        for (int k = 1; k <= n; k++) {
            const double next = ((2 * k - 1) * z * p - (k - 1) * before) / k;
            before = p;
            p = next;
        }
        slope = n * (z * p - before) / (z * z - 1);
        z -= p / slope;
    }
    *x = z;
    *w = 2 / ((1 - z * z) * slope * slope);
}

void psf_band_init(psf *p, const psf_opts *o) {
    int at = 0;
    for (int i = 0; i < o->nlambda; i++) {
        const int n = parts_of(o, i);
        double sum = 0;
        p->first[i] = at;
        for (int k = 0; k < n; k++) {
            double x = 0, w = 2;
            if (is_band(o, i))
                gauss(n, k, &x, &w);
            p->mono[at + k] = o->lambda[i] + (is_band(o, i) ? 0.5 * x * o->width[i] : 0);
            p->share[at + k] = 0.5 * w;
            p->light[at + k] = 0.5 * w / pow(p->mono[at + k], 2);
            sum += p->light[at + k];
        }
        for (int k = 0; k < n; k++)
            p->light[at + k] /= sum;
        at += n;
    }
    p->first[o->nlambda] = at;
}

/* --- pixels --- */

typedef struct { /* an OTF */
    const double *even, *odd;
    bool imaginary; /* its values times i */
    double light;
    double turn; /* angle of a step of the OTF and one pixel [rad] */
} source;

/* cosines and sines of turn u x, u = 0..P-1, x = x0..x0 + n. */
static void fill_turns(const psf *p, double turn, int x0, int n, double *c, double *s) {
    for (int u = 0; u < p->P; u++)
        for (int i = 0; i < n; i++) {
            c[u * PSF_BLOCK + i] = cos(turn * u * (x0 + i));
            s[u * PSF_BLOCK + i] = sin(turn * u * (x0 + i));
        }
}

/* a, b: [P][ny] sums along v for the rows y = -y0, -y0 - 1...: sum even cos(turn v y), sum odd
 * sin(-turn v y). */
static void sum_rows(const psf *p, const source *o, int y0, int ny, double *a, double *b, double *c,
                     double *s) {
    const int P = p->P;
    fill_turns(p, o->turn, y0, ny, c, s);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, P, ny, P, 1, o->even, p->ld, c,
                PSF_BLOCK, 0, a, PSF_BLOCK);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, P, ny, P, 1, o->odd, p->ld, s, PSF_BLOCK,
                0, b, PSF_BLOCK);
    cblas_dscal(ny, 0.5, a, 1); /* u and -u are one */
    cblas_dscal(ny, 0.5, b, 1);
}

/* Put a block of rows y = -y0, -y0 - 1... and columns x0... into an image, where a pixel and that
 * on the other side of the axis are the same, or with `imaginary` of opposite signs. */
static void put_block(const psf *p, const source *o, int x0, int nx, int y0, int ny, float *image) {
    const int half = p->crop / 2, crop = p->crop;
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++) {
            const double v = p->band_image[j * PSF_BLOCK + i];
            const int x = x0 + i, y = -y0 - j;
            if (x < half)
                image[(y + half) * crop + x + half] += (float)v;
            if (y < 0 && y > -half && x > -half)
                image[(half - y) * crop + half - x] += (float)(o->imaginary ? -v : v);
        }
}

/* Add light times the image of an OTF, with the pixels of the band. */
static void add_image(const psf *p, const source *o, float *image) {
    const int half = p->crop / 2, P = p->P;
    const size_t one = (size_t)P * PSF_BLOCK;
    double *a = p->band_work, *b = a + one, *c = b + one, *s = c + one;
    const double first = 2 * o->light * (o->imaginary ? -1 : 1), second = 2 * o->light;
    for (int y = 0; y <= half; y += PSF_BLOCK) {
        const int ny = half + 1 - y < PSF_BLOCK ? half + 1 - y : PSF_BLOCK;
        sum_rows(p, o, y, ny, a, b, c, s);
        for (int x = -half; x <= half; x += PSF_BLOCK) {
            const int nx = half + 1 - x < PSF_BLOCK ? half + 1 - x : PSF_BLOCK;
            fill_turns(p, o->turn, x, nx, c, s);
            cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, ny, nx, P, first, a, PSF_BLOCK,
                        o->imaginary ? s : c, PSF_BLOCK, 0, p->band_image, PSF_BLOCK);
            cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, ny, nx, P, second, b, PSF_BLOCK,
                        o->imaginary ? c : s, PSF_BLOCK, 1, p->band_image, PSF_BLOCK);
            put_block(p, o, x, nx, y, ny, image);
        }
    }
}

/* --- figures --- */

status psf_band_compute(psf *p, const double *sum, const psf_fit *f, int ilambda, psf_result *r) {
    const int first = p->first[ilambda], n = p->first[ilambda + 1] - first, middle = n / 2;
    const size_t one = (size_t)p->P * (size_t)p->ld, pixels = (size_t)p->crop * (size_t)p->crop;
    const double centre = p->lambda[ilambda];
    psf_layer layer[64];
    double near = 0;
    r->strehl = 0;
    for (int i = 0; i < p->nbox; i++)
        r->ee[i] = 0;
    if (r->image != NULL)
        memset(r->image, 0, pixels * sizeof *r->image);
    for (int j = 0; j < n; j++) { /* the one in the middle last: the first guess is of it */
        const int k = j < n - 1 ? j + (j >= middle) : middle, l = first + k;
        double *even = p->band_even + (size_t)k * one, *odd = p->band_odd + (size_t)k * one;
        source o = {even, odd, false, p->light[l], 2 * M_PI / p->N * centre / p->mono[l]};
        if (r->image != NULL && p->mapped) {
            psf_otf_of(p, sum, f, l, true);
            source i = {p->even, p->odd, true, o.light, o.turn};
            add_image(p, &i, r->image);
        }
        r->variance = psf_otf_of(p, sum, f, l, false) * pow(p->mono[l] / centre, 2);
        memcpy(even, p->even, one * sizeof *even);
        memcpy(odd, p->odd, one * sizeof *odd);
        layer[k] = (psf_layer){even, odd, o.light, centre / p->mono[l]};
        near = psf_strehl(p);
        const status st = psf_finite(p->mono[l], near, r->variance);
        if (st != MOAO_OK)
            return st;
        r->strehl += o.light * near;
        for (int i = 0; i < p->nbox; i++)
            r->ee[i] += p->share[l] * psf_ensquared(p, p->mono[l], p->box[i]);
        if (r->image != NULL)
            add_image(p, &o, r->image);
    }
    psf_image_begin(p);
    r->fwhm = psf_fwhm_of(p, n, layer, middle, near, r->strehl) * psf_image_pixel(p, ilambda);
    return MOAO_OK;
}
