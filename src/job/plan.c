#include "job/plan.h"

#include "base/fault.h"
#include "base/machine_constants.h"
#include "budget/fitting.h"
#include "factor/tlr_group.h"
#include "obsseq/budget.h"
#include "obsseq/fit.h"
#include "obsseq/multiple.h"
#include "obsseq/tables.h"

#include "matcov/matcov.h"
#include "store/store.h"
#include "tor/command.h"
#include "tor/low_orders.h"
#include "tor/rows.h"
#include "tor/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ceil_div(int a, int b) {
    return (a + b - 1) / b;
}

/* --- what is asked for */

bool request_mixed(const request *q, bool gpu) {
    const int precision = q->par->compute_precision;
    return precision == PRECISION_PARAM_MIXED || q->product == PRODUCT_PARAM_FP16 ||
           (precision == PRECISION_PARAM_AUTO && q->product != PRODUCT_PARAM_EXACT && gpu &&
            q->mixed_pays && q->par->compute_double != DOUBLE_PARAM_INTEGER);
}

bool request_automatic(const request *q) {
    return q->factor == FACTOR_PARAM_AUTO && q->product == PRODUCT_PARAM_AUTO &&
           q->par->compute_precision != PRECISION_PARAM_DOUBLE &&
           q->par->compute_double != DOUBLE_PARAM_INTEGER;
}

/* Whether columns of a compressed factor may be kept in FP16. */
static bool fp16_columns(const request *q, bool gpu) {
    return request_mixed(q, gpu) && !q->distributed;
}

/* Whether W in split FP16 and products in FP16 save as much time of a GPU as they must, in units of
 * an exposure of one target in double precision; their checks take MACHINE_FP16_CHECK for each
 * reconstructor, and a sample one. */
static bool mixed_pays(const request *q, const gpu_model *g) {
    const double m = (double)q->s->m, ntor = q->a->ntor, ne = q->a->nexposure,
                 nt = sys_shares(q->s) ? 1 : q->s->ntarget, /* one W for all */
        samples = ntor + (ne - ntor) / q->par->compute_mixed_samples;
    const double saved = nt * ne * (1 - 1.0 / gpu_model_fp16_exposure(g)) +
                         2 * nt * ntor * (1 - 1.0 / gpu_model_fp16_solve(g)) -
                         MACHINE_FP16_CHECK * ntor - samples;
    return saved * sys_commands(q->s) * m * m >=
           fmax(q->par->compute_auto_saves, 0) * MACHINE_EFFICIENCY * gpu_model_rate(g);
}

void request_for_gpu(request *q, const gpu_model *model) {
    const gpu_model *const g = model != NULL ? model : gpu_model_reference();
    q->mixed_pays = mixed_pays(q, g);
    q->integer_pays = gpu_model_integers(g) > 1.2 &&
                      (double)q->s->m * gpu_model_integers(g) >= MACHINE_INTEGER_MEASUREMENTS;
}

void request_nodes(request *q, const field *f) {
    const psf_opts *o = q->o;
    const int nbudget = o->budget ? budget_count(q->s) : 0;
    const size_t one = psf_kept_count_of(q->s, o) * sizeof(float) +
                       store_scalars(o->nlambda, o->nbox, nbudget) * sizeof(double);
    q->want = f->nwant;
    q->node_values = (f->follow != NULL ? 2 : 1) * one; /* and of one that others follow from */
    q->residuals = field_residuals(f, q->a) / ((double)q->a->nexposure * f->nnode);
}

status request_init(const params *par, const sys *s, const atmos *a, const psf_opts *o,
                    request *q) {
    status st;
    *q = (request){.par = par,
                   .s = s,
                   .a = a,
                   .o = o,
                   .factor = par->compute_factor,
                   .product = par->compute_product,
                   .distributed = par->compute_tlr_distributed,
                   .residuals = 1,
                   .way = -1,
                   .split_moduli = -1,
                   .moduli_reference = -1,
                   .tile = (int)tlr_cmm_tile((int64_t)s->m, par->compute_tlr_tile),
                   .command = command_work_bytes(s)};
    for (int i = 0; i < a->nprofile; i++)
        if (a->profiles[i].nlayer > q->nlayer)
            q->nlayer = a->profiles[i].nlayer;
    for (int k = 0; k < a->ntor; k++) {
        int first, end;
        atmos_exposures_of(a, k, &first, &end);
        q->nexposure = end - first > q->nexposure ? end - first : q->nexposure;
    }
    if (s->fit.phase)
        q->command = fit_work_bytes(s, o);
    if (o->budget) {
        const size_t start = mirror_budget_work(s, o) + mirror_budget_bytes(s);
        q->command = start > q->command ? start : q->command;
    }
    q->psf = psf_bytes(s, o) + (size_t)q->nexposure * psf_fit_bytes(s, o);
    q->points = psf_points_of(s, o);
    TRY(matcov_count(s, q->nlayer, &q->sizes));
    q->tables = matcov_held_bytes(s, &q->sizes, atmos_count_layerings(a, MATCOV_LAYERINGS));
    q->target_tables = matcov_target_bytes(&q->sizes);
    request_for_gpu(q, NULL);
    TRY(plan_count_layers(q));
    if (request_automatic(q) && !plan_wants_layers(q))
        TRY(plan_toeplitz_pays(q, &q->toeplitz_pays));
    q->image = (size_t)o->nlambda * (size_t)o->crop * (size_t)o->crop * sizeof(float);
done:
    return st;
}

