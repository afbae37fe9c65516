/* Batched QR, singular values and low-rank approximation. */
#include "tester.h"

EXTERN(geqrf);
EXTERN(orgqr);
EXTERN(ormqr);
EXTERN(gesdd);

#define DIM(n) batch_size(n)
#define T j->s->type
#define WORK j->work, j->lwork
#define OP(i) operand(&j->x[i])

static int64_t inner(const setting *s) {
    return s->m < s->n ? s->m : s->n;
}
static double d(int64_t n) {
    return (double)n;
}

static status prepared(job *j, batch_op op, int64_t k) {
    const setting *s = j->s;
    return job_alloc(j, be->lowrank->workspace(op, T, s->batch, s->m, s->n, k));
}

/* LAPACK's work, and what it tells. */
static void *memory(size_t count) {
    void *p = calloc(count + 1, sizeof(double));
    if (!p)
        abort();
    return p;
}

/* --- geqrf: x[0] := R and reflectors, x[1] := tau ------------------------------------------------
 */

static status geqrf_prepare(job *j) {
    const setting *s = j->s;
    status st;
    TRY(array_new(&j->x[0], s, s->m, s->n));
    TRY(array_new(&j->x[1], s, inner(s), 1));
    fill_random(&j->x[0], s->seed);
    j->x[0].result = j->x[1].result = 'A';
    st = job_alloc(j, 0);
done:
    return st;
}
static status geqrf_run(job *j) {
    const setting *s = j->s;
    return be->lowrank->geqrf(ctx, T, s->batch, DIM(s->m), DIM(s->n), OP(0), OP(1), j->info);
}
/* q, m x cols, := H_1 ... H_k q, of reflectors below the diagonal of a; trans T: H_k ... H_1 q. */
static void reflect(const double *a, int64_t ld, const double *tau, int64_t m, int64_t k,
                    char trans, real *q, int64_t cols) {
    for (int64_t c = 0; c < k; c++) {
        const int64_t p = trans == 'N' ? k - 1 - c : c;
        const double *v = a + p * ld;
        for (int64_t j = 0; j < cols; j++) {
            real f = q[p + j * m];
            for (int64_t i = p + 1; i < m; i++)
                f += v[i] * q[i + j * m];
            f *= tau[p];
            q[p + j * m] -= f;
            for (int64_t i = p + 1; i < m; i++)
                q[i + j * m] -= f * v[i];
        }
    }
}
static status geqrf_check(job *j, int64_t b) {
    const setting *s = j->s;
    const int64_t m = s->m, n = s->n, k = inner(s);
    const view F = found(j, 0, b, 'A'), A = given(j, 0, b, 'A');
    const double *tau = found(j, 1, b, 'A').p;
    real *x = random_vector(n, s->seed), *r = vector(m), *q = vector(m * k);
    double *columns = memory((size_t)(m * k));
    for (int64_t c = 0; c < n; c++) /* r := Q R x - A x */
        for (int64_t i = 0; i <= c && i < k; i++)
            r[i] += (real)F.p[i + c * F.ld] * x[c];
    reflect(F.p, F.ld, tau, m, k, 'N', r, 1);
    add_product(A, 'N', -1, x, r);
    judge(j, r, m, norm_of(A) * norm(n, x), m > n ? m : n);
    for (int64_t c = 0; c < k; c++)
        q[c + c * m] = 1;
    reflect(F.p, F.ld, tau, m, k, 'N', q, k);
    for (int64_t e = 0; e < m * k; e++)
        columns[e] = (double)q[e];
    judge_columns(j, (view){columns, m, m, k, 'A', false});
    free(x), free(r), free(q), free(columns);
    return MOAO_OK;
}
static void geqrf_rival(job *j, int64_t b) {
    const int m = (int)j->s->m, n = (int)j->s->n, len = 64 * n + 64;
    void *work = memory((size_t)len);
    int bad;
    LAPACK(T, geqrf)(&m, &n, rival_of(j, 0, b), &m, rival_of(j, 1, b), work, &len, &bad);
    free(work);
}
static double geqrf_flops(const setting *s) {
    const double k = d(inner(s));
    return 2 * d(s->m) * d(s->n) * k - (d(s->m) + d(s->n)) * k * k + 2 * k * k * k / 3;
}

