/* The structure-function kernel for AVX-512: eight separations at once, each coefficient looked up
 * in registers that hold a window of four octaves of s (a factor 4 in rho). Neighbouring
 * separations mostly fit in one; where they do not, the windows are gone through in turn, which
 * still beats gathers. */
#include "structure.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

_Static_assert(STRUCTURE_HALF == 8, "half a window is a register");

#define AVX512 __attribute__((target("avx512f,avx512dq")))

/* Polynomials of one window at 8 points: interval numbers within the window, arguments m. */
AVX512 static inline __m512d window(const double *coef, __m512i interval, __m512d m) {
    const double *v = coef + (STRUCTURE_TERMS - 1) * STRUCTURE_WINDOW;
    __m512d g = _mm512_permutex2var_pd(_mm512_load_pd(v), interval, _mm512_load_pd(v + 8));
#pragma GCC unroll 10
    for (int c = STRUCTURE_TERMS - 2; c >= 0; c--) {
        v = coef + c * STRUCTURE_WINDOW;
        g = _mm512_fmadd_pd(
            g, m, _mm512_permutex2var_pd(_mm512_load_pd(v), interval, _mm512_load_pd(v + 8)));
    }
    return g;
}

/* table(s) at 8 points, s >= lo. */
AVX512 static inline __m512d lookup(const structure_table *t, __m512d s) {
    s = _mm512_min_pd(s, _mm512_set1_pd(t->hi));
    __m512i bits = _mm512_castpd_si512(s);
    __m512i interval = _mm512_sub_epi64(_mm512_srli_epi64(bits, STRUCTURE_SHIFT),
                                        _mm512_set1_epi64(STRUCTURE_ZERO));
    __m512i mantissa =
        _mm512_ternarylogic_epi64(bits, _mm512_set1_epi64(STRUCTURE_REST),
                                  _mm512_set1_epi64(STRUCTURE_ONE), 0xea /* (a & b) | c */);
    __m512d m = _mm512_sub_pd(_mm512_castsi512_pd(mantissa), _mm512_set1_pd(STRUCTURE_MIDDLE));
    __m512d g = _mm512_setzero_pd();
    __mmask8 todo = 0xff;
    /* s is convex along a line, so the largest is at an end: it goes into the upper half */
    long long first = _mm_cvtsi128_si64(_mm512_castsi512_si128(interval));
    long long last = _mm_extract_epi64(_mm512_extracti64x2_epi64(interval, 3), 1);
    long long top = first > last ? first : last;
    while (1) {
        long long half = top >> 3, w = half > 0 ? half - 1 : 0;
        __m512i within = _mm512_sub_epi64(interval, _mm512_set1_epi64(w * STRUCTURE_HALF));
        __mmask8 here =
            _mm512_mask_cmplt_epu64_mask(todo, within, _mm512_set1_epi64(STRUCTURE_WINDOW));
        g = _mm512_mask_mov_pd(g, here,
                               window(t->coef + w * STRUCTURE_WINDOW * STRUCTURE_TERMS, within, m));
        todo = (__mmask8)(todo & ~here);
        if (__builtin_expect(todo == 0, 1))
            return g;
        top =
            _mm_cvtsi128_si64(_mm512_castsi512_si128(_mm512_maskz_compress_epi64(todo, interval)));
    }
}

AVX512 static void add_avx512(const structure_table *t, size_t n, const double *x, const double *y,
                              double x0, double y0, double coef, double *f) {
    const __m512d vx = _mm512_set1_pd(x0), vy = _mm512_set1_pd(y0), vc = _mm512_set1_pd(coef);
    const __m512d lo = _mm512_set1_pd(t->lo);
    for (size_t e = 0; e < n; e += 8) {
        __m512d dx = _mm512_sub_pd(_mm512_load_pd(x + e), vx);
        __m512d dy = _mm512_sub_pd(_mm512_load_pd(y + e), vy);
        /* plus lo instead of a clamp: lost in rounding where the table is not zero */
        __m512d s = _mm512_fmadd_pd(dx, dx, _mm512_fmadd_pd(dy, dy, lo));
        __m512d g = lookup(t, s);
        _mm512_store_pd(f + e, _mm512_fmadd_pd(vc, g, _mm512_load_pd(f + e)));
    }
}

structure_kernel *structure_kernel_avx512(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? add_avx512
                                                                                   : NULL;
}

#else

structure_kernel *structure_kernel_avx512(void) {
    return NULL;
}

#endif
