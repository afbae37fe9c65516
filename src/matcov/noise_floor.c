/* The least noise with which Cmm is positive definite. Model section 4. */
#include "internal.h"

#include <math.h>

/* Entries of mean gradients are good to some 1e-5 of the slope variance, and the smallest
 * eigenvalues of Cmm without noise fall with the number of subapertures n: below this share of it,
 * times (n / 64)^4, rounding of the tables would count as a negative variance. */
#define FLOOR_64 1.5e-4

double noise_floor(const sys *s, const sensor *o, const profile *p) {
    const double n = o->nssp / 64.0;
    return o->gradient ? FLOOR_64 * n * n * n * n * noise_slope_variance(s, o, p) : 0;
}

void noise_raise(const sys *s, const profile *p, double *noise) {
    for (int w = 0; w < s->nsensor; w++) {
        const sensor *o = &s->sensors[w];
        const double least = noise_floor(s, o, p);
        double *v = noise + 3 * (o->first / 2);
        for (int k = 0; k < o->nsub; k++, v += 3)
            for (int axis = 0; axis < 2; axis++)
                v[axis] = fmax(v[axis], least);
    }
}
