/* The product in FP16: its memory and its tables. */
#include "base/machine_constants.h"
#include "factor/host_factor.h"
#include "residual/fp16_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Numbers of the widest block of Ctm of a sensor. */
static size_t block_size(const sys *s) {
    int most = 0;
    for (int w = 0; w < s->nsensor; w++)
        most = s->sensors[w].nsub > most ? s->sensors[w].nsub : most;
    return 2 * (size_t)most * (size_t)fp16_rows((int64_t)s->t);
}

/* Doubles of dT in FP16. */
static int64_t differences(int64_t m, int64_t width) {
    return (m * (m + width) / 2 + width * width) / 4 + 1;
}

int64_t fp16_area(int64_t m, int64_t t, int64_t v, int64_t width) {
    const int64_t solve = 2 * engine_aligned(fp16_rows(v) * m / 2 + 1) +
                          2 * engine_aligned(v * width) +
                          engine_aligned(fp16_columns_room(m, width)) + engine_aligned(t * width);
    return engine_aligned(max_of(differences(m, width), solve));
}

static void bytes(const sys *s, const factor_kind *by, plan *p) {
    const size_t m = s->m, t = sys_fit_rows(s), all = sys_fit_columns(s), v = (size_t)p->rows,
                 w = p->width, np = (size_t)p->points;
    const size_t h = sizeof(backend_f16), f = sizeof(float), d = sizeof(double);
    const size_t nk = (size_t)tiptilt_constants(s);
    const size_t v8 = (size_t)fp16_rows(p->rows), t8 = (size_t)fp16_rows((int64_t)t),
                 np8 = (size_t)fp16_rows((int64_t)np);
    const size_t area = (size_t)fp16_area((int64_t)m, (int64_t)t, p->rows, (int64_t)w) * d;
    const size_t longest = m > np ? (m > t ? m : t) : np > t ? np : t;
    plan_add(p, "difference of two T; before it, making of W", area);
    plan_add(p, "W of the sampled target in double precision", v * m * d);
    if (p->moduli_reference > 0)
        plan_add(p, "residues of the sampled target",
                 fp16_integers_bytes(p->be, p->moduli_reference, (int64_t)m, p->rows, (int64_t)w));
    plan_add(p, "D+ in FP16, panels",
             2 * v8 * all * h + (longest + w + v) * w * f + (2 * t8 + v) * w * h);
    if (np > 0)
        plan_add(p, "FP16 covariances of the phase on the pupil",
                 np8 * (2 * (w + 1) * h + v * f) + np * f);
    else
        plan_add(p, "Ctm of a sensor in FP16", block_size(s) * h);
    plan_add(p, "residual covariances of a target, and tip-tilt",
             v * v * (d + f) + (m + v + nk) * nk * d);
    plan_add(p, "tables of covariances of the sampled target", p->target_tables);
    p->per_target = "W of a target in FP16, D+ Ctm0 W'";
    const size_t w16 = 2 * v8 * m * h, w64 = v * m * d; /* targets that are solved for together */
    p->target = (by->together && w16 < w64 ? w64 : w16) + (v * v + v * nk) * d;
    if (by->compressed)
        plan_add(p, "a step of W in FP16", v8 * m * h);
    /* which is computed in the product's memory, too */
    if ((by->split && !by->on_host) || (by->compressed && by->on_host))
        p->least = p->least > area ? p->least - area : 0;
}

/* dT takes less than without, but its room is that of the solve at least. */
static void bytes_lattice(const sys *s, const factor_kind *by, plan *p) {
    struct lattice_pairs a;
    size_t plans = 0;
    bytes(s, by, p);
    if (lattice_pairs_init(s, true, &a) == MOAO_OK)
        plans = lattice_pairs_bytes(s, &a, TOEPLITZ_FP16, p->rows, p->host);
    lattice_pairs_close(NULL, &a);
    plan_add(p, "sensors on a lattice: W T, transforms, work",
             plans + (size_t)p->rows * s->m * sizeof(float));
}

static int64_t fp16_own(const product *base) {
    const fp16 *x = (const fp16 *)base;
    return engine_aligned(x->v * x->v) + x->v * x->nk;
}

static int64_t fp16_store(const product *base) {
    return 2 * fp16_w_size((const fp16 *)base) / 4;
}

static int64_t fp16_ground(const product *base) {
    const engine *e = base->e;
    return fp16_area(e->m, e->t, ((const fp16 *)base)->v, e->width);
}

