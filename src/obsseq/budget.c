#include "obsseq/budget.h"

#include "budget/fitting.h"
#include "obsseq/layer_tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 16   /* columns whose products with one another are made, for those on the diagonal */
#define NIL 1e-14  /* of the largest entry: 0 */
#define LEAST 256  /* points for the lag */
#define THINNEST 7 /* one in so many is enough */

/* One point in so many, or a little fewer (psf_thin). */
static size_t thinning(size_t points) {
    const size_t most = points / LEAST;
    return most < THINNEST ? most : THINNEST;
}

size_t budget_points(size_t points) {
    const size_t step = (size_t)psf_thin_step(thinning(points));
    return (points + step - 1) / step;
}

bool budget_lags(const sys *s, const profile *p) {
    bool wind = false;
    for (int l = 0; l < p->nlayer; l++)
        wind = wind || (p->strength[l] > 0 && hypot(p->wind[0][l], p->wind[1][l]) > 0);
    return wind && (s->delay > 0 || budget_by_totals(s, p));
}

/* Rows of G whose columns are found together: products with fewer do not fill a device. */
static int64_t band_rows(int64_t rows) {
    return rows < 1024 ? 32 : 512;
}

/* Rows of G and one more, padded: leading dimension. */
static size_t shape_rows(size_t rows) {
    return (rows + 8) / 8 * 8;
}

size_t budget_bytes(const sys *s, size_t points, size_t rows, size_t width) {
    const size_t v = (size_t)sys_commands(s), few = budget_points(points) + 32;
    return (shape_rows(rows) * (v + width) + rows + few * (width + 2 * rows + 4) +
            2 * BLOCK * width) *
           sizeof(double);
}

/* Copies of sensors with frames in common, and their pairs. */
static int copies_of(const sys *s) {
    return s->loop.type != LOOP_OPEN && s->fit.split.copies > 1 ? s->fit.split.copies : 1;
}

static size_t count_shared(const sys *s) {
    const size_t n = (size_t)copies_of(s);
    return n * (n - 1) / 2 * 3 * (sys_slopes(s) / 2);
}

/* Of the pair of copies i < j: the numbers of its first. */
static size_t place_shared(const sys *s, int i, int j) {
    const int pair = j * (j - 1) / 2 + i;
    return (size_t)pair * 3 * (sys_slopes(s) / 2);
}

size_t budget_target_bytes(const sys *s, size_t points) {
    return (3 * (s->m / 2) + count_shared(s) + 1 + budget_points(points)) * sizeof(double);
}

/* --- life */

static status choose_points(const psf *ps, budget_term *b) {
    const double *x, *y;
    const size_t points = psf_points(ps, &x, &y);
    const status st = ALLOC(b->at, points, "points of the pupil");
    if (st == MOAO_OK)
        b->few.n = psf_thin(ps, thinning(points), b->at);
    return st;
}

