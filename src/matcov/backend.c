/* The CPU backend's covariances: the specification of every other backend's. */
#include "backend/families.h"
#include "internal.h"

#include <stdlib.h>

#define PANEL 64 /* columns made at a time */

struct backend_cov {
    backend_cov_head head;
    matcov *mc;
};

struct backend_cov_target {
    backend_cov_target_head head;
    const backend_cov *c;
    matcov_target *mt;
};

static size_t no_bytes(const matcov_model *m) {
    (void)m;
    return 0;
}

static status cpu_load(backend_cov *c, const matcov_model *m) {
    c->mc = m->host;
    return matcov_tabulate(c->mc);
}

static const backend_matcov cpu;

static status cpu_open(backend_ctx *ctx, const matcov_model *m, backend_cov **c) {
    (void)ctx;
    status st = ALLOC(*c, 1, "covariances");
    if (st != MOAO_OK)
        return st;
    (*c)->head = (backend_cov_head){&cpu, m->m, m->t};
    if ((st = cpu_load(*c, m)) != MOAO_OK) {
        free(*c);
        *c = NULL;
    }
    return st;
}

static void cpu_close(backend_cov *c) {
    free(c);
}

/* A block to be written: rows from i0 on, `ni` of them. */
typedef struct {
    backend_type type;
    char part;
    int64_t i0, ni;
    void *a;
    int64_t lda;
} output;

/* Write columns j0 .. j0 + n of the matrix, which v holds, as columns `at` and following of the
 * block. */
static void put(const output *o, const double *v, int64_t j0, int64_t n, int64_t at) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < o->ni; i++) {
            int64_t below = o->i0 + i - (j0 + j), to = i + (at + j) * o->lda;
            double e = v[i + j * o->ni];
            if (o->part != 'A' && below < 0)
                continue;
            if (o->part == 'T' && below == 0)
                e *= 0.5;
            if (o->type == BACKEND_D)
                ((double *)o->a)[to] = e;
            else
                ((float *)o->a)[to] = (float)e;
        }
}

static status panel_alloc(int64_t ni, double **v) {
    return ALLOC(*v, (size_t)ni * PANEL, "panel of covariances");
}

static int64_t panel_width(int64_t j, int64_t nj) {
    return nj - j < PANEL ? nj - j : PANEL;
}

static status cpu_fill_cmm(backend_cov *c, backend_type t, char part, unsigned with,
                           matcov_region g, void *a, int64_t lda) {
    status st;
    double *v = NULL;
    const output o = {t, part, g.i0, g.ni, a, lda};
    cov_block b = {(size_t)g.i0, (size_t)g.ni, (size_t)g.j0, (size_t)g.nj, a, (size_t)lda};
    if (t == BACKEND_D && part == 'A') /* as the CPU's runs have it: nothing to convert */
        return fill_cmm_with(c->mc, with, b);
    TRY(panel_alloc(g.ni, &v));
    b.a = v, b.ld = b.ni;
    for (int64_t j = 0; j < g.nj; j += PANEL) {
        const int64_t n = panel_width(j, g.nj);
        b.j0 = (size_t)(g.j0 + j), b.nj = (size_t)n;
        TRY(fill_cmm_with(c->mc, with, b));
        put(&o, v, g.j0 + j, n, j);
    }
done:
    free(v);
    return st;
}

static status cpu_fill_ctt(backend_cov *c, backend_type t, char part, matcov_region g, void *a,
                           int64_t lda) {
    const size_t i0 = (size_t)g.i0, ni = (size_t)g.ni;
    status st;
    double *v = NULL;
    const output o = {t, part, g.i0, g.ni, a, lda};
    if (t == BACKEND_D && part == 'A')
        return matcov_fill_ctt(c->mc, i0, ni, (size_t)g.j0, (size_t)g.nj, a, (size_t)lda);
    TRY(panel_alloc(g.ni, &v));
    for (int64_t j = 0; j < g.nj; j += PANEL) {
        const int64_t n = panel_width(j, g.nj);
        TRY(matcov_fill_ctt(c->mc, i0, ni, (size_t)(g.j0 + j), (size_t)n, v, ni));
        put(&o, v, g.j0 + j, n, j);
    }
done:
    free(v);
    return st;
}

