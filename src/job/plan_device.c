/* What a reconstructor, its exposures and a chunk of targets take of a device's memory, and the
 * pair of factor and product that it has room for. */
#include "job/plan.h"

#include "base/fault.h"
#include "base/machine_constants.h"
#include "obsseq/budget.h"
#include "tor/low_orders.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Targets that fit into so many bytes. */
static int targets_in(const plan *p, double bytes) {
    const double left = bytes - (double)p->fixed, n = left / (double)p->target;
    return left < (double)p->least || !(n >= 1) ? 0 : n > INT_MAX ? INT_MAX : (int)n;
}

/* What a rank may use of its device, which may be the host. */
static void grant(const request *q, const machine *m, double rest, plan *p) {
    const double limit = m->own ? INFINITY : q->par->compute_gpu_memory;
    const double mine = m->host ? (double)m->available : INFINITY,
                 all = m->host ? (double)m->total : INFINITY;
    const double device = fmin(limit, m->device_free) / m->sharing;
    p->given.now = fmin(mine, device);
    p->given.ever = fmin(all, fmin(limit, m->device_memory) / m->sharing);
    p->given.host = m->host && mine <= device;
    if (p->given.host) { /* one memory for both */
        p->given.rest = rest;
        p->given.now -= rest;
        p->given.ever -= rest;
    }
}

/* Columns of a panel for a pair. */
static size_t width_of(const linop_pair *pair, size_t m, size_t asked, bool integers) {
    /* panels of a factor in the host's memory are those of W too, and two lie on the device */
    const size_t large = pair->product->width > 0 && pair->factor->host == NULL
                             ? (size_t)pair->product->width
                             : MACHINE_PANEL;
    const size_t width = asked > 0                 ? asked
                         : m >= MACHINE_VERY_LARGE ? large
                         : m >= MACHINE_LARGE      ? MACHINE_PANEL_MIDDLE
                                                   : MACHINE_PANEL_SMALL;
    const size_t multiple = integers ? INTEGER_STEP : 1,
                 even = (width + multiple - 1) / multiple * multiple;
    return even < m ? even : m;
}

/* Moduli of products of exposures and of triangles by integers; with FP16 of the reference alone,
 * which need not be more accurate than 1e-9. */
static int exposure_moduli(const request *q, bool fp16) {
    const int64_t m = (int64_t)q->s->m;
    const double asked = q->par->compute_integer_tolerance;
    const int all = integer_moduli(m, 0), n = integer_moduli(m, fp16 ? fmax(asked, 1e-9) : asked);
    return n > 0 && n < all ? n : all;
}

/* Moduli of the sampled target's reference: those that the request keeps, or, where the factor is
 * computed by integers. */
static int reference_moduli(const request *q, const plan *p) {
    if (!p->pair->product->fp16)
        return 0;
    if (p->moduli == 0 && q->moduli_reference >= 0)
        return q->moduli_reference;
    return plan_by_integers(p) ? exposure_moduli(q, true) : 0;
}

