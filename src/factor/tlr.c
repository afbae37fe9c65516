/* The factor as a tile low-rank matrix (linalg/include/moao/tlr.h): less memory than the triangle,
 * and W as exact as the tolerance of the compression, which the run chooses by what it changes in
 * the images (job/accuracy.h). Where it is asked for, W is refined: a step with Cmm0 itself squares
 * its error. */
#include "factor/factor.h"
#include "factor/tlr_cmm.h"
#include "factor/tlr_refine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Products in single precision, on the CPU, take half the time; what they round changes W as a
 * tolerance of about 1/100 of the noise does, so they serve down to 1/64. On a device, where
 * products of FP16 numbers in three terms take their place, the ranks of 102,752 measurements grow
 * by what is rounded: by 6 % at half the noise, where they pay, by a quarter at an eighth, where
 * they do not. Of its solves nothing is compressed, so that they are in terms as far as on the CPU.
 */
#define MIXED_STEPS (6 * FACTOR_OCTAVE)
#define SPLIT_STEPS FACTOR_OCTAVE
#define TERMS 3
#define DEVICE_MEMORY ((size_t)3 << 29) /* of a device, for intermediate products */

#define TURNS 3       /* factors with smaller tolerances, before W is refined instead */
#define RESIDUAL 1e-3 /* of W, above that of any whose images have passed */
#define REFINEMENTS 4 /* of a W, at most */

typedef struct {
    factor base;
    int64_t v; /* rows of W of a target */
    int64_t tile;
    bool fp16; /* the factor's columns that may be are kept as such */
    bool distributed;
    bool out_of_core; /* block columns are kept in the host's memory */
    tlr_cmm cmm;
    tlr_group group; /* whose members make a factor together */
    tlr *l;
    double noise; /* least of a slope [arcsec^2] */
    tlr_report made;
    bool say, told;
    double *area;    /* memory of the targets, while none has a W */
    double *x;       /* tlr_refine_doubles: v x m, W in the order of the tiles */
    tlr_refine fine; /* of products that need a refined W */
} compressed;

