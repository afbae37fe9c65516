/* Covariances of mean gradients for AVX-512: eight entries at once. The coefficients of an interval
 * are one line of memory: eight lines are loaded and transposed, which takes less time than to
 * gather them. */
#include "gradient_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,fma")))
#define INLINE static inline __attribute__((always_inline))
#define SHIFT (52 - GRADIENT_BITS)

typedef struct {
    __m512d dx, dy, s, m;
    __m512i line; /* of the intervals' coefficients, counted in numbers */
    __mmask8 here, near;
} separation;

/* Separations of entries e .. e + 8 of n, and which are near; the intervals of those are the first.
 */
AVX512 INLINE separation separate(const matcov_gradient *t, size_t e, size_t n, const double *x,
                                  const double *y, double x0, double y0) {
    separation p;
    p.here = n - e >= 8 ? (__mmask8)0xff : (__mmask8)((1u << (n - e)) - 1);
    p.dx = _mm512_sub_pd(_mm512_maskz_loadu_pd(p.here, x + e), _mm512_set1_pd(x0));
    p.dy = _mm512_sub_pd(_mm512_maskz_loadu_pd(p.here, y + e), _mm512_set1_pd(y0));
    p.s = _mm512_fmadd_pd(p.dx, p.dx, _mm512_mul_pd(p.dy, p.dy));
    const __m512d least = _mm512_set1_pd(t->near2);
    p.near = _mm512_mask_cmp_pd_mask(p.here, p.s, least, _CMP_LT_OQ);
    const __m512i bits = _mm512_castpd_si512(_mm512_max_pd(p.s, least));
    const __m512i i =
        _mm512_sub_epi64(_mm512_srli_epi64(bits, SHIFT), _mm512_set1_epi64(t->lowest));
    p.line = _mm512_slli_epi64(_mm512_min_epi64(i, _mm512_set1_epi64(GRADIENT_INTERVALS - 1)), 3);
    const __m512i mantissa =
        _mm512_ternarylogic_epi64(bits, _mm512_set1_epi64((INT64_C(1) << SHIFT) - 1),
                                  _mm512_set1_epi64(0x3ff0000000000000), 0xea /* (a & b) | c */);
    p.m = _mm512_sub_pd(_mm512_castsi512_pd(mantissa),
                        _mm512_set1_pd(1.0 + 0.5 / (1 << GRADIENT_BITS)));
    return p;
}

/* Lists the near entries. */
AVX512 INLINE void list(const separation *p, size_t e, const double turn[2], near_places *to) {
    const __m512d c = _mm512_set1_pd(turn[0]), s = _mm512_set1_pd(turn[1]);
    const __m256i number =
        _mm256_add_epi32(_mm256_set1_epi32((int)e), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    _mm256_mask_compressstoreu_epi32(to->entry + to->n, p->near, number);
    _mm512_mask_compressstoreu_pd(to->x + to->n, p->near,
                                  _mm512_fmadd_pd(c, p->dx, _mm512_mul_pd(s, p->dy)));
    _mm512_mask_compressstoreu_pd(to->y + to->n, p->near,
                                  _mm512_fmsub_pd(c, p->dy, _mm512_mul_pd(s, p->dx)));
    to->n += __builtin_popcount(p->near);
}

/* Cubic of the columns of four coefficients of eight lines: lines 0 and 4 (and so on) in FP16. */
AVX512 INLINE __m512d cubic(const __m512d pair[4], __m512d m) {
    /* pair[k]: four coefficients of line k, then of line k + 4 */
    const __m512d a = _mm512_unpacklo_pd(pair[0], pair[1]),
                  b = _mm512_unpackhi_pd(pair[0], pair[1]);
    const __m512d c = _mm512_unpacklo_pd(pair[2], pair[3]),
                  d = _mm512_unpackhi_pd(pair[2], pair[3]);
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    const __m512d c0 = _mm512_permutex2var_pd(a, low, c), c1 = _mm512_permutex2var_pd(b, low, d);
    const __m512d c2 = _mm512_permutex2var_pd(a, high, c), c3 = _mm512_permutex2var_pd(b, high, d);
    return _mm512_fmadd_pd(_mm512_fmadd_pd(_mm512_fmadd_pd(c3, m, c2), m, c1), m, c0);
}

AVX512 INLINE __m512d column(const double *from, const int64_t line[8], __m512d m) {
    __m512d pair[4];
    for (int k = 0; k < 4; k++)
        pair[k] = _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(from + line[k])),
                                     _mm256_loadu_pd(from + line[k + 4]), 1);
    return cubic(pair, m);
}