/* Memory by a pair. asked: columns of a panel, 0: chosen. */
static void count_by(const request *q, const linop_pair *pair, size_t asked, int reference,
                     plan *p) {
    const sys *s = q->s;
    const psf_opts *o = q->o;
    const size_t m = s->m, t = sys_fit_rows(s), v = (size_t)p->rows, d = sizeof(double);
    const size_t tables = pair->product->together ? 0 : q->target_tables;
    p->pair = pair;
    p->memory[PLAN_DEVICE].n = 0;
    p->fixed = p->target = p->least = 0;
    p->moduli_solve = p->moduli > 0 ? exposure_moduli(q, false) : 0;
    p->moduli_exposure = p->moduli > 0 ? exposure_moduli(q, pair->product->fp16) : 0;
    p->moduli_reference = reference;
    p->width = width_of(pair, m, asked, p->moduli > 0 || reference > 0);
    linop_bytes(s, p);
    if (sys_shares(s)) { /* all targets have one W */
        plan_add(p, p->per_target, p->target);
        p->per_target = "tables of a target";
        p->target = q->target_tables;
    }
    plan_add(p, s->fit.phase ? "command matrix F" : "command matrix D+",
             command_bytes(v, sys_fit_columns(s), p->way, o->phase));
    plan_add(p, "panels of Ctm and of W T - D+ Ctm",
             (command_panel_rows(v, t, p->way) + v) * p->width * d);
    /* single pairs of points: on the host itself the PSF's own, which the host's plan counts */
    const size_t single = psf_pairwise_count_of(s, o) * sizeof(float);
    if (o->phase) {
        const size_t one = phase_target_bytes(q->points, v);
        plan_add(p, "phase on the pupil",
                 phase_bytes(q->points, p->width) + (pair->product->together ? 0 : one) +
                     (p->given.host ? 0 : single));
        p->target += pair->product->together ? one : 0;
        p->target += pair->product->leaves_share ? phase_share_bytes(s, o) : 0;
    }
    if (o->budget)
        plan_add(p, "error budget", budget_bytes(s, q->points, v, p->width));
    if (sys_low_follows(s))
        plan_add(p, "commands of low orders", low_orders_device_bytes(s, p->width, 1));
    plan_add(p, "sampled residual", (v + m) * (size_t)p->nsample * d);
    plan_add(p, "tables of covariances",
             (p->given.host ? q->tables : matcov_device_bytes(s, &q->sizes)) + tables);
    plan_add(p, "stationary averages, OTFs and PSFs",
             psf_device_bytes(s, o) - (p->given.host ? single : 0));
    if (!p->given.host)
        plan_add(p, "context, kernels and their work", BACKEND_RESERVE);
    p->fits = targets_in(p, p->given.now);
    p->held = targets_in(p, fmax(p->given.ever, p->given.now)) > 0;
}

/* The same. Residues of a reference that was not asked for by integers take memory that targets
 * leave: fewer targets together cost more time than they save. */
static void count(const request *q, const linop_pair *pair, size_t asked, plan *p) {
    p->pair = pair;
    const int reference = reference_moduli(q, p),
              all = sys_shares(q->s) ? 1 : (q->s->ntarget + p->nrank - 1) / p->nrank;
    count_by(q, pair, asked, reference, p);
    if (reference > 0 && p->moduli == 0 && q->moduli_reference < 0 && p->fits < all)
        count_by(q, pair, asked, 0, p);
}

/* MOAO_INPUT: what one target at a time needs, in the last format that was tried. */
static status say_too_little(const plan *p) {
    const double needed = ((double)plan_device_bytes(p, 1) + p->given.rest) / 1e9,
                 given = (p->given.now + p->given.rest) / 1e9;
    const char *format = linop_format(p->pair);
    const char *what = p->held ? "free now" : "available",
               *now = p->held ? "wait until other programs have ended, or " : "";
    if (p->given.host)
        return status_fail(
            MOAO_INPUT,
            "compute.memory: one target at a time needs %.2f GB of the host's memory in format "
            "%s, %.2f GB are %s; %suse a node with more memory, smaller sensors, or "
            "compute.factor=dense with more ranks",
            needed, format, given, what, now);
    if (p->pair->factor->compressed)
        return status_fail(MOAO_INPUT,
                           "compute.factor: one target at a time needs %.2f GB with a factor "
                           "compressed by tiles, %.2f GB are given and free; use more memory "
                           "(compute.gpu_memory), a larger compute.tlr_tolerance, "
                           "compute.tlr_distributed with more ranks, or compute.factor=dense, "
                           "which may keep the factor in the host's memory",
                           needed, given);
    if (strcmp(format, "dense") != 0)
        return status_fail(
            MOAO_INPUT,
            "compute.gpu_memory: one target at a time needs %.2f GB of a GPU in format %s%s, "
            "%.2f GB are given and %s; %suse a GPU with more memory, smaller sensors, or "
            "compute.precision=double and compute.factor=dense, which may keep the factor in the "
            "host's memory",
            needed, format,
            p->pair->factor->on_host ? " even with the factor made in the host's memory" : "",
            given, what, now);
    return status_fail(
        MOAO_INPUT,
        "compute.gpu_memory: one target at a time needs %.2f GB of a GPU%s, %.2f GB are given and "
        "%s; %suse a GPU with more memory that "
        "nothing else uses, smaller sensors, or compute.backend=cpu",
        needed, p->pair->factor->on_host ? " even with the factor in the host's memory" : "", given,
        what, now);
}

