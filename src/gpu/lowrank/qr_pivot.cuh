/* Householder QR of one matrix by one thread block with the columns of each panel chosen: those
 * whose rest is longest come first. Unlike pivoting column by column it costs little; it is enough
 * for what comes after, Jacobi rotations, to converge fast where singular values decay slowly over
 * many decades. */
#ifndef MOAO_GPU_QR_PIVOT_CUH
#define MOAO_GPU_QR_PIVOT_CUH
#include "qr_block.cuh"

namespace lowrank {

/* Columns src[0..nb) become the panel at j; from[k], which were there, go to to[k]. */
struct Choice {
    int src[NB], from[NB], to[NB], moves;
};

/* The nb longest of columns j .. n - 1 (cur: their squares), equal ones by index. */
__device__ inline void choose_columns(Choice &q, const double *cur, int j, int n, int nb) {
    for (int c = j + (int)threadIdx.x; c < n; c += (int)blockDim.x) {
        const double mine = cur[c];
        int before = 0;
#pragma unroll 4
        for (int o = j; o < n; o++)
            before += cur[o] > mine || (cur[o] == mine && o < c);
        if (before < nb)
            q.src[before] = c;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int left = 0, gone = 0;
        for (int c = j; c < j + nb; c++) {
            bool kept = false;
            for (int r = 0; r < nb; r++)
                kept |= q.src[r] == c;
            if (!kept)
                q.from[left++] = c;
        }
        for (int r = 0; r < nb; r++)
            if (q.src[r] >= j + nb)
                q.to[gone++] = q.src[r];
        q.moves = left;
    }
    __syncthreads();
}

/* x[c stride] for the columns c of the choice changes places; by one thread. */
template <class T>
__device__ inline void choice_permute(const Choice &q, T *x, int64_t stride, int j, int nb) {
    T v[NB], w[NB];
#pragma unroll
    for (int r = 0; r < NB; r++) {
        v[r] = r < nb ? x[q.src[r] * stride] : T(0);
        w[r] = r < q.moves ? x[q.from[r] * stride] : T(0);
    }
#pragma unroll
    for (int r = 0; r < NB; r++) {
        if (r < nb)
            x[(j + r) * stride] = v[r];
        if (r < q.moves)
            x[q.to[r] * stride] = w[r];
    }
}

/* cur := squares below row j + nb of the columns right of a finished panel, ref: their value when
 * last made from the column itself. */
template <class T>
__device__ inline void choice_squares(const T *A, int64_t ld, int m, int n, int j, int nb,
                                      double *cur, double *ref, const Block &g) {
    for (int c = j + nb + g.warp; c < n; c += g.warps) {
        const T *x = A + c * ld;
        const double top = g.lane < nb ? (double)x[j + g.lane] : 0.0;
        double rest = cur[c] - warp_sum(top * top);
        if (!(rest > 1e-10 * ref[c])) {
            double s = 0.0;
            for (int i = j + nb + g.lane; i < m; i += 32)
                s += (double)x[i] * (double)x[i];
            rest = warp_sum(s);
            __syncwarp();
            if (g.lane == 0)
                ref[c] = rest;
        }
        __syncwarp();
        if (g.lane == 0)
            cur[c] = rest;
    }
    __syncthreads();
}

/* A P = Q R in place, m >= n, as block_factor; the columns are in descending order and cur holds
 * their squares; ref: n more. at, of each place, is permuted like the columns. g has room for a
 * panel of m rows. */
template <class T>
__device__ __noinline__ void block_factor_pivoted(T *A, int64_t ld, int m, int n, T *tau,
                                                  double *cur, double *ref, int *at,
                                                  const Block &g) {
    static_assert(sizeof(Choice) <= sizeof(double) * FACTOR, "a choice fits the place of a factor");
    Choice &q = *(Choice *)g.gram; /* not in use between panels */
    for (int c = (int)threadIdx.x; c < n; c += (int)blockDim.x)
        ref[c] = cur[c];
    __syncthreads();
    for (int j = 0; j < n; j += NB) {
        const int nb = n - j < NB ? n - j : NB, rows = m - j;
        T *P = A + j + j * ld;
        const Panel<T> s = {(T *)g.panel, conflict_free(rows)};
        choose_columns(q, cur, j, n, nb);
        for (int c = g.warp; c < nb; c += g.warps)
#pragma unroll 4
            for (int i = g.lane; i < rows; i += 32)
                s.p[i + c * s.ld] = A[j + i + q.src[c] * ld];
        for (int i = (int)threadIdx.x; i < j; i += (int)blockDim.x)
            choice_permute(q, A + i, ld, j, nb);
        if (threadIdx.x == blockDim.x - 1) {
            choice_permute(q, cur, 1, j, nb);
            choice_permute(q, ref, 1, j, nb);
            choice_permute(q, at, 1, j, nb);
        }
        __syncthreads();
        for (int k = g.warp; k < q.moves; k += g.warps)
            for (int i = j + g.lane; i < m; i += 32)
                A[i + q.to[k] * ld] = A[i + q.from[k] * ld];
        __syncthreads();
        panel_factor(s.p, s.ld, rows, nb, tau + j, g);
        block_apply<T, true, false>(s.p, s.ld, rows, nb, P + nb * ld, ld, n - j - nb, g);
        panel_out(s, P, ld, rows, nb, g);
        __syncthreads();
        choice_squares(A, ld, m, n, j, nb, cur, ref, g);
    }
}

} // namespace lowrank
#endif
