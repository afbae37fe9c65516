#include "obsseq/residual.h"

#include "obsseq/layer_tables.h"

#include <stdlib.h>

/* z -= P Ctm(:, j:j+n), then Y += z W(:, j:j+n)' for the k-th target; z: its rows of W T. Of the
 * residual phase W Cpm' takes the place of P Ctm; where V is kept, it and D' take those of W and P.
 */
static status one_target(tor *t, const phase_term *ph, linop *op, int k, int64_t j, int64_t n,
                         double *z, int64_t ldz, bool has_y) {
    engine *e = &t->e;
    const int64_t nlrow = t->t.nlrow;
    const wrows w = tor_w(t, op, k);
    const double *here = w.w + j * w.ld;
    status st;
    report_phase("exposure: D+ Ctm");
    if (ph != NULL && ph->n > 0 && ph->layers == NULL)
        TRY(phase_columns(t, ph, op, false, k, j, n));
    else if (ph != NULL && ph->n > 0)
        st = MOAO_OK; /* end_phase */
    else if (t->raw)
        TRY(tor_raw_project(t, tor_target(t, k), j, n, -1.0, 1.0, z, ldz));
    else
        TRY(op->product->own_products ? op->product->project(op->x, tor_target(t, k), j, n)
                                      : tor_project(t, tor_target(t, k), t->t.row0, nlrow, j, n,
                                                    -1.0, 1.0, z, ldz, STAGE_EXPOSURE));
    if (has_y) /* of another target that shares it */
        return MOAO_OK;
    report_phase("exposure: Y");
    if (op->product->own_products)
        st = op->product->outer(op->x, &w, j, n);
    else if (op->product->gram != NULL)
        st = op->product->gram(op->x, &w, j, n, z, ldz, t->y[k]);
    else if (t->t.group_size > 1)
        st = team_outer(&t->t, e, n, z, ldz, here, w.ld, j > 0, t->y[k]);
    else
        st = engine_gemm(e, 'N', 'T', nlrow, nlrow, n, 1.0, z, ldz, here, w.ld, j > 0, t->y[k],
                         nlrow);
    e->rep->flops[STAGE_EXPOSURE] +=
        (double)(nlrow * n) * (double)(2 * (e->m - j) - n + 2 * e->rows);
    if (!t->raw && (ph == NULL || ph->n == 0)) /* an operator's own product is with P itself */
        e->rep->flops[STAGE_EXPOSURE] += op->product->own_products
                                             ? 2.0 * (double)(nlrow * n) * (double)e->t
                                             : tor_project_flops(t, nlrow, n);
done:
    return st;
}

/* W Cpm' of the k-th target, of which panels have passed. */
static status end_phase(tor *t, const phase_term *ph, linop *op, int k) {
    double *c = phase_of(ph, t, k);
    status st = MOAO_OK;
    if (ph->layers != NULL) {
        report_phase("exposure: W Cpm'");
        TRY(layer_tables_look_up(ph->layers, tor_direction(t, k), false, ph->n, NULL, c));
    } else {
        TRY(phase_end(t, ph, op, k));
    }
    st = engine_flip(&t->e, "flip-c", c + ph->n / 2 * t->t.nlrow);
done:
    return st;
}

/* Columns j .. j + n of W T - P Ctm of the targets, and their part of Y. */
static status one_panel(tor *t, const phase_term *ph, linop *op, int k0, int count, int64_t j,
                        int64_t n) {
    status st = MOAO_OK;
    TRY(linop_panel(op, j, n));
    for (int k = k0, some; k < k0 + count; k += some) {
        const wrows w = tor_rows(t, op, k, &some);
        report_phase("exposure: W T");
        TRY(linop_columns(op, &w, j, n, t->z, w.rows > 0 ? w.rows : 1));
        for (int i = 0; i < some; i++)
            TRY(one_target(t, ph, op, k + i, j, n, t->z + i * t->t.nlrow, w.rows > 0 ? w.rows : 1,
                           false));
    }
done:
    return engine_agree_now(&t->e, STAGE_EXPOSURE, st);
}

/* The same where all targets share W: of W T once in an exposure. */
static status shared_panel(tor *t, const phase_term *ph, linop *op, int k0, int count, int64_t j,
                           int64_t n) {
    status st = MOAO_OK;
    if (!t->has_y)
        TRY(linop_panel(op, j, n));
    for (int k = k0; k < k0 + count; k++) {
        const wrows w = tor_w(t, op, k);
        const int64_t ld = w.rows > 0 ? w.rows : 1;
        const bool has_y = t->has_y || k > k0;
        report_phase("exposure: W T");
        if (!has_y)
            TRY(linop_columns(op, &w, j, n, t->z, ld));
        TRY(one_target(t, ph, op, k, j, n, t->z, ld, has_y));
    }
done:
    return engine_agree_now(&t->e, STAGE_EXPOSURE, st);
}

