/* Exposures in double precision by integer tensor cores (moao/backend_integer.h), of a dense factor
 * by integers.
 *
 * Cmm = T + T', T block upper triangular: blocks T(i, j), i < j, of Cmm and, on the diagonal, lower
 * triangles with half the diagonal. They are stored as residues, computed once in an exposure and
 * used by all targets of a chunk: those of eight moduli above the diagonal of the factor's array,
 * where the factor has its own while it is computed, the others in the memory of the factor's
 * residues. Of a target, with d_l = 2^e_l, e the exponents of the rows of L, which scale
 * measurements, whatever their size:
 *
 *     Z(j) = (W(0:j) D^-1) (D T(0:j, j)) + W(j) T(j, j)      the latter by trmm
 *     Y   += (Z(j) D) (W(j) D^-1)'
 *     W Cpm' = sum of (W D^-1) (Cpm D)'                      of GATHERED columns at a time
 *
 * W becomes residues once in an exposure. Sums of residues are exact: the bits of a target do not
 * depend on the others, nor on the device. */
#include "factor/dense.h"
#include "moao/integer_factor.h"
#include "residual/fp64_panels.h"

#include <stdlib.h>

#define ABOVE 8 /* moduli above the diagonal: the bytes of a double */
/* Columns of Cpm in one product: with fewer, sums of bytes in 32 bits are written too often. */
#define GATHERED 4096

/* What is alive in exposures alone lies in the memory of the factor's residues as far as it goes:
 * in this order, the largest first. */
typedef enum {
    LOW,          /* residues of T that are not above the diagonal */
    ALL_OF_W,     /* residues of W; while T is loaded, columns of Cmm */
    WORK,         /* of products */
    CPM,          /* columns of Cpm gathered, */
    CPM_BYTES,    /* their residues, */
    COLUMNS,      /* W's, */
    COLUMN_BYTES, /* and their residues; */
    PHASE,        /* W Cpm' of a target */
    Z_BYTES,      /* residues of Z(j) */
    ITEMS
} item;

typedef struct {
    size_t bytes[ITEMS], apart; /* apart: of those that have memory of their own */
    bool inside[ITEMS];
} layout;

typedef struct {
    product base;
    int moduli;
    int64_t v, np, gathered;      /* rows of W; points; columns of Cpm at a time */
    double *diag;                 /* width x m: blocks of T on the diagonal side by side */
    void *at[ITEMS], *own[ITEMS]; /* own: NULL where the factor's memory is used */
    size_t lwork;
    int32_t *of_t, *of_w, *of_z, *of_p; /* exponents of columns of T, rows of W, Z and Cpm */
    int32_t *inner;                     /* and of the measurements of columns gathered, */
    int64_t count;                      /* so many; */
    bool begun;                         /* there is a W Cpm' already */
} integers;

/* --- sizes */

static int64_t even(int64_t n) {
    return integer_ld(n);
}

static bool is_above(int64_t m, int moduli) {
    return m % 2 == 0 && moduli >= ABOVE;
}

