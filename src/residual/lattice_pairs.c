#include "residual/lattice_pairs.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

static int common_multiple(int a, int b) {
    int x = a, y = b;
    while (y != 0) {
        const int r = x % y;
        x = y;
        y = r;
    }
    return a / x * b;
}

/* Pitch of a group with one more sensor; 0: it does not fit. A lattice much finer than the sensors
 * would cost more than it saves. */
static int joint_pitch(const sys *s, const lattice_pairs_group *g, int w) {
    const int pitch = common_multiple(g->pitch, s->sensors[w].nssp);
    int steps[2], most = s->sensors[w].nssp;
    for (int i = 0; i < g->nsensor; i++) {
        const sensor *o = &s->sensors[g->sensor[i]];
        if (!matcov_on_lattice(o, &s->sensors[w], steps))
            return 0;
        most = o->nssp > most ? o->nssp : most;
    }
    return pitch > 2 * most ? 0 : pitch;
}

/* Places of a group's subapertures on its lattice. */
static status make_shape(const sys *s, lattice_pairs_group *g) {
    const size_t nimage = 2 * (size_t)g->nsensor;
    int64_t *count = NULL, *first = NULL;
    const int **place = NULL;
    status st;
    TRY(ALLOC(count, nimage, "groups of sensors"));
    g->shape.count = count;
    TRY(ALLOC(first, nimage, "groups of sensors"));
    g->shape.first = first;
    TRY(ALLOC(place, nimage, "groups of sensors"));
    g->shape.place = place;
    g->shape.nimage = (int)nimage;
    g->shape.n = 1;
    for (int i = 0; i < g->nsensor; i++) {
        const int n = s->sensors[g->sensor[i]].nssp, most = g->pitch / n * (n - 1) + 1;
        g->shape.n = most > g->shape.n ? most : g->shape.n;
    }
    for (int i = 0; i < g->nsensor; i++) {
        const sensor *o = &s->sensors[g->sensor[i]];
        const int step = g->pitch / o->nssp;
        int *at;
        TRY(ALLOC(at, (size_t)o->nsub, "places of subapertures"));
        for (int k = 0; k < o->nsub; k++)
            at[k] = o->sub[k] / o->nssp * step * g->shape.n + o->sub[k] % o->nssp * step;
        for (int axis = 0; axis < 2; axis++) {
            count[2 * i + axis] = o->nsub;
            first[2 * i + axis] = (int64_t)o->first + axis * o->nsub;
            place[2 * i + axis] = at;
        }
    }
done:
    return st;
}

/* Outlined slopes of the first k sensors of a group, and all slopes of them. */
static int64_t rows_before(const lattice_pairs *a, const lattice_pairs_group *g, int k) {
    int64_t n = 0;
    for (int i = 0; i < k; i++)
        n += a->outlines.n[g->sensor[i]];
    return n;
}

static int64_t columns_before(const sys *s, const lattice_pairs_group *g, int k) {
    int64_t n = 0;
    for (int i = 0; i < k; i++)
        n += 2 * s->sensors[g->sensor[i]].nsub;
    return n;
}

status lattice_pairs_init(const sys *s, bool difference, lattice_pairs *a) {
    const size_t n = (size_t)s->nsensor;
    status st;
    *a = (lattice_pairs){.difference = difference};
    TRY(ALLOC(a->group, n, "groups of sensors"));
    TRY(ALLOC(a->of, n, "groups of sensors"));
    for (int w = 0; w < s->nsensor; w++) {
        int k = 0, pitch = 0;
        while (k < a->ngroup && (pitch = joint_pitch(s, &a->group[k], w)) == 0)
            k++;
        if (k == a->ngroup) {
            pitch = s->sensors[w].nssp;
            a->ngroup++;
            TRY(ALLOC(a->group[k].sensor, n, "groups of sensors"));
        }
        a->group[k].pitch = pitch;
        a->group[k].sensor[a->group[k].nsensor++] = w;
        a->of[w] = k;
    }
    for (int k = 0; k < a->ngroup; k++)
        TRY(make_shape(s, &a->group[k]));
    TRY(ALLOC(a->outlines.n, n, "groups of sensors"));
    for (int w = 0; w < s->nsensor; w++)
        a->outlines.n[w] = 2 * matcov_outlined(s, &s->sensors[w], difference, NULL);
    for (int k = 0; k < a->ngroup; k++) {
        const int64_t rows = rows_before(a, &a->group[k], a->group[k].nsensor);
        a->outlines.most = rows > a->outlines.most ? rows : a->outlines.most;
    }
done:
    return st;
}

