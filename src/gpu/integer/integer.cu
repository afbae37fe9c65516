/* Products in double precision by integers (moao/backend_integer.h): scales and residues of rows,
 * sums of bytes by tiles of the result, and the result from its residues, fused with the update of
 * C. Conversions are bound by memory: each number is read once and its residues are written in
 * whole lines; of the result, sums in 32 bits are read once. */
#include "integer_gpu.h"
#include "linalg/integer/integer_constants.h"

#define THREADS 256
#define MOST_BLOCKS 65535
#define TILE ((int64_t)4096) /* columns of a tile of the result */

typedef unsigned long long whole; /* of atomics */

/* op(A) D: entry l of row i of A is a[i down + l along]. */
struct rows_of {
    const double *a;
    int64_t m, k, down, along;
    const int32_t *inner;
    int sign;
    const int32_t *span;
};

static rows_of rows_in(const integer_matrix *a) {
    const bool plain = a->trans == 'N';
    const rows_of x = {a->a,     a->m,    a->k,   plain ? 1 : a->lda, plain ? a->lda : 1,
                       a->inner, a->sign, a->span};
    return x;
}

__device__ inline double entry_at(const rows_of &x, int64_t i, int64_t l) {
    const double v = x.a[i * x.down + l * x.along];
    return x.inner != NULL ? v * integer_power(x.sign * x.inner[l]) : v;
}

/* --- scales --- */

/* The row and the first entry of a thread, and its step: lanes follow what is contiguous. */
struct walk {
    int64_t row, from, step;
};

__device__ inline walk walk_of(const rows_of &x) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (x.down == 1)
        return {blockIdx.x * (int64_t)32 + lane, warp + blockIdx.y * (int64_t)(THREADS / 32),
                gridDim.y * (int64_t)(THREADS / 32)};
    return {blockIdx.x * (int64_t)(THREADS / 32) + warp, lane + blockIdx.y * (int64_t)32,
            gridDim.y * (int64_t)32};
}

static dim3 walk_grid(const rows_of &x) {
    const int64_t rows = x.down == 1 ? 32 : THREADS / 32, slices = gpu_ceil(x.k, 1024);
    return dim3((unsigned)gpu_ceil(x.m, rows), (unsigned)(slices < 64 ? slices : 64));
}

/* Moduli as bits are ordered as numbers are, with NaN above all. */
__global__ void largest_kernel(rows_of x, whole *largest) {
    const walk w = walk_of(x);
    whole most = 0;
    if (w.row >= x.m)
        return;
    for (int64_t l = w.from; l < x.k; l += w.step) {
        const double v = fabs(entry_at(x, w.row, l));
        whole bits;
        memcpy(&bits, &v, sizeof bits);
        most = bits > most ? bits : most;
    }
    atomicMax(largest + w.row, most);
}

__device__ inline double number_of(whole bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Sums of integers, the same in any order. */
__global__ void squares_kernel(rows_of x, const whole *largest, whole *sum) {
    const walk w = walk_of(x);
    if (w.row >= x.m)
        return;
    const double most = number_of(largest[w.row]);
    whole s = 0;
    int top;
    if (!(most > 0 && most <= 1.79769313486231571e308))
        return;
    (void)frexp(most, &top);
    const integer_factors f = integer_factors_of(20 - top);
    for (int64_t l = w.from; l < x.k; l += w.step) {
        const whole u = integer_coarse(entry_at(x, w.row, l), f);
        s += u * u;
    }
    atomicAdd(sum + w.row, s);
}

__global__ void exponents_kernel(int64_t m, double limit, const whole *largest, const whole *sum,
                                 int32_t *exponent) {
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i < m)
        exponent[i] = integer_row_exponent(limit, number_of(largest[i]), sum[i]);
}

__global__ void square_exponents_kernel(int64_t m, double limit, const double *square, int64_t inc,
                                        int32_t *exponent) {
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i < m)
        exponent[i] = integer_square_exponent(limit, square[i * inc]);
}

__global__ void grow_kernel(int64_t m, integer_block b, const whole *largest, const whole *sum,
                            integer_growth g) {
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= m)
        return;
    b.largest = number_of(largest[i]);
    b.sum = sum[i];
    integer_grow(&b, i, &g);
}

