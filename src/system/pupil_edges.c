/* The outline of a pupil: where the amplitude of cells falls to a half, as closed polygons with the
 * light on their left. Squares of four neighbouring cells' centres have at most two pieces of it
 * each (marching squares); corners that matter little are left out (Ramer 1972, Douglas & Peucker
 * 1973). */
#include "pupil_parts.h"

#include <math.h>
#include <stdlib.h>

/* Samples with a dark frame around them: side x side, sample (i, j) the cell (i - 1, j - 1). A link
 * between neighbours has the number 2 (j side + i), to the right, or one more, upward. */
typedef struct {
    int n, side;
    const double *a;
    int *next; /* [2 side^2] the link where a piece that begins at a link ends, or -1 */
} march;

static double sample(const march *m, int i, int j) {
    return i < 1 || j < 1 || i > m->n || j > m->n
               ? 0
               : m->a[(size_t)(j - 1) * (size_t)m->n + (size_t)(i - 1)];
}

/* Where the outline cuts a link, in cells from the pupil's corner. */
static void place_of(const march *m, int link, double at[2]) {
    const int i = link / 2 % m->side, j = link / 2 / m->side, up = link & 1;
    const double a = sample(m, i, j), b = sample(m, i + !up, j + up);
    const double t = (a - 0.5) / (a - b);
    at[0] = i - 0.5 + (up ? 0 : t);
    at[1] = j - 0.5 + (up ? t : 0);
}

/* The pieces in the square from sample (i, j) on. Its links in order, counterclockwise from the
 * lower one: the outline enters the square where the light ends on the way around, so that it has
 * it on the left, and leaves it at the next link where the light begins. */
static bool march_square(march *m, int i, int j) {
    const int link[4] = {2 * (j * m->side + i), 2 * (j * m->side + i + 1) + 1,
                         2 * ((j + 1) * m->side + i), 2 * (j * m->side + i) + 1};
    const double v[4] = {sample(m, i, j), sample(m, i + 1, j), sample(m, i + 1, j + 1),
                         sample(m, i, j + 1)};
    const bool joined = v[0] + v[1] + v[2] + v[3] >= 2; /* of two lit corners across */
    bool lit[4], any = false;
    for (int k = 0; k < 4; k++)
        lit[k] = v[k] >= 0.5;
    for (int k = 0; k < 4; k++) {
        if (!(lit[k] && !lit[(k + 1) & 3]))
            continue;
        any = true;
        /* the light ends on link k: this dark corner's piece, or the lit one's behind */
        const bool two = lit[(k + 2) & 3] && !lit[(k + 3) & 3];
        int end = -1;
        for (int step = 1; step < 4 && end < 0; step++) {
            const int l = (k + step) & 3;
            if (!lit[l] && lit[(l + 1) & 3] && !(two && !joined && step < 3))
                end = l;
        }
        m->next[link[k]] = link[end];
    }
    return any;
}

/* --- polygons */

typedef struct {
    int n;
    const double (*at)[2];
    bool *kept;
} polygon;

/* Keep the corner farthest from the chord from a to b, where it is beyond the tolerance. */
static void split(polygon *p, int a, int b, double tolerance, int (*stack)[2]) {
    int depth = 0;
    stack[depth][0] = a, stack[depth++][1] = b;
    while (depth > 0) {
        a = stack[--depth][0], b = stack[depth][1];
        const double *from = p->at[a], *to = p->at[b % p->n];
        const double dx = to[0] - from[0], dy = to[1] - from[1], length = hypot(dx, dy);
        double far = tolerance;
        int best = -1;
        for (int k = a + 1; k < b; k++) {
            const double x = p->at[k][0] - from[0], y = p->at[k][1] - from[1];
            const double off = length > 0 ? fabs(dx * y - dy * x) / length : hypot(x, y);
            if (off > far) {
                far = off;
                best = k;
            }
        }
        if (best < 0)
            continue;
        p->kept[best] = true;
        stack[depth][0] = a, stack[depth++][1] = best;
        stack[depth][0] = best, stack[depth++][1] = b;
    }
}

