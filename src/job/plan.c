#include "job/plan.h"

#include "base/machine_constants.h"
#include "obsseq/budget.h"
#include "obsseq/fit.h"

#include "matcov/matcov.h"
#include "tor/command.h"
#include "tor/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of W on a rank beyond which more gain little: receiving the panels is then a few percent of
 * the products' time (docs/scaling.md), and checkpoints still come after minutes. */
#define ROWS_PER_RANK 24576

static int ceil_div(int a, int b) {
    return (a + b - 1) / b;
}

/* Grid of ranks, as square as the number of ranks allows, no taller than wide. */
static status choose_grid(const params *par, int nrank, plan *p) {
    p->nprow = par->compute_grid[0];
    p->npcol = par->compute_grid[1];
    if (p->nprow == 0 && p->npcol == 0) {
        for (int r = 1; r * r <= nrank; r++)
            if (nrank % r == 0)
                p->nprow = r;
        p->npcol = nrank / p->nprow;
    }
    if ((long long)p->nprow * p->npcol != nrank)
        return status_fail(MOAO_INPUT, "compute.grid: %d x %d is not the number of ranks, %d",
                           p->nprow, p->npcol, nrank);
    return MOAO_OK;
}

static void choose_panels(const params *par, const sys *s, plan *p) {
    p->block = par->compute_block > 0 ? par->compute_block : 128;
    p->width = par->compute_panel > 0 ? (size_t)par->compute_panel : s->m >= 4096 ? 512 : 256;
    p->width = (p->width + (size_t)p->block - 1) / (size_t)p->block * (size_t)p->block;
}

plan_sizes plan_find_sizes(const sys *s, const atmos *a, const psf_opts *o) {
    plan_sizes z = {.command = command_work_bytes(s),
                    .way = {command_choose(s, false), command_choose(s, true)}};
    for (int i = 0; i < a->nprofile; i++)
        if (a->profiles[i].nlayer > z.nlayer)
            z.nlayer = a->profiles[i].nlayer;
    for (int k = 0; k < a->ntor; k++) {
        int first, end;
        atmos_exposures_of(a, k, &first, &end);
        z.nexposure = end - first > z.nexposure ? end - first : z.nexposure;
    }
    if (s->fit.phase)
        z.command = fit_work_bytes(s, o);
    if (o->budget) {
        const size_t start = mirror_budget_work(s, o) + mirror_budget_bytes(s);
        z.command = start > z.command ? start : z.command;
    }
    z.psf = psf_bytes(s, o) + (size_t)z.nexposure * psf_fit_bytes(s, o);
    z.points = psf_points_of(s, o);
    z.tables = matcov_held_bytes(s, z.nlayer, atmos_count_layerings(a, MATCOV_LAYERINGS));
    z.target_tables = matcov_target_bytes(s, z.nlayer);
    z.image = (size_t)o->nlambda * (size_t)o->crop * (size_t)o->crop * sizeof(float);
    return z;
}

bool plan_wants_mixed(const params *par) {
    return par->compute_precision == PRECISION_PARAM_MIXED ||
           par->compute_product == PRODUCT_PARAM_FP16;
}

bool plan_fp16(const params *par) {
    return plan_wants_mixed(par) && !par->compute_tlr_distributed;
}

int plan_members(const params *par, const machine_room *room) {
    const int nodes = room->nnode > 0 ? room->nnode : 1;
    return !par->compute_tlr_distributed ? 0 : room->host ? room->nrank : room->nrank / nodes;
}

/* Whether factor and product are both left to the program. */
static bool plan_is_automatic(const params *par) {
    return par->compute_factor == FACTOR_PARAM_AUTO && par->compute_product == PRODUCT_PARAM_AUTO;
}

bool plan_own_device(const params *par, const plan_sizes *z, int nrank) {
    return par->compute_factor == FACTOR_PARAM_TLR ||
           par->compute_product == PRODUCT_PARAM_TOEPLITZ ||
           (plan_is_automatic(par) && nrank == 1 && z->grid_pays);
}

bool plan_may_compress(const params *par) {
    const linop_pair *named = linop_find(getenv("MOAO_OPERATOR"));
    return par->compute_factor == FACTOR_PARAM_TLR || par->compute_factor == FACTOR_PARAM_AUTO ||
           (named != NULL && named->factor->compressed);
}

