/* Batched operations by one call each (moao/batched.h): arguments are checked in their order, lists
 * go to the backend's memory, the table's operation runs, and what failed is reported. */
#include "moao/batched.h"
#include "checked_batch.h"
#include "kept.h"
#include "moao/batched_complex.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOMS = 24, CALL_WORK = 1 << 30, COMPLEX_MAX = 1 << 20 };

/* A matrix of a call: the first one, or an array of pointers in the host's memory. */
typedef struct {
    void *p;
    int64_t ld, stride;
} mat;

typedef struct {
    backend_ctx *ctx;
    backend_type type;
    bool strided;
    int64_t count;
    const char *name;
    int at; /* the argument that was checked last, ctx being 1 */
    status st;
    void *room[ROOMS]; /* of the backend's memory */
    int rooms;
    kept *kept;          /* that of the context, or NULL */
    size_t used, wanted; /* of it; by the call */
} frame;

/* --- arguments, one after another; the first wrong one is reported ------------------------------
 */

static void wrong(frame *f, const char *arg, const char *is, const char *expected) {
    f->st = status_fail(MOAO_INPUT, "%s: argument %d (%s) is %s, %s is expected", f->name, f->at,
                        arg, is, expected);
}

/* Of the value v of an argument. */
static void within(frame *f, const char *arg, int64_t v, int64_t low, int64_t high) {
    char is[32], expected[64];
    if (f->st != MOAO_OK || (v >= low && v <= high))
        return;
    snprintf(is, sizeof is, "%lld", (long long)v);
    if (high == INT64_MAX)
        snprintf(expected, sizeof expected, "at least %lld", (long long)low);
    else if (low == INT64_MIN)
        snprintf(expected, sizeof expected, "at most %lld", (long long)high);
    else
        snprintf(expected, sizeof expected, "%lld to %lld", (long long)low, (long long)high);
    wrong(f, arg, is, expected);
}

static void size(frame *f, const char *arg, int64_t v, int64_t high) {
    f->at++;
    within(f, arg, v, 0, high);
}

static void letter(frame *f, const char *arg, char c, const char *letters) {
    char is[16], expected[32] = "one of";
    size_t len = strlen(expected);
    f->at++;
    if (f->st != MOAO_OK || (c != '\0' && backend_is(c, letters)))
        return;
    snprintf(is, sizeof is, c > ' ' && c < 127 ? "'%c'" : "character %d", c);
    for (; *letters; letters++, len += 2)
        snprintf(expected + len, sizeof expected - len, " %c", *letters);
    wrong(f, arg, is, expected);
}

static void tolerance(frame *f, double tol) {
    char is[32];
    f->at++;
    if (f->st != MOAO_OK || tol >= 0)
        return;
    snprintf(is, sizeof is, "%g", tol);
    wrong(f, "tol", is, "at least 0");
}

static void skip(frame *f, int arguments) {
    f->at += arguments;
}

static void pointer(frame *f, const char *arg, const void *p, bool used) {
    f->at++;
    if (f->st == MOAO_OK && p == NULL && used && f->count > 0)
        wrong(f, arg, "NULL", "an array");
}

/* Pointers of all matrices, where there is something in them. */
static void pointers(frame *f, const char *arg, const mat *x, bool used) {
    pointer(f, arg, x->p, used);
    if (f->st != MOAO_OK || f->strided || !used)
        return;
    for (int64_t b = 0; b < f->count; b++)
        if (((void *const *)x->p)[b] == NULL) {
            f->st = status_fail(MOAO_INPUT,
                                "%s: argument %d (%s) has NULL for matrix %lld, a pointer is "
                                "expected",
                                f->name, f->at, arg, (long long)b);
            return;
        }
}

/* Distance of two matrices that need so many elements each; what is only read may be one for all.
 */
static void stride(frame *f, const char *arg, const mat *x, int64_t need, bool written) {
    char name[32];
    if (!f->strided)
        return;
    f->at++;
    snprintf(name, sizeof name, "stride%s", arg);
    within(f, name, x->stride, written && f->count > 1 ? need : 0, INT64_MAX);
}

/* rows and cols are in range, unless an argument was wrong before. */
static void matrix(frame *f, const char *arg, const mat *x, int64_t rows, int64_t cols,
                   bool written) {
    char name[32];
    int64_t need = 0;
    pointers(f, arg, x, rows > 0 && cols > 0);
    f->at++;
    snprintf(name, sizeof name, "ld%s", arg);
    within(f, name, x->ld, rows > 1 ? rows : 1, INT64_MAX);
    if (f->st == MOAO_OK && rows > 0 && cols > 0 &&
        (__builtin_mul_overflow(x->ld, cols - 1, &need) ||
         __builtin_add_overflow(need, rows, &need)))
        need = INT64_MAX;
    stride(f, arg, x, need, written);
}

static void vector(frame *f, const char *arg, const mat *x, int64_t length, bool written) {
    pointers(f, arg, x, length > 0);
    stride(f, arg, x, length, written);
}

/* Columns of each matrix: the largest. */
static int64_t columns(frame *f, const char *arg, const int64_t *k, int64_t high) {
    int64_t most = 0;
    pointer(f, arg, k, true);
    for (int64_t b = 0; f->st == MOAO_OK && b < f->count; b++) {
        if (k[b] < 0 || k[b] > high)
            f->st =
                status_fail(MOAO_INPUT,
                            "%s: argument %d (%s) is %lld for matrix %lld, 0 to %lld is "
                            "expected",
                            f->name, f->at, arg, (long long)k[b], (long long)b, (long long)high);
        most = k[b] > most ? k[b] : most;
    }
    return most;
}

