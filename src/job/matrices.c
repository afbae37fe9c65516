#include "job/matrices.h"

#include "base/progress.h"
#include "maps/maps.h"
#include "obsseq/residual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { /* what makes matrices of one target at a time, and where files go */
    run *r;
    report rep;    /* this work is apart from the run's */
    plan plan;     /* of this */
    tor t;         /* like that of the run */
    bool slopes;   /* rows are truth-sensor slopes (R, Cee), else DM commands (W, Cvv) */
    double *dev;   /* on the device: a panel of a covariance, or rows of P Ctt P' */
    double *whole; /* nrow x nrow: Y + P Ctt P'/2 of a target; or a matrix to be copied */
    enum { PART_CMM, PART_CTT, PART_CTM } part;
} writer;

static bool wants(const writer *w, const char *name) {
    return params_wants_matrix(w->r->u.par, name);
}

/* Fills a panel of columns of a matrix, on rank 0 at least. Collective or local. */
typedef status fill_fn(writer *w, size_t rows, size_t j0, size_t nj, double *a);

/* Collective. A file, panel by panel; rank 0 writes. */
static status write_matrix(writer *w, const char *name, const char *unit, const char *title,
                           size_t rows, size_t cols, fill_fn *fill) {
    const run *r = w->r;
    const size_t width = r->pl->width;
    matrix_file *f = NULL;
    double *panel = NULL;
    status st = ALLOC(panel, rows * width, "panel of a matrix");
    if (st == MOAO_OK && is_root(r)) {
        progress_step("matrix %s, %zu x %zu", name, rows, cols);
        st = maps_matrix_open(r->dir, name, unit, title, rows, cols, &f);
    }
    TRY(comm_agree(r->c, st));
    for (size_t j = 0, n; j < cols; j += n) {
        n = cols - j < width ? cols - j : width;
        status made = fill(w, rows, j, n, panel); /* collective: also after a failure */
        st = st == MOAO_OK ? made : st;
        if (f != NULL && st == MOAO_OK)
            st = maps_matrix_columns(f, j, n, panel, rows);
    }
done:
    if (f != NULL) {
        status closed = maps_matrix_close(f, st == MOAO_OK);
        st = st == MOAO_OK ? closed : st;
    }
    free(panel);
    return comm_agree(r->c, st);
}

/* From the device: ni x nj numbers into rows of a panel. */
static status fetch(writer *w, int64_t ni, size_t nj, const double *from, int64_t ld, double *a,
                    size_t lda) {
    engine *e = &w->t.e;
    const int64_t d = sizeof(double);
    status st = e->be->copy(e->ctx, a, (int64_t)lda * d, from, ld * d, ni * d, (int64_t)nj);
    return st == MOAO_OK ? engine_sync(e) : st;
}

/* Columns of a covariance, which rank 0 can make by itself; rows: m for Cmm, else t. */
static status fill_covariance(writer *w, size_t rows, size_t j0, size_t nj, double *a) {
    const engine *e = &w->t.e;
    const int64_t n = (int64_t)rows, j = (int64_t)j0, cols = (int64_t)nj;
    status st;
    if (!is_root(w->r))
        return MOAO_OK;
    st = w->part == PART_CMM ? e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL,
                                                (matcov_region){0, n, j, cols}, w->dev, n)
         : w->part == PART_CTT
             ? e->mat->fill_ctt(e->cov, BACKEND_D, 'A', (matcov_region){0, n, j, cols}, w->dev, n)
             : e->mat->fill_ctm(w->t.target[0], BACKEND_D, (matcov_region){0, n, j, cols}, w->dev,
                                n);
    return st == MOAO_OK ? fetch(w, n, nj, w->dev, n, a, rows) : st;
}

static status fill_copy(writer *w, size_t rows, size_t j0, size_t nj, double *a) {
    memcpy(a, w->whole + j0 * rows, rows * nj * sizeof *a);
    return MOAO_OK;
}

/* Y + Y' + P Ctt P'. */
static status fill_residual(writer *w, size_t rows, size_t j0, size_t nj, double *a) {
    for (size_t j = 0; j < nj; j++)
        for (size_t i = 0; i < rows; i++)
            a[i + j * rows] = w->whole[i + (j0 + j) * rows] + w->whole[(j0 + j) + i * rows];
    return MOAO_OK;
}

/* Rows of W from the ranks that have them. */
static status fill_w(writer *w, size_t rows, size_t j0, size_t nj, double *a) {
    const tor *t = &w->t;
    status st = MOAO_OK;
    memset(a, 0, rows * nj * sizeof *a);
    if (t->ch.nmine > 0)
        st = fetch(w, t->t.nlrow, nj, t->w[0] + (int64_t)j0 * t->ld, t->ld, a + t->t.row0, rows);
    comm_sum(t->e.c, a, rows * nj);
    return st;
}

