#include "operator/unlike.h"

#include "backend/backend_lowrank.h"
#include "operator/tlr_cmm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define U_EXPONENT 14 /* numbers of U are at most 1 */
#define Z_EXPONENT                                                                                 \
    -19 /* of W U, whose numbers are below 2^15 2^14 times the root of a tile's order */
#define MOST_WORK ((size_t)8 << 30) /* of the compression */

static int64_t extent(const tlr_layout *l, int64_t tile) {
    return l->first[tile + 1] - l->first[tile];
}

/* --- tiles */

static status send(engine *e, const int64_t *list, int64_t n, int64_t **to) {
    const int64_t bytes = n * (int64_t)sizeof *list;
    status st;
    TRY(engine_array(e, (size_t)bytes + 1, "order of measurements", (void **)to));
    TRY(e->be->copy(e->ctx, *to, bytes, list, bytes, bytes, 1));
    st = engine_sync(e);
done:
    return st;
}

static status send_lists(unlike *u) {
    engine *e = u->e;
    const int64_t m = e->m;
    int64_t *list = NULL;
    status st;
    TRY(ALLOC(list, 3 * (size_t)m, "order of measurements"));
    for (int w = 0; w < e->s->nsensor; w++)
        for (int64_t i = u->first[w]; i < u->first[w + 1]; i++) {
            const int64_t at = u->order.perm[i];
            list[i] = at - u->first[w];
            list[m + at] = i;
            list[2 * m + at] = i - u->first[w];
        }
    TRY(send(e, list, m, &u->place));
    TRY(send(e, list + m, m, &u->at));
    st = send(e, list + 2 * m, m, &u->back);
done:
    free(list);
    return st;
}

static int sensor_of(const unlike *u, int64_t tile) {
    int w = 0;
    while (u->first[w + 1] <= u->order.first[tile])
        w++;
    return w;
}

static status make_block(unlike *u, const alike *a, int w, unlike_block *b) {
    const tlr_layout *l = &u->order;
    status st;
    *b = (unlike_block){.sensor = w, .out = -1};
    TRY(ALLOC(b->in, (size_t)l->nt, "tiles of unlike sensors"));
    for (int64_t t = 0; t < l->nt; t++) {
        const int sensor = sensor_of(u, t);
        if (sensor == w && b->nout++ == 0)
            b->out = t;
        if (a->of[sensor] > a->of[w]) {
            b->in[b->nin++] = t;
            b->rows += extent(l, t);
        }
    }
    TRY(ALLOC(b->ucol, (size_t)b->nin + 1, "tiles of unlike sensors"));
    st = ALLOC(b->vcol, (size_t)b->nout + 1, "tiles of unlike sensors");
done:
    return st;
}

status unlike_open(engine *e, const alike *a, int64_t tile, unlike *u) {
    status st;
    *u = (unlike){.e = e};
    TRY(tlr_cmm_layout(e->s, tile, &u->order, &u->first));
    for (int64_t t = 0; t < u->order.nt; t++)
        u->step = extent(&u->order, t) > u->step ? extent(&u->order, t) : u->step;
    u->step = (u->step + 7) / 8 * 8;
    u->most = 5 * u->step / 8 < BATCH_SVD_MAX ? 5 * u->step / 8 : BATCH_SVD_MAX;
    TRY(send_lists(u));
    TRY(ALLOC(u->block, (size_t)e->s->nsensor, "tiles of unlike sensors"));
    for (int w = 0; w < e->s->nsensor; w++) {
        TRY(make_block(u, a, w, &u->block[u->nblock++]));
        if (u->block[u->nblock - 1].nin == 0) {
            free(u->block[--u->nblock].in);
            free(u->block[u->nblock].ucol), free(u->block[u->nblock].vcol);
        }
    }
done:
    return st;
}

static void drop_values(unlike *u, unlike_block *b) {
    ENGINE_RELEASE(u->e, b->u, b->v, b->to);
    b->u = b->v = NULL, b->to = NULL;
}

