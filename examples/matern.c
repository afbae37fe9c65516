/* Spatial statistics with a tile low-rank Cholesky factor: the log-likelihood of a Gaussian random
 * field with Matern covariance, the fit of its variance, range and smoothness with their standard
 * errors, and kriging. With the installed library alone:
 *   cc matern.c $(pkg-config --cflags --libs moao-linalg) -lm -o matern
 *   ./matern [--n 1600] [--variance 1] [--beta 0.1] [--nu 0.5] [--nugget 0.01] [--tau 1e-7]
 *            [--tile 128] [--seed 1] [--backend auto] [--fit] [--known-nu] [--exact]
 *            [--data FILE] [--write FILE] [--ranks FILE] [--predictions FILE]
 * --fit finds the three parameters (with --known-nu the first two); with --exact, and at the end of
 * the table, without compression (tau = 0). --data: lines "x y z" of a field of zero mean; without,
 * the points are a jittered grid in the unit square and the data are drawn with the exact factor
 * (--write keeps them). The last 100 points are held out for kriging, so lines should be in random
 * order; --predictions writes "x y z prediction deviation" of each, after a line with the
 * parameters. Covariance: variance 2^(1-nu)/Gamma(nu) x^nu K_nu(x), x = d/beta, and the nugget,
 * which is known. Every line names its quantities. */
#include <math.h>
#include <moao/tlr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HELD = 100, PARAMETERS = 3, STEPS = 4600 };

/* Correlations on a grid in log x, where they are smooth: interpolated to 1e-9. */
static const double first_log = -16.2, step_log = 0.005; /* x from 1e-7 to 900 */

typedef struct {
    double variance, beta, nu, nugget;
    double tabulated; /* nu of the table */
    double table[STEPS];
} model;

typedef struct {
    const moao_backend *be;
    moao_backend_ctx *ctx;
    int64_t n; /* points with data; HELD more follow */
    double *x, *y, *z;
    moao_tlr_layout all, known; /* order of all points, and of those with data */
    const moao_tlr_layout *order;
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
        if (!(e > 1e-17 * sum)) /* or all is 0 */
            return 0.05 * sum;
    }
}

static bool closed(double nu) {
    return nu == 0.5 || nu == 1.5 || nu == 2.5;
}

/* The only place where parameters change: values of a smoothness always come from its own table. */
static void set_model(model *m, double variance, double beta, double nu) {
    m->variance = variance, m->beta = beta, m->nu = nu;
    if (closed(nu) || m->tabulated == nu)
        return;
    for (int i = 0; i < STEPS; i++) {
        const double x = exp(first_log + step_log * i);
        m->table[i] = 2 * pow(x / 2, m->nu) / tgamma(m->nu) * bessel_k(m->nu, x);
    }
    m->tabulated = m->nu;
}

/* By the cubic through the four values around x. */
static double interpolated(const model *m, double x) {
    const double u = (log(x) - first_log) / step_log;
    const int i = u < 1 ? 1 : (int)u;
    const double t = u - i, *c = m->table + i;
    if (u < 0)
        return 1;
    return i + 2 >= STEPS
               ? 0
               : -t * (t - 1) * (t - 2) / 6 * c[-1] + (t + 1) * (t - 1) * (t - 2) / 2 * c[0] -
                     (t + 1) * t * (t - 2) / 2 * c[1] + (t + 1) * t * (t - 1) / 6 * c[2];
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
    return m->variance * interpolated(m, x);
}

static double covariance(const field *f, int64_t a, int64_t b) {
    return matern(&f->m, hypot(f->x[a] - f->x[b], f->y[a] - f->y[b])) + (a == b) * f->m.nugget;
}

