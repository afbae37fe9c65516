/* Covariances of mean gradients in single precision for AVX2: eight entries at once. Those in
 * double precision stay as they are in gradient_add.c, whose results are the same on every
 * processor that has no AVX-512. */
#include "gradient_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline))
#define WIDE 8

typedef struct { /* what all entries of a line share */
    const float *radial;
    __m256 x0, y0, least, coef, c, s;
    __m256i lowest;
    float turn[2];
    __m256 v[2][2], along[2], across[2]; /* of both axes of the columns */
} frame;

typedef struct {
    __m256 dx, dy, m;
    __m256 far;         /* mask */
    int32_t line[WIDE]; /* of the intervals' coefficients, counted in numbers */
} separation;

AVX2 INLINE frame frame_of(const gradient_single *table, const double rows[2], const double turn[2],
                           float x0, float y0, float coef) {
    const int lowest = ((table->t->lowest >> GRADIENT_BITS) - 1023 + 127) << GRADIENT_BITS;
    return (frame){.radial = table->radial,
                   .x0 = _mm256_set1_ps(x0),
                   .y0 = _mm256_set1_ps(y0),
                   .least = _mm256_set1_ps(table->near2),
                   .coef = _mm256_set1_ps(coef),
                   .c = _mm256_set1_ps((float)rows[0]),
                   .s = _mm256_set1_ps((float)rows[1]),
                   .lowest = _mm256_set1_epi32(lowest),
                   .turn = {(float)turn[0], (float)turn[1]}};
}

/* Lists the near ones of eight entries, of which number e is the first. */
static void list(const float turn[2], size_t e, unsigned near, const float dx[WIDE],
                 const float dy[WIDE], near_single *places) {
    for (; near != 0; near &= near - 1) {
        const int k = __builtin_ctz(near), n = places->n++;
        places->entry[n] = (int32_t)e + k;
        places->x[n] = turn[0] * dx[k] + turn[1] * dy[k];
        places->y[n] = turn[0] * dy[k] - turn[1] * dx[k];
    }
}

/* Separations of eight entries, of which the first `here` are there; e is the number of the first.
 */
AVX2 INLINE void separate(const frame *f, size_t e, size_t here, const float *x, const float *y,
                          near_single *places, separation *p) {
    const int shift = 23 - GRADIENT_BITS;
    p->dx = _mm256_sub_ps(_mm256_loadu_ps(x), f->x0);
    p->dy = _mm256_sub_ps(_mm256_loadu_ps(y), f->y0);
    const __m256 s = _mm256_fmadd_ps(p->dx, p->dx, _mm256_mul_ps(p->dy, p->dy));
    p->far = _mm256_cmp_ps(s, f->least, _CMP_GE_OQ);
    const unsigned near = ~(unsigned)_mm256_movemask_ps(p->far) & ((1u << here) - 1);
    const __m256i bits = _mm256_castps_si256(_mm256_max_ps(s, f->least));
    const __m256i i = _mm256_min_epi32(_mm256_sub_epi32(_mm256_srli_epi32(bits, shift), f->lowest),
                                       _mm256_set1_epi32(GRADIENT_INTERVALS - 1));
    _mm256_storeu_si256((__m256i *)(void *)p->line, _mm256_slli_epi32(i, 3));
    const __m256i mantissa = _mm256_or_si256(
        _mm256_and_si256(bits, _mm256_set1_epi32((1 << shift) - 1)), _mm256_set1_epi32(0x3f800000));
    p->m = _mm256_sub_ps(_mm256_castsi256_ps(mantissa),
                         _mm256_set1_ps(1.0f + 0.5f / (1 << GRADIENT_BITS)));
    if (near != 0) {
        float dx[WIDE], dy[WIDE];
        _mm256_storeu_ps(dx, p->dx);
        _mm256_storeu_ps(dy, p->dy);
        list(f->turn, e, near, dx, dy, places);
    }
    __asm__(""
            :
            : "r"(p->line)
            : "memory"); /* to be loaded again: faster than taken out of a register */
}

/* Cubics of the eight entries, of four coefficients each, times coef where entries are far. */
AVX2 INLINE __m256 cubic(const separation *p, const float *radial, __m256 coef) {
    __m256 z[4];
    for (int k = 0; k < 4; k++)
        z[k] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(radial + p->line[k])),
                                    _mm_loadu_ps(radial + p->line[k + 4]), 1);
    const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(z[0], z[1])),
                  b = _mm256_castps_pd(_mm256_unpackhi_ps(z[0], z[1])),
                  c = _mm256_castps_pd(_mm256_unpacklo_ps(z[2], z[3])),
                  d = _mm256_castps_pd(_mm256_unpackhi_ps(z[2], z[3]));
    const __m256 c0 = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c)),
                 c1 = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c)),
                 c2 = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d)),
                 c3 = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
    const __m256 value =
        _mm256_fmadd_ps(_mm256_fmadd_ps(_mm256_fmadd_ps(c3, p->m, c2), p->m, c1), p->m, c0);
    return _mm256_and_ps(_mm256_mul_ps(value, coef), p->far);
}

AVX2 INLINE void add(float *to, __m256 x) {
    _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), x));
}