void unlike_close(unlike *u) {
    if (u->e == NULL)
        return;
    for (int k = 0; k < u->nblock; k++) {
        drop_values(u, &u->block[k]);
        free(u->block[k].in), free(u->block[k].ucol), free(u->block[k].vcol);
    }
    ENGINE_RELEASE(u->e, u->place, u->at, u->back, u->work);
    tlr_layout_free(&u->order);
    free(u->first), free(u->block);
    *u = (unlike){0};
}

/* --- compression */

typedef struct {   /* tiles of a block while they are made */
    int64_t count; /* nin x nout, by rows of tiles */
    float *strip;  /* rows x columns of the sensor, in the order of tiles, */
    int64_t ld;    /* with this leading dimension */
    float *u, *v;  /* step x most each */
    void *lists;   /* on the device: addresses, sizes, tolerances, ranks, info */
    char *host;
    size_t bytes;
} making;

/* Where the lists of n tiles begin. */
enum { ADDRESS, ROWS, COLUMNS, TOLERANCE, RANK, INFO };
static size_t list_at(int64_t n, int which) {
    return (size_t)(8 * n * which);
}

/* Entries, in the order of tiles; `raw`: of one pair of sensors. */
static status fill_strip(const unlike *u, const unlike_block *b, float *raw, const making *k) {
    const engine *e = u->e;
    const int64_t j0 = u->first[b->sensor], n = u->first[b->sensor + 1] - j0;
    status st = MOAO_OK;
    for (int64_t i = 0, row = 0; i < b->nin; i++) { /* once for each sensor, at its first tile */
        const int w = sensor_of(u, b->in[i]);
        const int64_t i0 = u->first[w], m = u->first[w + 1] - i0;
        if (u->order.first[b->in[i]] != i0)
            continue;
        TRY(e->mat->fill_cmm(e->cov, BACKEND_S, 'A', 0, i0, m, j0, n, raw, m));
        TRY(e->be->gather(e->ctx, BACKEND_S, m, n, u->place + i0, u->place + j0, raw, m, 0,
                          k->strip + row, k->ld));
        row += m;
    }
done:
    return st;
}

static void list_tiles(const unlike *u, const unlike_block *b, double rms, const making *k) {
    const tlr_layout *l = &u->order;
    int64_t t = 0, row = 0;
    for (int64_t i = 0; i < b->nin; row += extent(l, b->in[i]), i++)
        for (int64_t j = 0; j < b->nout; j++, t++) {
            const int64_t m = extent(l, b->in[i]), n = extent(l, b->out + j);
            const int64_t column = l->first[b->out + j] - u->first[b->sensor];
            ((const float **)(void *)(k->host + list_at(k->count, ADDRESS)))[t] =
                k->strip + row + column * k->ld;
            ((int64_t *)(void *)(k->host + list_at(k->count, ROWS)))[t] = m;
            ((int64_t *)(void *)(k->host + list_at(k->count, COLUMNS)))[t] = n;
            ((double *)(void *)(k->host + list_at(k->count, TOLERANCE)))[t] =
                rms * sqrt((double)m * (double)n);
        }
}