static int64_t padded(int64_t n) {
    return (n + 7) / 8 * 8;
}

static size_t size_of(toeplitz_type t) {
    return t == TOEPLITZ_FP16 ? sizeof(backend_f16) : backend_size((backend_type)t);
}

/* Leading dimension of E of a group, and its numbers. */
static int64_t leading(const lattice_pairs *a, const lattice_pairs_group *g) {
    return padded(rows_before(a, g, g->nsensor));
}

static int64_t numbers_of_group(const sys *s, const lattice_pairs *a,
                                const lattice_pairs_group *g) {
    return leading(a, g) * columns_before(s, g, g->nsensor);
}

/* Numbers of E of all groups, and of the largest block of two sensors. */
static int64_t numbers_of(const sys *s, const lattice_pairs *a, int64_t *block) {
    int64_t n = 0;
    *block = 0;
    for (int k = 0; k < a->ngroup; k++) {
        const lattice_pairs_group *g = &a->group[k];
        n += numbers_of_group(s, a, g);
        for (int i = 0; i < g->nsensor * g->nsensor; i++) {
            const int64_t one = padded(a->outlines.n[g->sensor[i / g->nsensor]]) * 2 *
                                s->sensors[g->sensor[i % g->nsensor]].nsub;
            *block = one > *block ? one : *block;
        }
    }
    return n;
}

/* Memory, and which columns are outlined slopes. */
static status open_outlines(engine *e, int64_t nvec, lattice_pairs *a) {
    lattice_pairs_outlines *o = &a->outlines;
    const sys *s = e->s;
    int64_t *columns = NULL, block, count = 0;
    int *sub = NULL;
    const int64_t numbers = numbers_of(s, a, &block);
    status st = MOAO_OK;
    if (o->most == 0)
        return MOAO_OK;
    TRY(ALLOC(columns, s->m, "outlined slopes"));
    TRY(ALLOC(sub, s->m, "outlined slopes"));
    for (int w = 0; w < s->nsensor; w++) {
        const sensor *v = &s->sensors[w];
        const int n = matcov_outlined(s, v, a->difference, sub);
        for (int k = 0; k < 2 * n; k++)
            columns[count++] = (int64_t)v->first + (k >= n ? v->nsub : 0) + sub[k % n];
    }
    TRY(engine_array(e, (size_t)count * sizeof *columns, "outlined slopes", (void **)&o->columns));
    TRY(engine_array(e, (size_t)numbers * size_of(a->type), "covariances of outlines", &o->e));
    TRY(engine_array(e, (size_t)(padded(nvec) * padded(o->most)) * size_of(a->type),
                     "columns of outlined slopes", &o->taken));
    if (a->type == TOEPLITZ_FP16)
        TRY(engine_array(e, (size_t)block * sizeof(float), "covariances of outlines",
                         (void **)&o->staging));
    TRY(e->be->copy(e->ctx, o->columns, count * (int64_t)sizeof *columns, columns,
                    count * (int64_t)sizeof *columns, count * (int64_t)sizeof *columns, 1));
    st = e->be->sync(e->ctx);
done:
    free(columns);
    free(sub);
    return st;
}

