/* Exposures by pairs of sensors, in single precision: sensors on a common lattice by Fourier
 * transforms (lattice_pairs.h), exact up to rounding, other ones as dense blocks, or, where the
 * backend has them, by tiles of low rank (pair_tiles.h), each pair once; so is Cpm. With G the
 * blocks of sensors on a common lattice and U those of each pair of other ones, once, Cmm = G + U +
 * U' but for the tip-tilt constants K, and Y = (W (G/2 + U) - P Ctm) W' + W K W' / 2, whose last
 * term is made in double precision of what the solve has left. Factor and solve are the dense
 * operator's, which is the reference too. */
#include "base/mix.h"
#include "engine/lgs_tiptilt.h"
#include "residual/lattice_pairs.h"
#include "residual/pair_tiles.h"
#include "residual/product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Root mean square error of the entries of a tile, in units of a slope's variance. */
#define TOLERANCE 1e-5

#define SAMPLED 8 /* rows of T, for an estimate of its errors */

/* Lists of points at which W Cpm' is wanted: all of the pupil's, and those of the lag. */
#define POINTS 2

typedef struct { /* points, with the sensors; NULL: not known so far */
    const double *x;
    clusters c;
    tiling cpm;
} phase_points;

typedef struct {
    product base;
    int64_t v;
    int nk; /* constants: laser stars times axes */
    lattice_pairs like;
    bool *outlined; /* [m] whether a slope is of a partly lit subaperture */
    int npiece;
    lattice_pairs_piece *piece; /* of U */
    float *u;
    float *w, *wt;            /* v x m: W of the current target, W T */
    float *proj;              /* v x t */
    float *ctm;               /* t x width */
    float *y;                 /* v x v */
    double *axes;             /* m x nk: 1 where a measurement is of that laser star and axis */
    double *kd;               /* v x nk */
    double *constants, *host; /* nk x nk: K / 2, on the device and pinned */
    double tol;               /* of tiles [arcsec^2] */
    clusters sensors;
    tiling unlike;
    phase_points phase[POINTS];
    pair_tiles_memory of_sensors, of_points;
    float *ct; /* v x np: W Cpm' */
    float *work;
    size_t lwork;
} grid;

static const product_kind tiled;

/* Whether other pairs go by tiles. */
static bool by_tiles(const backend_matcov *mat, const sys *s) {
    return mat->tiles != NULL && matcov_tileable(s);
}

/* Of a target, in its own memory: W times `axes`. */
static int64_t grid_own(const product *base) {
    const grid *x = (const grid *)base;
    return engine_aligned(x->v * x->nk);
}

/* --- memory */

static void bytes(const sys *s, const factor_kind *by, plan *p) {
    const size_t m = s->m, t = sys_fit_rows(s), v = (size_t)p->rows, f = sizeof(float),
                 d = sizeof(double);
    const size_t nk = (size_t)tiptilt_constants(s);
    lattice_pairs a;
    int64_t numbers = 0;
    size_t plans = 0;
    if (lattice_pairs_init(s, false, &a) == MOAO_OK) {
        (void)lattice_pairs_pieces(s, &a, (int64_t)p->width, NULL, NULL, &numbers);
        plans = lattice_pairs_bytes(s, &a, TOEPLITZ_S, p->rows, p->host);
    }
    product_exact(by)->bytes(s, by, p);
    const bool tiles = p->host && matcov_tileable(s);
    const double share = tiles ? pair_tiles_share(s) : 1;
    /* tiles are there twice while they are made */
    const double cpm = (double)m * (double)p->points, more = fmax(cpm, (double)numbers);
    plan_add(p, "toeplitz: covariances of other pairs of sensors",
             (size_t)(share * (double)numbers + (tiles ? share * (more + cpm) : 0)) * f);
    if (tiles)
        plan_add(p, "toeplitz: products by tiles",
                 (v * (size_t)p->points + pair_tiles_work_touched(s, p->points, p->rows)) * f);
    plan_add(p, "toeplitz: sensors on a lattice transformed, work", plans);
    plan_add(p, "toeplitz: W, W T and D+", v * (2 * m + t) * f + v * v * f + t * p->width * f);
    plan_add(p, "toeplitz: tip-tilt constants", (m + v + nk) * nk * d);
    p->per_target = "W of a target";
    p->target = (v * m + v * nk) * d;
    if (product_exact(by)->together)
        plan_add(p, "residual covariance of a target", v * v * d);
    lattice_pairs_close(NULL, &a);
}

