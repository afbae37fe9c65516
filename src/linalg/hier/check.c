/* Whether a format holds what its source says: sampled rows, and that all numbers are finite. */
#include "sampled.h"
#include <math.h>
#include <stdlib.h>

/* --- rows ------------------------------------------------------------------------------------ */

status sampled_open(sampled_rows *c, const format *f, const hier_source *s, bool both) {
    const size_t size = backend_size(f->o.type);
    const int64_t rows = f->info.rows, n = f->info.cols, *order = f->info.order;
    int *lists = NULL;
    status st;
    *c = (sampled_rows){.f = f, .s = s, .n = n};
    c->few = 16777216 / (n > 0 ? n : 1);
    c->few = c->few < 1 ? 1 : c->few > SAMPLED_MOST ? SAMPLED_MOST : c->few;
    TRY(ALLOC(lists, (unsigned long)n, "columns of a check"));
    TRY(ALLOC(c->source, (unsigned long)(n * c->few), "rows of a check"));
    TRY(f->be->alloc(f->ctx, sizeof(double) * (size_t)(n * c->few), &c->want));
    for (int64_t j = 0; j < n; j++)
        lists[j] = (int)(order ? order[j] : j);
    TRY(hier_upload(f, lists, sizeof(int) * (size_t)n, (void **)&c->index));
    if (both) {
        c->lwork = hier_workspace(f, 'L', c->few);
        TRY(ALLOC(c->had, (unsigned long)(n * c->few), "rows of a check"));
        TRY(f->be->alloc(f->ctx, size * (size_t)(n * c->few), &c->got));
        TRY(f->be->alloc(f->ctx, size * (size_t)(rows * c->few), &c->unit));
        TRY(f->be->alloc(f->ctx, c->lwork, &c->work));
    }
done:
    free(lists);
    return st;
}

void sampled_close(sampled_rows *c) {
    const format *f = c->f;
    void *device[] = {c->index, c->want, c->unit, c->got, c->work};
    for (size_t i = 0; f && i < sizeof device / sizeof *device; i++)
        f->be->release(f->ctx, device[i]);
    free(c->source), free(c->had);
    *c = (sampled_rows){0};
}

/* Blocks of few rows, which a CPU makes side by side. */
status sampled_gather(sampled_rows *c, const int *row, int64_t few) {
    enum { ROWS = 8, BLOCKS = SAMPLED_MOST / ROWS };
    const format *f = c->f;
    const int64_t count = (few + ROWS - 1) / ROWS;
    const int *pointers[2 * BLOCKS];
    int64_t sizes[BLOCKS];
    int *list = NULL, at[SAMPLED_MOST] = {0};
    void *where = NULL, *each = NULL;
    status st;
    for (int64_t i = 0; i < few; i++)
        at[i] = (int)(f->info.order ? f->info.order[row[i]] : row[i]);
    TRY(hier_upload(f, at, sizeof *at * (size_t)few, (void **)&list));
    for (int64_t b = 0; b < count; b++) {
        pointers[b] = list + ROWS * b, pointers[count + b] = c->index;
        sizes[b] = few - ROWS * b < ROWS ? few - ROWS * b : ROWS;
    }
    TRY(hier_upload(f, pointers, sizeof *pointers * (size_t)(2 * count), &where));
    TRY(hier_upload(f, sizes, sizeof *sizes * (size_t)count, &each));
    const hier_blocks b = {count,
                           {ROWS, each},
                           batch_size(c->n),
                           where,
                           (const int *const *)where + count,
                           batch_strided(c->want, few, ROWS),
                           false};
    TRY(c->s->gather(c->s->from, f->ctx, BACKEND_D, &b));
    TRY(f->be->sync(f->ctx));
done:
    f->be->release(f->ctx, list), f->be->release(f->ctx, where), f->be->release(f->ctx, each);
    return st;
}

status sampled_source(sampled_rows *c, const int *row, int64_t few) {
    const int64_t bytes = (int64_t)sizeof(double) * few * c->n;
    status st;
    TRY(sampled_gather(c, row, few));
    TRY(c->f->be->copy(c->f->ctx, c->source, bytes, c->want, bytes, bytes, 1));
    st = c->f->be->sync(c->f->ctx);
done:
    return st;
}

status sampled_had(sampled_rows *c, const int *row, int64_t few) {
    const format *f = c->f;
    const int64_t size = (int64_t)backend_size(f->o.type), rows = f->info.rows;
    void *unit = NULL, *raw = NULL;
    status st;
    TRY(mem_alloc(&unit, (unsigned long)(rows * few), (unsigned long)size, "unit vectors"));
    for (int64_t i = 0; i < few; i++)
        number_set(f->o.type, unit, row[i] + i * rows, 1);
    TRY(f->be->copy(f->ctx, c->unit, size * rows, unit, size * rows, size * rows, few));
    TRY(hier_apply(f, 'L', 'T', 'A', few, 1, c->unit, rows, 0, c->got, c->n, c->work, c->lwork));
    TRY(mem_alloc(&raw, (unsigned long)(c->n * few), (unsigned long)size, "rows of a check"));
    TRY(f->be->copy(f->ctx, raw, size * c->n, c->got, size * c->n, size * c->n, few));
    TRY(f->be->sync(f->ctx));
    for (int64_t e = 0; e < c->n * few; e++)
        c->had[e] = number_get(f->o.type, raw, e);
done:
    free(unit), free(raw);
    return st;
}

