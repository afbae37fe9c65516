/* Covariances of the phase at points of the pupil, seen in a target's direction, with the slopes of
 * the sensors: one evaluation per point, edge point and layer. Model section 7. */
#include "formula.h"
#include "internal.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define POINTS_PER_TILE 512
#define COLS_PER_TILE 256

typedef struct { /* what all tiles of a block share */
    const matcov_target *mt;
    matcov_points p;
    size_t j0, nj;
    double *a;
    size_t ld;
    structure_kernel *kernel;
    int sensor;   /* of both of whose axes columns 0 .. nj are, from subaperture j0 on; or -1 */
    size_t apart; /* then: from the columns of x to those of y */
} block;

typedef struct {   /* of one thread */
    double *x, *y; /* [layer][POINTS_PER_TILE] scaled positions of the points */
    double *ring;  /* [depth][POINTS_PER_TILE] sums over layers of D to one edge point */
    int *held;     /* [depth] which edge point, or -1 */
    int depth;
} scratch;

/* Columns from .. to of a block, slopes of one axis (2: of both) of a sensor from its subaperture
 * k0 on, at points p0 .. p0 + n. */
typedef struct {
    const footprint *f;
    int axis, k0;
    size_t from, to, p0, n;
} tile;

typedef struct {
    int layer;
    double cone, offset[2];
} projection;

/* Points of a tile on the layers that its sensor sees; returns how many layers. */
static int project_points(const block *b, const tile *t, const scratch *ws, projection *seen) {
    const footprint *f = t->f;
    const layers of_f = layers_between(&b->mt->mc->phase, &b->mt->ts, f), *lay = &of_f;
    int count = 0;
    for (int l = 0; l < lay->n; l++) {
        double c, of[2];
        projection *s = &seen[count];
        if (!footprint_on_layer(lay, l, &b->mt->ts, &c, of) ||
            !footprint_on_layer(lay, l, f, &s->cone, s->offset))
            continue;
        double *x = ws->x + (size_t)count * POINTS_PER_TILE;
        double *y = ws->y + (size_t)count * POINTS_PER_TILE;
        for (size_t e = 0; e < POINTS_PER_TILE; e++) {
            size_t at = t->p0 + (e < t->n ? e : 0);
            x[e] = c * b->p.x[at] + of[0];
            y[e] = c * b->p.y[at] + of[1];
        }
        s->layer = l;
        count++;
    }
    return count;
}

/* Sums over layers of D between the points and edge point e of the axis. */
static const double *line_of(const block *b, const tile *t, int e, const projection *seen,
                             int nseen, scratch *ws) {
    const footprint *f = t->f;
    const layers of_f = layers_between(&b->mt->mc->phase, &b->mt->ts, f), *lay = &of_f;
    const int slot = e % ws->depth;
    double *out = ws->ring + (size_t)slot * POINTS_PER_TILE;
    if (ws->held[slot] == e)
        return out;
    ws->held[slot] = e;
    memset(out, 0, POINTS_PER_TILE * sizeof *out);
    for (int i = 0; i < nseen; i++)
        b->kernel(lay->table[seen[i].layer], (t->n + 7) / 8 * 8,
                  ws->x + (size_t)i * POINTS_PER_TILE, ws->y + (size_t)i * POINTS_PER_TILE,
                  seen[i].cone * f->x[t->axis][e] + seen[i].offset[0],
                  seen[i].cone * f->y[t->axis][e] + seen[i].offset[1], lay->coef[seen[i].layer],
                  out);
    return out;
}

static void fill_columns(const block *b, const tile *t, scratch *ws) {
    const footprint *f = t->f;
    projection seen[b->mt->mc->phase.most > 0 ? b->mt->mc->phase.most : 1];
    const int nseen = project_points(b, t, ws, seen);
    const double scale = formula_phase_scale(f->size);
    for (int i = 0; i < ws->depth; i++)
        ws->held[i] = -1;
    for (size_t j = t->from; j < t->to; j++) {
        const int k = t->k0 + (int)(j - t->from);
        double *out = b->a + t->p0 + j * b->ld;
        const double *minus = line_of(b, t, f->minus[t->axis][k], seen, nseen, ws);
        const double *plus = line_of(b, t, f->plus[t->axis][k], seen, nseen, ws);
        for (size_t i = 0; i < t->n; i++)
            out[i] = 0.5 * scale * (minus[i] - plus[i]);
    }
}

