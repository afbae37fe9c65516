/* After a construction from sampled entries: products with random vectors against all rows, or
 * many of them, of the source, so that what the samples did not see is noticed; and what the next
 * construction takes in addition.
 *
 * Of a row whose error is e, residuals e'x of VECTORS vectors with independent entries, uniform in
 * (-1, 1), have variance |e|^2 / 3 and a density of at most 1 / (sqrt(2) |e|) (Ball, Proc. AMS 97
 * (1986) 465: no section of a cube is larger than sqrt(2)). Their sum of squares is below r^2 with
 * probability at most V_8 (r / (sqrt(2) |e|))^8, V_8 = pi^4 / 24 the volume of a ball. */
#include "moao/backend_random.h"
#include "sampled.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum {
    VECTORS = HIER_VECTORS,
    ALL_ROWS = 2048,   /* up to so many rows, all are compared, */
    FEWEST_ROWS = 32,  /* beyond, as many as have ALL_ROWS^2 entries, but so many at least */
    WRONG_ROWS = 1024, /* wrong rows of which entries are found in a turn, */
    WRONG_ENTRIES = 8, /* so many in each */
    TURNS = 4,         /* constructions anew */
};

typedef struct {
    format *f;
    const hier_source *s;
    int64_t rows;            /* that are compared */
    int *row;                /* [rows], ascending */
    double *left;            /* [rows][VECTORS] residuals */
    double largest, allowed; /* of a product; norm of a row's error */
    void *x;                 /* device: cols x VECTORS in doubles */
} comparison;

static int64_t rows_of(const format *f) {
    const int64_t n = f->info.rows, all = ALL_ROWS * (int64_t)ALL_ROWS;
    const int64_t some = n <= ALL_ROWS ? n : all / n > FEWEST_ROWS ? all / n : FEWEST_ROWS;
    const int64_t rows = f->o.verify > 0 ? f->o.verify : some;
    return rows < n ? rows : n;
}

/* One row in each of as many equal parts of the matrix. */
static void choose_rows(comparison *c) {
    const int64_t n = c->f->info.rows;
    for (int64_t k = 0; k < c->rows; k++) {
        const int64_t from = k * n / c->rows, to = (k + 1) * n / c->rows;
        float v[4];
        backend_random(c->f->o.seed + 77, k, 1, v);
        const int64_t at = from + (int64_t)((0.5 + 0.5 * (double)v[0]) * (double)(to - from));
        c->row[k] = (int)(at < to ? at : to - 1);
    }
}

/* The largest number of a product; NaN stays. */
static void see(comparison *c, double x) {
    c->largest = isnan(c->largest) || fabs(x) <= c->largest ? c->largest : fabs(x);
}

/* Y := f X for random X, into c->left with its sign turned. */
static status products(comparison *c) {
    format *f = c->f;
    const int64_t m = f->info.rows, n = f->info.cols, size = (int64_t)backend_size(f->o.type);
    const size_t lwork = hier_workspace(f, 'L', VECTORS);
    double *host = NULL;
    void *mine = NULL, *x = NULL, *y = NULL, *work = NULL;
    status st;
    TRY(ALLOC(host, (unsigned long)(n * VECTORS), "random vectors"));
    TRY(mem_alloc(&mine, (unsigned long)((m > n ? m : n) * VECTORS), (unsigned long)size,
                  "random vectors"));
    for (int64_t j = 0; j < VECTORS; j++)
        for (int64_t i = 0; i < n; i++) {
            float v[4];
            if (i % 4 == 0)
                for (int64_t e = 0; e < 4 && i + e < n; e++) {
                    backend_random(f->o.seed + 7001, i / 4, j, v);
                    host[i + e + j * n] = (double)v[e];
                }
            number_set(f->o.type, mine, i + j * n, host[i + j * n]);
        }
    TRY(hier_upload(f, host, sizeof *host * (size_t)(n * VECTORS), &c->x));
    TRY(hier_upload(f, mine, (size_t)(size * n * VECTORS), &x));
    TRY(f->be->alloc(f->ctx, (size_t)(size * m * VECTORS), &y));
    TRY(f->be->alloc(f->ctx, lwork, &work));
    TRY(hier_apply(f, 'L', 'N', 'A', VECTORS, 1, x, n, 0, y, m, work, lwork));
    TRY(f->be->copy(f->ctx, mine, size * m, y, size * m, size * m, VECTORS));
    TRY(f->be->sync(f->ctx));
    for (int64_t k = 0; k < c->rows; k++)
        for (int64_t j = 0; j < VECTORS; j++) {
            const double v = number_get(f->o.type, mine, c->row[k] + j * m);
            c->left[k * VECTORS + j] = -v;
            see(c, v);
        }
done:
    free(host), free(mine);
    f->be->release(f->ctx, x), f->be->release(f->ctx, y), f->be->release(f->ctx, work);
    return st;
}

/* c->left += rows of the source times X. */
static status residuals(comparison *c) {
    const format *f = c->f;
    const double one = 1, zero = 0;
    double host[SAMPLED_MOST * VECTORS];
    void *y = NULL;
    sampled_rows q;
    status st;
    TRY(sampled_open(&q, f, c->s, false));
    TRY(f->be->alloc(f->ctx, sizeof host, &y));
    for (int64_t k = 0; k < c->rows; k += q.few) {
        const int64_t few = c->rows - k < q.few ? c->rows - k : q.few,
                      bytes = (int64_t)sizeof *host * few * VECTORS;
        TRY(sampled_gather(&q, c->row + k, few));
        TRY(f->be->gemm(f->ctx, BACKEND_D, 'N', 'N', few, VECTORS, q.n, &one, q.want, few, c->x,
                        q.n, &zero, y, few, NULL, 0));
        TRY(f->be->copy(f->ctx, host, bytes, y, bytes, bytes, 1));
        TRY(f->be->sync(f->ctx));
        for (int64_t i = 0; i < few; i++)
            for (int64_t j = 0; j < VECTORS; j++) {
                c->left[(k + i) * VECTORS + j] += host[i + j * few];
                see(c, host[i + j * few]);
            }
    }
done:
    f->be->release(f->ctx, y);
    sampled_close(&q);
    return st;
}

