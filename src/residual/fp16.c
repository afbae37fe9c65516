/* The operator `half`: its memory and its table. */
#include "factor/host_factor.h"
#include "residual/fp16_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE 256             /* rows of the right-hand side by which tiles are chosen */
#define WORK ((size_t)1 << 29) /* of triangular solves with them [bytes], about */

static int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int constants(const sys *s) {
    int n = 0;
    for (int w = 0; w < s->nsensor; w++)
        n += s->sensors[w].lgs ? 2 : 0;
    return n;
}

/* Numbers of the widest block of Ctm of a sensor. */
static size_t block_size(const sys *s) {
    int most = 0;
    for (int w = 0; w < s->nsensor; w++)
        most = s->sensors[w].nsub > most ? s->sensors[w].nsub : most;
    return 2 * (size_t)most * (size_t)fp16_rows((int64_t)s->t);
}

int64_t fp16_place(int64_t m) {
    const fp16_factor_options o = fp16_factor_defaults(m, 1, 0);
    return engine_aligned((int64_t)(fp16_factor_bytes(m, &o) / sizeof(double)) + 1);
}

/* Doubles of dT in FP16. */
static int64_t differences(int64_t m, int64_t width) {
    return (m * (m + width) / 2 + width * width) / 4 + 1;
}

int64_t fp16_area(int64_t m, int64_t t, int64_t v, int64_t width) {
    const int64_t solve = 2 * engine_aligned(fp16_rows(v) * m / 2 + 1) +
                          2 * engine_aligned(v * width) + engine_aligned(m * width) +
                          engine_aligned(t * width);
    return engine_aligned(max_of(differences(m, width), solve));
}

static void bytes_of(const linop_case *c, bool passing, linop_bytes *b) {
    const size_t m = c->s->m, t = c->s->t, v = (size_t)c->rows, w = c->width,
                 np = (size_t)c->points;
    const size_t h = sizeof(backend_f16), f = sizeof(float), d = sizeof(double);
    const size_t nk = (size_t)constants(c->s);
    const int64_t area = fp16_area((int64_t)m, (int64_t)t, c->rows, (int64_t)w);
    const int64_t place = fp16_place((int64_t)m);
    const fp16_factor_options o = fp16_factor_defaults((int64_t)m, c->rows, 0);
    const size_t n = v < SAMPLE ? v : SAMPLE, tile = (size_t)o.tile;
    const size_t v8 = (size_t)fp16_rows(c->rows), t8 = (size_t)fp16_rows((int64_t)t),
                 np8 = (size_t)fp16_rows((int64_t)np);
    const size_t sampling = (3 * n * m + n * (v + t) + t * w + m * (size_t)o.panel) * d + WORK;
    const size_t longest = m > np ? (m > t ? m : t) : np > t ? np : t;
    linop_add(b, "factor of Cmm0 in halves, and inverses", (size_t)place * d + 2 * m * tile * h);
    linop_add(b, "difference of two T; before it, making of W", (size_t)area * d);
    linop_add(b, "W of the sampled target in double precision", v * m * d);
    linop_add(b, "D+ in halves, panels",
              2 * v8 * t * h + (longest + w + v) * w * f + (2 * t8 + v) * w * h +
                  2 * v8 * tile * h);
    if (np > 0)
        linop_add(b, "halves of the phase on the pupil", np8 * (2 * (w + 1) * h + v * f) + np * f);
    else
        linop_add(b, "Ctm of a sensor in halves", block_size(c->s) * h);
    linop_add(b, "residual covariances of a target, and tip-tilt",
              v * v * (d + f) + (m + v + nk) * nk * d);
    linop_add(b, "tables of covariances of the sampled target",
              matcov_target_bytes(c->s, c->nlayer));
    b->per_target = "W of a target in halves, D+ Ctm0 W'";
    b->target = 2 * v8 * m * h + (v * v + v * nk) * d;
    b->least = sampling;
    if (passing) {
        linop_add(b, "pieces of the factor", 2 * m * w * d);
        const size_t panels = 2 * w * m * d; /* the least that it is made by */
        b->least = panels > sampling ? panels : sampling;
    } else if (m * m * d + sampling > (size_t)(place + area) * d)
        b->least = m * m * d + sampling - (size_t)(place + area) * d;
    else
        b->least = 0;
}

