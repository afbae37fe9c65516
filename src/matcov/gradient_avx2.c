/* Covariances of mean gradients for AVX2: eight entries at once in single precision, four in
 * double, where nothing is fused and the order is that of gradient_add.c: these have the same bits
 * on every processor that has no AVX-512. Near ones (gradient_near_avx2.c) are fused. */
#include "gradient_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <string.h>

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

/* --- double precision */

#define DOUBLE __attribute__((target("avx2")))
#define SHIFT (52 - GRADIENT_BITS)
#define FOUR 4

typedef struct {
    __m256d dx, dy, m, far; /* far: a mask */
    int64_t line[FOUR];     /* of the intervals' coefficients, counted in numbers */
    unsigned near;
} separation_double;

/* a b + c d */
DOUBLE INLINE __m256d sum(__m256d a, __m256d b, __m256d c, __m256d d) {
    return _mm256_add_pd(_mm256_mul_pd(a, b), _mm256_mul_pd(c, d));
}

/* a b - c d */
DOUBLE INLINE __m256d difference(__m256d a, __m256d b, __m256d c, __m256d d) {
    return _mm256_sub_pd(_mm256_mul_pd(a, b), _mm256_mul_pd(c, d));
}

/* Lists the near ones of four entries, of which number e is the first, and up to four that are not
 * counted after them. */
DOUBLE INLINE void list_double(const separation_double *p, const double turn[2], size_t e,
                               near_places *places) {
    static const int8_t order[16][4] = {
        {0}, {0},    {1},    {0, 1},    {2},    {0, 2},    {1, 2},    {0, 1, 2},
        {3}, {0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};
    int32_t bytes;
    memcpy(&bytes, order[p->near], sizeof bytes);
    const __m128i which = _mm_cvtepi8_epi32(_mm_cvtsi32_si128(bytes));
    const __m256i low = _mm256_slli_epi64(_mm256_cvtepi32_epi64(which), 1);
    const __m256i halves = _mm256_or_si256(
        low, _mm256_or_si256(_mm256_slli_epi64(low, 32), _mm256_set1_epi64x(INT64_C(1) << 32)));
    const __m256d c = _mm256_set1_pd(turn[0]), s = _mm256_set1_pd(turn[1]);
    const __m256d x = sum(c, p->dx, s, p->dy), y = difference(c, p->dy, s, p->dx);
    const int n = places->n;
    _mm_storeu_si128((__m128i *)(void *)(places->entry + n),
                     _mm_add_epi32(_mm_set1_epi32((int)e), which));
    _mm256_storeu_pd(places->x + n,
                     _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(x), halves)));
    _mm256_storeu_pd(places->y + n,
                     _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(y), halves)));
    places->n = n + __builtin_popcount(p->near);
}

/* Separations of four entries, of which the first `here` are there; e is the number of the first.
 * Near ones are listed. */
DOUBLE INLINE void separate_double(const matcov_gradient *t, const double turn[2], size_t e,
                                   size_t here, const double *x, const double *y, double x0,
                                   double y0, near_places *places, separation_double *p) {
    p->dx = _mm256_sub_pd(_mm256_loadu_pd(x), _mm256_set1_pd(x0));
    p->dy = _mm256_sub_pd(_mm256_loadu_pd(y), _mm256_set1_pd(y0));
    const __m256d s = sum(p->dx, p->dx, p->dy, p->dy), least = _mm256_set1_pd(t->near2);
    p->far = _mm256_cmp_pd(s, least, _CMP_NLT_UQ);
    p->near = ~(unsigned)_mm256_movemask_pd(p->far) & ((1u << here) - 1);
    const __m256i bits = _mm256_castpd_si256(_mm256_max_pd(s, least));
    const __m256i i =
        _mm256_sub_epi64(_mm256_srli_epi64(bits, SHIFT), _mm256_set1_epi64x(t->lowest));
    const __m256i last = _mm256_set1_epi64x(GRADIENT_INTERVALS - 1);
    _mm256_storeu_si256(
        (__m256i *)(void *)p->line,
        _mm256_slli_epi64(_mm256_blendv_epi8(i, last, _mm256_cmpgt_epi64(i, last)), 3));
    const __m256i mantissa =
        _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi64x((INT64_C(1) << SHIFT) - 1)),
                        _mm256_set1_epi64x(INT64_C(0x3ff0000000000000)));
    p->m = _mm256_sub_pd(_mm256_castsi256_pd(mantissa),
                         _mm256_set1_pd(1.0 + 0.5 / (1 << GRADIENT_BITS)));
    if (p->near != 0)
        list_double(p, turn, e, places);
    __asm__("" : : "r"(p->line) : "memory"); /* as in separate */
}

