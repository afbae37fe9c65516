#include "structure.h"

#include "fit_formula.h"
#include "moao/clones.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void fill_table(int kolmogorov, double *table) {
    const int octave = 1 << STRUCTURE_BITS, window = STRUCTURE_TERMS * STRUCTURE_WINDOW;
    /* the first half window stays zero: it takes every s below the table, s = 0 above all */
#pragma omp parallel for schedule(static)
    for (int w = 1; w < STRUCTURE_HALVES; w++)
        for (int k = 0; k < STRUCTURE_HALF; k++) {
            int i = w * STRUCTURE_HALF + k;
            double *coef = table + w * window + k, *before = coef - window + STRUCTURE_HALF;
            formula_fit(ldexp(1.0, STRUCTURE_FIRST + i / octave),
                        1.0 + (double)(i % octave) / octave, 0.5 / octave, kolmogorov,
                        STRUCTURE_TERMS, coef, STRUCTURE_WINDOW);
            for (int j = 0; j < STRUCTURE_TERMS; j++)
                before[j * STRUCTURE_WINDOW] = coef[j * STRUCTURE_WINDOW];
        }
}

/* Both tables never change: the first that asks for one makes it, and it stays. */
status structure_table_init(structure_table *t, int kolmogorov) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static double *made[2];
    status st = MOAO_OK;
    pthread_mutex_lock(&lock);
    if (made[kolmogorov] == NULL) {
        st = ALLOC(made[kolmogorov], STRUCTURE_SIZE, "table of the structure function");
        if (st == MOAO_OK)
            fill_table(kolmogorov, made[kolmogorov]);
    }
    t->coef = made[kolmogorov];
    pthread_mutex_unlock(&lock);
    t->lo = ldexp(1.0, STRUCTURE_FIRST);
    t->hi =
        ldexp(1.0, STRUCTURE_FIRST + STRUCTURE_HALVES * STRUCTURE_HALF / (1 << STRUCTURE_BITS) - 1);
    return st;
}

CLONES void structure_add_portable(const structure_table *t, size_t n, const double *x,
                                   const double *y, double x0, double y0, double coef, double *f) {
    const double *restrict table = t->coef;
    const double lo = t->lo, hi = t->hi;
#pragma GCC ivdep
    for (size_t e = 0; e < n; e++) {
        double dx = x[e] - x0, dy = y[e] - y0, s = dx * dx + dy * dy, m;
        int64_t bits;
        s = s < lo ? lo : s;
        s = s > hi ? hi : s;
        memcpy(&bits, &s, sizeof bits);
        int64_t i = (bits >> STRUCTURE_SHIFT) - STRUCTURE_ZERO;
        i = (i & (STRUCTURE_HALF - 1)) + (i >> 3) * (STRUCTURE_TERMS * STRUCTURE_WINDOW);
        bits = (bits & STRUCTURE_REST) | STRUCTURE_ONE;
        memcpy(&m, &bits, sizeof m);
        m -= STRUCTURE_MIDDLE;
        double g = table[i + (STRUCTURE_TERMS - 1) * STRUCTURE_WINDOW];
        for (int k = STRUCTURE_TERMS - 2; k >= 0; k--)
            g = g * m + table[i + k * STRUCTURE_WINDOW];
        f[e] += coef * g;
    }
}

structure_kernel *structure_kernel_best(void) {
    structure_kernel *k = structure_kernel_avx512();
    return k != NULL ? k : structure_add_portable;
}