/* Ranks of all tiles to the host, of dense ones the number of columns. Waits. */
static status compress(unlike *u, const unlike_block *b, double rms, making *k) {
    engine *e = u->e;
    const backend_lowrank *low = e->be->lowrank;
    const int64_t n = k->count, sent = (int64_t)list_at(n, RANK), got = (int64_t)k->bytes - sent;
    char *dev = k->lists;
    const batch_cut cut = {.tol_each = (double *)(void *)(dev + list_at(n, TOLERANCE)),
                           .kind = 'A',
                           .norm = 'F',
                           .most = u->most,
                           .or_nothing = true};
    const batch_dim rows = {u->step, (int64_t *)(void *)(dev + list_at(n, ROWS))},
                    columns = {u->step, (int64_t *)(void *)(dev + list_at(n, COLUMNS))};
    const int64_t stride = u->step * u->most;
    int64_t *rank = (int64_t *)(void *)(k->host + list_at(n, RANK));
    const int *info = (int *)(void *)(k->host + list_at(n, INFO));
    size_t work = low->workspace(BATCH_ARA, BACKEND_S, n, u->step, u->step, u->most);
    status st;
    list_tiles(u, b, rms, k);
    if (work > MOST_WORK) {
        work = low->workspace(BATCH_ARA, BACKEND_S, 1, u->step, u->step, u->most);
        work = work > MOST_WORK ? work : MOST_WORK;
    }
    TRY(engine_work(e, work));
    TRY(e->be->copy(e->ctx, dev, sent, k->host, sent, sent, 1));
    TRY(low->ara(e->ctx, BACKEND_S, 'L', &cut, 1, n, rows, columns,
                 batch_pointers((void *const *)(void *)(dev + list_at(n, ADDRESS)), k->ld),
                 batch_strided(k->u, u->step, stride), batch_strided(k->v, u->step, stride),
                 (int64_t *)(void *)(dev + list_at(n, RANK)),
                 (int *)(void *)(dev + list_at(n, INFO)), e->work, e->lwork));
    TRY(e->be->copy(e->ctx, k->host + sent, got, dev + sent, got, got, 1));
    TRY(engine_sync(e));
    for (int64_t t = 0; t < n; t++) {
        if (info[t] > 0)
            TRY(status_fail(MOAO_NUMERIC, "a covariance of two sensors is not finite"));
        if (info[t] != 0) {
            rank[t] = extent(&u->order, b->out + t % b->nout);
            u->dense++;
        }
        u->ranks += rank[t];
    }
    u->tiles += n;
done:
    return st;
}

/* Columns before each tile's, and where those of U are in V. */
static status count_columns(unlike *u, unlike_block *b, const int64_t *rank, int64_t *to) {
    int64_t column = 0;
    for (int64_t i = 0; i < b->nin; i++) {
        b->ucol[i] = column;
        for (int64_t j = 0; j < b->nout; j++)
            column += rank[i * b->nout + j];
    }
    b->ucol[b->nin] = column;
    column = 0;
    for (int64_t j = 0; j < b->nout; j++) {
        b->vcol[j] = column;
        for (int64_t i = 0; i < b->nin; i++)
            column += rank[i * b->nout + j];
    }
    b->vcol[b->nout] = column;
    for (int64_t i = 0, at = 0; i < b->nin; i++)
        for (int64_t j = 0; j < b->nout; j++) {
            int64_t before = b->vcol[j];
            for (int64_t o = 0; o < i; o++)
                before += rank[o * b->nout + j];
            for (int64_t r = 0; r < rank[i * b->nout + j]; r++)
                to[at++] = before + r;
        }
    return send(u->e, to, column, &b->to);
}

/* The identity, times the scale that a dense tile's U lacks. */
static status send_identity(const unlike *u, double scale, float *to) {
    engine *e = u->e;
    const int64_t n = u->step, bytes = n * n * (int64_t)sizeof(float);
    float *host = NULL;
    status st;
    TRY(ALLOC(host, (size_t)(n * n), "tiles of unlike sensors"));
    for (int64_t i = 0; i < n; i++)
        host[i * (n + 1)] = (float)scale;
    TRY(e->be->copy(e->ctx, to, bytes, host, bytes, bytes, 1));
    st = engine_sync(e);
done:
    free(host);
    return st;
}

