/* Products with sparse matrices against dense ones: types, sizes, strides, rows with fewer entries
 * than others, alpha and beta, NaN where nothing is read. */
#include "moao/backend_sparse.h"
#include "support/matrix.h"

static void *send(const void *host, size_t bytes) {
    void *dev;
    const int64_t n = (int64_t)bytes;
    must(be->alloc(ctx, bytes + 1, &dev));
    must(be->copy(ctx, dev, n, host, n, n, 1));
    must(be->sync(ctx));
    return dev;
}

/* Entries in increasing columns with gaps; every third row lacks its last ones. `dense`: S. */
static backend_rows make(backend_type t, int64_t rows, int64_t cols, int64_t width, double *dense) {
    const size_t count = (size_t)(rows * width);
    int *column = malloc((count + 1) * sizeof *column);
    double *d = malloc((count + 1) * sizeof *d);
    float *f = malloc((count + 1) * sizeof *f);
    assert_true(column && d && f);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < width; k++) {
            const bool none = (i % 3 == 0 && 2 * k >= width) || k >= cols;
            const int64_t at = (i + k * (cols / (width > 0 ? width : 1) + (k % 2))) % cols;
            const double x = none ? NAN : (double)(float)lin_random();
            column[i + k * rows] = none ? -1 : (int)at;
            d[i + k * rows] = x;
            f[i + k * rows] = (float)x;
            if (!none)
                dense[i + at * rows] += x;
        }
    const backend_rows s = {rows, cols, width, send(column, count * sizeof *column),
                            t == BACKEND_D ? send(d, count * sizeof *d)
                                           : send(f, count * sizeof *f)};
    free(column), free(d), free(f);
    return s;
}

static void check(backend_type t, int64_t rows, int64_t cols, int64_t width, int64_t n,
                  double alpha, double beta) {
    double *dense = calloc((size_t)(rows * cols + 1), sizeof *dense);
    assert_non_null(dense);
    const backend_rows s = make(t, rows, cols, width, dense);
    mat a = mat_new(t, cols, n, 3), c = mat_new(t, rows, n, 2);
    mat_fill(&a, 'A');
    if (beta != 0)
        mat_fill(&c, 'A');
    mat_up(&a), mat_up(&c);
    must(be->sparse->times(ctx, t, &s, n, alpha, a.dev, a.ld, beta, c.dev, c.ld));
    mat_down(&c);
    assert_true(mat_untouched(&c, 'A'));
    mat before = c;
    before.host = c.before;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < rows; i++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < cols; k++) {
                sum += dense[i + k * rows] * creal(mat_get(&a, k, j));
                size += fabs(dense[i + k * rows]);
            }
            const double was = beta != 0 ? beta * creal(mat_get(&before, i, j)) : 0;
            const double gap = fabs(creal(mat_get(&c, i, j)) - (alpha * sum + was));
            if (!(gap <= lin_eps(t) * (double)(width + 3) * (fabs(alpha) * size + fabs(was))))
                fail_msg("%dx%d, %d columns: wrong by %g", (int)rows, (int)cols, (int)n, gap);
        }
    be->release(ctx, (void *)s.column);
    be->release(ctx, (void *)s.value);
    mat_free(&a), mat_free(&c);
    free(dense);
}

static void test_times(void **state) {
    (void)state;
    static const int64_t sizes[][4] = {{1, 1, 1, 1},      {7, 5, 3, 9},    {300, 140, 11, 8},
                                       {129, 64, 48, 17}, {33, 400, 6, 1}, {5, 4, 0, 3},
                                       {0, 4, 2, 3},      {6, 4, 2, 0}};
    for (int t = BACKEND_D; t <= BACKEND_S; t++)
        for (int k = 0; k < 8; k++)
            for (int f = 0; f < 3; f++)
                check((backend_type)t, sizes[k][0], sizes[k][1], sizes[k][2], sizes[k][3],
                      f == 1 ? -0.5 : 1, f == 2 ? 2 : 0);
    const backend_rows s = {2, 3, 1, NULL, NULL};
    assert_int_equal(be->sparse->times(ctx, BACKEND_Z, &s, 1, 1, NULL, 3, 0, NULL, 2), MOAO_INPUT);
    assert_int_equal(be->sparse->times(ctx, BACKEND_D, &s, 1, 1, NULL, 2, 0, NULL, 2), MOAO_INPUT);
    status_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_times)};
    return RUN_ON_BACKENDS(tests);
}
