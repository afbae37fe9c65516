/* Halves: conversions bit for bit against a search among all halves, products against double
 * precision, largest entry; odd sizes, guards, numbers beyond the range, NaN. */
#include "moao/backend_fp16.h"
#include "support/matrix.h"

#define POISON 0x7e5a /* a NaN */

typedef struct {
    int64_t m, n, ld;
    size_t bytes;
    backend_f16 *host, *dev;
} fp16;

static fp16 fp16_new(int64_t m, int64_t n, int64_t pad) {
    fp16 h = {m, n, (m > 1 ? m : 1) + pad, 0, NULL, NULL};
    h.bytes = (size_t)(h.ld * n + 16) * sizeof *h.host;
    h.host = malloc(h.bytes);
    assert_non_null(h.host);
    for (size_t i = 0; i < h.bytes / sizeof *h.host; i++)
        h.host[i] = POISON;
    must(be->alloc(ctx, h.bytes, (void **)&h.dev));
    return h;
}

static void fp16_move(const fp16 *h, bool up) {
    const int64_t n = (int64_t)h->bytes;
    must(be->copy(ctx, up ? h->dev : h->host, n, up ? h->host : h->dev, n, n, 1));
    must(be->sync(ctx));
}

static void fp16_free(fp16 *h) {
    free(h->host);
    be->release(ctx, h->dev);
}

/* Everything beyond the m x n entries is still poison. */
static void fp16_guarded(const fp16 *h) {
    for (int64_t k = 0; k < (int64_t)(h->bytes / sizeof *h->host); k++)
        if (k % h->ld >= h->m || k / h->ld >= h->n)
            assert_int_equal(h->host[k], POISON);
}

/* Value of a half of positive sign; 65536 in the place of infinity. */
static double value(int bits) {
    return bits >> 10 ? ldexp(1024 + (bits & 1023), (bits >> 10) - 25) : ldexp(bits, -24);
}

static double decoded(backend_f16 h) {
    static double all[65536];
    for (int i = 0; all[1] == 0 && i < 65536; i++)
        all[65535 - i] = i < 32768 ? -value(32767 - i) : value(65535 - i);
    return all[h];
}

/* The nearest half, by bisection; ties to the even one. */
static backend_f16 nearest(double x) {
    int low = 0, high = 0x7c00;
    const double a = fabs(x);
    if (isnan(x))
        return 0x7fff;
    if (a >= 65536)
        low = high;
    while (high - low > 1) {
        const int mid = (low + high) / 2;
        *(value(mid) <= a ? &low : &high) = mid;
    }
    if (low < high) {
        const double middle = (value(low) + value(high)) / 2;
        low = a > middle || (a == middle && low % 2) ? high : low;
    }
    return (backend_f16)(low | (signbit(x) ? 0x8000 : 0));
}

static const double special[] = {0,         -0.0,      1,
                                 -1,        65504,     65519.9999999,
                                 65520,     -65520,    1e30,
                                 -1e300,    INFINITY,  -INFINITY,
                                 NAN,       0x1p-14,   0x1p-15,
                                 0x1p-24,   0x1p-25,   0x1.0000001p-25,
                                 0x1.8p-24, -0x1p-26,  1e-40,
                                 1e-320,    2049,      2051,
                                 0x1.002p0, 0x1.006p0, 0x1.0020000001p0};
#define NSPECIAL ((int64_t)(sizeof special / sizeof *special))