void lattice_pairs_close(engine *e, lattice_pairs *a) {
    for (int k = 0; k < a->ngroup; k++) {
        lattice_pairs_group *g = &a->group[k];
        if (g->plan != NULL)
            e->be->toeplitz->close(g->plan);
        for (int i = 0; i < g->shape.nimage && g->shape.place != NULL; i += 2)
            free((void *)g->shape.place[i]);
        free((void *)g->shape.place), free((void *)g->shape.first), free((void *)g->shape.count);
        free(g->sensor);
    }
    free(a->group), free(a->of), free(a->pair), free(a->outlines.n);
    if (e != NULL)
        ENGINE_RELEASE(e, a->outlines.columns, a->outlines.e, a->outlines.staging,
                       a->outlines.taken);
    *a = (lattice_pairs){0};
}

status lattice_pairs_open(engine *e, toeplitz_type t, int64_t nvec, lattice_pairs *a) {
    size_t most = 0;
    status st = MOAO_OK;
    if (e->be->toeplitz == NULL)
        return status_fail(MOAO_INPUT, "the %s backend has no products by Fourier transforms",
                           e->be->name);
    for (int k = 0; k < a->ngroup && st == MOAO_OK; k++) {
        const size_t images = (size_t)a->group[k].shape.nimage;
        most = images > most ? images : most;
        st = e->be->toeplitz->open(e->ctx, &a->group[k].shape, t, &a->group[k].plan);
    }
    a->type = t;
    if (st == MOAO_OK)
        st = ALLOC(a->pair, most * most, "pairs of sensors");
    return st == MOAO_OK ? open_outlines(e, nvec, a) : st;
}

/* Of the CPU's plan of a lattice, with what its products need (linalg/cpu/toeplitz_cpu.c). */
static size_t host_bytes(const toeplitz_shape *s, toeplitz_type t, int64_t rows) {
    const backend_toeplitz *of = backend_cpu.toeplitz;
    const size_t N = (size_t)of->order(s->n), g = (size_t)s->nimage, n = (size_t)s->n;
    const size_t block = 128 * (N * g * n + 2 * N * g + 2 * N);
    size_t total = 0;
    for (int i = 0; i < s->nimage; i++)
        total += (size_t)s->count[i];
    return of->bytes(s, t) + (size_t)omp_get_max_threads() * block + 8 * g * total +
           (t == TOEPLITZ_FP16 ? sizeof(float) * (size_t)rows * total : 0);
}

size_t lattice_pairs_bytes(const sys *s, const lattice_pairs *a, toeplitz_type t, int64_t rows,
                           bool host) {
    size_t plans = 0, most = 0;
    for (int k = 0; host && k < a->ngroup; k++)
        plans += host_bytes(&a->group[k].shape, t, rows);
    for (int k = 0; !host && k < a->ngroup; k++) { /* as a GPU's plans are (gpu/formats) */
        const size_t n = (size_t)a->group[k].shape.n, g = (size_t)a->group[k].shape.nimage;
        const size_t N = 2 * n + n / 4 + 8, size = t == TOEPLITZ_D ? 16 : 8, r = (size_t)rows;
        const size_t vectors = t == TOEPLITZ_FP16 ? 512 : 256, v = r < vectors ? r + 64 : vectors;
        const size_t work = t == TOEPLITZ_FP16 ? 2 * v * g * (4 * n * (n + 4) + 4 * N * (N / 2 + 1))
                                               : size * v / 2 * N * g * (n + 2 * N);
        const size_t images = g <= 12 ? 12 : g <= 16 ? 16 : g;
        plans += N * N * (images * images + 32) * size + g * n * n * 64 +
                 (t == TOEPLITZ_FP16 ? N * N * 512 : 0);
        most = work > most ? work : most;
    }
    int64_t block;
    const size_t numbers = (size_t)numbers_of(s, a, &block);
    plans += numbers * size_of(t) + (t == TOEPLITZ_FP16 ? (size_t)block * sizeof(float) : 0) +
             (size_t)(padded(rows) * padded(a->outlines.most)) * size_of(t);
    return plans + most;
}

