/* QR, SVD and low-rank routines, what needs CUDA itself: a call captured in a graph gives the same
 * bits as a direct call, each time the graph runs; two streams at once do not disturb each other;
 * no call keeps device memory. Run on a GPU: make check-gpu. */
#include "moao/backend.h"
#include "support/check.cuh"
#include <math.h>

static const backend *be;

/* Matrices of one size, and all results of one call of every routine on them. */
struct problem {
    int64_t m, n, most, count = 150;
    std::vector<double> start;
    double *a0, *a, *s, *r, *u, *v, *x, *y, *tau, *c;
    double *data;
    int64_t total, *rank;
    int *info;
    void *work;
    size_t lwork = 0;

    problem(int64_t rows, int64_t cols, unsigned seed)
        : m(rows), n(cols), most((rows < cols ? rows : cols) / 2 + 1) {
        const int64_t mn = count * m * n, k = m < n ? m : n;
        start.resize(mn);
        for (int64_t e = 0; e < mn; e++) {
            const double d = (double)(e % m) / (double)m - (double)(e / m % n) / (double)n - 1.3;
            start[e] = exp(-fabs(d) * (1 + (double)(e / (m * n) % 9))) +
                       1e-4 * (double)((e * 2654435761u + seed * 40503u) % 1000) / 1000;
        }
        const int64_t sizes[] = {mn,
                                 mn,
                                 count * k,
                                 count * k * n,
                                 count * m * k,
                                 count * n * k,
                                 count * m * most,
                                 count * n * most,
                                 count * k,
                                 count * m};
        double **const at[] = {&a0, &a, &s, &r, &u, &v, &x, &y, &tau, &c};
        total = 0;
        for (int64_t size : sizes)
            total += size;
        CHECK(cudaMalloc(&data, total * 8) == cudaSuccess);
        double *p = data;
        for (int i = 0; i < 10; i++)
            *at[i] = p, p += sizes[i];
        CHECK(cudaMalloc(&rank, count * sizeof *rank) == cudaSuccess);
        CHECK(cudaMalloc(&info, count * sizeof *info) == cudaSuccess);
        for (batch_op op : {BATCH_QR, BATCH_GESVJ, BATCH_RSVD, BATCH_ARA, BATCH_RECOMPRESS}) {
            const size_t bytes = be->lowrank->workspace(op, BACKEND_D, count, m, n,
                                                        op == BATCH_RSVD ? most + 8 : most);
            lwork = bytes > lwork ? bytes : lwork;
        }
        CHECK(cudaMalloc(&work, lwork + 1) == cudaSuccess);
    }
    ~problem() {
        cudaFree(data), cudaFree(rank), cudaFree(info), cudaFree(work);
    }
    void reset() {
        CHECK(cudaMemset(data, 0xff, total * 8) == cudaSuccess);
        CHECK(cudaMemcpy(a0, start.data(), start.size() * 8, cudaMemcpyHostToDevice) ==
              cudaSuccess);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
    }
    std::vector<double> result() {
        std::vector<double> h(total);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaMemcpy(h.data(), data, total * 8, cudaMemcpyDeviceToHost) == cudaSuccess);
        return h;
    }
    void again(cudaStream_t stream) {
        CHECK(cudaMemcpyAsync(a, a0, start.size() * 8, cudaMemcpyDeviceToDevice, stream) ==
              cudaSuccess);
    }
    void run(backend_ctx *ctx) {
        const backend_lowrank *q = be->lowrank;
        cudaStream_t stream = (cudaStream_t)be->stream(ctx);
        const int64_t k = m < n ? m : n;
        const batch_dim dm = batch_size(m), dn = batch_size(n), dk = batch_size(k);
        const batch_mat A = batch_strided(a, m, m * n), S = batch_strided(s, k, k),
                        R = batch_strided(r, k, k * n), U = batch_strided(u, m, m * k),
                        V = batch_strided(v, n, n * k), X = batch_strided(x, m, m * most),
                        Y = batch_strided(y, n, n * most), T = batch_strided(tau, k, k);
        const batch_cut cut = {1e-3, NULL, 'R', 'F', most, NULL};
        const double one = 1;
        again(stream);
        CHECK(q->qr(ctx, BACKEND_D, 'R', count, dm, dn, A, R, info, work, lwork) == MOAO_OK);
        again(stream);
        CHECK(q->gesvj(ctx, BACKEND_D, 'U', 'U', NULL, count, dm, dn, A, S, U, V, rank, info, work,
                       lwork) == MOAO_OK);
        again(stream);
        CHECK(q->ara(ctx, BACKEND_D, 'L', &cut, 7, count, dm, dn, A, X, Y, rank, info, work,
                     lwork) == MOAO_OK);
        const batch_dim half = batch_size(most / 2);
        CHECK(q->recompress(ctx, BACKEND_D, 'R', &cut, count, dm, dn, &one, half, U, V, &one, half,
                            batch_strided(u + m * (most / 2), m, m * k),
                            batch_strided(v + n * (most / 2), n, n * k), rank, info, work,
                            lwork) == MOAO_OK);
        CHECK(q->geqrf(ctx, BACKEND_D, count, dm, dn, A, T, info) == MOAO_OK);
        CHECK(cudaMemsetAsync(c, 0, count * m * 8, stream) == cudaSuccess);
        CHECK(q->ormqr(ctx, BACKEND_D, 'L', 'T', count, dm, batch_size(1), dk, A, T,
                       batch_strided(c, m, m)) == MOAO_OK);
    }
};