/* Bytes of the residues of T of columns before j that are not above the diagonal. */
static int64_t low_bytes(int64_t m, int64_t width, int moduli, int64_t end) {
    const int stored = moduli - (is_above(m, moduli) ? ABOVE : 0);
    int64_t bytes = 0;
    for (int64_t j = 0; j < end; j += width)
        bytes += stored * even(j) * even(m - j < width ? m - j : width);
    return bytes;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static int64_t gathered_of(int64_t m, int64_t width) {
    const int64_t least = width > 2 ? width : 2;
    return m < GATHERED || least > GATHERED ? least : GATHERED;
}

/* Doubles of columns of Cmm while T is loaded, in the place of the residues of W. */
static int64_t columns_room(int64_t m, int64_t v, int64_t width, int moduli) {
    return (int64_t)larger(integer_bytes(moduli, v, m) / sizeof(double), (size_t)(m * width));
}

static layout layout_of(const backend *be, int64_t m, int64_t v, int64_t width, int64_t np,
                        int moduli, int moduli_factor) {
    const int64_t k = gathered_of(m, width), most = v > width ? v : width;
    const size_t d = sizeof(double);
    size_t room = cholesky_residues(be, m, moduli_factor, v);
    layout l = {.bytes = {[LOW] = (size_t)low_bytes(m, width, moduli, m),
                          [ALL_OF_W] = larger(integer_bytes(moduli, v, m),
                                              (size_t)columns_room(m, v, width, moduli) * d),
                          [Z_BYTES] = integer_bytes(moduli, v, width)}};
    l.bytes[WORK] = larger(
        (size_t)(16 * (most > np ? most : np)),
        larger(be->integer->workspace(moduli, v, width), be->integer->workspace(moduli, v, v)));
    if (np > 0) {
        l.bytes[WORK] = larger(l.bytes[WORK], be->integer->workspace(moduli, v, np));
        l.bytes[CPM] = (size_t)(np * k) * d;
        l.bytes[CPM_BYTES] = integer_bytes(moduli, np, k);
        l.bytes[COLUMNS] = (size_t)(v * k) * d;
        l.bytes[COLUMN_BYTES] = integer_bytes(moduli, v, k);
        l.bytes[PHASE] = (size_t)(v * np) * d;
    }
    for (int i = 0; i < ITEMS; i++) {
        l.bytes[i] = (l.bytes[i] + 255) / 256 * 256;
        l.inside[i] = l.bytes[i] <= room;
        room -= l.inside[i] ? l.bytes[i] : 0;
        l.apart += l.inside[i] ? 0 : l.bytes[i];
    }
    return l;
}

static void bytes(const sys *s, const factor_kind *f, plan *p) {
    const int64_t m = (int64_t)s->m, v = p->rows, w = (int64_t)p->width;
    const layout l = layout_of(p->be, m, v, w, p->points, p->moduli_exposure, p->moduli);
    const size_t d = sizeof(double);
    (void)f;
    plan_add(p, "its blocks on the diagonal", (size_t)(m * w) * d);
    plan_add(p, "residues of T and W",
             l.apart + (size_t)(m + 2 * v + p->points + GATHERED) * sizeof(int32_t));
    p->per_target = "W of a target";
    p->target = (size_t)(v * m) * d;
}

/* --- memory */

static void integers_close(product *base) {
    integers *x = (integers *)base;
    ENGINE_RELEASE(base->e, x->diag, x->of_t, x->of_w, x->of_z, x->of_p, x->inner);
    for (int i = 0; i < ITEMS; i++)
        base->e->be->release(base->e->ctx, x->own[i]);
}

static status take_items(integers *x) {
    engine *e = x->base.e;
    const dense_factor *f = (const dense_factor *)x->base.f;
    const layout l = layout_of(e->be, e->m, x->v, e->width, x->np, x->moduli, f->f.moduli);
    char *room = f->f.residues;
    status st = MOAO_OK;
    for (int i = 0; i < ITEMS && st == MOAO_OK; i++) {
        if (!l.inside[i])
            st = engine_array(e, l.bytes[i], "residues of T and W", &x->own[i]);
        x->at[i] = l.inside[i] ? room : x->own[i];
        room += l.inside[i] ? l.bytes[i] : 0;
    }
    x->lwork = l.bytes[WORK];
    return st;
}

static status take_numbers(integers *x, int64_t n, int32_t **to) {
    return engine_array(x->base.e, (size_t)n * sizeof **to, "exponents", (void **)to);
}

static status take_memory(integers *x) {
    engine *e = x->base.e;
    status st;
    TRY(engine_doubles(e, e->width * e->m, "blocks of Cmm", &x->diag));
    TRY(take_items(x));
    TRY(take_numbers(x, e->m, &x->of_t));
    TRY(take_numbers(x, x->v, &x->of_w));
    TRY(take_numbers(x, x->v, &x->of_z));
    TRY(take_numbers(x, x->np, &x->of_p));
    TRY(take_numbers(x, x->gathered, &x->inner));
    TRY(engine_work(e, e->be->workspace(BACKEND_TRMM, BACKEND_D, x->v, e->width)));
done:
    return st;
}

static status integers_open(product *base, const plan *p, const double *proj) {
    integers *x = (integers *)base;
    (void)proj;
    if (p->moduli == 0)
        return status_fail(MOAO_INPUT, "exposures by integers: compute.double is native");
    x->moduli = p->moduli_exposure;
    x->v = p->rows;
    x->np = p->points;
    x->gathered = gathered_of(base->e->m, base->e->width);
    return take_memory(x);
}

/* --- T */

static const dense_factor *factor_of(const integers *x) {
    return (const dense_factor *)x->base.f;
}

/* Residues of columns j .. j + n of T above its block on the diagonal, as rows. */
static integer_rows columns_of_t(const integers *x, int64_t j, int64_t n) {
    const int64_t m = x->base.e->m;
    int8_t *low = (int8_t *)x->at[LOW] + low_bytes(m, x->base.e->width, x->moduli, j);
    integer_rows r = integer_plain(x->moduli, n, j, low, x->of_t + j);
    if (is_above(m, x->moduli)) {
        r.first = ABOVE;
        r.r[0] = (int8_t *)(factor_of(x)->a + j * m);
        r.r[1] = low;
        r.ld[1] = r.ld[0], r.step[1] = r.step[0];
        r.ld[0] = (int64_t)sizeof(double) * m;
        r.step[0] = even(j);
    }
    return r;
}

/* Residues of W from column j on: divided among two arrays as those of T are. */
static integer_rows rows_of_w(const integers *x, int64_t j) {
    integer_rows r = integer_plain(x->moduli, x->v, x->base.e->m, x->at[ALL_OF_W], x->of_w);
    r.first = is_above(x->base.e->m, x->moduli) ? ABOVE : r.first;
    r.ld[1] = r.ld[0], r.step[1] = r.step[0];
    r.r[1] = r.r[0] + r.first * r.step[0] + j;
    r.r[0] += j;
    return r;
}

/* Residues of rows by scales of their own. */
static status to_residues(const integers *x, const integer_matrix *a, const integer_rows *r) {
    const engine *e = x->base.e;
    status st;
    TRY(e->be->integer->scale(e->ctx, x->moduli, e->m, a, r->exponent, x->at[WORK], x->lwork));
    TRY(e->be->integer->convert(e->ctx, x->moduli, a, r));
done:
    return st;
}

/* Rows of Cmm that residues of T in column j need: those above its panel. */
static int64_t rows_above(const engine *e, int64_t j) {
    return j / e->width * e->width;
}

/* Residues of columns j .. j + n of T, panel by panel; columns: of Cmm. */
static status convert_columns(const integers *x, int64_t j, int64_t n, const double *columns,
                              int64_t ld) {
    const engine *e = x->base.e;
    status st = MOAO_OK;
    for (int64_t from = j, to; from < j + n && st == MOAO_OK; from = to) {
        const int64_t k = rows_above(e, from), wide = engine_width(e, k, e->m);
        to = k + wide < j + n ? k + wide : j + n;
        if (k == 0)
            continue;
        const integer_matrix t = {
            'T', to - from, k, columns + (from - j) * ld, ld, factor_of(x)->f.exponent, 1, NULL};
        integer_rows r = columns_of_t(x, k, wide);
        for (int i = 0; i < 2; i++)
            r.r[i] += (from - k) * r.ld[i];
        r.exponent += from - k;
        st = to_residues(x, &t, &r);
    }
    return st;
}

/* The same of a sensor, or of as many of its columns as there is room for. */
static status load_columns(const integers *x) {
    engine *e = x->base.e;
    const int64_t most = columns_room(e->m, x->v, e->width, x->moduli) / e->m;
    double *columns = x->at[ALL_OF_W];
    status st = MOAO_OK;
    for (sensor_columns p = engine_first_columns(e, most); p.j < e->m;
         p = engine_columns_after(e, most, p)) {
        const int64_t n = p.end - p.j, rows = rows_above(e, p.end - 1);
        if (rows == 0)
            continue;
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'A', MATCOV_ALL, (matcov_region){0, rows, p.j, n},
                             columns, rows));
        TRY(convert_columns(x, p.j, n, columns, rows));
    }
