/* Products with block-Toeplitz matrices for one real type and size of registers; included once for
 * each by toeplitz_cpu.c, which defines REAL, NAME(x) and BYTES. A vec holds one number of each of
 * LANES transforms, so that every step below is one of whole registers. Of a block of 2 APART
 * vectors the first half is real parts, the other one imaginary, whatever the size of registers:
 * small ones take it in pieces, and results are the same. */

#define LANES ((int)(BYTES / sizeof(REAL)))
#define APART ((int)(TOEPLITZ_BLOCK / sizeof(REAL)))

typedef REAL NAME(vec) __attribute__((vector_size(BYTES)));
typedef struct {
    NAME(vec) re, im;
} NAME(cvec);

#define VEC NAME(vec)
#define CVEC NAME(cvec)

/* Macros, because registers of 64 bytes are no arguments on every processor. TIMES: by a number;
 * TURN: by -i. */
#define ADD(a, b) ((CVEC){(a).re + (b).re, (a).im + (b).im})
#define SUB(a, b) ((CVEC){(a).re - (b).re, (a).im - (b).im})
#define TIMES(a, x, y) ((CVEC){(a).re * (x) - (a).im * (y), (a).re * (y) + (a).im * (x)})
#define TURN(a) ((CVEC){(a).im, -(a).re})

/* In place, the transform of 2, 3, 4 or 5 numbers. */
static inline ALWAYS void NAME(small)(int r, CVEC *x) {
    if (r == 2) {
        const CVEC a = x[0], b = x[1];
        x[0] = ADD(a, b);
        x[1] = SUB(a, b);
    } else if (r == 4) {
        const CVEC a = ADD(x[0], x[2]), b = SUB(x[0], x[2]);
        const CVEC c = ADD(x[1], x[3]), d = TURN(SUB(x[1], x[3]));
        x[0] = ADD(a, c);
        x[1] = ADD(b, d);
        x[2] = SUB(a, c);
        x[3] = SUB(b, d);
    } else if (r == 3) {
        const REAL s = (REAL)0.86602540378443864676, h = (REAL)0.5;
        const CVEC a = ADD(x[1], x[2]), d = TURN(SUB(x[1], x[2]));
        const CVEC m = {x[0].re - h * a.re, x[0].im - h * a.im}, t = {s * d.re, s * d.im};
        x[0] = ADD(x[0], a);
        x[1] = ADD(m, t);
        x[2] = SUB(m, t);
    } else {
        const REAL c1 = (REAL)0.30901699437494742410, c2 = (REAL)-0.80901699437494742410;
        const REAL s1 = (REAL)0.95105651629515357212, s2 = (REAL)0.58778525229247312917;
        const CVEC a = ADD(x[1], x[4]), b = TURN(SUB(x[1], x[4]));
        const CVEC c = ADD(x[2], x[3]), d = TURN(SUB(x[2], x[3]));
        const CVEC m = {x[0].re + c1 * a.re + c2 * c.re, x[0].im + c1 * a.im + c2 * c.im};
        const CVEC n = {x[0].re + c2 * a.re + c1 * c.re, x[0].im + c2 * a.im + c1 * c.im};
        const CVEC t = {s1 * b.re + s2 * d.re, s1 * b.im + s2 * d.im};
        const CVEC u = {s2 * b.re - s1 * d.re, s2 * b.im - s1 * d.im};
        x[0] = ADD(x[0], ADD(a, c));
        x[1] = ADD(m, t);
        x[4] = SUB(m, t);
        x[2] = ADD(n, u);
        x[3] = SUB(n, u);
    }
}

/* One step of radix r of a transform of N numbers, of which `done` is the product of the radices of
 * the steps before: to[k + done (q + r j)] from from[k + done (j + q N / (r done))]. w: exp(-2 pi i
 * k / N). */
static inline ALWAYS void NAME(step)(int r, int N, int done, const REAL *w, const CVEC *from,
                                     CVEC *to) {
    const int m = N / (r * done); /* groups */
    for (int j = 0; j < m; j++)
        for (int k = 0; k < done; k++) {
            CVEC x[5];
            for (int q = 0; q < r; q++)
                x[q] = from[k + done * (j + q * m)];
            NAME(small)(r, x);
            to[k + done * r * j] = x[0];
            for (int q = 1; q < r; q++)
                to[k + done * (q + r * j)] =
                    j == 0 ? x[q] : TIMES(x[q], w[2 * (j * q * done)], w[2 * (j * q * done) + 1]);
        }
}

