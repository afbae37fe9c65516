#include "obsseq/obsseq.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

void obsexposure_free(obsexposure *ex) {
    free(ex->mtt);
    psf_fit_free(ex->fit);
    memset(ex, 0, sizeof *ex);
}

size_t obsseq_most(const rowteam *t, const rowchunk *ch) {
    return (size_t)ch->count / (size_t)t->c->size + 2;
}

size_t obsseq_work(const rowchunk *ch) {
    return (size_t)ch->nmine * (size_t)ch->nlrow * (size_t)ch->nrow * sizeof(double);
}

/* z = W(:, j:) T(j:, j..j+w): the panel's triangle on the diagonal, then what lies below it. */
static void triangular_product(const rowteam *t, const rowchunk *ch, size_t j, size_t w) {
    const int rows = (int)ch->ld, below = (int)(t->s->m - j - w), ldt = (int)(t->s->m - j);
    const double *wj = ch->w + j * ch->ld;
    memcpy(t->z, wj, ch->ld * w * sizeof(double));
    cblas_dtrmm(CblasColMajor, CblasRight, CblasLower, CblasNoTrans, CblasNonUnit, rows, (int)w,
                1.0, t->panel, ldt, t->z, rows);
    if (below > 0)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, rows, (int)w, below, 1.0,
                    wj + w * ch->ld, rows, t->panel + w, ldt, 1.0, t->z, rows);
    t->rep->flops[STAGE_EXPOSURE] += (double)rows * (double)w * (double)(w + 2 * (size_t)below);
}

typedef struct { /* of the residual phase on the pupil; n 0: the commands are enough */
    size_t n;
    const double *x, *y;
    double *panel; /* n x width: Cpm */
    double *ct;    /* [nmine] nlrow x n: W Cpm' */
} points;

/* ct += W(:, j..j+w) Cpm(:, j..j+w)' of a target; the columns of Cpm are shared out over the group. */
static status project_phase(const rowteam *t, const rowchunk *ch, const matcov_target *mt,
                            const points *pt, int slot, size_t j, size_t w) {
    int c0, nc;
    rows_share((int)w, t->group_size, t->member, &c0, &nc);
    status st = matcov_fill_cpm(mt, pt->n, pt->x, pt->y, j + (size_t)c0, (size_t)nc,
                                pt->panel + (size_t)c0 * pt->n, pt->n);
    ROWS_WAIT(t, STAGE_EXPOSURE, st = rows_group_agree(t, st));
    if (st != MOAO_OK)
        return st;
    ROWS_WAIT(t, STAGE_EXPOSURE, rows_gather(t, pt->n, w, pt->panel));
    if (ch->nlrow > 0)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, ch->nlrow, (int)pt->n, (int)w, 1.0,
                    ch->w + (size_t)slot * (size_t)ch->nlrow + j * ch->ld, (int)ch->ld, pt->panel,
                    (int)pt->n, 1.0, pt->ct + (size_t)slot * (size_t)ch->nlrow * pt->n, ch->nlrow);
    t->rep->flops[STAGE_EXPOSURE] += 2.0 * ch->nlrow * (double)w * (double)pt->n;
    return MOAO_OK;
}

/* Panel by panel: z is never kept whole. mt: the targets of this rank. */
static status residual_panels(const rowteam *t, const matcov *mc, const double *proj,
                              const rowchunk *ch, matcov_target *const *mt, const points *pt,
                              double *y) {
    status st = MOAO_OK;
    const size_t m = t->s->m;
    for (size_t j = 0; j < m && st == MOAO_OK; j += t->width) {
        size_t w = m - j < t->width ? m - j : t->width;
        st = rows_half_panel(t, mc, j, w, STAGE_EXPOSURE);
        if (st != MOAO_OK)
            break;
        triangular_product(t, ch, j, w);
        for (int k = 0; k < ch->nmine && st == MOAO_OK; k++) {
            double *z = t->z + (size_t)k * (size_t)ch->nlrow;
            st = pt->n > 0 ? project_phase(t, ch, mt[k], pt, k, j, w)
                           : rows_project_ctm(t, ch, mt[k], proj, j, w, -1.0, 1.0, z, ch->ld,
                                              STAGE_EXPOSURE);
            if (st == MOAO_OK)
                rows_outer(t, ch, k, j, w, z, ch->ld,
                           y + (size_t)k * (size_t)ch->nlrow * (size_t)ch->nrow, STAGE_EXPOSURE);
        }
        ROWS_WAIT(t, STAGE_EXPOSURE, st = comm_agree(t->c, st));
        rows_progress(t);
    }
    return st;
}

