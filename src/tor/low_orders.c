#include "tor/low_orders.h"

#include "matcov/matcov.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda,
             double *b, const int *ldb, int *info);
void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivot, double *b,
            const int *ldb, int *info);

static bool is_cascade(const sys *s) {
    return s->low.control == LOW_CASCADE;
}

/* Whether panels of W are copied: where its rows are shared, and where what it is must stay. */
static bool has_panel(const sys *s, int group) {
    return group > 1 || is_cascade(s);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

size_t low_orders_bytes(const sys *s) {
    const size_t n = sys_low_slopes(s, NULL);
    if (!sys_low_follows(s))
        return 0;
    return (2 * larger(s->m, (size_t)sys_commands(s)) * n + n * n) * sizeof(double) +
           n * sizeof(size_t);
}

size_t low_orders_device_bytes(const sys *s, size_t width, int group) {
    const size_t v = (size_t)sys_commands(s), n = sys_low_slopes(s, NULL), m = s->m,
                 modes = (size_t)sys_low_modes(s);
    size_t count = 2 * v * modes + modes * modes + 2 * modes * larger(width, n) + n * m + 2 * v * n;
    if (!sys_low_follows(s))
        return 0;
    if (s->low.control != LOW_SPLIT)
        count += m * n;
    if (is_cascade(s))
        count += n * m + n * v + m * width;
    if (has_panel(s, group))
        count += v * width;
    return count * sizeof(double);
}

/* To the device. */
static status send(const low_orders *x, double *to, const double *from, int64_t count) {
    status st = engine_copy(x->e, to, from, count);
    return st == MOAO_OK ? engine_sync(x->e) : st;
}

/* (Z'MZ)^-1. */
static status invert_modes(low_orders *x, const command_matrix *of) {
    const int k = x->modes;
    double normal[LOW_MOST * LOW_MOST], inverse[LOW_MOST * LOW_MOST] = {0};
    int pivot[LOW_MOST], info = 0;
    cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, k, k, x->v, 1, of->modes, x->v, of->shapes,
                x->v, 0, normal, k);
    for (int i = 0; i < k; i++)
        inverse[i + i * k] = 1;
    dgesv_(&k, &k, normal, &k, pivot, inverse, &k, &info);
    return info == 0 ? send(x, x->inverse, inverse, (int64_t)k * k)
                     : status_fail(MOAO_NUMERIC,
                                   "loop.low.modes: the mirrors cannot make these low orders; "
                                   "expected fewer of them");
}

/* Slopes of N that a unit command of each actuator makes. */
static status fill_slopes(low_orders *x) {
    const sys *s = x->s;
    const matcov_placement place = {.scale = 1};
    const dmirror *own = s->fit.nmirror > 0 ? s->fit.mirrors : &s->dm;
    double *all = NULL, *slopes = x->host[0];
    status st = MOAO_OK;
    for (int i = 0; i < s->fit.nmirror || i == 0; i++) {
        const dmirror *dm = &own[i];
        free(all);
        TRY(ALLOC(all, s->m * (size_t)dm->nact, "slopes of a mirror"));
        TRY(matcov_fill_mirror(s, dm, &place, all, s->m));
        for (int a = 0; a < dm->nact; a++)
            for (int k = 0; k < x->n; k++)
                slopes[k + (size_t)(dm->first + a) * (size_t)x->n] =
                    all[x->low[k] + (size_t)a * s->m];
    }
    st = send(x, x->slopes, slopes, (int64_t)x->n * x->v);
done:
    free(all);
    return st;
}

