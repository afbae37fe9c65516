/* The interface of formats: arguments are checked here, then the kind's own table is called. */
#include "internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const hier_table *const known[] = {&hier_dense, &hier_toeplitz, &hier_hss, &hier_h2};

const hier_table *hier_table_of(hier_kind kind) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i]->kind == kind)
            return known[i];
    return NULL;
}

static status check_coordinates(const hier_source *s) {
    for (int64_t i = 0; i < s->rows * s->dim; i++)
        if (!isfinite(s->at[i]))
            return status_fail(MOAO_NUMERIC, "coordinate %lld of point %lld of a source is %g",
                               (long long)(i % s->dim), (long long)(i / s->dim), s->at[i]);
    return MOAO_OK;
}

static status check_shape(const hier_source *s) {
    if (s->rows < 0 || s->cols < 0 || s->rows > INT32_MAX || s->cols > INT32_MAX || s->dim < 0 ||
        s->dim > 3 || (s->symmetric && s->rows != s->cols) ||
        (s->dim > 0 && s->rows > 0 && s->at == NULL))
        return status_fail(MOAO_INPUT, "a source of %lld x %lld entries at points of %d dimensions",
                           (long long)s->rows, (long long)s->cols, s->dim);
    return check_coordinates(s);
}

static status check_source(const backend *be, const hier_source *s, const hier_options *o) {
    if (!hier_table_of(o->kind))
        return status_fail(MOAO_INPUT, "format %d is not part of this library", (int)o->kind);
    if (o->type != BACKEND_D && o->type != BACKEND_S)
        return status_fail(MOAO_INPUT, "a format has numbers of type D or S");
    if (!be->hier)
        return status_fail(MOAO_INPUT, "the %s backend has no operations of formats", be->name);
    if (!(o->tol >= 0) || o->leaf < 0 || o->rank < 0 || o->samples < 0 || o->order < 0 ||
        o->together < 0 || o->verify < 0)
        return status_fail(MOAO_INPUT, "an option of a format is negative");
    return check_shape(s);
}

status hier_bytes(const backend *be, const hier_source *s, const hier_options *o, size_t *bytes,
                  size_t *most_work) {
    const status st = check_source(be, s, o);
    return st != MOAO_OK ? st : hier_table_of(o->kind)->bytes(be, s, o, bytes, most_work);
}

status hier_open(const backend *be, backend_ctx *ctx, const hier_source *s, const hier_options *o,
                 format **out) {
    status st;
    *out = NULL;
    TRY(check_source(be, s, o));
    TRY(hier_table_of(o->kind)->open(be, ctx, s, o, out));
    st = hier_finite(*out);
done:
    if (st != MOAO_OK) {
        hier_close(*out);
        *out = NULL;
    }
    return st;
}

void hier_begin(format *f, const hier_table *is, const backend *be, backend_ctx *ctx,
                const hier_source *s, const hier_options *o) {
    f->is = is, f->be = be, f->ctx = ctx, f->o = *o, f->symmetric = s->symmetric;
    f->info.kind = is->kind, f->info.rows = s->rows, f->info.cols = s->cols;
    f->info.error = f->info.worst = f->info.rcond = NAN;
}

status hier_load(format *f, const hier_source *s) {
    status st;
    TRY(hier_fits(f, s));
    f->info.error = f->info.worst = f->info.rcond = NAN;
    f->lost = true;
    TRY(f->is->load(f, s));
    TRY(hier_finite(f));
    f->lost = false;
done:
    return st;
}

status hier_fits(const format *f, const hier_source *s) {
    if (s->rows != f->info.rows || s->cols != f->info.cols || s->symmetric != f->symmetric)
        return status_fail(MOAO_INPUT, "a format of %lld x %lld takes no source of another shape",
                           (long long)f->info.rows, (long long)f->info.cols);
    return check_shape(s);
}

status hier_has_values(const format *f) {
    return f->lost ? status_fail(MOAO_INPUT, "a format whose load or compression has failed holds "
                                             "no matrix: hier_load gives it one")
                   : MOAO_OK;
}

void hier_close(format *f) {
    if (f)
        f->is->close(f);
}

size_t hier_workspace(const format *f, char side, int64_t nvec) {
    return f->is->workspace(f, side, nvec);
}

/* Arguments of a product. */
static status check_product(const format *f, char side, char trans, char part, int64_t nvec,
                            int64_t ldx, int64_t ldy, size_t lwork) {
    const bool left = side == 'L', turned = (trans != 'N') == left;
    const int64_t in = turned ? f->info.rows : f->info.cols,
                  out = turned ? f->info.cols : f->info.rows;
    if (!strchr("LR", side) || !strchr("NTC", trans) || !strchr("AH", part) || nvec < 0 ||
        ldx < (left ? in : nvec) || ldy < (left ? out : nvec) || ldx < 1 || ldy < 1 ||
        (part == 'H' && !f->symmetric))
        return status_fail(MOAO_INPUT, "hier_apply: an argument is out of range");
    if (lwork < f->is->workspace(f, side, nvec))
        return status_fail(MOAO_INPUT, "hier_apply: work is smaller than hier_workspace tells");
    return hier_has_values(f);
}

