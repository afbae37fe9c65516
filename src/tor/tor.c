#include "tor/tor.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static status fill_cmm(void *ctx, size_t i0, size_t ni, size_t j0, size_t nj, double *a,
                       size_t ld) {
    return matcov_fill_cmm(ctx, i0, ni, j0, nj, a, ld);
}

status tor_explain_minor(const sys *s, int minor) {
    int w, axis, isub;
    sys_slope_at(s, (size_t)minor - 1, &w, &axis, &isub);
    const sensor *k = &s->sensors[w];
    status_clear();
    return status_fail(
        MOAO_NUMERIC,
        "Cmm is not positive definite: leading minor of order %d, %c slope of subaperture %d of "
        "sensor %d (%s); give that sensor more noise (a fainter star, ron, noise_variance)%s, "
        "and check that no two sensors are the same",
        minor, axis == 0 ? 'x' : 'y', isub, w, k->name,
        k->lgs ? " or a smaller tiptilt_factor" : "");
}

status tor_init(const rowteam *t, const profile *p, int nb, int nprow, int npcol, tor *r) {
    memset(r, 0, sizeof *r);
    r->prof = p;
    status st;
    int minor = 0;
    const double m = (double)t->s->m;
    double from = report_now();
    TRY(matcov_init(t->c, t->s, p, &r->mc));
    TRY(bcmat_init(t->c, (int)t->s->m, nb, nprow, npcol, &r->l));
    TRY(bcmat_fill(&r->l, fill_cmm, r->mc));
    t->rep->wall[STAGE_MATCOV] += report_now() - from;
    from = report_now();
    st = bcmat_cholesky(&r->l, &minor);
    t->rep->wall[STAGE_FACTOR] += report_now() - from;
    t->rep->flops[STAGE_FACTOR] += m * m * m / 3 / t->c->size;
    if (minor > 0)
        st = tor_explain_minor(t->s, minor);
done:
    return st;
}

void tor_free(tor *r) {
    matcov_free(r->mc);
    bcmat_free(&r->l);
    memset(r, 0, sizeof *r);
}

/* ch->w = P Ctm0 of every target of the chunk on this rank. */
static status right_hand_sides(const rowteam *t, const tor *r, const double *proj, rowchunk *ch) {
    status st = comm_fault(t->c, "solve");
    for (int k = 0; k < ch->nmine; k++) {
        matcov_target *mt = NULL;
        if (st == MOAO_OK)
            st = matcov_target_init(r->mc, t->s->targets[ch->mine + k], false, &mt);
        st = rows_group_agree(t, st);
        for (size_t j = 0; j < t->s->m && st == MOAO_OK; j += t->width) {
            size_t w = t->s->m - j < t->width ? t->s->m - j : t->width;
            st = rows_project_ctm(t, ch, mt, proj, j, w, 1.0, 0.0,
                                  ch->w + (size_t)k * (size_t)ch->nlrow + j * ch->ld, ch->ld,
                                  STAGE_SOLVE);
        }
        matcov_target_free(mt);
    }
    return comm_agree(t->c, st);
}

/* One column panel of L against the rows: forward, W_j = W_j L_jj^-T, then W_right -= W_j L_below';
 * backward, W_j = (W_j - W_right L_below) L_jj^-1. */
static void solve_panel(const rowteam *t, rowchunk *ch, const double *l, size_t ldl, size_t j,
                        size_t w, bool forward) {
    const int rows = (int)ch->ld, below = (int)(t->s->m - j - w);
    double *wj = ch->w + j * ch->ld, *right = wj + w * ch->ld;
    if (!forward && below > 0)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, rows, (int)w, below, -1.0, right,
                    rows, l + w, (int)ldl, 1.0, wj, rows);
    cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, forward ? CblasTrans : CblasNoTrans,
                CblasNonUnit, rows, (int)w, 1.0, l, (int)ldl, wj, rows);
    if (forward && below > 0)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, rows, below, (int)w, -1.0, wj, rows,
                    l + w, (int)ldl, 1.0, right, rows);
    t->rep->flops[STAGE_SOLVE] += (double)rows * (double)w * (double)(w + 2 * (size_t)below);
}

