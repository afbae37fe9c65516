/* The SVD of a matrix by way of a bidiagonal one, for one real type; included before
 * lowrank_cpu_real.h. LAPACK's gesdd does the same; here the vectors of a panel lie in columns
 * side by side, so that each step of the reduction is six products, and reflectors, whose zeros and
 * ones are stored, are applied without copies. */

extern int LAPACK(bdsdc)(const char *, const char *, const int *, REAL *, REAL *, REAL *,
                         const int *, REAL *, const int *, REAL *, int *, REAL *, int *, int *,
                         size_t, size_t);

/* y := y + f op(a) x, a: m x n with leading dimension lda */
static void NAME(times)(char trans, int64_t m, int64_t n, REAL f, const REAL *a, int64_t lda,
                        const REAL *x, int64_t incx, REAL *y, int64_t incy) {
    if (m > 0 && n > 0)
        CBLAS(gemv)
    (CblasColMajor, trans == 'N' ? CblasNoTrans : CblasTrans, (int)m, (int)n, f, a, (int)lda, x,
     (int)incx, 1, y, (int)incy);
}

/* x := the vector v, v[0] = 1, of the reflection I - tau v v^T that turns x into (beta, 0, ...).
 * Returns beta. v = 0 for no reflection, also where squares of x could underflow: of rounding
 * errors of a matrix of rank one what is left shrinks by u time and again. */
static REAL NAME(reflector)(int64_t n, REAL *x, REAL *tau) {
    const REAL alpha = x[0], s = n > 1 ? CBLAS(dot)((int)n - 1, x + 1, 1, x + 1, 1) : 0;
    *tau = 0;
    if (s <= VECTOR_LEAST) {
        memset(x, 0, sizeof(REAL) * (size_t)n);
        return alpha;
    }
    const REAL beta = -COPYSIGN(SQRT(alpha * alpha + s), alpha);
    *tau = (beta - alpha) / beta;
    x[0] = 1;
    CBLAS(scal)((int)n - 1, 1 / (alpha - beta), x + 1, 1);
    return beta;
}

/* a (m x n, m >= n, leading dimension m) = Q B P^T with B upper bidiagonal: d its diagonal, e what
 * is above. v (m x n) and u (n x n), zero before: the reflectors of Q and P by columns, with their
 * factors. a is lost. In a panel a - l r^T, l = [v x v x ...], r = [y u y u ...], stands for the
 * matrix with the reflections so far (Golub, Van Loan, section 5.4.8; LAPACK's labrd). */
static void NAME(bidiagonal)(arena *mem, int64_t m, int64_t n, REAL *a, REAL *d, REAL *e, REAL *v,
                             REAL *tv, REAL *u, REAL *tu) {
    const size_t mark = mem->used;
    REAL *l = room(mem, m * 2 * BIDIAG_PANEL, sizeof(REAL)),
         *r = room(mem, n * 2 * BIDIAG_PANEL, sizeof(REAL)), w[2 * BIDIAG_PANEL];
    for (int64_t p = 0; p < n; p += BIDIAG_PANEL) {
        const int64_t end = batch_least(p + BIDIAG_PANEL, n);
        for (int64_t i = p; i < end; i++) {
            const int64_t c = 2 * (i - p), rows = m - i, cols = n - i - 1;
            REAL *vi = v + i + i * m, *ui = u + i + 1 + i * n, *li = l + i, *ri = r + i + 1;
            memcpy(vi, a + i + i * m, sizeof(REAL) * (size_t)rows);
            NAME(times)('N', rows, c, -1, li, m, r + i, n, vi, 1);
            d[i] = NAME(reflector)(rows, vi, tv + i);
            if (cols == 0)
                break;
            REAL *x = li + c * m + m, *y = ri + c * n;
            memcpy(li + c * m, vi, sizeof(REAL) * (size_t)rows);
            memset(w, 0, sizeof w), memset(y, 0, sizeof(REAL) * (size_t)cols);
            NAME(times)('T', rows, c, 1, li, m, vi, 1, w, 1);
            NAME(times)('T', rows, cols, tv[i], a + i + (i + 1) * m, m, vi, 1, y, 1);
            NAME(times)('N', cols, c, -tv[i], ri, n, w, 1, y, 1);
            CBLAS(copy)((int)cols, a + i + (i + 1) * m, (int)m, ui, 1);
            NAME(times)('N', cols, c + 1, -1, ri, n, li, m, ui, 1);
            e[i] = NAME(reflector)(cols, ui, tu + i);
            memcpy(y + n, ui, sizeof(REAL) * (size_t)cols);
            memset(w, 0, sizeof w), memset(x, 0, sizeof(REAL) * (size_t)rows);
            NAME(times)('T', cols, c + 1, 1, ri, n, ui, 1, w, 1);
            NAME(times)('N', rows - 1, cols, tu[i], a + i + 1 + (i + 1) * m, m, ui, 1, x + 1, 1);
            NAME(times)('N', rows - 1, c + 1, -tu[i], li + 1, m, w, 1, x + 1, 1);
        }
        if (end < n)
            CBLAS(gemm)
        (CblasColMajor, CblasNoTrans, CblasTrans, (int)(m - end), (int)(n - end),
         (int)(2 * BIDIAG_PANEL), -1, l + end, (int)m, r + end, (int)n, 1, a + end + end * m,
         (int)m);
    }
    mem->used = mark;
}

