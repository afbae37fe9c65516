/* Hierarchical matrices with the installed library alone: a covariance of points in a square as an
 * HSS and as an H2 matrix. How much smaller each is than the dense one, the error of sampled rows,
 * a product, and a solve with the HSS matrix (kriging would need one). cc hierarchical.c
 * $(pkg-config --cflags --libs moao-linalg) -lm -o hierarchical
 *   ./hierarchical [--n 4096] [--length 0.5] [--nugget 0.1] [--tol 1e-6] [--columns 8] [--backend
 * auto]
 *                  [--parts FILE] [--save FILE]
 * --parts writes the blocks of both (kind, row, rows, column, columns, rank; -1: dense), for
 * scripts/plot_formats.py. --save keeps the HSS matrix and its factor in a file, and solves with
 * what comes back from there. */
#include <math.h>
#include <moao/hier.h>
#include <moao/hier_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_part(void *arg, int64_t row, int64_t rows, int64_t col, int64_t cols, int rank) {
    fprintf(arg, "%lld,%lld,%lld,%lld,%d\n", (long long)row, (long long)rows, (long long)col,
            (long long)cols, rank);
}

typedef struct {
    const moao_backend *be;
    moao_backend_ctx *ctx;
    int64_t n, columns;
    double nugget;
    double *host; /* n x columns */
    void *x, *y;  /* the same on the device */
    FILE *file;
    const char *save;
} run;

/* Y := A X, then back: X := (A + nugget)^-1 (A + nugget) X where the format solves. */
static moao_status use(const run *r, moao_hier *f, bool solves) {
    const size_t bytes = sizeof(double) * (size_t)(r->n * r->columns);
    const int64_t b = (int64_t)bytes;
    size_t lwork = moao_hier_workspace(f, 'L', r->columns);
    void *work = NULL;
    double worst = 0, begin, *back = malloc(bytes);
    moao_status st;
    MOAO_TRY(r->be->alloc(r->ctx, lwork, &work));
    MOAO_TRY(
        moao_hier_apply(f, 'L', 'N', 'A', r->columns, 1, r->x, r->n, 0, r->y, r->n, work, lwork));
    MOAO_TRY(r->be->sync(r->ctx));
    begin = seconds();
    MOAO_TRY(
        moao_hier_apply(f, 'L', 'N', 'A', r->columns, 1, r->x, r->n, 0, r->y, r->n, work, lwork));
    MOAO_TRY(r->be->sync(r->ctx));
    printf("  product with %lld columns: %.3f ms\n", (long long)r->columns,
           1e3 * (seconds() - begin));
    begin = seconds();
    if (!solves)
        goto done;
    MOAO_TRY(moao_hier_factor(f, r->nugget));
    printf("  factor: %.3f s\n", seconds() - begin);
    /* y := A x + nugget x, on the host, solved on the device */
    MOAO_TRY(r->be->copy(r->ctx, back, b, r->y, b, b, 1));
    MOAO_TRY(r->be->sync(r->ctx));
    for (int64_t e = 0; e < r->n * r->columns; e++)
        back[e] += r->nugget * r->host[e];
    MOAO_TRY(r->be->copy(r->ctx, r->y, b, back, b, b, 1));
    r->be->release(r->ctx, work);
    work = NULL, lwork = moao_hier_solve_workspace(f, r->columns);
    MOAO_TRY(r->be->alloc(r->ctx, lwork, &work));
    MOAO_TRY(moao_hier_solve(f, 'N', r->columns, r->y, r->n, work, lwork));
    MOAO_TRY(r->be->copy(r->ctx, back, b, r->y, b, b, 1));
    MOAO_TRY(r->be->sync(r->ctx));
    for (int64_t e = 0; e < r->n * r->columns; e++)
        worst = fmax(worst, fabs(back[e] - r->host[e]));
    printf("  solve: largest difference to what was multiplied %.1e\n", worst);
done:
    r->be->release(r->ctx, work);
    free(back);
    return st;
}

/* Into a file and back: the same solutions of the same right-hand sides. */
static moao_status keep(const run *r, const moao_hier *f) {
    const int64_t bytes = (int64_t)sizeof(double) * r->n * r->columns;
    const size_t lwork = moao_hier_solve_workspace(f, r->columns);
    double *here = malloc((size_t)bytes), *there = malloc((size_t)bytes), begin = seconds();
    moao_hier *g = NULL;
    void *work = NULL;
    moao_status st;
    MOAO_TRY(moao_hier_save(f, r->save));
    printf("  saved in %.3f s", seconds() - begin);
    begin = seconds();
    MOAO_TRY(moao_hier_restore(r->be, r->ctx, r->save, &g));
    printf(", read back in %.3f s", seconds() - begin);
    MOAO_TRY(r->be->alloc(r->ctx, lwork, &work));
    for (int back = 0; back < 2; back++) {
        MOAO_TRY(r->be->copy(r->ctx, r->y, bytes, r->x, bytes, bytes, 1));
        MOAO_TRY(moao_hier_solve(back ? g : f, 'N', r->columns, r->y, r->n, work, lwork));
        MOAO_TRY(r->be->copy(r->ctx, back ? there : here, bytes, r->y, bytes, bytes, 1));
        MOAO_TRY(r->be->sync(r->ctx));
    }
    printf(": %s solutions\n", memcmp(here, there, (size_t)bytes) ? "other" : "the same");
done:
    r->be->release(r->ctx, work);
    moao_hier_close(g);
    free(here), free(there);
    return st;
}

