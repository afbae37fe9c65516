/* The factor of Cmm0 in split FP16 (linalg/include/moao/fp16_factor.h). It is computed in double
 * precision: on the device, in the memory that later holds W of the targets, or, where that is too
 * small (factor_fp16_host), in the host's. What replaces it takes a quarter of its memory. */
#include "factor/fp16.h"
#include "factor/host_factor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE 256             /* rows of the right-hand side by which tiles are chosen */
#define WORK ((size_t)1 << 29) /* of triangular solves with them [bytes], about */
/* Inner size of products of accurate solves: a step of refinement then shrinks the residual far
 * enough. */
#define ACCURATE_PIECES ((int64_t)128)

/* |W Cmm0 - B0| / |B0| that single products of FP16 numbers may add up to, by level; 0: three
 * everywhere. At the full scale the first takes 5 % of the tiles in three products, and changes a
 * Strehl ratio by 4e-6. Twice of it takes 1 %, a tenth off the triangles, with no change of a
 * Strehl ratio that could be told there (params/mosaic.yaml, 4 and 26 targets), but 2e-5 more in
 * small systems (params/demo.yaml), where the triangles do not count. */
static const double accuracy[] = {2e-5, 5e-6, 0};
#define LARGE ((int64_t)65536)
/* What sums on tensor cores cut off, and single precision, add to that. */
#define FLOOR 5e-5

typedef struct {
    factor base;
    int64_t v; /* rows of W of a target */
    const double *proj;
    device_group group;
    cholesky made;   /* where it is computed: on the device, */
    factor *passing; /* or, else NULL, in the host's memory */
    fp16_factor *l;
    int64_t sample; /* rows of the right-hand side by which its tiles are chosen */
    double direction[2];
    double right;               /* largest of these */
    backend_cov_target *target; /* of which that is */
    void *work;                 /* of solves */
    size_t lwork;
    double *room; /* in the workspace: split FP16 parts of L, */
    int64_t kept; /* and so many doubles of the product */
} split_factor;

static int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* --- memory */

int64_t fp16_place(int64_t m) {
    const fp16_factor_options o = fp16_factor_defaults(m, 1, 0);
    return engine_aligned((int64_t)(fp16_factor_bytes(m, &o) / sizeof(double)) + 1);
}

/* Bytes of the residues by which it is computed, where it is. */
static size_t residues_of(const plan *p, int64_t m) {
    return p->split_moduli > 0 ? cholesky_residues(p->be, m, p->split_moduli, 1) : 0;
}

static void bytes_of(const sys *s, bool passing, plan *p) {
    const size_t m = s->m, t = sys_fit_rows(s), v = (size_t)p->rows, w = p->width;
    const size_t h = sizeof(backend_f16), d = sizeof(double), v8 = (size_t)fp16_rows(p->rows);
    const fp16_factor_options o = fp16_factor_defaults((int64_t)m, p->rows, 0);
    const size_t n = v < SAMPLE ? v : SAMPLE, tile = (size_t)o.tile;
    const size_t place = (size_t)fp16_place((int64_t)m) * d;
    const size_t sampling =
                     (3 * n * m + n * (v + t) + t * (w + 1) + m * (size_t)o.panel) * d + WORK,
                 residues = passing ? 0 : residues_of(p, (int64_t)m),
                 beyond =
                     sampling > residues ? sampling : residues; /* what is made of L, or makes it */
    plan_add(p, "factor of Cmm0 in split FP16, and inverses", place + (2 * m + 2 * v8) * tile * h);
    plan_add(p, "tables of covariances of its sample", p->target_tables);
    p->least = sampling;
    if (passing) {
        plan_add(p, "pieces of the factor", 2 * m * w * d);
        const size_t panels = 2 * w * m * d; /* the least that it is made by */
        p->least = panels > sampling ? panels : sampling;
    } else {
        p->least = m * m * d + beyond > place ? m * m * d + beyond - place : 0;
    }
}

static void bytes(const sys *s, plan *p) {
    bytes_of(s, false, p);
}

static void bytes_host(const sys *s, plan *p) {
    bytes_of(s, true, p);
}

static size_t host_bytes(const sys *s, const plan *p, int targets) {
    return factor_host.host(s, p, fp16_host_targets(targets));
}

static int64_t split_ground(const factor *base) {
    return fp16_place(base->e->m);
}

