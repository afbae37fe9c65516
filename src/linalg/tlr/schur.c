/* The Schur complement of a factor in transit, dense, block column by block column: entries of the
 * matrix, or those of a compressed one, less the products of the block columns before
 * (left-looking; the next one's ahead, concurrently with what finishes the current one, or in
 * passes), or what is left of all that follow (right-looking). */
#include "factoring.h"

static status read_panel(tlr_factoring *s, const tlr *a, int64_t p, double *d, int64_t ldd) {
    return a ? tlr_expand_panel(&s->w, a, p, 1, d, ldd) : tlr_fill_own(s->from, s->l, p, d, ldd);
}

/* D -= L_q L_q^T, q from q0 to q1, for the rows and columns of block column p. */
static status subtract(tlr_factoring *s, int64_t q0, int64_t q1, int64_t p, double *d,
                       int64_t ldd) {
    const status st = tlr_distributed_gather(&s->w, s->l, q0, q1, p);
    return st != MOAO_OK ? st : tlr_update_own(&s->w, s->from->members, s->l, q0, q1, p, d, ldd);
}

static bool looks_ahead(const tlr_factoring *s) {
    return (s->side || s->l->o.terms > 0) && !s->right;
}

/* What follows in stream `to` waits for what is in `from`. */
static status after(const tlr_factoring *s, backend_ctx *to, backend_ctx *from) {
    return s->side ? s->w.be->wait_for(to, from) : MOAO_OK;
}

/* Where block column p is dense: there are two current. */
static status room_ahead(tlr_factoring *s, int64_t p, double **d) {
    return tlr_work_room(p % 2 ? &s->ahead : &s->w, BUF_PANEL,
                         panel_rows(s->l, p) * s->l->panel[p].width, d);
}

/* Updates of block column p by q0 .. q1 are to come, in the stream of s->ahead, concurrently with
 * what is in that of s->w from now on. */
static status begin_concurrent(tlr_factoring *s, int64_t q0, int64_t q1, int64_t p) {
    const status st = tlr_distributed_gather(&s->w, s->l, q0, q1, p);
    return st != MOAO_OK ? st : after(s, s->ahead.ctx, s->w.ctx);
}

/* D -= L_q L_q^T, concurrently with what came after begin_concurrent. */
static status subtract_beside(tlr_factoring *s, int64_t q0, int64_t q1, const tlr_step *x) {
    status st;
    tlr_work_lap(&s->ahead, -1);
    TRY(tlr_update_own(&s->ahead, s->from->members, s->l, q0, q1, x->p, x->d, x->ldd));
    tlr_work_lap(&s->w, -1);
done:
    return st;
}

bool tlr_schur_ahead(const tlr_factoring *s) {
    return looks_ahead(s) || s->passes;
}

status tlr_schur_begin_ahead(tlr_factoring *s, int64_t p, tlr_step *x) {
    status st;
    *x = (tlr_step){.p = p, .ldd = panel_rows(s->l, p)};
    if (s->passes)
        return tlr_ooc_begin_ahead(s->passes, p - 1);
    TRY(room_ahead(s, p, &x->d));
    TRY(read_panel(s, s->from->a, p, x->d, x->ldd));
    tlr_work_lap(&s->w, TLR_ENTRIES);
    st = begin_concurrent(s, 0, p - 1, p);
done:
    return st;
}

status tlr_schur_look_ahead(tlr_factoring *s, const tlr_step *x) {
    status st;
    if (s->passes)
        return tlr_passes_look_ahead(s->passes, x->p - 1);
    if (s->side) /* waits for the updates of p - 1, after which the device has its pivots to do */
        TRY(tlr_work_rewind(&s->ahead, TLR_LISTED));
    st = subtract_beside(s, 0, x->p - 1, x);
done:
    return st;
}

status tlr_schur_complete(tlr_factoring *s, int64_t p, tlr_step *x) {
    status st = MOAO_OK;
    *x = (tlr_step){.p = p, .ldd = panel_rows(s->l, p)};
    if (s->passes)
        return tlr_ooc_complete(s->passes, p, &x->d);
    if (looks_ahead(s)) {
        TRY(room_ahead(s, p, &x->d));
        if (p == 0) {
            TRY(read_panel(s, s->from->a, p, x->d, x->ldd));
            tlr_work_lap(&s->w, TLR_ENTRIES);
            return MOAO_OK;
        }
        TRY(begin_concurrent(s, p - 1, p, p));
        TRY(subtract_beside(s, p - 1, p, x));
        return after(s, s->w.ctx, s->ahead.ctx);
    }
    if (s->held) {
        x->d = s->held[p];
        return MOAO_OK;
    }
    TRY(tlr_work_room(&s->w, BUF_PANEL, x->ldd * s->l->panel[p].width, &x->d));
    TRY(read_panel(s, s->right ? s->trailing : s->from->a, p, x->d, x->ldd));
    tlr_work_lap(&s->w, TLR_ENTRIES);
    if (!s->right)
        TRY(subtract(s, 0, p, p, x->d, x->ldd));
done:
    return st;
}

/* tlr_ooc_read */
static status read_for_pass(void *arg, int64_t p, double *d) {
    tlr_factoring *s = arg;
    return read_panel(s, s->from->a, p, d, panel_rows(s->l, p));
}

/* Members' parts are updated one by one, each in passes of its own. */
static status open_passes(tlr_factoring *s) {
    if (!s->l->o.host || s->right || s->l->o.parts > 0)
        return MOAO_OK;
    return tlr_ooc_open(&s->w, &s->ahead, s->l, looks_ahead(s), s->share, read_for_pass, s,
                        &s->passes);
}

static void close_passes(tlr_factoring *s) {
    if (s->passes)
        s->report->together = tlr_ooc_most(s->passes);
    s->passed = s->passes != NULL;
    tlr_ooc_close(s->passes);
    s->passes = NULL;
}

static status hold_all(tlr_factoring *s) {
    status st;
    TRY(ALLOC(s->held, (size_t)s->l->panels + 1, "block columns"));
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

status tlr_schur_open(tlr_factoring *s) {
    status st = MOAO_OK;
    if (s->right)
        TRY(s->from->a ? tlr_copy(s->from->a, 'N', &s->trailing) : hold_all(s));
    if (s->trailing)
        s->trailing->o = s->l->o;
    st = open_passes(s);
done:
    return st;
}

void tlr_schur_close(tlr_factoring *s) {
    close_passes(s);
    for (int64_t p = 0; s->held && p < s->l->panels; p++)
        s->w.be->release(s->w.ctx, s->held[p]);
    free(s->held);
    s->held = NULL;
    tlr_close(s->trailing);
    s->trailing = NULL;
}

status tlr_schur_update_trailing(tlr_factoring *s, int64_t p) {
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
