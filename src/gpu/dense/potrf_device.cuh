/* What the kernel of potrf_tiles.cu is made of: the matrix as it sees it, signals between thread
 * blocks, asynchronous copies, tensor-core products, and a tile taken through its columns eight at
 * a time. */
#ifndef MOAO_GPU_POTRF_DEVICE_CUH
#define MOAO_GPU_POTRF_DEVICE_CUH

#include "gpu/core/device.cuh"
#include "potrf.cuh"

#define NT 64 /* order of a tile */
#define THREADS 256
/* Leading dimensions of 64 and 128 rows in shared memory: fragments come without bank conflicts. */
#define LB (NT + 4)
#define LA (2 * NT + 4)
#define SLICE 32 /* columns that are staged at once */
#define STAGES 3
#define STEP 16 /* columns of a product between which other work is put */
#define FRONT 8 /* columns that are eliminated at once */
#define TILE (NT * LB)
#define SHARED (STAGES * SLICE * (LA + LB)) /* elements of shared memory */
static_assert(SHARED >= NT * LA + TILE + NT && SHARED >= 3 * TILE + NT + FRONT * FRONT,
              "a solve, and the chain");
#define CHAIN_HELPER 64 /* the first of 64 threads of the chain that have no tile to work on */

/* The lower triangle of a matrix, or the upper one seen transposed. */
template <class T, bool LOWER> struct matrix {
    T *a;
    int64_t lda, n;
    int tiles;
    /* What the thread blocks tell each other, all zero at first: final tiles of each tile row; 1
     * where task ahead(j) is done; the next thread block's number, then the next task. */
    int *done, *ahead, *ticket;
    bool pairs;                     /* a and lda allow copies of 16 bytes */
    __device__ int64_t rs() const { /* from row to row */
        return LOWER ? 1 : lda;
    }
    __device__ int64_t cs() const {
        return LOWER ? lda : 1;
    }
    __device__ T *at(int64_t i, int64_t j) const {
        return a + i * rs() + j * cs();
    }
};

/* ---- between thread blocks */

__device__ inline int look(const int *p) {
    int v;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
/* What this thread block has stored before is visible to who sees the value. One thread, after a
 * barrier. */
__device__ inline void tell(int *p, int v) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
/* All threads wait until *p is at least v. */
__device__ inline void wait_for(const int *p, int v) {
    if (threadIdx.x == 0)
        while (look(p) < v)
            __nanosleep(20);
    __syncthreads();
}

/* ---- asynchronous copies into shared memory */

template <class T> __device__ inline unsigned in_shared(T *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
/* One element to address `at` of shared memory, zero unless it is here. */
template <class T> __device__ inline void copy_async(unsigned at, const T *from, bool here) {
    const int bytes = here ? (int)sizeof(T) : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from),
                 "n"((int)sizeof(T)), "r"(bytes));
}

/* Start to load COUNT rows from row i0, COLS columns from column j0, column-major with leading
 * dimension ld; zero for rows that do not exist, and above the diagonal of a LOWER tile. For all
 * threads, or number `thread` of `threads`, a multiple of COUNT and COLS. */
template <int COUNT, int COLS, bool LOWER = false, class T, bool L>
__device__ void load_columns(const matrix<T, L> &v, int64_t i0, int64_t j0, T *s, int ld,
                             int thread = threadIdx.x, int threads = THREADS) {
    const int step = threads / (L ? COUNT : COLS), first = thread / (L ? COUNT : COLS);
    int r = L ? thread % COUNT : first, k = L ? first : thread % COLS;
    const T *p = v.a + (i0 + r) * v.rs() + (j0 + k) * v.cs();
#pragma unroll 1
    for (; L ? k < COLS : r < COUNT; p += step * v.lda) {
        const bool here = i0 + r < v.n && (!LOWER || r >= k);
        copy_async(in_shared(s + r + k * ld), here ? p : v.a, here);
        (L ? k : r) += step;
    }
}

/* Rows of the matrix, SLICE columns at a time from the first one on: this thread's elements, whose
 * addresses cost few registers this way. A column of a lower triangle is copied by 16 bytes where
 * it can be. */
