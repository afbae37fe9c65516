/* The dense operations and the products of FP16 numbers, with their arguments checked. */
#include "checked.h"

status checked_alloc(backend_ctx *ctx, size_t bytes, void **p) {
    const status st = backend_own(ctx)->alloc(ctx, bytes, p);
    if (st == MOAO_OK)
        extents_add(*p, bytes);
    return st;
}

void checked_release(backend_ctx *ctx, void *p) {
    extents_remove(p);
    backend_own(ctx)->release(ctx, p);
}

status checked_copy(backend_ctx *ctx, void *dst, int64_t ldd, const void *src, int64_t lds,
                    int64_t rows, int64_t cols) {
    const status st = extents_check(
        MOAO_OK, "copy", 2, (extent[]){{dst, rows, cols, ldd, 1}, {src, rows, cols, lds, 1}});
    return st == MOAO_OK ? backend_own(ctx)->copy(ctx, dst, ldd, src, lds, rows, cols) : st;
}

status checked_mirror(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a,
                      int64_t lda) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is(uplo, "LU") && backend_ld_ok(n, lda);
    const extent x[] = {{a, n, n, lda, backend_size(t)}};
    const status st =
        extents_check(checked_admit(own, own->mirror, fine, "mirror"), "mirror", 1, x);
    return st == MOAO_OK ? own->mirror(ctx, t, uplo, n, a, lda) : st;
}

status checked_gather(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, const int64_t *rows,
                      const int64_t *cols, const void *a, int64_t lda, int beta, void *b,
                      int64_t ldb) {
    const backend *own = backend_own(ctx);
    const bool fine = (t == BACKEND_D || t == BACKEND_S) && m >= 0 && n >= 0 && lda >= 1 &&
                      (rows != NULL || backend_ld_ok(m, lda)) && (beta == 0 || beta == 1) &&
                      backend_ld_ok(m, ldb);
    const extent x[] = {{b, m, n, ldb, backend_size(t)}};
    const status st =
        extents_check(checked_admit(own, own->gather, fine, "gather"), "gather", 1, x);
    return st == MOAO_OK ? own->gather(ctx, t, m, n, rows, cols, a, lda, beta, b, ldb) : st;
}

status checked_gemm(backend_ctx *ctx, backend_type t, char transa, char transb, int64_t m,
                    int64_t n, int64_t k, const void *alpha, const void *a, int64_t lda,
                    const void *b, int64_t ldb, const void *beta, void *c, int64_t ldc, void *work,
                    size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is(transa, "NTC") && backend_is(transb, "NTC") && m >= 0 && n >= 0 &&
                      k >= 0 && backend_ld_ok(transa == 'N' ? m : k, lda) &&
                      backend_ld_ok(transb == 'N' ? k : n, ldb) && backend_ld_ok(m, ldc);
    const bool na = transa == 'N', nb = transb == 'N';
    const extent x[] = {{a, na ? m : k, na ? k : m, lda, backend_size(t)},
                        {b, nb ? k : n, nb ? n : k, ldb, backend_size(t)},
                        {c, m, n, ldc, backend_size(t)}};
    const status st = extents_check(checked_admit(own, own->gemm, fine, "gemm"), "gemm", 3, x);
    return st == MOAO_OK ? own->gemm(ctx, t, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta,
                                     c, ldc, work, lwork)
                         : st;
}

/* ---- triangles */

static bool tri_ok(char side, char uplo, char trans, char diag, int64_t m, int64_t n, int64_t lda,
                   int64_t ldb) {
    return backend_is(side, "LR") && backend_is(uplo, "LU") && backend_is(trans, "NTC") &&
           backend_is(diag, "NU") && m >= 0 && n >= 0 && backend_ld_ok(side == 'L' ? m : n, lda) &&
           backend_ld_ok(m, ldb);
}