/* A block of the covariance matrix, computed on the host and sent to the backend. */
static moao_status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                        int64_t lda) {
    const field *f = arg;
    const int64_t *p = f->order->perm;
    double *host;
    moao_status st =
        moao_mem_alloc((void **)&host, (unsigned long)(ni * nj), sizeof *host, "entries");
    if (st != MOAO_OK)
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
static moao_status factor(field *f, const moao_tlr_layout *order, double tau, moao_tlr **l) {
    const moao_tlr_options o = {
        .tau = tau, .cut = -1, .width = f->n < 20000 ? 2 * f->tile : 0, .seed = 1};
    const moao_tlr_rescue rescue = {.retries = 1};
    const moao_tlr_source from = {.layout = order, .fill = fill, .arg = f};
    f->order = order;
    return moao_tlr_factor(f->be, f->ctx, &from, 'L', &o, &rescue, l, NULL);
}

/* Vectors of the host in the backend's memory for a solve or product, and back. job: as
 * tlr_solve's, or '*' for the product with L. */
static moao_status with_factor(const field *f, const moao_tlr *l, char job, int64_t n, int64_t v,
                               double *x) {
    const int64_t bytes = 8 * n * v;
    const double one = 1;
    void *a = NULL, *b = NULL;
    moao_status st;
    MOAO_TRY(f->be->alloc(f->ctx, (size_t)bytes, &a));
    MOAO_TRY(f->be->alloc(f->ctx, (size_t)bytes, &b));
    MOAO_TRY(f->be->copy(f->ctx, a, bytes, x, bytes, bytes, 1));
    MOAO_TRY(job == '*' ? moao_tlr_apply(l, 'L', 'N', v, one, a, n, 0, b, n)
                        : moao_tlr_solve(l, 'L', job, v, a, n));
    MOAO_TRY(f->be->copy(f->ctx, x, bytes, job == '*' ? b : a, bytes, bytes, 1));
    MOAO_TRY(f->be->sync(f->ctx));
done:
    f->be->release(f->ctx, a), f->be->release(f->ctx, b);
    return st;
}

/* log p(z) = -(n log 2 pi + log det C + |L^-1 z|^2) / 2 */
static moao_status likelihood(field *f, double tau, double *value, moao_tlr_stats *s) {
    double *z = malloc(sizeof(double) * (size_t)f->n), det, square = 0;
    moao_tlr *l = NULL;
    moao_status st = z ? MOAO_OK : MOAO_MEMORY;
    if (st == MOAO_OK)
        MOAO_TRY(factor(f, &f->known, tau, &l));
    for (int64_t i = 0; l && i < f->n; i++)
        z[i] = f->z[f->known.perm[i]];
    MOAO_TRY(with_factor(f, l, 'N', f->n, 1, z));
    MOAO_TRY(moao_tlr_logdet(l, &det));
    for (int64_t i = 0; i < f->n; i++)
        square += z[i] * z[i];
    *value = -0.5 * ((double)f->n * log(2 * M_PI) + det + square);
    if (s)
        moao_tlr_statistics(l, s);
done:
    moao_tlr_close(l);
    free(z);
    return st;
}

/* --- the field --- */

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

static moao_status room_for(field *f, int64_t total) {
    const size_t bytes = sizeof(double) * (size_t)total;
    f->x = realloc(f->x, bytes), f->y = realloc(f->y, bytes), f->z = realloc(f->z, bytes);
    return f->x && f->y && f->z ? MOAO_OK : MOAO_MEMORY;
}

static moao_status order_points(field *f) {
    const int64_t total = f->n + HELD, start[2] = {0, total}, known[2] = {0, f->n};
    moao_status st;
    MOAO_TRY(moao_tlr_layout_points(&(moao_tlr_points){1, start, f->x, f->y, 1}, f->tile,
                                    MOAO_TLR_KD, &f->all));
    MOAO_TRY(moao_tlr_layout_points(&(moao_tlr_points){1, known, f->x, f->y, 1}, f->tile,
                                    MOAO_TLR_KD, &f->known));
done:
    return st;
}

/* Points of a jittered grid in random order, so that those held out lie anywhere. */
static moao_status scatter(field *f, uint64_t seed) {
    const int64_t side = (int64_t)ceil(sqrt((double)(f->n + HELD)));
    uint64_t s = seed;
    const moao_status st = room_for(f, side * side);
    for (int64_t i = 0; st == MOAO_OK && i < side * side; i++) {
        const int64_t j = (int64_t)(uniform(&s) * (double)(i + 1)); /* shuffled as they come */
        f->x[i] = f->x[j], f->y[i] = f->y[j];
        f->x[j] = ((double)(i % side) + 0.5 + 0.8 * (uniform(&s) - 0.5)) / (double)side;
        f->y[j] = ((double)(i / side) + 0.5 + 0.8 * (uniform(&s) - 0.5)) / (double)side;
    }
    return st == MOAO_OK ? order_points(f) : st;
}

/* Lines "x y z"; empty ones and those that begin with # count for nothing. */
static moao_status read_data(field *f, const char *name) {
    FILE *in = fopen(name, "r");
    char line[512];
    int64_t n = 0, at = 0;
    moao_status st = in ? MOAO_OK : moao_status_fail(MOAO_IO, "cannot read %s", name);
    while (st == MOAO_OK && fgets(line, sizeof line, in)) {
        char *p = line + strspn(line, " \t\r\n");
        at++;
        if (*p == 0 || *p == '#')
            continue;
        if (n % 4096 == 0)
            st = room_for(f, n + 4096);
        if (st == MOAO_OK && (sscanf(p, "%lf %lf %lf", f->x + n, f->y + n, f->z + n) != 3 ||
                              !isfinite(f->x[n] + f->y[n] + f->z[n])))
            st = moao_status_fail(MOAO_INPUT, "%s:%lld: not three numbers", name, (long long)at);
        n++;
    }
    if (in)
        fclose(in);
    if (st == MOAO_OK && n < 2 * HELD)
        st = moao_status_fail(MOAO_INPUT, "%s: %lld points, at least %d are needed", name,
                              (long long)n, 2 * HELD);
    f->n = n - HELD;
    return st == MOAO_OK ? order_points(f) : st;
}

static moao_status write_data(const field *f, const char *name) {
    FILE *out = fopen(name, "w");
    for (int64_t i = 0; out && i < f->n + HELD; i++)
        fprintf(out, "%.17g %.17g %.17g\n", f->x[i], f->y[i], f->z[i]);
    return out && fclose(out) == 0 ? MOAO_OK : moao_status_fail(MOAO_IO, "cannot write %s", name);
}

/* z = L e of all points, with the exact factor. */
static moao_status draw(field *f, uint64_t seed) {
    const int64_t total = f->n + HELD;
    double *e = malloc(sizeof(double) * (size_t)total);
    uint64_t s = seed + 12345;
    moao_tlr *l = NULL;
    moao_status st = e ? MOAO_OK : MOAO_MEMORY;
    for (int64_t i = 0; e && i < total; i++)
        e[i] = sqrt(-2 * log(uniform(&s))), e[i] *= cos(2 * M_PI * uniform(&s));
    if (st == MOAO_OK)
        MOAO_TRY(factor(f, &f->all, 0, &l));
    MOAO_TRY(with_factor(f, l, '*', total, 1, e));
    for (int64_t i = 0; i < total; i++)
        f->z[f->all.perm[i]] = e[i];
done:
    moao_tlr_close(l);
    free(e);
    return st;
}

/* Ranks of the tiles below the diagonal blocks, a line each; of dense ones the order, of empty 0.
 */
static moao_status write_ranks(const field *f, const moao_tlr *l, const char *name) {
    FILE *out = fopen(name, "w");
    if (out)
        fprintf(out, "row,column,rank,order\n");
    for (int64_t i = 0; out && i < f->known.nt; i++)
        for (int64_t k = 0; k < i; k++) {
            const moao_tlr_tile *t = moao_tlr_tile_at(l, i, k);
            if (t)
                fprintf(out, "%lld,%lld,%d,%lld\n", (long long)i, (long long)k, (int)t->rank,
                        (long long)f->tile);
        }
    return out && fclose(out) == 0 ? MOAO_OK : moao_status_fail(MOAO_IO, "cannot write %s", name);
}

/* Predictions of the points held out and their deviations, each HELD of them. */
static moao_status write_predictions(const field *f, const double *mean, const double *deviation,
                                     const char *name) {
    const double *x = f->x + f->n, *y = f->y + f->n, *z = f->z + f->n;
    FILE *out = fopen(name, "w");
    if (out)
        fprintf(out, "# variance %.17g, beta %.17g, nu %.17g, nugget %.17g\n", f->m.variance,
                f->m.beta, f->m.nu, f->m.nugget);
    for (int64_t k = 0; out && k < HELD; k++)
        fprintf(out, "%.17g %.17g %.17g %.17g %.17g\n", x[k], y[k], z[k], mean[k], deviation[k]);
    return out && fclose(out) == 0 ? MOAO_OK : moao_status_fail(MOAO_IO, "cannot write %s", name);
}

/* Predictions of the points held out: c' C^-1 z, of variance C(0) - |L^-1 c|^2. */
static moao_status krige(field *f, double tau, const char *ranks, const char *predictions) {
    const int64_t n = f->n, v = HELD + 1;
    double *b = malloc(sizeof(double) * (size_t)(n * v)), rms = 0, inside = 0, plain = 0;
    double mean[HELD] = {0}, deviation[HELD];
    moao_tlr *l = NULL;
    moao_status st = b ? MOAO_OK : MOAO_MEMORY;
    for (int64_t i = 0; b && i < n; i++) {
        const int64_t at = f->known.perm[i];
        for (int64_t k = 0; k < HELD; k++)
            b[i + k * n] = covariance(f, at, n + k);
        b[i + HELD * n] = f->z[at];
    }
    if (st == MOAO_OK)
        MOAO_TRY(factor(f, &f->known, tau, &l));
    if (ranks)
        MOAO_TRY(write_ranks(f, l, ranks));
    MOAO_TRY(with_factor(f, l, 'N', n, v, b));
    for (int64_t k = 0; k < HELD; k++) {
        double known = 0;
        for (int64_t i = 0; i < n; i++) {
            mean[k] += b[i + k * n] * b[i + HELD * n];
            known += b[i + k * n] * b[i + k * n];
        }
        const double error = mean[k] - f->z[n + k];
        deviation[k] = sqrt(f->m.variance + f->m.nugget - known);
        rms += error * error / HELD;
        plain += f->z[n + k] * f->z[n + k] / HELD;
        inside += (fabs(error) < 2 * deviation[k]) / (double)HELD;
    }
    if (predictions)
        MOAO_TRY(write_predictions(f, mean, deviation, predictions));
    printf("kriging: %d points, rms error %.4f of a field of rms %.4f, %.0f %% within two "
           "deviations\n",
           HELD, sqrt(rms), sqrt(plain), 100 * inside);
done:
    moao_tlr_close(l);
    free(b);
    return st;
}

/* --- the fit: Nelder and Mead's simplex in the logarithms of variance, beta and nu --- */

typedef struct {
    field *f;
    double tau;
    int d, calls; /* parameters; evaluations */
} search;

/* Minus the likelihood; a model whose factor does not exist is worst. */
static double cost(search *s, const double p[PARAMETERS]) {
    model *m = &s->f->m;
    const double nu = s->d > 2 ? exp(p[2]) : m->nu;
    double value;
    s->calls++;
    if (nu < 0.1 || nu > 10)
        return INFINITY;
    set_model(m, exp(p[0]), exp(p[1]), nu);
    if (likelihood(s->f, s->tau, &value, NULL) != MOAO_OK) {
        moao_status_clear();
        return INFINITY;
    }
    return -value;
}

typedef struct {
    double at[PARAMETERS], cost;
} corner;

static int by_cost(const void *a, const void *b) {
    const double x = ((const corner *)a)->cost, y = ((const corner *)b)->cost;
    return (x > y) - (x < y);
}

/* The worst corner through the middle of the others, `by` times as far. */
static corner move_worst(search *s, const corner *c, double by) {
    corner to;
    for (int k = 0; k < s->d; k++) {
        double middle = 0;
        for (int i = 0; i < s->d; i++)
            middle += c[i].at[k] / s->d;
        to.at[k] = middle + by * (c[s->d].at[k] - middle);
    }
    to.cost = cost(s, to.at);
    return to;
}

/* The least cost from the corner c[0] on, which it becomes. */
static void minimise(search *s, corner *c) {
    static const double edge[PARAMETERS] = {0.9, 0.9, 0.4};
    const int d = s->d;
    for (int i = 0; i <= d; i++) {
        c[i] = c[0];
        if (i > 0)
            c[i].at[i - 1] += edge[i - 1];
        c[i].cost = cost(s, c[i].at);
    }
    for (qsort(c, (size_t)d + 1, sizeof *c, by_cost);
         s->calls < 400 && !(c[d].cost - c[0].cost < 1e-3);
         qsort(c, (size_t)d + 1, sizeof *c, by_cost)) {
        corner to = move_worst(s, c, -1);
        const double by = to.cost < c[0].cost       ? -2
                          : to.cost < c[d - 1].cost ? 0
                          : to.cost < c[d].cost     ? -0.5
                                                    : 0.5;
        if (by != 0) {
            const corner other = move_worst(s, c, by);
            to = other.cost < to.cost ? other : to;
        }
        if (to.cost < c[d].cost) {
            c[d] = to;
            continue;
        }
        for (int i = 1; i <= d; i++) { /* shrink */
            for (int k = 0; k < d; k++)
                c[i].at[k] = (c[0].at[k] + c[i].at[k]) / 2;
            c[i].cost = cost(s, c[i].at);
        }
    }
}

/* The cost with parameters i and j moved, in logarithms. */
static double beside(search *s, const corner *c, int i, double by_i, int j, double by_j) {
    double at[PARAMETERS];
    memcpy(at, c->at, sizeof at);
    at[i] += by_i, at[j] += by_j;
    return cost(s, at);
}

/* Standard errors of the logarithms: roots of the diagonal of the inverse of the cost's second
 * derivatives; NaN where these are not those of a minimum. */
static void standard_errors(search *s, const corner *c, double error[PARAMETERS]) {
    const double h = 0.1;
    double a[PARAMETERS][2 * PARAMETERS] = {{0}};
    const int d = s->d;
    for (int i = 0; i < d; i++) {
        a[i][i] = (beside(s, c, i, h, i, 0) - 2 * c->cost + beside(s, c, i, -h, i, 0)) / (h * h);
        for (int j = 0; j < i; j++)
            a[i][j] = a[j][i] = (beside(s, c, i, h, j, h) - beside(s, c, i, h, j, -h) -
                                 beside(s, c, i, -h, j, h) + beside(s, c, i, -h, j, -h)) /
                                (4 * h * h);
        a[i][d + i] = 1;
    }
    for (int k = 0; k < d; k++) /* Gauss and Jordan; a pivot is positive at a minimum */
        for (int i = 0; i < d; i++) {
            const double by = i == k ? 1 - 1 / a[k][k] : a[i][k] / a[k][k];
            for (int j = 0; j < 2 * d; j++)
                a[i][j] -= by * (a[k][k] > 0 ? a[k][j] : NAN);
        }
    for (int i = 0; i < d; i++)
        error[i] = sqrt(a[i][d + i]);
}

static void fit(field *f, double tau, bool known_nu) {
    search s = {.f = f, .tau = tau, .d = known_nu ? 2 : 3};
    corner c[PARAMETERS + 1] = {{.at = {0, 0, log(0.8)}}};
    double squares = 0, wide = 0, error[PARAMETERS] = {0};
    for (int64_t i = 0; i < f->n; i++) {
        squares += f->z[i] * f->z[i] / (double)f->n;
        wide = fmax(wide, hypot(f->x[i] - f->x[0], f->y[i] - f->y[0]));
    }
    c[0].at[0] = log(squares / 2), c[0].at[1] = log(wide / 20);
    minimise(&s, c);
    const int calls = s.calls;
    standard_errors(&s, c, error);
    set_model(&f->m, exp(c[0].at[0]), exp(c[0].at[1]), known_nu ? f->m.nu : exp(c[0].at[2]));
    printf(
        "fit: variance %.4f +- %.4f, beta %.4f +- %.4f, nu %.4f +- %.4f, log-likelihood %.6f, tau "
        "%.1e, %d evaluations\n",
        f->m.variance, f->m.variance * error[0], f->m.beta, f->m.beta * error[1], f->m.nu,
        f->m.nu * error[2], -c[0].cost, tau, calls);
}

/* --- the program --- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The likelihood at tolerances down to tau, and the exact one. The determinant's logarithm changes
 * by at most sqrt(n) nt tau / nugget, to first order: |C^-1|_F <= sqrt(n) / nugget, and what is
 * dropped of nt x nt tiles has a norm of nt tau at most. */
static moao_status table(field *f, double tau) {
    moao_status st = MOAO_OK;
    for (double t = 1e-3;; t = t * 0.1 > tau * 1.5 ? t * 0.1 : t > tau ? tau : 0) {
        double value;
        moao_tlr_stats s;
        const double from = seconds();
        MOAO_TRY(likelihood(f, t, &value, &s));
        printf("likelihood: tau %.1e, log-likelihood %.9g, %.2f s, %.2f MB of %.2f, mean rank "
               "%.1f, dense tiles %lld of %lld, log-determinant within %.1e\n",
               t, value, seconds() - from, s.bytes * 1e-6, s.bytes_dense * 1e-6, s.mean,
               (long long)s.dense, (long long)s.tiles,
               sqrt((double)f->n) * (double)f->known.nt * t / f->m.nugget);
        if (t == 0)
            break;
    }
done:
    return st;
}

/* The word after `name`, NULL: it is not there. */
static const char *word(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return argv[i + 1];
    return NULL;
}
static double option(int argc, char **argv, const char *name, double otherwise) {
    const char *given = word(argc, argv, name);
    return given ? atof(given) : otherwise;
}
static bool flag(int argc, char **argv, const char *name) {
    return argc > 1 && (!strcmp(argv[argc - 1], name) || flag(argc - 1, argv, name));
}

static moao_status run(field *f, int argc, char **argv) {
    const double tau = option(argc, argv, "--tau", 1e-7);
    const uint64_t seed = (uint64_t)option(argc, argv, "--seed", 1);
    const char *where = word(argc, argv, "--backend"), *data = word(argc, argv, "--data"),
               *keep = word(argc, argv, "--write");
    moao_status st;
    f->n = (int64_t)option(argc, argv, "--n", 1600);
    f->tile = (int64_t)option(argc, argv, "--tile", 128);
    set_model(&f->m, option(argc, argv, "--variance", 1), option(argc, argv, "--beta", 0.1),
              option(argc, argv, "--nu", 0.5));
    f->m.nugget = option(argc, argv, "--nugget", 0.01);
    MOAO_TRY(moao_backend_get(where ? where : "auto", &f->be));
    MOAO_TRY(f->be->open(0, NULL, &f->ctx));
    MOAO_TRY(data ? read_data(f, data) : scatter(f, seed));
    if (!data)
        MOAO_TRY(draw(f, seed));
    if (keep)
        MOAO_TRY(write_data(f, keep));
    MOAO_TRY(table(f, tau));
    if (flag(argc, argv, "--fit"))
        fit(f, flag(argc, argv, "--exact") ? 0 : tau, flag(argc, argv, "--known-nu"));
    MOAO_TRY(krige(f, tau, word(argc, argv, "--ranks"), word(argc, argv, "--predictions")));
done:
    return st;
}

int main(int argc, char **argv) {
    static field f;
    const moao_status st = run(&f, argc, argv);
    if (st != MOAO_OK)
        fprintf(stderr, "matern: %s\n",
                *moao_status_message() ? moao_status_message() : "out of memory");
    if (f.ctx)
        f.be->close(f.ctx);
    moao_tlr_layout_free(&f.all), moao_tlr_layout_free(&f.known);
    free(f.x), free(f.y), free(f.z);
    return moao_status_exit_code(st);
}
