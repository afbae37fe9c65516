/* bench_tlr: factors of the tomographic covariance of a parameter file, kept on the device or in
 * the host's memory, and triangles with them. */
#ifndef MOAO_BENCH_TLR_MOSAIC_CUH
#define MOAO_BENCH_TLR_MOSAIC_CUH

#include "tlr_say.cuh"
#include <array>

/* tlr_case.c: covariances of the first profile of a parameter file. */
extern "C" status tlr_case_open(const char *file, matcov_model *m);

static const char *ranks_file;         /* `ranks=FILE` */
static double part_of_noise = 8, room; /* `part=`, `room=` */
static bool apart;                     /* `apart=1` */
static bool no_triangles;              /* of group factor */

/* --- memory: the most of the device that was in use when anything was taken, and the time that
 * pinned memory took --- */

static backend watched; /* the backend, by such functions */
static size_t most_used;
static bool looking = true; /* at it: takes time */
static double pinning;

static size_t used() {
    size_t left, all;
    CU(cudaMemGetInfo(&left, &all));
    return all - left;
}

static status watch_alloc(backend_ctx *c, size_t bytes, void **p) {
    const status st = be->alloc(c, bytes, p);
    if (looking)
        most_used = std::max(most_used, used());
    return st;
}

static status watch_alloc_host(backend_ctx *c, size_t bytes, void **p) {
    const auto from = std::chrono::steady_clock::now();
    const status st = be->alloc_host(c, bytes, p);
    pinning += std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    return st;
}

static void watch() {
    watched = *be;
    watched.alloc = watch_alloc;
    watched.alloc_host = watch_alloc_host;
    most_used = used();
    pinning = 0;
}

static void sensors_layout(const matcov_model *m, int64_t b, Slopes *s) {
    std::vector<double> x, y;
    std::vector<int64_t> start = {0};
    for (int w = 0; w < m->nsensor; w++) {
        for (int k = 0; k < m->sensors[w].nsub; k++) {
            x.push_back(m->sensors[w].sub[k] % m->sensors[w].nssp * m->sensors[w].size);
            y.push_back(m->sensors[w].sub[k] / m->sensors[w].nssp * m->sensors[w].size);
        }
        start.push_back((int64_t)x.size());
    }
    tlr_points points = {m->nsensor, start.data(), x.data(), y.data(), 2};
    OK(tlr_layout_points(&points, b, TLR_KD, &s->layout));
    for (int64_t f : start)
        s->first.push_back(2 * f);
}

static void open_slopes(const matcov_model *m, int64_t b, Slopes *s) {
    int64_t widest = 0;
    s->ops = be->matcov;
    s->n = m->m;
    OK(s->ops->open(ctx, m, &s->cov));
    sensors_layout(m, b, s);
    for (int w = 0; w < m->nsensor; w++)
        widest = std::max(widest, s->first[w + 1] - s->first[w]);
    s->perm = (int64_t *)bench_alloc(8 * s->n);
    CU(cudaMemcpy(s->perm, s->layout.perm, 8 * s->n, cudaMemcpyHostToDevice));
    s->strip = (double *)bench_alloc(8 * s->n * widest);
    s->held = -1;
}

/* Mean rank by thirds of the tile columns. */
static void ranks_by_column(const tlr *l, const tlr_layout *layout, int64_t b) {
    double sum[3] = {}, count[3] = {};
    for (int64_t k = 0; k < layout->nt; k++)
        for (int64_t i = k + 1; i < layout->nt; i++)
            if (const tlr_tile *t = tlr_tile_at(l, i, k)) {
                sum[3 * k / layout->nt] += t->rank;
                count[3 * k / layout->nt]++;
            }
    printf("#   mean rank in the first, second and last third of the columns: %.1f %.1f %.1f of "
           "%lld\n",
           sum[0] / count[0], sum[1] / count[1], sum[2] / count[2], (long long)b);
}

/* For scripts/plot_ranks.py. */
static void write_ranks(const tlr *l, const tlr_layout *layout, int64_t b, const char *name) {
    FILE *f = fopen(name, "w");
    if (!f)
        return;
    fprintf(f, "row,column,rank,order\n");
    for (int64_t k = 0; k < layout->nt; k++)
        for (int64_t i = k + 1; i < layout->nt; i++)
            if (const tlr_tile *t = tlr_tile_at(l, i, k))
                fprintf(f, "%lld,%lld,%lld,%lld\n", (long long)i, (long long)k,
                        (long long)(t->kind == TLR_DENSE ? b : t->rank), (long long)b);
    fclose(f);
}

