/* Matrices for bench_rotations.c, the triangle that two QR factorisations leave of one, and its
 * singular values in long double. */
#ifndef MOAO_BENCH_ROTATIONS_CASE_H
#define MOAO_BENCH_ROTATIONS_CASE_H
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 128
typedef double matrix[MOST][MOST]; /* [column][row] */

static int order = 64;

static uint64_t state = 1;
static double uniform(void) { /* in (-1, 1) */
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)((int64_t)(state ^ state >> 29) >> 10) * 0x1p-53;
}
static double normal(void) {
    double s = 0;
    for (int k = 0; k < 12; k++)
        s += uniform();
    return s / 2;
}

/* ---- Matrices */

static void reflect(matrix a, bool left) {
    double v[MOST], norm = 0;
    for (int i = 0; i < order; i++)
        v[i] = normal(), norm += v[i] * v[i];
    for (int j = 0; j < order; j++) {
        double f = 0;
        for (int i = 0; i < order; i++)
            f += v[i] * (left ? a[j][i] : a[i][j]);
        f *= 2 / norm;
        for (int i = 0; i < order; i++)
            *(left ? &a[j][i] : &a[i][j]) -= f * v[i];
    }
}
/* The value i of a kind that is made of values. */
static double value_of(char kind, int i) {
    const double at = (double)i / (double)(order - 1);
    switch (kind) {
    case 'C': /* geometric */
        return pow(10, -7 * at);
    case 'W': /* wider, its small values determined to 1e-14 of the largest only */
        return pow(10, -14 * at);
    case 'E': /* clusters: four values, each to 1e-9 */
        return 1 + (double)(i % 4) + 1e-9 * uniform();
    case 'D': /* deficient by a half */
        return i < order / 2 ? 1 - at : 0;
    case 'O': /* orthogonal */
        return 1;
    default: /* B, R, S: kappa 30, to be scaled */
        return 1 + 29 * at;
    }
}
static void covariance(matrix a) {
    double p[2][MOST][2];
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < order; i++)
            for (int d = 0; d < 2; d++) {
                const int cell = i * 16 / order;
                p[side][i][d] = ((d ? cell / 4 : cell % 4) + (uniform() + 1) / 2) / 4 +
                                (side && d == 0 ? 1 : 0);
            }
    for (int j = 0; j < order; j++)
        for (int i = 0; i < order; i++)
            a[j][i] = exp(-hypot(p[0][i][0] - p[1][j][0], p[0][i][1] - p[1][j][1]) / 0.3);
}
static void make(matrix a, char kind) {
    memset(a, 0, sizeof(matrix));
    if (kind == 'K')
        covariance(a);
    for (int j = 0; j < order; j++) {
        if (kind == 'G' || kind == 'N')
            for (int i = 0; i < order; i++)
                a[j][i] = normal();
        else if (kind != 'K')
            a[j][j] = value_of(kind, j);
    }
    if (kind == 'G' || kind == 'K')
        return;
    for (int r = 0; r < (kind == 'N' ? 0 : order); r++)
        reflect(a, true), reflect(a, false);
    for (int j = 0; j < order; j++) {
        double norm = 0;
        for (int i = 0; i < order; i++)
            norm += a[j][i] * a[j][i];
        /* N: columns of one norm; B, S: columns over 20 decades; R, S: rows too */
        const double f = kind == 'N'                  ? 1 / sqrt(norm)
                         : kind == 'B' || kind == 'S' ? pow(10, 10 * uniform())
                                                      : 1;
        for (int i = 0; i < order; i++)
            a[j][i] *= f;
    }
    for (int i = 0; i < order && (kind == 'R' || kind == 'S'); i++) {
        const double f = pow(10, 10 * uniform());
        for (int j = 0; j < order; j++)
            a[j][i] *= f;
    }
}

/* ---- The triangle */

