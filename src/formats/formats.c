/* The interface of formats: arguments are checked here, then the kind's own table is called. */
#include "internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const format_table *const known[] = {&format_dense, &format_toeplitz, &format_hss,
                                            &format_h2};

static const format_table *table_of(format_kind kind) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i]->kind == kind)
            return known[i];
    return NULL;
}

static status check_source(const backend *be, const format_source *s, const format_options *o) {
    if (!table_of(o->kind))
        return status_fail(MOAO_INPUT, "format %d is not part of this library", (int)o->kind);
    if (o->type != BACKEND_D && o->type != BACKEND_S)
        return status_fail(MOAO_INPUT, "a format has numbers of type D or S");
    if (s->rows < 0 || s->cols < 0 || s->rows > INT32_MAX || s->cols > INT32_MAX || s->dim < 0 ||
        s->dim > 3 || (s->symmetric && s->rows != s->cols))
        return status_fail(MOAO_INPUT, "a source of %lld x %lld entries at points of %d dimensions",
                           (long long)s->rows, (long long)s->cols, s->dim);
    if (!be->formats)
        return status_fail(MOAO_INPUT, "the %s backend has no operations of formats", be->name);
    if (!(o->tol >= 0) || o->leaf < 0 || o->rank < 0 || o->samples < 0 || o->order < 0 ||
        o->together < 0)
        return status_fail(MOAO_INPUT, "an option of a format is negative");
    return MOAO_OK;
}

status format_bytes(const backend *be, const format_source *s, const format_options *o,
                    size_t *bytes, size_t *most_work) {
    const status st = check_source(be, s, o);
    return st != MOAO_OK ? st : table_of(o->kind)->bytes(be, s, o, bytes, most_work);
}

status format_open(const backend *be, backend_ctx *ctx, const format_source *s,
                   const format_options *o, format **out) {
    *out = NULL;
    const status st = check_source(be, s, o);
    return st != MOAO_OK ? st : table_of(o->kind)->open(be, ctx, s, o, out);
}

void format_begin(format *f, const format_table *is, const backend *be, backend_ctx *ctx,
                  const format_source *s, const format_options *o) {
    f->is = is, f->be = be, f->ctx = ctx, f->o = *o, f->symmetric = s->symmetric;
    f->info.kind = is->kind, f->info.rows = s->rows, f->info.cols = s->cols;
    f->info.error = f->info.worst = NAN;
}

status format_load(format *f, const format_source *s) {
    if (s->rows != f->info.rows || s->cols != f->info.cols || s->symmetric != f->symmetric)
        return status_fail(MOAO_INPUT, "a format of %lld x %lld takes no source of another shape",
                           (long long)f->info.rows, (long long)f->info.cols);
    f->info.error = f->info.worst = NAN;
    return f->is->load(f, s);
}

void format_close(format *f) {
    if (f)
        f->is->close(f);
}

size_t format_workspace(const format *f, char side, int64_t nvec) {
    return f->is->workspace(f, side, nvec);
}

/* Arguments of a product. */
static status check_product(const format *f, char side, char trans, char part, int64_t nvec,
                            int64_t ldx, int64_t ldy, size_t lwork) {
    const bool left = side == 'L', turned = (trans != 'N') == left;
    const int64_t in = turned ? f->info.rows : f->info.cols,
                  out = turned ? f->info.cols : f->info.rows;
    if (!strchr("LR", side) || !strchr("NTC", trans) || !strchr("AH", part) || nvec < 0 ||
        ldx < (left ? in : nvec) || ldy < (left ? out : nvec) || ldx < 1 || ldy < 1 ||
        (part == 'H' && !f->symmetric))
        return status_fail(MOAO_INPUT, "format_apply: an argument is out of range");
    if (lwork < f->is->workspace(f, side, nvec))
        return status_fail(MOAO_INPUT, "format_apply: work is smaller than format_workspace tells");
    return MOAO_OK;
}

/* Whether a product has nothing to write. */
static bool nothing(const format *f, char side, char trans, int64_t nvec) {
    const bool turned = (trans != 'N') == (side == 'L');
    return nvec == 0 || (turned ? f->info.cols : f->info.rows) == 0;
}

static char trans_of(const format *f, char trans) {
    return f->symmetric || trans == 'N' ? 'N' : 'T';
}

status format_apply(const format *f, char side, char trans, char part, int64_t nvec, double alpha,
                    const void *x, int64_t ldx, double beta, void *y, int64_t ldy, void *work,
                    size_t lwork) {
    const status st = check_product(f, side, trans, part, nvec, ldx, ldy, lwork);
    if (st != MOAO_OK || nothing(f, side, trans, nvec))
        return st;
    return f->is->apply(f, side, trans_of(f, trans), part, nvec, alpha, x, ldx, beta, y, ldy, work);
}

/* --- products of which one side is kept */

