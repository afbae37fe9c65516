/* Matrices for the bench of tile low-rank algebra, made on the device: squared exponential
 * covariances of scattered points, and Cmm of a system with rows and columns in the order of the
 * tiles. */
#ifndef MOAO_BENCH_TLR_DATA_CUH
#define MOAO_BENCH_TLR_DATA_CUH

#include "backend/backend_matcov.h"
#include "bench_gpu.cuh"
#include "moao/tlr.h"
#include <math.h>

/* --- points --- */

struct Points {
    int64_t n;
    tlr_layout layout;
    double *at;            /* [2 n] positions in the order of the tiles, on the device */
    double length, nugget; /* of exp(-(d / length)^2), and on the diagonal */
};

static inline Points make_points(int64_t n, int64_t b, double length, double nugget) {
    Points p = {n, {}, NULL, length, nugget};
    std::vector<double> x(n), y(n), at(2 * n);
    const int64_t side = (int64_t)ceil(sqrt((double)n));
    uint64_t s = 1;
    auto uniform = [&s]() {
        s = s * 6364136223846793005u + 1442695040888963407u;
        return (double)(s >> 11) * 0x1p-53;
    };
    for (int64_t i = 0; i < n; i++) {
        x[i] = ((double)(i % side) + 0.8 * uniform()) / (double)side;
        y[i] = ((double)(i / side) + 0.8 * uniform()) / (double)side;
    }
    const int64_t start[2] = {0, n};
    tlr_points points = {1, start, x.data(), y.data(), 1};
    OK(tlr_layout_points(&points, b, TLR_KD, &p.layout));
    for (int64_t i = 0; i < n; i++) {
        at[2 * i] = x[p.layout.perm[i]];
        at[2 * i + 1] = y[p.layout.perm[i]];
    }
    p.at = (double *)bench_alloc(sizeof(double) * 2 * n);
    CU(cudaMemcpy(p.at, at.data(), sizeof(double) * 2 * n, cudaMemcpyHostToDevice));
    return p;
}

static inline void free_points(Points *p) {
    CU(cudaFree(p->at));
    tlr_layout_free(&p->layout);
}

__global__ void points_kernel(const double *at, double length, double nugget, int64_t i0,
                              int64_t ni, int64_t j0, int64_t nj, double *a, int64_t lda) {
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < ni * nj; k += stride) {
        const int64_t i = k % ni, j = k / ni;
        const double dx = at[2 * (i0 + i)] - at[2 * (j0 + j)],
                     dy = at[2 * (i0 + i) + 1] - at[2 * (j0 + j) + 1];
        a[i + j * lda] =
            exp(-(dx * dx + dy * dy) / (length * length)) + (i0 + i == j0 + j ? nugget : 0);
    }
}

/* tlr_fill */
static status fill_points(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                          int64_t lda) {
    const Points *p = (const Points *)arg;
    points_kernel<<<132 * 16, 256, 0, stream>>>(p->at, p->length, p->nugget, i0, ni, j0, nj, a,
                                                lda);
    CU(cudaGetLastError());
    return MOAO_OK;
}

/* --- Cmm --- */

/* Natural columns of a sensor at a time, from the row that is needed on; block columns are asked
 * for from the left to the right. */
struct Slopes {
    const backend_matcov *ops;
    backend_cov *cov;
    int64_t n;
    tlr_layout layout;
    std::vector<int64_t> first; /* of each sensor, and n */
    int64_t *perm;              /* on the device */
    double *strip;
    int held;     /* sensor, -1: none */
    int64_t from; /* row from which on they are there */
};

__global__ void gather_kernel(const double *strip, int64_t n, int64_t from, const int64_t *perm,
                              int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                              int64_t lda) {
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < ni * nj; k += stride) {
        const int64_t i = k % ni, j = k / ni;
        a[i + j * lda] = strip[perm[i0 + i] + (perm[j0 + j] - from) * n];
    }
}

/* Columns of a sensor, leading dimension n; rows before `from` are not there. */
static inline const double *strip_of(Slopes *s, int sensor, int64_t from) {
    if (s->held == sensor && s->from <= from)
        return s->strip;
    s->held = sensor;
    s->from = from;
    OK(s->ops->fill_cmm(
        s->cov, BACKEND_D, 'A', MATCOV_ALL,
        matcov_region{from, s->n - from, s->first[sensor], s->first[sensor + 1] - s->first[sensor]},
        s->strip + from, s->n));
    return s->strip;
}

/* tlr_fill: column runs of one sensor after another. */
static status fill_slopes(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                          int64_t lda) {
    Slopes *s = (Slopes *)arg;
    int top = 0;
    while (s->first[top + 1] <= i0)
        top++;
    for (int64_t j = j0; j < j0 + nj;) {
        int sensor = 0;
        while (s->first[sensor + 1] <=
               j) /* tiles do not span sensors: the same place in both orders */
            sensor++;
        const int64_t to = std::min(s->first[sensor + 1], j0 + nj);
        const double *strip = strip_of(s, sensor, s->first[top]);
        gather_kernel<<<132 * 16, 256, 0, stream>>>(strip, s->n, s->first[sensor], s->perm, i0, ni,
                                                    j, to - j, a + (j - j0) * lda, lda);
        CU(cudaGetLastError());
        j = to;
    }
    return MOAO_OK;
}

#endif
