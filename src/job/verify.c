#include "job/verify.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHARE 0.02 /* of the time of the exposures */
/* Largest relative differences that are rounding's. On a 6 m case 2e-15 in double precision and
 * 1e-5 in mixed, where the halves of the operands err at random. */
#define TOLERANCE 1e-9
#define TOLERANCE_MIXED 1e-3

void verify_init(const comm *c, const setup *u, const double *dplus, verify *v) {
    *v = (verify){
        .c = c, .s = &u->s, .dplus = dplus, .mode = u->par.compute_verify, .direct = u->o.phase};
}

static void drop(verify *v) {
    free(v->target);
    free(v->p);
    free(v->look.x);
    free(v->look.q);
    free(v->look.y);
    v->target = NULL;
    v->p = NULL;
    v->look = (probe){0};
}

void verify_free(verify *v) {
    drop(v);
}

/* Mixes the bits of a number (SplitMix64 by Steele et al. 2014). */
static uint64_t mix(uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Room for n targets, their x, and D+'x. The same draw in every run of the same exposure. Signs
 * alone would be piston, which D+' takes to nothing but rounding, once in 2^(v-1) draws: often,
 * with few actuators. */
static status draw(verify *v, int e, int t0, int n, int first) {
    const size_t m = v->s->m, t = v->s->t, nact = (size_t)v->s->dm.nact, count = (size_t)n;
    uint64_t seed = mix(((uint64_t)e << 32) + (uint64_t)t0);
    status st;
    TRY(ALLOC(v->target, count, "a check"));
    TRY(ALLOC(v->p, count * t, "a check"));
    TRY(ALLOC(v->look.x, count * nact, "a check"));
    TRY(ALLOC(v->look.q, count * m, "a check"));
    TRY(ALLOC(v->look.y, count, "a check"));
    for (int k = 0; k < n; k++)
        v->target[k] = first + k;
    for (size_t i = 0; i < count * nact; i++) {
        const uint64_t bits = mix(seed + i);
        v->look.x[i] = (bits & 1 ? 1 : -1) * (1 + (double)(bits >> 11) * 0x1p-53);
    }
    cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, (int)t, n, (int)nact, 1.0, v->dplus,
                (int)nact, v->look.x, (int)nact, 0.0, v->p, (int)t);
    v->look.n = n;
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
    const int pick = (int)(mix(mix((uint64_t)e) + (uint64_t)t0) % (uint64_t)(t1 - t0));
    status st = v->mode == VERIFY_FULL ? draw(v, e, t0, t1 - t0, t0) : draw(v, e, t0, 1, t0 + pick);
    if ((st = comm_agree(v->c, st)) == MOAO_OK)
        *look = &v->look;
    return st;
}

/* One relative difference; what is too large, or no number, ends the run. */
static status judge(verify *v, int e, int k, const char *what, double gap, double scale,
                    double tolerance) {
    const double relative = scale > 0 ? fabs(gap) / scale : fabs(gap);
    if (!(relative <= tolerance))
        return status_fail(
            MOAO_NUMERIC,
            "exposure %d, target %d: %s is not what it should be (relative difference %.1e, at "
            "most "
            "%.0e is rounding): memory or a processor of this machine has erred; results of this "
            "exposure were not kept: go on with --resume on another one",
            e + 1, v->target[k] + 1, what, relative, tolerance);
    v->largest = relative > v->largest ? relative : v->largest;
    return MOAO_OK;
}

static status check(verify *v, obsseq *o, int e, bool mixed, const profile *p, const profile *p0) {
    const size_t n = (size_t)v->look.n;
    const linop *op = o->t.op;
    const double w =
        op->kind->expected == NULL ? TOLERANCE : fmax(TOLERANCE_MIXED, 10 * op->kind->expected(op));
    double *a = NULL;
    status st = ALLOC(a, 2 * n, "a check");
    if ((st = comm_agree(v->c, st)) != MOAO_OK)
        goto done;
    double *b = a + n;
    comm_sum(v->c, v->look.q, n * v->s->m);
    comm_sum(v->c, v->look.y, n);
    TRY(obsseq_forms(o, p0, false, &v->look, a, b));
    for (int k = 0; k < v->look.n; k++)
        TRY(judge(v, e, k, "its reconstructor W", a[k] - b[k], fabs(a[k]) + fabs(b[k]), w));
    TRY(obsseq_forms(o, p, true, &v->look, a, b));
    const double twice = v->direct ? 0 : 2; /* of the residual phase Y is of W Cmm W' alone */
    for (int k = 0; k < v->look.n; k++)
        TRY(judge(v, e, k, "its residual", a[k] - twice * b[k] - 2 * v->look.y[k],
                  fabs(a[k]) + twice * fabs(b[k]), mixed ? TOLERANCE_MIXED : TOLERANCE));
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
    rep->verify_largest = v->largest;
    rep->verify_seconds = v->spent;
}
