/* Updates of a dense block column by products of compressed ones, in the files of their names. */
#ifndef MOAO_TLR_UPDATE_H
#define MOAO_TLR_UPDATE_H

#include "internal.h"

/* --- work.c: products whose columns go to places of their own (backend_batch.h), written where
 * they are in transit to the backend. */
typedef struct {
    batch_scatter *p;
    int64_t *column, count, columns; /* of each so many so far */
    int64_t *there, *column_there;
} scatter_list;
/* A list for so many products and columns; it is good for one run. */
status tlr_scatter_open(tlr_work *w, int64_t products, int64_t columns, scatter_list *l);
/* Runs them, of up to `rows` rows each. */
status tlr_scatter_run(tlr_work *w, const scatter_list *l, backend_type t, int64_t rows,
                       int64_t ldc);

/* The same of sums of products that are added to matrices in double precision. */
typedef struct {
    batch_gather *p;
    batch_part *part;
    int64_t count, parts; /* so many so far */
    int64_t *there, *part_there;
} gather_list;
status tlr_gather_open(tlr_work *w, int64_t sums, int64_t parts, gather_list *l);
/* Matrices of up to rows x cols. */
status tlr_gather_run(tlr_work *w, const gather_list *l, backend_type t, int64_t rows, int64_t cols,
                      double alpha, int64_t ldc);

#define TLR_PIECE 64 /* columns of a product of a list on a device, where it is cut */
/* Pieces of `step` columns. */
static inline int64_t tlr_pieces(int64_t n, int64_t step) {
    return n > 0 ? (n + step - 1) / step : 0;
}

/* Tile rows of D, all of which one member updates. Products of a library, whose bits may depend on
 * their sizes, are made of one strip at a time; products of lists, where those of a tile do not
 * depend on other tiles, of all strips together. */
typedef struct {
    int64_t i0, i1;
    bool mine; /* false: another member's, which takes no time here */
    /* of these tile rows the current ones, of which there are none where it is not mine, and their
     * rows; first row of its left factors, which is the same whoever has which strips */
    int64_t h0, h1, rows, at;
} tlr_strip;

/* What an update of D by A B^T has current: some block columns q0 .. q1 of a and b, some of the
 * rows. The first member of what makes the products. */
typedef struct tlr_span tlr_span;
struct tlr_span {
    const tlr *a, *b;
    bool lower;       /* of tile rows ka .. kb what is above the diagonal of D is not wanted */
    tlr_strip *strip; /* one after another, with nothing between them */
    int64_t strips;
    int64_t q0, q1, q;
    int64_t ia, ib, ka, kb;
    int64_t row, ld; /* first row of tile row ia; leading dimension of left factors */
    size_t size;     /* bytes of a number of a left factor */
    status (*update)(tlr_span *s, double alpha, double *d, int64_t ldd);
};

/* The first tile row from i on that is current, s->ib: none. */
static inline int64_t tlr_span_next(const tlr_span *s, int64_t i) {
    for (const tlr_strip *x = s->strip; x < s->strip + s->strips; x++)
        if (x->h0 < x->h1 && i < x->h1)
            return i < x->h0 ? x->h0 : i;
    return s->ib;
}

/* The first tile row from i on of which tile row k of b is wanted. */
static inline int64_t tlr_span_first(const tlr_span *s, int64_t i, int64_t k) {
    return s->lower ? largest(i, k) : i;
}

/* Whether a strip is the block on the diagonal, of which the lower triangle is wanted. */
static inline bool tlr_is_block(const tlr_span *s, const tlr_strip *x) {
    return s->lower && x->i0 == s->ka && x->i1 == s->kb;
}

/* Columns of U of low-rank tiles of b in tile row k, of block columns q0 .. q. */
int64_t tlr_span_columns(const tlr_span *s, int64_t k, int64_t q);

/* Left factors before tile row k of b: those of all block columns stand together. */
int64_t tlr_span_before(const tlr_span *s, int64_t k);

/* s->update for block columns s->q0 .. q1 and all strips, as many block columns, or rows, at a time
 * as the memory of a holds left factors for; d, ldd: the rows from the first strip on. */
status tlr_update_spans(tlr_span *s, double alpha, int64_t q1, double *d, int64_t ldd);

