#include "tor/tor.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* --- life */

/* Whether Y, where the sampled right-hand side lies during a solve, is kept of every target. */
static bool y_of_each(const factor_kind *f, const product_kind *x) {
    return f->together || x->together;
}

static status take_arrays(tor *t, bool inverse) {
    engine *e = &t->e;
    const linop_pair *pair = t->plan->pair;
    const int64_t nlrow = t->t.nlrow, n = t->nsample;
    const int64_t rows = pair->factor->collective ? tor_distinct(t, t->most) * nlrow + 1
                                                  : nlrow; /* one: for the truth term */
    const size_t most = (size_t)t->most;
    status st;
    TRY(ALLOC(t->w, most, "targets of a device"));
    TRY(ALLOC(t->y, most, "targets of a device"));
    TRY(ALLOC(t->own, most, "targets of a device"));
    TRY(ALLOC(t->beside, most, "targets of a device"));
    TRY(ALLOC(t->target, most, "targets of a device"));
    TRY(engine_open(e));
    if (!pair->factor->collective)
        TRY(engine_doubles(e, e->rows * e->t * e->ndir, "the command matrix", &t->lent));
    if (inverse) {
        TRY(engine_doubles(e, e->rows * e->width, "panels of D' Ctm", &t->q));
        if (t->raw)
            TRY(engine_doubles(e, e->rows * e->rows, "a residual covariance", &t->square));
        if (!pair->factor->collective)
            TRY(engine_doubles(e, e->rows * e->rows, "the inverse of the mirror", &t->lent_h));
    }
    if (!y_of_each(pair->factor, pair->product))
        TRY(engine_doubles(e, e->rows * e->rows, "a residual covariance", &t->one_y));
    TRY(engine_doubles(e, e->t * e->width, "panels of Ctm", &t->ctm));
    TRY(engine_doubles(e, rows * e->width, "panels of W T", &t->z));
    TRY(engine_doubles(e, e->m * n, "a sampled residual", &t->columns));
    for (int i = 0; i < 2; i++)
        TRY(e->be->alloc_host(e->ctx, (size_t)(nlrow * n) * sizeof(double), (void **)&t->host[i]));
done:
    return st;
}

/* The points that W is fitted to, on the device. */
static status take_points(tor *t, const command_matrix *proj) {
    engine *e = &t->e;
    const int64_t n = e->t;
    status st = MOAO_OK;
    if (!e->s->fit.phase)
        return st;
    TRY(engine_doubles(e, 2 * n, "points of the pupil", &t->points));
    TRY(engine_copy(e, t->points, proj->x, n));
    TRY(engine_copy(e, t->points + n, proj->y, n));
    e->x = t->points;
    e->y = t->points + n;
    st = engine_sync(e);
done:
    return st;
}

/* D' as a filter, its places on the device. */
static status send_filter(tor *t) {
    engine *e = &t->e;
    backend_filter *f = &t->filter;
    status st;
    TRY(matcov_interaction_filter(e->s, f));
    if (f->corners != e->rows || 2 * f->squares != e->t)
        TRY(status_fail(MOAO_INTERNAL, "a filter of a mirror for rows that are no commands"));
    const int64_t d = sizeof(int), squares = f->squares * d, corners = f->corners * d;
    TRY(engine_array(e, (size_t)(squares + corners), "places of actuators", (void **)&t->places));
    TRY(e->be->copy(e->ctx, t->places, squares, f->square, squares, squares, 1));
    TRY(e->be->copy(e->ctx, t->places + f->squares, corners, f->corner, corners, corners, 1));
    f->square = t->places;
    f->corner = t->places + f->squares;
done:
    return st;
}

/* P, and H with its filter, on the device, where they are not in reach already. */
static status send_projection(tor *t, const command_matrix *proj) {
    status st = MOAO_OK;
    t->proj = t->lent != NULL ? t->lent : proj->p;
    if (t->lent != NULL)
        TRY(engine_copy(&t->e, t->lent, proj->p, t->e.rows * t->e.t * t->e.ndir));
    t->h = t->lent_h != NULL ? t->lent_h : proj->inverse;
    if (t->lent_h != NULL)
        TRY(engine_copy(&t->e, t->lent_h, proj->inverse, t->e.rows * t->e.rows));
    if (t->h != NULL)
        TRY(send_filter(t));
    TRY(engine_sync(&t->e));
    TRY(t->e.mat->open_target(t->e.cov, &t->target[0]));
    t->ntarget = 1;
done:
    return st;
}

