/* Spatial statistics with moao/gp.h: the log-likelihood of a Gaussian random field with Matern
 * covariance on a tile low-rank factor, the fit of its variance, range and smoothness with their
 * standard errors, and kriging. With the installed library alone:
 *   cc matern.c $(pkg-config --cflags --libs moao-linalg) -lm -o matern
 *   ./matern [--n 1600] [--variance 1] [--beta 0.1] [--nu 0.5] [--nugget 0.01] [--tau 1e-7]
 *            [--tile 128] [--seed 1] [--backend auto] [--fit] [--known-nu] [--exact] [--probes 0]
 *            [--data FILE] [--write FILE] [--ranks FILE] [--predictions FILE]
 * --fit finds the three parameters (with --known-nu the first two); with --exact, and at the end of
 * the table, with a dense factor (tau = 0). --probes: the error of the determinant is estimated
 * with so many random vectors. --data: lines "x y z" of a field of zero mean; without, the points
 * are a jittered grid in the unit square and the data are drawn with the exact factor (--write
 * keeps them). The last 100 points are held out for kriging, so lines should be in random order;
 * --predictions writes "x y z prediction deviation" of each, after a line with the parameters.
 * Covariance: variance 2^(1-nu)/Gamma(nu) x^nu K_nu(x), x = d/beta, and the nugget, which is known:
 * the library's length is beta sqrt(2 nu). Every line names its quantities. */
#include <math.h>
#include <moao/gp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HELD = 100 };

typedef struct {
    const moao_backend *be;
    moao_backend_ctx *ctx;
    int64_t n;      /* points with data; HELD more follow */
    double *at, *z; /* [2 (n + HELD)] coordinates, in turn */
    moao_gp_kernel k;
    int64_t tile;
    int probes;
} field;

static double beta(const moao_gp_kernel *k) {
    return k->length[0] / sqrt(2 * k->shape);
}

/* The process of the points with data; tau 0: a dense factor. */
static moao_status process(const field *f, double tau, moao_gp **g) {
    const moao_gp_options o = {
        .method = tau > 0 ? MOAO_GP_TLR : MOAO_GP_DENSE, .tau = tau, .tile = f->tile, .seed = 1};
    return moao_gp_open(f->be, f->ctx, 2, f->n, f->at, f->z, &o, g);
}

/* --- the field --- */

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

static moao_status room_for(field *f, int64_t total) {
    const size_t bytes = sizeof(double) * (size_t)total;
    f->at = realloc(f->at, 2 * bytes), f->z = realloc(f->z, bytes);
    return f->at && f->z ? MOAO_OK : MOAO_MEMORY;
}

/* Points of a jittered grid in random order, so that those held out lie anywhere. */
static moao_status scatter(field *f, uint64_t seed) {
    const int64_t side = (int64_t)ceil(sqrt((double)(f->n + HELD)));
    uint64_t s = seed;
    const moao_status st = room_for(f, side * side);
    for (int64_t i = 0; st == MOAO_OK && i < side * side; i++) {
        double *a = f->at + 2 * i, *b = f->at + 2 * (int64_t)(uniform(&s) * (double)(i + 1));
        a[0] = b[0], a[1] = b[1]; /* shuffled as they come */
        b[0] = ((double)(i % side) + 0.5 + 0.8 * (uniform(&s) - 0.5)) / (double)side;
        b[1] = ((double)(i / side) + 0.5 + 0.8 * (uniform(&s) - 0.5)) / (double)side;
    }
    return st;
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
        if (st == MOAO_OK &&
            (sscanf(p, "%lf %lf %lf", f->at + 2 * n, f->at + 2 * n + 1, f->z + n) != 3 ||
             !isfinite(f->at[2 * n] + f->at[2 * n + 1] + f->z[n])))
            st = moao_status_fail(MOAO_INPUT, "%s:%lld: not three numbers", name, (long long)at);
        n++;
    }
    if (in)
        fclose(in);
    if (st == MOAO_OK && n < 2 * HELD)
        st = moao_status_fail(MOAO_INPUT, "%s: %lld points, at least %d are needed", name,
                              (long long)n, 2 * HELD);
    f->n = n - HELD;
    return st;
}

