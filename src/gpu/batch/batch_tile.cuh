/* Arithmetic of the batched routines on one tile in shared memory: columns in registers for orders
 * up to 32, tensor-core products, and blocks of order 32. */
#ifndef MOAO_GPU_BATCH_TILE_CUH
#define MOAO_GPU_BATCH_TILE_CUH
#include "batch_device.cuh"
#include <cfloat>

namespace batch {

/* 1 / sqrt(p) of a normal positive p to about one unit in the last place: hardware estimate
 * (relative error e below 2^-20), then one step of third order, y (1 + e/2 + 3 e^2/8). */
__device__ inline double inv_sqrt(double p) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(p));
    double e = fma(-p * y, y, 1.0);
    return fma(y * e, fma(0.375, e, 0.5), y);
}
__device__ inline float inv_sqrt(float p) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(p));
    float e = fmaf(-p * y, y, 1.0f);
    return fmaf(y * e, 0.5f, y);
}
/* Is 1 / sqrt(pivot) that of a positive, normal, finite pivot? The estimate flushes subnormal
 * numbers, so that they give infinity and then NaN, as a pivot of 0 does; an infinite pivot gives 0
 * or NaN. */
__device__ inline bool inverse_ok(double y) {
    return y > 0 && y <= DBL_MAX;
}
__device__ inline bool inverse_ok(float y) {
    return y > 0 && y <= FLT_MAX;
}

/* The following work on one lower triangle of order G in shared memory, column-major with leading
 * dimension LD (a multiple of 16 bytes), padded by the identity beyond its size, by a group of G
 * lanes (l = lane in the group) of a converged warp. `inv` holds the reciprocals of the diagonal. x
 * is one column (one row for a solve from the right) in registers. All reads of L are broadcasts.
 */

/* L x = b: after x_j is known every later entry is updated. */
template <class T, int G>
__device__ inline void solve_lower(T *x, const T *L, int ld, const T *inv) {
    constexpr int V = 16 / sizeof(T);
#pragma unroll
    for (int j = 0; j < G; j++) {
        x[j] *= inv[j];
#pragma unroll
        for (int v = (j + 1) / V * V; v < G; v += V) {
            alignas(16) T c[V];
            vec_load(c, L + j * ld + v);
#pragma unroll
            for (int e = 0; e < V; e++)
                if (v + e > j)
                    x[v + e] -= c[e] * x[j];
        }
        if (j % 8 == 7)
            __syncwarp(); /* bounds how far ahead the compiler loads L, hence the registers */
    }
}

/* L^T x = b: a dot product with the part already known, two partial sums. */
template <class T, int G, int LD>
__device__ inline void solve_lower_trans(T *x, const T *L, const T *inv) {
    constexpr int V = 16 / sizeof(T);
#pragma unroll
    for (int i = G - 1; i >= 0; i--) {
        T s[2] = {x[i], T(0)};
#pragma unroll
        for (int w = 0; w < G / V; w++) {
            const int v = G - V - w * V;
            if (v + V - 1 <= i)
                continue;
            alignas(16) T c[V];
            vec_load(c, L + i * LD + v);
#pragma unroll
            for (int e = V - 1; e >= 0; e--)
                if (v + e > i)
                    s[w & 1] -= c[e] * x[v + e];
        }
        x[i] = (s[0] + s[1]) * inv[i];
        if (i % 8 == 0)
            __syncwarp();
    }
}

/* x := L x */
template <class T, int G, int LD> __device__ inline void mult_lower(T *x, const T *L) {
    constexpr int V = 16 / sizeof(T);
#pragma unroll
    for (int j = G - 1; j >= 0; j--) {
        T xj = x[j];
#pragma unroll
        for (int v = j / V * V; v < G; v += V) {
            alignas(16) T c[V];
            vec_load(c, L + j * LD + v);
#pragma unroll
            for (int e = 0; e < V; e++) {
                if (v + e == j)
                    x[j] = c[e] * xj;
                if (v + e > j)
                    x[v + e] += c[e] * xj;
            }
        }
        if (j % 8 == 0)
            __syncwarp();
    }
}

/* x := L^T x */
template <class T, int G, int LD> __device__ inline void mult_lower_trans(T *x, const T *L) {
    constexpr int V = 16 / sizeof(T);
#pragma unroll
    for (int i = 0; i < G; i++) {
        T s[2] = {T(0), T(0)};
#pragma unroll
        for (int v = i / V * V; v < G; v += V) {
            alignas(16) T c[V];
            vec_load(c, L + i * LD + v);
#pragma unroll
            for (int e = 0; e < V; e++)
                if (v + e >= i)
                    s[(v / V) & 1] += c[e] * x[v + e];
        }
        x[i] = s[0] + s[1];
        if (i % 8 == 7)
            __syncwarp();
    }
}