template <class T, bool L, int COUNT> struct slices {
    static const int PACK = 16 / sizeof(T);
    const T *from;
    int64_t step; /* from one element to the next */
    int to, here; /* how many elements exist; bytes of a copy of 16 */
    __device__ slices(const matrix<T, L> &v, int tile, int ld) {
        const int64_t i0 = (int64_t)tile * NT;
        const int rows = (int)(v.n - i0 < COUNT ? v.n - i0 : COUNT); /* that exist */
        if (L && v.pairs) {
            const int r = threadIdx.x % (COUNT / PACK) * PACK, k = threadIdx.x / (COUNT / PACK);
            here = rows <= r ? 0 : (rows - r < PACK ? rows - r : PACK) * (int)sizeof(T);
            from = v.at(here ? i0 + r : 0, k);
            to = r + k * ld;
            step = THREADS / (COUNT / PACK) * v.lda;
        } else {
            const int r = L ? threadIdx.x % COUNT : threadIdx.x / SLICE,
                      k = L ? threadIdx.x / COUNT : threadIdx.x % SLICE;
            here = rows <= r ? 0 : L ? SLICE : (rows - r + THREADS / SLICE - 1) / (THREADS / SLICE);
            from = v.at(here ? i0 + r : 0, k);
            to = r + k * ld;
            step = (L ? THREADS / COUNT : THREADS / SLICE) * v.lda;
        }
    }
    __device__ void load(const matrix<T, L> &v, T *s, int ld) {
        const T *p = from;
        const unsigned at = in_shared(s + to);
        if (L && v.pairs) {
#pragma unroll
            for (int i = 0; i < COUNT / PACK * SLICE / THREADS; i++, p += step)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                                 at + i * (THREADS / (COUNT / PACK)) * ld * (int)sizeof(T)),
                             "l"(p), "r"(here));
        } else {
#pragma unroll
            for (int i = 0; i < COUNT * SLICE / THREADS; i++, p += step)
                copy_async(at + i * (L ? THREADS / COUNT * ld : THREADS / SLICE) * (int)sizeof(T),
                           i < here ? p : from, i < here);
        }
        from += SLICE * v.cs();
    }
};

/* ---- fragments */

__device__ inline int first_row() {
    return threadIdx.x / 32 % 4 * 32;
}
/* This thread's entries: e = 0..3 of row tile m and column tile number u. */
__device__ inline int fragment_row(int m, int e) {
    return first_row() + m * 16 + threadIdx.x % 32 / 4 + e / 2 * 8;
}
__device__ inline int fragment_col(int u, int e) {
    return (2 * u + (int)threadIdx.x / 128) * 8 + threadIdx.x % 4 * 2 + (e & 1);
}

/* x += a b' for this warp's rows of a (32 from the pointer), its column tiles of b, and STEP
 * columns of both (leading dimensions la, lb). */
__device__ inline void add_product(double x[2][4][4], const double *a, int la, const double *b,
                                   int lb) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, half = threadIdx.x / 128;
#pragma unroll
    for (int k = 0; k < STEP; k += 8) {
        double f[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                f[m][i] = a[(k + i / 2 * 4 + t) * la + m * 16 + g + i % 2 * 8];
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const double *p = b + (k + t) * lb + (2 * u + half) * 8 + g, c[] = {p[0], p[4 * lb]};
#pragma unroll
            for (int m = 0; m < 2; m++)
                tensor(x[m][u], f[m], c);
        }
    }
}
__device__ inline void add_product(float x[2][4][4], const float *a, int la, const float *b,
                                   int lb) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, half = threadIdx.x / 128;
#pragma unroll 4
    for (int k = 0; k < STEP; k++) {
        float f[2][2];
#pragma unroll
        for (int m = 0; m < 2; m++)
            f[m][0] = a[k * la + m * 16 + g], f[m][1] = a[k * la + m * 16 + g + 8];
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const float2 c = *(const float2 *)(b + k * lb + (2 * u + half) * 8 + 2 * t);
#pragma unroll
            for (int m = 0; m < 2; m++) {
                x[m][u][0] = fmaf(f[m][0], c.x, x[m][u][0]);
                x[m][u][1] = fmaf(f[m][0], c.y, x[m][u][1]);
                x[m][u][2] = fmaf(f[m][1], c.x, x[m][u][2]);
                x[m][u][3] = fmaf(f[m][1], c.y, x[m][u][3]);
            }
        }
    }
}

/* The same for one tile of eight columns, over FRONT columns. */
template <int MT>
__device__ inline void add_front(double x[MT][4], const double *a, int la, const double *b,
                                 int lb) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const double c[] = {b[t * lb + g], b[(t + 4) * lb + g]};
#pragma unroll
    for (int m = 0; m < MT; m++) {
        double f[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            f[i] = a[(i / 2 * 4 + t) * la + m * 16 + g + i % 2 * 8];
        tensor(x[m], f, c);
    }
}
template <int MT>
__device__ inline void add_front(float x[MT][4], const float *a, int la, const float *b, int lb) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int k = 0; k < FRONT; k++) {
        const float2 c = *(const float2 *)(b + k * lb + 2 * t);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const float a0 = a[k * la + m * 16 + g], a1 = a[k * la + m * 16 + g + 8];
            x[m][0] = fmaf(a0, c.x, x[m][0]), x[m][1] = fmaf(a0, c.y, x[m][1]);
            x[m][2] = fmaf(a1, c.x, x[m][2]), x[m][3] = fmaf(a1, c.y, x[m][3]);
        }
    }
}

