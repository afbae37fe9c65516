/* Derivatives of a likelihood by the logarithms of the parameters: with a = C^-1 (y - mean) and
 * P = C^-1, d log p / d theta = sum_ij (a_i a_j - P_ij) dC_ij / d theta / 2 (Rasmussen and Williams
 * 2006, eq. 5.9). P is formed in panels of columns, of which what is on and below the diagonal
 * counts. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    moao_gp *g;
    bool of_shape;
    int64_t j0, nj;
    const double *p; /* rows j0 .. n of columns j0 .. j0 + nj */
    int64_t ldp;
} panel;

/* Adds column j's part to sum[MOAO_GP_PARAMETERS]. */
static void add_column(const panel *x, int64_t j, double *sum) {
    const moao_gp *g = x->g;
    const double *at = g->scaled, *xj = at + g->dim * j, *p = x->p + (j - x->j0) * x->ldp - x->j0;
    const double diagonal = (g->alpha[j] * g->alpha[j] - p[j]) / 2;
    sum[MOAO_GP_NUGGET] += g->k.nugget * diagonal;
    sum[MOAO_GP_VARIANCE] += g->k.variance * diagonal;
    for (int64_t i = j + 1; i < g->n; i++) {
        const double w = g->k.variance * (g->alpha[i] * g->alpha[j] - p[i]), *xi = at + g->dim * i,
                     square = gp_square(g->dim, xi, xj);
        double f, by_d, by_shape;
        gp_radial_all(&g->radial, square, x->of_shape, &f, &by_d, &by_shape);
        sum[MOAO_GP_VARIANCE] += w * f;
        sum[MOAO_GP_SHAPE] += w * by_shape;
        for (int d = 0; square > 0 && d < g->dim; d++)
            sum[MOAO_GP_LENGTH + d] -= w * by_d * (xi[d] - xj[d]) * (xi[d] - xj[d]) / square;
    }
}

/* The same sums whatever the threads: columns are added up one after another. */
static status add_panel(const panel *x, double gradient[MOAO_GP_PARAMETERS]) {
    double *sum = NULL;
    status st;
    TRY(ALLOC(sum, (size_t)(x->nj * MOAO_GP_PARAMETERS), "derivatives"));
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t j = 0; j < x->nj; j++)
        add_column(x, x->j0 + j, sum + j * MOAO_GP_PARAMETERS);
    for (int64_t j = 0; j < x->nj; j++)
        for (int k = 0; k < MOAO_GP_PARAMETERS; k++)
            gradient[k] += sum[j * MOAO_GP_PARAMETERS + k];
done:
    free(sum);
    return st;
}

static int64_t columns(const moao_gp *g, int64_t j) {
    return g->n - j < GP_PANEL ? g->n - j : GP_PANEL;
}

static status from_dense(panel *x, double *host, double *gradient) {
    moao_gp *g = x->g;
    const int64_t n = g->n;
    double *diagonal = NULL;
    status st;
    TRY(ALLOC(diagonal, (size_t)n, "diagonal of a factor"));
    TRY(gp_invert(g, diagonal));
    for (int64_t j = 0; j < n; j += GP_PANEL) {
        double *there = g->a + j * (n + 1);
        x->j0 = j, x->nj = columns(g, j);
        x->p = there, x->ldp = n;
        if (g->be != &backend_cpu) {
            TRY(g->be->copy(g->ctx, host, 8 * (n - j), there, 8 * n, 8 * (n - j), x->nj));
            TRY(g->be->sync(g->ctx));
            x->p = host, x->ldp = n - j;
        }
        TRY(add_panel(x, gradient));
    }
    st = gp_invert_end(g, diagonal);
done:
    free(diagonal);
    return st;
}

static status from_solves(panel *x, double *host, double *gradient) {
    const moao_gp *g = x->g;
    status st = MOAO_OK;
    for (int64_t j = 0; j < g->n; j += GP_PANEL) {
        x->j0 = j, x->nj = columns(g, j);
        memset(host, 0, sizeof *host * (size_t)(g->n * x->nj));
        for (int64_t k = 0; k < x->nj; k++)
            host[j + k + k * g->n] = 1;
        TRY(gp_solve(g, 'A', x->nj, host));
        x->p = host + j, x->ldp = g->n;
        TRY(add_panel(x, gradient));
    }
done:
    return st;
}

status gp_gradient(moao_gp *g, double gradient[MOAO_GP_PARAMETERS]) {
    panel x = {.g = g, .of_shape = g->k.family != MOAO_GP_SQUARED_EXPONENTIAL};
    double *host = NULL;
    status st;
    for (int k = 0; k < MOAO_GP_PARAMETERS; k++)
        gradient[k] = 0;
    if (g->l || g->be != &backend_cpu)
        TRY(ALLOC(host, (size_t)(g->n * columns(g, 0)), "columns of an inverse"));
    TRY(g->l ? from_solves(&x, host, gradient) : from_dense(&x, host, gradient));
    if (gp_lengths(&g->k, g->dim) == 1)
        for (int d = 1; d < 3; d++) {
            gradient[MOAO_GP_LENGTH] += gradient[MOAO_GP_LENGTH + d];
            gradient[MOAO_GP_LENGTH + d] = 0;
        }
done:
    free(host);
    return st;
}
