#include "tor/rows.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

void rows_share(int count, int ngroup, int g, int *t0, int *nt) {
    *t0 = (int)((long)count * g / ngroup);
    *nt = (int)((long)count * (g + 1) / ngroup) - *t0;
}

void rows_slice(int nrow, int group_size, int i, int *r0, int *nr) {
    rows_share(nrow, group_size, i, r0, nr);
}

status rows_init(const comm *c, const sys *s, report *rep, int group_size, size_t width,
                 size_t panel_work, size_t ld_max, int nrow, rowteam *t) {
    memset(t, 0, sizeof *t);
    t->c = c;
    t->s = s;
    t->rep = rep;
    t->group_size = group_size;
    t->ngroup = c->size / group_size;
    t->mygroup = c->rank / group_size;
    t->member = c->rank % group_size;
    t->width = width;
    MPI_Comm_split(c->mpi, t->mygroup, t->member, &t->group);
    status st;
    TRY(ALLOC(t->count, 2 * (size_t)c->size, "columns per rank"));
    TRY(ALLOC(t->panel, panel_work, "panel of the covariance matrix"));
    TRY(ALLOC(t->ctm, s->t * width, "panel of Ctm"));
    TRY(ALLOC(t->z, ld_max * width, "panel of the stacked rows"));
    if (group_size > 1)
        TRY(ALLOC(t->piece, (size_t)nrow * width * 2, "rows of a group's target"));
done:
    return comm_agree(c, st);
}

void rows_free(rowteam *t) {
    free(t->panel);
    free(t->ctm);
    free(t->z);
    free(t->piece);
    free(t->count);
    if (t->c != NULL)
        MPI_Comm_free(&t->group);
    memset(t, 0, sizeof *t);
}

status rows_chunk_init(const rowteam *t, int nrow, int first, int count, rowchunk *ch) {
    memset(ch, 0, sizeof *ch);
    ch->first = first;
    ch->count = count;
    ch->nrow = nrow;
    rows_share(count, t->ngroup, t->mygroup, &ch->mine, &ch->nmine);
    ch->mine += first;
    rows_slice(nrow, t->group_size, t->member, &ch->row0, &ch->nlrow);
    ch->ld = (size_t)ch->nmine * (size_t)ch->nlrow;
    if (ch->ld == 0)
        ch->ld = 1;
    return comm_agree(t->c, ALLOC(ch->w, ch->ld * t->s->m, "rows of the reconstructors (W)"));
}

void rows_chunk_free(rowchunk *ch) {
    free(ch->w);
    memset(ch, 0, sizeof *ch);
}

/* Gather on all ranks of `mpi` the columns of a matrix of `rows` rows, of which rank r computed
 * columns [w r/n, w (r+1)/n), in place. */
static void gather_columns(const rowteam *t, MPI_Comm mpi, size_t rows, size_t w, double *a) {
    int n, *count = t->count;
    MPI_Comm_size(mpi, &n);
    if (n == 1)
        return;
    for (int r = 0, j0, nj; r < n; r++) {
        rows_share((int)w, n, r, &j0, &nj);
        count[r] = nj * (int)rows;
        count[n + r] = j0 * (int)rows;
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DOUBLE, a, count, count + n, MPI_DOUBLE, mpi);
}

void rows_gather(const rowteam *t, size_t rows, size_t w, double *a) {
    gather_columns(t, t->group, rows, w, a);
}

status rows_group_agree(const rowteam *t, status local) {
    if (t->group_size == 1)
        return local;
    int mine = (int)local, worst;
    MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, t->group);
    return (status)worst;
}

