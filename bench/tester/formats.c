/* Tile low-rank, HSS and H2 matrices of covariances between scattered points, block-Toeplitz and
 * sparse products, products of FP16 numbers, the likelihood of a Gaussian process. Errors are
 * measured in units of what the tolerance allows. */
#include "tester.h"

EXTERN(gemm);
EXTERN(potrf);
EXTERN(potrs);

#define NUGGET 0.05
#define LENGTH 0.3

typedef struct {
    double *at;       /* [2 n] points of the unit square */
    tlr_layout rows;  /* TLR */
    tlr *a, *b, *out; /* its operands and result */
    hier_source source;
    format *f;
    int64_t *order;          /* row of the points of each row of the format */
    double *x, *y, *dx, *dy; /* vectors on the host and on the device, n x nrhs */
    moao_gp *gp;
    gp_result likelihood;
    void *buffer[4]; /* of the device */
    backend_toeplitz_plan *plan;
    double *value; /* [(2 n - 1)^2], or entries of rows */
    int *column;
} own;

static own *mine(const job *j) {
    return j->more;
}
static double d(int64_t n) {
    return (double)n;
}
static bool is(const job *j, const char *name) {
    return !strcmp(j->of->name, name);
}

/* Entry of the matrix at points a and b, numbers of the caller. */
static real covariance(const own *o, int64_t a, int64_t b) {
    return expl(-hypotl(o->at[2 * a] - o->at[2 * b], o->at[2 * a + 1] - o->at[2 * b + 1]) /
                LENGTH) +
           (a == b ? NUGGET : 0);
}

static status fill(void *arg, int64_t i0, int64_t ni, int64_t j0, int64_t nj, double *a,
                   int64_t lda) {
    const own *o = arg;
    const int64_t *perm = o->rows.perm;
    double *host = NULL;
    status st;
    TRY(ALLOC(host, (size_t)(ni * nj), "entries"));
#pragma omp parallel for
    for (int64_t c = 0; c < nj; c++)
        for (int64_t r = 0; r < ni; r++) {
            const double *p = o->at + 2 * perm[i0 + r], *q = o->at + 2 * perm[j0 + c];
            host[r + c * ni] = exp(-hypot(p[0] - q[0], p[1] - q[1]) / LENGTH) +
                               (perm[i0 + r] == perm[j0 + c] ? NUGGET : 0);
        }
    TRY(be->copy(ctx, a, 8 * lda, host, 8 * ni, 8 * ni, nj));
    st = be->sync(ctx);
done:
    free(host);
    return st;
}

/* Points, vectors of nrhs columns: x at random. */
static status begin(job *j, int64_t n) {
    const setting *s = j->s;
    const size_t all = (size_t)(n * s->nrhs), bytes = 8 * all;
    uint64_t state = s->seed;
    own *o = NULL;
    status st;
    TRY(job_alloc(j, 0));
    TRY(ALLOC(o, 1, "a case"));
    j->more = o;
    TRY(ALLOC(o->at, (size_t)(2 * n), "points"));
    TRY(ALLOC(o->x, all, "vectors"));
    TRY(ALLOC(o->y, all, "vectors"));
    for (int64_t i = 0; i < 2 * n; i++)
        o->at[i] = tester_random(&state) / 2;
    for (size_t i = 0; i < all; i++)
        o->x[i] = tester_random(&state);
    TRY(be->alloc(ctx, bytes + 1, (void **)&o->dx));
    TRY(be->alloc(ctx, bytes + 1, (void **)&o->dy));
    TRY(be->copy(ctx, o->dx, (int64_t)bytes, o->x, (int64_t)bytes, (int64_t)bytes, 1));
    st = be->sync(ctx);
done:
    return st;
}
static void end(job *j) {
    own *o = mine(j);
    if (!o)
        return;
    tlr_close(o->a), tlr_close(o->b), tlr_close(o->out), tlr_layout_free(&o->rows);
    hier_close(o->f);
    if (o->source.from)
        hier_points_close(&o->source);
    moao_gp_close(o->gp);
    if (o->plan)
        be->toeplitz->close(o->plan);
    be->release(ctx, o->dx), be->release(ctx, o->dy);
    for (int i = 0; i < 4; i++)
        be->release(ctx, o->buffer[i]);
    free(o->at), free(o->x), free(o->y), free(o->order), free(o->value), free(o->column), free(o);
}

