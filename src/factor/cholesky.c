/* Cmm0 = L L' over the devices of a group, L whole on each of them at the end.
 *
 * Columns are taken in panels, wide enough for products at full rate, and a panel is a few strips,
 * which go to the members in turn. Step k: panel k, final by now, is on every member. The owner of
 * each strip of panel k + 1 updates it by panel k; then, one strip after the other, its owner makes
 * it (Cholesky of its diagonal block, triangular solve below), it goes to all members, and the
 * owners of the strips behind it in the panel update those. Meanwhile all members update their
 * strips of the other panels by k in a second stream of low priority, the next panel's first: the
 * first stream waits for no others, and may run ahead. A member alone takes the same steps on the
 * same strips, so the factor is the same bit for bit, however many make it. */
#include "factor/cholesky.h"

#include "base/machine_constants.h"

#include <stdlib.h>

/* --- steps */

status cholesky_update(engine *e, backend_ctx *ctx, int64_t rows, int64_t n, int64_t k,
                       const double *a, int64_t lda, double *c, int64_t ldc, int64_t most,
                       bool work) {
    const double one = 1, minus = -1;
    void *room = work ? e->work : NULL;
    const size_t bytes = work ? e->lwork : 0;
    status st;
    TRY(e->be->syrk(ctx, BACKEND_D, 'L', 'N', n, k, &minus, a, lda, &one, c, ldc, room, bytes));
    for (int64_t i = n; i < rows; i += most)
        TRY(e->be->gemm(ctx, BACKEND_D, 'N', 'T', rows - i < most ? rows - i : most, n, k, &minus,
                        a + i, lda, a, lda, &one, c + i, ldc, room, bytes));
done:
    return st;
}

status cholesky_make(engine *e, int64_t rows, int64_t n, double *a, int64_t lda, int *info) {
    const double one = 1;
    status st;
    TRY(e->be->potrf(e->ctx, BACKEND_D, 'L', n, a, lda, info, e->work, e->lwork));
    if (rows > n)
        TRY(e->be->trsm(e->ctx, BACKEND_D, 'R', 'L', 'T', 'N', rows - n, n, &one, a, lda, a + n,
                        lda, e->work, e->lwork));
done:
    return st;
}

status cholesky_minor(engine *e, int64_t count, int64_t width, const int *info, int64_t first,
                      int64_t step, int *minor) {
    const int64_t bytes = count * (int64_t)sizeof(int);
    int *list = NULL;
    status st;
    *minor = 0;
    TRY(ALLOC(list, (size_t)count, "orders of minors"));
    st = e->be->copy(e->ctx, list, bytes, info, bytes, bytes, 1);
    if (st == MOAO_OK)
        st = engine_sync(e);
    if (st != MOAO_OK)
        e->be->sync(e->ctx); /* nothing may write to the list any more */
    for (int64_t k = first; k < count && st == MOAO_OK && *minor == 0; k += step)
        *minor = list[k] > 0 ? (int)(k * width) + list[k] : 0;
done:
    free(list);
    return st;
}

/* --- the order of a group */

void cholesky_widths(cholesky *f, int64_t panel) {
    const int64_t m = f->e->m;
    int64_t width = m >= 32768 && panel >= 2048 ? 4096 : panel; /* for products at full rate */
    width = width < m ? width : m;
    /* narrower strips would shorten what the members wait for, the road from panel to panel, but
     * their own products are slow */
    f->strip = width % 4 == 0 ? width / 4 : width % 2 == 0 ? width / 2 : width;
    f->block = width;
}

#define MESSAGE ((size_t)128 << 20) /* bytes that travel at a time */

status cholesky_join(cholesky *f, bool apart, bool say) {
    const engine *e = f->e;
    const size_t column = (size_t)e->m * sizeof(double);
    const size_t all = column * (size_t)f->strip;
    const size_t room = column > MESSAGE ? column : all < MESSAGE ? all : MESSAGE;
    status st = group_open(e->c, e->be, e->ctx, apart, false, room, f->group);
    if (st == MOAO_OK && say && e->c->rank == 0)
        group_tell(f->group);
    return st;
}

/* Columns of the strip at j. */
static int64_t strip_width(const cholesky *f, int64_t j) {
    return f->e->m - j < f->strip ? f->e->m - j : f->strip;
}

int64_t cholesky_strips(const cholesky *f) {
    return (f->e->m + f->strip - 1) / f->strip;
}

size_t cholesky_work(const cholesky *f) {
    const engine *e = f->e;
    size_t most = e->be->workspace(BACKEND_POTRF, BACKEND_D, f->strip, f->strip);
    for (int64_t j = f->strip; j < e->m; j += f->strip) {
        size_t solve = e->be->workspace(BACKEND_TRSM, BACKEND_D, e->m - j, f->strip);
        most = most > solve ? most : solve;
    }
    return most;
}

