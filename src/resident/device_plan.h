/* What a reconstructor, its exposures and a chunk of targets take of a device's memory. */
#ifndef MOAO_DEVICE_PLAN_H
#define MOAO_DEVICE_PLAN_H

#include "system.h"
#include <stddef.h>

#define DEVICE_ITEMS 10

typedef struct {
    size_t width; /* columns of a panel */
    int fits;     /* targets whose W fit beside the rest; 0: not even one */
    int nitem;    /* uses, whatever the number of targets [bytes] */
    struct {
        const char *name;
        size_t bytes;
    } item[DEVICE_ITEMS];
    size_t fixed, target; /* sum of them; W of one target [bytes] */
} device_plan;

/* Local, needs no device. nlayer: most layers of a profile; width: columns of a panel, 0: chosen;
 * nsample: columns of the sampled residual; memory: bytes of the device that may be used. */
void device_plan_make(const sys *s, int nlayer, size_t width, int nsample, double memory,
                      device_plan *p);

#endif