/* x := its transform, N numbers; y as large. The inverse one, times N, is that of numbers whose
 * real and imaginary parts are exchanged. Returns where the result is. */
static inline ALWAYS CVEC *NAME(transform)(const steps *s, const REAL *w, CVEC *x, CVEC *y) {
    for (int i = 0, done = 1; i < s->n; i++) {
        switch (s->radix[i]) {
        case 4:
            NAME(step)(4, s->order, done, w, x, y);
            break;
        case 2:
            NAME(step)(2, s->order, done, w, x, y);
            break;
        case 3:
            NAME(step)(3, s->order, done, w, x, y);
            break;
        default:
            NAME(step)(5, s->order, done, w, x, y);
        }
        done *= s->radix[i];
        CVEC *t = x;
        x = y;
        y = t;
    }
    return x;
}

/* --- symbols */

/* Entries of LANES pairs of images, as functions of the difference of places, wrapped. */
static void NAME(wrap)(const struct backend_toeplitz_plan *p, const toeplitz_pair *pairs, int from,
                       CVEC *to) {
    const int N = p->steps.order, count = p->nimage * p->nimage;
    memset(to, 0, sizeof *to * (size_t)(N * N));
    for (int l = 0; l < LANES && from + l < count; l++) {
        const toeplitz_pair *v = &pairs[from + l];
        for (int y = 1 - p->n; y < p->n && v->value != NULL; y++)
            for (int x = 1 - p->n; x < p->n; x++) {
                const int sign = v->reversed ? -1 : 1;
                const int at = sign * y / v->step + v->origin, on = sign * x / v->step + v->origin;
                if (y % v->step == 0 && x % v->step == 0 && at >= 0 && on >= 0 && at < v->width &&
                    on < v->width) /* b - a of row a and column b */
                    to[(N - y) % N * N + (N - x) % N].re[l] = (REAL)v->value[at * v->width + on];
            }
    }
}

/* Spectra of the LANES pairs of images from `from` on: symbols [y][x][r][c], complex, divided by
 * N^2. */
static inline ALWAYS void NAME(some_spectra)(const struct backend_toeplitz_plan *p,
                                             const toeplitz_pair *pairs, int from, void *work) {
    const int N = p->steps.order, count = p->nimage * p->nimage;
    const REAL scale = (REAL)1 / (REAL)(N * N);
    CVEC *image = work, *line = image + N * N, *other = line + N;
    NAME(wrap)(p, pairs, from, image);
    for (int pass = 0; pass < 2; pass++) {
        const int along = pass == 0 ? 1 : N, across = pass == 0 ? N : 1;
        for (int i = 0; i < N; i++) {
            for (int k = 0; k < N; k++)
                line[k] = image[i * across + k * along];
            const CVEC *done = NAME(transform)(&p->steps, p->twiddle, line, other);
            for (int k = 0; k < N; k++)
                image[i * across + k * along] = done[k];
        }
    }
    for (int k = 0; k < N * N; k++)
        for (int l = 0; l < LANES && from + l < count; l++) {
            REAL *to = (REAL *)p->symbol + 2 * ((size_t)k * (size_t)count + (size_t)(from + l));
            to[0] = scale * image[k].re[l];
            to[1] = scale * image[k].im[l];
        }
}

/* Those of APART pairs. */
static CLONES void NAME(spectra)(const struct backend_toeplitz_plan *p, const toeplitz_pair *pairs,
                                 int from, void *work) {
    for (int l = 0; l < APART && from + l < p->nimage * p->nimage; l += LANES)
        NAME(some_spectra)(p, pairs, from + l, work);
}

/* --- products */

/* Column `column` of the block of vectors whose real parts are from v on. */
static inline ALWAYS void NAME(fetch)(const product *q, int64_t v, int64_t column, CVEC *to) {
    const REAL *x = (const REAL *)q->x + v * q->xv + column * q->xc;
    const int64_t left = q->nvec - v;
    if (q->xv == 1 && left >= APART + LANES) {
        memcpy(&to->re, x, sizeof to->re);
        memcpy(&to->im, x + APART, sizeof to->im);
        return;
    }
    for (int l = 0; l < LANES; l++) {
        to->re[l] = l < left ? x[l * q->xv] : 0;
        to->im[l] = APART + l < left ? x[(APART + l) * q->xv] : 0;
    }
}