typedef enum { BY_EXACT, BY_FP16, BY_TOEPLITZ, BY_FP16_LATTICE, PRODUCTS } by;

static const linop_pair *pair_of(const factor_kind *f, by product) {
    static const product_kind *const kind[PRODUCTS] = {[BY_FP16] = &product_fp16,
                                                       [BY_TOEPLITZ] = &product_toeplitz,
                                                       [BY_FP16_LATTICE] = &product_fp16_lattice};
    return linop_of(f, product == BY_EXACT ? product_exact(f) : kind[product]);
}

/* With a factor in split FP16, computed on the device or in the host's memory: W is refined for
 * products that are not in FP16. */
static const linop_pair *split_pair(bool host, by product) {
    const bool fp16 = product == BY_FP16 || product == BY_FP16_LATTICE;
    return pair_of(host ? (fp16 ? &factor_fp16_host : &factor_fp16_host_refined)
                        : (fp16 ? &factor_fp16 : &factor_fp16_refined),
                   product);
}

/* The product that a factor is to serve. */
static by product_of(const plan *p, int product, bool compressed) {
    /* on CPUs products in FP16 take longer */
    const bool fp16 = p->mixed && (!compressed || !p->host);
    switch (product) {
    case PRODUCT_PARAM_EXACT:
        return BY_EXACT;
    case PRODUCT_PARAM_FP16:
        return BY_FP16;
    case PRODUCT_PARAM_TOEPLITZ:
        return p->mixed ? BY_FP16_LATTICE : BY_TOEPLITZ;
    default:
        return fp16 ? BY_FP16 : BY_EXACT;
    }
}

/* Pairs whose factor is asked for by name and is no dense one; how many, 0: of another name. */
static int named(int factor, by product, by compressed, const plan *p, const linop_pair *pairs[8]) {
    int n = 0;
    switch (factor) {
    case FACTOR_PARAM_HOST:
        pairs[n++] = pair_of(&factor_host, product);
        break;
    case FACTOR_PARAM_TLR:
        pairs[n++] = pair_of(&factor_tlr, compressed);
        if (!p->host && p->members == 0)
            pairs[n++] = pair_of(&factor_tlr_host, compressed);
        break;
    case FACTOR_PARAM_TLR_HOST:
        pairs[n++] = pair_of(&factor_tlr_host, compressed);
        break;
    case FACTOR_PARAM_FP16:
        pairs[n++] = split_pair(false, product);
        pairs[n++] = split_pair(true, product);
        break;
    case FACTOR_PARAM_FP16_HOST:
        pairs[n++] = split_pair(true, product);
        break;
    case FACTOR_PARAM_DISTRIBUTED:
        pairs[n++] = pair_of(&factor_distributed_own, product);
        break;
    default:
        break;
    }
    return n;
}

/* Whether products on common lattices may be taken, and are faster. */
static status lattices_serve(const request *q, const plan *p, bool *serve) {
    *serve = false;
    return request_automatic(q) && !p->host && p->mixed && q->mixed_pays
               ? plan_lattice_pays(q->s, serve)
               : MOAO_OK;
}

