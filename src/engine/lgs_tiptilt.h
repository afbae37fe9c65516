/* Tip-tilt constants of laser stars, which operators in less than double precision keep out of
 * their covariances: two for each laser star, one added to all covariances of its x slopes, one to
 * those of its y slopes. */
#ifndef MOAO_TIPTILT_H
#define MOAO_TIPTILT_H

#include "engine/engine.h"

/* How many there are. */
int tiptilt_constants(const sys *s);
/* Local. To the device: m x tiptilt_constants(s), 1 where a measurement is of that laser star and
 * axis. Waits. */
status tiptilt_axes(engine *e, double *axes);
/* Half of each constant under the profile loaded, on the diagonal of a matrix of that order. */
void tiptilt_fp16(const engine *e, double *diagonal);

#endif
