/* Which backend a run uses: compute.backend against what the machine has. */
#ifndef MOAO_DEVICE_H
#define MOAO_DEVICE_H

#include "base/machine.h"
#include "params/params.h"

/* Collective. The devices of a machine that was measured. own: without a GPU each rank is a device
 * (request_own_device). The same choice on every rank: a GPU only where every rank has one.
 * MOAO_INPUT, with what is missing and what to do, when compute.backend is gpu and there is none.
 * Tests name a backend (cpu) that serves as a device, whatever the parameter says (base/fault.h,
 * "device"). */
status device_choose(const comm *c, const params *par, bool own, machine *m);

/* Why a case is computed on CPUs whatever a machine has, compute.backend: cpu apart; NULL: it need
 * not. */
const char *device_host_only(const params *par);

#endif