/* The last argument; whether there is something to do. */
static bool counted(frame *f) {
    f->at++;
    within(f, "count", f->count, 0, INT64_MAX);
    return f->st == MOAO_OK && f->count > 0;
}

/* --- memory -------------------------------------------------------------------------------------
 */

static const backend *own(const frame *f) {
    return backend_own(f->ctx);
}

static void *allocate(frame *f, size_t bytes) {
    const bool quiet = status_message()[0] == '\0';
    void *p = NULL;
    f->st = checked_alloc(f->ctx, bytes, &p);
    if (f->st != MOAO_MEMORY || f->used > 0 || !f->kept || f->kept->bytes == 0)
        return p;
    if (quiet)
        status_clear();
    kept_release(f->ctx); /* too small, and it may be what is missing */
    f->kept = NULL;
    f->st = checked_alloc(f->ctx, bytes, &p);
    return p;
}

/* Out of what the context keeps, while that is large enough. */
static void *take(frame *f, size_t bytes) {
    const size_t whole = (bytes + 255) / 256 * 256 + (bytes == 0 ? 256 : 0);
    void *p = NULL;
    if (f->st != MOAO_OK)
        return NULL;
    if (f->wanted == 0)
        f->kept = kept_of(f->ctx);
    if (f->kept && f->used + whole <= f->kept->bytes) {
        p = f->kept->p + f->used;
        f->used += whole;
        extents_add(p, bytes > 0 ? bytes : 1);
    } else {
        p = allocate(f, bytes > 0 ? bytes : 1);
    }
    if (p != NULL)
        f->room[f->rooms++] = p, f->wanted += whole;
    return p;
}

static void move(frame *f, void *to, const void *from, int64_t bytes) {
    if (f->st == MOAO_OK && bytes > 0)
        f->st = checked_copy(f->ctx, to, bytes, from, bytes, bytes, 1);
    if (f->st == MOAO_OK)
        f->st = own(f)->sync(f->ctx);
}

static void *put(frame *f, const void *host, int64_t bytes) {
    void *p = take(f, (size_t)bytes);
    move(f, p, host, bytes);
    return p;
}

/* An operand of the tables' operations; one that is not used has no pointers. */
static batch_mat operand(frame *f, mat x) {
    if (f->strided || x.p == NULL)
        return batch_strided(x.p, x.ld > 0 ? x.ld : 1, x.stride);
    return batch_pointers(put(f, x.p, f->count * (int64_t)sizeof(void *)), x.ld);
}

/* As many as there are matrices. */
static int *ints(frame *f) {
    return take(f, sizeof(int) * (size_t)f->count);
}
static int64_t *longs(frame *f) {
    return take(f, sizeof(int64_t) * (size_t)f->count);
}

/* Room for so many elements of each matrix. */
static batch_mat factors(frame *f, int64_t rows, int64_t cols) {
    const int64_t ld = rows > 0 ? rows : 1;
    return batch_strided(take(f, backend_size(f->type) * (size_t)(f->count * ld * cols)), ld,
                         ld * cols);
}

/* What an operation uses at best, up to CALL_WORK, or what one matrix needs. */
static void *workspace(frame *f, batch_op op, int64_t m, int64_t n, int64_t k, size_t *lwork) {
    size_t (*bytes)(batch_op, backend_type, int64_t, int64_t, int64_t, int64_t) =
        own(f)->lowrank->workspace;
    const size_t one = bytes(op, f->type, 1, m, n, k), all = bytes(op, f->type, f->count, m, n, k);
    const bool quiet = status_message()[0] == '\0';
    *lwork = all < CALL_WORK ? all : one > CALL_WORK ? one : CALL_WORK;
    void *p = take(f, *lwork);
    if (f->st == MOAO_MEMORY && *lwork > one) {
        if (quiet)
            status_clear();
        f->st = MOAO_OK, *lwork = one;
        p = take(f, one);
    }
    return p;
}

/* --- results ------------------------------------------------------------------------------------
 */

typedef enum { MINOR, DIAGONAL, COLUMN } failure;

static void report(frame *f, int64_t b, int info, failure kind) {
    char why[96];
    if (info > 0)
        snprintf(why, sizeof why,
                 kind == MINOR      ? "the leading minor of order %d is not positive"
                 : kind == DIAGONAL ? "diagonal element %d is 0 or NaN"
                                    : "column %d has a NaN or an infinity",
                 info);
    else
        snprintf(why, sizeof why, "%s",
                 info == -2   ? "the rotations did not converge"
                 : info == -3 ? "the tolerance is not met with so many columns"
                              : "a size is out of range");
    f->st = status_fail(MOAO_NUMERIC, "%s: matrix %lld of %lld: %s (info %d)", f->name,
                        (long long)b, (long long)f->count, why, info);
}

static bool is_kept(const frame *f, const char *p) {
    return f->kept && f->kept->p && p >= f->kept->p && p < f->kept->p + f->kept->bytes;
}

/* What the call took from the context is the next call's; what it had to allocate goes back, and
 * the context keeps as much from now on. */
static void release(frame *f) {
    while (f->rooms > 0) {
        void *p = f->room[--f->rooms];
        if (is_kept(f, p))
            extents_remove(p);
        else
            checked_release(f->ctx, p);
    }
    if (f->st == MOAO_OK)
        kept_grow(f->ctx, f->kept, f->wanted);
}

void moao_batched_trim(backend_ctx *ctx) {
    kept_release(ctx);
}

