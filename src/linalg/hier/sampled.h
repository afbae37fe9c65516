/* Rows of a source in double precision, some at a time, and the same rows of a format: for
 * hier_check and for the comparison after a construction from sampled entries. */
#ifndef MOAO_HIER_SAMPLED_H
#define MOAO_HIER_SAMPLED_H

#include "internal.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SAMPLED_MOST = 64 }; /* rows at a time */

typedef struct {
    const format *f;
    const hier_source *s;
    int64_t n, few; /* columns; rows at a time at most */
    int *index;     /* device: the source's number of each column */
    void *want;     /* device: few x n of the source, leading dimension few */
    void *unit, *got, *work;
    size_t lwork;
    double *source, *had; /* host: few x n of the source; n x few of the format */
} sampled_rows;

/* Memory for rows of the source, and with `both` of the format. Close it in any case. */
status sampled_open(sampled_rows *c, const format *f, const hier_source *s, bool both);
void sampled_close(sampled_rows *c);
/* Rows row[0 .. few), in the format's order, of the source into c->want; then to c->source too. */
status sampled_gather(sampled_rows *c, const int *row, int64_t few);
status sampled_source(sampled_rows *c, const int *row, int64_t few);
/* The same rows of the format into c->had. */
status sampled_had(sampled_rows *c, const int *row, int64_t few);

/* What a construction from sampled entries takes in addition, after it was found to be wrong:
 * samples doubled `turn` times (`all`: all there are), and entries (row and column in the format's
 * order). */
typedef struct refinement {
    int turn;
    bool all;
    int64_t count, room;
    int64_t (*entry)[2];
} refinement;

/* Of a row's residuals by random vectors, independent entries uniform in (-1, 1): estimate of the
 * norm of its error. What it may be, with `largest` the largest number of a product: options.tol
 * for the rms of its entries, and rounding. */
enum { HIER_VECTORS = 8 };
double hier_residual(const double left[HIER_VECTORS]);
double hier_allowed(const format *f, double largest);

/* Compares f with entries of s as hier_options.verify says. *fine: no row is wrong; else r says
 * what the next construction is to take. MOAO_MEMORY: it had all that can be had. Writes
 * info.error. */
status hier_verify(format *f, const hier_source *s, refinement *r, bool *fine);
void refinement_free(refinement *r);

#ifdef __cplusplus
}
#endif
#endif
