/* Block-Toeplitz products of the CPU backend: the specification. Transforms are made by steps of
 * radix 4, 2, 3 and 5, for a block of vectors at a time that lie side by side in a register, two
 * vectors as real and imaginary part of one: no kernel of it has to look at single numbers, and the
 * same bits come out on every processor. */
#include "cpu_own.h"

#include "linalg/core/toeplitz_lattice.h"
#include "moao/clones.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Sums are not contracted, so that results do not depend on which clone runs. */
#define ALWAYS __attribute__((always_inline))

typedef struct { /* of a transform */
    int order, n, radix[32];
} steps;

struct backend_toeplitz_plan {
    backend_type type;
    bool half;       /* X comes in FP16 */
    int64_t columns; /* up to the last one of the matrix */
    int n, nimage;
    steps steps;
    size_t total; /* rows of all images */
    int64_t *count, *first;
    int *start, *y;    /* rows of an image by x: start[image][n + 1], y[total] */
    int64_t *column;   /* [total] their numbers in the matrix */
    void *twiddle;     /* [order] exp(-2 pi i k / order) */
    void *symbol;      /* [order][order][nimage][nimage], complex */
    double **diagonal; /* [nimage][nimage] */
    double *diagonals; /* what they point into */
    void *room;        /* of load: one_load bytes a thread */
    size_t one_load;
    int nthread;
};

/* A product, or one of the two calls that it can be made in. */
typedef enum { AT_ONCE, TO_KEPT, FROM_KEPT } product_way;

typedef struct {
    int64_t nvec;
    double alpha, beta;
    const void *x;
    void *y;
    int64_t xv, xc, yv, yc; /* steps from vector to vector and from column to column */
    bool turned;
    product_way way;
    void *kept; /* NULL: AT_ONCE */
} product;

/* Bytes of real parts of a block of vectors, and of registers where there are such; others have
 * half. */
#define TOEPLITZ_BLOCK 64

#define REAL double
#define BYTES 64
#define NAME(x) x##_d
#include "toeplitz_cpu_real.h"
#undef BYTES
#undef NAME
#define BYTES 32
#define NAME(x) x##_half_d
#include "toeplitz_cpu_real.h"
#undef REAL
#undef BYTES
#undef NAME

#define REAL float
#define BYTES 64
#define NAME(x) x##_s
#include "toeplitz_cpu_real.h"
#undef BYTES
#undef NAME
#define BYTES 32
#define NAME(x) x##_half_s
#include "toeplitz_cpu_real.h"
#undef REAL
#undef BYTES
#undef NAME

/* Whether registers are as large as blocks. */
static bool wide(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f");
#else
    return true;
#endif
}

static steps steps_of(int N) {
    const int radix[] = {4, 2, 3, 5};
    steps s = {.order = N};
    for (int i = 0; i < 4; i++)
        for (; N % radix[i] == 0; N /= radix[i])
            s.radix[s.n++] = radix[i];
    return s;
}

/* Bytes of a real number of the transforms. */
static size_t number_size(toeplitz_type t) {
    return t == TOEPLITZ_D ? sizeof(double) : sizeof(float);
}

/* Bytes of a block of vectors, or of LANES pairs of images, in work. */
static size_t block_bytes(const backend_toeplitz_plan *p) {
    const size_t N = (size_t)p->steps.order, g = (size_t)p->nimage;
    return 128 * (N * g * (size_t)p->n + 2 * N * g + 2 * N);
}

static size_t load_bytes(int N) {
    return 128 * ((size_t)N * (size_t)N + 2 * (size_t)N);
}

static size_t bytes(const toeplitz_shape *s, toeplitz_type t) {
    const size_t N = (size_t)toeplitz_order(s->n), g = (size_t)s->nimage;
    return 2 * number_size(t) * N * (N * g * g + 1) +
           (size_t)omp_get_max_threads() * load_bytes((int)N);
}

static void toeplitz_close(backend_toeplitz_plan *p) {
    if (p == NULL)
        return;
    free(p->count), free(p->first), free(p->start), free(p->y), free(p->column);
    free(p->twiddle), free(p->symbol), free(p->diagonal), free(p->diagonals), free(p->room);
    free(p);
}

static void make_twiddles(backend_toeplitz_plan *p) {
    const int N = p->steps.order;
    for (int k = 0; k < N; k++) {
        const double a = 2 * acos(-1.0) * k / N, re = cos(a), im = -sin(a);
        if (p->type == BACKEND_D) {
            ((double *)p->twiddle)[2 * k] = re;
            ((double *)p->twiddle)[2 * k + 1] = im;
        } else {
            ((float *)p->twiddle)[2 * k] = (float)re;
            ((float *)p->twiddle)[2 * k + 1] = (float)im;
        }
    }
}

