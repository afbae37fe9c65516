/* Householder QR of one matrix by one thread block: panels of 16 columns, whose reflectors act on
 * the rest together (WY form) through FP64 tensor cores; FP32 operands are widened on the way.
 * The matrix lies in shared or in global memory, column-major; in shared memory a leading dimension
 * of 4 modulo 16 keeps the accesses of a half warp in different banks. */
#ifndef MOAO_GPU_QR_BLOCK_CUH
#define MOAO_GPU_QR_BLOCK_CUH
#include "qr_panel.cuh"

namespace lowrank {

/* A column strip of C: element (i, j) at c[i + j ld], or c[j + i ld] if ROWS (C^T is what is
 * stored). */
template <bool ROWS, class T> __device__ inline T &element(T *c, int64_t ld, int i, int j) {
    return ROWS ? c[j + i * ld] : c[i + j * ld];
}

/* Fragments of the update, by whole warps: 16 x 8 accumulators, V^T or V as the left operand. */
template <class T, bool ROWS, bool EDGE>
__device__ inline void strip_products(const T *P, int64_t ldp, T *C, int64_t ldc, int m, int nb,
                                      int nc, int from, int to, double *w, int lane) {
    const int r = lane % 4, c = lane / 4;
#pragma unroll(EDGE ? 1 : 4) /* loads ahead of the chain of products */
    for (int k = from; k < to; k += 8) {
        double a[4], b[2];
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int i = k + r + (q >> 1) * 4, j = c + (q & 1) * 8;
            a[q] = EDGE ? panel_entry(P, ldp, m, nb, i, j) : (double)P[i + j * ldp];
        }
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const int i = k + r + q * 4;
            b[q] = (!EDGE || i < m) && c < nc ? (double)element<ROWS>(C, ldc, i, c) : 0.0;
        }
        tensor(w, a, b);
    }
}
template <class T, bool ROWS, bool EDGE>
__device__ inline void strip_update(const T *P, int64_t ldp, T *C, int64_t ldc, int m, int nb,
                                    int nc, int from, int to, const double (*z)[2], int lane) {
    const int r = lane % 4, c = lane / 4;
    for (int k = from; k < to; k += 16) {
        double x[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int i = k + c + (e >> 1) * 8, j = 2 * r + (e & 1);
            x[e] = (!EDGE || i < m) && j < nc ? (double)element<ROWS>(C, ldc, i, j) : 0.0;
        }
#pragma unroll
        for (int t = 0; t < 2; t++) {
            double a[4];
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int i = k + c + (q & 1) * 8, j = 8 * t + r + (q >> 1) * 4;
                a[q] = EDGE ? panel_entry(P, ldp, m, nb, i, j) : (double)P[i + j * ldp];
            }
            tensor(x, a, z[t]);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int i = k + c + (e >> 1) * 8, j = 2 * r + (e & 1);
            if ((!EDGE || i < m) && j < nc)
                element<ROWS>(C, ldc, i, j) = (T)x[e];
        }
    }
}

/* C := C - V F V^T C, or with F^T (TRANS), on m x nc; V in the panel P, F in g.factor. Warps share
 * the columns and need no barrier among them. */
template <class T, bool TRANS, bool ROWS>
__device__ inline void block_apply(const T *P, int64_t ldp, int m, int nb, T *C, int64_t ldc,
                                   int nc, const Block &g) {
    const int r = g.lane % 4, c = g.lane / 4;
    /* whole rows without the triangle at the top; only a full panel has them */
    const int full = nb == NB && m > NB ? NB + (m - NB) / 16 * 16 : 0;
    double f[2][4];
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int i = c + (q & 1) * 8, k = 8 * t + r + (q >> 1) * 4;
            f[t][q] = -(TRANS ? g.factor[k + i * FLD] : g.factor[i + k * FLD]);
        }
    for (int s = STRIP * g.warp; s < nc; s += STRIP * g.warps) {
        T *x = &element<ROWS>(C, ldc, 0, s);
        const int left = nc - s;
        double w[4] = {}, z[2][2], y[4] = {};
        if (full) {
            strip_products<T, ROWS, true>(P, ldp, x, ldc, m, nb, left, 0, NB, w, g.lane);
            strip_products<T, ROWS, false>(P, ldp, x, ldc, m, nb, left, NB, full, w, g.lane);
        }
        strip_products<T, ROWS, true>(P, ldp, x, ldc, m, nb, left, full, m, w, g.lane);
        /* through shared memory: an accumulator is no right operand */
#pragma unroll
        for (int pass = 0; pass < 2; pass++) {
            const double *v = pass ? y : w;
#pragma unroll
            for (int e = 0; e < 4; e++)
                g.own[c + (e >> 1) * 8 + (2 * r + (e & 1)) * FLD] = v[e];
            __syncwarp();
#pragma unroll
            for (int t = 0; t < 2; t++)
#pragma unroll
                for (int q = 0; q < 2; q++)
                    z[t][q] = g.own[8 * t + r + 4 * q + c * FLD];
            __syncwarp();
            if (pass == 0) {
                tensor(y, f[0], z[0]);
                tensor(y, f[1], z[1]);
            }
        }
        if (full) {
            strip_update<T, ROWS, true>(P, ldp, x, ldc, m, nb, left, 0, NB, z, g.lane);
            strip_update<T, ROWS, false>(P, ldp, x, ldc, m, nb, left, NB, full, z, g.lane);
        }
        strip_update<T, ROWS, true>(P, ldp, x, ldc, m, nb, left, full, m, z, g.lane);
    }
}