/* Eight entries, the first of which is number e, at x, y and out. */
AVX2 INLINE void eight_both(const frame *f, size_t e, size_t here, const float *x, const float *y,
                            float *out0, float *out1, float *out2, float *out3,
                            near_single *places) {
    float *const out[4] = {out0, out1, out2, out3};
    separation p;
    separate(f, e, here, x, y, places, &p);
    const __m256 P = cubic(&p, f->radial, f->coef), Q = cubic(&p, f->radial + 4, f->coef);
    const __m256 u = _mm256_fmadd_ps(f->c, p.dx, _mm256_mul_ps(f->s, p.dy));
    const __m256 v = _mm256_fmsub_ps(f->c, p.dy, _mm256_mul_ps(f->s, p.dx));
    for (int b = 0; b < 2; b++) {
        const __m256 q =
            _mm256_mul_ps(_mm256_fmadd_ps(f->v[b][0], p.dx, _mm256_mul_ps(f->v[b][1], p.dy)), Q);
        add(out[2 * b], _mm256_fmadd_ps(u, q, _mm256_mul_ps(f->along[b], P)));
        add(out[2 * b + 1], _mm256_fmadd_ps(v, q, _mm256_mul_ps(f->across[b], P)));
    }
}

AVX2 INLINE void eight_phase(const frame *f, size_t e, size_t here, const float *x, const float *y,
                             float *out0, float *out1, near_single *places) {
    separation p;
    separate(f, e, here, x, y, places, &p);
    const __m256 P = cubic(&p, f->radial, f->coef);
    add(out0, _mm256_mul_ps(_mm256_fmadd_ps(f->c, p.dx, _mm256_mul_ps(f->s, p.dy)), P));
    add(out1, _mm256_mul_ps(_mm256_fmsub_ps(f->c, p.dy, _mm256_mul_ps(f->s, p.dx)), P));
}

/* The last entries of a line, and `lines` results of them, in arrays of eight. */
typedef struct {
    size_t n;
    float x[WIDE], y[WIDE], out[4][WIDE];
} rest;

INLINE void take_rest(rest *r, size_t e, size_t n, const float *x, const float *y, int lines,
                      float *const out[]) {
    r->n = n - e;
    for (size_t i = 0; i < WIDE; i++) {
        r->x[i] = x[i < r->n ? e + i : e];
        r->y[i] = y[i < r->n ? e + i : e];
    }
    for (int k = 0; k < lines; k++)
        for (size_t i = 0; i < WIDE; i++)
            r->out[k][i] = i < r->n ? out[k][e + i] : 0;
}

INLINE void put_rest(const rest *r, size_t e, int lines, float *const out[]) {
    for (int k = 0; k < lines; k++)
        for (size_t i = 0; i < r->n; i++)
            out[k][e + i] = r->out[k][i];
}

AVX2 static void add_both(const gradient_single *table, const gradient_axes axes[2], size_t n,
                          const float *x, const float *y, float x0, float y0, float coef,
                          float *const out[4], near_single *places) {
    float *const o0 = out[0], *const o1 = out[1], *const o2 = out[2], *const o3 = out[3];
    frame f = frame_of(table, axes[0].rows, axes[0].turn, x0, y0, coef);
    size_t e = 0;
    rest r;
    for (int b = 0; b < 2; b++) {
        const double *v = axes[b].v, c = axes[0].rows[0], s = axes[0].rows[1];
        f.v[b][0] = _mm256_set1_ps((float)v[0]);
        f.v[b][1] = _mm256_set1_ps((float)v[1]);
        f.along[b] = _mm256_set1_ps((float)(c * v[0] + s * v[1]));
        f.across[b] = _mm256_set1_ps((float)(c * v[1] - s * v[0]));
    }
    places->n = 0;
    for (; e + WIDE <= n; e += WIDE)
        eight_both(&f, e, WIDE, x + e, y + e, o0 + e, o1 + e, o2 + e, o3 + e, places);
    if (e == n)
        return;
    take_rest(&r, e, n, x, y, 4, out);
    eight_both(&f, e, r.n, r.x, r.y, r.out[0], r.out[1], r.out[2], r.out[3], places);
    put_rest(&r, e, 4, out);
}

AVX2 static void add_phase(const gradient_single *table, const double turn[2], size_t n,
                           const float *x, const float *y, float x0, float y0, float coef,
                           float *const out[2], near_single *places) {
    float *const o0 = out[0], *const o1 = out[1];
    const frame f = frame_of(table, turn, turn, x0, y0, coef);
    size_t e = 0;
    rest r;
    places->n = 0;
    for (; e + WIDE <= n; e += WIDE)
        eight_phase(&f, e, WIDE, x + e, y + e, o0 + e, o1 + e, places);
    if (e == n)
        return;
    take_rest(&r, e, n, x, y, 2, out);
    eight_phase(&f, e, r.n, r.x, r.y, r.out[0], r.out[1], places);
    put_rest(&r, e, 2, out);
}

bool gradient_kernels_avx2(gradient_kernels *k) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return false;
    k->both = add_both;
    k->phase = add_phase;
    return true;
}

#else

bool gradient_kernels_avx2(gradient_kernels *k) {
    (void)k;
    return false;
}

#endif
