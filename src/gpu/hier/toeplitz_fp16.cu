/* Block-Toeplitz products in FP16 on tensor cores. Scales keep every stage inside the range of
 * halves for vectors whose entries are up to 2^15 and not equal all over the lattice, and symbols
 * of which all may be near the largest; smaller ones lose nothing, for halves have 29 binary places
 * below 2^15. */
#include "toeplitz_fp16.cuh"

#include "gpu/core/common.cuh"
#include "gpu/core/device.cuh"
#include "toeplitz_launch.cuh"
#include "toeplitz_tensor.cuh"

#define TILES 5 /* of 16 places or frequencies along a line, at most */
#define MOST_IMAGES 16
#define EACH 4 /* places of a lattice that a thread looks up at once */

extern __shared__ __align__(16) unsigned char shared[];

/* --- sizes */

/* From an image's lines along x in shared memory to the next one's: an odd number, so that rows of
 * neighbouring images are in different banks. */
__host__ __device__ static inline int image_step(int N) {
    return 2 * N + 1;
}

/* Places along x of a line in memory: whole sectors. */
__host__ __device__ static inline int places_of(int n) {
    return (n + 3) / 4 * 4;
}

/* Places along x of a block of the first and the last kernel, an even number. */
__host__ __device__ static inline int width_of(int n) {
    return (n + 3) / 4 * 2;
}

static size_t lattice_bytes(int n) {
    return sizeof(uint4) * ((size_t)n * (width_of(n) | 1) + 1);
}
static size_t middle_bytes(int n, int N, int g) {
    return sizeof(uint4) * ((size_t)image_step(N) * g + toeplitz_fp16_along_x(n, N));
}
static size_t columns_bytes(int n, int N) {
    return sizeof(uint4) * (size_t)N * (width_of(n) | 1);
}

bool toeplitz_fp16_fits(int n, int g) {
    const int N = 32 * toeplitz_tiles(n);
    return n <= 16 * TILES && g <= MOST_IMAGES && middle_bytes(n, N, g) <= toeplitz_shared() &&
           columns_bytes(n, N) <= toeplitz_shared() && lattice_bytes(n) <= toeplitz_shared();
}

/* --- scales */

typedef struct {
    double to, from; /* of each transform to frequencies; of that along x back */
    double coupled;  /* of sums over images */
} scales;

/* Sums of n numbers grow as sqrt(n) where signs are mixed: after both transforms X is n^-0.6 of
 * what it was, unless it is equal all over the lattice, when it is n^0.4 of that. */
static scales scales_of(const toeplitz_fp16 *h) {
    const double bits = log2((double)h->n), images = log2(2.0 * h->g);
    return scales{exp2(-ceil(0.8 * bits)), 0.5 * exp2(-ceil(0.5 * log2((double)h->N))),
                  exp2(floor(0.6 * bits - 0.5 * images) - 17)};
}

/* What sums have been multiplied by at the end, the symbols' scale not counted. */
static float gain(const toeplitz_fp16 *h) {
    const scales s = scales_of(h);
    return (float)(s.to * s.to * s.from * s.coupled);
}

/* --- products */

/* Where the numbers x = 0 of eight vectors of a line are, in lines. */
__device__ inline int64_t line_at(const toeplitz_fp16 &h, int64_t eight, int image, int ky,
                                  int ri) {
    return (((eight * h.g + image) * (h.N / 2) + ky) * 2 + ri) * places_of(h.n);
}

/* Half of the lattices of eight vectors of an image, along y: a warp makes the frequencies of a
 * tile for all x, two at a time. */