#define TRIANGULAR(op)                                                                             \
    status checked_##op(backend_ctx *ctx, backend_type t, char side, char uplo, char trans,        \
                        char diag, int64_t m, int64_t n, const void *alpha, const void *a,         \
                        int64_t lda, void *b, int64_t ldb, void *work, size_t lwork) {             \
        const backend *own = backend_own(ctx);                                                     \
        const int64_t order = side == 'L' ? m : n;                                                 \
        const extent x[] = {{a, order, order, lda, backend_size(t)},                               \
                            {b, m, n, ldb, backend_size(t)}};                                      \
        const status st = extents_check(                                                           \
            checked_admit(own, own->op, tri_ok(side, uplo, trans, diag, m, n, lda, ldb), #op),     \
            #op, 2, x);                                                                            \
        return st == MOAO_OK ? own->op(ctx, t, side, uplo, trans, diag, m, n, alpha, a, lda, b,    \
                                       ldb, work, lwork)                                           \
                             : st;                                                                 \
    }
TRIANGULAR(trsm)
TRIANGULAR(trmm)
TRIANGULAR(trsm_host)
TRIANGULAR(trmm_host)

#define OVER_CONTEXTS(op)                                                                          \
    status checked_##op(int count, backend_ctx *const *ctx, backend_type t, char side, char uplo,  \
                        char trans, char diag, int64_t size, const int64_t *part,                  \
                        const void *alpha, const void *a, int64_t lda, void *const *b,             \
                        const int64_t *ldb, void *const *dev, const size_t *ldev) {                \
        if (count == 0)                                                                            \
            return MOAO_OK;                                                                        \
        const backend *own = backend_own(ctx[0]);                                                  \
        bool fine = count > 0;                                                                     \
        for (int g = 0; fine && g < count; g++)                                                    \
            fine = tri_ok(side, uplo, trans, diag, side == 'L' ? size : part[g],                   \
                          side == 'L' ? part[g] : size, lda, ldb[g]);                              \
        const status st = checked_admit(own, own->op, fine, #op);                                  \
        return st == MOAO_OK ? own->op(count, ctx, t, side, uplo, trans, diag, size, part, alpha,  \
                                       a, lda, b, ldb, dev, ldev)                                  \
                             : st;                                                                 \
    }
OVER_CONTEXTS(trsm_multi)
OVER_CONTEXTS(trmm_multi)

/* ---- symmetric matrices */

status checked_symm(backend_ctx *ctx, backend_type t, char side, char uplo, int64_t m, int64_t n,
                    const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                    const void *beta, void *c, int64_t ldc, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && backend_is(side, "LR") && backend_is(uplo, "LU") &&
                      m >= 0 && n >= 0 && backend_ld_ok(side == 'L' ? m : n, lda) &&
                      backend_ld_ok(m, ldb) && backend_ld_ok(m, ldc);
    const status st = checked_admit(own, own->symm, fine, "symm");
    return st == MOAO_OK ? own->symm(ctx, t, side, uplo, m, n, alpha, a, lda, b, ldb, beta, c, ldc,
                                     work, lwork)
                         : st;
}

/* syrk, and syr2k with its second factor. */
static bool rank_ok(backend_type t, char uplo, char trans, int64_t n, int64_t k, int64_t lda,
                    int64_t ldb, int64_t ldc) {
    const int64_t rows = trans == 'N' ? n : k;
    return backend_is_real(t) && backend_is(uplo, "LU") && backend_is(trans, "NTC") && n >= 0 &&
           k >= 0 && backend_ld_ok(rows, lda) && backend_ld_ok(rows, ldb) && backend_ld_ok(n, ldc);
}

status checked_syrk(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                    const void *alpha, const void *a, int64_t lda, const void *beta, void *c,
                    int64_t ldc, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = rank_ok(t, uplo, trans, n, k, lda, lda, ldc);
    const bool na = trans == 'N';
    const extent x[] = {{a, na ? n : k, na ? k : n, lda, backend_size(t)},
                        {c, n, n, ldc, backend_size(t)}};
    const status st = extents_check(checked_admit(own, own->syrk, fine, "syrk"), "syrk", 2, x);
    return st == MOAO_OK
               ? own->syrk(ctx, t, uplo, trans, n, k, alpha, a, lda, beta, c, ldc, work, lwork)
               : st;
}

status checked_syr2k(backend_ctx *ctx, backend_type t, char uplo, char trans, int64_t n, int64_t k,
                     const void *alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                     const void *beta, void *c, int64_t ldc, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = rank_ok(t, uplo, trans, n, k, lda, ldb, ldc);
    const status st = checked_admit(own, own->syr2k, fine, "syr2k");
    return st == MOAO_OK ? own->syr2k(ctx, t, uplo, trans, n, k, alpha, a, lda, b, ldb, beta, c,
                                      ldc, work, lwork)
                         : st;
}

/* ---- factors; the order of a failing minor is an int */

static bool triangle_ok(backend_type t, char uplo, int64_t n, int64_t lda) {
    return backend_is_real(t) && backend_is(uplo, "LU") && backend_ld_ok(n, lda) && n < INT32_MAX;
}

#define FACTOR(op)                                                                                 \
    status checked_##op(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a,           \
                        int64_t lda, int *info, void *work, size_t lwork) {                        \
        const backend *own = backend_own(ctx);                                                     \
        const extent x[] = {{a, n, n, lda, backend_size(t)}};                                      \
        const status st = extents_check(                                                           \
            checked_admit(own, own->op, triangle_ok(t, uplo, n, lda), #op), #op, 1, x);            \
        return st == MOAO_OK ? own->op(ctx, t, uplo, n, a, lda, info, work, lwork) : st;           \
    }
FACTOR(potrf)
FACTOR(potri)
FACTOR(poti)

status checked_trtri(backend_ctx *ctx, backend_type t, char uplo, char diag, int64_t n, void *a,
                     int64_t lda, int *info, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = triangle_ok(t, uplo, n, lda) && backend_is(diag, "NU");
    const status st = checked_admit(own, own->trtri, fine, "trtri");
    return st == MOAO_OK ? own->trtri(ctx, t, uplo, diag, n, a, lda, info, work, lwork) : st;
}

status checked_lauum(backend_ctx *ctx, backend_type t, char uplo, int64_t n, void *a, int64_t lda,
                     void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const status st = checked_admit(own, own->lauum, triangle_ok(t, uplo, n, lda), "lauum");
    return st == MOAO_OK ? own->lauum(ctx, t, uplo, n, a, lda, work, lwork) : st;
}

status checked_potrs(backend_ctx *ctx, backend_type t, char uplo, int64_t n, int64_t nrhs,
                     const void *a, int64_t lda, void *b, int64_t ldb, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = triangle_ok(t, uplo, n, lda) && nrhs >= 0 && backend_ld_ok(n, ldb);
    const status st = checked_admit(own, own->potrs, fine, "potrs");
    return st == MOAO_OK ? own->potrs(ctx, t, uplo, n, nrhs, a, lda, b, ldb, work, lwork) : st;
}

status checked_posv(backend_ctx *ctx, backend_type t, char uplo, int64_t n, int64_t nrhs, void *a,
                    int64_t lda, void *b, int64_t ldb, int *info, void *work, size_t lwork) {
    const backend *own = backend_own(ctx);
    const bool fine = triangle_ok(t, uplo, n, lda) && nrhs >= 0 && backend_ld_ok(n, ldb);
    const status st = checked_admit(own, own->posv, fine, "posv");
    return st == MOAO_OK ? own->posv(ctx, t, uplo, n, nrhs, a, lda, b, ldb, info, work, lwork) : st;
}

/* ---- halves */

static status fp16_max_abs(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, const void *a,
                           int64_t lda, double *out) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && n >= 0 && backend_ld_ok(m, lda);
    const status st = checked_admit(own, own->fp16->max_abs, fine, "max_abs");
    return st == MOAO_OK ? own->fp16->max_abs(ctx, t, m, m > 0 ? n : 0, a, lda, out) : st;
}

static status fp16_cast_to_fp16(backend_ctx *ctx, backend_type t, int64_t m, int64_t n,
                                int exponent, const void *a, int64_t lda, backend_f16 *h,
                                int64_t ldh) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && n >= 0 && backend_ld_ok(m, lda) &&
                      backend_ld_ok(m, ldh) && exponent >= -1000 && exponent <= 1000;
    const status st = extents_check(
        checked_admit(own, own->fp16->cast_to_fp16, fine, "cast_to_fp16"), "cast_to_fp16", 2,
        (extent[]){{a, m, n, lda, backend_size(t)}, {h, m, n, ldh, sizeof *h}});
    return st == MOAO_OK ? own->fp16->cast_to_fp16(ctx, t, m, n, exponent, a, lda, h, ldh) : st;
}

static status fp16_gemm_checked(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                                int64_t k, float alpha, const backend_f16 *a, int64_t lda,
                                const backend_f16 *b, int64_t ldb, float beta, float *c,
                                int64_t ldc) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is(transa, "NT") && backend_is(transb, "NT") && m >= 0 && n >= 0 &&
                      k >= 0 && backend_ld_ok(transa == 'N' ? m : k, lda) &&
                      backend_ld_ok(transb == 'N' ? k : n, ldb) && backend_ld_ok(m, ldc);
    const bool na = transa == 'N', nb = transb == 'N';
    const extent x[] = {{a, na ? m : k, na ? k : m, lda, sizeof *a},
                        {b, nb ? k : n, nb ? n : k, ldb, sizeof *b},
                        {c, m, n, ldc, sizeof *c}};
    const char *name = "gemm of FP16 numbers";
    const status st = extents_check(checked_admit(own, own->fp16->gemm, fine, name), name, 3, x);
    return st == MOAO_OK
               ? own->fp16->gemm(ctx, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
               : st;
}

static status fp16_gemm_rounded(backend_ctx *ctx, char transa, char transb, int64_t m, int64_t n,
                                int64_t k, float alpha, int count, const fp16_product *p,
                                int64_t lda, int64_t ldb, float beta, float *c, int64_t ldc) {
    const backend *own = backend_own(ctx);
    bool fine = backend_is(transa, "NT") && backend_is(transb, "NT") && m >= 0 && n >= 0 &&
                k >= 0 && backend_ld_ok(transa == 'N' ? m : k, lda) &&
                backend_ld_ok(transb == 'N' ? k : n, ldb) && backend_ld_ok(m, ldc) && count >= 1 &&
                count <= FP16_MOST_PRODUCTS;
    for (int i = 0; fine && i < count; i++)
        fine = p[i].depth >= 1;
    const status st =
        checked_admit(own, own->fp16->gemm_rounded, fine, "rounded gemm of FP16 numbers");
    return st == MOAO_OK ? own->fp16->gemm_rounded(ctx, transa, transb, m, n, k, alpha, count, p,
                                                   lda, ldb, beta, c, ldc)
                         : st;
}

static status fp16_cast_to_double(backend_ctx *ctx, int64_t m, int64_t n, double alpha,
                                  const float *x, int64_t ldx, double beta, double *y,
                                  int64_t ldy) {
    const backend *own = backend_own(ctx);
    const bool fine = n >= 0 && backend_ld_ok(m, ldx) && backend_ld_ok(m, ldy);
    const status st = extents_check(
        checked_admit(own, own->fp16->cast_to_double, fine, "cast_to_double"), "cast_to_double", 2,
        (extent[]){{x, m, n, ldx, sizeof *x}, {y, m, n, ldy, sizeof *y}});
    return st == MOAO_OK ? own->fp16->cast_to_double(ctx, m, n, alpha, x, ldx, beta, y, ldy) : st;
}

static status fp16_cast_to_single(backend_ctx *ctx, int64_t m, int64_t n, const double *x,
                                  int64_t ldx, float *y, int64_t ldy) {
    const backend *own = backend_own(ctx);
    const bool fine = n >= 0 && backend_ld_ok(m, ldx) && backend_ld_ok(m, ldy);
    const status st = extents_check(
        checked_admit(own, own->fp16->cast_to_single, fine, "cast_to_single"), "cast_to_single", 2,
        (extent[]){{x, m, n, ldx, sizeof *x}, {y, m, n, ldy, sizeof *y}});
    return st == MOAO_OK ? own->fp16->cast_to_single(ctx, m, n, x, ldx, y, ldy) : st;
}

static status fp16_split(backend_ctx *ctx, backend_type t, char part, int64_t m, int64_t n,
                         int exponent, const void *a, int64_t lda, backend_f16 *h, int64_t ldh,
                         backend_f16 *r, int64_t ldr) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && backend_is(part, "AL") && n >= 0 &&
                      backend_ld_ok(m, lda) && backend_ld_ok(m, ldh) && backend_ld_ok(m, ldr) &&
                      exponent >= -1000 && exponent <= 1000;
    const extent x[] = {
        {a, m, n, lda, backend_size(t)}, {h, m, n, ldh, sizeof *h}, {r, m, n, ldr, sizeof *r}};
    const status st =
        extents_check(checked_admit(own, own->fp16->split, fine, "split"), "split", 3, x);
    return st == MOAO_OK ? own->fp16->split(ctx, t, part, m, n, exponent, a, lda, h, ldh, r, ldr)
                         : st;
}

