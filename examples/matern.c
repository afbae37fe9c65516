/* Spatial statistics with a tile low-rank Cholesky factor: the log-likelihood of a Gaussian random
 * field with Matern covariance, the fit of its variance and range, and kriging.
 * With the installed library alone:
 *   cc matern.c $(pkg-config --cflags --libs moao-linalg) -lm -o matern
 *   ./matern [--n 1600] [--variance 1] [--beta 0.1] [--nu 0.5] [--nugget 0.01] [--tau 1e-7]
 *            [--tile 128] [--seed 1] [--backend auto] [--fit] [--ranks FILE]
 * The points are a jittered grid in the unit square; the data are drawn with the exact factor, 100
 * of them are held out for kriging. Covariance: variance 2^(1-nu)/Gamma(nu) x^nu K_nu(x), x =
 * d/beta, in closed form for nu = 0.5, 1.5, 2.5. Every line names its quantities. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tlr.h>

enum { HELD = 100 };

typedef struct {
    double variance, beta, nu, nugget;
} model;

typedef struct {
    const backend *be;
    backend_ctx *ctx;
    int64_t n; /* points with data; HELD more follow */
    double *x, *y, *z;
    tlr_layout all, known; /* order of all points, and of those with data */
    const tlr_layout *order;
    model m;
    int64_t tile;
} field;

/* --- the model --- */

/* K_nu(x) by the trapezoidal rule on its integral over cosh, which converges geometrically. */
static double bessel_k(double nu, double x) {
    double sum = 0.5 * exp(-x);
    for (double t = 0.05;; t += 0.05) {
        const double e = exp(-x * cosh(t) + nu * t);
        sum += 0.5 * (e + exp(-x * cosh(t) - nu * t));
        if (e < 1e-17 * sum)
            return 0.05 * sum;
    }
}

static double matern(const model *m, double d) {
    const double x = d / m->beta;
    if (x == 0)
        return m->variance;
    if (m->nu == 0.5)
        return m->variance * exp(-x);
    if (m->nu == 1.5)
        return m->variance * (1 + x) * exp(-x);
    if (m->nu == 2.5)
        return m->variance * (1 + x + x * x / 3) * exp(-x);
    return m->variance * 2 * pow(x / 2, m->nu) / tgamma(m->nu) * bessel_k(m->nu, x);
}

static double covariance(const field *f, int64_t a, int64_t b) {
    return matern(&f->m, hypot(f->x[a] - f->x[b], f->y[a] - f->y[b])) + (a == b) * f->m.nugget;
}

/* A block of the covariance matrix, computed on the host and sent to the backend. */
static status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                   int64_t lda) {
    const field *f = arg;
    const int64_t *p = f->order->perm;
    double *host = malloc(sizeof(double) * (size_t)(ni * nj));
    status st = MOAO_MEMORY;
    if (!host)
        return st;
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < nj; j++)
        for (int64_t i = 0; i < ni; i++)
            host[i + j * ni] = covariance(f, p[i0 + i], p[j0 + j]);
    st = f->be->copy(f->ctx, a, 8 * lda, host, 8 * ni, 8 * ni, nj);
    if (st == MOAO_OK)
        st = f->be->sync(f->ctx);
    free(host);
    return st;
}

/* --- the library's part --- */

/* Factor of the covariance in an order; tau 0: exact. What is too loose is tried with tau / 4. */
static status factor(field *f, const tlr_layout *order, double tau, tlr **l) {
    const tlr_options o = {
        .tau = tau, .cut = -1, .width = f->n < 20000 ? 2 * f->tile : 0, .seed = 1};
    const tlr_rescue rescue = {.retries = 1};
    const tlr_source from = {.layout = order, .fill = fill, .arg = f};
    f->order = order;
    return tlr_factor(f->be, f->ctx, &from, 'L', &o, &rescue, l, NULL);
}

/* Vectors of the host in the backend's memory for a solve or product, and back. job: as
 * tlr_solve's, or '*' for the product with L. */