__global__ void __launch_bounds__(320)
    to_lines_kernel(toeplitz_fp16 h, int64_t left, bool aligned, float scale,
                    const __half *__restrict__ x, int64_t ldx, uint4 *__restrict__ lines) {
    const int n = h.n, row = width_of(n) | 1, nt = toeplitz_tiles(n), i = blockIdx.y / 2;
    const int x0 = blockIdx.y % 2 * width_of(n), width = min(width_of(n), n - x0);
    const int lane = threadIdx.x % 32;
    const int tile = threadIdx.x / 32, q = lane % 4;
    const int64_t eight = blockIdx.x, v = 8 * eight;
    const bool whole = aligned && v + 8 <= left;
    uint4 *s = (uint4 *)shared; /* [y][row], and one of zeros */
    const __half *first = x + h.first[i] * ldx + v;
    for (int e0 = threadIdx.x; e0 < n * width; e0 += EACH * blockDim.x) {
        int from[EACH]; /* all of these before the copies, which loads do not pass */
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            const int e = min(e0 + u * (int)blockDim.x, n * width - 1);
            from[u] = h.at[(i * n + e / width) * n + x0 + e % width];
        }
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            const int e = e0 + u * (int)blockDim.x;
            if (e >= n * width)
                break;
            uint4 *to = s + e / width * row + e % width;
            const __half *p = first + from[u] * ldx;
            if (from[u] >= 0 && whole) {
                fetch_async(to, (const uint4 *)p);
                continue;
            }
            uint4 z = {0, 0, 0, 0};
            for (int k = 0; k < 8 && from[u] >= 0; k++)
                ((__half *)&z)[k] = v + k < left ? p[k] : __float2half(0.0f);
            *to = z;
        }
    }
    if (threadIdx.x == 0)
        s[n * row] = uint4{0, 0, 0, 0};
    uint4 a[TILES];
#pragma unroll
    for (int k = 0; k < TILES; k++)
        a[k] = k < nt ? h.to_y[(tile * nt + k) * 32 + lane] : uint4{0, 0, 0, 0};
    stage_commit();
    stage_wait<0>();
    __syncthreads();
    uint2 *to[2];
    for (int ri = 0; ri < 2; ri++)
        to[ri] =
            (uint2 *)(lines + line_at(h, eight, i, 8 * tile + lane / 4, ri) + x0 + q % 2) + q / 2;
    for (int at = 0; at < width; at += 2) {
        float c[2][4] = {};
#pragma unroll
        for (int k = 0; k < TILES; k += 2) {
            if (k >= nt)
                break;
            const int y = 16 * k + lane;
            const uint4 *p = y < n ? s + y * row + at : s + n * row;
            unsigned int b[2][4];
            load_transposed(b[0], p);
            load_transposed(b[1], y < n ? p + 1 : p);
            for (int j = 0; j < 2; j++) {
                tensor_fp16(c[j], a[k], b[j]);
                if (k + 1 < TILES)
                    tensor_fp16(c[j], a[k + 1], b[j] + 2);
            }
        }
        for (int ri = 0; ri < 2; ri++) { /* neighbours exchange places: 8 bytes of one each */
            const unsigned int one = two_fp16(scale * c[0][2 * ri], scale * c[0][2 * ri + 1]);
            const unsigned int two = two_fp16(scale * c[1][2 * ri], scale * c[1][2 * ri + 1]);
            const unsigned int got = __shfl_xor_sync(~0u, q % 2 ? one : two, 1);
            if (at + q % 2 < width)
                to[ri][2 * at] = q % 2 ? uint2{got, two} : uint2{one, got};
        }
    }
}

/* A fragment of sums to rows row and row + 8 of 8 halves, times scale, where these are below
 * `most`.
 */
__device__ inline void put_rows(uint4 *s, int step, int row, int most, int lane, float scale,
                                const float *c) {
    if (row < most)
        ((unsigned int *)(s + (int64_t)row * step))[lane % 4] =
            two_fp16(scale * c[0], scale * c[1]);
    if (row + 8 < most)
        ((unsigned int *)(s + (int64_t)(row + 8) * step))[lane % 4] =
            two_fp16(scale * c[2], scale * c[3]);
}

__device__ inline uint4 negative(const uint4 &a) {
    const unsigned int m = 0x80008000u;
    return uint4{a.x ^ m, a.y ^ m, a.z ^ m, a.w ^ m};
}