/* Waits; info (the caller's may be NULL) comes to the host, and memory goes back. */
static status finish(frame *f, const int *from, int *info, failure kind) {
    int *mine = NULL;
    if (f->st == MOAO_OK)
        f->st = own(f)->sync(f->ctx);
    if (f->st == MOAO_OK && from != NULL) {
        f->st = ALLOC(mine, (size_t)f->count, "info");
        move(f, mine, from, f->count * (int64_t)sizeof(int));
        for (int64_t b = 0; f->st == MOAO_OK && info != NULL && b < f->count; b++)
            info[b] = mine[b];
        for (int64_t b = 0; f->st == MOAO_OK && b < f->count; b++)
            if (mine[b] != 0)
                report(f, b, mine[b], kind);
    }
    free(mine);
    release(f);
    return f->st;
}

/* --- products, triangles ------------------------------------------------------------------------
 */

static status call_gemm(frame f, char transa, char transb, int64_t m, int64_t n, int64_t k,
                        const void *alpha, mat a, mat b, const void *beta, mat c) {
    const bool na = transa == 'N', nb = transb == 'N';
    letter(&f, "transa", transa, "NTC"), letter(&f, "transb", transb, "NTC");
    size(&f, "m", m, BATCH_WIDE_MAX), size(&f, "n", n, BATCH_WIDE_MAX);
    size(&f, "k", k, BATCH_WIDE_MAX), skip(&f, 1);
    matrix(&f, "a", &a, na ? m : k, na ? k : m, false);
    matrix(&f, "b", &b, nb ? k : n, nb ? n : k, false), skip(&f, 1);
    matrix(&f, "c", &c, m, n, true);
    if (!counted(&f))
        return f.st;
    const batch_mat da = operand(&f, a), db = operand(&f, b), dc = operand(&f, c);
    if (f.st == MOAO_OK)
        f.st = checked_batch.gemm(f.ctx, f.type, transa, transb, f.count, batch_size(m),
                                  batch_size(n), batch_size(k), alpha, da, db, beta, dc);
    return finish(&f, NULL, NULL, COLUMN);
}

static status call_syrk(frame f, char uplo, char trans, int64_t n, int64_t k, const void *alpha,
                        mat a, const void *beta, mat c) {
    letter(&f, "uplo", uplo, "LU"), letter(&f, "trans", trans, "NTC");
    size(&f, "n", n, BATCH_MAX), size(&f, "k", k, BATCH_WIDE_MAX), skip(&f, 1);
    matrix(&f, "a", &a, trans == 'N' ? n : k, trans == 'N' ? k : n, false), skip(&f, 1);
    matrix(&f, "c", &c, n, n, true);
    if (!counted(&f))
        return f.st;
    const batch_mat da = operand(&f, a), dc = operand(&f, c);
    if (f.st == MOAO_OK)
        f.st = checked_batch.syrk(f.ctx, f.type, uplo, trans, f.count, batch_size(n), batch_size(k),
                                  alpha, da, beta, dc);
    return finish(&f, NULL, NULL, COLUMN);
}

/* trsm, trmm */
static status call_tri(frame f, batch_tri_op *op, char side, char uplo, char trans, char diag,
                       int64_t m, int64_t n, const void *alpha, mat a, mat b) {
    const int64_t order = side == 'L' ? m : n;
    letter(&f, "side", side, "LR"), letter(&f, "uplo", uplo, "LU");
    letter(&f, "trans", trans, "NTC"), letter(&f, "diag", diag, "NU");
    size(&f, "m", m, side == 'L' ? BATCH_MAX : BATCH_WIDE_MAX);
    size(&f, "n", n, side == 'L' ? BATCH_WIDE_MAX : BATCH_MAX), skip(&f, 1);
    matrix(&f, "a", &a, order, order, false), matrix(&f, "b", &b, m, n, true);
    if (!counted(&f))
        return f.st;
    const batch_mat da = operand(&f, a), db = operand(&f, b);
    if (f.st == MOAO_OK)
        f.st = op(f.ctx, f.type, side, uplo, trans, diag, f.count, batch_size(m), batch_size(n),
                  alpha, da, db);
    return finish(&f, NULL, NULL, COLUMN);
}

/* potrf, potri, poti */
static status call_factor(frame f, batch_factor_op *op, char uplo, int64_t n, mat a, int *info) {
    letter(&f, "uplo", uplo, "LU"), size(&f, "n", n, BATCH_MAX);
    matrix(&f, "a", &a, n, n, true), skip(&f, 1);
    if (!counted(&f))
        return f.st;
    int *found = ints(&f);
    const batch_mat da = operand(&f, a);
    if (f.st == MOAO_OK)
        f.st = op(f.ctx, f.type, uplo, f.count, batch_size(n), da, found);
    return finish(&f, found, info, MINOR);
}

static status call_trtri(frame f, char uplo, char diag, int64_t n, mat a, int *info) {
    letter(&f, "uplo", uplo, "LU"), letter(&f, "diag", diag, "NU"), size(&f, "n", n, BATCH_MAX);
    matrix(&f, "a", &a, n, n, true), skip(&f, 1);
    if (!counted(&f))
        return f.st;
    int *found = ints(&f);
    const batch_mat da = operand(&f, a);
    if (f.st == MOAO_OK)
        f.st = checked_batch.trtri(f.ctx, f.type, uplo, diag, f.count, batch_size(n), da, found);
    return finish(&f, found, info, DIAGONAL);
}

static status call_lauum(frame f, char uplo, int64_t n, mat a) {
    letter(&f, "uplo", uplo, "LU"), size(&f, "n", n, BATCH_MAX);
    matrix(&f, "a", &a, n, n, true);
    if (!counted(&f))
        return f.st;
    const batch_mat da = operand(&f, a);
    if (f.st == MOAO_OK)
        f.st = checked_batch.lauum(f.ctx, f.type, uplo, f.count, batch_size(n), da);
    return finish(&f, NULL, NULL, MINOR);
}