/* Of each row, [m] in work: the largest modulus, then the sum of squares in units of that. */
static status sizes(backend_ctx *ctx, const integer_matrix *a, void *work, size_t lwork) {
    const rows_of x = rows_in(a);
    const int64_t m = a->m;
    cudaStream_t s = ctx->main.stream;
    whole *largest = (whole *)work;
    if (lwork < (size_t)m * 2 * sizeof(whole))
        return status_fail(MOAO_INPUT, "scales of rows: the workspace is too small");
    CUDA_TRY(cudaMemsetAsync(work, 0, (size_t)m * 2 * sizeof(whole), s));
    if (a->k > 0) {
        largest_kernel<<<walk_grid(x), THREADS, 0, s>>>(x, largest);
        LAUNCHED();
        squares_kernel<<<walk_grid(x), THREADS, 0, s>>>(x, largest, largest + m);
        LAUNCHED();
    }
    return MOAO_OK;
}

static status scale(backend_ctx *ctx, int moduli, int64_t longest, const integer_matrix *a,
                    int32_t *exponent, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    const int64_t m = a->m;
    const whole *largest = (const whole *)work;
    GPU_TRY(sizes(ctx, a, work, lwork));
    exponents_kernel<<<(unsigned)gpu_ceil(m, THREADS), THREADS, 0, ctx->main.stream>>>(
        m, integer_square(moduli, longest), largest, largest + m, exponent);
    LAUNCHED();
    return MOAO_OK;
}

static status extend(backend_ctx *ctx, int moduli, int64_t longest, const integer_matrix *a,
                     int64_t before, bool front, const integer_growth *g, void *work,
                     size_t lwork) {
    gpu_device_guard guard(ctx->device);
    const int64_t m = a->m;
    const whole *largest = (const whole *)work;
    const integer_block b = {integer_square(moduli, longest), 0, 0, before, a->k, front};
    GPU_TRY(sizes(ctx, a, work, lwork));
    grow_kernel<<<(unsigned)gpu_ceil(m, THREADS), THREADS, 0, ctx->main.stream>>>(m, b, largest,
                                                                                  largest + m, *g);
    LAUNCHED();
    return MOAO_OK;
}

static status scale_squares(backend_ctx *ctx, int moduli, int64_t longest, int64_t m,
                            const double *square, int64_t inc, int32_t *exponent) {
    gpu_device_guard guard(ctx->device);
    square_exponents_kernel<<<(unsigned)gpu_ceil(m, THREADS), THREADS, 0, ctx->main.stream>>>(
        m, integer_square(moduli, longest), square, inc, exponent);
    LAUNCHED();
    return MOAO_OK;
}

/* --- residues --- */

#define ROWS 32   /* of a block */
#define WIDTH 128 /* entries of each: one line of bytes, four for each lane */

/* Entry c of row i of a block is at [c % 4][c / 4][i]: neither side has conflicts of banks. */
struct block_of_entries {
    int64_t v[4][WIDTH / 4][ROWS + 1];
};

/* Whether entries from .. from + n of row i are converted; of n = 1: that entry is. */
__device__ inline bool in_span(const rows_of &x, int64_t i, int64_t from, int64_t n) {
    if (i >= x.m || x.span == NULL)
        return i < x.m;
    const int64_t end = (x.span[2 * i + 1] + INTEGER_STEP - 1) / INTEGER_STEP * INTEGER_STEP;
    return from < end && from + n > x.span[2 * i];
}

/* The integers of a block; rows whose entries do not fit are marked. */
__device__ inline void load_block(const rows_of &x, double top, int32_t *exponent, int64_t row,
                                  int64_t from, block_of_entries *b) {
    const bool plain = x.down == 1;
    for (int e = threadIdx.x; e < ROWS * WIDTH; e += THREADS) {
        const int i = plain ? e % ROWS : e / WIDTH, c = plain ? e / ROWS : e % WIDTH;
        int64_t v = 0;
        if (from + c < x.k && in_span(x, row + i, from + c, 1)) {
            const int exp = exponent[row + i];
            bool fits = true;
            if (exp != INTEGER_BAD)
                v = integer_entry(entry_at(x, row + i, from + c), integer_factors_of(exp), top,
                                  &fits);
            if (!fits)
                exponent[row + i] = INTEGER_BAD;
        }
        b->v[c % 4][c / 4][i] = v;
    }
}

