/* Which backend a run uses: compute.backend against what the machine has. */
#ifndef MOAO_DEVICE_H
#define MOAO_DEVICE_H

#include "base/background.h"
#include "base/machine.h"
#include "params/params.h"

/* Collective. The devices of a machine that was measured. own: without a GPU each rank is a device
 * (request_own_device). The same choice on every rank: a GPU only where every rank has one.
 * MOAO_INPUT, with what is missing and what to do, when compute.backend is gpu and there is none.
 * Tests name a backend (cpu) that serves as a device, whatever the parameter says (base/fault.h,
 * "device"). */
status device_choose(const comm *c, const params *par, bool own, machine *m);

/* Local. A GPU's driver and the libraries on it take a second to start: in a thread, while the
 * caller does what needs no device. Nothing is started where a case is computed on CPUs or the
 * machine has no driver. DRIVER: the plugin and CUDA's context on the device of this rank;
 * LIBRARIES, after device_choose: what the first context of a backend loads. end waits for the
 * thread; fine on {0}. */
typedef enum { DEVICE_DRIVER, DEVICE_LIBRARIES } device_part;
typedef struct {
    background thread;
    device_part part;
    const backend *be;
    int node_rank;
} device_start;
bool device_is_likely(const params *par);
void device_begin(const comm *c, const backend *be, device_part part, device_start *d);
void device_end(device_start *d);

/* Why a case is computed on CPUs whatever a machine has, compute.backend: cpu apart; NULL: it need
 * not. */
const char *device_host_only(const params *par);

#endif