static void solve_arguments(frame *f, char uplo, int64_t n, int64_t nrhs, const mat *a,
                            const mat *b, bool factored) {
    letter(f, "uplo", uplo, "LU"), size(f, "n", n, BATCH_MAX);
    size(f, "nrhs", nrhs, BATCH_WIDE_MAX);
    matrix(f, "a", a, n, n, !factored), matrix(f, "b", b, n, nrhs, true);
}

static status call_potrs(frame f, char uplo, int64_t n, int64_t nrhs, mat a, mat b) {
    solve_arguments(&f, uplo, n, nrhs, &a, &b, true);
    if (!counted(&f))
        return f.st;
    const batch_mat da = operand(&f, a), db = operand(&f, b);
    if (f.st == MOAO_OK)
        f.st = checked_batch.potrs(f.ctx, f.type, uplo, f.count, batch_size(n), batch_size(nrhs),
                                   da, db);
    return finish(&f, NULL, NULL, MINOR);
}

static status call_posv(frame f, char uplo, int64_t n, int64_t nrhs, mat a, mat b, int *info) {
    solve_arguments(&f, uplo, n, nrhs, &a, &b, false), skip(&f, 1);
    if (!counted(&f))
        return f.st;
    int *found = ints(&f);
    const batch_mat da = operand(&f, a), db = operand(&f, b);
    if (f.st == MOAO_OK)
        f.st = checked_batch.posv(f.ctx, f.type, uplo, f.count, batch_size(n), batch_size(nrhs), da,
                                  db, found);
    return finish(&f, found, info, MINOR);
}

/* --- orthogonal factors -------------------------------------------------------------------------
 */

/* m, n of which the smaller one is at most `high`. */
static void extents(frame *f, int64_t m, int64_t n, int64_t high) {
    size(f, "m", m, BATCH_WIDE_MAX);
    size(f, "n", n, m > high ? high : BATCH_WIDE_MAX);
}

static status call_geqrf(frame f, int64_t m, int64_t n, mat a, mat tau, int *info) {
    extents(&f, m, n, BATCH_ORTH_MAX);
    matrix(&f, "a", &a, m, n, true), vector(&f, "tau", &tau, batch_least(m, n), true);
    skip(&f, 1);
    if (!counted(&f))
        return f.st;
    int *found = ints(&f);
    const batch_mat da = operand(&f, a), dtau = operand(&f, tau);
    if (f.st == MOAO_OK)
        f.st = checked_geqrf(f.ctx, f.type, f.count, batch_size(m), batch_size(n), da, dtau, found);
    return finish(&f, found, info, COLUMN);
}

static status call_orgqr(frame f, int64_t m, int64_t n, int64_t k, mat a, mat tau) {
    size(&f, "m", m, BATCH_WIDE_MAX), size(&f, "n", n, batch_least(m, BATCH_ORTH_MAX));
    size(&f, "k", k, n);
    matrix(&f, "a", &a, m, n, true), vector(&f, "tau", &tau, k, false);
    if (!counted(&f))
        return f.st;
    const batch_mat da = operand(&f, a), dtau = operand(&f, tau);
    if (f.st == MOAO_OK)
        f.st = checked_orgqr(f.ctx, f.type, f.count, batch_size(m), batch_size(n), batch_size(k),
                             da, dtau);
    return finish(&f, NULL, NULL, COLUMN);
}

static status call_ormqr(frame f, char side, char trans, int64_t m, int64_t n, int64_t k, mat a,
                         mat tau, mat c) {
    const int64_t order = side == 'L' ? m : n;
    letter(&f, "side", side, "LR"), letter(&f, "trans", trans, "NT");
    size(&f, "m", m, BATCH_WIDE_MAX), size(&f, "n", n, BATCH_WIDE_MAX);
    size(&f, "k", k, batch_least(order, BATCH_ORTH_MAX));
    matrix(&f, "a", &a, order, k, false), vector(&f, "tau", &tau, k, false);
    matrix(&f, "c", &c, m, n, true);
    if (!counted(&f))
        return f.st;
    const batch_mat da = operand(&f, a), dtau = operand(&f, tau), dc = operand(&f, c);
    if (f.st == MOAO_OK)
        f.st = checked_ormqr(f.ctx, f.type, side, trans, f.count, batch_size(m), batch_size(n),
                             batch_size(k), da, dtau, dc);
    return finish(&f, NULL, NULL, COLUMN);
}

static status call_qr(frame f, char job, int64_t m, int64_t n, mat a, mat r, int *info) {
    size_t lwork = 0;
    letter(&f, "job", job, "QR"), extents(&f, m, n, BATCH_ORTH_MAX);
    matrix(&f, "a", &a, m, n, true), matrix(&f, "r", &r, batch_least(m, n), n, true);
    skip(&f, 1);
    if (!counted(&f))
        return f.st;
    int *found = ints(&f);
    const batch_mat da = operand(&f, a), dr = operand(&f, r);
    void *work = workspace(&f, BATCH_QR, m, n, 0, &lwork);
    if (f.st == MOAO_OK)
        f.st = checked_qr(f.ctx, f.type, job, f.count, batch_size(m), batch_size(n), da, dr, found,
                          work, lwork);
    return finish(&f, found, info, COLUMN);
}

/* --- singular values, low rank ------------------------------------------------------------------
 */

/* S, U and V, of so many columns; vectors that are not asked for have no memory. */
static void triplet(frame *f, int64_t m, int64_t n, int64_t values, int64_t cols, char jobu,
                    char jobv, const mat *s, mat *u, mat *v) {
    const int more = f->strided ? 3 : 2;
    vector(f, "s", s, values, true);
    if (jobu == 'N')
        skip(f, more), *u = (mat){0};
    else
        matrix(f, "u", u, m, cols, true);
    if (jobv == 'N')
        skip(f, more), *v = (mat){0};
    else
        matrix(f, "v", v, n, cols, true);
}

