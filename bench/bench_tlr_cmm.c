/* Factor of Cmm of a parameter file compressed by tiles, by its steps, and two triangles, beside
 * the same backend's dense ones; ranks and bytes beside those predicted (factor/tlr_cmm.h). Times
 * of the processor too, for machines with other work (OMP_NUM_THREADS=1 then). Started by mpirun -n
 * N, the ranks make the factor together, on devices one each: what each spends between two messages
 * is added up for the slowest one, which is what the factor takes on CPUs where every rank has a
 * processor of its own, and the messages of MPI are counted. bench_tlr_cmm [backend=cpu: or gpu]
 * [file=params/mosaic.yaml] [key=value ...] [tolerance=1/8 of the noise] [tile=0] [width=0] [cut=0]
 * [parts=-1: the pipeline's] [rows=0: those of W] [mixed=1] [terms=0] [halves=0]
 * [dense=1] [distributed=0] [host=0] [room=0: GB, with host]
 * [memory=1 GB: for intermediate products] [repeat=1: factors made] [timed=1: each step is waited
 * for] */
#include "timing.h"

#include "factor/tlr_cmm.h"
#include "params/params.h"

#include <math.h>
#include <mpi.h>
#include <string.h>

static params par;
static sys s;
static atmos a;
static engine e;
static report rep;
static comm world;

static double cpu_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

typedef struct {
    double wall, cpu;
} spent;

/* Seconds of one call, until its results are there. */
#define ONCE(call)                                                                                 \
    __extension__({                                                                                \
        check(e.be->sync(e.ctx));                                                                  \
        const spent from_ = {now(), cpu_seconds()};                                                \
        check(call);                                                                               \
        check(e.be->sync(e.ctx));                                                                  \
        (spent){now() - from_.wall, cpu_seconds() - from_.cpu};                                    \
    })

static void row(const char *what, spent t) {
    if (world.rank > 0)
        return;
    printf("%-28s %9.2f s, %9.2f s of the processor\n", what, t.wall, t.cpu);
    fflush(stdout);
}

/* --- messages, by MPI's profiling interface --- */

#define MEETINGS 100000
static double alone[MEETINGS]; /* seconds of the processor before each message */
static double since;           /* the processor's time when the last one ended */
static int meetings;
static double sent; /* bytes of broadcasts */

static void meet(void) {
    if (meetings < MEETINGS)
        alone[meetings++] = cpu_seconds() - since;
}

int MPI_Bcast(void *p, int count, MPI_Datatype type, int root, MPI_Comm of) {
    int size;
    meet();
    MPI_Type_size(type, &size);
    sent += (double)count * size;
    const int code = PMPI_Bcast(p, count, type, root, of);
    since = cpu_seconds();
    return code;
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm of) {
    meet();
    const int code = PMPI_Allreduce(in, out, count, type, op, of);
    since = cpu_seconds();
    return code;
}

static void begin_counting(void) {
    PMPI_Barrier(MPI_COMM_WORLD);
    meetings = 0;
    sent = 0;
    since = cpu_seconds();
}

static void say_messages(void) {
    double slowest = 0, all = 0, own = 0;
    meet();
    for (int k = 0; k < meetings; k++)
        own += alone[k];
    PMPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    PMPI_Allreduce(MPI_IN_PLACE, alone, meetings, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int k = 0; k < meetings; k++)
        slowest += alone[k];
    if (world.rank == 0)
        printf("    %d rank%s: %.2f s of the processor between messages on the slowest one at a "
               "time, %.2f s all together; %.3f GB of broadcasts\n",
               world.size, world.size > 1 ? "s" : "", slowest, all, sent / 1e9);
}

/* --- memory that a factor takes: the backend, by functions that count --- */

typedef struct {
    int64_t calls;
    double seconds; /* of the host */
} counted;
static counted taken, given, pinned;
static backend watched;

static void count(counted *c, double from) {
    c->calls++;
    c->seconds += now() - from;
}