static void check_cast_to_fp16(backend_type t, int64_t m, int64_t n, int exponent) {
    const bool fours = m % 4 == 0; /* then columns begin at a multiple of four numbers too */
    mat a = mat_new(t, m, n, fours ? 4 : 3);
    fp16 h = fp16_new(m, n, fours ? 8 : 5);
    for (int64_t k = 0; k < m * n; k++) {
        const double wide = ldexp(lin_random(), (int)(50 * lin_random()) - exponent);
        mat_set(&a, k % m, k / m,
                k < NSPECIAL ? ldexp(special[k], t == BACKEND_D ? -exponent : 0) : wide);
    }
    mat_up(&a);
    fp16_move(&h, true);
    must(be->fp16->cast_to_fp16(ctx, t, m, n, exponent, a.dev, a.ld, h.dev, h.ld));
    fp16_move(&h, false);
    fp16_guarded(&h);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            const double x = ldexp(creal(mat_get(&a, i, j)), exponent);
            if (h.host[i + j * h.ld] != nearest(x))
                fail_msg("type %d, %a is %04x, not %04x", t, x, h.host[i + j * h.ld], nearest(x));
        }
    mat_down(&a);
    assert_true(mat_untouched(&a, '0'));
    fp16_free(&h);
    mat_free(&a);
}

static void test_cast_to_fp16(void **state) {
    (void)state;
    for (int t = BACKEND_D; t <= BACKEND_S; t++) {
        check_cast_to_fp16(t, 31, 33, 0);
        check_cast_to_fp16(t, 257, 3, 40);
        check_cast_to_fp16(t, 1, 65, -17);
        check_cast_to_fp16(t, 1000, 1, 1);
        check_cast_to_fp16(t, 1028, 3, 30);
        check_cast_to_fp16(t, 36, 20, -125);
        check_cast_to_fp16(t, 0, 5, 0);
        check_cast_to_fp16(t, 5, 0, 0);
        if (!small())
            check_cast_to_fp16(t, 3, 70001, 3);
    }
    assert_int_equal(be->fp16->cast_to_fp16(ctx, BACKEND_Z, 1, 1, 0, NULL, 1, NULL, 1), MOAO_INPUT);
    assert_int_equal(be->fp16->cast_to_fp16(ctx, BACKEND_D, 1, 1, 1001, NULL, 1, NULL, 1),
                     MOAO_INPUT);
    status_clear();
}

/* Both halves bit by bit, and what they add up to: 22 bits, of small numbers 2^-40 of 2^15. */
static void check_split(backend_type t, char part, int64_t m, int64_t n, int exponent) {
    const bool fours = m % 4 == 0;
    mat a = mat_new(t, m, n, fours ? 4 : 3);
    fp16 h = fp16_new(m, n, fours ? 8 : 5), r = fp16_new(m, n, fours ? 4 : 2);
    mat_fill(&a, part);
    for (int64_t k = 0; k < m * n && part == 'A'; k++)
        mat_set(&a, k % m, k / m,
                k < NSPECIAL ? ldexp(special[k], t == BACKEND_D ? -exponent : 0)
                             : ldexp(lin_random(), (int)(30 * lin_random()) - exponent));
    mat_up(&a);
    fp16_move(&h, true), fp16_move(&r, true);
    mat y = mat_new(BACKEND_D, m, n, 1);
    mat_up(&y);
    must(be->fp16->split(ctx, t, part, m, n, exponent, a.dev, a.ld, h.dev, h.ld, r.dev, r.ld));
    must(be->fp16->join(ctx, m, n, exponent, h.dev, h.ld, r.dev, r.ld, y.dev, y.ld));
    fp16_move(&h, false), fp16_move(&r, false), mat_down(&y);
    fp16_guarded(&h), fp16_guarded(&r);
    assert_true(mat_untouched(&y, 'A'));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            const backend_f16 *top = &h.host[i + j * h.ld], *rest = &r.host[i + j * r.ld];
            const double x = part == 'A' || i >= j ? ldexp(creal(mat_get(&a, i, j)), exponent) : 0;
            const bool inside = fabs(x) < 65520;
            assert_int_equal(*top, nearest(x));
            assert_int_equal(*rest, nearest(x - (inside  ? decoded(*top)
                                                 : x > 0 ? INFINITY
                                                 : x < 0 ? -INFINITY
                                                         : NAN)));
            if (inside) {
                assert_true(fabs(decoded(*top) + decoded(*rest) - x) <=
                            fmax(0x1p-22 * fabs(x), 0x1p-25));
                assert_true(creal(mat_get(&y, i, j)) ==
                            ldexp(decoded(*top) + decoded(*rest), -exponent));
            }
        }
    mat_down(&a);
    assert_true(mat_untouched(&a, '0'));
    fp16_free(&h), fp16_free(&r), mat_free(&a), mat_free(&y);
}