/* Influence functions of this rank's actuators at the chosen points, less their means there. */
static void fill_weight(const team *t, const budget_term *b, double *strip, double *out) {
    const int64_t rows = t->nlrow;
    for (int m = 0; m < psf_mirrors(b->ps); m++) {
        int64_t i = 0;
        for (int j = 0; j < psf_lattice_rows(b->ps) && i < b->few.n; j++) {
            const psf_strip z = psf_influence(b->ps, j, m, strip);
            for (; i < b->few.n && b->at[i] < z.first + z.n; i++)
                for (int a = 0; a < z.nact; a++) {
                    const int row = z.act + a - t->row0;
                    if (row >= 0 && row < rows)
                        out[row + i * rows] = strip[(b->at[i] - z.first) * z.nact + a];
                }
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        double mean = 0;
        for (int64_t i = 0; i < b->few.n; i++)
            mean += out[row + i * rows] / (double)b->few.n;
        for (int64_t i = 0; i < b->few.n; i++)
            out[row + i * rows] -= mean;
    }
}

static status send_weight(tor *t, budget_term *b) {
    engine *e = &t->e;
    double *strip = NULL, *weight = NULL;
    const int64_t rows = t->t.nlrow;
    status st;
    TRY(ALLOC(strip, psf_influence_most(b->ps), "influence functions"));
    TRY(ALLOC(weight, (size_t)(rows * b->few.n), "influence functions"));
    fill_weight(&t->t, b, strip, weight);
    TRY(engine_copy(e, b->weight, weight, rows * b->few.n));
    st = engine_sync(e);
done:
    free(strip);
    free(weight);
    return st;
}

/* Means over the points of the influence functions, which G is without; of psf.residual: sensor 0.
 */
static status find_means(const psf *ps, double *mean) {
    const double *x, *y, np = (double)psf_points(ps, &x, &y);
    double *strip = NULL;
    const status st = ALLOC(strip, psf_influence_most(ps), "influence functions");
    for (int m = 0; m < psf_mirrors(ps); m++)
        for (int j = 0; st == MOAO_OK && j < psf_lattice_rows(ps); j++) {
            const psf_strip z = psf_influence(ps, j, m, strip);
            for (int i = 0; i < z.n; i++)
                for (int a = 0; a < z.nact; a++)
                    mean[z.act + a] += strip[i * z.nact + a] / np;
        }
    free(strip);
    return st;
}

/* Columns of each block of rows of G + mean mean' in which an entry is not 0: influence functions
 * are narrow. The last block has the means, too. */
static void find_bands(const double *shape, int64_t high, int64_t rows, int64_t v, int (*band)[2]) {
    const int64_t deep = band_rows(rows), blocks = rows / deep + 1;
    double most = 0;
    for (int64_t i = 0; i < v * high; i++)
        most = fmax(most, fabs(shape[i]));
    for (int64_t k = 0; k < blocks; k++)
        band[k][0] = band[k][1] = 0;
    for (int64_t j = 0; j < v; j++)
        for (int64_t i = 0; i < rows; i++)
            if (fabs(shape[i + j * high]) > NIL * most) {
                int *of = band[i / deep];
                of[0] = of[1] == 0 ? (int)j : of[0];
                of[1] = (int)j + 1;
            }
    for (int64_t k = 0; k < blocks; k++) { /* columns of W from multiples of 64 bytes on */
        band[k][0] = band[k][0] / 8 * 8;
        band[k][1] = band[k][1] < v - 7 ? (band[k][1] + 7) / 8 * 8 : (int)v;
    }
    band[blocks - 1][0] = 0, band[blocks - 1][1] = (int)v;
}

/* This rank's rows of G as the device takes them, on the host. */
static status form_shape(budget_term *b, const double *g) {
    const int64_t rows = b->of->nlrow, v = b->of->nrow, row0 = b->of->row0, high = b->high;
    status st;
    TRY(ALLOC(b->rows, (size_t)(high * v), "shapes of the mirror"));
    TRY(ALLOC(b->means, (size_t)v, "influence functions"));
    TRY(find_means(b->ps, b->means));
    for (int64_t j = 0; j < v; j++) {
        for (int64_t i = 0; i < rows; i++)
            b->rows[i + j * high] = g[row0 + i + j * v] + b->means[row0 + i] * b->means[j];
        b->rows[rows + j * high] = b->means[j];
    }
    find_bands(b->rows, high, rows, v, b->band);
done:
    return st;
}

static void drop_shape(budget_term *b) {
    background_drop(&b->forming);
    free(b->rows);
    free(b->means);
    b->rows = b->means = NULL;
}

static status send_shape(tor *t, budget_term *b) {
    engine *e = &t->e;
    status st;
    TRY(engine_copy(e, b->shape, b->rows, b->high * t->t.nrow));
    TRY(engine_copy(e, b->mean, b->means + t->t.row0, t->t.nlrow));
    st = engine_sync(e);
done:
    return st;
}

/* On a thread, from budget_open on: the mirror's shapes may not be there yet. */
static status form_own_shape(void *of) {
    budget_term *b = of;
    const status st = mirror_budget_shapes(b->mirror);
    return st != MOAO_OK ? st : form_shape(b, b->mirror->influence);
}

/* That of the mirror, unless it is on the device already. */
static status take_shape(tor *t, budget_term *b) {
    status st;
    if (b->shaped)
        return MOAO_OK;
    TRY(background_end(&b->forming));
    TRY(send_shape(t, b));
    b->shaped = true;
done:
    drop_shape(b);
    return st;
}

/* The same of mirrors as the k-th target sees them, where it matters. */
static status see_shape(tor *t, budget_term *b, int k) {
    const size_t v = (size_t)t->t.nrow;
    double *g = NULL, *mean = NULL;
    status st = MOAO_OK;
    if (!sys_is_aloft(t->e.s))
        return st;
    TRY(ALLOC(g, v * v, "shapes of the mirror"));
    TRY(ALLOC(mean, v, "shapes of the mirror"));
    psf_aim(b->ps, tor_direction(t, k));
    TRY(mirror_shapes(b->ps, (int)v, mean, g));
    TRY(form_shape(b, g));
    st = send_shape(t, b);
done:
    drop_shape(b);
    free(g);
    free(mean);
    return st;
}

/* The coordinates of the chosen points. */
static status send_points(tor *t, budget_term *b) {
    engine *e = &t->e;
    const double *x, *y;
    double *some = NULL;
    status st;
    TRY(ALLOC(some, 2 * (size_t)b->few.n, "points of the pupil"));
    psf_points(b->ps, &x, &y);
    for (int64_t i = 0; i < b->few.n; i++) {
        some[i] = x[b->at[i]];
        some[b->few.n + i] = y[b->at[i]];
    }
    TRY(engine_copy(e, b->few.x, some, b->few.n));
    TRY(engine_copy(e, b->few.y, some + b->few.n, b->few.n));
    st = engine_sync(e);
done:
    free(some);
    return st;
}

status budget_open(tor *t, psf *ps, mirror_budget *mirror, budget_term *b) {
    engine *e = &t->e;
    const int64_t rows = t->t.nlrow, v = t->t.nrow;
    const size_t m = t->e.s->m, most = (size_t)t->most;
    status st = MOAO_OK;
    *b = (budget_term){.mirror = mirror, .ps = ps, .of = &t->t};
    if (mirror == NULL)
        goto done;
    TRY(choose_points(ps, b));
    const int64_t n = b->few.n, dots = 2 * BLOCK * e->width;
    b->few.ld = n; /* few: products of that many columns take little */
    TRY(engine_doubles(e, n, "points of the pupil", &b->few.x));
    TRY(engine_doubles(e, n, "points of the pupil", &b->few.y));
    TRY(engine_doubles(e, n * e->width, "covariances of phase and slopes", &b->few.cpm));
    TRY(engine_doubles(e, n * rows, "W Cpm' of a target", &b->few.room));
    TRY(engine_doubles(e, n * rows, "influence functions", &b->weight));
    b->high = (int64_t)shape_rows((size_t)rows);
    TRY(ALLOC(b->band, (size_t)(rows / band_rows(rows) + 1), "shapes of the mirror"));
    TRY(engine_doubles(e, b->high * v, "shapes of the mirror", &b->shape));
    TRY(engine_doubles(e, rows, "influence functions", &b->mean));
    TRY(engine_doubles(e, b->high * e->width, "shapes of a panel of W", &b->product));
    TRY(engine_doubles(e, dots > n ? dots : n, "products of the error budget", &b->dots));
    TRY(engine_array(e, (size_t)n * sizeof(void *), "an error budget", (void **)&b->columns));
    TRY(e->be->alloc_host(e->ctx,
                          (size_t)(dots > PSF_SLOTS * n ? dots : PSF_SLOTS * n) * sizeof(double),
                          (void **)&b->ends));
    TRY(e->be->alloc_host(e->ctx, PSF_SLOTS * (size_t)n * sizeof(void *),
                          (void **)&b->column_hosts));
    if (t->op->product->leaves_share)
        TRY(e->be->alloc_host(e->ctx, most * (size_t)n * sizeof(double), (void **)&b->each));
    if (e->be == &backend_cpu)
        TRY(ALLOC(b->before, most * (size_t)n, "lags of the targets"));
    TRY(ALLOC(b->gains, most * 3 * (m / 2), "noise gains of the targets"));
    TRY(ALLOC(b->noise, 3 * (m / 2), "noise of the sensors"));
    if (count_shared(e->s) > 0)
        TRY(ALLOC(b->shared, most * count_shared(e->s), "noise gains of the targets"));
    if (t->t.group_size > 1)
        TRY(ALLOC(b->full, (size_t)(v * e->width), "rows of a group's target"));
    TRY(send_points(t, b));
    TRY(send_weight(t, b));
    b->shaped = sys_is_aloft(e->s); /* then each target has its own (see_shape) */
    if (!b->shaped)
        background_begin(&b->forming, 1, form_own_shape, b);
done:
    return st;
}

void budget_close(tor *t, budget_term *b) {
    const engine *e = &t->e;
    drop_shape(b);
    ENGINE_RELEASE(e, b->few.x, b->few.y, b->few.cpm, b->few.room, b->weight, b->shape, b->mean,
                   b->product, b->dots, b->columns);
    e->be->release_host(e->ctx, b->ends);
    e->be->release_host(e->ctx, b->each);
    e->be->release_host(e->ctx, b->column_hosts);
    free(b->at);
    free(b->band);
    free(b->before);
    free(b->full);
    free(b->gains);
    free(b->shared);
    free(b->noise);
    *b = (budget_term){0};
}

/* --- noise */

/* gain[3 i] += scale W(:, i)'(G W)(:, i) for n columns of this rank's rows of W and, in b->product,
 * of G W. */
static status add_gains(tor *t, budget_term *b, const double *w, int64_t ld, int64_t n,
                        double scale, double *gain) {
    engine *e = &t->e;
    const int64_t rows = t->t.nlrow, whole = n / BLOCK, rest = n % BLOCK;
    const double zero = 0;
    double *mine;
    status st = MOAO_OK;
    memcpy(&mine, &w, sizeof mine); /* batches are lists of what may be written */
    if (rows == 0)
        return st;
    for (int part = 0; part < 2 && st == MOAO_OK; part++) { /* whole blocks, then what is left */
        const int64_t count = part == 0 ? whole : 1, width = part == 0 ? BLOCK : rest,
                      from = part == 0 ? 0 : whole * BLOCK;
        if (count == 0 || width == 0)
            continue;
        st = e->be->batch->gemm(
            e->ctx, BACKEND_D, 'T', 'N', count, batch_size(width), batch_size(width),
            batch_size(rows), &scale, batch_strided(mine + from * ld, ld, BLOCK * ld),
            batch_strided(b->product + from * b->high, b->high, BLOCK * b->high), &zero,
            batch_strided(b->dots, width, BLOCK * BLOCK));
        if (st == MOAO_OK)
            st = engine_copy(e, b->ends, b->dots, count * width * (part == 0 ? BLOCK : width));
        if (st == MOAO_OK)
            st = engine_sync(e);
        for (int64_t i = 0; i < count * width && st == MOAO_OK; i++)
            gain[3 * (from + i)] += b->ends[i / width * BLOCK * BLOCK + i % width * (width + 1)];
    }
    return st;
}

/* b->product = G w, w: n columns of W. Collective in the group. */
static status shape_columns(tor *t, budget_term *b, const double *w, int64_t ld, int64_t n) {
    engine *e = &t->e;
    const int64_t rows = t->t.nlrow, v = t->t.nrow, high = b->high, deep = band_rows(rows);
    status st = MOAO_OK;
    if (t->t.group_size > 1) {
        TIMED_WAIT(e->rep, STAGE_EXPOSURE, team_rows(&t->t, (size_t)n, w, ld, b->full));
        w = b->full;
        ld = v;
    }
    for (int64_t i = 0; i <= rows && rows > 0; i += deep) { /* of the last one mean'w is a row */
        const int *of = b->band[i / deep];
        const int64_t some = rows + 1 - i < deep ? rows + 1 - i : deep, inner = of[1] - of[0];
        e->rep->flops[STAGE_EXPOSURE] += 2.0 * (double)(some * n) * (double)inner;
        TRY(engine_gemm(e, 'N', 'N', some, n, inner, 1.0, b->shape + i + of[0] * high, high,
                        w + of[0], ld, 0.0, b->product + i, high));
    }
    if (rows > 0)
        st = engine_gemm(e, 'N', 'N', rows, n, 1, -1.0, b->mean, rows, b->product + rows, high, 1.0,
                         b->product, high);
done:
    return st;
}

/* Twice those of n slopes of an axis, whose G W is b->product, from column j on, with those of both
 * axes of later copies of their sensor. */
static status copy_gains(tor *t, budget_term *b, int k, int axis, int64_t j, int64_t nsub,
                         int64_t n) {
    const sys *s = t->e.s;
    const int64_t slopes = (int64_t)sys_slopes(s);
    const int copy = (int)(j / slopes);
    double *const all = b->shared + (size_t)k * count_shared(s);
    status st = MOAO_OK;
    for (int later = copy + 1; later < copies_of(s); later++)
        for (int of = 0; of < 2; of++) {                    /* the later one's axis */
            const int64_t first = j % slopes - axis * nsub; /* x slope of the first subaperture */
            const double *w;
            int64_t ld;
            double *to;
            int sensor, an_axis, isub;
            sys_slope_at(s, (size_t)first, &sensor, &an_axis, &isub);
            to = all + place_shared(s, copy, later) +
                 3 * (s->sensors[sensor].first / 2 + (size_t)isub);
            TRY(tor_w_columns(t, t->op, k, later * slopes + first + of * nsub, &n, &w, &ld));
            TRY(add_gains(t, b, w, ld, n, 2.0, to + (of == axis ? axis : 2)));
        }
done:
    return st;
}

/* Gains of n slopes of an axis of the k-th target from column j on, `to` those of the first's
 * subaperture; of x slopes with those of y, too, which lie nsub columns on. */
static status panel_gains(tor *t, budget_term *b, int k, int axis, int64_t j, int64_t nsub,
                          int64_t n, double *to) {
    const double *w;
    int64_t ld;
    status st = tor_w_columns(t, t->op, k, j, &n, &w, &ld);
    if ((st = team_agree(&t->t, st)) != MOAO_OK)
        return st;
    st = shape_columns(t, b, w, ld, n);
    if (st == MOAO_OK)
        st = add_gains(t, b, w, ld, n, 1.0, to + axis);
    if (st == MOAO_OK && axis == 0)
        st = tor_w_columns(t, t->op, k, j + nsub, &n, &w, &ld);
    if (st == MOAO_OK && axis == 0)
        st = add_gains(t, b, w, ld, n, 2.0, to + 2);
    if (st == MOAO_OK && b->shared != NULL)
        st = copy_gains(t, b, k, axis, j, nsub, n);
    TIMED_WAIT(t->e.rep, STAGE_EXPOSURE, st = team_agree(&t->t, st));
    return st;
}

/* Gains of the k-th target. */
static status target_gains(tor *t, budget_term *b, int k) {
    const sys *s = t->e.s;
    const size_t all = 3 * (s->m / 2);
    double *gain = b->gains + (size_t)k * all, *shared = b->shared;
    status st = MOAO_OK;
    memset(gain, 0, all * sizeof *gain);
    if (shared != NULL)
        memset(shared += (size_t)k * count_shared(s), 0, count_shared(s) * sizeof *shared);
    for (int w = 0; w < s->nsensor; w++) {
        const int64_t first = (int64_t)s->sensors[w].first, nsub = s->sensors[w].nsub;
        double *to = gain + 3 * (first / 2);
        for (int axis = 0; axis < 2; axis++)
            for (int64_t i = 0, n; i < nsub; i += n) {
                n = engine_width(&t->e, i, nsub);
                TRY(panel_gains(t, b, k, axis, first + axis * nsub + i, nsub, n, to + 3 * i));
            }
    }
    if (t->t.group_size > 1)
        TIMED_WAIT(t->e.rep, STAGE_EXPOSURE,
                   MPI_Allreduce(MPI_IN_PLACE, gain, (int)all, MPI_DOUBLE, MPI_SUM, t->t.group));
    if (t->t.group_size > 1 && shared != NULL)
        TIMED_WAIT(t->e.rep, STAGE_EXPOSURE,
                   MPI_Allreduce(MPI_IN_PLACE, shared, (int)count_shared(s), MPI_DOUBLE, MPI_SUM,
                                 t->t.group));
done:
    return st;
}

/* --- lag */

/* The list of the columns of ct, on the device. */
static status send_columns(tor *t, budget_term *b, int slot, const double *ct) {
    const int64_t n = b->few.n, bytes = n * (int64_t)sizeof(void *);
    void **list = b->column_hosts + slot * n;
    for (int64_t i = 0; i < n; i++) {
        const double *column = ct + b->at[i] * t->t.nlrow;
        memcpy(&list[i], &column, sizeof column);
    }
    return t->e.be->copy(t->e.ctx, b->columns, bytes, list, bytes, bytes, 1);
}

/* Influence functions as the k-th target sees them, and W Cpm' of it at the chosen points, under
 * the conditions loaded. */
static status phase_at_points(tor *t, budget_term *b, linop *op, int k, bool shifted) {
    engine *e = &t->e;
    status st = MOAO_OK;
    if (sys_is_aloft(e->s)) {
        psf_aim(b->ps, tor_direction(t, k));
        st = send_weight(t, b);
        TRY(team_agree(&t->t, st));
    }
    if (b->few.layers != NULL)
        return layer_tables_look_up(b->few.layers, tor_direction(t, k), !shifted, b->few.n, b->at,
                                    b->few.room);
    TRY(e->mat->aim(tor_target(t, k), tor_direction(t, k), shifted));
    for (int64_t j = 0, n; j < e->m; j += n) {
        n = engine_width(e, j, e->m);
        TRY(phase_columns(t, &b->few, op, false, k, j, n));
    }
    st = phase_end(t, &b->few, op, k);
done:
    return st;
}

/* b->dots[i] = alpha weight(:, i)'of(:, i) + beta b->dots[i] for the chosen points. */
static status weigh(tor *t, budget_term *b, double alpha, batch_mat of, double beta) {
    const batch_dim each = batch_size(1);
    const int64_t rows = t->t.nlrow;
    return t->e.be->batch->gemm(t->e.ctx, BACKEND_D, 'T', 'N', b->few.n, each, each,
                                batch_size(rows), &alpha, batch_strided(b->weight, rows, rows), of,
                                &beta, batch_strided(b->dots, 1, 1));
}

/* The lags of all targets of an operator that leaves a share of Cpm out. */
static status all_lags(tor *t, budget_term *b, linop *op, const profile *p) {
    const int64_t rows = t->t.nlrow, n = b->few.n;
    status st;
    report_phase("exposure: lag");
    TRY(linop_load_lag(op, p));
    for (int k = 0; k < t->ch.nmine && rows > 0; k++) {
        TRY(phase_at_points(t, b, op, k, true));
        TRY(weigh(t, b, -1, batch_strided(b->few.room, rows, rows), 0));
        TRY(engine_flip(&t->e, "flip-lag", b->dots));
        TRY(engine_copy(&t->e, b->each + k * n, b->dots, n));
    }
done:
    return st;
}

status budget_lag(tor *t, budget_term *b, linop *op, int k, const double *ct, bool scaled) {
    engine *e = &t->e;
    const int64_t rows = t->t.nlrow, n = b->few.n;
    const int slot = k % PSF_SLOTS;
    double *ends = b->ends + slot * n;
    status st;
    if (b->mirror == NULL || !b->lags || b->all_at_once)
        return MOAO_OK;
    if (scaled) {
        memcpy(ends, b->before + k * n, (size_t)n * sizeof *ends);
        return MOAO_OK;
    }
    report_phase("exposure: lag");
    memset(ends, 0, (size_t)n * sizeof *ends);
    TRY(phase_at_points(t, b, op, k, false));
    if (rows > 0) {
        TRY(send_columns(t, b, slot, ct));
        TRY(weigh(t, b, -1, batch_pointers(b->columns, rows), 0));
        TRY(weigh(t, b, 1, batch_strided(b->few.room, rows, rows), 1));
        TRY(engine_copy(e, ends, b->dots, n));
    }
    if (t->t.group_size > 1) { /* host memory */
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += ends[i];
        TIMED_WAIT(e->rep, STAGE_EXPOSURE,
                   MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, t->t.group));
        memset(ends, 0, (size_t)n * sizeof *ends);
        ends[0] = sum;
    }
    if (b->before != NULL)
        memcpy(b->before + k * n, ends, (size_t)n * sizeof *ends);
done:
    return st;
}

