/* The CPU backend's PSFs: the specification of every other backend's. Work is done in `compute`. */
#include "backend/families.h"
#include "psf_phase.h"

#include <stdlib.h>
#include <string.h>

struct backend_imager {
    backend_imager_head head;
    psf *p;
    const psf_fit *fit;
    double *sum;                /* [nsep][nsep] */
    double *pairs;              /* S(x, x') before it is rounded */
    double *scalars[PSF_SLOTS]; /* [nlambda][3 + nbox] */
    float *images[PSF_SLOTS];   /* [nlambda][crop][crop] */
};

static size_t scalar_count(const psf *p) {
    return (size_t)p->nlambda * (3 + (size_t)p->nbox);
}

static size_t pixel_count(const psf *p) {
    return (size_t)p->nlambda * (size_t)p->crop * (size_t)p->crop;
}

static void cpu_close(backend_imager *b) {
    if (b == NULL)
        return;
    for (int i = 0; i < PSF_SLOTS; i++) {
        free(b->scalars[i]);
        free(b->images[i]);
    }
    free(b->sum);
    free(b->pairs);
    free(b);
}

static size_t cpu_bytes(const psf_model *m) {
    const psf *p = m->host;
    const size_t slot = scalar_count(p) * sizeof(double) + pixel_count(p) * sizeof(float);
    return sizeof(backend_imager) + (psf_sep_count(p) + psf_pairwise_count(p)) * sizeof(double) +
           PSF_SLOTS * slot;
}

static const backend_psf cpu;

static status cpu_open(backend_ctx *ctx, const psf_model *m, backend_imager **out) {
    (void)ctx;
    backend_imager *b = NULL;
    status st;
    *out = NULL;
    TRY(ALLOC(b, 1, "PSFs"));
    b->head = (backend_imager_head){&cpu, m->nact, m->lattice > 0, m->nsample > 0};
    b->p = m->host;
    TRY(ALLOC(b->sum, psf_sep_count(b->p), "stationary average"));
    TRY(ALLOC(b->pairs, psf_pairwise_count(b->p), "pairs of points"));
    for (int i = 0; i < PSF_SLOTS; i++) {
        TRY(ALLOC(b->scalars[i], scalar_count(b->p), "results"));
        TRY(ALLOC(b->images[i], pixel_count(b->p), "PSFs of a target"));
    }
    *out = b;
    b = NULL;
done:
    cpu_close(b);
    return st;
}

static status cpu_load(backend_imager *b, const psf_fit_model *f) {
    b->fit = f != NULL ? f->host : NULL;
    return MOAO_OK;
}

static status cpu_average(backend_imager *b, const double *y, int64_t ldy, bool both, double *sum) {
    memset(sum, 0, psf_sep_count(b->p) * sizeof *sum);
    psf_accumulate(b->p, 0, (size_t)b->p->nact, y, (size_t)ldy, both, sum);
    return MOAO_OK;
}

static status cpu_aim(backend_imager *b, const double dir[2]) {
    psf_aim(b->p, dir);
    return MOAO_OK;
}

static status cpu_pairs(backend_imager *b, const double *y, int64_t ldy, const double *ct,
                        int64_t ldct, double *sum, float *pairwise) {
    memset(sum, 0, psf_sep_count(b->p) * sizeof *sum);
    double *pairs = pairwise != NULL ? b->pairs : NULL;
    if (pairs != NULL)
        memset(pairs, 0, psf_pairwise_count(b->p) * sizeof *pairs);
    const status st = psf_accumulate_phase(b->p, 0, (size_t)b->p->ncommand, y, (size_t)ldy, ct,
                                           (size_t)ldct, sum, pairs);
    if (pairs != NULL)
        psf_round_pairwise(b->p, pairs, pairwise);
    return st;
}

static status cpu_compute(backend_imager *b, int slot, const double *sum, const double *common,
                          const float *pairwise) {
    psf_use_pairwise(b->p, pairwise, sum);
    for (size_t i = 0; i < psf_sep_count(b->p); i++)
        b->sum[i] = sum[i] + (common != NULL ? common[i] : 0);
    return psf_compute_all(b->p, b->sum, b->fit, b->scalars[slot], b->images[slot]);
}

