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

/* The same with the coefficients of an interval side by side. */
static void fill_lines(const double *table, double *line) {
    for (int i = 0; i < STRUCTURE_INTERVALS; i++) {
        const int w = i / STRUCTURE_HALF;
        for (int c = 0; c < STRUCTURE_TERMS; c++)
            line[i * STRUCTURE_TERMS + c] =
                table[(w * STRUCTURE_TERMS + c) * STRUCTURE_WINDOW + i % STRUCTURE_HALF];
    }
}

/* Both tables never change: the first that asks for one makes it, and it stays. */
status structure_table_init(structure_table *t, int kolmogorov) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static double *made[2];
    status st = MOAO_OK;
    pthread_mutex_lock(&lock);
    if (made[kolmogorov] == NULL) {
        st = ALLOC(made[kolmogorov], STRUCTURE_SIZE + (size_t)STRUCTURE_INTERVALS * STRUCTURE_TERMS,
                   "table of the structure function");
        if (st == MOAO_OK) {
            fill_table(kolmogorov, made[kolmogorov]);
            fill_lines(made[kolmogorov], made[kolmogorov] + STRUCTURE_SIZE);
        }
    }
    t->coef = made[kolmogorov];
    t->line = st == MOAO_OK ? t->coef + STRUCTURE_SIZE : NULL;
    pthread_mutex_unlock(&lock);
    t->lo = ldexp(1.0, STRUCTURE_FIRST);
    t->hi =
        ldexp(1.0, STRUCTURE_FIRST + STRUCTURE_HALVES * STRUCTURE_HALF / (1 << STRUCTURE_BITS) - 1);
    return st;
}

#define AT_ONCE 64 /* entries, a multiple of 8 */

/* Of n entries the first coefficient of their interval, and the argument of its polynomial. */
CLONES static void find_intervals(const structure_table *t, size_t n, const double *x,
                                  const double *y, double x0, double y0, int64_t *at, double *arg) {
    const double lo = t->lo, hi = t->hi;
#pragma GCC ivdep
    for (size_t e = 0; e < n; e++) {
        double dx = x[e] - x0, dy = y[e] - y0, s = dx * dx + dy * dy, m;
        uint64_t bits;
        s = s < lo ? lo : s;
        s = s > hi ? hi : s;
        memcpy(&bits, &s, sizeof bits);
        const uint64_t i = (bits >> STRUCTURE_SHIFT) - (uint64_t)STRUCTURE_ZERO;
        at[e] =
            (int64_t)((i & (STRUCTURE_HALF - 1)) + (i >> 3) * (STRUCTURE_TERMS * STRUCTURE_WINDOW));
        bits = (bits & (uint64_t)STRUCTURE_REST) | (uint64_t)STRUCTURE_ONE;
        memcpy(&m, &bits, sizeof m);
        arg[e] = m - STRUCTURE_MIDDLE;
    }
}

/* Polynomials of four entries side by side, each by itself: their coefficients lie apart, and to
 * gather them into a register takes 1.5 times as long (AVX2). */
CLONES void structure_add_portable(const structure_table *t, size_t n, const double *x,
                                   const double *y, double x0, double y0, double coef, double *f) {
    int64_t at[AT_ONCE];
    double arg[AT_ONCE];
    for (size_t some; n > 0; n -= some, x += some, y += some, f += some) {
        some = n < AT_ONCE ? n : AT_ONCE;
        find_intervals(t, some, x, y, x0, y0, at, arg);
        for (size_t e = 0; e < some; e += 4) {
            const double *const a = t->coef + at[e], *const b = t->coef + at[e + 1],
                                *const c = t->coef + at[e + 2], *const d = t->coef + at[e + 3];
            const double *const m = arg + e;
            const int last = (STRUCTURE_TERMS - 1) * STRUCTURE_WINDOW;
            double g0 = a[last], g1 = b[last], g2 = c[last], g3 = d[last];
            for (int k = last - STRUCTURE_WINDOW; k >= 0; k -= STRUCTURE_WINDOW) {
                g0 = g0 * m[0] + a[k];
                g1 = g1 * m[1] + b[k];
                g2 = g2 * m[2] + c[k];
                g3 = g3 * m[3] + d[k];
            }
            f[e] += coef * g0;
            f[e + 1] += coef * g1;
            f[e + 2] += coef * g2;
            f[e + 3] += coef * g3;
        }
    }
}

structure_kernel *structure_kernel_best(void) {
    structure_kernel *k = structure_kernel_avx512();
    k = k != NULL ? k : structure_kernel_avx2();
    return k != NULL ? k : structure_add_portable;
}
