/* What a reconstructor, its exposures and a chunk of targets take of a device's memory. */
#ifndef MOAO_DEVICE_PLAN_H
#define MOAO_DEVICE_PLAN_H

#include "operator/operator.h"
#include "params/params.h"
#include "psf/psf.h"
#include "tor/command.h"

#define DEVICE_ITEMS 24

typedef struct {
    const linop_pair *pair; /* NULL: no device */
    size_t width;           /* columns of a panel */
    int fits;               /* targets whose W fit beside the rest; 0: not even one */
    int nitem;              /* uses, whatever the number of targets [bytes] */
    struct {
        const char *name;
        size_t bytes;
    } item[DEVICE_ITEMS];
    const char *per_target; /* what one target takes */
    size_t fixed, target;   /* sum of the items; of one target [bytes] */
    size_t least;           /* of all targets together: what comes before them */
    bool held;              /* one fits where nothing else runs, whatever is free now */
} device_plan;

typedef struct {    /* memory of a device that a rank may use */
    double bytes;   /* as far as it is free now */
    double machine; /* where nothing else runs: what formats are chosen by; 0: the same */
    bool host;      /* the device is the host, and that is all that is free there */
    double beside;  /* of the host's memory, what the rest of the rank takes: it is not in these */
} device_room;

typedef struct {            /* which formats, and what they are asked for */
    bool mixed;             /* exposures in mixed precision, */
    bool lattice_pairs;     /* where there is room with sensors on a common lattice by transforms */
    int factor, product;    /* compute.factor, compute.product */
    bool host;              /* the device is the host itself, */
    size_t tables;          /* whose tables of covariances take so much */
    command_way way;        /* how D+ is applied */
    int tile;               /* of a compressed factor, 0: chosen */
    int members;            /* over which it is distributed, 0: each rank has all of it */
    double compressed;      /* its bytes as predicted, 0: unknown */
    int rows;               /* of W of a target */
    int nlayer;             /* most layers of a profile */
    size_t width;           /* columns of a panel, 0: chosen */
    int nsample;            /* columns of the sampled residual */
    const linop_pair *kept; /* of a run that goes on: this one or none; NULL: choose */
    device_room room;
} device_wants;

/* Local, needs no device. */
void device_plan_make(const linop_pair *pair, const device_wants *w, const sys *s,
                      const psf_opts *o, device_plan *p);

/* Local. Bytes with n targets at a time. */
size_t device_plan_bytes(const device_plan *p, int n);

/* The same for the first pair, of those that compute what is asked for, of which the machine holds
 * one target; the one of a run that goes on, or that MOAO_OPERATOR names, alone. MOAO_INPUT, with
 * whose memory is too little, where none is held, or where the one that is does not fit into what
 * is free now: another one would depend on that. */
status device_plan_choose(const device_wants *w, const sys *s, const psf_opts *o, device_plan *p);

/* Local. MOAO_INPUT where a factor or a product is asked for by name and the pair is of another
 * one, unless MOAO_OPERATOR names the pair. */
status device_plan_check_named(const params *par, const linop_pair *pair);

#endif
