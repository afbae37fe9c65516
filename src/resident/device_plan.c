#include "resident/device_plan.h"

#include "matcov/matcov.h"

#include <limits.h>
#include <string.h>

/* The driver's context, the kernels, work of the dense operations and of the covariances. */
#define RESERVE ((size_t)3 << 29)

static void add(device_plan *p, const char *name, size_t bytes) {
    p->item[p->nitem].name = name;
    p->item[p->nitem++].bytes = bytes;
    p->fixed += bytes;
}

void device_plan_make(const sys *s, int nlayer, size_t width, int nsample, double memory,
                      device_plan *p) {
    const size_t m = s->m, t = s->t, v = (size_t)s->dm.nact, d = sizeof(double);
    memset(p, 0, sizeof *p);
    p->width = width > 0 ? width : m >= 32768 ? 2048 : m >= 4096 ? 1024 : 256;
    p->width = p->width < m ? p->width : m;
    add(p, "factor of Cmm0, and Cmm of an exposure", m * m * d);
    add(p, "its blocks on the diagonal", m * p->width * d);
    add(p, "command matrix D+", v * t * d);
    add(p, "panels of Ctm and of W T - D+ Ctm", (t + v) * p->width * d);
    add(p, "residual covariance of a target", v * v * d);
    add(p, "sampled residual", (v + m) * (size_t)nsample * d);
    add(p, "tables of covariances", matcov_bytes(s, nlayer) + matcov_target_bytes(s, nlayer));
    add(p, "context, kernels and their work", RESERVE);
    p->target = v * m * d;
    double left = memory - (double)p->fixed, n = left / (double)p->target;
    p->fits = left < 0 ? 0 : n > INT_MAX ? INT_MAX : (int)n;
}
