#include "obsseq/phase.h"

size_t phase_bytes(size_t points, size_t width) {
    return points > 0 ? points * (width + 2) * sizeof(double) : 0;
}

size_t phase_target_bytes(size_t points, size_t rows) {
    return points * rows * sizeof(double);
}

status phase_open(tor *t, const psf *ps, phase_term *ph) {
    engine *e = &t->e;
    const double *x, *y;
    status st = MOAO_OK;
    *ph = (phase_term){.n = (int64_t)psf_points(ps, &x, &y)};
    if (ph->n == 0)
        goto done;
    ph->count = t->op->kind->together ? t->nw : 1;
    TRY(engine_doubles(e, ph->n, "points of the pupil", &ph->x));
    TRY(engine_doubles(e, ph->n, "points of the pupil", &ph->y));
    TRY(engine_doubles(e, ph->n * e->width, "covariances of phase and slopes", &ph->cpm));
    TRY(engine_doubles(e, ph->n * t->t.nlrow * ph->count, "W Cpm' of a target", &ph->room));
    TRY(engine_copy(e, ph->x, x, ph->n));
    TRY(engine_copy(e, ph->y, y, ph->n));
    st = engine_sync(e);
done:
    return st;
}

void phase_close(tor *t, phase_term *ph) {
    const engine *e = &t->e;
    e->be->release(e->ctx, ph->x);
    e->be->release(e->ctx, ph->y);
    e->be->release(e->ctx, ph->cpm);
    e->be->release(e->ctx, ph->room);
    *ph = (phase_term){0};
}

status phase_columns(tor *t, const phase_term *ph, int k, int64_t j, int64_t n) {
    engine *e = &t->e;
    const int64_t nlrow = t->t.nlrow, np = ph->n;
    int first, some;
    report_phase("exposure: W Cpm'");
    rows_share((int)n, t->t.group_size, t->t.member, &first, &some);
    status st = e->mat->fill_cpm(tor_target(t, k), BACKEND_D, np, ph->x, ph->y, j + first, some,
                                 ph->cpm + first * np, np);
    TIMED_WAIT(e->rep, STAGE_EXPOSURE, st = team_agree(&t->t, st));
    if (st != MOAO_OK)
        return st;
    TIMED_WAIT(e->rep, STAGE_EXPOSURE, team_gather(&t->t, (size_t)np, (size_t)n, ph->cpm));
    e->rep->flops[STAGE_EXPOSURE] += 2.0 * (double)(nlrow * n) * (double)np;
    return nlrow == 0 ? MOAO_OK
                      : engine_gemm(e, 'N', 'T', nlrow, np, n, 1.0, t->w[k] + j * t->ld, t->ld,
                                    ph->cpm, np, j > 0, phase_of(ph, t, k), nlrow);
}