static status floats(engine *e, int64_t count, const char *what, float **p) {
    return engine_array(e, (size_t)count * sizeof(float), what, (void **)p);
}

/* For products with tiles. */
static status take_tiles(grid *x, const plan *p) {
    engine *e = x->base.e;
    status st;
    x->base.kind = &tiled;
    TRY(clusters_init(e->s, 0, NULL, NULL, &x->sensors));
    TRY(pair_tiles_init(&x->sensors, x->like.of, false, &x->of_sensors, &x->unlike));
    x->lwork = pair_tiles_work(e->s, p->points, x->v);
    TRY(floats(e, (int64_t)x->lwork, "products with tiles", &x->work));
    st = floats(e, x->v * p->points, "W Cpm'", &x->ct);
done:
    return st;
}

static status take_pieces(grid *x) {
    engine *e = x->base.e;
    int64_t numbers;
    status st = lattice_pairs_pieces(e->s, &x->like, e->width, &x->npiece, &x->piece, &numbers);
    return st == MOAO_OK ? floats(e, numbers, "covariances", &x->u) : st;
}

static status find_outlined(grid *x) {
    const sys *s = x->base.e->s;
    int *sub = NULL;
    status st;
    TRY(ALLOC(x->outlined, s->m, "outlined slopes"));
    TRY(ALLOC(sub, s->m, "outlined slopes"));
    for (int w = 0; w < s->nsensor; w++) {
        const sensor *o = &s->sensors[w];
        for (int k = 0, n = matcov_outlined(s, o, false, sub); k < n; k++)
            for (int axis = 0; axis < 2; axis++)
                x->outlined[o->first + (size_t)(sub[k] + axis * o->nsub)] = true;
    }
done:
    free(sub);
    return st;
}

static status take_memory(grid *x, const plan *p, const double *proj) {
    engine *e = x->base.e;
    const int64_t m = e->m, t = e->t, v = x->v, nk = x->nk;
    status st;
    TRY(find_outlined(x));
    TRY(lattice_pairs_init(e->s, false, &x->like));
    TRY(by_tiles(e->mat, e->s) ? take_tiles(x, p) : take_pieces(x));
    TRY(floats(e, v * m, "W", &x->w));
    TRY(floats(e, v * m, "W T", &x->wt));
    TRY(floats(e, v * t, "D+", &x->proj));
    TRY(floats(e, t * e->width, "a panel of Ctm", &x->ctm));
    TRY(floats(e, v * v, "a residual covariance", &x->y));
    TRY(engine_doubles(e, m * nk, "tip-tilt constants", &x->axes));
    TRY(engine_doubles(e, v * nk, "tip-tilt constants", &x->kd));
    TRY(engine_doubles(e, nk * nk, "tip-tilt constants", &x->constants));
    TRY(e->be->alloc_host(e->ctx, ((size_t)(nk * nk) + 1) * sizeof(double), (void **)&x->host));
    memset(x->host, 0, (size_t)(nk * nk) * sizeof(double));
    TRY(lattice_pairs_open(e, TOEPLITZ_S, v, &x->like));
    TRY(engine_work(e, lattice_pairs_workspace(e, &x->like, v)));
    TRY(tiptilt_axes(e, x->axes));
    st = e->be->fp16->cast_to_single(e->ctx, v, t, proj, v, x->proj, v);
done:
    return st;
}

static void grid_close(product *base) {
    grid *x = (grid *)base;
    engine *e = base->e;
    void *const mine[] = {x->u,    x->w,  x->wt,        x->proj, x->ctm, x->y,
                          x->axes, x->kd, x->constants, x->work, x->ct};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        e->be->release(e->ctx, mine[i]);
    e->be->release_host(e->ctx, x->host);
    lattice_pairs_close(e, &x->like);
    pair_tiles_free(&x->unlike);
    clusters_free(&x->sensors);
    for (int i = 0; i < POINTS; i++) {
        pair_tiles_free(&x->phase[i].cpm);
        clusters_free(&x->phase[i].c);
    }
    pair_tiles_memory_free(&x->of_sensors), pair_tiles_memory_free(&x->of_points);
    product_close(base->reference);
    free(x->piece);
    free(x->outlined);
}

