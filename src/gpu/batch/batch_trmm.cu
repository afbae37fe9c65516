/* Batched B := alpha A B in place, A lower triangular of order 65 to 256, FP64: a product in tiles
 * of 128 x 128 of the result. A thread block takes 128 columns of B and goes through their rows
 * from the last 128 upwards, so that what is overwritten is not read again; slices of A (128 rows,
 * 16 columns) and of B (16 rows, 128 columns) are staged ahead, across tiles and, since a thread
 * block takes one such slab after another, across matrices. */
#include "batch_warp.cuh"

namespace batch {

namespace {
/* Leading dimensions with which 16-byte accesses of the tensor cores' fragments meet no bank twice
 * (see slab_product). */
constexpr int ROWS = 128, COLS = 128, SLICE = 16, ALD = ROWS + 2, BKD = SLICE + 8,
              ASIZE = SLICE * ALD, BSIZE = COLS * BKD, SIZE = ASIZE + BSIZE, THREADS = 256;

/* 128 columns of one matrix's B, and where in them a thread block is: slice q of the row block from
 * i0 on. */
struct Slab {
    int64_t b; /* matrix; `count` or more: there is none left */
    int panel, n, m, i0, q;
    __device__ int j0() const {
        return panel * COLS;
    }
    __device__ int slices() const {
        const int rows = i0 + ROWS < n ? i0 + ROWS : n;
        return (rows + SLICE - 1) / SLICE;
    }
};
/* Slabs of a matrix, largest order; a thread block's steps in matrices and slabs. */
struct Work {
    int panels, n_max, step, step_panels;
};

__device__ inline void slab_step(const Work &w, Slab &s) {
    s.b += w.step, s.panel += w.step_panels;
    if (s.panel >= w.panels)
        s.panel -= w.panels, s.b++;
}
/* The first slab from this one on that has something to do. */
__device__ inline void slab_open(const Args<double> &a, const Work &w, Slab &s) {
#pragma unroll 1
    for (; s.b < a.count; slab_step(w, s)) {
        s.n = dim_part(a.n, s.b), s.m = dim_part(a.m, s.b);
        if (s.n > 0 && s.n > a.lo && s.n <= w.n_max && s.j0() < s.m && !(a.skip && a.skip[s.b]))
            break;
    }
    s.i0 = (s.n - 1) / ROWS * ROWS, s.q = 0;
}
/* The row block above, or the next slab. */
__device__ inline void slab_next(const Args<double> &a, const Work &w, Slab &s) {
    s.q = 0;
    if (s.i0) {
        s.i0 -= ROWS;
    } else {
        slab_step(w, s);
        slab_open(a, w, s);
    }
}
__device__ inline Ref<double> matrix_a(const Args<double> &a, const Slab &s) {
    const int full = dim_full(a.n, s.b);
    return resolve(a.A, s.b, full, full);
}
__device__ inline Ref<double> matrix_b(const Args<double> &a, const Slab &s) {
    return resolve(a.B, s.b, dim_full(a.n, s.b), dim_full(a.m, s.b));
}

/* Element of A at (row, col), 0 outside the triangle. */
__device__ inline void element_of_a(double *s, const double *p, int row, int col, int n,
                                    bool unit) {
    if (unit && row == col)
        *s = 1.0;
    else
        stage(s, p, row < n && col <= row);
}

/* Slice f.q (columns of A, rows of B) an element at a time, zero outside; above the diagonal and,
 * if it is of ones, on it, nothing is read. */
__device__ inline void slice_by_elements(const Args<double> &a, const Slab &f, double *s, int tid) {
    const int k0 = f.q * SLICE;
    { /* A */
        const Ref<double> A = matrix_a(a, f);
        const int i = A.along_i ? tid % ROWS : tid / SLICE,
                  k = A.along_i ? tid / ROWS : tid % SLICE, di = A.along_i ? 0 : THREADS / SLICE,
                  dk = A.along_i ? THREADS / ROWS : 0;
        const double *p = A.at(f.i0 + i, k0 + k);
        const int64_t step = di * A.si + dk * A.sj;
        double *q = s + k * ALD + i;
#pragma unroll 1
        for (int u = 0; u < ROWS * SLICE / THREADS; u++, p += step, q += dk * ALD + di)
            element_of_a(q, p, f.i0 + i + u * di, k0 + k + u * dk, f.n, a.unit);
    }
    const Ref<double> B = matrix_b(a, f);
    const int k = B.along_i ? tid % SLICE : tid / COLS, j = B.along_i ? tid / SLICE : tid % COLS,
              dk = B.along_i ? 0 : THREADS / COLS, dj = B.along_i ? THREADS / SLICE : 0;
    const double *p = B.at(k0 + k, f.j0() + j);
    const int64_t step = dk * B.si + dj * B.sj;
    double *q = s + ASIZE + j * BKD + k;
#pragma unroll 1
    for (int u = 0; u < COLS * SLICE / THREADS; u++, p += step, q += dj * BKD + dk)
        stage(q, p, k0 + k + u * dk < f.n && f.j0() + j + u * dj < f.m);
}

/* What one thread fetches, 16 bytes at a time: four such pieces of a slice of A and four of B. */
struct Pieces {
    static constexpr int LANES_A = ROWS / 2, STEP_A = THREADS / LANES_A, LANES_B = SLICE / 2,
                         STEP_B = THREADS / LANES_B;
    const double *pa, *pb; /* of slice f.q */
    int64_t lda, ldb;
    bool whole; /* the tile lies inside the operands, and they allow it */
    __device__ void open(const Args<double> &a, const Slab &f, int tid) {
        if (f.b >= a.count)
            return;
        const Ref<double> A = matrix_a(a, f), B = matrix_b(a, f);
        whole = f.i0 + ROWS <= f.n && f.j0() + COLS <= f.m && is_wide(A) && is_wide(B);
        pa = A.at(f.i0 + tid % LANES_A * 2, tid / LANES_A), lda = A.sj;
        pb = B.at(tid % LANES_B * 2, f.j0() + tid / LANES_B), ldb = B.sj;
    }
    __device__ void fetch(const Slab &f, double *s, bool unit, int tid) {
        const int r = tid % LANES_A * 2, c = tid / LANES_A;
        const double *p = pa;
        double *q = s + c * ALD + r;
        int below = f.i0 + r - f.q * SLICE - c - unit; /* the diagonal's first wanted element */
#pragma unroll
        for (int u = 0; u < SLICE; u += STEP_A, p += STEP_A * lda, below -= STEP_A)
            if (below >= 0)
                stage_wide(q + u * ALD, p);
            else if (below == -1)
                stage(q + u * ALD + 1, p + 1);
        q = s + ASIZE + tid / LANES_B * BKD + tid % LANES_B * 2, p = pb;
#pragma unroll
        for (int u = 0; u < COLS; u += STEP_B, p += STEP_B * ldb)
            stage_wide(q + u * BKD, p);
        pa += SLICE * lda, pb += SLICE;
    }
};

/* Which rows of 16 of a tile are those of a warp in its upper (0) or lower (1) part: 0, 3, 4, 7 or
 * 1, 2, 5, 6, so that both have as much to do off the diagonal. */
__device__ inline int tile_row(int i, int part) {
    return 2 * i + ((i & 1) ^ part);
}

/* c += A B for 64 x 32 of the result and one slice; DIAGONAL: slice `first` of the tile's diagonal;
 * what lies above it in shared memory does not count. The tensor cores' indices g and g + 8 (rows)
 * stand for rows 2 g and 2 g + 1, and k, k + 4 (of the sum) for 2 k and 2 k + 1: so fragments are
 * read, and the result is written, 16 bytes at a time. */
template <bool DIAGONAL>
__device__ inline void slab_product(double (*c)[4][4], const double *sa, const double *sb, int part,
                                    int first, bool unit, int lane) {
    const int g = lane / 4, k = lane % 4;
    sa += 2 * g + 2 * k * ALD, sb += 2 * k + g * BKD;
#pragma unroll
    for (int h = 0; h < SLICE; h += 8) {
        alignas(16) double x[4], y[4][2];
#pragma unroll
        for (int j = 0; j < 4; j++)
            vec_load(y[j], sb + 8 * j * BKD + h);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = tile_row(i, part);
            if (DIAGONAL && row < first)
                continue;
#pragma unroll
            for (int e = 0; e < 4; e += 2)
                vec_load(x + e, sa + 16 * row + (h + e / 2) * ALD);
            if (DIAGONAL && row == first)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int below = 2 * g + e % 2 - h - 2 * k - e / 2;
                    x[e] = below > 0 ? x[e] : below < 0 ? 0.0 : unit ? 1.0 : x[e];
                }
#pragma unroll
            for (int j = 0; j < 4; j++)
                tensor(c[i][j], x, y[j]);
        }
    }
}

