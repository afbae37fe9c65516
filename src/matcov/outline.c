/* Outlines of the lit parts of subapertures. The mean gradient over a part of the pupil is the
 * integral of the phase times the normal along its outline, over its area: Gauss nodes on each edge
 * and arc. Model section 4. */
#include "formula.h"
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIT (1.0 - 1e-9) /* share of the light from which on a subaperture is whole */
/* Nodes on a piece, of the first set: 6 leave 5e-5 of the slope variance. Stars of 1 and 2
 * subapertures have long pieces, which 12 and 20 serve on 40 m. */
#define NODES 6
#define NODES_APART 3
#define NODES_ONE 12
#define NODES_TWO 20
#define NOTHING 1e-9 /* length in subapertures, angle in radians */

/* An edge along one axis, at `at` on the other one, or an arc around the pupil's centre; in
 * subapertures. sign: of the outward normal. */
typedef struct {
    bool arc;
    int normal; /* axis of an edge's normal */
    double at, from, to, sign;
} piece;

/* Nodes and weights of Gauss and Legendre's rule on (-1, 1). */
static void gauss(int n, double *x, double *w) {
    for (int i = 0; i < n; i++) {
        double t = cos(0.5 * FORMULA_TWO_PI * (i + 0.75) / (n + 0.5)), slope = 1.0;
        for (int step = 0; step < 100; step++) {
            double p = 1.0, before = 0.0;
            for (int k = 1; k <= n; k++) {
                const double next = ((2 * k - 1) * t * p - (k - 1) * before) / k;
                before = p;
                p = next;
            }
            slope = n * (t * p - before) / (t * t - 1.0);
            t -= p / slope;
            if (fabs(p / slope) < 1e-15)
                break;
        }
        x[i] = t;
        w[i] = 2.0 / ((1.0 - t * t) * slope * slope);
    }
}

static int add_piece(piece *p, int n, piece one) {
    if (one.to - one.from > NOTHING)
        p[n++] = one;
    return n;
}

/* What the annulus between the circles of radii hole and R has of the four edges of the square from
 * (x, y) on, of side 1. */
static int find_edges(const double corner[2], double R, double hole, piece *p) {
    int n = 0;
    for (int axis = 0; axis < 2; axis++)
        for (int k = 0; k < 2; k++) {
            const double at = corner[axis] + k, low = corner[!axis], high = low + 1.0;
            piece e = {.normal = axis, .at = at, .sign = k ? 1.0 : -1.0};
            if (fabs(at) >= R)
                continue;
            const double half = sqrt(R * R - at * at);
            const double gap = fabs(at) < hole ? sqrt(hole * hole - at * at) : 0.0;
            e.from = fmax(low, -half), e.to = gap > 0.0 ? fmin(high, -gap) : fmin(high, half);
            n = add_piece(p, n, e);
            e.from = fmax(low, gap), e.to = fmin(high, half);
            if (gap > 0.0)
                n = add_piece(p, n, e);
        }
    return n;
}

/* Angles at which a circle may enter or leave the square, in order; those of the axes too, so that
 * no arc is longer than a quarter. */
static int find_angles(const double corner[2], double radius, double *angle) {
    int n = 0;
    for (int k = 0; k < 4; k++)
        angle[n++] = 0.25 * FORMULA_TWO_PI * k;
    for (int axis = 0; axis < 2; axis++)
        for (int k = 0; k < 2; k++) {
            const double c = (corner[axis] + k) / radius;
            if (fabs(c) >= 1.0)
                continue;
            const double t = axis == 0 ? acos(c) : asin(c);
            const double other = axis == 0 ? -t : 0.5 * FORMULA_TWO_PI - t;
            angle[n++] = t < 0.0 ? t + FORMULA_TWO_PI : t;
            angle[n++] = other < 0.0 ? other + FORMULA_TWO_PI : other;
        }
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && angle[j] < angle[j - 1]; j--) {
            const double swap = angle[j];
            angle[j] = angle[j - 1];
            angle[j - 1] = swap;
        }
    angle[n] = angle[0] + FORMULA_TWO_PI;
    return n;
}

/* What the square has of a circle. */
static int find_arcs(const double corner[2], double radius, double sign, piece *p) {
    double angle[13];
    int n = 0;
    if (radius <= 0.0)
        return 0;
    const int count = find_angles(corner, radius, angle);
    for (int i = 0; i < count; i++) {
        const double middle = 0.5 * (angle[i] + angle[i + 1]);
        const double x = radius * cos(middle) - corner[0], y = radius * sin(middle) - corner[1];
        if (x > 0.0 && x < 1.0 && y > 0.0 && y < 1.0)
            n = add_piece(
                p, n,
                (piece){
                    .arc = true, .at = radius, .from = angle[i], .to = angle[i + 1], .sign = sign});
    }
    return n;
}

