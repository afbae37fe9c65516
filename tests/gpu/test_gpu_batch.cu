/* Batched routines, what needs CUDA itself: a call captured in a graph gives the same bits as a
 * direct call, each time the graph runs; two streams at once do not disturb each other; no call
 * allocates device memory. Run on a GPU: make check-gpu. */
#include "moao/backend.h"
#include "support/check.cuh"
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

static const backend *be;

/* 200 SPD matrices of order n with right-hand sides, results of the last call. */
struct problem {
    int64_t n, m, count = 200;
    std::vector<double> start;
    double *data;
    int *info;
    problem(int64_t order, int64_t width, unsigned seed) : n(order), m(width) {
        start.resize(count * n * (n + m));
        for (size_t k = 0; k < start.size(); k++)
            start[k] = (double)((k * 2654435761u + seed * 40503u) % 1000) / 1000 / (double)n;
        for (int64_t k = 0; k < count * n; k++)
            start[k / n * n * n + k % n * (n + 1)] = 2 + (double)(k % 7);
        CHECK(cudaMalloc(&data, start.size() * 8) == cudaSuccess);
        CHECK(cudaMalloc(&info, count * sizeof(int)) == cudaSuccess);
    }
    ~problem() {
        cudaFree(data), cudaFree(info);
    }
    void reset() {
        CHECK(cudaMemcpy(data, start.data(), start.size() * 8, cudaMemcpyHostToDevice) ==
              cudaSuccess);
        CHECK(cudaMemset(info, 0xff, count * sizeof(int)) == cudaSuccess);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
    }
    std::vector<double> result() {
        std::vector<double> r(start.size());
        std::vector<int> i(count);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaMemcpy(r.data(), data, r.size() * 8, cudaMemcpyDeviceToHost) == cudaSuccess);
        CHECK(cudaMemcpy(i.data(), info, count * sizeof(int), cudaMemcpyDeviceToHost) ==
              cudaSuccess);
        for (int k : i)
            CHECK(k == 0);
        return r;
    }
    /* posv, potri from the factor, trmm with the inverse */
    void run(backend_ctx *ctx) {
        const double one = 1;
        const batch_mat a = batch_strided(data, n, n * n);
        const batch_mat b = batch_strided(data + count * n * n, n, n * m);
        const batch_dim dn = batch_size(n), dm = batch_size(m);
        CHECK(be->batch->posv(ctx, BACKEND_D, 'L', count, dn, dm, a, b, info) == MOAO_OK);
        CHECK(be->batch->potri(ctx, BACKEND_D, 'L', count, dn, a, info) == MOAO_OK);
        CHECK(be->batch->trmm(ctx, BACKEND_D, 'L', 'L', 'N', 'N', count, dn, dm, &one, a, b) ==
              MOAO_OK);
    }
};

static void test_graph(int64_t n, int64_t m) {
    backend_ctx *ctx;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    problem p(n, m, 1);
    CHECK(be->open(0, NULL, &ctx) == MOAO_OK);
    cudaStream_t s = (cudaStream_t)be->stream(ctx);
    p.reset();
    p.run(ctx);
    const std::vector<double> direct = p.result();
    CHECK(!same_bits(direct, p.start));
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

static void test_two_streams(int64_t n, int64_t m) {
    backend_ctx *first, *second;
    problem p(n, m, 2), q(n, m, 3);
    CHECK(be->open(0, NULL, &first) == MOAO_OK && be->open(0, NULL, &second) == MOAO_OK);
    p.reset(), q.reset();
    p.run(first);
    const std::vector<double> rp = p.result();
    q.run(second);
    const std::vector<double> rq = q.result();
    CHECK(!same_bits(rp, rq));
    for (int k = 0; k < 5; k++) {
        p.reset(), q.reset();
        p.run(first), q.run(second);
        CHECK(same(p.result(), rp) && same(q.result(), rq));
    }
    be->close(first), be->close(second);
}

int main() {
    if (backend_get("gpu", &be) != MOAO_OK) {
        printf("no GPU is used: %s\n", status_message());
        return 77;
    }
    const bool small = getenv("MOAO_TEST_SMALL") != NULL;
    for (int64_t n : {7, 16, 31, 64, 100, 256})
        if (!small || n <= 64) {
            test_graph(n, 9);
            test_two_streams(n, 9);
        }
    printf("batched: graphs and streams agree\n");
    return 0;
}
