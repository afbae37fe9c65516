#include "device_formula.h"
#include "psf_phase.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int round_up(int n, int m) {
    return (n + m - 1) / m * m;
}

int psf_even_size(int n) {
    for (int m = n + n % 2;; m += 2) {
        int r = m;
        for (int f = 2; f <= 7; f += f == 2 ? 1 : 2)
            while (r % f == 0)
                r /= f;
        if (r == 1)
            return m;
    }
}

/* Sizes that follow from the mirror and the options. */
static void set_sizes(psf *p, const sys *s, const psf_opts *o) {
    p->n = s->dm.nssp;
    p->k = o->oversampling;
    p->pitch = s->dm.pitch;
    p->pixel = p->pitch / p->k;
    p->x0 = p->pitch / sqrt(-2 * log(s->dm.coupling));
    p->nact = s->dm.nact;
    p->ncommand = sys_commands(s);
    p->nsep = 2 * p->n + 1;
    if (o->phase) {
        p->lattice = phase_lattice(s, o);
        p->shift = !o->square;
        p->h = p->pitch * p->n / p->lattice;
        p->np = phase_count(p->lattice, s, p->shift);
        p->nsep = 2 * p->lattice + 1;
        p->average = o->average;
        p->thinning = phase_thinning(p->np, o->all_pairs);
        if (o->average != PSF_AVERAGE_MEAN)
            p->nsample = phase_samples(p->lattice, s, p->shift, p->thinning);
    }
    p->P = p->n * p->k;
    p->mapped = o->map != NULL;
    p->nerrors = psf_has_errors(o) ? (size_t)p->P * (size_t)p->P : 0;
    /* The influence function is taken as wide as it exceeds 1/1000 of its peak. */
    double width = 2 * p->x0 * sqrt(2 * log(1000)) / p->pixel;
    double least = fmax(o->span * p->P, 2.0 * p->P + width);
    p->N = psf_even_size((int)ceil(least * (1 - 1e-12)));
    p->crop = o->crop == 0 || o->crop > p->N ? p->N : o->crop;
    p->ld = round_up(p->P, 8);
    p->nfreq = round_up(p->N / 2 + 1, PSF_BATCH);
    p->stride = round_up(p->N, 8);
    /* exp(-rho^2/(4 x0^2)) < 1e-17 beyond. */
    p->reach = (int)ceil(2 * p->x0 * sqrt(17 * log(10)) / p->pixel);
    p->nlambda = o->nlambda;
    p->nbox = o->nbox;
    psf_band_sizes(p, o);
    p->ntel = telescope_planes(p, s);
}

typedef struct {
    void **p;
    size_t count, size;
} array;

#define NARRAY 52

