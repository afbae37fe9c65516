#include "factor/tlr_cmm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t tlr_cmm_tile(int64_t m, int asked) {
    return asked > 0 ? asked : m >= 20000 ? 256 : m >= 5000 ? 128 : 64;
}

int64_t tlr_cmm_width(int64_t tile) {
    return tile >= 256 ? 8 * tile : 2 * tile;
}

int64_t tlr_cmm_widest(const sys *s) {
    int64_t most = 0;
    for (int w = 0; w < s->nsensor; w++)
        most = 2 * s->sensors[w].nsub > most ? 2 * s->sensors[w].nsub : most;
    return most;
}

status tlr_cmm_layout(const sys *s, int64_t tile, tlr_layout *order, int64_t **first) {
    const int64_t points = (int64_t)s->m / 2;
    double *x = NULL, *y = NULL;
    int64_t *start = NULL, at = 0;
    status st;
    *first = NULL;
    TRY(ALLOC(x, (size_t)points, "places of subapertures"));
    TRY(ALLOC(y, (size_t)points, "places of subapertures"));
    TRY(ALLOC(start, (size_t)s->nsensor + 1, "subapertures of sensors"));
    TRY(ALLOC(*first, (size_t)s->nsensor + 1, "measurements of sensors"));
    for (int w = 0; w < s->nsensor; w++) {
        for (int k = 0; k < s->sensors[w].nsub; k++, at++) {
            x[at] = s->sensors[w].sub[k] % s->sensors[w].nssp;
            y[at] = s->sensors[w].sub[k] / s->sensors[w].nssp;
        }
        start[w + 1] = at;
        (*first)[w + 1] = 2 * at;
    }
    TRY(tlr_layout_points(&(tlr_points){s->nsensor, start, x, y, 2}, tile, TLR_KD, order));
done:
    free(x), free(y), free(start);
    return st;
}

static int sensor_of(const int64_t *first, int64_t i) {
    int w = 0;
    while (first[w + 1] <= i)
        w++;
    return w;
}

/* The three lists of indices, made on the host. */
static status send_lists(tlr_cmm *c) {
    engine *e = c->e;
    const int64_t m = e->m, bytes = m * (int64_t)sizeof(int64_t);
    int64_t *const to[] = {c->perm, c->place, c->back}, *list = NULL;
    status st;
    TRY(ALLOC(list, (size_t)(3 * m), "order of measurements"));
    for (int64_t i = 0; i < m; i++) {
        const int64_t at = c->order.perm[i];
        list[i] = at;
        list[m + i] = at - c->first[sensor_of(c->first, at)];
        list[2 * m + at] = i;
    }
    for (int k = 0; k < 3; k++)
        TRY(e->be->copy(e->ctx, to[k], bytes, list + k * m, bytes, bytes, 1));
    TRY(engine_sync(e));
done:
    free(list);
    return st;
}

status tlr_cmm_open(engine *e, int64_t tile, tlr_cmm *c) {
    const size_t bytes = (size_t)e->m * sizeof(int64_t);
    status st;
    *c = (tlr_cmm){.e = e, .held = -1};
    TRY(tlr_cmm_layout(e->s, tile, &c->order, &c->first));
    TRY(ALLOC(c->there, (size_t)e->s->nsensor, "sensors"));
    TRY(engine_array(e, bytes, "order of measurements", (void **)&c->perm));
    TRY(engine_array(e, bytes, "order of measurements", (void **)&c->place));
    TRY(engine_array(e, bytes, "order of measurements", (void **)&c->back));
    st = send_lists(c);
done:
    return st;
}

void tlr_cmm_close(tlr_cmm *c) {
    if (c->e == NULL)
        return;
    c->e->be->release(c->e->ctx, c->perm);
    c->e->be->release(c->e->ctx, c->place);
    c->e->be->release(c->e->ctx, c->back);
    tlr_layout_free(&c->order);
    free(c->first), free(c->there);
    *c = (tlr_cmm){0};
}

int tlr_cmm_sensor(const tlr_cmm *c, int64_t t) {
    const int64_t *at = c->order.perm, *first = c->order.first;
    return sensor_of(c->first, at[first[t]]);
}

