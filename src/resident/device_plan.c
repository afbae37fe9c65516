#include "resident/device_plan.h"

#include "backend/backend_half.h"
#include "matcov/matcov.h"

#include <limits.h>
#include <string.h>

/* The driver's context, the kernels, work of the dense operations and of the covariances. */
#define RESERVE ((size_t)3 << 29)

/* Columns of a panel of a streamed factor that suffice: sending what lies to the left of a panel of
 * B columns takes 3600 / B of the time of the products made with it (50 TFLOP/s, 55 GB/s). */
#define FACTOR_WIDTH ((size_t)8192)

static void add(device_plan *p, const char *name, size_t bytes) {
    p->item[p->nitem].name = name;
    p->item[p->nitem++].bytes = bytes;
    p->fixed += bytes;
}

/* The factor and an exposure's T in one array. */
static void add_array(size_t m, size_t v, device_plan *p) {
    const size_t d = sizeof(double);
    add(p, "factor of Cmm0, and Cmm of an exposure", m * m * d);
    add(p, "its blocks on the diagonal", m * p->width * d);
    add(p, "residual covariance of a target", v * v * d);
    p->per_target = "W of a target";
    p->target = v * m * d;
}

int device_plan_constants(const sys *s) {
    int n = 0;
    for (int w = 0; w < s->nsensor; w++)
        n += s->sensors[w].lgs ? 2 : 0;
    return n;
}

size_t device_plan_differences(const sys *s, size_t width) {
    const size_t halves = (s->m * (s->m + width) / 2 + width * width) * sizeof(backend_f16);
    const size_t doubles = (size_t)s->dm.nact * s->m * sizeof(double);
    return halves > doubles ? halves : doubles;
}

static void add_mixed(const sys *s, device_plan *p) {
    const size_t m = s->m, t = s->t, v = (size_t)s->dm.nact, w = p->width;
    const size_t h = sizeof(backend_f16), f = sizeof(float), d = sizeof(double);
    const size_t nk = (size_t)device_plan_constants(s);
    add(p, "mixed: difference of two T", device_plan_differences(s, w));
    add(p, "mixed: W and D+ in halves", v * (m + t) * h);
    add(p, "mixed: panels", (m + w + v) * w * f + (t + v) * w * h);
    add(p, "mixed: residual covariance and tip-tilt", v * v * f + (m + v + nk) * nk * d);
    p->per_target = "W of a target, D+ Ctm0 W'";
    p->target += (v * v + v * nk) * d;
}

/* Two pieces of the factor in turn, one of which serves the exposures. Two of its panels are made
 * in the room of W; where that is less than a piece is wide, there must be more. */
static void add_pieces(size_t m, size_t v, size_t tables, device_plan *p) {
    const size_t d = sizeof(double);
    add(p, "pieces of the factor, of Cmm of an exposure", 2 * m * p->width * d);
    if (2 * p->width > v)
        add(p, "panels of the factor, beyond the room of W", (2 * p->width - v) * m * d);
    p->per_target = "W and residual covariance of a target";
    p->target = v * m * d + v * v * d + tables;
}

void device_plan_make(const sys *s, const psf_opts *o, int nlayer, size_t width, int nsample,
                      bool streamed, bool mixed, double memory, device_plan *p) {
    const size_t m = s->m, t = s->t, v = (size_t)s->dm.nact, d = sizeof(double);
    const size_t tables = matcov_target_bytes(s, nlayer);
    memset(p, 0, sizeof *p);
    p->streamed = streamed;
    p->mixed = mixed;
    /* 2816 = 22 tiles of 128 columns: with the 42 of 5336 actuators exactly 7 rounds of 132
     * multiprocessors. D+ Ctm takes 0.22 s, with 2048 (5.1 rounds) 0.24 s. */
    p->width = width > 0 ? width : m >= 32768 ? 2816 : m >= 4096 ? 1024 : 256;
    p->width = p->width < m ? p->width : m;
    if (streamed)
        add_pieces(m, v, tables, p);
    else
        add_array(m, v, p);
    if (mixed)
        add_mixed(s, p);
    add(p, "command matrix D+", v * t * d);
    add(p, "panels of Ctm and of W T - D+ Ctm", (t + v) * p->width * d);
    add(p, "sampled residual", (v + m) * (size_t)nsample * d);
    add(p, "tables of covariances", matcov_bytes(s, nlayer) + (streamed ? 0 : tables));
    add(p, "stationary averages, OTFs and PSFs", psf_device_bytes(s, o));
    add(p, "context, kernels and their work", RESERVE);
    double left = memory - (double)p->fixed, n = left / (double)p->target;
    p->fits = left < 0 ? 0 : n > INT_MAX ? INT_MAX : (int)n;
}

size_t device_plan_factor_width(const device_plan *p, const sys *s, int targets) {
    const size_t room = (size_t)targets * (size_t)s->dm.nact / 2;
    const size_t b = (room < FACTOR_WIDTH ? room : FACTOR_WIDTH) / p->width * p->width;
    return b > p->width ? b : p->width;
}

size_t device_plan_host_bytes(const sys *s, size_t factor_width) {
    size_t bytes = 0;
    for (size_t j = 0; j < s->m; j += factor_width) {
        const size_t rows = s->m - j, n = rows < factor_width ? rows : factor_width;
        bytes += rows * n * sizeof(double);
    }
    return bytes;
}
