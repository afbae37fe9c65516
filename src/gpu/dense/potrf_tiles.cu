/* Cholesky factor of up to a few thousand rows in one launch: a left-looking method on tiles of 64,
 * driven by the arrival of data.
 *
 * The first thread block to start goes along the diagonal: it factors tile (j, j), eight columns at
 * a time, and solves for tile (j+1, j) below it, whose product with itself goes into the next tile
 * as that is factored. All of it stays in shared memory, nothing on this chain waits for a launch,
 * and its multiprocessor is left to it. All other thread blocks take tasks from a list, column by
 * column:
 *
 * - ahead(j): tiles (j+1, j) and (j+1, j+1) minus their products with the columns before j, in
 *   place: what the chain needs next;
 * - below(i, j): tiles (i, j) and (i+1, j) minus their products with the columns before j, and the
 *   solve with tile (j, j).
 *
 * A task starts with the columns that are there and waits for the others; done[i] counts the final
 * tiles of row i, which come from left to right. Tasks wait only for the chain and for tasks before
 * them in the list, and who comes first is the chain, so that two resident thread blocks are enough
 * to get to the end. The products of a tile are summed in one order: results do not depend on who
 * does what when.
 *
 * Tiles of 128 x 64 live in registers while products are subtracted, with the opposite sign, in the
 * layout of the tensor-core product m16n8k8: warp w has rows 32 (w % 4) on and the tiles of eight
 * columns number w / 4, w / 4 + 2, + 4, + 6. To be solved they move to shared memory. */
#include "potrf_device.cuh"

/* Element (i, j) of the matrix with the opposite sign: zero above the diagonal, identity beyond the
 * end. */
template <class T, bool L>
__device__ inline T negative(const matrix<T, L> &v, int64_t i, int64_t j) {
    return i >= j && i < v.n ? -*v.at(i, j) : i == j ? T(-1) : T(0);
}

/* 128 rows from row i0 of the 64 columns from column j0. */
template <class T, bool L>
__device__ void load_fragments(const matrix<T, L> &v, int64_t i0, int64_t j0, T x[2][4][4]) {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int u = 0; u < 4; u++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[m][u][e] = negative(v, i0 + fragment_row(m, e), j0 + fragment_col(u, e));
}

/* Rows i0 on, columns j0 on of the factor: the 64 MT rows of c (leading dimension lc) solved with
 * the transposed tile on the diagonal; in c and in the matrix. root: one over its diagonal. */
template <int MT, class T, bool L>
__device__ void solve(const matrix<T, L> &v, int64_t i0, int64_t j0, T *c, int lc,
                      const T *diagonal, const T *root) {
    fronts<T, MT>(
        c, lc, diagonal, (const T *)NULL, (T *)NULL,
        [&](int col, int row, front_row<T> p) {
            p = substitute(diagonal + col * (LB + 1), root + col, p);
            store_row(v, i0 + row, j0 + col, p);
            return p;
        },
        [](int) {});
}

/* ---- the chain along the diagonal */

/* On the diagonal of a tile from row `from` on, beyond the end of the matrix. */
template <class T> __device__ void put_identity(T *tile, int from) {
    if (threadIdx.x < NT && (int)threadIdx.x >= from)
        tile[threadIdx.x * (LB + 1)] = T(1);
    __syncthreads();
}

template <class T, bool L> __device__ void chain(const matrix<T, L> &v, T *s, int base, int *info) {
    T *diagonal = s, *extra = s + TILE, *next = s + 2 * TILE, *root = s + 3 * TILE,
      *block = root + NT;
    __shared__ int ahead[2]; /* tile (j+1, j) is ready: seen during an even or odd front */
    __shared__ int loading;  /* 1 + the last tile whose next one is being loaded */
    const int tid = threadIdx.x, helper = tid - CHAIN_HELPER;
    auto load_diagonal = [&](int j, T *to) {
        load_columns<NT, NT, true>(v, (int64_t)j * NT, (int64_t)j * NT, to, LB);
        stage_commit();
    };
    if (tid == 0)
        loading = 0;
    load_diagonal(0, diagonal);
    for (int j = 0; j < v.tiles; j++) {
        const int64_t j0 = (int64_t)j * NT, i0 = j0 + NT;
        const bool more = j + 1 < v.tiles;
        bool started = false;
        stage_wait<0>();
        __syncthreads();
        if (j0 + NT > v.n)
            put_identity(diagonal, (int)(v.n - j0));
        fronts<T, 1>(
            diagonal, LB, diagonal, j > 0 ? extra : NULL, block,
            [&](int c, int row, front_row<T> p) {
                p = eliminate(block, row - c, p);
                store_row(v, j0 + row, j0 + c, p);
                return p;
            },
            /* the tile below as soon as it is there */
            [&](int f) {
                if (more && !started && f > 0 && ahead[~f & 1]) {
                    load_columns<NT, NT>(v, i0, j0, next, LB, helper, 64);
                    started = true;
                    if (helper == 0)
                        loading = j + 1;
                }
                if (helper == 0)
                    ahead[f & 1] = started || j == 0 || (more && look(v.ahead + j));
            });
        if (helper == 32)
            tell(v.done + j, j + 1);
        if (tid < 32)
            find_bad(diagonal, base + (int)j0, info);
        if (!more)
            return;
        if (tid < NT)
            root[tid] = T(1) / diagonal[tid * (LB + 1)];
        if (!ahead[1]) /* not seen until the last front */
            wait_for(v.ahead + j, 1);
        if (loading <= j)
            load_columns<NT, NT>(v, i0, j0, next, LB);
        stage_commit();
        load_diagonal(j + 1, extra);
        stage_wait<1>();
        __syncthreads();
        solve<1>(v, i0, j0, next, LB, diagonal, root);
        if (helper == 32)
            tell(v.done + j + 1, j + 1);
        T *done = diagonal;
        diagonal = extra, extra = next, next = done;
    }
}

