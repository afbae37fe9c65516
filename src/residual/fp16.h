/* Mixed precision, by differences. With W Cmm0 = B0 = D+ Ctm0, dT the lower triangle (diagonal
 * halved) of the difference dC = Cmm - beta Cmm0 without tip-tilt constants, K and K0 those
 * constants, and any beta, Y = (W dT + 1/2 W (K - beta K0) - D+ (Ctm - beta Ctm0)) W' - beta/2 B0
 * W' is what the dense operator's products make, but for an antisymmetric part. The differences are
 * small, so their products may be of low precision: they are products of FP16 numbers on tensor
 * cores, and the entries come in single precision. Of the two other terms, B0 W' is made of split
 * FP16 a number, with sums that do not drift, and those of rank one in W K W' in double precision.
 * Model section 6.
 *
 * W itself is solved for with the factor of Cmm0 in split FP16 entry
 * (linalg/include/moao/fp16_factor.h), and kept in split FP16. The factor is made in double
 * precision: on the device, in the memory that later holds W of the targets, or, where that is too
 * small (linop_fp16_host), in the host's. What replaces it there takes a quarter of its room.
 *
 * How far all this is from double precision is seen on the sampled target of an exposure, which the
 * reference computes in double precision with a W of its own (fp16_reference.c). */
#ifndef MOAO_FP16_H
#define MOAO_FP16_H

#include "operator/operator.h"

/* Targets of a factor in the host's memory in place of `targets` here: their W is twice as large.
 */
static inline int fp16_host_targets(int targets) {
    return targets > 3 ? targets / 2 : 1;
}

#endif
