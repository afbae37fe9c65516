/* The vendor's ways to the results of the low-rank routines (FP64): sequences of batched calls of
 * cuBLAS and cuSOLVER on the same data. Work and handles are made before anything is timed. */
#ifndef MOAO_BENCH_LOWRANK_VENDOR_CUH
#define MOAO_BENCH_LOWRANK_VENDOR_CUH

#include "lowrank_data.cuh"
#include <cusolverDn.h>
#include <inttypes.h>

static cusolverDnHandle_t solver;
static cusolverDnParams_t params;
static gesvdjInfo_t jacobi;

/* Device memory for the life of the object. */
struct Memory {
    double *p = NULL;
    explicit Memory(int64_t doubles) {
        CU(cudaMalloc(&p, (size_t)std::max<int64_t>(doubles, 1) * sizeof(double)));
    }
    Memory(const Memory &) = delete;
    ~Memory() {
        cudaFree(p);
    }
    operator double *() const {
        return p;
    }
};
/* Pointers to the matrices of a strided batch, on the device. */
struct Pointers {
    double **p;
    Pointers(double *base, int64_t stride, int64_t count) {
        std::vector<double *> h((size_t)count);
        for (int64_t b = 0; b < count; b++)
            h[(size_t)b] = base + b * stride;
        CU(cudaMalloc(&p, (size_t)count * sizeof(double *)));
        CU(cudaMemcpy(p, h.data(), (size_t)count * sizeof(double *), cudaMemcpyHostToDevice));
    }
    Pointers(const Pointers &) = delete;
    ~Pointers() {
        cudaFree(p);
    }
};

static const double ONE = 1, ZERO = 0;

/* c := op(a) op(b), m x n, k inside; strides are those of packed matrices unless given. */
static void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                 int64_t sa, const double *b, int64_t ldb, int64_t sb, double *c, int64_t ldc,
                 int64_t sc, int64_t count) {
    OK(cublasDgemmStridedBatched(
        blas, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, (int)m, (int)n,
        (int)k, &ONE, a, (int)lda, sa, b, (int)ldb, sb, &ZERO, c, (int)ldc, sc, (int)count));
}

static __global__ void clear_below(double *g, int64_t n, int64_t total) {
    for (int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; e < total;
         e += (int64_t)gridDim.x * blockDim.x)
        if (e % n > e / n % n)
            g[e] = 0;
}

/* Cholesky factor of the Gram matrix of columns: R in the upper triangle of g. */
struct GramFactor {
    int64_t m, n, count;
    double *a, *g;
    Pointers pa, pg;
    Memory info;
    GramFactor(double *a_, double *g_, int64_t m_, int64_t n_, int64_t count_)
        : m(m_), n(n_), count(count_), a(a_), g(g_), pa(a_, m_ * n_, count_),
          pg(g_, n_ * n_, count_), info(count_) {
    }
    void factor() {
        gemm(true, false, n, n, m, a, m, m * n, a, m, m * n, g, n, n * n, count);
        OK(cusolverDnDpotrfBatched(solver, CUBLAS_FILL_MODE_UPPER, (int)n, pg.p, (int)n,
                                   (int *)info.p, (int)count));
    }
    /* zeros below R, for products with it */
    void clear() {
        clear_below<<<1056, 256, 0, stream>>>(g, n, n * n * count);
    }
    /* a := a R^-1 */
    void solve() {
        OK(cublasDtrsmBatched(blas, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N,
                              CUBLAS_DIAG_NON_UNIT, (int)m, (int)n, &ONE, pg.p, (int)n, pa.p,
                              (int)m, (int)count));
    }
};