AVX512 static void add_far(const matcov_gradient *t, const double *radial,
                           const gradient_axes *axes, size_t n, const double *x, const double *y,
                           double x0, double y0, double coef, double *f, double *g,
                           near_places *places) {
    const double c = axes->rows[0], s = axes->rows[1];
    const __m512d vx = _mm512_set1_pd(axes->v[0]), vy = _mm512_set1_pd(axes->v[1]);
    const __m512d along = _mm512_set1_pd(c * axes->v[0] + s * axes->v[1]);
    const __m512d across = _mm512_set1_pd(c * axes->v[1] - s * axes->v[0]);
    const __m512d vc = _mm512_set1_pd(c), vs = _mm512_set1_pd(s), w = _mm512_set1_pd(coef);
    places->n = 0;
    for (size_t e = 0; e < n; e += 8) {
        const separation p = separate(t, e, n, x, y, x0, y0);
        const __mmask8 far = (__mmask8)(p.here & ~p.near);
        if (p.near)
            list(&p, e, axes->turn, places);
        if (!far)
            continue;
        int64_t line[8];
        _mm512_storeu_si512(line, p.line);
        const __m512d P = _mm512_maskz_mul_pd(far, w, column(radial, line, p.m));
        const __m512d Q = _mm512_maskz_mul_pd(far, w, column(radial + 4, line, p.m));
        const __m512d q = _mm512_mul_pd(_mm512_fmadd_pd(vx, p.dx, _mm512_mul_pd(vy, p.dy)), Q);
        const __m512d u = _mm512_fmadd_pd(vc, p.dx, _mm512_mul_pd(vs, p.dy));
        const __m512d v = _mm512_fmsub_pd(vc, p.dy, _mm512_mul_pd(vs, p.dx));
        __m512d to = _mm512_maskz_loadu_pd(far, f + e);
        _mm512_mask_storeu_pd(f + e, far, _mm512_fmadd_pd(u, q, _mm512_fmadd_pd(along, P, to)));
        to = _mm512_maskz_loadu_pd(far, g + e);
        _mm512_mask_storeu_pd(g + e, far, _mm512_fmadd_pd(v, q, _mm512_fmadd_pd(across, P, to)));
    }
}

AVX512 static void add_far_axes(const matcov_gradient *t, const double *radial,
                                const gradient_axes axes[2], size_t n, const double *x,
                                const double *y, double x0, double y0, double coef,
                                double *const out[4], near_places *places) {
    const double c = axes[0].rows[0], s = axes[0].rows[1];
    const __m512d vc = _mm512_set1_pd(c), vs = _mm512_set1_pd(s), w = _mm512_set1_pd(coef);
    places->n = 0;
    for (size_t e = 0; e < n; e += 8) {
        const separation p = separate(t, e, n, x, y, x0, y0);
        const __mmask8 far = (__mmask8)(p.here & ~p.near);
        if (p.near)
            list(&p, e, axes[0].turn, places);
        if (!far)
            continue;
        int64_t line[8];
        _mm512_storeu_si512(line, p.line);
        const __m512d P = _mm512_maskz_mul_pd(far, w, column(radial, line, p.m));
        const __m512d Q = _mm512_maskz_mul_pd(far, w, column(radial + 4, line, p.m));
        const __m512d u = _mm512_fmadd_pd(vc, p.dx, _mm512_mul_pd(vs, p.dy));
        const __m512d v = _mm512_fmsub_pd(vc, p.dy, _mm512_mul_pd(vs, p.dx));
        for (int b = 0; b < 2; b++) {
            const double *a = axes[b].v;
            const __m512d along = _mm512_set1_pd(c * a[0] + s * a[1]);
            const __m512d across = _mm512_set1_pd(c * a[1] - s * a[0]);
            const __m512d q =
                _mm512_mul_pd(_mm512_fmadd_pd(_mm512_set1_pd(a[0]), p.dx,
                                              _mm512_mul_pd(_mm512_set1_pd(a[1]), p.dy)),
                              Q);
            double *const f = out[2 * b] + e, *const g = out[2 * b + 1] + e;
            __m512d to = _mm512_maskz_loadu_pd(far, f);
            _mm512_mask_storeu_pd(f, far, _mm512_fmadd_pd(u, q, _mm512_fmadd_pd(along, P, to)));
            to = _mm512_maskz_loadu_pd(far, g);
            _mm512_mask_storeu_pd(g, far, _mm512_fmadd_pd(v, q, _mm512_fmadd_pd(across, P, to)));
        }
    }
}