static status residual(const rowteam *t, const matcov *mc, const double *proj, const rowchunk *ch,
                       const points *pt, double *y) {
    matcov_target **mt = NULL;
    status st = ALLOC(mt, (size_t)ch->nmine, "targets of the exposure");
    for (int k = 0; k < ch->nmine && st == MOAO_OK; k++)
        st = matcov_target_init(mc, t->s->targets[ch->mine + k], true, &mt[k]);
    memset(y, 0, obsseq_work(ch));
    if ((st = comm_agree(t->c, st)) == MOAO_OK)
        st = residual_panels(t, mc, proj, ch, mt, pt, y);
    for (int k = 0; mt != NULL && k < ch->nmine; k++)
        matcov_target_free(mt[k]);
    free(mt);
    return st;
}

status obsseq_residual(const rowteam *t, const matcov *mc, const double *proj, const rowchunk *ch,
                       double *y) {
    const points none = {0};
    return residual(t, mc, proj, ch, &none, y);
}

status obsseq_truth(const rowteam *t, const matcov *mc, const double *proj, int nrow, int *i0,
                    int *ni, double **c) {
    const size_t nt = t->s->t, width = t->width;
    double *ctt = NULL, *x = NULL;
    *c = NULL;
    rows_slice(nrow, t->c->size, t->c->rank, i0, ni);
    const size_t rows = *ni > 0 ? (size_t)*ni : 1;
    status st;
    TRY(ALLOC(*c, rows * (size_t)nrow, "rows of D+ Ctt D+'"));
    TRY(ALLOC(ctt, nt * width, "panel of Ctt"));
    TRY(ALLOC(x, rows * width, "panel of D+ Ctt"));
    for (size_t j = 0; j<nt && * ni> 0; j += width) {
        int w = (int)(nt - j < width ? nt - j : width);
        TRY(matcov_fill_ctt(mc, 0, nt, j, (size_t)w, ctt, nt));
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, *ni, w, (int)nt, 1.0, proj + *i0,
                    nrow, ctt, (int)nt, 0.0, x, *ni);
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, *ni, nrow, w, 1.0, x, *ni,
                    proj + j * (size_t)nrow, nrow, 1.0, *c, *ni);
        t->rep->flops[STAGE_EXPOSURE] += 2.0 * *ni * (double)w * (double)(nt + (size_t)nrow);
    }
done:
    free(ctt);
    free(x);
    return comm_agree(t->c, st);
}

/* What all targets of an exposure share, made at its first chunk. */
static status common_part(const rowteam *t, const profile *p, const matcov *mc, const double *dplus,
                          const psf *ps, obsexposure *ex) {
    if (ex->mtt != NULL)
        return MOAO_OK;
    double *c = NULL;
    int i0, ni;
    const size_t nsep = psf_sep_count(ps);
    status st;
    if (psf_is_phase(ps)) {
        st = ALLOC(ex->mtt, nsep, "what all targets have in common");
        if (st == MOAO_OK)
            st = psf_phase_common(ps, p, ex->mtt);
        if (st == MOAO_OK)
            st = psf_rest_init(ps, p, &ex->fit);
        return comm_agree(t->c, st);
    }
    TRY(obsseq_truth(t, mc, dplus, t->s->dm.nact, &i0, &ni, &c));
    st = ALLOC(ex->mtt, nsep, "stationary average of D+ Ctt D+'");
    if (st == MOAO_OK)
        st = psf_fit_init(ps, p, &ex->fit);
    TRY(comm_agree(t->c, st));
    psf_accumulate(ps, (size_t)i0, (size_t)ni, c, ni > 0 ? (size_t)ni : 1, false, ex->mtt);
    ROWS_WAIT(t, STAGE_EXPOSURE,
              MPI_Allreduce(MPI_IN_PLACE, ex->mtt, (int)nsep, MPI_DOUBLE, MPI_SUM, t->c->mpi));
done:
    free(c);
    return st;
}