static status with_factor(const field *f, const tlr *l, char job, int64_t n, int64_t v, double *x) {
    const int64_t bytes = 8 * n * v;
    const double one = 1;
    void *a = NULL, *b = NULL;
    status st;
    TRY(f->be->alloc(f->ctx, (size_t)bytes, &a));
    TRY(f->be->alloc(f->ctx, (size_t)bytes, &b));
    TRY(f->be->copy(f->ctx, a, bytes, x, bytes, bytes, 1));
    TRY(job == '*' ? tlr_apply(l, 'L', 'N', v, one, a, n, 0, b, n)
                   : tlr_solve(l, 'L', job, v, a, n));
    TRY(f->be->copy(f->ctx, x, bytes, job == '*' ? b : a, bytes, bytes, 1));
    TRY(f->be->sync(f->ctx));
done:
    f->be->release(f->ctx, a), f->be->release(f->ctx, b);
    return st;
}

/* log p(z) = -(n log 2 pi + log det C + |L^-1 z|^2) / 2 */
static status likelihood(field *f, double tau, double *value, tlr_stats *s) {
    double *z = malloc(sizeof(double) * (size_t)f->n), det, square = 0;
    tlr *l = NULL;
    status st = z ? MOAO_OK : MOAO_MEMORY;
    if (st == MOAO_OK)
        TRY(factor(f, &f->known, tau, &l));
    for (int64_t i = 0; l && i < f->n; i++)
        z[i] = f->z[f->known.perm[i]];
    TRY(with_factor(f, l, 'N', f->n, 1, z));
    TRY(tlr_logdet(l, &det));
    for (int64_t i = 0; i < f->n; i++)
        square += z[i] * z[i];
    *value = -0.5 * ((double)f->n * log(2 * M_PI) + det + square);
    if (s)
        tlr_statistics(l, s);
done:
    tlr_close(l);
    free(z);
    return st;
}

/* --- the field --- */

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

/* Points of a jittered grid in random order, so that those held out lie anywhere. */
static status scatter(field *f, uint64_t seed) {
    const int64_t total = f->n + HELD, side = (int64_t)ceil(sqrt((double)total)),
                  start[2] = {0, total}, known[2] = {0, f->n};
    uint64_t s = seed;
    status st;
    f->x = malloc(sizeof(double) * (size_t)(side * side));
    f->y = malloc(sizeof(double) * (size_t)(side * side));
    f->z = malloc(sizeof(double) * (size_t)total);
    if (!f->x || !f->y || !f->z)
        return MOAO_MEMORY;
    for (int64_t i = 0; i < side * side; i++) {
        const int64_t j = (int64_t)(uniform(&s) * (double)(i + 1)); /* shuffled as they come */
        f->x[i] = f->x[j], f->y[i] = f->y[j];
        f->x[j] = ((double)(i % side) + 0.5 + 0.8 * (uniform(&s) - 0.5)) / (double)side;
        f->y[j] = ((double)(i / side) + 0.5 + 0.8 * (uniform(&s) - 0.5)) / (double)side;
    }
    TRY(tlr_layout_points(&(tlr_points){1, start, f->x, f->y, 1}, f->tile, TLR_KD, &f->all));
    TRY(tlr_layout_points(&(tlr_points){1, known, f->x, f->y, 1}, f->tile, TLR_KD, &f->known));
done:
    return st;
}

/* z = L e of all points, with the exact factor. */
static status draw(field *f, uint64_t seed) {
    const int64_t total = f->n + HELD;
    double *e = malloc(sizeof(double) * (size_t)total);
    uint64_t s = seed + 12345;
    tlr *l = NULL;
    status st = e ? MOAO_OK : MOAO_MEMORY;
    for (int64_t i = 0; e && i < total; i++) {
        const double r = sqrt(-2 * log(uniform(&s)));
        e[i] = r * cos(2 * M_PI * uniform(&s));
    }
    if (st == MOAO_OK)
        TRY(factor(f, &f->all, 0, &l));
    TRY(with_factor(f, l, '*', total, 1, e));
    for (int64_t i = 0; i < total; i++)
        f->z[f->all.perm[i]] = e[i];
done:
    tlr_close(l);
    free(e);
    return st;
}

