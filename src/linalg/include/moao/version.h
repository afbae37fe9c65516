/* The version of these headers, and of the library that a program runs with. */
#ifndef MOAO_VERSION_H
#define MOAO_VERSION_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MOAO_LINALG_MAJOR 0
#define MOAO_LINALG_MINOR 3
#define MOAO_LINALG_PATCH 0
/* 10000 major + 100 minor + patch, to compare with #if. */
#define MOAO_LINALG_VERSION                                                                        \
    (10000 * MOAO_LINALG_MAJOR + 100 * MOAO_LINALG_MINOR + MOAO_LINALG_PATCH)

/* Local. MOAO_LINALG_VERSION of the library itself. */
MOAO_PUBLIC int moao_linalg_version(void);

#ifdef __cplusplus
}
#endif
#endif