/* Doubles that sample_rows works in. */
static int64_t picking(const split_factor *x) {
    const engine *e = x->base.e;
    const int64_t n = x->sample;
    return engine_aligned(n * x->v) + engine_aligned(n * e->t) +
           engine_aligned(e->t * (e->width + 1));
}

static int64_t sampling(const split_factor *x) {
    const engine *e = x->base.e;
    const int64_t n = x->sample, d = sizeof(double);
    const fp16_factor_options o = fp16_factor_defaults(e->m, x->v, 0);
    int64_t all = engine_aligned(n * e->m) + picking(x);
    if (x->passing == NULL)
        return all + engine_aligned((int64_t)fp16_factor_make_work(x->l, n) / d + 1);
    all += 2 * engine_aligned(n * e->m) + engine_aligned(e->m * o.panel);
    return all + engine_aligned((int64_t)fp16_factor_panel_work(x->l, n) / d + 1);
}

static int64_t split_room(const factor *base, int n, int64_t kept) {
    const split_factor *x = (const split_factor *)base;
    const int64_t m = base->e->m, ground = fp16_place(m) + kept, some = sampling(x);
    const int64_t residues =
        x->made.moduli > 0
            ? (int64_t)(cholesky_residues(base->e->be, m, x->made.moduli, 1) / sizeof(double)) + 1
            : 0;
    if (x->passing == NULL)
        return max_of(ground, engine_aligned(m * m) + engine_aligned(max_of(some, residues)));
    return ground + max_of(some, factor_host.room(x->passing, fp16_host_targets(n), 0));
}

static status split_set_workspace(factor *base, int n, double *room, int64_t kept) {
    split_factor *x = (split_factor *)base;
    x->room = room;
    x->kept = kept;
    x->made.a = room;
    if (x->made.moduli > 0)
        x->made.residues = (void *)(room + engine_aligned(base->e->m * base->e->m));
    return x->passing == NULL ? MOAO_OK
                              : factor_host.set_workspace(x->passing, fp16_host_targets(n),
                                                          room + fp16_place(base->e->m) + kept, 0);
}

static status take_memory(split_factor *x) {
    engine *e = x->base.e;
    const fp16_factor_options o = fp16_factor_defaults(e->m, x->v, 0);
    status st;
    TRY(fp16_factor_open(e->be, e->ctx, e->m, &o, &x->l));
    x->lwork = fp16_factor_solve_work(x->l);
    TRY(engine_array(e, x->lwork, "work of solves", &x->work));
    if (x->passing == NULL) {
        TRY(engine_array(e, (size_t)cholesky_strips(&x->made) * sizeof(int), "numbers",
                         (void **)&x->made.info));
        TRY(engine_work(e, cholesky_work(&x->made)));
        if (x->made.moduli > 0)
            TRY(engine_array(e, (size_t)e->m * sizeof(int32_t), "exponents",
                             (void **)&x->made.exponent));
    }
    st = e->mat->open_target(e->cov, &x->target);
done:
    return st;
}

static void split_close(factor *base) {
    split_factor *x = (split_factor *)base;
    if (x->target != NULL)
        base->e->mat->close_target(x->target);
    fp16_factor_close(x->l);
    group_close(&x->group);
    factor_close(x->passing);
    ENGINE_RELEASE(base->e, x->work, x->made.info, x->made.exponent);
}

static status split_open(factor *base, const plan *p, const double *proj) {
    split_factor *x = (split_factor *)base;
    engine *e = base->e;
    status st;
    x->v = p->rows;
    x->proj = proj;
    x->sample = p->rows < SAMPLE ? p->rows : SAMPLE;
    memcpy(x->direction, e->s->targets[p->sample], sizeof x->direction);
    x->group.size = 1;
    x->made = (cholesky){
        .e = e, .group = &x->group, .moduli = base->kind->on_host ? 0 : p->split_moduli, .rows = 1};
    cholesky_widths(&x->made, e->width);
    if (base->kind->on_host) {
        plan of = *p;
        of.most = fp16_host_targets(p->most);
        of.fits = fp16_host_targets(p->fits);
        TRY(factor_open(&factor_host, e, &of, proj, &x->passing));
    }
    TRY(comm_agree(e->c, take_memory(x)));
    if (x->passing == NULL && x->made.moduli == 0)
        TRY(cholesky_join(&x->made, p->sharing == 1, !p->quiet));
done:
    return st;
}

/* --- the factor */

/* The next `count` doubles of some memory. */
static double *cut(double **from, int64_t count) {
    double *here = *from;
    *from += engine_aligned(count);
    return here;
}

