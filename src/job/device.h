/* Which backend a run uses: compute.backend against what the machine has. */
#ifndef MOAO_DEVICE_H
#define MOAO_DEVICE_H

#include "base/background.h"
#include "base/machine.h"
#include "params/params.h"
#include <semaphore.h>

/* Local. A GPU's driver and the libraries on it take a second to start: in a thread, while the
 * caller does what needs no device. Nothing is started where a case is computed on CPUs or the
 * machine has no driver. First the plugin and CUDA's context on the device of this rank, for which
 * wait waits; then what the first context of a backend loads. end waits for all of it; fine on {0}.
 */
typedef struct {
    background thread;
    const backend *be; /* NULL: none */
    int node_rank;
    bool known;
    size_t free, memory; /* known: of the device before libraries were loaded [bytes] */
    bool begun;
    sem_t driven; /* begun: the first part has ended */
} device_start;
bool device_is_likely(const params *par);
void device_begin(const comm *c, device_start *d);
void device_wait(device_start *d);
void device_end(device_start *d);

/* Collective. The devices of a machine that was measured. own: without a GPU each rank is a device
 * (request_own_device). The same choice on every rank: a GPU only where every rank has one.
 * MOAO_INPUT, with what is missing and what to do, when compute.backend is gpu and there is none.
 * Tests name a backend (cpu) that serves as a device, whatever the parameter says (base/fault.h,
 * "device"). begun: NULL, or what was waited for and may know how much memory is free. */
status device_choose(const comm *c, const params *par, bool own, const device_start *begun,
                     machine *m);

/* Why a case is computed on CPUs whatever a machine has, compute.backend: cpu apart; NULL: it need
 * not. */
const char *device_host_only(const params *par);

#endif