static status call_gesvj(frame f, char jobu, char jobv, int64_t m, int64_t n, mat a, mat s, mat u,
                         mat v, int *info) {
    const int64_t k = batch_least(m, n);
    size_t lwork = 0;
    letter(&f, "jobu", jobu, "NUS"), letter(&f, "jobv", jobv, "NUS");
    extents(&f, m, n, BATCH_SVD_MAX), matrix(&f, "a", &a, m, n, true);
    triplet(&f, m, n, k, k, jobu, jobv, &s, &u, &v), skip(&f, 1);
    if (!counted(&f))
        return f.st;
    int *found = ints(&f);
    const batch_mat da = operand(&f, a), ds = operand(&f, s), du = operand(&f, u),
                    dv = operand(&f, v);
    void *work = workspace(&f, BATCH_GESVJ, m, n, 0, &lwork);
    if (f.st == MOAO_OK)
        f.st = checked_gesvj(f.ctx, f.type, jobu, jobv, NULL, f.count, batch_size(m), batch_size(n),
                             da, ds, du, dv, NULL, found, work, lwork);
    return finish(&f, found, info, COLUMN);
}

static void ranks_out(frame *f, int64_t *rank, const int64_t *found) {
    if (rank != NULL)
        move(f, rank, found, f->count * (int64_t)sizeof *rank);
}

static status call_rsvd(frame f, char jobu, char jobv, int64_t m, int64_t n, int64_t k,
                        int64_t over, int power, uint64_t seed, mat a, mat s, mat u, mat v,
                        int64_t *rank, int *info) {
    const batch_cut cut = {.kind = 'R', .norm = 'F', .most = k};
    const int64_t most = k < 0 || k > BATCH_SVD_MAX ? 0 : k; /* a wrong one is reported */
    size_t lwork = 0;
    letter(&f, "jobu", jobu, "NUS"), letter(&f, "jobv", jobv, "NUS");
    size(&f, "m", m, BATCH_WIDE_MAX), size(&f, "n", n, BATCH_WIDE_MAX);
    size(&f, "k", k, BATCH_SVD_MAX - (over < 0 ? 8 : 0)), skip(&f, 1);
    within(&f, "over", over, INT64_MIN, BATCH_SVD_MAX - most), size(&f, "power", power, 2);
    skip(&f, 1), matrix(&f, "a", &a, m, n, false);
    triplet(&f, m, n, batch_least(k, batch_least(m, n)), k, jobu, jobv, &s, &u, &v), skip(&f, 2);
    if (!counted(&f))
        return f.st;
    int *found = ints(&f);
    int64_t *ranks = longs(&f);
    const batch_mat da = operand(&f, a), ds = operand(&f, s), du = operand(&f, u),
                    dv = operand(&f, v);
    void *work = workspace(&f, BATCH_RSVD, m, n, k + (over < 0 ? 8 : over), &lwork);
    if (f.st == MOAO_OK)
        f.st =
            checked_rsvd(f.ctx, f.type, jobu, jobv, &cut, over, power, seed, f.count, batch_size(m),
                         batch_size(n), da, ds, du, dv, ranks, found, work, lwork);
    ranks_out(&f, rank, ranks);
    return finish(&f, found, info, COLUMN);
}

static void cut_arguments(frame *f, const batch_cut *cut) {
    tolerance(f, cut->tol), letter(f, "kind", cut->kind, "RA");
    size(f, "most", cut->most, BATCH_SVD_MAX);
}

static status call_ara(frame f, char job, int64_t m, int64_t n, double tol, char kind, int64_t most,
                       uint64_t seed, mat a, mat u, mat v, int64_t *rank, int *info) {
    const batch_cut cut = {.tol = tol, .kind = kind, .norm = 'F', .most = most};
    size_t lwork = 0;
    letter(&f, "job", job, "LRB");
    size(&f, "m", m, BATCH_WIDE_MAX), size(&f, "n", n, BATCH_WIDE_MAX);
    cut_arguments(&f, &cut), skip(&f, 1), matrix(&f, "a", &a, m, n, false);
    matrix(&f, "u", &u, m, most, true), matrix(&f, "v", &v, n, most, true);
    pointer(&f, "rank", rank, true), skip(&f, 1);
    if (!counted(&f))
        return f.st;
    int *found = ints(&f);
    int64_t *ranks = longs(&f);
    const batch_mat da = operand(&f, a), du = operand(&f, u), dv = operand(&f, v);
    void *work = workspace(&f, BATCH_ARA, m, n, most, &lwork);
    if (f.st == MOAO_OK)
        f.st = checked_ara(f.ctx, f.type, job, &cut, seed, f.count, batch_size(m), batch_size(n),
                           da, du, dv, ranks, found, work, lwork);
    ranks_out(&f, rank, ranks);
    return finish(&f, found, info, COLUMN);
}

/* Factors in the backend's memory, of rank.each columns. */
typedef struct {
    batch_mat u, v;
    batch_dim rank;
} pair;

static pair pair_of(frame *f, mat u, mat v, const int64_t *rank, int64_t most) {
    const int64_t *each = put(f, rank, f->count * (int64_t)sizeof *rank);
    return (pair){operand(f, u), operand(f, v), {most, each}};
}

