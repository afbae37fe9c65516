#include "obsseq/residual.h"

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
    if (ph != NULL && ph->n > 0)
        TRY(phase_columns(t, ph, op, false, k, j, n));
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
    status st = MOAO_OK;
    report_phase("exposure: next target");
    for (int k = k0; k < k0 + count && st == MOAO_OK; k++) {
        const wrows w = tor_w(t, op, k);
        st = e->mat->aim(tor_target(t, k), tor_direction(t, k), true);
        if (st == MOAO_OK && !(t->shared && (t->has_y || k > k0)))
            st = linop_begin(op, &w, t->own[k]);
    }
    TRY(engine_agree_now(e, STAGE_EXPOSURE, st));
    for (int64_t j = 0, n; (count > 0 || e->collective) && j < e->m; j += n) {
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
    for (int k = k0; k < k0 + count && ph != NULL && ph->n > 0; k++) {
        TRY(phase_end(t, ph, op, k));
        TRY(engine_flip(e, "flip-c", phase_of(ph, t, k) + ph->n / 2 * t->t.nlrow));
    }
done:
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