/* Cubics of the four entries, of four coefficients each. */
DOUBLE INLINE __m256d cubic_double(const separation_double *p, const double *radial) {
    __m256d z[4];
    for (int k = 0; k < 4; k++)
        z[k] = _mm256_loadu_pd(radial + p->line[k]);
    const __m256d a = _mm256_unpacklo_pd(z[0], z[1]), b = _mm256_unpackhi_pd(z[0], z[1]),
                  c = _mm256_unpacklo_pd(z[2], z[3]), d = _mm256_unpackhi_pd(z[2], z[3]);
    const __m256d c0 = _mm256_permute2f128_pd(a, c, 0x20), c1 = _mm256_permute2f128_pd(b, d, 0x20),
                  c2 = _mm256_permute2f128_pd(a, c, 0x31), c3 = _mm256_permute2f128_pd(b, d, 0x31);
    __m256d value = _mm256_add_pd(c2, _mm256_mul_pd(p->m, c3));
    value = _mm256_add_pd(c1, _mm256_mul_pd(p->m, value));
    return _mm256_add_pd(c0, _mm256_mul_pd(p->m, value));
}

/* Adds x where entries are far. */
DOUBLE INLINE void add_double(double *to, const separation_double *p, __m256d x) {
    const __m256d old = _mm256_loadu_pd(to);
    _mm256_storeu_pd(to, _mm256_blendv_pd(old, _mm256_add_pd(old, x), p->far));
}

/* Four entries with both axes of the rows and `count` axes of the columns. */
DOUBLE INLINE void four_axes(const matcov_gradient *t, const double *radial,
                             const gradient_axes *axes, int count, size_t e, size_t here,
                             const double *x, const double *y, double x0, double y0, double coef,
                             double *const *out, near_places *places) {
    const double c = axes[0].rows[0], s = axes[0].rows[1];
    const __m256d vc = _mm256_set1_pd(c), vs = _mm256_set1_pd(s), w = _mm256_set1_pd(coef);
    separation_double p;
    separate_double(t, axes[0].turn, e, here, x, y, x0, y0, places, &p);
    if (p.near == 15)
        return;
    const __m256d P = _mm256_mul_pd(w, cubic_double(&p, radial)), Q = cubic_double(&p, radial + 4);
    const __m256d u = sum(vc, p.dx, vs, p.dy), v = difference(vc, p.dy, vs, p.dx);
    for (int b = 0; b < count; b++) {
        const double vx = axes[b].v[0], vy = axes[b].v[1];
        const __m256d along = _mm256_set1_pd(c * vx + s * vy),
                      across = _mm256_set1_pd(c * vy - s * vx);
        const __m256d q = _mm256_mul_pd(
            _mm256_mul_pd(w, sum(_mm256_set1_pd(vx), p.dx, _mm256_set1_pd(vy), p.dy)), Q);
        add_double(out[2 * b], &p, sum(along, P, u, q));
        add_double(out[2 * b + 1], &p, sum(across, P, v, q));
    }
}

DOUBLE INLINE void four_phase(const matcov_gradient *t, const double *radial, const double turn[2],
                              size_t e, size_t here, const double *x, const double *y, double x0,
                              double y0, double coef, double *const *out, near_places *places) {
    const __m256d vc = _mm256_set1_pd(turn[0]), vs = _mm256_set1_pd(turn[1]);
    separation_double p;
    separate_double(t, turn, e, here, x, y, x0, y0, places, &p);
    if (p.near == 15)
        return;
    const __m256d P = _mm256_mul_pd(_mm256_set1_pd(coef), cubic_double(&p, radial));
    add_double(out[0], &p, _mm256_mul_pd(sum(vc, p.dx, vs, p.dy), P));
    add_double(out[1], &p, _mm256_mul_pd(difference(vc, p.dy, vs, p.dx), P));
}