/* What a warp takes along x: lines of two images, `apart` in shared memory. */
struct two_lines {
    uint4 *s;
    int apart;
};

/* In s [re, im][x] and then [re, im at k; re, im at N - 1 - k][k]. */
__device__ inline void along_x(const toeplitz_fp16 &h, const uint4 *table, const two_lines &l,
                               int lane, float scale) {
    const int n = h.n, half = h.N / 2, nt = toeplitz_tiles(n), ht = toeplitz_tiles(half),
              part = lane / 8;
    unsigned int b[TILES][2][4]; /* re: 0, 1, im: 2, 3 */
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        if (t >= nt)
            break;
        const int x = min(16 * t + part % 2 * 8 + lane % 8, n - 1);
        for (int e = 0; e < 2; e++)
            load_transposed(b[t][e], l.s + e * l.apart + part / 2 * n + x);
    }
    __syncwarp();
    for (int k = 0; k < ht; k++) {
        float cr[2][4] = {}, si[2][4] = {}, ci[2][4] = {}, sr[2][4] = {};
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            if (t >= nt)
                break;
            const uint4 *a = table + (k * nt + t) * 64 + lane;
            const uint4 cosine = load_rows(a), sine = load_rows(a + 32);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                tensor_fp16(cr[e], cosine, b[t][e]);
                tensor_fp16(si[e], sine, b[t][e] + 2);
                tensor_fp16(ci[e], cosine, b[t][e] + 2);
                tensor_fp16(sr[e], sine, b[t][e]);
            }
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float z[4][4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                z[0][j] = cr[e][j] + si[e][j], z[1][j] = ci[e][j] - sr[e][j];
                z[2][j] = cr[e][j] - si[e][j], z[3][j] = ci[e][j] + sr[e][j];
            }
#pragma unroll
            for (int p = 0; p < 4; p++)
                put_rows(l.s + e * l.apart + p * half, 1, 16 * k + lane / 4, half, lane, scale,
                         z[p]);
        }
    }
}

/* z += symbols a at frequency k (two numbers later, its opposite) times all images there. */
__device__ inline void couple_add(const uint4 *a, const unsigned int *b, float (*z)[4]) {
    tensor_fp16(z[0], a[0], b);
    tensor_fp16(z[1], a[0], b + 2);
    tensor_fp16(z[0], negative(a[1]), b + 2);
    tensor_fp16(z[1], a[1], b);
}

/* All images at frequencies k and N - 1 - k, `step` apart: sum and difference of both, [re, im of
 * the sum; re, -im of the difference][k]. a: their symbols; REST: what these leave counts too. */