/* x := beta x + alpha y, cut; *rank (the caller's, may be NULL). */
static status sum_of(frame *f, char job, const batch_cut *cut, int64_t m, int64_t n,
                     const void *beta, const pair *x, const void *alpha, const pair *y,
                     int64_t *rank, int *info) {
    size_t lwork = 0;
    int *found = ints(f);
    int64_t *ranks = longs(f);
    void *work = workspace(f, BATCH_RECOMPRESS, m, n, x->rank.n + y->rank.n, &lwork);
    if (f->st == MOAO_OK)
        f->st = checked_recompress(f->ctx, f->type, job, cut, f->count, batch_size(m),
                                   batch_size(n), beta, x->rank, x->u, x->v, alpha, y->rank, y->u,
                                   y->v, ranks, found, work, lwork);
    ranks_out(f, rank, ranks);
    return finish(f, found, info, COLUMN);
}

static status call_recompress(frame f, char job, int64_t m, int64_t n, double tol, char kind,
                              int64_t most, const void *beta, const int64_t *k, mat u, mat v,
                              const void *alpha, const int64_t *k2, mat u2, mat v2, int64_t *rank,
                              int *info) {
    const batch_cut cut = {.tol = tol, .kind = kind, .norm = 'F', .most = most};
    letter(&f, "job", job, "LRB");
    size(&f, "m", m, BATCH_WIDE_MAX), size(&f, "n", n, BATCH_WIDE_MAX);
    cut_arguments(&f, &cut), skip(&f, 1);
    const int64_t kx = columns(&f, "k", k, BATCH_SUM_MAX), room = kx > most ? kx : most;
    matrix(&f, "u", &u, m, room, true), matrix(&f, "v", &v, n, room, true), skip(&f, 1);
    const int64_t ky = columns(&f, "k2", k2, BATCH_SUM_MAX - kx);
    matrix(&f, "u2", &u2, m, ky, false), matrix(&f, "v2", &v2, n, ky, false);
    pointer(&f, "rank", rank, true), skip(&f, 1);
    if (!counted(&f))
        return f.st;
    const pair x = pair_of(&f, u, v, k, kx), y = pair_of(&f, u2, v2, k2, ky);
    return sum_of(&f, job, &cut, m, n, beta, &x, alpha, &y, rank, info);
}

/* --- products of dense and low-rank matrices ----------------------------------------------------
 */

typedef struct {
    bool low; /* u v^T of rank[b] columns; else u */
    const int64_t *rank;
    mat u, v;
    int64_t most; /* the largest rank */
} factored;

typedef struct {
    char transa, transb;
    int64_t m, n, k;
    const void *alpha, *beta;
    factored a, b, c;
    double tol;
    char kind;
    int64_t most, *kc;
    int *info;
} lr_product;

/* One of a and b, of rows x cols as it is used, `turned` before. */
static void factored_arguments(frame *f, const char *const arg[4], factored *x, bool turned,
                               int64_t rows, int64_t cols) {
    const int64_t down = turned ? cols : rows, across = turned ? rows : cols;
    if (!x->low) {
        matrix(f, arg[0], &x->u, down, across, false);
        return;
    }
    x->most = columns(f, arg[1], x->rank, BATCH_SVD_MAX);
    matrix(f, arg[2], &x->u, down, x->most, false),
        matrix(f, arg[3], &x->v, across, x->most, false);
}

static void product_arguments(frame *f, lr_product *p) {
    static const char *const a[] = {"a", "ka", "ua", "va"}, *const b[] = {"b", "kb", "ub", "vb"};
    const batch_cut cut = {.tol = p->tol, .kind = p->kind, .most = p->most};
    letter(f, "transa", p->transa, "NTC"), letter(f, "transb", p->transb, "NTC");
    size(f, "m", p->m, BATCH_WIDE_MAX), size(f, "n", p->n, BATCH_WIDE_MAX);
    size(f, "k", p->k, BATCH_WIDE_MAX), skip(f, 1);
    factored_arguments(f, a, &p->a, p->transa != 'N', p->m, p->k);
    factored_arguments(f, b, &p->b, p->transb != 'N', p->k, p->n), skip(f, 1);
    if (!p->c.low) {
        matrix(f, "c", &p->c.u, p->m, p->n, true);
        return;
    }
    cut_arguments(f, &cut);
    p->c.most = columns(f, "kc", p->kc, BATCH_SVD_MAX);
    const int64_t room = p->c.most > p->most ? p->c.most : p->most;
    matrix(f, "uc", &p->c.u, p->m, room, true), matrix(f, "vc", &p->c.v, p->n, room, true);
    skip(f, 1);
}

/* op(x) = u v^T: a transposed one has its factors exchanged. */
static pair factors_of(frame *f, const factored *x, bool turned) {
    return pair_of(f, turned ? x->v : x->u, turned ? x->u : x->v, x->rank, x->most);
}

static void multiply(frame *f, char transa, char transb, batch_dim m, batch_dim n, batch_dim k,
                     batch_mat a, batch_mat b, batch_mat c) {
    const double one = 1, none = 0;
    const float one_s = 1, none_s = 0;
    const bool d = f->type == BACKEND_D;
    if (f->st == MOAO_OK)
        f->st = checked_batch.gemm(f->ctx, f->type, transa, transb, f->count, m, n, k,
                                   d ? (const void *)&one : &one_s, a, b,
                                   d ? (const void *)&none : &none_s, c);
}

