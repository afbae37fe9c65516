/* The batched routines of the CPU for one real type; included once for each by batch_cpu.c, which
 * defines REAL, NAME(x), REAL_MIN and REAL_MAX. Every routine is a sequence of steps on one lower
 * triangle `l` (order n, contiguous columns, zero above the diagonal) and on columns x of B. */

static REAL *NAME(element)(view v, int64_t i, int64_t j) {
    return (REAL *)v.p + i * v.si + j * v.sj;
}

static void NAME(read)(REAL *l, view a, int64_t n, bool unit) {
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < j; i++)
            l[i + j * n] = 0;
        for (int64_t i = j; i < n; i++)
            l[i + j * n] = unit && i == j ? 1 : *NAME(element)(a, i, j);
    }
}

static void NAME(write)(const REAL *l, view a, int64_t n, bool unit) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j + unit; i < n; i++)
            *NAME(element)(a, i, j) = l[i + j * n];
}

/* l := its Cholesky factor; the order of the first minor that is not positive, or 0. */
static int NAME(factor)(REAL *restrict l, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        REAL *restrict lk = l + k * n, d = lk[k];
        if (!(d >= REAL_MIN && d <= REAL_MAX))
            return (int)k + 1;
        d = NAME(root)(d);
        lk[k] = d;
        for (int64_t i = k + 1; i < n; i++)
            lk[i] /= d;
        for (int64_t j = k + 1; j < n; j++) {
            REAL *restrict lj = l + j * n, f = lk[j];
            for (int64_t i = j; i < n; i++)
                lj[i] -= f * lk[i];
        }
    }
    return 0;
}

/* x := l^-1 x, x := l^-T x, x := l x */
static void NAME(forward)(const REAL *restrict l, int64_t n, REAL *restrict x) {
    for (int64_t j = 0; j < n; j++) {
        REAL f = x[j] /= l[j + j * n];
        for (int64_t i = j + 1; i < n; i++)
            x[i] -= f * l[i + j * n];
    }
}
static void NAME(backward)(const REAL *restrict l, int64_t n, REAL *restrict x) {
    for (int64_t j = n - 1; j >= 0; j--) {
        REAL s = x[j];
        for (int64_t i = j + 1; i < n; i++)
            s -= x[i] * l[i + j * n];
        x[j] = s / l[j + j * n];
    }
}
static void NAME(multiply)(const REAL *restrict l, int64_t n, REAL *restrict x) {
    for (int64_t j = n - 1; j >= 0; j--) {
        REAL f = x[j];
        x[j] = f * l[j + j * n];
        for (int64_t i = j + 1; i < n; i++)
            x[i] += f * l[i + j * n];
    }
}

/* l := l^-1; the first diagonal element that is 0 or NaN, or 0. Column j of the inverse needs only
 * the columns of l from j on, so it can take their place. */
static int NAME(invert)(REAL *l, int64_t n) {
    REAL x[BATCH_MAX];
    for (int64_t j = 0; j < n; j++)
        if (!(l[j + j * n] > 0) && !(l[j + j * n] < 0))
            return (int)j + 1;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = i == j;
        for (int64_t k = j; k < n; k++) {
            REAL f = x[k] /= l[k + k * n];
            for (int64_t i = k + 1; i < n; i++)
                x[i] -= f * l[i + k * n];
        }
        for (int64_t i = j; i < n; i++)
            l[i + j * n] = x[i];
    }
    return 0;
}

/* l := lower triangle of l^T l: entry (i, j) needs the columns i and j from row i on. */
static void NAME(square)(REAL *l, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            REAL s = 0;
            for (int64_t k = i; k < n; k++)
                s += l[k + i * n] * l[k + j * n];
            l[i + j * n] = s;
        }
}

/* The steps on one matrix; returns info. l: n x n scratch. */
static int NAME(run)(unsigned steps, view a, view b, int64_t n, int64_t m, bool unit, REAL alpha,
                     REAL *l) {
    int info = 0;
    NAME(read)(l, a, n, unit);
    if (steps & FACTOR)
        info = NAME(factor)(l, n);
    if ((steps & INVERT) && !info)
        info = NAME(invert)(l, n);
    if ((steps & SQUARE) && !info)
        NAME(square)(l, n);
    if ((steps & (FACTOR | INVERT | SQUARE)) && !info)
        NAME(write)(l, a, n, unit);
    for (int64_t j = 0; (steps & ON_B) && j < m && !info; j++) {
        REAL x[BATCH_MAX];
        for (int64_t i = 0; i < n; i++)
            x[i] = alpha * *NAME(element)(b, i, j);
        if (steps & FORWARD)
            NAME(forward)(l, n, x);
        if (steps & BACKWARD)
            NAME(backward)(l, n, x);
        if (steps & MULTIPLY)
            NAME(multiply)(l, n, x);
        for (int64_t i = 0; i < n; i++)
            *NAME(element)(b, i, j) = x[i];
    }
    return info;
}

/* Lower triangle of C := alpha A A^T + beta C, A n x k. c: n x n scratch. */
static void NAME(syrk)(view a, view cv, int64_t n, int64_t k, REAL alpha, REAL beta,
                       REAL *restrict c) {
    REAL x[BATCH_MAX];
    memset(c, 0, sizeof *c * (size_t)(n * n));
    for (int64_t q = 0; q < k && alpha != 0; q++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = *NAME(element)(a, i, q);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = j; i < n; i++)
                c[i + j * n] += x[i] * x[j];
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++) {
            REAL *p = NAME(element)(cv, i, j);
            *p = alpha * c[i + j * n] + (beta != 0 ? beta * *p : 0);
        }
}

static void NAME(zero)(view b, int64_t n, int64_t m) {
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < n; i++)
            *NAME(element)(b, i, j) = 0;
}
