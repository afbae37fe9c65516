/* A profile of turbulence for benches of covariances. */
#ifndef MOAO_BENCH_PROFILE_H
#define MOAO_BENCH_PROFILE_H

#include "system/atmos.h"
#include "timing.h"

#include <math.h>

/* Layers up to 20 km whose strength falls with altitude; every outer scale differs, or (night) two
 * serve all. */
static void make_profile(int n, bool night, profile *p) {
    double **member[] = {&p->h, &p->L0, &p->strength, &p->wind[0], &p->wind[1]}, sum = 0;
    *p = (profile){.nlayer = n, .r0 = 0.15};
    for (int i = 0; i < 5; i++)
        check(ALLOC(*member[i], (size_t)n, "profile"));
    for (int l = 0; l < n; l++) {
        p->h[l] = 20000.0 * l / (n > 1 ? n - 1 : 1);
        p->L0[l] = night ? (l < 2 ? 20 : 25) : 20 + 0.5 * l;
        p->wind[0][l] = 5 + 0.3 * l;
        sum += p->strength[l] = exp(-p->h[l] / 4000);
    }
    for (int l = 0; l < n; l++)
        p->strength[l] *= pow(p->r0, -5.0 / 3) / sum;
}

#endif
