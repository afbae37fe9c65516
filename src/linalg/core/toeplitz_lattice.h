/* What the plans of block-Toeplitz products begin with in every backend: orders of transforms, rows
 * of images by their places. */
#ifndef MOAO_BACKEND_TOEPLITZ_LATTICE_H
#define MOAO_BACKEND_TOEPLITZ_LATTICE_H

#include "moao/backend_toeplitz.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Least product of 2, 3 and 5 that is not below `least`. */
static inline int toeplitz_smooth(int least) {
    for (int N = least;; N++) {
        int rest = N;
        for (int p = 2; p <= 5; p++)
            while (rest % p == 0)
                rest /= p;
        if (rest == 1)
            return N;
    }
}

/* Of the transforms of a lattice of n x n. */
static inline int toeplitz_order(int n) {
    return toeplitz_smooth(2 * n - 1);
}

/* Rows of all images. */
static inline size_t toeplitz_total(const toeplitz_shape *s) {
    size_t total = 0;
    for (int i = 0; i < s->nimage; i++)
        total += (size_t)s->count[i];
    return total;
}

/* Rows of image i by x, the first one being number `from` of all images': those at x are start[x]
 * to start[x + 1], their iy in y and their columns of the matrix in column, by these numbers.
 * start: [n + 1], of this image. */
static inline void toeplitz_sort(const toeplitz_shape *s, int i, int64_t from, int *start, int *y,
                                 int64_t *column) {
    for (int x = 0; x <= s->n; x++)
        start[x] = 0;
    for (int64_t k = 0; k < s->count[i]; k++)
        start[s->place[i][k] % s->n + 1]++;
    for (int x = 0; x < s->n; x++)
        start[x + 1] += start[x];
    for (int64_t k = 0; k < s->count[i]; k++) {
        const int at = s->place[i][k];
        const int64_t to = from + start[at % s->n]++;
        y[to] = at / s->n;
        column[to] = s->first[i] + k;
    }
    for (int x = s->n; x > 0; x--)
        start[x] = start[x - 1] + (int)from;
    start[0] = (int)from;
}

#ifdef __cplusplus
}
#endif
#endif
