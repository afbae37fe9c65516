#include "job/verify.h"

#include "base/mix.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHARE 0.02 /* of the time of the exposures */
/* Largest relative differences that are rounding's. On a 6 m case 2e-15 in double precision and
 * 1e-5 in mixed, where the halves of the operands err at random. */
#define TOLERANCE 1e-9
/* Of W: what its solve leaves, relative to few low modes of the commands, is up to 1e-10 with the
 * 102,752 measurements of params/mosaic.yaml. */
#define TOLERANCE_W 1e-7
#define TOLERANCE_MIXED 1e-3
#define TOLERANCE_LAYERS                                                                           \
    1e-3 /* phases that are interpolated: as z, of signs at random, sees them */

void verify_init(const comm *c, const setup *u, const double *dplus, verify *v) {
    *v = (verify){.c = c,
                  .s = &u->s,
                  .dplus = dplus,
                  .mode = u->par->compute_verify,
                  .points = u->o.phase ? psf_points_of(&u->s, &u->o) : 0};
}

static void drop(verify *v) {
    free(v->target);
    free(v->p);
    free(v->look.x);
    free(v->look.q);
    free(v->look.y);
    free(v->look.z);
    free(v->look.c);
    free(v->look.share);
    v->target = NULL;
    v->p = NULL;
    v->look = (probe){0};
}

void verify_free(verify *v) {
    drop(v);
}

/* Numbers of either sign between 1 and 2. */
static void fill(uint64_t seed, size_t n, double *x) {
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = mix_bits(seed + i);
        x[i] = (bits & 1 ? 1 : -1) * (1 + (double)(bits >> 11) * 0x1p-53);
    }
}

/* Room for n targets, their x and z, and D+'x. The same draw in every run of the same exposure.
 * Signs alone would be piston, which D+' takes to nothing but rounding, once in 2^(v-1) draws:
 * often, with few actuators. */
static status draw(verify *v, int e, int t0, int n, int first) {
    const size_t m = v->s->m, t = sys_fit_columns(v->s), nact = (size_t)sys_commands(v->s),
                 count = (size_t)n;
    const uint64_t seed = mix_bits(((uint64_t)e << 32) + (uint64_t)t0);
    status st;
    TRY(ALLOC(v->target, count, "a check"));
    TRY(ALLOC(v->p, count * t, "a check"));
    TRY(ALLOC(v->look.x, count * nact, "a check"));
    TRY(ALLOC(v->look.q, count * m, "a check"));
    TRY(ALLOC(v->look.y, count, "a check"));
    TRY(ALLOC(v->look.z, count * v->points, "a check"));
    TRY(ALLOC(v->look.c, count, "a check"));
    TRY(ALLOC(v->look.share, count, "a check"));
    for (int k = 0; k < n; k++)
        v->target[k] = first + k;
    fill(seed, count * nact, v->look.x);
    fill(mix_bits(seed), count * v->points, v->look.z);
    cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, (int)t, n, (int)nact, 1.0, v->dplus,
                (int)nact, v->look.x, (int)nact, 0.0, v->p, (int)t);
    v->look.n = n;
    v->look.points = v->points;
    v->look.target = v->target;
    v->look.p = v->p;
done:
    return st;
}

/* On rank 0, for all: whether there is time for a check. */
static bool is_due(const verify *v) {
    int due = v->checked == 0 || v->spent + v->cost <= SHARE * v->worked;
    MPI_Bcast(&due, 1, MPI_INT, 0, v->c->mpi);
    return due != 0;
}

status verify_begin(verify *v, int e, int t0, int t1, probe **look) {
    drop(v);
    *look = NULL;
    if (v->mode == VERIFY_OFF || (v->mode == VERIFY_SAMPLE && !is_due(v)))
        return MOAO_OK;
    const int pick = (int)(mix_bits(mix_bits((uint64_t)e) + (uint64_t)t0) % (uint64_t)(t1 - t0));
    status st = v->mode == VERIFY_FULL ? draw(v, e, t0, t1 - t0, t0) : draw(v, e, t0, 1, t0 + pick);
    if ((st = comm_agree(v->c, st)) == MOAO_OK)
        *look = &v->look;
    return st;
}