/* --- orgqr: x[0] := Q; ormqr: x[2] := op(Q) x[2]. x[3] has the reflectors they are checked with.
 */

/* x[0], x[1] := the factor of random matrices, made by LAPACK on the host. */
static status reflectors(job *j, int64_t rows, int64_t cols) {
    const setting *s = j->s;
    const int m = (int)rows, n = (int)cols, len = 64 * n + 64;
    status st;
    TRY(array_new(&j->x[0], s, rows, cols));
    TRY(array_new(&j->x[1], s, cols, 1));
    fill_random(&j->x[0], s->seed);
    double *work = memory((size_t)len);
    for (int64_t b = 0; b < j->x[0].count; b++) {
        int bad;
        dgeqrf_(&m, &n, j->x[0].given + b * rows * cols, &m, j->x[1].given + b * cols, work, &len,
                &bad);
    }
    free(work);
done:
    return st;
}
static status orgqr_prepare(job *j) {
    const setting *s = j->s;
    status st;
    if (s->n > s->m)
        return status_fail(MOAO_INPUT, "orgqr needs n at most m");
    TRY(reflectors(j, s->m, s->n));
    j->x[0].result = 'A';
    st = job_alloc(j, 0);
done:
    return st;
}
static status orgqr_run(job *j) {
    const setting *s = j->s;
    return be->lowrank->orgqr(ctx, T, s->batch, DIM(s->m), DIM(s->n), DIM(s->n), OP(0), OP(1));
}
static status orgqr_check(job *j, int64_t b) {
    const setting *s = j->s;
    const view Q = found(j, 0, b, 'A'), V = given(j, 0, b, 'A');
    real *x = random_vector(s->n, s->seed), *r = vector(s->m);
    memcpy(r, x, sizeof *r * (size_t)s->n);
    reflect(V.p, V.ld, given(j, 1, b, 'A').p, s->m, s->n, 'N', r, 1);
    add_product(Q, 'N', -1, x, r);
    judge(j, r, s->m, norm(s->n, x), s->m);
    judge_columns(j, Q);
    free(x), free(r);
    return MOAO_OK;
}
static void orgqr_rival(job *j, int64_t b) {
    const int m = (int)j->s->m, n = (int)j->s->n, len = 64 * n + 64;
    void *work = memory((size_t)len);
    int bad;
    LAPACK(T, orgqr)(&m, &n, &n, rival_of(j, 0, b), &m, rival_of(j, 1, b), work, &len, &bad);
    free(work);
}
static double orgqr_flops(const setting *s) {
    return 2 * d(s->m) * d(s->n) * d(s->n) - 2 * pow(d(s->n), 3) / 3;
}
static int64_t order(const setting *s) {
    return s->side == 'L' ? s->m : s->n;
}
static int64_t used(const setting *s) { /* reflectors of ormqr */
    return s->k < order(s) ? s->k : order(s);
}
static status ormqr_prepare(job *j) {
    const setting *s = j->s;
    status st;
    TRY(reflectors(j, order(s), used(s)));
    TRY(array_new(&j->x[2], s, s->m, s->n));
    fill_random(&j->x[2], s->seed + 1);
    j->x[2].result = 'A';
    st = job_alloc(j, 0);
done:
    return st;
}
static status ormqr_run(job *j) {
    const setting *s = j->s;
    return be->lowrank->ormqr(ctx, T, s->side, s->transa, s->batch, DIM(s->m), DIM(s->n),
                              DIM(used(s)), OP(0), OP(1), OP(2));
}
static status ormqr_check(job *j, int64_t b) {
    const setting *s = j->s;
    const view V = given(j, 0, b, 'A'), C = given(j, 2, b, 'A');
    const double *tau = given(j, 1, b, 'A').p;
    real *x = random_vector(s->n, s->seed), *r = vector(s->m), *y = random_vector(s->n, s->seed);
    if (s->side == 'L') { /* op(Q) (C x) */
        add_product(C, 'N', 1, x, r);
        reflect(V.p, V.ld, tau, s->m, used(s), s->transa, r, 1);
    } else { /* C (op(Q) x) */
        reflect(V.p, V.ld, tau, s->n, used(s), s->transa, y, 1);
        add_product(C, 'N', 1, y, r);
    }
    add_product(found(j, 2, b, 'A'), 'N', -1, x, r);
    judge(j, r, s->m, norm_of(C) * norm(s->n, x), order(s));
    free(x), free(r), free(y);
    return MOAO_OK;
}
static void ormqr_rival(job *j, int64_t b) {
    const setting *s = j->s;
    const int m = (int)s->m, n = (int)s->n, k = (int)used(s), la = (int)ld_of(&j->x[0]),
              len = 64 * (m + n) + 64;
    void *work = memory((size_t)len);
    int bad;
    LAPACK(T, ormqr)
    (&s->side, &s->transa, &m, &n, &k, rival_of(j, 0, b), &la, rival_of(j, 1, b), rival_of(j, 2, b),
     &m, work, &len, &bad, (size_t)1, (size_t)1);
    free(work);
}
static double ormqr_flops(const setting *s) {
    return (4 * d(order(s)) - 2 * d(used(s))) * d(used(s)) * d(s->side == 'L' ? s->n : s->m);
}

