#include "asterism/case.h"

#include "factor/scalapack.h"
#include "matcov/matcov.h"
#include "tor/command.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the pupil's mean square --- */

enum { PIXELS = 4 }; /* of a pitch, along one axis: the mean square is right to 1e-3 */

/* Influence functions at the pupil's pixels: `f` is pixels x v (column by column), `count` pixels.
 */
static status sample_influence(const sys *s, double **f, size_t *count) {
    const int n = s->dm.nssp, side = PIXELS * n, v = s->dm.nact;
    const double x0 = 1 / sqrt(-2 * log(s->dm.coupling)); /* in pitches */
    const double rout = n / 2.0, rin = s->obs * rout;
    double *at = NULL;
    size_t k = 0;
    status st;
    TRY(ALLOC(at, 2 * (size_t)side * (size_t)side, "pixels of the pupil"));
    for (int j = 0; j < side; j++)
        for (int i = 0; i < side; i++) {
            const double x = (i + 0.5) / PIXELS, y = (j + 0.5) / PIXELS,
                         r = hypot(x - rout, y - rout);
            if (r < rin || r >= rout ||
                (s->pupil != NULL &&
                 !sys_is_lit(s, (x - rout) * s->dm.pitch, (y - rout) * s->dm.pitch)))
                continue;
            at[2 * k] = x;
            at[2 * k + 1] = y;
            k++;
        }
    TRY(ALLOC(*f, k * (size_t)v, "influence functions in the pupil"));
    for (int a = 0; a < v; a++) {
        const double ax = s->dm.act[a] % (n + 1), ay = (double)(s->dm.act[a] / (n + 1));
        for (size_t i = 0; i < k; i++) {
            const double dx = at[2 * i] - ax, dy = at[2 * i + 1] - ay;
            (*f)[i + (size_t)a * k] = exp(-(dx * dx + dy * dy) / (2 * x0 * x0));
        }
    }
    *count = k;
done:
    free(at);
    return st;
}

status ast_pupil_area(const sys *s, double *area) {
    const int v = s->dm.nact;
    double *f = NULL;
    size_t count = 0;
    status st;
    TRY(sample_influence(s, &f, &count));
    for (int a = 0; a < v; a++) {
        double mean = 0, *col = f + (size_t)a * count;
        for (size_t i = 0; i < count; i++)
            mean += col[i] / (double)count;
        for (size_t i = 0; i < count; i++)
            col[i] -= mean;
    }
    cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, v, v, (int)count, 1 / (double)count, f,
                (int)count, f, (int)count, 0, area, v);
done:
    free(f);
    return st;
}

/* --- elimination of the fixed sensors --- */

typedef struct { /* while a case is made */
    ast_case *k;
    const matcov *mc;
    const double *dplus; /* v x t */
    size_t mf;
    double *l;     /* mf x mf, lower: factor of Cff */
    double *y;     /* mf x mc: L^-1 Cfc */
    double *truth; /* v x v: D+ Ctt D+' */
    double *ctm;   /* t x m */
    double *b;     /* m x v, covariances of slopes with commands */
    double *xf[2]; /* mf x v: L^-1 of their fixed rows, for r0 and rs */
} maker;

static status eliminate(maker *q) {
    ast_case *k = q->k;
    const int mf = (int)q->mf, mc = (int)k->mc;
    int info = 0;
    status st;
    TRY(ALLOC(k->S, k->mc * k->mc, "covariances of the candidates"));
    TRY(matcov_fill_cmm(q->mc, q->mf, k->mc, q->mf, k->mc, k->S, k->mc));
    if (mf == 0)
        return MOAO_OK;
    TRY(ALLOC(q->l, q->mf * q->mf, "covariances of the fixed sensors"));
    TRY(ALLOC(q->y, q->mf * k->mc, "covariances of fixed sensors and candidates"));
    TRY(matcov_fill_cmm(q->mc, 0, q->mf, 0, q->mf, q->l, q->mf));
    TRY(matcov_fill_cmm(q->mc, 0, q->mf, q->mf, k->mc, q->y, q->mf));
    dpotrf_("L", &mf, q->l, &mf, &info);
    if (info != 0)
        TRY(status_fail(
            MOAO_NUMERIC,
            "covariances of the fixed sensors are not positive definite (minor %d of %d)", info,
            mf));
    if (mc == 0) /* no candidate: the fixed sensors alone */
        goto done;
    cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, mf, mc, 1, q->l,
                mf, q->y, mf);
    cblas_dsyrk(CblasColMajor, CblasLower, CblasTrans, mc, mf, -1, q->y, mf, 1, k->S, mc);
    for (size_t j = 0; j < k->mc; j++)
        for (size_t i = 0; i < j; i++)
            k->S[i + j * k->mc] = k->S[j + i * k->mc];