size_t format_kept_bytes(const format *f, int64_t nvec) {
    return f->is->keep && nvec > 0 ? f->is->kept_bytes(f, nvec) : 0;
}

static status check_kept(const format *f, int64_t nvec, size_t lkept) {
    return lkept < format_kept_bytes(f, nvec)
               ? status_fail(MOAO_INPUT, "what is kept is smaller than format_kept_bytes tells")
               : MOAO_OK;
}

status format_keep(const format *f, char side, int64_t nvec, const void *x, int64_t ldx, void *kept,
                   size_t lkept, void *work, size_t lwork) {
    status st;
    TRY(check_product(f, side, 'N', 'A', nvec, ldx, INT64_MAX, lwork));
    TRY(check_kept(f, nvec, lkept));
    if (f->is->keep && !nothing(f, side, 'N', nvec))
        st = f->is->keep(f, side, nvec, x, ldx, kept, work);
done:
    return st;
}

status format_apply_kept(const format *f, char side, char trans, char part, int64_t nvec,
                         double alpha, const void *kept, size_t lkept, const void *x, int64_t ldx,
                         double beta, void *y, int64_t ldy, void *work, size_t lwork) {
    status st;
    TRY(check_product(f, side, trans, part, nvec, ldx, ldy, lwork));
    TRY(check_kept(f, nvec, lkept));
    if (nothing(f, side, trans, nvec))
        goto done;
    st = f->is->keep ? f->is->apply_kept(f, side, trans_of(f, trans), part, nvec, alpha, kept, x,
                                         ldx, beta, y, ldy, work)
                     : f->is->apply(f, side, trans_of(f, trans), part, nvec, alpha, x, ldx, beta, y,
                                    ldy, work);
done:
    return st;
}

status format_factor(format *f, double shift) {
    return f->is->factor
               ? f->is->factor(f, shift)
               : status_fail(MOAO_INPUT, "format '%s' has no factor: use HSS", f->is->name);
}

size_t format_solve_workspace(const format *f, int64_t nvec) {
    return f->is->solve_workspace ? f->is->solve_workspace(f, nvec) : 0;
}

status format_solve(const format *f, char trans, int64_t nvec, void *x, int64_t ldx, void *work,
                    size_t lwork) {
    if (!f->is->solve)
        return status_fail(MOAO_INPUT, "format '%s' solves no systems: use HSS", f->is->name);
    if (!strchr("NTC", trans) || nvec < 0 || ldx < f->info.rows || ldx < 1 ||
        lwork < format_solve_workspace(f, nvec))
        return status_fail(MOAO_INPUT, "format_solve: an argument is out of range");
    return nvec == 0 ? MOAO_OK : f->is->solve(f, trans == 'N' ? 'N' : 'T', nvec, x, ldx, work);
}

status format_compress(format *f, double tol, char weights, int samples) {
    if (!f->is->compress)
        return status_fail(MOAO_INPUT, "format '%s' is not compressed any further", f->is->name);
    if (!(tol >= 0) || !strchr("NW", weights) || samples < 0)
        return status_fail(MOAO_INPUT, "format_compress: an argument is out of range");
    f->info.error = f->info.worst = NAN;
    return f->is->compress(f, tol, weights, samples);
}

void format_describe(const format *f, format_info *info) {
    *info = f->info;
}

void format_parts(const format *f, format_part *part, void *arg) {
    if (f->is->parts)
        f->is->parts(f, part, arg);
}

status format_upload(const format *f, const void *host, size_t bytes, void **device) {
    status st = f->be->alloc(f->ctx, bytes, device);
    if (st == MOAO_OK)
        st = f->be->copy(f->ctx, *device, (int64_t)bytes, host, (int64_t)bytes, (int64_t)bytes, 1);
    return st == MOAO_OK ? f->be->sync(f->ctx) : st;
}

/* --- sampled rows -------------------------------------------------------------------------- */

typedef struct {
    format *f;
    const format_source *s;
    int64_t n, few;   /* columns; rows compared at a time */
    int *row, *lists; /* host: sampled rows; the lists for the source, then their pointers */
    void *want, *unit, *work; /* device */
    int *index;
    void *got;
    double *host;
    size_t lwork;
} sampled;

static status sampled_open(sampled *c) {
    const format *f = c->f;
    const size_t size = backend_size(f->o.type);
    const int64_t rows = f->info.rows, *order = f->info.order;
    status st;
    c->few = 16777216 / (c->n > 0 ? c->n : 1);
    c->few = c->few < 1 ? 1 : c->few > 64 ? 64 : c->few;
    c->lwork = format_workspace(f, 'L', c->few);
    TRY(ALLOC(c->lists, (unsigned long)c->n, "columns of a check"));
    TRY(ALLOC(c->host, (unsigned long)(c->n * c->few * 2), "rows of a check"));
    TRY(f->be->alloc(f->ctx, sizeof(double) * (size_t)(c->n * c->few), &c->want));
    TRY(f->be->alloc(f->ctx, size * (size_t)(c->n * c->few), &c->got));
    TRY(f->be->alloc(f->ctx, size * (size_t)(rows * c->few), &c->unit));
    TRY(f->be->alloc(f->ctx, c->lwork, &c->work));
    for (int64_t j = 0; j < c->n; j++)
        c->lists[j] = (int)(order ? order[j] : j);
    TRY(format_upload(f, c->lists, sizeof(int) * (size_t)c->n, (void **)&c->index));
done:
    return st;
}