done:
    return st;
}

static status integers_load(product *base, const profile *p) {
    integers *x = (integers *)base;
    engine *e = base->e;
    const int64_t m = e->m;
    status st = MOAO_OK;
    (void)p;
    report_phase("exposure: T of Cmm");
    ((dense_factor *)base->f)->mirrored = false;
    for (int64_t j = 0, n; j < m; j += n) {
        n = engine_width(e, j, m);
        TRY(e->mat->fill_cmm(e->cov, BACKEND_D, 'T', MATCOV_ALL, (matcov_region){j, n, j, n},
                             x->diag + j * e->width, e->width));
    }
    TRY(load_columns(x));
    TRY(engine_flip(e, "flip-t", x->diag));
done:
    return st;
}

/* --- a target */

static status integers_begin(product *base, const wrows *w, double *own) {
    integers *x = (integers *)base;
    const integer_matrix a = {'N', w->rows, base->e->m, w->w, w->ld, factor_of(x)->f.exponent,
                              -1,  NULL};
    const integer_rows r = rows_of_w(x, 0);
    (void)own;
    report_phase("exposure: residues of W");
    return to_residues(x, &a, &r);
}

static status integers_columns(product *base, const wrows *w, int64_t j, int64_t n, double *z,
                               int64_t ldz) {
    integers *x = (integers *)base;
    engine *e = base->e;
    status st;
    TRY(panel_diagonal(e, w, j, n, x->diag + j * e->width, e->width, z, ldz));
    if (j == 0)
        return st;
    const integer_product p = {.moduli = x->moduli,
                               .part = 'A',
                               .m = w->rows,
                               .n = n,
                               .k = j,
                               .alpha = 1,
                               .beta = 1,
                               .a = rows_of_w(x, 0),
                               .b = columns_of_t(x, j, n),
                               .c = z,
                               .ldc = ldz};
    TRY(e->be->integer->gemm(e->ctx, &p, x->at[WORK], x->lwork));
done:
    return st;
}