/* --- qr: x[0] := Q, x[1] := R -------------------------------------------------------------------
 */

static status qr_prepare(job *j) {
    const setting *s = j->s;
    status st;
    TRY(array_new(&j->x[0], s, s->m, s->n));
    TRY(array_new(&j->x[1], s, inner(s), s->n));
    fill_random(&j->x[0], s->seed);
    j->x[0].result = j->x[1].result = 'A';
    st = prepared(j, BATCH_QR, 0);
done:
    return st;
}
static status qr_run(job *j) {
    const setting *s = j->s;
    return be->lowrank->qr(ctx, T, 'Q', s->batch, DIM(s->m), DIM(s->n), OP(0), OP(1), j->info,
                           WORK);
}
static status qr_check(job *j, int64_t b) {
    const setting *s = j->s;
    const int64_t k = inner(s);
    const view A = given(j, 0, b, 'A');
    view Q = found(j, 0, b, 'A');
    Q.cols = k;
    real *x = random_vector(s->n, s->seed), *y = vector(k), *r = vector(s->m);
    add_product(found(j, 1, b, 'A'), 'N', 1, x, y);
    add_product(Q, 'N', 1, y, r);
    add_product(A, 'N', -1, x, r);
    judge(j, r, s->m, norm_of(A) * norm(s->n, x), s->m > s->n ? s->m : s->n);
    judge_columns(j, Q);
    free(x), free(y), free(r);
    return MOAO_OK;
}
static void qr_rival(job *j, int64_t b) {
    const int m = (int)j->s->m, k = (int)inner(j->s), len = 64 * k + 64;
    void *work = memory((size_t)len), *tau = memory((size_t)k);
    const int n = (int)j->s->n, lw = 64 * n + 64;
    void *more = memory((size_t)lw);
    int bad;
    LAPACK(T, geqrf)(&m, &n, rival_of(j, 0, b), &m, tau, more, &lw, &bad);
    LAPACK(T, orgqr)(&m, &k, &k, rival_of(j, 0, b), &m, tau, work, &len, &bad);
    free(work), free(tau), free(more);
}
static double qr_flops(const setting *s) {
    return 2 * geqrf_flops(s);
}

/* --- gesvj, rsvd: x[1] := S, x[2] := U, x[3] := V; ara: x[2], x[3] -------------------------------
 */

/* Singular values of x[0] on the host, by LAPACK: min(m, n) numbers. */
static double *values(const job *j, int64_t b) {
    const setting *s = j->s;
    const int m = (int)s->m, n = (int)s->n, k = (int)inner(s), one = 1, len = 16 * (m + n) + 64;
    const int64_t each = s->m * s->n;
    double *a = memory((size_t)each), *sv = memory((size_t)k), *work = memory((size_t)len), none[1];
    int *iwork = memory((size_t)(8 * k)), bad;
    memcpy(a, j->x[0].given + b * each, sizeof *a * (size_t)each);
    dgesdd_("N", &m, &n, a, &m, sv, none, &one, none, &one, work, &len, iwork, &bad, (size_t)1);
    free(a), free(work), free(iwork);
    return sv;
}