bool request_own_device(const request *q, int nrank) {
    return q->factor == FACTOR_PARAM_TLR || q->factor == FACTOR_PARAM_TLR_HOST ||
           (q->factor >= FACTOR_PARAM_FP16 && q->factor <= FACTOR_PARAM_DISTRIBUTED) ||
           q->product == PRODUCT_PARAM_TOEPLITZ ||
           (request_automatic(q) && nrank == 1 && q->toeplitz_pays);
}

bool request_may_compress(const request *q) {
    return q->factor == FACTOR_PARAM_AUTO && q->par->compute_precision != PRECISION_PARAM_DOUBLE &&
           q->par->compute_double != DOUBLE_PARAM_INTEGER &&
           (q->mixed_pays || q->par->compute_precision == PRECISION_PARAM_MIXED);
}

status request_predict(request *q, bool gpu) {
    const linop_pair *named = linop_find(test_choice("operator"));
    const bool fp16 = fp16_columns(q, gpu) && gpu && q->product != PRODUCT_PARAM_EXACT;
    const bool may = gpu && request_may_compress(q);
    if (q->factor != FACTOR_PARAM_TLR && q->factor != FACTOR_PARAM_TLR_HOST && !may &&
        (named == NULL || !named->factor->compressed))
        return MOAO_OK;
    return tlr_predict(q->s, atmos_tor_profile(q->a, 0), q->tile, request_level(q->par, fp16),
                       fp16_columns(q, gpu), &q->ranks);
}

int request_level(const params *par, bool fp16) {
    const double tolerance = par->compute_tlr_tolerance;
    return tolerance > 0 ? (int)lround(-FACTOR_OCTAVE * log2(tolerance))
           : fp16        ? FACTOR_LEVEL_FP16
                         : FACTOR_LEVEL;
}

void request_name(request *q, const linop_pair *pair) {
    const product_kind *x = pair->product;
    q->factor = pair->factor->compressed                    ? FACTOR_PARAM_TLR
                : pair->factor == &factor_host              ? FACTOR_PARAM_HOST
                : pair->factor == &factor_fp16_refined      ? FACTOR_PARAM_FP16
                : pair->factor == &factor_fp16_host_refined ? FACTOR_PARAM_FP16_HOST
                : pair->factor->distributed                 ? FACTOR_PARAM_DISTRIBUTED
                                                            : FACTOR_PARAM_DENSE;
    const bool choose = q->par->compute_precision == PRECISION_PARAM_AUTO;
    q->product = x->exact                       ? choose ? PRODUCT_PARAM_EXACT : PRODUCT_PARAM_AUTO
                 : strcmp(x->word, "fp16") == 0 ? PRODUCT_PARAM_FP16
                                                : PRODUCT_PARAM_TOEPLITZ;
}

/* --- layout */

/* Grid of ranks, as square as the number of ranks allows, no taller than wide. */
static status choose_grid(const params *par, plan *p) {
    const int nrank = p->nrank;
    p->grid[0] = par->compute_grid[0];
    p->grid[1] = par->compute_grid[1];
    if (p->grid[0] == 0 && p->grid[1] == 0) {
        for (int r = 1; r * r <= nrank; r++)
            if (nrank % r == 0)
                p->grid[0] = r;
        p->grid[1] = nrank / p->grid[0];
    }
    if ((long long)p->grid[0] * p->grid[1] != nrank)
        return status_fail(MOAO_INPUT, "compute.grid: %d x %d is not the number of ranks, %d",
                           p->grid[0], p->grid[1], nrank);
    return MOAO_OK;
}