/* ---- eight columns at a time */

/* About 22 bits of 1/sqrt(d): for d <= 0, NaN, infinite or below the normal range the result is no
 * finite positive number, and neither is the diagonal entry made with it, which is how a bad pivot
 * is found. */
__device__ inline double rough_inverse_root(double d) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(d));
    return y;
}
__device__ inline float rough_inverse_root(float d) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(d));
    return y;
}

__device__ inline double rough_inverse(double d) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(d));
    return y;
}
__device__ inline float rough_inverse(float d) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(d));
    return y;
}

template <class T> struct front_row { T x[FRONT]; };

/* A pivot d with what its column needs: u about 1/d, 1/d = u + u g, 1/sqrt(d) = root. */
template <class T> struct pivot {
    T u, g, root;
    __device__ explicit pivot(T d) {
        u = rough_inverse(d);
        /* d + 0 u: the root comes after the inverse, on whose way the next pivot waits */
        const T e = gpu_fma(-d, u, T(1)), y = rough_inverse_root(gpu_fma(u, T(0), d)),
                r = gpu_fma(-d, y * y, T(1));
        g = gpu_fma(e, e, e);
        root = gpu_fma(y * r, gpu_fma(T(0.375), r, T(0.5)), y);
    }
    /* a - x^2 / d with the fewest dependent operations: on the way to the next pivot. x^2 by itself
     * would leave the range of numbers when the matrix is far from 1. */
    __device__ T reduce(T a, T x) const {
        const T xu = x * u;
        return gpu_fma(-xu * x, g, gpu_fma(-xu, x, a));
    }
    __device__ T inverse() const {
        return gpu_fma(u, g, u);
    }
};

__device__ inline void load_pair(const double *p, double *x, double *y) {
    const double2 v = *(const double2 *)p;
    *x = v.x, *y = v.y;
}
__device__ inline void load_pair(const float *p, float *x, float *y) {
    const float2 v = *(const float2 *)p;
    *x = v.x, *y = v.y;
}

/* Factor a block of 8 x 8, column-major (as L D L', without roots on the way from pivot to pivot),
 * and solve with its transpose for the row p. Every row does so for itself. No branches: the
 * compiler can schedule other work with it. own: the row of p in the block, if it is one of its
 * eight. Those rows come out as the block has them, bit for bit (the diagonal is its pivot, the
 * rest is made by the same operations): a difference of one rounding would be amplified by the root
 * of the condition number. */
template <class T> __device__ front_row<T> eliminate(const T *block, int own, front_row<T> p) {
    T a[FRONT][FRONT], m[FRONT];
#pragma unroll
    for (int k = 0; k < FRONT; k++)
#pragma unroll
        for (int i = k / 2 * 2; i < FRONT; i += 2)
            load_pair(block + i + k * FRONT, &a[i][k], &a[i + 1][k]);
    __syncwarp(); /* keeps loads out of the chain of operations */
#pragma unroll
    for (int k = 0; k < FRONT; k++) {
        const pivot<T> d(a[k][k]);
        const T z = p.x[k], w = d.inverse();
        p.x[k] = (own == k ? a[k][k] : z) * d.root;
        if (k + 1 < FRONT) /* the next pivot, in the shortest way */
            a[k + 1][k + 1] = d.reduce(a[k + 1][k + 1], a[k + 1][k]);
#pragma unroll
        for (int i = k + 1; i < FRONT; i++) {
            m[i] = a[i][k] * w;
            p.x[i] = gpu_fma(-z, m[i], p.x[i]);
#pragma unroll
            for (int j = k + 1; j <= i; j++)
                if (i > k + 1)
                    a[i][j] = gpu_fma(-a[i][k], m[j], a[i][j]);
        }
    }
    return p;
}

/* Solve with the transposed 8 x 8 triangle l, column-major with leading dimension LB; root: one
 * over its diagonal. */
template <class T> __device__ front_row<T> substitute(const T *l, const T *root, front_row<T> p) {
    T a[FRONT][FRONT], r[FRONT];
#pragma unroll
    for (int k = 0; k < FRONT; k++) {
        if (k % 2 == 0)
            load_pair(root + k, &r[k], &r[k + 1]);
#pragma unroll
        for (int i = k / 2 * 2; i < FRONT; i += 2)
            load_pair(l + i + k * LB, &a[i][k], &a[i + 1][k]);
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < FRONT; k++) {
        p.x[k] *= r[k];
#pragma unroll
        for (int i = k + 1; i < FRONT; i++)
            p.x[i] = gpu_fma(-p.x[k], a[i][k], p.x[i]);
    }
    return p;
}