/* v, n x nrhs: the first column := the sum of all with random weights. */
static void combine(const setting *s, int64_t n, double *v) {
    uint64_t state = s->seed;
    for (int64_t c = 1; c < s->nrhs; c++) {
        const double w = tester_random(&state);
        for (int64_t i = 0; i < n; i++)
            v[i] += w * v[i + c * n];
    }
}

/* y of the device, of so many rows, changed as --perturb says; the columns of y and x, of nx rows,
 * are combined into the first one of each, which stands for all in the check. */
static status fetch_y(job *j, int64_t n, int64_t nx) {
    own *o = mine(j);
    const int64_t bytes = 8 * n * j->s->nrhs;
    double most = 0;
    int64_t at = 0;
    status st;
    TRY(be->copy(ctx, o->y, bytes, o->dy, bytes, bytes, 1));
    TRY(be->sync(ctx));
    for (int64_t i = 0; i < n * j->s->nrhs; i++)
        if (fabs(o->y[i]) > most)
            most = fabs(o->y[i]), at = i;
    o->y[at] += j->s->perturb * most;
    combine(j->s, n, o->y), combine(j->s, nx, o->x);
done:
    return st;
}

/* r := (A + shift) v - w of the exact matrix in the order of `row`. */
static void exact_residual(const own *o, const int64_t *row, int64_t n, double shift,
                           const double *v, const double *w, real *r) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        real sum = shift * (real)v[i] - w[i];
        for (int64_t c = 0; c < n; c++)
            sum += covariance(o, row[i], row[c]) * v[c];
        r[i] = sum;
    }
}

/* The same as data. */
static const gp_kernel kernel = {MOAO_GP_MATERN, .variance = 1, .length = {LENGTH}, .shape = 0.5,
                                 .nugget = NUGGET};

/* --- tile low-rank ------------------------------------------------------------------------------
 */