/* norm_F(A - U diag(s) V^T), of r columns; s NULL: ones. */
static real distance(view A, view U, const double *s, view V, int64_t r) {
    real sum = 0, *col = vector(A.rows);
    for (int64_t c = 0; c < A.cols; c++) {
        for (int64_t i = 0; i < A.rows; i++)
            col[i] = A.p[i + c * A.ld];
        for (int64_t p = 0; p < r; p++) {
            const real f = (s ? s[p] : 1) * (real)V.p[c + p * V.ld];
            for (int64_t i = 0; i < A.rows; i++)
                col[i] -= f * U.p[i + p * U.ld];
        }
        const real off = norm(A.rows, col);
        sum += off * off;
    }
    free(col);
    return sqrtl(sum);
}

static status svd_arrays(job *j, int64_t cols) {
    const setting *s = j->s;
    status st;
    TRY(array_new(&j->x[0], s, s->m, s->n));
    TRY(array_new(&j->x[1], s, cols < inner(s) ? cols : inner(s), 1));
    TRY(array_new(&j->x[2], s, s->m, cols));
    TRY(array_new(&j->x[3], s, s->n, cols));
    j->x[1].result = j->x[2].result = j->x[3].result = 'A';
done:
    return st;
}
static status gesvj_prepare(job *j) {
    const setting *s = j->s;
    status st;
    TRY(svd_arrays(j, inner(s)));
    fill_random(&j->x[0], s->seed);
    st = prepared(j, BATCH_GESVJ, 0);
done:
    return st;
}
static status gesvj_run(job *j) {
    const setting *s = j->s;
    return be->lowrank->gesvj(ctx, T, 'U', 'U', NULL, s->batch, DIM(s->m), DIM(s->n), OP(0), OP(1),
                              OP(2), OP(3), NULL, j->info, WORK);
}
static status gesvj_check(job *j, int64_t b) {
    const setting *s = j->s;
    const int64_t k = inner(s), most = s->m > s->n ? s->m : s->n;
    const view A = given(j, 0, b, 'A'), U = found(j, 2, b, 'A'), V = found(j, 3, b, 'A');
    const double *sv = found(j, 1, b, 'A').p;
    const real off = distance(A, U, sv, V, k);
    for (int64_t i = 1; i < k; i++)
        if (!(sv[i] <= sv[i - 1] && sv[i] >= 0))
            raise(&j->residual, INFINITY);
    raise(&j->residual, off / norm_of(A) / (eps_of(T) * (real)(most > 1 ? most : 1)));
    judge_columns(j, U), judge_columns(j, V);
    return MOAO_OK;
}
static void gesvj_rival(job *j, int64_t b) {
    const int m = (int)j->s->m, n = (int)j->s->n, k = (int)inner(j->s),
              len = 8 * k * k + 64 * (m + n) + 64;
    void *work = memory((size_t)len), *iwork = memory((size_t)(8 * k)),
         *u = memory((size_t)(m * k)), *v = memory((size_t)(n * k)), *sv = memory((size_t)k);
    int bad;
    LAPACK(T, gesdd)
    ("S", &m, &n, rival_of(j, 0, b), &m, sv, u, &m, v, &k, work, &len, iwork, &bad, (size_t)1);
    free(work), free(iwork), free(u), free(v), free(sv);
}
static double gesvj_flops(const setting *s) { /* of LAPACK's way, as usual: 22 k^3 where m = n */
    const double k = d(inner(s)), m = d(s->m > s->n ? s->m : s->n);
    return 14 * m * k * k + 8 * k * k * k;
}