/* The last entries of a line, fewer than four, and `lines` results of them. */
typedef struct {
    double x[FOUR], y[FOUR], to[4][FOUR], *out[4];
} rest_double;

INLINE void take_rest_double(rest_double *r, size_t e, size_t n, const double *x, const double *y,
                             int lines, double *const *out) {
    for (size_t i = 0; i < FOUR; i++) {
        r->x[i] = x[e + i < n ? e + i : e];
        r->y[i] = y[e + i < n ? e + i : e];
    }
    for (int k = 0; k < 4; k++) {
        r->out[k] = r->to[k];
        for (size_t i = 0; i < FOUR; i++)
            r->to[k][i] = k < lines && e + i < n ? out[k][e + i] : 0;
    }
}

INLINE void put_rest_double(const rest_double *r, size_t e, size_t n, int lines,
                            double *const *out) {
    for (int k = 0; k < lines; k++)
        for (size_t i = 0; i < FOUR && e + i < n; i++)
            out[k][e + i] = r->to[k][i];
}

DOUBLE INLINE void add_axes(const matcov_gradient *t, const double *radial,
                            const gradient_axes *axes, int count, size_t n, const double *x,
                            const double *y, double x0, double y0, double coef, double *const *out,
                            near_places *places) {
    size_t e = 0;
    places->n = 0;
    for (; e + FOUR <= n; e += FOUR) {
        double *const to[4] = {out[0] + e, out[1] + e, count > 1 ? out[2] + e : NULL,
                               count > 1 ? out[3] + e : NULL};
        four_axes(t, radial, axes, count, e, FOUR, x + e, y + e, x0, y0, coef, to, places);
    }
    if (e == n)
        return;
    rest_double r = {0};
    take_rest_double(&r, e, n, x, y, 2 * count, out);
    four_axes(t, radial, axes, count, e, n - e, r.x, r.y, x0, y0, coef, r.out, places);
    put_rest_double(&r, e, n, 2 * count, out);
}

DOUBLE static void add_far(const matcov_gradient *t, const double *radial,
                           const gradient_axes *axes, size_t n, const double *x, const double *y,
                           double x0, double y0, double coef, double *f, double *g,
                           near_places *places) {
    add_axes(t, radial, axes, 1, n, x, y, x0, y0, coef, (double *const[]){f, g}, places);
}

DOUBLE static void add_far_axes(const matcov_gradient *t, const double *radial,
                                const gradient_axes axes[2], size_t n, const double *x,
                                const double *y, double x0, double y0, double coef,
                                double *const out[4], near_places *places) {
    add_axes(t, radial, axes, 2, n, x, y, x0, y0, coef, out, places);
}

DOUBLE static void add_far_phase(const matcov_gradient *t, const double *radial,
                                 const double turn[2], size_t n, const double *x, const double *y,
                                 double x0, double y0, double coef, double *f, double *g,
                                 near_places *places) {
    size_t e = 0;
    places->n = 0;
    for (; e + FOUR <= n; e += FOUR)
        four_phase(t, radial, turn, e, FOUR, x + e, y + e, x0, y0, coef,
                   (double *const[]){f + e, g + e}, places);
    if (e == n)
        return;
    rest_double r = {0};
    take_rest_double(&r, e, n, x, y, 2, (double *const[]){f, g});
    four_phase(t, radial, turn, e, n - e, r.x, r.y, x0, y0, coef, r.out, places);
    put_rest_double(&r, e, n, 2, (double *const[]){f, g});
}

