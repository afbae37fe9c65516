/* Rotations of the columns of many matrices, dealt out over thread blocks. */
#include "svd_place.cuh"

namespace lowrank {

namespace {

/* Pair p of step 1 .. nb - 1, in which every block (nb, even) occurs once: i with i XOR step for
 * powers of two, else a tournament. */
__device__ inline int2 pair_blocks(int p, int step, int nb) {
    int2 r;
    if ((nb & (nb - 1)) == 0) {
        const int bit = 31 - __clz(step);
        r.x = (p >> bit << (bit + 1)) | (p & ((1 << bit) - 1));
        r.y = r.x ^ step;
    } else {
        const int n = nb - 1;
        r.x = p == 0 ? n : (step + p) % n;
        r.y = (step - p + n) % n;
    }
    return r.x < r.y ? r : int2{r.y, r.x};
}

/* One pair of blocks; whether a rotation was large. */
template <class T>
__device__ inline bool wide_pair(const WidePlace<T> &q, const WidePlan &p, int cols, int2 blocks,
                                 bool within, double *shared) {
    constexpr double eps = SvdRange<T>::EPS, floor = SvdRange<T>::FLOOR;
    const double root = sqrt((double)cols), tol = eps * (root > 10.0 ? root : 10.0);
    const int x = blocks.x * Gram::BLOCK, y = blocks.y * Gram::BLOCK;
    const GramPair<T> pair = {q.X + (int64_t)x * p.ldx, q.X + (int64_t)y * p.ldx, p.ldx,
                              p.height ? p.height : round_up(cols, Gram::ROWS)};
    return gram_rotate(pair, within, pair_bounds(tol, floor * floor, cols), 1024.0 * eps * eps,
                       q.squares + x, q.squares + y, shared);
}

/* The rotations are tasks: sweep after sweep, in each sweep step after step, in which every block
 * of columns of a matrix meets another one, in each step matrix after matrix, all their pairs.
 * Thread blocks take the next one as they become free, so that one may have to wait for another
 * step of its matrix, but never for a task that nobody has begun; matrices converge each at its own
 * time. */
struct WideTask {
    int matrix, sweep, step, pair, blocks; /* blocks: of columns; 0: no more tasks */
};

constexpr int CONVERGED = 1 << 30; /* instead of the number of tasks that are done */

/* What other thread blocks stored before they raised *p is seen. One thread; the others after a
 * barrier. */
__device__ inline int look(const int *p) {
    const int v = *(const volatile int *)p;
    __threadfence();
    return v;
}

/* The next task whose predecessors are done. By one thread. */
template <class T> __device__ inline WideTask take_task(const WideArgs<T> &w) {
    WideTask t;
    const int pairs = w.p.pairs, count = (int)w.count, steps = 2 * pairs - 1;
    for (;;) {
        const int ticket = atomicAdd(w.next, 1);
        t.blocks = 0;
        if (ticket >= count * pairs * steps * w.a.sweeps_most || look(w.done) == count)
            return t;
        t.pair = ticket % pairs;
        t.matrix = ticket / pairs % count;
        t.step = ticket / pairs / count % steps + 1;
        t.sweep = ticket / pairs / count / steps;
        const WidePlace<T> q = wide_place<T>(w.p, w.work, t.matrix);
        t.blocks = 2 * ((*q.kept + Gram::W - 1) / Gram::W);
        if (t.blocks == 0 && t.sweep == 0 && t.pair == 0 && t.step == 1)
            atomicAdd(w.done, 1);
        if (t.pair >= t.blocks / 2 || t.step >= t.blocks)
            continue;
        const int before = (t.sweep * (t.blocks - 1) + t.step - 1) * (t.blocks / 2);
        int now;
        while ((now = look(q.tasks)) < before)
            __nanosleep(100);
        if (now == CONVERGED)
            continue;
        if (t.step > 1 || t.sweep == 0 || q.moved[t.sweep - 1])
            return t;
        if (atomicExch(q.tasks, CONVERGED) != CONVERGED)
            atomicAdd(w.done, 1);
    }
}

template <class T>
__global__ void __launch_bounds__(Gram::THREADS, Gram::BLOCKS)
    wide_rotate_kernel(const __grid_constant__ WideArgs<T> w) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ WideTask task;
    batch::wait_for_predecessor();
    for (;;) {
        if (threadIdx.x == 0)
            task = take_task(w);
        __syncthreads();
        const WideTask t = task;
        if (t.blocks == 0)
            return;
        const WidePlace<T> q = wide_place<T>(w.p, w.work, t.matrix);
        const bool large =
            wide_pair(q, w.p, wide_cols(w, w.first + t.matrix),
                      pair_blocks(t.pair, t.step, t.blocks), t.step == 1, (double *)shared);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            if (large)
                q.moved[t.sweep] = 1;
            __threadfence();
            atomicAdd(q.tasks, 1);
        }
    }
}

} // namespace

template <class T> status launch_rotations(const WideArgs<T> &w, cudaStream_t s) {
    const int64_t most = batch::resident(Gram::BLOCKS), tasks = w.count * w.p.pairs;
    return batch::launch(wide_rotate_kernel<T>, dim3((unsigned)(tasks < most ? tasks : most)),
                         Gram::THREADS, Gram::SHARED, s, w);
}
template status launch_rotations<double>(const WideArgs<double> &, cudaStream_t);
template status launch_rotations<float>(const WideArgs<float> &, cudaStream_t);

} // namespace lowrank
