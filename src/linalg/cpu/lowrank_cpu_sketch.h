/* Sketches and the recompression of one matrix on the CPU, for one real type; included after
 * lowrank_cpu_real.h. The samples are A Omega, Omega from backend_random. */

/* omega := columns first.. of the random matrix, n x l */
static void NAME(samples)(uint64_t seed, int64_t n, int64_t first, int64_t l, REAL *omega) {
    float x[4];
    for (int64_t j = 0; j < l; j++)
        for (int64_t i = 0; i < n; i += 4) {
            backend_random(seed, i / 4, first + j, x);
            for (int64_t e = 0; e < 4 && i + e < n; e++)
                omega[i + e + j * n] = x[e];
        }
}

/* c := op(a) b, c m x n, k the inner size; leading dimensions lda, ldb, m */
static void NAME(product)(char trans, int64_t m, int64_t n, int64_t k, const REAL *a, int64_t lda,
                          const REAL *b, int64_t ldb, REAL *c) {
    if (k == 0)
        NAME(zero)(m, n, c, m);
    else if (m > 0 && n > 0)
        CBLAS(gemm)
    (CblasColMajor, trans == 'N' ? CblasNoTrans : CblasTrans, CblasNoTrans, (int)m, (int)n, (int)k,
     1, a, (int)lda, b, (int)ldb, 0, c, (int)m);
}

/* y (m x l) := orthonormal columns that span it */
static void NAME(orthonormal)(arena *mem, int64_t m, int64_t l, REAL *y) {
    REAL *tau = take(mem, l, sizeof(REAL));
    NAME(geqrf)(mem, m, l, y, m, tau);
    NAME(orgqr)(mem, m, l, l, y, m, tau);
}

static int NAME(rsvd)(arena *mem, const call *q, cut_one cut, int64_t m, int64_t n, const REAL *a0,
                      int64_t lda, REAL *s, REAL *u, int64_t ldu, REAL *v, int64_t ldv,
                      int64_t *rank) {
    const int64_t k = batch_least(m, n), l = batch_least(k, cut.most + (q->over < 0 ? 8 : q->over));
    const int bad = NAME(bad_column)(a0, lda, m, n), e = bad ? 0 : NAME(exponent)(a0, lda, m, n);
    REAL *a = take(mem, m * n, sizeof(REAL)), *omega = take(mem, n * l, sizeof(REAL)),
         *y = take(mem, m * l, sizeof(REAL)), *bt = take(mem, n * l, sizeof(REAL)),
         *w = take(mem, n * l, sizeof(REAL)), *x = take(mem, l * l, sizeof(REAL)),
         *sig = take(mem, l, sizeof(REAL));
    *rank = 0;
    if (bad)
        return bad;
    NAME(copy)(m, n, a0, lda, a, m, e);
    NAME(samples)(q->seed, n, 0, l, omega);
    NAME(product)('N', m, l, n, a, m, omega, n, y);
    NAME(orthonormal)(mem, m, l, y);
    for (int p = 0; p < q->power; p++) {
        NAME(product)('T', n, l, m, a, m, y, m, bt);
        NAME(orthonormal)(mem, n, l, bt);
        NAME(product)('N', m, l, n, a, m, bt, n, y);
        NAME(orthonormal)(mem, m, l, y);
    }
    NAME(product)('T', n, l, m, a, m, y, m, bt);
    if (cut.kind == 'A')
        cut.tol = ldexp(cut.tol, e);
    const int info = NAME(svd)(mem, q->jobv, q->jobu, &cut, n, l, bt, n, sig, w, n, x, l, rank);
    REAL *left = take(mem, m * l, sizeof(REAL));
    if (q->jobu != 'N')
        NAME(product)('N', m, *rank, l, y, m, x, l, left);
    for (int64_t p = 0; p < batch_least(k, cut.most); p++)
        s[p] = p < *rank ? NAME(scaled)(sig[p], -e) : 0;
    for (int64_t p = 0; p < *rank; p++) {
        const REAL turn = q->jobu != 'N' && NAME(negative)(m, left + p * m) ? -1 : 1;
        for (int64_t i = 0; q->jobu != 'N' && i < m; i++)
            u[i + p * ldu] = NAME(scaled)(turn * left[i + p * m], q->jobu == 'S' ? -e : 0);
        for (int64_t i = 0; q->jobv != 'N' && i < n; i++)
            v[i + p * ldv] = NAME(scaled)(turn * w[i + p * n], q->jobv == 'S' ? -e : 0);
    }
    return info;
}

