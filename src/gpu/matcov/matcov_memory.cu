/* Memory of the covariances on a GPU: one piece for a profile, one for each target. */
#include "gpu/core/arena.cuh"
#include "matcov_host.cuh"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYER_ROOM 64 /* memory is taken for a multiple of so many layers */
#define SUMS_MOST                                                                                  \
    ((size_t)32 << 20) /* doubles between edge points held at a time, unless more are needed */

static size_t table_values(const matcov_table *t) {
    return (size_t)4 * t->n * t->n;
}

/* Doubles for the sums between edge points: all four pairs of axes of the largest pair of sensors
 * on different lattices if SUMS_MOST allows. At least, for any pair, the columns between the two
 * edges of a subaperture: slopes with the phase, and with mean gradients, take as much (phase.cu).
 */
static size_t sums_needed(const matcov_model *m) {
    size_t want = 0, least = 0;
    for (int list = 0; list < MATCOV_LISTS; list++) {
        const int first = list == MATCOV_CMM ? 0 : m->nsensor,
                  nfirst = list == MATCOV_CMM ? m->nsensor : 1;
        const int second = list == MATCOV_CTT ? m->nsensor : 0,
                  nsecond = list == MATCOV_CTT ? 1 : m->nsensor;
        for (int i = 0; i < nfirst * nsecond; i++) {
            const matcov_sensor *a = &m->sensors[first + i / nsecond],
                                *b = &m->sensors[second + i % nsecond];
            const size_t rows = (size_t)a->nedge[0] + a->nedge[1],
                         cols = (size_t)b->nedge[0] + b->nedge[1];
            least = rows * (b->nssp + 2) > least ? rows * (b->nssp + 2) : least;
            if (m->list[list].links[i].table < 0)
                want = rows * cols > want ? rows * cols : want;
        }
    }
    want = want > SUMS_MOST ? SUMS_MOST : want;
    return want > least ? want : least;
}

/* Place in the pupil of every edge point of an axis, in whole subapertures. */
static void edge_places(const matcov_sensor *v, int axis, int2 *at) {
    for (int k = 0; k < v->nsub; k++) {
        const int x = v->sub[k] % v->nssp, y = v->sub[k] / v->nssp;
        at[v->minus[axis][k]] = make_int2(x, y);
        at[v->plus[axis][k]] = make_int2(x + (axis == 0), y + (axis == 1));
    }
}

/* number[e]: where edge point e comes in the order of patches. Counts the points of each patch and
 * sorts by it. */
static status patch_order(const matcov_sensor *v, int axis, int *number) {
    const int n = v->nedge[axis], across = v->nssp / GPU_COV_PATCH_X + 1;
    const int strips = v->nssp / GPU_COV_PATCH_Y + 1;
    int2 *at = (int2 *)malloc((n + 1) * sizeof *at);
    int *from = (int *)calloc((size_t)strips * across + 1, sizeof *from);
    if (at && from) {
        edge_places(v, axis, at);
        for (int pass = 0; pass < 2; pass++) {
            for (int e = 0; e < n; e++) {
                const int patch = at[e].y / GPU_COV_PATCH_Y * across + at[e].x / GPU_COV_PATCH_X;
                if (pass == 0)
                    from[patch + 1]++;
                else
                    number[e] = from[patch]++;
            }
            for (int i = 0; pass == 0 && i < strips * across; i++)
                from[i + 1] += from[i];
        }
    }
    const bool fine = at && from;
    free(at);
    free(from);
    return fine ? MOAO_OK : status_fail(MOAO_MEMORY, "no memory for edge points");
}

/* Subapertures by patches of MEANS_X x MEANS_Y: those of a warp are neighbours, so that they are
 * near those of another sensor together. */
#define MEANS_X 8
#define MEANS_Y 4
static void patch_list(const matcov_sensor *v, int *list) {
    int n = 0, strips = v->nssp / MEANS_Y + 1, across = v->nssp / MEANS_X + 1;
    for (int strip = 0, first = 0; strip < strips; strip++) {
        int end = first;
        while (end < v->nsub && v->sub[end] / v->nssp / MEANS_Y == strip)
            end++;
        for (int x = 0; x < across; x++)
            for (int k = first; k < end; k++)
                if (v->sub[k] % v->nssp / MEANS_X == x)
                    list[n++] = k;
        first = end;
    }
}

/* Memory of the edge points of one axis in one order; number: the order, NULL for the pupil's rows.
 */