/* b (+)= p times the right-hand side of the current direction, n x m: both axes of subapertures at
 * once, of which one evaluation gives the covariances. */
static status sample_columns(split_factor *x, const double *p, double *ctm, bool added, double *b) {
    engine *e = x->base.e;
    const int64_t n = x->sample, t = e->t;
    status st = MOAO_OK;
    for (slope_pairs k = {0}; slope_pairs_next(e->s, 0, e->m, e->width / 2, &k);) {
        TRY(engine_fill_right_both(e, x->target, k.slopes, ctm));
        for (int axis = 0; axis < 2; axis++)
            TRY(engine_gemm(e, 'N', 'N', n, k.n, t, 1.0, p, n, ctm + axis * k.n * t, t, added,
                            b + k.column[axis] * n, n));
    }
done:
    return st;
}

/* Evenly spread rows of P Ctm0 in the sample's direction, n x m, with `room` for `picking` numbers
 * more. Conditions are the reconstructor's. Waits. */
static status sample_rows(split_factor *x, double *b, double *room) {
    engine *e = x->base.e;
    const int64_t n = x->sample, t = e->t, step = x->v / n;
    double *pick = cut(&room, n * x->v), *p = cut(&room, n * t),
           *ctm = cut(&room, t * (e->width + 1));
    double *ones = NULL;
    status st;
    TRY(ALLOC(ones, (size_t)(n * x->v), "a sample of rows"));
    for (int64_t i = 0; i < n; i++)
        ones[i + i * step * n] = 1;
    TRY(engine_copy(e, pick, ones, n * x->v));
    TRY(e->mat->aim(x->target, x->direction, false));
    for (int d = 0; d < e->ndir; d++) {
        TRY(engine_gemm(e, 'N', 'N', n, t, x->v, 1.0, pick, n, x->proj + d * x->v * t, x->v, 0.0, p,
                        n));
        TRY(engine_sync(e));
        TRY(engine_aim_right(e, x->target, d));
        TRY(sample_columns(x, p, ctm, d > 0, b));
    }
    TRY(e->be->fp16->max_abs(e->ctx, BACKEND_D, n, e->m, b, n, pick));
    TRY(engine_copy(e, &x->right, pick, 1));
    st = engine_sync(e);
done:
    free(ones);
    return st;
}

/* What is on the device becomes split FP16 in its own place. */
static status take_made(split_factor *x, int *info) {
    const int64_t m = x->base.e->m, n = x->sample;
    const size_t work = fp16_factor_make_work(x->l, n);
    double *room = x->room + engine_aligned(m * m), *b = cut(&room, n * m);
    status st;
    TRY(sample_rows(x, b, room));
    room += picking(x);
    st = fp16_factor_make(x->l, x->room, m, n, b, n, x->room, room, work, info);
done:
    return st;
}

/* Root of twice the largest of the variances, of which every 64th is looked at, and its
 * neighbours. */
static status find_bound(split_factor *x, double *tile, double *bound) {
    enum { N = 8, STEP = 64 };
    engine *e = x->base.e;
    double host[N * N], most = 0;
    status st = MOAO_OK;
    for (int64_t j = 0; j < e->m; j += STEP) {
        const int64_t n = e->m - j < N ? e->m - j : N;
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){j, n, j, n}, tile,
                             n));
        TRY(engine_copy(e, host, tile, n * n));
        TRY(engine_sync(e));
        for (int64_t i = 0; i < n; i++)
            most = fmax(most, host[i * (n + 1)]);
    }
    *bound = sqrt(2 * most);
done:
    return st;
}

/* What is in the host's memory comes panel by panel and becomes split FP16. */
static status take_host(split_factor *x, int *info) {
    engine *e = x->base.e;
    const int64_t m = e->m, n = x->sample, size = n * m;
    const fp16_factor_options o = fp16_factor_defaults(m, x->v, 0);
    const size_t lwork = fp16_factor_panel_work(x->l, n);
    double *room = x->room + fp16_place(m) + x->kept;
    double *b = cut(&room, size), *const behind = room;
    double *w, *solved, *stage, bound;
    status st;
    TRY(sample_rows(x, b, behind));
    room += picking(x);
    solved = cut(&room, size), w = cut(&room, size), stage = cut(&room, m * o.panel);
    const wrows rows = {.rows = n, .ld = n, .w = w};
    TRY(engine_copy(e, w, b, size));
    TRY(streamed_triangles(x->passing, true, false, 1, &rows));
    TRY(engine_copy(e, solved, w, size));
    TRY(streamed_triangles(x->passing, false, true, 1, &rows));
    TRY(find_bound(x, stage, &bound));
    TRY(fp16_factor_begin(x->l, bound, &(fp16_sample){n, b, n, solved, w, n}, x->room));
    for (int64_t j = 0, some; j < m; j += some) {
        some = m - j < o.panel ? m - j : o.panel;
        TRY(streamed_columns_of(x->passing, j, some, stage, m - j));
        TRY(fp16_factor_panel(x->l, j, stage, m - j, room, lwork));
    }
    st = fp16_factor_end(x->l, info);
done:
    return st;
}