static status aligned(size_t bytes, void **p) {
    *p = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    return *p != NULL
               ? MOAO_OK
               : status_fail(MOAO_MEMORY, "no memory for %zu bytes of a Toeplitz matrix", bytes);
}

static status toeplitz_open(backend_ctx *ctx, const toeplitz_shape *s, toeplitz_type t,
                            backend_toeplitz_plan **out) {
    const size_t g = (size_t)s->nimage, total = toeplitz_total(s), number = 2 * number_size(t);
    backend_toeplitz_plan *p = NULL;
    status st;
    (void)ctx;
    if (!toeplitz_shape_ok(s, t))
        TRY(status_fail(MOAO_INPUT, "toeplitz: a size or a place is out of range"));
    TRY(ALLOC(p, 1, "Toeplitz matrix"));
    p->type = t == TOEPLITZ_D ? BACKEND_D : BACKEND_S;
    p->half = t == TOEPLITZ_FP16;
    p->n = s->n;
    p->nimage = s->nimage;
    p->steps = steps_of(toeplitz_order(s->n));
    p->total = total;
    p->nthread = omp_get_max_threads();
    p->one_load = load_bytes(p->steps.order);
    TRY(ALLOC(p->count, g, "images"));
    TRY(ALLOC(p->first, g, "images"));
    TRY(ALLOC(p->start, g * ((size_t)s->n + 1), "places of images"));
    TRY(ALLOC(p->y, total, "places of images"));
    TRY(ALLOC(p->column, total, "places of images"));
    TRY(ALLOC(p->diagonal, g * g, "diagonals of images"));
    TRY(ALLOC(p->diagonals, g * total, "diagonals of images"));
    const size_t N = (size_t)p->steps.order;
    TRY(aligned(N * number, &p->twiddle));
    TRY(aligned(N * N * g * g * number, &p->symbol));
    TRY(aligned((size_t)p->nthread * p->one_load, &p->room));
    make_twiddles(p);
    int64_t from = 0;
    for (int i = 0; i < s->nimage; i++) {
        p->count[i] = s->count[i];
        p->first[i] = s->first[i];
        toeplitz_sort(s, i, from, p->start + i * (s->n + 1), p->y, p->column);
        from += s->count[i];
        if (s->first[i] + s->count[i] > p->columns)
            p->columns = s->first[i] + s->count[i];
    }
done:
    if (st != MOAO_OK) {
        toeplitz_close(p);
        p = NULL;
    }
    *out = p;
    return st;
}

static status toeplitz_load(backend_toeplitz_plan *p, const toeplitz_pair *pairs) {
    const int count = p->nimage * p->nimage, lanes = p->type == BACKEND_D ? 8 : 16;
    double *to = p->diagonals;
    if (!toeplitz_values_ok(&(toeplitz_shape){.nimage = p->nimage, .count = p->count}, pairs))
        return status_fail(MOAO_INPUT, "toeplitz: a pair of images is out of range");
    for (int i = 0; i < count; i++) {
        const int64_t n = p->count[i / p->nimage];
        const bool has = pairs[i].diagonal != NULL;
        p->diagonal[i] = has ? to : NULL;
        for (int64_t k = 0; has && k < n; k++)
            *to++ = pairs[i].diagonal[k * pairs[i].stride];
    }
#pragma omp parallel for schedule(dynamic) num_threads(p->nthread)
    for (int from = 0; from < count; from += lanes) {
        void *work = (char *)p->room + (size_t)omp_get_thread_num() * p->one_load;
        if (p->type == BACKEND_D)
            (wide() ? spectra_d : spectra_half_d)(p, pairs, from, work);
        else
            (wide() ? spectra_s : spectra_half_s)(p, pairs, from, work);
    }
    return MOAO_OK;
}

static size_t workspace(const backend_toeplitz_plan *p, int64_t nvec) {
    const size_t floats = p->half ? sizeof(float) * (size_t)(nvec * p->columns) : 0;
    return nvec > 0 ? (size_t)p->nthread * block_bytes(p) + floats : 0;
}

static size_t kept_bytes(const backend_toeplitz_plan *p, int64_t nvec) {
    const size_t N = (size_t)p->steps.order, lanes = p->type == BACKEND_D ? 8 : 16;
    return ((size_t)nvec + 2 * lanes - 1) / (2 * lanes) * 128 * N * N * (size_t)p->nimage;
}

