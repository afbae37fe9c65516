/* OTF and PSF of one target. Model section 7. */
#include "psf_plan.h"

#include <math.h>

/* Turn the covariance in p->otf into the OTF, and split it into its parts even and odd in y. */
static void fill_otf(psf *p, const psf_fit *f, double lambda) {
    double q = pow(2 * M_PI / lambda, 2), fit = f ? 0.5 * pow(LAMBDA_REF / lambda, 2) : 0;
    double c0 = p->otf[0];
#pragma omp parallel for schedule(dynamic, 8) if (p->N >= PSF_PARALLEL)
    for (int u = 0; u < p->P; u++) {
        double *row = p->otf + (size_t)u * (size_t)p->stride, *end = row + p->N;
        double *even = p->even + (size_t)u * (size_t)p->ld;
        double *odd = p->odd + (size_t)u * (size_t)p->ld;
        const double *tel = p->tel + (size_t)u * (size_t)p->P;
        const double *d = f ? f->d + (size_t)u * (size_t)p->P : tel;
        even[0] = row[0] = tel[0] * exp(-q * (c0 - row[0]) - fit * d[0]);
        for (int v = 1; v <= p->vmax[u]; v++) {
            double t = tel[v] * exp(-fit * d[v]);
            row[v] = t * exp(-q * (c0 - row[v]));
            end[-v] = t * exp(-q * (c0 - end[-v]));
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

/* The axis comes to pixel crop/2 in both directions. */
static void copy_image(const psf *p, float *out) {
    int half = p->crop / 2;
    for (int j = 0; j < p->crop; j++) {
        int y = j - half;
        const double *row = p->image + (size_t)(y < 0 ? -y : y) * (size_t)p->stride;
        for (int i = 0; i < p->crop; i++) {
            int x = y > 0 ? half - i : i - half;
            out[(size_t)j * (size_t)p->crop + (size_t)i] = (float)row[x < 0 ? x + p->N : x];
        }
    }
}

status psf_compute(psf *p, const double *sum, const psf_fit *f, int ilambda, psf_result *r) {
    double lambda = p->lambda[ilambda];
    psf_covariance(p, sum);
    r->variance = p->otf[0] * pow(2 * M_PI / lambda, 2) + (f ? psf_fit_variance(f, lambda) : 0);
    fill_otf(p, f, lambda);
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
        copy_image(p, r->image);
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
