/* Products of dense (d) and low-rank (l) matrices, by the calls of moao/batched.h. A is x[0] x[1]^T
 * or x[0], B x[2] x[3]^T or x[2], C x[4] x[5]^T or x[4]; ranks are --rank, those of C a half. */
#include "tester.h"

EXTERN(gemm);

static int64_t rank_of(const setting *s) {
    int64_t r = s->rank;
    r = r < s->m ? r : s->m;
    r = r < s->n ? r : s->n;
    return r < s->k ? r : s->k;
}
/* Whether operand 0 (A), 1 (B), 2 (C) is of low rank. */
static bool low(const job *j, int which) {
    return j->of->name[5 + which] == 'l';
}
static int64_t room_of_c(const setting *s) {
    const int64_t least = s->m < s->n ? s->m : s->n, sum = rank_of(s) + rank_of(s) / 2;
    return sum < least ? sum : least;
}

typedef struct {
    int64_t *k, *kc; /* of each matrix */
} ranks;

static status operand_new(job *j, int at, bool is_low, int64_t rows, int64_t cols, int64_t rank) {
    const setting *s = j->s;
    status st;
    TRY(array_new(&j->x[at], s, rows, is_low ? rank : cols));
    fill_random(&j->x[at], s->seed + (uint64_t)at);
    if (is_low) {
        TRY(array_new(&j->x[at + 1], s, cols, rank));
        fill_random(&j->x[at + 1], s->seed + 7 + (uint64_t)at);
    }
done:
    return st;
}

static status product_prepare(job *j) {
    const setting *s = j->s;
    const bool na = s->transa == 'N', nb = s->transb == 'N';
    ranks *r = NULL;
    status st;
    TRY(operand_new(j, 0, low(j, 0), na ? s->m : s->k, na ? s->k : s->m, rank_of(s)));
    TRY(operand_new(j, 2, low(j, 1), nb ? s->k : s->n, nb ? s->n : s->k, rank_of(s)));
    TRY(operand_new(j, 4, low(j, 2), s->m, s->n, room_of_c(s)));
    j->x[4].result = 'A', j->x[5].result = low(j, 2) ? 'A' : 0;
    if (low(j, 2)) /* times the tolerance */
        j->limit = 1.01;
    TRY(ALLOC(r, 1, "ranks"));
    j->more = r;
    TRY(ALLOC(r->k, (size_t)s->batch, "ranks"));
    TRY(ALLOC(r->kc, (size_t)s->batch, "ranks"));
    for (int64_t b = 0; b < s->batch; b++)
        r->k[b] = rank_of(s);
    st = job_alloc(j, 0);
done:
    return st;
}
static void product_end(job *j) {
    ranks *r = j->more;
    if (r)
        free(r->k), free(r->kc);
    free(r);
}

static int64_t columns_of_c(const setting *s) {
    return rank_of(s) / 2 < room_of_c(s) ? rank_of(s) / 2 : room_of_c(s);
}

#define X(i) j->x[i].device, ld_of(&j->x[i]), ld_of(&j->x[i]) * j->x[i].cols
#define HEAD ctx, s->transa, s->transb, s->m, s->n, s->k, 2
#define CUT s->tol, 'R', room_of_c(s), r->kc
#define CALLS(p)                                                                                   \
    switch (kind) {                                                                                \
    case 7:                                                                                        \
        return moao_##p##gemm_lll_strided_batched(HEAD, r->k, X(0), X(1), r->k, X(2), X(3), -1,    \
                                                  CUT, X(4), X(5), NULL, s->batch);                \
    case 6:                                                                                        \
        return moao_##p##gemm_dll_strided_batched(HEAD, X(0), r->k, X(2), X(3), -1, CUT, X(4),     \
                                                  X(5), NULL, s->batch);                           \
    case 5:                                                                                        \
        return moao_##p##gemm_ldl_strided_batched(HEAD, r->k, X(0), X(1), X(2), -1, CUT, X(4),     \
                                                  X(5), NULL, s->batch);                           \
    case 3:                                                                                        \
        return moao_##p##gemm_lld_strided_batched(HEAD, r->k, X(0), X(1), r->k, X(2), X(3), -1,    \
                                                  X(4), s->batch);                                 \
    case 2:                                                                                        \
        return moao_##p##gemm_dld_strided_batched(HEAD, X(0), r->k, X(2), X(3), -1, X(4),          \
                                                  s->batch);                                       \
    default:                                                                                       \
        return moao_##p##gemm_ldd_strided_batched(HEAD, r->k, X(0), X(1), X(2), -1, X(4),          \
                                                  s->batch);                                       \
    }