/* Columns c0 .. c0+N of A = L L^T in place; lane l holds row l in registers, the finished column is
 * broadcast through the place of L in shared memory. Each lane carries its own diagonal, so that
 * the next pivot does not wait for that broadcast. A pivot that is not a positive normal number
 * leaves an `inv` that is not one either (see inverse_ok) and spoils only what follows. The upper
 * triangle of L receives garbage. G: lanes (rows) of the group. */
template <class T, int G, int N, int LD>
__device__ inline void factor_columns(T *L, T *inv, int c0, int l) {
    constexpr int V = 16 / sizeof(T);
    T r[N];
    asm volatile("" : "+r"(l));
    T *s = L + c0 * LD;
#pragma unroll
    for (int c = 0; c < N; c++)
        r[c] = s[c * LD + l];
    T d = L[l * LD + l];
    __syncwarp();
#pragma unroll
    for (int k = 0; k < N; k++) {
        T y = inv_sqrt(__shfl_sync(0xffffffffu, d, c0 + k, G));
        T x = r[k] * y;
        s[k * LD + l] = x;
        if (l == c0 + k)
            inv[c0 + k] = y;
        d -= x * x;
        __syncwarp();
#pragma unroll
        for (int v = (k + 1) / V * V; v < N; v += V) {
            alignas(16) T c[V];
            vec_load(c, s + k * LD + c0 + v);
#pragma unroll
            for (int e = 0; e < V; e++)
                if (v + e > k)
                    r[v + e] -= c[e] * x;
        }
    }
}

/* Column of the identity, for the inverse. */
template <class T, int G> __device__ inline void unit_column(T *x, int l) {
#pragma unroll
    for (int i = 0; i < G; i++)
        x[i] = i == l ? T(1) : T(0);
}
template <class T, int G> __device__ inline void column_load(T *x, const T *s) {
#pragma unroll
    for (int v = 0; v < G; v += 16 / (int)sizeof(T))
        vec_load(x + v, s + v);
}
template <class T, int G> __device__ inline void column_store(T *s, const T *x) {
#pragma unroll
    for (int v = 0; v < G; v += 16 / (int)sizeof(T))
        vec_load(s + v, x + v);
}

/* L x = b and L^T x = b for one vector with entry l in lane l: few right-hand sides. Returns x_l.
 */
template <class T, int G, int LD>
__device__ inline T solve_vector(T b, const T *L, const T *inv, int l) {
    T y = inv[l], x = T(0);
#pragma unroll 8
    for (int j = 0; j < G; j++) {
        T xj = __shfl_sync(0xffffffffu, b * y, j, G);
        x = l == j ? xj : x;
        if (l > j)
            b -= L[j * LD + l] * xj;
    }
    return x;
}
template <class T, int G, int LD>
__device__ inline T solve_vector_trans(T b, const T *L, const T *inv, int l) {
    T y = inv[l], x = T(0);
#pragma unroll 8
    for (int j = G - 1; j >= 0; j--) {
        T xj = __shfl_sync(0xffffffffu, b * y, j, G);
        x = l == j ? xj : x;
        if (l < j)
            b -= L[l * LD + j] * xj;
    }
    return x;
}

/* A 32 x 32 accumulator of one warp, 32 entries a lane, and C += A B (C -= A B: NEG) on blocks in
 * shared memory: A(i, k) at A[i ai + k ak], B(k, j) at B[k bk + j bj]; FP64 through the tensor
 * cores (mma m16n8k8). */
template <class T> struct Acc;

template <bool NEG, class T> __device__ inline T sign(T x) {
    return NEG ? -x : x;
}

/* Products of which less is needed: A lower triangular; only the lower triangle of C; that and A^T
 * with A lower triangular (the square). */
enum { LEFT_LOWER, LOWER_ONLY, SQUARED };