/* Covariances exp(-distance / 0.3) between the points of two neighbouring squares. */
static void fill_covariance(array *x, uint64_t seed) {
    double *p = memory((size_t)(2 * (x->rows + x->cols)));
    for (int64_t b = 0; b < x->count; b++) {
        for (int64_t i = 0; i < 2 * (x->rows + x->cols); i++)
            p[i] = tester_random(&seed) / 2 + (i >= 2 * x->rows && i % 2 == 0);
        for (int64_t c = 0; c < x->cols; c++)
            for (int64_t r = 0; r < x->rows; r++) {
                const double *u = p + 2 * r, *v = p + 2 * (x->rows + c);
                x->given[(b * x->cols + c) * x->rows + r] =
                    exp(-hypot(u[0] - v[0], u[1] - v[1]) / 0.3);
            }
    }
    free(p);
}

static int64_t most(const setting *s) {
    return s->rank < inner(s) ? s->rank : inner(s);
}
static status rsvd_prepare(job *j) {
    const setting *s = j->s;
    status st;
    TRY(svd_arrays(j, most(s)));
    fill_covariance(&j->x[0], s->seed);
    j->limit = 3; /* times the least error that so many columns can have */
    st = prepared(j, BATCH_RSVD, most(s) + 8);
done:
    return st;
}
static status rsvd_run(job *j) {
    const setting *s = j->s;
    const batch_cut cut = {.kind = 'R', .norm = 'F', .most = most(s)};
    return be->lowrank->rsvd(ctx, T, 'U', 'U', &cut, 8, 1, s->seed, s->batch, DIM(s->m), DIM(s->n),
                             OP(0), OP(1), OP(2), OP(3), j->ranks, j->info, WORK);
}
/* The least error of `most` columns. */
static real least_error(const job *j, int64_t b) {
    const setting *s = j->s;
    real least = eps_of(T) * norm_of(given(j, 0, b, 'A')) * 4;
    double *sv = values(j, b);
    for (int64_t i = most(s); i < inner(s); i++)
        least = hypotl(least, sv[i]);
    free(sv);
    return least;
}
static status rsvd_check(job *j, int64_t b) {
    const view A = given(j, 0, b, 'A');
    view U = found(j, 2, b, 'A'), V = found(j, 3, b, 'A');
    U.cols = V.cols = j->rank_found[b];
    raise(&j->residual, distance(A, U, found(j, 1, b, 'A').p, V, U.cols) / least_error(j, b));
    judge_columns(j, U), judge_columns(j, V);
    return MOAO_OK;
}
static double rsvd_flops(const setting *s) { /* four products with the samples */
    return 8 * d(s->m) * d(s->n) * d(most(s) + 8);
}

/* In units of what the tolerance allows, or of rounding, where that is more. */
static status ara_prepare(job *j) {
    const setting *s = j->s;
    status st;
    TRY(svd_arrays(j, inner(s)));
    j->x[1].result = 0;
    fill_covariance(&j->x[0], s->seed);
    j->limit = 1.01;
    st = prepared(j, BATCH_ARA, inner(s));
done:
    return st;
}
static status ara_run(job *j) {
    const setting *s = j->s;
    const batch_cut cut = {.tol = s->tol, .kind = 'R', .norm = 'F', .most = inner(s)};
    return be->lowrank->ara(ctx, T, 'L', &cut, s->seed, s->batch, DIM(s->m), DIM(s->n), OP(0),
                            OP(2), OP(3), j->ranks, j->info, WORK);
}
static status ara_check(job *j, int64_t b) {
    const setting *s = j->s;
    const view A = given(j, 0, b, 'A');
    view U = found(j, 2, b, 'A'), V = found(j, 3, b, 'A');
    const real allowed = fmaxl(s->tol, 30 * eps_of(T)) * norm_of(A);
    U.cols = V.cols = j->rank_found[b];
    raise(&j->residual, distance(A, U, NULL, V, U.cols) / allowed);
    judge_columns(j, U);
    return MOAO_OK;
}
static double ara_flops(const setting *s) { /* a product with --rank samples, and with its result */
    return 4 * d(s->m) * d(s->n) * d(most(s));
}

/* --- recompress: x[0] x[1]^T := x[0] x[1]^T + x[2] x[3]^T, which is of the first one's rank ------
 */

