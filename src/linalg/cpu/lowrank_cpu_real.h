/* QR and SVD of one matrix on the CPU, for one real type; included once for each by lowrank_cpu.c,
 * which defines REAL, NAME(x), LAPACK(x), CBLAS(x) and the constants below them. The QR is
 * LAPACK's, whose layout and signs geqrf promises. The SVD: rows and columns sorted by size, two QR
 * factorisations (the second of the transpose of R), and one-sided Jacobi rotations on the columns
 * of what is then a lower triangle L:  A = Q1 L Q2^T,  L J = W S,  U = Q1 W,  V = Q2 J. */

typedef int NAME(lapack_qr)(const int *, const int *, REAL *, const int *, REAL *, REAL *,
                            const int *, int *);
extern NAME(lapack_qr) LAPACK(geqrf);
extern int LAPACK(geqp3)(const int *, const int *, REAL *, const int *, int *, REAL *, REAL *,
                         const int *, int *);
extern int LAPACK(orgqr)(const int *, const int *, const int *, REAL *, const int *, const REAL *,
                         REAL *, const int *, int *);
extern int LAPACK(ormqr)(const char *, const char *, const int *, const int *, const int *,
                         const REAL *, const int *, const REAL *, REAL *, const int *, REAL *,
                         const int *, int *, size_t, size_t);

/* --- LAPACK with int64_t sizes; scratch from `mem`, given back */
static void NAME(geqrf)(arena *mem, int64_t m, int64_t n, REAL *a, int64_t lda, REAL *tau) {
    const int mi = (int)m, ni = (int)n, ld = (int)lda, len = (int)(LAPACK_BLOCK * (n > 1 ? n : 1));
    const size_t mark = mem->used;
    int info;
    if (m > 0 && n > 0)
        LAPACK(geqrf)(&mi, &ni, a, &ld, tau, take(mem, len, sizeof(REAL)), &len, &info);
    mem->used = mark;
}

/* The same with column pivoting; at[j]: which column of a has come to place j. Rows of very
 * different size then stay accurate each relative to itself (they have to be sorted). */
static void NAME(geqp3)(arena *mem, int64_t m, int64_t n, REAL *a, int64_t lda, REAL *tau,
                        int *at) {
    const int mi = (int)m, ni = (int)n, ld = (int)lda, len = (int)((n + 1) * LAPACK_BLOCK + 2 * n);
    const size_t mark = mem->used;
    int info;
    if (m > 0 && n > 0)
        LAPACK(geqp3)(&mi, &ni, a, &ld, at, tau, take(mem, len, sizeof(REAL)), &len, &info);
    mem->used = mark;
}

static void NAME(orgqr)(arena *mem, int64_t m, int64_t n, int64_t k, REAL *a, int64_t lda,
                        const REAL *tau) {
    const int mi = (int)m, ni = (int)n, ki = (int)k, ld = (int)lda,
              len = (int)(LAPACK_BLOCK * (n > 1 ? n : 1));
    const size_t mark = mem->used;
    int info;
    if (m > 0 && n > 0)
        LAPACK(orgqr)(&mi, &ni, &ki, a, &ld, tau, take(mem, len, sizeof(REAL)), &len, &info);
    mem->used = mark;
}

static void NAME(ormqr)(arena *mem, char side, char trans, int64_t m, int64_t n, int64_t k,
                        const REAL *a, int64_t lda, const REAL *tau, REAL *c, int64_t ldc) {
    const int mi = (int)m, ni = (int)n, ki = (int)k, ld = (int)lda, lc = (int)ldc,
              other = side == 'L' ? ni : mi;
    const int len = LAPACK_BLOCK * (other > 1 ? other : 1) + 65 * 64;
    const size_t mark = mem->used;
    int info;
    if (m > 0 && n > 0 && k > 0)
        LAPACK(ormqr)
    (&side, &trans, &mi, &ni, &ki, a, &ld, tau, c, &lc, take(mem, len, sizeof(REAL)), &len, &info,
     1, 1);
    mem->used = mark;
}

/* --- data */

/* The first column (from 1) that holds a NaN or an infinity; 0: none. */
static int NAME(bad_column)(const REAL *a, int64_t lda, int64_t m, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        if (isfinite(CBLAS(asum)((int)m, a + j * lda, 1))) /* which may overflow by itself */
            continue;
        for (int64_t i = 0; i < m; i++)
            if (!isfinite(a[i + j * lda]))
                return (int)j + 1;
    }
    return 0;
}