static void place_edges(gpu_arena *r, const matcov_sensor *v, int axis, int order,
                        const int *number, gpu_cov_sensor *d, host_sensor *h) {
    int *minus, *plus;
    double2 *edge;
    const int *dm = gpu_take(r, v->nsub, &minus), *dp = gpu_take(r, v->nsub, &plus);
    const double2 *de = gpu_take(r, v->nedge[axis], &edge);
    if (!d)
        return;
    for (int k = 0; k < v->nsub; k++) {
        minus[k] = number ? number[v->minus[axis][k]] : v->minus[axis][k];
        plus[k] = number ? number[v->plus[axis][k]] : v->plus[axis][k];
    }
    for (int e = 0; e < v->nedge[axis]; e++)
        edge[number ? number[e] : e] = make_double2(v->x[axis][e], v->y[axis][e]);
    d->minus[order][axis] = dm, d->plus[order][axis] = dp, d->edge[order][axis] = de;
    if (order == GPU_COV_ROWS)
        h->minus[axis] = minus, h->plus[axis] = plus;
}

/* n numbers into the arena; where they are on the device. */
template <class T> static const T *place_copy(gpu_arena *r, const T *from, size_t n) {
    T *to;
    const T *at = gpu_take(r, n, &to);
    for (size_t i = 0; to && i < n; i++)
        to[i] = from[i];
    return at;
}

/* Outlines, as the device has them; their subapertures on the host. */
static const int *place_outline(gpu_arena *r, const matcov_outline *o, int nsub,
                                matcov_outline *d) {
    int *sub;
    if (o->n == 0)
        return NULL;
    d->n = o->n, d->nkept = o->nkept, d->always = o->always;
    d->number = place_copy(r, o->number, nsub);
    d->sub = gpu_take(r, o->n, &sub);
    for (int i = 0; sub && i < o->n; i++)
        sub[i] = o->sub[i];
    d->kept = place_copy(r, o->kept, o->n);
    d->moments = place_copy(r, o->moments, 6 * (size_t)o->n);
    for (int set = 0; set < MATCOV_SETS; set++) {
        const size_t n = o->first[set][o->n];
        d->first[set] = place_copy(r, o->first[set], o->n + 1);
        d->x[set] = place_copy(r, o->x[set], n);
        d->y[set] = place_copy(r, o->y[set], n);
        for (int axis = 0; axis < 2; axis++)
            d->w[set][axis] = place_copy(r, o->w[set][axis], n);
    }
    return sub;
}

/* Memory of one sensor; what it holds is written where the gpu_arena has a host side (d not NULL).
 */
static status place_sensor(gpu_arena *r, const matcov_sensor *v, gpu_cov_sensor *d,
                           host_sensor *h) {
    int2 *place;
    double2 *centre;
    int *patch;
    const int2 *at = gpu_take(r, v->nsub, &place);
    const double2 *centres = gpu_take(r, v->nsub, &centre);
    const int *patches = gpu_take(r, v->nsub, &patch);
    status st = MOAO_OK;
    matcov_outline outline = {};
    const int *outlines = place_outline(r, &v->outline, v->nsub, &outline);
    if (d) {
        *d = gpu_cov_sensor{v->size,
                            cos(v->rot),
                            sin(v->rot),
                            {v->shift[0], v->shift[1]},
                            v->altitude,
                            {v->dir[0], v->dir[1]},
                            at,
                            centres,
                            patches,
                            outline,
                            v->phase_class};
        *h = host_sensor{};
        h->noutline = outline.n, h->nkept = outline.nkept, h->outline = outlines;
        h->nssp = v->nssp, h->nsub = v->nsub;
        h->phase_class = v->phase_class;
        h->size = v->size, h->rot = v->rot, h->altitude = v->altitude;
        h->shift[0] = d->cos_rot * v->shift[0] + d->sin_rot * v->shift[1];
        h->shift[1] = d->cos_rot * v->shift[1] - d->sin_rot * v->shift[0];
        for (int i = 0; i < 2; i++)
            h->nedge[i] = v->nedge[i], h->dir[i] = v->dir[i];
        for (int k = 0; k < v->nsub; k++)
            place[k] = make_int2(v->sub[k] % v->nssp, v->sub[k] / v->nssp);
        for (int k = 0; k < v->nsub; k++) {
            const int m = v->minus[0][k], p = v->plus[0][k];
            centre[k] = v->gradient ? make_double2(v->centre[0][k], v->centre[1][k])
                                    : make_double2(0.5 * (v->x[0][m] + v->x[0][p]),
                                                   0.5 * (v->y[0][m] + v->y[0][p]));
        }
        for (int axis = 0; axis < 2; axis++)
            for (int e = 0; e < v->nedge[axis]; e++)
                h->reach = fmax(h->reach, hypot(v->x[axis][e], v->y[axis][e]) + v->size);
        patch_list(v, patch);
    }
    for (int axis = 0; axis < 2 && st == MOAO_OK; axis++) {
        int *number = d ? (int *)malloc((v->nedge[axis] + 1) * sizeof *number) : NULL;
        if (d)
            st = number ? patch_order(v, axis, number)
                        : status_fail(MOAO_MEMORY, "no memory for edge points");
        if (st == MOAO_OK) {
            place_edges(r, v, axis, GPU_COV_ROWS, NULL, d, h);
            place_edges(r, v, axis, GPU_COV_PATCHES, number, d, h);
        }
        free(number);
    }
    return st;
}