/* Pairs that compute what is asked for, the best first; how many. */
static int serving(const request *q, const plan *p, bool lattices, const linop_pair *pairs[8]) {
    const bool automatic = request_automatic(q), mixed = p->mixed,
               pays = automatic && p->host && p->nrank == 1 && !mixed && q->toeplitz_pays,
               compress = !p->host && request_may_compress(q);
    const int factor = pays ? FACTOR_PARAM_DENSE : q->factor,
              product = pays ? PRODUCT_PARAM_TOEPLITZ : q->product;
    const by dense = product_of(p, product, false), other = product_of(p, product, true);
    const linop_pair *const tlr = pair_of(&factor_tlr, other), *const tlr_host =
                                                                   pair_of(&factor_tlr_host, other);
    /* products in FP16 alone are asked for */
    const bool exact_w = dense == BY_FP16 && q->par->compute_precision == PRECISION_PARAM_DOUBLE;
    /* one W, of which the reference makes Y: by a factor in double precision it is there */
    const bool shares = dense == BY_FP16 && !exact_w && sys_shares(q->s);
    /* where a device has no room for a dense factor */
    const linop_pair *const host =
        dense == BY_FP16 && !exact_w ? split_pair(true, dense) : pair_of(&factor_host, dense);
    int n = named(factor, dense, other, p, pairs);
    if (n > 0)
        return n;
    if (lattices && !shares)
        pairs[n++] = split_pair(false, BY_FP16_LATTICE);
    if (dense == BY_EXACT && p->moduli > 0)
        pairs[n++] = pair_of(&factor_dense_integer, BY_EXACT);
    if (shares)
        pairs[n++] = pair_of(&factor_dense, dense);
    if (dense != BY_EXACT || q->par->compute_double != DOUBLE_PARAM_INTEGER)
        pairs[n++] = exact_w || dense == BY_EXACT || dense == BY_TOEPLITZ
                         ? pair_of(&factor_dense, dense)
                         : split_pair(false, dense);
    if (compress && !mixed)
        pairs[n++] = tlr;
    if (dense == BY_EXACT || dense == BY_FP16 || !p->host)
        pairs[n++] = host;
    if (compress && mixed)
        pairs[n++] = tlr;
    if (compress)
        pairs[n++] = tlr_host;
    if (automatic && mixed && q->par->compute_precision == PRECISION_PARAM_AUTO && !p->host) {
        pairs[n++] = pair_of(&factor_dense, BY_EXACT);
        pairs[n++] = pair_of(&factor_host, BY_EXACT);
    }
    return n;
}

status plan_choose_pair(const request *q, const machine *m, double rest, plan *p) {
    const char *name = test_choice("operator");
    const linop_pair *pairs[8] = {q->kept};
    int n = 1;
    if (name != NULL) {
        pairs[0] = linop_find(name);
        if (pairs[0] == NULL)
            return status_fail(MOAO_INPUT, "there is no operator %s", name);
    } else if (q->kept == NULL) {
        bool lattices;
        const status st = lattices_serve(q, p, &lattices);
        if (st != MOAO_OK)
            return st;
        n = serving(q, p, lattices, pairs);
    }
    grant(q, m, rest, p);
    const int moduli = p->moduli;
    double mixed = 0; /* what the smallest of these needs for one target */
    for (int i = 0; i < n && !p->held; i++) {
        const bool chosen = q->par->compute_double == DOUBLE_PARAM_AUTO;
        p->moduli = chosen && pairs[i]->factor != &factor_dense_integer ? 0 : moduli;
        count(q, pairs[i], (size_t)q->par->compute_panel, p);
        const double needs = (double)plan_device_bytes(p, 1);
        if (pairs[i]->product->fp16)
            mixed = mixed > 0 && mixed < needs ? mixed : needs;
    }
    p->mixed_needs = p->pair != NULL && p->pair->product->exact ? mixed : 0;
    return p->fits > 0 ? MOAO_OK : say_too_little(p);
}