/* c (m x n) := H_0 H_1 ... H_{k-1} c, the reflectors in the columns of v (m x k), zero above row
 * first + j. Of a panel I - V T V^T the inverse of T is known: the upper triangle of V^T V with
 * 1 / tau on its diagonal (Puglisi 1992, SIAM J. Sci. Stat. Comput. 13, 723). */
static void NAME(reflected)(arena *mem, int64_t m, int64_t n, int64_t k, const REAL *v,
                            const REAL *tau, int64_t first, REAL *c) {
    const size_t mark = mem->used;
    REAL *s = room(mem, REFLECT_PANEL * REFLECT_PANEL, sizeof(REAL)),
         *w = room(mem, REFLECT_PANEL * n, sizeof(REAL));
    for (int64_t p = (k - 1) / REFLECT_PANEL * REFLECT_PANEL; k > 0 && p >= 0; p -= REFLECT_PANEL) {
        const int64_t top = first + p;
        const int b = (int)batch_least(REFLECT_PANEL, k - p), rows = (int)(m - top), ni = (int)n,
                  ld = (int)m;
        const REAL *vp = v + top + p * m;
        CBLAS(syrk)(CblasColMajor, CblasUpper, CblasTrans, b, rows, 1, vp, ld, 0, s, b);
        for (int64_t j = 0; j < b; j++)
            s[j + j * b] = tau[p + j] > 0 ? 1 / tau[p + j] : 1;
        CBLAS(gemm)
        (CblasColMajor, CblasTrans, CblasNoTrans, b, ni, rows, 1, vp, ld, c + top, ld, 0, w, b);
        CBLAS(trsm)
        (CblasColMajor, CblasLeft, CblasUpper, CblasNoTrans, CblasNonUnit, b, ni, 1, s, b, w, b);
        CBLAS(gemm)
        (CblasColMajor, CblasNoTrans, CblasNoTrans, rows, ni, b, -1, vp, ld, w, b, 1, c + top, ld);
    }
    mem->used = mark;
}

/* The SVD of l (rows x c, rows >= c > 0), which is lost: sig descending, x (rows x c) the left
 * vectors, j (c x c) the right ones. Divide and conquer on the bidiagonal matrix: errors of
 * u sigma_1. Where no scaling of rows or columns would make small values better determined they are
 * no worse than those of rotations, and it is faster. Returns whether it converged. */
static bool NAME(dense)(arena *mem, int64_t rows, int64_t c, REAL *l, double *sig, REAL *x,
                        REAL *j) {
    const size_t mark = mem->used;
    const int n = (int)c, ld = (int)rows;
    REAL *v = take(mem, rows * c, sizeof(REAL)), *u = take(mem, c * c, sizeof(REAL)),
         *d = room(mem, c, sizeof(REAL)), *e = room(mem, c, sizeof(REAL)),
         *tv = room(mem, c, sizeof(REAL)), *tu = room(mem, c, sizeof(REAL)),
         *vt = room(mem, c * c, sizeof(REAL)), *work = room(mem, 3 * c * c + 4 * c, sizeof(REAL)),
         unused;
    int *iwork = room(mem, 8 * c, sizeof(int)), info, whole;
    NAME(bidiagonal)(mem, rows, c, l, d, e, v, tv, u, tu);
    LAPACK(bdsdc)("U", "I", &n, d, e, x, &ld, vt, &n, &unused, &whole, work, iwork, &info, 1, 1);
    for (int64_t p = 0; p < c && info == 0; p++) {
        sig[p] = d[p];
        memset(x + p * rows + c, 0, sizeof(REAL) * (size_t)(rows - c));
    }
    CBLAS(omatcopy)(CblasColMajor, CblasTrans, n, n, 1, vt, n, j, n);
    NAME(reflected)(mem, rows, c, c, v, tv, 0, x);
    NAME(reflected)(mem, c, c, c - 1, u, tu, 1, j);
    mem->used = mark;
    return info == 0;
}
