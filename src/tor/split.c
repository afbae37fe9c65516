#include "tor/split.h"

#include "matcov/matcov.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivot, double *b,
            const int *ldb, int *info);

static bool is_misplaced(const split_control *c) {
    return c->shift[0] != 0 || c->shift[1] != 0 || c->rot != 0 || c->scale != 1;
}

/* Whether both mirrors have the same actuators: F N is the identity then, which the regularisation
 * of F would miss. */
static bool are_same(const sys *s) {
    const dmirror *a = &s->fit.mirrors[0], *b = &s->fit.mirrors[1];
    return a->altitude == 0 && a->nssp == b->nssp && a->pitch == b->pitch &&
           a->coupling == b->coupling && a->nact == b->nact;
}

static size_t arrays(const sys *s, size_t width, size_t size[7]) {
    const split_control *c = &s->fit.split;
    const size_t v1 = (size_t)s->fit.mirrors[0].nact, v2 = (size_t)s->fit.mirrors[1].nact,
                 m = sys_slopes(s);
    const bool away = is_misplaced(c);
    size[0] = away ? m * v1 : 0;
    size[1] = away || c->residual ? m * v1 : 0;
    size[2] = c->residual ? 0 : s->fit.points * v1;
    size[3] = size[4] = v2 * v1;
    size[5] = away ? v1 * v1 : 0;
    size[6] = (2 * v1 + v2) * width;
    return size[0] + size[1] + size[2] + size[3] + size[4] + size[5] + size[6];
}

size_t split_bytes(const sys *s, size_t width) {
    size_t size[7];
    return s->fit.split.on ? arrays(s, width, size) * sizeof(double) : 0;
}

/* G' and G - G'. */
static status fill_slopes(split_commands *x) {
    const sys *s = x->s;
    const split_control *c = &s->fit.split;
    const matcov_placement model = {.scale = 1},
                           real = {{c->shift[0], c->shift[1]}, c->rot, c->scale};
    status st = MOAO_OK;
    if (x->real == NULL)
        return st;
    TRY(matcov_fill_mirror(s, &s->fit.mirrors[0], &real, x->real, (size_t)x->m));
    if (x->model == NULL)
        return st;
    TRY(matcov_fill_mirror(s, &s->fit.mirrors[0], &model, x->model, (size_t)x->m));
    cblas_daxpy((int)x->m * x->v1, -1, x->real, 1, x->model, 1);
done:
    return st;
}

status split_open(const sys *s, const command_matrix *of, size_t width, split_commands *x) {
    size_t size[7];
    status st = MOAO_OK;
    *x = (split_commands){.s = s, .copy = *of, .width = width};
    double **const all[] = {&x->model, &x->real, &x->shapes, &x->drop, &x->x, &x->q, &x->panel};
    arrays(s, width, size);
    for (int i = 0; i < 7; i++)
        if (size[i] > 0)
            TRY(ALLOC(*all[i], size[i], "commands behind a common mirror"));
    x->v1 = s->fit.mirrors[0].nact;
    x->v2 = s->fit.mirrors[1].nact;
    x->m = (int64_t)sys_slopes(s);
    TRY(ALLOC(x->pivot, (size_t)x->v1, "commands behind a common mirror"));
    TRY(fill_slopes(x));
    x->of = &x->copy;
done:
    return st;
}

void split_close(split_commands *x) {
    free(x->model);
    free(x->real);
    free(x->shapes);
    free(x->drop);
    free(x->x);
    free(x->q);
    free(x->panel);
    free(x->pivot);
    *x = (split_commands){0};
}

/* N at the points of the pupil. */
static void fill_shapes(split_commands *x, const double dir[2]) {
    const dmirror *dm = &x->s->fit.mirrors[0];
    const int64_t n = (int64_t)x->s->fit.points;
    const int side = dm->nssp + 1;
    const double decay = log(dm->coupling) / (dm->pitch * dm->pitch);
#pragma omp parallel for schedule(static)
    for (int a = 0; a < x->v1; a++) {
        const double ax = (dm->act[a] % side - 0.5 * dm->nssp) * dm->pitch - dir[0] * dm->altitude,
                     ay = (dm->act[a] / side - 0.5 * dm->nssp) * dm->pitch - dir[1] * dm->altitude;
        for (int64_t i = 0; i < n; i++)
            x->shapes[i + a * n] =
                exp(decay * (pow(x->of->x[i] - ax, 2) + pow(x->of->y[i] - ay, 2)));
    }
}

/* F N of a direction. */
static void fill_drop(split_commands *x, const double dir[2]) {
    const int n = (int)x->s->fit.points, v = x->v1 + x->v2;
    if (x->kept || x->s->fit.split.residual)
        return;
    x->kept = x->s->fit.mirrors[0].altitude == 0;
    if (are_same(x->s)) {
        memset(x->drop, 0, (size_t)x->v1 * (size_t)x->v2 * sizeof *x->drop);
        for (int a = 0; a < x->v1; a++)
            x->drop[a + (int64_t)a * x->v2] = 1;
        return;
    }
    fill_shapes(x, dir);
    const double *f = x->of->p + (int64_t)v * n * x->s->fit.ndir + x->v1;
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, x->v2, x->v1, n, 1, f, v, x->shapes, n,
                0, x->drop, x->v2);
}

