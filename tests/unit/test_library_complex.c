/* Batched operations on complex matrices (moao/batched_complex.h): residuals in units of rounding,
 * by pointers and by strides, in both types; what is not to be touched is not; a matrix that fails
 * and a wrong argument are named. */
#include "moao/batched_complex.h"
#include "support/hier_case.h"

#include <complex.h>
#include <float.h>

typedef double complex cplx;

enum { COUNT = 5, PAD = 3 };

/* A batch on the host in double precision, ld = rows + PAD, and in the backend's memory. */
typedef struct {
    backend_type t;
    int64_t rows, cols, ld, stride;
    cplx *host;
    void *dev, *pointer[COUNT];
} batch;

static size_t bytes_of(const batch *x) {
    return backend_size(x->t) * (size_t)(x->stride * COUNT);
}

static void up(batch *x) {
    const int64_t n = x->stride * COUNT;
    float complex *single = malloc(sizeof *single * (size_t)(n + 1));
    for (int64_t e = 0; e < n; e++)
        single[e] = (float complex)x->host[e];
    const void *from = x->t == BACKEND_Z ? (void *)x->host : (void *)single;
    const int64_t bytes = (int64_t)bytes_of(x);
    must(be->copy(ctx, x->dev, bytes, from, bytes, bytes, 1));
    must(be->sync(ctx));
    for (int64_t e = 0; e < n && x->t == BACKEND_C; e++)
        x->host[e] = single[e]; /* as the backend has them */
    free(single);
}

static void down(batch *x) {
    const int64_t n = x->stride * COUNT;
    void *raw = malloc(bytes_of(x) + 1);
    to_host(raw, x->dev, bytes_of(x));
    for (int64_t e = 0; e < n; e++)
        x->host[e] = x->t == BACKEND_Z ? ((cplx *)raw)[e] : (cplx)((float complex *)raw)[e];
    free(raw);
}

static batch batch_new(backend_type t, int64_t rows, int64_t cols, int seed) {
    batch x = {.t = t, .rows = rows, .cols = cols, .ld = rows + PAD};
    x.stride = x.ld * cols + 2;
    x.host = malloc(sizeof *x.host * (size_t)(x.stride * COUNT));
    for (int64_t e = 0; e < x.stride * COUNT; e++)
        x.host[e] = cos(0.7 * (double)e + seed) + I * sin(1.3 * (double)(e * seed) + 0.4);
    must(be->alloc(ctx, bytes_of(&x) + 1, &x.dev));
    for (int b = 0; b < COUNT; b++)
        x.pointer[b] = (char *)x.dev + backend_size(t) * (size_t)(b * x.stride);
    up(&x);
    return x;
}

static batch batch_copy(const batch *x) {
    batch y = *x;
    y.host = malloc(sizeof *y.host * (size_t)(x->stride * COUNT));
    memcpy(y.host, x->host, sizeof *y.host * (size_t)(x->stride * COUNT));
    y.dev = NULL;
    return y;
}

static void batch_free(batch *x) {
    free(x->host);
    be->release(ctx, x->dev);
}

static cplx *at(const batch *x, int b, int64_t i, int64_t j) {
    return x->host + b * x->stride + i + j * x->ld;
}

static cplx turned(const batch *x, char trans, int b, int64_t i, int64_t j) {
    return trans == 'N' ? *at(x, b, i, j) : trans == 'T' ? *at(x, b, j, i) : conj(*at(x, b, j, i));
}

static double unit(backend_type t) {
    return t == BACKEND_Z ? DBL_EPSILON : FLT_EPSILON;
}

static void is_near(double error, double size, backend_type t, int64_t n, const char *what) {
    if (!(error <= (8 + 4 * (double)n) * unit(t) * size))
        fail_msg("%s of order %d, type %d: off by %.1e of %.1e", what, (int)n, (int)t, error, size);
}

/* What lies between the columns and the matrices is as it was. */
static void margins(const batch *now, const batch *before) {
    for (int b = 0; b < COUNT; b++)
        for (int64_t e = 0; e < now->stride; e++)
            if (e % now->ld >= now->rows || e / now->ld >= now->cols)
                assert_true(now->host[b * now->stride + e] == before->host[b * now->stride + e]);
}

/* A scalar in the type of a call. */
typedef union {
    cplx z;
    float complex c;
} scalar;