/* CholeskyQR2: a := Q; r := R2 R1. */
struct CholeskyQr2 {
    GramFactor first, second;
    double *r;
    Pointers pr;
    CholeskyQr2(double *a, double *g1, double *g2, double *r_, int64_t m, int64_t n, int64_t count)
        : first(a, g1, m, n, count), second(a, g2, m, n, count), r(r_), pr(r_, n * n, count) {
    }
    void run() {
        const int64_t n = first.n, count = first.count;
        first.factor(), first.solve(), second.factor(), second.solve();
        first.clear(), second.clear();
        gemm(false, false, n, n, n, second.g, n, n * n, first.g, n, n * n, r, n, n * n, count);
    }
};

/* gesvdaStridedBatched: the first `rank` triplets, of m x n with m >= n. */
struct Gesvda {
    int64_t m, n, rank, count;
    double *a, *s, *u, *v;
    cusolverEigMode_t mode;
    int lwork = 0;
    Memory *work = NULL, info;
    Gesvda(double *a_, double *s_, double *u_, double *v_, int64_t m_, int64_t n_, int64_t rank_,
           int64_t count_, bool vectors = true)
        : m(m_), n(n_), rank(rank_), count(count_), a(a_), s(s_), u(u_), v(v_),
          mode(vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR), info(count_) {
        OK(cusolverDnDgesvdaStridedBatched_bufferSize(solver, mode, (int)rank, (int)m, (int)n, a,
                                                      (int)m, m * n, s, n, u, (int)m, m * n, v,
                                                      (int)n, n * n, &lwork, (int)count));
        work = new Memory(lwork);
    }
    ~Gesvda() {
        delete work;
    }
    void run() {
        OK(cusolverDnDgesvdaStridedBatched(solver, mode, (int)rank, (int)m, (int)n, a, (int)m,
                                           m * n, s, n, u, (int)m, m * n, v, (int)n, n * n, *work,
                                           lwork, (int *)info.p, NULL, (int)count));
    }
};

/* gesvdjBatched: order up to 32. */
struct Gesvdj {
    int64_t m, n, count;
    double *a, *s, *u, *v;
    cusolverEigMode_t mode;
    int lwork = 0;
    Memory *work = NULL, info;
    Gesvdj(double *a_, double *s_, double *u_, double *v_, int64_t m_, int64_t n_, int64_t count_,
           bool vectors)
        : m(m_), n(n_), count(count_), a(a_), s(s_), u(u_), v(v_),
          mode(vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR), info(count_) {
        OK(cusolverDnDgesvdjBatched_bufferSize(solver, mode, (int)m, (int)n, a, (int)m, s, u,
                                               (int)m, v, (int)n, &lwork, jacobi, (int)count));
        work = new Memory(lwork);
    }
    ~Gesvdj() {
        delete work;
    }
    void run() {
        OK(cusolverDnDgesvdjBatched(solver, mode, (int)m, (int)n, a, (int)m, s, u, (int)m, v,
                                    (int)n, *work, lwork, (int *)info.p, jacobi, (int)count));
    }
};

/* s := sqrt(w) in descending order, u := columns divided by it, columns of v in that order */
static __global__ void from_eigen(const double *w, const double *x, const double *av, double *s,
                                  double *u, double *v, int64_t m, int64_t n) {
    const int64_t b = blockIdx.x;
    for (int64_t e = threadIdx.x; e < m * n; e += blockDim.x) {
        const int64_t j = e / m, from = n - 1 - j;
        const double sigma = sqrt(fmax(w[b * n + from], 0.0));
        u[b * m * n + e] = av[b * m * n + e % m + from * m] / sigma;
        if (e % m == 0)
            s[b * n + j] = sigma;
    }
    for (int64_t e = threadIdx.x; e < n * n; e += blockDim.x)
        v[b * n * n + e] = x[b * n * n + e % n + (n - 1 - e / n) * n];
}