static void test_split(void **state) {
    (void)state;
    for (int t = BACKEND_D; t <= BACKEND_S; t++) {
        check_split(t, 'A', 31, 33, 0);
        check_split(t, 'A', 257, 3, 40);
        check_split(t, 'A', 132, 7, 0);
        check_split(t, 'A', 1028, 9, 40);
        check_split(t, 'A', 64, 3, -122);
        check_split(t, 'L', 65, 65, 14);
        check_split(t, 'L', 70, 20, 14);
        check_split(t, 'L', 5, 9, 14);
        check_split(t, 'A', 0, 5, 0);
        check_split(t, 'A', 5, 0, 0);
    }
    assert_int_equal(be->fp16->split(ctx, BACKEND_D, 'U', 1, 1, 0, NULL, 1, NULL, 1, NULL, 1),
                     MOAO_INPUT);
    status_clear();
}

/* Tile by tile against a plain sum; a NaN belongs to its tile. */
static void test_squares(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {100, 70, 32}, {64, 64, 64}, {3, 300, 50}, {333, 2, 1000}};
    for (int t = BACKEND_D; t <= BACKEND_S; t++)
        for (int k = 0; k < 5; k++) {
            const int64_t m = sizes[k][0], n = sizes[k][1], tile = sizes[k][2];
            const int64_t rows = (m + tile - 1) / tile, cols = (n + tile - 1) / tile;
            mat a = mat_new(t, m, n, 3), out = mat_new(BACKEND_D, rows, cols, 2);
            mat_fill(&a, 'A');
            if (m > tile)
                mat_set(&a, m - 1, n - 1, NAN);
            mat_up(&a), mat_up(&out);
            must(be->fp16->squares(ctx, t, m, n, a.dev, a.ld, tile, out.dev, out.ld));
            mat_down(&out);
            assert_true(mat_untouched(&out, 'A'));
            for (int64_t j = 0; j < cols; j++)
                for (int64_t i = 0; i < rows; i++) {
                    double sum = 0, got = creal(mat_get(&out, i, j));
                    for (int64_t c = j * tile; c < n && c < (j + 1) * tile; c++)
                        for (int64_t r = i * tile; r < m && r < (i + 1) * tile; r++)
                            sum += pow(creal(mat_get(&a, r, c)), 2);
                    assert_true(isnan(sum) ? isnan(got) : fabs(got - sum) <= 1e-13 * sum);
                }
            mat_free(&a), mat_free(&out);
        }
}

/* Halves that a product meets: all of similar size, or spread over the range. */
static void fill(fp16 *h, int spread) {
    for (int64_t j = 0; j < h->n; j++)
        for (int64_t i = 0; i < h->m; i++)
            h->host[i + j * h->ld] = nearest(ldexp(lin_random(), (int)(spread * lin_random())));
}

typedef struct {
    char ta, tb;
    int64_t m, n, k;
    float alpha, beta;
    int spread;
} job;

static double product(const job *p, const fp16 *a, const fp16 *b, int64_t i, int64_t j,
                      double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t k = 0; k < p->k; k++) {
        const double x = decoded(a->host[p->ta == 'N' ? i + k * a->ld : k + i * a->ld]);
        const double y = decoded(b->host[p->tb == 'N' ? k + j * b->ld : j + k * b->ld]);
        sum += x * y;
        *size += fabs(x * y);
    }
    return sum;
}