static void choose_panels(const params *par, const sys *s, plan *p) {
    const size_t chosen = s->m >= MACHINE_LARGE ? MACHINE_PANEL_CPU : MACHINE_PANEL_SMALL;
    p->block = par->compute_block > 0 ? par->compute_block : MACHINE_BLOCK_CPU;
    p->width = par->compute_panel > 0 ? (size_t)par->compute_panel : chosen;
    p->width = (p->width + (size_t)p->block - 1) / (size_t)p->block * (size_t)p->block;
}

/* Moduli of a factor by integers, 0: native. A run that goes on keeps what it began with. */
static int moduli_of(const request *q, const machine *m) {
    const int way = q->par->compute_double;
    const bool pays = q->kept != NULL ? q->kept->factor == &factor_dense_integer
                                      : m->devices && !m->host && q->integer_pays;
    return way == DOUBLE_PARAM_INTEGER || (way == DOUBLE_PARAM_AUTO && pays)
               ? integer_moduli((int64_t)q->s->m, 0)
               : 0;
}

/* Moduli by whose products the factor that is kept in split FP16 is computed, 0: in double
 * precision. As long as they save time: three devices or more are faster together. Entries of L are
 * wrong by 2^-22 in split FP16 anyway; the products' largest error is that of 1e-6 of the norms,
 * which random operands share over the root of the inner size. */
static int split_moduli(const request *q, const machine *m) {
    const gpu_model *const g = m->model != NULL ? m->model : gpu_model_reference();
    const char *word = test_choice("split");
    const int64_t order = (int64_t)q->s->m;
    const int nodes = m->nnode > 0 ? m->nnode : 1;
    const bool pays = m->devices && !m->host && order >= MACHINE_VERY_LARGE &&
                      m->nrank < 3 * nodes && gpu_model_integer_pays(g);
    return (word != NULL ? strcmp(word, "integer") == 0 : pays) ? integer_moduli(order, 1e-6) : 0;
}

/* What a plan has of the request and the machine as they are. */
static void begin(const request *q, const machine *m, plan *p) {
    const bool may_compress = q->ranks.tile > 0;
    const profile *largest = q->a->profiles;
    for (int i = 1; i < q->a->nprofile; i++)
        if (q->a->profiles[i].nlayer > largest->nlayer)
            largest = &q->a->profiles[i];
    *p = (plan){.be = m->be != NULL ? m->be : &backend_cpu,
                .devices = m->devices,
                .host = m->host,
                .nrank = m->nrank,
                .sharing = m->sharing,
                .rows = sys_commands(q->s),
                .points = (int64_t)q->points,
                .target_tables = q->target_tables,
                .largest = largest,
                .way = q->way >= 0 ? (command_way)q->way
                                   : command_choose(q->s, !m->devices || m->host),
                .sample = q->sample,
                .keep = q->keep,
                .nsample = q->par->compute_residual_columns,
                .tile = q->tile,
                .moduli = moduli_of(q, m),
                .split_moduli = q->split_moduli >= 0 ? q->split_moduli : split_moduli(q, m),
                .mixed = request_mixed(q, m->devices && !m->host),
                .fp16 = fp16_columns(q, m->devices && !m->host),
                .compressed = may_compress ? q->ranks.bytes : 0};
    const int nodes = m->nnode > 0 ? m->nnode : 1;
    p->members = !q->distributed ? 0 : m->host ? m->nrank : m->nrank / nodes;
    p->raw = p->way == COMMAND_RAW && !q->o->phase;
}

/* --- memory of ranks that work on the same panels */

static void add_host(plan *p, const char *name, size_t bytes) {
    const int n = p->memory[PLAN_HOST].n++;
    p->memory[PLAN_HOST].item[n].name = name;
    p->memory[PLAN_HOST].item[n].bytes = bytes;
}

/* Nodes that comparisons add are not known before. */
static void add_nodes(const request *q, plan *p) {
    if (q->want > 0)
        add_host(p, "results of nodes", (size_t)q->s->ntarget * q->node_values);
}

static void sum_host(plan *p) {
    p->peak = 0;
    for (int i = 0; i < p->memory[PLAN_HOST].n; i++)
        p->peak += p->memory[PLAN_HOST].item[i].bytes;
}