/* y[0..LANES) := what it is of z and what was there. */
static inline ALWAYS void NAME(put_part)(const product *q, const VEC *z, int64_t left, REAL *y) {
    const REAL beta = (REAL)q->beta;
    VEC sum = *z;
    if (q->yv == 1 && left >= LANES) {
        if (q->beta != 0) {
            VEC old;
            memcpy(&old, y, sizeof old);
            sum += beta * old;
        }
        memcpy(y, &sum, sizeof sum);
        return;
    }
    for (int l = 0; l < LANES && l < left; l++)
        y[l * q->yv] = q->beta != 0 ? (*z)[l] + beta * y[l * q->yv] : (*z)[l];
}

/* The same of y, from a transform whose real and imaginary parts are exchanged. */
static inline ALWAYS void NAME(put)(const product *q, int64_t v, int64_t column, const CVEC *from) {
    REAL *y = (REAL *)q->y + v * q->yv + column * q->yc;
    const REAL alpha = (REAL)q->alpha;
    const int64_t left = q->nvec - v;
    const CVEC z = {alpha * from->im, alpha * from->re};
    NAME(put_part)(q, &z.re, left, y);
    NAME(put_part)(q, &z.im, left - APART, y + APART * q->yv);
}

/* Columns of an image's lattice along y: strip[image][x][ky]. */
static inline ALWAYS void NAME(forward)(const struct backend_toeplitz_plan *p, const product *q,
                                        int64_t v, CVEC *strip, CVEC *line, CVEC *other) {
    const int N = p->steps.order, n = p->n;
    for (int i = 0; i < p->nimage; i++)
        for (int x = 0; x < n; x++) {
            CVEC *to = strip + ((size_t)i * (size_t)n + (size_t)x) * (size_t)N;
            memset(line, 0, sizeof *line * (size_t)N);
            for (int64_t k = p->start[i * (n + 1) + x]; k < p->start[i * (n + 1) + x + 1]; k++)
                NAME(fetch)(q, v, p->column[k], &line[p->y[k]]);
            const CVEC *done = NAME(transform)(&p->steps, p->twiddle, line, other);
            memcpy(to, done, sizeof *to * (size_t)N);
        }
}

/* Frequency by frequency, out[c] of all images from in[r]; two of the results at a time. turned:
 * A' in the place of A. */
static inline ALWAYS void NAME(couple)(const struct backend_toeplitz_plan *p, bool turned,
                                       const REAL *s, const CVEC *in, CVEC *out, int64_t stride) {
    const int g = p->nimage, down = turned ? 2 : 2 * g, across = turned ? 2 * g : 2;
    const REAL sign = turned ? -1 : 1;
    for (int c = 0; c < g; c += 2) {
        const int d = c + 1 < g ? across : 0;
        CVEC a = {0}, b = {0};
        for (int r = 0; r < g; r++) {
            const REAL *at = s + r * down + c * across;
            const VEC re = in[r * stride].re, im = in[r * stride].im;
            const REAL ai = sign * at[1], bi = sign * at[d + 1];
            a.re += re * at[0] - im * ai;
            a.im += re * ai + im * at[0];
            b.re += re * at[d] - im * bi;
            b.im += re * bi + im * at[d];
        }
        /* real and imaginary parts exchanged: what the inverse transform takes */
        out[c * stride] = (CVEC){a.im, a.re};
        if (d > 0)
            out[(c + 1) * stride] = (CVEC){b.im, b.re};
    }
}

/* Frequencies ky along x: rows of the strips to in[image][kx]. */
static inline ALWAYS void NAME(along)(const struct backend_toeplitz_plan *p, int ky,
                                      const CVEC *strip, CVEC *in, CVEC *line, CVEC *other) {
    const int N = p->steps.order, n = p->n;
    for (int i = 0; i < p->nimage; i++) {
        memset(line + n, 0, sizeof *line * (size_t)(N - n));
        for (int x = 0; x < n; x++)
            line[x] = strip[((size_t)i * (size_t)n + (size_t)x) * (size_t)N + (size_t)ky];
        const CVEC *done = NAME(transform)(&p->steps, p->twiddle, line, other);
        memcpy(in + (size_t)i * (size_t)N, done, sizeof *in * (size_t)N);
    }
}