/* Ranks of the tiles below the diagonal blocks, a line each; the order of dense ones, 0 of empty
 * ones.
 */
static status write_ranks(const field *f, const tlr *l, const char *name) {
    FILE *out = fopen(name, "w");
    if (!out)
        return status_fail(MOAO_IO, "cannot write %s", name);
    fprintf(out, "row,column,rank,order\n");
    for (int64_t i = 0; i < f->known.nt; i++)
        for (int64_t k = 0; k < i; k++) {
            const tlr_tile *t = tlr_tile_at(l, i, k);
            if (t)
                fprintf(out, "%lld,%lld,%d,%lld\n", (long long)i, (long long)k, (int)t->rank,
                        (long long)f->tile);
        }
    return fclose(out) == 0 ? MOAO_OK : status_fail(MOAO_IO, "cannot write %s", name);
}

/* Predictions of the points held out: c' C^-1 z, of variance C(0) - |L^-1 c|^2. */
static status krige(field *f, double tau, const char *ranks) {
    const int64_t n = f->n, v = HELD + 1;
    double *b = malloc(sizeof(double) * (size_t)(n * v)), rms = 0, inside = 0, plain = 0;
    tlr *l = NULL;
    status st = b ? MOAO_OK : MOAO_MEMORY;
    for (int64_t i = 0; b && i < n; i++) {
        const int64_t at = f->known.perm[i];
        for (int64_t k = 0; k < HELD; k++)
            b[i + k * n] = covariance(f, at, n + k);
        b[i + HELD * n] = f->z[at];
    }
    if (st == MOAO_OK)
        TRY(factor(f, &f->known, tau, &l));
    if (ranks)
        TRY(write_ranks(f, l, ranks));
    TRY(with_factor(f, l, 'N', n, v, b));
    for (int64_t k = 0; k < HELD; k++) {
        double mean = 0, known = 0;
        for (int64_t i = 0; i < n; i++) {
            mean += b[i + k * n] * b[i + HELD * n];
            known += b[i + k * n] * b[i + k * n];
        }
        const double error = mean - f->z[n + k],
                     deviation = sqrt(f->m.variance + f->m.nugget - known);
        rms += error * error / HELD;
        plain += f->z[n + k] * f->z[n + k] / HELD;
        inside += (fabs(error) < 2 * deviation) / (double)HELD;
    }
    printf("kriging: %d points, rms error %.4f of a field of rms %.4f, %.0f %% within two "
           "deviations\n",
           HELD, sqrt(rms), sqrt(plain), 100 * inside);
done:
    tlr_close(l);
    free(b);
    return st;
}

/* --- the fit: Nelder and Mead's simplex in (log variance, log beta) --- */

/* Minus the likelihood; a model whose factor does not exist is worst. */
static double cost(field *f, double tau, const double p[2]) {
    double value;
    f->m.variance = exp(p[0]);
    f->m.beta = exp(p[1]);
    if (likelihood(f, tau, &value, NULL) == MOAO_OK)
        return -value;
    status_clear();
    return INFINITY;
}

static void sort(double p[3][2], double c[3]) {
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2 - i; j++)
            if (c[j] > c[j + 1]) {
                const double t[3] = {p[j][0], p[j][1], c[j]};
                p[j][0] = p[j + 1][0], p[j][1] = p[j + 1][1], c[j] = c[j + 1];
                p[j + 1][0] = t[0], p[j + 1][1] = t[1], c[j + 1] = t[2];
            }
}

/* The worst corner p[2] through the middle of the others, `by` times as far. */
static double step(field *f, double tau, double p[3][2], double by, double to[2]) {
    for (int d = 0; d < 2; d++) {
        const double middle = (p[0][d] + p[1][d]) / 2;
        to[d] = middle + by * (p[2][d] - middle);
    }
    return cost(f, tau, to);
}

