/* A Cholesky factor in halves: its life, and how it is made. */
#include "linalg/half_factor.h"

#include "half_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Entries of a solve may be 2^HEADROOM times as large as those of the sample. */
#define HEADROOM 5

/* Numbers on the device, in units of nt: largest entry of a column of tiles of L below the
 * diagonal, of X, of W, of their right-hand sides at the diagonal; of a tile on the diagonal of L;
 * squares of X and of W; then squares of B (nt), of L (nt nt), and one number for an inverse. */
enum { MAX_L, MAX_X, MAX_C = MAX_X + 2, MAX_DIAG = MAX_C + 2, SUM_X, SUM_B = SUM_X + 2, SUM_L };

half_factor_options half_factor_defaults(int64_t m, int64_t rows, double accuracy) {
    const int64_t tile = m >= 32768 ? 1024 : m >= 4096 ? 256 : 64;
    return (half_factor_options){tile, 4 * tile, HALF_DEPTH, rows, accuracy};
}

int64_t half_panel_start(int64_t m, int64_t panel, int64_t j0) {
    int64_t at = 0;
    for (int64_t j = 0; j < j0; j += panel)
        at += 2 * half_ld(m, j) * half_min(panel, m - j);
    return at;
}

size_t half_factor_bytes(int64_t m, const half_factor_options *o) {
    return (size_t)half_panel_start(m, o->panel, m) * sizeof(backend_f16);
}

half_pair half_entry(const half_factor *f, int64_t i, int64_t j) {
    const int64_t j0 = j / f->o.panel * f->o.panel, ld = half_ld(f->m, j0);
    const backend_f16 *hi =
        f->place + half_panel_start(f->m, f->o.panel, j0) + (i - j0) + (j - j0) * ld;
    return (half_pair){hi, hi + ld * half_min(f->o.panel, f->m - j0), ld, f->el};
}

half_pair half_inverse(const half_factor *f, int64_t i) {
    const int64_t size = f->o.tile * f->o.tile;
    return (half_pair){f->inverse + 2 * i * size, f->inverse + (2 * i + 1) * size, f->o.tile,
                       f->ei[i]};
}

int half_factor_exponent(const half_factor *f) {
    return f->ex[1];
}

/* --- life */

static int64_t numbers(const half_factor *f) {
    return (SUM_L + f->nt) * f->nt + 1;
}

static status take(half_factor *f) {
    const backend *be = f->be;
    const size_t nt = (size_t)f->nt, tile = (size_t)f->o.tile;
    status st;
    TRY(ALLOC(f->ei, nt, "a factor in halves"));
    TRY(ALLOC(f->host, (size_t)numbers(f), "sizes of a factor"));
    for (int k = 0; k < HALF_SOLVES; k++) {
        TRY(ALLOC(f->ec[k], nt, "a factor in halves"));
        TRY(ALLOC(f->three[k], nt * nt, "tiles of a factor"));
    }
    TRY(be->alloc(f->ctx, 2 * nt * tile * tile * sizeof *f->inverse, (void **)&f->inverse));
    TRY(be->alloc(f->ctx, (size_t)numbers(f) * sizeof *f->norms, (void **)&f->norms));
    st = be->alloc(f->ctx, (nt + 1) * sizeof *f->info, (void **)&f->info);
done:
    return st;
}

status half_factor_open(const backend *be, backend_ctx *ctx, int64_t m,
                        const half_factor_options *o, half_factor **out) {
    half_factor *f = NULL;
    status st;
    *out = NULL;
    if (m < 1 || o->tile < 1 || o->panel < o->tile || o->panel % o->tile != 0 || o->depth < 1 ||
        o->rows < 1 || !(o->accuracy >= 0))
        return status_fail(MOAO_INPUT, "factor in halves: an option is out of range");
    TRY(ALLOC(f, 1, "a factor in halves"));
    f->be = be;
    f->ctx = ctx;
    f->m = m;
    f->o = *o;
    f->nt = (m + o->tile - 1) / o->tile;
    TRY(take(f));
    *out = f;
    f = NULL;
done:
    half_factor_close(f);
    return st;
}

