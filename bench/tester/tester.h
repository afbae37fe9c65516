/* What the routines of moao-tester share: settings of a run, operands on the host and on the
 * device, checks by products with random vectors. A routine prepares its operands, runs (timed, and
 * as often as is asked), and checks one result of its batch in long double; LAPACK on the CPU runs
 * the same. */
#ifndef MOAO_TESTER_H
#define MOAO_TESTER_H

#include "moao/linalg.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef long double real;

typedef struct {
    backend_type type;
    int64_t m, n, k, nrhs, rank, tile;
    int64_t batch;  /* matrices; 0: one, by the operations on large matrices */
    int64_t checks; /* matrices of a batch that are checked; 0: none */
    char side, uplo, transa, transb, diag;
    double tol, perturb;
    uint64_t seed;
    int repeat;
    bool rival; /* LAPACK */
} setting;

/* A column-major matrix, or `count` of them one after another. */
typedef struct {
    int64_t rows, cols, count;
    double *given, *found; /* host: numbers of the type, as doubles */
    void *sent;            /* host: as they were sent, in the type */
    void *kept, *device;   /* of the backend; device := kept before each run */
    char result; /* what is fetched, and changed by --perturb: A all, L, U a triangle; 0: nothing */
} array;

enum { ARRAYS = 8 };
struct routine;
typedef struct {
    const setting *s;
    const struct routine *of;
    array x[ARRAYS];
    void *work;
    size_t lwork;
    int *info; /* device, of each matrix */
    int64_t *ranks;
    int64_t *rank_found;                   /* host, after the runs */
    void *rival[ARRAYS];                   /* host: LAPACK's copies */
    void *more;                            /* of the routine's own */
    double residual, orthogonality, limit; /* NaN: there is none; largest residual that passes */
} job;

enum { ONE = 1, BATCH = 2, OWN = 4 }; /* what a routine can be; OWN: a format, of no batch */

typedef struct routine {
    const char *name, *family, *what;
    int forms;
    status (*prepare)(job *j);
    status (*run)(job *j);
    /* Raises j->residual and j->orthogonality by those of matrix b. */
    status (*check)(job *j, int64_t b);
    void (*rival)(job *j, int64_t b); /* NULL: LAPACK has none */
    double (*flops)(const setting *s);
    void (*end)(job *j); /* NULL: nothing of its own */
} routine;

extern const routine dense_routines[], lowrank_routines[], product_routines[], format_routines[];

extern const backend *be;
extern backend_ctx *ctx;

/* --- numbers and operands (operands.c) ----------------------------------------------------------
 */
double tester_random(uint64_t *state); /* in (-1, 1) */
double eps_of(backend_type t);
static inline int64_t count_of(const setting *s) {
    return s->batch > 0 ? s->batch : 1;
}
static inline int64_t ld_of(const array *x) {
    return x->rows > 0 ? x->rows : 1;
}
/* Zeros; x->given is to be filled, array_send takes it to the device. */
status array_new(array *x, const setting *s, int64_t rows, int64_t cols);
status array_send(array *x, backend_type t);
status array_reset(array *x, backend_type t);
status array_fetch(array *x, const setting *s);
void array_free(array *x);
void fill_random(array *x, uint64_t seed);
/* Symmetric with a dominant diagonal; a triangle of condition about 10. */
void fill_spd(array *x, uint64_t seed);
void fill_triangle(array *x, uint64_t seed);
static inline batch_mat operand(const array *x) {
    return batch_strided(x->device, ld_of(x), ld_of(x) * x->cols);
}
status job_alloc(job *j, size_t lwork);
const void *scalar(backend_type t, double v); /* one of 2, 1, 0, -1 */

/* A matrix for checks: part A all of it; L, U a triangle; S, s symmetric, from its lower or upper
 * triangle. */
typedef struct {
    const double *p;
    int64_t ld, rows, cols;
    char part;
    bool unit;
} view;
static inline view given(const job *j, int i, int64_t b, char part) {
    const array *x = &j->x[i];
    return (view){x->given + b * ld_of(x) * x->cols, ld_of(x), x->rows, x->cols, part, false};
}
static inline view found(const job *j, int i, int64_t b, char part) {
    const array *x = &j->x[i];
    return (view){x->found + b * ld_of(x) * x->cols, ld_of(x), x->rows, x->cols, part, false};
}
real entry_of(view a, int64_t i, int64_t j);
/* y := y + f op(A) x */
void add_product(view a, char trans, real f, const real *x, real *y);
real norm_of(view a);
real norm(int64_t n, const real *x);
real *vector(int64_t n);                       /* zeros */
real *random_vector(int64_t n, uint64_t seed); /* free() both */
/* Raises *x to v; NaN counts as infinite. */
void raise(double *x, real v);
/* Raises j->residual: a vector that should be 0, against a scale, in units of rounding times n. */
void judge(job *j, const real *r, int64_t n, real scale, int64_t units);
/* Largest |Q^T Q - I| in units of rounding times the rows. */
void judge_columns(job *j, view q);

/* --- LAPACK -------------------------------------------------------------------------------------
 */
void *rival_of(const job *j, int i, int64_t b);
#define LAPACK(t, name) ((t) == BACKEND_D ? d##name##_ : s##name##_)
#define EXTERN(name) extern void d##name##_(), s##name##_()

#endif