static void fit(field *f, double tau) {
    double p[3][2] = {{log(0.5), log(0.05)}, {log(1.2), log(0.05)}, {log(0.5), log(0.12)}}, c[3];
    int calls = 3;
    for (int i = 0; i < 3; i++)
        c[i] = cost(f, tau, p[i]);
    for (sort(p, c); calls < 200 && !(c[2] - c[0] < 1e-3); sort(p, c)) {
        double at[2], to[2], value = step(f, tau, p, -1, at);
        const double by = value < c[0] ? -2 : value < c[1] ? 0 : value < c[2] ? -0.5 : 0.5;
        calls++;
        if (by != 0) {
            const double other = step(f, tau, p, by, to);
            calls++;
            if (other < value)
                value = other, at[0] = to[0], at[1] = to[1];
        }
        if (value < c[2]) {
            c[2] = value, p[2][0] = at[0], p[2][1] = at[1];
            continue;
        }
        for (int i = 1; i < 3; i++, calls++) { /* shrink */
            for (int d = 0; d < 2; d++)
                p[i][d] = (p[0][d] + p[i][d]) / 2;
            c[i] = cost(f, tau, p[i]);
        }
    }
    f->m.variance = exp(p[0][0]);
    f->m.beta = exp(p[0][1]);
    printf("fit: variance %.4f, beta %.4f, log-likelihood %.6f, %d evaluations\n", f->m.variance,
           f->m.beta, -c[0], calls);
}

/* --- the program --- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The likelihood at tolerances down to tau, and the exact one. */
static status table(field *f, double tau) {
    status st = MOAO_OK;
    for (double t = 1e-3;; t = t * 0.1 > tau * 1.5 ? t * 0.1 : t > tau ? tau : 0) {
        double value;
        tlr_stats s;
        const double from = seconds();
        TRY(likelihood(f, t, &value, &s));
        printf("likelihood: tau %.1e, log-likelihood %.9g, %.2f s, %.2f MB of %.2f, mean rank "
               "%.1f, dense tiles %lld of %lld\n",
               t, value, seconds() - from, s.bytes * 1e-6, s.bytes_dense * 1e-6, s.mean,
               (long long)s.dense, (long long)s.tiles);
        if (t == 0)
            break;
    }
done:
    return st;
}

static double option(int argc, char **argv, const char *name, double otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return atof(argv[i + 1]);
    return otherwise;
}

static status run(field *f, int argc, char **argv) {
    const double tau = option(argc, argv, "--tau", 1e-7);
    const uint64_t seed = (uint64_t)option(argc, argv, "--seed", 1);
    const char *where = "auto", *ranks = NULL;
    bool fitted = false;
    status st;
    for (int i = 1; i < argc; i++) {
        fitted = fitted || !strcmp(argv[i], "--fit");
        if (!strcmp(argv[i], "--backend") && i + 1 < argc)
            where = argv[i + 1];
        if (!strcmp(argv[i], "--ranks") && i + 1 < argc)
            ranks = argv[i + 1];
    }
    f->n = (int64_t)option(argc, argv, "--n", 1600);
    f->tile = (int64_t)option(argc, argv, "--tile", 128);
    f->m = (model){option(argc, argv, "--variance", 1), option(argc, argv, "--beta", 0.1),
                   option(argc, argv, "--nu", 0.5), option(argc, argv, "--nugget", 0.01)};
    TRY(backend_get(where, &f->be));
    TRY(f->be->open(0, NULL, &f->ctx));
    TRY(scatter(f, seed));
    TRY(draw(f, seed));
    TRY(table(f, tau));
    if (fitted)
        fit(f, tau);
    TRY(krige(f, tau, ranks));
done:
    return st;
}

int main(int argc, char **argv) {
    field f = {0};
    const status st = run(&f, argc, argv);
    if (st != MOAO_OK)
        fprintf(stderr, "matern: %s\n", *status_message() ? status_message() : "out of memory");
    if (f.ctx)
        f.be->close(f.ctx);
    tlr_layout_free(&f.all), tlr_layout_free(&f.known);
    free(f.x), free(f.y), free(f.z);
    return status_exit_code(st);
}