/* ---- tasks */

/* x += (128 rows from tile row a) (64 rows from tile row b)', over the first `count` tile columns,
 * as they become final. */
template <class T, bool L>
__device__ void product_as_it_comes(const matrix<T, L> &v, T x[2][4][4], int a, int b, int count,
                                    T *s) {
    __shared__ int final_columns[2];
    const int tid = threadIdx.x, total = count * (NT / SLICE);
    const int *flag = v.done + (tid % 4 == 0 ? b : tid % 4 == 1 || a + 1 >= v.tiles ? a : a + 1);
    int known = 0, issued = 0;
    /* In single precision 64 columns are summed by themselves: a long sum of small products would
     * otherwise get lost in the first, large entry. */
    float part[2][4][4] = {};
    slices<T, L, 2 * NT> rows(v, a, LA);
    slices<T, L, NT> cols(v, b, LB);
    auto issue = [&] {
        T *to = s + issued % STAGES * (SLICE * (LA + LB));
        rows.load(v, to, LA);
        cols.load(v, to + SLICE * LA, LB);
        stage_commit();
        issued++;
    };
    for (int i = 0; i < total; i++) {
        const bool stuck = issued == i; /* nothing to work on: wait; else have a look */
        if (tid < 32 && issued < total && issued / (NT / SLICE) >= known) {
            int least;
            do
                least = __reduce_min_sync(~0u, look(flag));
            while (stuck && least <= issued / (NT / SLICE));
            if (tid == 0)
                final_columns[i & 1] = least;
        } else if (tid == 0)
            final_columns[i & 1] = known;
        if (issued > i + 1)
            stage_wait<1>();
        else
            stage_wait<0>();
        __syncthreads(); /* slice i is there, and nobody works on the one before */
        known = *(volatile int *)&final_columns[i & 1];
        if (stuck) {
            issue();
            stage_wait<0>();
            __syncthreads();
        }
        const T *rows_i = s + i % STAGES * (SLICE * (LA + LB)) + first_row(),
                *cols_i = rows_i - first_row() + SLICE * LA;
#pragma unroll
        for (int k = 0; k < SLICE; k += STEP) {
            if constexpr (sizeof(T) == 8)
                add_product(x, rows_i + k * LA, LA, cols_i + k * LB, LB);
            else
                add_product(part, rows_i + k * LA, LA, cols_i + k * LB, LB);
            if (k == 0) /* between products, whose pipe has enough to do */
                while (issued < total && issued < i + STAGES && issued / (NT / SLICE) < known)
                    issue();
        }
        if constexpr (sizeof(T) == 4)
            if (i % (NT / SLICE) == NT / SLICE - 1)
#pragma unroll
                for (int e = 0; e < 32; e++) {
                    x[e / 16][e / 4 % 4][e % 4] += part[e / 16][e / 4 % 4][e % 4];
                    part[e / 16][e / 4 % 4][e % 4] = 0;
                }
    }
}

/* Tiles (j+1, j) and (j+1, j+1) minus the products with the columns before j. In registers: the
 * first one's transpose, above the second one. */
template <class T, bool L> __device__ void task_ahead(const matrix<T, L> &v, int j, T *s) {
    const int64_t j0 = (int64_t)j * NT, i0 = j0 + NT;
    T x[2][4][4];
    const bool first = threadIdx.x / 32 % 4 < 2; /* rows are its columns */
    const int r0 = fragment_row(0, 0) - (first ? 0 : NT), c0 = fragment_col(0, 0),
              rows = (int)(v.n - i0 < NT ? v.n - i0 : NT);
    const int64_t down = first ? v.cs() : v.rs(), right = first ? v.rs() : v.cs();
    T *corner = v.at(i0, first ? j0 : i0) + r0 * down + c0 * right;
    /* act(entry, place, is it in the triangle) */
    auto each = [&](auto act) {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int r = m * 16 + e / 2 * 8, c = e & 1;
                T *p = corner + r * down + c * right;
#pragma unroll
                for (int u = 0; u < 4; u++, p += 16 * right)
                    act(x[m][u][e], p,
                        first ? c0 + c + 16 * u < rows
                              : r0 + r < rows && r0 + r >= c0 + c + 16 * u);
            }
    };
    each([&](T &entry, T *p, bool here) { entry = here ? -*p : T(0); });
    product_as_it_comes(v, x, j, j + 1, j, s);
    asm volatile("" : "+l"(corner)); /* make the places anew: registers are short in between */
    each([&](T &entry, T *p, bool here) {
        if (here)
            *p = -entry;
    });
    __syncthreads();
    if (threadIdx.x == 0)
        tell(v.ahead + j, 1);
}