void half_factor_close(half_factor *f) {
    if (f == NULL)
        return;
    f->be->release(f->ctx, f->inverse);
    f->be->release(f->ctx, f->norms);
    f->be->release(f->ctx, f->info);
    free(f->ei);
    free(f->host);
    for (int k = 0; k < HALF_SOLVES; k++) {
        free(f->ec[k]);
        free(f->three[k]);
    }
    free(f);
}

/* --- making it */

/* L in double precision, the sample, and the parts of the work. */
typedef struct {
    half_factor *f;
    double *l, *b, *x; /* x: n x m, X of the sample; its room is that of `stage` too */
    int64_t ldl, ldb, n;
    double *tile, *rows; /* tile x tile, n x tile */
    double *stage;       /* a panel of L */
    void *work;
    size_t lwork;
} making;

static size_t solver_work(const half_factor *f, int64_t n) {
    const int64_t tile = f->o.tile;
    const size_t need[] = {f->be->workspace(BACKEND_TRSM, BACKEND_D, n, f->m),
                           f->be->workspace(BACKEND_TRTRI, BACKEND_D, tile, tile),
                           f->be->workspace(BACKEND_TRMM, BACKEND_D, n, tile)};
    size_t most = 0;
    for (size_t k = 0; k < sizeof need / sizeof *need; k++)
        most = need[k] > most ? need[k] : most;
    return most;
}

