/* trsm over several GPUs: B split by columns, A on the first GPU and sent to the others while they
 * compute; against one GPU with all of B, on the same data in the same run.. */
#include "bench_gpu.cuh"

static double run_once(int count, backend_ctx *const *c, int64_t n, const int64_t *part,
                       const void *a, void *const *b, void *const *dev, const size_t *ldev) {
    const double one = 1;
    int64_t ldb[8];
    cudaEvent_t e0, e1;
    float ms;
    for (int g = 0; g < count; g++) {
        ldb[g] = n;
        CU(cudaSetDevice(g));
        bench_fill_kernel<<<132 * 16, 256, 0, (cudaStream_t)be->stream(c[g])>>>(
            (double *)b[g], n, part[g], n, 1.0, 0.0, 7 + g);
        OK(be->sync(c[g]));
    }
    CU(cudaSetDevice(0));
    CU(cudaEventCreate(&e0));
    CU(cudaEventCreate(&e1));
    CU(cudaEventRecord(e0, (cudaStream_t)be->stream(c[0])));
    OK(be->trsm_multi(count, c, BACKEND_D, 'L', 'L', 'N', 'N', n, part, &one, a, n, b, ldb, dev,
                      ldev));
    CU(cudaEventRecord(e1, (cudaStream_t)be->stream(c[0])));
    CU(cudaEventSynchronize(e1));
    CU(cudaEventElapsedTime(&ms, e0, e1));
    return ms;
}

static double measure(int count, backend_ctx *const *c, int64_t n, int64_t nrhs, const void *a) {
    int64_t part[8];
    void *b[8], *dev[8];
    size_t ldev[8];
    std::vector<double> ms;
    for (int g = 0; g < count; g++) {
        part[g] = nrhs / count;
        ldev[g] = be->multi_workspace(g, BACKEND_D, 'L', n, part[g]);
        OK(be->alloc(c[g], n * part[g] * 8, &b[g]));
        OK(be->alloc(c[g], ldev[g], &dev[g]));
    }
    for (int r = 0; r < 4; r++) {
        const double t = run_once(count, c, n, part, a, b, dev, ldev);
        if (r > 0)
            ms.push_back(t);
    }
    for (int g = 0; g < count; g++) {
        be->release(c[g], b[g]);
        be->release(c[g], dev[g]);
    }
    std::sort(ms.begin(), ms.end());
    return ms[1];
}

int main(int argc, char **argv) {
    const int64_t n = argc > 1 ? atoll(argv[1]) : 32768, nrhs = argc > 2 ? atoll(argv[2]) : n;
    backend_ctx *c[8];
    bench_open(NULL);
    const int all = std::min(8, be->devices());
    for (int g = 0; g < all; g++)
        OK(be->open(g, NULL, &c[g]));
    void *a;
    OK(be->alloc(c[0], n * n * 8, &a));
    bench_fill(BACKEND_D, a, n, n, 1.0 / n, 1.5, 3);
    CU(cudaStreamSynchronize(stream));
    double single = 0;
    for (int count = 1; count <= all; count *= 2) {
        const double ms = measure(count, c, n, nrhs, a);
        single = count == 1 ? ms : single;
        printf("trsm n = %ld, %ld right-hand sides, %d GPU: %.2f ms, %.1f TFLOP/s, %.2f times one "
               "GPU\n",
               (long)n, (long)nrhs, count, ms, (double)n * n * nrhs / ms * 1e-9, single / ms);
    }
    be->release(c[0], a);
    for (int g = 0; g < all; g++)
        be->close(c[g]);
    return 0;
}
