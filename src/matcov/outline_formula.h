/* Covariances of slopes that are sums of phases at the nodes of outlines (matcov_outline), and of
 * whole mean gradients by their tables: for host and device. Model section 4.
 *
 * Before it is included, OUTLINE_WHERE is __device__ or empty, OUTLINE_LAYER a type and
 * OUTLINE_STRUCTURE(layer, s) the scale-free structure function at the squared separation s [m^2].
 */
#ifndef MOAO_MATCOV_OUTLINE_FORMULA_H
#define MOAO_MATCOV_OUTLINE_FORMULA_H

#include "matcov/gradient_formula.h"

/* Separation, in root mean square sizes of two footprints, up to which nodes replace the tables. */
#define OUTLINE_RADIUS 6.107
/* Share of a covariance that nodes of one set on both sides have; the rest is that of one set with
 * the other, whose error is the opposite. */
#define OUTLINE_SAME (2.0 / 7.0)
/* Separation, in the same sizes, from which on few nodes serve. */
#define OUTLINE_APART 2.3
/* The same beyond which second moments change less than 1e-5 of the slope variance; between two
 * sensors they are left out there. Within one they decide its smallest eigenvalues. */
#define OUTLINE_MOMENTS 16.0

#ifdef __CUDA_ARCH__ /* several nodes wait for their tables at a time */
#define OUTLINE_UNROLL _Pragma("unroll 4")
#else
#define OUTLINE_UNROLL
#endif

/* Where a layer has the place p of the pupil: at c p + of [m]. */
typedef struct {
    double c, of[2];
} outline_place;

/* e[axis of a + 2 axis of b] += factor times the covariance by nodes of set sa of outline ia with
 * those of set sb of outline ib, in units of the scale-free structure function. Nodes lane, lane +
 * lanes ... of a. */
OUTLINE_WHERE static inline void outline_sets(OUTLINE_LAYER layer, const matcov_outline *a, int sa,
                                              int ia, const outline_place *pa,
                                              const matcov_outline *b, int sb, int ib,
                                              const outline_place *pb, double factor, int lane,
                                              int lanes, double e[4]) {
    for (int i = a->first[sa][ia] + lane; i < a->first[sa][ia + 1]; i += lanes) {
        const double x = pa->c * a->x[sa][i] + pa->of[0] - pb->of[0];
        const double y = pa->c * a->y[sa][i] + pa->of[1] - pb->of[1];
        double sum[2] = {0.0, 0.0};
        OUTLINE_UNROLL
        for (int j = b->first[sb][ib]; j < b->first[sb][ib + 1]; j++) {
            const double dx = x - pb->c * b->x[sb][j], dy = y - pb->c * b->y[sb][j];
            const double d = OUTLINE_STRUCTURE(layer, dx * dx + dy * dy);
            sum[0] += d * b->w[sb][0][j];
            sum[1] += d * b->w[sb][1][j];
        }
        for (int k = 0; k < 4; k++)
            e[k] -= 0.5 * factor * a->w[sa][k % 2][i] * sum[k / 2];
    }
}

OUTLINE_WHERE static inline void outline_pair(OUTLINE_LAYER layer, const matcov_outline *a, int ia,
                                              const outline_place *pa, const matcov_outline *b,
                                              int ib, const outline_place *pb, bool apart,
                                              double factor, int lane, int lanes, double e[4]) {
    const double other = 0.5 * (1.0 - OUTLINE_SAME) * factor;
    if (apart) {
        outline_sets(layer, a, 2, ia, pa, b, 2, ib, pb, factor, lane, lanes, e);
        return;
    }
    outline_sets(layer, a, 0, ia, pa, b, 0, ib, pb, OUTLINE_SAME * factor, lane, lanes, e);
    outline_sets(layer, a, 0, ia, pa, b, 1, ib, pb, other, lane, lanes, e);
    outline_sets(layer, a, 1, ia, pa, b, 0, ib, pb, other, lane, lanes, e);
}

/* The same with a whole subaperture around (x, y) on the layer [m], from its covariance with the
 * phase; turn: (cos, sin) of its sensor's rotation. */