/* A panel (m x nb) where it is worked on: in shared memory, if it has room there. */
template <class T> struct Panel {
    T *p;
    int64_t ld;
};
/* VECTORS: only what is below the diagonal, the reflectors; what lies above is not read. */
template <bool VECTORS = false, class T>
__device__ inline void panel_copy(const T *a, int64_t lda, T *b, int64_t ldb, int m, int nb,
                                  const Block &g) {
    for (int j = g.warp; j < nb; j += g.warps)
#pragma unroll 4
        for (int i = (VECTORS ? j + 1 : 0) + g.lane; i < m; i += 32)
            b[i + j * ldb] = a[i + j * lda];
}
template <bool VECTORS = false, class T>
__device__ inline Panel<T> panel_in(T *P, int64_t ld, int m, int nb, const Block &g) {
    if (g.panel == nullptr || m > g.rows)
        return Panel<T>{P, ld};
    const Panel<T> s = {(T *)g.panel, conflict_free(m)};
    panel_copy<VECTORS>(P, ld, s.p, s.ld, m, nb, g);
    __syncthreads();
    return s;
}
template <class T>
__device__ inline void panel_out(const Panel<T> &s, T *P, int64_t ld, int m, int nb,
                                 const Block &g) {
    if (s.p != P)
        panel_copy(s.p, s.ld, P, ld, m, nb, g);
}

/* A = Q R in place, LAPACK's layout; tau has min(m, n) entries. */
template <class T>
__device__ __noinline__ void block_factor(T *A, int64_t ld, int m, int n, T *tau, const Block &g) {
    const int k = m < n ? m : n;
    for (int j = 0; j < k; j += NB) {
        const int nb = k - j < NB ? k - j : NB;
        T *P = A + j + j * ld;
        const Panel<T> s = panel_in(P, ld, m - j, nb, g);
        panel_factor(s.p, s.ld, m - j, nb, tau + j, g);
        block_apply<T, true, false>(s.p, s.ld, m - j, nb, P + nb * ld, ld, n - j - nb, g);
        panel_out(s, P, ld, m - j, nb, g);
        __syncthreads();
    }
}

/* C := op(Q) C, the k reflectors of A (m entries); ROWS: C^T is stored, so that it is multiplied
 * from the right by op(Q)^T. */
template <class T, bool TRANS, bool ROWS>
__device__ __noinline__ void block_multiply(const T *A, int64_t ld, int m, int k, const T *tau,
                                            T *C, int64_t ldc, int nc, const Block &g) {
    const int panels = (k + NB - 1) / NB;
    for (int q = 0; q < panels; q++) {
        const int j = NB * (TRANS ? q : panels - 1 - q), nb = k - j < NB ? k - j : NB;
        const Panel<T> s = panel_in<true>((T *)A + j + j * ld, ld, m - j, nb, g);
        panel_again(s.p, s.ld, m - j, nb, tau + j, g);
        block_apply<T, TRANS, ROWS>(s.p, s.ld, m - j, nb, &element<ROWS>(C, ldc, j, 0), ldc, nc, g);
        __syncthreads();
    }
}

/* The panel's own columns of Q: E - V (F V1^T), V1 the panel's top; column c times flip[c]. A
 * thread takes a row. */
template <class T>
__device__ inline void panel_form(T *P, int64_t ld, int m, int nb, const T *flip, const Block &g) {
    for (int e = (int)threadIdx.x; e < NB * NB; e += (int)blockDim.x) {
        const int i = e % NB, c = e / NB;
        double s = 0.0;
        for (int k = i; k <= c && k < nb; k++)
            s += g.factor[i + k * FLD] * panel_entry(P, ld, m, nb, c, k);
        g.gram[i + c * FLD] = s;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < m; i += (int)blockDim.x) {
        double v[NB];
#pragma unroll
        for (int c = 0; c < NB; c++)
            v[c] = panel_entry(P, ld, m, nb, i, c);
#pragma unroll
        for (int c = 0; c < NB; c++) {
            double s = i == c ? 1.0 : 0.0;
#pragma unroll
            for (int k = 0; k < NB; k++)
                s -= v[k] * g.gram[k + c * FLD];
            if (c < nb)
                P[i + c * ld] = (T)(flip ? s * (double)flip[c] : s);
        }
    }
    __syncthreads();
}

/* A := the first n columns of Q = H_1 ... H_k, in place; columns are multiplied by flip (k entries,
 * 1 or -1) if that is not NULL. */
template <class T>
__device__ __noinline__ void block_form(T *A, int64_t ld, int m, int n, int k, const T *tau,
                                        const T *flip, const Block &g) {
    for (int j = k + g.warp; j < n; j += g.warps)
        for (int i = g.lane; i < m; i += 32)
            A[i + j * ld] = i == j ? T(1) : T(0);
    for (int q = (k + NB - 1) / NB - 1; q >= 0; q--) {
        const int j = NB * q, nb = k - j < NB ? k - j : NB;
        T *P = A + j + j * ld;
        const Panel<T> s = panel_in(P, ld, m - j, nb, g);
        panel_again(s.p, s.ld, m - j, nb, tau + j,
                    g); /* its barriers are also those of the loops */
        block_apply<T, false, false>(s.p, s.ld, m - j, nb, P + nb * ld, ld, n - j - nb, g);
        __syncthreads();
        panel_form(s.p, s.ld, m - j, nb, flip ? flip + j : nullptr, g);
        panel_out(s, P, ld, m - j, nb, g);
        __syncthreads(); /* the panel's place is the next one's */
        for (int e = (int)threadIdx.x; e < j * nb; e += (int)blockDim.x)
            A[e % j + (j + e / j) * ld] = T(0);
    }
    __syncthreads();
}

} // namespace lowrank
#endif