/* Memory of a rank that holds kg targets of a group of g ranks. */
static void count_ranks(const request *q, const machine *k, int g, int kg, plan *p) {
    const sys *s = q->s;
    const psf_opts *o = q->o;
    const int nrank = p->nrank;
    const size_t m = s->m, t = sys_fit_rows(s), v = (size_t)sys_commands(s), w = p->width,
                 d = sizeof(double);
    const size_t nl = (v + (size_t)g - 1) / (size_t)g,
                 ld = (size_t)(sys_shares(s) ? 1 : kg) * nl; /* shared: one W */
    const size_t ngroup = (size_t)(nrank / g), chunk = ngroup * (size_t)kg;
    p->memory[PLAN_HOST].n = 0;
    add_host(p, "program and libraries", k->base);
    add_host(p, s->fit.phase ? "command matrix F" : "command matrix D+",
             command_bytes(v, sys_fit_columns(s), p->way, o->phase));
    add_host(p, "PSF plans and fitting errors", q->psf);
    if (s->fit.split.on)
        add_host(p, "commands behind a common mirror", split_bytes(s, p->width));
    if (sys_low_follows(s))
        add_host(p, "commands of low orders",
                 low_orders_bytes(s) + low_orders_device_bytes(s, p->width, g));
    add_host(p, "tables of covariances", q->tables + (size_t)kg * q->target_tables);
    linop_bytes(s, p);
    add_host(p, "reconstructors W", ld * m * d);
    add_host(p, "residual covariances", (ld + v / (size_t)nrank + 1) * v * d);
    add_host(p, "panels of W T and Ctm",
             (command_panel_rows(v, t, p->way) + ld + 1 + (g > 1 ? 2 * v : 0)) * w * d);
    add_host(p, "sampled residual", (size_t)q->par->compute_residual_columns * (ld + m) * d);
    if (o->phase)
        add_host(p, "phase on the pupil",
                 phase_bytes(q->points, w) + phase_target_bytes(q->points, (size_t)kg * nl) +
                     psf_phase_work(s, o, nl, k->threads));
    if (p->by_layers)
        add_host(p, "covariances by layer", layer_tables_bytes(&q->layers, nl));
    if (o->budget)
        add_host(p, "error budget",
                 mirror_budget_bytes(s) + budget_bytes(s, q->points, nl, w) +
                     (g > 1 ? v * w * d : 0) + (size_t)kg * budget_target_bytes(s, q->points));
    const size_t ne = (size_t)q->a->nexposure, nt = (size_t)s->ntarget;
    const size_t kept =
        (3 + (size_t)o->nbox) * (size_t)o->nlambda + (o->budget ? (size_t)budget_count(s) : 0);
    const size_t maps = kept * nt * (ne + 2) * d;
    const size_t finish =
        maps + (nt * q->image < 64 << 20 ? nt * q->image : 64 << 20); /* after the rest is freed */
    add_nodes(q, p);
    add_host(p, "results", (chunk + (size_t)kg) * q->image);
    sum_host(p);
    /* before all that D+ is made and dgemm measured; after it rank 0 holds the maps */
    size_t before = k->base + v * t * d + q->command;
    before = before > k->peak ? before : k->peak;
    before = before > k->base + finish ? before : k->base + finish;
    if (before > p->peak) {
        add_host(p, "more, at the start or end", before - p->peak);
        p->peak = before;
    }
}