status tor_open(const comm *c, const sys *s, report *rep, const plan *p, const command_matrix *proj,
                engine_model *ready, tor *t) {
    const linop_pair *pair = p->pair;
    status st;
    *t = (tor){.e = {.c = c,
                     .s = s,
                     .rep = rep,
                     .be = p->be,
                     .collective = pair->factor->collective,
                     .m = (int64_t)s->m,
                     .t = (int64_t)sys_fit_rows(s),
                     .ndir = sys_fit_directions(s),
                     .rows = p->rows,
                     .width = (int64_t)p->width,
                     .one_target = (double)plan_device_bytes(p, 1)},
               .plan = p,
               .shared = sys_shares(s),
               .nsample = p->nsample < p->rows ? p->nsample : p->rows};
    t->nsample = (size_t)t->nsample < s->m ? t->nsample : (int)s->m;
    TRY(team_init(c, p->group_size, p->rows, p->width, &t->t));
    t->most = p->most;
    t->raw = p->raw && proj->inverse != NULL && p->group_size == 1 &&
             !pair->product->own_products && !pair->product->own_w;
    TRY(comm_agree(c, take_arrays(t, proj->inverse != NULL)));
    TRY(comm_agree(c, take_points(t, proj)));
    report_phase("setup: executor, covariances");
    t->e.ready = ready;
    t->e.nready = ready != NULL;
    st = engine_load(&t->e, p->largest);
    t->e.ready = NULL;
    t->e.nready = 0;
    TRY(comm_agree(c, st));
    report_phase("setup: executor, factor");
    TRY(comm_agree(c, send_projection(t, proj)));
    if (s->fit.split.on && p->rows == sys_commands(s))
        TRY(comm_agree(c, split_open(s, proj, p->width, &t->split)));
    if (sys_low_follows(s) && proj->modes != NULL)
        TRY(comm_agree(c, low_orders_open(&t->e, proj, p->group_size, &t->low)));
    st = linop_open(&t->e, p, t->proj, &t->op);
done:
    return st;
}

/* The room for n targets: W, Y where targets pass together, what the operator and the caller keep.
 */
static status take_room(tor *t, int n, int64_t beside) {
    const bool stacked = t->op->factor->collective, ys = y_of_each(t->op->factor, t->op->product);
    const int64_t w = linop_store(t->op, t->t.nlrow * t->e.m),
                  y = ys ? engine_aligned(t->t.nlrow * t->t.nrow) : 0;
    const int64_t own = engine_aligned(linop_own(t->op));
    const int64_t rest = y + own + (t->shared ? 0 : engine_aligned(beside));
    const int64_t each = (stacked ? w : engine_aligned(w)) + rest;
    const int some = tor_distinct(t, n);
    const int64_t least = linop_room(t->op, some), ground = linop_ground(t->op);
    const int64_t apart = t->shared ? n * engine_aligned(beside) : 0, /* behind what is shared */
        all = ground + engine_aligned(some * each) + apart;
    t->nroom = all > least ? all : least;
    status st = engine_doubles(&t->e, t->nroom, "W of the targets", &t->room);
    for (int k = 0; k < n && st == MOAO_OK; k++) {
        const int slot = t->shared ? 0 : k;
        t->w[k] = t->room + ground + (stacked ? slot * t->t.nlrow : slot * each);
        double *after = stacked ? t->room + some * w + slot * rest : t->w[k] + engine_aligned(w);
        t->y[k] = ys ? after : t->one_y;
        t->own[k] = after + y;
        t->beside[k] =
            t->shared ? t->room + all - apart + k * engine_aligned(beside) : after + y + own;
    }
    t->nw = st == MOAO_OK ? n : 0;
    return st;
}

/* For as many targets as a rank gets of a chunk; of fewer where memory ends, but for room that the
 * libraries may still want. */