/* Weights of gradient_spline at f. */
DOUBLE INLINE void weights_double(__m256d f, double w[4][GRADIENT_AT_ONCE], int e) {
    const __m256d one = _mm256_set1_pd(1.0), sixth = _mm256_set1_pd(1.0 / 6.0),
                  half = _mm256_set1_pd(0.5), most = _mm256_set1_pd(2.0 / 3.0);
    const __m256d g = _mm256_sub_pd(one, f);
    const __m256d ff = _mm256_mul_pd(_mm256_mul_pd(half, f), f),
                  gg = _mm256_mul_pd(_mm256_mul_pd(half, g), g);
    _mm256_storeu_pd(w[0] + e, _mm256_mul_pd(_mm256_mul_pd(_mm256_mul_pd(sixth, g), g), g));
    _mm256_storeu_pd(w[3] + e, _mm256_mul_pd(_mm256_mul_pd(_mm256_mul_pd(sixth, f), f), f));
    _mm256_storeu_pd(w[1] + e, _mm256_sub_pd(most, _mm256_mul_pd(ff, _mm256_add_pd(one, g))));
    _mm256_storeu_pd(w[2] + e, _mm256_sub_pd(most, _mm256_mul_pd(gg, _mm256_add_pd(one, f))));
}

/* What is beyond n is anything, and comes to nothing. */
DOUBLE static void find_places(const matcov_gradient *t, near_places *p) {
    const __m256d sign = _mm256_set1_pd(-0.0), inner = _mm256_set1_pd(t->inner);
    const __m128i one = _mm_set1_epi32(1), kinds = _mm_set1_epi32(t->kinds);
    for (int e = 0; e < p->n; e += FOUR) {
        const __m256d x = _mm256_loadu_pd(p->x + e), y = _mm256_loadu_pd(p->y + e);
        const __m256d most = _mm256_max_pd(_mm256_andnot_pd(sign, x), _mm256_andnot_pd(sign, y));
        const __m256d in = _mm256_cmp_pd(most, inner, _CMP_LT_OQ); /* of the fine grid */
        const __m128i in32 = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
            _mm256_castpd_si256(in), _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
        const __m256d half =
            _mm256_blendv_pd(_mm256_set1_pd(t->half[1]), _mm256_set1_pd(t->half[0]), in);
        const __m256d inverse =
            _mm256_blendv_pd(_mm256_set1_pd(t->inverse[1]), _mm256_set1_pd(t->inverse[0]), in);
        const __m256d ax = _mm256_mul_pd(_mm256_add_pd(x, half), inverse),
                      ay = _mm256_mul_pd(_mm256_add_pd(y, half), inverse);
        const __m128i i = _mm256_cvttpd_epi32(ax), j = _mm256_cvttpd_epi32(ay);
        const __m128i side =
            _mm_blendv_epi8(_mm_set1_epi32(t->side[1]), _mm_set1_epi32(t->side[0]), in32);
        const __m128i start = _mm_andnot_si128(in32, _mm_set1_epi32(gradient_cells(t, 0)));
        const __m128i place = _mm_add_epi32(_mm_mullo_epi32(_mm_sub_epi32(j, one), side),
                                            _mm_add_epi32(start, _mm_sub_epi32(i, one)));
        _mm256_storeu_si256((__m256i *)(void *)(p->from + e),
                            _mm256_cvtepi32_epi64(_mm_mullo_epi32(place, kinds)));
        _mm256_storeu_si256((__m256i *)(void *)(p->step + e),
                            _mm256_cvtepi32_epi64(_mm_mullo_epi32(side, kinds)));
        weights_double(_mm256_sub_pd(ax, _mm256_cvtepi32_pd(i)), p->wx, e);
        weights_double(_mm256_sub_pd(ay, _mm256_cvtepi32_pd(j)), p->wy, e);
    }
}

bool gradient_kernels_avx2(gradient_kernels *k) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return false;
    *k = (gradient_kernels){.far = add_far,
                            .far_axes = add_far_axes,
                            .far_phase = add_far_phase,
                            .both = add_both,
                            .phase = add_phase,
                            .places = find_places};
    gradient_near_avx2(k);
    return true;
}

#else

bool gradient_kernels_avx2(gradient_kernels *k) {
    (void)k;
    return false;
}

#endif