static const double *keys;
static int by_key(const void *a, const void *b) {
    const double x = keys[*(const int *)a], y = keys[*(const int *)b];
    return x > y ? -1 : x < y ? 1 : *(const int *)a - *(const int *)b;
}
static double dot(const double *x, const double *y) {
    double s = 0;
    for (int i = 0; i < order; i++)
        s += x[i] * y[i];
    return s;
}
/* Householder; a := R. q: its Q, if not NULL. */
static void qr(matrix a, matrix q) {
    static matrix v;
    double tau[MOST];
    for (int j = 0; j < order; j++) {
        double tail = 0;
        for (int i = 0; i < order; i++)
            v[j][i] = i > j ? a[j][i] : i == j, tail += i > j ? a[j][i] * a[j][i] : 0;
        const double alpha = a[j][j], beta = -copysign(sqrt(alpha * alpha + tail), alpha);
        tau[j] = tail > 0 ? (beta - alpha) / beta : 0;
        for (int i = j + 1; i < order && tail > 0; i++)
            v[j][i] /= alpha - beta;
        for (int k = j; k < order && tail > 0; k++) {
            const double f = tau[j] * dot(v[j], a[k]);
            for (int i = j; i < order; i++)
                a[k][i] -= f * v[j][i];
        }
        for (int i = j + 1; i < order; i++)
            a[j][i] = 0;
    }
    for (int k = 0; q && k < order; k++) {
        memset(q[k], 0, sizeof q[k]);
        q[k][k] = a[k][k] < 0 ? -1 : 1;
        for (int j = order - 1; j >= 0; j--) {
            const double f = tau[j] * dot(v[j], q[k]);
            for (int i = j; i < order; i++)
                q[k][i] -= f * v[j][i];
        }
    }
}
static void transpose(matrix a) {
    for (int j = 0; j < order; j++)
        for (int i = 0; i < j; i++) {
            const double t = a[j][i];
            a[j][i] = a[i][j], a[i][j] = t;
        }
}
static void triangle(matrix a) {
    static matrix b;
    double norm[MOST], top[MOST];
    int row[MOST] = {0}, col[MOST] = {0};
    for (int j = 0; j < order; j++) {
        norm[j] = dot(a[j], a[j]), top[j] = 0, row[j] = col[j] = j;
        for (int i = 0; i < order; i++)
            top[j] = fmax(top[j], fabs(a[i][j]));
    }
    keys = norm, qsort(col, (size_t)order, sizeof *col, by_key);
    keys = top, qsort(row, (size_t)order, sizeof *row, by_key);
    for (int j = 0; j < order; j++)
        for (int i = 0; i < order; i++)
            b[j][i] = a[col[j]][row[i]];
    qr(b, NULL), transpose(b), qr(b, NULL), transpose(b);
    memcpy(a, b, sizeof(matrix));
}

/* Values in descending order by rotations of A in long double. */
static void reference(matrix given, long double *s) {
    static long double a[MOST][MOST];
    for (int j = 0; j < order; j++)
        for (int i = 0; i < order; i++)
            a[j][i] = given[j][i];
    for (bool more = true; more;) {
        more = false;
        for (int b = 1; b < order; b++)
            for (int c = 0; c < b; c++) {
                long double xx = 0, yy = 0, p = 0;
                for (int i = 0; i < order; i++)
                    xx += a[c][i] * a[c][i], yy += a[b][i] * a[b][i], p += a[c][i] * a[b][i];
                if (!(fabsl(p) > 1e-18L * sqrtl(xx) * sqrtl(yy)))
                    continue;
                more |= fabsl(p) > 1e-16L * sqrtl(xx) * sqrtl(yy);
                const long double z = (yy - xx) / (2 * p),
                                  t = copysignl(1 / (fabsl(z) + sqrtl(1 + z * z)), z),
                                  k = 1 / sqrtl(1 + t * t);
                for (int i = 0; i < order; i++) {
                    const long double u = a[c][i], v = a[b][i];
                    a[c][i] = k * (u - t * v), a[b][i] = k * (v + t * u);
                }
            }
    }
    for (int j = 0; j < order; j++) {
        long double sum = 0;
        for (int i = 0; i < order; i++)
            sum += a[j][i] * a[j][i];
        int at = j;
        for (sum = sqrtl(sum); at > 0 && s[at - 1] < sum; at--)
            s[at] = s[at - 1];
        s[at] = sum;
    }
}
#endif
