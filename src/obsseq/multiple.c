#include "obsseq/multiple.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAME 1e-14 /* of a ratio: rounding of fractions and powers of r0 */

/* Altitudes, outer scales and winds. */
static bool same_layers(const profile *p, const profile *q) {
    const size_t size = (size_t)p->nlayer * sizeof *p->h;
    return p->nlayer == q->nlayer && memcmp(p->h, q->h, size) == 0 &&
           memcmp(p->L0, q->L0, size) == 0 && memcmp(p->wind[0], q->wind[0], size) == 0 &&
           memcmp(p->wind[1], q->wind[1], size) == 0;
}

/* The ratio of the layers' strengths; 0: it is not the same of all. */
static double ratio_of(const profile *p, const profile *q) {
    double ratio = 0;
    for (int l = 0; l < p->nlayer; l++)
        if (ratio == 0 && q->strength[l] > 0)
            ratio = p->strength[l] / q->strength[l];
    for (int l = 0; l < p->nlayer; l++)
        if (!(fabs(p->strength[l] - ratio * q->strength[l]) <= SAME * p->strength[l]))
            return 0;
    return ratio;
}

double multiple_of(const sys *s, const profile *p, const profile *before) {
    if (p->loop[0] != NULL || before->loop[0] != NULL || sys_has_own_delays(s) ||
        s->fit.split.copies > 0 || !same_layers(p, before))
        return 0;
    const double ratio = ratio_of(p, before);
    for (int w = 0; w < s->nsensor; w++) /* a tip-tilt that is given does not follow r0 */
        if (s->sensors[w].lgs && s->sensors[w].noise.tiptilt > 0 && ratio != 1)
            return 0;
    return ratio;
}

bool multiple_may(const tor *t, const phase_term *ph, const linop *op) {
    return t->e.be == &backend_cpu && op->together && op->reference == NULL && op->product->exact &&
           op->x->group == NULL && !t->raw && ph->n > 0 && ph->room == NULL && ph->layers == NULL;
}

/* Half of N, [m/2][3] as matcov_noise has it: Y + Y' is the covariance. *none: it is 0. */
static status half_of_noise(const sys *s, const profile *p, const profile *before, double ratio,
                            double **half, bool *none) {
    const size_t n = 3 * (s->m / 2);
    double *old = NULL;
    status st;
    *none = true;
    TRY(ALLOC(*half, n, "noise of the sensors"));
    TRY(ALLOC(old, n, "noise of the sensors"));
    TRY(matcov_noise(s, p, *half));
    TRY(matcov_noise(s, before, old));
    for (size_t i = 0; i < n; i++) {
        (*half)[i] = 0.5 * ((*half)[i] - ratio * old[i]);
        *none = *none && (*half)[i] == 0;
    }
done:
    free(old);
    return st;
}

/* z = W N/2 for an axis of the subapertures of p, whose noise starts at v. */
static void weigh_columns(const tor *t, const wrows *w, const slope_pairs *p, int axis,
                          const double *v) {
    const int64_t rows = t->t.nlrow;
    for (int64_t i = 0; i < p->n; i++, v += 3) {
        const double *x = w->w + (p->column[0] + i) * w->ld, *y = w->w + (p->column[1] + i) * w->ld;
        const double of_x = axis == 0 ? v[0] : v[2], of_y = axis == 0 ? v[2] : v[1];
        double *z = t->z + i * rows;
        for (int64_t k = 0; k < rows; k++)
            z[k] = of_x * x[k] + of_y * y[k];
    }
}

/* Y of the k-th target += W (N/2) W'. */
static status add_noise(tor *t, linop *op, int k, const double *half) {
    engine *e = &t->e;
    const wrows w = tor_w(t, op, k);
    const int64_t rows = t->t.nlrow, ld = rows > 0 ? rows : 1;
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < e->m && st == MOAO_OK; j += n) {
        n = engine_width(e, j, e->m);
        for (slope_pairs p = {0};
             st == MOAO_OK && slope_pairs_next(e->s, j, n, e->width / 2, &p);) {
            const sensor *o = &e->s->sensors[p.slopes.sensor];
            const double *v = half + 3 * (o->first / 2 + (size_t)p.column[0] - o->first);
            for (int axis = 0; axis < 2 && st == MOAO_OK; axis++) {
                const double *of = w.w + p.column[axis] * w.ld;
                weigh_columns(t, &w, &p, axis, v);
                if (t->t.group_size > 1)
                    st = team_outer(&t->t, e, p.n, t->z, ld, of, w.ld, 1, t->y[k]);
                else
                    st = engine_gemm(e, 'N', 'T', rows, rows, p.n, 1.0, t->z, ld, of, w.ld, 1.0,
                                     t->y[k], rows);
            }
            e->rep->flops[STAGE_EXPOSURE] += 4.0 * (double)(rows * p.n) * (double)e->rows;
        }
    }
    return st;
}

static void scale(double ratio, int64_t n, double *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] *= ratio;
}

status multiple_form(tor *t, const phase_term *ph, linop *op, const profile *p,
                     const profile *before, double s) {
    const int64_t rows = t->t.nlrow;
    double *half = NULL;
    bool none = true;
    status st = half_of_noise(t->e.s, p, before, s, &half, &none);
    report_phase("exposure: multiple of the one before");
    TRY(engine_agree_now(&t->e, STAGE_EXPOSURE, st));
    for (int k = 0; k < tor_distinct(t, t->ch.nmine); k++) {
        scale(s, rows * t->t.nrow, t->y[k]);
        if (!none)
            TRY(add_noise(t, op, k, half));
    }
    for (int k = 0; k < t->ch.nmine; k++)
        scale(s, rows * ph->n, phase_of(ph, t, k));
    t->has_y = t->shared;
done:
    free(half);
    return engine_agree_now(&t->e, STAGE_EXPOSURE, st);
}