static REAL NAME(scaled)(REAL x, int e) {
    return e ? (REAL)ldexp(x, e) : x;
}

static REAL NAME(largest)(int64_t count, const REAL *x) {
    return count > 0 ? (REAL)fabs(x[IAMAX((int)count, x, 1)]) : 0;
}

/* The exponent e by which a matrix is scaled, so that no square of a sum over it overflows and the
 * smallest values stay representable. */
static int NAME(exponent)(const REAL *a, int64_t lda, int64_t m, int64_t n) {
    REAL most = 0;
    int e, extent;
    for (int64_t j = 0; j < n; j++)
        most = (REAL)fmax(most, NAME(largest)(m, a + j * lda));
    if (most == 0)
        return 0;
    frexp(most, &e);
    frexp((double)m * (double)n, &extent);
    return NORM_EXPONENT - e - (extent + 1) / 2;
}

/* dst := 2^e src, m x n */
static void NAME(copy)(int64_t m, int64_t n, const REAL *src, int64_t lds, REAL *dst, int64_t ldd,
                       int e) {
    /* in two exact steps, each of which can be represented */
    const REAL f = (REAL)ldexp(1, e / 2), g = (REAL)ldexp(1, e - e / 2);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            dst[i + j * ldd] = src[i + j * lds] * f * g;
}

static void NAME(zero)(int64_t m, int64_t n, REAL *a, int64_t lda) {
    for (int64_t j = 0; j < n; j++)
        memset(a + j * lda, 0, sizeof(REAL) * (size_t)m);
}

static double NAME(square)(int64_t count, const REAL *x) {
    double s = 0;
    for (int64_t i = 0; i < count; i++)
        s += (double)x[i] * x[i];
    return s;
}

/* The norm of a scaled column: the plain sum where no square in it has underflowed. */
static REAL NAME(length)(int64_t count, const REAL *x) {
    const REAL s = CBLAS(dot)((int)count, x, 1, x, 1);
    return s > VECTOR_LEAST ? SQRT(s) : CBLAS(nrm2)((int)count, x, 1);
}

/* --- QR with a diagonal >= 0 */
static int NAME(qr)(arena *mem, char job, int64_t m, int64_t n, REAL *a, int64_t lda, REAL *r,
                    int64_t ldr) {
    const int64_t k = m < n ? m : n;
    const int bad = NAME(bad_column)(a, lda, m, n);
    REAL *tau = take(mem, k, sizeof(REAL)), *sign = take(mem, k, sizeof(REAL));
    if (bad)
        return bad;
    NAME(geqrf)(mem, m, n, a, lda, tau);
    for (int64_t i = 0; i < k; i++)
        sign[i] = a[i + i * lda] < 0 ? -1 : 1;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < k; i++)
            r[i + j * ldr] = i <= j ? sign[i] * a[i + j * lda] : 0;
    for (int64_t i = 0; i < k; i++)
        r[i + i * ldr] = fabs(r[i + i * ldr]); /* -0 */
    if (job == 'R')
        return 0;
    NAME(orgqr)(mem, m, k, k, a, lda, tau);
    for (int64_t j = 0; j < k; j++)
        if (sign[j] < 0)
            CBLAS(scal)((int)m, -1, a + j * lda, 1);
    return 0;
}

/* --- SVD */

/* A tall matrix in work: b m x k (m >= k); row and col order its rows and columns by size, NULL
 * where they have been left as they are. */
typedef struct {
    int64_t m, k;
    REAL *b;
    int64_t *row, *col;
    int e;         /* b is 2^e times the given matrix */
    bool balanced; /* its rows are of about one size, and so are its columns */
} NAME(tall);

/* Indices by descending key, equal ones in their order. */
static int64_t *NAME(order)(arena *mem, int64_t count, const REAL *key) {
    int64_t *at = take(mem, count, sizeof *at), *tmp = take(mem, count, sizeof *tmp), *src, *dst;
    for (int64_t i = 0; i < count; i++)
        at[i] = i;
    src = at, dst = tmp;
    for (int64_t w = 1; w < count; w *= 2) { /* merges runs of w */
        for (int64_t lo = 0; lo < count; lo += 2 * w) {
            const int64_t mid = lo + w < count ? lo + w : count,
                          end = mid + w < count ? mid + w : count;
            int64_t p = lo, q = mid;
            for (int64_t i = lo; i < end; i++)
                dst[i] = p < mid && (q >= end || key[src[p]] >= key[src[q]]) ? src[p++] : src[q++];
        }
        int64_t *swap = src;
        src = dst, dst = swap;
    }
    return src;
}