static int find_pieces(const sys *s, const sensor *o, int k, bool whole, double corner[2],
                       piece *p) {
    const double R = 0.5 * o->nssp, hole = s->obs * R;
    corner[0] = o->sub[k] % o->nssp - R, corner[1] = o->sub[k] / o->nssp - R;
    if (whole)
        return find_edges(corner, 2.0 * o->nssp, 0.0, p);
    int n = find_edges(corner, R, hole, p);
    n += find_arcs(corner, R, 1.0, p + n);
    n += find_arcs(corner, hole, -1.0, p + n);
    return n;
}

/* Nodes in subapertures, in the sensor's axes, with weights times the outward normal. */
static int find_nodes(const piece *p, int count, int q, double *x, double *y, double *wx,
                      double *wy) {
    double t[OUTLINE_MOST], g[OUTLINE_MOST];
    int n = 0;
    gauss(q, t, g);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < q; j++, n++) {
            const double half = 0.5 * (p[i].to - p[i].from),
                         along = p[i].from + half * (1.0 + t[j]);
            const double w = p[i].sign * half * g[j];
            if (p[i].arc) {
                x[n] = p[i].at * cos(along), y[n] = p[i].at * sin(along);
                wx[n] = w * x[n], wy[n] = w * y[n];
            } else {
                x[n] = p[i].normal == 0 ? p[i].at : along;
                y[n] = p[i].normal == 0 ? along : p[i].at;
                wx[n] = p[i].normal == 0 ? w : 0.0, wy[n] = p[i].normal == 0 ? 0.0 : w;
            }
        }
    return n;
}

/* Piston is not seen, and a tilt of 1 is a slope of 1 (the area, with the same nodes). */
static void normalise(int n, const double *at, double *w) {
    double sum = 0.0, tilt = 0.0;
    for (int i = 0; i < n; i++)
        sum += w[i];
    for (int i = 0; i < n; i++) {
        w[i] -= sum / n;
        tilt += w[i] * at[i];
    }
    for (int i = 0; i < n; i++)
        w[i] /= tilt;
}

static void register_place(const sys *s, const sensor *o, double px, double py, double *x,
                           double *y) {
    const double d = s->diameter / o->nssp, c = o->mag * cos(o->rot), e = o->mag * sin(o->rot);
    *x = d * (c * px - e * py) + o->shift[0];
    *y = d * (e * px + c * py) + o->shift[1];
}

int outline_nodes(const sys *s, const sensor *o, int k, bool whole, int q, double *x, double *y,
                  double *wx, double *wy) {
    piece p[OUTLINE_PIECES];
    double corner[2];
    const int npiece = find_pieces(s, o, k, whole, corner, p);
    const int n = find_nodes(p, npiece, q, x, y, wx, wy);
    const double size = o->mag * s->diameter / o->nssp;
    normalise(n, x, wx);
    normalise(n, y, wy);
    for (int i = 0; i < n; i++) {
        register_place(s, o, x[i], y[i], &x[i], &y[i]);
        wx[i] /= size;
        wy[i] /= size;
    }
    return n;
}

/* Centroid of the lit part, the integral of x^2/2 times the normal over the area, registered. */
static void find_centroid(const sys *s, const sensor *o, int k, double at[2]) {
    double node[4][OUTLINE_NODES(NODES)], moment[2] = {0, 0}, area = 0.0, corner[2];
    piece p[OUTLINE_PIECES];
    const int npiece = find_pieces(s, o, k, false, corner, p);
    const int n = find_nodes(p, npiece, NODES, node[0], node[1], node[2], node[3]);
    for (int i = 0; i < n; i++) {
        area += node[2][i] * node[0][i];
        moment[0] += 0.5 * node[2][i] * node[0][i] * node[0][i];
        moment[1] += 0.5 * node[3][i] * node[1][i] * node[1][i];
    }
    register_place(s, o, moment[0] / area, moment[1] / area, &at[0], &at[1]);
}

/* Principal axes of the second moments (matcov_outline), from the integrals
 * of x^3/3 and x^2 y/2 times the normal. */
static void find_moments(const sys *s, const sensor *o, int k, double m[6]) {
    double node[4][OUTLINE_NODES(NODES)], sum[5] = {0}, corner[2], area = 0.0;
    piece p[OUTLINE_PIECES];
    const double size = o->mag * s->diameter / o->nssp;
    const int npiece = find_pieces(s, o, k, false, corner, p);
    const int n = find_nodes(p, npiece, NODES, node[0], node[1], node[2], node[3]);
    for (int i = 0; i < n; i++) {
        const double x = node[0][i], y = node[1][i];
        area += node[2][i] * x;
        sum[0] += node[2][i] * x * x / 2.0, sum[1] += node[3][i] * y * y / 2.0;
        sum[2] += node[2][i] * x * x * x / 3.0, sum[3] += node[3][i] * y * y * y / 3.0;
        sum[4] += node[2][i] * x * x * y / 2.0;
    }
    for (int i = 0; i < 5; i++)
        sum[i] /= area;
    const double xx = sum[2] - sum[0] * sum[0] - 1.0 / 12.0, xy = sum[4] - sum[0] * sum[1],
                 yy = sum[3] - sum[1] * sum[1] - 1.0 / 12.0;
    const double turn = 0.5 * atan2(2.0 * xy, xx - yy), mean = 0.5 * (xx + yy),
                 half = hypot(0.5 * (xx - yy), xy);
    for (int i = 0; i < 2; i++) {
        const double angle = turn + o->rot + (i ? 0.25 * FORMULA_TWO_PI : 0.0);
        m[3 * i] = size * cos(angle), m[3 * i + 1] = size * sin(angle);
        m[3 * i + 2] = 0.5 * (i ? mean - half : mean + half);
    }
}

