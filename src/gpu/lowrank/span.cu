/* Left vectors as far as a cut keeps them: by span.cuh, and by rotations where that is of no use.
 */
#include "lowrank_gpu.h"
#include "span.cuh"

namespace lowrank {
namespace {

/* The order of a class. */
int64_t class_of(int64_t m, int64_t n) {
    const int64_t most = m > n ? m : n;
    return most <= 32 ? 32 : (most + 31) / 32 * 32;
}
/* Not where a large matrix may turn out to have a rank above 64, too large for it: that takes
 * longer than rotations alone; nor where a block has too little shared memory. */
bool span_fits(int64_t order, int64_t most) {
    const bool room = sizeof(double) * SpanPlace<128, 64>::DOUBLES <= gpu_shared_most();
    return order <= (most > 64 || !room ? 96 : 128);
}

/* Places in the workspace: sizes, ranks and infos of what is left to rotations; their own. */
struct SpanLayout {
    int64_t *rows, *cols, *rank;
    int *info;
    double *vectors;
    void *rest;
    size_t used;
    SpanLayout(void *work, int64_t count, int64_t m, int64_t n) {
        Pieces p = {(char *)work, 0};
        const int64_t order = class_of(m, n);
        rows = p.take<int64_t>(count), cols = p.take<int64_t>(count);
        rank = p.take<int64_t>(count), info = p.take<int>(count);
        vectors = p.take<double>(span_fits(order, 0) ? count * order * order : 0);
        rest = work ? (char *)work + p.used : nullptr;
        used = p.used;
    }
};

/* What rotations found, where they were asked. */
__global__ void merge_kernel(const int64_t *rows, const int64_t *left_rank, const int *left_info,
                             int64_t *rank, int *info, int64_t count) {
    const int64_t b = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    batch::wait_for_predecessor();
    if (b < count && rows[b])
        rank[b] = left_rank[b], info[b] = left_info[b];
}

template <class T, int N, int RW> status start(const SpanArgs<T> &a, cudaStream_t s) {
    return batch::launch(span_kernel<T, N, RW>, dim3((unsigned)a.count), BidiagonalGrid<N>::THREADS,
                         sizeof(double) * SpanPlace<N, RW>::DOUBLES, s, a);
}

template <class T>
status span(cudaStream_t s, bool transposed, const batch_cut *cut, int64_t count, batch_dim m,
            batch_dim n, batch_mat a, batch_mat sigma, batch_mat x, int64_t *rank, int *info,
            const SpanLayout &w) {
    SpanArgs<T> k = {};
    k.A = view<T>(a, transposed);
    k.S = view<T>(sigma), k.X = view<T>(x);
    k.m = whole(m), k.n = whole(n);
    k.cut = device_cut(cut);
    k.rank = rank, k.info = info, k.rows = w.rows, k.cols = w.cols, k.count = count,
    k.vectors = w.vectors;
    switch (class_of(m.n, n.n)) {
    case 32:
        return start<T, 32, 32>(k, s);
    case 64:
        return cut->most <= 32 ? start<T, 64, 32>(k, s) : start<T, 64, 64>(k, s);
    case 96:
        return start<T, 96, 64>(k, s);
    default:
        return start<T, 128, 64>(k, s);
    }
}

} // namespace
} // namespace lowrank

size_t lowrank_span_work(backend_type t, int64_t count, int64_t m, int64_t n) {
    return lowrank::SpanLayout(nullptr, count, m, n).used + lowrank_rotate_work(t, count, m, n);
}

status lowrank_span(cudaStream_t s, backend_type t, bool transposed, const batch_cut *cut,
                    int64_t count, batch_dim m, batch_dim n, batch_mat a, batch_mat sigma,
                    batch_mat x, int64_t *rank, int *info, void *work, size_t lwork) {
    const lowrank::SpanLayout w(work, count, m.n, n.n);
    const size_t left = lwork - w.used;
    const bool fits = cut->sweeps_most == 0 && /* else rotations are asked for */
                      lowrank::span_fits(lowrank::class_of(m.n, n.n), cut->most);
    if (fits)
        GPU_TRY(t == BACKEND_D ? lowrank::span<double>(s, transposed, cut, count, m, n, a, sigma, x,
                                                       rank, info, w)
                               : lowrank::span<float>(s, transposed, cut, count, m, n, a, sigma, x,
                                                      rank, info, w));
    const batch_dim rows = fits ? batch_dim{m.n, w.rows} : m,
                    cols = fits ? batch_dim{n.n, w.cols} : n;
    int64_t *const left_rank = fits ? w.rank : rank;
    int *const left_info = fits ? w.info : info;
    const status st = transposed ? lowrank_right_vectors(s, t, cut, count, rows, a, sigma, x,
                                                         left_rank, left_info, w.rest, left)
                                 : lowrank_rotate(s, t, 'U', 'N', cut, count, rows, cols, a, sigma,
                                                  x, x, left_rank, left_info, w.rest, left);
    if (st != MOAO_OK || !fits)
        return st;
    return batch::launch(lowrank::merge_kernel, dim3((unsigned)((count + 127) / 128)), 128, 0, s,
                         (const int64_t *)w.rows, (const int64_t *)w.rank, (const int *)w.info,
                         rank, info, count);
}