static moao_status one_kind(const run *r, const moao_hier_source *s, const moao_hier_options *o,
                            const char *name) {
    moao_hier *f = NULL;
    moao_hier_info info;
    double rms, worst, begin = seconds();
    moao_status st;
    MOAO_TRY(moao_hier_open(r->be, r->ctx, s, o, &f));
    if (o->kind == MOAO_HIER_H2)
        MOAO_TRY(moao_hier_compress(f, o->tol, 'W', 0));
    printf("%s: made in %.3f s\n", name, seconds() - begin);
    MOAO_TRY(moao_hier_check(f, s, 8, 1, &rms, &worst));
    moao_hier_describe(f, &info);
    printf("  %d levels, mean rank %d, largest %d, %.2f MB of %.2f dense (%.1f %%)\n", info.levels,
           info.rank_mean, info.rank_max, 1e-6 * (double)info.bytes, 8e-6 * (double)(r->n * r->n),
           100 * (double)info.bytes / (8 * (double)(r->n * r->n)));
    printf("  error of an entry: rms %.1e, worst seen %.1e\n", rms, worst);
    MOAO_TRY(use(r, f, o->kind == MOAO_HIER_HSS));
    if (r->save && o->kind == MOAO_HIER_HSS)
        MOAO_TRY(keep(r, f));
    if (r->file) {
        fprintf(r->file, "# %s\n", name);
        moao_hier_parts(f, write_part, r->file);
    }
done:
    moao_hier_close(f);
    return st;
}

/* Points of a jittered grid; numbers of the right-hand sides. */
static void fill(run *r, double *at) {
    const int64_t side = (int64_t)ceil(sqrt((double)r->n));
    srand(1);
    for (int64_t i = 0; i < r->n; i++) {
        at[2 * i] = ((double)(i % side) + 0.2 + 0.6 * rand() / RAND_MAX) / (double)side;
        at[2 * i + 1] = ((double)(i / side) + 0.2 + 0.6 * rand() / RAND_MAX) / (double)side;
    }
    for (int64_t e = 0; e < r->n * r->columns; e++)
        r->host[e] = 2.0 * rand() / RAND_MAX - 1;
}

static double option(int argc, char **argv, const char *name, double value) {
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            value = atof(argv[i + 1]);
    return value;
}
static const char *text_option(int argc, char **argv, const char *name, const char *value) {
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            value = argv[i + 1];
    return value;
}

int main(int argc, char **argv) {
    run r = {.n = (int64_t)option(argc, argv, "--n", 4096),
             .columns = (int64_t)option(argc, argv, "--columns", 8),
             .nugget = option(argc, argv, "--nugget", 0.1),
             .save = text_option(argc, argv, "--save", NULL)};
    const char *parts = text_option(argc, argv, "--parts", NULL);
    moao_hier_options o = {.kind = MOAO_HIER_HSS,
                           .type = MOAO_BACKEND_D,
                           .tol = option(argc, argv, "--tol", 1e-6),
                           .lean = true};
    const int64_t bytes = (int64_t)sizeof(double) * r.n * r.columns;
    double *at = malloc(2 * sizeof *at * (size_t)r.n);
    moao_hier_source s = {0};
    moao_status st = MOAO_MEMORY;
    r.host = malloc((size_t)bytes);
    r.file = parts ? fopen(parts, "w") : NULL;
    if (!at || !r.host || (parts && !r.file))
        goto done;
    fill(&r, at);
    MOAO_TRY(moao_backend_get(text_option(argc, argv, "--backend", "auto"), &r.be));
    MOAO_TRY(r.be->open(0, NULL, &r.ctx));
    MOAO_TRY(r.be->alloc(r.ctx, (size_t)bytes, &r.x));
    MOAO_TRY(r.be->alloc(r.ctx, (size_t)bytes, &r.y));
    MOAO_TRY(r.be->copy(r.ctx, r.x, bytes, r.host, bytes, bytes, 1));
    MOAO_TRY(moao_hier_points_open(r.be, r.ctx, MOAO_HIER_EXPONENTIAL,
                                   option(argc, argv, "--length", 0.5), 2, r.n, at, &s));
    MOAO_TRY(one_kind(&r, &s, &o, "HSS"));
    o.kind = MOAO_HIER_H2, o.order = 8;
    MOAO_TRY(one_kind(&r, &s, &o, "H2"));
done:
    if (st != MOAO_OK)
        fprintf(stderr, "%s\n", moao_status_message());
    if (s.from)
        moao_hier_points_close(&s);
    if (r.ctx || r.x) {
        r.be->release(r.ctx, r.x), r.be->release(r.ctx, r.y);
        r.be->close(r.ctx);
    }
    if (r.file)
        fclose(r.file);
    free(at), free(r.host);
    return st == MOAO_OK ? 0 : 1;
}
