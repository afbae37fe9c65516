#include "job/device_plan.h"

#include "base/machine_constants.h"
#include "obsseq/budget.h"
#include "params/params.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add(device_plan *p, const char *name, size_t bytes) {
    p->item[p->nitem].name = name;
    p->item[p->nitem++].bytes = bytes;
    p->fixed += bytes;
}

/* Targets that fit into so many bytes. */
static int targets_in(const device_plan *p, double bytes) {
    const double left = bytes - (double)p->fixed, n = left / (double)p->target;
    return left < (double)p->least || !(n >= 1) ? 0 : n > INT_MAX ? INT_MAX : (int)n;
}

void device_plan_make(const linop_pair *pair, const device_wants *w, const sys *s,
                      const psf_opts *o, device_plan *p) {
    const size_t m = s->m, t = sys_fit_rows(s), v = (size_t)w->rows, d = sizeof(double);
    const size_t tables = pair->product->together ? 0 : matcov_target_bytes(s, w->nlayer);
    linop_bytes of = {0};
    memset(p, 0, sizeof *p);
    p->pair = pair;
    /* panels of a factor in the host's memory are those of W too, and two lie on the device */
    const size_t large = pair->product->width > 0 && pair->factor->host == NULL
                             ? (size_t)pair->product->width
                             : MACHINE_PANEL;
    p->width = w->width > 0 ? w->width : m >= 32768 ? large : m >= 4096 ? 1024 : 256;
    p->width = p->width < m ? p->width : m;
    linop_bytes_of(pair,
                   &(linop_case){.s = s,
                                 .rows = w->rows,
                                 .width = p->width,
                                 .nlayer = w->nlayer,
                                 .tile = w->tile,
                                 .members = w->members,
                                 .compressed = w->compressed,
                                 .host = w->host,
                                 .points = (int64_t)psf_points_of(s, o)},
                   &of);
    for (int i = 0; i < of.nitem; i++)
        add(p, of.item[i].name, of.item[i].bytes);
    p->per_target = of.per_target;
    p->target = of.target;
    p->least = of.least;
    add(p, s->fit.phase ? "command matrix F" : "command matrix D+",
        command_bytes(v, t, w->way, o->phase));
    add(p, "panels of Ctm and of W T - D+ Ctm",
        (command_panel_rows(v, t, w->way) + v) * p->width * d);
    /* single pairs of points: on the host itself the PSF's own, which the host's plan counts */
    const size_t single = psf_pairwise_count_of(s, o) * sizeof(float);
    if (o->phase) {
        const size_t points = psf_points_of(s, o), one = phase_target_bytes(points, v);
        add(p, "phase on the pupil",
            phase_bytes(points, p->width) + (pair->product->together ? 0 : one) +
                (w->room.host ? 0 : single));
        p->target += pair->product->together ? one : 0;
        p->target += pair->product->leaves_share ? phase_share_bytes(s, o) : 0;
    }
    if (o->budget)
        add(p, "error budget", budget_bytes(s, psf_points_of(s, o), v, p->width));
    add(p, "sampled residual", (v + m) * (size_t)w->nsample * d);
    add(p, "tables of covariances",
        (w->room.host ? w->tables : matcov_device_bytes(s, w->nlayer)) + tables);
    add(p, "stationary averages, OTFs and PSFs",
        psf_device_bytes(s, o) - (w->room.host ? single : 0));
    if (!w->room.host)
        add(p, "context, kernels and their work", BACKEND_RESERVE);
    p->fits = targets_in(p, w->room.bytes);
    p->held = targets_in(p, fmax(w->room.machine, w->room.bytes)) > 0;
}

size_t device_plan_bytes(const device_plan *p, int n) {
    const size_t targets = (size_t)n * p->target;
    return p->fixed + (targets > p->least ? targets : p->least);
}