static void bytes(const linop_case *c, linop_bytes *b) {
    bytes_of(c, false, b);
}

/* dT takes less than without, but its room is that of the solve at least. */
static void bytes_lattice_pairs(const linop_case *c, linop_bytes *b) {
    struct lattice_pairs a;
    size_t plans = 0;
    bytes_of(c, false, b);
    if (lattice_pairs_init(c->s, &a) == MOAO_OK)
        plans = lattice_pairs_bytes(&a, TOEPLITZ_FP16, c->rows, c->host);
    lattice_pairs_close(NULL, &a);
    linop_add(b, "like sensors: W T, covariances transformed, work",
              plans + (size_t)c->rows * c->s->m * sizeof(float));
}

static void bytes_host(const linop_case *c, linop_bytes *b) {
    bytes_of(c, true, b);
}

static size_t host_bytes(size_t m, size_t v, size_t width, int targets) {
    return linop_host.host(m, v, width, fp16_host_targets(targets));
}

static int64_t fp16_own(const linop *base) {
    const fp16 *x = (const fp16 *)base;
    return engine_aligned(x->v * x->v) + x->v * x->nk;
}

static int64_t fp16_store(const linop *base) {
    return 2 * fp16_w_size((const fp16 *)base) / 4;
}

static int64_t fp16_ground(const linop *base) {
    const engine *e = base->e;
    return fp16_place(e->m) + fp16_area(e->m, e->t, ((const fp16 *)base)->v, e->width);
}

static int64_t fp16_room(const linop *base, int n) {
    const fp16 *x = (const fp16 *)base;
    const int64_t sampling = fp16_sampling(x), m = base->e->m;
    if (x->passing == NULL)
        return max_of(fp16_ground(base), engine_aligned(m * m) + sampling);
    return fp16_ground(base) + max_of(sampling, linop_host.room(x->passing, fp16_host_targets(n)));
}

static status fp16_lend(linop *base, int n, double *room) {
    fp16 *x = (fp16 *)base;
    const engine *e = base->e;
    const int64_t v = x->v, m = e->m, w = e->width;
    double *area = room + fp16_place(m);
    x->room = room;
    x->made.a = room;
    x->dt = (backend_f16 *)(void *)area;
    x->b32 = (float *)(void *)area, area += engine_aligned(fp16_rows(v) * m / 2 + 1);
    x->b0[0] = (backend_f16 *)(void *)area;
    x->b0[1] = x->b0[0] + fp16_rows(v) * m, area += engine_aligned(fp16_rows(v) * m / 2 + 1);
    for (int k = 0; k < 2; k++)
        x->some[k] = area, area += engine_aligned(v * w);
    x->columns = area, area += engine_aligned(m * w);
    x->ctm64 = area;
    return x->passing == NULL
               ? MOAO_OK
               : linop_host.lend(x->passing, fp16_host_targets(n), room + fp16_ground(base));
}

static status take(fp16 *x, size_t count, size_t size, const char *what, void *p) {
    return engine_array(x->base.e, count * size, what, (void **)p);
}

static status take_arrays(fp16 *x, const linop_setup *u) {
    engine *e = x->base.e;
    const size_t m = (size_t)e->m, t = (size_t)e->t, v = (size_t)x->v, w = (size_t)e->width;
    const size_t h = sizeof(backend_f16), f = sizeof(float), d = sizeof(double);
    const size_t nk = (size_t)x->nk, np = (size_t)u->size.points;
    const size_t v8 = (size_t)fp16_rows(x->v), t8 = (size_t)fp16_rows(e->t),
                 np8 = (size_t)fp16_rows((int64_t)np);
    const size_t longest = m > np ? (m > t ? m : t) : np > t ? np : t;
    status st;
    for (int k = 0; k < 2; k++) {
        TRY(take(x, v8 * t, h, "halves of D+", &x->dplus[k]));
        TRY(take(x, t8 * w, h, "halves of Ctm", &x->ctm[k]));
    }
    TRY(take(x, v * m, d, "W of the sampled target", &x->exact.w));
    TRY(take(x, v * w, h, "halves of W T", &x->z));
    TRY(take(x, w * longest + np, f, "a panel of covariances", &x->wide));
    if (np == 0)
        TRY(take(x, block_size(e->s), h, "halves of Ctm", &x->block));
    for (int k = 0; k < 2; k++)
        TRY(take(x, np8 * (w + 1), h, "halves of Cpm", &x->cpm[k]));
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
    TRY(lattice_pairs_init(e->s, &x->like));
    TRY(lattice_pairs_pieces(e->s, &x->like, e->width, &x->npiece, &x->piece, &numbers));
    if (numbers > most) /* thin pieces are padded; a sensor has more columns than that */
        TRY(status_fail(MOAO_INTERNAL, "pieces of covariances are larger than their room"));
    TRY(take(x, (size_t)(x->v * e->m), sizeof(float), "W T", &x->wt));
    TRY(lattice_pairs_open(e, TOEPLITZ_FP16, &x->like));
    st = engine_work(e, lattice_pairs_workspace(e, &x->like, x->v));
done:
    return st;
}