/* op(A) op(B) = u v^T. */
static pair product_of(frame *f, const lr_product *p) {
    const bool ta = p->transa != 'N', tb = p->transb != 'N';
    const batch_dim m = batch_size(p->m), n = batch_size(p->n), k = batch_size(p->k);
    if (!p->a.low) { /* (op(A) ub) vb^T */
        const pair b = factors_of(f, &p->b, tb);
        const batch_mat u = factors(f, p->m, b.rank.n);
        multiply(f, p->transa, 'N', m, b.rank, k, operand(f, p->a.u), b.u, u);
        return (pair){u, b.v, b.rank};
    }
    const pair a = factors_of(f, &p->a, ta);
    if (!p->b.low) { /* ua (op(B)^T va)^T */
        const batch_mat v = factors(f, p->n, a.rank.n);
        multiply(f, tb ? 'N' : 'T', 'N', n, a.rank, k, operand(f, p->b.u), a.v, v);
        return (pair){a.u, v, a.rank};
    }
    const pair b = factors_of(f, &p->b, tb);
    const batch_mat core = factors(f, a.rank.n, b.rank.n); /* va^T ub */
    multiply(f, 'T', 'N', a.rank, b.rank, k, a.v, b.u, core);
    if (b.rank.n <= a.rank.n) { /* (ua core) vb^T */
        const batch_mat u = factors(f, p->m, b.rank.n);
        multiply(f, 'N', 'N', m, b.rank, a.rank, a.u, core, u);
        return (pair){u, b.v, b.rank};
    }
    const batch_mat v = factors(f, p->n, a.rank.n); /* ua (vb core^T)^T */
    multiply(f, 'N', 'T', n, a.rank, b.rank, b.v, core, v);
    return (pair){a.u, v, a.rank};
}

/* c := beta c + alpha x of more columns than a recompression takes: formed dense, and compressed.
 */
static status dense_sum(frame *f, const lr_product *p, const batch_cut *cut, const pair *c,
                        const pair *x) {
    const batch_dim m = batch_size(p->m), n = batch_size(p->n);
    const batch_mat sum = factors(f, p->m, p->n);
    size_t lwork = 0;
    int *found = ints(f);
    int64_t *ranks = longs(f);
    const double none = 0, one = 1;
    const float none_s = 0, one_s = 1;
    const bool d = f->type == BACKEND_D;
    if (f->st == MOAO_OK)
        f->st = checked_batch.gemm(f->ctx, f->type, 'N', 'T', f->count, m, n, c->rank, p->beta,
                                   c->u, c->v, d ? (const void *)&none : &none_s, sum);
    if (f->st == MOAO_OK)
        f->st = checked_batch.gemm(f->ctx, f->type, 'N', 'T', f->count, m, n, x->rank, p->alpha,
                                   x->u, x->v, d ? (const void *)&one : &one_s, sum);
    void *work = workspace(f, BATCH_ARA, p->m, p->n, cut->most, &lwork);
    if (f->st == MOAO_OK)
        f->st = checked_ara(f->ctx, f->type, 'L', cut, 1, f->count, m, n, sum, c->u, c->v, ranks,
                            found, work, lwork);
    ranks_out(f, p->kc, ranks);
    return finish(f, found, p->info, COLUMN);
}

static status lowrank_gemm(frame f, const lr_product *given) {
    lr_product p = *given;
    product_arguments(&f, &p);
    if (!counted(&f))
        return f.st;
    const pair x = product_of(&f, &p);
    if (p.c.low) {
        const batch_cut cut = {.tol = p.tol, .kind = p.kind, .norm = 'F', .most = p.most};
        const pair c = pair_of(&f, p.c.u, p.c.v, p.kc, p.c.most);
        if (c.rank.n + x.rank.n > BATCH_SUM_MAX)
            return dense_sum(&f, &p, &cut, &c, &x);
        return sum_of(&f, 'L', &cut, p.m, p.n, p.beta, &c, p.alpha, &x, p.kc, p.info);
    }
    const batch_mat c = operand(&f, p.c.u);
    if (f.st == MOAO_OK)
        f.st = checked_batch.gemm(f.ctx, f.type, 'N', 'T', f.count, batch_size(p.m),
                                  batch_size(p.n), x.rank, p.alpha, x.u, x.v, p.beta, c);
    return finish(&f, NULL, NULL, COLUMN);
}

/* --- complex matrices ---------------------------------------------------------------------------
 */

/* Pointers of all matrices, of entries of so many bytes, in the backend's memory. */
static void *list_of_size(frame *f, mat x, size_t size) {
    const char *first = x.p;
    const void **host = NULL;
    void *list = NULL;
    if (!f->strided)
        return put(f, x.p, f->count * (int64_t)sizeof(void *));
    if (f->st == MOAO_OK)
        f->st = ALLOC(host, (size_t)f->count, "pointers of matrices");
    for (int64_t b = 0; f->st == MOAO_OK && b < f->count; b++)
        host[b] = first ? first + b * x.stride * (int64_t)size : NULL;
    list = put(f, host, f->count * (int64_t)sizeof(void *));
    free(host);
    return list;
}
static void *list_of(frame *f, mat x) {
    return list_of_size(f, x, backend_size(f->type));
}

/* The backend's operations, if it has some. */
static const backend_complex *complex_of(frame *f) {
    const backend_complex *c = own(f)->batch_complex;
    if (f->st == MOAO_OK && !c)
        f->st = backend_lacks(own(f), "batched operations on complex matrices");
    return c;
}

static status complex_gemm(frame f, char transa, char transb, int64_t m, int64_t n, int64_t k,
                           const void *alpha, mat a, mat b, const void *beta, mat c) {
    const bool na = transa == 'N', nb = transb == 'N';
    letter(&f, "transa", transa, "NTC"), letter(&f, "transb", transb, "NTC");
    size(&f, "m", m, COMPLEX_MAX), size(&f, "n", n, COMPLEX_MAX), size(&f, "k", k, COMPLEX_MAX);
    pointer(&f, "alpha", alpha, true);
    matrix(&f, "a", &a, na ? m : k, na ? k : m, false);
    matrix(&f, "b", &b, nb ? k : n, nb ? n : k, false);
    pointer(&f, "beta", beta, true);
    matrix(&f, "c", &c, m, n, true);
    if (!counted(&f) || m == 0 || n == 0)
        return f.st;
    const backend_complex *op = complex_of(&f);
    const void *la = list_of(&f, a), *lb = list_of(&f, b);
    void *lc = list_of(&f, c);
    if (f.st == MOAO_OK)
        f.st = op->gemm(f.ctx, f.type, transa, transb, f.count, m, n, k, alpha, la, a.ld, lb, b.ld,
                        beta, lc, c.ld);
    return finish(&f, NULL, NULL, COLUMN);
}