size_t lattice_pairs_workspace(const engine *e, const lattice_pairs *a, int64_t nvec) {
    size_t most = 0;
    for (int k = 0; k < a->ngroup; k++) {
        const size_t one = e->be->toeplitz->workspace(a->group[k].plan, nvec);
        most = one > most ? one : most;
    }
    return most;
}

/* Pairs of images of two sensors, numbers i and j of a group. */
static status pair_values(engine *e, lattice_pairs *a, const lattice_pairs_group *g, int i, int j) {
    const sensor *one = &e->s->sensors[g->sensor[i]], *two = &e->s->sensors[g->sensor[j]];
    matcov_values v;
    status st = e->mat->values(e->cov, g->sensor[i], g->sensor[j], &v);
    if (st != MOAO_OK)
        return st;
    if (v.n == 0)
        return status_fail(MOAO_INTERNAL, "two like sensors have no table");
    for (int p = 0; p < 2; p++)
        for (int q = 0; q < 2; q++) {
            toeplitz_pair *to = &a->pair[(2 * i + p) * g->shape.nimage + 2 * j + q];
            *to = (toeplitz_pair){.value = v.value[p + 2 * q],
                                  .step = g->pitch / common_multiple(one->nssp, two->nssp),
                                  .width = v.n,
                                  .origin = v.origin,
                                  .reversed = v.reversed};
            if (i == j) {
                to->diagonal = v.noise + 3 * (one->first / 2) + (p == q ? p : 2);
                to->stride = 3;
            }
        }
    return MOAO_OK;
}

/* The first sensor of a group whose block with itself is that of sensor i: its direction does not
 * matter there. */
static int first_like(const sys *s, const lattice_pairs_group *g, int i) {
    const sensor *w = &s->sensors[g->sensor[i]];
    for (int k = 0; k < i; k++) {
        const sensor *v = &s->sensors[g->sensor[k]];
        if (v->nssp == w->nssp && v->nsub == w->nsub && v->whole == w->whole &&
            v->shift[0] == w->shift[0] && v->shift[1] == w->shift[1] &&
            memcmp(v->sub, w->sub, (size_t)w->nsub * sizeof *w->sub) == 0)
            return k;
    }
    return i;
}

/* Where in E of a group, which begins at number `from`, the block of its sensors i and j is. */
static void *block_of(const engine *e, const lattice_pairs *a, const lattice_pairs_group *g,
                      int64_t from, int i, int j) {
    const int64_t at = from + rows_before(a, g, i) + columns_before(e->s, g, j) * leading(a, g);
    return (char *)a->outlines.e + (size_t)at * size_of(a->type);
}

/* The block of sensors i and j of a group. */
static status load_block(engine *e, const lattice_pairs_group *g, const lattice_pairs *a,
                         int64_t from, int i, int j) {
    const lattice_pairs_outlines *o = &a->outlines;
    const int one = g->sensor[i], two = g->sensor[j], like = first_like(e->s, g, i);
    const int64_t n = o->n[one], m = 2 * e->s->sensors[two].nsub, ld = leading(a, g),
                  size = (int64_t)size_of(a->type);
    void *to = block_of(e, a, g, from, i, j);
    status st;
    if (i == j && like < i)
        return e->be->copy(e->ctx, to, ld * size, block_of(e, a, g, from, like, like), ld * size,
                           n * size, m);
    if (a->type != TOEPLITZ_FP16)
        return e->mat->outlined(e->cov, (backend_type)a->type, one, two, to, ld);
    TRY(e->mat->outlined(e->cov, BACKEND_S, one, two, o->staging, padded(n)));
    st = e->be->fp16->cast_to_fp16(e->ctx, BACKEND_S, n, m, o->exponent, o->staging, padded(n), to,
                                   ld);
done:
    return st;
}

