/* What of the turbulence the lattice of points samples too coarsely: its frequencies beyond the
 * first Brillouin zone of the lattice, which on the points are indistinguishable from lower ones.
 *
 * Points r = n1 a1 + n2 a2 with a1 = (h, 0), a2 = (h/2, h); reciprocal lattice g = k1 b1 + k2 b2
 * with b1 = (1/h, -1/(2h)), b2 = (0, 1/h); of a square lattice a2 = (0, h), b1 = (1/h, 0). With W
 * the spectrum of the phase,
 *
 *     C_high(r) = int over a cell of [sum_g W(f + g) - W(f + g0)] cos(2 pi f.r) df
 *
 * g0 the g that brings f into the first zone, the cell sampled at (j1 b1 + j2 b2)/size. Beyond
 * |f + g| = REACH/h the sum is an integral, uniform over the cell. */
#include "psf_phase.h"

#include <math.h>
#include <stdlib.h>

#define REACH 3.0

/* x^(-11/6) */
static double fall(double x) {
    return cbrt(sqrt(x)) / (x * x);
}

/* The bracket at (j1 b1 + j2 b2)/size for h = 1, strength 1; cut: (h/L0)^2. */
static double folded(double j1, double j2, double shear, double cut) {
    const double x0 = j1, y0 = j2 - shear * j1;
    const int most = (int)REACH + 1;
    double sum = 0, largest = 0;
    for (int k1 = -most - 1; k1 <= most; k1++)
        for (int k2 = -2 * most - 1; k2 <= 2 * most; k2++) {
            const double x = x0 + k1, y = y0 + k2 - shear * k1, f2 = x * x + y * y;
            if (f2 >= REACH * REACH)
                continue;
            const double w = f2 + cut > 0 ? fall(f2 + cut) : INFINITY;
            if (w > largest) {
                sum += isinf(w) ? 0 : largest;
                largest = w;
            } else
                sum += w;
        }
    return sum;
}

/* D_high = 2 [C_high(0) - C_high] on size x size points n2 slow, for h = 1 and strength 1. */
static status structure_of_points(int size, double shear, double cut, double *d) {
    const size_t n = (size_t)size, half = n / 2 + 1;
    fftw_complex *wave = NULL;
    fftw_plan plan = NULL;
    status st;
    TRY(ALLOC(wave, n * half, "spectrum of the turbulence"));
    plan = fftw_plan_dft_c2r_2d(size, size, wave, d, FFTW_ESTIMATE);
    if (plan == NULL)
        TRY(status_fail(MOAO_INTERNAL, "FFTW cannot plan transforms of %d points", size));
#pragma omp parallel for schedule(dynamic, 4)
    for (int j2 = 0; j2 < size; j2++)
        for (size_t j1 = 0; j1 < half; j1++)
            wave[(size_t)j2 * half + j1] = folded((double)j1 / size, (double)j2 / size, shear, cut);
    fftw_execute(plan);
    const double far = 2 * M_PI * 0.6 * pow(REACH * REACH + cut, -5.0 / 6);
    const double at_zero = d[0], scale = 2 * PSF_SPECTRUM / ((double)n * (double)n);
    d[0] = 0;
    for (size_t i = 1; i < n * n; i++)
        d[i] = scale * (at_zero - d[i]) + 2 * PSF_SPECTRUM * far;
done:
    fftw_destroy_plan(plan);
    free(wave);
    return st;
}

/* Points of a transform along a side, where no two separations of the lattice meet. */
static int transform_size(const psf *p) {
    int size = 16;
    while (size < 2 * p->lattice + 1)
        size += size % 3 == 0 ? size / 3 : size / 2;
    return size;
}

status psf_structure_beyond(const psf *p, double L0, double *d) {
    const int s = p->lattice, size = transform_size(p);
    const double scale = pow(LAMBDA_REF / (2 * M_PI), 2) * pow(p->h, 5.0 / 3);
    double *points = NULL;
    status st;
    TRY(ALLOC(points, (size_t)size * (size_t)size, "structure function beyond the lattice"));
    TRY(structure_of_points(size, 0.5 * p->shift, p->h * p->h / (L0 * L0), points));
    for (int dj = -s; dj <= s; dj++)
        for (int di = -s; di <= s; di++) {
            const int at = (dj + s) * p->nsep + di + s, odd = dj & 1;
            const int n1 = p->shift ? di - (dj - odd) / 2 : di;
            d[at] = p->norm[at] > 0
                        ? scale * points[(size_t)((dj + 2 * size) % size) * (size_t)size +
                                         (size_t)((n1 + 2 * size) % size)]
                        : 0;
        }
done:
    free(points);
    return st;
}