static status watch_alloc(backend_ctx *ctx, size_t bytes, void **p) {
    const double from = now();
    const status st = e.be->alloc(ctx, bytes, p);
    count(&taken, from);
    return st;
}

static void watch_release(backend_ctx *ctx, void *p) {
    const double from = now();
    e.be->release(ctx, p);
    if (p)
        count(&given, from);
}

static status watch_alloc_host(backend_ctx *ctx, size_t bytes, void **p) {
    const double from = now();
    const status st = e.be->alloc_host(ctx, bytes, p);
    count(&pinned, from);
    return st;
}

static const backend *watch(void) {
    watched = *e.be;
    watched.alloc = watch_alloc;
    watched.release = watch_release;
    watched.alloc_host = watch_alloc_host;
    taken = given = pinned = (counted){0};
    return &watched;
}

static void say_memory(void) {
    printf("    memory taken %lld times in %.2f s of the host, given back %lld times in %.2f s; "
           "pinned %lld times in %.2f s\n",
           (long long)taken.calls, taken.seconds, (long long)given.calls, given.seconds,
           (long long)pinned.calls, pinned.seconds);
}

/* The backend's memory. */
static double *room_for(int64_t count) {
    double *p;
    check(engine_doubles(&e, count, "a bench", &p));
    return p;
}

static double *random_numbers(int64_t count) {
    static uint64_t x = 1;
    double *host = malloc(sizeof(double) * (size_t)count), *p = room_for(count);
    for (int64_t i = 0; i < count; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        host[i] = (double)(x >> 11) * 0x1p-53 - 0.5;
    }
    check(engine_copy(&e, p, host, count));
    check(e.be->sync(e.ctx));
    free(host);
    return p;
}

/* One number that tells whether two arrays have the same bits (as good as certainly). */
static unsigned long long bits_of(const double *x, int64_t count) {
    uint64_t *host = malloc(sizeof *host * (size_t)count), h = 1469598103934665603u;
    check(engine_copy(&e, (double *)(void *)host, x, count));
    check(e.be->sync(e.ctx));
    for (int64_t i = 0; i < count; i++)
        h = (h ^ host[i]) * 1099511628211u;
    free(host);
    return h;
}

static double norm_of(const double *x, int64_t n) {
    double *host = malloc(sizeof(double) * (size_t)n), sum = 0;
    check(engine_copy(&e, host, x, n));
    check(e.be->sync(e.ctx));
    for (int64_t i = 0; i < n; i++)
        sum += host[i] * host[i];
    free(host);
    return sqrt(sum);
}

static void bench_dense(int64_t v, double *x) {
    const int64_t m = e.m;
    const double one = 1;
    double *c = room_for(m * m), *info = room_for(1);
    check(engine_work(&e, e.be->workspace(BACKEND_POTRF, BACKEND_D, m, m)));
    check(engine_work(&e, e.be->workspace(BACKEND_TRSM, BACKEND_D, v, m)));
    row("dense: entries", ONCE(e.mat->fill_cmm(e.cov, BACKEND_D, 'L', MATCOV_ALL,
                                               (matcov_region){0, m, 0, m}, c, m)));
    row("dense: factor",
        ONCE(e.be->potrf(e.ctx, BACKEND_D, 'L', m, c, m, (int *)(void *)info, e.work, e.lwork)));
    spent t = ONCE(e.be->trsm(e.ctx, BACKEND_D, 'R', 'L', 'T', 'N', v, m, &one, c, m, x, v, e.work,
                              e.lwork)),
          u = ONCE(e.be->trsm(e.ctx, BACKEND_D, 'R', 'L', 'N', 'N', v, m, &one, c, m, x, v, e.work,
                              e.lwork));
    row("dense: two triangles", (spent){t.wall + u.wall, t.cpu + u.cpu});
    ENGINE_RELEASE(&e, c, info);
}

static void say_steps(const tlr_report *r) {
    static const char *const name[TLR_STEPS] = {
        "entries", "V'V",    "small products", "dense tiles", "large products",
        "pivots",  "divide", "compress",       "settle"};
    printf("    of which");
    for (int k = 0; k < TLR_STEPS; k++)
        printf(" %s %.2f%s", name[k], r->seconds[k], k + 1 < TLR_STEPS ? "," : " s\n");
}