static status recompress_prepare(job *j) {
    const setting *s = j->s;
    const int64_t k = most(s);
    status st;
    for (int i = 0; i < 4; i++) {
        TRY(array_new(&j->x[i], s, i % 2 ? s->n : s->m, k));
        fill_random(&j->x[i], s->seed + (uint64_t)i);
    }
    /* x[2] has the columns of x[0] in turn, scaled: the sum needs no more than k */
    for (int64_t e = 0; e < s->m * k * j->x[2].count; e++)
        j->x[2].given[e] = 0.5 * j->x[0].given[e];
    j->x[0].result = j->x[1].result = 'A';
    j->limit = 1.01;
    st = prepared(j, BATCH_RECOMPRESS, 2 * k);
done:
    return st;
}
static status recompress_run(job *j) {
    const setting *s = j->s;
    const batch_cut cut = {.tol = s->tol, .kind = 'R', .norm = 'F', .most = most(s)};
    return be->lowrank->recompress(ctx, T, 'L', &cut, s->batch, DIM(s->m), DIM(s->n), scalar(T, 1),
                                   DIM(most(s)), OP(0), OP(1), scalar(T, 1), DIM(most(s)), OP(2),
                                   OP(3), j->ranks, j->info, WORK);
}
static status recompress_check(job *j, int64_t b) {
    const setting *s = j->s;
    const int64_t m = s->m, n = s->n, k = most(s);
    const real tol = fmaxl(s->tol, 30 * eps_of(T));
    double *sum = memory((size_t)(m * n));
    for (int i = 0; i < 4; i += 2)
        for (int64_t p = 0; p < k; p++)
            for (int64_t c = 0; c < n; c++)
                for (int64_t r = 0; r < m; r++)
                    sum[r + c * m] +=
                        given(j, i, b, 'A').p[r + p * m] * given(j, i + 1, b, 'A').p[c + p * n];
    const view A = {sum, m, m, n, 'A', false};
    view U = found(j, 0, b, 'A'), V = found(j, 1, b, 'A');
    U.cols = V.cols = j->rank_found[b];
    raise(&j->residual, distance(A, U, NULL, V, U.cols) / (tol * norm_of(A)));
    judge_columns(j, U);
    free(sum);
    return MOAO_OK;
}
static double recompress_flops(const setting *s) {
    const double k = 2 * d(most(s));
    return 4 * (d(s->m) + d(s->n)) * k * k;
}

const routine lowrank_routines[] = {
    {"geqrf", "lowrank", "R and reflectors; --m, --n", BATCH, geqrf_prepare, geqrf_run, geqrf_check,
     geqrf_rival, geqrf_flops, NULL},
    {"orgqr", "lowrank", "Q from reflectors; --m, --n", BATCH, orgqr_prepare, orgqr_run,
     orgqr_check, orgqr_rival, orgqr_flops, NULL},
    {"ormqr", "lowrank", "C := op(Q) C by reflectors; --m, --n, --k, --side, --transa", BATCH,
     ormqr_prepare, ormqr_run, ormqr_check, ormqr_rival, ormqr_flops, NULL},
    {"qr", "lowrank", "Q and R; --m, --n", BATCH, qr_prepare, qr_run, qr_check, qr_rival, qr_flops,
     NULL},
    {"gesvj", "lowrank", "singular values and vectors, by rotations; --m, --n", BATCH,
     gesvj_prepare, gesvj_run, gesvj_check, gesvj_rival, gesvj_flops, NULL},
    {"rsvd", "lowrank", "a sketch of --rank columns of a covariance; --m, --n", BATCH, rsvd_prepare,
     rsvd_run, rsvd_check, gesvj_rival, rsvd_flops, NULL},
    {"ara", "lowrank",
     "adaptive approximation of a covariance to --tol; --m, --n; --rank counts for the rate alone",
     BATCH, ara_prepare, ara_run, ara_check, gesvj_rival, ara_flops, NULL},
    {"recompress", "lowrank", "a sum of two products of --rank columns, cut; --m, --n, --tol",
     BATCH, recompress_prepare, recompress_run, recompress_check, NULL, recompress_flops, NULL},
    {0}};
