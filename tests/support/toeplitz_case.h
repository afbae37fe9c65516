/* Block-Toeplitz matrices of random values beside their entries, for tests of products with them.
 * Include after tests/support/matrix.h. */
#ifndef MOAO_TESTS_TOEPLITZ_CASE_H
#define MOAO_TESTS_TOEPLITZ_CASE_H

#include "moao/backend_toeplitz.h"
#include "support/matrix.h"

#define MOST 18 /* images */

typedef struct { /* a block-Toeplitz matrix and its entries */
    toeplitz_shape shape;
    int64_t count[MOST], first[MOST], m;
    int *place[MOST], step[MOST];
    toeplitz_pair pair[MOST * MOST]; /* values on the device */
    double *host[MOST * MOST], *diagonal[MOST * MOST];
    double *dense; /* m x m */
} matrix;

static inline void *send(const void *host, size_t bytes) {
    void *dev;
    const int64_t n = (int64_t)bytes;
    must(be->alloc(ctx, bytes + 1, &dev));
    must(be->copy(ctx, dev, n, host, n, n, 1));
    must(be->sync(ctx));
    return dev;
}

static int gap = 2;  /* rows of the matrix between two images */
static int thin = 1; /* one of so many places is there */

/* A pupil: an annulus of side x side, all of it where `full`; images of odd number have the step.
 * Rows of the images lie in the matrix with gaps between them. */
static inline void make_places(matrix *a, int n, int nimage, int step, bool full) {
    a->shape = (toeplitz_shape){.n = n, .nimage = nimage};
    for (int i = 0; i < nimage; i++) {
        const int s = i % 2 == 1 ? step : 1, side = (n - 1) / s + 1;
        a->step[i] = s;
        a->place[i] = malloc(sizeof(int) * (size_t)(side * side + 1));
        assert_non_null(a->place[i]);
        a->first[i] = a->m;
        for (int k = 0; k < side * side; k++) {
            const double x = 2.0 * (k % side) / side - 1, y = 2.0 * (int)(k / side) / side - 1;
            const double r = x * x + y * y;
            if (k % thin == 0 && (full || (r < 1.1 && r > 0.05)))
                a->place[i][a->count[i]++] = k / side * s * n + k % side * s;
        }
        a->m += a->count[i] + gap;
    }
    a->shape.count = a->count;
    a->shape.first = a->first;
    a->shape.place = (const int *const *)a->place;
}

/* Random tables; that of images r, c at the step that both share. */
static inline void make_values(matrix *a) {
    const int n = a->shape.n, g = a->shape.nimage;
    memset(a->dense, 0, sizeof *a->dense * (size_t)(a->m * a->m));
    for (int i = 0; i < g * g; i++) {
        const int r = i / g, c = i % g, step = a->step[r] < a->step[c] ? a->step[r] : a->step[c];
        const int origin = (n - 1) / step, width = 2 * origin + 1;
        toeplitz_pair *p = &a->pair[i];
        *p =
            (toeplitz_pair){.step = step, .width = width, .origin = origin, .reversed = i % 3 == 1};
        if (g > 2 && i == 1) /* nothing */
            continue;
        a->host[i] = malloc(sizeof(double) * (size_t)(width * width));
        assert_non_null(a->host[i]);
        for (int k = 0; k < width * width; k++)
            a->host[i][k] = lin_random();
        p->value = send(a->host[i], sizeof(double) * (size_t)(width * width));
        for (int64_t k = 0; k < a->count[r]; k++)
            for (int64_t l = 0; l < a->count[c]; l++) {
                int x = a->place[r][k] % n - a->place[c][l] % n;
                int y = a->place[r][k] / n - a->place[c][l] / n;
                x = (p->reversed ? -x : x) / step + origin;
                y = (p->reversed ? -y : y) / step + origin;
                a->dense[a->first[r] + k + (a->first[c] + l) * a->m] = a->host[i][y * width + x];
            }
        if (i % 2 == 1 || a->count[r] != a->count[c] || a->count[r] == 0 ||
            (g > 8 && r / 2 != c / 2)) /* a GPU has two of an image */
            continue;
        a->diagonal[i] = malloc(sizeof(double) * (size_t)(3 * a->count[r]));
        assert_non_null(a->diagonal[i]);
        for (int64_t k = 0; k < 3 * a->count[r]; k++)
            a->diagonal[i][k] = k % 3 == 0 ? 3 * lin_random() : NAN;
        p->diagonal = send(a->diagonal[i], sizeof(double) * (size_t)(3 * a->count[r]));
        p->stride = 3;
        for (int64_t k = 0; k < a->count[r]; k++)
            a->dense[a->first[r] + k + (a->first[c] + k) * a->m] += a->diagonal[i][3 * k];
    }
}

static inline void drop_values(matrix *a) {
    for (int i = 0; i < MOST * MOST; i++) {
        be->release(ctx, (void *)a->pair[i].value);
        be->release(ctx, (void *)a->pair[i].diagonal);
        free(a->host[i]), free(a->diagonal[i]);
        a->host[i] = a->diagonal[i] = NULL;
    }
}

static inline void make(matrix *a, int n, int nimage, int step, bool full) {
    *a = (matrix){0};
    make_places(a, n, nimage, step, full);
    a->dense = calloc((size_t)(a->m * a->m + 1), sizeof *a->dense);
    assert_non_null(a->dense);
    make_values(a);
}

static inline void drop(matrix *a) {
    drop_values(a);
    for (int i = 0; i < MOST; i++)
        free(a->place[i]);
    free(a->dense);
}

static inline bool in_image(const matrix *a, int64_t k) {
    for (int i = 0; i < a->shape.nimage; i++)
        if (k >= a->first[i] && k < a->first[i] + a->count[i])
            return true;
    return false;
}

#endif