static tlr_options options(const setting *s) {
    return (tlr_options){.tau = s->tol, .cut = -1, .width = 2 * s->tile};
}
static status tlr_begin(job *j, bool rectangular) {
    const setting *s = j->s;
    const tlr_options o = options(s);
    own *q;
    status st;
    TRY(begin(j, s->n));
    q = mine(j);
    TRY(tlr_layout_cloud(2, s->n, q->at, s->tile, &q->rows));
    st = rectangular ? tlr_build(be, ctx, &q->rows, &q->rows, fill, q, &o, &q->a)
                     : moao_tlr_from_points(be, ctx, &q->rows, &kernel, 2, q->at, &o, &q->a);
done:
    return st;
}
static status tlr_prepare(job *j) {
    const tlr_options o = options(j->s);
    own *q;
    status st;
    TRY(tlr_begin(j, !strncmp(j->of->name, "tlr_gemm", 8)));
    q = mine(j);
    const tlr_source s = {.layout = &q->rows, .a = q->a};
    if (is(j, "tlr_solve"))
        TRY(tlr_factor(be, ctx, &s, 'L', &o, &(tlr_rescue){.retries = 2}, &q->b, NULL));
    if (is(j, "tlr_gemm_lld")) {
        j->lwork = be->workspace(BACKEND_GEMM, BACKEND_D, j->s->n, j->s->nrhs);
        TRY(be->alloc(ctx, 8 * (size_t)(j->s->n * j->s->n) + 1, &q->buffer[0]));
        TRY(be->alloc(ctx, j->lwork + 1, &q->buffer[2]));
    }
    if (is(j, "tlr_gemm_lll"))
        TRY(tlr_copy(q->a, 'N', &q->b));
done:
    return st;
}
static status tlr_run(job *j) {
    const setting *s = j->s;
    const tlr_options o = options(s);
    const int64_t bytes = 8 * s->n * s->nrhs;
    own *q = mine(j);
    const tlr_source from = {.layout = &q->rows, .a = q->a};
    if (is(j, "tlr_apply"))
        return tlr_apply(q->a, 'L', 'N', s->nrhs, 1, q->dx, s->n, 0, q->dy, s->n);
    if (is(j, "tlr_solve")) {
        const status st = be->copy(ctx, q->dy, bytes, q->dx, bytes, bytes, 1);
        return st == MOAO_OK ? tlr_solve(q->b, 'L', 'A', s->nrhs, q->dy, s->n) : st;
    }
    if (is(j, "tlr_gemm_lld"))
        return tlr_gemm_dense(1, q->a, 'N', q->a, 'N', 0, q->buffer[0], s->n);
    if (is(j, "tlr_gemm_lll"))
        return tlr_gemm('A', 1, q->a, 'N', q->a, 'N', 0, q->b);
    tlr_close(q->out);
    q->out = NULL;
    return is(j, "tlr_build")
               ? moao_tlr_from_points(be, ctx, &q->rows, &kernel, 2, q->at, &o, &q->out)
               : tlr_factor(be, ctx, &from, 'L', &o, &(tlr_rescue){.retries = 2}, &q->out, NULL);
}
/* dy := what was made times x. */
static status tlr_times(job *j) {
    const setting *s = j->s;
    own *q = mine(j);
    status st = MOAO_OK;
    if (is(j, "tlr_build"))
        return tlr_apply(q->out, 'L', 'N', s->nrhs, 1, q->dx, s->n, 0, q->dy, s->n);
    if (is(j, "tlr_gemm_lld"))
        return be->gemm(ctx, BACKEND_D, 'N', 'N', s->n, s->nrhs, s->n, scalar(BACKEND_D, 1),
                        q->buffer[0], s->n, q->dx, s->n, scalar(BACKEND_D, 0), q->dy, s->n,
                        q->buffer[2], j->lwork);
    if (is(j, "tlr_gemm_lll"))
        return tlr_apply(q->b, 'L', 'N', s->nrhs, 1, q->dx, s->n, 0, q->dy, s->n);
    if (is(j, "tlr_potrf")) { /* L (L^T x) */
        TRY(be->alloc(ctx, 8 * (size_t)(s->n * s->nrhs) + 1, &q->buffer[1]));
        TRY(tlr_apply(q->out, 'L', 'T', s->nrhs, 1, q->dx, s->n, 0, q->buffer[1], s->n));
        TRY(tlr_apply(q->out, 'L', 'N', s->nrhs, 1, q->buffer[1], s->n, 0, q->dy, s->n));
    }
done:
    return st;
}
static status tlr_check(job *j, int64_t b) {
    const setting *s = j->s;
    const int64_t n = s->n;
    own *q = mine(j);
    real *r = vector(n), *x = vector(n), scale = 0;
    double *one, *two, *between = NULL;
    tlr_stats stats;
    status st;
    (void)b;
    TRY(tlr_times(j));
    TRY(fetch_y(j, n, n));
    tlr_statistics(q->a, &stats);
    one = q->x, two = q->y;
    if (is(j, "tlr_gemm_lld") || is(j, "tlr_gemm_lll")) { /* A (A x) */
        TRY(ALLOC(between, (size_t)n, "a vector"));
        exact_residual(q, q->rows.perm, n, 0, one, between, r);
        for (int64_t i = 0; i < n; i++)
            between[i] = (double)r[i];
        one = between;
        scale = 2 * norm(n, r);
    } else if (is(j, "tlr_solve")) {
        one = q->y, two = q->x;
    }
    exact_residual(q, q->rows.perm, n, 0, one, two, r);
    for (int64_t i = 0; i < n; i++)
        x[i] = one[i];
    scale = (scale + norm(n, x)) * s->tol * sqrtl(2 * (real)stats.tiles + 1) +
            norm(n, x) * eps_of(BACKEND_D) * (real)n;
    raise(&j->residual, norm(n, r) / scale);
done:
    free(r), free(x), free(between);
    return st;
}