/* What the rounds of ara have found: p columns of Q as reflectors, B = Q^T A, and the square of
 * the norm of A - Q B. */
typedef struct {
    REAL *q, *tau, *bt;
    int64_t p;
    double rest, before, t; /* before: rest a round ago */
    bool reached, exact;    /* exact: rest is no estimate */
} NAME(range);

/* Samples are drawn in blocks. */
static int64_t NAME(block)(int64_t k) {
    return k <= 128 ? 16 : 32;
}
/* Columns that are sampled for a matrix of k rows or columns that gets `most`. */
static int64_t NAME(samples_for)(int64_t k, int64_t most) {
    const int64_t block = NAME(block)(k);
    return batch_least(k, (most + block - 1) / block * block);
}

/* Whether `most` columns will not do: what is left shrinks by the round, and goes on to shrink no
 * faster than that (values of covariances decay ever more slowly), with some reserve. */
static bool NAME(hopeless)(const NAME(range) * f, int64_t most, int64_t block) {
    const double rounds = (double)(most - f->p) / (double)block;
    return f->exact && f->p >= 2 * block && f->before > 0 &&
           f->rest * pow(f->rest / f->before, 1.25 * rounds) > f->t * f->t;
}

/* One round: `l` more columns of Q. Returns false when the residual is too small for them. */
static bool NAME(round)(arena *mem, NAME(range) * f, uint64_t seed, int64_t m, int64_t n, int64_t l,
                        const REAL *a, bool exact) {
    const size_t mark = mem->used;
    REAL *omega = take(mem, n * l, sizeof(REAL)), *y = f->q + f->p * m, *qi;
    NAME(samples)(seed, n, f->p, l, omega);
    NAME(product)('N', m, l, n, a, m, omega, n, y);
    NAME(ormqr)(mem, 'L', 'T', m, l, f->p, f->q, m, f->tau, y, m);
    if (!exact) { /* what is left of the samples estimates what is left of A */
        double s = 0;
        for (int64_t j = 0; j < l; j++)
            s += NAME(square)(m - f->p, y + f->p + j * m);
        if (3 * s / (double)l <= f->t * f->t / 4) {
            f->rest = f->t * f->t / 4;
            mem->used = mark;
            return false;
        }
    }
    NAME(geqrf)(mem, m - f->p, l, y + f->p, m, f->tau + f->p);
    qi = take(mem, m * l, sizeof(REAL));
    for (int64_t j = 0; j < l; j++)
        qi[f->p + j + j * m] = 1;
    NAME(ormqr)(mem, 'L', 'N', m, l, f->p + l, f->q, m, f->tau, qi, m);
    NAME(product)('T', n, l, m, a, m, qi, m, f->bt + f->p * n);
    f->rest -= NAME(square)(n * l, f->bt + f->p * n);
    f->p += l;
    f->rest = f->p == batch_least(m, n) || f->rest < 0 ? 0 : f->rest;
    mem->used = mark;
    return true;
}

/* A lower bound of the spectral norm: columns of B, and the mean of the squares of all values. */
static double NAME(spectral)(const NAME(range) * f, int64_t m, int64_t n, double all) {
    double most = all / (double)batch_least(m, n);
    for (int64_t j = 0; j < f->p; j++)
        most = fmax(most, NAME(square)(n, f->bt + j * n));
    return sqrt(most);
}

static NAME(range) NAME(found)(arena *mem, const cut_one *cut, uint64_t seed, int64_t m, int64_t n,
                               const REAL *a, int e) {
    const int64_t k = batch_least(m, n), block = NAME(block)(k),
                  most = NAME(samples_for)(k, cut->most);
    const double all = NAME(square)(m * n, a), least = EXACT_LEAST * sqrt(all);
    NAME(range)
    f = {.q = take(mem, m * most, sizeof(REAL)),
         .tau = take(mem, most, sizeof(REAL)),
         .bt = take(mem, n * most, sizeof(REAL)),
         .rest = all};
    for (;;) {
        f.t = cut->kind == 'A'   ? ldexp(cut->tol, e)
              : cut->norm == 'F' ? cut->tol * sqrt(all)
                                 : cut->tol * NAME(spectral)(&f, m, n, all);
        /* below `least` the difference may be 0 by its roundings */
        f.exact = f.t >= least;
        f.reached = f.rest <= f.t * f.t && (f.exact || f.p == k || all == 0);
        if ((f.reached && f.rest <= BATCH_ARA_SHARE * f.t * f.t) || f.p == most)
            return f;
        if (cut->or_nothing && NAME(hopeless)(&f, most, block))
            return f;
        f.before = f.rest;
        if (!NAME(round)(mem, &f, seed, m, n, batch_least(block, most - f.p), a, f.exact)) {
            f.reached = true;
            return f;
        }
    }
}