/* alpha c to the warp's rows of the tile from i0 on, columns j1 on of B. */
__device__ inline void result_write(const Ref<double> &B, double (*c)[4][4], double alpha, int i0,
                                    int part, int j1, int n, int m, int lane) {
    const bool inside = i0 + ROWS <= n && j1 + 32 <= m, wide = inside && is_wide(B);
    i0 += 2 * (lane / 4), j1 += 2 * (lane % 4);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int i1 = i0 + 16 * tile_row(i, part);
        double *p = B.at(i1, j1);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                double *q = p + (8 * j + e) * B.sj;
                alignas(16) double x[2] = {alpha * c[i][j][e], alpha * c[i][j][e + 2]};
                if (wide) {
                    vec_load(q, x);
                } else {
#pragma unroll
                    for (int d = 0; d < 2; d++)
                        if (inside || (i1 + d < n && j1 + 8 * j + e < m))
                            q[d * B.si] = x[d];
                }
            }
    }
}

/* Warps w and w + 4 share a scheduler and 32 columns: one fetches while the other works, and the
 * triangle leaves all tensor cores the same work. */
template <int AHEAD>
__global__ void __launch_bounds__(THREADS, 1)
    trmm_kernel(const __grid_constant__ Args<double> a, const Work w) {
    extern __shared__ __align__(16) unsigned char shared[];
    double *s = (double *)shared;
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int part = warp / 4, wj = 32 * (warp % 4);
    wait_for_predecessor();
    Slab f, t; /* what is fetched, what is worked on */
    Pieces pieces = {};
    f.b = blockIdx.x / w.panels, f.panel = blockIdx.x % w.panels;
    slab_open(a, w, f);
    t = f;
    pieces.open(a, f, tid);
    int slot = 0, ready = 0;
    auto fetch = [&] {
        if (f.b < a.count) {
            if (pieces.whole)
                pieces.fetch(f, s + slot, a.unit, tid);
            else
                slice_by_elements(a, f, s + slot, tid);
            if (++f.q == f.slices()) {
                slab_next(a, w, f);
                pieces.open(a, f, tid);
            }
        }
        stage_commit();
        slot = slot + SIZE == AHEAD * SIZE ? 0 : slot + SIZE;
    };
#pragma unroll 1
    for (int q = 0; q < AHEAD - 1; q++)
        fetch();
    while (t.b < a.count) {
        const int slices = t.slices();
        const bool mine = t.j0() + wj < t.m;
        double c[4][4][4] = {};
#pragma unroll 1
        for (int q = 0; q < slices; q++) {
            stage_wait<AHEAD - 2>();
            __syncthreads(); /* this slice is there, and the buffer of the one before it is free */
            const double *sa = s + ready, *sb = s + ready + ASIZE + wj * BKD;
            const int first = q - t.i0 / SLICE;
            ready = ready + SIZE == AHEAD * SIZE ? 0 : ready + SIZE;
#pragma unroll 1
            for (int turn = 0; turn < 2; turn++)
                if (turn == part)
                    fetch();
                else if (mine && first < 0)
                    slab_product<false>(c, sa, sb, part, 0, false, lane);
                else if (mine)
                    slab_product<true>(c, sa, sb, part, first, a.unit, lane);
        }
        /* rows of B above these may still be in transit to shared memory, these are not */
        if (mine)
            result_write(matrix_b(a, t), c, a.alpha, t.i0, part, t.j0() + wj, t.n, t.m, lane);
        slab_next(a, w, t);
    }
    stage_wait<0>();
}

} // namespace

status launch_trmm(const Args<double> &a, int n_max, cudaStream_t s) {
    if (n_max <= 64)
        return launch_trmm_quarters(a, s);
    const int64_t m = a.m.n < a.m.cap ? a.m.n : a.m.cap;
    Work w;
    w.panels = (int)((m + COLS - 1) / COLS), w.n_max = n_max;
    const int64_t slabs = a.count * w.panels, fit = resident(1), blocks = slabs < fit ? slabs : fit;
    w.step = (int)(blocks / w.panels), w.step_panels = (int)(blocks % w.panels);
    const int room = (int)(gpu_shared_most() / (sizeof(double) * SIZE)), ahead = room >= 5   ? 5
                                                                                 : room >= 4 ? 4
                                                                                             : 2;
    return launch(ahead == 5   ? trmm_kernel<5>
                  : ahead == 4 ? trmm_kernel<4>
                               : trmm_kernel<2>,
                  dim3((unsigned)blocks), THREADS, sizeof(double) * (size_t)(ahead * SIZE), s, a,
                  w);
}

} // namespace batch
