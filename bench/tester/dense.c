/* BLAS 3, Cholesky factors and triangles: one large matrix, or a batch of small ones. */
#include "tester.h"

EXTERN(gemm);
EXTERN(trsm);
EXTERN(trmm);
EXTERN(symm);
EXTERN(syrk);
EXTERN(syr2k);
EXTERN(potrf);
EXTERN(potri);
EXTERN(trtri);
EXTERN(lauum);
EXTERN(potrs);
EXTERN(posv);

#define X(i) j->x[i].device, ld_of(&j->x[i])
#define DIM(n) batch_size(n)
#define T j->s->type
#define WORK j->work, j->lwork
#define ALPHA scalar(T, 2)
#define BETA scalar(T, -1)

static int64_t order(const setting *s) {
    return s->side == 'L' ? s->m : s->n;
}
static char symmetric(const setting *s) {
    return s->uplo == 'L' ? 'S' : 's';
}

static status allocated(job *j, backend_op op, int64_t m, int64_t n) {
    return job_alloc(j, j->s->batch ? 0 : be->workspace(op, T, m, n));
}

/* --- gemm: x[2] := 2 op(x[0]) op(x[1]) - x[2] */

static status gemm_prepare(job *j) {
    const setting *s = j->s;
    const bool na = s->transa == 'N', nb = s->transb == 'N';
    status st;
    TRY(array_new(&j->x[0], s, na ? s->m : s->k, na ? s->k : s->m));
    TRY(array_new(&j->x[1], s, nb ? s->k : s->n, nb ? s->n : s->k));
    TRY(array_new(&j->x[2], s, s->m, s->n));
    for (int i = 0; i < 3; i++)
        fill_random(&j->x[i], s->seed + (uint64_t)i);
    j->x[2].result = 'A';
    st = allocated(j, BACKEND_GEMM, s->m, s->n);
done:
    return st;
}
static status gemm_run(job *j) {
    const setting *s = j->s;
    return s->batch ? be->batch->gemm(ctx, T, s->transa, s->transb, s->batch, DIM(s->m), DIM(s->n),
                                      DIM(s->k), ALPHA, operand(&j->x[0]), operand(&j->x[1]), BETA,
                                      operand(&j->x[2]))
                    : be->gemm(ctx, T, s->transa, s->transb, s->m, s->n, s->k, ALPHA, X(0), X(1),
                               BETA, X(2), WORK);
}
static status gemm_check(job *j, int64_t b) {
    const setting *s = j->s;
    real *x = random_vector(s->n, s->seed), *y = vector(s->k), *r = vector(s->m);
    const view A = given(j, 0, b, 'A'), B = given(j, 1, b, 'A'), C = given(j, 2, b, 'A');
    add_product(B, s->transb, 1, x, y);
    add_product(A, s->transa, -2, y, r);
    add_product(C, 'N', 1, x, r);
    add_product(found(j, 2, b, 'A'), 'N', 1, x, r);
    judge(j, r, s->m, (2 * norm_of(A) * norm_of(B) + norm_of(C)) * norm(s->n, x), s->k);
    free(x), free(y), free(r);
    return MOAO_OK;
}
static void gemm_rival(job *j, int64_t b) {
    const setting *s = j->s;
    const int m = (int)s->m, n = (int)s->n, k = (int)s->k, la = (int)ld_of(&j->x[0]),
              lb = (int)ld_of(&j->x[1]), lc = (int)ld_of(&j->x[2]);
    LAPACK(T, gemm)
    (&s->transa, &s->transb, &m, &n, &k, ALPHA, rival_of(j, 0, b), &la, rival_of(j, 1, b), &lb,
     BETA, rival_of(j, 2, b), &lc);
}
static double gemm_flops(const setting *s) {
    return 2.0 * (double)s->m * (double)s->n * (double)s->k;
}

/* --- trsm, trmm: x[1] := 2 op(x[0])^-+1 x[1] */