/* Rows `row` of the source into c->want, n x few: columns are rows of the matrix. */
static status rows_wanted(sampled *c, int64_t few) {
    const format *f = c->f;
    const int *pointers[2];
    int *list = NULL;
    void *where = NULL;
    status st;
    int at[64];
    for (int64_t i = 0; i < few; i++)
        at[i] = (int)(f->info.order ? f->info.order[c->row[i]] : c->row[i]);
    TRY(format_upload(f, at, sizeof *at * (size_t)few, (void **)&list));
    pointers[0] = list, pointers[1] = c->index;
    TRY(format_upload(f, pointers, sizeof pointers, &where));
    const formats_blocks b = {1,
                              batch_size(few),
                              batch_size(c->n),
                              where,
                              (const int *const *)where + 1,
                              batch_strided(c->want, few, 0),
                              false};
    TRY(c->s->gather(c->s->from, f->ctx, BACKEND_D, &b));
    TRY(f->be->copy(f->ctx, c->host, (int64_t)sizeof(double) * few * c->n, c->want,
                    (int64_t)sizeof(double) * few * c->n, (int64_t)sizeof(double) * few * c->n, 1));
    TRY(f->be->sync(f->ctx));
done:
    f->be->release(f->ctx, list), f->be->release(f->ctx, where);
    return st;
}

/* The same rows of the format, n x few, into the second half of c->host. */
static status rows_had(sampled *c, int64_t few) {
    const format *f = c->f;
    const bool d = f->o.type == BACKEND_D;
    const int64_t size = (int64_t)backend_size(f->o.type), rows = f->info.rows;
    double *had = c->host + c->n * c->few;
    void *unit = NULL, *raw = NULL;
    status st;
    TRY(mem_alloc(&unit, (unsigned long)(rows * few), (unsigned long)size, "unit vectors"));
    for (int64_t i = 0; i < few; i++)
        number_set(f->o.type, unit, c->row[i] + i * rows, 1);
    TRY(f->be->copy(f->ctx, c->unit, size * rows, unit, size * rows, size * rows, few));
    TRY(format_apply(f, 'L', 'T', 'A', few, 1, c->unit, rows, 0, c->got, c->n, c->work, c->lwork));
    TRY(mem_alloc(&raw, (unsigned long)(c->n * few), (unsigned long)size, "rows of a check"));
    TRY(f->be->copy(f->ctx, raw, size * c->n, c->got, size * c->n, size * c->n, few));
    TRY(f->be->sync(f->ctx));
    for (int64_t e = 0; e < c->n * few; e++)
        had[e] = d ? ((const double *)raw)[e] : (double)((const float *)raw)[e];
done:
    free(unit), free(raw);
    return st;
}

status format_check(format *f, const format_source *s, int samples, uint64_t seed, double *rms,
                    double *worst) {
    sampled c = {.f = f, .s = s, .n = f->info.cols};
    int row[64];
    double sum = 0, largest = 0;
    status st = MOAO_OK;
    *rms = *worst = 0;
    if (samples < 1 || !s->gather)
        return status_fail(MOAO_INPUT,
                           "format_check: no samples, or the source gathers no entries");
    if (f->info.rows == 0 || f->info.cols == 0)
        return MOAO_OK;
    f->checked = true;
    TRY(sampled_open(&c));
    c.row = row;
    for (int64_t done = 0; done < samples; done += c.few) {
        const int64_t few = samples - done < c.few ? samples - done : c.few;
        for (int64_t i = 0; i < few; i++) { /* a linear congruential generator's upper bits */
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            row[i] = (int)((seed >> 33) % (uint64_t)f->info.rows);
        }
        TRY(rows_wanted(&c, few));
        TRY(rows_had(&c, few));
        for (int64_t i = 0; i < few; i++)
            for (int64_t j = 0; j < c.n; j++) {
                const double e = fabs(c.host[i + j * few] - c.host[c.n * c.few + j + i * c.n]);
                sum += e * e;
                largest = isnan(largest) || e <= largest ? largest : e;
            }
    }
    *rms = f->info.error = sqrt(sum / ((double)samples * (double)c.n));
    *worst = f->info.worst = largest;
done:
    f->checked = false;
    free(c.lists), free(c.host);
    f->be->release(f->ctx, c.want), f->be->release(f->ctx, c.got), f->be->release(f->ctx, c.unit);
    f->be->release(f->ctx, c.work), f->be->release(f->ctx, c.index);
    return st;
}
