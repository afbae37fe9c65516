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

#define ARRAYS 9

static void sizes(const sys *s, size_t width, size_t size[ARRAYS]) {
    const size_t v = (size_t)sys_commands(s), n = sys_low_slopes(s, NULL),
                 modes = (size_t)sys_low_modes(s);
    size[0] = modes * modes;
    size[1] = n * s->m;
    size[2] = s->low.control == LOW_CASCADE ? n * v : 0;
    size[3] = s->low.control == LOW_SPLIT ? 0 : s->m * n;
    size[4] = n * n;
    size[5] = size[6] = v * n;
    size[7] = v * width;
    size[8] = s->low.control == LOW_CASCADE ? n * s->m : 0;
}

size_t low_orders_bytes(const sys *s, size_t width) {
    size_t size[ARRAYS], sum = 0;
    if (!sys_low_follows(s))
        return 0;
    sizes(s, width, size);
    for (int i = 0; i < ARRAYS; i++)
        sum += size[i];
    if (s->low.control != LOW_SPLIT)
        sum += s->m * width;
    return sum * sizeof(double);
}

/* (Z'MZ)^-1. */
static status invert_modes(low_orders *x) {
    const int k = x->modes;
    double normal[LOW_MOST * LOW_MOST];
    int pivot[LOW_MOST], info = 0;
    cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, k, k, x->v, 1, x->z, x->v, x->q, x->v, 0,
                normal, k);
    for (int i = 0; i < k; i++)
        x->inverse[i + i * k] = 1;
    dgesv_(&k, &k, normal, &k, pivot, x->inverse, &k, &info);
    return info == 0 ? MOAO_OK
                     : status_fail(MOAO_NUMERIC,
                                   "loop.low.modes: the mirrors cannot make these low orders; "
                                   "expected fewer of them");
}

/* Slopes of N that a unit command of each actuator makes. */
static status fill_slopes(low_orders *x) {
    const sys *s = x->s;
    const matcov_placement place = {.scale = 1};
    const dmirror *own = s->fit.nmirror > 0 ? s->fit.mirrors : &s->dm;
    double *all = NULL;
    status st = MOAO_OK;
    for (int i = 0; i < s->fit.nmirror || i == 0; i++) {
        const dmirror *dm = &own[i];
        free(all);
        TRY(ALLOC(all, s->m * (size_t)dm->nact, "slopes of a mirror"));
        TRY(matcov_fill_mirror(s, dm, &place, all, s->m));
        for (int a = 0; a < dm->nact; a++)
            for (int k = 0; k < x->n; k++)
                x->slopes[k + (size_t)(dm->first + a) * (size_t)x->n] =
                    all[x->low[k] + (size_t)a * s->m];
    }
done:
    free(all);
    return st;
}

status low_orders_open(const sys *s, const command_matrix *of, size_t width, low_orders *x) {
    size_t size[ARRAYS];
    status st = MOAO_OK;
    *x = (low_orders){.s = s,
                      .n = (int)sys_low_slopes(s, NULL),
                      .v = sys_commands(s),
                      .modes = sys_low_modes(s),
                      .width = width,
                      .z = of->modes,
                      .q = of->shapes};
    double **const all[] = {&x->inverse, &x->rows, &x->slopes, &x->cross, &x->schur,
                            &x->w_low,   &x->x,    &x->panel,  &x->k};
    sizes(s, width, size);
    for (int i = 0; i < ARRAYS; i++)
        if (size[i] > 0)
            TRY(ALLOC(*all[i], size[i], "low orders"));
    TRY(ALLOC(x->low, (size_t)x->n, "low orders"));
    TRY(ALLOC(x->is_low, s->m, "low orders"));
    sys_low_slopes(s, x->low);
    for (int k = 0; k < x->n; k++)
        x->is_low[x->low[k]] = true;
    TRY(invert_modes(x));
    if (x->slopes != NULL)
        st = fill_slopes(x);
done:
    return st;
}