static status cpu_values(backend_cov *c, int a, int b, matcov_values *v) {
    const matcov *mc = c->mc;
    *v = (matcov_values){.noise = mc->noise};
    if (a < 0 || b < 0 || a >= mc->nsensor || b >= mc->nsensor)
        return status_fail(MOAO_INPUT, "values: there is no such sensor");
    const int link = a * mc->nsensor + b, table = mc->pairs.links[link].table;
    if (table < 0 || mc->pairs.tables[table].ground)
        return MOAO_OK;
    const like *t = &mc->pairs.tables[table];
    const bool reversed = mc->pairs.links[link].reversed;
    *v = (matcov_values){.steps = {t->steps[reversed], t->steps[!reversed]},
                         .n = t->n,
                         .origin = t->origin,
                         .reversed = reversed,
                         .value = {t->value[LIKE_XX], t->value[reversed ? LIKE_XY : LIKE_YX],
                                   t->value[reversed ? LIKE_YX : LIKE_XY], t->value[LIKE_YY]},
                         .noise = mc->noise};
    return MOAO_OK;
}

/* The table of a pair is of sensors that have the same footprints as the pair, perhaps not of
 * these. */
static status cpu_outlined(backend_cov *c, backend_type t, int a, int b, void *e, int64_t lde) {
    const matcov *mc = c->mc;
    if (a < 0 || b < 0 || a >= mc->nsensor || b >= mc->nsensor)
        return status_fail(MOAO_INPUT, "outlined: there is no such sensor");
    const int link = a * mc->nsensor + b, table = mc->pairs.links[link].table;
    const footprint *fa = &mc->rows[a], *fb = &mc->feet[b];
    const int64_t n = 2 * outline_served(fa), m = 2 * fb->nsub;
    double *v = NULL;
    status st;
    if (table < 0 || !fa->gradient)
        return status_fail(MOAO_INPUT, "outlined: the two sensors are on no lattice");
    const bool reversed = mc->pairs.links[link].reversed;
    like own = mc->pairs.tables[table];
    own.first = reversed ? fb : fa, own.second = reversed ? fa : fb;
    if (t == BACKEND_D)
        return outline_of_lattice(&mc->means, &mc->slopes, &own, reversed, e, (size_t)lde);
    TRY(ALLOC(v, (size_t)(n * m), "entries of outlines"));
    TRY(outline_of_lattice(&mc->means, &mc->slopes, &own, reversed, v, (size_t)n));
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < n; i++)
            ((float *)e)[i + j * lde] = (float)v[i + j * n];
done:
    free(v);
    return st;
}

static status cpu_open_target(backend_cov *c, backend_cov_target **t) {
    status st = ALLOC(*t, 1, "target");
    if (st == MOAO_OK) {
        (*t)->head.cov = &c->head;
        (*t)->c = c;
    }
    return st;
}

static void cpu_close_target(backend_cov_target *t) {
    if (t != NULL)
        matcov_target_free(t->mt);
    free(t);
}

static status cpu_set_direction(backend_cov_target *t, const double dir[2], bool shifted) {
    matcov_target_free(t->mt);
    t->mt = NULL;
    return matcov_target_init(t->c->mc, dir, shifted, &t->mt);
}

static status cpu_fill_ctm(backend_cov_target *target, backend_type t, matcov_region g, void *a,
                           int64_t lda) {
    status st;
    const sys *s = target->c->mc->s;
    double *v = NULL;
    const output o = {t, 'A', g.i0, g.ni, a, lda};
    if (t == BACKEND_D && g.ni == (int64_t)s->t)
        return matcov_fill_ctm(target->mt, (size_t)g.j0, (size_t)g.nj, a, (size_t)lda);
    TRY(panel_alloc((int64_t)s->t, &v));
    for (int64_t j = 0; j < g.nj; j += PANEL) {
        const int64_t n = panel_width(j, g.nj);
        TRY(matcov_fill_ctm(target->mt, (size_t)(g.j0 + j), (size_t)n, v, s->t));
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = 0; i < g.ni; i++)
                v[k * g.ni + i] = v[k * (int64_t)s->t + g.i0 + i];
        put(&o, v, g.j0 + j, n, j);
    }
done:
    free(v);
    return st;
}

/* Of operations on both axes of subapertures of a sensor. */
static status check_both(const backend_cov_target *target, const char *operation, backend_type t,
                         int64_t rows, matcov_slopes k, int64_t lda) {
    const sys *s = target->c->mc->s;
    if (k.sensor < 0 || k.sensor >= s->nsensor ||
        !matcov_slopes_ok(t, rows, s->sensors[k.sensor].nsub, k, lda))
        return status_fail(MOAO_INPUT, "%s: an argument is out of range", operation);
    if (target->mt == NULL)
        return status_fail(MOAO_INPUT, "%s: the target was not aimed", operation);
    return MOAO_OK;
}

