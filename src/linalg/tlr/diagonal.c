/* The factor of the block on the diagonal of a block column, and what is done where compression, or
 * the matrix, makes a pivot that is not positive. */
#include "factoring.h"

#include <math.h>

/* How often a tile of the Schur complement at block column p may have been compressed. */
static double compressions(const tlr_factoring *s, int64_t p) {
    return s->trailing ? 1 + (double)p : s->from->a ? 2 : 1;
}

static status add_to_diagonal(tlr_factoring *s, double delta, int64_t n, double *d, int64_t ldd) {
    const int64_t e = sizeof(double);
    double *host = NULL;
    status st;
    TRY(ALLOC(host, (size_t)n, "diagonal"));
    TRY(s->w.be->copy(s->w.ctx, host, e, d, e * (ldd + 1), e, n));
    TRY(s->w.be->sync(s->w.ctx));
    for (int64_t i = 0; i < n; i++)
        host[i] += delta;
    TRY(s->w.be->copy(s->w.ctx, d, e * (ldd + 1), host, e, e, n));
    TRY(s->w.be->sync(s->w.ctx));
done:
    free(host);
    return st;
}

static int *minor_of(const tlr_factoring *s) {
    return (int *)(void *)((char *)s->answer + sizeof(double));
}

/* Factor of the block on the diagonal, as it is. */
static status begin_block(tlr_factoring *s, int64_t n, double *d, int64_t ldd) {
    const backend *be = s->w.be;
    status st;
    TRY(tlr_work_bytes(&s->w, be->workspace(BACKEND_POTRF, BACKEND_D, n, n)));
    TRY(be->fp16->max_abs(s->w.ctx, BACKEND_D, n, n, d, ldd, s->answer));
    st = be->potrf(s->w.ctx, BACKEND_D, 'L', n, d, ldd, minor_of(s), s->w.work, s->w.lwork);
done:
    return st;
}

/* What came of it; *info as potrf's. Waits. */
static status end_own_block(tlr_factoring *s, int *info) {
    const backend *be = s->w.be;
    const int *minor = minor_of(s);
    double peak;
    status st;
    TRY(be->copy(s->w.ctx, &peak, sizeof peak, s->answer, sizeof peak, sizeof peak, 1));
    TRY(be->copy(s->w.ctx, info, sizeof *info, minor, sizeof *info, sizeof *info, 1));
    TRY(be->sync(s->w.ctx));
    if (!isfinite(peak))
        st = status_fail(MOAO_NUMERIC, "the matrix to be factored holds a number that is not "
                                       "finite");
done:
    return st;
}

/* The same; *info is the same on all processes. */
static status end_block(tlr_factoring *s, int *info) {
    status st = end_own_block(s, info);
    int64_t most = *info;
    st = tlr_merge(s->from->members, st, &most, 1);
    *info = (int)most;
    return st;
}

/* Whether the matrix itself is not positive definite where report->minor is, for all members. */
static status look_at_pivot(tlr_factoring *s, int64_t p, const double *block, int info) {
    status st = s->side ? s->w.be->sync(s->side) : MOAO_OK;
    tlr_store_forget(&s->ahead); /* a block column is in the places of one of them alone */
    if (st == MOAO_OK)
        st = tlr_pivot_is_certain(&s->w, s->l, p, block, info, compressions(s, p),
                                  &s->report->not_positive);
    tlr_store_forget(&s->w);
    int64_t certain = s->report->not_positive;
    st = tlr_merge(s->from->members, st, &certain, 1);
    s->report->not_positive = certain != 0;
    return st;
}

status tlr_diagonal_begin(tlr_factoring *s, const tlr_step *x) {
    const int64_t n = s->l->panel[x->p].width;
    double *block;
    status st;
    TRY(tlr_work_room(&s->w, BUF_METRIC, n * n, &block));
    TRY(tlr_dense_copy(&s->w, n, n, x->d, x->ldd, block, n));
    TRY(begin_block(s, n, x->d, x->ldd));
    tlr_work_lap(&s->w, TLR_PIVOTS);
done:
    return st;
}

status tlr_diagonal_end(tlr_factoring *s, const tlr_step *x) {
    const int64_t p = x->p, n = s->l->panel[p].width;
    double *const block = s->w.buf[BUF_METRIC];
    double delta = s->l->o.tau * (double)tlr_compressed_before(s->l, p);
    int info = 0;
    status st;
    TRY(end_block(s, &info));
    if (info == 0)
        return MOAO_OK;
    s->report->minor = s->l->cols->first[s->l->panel[p].c0] + info;
    if (s->l->o.mixed)
        return MOAO_OK; /* in doubles first: no bound of the roundings is known */
    TRY(look_at_pivot(s, p, block, info));
    if (s->report->not_positive || !s->last || !(delta > 0))
        return MOAO_OK;
    for (; delta <= s->rescue->shift; delta *= 2) {
        TRY(tlr_dense_copy(&s->w, n, n, block, n, x->d, x->ldd));
        TRY(add_to_diagonal(s, delta, n, x->d, x->ldd));
        TRY(begin_block(s, n, x->d, x->ldd));
        TRY(end_block(s, &info));
        if (info == 0) {
            s->report->shifts++;
            s->report->shift = fmax(s->report->shift, delta);
            s->report->minor = 0;
            break;
        }
    }
done:
    return st;
}
