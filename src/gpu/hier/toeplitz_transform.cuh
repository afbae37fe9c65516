/* Fourier transforms of lines for block-Toeplitz products, in shared memory by steps of radices up
 * to 16, which a thread makes in registers. With N = R S in two steps, number j + q N / R of a line
 * goes with j into a transform of R numbers, whose number q, times w^(j q), goes with q into one of
 * S numbers. */
#ifndef MOAO_GPU_TOEPLITZ_TRANSFORM_CUH
#define MOAO_GPU_TOEPLITZ_TRANSFORM_CUH

#include "toeplitz.cuh"

#include <utility>

template <class R> struct pair_of;
template <> struct pair_of<double> { typedef double2 type; };
template <> struct pair_of<float> { typedef float2 type; };
template <class R> using cplx = typename pair_of<R>::type;

template <class C> __device__ inline C add(C a, C b) {
    return {a.x + b.x, a.y + b.y};
}
template <class C> __device__ inline C sub(C a, C b) {
    return {a.x - b.x, a.y - b.y};
}
template <class C> __device__ inline C times(C a, C w) {
    return {a.x * w.x - a.y * w.y, a.x * w.y + a.y * w.x};
}
/* -i a. */
template <class C> __device__ inline C turn(C a) {
    return {a.y, -a.x};
}
template <class C> __device__ inline C swapped(C a) {
    return {a.y, a.x};
}

/* --- transforms in registers */

/* Sine of k / n of a turn, for constants. */
constexpr double sine_of(int k, int n) {
    const double pi = 3.14159265358979323846;
    k %= n;
    if (2 * k > n)
        k -= n;
    double a = 2 * pi * k / n;
    if (4 * k > n)
        a = 2 * pi * (n - 2 * k) / (2.0 * n);
    if (4 * k < -n)
        a = -2 * pi * (n + 2 * k) / (2.0 * n);
    double term = a, sum = a;
    for (int i = 1; i < 14; i++) {
        term *= -a * a / ((2 * i) * (2 * i + 1));
        sum += term;
    }
    return sum;
}

template <int K, int N> struct root { /* e^(-2 pi i K / N) */
    static constexpr double re = sine_of(4 * K + N, 4 * N), im = -sine_of(K, N);
};

template <class T, int K, int N> __device__ inline cplx<T> times_root(cplx<T> a) {
    if constexpr (K == 0) {
        return a;
    } else if constexpr (4 * K == N) {
        return turn(a);
    } else {
        constexpr T re = (T)root<K, N>::re, im = (T)root<K, N>::im;
        return times(a, cplx<T>{re, im});
    }
}

template <class T, int A, int B> __device__ inline void small_product(cplx<T> *x);

/* In place, the transform of R numbers. */
template <class T, int R> __device__ inline void small_transform(cplx<T> *x) {
    typedef cplx<T> C;
    if constexpr (R == 2) {
        const C a = x[0], b = x[1];
        x[0] = add(a, b), x[1] = sub(a, b);
    } else if constexpr (R == 4) {
        const C a = add(x[0], x[2]), b = sub(x[0], x[2]);
        const C c = add(x[1], x[3]), d = turn(sub(x[1], x[3]));
        x[0] = add(a, c), x[1] = add(b, d), x[2] = sub(a, c), x[3] = sub(b, d);
    } else if constexpr (R == 3) {
        const T s = (T)0.86602540378443864676, h = (T)0.5;
        const C a = add(x[1], x[2]), d = turn(sub(x[1], x[2]));
        const C m = {x[0].x - h * a.x, x[0].y - h * a.y}, t = {s * d.x, s * d.y};
        x[0] = add(x[0], a), x[1] = add(m, t), x[2] = sub(m, t);
    } else if constexpr (R == 5) {
        const T c1 = (T)0.30901699437494742410, c2 = (T)-0.80901699437494742410;
        const T s1 = (T)0.95105651629515357212, s2 = (T)0.58778525229247312917;
        const C a = add(x[1], x[4]), b = turn(sub(x[1], x[4]));
        const C c = add(x[2], x[3]), d = turn(sub(x[2], x[3]));
        const C m = {x[0].x + c1 * a.x + c2 * c.x, x[0].y + c1 * a.y + c2 * c.y};
        const C n = {x[0].x + c2 * a.x + c1 * c.x, x[0].y + c2 * a.y + c1 * c.y};
        const C t = {s1 * b.x + s2 * d.x, s1 * b.y + s2 * d.y};
        const C u = {s2 * b.x - s1 * d.x, s2 * b.y - s1 * d.y};
        x[0] = add(x[0], add(a, c));
        x[1] = add(m, t), x[4] = sub(m, t), x[2] = add(n, u), x[3] = sub(n, u);
    } else if constexpr (R % 4 == 0) {
        small_product<T, 4, R / 4>(x);
    } else if constexpr (R % 5 == 0) {
        small_product<T, 5, R / 5>(x);
    } else if constexpr (R > 1) {
        small_product<T, 3, R / 3>(x);
    }
}