/* Eigenvectors of A^T A: gemm, XsyevBatched, gemm, scaling. */
struct Eigen {
    int64_t m, n, count;
    double *a, *s, *u, *v;
    Memory g, w, av, info;
    void *work = NULL;
    std::vector<char> host;
    size_t bytes = 0, bytes_host = 0;
    Eigen(double *a_, double *s_, double *u_, double *v_, int64_t m_, int64_t n_, int64_t count_)
        : m(m_), n(n_), count(count_), a(a_), s(s_), u(u_), v(v_), g(n_ * n_ * count_),
          w(n_ * count_), av(m_ * n_ * count_), info(count_) {
        OK(cusolverDnXsyevBatched_bufferSize(
            solver, params, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, CUDA_R_64F, g, n,
            CUDA_R_64F, w, CUDA_R_64F, &bytes, &bytes_host, count));
        CU(cudaMalloc(&work, bytes + 1));
        host.resize(bytes_host + 1);
    }
    ~Eigen() {
        cudaFree(work);
    }
    void run() {
        gemm(true, false, n, n, m, a, m, m * n, a, m, m * n, g, n, n * n, count);
        OK(cusolverDnXsyevBatched(solver, params, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER,
                                  n, CUDA_R_64F, g, n, CUDA_R_64F, w, CUDA_R_64F, work, bytes,
                                  host.data(), bytes_host, (int *)info.p, count));
        gemm(false, false, m, n, n, a, m, m * n, g, n, n * n, av, m, m * n, count);
        from_eigen<<<(unsigned)count, 256, 0, stream>>>(w, g, av, s, u, v, m, n);
    }
};

/* gesvdj of single matrices on 16 streams, as the published work compares itself: only the first
 * STREAMS matrices of a batch. */
struct Streams {
    enum { STREAMS = 16 };
    int64_t m, n;
    double *a, *s, *u, *v;
    int lwork = 0;
    Memory *work = NULL, info;
    cudaStream_t stream_of[STREAMS];
    cusolverDnHandle_t handle[STREAMS];
    cudaEvent_t start, end[STREAMS];
    Streams(double *a_, double *s_, double *u_, double *v_, int64_t m_, int64_t n_)
        : m(m_), n(n_), a(a_), s(s_), u(u_), v(v_), info(STREAMS) {
        CU(cudaEventCreate(&start));
        for (int k = 0; k < STREAMS; k++) {
            CU(cudaStreamCreateWithFlags(stream_of + k, cudaStreamNonBlocking));
            CU(cudaEventCreate(end + k));
            OK(cusolverDnCreate(handle + k));
            OK(cusolverDnSetStream(handle[k], stream_of[k]));
        }
        OK(cusolverDnDgesvdj_bufferSize(handle[0], CUSOLVER_EIG_MODE_VECTOR, 1, (int)m, (int)n, a,
                                        (int)m, s, u, (int)m, v, (int)n, &lwork, jacobi));
        work = new Memory((int64_t)lwork * STREAMS);
    }
    ~Streams() {
        for (int k = 0; k < STREAMS; k++) {
            cusolverDnDestroy(handle[k]);
            cudaEventDestroy(end[k]), cudaStreamDestroy(stream_of[k]);
        }
        cudaEventDestroy(start);
        delete work;
    }
    /* The main stream waits for all; a thread for each, because the routine waits on the host. */
    void run() {
        CU(cudaEventRecord(start, stream));
#pragma omp parallel for num_threads(STREAMS)
        for (int k = 0; k < STREAMS; k++) {
            CU(cudaStreamWaitEvent(stream_of[k], start, 0));
            OK(cusolverDnDgesvdj(handle[k], CUSOLVER_EIG_MODE_VECTOR, 1, (int)m, (int)n,
                                 a + k * m * n, (int)m, s + k * n, u + k * m * n, (int)m,
                                 v + k * n * n, (int)n, work->p + (int64_t)k * lwork, lwork,
                                 (int *)info.p + k, jacobi));
            CU(cudaEventRecord(end[k], stream_of[k]));
        }
        for (int k = 0; k < STREAMS; k++)
            CU(cudaStreamWaitEvent(stream, end[k], 0));
    }
};

#endif