static status tri_prepare(job *j) {
    const setting *s = j->s;
    status st;
    TRY(array_new(&j->x[0], s, order(s), order(s)));
    TRY(array_new(&j->x[1], s, s->m, s->n));
    fill_triangle(&j->x[0], s->seed), fill_random(&j->x[1], s->seed + 1);
    j->x[1].result = 'A';
    st = allocated(j, BACKEND_TRSM, s->m, s->n);
    if (st == MOAO_OK && !s->batch && be->workspace(BACKEND_TRMM, T, s->m, s->n) > j->lwork) {
        be->release(ctx, j->work);
        j->lwork = be->workspace(BACKEND_TRMM, T, s->m, s->n);
        st = be->alloc(ctx, j->lwork, &j->work);
    }
done:
    return st;
}
static bool is_trsm(const job *j) {
    return !strcmp(j->of->name, "trsm");
}
static status tri_run(job *j) {
    const setting *s = j->s;
    batch_tri_op *const many = is_trsm(j) ? be->batch->trsm : be->batch->trmm;
    backend_tri_op *const one = is_trsm(j) ? be->trsm : be->trmm;
    return s->batch ? many(ctx, T, s->side, s->uplo, s->transa, s->diag, s->batch, DIM(s->m),
                           DIM(s->n), ALPHA, operand(&j->x[0]), operand(&j->x[1]))
                    : one(ctx, T, s->side, s->uplo, s->transa, s->diag, s->m, s->n, ALPHA, X(0),
                          X(1), WORK);
}
/* r := op(A) B x (side L) or B op(A) x */
static void triangle_times(const job *j, view A, view B, const real *x, real f, real *r) {
    const setting *s = j->s;
    const bool left = s->side == 'L';
    real *y = vector(left ? s->m : s->n);
    add_product(left ? B : A, left ? 'N' : s->transa, 1, x, y);
    add_product(left ? A : B, left ? s->transa : 'N', f, y, r);
    free(y);
}
static status tri_check(job *j, int64_t b) {
    const setting *s = j->s;
    real *x = random_vector(s->n, s->seed), *r = vector(s->m);
    view A = given(j, 0, b, s->uplo);
    A.unit = s->diag == 'U';
    const view before = given(j, 1, b, 'A'), after = found(j, 1, b, 'A');
    triangle_times(j, A, is_trsm(j) ? after : before, x, is_trsm(j) ? 1 : -2, r);
    add_product(is_trsm(j) ? before : after, 'N', is_trsm(j) ? -2 : 1, x, r);
    judge(j, r, s->m, norm_of(A) * norm_of(is_trsm(j) ? after : before) * norm(s->n, x), order(s));
    free(x), free(r);
    return MOAO_OK;
}
static void tri_rival(job *j, int64_t b) {
    const setting *s = j->s;
    const int m = (int)s->m, n = (int)s->n, la = (int)ld_of(&j->x[0]), lb = (int)ld_of(&j->x[1]);
    (is_trsm(j) ? LAPACK(T, trsm) : LAPACK(T, trmm))(&s->side, &s->uplo, &s->transa, &s->diag, &m,
                                                     &n, ALPHA, rival_of(j, 0, b), &la,
                                                     rival_of(j, 1, b), &lb);
}
static double tri_flops(const setting *s) {
    return (double)s->m * (double)s->n * (double)order(s);
}

/* --- symm: x[2] := 2 x[0] x[1] - x[2] or 2 x[1] x[0] - x[2] */

