/* Cholesky panels with one launch per 64 columns.
 *
 * Launch s makes block column s final. A thread block has the 64 rows of the diagonal tile and 32
 * rows below it. It (1) subtracts the product with block column s - 1, (2) factors the diagonal
 * tile -- every thread block does so for itself, which costs no time and saves a launch -- together
 * with its own rows, eight columns at a time. The other thread blocks subtract block column s - 1
 * from 96 x 64 tiles to the right of s: nobody reads those in this launch. The factor of the
 * diagonal tile waits in scratch until the next launch copies it to its place, because other thread
 * blocks may still be reading the old tile.
 *
 * The 96 x 64 entries live in registers, in the layout of the m16n8k4 tensor core product: warp w
 * has rows 16 (w % 6) on and the tiles of eight columns number w / 6, w / 6 + 2, + 4, + 6. Rank-8
 * updates are two products per tile; measured, it is the FP64 arithmetic of one multiprocessor that
 * bounds a step, not latency. */
#include "potrf.cuh"

#define NT POTRF_TILE
#define OWN 32
#define ROWS (NT + OWN)
#define THREADS 384
#define LD                                                                                         \
    100 /* leading dimensions of 96 and 64 rows in shared memory: fragments are read without bank  \
           conflicts */
#define LB 68
#define SHARED (NT * LD + NT * LB) /* elements of shared memory of a step */
#define FRONT 8                    /* columns that are eliminated at once */

template <class T> struct view {
    T *a;
    int64_t rs, cs; /* strides of rows and columns: (1, lda), or (lda, 1) for an upper triangle */
    int64_t rows;   /* order of the matrix: rows beyond do not exist */
    __device__ T &at(int64_t i, int64_t j) const {
        return a[i * rs + j * cs];
    }
};

/* acc -= a b' for 16 rows of a, 8 rows of b and eight columns of both (leading dimensions la, lb).
 */
__device__ inline void subtract8(double acc[4], const double *a, int la, const double *b, int lb) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    double f[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        f[i] = -a[(i / 2 * 4 + t) * la + g + i % 2 * 8];
    const double b0 = b[t * lb + g], b1 = b[(t + 4) * lb + g];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+d"(acc[0]), "+d"(acc[1]), "+d"(acc[2]), "+d"(acc[3])
                 : "d"(f[0]), "d"(f[1]), "d"(f[2]), "d"(f[3]), "d"(b0), "d"(b1));
}

/* The same over 16 columns, with -a of subtract8 loaded before, for several b. */
__device__ inline void load16(double f[8], const double *a, int la) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 8; i++)
        f[i] = -a[(i / 2 * 4 + t) * la + g + i % 2 * 8];
}
__device__ inline void add16(double acc[4], const double f[8], const double *b, int lb) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    double c[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[i] = b[(i * 4 + t) * lb + g];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
                 : "+d"(acc[0]), "+d"(acc[1]), "+d"(acc[2]), "+d"(acc[3])
                 : "d"(f[0]), "d"(f[1]), "d"(f[2]), "d"(f[3]), "d"(f[4]), "d"(f[5]), "d"(f[6]),
                   "d"(f[7]), "d"(c[0]), "d"(c[1]), "d"(c[2]), "d"(c[3]));
}

/* The same entries by plain arithmetic. */
__device__ inline void subtract8(float acc[4], const float *a, int la, const float *b, int lb) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const float a0 = a[k * la + g], a1 = a[k * la + g + 8], b0 = b[k * lb + 2 * t],
                    b1 = b[k * lb + 2 * t + 1];
        acc[0] = fmaf(-a0, b0, acc[0]), acc[1] = fmaf(-a0, b1, acc[1]);
        acc[2] = fmaf(-a1, b0, acc[2]), acc[3] = fmaf(-a1, b1, acc[3]);
    }
}

/* The rows that a thread block works on: 64 from `first`, then `below` on; rows from `end` on do
 * not exist. */
