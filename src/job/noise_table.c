#include "job/noise_table.h"

#include "matcov/matcov.h"

#include <math.h>
#include <stdio.h>

enum { MOST_SENSORS = 24 }; /* more are not read by anybody */

void noise_table_print(const sys *s, const profile *p) {
    printf("noise           %-20s %9s %14s %16s\n", "of a slope", "photons", "spot [arcsec]",
           "noise [mas rms]");
    for (int w = 0; w < s->nsensor && w < MOST_SENSORS; w++) {
        noise_figures f;
        char spot[32], photons[32], noise[32];
        matcov_noise_figures(s, p, w, &f);
        snprintf(photons, sizeof photons, isnan(f.photons) ? "-" : "%.4g", f.photons);
        if (isnan(f.across))
            snprintf(spot, sizeof spot, "as given");
        else if (f.along > 1.005 * f.across)
            snprintf(spot, sizeof spot, "%.2f x %.2f", f.across, f.along);
        else
            snprintf(spot, sizeof spot, "%.2f", f.across);
        double mas = 1e3 * sqrt(f.variance);
        snprintf(noise, sizeof noise, mas >= 1 ? "%.1f" : "%.2g", mas);
        printf("%8d        %-20.20s %9s %14s %16s\n", w, s->sensors[w].name, photons, spot, noise);
    }
    printf("%8sphoto-electrons per subaperture and frame; FWHM and noise for r0 %.3f m\n", "",
           p->r0);
}