status plan_predict(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                    plan_sizes *z) {
    z->grid_pays = plan_is_automatic(par) && plan_toeplitz_pays(par, s, a, o);
    if (!plan_may_compress(par))
        return MOAO_OK;
    return tlr_predict(s, atmos_tor_profile(a, 0),
                       tlr_cmm_tile((int64_t)s->m, par->compute_tlr_tile), plan_first_level(par),
                       plan_fp16(par), &z->ranks);
}

int plan_first_level(const params *par) {
    const double tolerance = par->compute_tlr_tolerance;
    return tolerance > 0 ? (int)lround(-FACTOR_OCTAVE * log2(tolerance)) : FACTOR_LEVEL;
}

static void add_item(plan *p, const char *name, size_t bytes) {
    p->item[p->nitem].name = name;
    p->item[p->nitem++].bytes = bytes;
}

/* Memory of a rank that holds kg targets of a group of g ranks. */
static void count_memory(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                         const machine_room *room, const plan_sizes *z, int g, int kg, plan *p) {
    const int nrank = room->nrank;
    const size_t m = s->m, t = sys_fit_rows(s), v = (size_t)s->dm.nact, w = p->width,
                 d = sizeof(double);
    const size_t nl = (v + (size_t)g - 1) / (size_t)g, ld = (size_t)kg * nl;
    const size_t ngroup = (size_t)(nrank / g), chunk = ngroup * (size_t)kg;
    linop_bytes of = {0};
    linop_bytes_of(p->pair,
                   &(linop_case){.s = s,
                                 .rows = (int64_t)v,
                                 .width = w,
                                 .nlayer = z->nlayer,
                                 .nrank = nrank,
                                 .block = p->block,
                                 .grid = {p->nprow, p->npcol}},
                   &of);
    p->nitem = 0;
    add_item(p, "program and libraries", room->base);
    add_item(p, s->fit.phase ? "command matrix F" : "command matrix D+",
             command_bytes(v, t, z->way[1], o->phase));
    add_item(p, "PSF plans and fitting errors", z->psf);
    add_item(p, "tables of covariances", z->tables + (size_t)kg * z->target_tables);
    for (int i = 0; i < of.nitem; i++)
        add_item(p, of.item[i].name, of.item[i].bytes);
    add_item(p, "reconstructors W", ld * m * d);
    add_item(p, "residual covariances", (ld + v / (size_t)nrank + 1) * v * d);
    add_item(p, "panels of W T and Ctm",
             (command_panel_rows(v, t, z->way[1]) + ld + 1 + (g > 1 ? 2 * v : 0)) * w * d);
    add_item(p, "sampled residual", (size_t)par->compute_residual_columns * (ld + m) * d);
    if (o->phase)
        add_item(p, "phase on the pupil",
                 phase_bytes(z->points, w) + phase_target_bytes(z->points, ld) +
                     psf_phase_work(s, o, nl, room->threads));
    if (o->budget)
        add_item(p, "error budget",
                 mirror_budget_bytes(s) + budget_bytes(s, z->points, nl, w) +
                     (g > 1 ? v * w * d : 0) + (size_t)kg * budget_target_bytes(s));
    const size_t ne = (size_t)a->nexposure, nt = (size_t)s->ntarget;
    const size_t kept =
        (3 + (size_t)o->nbox) * (size_t)o->nlambda + (o->budget ? (size_t)budget_count(s) : 0);
    const size_t maps = kept * nt * (ne + 2) * d;
    const size_t finish =
        maps + (nt * z->image < 64 << 20 ? nt * z->image : 64 << 20); /* after the rest is freed */
    add_item(p, "results", (chunk + (size_t)kg) * z->image);
    p->memory = 0;
    for (int i = 0; i < p->nitem; i++)
        p->memory += p->item[i].bytes;
    /* before all that D+ is made and dgemm measured; after it rank 0 holds the maps */
    size_t before = room->base + v * t * d + z->command;
    before = before > room->peak ? before : room->peak;
    before = before > room->base + finish ? before : room->base + finish;
    if (before > p->memory) {
        add_item(p, "more, at the start or end", before - p->memory);
        p->memory = before;
    }
}