/* Both factors by square roots of sigma: those of u and v, of which `carried` have sigma. */
static void NAME(share)(int64_t rows, REAL *x, double root) {
    for (int64_t i = 0; i < rows; i++)
        x[i] = (REAL)(x[i] * root);
}

static int NAME(ara)(arena *mem, const call *q, cut_one cut, int64_t m, int64_t n, const REAL *a0,
                     int64_t lda, REAL *u, int64_t ldu, REAL *v, int64_t ldv, int64_t *rank) {
    const int bad = NAME(bad_column)(a0, lda, m, n), e = bad ? 0 : NAME(exponent)(a0, lda, m, n);
    REAL *a = take(mem, m * n, sizeof(REAL)), *w, *x, *left, *sig;
    *rank = 0;
    if (bad)
        return bad;
    NAME(copy)(m, n, a0, lda, a, m, e);
    const NAME(range) f = NAME(found)(mem, &cut, q->seed, m, n, a, e);
    if (cut.or_nothing && !f.reached && cut.tol > 0) {
        const int64_t k = batch_least(m, n), later = NAME(samples_for)(k, cut.later);
        return cut.later > cut.most && NAME(hopeless)(&f, later, NAME(block)(k)) ? -4 : -3;
    }
    const double spare = f.t * f.t - f.rest;
    const cut_one last = {.on = true,
                          .tol = spare > 0 ? sqrt(spare) : 0,
                          .kind = 'A',
                          .norm = cut.norm,
                          .most = cut.most,
                          .sweeps_most = cut.sweeps_most};
    w = take(mem, n * f.p, sizeof(REAL)), x = take(mem, f.p * f.p, sizeof(REAL));
    left = take(mem, m * f.p, sizeof(REAL)), sig = take(mem, f.p, sizeof(REAL));
    int info = NAME(svd)(mem, q->job == 'L' ? 'S' : 'U', q->job == 'R' ? 'S' : 'U', &last, n, f.p,
                         f.bt, n, sig, w, n, x, f.p, rank);
    NAME(copy)(f.p, *rank, x, f.p, left, m, 0);
    NAME(ormqr)(mem, 'L', 'N', m, *rank, f.p, f.q, m, f.tau, left, m);
    NAME(copy)(m, *rank, left, m, u, ldu, q->job == 'R' ? -e : 0);
    NAME(copy)(n, *rank, w, n, v, ldv, q->job == 'L' ? -e : 0);
    for (int64_t p = 0; p < *rank && q->job == 'B'; p++) {
        const double root = sqrt(ldexp(sig[p], -e));
        NAME(share)(m, u + p * ldu, root), NAME(share)(n, v + p * ldv, root);
    }
    return info == 0 && !f.reached && cut.tol > 0 ? -3 : info;
}

/* dst (rows x (k + k2)) := 2^e [f1 a, f2 b]; factors of 0 give no columns (k or k2 is 0 then). */
static int NAME(beside)(int64_t rows, int64_t k, REAL f1, const REAL *a, int64_t lda, int64_t k2,
                        REAL f2, const REAL *b, int64_t ldb, REAL *dst) {
    NAME(copy)(rows, k, a, lda, dst, rows, 0);
    NAME(copy)(rows, k2, b, ldb, dst + rows * k, rows, 0);
    for (int64_t i = 0; i < rows * (k + k2); i++)
        dst[i] *= i < rows * k ? f1 : f2;
    const int e = NAME(exponent)(dst, rows, rows, k + k2);
    NAME(copy)(rows, k + k2, dst, rows, dst, rows, e);
    return e;
}

/* f (m x k), g (n x k): f g^T = x y^T, cut; x orthonormal m x r, y n x r carries the singular
 * values. Only R of g's QR is formed. f is lost. e: f g^T is 2^e times the sum. */
