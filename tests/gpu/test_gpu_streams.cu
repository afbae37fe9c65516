/* What needs CUDA itself: operations captured in a graph give the same bits as direct calls, two
 * streams at once do not disturb each other, and no operation allocates device memory once its
 * context is open. Run on a GPU: make check-gpu. */
#include "moao/backend.h"
#include "support/check.cuh"
#include <cuda_runtime.h>
#include <functional>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

static const backend *be;
static bool small; /* under a checking tool: small sizes */
static const double one = 1, zero = 0;

/* A and B of one set, on the device, with their values to start from. */
struct problem {
    int64_t n, w;
    std::vector<double> a0, b0;
    double *a, *b, *c;
    int *info;
    void *work;
    size_t lwork;
    problem(int64_t order, int64_t width, unsigned seed)
        : n(order), w(width), a0(order * order), b0(order * width) {
        for (int64_t k = 0; k < n * n; k++)
            a0[k] = (double)((k * 2654435761u + seed * 40503u) % 1000) / 1000 / (double)n +
                    (k % n == k / n ? 2 : 0);
        for (int64_t k = 0; k < n * w; k++)
            b0[k] = (double)((k * 40503u + seed) % 1000) / 500 - 1;
        lwork = 0;
        for (int op = BACKEND_GEMM; op <= BACKEND_POTI; op++) {
            const size_t l = be->workspace((backend_op)op, BACKEND_D, op < BACKEND_POTRF ? n : w,
                                           op < BACKEND_POTRF ? w : n);
            lwork = l > lwork ? l : lwork;
        }
        CHECK(cudaMalloc(&a, n * n * 8) == cudaSuccess && cudaMalloc(&b, n * w * 8) == cudaSuccess);
        CHECK(cudaMalloc(&c, n * w * 8) == cudaSuccess && cudaMalloc(&info, 4) == cudaSuccess);
        CHECK(cudaMalloc(&work, lwork + 1) == cudaSuccess);
    }
    ~problem() {
        cudaFree(a), cudaFree(b), cudaFree(c), cudaFree(info), cudaFree(work);
    }
    void reset() {
        CHECK(cudaMemcpy(a, a0.data(), n * n * 8, cudaMemcpyHostToDevice) == cudaSuccess);
        CHECK(cudaMemcpy(b, b0.data(), n * w * 8, cudaMemcpyHostToDevice) == cudaSuccess);
        CHECK(cudaMemcpy(c, b0.data(), n * w * 8, cudaMemcpyHostToDevice) == cudaSuccess);
        /* it may return before all is there, and other streams do not wait for it */
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
    }
    std::vector<double> result() {
        std::vector<double> r(n * n + 2 * n * w);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        CHECK(cudaMemcpy(r.data(), a, n * n * 8, cudaMemcpyDeviceToHost) == cudaSuccess);
        CHECK(cudaMemcpy(r.data() + n * n, b, n * w * 8, cudaMemcpyDeviceToHost) == cudaSuccess);
        CHECK(cudaMemcpy(r.data() + n * n + n * w, c, n * w * 8, cudaMemcpyDeviceToHost) ==
              cudaSuccess);
        return r;
    }
};

struct operation {
    const char *name;
    std::function<status(backend_ctx *, problem &)> run;
};

static std::vector<operation> operations() {
#define RUN(name, call)                                                                            \
    operation {                                                                                    \
        name, [](backend_ctx *x, problem &p) { return call; }                                      \
    }
    return {
        RUN("trsm", be->trsm(x, BACKEND_D, 'L', 'L', 'N', 'N', p.n, p.w, &one, p.a, p.n, p.b, p.n,
                             p.work, p.lwork)),
        RUN("trsm upper", be->trsm(x, BACKEND_D, 'L', 'U', 'N', 'N', p.n, p.w, &one, p.a, p.n, p.b,
                                   p.n, p.work, p.lwork)),
        RUN("trmm", be->trmm(x, BACKEND_D, 'L', 'U', 'T', 'N', p.n, p.w, &one, p.a, p.n, p.b, p.n,
                             p.work, p.lwork)),
        RUN("symm", be->symm(x, BACKEND_D, 'L', 'L', p.n, p.w, &one, p.a, p.n, p.b, p.n, &zero, p.c,
                             p.n, p.work, p.lwork)),
        RUN("syrk", be->syrk(x, BACKEND_D, 'L', 'N', p.n, p.w, &one, p.b, p.n, &one, p.a, p.n,
                             p.work, p.lwork)),
        RUN("syr2k", be->syr2k(x, BACKEND_D, 'U', 'N', p.n, p.w, &one, p.b, p.n, p.c, p.n, &one,
                               p.a, p.n, p.work, p.lwork)),
        RUN("potrf", be->potrf(x, BACKEND_D, 'L', p.n, p.a, p.n, p.info, p.work, p.lwork)),
        RUN("trtri", be->trtri(x, BACKEND_D, 'L', 'N', p.n, p.a, p.n, p.info, p.work, p.lwork)),
        RUN("lauum", be->lauum(x, BACKEND_D, 'U', p.n, p.a, p.n, p.work, p.lwork)),
        RUN("poti", be->poti(x, BACKEND_D, 'L', p.n, p.a, p.n, p.info, p.work, p.lwork)),
        RUN("posv",
            be->posv(x, BACKEND_D, 'U', p.n, p.w, p.a, p.n, p.b, p.n, p.info, p.work, p.lwork)),
    };
#undef RUN
}