/* Four neighbours' residues modulo the t-th p. */
__device__ inline int four_residues(const integer_constants &s, int t, const int64_t *v) {
    unsigned bytes = 0;
#pragma unroll
    for (int c = 0; c < 4; c++)
        bytes |= (unsigned)(integer_residue(v[c], s.p[t], s.magic[t], s.w20[t], s.w40[t]) & 255)
                 << 8 * c;
    return (int)bytes;
}

__global__ void __launch_bounds__(THREADS)
    convert_kernel(const __grid_constant__ integer_constants s, rows_of x, int64_t width,
                   const __grid_constant__ integer_rows r) {
    __shared__ block_of_entries b;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t from = blockIdx.x * (int64_t)WIDTH;
    for (int64_t row = blockIdx.y * (int64_t)ROWS; row < x.m; row += gridDim.y * (int64_t)ROWS) {
        if (!__syncthreads_or(threadIdx.x < ROWS && in_span(x, row + threadIdx.x, from, WIDTH)))
            continue;
        load_block(x, s.top, r.exponent, row, from, &b);
        __syncthreads();
        for (int i = warp; i < ROWS && row + i < x.m && from + 4 * lane < width;
             i += THREADS / 32) {
            if (!in_span(x, row + i, from + 4 * lane, 1)) /* spans are of whole steps */
                continue;
            const int64_t v[4] = {b.v[0][lane][i], b.v[1][lane][i], b.v[2][lane][i],
                                  b.v[3][lane][i]};
            for (int t = 0; t < s.n; t++) {
                const int part = t >= r.first;
                int8_t *to = r.r[part] + (t - (part ? r.first : 0)) * r.step[part] +
                             (row + i) * r.ld[part] + from;
                ((int *)to)[lane] = four_residues(s, t, v);
            }
        }
        __syncthreads();
    }
}

static status convert(backend_ctx *ctx, int moduli, const integer_matrix *a,
                      const integer_rows *rows) {
    gpu_device_guard guard(ctx->device);
    const integer_constants s = integer_constants_of(moduli);
    const int64_t width = integer_ld(a->k), blocks = gpu_ceil(a->m, ROWS);
    const dim3 grid((unsigned)gpu_ceil(width, WIDTH), (unsigned)gpu_min(blocks, MOST_BLOCKS));
    convert_kernel<<<grid, THREADS, 0, ctx->main.stream>>>(s, rows_in(a), width, *rows);
    LAUNCHED();
    return MOAO_OK;
}

/* --- products --- */

/* A tile of the result: m x n from row i and column j on; sum t of entry (i, j) is sums[t step + i
 * + j ld]. */
struct tile_of {
    int64_t i, j, m, n, ld, step;
    int32_t *sums;
};

__global__ void __launch_bounds__(THREADS)
    reduce_kernel(const __grid_constant__ integer_constants s, tile_of d) {
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    for (int64_t j = blockIdx.y; i < d.m && j < d.n; j += gridDim.y)
        for (int t = 0; t < s.n; t++) {
            int32_t *at = d.sums + t * d.step + i + j * d.ld;
            *at = integer_reduce(*at, s.p[t], s.magic[t]);
        }
}

/* C := alpha (the sum that the residues stand for) + beta C. */
__global__ void __launch_bounds__(THREADS)
    rebuild_kernel(const __grid_constant__ integer_constants s, tile_of d,
                   const __grid_constant__ integer_product p) {
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= d.m)
        return;
    const int exponent = p.a.exponent[d.i + i];
    for (int64_t j = blockIdx.y; j < d.n; j += gridDim.y) {
        const int32_t *sums = d.sums + i + j * d.ld;
        double high = 0, low = 0, *c = p.c + d.i + i + (d.j + j) * p.ldc;
        if (p.part == 'L' && d.i + i < d.j + j)
            continue;
#pragma unroll
        for (int t = 0; t < INTEGER_MODULI; t++)
            if (t < s.n) {
                const double r = integer_reduce(sums[t * d.step], s.p[t], s.magic[t]);
                high = fma(r, s.high[t], high);
                low = fma(r, s.low[t], low);
            }
        const double sum =
            integer_scaled(integer_rebuild(&s, high, low), exponent, p.b.exponent[d.j + j]);
        *c = integer_update(p.alpha, sum, p.beta, c);
    }
}