AVX512 static void add_far_phase(const matcov_gradient *t, const double *radial,
                                 const double turn[2], size_t n, const double *x, const double *y,
                                 double x0, double y0, double coef, double *f, double *g,
                                 near_places *places) {
    const __m512d vc = _mm512_set1_pd(turn[0]), vs = _mm512_set1_pd(turn[1]);
    const __m512d w = _mm512_set1_pd(coef);
    places->n = 0;
    for (size_t e = 0; e < n; e += 8) {
        const separation p = separate(t, e, n, x, y, x0, y0);
        const __mmask8 far = (__mmask8)(p.here & ~p.near);
        if (p.near)
            list(&p, e, turn, places);
        if (!far)
            continue;
        int64_t line[8];
        _mm512_storeu_si512(line, p.line);
        const __m512d P = _mm512_maskz_mul_pd(far, w, column(radial, line, p.m));
        const __m512d u = _mm512_fmadd_pd(vc, p.dx, _mm512_mul_pd(vs, p.dy));
        const __m512d v = _mm512_fmsub_pd(vc, p.dy, _mm512_mul_pd(vs, p.dx));
        _mm512_mask_storeu_pd(f + e, far, _mm512_fmadd_pd(u, P, _mm512_maskz_loadu_pd(far, f + e)));
        _mm512_mask_storeu_pd(g + e, far, _mm512_fmadd_pd(v, P, _mm512_maskz_loadu_pd(far, g + e)));
    }
}

/* Separations in single precision, of sixteen entries. */
typedef struct {
    __m512 dx, dy, P, Q; /* P and Q 0 where entries are near, or not there */
    __mmask16 far;
} separation_single;

/* The four columns of coefficients of four lines, of P and of Q in turn, and their cubics at m. */
AVX512 INLINE __m512 cubic_single(const __m512 z[4], __m512 m) {
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(z[0], z[1])),
                  b = _mm512_castps_pd(_mm512_unpackhi_ps(z[0], z[1])),
                  c = _mm512_castps_pd(_mm512_unpacklo_ps(z[2], z[3])),
                  d = _mm512_castps_pd(_mm512_unpackhi_ps(z[2], z[3]));
    const __m512 c0 = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c)),
                 c1 = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c)),
                 c2 = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d)),
                 c3 = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    return _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_fmadd_ps(c3, m, c2), m, c1), m, c0);
}

/* Radial functions of entries whose lines and places in the intervals are given: those of entries k
 * and k + 8 are the halves of a register. */
AVX512 INLINE void radial_single(const float *radial, __m512i lines, __m512 m, __m512 *P,
                                 __m512 *Q) {
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
    int32_t line[16];
    __m512 z[8];
    _mm512_storeu_si512(line, lines);
    __asm__(""
            :
            : "r"(line)
            : "memory"); /* to be loaded again: faster than taken out of a register */
    for (int k = 0; k < 8; k++)
        z[k] = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(radial + line[k])),
                                  _mm256_loadu_ps(radial + line[k + 8]), 1);
    const __m512 a = cubic_single(z, _mm512_shuffle_f32x4(m, m, 0xa0)),
                 b = cubic_single(z + 4, _mm512_shuffle_f32x4(m, m, 0xf5));
    *P = _mm512_permutex2var_ps(a, low, b);
    *Q = _mm512_permutex2var_ps(a, _mm512_add_epi32(low, _mm512_set1_epi32(4)), b);
}

