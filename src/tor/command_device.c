/* D+ and H on a device: some 1e12 operations at 84 subapertures, which take a host seconds. */
#include "matcov/matcov.h"
#include "tor/command.h"
#include "tor/command_internal.h"

#include <stdlib.h>

typedef struct {
    const backend *be;
    backend_ctx *ctx;
    int64_t v, t;
    double *d, *m, *p; /* on the device: D (t x v), M and then H (v x v), D+ (v x t) */
    int *info;
    void *work;
    size_t lwork;
    double *host; /* D, then M */
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
    TRY(ALLOC(x->host, t > v ? t * v : v * v, "interaction matrix"));
    TRY(x->be->open(number, NULL, &x->ctx));
    TRY(take(x, t * v * d, &x->d));
    TRY(take(x, t * v * d, &x->p));
    TRY(take(x, v * v * d, &x->m));
    TRY(take(x, sizeof *x->info, &x->info));
    st = take(x, x->lwork > 0 ? x->lwork : 1, &x->work);
done:
    return st;
}

static void close_device(device *x) {
    if (x->ctx != NULL) {
        void *const mine[] = {x->d, x->m, x->p, x->info, x->work};
        for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
            x->be->release(x->ctx, mine[i]);
        x->be->close(x->ctx);
    }
    free(x->host);
}

/* Between host and device, which then is ready. */
static status copy(device *x, double *to, const double *from, int64_t rows, int64_t cols) {
    const int64_t bytes = rows * (int64_t)sizeof(double);
    const status st = x->be->copy(x->ctx, to, bytes, from, bytes, bytes, cols);
    return st == MOAO_OK ? x->be->sync(x->ctx) : st;
}

/* M's factor to m and host; its norm. */
static status factor(device *x, const sys *s, double *norm) {
    const double one = 1, zero = 0;
    const int64_t v = x->v, t = x->t;
    int info;
    status st;
    report_phase("setup: interaction matrix");
    TRY(matcov_fill_interaction(s, x->host, (size_t)t));
    TRY(copy(x, x->d, x->host, t, v));
    report_phase("setup: mirror's normal matrix");
    TRY(x->be->syrk(x->ctx, BACKEND_D, 'L', 'T', v, t, &one, x->d, t, &zero, x->m, v, x->work,
                    x->lwork));
    TRY(x->be->mirror(x->ctx, BACKEND_D, 'L', v, x->m, v)); /* no unknown numbers above */
    TRY(copy(x, x->host, x->m, v, v));
    TRY(command_regularise(s, x->host));
    TRY(command_norm(s, x->host, norm));
    TRY(copy(x, x->m, x->host, v, v));
    TRY(x->be->potrf(x->ctx, BACKEND_D, 'L', v, x->m, v, x->info, x->work, x->lwork));
    TRY(x->be->copy(x->ctx, &info, sizeof info, x->info, sizeof info, sizeof info, 1));
    TRY(copy(x, x->host, x->m, v, v));
    st = info != 0 ? command_not_positive(s, info) : MOAO_OK;
done:
    return st;
}

static status compute(device *x, const sys *s, double *dplus, command_inverse *inverse) {
    const double one = 1, zero = 0;
    const int64_t v = x->v, t = x->t;
    double norm;
    status st;
    TRY(factor(x, s, &norm));
    report_phase("setup: its condition");
    TRY(command_condition(s, norm, x->host, &inverse->condition));
    report_phase("setup: its inverse, D+");
    TRY(x->be->potri(x->ctx, BACKEND_D, 'L', v, x->m, v, x->info, x->work, x->lwork));
    TRY(x->be->mirror(x->ctx, BACKEND_D, 'L', v, x->m, v));
    TRY(copy(x, inverse->h, x->m, v, v));
    command_remove_piston((size_t)v, (size_t)v, inverse->h);
    TRY(copy(x, x->m, inverse->h, v, v));
    TRY(x->be->gemm(x->ctx, BACKEND_D, 'N', 'T', v, t, v, &one, x->m, v, x->d, t, &zero, x->p, v,
                    x->work, x->lwork));
    st = copy(x, dplus, x->p, v, t);
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
