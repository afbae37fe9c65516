#include "job/matrices.h"

#include "base/progress.h"
#include "maps/maps.h"
#include "obsseq/obsseq.h"
#include "tor/tor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { /* one target's rows spread over all ranks, and where files go */
    rowteam team;
    const setup *u;
    const plan *pl;
    const double *dplus;
    const char *dir;
} writer;

/* A file whose columns come in panels; rank 0 writes. */
typedef struct {
    matrix_file *f; /* rank 0 */
    double *panel;  /* rank 0: rows x width */
    size_t rows, cols;
} stream;

static bool wants(const writer *w, const char *name) {
    return params_wants_matrix(&w->u->par, name);
}

static bool wants_any(const writer *w, const char *const *name) {
    for (; *name != NULL; name++)
        if (wants(w, *name))
            return true;
    return false;
}

static size_t panel_width(const writer *w, size_t j, size_t cols) {
    return cols - j < w->team.width ? cols - j : w->team.width;
}

static status stream_open(const writer *w, const char *name, const char *unit, const char *title,
                          size_t rows, size_t cols, stream *o) {
    memset(o, 0, sizeof *o);
    o->rows = rows;
    o->cols = cols;
    status st = MOAO_OK;
    if (w->team.c->rank == 0) {
        progress_step("matrix %s, %zu x %zu", name, rows, cols);
        st = ALLOC(o->panel, rows * w->team.width, "panel of a matrix");
        if (st == MOAO_OK)
            st = maps_matrix_open(w->dir, name, unit, title, rows, cols, &o->f);
    }
    return comm_agree(w->team.c, st);
}

/* Collective. Ends the file: whole when st is MOAO_OK, removed otherwise. */
static status stream_close(const writer *w, stream *o, status st) {
    if (o->f != NULL) {
        status closed = maps_matrix_close(o->f, st == MOAO_OK);
        st = st == MOAO_OK ? closed : st;
    }
    free(o->panel);
    memset(o, 0, sizeof *o);
    return comm_agree(w->team.c, st);
}

/* Fills a panel of columns on rank 0. */
typedef status fill_fn(const void *ctx, size_t rows, size_t j0, size_t nj, double *a);

static status fill_cmm(const void *mc, size_t rows, size_t j0, size_t nj, double *a) {
    return matcov_fill_cmm(mc, 0, rows, j0, nj, a, rows);
}

static status fill_ctt(const void *mc, size_t rows, size_t j0, size_t nj, double *a) {
    return matcov_fill_ctt(mc, 0, rows, j0, nj, a, rows);
}

static status fill_ctm(const void *mt, size_t rows, size_t j0, size_t nj, double *a) {
    return matcov_fill_ctm(mt, j0, nj, a, rows);
}

static status fill_copy(const void *whole, size_t rows, size_t j0, size_t nj, double *a) {
    memcpy(a, (const double *)whole + j0 * rows, rows * nj * sizeof *a);
    return MOAO_OK;
}

/* Collective. A matrix that rank 0 can make by itself, panel by panel. */
static status write_local(const writer *w, const char *name, const char *unit, const char *title,
                          size_t rows, size_t cols, fill_fn *fill, const void *ctx) {
    stream o;
    status st = stream_open(w, name, unit, title, rows, cols, &o);
    for (size_t j = 0; o.f != NULL && j < cols && st == MOAO_OK; j += w->team.width) {
        size_t nj = panel_width(w, j, cols);
        st = fill(ctx, rows, j, nj, o.panel);
        if (st == MOAO_OK)
            st = maps_matrix_columns(o.f, j, nj, o.panel, rows);
    }
    return stream_close(w, &o, st);
}

/* Collective. A matrix (nrow x cols) whose rows are spread over the ranks, this rank's slice in a.
 */
static status write_rows(const writer *w, const char *name, const char *unit, const char *title,
                         int nrow, size_t cols, const double *a, size_t lda) {
    const comm *c = w->team.c;
    stream o;
    status st = stream_open(w, name, unit, title, (size_t)nrow, cols, &o);
    if (st != MOAO_OK)
        return stream_close(w, &o, st);
    int r0, nr;
    for (size_t j = 0; j < cols; j += w->team.width) {
        size_t nj = panel_width(w, j, cols);
        for (int r = 0; r < c->size; r++) {
            rows_slice(nrow, c->size, r, &r0, &nr);
            if (r == c->rank)
                for (size_t k = 0; k < nj; k++)
                    memcpy(w->team.z + k * (size_t)nr, a + (j + k) * lda, (size_t)nr * sizeof *a);
            if (r == c->rank && r != 0)
                MPI_Send(w->team.z, nr * (int)nj, MPI_DOUBLE, 0, 0, c->mpi);
            if (c->rank == 0 && r != 0)
                MPI_Recv(w->team.z, nr * (int)nj, MPI_DOUBLE, r, 0, c->mpi, MPI_STATUS_IGNORE);
            for (size_t k = 0; c->rank == 0 && k < nj; k++)
                memcpy(o.panel + (size_t)r0 + k * (size_t)nrow, w->team.z + k * (size_t)nr,
                       (size_t)nr * sizeof *a);
        }
        if (c->rank == 0 && st == MOAO_OK)
            st = maps_matrix_columns(o.f, j, nj, o.panel, (size_t)nrow);
    }
    return stream_close(w, &o, st);
}