/* A multiple of what workspaces are aligned to. */
static size_t whole(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static size_t shared_bytes(const half_factor *f, int64_t n) {
    const size_t x = (size_t)(n * f->m), stage = (size_t)(f->m * half_min(f->o.panel, f->m));
    return whole((x > stage ? x : stage) * sizeof(double));
}

size_t half_factor_make_work(const half_factor *f, int64_t n) {
    const size_t tile = (size_t)f->o.tile;
    return shared_bytes(f, n) + whole(tile * tile * sizeof(double)) +
           whole((size_t)n * tile * sizeof(double)) + solver_work(f, n);
}

static status copy(const making *k, double *to, int64_t ldt, const double *from, int64_t ldf,
                   int64_t rows, int64_t cols) {
    const int64_t size = (int64_t)sizeof(double);
    return k->f->be->copy(k->f->ctx, to, ldt * size, from, ldf * size, rows * size, cols);
}

/* Device memory of number `which` of tile i. */
static double *number(const making *k, int which, int64_t i) {
    return k->f->norms + which * k->f->nt + i;
}

static status fetch(const making *k, void *to, const void *from, size_t bytes) {
    const int64_t size = (int64_t)bytes;
    status st = k->f->be->copy(k->f->ctx, to, size, from, size, size, 1);
    return st == MOAO_OK ? k->f->be->sync(k->f->ctx) : st;
}

/* Tile i on the diagonal, its lower triangle alone or the symmetric matrix with it, to k->tile. */
static status take_tile(const making *k, int64_t i) {
    const int64_t at = half_start(k->f, i), n = half_order(k->f, i);
    return copy(k, k->tile, k->f->o.tile, k->l + at + at * k->ldl, k->ldl, n, n);
}

static status invert(const making *k, int64_t i) {
    half_factor *f = k->f;
    const backend *be = f->be;
    const int64_t n = half_order(f, i), tile = f->o.tile, size = tile * tile;
    double *most = f->norms + numbers(f) - 1;
    status st;
    TRY(take_tile(k, i));
    TRY(be->mirror(f->ctx, BACKEND_D, 'L', n, k->tile, tile)); /* no unknown numbers above */
    TRY(be->half->largest(f->ctx, BACKEND_D, n, n, k->tile, tile, number(k, MAX_DIAG, i)));
    TRY(be->half->squares(f->ctx, BACKEND_D, n, n, k->tile, tile, tile,
                          number(k, SUM_L, i + i * f->nt), f->nt));
    TRY(be->trtri(f->ctx, BACKEND_D, 'L', 'N', n, k->tile, tile, f->info + i, k->work, k->lwork));
    TRY(be->mirror(f->ctx, BACKEND_D, 'L', n, k->tile, tile));
    TRY(be->half->largest(f->ctx, BACKEND_D, n, n, k->tile, tile, most));
    TRY(fetch(k, &k->f->host[0], most, sizeof *most));
    f->ei[i] = backend_half_exponent(k->f->host[0]);
    st = be->half->split(f->ctx, BACKEND_D, 'L', n, n, f->ei[i], k->tile, tile,
                         f->inverse + 2 * i * size, tile, f->inverse + (2 * i + 1) * size, tile);
done:
    return st;
}

/* Sizes of the sample's column block i in one of the solves: x itself, and the right-hand side
 * that is solved for it at the diagonal. */
static status measure_rows(const making *k, int solve, int64_t i, const double *x, int64_t ldx) {
    half_factor *f = k->f;
    const backend *be = f->be;
    const double one = 1;
    const int64_t at = half_start(f, i), n = half_order(f, i);
    const double *l = k->l + at + at * k->ldl;
    status st;
    x += at * ldx;
    TRY(be->half->largest(f->ctx, BACKEND_D, k->n, n, x, ldx, number(k, MAX_X + solve, i)));
    TRY(be->half->squares(f->ctx, BACKEND_D, k->n, n, x, ldx, k->n > n ? k->n : n,
                          number(k, SUM_X + solve, i), 1));
    TRY(copy(k, k->rows, k->n, x, ldx, k->n, n));
    TRY(be->trmm(f->ctx, BACKEND_D, 'R', 'L', solve == 0 ? 'T' : 'N', 'N', k->n, n, &one, l, k->ldl,
                 k->rows, k->n, k->work, k->lwork));
    st = be->half->largest(f->ctx, BACKEND_D, k->n, n, k->rows, k->n, number(k, MAX_C + solve, i));
done:
    return st;
}

/* The sample in double precision, b becomes W, and the sizes of all of it. */
static status solve_sample(const making *k) {
    half_factor *f = k->f;
    const backend *be = f->be;
    const int64_t m = f->m, n = k->n;
    const double one = 1;
    status st;
    for (int64_t i = 0; i < f->nt; i++)
        TRY(be->half->squares(f->ctx, BACKEND_D, n, half_order(f, i),
                              k->b + half_start(f, i) * k->ldb, k->ldb, n + m, number(k, SUM_B, i),
                              1));
    TRY(be->trsm(f->ctx, BACKEND_D, 'R', 'L', 'T', 'N', n, m, &one, k->l, k->ldl, k->b, k->ldb,
                 k->work, k->lwork));
    TRY(copy(k, k->x, n, k->b, k->ldb, n, m));
    TRY(be->trsm(f->ctx, BACKEND_D, 'R', 'L', 'N', 'N', n, m, &one, k->l, k->ldl, k->b, k->ldb,
                 k->work, k->lwork));
    for (int64_t i = 0; i < f->nt; i++) {
        TRY(measure_rows(k, 0, i, k->x, n));
        TRY(measure_rows(k, 1, i, k->b, k->ldb));
    }
done:
    return st;
}

static status measure_factor(const making *k) {
    half_factor *f = k->f;
    status st = MOAO_OK;
    for (int64_t j = 0; j < f->nt; j++) {
        const int64_t at = half_start(f, j), next = half_start(f, j + 1), n = next - at;
        double *l = k->l + next + at * k->ldl;
        TRY(f->be->half->largest(f->ctx, BACKEND_D, f->m - next, n, l, k->ldl,
                                 number(k, MAX_L, j)));
        TRY(f->be->half->squares(f->ctx, BACKEND_D, f->m - next, n, l, k->ldl, f->o.tile,
                                 number(k, SUM_L, j + 1 + j * f->nt), f->nt));
    }
done:
    return st;
}

static double largest_of(const double *v, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        if (!(v[i] <= most))
            most = v[i];
    return most;
}

static int roomy(double most) {
    return backend_half_exponent(ldexp(most, HEADROOM));
}

status half_factor_choose(half_factor *f, double accuracy) {
    const int64_t nt = f->nt;
    const double *h = f->host;
    half_sizes s = {h + SUM_L * nt, {h + SUM_X * nt, h + (SUM_X + 1) * nt}, 0};
    for (int64_t i = 0; i < nt; i++)
        s.b += h[SUM_B * nt + i];
    f->o.accuracy = accuracy;
    return half_choose_tiles(f, &s);
}

/* Exponents and the choice of tiles from the numbers, which are on the host. False: not finite. */
static status decide(half_factor *f, bool *finite) {
    const int64_t nt = f->nt;
    const double *h = f->host;
    double sum = 0;
    for (int64_t i = 0; i < SUM_L * nt; i++)
        sum += h[i];
    *finite = isfinite(sum);
    if (!*finite)
        return MOAO_OK;
    const double below = largest_of(h + MAX_L * nt, nt), on = largest_of(h + MAX_DIAG * nt, nt);
    f->el = backend_half_exponent(below > on ? below : on);
    for (int j = 0; j < HALF_SOLVES; j++) {
        f->ex[j] = roomy(largest_of(h + (MAX_X + j) * nt, nt));
        for (int64_t i = 0; i < nt; i++)
            f->ec[j][i] = roomy(h[(MAX_C + j) * nt + i]);
    }
    return half_factor_choose(f, f->o.accuracy);
}

/* Panel by panel into halves. In place: a panel of halves ends before the columns of L that come
 * after it begin, and only the first one lies on columns that it is made of; a copy of these is
 * made. */
static status split_panels(const making *k, void *place) {
    half_factor *f = k->f;
    const backend_half *half = f->be->half;
    const int64_t m = f->m;
    status st = MOAO_OK;
    f->place = place;
    for (int64_t j = 0, w; j < m; j += w) {
        w = half_min(f->o.panel, m - j);
        const half_pair to = half_entry(f, j, j);
        const double *from = k->l + j + j * k->ldl;
        const bool stage = (uintptr_t)(to.lo + to.ld * w) > (uintptr_t)(k->l + j * k->ldl) &&
                           (uintptr_t)to.hi < (uintptr_t)(k->l + (j + w) * k->ldl);
        if (stage)
            TRY(copy(k, k->stage, m - j, from, k->ldl, m - j, w));
        TRY(half->split(f->ctx, BACKEND_D, 'L', m - j, w, f->el, stage ? k->stage : from,
                        stage ? m - j : k->ldl, (backend_f16 *)to.hi, to.ld, (backend_f16 *)to.lo,
                        to.ld));
    }
done:
    return st;
}

static status make(const making *k, void *place, int *info) {
    half_factor *f = k->f;
    int *zeros = NULL;
    bool finite;
    status st;
    TRY(ALLOC(zeros, (size_t)f->nt, "sizes of a factor"));
    for (int64_t i = 0; i < f->nt; i++)
        TRY(invert(k, i));
    TRY(fetch(k, zeros, f->info, (size_t)f->nt * sizeof *zeros));
    for (int64_t i = f->nt - 1; i >= 0; i--)
        if (zeros[i] != 0)
            *info = (int)half_start(f, i) + zeros[i];
    if (*info != 0)
        goto done;
    TRY(measure_factor(k));
    TRY(solve_sample(k));
    TRY(fetch(k, k->f->host, f->norms, (size_t)numbers(f) * sizeof *k->f->host));
    TRY(decide(f, &finite));
    if (finite)
        st = split_panels(k, place);
    else
        *info = -1;
done:
    free(zeros);
    return st;
}

status half_factor_make(half_factor *f, double *l, int64_t ldl, int64_t n, double *b, int64_t ldb,
                        void *place, void *work, size_t lwork, int *info) {
    *info = 0;
    f->place = NULL;
    if (ldl < f->m || n < 1 || ldb < n || lwork < half_factor_make_work(f, n))
        return status_fail(MOAO_INPUT, "factor in halves: an argument is out of range");
    const size_t tile = (size_t)f->o.tile, shared = shared_bytes(f, n),
                 square = whole(tile * tile * sizeof(double)),
                 rows = whole((size_t)n * tile * sizeof(double));
    char *part = work;
    making k = {.f = f, .l = l, .b = b, .ldl = ldl, .ldb = ldb, .n = n};
    k.x = k.stage = (double *)part;
    k.tile = (double *)(part + shared);
    k.rows = (double *)(part + shared + square);
    k.work = part + shared + square + rows;
    k.lwork = lwork - shared - square - rows;
    return make(&k, place, info);
}