/* Corners of a closed polygon that stay. */
static void simplify(polygon *p, double tolerance, int (*stack)[2]) {
    int far = 0;
    double most = -1;
    for (int k = 0; k < p->n; k++) {
        const double d = hypot(p->at[k][0] - p->at[0][0], p->at[k][1] - p->at[0][1]);
        p->kept[k] = k == 0;
        if (d > most) {
            most = d;
            far = k;
        }
    }
    p->kept[far] = true;
    split(p, 0, far, tolerance, stack);
    split(p, far, p->n, tolerance, stack);
}

/* Its sides into p->edge, which has room; of two corners none. */
static void add_sides(pupil *p, const polygon *g) {
    const double c = p->o.diameter / PUPIL_CELLS, half = 0.5 * p->o.diameter;
    int corners = 0, first = -1, last = -1;
    for (int k = 0; k < g->n; k++)
        corners += g->kept[k];
    for (int k = 0; corners > 2 && k <= g->n; k++) {
        const int at = k % g->n;
        if (!g->kept[at])
            continue;
        if (last >= 0) {
            pupil_edge *e = &p->edge[p->nedge++];
            for (int axis = 0; axis < 2; axis++) {
                e->from[axis] = c * g->at[last][axis] - half;
                e->to[axis] = c * g->at[at][axis] - half;
            }
        }
        first = first < 0 ? at : first;
        last = at;
    }
}

static int march_all(pupil *p, march *m) {
    const int n = PUPIL_CELLS;
    int links = 0;
    for (int k = 0; k < 2 * m->side * m->side; k++)
        m->next[k] = -1;
    for (int j = 0; j + 1 < m->side; j++)
        for (int i = 0; i + 1 < m->side; i++)
            if (march_square(m, i, j))
                for (int k = 0; k < 4; k++) { /* the cells whose corner it is around */
                    const int x = i - 1 + (k & 1), y = j - 1 + (k >> 1);
                    if (x >= 0 && y >= 0 && x < n && y < n)
                        p->crossed[(y + 1) * (n + 1) + x + 1] = 1;
                }
    for (int j = 1; j <= n; j++)
        for (int i = 1; i <= n; i++)
            p->crossed[j * (n + 1) + i] += p->crossed[(j - 1) * (n + 1) + i] +
                                           p->crossed[j * (n + 1) + i - 1] -
                                           p->crossed[(j - 1) * (n + 1) + i - 1];
    for (int k = 0; k < 2 * m->side * m->side; k++)
        links += m->next[k] >= 0;
    return links;
}

status pupil_find_edges(pupil *p, const double *amplitude, double tolerance) {
    march m = {.n = PUPIL_CELLS, .side = PUPIL_CELLS + 2, .a = amplitude};
    double(*at)[2] = NULL;
    int(*stack)[2] = NULL;
    bool *kept = NULL;
    status st;
    TRY(ALLOC(m.next, 2 * (size_t)m.side * (size_t)m.side, "outline of the pupil"));
    const size_t links = (size_t)march_all(p, &m);
    TRY(ALLOC(at, links + 1, "outline of the pupil"));
    TRY(ALLOC(stack, links + 2, "outline of the pupil"));
    TRY(ALLOC(kept, links + 1, "outline of the pupil"));
    TRY(ALLOC(p->edge, links + 1, "outline of the pupil"));
    for (int k = 0; k < 2 * m.side * m.side; k++) {
        polygon g = {.at = (const double(*)[2])at, .kept = kept};
        for (int link = k; m.next[link] >= 0;) {
            const int next = m.next[link];
            place_of(&m, link, at[g.n++]);
            m.next[link] = -1;
            link = next;
        }
        if (g.n < 3)
            continue;
        simplify(&g, tolerance, stack);
        add_sides(p, &g);
    }
    if (p->nedge > PUPIL_MOST_EDGES)
        st = status_fail(MOAO_INPUT,
                         "telescope: the outline of its pupil has %d corners, expected at most %d: "
                         "a smoother map, or fewer segments at its edge",
                         p->nedge, PUPIL_MOST_EDGES);
done:
    free(m.next);
    free(at);
    free(stack);
    free(kept);
    return st;
}