static scalar scalar_of(backend_type t, cplx v) {
    scalar s = {0};
    if (t == BACKEND_Z)
        s.z = v;
    else
        s.c = (float complex)v;
    return s;
}

static void products(void **state) {
    (void)state;
    for (int v = 0; v < 36; v++) {
        const backend_type t = v & 1 ? BACKEND_C : BACKEND_Z;
        const char ta = "NTC"[v / 2 % 3], tb = "NTC"[v / 6 % 3];
        const bool strided = v >= 18;
        const int64_t m = 9, n = 7, k = v % 5 ? 11 : 0;
        batch a = batch_new(t, ta == 'N' ? m : k, ta == 'N' ? k : m, 2),
              b = batch_new(t, tb == 'N' ? k : n, tb == 'N' ? n : k, 3), c = batch_new(t, m, n, 5),
              old = batch_copy(&c);
        const scalar alpha = scalar_of(t, 0.5 - 2 * I), beta = scalar_of(t, -1 + 0.25 * I);
        if (strided)
            must((t == BACKEND_Z ? moao_zgemm_strided_batched : moao_cgemm_strided_batched)(
                ctx, ta, tb, m, n, k, &alpha, a.dev, a.ld, a.stride, b.dev, b.ld, b.stride, &beta,
                c.dev, c.ld, c.stride, COUNT));
        else
            must((t == BACKEND_Z ? moao_zgemm_batched : moao_cgemm_batched)(
                ctx, ta, tb, m, n, k, &alpha, (const void *const *)a.pointer, a.ld,
                (const void *const *)b.pointer, b.ld, &beta, c.pointer, c.ld, COUNT));
        down(&c);
        for (int q = 0; q < COUNT; q++)
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    cplx want = (-1 + 0.25 * I) * *at(&old, q, i, j);
                    for (int64_t e = 0; e < k; e++)
                        want += (0.5 - 2 * I) * turned(&a, ta, q, i, e) * turned(&b, tb, q, e, j);
                    is_near(cabs(want - *at(&c, q, i, j)), 20, t, k, "a product");
                }
        margins(&c, &old);
        batch_free(&a), batch_free(&b), batch_free(&c), batch_free(&old);
    }
}

/* Dominant diagonals; the other triangle has NaN, which nobody reads. */
static void triangle(batch *a, char uplo, char diag) {
    for (int b = 0; b < COUNT; b++)
        for (int64_t j = 0; j < a->cols; j++)
            for (int64_t i = 0; i < a->rows; i++)
                if (i == j)
                    *at(a, b, i, j) = diag == 'U' ? NAN : 4 + I * (double)b;
                else
                    *at(a, b, i, j) = (uplo == 'L') == (i > j) ? *at(a, b, i, j) / 8 : NAN;
    up(a);
}

static cplx of_triangle(const batch *a, char uplo, char trans, char diag, int b, int64_t i,
                        int64_t j) {
    const int64_t r = trans == 'N' ? i : j, c = trans == 'N' ? j : i;
    if (r == c)
        return diag == 'U' ? 1 : turned(a, trans, b, i, j);
    return (uplo == 'L') == (r > c) ? turned(a, trans, b, i, j) : 0;
}

static void solves(void **state) {
    (void)state;
    for (int v = 0; v < 48; v++) {
        const backend_type t = v & 1 ? BACKEND_C : BACKEND_Z;
        const char side = "LR"[v / 2 % 2], uplo = "LU"[v / 4 % 2], diag = "NU"[v / 8 % 2],
                   trans = "NTC"[v / 16];
        const int64_t m = v % 3 ? 13 : 40, n = v % 7 ? 6 : 33, order = side == 'L' ? m : n;
        const scalar alpha = scalar_of(t, 2 + I);
        batch a = batch_new(t, order, order, 2), x = batch_new(t, m, n, 3), old = batch_copy(&x);
        triangle(&a, uplo, diag);
        if (v % 5)
            must((t == BACKEND_Z ? moao_ztrsm_strided_batched : moao_ctrsm_strided_batched)(
                ctx, side, uplo, trans, diag, m, n, &alpha, a.dev, a.ld, a.stride, x.dev, x.ld,
                x.stride, COUNT));
        else
            must((t == BACKEND_Z ? moao_ztrsm_batched : moao_ctrsm_batched)(
                ctx, side, uplo, trans, diag, m, n, &alpha, (const void *const *)a.pointer, a.ld,
                x.pointer, x.ld, COUNT));
        down(&x);
        for (int q = 0; q < COUNT; q++)
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    cplx r = -(2 + I) * *at(&old, q, i, j);
                    for (int64_t e = 0; e < order; e++)
                        r += side == 'L'
                                 ? of_triangle(&a, uplo, trans, diag, q, i, e) * *at(&x, q, e, j)
                                 : *at(&x, q, i, e) * of_triangle(&a, uplo, trans, diag, q, e, j);
                    is_near(cabs(r), 60, t, order, "a solve");
                }
        margins(&x, &old);
        batch_free(&a), batch_free(&x), batch_free(&old);
    }
}

