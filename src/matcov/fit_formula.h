/* The scale-free structure functions as polynomials on intervals of the squared separation: for the
 * tables of every backend. Model section 3. */
#ifndef MOAO_MATCOV_FIT_FORMULA_H
#define MOAO_MATCOV_FIT_FORMULA_H

#include "formula.h"

#define FORMULA_FIT_MOST 10 /* terms */

/* Von Karman's bracket at u = sqrt(s), or Kolmogorov's rho^(5/3) at rho = sqrt(s). */
MOAO_HD static inline double formula_scale_free(double s, int kolmogorov) {
    double u = sqrt(s);
    return kolmogorov ? u * cbrt(s) : formula_bracket(u);
}

/* Polynomial through the Chebyshev nodes of the interval octave * [start, start + 2 half]:
 * Chebyshev coefficients by the discrete cosine sum, then rewritten in powers of s / octave - start
 * - half. n <= FORMULA_FIT_MOST terms; coefficient c goes to coef[c * stride]. */
MOAO_HD static inline void formula_fit(double octave, double start, double half, int kolmogorov,
                                       int n, double *coef, int stride) {
    double value[FORMULA_FIT_MOST], power[FORMULA_FIT_MOST], before[FORMULA_FIT_MOST],
        now[FORMULA_FIT_MOST];
    const double pi = FORMULA_TWO_PI / 2.0;
    for (int i = 0; i < n; i++) {
        power[i] = before[i] = now[i] = 0.0;
        value[i] = formula_scale_free(octave * (start + half + half * cos(pi * (i + 0.5) / n)),
                                      kolmogorov);
    }
    now[0] = 1.0; /* T_k in powers of x: `now`, T_{k-1}: `before` */
    for (int k = 0; k < n; k++) {
        double sum = 0.0, next[FORMULA_FIT_MOST];
        for (int i = 0; i < n; i++)
            sum += value[i] * cos(pi * k * (i + 0.5) / n);
        sum *= (k == 0 ? 1.0 : 2.0) / n;
        for (int c = 0; c < n; c++) {
            power[c] += sum * now[c];
            next[c] = (k == 0 ? 1.0 : 2.0) * (c > 0 ? now[c - 1] : 0.0) - before[c];
        }
        for (int c = 0; c < n; c++) {
            before[c] = now[c];
            now[c] = next[c];
        }
    }
    double scale = 1.0;
    for (int c = 0; c < n; c++, scale /= half)
        coef[c * stride] = power[c] * scale;
}

#endif
