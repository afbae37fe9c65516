/* Cholesky factor, left- or right-looking, of entries or of a compressed matrix; and what is done
 * where compression, or the matrix, makes a pivot that is not positive. */
#include "tlr/spread.h"

#include <math.h>

typedef struct {
    tlr_work w;
    /* left-looking on a device, or with terms: updates of the next super-panel, in a stream of
     * their own beside what finishes the one in hand */
    tlr_work ahead;
    backend_ctx *side; /* NULL: not a device */
    const tlr_source *from;
    const tlr_rescue *rescue;
    tlr_report *report;
    bool right, last; /* last: no smaller tolerance will be tried */
    tlr *l;
    int64_t finished;   /* super-panels of it */
    tlr_passes *passes; /* left-looking with super-panels in the host's memory, NULL: not so */
    int share;          /* super-panels that they take at a time, at most */
    bool passed;        /* there were any */
    tlr *trailing;      /* right-looking, compressed */
    double **held;      /* right-looking, dense: super-panels not yet factored */
    void *answer;       /* in the backend's memory: largest entry (double), info (int) */
} state;

/* --- the matrix, super-panel by super-panel --- */

static status read_panel(state *s, const tlr *a, int64_t p, double *d, int64_t ldd) {
    return a ? tlr_expand_panel(&s->w, a, p, 1, d, ldd) : tlr_fill_own(s->from, s->l, p, d, ldd);
}

/* D -= L_q L_q^T, q from q0 to q1, for the rows and columns of super-panel p. */
static status subtract(state *s, int64_t q0, int64_t q1, int64_t p, double *d, int64_t ldd) {
    const status st = tlr_spread_gather(&s->w, s->l, q0, q1, p);
    return st != MOAO_OK ? st : tlr_update_own(&s->w, s->from->members, s->l, q0, q1, p, d, ldd);
}

static bool looks_ahead(const state *s) {
    return (s->side || s->l->o.terms > 0) && !s->right;
}

/* What follows in stream `to` waits for what is in `from`. */
static status after(const state *s, backend_ctx *to, backend_ctx *from) {
    return s->side ? s->w.be->wait_for(to, from) : MOAO_OK;
}

/* Where super-panel p is dense: there are two in hand. */
static status room_ahead(state *s, int64_t p, double **d) {
    return tlr_work_room(p % 2 ? &s->ahead : &s->w, BUF_PANEL,
                         panel_rows(s->l, p) * s->l->panel[p].width, d);
}

/* Updates of super-panel p by q0 .. q1 are to come, in the stream of s->ahead, beside what is in
 * that of s->w from now on. */
static status begin_beside(state *s, int64_t q0, int64_t q1, int64_t p) {
    const status st = tlr_spread_gather(&s->w, s->l, q0, q1, p);
    return st != MOAO_OK ? st : after(s, s->ahead.ctx, s->w.ctx);
}

/* D -= L_q L_q^T for super-panel p, beside what came after begin_beside. */
static status subtract_beside(state *s, int64_t q0, int64_t q1, int64_t p, double *d) {
    status st;
    tlr_work_lap(&s->ahead, -1);
    TRY(tlr_update_own(&s->ahead, s->from->members, s->l, q0, q1, p, d, panel_rows(s->l, p)));
    tlr_work_lap(&s->w, -1);
done:
    return st;
}

/* Entries of super-panel p, and what its updates by those before p - 1 need: they go beside what
 * follows in the stream of s->w. */
static status begin_ahead(state *s, int64_t p) {
    double *d;
    status st;
    if (s->passes)
        return tlr_passes_begin_ahead(s->passes, p - 1);
    TRY(room_ahead(s, p, &d));
    TRY(read_panel(s, s->from->a, p, d, panel_rows(s->l, p)));
    tlr_work_lap(&s->w, TLR_ENTRIES);
    st = begin_beside(s, 0, p - 1, p);
done:
    return st;
}

