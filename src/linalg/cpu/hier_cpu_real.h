/* The operations of formats in one element type REAL; names by NAME(x). Included by hier_cpu.c.
 */

/* The operand's element (i, j) lies at p + i si + j sj. */
typedef struct {
    const REAL *p;
    int64_t si, sj;
} NAME(view);

/* c (m entries, step sc) += alpha op(A) b. */
static void NAME(add_term)(const hier_gemm_term *e, int64_t m, REAL alpha, const REAL *b,
                           int64_t sb, REAL *c, int64_t sc) {
    const REAL *a = e->a;
    if (e->trans) {
        for (int64_t i = 0; i < m; i++) {
            REAL s = 0;
            for (int64_t k = 0; k < e->k; k++)
                s += a[k + i * e->lda] * b[k * sb];
            c[i * sc] += alpha * s;
        }
    } else {
        for (int64_t k = 0; k < e->k; k++) {
            const REAL f = alpha * b[k * sb];
            for (int64_t i = 0; i < m; i++)
                c[i * sc] += f * a[i + k * e->lda];
        }
    }
}

static void NAME(one_sum)(const hier_gemm_sums *s, int64_t b, bool left, int64_t nvec, REAL alpha,
                          const hier_operand *x, REAL beta, REAL *y, int64_t ldy) {
    const hier_gemm_sum *t = s->sum + b;
    const int64_t sc = left ? 1 : ldy, step = left ? ldy : 1;
    for (int64_t j = 0; j < nvec; j++) {
        REAL *c = y + t->row * sc + j * step;
        for (int64_t i = 0; i < t->m; i++)
            c[i * sc] = beta == 0 ? 0 : beta * c[i * sc];
        for (int64_t e = 0; e < t->terms && alpha != 0; e++) {
            const hier_gemm_term *q = s->term + t->first + e;
            const hier_operand *o = x + q->from;
            const REAL *p = o->p;
            NAME(add_term)
            (q, t->m, alpha, left ? p + q->row + j * o->ld : p + q->row * o->ld + j,
             left ? 1 : o->ld, c, sc);
        }
    }
}

/* Swaps column k of A (m x n) with column p, whose remainder is the largest. */
static void NAME(swap)(int64_t m, REAL *a, int64_t lda, REAL *norm, int *order, int64_t k,
                       int64_t p) {
    for (int64_t i = 0; i < m && k != p; i++) {
        const REAL x = a[i + k * lda];
        a[i + k * lda] = a[i + p * lda], a[i + p * lda] = x;
    }
    const int o = order[k];
    order[k] = order[p], order[p] = o;
    norm[p] = norm[k];
}

/* Column k of A below row k to R_kk; the reflection of it on the columns to its right, and the
 * squares of the norms of what they have below row k. */
static void NAME(reflect)(int64_t m, int64_t n, REAL *a, int64_t lda, REAL *norm, int64_t k) {
    REAL *v = a + k * lda;
    REAL s = 0;
    for (int64_t i = k; i < m; i++)
        s += v[i] * v[i];
    const REAL r = v[k] > 0 ? -ROOT(s) : ROOT(s), head = v[k] - r;
    /* H = I - v v' / (-r head), v = (head, the rest) */
    for (int64_t j = k + 1; j < n; j++) {
        REAL *c = a + j * lda, d = head * c[k], left = 0;
        for (int64_t i = k + 1; i < m; i++)
            d += v[i] * c[i];
        d /= r * head;
        c[k] += d * head;
        for (int64_t i = k + 1; i < m; i++) {
            c[i] += d * v[i];
            left += c[i] * c[i];
        }
        norm[j] = left;
    }
    v[k] = r;
}

/* U (n x r) from R: rows J the identity, the others R11^-1 R12, transposed. */
static void NAME(weights)(int64_t n, int64_t r, REAL *a, int64_t lda, const int *order, REAL *u,
                          int64_t ldu) {
    for (int64_t j = 0; j < n; j++) {
        REAL *c = a + j * lda;
        for (int64_t i = r - 1; i >= 0 && j >= r; i--) {
            for (int64_t k = i + 1; k < r; k++)
                c[i] -= a[i + k * lda] * c[k];
            c[i] /= a[i + i * lda];
        }
        for (int64_t i = 0; i < r; i++)
            u[order[j] + i * ldu] = j >= r ? c[i] : (REAL)(i == j);
    }
}

/* A := 2^-e A with the largest modulus in [1/2, 1), so that squares stay in range; e, 0 where an
 * entry is not finite. */
static int NAME(rescale)(int64_t m, int64_t n, REAL *a, int64_t lda) {
    double most = 0;
    int e = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            if (!(fabs((double)a[i + j * lda]) <= most))
                most = fabs((double)a[i + j * lda]);
    if (!(most > 0) || !isfinite(most))
        return 0;
    frexp(most, &e);
    const REAL f = (REAL)ldexp(1, -e / 2), g = (REAL)ldexp(1, -e - -e / 2);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            a[i + j * lda] = a[i + j * lda] * f * g;
    return e;
}

/* Rank of the decomposition; its info in *info. */
static int64_t NAME(decompose)(int64_t m, int64_t n, REAL *a, int64_t lda, double tol, int round,
                               int64_t most, int *order, REAL *u, int64_t ldu, REAL *norm,
                               int *info) {
    int64_t k = 0;
    const int64_t end = m < n ? m : n;
    tol = ldexp(tol, -NAME(rescale)(m, n, a, lda));
    *info = 0;
    for (int64_t j = 0; j < n; j++) {
        norm[j] = 0, order[j] = (int)j;
        for (int64_t i = 0; i < m; i++)
            norm[j] += a[i + j * lda] * a[i + j * lda];
        if (*info == 0 && !isfinite((double)norm[j]))
            *info = (int)j + 1;
    }
    for (; *info == 0 && k < end; k++) {
        int64_t p = k;
        for (int64_t j = k + 1; j < n; j++)
            p = norm[j] > norm[p] ? j : p;
        const double end_at = k % round ? 1e-3 * tol : tol;
        if (!(norm[p] > SQUARE_LEAST) || !(norm[p] > (REAL)(end_at * end_at)) ||
            (k == most && !(norm[p] > (REAL)(tol * tol))))
            break;
        if (k == most) {
            *info = -3;
            break;
        }
        NAME(swap)(m, a, lda, norm, order, k, p);
        NAME(reflect)(m, n, a, lda, norm, k);
    }
    if (*info <= 0)
        NAME(weights)(n, k, a, lda, order, u, ldu);
    return *info <= 0 ? k : 0;
}
