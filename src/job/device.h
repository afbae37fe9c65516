/* Which backend a run uses: compute.backend against what the machine has. */
#ifndef MOAO_DEVICE_H
#define MOAO_DEVICE_H

#include "base/comm.h"
#include "moao/backend.h"
#include "params/params.h"

typedef struct {
    const backend *be; /* NULL: the CPU's, in which the ranks work in lockstep */
    int sharing;       /* ranks of a node on one device, at most */
    double memory;     /* bytes free on the fullest device, */
    double total;      /* and that the smallest one has */
    bool own;          /* no GPU: each rank is a device of its own, the CPU */
    char text[320];    /* the device of this rank; without one: what is missing, "" when the user
                          wanted none */
} device_choice;

/* Collective. own: without a GPU each rank is a device (plan_own_device). The same choice on every
 * rank: a GPU only where every rank has one. MOAO_INPUT, with
 * what is missing and what to do, when compute.backend is gpu and there is none. The variable
 * MOAO_RESIDENT_BACKEND names a backend (cpu) that serves as a device, whatever the
 * parameter says. */
status device_choose(const comm *c, const params *par, bool own, device_choice *d);

#endif