static status fp16_join(backend_ctx *ctx, int64_t m, int64_t n, int exponent, const backend_f16 *h,
                        int64_t ldh, const backend_f16 *r, int64_t ldr, double *y, int64_t ldy) {
    const backend *own = backend_own(ctx);
    const bool fine = n >= 0 && backend_ld_ok(m, ldh) && backend_ld_ok(m, ldr) &&
                      backend_ld_ok(m, ldy) && exponent >= -1000 && exponent <= 1000;
    const extent x[] = {
        {h, m, n, ldh, sizeof *h}, {r, m, n, ldr, sizeof *r}, {y, m, n, ldy, sizeof *y}};
    const status st =
        extents_check(checked_admit(own, own->fp16->join, fine, "join"), "join", 3, x);
    return st == MOAO_OK ? own->fp16->join(ctx, m, n, exponent, h, ldh, r, ldr, y, ldy) : st;
}

static status fp16_squares(backend_ctx *ctx, backend_type t, int64_t m, int64_t n, const void *a,
                           int64_t lda, int64_t tile, double *out, int64_t ldo) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && n >= 0 && backend_ld_ok(m, lda) && tile >= 1 &&
                      n / tile < 65535 && backend_ld_ok(m / tile + (m % tile > 0), ldo);
    const status st = checked_admit(own, own->fp16->squares, fine, "squares");
    if (st == MOAO_OK && (m == 0 || n == 0))
        return st;
    return st == MOAO_OK ? own->fp16->squares(ctx, t, m, n, a, lda, tile, out, ldo) : st;
}