struct row_range {
    int64_t first, below, end;
    int split; /* rows of the first part */
    __device__ int64_t at(int r) const {
        return r < split ? first + r : below + (r - split);
    }
};

template <class T> __device__ inline void copy_async(T *to, const T *from, bool here) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = here ? (int)sizeof(T) : 0; /* the rest is filled with zeros */
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from),
                 "n"((int)sizeof(T)), "r"(bytes));
}

/* Start to load `count` rows (96 or 64) of 64 columns from column j0 into shared memory,
 * column-major; zero for rows that do not exist. */
template <class T, int COUNT>
__device__ void load_columns(const view<T> &v, row_range rows, int64_t j0, T *s, int ld) {
    if (v.rs == 1) {
        const int r = threadIdx.x % COUNT, k0 = threadIdx.x / COUNT, step = THREADS / COUNT;
        const int64_t i = rows.at(r);
        const bool here = i < rows.end;
        const T *p = v.a + (here ? i : 0) + (j0 + k0) * v.cs;
        if (k0 < step)
#pragma unroll 4
            for (int k = k0; k < NT; k += step, p += step * v.cs)
                copy_async(s + r + k * ld, p, here);
    } else {
        const int k = threadIdx.x % NT, r0 = threadIdx.x / NT, step = THREADS / NT;
#pragma unroll 4
        for (int r = r0; r < COUNT; r += step) {
            const int64_t i = rows.at(r);
            const bool here = i < rows.end;
            copy_async(s + r + k * ld, v.a + (here ? i : 0) * v.rs + j0 + k, here);
        }
    }
}

/* This thread's entries of the tiles: e = 0..3 of column tile number u. */
__device__ inline int fragment_row(int e) {
    return (threadIdx.x / 32 % 6) * 16 + threadIdx.x % 32 / 4 + (e / 2) * 8;
}
__device__ inline int fragment_col(int j, int e) {
    return (2 * j + (int)threadIdx.x / 192) * 8 + threadIdx.x % 4 * 2 + (e & 1);
}

/* Entries of 64 columns from j0: zero above the diagonal of the matrix and identity beyond it. */
template <class T>
__device__ void load_fragments(const view<T> &v, row_range rows, int64_t j0, T x[4][4]) {
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
        const int64_t i = rows.at(fragment_row(e));
        const T *p = v.a + i * v.rs + (j0 + fragment_col(0, e)) * v.cs;
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int f = 0; f < 2; f++) {
                const int64_t c = j0 + fragment_col(j, f);
                x[j][e + f] = i >= c && i < rows.end && c < v.rows ? p[(16 * j + f) * v.cs]
                              : i == c                             ? T(1)
                                                                   : T(0);
            }
    }
}

template <class T>
__device__ void store_fragments(const view<T> &v, row_range rows, int64_t j0, const T x[4][4]) {
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int64_t i = rows.at(fragment_row(e)), c = j0 + fragment_col(j, e);
            if (i >= c && i < rows.end && c < v.rows)
                v.at(i, c) = x[j][e];
        }
}

/* x -= a b' over 64 columns: a 96 x 64, b 64 x 64 in shared memory. limit: column tiles from it on
 * are not needed. */
__device__ void subtract_product(double x[4][4], const double *a, const double *b, int lb,
                                 int limit) {
    const int w = threadIdx.x / 32, rb = w % 6 * 16, half = w / 6;
#pragma unroll
    for (int k = 0; k < NT; k += 16) {
        double f[8];
        load16(f, a + k * LD + rb, LD);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (2 * j + half < limit)
                add16(x[j], f, b + k * lb + (2 * j + half) * 8, lb);
    }
}
__device__ void subtract_product(float x[4][4], const float *a, const float *b, int lb, int limit) {
    const int w = threadIdx.x / 32, rb = w % 6 * 16, half = w / 6;
#pragma unroll 2
    for (int k = 0; k < NT; k += 8)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (2 * j + half < limit)
                subtract8(x[j], a + k * LD + rb, LD, b + k * lb + (2 * j + half) * 8, lb);
}