static status symm_prepare(job *j) {
    const setting *s = j->s;
    status st;
    TRY(array_new(&j->x[0], s, order(s), order(s)));
    TRY(array_new(&j->x[1], s, s->m, s->n));
    TRY(array_new(&j->x[2], s, s->m, s->n));
    for (int i = 0; i < 3; i++)
        fill_random(&j->x[i], s->seed + (uint64_t)i);
    j->x[2].result = 'A';
    st = allocated(j, BACKEND_SYMM, s->m, s->n);
done:
    return st;
}
static status symm_run(job *j) {
    const setting *s = j->s;
    return be->symm(ctx, T, s->side, s->uplo, s->m, s->n, ALPHA, X(0), X(1), BETA, X(2), WORK);
}
static status symm_check(job *j, int64_t b) {
    const setting *s = j->s;
    const bool left = s->side == 'L';
    real *x = random_vector(s->n, s->seed), *y = vector(order(s)), *r = vector(s->m);
    const view A = given(j, 0, b, symmetric(s)), B = given(j, 1, b, 'A'), C = given(j, 2, b, 'A');
    add_product(left ? B : A, 'N', 1, x, y);
    add_product(left ? A : B, 'N', -2, y, r);
    add_product(C, 'N', 1, x, r);
    add_product(found(j, 2, b, 'A'), 'N', 1, x, r);
    judge(j, r, s->m, (2 * norm_of(A) * norm_of(B) + norm_of(C)) * norm(s->n, x), order(s));
    free(x), free(y), free(r);
    return MOAO_OK;
}
static void symm_rival(job *j, int64_t b) {
    const setting *s = j->s;
    const int m = (int)s->m, n = (int)s->n, la = (int)ld_of(&j->x[0]), lb = (int)ld_of(&j->x[1]);
    LAPACK(T, symm)
    (&s->side, &s->uplo, &m, &n, ALPHA, rival_of(j, 0, b), &la, rival_of(j, 1, b), &lb, BETA,
     rival_of(j, 2, b), &lb);
}
static double symm_flops(const setting *s) {
    return 2.0 * (double)s->m * (double)s->n * (double)order(s);
}

/* --- syrk, syr2k: a triangle of x[2] := 2 (op(A) op(A)' or both products of A, B) - x[2] */

static bool is_syrk(const job *j) {
    return !strcmp(j->of->name, "syrk");
}
static status syrk_prepare(job *j) {
    const setting *s = j->s;
    const bool na = s->transa == 'N';
    status st;
    for (int i = 0; i < 2; i++)
        TRY(array_new(&j->x[i], s, na ? s->n : s->k, na ? s->k : s->n));
    TRY(array_new(&j->x[2], s, s->n, s->n));
    for (int i = 0; i < 3; i++)
        fill_random(&j->x[i], s->seed + (uint64_t)i);
    j->x[2].result = s->uplo;
    st = allocated(j, is_syrk(j) ? BACKEND_SYRK : BACKEND_SYR2K, s->k, s->n);
done:
    return st;
}
static status syrk_run(job *j) {
    const setting *s = j->s;
    if (s->batch)
        return be->batch->syrk(ctx, T, s->uplo, s->transa, s->batch, DIM(s->n), DIM(s->k), ALPHA,
                               operand(&j->x[0]), BETA, operand(&j->x[2]));
    return is_syrk(j)
               ? be->syrk(ctx, T, s->uplo, s->transa, s->n, s->k, ALPHA, X(0), BETA, X(2), WORK)
               : be->syr2k(ctx, T, s->uplo, s->transa, s->n, s->k, ALPHA, X(0), X(1), BETA, X(2),
                           WORK);
}
static status syrk_check(job *j, int64_t b) {
    const setting *s = j->s;
    const char t = s->transa, other = t == 'N' ? 'T' : 'N';
    const view A = given(j, 0, b, 'A'), B = is_syrk(j) ? A : given(j, 1, b, 'A'),
               C = given(j, 2, b, symmetric(s));
    real *x = random_vector(s->n, s->seed), *y = vector(s->k), *z = vector(s->k), *r = vector(s->n);
    add_product(B, other, 1, x, y);
    add_product(A, t, -2, y, r);
    if (!is_syrk(j)) {
        add_product(A, other, 1, x, z);
        add_product(B, t, -2, z, r);
    }
    add_product(C, 'N', 1, x, r);
    add_product(found(j, 2, b, symmetric(s)), 'N', 1, x, r);
    judge(j, r, s->n, (4 * norm_of(A) * norm_of(B) + norm_of(C)) * norm(s->n, x), s->k);
    free(x), free(y), free(z), free(r);
    return MOAO_OK;
}
static void syrk_rival(job *j, int64_t b) {
    const setting *s = j->s;
    const int n = (int)s->n, k = (int)s->k, la = (int)ld_of(&j->x[0]), lc = (int)ld_of(&j->x[2]);
    if (is_syrk(j))
        LAPACK(T, syrk)
    (&s->uplo, &s->transa, &n, &k, ALPHA, rival_of(j, 0, b), &la, BETA, rival_of(j, 2, b), &lc);
    else LAPACK(T, syr2k)(&s->uplo, &s->transa, &n, &k, ALPHA, rival_of(j, 0, b), &la,
                          rival_of(j, 1, b), &la, BETA, rival_of(j, 2, b), &lc);
}
static double syrk_flops(const setting *s) {
    return (double)s->n * (double)s->n * (double)s->k;
}
static double syr2k_flops(const setting *s) {
    return 2 * syrk_flops(s);
}