static size_t least_of(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Of a factor out of core the blocks on the diagonal stay on the device. */
static size_t diagonal(size_t m, int64_t tile) {
    return m * least_of((size_t)tlr_cmm_width(tile), m) * sizeof(double);
}

/* What a factor is made in: block columns, and intermediate products. On a device the next block
 * column is there too, and more of these, which take what they get; where several ranks make it,
 * messages take less than what each has not to compress. */
static size_t made_in(size_t m, int64_t tile, bool on_cpu) {
    const size_t columns = diagonal(m, tile);
    return on_cpu ? 3 * columns + least_of(4 * columns, (size_t)3 << 30)
                  : 4 * columns + ((size_t)5 << 30);
}

/* How much compression saves is predicted (engine/plan.h), or half of the triangle. */
static void add_bytes(const sys *s, bool out_of_core, plan *p) {
    const size_t m = s->m, v = (size_t)p->rows, d = sizeof(double);
    double factor = p->compressed > 0 ? p->compressed : (double)(m * m / 4 * d);
    if (p->members > 1) /* the blocks on the diagonal are replicated */
        factor = factor / p->members + (double)diagonal(m, p->tile);
    if (out_of_core)
        plan_add(p, "diagonal blocks of the compressed factor", diagonal(m, p->tile));
    else
        plan_add(p, "compressed factor of Cmm0", (size_t)factor + diagonal(m, p->tile) / 4);
    if (!out_of_core)
        plan_add(p, "what it is made in", made_in(m, p->tile, p->host));
    plan_add(p, "panel of Cmm0 or of Cmm of an exposure", m * p->width * d);
    plan_add(p, "W in the order of tiles, a residual", 2 * v * m * d);
    p->least = m * (size_t)tlr_cmm_widest(s) * d; /* columns of a sensor, while it is made */
    if (out_of_core) { /* before W and the residual, too, but for those */
        const size_t all = p->least + made_in(m, p->tile, p->host), own = 2 * v * m * d;
        p->least = all > own ? all - own : 0;
    }
}

static void bytes(const sys *s, plan *p) {
    add_bytes(s, false, p);
}

static void bytes_out_of_core(const sys *s, plan *p) {
    add_bytes(s, true, p);
}

/* Half of the dense triangle: ranks are not known here. */
static size_t host_bytes(const sys *s, const plan *p, int targets) {
    (void)p, (void)targets;
    return s->m * s->m / 4 * sizeof(double);
}

static void compressed_close(factor *base) {
    compressed *o = (compressed *)base;
    const engine *e = base->e;
    tlr_close(o->l);
    tlr_refine_close(&o->fine);
    void *const mine[] = {o->base.panel, o->out_of_core ? NULL : o->x,
                          o->out_of_core ? NULL : o->base.spare};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        e->be->release(e->ctx, mine[i]);
    tlr_cmm_close(&o->cmm);
    tlr_group_close(&o->group);
}

static status take_memory(compressed *o) {
    engine *e = o->base.e;
    status st;
    TRY(tlr_cmm_open(e, o->tile, &o->cmm));
    TRY(engine_doubles(e, e->m * e->width, "columns of Cmm", &o->base.panel));
    if (!o->out_of_core)
        TRY(engine_doubles(e, tlr_refine_doubles(o->v, e->m), "W in the order of tiles", &o->x));
done:
    return st;
}

static status compressed_open(factor *base, const plan *p, const double *proj) {
    compressed *o = (compressed *)base;
    engine *e = base->e;
    status st;
    (void)proj;
    o->v = p->rows;
    o->say = !p->quiet && e->c->rank == 0;
    o->tile = p->tile;
    o->fp16 = p->fp16;
    o->out_of_core = base->kind->on_host;
    o->distributed = p->members > 0 && !o->out_of_core;
    base->accuracy.level = FACTOR_LEVEL;
    TRY(comm_agree(e->c, take_memory(o)));
    if (o->out_of_core) { /* each rank makes its own */
        tlr_group_alone(e, &o->group);
    } else {
        TRY(tlr_group_open(e, p->sharing == 1, !p->quiet, &o->group));
        o->cmm.group = &o->group;
    }
done:
    return st;
}

/* The columns of a sensor, of which tiles are made, lie where W of the targets will; out of core
 * what a factor is made in follows, and W in the order of tiles and a residual are in front. */
static int64_t columns_of_sensor(const factor *base) {
    return engine_aligned(base->e->m * tlr_cmm_widest(base->e->s));
}

static size_t workspace(const compressed *o) {
    const engine *e = o->base.e;
    return made_in((size_t)e->m, o->tile, strcmp(e->be->name, "cpu") == 0);
}

static int64_t room_to_make(const compressed *o) {
    const int64_t work = o->out_of_core ? (int64_t)(workspace(o) / sizeof(double)) + 64 : 0;
    return columns_of_sensor(&o->base) + work;
}

static int64_t compressed_room(const factor *base, int n, int64_t kept) {
    (void)n;
    return kept + room_to_make((const compressed *)base);
}

static status compressed_set_workspace(factor *base, int n, double *room, int64_t kept) {
    compressed *o = (compressed *)base;
    (void)n;
    o->area = room + kept;
    return MOAO_OK;
}

static int64_t ground_out_of_core(const factor *base) {
    const compressed *o = (const compressed *)base;
    const int64_t m = base->e->m;
    return engine_aligned(tlr_refine_doubles(o->v, m)) + engine_aligned(o->v * m);
}

static int64_t room_out_of_core(const factor *base, int n, int64_t kept) {
    const int64_t all = room_to_make((const compressed *)base),
                  own = ground_out_of_core(base) + kept;
    (void)n;
    return all > own ? all : own;
}

static status set_workspace_out_of_core(factor *base, int n, double *room, int64_t kept) {
    compressed *o = (compressed *)base;
    (void)n, (void)kept;
    o->area = o->x = room;
    base->spare = room + engine_aligned(tlr_refine_doubles(o->v, base->e->m));
    return MOAO_OK;
}

/* --- factor */

/* By how many levels results become exact enough that differ by `excess` times what is allowed,
 * half of which is aimed at: the difference is quadratic in the tolerance. At least one, at most to
 * a sixteenth of the tolerance. */
static int tighter(double excess) {
    double factor = 0.7 * sqrt(1 / excess);
    factor = factor >= 1.0 / 16 ? fmin(factor, 1) : 1.0 / 16; /* NaN, too */
    return (int)fmax(1, ceil(-FACTOR_OCTAVE * log2(factor)));
}

/* A smaller tolerance some times, then W is refined, or, where that does not converge, nothing
 * dropped. */
static status tighten(factor *base, double excess, linop_step from, linop_step *again) {
    factor_accuracy *a = &base->accuracy;
    if (from > LINOP_FACTOR || a->dense)
        return MOAO_OK;
    *again = LINOP_FACTOR;
    if (a->turns++ < TURNS) {
        a->level += base->refines && !isfinite(excess) ? 2 * FACTOR_OCTAVE : tighter(excess);
    } else if (isfinite(excess)) {
        a->refine = true;
        *again = LINOP_SOLVE;
    } else {
        a->dense = true;
    }
    return MOAO_OK;
}

static double expected(const factor *base) {
    (void)base;
    return RESIDUAL;
}

/* Mean rank of the low-rank tiles of L, 0: none. */
static double mean_lowrank(const tlr *l, const tlr_layout *order) {
    double sum = 0, n = 0;
    for (int64_t k = 0; k < order->nt; k++)
        for (int64_t i = k + 1; i < order->nt; i++) {
            const tlr_tile *t = tlr_tile_at(l, i, k);
            if (t != NULL && t->kind == TLR_LOWRANK) /* NULL: in a diagonal block */
                sum += (double)t->rank, n++;
        }
    return n > 0 ? sum / n : 0;
}

static void look(const factor *base, report_compression *c) {
    const compressed *o = (const compressed *)base;
    tlr_stats s = {0};
    double lowrank = 0;
    if (o->l != NULL) {
        tlr_statistics(o->l, &s);
        lowrank = mean_lowrank(o->l, &o->cmm.order);
    }
    *c = (report_compression){.tile = (int)s.order,
                              .tolerance = o->made.dense ? 0 : o->made.tau,
                              .noise = o->noise,
                              .restarts = o->made.restarts,
                              .mean = s.mean,
                              .mean_lowrank = lowrank,
                              .p90 = (long)s.p90,
                              .largest = (long)s.most,
                              .tiles = (long)s.tiles,
                              .dense = (long)s.dense,
                              .empty = (long)s.empty,
                              .fp16 = s.columns > 0 ? (double)s.fp16 / (double)s.columns : 0,
                              .bytes = s.bytes,
                              .bytes_dense = s.bytes_dense,
                              .shifts = (long)o->made.shifts,
                              .shift = o->made.shift};
    for (int i = 0; i < 16; i++)
        c->histogram[i] = (long)s.histogram[i];
}

static status ranks(const factor *base, factor_ranks *r) {
    const compressed *o = (const compressed *)base;
    const tlr_layout *l = &o->cmm.order;
    status st;
    *r = (factor_ranks){.n = o->l != NULL ? l->nt : 0};
    TRY(ALLOC(r->rank, (size_t)(r->n * r->n), "ranks of a factor"));
    TRY(ALLOC(r->order, (size_t)r->n, "ranks of a factor"));
    TRY(ALLOC(r->sensor, (size_t)r->n, "ranks of a factor"));
    for (int64_t i = 0; i < r->n; i++) {
        r->order[i] = (int)(l->first[i + 1] - l->first[i]);
        r->sensor[i] = tlr_cmm_sensor(&o->cmm, i);
        for (int64_t k = 0; k < r->n; k++) {
            const tlr_tile *t = k < i ? tlr_tile_at(o->l, i, k) : NULL;
            r->rank[i * r->n + k] = t == NULL ? NAN : (float)t->rank;
        }
    }
done:
    return st;
}

/* Which measurement a minor that is not positive belongs to, in the sensors' order. */
static int natural_minor(const compressed *o, const tlr_report *report) {
    return report->minor > 0 ? (int)o->cmm.order.perm[report->minor - 1] + 1 : 0;
}

/* What to do where memory ran out while a factor was made, with what is known of it. A member that
 * had memory has no message, and leaves that to the others. */
static void say_memory(const compressed *o) {
    const tlr_report *r = &o->made;
    const double n = (double)o->base.e->m;
    char why[512];
    snprintf(why, sizeof why, "%s", status_message());
    if (why[0] == '\0')
        return;
    status_clear();
    (void)status_fail(
        MOAO_MEMORY,
        "no memory for the compressed factor of Cmm after %.0f %% of its columns (%s): at %.1e "
        "arcsec^2 a tile ranks are %.1f on average there, of %lld, %lld of %lld tiles dense, "
        "%.3g GB in all; use a larger compute.tlr_tolerance, or compute.factor=dense, %s",
        100 * (double)r->columns / n, why, r->dense ? 0 : r->tau, r->made.mean,
        (long long)r->made.order, (long long)r->made.dense, (long long)r->made.tiles,
        r->made.bytes / 1e9,
        o->base.e->be->group != NULL ? "which may keep the factor in the host's memory"
        : o->distributed             ? "or more ranks on more nodes"
                                     : "or compute.tlr_distributed with more ranks on more nodes");
}

/* As pool.h has it. */
static void *align(double *p) {
    return (void *)(((uintptr_t)p + 511) / 512 * 512);
}

/* A factor of the profile loaded, as accurate as it was asked for; its entries are made in `strip`.
 */
static status make_factor(compressed *o, double *strip, int *minor) {
    engine *e = o->base.e;
    factor_accuracy *a = &o->base.accuracy;
    const bool on_cpu = strcmp(e->be->name, "cpu") == 0;
    const double tau =
        a->dense || !(o->noise > 0) ? 0 : o->noise * exp2(-(double)a->level / FACTOR_OCTAVE);
    const bool mixed =
        tau > 0 && !o->out_of_core && a->level <= (on_cpu ? MIXED_STEPS : SPLIT_STEPS);
    const size_t m = (size_t)e->m;
    const tlr_options with = {
        .tau = tau,
        .cut = -1,
        .width = tlr_cmm_width(o->tile),
        .seed = 1,
        .fp32 = tau > 0,
        .fp16 = o->fp16,
        .memory = mixed && !on_cpu ? DEVICE_MEMORY : 0,
        .mixed = mixed,
        .terms = on_cpu ? 0 : TERMS,
        .distributed = o->distributed,
        .host = o->out_of_core,
        .room = o->out_of_core ? diagonal(m, o->tile) + workspace(o) : 0,
        .workspace = o->out_of_core ? align(strip + columns_of_sensor(&o->base)) : NULL,
        .parts = o->out_of_core ? 0 : tlr_group_parts(&o->group, o->distributed, e->m)};
    const tlr_rescue rescue = {.retries = 2, .shift = 0.1 * o->noise, .dense = true};
    const tlr_source source = {.layout = &o->cmm.order,
                               .fill = tlr_cmm_fill,
                               .arg = &o->cmm,
                               .members = tlr_group_procs(&o->group),
                               .own_rows = tlr_cmm_own_rows(&o->cmm)};
    status st;
    report_phase("factor: compressed");
    tlr_close(o->l);
    o->l = NULL;
    o->told = false;
    o->cmm.strip = strip;
    o->cmm.held = -1;
    st = tlr_factor(e->be, e->ctx, &source, 'L', &with, &rescue, &o->l, &o->made);
    if (st == MOAO_MEMORY)
        say_memory(o);
    /* W by its upper parts alone, where columns are kept in FP16, changes as much again as by
     * the tolerance: that serves where tolerances are loose */
    if (st == MOAO_OK && !on_cpu && (a->level <= MIXED_STEPS || o->base.refines))
        tlr_set_split(o->l, TERMS, mixed ? 1 : 2);
    if (st == MOAO_NUMERIC && o->made.minor > 0) { /* told by tor_factor */
        *minor = natural_minor(o, &o->made);
        status_clear();
        st = MOAO_OK;
    }
    a->level += 2 * FACTOR_OCTAVE * o->made.restarts; /* a fourth each time */
    a->dense = o->made.dense || o->made.tau == 0;
    return st;
}

static status compressed_make(factor *base, const profile *p, int *minor) {
    compressed *o = (compressed *)base;
    engine *e = base->e;
    const double from = report_now(), m = (double)e->m;
    double *own = NULL, *strip = o->area;
    status st;
    st = engine_load(e, p);
    if (st == MOAO_OK)
        st = tlr_cmm_noise(e->mc, e->m, &o->noise);
    if (st == MOAO_OK && strip == NULL) { /* before targets have room */
        st = engine_doubles(e, room_to_make(o), "columns of Cmm0 of a sensor", &own);
        strip = own;
    }
    TRY(tlr_group_begin(&o->group, st));
    st = make_factor(o, strip, minor);
done:
    e->be->release(e->ctx, own);
    e->rep->wall[STAGE_FACTOR] += report_now() - from;
    e->rep->flops[STAGE_FACTOR] += m * m * m / 3 / o->group.group.size;
    return st;
}

/* --- solve */

/* For the tests of what is done about a factor that is not exact enough: x (v x m) becomes `factor`
 * times what it is, where MOAO_FAULT says so and something was dropped. */
static status inject(const compressed *o, const char *where, double factor, double *x, int64_t v,
                     int64_t ld) {
    engine *e = o->base.e;
    return o->base.accuracy.dense || !comm_flips(e->c, where)
               ? MOAO_OK
               : engine_gemm(e, 'N', 'N', v, e->m, 1, 0, x, ld, x, 1, factor, x, ld);
}

/* o->x := src M^-1, v rows, in the order of tiles; M the compressed matrix. Where that is
 * distributed, all ranks take part (assist). */
static status divide(compressed *o, int64_t v, const double *src, int64_t ld) {
    const engine *e = o->base.e;
    bool any;
    status st = MOAO_OK;
    if (o->distributed)
        TRY(tlr_group_round(&o->group, MOAO_OK, true, &any));
    TRY(e->be->gather(e->ctx, BACKEND_D, v, e->m, NULL, o->cmm.perm, src, ld, 0, o->x, v));
    TRY(tlr_solve(o->l, 'R', 'A', v, o->x, v));
    st = inject(o, "tlr-factor", 3, o->x, v, v);
done:
    return st;
}

/* This rank's part in a step of others. */
static status assist(compressed *o) {
    return tlr_solve(o->l, 'R', 'A', 0, o->x, 1);
}

/* W := src M^-1 (add: W +=); src is W itself or a residual. */
static status take_step(compressed *o, const wrows *w, const double *src, int64_t ld, bool add) {
    const engine *e = o->base.e;
    status st;
    TRY(divide(o, w->rows, src, ld));
    st = e->be->gather(e->ctx, BACKEND_D, w->rows, e->m, NULL, o->cmm.back, o->x, w->rows, add,
                       w->w, w->ld);
done:
    return st;
}

/* r -= W Cmm0, panel by panel. */
static status subtract_product(compressed *o, const wrows *w) {
    engine *e = o->base.e;
    const int64_t m = e->m, v = w->rows;
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < m; j += n) {
        n = engine_width(e, j, m);
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, m, j, n},
                             o->base.panel, m));
        TRY(engine_gemm(e, 'N', 'N', v, n, m, -1.0, w->w, w->ld, o->base.panel, m, 1.0,
                        o->base.spare + j * v, v));
    }
    e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * m) * (double)m;