/* Take the 64 MT rows of the tile c (64 columns, leading dimension lc) in shared memory through its
 * columns, eight at a time. A front of eight columns first loses the product of the final columns
 * to its left with those of l, a tile of leading dimension LB (c itself on the diagonal), and that
 * of `extra` with itself, if there is one; then step(first column, row, p) makes the entries of a
 * row final, in the thread of that number. Four warps subtract, one front ahead but for the columns
 * that are just being made. MT = 1: beside(front) runs in warps 2 and 3 meanwhile. block: where a
 * tile on the diagonal has its next 8 x 8 block, else NULL. A barrier comes last; c must be there,
 * after a barrier. */
template <class T, int MT, class Step, class Beside>
__device__ void fronts(T *c, int lc, const T *l, const T *extra, T *block, Step step,
                       Beside beside) {
    const int tid = threadIdx.x, w = tid / 32, rb = (w - 4) * (16 * MT), g = tid % 32 / 4,
              t = tid % 4;
    T x[MT][4];
    auto place = [&](int f, int m, int e) {
        return c + (f * FRONT + 2 * t + (e & 1)) * lc + rb + m * 16 + g + e / 2 * 8;
    };
    /* all but the product with front f - 1 */
    auto subtract = [&](int f) {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[m][e] = -*place(f, m, e);
        if (extra)
#pragma unroll 4
            for (int q = 0; q < NT; q += FRONT)
                add_front<MT>(x, extra + q * LB + rb, LB, extra + q * LB + f * FRONT, LB);
#pragma unroll 2
        for (int q = 0; q < (f - 1) * FRONT; q += FRONT)
            add_front<MT>(x, c + q * lc + rb, lc, l + q * LB + f * FRONT, LB);
    };
    auto finish = [&](int f) {
        const int q = (f - 1) * FRONT;
        if (f > 0)
            add_front<MT>(x, c + q * lc + rb, lc, l + q * LB + f * FRONT, LB);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = rb + m * 16 + g + e / 2 * 8 - f * FRONT;
                *place(f, m, e) = -x[m][e];
                if (block && row >= 0 && row < FRONT)
                    block[(2 * t + (e & 1)) * FRONT + row] = -x[m][e];
            }
    };
    if (w >= 4) {
        subtract(0);
        finish(0);
    }
#pragma unroll 1
    for (int f = 0; f < NT / FRONT; f++) {
        /* on the diagonal, only the rows from the front on count */
        const bool active =
            w >= 4 && f + 1 < NT / FRONT && (!block || rb + 16 * MT > (f + 1) * FRONT);
        __syncthreads();
        if (tid < NT * MT) {
            front_row<T> p;
            T *own = c + f * FRONT * lc + tid;
#pragma unroll
            for (int k = 0; k < FRONT; k++)
                p.x[k] = own[k * lc];
            p = step(f * FRONT, tid, p);
#pragma unroll
            for (int k = 0; k < FRONT; k++)
                own[k * lc] = p.x[k];
        } else if (active)
            subtract(f + 1);
        else if (w < 4)
            beside(f);
        __syncthreads();
        if (active)
            finish(f + 1);
    }
}

/* Store eight entries of a row of the factor from (i, j) on, as far as the matrix and its triangle
 * go. */
template <class T, bool L>
__device__ inline void store_row(const matrix<T, L> &v, int64_t i, int64_t j,
                                 const front_row<T> &p) {
    const int last = i >= v.n ? -1 : (int)(i - j < FRONT ? i - j : FRONT);
    T *to = v.at(i, j);
#pragma unroll
    for (int k = 0; k < FRONT; k++, to += v.cs())
        if (k <= last)
            *to = p.x[k];
}

/* The first diagonal entry of the factor that is no positive number, or whose pivot is above a
 * quarter of the largest number (its rough inverse is then flushed to zero), is the first bad
 * pivot. One warp. */
template <class T> __device__ void find_bad(const T *tile, int base, int *info) {
    const int lane = threadIdx.x % 32;
    const T huge = T(BACKEND_ROOT_MAX(sizeof(T)));
    int first = NT;
    for (int k = 0; k < NT; k += 32) {
        const T x = tile[(k + lane) * (LB + 1)];
        const unsigned bad = __ballot_sync(~0u, !(x > T(0) && x <= huge));
        if (bad && first == NT)
            first = k + __ffs(bad) - 1;
    }
    if (lane == 0 && first < NT && *info == 0)
        *info = base + first + 1;
}

#endif