/* Collective. This rank's rows of P C P' = P Ctt P' + Y + Y' into y; P = D+ or the identity (proj
 * NULL). */
static status add_truth(const writer *w, const matcov *mc, const double *proj, int nrow,
                        double *y) {
    const comm *c = w->team.c;
    double *whole = NULL, *mine = NULL;
    int r0, nr;
    rows_slice(nrow, c->size, c->rank, &r0, &nr);
    const size_t n = (size_t)nrow, rows = (size_t)nr;
    status st = ALLOC(whole, n * n, "residual covariance of a target");
    if ((st = comm_agree(c, st)) != MOAO_OK)
        goto done;
    for (size_t j = 0; j < n; j++)
        memcpy(whole + (size_t)r0 + j * n, y + j * rows, rows * sizeof *y);
    comm_sum(c, whole, n * n);
    if (proj == NULL) {
        st = ALLOC(mine, (rows ? rows : 1) * n, "rows of Ctt");
        if (st == MOAO_OK)
            st = matcov_fill_ctt(mc, (size_t)r0, rows, 0, n, mine, rows ? rows : 1);
        st = comm_agree(c, st);
    } else {
        st = obsseq_truth(&w->team, mc, proj, nrow, &r0, &nr, &mine);
    }
    for (size_t j = 0; j < n && st == MOAO_OK; j++)
        for (size_t i = 0; i < rows; i++) {
            double transposed = whole[j + ((size_t)r0 + i) * n];
            y[i + j * rows] += transposed + mine[i + j * rows];
        }
done:
    free(whole);
    free(mine);
    return st;
}

/* Collective. W (proj = D+) or R (proj NULL) of a target, and Cvv or Cee of each exposure of ToR k.
 */
static status write_target(const writer *w, const tor *to, int k, int target, bool slopes) {
    const setup *u = w->u;
    const double *proj = slopes ? NULL : w->dplus;
    const int nrow = slopes ? (int)u->s.t : u->s.dm.nact;
    rowchunk ch = {0};
    double *y = NULL, residual;
    char name[64];
    status st;
    TRY(rows_chunk_init(&w->team, nrow, target, 1, &ch));
    TRY(comm_agree(w->team.c, ALLOC(y, obsseq_work(&ch) / sizeof *y, "residual covariance")));
    TRY(tor_solve(&w->team, to, proj, 0, &ch, &residual));
    snprintf(name, sizeof name, "%s_tor%d_target%d", slopes ? "R" : "W", k, target);
    if (wants(w, slopes ? "R" : "W"))
        TRY(write_rows(w, name, slopes ? "" : "m/arcsec",
                       slopes ? "R = Ctm0 Cmm0^-1, truth sensor x measurements"
                              : "W = D+ Ctm0 Cmm0^-1, actuators x measurements",
                       nrow, u->s.m, ch.w, ch.ld));
    for (int e = 0; e < u->a.nexposure && wants(w, slopes ? "Cee" : "Cvv"); e++) {
        if (atmos_tor_of(&u->a, e) != k)
            continue;
        matcov *mc = NULL;
        st = matcov_init(w->team.c, &u->s, atmos_profile_at(&u->a, u->a.exposure_time[e]), &mc);
        if (st == MOAO_OK)
            st = obsseq_residual(&w->team, mc, proj, &ch, y);
        if (st == MOAO_OK)
            st = add_truth(w, mc, proj, nrow, y);
        matcov_free(mc);
        snprintf(name, sizeof name, "%s_exp%d_target%d", slopes ? "Cee" : "Cvv", e, target);
        if (st == MOAO_OK)
            st = write_rows(w, name, slopes ? "arcsec2" : "m2",
                            slopes ? "Cee, residual slopes of the truth sensor"
                                   : "Cvv = D+ Cee D+', residual DM commands",
                            nrow, (size_t)nrow, y, (size_t)ch.nlrow);
        TRY(st);
    }
done:
    free(y);
    rows_chunk_free(&ch);
    return st;
}

