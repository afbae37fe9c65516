/* Cholesky factor, left- or right-looking, of entries or of a compressed matrix; and what is tried
 * where it does not come about: fewer block columns in memory, a smaller tolerance, no compression.
 */
#include "factoring.h"

#include <float.h>

/* --- a block column --- */

/* What is compressed of the rows below the block, and the kinds and ranks of its tiles. */
static status compress(tlr_factoring *s, const tlr_step *x, tlr_batch *c) {
    const panel *here = s->l->panel + x->p;
    double *g;
    status st;
    TRY(tlr_inner_factors(&s->w, s->l, x->p, x->d, x->ldd, &g));
    for (int64_t k = 0; k < tlr_parts(s->l); k++)
        if (tlr_part_is_mine(s->from->members, s->l, k))
            TRY(tlr_to_metric(&s->w, s->l, x->p, k, g, x->d, x->ldd));
    tlr_work_lap(&s->w, TLR_DIVIDE);
    TRY(tlr_block_prepare(s->l, x->p)); /* while the device is at work */
    st = tlr_compress_begin(&s->w, s->l, x->p, x->d + here->width, x->ldd, c);
done:
    return st;
}

/* Their columns to where they stay, and from that metric to those of L: V in one go, unless it is
 * divided where it stays. */
static status settle(tlr_factoring *s, const tlr_step *x, const tlr_batch *c) {
    const panel *here = s->l->panel + x->p;
    const int64_t n = here->width;
    status st;
    TRY(tlr_compress_end(&s->w, s->l, x->p, c, x->d + n, x->ldd, tlr_few_columns(here), NULL, 1));
    TRY(tlr_divide(&s->w, s->l, x->p, c, x->d, x->ldd));
    st = tlr_dense_copy(&s->w, n, n, x->d, x->ldd, here->diag, n);
done:
    return st;
}

/* L below the block and its tiles, those of all members. */
static status finish_panel(tlr_factoring *s, const tlr_step *x) {
    const int64_t p = x->p;
    const tlr_procs *members = s->from->members;
    const panel *here = s->l->panel + p;
    tlr_batch c = {0};
    bool *rows = NULL;
    status st = MOAO_OK;
    if (members && (st = ALLOC(rows, (size_t)(here->r1 - here->r0), "tile rows")) == MOAO_OK)
        tlr_rows_of(members, s->l, p, rows);
    c.rows = rows;
    if (st == MOAO_OK)
        st = compress(s, x, &c);
    TRY(tlr_share_kinds(members, s->l, p, st));
    st = settle(s, x, &c);
    if (s->l->spread) {
        TRY(tlr_share_dropped(members, s->l, p, st));
        TRY(tlr_distributed_store(&s->w, s->l, p));
    } else {
        TRY(tlr_share_columns(&s->w, members, s->l, p, st));
        TRY(tlr_store_panel(&s->w, s->passes ? &s->ahead : NULL, s->l, p));
    }
    tlr_work_lap(&s->w, TLR_SETTLE);
done:
    tlr_batch_close(&c);
    free(rows);
    return st;
}

/* One factor with the options o; report->minor tells whether it came about. */
static status attempt(tlr_factoring *s, const tlr_options *o) {
    status st;
    tlr_store_forget(&s->w); /* of the factor before */
    tlr_store_forget(&s->ahead);
    tlr_close(s->l);
    TRY(tlr_new(s->w.be, s->w.ctx, s->from->layout, s->from->layout, true, o, &s->l));
    s->l->factor = true;
    TRY(tlr_distributed_open(s->l, s->from->members));
    s->finished = 0;
    s->report->minor = 0;
    s->report->tau = o->rank > 0 ? 0 : o->tau;
    TRY(tlr_schur_open(s));
    for (int64_t p = 0; p < s->l->panels; p++) {
        const bool ahead = tlr_schur_ahead(s) && p + 1 < s->l->panels;
        tlr_step x, next;
        tlr_work_lap(&s->w, -1);
        TRY(tlr_schur_complete(s, p, &x));
        if (ahead)
            TRY(tlr_schur_begin_ahead(s, p + 1, &next));
        TRY(tlr_diagonal_begin(s, &x));
        if (ahead)
            TRY(tlr_schur_look_ahead(s, &next));
        TRY(tlr_diagonal_end(s, &x));
        tlr_work_lap(&s->w, TLR_PIVOTS);
        if (s->report->minor)
            break;
        TRY(finish_panel(s, &x));
        s->finished = p + 1;
        if (s->right)
            TRY(tlr_schur_update_trailing(s, p));
    }
done:
    if (s->side) {
        const status end[2] = {s->w.be->sync(s->side), tlr_store_wait(&s->ahead)};
        st = st != MOAO_OK ? st : end[0] != MOAO_OK ? end[0] : end[1];
    }
    tlr_schur_close(s);
    return st;
}

/* The same; where memory does not do for several block columns in a pass, with fewer at a time. */
static status attempt_with_memory(tlr_factoring *s, const tlr_options *o) {
    status st;
    for (s->share = TLR_SHARE;; s->share /= 2) {
        st = attempt(s, o);
        if (st != MOAO_MEMORY || !s->passed || s->share == 1)
            return st;
        status_clear();
    }
}