/* A Hermitian matrix with a dominant diagonal, whose imaginary part is not to be read. */
static void hermitian(batch *a, char uplo) {
    for (int b = 0; b < COUNT; b++)
        for (int64_t j = 0; j < a->cols; j++) {
            for (int64_t i = 0; i < a->rows; i++)
                if ((uplo == 'L') != (i > j))
                    *at(a, b, i, j) = NAN;
            *at(a, b, j, j) = (double)(2 * a->rows + b) + 0 * I;
        }
    up(a);
}

static void factors(void **state) {
    static const int64_t orders[] = {0, 1, 2, 17, 33, 70};
    (void)state;
    for (int v = 0; v < 24; v++) {
        const backend_type t = v & 1 ? BACKEND_C : BACKEND_Z;
        const char uplo = "LU"[v / 2 % 2];
        const int64_t n = orders[v / 4];
        int info[COUNT] = {9, 9, 9, 9, 9};
        batch a = batch_new(t, n, n, 2);
        hermitian(&a, uplo);
        batch old = batch_copy(&a);
        if (v % 3)
            must((t == BACKEND_Z ? moao_zpotrf_batched : moao_cpotrf_batched)(
                ctx, uplo, n, a.pointer, a.ld, info, COUNT));
        else
            must((t == BACKEND_Z ? moao_zpotrf_strided_batched : moao_cpotrf_strided_batched)(
                ctx, uplo, n, a.dev, a.ld, a.stride, info, COUNT));
        down(&a);
        for (int q = 0; q < COUNT; q++) {
            assert_int_equal(info[q], 0);
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = j; i < n; i++) {
                    const bool low = uplo == 'L';
                    cplx r = low ? *at(&old, q, i, j) : conj(*at(&old, q, j, i));
                    for (int64_t e = 0; e <= j; e++)
                        r -= low ? *at(&a, q, i, e) * conj(*at(&a, q, j, e))
                                 : conj(*at(&a, q, e, i)) * *at(&a, q, e, j);
                    is_near(cabs(r), (double)(2 * n + COUNT), t, n, "a factor");
                    if (i > j)
                        assert_true(isnan(creal(low ? *at(&a, q, j, i) : *at(&a, q, i, j))));
                }
        }
        margins(&a, &old);
        batch_free(&a), batch_free(&old);
    }
}

/* Q R by the reflectors, applied to R from the last one on. */
static void reflectors(void **state) {
    static const int64_t sizes[][2] = {{1, 1}, {12, 12}, {40, 7}, {7, 20}, {65, 33}};
    (void)state;
    for (int v = 0; v < 20; v++) {
        const backend_type t = v & 1 ? BACKEND_C : BACKEND_Z;
        const int64_t m = sizes[v / 4][0], n = sizes[v / 4][1], k = m < n ? m : n;
        batch a = batch_new(t, m, n, 2), old = batch_copy(&a), tau = batch_new(t, k, 1, 1);
        if (v / 2 % 2)
            must((t == BACKEND_Z ? moao_zgeqrf_batched : moao_cgeqrf_batched)(
                ctx, m, n, a.pointer, a.ld, tau.pointer, COUNT));
        else
            must((t == BACKEND_Z ? moao_zgeqrf_strided_batched : moao_cgeqrf_strided_batched)(
                ctx, m, n, a.dev, a.ld, a.stride, tau.dev, tau.stride, COUNT));
        down(&a), down(&tau);
        for (int q = 0; q < COUNT; q++)
            for (int64_t j = 0; j < n; j++) {
                cplx x[65];
                for (int64_t i = 0; i < m; i++)
                    x[i] = i <= j ? *at(&a, q, i, j) : 0;
                for (int64_t e = k - 1; e >= 0; e--) {
                    cplx dot = x[e];
                    for (int64_t i = e + 1; i < m; i++)
                        dot += conj(*at(&a, q, i, e)) * x[i];
                    dot *= *at(&tau, q, e, 0);
                    x[e] -= dot;
                    for (int64_t i = e + 1; i < m; i++)
                        x[i] -= dot * *at(&a, q, i, e);
                }
                for (int64_t i = 0; i < m; i++)
                    is_near(cabs(x[i] - *at(&old, q, i, j)), 2 * sqrt((double)m), t, m + k, "Q R");
            }
        margins(&a, &old);
        batch_free(&a), batch_free(&old), batch_free(&tau);
    }
}

