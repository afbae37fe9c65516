/* Point-spread functions on a GPU: memory, plans of cuFFT, and the table of operations. Everything
 * runs in the context's stream; results travel to pinned memory of their slot, and an event tells
 * when they are there. */
#include "backend/families.h"
#include "gpu/core/arena.cuh"
#include "gpu/core/common.cuh"
#include "psf.cuh"
#include "psf/device_formula.h"
#include "psf_gpu.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FFT_TRY(call)                                                                              \
    do {                                                                                           \
        cufftResult e_ = (call);                                                                   \
        if (e_ != CUFFT_SUCCESS)                                                                   \
            return status_fail(e_ == CUFFT_ALLOC_FAILED ? MOAO_MEMORY : MOAO_INTERNAL,             \
                               "cuFFT: error %d (%s)", (int)e_, #call);                            \
    } while (0)

struct slot {
    double *scalars; /* pinned, the images behind them */
    float *images;
    cudaEvent_t ready;
};

struct backend_imager {
    backend_imager_head head;
    backend_ctx *ctx;
    gpu_psf d;
    char *device;
    const int *point_row; /* the model's */
    double *lambda;       /* [nlambda] */
    double *fit;          /* [P][P] pinned */
    cudaEvent_t sent;     /* the last transfer of a fitting error is over */
    cufftHandle along_y, along_x;
    bool planned_y, planned_x;
    slot slots[PSF_SLOTS];
};

static size_t scalar_count(const gpu_psf *d) {
    return (size_t)d->nlambda * (3 + d->nbox);
}

static size_t pixel_count(const gpu_psf *d) {
    return (size_t)d->nlambda * d->crop * d->crop;
}

/* ---- memory */

static void set_sizes(gpu_psf *d, const psf_model *m) {
    d->n = m->n;
    d->side = m->n + 1;
    d->nsep = m->nsep;
    d->np = m->np;
    d->lattice = m->lattice;
    d->taps = m->lattice > 0 ? m->taps : 0;
    d->wide = m->nsep + d->taps;
    d->if_reach = m->if_reach;
    d->nsample = m->nsample;
    d->rings = m->rings;
    d->always = m->always;
    d->k = m->k;
    d->N = m->N;
    d->P = m->P;
    d->ntel = m->ntel;
    d->shift = m->shift;
    d->reach = m->reach;
    d->crop = m->crop;
    d->half = m->N / 2 + 1;
    d->nlambda = m->nlambda;
    d->nbox = m->nbox;
    d->nact = m->nact;
    d->nmirror = m->nmirror > 0 ? m->nmirror : 1;
    d->corner = m->corner;
    d->height = m->step;
}

/* A table of n elements in both memories, filled from `from` where there is a host side. */
template <class T> static T *table(gpu_arena *r, size_t n, const T *from, T **host) {
    T *to, *device = gpu_take(r, n, &to);
    if (to && from)
        memcpy(to, from, n * sizeof(T));
    if (host)
        *host = to;
    return device;
}

/* Where actuators of one of several mirrors are. */
static void fill_mirror_places(const psf_model_mirror *m, int *at) {
    const int side = m->n + 1;
    for (int i = 0; i < side * side; i++)
        at[i] = -1;
    for (int a = 0; a < m->nact; a++)
        at[m->place[a]] = a;
}

/* Mirrors, and room for their factors in the direction of a target. */
static void lay_out_mirrors(gpu_psf *d, const psf_model *m, gpu_arena *r, bool tables) {
    const size_t s = d->lattice;
    for (int i = 0; i < m->nmirror; i++) {
        const psf_model_mirror *from = &m->mirror[i];
        gpu_psf_mirror *to = &d->mirror[i];
        const size_t side = from->n + 1;
        int *at;
        if (tables) {
            *to = gpu_psf_mirror{(int)side, from->nact, from->first, from->reach, false};
            to->pitch = from->pitch, to->x0 = from->x0, to->altitude = from->altitude;
            to->at = table(r, side * side, (int *)NULL, &at);
            if (r->host)
                fill_mirror_places(from, at);
            continue;
        }
        to->if_y = gpu_take(r, s * side, (double **)NULL);
        for (double *&factor : to->if_x)
            factor = gpu_take(r, s * side, (double **)NULL);
    }
}

/* Where actuators are: index by place, and the first of each row. */
static void fill_places(const psf_model *m, int *at, int *row) {
    const int side = m->n + 1;
    for (int i = 0; i < side * side; i++)
        at[i] = -1;
    for (int y = 0; y <= side; y++)
        row[y] = m->nact;
    for (int a = m->nact - 1; a >= 0; a--) {
        at[m->place[a]] = a;
        for (int y = m->place[a] / side; y >= 0 && row[y] > a; y--)
            row[y] = a;
    }
}

/* Which point stands at each place of the lattice. */
static void fill_points(const psf_model *m, int *point) {
    const int s = m->lattice;
    for (int i = 0; i < s * s; i++)
        point[i] = -1;
    for (int j = 0; j < s; j++)
        for (int a = m->point_row[j]; a < m->point_row[j + 1]; a++)
            point[j * s + m->point_column[a]] = a;
}

/* Tables and work of the residual phase; nothing where it is not wanted. */
static void lay_out_points(gpu_psf *d, const psf_model *m, gpu_arena *r, bool tables) {
    const size_t s = d->lattice, side = d->side, most = psf_widest(m),
                 P = d->lattice > 0 ? d->P : 0, np = d->np;
    int *point;
    double **const none = NULL;
    if (!tables) {
        const size_t v = d->lattice > 0 ? d->nact : 0;
        d->lines = gpu_take(r, PSF_ROWS * most * v, none);
        d->g = gpu_take(r, PSF_ROWS * s * v, none);
        d->z = gpu_take(r, PSF_ROWS * s * np, none);
        d->totals = gpu_take(r, 2, none);
        const size_t any = d->nsample > 0, sep = any * d->nsep * d->nsep, nl = d->nlambda;
        d->to = gpu_take(r, (size_t)d->nsample * np, (float **)NULL);
        d->pair_mean = gpu_take(r, sep, none);
        d->excess = gpu_take(r, nl * sep, none);
        d->log_c = gpu_take(r, nl * sep, none);
        d->ring = gpu_take(r, any * 2 * nl * d->rings, none);
        d->far = gpu_take(r, any * nl, none);
        d->gain = gpu_take(r, any * nl * d->P * (2 * d->P - 1), none);
        return;
    }
    d->point_row = table(r, s > 0 ? s + 1 : 0, m->point_row, (int **)NULL);
    d->point_column = table(r, np, m->point_column, (int **)NULL);
    d->point = table(r, s * s, (int *)NULL, &point);
    double *if_x[2], *const if_y = table(r, s * side, m->if_y, (double **)NULL);
    for (int odd = 0; odd < 2; odd++) {
        if_x[odd] = table(r, s * side, m->if_x[odd], (double **)NULL);
        d->tap_x[odd] = table(r, P, m->tap_x[odd], (int **)NULL);
        d->tap_wx[odd] = table(r, P * d->taps, m->tap_wx[odd], (double **)NULL);
    }
    d->tap_y = table(r, P > 0 ? 2 * P - 1 : 0, m->tap_y, (int **)NULL);
    d->tap_wy = table(r, P > 0 ? (2 * P - 1) * d->taps : 0, m->tap_wy, (double **)NULL);
    const size_t any = d->nsample > 0, sep = any * d->nsep * d->nsep;
    d->sample = table(r, d->nsample, m->sample, (int **)NULL);
    d->sample_of = table(r, any * np, m->sample_of, (int **)NULL);
    d->sample_row = table(r, any * (s + 1), m->sample_row, (int **)NULL);
    d->ring_of = table(r, sep, m->ring_of, (int **)NULL);
    d->sampled = table(r, sep, m->sampled, (double **)NULL);
    if (r->host && d->lattice > 0)
        fill_points(m, point);
    if (m->nmirror == 0) {
        d->mirror[0] = gpu_psf_mirror{d->side, d->nact, 0, d->if_reach, true, d->at};
        d->mirror[0].if_y = if_y;
        d->mirror[0].if_x[0] = if_x[0], d->mirror[0].if_x[1] = if_x[1];
    }
}

/* Directions, and factors of each wavelength; step: sides of the boxes in cycles per pixel. */
static void fill_factors(const psf_model *m, double *direction, gpu_psf_wave *wave, double *step,
                         double *sinc) {
    for (int i = 0; i < PSF_NDIR; i++) {
        direction[i] = cos(PSF_PI * i / PSF_NDIR);
        direction[PSF_NDIR + i] = sin(PSF_PI * i / PSF_NDIR);
    }
    for (int l = 0; l < m->nlambda; l++) {
        const double lambda = m->lambda[l];
        wave[l] = gpu_psf_wave{pow(2 * PSF_PI / lambda, 2), pow(m->lambda_ref / lambda, 2),
                               lambda / (m->N * m->pixel)};
        for (int b = 0; b < m->nbox; b++) {
            const double s = m->box[b] * m->pixel / lambda;
            step[l * m->nbox + b] = s;
            for (int v = 0; v < m->P; v++)
                sinc[((size_t)l * m->nbox + b) * m->P + v] = psf_sinc(s * v);
        }
    }
}

/* Everything on the device: the tables, sent from the mirror, then what is computed there. Returns
 * the bytes of the tables. */
static size_t lay_out(gpu_psf *d, const psf_model *m, gpu_arena *r) {
    const size_t P = d->P, nsep = d->nsep, side = d->side, nl = d->nlambda, half = d->half;
    int *at, *row;
    double *direction, *step, *sinc;
    gpu_psf_wave *wave;
    const size_t own = m->nmirror > 0 ? 0 : d->nact; /* of the mirror on the pupil, averaged */
    d->place = table(r, own, m->place, (int **)NULL);
    d->at = table(r, side * side, (int *)NULL, &at);
    d->row = table(r, side + 1, (int *)NULL, &row);
    d->vmax = table(r, P, m->vmax, (int **)NULL);
    d->weight = table(r, own, m->weight, (double **)NULL);
    d->norm = table(r, nsep * nsep, m->norm, (double **)NULL);
    d->kernel = table(r, 2 * d->reach + 1, m->kernel, (double **)NULL);
    d->tel = table(r, (size_t)d->ntel * P * (2 * P - 1), m->tel, (double **)NULL);
    d->direction = table(r, 2 * PSF_NDIR, (double *)NULL, &direction);
    d->wave = table(r, nl, (gpu_psf_wave *)NULL, &wave);
    d->step = table(r, nl * d->nbox, (double *)NULL, &step);
    d->sinc = table(r, nl * d->nbox * P, (double *)NULL, &sinc);
    lay_out_points(d, m, r, true);
    lay_out_mirrors(d, m, r, true);
    if (r->host) {
        if (own > 0)
            fill_places(m, at, row);
        fill_factors(m, direction, wave, step, sinc);
    }
    const size_t tables = r->used;
    r->host = NULL;
    double **const none = NULL;
    d->fit = gpu_take(r, P * P, none);
    const size_t wide = d->wide;
    d->pairs = gpu_take(r, d->lattice > 0 ? 0 : side * side * nsep, none);
    d->mean = gpu_take(r, wide * wide, none);
    d->part = gpu_take(r, P * wide, none);
    lay_out_points(d, m, r, false);
    lay_out_mirrors(d, m, r, false);
    d->cov = gpu_take(r, P * (2 * P - 1), none);
    d->otf = gpu_take(r, nl * P * d->N, none);
    d->even = gpu_take(r, nl * P * P, none);
    d->odd = gpu_take(r, nl * P * P, none);
    d->sums = gpu_take(r, nl * (1 + d->nbox) * P, none);
    d->rows = gpu_take(r, nl * half * half, (cufftDoubleComplex **)NULL);
    d->image = gpu_take(r, nl * half * d->N, none);
    d->radius = gpu_take(r, nl * PSF_NDIR, none);
    d->scalars = gpu_take(r, scalar_count(d), none);
    d->images = gpu_take(r, pixel_count(d), (float **)NULL);
    return tables;
}

static status device_memory(backend_imager *b, const psf_model *m) {
    gpu_arena count = {NULL, NULL, 0};
    const size_t tables = lay_out(&b->d, m, &count);
    if (count.used > psf_device_arrays(m))
        return status_fail(MOAO_INTERNAL, "PSFs take %zu bytes, more than is told of them",
                           count.used);
    if (cudaMalloc((void **)&b->device, count.used) != cudaSuccess) {
        cudaGetLastError();
        return status_fail(MOAO_MEMORY, "the GPU has no room for %zu bytes of PSFs", count.used);
    }
    char *mirror = (char *)malloc(tables);
    if (!mirror)
        return status_fail(MOAO_MEMORY, "no memory for tables of PSFs");
    gpu_arena r = {b->device, mirror, 0};
    lay_out(&b->d, m, &r);
    const cudaError_t e = cudaMemcpy(b->device, mirror, tables, cudaMemcpyHostToDevice);
    free(mirror);
    CUDA_TRY(e);
    return MOAO_OK;
}

static status host_memory(backend_imager *b, const psf_model *m) {
    const gpu_psf *d = &b->d;
    b->lambda = (double *)malloc(d->nlambda * sizeof(double));
    if (!b->lambda)
        return status_fail(MOAO_MEMORY, "no memory for wavelengths");
    memcpy(b->lambda, m->lambda, d->nlambda * sizeof(double));
    CUDA_TRY(cudaMallocHost((void **)&b->fit, (size_t)d->P * d->P * sizeof(double)));
    CUDA_TRY(cudaEventCreateWithFlags(&b->sent, cudaEventDisableTiming));
    for (slot &s : b->slots) {
        const size_t scalars = scalar_count(d) * sizeof(double);
        CUDA_TRY(cudaMallocHost((void **)&s.scalars, scalars + pixel_count(d) * sizeof(float)));
        s.images = (float *)((char *)s.scalars + scalars);
        CUDA_TRY(cudaEventCreateWithFlags(&s.ready, cudaEventDisableTiming));
    }
    return MOAO_OK;
}

/* ---- transforms */

/* Rows of the OTF along y, real to half a spectrum; then columns of those along x, from half a
 * spectrum to real, so that an image's row is contiguous. One wavelength at a time. */
static status make_plans(backend_imager *b) {
    gpu_psf *d = &b->d;
    cudaStream_t stream = b->ctx->main.stream;
    FFT_TRY(cufftCreate(&b->along_y));
    b->planned_y = true;
    FFT_TRY(cufftCreate(&b->along_x));
    b->planned_x = true;
    size_t work;
    FFT_TRY(cufftMakePlanMany(b->along_y, 1, &d->N, &d->N, 1, d->N, &d->half, 1, d->half, CUFFT_D2Z,
                              d->P, &work));
    FFT_TRY(cufftMakePlanMany(b->along_x, 1, &d->N, &d->half, d->half, 1, &d->N, 1, d->N, CUFFT_Z2D,
                              d->half, &work));
    FFT_TRY(cufftSetStream(b->along_y, stream));
    FFT_TRY(cufftSetStream(b->along_x, stream));
    return MOAO_OK;
}

static status transform(backend_imager *b) {
    const gpu_psf *d = &b->d;
    const size_t otf = (size_t)d->P * d->N, rows = (size_t)d->half * d->half;
    const size_t made = (size_t)d->P * d->half; /* the transform along x may overwrite the rest */
    for (int l = 0; l < d->nlambda; l++) {
        cufftDoubleComplex *at = d->rows + l * rows;
        CUDA_TRY(cudaMemsetAsync(at + made, 0, (rows - made) * sizeof *at, b->ctx->main.stream));
        FFT_TRY(cufftExecD2Z(b->along_y, d->otf + l * otf, at));
        FFT_TRY(cufftExecZ2D(b->along_x, at, d->image + l * (size_t)d->half * d->N));
    }
    return MOAO_OK;
}

/* ---- the table */

static void close_imager(backend_imager *b) {
    if (!b)
        return;
    gpu_device_guard guard(b->ctx->device);
    cudaStreamSynchronize(b->ctx->main.stream);
    if (b->planned_y)
        cufftDestroy(b->along_y);
    if (b->planned_x)
        cufftDestroy(b->along_x);
    for (slot &s : b->slots) {
        cudaFreeHost(s.scalars);
        if (s.ready)
            cudaEventDestroy(s.ready);
    }
    if (b->sent)
        cudaEventDestroy(b->sent);
    cudaFreeHost(b->fit);
    cudaFree(b->device);
    free(b->d.mirror);
    free(b->lambda);
    free(b);
}

static status fill_imager(backend_imager *b, const psf_model *m) {
    set_sizes(&b->d, m);
    b->d.mirror = (gpu_psf_mirror *)calloc(b->d.nmirror, sizeof *b->d.mirror);
    if (!b->d.mirror)
        return status_fail(MOAO_MEMORY, "no memory for mirrors");
    b->point_row = m->point_row;
    if (gpu_psf_shared(&b->d) + 1024 > gpu_shared_most())
        return status_fail(MOAO_INPUT,
                           "PSF grid of %d pixels: too large for a GPU; reduce the oversampling",
                           m->N);
    GPU_TRY(device_memory(b, m));
    GPU_TRY(host_memory(b, m));
    GPU_TRY(gpu_psf_prepare(&b->d));
    GPU_TRY(make_plans(b));
    /* the library loads its kernels at their first call */
    CUDA_TRY(cudaMemsetAsync(b->d.otf, 0, (size_t)m->nlambda * m->P * m->N * sizeof(double),
                             b->ctx->main.stream));
    GPU_TRY(transform(b));
    const double axis[2] = {0, 0};
    if (m->lattice > 0)
        GPU_TRY(gpu_psf_aim(b->ctx->main.stream, &b->d, axis));
    CUDA_TRY(cudaStreamSynchronize(b->ctx->main.stream));
    return MOAO_OK;
}

static status open_imager(backend_ctx *ctx, const psf_model *m, backend_imager **out) {
    gpu_device_guard guard(ctx->device);
    *out = NULL;
    backend_imager *b = (backend_imager *)calloc(1, sizeof *b);
    if (!b)
        return status_fail(MOAO_MEMORY, "no memory for PSFs");
    b->head = backend_imager_head{&backend_psf_gpu, m->nact, m->lattice > 0, m->nsample > 0};
    b->ctx = ctx;
    status st = fill_imager(b, m);
    if (st != MOAO_OK)
        close_imager(b);
    else
        *out = b;
    return st;
}

static status load(backend_imager *b, const psf_fit_model *f) {
    gpu_device_guard guard(b->ctx->device);
    const size_t bytes = (size_t)b->d.P * b->d.P * sizeof(double);
    b->d.fitted = f != NULL;
    if (!f)
        return MOAO_OK;
    b->d.variance = f->variance;
    CUDA_TRY(cudaEventSynchronize(b->sent));
    memcpy(b->fit, f->d, bytes);
    CUDA_TRY(cudaMemcpyAsync(b->d.fit, b->fit, bytes, cudaMemcpyHostToDevice, b->ctx->main.stream));
    CUDA_TRY(cudaEventRecord(b->sent, b->ctx->main.stream));
    return MOAO_OK;
}

static status average(backend_imager *b, const double *y, int64_t ldy, bool both, double *sum) {
    gpu_device_guard guard(b->ctx->device);
    GPU_TRY(gpu_psf_average(b->ctx->main.stream, &b->d, y, ldy, both, sum));
    return MOAO_OK;
}

static status aim(backend_imager *b, const double dir[2]) {
    gpu_device_guard guard(b->ctx->device);
    GPU_TRY(gpu_psf_aim(b->ctx->main.stream, &b->d, dir));
    return MOAO_OK;
}

static status pairs(backend_imager *b, const double *y, int64_t ldy, const double *ct, int64_t ldct,
                    double *sum, float *pairwise) {
    gpu_device_guard guard(b->ctx->device);
    GPU_TRY(
        gpu_psf_pairs(b->ctx->main.stream, &b->d, b->point_row, y, ldy, ct, ldct, sum, pairwise));
    return MOAO_OK;
}

static status make_images(backend_imager *b, int number, const double *sum, const double *common,
                          const float *pairwise, const double *logs) {
    gpu_device_guard guard(b->ctx->device);
    cudaStream_t stream = b->ctx->main.stream;
    const slot *s = &b->slots[number];
    GPU_TRY(gpu_psf_otf(stream, &b->d, sum, common, pairwise, logs));
    GPU_TRY(transform(b));
    GPU_TRY(gpu_psf_finish(stream, &b->d));
    CUDA_TRY(cudaMemcpyAsync(s->scalars, b->d.scalars, scalar_count(&b->d) * sizeof(double),
                             cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaMemcpyAsync(s->images, b->d.images, pixel_count(&b->d) * sizeof(float),
                             cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaEventRecord(s->ready, stream));
    return MOAO_OK;
}

static status compute(backend_imager *b, int number, const double *sum, const double *common,
                      const float *pairwise) {
    return make_images(b, number, sum, common, pairwise, NULL);
}

static status logs(backend_imager *b, const double *sum, const float *pairwise, double *out) {
    gpu_device_guard guard(b->ctx->device);
    GPU_TRY(gpu_psf_logs(b->ctx->main.stream, &b->d, sum, pairwise, out));
    return MOAO_OK;
}

static status images(backend_imager *b, int number, const double *sum, const double *common,
                     const double *of) {
    return make_images(b, number, sum, common, NULL, of);
}

static status collect(backend_imager *b, int number, double *scalars, float *images) {
    gpu_device_guard guard(b->ctx->device);
    const slot *s = &b->slots[number];
    CUDA_TRY(cudaEventSynchronize(s->ready));
    memcpy(scalars, s->scalars, scalar_count(&b->d) * sizeof(double));
    if (images)
        memcpy(images, s->images, pixel_count(&b->d) * sizeof(float));
    for (int l = 0; l < b->d.nlambda; l++) {
        const double *out = scalars + l * (3 + b->d.nbox);
        GPU_TRY(psf_finite(b->lambda[l], out[0], out[2]));
    }
    return MOAO_OK;
}

const backend_psf backend_psf_gpu = {
    .size = sizeof(backend_psf),
    .bytes = psf_model_bytes,
    .open = open_imager,
    .close = close_imager,
    .load = load,
    .average = average,
    .aim = aim,
    .pairs = pairs,
    .compute = compute,
    .logs = logs,
    .images = images,
    .collect = collect,
};