static status attempts(tlr_factoring *s, const tlr_options *given) {
    tlr_options o = *given;
    status st;
    for (int turn = 0;; turn++) {
        s->last = turn >= s->rescue->retries || o.rank > 0;
        TRY(attempt_with_memory(s, &o));
        if (s->report->minor && o.mixed) {
            o.mixed = false;
            TRY(attempt_with_memory(s, &o));
        }
        if (!s->report->minor || s->report->not_positive || s->last)
            break;
        o.tau /= 4;
        s->report->restarts++;
    }
    if (s->report->minor && !s->report->not_positive && s->rescue->dense) {
        o.cut = 0;
        o.rank = 0;
        o.fp32 = false;
        s->report->dense = true;
        TRY(attempt_with_memory(s, &o));
    }
    if (s->report->minor)
        st = status_fail(MOAO_NUMERIC,
                         "not positive definite: the leading minor of order %lld is not positive%s",
                         (long long)s->report->minor,
                         s->report->not_positive ? ""
                                                 : "; a smaller tolerance of the compression may "
                                                   "help");
done:
    return st;
}

/* A pivot is wrong by the rounding of n products: one that is smaller is nothing else. */
static status check_pivots(const tlr *l, tlr_report *report) {
    const int64_t n = l->rows->n;
    double *d = NULL;
    int64_t least = 0, largest = 0;
    status st;
    TRY(ALLOC(d, (size_t)n, "diagonal of a factor"));
    TRY(tlr_diagonal_of(l, d));
    for (int64_t i = 1; i < n; i++) {
        least = d[i] < d[least] ? i : least;
        largest = d[i] > d[largest] ? i : largest;
    }
    const double ratio = n > 0 ? d[least] / d[largest] * (d[least] / d[largest]) : 1;
    if (!(ratio >= (double)n * DBL_EPSILON / 2)) {
        report->minor = least + 1;
        st =
            status_fail(MOAO_NUMERIC,
                        "singular: the pivot of row %lld is %.1e of the largest one; a constant on "
                        "the diagonal may help",
                        (long long)least, ratio);
    } else if (n > 0 && l->o.fp32 && !(d[largest] >= 0x1p-35 && d[largest] <= 0x1p55)) {
        st = status_fail(MOAO_NUMERIC,
                         "numbers of %.1e: products of them are beyond single precision; scale the "
                         "matrix, or keep tiles in double precision",
                         d[largest] * d[largest]);
    }
done:
    free(d);
    return st;
}

static status check_source(const tlr_source *from, char variant, const tlr_options *o) {
    if (variant != 'L' && variant != 'R')
        return status_fail(MOAO_INPUT, "tlr_factor: variant %c is neither L nor R", variant);
    if (from->members && (variant != 'L' || o->parts < 1))
        return status_fail(MOAO_INPUT,
                           "tlr_factor: members make a left-looking factor in parts, "
                           "not variant %c in %d",
                           variant, o->parts);
    if (o->distributed && (o->parts < 1 || o->host || variant != 'L'))
        return status_fail(MOAO_INPUT,
                           "tlr_factor: a distributed factor is left-looking, in parts, and not "
                           "in the host's memory");
    if (from->a ? !from->a->symmetric || from->a->factor || from->a->rows != from->layout
                : !from->fill)
        return status_fail(MOAO_INPUT, "tlr_factor: the matrix is not symmetric in its layout");
    return MOAO_OK;
}

status tlr_factor(const backend *be, backend_ctx *ctx, const tlr_source *source, char variant,
                  const tlr_options *o, const tlr_rescue *rescue, tlr **l, tlr_report *report) {
    static const tlr_rescue none = {0};
    tlr_report unread = {0};
    tlr_factoring s = {.from = source,
                       .rescue = rescue ? rescue : &none,
                       .report = report ? report : &unread,
                       .right = variant == 'R'};
    tlr_options with = *o;
    status st;
    *l = NULL;
    memset(s.report, 0, sizeof *s.report);
    tlr_work_open(&s.w, be, ctx);
    if (ctx && variant == 'L')
        TRY(be->open_low_priority(ctx, &s.side));
    tlr_work_open(&s.ahead, be, s.side ? s.side : ctx);
    s.w.seconds = s.ahead.seconds = o->timed ? s.report->seconds : NULL;
    TRY(check_source(source, variant, o));
    if (source->a)
        with.width = source->a->o.width; /* the same block columns */
    TRY(be->alloc(ctx, sizeof(double) + sizeof(int), &s.answer));
    TRY(attempts(&s, &with));
    TRY(check_pivots(s.l, s.report));
done:
    st = tlr_merge(source->members, st, NULL, 0);
    if (s.l)
        tlr_panel_no_spare(s.l);
    if (st == MOAO_OK) {
        *l = s.l;
        s.l = NULL;
    } else if (st == MOAO_MEMORY && s.l) {
        for (int64_t p = 0; p < s.finished; p++)
            s.report->columns += s.l->panel[p].width;
        tlr_statistics_of(s.l, s.finished, &s.report->made);
    }
    s.report->fetched = s.w.fetched + s.ahead.fetched;
    be->release(ctx, s.answer);
    tlr_work_close(&s.ahead);
    be->close(s.side);
    tlr_work_close(&s.w);
    tlr_close(s.l);
    return st;
}
