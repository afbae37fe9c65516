/* Which tiles of a factor in FP16 are multiplied in three products. */
#include "fp16_internal.h"

#include <math.h>
#include <stdlib.h>

/* An entry in one half is wrong by 2^-11 / sqrt(12) of the step above it, rms; over numbers of all
 * sizes 2.0e-4 of itself, and a product of two such 2.9e-4. */
#define ROUNDING 2.9e-4

typedef struct {
    double error; /* square of what the tile adds to B - W L L' */
    int64_t place;
} candidate;

static int by_error(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->error != y->error)
        return x->error < y->error ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Of columns of L: how much an error of X there grows in transit to B, square. */
static double growth(const fp16_factor *f, const fp16_sizes *s, int64_t j) {
    double sum = 0;
    for (int64_t i = j; i < f->nt; i++)
        sum += s->l[i + j * f->nt];
    return sum / (double)fp16_order(f, j);
}

static void collect(const fp16_factor *f, const fp16_sizes *s, candidate *c) {
    const int64_t nt = f->nt;
    for (int64_t j = 0; j < nt; j++) {
        const double grows = growth(f, s, j);
        for (int64_t i = j + 1; i < nt; i++) {
            /* rounding errors are independent: a sum over the inner index of squares */
            const double tile = ROUNDING * ROUNDING * s->l[i + j * nt];
            *c++ = (candidate){tile * s->x[0][j] / (double)fp16_order(f, j), i + j * nt};
            *c++ = (candidate){tile * s->x[1][i] / (double)fp16_order(f, i) * grows,
                               i + j * nt + nt * nt};
        }
    }
}

status fp16_choose_tiles(fp16_factor *f, const fp16_sizes *s) {
    const int64_t nt = f->nt, count = nt * (nt - 1);
    const double allowed = f->o.accuracy * f->o.accuracy * s->b;
    double sum = 0, three = 0, all = 0;
    candidate *c = NULL;
    status st;
    TRY(ALLOC(c, (size_t)(count + 1), "tiles of a factor"));
    collect(f, s, c);
    qsort(c, (size_t)count, sizeof *c, by_error);
    for (int64_t k = 0; k < count; k++) {
        const int64_t at = c[k].place % (nt * nt);
        const double work = (double)fp16_order(f, at % nt) * (double)fp16_order(f, at / nt);
        sum += c[k].error;
        const bool three_here = !(sum <= allowed) || allowed == 0;
        f->three[c[k].place / (nt * nt)][at] = three_here;
        three += three_here ? work : 0;
        all += work;
    }
    f->share = all > 0 ? three / all : 0;
done:
    free(c);
    return st;
}

bool fp16_factor_three(const fp16_factor *f, int solve, int64_t i, int64_t j) {
    return f->three[solve][i + j * f->nt];
}

double fp16_factor_share(const fp16_factor *f) {
    return f->share;
}

static bool wanted(const fp16_factor *f, int solve, const bool *done, int64_t i, int64_t j) {
    return f->three[solve][i + j * f->nt] && !done[i + j * f->nt];
}

/* All of column j from row i0 to i1. */
static bool column_wanted(const fp16_factor *f, int solve, const bool *done, int64_t i0, int64_t i1,
                          int64_t j) {
    for (int64_t i = i0; i < i1; i++)
        if (!wanted(f, solve, done, i, j))
            return false;
    return true;
}

bool fp16_next_rectangle(const fp16_factor *f, int solve, fp16_range r, bool *done,
                         fp16_range *out) {
    for (int64_t j = r.j0; j < r.j1; j++)
        for (int64_t i = r.i0; i < r.i1; i++) {
            if (!wanted(f, solve, done, i, j))
                continue;
            fp16_range a = {i, i + 1, j, j + 1};
            while (a.i1 < r.i1 && wanted(f, solve, done, a.i1, j))
                a.i1++;
            while (a.j1 < r.j1 && column_wanted(f, solve, done, a.i0, a.i1, a.j1))
                a.j1++;
            for (int64_t l = a.j0; l < a.j1; l++)
                for (int64_t k = a.i0; k < a.i1; k++)
                    done[k + l * f->nt] = true;
            *out = a;
            return true;
        }
    return false;
}
