/* Weights of the interpolation from nodes. */
#include "field/field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "moao/cpu_threads.h"

enum { DEGREE = 3, MONOMIALS = 10, MOST = FIELD_NEAREST + MONOMIALS };
enum { AROUND = 4 * FIELD_NEAREST, SECTORS = 8, PER_SECTOR = FIELD_NEAREST / SECTORS };
#define SAME 1e-6    /* of a step: two places are one */
#define SHADOW 0.28  /* of the distance to a place: nodes closer together count as one */
#define LARGEST 30.0 /* sum of |weights| beyond which polynomials of a lower degree are taken */

void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *ipiv, double *b,
            const int *ldb, int *info);

bool field_is_source(const field_node *n) {
    return n->kind != NODE_CHECK && n->kind != NODE_AGAIN;
}

bool field_follows(const field *f, int tor, int e) {
    return e >= 0 && f->follow != NULL && f->follow[e].n > 0 && tor < f->whole_from;
}

bool field_computes(const field *f, int i, int tor, int e) {
    const field_node *p = &f->node[i];
    if (p->fine && field_follows(f, tor, e))
        return false;
    return p->tor <= tor && (p->target >= 0 || f->left_from == 0 || tor < f->left_from ||
                             p->tor >= f->left_from || i == f->stays);
}

static double covariance(double r) {
    const double r2 = r * r;
    return r2 * r2 * r;
}

typedef struct {
    double r;
    int node;
} near;

/* The nearest nodes, sorted; of equal ones those that were there first. Returns how many. */
static int find_around(const field *f, int tor, int e, const double at[2], int without,
                       near *list) {
    int n = 0;
    for (int i = 0; i < f->nnode; i++) {
        const field_node *p = &f->node[i];
        if (!field_is_source(p) || !field_computes(f, i, tor, e) || i == without)
            continue;
        const double r = hypot(p->at[0] - at[0], p->at[1] - at[1]) / f->step;
        if (n == AROUND && r >= list[n - 1].r * (1 - 1e-12))
            continue;
        int k = n < AROUND ? n++ : n - 1;
        for (; k > 0 && list[k - 1].r > r * (1 + 1e-12); k--)
            list[k] = list[k - 1];
        list[k] = (near){r, i};
    }
    return n;
}

/* Whether node i is next to a nearer one of those that are taken, as seen from the place: then it
 * adds nothing but large weights of either sign. */
static bool is_shadowed(const field *f, const near *all, const bool *taken, int i) {
    const double *q = f->node[all[i].node].at;
    for (int j = 0; j < i; j++) {
        const double *p = f->node[all[j].node].at;
        if (taken[j] && hypot(p[0] - q[0], p[1] - q[1]) < SHADOW * f->step * all[i].r)
            return true;
    }
    return false;
}

/* FIELD_NEAREST of them: the first of each sector, so that those where nodes are dense leave none
 * out on the other side, then the nearest of the rest. Sectors begin where no row of a lattice is.
 */
static int find_nearest(const field *f, int tor, int e, const double at[2], int without,
                        near *list) {
    near all[AROUND];
    bool taken[AROUND] = {false};
    int of[SECTORS] = {0}, n = 0;
    const int count = find_around(f, tor, e, at, without, all);
    for (int i = 0; i < count; i++) {
        const double *q = f->node[all[i].node].at;
        const double turn = atan2(q[1] - at[1], q[0] - at[0]) - atan2(f->axis[1], f->axis[0]);
        const double part = (turn / (2 * M_PI) + 2 + 0.05) * SECTORS;
        int *have = &of[(int)floor(part) % SECTORS];
        taken[i] = i == 0 ||
                   (n < FIELD_NEAREST && *have < 3 * PER_SECTOR && !is_shadowed(f, all, taken, i));
        *have += taken[i];
        n += taken[i];
    }
    for (int i = 0; i < count && n < FIELD_NEAREST; i++)
        if (!taken[i] && !is_shadowed(f, all, taken, i)) {
            taken[i] = true;
            n++;
        }
    n = 0;
    for (int i = 0; i < count; i++)
        if (taken[i])
            list[n++] = all[i];
    return n;
}

/* Monomials of x up to a degree; along a line of its first coordinate. */
static int monomials(const double x[2], int degree, bool line, double *out) {
    int n = 0;
    for (int d = 0; d <= degree; d++)
        for (int b = 0; b <= (line ? 0 : d); b++)
            out[n++] = pow(x[0], d - b) * pow(x[1], b);
    return n;
}