/* One relative difference; what is too large, or no number, ends the run. */
static status judge(verify *v, int e, int k, verify_subject subject, double gap, double scale,
                    double tolerance) {
    static const char *const name[] = {"its reconstructor W", "its residual",
                                       "the covariance of its phase with its commands"};
    const double relative = scale > 0 ? fabs(gap) / scale : fabs(gap);
    if (!(relative <= tolerance))
        return status_fail(
            MOAO_NUMERIC,
            "exposure %d, target %d: %s is not what it should be (relative difference %.1e, at "
            "most "
            "%.0e is rounding): memory or a processor of this machine has erred; results of this "
            "exposure were not kept: go on with --resume on another one",
            e + 1, v->target[k] + 1, name[subject], relative, tolerance);
    v->largest[subject] = fmax(v->largest[subject], relative);
    return MOAO_OK;
}

static status check(verify *v, obsseq *o, int e, bool mixed, const profile *p, const profile *p0) {
    const size_t n = (size_t)v->look.n;
    const linop *op = o->t.op;
    const double of_w =
        linop_expected(op) > 0 ? fmax(TOLERANCE_MIXED, 10 * linop_expected(op)) : TOLERANCE_W;
    const bool phase = v->points > 0;
    const double tolerance = mixed ? TOLERANCE_MIXED : TOLERANCE,
                 of_phase = o->phase.layers != NULL ? TOLERANCE_LAYERS : tolerance;
    bool shares = false;
    double *a = NULL;
    status st = ALLOC(a, 8 * n, "a check");
    if ((st = comm_agree(v->c, st)) != MOAO_OK)
        goto done;
    comm_sum(v->c, v->look.q, n * v->s->m);
    comm_sum(v->c, v->look.y, n);
    comm_sum(v->c, v->look.c, n);
    comm_sum(v->c, v->look.share, n);
    for (size_t k = 0; k < n; k++)
        shares = shares || v->look.share[k] != 0;
    /* W follows from others, which tor_solve samples */
    const bool split = v->s->fit.split.on || sys_low_follows(v->s);
    const residual_check_forms before = {a, split ? NULL : a + n, shares ? a + 2 * n : NULL,
                                         a + 3 * n},
                               now = {a + 4 * n, phase ? NULL : a + 5 * n, phase ? a + 6 * n : NULL,
                                      a + 7 * n};
    TRY(obsseq_forms(o, p0, false, &v->look, &before));
    for (int k = 0; k < v->look.n && !split; k++)
        TRY(judge(v, e, k, VERIFY_W, before.cmm[k] - before.ctm[k],
                  fabs(before.cmm[k]) + fabs(before.ctm[k]), of_w));
    TRY(obsseq_forms(o, p, true, &v->look, &now));
    for (int k = 0; k < v->look.n; k++) {
        const double ctm = phase ? 0 : 2 * now.ctm[k];
        TRY(judge(v, e, k, VERIFY_RESIDUAL, now.cmm[k] - ctm - 2 * v->look.y[k],
                  fabs(now.cmm[k]) + fabs(ctm), tolerance));
        if (!phase)
            continue;
        const double left = shares ? v->look.share[k] * before.cpm[k] : 0;
        TRY(judge(v, e, k, VERIFY_PHASE, now.cpm[k] - left - v->look.c[k], now.terms[k], of_phase));
    }
done:
    free(a);
    return st;
}

status verify_end(verify *v, obsseq *o, int e, bool mixed, const profile *p, const profile *p0,
                  double seconds) {
    const double from = report_now();
    v->worked += seconds;
    if (v->look.n == 0)
        return MOAO_OK;
    status st = check(v, o, e, mixed, p, p0);
    v->checked += v->look.n;
    v->cost = report_now() - from;
    v->spent += v->cost;
    drop(v);
    return st;
}

void verify_report(const verify *v, report *rep) {
    static const char *const name[] = {"off", "sample", "full"};
    rep->verify = name[v->mode];
    rep->verified = v->checked;
    memcpy(rep->verify_largest, v->largest, sizeof v->largest);
    rep->verify_seconds = v->spent;
}