static status grid_open(product *base, const plan *p, const double *proj) {
    grid *x = (grid *)base;
    engine *e = base->e;
    factor *f = base->f;
    status st;
    x->v = p->rows;
    x->nk = tiptilt_constants(e->s);
    TRY(product_open(product_exact(f->kind), e, p, proj, f, &base->reference));
    st = take_memory(x, p, proj);
done:
    return st;
}

/* W times `axes`. */
static status grid_keep(product *base, const double dir[2], const wrows *solved, const wrows *w,
                        double *own) {
    const grid *x = (const grid *)base;
    (void)dir, (void)w;
    return engine_gemm(base->e, 'N', 'N', solved->rows, x->nk, base->e->m, 1.0, solved->w,
                       solved->ld, x->axes, base->e->m, 0.0, own, x->v);
}

/* --- exposures */

/* Error of an entry of Cmm that is allowed [arcsec^2]. */
static status tolerance(grid *x, double *tol) {
    engine *e = x->base.e;
    double variance = 0;
    status st = MOAO_OK;
    for (int w = 0; w < e->s->nsensor && st == MOAO_OK; w++) {
        const int64_t i = (int64_t)e->s->sensors[w].first;
        double one = 0;
        st = e->mat->fill_cmm(e->cov, BACKEND_D, 'A', 0, (matcov_region){i, 1, i, 1}, &one, 1);
        variance = w == 0 || one < variance ? one : variance;
    }
    *tol = TOLERANCE * variance;
    return st;
}

static status grid_load(product *base, const profile *prof) {
    grid *x = (grid *)base;
    engine *e = base->e;
    const int64_t nk = x->nk;
    status st;
    (void)prof;
    report_phase("exposure: T of Cmm");
    TRY(engine_sync(e)); /* before what earlier work reads on the host changes */
    tiptilt_fp16(e, x->host);
    TRY(engine_copy(e, x->constants, x->host, nk * nk));
    TRY(lattice_pairs_load(e, 0, &x->like));
    if (x->base.kind == &tiled) {
        TRY(tolerance(x, &x->tol));
        TRY(pair_tiles_fill(e, NULL, x->tol, &x->unlike));
    }
    for (int i = 0; i < x->npiece; i++) {
        const lattice_pairs_piece *p = &x->piece[i];
        TRY(e->mat->fill_cmm(e->cov, BACKEND_S, 'A', 0,
                             (matcov_region){p->j, p->n, p->row, p->rows}, x->u + p->at, p->ld));
    }
done:
    return st;
}

static status gemm(engine *e, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                   const float *b, int64_t ldb, float beta, float *c) {
    return e->be->gemm(e->ctx, BACKEND_S, 'N', tb, m, n, k, &alpha, a, m, b, ldb, &beta, c, m,
                       e->work, e->lwork);
}

/* What sensors on a common lattice, and tiles, make of W T, v rows of both. */
static status add_lattice_pairs(grid *x, int64_t v) {
    engine *e = x->base.e;
    status st;
    TRY(lattice_pairs_apply(e, &x->like, v, 0.5, x->w, v, 0, x->wt, v));
    report_phase("exposure: W T");
    if (x->base.kind == &tiled)
        st = pair_tiles_apply(e, &x->unlike, v, x->w, x->wt, x->work, x->lwork);
done:
    return st;
}

/* What other sensors add to columns j .. j + n of W T, v rows of both, piece by piece. */
static status add_pieces(grid *x, int64_t v, int64_t j, int64_t n) {
    status st = MOAO_OK;
    for (int i = 0; i < x->npiece; i++) {
        const lattice_pairs_piece *p = &x->piece[i];
        if (p->j >= j && p->j < j + n)
            TRY(gemm(x->base.e, 'T', v, p->n, p->rows, 1, x->w + p->row * v, x->u + p->at, p->ld, 1,
                     x->wt + p->j * v));
    }
done:
    return st;
}

