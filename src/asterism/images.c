#include "asterism/images.h"

#include "factor/scalapack.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ast_images {
    const ast_case *k;
    const want *w;
    psf *ps;
    psf_fit *fit;
    double lambda, width, box;
    double *l;      /* S_AA and its factor */
    double *x0, *e; /* nA x (v ntarget): L^-1 of r0, and of 2 rs - r0 */
    double *cvv;    /* v x v */
    double *sum;    /* of the stationary average */
};

/* The profile with its strengths times a factor, only for the fitting error. */
static status make_fit(ast_images *q, const profile *p, double share) {
    profile scaled = *p;
    status st;
    scaled.strength = NULL;
    TRY(ALLOC(scaled.strength, (size_t)p->nlayer, "layers"));
    for (int i = 0; i < p->nlayer; i++)
        scaled.strength[i] = share * p->strength[i];
    scaled.r0 = p->r0 * pow(share, -0.6);
    st = psf_fit_init(q->ps, &scaled, &q->fit);
done:
    free(scaled.strength);
    return st;
}

status ast_images_init(const ast_case *k, const psf_opts *o, const profile *p, double fit_share,
                       const want *w, int nmost, ast_images **out) {
    const size_t na = k->n * (size_t)nmost, all = (size_t)k->v * (size_t)k->ntarget;
    ast_images *q = NULL;
    psf_opts own = *o;
    status st = ALLOC(q, 1, "images of asterisms");
    *out = NULL;
    if (st != MOAO_OK)
        return st;
    *q = (ast_images){.k = k, .w = w, .lambda = w->lambda, .width = w->width, .box = w->box};
    own.nlambda = 1;
    own.lambda = &q->lambda;
    own.width = &q->width;
    own.nbox = w->quantity == WANT_EE;
    own.box = &q->box;
    own.crop = 2;
    own.phase =
        false; /* of commands: the residual of the pupil would need its points at full order */
    TRY(psf_init(k->s, &own, &q->ps));
    TRY(make_fit(q, p, fit_share));
    TRY(ALLOC(q->l, na * na, "covariances of an asterism"));
    TRY(ALLOC(q->x0, na * all, "covariances of an asterism"));
    TRY(ALLOC(q->e, na * all, "covariances of an asterism"));
    TRY(ALLOC(q->cvv, (size_t)k->v * (size_t)k->v, "covariance of commands"));
    TRY(ALLOC(q->sum, psf_sep_count(q->ps), "stationary average"));
done:
    if (st != MOAO_OK)
        ast_images_free(q);
    else
        *out = q;
    return st;
}

void ast_images_free(ast_images *q) {
    if (q == NULL)
        return;
    psf_fit_free(q->fit);
    psf_free(q->ps);
    free(q->l);
    free(q->x0);
    free(q->e);
    free(q->cvv);
    free(q->sum);
    free(q);
}

/* L of the asterism, L^-1 of its rows of r0 and of 2 rs - r0. */
static status solve(ast_images *q, const int *star, int nstar) {
    const ast_case *k = q->k;
    const size_t n = k->n, na = n * (size_t)nstar, all = (size_t)k->v * (size_t)k->ntarget;
    const int order = (int)na, cols = (int)all;
    int info = 0;
    for (int a = 0; a < nstar; a++) {
        const size_t row = (size_t)star[a] * n;
        for (int b = 0; b <= a; b++)
            for (size_t j = 0; j < n; j++)
                memcpy(q->l + (size_t)a * n + ((size_t)b * n + j) * na,
                       k->S + row + ((size_t)star[b] * n + j) * k->mc, n * sizeof *q->l);
        for (size_t j = 0; j < all; j++)
            for (size_t i = 0; i < n; i++) {
                const double r0 = k->r0[row + i + j * k->mc], rs = k->rs[row + i + j * k->mc];
                q->x0[(size_t)a * n + i + j * na] = r0;
                q->e[(size_t)a * n + i + j * na] = 2 * rs - r0;
            }
    }
    if (na == 0)
        return MOAO_OK;
    dpotrf_("L", &order, q->l, &order, &info);
    if (info != 0)
        return status_fail(MOAO_NUMERIC, "covariances of an asterism are not positive definite");
    cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, order, cols, 1,
                q->l, order, q->x0, order);
    if (k->rs == k->r0)
        memcpy(q->e, q->x0, na * all * sizeof *q->e);
    else
        cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, order, cols,
                    1, q->l, order, q->e, order);
    return MOAO_OK;
}

static status one_target(ast_images *q, int t, int order, double *value) {
    const ast_case *k = q->k;
    const size_t v = (size_t)k->v, at = (size_t)t * v * (size_t)order;
    double ee = NAN;
    psf_result r = {.ee = &ee};
    memcpy(q->cvv, k->cf + (size_t)t * v * v, v * v * sizeof *q->cvv);
    if (order > 0)
        cblas_dsyr2k(CblasColMajor, CblasLower, CblasTrans, k->v, order, -0.5, q->x0 + at, order,
                     q->e + at, order, 1, q->cvv, k->v);
    for (size_t b = 0; b < v; b++)
        for (size_t a = 0; a < b; a++)
            q->cvv[a + b * v] = q->cvv[b + a * v];
    memset(q->sum, 0, psf_sep_count(q->ps) * sizeof *q->sum);
    psf_accumulate(q->ps, 0, v, q->cvv, v, false, q->sum);
    const status st = psf_compute(q->ps, q->sum, q->fit, 0, &r);
    *value = q->w->quantity == WANT_EE       ? ee
             : q->w->quantity == WANT_STREHL ? r.strehl
                                             : sqrt(r.variance) * q->lambda * 1e9 / (2 * M_PI);
    return st;
}

status ast_images_run(ast_images *q, const int *star, int nstar, double *value) {
    status st;
    TRY(solve(q, star, nstar));
    for (int t = 0; t < q->k->ntarget; t++)
        TRY(one_target(q, t, (int)q->k->n * nstar, &value[t]));
done:
    return st;
}
