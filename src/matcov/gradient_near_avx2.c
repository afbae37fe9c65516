/* Covariances of mean gradients at near separations for AVX2: what is at a place of the grids is in
 * one register, for two kinds that of two places. */
#include "gradient_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    const double *c; /* the first coefficient */
    int64_t step;
    __m256d w[4]; /* of the rows */
} place;

AVX2 INLINE place place_of(const near_places *p, const double *near, int e) {
    place at = {.c = near + p->from[e], .step = p->step[e]};
    for (int k = 0; k < 4; k++)
        at.w[k] = _mm256_broadcast_sd(&p->wy[k][e]);
    return at;
}

/* Four neighbours from coefficient `first` on, summed over the rows. */
AVX2 INLINE __m256d over_rows(const place *at, int first) {
    const double *c = at->c + first;
    const __m256d a = _mm256_fmadd_pd(at->w[0], _mm256_loadu_pd(c),
                                      _mm256_mul_pd(at->w[1], _mm256_loadu_pd(c + at->step))),
                  b = _mm256_fmadd_pd(at->w[2], _mm256_loadu_pd(c + 2 * at->step),
                                      _mm256_mul_pd(at->w[3], _mm256_loadu_pd(c + 3 * at->step)));
    return _mm256_add_pd(a, b);
}

AVX2 static void add_phase(const near_places *p, const double *near, double coef,
                           double *const out[2]) {
    double *const f = out[0], *const g = out[1];
    for (int e = 0; e < p->n; e++) {
        const place at = place_of(p, near, e);
        const __m256d first = _mm256_blend_pd(_mm256_broadcast_sd(&p->wx[0][e]),
                                              _mm256_broadcast_sd(&p->wx[1][e]), 12),
                      last = _mm256_blend_pd(_mm256_broadcast_sd(&p->wx[2][e]),
                                             _mm256_broadcast_sd(&p->wx[3][e]), 12);
        const __m256d sum =
            _mm256_fmadd_pd(first, over_rows(&at, 0), _mm256_mul_pd(last, over_rows(&at, 4)));
        const __m128d both =
            _mm_mul_pd(_mm_set1_pd(coef),
                       _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1)));
        const int32_t i = p->entry[e];
        f[i] += _mm_cvtsd_f64(both);
        g[i] += _mm_cvtsd_f64(_mm_unpackhi_pd(both, both));
    }
}

/* Of three kinds the last register is taken from one number before its place on, so that nothing
 * beyond the grid is read. */
AVX2 INLINE void add_kinds(const near_places *p, const double *near, int kinds, const int kind[4],
                           double coef, double *const out[4]) {
    for (int e = 0; e < p->n; e++) {
        const place at = place_of(p, near, e);
        double value[4];
        __m256d last = over_rows(&at, kinds == 3 ? 8 : 12), sum;
        if (kinds == 3)
            last = _mm256_permute4x64_pd(last, 0x39);
        sum = _mm256_mul_pd(_mm256_broadcast_sd(&p->wx[3][e]), last);
        for (int k = 2; k >= 0; k--)
            sum =
                _mm256_fmadd_pd(_mm256_broadcast_sd(&p->wx[k][e]), over_rows(&at, kinds * k), sum);
        _mm256_storeu_pd(value, _mm256_mul_pd(_mm256_set1_pd(coef), sum));
        for (int a = 0; a < 4; a++)
            out[a][p->entry[e]] += value[kind[a]];
    }
}

AVX2 static void add_axes(const near_places *p, const double *near, int kinds, const int kind[4],
                          double coef, double *const out[4]) {
    if (kinds == 3)
        add_kinds(p, near, 3, kind, coef, out);
    else
        add_kinds(p, near, 4, kind, coef, out);
}

void gradient_near_avx2(gradient_kernels *k) {
    k->near_phase = add_phase;
    k->near_axes = add_axes;
}

#else

void gradient_near_avx2(gradient_kernels *k) {
    (void)k;
}

#endif