/* Largest key within `factor` of the smallest? */
static bool NAME(even)(int64_t count, const REAL *key, const int64_t *order, REAL factor) {
    return count > 0 && key[order[0]] <= factor * key[order[count - 1]];
}

static NAME(tall) NAME(load)(arena *mem, int64_t m, int64_t n, const REAL *a, int64_t lda) {
    const bool turn = m < n;
    NAME(tall) t = {.m = turn ? n : m, .k = turn ? m : n, .e = NAME(exponent)(a, lda, m, n)};
    REAL *row = take(mem, t.m, sizeof(REAL)), *col = take(mem, t.k, sizeof(REAL));
    t.b = room(mem, m * n, sizeof(REAL));
    if (turn && m > 0)
        CBLAS(omatcopy)
    (CblasColMajor, CblasTrans, (int)m, (int)n, 1, a, (int)lda, t.b, (int)t.m);
    NAME(copy)(t.m, t.k, turn ? t.b : a, turn ? t.m : lda, t.b, t.m, t.e);
    for (int64_t j = 0; j < t.k; j++) {
        for (int64_t i = 0; i < t.m; i++) {
            const REAL x = (REAL)fabs(t.b[i + j * t.m]);
            row[i] = x > row[i] ? x : row[i];
        }
        col[j] = NAME(length)(t.m, t.b + j * t.m);
    }
    t.row = NAME(order)(mem, t.m, row), t.col = NAME(order)(mem, t.k, col);
    t.balanced = NAME(even)(t.m, row, t.row, 256) && NAME(even)(t.k, col, t.col, 256);
    return t;
}

/* Rows and columns by descending size. */
static void NAME(sort)(arena *mem, NAME(tall) * t) {
    const REAL *raw = t->b;
    t->b = room(mem, t->m * t->k, sizeof(REAL));
    for (int64_t j = 0; j < t->k; j++)
        for (int64_t i = 0; i < t->m; i++)
            t->b[i + j * t->m] = raw[t->row[i] + t->col[j] * t->m];
}

/* Angles are measured with scalar products of the columns as they are; squares of their norms are
 * carried within a sweep. */
static bool NAME(rotate)(int64_t rows, int64_t c, REAL *x, REAL *y, REAL *a, REAL *b, REAL *jx,
                         REAL *jy, REAL tol) {
    const REAL p = CBLAS(dot)((int)rows, x, 1, y, 1);
    if (!(fabs(p) > tol * SQRT(*a) * SQRT(*b)))
        return false;
    const REAL zeta = (*b - *a) / (2 * p), big = fabs(zeta),
               t = COPYSIGN(1, zeta) / (big > ANGLE_BIG ? 2 * big : big + SQRT(1 + zeta * zeta)),
               cs = 1 / SQRT(1 + t * t), sn = cs * t, an = *a - t * p, bn = *b + t * p;
    /* x := cs x - sn y, y := sn x + cs y */
    CBLAS(rot)((int)rows, x, 1, y, 1, cs, -sn);
    if (jx)
        CBLAS(rot)((int)c, jx, 1, jy, 1, cs, -sn);
    *a = an > *a / 10 ? an : CBLAS(dot)((int)rows, x, 1, x, 1);
    *b = bn > *b / 10 ? bn : CBLAS(dot)((int)rows, y, 1, y, 1);
    return true;
}

/* Rotates the c columns of l (rows x c) until they are orthogonal, in up to `most` sweeps; j (c x
 * c, or NULL) gets the product of the rotations. The sweeps, times -1 if they did not suffice. */