done:
    return st;
}

/* Covariances of a target's commands with all slopes, reduced into `r` (mc x v) and `xf`. */
static status cross(maker *q, const double dir[2], bool shifted, double *r, double *xf) {
    const ast_case *k = q->k;
    const int t = (int)k->s->t, m = (int)k->s->m, v = k->v, mf = (int)q->mf, mc = (int)k->mc;
    matcov_target *mt = NULL;
    status st;
    TRY(matcov_target_init(q->mc, dir, shifted, &mt));
    TRY(matcov_fill_ctm(mt, 0, k->s->m, q->ctm, k->s->t));
    cblas_dgemm(CblasColMajor, CblasTrans, CblasTrans, m, v, t, 1, q->ctm, t, q->dplus, v, 0, q->b,
                m);
    for (int a = 0; a < v; a++) {
        memcpy(xf + (size_t)a * q->mf, q->b + (size_t)a * k->s->m, q->mf * sizeof *xf);
        memcpy(r + (size_t)a * k->mc, q->b + (size_t)a * k->s->m + q->mf, k->mc * sizeof *r);
    }
    if (mf == 0)
        goto done;
    cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, mf, v, 1, q->l,
                mf, xf, mf);
    if (mc > 0)
        cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, mc, v, mf, -1, q->y, mf, xf, mf, 1, r,
                    mc);
done:
    matcov_target_free(mt);
    return st;
}

/* r0, rs, cf, var0 of a target. */
static status one_target(maker *q, int i) {
    ast_case *k = q->k;
    const size_t v = (size_t)k->v, at = (size_t)i * v * k->mc;
    const int mf = (int)q->mf;
    double *cf = k->cf + (size_t)i * v * v;
    bool moves = k->rs != k->r0;
    status st;
    TRY(cross(q, k->s->targets[i], false, k->r0 + at, q->xf[0]));
    if (moves)
        TRY(cross(q, k->s->targets[i], true, k->rs + at, q->xf[1]));
    memcpy(cf, q->truth, v * v * sizeof *cf);
    double *x0 = q->xf[0], *e = q->xf[1]; /* e = 2 xs - x0 */
    for (size_t j = 0; j < q->mf * v; j++)
        e[j] = moves ? 2 * e[j] - x0[j] : x0[j];
    if (mf > 0)
        cblas_dsyr2k(CblasColMajor, CblasLower, CblasTrans, k->v, mf, -0.5, x0, mf, e, mf, 1, cf,
                     k->v);
    k->var0[i] = 0;
    for (size_t b = 0; b < v; b++)
        for (size_t a = 0; a < v; a++) {
            if (a < b)
                cf[a + b * v] = cf[b + a * v];
            k->var0[i] += k->area[a + b * v] * cf[a + b * v];
        }
done:
    return st;
}

/* D+ Ctt D+' */
static status truth(maker *q) {
    const int t = (int)q->k->s->t, v = q->k->v;
    double *ctt = NULL, *half = NULL;
    status st;
    TRY(ALLOC(ctt, (size_t)t * (size_t)t, "Ctt"));
    TRY(ALLOC(half, (size_t)v * (size_t)t, "D+ Ctt"));
    TRY(matcov_fill_ctt(q->mc, 0, (size_t)t, 0, (size_t)t, ctt, (size_t)t));
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, v, t, t, 1, q->dplus, v, ctt, t, 0, half,
                v);
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, v, v, t, 1, half, v, q->dplus, v, 0,
                q->truth, v);