static status complex_trsm(frame f, char side, char uplo, char trans, char diag, int64_t m,
                           int64_t n, const void *alpha, mat a, mat b) {
    const int64_t order = side == 'L' ? m : n;
    letter(&f, "side", side, "LR"), letter(&f, "uplo", uplo, "LU");
    letter(&f, "trans", trans, "NTC"), letter(&f, "diag", diag, "NU");
    size(&f, "m", m, COMPLEX_MAX), size(&f, "n", n, COMPLEX_MAX);
    pointer(&f, "alpha", alpha, true);
    matrix(&f, "a", &a, order, order, false);
    matrix(&f, "b", &b, m, n, true);
    if (!counted(&f) || m == 0 || n == 0)
        return f.st;
    const backend_complex *op = complex_of(&f);
    const void *la = list_of(&f, a);
    void *lb = list_of(&f, b);
    if (f.st == MOAO_OK)
        f.st = op->trsm(f.ctx, f.type, side, uplo, trans, diag, f.count, m, n, alpha, la, a.ld, lb,
                        b.ld);
    return finish(&f, NULL, NULL, COLUMN);
}

static status complex_potrf(frame f, char uplo, int64_t n, mat a, int *info) {
    letter(&f, "uplo", uplo, "LU"), size(&f, "n", n, COMPLEX_MAX);
    matrix(&f, "a", &a, n, n, true), skip(&f, 1);
    if (!counted(&f))
        return f.st;
    const backend_complex *op = complex_of(&f);
    void *la = list_of(&f, a);
    int *found = ints(&f);
    if (f.st == MOAO_OK)
        f.st = op->potrf(f.ctx, f.type, uplo, f.count, n, la, a.ld, found);
    return finish(&f, found, info, MINOR);
}

static status complex_geqrf(frame f, int64_t m, int64_t n, mat a, mat tau) {
    size(&f, "m", m, COMPLEX_MAX), size(&f, "n", n, COMPLEX_MAX);
    matrix(&f, "a", &a, m, n, true);
    vector(&f, "tau", &tau, batch_least(m, n), true);
    if (!counted(&f) || m == 0 || n == 0)
        return f.st;
    const backend_complex *op = complex_of(&f);
    void *la = list_of(&f, a), *lt = list_of(&f, tau);
    if (f.st == MOAO_OK)
        f.st = op->geqrf(f.ctx, f.type, f.count, m, n, la, a.ld, lt);
    return finish(&f, NULL, NULL, COLUMN);
}

static status complex_gesvj(frame f, char jobu, char jobv, int64_t m, int64_t n, mat a, mat s,
                            mat u, mat v, int *info) {
    const int64_t k = batch_least(m, n);
    letter(&f, "jobu", jobu, "NUS"), letter(&f, "jobv", jobv, "NUS");
    extents(&f, m, n, BATCH_SVD_MAX), matrix(&f, "a", &a, m, n, false);
    triplet(&f, m, n, k, k, jobu, jobv, &s, &u, &v), skip(&f, 1);
    if (!counted(&f))
        return f.st;
    const backend_complex *op = complex_of(&f);
    if (f.st != MOAO_OK || k == 0) {
        for (int64_t b = 0; f.st == MOAO_OK && info && b < f.count; b++)
            info[b] = 0;
        return finish(&f, NULL, NULL, COLUMN);
    }
    void *la = list_of(&f, a), *ls = list_of_size(&f, s, backend_size(f.type) / 2),
         *lu = jobu == 'N' ? NULL : list_of(&f, u), *lv = jobv == 'N' ? NULL : list_of(&f, v);
    int *found = ints(&f);
    const size_t lwork = complex_gesvj_bytes(own(&f), f.type, f.count, m, n);
    void *work = take(&f, lwork);
    if (f.st == MOAO_OK)
        f.st = op->gesvj(f.ctx, f.type, jobu, jobv, f.count, m, n, la, a.ld, ls, lu, u.ld, lv, v.ld,
                         found, work, lwork);
    return finish(&f, found, info, COLUMN);
}

/* --- in both precisions -------------------------------------------------------------------------
 */

#define POINTERS(array, leading) ((mat){(void *)(array), (leading), 0})
#define STRIDED(array, leading, distance) ((mat){(void *)(array), (leading), (distance)})
#define CALLED(name_, strided_)                                                                    \
    ((frame){.ctx = ctx,                                                                           \
             .type = TYPE,                                                                         \
             .strided = (strided_),                                                                \
             .count = count,                                                                       \
             .name = "moao_" LETTER #name_,                                                        \
             .at = 1})

#define REAL double
#define TYPE BACKEND_D
#define LETTER "d"
#define CALL(name) moao_d##name
#include "batched_real.h"
#undef REAL
#undef TYPE
#undef LETTER
#undef CALL

#define REAL float
#define TYPE BACKEND_S
#define LETTER "s"
#define CALL(name) moao_s##name
#include "batched_real.h"
#undef REAL
#undef TYPE
#undef LETTER
#undef CALL

#define REAL double
#define TYPE BACKEND_Z
#define LETTER "z"
#define CALL(name) moao_z##name
#include "batched_complex.h"
#undef REAL
#undef TYPE
#undef LETTER
#undef CALL

#define REAL float
#define TYPE BACKEND_C
#define LETTER "c"
#define CALL(name) moao_c##name
#include "batched_complex.h"
