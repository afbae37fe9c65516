/* Plans of block-Toeplitz products on a GPU. */
#include "toeplitz.cuh"

#include "gpu/core/arena.cuh"
#include "gpu/core/common.cuh"
#include "linalg/core/toeplitz_lattice.h"
#include "toeplitz_fp16.cuh"
#include "toeplitz_gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct backend_toeplitz_plan {
    backend_ctx *ctx;
    backend_type type;  /* of the transforms, or of the spectra before they become halves */
    bool half, tensors; /* tensors: halves, with the kernels for them */
    toeplitz_device d;
    toeplitz_middle middle;
    toeplitz_fp16 h;
    int64_t *count, *first; /* on the host */
    char *memory;
    toeplitz_pair *pairs; /* on the device */
    int *diagonals_from;
    toeplitz_diagonal *diagonals;
    double *values; /* of the diagonals: [column image][row image] up to `room` each */
    int64_t room;
};

/* Radices R >= S of two steps, N = R S with R least; 0: there are none. */
static int two_steps(int N) {
    static const int radix[] = {2, 3, 4, 5, 8, 9, 10, 12, 15, 16};
    for (int i = 0; i < 10; i++)
        for (int j = 0; j <= i; j++)
            if (radix[i] * radix[j] == N)
                return radix[i];
    return 0;
}

/* In two steps, where there is such an order; of FP16 numbers a multiple of 16, as their products
 * want it. */
static int least_order(int n, bool half) {
    for (int N = 2 * n - 1; N <= 256; N++)
        if (two_steps(N) != 0 && (!half || N % 16 == 0))
            return N;
    return toeplitz_order(n);
}

/* Whether products in FP16 have kernels of their own; else they are in single precision. */
static bool on_tensors(const toeplitz_shape *s, toeplitz_type t) {
    return t == TOEPLITZ_FP16 && toeplitz_fp16_fits(s->n, s->nimage);
}

static int order_of(const toeplitz_shape *s, toeplitz_type t) {
    return least_order(s->n, on_tensors(s, t));
}

static int order(int n) {
    return least_order(n, false);
}

static backend_type number_of(toeplitz_type t) {
    return t == TOEPLITZ_D ? BACKEND_D : BACKEND_S;
}

/* Few radices, at least two steps. */
static toeplitz_steps small_steps(int N) {
    const int radix[] = {5, 4, 3, 2};
    toeplitz_steps s = {};
    s.order = N;
    for (int i = 0; i < 4; i++)
        for (; N % radix[i] == 0; N /= radix[i])
            s.radix[s.n++] = radix[i];
    while (s.n < 2)
        s.radix[s.n++] = 1;
    return s;
}

static toeplitz_steps steps_of(int N) {
    const int R = two_steps(N);
    toeplitz_steps s = small_steps(N);
    if (R != 0)
        s.n = 2, s.radix[0] = R, s.radix[1] = N / R;
    return s;
}

/* The host's side of what is sent to the device. */
struct host_arrays {
    int *at;
    int64_t *first;
    char *twiddle;
};

/* What products in FP16 need in addition. */
static void lay_out_fp16(gpu_arena *r, const toeplitz_shape *s, int N, toeplitz_fp16 *h) {
    const size_t y = toeplitz_fp16_along_y(s->n, N), x = toeplitz_fp16_along_x(s->n, N);
    h->n = s->n, h->g = s->nimage, h->N = N;
    h->to_y = gpu_take(r, y, (uint4 **)NULL);
    h->along_x = gpu_take(r, x, (uint4 **)NULL);
    h->from_y = gpu_take(r, y, (uint4 **)NULL);
    h->symbol = gpu_take(r, toeplitz_fp16_symbol(N), (uint4 **)NULL);
    h->rest = gpu_take(r, toeplitz_fp16_rest(N), (uint4 **)NULL);
    h->wave = gpu_take(r, (size_t)N / 2 * s->n, (__half2 **)NULL);
    h->scale = gpu_take(r, 2, (float **)NULL);
}

