/* Kernels that are data as functions of the formats (from_points.c). */
#ifndef MOAO_GP_ENTRIES_H
#define MOAO_GP_ENTRIES_H

#include "moao/hier.h"
#include "radial.h"

/* The same function for entries between scaled coordinates; its table is r's, on the host. r was
 * set for k (gp_radial_set). */
hier_function gp_function(const gp_kernel *k, const gp_radial *r);

#endif
