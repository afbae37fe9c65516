#include "job/device_plan.h"

#include "obsseq/budget.h"
#include "params/params.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void add(device_plan *p, const char *name, size_t bytes) {
    p->item[p->nitem].name = name;
    p->item[p->nitem++].bytes = bytes;
    p->fixed += bytes;
}

void device_plan_make(const linop_kind *kind, const device_wants *w, const sys *s,
                      const psf_opts *o, device_plan *p) {
    const size_t m = s->m, t = s->t, v = (size_t)w->rows, d = sizeof(double);
    const size_t tables = kind->together ? 0 : matcov_target_bytes(s, w->nlayer);
    linop_bytes of = {0};
    memset(p, 0, sizeof *p);
    p->kind = kind;
    /* 2816 = 22 tiles of 128 columns: with the 42 of 5336 actuators exactly 7 rounds of 132
     * multiprocessors. D+ Ctm takes 0.22 s, with 2048 (5.1 rounds) 0.24 s. */
    const size_t large = kind->width > 0 ? (size_t)kind->width : 2816;
    p->width = w->width > 0 ? w->width : m >= 32768 ? large : m >= 4096 ? 1024 : 256;
    p->width = p->width < m ? p->width : m;
    kind->bytes(&(linop_case){.s = s,
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
    add(p, "command matrix D+", command_bytes(v, t, w->way, o->phase));
    add(p, "panels of Ctm and of W T - D+ Ctm",
        (command_panel_rows(v, t, w->way) + v) * p->width * d);
    if (o->phase) {
        const size_t points = psf_points_of(s, o), one = phase_target_bytes(points, v);
        add(p, "phase on the pupil", phase_bytes(points, p->width) + (kind->together ? 0 : one));
        p->target += kind->together ? one : 0;
        p->target += kind->share != NULL ? phase_share_bytes(s, o) : 0;
    }
    if (o->budget)
        add(p, "error budget", budget_bytes(s, psf_points_of(s, o), v, p->width));
    add(p, "sampled residual", (v + m) * (size_t)w->nsample * d);
    add(p, "tables of covariances", matcov_device_bytes(s, w->nlayer) + tables);
    add(p, "stationary averages, OTFs and PSFs", psf_device_bytes(s, o));
    add(p, "context, kernels and their work", BACKEND_RESERVE);
    double left = w->room.bytes - (double)p->fixed, n = left / (double)p->target;
    p->fits = left < (double)p->least ? 0 : n > INT_MAX ? INT_MAX : (int)n;
}

size_t device_plan_bytes(const device_plan *p, int n) {
    const size_t targets = (size_t)n * p->target;
    return p->fixed + (targets > p->least ? targets : p->least);
}

/* MOAO_INPUT: what one target at a time needs, even in the last format that was tried. */
static status say_too_little(const device_plan *p, const device_room *room) {
    const double needed = (double)device_plan_bytes(p, 1) / 1e9, given = room->bytes / 1e9;
    if (room->host)
        return status_fail(
            MOAO_INPUT,
            "compute.memory: one target at a time needs %.2f GB of the host's memory, "
            "%.2f GB are available; use a node with more memory, smaller sensors, or "
            "compute.format=dense with more ranks",
            needed, given);
    if (p->kind == &linop_tlr)
        return status_fail(MOAO_INPUT,
                           "compute.format: one target at a time needs %.2f GB with a factor "
                           "compressed by tiles, %.2f GB are given and free; use more memory "
                           "(compute.gpu_memory), a larger compute.tlr_tolerance, "
                           "compute.tlr_distributed with more ranks, or compute.format=dense, "
                           "which may keep the factor in the host's memory",
                           needed, given);
    return status_fail(
        MOAO_INPUT,
        "compute.gpu_memory: one target at a time needs %.2f GB of a GPU even with the factor "
        "in the host's memory, %.2f GB are given and free; use a GPU with more memory that "
        "nothing else uses, smaller sensors, or compute.backend=cpu",
        needed, given);
}

status device_plan_choose(const device_wants *w, const sys *s, const psf_opts *o, device_plan *p) {
    const char *name = getenv("MOAO_OPERATOR");
    const linop_kind *kinds[6];
    int n = 0;
    if (w->format == FORMAT_TLR) {
        kinds[n++] = &linop_tlr;
    } else {
        if (w->format == FORMAT_GRID || w->alike)
            kinds[n++] = w->mixed ? &linop_half_alike : &linop_grid;
        if (w->mixed) {
            kinds[n++] = &linop_half;
            kinds[n++] = &linop_half_passing;
        }
        kinds[n++] = &linop_dense;
        if (w->format == FORMAT_AUTO)
            kinds[n++] = &linop_tlr;
        kinds[n++] = &linop_streamed;
    }
    *p = (device_plan){0};
    if (name != NULL) {
        kinds[0] = linop_find(name);
        n = 1;
        if (kinds[0] == NULL)
            return status_fail(MOAO_INPUT, "MOAO_OPERATOR: there is no operator %s", name);
    }
    for (int i = 0; i < n && p->fits == 0; i++)
        device_plan_make(kinds[i], w, s, o, p);
    return p->fits > 0 ? MOAO_OK : say_too_little(p, &w->room);
}
