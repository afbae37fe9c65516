/* The moduli of products by integers and what follows from them; host only, compiled into the
 * library and into the GPU's plugin. */
#ifndef MOAO_INTEGER_CONSTANTS_H
#define MOAO_INTEGER_CONSTANTS_H

#include "integer_formula.h"

/* The largest set of pairwise coprime numbers up to 256, in falling order. */
static const int integer_p[INTEGER_MODULI] = {256, 255, 253, 251, 247, 241, 239, 233,
                                              229, 227, 223, 217, 211, 199, 197};

__extension__ typedef unsigned __int128 integer_wide;
__extension__ typedef __int128 integer_wide_signed;

/* M of up to 15 moduli, below 2^118. */
static inline integer_wide integer_product_of(int n) {
    integer_wide m = 1;
    for (int t = 0; t < n; t++)
        m *= (integer_wide)integer_p[t];
    return m;
}

/* x modulo p, in [-(p / 2), (p - 1) / 2]. */
static inline int integer_small_modulo(int64_t x, int p) {
    const int r = (int)(x % p);
    return r > (p - 1) / 2 ? r - p : r;
}

static inline int integer_inverse(int x, int p) {
    for (int y = 1; y < p; y++)
        if (x * y % p == 1)
            return y;
    return 1; /* p = 1 */
}

/* x in two parts: *high a multiple of 2^grid, the nearest one; *low the rest, rounded. */
static inline void integer_in_two(integer_wide_signed x, int grid, double *high, double *low) {
    const integer_wide_signed unit = (integer_wide_signed)1 << grid;
    const integer_wide_signed floor_of = x >= 0 ? x / unit : -((-x + unit - 1) / unit);
    const integer_wide_signed rest = x - floor_of * unit;
    const integer_wide_signed top = rest * 2 >= unit ? floor_of + 1 : floor_of;
    *high = (double)(top * unit);
    *low = (double)(x - top * unit);
}

static inline integer_constants integer_constants_of(int n) {
    integer_constants s = {0};
    const integer_wide m = integer_product_of(n);
    int bits = 0;
    s.n = n;
    while (bits < 127 && m >> bits != 0)
        bits++;
    /* |sum of residues times weights| < 15 128 M / 2 < 2^(bits + 10): 53 bits of it above 2^grid */
    const int grid = bits > 43 ? bits - 43 : 0;
    for (int t = 0; t < n; t++) {
        const int p = integer_p[t];
        const integer_wide part = m / (integer_wide)p;
        const integer_wide w =
            part * (integer_wide)integer_inverse((int)(part % (integer_wide)p), p) % m;
        s.p[t] = p;
        s.magic[t] = (int)((((int64_t)1 << 38) + p / 2) / p);
        s.w20[t] = integer_small_modulo((int64_t)1 << 20, p);
        s.w40[t] = integer_small_modulo((int64_t)1 << 40, p);
        integer_in_two(2 * w > m ? (integer_wide_signed)w - (integer_wide_signed)m
                                 : (integer_wide_signed)w,
                       grid, &s.high[t], &s.low[t]);
    }
    integer_in_two((integer_wide_signed)m, grid, &s.m_high, &s.m_low);
    s.m_inverse = 1 / (double)m;
    /* the margin of 2^-20 covers what the weights' lower parts and the quotient are wrong by */
    s.top = sqrt((double)m / 2 * (1 - 0x1p-20));
    return s;
}

/* Largest sum of squares of a row of `longest` entries before they are rounded to integers, which
 * may add sqrt(longest) / 2 to its norm. */
static inline double integer_square(int moduli, int64_t longest) {
    const double norm = integer_constants_of(moduli).top - sqrt((double)longest) / 2;
    return norm > 0 ? norm * norm : 0;
}

#endif
