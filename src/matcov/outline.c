/* Outlines of the lit parts of subapertures. The mean gradient over a part of the pupil is the
 * integral of the phase times the normal along its outline, over its area: Gauss nodes on each edge
 * and arc. Model section 4. */
#include "formula.h"
#include "internal.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Nodes on a piece, of the first set: 6 leave 5e-5 of the slope variance. Stars of 1 and 2
 * subapertures have long pieces, which 12 and 20 serve on 40 m. */
#define NODES 6
#define NODES_APART 3
#define NODES_ONE 12
#define NODES_TWO 20
#define NOTHING 1e-9 /* length in subapertures, angle in radians */

/* An edge along one axis, at `at` on the other one, or an arc around the pupil's centre, or a side
 * of a polygon; in subapertures. sign: of the outward normal. */
typedef struct {
    bool arc, side;
    int normal; /* axis of an edge's normal */
    double at, from, to, sign;
    double a[2], b[2]; /* ends of a side, the light on its left */
} piece;

/* Where pieces become nodes: places and weights times the outward normal, in subapertures and the
 * sensor's axes. q nodes on a piece of the length `whole` or more, less on a shorter one; whole 0:
 * on every piece. */
typedef struct {
    int q, n, usual;
    double whole;
    double *x, *y, *wx, *wy; /* NULL: they are counted */
} sink;

/* Nodes on a piece, by set. */
static int nodes_of(const sensor *o, int set) {
    if (set == 2)
        return o->nssp <= 2 ? 0 : NODES_APART;
    return set + (o->nssp == 1 ? NODES_ONE : o->nssp == 2 ? NODES_TWO : NODES);
}

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

/* Nodes on a piece: what a short one lacks does not depend on q, so that a set with one more has
 * one more on each. */
static int nodes_on(const sink *k, double length) {
    if (!(k->whole > 0.0))
        return k->q;
    const int spared = (int)fmin(k->usual - 2, k->usual * fmax(0.0, 1.0 - length / k->whole));
    return k->q - spared > 1 ? k->q - spared : 1;
}

static void add_piece(sink *k, piece p) {
    double t[OUTLINE_MOST], g[OUTLINE_MOST];
    if (!(p.to - p.from > NOTHING))
        return;
    const int q = nodes_on(k, p.to - p.from);
    if (k->x != NULL)
        gauss(q, t, g);
    for (int j = 0; j < q && k->x != NULL; j++) {
        const int n = k->n + j;
        const double half = 0.5 * (p.to - p.from), along = p.from + half * (1.0 + t[j]);
        const double w = p.sign * half * g[j];
        if (p.arc) {
            k->x[n] = p.at * cos(along), k->y[n] = p.at * sin(along);
            k->wx[n] = w * k->x[n], k->wy[n] = w * k->y[n];
        } else if (p.side) {
            const double u = 0.5 * (1.0 + t[j]), dx = p.b[0] - p.a[0], dy = p.b[1] - p.a[1];
            k->x[n] = p.a[0] + u * dx, k->y[n] = p.a[1] + u * dy;
            k->wx[n] = 0.5 * g[j] * dy, k->wy[n] = -0.5 * g[j] * dx;
        } else {
            k->x[n] = p.normal == 0 ? p.at : along;
            k->y[n] = p.normal == 0 ? along : p.at;
            k->wx[n] = p.normal == 0 ? w : 0.0, k->wy[n] = p.normal == 0 ? 0.0 : w;
        }
    }
    k->n += q;
}

/* What the annulus between the circles of radii hole and R has of the four edges of the square from
 * (x, y) on, of side 1. */