static status fp16_cast_pieces(backend_ctx *ctx, int64_t count, const fp16_piece *p) {
    const backend *own = backend_own(ctx);
    bool fine = count >= 0;
    for (int64_t k = 0; k < count; k++)
        fine = fine && p[k].n >= 0;
    const status st = checked_admit(own, own->fp16->cast_pieces, fine, "cast_pieces");
    return st == MOAO_OK ? own->fp16->cast_pieces(ctx, count, p) : st;
}

const backend_fp16 checked_fp16 = {
    .size = sizeof(backend_fp16),
    .max_abs = fp16_max_abs,
    .cast_to_fp16 = fp16_cast_to_fp16,
    .gemm = fp16_gemm_checked,
    .gemm_rounded = fp16_gemm_rounded,
    .cast_to_double = fp16_cast_to_double,
    .cast_to_single = fp16_cast_to_single,
    .split = fp16_split,
    .join = fp16_join,
    .squares = fp16_squares,
    .cast_pieces = fp16_cast_pieces,
};

/* ---- sparse matrices */

static status times(backend_ctx *ctx, backend_type t, const backend_rows *s, int64_t n,
                    double alpha, const void *a, int64_t lda, double beta, void *c, int64_t ldc) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && s->width >= 0 && n >= 0 &&
                      backend_ld_ok(s->cols, lda) && backend_ld_ok(s->rows, ldc);
    const status st = checked_admit(own, own->sparse->times, fine, "product with a sparse matrix");
    return st == MOAO_OK ? own->sparse->times(ctx, t, s, n, alpha, a, lda, beta, c, ldc) : st;
}

static status filter(backend_ctx *ctx, backend_type t, const backend_filter *f, int64_t n,
                     double alpha, const void *a, int64_t lda, double beta, void *b, int64_t ldb) {
    const backend *own = backend_own(ctx);
    const bool fine = backend_is_real(t) && f->n >= 0 && f->squares >= 0 && f->corners >= 0 &&
                      f->reach >= 0 && f->reach <= BACKEND_REACH && n >= 0 &&
                      backend_ld_ok(2 * f->squares, lda) && backend_ld_ok(f->corners, ldb);
    const status st =
        checked_admit(own, own->sparse->filter, fine, "product with an interaction matrix");
    return st == MOAO_OK ? own->sparse->filter(ctx, t, f, n, alpha, a, lda, beta, b, ldb) : st;
}

const backend_sparse checked_sparse = {
    .size = sizeof(backend_sparse), .times = times, .filter = filter};