/* Owner of the k-th target of a group: its ranks take turns. */
static bool owns(int k, int group_size, int member) {
    return k % group_size == member;
}

/* PSFs of the targets that this rank owns, one after the other, into out (scalars) and images. */
static status own_psfs(const rowteam *t, const rowchunk *ch, psf *ps, const obsexposure *ex,
                       const double *y, const points *pt, const result_block *shape, double *sum,
                       double *scalars, float *images) {
    const size_t nsep = psf_sep_count(ps), ny = (size_t)ch->nlrow * (size_t)ch->nrow;
    const size_t ns = (size_t)shape->nlambda * (3 + (size_t)shape->nbox);
    const size_t np = (size_t)shape->nlambda * (size_t)shape->crop * (size_t)shape->crop;
    status st = comm_fault(t->c, "psf");
    for (int k = 0; k < ch->nmine; k++) {
        memset(sum, 0, nsep * sizeof(double));
        const size_t nl = (size_t)ch->nlrow, ld = nl > 0 ? nl : 1;
        if (pt->n == 0)
            psf_accumulate(ps, (size_t)ch->row0, nl, y + (size_t)k * ny, ld, true, sum);
        else if (st == MOAO_OK)
            st = psf_accumulate_phase(ps, (size_t)ch->row0, nl, y + (size_t)k * ny, ld,
                                      pt->ct + (size_t)k * nl * pt->n, ld, sum);
        bool mine = owns(k, t->group_size, t->member);
        if (t->group_size > 1)
            ROWS_WAIT(t, STAGE_PSF,
                      MPI_Reduce(mine ? MPI_IN_PLACE : sum, sum, (int)nsep, MPI_DOUBLE, MPI_SUM,
                                 k % t->group_size, t->group));
        if (!mine)
            continue;
        for (size_t i = 0; i < nsep; i++)
            sum[i] += ex->mtt[i];
        if (st == MOAO_OK)
            st = psf_compute_all(ps, sum, ex->fit, scalars, images);
        scalars += ns;
        if (images != NULL)
            images += np;
    }
    return st;
}

/* Number of targets that a rank owns in a chunk, and their numbers from the chunk's first, in
 * order. */
static int owned_targets(const rowteam *t, const rowchunk *ch, int rank, int *list) {
    int t0, nt, n = 0;
    rows_share(ch->count, t->ngroup, rank / t->group_size, &t0, &nt);
    for (int k = 0; k < nt; k++)
        if (owns(k, t->group_size, rank % t->group_size))
            list[n++] = t0 + k;
    return n;
}

/* Bring the results of every rank to rank 0, in the order of the targets. `own` has this rank's. */
static void gather_results(const rowteam *t, const rowchunk *ch, const double *scalars,
                           const float *images, int *list, double *take, float *take_images,
                           result_block *b) {
    const size_t ns = (size_t)b->nlambda * (3 + (size_t)b->nbox);
    const size_t one = (size_t)b->crop * (size_t)b->crop, np = (size_t)b->nlambda * one;
    const int rank = t->c->rank;
    if (rank != 0) {
        int n = owned_targets(t, ch, rank, list);
        MPI_Send(scalars, n * (int)ns, MPI_DOUBLE, 0, 0, t->c->mpi);
        for (int i = 0; i < n * b->nlambda && images != NULL; i++) /* an int counts one of them */
            MPI_Send(images + (size_t)i * one, (int)one, MPI_FLOAT, 0, 1, t->c->mpi);
        return;
    }
    for (int r = 0; r < t->c->size; r++) {
        int n = owned_targets(t, ch, r, list);
        const double *from = r == 0 ? scalars : take;
        if (r > 0)
            MPI_Recv(take, n * (int)ns, MPI_DOUBLE, r, 0, t->c->mpi, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++) {
            memcpy(b->scalars + (size_t)list[i] * ns, from + (size_t)i * ns, ns * sizeof(double));
            if (images == NULL)
                continue;
            for (int l = 0; r > 0 && l < b->nlambda; l++)
                MPI_Recv(take_images + (size_t)l * one, (int)one, MPI_FLOAT, r, 1, t->c->mpi,
                         MPI_STATUS_IGNORE);
            memcpy(b->images + (size_t)list[i] * np, r == 0 ? images + (size_t)i * np : take_images,
                   np * sizeof(float));
        }
    }
}