/* Y += Z(j) W(j)'. */
static status integers_gram(product *base, const wrows *w, int64_t j, int64_t n, const double *z,
                            int64_t ldz, double *y) {
    integers *x = (integers *)base;
    const engine *e = base->e;
    const integer_matrix a = {'N', w->rows, n, z, ldz, factor_of(x)->f.exponent + j, 1, NULL};
    integer_product p = {.moduli = x->moduli,
                         .part = 'A',
                         .m = w->rows,
                         .n = w->rows,
                         .k = n,
                         .alpha = 1,
                         .beta = j > 0 ? 1 : 0,
                         .a = integer_plain(x->moduli, x->v, n, x->at[Z_BYTES], x->of_z),
                         .b = rows_of_w(x, j),
                         .c = y,
                         .ldc = w->rows};
    status st;
    p.a.first = p.b.first;
    p.a.ld[1] = p.a.ld[0], p.a.step[1] = p.a.step[0];
    p.a.r[1] = p.a.r[0] + p.a.first * p.a.step[0];
    TRY(to_residues(x, &a, &p.a));
    TRY(e->be->integer->gemm(e->ctx, &p, x->at[WORK], x->lwork));
done:
    return st;
}

/* --- the residual phase */

/* W Cpm' += that of the columns gathered so far. */
static status flush(integers *x) {
    const engine *e = x->base.e;
    const int64_t k = x->count;
    const integer_matrix w = {'N', x->v, k, x->at[COLUMNS], x->v, x->inner, -1, NULL},
                         c = {'N', x->np, k, x->at[CPM], x->np, x->inner, 1, NULL};
    const integer_product p = {.moduli = x->moduli,
                               .part = 'A',
                               .m = x->v,
                               .n = x->np,
                               .k = k,
                               .alpha = 1,
                               .beta = x->begun ? 1 : 0,
                               .a = integer_plain(x->moduli, x->v, k, x->at[COLUMN_BYTES], x->of_z),
                               .b = integer_plain(x->moduli, x->np, k, x->at[CPM_BYTES], x->of_p),
                               .c = x->at[PHASE],
                               .ldc = x->v};
    status st = MOAO_OK;
    if (k == 0)
        return st;
    TRY(to_residues(x, &w, &p.a));
    TRY(to_residues(x, &c, &p.b));
    TRY(e->be->integer->gemm(e->ctx, &p, x->at[WORK], x->lwork));
    x->count = 0;
    x->begun = true;
done:
    return st;
}