/* U and V in halves. A dense tile is U itself, 2^-shift of it, and V the identity. */
static status settle(unlike *u, unlike_block *b, const making *k, const int64_t *to, int shift,
                     const float *one) {
    const engine *e = u->e;
    const backend_half *h = e->be->half;
    const tlr_layout *l = &u->order;
    const int64_t n = k->count, stride = u->step * u->most;
    const int64_t *rank = (int64_t *)(void *)(k->host + list_at(n, RANK));
    const int *info = (int *)(void *)(k->host + list_at(n, INFO));
    status st = MOAO_OK;
    for (int64_t t = 0, at = 0; t < n; at += rank[t], t++) {
        const int64_t rows = extent(l, b->in[t / b->nout]),
                      columns = extent(l, b->out + t % b->nout);
        const bool dense = info[t] != 0;
        const float *from =
            dense ? ((float **)(void *)(k->host + list_at(n, ADDRESS)))[t] : k->u + t * stride;
        if (rank[t] == 0)
            continue;
        TRY(h->cast_to_half(e->ctx, BACKEND_S, rows, rank[t], U_EXPONENT - (dense ? shift : 0),
                            from, dense ? k->ld : u->step, b->u + at * u->step, u->step));
        TRY(h->cast_to_half(e->ctx, BACKEND_S, columns, rank[t], u->exponent,
                            dense ? one : k->v + t * stride, u->step, b->v + to[at] * u->step,
                            u->step));
    }
done:
    return st;
}

static status load_block(unlike *u, unlike_block *b, double rms, int shift) {
    engine *e = u->e;
    const int64_t columns = u->first[b->sensor + 1] - u->first[b->sensor];
    const int64_t numbers = u->step * u->most;
    making k = {.count = b->nin * b->nout, .ld = b->rows > u->step ? b->rows : u->step};
    float *raw = NULL, *one = NULL;
    int64_t *to = NULL, all = 0;
    status st;
    k.bytes = list_at(k.count, INFO + 1);
    drop_values(u, b);
    TRY(mem_alloc((void **)&k.host, k.bytes + 1, 1, "tiles of unlike sensors"));
    TRY(engine_array(e, k.bytes + 1, "tiles", &k.lists));
    TRY(engine_array(e, (size_t)(k.ld * columns) * sizeof(float), "tiles", (void **)&k.strip));
    TRY(engine_array(e, (size_t)(tlr_cmm_widest(e->s) * columns) * sizeof(float), "tiles",
                     (void **)&raw));
    TRY(engine_array(e, (size_t)(k.count * numbers) * sizeof(float), "tiles", (void **)&k.u));
    TRY(engine_array(e, (size_t)(k.count * numbers) * sizeof(float), "tiles", (void **)&k.v));
    TRY(engine_array(e, (size_t)(u->step * u->step) * sizeof(float), "tiles", (void **)&one));
    TRY(send_identity(u, ldexp(1, shift), one));
    TRY(fill_strip(u, b, raw, &k));
    TRY(compress(u, b, rms, &k));
    const int64_t *rank = (int64_t *)(void *)(k.host + list_at(k.count, RANK));
    for (int64_t t = 0; t < k.count; t++)
        all += rank[t];
    TRY(ALLOC(to, (size_t)all, "tiles of unlike sensors"));
    TRY(count_columns(u, b, rank, to));
    TRY(engine_array(e, (size_t)(all * u->step) * sizeof *b->u, "tiles", (void **)&b->u));
    TRY(engine_array(e, (size_t)(all * u->step) * sizeof *b->v, "tiles", (void **)&b->v));
    TRY(settle(u, b, &k, to, shift, one));
    st = engine_sync(e); /* before what it reads goes */
done:
    ENGINE_RELEASE(e, k.lists, k.strip, raw, k.u, k.v, one);
    free(k.host), free(to);
    return st;
}

status unlike_load(unlike *u, double rms, double bound) {
    int shift;
    status st = MOAO_OK;
    if (u->e->be->lowrank == NULL || u->e->be->half == NULL)
        return status_fail(MOAO_INPUT, "the %s backend has no tiles of low rank in halves",
                           u->e->be->name);
    (void)frexp(32 * bound, &shift); /* so that W times a dense tile is as small as W U */
    u->exponent = backend_half_exponent(32 * bound * sqrt((double)u->step));
    u->tiles = u->dense = u->ranks = 0;
    for (int k = 0; k < u->nblock && st == MOAO_OK; k++)
        st = load_block(u, &u->block[k], rms, shift);
    return st;
}

/* --- products */