/* Singular values of a batch; *s: k numbers of each matrix, on the host. */
static status svd(batch *a, char jobu, char jobv, bool strided, double *s, batch *u, batch *v,
                  int *info) {
    const int64_t m = a->rows, n = a->cols, k = m < n ? m : n, e = a->t == BACKEND_Z ? 8 : 4;
    void *values, *each[COUNT];
    must(be->alloc(ctx, (size_t)(COUNT * (k + 1) * e), &values));
    for (int b = 0; b < COUNT; b++)
        each[b] = (char *)values + b * (k + 1) * e;
    status st;
    if (a->t == BACKEND_Z && strided)
        st = moao_zgesvj_strided_batched(ctx, jobu, jobv, m, n, a->dev, a->ld, a->stride, values,
                                         k + 1, u->dev, u->ld, u->stride, v->dev, v->ld, v->stride,
                                         info, COUNT);
    else if (a->t == BACKEND_Z)
        st = moao_zgesvj_batched(ctx, jobu, jobv, m, n, (const void *const *)a->pointer, a->ld,
                                 (double *const *)each, u->pointer, u->ld, v->pointer, v->ld, info,
                                 COUNT);
    else if (strided)
        st = moao_cgesvj_strided_batched(ctx, jobu, jobv, m, n, a->dev, a->ld, a->stride, values,
                                         k + 1, u->dev, u->ld, u->stride, v->dev, v->ld, v->stride,
                                         info, COUNT);
    else
        st = moao_cgesvj_batched(ctx, jobu, jobv, m, n, (const void *const *)a->pointer, a->ld,
                                 (float *const *)each, u->pointer, u->ld, v->pointer, v->ld, info,
                                 COUNT);
    char *raw = malloc((size_t)(COUNT * (k + 1) * e));
    to_host(raw, values, (size_t)(COUNT * (k + 1) * e));
    for (int64_t p = 0; p < COUNT * k; p++) {
        const int64_t at = p / k * (k + 1) + p % k;
        s[p] = e == 8 ? ((double *)(void *)raw)[at] : (double)((float *)(void *)raw)[at];
    }
    free(raw);
    be->release(ctx, values);
    return st;
}

/* Columns are orthonormal, and the largest entry of each is real and positive. */
static void orthonormal(const batch *x, int b, bool signs) {
    for (int64_t p = 0; p < x->cols; p++) {
        cplx top = 0;
        for (int64_t q = 0; q <= p; q++) {
            cplx dot = p == q ? -1 : 0;
            for (int64_t i = 0; i < x->rows; i++)
                dot += conj(*at(x, b, i, q)) * *at(x, b, i, p);
            is_near(cabs(dot), 2, x->t, x->rows, "vectors");
        }
        for (int64_t i = 0; i < x->rows; i++)
            if (cabs(*at(x, b, i, p)) > cabs(top) * (1 + 4 * unit(x->t)))
                top = *at(x, b, i, p);
        if (signs && !(creal(top) > 0 && fabs(cimag(top)) <= 8 * unit(x->t) * cabs(top)))
            fail_msg("column %d has its largest entry at %g + %g i", (int)p, creal(top),
                     cimag(top));
    }
}

/* A of few columns that differ, zero, and full rank: one of each in a batch. */
static void rank_of(batch *a) {
    for (int64_t j = 0; j < a->cols; j++)
        for (int64_t i = 0; i < a->rows; i++) {
            *at(a, 1, i, j) = 0;
            *at(a, 2, i, j) = (1 + I * (double)i) * ((double)j - 2 * I); /* rank 1 */
            *at(a, 3, i, j) = *at(a, 3, i, j % 3);
            *at(a, 4, i, j) *= a->t == BACKEND_Z ? 1e300 : 1e36;
        }
    up(a);
}