/* Collective. Y + P Ctt P'/2 of the current target under the profile of exposure e, whole. */
static status make_residual(writer *w, int e) {
    tor *t = &w->t;
    linop *op = t->op->reference != NULL ? t->op->reference : t->op;
    const size_t n = (size_t)t->t.nrow, rows = (size_t)t->t.nlrow;
    const atmos *a = &w->r->u.a;
    const profile *p = atmos_profile_at(a, a->exposure_time[e]);
    double *mine = NULL;
    status st = ALLOC(mine, 2 * rows * n, "residual covariance of a target");
    TRY(comm_agree(t->e.c, st));
    st = engine_load(&t->e, p);
    if (st == MOAO_OK)
        st = linop_load(op, p);
    if (st == MOAO_OK && (t->ch.nmine > 0 || t->e.collective))
        st = residual_pass(t, NULL, op, 0, t->ch.nmine);
    TRY(comm_agree(t->e.c, st));
    memset(w->whole, 0, n * n * sizeof *w->whole);
    if (t->ch.nmine > 0) {
        st = residual_truth(t, w->dev);
        if (st == MOAO_OK)
            st = fetch(w, (int64_t)(rows * n), 1, t->y[0], (int64_t)(rows * n), mine, rows * n);
        if (st == MOAO_OK)
            st = fetch(w, (int64_t)(rows * n), 1, w->dev, (int64_t)(rows * n), mine + rows * n,
                       rows * n);
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < rows; i++)
                w->whole[(size_t)t->t.row0 + i + j * n] =
                    mine[i + j * rows] + 0.5 * mine[(n + j) * rows + i];
    }
    comm_sum(t->e.c, w->whole, n * n);
    st = comm_agree(t->e.c, st);
done:
    free(mine);
    return st;
}

/* Collective. W or R of a target, and Cvv or Cee of each exposure of ToR k. */
static status write_target(writer *w, int k, int target) {
    const setup *u = &w->r->u;
    const size_t nrow = (size_t)w->t.t.nrow;
    double residual;
    char name[64];
    status st;
    TRY(tor_solve(&w->t, target, 1, &residual));
    snprintf(name, sizeof name, "%s_tor%d_target%d", w->slopes ? "R" : "W", k, target);
    if (wants(w, w->slopes ? "R" : "W"))
        TRY(write_matrix(w, name, w->slopes ? "" : "m/arcsec",
                         w->slopes ? "R = Ctm0 Cmm0^-1, truth sensor x measurements"
                                   : "W = D+ Ctm0 Cmm0^-1, actuators x measurements",
                         nrow, u->s.m, fill_w));
    for (int e = 0; e < u->a.nexposure && wants(w, w->slopes ? "Cee" : "Cvv"); e++) {
        if (atmos_tor_of(&u->a, e) != k)
            continue;
        TRY(make_residual(w, e));
        snprintf(name, sizeof name, "%s_exp%d_target%d", w->slopes ? "Cee" : "Cvv", e, target);
        TRY(write_matrix(w, name, w->slopes ? "arcsec2" : "m2",
                         w->slopes ? "Cee, residual slopes of the truth sensor"
                                   : "Cvv = D+ Cee D+', residual DM commands",
                         nrow, nrow, fill_residual));
    }
done:
    return st;
}

/* Collective. Covariances of a reconstructor, or of an exposure. */
static status write_covariances(writer *w, int index, bool exposure) {
    const setup *u = &w->r->u;
    const engine *e = &w->t.e;
    const char *kind = exposure ? "exp" : "tor", *zero = exposure ? "" : "0";
    const profile *p = exposure ? atmos_profile_at(&u->a, u->a.exposure_time[index])
                                : atmos_tor_profile(&u->a, index);
    char name[64];
    status st;
    TRY(comm_agree(e->c, engine_load(&w->t.e, p)));
    w->part = PART_CMM;
    snprintf(name, sizeof name, "Cmm%s_%s%d", zero, kind, index);
    if (wants(w, "Cmm"))
        TRY(write_matrix(w, name, "arcsec2",
                         exposure ? "Cmm of the exposure, noise included"
                                  : "Cmm of the reconstructor, noise included",
                         u->s.m, u->s.m, fill_covariance));
    w->part = PART_CTT;
    snprintf(name, sizeof name, "Ctt_exp%d", index);
    if (exposure && wants(w, "Ctt"))
        TRY(write_matrix(w, name, "arcsec2", "Ctt, truth sensor with itself", u->s.t, u->s.t,
                         fill_covariance));
    w->part = PART_CTM;
    for (int k = 0; k < u->s.ntarget && wants(w, "Ctm"); k++) {
        snprintf(name, sizeof name, "Ctm%s_%s%d_target%d", zero, kind, index, k);
        TRY(comm_agree(e->c, e->mat->aim(w->t.target[0], u->s.targets[k], exposure)));
        TRY(write_matrix(w, name, "arcsec2", "Ctm, truth sensor x measurements", u->s.t, u->s.m,
                         fill_covariance));
    }
done:
    return st;
}

