/* trsm and trmm on host data: transfers and arithmetic overlapped, against each of them alone.
 *   bench_host [--csv FILE] [SIZE=VALUE...] [trsm|trmm N1xN2...]
 * SIZE=VALUE changes a size of the plugin for the cases after it. */
#include "bench_gpu.cuh"
#include <map>

static const double one = 1;

/* The transfers alone, and the arithmetic alone (all of it resident), in ms. */
struct alone {
    double in, compute;
};
static std::map<std::string, alone> measured;

static void host_case(bool solve, int64_t n, int64_t nrhs) {
    const size_t ab = n * n * 8, bb = n * nrhs * 8,
                 lw = be->workspace(solve ? BACKEND_TRSM : BACKEND_TRMM, BACKEND_D, n, nrhs);
    const size_t ldev =
        be->host_workspace(solve ? BACKEND_TRSM : BACKEND_TRMM, BACKEND_D, 'L', n, nrhs);
    void *ha, *hb, *a = bench_alloc(ab), *b = bench_alloc(bb), *work = bench_alloc(lw), *dev;
    char shape[64], note[160];
    const std::string key =
        std::to_string(solve) + " " + std::to_string(n) + " " + std::to_string(nrhs);
    OK(be->alloc_host(ctx, ab, &ha));
    OK(be->alloc_host(ctx, bb, &hb));
    bench_fill(BACKEND_D, a, n, n, 1.0 / n, 1.5, 3);
    bench_fill(BACKEND_D, b, n, nrhs, 1, 0, 4);
    CU(cudaMemcpyAsync(ha, a, ab, cudaMemcpyDefault, stream));
    CU(cudaMemcpyAsync(hb, b, bb, cudaMemcpyDefault, stream));
    if (!measured.count(key)) {
        alone m;
        m.compute = bench_time(
            3, [&] { bench_fill(BACKEND_D, b, n, nrhs, 1, 0, 4); },
            [&] {
                OK((solve ? be->trsm : be->trmm)(ctx, BACKEND_D, 'L', 'L', 'N', 'N', n, nrhs, &one,
                                                 a, n, b, n, work, lw));
            });
        /* what must travel in: a triangle and B; out: B. Both directions at once: the longer one
         * counts */
        m.in = bench_time(
            3, [] {},
            [&] {
                CU(cudaMemcpyAsync(a, ha, ab / 2, cudaMemcpyDefault, stream));
                CU(cudaMemcpyAsync(b, hb, bb, cudaMemcpyDefault, stream));
            });
        measured[key] = m;
    }
    const alone m = measured[key];
    CU(cudaFree(a)), CU(cudaFree(b)), CU(cudaFree(work));
    dev = bench_alloc(ldev);
    const double total = bench_time(
        3, [] {},
        [&] {
            OK((solve ? be->trsm_host : be->trmm_host)(ctx, BACKEND_D, 'L', 'L', 'N', 'N', n, nrhs,
                                                       &one, ha, n, hb, n, dev, ldev));
        });
    snprintf(shape, sizeof shape, "%ldx%ld", (long)n, (long)nrhs);
    snprintf(note, sizeof note, "transfer %.2f ms, compute %.2f ms: %.1f %% over the larger", m.in,
             m.compute, 100 * (total / std::max(m.in, m.compute) - 1));
    bench_row(solve ? "trsm_host" : "trmm_host", BACKEND_D, shape, total, 0, (double)n * n * nrhs,
              0, note);
    be->release_host(ctx, ha), be->release_host(ctx, hb);
    CU(cudaFree(dev));
}

static const struct {
    bool solve;
    int64_t n, nrhs;
} usual[] = {{true, 16384, 16384},  {true, 16384, 32768},  {true, 16384, 65536},
             {true, 32768, 512},    {true, 32768, 32768},  {false, 16384, 16384},
             {false, 16384, 32768}, {false, 16384, 65536}, {false, 32768, 512},
             {false, 32768, 32768}};

int main(int argc, char **argv) {
    int at = 1, cases = 0;
    long n, nrhs;
    const bool file = argc > 2 && !strcmp(argv[1], "--csv");
    bool solve = true;
    bench_open(file ? argv[2] : NULL);
    for (at += file ? 2 : 0; at < argc; at++) {
        if (sscanf(argv[at], "%ldx%ld", &n, &nrhs) == 2) {
            host_case(solve, n, nrhs);
            cases++;
        } else {
            solve = strcmp(argv[at], "trmm") != 0;
        }
    }
    for (const auto &c : usual)
        if (cases == 0)
            host_case(c.solve, c.n, c.nrhs);
    if (csv)
        fclose(csv);
    be->close(ctx);
    return 0;
}