static tlr_options o = {
    .cut = -1, .seed = 1, .fp32 = true, .mixed = true, .timed = true, .parts = -1};
static tlr_group group;
static int repeat = 1;

/* |(L L^T - Cmm) x| / |Cmm x| of a random x. */
static double error_of(const tlr *l, tlr_cmm *c) {
    const int64_t n = e.m, step = 256;
    double *x = random_numbers(n), *y = room_for(n), *z = room_for(n), *a = room_for(n * step);
    c->held = -1;
    check(engine_zero(&e, BACKEND_D, n, 1, z, n));
    for (int64_t j = 0, w; j < n; j += w) {
        w = n - j < step ? n - j : step;
        check(tlr_cmm_fill(c, 0, n, j, w, a, n));
        check(engine_gemm(&e, 'N', 'N', n, 1, w, 1, a, n, x + j, n, 1, z, n));
    }
    const double norm = norm_of(z, n);
    check(tlr_apply(l, 'L', 'T', 1, 1, x, n, 0, y, n));
    check(tlr_apply(l, 'L', 'N', 1, 1, y, n, -1, z, n));
    const double error = norm_of(z, n);
    ENGINE_RELEASE(&e, x, y, z, a);
    return error / norm;
}

static tlr *bench_compressed(int64_t tile, double part, tlr_cmm *c) {
    tlr_report report;
    tlr_stats k;
    tlr_prediction p;
    tlr *l;
    check(tlr_cmm_noise(e.mc, e.m, &o.tau));
    o.tau *= part;
    check(tlr_cmm_open(&e, tile, c));
    if (o.width == 0)
        o.width = tlr_cmm_width(tile);
    c->strip = room_for(e.m * tlr_cmm_widest(&s));
    check(tlr_group_open(&e, true, false, &group));
    c->group = &group;
    if (o.parts < 0)
        o.parts = tlr_group_parts(&group, o.distributed, e.m);
    const tlr_source from = {.layout = &c->order,
                             .fill = tlr_cmm_fill,
                             .arg = c,
                             .members = tlr_group_procs(&group),
                             .own_rows = tlr_cmm_own_rows(c)};
    for (int k = 0; k < repeat; k++) {
        if (k > 0)
            tlr_close(l);
        c->held = -1;
        check(tlr_group_begin(&group, MOAO_OK));
        begin_counting();
        const backend *be = watch();
        row("tiles: factor, with entries",
            ONCE(tlr_factor(be, e.ctx, &from, 'L', &o, NULL, &l, &report)));
    }
    say_messages();
    if (world.rank > 0)
        return l;
    say_memory();
    if (o.timed)
        say_steps(&report);
    tlr_statistics(l, &k);
    printf("    as halves: %.2f %% of the columns, %lld of the dense tiles\n",
           100.0 * (double)k.fp16 / (double)k.columns, (long long)k.dense_fp16);
    if (world.size == 1)
        printf("    error %.2e\n", error_of(l, c));
    printf("    tolerance %.2e arcsec^2, tiles of %lld: %.3f GB of %.3f; rank %.1f on "
           "average, "
           "%lld of %lld tiles "
           "dense, %lld empty\n",
           o.tau, (long long)k.order, k.bytes / 1e9, k.bytes_dense / 1e9, k.mean,
           (long long)k.dense, (long long)k.tiles, (long long)k.empty);
    if (o.host)
        printf("    %.1f GB came from the host's memory, up to %d block columns at a time\n",
               report.fetched / 1e9, report.together);
    if (o.distributed)
        printf("    of these %.3f GB on the first rank\n", k.here / 1e9);
    const spent t =
        ONCE(tlr_predict(&s, &a.profiles[0], tile, (int)lround(-8 * log2(part)), o.fp16, &p));
    printf("    predicted in %.1f s: %.3f GB (%.2f times), rank %.1f, %.0f of %.0f tiles dense\n",
           t.wall, p.bytes / 1e9, p.bytes / k.bytes, p.mean, p.dense * p.tiles, p.tiles);
    return l;
}