template <> struct Acc<double> {
    double v[32];
    static __device__ int row(int e, int lane) {
        return (e >> 4) * 16 + ((e >> 1) & 1) * 8 + lane / 4;
    }
    static __device__ int col(int e, int lane) {
        return ((e >> 2) & 3) * 8 + 2 * (lane % 4) + (e & 1);
    }
    template <bool NEG = false>
    __device__ void mma(const double *A, int ai, int ak, const double *B, int bk, int bj, int kn,
                        int lane) {
        A += (lane / 4) * ai + (lane % 4) * ak;
        B += (lane % 4) * bk + (lane / 4) * bj;
#pragma unroll 2
        for (int k = 0; k < kn; k += 8) {
            double a[2][4], b[4][2];
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int q = 0; q < 4; q++)
                    a[i][q] = sign<NEG>(A[(i * 16 + (q & 1) * 8) * ai + (k + (q >> 1) * 4) * ak]);
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int q = 0; q < 2; q++)
                    b[j][q] = B[(k + q * 4) * bk + j * 8 * bj];
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    tensor(v + i * 16 + j * 4, a[i], b[j]);
                }
        }
    }
    /* The same for one 32 x 32 x 32 product, without the parts that PART says are zero or not
     * wanted. */
    template <int PART>
    __device__ void mma_part(const double *A, int ai, int ak, const double *B, int bk, int bj,
                             int lane) {
        A += (lane / 4) * ai + (lane % 4) * ak;
        B += (lane % 4) * bk + (lane / 4) * bj;
#pragma unroll
        for (int k = 0; k < 32; k += 8) {
            double b[4][2];
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int q = 0; q < 2; q++)
                    b[j][q] = B[(k + q * 4) * bk + j * 8 * bj];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if ((PART == LEFT_LOWER && k > i * 16 + 15) || (PART == SQUARED && k + 7 < i * 16))
                    continue;
                double a[4];
#pragma unroll
                for (int q = 0; q < 4; q++)
                    a[q] = A[(i * 16 + (q & 1) * 8) * ai + (k + (q >> 1) * 4) * ak];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (PART == LEFT_LOWER || j * 8 <= i * 16 + 15)
                        tensor(v + i * 16 + j * 4, a, b[j]);
            }
        }
    }
};

template <> struct Acc<float> {
    float v[32];
    static __device__ int row(int e, int lane) {
        return (e >> 3) * 8 + lane % 8;
    }
    static __device__ int col(int e, int lane) {
        return (e & 7) * 4 + lane / 8;
    }
    template <bool NEG = false>
    __device__ void mma(const float *A, int ai, int ak, const float *B, int bk, int bj, int kn,
                        int lane) {
        A += (lane % 8) * ai;
        B += (lane / 8) * bj;
#pragma unroll 4
        for (int k = 0; k < kn; k++) {
            float a[4], b[8];
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[i] = sign<NEG>(A[i * 8 * ai + k * ak]);
#pragma unroll
            for (int j = 0; j < 8; j++)
                b[j] = B[k * bk + j * 4 * bj];
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    v[i * 8 + j] = fmaf(a[i], b[j], v[i * 8 + j]);
        }
    }
    template <int PART>
    __device__ void mma_part(const float *A, int ai, int ak, const float *B, int bk, int bj,
                             int lane) {
        mma(A, ai, ak, B, bk, bj, 32, lane);
    }
};

template <class T> __device__ inline void acc_zero(Acc<T> &c) {
#pragma unroll
    for (int e = 0; e < 32; e++)
        c.v[e] = T(0);
}

/* --- one block of order 32 by one warp: FP64 in split FP16 of 16 joined by tensor-core products,
 * which needs half the registers and instructions of one piece; FP32 in one piece. --- */

template <class T> constexpr bool HALVES = sizeof(T) == 8;

/* C += A B (C -= A B: NEG) for MT x NT tiles of 16 x 8 and inner size 16, C(i, j) at C[i ci + j
 * cj]. */
template <int MT, int NT, bool NEG, bool ZERO_C>
__device__ inline void fp16_product(double *C, int ci, int cj, const double *A, int ai, int ak,
                                    const double *B, int bk, int bj, int lane) {
    double c[MT][NT][4];
    A += (lane / 4) * ai + (lane % 4) * ak;
    B += (lane % 4) * bk + (lane / 4) * bj;
    C += (lane / 4) * ci + 2 * (lane % 4) * cj;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                c[i][j][q] =
                    ZERO_C ? 0.0 : C[(i * 16 + (q >> 1) * 8) * ci + (j * 8 + (q & 1)) * cj];
#pragma unroll
    for (int k = 0; k < 16; k += 8) {
        double b[NT][2];
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int q = 0; q < 2; q++)
                b[j][q] = B[(k + q * 4) * bk + j * 8 * bj];
#pragma unroll
        for (int i = 0; i < MT; i++) {
            double a[4];
#pragma unroll
            for (int q = 0; q < 4; q++)
                a[q] = sign<NEG>(A[(i * 16 + (q & 1) * 8) * ai + (k + (q >> 1) * 4) * ak]);
#pragma unroll
            for (int j = 0; j < NT; j++)
                tensor(c[i][j], a, b[j]);
        }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int q = 0; q < 4; q++)
                C[(i * 16 + (q >> 1) * 8) * ci + (j * 8 + (q & 1)) * cj] = c[i][j][q];
    __syncwarp();
}

/* A = L L^T */
template <class T, int LD> __device__ inline void block_factor(T *L, T *inv, int l) {
    if constexpr (HALVES<T>) {
#pragma unroll
        for (int h = 0; h < 32; h += 16) {
            factor_columns<T, 32, 16, LD>(L, inv, h, l);
            __syncwarp();
            if (h == 0)
                fp16_product<1, 2, true, false>(L + 16 * LD + 16, 1, LD, L + 16, 1, LD, L + 16, LD,
                                                1, l);
        }
    } else {
        factor_columns<T, 32, 32, LD>(L, inv, 0, l);
    }
    __syncwarp();
}