static void check_gemm(job p) {
    fp16 a = p.ta == 'N' ? fp16_new(p.m, p.k, 3) : fp16_new(p.k, p.m, 2);
    fp16 b = p.tb == 'N' ? fp16_new(p.k, p.n, 1) : fp16_new(p.n, p.k, 0);
    mat c = mat_new(BACKEND_S, p.m, p.n, 5), again = mat_new(BACKEND_S, p.m, p.n, 5);
    if (p.alpha != 0) { /* else they stay NaN */
        fill(&a, p.spread);
        fill(&b, p.spread);
    }
    if (p.beta != 0)
        mat_fill(&c, 'A');
    memcpy(again.host, c.host, c.bytes);
    fp16_move(&a, true), fp16_move(&b, true), mat_up(&c), mat_up(&again);
    for (int r = 0; r < 2; r++)
        must(be->fp16->gemm(ctx, p.ta, p.tb, p.m, p.n, p.k, p.alpha, a.dev, a.ld, b.dev, b.ld,
                            p.beta, r ? again.dev : c.dev, c.ld));
    mat_down(&c), mat_down(&again);
    assert_true(mat_untouched(&c, 'A'));
    assert_memory_equal(c.host, again.host, c.bytes);
    for (int64_t j = 0; j < p.n; j++)
        for (int64_t i = 0; i < p.m; i++) {
            double size = 0;
            const size_t at = (size_t)(i + j * c.ld) * sizeof(float);
            const double before = p.beta != 0 ? *(float *)(c.before + at) * p.beta : 0;
            const double sum = p.alpha != 0 ? product(&p, &a, &b, i, j, &size) : 0;
            const double gap = fabs(*(float *)(c.host + at) - (p.alpha * sum + before));
            if (!(gap <= (double)FLT_EPSILON * (16 + sqrt((double)p.k)) *
                             (fabs(p.alpha) * size + fabs(before))))
                fail_msg("%c%c %dx%dx%d (%d, %d): wrong by %g of %g", p.ta, p.tb, (int)p.m,
                         (int)p.n, (int)p.k, (int)i, (int)j, gap, size);
        }
    fp16_free(&a), fp16_free(&b), mat_free(&c), mat_free(&again);
}

static void test_gemm(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 7, 31, 64, 100, 257};
    static const float alphas[] = {1, 0, -0.25F, 0x1p-40F}, betas[] = {0, 1, -3};
    const int n = (int)(sizeof sizes / sizeof *sizes), step = small() ? 7 : 1;
    for (int i = 0; i < n * n * n; i += step)
        check_gemm((job){"NT"[i % 2], "NT"[i / 2 % 2], sizes[i % n], sizes[i / n % n],
                         sizes[i / n / n], alphas[i % 4], betas[i % 3], i % 5 * 3});
    if (!small())
        check_gemm((job){'N', 'T', 129, 67, 20011, 1, 0, 2});
}

/* Several products in one, with sums in parts: shapes that the kernel of a GPU serves, and others.
 */
static void check_rounded(job p, int count, int64_t pad, int64_t depth) {
    fp16 a[FP16_MOST_PRODUCTS], b[FP16_MOST_PRODUCTS];
    fp16_product q[FP16_MOST_PRODUCTS];
    mat c = mat_new(BACKEND_S, p.m, p.n, 5), again = mat_new(BACKEND_S, p.m, p.n, 5);
    for (int i = 0; i < count; i++) {
        const int64_t am = p.ta == 'N' ? p.m : p.k, bm = p.tb == 'N' ? p.k : p.n;
        a[i] = fp16_new(am, p.m + p.k - am, pad + (8 - am % 8) % 8);
        b[i] = fp16_new(bm, p.k + p.n - bm, pad + (8 - bm % 8) % 8);
        fill(&a[i], p.spread), fill(&b[i], p.spread);
        fp16_move(&a[i], true), fp16_move(&b[i], true);
        q[i] = (fp16_product){a[i].dev, b[i].dev, depth << i};
    }
    if (p.beta != 0)
        mat_fill(&c, 'A');
    memcpy(again.host, c.host, c.bytes);
    mat_up(&c), mat_up(&again);
    for (int r = 0; r < 2; r++)
        must(be->fp16->gemm_rounded(ctx, p.ta, p.tb, p.m, p.n, p.k, p.alpha, count, q, a->ld, b->ld,
                                    p.beta, r ? again.dev : c.dev, c.ld));
    mat_down(&c), mat_down(&again);
    assert_true(mat_untouched(&c, 'A'));
    assert_memory_equal(c.host, again.host, c.bytes);
    for (int64_t j = 0; j < p.n; j++)
        for (int64_t i = 0; i < p.m; i++) {
            double sum = 0, size = 0, some;
            const size_t at = (size_t)(i + j * c.ld) * sizeof(float);
            const double before = p.beta != 0 ? *(float *)(c.before + at) * p.beta : 0;
            for (int k = 0; k < count; k++, size += some)
                sum += product(&p, &a[k], &b[k], i, j, &some);
            const double gap = fabs(*(float *)(c.host + at) - (p.alpha * sum + before));
            if (!(gap <= (double)FLT_EPSILON * (16 + sqrt((double)(count * p.k))) *
                             (fabs(p.alpha) * size + fabs(before))))
                fail_msg("%c%c %dx%dx%d, %d products, (%d, %d): wrong by %g of %g", p.ta, p.tb,
                         (int)p.m, (int)p.n, (int)p.k, count, (int)i, (int)j, gap, size);
        }
    for (int i = 0; i < count; i++)
        fp16_free(&a[i]), fp16_free(&b[i]);
    mat_free(&c), mat_free(&again);
}