/* E of a group, from number `from` on. */
static status load_outlines(engine *e, const lattice_pairs_group *g, const lattice_pairs *a,
                            int64_t from) {
    status st = MOAO_OK;
    for (int i = 0; i < g->nsensor; i++)
        for (int j = 0; j < g->nsensor; j++)
            if (a->outlines.n[g->sensor[i]] > 0)
                TRY(load_block(e, g, a, from, i, j));
done:
    return st;
}

status lattice_pairs_load(engine *e, int exponent, lattice_pairs *a) {
    int64_t at = 0;
    status st = MOAO_OK;
    a->outlines.exponent = a->type == TOEPLITZ_FP16 ? exponent : 0;
    for (int k = 0; k < a->ngroup; k++) {
        const lattice_pairs_group *g = &a->group[k];
        for (int i = 0; i < g->nsensor; i++)
            for (int j = 0; j < g->nsensor; j++)
                TRY(pair_values(e, a, g, i, j));
        TRY(e->be->toeplitz->load(g->plan, a->pair));
        TRY(load_outlines(e, g, a, at));
        at += numbers_of_group(e->s, a, g);
    }
done:
    return st;
}

/* Columns of outlined slopes of a group become a matrix of leading dimension *ld. */
static status take_columns(engine *e, const lattice_pairs *a, const lattice_pairs_group *g,
                           int64_t nvec, const void *x, int64_t ldx, int64_t *ld) {
    const lattice_pairs_outlines *o = &a->outlines;
    /* FP16 by pairs, as words of FP32 */
    const bool words = a->type == TOEPLITZ_FP16;
    status st = MOAO_OK;
    *ld = words ? padded(nvec) : nvec;
    for (int i = 0; i < g->nsensor; i++) {
        const int w = g->sensor[i];
        char *to = (char *)o->taken + (size_t)(rows_before(a, g, i) * *ld) * size_of(a->type);
        int64_t first = 0;
        for (int k = 0; k < w; k++)
            first += o->n[k];
        if (o->n[w] > 0)
            TRY(e->be->gather(e->ctx, words ? BACKEND_S : (backend_type)a->type,
                              words ? (nvec + 1) / 2 : nvec, o->n[w], NULL, o->columns + first, x,
                              words ? ldx / 2 : ldx, 0, to, words ? *ld / 2 : *ld));
    }
done:
    return st;
}

/* Y += alpha X E of a group whose E begins at number `from`, by runs of sensors whose columns of Y
 * follow each other: few rows or columns of E for each product would leave it to the speed of
 * memory, and the last of its tiles with little to do. */
static status apply_outlines(engine *e, const lattice_pairs *a, const lattice_pairs_group *g,
                             int64_t from, int64_t nvec, double alpha, const void *x, int64_t ldx,
                             void *y, int64_t ldy) {
    const void *taken = a->outlines.taken;
    const double one = 1.0;
    const float factor = (float)alpha, single = 1.0f;
    const int64_t n = rows_before(a, g, g->nsensor), lde = leading(a, g);
    int64_t ld;
    status st = MOAO_OK;
    if (n == 0)
        return st;
    TRY(take_columns(e, a, g, nvec, x, ldx, &ld));
    for (int j = 0, next; j < g->nsensor; j = next) {
        for (next = j + 1; next < g->nsensor && g->sensor[next] == g->sensor[next - 1] + 1;)
            next++;
        const int64_t m = columns_before(e->s, g, next) - columns_before(e->s, g, j),
                      to = (int64_t)e->s->sensors[g->sensor[j]].first * ldy;
        const void *block = block_of(e, a, g, from, 0, j);
        if (a->type == TOEPLITZ_FP16)
            TRY(e->be->fp16->gemm(e->ctx, 'N', 'N', nvec, m, n, factor, taken, ld, block, lde, 1.0f,
                                  (float *)y + to, ldy));
        else if (a->type == TOEPLITZ_S)
            TRY(e->be->gemm(e->ctx, BACKEND_S, 'N', 'N', nvec, m, n, &factor, taken, ld, block, lde,
                            &single, (float *)y + to, ldy, e->work, e->lwork));
        else
            TRY(e->be->gemm(e->ctx, BACKEND_D, 'N', 'N', nvec, m, n, &alpha, taken, ld, block, lde,
                            &one, (double *)y + to, ldy, e->work, e->lwork));
    }
done:
    return st;
}