/* Group size and targets per group: even loads first, then as many rows a rank as pay. */
static status choose_groups(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                            const machine_room *room, const plan_sizes *z, plan *p) {
    const int nrank = room->nrank;
    double best = 0;
    for (int g = 1; g <= nrank; g++) {
        if (nrank % g != 0)
            continue;
        int ngroup = nrank / g;
        double load = (double)ceil_div(s->ntarget, ngroup) * ceil_div(s->dm.nact, g);
        double even = (double)s->ntarget * s->dm.nact / (nrank * load) * (1 - 0.02 * log2(g));
        count_memory(par, s, a, o, room, z, g, 1, p);
        if (even > best * 1.0001 && p->memory <= room->available) {
            best = even;
            p->group_size = g;
        }
    }
    if (best == 0)
        return status_fail(
            MOAO_INPUT,
            "compute.memory: one target at a time needs %.2f GB on each of %d ranks, %.2f GB are "
            "available; use fewer ranks on a node, or more nodes",
            (double)p->memory / 1e9, nrank, (double)room->available / 1e9);
    return MOAO_OK;
}

/* Chunks of targets for n groups of ranks that hold at most kg each, as even as possible; chunk > 0
 * asks for that many targets at a time. Returns how many a group holds. */
static int deal(int ntarget, int n, int chunk, int kg, plan *p) {
    p->chunk = chunk > 0 && chunk < kg * n ? chunk : kg * n;
    p->chunk = p->chunk < ntarget ? p->chunk : ntarget;
    p->nchunk = ceil_div(ntarget, p->chunk);
    if (chunk <= 0) {
        kg = ceil_div(ceil_div(ntarget, p->nchunk), n);
        p->chunk = kg * n < ntarget ? kg * n : ntarget;
        p->nchunk = ceil_div(ntarget, p->chunk);
    }
    return kg;
}

static void choose_chunk(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                         const machine_room *room, const plan_sizes *z, int chunk, plan *p) {
    const int nrank = room->nrank;
    const int g = p->group_size, ngroup = nrank / g, nl = ceil_div(s->dm.nact, g);
    int kg = ceil_div(s->ntarget, ngroup), most = ROWS_PER_RANK / nl > 1 ? ROWS_PER_RANK / nl : 1;
    if (chunk > 0)
        most = ceil_div(chunk, ngroup);
    kg = kg < most ? kg : most;
    for (int low = 1, high = kg; low < high; kg = low) { /* the most that fit */
        int middle = low + (high - low + 1) / 2;
        count_memory(par, s, a, o, room, z, g, middle, p);
        if (p->memory <= room->available)
            low = middle;
        else
            high = middle - 1;
    }
    kg = deal(s->ntarget, ngroup, chunk, kg, p);
    count_memory(par, s, a, o, room, z, g, kg, p);
    p->ld_max = (size_t)kg * (size_t)nl;
}

/* Points of the pupil at which the lag of a target is taken. */
static double lag_points(const sys *s, const atmos *a, const psf_opts *o) {
    bool lags = false;
    for (int i = 0; i < a->nprofile; i++)
        lags = lags || budget_lags(s, &a->profiles[i]);
    return o->budget && lags ? (double)budget_points(psf_points_of(s, o)) : 0;
}

typedef struct { /* inner sizes of the products that make P Ctm, for W and in an exposure, */
    double solve, exposure, truth, end; /* and P Ctt; operations at the end of an exposure */
} projection;

static projection projection_of(const plan *p, const sys *s, const psf_opts *o) {
    const double v = s->dm.nact, t = (double)sys_fit_rows(s),
                 inner = p->way != COMMAND_MATRIX ? v : t;
    const bool own = p->pair->product->own_products;
    const bool raw = p->way == COMMAND_RAW && !o->phase && !own && p->group_size == 1;
    return (projection){.solve = p->pair->factor->split ? t
                                 : raw                  ? 0
                                                        : inner,
                        .exposure = own   ? t
                                    : raw ? 0
                                          : inner,
                        .truth = inner,
                        .end = raw ? 4 * v * v * v : 0};
}

static void count_work(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                       plan *p) {
    const double m = (double)s->m, t = (double)sys_fit_rows(s), v = s->dm.nact;
    const double nt = s->ntarget, ntor = a->ntor, ne = a->nexposure;
    const double points = (double)psf_points_of(s, o);
    const projection of = projection_of(p, s, o);
    memset(p->flops, 0, sizeof p->flops);
    p->flops[STAGE_SETUP] = v * v * t + v * v * v / 3 + 2 * v * v * t;
    if (p->way != COMMAND_MATRIX)
        p->flops[STAGE_SETUP] += 2 * v * v * v / 3;
    if (o->budget)
        p->flops[STAGE_SETUP] += mirror_budget_flops(s, o);
    p->flops[STAGE_FACTOR] = ntor * m * m * m / 3;
    p->flops[STAGE_SOLVE] = ntor * nt * (2 * v * m * m + 2 * v * of.solve * m);
    p->flops[STAGE_EXPOSURE] =
        ne * nt *
            (v * m * m + 2 * v * (o->phase ? points : of.exposure) * m + 2 * v * v * m + of.end) +
        (o->phase ? 0 : ne * (2 * v * t * of.truth + 2 * v * v * t));
    if (o->budget)
        p->flops[STAGE_EXPOSURE] +=
            nt * (ntor * 2 * v * v * m + ne * 2 * v * lag_points(s, a, o) * m);
    double maps = nt * (ne + 1) * (2 + o->nbox + 1) * o->nlambda * 8;
    maps += o->budget ? nt * (ne + 1) * budget_count(s) * 8 : 0;
    double images = par->output_psf == PSF_NONE ? 0 : par->output_psf == PSF_SHORT ? nt * ne : nt;
    p->output = maps + images * o->nlambda * o->crop * o->crop * 4;
}