MOAO_HD static inline void outline_whole(const matcov_gradient *phase, const double *values,
                                         const matcov_outline *a, int ia, const outline_place *pa,
                                         double x, double y, const double turn[2], bool apart,
                                         double factor, double e[4]) {
    const int set = apart ? 2 : 1;
    for (int i = a->first[set][ia]; i < a->first[set][ia + 1]; i++) {
        double f[2];
        gradient_phases(phase, values, turn, pa->c * a->x[set][i] + pa->of[0] - x,
                        pa->c * a->y[set][i] + pa->of[1] - y, f);
        for (int b = 0; b < 2; b++) {
            e[2 * b] += factor * f[b] * a->w[set][0][i];
            e[2 * b + 1] += factor * f[b] * a->w[set][1][i];
        }
    }
}

/* e[axis] += factor times the covariance of the phase at (x, y) on the layer [m] with outline i. */
OUTLINE_WHERE static inline void outline_point(OUTLINE_LAYER layer, const matcov_outline *o, int i,
                                               const outline_place *po, double x, double y,
                                               bool apart, double factor, double e[2]) {
    const int set = apart ? 2 : 1;
    OUTLINE_UNROLL
    for (int k = o->first[set][i]; k < o->first[set][i + 1]; k++) {
        const double dx = x - po->of[0] - po->c * o->x[set][k],
                     dy = y - po->of[1] - po->c * o->y[set][k];
        const double d = -0.5 * factor * OUTLINE_STRUCTURE(layer, dx * dx + dy * dy);
        e[0] += d * o->w[set][0][k];
        e[1] += d * o->w[set][1][k];
    }
}

/* e[axis of the first + 2 axis of the second] += factor times the covariance of two mean gradients
 * by their table; (dx, dy): the first's centre less the second's [m]. axes: with either axis of the
 * second. */
MOAO_HD static inline void outline_table(const matcov_gradient *t, const double *values,
                                         const gradient_axes axes[2], double dx, double dy,
                                         double factor, double e[4]) {
    const double s = dx * dx + dy * dy, c = axes[0].rows[0], s1 = axes[0].rows[1];
    double m;
    if (s < t->near2) {
        const double x = axes[0].turn[0] * dx + axes[0].turn[1] * dy;
        const double y = axes[0].turn[0] * dy - axes[0].turn[1] * dx;
        for (int k = 0; k < 4; k++)
            e[k] += factor * gradient_near(t, values + t->near, axes[k / 2].kind[k % 2], x, y);
        return;
    }
    const double *at =
        values + t->radial + (size_t)gradient_interval(t, s, &m) * 2 * GRADIENT_TERMS;
    double k[8];
    for (int i = 0; i < 8; i += 2)
        gradient_two(at + i, k + i);
    const double P = factor * (k[0] + m * (k[1] + m * (k[2] + m * k[3])));
    const double Q = factor * (k[4] + m * (k[5] + m * (k[6] + m * k[7])));
    for (int b = 0; b < 2; b++) {
        const double vx = axes[b].v[0], vy = axes[b].v[1], q = (vx * dx + vy * dy) * Q;
        e[2 * b] += (c * vx + s1 * vy) * P + (c * dx + s1 * dy) * q;
        e[2 * b + 1] += (c * vy - s1 * vx) * P + (c * dy - s1 * dx) * q;
    }
}

/* e += factor times what the second moments of outline i add to outline_table, beyond
 * OUTLINE_RADIUS: second differences of the covariance over a subaperture. c:
 * the outline's scale on the layer. */
MOAO_HD static inline void outline_moments(const matcov_gradient *t, const double *values,
                                           const gradient_axes axes[2], const matcov_outline *o,
                                           int i, double c, double dx, double dy, double factor,
                                           double e[4]) {
    const double *m = o->moments + 6 * i;
    outline_table(t, values, axes, dx, dy, -2.0 * factor * (m[2] + m[5]), e);
    for (int k = 0; k < 2; k++) {
        const double x = c * m[3 * k], y = c * m[3 * k + 1], f = factor * m[3 * k + 2];
        outline_table(t, values, axes, dx + x, dy + y, f, e);
        outline_table(t, values, axes, dx - x, dy - y, f, e);
    }
}

#endif
