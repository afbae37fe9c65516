/* What the kinds of formats share inside the library: the table of a kind, and the list of kinds
 * (hier.c), where a new one is a line. */
#ifndef MOAO_HIER_INTERNAL_H
#define MOAO_HIER_INTERNAL_H

#include "moao/hier.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hier_file hier_file;

/* Y := alpha op(A) X + beta Y (side L) or alpha X op(A) + beta Y, whose sizes fit, with enough
 * work; trans N or T. kept: NULL, or what `keep` wrote of X. */
typedef struct {
    char side, trans;
    int64_t nvec;
    double alpha;
    const void *kept, *x;
    int64_t ldx;
    double beta;
    void *y;
    int64_t ldy;
    void *work;
} hier_product;

/* The operations of a kind; those that it lacks are NULL. As the functions of hier.h. */
typedef struct {
    hier_kind kind;
    const char *name;
    status (*bytes)(const backend *be, const hier_source *s, const hier_options *o, size_t *bytes,
                    size_t *most_work);
    status (*open)(const backend *be, backend_ctx *ctx, const hier_source *s, const hier_options *o,
                   format **out);
    status (*load)(format *f, const hier_source *s);
    void (*close)(format *f);
    size_t (*workspace)(const format *f, char side, int64_t nvec);
    status (*apply)(const format *f, const hier_product *q);
    /* NULL: nothing of X is kept. */
    size_t (*kept_bytes)(const format *f, int64_t nvec);
    status (*keep)(const format *f, char side, int64_t nvec, const void *x, int64_t ldx, void *kept,
                   void *work);
    status (*factor)(format *f, double shift);
    size_t (*solve_workspace)(const format *f, int64_t nvec);
    status (*solve)(const format *f, char trans, int64_t nvec, void *x, int64_t ldx, void *work);
    status (*compress)(format *f, double tol, char weights, int samples);
    /* Writes what is open, or opens what is read (file.h). */
    status (*store)(format **f, hier_file *file);
    void (*parts)(const format *f, hier_part *part, void *arg);
} hier_table;

/* What every format begins with. */
struct moao_hier {
    const hier_table *is;
    struct pool *pool; /* while it is made: memory that serves again (pack.h), or NULL */
    const backend *be;
    backend_ctx *ctx;
    hier_options o;
    bool symmetric;
    bool checked; /* while hier_check compares what the kind approximates */
    bool lost;    /* a load or a compression failed: there are no values */
    hier_info info;
};

/* apply of a matrix whose entries are at a, in the backend's memory (dense.c). */
status hier_apply_dense(const format *f, const void *a, int64_t lda, const hier_product *q);

extern const hier_table hier_dense, hier_toeplitz, hier_hss, hier_h2;

const hier_table *hier_table_of(hier_kind kind); /* NULL: there is no such kind */

/* The common part of a format that begins; the rest of the struct is zero. */
void hier_begin(format *f, const hier_table *is, const backend *be, backend_ctx *ctx,
                const hier_source *s, const hier_options *o);

/* Bytes up to a whole number of 256. */
static inline size_t hier_aligned(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

/* Numbers of type t on the host. */
static inline void number_set(backend_type t, void *a, int64_t i, double value) {
    if (t == BACKEND_D)
        ((double *)a)[i] = value;
    else
        ((float *)a)[i] = (float)value;
}

static inline double number_get(backend_type t, const void *a, int64_t i) {
    return t == BACKEND_D ? ((const double *)a)[i] : (double)((const float *)a)[i];
}

/* MOAO_INPUT: the source has another shape, or the format holds no values. */
status hier_fits(const format *f, const hier_source *s);
status hier_has_values(const format *f);

/* MOAO_NUMERIC: a product with small numbers, none of them zero, is not finite (check.c). */
status hier_finite(format *f);

/* New memory of the backend with a copy of `bytes` bytes of the host. Waits. */
status hier_upload(const format *f, const void *host, size_t bytes, void **device);

#ifdef __cplusplus
}
#endif
#endif