void low_orders_close(low_orders *x) {
    free(x->low);
    free(x->is_low);
    free(x->inverse);
    free(x->rows);
    free(x->slopes);
    free(x->cross);
    free(x->schur);
    free(x->w_low);
    free(x->x);
    free(x->panel);
    free(x->k);
    *x = (low_orders){0};
}

/* Columns j .. j + n of all rows of W into the panel. */
static void get_rows(const low_orders *x, const team *t, const double *w, int64_t ld, int64_t j,
                     int64_t n) {
    if (t->group_size > 1)
        team_rows(t, (size_t)n, w + j * ld, ld, x->panel);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(x->panel + i * x->v, w + (j + i) * ld, (size_t)x->v * sizeof *w);
}

/* a (v x n) := T a, or a - T a. */
static void project(const low_orders *x, int n, bool rest, double *a) {
    double part[2][LOW_MOST];
    for (int i = 0; i < n; i++) {
        double *column = a + (int64_t)i * x->v;
        cblas_dgemv(CblasColMajor, CblasTrans, x->v, x->modes, 1, x->q, x->v, column, 1, 0, part[0],
                    1);
        cblas_dgemv(CblasColMajor, CblasNoTrans, x->modes, x->modes, 1, x->inverse, x->modes,
                    part[0], 1, 0, part[1], 1);
        if (!rest)
            memset(column, 0, (size_t)x->v * sizeof *column);
        cblas_dgemv(CblasColMajor, CblasNoTrans, x->v, x->modes, rest ? -1 : 1, x->z, x->v, part[1],
                    1, 1, column, 1);
    }
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
    status st;
    memset(x->rows, 0, (size_t)(n * m) * sizeof *x->rows);
    for (int64_t k = 0; k < n; k++)
        x->rows[k + (int64_t)x->low[k] * n] = 1;
    TRY(o->factor->solve(o->f, 1, &in));
    for (int64_t k = 0; k < n; k++)
        memcpy(x->schur + k * n, x->rows + (int64_t)x->low[k] * n, (size_t)n * sizeof *x->rows);
    TRY(solve_low((int)n, x->schur, m, x->rows));
    for (int64_t i = 0; i < n * m; i++)
        x->rows[i] = -x->rows[i];
done:
    return st;
}

/* The panel of columns j .. j + n of W: R in those of L, what of N does not matter. g: G of L. */
static void find_r(const low_orders *x, const double *g, int64_t n) {
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, x->v, (int)n, x->n, 1, x->w_low, x->v, g,
                x->n, 1, x->panel, x->v);
    if (x->s->low.control != LOW_SPLIT)
        project(x, (int)n, true, x->panel);
}

/* C J' of the columns of N and, where it is there, K in the columns of L of `rows`. */
static status find_cross(low_orders *x, engine *e, const double *k) {
    const int64_t m = (int64_t)x->s->m, n = x->n;
    double *c = NULL;
    status st;
    TRY(ALLOC(c, (size_t)m * x->width, "covariances of low orders"));
    for (int64_t i = 0; i < n; i++)
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, 0, m, (int64_t)x->low[i], 1,
                             x->cross + i * m, m));
    for (int64_t j = 0, some; k != NULL && j < m; j += some) {
        some = m - j < (int64_t)x->width ? m - j : (int64_t)x->width;
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, 0, m, j, some, c, m));
        for (int64_t i = 0; i < some; i++)
            if (x->is_low[j + i])
                memset(c + i * m, 0, (size_t)m * sizeof *c);
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)some, -1, c,
                    (int)m, k + j * n, (int)n, 1, x->cross, (int)m);
    }
done:
    free(c);
    return st;
}

/* J C J' from C J', lower and upper triangle. */
static void find_schur(const low_orders *x, const double *k) {
    const int64_t m = (int64_t)x->s->m, n = x->n;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
            double sum = x->cross[(int64_t)x->low[i] + j * m];
            for (int64_t l = 0; k != NULL && l < m; l++)
                sum -= x->is_low[l] ? 0 : k[i + l * n] * x->cross[l + j * m];
            x->schur[i + j * n] = sum;
        }
}