status plan_exact(const request *q, const machine *m, const plan *of, int rows, bool inverse,
                  plan *p) {
    *p = *of;
    p->quiet = true;
    p->rows = rows;
    p->points = 0;
    p->chunk = p->nchunk = p->most = 1;
    p->nsample = 0;
    p->raw = false; /* W itself is wanted */
    p->group_size = p->devices ? 1 : p->nrank;
    if (!p->devices)
        return MOAO_OK;
    p->way = inverse ? COMMAND_FILTER : COMMAND_MATRIX;
    grant(q, m, 0, p);
    p->held = false;
    const bool distributed = of->pair->factor->distributed;
    const factor_kind *f = distributed     ? &factor_distributed_own
                           : p->moduli > 0 ? &factor_dense_integer
                                           : &factor_dense;
    count(q, pair_of(f, BY_EXACT), of->width, p);
    if (!p->held && !distributed)
        count(q, pair_of(&factor_host, BY_EXACT), of->width, p);
    return p->fits > 0 ? MOAO_OK : say_too_little(p);
}

bool plan_factor_named(const factor_kind *f, int name) {
    switch (name) {
    case FACTOR_PARAM_DENSE: /* with products in FP16 in split FP16 */
        return !f->compressed && !f->distributed && f->residuals == 0;
    case FACTOR_PARAM_HOST:
        return f == &factor_host;
    case FACTOR_PARAM_TLR:
        return f->compressed;
    case FACTOR_PARAM_TLR_HOST:
        return f == &factor_tlr_host;
    case FACTOR_PARAM_FP16:
        return f->split || f->residuals > 0;
    case FACTOR_PARAM_FP16_HOST:
        return (f->split || f->residuals > 0) && f->on_host;
    case FACTOR_PARAM_DISTRIBUTED:
        return f->distributed;
    default:
        return true;
    }
}

status plan_check_named(const request *q, const plan *p) {
    static const char *const name[] = {FACTOR_PARAM_WORDS};
    const linop_pair *pair = p->pair;
    if (test_choice("operator") != NULL)
        return MOAO_OK;
    if (p->moduli > 0 && pair->factor != &factor_dense && pair->factor != &factor_dense_integer &&
        !(pair->product->fp16 && p->devices))
        return status_fail(
            MOAO_INPUT,
            "compute.double: integer computes a dense factor in the memory of a GPU, and here the "
            "factor is %s; use compute.double=native, or a GPU whose memory holds it with its "
            "residues, compute.factor=dense and compute.precision=double",
            pair->factor == &factor_distributed ? "the CPUs'"
            : pair->factor == &factor_host      ? "in the host's memory"
                                                : pair->factor->word);
    if (q->par->compute_phase == PHASE_PARAM_LAYERS && !p->by_layers)
        return status_fail(MOAO_INPUT,
                           "compute.phase: layers is computed by CPUs with a dense factor of all "
                           "ranks, and of psf.residual=phase alone; use compute.backend=cpu with "
                           "compute.factor=dense, or compute.phase=direct");
    if (q->factor == FACTOR_PARAM_HOST && !plan_factor_named(pair->factor, q->factor))
        return status_fail(
            MOAO_INPUT, "compute.factor: host is a factor that is streamed to a GPU, and none is "
                        "used; on CPUs a dense factor is in their memory: use "
                        "compute.factor=dense");
    if (q->product == PRODUCT_PARAM_FP16 && !pair->product->fp16)
        return status_fail(
            MOAO_INPUT, "compute.product: fp16 needs a GPU, and none is used; use "
                        "compute.product=exact, or compute.precision=mixed, which is mixed where "
                        "there is a GPU");
    if (!plan_factor_named(pair->factor, q->factor))
        return status_fail(MOAO_INPUT, "compute.factor: %s does not compute here, but %s",
                           name[q->factor], pair->factor->word);
    if (q->product == PRODUCT_PARAM_TOEPLITZ && strcmp(pair->product->word, "toeplitz") != 0)
        return status_fail(MOAO_INPUT, "compute.product: toeplitz does not compute here, but %s",
                           pair->product->word);
    return MOAO_OK;
}