/* Arrays of a plan, in order: what is sent from the host first. */
static size_t lay_out(gpu_arena *r, const toeplitz_shape *s, toeplitz_type t,
                      backend_toeplitz_plan *p, host_arrays *host) {
    const size_t g = s->nimage, N = order_of(s, t);
    const size_t number = 2 * backend_size(number_of(t));
    toeplitz_device *d = &p->d;
    p->room = 0;
    for (int i = 0; i < s->nimage; i++)
        p->room = s->count[i] > p->room ? s->count[i] : p->room;
    p->tensors = on_tensors(s, t);
    d->steps = steps_of((int)N);
    p->middle = toeplitz_middle_of(number_of(t), &d->steps, s->nimage);
    d->by_row = !p->tensors && p->middle.lanes > 0;
    d->gp = d->by_row ? p->middle.images : s->nimage;
    d->symbols = (int64_t)(((d->by_row ? d->gp : g) * d->gp + 31) / 32 * 32);
    d->at = gpu_take(r, g * s->n * s->n, host ? &host->at : NULL);
    d->first = gpu_take(r, g, host ? &host->first : NULL);
    d->twiddle = gpu_take(r, N * number, host ? &host->twiddle : NULL);
    const size_t sent = r->used;
    d->symbol = gpu_take(r, N * N * d->symbols * number, (char **)NULL);
    p->pairs = gpu_take(r, g * g, (toeplitz_pair **)NULL);
    d->diagonals_from = p->diagonals_from = gpu_take(r, 2 * (g + 1), (int **)NULL);
    d->diagonals = p->diagonals = gpu_take(r, 4 * g, (toeplitz_diagonal **)NULL);
    p->values = gpu_take(r, 2 * g * p->room, (double **)NULL);
    if (on_tensors(s, t)) {
        lay_out_fp16(r, s, (int)N, &p->h);
        p->h.at = d->at, p->h.first = d->first;
    }
    return sent;
}

static size_t bytes(const toeplitz_shape *s, toeplitz_type t) {
    gpu_arena r = {NULL, NULL, 0};
    backend_toeplitz_plan none = {};
    lay_out(&r, s, t, &none, NULL);
    return r.used;
}

static void close_plan(backend_toeplitz_plan *p) {
    if (p == NULL)
        return;
    gpu_device_guard guard(p->ctx->device);
    cudaFree(p->memory);
    free(p->count);
    free(p->first);
    free(p);
}

static void fill_host(backend_toeplitz_plan *p, const toeplitz_shape *s, const host_arrays *host) {
    const int n = s->n;
    for (int i = 0; i < s->nimage; i++) {
        int *at = host->at + (int64_t)i * n * n;
        for (int k = 0; k < n * n; k++)
            at[k] = -1;
        for (int64_t k = 0; k < s->count[i]; k++) { /* of lines along y, or of whole rows */
            const int place = s->place[i][k];
            at[p->tensors ? place : place % n * n + place / n] = (int)k;
        }
        host->first[i] = p->first[i] = s->first[i];
        p->count[i] = s->count[i];
    }
    for (int k = 0; k < p->d.steps.order; k++) {
        const double a = 2 * acos(-1.0) * k / p->d.steps.order;
        if (p->type == BACKEND_D)
            ((double2 *)host->twiddle)[k] = make_double2(cos(a), -sin(a));
        else
            ((float2 *)host->twiddle)[k] = float2{(float)cos(a), (float)-sin(a)};
    }
}

static status fill_plan(backend_toeplitz_plan *p, const toeplitz_shape *s, toeplitz_type t) {
    gpu_arena count = {NULL, NULL, 0};
    host_arrays host = {};
    const cudaStream_t stream = p->ctx->main.stream;
    const size_t sent = lay_out(&count, s, t, p, NULL);
    if (cudaMalloc((void **)&p->memory, count.used) != cudaSuccess) {
        cudaGetLastError();
        return status_fail(MOAO_MEMORY, "the GPU has no room for %zu bytes of a Toeplitz matrix",
                           count.used);
    }
    char *mirror = (char *)malloc(sent + 1);
    if (mirror == NULL)
        return status_fail(MOAO_MEMORY, "no memory for a Toeplitz matrix");
    gpu_arena r = {p->memory, mirror, 0};
    lay_out(&r, s, t, p, &host);
    fill_host(p, s, &host);
    const cudaError_t e = cudaMemcpyAsync(p->memory, mirror, sent, cudaMemcpyHostToDevice, stream);
    const cudaError_t f = cudaStreamSynchronize(stream);
    free(mirror);
    CUDA_TRY(e);
    CUDA_TRY(f);
    return p->tensors && s->nimage > 0 ? toeplitz_fp16_tables(stream, &p->h) : MOAO_OK;
}