/* Group size and targets per group: even loads first, then as many rows a rank as pay. */
static status choose_groups(const request *q, const machine *m, plan *p) {
    const sys *s = q->s;
    const int nrank = p->nrank;
    double best = 0;
    for (int g = 1; g <= nrank; g++) {
        if (nrank % g != 0)
            continue;
        int ngroup = nrank / g;
        double load = (double)ceil_div(s->ntarget, ngroup) * ceil_div(sys_commands(s), g);
        double even = (double)s->ntarget * sys_commands(s) / (nrank * load) * (1 - 0.02 * log2(g));
        count_ranks(q, m, g, 1, p);
        if (even > best * 1.0001 && p->peak <= m->available) {
            best = even;
            p->group_size = g;
        }
    }
    if (best == 0)
        return status_fail(
            MOAO_INPUT,
            "compute.memory: one target at a time needs %.2f GB on each of %d ranks, %.2f GB are "
            "available; use fewer ranks on a node, or more nodes",
            (double)p->peak / 1e9, nrank, (double)m->available / 1e9);
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

static void choose_chunk(const request *q, const machine *m, int chunk, plan *p) {
    const sys *s = q->s;
    const int nrank = p->nrank;
    const int g = p->group_size, ngroup = nrank / g, nl = ceil_div(sys_commands(s), g);
    int kg = ceil_div(s->ntarget, ngroup),
        most = MACHINE_ROWS_PER_RANK / nl > 1 ? MACHINE_ROWS_PER_RANK / nl : 1;
    if (chunk > 0 || sys_shares(s)) /* one W for all */
        most = chunk > 0 ? ceil_div(chunk, ngroup) : kg;
    kg = kg < most ? kg : most;
    for (int low = 1, high = kg; low < high; kg = low) { /* the most that fit */
        int middle = low + (high - low + 1) / 2;
        count_ranks(q, m, g, middle, p);
        if (p->peak <= m->available)
            low = middle;
        else
            high = middle - 1;
    }
    kg = deal(s->ntarget, ngroup, chunk, kg, p);
    count_ranks(q, m, g, kg, p);
    p->ld_max = (size_t)kg * (size_t)nl;
}

/* --- work */

/* Points of the pupil at which the lag of a target is taken. */
static double lag_points(const request *q) {
    const sys *s = q->s;
    const atmos *a = q->a;
    bool lags = false;
    for (int i = 0; i < a->nprofile; i++)
        lags = lags || budget_lags(s, &a->profiles[i]);
    return q->o->budget && lags ? (double)budget_points(q->points) : 0;
}

typedef struct { /* inner sizes of the products that make P Ctm, for W and in an exposure, */
    double solve, exposure, truth, end; /* and P Ctt; operations at the end of an exposure */
} projection;

static projection projection_of(const plan *p, const sys *s) {
    const double v = sys_commands(s), t = (double)sys_fit_rows(s),
                 inner = p->way != COMMAND_MATRIX ? v : t;
    const bool own = p->pair->product->own_products;
    const bool raw = p->raw && !own && p->group_size == 1;
    return (projection){.solve = p->pair->factor->split ? t
                                 : raw                  ? 0
                                                        : inner,
                        .exposure = own   ? t
                                    : raw ? 0
                                          : inner,
                        .truth = inner,
                        .end = raw ? 4 * v * v * v : 0};
}

/* plan.follow. */
static double multiples(const request *q, const plan *p) {
    const atmos *a = q->a;
    int n = 0;
    if (p->devices || !q->o->phase || p->by_layers || !p->pair->product->exact)
        return 0;
    for (int e = 1; e < a->nexposure; e++)
        if (atmos_tor_of(a, e) == atmos_tor_of(a, e - 1) &&
            multiple_of(q->s, atmos_profile_at(a, a->exposure_time[e]),
                        atmos_profile_at(a, a->exposure_time[e - 1])) > 0)
            n++;
    return (double)n / a->nexposure;
}

static void count_work(const request *q, plan *p) {
    const sys *s = q->s;
    const atmos *a = q->a;
    const psf_opts *o = q->o;
    const double m = (double)s->m, t = (double)sys_fit_rows(s), v = sys_commands(s);
    const double nt = s->ntarget, ntor = a->ntor, ne = a->nexposure;
    const double points = (double)q->points;
    const projection of = projection_of(p, s);
    memset(p->flops, 0, sizeof p->flops);
    p->flops[STAGE_SETUP] = v * v * t + v * v * v / 3 + 2 * v * v * t;
    if (p->way != COMMAND_MATRIX)
        p->flops[STAGE_SETUP] += 2 * v * v * v / 3;
    if (s->fit.phase)
        p->flops[STAGE_SETUP] = fit_flops(s, o, p->nrank);
    if (o->budget)
        p->flops[STAGE_SETUP] += mirror_budget_flops(s, o, a);
    p->flops[STAGE_FACTOR] = ntor * m * m * m / 3;
    const double nw = sys_shares(s) ? p->nchunk : nt; /* W, and Y of an exposure */
    const double nd = p->by_layers ? p->nchunk : nt;  /* targets with covariances of their own */
    p->follow = multiples(q, p);
    const double part = q->residuals * (1 - p->follow);
    p->flops[STAGE_SOLVE] = ntor * nw *
                            (2 * v * m * m * (1 + p->pair->factor->residuals) +
                             2 * v * of.solve * sys_fit_directions(s) * m);
    p->flops[STAGE_EXPOSURE] = part * ne *
                                   (nw * (v * m * m + 2 * v * v * m + of.end) +
                                    nd * 2 * v * (o->phase ? points : of.exposure) * m) +
                               (o->phase ? 0 : ne * (2 * v * t * of.truth + 2 * v * v * t));
    p->flops[STAGE_EXPOSURE] += q->residuals * p->follow * ne * nw * 2 * v * v * m; /* noise */
    if (p->by_layers)
        p->flops[STAGE_EXPOSURE] += ne * p->nchunk * plan_layers_flops(q);
    if (o->budget)
        p->flops[STAGE_EXPOSURE] +=
            nt * ntor * 2 * v * v * m + part * nd * ne * 2 * v * lag_points(q) * m;
    const double all = q->want > 0 ? q->want : nt;
    double maps = all * (ne + 1) * (2 + o->nbox + 1) * o->nlambda * 8;
    maps += o->budget ? all * (ne + 1) * budget_count(s) * 8 : 0;
    double images = q->par->output_psf == PSF_NONE    ? 0
                    : q->par->output_psf == PSF_SHORT ? all * ne
                                                      : all;
    p->output = maps + images * o->nlambda * o->crop * o->crop * 4;
    if (q->want > 0 && q->par->output_field) /* of the separations' square a disc, half of it */
        p->output += nt * ne * (1 + o->nlambda) * M_PI / 8 * (double)psf_sep_count_of(s, o) * 4;
}

/* Floating-point operations of the sums over pairs of a target's points: commands of each row of
 * points, their shapes on all points along x and y, mirror by mirror. */
static double pair_flops(const sys *s, const psf_opts *o) {
    const double points = (double)psf_points_of(s, o),
                 rows = 0.5 * sqrt((double)psf_sep_count_of(s, o));
    double sum = mirror_product_flops(s, points, sys_commands(s));
    for (int i = 0; i < s->fit.nmirror || i == 0; i++) {
        const double side = (s->fit.nmirror > 0 ? s->fit.mirrors[i].nssp : s->dm.nssp) + 1;
        sum += 2 * points * side * rows * (side + rows);
    }
    return sum + 2 * points * points;
}

/* Floating-point operations a second of a rank: measured, else of the model or the reference. */
static double rank_rate(const machine *k, const gpu_model *g, bool device) {
    const double measured = device ? k->device_rate : k->rate;
    if (measured > 0)
        return measured;
    return device ? gpu_model_rate(g) : MACHINE_THREAD_RATE * k->threads;
}

/* Time of an operation of the set-up: commands are fitted to phases by the host. */
static double setup_flop(const sys *s, const machine *k, const gpu_model *g, double nrank,
                         double flop) {
    return s->fit.phase ? 1 / (MACHINE_EFFICIENCY * rank_rate(k, g, false) * nrank) : flop;
}

/* Evaluations of the first check of a target (compute.verify), later ones being as rare as their
 * cost allows: Cmm and Ctm, or Cpm of all directions, of the reconstructor, then those of the
 * exposure, with so many ages of slopes and phase. */
static double check_values(const request *q, double slopes, double ages) {
    const sys *s = q->s;
    const double m = (double)s->m, t = (double)sys_fit_rows(s);
    if (q->par->compute_verify == VERIFY_OFF)
        return 0;
    return 0.5 * m * m * (q->nlayer + slopes) + t * m * sys_fit_directions(s) * q->nlayer +
           (q->o->phase ? (double)q->points : t) * m * ages;
}

/* The images of a target on one rank, with a GPU or without. */
static double image_time(const request *q, const gpu_model *g) {
    psf_sizes z = {.grid = 2};
    if (psf_sizes_of(q->s, q->o, &z) != MOAO_OK)
        status_clear();
    const double grid = z.grid;
    return q->o->nlambda * grid * grid * log2(grid) * MACHINE_TRANSFORM /
           (g != NULL ? 10 * g->bandwidth / gpu_model_reference()->bandwidth : 1);
}

/* What is checked of products that are not exact; flop, value: seconds of an operation and of an
 * evaluation in double precision. */
static void add_sample(const request *q, const machine *k, double flop, double value, plan *p) {
    const gpu_model *const g = k->model != NULL ? k->model : gpu_model_reference();
    const bool integers = plan_by_integers(p) || p->moduli_reference > 0;
    const plan_rates rates = {.flop = integers ? flop / gpu_model_integers(g) : flop,
                              .fp16 = flop / gpu_model_fp16_solve(g),
                              .value = value,
                              .single = value / gpu_model_fp32_entries(g)};
    plan_sample_time(q, k, &rates, p);
}

/* tests/e2e/test_figures.py compares the times of the full scale with those of docs/figures.json.
 */
static void estimate(const request *q, const machine *k, plan *p) {
    const sys *s = q->s;
    const atmos *a = q->a;
    const psf_opts *o = q->o;
    const double m = (double)s->m, t = (double)sys_fit_rows(s), v = sys_commands(s), n = p->nrank;
    const bool device = p->devices && !p->host;
    const gpu_model *const g = k->model != NULL ? k->model : gpu_model_reference();
    const double threads = device ? gpu_model_threads(g) : k->threads;
    const int ngroup = p->nrank / p->group_size;
    const double nt = s->ntarget;
    double slopes, ages;
    plan_count_ages(s, a, &slopes, &ages);
    const double flop = 1 / (MACHINE_EFFICIENCY * rank_rate(k, g, device) * n),
                 once_value = MACHINE_EVALUATION / (n * threads), value = q->nlayer * once_value;
    /* the rank with the most targets, over the mean */
    const double uneven = ceil_div(p->chunk, ngroup) * (double)ngroup / p->chunk;
    const double factors = p->flops[STAGE_FACTOR] / a->ntor / (m * m * m / 3);
    const double whole =
        p->pair->factor == &factor_dense_integer ? flop / gpu_model_integers(g) : flop;
    const double of_factor = p->pair->factor->distributed
                                 ? 1 / (MACHINE_EFFICIENCY * rank_rate(k, g, false) * n)
                                 : whole;
    p->time.tor =
        factors * m * m * m / 3 * of_factor / (plan_split(p) > 0 ? MACHINE_SPLIT_FACTOR : 1) +
        0.5 * m * m * value;
    const bool fp16 = p->pair->product->fp16;
    const projection of = projection_of(p, s);
    const double entry = fp16 ? value / gpu_model_fp32_entries(g) : value,
                 aged = ages / fmax(q->nlayer, 1) * entry; /* of an exposure's Ctm or Cpm */
    const double product = fp16 ? flop / gpu_model_fp16_exposure(g) : whole;
    const int residuals = p->pair->factor->residuals;
    const double directions = sys_fit_directions(s);
    p->time.solve =
        uneven *
        ((2 * v * m * m + 2 * v * of.solve * directions * m) *
             (p->pair->factor->split || residuals > 0 ? flop / gpu_model_fp16_solve(g) : whole) +
         residuals * 2 * v * m * m * whole + t * directions * m * entry);
    if (o->budget)
        p->time.solve += uneven * 2 * v * v * m * flop;
    const double points = (double)q->points + lag_points(q);
    const double rows = o->phase ? points : of.exposure, looked = o->phase ? points : t;
    const double common = o->phase ? 0 : 2 * v * t * of.truth + 2 * v * v * t;
    p->time.common = 0.5 * m * m * slopes * once_value + common * flop / p->nchunk;
    const double image = image_time(q, device ? g : NULL) / n;
    const double once = (v * m * m + 2 * v * v * m) * product; /* Y */
    if (sys_shares(s)) {
        p->time.common += once;
        p->time.solve *= p->nchunk / nt;
    }
    const double seen = 2 * v * rows * m * product + looked * m * aged; /* Cpm or Ctm of a target */
    p->time.exposure = uneven * ((sys_shares(s) ? 0 : once) + image);
    if (p->by_layers) {
        p->time.common += plan_layers_value(q, once_value) + plan_layers_flops(q) * flop + seen;
        p->time.exposure += uneven * plan_look_up_flops(q) * flop;
    } else {
        p->time.exposure += uneven * seen;
    }
    const double follow = p->follow; /* their noise is computed, and images */
    p->time.common *= 1 - follow;
    p->time.exposure = (1 - follow) * (p->time.exposure - uneven * image) +
                       uneven * (image + follow * 2 * v * v * m * product);
    if (sys_shares(s) && o->phase)
        p->time.exposure += uneven * pair_flops(s, o) * flop;
    p->time.start = MACHINE_START + p->flops[STAGE_SETUP] * setup_flop(s, k, g, n, flop);
    p->time.total = p->time.start + a->ntor * (p->time.tor + nt * p->time.solve) +
                    a->nexposure * (p->nchunk * p->time.common +
                                    nt * q->residuals * p->time.exposure + q->want * image) +
                    check_values(q, slopes, ages) * once_value;
    add_sample(q, k, flop, once_value, p);
}

/* Factors that are computed, in units of one for each reconstructor: a node's devices compute one
 * together where they hold it, else each for itself. */
static int factors(const machine *m, const plan *p) {
    return p->pair->factor->compressed && !p->pair->factor->on_host
               ? tlr_group_factors(m->host, m->sharing <= 1, m->nrank, m->nnode)
           : p->pair->factor->distributed                                      ? 1
           : m->sharing > 1 || p->pair->factor->on_host || plan_by_integers(p) ? m->nrank
                                                                               : m->nnode;
}

/* --- plans */

static status on_ranks(const request *q, const machine *m, int chunk, plan *p) {
    status st;
    p->pair = linop_of(&factor_distributed, &product_collective);
    p->by_layers = plan_wants_layers(q);
    st = choose_groups(q, m, p);
    if (st == MOAO_INPUT && p->by_layers && q->par->compute_phase == PHASE_PARAM_AUTO) {
        status_clear(); /* memory holds no tables */
        p->by_layers = false;
        st = choose_groups(q, m, p);
    }
    TRY(st);
    choose_chunk(q, m, chunk, p);
    count_work(q, p);
done:
    return st;
}

/* Memory of the host for a rank with kg targets at a time. */
static void count_host(const request *q, const machine *k, int kg, plan *p) {
    const sys *s = q->s;
    const size_t v = (size_t)sys_commands(s), d = sizeof(double);
    const size_t base = k->host || k->base > k->peak ? k->base : k->peak;
    p->memory[PLAN_HOST].n = 0;
    add_host(p, "program and libraries", base);
    add_host(p, "command matrix D+ and its making",
             command_bytes(v, sys_fit_columns(s), p->way, true) + q->command);
    add_host(p, "PSF plans and fitting errors", q->psf);
    if (s->fit.split.on)
        add_host(p, "commands behind a common mirror", split_bytes(s, p->width));
    if (sys_low_follows(s))
        add_host(p, "commands of low orders", low_orders_bytes(s));
    add_host(p, "sampled residual", 2 * v * (size_t)q->par->compute_residual_columns * d);
    if (!k->host)
        add_host(
            p, "tables of an exposure and of the next one",
            tables_bytes(s, q->o, &q->sizes, atmos_count_layerings(q->a, MATCOV_LAYERINGS + 2)));
    if (q->o->budget)
        add_host(p, "error budget",
                 mirror_budget_bytes(s) + (size_t)kg * budget_target_bytes(s, q->points));
    if (p->pair->factor->on_host)
        add_host(p,
                 p->pair->factor->distributed ? "part of the factor of Cmm0, and its panels"
                                              : "factor of Cmm0, which is streamed to the GPU",
                 p->pair->factor->host(s, p, p->fits));
    add_nodes(q, p);
    add_host(p, "results", (size_t)(p->chunk + kg + PSF_SLOTS) * q->image);
    sum_host(p);
}

static status on_devices(const request *q, const machine *m, int chunk, plan *p) {
    const int nrank = p->nrank;
    status st;
    p->group_size = 1;
    p->pair = linop_of(&factor_dense, &product_stored);
    p->chunk = 1;
    count_host(q, m, 1, p);
    TRY(plan_choose_pair(q, m, (double)p->peak, p));
    if (p->pair->factor->compressed)
        p->ranks = &q->ranks;
    int kg = ceil_div(q->s->ntarget, nrank), most = chunk > 0 ? ceil_div(chunk, nrank) : kg;
    kg = kg < most ? kg : most;
    kg = kg < p->fits ? kg : p->fits;
    kg = deal(q->s->ntarget, nrank, chunk, kg, p);
    count_host(q, m, kg, p);
    count_work(q, p);
    p->flops[STAGE_FACTOR] *= factors(m, p);
done:
    return st;
}

status plan_make(const request *q, const machine *m, int chunk, plan *p) {
    status st;
    begin(q, m, p);
    TRY(choose_grid(q->par, p));
    choose_panels(q->par, q->s, p);
    TRY(m->devices ? on_devices(q, m, chunk, p) : on_ranks(q, m, chunk, p));
    p->most = ceil_div(p->chunk, p->nrank / p->group_size);
    estimate(q, m, p);
done:
    return st;
}

size_t plan_rank_memory(const plan *p) {
    const bool own = p->devices && p->host && p->pair != NULL;
    return p->peak + (own ? plan_device_bytes(p, ceil_div(p->chunk, p->nrank)) : 0);
}

status plan_check_host(const plan *p, const machine *m) {
    if (p->peak <= m->available)
        return MOAO_OK;
    return status_fail(
        MOAO_INPUT,
        "compute.memory: a rank with a GPU needs %.2f GB of the host's memory%s, %.2f GB are "
        "available; use fewer ranks on a node, a node with more memory, or compute.backend=cpu",
        (double)p->peak / 1e9, p->pair->factor->on_host ? ", which keeps the factor," : "",
        (double)m->available / 1e9);
}

machine_rate plan_rate(const sys *s) {
    return s->m < MACHINE_QUICK ? MACHINE_QUICK_RATE : MACHINE_RATE;
}

int plan_threads(const sys *s, int cores) {
    const double of_one = s->ntarget == 1 ? (double)s->m / MACHINE_THREAD_ALONE : 0,
                 most = floor(fmax(pow((double)s->m / MACHINE_ONE_THREAD, 2), of_one));
    return most >= cores ? cores : most > 1 ? (int)most : 1;
}