/* The tables of mean gradients, with some room for another profile's; part of the profile. */
static void place_gradients(backend_cov *c, const matcov_model *m, int room, gpu_arena *r) {
    host_gradients *h = &c->means;
    gpu_cov_gradients *d = &c->gradients;
    if (m->nclass == 0)
        return;
    h->tables_room = ((size_t)m->ngradient / 16 + 1) * 16;
    h->values_room = m->ngradient_value + m->ngradient_value / 4;
    d->table = gpu_take(r, (size_t)m->nclass * room, &h->table);
    h->tables_at = r->used;
    d->tables = gpu_take(r, h->tables_room, &h->tables);
    d->values = gpu_take(r, h->values_room, &h->values);
}

/* What is made of them on the device. */
static void place_floats(backend_cov *c, gpu_arena *r) {
    if (c->means.tables_room > 0) {
        c->gradients.floats = gpu_take(r, gpu_floats_at(c->means.values_room), (float **)NULL);
        c->gradients.lines = gpu_take(r, c->means.tables_room * GPU_LINES, (float4 **)NULL);
    }
}

/* Everything on the device, in order: geometry, profile (both sent from the staging buffer), and
 * what is computed there. With NULL bases it only counts; c->profile_at + c->profile_bytes is the
 * size of the staging buffer. */
static status lay_out(backend_cov *c, const matcov_model *m, int room, size_t *bytes) {
    gpu_arena r = {c->device, c->staging, 0};
    gpu_cov_sensor *sensors;
    gpu_cov_table *tables;
    gpu_cov_pair *pairs;
    int64_t *first, from = 0;
    const int nc = m->list[MATCOV_CMM].ntable, nt = nc + m->list[MATCOV_CTT].ntable;
    c->sensors = gpu_take(&r, m->nsensor + 1, &sensors);
    c->tables = gpu_take(&r, nt, &tables);
    c->pairs = gpu_take(&r, nt, &pairs);
    c->first = gpu_take(&r, m->nsensor + 1, &first);
    for (int w = 0; w <= m->nsensor; w++) {
        GPU_TRY(place_sensor(&r, &m->sensors[w], sensors ? &sensors[w] : NULL,
                             sensors ? &c->host[w] : NULL));
        if (first)
            first[w] = from;
        from += m->sensors[w].nsub;
    }
    c->profile_at = r.used;
    c->layers = gpu_take(&r, room, &c->layers_host);
    c->noise = gpu_take(&r, 3 * (m->m / 2), &c->noise_host);
    place_gradients(c, m, room, &r);
    c->profile_bytes = r.used - c->profile_at;
    if (m->nclass == 0)
        c->means.tables_at = r.used;
    place_floats(c, &r);
    c->structure = gpu_take(&r, 1, (gpu_structure **)NULL);
    c->radial = gpu_take(&r, 2, (gpu_radial **)NULL);
    for (int i = 0; i < nt; i++) {
        const matcov_table *t =
            i < nc ? &m->list[MATCOV_CMM].tables[i] : &m->list[MATCOV_CTT].tables[i - nc];
        double *value = gpu_take(&r, table_values(t), (double **)NULL);
        if (pairs)
            pairs[i] = t->gradient >= 0 ? gpu_cov_pair_of(c, t->gradient, t->swapped)
                                        : gpu_cov_pair{-1, false, {0, 0}, {0.0, 0.0}, 0.0};
        if (tables)
            tables[i] = gpu_cov_table{t->first, t->second, {t->steps[0], t->steps[1]},
                                      t->n,     t->origin, value};
    }
    c->nsums = sums_needed(m);
    c->sums = gpu_take(&r, c->nsums, (double **)NULL);
    *bytes = r.used;
    return MOAO_OK;
}