done:
    return st;
}

static status take_spare(compressed *o) {
    return o->base.spare != NULL ? MOAO_OK
                                 : engine_doubles(o->base.e, o->v * o->base.e->m,
                                                  "residual of a target", &o->base.spare);
}

/* W that is exact up to the compression and, where it is asked for, a step of refinement. */
static status solve_once(compressed *o, const wrows *w) {
    engine *e = o->base.e;
    const bool refine = o->base.accuracy.refine;
    const int64_t m = e->m, v = w->rows, d = sizeof(double);
    status st = MOAO_OK;
    if (refine)
        TRY(take_spare(o));
    if (refine)
        TRY(e->be->copy(e->ctx, o->base.spare, v * d, w->w, w->ld * d, v * d, m));
    TRY(take_step(o, w, w->w, w->ld, false));
    TRY(inject(o, "tlr-w", 1 + 0x1p-4, w->w, v, w->ld));
    if (refine) {
        TRY(subtract_product(o, w));
        TRY(take_step(o, w, o->base.spare, v, true));
    }
    e->rep->flops[STAGE_SOLVE] += (refine ? 4.0 : 2.0) * (double)(v * m) * (double)m;
done:
    return st;
}

/* Rank 0, once for each factor. */
static void say_refined(compressed *o, int steps, double first, double last) {
    if (o->say && !o->told)
        progress_note("  W by it: |W Cmm - D+ Ctm| / |D+ Ctm| %.1e, after %d refinement%s %.1e",
                      first, steps, steps == 1 ? "" : "s", last);
    o->told = true;
}