/* Whether any rank has found a minor that is not positive: what it is then made of is no factor. */
static bool found(const engine *e, int minor) {
    int any = minor > 0;
    MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, e->c->mpi);
    return any != 0;
}

static status split_make(factor *base, const profile *p, int *minor) {
    split_factor *x = (split_factor *)base;
    engine *e = base->e;
    int info = 0;
    status st = x->passing != NULL ? factor_host.make(x->passing, p, minor)
                                   : cholesky_factor(&x->made, p, minor);
    TRY(engine_agree(e, STAGE_FACTOR, st));
    if (found(e, *minor))
        return st;
    const double from = report_now();
    report_phase("reconstructor: FP16");
    TRY(x->passing != NULL ? take_host(x, &info) : take_made(x, &info));
    TRY(engine_sync(e));
    if (info != 0)
        st = status_fail(MOAO_NUMERIC, "the factor of Cmm0 cannot be kept in FP16; use "
                                       "compute.precision=double");
    e->rep->wall[STAGE_FACTOR] += report_now() - from;
done:
    return st;
}

/* --- W */

/* Of the next solve. */
static double allowed(const factor *base) {
    const engine *e = base->e;
    const int level = base->accuracy.level;
    return (level == 0 && e->m >= LARGE && !e->phase ? 2 : 1) * accuracy[level];
}

static double expected(const factor *base) {
    return allowed(base) + FLOOR;
}

status fp16_factor_begin_solves(factor *base, bool accurate) {
    split_factor *x = (split_factor *)base;
    status st;
    TRY(fp16_factor_choose(x->l, accurate ? 0 : allowed(base)));
    fp16_factor_pieces(x->l, accurate ? ACCURATE_PIECES : FP16_DEPTH);
done:
    return st;
}

status fp16_factor_divide(factor *base, float *b, backend_f16 *hi, backend_f16 *lo) {
    split_factor *x = (split_factor *)base;
    return fp16_factor_solve(x->l, x->v, b, x->v, hi, lo, fp16_rows(x->v), x->work, x->lwork);
}

status fp16_factor_step(factor *base, int up, float *r, backend_f16 *hi, backend_f16 *lo, bool add,
                        double *w, int64_t ld) {
    const split_factor *x = (const split_factor *)base;
    engine *e = base->e;
    const int64_t v = x->v, m = e->m;
    const float none = 0, factor = ldexpf(1, up);
    status st;
    TRY(e->be->gemm(e->ctx, BACKEND_S, 'N', 'N', v, m, 1, &none, r, v, r, 1, &factor, r, v, e->work,
                    e->lwork));
    TRY(fp16_factor_divide(base, r, hi, lo));
    st = e->be->fp16->cast_to_double(e->ctx, v, m, ldexp(1, -up), r, v, add, w, ld);
done:
    return st;
}

double fp16_factor_right(const factor *base) {
    return ((const split_factor *)base)->right;
}

int fp16_factor_w_exponent(const factor *base) {
    return fp16_factor_exponent(((const split_factor *)base)->l);
}

#define FP16_TABLE                                                                                 \
    .size = sizeof(factor_kind), .object = sizeof(split_factor), .split = true, .levels = 3,       \
    .open = split_open, .close = split_close, .ground = split_ground, .room = split_room,          \
    .set_workspace = split_set_workspace, .make = split_make, .expected = expected

const factor_kind factor_fp16 = {.name = "fp16", .word = "fp16", .bytes = bytes, FP16_TABLE};
const factor_kind factor_fp16_host = {.name = "fp16_host",
                                      .word = "fp16_host",
                                      .on_host = true,
                                      .bytes = bytes_host,
                                      .host = host_bytes,
                                      FP16_TABLE};