/* What the same takes dense. */
static void dense_rival(job *j, int64_t b) {
    const setting *s = j->s;
    const int n = (int)s->n, w = (int)s->nrhs;
    own *o = mine(j);
    double *a = calloc((size_t)(s->n * s->n) + 1, sizeof *a), one = 1, none = 0;
    int bad;
    (void)b;
    if (!a)
        abort();
    for (int64_t i = 0; i < s->n; i++)
        a[i * (s->n + 1)] = 2;
    if (strstr(j->of->name, "potrf"))
        dpotrf_("L", &n, a, &n, &bad, (size_t)1);
    else if (strstr(j->of->name, "solve"))
        dpotrs_("L", &n, &w, a, &n, o->y, &n, &bad, (size_t)1);
    else if (strstr(j->of->name, "gemm")) {
        double *c = calloc((size_t)(s->n * s->n) + 1, sizeof *c);
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &none, c, &n);
        free(c);
    } else
        dgemm_("N", "N", &n, &w, &n, &one, a, &n, o->x, &n, &none, o->y, &n);
    free(a);
}

/* Of the dense way: the rate says what a dense routine would have to do. */
static double flops_build(const setting *s) {
    return d(s->n) * d(s->n);
}
static double flops_apply(const setting *s) {
    return 2 * d(s->n) * d(s->n) * d(s->nrhs);
}
static double flops_potrf(const setting *s) {
    return pow(d(s->n), 3) / 3;
}
static double flops_gemm(const setting *s) {
    return 2 * pow(d(s->n), 3);
}

/* --- HSS, H2 ------------------------------------------------------------------------------------
 */