static int NAME(jacobi)(arena *mem, int64_t rows, int64_t c, REAL *l, int64_t ldl, REAL *j,
                        int most) {
    REAL *norm = take(mem, c, sizeof(REAL));
    const REAL tol = fmax(10, SQRT((REAL)rows)) * UNIT;
    for (int64_t p = 0; j && p < c * c; p++)
        j[p] = p % (c + 1) == 0;
    for (int sweep = 0; sweep < most; sweep++) {
        bool rotated = false;
        for (int64_t p = 0; p < c; p++) {
            norm[p] = CBLAS(dot)((int)rows, l + p * ldl, 1, l + p * ldl, 1);
            /* parallel columns shrink by u a sweep: they are 0 where their squares vanish */
            if (norm[p] < VECTOR_LEAST * VECTOR_LEAST) {
                norm[p] = 0;
                NAME(zero)(rows, 1, l + p * ldl, rows);
            }
        }
        for (int64_t p = 0; p < c; p++)
            for (int64_t q = p + 1; q < c; q++)
                rotated |= NAME(rotate)(rows, c, l + p * ldl, l + q * ldl, norm + p, norm + q,
                                        j ? j + p * c : NULL, j ? j + q * c : NULL, tol);
        if (!rotated)
            return sweep + 1;
    }
    return -most;
}

/* j := j (3 I - j^T j) / 2: what the roundings of thousands of rotations took from its columns'
 * orthonormality comes back. */
static void NAME(polish)(arena *mem, int64_t c, REAL *j) {
    const int n = (int)c;
    REAL *g = take(mem, c * c, sizeof(REAL)), *x = take(mem, c * c, sizeof(REAL));
    if (c == 0)
        return;
    memcpy(x, j, sizeof(REAL) * (size_t)(c * c));
    CBLAS(gemm)(CblasColMajor, CblasTrans, CblasNoTrans, n, n, n, -(REAL)0.5, x, n, x, n, 0, g, n);
    for (int64_t p = 0; p < c; p++)
        g[p + p * c] += (REAL)0.5; /* (I - j^T j) / 2, which is small */
    CBLAS(gemm)(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, x, n, g, n, 1, j, n);
}

/* The SVD of the first c columns of l (rows x c): sig descending, x (rows x c) the left vectors,
 * j (c x c) the right ones (only if right). Without a cut columns of sigma = 0 are completed. */
static int NAME(core)(arena *mem, int64_t rows, int64_t c, REAL *l, bool right, const cut_one *cut,
                      double *sig, REAL *x, REAL *j) {
    REAL *norm = take(mem, c, sizeof(REAL)), *turns = right ? take(mem, c * c, sizeof(REAL)) : NULL;
    const int sweeps = NAME(jacobi)(mem, rows, c, l, rows, turns, cut->sweeps_most);
    int64_t full = 0;
    if (cut->sweeps)
        *cut->sweeps = c > 0 ? abs(sweeps) : 0;
    if (right)
        NAME(polish)(mem, c, turns);
    for (int64_t p = 0; p < c; p++)
        norm[p] = CBLAS(nrm2)((int)rows, l + p * rows, 1);
    const int64_t *at = NAME(order)(mem, c, norm);
    for (int64_t p = 0; p < c; p++) {
        const REAL s = norm[at[p]];
        sig[p] = s;
        full += s > VECTOR_LEAST;
        for (int64_t i = 0; i < rows; i++)
            x[i + p * rows] = s > VECTOR_LEAST ? l[i + at[p] * rows] / s : 0;
        if (right)
            memcpy(j + p * c, turns + at[p] * c, sizeof(REAL) * (size_t)c);
    }
    if (!cut->on && full < c) { /* Q of a QR is orthonormal whatever the columns are */
        REAL *tau = take(mem, c, sizeof(REAL)), *q = take(mem, rows * c, sizeof(REAL));
        memcpy(q, x, sizeof(REAL) * (size_t)(rows * c));
        NAME(geqrf)(mem, rows, c, q, rows, tau);
        NAME(orgqr)(mem, rows, c, c, q, rows, tau);
        memcpy(x + full * rows, q + full * rows, sizeof(REAL) * (size_t)(rows * (c - full)));
    }
    return sweeps > 0 ? 0 : -2;
}

/* What an SVD in work has found: values, r of them kept; left (m x r) and right (k x r) vectors of
 * the sorted matrix, right ones times sigma if so asked. */
typedef struct {
    double *sig;
    REAL *left, *right;
    int64_t r;
    int info;
} NAME(factors);

/* Number of columns of L that go to the rotations, and the square of the norm of the others. */
static int64_t NAME(trimmed)(const REAL *l, int64_t k, const cut_one *cut, int e, double *dropped) {
    double all = 0, most = 0, rest = 0;
    int64_t c = k;
    *dropped = 0;
    for (int64_t j = 0; j < k; j++) {
        const double s = NAME(square)(k, l + j * k);
        all += s, most = s > most ? s : most;
    }
    if (!cut->on)
        return k;
    const double t =
        cut->kind == 'A' ? ldexp(cut->tol, e) : cut->tol * sqrt(cut->norm == 'F' ? all : most);
    while (c > 0) {
        rest += NAME(square)(k, l + (c - 1) * k);
        if (!(rest <= 0.01 * t * t))
            break;
        *dropped = rest, c--;
    }
    return c;
}

