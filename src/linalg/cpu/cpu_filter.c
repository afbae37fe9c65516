/* The CPU backend's products with a mirror's transposed interaction matrix: the specification of
 * the filter. A column of A is put into two images with zeros around them, which are filtered along
 * x, then along y. Sums are not contracted, so that results do not depend on which clone runs. */
#include "cpu_own.h"

#include "moao/clones.h"

#include <omp.h>
#include <stdlib.h>

#define ALWAYS __attribute__((always_inline))
#define VEC_BYTES 32

typedef struct {          /* of the images of a column, in numbers */
    int64_t width;        /* corners of a row, rounded up to whole registers */
    int64_t mid, out;     /* where images filtered along x begin, and where the sum does */
    int64_t numbers;      /* all of it */
    int *square, *corner; /* places of the valid ones in the images */
} layout;

#define REAL double
#define NAME(x) x##_d
#include "cpu_filter_real.h"
#undef REAL
#undef NAME
#define REAL float
#define NAME(x) x##_s
#include "cpu_filter_real.h"

static status take_layout(const backend_filter *f, backend_type t, layout *o) {
    const int64_t block = 2 * VEC_BYTES / (int64_t)backend_size(t), reach = f->reach;
    const int64_t w = (f->n + block) / block * block, line = w + 2 * reach;
    *o = (layout){.width = w, .mid = 2 * f->n * line};
    o->out = o->mid + (2 * f->n + 3 * reach) * w;
    o->numbers = o->out + (f->n + 1) * w;
    status st = ALLOC(o->square, (size_t)(f->squares + f->corners), "a filter");
    if (st != MOAO_OK)
        return st;
    o->corner = o->square + f->squares;
    for (int64_t i = 0; i < f->squares; i++)
        o->square[i] = (int)(f->square[i] / f->n * line + f->square[i] % f->n);
    for (int64_t i = 0; i < f->corners; i++)
        o->corner[i] = (int)(f->corner[i] / (f->n + 1) * w + f->corner[i] % (f->n + 1));
    return MOAO_OK;
}

status cpu_filter(backend_ctx *ctx, backend_type t, const backend_filter *f, int64_t n,
                  double alpha, const void *a, int64_t lda, double beta, void *b, int64_t ldb) {
    const int most = omp_get_max_threads(), threads = n < most ? (int)n : most;
    layout o = {0};
    char *rooms = NULL;
    status st = MOAO_OK;
    (void)ctx;
    if (n == 0 || f->corners == 0)
        return st;
    TRY(take_layout(f, t, &o));
    const int64_t one = o.numbers * (int64_t)backend_size(t);
    TRY(ALLOC(rooms, (size_t)(threads * one), "a filter"));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t j = 0; j < n; j++) {
        void *room = rooms + omp_get_thread_num() * one;
        if (t == BACKEND_D)
            column_d(f, &o, alpha, (const double *)a + j * lda, beta, (double *)b + j * ldb, room);
        else
            column_s(f, &o, (float)alpha, (const float *)a + j * lda, (float)beta,
                     (float *)b + j * ldb, room);
    }
done:
    free(rooms);
    free(o.square);
    return st;
}