status plan_make(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                 const machine_room *room, const plan_sizes *z, int chunk, plan *p) {
    memset(p, 0, sizeof *p);
    p->pair = &linop_distributed;
    p->way = z->way[1];
    status st;
    TRY(choose_grid(par, room->nrank, p));
    choose_panels(par, s, p);
    TRY(choose_groups(par, s, a, o, room, z, p));
    count_work(par, s, a, o, p);
    choose_chunk(par, s, a, o, room, z, chunk, p);
done:
    return st;
}

/* Memory of the host for a rank with kg targets at a time. */
static void count_host(const params *par, const sys *s, const psf_opts *o, const machine_room *room,
                       const plan_sizes *z, int kg, plan *p) {
    const size_t v = (size_t)s->dm.nact, d = sizeof(double);
    const size_t base = room->host || room->base > room->peak ? room->base : room->peak;
    p->nitem = 0;
    add_item(p, "program and libraries", base);
    add_item(p, "command matrix D+ and its making",
             command_bytes(v, sys_fit_rows(s), z->way[room->host], true) + z->command);
    add_item(p, "PSF plans and fitting errors", z->psf);
    add_item(p, "sampled residual", 2 * v * (size_t)par->compute_residual_columns * d);
    if (o->budget)
        add_item(p, "error budget", mirror_budget_bytes(s) + (size_t)kg * budget_target_bytes(s));
    if (p->pair->factor->on_host)
        add_item(p, "factor of Cmm0, which passes by on the GPU",
                 p->pair->factor->host(s->m, v, p->device.width, p->device.fits));
    add_item(p, "results", (size_t)(p->chunk + kg + PSF_SLOTS) * z->image);
    p->memory = 0;
    for (int i = 0; i < p->nitem; i++)
        p->memory += p->item[i].bytes;
}

status plan_make_device(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                        const machine_room *room, const plan_sizes *z, int chunk,
                        device_room memory, plan *p) {
    const int nrank = room->nrank;
    status st;
    memset(p, 0, sizeof *p);
    p->way = z->way[room->host];
    TRY(choose_grid(par, nrank, p));
    p->group_size = 1;
    choose_panels(par, s, p);
    p->pair = &linop_dense;
    p->chunk = 1;
    count_host(par, s, o, room, z, 1, p);
    if (memory.host) { /* one memory for both */
        memory.beside = (double)p->memory;
        memory.bytes -= memory.beside;
        memory.machine -= memory.beside;
    }
    const bool automatic = plan_is_automatic(par), mixed = plan_wants_mixed(par),
               pays = automatic && room->host && nrank == 1 && !mixed && z->grid_pays;
    const device_wants wants = {.mixed = mixed,
                                .lattice_pairs =
                                    automatic && !room->host && mixed && plan_lattice_pays(s),
                                .factor = pays ? FACTOR_PARAM_DENSE : par->compute_factor,
                                .product = pays ? PRODUCT_PARAM_TOEPLITZ : par->compute_product,

                                .host = room->host,
                                .tables = z->tables,
                                .way = z->way[room->host],
                                .tile = par->compute_tlr_tile,
                                .members = plan_members(par, room),
                                .compressed = z->ranks.bytes,
                                .rows = s->dm.nact,
                                .nlayer = z->nlayer,
                                .width = (size_t)par->compute_panel,
                                .nsample = par->compute_residual_columns,
                                .kept = z->kept,
                                .room = memory};
    st = device_plan_choose(&wants, s, o, &p->device);
    p->pair = p->device.pair;
    if (st != MOAO_OK)
        return st;
    p->width = p->device.width;
    if (p->pair->factor->compressed)
        p->ranks = z->ranks;
    int kg = ceil_div(s->ntarget, nrank), most = chunk > 0 ? ceil_div(chunk, nrank) : kg;
    kg = kg < most ? kg : most;
    kg = kg < p->device.fits ? kg : p->device.fits;
    kg = deal(s->ntarget, nrank, chunk, kg, p);
    count_host(par, s, o, room, z, kg, p);
    count_work(par, s, a, o, p);
done:
    return st;
}