/* QR of b, whose columns may take another order. */
static void NAME(first_qr)(arena *mem, NAME(tall) * t, REAL *tau) {
    int64_t *before = take(mem, t->k, sizeof *before);
    int *at = take(mem, t->k, sizeof *at);
    if (t->balanced) {
        NAME(geqrf)(mem, t->m, t->k, t->b, t->m, tau);
        return;
    }
    NAME(geqp3)(mem, t->m, t->k, t->b, t->m, tau, at);
    memcpy(before, t->col, sizeof *before * (size_t)t->k);
    for (int64_t j = 0; j < t->k; j++)
        t->col[j] = before[at[j] - 1];
}

/* By two QR factorisations and rotations; b of t is lost. right: 'N', 'U', 'S'. */
static NAME(factors)
    NAME(by_rotations)(arena *mem, NAME(tall) * t, const cut_one *cut, char right) {
    const int64_t m = t->m, k = t->k;
    REAL *tau = take(mem, k, sizeof(REAL)), *tau2 = take(mem, k, sizeof(REAL)),
         *lt = take(mem, k * k, sizeof(REAL)), *l = take(mem, k * k, sizeof(REAL)),
         *x = take(mem, k * k, sizeof(REAL)), *j = take(mem, k * k, sizeof(REAL));
    NAME(factors) f = {.sig = take(mem, k, sizeof(double))};
    double dropped;
    NAME(first_qr)(mem, t, tau);
    for (int64_t p = 0; p < k; p++)
        for (int64_t i = 0; i < k; i++)
            lt[i + p * k] = i >= p ? t->b[p + i * m] : 0;
    NAME(geqrf)(mem, k, k, lt, k, tau2);
    for (int64_t p = 0; p < k; p++)
        for (int64_t i = 0; i < k; i++)
            l[i + p * k] = i >= p ? lt[p + i * k] : 0;
    const int64_t c = NAME(trimmed)(l, k, cut, t->e, &dropped);
    if (!(t->balanced && c > rotated_most(cut) && 2 * c > k &&
          NAME(dense)(mem, k, c, l, f.sig, x, j)))
        f.info = NAME(core)(mem, k, c, l, right == 'U', cut, f.sig, x, j);
    f.r = cut_rank(cut, c, f.sig, dropped, t->e, &f.info);
    f.left = take(mem, m * f.r, sizeof(REAL)), f.right = take(mem, k * f.r, sizeof(REAL));
    NAME(copy)(k, f.r, x, k, f.left, m, 0);
    NAME(ormqr)(mem, 'L', 'N', m, f.r, k, t->b, m, tau, f.left, m);
    if (right == 'U')
        NAME(copy)(c, f.r, j, c, f.right, k, 0);
    if (right == 'S' && f.r > 0) { /* V S = Q2 L^T X */
        NAME(copy)(k, f.r, x, k, f.right, k, 0);
        CBLAS(trmm)
        (CblasColMajor, CblasLeft, CblasUpper, CblasNoTrans, CblasNonUnit, (int)k, (int)f.r, 1, lt,
         (int)k, f.right, (int)k);
    }
    NAME(ormqr)(mem, 'L', 'N', k, right == 'N' ? 0 : f.r, k, lt, k, tau2, f.right, k);
    return f;
}

/* The same as `dense`, by R alone where b is much taller than wide. */
static bool NAME(tall_dense)(arena *mem, int64_t m, int64_t k, REAL *b, double *sig, REAL *x,
                             REAL *j) {
    if (m < 2 * k)
        return NAME(dense)(mem, m, k, b, sig, x, j);
    REAL *tau = take(mem, k, sizeof(REAL)), *r = take(mem, k * k, sizeof(REAL)),
         *w = room(mem, k * k, sizeof(REAL));
    NAME(geqrf)(mem, m, k, b, m, tau);
    for (int64_t p = 0; p < k; p++)
        memcpy(r + p * k, b + p * m, sizeof(REAL) * (size_t)(p + 1));
    if (!NAME(dense)(mem, k, k, r, sig, w, j))
        return false;
    NAME(zero)(m, k, x, m);
    NAME(copy)(k, k, w, k, x, m, 0);
    NAME(ormqr)(mem, 'L', 'N', m, k, k, b, m, tau, x, m);
    return true;
}