static status open_plan(backend_ctx *ctx, const toeplitz_shape *s, toeplitz_type t,
                        backend_toeplitz_plan **out) {
    gpu_device_guard guard(ctx->device);
    *out = NULL;
    if (!toeplitz_shape_ok(s, t))
        return status_fail(MOAO_INPUT, "toeplitz: a size or a place is out of range");
    backend_toeplitz_plan *p = (backend_toeplitz_plan *)calloc(1, sizeof *p);
    if (p == NULL)
        return status_fail(MOAO_MEMORY, "no memory for a Toeplitz matrix");
    p->ctx = ctx;
    p->type = number_of(t);
    p->half = t == TOEPLITZ_FP16;
    p->d.n = s->n;
    p->d.g = s->nimage;
    p->d.small = small_steps(order_of(s, t));
    p->d.lanes = toeplitz_lanes(p->type, &p->d.small);
    p->count = (int64_t *)calloc(s->nimage + 1, sizeof *p->count);
    p->first = (int64_t *)calloc(s->nimage + 1, sizeof *p->first);
    status st = p->count && p->first ? MOAO_OK
                                     : status_fail(MOAO_MEMORY, "no memory for a Toeplitz matrix");
    if (st == MOAO_OK && p->d.lanes == 0)
        st = status_fail(MOAO_INPUT, "toeplitz: lattices of %d places are too large", s->n);
    if (st == MOAO_OK)
        st = fill_plan(p, s, t);
    if (st != MOAO_OK) {
        close_plan(p);
        p = NULL;
    }
    *out = p;
    return st;
}

/* Diagonals into the plan's own memory, and the lists of them. */
static status keep_diagonals(backend_toeplitz_plan *p, const toeplitz_pair *pairs, int *from,
                             toeplitz_diagonal *list) {
    const int g = p->d.g;
    int n = 0;
    for (int c = 0; c < g; c++) {
        from[c] = n;
        for (int r = 0; r < g; r++) {
            const toeplitz_pair *v = &pairs[r * g + c];
            if (v->diagonal == NULL || p->count[c] == 0)
                continue;
            if (n == 2 * g)
                return status_fail(MOAO_INPUT, "toeplitz: more than two diagonals an image");
            double *to = p->values + n * p->room;
            CUDA_TRY(cudaMemcpy2DAsync(to, sizeof(double), v->diagonal, v->stride * sizeof(double),
                                       sizeof(double), p->count[c], cudaMemcpyDeviceToDevice,
                                       p->ctx->main.stream));
            list[n++] = toeplitz_diagonal{r, to};
        }
    }
    from[g] = n;
    /* the same for A': what pair (c, r) has, at column image c */
    for (int c = 0; c < g; c++) {
        from[g + 1 + c] = n;
        for (int r = 0; r < g; r++)
            for (int e = from[r]; e < from[r + 1]; e++)
                if (list[e].row == c)
                    list[n++] = toeplitz_diagonal{r, list[e].value};
    }
    from[2 * g + 1] = n;
    CUDA_TRY(cudaMemcpyAsync(p->diagonals_from, from, 2 * (g + 1) * sizeof *from,
                             cudaMemcpyHostToDevice, p->ctx->main.stream));
    CUDA_TRY(cudaMemcpyAsync(p->diagonals, list, n * sizeof *list, cudaMemcpyHostToDevice,
                             p->ctx->main.stream));
    return MOAO_OK;
}

static status load(backend_toeplitz_plan *p, const toeplitz_pair *pairs) {
    gpu_device_guard guard(p->ctx->device);
    const int g = p->d.g;
    toeplitz_shape shape = {};
    shape.nimage = g;
    shape.count = p->count;
    if (!toeplitz_values_ok(&shape, pairs))
        return status_fail(MOAO_INPUT, "toeplitz: a pair of images is out of range");
    if (g == 0)
        return MOAO_OK;
    int *from = (int *)calloc(2 * (g + 1), sizeof *from);
    toeplitz_diagonal *list = (toeplitz_diagonal *)calloc(4 * g, sizeof *list);
    status st = from && list ? keep_diagonals(p, pairs, from, list)
                             : status_fail(MOAO_MEMORY, "no memory for a Toeplitz matrix");
    /* host memory that is not pinned: the copies are over when the calls return */
    free(from);
    free(list);
    GPU_TRY(st);
    CUDA_TRY(cudaMemcpyAsync(p->pairs, pairs, g * g * sizeof *pairs, cudaMemcpyHostToDevice,
                             p->ctx->main.stream));
    GPU_TRY(toeplitz_spectra(p->ctx->main.stream, p->type, &p->d, p->pairs, p->tensors));
    return p->tensors ? toeplitz_fp16_symbols(p->ctx->main.stream, &p->h,
                                              (const float2 *)p->d.symbol, p->d.gp, p->d.symbols)
                      : MOAO_OK;
}

