/* trsm and trmm over several GPUs: B split by columns, A on the first GPU and sent to the others while they
 * compute; against one GPU with all of B, on the same data in the same run. Beside it the time of
 * each part, and of the parts when each GPU has A already.
 *   bench_multi [N [RIGHT-HAND SIDES [GPUS [SHARE OF THE FIRST GPU, PER MILLE [trsm|trmm]]]]] */
#include "bench_gpu.cuh"
#include <thread>

#define MOST 8
static const double one = 1;

static struct {
    int64_t n, part[MOST], ldb[MOST];
    int count;
    bool solve;
    backend_ctx *c[MOST];
    void *a[MOST], *b[MOST], *dev[MOST]; /* a[g], g > 0: copies of A for the parts alone */
    size_t ldev[MOST];
    cudaEvent_t start[MOST], end[MOST], all;
} run;

static cudaStream_t queue(int g) {
    return (cudaStream_t)be->stream(run.c[g]);
}

/* One run: the time of the whole and of each part, in ms. */
static double run_once(bool alone, double *part) {
    float ms;
    for (int g = 0; g < run.count; g++) {
        CU(cudaSetDevice(g));
        bench_fill_kernel<<<132 * 16, 256, 0, queue(g)>>>((double *)run.b[g], run.n, run.part[g],
                                                          run.n, 1.0, 0.0, 7 + g);
    }
    for (int g = 0; g < run.count; g++)
        OK(be->sync(run.c[g]));
    for (int g = run.count - 1; g >= 0; g--) {
        CU(cudaSetDevice(g));
        CU(cudaEventRecord(run.start[g], queue(g)));
    }
    std::vector<std::thread> threads;
    for (int g = 0; alone && g < run.count; g++)
        threads.emplace_back([g] {
            OK((run.solve ? be->trsm : be->trmm)(run.c[g], BACKEND_D, 'L', 'L', 'N', 'N', run.n, run.part[g], &one, run.a[g],
                        run.n, run.b[g], run.n, run.dev[g], run.ldev[g]));
        });
    for (std::thread &t : threads)
        t.join();
    if (!alone)
        OK((run.solve ? be->trsm_multi : be->trmm_multi)(run.count, run.c, BACKEND_D, 'L', 'L', 'N', 'N', run.n, run.part, &one,
                          run.a[0], run.n, run.b, run.ldb, run.dev, run.ldev));
    CU(cudaEventRecord(run.all, queue(0)));
    for (int g = run.count - 1; g >= 0; g--) {
        CU(cudaSetDevice(g));
        CU(cudaEventRecord(run.end[g], queue(g)));
    }
    for (int g = 0; g < run.count; g++) {
        CU(cudaEventSynchronize(run.end[g]));
        CU(cudaEventElapsedTime(&ms, run.start[g], run.end[g]));
        part[g] = ms;
    }
    CU(cudaEventElapsedTime(&ms, run.start[0], run.all));
    return ms;
}

/* Median of seven runs, after as many as take 0.6 s: the control of power needs a few tenths of a
 * second to settle, and swings by 15 % until then. */
static double measure(bool alone, double *part, double *least, double *most) {
    std::vector<std::pair<double, std::vector<double>>> runs;
    for (double warm = 0; warm < 600;)
        warm += run_once(alone, part);
    while (runs.size() < 7) {
        const double ms = run_once(alone, part);
        runs.push_back({ms, std::vector<double>(part, part + run.count)});
    }
    std::sort(runs.begin(), runs.end());
    std::copy(runs[3].second.begin(), runs[3].second.end(), part);
    *least = runs[0].first, *most = runs[6].first;
    return runs[3].first;
}

static double split(int count, int64_t nrhs, int64_t first, double single) {
    double part[MOST], least, most;
    int64_t left = nrhs;
    run.count = count;
    for (int g = 0; g < count; g++) {
        run.part[g] = g == 0 && first > 0 && count > 1 ? nrhs * first / 1000 : left / (count - g);
        left -= run.part[g];
        run.ldb[g] = run.n;
        run.ldev[g] = be->multi_workspace(g, BACKEND_D, 'L', run.n, run.part[g]);
        OK(be->alloc(run.c[g], run.n * run.part[g] * 8, &run.b[g]));
        OK(be->alloc(run.c[g], run.ldev[g], &run.dev[g]));
    }
    const double ms = measure(false, part, &least, &most);
    single = count == 1 ? ms : single;
    printf("%s n = %ld, %ld right-hand sides, %d GPU: %.2f ms (%.2f to %.2f), %.1f TFLOP/s, %.2f "
           "times one GPU; parts",
           run.solve ? "trsm" : "trmm", (long)run.n, (long)nrhs, count, ms, least, most,
           (double)run.n * run.n * nrhs / ms * 1e-9, single / ms);
    for (int g = 0; g < count; g++)
        printf(" %.2f", part[g]);
    if (count > 1) {
        measure(true, part, &least, &most);
        printf(" ms, alone");
        for (int g = 0; g < count; g++)
            printf(" %.2f", part[g]);
    }
    printf(" ms\n");
    fflush(stdout);
    for (int g = 0; g < count; g++) {
        be->release(run.c[g], run.b[g]);
        be->release(run.c[g], run.dev[g]);
    }
    return single;
}

int main(int argc, char **argv) {
    const int64_t n = argc > 1 ? atoll(argv[1]) : 32768, nrhs = argc > 2 ? atoll(argv[2]) : n,
                  first = argc > 4 ? atoll(argv[4]) : 0;
    bench_open(NULL);
    const int all = std::min(argc > 3 ? atoi(argv[3]) : MOST, std::min(MOST, be->devices()));
    run.n = n;
    for (int g = 0; g < all; g++) {
        OK(be->open(g, NULL, &run.c[g]));
        OK(be->alloc(run.c[g], n * n * 8, &run.a[g]));
        CU(cudaSetDevice(g));
        CU(cudaEventCreate(&run.start[g]));
        CU(cudaEventCreate(&run.end[g]));
        bench_fill_kernel<<<132 * 16, 256, 0, queue(g)>>>((double *)run.a[g], n, n, n, 1.0 / n, 1.5,
                                                          3);
        OK(be->sync(run.c[g]));
    }
    CU(cudaSetDevice(0));
    CU(cudaEventCreate(&run.all));
    for (int op = 0; op < 2; op++) {
        double single = 0;
        run.solve = op == 0;
        if (argc > 5 && strcmp(argv[5], run.solve ? "trsm" : "trmm"))
            continue;
        for (int count = 1; count <= all; count *= 2)
            single = split(count, nrhs, first, single);
    }
    for (int g = 0; g < all; g++) {
        be->release(run.c[g], run.a[g]);
        be->close(run.c[g]);
    }
    return 0;
}