static moao_status write_data(const field *f, const char *name) {
    FILE *out = fopen(name, "w");
    for (int64_t i = 0; out && i < f->n + HELD; i++)
        fprintf(out, "%.17g %.17g %.17g\n", f->at[2 * i], f->at[2 * i + 1], f->z[i]);
    return out && fclose(out) == 0 ? MOAO_OK : moao_status_fail(MOAO_IO, "cannot write %s", name);
}

/* Ranks of the tiles below the diagonal blocks, a line each; of dense ones the order, of empty 0.
 */
static moao_status write_ranks(const field *f, const moao_tlr *l, const char *name) {
    const int64_t tiles = (f->n + f->tile - 1) / f->tile;
    FILE *out = fopen(name, "w");
    if (out)
        fprintf(out, "row,column,rank,order\n");
    for (int64_t i = 0; out && i < tiles; i++)
        for (int64_t k = 0; k < i; k++) {
            const moao_tlr_tile *t = moao_tlr_tile_at(l, i, k);
            if (t)
                fprintf(out, "%lld,%lld,%d,%lld\n", (long long)i, (long long)k, (int)t->rank,
                        (long long)f->tile);
        }
    return out && fclose(out) == 0 ? MOAO_OK : moao_status_fail(MOAO_IO, "cannot write %s", name);
}

/* Predictions of the points held out and the deviations of data there, each HELD of them. */
static moao_status write_predictions(const field *f, const double *mean, const double *deviation,
                                     const char *name) {
    const double *at = f->at + 2 * f->n, *z = f->z + f->n;
    FILE *out = fopen(name, "w");
    if (out)
        fprintf(out, "# variance %.17g, beta %.17g, nu %.17g, nugget %.17g\n", f->k.variance,
                beta(&f->k), f->k.shape, f->k.nugget);
    for (int64_t k = 0; out && k < HELD; k++)
        fprintf(out, "%.17g %.17g %.17g %.17g %.17g\n", at[2 * k], at[2 * k + 1], z[k], mean[k],
                deviation[k]);
    return out && fclose(out) == 0 ? MOAO_OK : moao_status_fail(MOAO_IO, "cannot write %s", name);
}

/* --- likelihood, fit, kriging --- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The determinant's logarithm changes by at most sqrt(n) nt tau / nugget, to first order:
 * |C^-1|_F <= sqrt(n) / nugget, and what is dropped of nt x nt tiles has a norm of nt tau at most.
 */
static moao_status row(const field *f, double tau) {
    const double n = (double)f->n, bound = sqrt(n) * ceil(n / (double)f->tile) * tau / f->k.nugget;
    moao_tlr_stats s = {.mean = n, .dense = 1, .tiles = 1}; /* dense */
    moao_gp_result r;
    moao_gp *g;
    moao_status st;
    const double from = seconds();
    MOAO_TRY(process(f, tau, &g));
    MOAO_TRY(moao_gp_likelihood(g, &f->k, false, f->probes, &r));
    if (moao_gp_factor(g))
        moao_tlr_statistics(moao_gp_factor(g), &s);
    printf(
        "likelihood: tau %.1e, log-likelihood %.9g, %.2f s, %.2f MB of %.2f, mean rank %.1f, dense "
        "tiles %lld of %lld, ",
        tau, r.likelihood, seconds() - from, r.bytes * 1e-6, r.bytes_dense * 1e-6, s.mean,
        (long long)s.dense, (long long)s.tiles);
    if (f->probes)
        printf("log-determinant off by %.1e +- %.1e, ", r.logdet_error, r.logdet_deviation);
    printf("log-determinant within %.1e\n", bound);
done:
    moao_gp_close(g);
    return st;
}

/* The likelihood at tolerances down to tau, and the exact one. */
static moao_status table(const field *f, double tau) {
    moao_status st;
    for (double t = 1e-3;; t = t * 0.1 > tau * 1.5 ? t * 0.1 : t > tau ? tau : 0) {
        MOAO_TRY(row(f, t));
        if (t == 0)
            break;
    }
done:
    return st;
}

/* From a start that the data suggest. beta = length / sqrt(2 nu): their logarithms' errors go
 * together. */
