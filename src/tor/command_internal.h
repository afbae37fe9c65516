/* Shared by the files that make D+. Local all of them; a: a lower triangle, v x v. */
#ifndef MOAO_TOR_COMMAND_INTERNAL_H
#define MOAO_TOR_COMMAND_INTERNAL_H

#include "system/system.h"

/* a, the lower triangle of D'D, becomes that of M. */
status command_regularise(const sys *s, double *a);
/* The 1-norm of the symmetric matrix; of a v x v matrix that is stored whole. */
status command_norm(const sys *s, const double *a, double *norm);
double command_norm_of(size_t v, const double *a);
/* MOAO_NUMERIC: that minor of M is not positive. */
status command_not_positive(const sys *s, int minor);
/* x (v x n) minus the mean of each column. */
void command_remove_piston(size_t v, size_t n, double *x);

#endif