status residual_pass(tor *t, const phase_term *ph, linop *op, int k0, int count) {
    engine *e = &t->e;
    const bool by_layers = ph != NULL && ph->layers != NULL;
    status st = MOAO_OK;
    report_phase("exposure: next target");
    for (int k = k0; k < k0 + count && st == MOAO_OK; k++) {
        const wrows w = tor_w(t, op, k);
        if (!by_layers)
            st = e->mat->aim(tor_target(t, k), tor_direction(t, k), true);
        if (st == MOAO_OK && !(t->shared && (t->has_y || k > k0)))
            st = linop_begin(op, &w, t->own[k]);
    }
    TRY(engine_agree_now(e, STAGE_EXPOSURE, st));
    const bool passes = e->collective || (count > 0 && !(by_layers && t->has_y));
    for (int64_t j = 0, n; passes && j < e->m; j += n) {
        n = engine_width(e, j, e->m);
        TRY(t->shared ? shared_panel(t, ph, op, k0, count, j, n)
                      : one_panel(t, ph, op, k0, count, j, n));
        if (op->together)
            engine_progress(e);
    }
    for (int k = k0; k < k0 + count && !t->has_y; k++) {
        const wrows w = tor_w(t, op, k);
        TRY(linop_end(op, &w, t->own[k], t->y[k]));
        t->has_y = t->shared;
    }
    for (int k = k0; k < k0 + count && t->raw; k++)
        TRY(tor_raw_end(t, t->y[k]));
    for (int k = k0; k < k0 + count && ph != NULL && ph->n > 0; k++)
        TRY(end_phase(t, ph, op, k));
done:
    return st;
}

/* --- by the devices of a group: items of a pass are formed in turns, as many at once as there are
 * devices, and come to the sampler, which adds them up in their order */

typedef struct {
    tor *t;
    const phase_term *ph;
    linop *op;
    backend_cov_target *target;
    wrows w;
    int k; /* of the sampler's targets, -1: this device helps */
} shared_pass;

bool residual_may_share(const tor *t) {
    return t->t.group_size == 1 && !t->e.collective && !t->raw && !t->shared;
}

/* z of a panel. */
static status form_panel(const shared_pass *a, int64_t j, int64_t n) {
    tor *t = a->t;
    status st;
    report_phase("exposure: W T");
    TRY(linop_panel(a->op, j, n));
    TRY(linop_columns(a->op, &a->w, j, n, t->z, a->w.rows));
    if (a->ph == NULL || a->ph->n == 0)
        st = tor_project(t, a->target, t->t.row0, t->t.nlrow, j, n, -1.0, 1.0, t->z, a->w.rows,
                         STAGE_EXPOSURE);
done:
    return st;
}

/* Y += z W(:, j:j+n)'. */
static status add_panel(const shared_pass *a, int64_t j, int64_t n) {
    tor *t = a->t;
    engine *e = &t->e;
    const int64_t v = t->t.nlrow;
    e->rep->flops[STAGE_EXPOSURE] += (double)(v * n) * (double)(2 * (e->m - j) - n + 2 * e->rows);
    return engine_gemm(e, 'N', 'T', v, v, n, 1.0, t->z, a->w.rows, a->w.w + j * a->w.ld, a->w.ld,
                       j > 0, t->y[a->k], v);
}

status residual_of_w(tor *t, const phase_term *ph, linop *op) {
    const shared_pass a = {.t = t, .ph = ph, .op = op, .w = tor_w(t, op, 0), .k = 0};
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < t->e.m; j += n) {
        n = engine_width(&t->e, j, t->e.m);
        TRY(form_panel(&a, j, n));
        TRY(add_panel(&a, j, n));
    }
done:
    return st;
}

/* An item of its owner comes to the place of the sampler's, in messages that the others have room
 * for. */
static status send_item(const shared_pass *a, double *item, int64_t count, int owner) {
    const engine *e = &a->t->e;
    device_group *g = a->op->x->group;
    const bool keeps = g->rank == owner || a->k >= 0;
    const int64_t most = e->t * e->width;
    status st = MOAO_OK;
    for (int64_t at = 0, n; owner != a->op->x->sampler && at < count && st == MOAO_OK; at += n) {
        n = count - at < most ? count - at : most;
        st = group_send(g, keeps ? item + at : a->t->ctm, (size_t)n * sizeof(double), owner);
    }
    return st;
}

static status pass_panels(const shared_pass *a) {
    engine *e = &a->t->e;
    const product *x = a->op->x;
    const int64_t count = (e->m + e->width - 1) / e->width, size = x->group->size;
    status st = MOAO_OK;
    for (int64_t first = 0; first < count; first += size) {
        for (int64_t p = first; p < count && p < first + size; p++)
            if (product_owner(x, p) == x->group->rank)
                TRY(form_panel(a, p * e->width, engine_width(e, p * e->width, e->m)));
        for (int64_t p = first; p < count && p < first + size; p++) {
            const int64_t j = p * e->width, n = engine_width(e, j, e->m);
            TRY(send_item(a, a->t->z, a->w.rows * n, product_owner(x, p)));
            if (a->k >= 0)
                TRY(add_panel(a, j, n));
        }
    }
done:
    return st;
}

