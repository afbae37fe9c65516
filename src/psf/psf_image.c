/* OTF and PSF of one target. Model section 7. */
#include "psf_phase.h"

#include <math.h>

/* The factor of a static map in row u at one wavelength, at v = 0; NULL: there is none. */
static const double *map_row(const psf *p, const double *map, int imono, int u) {
    const size_t row = (size_t)imono * (size_t)p->P + (size_t)u;
    return p->mapped ? map + row * (size_t)(2 * p->P - 1) + (size_t)(p->P - 1) : NULL;
}

/* Turn the covariance in p->otf into the OTF, or, with `odd`, into the imaginary part that a static
 * map gives it. */
static void fill_otf(psf *p, const psf_fit *f, int imono, bool odd) {
    const double lambda = p->mono[imono];
    double q = pow(2 * M_PI / lambda, 2), fit = f ? 0.5 * pow(LAMBDA_REF / lambda, 2) : 0;
    double c0 = p->otf[0];
#pragma omp parallel for schedule(dynamic, 8) if (p->N >= PSF_PARALLEL)
    for (int u = 0; u < p->P; u++) {
        double *row = p->otf + (size_t)u * (size_t)p->stride, *end = row + p->N;
        const double *tel = telescope_row(p, imono, u);
        const double *d = f ? f->d + (size_t)u * (size_t)p->P : tel;
        const double *map = map_row(p, odd ? p->map_odd : p->map_even, imono, u);
        row[0] = tel[0] * exp(-q * (c0 - row[0]) - fit * d[0]);
        for (int v = 1; v <= p->vmax[u]; v++) {
            const double rest = exp(-fit * d[v]);
            row[v] = tel[v] * rest * exp(-q * (c0 - row[v]));
            end[-v] = tel[-v] * rest * exp(-q * (c0 - end[-v]));
        }
        for (int v = -p->vmax[u]; map != NULL && v <= p->vmax[u]; v++)
            *(v < 0 ? end + v : row + v) *= map[v];
    }
}

/* Its parts even and odd in y. */
static void split_otf(psf *p) {
#pragma omp parallel for schedule(dynamic, 8) if (p->N >= PSF_PARALLEL)
    for (int u = 0; u < p->P; u++) {
        const double *row = p->otf + (size_t)u * (size_t)p->stride, *end = row + p->N;
        double *even = p->even + (size_t)u * (size_t)p->ld,
               *odd = p->odd + (size_t)u * (size_t)p->ld;
        even[0] = row[0];
        for (int v = 1; v <= p->vmax[u]; v++) {
            even[v] = row[v] + end[-v];
            odd[v] = row[v] - end[-v];
        }
    }
}

void psf_image_begin(psf *p) {
    p->nrow = 0;
#pragma omp parallel for schedule(static) if (p->N >= PSF_PARALLEL)
    for (int u = 0; u < p->P; u++)
        fftw_execute_dft_r2c(p->along_y, p->otf + (size_t)u * (size_t)p->stride,
                             p->rows + (size_t)u * (size_t)p->nfreq);
}

/* The rows u < 0 of the OTF are the mirror images of those kept, so along x the transform is one
 * from conjugate-even to real. */
void psf_image_extend(psf *p, int want) {
    int all = p->N / 2 + 1;
    want = want < all ? want : all;
    if (want <= p->nrow)
        return;
#pragma omp parallel for schedule(static) if (p->N >= PSF_PARALLEL)
    for (int y = p->nrow; y < want; y += PSF_BATCH)
        fftw_execute_dft_c2r(p->along_x, p->rows + y, p->image + (size_t)y * (size_t)p->stride);
    want = (want + PSF_BATCH - 1) / PSF_BATCH * PSF_BATCH;
    p->nrow = want < all ? want : all;
}

/* The axis comes to pixel crop/2 in both directions; with `odd` the image is added, and what is
 * kept of it has the other sign on the other side of the axis. */
static void copy_image(const psf *p, bool odd, float *out) {
    int half = p->crop / 2;
    for (int j = 0; j < p->crop; j++) {
        int y = j - half;
        const double *row = p->image + (size_t)(y < 0 ? -y : y) * (size_t)p->stride;
        for (int i = 0; i < p->crop; i++) {
            int x = y > 0 ? half - i : i - half;
            float *to = &out[(size_t)j * (size_t)p->crop + (size_t)i];
            const double v = row[x < 0 ? x + p->N : x];
            *to = (float)(odd ? *to + (y > 0 ? -v : v) : v);
        }
    }
}

/* The covariance, or what stands for it in a mean of exp(-D/2), and the variance over the pupil
 * [rad^2], which is that of the mean of D. */
static double average(psf *p, const double *sum, const psf_fit *f, int imono) {
    const double lambda = p->mono[imono];
    psf_covariance(p, sum);
    const double variance =
        p->otf[0] * pow(2 * M_PI / lambda, 2) + (f ? psf_fit_variance(f, lambda) : 0);
    if ((p->pairwise != NULL || p->logs != NULL) &&
        psf_average_needed(p->average == PSF_AVERAGE_EXACT, variance))
        pairwise_add_excess(p, imono);
    return variance;
}

double psf_otf_of(psf *p, const double *sum, const psf_fit *f, int imono, bool odd) {
    const double variance = average(p, sum, f, imono);
    fill_otf(p, f, imono, odd);
    split_otf(p);
    return variance;
}

/* What the imaginary part of the OTF adds to an image: i times a function that is odd. */
static void add_odd_image(psf *p, const double *sum, const psf_fit *f, int imono, float *image) {
    average(p, sum, f, imono);
    fill_otf(p, f, imono, true);
    psf_image_begin(p);
    for (int u = 0; u < p->P; u++)
        for (int k = 0; k < p->nfreq; k++)
            p->rows[(size_t)u * (size_t)p->nfreq + (size_t)k] *= I;
    psf_image_extend(p, p->crop / 2 + 1);
    copy_image(p, true, image);
}

status psf_compute(psf *p, const double *sum, const psf_fit *f, int ilambda, psf_result *r) {
    const double lambda = p->lambda[ilambda];
    const int imono = p->first[ilambda];
    if (p->first[ilambda + 1] - imono > 1 || p->mono[imono] != lambda)
        return psf_band_compute(p, sum, f, ilambda, r);
    r->variance = psf_otf_of(p, sum, f, imono, false);
    r->strehl = psf_strehl(p);
    status st = psf_finite(lambda, r->strehl, r->variance);
    if (st != MOAO_OK)
        return st;
    for (int i = 0; i < p->nbox; i++)
        r->ee[i] = psf_ensquared(p, lambda, p->box[i]);
    psf_image_begin(p);
    r->fwhm = psf_fwhm(p) * psf_image_pixel(p, ilambda);
    if (r->image) {
        psf_image_extend(p, p->crop / 2 + 1);
        copy_image(p, false, r->image);
        if (p->mapped)
            add_odd_image(p, sum, f, imono, r->image);
    }
    return MOAO_OK;
}

status psf_compute_all(psf *p, const double *sum, const psf_fit *f, double *scalars,
                       float *images) {
    const size_t npixel = (size_t)p->crop * (size_t)p->crop;
    status st = MOAO_OK;
    for (int l = 0; l < p->nlambda && st == MOAO_OK; l++) {
        psf_result r = {.ee = scalars + 3, .image = images};
        st = psf_compute(p, sum, f, l, &r);
        scalars[0] = r.strehl;
        scalars[1] = r.fwhm;
        scalars[2] = r.variance;
        scalars += 3 + p->nbox;
        if (images != NULL)
            images += npixel;
    }
    return st;
}
