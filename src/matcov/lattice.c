/* Tables of index differences for sensors whose footprints share a lattice. Model section 4. */
#include "aged.h"
#include "formula.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int common_divisor(int a, int b) {
    while (b != 0) {
        int r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Subapertures of the pitch that two sensors share, 0: none. Pairs whose common pitch is much finer
 * than both would have more table entries than they are worth. */
static int common_pitch(int a, int b) {
    const int lcm = a / common_divisor(a, b) * b;
    return lcm > 2 * (a > b ? a : b) ? 0 : lcm;
}

bool matcov_on_lattice(const sensor *a, const sensor *b, int steps[2]) {
    const int lcm = common_pitch(a->nssp, b->nssp);
    steps[0] = lcm / a->nssp;
    steps[1] = lcm / b->nssp;
    return lcm > 0 && a->rot == b->rot && a->mag == b->mag && a->altitude == b->altitude &&
           a->gradient == b->gradient;
}

bool like_lattice(const footprint *a, const footprint *b, like *t) {
    const int lcm = common_pitch(a->nssp, b->nssp);
    if (lcm == 0 || a->rot != b->rot || a->mag != b->mag || a->gradient != b->gradient ||
        (a->gradient && a->altitude != b->altitude))
        return false;
    *t = (like){.first = a,
                .second = b,
                .ground = a->altitude != b->altitude,
                .steps = {lcm / a->nssp, lcm / b->nssp}};
    t->origin = t->steps[1] * (b->nssp - 1);
    t->n = t->origin + t->steps[0] * (a->nssp - 1) + 1;
    return true;
}

/* Whether two tables would hold the same values; on the ground the stars do not matter. */
static bool same_table(const like *t, const like *u) {
    const footprint *a = t->first, *b = t->second, *c = u->first, *d = u->second;
    bool same = t->ground == u->ground && a->gradient == c->gradient && a->nssp == c->nssp &&
                b->nssp == d->nssp && a->rot == c->rot && a->mag == c->mag &&
                a->drifts == c->drifts && a->late - b->late == c->late - d->late &&
                a->loop == c->loop && b->loop == d->loop &&
                (t->ground || a->altitude == c->altitude);
    for (int i = 0; i < 2; i++)
        same = same && a->shift[i] - b->shift[i] == c->shift[i] - d->shift[i] &&
               (t->ground || a->dir[i] - b->dir[i] == c->dir[i] - d->dir[i]);
    return same;
}

static int kinds_of(const like *t) {
    return t->steps[0] == t->steps[1] ? LIKE_KINDS - 1 : LIKE_KINDS;
}

/* Tables found so far, by a hash of what same_table compares: open addressing, a power of two of
 * places, at most half of them taken. Places hold 1 + the table's number. */
typedef struct {
    size_t mask;
    int *place;
} directory;

static status directory_init(directory *d, size_t ntable) {
    size_t n = 16;
    while (n < 2 * ntable)
        n *= 2;
    d->mask = n - 1;
    return ALLOC(d->place, n, "pairs of sensors");
}

static uint64_t mix(uint64_t h, double x) {
    uint64_t bits;
    x += 0.0; /* -0 is 0 */
    memcpy(&bits, &x, sizeof bits);
    h = (h ^ bits) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t hash_of(const like *t) {
    const footprint *a = t->first, *b = t->second;
    uint64_t h = mix(mix((uint64_t)a->nssp << 32 ^ (uint64_t)b->nssp << 2 ^
                             (uint64_t)a->drifts << 1 ^ (uint64_t)t->ground,
                         a->rot),
                     a->mag);
    h = mix(h, a->late - b->late);
    for (int i = 0; i < 2; i++) {
        h = mix(h, a->shift[i] - b->shift[i]);
        h = t->ground ? h : mix(h, a->dir[i] - b->dir[i]);
    }
    return t->ground ? h : mix(h, a->altitude);
}

/* The table of a pair: one that exists already, or a new one; -1 for an unlike pair. */
static int table_of(lattice_table *k, directory *d, const footprint *a, const footprint *b) {
    like t;
    if (!like_lattice(a, b, &t))
        return -1;
    size_t at = hash_of(&t) & d->mask;
    for (; d->place[at] != 0; at = (at + 1) & d->mask)
        if (same_table(&k->tables[d->place[at] - 1], &t))
            return d->place[at] - 1;
    d->place[at] = k->ntable + 1;
    k->tables[k->ntable] = t;
    k->nvalue += (size_t)kinds_of(&t) * (size_t)t.n * (size_t)t.n;
    return k->ntable++;
}

static void point_into_values(lattice_table *k) {
    double *v = k->values;
    for (int i = 0; i < k->ntable; i++) {
        like *t = &k->tables[i];
        for (int kind = 0; kind < kinds_of(t); kind++, v += (size_t)t->n * (size_t)t->n)
            t->value[kind] = v;
        if (kinds_of(t) < LIKE_KINDS)
            t->value[LIKE_YX] = t->value[LIKE_XY];
    }
}

status lattice_table_plan(const footprint *firsts, int nfirst, const footprint *seconds,
                          int nsecond, bool symmetric, bool allocate, lattice_table *k) {
    status st;
    directory d = {0};
    *k = (lattice_table){.nfirst = nfirst, .nsecond = nsecond};
    size_t n = (size_t)nfirst * (size_t)nsecond;
    TRY(directory_init(&d, n));
    TRY(ALLOC(k->links, n, "pairs of sensors"));
    TRY(ALLOC(k->tables, n, "pairs of sensors"));
    for (int i = 0; i < nfirst; i++)
        for (int j = 0; j < nsecond; j++) {
            size_t at = (size_t)i * (size_t)nsecond + (size_t)j;
            k->links[at].reversed = symmetric && j > i;
            if (!k->links[at].reversed)
                k->links[at].table = table_of(k, &d, &firsts[i], &seconds[j]);
        }
    for (int i = 0; symmetric && i < nfirst; i++)
        for (int j = i + 1; j < nsecond; j++)
            k->links[(size_t)i * (size_t)nsecond + (size_t)j].table =
                k->links[(size_t)j * (size_t)nsecond + (size_t)i].table;
    if (allocate)
        TRY(lattice_table_allocate(k));
done:
    free(d.place);
    if (st != MOAO_OK)
        lattice_table_free(k);
    return st;
}

status lattice_table_allocate(lattice_table *k) {
    status st = ALLOC(k->values, k->nvalue, "covariance tables of like sensors");
    if (st == MOAO_OK)
        point_into_values(k);
    return st;
}

void lattice_table_free(lattice_table *k) {
    free(k->links);
    free(k->tables);
    free(k->values);
    *k = (lattice_table){0};
}

/* Of one kind of table: sum over layers of the structure functions between edge points, on a
 * lattice of nx x ny points, whose point (0, 0) is at `base` common pitches from the centres'
 * difference of the table's origin; and where on it the four terms of the entry (0, 0) are. With
 * half sizes a/2 and b/2 and centres (a - b)/2 off the lattice, all four are on one lattice. */
typedef struct {
    size_t nx, ny, stride;
    double base[2];
    size_t pp, pm, mp, mm;
} lattice;

static lattice lattice_of(const like *t, int kind) {
    size_t a = (size_t)t->steps[0], b = (size_t)t->steps[1], n = (size_t)t->n;
    double da = (double)a, db = (double)b, centre = 0.5 * (da - db);
    lattice g;
    switch (kind) {
    case LIKE_XX:
        g = (lattice){
            .nx = n + a + b, .ny = n, .base = {-db, centre}, .pp = a, .pm = a + b, .mm = b};
        break;
    case LIKE_YY:
        g = (lattice){.nx = n, .ny = n + a + b, .base = {centre, -db}};
        break;
    case LIKE_XY:
        g = (lattice){
            .nx = n + a, .ny = n + b, .base = {-0.5 * db, 0.5 * da - db}, .pp = a, .pm = a};
        break;
    default:
        g = (lattice){
            .nx = n + b, .ny = n + a, .base = {0.5 * da - db, -0.5 * db}, .pm = b, .mm = b};
    }
    g.stride = (g.nx + 7) / 8 * 8;
    if (kind == LIKE_YY)
        g.pp = a * g.stride, g.pm = (a + b) * g.stride, g.mm = b * g.stride;
    else if (kind == LIKE_XY)
        g.pm += b * g.stride, g.mm = b * g.stride;
    else if (kind == LIKE_YX)
        g.pp = a * g.stride, g.pm += a * g.stride;
    for (int i = 0; i < 2; i++)
        g.base[i] -= t->origin;
    return g;
}

/* Scaled positions of the lattice's first row on one layer, and the scaled step (dx, dy) from row
 * to row. */
static bool lattice_on_layer(const like *t, const lattice *g, const layers *lay, int l, double *x,
                             double *y, double step[2]) {
    double c, cb, of[2], os[2], u = t->first->size / t->steps[0];
    double cx = cos(t->first->rot), sx = sin(t->first->rot);
    if ((t->ground && lay->h[l] != 0.0) || !footprint_on_layer(lay, l, t->first, &c, of) ||
        !footprint_on_layer(lay, l, t->second, &cb, os))
        return false;
    for (int i = 0; i < 2; i++)
        of[i] += c * (t->first->shift[i] - t->second->shift[i]) - os[i];
    for (size_t e = 0; e < g->stride; e++) {
        double at = c * u * (g->base[0] + (double)e);
        x[e] = cx * at + of[0];
        y[e] = sx * at + of[1];
    }
    step[0] = -sx * c * u;
    step[1] = cx * c * u;
    return true;
}

/* Sums over layers at the points of a lattice. position: scratch of 2 * stride numbers per layer.
 */
static void add_lattice(const like *t, const lattice *g, const layers *lay,
                        structure_kernel *kernel, double *position, double *f) {
    double step[lay->most > 0 ? lay->most : 1][2];
    int seen[lay->most > 0 ? lay->most : 1], nseen = 0;
    for (int l = 0; l < lay->n; l++) {
        double *x = position + 2 * (size_t)nseen * g->stride;
        if (lattice_on_layer(t, g, lay, l, x, x + g->stride, step[nseen]))
            seen[nseen++] = l;
    }
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < g->ny; r++) {
        double row = g->base[1] + (double)r, *line = f + r * g->stride;
        memset(line, 0, g->stride * sizeof *line);
        for (int i = 0; i < nseen; i++) {
            const double *x = position + 2 * (size_t)i * g->stride;
            kernel(lay->table[seen[i]], g->stride, x, x + g->stride, -step[i][0] * row,
                   -step[i][1] * row, lay->coef[seen[i]], line);
        }
    }
}

/* Values of a table of mean gradients. */
static status compute_means(like *t, const layers *lay, const gradients *means,
                            const aged_tables *aged) {
    layers of;
    const gradients *g = aged_between(aged, t->first, t->second, &of);
    if (g == NULL) {
        of = layers_between(lay, t->first, t->second);
        g = means;
    }
    return gradients_like(g, &of, t);
}

status lattice_table_compute(lattice_table *k, const layers *lay, const gradients *means,
                             const aged_tables *aged, int first, int last) {
    status st = MOAO_OK;
    double *f = NULL;
    structure_kernel *kernel = structure_kernel_best();
    size_t most = 8;
    for (int i = first; i < last; i++) {
        if (k->tables[i].first->gradient)
            TRY(compute_means(&k->tables[i], lay, means, aged));
        size_t side = (size_t)(k->tables[i].n + k->tables[i].steps[0] + k->tables[i].steps[1] + 7);
        most = side > most ? side : most;
    }
    TRY(ALLOC(f, most * (most + 2 * (size_t)lay->most), "lattice of structure functions"));
    for (int i = first; i < last; i++) {
        const like *t = &k->tables[i];
        const layers of = layers_between(lay, t->first, t->second);
        double scale = formula_slope_scale(t->first->size, t->second->size);
        for (int kind = 0; kind < kinds_of(t) && !t->first->gradient; kind++) {
            lattice g = lattice_of(t, kind);
            double *values = f + 2 * g.stride * (size_t)lay->most;
            add_lattice(t, &g, &of, kernel, f, values);
            for (size_t r = 0; r < (size_t)t->n; r++)
                for (size_t e = 0; e < (size_t)t->n; e++) {
                    const double *v = values + r * g.stride + e;
                    t->value[kind][r * (size_t)t->n + e] =
                        scale * formula_second_difference(v[g.pp], v[g.pm], v[g.mp], v[g.mm]);
                }
        }
    }
done:
    free(f);
    return st;
}