static int64_t tile, v;
static double part = 0.125;
static bool dense = true;
static const char *backend_name = "cpu";

static void read_arguments(int argc, char **argv) {
    const char *file = "params/mosaic.yaml", **set = malloc(sizeof *set * (size_t)argc);
    int n = 0;
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "file=", 5))
            file = argv[i] + 5;
        else if (!strncmp(argv[i], "backend=", 8))
            backend_name = argv[i] + 8;
        else if (!strncmp(argv[i], "memory=", 7))
            o.memory = (size_t)(1e9 * atof(argv[i] + 7));
        else if (!strncmp(argv[i], "repeat=", 7))
            repeat = atoi(argv[i] + 7);
        else if (!strncmp(argv[i], "timed=", 6))
            o.timed = atoi(argv[i] + 6) != 0;
        else if (!strncmp(argv[i], "tolerance=", 10))
            part = atof(argv[i] + 10);
        else if (!strncmp(argv[i], "tile=", 5))
            tile = atoll(argv[i] + 5);
        else if (!strncmp(argv[i], "width=", 6))
            o.width = atoll(argv[i] + 6);
        else if (!strncmp(argv[i], "cut=", 4))
            o.cut = atoll(argv[i] + 4);
        else if (!strncmp(argv[i], "parts=", 6))
            o.parts = atoi(argv[i] + 6);
        else if (!strncmp(argv[i], "rows=", 5))
            v = atoll(argv[i] + 5);
        else if (!strncmp(argv[i], "mixed=", 6))
            o.mixed = atoi(argv[i] + 6) != 0;
        else if (!strncmp(argv[i], "terms=", 6))
            o.terms = atoi(argv[i] + 6);
        else if (!strncmp(argv[i], "halves=", 7))
            o.fp16 = atoi(argv[i] + 7) != 0;
        else if (!strncmp(argv[i], "host=", 5))
            o.host = atoi(argv[i] + 5) != 0;
        else if (!strncmp(argv[i], "room=", 5))
            o.room = (size_t)(1e9 * atof(argv[i] + 5));
        else if (!strncmp(argv[i], "distributed=", 12))
            o.distributed = atoi(argv[i] + 12) != 0;
        else if (!strncmp(argv[i], "dense=", 6))
            dense = atoi(argv[i] + 6) != 0;
        else
            set[n++] = argv[i];
    check(params_load(&world, 1, &file, n, set, &par));
    free(set);
}

int main(int argc, char **argv) {
    matcov *mc;
    tlr_cmm c;
    check((MPI_Init(NULL, NULL), comm_init(MPI_COMM_WORLD, &world)));
    read_arguments(argc, argv);
    check(sys_init(&par, &s));
    check(atmos_init(&par, &s, &a));
    e = (engine){.c = &world, .s = &s, .rep = &rep, .m = (int64_t)s.m, .width = 256};
    check(backend_get(backend_name, &e.be));
    check(engine_open(&e));
    check(matcov_prepare(&s, &a.profiles[0], &mc));
    check(engine_use(&e, mc));
    v = v > 0 ? v : s.dm.nact;
    if (world.rank == 0)
        printf("# %lld measurements, %lld rows of W\n", (long long)e.m, (long long)v);
    double *x = random_numbers(v * e.m);
    tlr *l = bench_compressed(tlr_cmm_tile(e.m, (int)tile), part, &c);
    row("tiles: two triangles", ONCE(tlr_solve(l, 'R', 'A', v, x, v)));
    if (world.rank == 0)
        printf("    bits of X %016llx\n", bits_of(x, v * e.m));
    tlr_close(l);
    e.be->release(e.ctx, c.strip);
    if (dense && world.size == 1)
        bench_dense(v, x);
    e.be->release(e.ctx, x);
    tlr_cmm_close(&c);
    tlr_group_close(&group);
    engine_close(&e);
    MPI_Finalize();
    return 0;
}