/* W that is refined, where that is needed, until it is exact enough for products that take B0 for W
 * Cmm0. */
static status solve_refined(compressed *o, const wrows *w) {
    engine *e = o->base.e;
    const int64_t v = w->rows;
    double first, rho, before = INFINITY;
    int steps = 0;
    status st = MOAO_OK;
    TRY(take_spare(o));
    if (o->fine.e == NULL)
        TRY(tlr_refine_open(e, o->v, o->x, o->base.panel, o->base.spare, &o->fine));
    TRY(tlr_refine_start(&o->fine, w));
    TRY(take_step(o, w, w->w, w->ld, false));
    e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * e->m) * (double)e->m;
    TRY(tlr_refine_check(&o->fine, w, &rho));
    first = rho;
    if (rho > FACTOR_REFINED || isnan(rho)) /* the same again, rounded to FP16 */
        TRY(tlr_refine_advance(&o->fine, &o->cmm, false, w));
    while (!(rho <= FACTOR_REFINED) && steps < REFINEMENTS && rho < before / 2) {
        report_phase("solve: residual of W");
        TRY(tlr_refine_residual(&o->fine, v));
        report_phase("solve: compressed triangles");
        TRY(divide(o, v, o->base.spare, v));
        TRY(tlr_refine_advance(&o->fine, &o->cmm, true, w));
        before = rho;
        TRY(tlr_refine_check(&o->fine, w, &rho));
        e->rep->flops[STAGE_SOLVE] += 2.0 * (double)(v * e->m) * (double)e->m;
        steps++;
    }
    say_refined(o, steps, first, rho);