/* Both axes of some subapertures, with their columns of W. */
static status gather(integers *x, backend_cov_target *target, const wrows *w, matcov_points at,
                     const slope_pairs *p) {
    const engine *e = x->base.e;
    const int64_t d = sizeof(double), i = sizeof(int32_t), bytes = p->n * i;
    status st;
    TRY(e->mat->fill_cpm_both(target, BACKEND_D, at, p->slopes,
                              (double *)x->at[CPM] + x->count * x->np, x->np));
    for (int axis = 0; axis < 2; axis++) {
        const int64_t from = p->column[axis];
        TRY(e->be->copy(e->ctx, (double *)x->at[COLUMNS] + x->count * x->v, x->v * d,
                        w->w + from * w->ld, w->ld * d, x->v * d, p->n));
        TRY(e->be->copy(e->ctx, x->inner + x->count, bytes, factor_of(x)->f.exponent + from, bytes,
                        bytes, 1));
        x->count += p->n;
    }
done:
    return st;
}

static status integers_phase(product *base, backend_cov_target *target, const wrows *w,
                             matcov_points at, int64_t j, int64_t n) {
    integers *x = (integers *)base;
    const engine *e = base->e;
    const int64_t most = e->width / 2 > 0 ? e->width / 2 : 1;
    status st = MOAO_OK;
    if (j == 0) { /* targets that share W have one `begin` */
        x->count = 0;
        x->begun = false;
    }
    for (slope_pairs p = {0}; slope_pairs_next(e->s, j, n, most, &p);) {
        if (x->count + 2 * p.n > x->gathered)
            TRY(flush(x));
        TRY(gather(x, target, w, at, &p));
    }
    if (j + n == e->m)
        TRY(flush(x));
done:
    return st;
}

static status integers_phase_end(product *base, const wrows *w, int64_t np, double *ct) {
    const integers *x = (const integers *)base;
    const engine *e = base->e;
    const int64_t d = sizeof(double), all = w->rows * np * d;
    return e->be->copy(e->ctx, ct, all, x->at[PHASE], all, all, 1);
}

const product_kind product_integer = {
    .size = sizeof(product_kind),
    .object = sizeof(integers),
    .name = "integer",
    .word = "exact",
    .exact = true,
    .own_phase = true,
    .width = 4096,
    .bytes = bytes,
    .open = integers_open,
    .close = integers_close,
    .load = integers_load,
    .begin = integers_begin,
    .columns = integers_columns,
    .gram = integers_gram,
    .phase = integers_phase,
    .phase_end = integers_phase_end,
};