static status cpu_fill_ctm_both(backend_cov_target *target, backend_type t, matcov_slopes k,
                                void *a, int64_t lda) {
    const sys *s = target->c->mc->s;
    const int64_t rows = (int64_t)s->t;
    status st = check_both(target, "fill_ctm_both", t, rows, k, lda);
    if (st != MOAO_OK)
        return st;
    if (t == BACKEND_D)
        return matcov_fill_ctm_both(target->mt, k, a, (size_t)lda);
    const sensor *o = &s->sensors[k.sensor];
    for (int axis = 0; axis < 2 && st == MOAO_OK; axis++)
        st = cpu_fill_ctm(target, t,
                          (matcov_region){0, rows, (int64_t)o->first + axis * o->nsub + k.k0, k.n},
                          (char *)a + axis * k.apart * lda * (int64_t)backend_size(t), lda);
    return st;
}

static status cpu_fill_cpm(backend_cov_target *target, backend_type t, matcov_points p, int64_t j0,
                           int64_t nj, void *a, int64_t lda) {
    status st;
    double *v = NULL;
    if (t == BACKEND_D)
        return matcov_fill_cpm(target->mt, p, (size_t)j0, (size_t)nj, a, (size_t)lda);
    const output o = {t, 'A', 0, p.n, a, lda};
    TRY(panel_alloc(p.n, &v));
    for (int64_t j = 0; j < nj; j += PANEL) {
        const int64_t n = panel_width(j, nj);
        TRY(matcov_fill_cpm(target->mt, p, (size_t)(j0 + j), (size_t)n, v, (size_t)p.n));
        put(&o, v, j0 + j, n, j);
    }
done:
    free(v);
    return st;
}

static status cpu_fill_cpm_both(backend_cov_target *target, backend_type t, matcov_points p,
                                matcov_slopes k, void *a, int64_t lda) {
    status st;
    double *v = NULL;
    TRY(check_both(target, "fill_cpm_both", t, p.n, k, lda));
    if (t == BACKEND_D)
        return matcov_fill_cpm_both(target->mt, p, k, a, (size_t)lda);
    const output o = {t, 'A', 0, p.n, a, lda};
    TRY(panel_alloc(2 * p.n, &v));
    for (int64_t j = 0; j < k.n; j += PANEL) {
        const int64_t some = panel_width(j, k.n);
        TRY(matcov_fill_cpm_both(target->mt, p, (matcov_slopes){k.sensor, k.k0 + j, some, PANEL}, v,
                                 (size_t)p.n));
        put(&o, v, 0, some, j);
        put(&o, v + PANEL * p.n, 0, some, k.apart + j);
    }
done:
    free(v);
    return st;
}

static status cpu_tiles(backend_cov *c, backend_cov_target *target, double tol, int ntile,
                        matcov_tile *tile) {
    if (target != NULL && target->mt == NULL)
        return status_fail(MOAO_INPUT, "tiles: the target was not aimed");
    return matcov_tiles(c->mc, target != NULL ? target->mt : NULL, tol, ntile, tile);
}

static const backend_matcov cpu = {
    .size = sizeof(backend_matcov),
    .bytes = no_bytes,
    .target_bytes = no_bytes,
    .open = cpu_open,
    .load = cpu_load,
    .close = cpu_close,
    .fill_cmm = cpu_fill_cmm,
    .fill_ctt = cpu_fill_ctt,
    .values = cpu_values,
    .outlined = cpu_outlined,
    .open_target = cpu_open_target,
    .close_target = cpu_close_target,
    .aim = cpu_set_direction,
    .fill_ctm = cpu_fill_ctm,
    .fill_ctm_both = cpu_fill_ctm_both,
    .fill_cpm = cpu_fill_cpm,
    .fill_cpm_both = cpu_fill_cpm_both,
    .tiles = cpu_tiles,
};

const backend_matcov *matcov_backend(const backend *be) {
    static backend_matcov of_cpu, of_plugin;
    backend_matcov *checked = be->matcov != NULL ? &of_plugin : &of_cpu;
    if (checked->size == 0) /* there is one plugin at most */
        checked_matcov(be->matcov != NULL ? be->matcov : &cpu, checked);
    return checked;
}
