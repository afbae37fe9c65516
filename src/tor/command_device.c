/* D+ and H on a device: some 1e12 operations at 84 subapertures, which take a host seconds. */
#include "matcov/matcov.h"
#include "tor/command.h"
#include "tor/command_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const backend *be;
    backend_ctx *ctx;
    int64_t v, t;
    double *d, *m, *p; /* on the device: D (t x v), M and then H (v x v), D+ (v x t) */
    int *info;
    void *work;
    size_t lwork;
    double *host; /* pinned: what is in transit, */
    int minor;    /* and of potrf */
} device;

static status take(device *x, size_t bytes, void *p) {
    return x->be->alloc(x->ctx, bytes, p);
}

static status open_device(int number, device *x) {
    const size_t d = sizeof(double), v = (size_t)x->v, t = (size_t)x->t;
    const backend_op ops[] = {BACKEND_SYRK, BACKEND_POTRF, BACKEND_POTRI, BACKEND_GEMM};
    status st;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const bool alone = ops[i] != BACKEND_SYRK && ops[i] != BACKEND_GEMM;
        const size_t one = x->be->workspace(ops[i], BACKEND_D, x->v, alone ? x->v : x->t);
        x->lwork = one > x->lwork ? one : x->lwork;
    }
    TRY(x->be->open(number, NULL, &x->ctx));
    TRY(x->be->alloc_host(x->ctx, (t > v ? t : v) * v * d, (void **)&x->host));
    TRY(take(x, t * v * d, &x->d));
    TRY(take(x, t * v * d, &x->p));
    TRY(take(x, v * v * d, &x->m));
    TRY(take(x, sizeof *x->info, &x->info));
    st = take(x, x->lwork > 0 ? x->lwork : 1, &x->work);
done:
    return st;
}

static void close_device(device *x) {
    if (x->ctx == NULL)
        return;
    void *const mine[] = {x->d, x->m, x->p, x->info, x->work};
    x->be->sync(x->ctx); /* copies may be in transit after a failure */
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        x->be->release(x->ctx, mine[i]);
    x->be->release_host(x->ctx, x->host);
    x->be->close(x->ctx);
}

/* Between host and device, which then is ready. */
static status copy(device *x, double *to, const double *from, int64_t rows, int64_t cols) {
    const int64_t bytes = rows * (int64_t)sizeof(double);
    const status st = x->be->copy(x->ctx, to, bytes, from, bytes, bytes, cols);
    return st == MOAO_OK ? x->be->sync(x->ctx) : st;
}

/* The same to memory of the host that is touched for the first time: by all threads. */
static status bring(device *x, double *to, const double *from, int64_t rows, int64_t cols) {
    const status st = copy(x, x->host, from, rows, cols);
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < (st == MOAO_OK ? cols : 0); j++)
        memcpy(to + j * rows, x->host + j * rows, (size_t)rows * sizeof *to);
    return st;
}

/* m := M = D'D + g (mu L'L + 11'/v), whole; host the same. */
static status form_normal(device *x, const sys *s) {
    const double one = 1;
    const int64_t v = x->v, t = x->t;
    status st;
    report_phase("setup: interaction matrix");
    TRY(matcov_fill_interaction(s, x->host, (size_t)t));
    TRY(copy(x, x->d, x->host, t, v));
    report_phase("setup: mirror's normal matrix");
    memset(x->host, 0, (size_t)(v * v) * sizeof *x->host);
    TRY(command_regularise(s, x->host));
    TRY(copy(x, x->m, x->host, v, v));
    TRY(x->be->syrk(x->ctx, BACKEND_D, 'L', 'T', v, t, &one, x->d, t, &one, x->m, v, x->work,
                    x->lwork));
    TRY(x->be->mirror(x->ctx, BACKEND_D, 'L', v, x->m, v));
    st = copy(x, x->host, x->m, v, v);
done:
    return st;
}

/* m := M^-1, whole; host the same, and the condition by both norms. */
static status invert(device *x, const sys *s, double *condition) {
    const int64_t v = x->v;
    status st;
    report_phase("setup: its inverse, D+");
    TRY(x->be->potrf(x->ctx, BACKEND_D, 'L', v, x->m, v, x->info, x->work, x->lwork));
    TRY(x->be->copy(x->ctx, &x->minor, sizeof(int), x->info, sizeof(int), sizeof(int), 1));
    TRY(x->be->potri(x->ctx, BACKEND_D, 'L', v, x->m, v, x->info, x->work, x->lwork));
    TRY(x->be->mirror(x->ctx, BACKEND_D, 'L', v, x->m, v));
    *condition = command_norm_of((size_t)x->v, x->host); /* of M, meanwhile */
    TRY(copy(x, x->host, x->m, v, v));
    st = x->minor != 0 ? command_not_positive(s, x->minor) : MOAO_OK;
done:
    return st;
}

/* m := H = (I - 11'/v) m, then p := D+ = H D'. Returns before it has run. */
static status project(device *x) {
    const double one = 1, zero = 0, minus = -1 / (double)x->v;
    const int64_t v = x->v, t = x->t, bytes = v * (int64_t)sizeof(double);
    double *ones = x->p, *sums = x->p + v, *row = NULL;
    status st;
    TRY(ALLOC(row, (size_t)v, "sums of columns"));
    for (int64_t i = 0; i < v; i++)
        row[i] = 1;
    TRY(x->be->copy(x->ctx, ones, bytes, row, bytes, bytes, 1));
    TRY(x->be->sync(x->ctx));
    TRY(x->be->gemm(x->ctx, BACKEND_D, 'T', 'N', 1, v, v, &one, ones, v, x->m, v, &zero, sums, 1,
                    x->work, x->lwork));
    TRY(x->be->gemm(x->ctx, BACKEND_D, 'N', 'N', v, v, 1, &minus, ones, v, sums, 1, &one, x->m, v,
                    x->work, x->lwork));
    TRY(x->be->gemm(x->ctx, BACKEND_D, 'N', 'T', v, t, v, &one, x->m, v, x->d, t, &zero, x->p, v,
                    x->work, x->lwork));
done:
    free(row);
    return st;
}

static status compute(device *x, const sys *s, double *dplus, command_inverse *inverse) {
    status st;
    TRY(form_normal(x, s));
    TRY(invert(x, s, &inverse->condition));
    TRY(project(x));
    inverse->condition *= command_norm_of((size_t)x->v, x->host); /* meanwhile */
    TRY(bring(x, inverse->h, x->m, x->v, x->v));
    st = bring(x, dplus, x->p, x->v, x->t);
done:
    return st;
}

status command_init_device(const comm *c, const sys *s, const backend *be, double *dplus,
                           command_inverse *inverse) {
    device x = {.be = be, .v = s->dm.nact, .t = (int64_t)s->t};
    const int n = be->devices();
    status st = n > 0 ? open_device(c->node_rank % n, &x)
                      : status_fail(MOAO_INPUT, "compute.backend: no device was found");
    if (st == MOAO_OK)
        st = compute(&x, s, dplus, inverse);
    close_device(&x);
    if ((st = comm_agree(c, st)) == MOAO_OK) /* so that all decide alike */
        MPI_Bcast(&inverse->condition, 1, MPI_DOUBLE, 0, c->mpi);
    return st;
}