static void test_graph(int64_t m, int64_t n) {
    backend_ctx *ctx;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    problem p(m, n, 1);
    CHECK(be->open(0, NULL, &ctx) == MOAO_OK);
    cudaStream_t s = (cudaStream_t)be->stream(ctx);
    p.reset();
    p.run(ctx);
    const std::vector<double> direct = p.result();
    CHECK(keep_no_memory([&] {
        p.reset();
        p.run(ctx);
        CHECK(same(p.result(), direct));
    }));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    p.run(ctx);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaSuccess);
    CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    for (int k = 0; k < 3; k++) {
        p.reset();
        CHECK(cudaGraphLaunch(exec, s) == cudaSuccess);
        CHECK(same(p.result(), direct));
    }
    cudaGraphExecDestroy(exec), cudaGraphDestroy(graph);
    be->close(ctx);
}

static void test_two_streams(int64_t m, int64_t n) {
    backend_ctx *first, *second;
    problem p(m, n, 2), q(m, n, 3);
    CHECK(be->open(0, NULL, &first) == MOAO_OK && be->open(0, NULL, &second) == MOAO_OK);
    p.reset(), q.reset();
    p.run(first);
    const std::vector<double> rp = p.result();
    q.run(second);
    const std::vector<double> rq = q.result();
    CHECK(!same_bits(rp, rq));
    for (int k = 0; k < 3; k++) {
        p.reset(), q.reset();
        p.run(first), q.run(second);
        CHECK(same(p.result(), rp) && same(q.result(), rq));
    }
    be->close(first), be->close(second);
}

int main() {
    static const int64_t sizes[][2] = {{9, 9},     {40, 24},  {24, 70},
                                       {100, 100}, {300, 64}, {256, 256}};
    if (backend_get("gpu", &be) != MOAO_OK) {
        printf("no GPU is used: %s\n", status_message());
        return 77;
    }
    const bool small = getenv("MOAO_TEST_SMALL") != NULL;
    for (const auto &size : sizes)
        if (!small || size[0] * size[1] < 2000) {
            test_graph(size[0], size[1]);
            test_two_streams(size[0], size[1]);
        }
    printf("low rank: graphs and streams agree\n");
    return 0;
}
