/* Structure functions, fast: a table of the scale-free bracket of von Karman's structure function
 * (and one of Kolmogorov's power law), valid for every layer, as polynomials on intervals taken
 * from the bits of the squared separation, so that no root, logarithm or branch is left per
 * evaluation. Model section 3.
 *
 * Per octave of s there are 4 intervals with a polynomial of degree 9 each: the error is below
 * 2e-14 relative from s = 2^-62 on, and below 2^-112 D is 0. */
#ifndef MOAO_MATCOV_STRUCTURE_H
#define MOAO_MATCOV_STRUCTURE_H

#include "moao/status.h"
#include <stddef.h>
#include <stdint.h>

#define STRUCTURE_BITS 2   /* log2 of the intervals per octave */
#define STRUCTURE_TERMS 10 /* coefficients of a polynomial */
/* exponent of s where interval 0 starts; the first two octaves are zero */
#define STRUCTURE_FIRST (-114)
#define STRUCTURE_HALF 8 /* intervals of half a window: two octaves */
#define STRUCTURE_HALVES 80
#define STRUCTURE_WINDOW (2 * STRUCTURE_HALF) /* intervals that a kernel can hold in registers */
#define STRUCTURE_SIZE ((size_t)STRUCTURE_HALVES * STRUCTURE_TERMS * STRUCTURE_WINDOW)
#define STRUCTURE_INTERVALS (STRUCTURE_HALVES * STRUCTURE_HALF)

/* From the bits of s: interval number = (bits >> STRUCTURE_SHIFT) - STRUCTURE_ZERO, and the
 * argument of its polynomial = mantissa, with the bits that chose the interval cleared, -
 * STRUCTURE_MIDDLE. */
#define STRUCTURE_SHIFT (52 - STRUCTURE_BITS)
#define STRUCTURE_ZERO ((INT64_C(1023) + STRUCTURE_FIRST) << STRUCTURE_BITS)
#define STRUCTURE_REST ((INT64_C(1) << STRUCTURE_SHIFT) - 1)
#define STRUCTURE_ONE INT64_C(0x3ff0000000000000)
#define STRUCTURE_MIDDLE (1.0 + 0.5 / (1 << STRUCTURE_BITS))

/* Window w holds the intervals from 8 w to 8 w + 15, so every interval is there twice: coefficient
 * c of interval i is coef[(w * STRUCTURE_TERMS + c) * STRUCTURE_WINDOW + i - 8 w]. s is clamped
 * into [lo, hi]. */
typedef struct {
    const double *coef;
    const double *line; /* those of an interval side by side: [interval][STRUCTURE_TERMS] */
    double lo, hi;
} structure_table;

/* s = u^2 = (2 pi rho / L0)^2 -> k2 - u^(5/6) K_{5/6}(u); for Kolmogorov s = rho^2 -> rho^(5/3).
 * Made by the first call of the process; coef and line are borrowed for its life. MOAO_MEMORY. */
status structure_table_init(structure_table *t, int kolmogorov);

/* f[e] += coef * table((x[e] - x0)^2 + (y[e] - y0)^2) for 0 <= e < n; n is a multiple of 8 and the
 * arrays are 64-byte aligned. The value of an element does not depend on its place in the array. */
typedef void structure_kernel(const structure_table *t, size_t n, const double *x, const double *y,
                              double x0, double y0, double coef, double *f);
structure_kernel structure_add_portable;
/* Kernels for processors with AVX-512 and with AVX2, NULL elsewhere. */
structure_kernel *structure_kernel_avx512(void);
structure_kernel *structure_kernel_avx2(void);
/* The fastest kernel that this processor runs. */
structure_kernel *structure_kernel_best(void);

#endif
