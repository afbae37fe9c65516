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
#include "resident/internal.h"

#include <stdlib.h>

/* Rows of a product: what it reads and writes then stays in the second-level cache of a GPU, which
 * a product with a narrow strip that is as long as the matrix leaves (H200, strips of 1024 columns:
 * 57 instead of 50 TFLOP/s, as much as with strips of 4096). */
#define ROWS ((int64_t)4096)

/* Wide enough for products at full rate. */
int64_t factor_width(int64_t m, int64_t panel) {
    const int64_t width = m >= 32768 && panel >= 2048 ? 4096 : panel;
    return width < m ? width : m;
}

/* Narrower ones would shorten what the members wait for, the road from panel to panel, but their
 * own products are slow. */
int64_t factor_strip(int64_t width) {
    return width % 4 == 0 ? width / 4 : width % 2 == 0 ? width / 2 : width;
}

/* Columns of the strip at j. */
static int64_t strip_width(const resident *r, int64_t j) {
    return r->m - j < r->strip ? r->m - j : r->strip;
}

int64_t factor_strips(const resident *r) {
    return (r->m + r->strip - 1) / r->strip;
}

size_t factor_work(const resident *r) {
    size_t most = r->be->workspace(BACKEND_POTRF, BACKEND_D, r->strip, r->strip);
    for (int64_t j = r->strip; j < r->m; j += r->strip) {
        size_t solve = r->be->workspace(BACKEND_TRSM, BACKEND_D, r->m - j, r->strip);
        most = most > solve ? most : solve;
    }
    return most;
}

static bool is_mine(const resident *r, int64_t c) {
    return c % r->group.size == r->group.rank;
}

/* Element (i, j) of the array. */
static double *at(const resident *r, int64_t i, int64_t j) {
    return r->a + i + j * r->m;
}

/* Strip c, all updates made: its factor. */
static status make_strip(resident *r, int64_t c) {
    const int64_t j = c * r->strip, n = strip_width(r, j), below = r->m - j - n;
    const double one = 1;
    status st;
    TRY(r->be->potrf(r->ctx, BACKEND_D, 'L', n, at(r, j, j), r->m, r->info + c, r->work, r->lwork));
    if (below > 0)
        TRY(r->be->trsm(r->ctx, BACKEND_D, 'R', 'L', 'T', 'N', below, n, &one, at(r, j, j), r->m,
                        at(r, j + n, j), r->m, r->work, r->lwork));
done:
    return st;
}

static status send_strip(resident *r, int64_t c) {
    const int64_t j = c * r->strip;
    return group_bcast(&r->group, r->m - j, strip_width(r, j), at(r, j, j), r->m,
                       (int)(c % r->group.size));
}

/* Strip c -= the k columns of L at j times their rows of c. */
static status update(resident *r, backend_ctx *ctx, int64_t j, int64_t k, int64_t c) {
    const int64_t m = r->m, i = c * r->strip, n = strip_width(r, i);
    const double one = 1, minus = -1;
    status st;
    TRY(r->be->syrk(ctx, BACKEND_D, 'L', 'N', n, k, &minus, at(r, i, j), m, &one, at(r, i, i), m,
                    NULL, 0));
    for (int64_t from = i + n; from < m; from += ROWS)
        TRY(r->be->gemm(ctx, BACKEND_D, 'N', 'T', m - from < ROWS ? m - from : ROWS, n, k, &minus,
                        at(r, from, j), m, at(r, i, j), m, &one, at(r, from, i), m, NULL, 0));
done:
    return st;
}

/* This rank's strips of [from, to) by the k columns at j. */
static status update_mine(resident *r, backend_ctx *ctx, int64_t j, int64_t k, int64_t from,
                          int64_t to) {
    status st = MOAO_OK;
    for (int64_t c = from; c < to && st == MOAO_OK; c++)
        if (is_mine(r, c))
            st = update(r, ctx, j, k, c);
    return st;
}

/* What the second stream has of a step: strips [next, end) by panel `panel`. */
typedef struct {
    int64_t panel, next, end;
} trailing;

/* Its strips up to `to`. */
static status advance(resident *r, trailing *b, int64_t to) {
    status st = update_mine(r, r->behind, b->panel * r->block, r->block, b->next, to);
    b->next = to > b->next ? to : b->next;
    return st;
}

/* The factor of panel p, updated by all panels before it, on every member. A message occupies a
 * part of its receiver until its other end is ready, so a receiver waits for it after a share of
 * the updates in the second stream. */