static void singular_values(void **state) {
    static const int64_t sizes[][2] = {{1, 1}, {12, 12}, {40, 7}, {7, 20}, {65, 33}, {2, 70}};
    (void)state;
    for (int v = 0; v < 24; v++) {
        const backend_type t = v & 1 ? BACKEND_C : BACKEND_Z;
        const int64_t m = sizes[v / 4][0], n = sizes[v / 4][1], k = m < n ? m : n;
        if (small() && v % 5)
            continue;
        int info[COUNT];
        double s[COUNT * 70], again[COUNT * 70];
        batch a = batch_new(t, m, n, 2), u = batch_new(t, m, k, 3), w = batch_new(t, n, k, 5);
        rank_of(&a);
        batch old = batch_copy(&a), old_u = batch_copy(&u), old_w = batch_copy(&w);
        must(svd(&a, 'U', 'U', v / 2 % 2, s, &u, &w, info));
        down(&a), down(&u), down(&w);
        for (int b = 0; b < COUNT; b++) {
            const double top = s[b * k] > 0 ? s[b * k] : 1;
            assert_int_equal(info[b], 0);
            assert_true(memcmp(a.host, old.host, sizeof *a.host * (size_t)a.stride) == 0);
            orthonormal(&u, b, true), orthonormal(&w, b, false);
            for (int64_t p = 1; p < k; p++)
                assert_true(s[p + b * k] >= 0 && s[p + b * k] <= s[p - 1 + b * k]);
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < m; i++) {
                    cplx r = *at(&old, b, i, j) / top;
                    for (int64_t p = 0; p < k; p++)
                        r -= *at(&u, b, i, p) * (s[p + b * k] / top) * conj(*at(&w, b, j, p));
                    is_near(cabs(r), 2, t, k, "a decomposition");
                }
        }
        assert_true(s[k] == 0 && (k == 1 || s[1 + 2 * k] <= 100 * unit(t) * s[2 * k]));
        margins(&u, &old_u), margins(&w, &old_w);
        /* values alone, and vectors times values of one side */
        must(svd(&a, 'N', 'N', v / 2 % 2, again, &u, &w, info));
        for (int64_t p = 0; p < COUNT * k; p++)
            is_near(fabs(again[p] - s[p]) / (s[p / k * k] + 1e-300), 1, t, k, "a value alone");
        batch x = batch_new(t, n, k, 7);
        must(svd(&a, 'N', 'S', v / 2 % 2, again, &u, &x, info));
        down(&x);
        for (int64_t p = 0; p < k; p++) /* V S, but for a phase */
            for (int64_t i = 0; i < n; i++)
                is_near(fabs(cabs(*at(&x, 0, i, p)) - s[p] * cabs(*at(&w, 0, i, p))), s[0], t,
                        8 * k, "V S");
        batch_free(&a), batch_free(&u), batch_free(&w), batch_free(&x);
        batch_free(&old), batch_free(&old_u), batch_free(&old_w);
    }
}

/* The discrete Fourier transform times a diagonal matrix over 12 decades (6 in single precision):
 * each value is right relative to itself. */
static void graded_values(void **state) {
    enum { N = 24 };
    (void)state;
    for (int v = 0; v < 4; v++) {
        const backend_type t = v & 1 ? BACKEND_C : BACKEND_Z;
        const bool wide = v / 2;
        if (small() && v % 3)
            continue;
        const int64_t m = wide ? N : N + 6, n = wide ? N + 6 : N;
        int info[COUNT];
        double s[COUNT * N];
        batch a = batch_new(t, m, n, 2), none = {.t = t, .ld = 1};
        for (int b = 0; b < COUNT; b++)
            for (int64_t j = 0; j < N; j++)
                for (int64_t i = 0; i < N + 6; i++) {
                    const double d =
                        pow(10, -(t == BACKEND_Z ? 12. : 6.) * (double)(j * 7 % N) / N);
                    *at(&a, b, wide ? j : i, wide ? i : j) =
                        d * cexp(2 * M_PI * I * (double)(i * (j + b)) / (N + 6)) / sqrt(N + 6);
                }
        up(&a);
        must(svd(&a, 'N', 'N', true, s, &none, &none, info));
        for (int b = 0; b < COUNT; b++)
            for (int64_t p = 0; p < N; p++) {
                const double d = pow(10, -(t == BACKEND_Z ? 12. : 6.) * (double)p / N);
                if (!(fabs(s[p + b * N] - d) <= 60 * unit(t) * d))
                    fail_msg("value %d is %.17g, not %.17g", (int)p, s[p + b * N], d);
            }
        batch_free(&a);
    }
}