status rows_project_ctm(const rowteam *t, const rowchunk *ch, const matcov_target *mt,
                        const double *proj, size_t j0, size_t w, double alpha, double beta,
                        double *out, size_t ldo, stage stg) {
    const size_t nt = t->s->t;
    int c0, nc;
    rows_share((int)w, t->group_size, t->member, &c0, &nc);
    status st = matcov_fill_ctm(mt, j0 + (size_t)c0, (size_t)nc, t->ctm + (size_t)c0 * nt, nt);
    ROWS_WAIT(t, stg, st = rows_group_agree(t, st));
    if (st != MOAO_OK)
        return st;
    ROWS_WAIT(t, stg, gather_columns(t, t->group, nt, w, t->ctm));
    if (ch->nlrow == 0)
        return MOAO_OK;
    if (proj != NULL) {
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, ch->nlrow, (int)w, (int)nt, alpha,
                    proj + ch->row0, ch->nrow, t->ctm, (int)nt, beta, out, (int)ldo);
        t->rep->flops[stg] += 2.0 * ch->nlrow * (double)w * (double)nt;
        return MOAO_OK;
    }
    for (size_t j = 0; j < w; j++)
        for (int i = 0; i < ch->nlrow; i++) {
            double *o = out + (size_t)i + j * ldo,
                   x = alpha * t->ctm[(size_t)(ch->row0 + i) + j * nt];
            *o = beta == 0 ? x : x + beta * *o;
        }
    return MOAO_OK;
}

status rows_half_panel(const rowteam *t, const matcov *mc, size_t j0, size_t w, stage stg) {
    const size_t rows = t->s->m - j0;
    int c0, nc;
    rows_share((int)w, t->c->size, t->c->rank, &c0, &nc);
    status st = comm_fault(t->c, "exposure");
    if (st == MOAO_OK)
        st = matcov_fill_cmm(mc, j0, rows, j0 + (size_t)c0, (size_t)nc,
                             t->panel + (size_t)c0 * rows, rows);
    ROWS_WAIT(t, stg, st = comm_agree(t->c, st));
    if (st != MOAO_OK)
        return st;
    ROWS_WAIT(t, stg, gather_columns(t, t->c->mpi, rows, w, t->panel));
    for (size_t j = 0; j < w; j++)
        t->panel[j + j * rows] *= 0.5;
    if (comm_flips(t->c, "flip-t"))
        t->panel[rows / 2] = comm_flip(t->panel[rows / 2]);
    return st;
}

void rows_outer(const rowteam *t, const rowchunk *ch, int slot, size_t j0, size_t w,
                const double *z, size_t ldz, double *y, stage stg) {
    const double *mine = ch->w + (size_t)slot * (size_t)ch->nlrow + j0 * ch->ld;
    if (t->group_size == 1) {
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, ch->nlrow, ch->nrow, (int)w, 1.0, z,
                    (int)ldz, mine, (int)ch->ld, 1.0, y, ch->nlrow);
    } else {
        double *packed = t->piece + (size_t)ch->nrow * t->width;
        for (size_t j = 0; j < w; j++)
            memcpy(packed + j * (size_t)ch->nlrow, mine + j * ch->ld,
                   (size_t)ch->nlrow * sizeof(double));
        for (int i = 0; i < t->group_size; i++) { /* the rows of each member in turn */
            int r0, nr;
            rows_slice(ch->nrow, t->group_size, i, &r0, &nr);
            double *b = i == t->member ? packed : t->piece;
            ROWS_WAIT(t, stg, MPI_Bcast(b, nr * (int)w, MPI_DOUBLE, i, t->group));
            if (nr > 0 && ch->nlrow > 0)
                cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, ch->nlrow, nr, (int)w, 1.0, z,
                            (int)ldz, b, nr, 1.0, y + (size_t)r0 * (size_t)ch->nlrow, ch->nlrow);
        }
    }
    t->rep->flops[stg] += 2.0 * ch->nlrow * ch->nrow * (double)w;
}

void rows_progress(const rowteam *t) {
    double total = 0;
    for (int i = 0; i < STAGE_COUNT; i++)
        total += i == STAGE_SETUP ? 0 : t->rep->flops[i];
    if (t->c->rank == 0)
        progress_advance((total - t->rep->shown) * t->c->size);
    t->rep->shown = total;
}