void budget_scale_lags(const tor *t, budget_term *b, double s) {
    for (int64_t i = 0; b->before != NULL && i < t->ch.nmine * b->few.n; i++)
        b->before[i] *= s;
}

static bool by_points(const budget_term *b, const sys *s, const profile *p) {
    return b->mirror != NULL && b->few.n > 0 && !budget_by_totals(s, p) && budget_lags(s, p);
}

bool budget_at_once(const budget_term *b, const linop *op, const sys *s, const profile *p) {
    return op->product->leaves_share && by_points(b, s, p);
}

status budget_prepare(tor *t, budget_term *b, linop *op, const profile *p, const double *noise) {
    const sys *s = t->e.s;
    const size_t all = 3 * (s->m / 2);
    status st = MOAO_OK;
    if (b->mirror == NULL)
        return st;
    if (b->solved != t->solved) {
        report_phase("exposure: noise gains");
        const bool each = sys_is_aloft(s);
        TRY(team_agree(&t->t, take_shape(t, b)));
        for (int k = 0; k < (each ? t->ch.nmine : tor_distinct(t, t->ch.nmine)); k++) {
            TRY(team_agree(&t->t, see_shape(t, b, k)));
            TRY(target_gains(t, b, k));
        }
        for (int k = 1; k < t->ch.nmine && t->shared && !each; k++)
            memcpy(b->gains + (size_t)k * all, b->gains, all * sizeof *b->gains);
        b->solved = t->solved;
    }
    b->prof = p;
    b->lags = by_points(b, s, p);
    b->all_at_once = budget_at_once(b, op, s, p);
    memcpy(b->noise, noise, all * sizeof *b->noise);
    if (b->all_at_once)
        st = all_lags(t, b, op, p);
done:
    return st;
}