static NAME(factors) NAME(factorise)(arena *mem, NAME(tall) * t, const cut_one *cut, char right) {
    const int64_t m = t->m, k = t->k;
    if (k > rotated_most(cut) && t->balanced && !(cut->on && cut->tol > 0)) {
        NAME(factors) f = {.sig = take(mem, k, sizeof(double))};
        REAL *b = room(mem, m * k, sizeof(REAL));
        f.left = room(mem, m * k, sizeof(REAL)), f.right = room(mem, k * k, sizeof(REAL));
        memcpy(b, t->b, sizeof(REAL) * (size_t)(m * k));
        if (NAME(tall_dense)(mem, m, k, b, f.sig, f.left, f.right)) {
            f.r = cut_rank(cut, k, f.sig, 0, t->e, &f.info);
            for (int64_t p = 0; p < f.r && right == 'S'; p++)
                CBLAS(scal)((int)k, (REAL)f.sig[p], f.right + p * k, 1);
            t->row = t->col = NULL;
            return f;
        }
    }
    NAME(sort)(mem, t);
    return NAME(by_rotations)(mem, t, cut, right);
}

/* Column of vectors out: rows put back to their places (NULL: they are there), times 2^e factor. */
static void NAME(put)(int64_t rows, const int64_t *place, const REAL *src, REAL *dst, REAL factor,
                      int e) {
    if (!place && factor == 1 && e == 0)
        memcpy(dst, src, sizeof(REAL) * (size_t)rows);
    else
        for (int64_t i = 0; i < rows; i++)
            dst[place ? place[i] : i] = NAME(scaled)(src[i] * factor, e);
}

/* Is the entry of largest modulus (the first of equals) of this column negative? */
static bool NAME(negative)(int64_t rows, const REAL *x) {
    const REAL most = NAME(largest)(rows, x);
    int64_t at = 0;
    while (at < rows && fabs(x[at]) != most)
        at++;
    return at < rows && x[at] < 0;
}

/* A = U S V^T as gesvj of the table; s, u, v: as there. */
static int NAME(svd)(arena *mem, char jobu, char jobv, const cut_one *cut, int64_t m, int64_t n,
                     const REAL *a, int64_t lda, REAL *s, REAL *u, int64_t ldu, REAL *v,
                     int64_t ldv, int64_t *rank) {
    const bool turn = m < n;
    const int bad = NAME(bad_column)(a, lda, m, n);
    const int64_t k = turn ? m : n,
                  values = cut->on && cut->sampled ? batch_least(k, cut->most) : k;
    *rank = 0;
    if (bad)
        return bad;
    NAME(tall) t = NAME(load)(mem, m, n, a, lda);
    const char jl = turn ? jobv : jobu, jr = turn ? jobu : jobv;
    NAME(factors) f = NAME(factorise)(mem, &t, cut, jr);
    REAL *left = turn ? v : u, *right = turn ? u : v;
    const int64_t ldl = turn ? ldv : ldu, ldr = turn ? ldu : ldv;
    for (int64_t p = 0; p < values; p++)
        s[p] = p < f.r ? NAME(scaled)((REAL)f.sig[p], -t.e) : 0;
    for (int64_t p = 0; p < f.r; p++) {
        const REAL sigma = (REAL)f.sig[p];
        if (jl != 'N')
            NAME(put)
        (t.m, t.row, f.left + p * t.m, left + p * ldl, jl == 'S' ? sigma : 1, jl == 'S' ? -t.e : 0);
        if (jr != 'N')
            NAME(put)(t.k, t.col, f.right + p * t.k, right + p * ldr, 1, jr == 'S' ? -t.e : 0);
        const bool flip = jobu != 'N' ? NAME(negative)(m, u + p * ldu)
                                      : jobv != 'N' && NAME(negative)(n, v + p * ldv);
        if (flip && jobu != 'N')
            CBLAS(scal)((int)m, -1, u + p * ldu, 1);
        if (flip && jobv != 'N')
            CBLAS(scal)((int)n, -1, v + p * ldv, 1);
    }
    *rank = f.r;
    return f.info;
}