static void test_gemm_rounded(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {
        {128, 192, 64}, {136, 64, 1000}, {129, 193, 65}, {130, 300, 128}, {384, 100, 200},
        {20, 30, 100},  {300, 7, 90},    {0, 5, 5},      {5, 0, 5},       {200, 200, 0}};
    static const float alphas[] = {1, -0.25F, 3}, betas[] = {0, 1, -3};
    const int n = (int)(sizeof sizes / sizeof *sizes);
    for (int i = 0; i < 4 * n; i += small() ? 3 : 1)
        check_rounded((job){i / n == 3 ? 'T' : 'N', "NT"[i / n % 2], sizes[i % n][0],
                            sizes[i % n][1], sizes[i % n][2], alphas[i % 3], betas[i / 2 % 3],
                            i % 5 * 3},
                      i % 3 + 1, i % 7 == 6, i % 4 == 0 ? 1 : 50 + 100 * (i % 4));
    if (!small()) {
        check_rounded((job){'N', 'T', 700, 500, 133, 1, 1, 2}, 2, 0, 128);
        check_rounded((job){'N', 'N', 2000, 200, 70, -1, 1, 2}, 3, 0, 64);
    }
    const fp16_product none = {NULL, NULL, 0};
    assert_int_equal(be->fp16->gemm_rounded(ctx, 'N', 'N', 1, 1, 1, 1, 1, &none, 1, 1, 0, NULL, 1),
                     MOAO_INPUT);
    assert_int_equal(be->fp16->gemm_rounded(ctx, 'N', 'N', 1, 1, 1, 1, 4, &none, 1, 1, 0, NULL, 1),
                     MOAO_INPUT);
    status_clear();
}

/* Sums of one sign drift where they are cut off; rounded in parts they do not. */
static void test_drift(void **state) {
    (void)state;
    const int64_t n = 256, k = small() ? 2048 : 16384;
    fp16 a = fp16_new(n, k, 0), b = fp16_new(n, k, 0);
    mat c = mat_new(BACKEND_S, n, n, 0);
    const job p = {'N', 'T', n, n, k, 1, 0, 0};
    double lost = 0;
    for (int64_t i = 0; i < n * k; i++) {
        a.host[i] = nearest(0.75 + 0.25 * lin_random());
        b.host[i] = nearest(0.75 + 0.25 * lin_random());
    }
    fp16_move(&a, true), fp16_move(&b, true), mat_up(&c);
    const fp16_product q = {a.dev, b.dev, 64};
    must(be->fp16->gemm_rounded(ctx, 'N', 'T', n, n, k, 1, 1, &q, n, n, 0, c.dev, c.ld));
    mat_down(&c);
    for (int64_t i = 0; i < n; i++) {
        double size;
        const double want = product(&p, &a, &b, i, n - 1 - i, &size);
        lost += (1 - creal(mat_get(&c, i, n - 1 - i)) / want) / (double)n;
    }
    assert_true(fabs(lost) < 6e-7);
    fp16_free(&a), fp16_free(&b), mat_free(&c);
}