/* Frequencies ky coupled, and back along x to rows of the strips. */
static inline ALWAYS void NAME(back)(const struct backend_toeplitz_plan *p, bool turned, int ky,
                                     const CVEC *in, CVEC *out, CVEC *strip, CVEC *other) {
    const int N = p->steps.order, n = p->n, g = p->nimage;
    const REAL *symbol = p->symbol;
    for (int kx = 0; kx < N; kx++)
        NAME(couple)
    (p, turned, symbol + 2 * (size_t)(ky * N + kx) * (size_t)(g * g), in + kx, out + kx, N);
    for (int i = 0; i < g; i++) {
        const CVEC *done =
            NAME(transform)(&p->steps, p->twiddle, out + (size_t)i * (size_t)N, other);
        for (int x = 0; x < n; x++)
            strip[((size_t)i * (size_t)n + (size_t)x) * (size_t)N + (size_t)ky] = done[x];
    }
}

/* Rows of 2 LANES vectors: the columns of Y. */
static inline ALWAYS void NAME(backward)(const struct backend_toeplitz_plan *p, const product *q,
                                         int64_t v, CVEC *strip, CVEC *other) {
    const int N = p->steps.order, n = p->n;
    for (int i = 0; i < p->nimage; i++)
        for (int x = 0; x < n; x++) {
            CVEC *from = strip + ((size_t)i * (size_t)n + (size_t)x) * (size_t)N;
            const CVEC *done = NAME(transform)(&p->steps, p->twiddle, from, other);
            for (int64_t k = p->start[i * (n + 1) + x]; k < p->start[i * (n + 1) + x + 1]; k++)
                NAME(put)(q, v, p->column[k], &done[p->y[k]]);
        }
}

/* Vectors v .. v + 2 APART. Spectra that are kept lie in the order in which blocks and their pieces
 * are taken, [ky][image][kx] of each. */
static CLONES void NAME(block)(const struct backend_toeplitz_plan *p, const product *q, int64_t v,
                               void *work) {
    const size_t N = (size_t)p->steps.order, all = (size_t)p->nimage * N;
    CVEC *strip = work, *in = strip + all * (size_t)p->n, *out = in + all, *line = out + all,
         *other = line + N;
    for (int l = 0; l < APART && v + l < q->nvec; l += LANES) {
        if (q->way != FROM_KEPT)
            NAME(forward)(p, q, v + l, strip, line, other);
        for (int ky = 0; ky < (int)N; ky++) {
            CVEC *row =
                q->way == AT_ONCE
                    ? in
                    : (CVEC *)q->kept + ((size_t)((v / 2 + l) / LANES) * N + (size_t)ky) * all;
            if (q->way != FROM_KEPT)
                NAME(along)(p, ky, strip, row, line, other);
            if (q->way != TO_KEPT)
                NAME(back)(p, q->turned, ky, row, out, strip, other);
        }
        if (q->way != TO_KEPT)
            NAME(backward)(p, q, v + l, strip, other);
    }
}

#if BYTES == TOEPLITZ_BLOCK
/* What rows and columns of the same place have in addition: Y += alpha X D. */
static void NAME(add_diagonals)(const struct backend_toeplitz_plan *p, const product *q) {
#pragma omp parallel for schedule(dynamic)
    for (int c = 0; c < p->nimage; c++)
        for (int r = 0; r < p->nimage; r++) {
            const int at = q->turned ? c * p->nimage + r : r * p->nimage + c;
            const double *d = p->diagonal[at];
            for (int64_t i = 0; d != NULL && i < p->count[c]; i++) {
                const REAL f = (REAL)(q->alpha * d[i]);
                const REAL *x = (const REAL *)q->x + (p->first[r] + i) * q->xc;
                REAL *y = (REAL *)q->y + (p->first[c] + i) * q->yc;
                for (int64_t v = 0; v < q->nvec; v++)
                    y[v * q->yv] += f * x[v * q->xv];
            }
        }
}

#endif

#undef LANES
#undef APART
#undef VEC
#undef CVEC
#undef ADD
#undef SUB
#undef TIMES
#undef TURN
