/* Matrices for the bench of the low-rank routines, made on the device, and errors of results of a
 * few matrices of a batch, measured on the host. */
#ifndef MOAO_BENCH_LOWRANK_DATA_CUH
#define MOAO_BENCH_LOWRANK_DATA_CUH

#include "bench_gpu.cuh"
#include <math.h>

__host__ __device__ static inline double hashed(uint64_t h) { /* uniform in (-1, 1) */
    h *= 0x9E3779B97F4A7C15ull, h ^= h >> 29, h *= 0xBF58476D1CE4E5B9ull, h ^= h >> 32;
    h *= 0x94D049BB133111EBull, h ^= h >> 29;
    return (double)(int64_t)h * 0x1p-63;
}
__device__ static inline double normal(uint64_t h) {
    double s = 0;
    for (int k = 0; k < 12; k++)
        s += hashed(12 * h + k);
    return s / 2;
}

/* G: normal entries. K: exp(-d / 0.3) between the points of two neighbouring unit squares, other
 * points in every matrix; points in the order of a 4 x 4 grid of cells, as a KD tree has them. */
template <class T>
__global__ void fill_entries(T *a, int64_t m, int64_t n, int64_t total, bool covariance) {
    for (int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; e < total;
         e += (int64_t)gridDim.x * blockDim.x) {
        const int64_t b = e / (m * n), i = e % m, j = e / m % n;
        if (!covariance) {
            a[e] = (T)normal((uint64_t)e + 1);
            continue;
        }
        double p[2][2];
        for (int side = 0; side < 2; side++) {
            const int64_t at = side ? j : i, size = side ? n : m, cell = at * 16 / size;
            for (int d = 0; d < 2; d++) {
                const double x = hashed((uint64_t)(((b * 2 + side) * 4096 + at) * 2 + d) + 77);
                p[side][d] = ((double)(d ? cell / 4 : cell % 4) + (x + 1) / 2) / 4;
            }
            p[side][0] += side;
        }
        a[e] = (T)exp(-hypot(p[0][0] - p[1][0], p[0][1] - p[1][1]) / 0.3);
    }
}

/* C: singular values from 1 to 1e-7 in equal ratios between four random reflections on each side; a
 * block makes one matrix. v: as many doubles of shared memory as the longer side has. */
template <class T> __global__ void fill_geometric(T *a, double *work, int64_t m, int64_t n) {
    extern __shared__ double v[];
    __shared__ double norm;
    const int64_t b = blockIdx.x, k = m < n ? m : n;
    double *x = work + b * m * n;
    for (int64_t e = threadIdx.x; e < m * n; e += blockDim.x)
        x[e] = e % m == e / m ? pow(10.0, -7.0 * (double)(e % m) / (double)(k > 1 ? k - 1 : 1)) : 0;
    for (int r = 0; r < 8; r++) {
        const bool left = r % 2 == 0;
        const int64_t len = left ? m : n, other = left ? n : m, si = left ? 1 : m,
                      sj = left ? m : 1;
        __syncthreads();
        for (int64_t i = threadIdx.x; i < len; i += blockDim.x)
            v[i] = normal((uint64_t)((b * 8 + r) * 4096 + i) + 5);
        __syncthreads();
        if (threadIdx.x == 0) {
            norm = 0;
            for (int64_t i = 0; i < len; i++)
                norm += v[i] * v[i];
        }
        __syncthreads();
        for (int64_t j = threadIdx.x; j < other; j += blockDim.x) {
            double f = 0;
            for (int64_t i = 0; i < len; i++)
                f += v[i] * x[i * si + j * sj];
            f *= 2 / norm;
            for (int64_t i = 0; i < len; i++)
                x[i * si + j * sj] -= f * v[i];
        }
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; e < m * n; e += blockDim.x)
        a[b * m * n + e] = (T)x[e];
}