/* L := L^-1, zero above the diagonal */
template <class T, int LD> __device__ inline void block_invert(T *L, const T *inv, int l) {
    if constexpr (HALVES<T>) {
        T *D = L + l / 16 * 16 * (LD + 1); /* this half warp's diagonal block */
        alignas(16) T x[16];
        unit_column<T, 16>(x, l % 16);
        solve_lower<T, 16>(x, D, LD, inv + l / 16 * 16);
        __syncwarp();
        column_store<T, 16>(D + l % 16 * LD, x);
#pragma unroll
        for (int i = 0; i < 16; i++)
            x[i] = T(0);
        if (l >= 16)
            column_store<T, 16>(L + l * LD, x);
        __syncwarp();
        T *E = L + 16;
        fp16_product<1, 2, false, true>(E, 1, LD, E, 1, LD, L, 1, LD, l);
        fp16_product<1, 2, true, true>(E, 1, LD, E + 16 * LD, 1, LD, E, 1, LD, l);
    } else {
        alignas(16) T x[32];
        unit_column<T, 32>(x, l);
        solve_lower<T, 32>(x, L, LD, inv);
        __syncwarp();
        column_store<T, 32>(L + l * LD, x);
        __syncwarp();
    }
}

/* Where the parts of a triangle of order 32 lie: its two triangles of order 16 and the square below
 * the first, in a 32 x 32 block of leading dimension N, or on their own. */
template <int N> struct InBlock {
    static constexpr int LD = N, SQUARE_LD = N, SECOND = 16 * (N + 1), BELOW = 16;
};
struct Compact {
    static constexpr int LD = 16, SQUARE_LD = 20, SECOND = 256, BELOW = 512,
                         SIZE = BELOW + 16 * SQUARE_LD;
};

/* s := L^-1 s and L^-T s, 32 columns; lane l works on column l. */
template <class T, int LD, class D = InBlock<LD>>
__device__ inline void block_forward(T *s, const T *L, const T *inv, int l) {
    constexpr int N = HALVES<T> ? 16 : 32;
    alignas(16) T x[N];
    column_load<T, N>(x, s + l * LD);
    solve_lower<T, N>(x, L, D::LD, inv);
    column_store<T, N>(s + l * LD, x);
    __syncwarp();
    if constexpr (HALVES<T>) {
        fp16_product<1, 4, true, false>(s + 16, 1, LD, L + D::BELOW, 1, D::SQUARE_LD, s, 1, LD, l);
        column_load<T, N>(x, s + l * LD + 16);
        solve_lower<T, N>(x, L + D::SECOND, D::LD, inv + 16);
        column_store<T, N>(s + l * LD + 16, x);
        __syncwarp();
    }
}
template <class T, int LD, class D = InBlock<LD>>
__device__ inline void block_backward(T *s, const T *L, const T *inv, int l) {
    constexpr int N = HALVES<T> ? 16 : 32;
    alignas(16) T x[N];
    if constexpr (HALVES<T>) {
        column_load<T, N>(x, s + l * LD + 16);
        solve_lower_trans<T, N, D::LD>(x, L + D::SECOND, inv + 16);
        column_store<T, N>(s + l * LD + 16, x);
        __syncwarp();
        fp16_product<1, 4, true, false>(s, 1, LD, L + D::BELOW, D::SQUARE_LD, 1, s + 16, 1, LD, l);
    }
    column_load<T, N>(x, s + l * LD);
    solve_lower_trans<T, N, D::LD>(x, L, inv);
    column_store<T, N>(s + l * LD, x);
    __syncwarp();
}

/* s := s L^-T, 32 rows; lane l works on row l. */
template <class T, int LD>
__device__ inline void block_forward_rows(T *s, const T *L, const T *inv, int l) {
    constexpr int N = HALVES<T> ? 16 : 32;
#pragma unroll
    for (int h = 0; h < 32; h += N) {
        T x[N];
#pragma unroll
        for (int c = 0; c < N; c++)
            x[c] = s[(h + c) * LD + l];
        solve_lower<T, N>(x, L + h * (LD + 1), LD, inv + h);
#pragma unroll
        for (int c = 0; c < N; c++)
            s[(h + c) * LD + l] = x[c];
        __syncwarp();
        if constexpr (HALVES<T>)
            if (h == 0)
                fp16_product<2, 2, true, false>(s + 16 * LD, 1, LD, s, 1, LD, L + 16, LD, 1, l);
    }
}

} // namespace batch
#endif