static void find_edges(const double corner[2], double R, double hole, sink *to) {
    for (int axis = 0; axis < 2; axis++)
        for (int k = 0; k < 2; k++) {
            const double at = corner[axis] + k, low = corner[!axis], high = low + 1.0;
            piece e = {.normal = axis, .at = at, .sign = k ? 1.0 : -1.0};
            if (fabs(at) >= R)
                continue;
            const double half = sqrt(R * R - at * at);
            const double gap = fabs(at) < hole ? sqrt(hole * hole - at * at) : 0.0;
            e.from = fmax(low, -half), e.to = gap > 0.0 ? fmin(high, -gap) : fmin(high, half);
            add_piece(to, e);
            e.from = fmax(low, gap), e.to = fmin(high, half);
            if (gap > 0.0)
                add_piece(to, e);
        }
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
static void find_arcs(const double corner[2], double radius, double sign, sink *to) {
    double angle[13];
    if (radius <= 0.0)
        return;
    const int count = find_angles(corner, radius, angle);
    for (int i = 0; i < count; i++) {
        const double middle = 0.5 * (angle[i] + angle[i + 1]);
        const double x = radius * cos(middle) - corner[0], y = radius * sin(middle) - corner[1];
        if (x > 0.0 && x < 1.0 && y > 0.0 && y < 1.0)
            add_piece(
                to,
                (piece){
                    .arc = true, .at = radius, .from = angle[i], .to = angle[i + 1], .sign = sign});
    }
}

static int compare_numbers(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the polygons of a pupil leave of an edge of the square: from one crossing to the next. */
static void cut_edge(const sys *s, double d, piece e, double high, sink *to) {
    static const int most = PUPIL_MOST_EDGES;
    double cross[PUPIL_MOST_EDGES + 1];
    const pupil_edge *side;
    const int count = pupil_edges(s->pupil, &side), along = !e.normal;
    bool lit = false;
    int n = 0;
    for (int i = 0; i < count && n < most; i++) {
        const double a = side[i].from[e.normal] / d - e.at, b = side[i].to[e.normal] / d - e.at;
        if ((a > 0.0) == (b > 0.0))
            continue;
        const double t =
            (side[i].from[along] + a / (a - b) * (side[i].to[along] - side[i].from[along])) / d;
        if (t <= e.from)
            lit = !lit;
        else if (t < high)
            cross[n++] = t;
    }
    if (n > 1)
        qsort(cross, (size_t)n, sizeof *cross, compare_numbers);
    cross[n++] = high;
    for (int i = 0; i < n; i++, lit = !lit) {
        e.to = cross[i];
        if (lit)
            add_piece(to, e);
        e.from = cross[i];
    }
}

/* The part of a side of a polygon that lies in the square. */
static void clip_side(const pupil_edge *side, double d, const double corner[2], sink *to) {
    double from = 0.0, end = 1.0;
    piece p = {.side = true, .sign = 1.0};
    for (int axis = 0; axis < 2; axis++) {
        const double a = side->from[axis] / d - corner[axis],
                     step = (side->to[axis] - side->from[axis]) / d;
        if (step == 0.0) {
            if (a < 0.0 || a > 1.0)
                return;
            continue;
        }
        const double t[2] = {-a / step, (1.0 - a) / step};
        from = fmax(from, fmin(t[0], t[1]));
        end = fmin(end, fmax(t[0], t[1]));
    }
    if (!(end > from))
        return;
    for (int axis = 0; axis < 2; axis++) {
        const double a = side->from[axis] / d, step = (side->to[axis] - side->from[axis]) / d;
        p.a[axis] = a + from * step;
        p.b[axis] = a + end * step;
    }
    p.to = hypot(p.b[0] - p.a[0], p.b[1] - p.a[1]);
    add_piece(to, p);
}

/* What the square has of a pupil that is no annulus. It is moved by less than matters, so that no
 * side of a polygon lies on its edges. */
static void find_pupil(const sys *s, const sensor *o, const double place[2], sink *to) {
    const double d = s->diameter / o->nssp, corner[2] = {place[0] + 1.3e-6, place[1] + 0.7e-6};
    const pupil_edge *side;
    const int count = pupil_edges(s->pupil, &side);
    to->usual = nodes_of(o, 0);
    to->whole = o->nssp == 1 ? 0.25 * M_PI : o->nssp == 2 ? 0.5 * M_PI : 1.0;
    for (int k = 0; k < 4; k++) {
        const int axis = k / 2, up = k % 2;
        cut_edge(s, d,
                 (piece){.normal = axis,
                         .at = corner[axis] + up,
                         .from = corner[!axis],
                         .sign = up ? 1.0 : -1.0},
                 corner[!axis] + 1.0, to);
    }
    for (int i = 0; i < count; i++)
        clip_side(&side[i], d, corner, to);
}

/* The outline of the lit part (whole: of all) of subaperture k. */
static void find_pieces(const sys *s, const sensor *o, int k, bool whole, sink *to) {
    const double R = 0.5 * o->nssp, hole = s->obs * R;
    const double corner[2] = {o->sub[k] % o->nssp - R, o->sub[k] / o->nssp - R};
    if (whole) {
        find_edges(corner, 2.0 * o->nssp, 0.0, to);
    } else if (s->pupil != NULL) {
        find_pupil(s, o, corner, to);
    } else {
        find_edges(corner, R, hole, to);
        find_arcs(corner, R, 1.0, to);
        find_arcs(corner, hole, -1.0, to);
    }
}

int outline_count(const sys *s, const sensor *o, int k, bool whole, int q) {
    sink to = {.q = q};
    find_pieces(s, o, k, whole, &to);
    return to.n;
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
    sink to = {.q = q, .x = x, .y = y, .wx = wx, .wy = wy};
    const double size = o->mag * s->diameter / o->nssp;
    find_pieces(s, o, k, whole, &to);
    const int n = to.n;
    normalise(n, x, wx);
    normalise(n, y, wy);
    for (int i = 0; i < n; i++) {
        register_place(s, o, x[i], y[i], &x[i], &y[i]);
        wx[i] /= size;
        wy[i] /= size;
    }
    return n;
}

/* Centroid of the lit part, registered, and principal axes of its second moments (matcov_outline),
 * from the integrals of x^2/2, x^3/3 and x^2 y/2 times the normal. node: room for its nodes. */
static void find_moments(const sys *s, const sensor *o, int k, double *const node[4], double at[2],
                         double m[6]) {
    sink to = {.q = NODES, .x = node[0], .y = node[1], .wx = node[2], .wy = node[3]};
    double sum[5] = {0}, area = 0.0;
    const double size = o->mag * s->diameter / o->nssp;
    find_pieces(s, o, k, false, &to);
    for (int i = 0; i < to.n; i++) {
        const double x = node[0][i], y = node[1][i];
        area += node[2][i] * x;
        sum[0] += node[2][i] * x * x / 2.0, sum[1] += node[3][i] * y * y / 2.0;
        sum[2] += node[2][i] * x * x * x / 3.0, sum[3] += node[3][i] * y * y * y / 3.0;
        sum[4] += node[2][i] * x * x * y / 2.0;
    }
    for (int i = 0; i < 5; i++)
        sum[i] /= area;
    register_place(s, o, sum[0], sum[1], &at[0], &at[1]);
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

/* One set of nodes of all outlines. */
static status fill_set(const sys *s, const sensor *o, int set, matcov_outline *line) {
    const int q = nodes_of(o, set);
    int *first = NULL, most = 0, at = 0;
    double *to[4] = {NULL, NULL, NULL, NULL};
    status st;
    for (int i = 0; i < line->n && q > 0; i++)
        most += outline_count(s, o, line->sub[i], false, q);
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

/* A mean over all but a fraction e of a square differs from that over the square by about e times
 * its standard deviation. A difference of profiles, in single precision, resolves no less than the
 * first of these; one subaperture of n across weighs as 1 / n^2 in an image. Measured: of 8 across
 * a fraction of 0.05 changes Strehl ratios by 4e-5, of 76 one of 0.4 by 3e-5. */
#define NEARLY_WHOLE 0.01
#define NEARLY_WHOLE_N2 8e-5

static bool is_nearly_whole(const sys *s, const sensor *o, int isub) {
    const double n = o->nssp, dark = fmax(NEARLY_WHOLE, NEARLY_WHOLE_N2 * n * n);
    return n > 2 && 1 - sys_lit_share(s, o, isub) < dark;
}

int matcov_outlined(const sys *s, const sensor *o, bool difference, int *sub) {
    int n = 0;
    for (int k = 0; o->gradient && !o->whole && k < o->nsub; k++)
        if ((o->nssp <= 2 || !sys_is_whole(s, o, k)) && !(difference && is_nearly_whole(s, o, k))) {
            if (sub != NULL)
                sub[n] = k;
            n++;
        }
    return n;
}

/* All of `line` but its numbers of subapertures, and centroids: [2][n]. */
static status fill_outlines(const sys *s, const sensor *o, matcov_outline *line, double *centroid) {
    int most = 0;
    double *moments = NULL, *node[4] = {NULL, NULL, NULL, NULL};
    status st;
    TRY(ALLOC(moments, 6 * (size_t)line->n, "outlines of subapertures"));
    line->moments = moments;
    for (int i = 0; i < line->n; i++) {
        const int count = outline_count(s, o, line->sub[i], false, NODES);
        most = count > most ? count : most;
    }
    for (int i = 0; i < 4; i++)
        TRY(ALLOC(node[i], (size_t)most, "outlines of subapertures"));
    for (int i = 0; i < line->n; i++) {
        double at[2];
        find_moments(s, o, line->sub[i], node, at, moments + 6 * i);
        centroid[i] = at[0], centroid[line->n + i] = at[1];
    }
    for (int set = 0; set < MATCOV_SETS; set++)
        TRY(fill_set(s, o, set, line));
done:
    for (int i = 0; i < 4; i++)
        free(node[i]);
    return st;
}

/* What outlines depend on: sensors and profiles of a system have the same few. */
typedef struct {
    double diameter, obs, mag, rot, shift[2];
    int nssp, nsub, n, nedge;
    bool pupil;
    const int *sub, *place;  /* [n] numbers and places of the subapertures */
    const pupil_edge *edges; /* [nedge] */
} outline_key;

/* Outlines that all footprints of the same key share, while there are any. */
struct outline_set {
    outline_set *next;
    int users;
    outline_key key; /* owns its lists */
    matcov_outline line;
    double *centroid; /* [2][n] registered [m] */
};
static outline_set *made;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool same_key(const outline_key *a, const outline_key *b) {
    const size_t n = (size_t)a->n * sizeof(int), edges = (size_t)a->nedge * sizeof(pupil_edge);
    return a->diameter == b->diameter && a->obs == b->obs && a->mag == b->mag && a->rot == b->rot &&
           a->shift[0] == b->shift[0] && a->shift[1] == b->shift[1] && a->nssp == b->nssp &&
           a->nsub == b->nsub && a->n == b->n && a->nedge == b->nedge && a->pupil == b->pupil &&
           memcmp(a->sub, b->sub, n) == 0 && memcmp(a->place, b->place, n) == 0 &&
           (edges == 0 || memcmp(a->edges, b->edges, edges) == 0);
}

static void free_set(outline_set *k) {
    if (k == NULL)
        return;
    const matcov_outline *o = &k->line;
    free((void *)o->number);
    free((void *)o->kept);
    free((void *)o->moments);
    for (int set = 0; set < MATCOV_SETS; set++) {
        free((void *)o->first[set]);
        free((void *)o->x[set]), free((void *)o->y[set]);
        free((void *)o->w[set][0]), free((void *)o->w[set][1]);
    }
    free((void *)k->key.sub), free((void *)k->key.place), free((void *)k->key.edges);
    free(k->centroid);
    free(k);
}

/* The key of a sensor; sub, place: room for its subapertures. */
static outline_key key_of(const sys *s, const sensor *o, int *sub, int *place) {
    outline_key k = {.diameter = s->diameter,
                     .obs = s->obs,
                     .mag = o->mag,
                     .rot = o->rot,
                     .shift = {o->shift[0], o->shift[1]},
                     .nssp = o->nssp,
                     .nsub = o->nsub,
                     .n = matcov_outlined(s, o, false, sub),
                     .pupil = s->pupil != NULL,
                     .sub = sub,
                     .place = place};
    for (int i = 0; i < k.n; i++)
        place[i] = o->sub[sub[i]];
    if (k.pupil)
        k.nedge = pupil_edges(s->pupil, &k.edges);
    return k;
}

static status make_set(const sys *s, const sensor *o, const outline_key *key, outline_set **out) {
    const size_t n = (size_t)key->n;
    int *number = NULL, *kept = NULL, *sub = NULL, *place = NULL;
    pupil_edge *edges = NULL;
    outline_set *k = NULL;
    status st;
    TRY(ALLOC(k, 1, "outlines of subapertures"));
    k->key = *key;
    k->key.sub = k->key.place = NULL, k->key.edges = NULL;
    TRY(ALLOC(sub, n, "outlines of subapertures"));
    k->key.sub = k->line.sub = memcpy(sub, key->sub, n * sizeof *sub);
    TRY(ALLOC(place, n, "outlines of subapertures"));
    k->key.place = memcpy(place, key->place, n * sizeof *place);
    TRY(ALLOC(edges, (size_t)key->nedge, "outlines of subapertures"));
    for (int i = 0; i < key->nedge; i++)
        edges[i] = key->edges[i];
    k->key.edges = edges;
    TRY(ALLOC(number, (size_t)o->nsub, "outlines of subapertures"));
    k->line.number = number;
    for (int i = 0; i < o->nsub; i++)
        number[i] = -1;
    for (int i = 0; i < key->n; i++)
        number[sub[i]] = i;
    k->line.n = key->n;
    TRY(ALLOC(kept, n, "outlines of subapertures"));
    k->line.kept = kept;
    for (int i = 0; i < key->n; i++)
        kept[i] = is_nearly_whole(s, o, sub[i]) ? -1 : k->line.nkept++;
    k->line.always = o->nssp <= 2;
    TRY(ALLOC(k->centroid, 2 * n, "outlines of subapertures"));
    st = fill_outlines(s, o, &k->line, k->centroid);
done:
    if (st != MOAO_OK) {
        free_set(k);
        k = NULL;
    }
    *out = k;
    return st;
}

/* The set of a key has one more user; under the lock. */
static outline_set *find_set(const outline_key *key) {
    for (outline_set *k = made; k != NULL; k = k->next)
        if (same_key(&k->key, key)) {
            k->users++;
            return k;
        }
    return NULL;
}

static status take_set(const sys *s, const sensor *o, const outline_key *key, outline_set **out) {
    outline_set *mine = NULL;
    pthread_mutex_lock(&lock);
    *out = find_set(key);
    pthread_mutex_unlock(&lock);
    if (*out != NULL)
        return MOAO_OK;
    const status st = make_set(s, o, key, &mine);
    if (st != MOAO_OK)
        return st;
    pthread_mutex_lock(&lock);
    *out = find_set(key); /* another thread may have made it meanwhile */
    if (*out == NULL) {
        mine->users = 1;
        mine->next = made;
        *out = made = mine;
        mine = NULL;
    }
    pthread_mutex_unlock(&lock);
    free_set(mine);
    return st;
}

status outline_init(const sys *s, const sensor *o, footprint *f) {
    int *sub = NULL, *place = NULL;
    status st = MOAO_OK;
    f->outline = (matcov_outline){.always = o->nssp <= 2};
    if (!o->gradient || o->whole)
        return st;
    TRY(ALLOC(sub, (size_t)o->nsub, "outlines of subapertures"));
    TRY(ALLOC(place, (size_t)o->nsub, "outlines of subapertures"));
    const outline_key key = key_of(s, o, sub, place);
    TRY(take_set(s, o, &key, &f->lines));
    f->outline = f->lines->line;
    for (int i = 0; i < f->outline.n && !f->outline.always; i++)
        for (int axis = 0; axis < 2; axis++)
            f->centre[axis][f->outline.sub[i]] = f->lines->centroid[axis * f->outline.n + i];
done:
    free(sub);
    free(place);
    return st;
}

size_t outline_bytes(const sys *s, const sensor *o) {
    size_t bytes = (size_t)o->nsub * sizeof(int), n = 0;
    for (int k = 0; k < o->nsub && o->gradient && !o->whole; k++) {
        if (o->nssp > 2 && sys_is_whole(s, o, k))
            continue;
        for (int set = 0; set < MATCOV_SETS; set++)
            bytes += 4 * sizeof(double) * (size_t)outline_count(s, o, k, false, nodes_of(o, set));
        n++;
    }
    const size_t edges = s->pupil != NULL ? PUPIL_MOST_EDGES * sizeof(pupil_edge) : 0;
    return o->gradient && !o->whole ? bytes + edges + MATCOV_SETS * (n + 1) * sizeof(int) +
                                          n * (3 * sizeof(int) + 8 * sizeof(double))
                                    : 0;
}

void outline_free(footprint *f) {
    outline_set *k = f->lines;
    if (k == NULL)
        return;
    pthread_mutex_lock(&lock);
    if (--k->users == 0) {
        outline_set **at = &made;
        while (*at != k)
            at = &(*at)->next;
        *at = k->next;
        free_set(k);
    }
    pthread_mutex_unlock(&lock);
    f->lines = NULL;
    f->outline = (matcov_outline){0};
}