/* Columns j .. j + n of all rows of W. */
static void get_rows(const split_commands *x, const team *t, const double *w, int64_t ld, int64_t j,
                     int64_t n) {
    if (t->group_size > 1)
        team_rows(t, (size_t)n, w + j * ld, ld, x->panel);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(x->panel + i * t->nrow, w + (j + i) * ld, (size_t)t->nrow * sizeof *w);
}

/* X, and W1 (G - G') in q, from all columns of W. */
static void feel(split_commands *x, const team *t, const double *w, int64_t ld) {
    const int v = x->v1 + x->v2, m = (int)x->m;
    const bool residual = x->s->fit.split.residual;
    const double *of_x = residual ? x->real : x->model;
    memset(x->x, 0, (size_t)x->v1 * (size_t)x->v2 * sizeof *x->x);
    if (!residual)
        memcpy(x->x, x->drop, (size_t)x->v1 * (size_t)x->v2 * sizeof *x->x);
    if (x->q != NULL)
        memset(x->q, 0, (size_t)x->v1 * (size_t)x->v1 * sizeof *x->q);
    for (int64_t j = 0, n; of_x != NULL && j < (int64_t)x->s->m; j += n) {
        const int64_t at = j % m, left = m - at;
        n = left < (int64_t)x->width ? left : (int64_t)x->width;
        get_rows(x, t, w, ld, j, n);
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, x->v2, x->v1, (int)n,
                    residual ? 1 : -1, x->panel + x->v1, v, of_x + at, m, 1, x->x, x->v2);
        if (x->q != NULL)
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, x->v1, x->v1, (int)n, 1,
                        x->panel, v, x->model + at, m, 1, x->q, x->v1);
    }
}

/* q := Q, from W1 (G - G'). */
static status steady(split_commands *x) {
    const int v1 = x->v1;
    double *identity = NULL;
    int info = 0;
    status st;
    TRY(ALLOC(identity, (size_t)v1 * (size_t)v1, "the loop of the common mirror"));
    for (int64_t i = 0; i < (int64_t)v1 * v1; i++)
        x->q[i] = -x->q[i];
    for (int64_t i = 0; i < v1; i++)
        x->q[i + i * v1] += identity[i + i * v1] = 1;
    for (int64_t i = 0; i < (int64_t)v1 * v1; i++)
        if (!isfinite(x->q[i]))
            TRY(status_fail(MOAO_NUMERIC, "split: slopes of the common mirror are not finite"));
    dgesv_(&v1, &v1, x->q, &v1, x->pivot, identity, &v1, &info);
    if (info != 0)
        st = status_fail(MOAO_NUMERIC,
                         "split.shift, rotation, scale: with this model error the common mirror's "
                         "loop has no steady state, expected less of it");
    else
        memcpy(x->q, identity, (size_t)v1 * (size_t)v1 * sizeof *identity);
done:
    free(identity);
    return st;
}

/* The first v1 rows of the panel := Q W1. */
static void settle(const split_commands *x, int64_t n) {
    const int v = x->v1 + x->v2;
    double *before = x->panel + (int64_t)v * (int64_t)x->width;
    if (x->q == NULL)
        return;
    for (int64_t i = 0; i < n; i++)
        memcpy(before + i * x->v1, x->panel + i * v, (size_t)x->v1 * sizeof *before);
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, x->v1, (int)n, x->v1, 1, x->q, x->v1,
                before, x->v1, 0, x->panel, v);
}

status split_apply(split_commands *x, const team *t, engine *e, const double dir[2], double *w,
                   int64_t ld) {
    const split_control *c = &x->s->fit.split;
    const int64_t v1 = x->v1, own = t->row0 > v1 ? 0 : v1 - t->row0, /* rows of W1 here */
        mine = own < t->nlrow ? own : t->nlrow, rest = t->nlrow - mine,
                  first = t->row0 > v1 ? t->row0 - v1 : 0,  /* of the target's */
        from = c->copies > 0 ? x->m : 0,                    /* columns of s1, */
        to = c->residual   ? (c->copies > 2 ? 2 * x->m : 0) /* of those that X W1 has */
             : !c->unknown ? from
                           : 0;
    status st = MOAO_OK;
    fill_drop(x, dir);
    feel(x, t, w, ld);
    if (x->q != NULL)
        st = steady(x);
    TRY(team_agree(t, st));
    for (int64_t j = 0, n; j < x->m; j += n) {
        n = x->m - j < (int64_t)x->width ? x->m - j : (int64_t)x->width;
        get_rows(x, t, w, ld, from + j, n);
        settle(x, n);
        for (int64_t i = 0; i < n && mine > 0; i++)
            memcpy(w + (from + j + i) * ld, x->panel + i * t->nrow + t->row0,
                   (size_t)mine * sizeof *w);
        if (rest > 0)
            cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)rest, (int)n, x->v1, -1,
                        x->x + first, x->v2, x->panel, t->nrow, 1, w + mine + (to + j) * ld,
                        (int)ld);
    }
    e->rep->flops[STAGE_SOLVE] += 2.0 * (double)rest * (double)v1 * (double)x->m;
done:
    return st;
}