static int room_for(const matcov_model *m) {
    return (m->nlayer / LAYER_ROOM + 1) * LAYER_ROOM;
}

size_t gpu_cov_bytes(const matcov_model *m) {
    backend_cov none = {};
    size_t bytes = 0;
    lay_out(&none, m, room_for(m), &bytes);
    return bytes;
}

size_t gpu_cov_target_bytes(const matcov_model *m) {
    gpu_arena r = {NULL, NULL, 0};
    gpu_take(&r, m->list[MATCOV_CTM].ntable, (gpu_cov_table **)NULL);
    gpu_take(&r, m->list[MATCOV_CTM].ntable, (gpu_cov_pair **)NULL);
    for (int i = 0; i < m->list[MATCOV_CTM].ntable; i++)
        gpu_take(&r, table_values(&m->list[MATCOV_CTM].tables[i]), (double **)NULL);
    return r.used;
}

static status device_memory(size_t bytes, char **p) {
    if (cudaMalloc((void **)p, bytes ? bytes : 1) == cudaSuccess)
        return MOAO_OK;
    cudaGetLastError();
    *p = NULL;
    return status_fail(MOAO_MEMORY, "the GPU has no room for %zu bytes of tables", bytes);
}

void gpu_cov_release(backend_cov *c) {
    cudaFree(c->device);
    cudaFreeHost(c->staging);
    c->device = c->staging = NULL;
}

status gpu_cov_build(backend_cov *c, const matcov_model *m) {
    size_t bytes;
    char *device;
    c->device = c->staging = NULL;
    GPU_TRY(lay_out(c, m, room_for(m), &bytes));
    GPU_TRY(device_memory(bytes, &device));
    c->device = device;
    CUDA_TRY(cudaMallocHost((void **)&c->staging, c->profile_at + c->profile_bytes));
    c->room = room_for(m);
    GPU_TRY(lay_out(c, m, c->room, &bytes));
    CUDA_TRY(cudaMemcpyAsync(c->device, c->staging, c->profile_at, cudaMemcpyHostToDevice,
                             c->ctx->main.stream));
    GPU_TRY(gpu_cov_fit(c->ctx->main.stream, c->structure));
    return gpu_cov_fit_radial(c->ctx->main.stream, c->radial);
}

/* Copy to the device's memory of a target. */
static status describe(void *to, const void *from, size_t bytes) {
    return bytes == 0 || cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice) == cudaSuccess
               ? MOAO_OK
               : status_fail(MOAO_INTERNAL, "CUDA: %s", cudaGetErrorString(cudaGetLastError()));
}

status gpu_cov_build_target(backend_cov_target *t) {
    const pair_list *k = &t->c->list[MATCOV_CTM];
    gpu_arena r = {NULL, NULL, 0};
    gpu_cov_table *tables = (gpu_cov_table *)calloc(k->ntable + 1, sizeof *tables);
    gpu_cov_pair *pairs = (gpu_cov_pair *)calloc(k->ntable + 1, sizeof *pairs);
    status st = tables && pairs ? MOAO_OK : status_fail(MOAO_MEMORY, "no memory for a target");
    for (int pass = 0; pass < 2 && st == MOAO_OK; pass++) {
        t->tables = gpu_take(&r, k->ntable, (gpu_cov_table **)NULL);
        t->pairs = gpu_take(&r, k->ntable, (gpu_cov_pair **)NULL);
        for (int i = 0; i < k->ntable; i++) {
            const matcov_table *v = &k->tables[i];
            pairs[i] = v->gradient >= 0 ? gpu_cov_pair_of(t->c, v->gradient, v->swapped)
                                        : gpu_cov_pair{-1, false, {0, 0}, {0.0, 0.0}, 0.0};
            tables[i] =
                gpu_cov_table{v->first, v->second, {v->steps[0], v->steps[1]},
                              v->n,     v->origin, gpu_take(&r, table_values(v), (double **)NULL)};
        }
        if (pass == 0 && (st = device_memory(r.used, &t->device)) == MOAO_OK)
            r = gpu_arena{t->device, NULL, 0};
    }
    if (st == MOAO_OK)
        st = describe(t->tables, tables, k->ntable * sizeof *tables);
    if (st == MOAO_OK)
        st = describe(t->pairs, pairs, k->ntable * sizeof *pairs);
    free(pairs);
    free(tables);
    return st;
}