/* Entries e .. e + 16 of n; those that are near are listed. */
AVX512 INLINE separation_single separate_single(const gradient_single *table, const double turn[2],
                                                size_t e, size_t n, const float *x, const float *y,
                                                float x0, float y0, float coef,
                                                near_single *places) {
    const matcov_gradient *t = table->t;
    const int shift = 23 - GRADIENT_BITS;
    const int lowest = ((t->lowest >> GRADIENT_BITS) - 1023 + 127) << GRADIENT_BITS;
    const __mmask16 here = n - e >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << (n - e)) - 1);
    separation_single p;
    p.dx = _mm512_sub_ps(_mm512_maskz_loadu_ps(here, x + e), _mm512_set1_ps(x0));
    p.dy = _mm512_sub_ps(_mm512_maskz_loadu_ps(here, y + e), _mm512_set1_ps(y0));
    const __m512 least = _mm512_set1_ps(table->near2),
                 s = _mm512_fmadd_ps(p.dx, p.dx, _mm512_mul_ps(p.dy, p.dy));
    const __mmask16 near = _mm512_mask_cmp_ps_mask(here, s, least, _CMP_LT_OQ);
    p.far = (__mmask16)(here & ~near);
    if (near != 0) {
        const __m512 c = _mm512_set1_ps((float)turn[0]), v = _mm512_set1_ps((float)turn[1]);
        const __m512i number = _mm512_add_epi32(
            _mm512_set1_epi32((int)e),
            _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        _mm512_mask_compressstoreu_epi32(places->entry + places->n, near, number);
        _mm512_mask_compressstoreu_ps(places->x + places->n, near,
                                      _mm512_fmadd_ps(c, p.dx, _mm512_mul_ps(v, p.dy)));
        _mm512_mask_compressstoreu_ps(places->y + places->n, near,
                                      _mm512_fmsub_ps(c, p.dy, _mm512_mul_ps(v, p.dx)));
        places->n += __builtin_popcount(near);
    }
    const __m512i bits = _mm512_castps_si512(_mm512_max_ps(s, least));
    const __m512i i = _mm512_min_epi32(
        _mm512_sub_epi32(_mm512_srli_epi32(bits, shift), _mm512_set1_epi32(lowest)),
        _mm512_set1_epi32(GRADIENT_INTERVALS - 1));
    const __m512i mantissa =
        _mm512_ternarylogic_epi32(bits, _mm512_set1_epi32((1 << shift) - 1),
                                  _mm512_set1_epi32(0x3f800000), 0xea /* (a & b) | c */);
    const __m512 m = _mm512_sub_ps(_mm512_castsi512_ps(mantissa),
                                   _mm512_set1_ps(1.0f + 0.5f / (1 << GRADIENT_BITS)));
    radial_single(table->radial, _mm512_slli_epi32(i, 3), m, &p.P, &p.Q);
    p.P = _mm512_maskz_mul_ps(p.far, p.P, _mm512_set1_ps(coef));
    p.Q = _mm512_maskz_mul_ps(p.far, p.Q, _mm512_set1_ps(coef));
    return p;
}

AVX512 static void add_single_both(const gradient_single *table, const gradient_axes axes[2],
                                   size_t n, const float *x, const float *y, float x0, float y0,
                                   float coef, float *const out[4], near_single *places) {
    const float c = (float)axes[0].rows[0], s = (float)axes[0].rows[1];
    const __m512 vc = _mm512_set1_ps(c), vs = _mm512_set1_ps(s);
    places->n = 0;
    for (size_t e = 0; e < n; e += 16) {
        const separation_single p =
            separate_single(table, axes[0].turn, e, n, x, y, x0, y0, coef, places);
        const __m512 u = _mm512_fmadd_ps(vc, p.dx, _mm512_mul_ps(vs, p.dy));
        const __m512 v = _mm512_fmsub_ps(vc, p.dy, _mm512_mul_ps(vs, p.dx));
        for (int b = 0; b < 2; b++) {
            const float vx = (float)axes[b].v[0], vy = (float)axes[b].v[1];
            const __m512 along = _mm512_set1_ps(c * vx + s * vy),
                         across = _mm512_set1_ps(c * vy - s * vx);
            const __m512 q = _mm512_mul_ps(
                _mm512_fmadd_ps(_mm512_set1_ps(vx), p.dx, _mm512_mul_ps(_mm512_set1_ps(vy), p.dy)),
                p.Q);
            float *const f = out[2 * b] + e, *const g = out[2 * b + 1] + e;
            __m512 to = _mm512_maskz_loadu_ps(p.far, f);
            _mm512_mask_storeu_ps(f, p.far, _mm512_fmadd_ps(u, q, _mm512_fmadd_ps(along, p.P, to)));
            to = _mm512_maskz_loadu_ps(p.far, g);
            _mm512_mask_storeu_ps(g, p.far,
                                  _mm512_fmadd_ps(v, q, _mm512_fmadd_ps(across, p.P, to)));
        }
    }
}