static bool is_mine(const cholesky *f, int64_t c) {
    return c % f->group->size == f->group->rank;
}

/* Element (i, j) of the array. */
static double *at(const cholesky *f, int64_t i, int64_t j) {
    return f->a + i + j * f->e->m;
}

/* Strip c, all updates made: its factor. */
static status make_strip(cholesky *f, int64_t c) {
    const int64_t j = c * f->strip;
    return cholesky_make(f->e, f->e->m - j, strip_width(f, j), at(f, j, j), f->e->m, f->info + c);
}

static status send_strip(cholesky *f, int64_t c) {
    const int64_t j = c * f->strip;
    return group_bcast(f->group, f->e->m - j, strip_width(f, j), at(f, j, j), f->e->m,
                       (int)(c % f->group->size));
}

/* This rank's strips of [from, to) -= the k columns of L at j times their rows of the strip. */
static status update_mine(cholesky *f, backend_ctx *ctx, int64_t j, int64_t k, int64_t from,
                          int64_t to) {
    const int64_t m = f->e->m;
    status st = MOAO_OK;
    for (int64_t c = from; c < to && st == MOAO_OK; c++) {
        const int64_t i = c * f->strip;
        if (is_mine(f, c))
            st = cholesky_update(f->e, ctx, m - i, strip_width(f, i), k, at(f, i, j), m,
                                 at(f, i, i), m, MACHINE_PRODUCT_ROWS, false);
    }
    return st;
}

/* What the second stream has of a step: strips [next, end) by panel `panel`. */
typedef struct {
    int64_t panel, next, end;
} trailing;

/* Its strips up to `to`. */
static status advance(cholesky *f, trailing *b, int64_t to) {
    status st = update_mine(f, f->e->low, b->panel * f->block, f->block, b->next, to);
    b->next = to > b->next ? to : b->next;
    return st;
}

/* The factor of panel p, updated by all panels before it, on every member. A message occupies a
 * part of its receiver until its other end is ready, so a receiver waits for it after a share of
 * the updates in the second stream. */
static status make_panel(cholesky *f, int64_t p, trailing *b) {
    const int64_t q = f->block / f->strip, from = p * q, start = b->next;
    const int64_t to = from + q < cholesky_strips(f) ? from + q : cholesky_strips(f);
    status st = MOAO_OK;
    for (int64_t c = from; c < to; c++) {
        if (is_mine(f, c)) {
            TRY(make_strip(f, c));
        } else {
            TRY(advance(f, b, start + (b->end - start) * (c - from + 1) / (to - from + 1)));
            TRY(f->e->be->wait_for(f->e->ctx, f->e->low));
        }
        TRY(send_strip(f, c));
        TRY(update_mine(f, f->e->ctx, c * f->strip, f->strip, c + 1, to));
    }
done:
    return st;
}

/* Step k; panel k is here, in order of the first stream. */
static status step(cholesky *f, int64_t k) {
    const int64_t q = f->block / f->strip, count = cholesky_strips(f);
    const int64_t from = (k + 1) * q, to = from + q < count ? from + q : count;
    trailing b = {k, to, count};
    status st;
    TRY(comm_fault(f->e->c, "factor"));
    TRY(f->e->be->wait_for(f->e->low, f->e->ctx));
    TRY(update_mine(f, f->e->ctx, k * f->block, f->block, from, to));
    TRY(advance(f, &b, to + q < count ? to + q : count));
    TRY(make_panel(f, k + 1, &b));
    TRY(f->e->be->wait_for(f->e->ctx, f->e->low)); /* of these, the next panel's strips */
    TRY(advance(f, &b, b.end));
done:
    return st;
}

static status factor_steps(cholesky *f) {
    const int64_t panels = (f->e->m + f->block - 1) / f->block;
    trailing none = {0};
    status st = make_panel(f, 0, &none);
    for (int64_t k = 0; k + 1 < panels && st == MOAO_OK; k++)
        st = step(f, k);
    if (st == MOAO_OK)
        st = f->e->be->wait_for(f->e->ctx, f->e->low);
    return st == MOAO_OK ? engine_sync(f->e) : st;
}

/* --- by integers, on this device alone: the bits are the same on each */

static integer_factor_options integer_options(int64_t m, int moduli) {
    integer_factor_options o = integer_factor_defaults(m, m % 2 == 0);
    o.moduli = moduli;
    return o;
}

size_t cholesky_residues(const backend *be, int64_t m, int moduli, int64_t rows) {
    const integer_factor_options o = integer_options(m, moduli);
    const size_t factor = integer_potrf_bytes(be, &o), solve = integer_solve_bytes(be, &o, rows);
    return factor > solve ? factor : solve;
}