template <bool REST>
__device__ inline void couple(const toeplitz_fp16 &h, const uint4 *a, const uint4 *rest, uint4 *s,
                              int step, int k, int lane, float scale) {
    const int half = h.N / 2, part = lane / 8;
    const uint4 *row = s + min(part % 2 * 8 + lane % 8, h.g - 1) * step + part / 2 * half + k;
    float z[2][2][4] = {};
#pragma unroll
    for (int f = 0; f < 2; f++) {
        unsigned int b[4];
        load_transposed(b, row + 2 * f * half);
        couple_add(a + 2 * f, b, z[f]);
        if (REST) {
            const uint4 r[2] = {rest[2 * f * 32], rest[(2 * f + 1) * 32]};
            couple_add(r, b, z[f]);
        }
    }
    __syncwarp();
#pragma unroll
    for (int p = 0; p < 4; p++) {
        float c[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            c[j] = p < 2    ? z[0][p][j] + z[1][p][j]
                   : p == 2 ? z[0][0][j] - z[1][0][j]
                            : z[1][1][j] - z[0][1][j];
        put_rows(s + p * half + k, step, lane / 4, h.g, lane, scale, c);
    }
}

/* Back along x, to lines of global memory, re and im of each; three tiles of places at a time. */
__device__ inline void back_x(const toeplitz_fp16 &h, const uint4 *table, const two_lines &l,
                              uint4 *const (*to)[2], int lane, float scale) {
    const int n = h.n, half = h.N / 2, nt = toeplitz_tiles(n), ht = toeplitz_tiles(half),
              part = lane / 8;
    const int turned = (part / 2 + 2 * (part % 2)) * 8 + lane % 8; /* the table's matrices */
    for (int first = 0; first < nt; first += 3) {
        float c[3][2][2][4] = {};
        for (int k = 0; k < ht; k++) {
            const int row = min(16 * k + part % 2 * 8 + lane % 8, half - 1);
            unsigned int sum[2][4], gap[2][4];
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const uint4 *s = l.s + e * l.apart + part / 2 * half + row;
                load_transposed(sum[e], s);
                load_transposed(gap[e], s + 2 * half);
            }
#pragma unroll
            for (int t = 0; t < 3; t++) {
                if (first + t >= nt)
                    break;
                const uint4 *a = table + (k * nt + first + t) * 64 + turned;
                unsigned int cosine[4], sine[4];
                load_transposed(cosine, a);
                load_transposed(sine, a + 32);
                const uint4 wave[2] = {{cosine[0], cosine[1], cosine[2], cosine[3]},
                                       {sine[0], sine[1], sine[2], sine[3]}};
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    tensor_fp16(c[t][e][0], wave[0], sum[e]);
                    tensor_fp16(c[t][e][1], wave[0], sum[e] + 2);
                    tensor_fp16(c[t][e][0], wave[1], gap[e] + 2);
                    tensor_fp16(c[t][e][1], wave[1], gap[e]);
                }
            }
        }
#pragma unroll
        for (int t = 0; t < 3; t++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                put_rows(to[e / 2][e % 2], 1, 16 * (first + t) + lane / 4, n, lane, scale,
                         c[t][e / 2][e % 2]);
    }
}

/* Lines ky of all images of eight vectors, a warp two images; of an odd number the last one twice.
 * KEPT: X's lines are in `kept`, which stays as it is; else in lines. */
template <bool KEPT>
__global__ void __launch_bounds__(32 * MOST_IMAGES / 2, 2)
    middle_kernel(toeplitz_fp16 h, float to, float coupled, float from, uint4 *lines,
                  const uint4 *kept) {
    const int n = h.n, half = h.N / 2, ky = blockIdx.y, lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, step = image_step(h.N);
    const int tables = toeplitz_tiles(n) * toeplitz_tiles(half) * 64;
    const int image[2] = {2 * warp, min(2 * warp + 1, h.g - 1)};
    uint4 *s = (uint4 *)shared, *table = s + h.g * step;
    const two_lines mine = {s + image[0] * step, (image[1] - image[0]) * step};
    uint4 *line[2][2]; /* re, im; the last one may be the same image twice */
#pragma unroll
    for (int e = 0; e < 4; e++)
        line[e / 2][e % 2] = lines + line_at(h, blockIdx.x, image[e / 2], ky, e % 2);
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const uint4 *in =
            KEPT ? kept + line_at(h, blockIdx.x, image[e / 2], ky, e % 2) : line[e / 2][e % 2];
        for (int x = lane; x < n && (e < 2 || mine.apart > 0); x += 32)
            fetch_async(mine.s + e / 2 * mine.apart + e % 2 * n + x, in + x);
    }
    for (int e = threadIdx.x; e < tables; e += blockDim.x)
        fetch_async(table + e, h.along_x + e);
    stage_commit();
    const uint4 *symbol = h.symbol + (int64_t)ky * half * 128 + lane;
    uint4 a[4], next[4];
