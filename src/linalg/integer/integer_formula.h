/* Arithmetic of products by integers (moao/backend_integer.h) that every backend has: the same
 * operations in the same order on CPU and GPU, so that their results have the same bits. */
#ifndef MOAO_INTEGER_FORMULA_H
#define MOAO_INTEGER_FORMULA_H

#include "moao/backend_integer.h"
#include <math.h>
#include <string.h>

#ifdef __CUDACC__
#define INTEGER_INLINE static __host__ __device__ inline
#else
#define INTEGER_INLINE static inline
#endif

/* What the residues of `n` moduli need. weight: (M / p) ((M / p)^-1 mod p) modulo M, in two parts
 * high + low: sums of residues times high parts are exact in double precision, and so is that sum
 * modulo M. */
typedef struct {
    int n;
    int p[MOAO_INTEGER_MODULI], magic[MOAO_INTEGER_MODULI]; /* magic: 2^38 / p */
    int w20[MOAO_INTEGER_MODULI], w40[MOAO_INTEGER_MODULI]; /* 2^20 and 2^40 modulo p */
    double high[MOAO_INTEGER_MODULI], low[MOAO_INTEGER_MODULI];
    double m_high, m_low, m_inverse; /* M in two parts, 1 / M */
    double top;                      /* T */
} integer_constants;

/* t modulo p, in [-(p / 2), (p - 1) / 2]. The quotient is off by one at most. */
INTEGER_INLINE int integer_reduce(int t, int p, int magic) {
    const int q = (int)(((int64_t)t * magic + ((int64_t)1 << 37)) >> 38);
    int r = (int)((unsigned)t - (unsigned)q * (unsigned)p);
    r -= r > (p - 1) / 2 ? p : 0;
    r += r < -(p / 2) ? p : 0;
    return r;
}

/* v modulo p, |v| < 2^59. */
INTEGER_INLINE int integer_residue(int64_t v, int p, int magic, int w20, int w40) {
    const int low = (int)(v & 0xfffff), mid = (int)(v >> 20 & 0xfffff), high = (int)(v >> 40);
    return integer_reduce(high * w40 + mid * w20 + low, p, magic);
}

