/* The PSFs with their arguments checked. */
#include "families.h"
#include "linalg/core/checked.h"

static const backend_imager_head *head_of(const backend_imager *b) {
    return (const backend_imager_head *)b;
}

static status need_slot(int slot, const char *name) {
    return slot >= 0 && slot < PSF_SLOTS
               ? MOAO_OK
               : status_fail(MOAO_INPUT, "%s: there is no slot %d", name, slot);
}

static status average(backend_imager *b, const double *y, int64_t ldy, bool both, double *sum) {
    const backend_imager_head *h = head_of(b);
    const status st = checked_range(backend_ld_ok(h->nact, ldy), "average");
    return st == MOAO_OK ? h->own->average(b, y, ldy, both, sum) : st;
}

static status pairs(backend_imager *b, const double *y, int64_t ldy, const double *ct, int64_t ldct,
                    double *sum, float *pairwise) {
    const backend_imager_head *h = head_of(b);
    const bool fine = h->pairs && (pairwise == NULL || h->pairwise) &&
                      backend_ld_ok(h->nact, ldy) && backend_ld_ok(h->nact, ldct);
    const status st = checked_range(fine, "pairs");
    return st == MOAO_OK ? h->own->pairs(b, y, ldy, ct, ldct, sum, pairwise) : st;
}

static status aim(backend_imager *b, const double dir[2]) {
    const backend_imager_head *h = head_of(b);
    const status st =
        checked_range(h->pairs && dir[0] - dir[0] == 0 && dir[1] - dir[1] == 0, "aim");
    return st == MOAO_OK ? h->own->aim(b, dir) : st;
}

static status compute(backend_imager *b, int slot, const double *sum, const double *common,
                      const float *pairwise) {
    const backend_imager_head *h = head_of(b);
    status st = need_slot(slot, "compute");
    if (st == MOAO_OK)
        st = checked_range(pairwise == NULL || h->pairwise, "compute");
    return st == MOAO_OK ? h->own->compute(b, slot, sum, common, pairwise) : st;
}

static status logs(backend_imager *b, const double *sum, const float *pairwise, double *out) {
    const backend_imager_head *h = head_of(b);
    const status st = checked_range(h->pairwise && pairwise != NULL, "logs");
    return st == MOAO_OK ? h->own->logs(b, sum, pairwise, out) : st;
}

static status images(backend_imager *b, int slot, const double *sum, const double *common,
                     const double *of) {
    const backend_imager_head *h = head_of(b);
    status st = need_slot(slot, "images");
    if (st == MOAO_OK)
        st = checked_range(of == NULL || h->pairwise, "images");
    return st == MOAO_OK ? h->own->images(b, slot, sum, common, of) : st;
}

static status collect(backend_imager *b, int slot, double *scalars, float *images) {
    const status st = need_slot(slot, "collect");
    return st == MOAO_OK ? head_of(b)->own->collect(b, slot, scalars, images) : st;
}

void checked_psf(const backend_psf *own, backend_psf *table) {
    *table = *own;
    table->average = average;
    table->aim = aim;
    table->pairs = pairs;
    table->compute = compute;
    table->logs = logs;
    table->images = images;
    table->collect = collect;
}