/* Collective. Ctm of every target: of a reconstructor (shifted false), or of an exposure. */
static status write_ctm(const writer *w, const matcov *mc, const char *kind, int index,
                        bool shifted) {
    status st = MOAO_OK;
    for (int k = 0; k < w->u->s.ntarget && st == MOAO_OK; k++) {
        matcov_target *mt = NULL;
        char name[64];
        snprintf(name, sizeof name, "Ctm%s_%s%d_target%d", shifted ? "" : "0", kind, index, k);
        st = comm_agree(w->team.c, matcov_target_init(mc, w->u->s.targets[k], shifted, &mt));
        if (st == MOAO_OK)
            st = write_local(w, name, "arcsec2", "Ctm, truth sensor x measurements", w->u->s.t,
                             w->u->s.m, fill_ctm, mt);
        matcov_target_free(mt);
    }
    return st;
}

static status write_tor(const writer *w, int k) {
    const setup *u = w->u;
    const plan *p = w->pl;
    char name[64];
    tor to = {0};
    status st;
    TRY(tor_init(&w->team, atmos_profile_at(&u->a, u->a.tor_time[k]), p->block, p->nprow, p->npcol,
                 &to));
    snprintf(name, sizeof name, "Cmm0_tor%d", k);
    if (wants(w, "Cmm"))
        TRY(write_local(w, name, "arcsec2", "Cmm of the reconstructor, noise included", u->s.m,
                        u->s.m, fill_cmm, to.mc));
    if (wants(w, "Ctm"))
        TRY(write_ctm(w, to.mc, "tor", k, false));
    for (int target = 0; target < u->s.ntarget; target++) {
        if (wants(w, "R") || wants(w, "Cee"))
            TRY(write_target(w, &to, k, target, true));
        if (wants(w, "W") || wants(w, "Cvv"))
            TRY(write_target(w, &to, k, target, false));
    }
done:
    tor_free(&to);
    return st;
}

static status write_exposure(const writer *w, int e) {
    const setup *u = w->u;
    char name[64];
    matcov *mc = NULL;
    status st;
    TRY(matcov_init(w->team.c, &u->s, atmos_profile_at(&u->a, u->a.exposure_time[e]), &mc));
    snprintf(name, sizeof name, "Cmm_exp%d", e);
    if (wants(w, "Cmm"))
        TRY(write_local(w, name, "arcsec2", "Cmm of the exposure, noise included", u->s.m, u->s.m,
                        fill_cmm, mc));
    snprintf(name, sizeof name, "Ctt_exp%d", e);
    if (wants(w, "Ctt"))
        TRY(write_local(w, name, "arcsec2", "Ctt, truth sensor with itself", u->s.t, u->s.t,
                        fill_ctt, mc));
    if (wants(w, "Ctm"))
        TRY(write_ctm(w, mc, "exp", e, true));
done:
    matcov_free(mc);
    return st;
}

/* Collective. D and D+. */
static status write_command(const writer *w) {
    const sys *s = &w->u->s;
    double *d = NULL;
    status st = MOAO_OK;
    if (wants(w, "D")) {
        if (w->team.c->rank == 0)
            st = ALLOC(d, s->t * (size_t)s->dm.nact, "interaction matrix");
        if (st == MOAO_OK && d != NULL)
            st = matcov_fill_interaction(s, d, s->t);
        st = comm_agree(w->team.c, st);
        if (st == MOAO_OK)
            st = write_local(w, "D", "arcsec/m", "D, interaction matrix, truth sensor x actuators",
                             s->t, (size_t)s->dm.nact, fill_copy, d);
    }
    free(d);
    if (st == MOAO_OK && wants(w, "Dplus"))
        st = write_local(w, "Dplus", "m/arcsec", "D+, command matrix, actuators x truth sensor",
                         (size_t)s->dm.nact, s->t, fill_copy, w->dplus);
    return st;
}

status matrices_write(const rowteam *t, const setup *u, const plan *p, const double *dplus,
                      const char *dir) {
    writer w = {.u = u, .pl = p, .dplus = dplus, .dir = dir};
    if (u->par.output_matrices.n == 0)
        return MOAO_OK;
    const size_t most = u->s.t > (size_t)u->s.dm.nact ? u->s.t : (size_t)u->s.dm.nact;
    size_t work = bcmat_panel_work((int)u->s.m, p->block, p->nprow, p->npcol, p->width);
    work = work > u->s.m * p->width ? work : u->s.m * p->width;
    report rep = {0}; /* this work is apart from the run's */
    status st;
    TRY(rows_init(t->c, &u->s, &rep, t->c->size, p->width, work, most / (size_t)t->c->size + 1,
                  (int)most, &w.team));
    TRY(write_command(&w));
    static const char *const tor_names[] = {"Cmm", "Ctm", "R", "W", "Cee", "Cvv", NULL};
    for (int k = 0; k < u->a.ntor && wants_any(&w, tor_names); k++)
        TRY(write_tor(&w, k));
    static const char *const exposure_names[] = {"Cmm", "Ctt", "Ctm", NULL};
    for (int e = 0; e < u->a.nexposure && wants_any(&w, exposure_names); e++)
        TRY(write_exposure(&w, e));
done:
    rows_free(&w.team);
    return st;
}