/* --- errors of entries ----------------------------------------------------------------------- */

/* The root of a sum of squares that may lie beyond the range of numbers: largest^2 times it. */
typedef struct {
    double largest, sum;
} squares;

static void squares_add(squares *q, double x) {
    if (x > q->largest) {
        q->sum = q->largest > 0 ? q->sum * (q->largest / x) * (q->largest / x) : 0;
        q->largest = x;
    }
    if (q->largest > 0)
        q->sum += (x / q->largest) * (x / q->largest);
}

static status compare(format *f, const hier_source *s, int samples, uint64_t seed, double *rms,
                      double *worst) {
    squares all = {0, 0};
    int row[SAMPLED_MOST];
    sampled_rows c;
    status st;
    TRY(sampled_open(&c, f, s, true));
    for (int64_t done = 0; done < samples; done += c.few) {
        const int64_t few = samples - done < c.few ? samples - done : c.few;
        for (int64_t i = 0; i < few; i++) { /* a linear congruential generator's upper bits */
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            row[i] = (int)((seed >> 33) % (uint64_t)f->info.rows);
        }
        TRY(sampled_source(&c, row, few));
        TRY(sampled_had(&c, row, few));
        for (int64_t i = 0; i < few; i++)
            for (int64_t j = 0; j < c.n; j++) {
                const double e = fabs(c.source[i + j * few] - c.had[j + i * c.n]);
                if (!isfinite(e)) {
                    *rms = *worst = f->info.error = f->info.worst = e;
                    TRY(status_fail(MOAO_NUMERIC,
                                    "hier_check: row %d, column %lld of the format or of its "
                                    "source is not finite",
                                    row[i], (long long)j));
                }
                squares_add(&all, e);
            }
    }
    *rms = f->info.error = all.largest * sqrt(all.sum / ((double)samples * (double)c.n));
    *worst = f->info.worst = all.largest;
done:
    sampled_close(&c);
    return st;
}

status hier_check(format *f, const hier_source *s, int samples, uint64_t seed, double *rms,
                  double *worst) {
    status st;
    *rms = *worst = 0;
    TRY(hier_fits(f, s));
    TRY(hier_has_values(f));
    if (samples < 1 || !s->gather)
        return status_fail(MOAO_INPUT, "hier_check: no samples, or the source gathers no entries");
    if (f->info.rows == 0 || f->info.cols == 0)
        return MOAO_OK;
    f->checked = true;
    st = compare(f, s, samples, seed, rms, worst);
    f->checked = false;
done:
    return st;
}

/* --- finite numbers -------------------------------------------------------------------------- */

/* A x of numbers of modulus 2^-30, so that sums of finite entries stay finite. */
static status product_is_finite(format *f) {
    const int64_t m = f->info.rows, n = f->info.cols, size = (int64_t)backend_size(f->o.type);
    const size_t lwork = hier_workspace(f, 'L', 1);
    void *host = NULL, *x = NULL, *y = NULL, *work = NULL;
    double *largest = NULL, found = 0;
    status st;
    TRY(mem_alloc(&host, (unsigned long)n, (unsigned long)size, "a vector"));
    for (int64_t i = 0; i < n; i++)
        number_set(f->o.type, host, i, i % 3 == 1 ? -0x1p-30 : 0x1p-30);
    TRY(hier_upload(f, host, (size_t)(n * size), &x));
    TRY(f->be->alloc(f->ctx, (size_t)(m * size), &y));
    TRY(f->be->alloc(f->ctx, lwork, &work));
    TRY(f->be->alloc(f->ctx, sizeof found, (void **)&largest));
    TRY(hier_apply(f, 'L', 'N', 'A', 1, 1, x, n, 0, y, m, work, lwork));
    TRY(f->be->fp16->max_abs(f->ctx, f->o.type, m, 1, y, m, largest));
    TRY(f->be->copy(f->ctx, &found, sizeof found, largest, sizeof found, sizeof found, 1));
    TRY(f->be->sync(f->ctx));
    if (!isfinite(found))
        st = status_fail(MOAO_NUMERIC, "an entry of the source of a format is not finite");
done:
    free(host);
    f->be->release(f->ctx, x), f->be->release(f->ctx, y), f->be->release(f->ctx, work),
        f->be->release(f->ctx, largest);
    return st;
}

status hier_finite(format *f) {
    status st = MOAO_OK;
    if (f->info.rows == 0 || f->info.cols == 0 || f->o.half)
        return st; /* of FP16 numbers x would be in FP16 too */
    const bool lost = f->lost;
    f->lost = false;
    for (int k = 0; k < 2 && st == MOAO_OK;
         k++) { /* what is approximated, and what is kept whole */
        f->checked = k == 0;
        st = product_is_finite(f);
    }
    f->checked = false, f->lost = lost;
    return st;
}