/* Wait for what load_columns has started. */
__device__ inline void loaded() {
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
}

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

template <class T> struct front_row { T x[FRONT]; };

/* A pivot d with what its column needs: u about 1/d, 1/d = u + u g, 1/sqrt(d) = root. */
template <class T> struct pivot {
    T u, g, root;
    __device__ explicit pivot(T d) {
        const T y = rough_inverse_root(d);
        u = y * y;
        const T e = gpu_fma(-d, u, T(1));
        g = gpu_fma(e, e, e);
        root = gpu_fma(y * e, gpu_fma(T(0.375), e, T(0.5)), y);
    }
    /* a - s / d with the fewest dependent operations: on the way to the next pivot */
    __device__ T reduce(T a, T s) const {
        const T su = s * u;
        return gpu_fma(-su, g, a - su);
    }
    __device__ T inverse() const {
        return gpu_fma(u, g, u);
    }
};

/* Factor the block of 8 columns at row c of the front (as L D L', without roots on the way from
 * pivot to pivot), and solve with its transpose for the row p. Every row does so for itself. No
 * branches: the compiler can put other work beside it. own: the row of p in the block, if it is one
 * of its eight. Those rows come out as the block has them, bit for bit (the diagonal is its pivot,
 * the rest is made by the same operations): a difference of one rounding would be amplified by the
 * root of the condition number. */