static status hier_begin(job *j) {
    const setting *s = j->s;
    const bool h2 = !strncmp(j->of->name, "h2", 2);
    const hier_options o = {.kind = h2 ? HIER_H2 : HIER_HSS, .type = BACKEND_D, .tol = s->tol};
    own *q;
    status st;
    TRY(begin(j, s->n));
    q = mine(j);
    if (!h2) /* HSS: points of a line */
        for (int64_t i = 0; i < s->n; i++)
            q->at[2 * i] = d(i) / d(s->n), q->at[2 * i + 1] = 0;
    TRY(hier_points_open(be, ctx, HIER_EXPONENTIAL, LENGTH, 2, s->n, q->at, &q->source));
    TRY(hier_open(be, ctx, &q->source, &o, &q->f));
    if (is(j, "hss_solve") || is(j, "hss_factor"))
        TRY(hier_factor(q->f, NUGGET));
    if (!is(j, "hss_build") && !is(j, "h2_build") && !is(j, "hss_factor")) {
        j->lwork = is(j, "hss_solve") ? hier_solve_workspace(q->f, s->nrhs)
                                      : hier_workspace(q->f, 'L', s->nrhs);
        be->release(ctx, j->work);
        TRY(be->alloc(ctx, j->lwork + 1, &j->work));
    }
done:
    return st;
}
static status hier_run(job *j) {
    const setting *s = j->s;
    const int64_t bytes = 8 * s->n * s->nrhs;
    own *q = mine(j);
    if (is(j, "hss_factor"))
        return hier_factor(q->f, NUGGET);
    if (is(j, "hss_build") || is(j, "h2_build"))
        return hier_load(q->f, &q->source);
    if (is(j, "hss_solve")) {
        const status st = be->copy(ctx, q->dy, bytes, q->dx, bytes, bytes, 1);
        return st == MOAO_OK ? hier_solve(q->f, 'N', s->nrhs, q->dy, s->n, j->work, j->lwork) : st;
    }
    return hier_apply(q->f, 'L', 'N', 'A', s->nrhs, 1, q->dx, s->n, 0, q->dy, s->n, j->work,
                      j->lwork);
}
/* The solve or the product of what was made, where the run was neither. */
static status hier_use(job *j) {
    const setting *s = j->s;
    const int64_t bytes = 8 * s->n * s->nrhs;
    own *q = mine(j);
    status st = MOAO_OK;
    if (is(j, "hss_solve") || is(j, "hss_apply") || is(j, "h2_apply"))
        return st;
    const bool solve = is(j, "hss_factor");
    const size_t lwork =
        solve ? hier_solve_workspace(q->f, s->nrhs) : hier_workspace(q->f, 'L', s->nrhs);
    TRY(be->alloc(ctx, lwork + 1, &q->buffer[0]));
    TRY(be->copy(ctx, q->dy, bytes, q->dx, bytes, bytes, 1));
    st = solve ? hier_solve(q->f, 'N', s->nrhs, q->dy, s->n, q->buffer[0], lwork)
               : hier_apply(q->f, 'L', 'N', 'A', s->nrhs, 1, q->dx, s->n, 0, q->dy, s->n,
                            q->buffer[0], lwork);
done:
    return st;
}
static status hier_verify(job *j, int64_t b) {
    const setting *s = j->s;
    const int64_t n = s->n;
    const bool solve = is(j, "hss_factor") || is(j, "hss_solve");
    own *q = mine(j);
    hier_info info;
    status st;
    (void)b;
    TRY(hier_use(j));
    TRY(fetch_y(j, n, n));
    hier_describe(q->f, &info);
    TRY(ALLOC(q->order, (size_t)n, "an order"));
    for (int64_t i = 0; i < n; i++)
        q->order[i] = info.order ? info.order[i] : i;
    real *r = vector(n), *x = vector(n);
    double *one = solve ? q->y : q->x, *two = solve ? q->x : q->y;
    /* the covariances have the nugget, which products of the format have not */
    exact_residual(q, q->order, n, solve ? 0 : -NUGGET, one, two, r);
    for (int64_t i = 0; i < n; i++)
        x[i] = one[i];
    raise(&j->residual,
          norm(n, r) / (norm(n, x) * (s->tol * sqrtl((real)n) + eps_of(BACKEND_D) * (real)n)));
    free(r), free(x);
done:
    return st;
}

/* --- products with a lattice, with sparse rows, of FP16 numbers; a likelihood --------------------
 */

static status to_device(int i, own *o, const void *host, size_t bytes) {
    status st;
    TRY(be->alloc(ctx, bytes + 1, &o->buffer[i]));
    TRY(be->copy(ctx, o->buffer[i], (int64_t)bytes, host, (int64_t)bytes, (int64_t)bytes, 1));
    st = be->sync(ctx);
done:
    return st;
}