static moao_status fit(field *f, double tau, bool known_nu) {
    const unsigned shape = known_nu ? 0 : 1u << MOAO_GP_SHAPE;
    const moao_gp_fit_options o = {.free = 1u << MOAO_GP_VARIANCE | 1u << MOAO_GP_LENGTH | shape};
    double squares = 0, wide = 0;
    moao_gp_fit_result r;
    moao_gp *g;
    moao_status st;
    for (int64_t i = 0; i < f->n; i++) {
        squares += f->z[i] * f->z[i] / (double)f->n;
        wide = fmax(wide, hypot(f->at[2 * i] - f->at[0], f->at[2 * i + 1] - f->at[1]));
    }
    if (!known_nu)
        f->k.shape = 0.8;
    f->k.variance = squares / 2, f->k.length[0] = wide / 20 * sqrt(2 * f->k.shape);
    MOAO_TRY(process(f, tau, &g));
    MOAO_TRY(moao_gp_fit(g, &f->k, &o, &r));
    f->k = r.at.kernel;
    const double *of_length = r.covariance[MOAO_GP_LENGTH], *of_nu = r.covariance[MOAO_GP_SHAPE],
                 of_beta = sqrt(of_length[MOAO_GP_LENGTH] - of_length[MOAO_GP_SHAPE] +
                                of_nu[MOAO_GP_SHAPE] / 4);
    printf(
        "fit: variance %.4f +- %.4f, beta %.4f +- %.4f, nu %.4f +- %.4f, log-likelihood %.6f, tau "
        "%.1e, %d evaluations\n",
        f->k.variance, f->k.variance * r.error[MOAO_GP_VARIANCE], beta(&f->k),
        beta(&f->k) * of_beta, f->k.shape, f->k.shape * r.error[MOAO_GP_SHAPE], r.at.likelihood,
        tau, r.evaluations);
done:
    moao_gp_close(g);
    return st;
}

/* Predictions of the points held out. */
static moao_status krige(const field *f, double tau, const char *ranks, const char *predictions) {
    double mean[HELD], deviation[HELD], rms = 0, inside = 0, plain = 0;
    moao_gp_result r;
    moao_gp *g;
    moao_status st;
    MOAO_TRY(process(f, tau, &g));
    MOAO_TRY(moao_gp_likelihood(g, &f->k, false, 0, &r));
    if (ranks && moao_gp_factor(g))
        MOAO_TRY(write_ranks(f, moao_gp_factor(g), ranks));
    MOAO_TRY(moao_gp_predict(g, HELD, f->at + 2 * f->n, mean, deviation, NULL));
    for (int64_t k = 0; k < HELD; k++) {
        const double z = f->z[f->n + k], error = mean[k] - z;
        deviation[k] = sqrt(deviation[k] + f->k.nugget); /* of a datum */
        rms += error * error / HELD;
        plain += z * z / HELD;
        inside += (fabs(error) < 2 * deviation[k]) / (double)HELD;
    }
    if (predictions)
        MOAO_TRY(write_predictions(f, mean, deviation, predictions));
    printf("kriging: %d points, rms error %.4f of a field of rms %.4f, %.0f %% within two "
           "deviations\n",
           HELD, sqrt(rms), sqrt(plain), 100 * inside);
done:
    moao_gp_close(g);
    return st;
}

/* --- the program --- */

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
    f->probes = (int)option(argc, argv, "--probes", 0);
    f->k = (moao_gp_kernel){.family = MOAO_GP_MATERN,
                            .variance = option(argc, argv, "--variance", 1),
                            .shape = option(argc, argv, "--nu", 0.5),
                            .nugget = option(argc, argv, "--nugget", 0.01)};
    f->k.length[0] = option(argc, argv, "--beta", 0.1) * sqrt(2 * f->k.shape);
    MOAO_TRY(moao_backend_get(where ? where : "auto", &f->be));
    MOAO_TRY(f->be->open(0, NULL, &f->ctx));
    MOAO_TRY(data ? read_data(f, data) : scatter(f, seed));
    if (!data)
        MOAO_TRY(moao_gp_simulate(f->be, f->ctx, &f->k, 2, f->n + HELD, f->at, seed, f->z));
    if (keep)
        MOAO_TRY(write_data(f, keep));
    MOAO_TRY(table(f, tau));
    if (flag(argc, argv, "--fit"))
        MOAO_TRY(fit(f, flag(argc, argv, "--exact") ? 0 : tau, flag(argc, argv, "--known-nu")));
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
    free(f.at), free(f.z);
    return moao_status_exit_code(st);
}