/* A product with an infinite entry is not finite; it spreads no further than its row. */
static void test_not_finite(void **state) {
    (void)state;
    fp16 a = fp16_new(5, 9, 0), b = fp16_new(9, 4, 0);
    mat c = mat_new(BACKEND_S, 5, 4, 0);
    fill(&a, 0);
    fill(&b, 0);
    a.host[2 + 3 * a.ld] = 0x7c00;
    fp16_move(&a, true), fp16_move(&b, true), mat_up(&c);
    must(be->fp16->gemm(ctx, 'N', 'N', 5, 4, 9, 1, a.dev, a.ld, b.dev, b.ld, 0, c.dev, c.ld));
    mat_down(&c);
    for (int64_t i = 0; i < 5; i++)
        for (int64_t j = 0; j < 4; j++)
            assert_int_equal(isfinite(creal(mat_get(&c, i, j))) != 0, i != 2);
    fp16_free(&a), fp16_free(&b), mat_free(&c);
}

static double largest(const mat *a) {
    double *out, x = -1;
    must(be->alloc(ctx, sizeof *out, (void **)&out));
    must(be->fp16->max_abs(ctx, a->t, a->m, a->n, a->dev, a->ld, out));
    must(be->copy(ctx, &x, 8, out, 8, 8, 1));
    must(be->sync(ctx));
    be->release(ctx, out);
    return x;
}

static void test_max_abs(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{0, 3}, {4, 0},    {1, 1},    {33, 1},
                                       {1, 7}, {300, 17}, {31, 999}, {2, 5000}};
    for (int t = BACKEND_D; t <= BACKEND_S; t++)
        for (int s = 0; s < 8; s++) {
            const int64_t m = sizes[s][0], n = sizes[s][1];
            mat a = mat_new(t, m, n, 3); /* NaN beyond the matrix */
            mat_fill(&a, 'A');
            for (int corner = 0; corner < 4 && m * n > 0; corner++) {
                mat_set(&a, corner % 2 * (m - 1), corner / 2 * (n - 1), -2 - corner);
                mat_up(&a);
                assert_true(largest(&a) == 2 + corner);
            }
            if (m * n == 0)
                assert_true(largest(&a) == 0);
            for (int k = 0; k < 2 && m * n > 0; k++) {
                mat_set(&a, m / 2, n / 2, k ? NAN : -INFINITY);
                mat_up(&a);
                assert_true(k ? isnan(largest(&a)) : isinf(largest(&a)));
            }
            mat_free(&a);
        }
}

static void test_cast_to_double(void **state) {
    (void)state;
    static const double factors[][2] = {{1, 0}, {0x1p-60, 1}, {-3, 0.5}, {0, 2}};
    for (int k = 0; k < 4; k++) {
        mat x = mat_new(BACKEND_S, 77, 13, 2), y = mat_new(BACKEND_D, 77, 13, 1);
        mat_fill(&x, 'A');
        if (factors[k][1] != 0)
            mat_fill(&y, 'A');
        mat_up(&x), mat_up(&y);
        must(be->fp16->cast_to_double(ctx, 77, 13, factors[k][0], x.dev, x.ld, factors[k][1], y.dev,
                                      y.ld));
        mat_down(&y);
        assert_true(mat_untouched(&y, 'A'));
        for (int64_t j = 0; j < 13; j++)
            for (int64_t i = 0; i < 77; i++) {
                const double before = ((double *)y.before)[i + j * y.ld];
                const double want = factors[k][0] * creal(mat_get(&x, i, j)) +
                                    (factors[k][1] != 0 ? factors[k][1] * before : 0);
                assert_true(creal(mat_get(&y, i, j)) == want);
            }
        mat_free(&x), mat_free(&y);
    }
}