/* Direct call, then captured in a graph and replayed twice: the same bits, and no memory is kept.
 */
static void test_graph(int64_t n, int64_t w) {
    cudaStream_t s;
    backend_ctx *ctx;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(be->open(0, s, &ctx) == MOAO_OK);
    problem p(n, w, 1);
    for (const operation &o : operations()) {
        p.reset();
        CHECK(o.run(ctx, p) == MOAO_OK);
        const std::vector<double> direct = p.result();
        CHECK(keep_no_memory([&] {
            for (int r = 0; r < 3; r++) {
                p.reset();
                CHECK(o.run(ctx, p) == MOAO_OK);
                CHECK(same(p.result(), direct));
            }
        }));
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
        CHECK(o.run(ctx, p) == MOAO_OK);
        CHECK(cudaStreamEndCapture(s, &graph) == cudaSuccess);
        CHECK(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
        for (int r = 0; r < 2; r++) {
            p.reset();
            CHECK(cudaGraphLaunch(exec, s) == cudaSuccess);
            CHECK(same(p.result(), direct));
        }
        p.reset(); /* what the comparison would see if nothing ran */
        CHECK(!same_bits(p.result(), direct));
        CHECK(cudaGraphExecDestroy(exec) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess);
        printf("graph capture of %s, n = %ld: the same bits\n", o.name, (long)n);
    }
    be->close(ctx);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
}

/* Two contexts with streams of their own, fed in turn without waiting: each gives what it gives
 * alone. */
static void test_two_streams(int64_t n, int64_t w) {
    backend_ctx *ctx[2];
    problem first(n, w, 1), second(n + 37, w + 3, 2), *p[2] = {&first, &second};
    for (int k = 0; k < 2; k++)
        CHECK(be->open(0, NULL, &ctx[k]) == MOAO_OK);
    for (const operation &o : operations()) {
        std::vector<double> alone[2];
        for (int k = 0; k < 2; k++) {
            p[k]->reset();
            CHECK(o.run(ctx[k], *p[k]) == MOAO_OK);
            alone[k] = p[k]->result();
        }
        for (int r = 0; r < 5; r++) {
            p[0]->reset(), p[1]->reset();
            CHECK(cudaDeviceSynchronize() == cudaSuccess);
            CHECK(o.run(ctx[r & 1], *p[r & 1]) == MOAO_OK);
            CHECK(o.run(ctx[~r & 1], *p[~r & 1]) == MOAO_OK);
            for (int k = 0; k < 2; k++)
                CHECK(same(p[k]->result(), alone[k]));
        }
        printf("two streams, %s: the same bits\n", o.name);
    }
    for (int k = 0; k < 2; k++)
        be->close(ctx[k]);
}

/* Work of one context after a transfer of another, and a transfer after the work that reads what it
 * overwrites: nobody waits on the host, and the products are those of matrices that lay ready. */
static void test_after(int64_t n, int64_t w) {
    backend_ctx *ctx, *in;
    problem p(n, w, 3);
    std::vector<double> c[3];
    double *host = NULL, *result = NULL;
    CHECK(be->open(0, NULL, &ctx) == MOAO_OK && be->open(0, NULL, &in) == MOAO_OK);
    CHECK(be->alloc_host(ctx, 3 * n * n * 8, (void **)&host) == MOAO_OK);
    CHECK(be->alloc_host(ctx, 3 * n * w * 8, (void **)&result) == MOAO_OK);
    for (int64_t k = 0; k < 3 * n * n; k++)
        host[k] = (double)(1 + k / (n * n)) * p.a0[k % (n * n)];
    for (int pass = 0; pass < 2; pass++) { /* one by one, then without waiting */
        p.reset();
        CHECK(cudaMemset(p.a, 0, n * n * 8) == cudaSuccess);
        CHECK(cudaDeviceSynchronize() == cudaSuccess);
        for (int k = 0; k < 3; k++) {
            CHECK(be->wait_for(in, ctx) == MOAO_OK);
            CHECK(be->copy(in, p.a, n * 8, host + k * n * n, n * 8, n * 8, n) == MOAO_OK);
            CHECK(pass > 0 || be->sync(in) == MOAO_OK);
            CHECK(be->wait_for(ctx, in) == MOAO_OK);
            CHECK(be->gemm(ctx, BACKEND_D, 'N', 'N', n, w, n, &one, p.a, n, p.b, n, &zero, p.c, n,
                           p.work, p.lwork) == MOAO_OK);
            CHECK(be->copy(ctx, result + k * n * w, n * w * 8, p.c, n * w * 8, n * w * 8, 1) ==
                  MOAO_OK);
            CHECK(pass > 0 || be->sync(ctx) == MOAO_OK);
        }
        CHECK(be->sync(ctx) == MOAO_OK);
        for (int k = 0; k < 3; k++) {
            const std::vector<double> now(result + k * n * w, result + (k + 1) * n * w);
            CHECK(pass == 0 || same(now, c[k]));
            c[k] = now;
        }
        CHECK(!same_bits(c[0], c[1]));
    }
    printf("after: the same bits as one by one\n");
    be->release_host(ctx, host);
    be->release_host(ctx, result);
    be->close(in);
    be->close(ctx);
}

/* Pinned memory of every size, taken in either way, travels whole; and it can be taken again. */
static void test_host_memory() {
    backend_ctx *ctx;
    CHECK(be->open(0, NULL, &ctx) == MOAO_OK);
    for (size_t bytes : {(size_t)1, (size_t)4097, ((size_t)64 << 20) - 1, ((size_t)64 << 20) + 5})
        for (int again = 0; again < 2; again++) {
            unsigned char *p, *q, *d;
            CHECK(be->alloc_host(ctx, bytes, (void **)&p) == MOAO_OK);
            CHECK(be->alloc_host(ctx, bytes, (void **)&q) == MOAO_OK);
            CHECK(be->alloc(ctx, bytes, (void **)&d) == MOAO_OK);
            for (size_t i = 0; i < bytes; i++)
                p[i] = (unsigned char)(i * 2654435761u >> 13);
            const int64_t n = (int64_t)bytes;
            CHECK(be->copy(ctx, d, n, p, n, n, 1) == MOAO_OK);
            CHECK(be->copy(ctx, q, n, d, n, n, 1) == MOAO_OK);
            CHECK(be->sync(ctx) == MOAO_OK);
            CHECK(memcmp(p, q, bytes) == 0);
            cudaPointerAttributes what;
            CHECK(cudaPointerGetAttributes(&what, q + bytes - 1) == cudaSuccess);
            CHECK(what.type == cudaMemoryTypeHost);
            be->release(ctx, d);
            be->release_host(ctx, p);
            be->release_host(ctx, q);
        }
    be->release_host(ctx, NULL);
    be->close(ctx);
    printf("pinned memory of every size\n");
}

/* A context leaves the caller's current device as it was, and refuses devices that are not there.
 */
static void test_devices() {
    backend_ctx *ctx;
    int device = -1;
    CHECK(be->open(be->devices(), NULL, &ctx) == MOAO_INPUT && ctx == NULL);
    status_clear();
    CHECK(be->open(be->devices() - 1, NULL, &ctx) == MOAO_OK);
    CHECK(cudaGetDevice(&device) == cudaSuccess && device == 0);
    be->close(ctx);
    be->close(NULL);
    size_t bytes = 0, all = 0;
    CHECK(be->memory(be->devices() - 1, &bytes, &all) == MOAO_OK && bytes > 0 && bytes <= all);
}

int main() {
    if (backend_get("gpu", &be) != MOAO_OK) {
        printf("no GPU is used: %s\n", status_message());
        return 77;
    }
    small = getenv("MOAO_TEST_SMALL") != NULL;
    test_devices();
    test_host_memory();
    test_graph(100, 9);
    if (!small)
        test_graph(2500, 300);
    test_two_streams(small ? 100 : 2100, small ? 9 : 200);
    test_after(small ? 100 : 3000, small ? 9 : 500);
    return 0;
}
