/* A Cholesky factor in FP16: its life, and how it is made. */
#include "moao/fp16_factor.h"

#include "fp16_internal.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Entries of a solve may be 2^HEADROOM times as large as those of the sample. */
#define HEADROOM 5

/* Numbers on the device, in units of nt: largest entry of a column of tiles of L below the
 * diagonal, of X, of W, of their right-hand sides at the diagonal; of a tile on the diagonal of L;
 * squares of X and of W; then squares of B (nt), of L (nt nt), and one number for an inverse. */
enum { MAX_L, MAX_X, MAX_C = MAX_X + 2, MAX_DIAG = MAX_C + 2, SUM_X, SUM_B = SUM_X + 2, SUM_L };

fp16_factor_options fp16_factor_defaults(int64_t m, int64_t rows, double accuracy) {
    /* a multiple of the 192 columns that a block of the kernel of rounded sums makes; tiles of
     * 1,024 and panels of 4,096 take 7 % longer and are half as exact
     * (bench/results/half-solve-h200.txt)
     */
    const bool large = m >= 32768;
    const int64_t tile = large ? 576 : m >= 4096 ? 256 : 64;
    return (fp16_factor_options){tile, (large ? 8 : 4) * tile, FP16_DEPTH, rows, accuracy};
}

int64_t fp16_panel_start(int64_t m, int64_t panel, int64_t j0) {
    int64_t at = 0;
    for (int64_t j = 0; j < j0; j += panel)
        at += 2 * fp16_ld(m, j) * fp16_min(panel, m - j);
    return at;
}

size_t fp16_factor_bytes(int64_t m, const fp16_factor_options *o) {
    return (size_t)fp16_panel_start(m, o->panel, m) * sizeof(backend_f16);
}

/* Panel by panel in the lower triangle of doubles in which L was: the columns of both parts, one
 * behind the other, within those of L from the panel's first row on. */
static fp16_pair inside_entry(const fp16_factor *f, int64_t i, int64_t j) {
    const int64_t j0 = j / f->o.panel * f->o.panel, rows = f->m - j0, ld = 4 * f->inside;
    const backend_f16 *hi = f->place + 4 * j0 + j0 * ld + (i - j0) + (j - j0) * ld;
    return (fp16_pair){hi, hi + (rows < 8 ? rows : fp16_ld(f->m, j0)), ld, f->el};
}

fp16_pair fp16_entry(const fp16_factor *f, int64_t i, int64_t j) {
    if (f->inside > 0)
        return inside_entry(f, i, j);
    const int64_t j0 = j / f->o.panel * f->o.panel, ld = fp16_ld(f->m, j0);
    const backend_f16 *hi =
        f->place + fp16_panel_start(f->m, f->o.panel, j0) + (i - j0) + (j - j0) * ld;
    return (fp16_pair){hi, hi + ld * fp16_min(f->o.panel, f->m - j0), ld, f->el};
}

fp16_pair half_inverse(const fp16_factor *f, int64_t i) {
    const int64_t size = f->o.tile * f->o.tile;
    return (fp16_pair){f->inverse + 2 * i * size, f->inverse + (2 * i + 1) * size, f->o.tile,
                       f->ei[i]};
}

int fp16_factor_exponent(const fp16_factor *f) {
    return f->ex[1];
}

/* --- life */

static int64_t numbers(const fp16_factor *f) {
    return (SUM_L + f->nt) * f->nt + 1;
}

static status take(fp16_factor *f) {
    const backend *be = f->be;
    const size_t nt = (size_t)f->nt, tile = (size_t)f->o.tile;
    status st;
    TRY(ALLOC(f->ei, nt, "a factor in split FP16"));
    TRY(ALLOC(f->host, (size_t)numbers(f), "sizes of a factor"));
    for (int k = 0; k < FP16_SOLVES; k++) {
        TRY(ALLOC(f->ec[k], nt, "a factor in split FP16"));
        TRY(ALLOC(f->three[k], nt * nt, "tiles of a factor"));
    }
    TRY(be->alloc(f->ctx, 2 * nt * tile * tile * sizeof *f->inverse, (void **)&f->inverse));
    TRY(be->alloc(f->ctx, (size_t)numbers(f) * sizeof *f->norms, (void **)&f->norms));
    st = be->alloc(f->ctx, (nt + 1) * sizeof *f->info, (void **)&f->info);
done:
    return st;
}