template <class T>
__device__ front_row<T> eliminate(const T *front, int c, int own, front_row<T> p) {
    T a[FRONT][FRONT], m[FRONT];
#pragma unroll
    for (int k = 0; k < FRONT; k++)
#pragma unroll
        for (int i = k; i < FRONT; i++)
            a[i][k] = front[c + i + k * LD];
#pragma unroll
    for (int k = 0; k < FRONT; k++) {
        const pivot<T> d(a[k][k]);
        const T z = p.x[k], w = d.inverse();
        p.x[k] = (own == k ? a[k][k] : z) * d.root;
        if (k + 1 < FRONT) /* the next pivot, in the shortest way */
            a[k + 1][k + 1] = d.reduce(a[k + 1][k + 1], a[k + 1][k] * a[k + 1][k]);
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

/* Factor the 64 columns held in x, for the first 64 rows and the 32 others. front: 8 x LD, y: 2 x 8
 * x LD in shared memory. The thread of each row hands its eight entries of a step to out(row,
 * column, entries). */
template <class T, class Out> __device__ void factor(T x[4][4], T *front, T *y, Out out) {
    const int tid = threadIdx.x, w = tid / 32, half = w / 6, rb = w % 6 * 16, g = tid % 32 / 4,
              t = tid % 4;
    const int limit = rb < NT ? rb / 8 + 2 : 8; /* column tiles that this warp's rows reach */
    for (int e = tid; e < 2 * FRONT * LD; e += THREADS)
        y[e] = T(0);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll 1
        for (int h = 0; h < 2; h++) { /* the front: tile 2 j + h */
            const int c = 16 * j + 8 * h;
            const T *old = y + (~h & 1) * FRONT * LD;
            T *now = y + h * FRONT * LD;
            if (half == h) {
                if (2 * j + half < limit)
                    subtract8(x[j], old + rb, LD, old + c, LD);
#pragma unroll
                for (int e = 0; e < 4; e++)
                    front[(t * 2 + (e & 1)) * LD + rb + g + e / 2 * 8] = x[j][e];
            }
            __syncthreads();
            if (tid < ROWS) {
                front_row<T> p;
#pragma unroll
                for (int k = 0; k < FRONT; k++)
                    p.x[k] = front[k * LD + tid];
                p = eliminate(front, c, tid - c, p);
#pragma unroll
                for (int k = 0; k < FRONT; k++)
                    now[k * LD + tid] = p.x[k];
                out(tid, c, p);
            }
            if (half == 1 && h == 0 && 2 * j + 1 < limit)
                subtract8(x[j], old + rb, LD, old + (2 * j + 1) * 8, LD);
#pragma unroll
            for (int i = j + 1; i < 4; i++)
                if (2 * i + half < limit)
                    subtract8(x[i], old + rb, LD, old + (2 * i + half) * 8, LD);
            __syncthreads();
        }
}

template <class T> struct scratch_tile {
    T *now;          /* the factor of tile (s, s) goes here, 64 x 64 */
    const T *before; /* that of tile (s-1, s-1), to be copied to its place; NULL: none */
};

/* Position in the triangle of the e-th element of a tile, memory-contiguous for neighbouring e. */
template <class T> __device__ void position(const view<T> &v, int e, int *r, int *c) {
    const int x = e % NT, y = e / NT;
    *r = v.rs != 1 ? y : x;
    *c = v.rs != 1 ? x : y;
}

/* The lower triangle of a finished diagonal tile to its place. */
template <class T> __device__ void place(const view<T> &v, int s, const T *from) {
    for (int e = threadIdx.x; e < NT * NT; e += THREADS) {
        int r, c;
        position(v, e, &r, &c);
        if (r >= c && s * NT + r < v.rows)
            v.at(s * NT + r, s * NT + c) = from[r + c * NT];
    }
}

/* The first diagonal entry of the factor that is no finite positive number is the first bad pivot.
 * One warp. */
template <class T> __device__ void find_bad(const T *tile, int base, int *info) {
    const int lane = threadIdx.x % 32;
    const T huge = sizeof(T) == 8 ? T(1.7976931348623157e308) : T(3.4028234e38);
    int first = NT;
    for (int k = 0; k < NT; k += 32) {
        const T x = tile[(k + lane) * (NT + 1)];
        const unsigned bad = __ballot_sync(~0u, !(x > T(0) && x <= huge));
        if (bad && first == NT)
            first = k + __ffs(bad) - 1;
    }
    if (lane == 0 && first < NT && *info == 0)
        *info = base + first + 1;
}

/* Thread blocks of block column s: the diagonal tile, and 32 rows each below it. */
__host__ __device__ inline int column_blocks(int64_t rows, int s) {
    const int64_t below = rows - (int64_t)(s + 1) * NT;
    return below > 0 ? 1 + (int)((below + OWN - 1) / OWN) : 1;
}
/* Thread blocks that update block column j, 96 rows each. */
__host__ __device__ inline int trail_blocks(int64_t rows, int j) {
    return (int)((rows - (int64_t)j * NT + ROWS - 1) / ROWS);
}

/* The b-th tile to the right of column s: minus the product with column s - 1. */
template <class T> __device__ void trail(const view<T> &v, int s, int b, T *s0, T *s1) {
    T x[4][4];
    int j = s + 1;
    for (; b >= trail_blocks(v.rows, j); j++)
        b -= trail_blocks(v.rows, j);
    const int64_t j0 = (int64_t)j * NT, i0 = j0 + (int64_t)b * ROWS;
    const row_range rows = {i0, i0, v.rows, ROWS}, cols = {j0, j0, v.rows, NT};
    load_fragments(v, rows, j0, x);
    load_columns<T, ROWS>(v, rows, (int64_t)(s - 1) * NT, s0, LD);
    load_columns<T, NT>(v, cols, (int64_t)(s - 1) * NT, s1, LB);
    loaded();
    subtract_product(x, s0, s1, LB, 8);
    store_fragments(v, rows, j0, x);
}

template <class T>
__global__ void __launch_bounds__(THREADS, 1)
    potrf_step(view<T> v, int s, scratch_tile<T> keep, int base, int *info) {
    extern __shared__ __align__(16) unsigned char memory[];
    T *s0 = (T *)memory, *s1 = s0 + NT * LD, x[4][4];
    const int blocks = column_blocks(v.rows, s), b = blockIdx.x, rb = threadIdx.x / 32 % 6 * 16;
    const int64_t j0 = (int64_t)s * NT, below = j0 + NT + (int64_t)(b - 1) * OWN;
    cudaGridDependencySynchronize();
    if (b >= blocks) {
        trail(v, s, b - blocks, s0, s1);
        return;
    }
    const row_range rows = {j0, b > 0 ? below : v.rows, v.rows, NT};
    load_fragments(v, rows, j0, x);
    if (s > 0) {
        load_columns<T, ROWS>(v, rows, j0 - NT, s0, LD);
        loaded();
        subtract_product(x, s0, s0, LD, rb < NT ? rb / 8 + 2 : 8);
    }
    if (b == 0 && keep.before)
        place(v, s - 1, keep.before);
    const int64_t mine =
        threadIdx.x < NT ? v.rows : rows.at(threadIdx.x); /* the row this thread writes below */
    T *to = v.a + mine * v.rs + j0 * v.cs;
    factor(x, s1, s1 + FRONT * LD, [&](int row, int c, const front_row<T> &y) {
        if (b > 0 && mine < v.rows) {
#pragma unroll
            for (int k = 0; k < FRONT; k++)
                to[(c + k) * v.cs] = y.x[k];
        } else if (b == 0 && row < NT) {
#pragma unroll
            for (int k = 0; k < FRONT; k++)
                keep.now[row + (c + k) * NT] = y.x[k];
        }
    });
    if (b == 0 && threadIdx.x < 32)
        find_bad(keep.now, base + s * NT, info);
    if (b == 0 && blocks == 1) /* the end of the matrix: nobody else reads the diagonal tile */
        place(v, s, keep.now);
}

size_t potrf_panel_work(backend_type t) {
    return 2 * NT * NT * backend_size(t);
}

/* Launch so that the next kernel's start overlaps this one's end. */
template <class T>
static status launch_step(cudaStream_t q, int blocks, const view<T> &v, int s,
                          const scratch_tile<T> &tile, int base, int *info) {
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t how = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    how.gridDim = dim3((unsigned)blocks);
    how.blockDim = dim3(THREADS);
    how.dynamicSmemBytes = SHARED * sizeof(T);
    how.stream = q;
    how.attrs = &early;
    how.numAttrs = 1;
    CUDA_TRY(cudaLaunchKernelEx(&how, potrf_step<T>, v, s, tile, base, info));
    return MOAO_OK;
}

template <class T>
static status panel(cudaStream_t q, char uplo, int64_t rows, int64_t cols, bool follows, void *a,
                    int64_t lda, int64_t base, int *info, void *scratch) {
    const view<T> v = {(T *)a, uplo == 'L' ? 1 : lda, uplo == 'L' ? lda : 1, rows};
    const int tile_cols = (int)gpu_ceil(cols, NT);
    T *keep = (T *)scratch;
    CUDA_TRY(cudaFuncSetAttribute(potrf_step<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)(SHARED * sizeof(T))));
    for (int s = 0; s < tile_cols; s++) {
        const int64_t number = base / NT + s; /* tiles take turns in scratch, across panels too */
        const scratch_tile<T> tile = {keep + (number & 1) * NT * NT,
                                      s > 0 || follows ? keep + (~number & 1) * NT * NT : NULL};
        int blocks = column_blocks(rows, s);
        for (int j = s + 1; s > 0 && j < tile_cols; j++)
            blocks += trail_blocks(rows, j);
        GPU_TRY(launch_step(q, blocks, v, s, tile, (int)base, info));
    }
    return MOAO_OK;
}

status potrf_panel(cudaStream_t s, backend_type t, char uplo, int64_t rows, int64_t cols,
                   bool follows, void *a, int64_t lda, int64_t base, int *info, void *scratch) {
    return GPU_DISPATCH_REAL(t, panel, s, uplo, rows, cols, follows, a, lda, base, info, scratch);
}