AVX512 static void add_single_phase(const gradient_single *table, const double turn[2], size_t n,
                                    const float *x, const float *y, float x0, float y0, float coef,
                                    float *const out[2], near_single *places) {
    const __m512 vc = _mm512_set1_ps((float)turn[0]), vs = _mm512_set1_ps((float)turn[1]);
    places->n = 0;
    for (size_t e = 0; e < n; e += 16) {
        const separation_single p = separate_single(table, turn, e, n, x, y, x0, y0, coef, places);
        const __m512 u = _mm512_fmadd_ps(vc, p.dx, _mm512_mul_ps(vs, p.dy));
        const __m512 v = _mm512_fmsub_ps(vc, p.dy, _mm512_mul_ps(vs, p.dx));
        _mm512_mask_storeu_ps(out[0] + e, p.far,
                              _mm512_fmadd_ps(u, p.P, _mm512_maskz_loadu_ps(p.far, out[0] + e)));
        _mm512_mask_storeu_ps(out[1] + e, p.far,
                              _mm512_fmadd_ps(v, p.P, _mm512_maskz_loadu_ps(p.far, out[1] + e)));
    }
}

/* Weights of gradient_spline at f. */
AVX512 INLINE void weights(__m512d f, double w[4][GRADIENT_AT_ONCE], int e) {
    const __m512d one = _mm512_set1_pd(1.0), sixth = _mm512_set1_pd(1.0 / 6.0),
                  half = _mm512_set1_pd(0.5), most = _mm512_set1_pd(2.0 / 3.0);
    const __m512d g = _mm512_sub_pd(one, f), ff = _mm512_mul_pd(f, f), gg = _mm512_mul_pd(g, g);
    _mm512_storeu_pd(w[0] + e, _mm512_mul_pd(_mm512_mul_pd(sixth, g), gg));
    _mm512_storeu_pd(w[3] + e, _mm512_mul_pd(_mm512_mul_pd(sixth, f), ff));
    _mm512_storeu_pd(w[1] + e,
                     _mm512_fnmadd_pd(_mm512_mul_pd(half, ff), _mm512_add_pd(one, g), most));
    _mm512_storeu_pd(w[2] + e,
                     _mm512_fnmadd_pd(_mm512_mul_pd(half, gg), _mm512_add_pd(one, f), most));
}

AVX512 static void find_places(const matcov_gradient *t, near_places *p) {
    const __m512d inner = _mm512_set1_pd(t->inner);
    const __m512i one = _mm512_set1_epi64(1), kinds = _mm512_set1_epi64(t->kinds);
    for (int e = 0; e < p->n; e += 8) {
        /* what is beyond n is anything, and comes to nothing */
        const __m512d x = _mm512_loadu_pd(p->x + e), y = _mm512_loadu_pd(p->y + e);
        const __m512d most = _mm512_max_pd(_mm512_abs_pd(x), _mm512_abs_pd(y));
        const __mmask8 in = _mm512_cmp_pd_mask(most, inner, _CMP_LT_OQ);
        const __m512d half = _mm512_mask_blend_pd(in, _mm512_set1_pd(t->half[1]),
                                                  _mm512_set1_pd(t->half[0])),
                      inverse = _mm512_mask_blend_pd(in, _mm512_set1_pd(t->inverse[1]),
                                                     _mm512_set1_pd(t->inverse[0]));
        const __m512d ax = _mm512_mul_pd(_mm512_add_pd(x, half), inverse),
                      ay = _mm512_mul_pd(_mm512_add_pd(y, half), inverse);
        const __m512i i = _mm512_cvttpd_epi64(ax), j = _mm512_cvttpd_epi64(ay);
        const __m512i side = _mm512_mask_blend_epi64(in, _mm512_set1_epi64(t->side[1]),
                                                     _mm512_set1_epi64(t->side[0]));
        const __m512i start =
            _mm512_mask_blend_epi64(in, _mm512_set1_epi64((int64_t)t->kinds * gradient_cells(t, 0)),
                                    _mm512_setzero_si512());
        const __m512i place = _mm512_add_epi64(_mm512_mullo_epi64(_mm512_sub_epi64(j, one), side),
                                               _mm512_sub_epi64(i, one));
        _mm512_storeu_si512(p->from + e, _mm512_add_epi64(start, _mm512_mullo_epi64(place, kinds)));
        _mm512_storeu_si512(p->step + e, _mm512_mullo_epi64(side, kinds));
        weights(_mm512_sub_pd(ax, _mm512_cvtepi64_pd(i)), p->wx, e);
        weights(_mm512_sub_pd(ay, _mm512_cvtepi64_pd(j)), p->wy, e);
    }
}

static const gradient_kernels kernels = {
    add_far,          add_far_axes, add_far_phase,       add_single_both,
    add_single_phase, find_places,  gradient_near_phase, gradient_near_axes};

const gradient_kernels *gradient_kernels_avx512(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl")
               ? &kernels
               : NULL;
}

#else

const gradient_kernels *gradient_kernels_avx512(void) {
    return NULL;
}

#endif