/* Sampled rows of T, in units of a row: those of the identity times it. */
static status sample_rows(grid *x, const int64_t *row, int64_t n, float *got) {
    const engine *e = x->base.e;
    const int64_t bytes = n * e->m * (int64_t)sizeof *got;
    status st;
    for (int64_t k = 0; k < n; k++)
        got[k + row[k] * n] = 1;
    TRY(e->be->copy(e->ctx, x->w, bytes, got, bytes, bytes, 1));
    TRY(add_lattice_pairs(x, n));
    TRY(add_pieces(x, n, 0, e->m));
    TRY(e->be->copy(e->ctx, got, bytes, x->wt, bytes, bytes, 1));
    st = e->be->sync(e->ctx);
done:
    return st;
}

/* The share of entry (i, j) of Cmm that is in T = G / 2 + U; groups of their sensors. */
static double share(int of_i, int of_j) {
    return of_i == of_j ? 0.5 : of_i > of_j ? 1 : 0;
}

/* Row `row` of T as it was found, entries n apart, against Cmm's: sum of squares of the errors of
 * the `count` entries that it has, the largest one. column: m + 1 doubles of the device, then of
 * the host; [m]: variance of the slope. */
static status compare_row(grid *x, int64_t row, const float *got, int64_t n, double *there,
                          double *column, double *squares, double *worst, int64_t *count) {
    engine *e = x->base.e;
    const sys *s = e->s;
    int a = 0;
    status st;
    TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_NOISE, (matcov_region){0, e->m, row, 1},
                         there, e->m));
    TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', 0, (matcov_region){row, 1, row, 1}, there + e->m,
                         1));
    TRY(engine_copy(e, column, there, e->m + 1));
    TRY(e->be->sync(e->ctx));
    while (a + 1 < s->nsensor && (int64_t)s->sensors[a + 1].first <= row)
        a++;
    const bool mine = x->outlined[row];
    for (int b = 0; b < s->nsensor; b++) {
        const double part = share(x->like.of[a], x->like.of[b]);
        const int64_t first = (int64_t)s->sensors[b].first, end = first + 2 * s->sensors[b].nsub;
        for (int64_t j = first; j < end; j++) {
            /* of outlines and others T has all on one side of the diagonal (lattice_pairs.h) */
            if (part == 0.5 && mine != x->outlined[j])
                continue;
            const double error = fabs((double)got[j * n] - part * column[j]);
            *squares += part > 0 ? error * error / (part * part) : 0;
            *worst = fmax(*worst, part > 0 ? error / part : error);
            *count += part > 0;
        }
    }
done:
    return st;
}

static status grid_check(product *base, uint64_t seed, double *rms, double *worst) {
    grid *x = (grid *)base;
    engine *e = base->e;
    const int64_t m = e->m, n = x->v < SAMPLED ? x->v : SAMPLED;
    int64_t row[SAMPLED], count = 0;
    float *got = NULL;
    double *there = NULL, *column = NULL, squares = 0, variance = INFINITY;
    status st;
    *worst = 0;
    TRY(ALLOC(got, (size_t)(n * m), "rows of T"));
    TRY(ALLOC(column, (size_t)m + 1, "rows of T"));
    TRY(engine_doubles(e, m + 1, "a row of T", &there));
    for (int64_t k = 0; k < n; k++)
        row[k] = (int64_t)(mix_bits(seed + (uint64_t)k) % (uint64_t)m);
    TRY(sample_rows(x, row, n, got));
    for (int64_t k = 0; k < n; k++) {
        TRY(compare_row(x, row[k], got + k, n, there, column, &squares, worst, &count));
        variance = fmin(variance, column[m]);
    }
    *rms = sqrt(squares / (double)count) / variance;
    *worst /= variance;
done:
    e->be->release(e->ctx, there);
    free(got), free(column);
    return st;
}

static status grid_begin(product *base, const wrows *w, double *own) {
    grid *x = (grid *)base;
    engine *e = base->e;
    status st;
    (void)own;
    report_phase("exposure: W T of sensors on a lattice");
    TRY(e->be->fp16->cast_to_single(e->ctx, x->v, e->m, w->w, w->ld, x->w, x->v));
    st = add_lattice_pairs(x, x->v);
done:
    return st;
}