status fp16_factor_open(const backend *be, backend_ctx *ctx, int64_t m,
                        const fp16_factor_options *o, fp16_factor **out) {
    fp16_factor *f = NULL;
    status st;
    *out = NULL;
    if (m < 1 || o->tile < 1 || o->panel < o->tile || o->panel % o->tile != 0 || o->depth < 1 ||
        o->rows < 1 || !(o->accuracy >= 0))
        return status_fail(MOAO_INPUT, "factor in split FP16: an option is out of range");
    TRY(ALLOC(f, 1, "a factor in split FP16"));
    f->be = be;
    f->ctx = ctx;
    f->m = m;
    f->o = *o;
    f->nt = (m + o->tile - 1) / o->tile;
    TRY(take(f));
    *out = f;
    f = NULL;
done:
    fp16_factor_close(f);
    return st;
}

void fp16_factor_close(fp16_factor *f) {
    if (f == NULL)
        return;
    f->be->release(f->ctx, f->inverse);
    f->be->release(f->ctx, f->norms);
    f->be->release(f->ctx, f->info);
    free(f->ei);
    free(f->host);
    for (int k = 0; k < FP16_SOLVES; k++) {
        free(f->ec[k]);
        free(f->three[k]);
    }
    free(f);
}

/* --- making it */

