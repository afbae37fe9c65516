/* Mean of a structure function over two edges by quadrature: the reference for mean gradients.
 * Model section 4. */
#include "formula.h"
#include "internal.h"

#include <math.h>

/* Double-exponential rule (Takahasi and Mori 1974) on (-1, 1): kinks at the ends do no harm. */
#define STEP 0.16
#define NODES 20 /* on each side of zero */

static void node(int i, double *x, double *w) {
    double t = i * STEP, e = 0.25 * FORMULA_TWO_PI * sinh(t), c = cosh(e);
    *x = tanh(e);
    *w = 0.25 * FORMULA_TWO_PI * STEP * cosh(t) / (c * c);
}

static void sort(double *v, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && v[j] < v[j - 1]; j--) {
            double swap = v[j];
            v[j] = v[j - 1];
            v[j - 1] = swap;
        }
}

static double structure_at(double strength, double L0, double x, double y) {
    return formula_structure(strength, L0, sqrt(x * x + y * y));
}

/* Edges of lengths la and lb along the unit vector e: the differences along them have the density
 * of a sum of two uniform variables. Pieces end at its kinks and at the point nearest to zero. */
static double mean_parallel(double strength, double L0, const double at[2], const double e[2],
                            double la, double lb) {
    const double sum = 0.5 * (la + lb), less = 0.5 * fabs(la - lb);
    double kink[5] = {-sum, -less, less, sum, -(at[0] * e[0] + at[1] * e[1])}, mean = 0.0;
    kink[4] = fmax(-sum, fmin(sum, kink[4]));
    sort(kink, 5);
    for (int k = 0; k < 4; k++) {
        double middle = 0.5 * (kink[k] + kink[k + 1]), half = 0.5 * (kink[k + 1] - kink[k]);
        for (int i = -NODES; half > 1e-14 * sum && i <= NODES; i++) {
            double x, w;
            node(i, &x, &w);
            double t = middle + half * x;
            double density = fmin(sum - fabs(t), fmin(la, lb)) / (la * lb);
            mean +=
                half * w * density * structure_at(strength, L0, at[0] + t * e[0], at[1] + t * e[1]);
        }
    }
    return mean;
}

/* An edge and a point; the edge is cut at what is nearest to the point. */
static double mean_single(double strength, double L0, const double at[2], const double edge[2]) {
    const double square = edge[0] * edge[0] + edge[1] * edge[1];
    const double cut = fmax(-0.5, fmin(0.5, -(at[0] * edge[0] + at[1] * edge[1]) / square));
    const double ends[3] = {-0.5, cut, 0.5};
    double mean = 0.0;
    for (int k = 0; k < 2; k++) {
        const double half = 0.5 * (ends[k + 1] - ends[k]);
        for (int i = -NODES; half > 0.0 && i <= NODES; i++) {
            double x, w;
            node(i, &x, &w);
            const double t = ends[k] + half * (1.0 + x);
            mean += half * w * structure_at(strength, L0, at[0] + t * edge[0], at[1] + t * edge[1]);
        }
    }
    return mean;
}

/* Any two edges that are not parallel; each is cut where they would meet. */
static double mean_crossing(double strength, double L0, const double at[2], const double a[2],
                            const double b[2]) {
    const double cross = a[0] * b[1] - a[1] * b[0]; /* at + s a - t b = 0 */
    double cut_a = -(at[0] * b[1] - at[1] * b[0]) / cross;
    double cut_b = -(at[0] * a[1] - at[1] * a[0]) / cross, mean = 0.0;
    const double ends_a[3] = {-0.5, fmax(-0.5, fmin(0.5, cut_a)), 0.5};
    const double ends_b[3] = {-0.5, fmax(-0.5, fmin(0.5, cut_b)), 0.5};
    for (int k = 0; k < 4; k++) {
        double ha = 0.5 * (ends_a[k / 2 + 1] - ends_a[k / 2]);
        double hb = 0.5 * (ends_b[k % 2 + 1] - ends_b[k % 2]);
        for (int i = -NODES; ha * hb > 0.0 && i <= NODES; i++)
            for (int j = -NODES; j <= NODES; j++) {
                double x, y, wx, wy;
                node(i, &x, &wx);
                node(j, &y, &wy);
                double s = ends_a[k / 2] + ha * (1.0 + x), t = ends_b[k % 2] + hb * (1.0 + y);
                mean += ha * wx * hb * wy *
                        structure_at(strength, L0, at[0] + s * a[0] - t * b[0],
                                     at[1] + s * a[1] - t * b[1]);
            }
    }
    return mean;
}

double direct_mean(double strength, double L0, const double at[2], const double edge_a[2],
                   const double edge_b[2]) {
    const double la = hypot(edge_a[0], edge_a[1]), lb = hypot(edge_b[0], edge_b[1]);
    if (la == 0.0 || lb == 0.0)
        return mean_single(strength, L0, at, la == 0.0 ? edge_b : edge_a);
    const double cross = edge_a[0] * edge_b[1] - edge_a[1] * edge_b[0];
    const double along[2] = {edge_a[0] / la, edge_a[1] / la};
    return fabs(cross) < 1e-12 * la * lb ? mean_parallel(strength, L0, at, along, la, lb)
                                         : mean_crossing(strength, L0, at, edge_a, edge_b);
}