/* Tiles of a list of points, which stays where it is. */
static status points_of(grid *x, matcov_points at, phase_points **out) {
    phase_points *p = x->phase;
    status st;
    while (p < x->phase + POINTS && p->x != NULL && p->x != at.x)
        p++;
    if (p == x->phase + POINTS)
        return status_fail(MOAO_INTERNAL, "product toeplitz: too many lists of points");
    *out = p;
    if (p->x == at.x)
        return MOAO_OK;
    TRY(clusters_init(x->base.e->s, at.n, at.x, at.y, &p->c));
    TRY(pair_tiles_init(&p->c, NULL, true, &x->of_points, &p->cpm));
    p->x = at.x;
done:
    return st;
}

/* W Cpm', all of it with the first panel. */
static status tiled_phase(product *base, backend_cov_target *target, const wrows *w,
                          matcov_points at, int64_t j, int64_t n) {
    grid *x = (grid *)base;
    engine *e = base->e;
    /* path differences across a subaperture [m] go with slopes [arcsec] */
    const double size = e->s->diameter / e->s->sensors[0].nssp / ARCSEC_PER_RAD;
    phase_points *p = NULL;
    status st = MOAO_OK;
    (void)w, (void)n;
    if (j > 0)
        goto done;
    TRY(points_of(x, at, &p));
    TRY(pair_tiles_fill(e, target, x->tol * size, &p->cpm));
    memset(x->ct, 0, (size_t)(x->v * at.n) * sizeof *x->ct);
    st = pair_tiles_apply(e, &p->cpm, x->v, x->w, x->ct, x->work, x->lwork);
done:
    return st;
}

static status tiled_phase_end(product *base, const wrows *w, int64_t np, double *ct) {
    const grid *x = (const grid *)base;
    const engine *e = base->e;
    (void)w;
    return e->be->fp16->cast_to_double(e->ctx, x->v, np, 1, x->ct, x->v, 0, ct, x->v);
}

static status grid_columns(product *base, const wrows *w, int64_t j, int64_t n, double *z,
                           int64_t ldz) {
    (void)w, (void)z, (void)ldz;
    return add_pieces((grid *)base, ((grid *)base)->v, j, n);
}

static status grid_project(product *base, backend_cov_target *target, int64_t j, int64_t n) {
    grid *x = (grid *)base;
    engine *e = base->e;
    const int64_t t = e->t;
    status st = e->mat->fill_ctm(target, BACKEND_S, (matcov_region){0, t, j, n}, x->ctm, t);
    return st != MOAO_OK ? st
                         : gemm(e, 'N', x->v, n, t, -1, x->proj, x->ctm, t, 1, x->wt + j * x->v);
}

static status grid_outer(product *base, const wrows *w, int64_t j, int64_t n) {
    grid *x = (grid *)base;
    (void)w;
    return gemm(base->e, 'T', x->v, x->v, n, 1, x->wt + j * x->v, x->w + j * x->v, x->v, j > 0,
                x->y);
}

/* The sum, and the constants in double precision. */
static status grid_end(product *base, const wrows *w, double *own, double *y) {
    grid *x = (grid *)base;
    engine *e = base->e;
    const int64_t v = x->v, nk = x->nk;
    status st;
    (void)w;
    TRY(e->be->fp16->cast_to_double(e->ctx, v, v, 1, x->y, v, 0, y, v));
    TRY(engine_gemm(e, 'N', 'N', v, nk, nk, 1.0, own, v, x->constants, nk > 0 ? nk : 1, 0.0, x->kd,
                    v));
    st = engine_gemm(e, 'N', 'T', v, v, nk, 1.0, x->kd, v, own, v, 1.0, y, v);
done:
    return st;
}

#define OPERATIONS                                                                                 \
    .size = sizeof(product_kind), .object = sizeof(grid), .name = "toeplitz", .word = "toeplitz",  \
    .own_products = true, .bytes = bytes, .open = grid_open, .close = grid_close, .own = grid_own, \
    .keep = grid_keep, .load = grid_load, .begin = grid_begin, .columns = grid_columns,            \
    .project = grid_project, .outer = grid_outer, .end = grid_end, .check = grid_check

const product_kind product_toeplitz = {OPERATIONS};

/* Of a product that goes by tiles. */
static const product_kind tiled = {OPERATIONS, .own_phase = true, .phase = tiled_phase,
                                   .phase_end = tiled_phase_end};