/* Both axes of some subapertures at a time, as phase_columns has them. */
static status list_slopes(const engine *e, slope_pairs **list, int64_t *count) {
    *count = 0;
    for (int turn = 0; turn < 2; turn++) {
        int64_t at = 0;
        for (int64_t j = 0, n; j < e->m; j += n) {
            n = engine_width(e, j, e->m);
            for (slope_pairs p = {0}; slope_pairs_next(e->s, j, n, e->width / 2, &p); at++)
                if (turn == 1)
                    (*list)[at] = p;
        }
        *count = at;
        if (turn == 0) {
            const status st = ALLOC(*list, (size_t)at + 1, "pairs of slopes");
            if (st != MOAO_OK)
                return st;
        }
    }
    return MOAO_OK;
}

/* W Cpm' += that of both axes of some subapertures. */
static status add_slopes(const shared_pass *a, const slope_pairs *p) {
    tor *t = a->t;
    const phase_term *ph = a->ph;
    const int64_t v = t->t.nlrow;
    status st = MOAO_OK;
    for (int axis = 0; axis < 2 && st == MOAO_OK; axis++) {
        const int64_t j = p->column[axis];
        st = engine_gemm(&t->e, 'N', 'T', v, ph->ld, p->n, 1.0, a->w.w + j * a->w.ld, a->w.ld,
                         ph->cpm + axis * p->n * ph->ld, ph->ld, j > 0, phase_of(ph, t, a->k), v);
    }
    t->e.rep->flops[STAGE_EXPOSURE] += 4.0 * (double)(v * p->n) * (double)ph->n;
    return st;
}

static status pass_slopes(const shared_pass *a) {
    engine *e = &a->t->e;
    const product *x = a->op->x;
    const phase_term *ph = a->ph;
    const int64_t size = x->group->size;
    slope_pairs *list = NULL;
    int64_t count;
    status st;
    TRY(list_slopes(e, &list, &count));
    report_phase("exposure: W Cpm'");
    for (int64_t first = 0; first < count; first += size) {
        for (int64_t i = first; i < count && i < first + size; i++)
            if (product_owner(x, i) == x->group->rank)
                TRY(e->mat->fill_cpm_both(a->target, BACKEND_D,
                                          (matcov_points){ph->n, ph->x, ph->y}, list[i].slopes,
                                          ph->cpm, ph->ld));
        for (int64_t i = first; i < count && i < first + size; i++) {
            TRY(send_item(a, ph->cpm, 2 * list[i].n * ph->ld, product_owner(x, i)));
            if (a->k >= 0)
                TRY(add_slopes(a, &list[i]));
        }
    }
done:
    free(list);
    return st;
}

status residual_together(tor *t, const phase_term *ph, linop *op, int k, const double dir[2]) {
    engine *e = &t->e;
    const shared_pass a = {.t = t,
                           .ph = ph,
                           .op = op,
                           .target = tor_target(t, k < 0 ? 0 : k),
                           .w = op->product->exact_rows(op->x, 0),
                           .k = k};
    status st;
    TRY(e->mat->aim(a.target, dir, true));
    TRY(pass_panels(&a));
    if (ph != NULL && ph->n > 0)
        TRY(pass_slopes(&a));
    if (k >= 0 && ph != NULL && ph->n > 0) {
        double *c = phase_of(ph, t, k);
        TRY(engine_flip(e, "flip-c", c + ph->n / 2 * t->t.nlrow));
    }
    st = engine_sync(e);
done:
    if (st != MOAO_OK && status_message()[0] != '\0') /* others may wait for what this one has */
        comm_abort(e->c);
    return st;
}

void residual_rows(const tor *t, int *i0, int *ni) {
    const comm *c = t->e.c;
    rows_share(t->t.nrow, t->e.collective ? c->size : 1, t->e.collective ? c->rank : 0, i0, ni);
}

status residual_truth(tor *t, double *c) {
    engine *e = &t->e;
    const int64_t v = t->t.nrow;
    int i0, ni;
    status st = MOAO_OK;
    residual_rows(t, &i0, &ni);
    report_phase("exposure: D+ Ctt D+'");
    for (int64_t j = 0, n; ni > 0 && j < e->t; j += n) {
        n = engine_width(e, j, e->t);
        TRY(tor_project(t, NULL, i0, ni, j, n, 1.0, 0.0, t->z, ni, STAGE_EXPOSURE));
        TRY(engine_gemm(e, 'N', 'T', ni, v, n, 1.0, t->z, ni, t->proj + j * v, v, j > 0, c, ni));
    }
    e->rep->flops[STAGE_EXPOSURE] +=
        tor_project_flops(t, ni, e->t) + 2.0 * (double)(ni * e->t) * (double)v;
done:
    return st;
}