double hier_residual(const double left[HIER_VECTORS]) {
    double largest = 0, sum = 0;
    for (int64_t j = 0; j < VECTORS; j++)
        if (!(fabs(left[j]) <= largest)) /* NaN too */
            largest = fabs(left[j]);
    for (int64_t j = 0; largest > 0 && j < VECTORS; j++)
        sum += left[j] / largest * (left[j] / largest);
    return largest * sqrt(3 * sum / VECTORS);
}

double hier_allowed(const format *f, double largest) {
    const double unit = f->o.type == BACKEND_D ? DBL_EPSILON : FLT_EPSILON;
    return (f->o.tol + 10 * unit * largest) * sqrt((double)f->info.cols);
}

/* Rows with too large an error to the front of c->row; their number. The rms error of an entry. */
static int64_t wrong_rows(comparison *c, double *rms) {
    const double n = (double)c->f->info.cols;
    int64_t wrong = 0;
    *rms = 0;
    for (int64_t k = 0; k < c->rows; k++) {
        const double e = hier_residual(c->left + k * VECTORS);
        *rms = hypot(*rms, e / sqrt(n * (double)c->rows));
        if (!(e <= 2 * c->allowed))
            c->row[wrong++] = c->row[k];
    }
    return wrong;
}

static status add_entry(refinement *r, int64_t row, int64_t col) {
    if (r->count == r->room) {
        const int64_t room = 2 * r->room + 256;
        void *more = realloc(r->entry, sizeof *r->entry * (size_t)room);
        if (!more)
            return status_fail(MOAO_MEMORY, "no memory for %lld entries", (long long)room);
        r->entry = more, r->room = room;
    }
    r->entry[r->count][0] = row, r->entry[r->count++][1] = col;
    return MOAO_OK;
}

/* The most wrong entries of a row of the source and of the format: those that matter. */
static status wrong_entries(const sampled_rows *q, int64_t i, int64_t few, int64_t row, double tol,
                            refinement *r) {
    double *had = q->had + i * q->n;
    status st = MOAO_OK;
    for (int64_t j = 0; j < q->n; j++)
        had[j] = fabs(had[j] - q->source[i + j * few]);
    for (int e = 0; e < WRONG_ENTRIES; e++) {
        int64_t best = 0;
        for (int64_t j = 1; j < q->n; j++)
            best = had[j] > had[best] ? j : best;
        if (!(had[best] > tol))
            break;
        TRY(add_entry(r, row, best));
        had[best] = 0;
    }
done:
    return st;
}

static status refine(const comparison *c, int64_t wrong, refinement *r) {
    const int64_t some = wrong < WRONG_ROWS ? wrong : WRONG_ROWS;
    int row[SAMPLED_MOST];
    sampled_rows q;
    status st;
    TRY(sampled_open(&q, c->f, c->s, true));
    for (int64_t k = 0; k < some; k += q.few) {
        const int64_t few = some - k < q.few ? some - k : q.few;
        for (int64_t i = 0; i < few; i++)
            row[i] = c->row[(k + i) * wrong / some];
        TRY(sampled_source(&q, row, few));
        TRY(sampled_had(&q, row, few));
        for (int64_t i = 0; i < few; i++)
            TRY(wrong_entries(&q, i, few, row[i], c->f->o.tol, r));
    }
    r->turn++;
    r->all = r->turn == TURNS && c->f->info.rows <= 2 * ALL_ROWS;
done:
    sampled_close(&q);
    return st;
}

static status judge(comparison *c, refinement *r, bool *fine) {
    format *f = c->f;
    double rms;
    c->allowed = hier_allowed(f, c->largest);
    if (!isfinite(c->largest))
        return status_fail(MOAO_NUMERIC,
                           "an entry of the source of a format is not finite, or products with it "
                           "are not");
    const int64_t wrong = wrong_rows(c, &rms);
    f->info.error = rms;
    *fine = wrong == 0;
    if (wrong > 0 && r->turn == TURNS)
        return status_fail(MOAO_MEMORY,
                           "sampled entries do not tell this matrix: %lld of %lld rows of the "
                           "format are wrong (rms error of an entry %.1e for %.1e): take the dense "
                           "format, products, or a larger tolerance",
                           (long long)wrong, (long long)c->rows, rms, f->o.tol);
    return wrong > 0 ? refine(c, wrong, r) : MOAO_OK;
}

status hier_verify(format *f, const hier_source *s, refinement *r, bool *fine) {
    comparison c = {.f = f, .s = s, .rows = rows_of(f)};
    const bool lost = f->lost;
    status st;
    *fine = true;
    if (c.rows == 0)
        return MOAO_OK;
    f->checked = true, f->lost = false;
    TRY(ALLOC(c.row, (unsigned long)c.rows, "rows of a comparison"));
    TRY(ALLOC(c.left, (unsigned long)(c.rows * VECTORS), "residuals of a comparison"));
    choose_rows(&c);
    TRY(products(&c));
    TRY(residuals(&c));
    st = judge(&c, r, fine);
done:
    f->checked = false, f->lost = lost;
    free(c.row), free(c.left);
    f->be->release(f->ctx, c.x);
    return st;
}

void refinement_free(refinement *r) {
    free(r->entry);
    *r = (refinement){0};
}