/* Lattice of n x n places: exp(-distance), values of differences. */
static status toeplitz_prepare(job *j) {
    const int64_t n = j->s->n, w = 2 * n - 1;
    status st;
    own *o;
    if (!be->toeplitz || n < 1)
        return status_fail(MOAO_INPUT, "toeplitz needs a backend with it, and n at least 1");
    TRY(begin(j, n * n));
    o = mine(j);
    const int64_t first[] = {0}, count[] = {n * n};
    TRY(ALLOC(o->column, (size_t)(n * n), "places"));
    TRY(ALLOC(o->value, (size_t)(w * w), "values"));
    for (int64_t i = 0; i < n * n; i++)
        o->column[i] = (int)i;
    for (int64_t i = 0; i < w * w; i++)
        o->value[i] = exp(-hypot(d(i % w - n + 1), d(i / w - n + 1)) / 3);
    TRY(to_device(0, o, o->value, 8 * (size_t)(w * w)));
    const int *const places[] = {o->column};
    const moao_toeplitz_shape shape = {
        .n = (int)n, .nimage = 1, .count = count, .first = first, .place = places};
    const moao_toeplitz_pair pair = {
        .value = o->buffer[0], .step = 1, .width = (int)w, .origin = (int)n - 1};
    TRY(be->toeplitz->open(ctx, &shape, TOEPLITZ_D, &o->plan));
    TRY(be->toeplitz->load(o->plan, &pair));
    be->release(ctx, j->work);
    j->lwork = be->toeplitz->workspace(o->plan, j->s->nrhs);
    st = be->alloc(ctx, j->lwork + 1, &j->work);
done:
    return st;
}
static status toeplitz_run(job *j) {
    const int64_t n = j->s->n * j->s->n;
    own *o = mine(j);
    return be->toeplitz->apply(o->plan, 'L', 'N', j->s->nrhs, 1, o->dx, n, 0, o->dy, n, j->work,
                               j->lwork);
}
static status toeplitz_check(job *j, int64_t b) {
    const int64_t side = j->s->n, n = side * side, w = 2 * side - 1;
    own *o = mine(j);
    status st;
    (void)b;
    TRY(fetch_y(j, n, n));
    real *r = vector(n), *x = vector(n), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        r[i] = -o->y[i], x[i] = o->x[i];
        for (int64_t c = 0; c < n; c++)
            r[i] +=
                (real)o
                    ->value[(i / side - c / side + side - 1) * w + i % side - c % side + side - 1] *
                o->x[c];
    }
    for (int64_t i = 0; i < w * w; i++)
        sum += o->value[i];
    raise(&j->residual, norm(n, r) / (norm(n, x) * sum * eps_of(BACKEND_D)));
    free(r), free(x);
done:
    return st;
}
static double toeplitz_flops(const setting *s) {
    const double n = 4 * d(s->n) * d(s->n);
    return 2 * 5 * n * log2(n + 1) * d(s->nrhs);
}

/* m x n with --k entries in a row. */
static status sparse_prepare(job *j) {
    const setting *s = j->s;
    const int64_t all = s->m * s->k;
    uint64_t state = s->seed;
    own *o;
    status st;
    TRY(begin(j, s->m > s->n ? s->m : s->n));
    o = mine(j);
    TRY(ALLOC(o->column, (size_t)all, "columns"));
    TRY(ALLOC(o->value, (size_t)all, "values"));
    for (int64_t e = 0; e < all; e++) {
        o->column[e] = (int)((tester_random(&state) + 1) / 2 * d(s->n));
        o->value[e] = tester_random(&state);
    }
    TRY(to_device(0, o, o->column, sizeof(int) * (size_t)all));
    st = to_device(1, o, o->value, 8 * (size_t)all);
done:
    return st;
}
static status sparse_run(job *j) {
    const setting *s = j->s;
    own *o = mine(j);
    const backend_rows rows = {s->m, s->n, s->k, o->buffer[0], o->buffer[1]};
    return be->sparse->times(ctx, BACKEND_D, &rows, s->nrhs, 1, o->dx, s->n, 0, o->dy, s->m);
}
static status sparse_check(job *j, int64_t b) {
    const setting *s = j->s;
    own *o = mine(j);
    real *r = vector(s->m), most = 0;
    (void)b;
    const status st = fetch_y(j, s->m, s->n);
    for (int64_t i = 0; st == MOAO_OK && i < s->m; i++) {
        real size = 0;
        r[i] = -o->y[i];
        for (int64_t e = 0; e < s->k; e++) {
            const real t = (real)o->value[i + e * s->m] * o->x[o->column[i + e * s->m]];
            r[i] += t, size += fabsl(t);
        }
        most = fmaxl(most, size);
    }
    if (st == MOAO_OK)
        raise(&j->residual, norm(s->m, r) / (most * sqrtl((real)s->m) * eps_of(BACKEND_D)));
    free(r);
    return st;
}
static double sparse_flops(const setting *s) {
    return 2 * d(s->m) * d(s->k) * d(s->nrhs);
}