/* MOAO_INPUT: what one target at a time needs, in the last format that was tried. */
static status say_too_little(const device_plan *p, const device_room *room) {
    const double needed = ((double)device_plan_bytes(p, 1) + room->beside) / 1e9,
                 given = (room->bytes + room->beside) / 1e9;
    const char *format = p->pair->format;
    const char *what = p->held ? "free now" : "available",
               *now = p->held ? "wait until other programs have ended, or " : "";
    if (room->host)
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

/* Pairs with a dense factor, in the host's memory, compressed: by product. */
static const linop_pair *const dense_pairs[PRODUCTS] = {&linop_dense, &linop_fp16, &linop_toeplitz,
                                                        &linop_fp16_lattice_pairs};
static const linop_pair *const host_pairs[PRODUCTS] = {
    &linop_host, &linop_host_fp16, &linop_host_toeplitz, &linop_host_fp16_lattice};
static const linop_pair *const tlr_pairs[PRODUCTS] = {&linop_tlr, &linop_tlr_fp16,
                                                      &linop_tlr_toeplitz, &linop_tlr_fp16_lattice};

/* The product that a factor of these pairs is to serve. */
static by product_of(const device_wants *w, bool compressed) {
    /* on CPUs products in FP16 take longer */
    const bool fp16 = w->mixed && (!compressed || !w->host);
    switch (w->product) {
    case PRODUCT_PARAM_EXACT:
        return BY_EXACT;
    case PRODUCT_PARAM_FP16:
        return BY_FP16;
    case PRODUCT_PARAM_TOEPLITZ:
        return w->mixed ? BY_FP16_LATTICE : BY_TOEPLITZ;
    default:
        return fp16 ? BY_FP16 : BY_EXACT;
    }
}

/* Pairs that compute what is asked for, the best first; how many. */
static int serving(const device_wants *w, const linop_pair *pairs[6]) {
    const by dense = product_of(w, false);
    const linop_pair *const tlr = tlr_pairs[product_of(w, true)];
    /* where a device has no room for a dense factor */
    const linop_pair *const host = dense == BY_FP16 ? &linop_fp16_host : host_pairs[dense];
    int n = 0;
    if (w->factor == FACTOR_PARAM_TLR || w->factor == FACTOR_PARAM_HOST) {
        pairs[n++] = w->factor == FACTOR_PARAM_TLR ? tlr : host_pairs[dense];
        return n;
    }
    if (w->lattice_pairs)
        pairs[n++] = &linop_fp16_lattice_pairs;
    pairs[n++] = dense_pairs[dense];
    if (w->factor == FACTOR_PARAM_AUTO && !w->mixed)
        pairs[n++] = tlr;
    if (dense == BY_EXACT || dense == BY_FP16 || !w->host)
        pairs[n++] = host;
    if (w->factor == FACTOR_PARAM_AUTO && w->mixed)
        pairs[n++] = tlr;
    return n;
}

status device_plan_choose(const device_wants *w, const sys *s, const psf_opts *o, device_plan *p) {
    const char *name = getenv("MOAO_OPERATOR");
    const linop_pair *pairs[6] = {w->kept};
    int n = 1;
    *p = (device_plan){0};
    if (name != NULL && *name != '\0') {
        pairs[0] = linop_find(name);
        if (pairs[0] == NULL)
            return status_fail(MOAO_INPUT, "MOAO_OPERATOR: there is no operator %s", name);
    } else if (w->kept == NULL) {
        n = serving(w, pairs);
    }
    for (int i = 0; i < n && !p->held; i++)
        device_plan_make(pairs[i], w, s, o, p);
    return p->fits > 0 ? MOAO_OK : say_too_little(p, &w->room);
}

status device_plan_check_named(const params *par, const linop_pair *pair) {
    const char *variable = getenv("MOAO_OPERATOR");
    if (variable != NULL && *variable != '\0')
        return MOAO_OK;
    if (par->compute_factor == FACTOR_PARAM_HOST && pair->factor != &factor_host)
        return status_fail(
            MOAO_INPUT, "compute.factor: host is a factor that is streamed to a GPU, and none is "
                        "used; on CPUs a dense factor is in their memory: use "
                        "compute.factor=dense");
    if (par->compute_product == PRODUCT_PARAM_FP16 && !pair->product->fp16)
        return status_fail(
            MOAO_INPUT, "compute.product: fp16 needs a GPU, and none is used; use "
                        "compute.product=exact, or compute.precision=mixed, which is mixed where "
                        "there is a GPU");
    if (par->compute_factor == FACTOR_PARAM_TLR && !pair->factor->compressed)
        return status_fail(MOAO_INPUT, "compute.factor: tlr does not compute here, but %s",
                           pair->factor->word);
    if (par->compute_product == PRODUCT_PARAM_TOEPLITZ &&
        strcmp(pair->product->word, "toeplitz") != 0)
        return status_fail(MOAO_INPUT, "compute.product: toeplitz does not compute here, but %s",
                           pair->product->word);
    return MOAO_OK;
}