done:
    return st;
}

static status compressed_solve(factor *base, int n, const wrows *w) {
    compressed *o = (compressed *)base;
    status st = MOAO_OK;
    report_phase("solve: compressed triangles");
    for (int k = 0; k < n; k++) {
        if (w[k].rows > 0)
            TRY(o->base.refines ? solve_refined(o, &w[k]) : solve_once(o, &w[k]));
        engine_progress(base->e);
    }
done:
    return st;
}

/* factor_kind.solved */
static status finish_rounds(factor *base, status local) {
    compressed *o = (compressed *)base;
    bool any = o->distributed;
    status st = local;
    while (any) {
        TRY(tlr_group_round(&o->group, st, false, &any));
        if (any)
            st = assist(o);
    }
done:
    return st;
}

static status refine(factor *base, const wrows *w, bool again) {
    compressed *o = (compressed *)base;
    status st = MOAO_OK;
    if (again)
        TRY(tlr_refine_residual(&o->fine, w->rows));
    TRY(divide(o, w->rows, base->spare, w->rows));
    st = tlr_refine_advance(&o->fine, &o->cmm, true, w);
done:
    return st;
}

#define TLR_TABLE                                                                                  \
    .size = sizeof(factor_kind), .object = sizeof(compressed), .compressed = true,                 \
    .shares_panel = true, .open = compressed_open, .close = compressed_close,                      \
    .make = compressed_make, .solve = compressed_solve, .solved = finish_rounds, .refine = refine, \
    .look = look, .ranks = ranks, .tighten = tighten, .expected = expected

const factor_kind factor_tlr = {.name = "tlr",
                                .word = "tlr",
                                .bytes = bytes,
                                .room = compressed_room,
                                .set_workspace = compressed_set_workspace,
                                TLR_TABLE};
const factor_kind factor_tlr_host = {.name = "tlr_host",
                                     .word = "tlr_host",
                                     .on_host = true,
                                     .bytes = bytes_out_of_core,
                                     .host = host_bytes,
                                     .ground = ground_out_of_core,
                                     .room = room_out_of_core,
                                     .set_workspace = set_workspace_out_of_core,
                                     TLR_TABLE};