/* Which measurements are of which laser star and axis, to the device. */
static status tiptilt_axes(fp16 *x) {
    engine *e = x->base.e;
    const sys *s = e->s;
    double *a = NULL;
    int k = 0;
    status st;
    TRY(ALLOC(a, (size_t)(e->m * x->nk), "tip-tilt constants"));
    for (int w = 0; w < s->nsensor; w++)
        for (int axis = 0; axis < 2 && s->sensors[w].lgs; axis++, k++)
            for (int i = 0; i < s->sensors[w].nsub; i++)
                a[(int64_t)s->sensors[w].first + axis * s->sensors[w].nsub + i + k * e->m] = 1;
    TRY(engine_copy(e, x->axes, a, e->m * x->nk));
    TRY(engine_sync(e));
done:
    free(a);
    return st;
}

/* What the factor is made by, and in. */
static status take_factor(fp16 *x, const linop_setup *u) {
    engine *e = x->base.e;
    const fp16_factor_options o = fp16_factor_defaults(e->m, x->v, 0);
    status st;
    TRY(fp16_factor_open(e->be, e->ctx, e->m, &o, &x->l));
    x->lwork = fp16_factor_solve_work(x->l);
    TRY(take(x, x->lwork, 1, "work of solves", &x->work));
    if (x->passing == NULL) {
        TRY(take(x, (size_t)cholesky_strips(&x->made), sizeof(int), "numbers", &x->made.info));
        TRY(engine_work(e, cholesky_work(&x->made)));
    }
    TRY(engine_work(e, e->be->workspace(BACKEND_TRMM, BACKEND_D, x->v, e->width))); /* reference */
    x->sample = u->size.rows < SAMPLE ? u->size.rows : SAMPLE;
    memcpy(x->direction, u->sample, sizeof x->direction);
done:
    return st;
}

static status prepare(fp16 *x, const linop_setup *u) {
    engine *e = x->base.e;
    status st;
    TRY(take_factor(x, u));
    TRY(take_arrays(x, u));
    if (x->lattice_pairs)
        TRY(take_lattice_pairs(x));
    TRY(tiptilt_axes(x));
    /* what lies above the diagonal stays 0, and what lies beyond the points */
    TRY(engine_zero(e, BACKEND_S, e->width, e->width, x->diag, e->width));
    const int64_t pairs = fp16_rows(u->size.points) / 2; /* split FP16 have the room of a single */
    for (int k = 0; k < 2; k++)
        TRY(engine_zero(e, BACKEND_S, pairs, e->width + 1, x->cpm[k], pairs));
    TRY(fp16_exponent(x, BACKEND_D, x->v, e->t, u->proj, &x->ed));
    st = e->be->fp16->split(e->ctx, BACKEND_D, 'A', x->v, e->t, x->ed, u->proj, x->v, x->dplus[0],
                            fp16_rows(x->v), x->dplus[1], fp16_rows(x->v));
done:
    return st;
}