static status take_targets(tor *t, int64_t beside) {
    int n = t->most;
    status st;
    while ((st = take_room(t, n, beside)) == MOAO_MEMORY && n > 1) {
        status_clear();
        n--;
    }
    if (st == MOAO_OK && n > 1 && n < t->most && !t->op->together) {
        t->e.be->release(t->e.ctx, t->room);
        t->room = NULL;
        st = take_room(t, n - 1, beside);
    }
    for (; st == MOAO_OK && t->op->together && t->ntarget < t->nw; t->ntarget += st == MOAO_OK)
        st = t->e.mat->open_target(t->e.cov, &t->target[t->ntarget]);
    return st == MOAO_OK ? linop_set_workspace(t->op, tor_distinct(t, t->nw), t->room) : st;
}

/* Rate of gemm on the device, of P'P into the memory of W, of as many columns as it holds. */
static status measure(tor *t) {
    const engine *e = &t->e;
    const int64_t most = (int64_t)sqrt((double)t->nroom), n = e->t < most ? e->t : most;
    double best = 0;
    status st = MOAO_OK;
    for (int k = 0; k < 4 && st == MOAO_OK && !e->collective; k++) {
        double from = report_now();
        st = engine_gemm(&t->e, 'T', 'N', n, n, e->rows, 1.0, t->proj, e->rows, t->proj, e->rows,
                         0.0, t->room, n);
        if (st == MOAO_OK)
            st = engine_sync(&t->e);
        double rate = 2.0 * (double)n * (double)n * (double)e->rows / (report_now() - from);
        best = k > 0 && rate > best ? rate : best; /* the first one sets up */
    }
    if (best > 0)
        e->rep->dgemm = best;
    return st;
}

status tor_take(tor *t, int64_t beside, int *chunk) {
    const comm *c = t->e.c;
    status st = take_targets(t, beside);
    if (st == MOAO_OK)
        st = measure(t);
    if ((st = comm_agree(c, st)) != MOAO_OK)
        return st;
    int least;
    MPI_Allreduce(&t->nw, &least, 1, MPI_INT, MPI_MIN, c->mpi);
    *chunk = least < t->most ? least * t->t.ngroup : t->plan->chunk;
    return st;
}

void tor_close(tor *t) {
    const backend *be = t->e.be;
    if (t->e.ctx != NULL) {
        linop_close(t->op);
        low_orders_close(&t->e, &t->low);
        for (int k = 0; k < t->ntarget; k++)
            t->e.mat->close_target(t->target[k]);
        ENGINE_RELEASE(&t->e, t->lent, t->lent_h, t->points, t->places, t->one_y, t->ctm, t->q,
                       t->square, t->z, t->columns, t->room);
        for (int i = 0; i < 2; i++)
            be->release_host(t->e.ctx, t->host[i]);
    }
    split_close(&t->split);
    engine_close(&t->e);
    team_free(&t->t);
    free(t->w);
    free(t->y);
    free(t->own);
    free(t->beside);
    free(t->target);
    *t = (tor){0};
}

/* --- factor */

/* MOAO_NUMERIC: which sensor a leading minor of Cmm0 belongs to that is not positive, and what
 * helps. */