size_t plan_own_memory(const plan *p) {
    return p->memory + device_plan_bytes(&p->device, ceil_div(p->chunk, p->nprow * p->npcol));
}

status plan_check_host(const plan *p, const machine_room *room) {
    if (p->memory <= room->available)
        return MOAO_OK;
    return status_fail(
        MOAO_INPUT,
        "compute.memory: a rank with a GPU needs %.2f GB of the host's memory%s, %.2f GB are "
        "available; use fewer ranks on a node, a node with more memory, or compute.backend=cpu",
        (double)p->memory / 1e9, p->pair->factor->on_host ? ", which keeps the factor," : "",
        (double)room->available / 1e9);
}

/* tests/e2e/test_figures.py compares the times of the full scale with those of docs/figures.json.
 */
void plan_estimate(plan *p, const sys *s, const atmos *a, const psf_opts *o,
                   const machine_room *room, double rate) {
    const double m = (double)s->m, t = (double)sys_fit_rows(s), v = s->dm.nact, n = room->nrank;
    const bool device = !p->pair->factor->collective && !room->host;
    const double threads = device ? MACHINE_DEVICE_THREADS : room->threads;
    const int ngroup = room->nrank / p->group_size;
    const double nt = s->ntarget;
    psf_sizes z = {.grid = 2};
    int nlayer = 0;
    if (psf_sizes_of(s, o, &z) != MOAO_OK)
        status_clear();
    const double grid = z.grid;
    for (int i = 0; i < a->nprofile; i++)
        nlayer = a->profiles[i].nlayer > nlayer ? a->profiles[i].nlayer : nlayer;
    if (!(rate > 0))
        rate = device ? MACHINE_GPU_RATE : MACHINE_THREAD_RATE * room->threads;
    const double flop = 1 / (MACHINE_EFFICIENCY * rate * n),
                 value = nlayer * MACHINE_EVALUATION / (n * threads);
    /* the rank with the most targets, over the mean */
    const double uneven = ceil_div(p->chunk, ngroup) * (double)ngroup / p->chunk;
    const double factors = p->flops[STAGE_FACTOR] / a->ntor / (m * m * m / 3);
    p->time.tor = factors * m * m * m / 3 * flop + 0.5 * m * m * value;
    const bool fp16 = p->pair->product->fp16;
    const projection of = projection_of(p, s, o);
    const double entry = fp16 ? value / MACHINE_FP32_ENTRIES : value;
    const double product = fp16 ? flop / MACHINE_FP16_EXPOSURE : flop;
    p->time.solve = uneven * ((2 * v * m * m + 2 * v * of.solve * m) *
                                  (p->pair->factor->split ? flop / MACHINE_FP16_SOLVE : flop) +
                              t * m * entry);
    if (o->budget)
        p->time.solve += uneven * 2 * v * v * m * flop;
    const double points = (double)psf_points_of(s, o) + lag_points(s, a, o);
    const double rows = o->phase ? points : of.exposure, looked = o->phase ? points : t;
    const double common = o->phase ? 0 : 2 * v * t * of.truth + 2 * v * v * t;
    p->time.common = 0.5 * m * m * value + common * flop / p->nchunk;
    p->time.exposure =
        uneven *
        ((v * m * m + 2 * v * rows * m + 2 * v * v * m) * product + looked * m * entry +
         o->nlambda * grid * grid * log2(grid) * MACHINE_TRANSFORM / (device ? 10 * n : n));
    p->time.start = MACHINE_START + p->flops[STAGE_SETUP] * flop;
    p->time.total = p->time.start + a->ntor * (p->time.tor + nt * p->time.solve) +
                    a->nexposure * (p->nchunk * p->time.common + nt * p->time.exposure);
}

/* Measurements up to which a second thread does not pay; the work of a step grows as their square.
 */
#define ONE_THREAD 1500.0

int plan_threads(const sys *s, int cores) {
    double most = floor(pow((double)s->m / ONE_THREAD, 2));
    return most >= cores ? cores : most > 1 ? (int)most : 1;
}