done:
    free(ctt);
    free(half);
    return st;
}

static status make(maker *q) {
    ast_case *k = q->k;
    const size_t v = (size_t)k->v, nt = (size_t)k->ntarget;
    const bool moves = k->s->delay > 0;
    status st;
    TRY(ALLOC(k->area, v * v, "mean square over the pupil"));
    TRY(ast_pupil_area(k->s, k->area));
    TRY(ALLOC(k->cf, v * v * nt, "covariances of commands"));
    TRY(ALLOC(k->var0, nt, "variances"));
    TRY(ALLOC(k->r0, k->mc * v * nt, "covariances of commands and candidates"));
    k->rs = k->r0;
    if (moves) {
        k->rs = NULL;
        TRY(ALLOC(k->rs, k->mc * v * nt, "covariances of commands and candidates"));
    }
    TRY(ALLOC(q->truth, v * v, "covariances of commands"));
    TRY(ALLOC(q->ctm, k->s->t * k->s->m, "Ctm of a target"));
    TRY(ALLOC(q->b, k->s->m * v, "covariances of slopes and commands"));
    for (int i = 0; i < 2; i++)
        TRY(ALLOC(q->xf[i], q->mf * v, "covariances of fixed sensors and commands"));
    TRY(truth(q));
    TRY(eliminate(q));
    for (int i = 0; i < k->ntarget; i++)
        TRY(one_target(q, i));
done:
    free(q->l);
    free(q->y);
    free(q->truth);
    free(q->ctm);
    free(q->b);
    free(q->xf[0]);
    free(q->xf[1]);
    return st;
}

status ast_case_init(const comm *c, const sys *s, int nfixed, const profile *p, ast_case **out) {
    matcov *mc = NULL;
    double *dplus = NULL;
    ast_case *k = NULL;
    status st = ALLOC(k, 1, "asterisms");
    *out = NULL;
    if (st == MOAO_OK) {
        *k = (ast_case){
            .s = s, .nfixed = nfixed, .ncand = s->nsensor - nfixed, .ntarget = s->ntarget};
        k->v = s->dm.nact;
        k->n = k->ncand > 0 ? 2 * (size_t)s->sensors[nfixed].nsub : 0;
        k->mc = k->n * (size_t)k->ncand;
        for (int i = nfixed; i < s->nsensor && st == MOAO_OK; i++)
            if (2 * (size_t)s->sensors[i].nsub != k->n)
                st = status_fail(MOAO_INPUT,
                                 "candidates' sensors must have equally many subapertures");
        if (st == MOAO_OK)
            st = ALLOC(dplus, (size_t)s->dm.nact * s->t, "command matrix");
    }
    TRY(comm_agree(c, st));
    TRY(matcov_init(c, s, p, &mc));
    TRY(command_init(c, s, dplus, NULL));
    maker q = {.k = k, .mc = mc, .dplus = dplus, .mf = s->m - k->mc};
    st = comm_agree(c, make(&q));
done:
    matcov_free(mc);
    free(dplus);
    if (st != MOAO_OK)
        ast_case_free(k);
    else
        *out = k;
    return st;
}

void ast_case_free(ast_case *k) {
    if (k == NULL)
        return;
    if (k->rs != k->r0)
        free(k->rs);
    free(k->r0);
    free(k->S);
    free(k->cf);
    free(k->area);
    free(k->var0);
    free(k);
}

double ast_case_bytes(const sys *s, int nfixed) {
    const double m = (double)s->m, mf = nfixed < s->nsensor ? (double)s->sensors[nfixed].first : m;
    const double mc = m - mf, v = s->dm.nact, t = (double)s->t, nt = s->ntarget;
    const double moves = s->delay > 0 ? 2 : 1;
    const double nc = s->nsensor - nfixed, n = nc > 0 ? mc / nc : 0;
    const double held = mc * mc + moves * mc * v * nt + v * v * nt + v * t;
    const double making = mf * m + t * m + m * v;
    const double gram = nc * (nc + 1) / 2 * n * n * nt + mc * mc;
    return 8 * (held + (making > gram ? making : gram));
}
