/* What tests of compressed factors share: the variants, their residuals, and solves against the
 * dense form. */
#ifndef MOAO_TESTS_TLR_FACTORS_H
#define MOAO_TESTS_TLR_FACTORS_H

#include "support/tlr_case.h"

/* |L L^T - A| on the lower triangle. */
static inline double residual(const points *p, const tlr *l) {
    const int64_t n = p->n;
    double *a = dense(p, 0, n, 0, n), *f = expanded(l, n, n), s = 0;
    product_host('N', 'T', n, n, n, -1, f, n, f, n, 1, a, n);
    s = distance(a, NULL, n * n);
    free(a), free(f);
    return s;
}

typedef struct {
    const char *name;
    bool compressed; /* input */
    char look;
} variant;
static const variant variants[] = {{"DL left", false, 'L'},
                                   {"DL right", false, 'R'},
                                   {"LL left", true, 'L'},
                                   {"LL right", true, 'R'}};
enum { VARIANTS = sizeof variants / sizeof *variants };

static inline status try_factor(const points *p, variant v, const tlr_options *o,
                                const tlr_rescue *r, tlr **l, tlr_report *report) {
    tlr_source from = {.layout = &p->l, .fill = fill, .arg = (void *)p};
    tlr *a = NULL;
    if (v.compressed) {
        ok(tlr_build(be, ctx, &p->l, NULL, fill, (void *)p, o, &a));
        from.a = a;
    }
    const status st = tlr_factor(be, ctx, &from, v.look, o, r, l, report);
    tlr_close(a);
    return st;
}

static inline tlr *factor(const points *p, variant v, const tlr_options *o) {
    tlr_report report;
    tlr *l;
    ok(try_factor(p, v, o, NULL, &l, &report));
    assert_int_equal(report.minor, 0);
    return l;
}

/* X op(L)^-1 against the dense form of L, relative. */
static inline double solve_error(const tlr *l, const double *full, int64_t n, char job) {
    const int64_t v = job == 'A' ? 70 : 7, ld = v + 3; /* of width 64 more and less */
    const double one = 1;
    double *x = noise(ld * n), *there = up(x, ld * n);
    for (const char *trans = job == 'A' ? "TN" : job == 'T' ? "T" : "N"; *trans; trans++)
        ok(backend_cpu.trsm(NULL, BACKEND_D, 'R', 'L', *trans, 'N', v, n, &one, full, n, x, ld,
                            NULL, 0));
    ok(tlr_solve(l, 'R', job, v, there, ld));
    double *y = down(there, ld * n);
    const double off = distance(x, y, ld * n) / distance(x, NULL, ld * n);
    be->release(ctx, there);
    free(x), free(y);
    return off;
}

#endif