/* A number that depends on all bits of an array and on their places. */
__global__ void bits_kernel(const double *x, int64_t count, unsigned long long *sum) {
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    unsigned long long own = 0;
    for (int64_t k = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; k < count; k += stride) {
        unsigned long long z =
            (unsigned long long)__double_as_longlong(x[k]) + 0x9e3779b97f4a7c15u * (k + 1);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        own += z ^ (z >> 31);
    }
    atomicAdd(sum, own);
}

static unsigned long long bits_of(const double *x, int64_t count) {
    unsigned long long *there = (unsigned long long *)bench_alloc(8), sum;
    CU(cudaMemsetAsync(there, 0, 8, stream));
    bits_kernel<<<132 * 8, 256, 0, stream>>>(x, count, there);
    CU(cudaGetLastError());
    CU(cudaMemcpyAsync(&sum, there, 8, cudaMemcpyDeviceToHost, stream));
    CU(cudaStreamSynchronize(stream));
    CU(cudaFree(there));
    return sum;
}

/* Seconds of the second of two calls; the bits of X. */
static unsigned long long solve_rows(const tlr *l, int64_t n, int64_t v) {
    double *w = (double *)bench_alloc(8 * n * v), t = 0;
    for (int turn = 0; turn < 2; turn++) {
        bench_fill(BACKEND_D, w, v, n, 1, 0, 5);
        const double t0 = clock_now();
        OK(tlr_solve(l, 'R', 'A', v, w, v));
        t = clock_now() - t0;
    }
    const unsigned long long bits = bits_of(w, n * v);
    printf("#   two triangles with %lld rows: %.3f s (bits of X %016llx)\n", (long long)v, t, bits);
    CU(cudaFree(w));
    return bits;
}

/* Two triangles by products of FP16 numbers in several ways, terms and of these with columns in
 * FP16 (tlr_set_split; 0 terms: in the precision of the factor's products, once): seconds of the
 * second of two calls, and |X - first| / |first|. *first: X of the first way, the caller's, unless
 * it is there already. */
typedef std::vector<std::array<int, 2>> Ways;
static void solve_ways(tlr *l, int64_t n, int64_t v, const Ways &ways, double **first) {
    double *w = (double *)bench_alloc(8 * n * v);
    const double minus = -1;
    for (const auto &way : ways) {
        double t = 0, norm = 1, error = 0;
        tlr_set_split(l, way[0], way[1]);
        for (int turn = way[0] == 0; turn < 2; turn++) {
            bench_fill(BACKEND_D, w, v, n, 1, 0, 5);
            const double t0 = clock_now();
            OK(tlr_solve(l, 'R', 'A', v, w, v));
            t = clock_now() - t0;
        }
        if (!*first) {
            *first = w;
            w = (double *)bench_alloc(8 * n * v);
        } else {
            OK(cublasDnrm2_v2_64(blas, n * v, *first, 1, &norm));
            OK(cublasDaxpy_v2_64(blas, n * v, &minus, *first, 1, w, 1));
            OK(cublasDnrm2_v2_64(blas, n * v, w, 1, &error));
        }
        printf("#   two triangles with %lld rows, %d terms, %d with FP16 columns: %.3f s, off by "
               "%.1e\n",
               (long long)v, way[0], way[1], t, error / norm);
        fflush(stdout);
    }
    CU(cudaFree(w));
}

static void say_fp16(const tlr *l) {
    tlr_stats s;
    tlr_statistics(l, &s);
    printf("#   %.2f %% of %lld columns as halves, %lld of %lld dense tiles\n",
           100.0 * (double)s.fp16 / (double)s.columns, (long long)s.columns,
           (long long)s.dense_fp16, (long long)s.dense);
}

/* ways to keep and to compute; NARROWED: double precision's products, columns in FP16 */
enum { DOUBLES, SINGLES, HOST, NARROWED, IN_TERMS, HALVES };

/* GB that came from the host's memory if every block column had those before it sent alone: whole,
 * and only the rows that it uses. */
