/* What images of a target are made of, in few numbers: mean of the sums over the pairs of each
 * separation, and ln c of each wavelength (psf_pairwise.c). Both are smooth functions of the
 * direction; the first is linear in the residual covariance. Single precision: a relative 6e-8 of a
 * mean that is as small as the residual. Model section 7. */
#include "psf_phase.h"

static int opposite(const psf *p, int at) {
    return p->lattice > 0 ? phase_opposite(p, at) : p->nsep * p->nsep - 1 - at;
}

/* Whether separation i stands for itself and the opposite one. */
static bool is_kept(const psf *p, int i) {
    return i <= opposite(p, i) && p->norm[i] > 0;
}

size_t psf_kept_planes(const psf *p) {
    return 1 + (p->nsample > 0 ? (size_t)p->nmono : 0);
}

size_t psf_kept_count(const psf *p) {
    size_t n = 0;
    for (int i = 0; i < p->nsep * p->nsep; i++)
        n += is_kept(p, i);
    return n * psf_kept_planes(p);
}

void psf_keep(const psf *p, const double *sum, const double *common, const double *logs,
              float *out) {
    const int all = p->nsep * p->nsep;
    for (size_t l = 0; l < psf_kept_planes(p); l++)
        for (int i = 0; i < all; i++) {
            const int j = opposite(p, i);
            if (!is_kept(p, i))
                continue;
            const double total = sum[i] + common[i] + sum[j] + common[j];
            *out++ = (float)(l == 0 ? total / (p->norm[i] + p->norm[j])
                                    : logs[(l - 1) * (size_t)all + (size_t)i]);
        }
}

void psf_unkeep(const psf *p, const double *kept, double *sum, double *logs) {
    const int all = p->nsep * p->nsep;
    for (size_t l = 0; l < psf_kept_planes(p); l++) {
        double *out = l == 0 ? sum : logs + (l - 1) * (size_t)all;
        for (int i = 0; i < all; i++)
            out[i] = 0;
        for (int i = 0; i < all; i++) {
            const int j = opposite(p, i);
            if (!is_kept(p, i))
                continue;
            out[i] = l == 0 ? *kept * p->norm[i] : *kept;
            out[j] = l == 0 ? *kept * p->norm[j] : *kept;
            kept++;
        }
    }
}