static status factor_integers(cholesky *f, int *minor) {
    const int64_t m = f->e->m;
    const integer_factor_options o = integer_options(m, f->moduli);
    int64_t order = 0;
    status st;
    TRY(comm_fault(f->e->c, "factor"));
    TRY(integer_potrf(f->e->be, f->e->ctx, &o, f->a, m, f->exponent, &order, f->residues,
                      cholesky_residues(f->e->be, m, f->moduli, f->rows)));
    *minor = (int)order;
    if (f->of_solve != NULL) {
        const int64_t bytes = m * (int64_t)sizeof(int32_t);
        TRY(f->e->be->copy(f->e->ctx, f->of_solve, bytes, f->exponent, bytes, bytes, 1));
        TRY(integer_exponents(f->e->be, f->e->ctx, &o, f->solve_moduli, f->of_solve));
    }
    st = engine_sync(f->e);
done:
    return st;
}

#define SOLVED_TOGETHER 16

status cholesky_solve_integers(const cholesky *f, int n, const wrows *w) {
    const integer_factor_options o = integer_options(f->e->m, f->solve_moduli);
    const size_t bytes = cholesky_residues(f->e->be, f->e->m, f->moduli, f->rows);
    const int32_t *exponent = f->of_solve != NULL ? f->of_solve : f->exponent;
    integer_solve_rows rows[SOLVED_TOGETHER];
    status st = MOAO_OK;
    for (int k = 0, count; k < n && st == MOAO_OK; k += count) {
        count = n - k < SOLVED_TOGETHER ? n - k : SOLVED_TOGETHER;
        for (int i = 0; i < count; i++)
            rows[i] = (integer_solve_rows){w[k + i].rows, w[k + i].w, w[k + i].ld};
        st = integer_solve(f->e->be, f->e->ctx, &o, f->a, f->e->m, exponent, count, rows,
                           f->residues, bytes);
    }
    return st;
}

/* Columns of Cmm0, on and below the diagonal, a sensor's at a time. */
static status fill_sensors(cholesky *f) {
    engine *e = f->e;
    status st = MOAO_OK;
    for (sensor_columns p = engine_first_columns(e, e->m); p.j < e->m && st == MOAO_OK;
         p = engine_columns_after(e, e->m, p))
        st = e->mat->fill_cmm(e->cov, BACKEND_D, 'L', MATCOV_ALL,
                              (matcov_region){p.j, e->m - p.j, p.j, p.end - p.j}, at(f, p.j, p.j),
                              e->m);
    return st;
}

/* The same of this rank's strips. */
static status fill_strips(cholesky *f) {
    engine *e = f->e;
    status st = MOAO_OK;
    for (int64_t c = f->group->rank; c < cholesky_strips(f) && st == MOAO_OK; c += f->group->size) {
        const int64_t j = c * f->strip;
        st =
            e->mat->fill_cmm(e->cov, BACKEND_D, 'L', MATCOV_ALL,
                             (matcov_region){j, e->m - j, j, strip_width(f, j)}, at(f, j, j), e->m);
    }
    return st;
}

/* A factor by integers is each device's own, and has all sensors. */
static status fill_columns(cholesky *f, const profile *p) {
    status st;
    TRY(engine_load(f->e, p));
    TRY(f->moduli > 0 ? fill_sensors(f) : fill_strips(f));
    TRY(engine_sync(f->e));
done:
    return st;
}

status cholesky_factor(cholesky *f, const profile *p, int *minor) {
    report *rep = f->e->rep;
    const double m = (double)f->e->m;
    double from = report_now();
    report_phase("reconstructor: Cmm");
    status st = fill_columns(f, p);
    TIMED_WAIT(rep, STAGE_MATCOV, st = group_agree(f->group, st));
    rep->wall[STAGE_MATCOV] += report_now() - from;
    if (st != MOAO_OK)
        return st;
    from = report_now();
    report_phase("reconstructor: Cholesky");
    st = f->moduli > 0 ? factor_integers(f, minor) : factor_steps(f);
    if (st == MOAO_OK && f->moduli == 0)
        st = cholesky_minor(f->e, cholesky_strips(f), f->strip, f->info, f->group->rank,
                            f->group->size, minor);
    /* others may wait for panels of this rank; without a message it was told of a failure elsewhere
     */
    if (st != MOAO_OK && f->group->size > 1 && status_message()[0] != '\0')
        comm_abort(f->e->c);
    rep->flops[STAGE_FACTOR] += m * m * m / 3 / f->group->size;
    rep->wall[STAGE_FACTOR] += report_now() - from;
    return st;
}