/* Solves for the weights of n nodes at x (relative places in units of the farthest); false where
 * the polynomials of that degree cannot be told from one another there. */
static bool solve(int n, double (*x)[2], int degree, bool line, double *w, double *power) {
    static const double zero[2] = {0, 0};
    double a[MOST * MOST], b[MOST], mono[MONOMIALS];
    int pivot[MOST], info, one = 1;
    const int p = monomials(zero, degree, line, mono), all = n + p;
    if (n < p)
        return false;
    memset(a, 0, sizeof a);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            a[i + j * all] = covariance(hypot(x[i][0] - x[j][0], x[i][1] - x[j][1]));
        b[i] = covariance(hypot(x[i][0], x[i][1]));
        monomials(x[i], degree, line, mono);
        for (int k = 0; k < p; k++)
            a[i + (n + k) * all] = a[n + k + i * all] = mono[k];
    }
    monomials(zero, degree, line, b + n);
    double right[MOST], size = 0, var = 0;
    memcpy(right, b, sizeof right);
    dgesv_(&all, &one, a, &all, pivot, b, &all, &info);
    if (info != 0)
        return false;
    for (int i = 0; i < n; i++) {
        size += fabs(b[i]);
        w[i] = b[i];
    }
    for (int i = 0; i < all; i++) /* phi(0) - 2 w'b + w'A w, A w + P m = b, P'w = p */
        var += right[i] * b[i];
    *power = sqrt(fabs(var));
    return isfinite(size) && size <= LARGEST;
}

/* Weights of one place; returns their number. */
static int weights_at(const field *f, int tor, int e, const double at[2], int without, int *node,
                      double *w, double *power) {
    near list[FIELD_NEAREST];
    double x[FIELD_NEAREST][2];
    int n = find_nearest(f, tor, e, at, without, list);
    *power = 0;
    for (int i = 0; i < n; i++)
        node[i] = list[i].node;
    if (n == 0 || list[0].r < SAME) {
        w[0] = 1;
        return n > 0;
    }
    const double scale = list[n - 1].r;
    for (int i = 0; i < n; i++) {
        const double *q = f->node[node[i]].at;
        const double dx = (q[0] - at[0]) / f->step, dy = (q[1] - at[1]) / f->step;
        x[i][0] = (f->axis[0] * dx + f->axis[1] * dy) / scale;
        x[i][1] = (f->axis[0] * dy - f->axis[1] * dx) / scale;
    }
    for (int degree = DEGREE; degree > 0; degree--)
        if (solve(n, x, degree, f->line, w, power)) {
            *power *= pow(scale, 2.5);
            return n;
        }
    *power = pow(list[0].r, 2.5);
    w[0] = 1;
    return 1;
}

status field_interpolate(const field *f, int tor, int e, int n, const double (*at)[2],
                         const int *without, field_weights *w) {
    const size_t most = (size_t)n * FIELD_NEAREST;
    status st;
    *w = (field_weights){.n = n};
    TRY(ALLOC(w->first, (size_t)n + 1, "weights of nodes"));
    TRY(ALLOC(w->node, most, "weights of nodes"));
    TRY(ALLOC(w->w, most, "weights of nodes"));
    TRY(ALLOC(w->power, (size_t)n, "weights of nodes"));
    w->first[0] = 0;
    const int blas = blas_alone();
    /* rows with room for all, then without it */
#pragma omp parallel for schedule(dynamic, 16)
    for (int i = 0; i < n; i++) {
        const size_t to = (size_t)i * FIELD_NEAREST;
        w->first[i + 1] = weights_at(f, tor, e, at[i], without != NULL ? without[i] : -1,
                                     w->node + to, w->w + to, &w->power[i]);
    }
    blas_together(blas);
    for (int i = 0; i < n; i++) {
        const size_t to = (size_t)w->first[i], row = (size_t)i * FIELD_NEAREST,
                     count = (size_t)w->first[i + 1];
        memmove(w->node + to, w->node + row, count * sizeof *w->node);
        memmove(w->w + to, w->w + row, count * sizeof *w->w);
        w->first[i + 1] += w->first[i];
    }
done:
    if (st != MOAO_OK)
        field_weights_free(w);
    return st;
}

void field_weights_free(field_weights *w) {
    free(w->first);
    free(w->node);
    free(w->w);
    free(w->power);
    *w = (field_weights){0};
}