static void transfers_alone(const tlr *l, const tlr_layout *at, int64_t b, double gb[2]) {
    const int64_t step = 2048 / b, panels = (at->nt + step - 1) / step;
    gb[0] = gb[1] = 0;
    for (int64_t q = 0; q < panels; q++) {
        double whole = 0, rows = 0;
        std::vector<double> from(at->nt + 1, 0); /* bytes of tile rows from i on */
        for (int64_t i = at->nt - 1; i >= 0; i--) {
            for (int64_t k = q * step; k < std::min((q + 1) * step, at->nt); k++)
                if (const tlr_tile *t = tlr_tile_at(l, i, k))
                    whole +=
                        4.0 * t->rank *
                        (double)(at->first[i + 1] - at->first[i] +
                                 (t->kind == TLR_LOWRANK ? at->first[k + 1] - at->first[k] : 0));
            from[i] = whole;
        }
        for (int64_t p = q + 1; p < panels; p++)
            rows += from[p * step];
        gb[0] += 1e-9 * whole * (double)(panels - 1 - q);
        gb[1] += 1e-9 * rows;
    }
}

static void say_apart(const tlr *l, const tlr_layout *at, int64_t b, const tlr_report *r) {
    double gb[2];
    transfers_alone(l, at, b, gb);
    printf("#   %.1f GB came from the host's memory (whole for each block column: %.1f; only the "
           "rows it uses: %.1f), up to %d block columns at a time; pinned memory took %.2f s\n",
           1e-9 * r->fetched, gb[0], gb[1], r->together, pinning);
}

typedef struct {
    bool made, no_memory;
    double seconds;
    unsigned long long bits; /* of X */
} made_factor;

/* first: NULL, or X of solves by factors with halves and without (solve_ways). */
static made_factor mosaic_factor(Slopes *s, int64_t b, double tau, int64_t cut, int how, bool timed,
                                 double **first = NULL) {
    static const char *const name[] = {"FP64",
                                       "FP32",
                                       "FP32 in the host's memory",
                                       "columns as halves",
                                       "three terms",
                                       "three terms, columns as halves"};
    const bool terms = how >= IN_TERMS;
    tlr_options o = options(tau, 0, 0, cut);
    made_factor made = {};
    o.timed = timed;
    o.fp32 = how >= SINGLES;
    o.host = how == HOST;
    o.mixed = terms;
    o.terms = terms ? 3 : 0;
    o.fp16 = how == HALVES || how == NARROWED;
    if (terms)
        o.memory = (size_t)3 << 29;
    tlr_source from = {};
    tlr_report report;
    tlr *l;
    from.layout = &s->layout;
    from.fill = fill_slopes;
    from.arg = s;
    s->held = -1;
    watch();
    if (o.host) { /* 1 GB: streams and the workspaces of their libraries */
        const double before = (double)most_used, most = 1e9 * room - 1e9;
        o.room = most > before ? (size_t)(most - before) : 1;
        printf("#   %.2f GB of the device in use before, room for %.2f GB\n", 1e-9 * before,
               1e-9 * (double)o.room);
    }
    const double t0 = clock_now();
    const status st = tlr_factor(&watched, ctx, &from, 'L', &o, NULL, &l, &report);
    made.seconds = clock_now() - t0;
    if (st != MOAO_OK) {
        printf("mosaic n %lld tau %.1e, %s: %s (after %.1f s)\n", (long long)s->n, tau, name[how],
               status_message(), made.seconds);
        fflush(stdout);
        made.no_memory = st == MOAO_MEMORY;
        status_clear();
        return made;
    }
    made.made = true;
    printf("mosaic n %lld b %lld tau %.1e cut %lld, %s%s: factor %.3f s", (long long)s->n,
           (long long)b, tau, (long long)cut, name[how], timed ? ", steps timed" : "",
           made.seconds);
    if (looking)
        printf(", looking at memory, of which %.2f GB were in use at most",
               1e-9 * (double)most_used);
    printf("\n");
    fflush(stdout);
    say("L", l, b);
    if (o.host)
        say_apart(l, &s->layout, b, &report);
    if (timed)
        say_steps(&report);
    ranks_by_column(l, &s->layout, b);
    if (ranks_file)
        write_ranks(l, &s->layout, b, ranks_file);
    ranks_file = NULL; /* of the first factor */
    printf("#   %.1f GB of the device in use\n", 1e-9 * (double)used());
    most_used = used();
    if (no_triangles) {
    } else if (first) {
        say_fp16(l);
        solve_ways(l, s->n, 5336, {{3, 2}, {3, 1}, {2, 1}, {1, 1}}, first);
    } else if (how == NARROWED) { /* that in doubles is what the others are off by */
        double *own = NULL;
        say_fp16(l);
        solve_ways(l, s->n, 5336, {{0, 0}, {3, 2}, {3, 1}, {2, 1}, {1, 1}}, &own);
        CU(cudaFree(own));
    } else if (how == IN_TERMS && !timed) {
        double *own = NULL;
        solve_ways(l, s->n, 5336, {{3, 2}, {2, 1}, {1, 1}, {0, 0}}, &own);
        CU(cudaFree(own));
    } else if (!terms) {
        made.bits = solve_rows(l, s->n, 5336);
    }
    if (looking)
        printf("#   %.2f GB of the device in use at most in the triangles\n",
               1e-9 * (double)most_used);
    printf("#   error %.1e\n", factor_error(l, &s->layout, fill_slopes, s));
    fflush(stdout);
    tlr_close(l);
    return made;
}