static status take_arrays(low_orders *x, int group) {
    const sys *s = x->s;
    const int64_t m = (int64_t)s->m, n = x->n, v = x->v, modes = x->modes, width = x->width,
                  most = width > n ? width : n;
    const bool cascade = is_cascade(s);
    const struct {
        double **to;
        int64_t count;
    } all[] = {{&x->z, v * modes},
               {&x->q, v * modes},
               {&x->inverse, modes * modes},
               {&x->part[0], modes * most},
               {&x->part[1], modes * most},
               {&x->rows, n * m},
               {&x->k, cascade ? n * m : 0},
               {&x->slopes, cascade ? n * v : 0},
               {&x->cross, s->low.control == LOW_SPLIT ? 0 : m * n},
               {&x->cov, cascade ? m * width : 0},
               {&x->w_low, v * n},
               {&x->x, v * n},
               {&x->panel, has_panel(s, group) ? v * width : 0}};
    status st = MOAO_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].count > 0)
            TRY(engine_doubles(x->e, all[i].count, "low orders", all[i].to));
done:
    return st;
}

status low_orders_open(engine *e, const command_matrix *of, int group, low_orders *x) {
    const sys *s = e->s;
    status st;
    *x = (low_orders){.s = s,
                      .e = e,
                      .n = (int)sys_low_slopes(s, NULL),
                      .v = sys_commands(s),
                      .modes = sys_low_modes(s),
                      .width = e->width};
    const size_t n = (size_t)x->n, v = (size_t)x->v;
    for (int i = 0; i < 2; i++)
        TRY(ALLOC(x->host[i], larger(s->m, v) * n, "low orders"));
    TRY(ALLOC(x->schur, n * n, "low orders"));
    TRY(ALLOC(x->low, n, "low orders"));
    TRY(take_arrays(x, group));
    sys_low_slopes(s, x->low);
    TRY(send(x, x->z, of->modes, (int64_t)x->v * x->modes));
    TRY(send(x, x->q, of->shapes, (int64_t)x->v * x->modes));
    TRY(invert_modes(x, of));
    if (x->slopes != NULL)
        st = fill_slopes(x);
done:
    return st;
}

void low_orders_close(const engine *e, low_orders *x) {
    ENGINE_RELEASE(e, x->z, x->q, x->inverse, x->part[0], x->part[1], x->rows, x->k, x->slopes,
                   x->cross, x->cov, x->w_low, x->x, x->panel);
    for (int i = 0; i < 2; i++)
        free(x->host[i]);
    free(x->low);
    free(x->schur);
    *x = (low_orders){0};
}

/* Columns between arrays of the device. */
static status copy_columns(const low_orders *x, double *to, int64_t ldt, const double *from,
                           int64_t ldf, int64_t rows, int64_t n) {
    const int64_t d = sizeof(double);
    return rows > 0 && n > 0 ? x->e->be->copy(x->e->ctx, to, d * ldt, from, d * ldf, d * rows, n)
                             : MOAO_OK;
}

/* Columns j .. j + n of all rows of W, to be changed: in their place, or where `copied` or their
 * rows are shared in the panel. */
static status get_rows(const low_orders *x, const team *t, double *w, int64_t ld, int64_t j,
                       int64_t n, bool copied, double **panel, int64_t *ldp) {
    *panel = x->panel;
    *ldp = x->v;
    if (t->group_size > 1) {
        team_rows(t, (size_t)n, w + j * ld, ld, x->panel);
        return MOAO_OK;
    }
    if (copied)
        return copy_columns(x, x->panel, x->v, w + j * ld, ld, x->v, n);
    *panel = w + j * ld;
    *ldp = ld;
    return MOAO_OK;
}

/* a (v x n) := T a, or a - T a. */
static status project(const low_orders *x, int64_t n, bool rest, double *a, int64_t lda) {
    engine *e = x->e;
    const int64_t v = x->v, modes = x->modes;
    status st;
    TRY(engine_gemm(e, 'T', 'N', modes, n, v, 1, x->q, v, a, lda, 0, x->part[0], modes));
    TRY(engine_gemm(e, 'N', 'N', modes, n, modes, 1, x->inverse, modes, x->part[0], modes, 0,
                    x->part[1], modes));
    st = engine_gemm(e, 'N', 'N', v, n, modes, rest ? -1 : 1, x->z, v, x->part[1], modes,
                     rest ? 1 : 0, a, lda);
done:
    return st;
}