static status explain_minor(const sys *s, int minor) {
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

status tor_factor(tor *t, const profile *p) {
    int minor = 0;
    status st = engine_agree(&t->e, STAGE_FACTOR, linop_factor(t->op, p, &minor));
    if (st != MOAO_OK)
        return st;
    t->prof = p;
    minor = minor > 0 ? minor : INT_MAX; /* the first one that any rank found */
    MPI_Allreduce(MPI_IN_PLACE, &minor, 1, MPI_INT, MPI_MIN, t->e.c->mpi);
    engine_progress(&t->e);
    return minor < INT_MAX ? explain_minor(t->e.s, minor) : MOAO_OK;
}

/* --- solve */

/* Columns j .. j + n of C (target, or Ctt where that is NULL), or, where H is, of D'C: *c, with the
 * leading dimension *rows. Each rank of a group makes its share of the columns. */
static status make_columns(tor *t, backend_cov_target *target, int64_t j, int64_t n, stage stg,
                           const double **c, int64_t *rows) {
    engine *e = &t->e;
    const int64_t nt = e->t;
    const bool shared = target != NULL && t->t.group_size > 1;
    double *out = t->h != NULL ? t->q : t->ctm;
    int first = 0, some = (int)n;
    *rows = t->h != NULL ? e->rows : nt;
    *c = out;
    if (shared)
        rows_share((int)n, t->t.group_size, t->t.member, &first, &some);
    double *mine = t->ctm + first * nt;
    status st = target != NULL ? engine_fill_right(e, target, BACKEND_D, j + first, some, mine)
                               : e->mat->fill_ctt(e->cov, BACKEND_D, 'A',
                                                  (matcov_region){0, nt, j, n}, mine, nt);
    if (st == MOAO_OK && t->h != NULL)
        st = e->be->sparse->filter(e->ctx, BACKEND_D, &t->filter, some, 1.0, mine, nt, 0.0,
                                   out + first * *rows, *rows);
    if (!shared)
        return st;
    TIMED_WAIT(e->rep, stg, st = team_agree(&t->t, st));
    if (st == MOAO_OK)
        TIMED_WAIT(e->rep, stg, team_gather(&t->t, (size_t)*rows, (size_t)n, out));
    return st;
}

/* tor_project with the columns of P of direction d. */
static status project(tor *t, backend_cov_target *target, int d, int64_t i0, int64_t ni, int64_t j,
                      int64_t n, double alpha, double beta, double *out, int64_t ldo, stage stg) {
    const double *c, *left = t->h != NULL ? t->h : t->proj + d * t->e.rows * t->e.t;
    int64_t rows;
    status st = make_columns(t, target, j, n, stg, &c, &rows);
    return st != MOAO_OK || ni == 0 ? st
                                    : engine_gemm(&t->e, 'N', 'N', ni, n, rows, alpha, left + i0,
                                                  t->e.rows, c, rows, beta, out, ldo);
}

status tor_project(tor *t, backend_cov_target *target, int64_t i0, int64_t ni, int64_t j, int64_t n,
                   double alpha, double beta, double *out, int64_t ldo, stage stg) {
    return project(t, target, 0, i0, ni, j, n, alpha, beta, out, ldo, stg);
}

double tor_project_flops(const tor *t, int64_t ni, int64_t n) {
    return 2.0 * (double)(ni * n) * (double)(t->h != NULL ? t->e.rows : t->e.t);
}

wrows tor_w(const tor *t, linop *op, int k) {
    if (op->product->exact_rows != NULL)
        return op->product->exact_rows(op->x, k);
    return (wrows){.slot = t->shared ? 0 : k, .rows = t->t.nlrow, .ld = t->ld, .w = t->w[k]};
}

wrows tor_rows(const tor *t, linop *op, int k, int *n) {
    wrows w = tor_w(t, op, k);
    *n = t->op->factor->collective ? tor_distinct(t, t->ch.nmine) : 1;
    w.rows *= *n;
    return w;
}

status tor_w_columns(tor *t, linop *op, int k, int64_t j, int64_t *cols, const double **w,
                     int64_t *ld) {
    const wrows rows = tor_w(t, op, k);
    engine *e = &t->e;
    const bool made = op->product->own_w || t->raw;
    const int64_t n = made && *cols > e->width ? e->width : *cols;
    *cols = n;
    *ld = rows.ld;
    *w = made ? t->z : rows.w + j * rows.ld;
    if (!t->raw)
        return made ? op->product->get(op->x, &rows, j, n, t->z) : MOAO_OK;
    *ld = e->rows;
    e->rep->flops[STAGE_EXPOSURE] += 2.0 * (double)(e->rows * n) * (double)e->rows;
    return engine_gemm(e, 'N', 'N', e->rows, n, e->rows, 1.0, t->h, e->rows, rows.w + j * rows.ld,
                       rows.ld, 0.0, t->z, e->rows);
}

status tor_w_transposed(tor *t, linop *op, int k, const double *x, double *q) {
    engine *e = &t->e;
    const int64_t m = e->m, nlrow = t->t.nlrow;
    status st = MOAO_OK;
    if (t->raw) { /* (H V)' x = V' (H' x) */
        const wrows v = tor_w(t, op, k);
        TRY(engine_gemm(e, 'T', 'N', nlrow, 1, nlrow, 1.0, t->h, nlrow, x, nlrow, 0.0, t->z,
                        nlrow));
        return engine_gemm(e, 'T', 'N', m, 1, nlrow, 1.0, v.w, v.ld, t->z, nlrow, 0.0, q, m);
    }
    for (int64_t j = 0, n; j < m; j += n) {
        const double *w;
        int64_t ld;
        n = m - j;
        TRY(tor_w_columns(t, op, k, j, &n, &w, &ld));
        TRY(engine_gemm(e, 'T', 'N', n, 1, nlrow, 1.0, w, ld, x + t->t.row0, nlrow, 0.0, q + j, n));
    }
done:
    return st;
}

status tor_raw_project(tor *t, backend_cov_target *target, int64_t j, int64_t n, double alpha,
                       double beta, double *out, int64_t ldo) {
    engine *e = &t->e;
    const status st =
        e->mat->fill_ctm(target, BACKEND_D, (matcov_region){0, e->t, j, n}, t->ctm, e->t);
    return st != MOAO_OK ? st
                         : e->be->sparse->filter(e->ctx, BACKEND_D, &t->filter, n, alpha, t->ctm,
                                                 e->t, beta, out, ldo);
}

status tor_raw_end(tor *t, double *y) {
    engine *e = &t->e;
    const int64_t v = e->rows;
    status st;
    TRY(engine_gemm(e, 'N', 'N', v, v, v, 1.0, t->h, v, y, v, 0.0, t->square, v));
    TRY(engine_gemm(e, 'N', 'T', v, v, v, 1.0, t->square, v, t->h, v, 0.0, y, v));
    e->rep->flops[STAGE_EXPOSURE] += 4.0 * (double)(v * v) * (double)v;
done:
    return st;
}

/* P Ctm0 of direction d, columns j0 .. end of w, added to what is there or not: both axes of
 * subapertures at once, of which one evaluation gives the covariances. */
static status project_pairs(tor *t, backend_cov_target *target, int d, int64_t j0, int64_t end,
                            bool added, double *w) {
    engine *e = &t->e;
    const double *left = t->h != NULL ? t->h : t->proj + d * e->rows * e->t;
    const int64_t rows = t->h != NULL ? e->rows : e->t;
    status st = MOAO_OK;
    for (slope_pairs p = {0}; slope_pairs_next(e->s, j0, end - j0, e->width / 2, &p);) {
        TRY(engine_fill_right_both(e, target, p.slopes, t->ctm));
        if (t->h != NULL)
            TRY(e->be->sparse->filter(e->ctx, BACKEND_D, &t->filter, 2 * p.n, 1.0, t->ctm, e->t,
                                      0.0, t->q, rows));
        for (int axis = 0; axis < 2; axis++)
            TRY(engine_gemm(e, 'N', 'N', e->rows, p.n, rows, 1.0, left, e->rows,
                            (t->h != NULL ? t->q : t->ctm) + axis * p.n * rows, rows, added,
                            w + p.column[axis] * t->ld, t->ld));
    }
done:
    return st;
}

/* Measurement of the k-th sampled column. */
static int64_t sampled(const tor *t, int k) {
    return (int64_t)((double)t->e.m * (k + 0.5) / t->nsample);
}

/* Columns to which direction d of the right-hand side contributes: where the two mirrors of a split
 * system have different delays, those as old as its own. Whether to what is there. */
static bool right_columns(const tor *t, int d, int64_t *j0, int64_t *end) {
    const split_control *c = &t->e.s->fit.split;
    const bool own = c->on && d == t->e.s->fit.ndir, several = c->copies > 0;
    const int64_t n = (int64_t)sys_slopes(t->e.s);
    *j0 = several && !own ? n : 0;
    *end = !several ? t->e.m : own ? n : 2 * n;
    return d > 0 && !(several && own);
}

/* Aims at direction d of the right-hand side of the k-th target; the last one of a split system is
 * the target's. */
static status aim_right(const tor *t, int k, int d) {
    const engine *e = &t->e;
    return e->s->fit.split.on && d == e->s->fit.ndir
               ? e->mat->aim(tor_target(t, k), tor_direction(t, k), false)
               : engine_aim_right(e, tor_target(t, k), d);
}

/* P Ctm0 of the k-th target where its W is solved for, and its sampled columns in the place of Y.
 */
static status right_side(tor *t, int k) {
    engine *e = &t->e;
    double *w = linop_solve_in(t->op, t->w[k]);
    const int64_t m = e->m, nlrow = t->t.nlrow;
    status st;
    report_phase("solve: D+ Ctm");
    st = e->mat->aim(tor_target(t, k), tor_direction(t, k), false);
    TRY(team_agree(&t->t, st));
    if (t->op->factor->split) {
        const product_kind *x = t->op->product;
        TRY(x->right(t->op->x, tor_target(t, k)));
        for (int i = 0; i < t->nsample; i++)
            TRY(x->right_column(t->op->x, sampled(t, i), t->y[k] + i * nlrow));
        return st;
    }
    for (int64_t j = 0; j < m && t->raw; j += e->width)
        TRY(tor_raw_project(t, tor_target(t, k), j, engine_width(e, j, m), 1.0, 0.0, w + j * t->ld,
                            t->ld));
    if (e->s->fit.split.copies > 2) { /* no direction has columns there */
        const int64_t j0 = 2 * (int64_t)sys_slopes(e->s);
        TRY(team_agree(&t->t, engine_zero(e, BACKEND_D, nlrow, m - j0, w + j0 * t->ld, t->ld)));
    }
    for (int d = 0; d < e->ndir && !t->raw; d++) {
        int64_t j0, end;
        const bool added = right_columns(t, d, &j0, &end);
        TRY(team_agree(&t->t, aim_right(t, k, d)));
        if (t->t.group_size == 1 && e->width > 1) { /* room for a column of each axis */
            TRY(project_pairs(t, tor_target(t, k), d, j0, end, added, w));
            continue;
        }
        for (int64_t j = j0; j < end; j += e->width)
            TRY(project(t, tor_target(t, k), d, t->t.row0, nlrow, j, engine_width(e, j, end), 1.0,
                        added, w + j * t->ld, t->ld, STAGE_SOLVE));
    }
    for (int i = 0; i < t->nsample; i++)
        TRY(engine_copy(e, t->y[k] + i * nlrow, w + sampled(t, i) * t->ld, nlrow));
    e->rep->flops[STAGE_SOLVE] += t->raw ? 0 : e->ndir * tor_project_flops(t, nlrow, m);
done:
    return st;
}

/* Sampled columns, as commands where they are raw, to the host. */
static status fetch_sample(tor *t, const double *sample, double *host) {
    engine *e = &t->e;
    const int64_t nlrow = t->t.nlrow, n = t->nsample;
    status st = MOAO_OK;
    if (t->raw)
        TRY(engine_gemm(e, 'N', 'N', nlrow, n, nlrow, 1.0, t->h, nlrow, sample, nlrow, 0.0,
                        t->square, nlrow));
    st = engine_copy(e, host, t->raw ? t->square : sample, nlrow * n);
done:
    return st;
}

/* Columns of W, or of V where that is kept. */
static status kept_columns(tor *t, int k, int64_t j, int64_t *n, const double **w, int64_t *ld) {
    if (!t->raw)
        return tor_w_columns(t, t->op, k, j, n, w, ld);
    *n = *n < t->e.width ? *n : t->e.width;
    *w = t->w[k] + j * t->ld;
    *ld = t->ld;
    return MOAO_OK;
}

/* Adds to sum[] the squares of the sampled residual and of its right-hand side. */
static status sample_residual(tor *t, int k, double sum[2]) {
    engine *e = &t->e;
    const int64_t nlrow = t->t.nlrow, n = t->nsample;
    double *sample = t->y[k];
    status st;
    report_phase("solve: sampled residual");
    TRY(fetch_sample(t, sample, t->host[0]));
    for (int64_t j = 0, some; j < e->m; j += some) {
        const double *w;
        int64_t ld;
        some = e->m - j;
        TRY(kept_columns(t, k, j, &some, &w, &ld));
        TRY(engine_gemm(e, 'N', 'N', nlrow, n, some, 1.0, w, ld, t->columns + j, e->m,
                        j > 0 ? 1.0 : -1.0, sample, nlrow > 0 ? nlrow : 1));
    }
    TRY(fetch_sample(t, sample, t->host[1]));
    TRY(engine_sync(e));
    for (int64_t i = 0; i < nlrow * n; i++) {
        sum[0] += t->host[1][i] * t->host[1][i];
        sum[1] += t->host[0][i] * t->host[0][i];
    }
done:
    return st;
}

/* W of n targets from the k0-th on. */
static status solve_pass(tor *t, int k0, int n, double sum[2]) {
    wrows *w = NULL;
    int blocks = 0;
    status st = team_agree(&t->t, ALLOC(w, (size_t)n, "rows of targets"));
    for (int k = k0; k < k0 + n && st == MOAO_OK; k++)
        st = right_side(t, k);
    TRY(engine_agree_now(&t->e, STAGE_SOLVE, st));
    for (int k = k0, some; k < k0 + n; k += some)
        w[blocks++] = tor_rows(t, t->op, k, &some);
    TRY(linop_solve(t->op, blocks, w, t->e.s->targets + t->ch.mine + k0, t->own + k0));
    for (int k = k0; k < k0 + n && t->t.nlrow > 0; k++) {
        if (!t->op->product->own_w) /* else solve does it */
            TRY(engine_flip(&t->e, "flip-w", t->w[k] + t->ld * (t->e.m / 2)));
        TRY(sample_residual(t, k, sum));
        engine_progress(&t->e);
    }
    for (int k = k0; k < k0 + n && t->split.of != NULL; k++)
        TRY(split_apply(&t->split, &t->t, &t->e, tor_direction(t, k), t->w[k], t->ld));
    for (int k = k0; k < k0 + n && t->low.s != NULL; k++)
        TRY(low_orders_apply(&t->low, &t->t, t->op, t->w[k], t->ld));
done:
    free(w);
    return st;
}

static status solve_mine(tor *t, double sum[2]) {
    engine *e = &t->e;
    const int all = tor_distinct(t, t->ch.nmine),
              pass = t->op->factor->together || t->op->together ? all : 1;
    status st;
    report_phase("solve: profile");
    TRY(engine_agree_now(e, STAGE_SOLVE, comm_fault(e->c, "solve")));
    TRY(engine_load(e, t->prof));
    for (int k = 0; k < t->nsample && st == MOAO_OK; k++)
        st = e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL,
                              (matcov_region){0, e->m, sampled(t, k), 1}, t->columns + k * e->m,
                              e->m);
    TRY(engine_agree_now(e, STAGE_SOLVE, st));
    if (e->collective)
        st = solve_pass(t, 0, pass, sum);
    for (int k = 0; k < all && !e->collective; k += pass)
        TRY(solve_pass(t, k, pass, sum));
done:
    return st;
}

static status solve_all(tor *t, double sum[2]) {
    return linop_solved(t->op, solve_mine(t, sum));
}

status tor_solve(tor *t, int first, int count, double *residual) {
    double sum[2] = {0, 0}, from = report_now();
    t->ch = team_chunk(&t->t, first, count);
    t->solved++;
    const int stacked = t->op->factor->collective ? tor_distinct(t, t->ch.nmine) : 1;
    t->ld = stacked * t->t.nlrow > 0 ? stacked * t->t.nlrow : 1;
    status st = engine_agree(&t->e, STAGE_SOLVE, solve_all(t, sum));
    if (st == MOAO_OK)
        MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_DOUBLE, MPI_SUM, t->e.c->mpi);
    *residual = t->nsample > 0 && sum[1] > 0 ? sqrt(sum[0] / sum[1]) : NAN;
    t->e.rep->wall[STAGE_SOLVE] += report_now() - from;
    return st;
}
