/* Matrices whose rotations are dealt out over thread blocks: what is kept of a matrix between the
 * kernel that leaves a triangle X, the one that rotates its columns (svd_rotate.cu), and the one
 * that makes values and vectors. */
#ifndef MOAO_GPU_SVD_PLACE_CUH
#define MOAO_GPU_SVD_PLACE_CUH
#include "svd_gram.cuh"
#include "svd_matrix.cuh"

namespace lowrank {

constexpr int WIDE_STATE = 4; /* numbers of a matrix between the kernels */

/* Places of a matrix in the workspace, in bytes; W and L hold the reflectors. */
struct WidePlan {
    int rows, cols, pairs, ldx, ldc; /* pairs: of blocks of columns, side by side */
    int panel;                       /* rows of the longest panel that shared memory has room for */
    int height;                      /* rows that rotations see; 0: as many as there are columns */
    size_t w, l, j, tau, squares, state, ints, slot;
};
template <class T> inline WidePlan wide_plan(int rows, int cols) {
    WidePlan p = {};
    const auto take = [&p](size_t bytes) {
        const size_t at = p.slot;
        p.slot += (bytes + 255) / 256 * 256;
        return at;
    };
    const int full = round_up(cols, Gram::ROWS);
    p.rows = rows, p.cols = cols, p.pairs = (cols + Gram::W - 1) / Gram::W;
    p.ldx = conflict_free(rows > full ? rows : full), p.ldc = conflict_free(cols);
    const size_t all = (size_t)(p.pairs * Gram::W);
    take(sizeof(T) * (size_t)p.ldx * all); /* X */
    p.w = take(sizeof(T) * (size_t)p.ldx * (size_t)cols);
    p.l = take(sizeof(T) * (size_t)p.ldc * (size_t)cols);
    p.j = take(sizeof(T) * (size_t)p.ldc * (size_t)cols);
    p.tau = take(2 * sizeof(T) * (size_t)cols);
    p.squares = take(sizeof(double) * all);
    p.state = take(sizeof(double) * 4);
    p.ints = take(sizeof(int) * (size_t)(rows + cols + WIDE_STATE + SWEEPS));
    return p;
}

/* Before the matrices' places: which task is the next one, and how many matrices are done. */
constexpr size_t WIDE_HEAD = 256;
template <class T> struct WideArgs {
    SvdArgs<T> a;
    WidePlan p;
    unsigned char *work;
    int64_t first, count; /* matrices of the batch that are worked on */
    int *next, *done;
};

/* What is kept of a matrix between the kernels. */
template <class T> struct WidePlace {
    T *X, *W, *L, *J, *tau1, *tau2;
    double *squares, *state; /* squares of each column at their largest; Svd::total */
    int *row, *col;
    int *kept, *shift; /* columns that are rotated; Svd::shift */
    int *over;         /* nothing more to do */
    int *tasks;        /* how many pairs of blocks have been rotated */
    int *moved;        /* of each sweep: was anything rotated? */
};
template <class T>
__device__ inline WidePlace<T> wide_place(const WidePlan &p, unsigned char *work, int64_t slot) {
    unsigned char *const w = work + (size_t)slot * p.slot;
    WidePlace<T> q;
    q.X = (T *)w, q.W = (T *)(w + p.w), q.L = (T *)(w + p.l), q.J = (T *)(w + p.j);
    q.tau1 = (T *)(w + p.tau), q.tau2 = q.tau1 + p.cols;
    q.squares = (double *)(w + p.squares), q.state = (double *)(w + p.state);
    q.kept = (int *)(w + p.ints), q.shift = q.kept + 1, q.over = q.kept + 2;
    q.tasks = q.kept + 3, q.moved = q.kept + WIDE_STATE;
    q.row = q.moved + SWEEPS, q.col = q.row + p.rows;
    return q;
}

/* The first kernel's block of matrix slot blockIdx.x: begin(b, m, n) leaves a triangle, or returns
 * info. */
template <class T, class F>
__device__ inline void wide_first(const WideArgs<T> &w, const WidePlace<T> &q, F begin) {
    const int64_t b = w.first + blockIdx.x;
    const int m = dim_full(w.a.m, b), n = dim_full(w.a.n, b);
    const bool valid = dim_valid(w.a.m, b) && dim_valid(w.a.n, b);
    int info = valid ? 0 : -1;
    for (int i = (int)threadIdx.x; i < SWEEPS; i += (int)blockDim.x)
        q.moved[i] = 0;
    if (threadIdx.x == 0)
        *q.kept = *q.tasks = 0;
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *w.next = *w.done = 0;
    __syncthreads();
    if (valid && m && n)
        info = begin(b, m, n);
    if (threadIdx.x == 0) {
        if (w.a.info)
            w.a.info[b] = info;
        if (w.a.rank && (info || m == 0 || n == 0))
            w.a.rank[b] = 0;
        if (w.a.sweeps)
            w.a.sweeps[b] = 0;
        *q.over = info || m == 0 || n == 0;
    }
}
/* Sweeps that a matrix took, times -1 if `most` did not suffice; 0 where no column was left. */
template <class T> __device__ inline int wide_sweeps(const WidePlace<T> &q, int most) {
    int sweep = 0;
    while (sweep < most && q.moved[sweep])
        sweep++;
    return *q.kept == 0 ? 0 : sweep == most ? -most : sweep + 1;
}

/* Columns of the matrix as it is worked on. */
template <class T> __device__ inline int wide_cols(const WideArgs<T> &w, int64_t b) {
    const int m = dim_full(w.a.m, b), n = dim_full(w.a.n, b);
    return m < n ? m : n;
}

/* Rotates what the first kernel left. */
template <class T> status launch_rotations(const WideArgs<T> &w, cudaStream_t s);

/* run(w) on as many matrices at a time as the workspace holds, and at most `most`. */
template <class T, class F>
status in_chunks(const SvdArgs<T> &a, const WidePlan &p, int64_t most, void *work, size_t lwork,
                 F run) {
    int *const head = (int *)work;
    WideArgs<T> w = {a, p, (unsigned char *)work + WIDE_HEAD, 0, 0, head, head + 1};
    const int64_t room = (int64_t)((lwork - WIDE_HEAD) / p.slot), chunk = room < most ? room : most;
    status st = MOAO_OK;
    for (w.first = 0; w.first < a.count && st == MOAO_OK; w.first += chunk) {
        w.count = a.count - w.first < chunk ? a.count - w.first : chunk;
        st = run(w);
    }
    return st;
}

} // namespace lowrank
#endif