static int NAME(compressed)(arena *mem, cut_one cut, int e, int64_t m, int64_t n, int64_t k,
                            REAL *f, const REAL *g, REAL *sig, REAL *x, REAL *y, int64_t *rank) {
    const int64_t kf = batch_least(m, k), kg = batch_least(n, k);
    REAL *tau = take(mem, k, sizeof(REAL)), *g2 = take(mem, n * k, sizeof(REAL)),
         *ru = take(mem, kf * k, sizeof(REAL)), *rv = take(mem, k * kg, sizeof(REAL)),
         *core = take(mem, kf * kg, sizeof(REAL)), *left = take(mem, kf * kf, sizeof(REAL)),
         *w = take(mem, k * kf, sizeof(REAL));
    memcpy(g2, g, sizeof(REAL) * (size_t)(n * k));
    NAME(geqrf)(mem, n, k, g2, n, tau);
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < kg; i++)
            rv[j + i * k] = i <= j ? g2[i + j * n] : 0; /* transposed */
    NAME(geqrf)(mem, m, k, f, m, tau);
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < kf; i++)
            ru[i + j * kf] = i <= j ? f[i + j * m] : 0;
    NAME(product)('N', kf, kg, k, ru, kf, rv, k, core);
    if (cut.kind == 'A')
        cut.tol = ldexp(cut.tol, e);
    const int info = NAME(svd)(mem, 'U', 'N', &cut, kf, kg, core, kf, sig, left, kf, NULL, 1, rank);
    NAME(product)('T', k, *rank, kf, ru, kf, left, kf, w);
    NAME(product)('N', n, *rank, k, g, n, w, k, y);
    NAME(copy)(kf, *rank, left, kf, x, m, 0);
    NAME(ormqr)(mem, 'L', 'N', m, *rank, kf, f, m, tau, x, m);
    return info;
}

static int NAME(recompress)(arena *mem, const call *q, cut_one cut, int64_t m, int64_t n, REAL beta,
                            int64_t k, REAL *u, int64_t ldu, REAL *v, int64_t ldv, REAL alpha,
                            int64_t k2, const REAL *u2, int64_t ldu2, const REAL *v2, int64_t ldv2,
                            int64_t *rank) {
    int64_t column = 0, r;
    const REAL *const part[] = {u, v, u2, v2};
    const int64_t lds[] = {ldu, ldv, ldu2, ldv2};
    *rank = 0;
    for (int p = 0; p < 4; p++) { /* NaN in what is read, by the column of [U V U2 V2] */
        const int64_t width = p < 2 ? k : k2;
        const bool used = p < 2 ? beta != 0 : alpha != 0;
        const int bad = used ? NAME(bad_column)(part[p], lds[p], p % 2 ? n : m, width) : 0;
        if (bad)
            return (int)column + bad;
        column += width;
    }
    k = beta != 0 ? k : 0, k2 = alpha != 0 ? k2 : 0;
    const int64_t kk = k + k2;
    REAL *f = take(mem, m * kk, sizeof(REAL)), *g = take(mem, n * kk, sizeof(REAL)),
         *x = take(mem, m * kk, sizeof(REAL)), *y = take(mem, n * kk, sizeof(REAL)),
         *sig = take(mem, kk, sizeof(REAL));
    const int e = NAME(beside)(m, k, 1, u, ldu, k2, 1, u2, ldu2, f) +
                  NAME(beside)(n, k, beta, v, ldv, k2, alpha, v2, ldv2, g);
    const int info = q->job == 'R' ? NAME(compressed)(mem, cut, e, n, m, kk, g, f, sig, y, x, rank)
                                   : NAME(compressed)(mem, cut, e, m, n, kk, f, g, sig, x, y, rank);
    r = *rank;
    NAME(copy)(m, r, x, m, u, ldu, q->job == 'R' ? -e : 0);
    NAME(copy)(n, r, y, n, v, ldv, q->job == 'L' ? -e : 0);
    for (int64_t p = 0; p < r && q->job == 'B'; p++) { /* y has sigma 2^e */
        NAME(share)(m, u + p * ldu, sqrt(ldexp(sig[p], -e)));
        NAME(share)(n, v + p * ldv, sqrt(ldexp(sig[p], -e)) / sig[p]);
    }
    return info;
}
