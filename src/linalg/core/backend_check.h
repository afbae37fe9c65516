/* What backends and the checks above them ask of arguments, and the order in which a recursion on a
 * triangle visits its halves. No work is done here; host only. */
#ifndef MOAO_BACKEND_CHECK_H
#define MOAO_BACKEND_CHECK_H

#include "moao/backend.h"

static inline bool backend_is(char c, const char *letters) {
    for (; *letters; letters++)
        if (c == *letters)
            return true;
    return false;
}

static inline bool backend_ld_ok(int64_t rows, int64_t ld) {
    return rows >= 0 && ld >= (rows > 1 ? rows : 1);
}

static inline bool backend_is_real(backend_type t) {
    return t == BACKEND_D || t == BACKEND_S;
}

/* Is one element of type t, in host memory, equal to re + 0i? */
static inline bool backend_equals(backend_type t, const void *x, double re) {
    switch (t) {
    case BACKEND_D:
        return *(const double *)x == re;
    case BACKEND_S:
        return *(const float *)x == (float)re;
    case BACKEND_Z:
        return ((const double *)x)[0] == re && ((const double *)x)[1] == 0;
    default:
        return ((const float *)x)[0] == (float)re && ((const float *)x)[1] == 0;
    }
}

/* Bounds of the diagonal of a Cholesky factor in numbers of `bytes`: there the pivot and its
 * inverse are normal numbers. The upper bound is just below 2^511 (2^63): approximate inverses
 * round. */
#define BACKEND_ROOT_MIN(bytes) ((bytes) == 8 ? 1.4916681462400413e-154 : 1.0842021724855044e-19)
#define BACKEND_ROOT_MAX(bytes) ((bytes) == 8 ? 6.7e153 : 9.2e18)

/* A triangle in FP16: op(A) acts on B, in parts 1 and 2. trsm solves with the source half,
 * subtracts the off-diagonal block times the source from the target, and solves with the target
 * half; trmm takes the same steps in the opposite order, adding. True when part 1 is the source. */
static inline bool backend_source_first(char side, char uplo, char trans) {
    bool lower = (uplo == 'L') == (trans == 'N'); /* op(A) is lower triangular */
    return (side == 'L') == lower;
}

/* First part of a split: the largest leaf * 2^j below n. For n <= leaf: n. */
static inline int64_t backend_split(int64_t n, int64_t leaf) {
    int64_t s = leaf;
    while (2 * s < n)
        s *= 2;
    return n <= leaf ? n : s;
}

#endif