/* 2^e, |e| <= 1000. */
INTEGER_INLINE double integer_power(int e) {
    const uint64_t bits = (uint64_t)(1023 + e) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Factors whose product is 2^e, |e| <= 2000: x first second = 2^e x, rounded once. */
typedef struct {
    double first, second;
} integer_factors;
INTEGER_INLINE integer_factors integer_factors_of(int e) {
    const integer_factors f = {integer_power(e / 2), integer_power(e - e / 2)};
    return f;
}

/* The integer of an entry; *fits becomes false where its scaled value is no number up to top. */
INTEGER_INLINE int64_t integer_entry(double x, integer_factors f, double top, bool *fits) {
    const double y = x * f.first * f.second;
    if (!(fabs(y) <= top)) {
        *fits = false;
        return 0;
    }
    return (int64_t)rint(y);
}

/* Scaled entry in 20 bits, upwards: |x| = u 2^(top - 20), where 2^top > |x| bounds the row. */
INTEGER_INLINE uint64_t integer_coarse(double x, integer_factors f) {
    return (uint64_t)ceil(fabs(x) * f.first * f.second);
}

/* Largest e with 2^(2 e) sum <= limit, sum = number 2^exponent, number > 0. */
INTEGER_INLINE int integer_exponent(double limit, double number, int exponent) {
    int of_limit, of_number;
    const double f = frexp(limit, &of_limit) / frexp(number, &of_number);
    const int most = of_limit - of_number - exponent - (f < 1 ? 1 : 0); /* 2^most <= limit / sum */
    return most >= 0 ? most / 2 : -((1 - most) / 2);
}

/* Exponent of a row from its largest modulus and the sum of squares of its coarse entries. */
INTEGER_INLINE int integer_row_exponent(double limit, double largest, uint64_t sum) {
    int top;
    if (!(largest <= 1.79769313486231571e308)) /* infinite or NaN */
        return MOAO_INTEGER_BAD;
    if (!(largest > 0))
        return 0;
    (void)frexp(largest, &top);
    return integer_exponent(limit, (double)sum, 2 * (top - 20));
}

/* Exponent of a row whose sum of squares is at most `square`, but for the rounding of a factor. */
INTEGER_INLINE int integer_square_exponent(double limit, double square) {
    if (!(square > 0 && square <= 1.79769313486231571e308))
        return MOAO_INTEGER_BAD;
    return integer_exponent(limit * (1 - 9.5367431640625e-7), square, 0);
}

/* A row's block of new entries: largest modulus and coarse sum as of integer_row_exponent. */
typedef struct {
    double limit, largest;
    uint64_t sum;
    int64_t before, n; /* entries stored, and new ones, */
    bool front;        /* in front of those */
} integer_block;

/* sum 4^-unit += number 4^e, which is positive; 4^500 is a number. */
INTEGER_INLINE void integer_add_square(double number, int e, int32_t *unit, double *sum) {
    const int d = *unit + e;
    if (*sum == 0 || d > 500) {
        *sum = *sum == 0 ? number : 2 * number;
        *unit = -e;
    } else if (d > -500) {
        *sum += number * integer_power(2 * d);
    }
}

/* Row i of a growth by a block. */
INTEGER_INLINE void integer_grow(const integer_block *b, int64_t i, const moao_integer_growth *g) {
    const bool marked = b->before > 0 && g->exponent[i] == MOAO_INTEGER_BAD;
    const bool bad = marked || !(b->largest <= 1.79769313486231571e308);
    const int32_t begin = b->front ? 0 : (int32_t)b->before;
    int top, order, most;
    if (b->before == 0)
        g->unit[i] = 0, g->sum[i] = 0, g->exponent[i] = 0;
    g->span[2 * i] = begin;
    g->span[2 * i + 1] = begin + (int32_t)b->n;
    if (bad) {
        g->exponent[i] = MOAO_INTEGER_BAD;
        return;
    }
    if (!(b->largest > 0)) /* zeros, by any exponent */
        return;
    const bool first = g->sum[i] == 0;
    (void)frexp(b->largest, &top);
    integer_add_square((double)b->sum / b->limit, top - 20, &g->unit[i], &g->sum[i]);
    const double f = frexp(g->sum[i], &order); /* sum <= 2^order, or 2^(order - 1) */
    order -= f == 0.5 ? 1 : 0;
    most = g->unit[i] - (order > 0 ? (order + 1) / 2 : -(-order / 2));
    if (first || g->exponent[i] > most) {
        g->exponent[i] = most - MOAO_INTEGER_SPARE;
        g->span[2 * i] = 0;
        g->span[2 * i + 1] = (int32_t)(b->before + b->n);
    }
}

/* The sum of a product in units of its operands', from its residues. */
INTEGER_INLINE double integer_rebuild(const integer_constants *s, double high, double low) {
    const double q = rint(high * s->m_inverse);
    return fma(-q, s->m_high, high) + fma(-q, s->m_low, low);
}

/* 2^-(a + b) sum, a and b exponents of rows; NaN of a marked one. */
INTEGER_INLINE double integer_scaled(double sum, int a, int b) {
    if (a == MOAO_INTEGER_BAD || b == MOAO_INTEGER_BAD)
        return (double)NAN;
    int e = -(a + b);
    e = e < -1400 ? -1400 : e > 1400 ? 1400 : e; /* beyond that all is 0, or infinite */
    const integer_factors f = integer_factors_of(e);
    return sum * f.first * f.second;
}

/* alpha x + beta c, where beta = 0 does not read c. */
INTEGER_INLINE double integer_update(double alpha, double x, double beta, const double *c) {
    return beta == 0 ? alpha * x : fma(alpha, x, beta * *c);
}

#endif