static void says(status st, status as, const char *text) {
    assert_int_equal(st, as);
    if (!strstr(status_message(), text))
        fail_msg("\"%s\" without \"%s\"", status_message(), text);
    status_clear();
}

static void failures(void **state) {
    int info[COUNT];
    const scalar one = scalar_of(BACKEND_Z, 1);
    batch a = batch_new(BACKEND_Z, 20, 20, 2), x = batch_new(BACKEND_Z, 20, 3, 3);
    (void)state;
    hermitian(&a, 'L');
    *at(&a, 1, 12, 12) = -1;
    *at(&a, 3, 4, 4) = NAN;
    up(&a);
    says(moao_zpotrf_batched(ctx, 'L', 20, a.pointer, a.ld, info, COUNT), MOAO_NUMERIC,
         "moao_zpotrf_batched: matrix 1 of 5: the leading minor of order 13 is not positive");
    assert_int_equal(info[0], 0);
    assert_int_equal(info[1], 13);
    assert_int_equal(info[2], 0);
    assert_int_equal(info[3], 5);
    assert_int_equal(info[4], 0);
    says(moao_zpotrf_batched(ctx, 'L', 20, a.pointer, 19, info, COUNT), MOAO_INPUT,
         "moao_zpotrf_batched: argument 5 (lda) is 19, at least 20 is expected");
    says(moao_cpotrf_strided_batched(ctx, 'X', 20, a.dev, 20, 400, info, COUNT), MOAO_INPUT,
         "moao_cpotrf_strided_batched: argument 2 (uplo) is 'X'");
    says(moao_zgeqrf_batched(ctx, 20, -1, a.pointer, 20, x.pointer, COUNT), MOAO_INPUT,
         "argument 3 (n) is -1");
    says(moao_zgeqrf_strided_batched(ctx, 20, 3, x.dev, 20, 60, NULL, 3, COUNT), MOAO_INPUT,
         "argument 7 (tau) is NULL");
    says(moao_ztrsm_batched(ctx, 'L', 'L', 'N', 'N', 20, 3, NULL, (const void *const *)a.pointer,
                            a.ld, x.pointer, x.ld, COUNT),
         MOAO_INPUT, "argument 8 (alpha) is NULL");
    says(moao_zgemm_batched(ctx, 'N', 'N', 20, 3, 20, &one, (const void *const *)a.pointer, a.ld,
                            (const void *const *)x.pointer, x.ld, &one, x.pointer, 2, COUNT),
         MOAO_INPUT, "argument 14 (ldc) is 2");
    double s[3 * COUNT];
    batch none = {.ld = 1};
    *at(&x, 2, 7, 1) = INFINITY * I;
    up(&x);
    says(svd(&x, 'N', 'N', true, s, &none, &none, info), MOAO_NUMERIC,
         "moao_zgesvj_strided_batched: matrix 2 of 5: column 2 has a NaN or an infinity (info 2)");
    assert_true(info[1] == 0 && info[2] == 2 && info[3] == 0);
    says(moao_zgesvj_batched(ctx, 'U', 'N', 600, 513, NULL, 600, NULL, NULL, 600, NULL, 1, NULL, 1),
         MOAO_INPUT, "argument 5 (n) is 513");
    says(moao_cgesvj_batched(ctx, 'V', 'N', 6, 5, NULL, 6, NULL, NULL, 6, NULL, 1, NULL, 1),
         MOAO_INPUT, "argument 2 (jobu) is 'V'");
    must(moao_zgemm_batched(ctx, 'N', 'N', 20, 3, 20, &one, NULL, a.ld, NULL, x.ld, &one, NULL,
                            x.ld, 0));
    batch_free(&a), batch_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),        cmocka_unit_test(solves),
        cmocka_unit_test(factors),         cmocka_unit_test(reflectors),
        cmocka_unit_test(singular_values), cmocka_unit_test(graded_values),
        cmocka_unit_test(failures)};
    return RUN_ON_BACKENDS(tests);
}