#pragma unroll
    for (int f = 0; f < 4; f++)
        a[f] = symbol[(min(warp, half - 1) * 4 + f) * 32];
    stage_wait<0>();
    __syncthreads();
    along_x(h, table, mine, lane, to);
    __syncthreads();
    const int low = toeplitz_low(h.N), low_here = ky < low ? low : 0;
    const uint4 *rest = h.rest + (int64_t)min(ky, low - 1) * low * 128 + lane;
    int k = warp;
    const auto fetch = [&]() {
        for (int f = 0; f < 4; f++)
            next[f] = symbol[(min(k + warps, half - 1) * 4 + f) * 32];
    };
    const auto take = [&]() {
        for (int f = 0; f < 4; f++)
            a[f] = next[f];
    };
    /* the next symbols are in transit while these are used */
    for (; k < low_here; k += warps) {
        fetch();
        couple<true>(h, a, rest + k * 128, s, step, k, lane, coupled);
        take();
    }
    for (; k < half; k += warps) {
        fetch();
        couple<false>(h, a, NULL, s, step, k, lane, coupled);
        take();
    }
    __syncthreads();
    back_x(h, table, mine, line, lane, from);
}

struct columns_job {
    int64_t left;
    float alpha, scale, beta;
    const int *diagonals_from;
    const toeplitz_diagonal *diagonals;
    const __half *x;
    int64_t ldx;
    float *y;
    int64_t ldy;
};

/* A place of the lattice, `row` of its image, to its column of Y, vectors v and v + 1. */
__device__ inline void put_column(const toeplitz_fp16 &h, const columns_job &q, int i, int row,
                                  int64_t v, float a, float b) {
    if (row < 0 || v >= q.left)
        return;
    const bool both = v + 1 < q.left;
    float *to = q.y + (h.first[i] + row) * q.ldy + v;
    a *= q.scale, b *= q.scale;
    for (int k = q.diagonals_from[i]; k < q.diagonals_from[i + 1]; k++) {
        const toeplitz_diagonal d = q.diagonals[k];
        const float f = q.alpha * (float)d.value[row];
        const __half *p = q.x + (h.first[d.row] + row) * q.ldx + v;
        a += f * __half2float(p[0]);
        b += both ? f * __half2float(p[1]) : 0;
    }
    if (q.beta != 0)
        a += q.beta * to[0], b += both ? q.beta * to[1] : 0;
    if (both && (size_t)to % 8 == 0) {
        *(float2 *)to = float2{a, b};
        return;
    }
    to[0] = a;
    if (both)
        to[1] = b;
}

/* Half of the places along x of eight vectors of an image, back along y: two warps a tile of y. */
__global__ void __launch_bounds__(320, 2)
    columns_kernel(toeplitz_fp16 h, columns_job q, const uint4 *__restrict__ lines) {
    const int n = h.n, N = h.N, nt = toeplitz_tiles(n), yt = N / 16, i = blockIdx.y / 2;
    const int lane = threadIdx.x % 32, tile = threadIdx.x / 32 % nt, second = threadIdx.x / 32 / nt;
    const int x0 = blockIdx.y % 2 * width_of(n), width = min(width_of(n), n - x0);
    const int row = width_of(n) | 1;
    uint4 *s = (uint4 *)shared; /* [tile of frequencies, re and im, frequency][row] */
    for (int e = threadIdx.x; e < N * width; e += blockDim.x) {
        const int k = e / width, x = e % width;
        fetch_async(s + k * row + x,
                    lines + x0 + x + line_at(h, blockIdx.x, i, k / 16 * 8 + k % 8, k % 16 / 8));
    }
    uint4 a[2 * TILES];
#pragma unroll
    for (int k = 0; k < 2 * TILES; k++)
        a[k] = k < yt ? h.from_y[(tile * yt + k) * 32 + lane] : uint4{0, 0, 0, 0};
    stage_commit();
    stage_wait<0>();
    __syncthreads();
    const float scale = q.scale * h.scale[1];
    q.scale = scale;
    const int64_t v = 8 * (int64_t)blockIdx.x + 2 * (lane % 4);
    const int y = 16 * tile + lane / 4, *at = h.at + (i * n + y) * n + x0;
    const auto row_of = [&](int x, int below) {
        return y + below < n && x < width ? at[below * n + x] : -1;
    };
    int rows[2] = {row_of(second, 0), row_of(second, 8)};
    for (int x = second; x < width; x += 2) {
        float c[4] = {}, d[4] = {};
        const int next[2] = {row_of(x + 2, 0), row_of(x + 2, 8)}; /* in time for the next place */
#pragma unroll
        for (int k = 0; k < 2 * TILES; k += 2) {
            if (k >= yt)
                break;
            unsigned int b[4];
            load_transposed(b, s + min(16 * k + lane, N - 1) * row + x);
            tensor_fp16(c, a[k], b);
            tensor_fp16(d, a[k + 1], b + 2);
        }
        put_column(h, q, i, rows[0], v, c[0] + d[0], c[1] + d[1]);
        put_column(h, q, i, rows[1], v, c[2] + d[2], c[3] + d[3]);
        rows[0] = next[0], rows[1] = next[1];
    }
}

