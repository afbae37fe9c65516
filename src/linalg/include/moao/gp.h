/* Gaussian processes: likelihood with its gradient, fit, and prediction with variances, for data at
 * scattered points in 1 to 3 dimensions, on a dense or a tile low-rank Cholesky factor (tlr.h).
 *
 * The model: y_i = mean + z(x_i) + e_i, z of covariance variance f(d), e independent of variance
 * `nugget`, d^2 = sum over the dimensions of ((x_k - x'_k) / length_k)^2 and
 *   Matern                f = 2^(1 - nu) / Gamma(nu) t^nu K_nu(t), t = sqrt(2 nu) d, nu = shape
 *                         (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006,
 *                         eq. 4.14; f(0) = 1)
 *   squared exponential   f = exp(-d^2 / 2)
 *   powered exponential   f = exp(-d^shape)
 *
 * Units: lengths in those of the coordinates; mean in those of y; variance and nugget in its
 * square. The conventions of backend.h hold, but for arrays of numbers: those of this header lie in
 * the host's memory, coordinates as at[dim i + k]. Entries of the factored covariance are
 * computed where the factor is, those between data and predictions on the host.
 *
 * Errors: MOAO_INPUT, a parameter, a coordinate or a datum is out of range or not finite (the
 * message names it); MOAO_NUMERIC, the covariance is not positive definite; MOAO_MEMORY. After a
 * failure the process has no factor until the next likelihood or fit that succeeds. Threads: one
 * thread at a time uses a process and its context; processes on different contexts are independent.
 * Calls use the threads of OpenMP. All functions are local, and wait. */
#ifndef MOAO_GP_H
#define MOAO_GP_H

#include "tlr.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MOAO_GP_MATERN,
    MOAO_GP_SQUARED_EXPONENTIAL,
    MOAO_GP_POWERED_EXPONENTIAL,
} moao_gp_family;

/* Parameters by their places in a gradient; derivatives are by their natural logarithms. */
enum {
    MOAO_GP_VARIANCE,
    MOAO_GP_LENGTH, /* and the two after it */
    MOAO_GP_SHAPE = MOAO_GP_LENGTH + 3,
    MOAO_GP_NUGGET,
    MOAO_GP_PARAMETERS
};

typedef struct {
    moao_gp_family family;
    double variance;  /* 1e-100 to 1e100 */
    double length[3]; /* of each dimension, 1e-100 to 1e100; length[1] = 0: the first one's in all
                         dimensions, which is one parameter then (isotropic) */
    double shape;     /* Matern: nu, 0.1 to 50; powered exponential: 0.1 to 2; else not used */
    double nugget;    /* 0 to 1e100 */
} moao_gp_kernel;

/* c_ij := covariance of z (no nugget) at a_i and b_j, n x m. Nothing of a backend is used. */
MOAO_PUBLIC moao_status moao_gp_covariance(const moao_gp_kernel *k, int dim, int64_t n,
                                           const double *a, int64_t m, const double *b, double *c,
                                           int64_t ldc);

typedef enum {
    MOAO_GP_AUTO,  /* dense up to 10,000 points, tile low-rank beyond */
    MOAO_GP_DENSE, /* 8 n^2 bytes of the backend's memory */
    MOAO_GP_TLR,
} moao_gp_method;

typedef struct {
    moao_gp_method method;
    bool mean;     /* estimated, by generalized least squares; else it is 0 */
    double tau;    /* TLR: largest Frobenius norm of what is dropped of a tile, in the units of the
                      variance; 0: a 10,000th of the nugget, 1e-10 of the variance at least */
    int64_t tile;  /* TLR: rows of a tile; 0: about 2 sqrt(n), 32 to 512 */
    uint64_t seed; /* of random vectors and of the samples of compression */
} moao_gp_options;

typedef struct moao_gp moao_gp;

/* A process of n >= 1 data y at points; both are copied. be and ctx must outlive it. *out is NULL
 * on failure; close(NULL) is fine. options NULL: zeros. */
MOAO_PUBLIC moao_status moao_gp_open(const moao_backend *be, moao_backend_ctx *ctx, int dim,
                                     int64_t n, const double *at, const double *y,
                                     const moao_gp_options *o, moao_gp **out);
MOAO_PUBLIC void moao_gp_close(moao_gp *g);