static void fp16_close(linop *base) {
    fp16 *x = (fp16 *)base;
    if (x == NULL)
        return;
    engine *e = base->e;
    if (x->target != NULL)
        e->mat->close_target(x->target);
    fp16_factor_close(x->l);
    group_close(&x->group);
    if (x->passing != NULL)
        linop_host.close(x->passing);
    float *const sum = x->lattice_pairs ? x->wt : x->sum;
    void *const mine[] = {x->dplus[0], x->dplus[1],  x->ctm[0],  x->ctm[1], x->block,
                          x->exact.w,  x->z,         x->wide,    x->cpm[0], x->cpm[1],
                          x->ct,       x->diag,      sum,        x->y,      x->axes,
                          x->kd,       x->constants, x->numbers, x->work,   x->made.info};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        e->be->release(e->ctx, mine[i]);
    e->be->release_host(e->ctx, x->host);
    lattice_pairs_close(e, &x->like);
    free(x->piece);
    free(x);
}

static status open_kind(engine *e, const linop_setup *u, const linop_kind *kind, linop **out) {
    fp16 *x = NULL;
    status st = comm_agree(e->c, ALLOC(x, 1, "mixed precision"));
    if (st != MOAO_OK)
        goto done;
    x->base = (linop){.kind = kind, .e = e, .reference = &x->exact.base};
    x->exact = (fp16_exact){.base = {.kind = &fp16_exact_kind, .e = e}, .of = x, .target = -1};
    x->lattice_pairs = kind == &linop_fp16_lattice_pairs;
    x->v = u->size.rows;
    x->nk = constants(e->s);
    x->proj = u->proj;
    x->group.size = 1;
    x->made = (cholesky){.e = e, .group = &x->group};
    cholesky_widths(&x->made, e->width);
    if (kind == &linop_fp16_host) {
        linop_setup of = *u;
        of.most = fp16_host_targets(u->most);
        of.planned = fp16_host_targets(u->planned);
        TRY(linop_host.open(e, &of, &x->passing));
    }
    TRY(comm_agree(e->c, prepare(x, u)));
    if (x->passing == NULL)
        TRY(cholesky_join(&x->made, u->sharing == 1, u->say));
done:
    if (st != MOAO_OK) {
        fp16_close(&x->base);
        x = NULL;
    }
    *out = &x->base;
    return st;
}

static status fp16_open(engine *e, const linop_setup *u, linop **out) {
    return open_kind(e, u, &linop_fp16, out);
}

static status fp16_open_lattice_pairs(engine *e, const linop_setup *u, linop **out) {
    return open_kind(e, u, &linop_fp16_lattice_pairs, out);
}

static status fp16_open_host(engine *e, const linop_setup *u, linop **out) {
    return open_kind(e, u, &linop_fp16_host, out);
}

#define FP16_TABLE                                                                                 \
    .size = sizeof(linop_kind), .differences = true, .close = fp16_close, .own = fp16_own,         \
    .room = fp16_room, .ground = fp16_ground, .lend = fp16_lend, .store = fp16_store,              \
    .right = fp16_right, .right_column = fp16_right_column, .get = fp16_get,                       \
    .factor = fp16_factor_of, .solve = fp16_solve, .load = fp16_load, .begin = fp16_begin,         \
    .columns = fp16_columns, .project = fp16_project, .outer = fp16_outer, .end = fp16_end,        \
    .phase = fp16_phase, .phase_end = fp16_phase_end, .share = fp16_share,                         \
    .phase_share = fp16_phase_share, .levels = 3, .expected = fp16_expected

/* Products of FP16 numbers have parts of 128 x 192: 22 of them, with the 42 of 5336 actuators 7
 * rounds of 132 multiprocessors. */
#define PANEL 4224

const linop_kind linop_fp16 = {
    .name = "half", .width = PANEL, .bytes = bytes, .open = fp16_open, FP16_TABLE};
const linop_kind linop_fp16_lattice_pairs = {.name = "fp16_lattice_pairs",
                                             .format = "grid",
                                             .width = PANEL,
                                             .bytes = bytes_lattice_pairs,
                                             .open = fp16_open_lattice_pairs,
                                             FP16_TABLE};
/* Pieces of the factor, of which there are two, are panels too: not wider than others. */
const linop_kind linop_fp16_host = {.name = "fp16_host",
                                    .format = "half",
                                    .bytes = bytes_host,
                                    .host = host_bytes,
                                    .open = fp16_open_host,
                                    FP16_TABLE};