/* Whether a product has nothing to write. */
static bool nothing(const format *f, char side, char trans, int64_t nvec) {
    const bool turned = (trans != 'N') == (side == 'L');
    return nvec == 0 || (turned ? f->info.cols : f->info.rows) == 0;
}

static char trans_of(const format *f, char trans) {
    return f->symmetric || trans == 'N' ? 'N' : 'T';
}

/* part H: A / 2. */
static status multiply(const format *f, char part, size_t lwork, hier_product q) {
    const status st = check_product(f, q.side, q.trans, part, q.nvec, q.ldx, q.ldy, lwork);
    if (st != MOAO_OK || nothing(f, q.side, q.trans, q.nvec))
        return st;
    q.trans = trans_of(f, q.trans);
    if (part == 'H')
        q.alpha /= 2;
    return f->is->apply(f, &q);
}

status hier_apply(const format *f, char side, char trans, char part, int64_t nvec, double alpha,
                  const void *x, int64_t ldx, double beta, void *y, int64_t ldy, void *work,
                  size_t lwork) {
    return multiply(f, part, lwork,
                    (hier_product){side, trans, nvec, alpha, NULL, x, ldx, beta, y, ldy, work});
}

/* --- products of which one side is kept */

size_t hier_kept_bytes(const format *f, int64_t nvec) {
    return f->is->keep && nvec > 0 ? f->is->kept_bytes(f, nvec) : 0;
}

static status check_kept(const format *f, int64_t nvec, size_t lkept) {
    return lkept < hier_kept_bytes(f, nvec)
               ? status_fail(MOAO_INPUT, "what is kept is smaller than hier_kept_bytes tells")
               : MOAO_OK;
}

status hier_keep(const format *f, char side, int64_t nvec, const void *x, int64_t ldx, void *kept,
                 size_t lkept, void *work, size_t lwork) {
    status st;
    TRY(check_product(f, side, 'N', 'A', nvec, ldx, INT64_MAX, lwork));
    TRY(check_kept(f, nvec, lkept));
    if (f->is->keep && !nothing(f, side, 'N', nvec))
        st = f->is->keep(f, side, nvec, x, ldx, kept, work);
done:
    return st;
}

status hier_apply_kept(const format *f, char side, char trans, char part, int64_t nvec,
                       double alpha, const void *kept, size_t lkept, const void *x, int64_t ldx,
                       double beta, void *y, int64_t ldy, void *work, size_t lwork) {
    const void *used = f->is->keep ? kept : NULL;
    const status st = check_kept(f, nvec, lkept);
    return st != MOAO_OK ? st
                         : multiply(f, part, lwork,
                                    (hier_product){side, trans, nvec, alpha, used, x, ldx, beta, y,
                                                   ldy, work});
}

status hier_factor(format *f, double shift) {
    if (!f->is->factor)
        return status_fail(MOAO_INPUT, "format '%s' has no factor: use HSS", f->is->name);
    if (!isfinite(shift))
        return status_fail(MOAO_INPUT, "hier_factor: the shift is %g", shift);
    const status st = hier_has_values(f);
    return st != MOAO_OK ? st : f->is->factor(f, shift);
}

size_t hier_solve_workspace(const format *f, int64_t nvec) {
    return f->is->solve_workspace ? f->is->solve_workspace(f, nvec) : 0;
}

status hier_solve(const format *f, char trans, int64_t nvec, void *x, int64_t ldx, void *work,
                  size_t lwork) {
    if (!f->is->solve)
        return status_fail(MOAO_INPUT, "format '%s' solves no systems: use HSS", f->is->name);
    if (!strchr("NTC", trans) || nvec < 0 || ldx < f->info.rows || ldx < 1 ||
        lwork < hier_solve_workspace(f, nvec))
        return status_fail(MOAO_INPUT, "hier_solve: an argument is out of range");
    const status st = hier_has_values(f);
    return st != MOAO_OK || nvec == 0
               ? st
               : f->is->solve(f, trans == 'N' ? 'N' : 'T', nvec, x, ldx, work);
}

status hier_compress(format *f, double tol, char weights, int samples) {
    if (!f->is->compress)
        return status_fail(MOAO_INPUT, "format '%s' is not compressed any further", f->is->name);
    if (!(tol >= 0) || !strchr("NW", weights) || samples < 0)
        return status_fail(MOAO_INPUT, "hier_compress: an argument is out of range");
    status st;
    TRY(hier_has_values(f));
    f->info.error = f->info.worst = f->info.rcond = NAN;
    f->lost = true;
    TRY(f->is->compress(f, tol, weights, samples));
    f->lost = false;
done:
    return st;
}

void hier_describe(const format *f, hier_info *info) {
    *info = f->info;
}

void hier_parts(const format *f, hier_part *part, void *arg) {
    if (f->is->parts && !f->lost)
        f->is->parts(f, part, arg);
}

status hier_upload(const format *f, const void *host, size_t bytes, void **device) {
    status st = f->be->alloc(f->ctx, bytes, device);
    if (st == MOAO_OK)
        st = f->be->copy(f->ctx, *device, (int64_t)bytes, host, (int64_t)bytes, (int64_t)bytes, 1);
    return st == MOAO_OK ? f->be->sync(f->ctx) : st;
}