/* --- triangles in place: x[0]; solves: x[1] := A^-1 x[1]. x[2] keeps what they are checked with.
 */

enum { POTRF, POTRI, POTI, TRTRI, LAUUM, POTRS, POSV };
static int which(const job *j) {
    static const char *const names[] = {"potrf", "potri", "poti", "trtri",
                                        "lauum", "potrs", "posv"};
    int i = 0;
    while (strcmp(j->of->name, names[i]) != 0)
        i++;
    return i;
}

/* x[0] := the factor of x[2]; by LAPACK, on the host. */
static void factor_given(job *j) {
    const int n = (int)j->s->n;
    const int64_t each = ld_of(&j->x[0]) * j->s->n;
    for (int64_t b = 0; b < j->x[0].count; b++) {
        double *a = j->x[0].given + b * each;
        int bad;
        memcpy(a, j->x[2].given + b * each, sizeof *a * (size_t)each);
        dpotrf_(&j->s->uplo, &n, a, &n, &bad, (size_t)1);
    }
}

static status inplace_prepare(job *j) {
    static const backend_op op[] = {BACKEND_POTRF, BACKEND_POTRI, BACKEND_POTI, BACKEND_TRTRI,
                                    BACKEND_LAUUM, BACKEND_POTRS, BACKEND_POSV};
    const setting *s = j->s;
    const int w = which(j);
    status st;
    TRY(array_new(&j->x[0], s, s->n, s->n));
    if (w >= POTRS) {
        TRY(array_new(&j->x[1], s, s->n, s->nrhs));
        fill_random(&j->x[1], s->seed + 1);
    }
    TRY(array_new(&j->x[2], s, s->n, s->n));
    if (w == TRTRI || w == LAUUM)
        fill_triangle(&j->x[0], s->seed);
    else
        fill_spd(w == POTRI || w == POTRS ? &j->x[2] : &j->x[0], s->seed);
    if (w == POTRI || w == POTRS)
        factor_given(j);
    j->x[w >= POTRS ? 1 : 0].result = w >= POTRS ? 'A' : s->uplo;
    st = allocated(j, op[w], w >= POTRS ? s->nrhs : s->n, s->n);
done:
    return st;
}
static status inplace_many(job *j, const batch_mat *x) {
    const setting *s = j->s;
    const backend_batch *q = be->batch;
    const batch_dim n = DIM(s->n), w = DIM(s->nrhs);
    switch (which(j)) {
    case POTRF:
        return q->potrf(ctx, T, s->uplo, s->batch, n, x[0], j->info);
    case POTRI:
        return q->potri(ctx, T, s->uplo, s->batch, n, x[0], j->info);
    case POTI:
        return q->poti(ctx, T, s->uplo, s->batch, n, x[0], j->info);
    case TRTRI:
        return q->trtri(ctx, T, s->uplo, s->diag, s->batch, n, x[0], j->info);
    case LAUUM:
        return q->lauum(ctx, T, s->uplo, s->batch, n, x[0]);
    case POTRS:
        return q->potrs(ctx, T, s->uplo, s->batch, n, w, x[0], x[1]);
    default:
        return q->posv(ctx, T, s->uplo, s->batch, n, w, x[0], x[1], j->info);
    }
}
static status inplace_run(job *j) {
    const setting *s = j->s;
    const batch_mat x[2] = {operand(&j->x[0]), operand(&j->x[1])};
    if (s->batch)
        return inplace_many(j, x);
    switch (which(j)) {
    case POTRF:
        return be->potrf(ctx, T, s->uplo, s->n, X(0), j->info, WORK);
    case POTRI:
        return be->potri(ctx, T, s->uplo, s->n, X(0), j->info, WORK);
    case POTI:
        return be->poti(ctx, T, s->uplo, s->n, X(0), j->info, WORK);
    case TRTRI:
        return be->trtri(ctx, T, s->uplo, s->diag, s->n, X(0), j->info, WORK);
    case LAUUM:
        return be->lauum(ctx, T, s->uplo, s->n, X(0), WORK);
    case POTRS:
        return be->potrs(ctx, T, s->uplo, s->n, s->nrhs, X(0), X(1), WORK);
    default:
        return be->posv(ctx, T, s->uplo, s->n, s->nrhs, X(0), X(1), j->info, WORK);
    }
}
/* r := P^T P' x or so of a triangle: L L^T, U^T U (factor), L^T L, U U^T (lauum). */
static void two_triangles(view t, bool factor, real f, const real *x, real *r) {
    const bool first = (t.part == 'L') == factor; /* the right one is transposed */
    real *y = vector(t.rows);
    add_product(t, first ? 'T' : 'N', 1, x, y);
    add_product(t, first ? 'N' : 'T', f, y, r);
    free(y);
}
static status inplace_check(job *j, int64_t b) {
    const setting *s = j->s;
    const int w = which(j);
    const int64_t n = s->n, cols = w >= POTRS ? s->nrhs : n;
    view A = given(j, w == POTRI || w == POTRS ? 2 : 0, b, symmetric(s));
    real *x = random_vector(cols, s->seed), *y = vector(n), *r = vector(n), scale = norm_of(A);
    if (w == POTRF) {
        two_triangles(found(j, 0, b, s->uplo), true, 1, x, r);
        add_product(A, 'N', -1, x, r);
    } else if (w == LAUUM) {
        const view t = given(j, 0, b, s->uplo);
        two_triangles(t, false, -1, x, r);
        add_product(found(j, 0, b, symmetric(s)), 'N', 1, x, r);
        scale = norm_of(t) * norm_of(t);
    } else if (w >= POTRS) {
        const view B = found(j, 1, b, 'A');
        add_product(B, 'N', 1, x, y);
        add_product(A, 'N', 1, y, r);
        add_product(given(j, 1, b, 'A'), 'N', -1, x, r);
        scale *= norm_of(B);
    } else {
        const bool t = w == TRTRI;
        view I = found(j, 0, b, t ? s->uplo : symmetric(s));
        A = t ? given(j, 0, b, s->uplo) : A;
        A.unit = I.unit = t && s->diag == 'U';
        add_product(I, 'N', 1, x, y);
        add_product(A, 'N', 1, y, r);
        for (int64_t i = 0; i < n; i++)
            r[i] -= x[i];
        scale = norm_of(A) * norm_of(I);
    }
    judge(j, r, n, scale * norm(cols, x), n);
    free(x), free(y), free(r);
    return MOAO_OK;
}
static void inplace_rival(job *j, int64_t b) {
    const setting *s = j->s;
    const int n = (int)s->n, w = (int)s->nrhs;
    void *a = rival_of(j, 0, b), *c = j->x[1].given ? rival_of(j, 1, b) : NULL;
    int bad;
    switch (which(j)) {
    case POTRF:
        LAPACK(T, potrf)(&s->uplo, &n, a, &n, &bad, (size_t)1);
        return;
    case POTI:
        LAPACK(T, potrf)(&s->uplo, &n, a, &n, &bad, (size_t)1);
        LAPACK(T, potri)(&s->uplo, &n, a, &n, &bad, (size_t)1);
        return;
    case POTRI:
        LAPACK(T, potri)(&s->uplo, &n, a, &n, &bad, (size_t)1);
        return;
    case TRTRI:
        LAPACK(T, trtri)(&s->uplo, &s->diag, &n, a, &n, &bad, (size_t)1, (size_t)1);
        return;
    case LAUUM:
        LAPACK(T, lauum)(&s->uplo, &n, a, &n, &bad, (size_t)1);
        return;
    case POTRS:
        LAPACK(T, potrs)(&s->uplo, &n, &w, a, &n, c, &n, &bad, (size_t)1);
        return;
    default:
        LAPACK(T, posv)(&s->uplo, &n, &w, a, &n, c, &n, &bad, (size_t)1);
    }
}
static double third(const setting *s) {
    return pow((double)s->n, 3) / 3;
}
static double two_thirds(const setting *s) {
    return 2 * third(s);
}
static double whole(const setting *s) {
    return 3 * third(s);
}
static double solve_flops(const setting *s) {
    return 2 * (double)s->n * (double)s->n * (double)s->nrhs;
}
static double posv_flops(const setting *s) {
    return third(s) + solve_flops(s);
}