/* --- results */

/* What frames that copies of star w have in common add to its noise. */
static double shared_noise(const sys *s, const budget_term *b, int k, int w) {
    const sensor *o = &s->sensors[w];
    double sum = 0;
    for (int j = 1; j < copies_of(s); j++)
        for (int i = 0; i < j; i++) {
            const loop_filter *f = profile_loop(b->prof, o->loop),
                              *of[] = {
                                  profile_loop(b->prof, s->sensors[w + i * sys_stars(s)].loop),
                                  profile_loop(b->prof, s->sensors[w + j * sys_stars(s)].loop)};
            const double share = loop_shared_noise(of[0], of[1]) / f->noise;
            const double *gain = b->shared + (size_t)k * count_shared(s) + place_shared(s, i, j);
            for (size_t at = 3 * (o->first / 2); at < 3 * (o->first / 2 + (size_t)o->nsub); at++)
                sum += share * gain[at] * b->noise[at];
        }
    return sum;
}

void budget_fill(const tor *t, const budget_term *b, int k, double total, double *out) {
    const sys *s = t->e.s;
    const double *gain = b->gains + (size_t)k * 3 * (s->m / 2),
                 *ends =
                     b->all_at_once ? b->each + k * b->few.n : b->ends + k % PSF_SLOTS * b->few.n;
    const int stars = sys_stars(s);
    double lag = 0, noise = 0;
    for (int w = 0; w < s->nsensor; w++) {
        const sensor *o = &s->sensors[w];
        double sum = 0;
        for (size_t i = 3 * (o->first / 2); i < 3 * (o->first / 2 + (size_t)o->nsub); i++)
            sum += gain[i] * b->noise[i];
        if (b->shared != NULL && w < stars)
            sum += shared_noise(s, b, k, w);
        /* of a star whose sensor counts with several delays: of all */
        out[BUDGET_TERMS + w % stars] = sum + (w < stars ? 0 : out[BUDGET_TERMS + w % stars]);
        noise += sum;
    }
    for (int64_t i = 0; b->lags && i < b->few.n; i++)
        lag += 2 * ends[i] / (double)b->few.n;
    if (b->still != NULL)
        lag = total - b->still[k];
    out[BUDGET_TOTAL] = total;
    out[BUDGET_NOISE] = noise;
    out[BUDGET_LAG] = lag;
    psf_errors_variance(b->ps, &out[BUDGET_JITTER], &out[BUDGET_STATIC], &out[BUDGET_SODIUM]);
}

void budget_complete(const tor *t, const budget_term *b, int k, double *out) {
    double rest = out[BUDGET_TOTAL];
    mirror_budget_of(b->mirror, b->prof, t->ch.mine + k, &out[BUDGET_FITTING],
                     &out[BUDGET_ALIASING], &out[BUDGET_GENERALISED]);
    for (int i = BUDGET_NOISE; i < BUDGET_TERMS; i++)
        rest -= out[i];
    out[BUDGET_TOMOGRAPHY] = rest;
}
