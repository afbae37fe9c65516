#include "resident/internal.h"

status resident_flip(resident *r, const char *where, double *x) {
    double value;
    status st;
    if (!comm_flips(r->u.c, where))
        return MOAO_OK;
    TRY(resident_copy(r, &value, x, 1));
    TRY(resident_sync(r));
    value = comm_flip(value);
    TRY(resident_copy(r, x, &value, 1));
    st = resident_sync(r);
done:
    return st;
}

status resident_probe(resident *r, int target, const double *w, const double *y) {
    probe *p = r->look;
    const int i = probe_find(p, target);
    const int64_t m = r->m, v = r->v;
    double *dx = NULL, *dq = NULL, *dy = NULL;
    status st = MOAO_OK;
    if (i < 0)
        return MOAO_OK;
    const double *x = p->x + i * v;
    TRY(resident_doubles(r, v, "a check", &dx));
    TRY(resident_doubles(r, m, "a check", &dq));
    TRY(resident_doubles(r, 1, "a check", &dy));
    TRY(resident_copy(r, dx, x, v));
    TRY(resident_gemm(r, 'T', 'N', m, 1, v, 1.0, w, v, dx, v, 0.0, dq, m));
    TRY(resident_copy(r, p->q + i * m, dq, m));
    TRY(resident_gemm(r, 'N', 'N', v, 1, v, 1.0, y, v, dx, v, 0.0, dq, v));
    TRY(resident_gemm(r, 'T', 'N', 1, 1, v, 1.0, dx, v, dq, v, 0.0, dy, 1));
    TRY(resident_copy(r, p->y + i, dy, 1));
    st = resident_sync(r);
done:
    r->be->release(r->ctx, dx);
    r->be->release(r->ctx, dq);
    r->be->release(r->ctx, dy);
    return st;
}

status resident_forms(resident *r, const profile *p, bool shifted, const probe *look, double *a,
                      double *b) {
    const probe_conditions o = {.c = r->u.c,
                                .s = r->u.s,
                                .be = r->be,
                                .mat = r->mat,
                                .ctx = r->ctx,
                                .cov = r->cov,
                                .target = r->target,
                                .shifted = shifted};
    report_phase("exposure: check");
    status st = resident_load(r, p);
    return (st = resident_agree(r, st)) == MOAO_OK ? probe_forms(&o, look, a, b) : st;
}