/* Every array of a psf, so that what is allocated and what psf_bytes promises cannot differ. */
static void list_arrays(psf *p, array list[NARRAY]) {
    size_t P = (size_t)p->P, nsep = (size_t)p->nsep, rows = (size_t)p->n + 2;
    const bool phase = p->lattice > 0;
    size_t lattice = phase ? (size_t)(p->lattice) : 0, points = (size_t)p->np;
    const size_t sample = (size_t)p->nsample;
    size_t side = (size_t)p->n + 1, line = phase ? nsep + PHASE_TAPS : nsep;
    size_t grid = phase ? P : 0, taps = grid * PHASE_TAPS;
    const size_t map = p->mapped ? (size_t)p->nmono * P * (2 * P - 1) : 0;
    const size_t mono = (size_t)p->nmono, block = p->nband > 0 ? PSF_BLOCK : 0;
    size_t nact = (size_t)p->nact, stride = (size_t)p->stride, ld = (size_t)p->ld;
    const array all[NARRAY] = {
        {(void **)&p->lambda, (size_t)p->nlambda, sizeof(double)},
        {(void **)&p->box, (size_t)p->nbox, sizeof(double)},
        {(void **)&p->first, (size_t)p->nlambda + 1, sizeof(int)},
        {(void **)&p->mono, mono, sizeof(double)},
        {(void **)&p->share, mono, sizeof(double)},
        {(void **)&p->light, mono, sizeof(double)},
        {(void **)&p->band_even, p->nband, sizeof(double)},
        {(void **)&p->band_odd, p->nband, sizeof(double)},
        {(void **)&p->band_work, 4 * P * block, sizeof(double)},
        {(void **)&p->band_image, block * block, sizeof(double)},
        {(void **)&p->place, nact, sizeof(int)},
        {(void **)&p->weight, nact, sizeof(double)},
        {(void **)&p->run, nact, sizeof(psf_run)},
        {(void **)&p->row_run, rows, sizeof(int)},
        {(void **)&p->row_act, rows, sizeof(int)},
        {(void **)&p->norm, nsep * nsep, sizeof(double)},
        {(void **)&p->kernel, 2 * (size_t)p->reach + 1, sizeof(double)},
        {(void **)&p->errors, p->nerrors, sizeof(double)},
        {(void **)&p->map_even, map, sizeof(double)},
        {(void **)&p->map_odd, map, sizeof(double)},
        {(void **)&p->tel, (size_t)p->ntel * P * (2 * P - 1), sizeof(double)},
        {(void **)&p->vmax, P, sizeof(int)},
        {(void **)&p->mean, line * line, sizeof(double)},
        {(void **)&p->part, P * line, sizeof(double)},
        {(void **)&p->otf, P * stride, sizeof(double)},
        {(void **)&p->even, P * ld, sizeof(double)},
        {(void **)&p->odd, P * ld, sizeof(double)},
        {(void **)&p->trig, P * 8 * PSF_NDIR, sizeof(double)},
        {(void **)&p->rows, ((size_t)p->N / 2 + 1) * (size_t)p->nfreq, sizeof(fftw_complex)},
        {(void **)&p->image, (size_t)p->nfreq * stride, sizeof(double)},
        {(void **)&p->px, points, sizeof(double)},
        {(void **)&p->py, points, sizeof(double)},
        {(void **)&p->point_row, lattice + 1, sizeof(int)},
        {(void **)&p->point_column, points, sizeof(int)},
        {(void **)&p->sample, sample, sizeof(int)},
        {(void **)&p->sample_row, sample > 0 ? lattice + 1 : 0, sizeof(int)},
        {(void **)&p->sample_of, sample > 0 ? points : 0, sizeof(int)},
        {(void **)&p->run_end, sample > 0 ? points : 0, sizeof(int)},
        {(void **)&p->ring_of, sample > 0 ? nsep * nsep : 0, sizeof(int)},
        {(void **)&p->sampled, sample > 0 ? nsep * nsep : 0, sizeof(double)},
        {(void **)&p->pair_mean, sample > 0 ? nsep * nsep : 0, sizeof(double)},
        {(void **)&p->excess, sample > 0 ? nsep * nsep : 0, sizeof(double)},
        {(void **)&p->ring, sample > 0 ? 2 * PAIRWISE_RINGS(nsep) : 0, sizeof(double)},
        {(void **)&p->if_y, lattice * side, sizeof(double)},
        {(void **)&p->if_x[0], lattice * side, sizeof(double)},
        {(void **)&p->if_x[1], lattice * side, sizeof(double)},
        {(void **)&p->tap_x[0], grid, sizeof(int)},
        {(void **)&p->tap_x[1], grid, sizeof(int)},
        {(void **)&p->tap_wx[0], taps, sizeof(double)},
        {(void **)&p->tap_wx[1], taps, sizeof(double)},
        {(void **)&p->tap_y, 2 * grid, sizeof(int)},
        {(void **)&p->tap_wy, 2 * taps, sizeof(double)},
    };
    memcpy(list, all, sizeof all);
}

size_t psf_bytes(const sys *s, const psf_opts *o) {
    psf p = {0};
    array list[NARRAY];
    set_sizes(&p, s, o);
    list_arrays(&p, list);
    size_t sum = sizeof(psf) + phase_mirror_bytes(s, o);
    for (int i = 0; i < NARRAY; i++)
        sum += (list[i].count * list[i].size + 63) / 64 * 64;
    return sum + telescope_bytes(&p, s);
}

size_t psf_device_bytes(const sys *s, const psf_opts *o) {
    psf p = {0};
    psf_model m;
    psf_model_mirror mirrors[s->fit.nmirror + 1];
    set_sizes(&p, s, o);
    psf_model_init(&p, &m);
    for (int i = 0; i < s->fit.nmirror && o->phase; i++)
        mirrors[i] = phase_mirror_model(&s->fit.mirrors[i]);
    if (o->phase && s->fit.nmirror > 0) {
        m.nmirror = s->fit.nmirror;
        m.mirror = mirrors;
        m.nact = sys_commands(s);
    }
    return psf_model_bytes(&m);
}

size_t psf_fit_bytes(const sys *s, const psf_opts *o) {
    size_t P = (size_t)s->dm.nssp * (size_t)o->oversampling;
    return sizeof(psf_fit) + P * P * sizeof(double);
}

/* FFTW_ESTIMATE: the algorithm must not depend on timings, so that every process gets the same
 * bits. The plan of the fitting error runs on arrays of psf_fit_init; here the image serves in its
 * place. */
static status plans_init(psf *p) {
    int N = p->N, half = N / 2 + 1;
    const unsigned flags = FFTW_ESTIMATE | FFTW_PRESERVE_INPUT;
    p->along_y = fftw_plan_dft_r2c_1d(N, p->otf, p->rows, flags);
    p->along_x = fftw_plan_many_dft_c2r(1, &N, PSF_BATCH, p->rows, NULL, p->nfreq, 1, p->image,
                                        NULL, 1, p->stride, flags);
    p->spectrum =
        fftw_plan_r2r_2d(half, half, p->image, p->image, FFTW_REDFT00, FFTW_REDFT00, FFTW_ESTIMATE);
    if (!p->along_y || !p->along_x || !p->spectrum)
        return status_fail(MOAO_INTERNAL, "FFTW cannot plan transforms of %d points", N);
    return MOAO_OK;
}

