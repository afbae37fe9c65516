/* The filter of cpu_filter.c in one element type REAL; names by NAME(x). A line of the grid is
 * filtered by two registers of places at a time. */

typedef REAL NAME(vec) __attribute__((vector_size(VEC_BYTES), aligned(sizeof(REAL)), may_alias));
#define VEC NAME(vec)
#define LANES ((int64_t)(VEC_BYTES / sizeof(REAL)))

/* out[x] (+)= sum over k of tap[k] (in[x + k step] +- in[x - (k + 1) step]) for x < width, a
 * multiple of 2 LANES. */
static inline ALWAYS void NAME(line)(const int reach, const bool odd, const REAL *tap,
                                     const REAL *in, int64_t step, int64_t width, const bool add,
                                     REAL *restrict out) {
    for (int64_t x = 0; x < width; x += 2 * LANES) {
        VEC *to = (VEC *)(out + x), *next = (VEC *)(out + x + LANES);
        VEC low = {0}, high = {0};
        if (add)
            low = *to, high = *next;
        for (int k = 0; k < reach; k++) {
            const REAL *right = in + x + k * step, *left = in + x - (k + 1) * step;
            const VEC a = *(const VEC *)right, b = *(const VEC *)(right + LANES);
            const VEC c = *(const VEC *)left, d = *(const VEC *)(left + LANES);
            low += tap[k] * (odd ? a - c : a + c);
            high += tap[k] * (odd ? b - d : b + d);
        }
        *to = low;
        *next = high;
    }
}

/* A column of B from one of A. room: o->numbers, 0 but for what earlier columns left. */
static CLONES void NAME(column)(const backend_filter *f, const layout *o, REAL alpha, const REAL *a,
                                REAL beta, REAL *b, void *room) {
    const int reach = f->reach;
    const int64_t n = f->n, w = o->width, line = w + 2 * reach;
    REAL *in = (REAL *)room + reach, *mid = (REAL *)room + o->mid, *out = (REAL *)room + o->out;
    REAL odd[BACKEND_REACH], even[BACKEND_REACH];
    for (int k = 0; k < reach; k++)
        odd[k] = (REAL)f->odd[k], even[k] = (REAL)f->even[k];
    for (int axis = 0; axis < 2; axis++)
        for (int64_t i = 0; i < f->squares; i++)
            in[axis * n * line + o->square[i]] = a[axis * f->squares + i];
    REAL *x = mid + reach * w, *y = x + (n + reach) * w; /* rows of zeros before, between, after */
    for (int64_t i = 0; i < n; i++) {
        NAME(line)(reach, true, odd, in + i * line, 1, w, false, x + i * w);
        NAME(line)(reach, false, even, in + (n + i) * line, 1, w, false, y + i * w);
    }
    for (int64_t i = 0; i <= n; i++) {
        NAME(line)(reach, false, even, x + i * w, w, w, false, out + i * w);
        NAME(line)(reach, true, odd, y + i * w, w, w, true, out + i * w);
    }
    for (int64_t i = 0; i < f->corners; i++) {
        b[i] = alpha * out[o->corner[i]] + (beta != 0 ? beta * b[i] : 0);
    }
}

#undef VEC
#undef LANES