/* The same where slopes are mean gradients: tables hold what one evaluation needs. */
static void fill_gradients(const block *b, const tile *t, scratch *ws) {
    const footprint *f = t->f;
    const size_t n = t->n, p0 = t->p0;
    const int axis = t->axis;
    const matcov *mc = b->mt->mc;
    const layers of_f = layers_between(&mc->phase, &b->mt->ts, f), *lay = &of_f;
    const gradients *g = &mc->means;
    const matcov_class *class = &g->classes[g->phase_of[f->kind]];
    const double turn[2] = {cos(f->rot), sin(f->rot)}, scale = formula_phase_scale(f->size);
    for (size_t j = t->from; j < t->to; j++) {
        memset(b->a + p0 + j * b->ld, 0, n * sizeof *b->a);
        if (axis == 2)
            memset(b->a + p0 + (j + b->apart) * b->ld, 0, n * sizeof *b->a);
    }
    memset(ws->ring, 0, n * sizeof *ws->ring); /* takes the axis that is not wanted */
    for (int l = 0; l < lay->n; l++) {
        double drift[2], own[2], c, of[2], cone, to_star[2];
        outline_phase lit;
        if (class->table[l] < 0 || layer_is_unused(lay, l))
            continue;
        const bool some = outline_open_phase(g, lay, l, f, &lit);
        footprint_drift(lay, l, &b->mt->ts, drift);
        footprint_drift(lay, l, f, own);
        formula_on_layer(lay->h[l], 1, INFINITY, b->mt->ts.dir, drift, &c, of);
        formula_on_layer(lay->h[l], 1, f->altitude, f->dir, own, &cone, to_star);
        for (size_t i = 0; i < n; i++) {
            ws->x[i] = b->p.x[p0 + i] + of[0];
            ws->y[i] = b->p.y[p0 + i] + of[1];
        }
        for (size_t j = t->from; j < t->to; j++) {
            const int k = t->k0 + (int)(j - t->from);
            double *const column = b->a + p0 + j * b->ld;
            double *const other = axis == 2 ? column + b->apart * b->ld : ws->ring;
            double *const ex = axis == 1 ? other : column, *const ey = axis == 1 ? column : other;
            if (some && outline_phases(&lit, k, n, ws->x, ws->y, ex, ey))
                continue;
            gradient_add_phase(&g->tables[class->table[l]], g->values, turn, n, ws->x, ws->y,
                               cone * f->centre[0][k] + to_star[0],
                               cone * f->centre[1][k] + to_star[1], scale * lay->coef[l], ex, ey);
        }
    }
}

/* Columns c0 .. c1 of both axes of a sensor. */
static void fill_both(const block *b, size_t p0, size_t n, size_t c0, size_t c1, scratch *ws) {
    tile t = {&b->mt->mc->feet[b->sensor], 2, (int)(b->j0 + c0), c0, c1, p0, n};
    if (t.f->gradient) {
        fill_gradients(b, &t, ws);
        return;
    }
    for (t.axis = 0; t.axis < 2; t.axis++, t.from += b->apart, t.to += b->apart)
        fill_columns(b, &t, ws);
}

static void fill_tile(const block *b, size_t p0, size_t n, size_t c0, size_t c1, scratch *ws) {
    const matcov *mc = b->mt->mc;
    if (b->sensor >= 0) {
        fill_both(b, p0, n, c0, c1, ws);
        return;
    }
    size_t first = 0; /* slope of the axis of the sensor */
    for (int w = 0; w < mc->nsensor; w++)
        for (int axis = 0; axis < 2; axis++, first += (size_t)mc->feet[w].nsub) {
            size_t from = b->j0 + c0, to = b->j0 + c1, end = first + (size_t)mc->feet[w].nsub;
            from = from > first ? from : first;
            to = to < end ? to : end;
            const tile t = {&mc->feet[w], axis, (int)(from - first), from - b->j0, to - b->j0,
                            p0,           n};
            if (from < to)
                (t.f->gradient ? fill_gradients : fill_columns)(b, &t, ws);
        }
}