/* These updates; p - 1 is to be finished meanwhile. */
static status look_ahead(state *s, int64_t p) {
    double *d;
    status st;
    if (s->passes)
        return tlr_passes_look_ahead(s->passes, p - 1);
    TRY(room_ahead(s, p, &d));
    if (s->side) /* waits for the updates of p - 1, after which the device has its pivots to do */
        TRY(tlr_work_rewind(&s->ahead, TLR_LISTED));
    st = subtract_beside(s, 0, p - 1, p, d);
done:
    return st;
}

/* The Schur complement's super-panel p, complete. */
static status schur(state *s, int64_t p, double **d) {
    const int64_t rows = panel_rows(s->l, p);
    status st = MOAO_OK;
    if (s->passes)
        return tlr_passes_complete(s->passes, p, d);
    if (looks_ahead(s)) {
        TRY(room_ahead(s, p, d));
        if (p == 0) {
            TRY(read_panel(s, s->from->a, p, *d, rows));
            tlr_work_lap(&s->w, TLR_ENTRIES);
            return MOAO_OK;
        }
        TRY(begin_beside(s, p - 1, p, p));
        TRY(subtract_beside(s, p - 1, p, p, *d));
        return after(s, s->w.ctx, s->ahead.ctx);
    }
    if (s->held) {
        *d = s->held[p];
        return MOAO_OK;
    }
    TRY(tlr_work_room(&s->w, BUF_PANEL, rows * s->l->panel[p].width, d));
    TRY(read_panel(s, s->right ? s->trailing : s->from->a, p, *d, rows));
    tlr_work_lap(&s->w, TLR_ENTRIES);
    if (!s->right)
        TRY(subtract(s, 0, p, p, *d, rows));
done:
    return st;
}

/* tlr_passes_read */
static status read_for_pass(void *arg, int64_t p, double *d) {
    state *s = arg;
    return read_panel(s, s->from->a, p, d, panel_rows(s->l, p));
}

/* Members' parts are updated one by one, each in passes of its own. */
static status open_passes(state *s) {
    if (!s->l->o.host || s->right || s->l->o.parts > 0)
        return MOAO_OK;
    return tlr_passes_open(&s->w, &s->ahead, s->l, looks_ahead(s), s->share, read_for_pass, s,
                           &s->passes);
}

static void close_passes(state *s) {
    if (s->passes)
        s->report->together = tlr_passes_most(s->passes);
    s->passed = s->passes != NULL;
    tlr_passes_close(s->passes);
    s->passes = NULL;
}

static status hold_all(state *s) {
    status st;
    TRY(ALLOC(s->held, (size_t)s->l->panels + 1, "super-panels"));
    for (int64_t p = 0; p < s->l->panels; p++) {
        const int64_t rows = panel_rows(s->l, p);
        void *d = NULL;
        TRY(s->w.be->alloc(s->w.ctx, sizeof(double) * (size_t)(rows * s->l->panel[p].width), &d));
        s->held[p] = d;
        TRY(read_panel(s, NULL, p, s->held[p], rows));
    }
done:
    return st;
}

static void let_go(state *s) {
    for (int64_t p = 0; s->held && p < s->l->panels; p++)
        s->w.be->release(s->w.ctx, s->held[p]);
    free(s->held);
    s->held = NULL;
    tlr_close(s->trailing);
    s->trailing = NULL;
}

/* Right-looking: what follows super-panel p, less its product. */
static status update_trailing(state *s, int64_t p) {
    status st = MOAO_OK;
    if (s->held) {
        s->w.be->release(s->w.ctx, s->held[p]);
        s->held[p] = NULL;
    }
    for (int64_t t = p + 1; t < s->l->panels; t++) {
        const panel *there = s->l->panel + t;
        const int64_t rows = panel_rows(s->l, t), width = there->width;
        double *d = s->held ? s->held[t] : NULL;
        if (!d) {
            TRY(tlr_work_room(&s->w, BUF_PANEL, rows * width, &d));
            TRY(tlr_expand_panel(&s->w, s->trailing, t, 1, d, rows));
        }
        TRY(subtract(s, p, p + 1, t, d, rows));
        if (!s->held) {
            TRY(tlr_compress_panel(&s->w, s->trailing, t, d + width, rows, d + width, rows));
            TRY(tlr_dense_copy(&s->w, width, width, d, rows, s->trailing->panel[t].diag, width));
        }
    }
done:
    return st;
}