static status cpu_logs(backend_imager *b, const double *sum, const float *pairwise, double *logs) {
    psf_logs(b->p, pairwise, sum, logs);
    return MOAO_OK;
}

static status cpu_images(backend_imager *b, int slot, const double *sum, const double *common,
                         const double *logs) {
    psf_use_logs(b->p, logs);
    for (size_t i = 0; i < psf_sep_count(b->p); i++)
        b->sum[i] = sum[i] + (common != NULL ? common[i] : 0);
    return psf_compute_all(b->p, b->sum, b->fit, b->scalars[slot], b->images[slot]);
}

static status cpu_collect(backend_imager *b, int slot, double *scalars, float *images) {
    memcpy(scalars, b->scalars[slot], scalar_count(b->p) * sizeof *scalars);
    if (images != NULL)
        memcpy(images, b->images[slot], pixel_count(b->p) * sizeof *images);
    return MOAO_OK;
}

static const backend_psf cpu = {
    .size = sizeof(backend_psf),
    .bytes = cpu_bytes,
    .open = cpu_open,
    .close = cpu_close,
    .load = cpu_load,
    .average = cpu_average,
    .aim = cpu_aim,
    .pairs = cpu_pairs,
    .compute = cpu_compute,
    .logs = cpu_logs,
    .images = cpu_images,
    .collect = cpu_collect,
};

const backend_psf *psf_backend(const backend *be) {
    static backend_psf of_cpu, of_plugin;
    backend_psf *checked = be->psf != NULL ? &of_plugin : &of_cpu;
    if (checked->size == 0) /* there is one plugin at most */
        checked_psf(be->psf != NULL ? be->psf : &cpu, checked);
    return checked;
}

void psf_model_init(psf *p, psf_model *m) {
    *m = (psf_model){.n = p->n,
                     .k = p->k,
                     .N = p->N,
                     .P = p->P,
                     .reach = p->reach,
                     .crop = p->crop,
                     .pixel = p->pixel,
                     .lambda_ref = LAMBDA_REF,
                     .nlambda = p->nmono, /* of bands, images are made on the host alone */
                     .nbox = p->nbox,
                     .lambda = p->mono,
                     .box = p->box,
                     .nact = p->nmirror > 0 ? p->ncommand : p->nact,
                     .place = p->place,
                     .weight = p->weight,
                     .norm = p->norm,
                     .kernel = p->kernel,
                     .ntel = p->ntel,
                     .tel = p->tel,
                     .vmax = p->vmax,
                     .lattice = p->lattice,
                     .nsep = p->nsep,
                     .np = p->np,
                     .shift = p->shift,
                     .taps = PHASE_TAPS,
                     .point_row = p->point_row,
                     .point_column = p->point_column,
                     .nsample = p->nsample,
                     .always = p->average == PSF_AVERAGE_EXACT,
                     .sample = p->sample,
                     .sample_of = p->sample_of,
                     .sample_row = p->sample_row,
                     .sampled = p->sampled,
                     .ring_of = p->ring_of,
                     .rings = PAIRWISE_RINGS(p->nsep),
                     .if_reach = p->if_reach,
                     .if_y = p->if_y,
                     .if_x = {p->if_x[0], p->if_x[1]},
                     .tap_x = {p->tap_x[0], p->tap_x[1]},
                     .tap_y = p->tap_y,
                     .tap_wx = {p->tap_wx[0], p->tap_wx[1]},
                     .tap_wy = p->tap_wy,
                     .nmirror = p->nmirror,
                     .mirror = p->model,
                     .corner = -0.5 * p->n * p->pitch,
                     .step = p->h,
                     .host = p};
}

void psf_fit_model_init(const psf_fit *f, psf_fit_model *m) {
    *m = (psf_fit_model){.variance = f->variance, .d = f->d, .host = f};
}