/* b := a^-1 b, a (n x n) symmetric and positive definite, which goes; b: n x cols. */
static status solve_low(int n, double *a, int64_t cols, double *b) {
    const int some = (int)cols;
    int info = 0;
    dpotrf_("L", &n, a, &n, &info);
    if (info == 0)
        dpotrs_("L", &n, &some, a, &n, b, &n, &info);
    return info == 0 ? MOAO_OK
                     : status_fail(MOAO_NUMERIC,
                                   "loop.low: covariances of the slopes of stars for low orders "
                                   "are not positive definite (minor %d of %d); give them more "
                                   "noise, and check that no two are the same",
                                   info, n);
}

/* rows := -P_NN^-1 P_N of P = Cmm0^-1: G in the columns of L. */
static status find_g(low_orders *x, const linop *o) {
    const int64_t m = (int64_t)x->s->m, n = x->n;
    const wrows in = {.rows = n, .ld = n, .w = x->rows};
    double *rows = x->host[0];
    status st;
    memset(rows, 0, (size_t)(n * m) * sizeof *rows);
    for (int64_t k = 0; k < n; k++)
        rows[k + (int64_t)x->low[k] * n] = 1;
    TRY(send(x, x->rows, rows, n * m));
    TRY(o->factor->solve(o->f, 1, &in));
    TRY(send(x, rows, x->rows, n * m));
    for (int64_t k = 0; k < n; k++)
        memcpy(x->schur + k * n, rows + (int64_t)x->low[k] * n, (size_t)n * sizeof *rows);
    TRY(solve_low((int)n, x->schur, m, rows));
    for (int64_t i = 0; i < n * m; i++)
        rows[i] = -rows[i];
    st = send(x, x->rows, rows, n * m);
done:
    return st;
}

/* The panel of columns j .. j + n of W: R in those of L, what of N does not matter. */
static status find_r(const low_orders *x, int64_t j, int64_t n, double *panel, int64_t ld) {
    status st = engine_gemm(x->e, 'N', 'N', x->v, n, x->n, 1, x->w_low, x->v, x->rows + j * x->n,
                            x->n, 1, panel, ld);
    return st == MOAO_OK && x->s->low.control != LOW_SPLIT ? project(x, n, true, panel, ld) : st;
}

/* K = D_N R of a cascade, 0 in the columns of N. */
static status find_k(const low_orders *x, const team *t, double *w, int64_t ld) {
    engine *e = x->e;
    const int64_t m = (int64_t)x->s->m, n = x->n;
    status st = MOAO_OK;
    for (int64_t j = 0, some; j < m; j += some) {
        double *panel;
        int64_t ldp;
        some = engine_width(e, j, m);
        TRY(get_rows(x, t, w, ld, j, some, true, &panel, &ldp));
        TRY(find_r(x, j, some, panel, ldp));
        TRY(engine_gemm(e, 'N', 'N', n, some, x->v, 1, x->slopes, n, panel, ldp, 0, x->k + j * n,
                        n));
    }
    for (int64_t i = 0; i < n; i++)
        TRY(engine_zero(e, BACKEND_D, n, 1, x->k + (int64_t)x->low[i] * n, n));
done:
    return st;
}

/* C J' from the columns of N and, of a cascade, K. */
static status find_cross(const low_orders *x) {
    engine *e = x->e;
    const int64_t m = (int64_t)x->s->m, n = x->n;
    status st = MOAO_OK;
    for (int64_t i = 0; i < n; i++)
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL,
                             (matcov_region){0, m, (int64_t)x->low[i], 1}, x->cross + i * m, m));
    for (int64_t j = 0, some; x->k != NULL && j < m; j += some) {
        some = engine_width(e, j, m);
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, m, j, some},
                             x->cov, m));
        TRY(engine_gemm(e, 'N', 'T', m, n, some, -1, x->cov, m, x->k + j * n, n, 1, x->cross, m));
    }
done:
    return st;
}

