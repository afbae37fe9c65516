/* Whether a GPU may be there, without loading what finds out. */
#ifndef MOAO_BACKEND_DRIVER_H
#define MOAO_BACKEND_DRIVER_H

#include <stdbool.h>

/* Local. A driver is installed, without which there is no backend "gpu" (backend.h); some
 * microseconds. */
bool moao_backend_has_driver(void);

#endif
