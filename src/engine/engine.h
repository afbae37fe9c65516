/* What computes on a rank: a device of a backend, with the covariances of the current profile. The
 * stages and the operators work with it, on the CPU and on a GPU. Work goes into the stream
 * of ctx unless a function says that it waits. */
#ifndef MOAO_ENGINE_H
#define MOAO_ENGINE_H

#include "backend/backend_matcov.h"
#include "base/comm.h"
#include "base/fault.h"
#include "base/progress.h"
#include "matcov/matcov.h"
#include "moao/backend.h"
#include "system/system.h"

/* Covariances as they are prepared on the host before a device has them. */
typedef struct {
    const profile *p, *p0; /* of C(p) - beta C(p0) (matcov_prepare_difference), p0 NULL: of p */
    double beta;
    bool drifts;
    matcov *mc;   /* NULL: not prepared */
    double bound; /* of the entries of a difference [arcsec^2], */
    double phase; /* and where it drifts those of Cpm (matcov_phase_bound) [m arcsec] */
} engine_model;

typedef struct {
    const comm *c; /* borrowed, as all that is const */
    const sys *s;
    report *rep;
    const backend *be;
    const backend_matcov *mat;
    int device;
    bool phase;                /* nothing is projected: Y + Y' = W Cmm W' (obsseq/residual.h) */
    bool collective;           /* ranks use the same panels at the same time: local failures are
                               agreed on at once (engine_agree_now) */
    backend_ctx *ctx, *low;    /* low: a stream of low priority */
    int64_t m, t, rows, width; /* measurements; rows of a right-hand side (sys_fit_rows), rows of W
                                  of a target; columns of a panel */
    int ndir;                  /* directions of a right-hand side (sys_fit_directions) */
    const double *x, *y; /* points of the pupil that commands are fitted to [m], on the device;
                            NULL: to slopes */
    double one_target;   /* bytes that the plan takes for one target, for messages */
    matcov *mc;          /* covariances loaded last */
    engine_model *ready; /* [nready] borrowed: prepared for loads to come */
    int nready;
    backend_cov *cov;
    void *work; /* shared by all that comes in stream order */
    size_t lwork;
} engine;

/* Local. Takes the device of the rank's number on its node, modulo the devices there. e holds c, s,
 * rep, be, collective and the sizes already. close: fine on {0}. */
status engine_open(engine *e);
void engine_close(engine *e);

/* Make p the profile of the covariances to come. Collective where ranks work in lockstep, else
 * local.
 */
status engine_load(engine *e, const profile *p);
/* Local. The same of covariances prepared already; takes them, also when it fails. */
status engine_use(engine *e, matcov *mc);
/* Local, of the host alone: fills m, of which it reads the first members. free: fine on {0}. */
status engine_prepare(const sys *s, bool phase, engine_model *m);
void engine_model_free(engine_model *m);
/* Local. m becomes that one of n prepared models which has its first members, where there is one,
 * and takes its covariances. */
void engine_model_take(engine_model *from, int n, engine_model *m);
/* Local. Makes m that of the covariances to come, from e->ready where it is there. */
status engine_load_model(engine *e, engine_model *m);

/* Collective where ranks work in lockstep: the worst status of all of them. Else local: st. */
status engine_agree_now(const engine *e, stage stg, status st);
/* Collective. As comm_agree, for what ends the run: other ranks leave their work, and the message
 * says how to go on after a failure of the device. */
status engine_agree(const engine *e, stage stg, status st);

/* Local. Aims at direction d of those that shared commands are fitted to; else nothing: the target
 * was aimed. */
status engine_aim_right(const engine *e, backend_cov_target *target, int d);
/* Local. What W is fitted to, of a target that was aimed: columns j .. j + n of Ctm or, in its
 * place, of Cpm at the points, e->t x n, type D or S, leading dimension e->t. */
status engine_fill_right(const engine *e, backend_cov_target *target, backend_type t, int64_t j,
                         int64_t n, void *a);
/* The same in type D of both axes of subapertures of a sensor. */
status engine_fill_right_both(const engine *e, backend_cov_target *target, matcov_slopes k,
                              double *a);

/* Local. Waits for the stream; MOAO_INTERNAL, without a message, when another rank failed. */
status engine_sync(engine *e);

/* Local. Memory of the device; MOAO_MEMORY says what it was for and what to do. */
status engine_array(engine *e, size_t bytes, const char *what, void **p);
status engine_doubles(engine *e, int64_t count, const char *what, double **p);
/* Local. Gives such memory back; NULL is fine. */
void engine_release(const engine *e, size_t n, void *const *p);
#define ENGINE_RELEASE(e, ...)                                                                     \
    engine_release(e, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *), (void *[]){__VA_ARGS__})
/* Local. The shared work holds that many bytes. */
status engine_work(engine *e, size_t bytes);

/* Copy between host and device: contiguous. */
status engine_copy(engine *e, double *dst, const double *src, int64_t count);
/* gemm of doubles. */
status engine_gemm(engine *e, char ta, char tb, int64_t m, int64_t n, int64_t k, double alpha,
                   const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                   double *c, int64_t ldc);

/* Numbers of type D or S, rows x cols with leading dimension ld >= rows, become 0: in stream order,
 * whatever they were. */
status engine_zero(engine *e, backend_type t, int64_t rows, int64_t cols, void *a, int64_t ld);

/* Local. comm_flip of a number on the device, where comm_flips says so. */
status engine_flip(engine *e, const char *where, double *x);

/* At least as many doubles, a multiple of 256 bytes. */
static inline int64_t engine_aligned(int64_t count) {
    return (count + 31) / 32 * 32;
}

/* Columns of the panel at j. */
static inline int64_t engine_width(const engine *e, int64_t j, int64_t end) {
    return end - j < e->width ? end - j : e->width;
}

/* Columns [j, end) of Cmm: a sensor's, whose two axes are covariances of one evaluation, or equal
 * parts of them, none of more than `most`, >= 1. after: the one behind p, or {-1, 0, 0} for the
 * first; behind the last one j is m. Local. */
typedef struct {
    int64_t number, j, end;
} sensor_columns;
sensor_columns engine_columns_after(const engine *e, int64_t most, sensor_columns p);
static inline sensor_columns engine_first_columns(const engine *e, int64_t most) {
    return engine_columns_after(e, most, (sensor_columns){-1, 0, 0});
}

/* Wait for the other ranks of an MPI call, timed: seconds are added to rep->wait[stg]. */
#define TIMED_WAIT(rep, stg, call)                                                                 \
    do {                                                                                           \
        double wait_from_ = report_now();                                                          \
        call;                                                                                      \
        (rep)->wait[stg] += report_now() - wait_from_;                                             \
    } while (0)

/* Local. Tell the progress display of the work done since the last call. */
void engine_progress(const engine *e);

#endif