status obsseq_collect(const rowteam *t, const rowchunk *ch, const double *scalars,
                      const float *images, result_block *b) {
    const size_t ns = (size_t)b->nlambda * (3 + (size_t)b->nbox);
    const size_t np = (size_t)b->nlambda * (size_t)b->crop * (size_t)b->crop;
    double *take = NULL;
    float *take_images = NULL;
    int *list = NULL;
    status st;
    TRY(ALLOC(take, obsseq_most(t, ch) * ns, "results"));
    TRY(ALLOC(list, (size_t)ch->count, "targets of a rank"));
    TRY(ALLOC(take_images, np, "PSFs of a target"));
done:
    if ((st = comm_agree(t->c, st)) == MOAO_OK)
        ROWS_WAIT(t, STAGE_PSF, gather_results(t, ch, scalars, images, list, take, take_images, b));
    free(take);
    free(list);
    free(take_images);
    return st;
}

/* From Y of every target to results on rank 0. */
static status make_psfs(const rowteam *t, const rowchunk *ch, psf *ps, const obsexposure *ex,
                        const double *y, const points *pt, result_block *b) {
    const size_t ns = (size_t)b->nlambda * (3 + (size_t)b->nbox);
    const size_t np = (size_t)b->nlambda * (size_t)b->crop * (size_t)b->crop;
    const size_t own = obsseq_most(t, ch);
    double *sum = NULL, *scalars = NULL;
    float *images = NULL;
    double from = report_now();
    status st;
    TRY(ALLOC(sum, psf_sep_count(ps), "stationary average"));
    TRY(ALLOC(scalars, own * ns, "results"));
    if (b->crop > 0)
        TRY(ALLOC(images, own * np, "PSFs of a rank"));
done:
    if ((st = comm_agree(t->c, st)) == MOAO_OK)
        st = comm_agree(t->c, own_psfs(t, ch, ps, ex, y, pt, b, sum, scalars, images));
    if (st == MOAO_OK)
        st = obsseq_collect(t, ch, scalars, images, b);
    t->rep->wall[STAGE_PSF] += report_now() - from;
    free(sum);
    free(scalars);
    free(images);
    return st;
}

static status open_points(const rowteam *t, const rowchunk *ch, const psf *ps, points *pt) {
    status st;
    *pt = (points){0};
    pt->n = psf_points(ps, &pt->x, &pt->y);
    TRY(ALLOC(pt->panel, pt->n * t->width, "covariances of phase and slopes"));
    TRY(ALLOC(pt->ct, (size_t)ch->nmine * (size_t)ch->nlrow * pt->n, "covariances with the phase"));
done:
    return comm_agree(t->c, st);
}

status obsseq_run(const rowteam *t, const profile *p, const double *dplus, const rowchunk *ch,
                  psf *ps, obsexposure *ex, double *y, result_block *block) {
    matcov *mc = NULL;
    points pt = {0};
    double from = report_now();
    status st;
    TRY(matcov_init(t->c, t->s, p, &mc));
    TRY(open_points(t, ch, ps, &pt));
    TRY(common_part(t, p, mc, dplus, ps, ex));
    TRY(residual(t, mc, dplus, ch, &pt, y));
    t->rep->wall[STAGE_EXPOSURE] += report_now() - from;
    TRY(make_psfs(t, ch, ps, ex, y, &pt, block));
done:
    free(pt.panel);
    free(pt.ct);
    matcov_free(mc);
    return st;
}
