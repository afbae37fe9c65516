#include "obsseq/phase.h"

/* Leading dimension of covariances on a device, and columns of their products with W: these run at
 * full rate where columns begin at multiples of 64 bytes and the number of points is even (of
 * halves: a multiple of 8), else with kernels of half the rate and less. Rows beyond the points are
 * 0. Ranks in lockstep gather columns as they are. */
static int64_t padded(int64_t n) {
    return (n + 7) / 8 * 8;
}

size_t phase_bytes(size_t points, size_t width) {
    return points > 0 ? (size_t)padded((int64_t)points) * (width + 3) * sizeof(double) : 0;
}

size_t phase_target_bytes(size_t points, size_t rows) {
    return (size_t)padded((int64_t)points) * rows * sizeof(double);
}

size_t phase_share_bytes(const sys *s, const psf_opts *o) {
    return psf_sep_count_of(s, o) * sizeof(double) +
           (psf_pairwise_count_of(s, o) + 1) * sizeof(float);
}

status phase_open(tor *t, const psf *ps, phase_term *ph, int64_t *beside) {
    engine *e = &t->e;
    const double *x, *y;
    status st = MOAO_OK;
    *ph = (phase_term){.n = (int64_t)psf_points(ps, &x, &y)};
    ph->ld = t->op->factor->collective ? ph->n : padded(ph->n);
    *beside = 0;
    if (ph->n == 0)
        goto done;
    TRY(engine_doubles(e, ph->n, "points of the pupil", &ph->x));
    TRY(engine_doubles(e, ph->n, "points of the pupil", &ph->y));
    TRY(engine_doubles(e, ph->ld * (e->width + 1), "covariances of phase and slopes", &ph->cpm));
    TRY(engine_zero(e, BACKEND_D, ph->ld, e->width + 1, ph->cpm, ph->ld));
    if (t->op->together)
        *beside = engine_aligned(ph->ld * t->t.nlrow);
    else
        TRY(engine_doubles(e, ph->ld * t->t.nlrow, "W Cpm' of a target", &ph->room));
    TRY(engine_copy(e, ph->x, x, ph->n));
    TRY(engine_copy(e, ph->y, y, ph->n));
    if (t->op->product->leaves_share) {
        static const double one = 1;
        static const float one32 = 1;
        ph->nsep = (int64_t)psf_sep_count(ps);
        ph->pairs = (int64_t)psf_pairwise_count(ps);
        *beside += ph->nsep + (ph->pairs + 1) / 2; /* two floats take a double's place */
        TRY(engine_doubles(e, 1, "a number", &ph->one));
        TRY(engine_array(e, sizeof one32, "a number", (void **)&ph->one32));
        TRY(engine_copy(e, ph->one, &one, 1));
        TRY(e->be->copy(e->ctx, ph->one32, sizeof one32, &one32, sizeof one32, sizeof one32, 1));
    }
    st = engine_sync(e);
done:
    return st;
}

void phase_close(tor *t, phase_term *ph) {
    ENGINE_RELEASE(&t->e, ph->x, ph->y, ph->cpm, ph->room, ph->one, ph->one32);
    *ph = (phase_term){0};
}

status phase_end(tor *t, const phase_term *ph, linop *op, int k) {
    const wrows w = tor_w(t, op, k);
    return linop_phase_end(op, &w, ph->n, phase_of(ph, t, k));
}

/* W Cpm' of the k-th target += that of both axes of some subapertures. */
static status some_slopes(tor *t, const phase_term *ph, linop *op, int k, const slope_pairs *p) {
    engine *e = &t->e;
    const int64_t nlrow = t->t.nlrow, np = ph->n, ld = ph->ld;
    int first, some;
    rows_share((int)p->n, t->t.group_size, t->t.member, &first, &some);
    status st =
        e->mat->fill_cpm_both(tor_target(t, k), BACKEND_D, (matcov_points){np, ph->x, ph->y},
                              (matcov_slopes){p->slopes.sensor, p->slopes.k0 + first, some, p->n},
                              ph->cpm + first * ld, ld);
    TIMED_WAIT(e->rep, STAGE_EXPOSURE, st = team_agree(&t->t, st));
    for (int axis = 0; axis < 2 && st == MOAO_OK; axis++) {
        double *cpm = ph->cpm + axis * p->n * ld;
        const double *w;
        int64_t ldw;
        TIMED_WAIT(e->rep, STAGE_EXPOSURE, team_gather(&t->t, (size_t)ld, (size_t)p->n, cpm));
        if (nlrow == 0)
            continue;
        int64_t n = p->n; /* no more than are there at once */
        st = tor_w_columns(t, op, k, p->column[axis], &n, &w, &ldw);
        if (st == MOAO_OK)
            st = engine_gemm(e, 'N', 'T', nlrow, ld, p->n, 1.0, w, ldw, cpm, ld,
                             p->column[axis] > 0, phase_of(ph, t, k), nlrow);
    }
    return st;
}

status phase_columns(tor *t, const phase_term *ph, linop *op, bool whole, int k, int64_t j,
                     int64_t n) {
    engine *e = &t->e;
    const int64_t nlrow = t->t.nlrow, np = ph->n;
    status st = MOAO_OK;
    report_phase("exposure: W Cpm'");
    if (!whole && op->product->own_phase) {
        const wrows w = tor_w(t, op, k);
        e->rep->flops[STAGE_EXPOSURE] += 2.0 * (double)(nlrow * n) * (double)np;
        return op->product->phase(op->x, tor_target(t, k), &w, (matcov_points){np, ph->x, ph->y}, j,
                                  n);
    }
    for (slope_pairs p = {0}; slope_pairs_next(e->s, j, n, e->width / 2, &p);)
        TRY(some_slopes(t, ph, op, k, &p));
    e->rep->flops[STAGE_EXPOSURE] += 2.0 * (double)(nlrow * n) * (double)np;
done:
    return st;
}

status phase_share(tor *t, const phase_term *ph, linop *op, int k) {
    engine *e = &t->e;
    const wrows w = tor_w(t, op, k);
    status st = MOAO_OK;
    for (int64_t j = 0, n; j < e->m; j += n) {
        n = engine_width(e, j, e->m);
        if (!op->product->leaves_share) {
            TRY(phase_columns(t, ph, op, true, k, j, n));
            continue;
        }
        TRY(op->product->phase_share(op->x, tor_target(t, k), &w,
                                     (matcov_points){ph->n, ph->x, ph->y}, j, n,
                                     phase_of(ph, t, k)));
        e->rep->flops[STAGE_EXPOSURE] += 2.0 * (double)(t->t.nlrow * n) * (double)ph->n;
    }
done:
    return st;
}