static int nodes_of(const sensor *o, int set) {
    if (set == 2)
        return o->nssp <= 2 ? 0 : NODES_APART;
    return set + (o->nssp == 1 ? NODES_ONE : o->nssp == 2 ? NODES_TWO : NODES);
}

/* One set of nodes of all outlines. */
static status fill_set(const sys *s, const sensor *o, int set, matcov_outline *line) {
    const int q = nodes_of(o, set);
    int *first = NULL, most = 0, at = 0;
    double *to[4] = {NULL, NULL, NULL, NULL}, corner[2];
    piece p[OUTLINE_PIECES];
    status st;
    for (int i = 0; i < line->n; i++)
        most += q * find_pieces(s, o, line->sub[i], false, corner, p);
    TRY(ALLOC(first, (size_t)line->n + 1, "outlines of subapertures"));
    line->first[set] = first;
    for (int i = 0; i < 4; i++) {
        TRY(ALLOC(to[i], (size_t)most, "outlines of subapertures"));
        *(i == 0 ? &line->x[set] : i == 1 ? &line->y[set] : &line->w[set][i - 2]) = to[i];
    }
    for (int i = 0; i < line->n; i++) {
        first[i] = at;
        if (q > 0)
            at += outline_nodes(s, o, line->sub[i], false, q, to[0] + at, to[1] + at, to[2] + at,
                                to[3] + at);
    }
    first[line->n] = at;
done:
    return st;
}

int matcov_outlined(const sys *s, const sensor *o, int *sub) {
    int n = 0;
    for (int k = 0; o->gradient && !o->whole && k < o->nsub; k++)
        if (o->nssp <= 2 || sys_lit_share(s, o, k) <= LIT) {
            if (sub != NULL)
                sub[n] = k;
            n++;
        }
    return n;
}

status outline_init(const sys *s, const sensor *o, footprint *f) {
    status st = MOAO_OK;
    int *number = NULL, *sub = NULL;
    double *moments = NULL;
    f->outline = (matcov_outline){.always = o->nssp <= 2};
    if (!o->gradient || o->whole)
        return MOAO_OK;
    TRY(ALLOC(number, (size_t)o->nsub, "outlines of subapertures"));
    f->outline.number = number;
    TRY(ALLOC(sub, (size_t)o->nsub, "outlines of subapertures"));
    f->outline.sub = sub;
    f->outline.n = matcov_outlined(s, o, sub);
    TRY(ALLOC(moments, 6 * (size_t)f->outline.n, "outlines of subapertures"));
    f->outline.moments = moments;
    for (int k = 0; k < o->nsub; k++)
        number[k] = -1;
    for (int i = 0; i < f->outline.n; i++) {
        double at[2];
        number[sub[i]] = i;
        find_moments(s, o, sub[i], moments + 6 * i);
        find_centroid(s, o, sub[i], at);
        for (int axis = 0; axis < 2 && !f->outline.always; axis++)
            f->centre[axis][sub[i]] = at[axis];
    }
    for (int set = 0; set < MATCOV_SETS; set++)
        TRY(fill_set(s, o, set, &f->outline));
done:
    return st;
}

size_t outline_bytes(const sys *s, const sensor *o) {
    size_t bytes = 2 * (size_t)o->nsub * sizeof(int), n = 0;
    double corner[2];
    piece p[OUTLINE_PIECES];
    for (int k = 0; k < o->nsub && o->gradient && !o->whole; k++) {
        if (o->nssp > 2 && sys_lit_share(s, o, k) > LIT)
            continue;
        const int pieces = find_pieces(s, o, k, false, corner, p);
        for (int set = 0; set < MATCOV_SETS; set++)
            bytes += 4 * sizeof(double) * (size_t)(pieces * nodes_of(o, set));
        n++;
    }
    return o->gradient && !o->whole
               ? bytes + MATCOV_SETS * (n + 1) * sizeof(int) + 6 * n * sizeof(double)
               : 0;
}

void outline_free(matcov_outline *o) {
    free((void *)o->number);
    free((void *)o->sub);
    free((void *)o->moments);
    for (int set = 0; set < MATCOV_SETS; set++) {
        free((void *)o->first[set]);
        free((void *)o->x[set]), free((void *)o->y[set]);
        free((void *)o->w[set][0]), free((void *)o->w[set][1]);
    }
    *o = (matcov_outline){0};
}
