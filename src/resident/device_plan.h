/* What a reconstructor, its exposures and a chunk of targets take of a device's memory. */
#ifndef MOAO_DEVICE_PLAN_H
#define MOAO_DEVICE_PLAN_H

#include "psf/psf.h"
#include <stdbool.h>
#include <stddef.h>

#define DEVICE_ITEMS 16

typedef struct {
    bool streamed; /* the factor of Cmm0 lies in the host's memory and passes by in pieces */
    bool mixed;    /* exposures in mixed precision, with the factor on the device only */
    size_t width;  /* columns of a panel, and of a piece of the factor */
    int fits;      /* targets whose W fit beside the rest; 0: not even one */
    int nitem;     /* uses, whatever the number of targets [bytes] */
    struct {
        const char *name;
        size_t bytes;
    } item[DEVICE_ITEMS];
    const char *per_target; /* what one target takes */
    size_t fixed, target;   /* sum of the items; of one target [bytes] */
} device_plan;

/* Local, needs no device. nlayer: most layers of a profile; width: columns of a panel, 0: chosen;
 * nsample: columns of the sampled residual; memory: bytes of the device that may be used. */
void device_plan_make(const sys *s, const psf_opts *o, int nlayer, size_t width, int nsample,
                      bool streamed, bool mixed, double memory, device_plan *p);

/* Streamed: columns of a panel of the factor, a multiple of p->width, while it is made in the room
 * that later holds W of `targets`; and the host's memory that the panels take in the end [bytes].
 */
size_t device_plan_factor_width(const device_plan *p, const sys *s, int targets);
size_t device_plan_host_bytes(const sys *s, size_t factor_width);

/* Mixed precision: bytes of dT in halves, in panels of `width` columns, or of D+ Ctm0, which takes
 * that place at the solve. */
size_t device_plan_differences(const sys *s, size_t width);
/* Tip-tilt constants: two for each laser star. */
int device_plan_constants(const sys *s);

#endif