/* C := A B of FP16 numbers, m x k and k x n; against the doubles that they came from. */
static status fp16_prepare(job *j) {
    const setting *s = j->s;
    own *o;
    status st;
    for (int i = 0; i < 2; i++) {
        setting one = *s;
        one.type = BACKEND_S;
        TRY(array_new(&j->x[i], &one, i ? s->k : s->m, i ? s->n : s->k));
        fill_random(&j->x[i], s->seed + (uint64_t)i);
    }
    TRY(array_new(&j->x[2], s, s->m, s->n));
    j->x[2].result = 'A';
    j->limit = 6; /* in units of FP16's rounding, of the worst row */
    TRY(begin(j, 1));
    o = mine(j);
    TRY(be->alloc(ctx, 2 * (size_t)(s->m * s->k) + 1, &o->buffer[0]));
    st = be->alloc(ctx, 2 * (size_t)(s->k * s->n) + 1, &o->buffer[1]);
done:
    return st;
}
static status fp16_run(job *j) {
    const setting *s = j->s;
    own *o = mine(j);
    status st;
    TRY(be->fp16->cast_to_fp16(ctx, BACKEND_S, s->m, s->k, 0, j->x[0].device, s->m, o->buffer[0],
                               s->m));
    TRY(be->fp16->cast_to_fp16(ctx, BACKEND_S, s->k, s->n, 0, j->x[1].device, s->k, o->buffer[1],
                               s->k));
    st = be->fp16->gemm(ctx, 'N', 'N', s->m, s->n, s->k, 1, o->buffer[0], s->m, o->buffer[1], s->k,
                        0, j->x[2].device, s->m);
done:
    return st;
}
static status fp16_check(job *j, int64_t b) {
    const setting *s = j->s;
    const view A = given(j, 0, b, 'A'), B = given(j, 1, b, 'A');
    real *x = random_vector(s->n, s->seed), *y = vector(s->k), *r = vector(s->m);
    add_product(B, 'N', 1, x, y);
    add_product(A, 'N', -1, y, r);
    add_product(found(j, 2, b, 'A'), 'N', 1, x, r);
    real most = 0; /* errors of the entries are independent: one row that is wrong stands out */
    for (int64_t i = 0; i < s->m; i++)
        most = isnan(r[i]) ? INFINITY : fmaxl(most, fabsl(r[i]));
    raise(&j->residual, most * sqrtl((real)s->k * (real)s->m * (real)s->n) /
                            (norm_of(A) * norm_of(B) * norm(s->n, x) * 0x1p-11));
    free(x), free(y), free(r);
    return MOAO_OK;
}
static double fp16_flops(const setting *s) {
    return 2 * d(s->m) * d(s->n) * d(s->k);
}