status lattice_pairs_apply(engine *e, lattice_pairs *a, int64_t nvec, double alpha, const void *x,
                           int64_t ldx, double beta, void *y, int64_t ldy) {
    int64_t at = 0;
    status st = MOAO_OK;
    for (int k = 0; k < a->ngroup && st == MOAO_OK; k++)
        st = e->be->toeplitz->apply(a->group[k].plan, 'R', 'N', nvec, alpha, x, ldx, beta, y, ldy,
                                    e->work, e->lwork);
    for (int k = 0; k < a->ngroup && st == MOAO_OK && a->outlines.most > 0; k++) {
        st = apply_outlines(e, a, &a->group[k], at, nvec, ldexp(2.0 * alpha, -a->outlines.exponent),
                            x, ldx, y, ldy);
        at += numbers_of_group(e->s, a, &a->group[k]);
    }
    return st;
}

bool lattice_pairs_next_block(const sys *s, const lattice_pairs *a, int64_t room,
                              lattice_pairs_block *b) {
    for (; b->sensor < s->nsensor; b->sensor++, b->next = 0) {
        const sensor *w = &s->sensors[b->sensor];
        int r = b->next;
        while (r < s->nsensor && a->of[r] <= a->of[b->sensor])
            r++;
        if (r == s->nsensor)
            continue;
        b->j = (int64_t)w->first, b->n = 2 * w->nsub;
        b->row = (int64_t)s->sensors[r].first, b->rows = 0;
        do
            b->rows += 2 * s->sensors[r++].nsub;
        while (r < s->nsensor && a->of[r] > a->of[b->sensor] &&
               b->n * (b->rows + 2 * s->sensors[r].nsub) <= room);
        b->next = r;
        return true;
    }
    return false;
}

/* Pieces of a panel's columns of sensor w. */
static void pieces_of(const sys *s, const lattice_pairs *a, int w, int64_t j, int64_t n, int *count,
                      lattice_pairs_piece *to, int64_t *numbers) {
    const int64_t ld = (n + 7) / 8 * 8;
    int64_t row = 0, rows = 0;
    for (int r = 0; r <= s->nsensor; r++) { /* runs of consecutive sensors */
        const bool wanted = r < s->nsensor && a->of[r] > a->of[w];
        if (wanted && rows == 0)
            row = (int64_t)s->sensors[r].first;
        if (wanted)
            rows += 2 * s->sensors[r].nsub;
        if (wanted || rows == 0)
            continue;
        if (to != NULL)
            to[*count] = (lattice_pairs_piece){j, n, row, rows, ld, *numbers};
        ++*count;
        *numbers += ld * rows;
        rows = 0;
    }
}

status lattice_pairs_pieces(const sys *s, const lattice_pairs *a, int64_t width, int *count,
                            lattice_pairs_piece **pieces, int64_t *numbers) {
    status st = MOAO_OK;
    for (int pass = pieces != NULL ? 0 : 1; pass < 2 && st == MOAO_OK; pass++) {
        int n = 0;
        *numbers = 0;
        for (int w = 0; w < s->nsensor; w++) {
            const int64_t first = (int64_t)s->sensors[w].first;
            const int64_t end = first + 2 * s->sensors[w].nsub;
            for (int64_t j = first, next; j < end; j = next) {
                next = (j / width + 1) * width < end ? (j / width + 1) * width : end;
                pieces_of(s, a, w, j, next - j, &n, pieces != NULL && pass == 1 ? *pieces : NULL,
                          numbers);
            }
        }
        if (count != NULL)
            *count = n;
        if (pass == 0)
            st = ALLOC(*pieces, (size_t)n + 1, "pairs of sensors");
    }
    return st;
}
