/* W = B (L L')^-1 by a factor in FP16: X L' = B forward, W L = X backward, by column blocks. */
#include "fp16_internal.h"

#include <math.h>
#include <stdlib.h>

/* A slice of rows that are solved together. */
typedef struct {
    const fp16_factor *f;
    int solve;
    int64_t n, ldb, ldw;
    float *b;             /* right-hand sides, which become the solution */
    backend_f16 *hi, *lo; /* the solution so far, in FP16 */
    backend_f16 *work;    /* FP16 parts of a column block of b: hi, lo */
    bool *done;           /* of the tiles in three products, in this solve */
} slice;

static fp16_pair solution(const slice *s, int64_t column) {
    return (fp16_pair){s->hi + column * s->ldw, s->lo + column * s->ldw, s->ldw,
                       s->f->ex[s->solve]};
}

/* Subtract what tiles r of L, in one panel, contribute: solve 0: columns r.j of X times their
 * transpose from columns r.i of B; 1: columns r.i of W times them from columns r.j. */
static status subtract(const slice *s, fp16_products which, fp16_range r) {
    const fp16_factor *f = s->f;
    const int64_t i = fp16_start(f, r.i0), j = fp16_start(f, r.j0);
    const int64_t ni = fp16_start(f, r.i1) - i, nj = fp16_start(f, r.j1) - j;
    const bool first = s->solve == 0;
    return fp16_gemm_part(f->be, f->ctx, which, f->o.depth, 'N', first ? 'T' : 'N', s->n,
                          first ? ni : nj, first ? nj : ni, -1, solution(s, first ? j : i),
                          fp16_entry(f, i, j), 1, s->b + (first ? i : j) * s->ldb, s->ldb);
}

static bool all_three(const slice *s, fp16_range r) {
    for (int64_t j = r.j0; j < r.j1; j++)
        for (int64_t i = r.i0; i < r.i1; i++)
            if (!s->f->three[s->solve][i + j * s->f->nt])
                return false;
    return true;
}

static status update(const slice *s, fp16_range r) {
    fp16_range part;
    status st = MOAO_OK;
    if (r.i0 >= r.i1 || r.j0 >= r.j1)
        return MOAO_OK;
    if (all_three(s, r))
        return subtract(s, FP16_ALL, r);
    while (fp16_next_rectangle(s->f, s->solve, r, s->done, &part))
        TRY(subtract(s, FP16_OTHERS, part));
    st = subtract(s, FP16_FIRST, r);
done:
    return st;
}

/* Column block i, which nothing is to be subtracted from any more, by the inverse. */
static status finish(const slice *s, int64_t i) {
    const fp16_factor *f = s->f;
    const backend_fp16 *fp16 = f->be->fp16;
    const int64_t at = fp16_start(f, i), n = fp16_order(f, i);
    const fp16_pair x = solution(s, at);
    const int64_t ld = fp16_rows_ld(s->n);
    const fp16_pair c = {s->work, s->work + ld * f->o.tile, ld, f->ec[s->solve][i]};
    float *b = s->b + at * s->ldb;
    status st;
    TRY(fp16->split(f->ctx, BACKEND_S, 'A', s->n, n, c.exponent, b, s->ldb, s->work, ld,
                    s->work + ld * f->o.tile, ld));
    TRY(fp16_gemm_part(f->be, f->ctx, FP16_ALL, f->o.depth, 'N', s->solve == 0 ? 'T' : 'N', s->n, n,
                       n, 1, c, half_inverse(f, i), 0, b, s->ldb));
    st = fp16->split(f->ctx, BACKEND_S, 'A', s->n, n, x.exponent, b, s->ldb, s->hi + at * s->ldw,
                     s->ldw, s->lo + at * s->ldw, s->ldw);
done:
    return st;
}

/* Column blocks a to b of one panel; all other panels' contributions are subtracted. */
static status within(const slice *s, int64_t a, int64_t b) {
    const int64_t mid = a + (b - a) / 2;
    const fp16_range off = {mid, b, a, mid};
    status st;
    if (b - a == 1)
        return finish(s, a);
    TRY(s->solve == 0 ? within(s, a, mid) : within(s, mid, b));
    TRY(update(s, off));
    st = s->solve == 0 ? within(s, mid, b) : within(s, a, mid);
done:
    return st;
}

static status solve_slice(const slice *s) {
    const fp16_factor *f = s->f;
    const int64_t step = f->o.panel / f->o.tile, panels = (f->nt + step - 1) / step;
    status st = MOAO_OK;
    for (int64_t k = 0; k < panels; k++) {
        const int64_t a = (s->solve == 0 ? k : panels - 1 - k) * step,
                      b = fp16_min(a + step, f->nt);
        const fp16_range below = {b, f->nt, a, b};
        if (s->solve == 0) {
            TRY(within(s, a, b));
            TRY(update(s, below));
        } else {
            TRY(update(s, below));
            TRY(within(s, a, b));
        }
    }
done:
    return st;
}

size_t fp16_factor_solve_work(const fp16_factor *f) {
    return (size_t)(fp16_rows_ld(f->o.rows) * f->o.tile) * 2 * sizeof(backend_f16);
}

status fp16_factor_solve(fp16_factor *f, int64_t n, float *b, int64_t ldb, backend_f16 *hi,
                         backend_f16 *lo, int64_t ldw, void *work, size_t lwork) {
    bool *done = NULL;
    status st = MOAO_OK;
    if (n < 0 || ldb < (n > 1 ? n : 1) || ldw < (n > 1 ? n : 1) ||
        lwork < fp16_factor_solve_work(f) || !f->ready)
        return status_fail(MOAO_INPUT, "solve in split FP16: an argument is out of range");
    for (int64_t i = 0; i < n; i += f->o.rows)
        for (int solve = 0; solve < FP16_SOLVES; solve++) {
            TRY(ALLOC(done, (size_t)(f->nt * f->nt), "tiles of a factor"));
            const slice s = {
                f, solve, fp16_min(n - i, f->o.rows), ldb, ldw, b + i, hi + i, lo + i, work, done};
            TRY(solve_slice(&s));
            free(done);
            done = NULL;
        }
done:
    free(done);
    return st;
}

double fp16_factor_flops(const fp16_factor *f, int64_t n) {
    const double m = (double)f->m, tile = (double)fp16_min(f->o.tile, f->m);
    const double off = m * (m - tile) * (1 + 2 * f->share), on = 2 * 3 * m * tile;
    return 2 * (double)n * (off + on);
}