#define INPLACE(name, what, flops)                                                                 \
    {                                                                                              \
        name, "dense", what, ONE | BATCH, inplace_prepare, inplace_run, inplace_check,             \
            inplace_rival, flops, NULL                                                             \
    }

const routine dense_routines[] = {
    {"gemm", "dense", "C := 2 op(A) op(B) - C; --m, --n, --k, --transa, --transb", ONE | BATCH,
     gemm_prepare, gemm_run, gemm_check, gemm_rival, gemm_flops, NULL},
    {"trsm", "dense", "B := 2 op(A)^-1 B; --m, --n, --side, --uplo, --transa, --diag", ONE | BATCH,
     tri_prepare, tri_run, tri_check, tri_rival, tri_flops, NULL},
    {"trmm", "dense", "B := 2 op(A) B; as trsm", ONE | BATCH, tri_prepare, tri_run, tri_check,
     tri_rival, tri_flops, NULL},
    {"symm", "dense", "C := 2 A B - C, A symmetric; --m, --n, --side, --uplo", ONE, symm_prepare,
     symm_run, symm_check, symm_rival, symm_flops, NULL},
    {"syrk", "dense", "C := 2 op(A) op(A)' - C; --n, --k, --uplo, --transa", ONE | BATCH,
     syrk_prepare, syrk_run, syrk_check, syrk_rival, syrk_flops, NULL},
    {"syr2k", "dense", "C := 2 (op(A) op(B)' + op(B) op(A)') - C; as syrk", ONE, syrk_prepare,
     syrk_run, syrk_check, syrk_rival, syr2k_flops, NULL},
    INPLACE("potrf", "Cholesky factor; --n, --uplo", third),
    INPLACE("potri", "inverse from the factor; --n, --uplo", two_thirds),
    INPLACE("poti", "inverse; --n, --uplo", whole),
    INPLACE("trtri", "inverse of a triangle; --n, --uplo, --diag", third),
    INPLACE("lauum", "L' L or U U'; --n, --uplo", third),
    INPLACE("potrs", "solves by the factor; --n, --nrhs, --uplo", solve_flops),
    INPLACE("posv", "factor and solves; --n, --nrhs, --uplo", posv_flops),
    {0}};