/* Edge points between the two edges of a subaperture: at most a row of the array. */
static int deepest(const matcov *mc) {
    int depth = 2;
    for (int w = 0; w < mc->nsensor; w++)
        depth = mc->feet[w].nssp + 2 > depth ? mc->feet[w].nssp + 2 : depth;
    return depth;
}

static status fill_columns_of(const block *given) {
    const block b = *given;
    const matcov_target *mt = b.mt;
    const size_t np = (size_t)b.p.n, nj = b.nj;
    const size_t high = (np + POINTS_PER_TILE - 1) / POINTS_PER_TILE;
    const size_t wide = (nj + COLS_PER_TILE - 1) / COLS_PER_TILE;
    const size_t depth = (size_t)deepest(mt->mc),
                 position = (size_t)mt->mc->phase.most * POINTS_PER_TILE;
    const size_t each = 2 * position + depth * POINTS_PER_TILE;
    const int threads = omp_in_parallel() ? 1 : omp_get_max_threads();
    double *memory = NULL;
    int *held = NULL;
    status st = MOAO_OK;
    if (np == 0 || nj == 0)
        return MOAO_OK;
    TRY(ALLOC(held, depth * (size_t)threads, "edge points of a block"));
    memory = aligned_alloc(64, each * (size_t)threads * sizeof *memory);
    if (memory == NULL)
        TRY(status_fail(MOAO_MEMORY, "no memory for the points of a block"));
#pragma omp parallel num_threads(threads)
    {
        const size_t me = (size_t)omp_get_thread_num();
        double *mine = memory + me * each;
        scratch ws = {mine, mine + position, mine + 2 * position, held + me * depth, (int)depth};
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < high * wide; i++) {
            const size_t p0 = i % high * POINTS_PER_TILE, c0 = i / high * COLS_PER_TILE;
            fill_tile(&b, p0, np - p0 < POINTS_PER_TILE ? np - p0 : POINTS_PER_TILE, c0,
                      nj - c0 < COLS_PER_TILE ? nj : c0 + COLS_PER_TILE, &ws);
        }
    }
done:
    free(memory);
    free(held);
    return st;
}

bool slope_pairs_next(const sys *s, int64_t j, int64_t n, int64_t most, slope_pairs *p) {
    int64_t at = p->next > j ? p->next : j;
    for (int w = 0; w < s->nsensor; w++) {
        const int64_t first = (int64_t)s->sensors[w].first, nsub = s->sensors[w].nsub;
        if (at >= first + nsub)
            continue;
        at = at > first ? at : first;
        if (at >= j + n)
            return false;
        int64_t some = first + nsub < j + n ? first + nsub - at : j + n - at;
        some = some < most ? some : most > 1 ? most : 1;
        *p = (slope_pairs){some, {w, at - first, some, some}, {at, at + nsub}, at + some};
        return true;
    }
    return false;
}

status matcov_fill_cpm(const matcov_target *mt, matcov_points p, size_t j0, size_t nj, double *a,
                       size_t ld) {
    return fill_columns_of(&(block){.mt = mt,
                                    .p = p,
                                    .j0 = j0,
                                    .nj = nj,
                                    .a = a,
                                    .ld = ld,
                                    .kernel = structure_kernel_best(),
                                    .sensor = -1});
}

status matcov_fill_cpm_both(const matcov_target *mt, matcov_points p, matcov_slopes k, double *a,
                            size_t ld) {
    return fill_columns_of(&(block){.mt = mt,
                                    .p = p,
                                    .j0 = (size_t)k.k0,
                                    .nj = (size_t)k.n,
                                    .a = a,
                                    .ld = ld,
                                    .kernel = structure_kernel_best(),
                                    .sensor = k.sensor,
                                    .apart = (size_t)k.apart});
}