static status check_options(const sys *s, const psf_opts *o) {
    if (o->oversampling < 1 || !(o->span > 0) || o->crop < 0 || o->crop % 2 != 0)
        return status_fail(MOAO_INPUT,
                           "PSF grid: oversampling %d, span %g, crop %d: expected >= 1, > 0, even",
                           o->oversampling, o->span, o->crop);
    if (s->dm.nssp < 1 || s->dm.nact < 1 || !(s->dm.coupling > 0 && s->dm.coupling < 1))
        return status_fail(MOAO_INPUT, "PSF: a mirror of %d actuators with coupling %g", s->dm.nact,
                           s->dm.coupling);
    if (o->span * s->dm.nssp * o->oversampling > 32768)
        return status_fail(MOAO_INPUT, "PSF grid of %g pixels: reduce the span or the oversampling",
                           o->span * s->dm.nssp * o->oversampling);
    return MOAO_OK;
}

status psf_sizes_of(const sys *s, const psf_opts *o, psf_sizes *sizes) {
    psf p = {0};
    status st = check_options(s, o);
    if (st != MOAO_OK)
        return st;
    set_sizes(&p, s, o);
    *sizes = (psf_sizes){.grid = p.N, .crop = p.crop, .pixel = p.pixel};
    return MOAO_OK;
}

status psf_init(const sys *s, const psf_opts *o, psf **out) {
    status st = MOAO_OK;
    psf *p = NULL;
    array list[NARRAY];
    *out = NULL;
    TRY(check_options(s, o));
    TRY(ALLOC(p, 1, "PSF"));
    set_sizes(p, s, o);
    list_arrays(p, list);
    for (int i = 0; i < NARRAY; i++)
        TRY(mem_alloc(list[i].p, list[i].count, list[i].size, "PSF grid"));
    p->proj = p->trig + (size_t)p->P * 4 * PSF_NDIR;
    for (int i = 0; i < p->nlambda; i++)
        p->lambda[i] = o->lambda[i];
    for (int i = 0; i < p->nbox; i++)
        p->box[i] = o->box[i];
    psf_band_init(p, o);
    for (int i = -p->reach; i <= p->reach; i++) {
        double t = i * p->pixel / (2 * p->x0);
        p->kernel[i + p->reach] = sqrt(M_PI) * p->x0 / p->pitch * exp(-t * t);
    }
    TRY(psf_errors_init(p, s, o));
    TRY(telescope_init(p, s, o->subaperture));
    TRY(psf_map_init(p, o->map, s));
    TRY(plans_init(p));
    TRY(psf_average_init(p, s, o->weighted));
    if (o->phase)
        TRY(phase_init(p, s));
    *out = p;
    p = NULL;
done:
    psf_free(p);
    return st;
}

void psf_free(psf *p) {
    if (p == NULL)
        return;
    array list[NARRAY];
    list_arrays(p, list);
    for (int i = 0; i < NARRAY; i++)
        free(*list[i].p);
    phase_mirrors_free(p);
    fftw_destroy_plan(p->along_y);
    fftw_destroy_plan(p->along_x);
    fftw_destroy_plan(p->spectrum);
    free(p);
}

int psf_grid_size(const psf *p) {
    return p->N;
}

int psf_crop_size(const psf *p) {
    return p->crop;
}

double psf_grid_pixel(const psf *p) {
    return p->pixel;
}

bool psf_on_host(const psf *p) {
    return p->mapped || p->nband > 0;
}

int psf_images(const psf *p) {
    return p->nlambda;
}

int psf_wavelengths(const psf *p) {
    return p->nmono;
}

int psf_boxes(const psf *p) {
    return p->nbox;
}

double psf_wavelength(const psf *p, int ilambda) {
    return p->lambda[ilambda];
}

int psf_image_parts(const psf *p, int ilambda, const double **lambda, const double **share) {
    *lambda = p->mono + p->first[ilambda];
    *share = p->share + p->first[ilambda];
    return p->first[ilambda + 1] - p->first[ilambda];
}

double psf_image_pixel(const psf *p, int ilambda) {
    return p->lambda[ilambda] / (p->N * p->pixel);
}

size_t psf_sep_count(const psf *p) {
    return (size_t)p->nsep * (size_t)p->nsep;
}

size_t psf_points_of(const sys *s, const psf_opts *o) {
    return o->phase ? (size_t)phase_count(phase_lattice(s, o), s, !o->square) : 0;
}

size_t psf_pairwise_count_of(const sys *s, const psf_opts *o) {
    psf p = {0};
    set_sizes(&p, s, o);
    return psf_pairwise_count(&p);
}

size_t psf_sep_count_of(const sys *s, const psf_opts *o) {
    psf p = {0};
    set_sizes(&p, s, o);
    return psf_sep_count(&p);
}

size_t psf_kept_count_of(const sys *s, const psf_opts *o) {
    psf p = {0};
    set_sizes(&p, s, o);
    return (psf_sep_count(&p) + 1) / 2 * psf_kept_planes(&p);
}