__global__ void __launch_bounds__(THREADS) scale_kernel(const __grid_constant__ integer_product p) {
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    for (int64_t j = blockIdx.y; i < p.m && j < p.n; j += gridDim.y)
        if (p.part == 'A' || i >= j)
            p.c[i + j * p.ldc] = integer_update(0, 0, p.beta, p.c + i + j * p.ldc);
}

static dim3 tile_grid(int64_t m, int64_t n) {
    return dim3((unsigned)gpu_ceil(m, THREADS), (unsigned)gpu_min(n, MOST_BLOCKS));
}

/* Sums of entries from `l` on, n of each row. */
static status add_sums(gpu_queue *q, const integer_product *p, const tile_of *d, int64_t l,
                       int64_t n) {
    for (int part = 0; part < 2; part++) {
        const int64_t first = part ? p->a.first : 0, end = part ? p->moduli : p->a.first;
        const integer_bytes_call c = {integer_ld(d->m),
                                      d->n,
                                      integer_ld(n),
                                      end - first,
                                      p->a.r[part] + d->i * p->a.ld[part] + l,
                                      p->b.r[part] + d->j * p->b.ld[part] + l,
                                      p->a.ld[part],
                                      p->a.step[part],
                                      p->b.ld[part],
                                      p->b.step[part],
                                      d->sums + first * d->step,
                                      d->ld,
                                      d->step,
                                      l > 0};
        if (c.count > 0)
            GPU_TRY(integer_bytes_gemm(q, &c));
    }
    return MOAO_OK;
}

static status one_tile(gpu_queue *q, const integer_constants *s, const integer_product *p,
                       const tile_of *d) {
    const int64_t depth = p->depth > 0 ? p->depth : INTEGER_DEPTH;
    for (int64_t l = 0; l < p->k; l += depth) {
        if (l > 0) {
            reduce_kernel<<<tile_grid(d->m, d->n), THREADS, 0, q->stream>>>(*s, *d);
            LAUNCHED();
        }
        GPU_TRY(add_sums(q, p, d, l, gpu_min(depth, p->k - l)));
    }
    rebuild_kernel<<<tile_grid(d->m, d->n), THREADS, 0, q->stream>>>(*s, *d, *p);
    LAUNCHED();
    return MOAO_OK;
}

static status gemm(backend_ctx *ctx, const integer_product *p, void *work, size_t lwork) {
    gpu_device_guard guard(ctx->device);
    gpu_queue *q = &ctx->main;
    const integer_constants s = integer_constants_of(p->moduli);
    const int64_t room = (int64_t)(lwork / (sizeof(int32_t) * (size_t)p->moduli));
    if (p->alpha == 0 || p->k == 0) {
        scale_kernel<<<tile_grid(p->m, p->n), THREADS, 0, q->stream>>>(*p);
        LAUNCHED();
        return MOAO_OK;
    }
    int64_t n = gpu_min(p->n, TILE),
            m = gpu_min(integer_ld(p->m), room / n / INTEGER_ROWS * INTEGER_ROWS);
    if (m == 0) /* few columns at a time */
        m = INTEGER_ROWS, n = room / INTEGER_ROWS;
    if (n == 0)
        return status_fail(MOAO_INPUT, "product by integers: the workspace is too small");
    for (int64_t j = 0; j < p->n; j += n)
        for (int64_t i = p->part == 'L' ? j / INTEGER_ROWS * INTEGER_ROWS : 0; i < p->m; i += m) {
            const tile_of d = {i, j,     gpu_min(m, p->m - i), gpu_min(n, p->n - j),
                               m, m * n, (int32_t *)work};
            GPU_TRY(one_tile(q, &s, p, &d));
        }
    return MOAO_OK;
}

extern "C" const backend_integer backend_integer_gpu = {.size = sizeof(backend_integer),
                                                        .workspace = NULL,
                                                        .scale = scale,
                                                        .scale_squares = scale_squares,
                                                        .extend = extend,
                                                        .convert = convert,
                                                        .gemm = gemm};