static status gp_prepare(job *j) {
    own *o;
    status st;
    TRY(begin(j, j->s->n));
    o = mine(j);
    st = moao_gp_open(be, ctx, 2, j->s->n, o->at, o->x, NULL, &o->gp);
done:
    return st;
}
static status gp_run(job *j) {
    return moao_gp_likelihood(mine(j)->gp, &kernel, false, 0, &mine(j)->likelihood);
}
/* Against LAPACK's factor. */
static status gp_check(job *j, int64_t b) {
    const int64_t n = j->s->n;
    const int order = (int)n, one = 1;
    own *o = mine(j);
    double *a = NULL;
    real sum = (real)n * logl(2 * 3.14159265358979323846264L);
    int bad = 0;
    status st;
    (void)b;
    TRY(ALLOC(a, (size_t)(n * (n + 1)), "a covariance"));
    double *y = a + n * n;
    for (int64_t c = 0; c < n; c++)
        for (int64_t i = 0; i < n; i++)
            a[i + c * n] = (double)covariance(o, i, c);
    memcpy(y, o->x, sizeof *y * (size_t)n);
    dpotrf_("L", &order, a, &order, &bad, (size_t)1);
    dpotrs_("L", &order, &one, a, &order, y, &order, &bad, (size_t)1);
    for (int64_t i = 0; i < n; i++)
        sum += 2 * logl(a[i * (n + 1)]) + (real)y[i] * o->x[i];
    const real found_value = o->likelihood.likelihood * (1 + j->s->perturb);
    raise(&j->residual,
          fabsl(found_value + sum / 2) / fabsl(sum / 2) / (eps_of(BACKEND_D) * (real)n));
done:
    free(a);
    return st;
}

#define FORMAT(name, what, prepare, run, check, rival, flops)                                      \
    { name, "formats", what, OWN, prepare, run, check, rival, flops, end }

const routine format_routines[] = {
    FORMAT("tlr_build", "compression to --tol of covariances by tiles of --tile; --n", tlr_prepare,
           tlr_run, tlr_check, NULL, flops_build),
    FORMAT("tlr_apply", "tile low-rank times dense; --n, --nrhs, --tile, --tol", tlr_prepare,
           tlr_run, tlr_check, dense_rival, flops_apply),
    FORMAT("tlr_potrf", "Cholesky factor of a tile low-rank matrix", tlr_prepare, tlr_run,
           tlr_check, dense_rival, flops_potrf),
    FORMAT("tlr_solve", "solves by that factor; --nrhs", tlr_prepare, tlr_run, tlr_check,
           dense_rival, flops_apply),
    FORMAT("tlr_gemm_lld", "product of two tile low-rank matrices, dense", tlr_prepare, tlr_run,
           tlr_check, dense_rival, flops_gemm),
    FORMAT("tlr_gemm_lll", "the same, tile low-rank", tlr_prepare, tlr_run, tlr_check, dense_rival,
           flops_gemm),
    FORMAT("hss_build", "HSS of points on a line to --tol; --n", hier_begin, hier_run, hier_verify,
           NULL, flops_build),
    FORMAT("hss_apply", "HSS times dense; --n, --nrhs", hier_begin, hier_run, hier_verify,
           dense_rival, flops_apply),
    FORMAT("hss_factor", "ULV factor; --n", hier_begin, hier_run, hier_verify, NULL, flops_potrf),
    FORMAT("hss_solve", "solves by it; --n, --nrhs", hier_begin, hier_run, hier_verify, dense_rival,
           flops_apply),
    FORMAT("h2_build", "H2 of points in a square to --tol; --n", hier_begin, hier_run, hier_verify,
           NULL, flops_build),
    FORMAT("h2_apply", "H2 times dense; --n, --nrhs", hier_begin, hier_run, hier_verify,
           dense_rival, flops_apply),
    FORMAT("toeplitz", "block-Toeplitz times dense, a lattice of n x n; --n, --nrhs",
           toeplitz_prepare, toeplitz_run, toeplitz_check, NULL, toeplitz_flops),
    FORMAT("sparse", "m x n with --k entries in a row, times dense; --nrhs", sparse_prepare,
           sparse_run, sparse_check, NULL, sparse_flops),
    FORMAT("fp16_gemm", "C := A B of FP16 numbers; --m, --n, --k", fp16_prepare, fp16_run,
           fp16_check, NULL, fp16_flops),
    FORMAT("gp", "likelihood of a Gaussian process; --n", gp_prepare, gp_run, gp_check, NULL,
           flops_potrf),
    {0}};