/* Tiles (i, j) and (i+1, j) of the factor. */
template <class T, bool L> __device__ void task_below(const matrix<T, L> &v, int i, int j, T *s) {
    const int64_t i0 = (int64_t)i * NT, j0 = (int64_t)j * NT;
    T *c = s, *diagonal = s + NT * LA, *root = diagonal + TILE, x[2][4][4];
    load_fragments(v, i0, j0, x);
    product_as_it_comes(v, x, i, j, j, s);
    wait_for(v.done + j, j + 1);
    load_columns<NT, NT, true>(v, j0, j0, diagonal, LB);
    stage_commit();
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int u = 0; u < 4; u++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                c[fragment_col(u, e) * LA + fragment_row(m, e)] = -x[m][u][e];
    stage_wait<0>();
    __syncthreads();
    if (threadIdx.x < NT)
        root[threadIdx.x] = T(1) / diagonal[threadIdx.x * (LB + 1)];
    solve<2>(v, i0, j0, c, LA, diagonal, root);
    if (threadIdx.x == 0) {
        tell(v.done + i, j + 1);
        if (i + 1 < v.tiles)
            tell(v.done + i + 1, j + 1);
    }
}

template <class T, bool L>
__global__ void __launch_bounds__(THREADS, 1)
    potrf_tiles_kernel(const matrix<T, L> v, int base, int *info) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ int next;
    T *s = (T *)memory;
    int column = 0, before = 0; /* of the list: the first task of this column */
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0)
            next = v.tiles == 1 ? 0 : atomicAdd(v.ticket, 1);
        __syncthreads();
        const int task = next - 1;
        if (task < 0) {
            chain(v, s, base, info);
            return;
        }
        for (;; column++) { /* tasks of a column: ahead, unless it has nothing to do; below */
            const int ahead = column > 0 && column + 1 < v.tiles,
                      below = v.tiles - column - 2 > 0 ? (v.tiles - column - 1) / 2 : 0;
            if (column + 1 >= v.tiles)
                return;
            if (task < before + ahead) {
                task_ahead(v, column, s);
                break;
            }
            if (task < before + ahead + below) {
                task_below(v, column + 2 + 2 * (task - before - ahead), column, s);
                break;
            }
            before += ahead + below;
        }
    }
}

bool potrf_tiles_fits(backend_type t) {
    return SHARED * backend_size(t) <= gpu_shared_most();
}

size_t potrf_tiles_work(int64_t n) {
    return (1 + 2 * (size_t)gpu_ceil(n, NT)) * sizeof(int);
}

template <class T, bool L>
static status launch(cudaStream_t q, int sms, int64_t n, void *a, int64_t lda, int64_t base,
                     int *info, void *work) {
    int *ticket = (int *)work;
    const int tiles = (int)gpu_ceil(n, NT);
    const bool pairs = (size_t)a % 16 == 0 && (size_t)lda * sizeof(T) % 16 == 0;
    const matrix<T, L> v = {(T *)a, lda, n, tiles, ticket + 1, ticket + 1 + tiles, ticket, pairs};
    const auto kernel = potrf_tiles_kernel<T, L>;
    const int64_t most =
        tiles == 1 ? 1 : 1 + (int64_t)tiles * (tiles + 2) / 4; /* the chain, tasks */
    const int blocks = (int)gpu_min(most, sms);
    GPU_TRY(gpu_allow_shared((const void *)kernel, SHARED * sizeof(T)));
    if (tiles > 1)
        CUDA_TRY(cudaMemsetAsync(work, 0, potrf_tiles_work(n), q));
    kernel<<<blocks, THREADS, SHARED * sizeof(T), q>>>(v, (int)base, info);
    LAUNCHED();
    return MOAO_OK;
}

status potrf_tiles(cudaStream_t s, int sms, backend_type t, char uplo, int64_t n, void *a,
                   int64_t lda, int64_t base, int *info, void *work) {
    const bool lower = uplo == 'L';
    if (t == BACKEND_D)
        return (lower ? launch<double, true> : launch<double, false>)(s, sms, n, a, lda, base, info,
                                                                      work);
    return (lower ? launch<float, true> : launch<float, false>)(s, sms, n, a, lda, base, info,
                                                                work);
}