/* Pairs of vectors at a time. */
static int64_t pairs_of(const backend_toeplitz_plan *p, int64_t nvec) {
    const int64_t pairs = gpu_ceil(gpu_ceil(nvec, 2), p->d.lanes) * p->d.lanes;
    return gpu_min(pairs, p->middle.lanes > 0 ? TOEPLITZ_PAIRS : TOEPLITZ_WHOLE);
}

static size_t fp16_bytes(const backend_toeplitz_plan *p, int64_t pairs) {
    return gpu_align(2 * backend_size(p->type) * p->d.steps.order * p->d.g * p->d.n * pairs);
}

static size_t full_bytes(const backend_toeplitz_plan *p, int64_t pairs) {
    return gpu_align(2 * backend_size(p->type) * p->d.steps.order * p->d.steps.order * p->d.g *
                     pairs);
}

static size_t workspace(const backend_toeplitz_plan *p, int64_t nvec) {
    if (p->tensors)
        return toeplitz_fp16_work(&p->h, nvec);
    const int64_t pairs = pairs_of(p, nvec);
    return fp16_bytes(p, pairs) + (p->middle.lanes > 0 ? 0 : 2 * full_bytes(p, pairs));
}

/* half, or what is kept, to half by whole spectra in memory. */
static status couple_whole(backend_toeplitz_plan *p, const toeplitz_job *q) {
    const int g = p->d.g, N = p->d.steps.order;
    const backend_type t = p->type == BACKEND_D ? BACKEND_Z : BACKEND_C;
    toeplitz_job from = *q;
    if (q->kept != NULL)
        from.half = (void *)q->kept;
    GPU_TRY(toeplitz_along(p->ctx->main.stream, p->type, &p->d, &from));
    GPU_TRY(blas_gemm_strided(&p->ctx->main, t, 'N', q->turned ? 'C' : 'N', q->pairs, g, g,
                              gpu_scalar(t, 1), q->full, q->pairs, g * q->pairs, p->d.symbol,
                              p->d.gp, p->d.symbols, gpu_scalar(t, 0), q->coupled, q->pairs,
                              g * q->pairs, (int64_t)N * N));
    return toeplitz_back(p->ctx->main.stream, p->type, &p->d, q);
}

static size_t kept_bytes(const backend_toeplitz_plan *p, int64_t nvec) {
    if (p->tensors)
        return toeplitz_fp16_kept(&p->h, nvec);
    const int64_t pairs = pairs_of(p, nvec);
    return nvec > 0 ? gpu_ceil(nvec, 2 * pairs) * fp16_bytes(p, pairs) : 0;
}

static toeplitz_job job_of(const backend_toeplitz_plan *p, char side, char trans, int64_t nvec,
                           const void *x, int64_t ldx, void *work) {
    const bool left = side == 'L';
    const int64_t pairs = pairs_of(p, nvec);
    toeplitz_job q = {};
    q.nvec = nvec, q.pairs = pairs;
    q.turned = left != (trans != 'N'), q.fp16 = p->half;
    q.x = x, q.xv = left ? ldx : 1, q.xc = left ? 1 : ldx;
    q.half = work;
    q.full = (char *)work + fp16_bytes(p, pairs);
    q.coupled = (char *)q.full + full_bytes(p, pairs);
    return q;
}

static status check_call(const backend_toeplitz_plan *p, char side, char trans, int64_t nvec,
                         size_t lwork) {
    if (lwork < workspace(p, nvec))
        return status_fail(MOAO_INPUT, "toeplitz: work is too small");
    if (p->half && (side == 'L' || trans != 'N'))
        return status_fail(MOAO_INPUT, "toeplitz: products in FP16 are X A");
    return MOAO_OK;
}