template <class T> static void fill(T *a, char kind, int64_t m, int64_t n, int64_t count) {
    if (kind == 'C') {
        double *work;
        const int64_t per = 256;
        CU(cudaMalloc(&work, (size_t)(per * m * n) * sizeof(double)));
        for (int64_t b = 0; b < count; b += per) {
            fill_geometric<T>
                <<<(unsigned)std::min(per, count - b), 256, (size_t)std::max(m, n) * sizeof(double),
                   stream>>>(a + b * m * n, work, m, n);
            CU(cudaGetLastError());
        }
        CU(cudaStreamSynchronize(stream));
        CU(cudaFree(work));
    } else {
        fill_entries<T><<<2112, 256, 0, stream>>>(a, m, n, m * n * count, kind == 'K');
        CU(cudaGetLastError());
    }
}

/* Columns of a host matrix in double. */
struct Host {
    int64_t m = 0, n = 0;
    std::vector<double> v;
    double at(int64_t i, int64_t j) const {
        return v[(size_t)(i + j * m)];
    }
};
template <class T> static Host fetch(const T *p, int64_t ld, int64_t m, int64_t n) {
    std::vector<T> t((size_t)(ld * n + 1));
    Host h;
    h.m = m, h.n = n, h.v.resize((size_t)(m * n));
    if (n > 0)
        CU(cudaMemcpy(t.data(), p, (size_t)(ld * n) * sizeof(T), cudaMemcpyDeviceToHost));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            h.v[(size_t)(i + j * m)] = t[(size_t)(i + j * ld)];
    return h;
}
/* norm_F(A - U diag(s) V^T) / norm_F(A); s NULL: ones. V given as V (n x r). */
static double residual(const Host &a, const Host &u, const double *s, const Host &v, int64_t r) {
    double off = 0, all = 0;
    std::vector<double> x((size_t)a.m);
    for (int64_t j = 0; j < a.n; j++) {
        for (int64_t i = 0; i < a.m; i++)
            x[i] = a.at(i, j), all += x[i] * x[i];
        for (int64_t p = 0; p < r; p++) {
            const double f = (s ? s[p] : 1) * v.at(j, p);
            for (int64_t i = 0; i < a.m; i++)
                x[i] -= f * u.at(i, p);
        }
        for (double y : x)
            off += y * y;
    }
    return sqrt(off / all);
}
/* Largest entry of U^T U - I over the first r columns. */
static double skew(const Host &u, int64_t r) {
    double w = 0;
    for (int64_t p = 0; p < r; p++)
        for (int64_t q = 0; q <= p; q++) {
            double s = p == q ? -1 : 0;
            for (int64_t i = 0; i < u.m; i++)
                s += u.at(i, p) * u.at(i, q);
            w = !(fabs(s) <= w) ? fabs(s) : w;
        }
    return w;
}
/* Errors of A = Q R, given as LAPACK's reflectors with R above them: norm_F(A - Q R) / norm_F(A)
 * and the largest entry of Q^T Q - I over Q's first min(m, n) columns; the worse of these and of
 * what was there. */
static void factor_errors(const Host &a, const Host &f, const Host &tau, double *off,
                          double *bent) {
    const int64_t m = a.m, n = a.n, k = std::min(m, n);
    Host q, r;
    q.m = m, q.n = k, q.v.resize((size_t)(m * k));
    r.m = n, r.n = k, r.v.resize((size_t)(n * k)); /* transposed */
    for (int64_t j = 0; j < k; j++)
        q.v[(size_t)(j + j * m)] = 1;
    for (int64_t p = k; p-- > 0;)
        for (int64_t j = p; j < k; j++) {
            double *const x = q.v.data() + j * m;
            double s = x[p];
            for (int64_t i = p + 1; i < m; i++)
                s += f.at(i, p) * x[i];
            s *= tau.at(p, 0), x[p] -= s;
            for (int64_t i = p + 1; i < m; i++)
                x[i] -= f.at(i, p) * s;
        }
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < k && i <= j; i++)
            r.v[(size_t)(j + i * n)] = f.at(i, j);
    *off = std::max(*off, residual(a, q, NULL, r, k));
    *bent = std::max(*bent, skew(q, k));
}
static Host transposed(const Host &a) {
    Host t;
    t.m = a.n, t.n = a.m, t.v.resize(a.v.size());
    for (int64_t j = 0; j < a.n; j++)
        for (int64_t i = 0; i < a.m; i++)
            t.v[(size_t)(j + i * a.n)] = a.at(i, j);
    return t;
}

#endif