static status product_run(job *j) {
    const setting *s = j->s;
    ranks *r = j->more;
    const int kind = low(j, 0) + 2 * low(j, 1) + 4 * low(j, 2);
    for (int64_t b = 0; b < s->batch; b++)
        r->kc[b] = columns_of_c(s);
    if (s->type == BACKEND_D) {
        CALLS(d)
    } else {
        CALLS(s)
    }
}

/* y := y + f op(operand `at`) x */
static void times(const job *j, int at, bool is_low, int64_t b, char trans, real f, const real *x,
                  real *y) {
    if (!is_low) {
        add_product(given(j, at, b, 'A'), trans, f, x, y);
        return;
    }
    const bool turned = trans != 'N';
    real *z = vector(j->x[at].cols);
    add_product(given(j, turned ? at : at + 1, b, 'A'), 'T', 1, x, z);
    add_product(given(j, turned ? at + 1 : at, b, 'A'), 'N', f, z, y);
    free(z);
}
static real size_of(const job *j, int at, bool is_low, int64_t b) {
    return norm_of(given(j, at, b, 'A')) * (is_low ? norm_of(given(j, at + 1, b, 'A')) : 1);
}

static status product_check(job *j, int64_t b) {
    const setting *s = j->s;
    const ranks *ranks = j->more;
    real *x = random_vector(s->n, s->seed), *y = vector(s->k), *r = vector(s->m), scale;
    times(j, 2, low(j, 1), b, s->transb, 1, x, y);
    times(j, 0, low(j, 0), b, s->transa, -2, y, r);
    if (low(j, 2)) {
        view u = given(j, 4, b, 'A'), v = given(j, 5, b, 'A');
        real *z = vector(s->rank + room_of_c(s));
        u.cols = v.cols = columns_of_c(s);
        add_product(v, 'T', 1, x, z);
        add_product(u, 'N', 1, z, r); /* the C before */
        memset(z, 0, sizeof *z * (size_t)room_of_c(s));
        u = found(j, 4, b, 'A'), v = found(j, 5, b, 'A');
        u.cols = v.cols = j->rank_found[b] = ranks->kc[b];
        add_product(v, 'T', 1, x, z);
        add_product(u, 'N', 1, z, r);
        free(z);
    } else {
        add_product(given(j, 4, b, 'A'), 'N', 1, x, r);
        add_product(found(j, 4, b, 'A'), 'N', 1, x, r);
    }
    scale =
        2 * size_of(j, 0, low(j, 0), b) * size_of(j, 2, low(j, 1), b) + size_of(j, 4, low(j, 2), b);
    if (low(j, 2)) /* the tolerance counts, where it is more than rounding */
        scale *= fmaxl(30, s->tol / eps_of(s->type));
    judge(j, r, s->m, scale * norm(s->n, x), low(j, 2) ? 1 : s->k);
    free(x), free(y), free(r);
    return MOAO_OK;
}

/* The dense product, which a user would compute instead: of what lies in memory, whatever it is. */
static void product_rival(job *j, int64_t b) {
    static const double two = 2, none = 0;
    static const float two_s = 2, none_s = 0;
    const setting *s = j->s;
    const int m = (int)s->m, n = (int)s->n, k = (int)s->k;
    const bool d = s->type == BACKEND_D;
    void *x = calloc((size_t)(s->m * s->k + s->k * s->n + s->m * s->n), backend_size(s->type));
    char *p = x;
    (void)b;
    if (!x)
        abort();
    char *q = p + backend_size(s->type) * (size_t)(s->m * s->k),
         *r = q + backend_size(s->type) * (size_t)(s->k * s->n);
    LAPACK(s->type, gemm)
    ("N", "N", &m, &n, &k, d ? (const void *)&two : &two_s, p, &m, q, &k,
     d ? (const void *)&none : &none_s, r, &m);
    free(x);
}

/* Of the small products, and of the large one where C is dense. */
static double product_flops(const setting *s) {
    const double r = (double)rank_of(s);
    return 2 * r * ((double)s->k * r + (double)s->m * r + (double)s->m * (double)s->n);
}

#define PRODUCT(name, what)                                                                        \
    {                                                                                              \
        name, "products", what, BATCH, product_prepare, product_run, product_check, product_rival, \
            product_flops, product_end                                                             \
    }

const routine product_routines[] = {
    PRODUCT("gemm_lld", "C dense, A and B of --rank; --m, --n, --k, --transa, --transb"),
    PRODUCT("gemm_dld", "C and A dense, B of --rank"),
    PRODUCT("gemm_ldd", "C and B dense, A of --rank"),
    PRODUCT("gemm_lll", "all of low rank, C cut to --tol"),
    PRODUCT("gemm_dll", "A dense, B and C of low rank"),
    PRODUCT("gemm_ldl", "B dense, A and C of low rank"),
    {0}};