/* A multiple of what workspaces are aligned to. */
static size_t whole(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* Work of a panel: a tile, a column block of the sample, and what the backend's operations want. */
typedef struct {
    double *tile, *rows;
    void *work;
    size_t lwork;
} scratch;

static size_t tile_bytes(const fp16_factor *f) {
    return whole((size_t)(f->o.tile * f->o.tile) * sizeof(double));
}

static size_t rows_bytes(const fp16_factor *f, int64_t n) {
    return whole((size_t)(n * f->o.tile) * sizeof(double));
}

size_t fp16_factor_panel_work(const fp16_factor *f, int64_t n) {
    const int64_t tile = f->o.tile;
    const size_t invert = f->be->workspace(BACKEND_TRTRI, BACKEND_D, tile, tile),
                 rows = f->be->workspace(BACKEND_TRMM, BACKEND_D, n, tile);
    return tile_bytes(f) + rows_bytes(f, n) + (invert > rows ? invert : rows);
}

static scratch cut(const fp16_factor *f, int64_t n, void *work, size_t lwork) {
    const size_t tile = tile_bytes(f), rows = rows_bytes(f, n);
    char *part = work;
    return (scratch){(double *)(void *)part, (double *)(void *)(part + tile), part + tile + rows,
                     lwork - tile - rows};
}

static status copy(const fp16_factor *f, double *to, int64_t ldt, const double *from, int64_t ldf,
                   int64_t rows, int64_t cols) {
    const int64_t size = (int64_t)sizeof(double);
    return f->be->copy(f->ctx, to, ldt * size, from, ldf * size, rows * size, cols);
}

/* Device memory of number `which` of tile i. */
static double *number(const fp16_factor *f, int which, int64_t i) {
    return f->norms + which * f->nt + i;
}

static status fetch(const fp16_factor *f, void *to, const void *from, size_t bytes) {
    const int64_t size = (int64_t)bytes;
    const status st = f->be->copy(f->ctx, to, size, from, size, size, 1);
    return st == MOAO_OK ? f->be->sync(f->ctx) : st;
}

status fp16_factor_begin(fp16_factor *f, double bound, const fp16_sample *sample, void *place) {
    const backend_fp16 *fp16 = f->be->fp16;
    const int64_t n = sample->n, most = n + f->o.tile;
    const double *const x[FP16_SOLVES] = {sample->x, sample->w};
    status st = MOAO_OK;
    if (n < 1 || sample->ldb < n || sample->ld < n || !(bound > 0) || isinf(bound))
        return status_fail(MOAO_INPUT, "factor in split FP16: an argument is out of range");
    f->sample = *sample;
    f->place = place;
    f->inside = 0;
    f->ready = false;
    f->el = backend_fp16_exponent(bound);
    for (int64_t i = 0; i < f->nt; i++) {
        const int64_t from = fp16_start(f, i), at = from * sample->ld, cols = fp16_order(f, i);
        TRY(fp16->squares(f->ctx, BACKEND_D, n, cols, sample->b + from * sample->ldb, sample->ldb,
                          most, number(f, SUM_B, i), 1));
        for (int k = 0; k < FP16_SOLVES; k++) {
            TRY(fp16->squares(f->ctx, BACKEND_D, n, cols, x[k] + at, sample->ld, most,
                              number(f, SUM_X + k, i), 1));
            TRY(fp16->max_abs(f->ctx, BACKEND_D, n, cols, x[k] + at, sample->ld,
                              number(f, MAX_X + k, i)));
        }
    }
done:
    return st;
}

/* Inverse of tile i, on the diagonal, whose lower triangle begins at l. Waits. */
static status invert(fp16_factor *f, int64_t i, const double *l, int64_t ldl, const scratch *s) {
    const backend *be = f->be;
    const int64_t n = fp16_order(f, i), tile = f->o.tile, size = tile * tile;
    double *most = f->norms + numbers(f) - 1, *x = s->tile;
    status st;
    TRY(copy(f, x, tile, l, ldl, n, n));
    TRY(be->mirror(f->ctx, BACKEND_D, 'L', n, x, tile)); /* no unknown numbers above */
    TRY(be->fp16->max_abs(f->ctx, BACKEND_D, n, n, x, tile, number(f, MAX_DIAG, i)));
    TRY(be->fp16->squares(f->ctx, BACKEND_D, n, n, x, tile, tile, number(f, SUM_L, i + i * f->nt),
                          f->nt));
    TRY(be->trtri(f->ctx, BACKEND_D, 'L', 'N', n, x, tile, f->info + i, s->work, s->lwork));
    TRY(be->mirror(f->ctx, BACKEND_D, 'L', n, x, tile));
    TRY(be->fp16->max_abs(f->ctx, BACKEND_D, n, n, x, tile, most));
    TRY(fetch(f, f->host, most, sizeof *most));
    f->ei[i] = backend_fp16_exponent(f->host[0]);
    st = be->fp16->split(f->ctx, BACKEND_D, 'L', n, n, f->ei[i], x, tile, f->inverse + 2 * i * size,
                         tile, f->inverse + (2 * i + 1) * size, tile);
done:
    return st;
}

/* Largest entry of the sample's right-hand sides of tile i: X L' and W L there. */
static status measure_rows(const fp16_factor *f, int64_t i, const double *l, int64_t ldl,
                           const scratch *s) {
    const backend *be = f->be;
    const fp16_sample *a = &f->sample;
    const double one = 1;
    const int64_t at = fp16_start(f, i), n = fp16_order(f, i);
    status st = MOAO_OK;
    for (int k = 0; k < FP16_SOLVES; k++) {
        TRY(copy(f, s->rows, a->n, (k == 0 ? a->x : a->w) + at * a->ld, a->ld, a->n, n));
        TRY(be->trmm(f->ctx, BACKEND_D, 'R', 'L', k == 0 ? 'T' : 'N', 'N', a->n, n, &one, l, ldl,
                     s->rows, a->n, s->work, s->lwork));
        TRY(be->fp16->max_abs(f->ctx, BACKEND_D, a->n, n, s->rows, a->n, number(f, MAX_C + k, i)));
    }
done:
    return st;
}

status fp16_factor_panel(fp16_factor *f, int64_t j, const double *l, int64_t ldl, void *work,
                         size_t lwork) {
    const backend_fp16 *fp16 = f->be->fp16;
    const int64_t m = f->m, width = fp16_min(f->o.panel, m - j), end = j + width;
    const fp16_pair to = fp16_entry(f, j, j);
    status st = MOAO_OK;
    if (ldl < m - j || lwork < fp16_factor_panel_work(f, f->sample.n))
        return status_fail(MOAO_INPUT, "factor in split FP16: an argument is out of range");
    const scratch s = cut(f, f->sample.n, work, lwork);
    for (int64_t i = j / f->o.tile; i < f->nt && fp16_start(f, i) < end; i++) {
        const int64_t at = fp16_start(f, i), next = fp16_start(f, i + 1), n = next - at;
        const double *on = l + (at - j) + (at - j) * ldl, *below = on + n;
        TRY(invert(f, i, on, ldl, &s));
        TRY(measure_rows(f, i, on, ldl, &s));
        TRY(fp16->max_abs(f->ctx, BACKEND_D, m - next, n, below, ldl, number(f, MAX_L, i)));
        TRY(fp16->squares(f->ctx, BACKEND_D, m - next, n, below, ldl, f->o.tile,
                          number(f, SUM_L, i + 1 + i * f->nt), f->nt));
    }
    st = fp16->split(f->ctx, BACKEND_D, 'L', m - j, width, f->el, l, ldl, (backend_f16 *)to.hi,
                     to.ld, (backend_f16 *)to.lo, to.ld);
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
    return backend_fp16_exponent(ldexp(most, HEADROOM));
}

status fp16_factor_choose(fp16_factor *f, double accuracy) {
    const int64_t nt = f->nt;
    const double *h = f->host;
    fp16_sizes s = {h + SUM_L * nt, {h + SUM_X * nt, h + (SUM_X + 1) * nt}, 0};
    for (int64_t i = 0; i < nt; i++)
        s.b += h[SUM_B * nt + i];
    if (f->ready && f->o.accuracy == accuracy) /* sorting them takes a hundredth of a solve */
        return MOAO_OK;
    f->o.accuracy = accuracy;
    const status st = fp16_choose_tiles(f, &s);
    if (st != MOAO_OK)
        f->o.accuracy = NAN;
    return st;
}

void fp16_factor_pieces(fp16_factor *f, int64_t depth) {
    f->o.depth = depth > 0 ? depth : 1;
}

/* From the numbers on the host: what fp16_factor_end says of the data. */
static int look(const fp16_factor *f, const int *zeros) {
    double sum = 0;
    for (int64_t i = 0; i < f->nt; i++)
        if (zeros[i] != 0)
            return (int)fp16_start(f, i) + zeros[i];
    for (int64_t i = 0; i < SUM_L * f->nt; i++)
        sum += f->host[i];
    /* an entry of L is at most 2^15 as a half; what is far over the bound is not of this factor */
    return isfinite(sum) && largest_of(f->host + MAX_L * f->nt, f->nt) <= ldexp(65504, -f->el) &&
                   largest_of(f->host + MAX_DIAG * f->nt, f->nt) <= ldexp(65504, -f->el)
               ? 0
               : -1;
}

status fp16_factor_end(fp16_factor *f, int *info) {
    const int64_t nt = f->nt;
    int *zeros = NULL;
    status st;
    *info = -1;
    TRY(ALLOC(zeros, (size_t)nt, "sizes of a factor"));
    TRY(fetch(f, zeros, f->info, (size_t)nt * sizeof *zeros));
    TRY(fetch(f, f->host, f->norms, (size_t)numbers(f) * sizeof *f->host));
    *info = look(f, zeros);
    if (*info != 0)
        goto done;
    for (int k = 0; k < FP16_SOLVES; k++) {
        f->ex[k] = roomy(largest_of(f->host + (MAX_X + k) * nt, nt));
        for (int64_t i = 0; i < nt; i++)
            f->ec[k][i] = roomy(f->host[(MAX_C + k) * nt + i]);
    }
    TRY(fp16_factor_choose(f, f->o.accuracy));
    f->ready = true;
done:
    free(zeros);
    return st;
}

/* --- all of it from a factor on the device */

static size_t sample_bytes(const fp16_factor *f, int64_t n) {
    return whole((size_t)(n * f->m) * sizeof(double));
}

static size_t stage_bytes(const fp16_factor *f) {
    const int64_t panel = f->m * fp16_min(f->o.panel, f->m), tile = f->o.tile * f->o.tile;
    return whole((size_t)(panel > tile ? panel : tile) * sizeof(double));
}

static size_t rest_bytes(const fp16_factor *f, int64_t n) {
    const size_t solve = f->be->workspace(BACKEND_TRSM, BACKEND_D, n, f->m),
                 panel = fp16_factor_panel_work(f, n);
    return solve > panel ? solve : panel;
}

size_t fp16_factor_make_work(const fp16_factor *f, int64_t n) {
    return 2 * sample_bytes(f, n) + stage_bytes(f) + rest_bytes(f, n);
}

/* Inside L a panel lies on what it is made of, so that a copy of that is made. In place otherwise a
 * panel of FP16 numbers ends before the columns of L that come after it begin, and only the first
 * one lies on its own. */
static status take_panels(fp16_factor *f, const double *l, int64_t ldl, double *stage, void *work,
                          size_t lwork) {
    const int64_t m = f->m;
    status st = MOAO_OK;
    for (int64_t j = 0, w; j < m; j += w) {
        w = fp16_min(f->o.panel, m - j);
        const fp16_pair to = fp16_entry(f, j, j);
        const double *from = l + j + j * ldl;
        const bool staged =
            f->inside > 0 || ((uintptr_t)(to.lo + to.ld * w) > (uintptr_t)(l + j * ldl) &&
                              (uintptr_t)to.hi < (uintptr_t)(l + (j + w) * ldl));
        if (staged)
            TRY(copy(f, stage, m - j, from, ldl, m - j, w));
        TRY(fp16_factor_panel(f, j, staged ? stage : from, staged ? m - j : ldl, work, lwork));
    }
done:
    return st;
}

/* Largest entry of L; where there is none that is finite and not 0: 1. Waits. */
static status find_bound(const fp16_factor *f, const double *l, int64_t ldl, double *tile,
                         double *bound) {
    const backend *be = f->be;
    status st = MOAO_OK;
    *bound = 0;
    for (int64_t i = 0; i < f->nt; i++) {
        const int64_t at = fp16_start(f, i), n = fp16_order(f, i), next = at + n;
        const double *on = l + at + at * ldl;
        TRY(copy(f, tile, n, on, ldl, n, n));
        TRY(be->mirror(f->ctx, BACKEND_D, 'L', n, tile, n));
        TRY(be->fp16->max_abs(f->ctx, BACKEND_D, n, n, tile, n, number(f, MAX_DIAG, i)));
        TRY(be->fp16->max_abs(f->ctx, BACKEND_D, f->m - next, n, on + n, ldl, number(f, MAX_L, i)));
    }
    TRY(fetch(f, f->host, f->norms, (size_t)numbers(f) * sizeof *f->host));
    for (int64_t i = 0; i < f->nt; i++)
        *bound = fmax(*bound, fmax(f->host[MAX_DIAG * f->nt + i], f->host[MAX_L * f->nt + i]));
    if (!(*bound > 0) || isinf(*bound))
        *bound = 1;
done:
    return st;
}

status fp16_factor_make(fp16_factor *f, double *l, int64_t ldl, int64_t n, const double *b,
                        int64_t ldb, void *place, void *work, size_t lwork, int *info) {
    const backend *be = f->be;
    const double one = 1;
    char *part = work;
    double bound;
    status st;
    if (ldl < f->m || n < 1 || ldb < n || lwork < fp16_factor_make_work(f, n))
        return status_fail(MOAO_INPUT, "factor in split FP16: an argument is out of range");
    const size_t sample = sample_bytes(f, n), stage = stage_bytes(f);
    double *x = (double *)(void *)part, *w = (double *)(void *)(part + sample);
    char *rest = part + 2 * sample + stage;
    const size_t lrest = lwork - 2 * sample - stage;
    const fp16_sample all = {n, b, ldb, x, w, n};
    TRY(copy(f, x, n, b, ldb, n, f->m));
    TRY(be->trsm(f->ctx, BACKEND_D, 'R', 'L', 'T', 'N', n, f->m, &one, l, ldl, x, n, rest, lrest));
    TRY(copy(f, w, n, x, n, n, f->m));
    TRY(be->trsm(f->ctx, BACKEND_D, 'R', 'L', 'N', 'N', n, f->m, &one, l, ldl, w, n, rest, lrest));
    TRY(find_bound(f, l, ldl, (double *)(void *)(part + 2 * sample), &bound));
    TRY(fp16_factor_begin(f, bound, &all, place != NULL ? place : l));
    f->inside = place != NULL ? 0 : ldl;
    TRY(take_panels(f, l, ldl, (double *)(void *)(part + 2 * sample), rest, lrest));
    st = fp16_factor_end(f, info);
done:
    return st;
}