static status check_kept(const backend_toeplitz_plan *p, int64_t nvec, size_t lkept) {
    return lkept < kept_bytes(p, nvec)
               ? status_fail(MOAO_INPUT, "toeplitz: no room for what is kept of %lld vectors",
                             (long long)nvec)
               : MOAO_OK;
}

/* Arguments are checked. kept: of X, or NULL. */
static status multiply(backend_toeplitz_plan *p, char side, char trans, int64_t nvec, double alpha,
                       const void *kept, const void *x, int64_t ldx, double beta, void *y,
                       int64_t ldy, void *work) {
    gpu_device_guard guard(p->ctx->device);
    const bool left = side == 'L';
    const cudaStream_t stream = p->ctx->main.stream;
    if (nvec == 0 || p->d.g == 0)
        return MOAO_OK;
    if (p->tensors)
        return toeplitz_fp16_apply(stream, &p->h, p->diagonals_from, p->diagonals, nvec,
                                   (float)alpha, (const uint4 *)kept, (const __half *)x, ldx,
                                   (float)beta, (float *)y, ldy, (char *)work);
    toeplitz_job q = job_of(p, side, trans, nvec, x, ldx, work);
    q.alpha = alpha, q.beta = beta;
    q.y = y, q.yv = left ? ldy : 1, q.yc = left ? 1 : ldy;
    q.kept = kept;
    for (; q.first < nvec; q.first += 2 * q.pairs) {
        if (kept == NULL)
            GPU_TRY(toeplitz_forward(stream, p->type, &p->d, &q));
        GPU_TRY(p->middle.lanes > 0 ? toeplitz_couple(stream, p->type, &p->d, &p->middle, &q)
                                    : couple_whole(p, &q));
        GPU_TRY(toeplitz_backward(stream, p->type, &p->d, &q));
        if (kept != NULL)
            q.kept = (const char *)q.kept + fp16_bytes(p, q.pairs);
    }
    return MOAO_OK;
}

static status apply(backend_toeplitz_plan *p, char side, char trans, int64_t nvec, double alpha,
                    const void *x, int64_t ldx, double beta, void *y, int64_t ldy, void *work,
                    size_t lwork) {
    GPU_TRY(check_call(p, side, trans, nvec, lwork));
    return multiply(p, side, trans, nvec, alpha, NULL, x, ldx, beta, y, ldy, work);
}

static status keep(backend_toeplitz_plan *p, char side, int64_t nvec, const void *x, int64_t ldx,
                   void *kept, size_t lkept, void *work, size_t lwork) {
    gpu_device_guard guard(p->ctx->device);
    const cudaStream_t stream = p->ctx->main.stream;
    GPU_TRY(check_call(p, side, 'N', nvec, lwork));
    GPU_TRY(check_kept(p, nvec, lkept));
    if (nvec == 0 || p->d.g == 0)
        return MOAO_OK;
    if (p->tensors)
        return toeplitz_fp16_keep(stream, &p->h, nvec, (const __half *)x, ldx, (uint4 *)kept);
    toeplitz_job q = job_of(p, side, 'N', nvec, x, ldx, work);
    q.half = kept;
    for (; q.first < nvec; q.first += 2 * q.pairs) {
        GPU_TRY(toeplitz_forward(stream, p->type, &p->d, &q));
        q.half = (char *)q.half + fp16_bytes(p, q.pairs);
    }
    return MOAO_OK;
}

static status apply_kept(backend_toeplitz_plan *p, char side, char trans, int64_t nvec,
                         double alpha, const void *kept, size_t lkept, const void *x, int64_t ldx,
                         double beta, void *y, int64_t ldy, void *work, size_t lwork) {
    GPU_TRY(check_call(p, side, trans, nvec, lwork));
    GPU_TRY(check_kept(p, nvec, lkept));
    return multiply(p, side, trans, nvec, alpha, kept, x, ldx, beta, y, ldy, work);
}

const backend_toeplitz backend_toeplitz_gpu = {.size = sizeof(backend_toeplitz),
                                               .order = order,
                                               .bytes = bytes,
                                               .open = open_plan,
                                               .close = close_plan,
                                               .load = load,
                                               .workspace = workspace,
                                               .apply = apply,
                                               .kept_bytes = kept_bytes,
                                               .keep = keep,
                                               .apply_kept = apply_kept};