typedef struct {
    moao_gp_kernel kernel;
    double likelihood; /* its natural logarithm, -(n log 2 pi + logdet + quadratic) / 2 */
    double logdet;     /* of the covariance with nugget */
    double logdet_error, logdet_deviation; /* estimate of logdet less the true one, and the standard
                      deviation of that estimate; NaN where no probes were asked for. Dense:
                      rounding, an estimate of its size (deviation 0); TLR: moao_tlr_logdet_error */
    double quadratic;                      /* (y - mean)' C^-1 (y - mean) */
    double mean, mean_deviation;           /* standard error; 0, 0: not estimated */
    double gradient[MOAO_GP_PARAMETERS];   /* NaN where not asked for; 0 of what is no parameter */
    double tau;                            /* of the factor; 0: dense */
    double bytes, bytes_dense;             /* of the factor; of a dense triangle */
} moao_gp_result;

/* Factor of the covariance of these parameters and the logarithm of the likelihood; with an
 * estimated mean that of the best mean, so that the gradient is the profile's. gradient:
 * derivatives by the logarithms of all parameters: exact for the factor, by its inverse (dense) or
 * n solves (TLR). probes > 0 (2 to 64): the error of the logarithm of the determinant is estimated
 * with so many random vectors. What is too loose is tried with tau / 4, twice. Coincident points
 * need a nugget (MOAO_INPUT names two of them). */
MOAO_PUBLIC moao_status moao_gp_likelihood(moao_gp *g, const moao_gp_kernel *k, bool gradient,
                                           int probes, moao_gp_result *r);

typedef struct {
    unsigned free; /* bits 1 << MOAO_GP_VARIANCE, LENGTH (all of them), SHAPE, NUGGET; 0: all but
                      the shape */
    const moao_gp_kernel *low,
        *high;  /* bounds; NULL: a factor of 1e5 about the start, the nugget
                   1e-10 of the start's variance at least, the range of shapes */
    int most;   /* evaluations; 0: 200 */
    double tol; /* of the likelihood's logarithm that a further step would gain; 0: 1e-5 */
    int probes; /* for the result's error of the determinant */
} moao_gp_fit_options;

typedef struct {
    moao_gp_result at; /* the best parameters, with gradient */
    /* Of the logarithms, from the second derivatives of the likelihood: NaN where these are not
     * those of a maximum (a parameter at its bound), 0: not free. */
    double covariance[MOAO_GP_PARAMETERS][MOAO_GP_PARAMETERS];
    double error[MOAO_GP_PARAMETERS]; /* standard errors: roots of its diagonal */
    int evaluations;
    bool converged;
} moao_gp_fit_result;

/* Parameters of the largest likelihood from a start, by the method of Broyden, Fletcher, Goldfarb
 * and Shanno in their logarithms, within bounds; a local maximum. The factor is that of the result
 * then. MOAO_INPUT: fewer data than free parameters, a start beyond the bounds, or a nugget of 0
 * that is to be estimated. The start has to have a factor. */
MOAO_PUBLIC moao_status moao_gp_fit(moao_gp *g, const moao_gp_kernel *start,
                                    const moao_gp_fit_options *o, moao_gp_fit_result *r);

/* Of mean + z at m points, from the last factor: mean[m]; variance[m] or NULL; covariance, m x m
 * with leading dimension m, or NULL (8 (n + m) m bytes of the host then). The variance of an
 * estimated mean is in both; that of a new datum is larger by the nugget. MOAO_INPUT: no factor.
 * MOAO_NUMERIC: tau is too loose for variances. */
MOAO_PUBLIC moao_status moao_gp_predict(moao_gp *g, int64_t m, const double *at, double *mean,
                                        double *variance, double *covariance);

/* z + e drawn at n points, [n]: mean 0, the same numbers for the same seed; 8 n^2 bytes. */
MOAO_PUBLIC moao_status moao_gp_simulate(const moao_backend *be, moao_backend_ctx *ctx,
                                         const moao_gp_kernel *k, int dim, int64_t n,
                                         const double *at, uint64_t seed, double *z);

/* The tile low-rank factor in use, NULL: dense or none. It belongs to the process, and ends with
 * the next likelihood, fit or close. */
MOAO_PUBLIC const moao_tlr *moao_gp_factor(const moao_gp *g);

#ifdef __cplusplus
}
#endif
#endif