/* Columns of X in FP16 as floats, behind the work of the blocks. */
static void make_floats(const backend_toeplitz_plan *p, product *q, void *work) {
    float *floats = (float *)(void *)((char *)work + (size_t)p->nthread * block_bytes(p));
    for (int64_t j = 0; j < p->columns; j++)
        fp16_cpu_floats(q->nvec, (const backend_f16 *)q->x + j * q->xc, floats + j * q->nvec);
    q->x = floats;
    q->xc = q->nvec;
}

static bool has_diagonals(const backend_toeplitz_plan *p) {
    bool any = false;
    for (int i = 0; i < p->nimage * p->nimage; i++)
        any |= p->diagonal[i] != NULL;
    return any;
}

static void multiply(const backend_toeplitz_plan *p, product *q, void *work) {
    const int64_t lanes = p->type == BACKEND_D ? 8 : 16;
    if (p->half && q->nvec > 0 && (q->way != FROM_KEPT || has_diagonals(p)))
        make_floats(p, q, work);
#pragma omp parallel for schedule(dynamic) num_threads(p->nthread)
    for (int64_t v = 0; v < q->nvec; v += 2 * lanes) {
        void *mine = (char *)work + (size_t)omp_get_thread_num() * block_bytes(p);
        if (p->type == BACKEND_D)
            (wide() ? block_d : block_half_d)(p, q, v, mine);
        else
            (wide() ? block_s : block_half_s)(p, q, v, mine);
    }
    if (q->way == TO_KEPT)
        return;
    if (p->type == BACKEND_D)
        add_diagonals_d(p, q);
    else
        add_diagonals_s(p, q);
}

static product product_of(char side, char trans, int64_t nvec, double alpha, const void *x,
                          int64_t ldx, double beta, void *y, int64_t ldy) {
    const bool left = side == 'L';
    return (product){.nvec = nvec,
                     .alpha = alpha,
                     .beta = beta,
                     .x = x,
                     .y = y,
                     .xv = left ? ldx : 1,
                     .xc = left ? 1 : ldx,
                     .yv = left ? ldy : 1,
                     .yc = left ? 1 : ldy,
                     .turned = left != (trans != 'N')};
}

static status check_call(const backend_toeplitz_plan *p, char side, char trans, int64_t nvec,
                         size_t lwork) {
    return lwork < workspace(p, nvec) || (p->half && (side == 'L' || trans != 'N'))
               ? status_fail(MOAO_INPUT, "toeplitz: work is too small, or a side that is not there")
               : MOAO_OK;
}

static status check_kept(const backend_toeplitz_plan *p, int64_t nvec, size_t lkept) {
    return lkept < kept_bytes(p, nvec)
               ? status_fail(MOAO_INPUT, "toeplitz: no room for what is kept of %lld vectors",
                             (long long)nvec)
               : MOAO_OK;
}

static status apply(backend_toeplitz_plan *p, char side, char trans, int64_t nvec, double alpha,
                    const void *x, int64_t ldx, double beta, void *y, int64_t ldy, void *work,
                    size_t lwork) {
    product q = product_of(side, trans, nvec, alpha, x, ldx, beta, y, ldy);
    const status st = check_call(p, side, trans, nvec, lwork);
    if (st == MOAO_OK)
        multiply(p, &q, work);
    return st;
}

static status keep(backend_toeplitz_plan *p, char side, int64_t nvec, const void *x, int64_t ldx,
                   void *kept, size_t lkept, void *work, size_t lwork) {
    product q = product_of(side, 'N', nvec, 0, x, ldx, 0, NULL, 0);
    status st;
    TRY(check_call(p, side, 'N', nvec, lwork));
    TRY(check_kept(p, nvec, lkept));
    q.way = TO_KEPT;
    q.kept = kept;
    multiply(p, &q, work);
done:
    return st;
}

static status apply_kept(backend_toeplitz_plan *p, char side, char trans, int64_t nvec,
                         double alpha, const void *kept, size_t lkept, const void *x, int64_t ldx,
                         double beta, void *y, int64_t ldy, void *work, size_t lwork) {
    product q = product_of(side, trans, nvec, alpha, x, ldx, beta, y, ldy);
    status st;
    TRY(check_call(p, side, trans, nvec, lwork));
    TRY(check_kept(p, nvec, lkept));
    q.way = FROM_KEPT;
    q.kept = (void *)kept; /* read only, this way */
    multiply(p, &q, work);
done:
    return st;
}

const backend_toeplitz toeplitz_cpu = {.size = sizeof(backend_toeplitz),
                                       .order = toeplitz_order,
                                       .bytes = bytes,
                                       .open = toeplitz_open,
                                       .close = toeplitz_close,
                                       .load = toeplitz_load,
                                       .workspace = workspace,
                                       .apply = apply,
                                       .kept_bytes = kept_bytes,
                                       .keep = keep,
                                       .apply_kept = apply_kept};