/* On the device and in the host's memory in turn: the first time of each warms up, and looks at
 * memory. */
static void bench_kept(Slopes *s, int64_t b, double tau) {
    double best[2] = {INFINITY, INFINITY};
    made_factor f[2];
    room = room > 0 ? room : 24;
    for (int turn = 0; turn < 3; turn++)
        for (int k = 0; k < 2; k++) {
            looking = turn == 0;
            f[k] = mosaic_factor(s, b, tau, b / 2, k ? HOST : SINGLES, false);
            if (!f[k].made)
                return;
            if (turn > 0)
                best[k] = std::min(best[k], f[k].seconds);
        }
    printf("kept: in the host's memory %.3f s, on the device %.3f s (best of two): %.1f %% more; "
           "bits of X %s\n",
           best[1], best[0], 100 * (best[1] / best[0] - 1),
           f[0].bits == f[1].bits ? "the same" : "DIFFERENT");
    fflush(stdout);
}

/* Without the triangles: each way, when all is warm, and its steps. */
static void bench_factor(Slopes *s, int64_t b, double tau) {
    no_triangles = true;
    looking = false;
    for (int how : {SINGLES, IN_TERMS})
        for (int turn = how == IN_TERMS; turn < 3; turn++)
            mosaic_factor(s, b, tau, b / 2, how, turn == 2);
    no_triangles = false;
}

/* On the device if that holds it. */
static void bench_twice(Slopes *s, int64_t b, double tau) {
    room = room > 0 ? room : 120;
    if (apart || mosaic_factor(s, b, tau, b / 2, SINGLES, false).no_memory)
        mosaic_factor(s, b, tau, b / 2, HOST, false);
}

/* Smallest eigenvalue of the noise of a subaperture's two slopes. */
static double least_noise(const matcov_model *m) {
    double least = INFINITY;
    for (int64_t k = 0; k < m->m / 2; k++) {
        const double xx = m->noise[3 * k], yy = m->noise[3 * k + 1], xy = m->noise[3 * k + 2];
        least = fmin(least, (xx + yy) / 2 - sqrt((xx - yy) * (xx - yy) / 4 + xy * xy));
    }
    return least;
}

static void bench_mosaic(const char *file, int64_t b, const std::string &group) {
    matcov_model m;
    Slopes s = {};
    OK(tlr_case_open(file, &m));
    const double nu = least_noise(&m);
    printf("# %s: %lld measurements, least noise %.3g arcsec^2\n", file, (long long)m.m, nu);
    open_slopes(&m, b, &s);
    if (group == "kept")
        bench_kept(&s, b, nu / 2);
    if (group == "solves")
        mosaic_factor(&s, b, nu / part_of_noise, b / 2, NARROWED, false);
    if (group == "factor")
        bench_factor(&s, b, nu / 2);
    if (group == "terms")
        for (bool timed : {false, true})
            for (double part : {2.0, 8.0})
                mosaic_factor(&s, b, nu / part, b / 2, IN_TERMS, timed);
    if (group == "columns")
        for (double part : {2.0, 8.0}) {
            double *first = NULL;
            for (int how : {IN_TERMS, HALVES})
                mosaic_factor(&s, b, nu / part, b / 2, how, false, &first);
            CU(cudaFree(first));
            mosaic_factor(&s, b, nu / part, b / 2, HALVES, true);
        }
    if (group == "twice")
        bench_twice(&s, b, nu / part_of_noise);
    if (group == "mosaic")
        for (double part : {2.0, 8.0})
            for (int how : {DOUBLES, SINGLES})
                mosaic_factor(&s, b, nu / part, b / 2, how, how == DOUBLES);
}

#endif