/* J C J' from C J', lower and upper triangle. */
static status find_schur(low_orders *x) {
    const int64_t m = (int64_t)x->s->m, n = x->n;
    double *cross = x->host[0], *k = x->host[1];
    status st;
    TRY(send(x, cross, x->cross, m * n));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            x->schur[i + j * n] = cross[(int64_t)x->low[i] + j * m];
    if (x->k == NULL)
        goto done;
    TRY(send(x, k, x->k, n * m));
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)n, (int)m, -1, k, (int)n,
                cross, (int)m, 1, x->schur, (int)n);
done:
    return st;
}

/* X of a cascade or independent loops, and K. */
static status find_x(low_orders *x, const team *t, double *w, int64_t ld) {
    engine *e = x->e;
    const int64_t m = (int64_t)x->s->m, n = x->n, v = x->v;
    double *of = x->host[0], *turned = x->host[1];
    status st = MOAO_OK;
    if (x->k != NULL)
        TRY(find_k(x, t, w, ld));
    st = find_cross(x);
    TRY(team_agree(t, st));
    TRY(find_schur(x));
    for (int64_t j = 0, some; j < m; j += some) {
        double *panel;
        int64_t ldp;
        some = engine_width(e, j, m);
        TRY(get_rows(x, t, w, ld, j, some, false, &panel, &ldp));
        TRY(engine_gemm(e, 'N', 'N', v, n, some, 1, panel, ldp, x->cross + j, m, j > 0, x->x, v));
    }
    TRY(send(x, of, x->x, v * n));
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 0; a < v; a++)
            turned[i + a * n] = of[a + i * v];
    TRY(solve_low((int)n, x->schur, v, turned));
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 0; a < v; a++)
            of[a + i * v] = turned[i + a * n];
    st = send(x, x->x, of, v * n);
done:
    return st;
}

/* Columns j .. j + n of W become R - T X K, T X in those of N. */
static status combine(const low_orders *x, const team *t, double *w, int64_t ld, int64_t j,
                      int64_t n) {
    const double *k = x->s->low.control == LOW_SPLIT ? x->rows : x->k;
    double *panel;
    int64_t ldp;
    status st;
    TRY(get_rows(x, t, w, ld, j, n, false, &panel, &ldp));
    TRY(find_r(x, j, n, panel, ldp));
    if (k != NULL)
        TRY(engine_gemm(x->e, 'N', 'N', x->v, n, x->n, -1, x->x, x->v, k + j * x->n, x->n, 1, panel,
                        ldp));
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t at = (int64_t)x->low[i] - j;
        if (at >= 0 && at < n)
            TRY(copy_columns(x, panel + at * ldp, ldp, x->x + i * x->v, x->v, x->v, 1));
    }
    if (t->group_size > 1)
        st = copy_columns(x, w + j * ld, ld, panel + t->row0, ldp, t->nlrow, n);
done:
    return st;
}

status low_orders_apply(low_orders *x, const team *t, linop *o, double *w, int64_t ld) {
    engine *e = x->e;
    const int64_t m = (int64_t)x->s->m, v = x->v;
    status st = MOAO_OK;
    for (int64_t i = 0; i < x->n; i++) {
        double *panel;
        int64_t ldp;
        TRY(get_rows(x, t, w, ld, (int64_t)x->low[i], 1, false, &panel, &ldp));
        TRY(copy_columns(x, x->w_low + i * v, v, panel, ldp, v, 1));
    }
    st = find_g(x, o);
    TRY(team_agree(t, st));
    if (x->s->low.control == LOW_SPLIT)
        TRY(copy_columns(x, x->x, v, x->w_low, v, v, x->n));
    else
        TRY(find_x(x, t, w, ld));
    TRY(project(x, x->n, false, x->x, v));
    for (int64_t j = 0, n; j < m; j += n) {
        n = engine_width(e, j, m);
        TRY(combine(x, t, w, ld, j, n));
    }
    e->rep->flops[STAGE_SOLVE] += 4.0 * (double)m * (double)v * (double)x->n;
done:
    return st;
}
