#include "tester.h"

static const double scalars_d[] = {2, 1, 0, -1};
static const float scalars_s[] = {2, 1, 0, -1};

const void *scalar(backend_type t, double v) {
    const int i = v == 2 ? 0 : v == 1 ? 1 : v == 0 ? 2 : 3;
    return t == BACKEND_D ? (const void *)(scalars_d + i) : scalars_s + i;
}

double tester_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

double eps_of(backend_type t) {
    return t == BACKEND_D ? 0x1p-53 : 0x1p-24;
}

static int64_t entries(const array *x) {
    return ld_of(x) * x->cols * x->count;
}

status array_new(array *x, const setting *s, int64_t rows, int64_t cols) {
    *x = (array){.rows = rows, .cols = cols, .count = count_of(s)};
    return mem_alloc((void **)&x->given, (unsigned long)entries(x), sizeof(double), "an operand");
}

/* The numbers as the type has them, there and in `given`. */
static void round_to_type(array *x, backend_type t) {
    const int64_t all = entries(x);
    for (int64_t e = 0; e < all; e++)
        if (t == BACKEND_D)
            ((double *)x->sent)[e] = x->given[e];
        else
            x->given[e] = ((float *)x->sent)[e] = (float)x->given[e];
}

status array_send(array *x, backend_type t) {
    const size_t bytes = backend_size(t) * (size_t)entries(x);
    status st;
    TRY(mem_alloc(&x->sent, bytes, 1, "an operand"));
    round_to_type(x, t);
    TRY(be->alloc(ctx, bytes + 1, &x->kept));
    TRY(be->alloc(ctx, bytes + 1, &x->device));
    TRY(be->copy(ctx, x->kept, (int64_t)bytes, x->sent, (int64_t)bytes, (int64_t)bytes, 1));
    st = be->sync(ctx);
done:
    return st;
}

status array_reset(array *x, backend_type t) {
    const int64_t bytes = (int64_t)backend_size(t) * entries(x);
    return x->kept ? be->copy(ctx, x->device, bytes, x->kept, bytes, bytes, 1) : MOAO_OK;
}

/* --perturb: the largest entry of each matrix is off by so much of itself. */
static void perturb(array *x, double by) {
    for (int64_t b = 0; b < x->count; b++) {
        double *a = x->found + b * ld_of(x) * x->cols, *most = NULL;
        for (int64_t c = 0; c < x->cols; c++)
            for (int64_t r = 0; r < x->rows; r++) {
                double *e = a + r + c * ld_of(x);
                if (x->result == 'A' || (x->result == 'L' ? r >= c : r <= c))
                    most = most && fabs(*most) >= fabs(*e) ? most : e;
            }
        if (most)
            *most += by * fabs(*most);
    }
}

status array_fetch(array *x, const setting *s) {
    const int64_t all = entries(x), bytes = (int64_t)backend_size(s->type) * all;
    void *typed = NULL;
    status st;
    TRY(mem_alloc(&typed, (size_t)bytes, 1, "a result"));
    TRY(mem_alloc((void **)&x->found, (size_t)all, sizeof(double), "a result"));
    TRY(be->copy(ctx, typed, bytes, x->device, bytes, bytes, 1));
    TRY(be->sync(ctx));
    for (int64_t e = 0; e < all; e++)
        x->found[e] = s->type == BACKEND_D ? ((double *)typed)[e] : ((float *)typed)[e];
    if (x->result && s->perturb > 0)
        perturb(x, s->perturb);
done:
    free(typed);
    return st;
}

void array_free(array *x) {
    free(x->given), free(x->found), free(x->sent);
    be->release(ctx, x->kept), be->release(ctx, x->device);
    *x = (array){0};
}

void fill_random(array *x, uint64_t seed) {
    for (int64_t e = 0; e < entries(x); e++)
        x->given[e] = tester_random(&seed);
}

void fill_spd(array *x, uint64_t seed) {
    const int64_t n = x->rows;
    for (int64_t b = 0; b < x->count; b++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = j; i < n; i++) {
                const double v = tester_random(&seed);
                x->given[(b * n + j) * n + i] = x->given[(b * n + i) * n + j] =
                    i == j ? (double)n + v : v;
            }
}