template <class T, int A, int B, int... I>
__device__ inline void small_twiddles(cplx<T> *y, std::integer_sequence<int, I...>) {
    ((y[I] = times_root<T, I / A *(I % A), A * B>(y[I])), ...);
}

/* Of A B numbers: number B a + b of x, then c + A d of its transform. */
template <class T, int A, int B> __device__ inline void small_product(cplx<T> *x) {
    cplx<T> y[A * B];
#pragma unroll
    for (int b = 0; b < B; b++) {
#pragma unroll
        for (int a = 0; a < A; a++)
            y[b * A + a] = x[B * a + b];
        small_transform<T, A>(y + b * A);
    }
    small_twiddles<T, A, B>(y, std::make_integer_sequence<int, A * B>());
#pragma unroll
    for (int c = 0; c < A; c++) {
        cplx<T> t[B];
#pragma unroll
        for (int b = 0; b < B; b++)
            t[b] = y[b * A + c];
        small_transform<T, B>(t);
#pragma unroll
        for (int b = 0; b < B; b++)
            x[c + A * b] = t[b];
    }
}

/* CALL(R) for the radix r of a step, of those that a line of two steps has, or of others. */
#define TOEPLITZ_CASE(R, CALL)                                                                     \
    case R:                                                                                        \
        CALL(R);                                                                                   \
        break;
#define TOEPLITZ_FEW(CALL)                                                                         \
    TOEPLITZ_CASE(5, CALL)                                                                         \
    TOEPLITZ_CASE(4, CALL)                                                                         \
    TOEPLITZ_CASE(3, CALL)                                                                         \
    TOEPLITZ_CASE(2, CALL)                                                                         \
    default:                                                                                       \
        CALL(1);
#define TOEPLITZ_SMALL(r, CALL)                                                                    \
    switch (r) { TOEPLITZ_FEW(CALL) }
#define TOEPLITZ_RADIX(r, CALL)                                                                    \
    switch (r) {                                                                                   \
        TOEPLITZ_CASE(16, CALL)                                                                    \
        TOEPLITZ_CASE(15, CALL)                                                                    \
        TOEPLITZ_CASE(12, CALL)                                                                    \
        TOEPLITZ_CASE(10, CALL)                                                                    \
        TOEPLITZ_CASE(9, CALL)                                                                     \
        TOEPLITZ_CASE(8, CALL)                                                                     \
        TOEPLITZ_FEW(CALL)                                                                         \
    }

/* --- lines of a block of threads, `lanes` side by side */