/* Pieces of all sizes about those of a block and of a warp, at odd places, more than go in one
 * launch, some empty; nothing beside them is written. */
static void test_cast_pieces(void **state) {
    static const int64_t size[] = {0, 1, 31, 257, 4095, 4096, 4097, 70001};
    enum { COUNT = 330, GAP = 3 };
    fp16_piece p[COUNT];
    int64_t at[COUNT], all = GAP;
    (void)state;
    for (int k = 0; k < COUNT; k++) {
        at[k] = all;
        p[k].n = size[k % 8 == 7 && k > 40 ? 0 : k % 8];
        all += p[k].n + GAP;
    }
    mat x = mat_new(BACKEND_S, all, 1, 0), y = mat_new(BACKEND_D, all, 1, 0);
    mat_fill(&x, 'A');
    mat_set(&x, GAP, 0, NAN);
    mat_up(&x), mat_up(&y);
    for (int k = 0; k < COUNT; k++) {
        p[k].x = (const float *)x.dev + at[k];
        p[k].y = (double *)y.dev + at[k];
    }
    must(be->fp16->cast_pieces(ctx, COUNT, p));
    memset(p, 0xff, sizeof p); /* it has been read */
    mat_down(&y);
    int64_t i = 0;
    for (int k = 0; k < COUNT; k++) {
        for (; i < at[k]; i++)
            assert_memory_equal((double *)y.host + i, (double *)y.before + i, sizeof(double));
        for (const int64_t end = k + 1 < COUNT ? at[k + 1] - GAP : all - GAP; i < end; i++) {
            const double got = ((double *)y.host)[i], want = ((float *)x.host)[i];
            assert_true(got == want || (isnan(got) && isnan(want)));
        }
    }
    must(be->fp16->cast_pieces(ctx, 0, NULL));
    assert_int_equal(be->fp16->cast_pieces(ctx, 1, &(fp16_piece){x.dev, y.dev, -1}), MOAO_INPUT);
    mat_free(&x), mat_free(&y);
}

static void test_cast_to_single(void **state) {
    (void)state;
    mat x = mat_new(BACKEND_D, 77, 13, 2), y = mat_new(BACKEND_S, 77, 13, 1);
    mat_fill(&x, 'A');
    mat_set(&x, 3, 3, 1e300);
    mat_up(&x), mat_up(&y);
    must(be->fp16->cast_to_single(ctx, 77, 13, x.dev, x.ld, y.dev, y.ld));
    mat_down(&y);
    assert_true(mat_untouched(&y, 'A'));
    for (int64_t j = 0; j < 13; j++)
        for (int64_t i = 0; i < 77; i++)
            assert_true((float)creal(mat_get(&y, i, j)) == (float)creal(mat_get(&x, i, j)));
    mat_free(&x), mat_free(&y);
}

static void test_exponent(void **state) {
    (void)state;
    static const double bounds[] = {1, 0.3, 1e-30, 7e20, 0x1p15, 3e-310};
    for (int k = 0; k < 6; k++) {
        const double top = ldexp(bounds[k], backend_fp16_exponent(bounds[k]));
        assert_true(top <= 0x1p15 && (top >= 0x1p14 || k == 5));
    }
    assert_int_equal(backend_fp16_exponent(0), 0);
    assert_int_equal(backend_fp16_exponent(NAN), 0);
    assert_int_equal(backend_fp16_exponent(INFINITY), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cast_to_fp16),   cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_not_finite),     cmocka_unit_test(test_max_abs),
        cmocka_unit_test(test_cast_to_double), cmocka_unit_test(test_exponent),
        cmocka_unit_test(test_split),          cmocka_unit_test(test_squares),
        cmocka_unit_test(test_cast_to_single), cmocka_unit_test(test_gemm_rounded),
        cmocka_unit_test(test_drift),          cmocka_unit_test(test_cast_pieces)};
    return RUN_ON_BACKENDS(tests);
}