/* --- pivots --- */

/* How often a tile of the Schur complement at super-panel p may have been compressed. */
static double compressions(const state *s, int64_t p) {
    return s->trailing ? 1 + (double)p : s->from->a ? 2 : 1;
}

static status add_to_diagonal(state *s, double delta, int64_t n, double *d, int64_t ldd) {
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

static int *minor_of(const state *s) {
    return (int *)(void *)((char *)s->answer + sizeof(double));
}

/* Factor of the block on the diagonal, as it is. */
static status begin_block(state *s, int64_t n, double *d, int64_t ldd) {
    const backend *be = s->w.be;
    status st;
    TRY(tlr_work_bytes(&s->w, be->workspace(BACKEND_POTRF, BACKEND_D, n, n)));
    TRY(be->half->max_abs(s->w.ctx, BACKEND_D, n, n, d, ldd, s->answer));
    st = be->potrf(s->w.ctx, BACKEND_D, 'L', n, d, ldd, minor_of(s), s->w.work, s->w.lwork);
done:
    return st;
}

/* What came of it; *info as potrf's. Waits. */
static status end_own_block(state *s, int *info) {
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

/* The same; *info is all members', who go on alike. */
static status end_block(state *s, int *info) {
    status st = end_own_block(s, info);
    int64_t most = *info;
    st = tlr_merge(s->from->members, st, &most, 1);
    *info = (int)most;
    return st;
}

/* Whether the matrix itself is not positive definite where report->minor is, for all members. */
static status look_at_pivot(state *s, int64_t p, const double *block, int info) {
    status st = s->side ? s->w.be->sync(s->side) : MOAO_OK;
    tlr_store_forget(&s->ahead); /* a super-panel is in the places of one of them alone */
    if (st == MOAO_OK)
        st = tlr_pivot_is_certain(&s->w, s->l, p, block, info, compressions(s, p),
                                  &s->report->not_positive);
    tlr_store_forget(&s->w);
    int64_t certain = s->report->not_positive;
    st = tlr_merge(s->from->members, st, &certain, 1);
    s->report->not_positive = certain != 0;
    return st;
}

/* The block on the diagonal of super-panel p begins to be factored; what it was is kept. */
static status begin_diagonal(state *s, int64_t p, double *d, int64_t ldd) {
    const int64_t n = s->l->panel[p].width;
    double *block;
    status st;
    TRY(tlr_work_room(&s->w, BUF_METRIC, n * n, &block));
    TRY(tlr_dense_copy(&s->w, n, n, d, ldd, block, n));
    TRY(begin_block(s, n, d, ldd));
    tlr_work_lap(&s->w, TLR_PIVOTS);
done:
    return st;
}

/* What came of it, with what may be added to the diagonal, if that helps. report->minor: it did
 * not. */
static status end_diagonal(state *s, int64_t p, double *d, int64_t ldd) {
    const int64_t n = s->l->panel[p].width;
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
        TRY(tlr_dense_copy(&s->w, n, n, block, n, d, ldd));
        TRY(add_to_diagonal(s, delta, n, d, ldd));
        TRY(begin_block(s, n, d, ldd));
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

/* --- a super-panel --- */

/* What is compressed of the rows below the block, and the kinds and ranks of its tiles. */
static status compress(state *s, int64_t p, double *d, int64_t ldd, tlr_batch *c) {
    const panel *here = s->l->panel + p;
    double *g;
    status st;
    TRY(tlr_inner_factors(&s->w, s->l, p, d, ldd, &g));
    for (int64_t k = 0; k < tlr_parts(s->l); k++)
        if (tlr_part_is_mine(s->from->members, s->l, k))
            TRY(tlr_to_metric(&s->w, s->l, p, k, g, d, ldd));
    tlr_work_lap(&s->w, TLR_DIVIDE);
    TRY(tlr_block_prepare(s->l, p)); /* while the device is at work */
    st = tlr_compress_begin(&s->w, s->l, p, d + here->width, ldd, c);
done:
    return st;
}

/* Their columns to where they stay, and from that metric to those of L. */
static status settle(state *s, int64_t p, double *d, int64_t ldd, const tlr_batch *c) {
    const panel *here = s->l->panel + p;
    const int64_t n = here->width;
    status st;
    TRY(tlr_compress_end(&s->w, s->l, p, c, d + n, ldd, NULL, 1));
    TRY(tlr_divide(&s->w, s->l, p, c, d, ldd));
    st = tlr_dense_copy(&s->w, n, n, d, ldd, here->diag, n);
done:
    return st;
}

/* L below the block and its tiles, those of all members. */
static status finish_panel(state *s, int64_t p, double *d, int64_t ldd) {
    const tlr_members *members = s->from->members;
    const panel *here = s->l->panel + p;
    tlr_batch c = {0};
    bool *rows = NULL;
    status st = MOAO_OK;
    if (members && (st = ALLOC(rows, (size_t)(here->r1 - here->r0), "tile rows")) == MOAO_OK)
        tlr_rows_of(members, s->l, p, rows);
    c.rows = rows;
    if (st == MOAO_OK)
        st = compress(s, p, d, ldd, &c);
    TRY(tlr_share_kinds(members, s->l, p, st));
    st = settle(s, p, d, ldd, &c);
    if (s->l->spread) {
        TRY(tlr_share_dropped(members, s->l, p, st));
        TRY(tlr_spread_store(&s->w, s->l, p));
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
static status attempt(state *s, const tlr_options *o) {
    status st;
    tlr_store_forget(&s->w); /* of the factor before */
    tlr_store_forget(&s->ahead);
    tlr_close(s->l);
    TRY(tlr_new(s->w.be, s->w.ctx, s->from->layout, s->from->layout, true, o, &s->l));
    s->l->factor = true;
    TRY(tlr_spread_open(s->l, s->from->members));
    s->finished = 0;
    s->report->minor = 0;
    s->report->tau = o->rank > 0 ? 0 : o->tau;
    if (s->right)
        TRY(s->from->a ? tlr_copy(s->from->a, 'N', &s->trailing) : hold_all(s));
    if (s->trailing)
        s->trailing->o = s->l->o;
    TRY(open_passes(s));
    for (int64_t p = 0; p < s->l->panels; p++) {
        const bool ahead = (looks_ahead(s) || s->passes) && p + 1 < s->l->panels;
        double *d;
        tlr_work_lap(&s->w, -1);
        TRY(schur(s, p, &d));
        if (ahead)
            TRY(begin_ahead(s, p + 1));
        TRY(begin_diagonal(s, p, d, panel_rows(s->l, p)));
        if (ahead)
            TRY(look_ahead(s, p + 1));
        TRY(end_diagonal(s, p, d, panel_rows(s->l, p)));
        tlr_work_lap(&s->w, TLR_PIVOTS);
        if (s->report->minor)
            break;
        TRY(finish_panel(s, p, d, panel_rows(s->l, p)));
        s->finished = p + 1;
        if (s->right)
            TRY(update_trailing(s, p));
    }
done:
    if (s->side) {
        const status end[2] = {s->w.be->sync(s->side), tlr_store_wait(&s->ahead)};
        st = st != MOAO_OK ? st : end[0] != MOAO_OK ? end[0] : end[1];
    }
    close_passes(s);
    if (s->l)
        let_go(s);
    return st;
}

/* The same; where memory does not do for several super-panels in a pass, with fewer at a time. */
static status attempt_with_memory(state *s, const tlr_options *o) {
    status st;
    for (s->share = TLR_SHARE;; s->share /= 2) {
        st = attempt(s, o);
        if (st != MOAO_MEMORY || !s->passed || s->share == 1)
            return st;
        status_clear();
    }
}

static status attempts(state *s, const tlr_options *given) {
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
        o.singles = false;
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
    state s = {.from = source,
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
        with.width = source->a->o.width; /* the same super-panels */
    TRY(be->alloc(ctx, sizeof(double) + sizeof(int), &s.answer));
    TRY(attempts(&s, &with));
    TRY(be->sync(ctx));
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