/* --- update.c ---
 * D += alpha A(I, q) B(K, q)^T, q block columns q0 .. q1 of columns of both, for tile rows I = ia
 * .. ib of a and K = ka .. kb of b (all below their diagonal blocks). D begins at row ia and column
 * ka. */
status tlr_update(tlr_work *w, double alpha, const tlr *a, const tlr *b, int64_t q0, int64_t q1,
                  int64_t ia, int64_t ib, int64_t ka, int64_t kb, double *d, int64_t ldd);
/* D -= L_q L_q^T of a factor in the same way, for the columns of block column p and those of the
 * strips that are mine; D begins at its diagonal block. */
status tlr_update_strips(tlr_work *w, const tlr *l, int64_t q0, int64_t q1, int64_t p,
                         tlr_strip *strip, int64_t strips, double *d, int64_t ldd);

/* The same in steps, for several D that share a pass over the block columns before them
 * (out_of_core.c): D -= L_q L_q^T for the rows and columns of block column p, from its diagonal
 * block on, of a factor whose products are in doubles. The large products are those of tlr_update,
 * bit for bit. Left factors of more than one block column stand in `sums`, all else in w. */
typedef struct tlr_steps tlr_steps;
status tlr_steps_open(tlr_work *w, tlr_work *sums, const tlr *l, int64_t p, double *d, int64_t ldd,
                      tlr_steps **out);
void tlr_steps_close(tlr_steps *x);
/* Of block columns q .. end those that share large products go to the one returned; *bytes: of sums
 * for them. -1: that depends on block columns from `known` on. Not between steps of one such. */
int64_t tlr_steps_span(tlr_steps *x, int64_t q, int64_t end, int64_t known, size_t *bytes);
/* Block column q, which is fetched, next in such a run; end, known: as they were where it began. */
status tlr_steps_take(tlr_steps *x, int64_t q, int64_t end, int64_t known);

/* --- update_common.c --- */
/* What products of the current rows use of block column s->q to the places where they use it, in
 * type t (tlr_store_typed): of a these rows, of b rows ka .. kb. */
status tlr_span_fetch(tlr_work *w, backend_type t, const tlr_span *s);
/* Whether the tile rows current are too few to fill a device. */
bool tlr_few_tiles(const tlr_work *w, const tlr_span *s);
/* Products of the current tiles in tile column j of a, in block column s->q, with what stands for
 * them and the low-rank tiles of b, `cols` columns: `core` of leading dimension ldcore, from V
 * of a's tile row ia on; of a dense tile V of b itself. To their rows of t, columns column[first
 * ..]. */
void tlr_list_left(const tlr_work *w, backend_type type, const tlr_span *s, int64_t j, int64_t cols,
                   const void *core, int64_t ldcore, void *t, int64_t first, scatter_list *l);
/* At most so many of them for all tiles of a. */
int64_t tlr_count_left(const tlr_work *w, const tlr_span *s);
/* V of a, of the current rows, transposed, times V of b, rows ka .. kb, of all tile columns of
 * block column s->q, one after another in columns of *core, of leading dimension *ld (in BUF_CORE);
 * places of all rows ia .. ib. */
status tlr_common_parts(tlr_work *w, backend_type t, const tlr_span *s, void **core, int64_t *ld);
/* Dense tiles of b in tile rows k0 .. k1 times V of a, of the current rows, of all tile columns of
 * block column s->q, one after another in columns of `to`, of leading dimension s->b->b; places of
 * all rows ia .. ib. */
status tlr_dense_parts(tlr_work *w, backend_type t, const tlr_span *s, int64_t k0, int64_t k1,
                       void *to);

/* --- update_dense.c: what dense tiles of b add to D, from row ia and column ka on, in block column
 * s->q, which is there in type t; sums in that type. */
status tlr_update_dense(tlr_work *w, backend_type t, const tlr_span *s, double alpha, double *d,
                        int64_t ldd);

/* --- update_split.c: tlr_update_strips by products of FP16 numbers, of a factor with terms. */
status tlr_update_split(tlr_work *w, const tlr *l, int64_t q0, int64_t q1, int64_t p,
                        tlr_strip *strip, int64_t strips, double *d, int64_t ldd);

#endif
