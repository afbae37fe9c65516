/* Slopes that a mirror makes on the sensors. Model section 6. */
#include "internal.h"

#include <math.h>
#include <string.h>

#define RULE 5   /* of Gauss and Legendre, on each part of an edge that is a pitch long at most */
#define CELLS 16 /* of a partly lit subaperture, across a pitch */
#define FAR 40   /* exp(-FAR) is nothing */

static const double node[RULE] = {-0.906179845938664, -0.538469310105683, 0, 0.538469310105683,
                                  0.906179845938664},
                    share[RULE] = {0.236926885056189, 0.478628670499366, 0.568888888888889,
                                   0.478628670499366, 0.236926885056189};

typedef struct { /* a mirror as a sensor sees it: an actuator is at its place in pitches turned, */
    const dmirror *dm;
    const sys *s;
    double turn[2]; /* magnified and shifted, here cos and sin times the pitch [m] */
    double shift[2];
    double decay;       /* of the influence function, exp(-decay r^2) [1/m^2] */
    double cone, to[2]; /* a point x of the pupil is seen at cone x + to [m] */
    const sensor *o;
    const footprint *f;
    double *g; /* [measurements of the sensor][actuators] */
    int64_t ld;
} view;

/* Slope `row` of the sensor += weight times the influence functions at a point of the pupil; or,
 * axis >= 0, their derivative along an axis of the sensor. */
static void add_point(const view *v, int row, double x, double y, double weight, int axis) {
    const int side = v->dm->nssp + 1;
    const double px = v->cone * x + v->to[0], py = v->cone * y + v->to[1],
                 reach = sqrt(FAR / v->decay);
    const double along[2] = {axis == 1 ? -sin(v->f->rot) : cos(v->f->rot),
                             axis == 1 ? cos(v->f->rot) : sin(v->f->rot)};
    for (int a = 0; a < v->dm->nact; a++) {
        const double i = v->dm->act[a] % side - 0.5 * v->dm->nssp,
                     j = v->dm->act[a] / side - 0.5 * v->dm->nssp;
        const double dx = px - (v->turn[0] * i - v->turn[1] * j + v->shift[0]);
        if (fabs(dx) > reach)
            continue;
        const double dy = py - (v->turn[1] * i + v->turn[0] * j + v->shift[1]),
                     e = v->decay * (dx * dx + dy * dy);
        if (e > FAR)
            continue;
        const double slope =
            axis < 0 ? 1 : -2 * v->decay * v->cone * (dx * along[0] + dy * along[1]);
        v->g[row + a * v->ld] += weight * slope * exp(-e);
    }
}

/* Mean gradient over a whole subaperture, from the phase along its four edges. */
static void add_edges(const view *v, int k) {
    const footprint *f = v->f;
    const double c = cos(f->rot), s = sin(f->rot), half = 0.5 * f->size;
    const int parts = (int)ceil(f->size / v->dm->pitch);
    for (int axis = 0; axis < 2; axis++)
        for (int sign = -1; sign <= 1; sign += 2)
            for (int i = 0; i < parts * RULE; i++) {
                const double across =
                    half * (2 * (i / RULE + 0.5 + 0.5 * node[i % RULE]) / parts - 1);
                const double u = axis == 0 ? sign * half : across,
                             w = axis == 0 ? across : sign * half;
                add_point(v, axis * f->nsub + k, f->centre[0][k] + c * u - s * w,
                          f->centre[1][k] + s * u + c * w,
                          sign * ARCSEC_PER_RAD / f->size * 0.5 * share[i % RULE] / parts, -1);
            }
}

/* Over the lit part of a subaperture, from cells of it. */
static void add_cells(const view *v, int k) {
    const sensor *o = v->o;
    const footprint *f = v->f;
    const int n = (int)ceil(CELLS * f->size / v->dm->pitch);
    const double d = v->s->diameter / o->nssp, c = o->mag * cos(o->rot), s = o->mag * sin(o->rot);
    const double x0 = (o->sub[k] % o->nssp - 0.5 * o->nssp) * d,
                 y0 = (o->sub[k] / o->nssp - 0.5 * o->nssp) * d;
    int lit = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n * n; i++) {
            const double x = x0 + (i % n + 0.5) * d / n, y = y0 + (i / n + 0.5) * d / n;
            if (!sys_is_lit(v->s, x, y))
                continue;
            lit += pass == 0;
            for (int axis = 0; axis < 2 && pass == 1; axis++)
                add_point(v, axis * f->nsub + k, c * x - s * y + o->shift[0],
                          s * x + c * y + o->shift[1], ARCSEC_PER_RAD / lit, axis);
        }
}

static void add_difference(const view *v, int k) {
    const footprint *f = v->f;
    for (int axis = 0; axis < 2; axis++) {
        const int at[2] = {f->minus[axis][k], f->plus[axis][k]};
        for (int i = 0; i < 2; i++)
            add_point(v, axis * f->nsub + k, f->x[axis][at[i]], f->y[axis][at[i]],
                      (i == 0 ? -ARCSEC_PER_RAD : ARCSEC_PER_RAD) / f->size, -1);
    }
}

status matcov_fill_mirror(const sys *s, const dmirror *dm, const matcov_placement *at, double *g,
                          size_t ld) {
    footprint f = {0};
    status st = MOAO_OK;
    for (int w = 0; w < sys_stars(s); w++) {
        const sensor *o = &s->sensors[w];
        const double cone = 1 - dm->altitude / o->altitude;
        TRY(footprint_init(s, o, &f));
        TRY(outline_init(s, o, &f));
        for (int a = 0; a < dm->nact; a++)
            memset(g + o->first + (size_t)a * ld, 0, 2 * (size_t)o->nsub * sizeof *g);
        const double p = dm->pitch * at->scale;
        const view v = {.dm = dm,
                        .s = s,
                        .turn = {p * cos(at->rot), p * sin(at->rot)},
                        .shift = {at->shift[0], at->shift[1]},
                        .decay = -log(dm->coupling) / (p * p),
                        .cone = cone,
                        .to = {o->dir[0] * dm->altitude, o->dir[1] * dm->altitude},
                        .o = o,
                        .f = &f,
                        .g = g + o->first,
                        .ld = (int64_t)ld};
#pragma omp parallel for schedule(dynamic)
        for (int k = 0; k < o->nsub; k++) {
            if (cone <= 0) /* the mirror is above the star */
                continue;
            if (!o->gradient)
                add_difference(&v, k);
            else if (f.outline.n > 0 && f.outline.number[k] >= 0)
                add_cells(&v, k);
            else
                add_edges(&v, k);
        }
        footprint_free(&f);
    }
done:
    footprint_free(&f);
    return st;
}