/* Rows i .. i + ni of sensor w's columns into the strip. */
static status fill_rows(tlr_cmm *c, int w, int64_t i, int64_t ni) {
    const engine *e = c->e;
    const int64_t j = c->first[w], nj = c->first[w + 1] - j;
    return e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){i, ni, j, nj},
                            c->strip + i, e->m);
}

bool tlr_cmm_own_rows(const tlr_cmm *c) {
    return c->e->be->group != NULL;
}

/* Sensor w's columns in the rows of sensors r0 .. r1, which ranks send each other sensor by sensor.
 */
static status fill_together(tlr_cmm *c, int w, int r0, int r1) {
    device_group *g = &c->group->group;
    const int64_t *first = c->first;
    status st = MOAO_OK;
    for (int r = r0; st == MOAO_OK && r < r1; r++)
        if (r % g->size == g->rank)
            st = fill_rows(c, w, first[r], first[r + 1] - first[r]);
    st = tlr_group_agree(c->group, st);
    for (int r = r0; st == MOAO_OK && r < r1; r++)
        st = group_bcast(g, first[r + 1] - first[r], first[w + 1] - first[w], c->strip + first[r],
                         c->e->m, r % g->size);
    return st;
}

/* Sensor w's columns, in the rows of sensors r0 .. r1, into the strip. */
static status fill_strip(tlr_cmm *c, int w, int r0, int r1) {
    if (c->group != NULL && c->group->group.size > 1 && !tlr_cmm_own_rows(c))
        return fill_together(c, w, r0, r1);
    return fill_rows(c, w, c->first[r0], c->first[r1] - c->first[r0]);
}

/* Columns of sensor w, in the rows of sensors r0 .. r1: those that are not there. */
static status hold(tlr_cmm *c, int w, int r0, int r1) {
    status st = MOAO_OK;
    if (c->held != w)
        memset(c->there, 0, (size_t)c->e->s->nsensor * sizeof *c->there);
    c->held = w;
    for (int r = r0, end; st == MOAO_OK && r < r1; r = end) {
        for (end = r + 1; end < r1 && c->there[end] == c->there[r];)
            end++;
        if (!c->there[r])
            st = fill_strip(c, w, r, end);
        memset(c->there + r, st == MOAO_OK, (size_t)(end - r) * sizeof *c->there);
    }
    return st;
}

/* Tiles do not span sensors, so a sensor has the same place in both orders, and its columns are
 * computed once for all block columns in it. */
static status fill_by_sensor(tlr_cmm *c, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                             int64_t lda) {
    const engine *e = c->e;
    const int r0 = sensor_of(c->first, i0), r1 = sensor_of(c->first, i0 + ni - 1) + 1;
    status st = MOAO_OK;
    for (int64_t j = j0, end; j < j0 + nj; j = end) {
        const int w = sensor_of(c->first, j);
        end = c->first[w + 1] < j0 + nj ? c->first[w + 1] : j0 + nj;
        TRY(hold(c, w, r0, r1));
        TRY(e->be->gather(e->ctx, BACKEND_D, ni, end - j, c->perm + i0, c->place + j, c->strip,
                          e->m, 0, a + (j - j0) * lda, lda));
    }
done:
    return st;
}

status tlr_cmm_fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                    int64_t lda) {
    tlr_cmm *c = arg;
    status st = fill_by_sensor(c, i0, ni, j0, nj, a, lda);
    if (st == MOAO_OK && i0 == 0 && j0 == 0 && comm_flips(c->e->c, "tlr-pivot")) {
        const double negative = -1; /* the last pivot of the first block column */
        TRY(engine_copy(c->e, a + (nj - 1) * (lda + 1), &negative, 1));
        st = engine_sync(c->e);
    }
    if (st == MOAO_OK && comm_flips(c->e->c, "tlr-memory"))
        st = status_fail(MOAO_MEMORY, "a test takes the memory away");
done:
    return st;
}

status tlr_cmm_noise(matcov *mc, int64_t m, double *least) {
    matcov_model model = {0};
    status st = matcov_model_init(mc, &model);
    *least = INFINITY;
    for (int64_t k = 0; st == MOAO_OK && k < m / 2; k++) {
        const double xx = model.noise[3 * k], yy = model.noise[3 * k + 1],
                     xy = model.noise[3 * k + 2];
        *least = fmin(*least, (xx + yy) / 2 - hypot((xx - yy) / 2, xy));
    }
    matcov_model_free(&model);
    return st;
}