typedef struct { /* parts of the work */
    backend_f16 *x, *z;
    float *wide, *y;
} parts;

static status take_work(unlike *u, int64_t nvec, parts *p) {
    engine *e = u->e;
    int64_t z = 0, wide = 0, y = 0;
    for (int k = 0; k < u->nblock; k++) {
        const unlike_block *b = &u->block[k];
        const int64_t n = u->first[b->sensor + 1] - u->first[b->sensor];
        z = b->ucol[b->nin] > z ? b->ucol[b->nin] : z;
        y = n > y ? n : y;
        for (int64_t i = 0; i < b->nin; i++)
            wide = b->ucol[i + 1] - b->ucol[i] > wide ? b->ucol[i + 1] - b->ucol[i] : wide;
    }
    const int64_t size[] = {2 * nvec * e->m, 2 * nvec * z, 4 * nvec * wide, 4 * nvec * y};
    size_t at[5] = {0};
    for (int i = 0; i < 4; i++)
        at[i + 1] = at[i] + ((size_t)size[i] + 255) / 256 * 256;
    if (at[4] > u->lwork) {
        ENGINE_RELEASE(e, u->work);
        u->work = NULL, u->lwork = 0;
        const status st = engine_array(e, at[4], "products with tiles", &u->work);
        if (st != MOAO_OK)
            return st;
        u->lwork = at[4];
    }
    char *work = u->work;
    *p = (parts){(backend_f16 *)(void *)work, (backend_f16 *)(void *)(work + at[1]),
                 (float *)(void *)(work + at[2]), (float *)(void *)(work + at[3])};
    return MOAO_OK;
}

static status apply_block(const unlike *u, const unlike_block *b, const parts *p, int64_t nvec,
                          double alpha, float *y, int64_t ldy) {
    const engine *e = u->e;
    const backend_half *h = e->be->half;
    const tlr_layout *l = &u->order;
    const int64_t j0 = u->first[b->sensor], n = u->first[b->sensor + 1] - j0;
    status st = MOAO_OK;
    for (int64_t i = 0; i < b->nin; i++) {
        const int64_t columns = b->ucol[i + 1] - b->ucol[i], rows = extent(l, b->in[i]);
        if (columns == 0)
            continue;
        TRY(h->gemm(e->ctx, 'N', 'N', nvec, columns, rows, 1, p->x + l->first[b->in[i]] * nvec,
                    nvec, b->u + b->ucol[i] * u->step, u->step, 0, p->wide, nvec));
        TRY(h->columns(e->ctx, false, nvec, columns, Z_EXPONENT, p->wide, nvec, b->to + b->ucol[i],
                       p->z, nvec));
    }
    for (int64_t j = 0; j < b->nout; j++) {
        const int64_t at = b->vcol[j], rank = b->vcol[j + 1] - at, tile = b->out + j;
        TRY(h->gemm(e->ctx, 'N', 'T', nvec, extent(l, tile), rank,
                    ldexpf((float)alpha, -U_EXPONENT - Z_EXPONENT - u->exponent), p->z + at * nvec,
                    nvec, b->v + at * u->step, u->step, 0, p->y + (l->first[tile] - j0) * nvec,
                    nvec));
    }
    st = e->be->gather(e->ctx, BACKEND_S, nvec, n, NULL, u->back + j0, p->y, nvec, 1, y + j0 * ldy,
                       ldy);
done:
    return st;
}

status unlike_apply(unlike *u, int64_t nvec, double alpha, const backend_f16 *x, int64_t ldx,
                    float *y, int64_t ldy) {
    const engine *e = u->e;
    parts p;
    status st;
    if (u->nblock == 0 || nvec == 0)
        return MOAO_OK;
    TRY(take_work(u, nvec, &p));
    TRY(e->be->half->columns(e->ctx, true, nvec, e->m, 0, x, ldx, u->at, p.x, nvec));
    for (int k = 0; k < u->nblock; k++)
        TRY(apply_block(u, &u->block[k], &p, nvec, alpha, y, ldy));
done:
    return st;
}
