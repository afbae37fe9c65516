/* The structure-function kernel for AVX2: four separations at once, whose coefficients are loaded
 * in pairs from tables that have those of an interval side by side. */
#include "structure.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline))

/* Two neighbouring coefficients of the intervals of four entries, entry by entry. */
AVX2 INLINE void take_two(const double *line, const int64_t at[4], int first, __m256d c[2]) {
    const double *v = line + first;
    const __m256d a = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd(v + at[0])),
                                           _mm_load_pd(v + at[2]), 1),
                  b = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd(v + at[1])),
                                           _mm_load_pd(v + at[3]), 1);
    c[0] = _mm256_unpacklo_pd(a, b);
    c[1] = _mm256_unpackhi_pd(a, b);
}

AVX2 static void add_avx2(const structure_table *t, size_t n, const double *x, const double *y,
                          double x0, double y0, double coef, double *f) {
    const __m256d vx = _mm256_set1_pd(x0), vy = _mm256_set1_pd(y0), vc = _mm256_set1_pd(coef);
    const __m256d lo = _mm256_set1_pd(t->lo), hi = _mm256_set1_pd(t->hi);
    for (size_t e = 0; e < n; e += 4) {
        const __m256d dx = _mm256_sub_pd(_mm256_load_pd(x + e), vx),
                      dy = _mm256_sub_pd(_mm256_load_pd(y + e), vy);
        const __m256d s =
            _mm256_min_pd(_mm256_max_pd(_mm256_fmadd_pd(dx, dx, _mm256_mul_pd(dy, dy)), lo), hi);
        const __m256i bits = _mm256_castpd_si256(s);
        const __m256i i = _mm256_sub_epi64(_mm256_srli_epi64(bits, STRUCTURE_SHIFT),
                                           _mm256_set1_epi64x(STRUCTURE_ZERO));
        const __m256i mantissa =
            _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi64x(STRUCTURE_REST)),
                            _mm256_set1_epi64x(STRUCTURE_ONE));
        const __m256d m =
            _mm256_sub_pd(_mm256_castsi256_pd(mantissa), _mm256_set1_pd(STRUCTURE_MIDDLE));
        const __m256i line = _mm256_mul_epu32(i, _mm256_set1_epi64x(STRUCTURE_TERMS));
        int64_t at[4];
        __m256d g = _mm256_setzero_pd();
        _mm256_storeu_si256((__m256i *)(void *)at, line);
        __asm__("" : : "r"(at) : "memory"); /* to be loaded again: faster than taken out */
#pragma GCC unroll 5
        for (int k = STRUCTURE_TERMS - 2; k >= 0; k -= 2) {
            __m256d c[2];
            take_two(t->line, at, k, c);
            g = _mm256_fmadd_pd(_mm256_fmadd_pd(g, m, c[1]), m, c[0]);
        }
        _mm256_store_pd(f + e, _mm256_fmadd_pd(vc, g, _mm256_load_pd(f + e)));
    }
}

structure_kernel *structure_kernel_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? add_avx2 : NULL;
}

#else

structure_kernel *structure_kernel_avx2(void) {
    return NULL;
}

#endif