void fill_triangle(array *x, uint64_t seed) {
    const int64_t n = x->rows;
    const double f = 1 / sqrt((double)(n > 0 ? n : 1));
    for (int64_t e = 0; e < entries(x); e++) {
        const double v = tester_random(&seed);
        x->given[e] = e % (n * n) % (n + 1) == 0 ? 2 + v : f * v;
    }
}

status job_alloc(job *j, size_t lwork) {
    const size_t count = (size_t)count_of(j->s);
    status st;
    j->lwork = lwork;
    TRY(be->alloc(ctx, lwork + 1, &j->work));
    TRY(be->alloc(ctx, sizeof(int) * count, (void **)&j->info));
    TRY(be->alloc(ctx, sizeof(int64_t) * count, (void **)&j->ranks));
    st = ALLOC(j->rank_found, count, "ranks");
done:
    return st;
}

/* --- checks -------------------------------------------------------------------------------------
 */

real entry_of(view a, int64_t i, int64_t j) {
    if (a.part == 'L' || a.part == 'U') {
        if (a.part == 'L' ? i < j : i > j)
            return 0;
        if (i == j && a.unit)
            return 1;
    } else if ((a.part == 'S' && i < j) || (a.part == 's' && i > j)) {
        return a.p[j + i * a.ld];
    }
    return a.p[i + j * a.ld];
}

void add_product(view a, char trans, real f, const real *x, real *y) {
    for (int64_t j = 0; j < a.cols; j++)
        for (int64_t i = 0; i < a.rows; i++) {
            const real v = f * entry_of(a, i, j);
            if (trans == 'N')
                y[i] += v * x[j];
            else
                y[j] += v * x[i];
        }
}

real norm_of(view a) {
    real s = 0;
    for (int64_t j = 0; j < a.cols; j++)
        for (int64_t i = 0; i < a.rows; i++)
            s += entry_of(a, i, j) * entry_of(a, i, j);
    return sqrtl(s);
}

real norm(int64_t n, const real *x) {
    real s = 0;
    for (int64_t i = 0; i < n; i++)
        s += x[i] * x[i];
    return sqrtl(s);
}

real *vector(int64_t n) {
    real *x = calloc((size_t)n + 1, sizeof *x);
    if (!x)
        abort(); /* a few kB */
    return x;
}

real *random_vector(int64_t n, uint64_t seed) {
    real *x = vector(n);
    for (int64_t i = 0; i < n; i++) { /* none near 0, which would not see its column */
        const double v = tester_random(&seed);
        x[i] = (v < 0 ? v - 1 : v + 1) / 2;
    }
    return x;
}

void raise(double *x, real v) {
    const double d = isnan(v) ? INFINITY : (double)v;
    if (!(*x >= d)) /* NaN: none before */
        *x = d;
}

void judge(job *j, const real *r, int64_t n, real scale, int64_t units) {
    const real off = norm(n, r);
    raise(&j->residual,
          off == 0 ? 0 : off / scale / (eps_of(j->s->type) * (real)(units > 1 ? units : 1)));
}

void judge_columns(job *j, view q) {
    real worst = 0;
    for (int64_t a = 0; a < q.cols; a++)
        for (int64_t b = 0; b <= a; b++) {
            real s = a == b ? -1 : 0;
            for (int64_t i = 0; i < q.rows; i++)
                s += (real)q.p[i + a * q.ld] * q.p[i + b * q.ld];
            worst = isnan(s) ? INFINITY : fmaxl(worst, fabsl(s));
        }
    raise(&j->orthogonality, worst / (eps_of(j->s->type) * (real)(q.rows > 1 ? q.rows : 1)));
}

void *rival_of(const job *j, int i, int64_t b) {
    const array *x = &j->x[i];
    return (char *)j->rival[i] + backend_size(j->s->type) * (size_t)(b * ld_of(x) * x->cols);
}
