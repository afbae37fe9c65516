/* The reference of the product in FP16 by integer tensor cores (moao/backend_integer.h): its
 * products with W of one target, whose residues are computed once for all of them. */
#include "moao/backend_integer.h"
#include "residual/fp16_internal.h"

#include <string.h>

typedef struct {
    size_t w, columns, work;
} sizes;

static sizes sizes_of(const backend *be, int moduli, int64_t m, int64_t v, int64_t width) {
    const size_t scale = (size_t)(16 * (v > m ? v : m)),
                 product = be->integer->workspace(moduli, v, width);
    return (sizes){integer_bytes(moduli, v, m), (size_t)(moduli * fp16_columns_room(m, width)),
                   scale > product ? scale : product};
}

size_t fp16_integers_bytes(const backend *be, int moduli, int64_t m, int64_t v, int64_t width) {
    const sizes s = sizes_of(be, moduli, m, v, width);
    return s.w + s.columns + s.work + (size_t)(v + m) * sizeof(int32_t);
}

status fp16_integers_open(fp16 *x, int moduli) {
    engine *e = x->base.e;
    fp16_integers *i = &x->integers;
    const sizes s = sizes_of(e->be, moduli, e->m, x->v, e->width);
    const char *what = "residues of the sampled target";
    status st;
    TRY(engine_array(e, s.w, what, (void **)&i->w));
    TRY(engine_array(e, s.columns, what, (void **)&i->columns));
    TRY(engine_array(e, (size_t)x->v * sizeof(int32_t), "exponents", (void **)&i->of_w));
    TRY(engine_array(e, (size_t)e->m * sizeof(int32_t), "exponents", (void **)&i->of_columns));
    TRY(engine_array(e, s.work, "work of products", &i->work));
    i->lwork = s.work;
    i->moduli = moduli;
done:
    return st;
}

void fp16_integers_close(fp16 *x) {
    fp16_integers *i = &x->integers;
    ENGINE_RELEASE(x->base.e, i->w, i->columns, i->of_w, i->of_columns, i->work);
    memset(i, 0, sizeof *i);
}

static status to_residues(const fp16 *x, const integer_matrix *a, const integer_rows *r) {
    const engine *e = x->base.e;
    const fp16_integers *i = &x->integers;
    status st;
    TRY(e->be->integer->scale(e->ctx, i->moduli, e->m, a, r->exponent, i->work, i->lwork));
    TRY(e->be->integer->convert(e->ctx, i->moduli, a, r));
done:
    return st;
}

static integer_rows rows_of_w(const fp16 *x) {
    return integer_plain(x->integers.moduli, x->v, x->base.e->m, x->integers.w, x->integers.of_w);
}

status fp16_integers_take(fp16 *x) {
    const integer_matrix a = {
        .trans = 'N', .m = x->v, .k = x->base.e->m, .lda = x->v, .a = x->exact.w};
    const integer_rows r = rows_of_w(x);
    return x->integers.moduli > 0 ? to_residues(x, &a, &r) : MOAO_OK;
}

status fp16_exact_gemm(fp16 *x, char trans, int64_t from, int64_t k, int64_t n, double alpha,
                       const double *t, int64_t ldt, double *z, int64_t ldz) {
    engine *e = x->base.e;
    const fp16_integers *i = &x->integers;
    const int64_t before = from % INTEGER_STEP; /* of W, with zeros of op(T) */
    /* op(T)' */
    const integer_matrix a = {.trans = trans == 'N' ? 'T' : 'N',
                              .m = n,
                              .k = k + before,
                              .a = t - before * (trans == 'N' ? 1 : ldt),
                              .lda = ldt};
    integer_product p = {.moduli = i->moduli,
                         .part = 'A',
                         .m = x->v,
                         .n = n,
                         .k = a.k,
                         .alpha = alpha,
                         .beta = 1,
                         .c = z,
                         .ldc = ldz};
    status st;
    if (i->moduli == 0)
        return engine_gemm(e, 'N', trans, x->v, n, k, alpha, x->exact.w + from * x->v, x->v, t, ldt,
                           1.0, z, ldz);
    p.a = rows_of_w(x);
    p.a.r[0] += from - before;
    p.b = integer_plain(i->moduli, n, a.k, i->columns, i->of_columns);
    TRY(to_residues(x, &a, &p.b));
    TRY(e->be->integer->gemm(e->ctx, &p, i->work, i->lwork));
done:
    return st;
}