static status fp16_set_workspace(product *base, double *area) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    const int64_t v = x->v, m = e->m, w = e->width;
    x->dt = (backend_f16 *)(void *)area;
    x->b32 = (float *)(void *)area, area += engine_aligned(fp16_rows(v) * m / 2 + 1);
    x->b0[0] = (backend_f16 *)(void *)area;
    x->b0[1] = x->b0[0] + fp16_rows(v) * m, area += engine_aligned(fp16_rows(v) * m / 2 + 1);
    for (int k = 0; k < 2; k++)
        x->some[k] = area, area += engine_aligned(v * w);
    x->columns = area, area += engine_aligned(fp16_columns_room(m, w));
    x->ctm64 = area;
    return MOAO_OK;
}

static status take(fp16 *x, size_t count, size_t size, const char *what, void *p) {
    return engine_array(x->base.e, count * size, what, (void **)p);
}

static status take_arrays(fp16 *x, const plan *p) {
    engine *e = x->base.e;
    const size_t m = (size_t)e->m, t = (size_t)e->t, v = (size_t)x->v, w = (size_t)e->width;
    const size_t h = sizeof(backend_f16), f = sizeof(float), d = sizeof(double);
    const size_t nk = (size_t)x->nk, np = (size_t)p->points;
    const size_t v8 = (size_t)fp16_rows(x->v), t8 = (size_t)fp16_rows(e->t),
                 np8 = (size_t)fp16_rows((int64_t)np);
    status st;
    x->np = (int64_t)np;
    for (int k = 0; k < 2; k++) {
        TRY(take(x, v8 * t * (size_t)e->ndir, h, "D+ in FP16", &x->dplus[k]));
        TRY(take(x, t8 * w, h, "Ctm in FP16", &x->ctm[k]));
    }
    TRY(take(x, v * m, d, "W of the sampled target", &x->exact.w));
    TRY(take(x, v * w, h, "W T in FP16", &x->z));
    TRY(take(x, (size_t)fp16_wide(x) + np, f, "a panel of covariances", &x->wide));
    if (np == 0)
        TRY(take(x, block_size(e->s), h, "Ctm in FP16", &x->block));
    for (int k = 0; k < 2; k++)
        TRY(take(x, np8 * (w + 1), h, "Cpm in FP16", &x->cpm[k]));
    TRY(take(x, v * np8, f, "W Cpm'", &x->ct));
    TRY(take(x, w * w, f, "a block of covariances", &x->diag));
    if (!x->lattice_pairs)
        TRY(take(x, v * w, f, "a panel of W T", &x->sum));
    TRY(take(x, v * v, f, "a residual covariance", &x->y));
    TRY(take(x, m * nk, d, "tip-tilt constants", &x->axes));
    TRY(take(x, v * nk, d, "tip-tilt constants", &x->kd));
    TRY(take(x, nk * nk, d, "tip-tilt constants", &x->constants));
    TRY(take(x, FP16_NUMBERS, d, "numbers", &x->numbers));
    TRY(e->be->alloc_host(e->ctx, (nk * nk + FP16_NUMBERS) * d, (void **)&x->host));
    memset(x->host, 0, (nk * nk + FP16_NUMBERS) * d);
    st = e->mat->open_target(e->cov, &x->target);
done:
    return st;
}

/* Plans of sensors on a common lattice, and what is left of dT. */
static status take_lattice_pairs(fp16 *x) {
    engine *e = x->base.e;
    const int64_t most = 4 * fp16_area(e->m, e->t, x->v, e->width);
    int64_t numbers;
    status st;
    TRY(lattice_pairs_init(e->s, true, &x->like));
    TRY(lattice_pairs_pieces(e->s, &x->like, e->width, &x->npiece, &x->piece, &numbers));
    if (numbers > most) /* thin pieces are padded; a sensor has more columns than that */
        TRY(status_fail(MOAO_INTERNAL, "pieces of covariances are larger than their room"));
    TRY(take(x, (size_t)(x->v * e->m), sizeof(float), "W T", &x->wt));
    TRY(lattice_pairs_open(e, TOEPLITZ_FP16, x->v, &x->like));
    st = engine_work(e, lattice_pairs_workspace(e, &x->like, x->v));
done:
    return st;
}

