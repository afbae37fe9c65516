/* Images of directions between those that were computed. */
#include "obsseq/obsseq.h"

#include <stdlib.h>
#include <string.h>

/* What is kept of direction i: a weighted sum of nodes' numbers. */
static void weighted(const obsseq_rows *r, int i, size_t nkept, double *out) {
#pragma omp parallel for schedule(static)
    for (size_t from = 0; from < nkept; from += 1024) {
        const size_t end = from + 1024 < nkept ? from + 1024 : nkept;
        memset(out + from, 0, (end - from) * sizeof *out);
        for (int k = r->first[i]; k < r->first[i + 1]; k++) {
            const double w = r->w[k];
            const float *restrict kept = r->kept + (size_t)r->node[k] * nkept;
            for (size_t j = from; j < end; j++)
                out[j] += w * (double)kept[j];
        }
    }
}

/* Images of the numbers of one direction, through the pinned memory of its slot. */
static status start(obsseq *o, int slot, const double *numbers) {
    engine *e = &o->t.e;
    const int64_t nsep = (int64_t)psf_sep_count(o->ps);
    double *sum = o->kept[slot], *logs = o->logs != NULL ? sum + nsep : NULL;
    status st;
    psf_unkeep(o->ps, numbers, sum, logs);
    if (o->last != o->img)
        return o->last->images(o->last_imager, slot, sum, NULL, logs);
    TRY(engine_copy(e, o->sum, sum, nsep));
    if (logs != NULL)
        TRY(engine_copy(e, o->logs, logs, nsep * psf_wavelengths(o->ps)));
    st = o->last->images(o->last_imager, slot, o->sum, NULL, o->logs);
done:
    return st;
}

status obsseq_interpolate(obsseq *o, const profile *p, obsexposure *ex, const obsseq_rows *rows,
                          double *scalars, float *images) {
    const size_t nkept = psf_kept_count(o->ps), nlambda = (size_t)psf_images(o->ps);
    const size_t ns = nlambda * (3 + (size_t)psf_boxes(o->ps)),
                 np = nlambda * (size_t)psf_crop_size(o->ps) * (size_t)psf_crop_size(o->ps);
    double *numbers = NULL;
    psf_fit_model fit;
    status st = ALLOC(numbers, nkept, "numbers between nodes");
    if (st == MOAO_OK && ex->fit == NULL)
        st = psf_rest_init(o->ps, p, &ex->fit);
    TRY(st);
    psf_fit_model_init(ex->fit, &fit);
    TRY(o->last->load(o->last_imager, &fit));
    for (int i = 0; i <= rows->n; i++) { /* results of one are fetched once the next is under way */
        if (i < rows->n) {
            weighted(rows, i, nkept, numbers);
            TRY(start(o, i % PSF_SLOTS, numbers));
        }
        if (i > 0)
            TRY(o->last->collect(o->last_imager, (i - 1) % PSF_SLOTS,
                                 scalars + (size_t)(i - 1) * ns,
                                 images != NULL ? images + (size_t)(i - 1) * np : NULL));
    }
done:
    free(numbers);
    return st;
}