/* From load(k, lane), 0 <= k < N, to numbers pitch j + q, which the last step takes. */
template <class T, int R, class Load>
__device__ inline void first_step(const toeplitz_device &d, int pitch, Load load, cplx<T> *to) {
    const cplx<T> *w = (const cplx<T> *)d.twiddle;
    const int m = d.steps.order / R, lane = threadIdx.x % d.lanes;
    for (int j = threadIdx.x / d.lanes; j < m; j += blockDim.x / d.lanes) {
        cplx<T> x[R];
#pragma unroll
        for (int q = 0; q < R; q++)
            x[q] = load(j + q * m, lane);
        small_transform<T, R>(x);
        to[pitch * j * d.lanes + lane] = x[0];
#pragma unroll
        for (int q = 1; q < R; q++)
            to[(pitch * j + q) * d.lanes + lane] = times(x[q], w[j * q]);
    }
}

/* A step between the first and the last one; `done`: the product of the radices before. */
template <class T, int R>
__device__ inline void middle_step(const toeplitz_device &d, int done, const cplx<T> *from,
                                   cplx<T> *to) {
    const cplx<T> *w = (const cplx<T> *)d.twiddle;
    const int m = d.steps.order / (R * done), lane = threadIdx.x % d.lanes;
    for (int b = threadIdx.x / d.lanes; b < m * done; b += blockDim.x / d.lanes) {
        const int j = b / done, k = b - j * done;
        cplx<T> x[R];
#pragma unroll
        for (int q = 0; q < R; q++)
            x[q] = from[(k + done * (j + q * m)) * d.lanes + lane];
        small_transform<T, R>(x);
        cplx<T> *out = to + (k + done * R * j) * d.lanes + lane;
        out[0] = x[0];
#pragma unroll
        for (int q = 1; q < R; q++)
            out[done * q * d.lanes] = times(x[q], w[j * q * done]);
    }
}

/* Numbers k + pitch q, k < done, to store(k, lane, z), k < N. */
template <class T, int R, class Store>
__device__ inline void last_step(const toeplitz_device &d, int pitch, const cplx<T> *from,
                                 Store store) {
    const int done = d.steps.order / R, lane = threadIdx.x % d.lanes;
    for (int k = threadIdx.x / d.lanes; k < done; k += blockDim.x / d.lanes) {
        cplx<T> x[R];
#pragma unroll
        for (int q = 0; q < R; q++)
            x[q] = from[(k + pitch * q) * d.lanes + lane];
        small_transform<T, R>(x);
#pragma unroll
        for (int q = 0; q < R; q++)
            store(k + done * q, lane, x[q]);
    }
}

/* Transforms of `lanes` lines by the steps of the plan, or, `few`, by its small ones: load(k, lane)
 * gives their numbers, store(k, lane, z) gets the results, after all have been loaded. s: shared
 * memory of toeplitz_line_numbers x lanes. */
template <class T, bool few, class Load, class Store>
__device__ inline void transform(const toeplitz_device &d, cplx<T> *s, Load load, Store store) {
    const toeplitz_steps &steps = few ? d.small : d.steps;
    const int n = steps.n, first = steps.radix[0], last = steps.radix[n - 1];
    int done = first;
#define FIRST(R) first_step<T, R>(d, R, load, s)
    if constexpr (few)
        TOEPLITZ_SMALL(first, FIRST)
    else
        TOEPLITZ_RADIX(first, FIRST)
#undef FIRST
    __syncthreads();
    cplx<T> *to = s + steps.order * d.lanes;
    for (int i = 1; i < n - 1; i++) {
        const int r = steps.radix[i];
#define MIDDLE(R) middle_step<T, R>(d, done, s, to)
        TOEPLITZ_SMALL(r, MIDDLE)
#undef MIDDLE
        __syncthreads();
        done *= r;
        cplx<T> *t = s;
        s = to, to = t;
    }
#define LAST(R) last_step<T, R>(d, done, s, store)
    if constexpr (few)
        TOEPLITZ_SMALL(last, LAST)
    else
        TOEPLITZ_RADIX(last, LAST)
#undef LAST
}

static inline int toeplitz_line_numbers(const toeplitz_steps &s) {
    return s.n > 2 ? 2 * s.order : s.order;
}

#endif