static status prepare(fp16 *x, const plan *p, const double *proj) {
    engine *e = x->base.e;
    status st;
    TRY(take_arrays(x, p));
    if (p->moduli_reference > 0)
        TRY(fp16_integers_open(x, p->moduli_reference));
    if (x->lattice_pairs)
        TRY(take_lattice_pairs(x));
    TRY(tiptilt_axes(e, x->axes));
    /* what lies above the diagonal stays 0, and what lies beyond the points */
    TRY(engine_zero(e, BACKEND_S, e->width, e->width, x->diag, e->width));
    const int64_t pairs = fp16_rows(p->points) / 2; /* split FP16 have the room of a single */
    for (int k = 0; k < 2; k++)
        TRY(engine_zero(e, BACKEND_S, pairs, e->width + 1, x->cpm[k], pairs));
    const int64_t all = e->t * e->ndir;
    TRY(fp16_exponent(x, BACKEND_D, x->v, all, proj, &x->ed));
    st = e->be->fp16->split(e->ctx, BACKEND_D, 'A', x->v, all, x->ed, proj, x->v, x->dplus[0],
                            fp16_rows(x->v), x->dplus[1], fp16_rows(x->v));
done:
    return st;
}

static void fp16_close(product *base) {
    fp16 *x = (fp16 *)base;
    engine *e = base->e;
    if (x->target != NULL)
        e->mat->close_target(x->target);
    float *const sum = x->lattice_pairs ? x->wt : x->sum;
    void *const mine[] = {x->dplus[0], x->dplus[1], x->ctm[0], x->ctm[1], x->block,     x->exact.w,
                          x->z,        x->wide,     x->cpm[0], x->cpm[1], x->ct,        x->diag,
                          sum,         x->y,        x->axes,   x->kd,     x->constants, x->numbers};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        e->be->release(e->ctx, mine[i]);
    fp16_integers_close(x);
    e->be->release_host(e->ctx, x->host);
    lattice_pairs_close(e, &x->like);
    free(x->piece);
    free(x->ew);
}

static status fp16_open(product *base, const plan *p, const double *proj) {
    fp16 *x = (fp16 *)base;
    engine *e = base->e;
    status st;
    base->reference = &x->exact.base;
    x->exact = (fp16_exact){.base = {.kind = &fp16_exact_kind, .e = e, .f = base->f}, .of = x};
    x->exact.target = -1;
    x->lattice_pairs = base->kind == &product_fp16_lattice;
    x->v = p->rows;
    x->nk = tiptilt_constants(e->s);
    x->proj = proj;
    x->split = base->f->kind->split;
    TRY(ALLOC(x->ew, (size_t)p->most, "exponents of W"));
    TRY(prepare(x, p, proj));
    if (!x->split && !base->f->kind->together)
        base->solve_in = x->exact.w;
done:
    return st;
}

static status fp16_made(product *base, const profile *p) {
    fp16 *x = (fp16 *)base;
    x->tor = p;
    if (base->e->phase)
        x->ep0 = backend_fp16_exponent(matcov_phase_bound(base->e->s, p, p, 0));
    x->exact.target = -1;
    x->exact.solved = false;
    return MOAO_OK;
}

#define FP16_TABLE                                                                                 \
    .size = sizeof(product_kind), .object = sizeof(fp16), .open = fp16_open, .differences = true,  \
    .fp16 = true, .own_products = true, .own_phase = true, .own_w = true, .leaves_share = true,    \
    .refined = true, .width = MACHINE_PANEL_FP16, .close = fp16_close, .own = fp16_own,            \
    .ground = fp16_ground, .set_workspace = fp16_set_workspace, .made = fp16_made,                 \
    .store = fp16_store, .right = fp16_right, .right_column = fp16_right_column, .get = fp16_get,  \
    .keep = fp16_keep, .load = fp16_load, .models = fp16_models, .begin = fp16_begin,              \
    .columns = fp16_columns, .project = fp16_project, .outer = fp16_outer, .end = fp16_end,        \
    .phase = fp16_phase, .phase_end = fp16_phase_end, .share = fp16_share,                         \
    .phase_share = fp16_phase_share, .load_lag = fp16_load_lag

const product_kind product_fp16 = {.name = "fp16", .word = "fp16", .bytes = bytes, FP16_TABLE};
const product_kind product_fp16_lattice = {
    .name = "fp16_lattice", .word = "toeplitz", .bytes = bytes_lattice, FP16_TABLE};