/* --- launches */

static int64_t vectors(int64_t nvec) {
    return gpu_min(gpu_ceil(nvec, 8) * 8, TOEPLITZ_VECTORS);
}

size_t toeplitz_fp16_work(const toeplitz_fp16 *h, int64_t nvec) {
    return sizeof(__half) * (size_t)vectors(nvec) * h->g * h->N * places_of(h->n);
}

/* Numbers of 16 bytes of the lines of so many vectors. */
static size_t lines_of(const toeplitz_fp16 *h, int64_t nvec) {
    return (size_t)gpu_ceil(nvec, 8) * h->g * h->N * places_of(h->n);
}

size_t toeplitz_fp16_kept(const toeplitz_fp16 *h, int64_t nvec) {
    return sizeof(uint4) * lines_of(h, nvec);
}

status toeplitz_fp16_keep(cudaStream_t stream, const toeplitz_fp16 *h, int64_t nvec,
                          const __half *x, int64_t ldx, uint4 *lines) {
    const unsigned eights = (unsigned)gpu_ceil(nvec, 8), g = h->g;
    const bool aligned = ldx % 8 == 0 && (size_t)x % 16 == 0;
    return toeplitz_launch(stream, dim3(eights, 2 * g), 32 * (h->N / 16), lattice_bytes(h->n),
                           to_lines_kernel, *h, nvec, aligned, (float)scales_of(h).to, x, ldx,
                           lines);
}

/* Up to V vectors; kept: their lines, or NULL. */
static status some(cudaStream_t stream, const toeplitz_fp16 *h, const columns_job *q, uint4 *lines,
                   const uint4 *kept) {
    const scales s = scales_of(h);
    const unsigned eights = (unsigned)gpu_ceil(q->left, 8), g = h->g;
    const int n = h->n, N = h->N;
    if (kept == NULL)
        GPU_TRY(toeplitz_fp16_keep(stream, h, q->left, q->x, q->ldx, lines));
    GPU_TRY(toeplitz_launch(stream, dim3(eights, N / 2), 32 * ((g + 1) / 2), middle_bytes(n, N, g),
                            kept != NULL ? middle_kernel<true> : middle_kernel<false>, *h,
                            (float)s.to, (float)s.coupled, (float)s.from, lines, kept));
    return toeplitz_launch(stream, dim3(eights, 2 * g), 64 * toeplitz_tiles(n), columns_bytes(n, N),
                           columns_kernel, *h, *q, lines);
}

status toeplitz_fp16_apply(cudaStream_t stream, const toeplitz_fp16 *h, const int *diagonals_from,
                           const toeplitz_diagonal *diagonals, int64_t nvec, float alpha,
                           const uint4 *kept, const __half *x, int64_t ldx, float beta, float *y,
                           int64_t ldy, char *work) {
    const int64_t V = vectors(nvec);
    for (int64_t v = 0; v < nvec; v += V) {
        const columns_job q = {gpu_min(V, nvec - v),
                               alpha,
                               alpha / gain(h),
                               beta,
                               diagonals_from,
                               diagonals,
                               x + v,
                               ldx,
                               y + v,
                               ldy};
        GPU_TRY(some(stream, h, &q, (uint4 *)work, kept != NULL ? kept + lines_of(h, v) : NULL));
    }
    return MOAO_OK;
}
