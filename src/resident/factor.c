/* Cmm0 = L L' over the devices of a group, L whole on each of them at the end.
 *
 * Block columns go to the members in turn. Step k: block column k, final by now, is on every
 * member; the owner of block column k + 1 makes it (update by k, Cholesky of its diagonal block,
 * triangular solve below) and sends it, while all members update their other block columns by k in
 * a second stream that gives way to the first. A member alone takes the same steps on the same
 * blocks, so the factor is the same bit for bit, however many make it. */
#include "resident/internal.h"

#include <stdlib.h>

/* Wide enough for products at full rate, and even so a small part of the columns: the members wait
 * for the last blocks. */
int64_t factor_width(int64_t m, int64_t panel) {
    const int64_t width = m >= 32768 && panel >= 2048 ? 4096 : panel;
    return width < m ? width : m;
}

/* Columns of the block at j. */
static int64_t block_width(const resident *r, int64_t j) {
    return r->m - j < r->block ? r->m - j : r->block;
}

int64_t factor_blocks(const resident *r) {
    return (r->m + r->block - 1) / r->block;
}

size_t factor_work(const resident *r) {
    size_t most = r->be->workspace(BACKEND_POTRF, BACKEND_D, r->block, r->block);
    for (int64_t j = r->block; j < r->m; j += r->block) {
        size_t solve = r->be->workspace(BACKEND_TRSM, BACKEND_D, r->m - j, r->block);
        most = most > solve ? most : solve;
    }
    return most;
}

static bool is_mine(const resident *r, int64_t k) {
    return k % r->group.size == r->group.rank;
}

/* Element (i, j) of the array. */
static double *at(const resident *r, int64_t i, int64_t j) {
    return r->a + i + j * r->m;
}

/* Block column k, all updates made: its factor. */
static status make_panel(resident *r, int64_t k) {
    const int64_t j = k * r->block, n = block_width(r, j), below = r->m - j - n;
    const double one = 1;
    status st;
    TRY(r->be->potrf(r->ctx, BACKEND_D, 'L', n, at(r, j, j), r->m, r->info + k, r->work, r->lwork));
    if (below > 0)
        TRY(r->be->trsm(r->ctx, BACKEND_D, 'R', 'L', 'T', 'N', below, n, &one, at(r, j, j), r->m,
                        at(r, j + n, j), r->m, r->work, r->lwork));
done:
    return st;
}

static status send_panel(resident *r, int64_t k) {
    const int64_t j = k * r->block;
    return group_bcast(&r->group, r->m - j, block_width(r, j), at(r, j, j), r->m,
                       (int)(k % r->group.size));
}

/* Block column c -= panel k times its rows of c. */
static status update(resident *r, backend_ctx *ctx, int64_t k, int64_t c) {
    const int64_t m = r->m, j = k * r->block, i = c * r->block, n = block_width(r, i);
    const double one = 1, minus = -1;
    status st;
    TRY(r->be->syrk(ctx, BACKEND_D, 'L', 'N', n, r->block, &minus, at(r, i, j), m, &one,
                    at(r, i, i), m, NULL, 0));
    if (i + n < m)
        TRY(r->be->gemm(ctx, BACKEND_D, 'N', 'T', m - i - n, n, r->block, &minus, at(r, i + n, j),
                        m, at(r, i, j), m, &one, at(r, i + n, i), m, NULL, 0));
done:
    return st;
}

/* This rank's block columns of [from, to) by panel k, in the second stream. */
static status update_mine(resident *r, int64_t k, int64_t from, int64_t to) {
    status st = MOAO_OK;
    for (int64_t c = from; c < to && st == MOAO_OK; c++)
        if (is_mine(r, c))
            st = update(r, r->behind, k, c);
    return st;
}

/* One step; panel k is here, in order of the first stream. A message may occupy part of a device
 * until its other end is ready, so it starts after half of the updates: by then both ends are. */
static status step(resident *r, int64_t k) {
    const backend *be = r->be;
    const int64_t count = factor_blocks(r), half = (k + 2 + count) / 2;
    status st = MOAO_OK;
    if (k + 1 == count)
        goto done;
    TRY(comm_fault(r->u.c, "factor"));
    TRY(be->after(r->behind, r->ctx));
    TRY(be->after(r->ctx, r->behind));
    if (is_mine(r, k + 1)) {
        TRY(update(r, r->ctx, k, k + 1));
        TRY(make_panel(r, k + 1));
    }
    TRY(update_mine(r, k, k + 2, half));
    if (r->group.size > 1)
        TRY(be->after(r->ctx, r->behind));
    TRY(send_panel(r, k + 1));
    TRY(update_mine(r, k, half, count));
done:
    return st;
}

static status factor_steps(resident *r) {
    const int64_t count = factor_blocks(r);
    status st = is_mine(r, 0) ? make_panel(r, 0) : MOAO_OK;
    if (st == MOAO_OK)
        st = send_panel(r, 0);
    for (int64_t k = 0; k < count && st == MOAO_OK; k++)
        st = step(r, k);
    if (st == MOAO_OK)
        st = r->be->after(r->ctx, r->behind);
    return st == MOAO_OK ? resident_sync(r) : st;
}

/* The order of the first minor that is not positive among this rank's blocks, 0: none. */
static status first_minor(resident *r, int *minor) {
    const int64_t count = factor_blocks(r);
    const int64_t bytes = count * (int64_t)sizeof(int);
    int *info = NULL;
    status st;
    *minor = 0;
    TRY(ALLOC(info, (size_t)count, "orders of minors"));
    TRY(r->be->copy(r->ctx, info, bytes, r->info, bytes, bytes, 1));
    TRY(resident_sync(r));
    for (int64_t k = count - 1; k >= 0; k--)
        if (is_mine(r, k) && info[k] > 0)
            *minor = (int)(k * r->block) + info[k];
done:
    free(info);
    return st;
}

/* This rank's block columns of Cmm0, on and below the diagonal. */
static status fill_columns(resident *r, const profile *p) {
    const int64_t m = r->m;
    status st;
    TRY(resident_load(r, p));
    for (int64_t k = r->group.rank; k < factor_blocks(r); k += r->group.size) {
        const int64_t j = k * r->block;
        TRY(r->mat->fill_cmm(r->cov, BACKEND_D, 'L', MATCOV_ALL, j, m - j, j, block_width(r, j),
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