/* Collective. proj: nrow x t. */
static status try_open(writer *w, const double *proj, int nrow) {
    const run *r = w->r;
    const command_matrix of = run_command(r, proj);
    int one;
    status st;
    TRY(comm_agree(r->c, plan_exact(&r->req, &r->mach, r->pl, nrow, of.inverse != NULL, &w->plan)));
    TRY(tor_open(r->c, &r->u.s, &w->rep, &w->plan, &of, NULL, &w->t));
    TRY(tor_take(&w->t, 0, &one));
    const size_t panel = (r->u.s.m > r->u.s.t ? r->u.s.m : r->u.s.t) * w->plan.width;
    const size_t square = (size_t)w->t.t.nlrow * (size_t)nrow;
    st = engine_doubles(&w->t.e, (int64_t)(panel > square ? panel : square), "a matrix", &w->dev);
    st = comm_agree(r->c, st);
done:
    return st;
}

static void close_executor(writer *w) {
    if (w->t.e.ctx != NULL)
        w->t.e.be->release(w->t.e.ctx, w->dev);
    w->dev = NULL;
    tor_close(&w->t);
}

/* Collective. What has rows of one kind; covariances with those of commands. */
static status write_rows(run *r, bool slopes) {
    const setup *u = &r->u;
    const int nrow = slopes ? (int)u->s.t : sys_commands(&u->s);
    writer w = {.r = r, .slopes = slopes};
    double *identity = NULL;
    const bool rows = wants(&w, slopes ? "R" : "W") || wants(&w, slopes ? "Cee" : "Cvv");
    const bool all = wants(&w, "Cmm") || wants(&w, "Ctm") || wants(&w, "Ctt");
    if (!rows && (slopes || !all))
        return MOAO_OK;
    status st = ALLOC(w.whole, (size_t)nrow * (size_t)nrow, "residual covariance of a target");
    if (st == MOAO_OK && slopes)
        st = ALLOC(identity, u->s.t * u->s.t, "identity");
    TRY(comm_agree(r->c, st));
    for (size_t i = 0; slopes && i < u->s.t; i++)
        identity[i + i * u->s.t] = 1;
    if ((st = try_open(&w, slopes ? identity : r->dplus, nrow)) != MOAO_OK) {
        close_executor(&w);
        TRY(run_without_devices(r, st));
        TRY(try_open(&w, slopes ? identity : r->dplus, nrow));
    }
    for (int k = 0; k < u->a.ntor; k++) {
        if (rows)
            TRY(tor_factor(&w.t, atmos_tor_profile(&u->a, k)));
        for (int target = 0; target < u->s.ntarget && rows; target++)
            TRY(write_target(&w, k, target));
        if (!slopes && (wants(&w, "Cmm") || wants(&w, "Ctm")))
            TRY(write_covariances(&w, k, false));
    }
    for (int e = 0; e < u->a.nexposure && !slopes && all; e++)
        TRY(write_covariances(&w, e, true));
done:
    close_executor(&w);
    free(identity);
    free(w.whole);
    return st;
}

/* Collective. D and D+. */
static status write_command(run *r) {
    const sys *s = &r->u.s;
    writer w = {.r = r};
    double *d = NULL;
    status st = MOAO_OK;
    if (wants(&w, "D")) {
        st = ALLOC(d, s->t * (size_t)s->dm.nact, "interaction matrix");
        if (st == MOAO_OK)
            st = matcov_fill_interaction(s, d, s->t);
        w.whole = d;
        TRY(comm_agree(r->c, st));
        TRY(write_matrix(&w, "D", "arcsec/m", "D, interaction matrix, truth sensor x actuators",
                         s->t, (size_t)s->dm.nact, fill_copy));
    }
    w.whole = r->dplus;
    if (wants(&w, "Dplus"))
        TRY(write_matrix(&w, "Dplus", "m/arcsec", "D+, command matrix, actuators x truth sensor",
                         (size_t)s->dm.nact, s->t, fill_copy));
done:
    free(d);
    return st;
}

status matrices_write(run *r) {
    status st = MOAO_OK;
    if (r->u.par->output_matrices.n == 0)
        return st;
    TRY(write_command(r));
    TRY(write_rows(r, true));
    TRY(write_rows(r, false));
done:
    return st;
}