static status solve_all(const rowteam *t, const tor *r, rowchunk *ch) {
    const size_t m = t->s->m, npanel = (m + t->width - 1) / t->width;
    status st = MOAO_OK;
    for (size_t pass = 0; pass < 2 && st == MOAO_OK; pass++)
        for (size_t k = 0; k < npanel && st == MOAO_OK; k++) {
            size_t j = (pass == 0 ? k : npanel - 1 - k) * t->width, ldl;
            size_t w = m - j < t->width ? m - j : t->width;
            const double *l;
            ROWS_WAIT(t, STAGE_SOLVE, st = bcmat_panel(&r->l, j, w, t->panel, &l, &ldl));
            if (st == MOAO_OK)
                solve_panel(t, ch, l, ldl, j, w, pass == 0);
            rows_progress(t);
        }
    return st;
}

/* Sampled columns of a residual: b (ld x n) holds P Ctm0 there, cmm (m x n) is work. */
static status residual_norm(const rowteam *t, const tor *r, const rowchunk *ch, const size_t *col,
                            int n, double *b, double *cmm, double *residual) {
    const size_t m = t->s->m;
    status st = MOAO_OK;
    double sum[2] = {0, 0}, total[2];
    for (int k = 0; k < n && st == MOAO_OK; k++)
        st = matcov_fill_cmm(r->mc, 0, m, col[k], 1, cmm + (size_t)k * m, m);
    if ((st = comm_agree(t->c, st)) != MOAO_OK)
        return st;
    const size_t rows = (size_t)ch->nmine * (size_t)ch->nlrow;
    for (size_t i = 0; i < (size_t)n * rows; i++)
        sum[1] += b[i] * b[i];
    if (rows > 0)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)rows, n, (int)m, 1.0, ch->w,
                    (int)ch->ld, cmm, (int)m, -1.0, b, (int)rows);
    for (size_t i = 0; i < (size_t)n * rows; i++)
        sum[0] += b[i] * b[i];
    MPI_Allreduce(sum, total, 2, MPI_DOUBLE, MPI_SUM, t->c->mpi);
    *residual = total[1] > 0 ? sqrt(total[0] / total[1]) : 0;
    return MOAO_OK;
}

status tor_solve(const rowteam *t, const tor *r, const double *proj, int nsample, rowchunk *ch,
                 double *residual) {
    const size_t m = t->s->m, rows = (size_t)ch->nmine * (size_t)ch->nlrow;
    size_t *col = NULL;
    double *b = NULL, *cmm = NULL;
    *residual = NAN;
    double from = report_now();
    status st;
    TRY(right_hand_sides(t, r, proj, ch));
    if ((size_t)nsample > m)
        nsample = (int)m;
    st = ALLOC(col, (size_t)nsample, "sampled columns");
    if (st == MOAO_OK)
        st = ALLOC(b, rows * (size_t)nsample, "sampled right-hand sides");
    if (st == MOAO_OK)
        st = ALLOC(cmm, m * (size_t)nsample, "sampled columns of Cmm");
    TRY(comm_agree(t->c, st));
    for (int k = 0; k < nsample; k++) {
        col[k] = (size_t)((double)m * (k + 0.5) / nsample);
        if (rows > 0)
            memcpy(b + (size_t)k * rows, ch->w + col[k] * ch->ld, rows * sizeof(double));
    }
    TRY(solve_all(t, r, ch));
    for (int k = 0; k < ch->nmine && ch->nlrow > 0; k++)
        if (comm_flips(t->c, "flip-w")) {
            double *x = ch->w + (size_t)k * (size_t)ch->nlrow + m / 2 * ch->ld;
            *x = comm_flip(*x);
        }
    if (nsample > 0)
        TRY(residual_norm(t, r, ch, col, nsample, b, cmm, residual));
done:
    free(col);
    free(b);
    free(cmm);
    t->rep->wall[STAGE_SOLVE] += report_now() - from;
    return st;
}