/* X of a cascade or independent loops, and K. */
static status find_x(low_orders *x, const team *t, engine *e, const double *w, int64_t ld) {
    const int64_t m = (int64_t)x->s->m, n = x->n, v = x->v;
    const bool cascade = x->s->low.control == LOW_CASCADE;
    double *k = x->k, *turned = NULL;
    status st;
    TRY(ALLOC(turned, (size_t)(n * v), "low orders"));
    for (int64_t j = 0, some; cascade && j < m; j += some) {
        some = m - j < (int64_t)x->width ? m - j : (int64_t)x->width;
        get_rows(x, t, w, ld, j, some);
        find_r(x, x->rows + j * n, some);
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)n, (int)some, (int)v, 1,
                    x->slopes, (int)n, x->panel, (int)v, 0, k + j * n, (int)n);
    }
    st = find_cross(x, e, k);
    TRY(team_agree(t, st));
    find_schur(x, k);
    memset(x->x, 0, (size_t)(v * n) * sizeof *x->x);
    for (int64_t j = 0, some; j < m; j += some) {
        some = m - j < (int64_t)x->width ? m - j : (int64_t)x->width;
        get_rows(x, t, w, ld, j, some);
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)v, (int)n, (int)some, 1,
                    x->panel, (int)v, x->cross + j, (int)m, 1, x->x, (int)v);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 0; a < v; a++)
            turned[i + a * n] = x->x[a + i * v];
    TRY(solve_low((int)n, x->schur, v, turned));
    for (int64_t i = 0; i < n; i++)
        for (int64_t a = 0; a < v; a++)
            x->x[a + i * v] = turned[i + a * n];
done:
    free(turned);
    return st;
}

/* The panel of columns j .. j + n of W becomes R - T X K, T X in those of N. */
static void combine(const low_orders *x, int64_t j, int64_t n) {
    const double *g = x->rows + j * x->n, *k = x->s->low.control == LOW_SPLIT ? g
                                               : x->k != NULL                 ? x->k + j * x->n
                                                                              : NULL;
    find_r(x, g, n);
    if (k != NULL)
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, x->v, (int)n, x->n, -1, x->x, x->v,
                    k, x->n, 1, x->panel, x->v);
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t at = (int64_t)x->low[i] - j;
        if (at >= 0 && at < n)
            memcpy(x->panel + at * x->v, x->x + i * x->v, (size_t)x->v * sizeof *x->panel);
    }
}

status low_orders_apply(low_orders *x, const team *t, engine *e, linop *o, double *w, int64_t ld) {
    const int64_t m = (int64_t)x->s->m, v = x->v;
    const size_t low = (size_t)v * (size_t)x->n;
    status st = MOAO_OK;
    for (int64_t i = 0; i < x->n; i++) {
        get_rows(x, t, w, ld, (int64_t)x->low[i], 1);
        memcpy(x->w_low + i * v, x->panel, (size_t)v * sizeof *w);
    }
    st = find_g(x, o);
    TRY(team_agree(t, st));
    if (x->s->low.control == LOW_SPLIT)
        memcpy(x->x, x->w_low, low * sizeof *x->x);
    else
        TRY(find_x(x, t, e, w, ld));
    project(x, x->n, false, x->x);
    for (int64_t j = 0, n; j < m; j += n) {
        n = m - j < (int64_t)x->width ? m - j : (int64_t)x->width;
        get_rows(x, t, w, ld, j, n);
        combine(x, j, n);
        for (int64_t i = 0; i < n && t->nlrow > 0; i++)
            memcpy(w + (j + i) * ld, x->panel + i * v + t->row0, (size_t)t->nlrow * sizeof *w);
    }
    e->rep->flops[STAGE_SOLVE] += 4.0 * (double)m * (double)v * (double)x->n;
done:
    return st;
}