static status make_panel(resident *r, int64_t p, trailing *b) {
    const int64_t q = r->block / r->strip, from = p * q, start = b->next;
    const int64_t to = from + q < factor_strips(r) ? from + q : factor_strips(r);
    status st = MOAO_OK;
    for (int64_t c = from; c < to; c++) {
        if (is_mine(r, c)) {
            TRY(make_strip(r, c));
        } else {
            TRY(advance(r, b, start + (b->end - start) * (c - from + 1) / (to - from + 1)));
            TRY(r->be->after(r->ctx, r->behind));
        }
        TRY(send_strip(r, c));
        TRY(update_mine(r, r->ctx, c * r->strip, r->strip, c + 1, to));
    }
done:
    return st;
}

/* Step k; panel k is here, in order of the first stream. */
static status step(resident *r, int64_t k) {
    const int64_t q = r->block / r->strip, count = factor_strips(r);
    const int64_t from = (k + 1) * q, to = from + q < count ? from + q : count;
    trailing b = {k, to, count};
    status st;
    TRY(comm_fault(r->u.c, "factor"));
    TRY(r->be->after(r->behind, r->ctx));
    TRY(update_mine(r, r->ctx, k * r->block, r->block, from, to));
    TRY(advance(r, &b, to + q < count ? to + q : count));
    TRY(make_panel(r, k + 1, &b));
    TRY(r->be->after(r->ctx, r->behind)); /* of these, the next panel's strips */
    TRY(advance(r, &b, b.end));
done:
    return st;
}

static status factor_steps(resident *r) {
    const int64_t panels = (r->m + r->block - 1) / r->block;
    trailing none = {0};
    status st = make_panel(r, 0, &none);
    for (int64_t k = 0; k + 1 < panels && st == MOAO_OK; k++)
        st = step(r, k);
    if (st == MOAO_OK)
        st = r->be->after(r->ctx, r->behind);
    return st == MOAO_OK ? resident_sync(r) : st;
}

/* The order of the first minor that is not positive among this rank's strips, 0: none. */
static status first_minor(resident *r, int *minor) {
    const int64_t count = factor_strips(r);
    const int64_t bytes = count * (int64_t)sizeof(int);
    int *info = NULL;
    status st;
    *minor = 0;
    TRY(ALLOC(info, (size_t)count, "orders of minors"));
    TRY(r->be->copy(r->ctx, info, bytes, r->info, bytes, bytes, 1));
    TRY(resident_sync(r));
    for (int64_t k = count - 1; k >= 0; k--)
        if (is_mine(r, k) && info[k] > 0)
            *minor = (int)(k * r->strip) + info[k];
done:
    free(info);
    return st;
}

/* This rank's strips of Cmm0, on and below the diagonal. */
static status fill_columns(resident *r, const profile *p) {
    const int64_t m = r->m;
    status st;
    TRY(resident_load(r, p));
    for (int64_t c = r->group.rank; c < factor_strips(r); c += r->group.size) {
        const int64_t j = c * r->strip;
        TRY(r->mat->fill_cmm(r->cov, BACKEND_D, 'L', MATCOV_ALL, j, m - j, j, strip_width(r, j),
                             at(r, j, j), m));
    }
    TRY(resident_sync(r));
done:
    return st;
}

/* From the filled columns. A rank that fails here ends the run when others may wait for its panels;
 * one without a message was only told of a failure elsewhere. */
static status factor_columns(resident *r, int *minor) {
    const double m = (double)r->m;
    status st = factor_steps(r);
    if (st == MOAO_OK)
        st = first_minor(r, minor);
    if (st != MOAO_OK && r->group.size > 1 && status_message()[0] != '\0')
        comm_abort(r->u.c);
    r->u.rep->flops[STAGE_FACTOR] += m * m * m / 3 / r->group.size;
    return st;
}

status factor_make(resident *r, const profile *p, int *minor) {
    report *rep = r->u.rep;
    double from = report_now();
    report_phase("reconstructor: Cmm");
    status st = fill_columns(r, p);
    ROWS_WAIT(&r->team, STAGE_MATCOV, st = group_agree(&r->group, st));
    rep->wall[STAGE_MATCOV] += report_now() - from;
    if (st != MOAO_OK)
        return st;
    from = report_now();
    report_phase("reconstructor: Cholesky");
    st = factor_columns(r, minor);
    rep->wall[STAGE_FACTOR] += report_now() - from;
    return st;
}
