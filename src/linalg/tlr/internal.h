/* Shared by the files of this folder.
 *
 * Update D -= A_q B_q^T, compression of a dense block column, and expansion of a compressed one are
 * what all of the algebra is made of. Memory for them belongs to a tlr_work, which grows
 * and is shared by all steps of one call. */
#ifndef MOAO_TLR_INTERNAL_H
#define MOAO_TLR_INTERNAL_H

#include "moao/backend_split.h"
#include "moao/tlr.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TLR_WIDTH 2048               /* columns of a block column of a large matrix */
#define TLR_MEMORY ((size_t)1 << 30) /* bytes of an intermediate product */
/* Tile columns of a block column: where there are so few, tiles are large, and what is made of one
 * column is not made in one call with the others. */
#define TLR_FEW_COLUMNS 4

/* A block column: tile columns c0 .. c1 and, of those, tile rows r0 .. r1. */
typedef struct {
    int64_t c0, c1, r0, r1;
    int64_t width;  /* columns */
    char *kept;     /* u and v as store.c keeps them; they themselves come and go, then */
    int64_t kept_v; /* where v begins after u, in one precision [elements] */
    float *fp32;    /* both in single precision, NULL: not there at present */
    double most[2]; /* where solves may be in terms: largest modulus of what is kept of u and v */
    /* with columns in FP16: numbers in single precision, before those; runs of u, then of v, tile
     * row by tile row, in the backend's memory, the longest of them, and those before each row (the
     * end too), [r1 - r0 + 1] of u, then of v */
    int64_t leading, longest, *row_run;
    split_run *run;
    /* symmetric, factor: width x width block on the diagonal; of a factor the lower triangle */
    double *diag;
    double *u, *v;   /* columns of all tiles; a dense tile lies whole in u, and has nothing in v */
    tlr_tile *tile;  /* [r1 - r0][c1 - c0] */
    int64_t *ubegin; /* [r1 - r0] where U of a tile row begins [elements] */
    int64_t *ucols;  /* [r1 - r0] its columns */
    int64_t *lcols;  /* [r1 - r0] those of low-rank tiles */
    int64_t *vbegin; /* [c1 - c0] where V of a tile column begins */
    int64_t *vcols;  /* [c1 - c0] its columns */
    double bytes;
} panel;

static inline bool tlr_few_columns(const panel *p) {
    return p->c1 - p->c0 <= TLR_FEW_COLUMNS;
}

typedef struct tlr_block tlr_block;
typedef struct tlr_distributed tlr_distributed;
typedef struct tlr_work tlr_work;
typedef struct tlr_pool tlr_pool;

struct moao_tlr {
    const backend *be;
    backend_ctx *ctx;
    const tlr_layout *rows, *cols; /* the same of symmetric matrices */
    bool symmetric, factor;        /* a factor is symmetric too: tiles below the diagonal blocks */
    tlr_options o;                 /* with the defaults filled in */
    int terms, of_fp16;            /* of solves that follow, 0: in single precision */
    int64_t b;                     /* largest tile order */
    int64_t step;                  /* tile columns of a block column */
    int64_t panels;
    panel *panel;
    int64_t
        block; /* with options.distributed: tile rows of a part, whole block columns; 0: not so */
    tlr_block *memory; /* of block columns: with options.host the host's, or tlr_in_blocks */
    /* u and v of a factor's block column that is kept in another form, for the next one: they are
     * not given back each time, which waits for the device */
    struct {
        double *p;
        int64_t room; /* numbers */
    } spare[2];
    int64_t taken[2];        /* the same of the current ones */
    tlr_pool *pool;          /* while it is made: where they come from, NULL: the backend */
    tlr_distributed *spread; /* over which members it is spread, NULL: all of it is here */
    /* memory and streams of the solves, from the first one until the factor is closed: to take and
     * to give them back is a tenth of what a solve by products of FP16 numbers takes on a device */
    tlr_work *solving;
};

/* --- places --- */
static inline int64_t tlr_extent(const tlr_layout *l, int64_t i) {
    return l->first[i + 1] - l->first[i];
}
static inline tlr_tile *panel_tile(const panel *p, int64_t i, int64_t k) {
    return p->tile + (i - p->r0) * (p->c1 - p->c0) + k - p->c0;
}
static inline bool tlr_is_dense(const panel *p, int64_t i, int64_t k) {
    return panel_tile(p, i, k)->kind == TLR_DENSE;
}
/* Columns of low-rank tiles of tile row i before tile column k. */
static inline int64_t tlr_low_before(const panel *p, int64_t i, int64_t k) {
    int64_t c = 0;
    for (int64_t j = p->c0; j < k; j++)
        c += tlr_is_dense(p, i, j) ? 0 : panel_tile(p, i, j)->rank;
    return c;
}
/* The next dense tile from (i, k) on, or the end; *cols: columns of U of those before it. */
static inline int64_t tlr_low_run(const panel *p, int64_t i, int64_t k, int64_t *cols) {
    for (*cols = 0; k < p->c1 && !tlr_is_dense(p, i, k); k++)
        *cols += panel_tile(p, i, k)->rank;
    return k;
}
/* U of tile (i, k) (a dense tile: itself), leading dimension the rows of the tile. */
static inline double *panel_u(const tlr *a, const panel *p, int64_t i, int64_t k) {
    return p->u + p->ubegin[i - p->r0] + panel_tile(p, i, k)->u * tlr_extent(a->rows, i);
}
/* Columns of V of tile column k before tile row i (i up to r1). */
static inline int64_t panel_vcol(const panel *p, int64_t i, int64_t k) {
    return i < p->r1 ? panel_tile(p, i, k)->v : p->vcols[k - p->c0];
}
/* Where U of tile row i begins in that of all rows, i up to r1 [numbers]. */
static inline int64_t panel_ubegin(const tlr *a, const panel *p, int64_t i) {
    const int64_t before = i - 1 - p->r0;
    if (i < p->r1)
        return p->ubegin[i - p->r0];
    return before < 0 ? 0 : p->ubegin[before] + p->ucols[before] * tlr_extent(a->rows, i - 1);
}
/* V of tile column k from tile row i on, leading dimension the columns of the tile. */
static inline double *panel_v(const tlr *a, const panel *p, int64_t i, int64_t k) {
    return p->v + p->vbegin[k - p->c0] + panel_vcol(p, i, k) * tlr_extent(a->cols, k);
}
/* Whether solves may be in terms: tiles are where these take them from, and their bounds are known,
 * whatever the factor's own products are made in. */
static inline bool tlr_takes_split(const tlr *a) {
    return a->factor && a->o.fp32 && !a->o.host && a->be->split;
}
/* Precision in which a factor's u and v are kept. */
static inline backend_type tlr_kept(const tlr *a) {
    return a->o.fp32 ? BACKEND_S : BACKEND_D;
}
/* Precision of products with the tiles of a. */
static inline backend_type tlr_type(const tlr *a) {
    return a->factor && a->o.mixed ? BACKEND_S : BACKEND_D;
}
static inline const void *tlr_at(backend_type t, const void *p, int64_t k) {
    return (const char *)p + k * (int64_t)backend_size(t);
}
/* U and V of tile (i, k), for products of type t, where they have been fetched in that type. */
static inline const void *typed_u(const tlr *a, backend_type t, const panel *p, int64_t i,
                                  int64_t k) {
    const int64_t at = p->ubegin[i - p->r0] + panel_tile(p, i, k)->u * tlr_extent(a->rows, i);
    return tlr_at(t, t == BACKEND_D ? (const void *)p->u : p->fp32, at);
}
static inline const void *typed_v(const tlr *a, backend_type t, const panel *p, int64_t i,
                                  int64_t k) {
    const int64_t at = p->vbegin[k - p->c0] + panel_vcol(p, i, k) * tlr_extent(a->cols, k);
    return t == BACKEND_D ? tlr_at(t, p->v, at) : tlr_at(t, p->fp32, p->kept_v + at);
}
static inline const panel *panel_of(const tlr *a, int64_t k) {
    return a->panel + k / a->step;
}
static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}
/* What is taken where `wanted` is more than there is, of which block columns want a little more
 * each time: giving memory back waits for the device. */
static inline int64_t tlr_more(int64_t wanted, int64_t has) {
    return largest(wanted, has + has / 8);
}

/* --- matrix.c --- */
/* tlr_statistics of the first block columns alone. */
void tlr_statistics_of(const tlr *a, int64_t panels, tlr_stats *s);

/* --- work.c: memory that grows, products --- */
enum {
    BUF_PANEL,
    BUF_METRIC,
    BUF_CORE,
    BUF_PRODUCT,
    BUF_U,
    BUF_V,
    BUF_SIDE,
    BUF_TURNED,
    BUF_TILES,
    BUF_IDENTITY,
    BUF_BATCH,
    BUF_SLOT,
    BUF_BOUND,
    BUF_MESSAGE,
    BUFFERS
};

/* Where a block column that is kept apart comes to be used. */
typedef struct {
    panel *p;   /* NULL: none is there */
    int64_t i0; /* tile rows from i0 on are there */
    void *at;
    size_t bytes;
    bool *row; /* of the place where it is used: which of its tile rows are there */
    bool busy; /* used since the stream of what is in transit has waited for that of the work */
} tlr_place;

#define TLR_STREAMS 4

struct tlr_work {
    const backend *be;
    backend_ctx *ctx, *feed; /* feed: of what is in transit, or NULL */
    tlr_pool *pool;          /* where memory comes from, NULL: the backend */
    int side;                /* of the pool */
    bool low;                /* memory does not stay */
    bool beside; /* block columns are copied during its work, in the feed of another one */
    /* for products that do not fill a device alone: the caller's and more, that current */
    backend_ctx *stream[TLR_STREAMS];
    int streams, turn;
    tlr_place place[2]; /* of what comes from the host's memory, as it is kept */
    int last;           /* of them, which was used last */
    double fetched;     /* bytes that came from the host's memory */
    tlr_place used;     /* as products use it, where it is kept in another form */
    double *buf[BUFFERS];
    int64_t count[BUFFERS];
    void *work; /* of the dense operations, and of compression */
    size_t lwork;
    int64_t identity;          /* order of the one that is there; its leading dimension */
    int64_t *list, *list_host; /* products in transit to the backend */
    int64_t list_count, list_used;
    double *seconds, lap; /* of the steps of a factor, NULL: not timed; when the last one ended */
};

void tlr_work_open(tlr_work *w, const backend *be, backend_ctx *ctx);
void tlr_work_close(tlr_work *w);
/* The backend's memory is given back; streams stay. Waits. */
void tlr_work_empty(tlr_work *w);
/* Memory from the pool, or the backend. */
status tlr_work_take(tlr_work *w, size_t bytes, void **p);
void tlr_work_give(tlr_work *w, void *p);
/* After a call that ended well and was waited for: the same memory for the next one, without the
 * block columns that were current. */
void tlr_work_rest(tlr_work *w);
/* Numbers of buffer `which`: at least count of them, contents not kept when it grows. */
status tlr_work_room(tlr_work *w, int which, int64_t count, double **p);
/* It is given back. */
void tlr_work_drop(tlr_work *w, int which);
/* The same of numbers of type t. */
status tlr_work_typed(tlr_work *w, int which, backend_type t, int64_t count, void **p);
/* Identity of order n at least; w->identity is its leading dimension. May wait. */
status tlr_work_identity(tlr_work *w, int64_t n, double **p);
/* What was done since the last call is that step's; waits, where steps are timed. */
void tlr_work_lap(tlr_work *w, int step);
/* Bytes of the backend's memory that w has. */
size_t tlr_work_held(const tlr_work *w);
/* At least so many bytes of w->work. */
status tlr_work_bytes(tlr_work *w, size_t bytes);
/* Room for n indices on the host and in the backend's memory; send: to there, in stream order. */
status tlr_work_indices(tlr_work *w, int64_t n, int64_t **host, int64_t **there);
status tlr_work_send(tlr_work *w, int64_t n, const int64_t *host, int64_t *there);
/* Lists begin anew, with room for so many products. Waits for the stream. */
#define TLR_LISTED ((int64_t)1 << 18) /* those of a block column's updates, so that few wait */
status tlr_work_rewind(tlr_work *w, int64_t products);
/* Products that are independent of each other may go to several streams in turn: fork, then turn
 * before each of them, then join. */
status tlr_work_fork(tlr_work *w);
status tlr_work_join(tlr_work *w);
static inline void tlr_work_turn(tlr_work *w) {
    if (w->streams > 0)
        w->ctx = w->stream[w->turn = (w->turn + 1) % w->streams];
}
/* Products on full matrices of type t; the same of doubles. */
status tlr_full_gemm(tlr_work *w, backend_type t, char ta, char tb, int64_t m, int64_t n, int64_t k,
                     double alpha, const void *a, int64_t lda, const void *b, int64_t ldb,
                     double beta, void *c, int64_t ldc);
status tlr_full_copy(tlr_work *w, backend_type t, int64_t m, int64_t n, const void *a, int64_t lda,
                     void *b, int64_t ldb);
/* C += alpha op(A) op(B), C in doubles, A and B of type t; in FP32 the product is summed in
 * single precision, in buffer `which`. */
status tlr_add_product(tlr_work *w, backend_type t, int which, char ta, char tb, int64_t m,
                       int64_t n, int64_t k, double alpha, const void *a, int64_t lda,
                       const void *b, int64_t ldb, double *c, int64_t ldc);
status tlr_dense_gemm(tlr_work *w, char ta, char tb, int64_t m, int64_t n, int64_t k, double alpha,
                      const double *a, int64_t lda, const double *b, int64_t ldb, double beta,
                      double *c, int64_t ldc);
/* C := beta C. */
status tlr_dense_scale(tlr_work *w, int64_t m, int64_t n, double beta, double *c, int64_t ldc);
status tlr_dense_copy(tlr_work *w, int64_t m, int64_t n, const double *a, int64_t lda, double *b,
                      int64_t ldb);
/* B := alpha op(L) B or alpha B op(L), L the lower triangle at l. */
status tlr_dense_trmm(tlr_work *w, char side, char trans, int64_t m, int64_t n, double alpha,
                      const double *l, int64_t ldl, double *b, int64_t ldb);
status tlr_dense_trsm(tlr_work *w, char side, char trans, int64_t m, int64_t n, const double *l,
                      int64_t ldl, double *b, int64_t ldb);

/* Small products C := A op(B), one after another or at the same time: collected, then run. */
typedef struct {
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc, m, n, k;
} product;
typedef struct {
    product *p;
    int64_t count, room;
} product_list;
status tlr_list_add(product_list *l, product p);
void tlr_list_free(product_list *l);
/* Runs them, all of type t, and empties the list. k = 0: C := 0. */
status tlr_list_run(tlr_work *w, product_list *l, backend_type t, char ta, char tb);

/* --- matrix.c --- */
status tlr_new(const backend *be, backend_ctx *ctx, const tlr_layout *rows, const tlr_layout *cols,
               bool symmetric, const tlr_options *o, tlr **out);
/* Slabs for tiles whose kind and rank are set; what the panel held before is given back. */
status tlr_panel_reserve(tlr *a, int64_t q);
void tlr_panel_release(tlr *a, int64_t q);
/* u and v, which are kept in another form now, back to where the next ones come from; and these to
 * the backend. */
void tlr_panel_give(tlr *a, panel *p);
void tlr_panel_no_spare(tlr *a);

/* --- work.c: single precision that is widened, many pieces in one call --- */
enum { WIDEN_PIECES = 64 };
typedef struct {
    fp16_piece p[WIDEN_PIECES];
    int64_t count;
} widen_list;
/* n more numbers; some of the list may be widened at once. run: what is left of it. */
status tlr_widen_add(tlr_work *w, widen_list *l, const float *x, double *y, int64_t n);
status tlr_widen_run(tlr_work *w, widen_list *l);

/* --- products.c --- */

/* The diagonal of a factor, to the host. Waits. */
status tlr_diagonal_of(const tlr *l, double *host);

/* --- store.c --- */

/* A finished block column of a factor to where the options want it; u and v are gone then. to:
 * NULL, or (with options.host) for which it is fetched at once, and whose stream w waits for before
 * it finishes another one; to the host it goes concurrently with what follows. */
status tlr_store_panel(tlr_work *w, tlr_work *to, tlr *a, int64_t q);
void tlr_store_release(tlr *a, panel *p);
/* u and v of block column q for the work that comes next; `next` (-1: none) will be asked for after
 * it. What was fetched before the last one is not there any more. */
status tlr_store_fetch(tlr_work *w, const tlr *a, int64_t q, int64_t next);
/* The same where only tile rows from i0 (of the next one, next_i0) on are used: no others come. */
status tlr_store_fetch_rows(tlr_work *w, const tlr *a, int64_t q, int64_t i0, int64_t next,
                            int64_t next_i0);
/* The stream of those in transit, which takes a while to open. */
status tlr_store_feed(tlr_work *w, const tlr *a);
/* Waits for those that are in transit to the host's memory, or from there. */
status tlr_store_wait(tlr_work *w);
/* The same in type t, in single precision of a factor with mixed only, of tile rows i0 .. i1 at
 * least; rows of the same block column that are there stay. */
status tlr_store_typed(tlr_work *w, const tlr *a, backend_type t, int64_t q, int64_t i0, int64_t i1,
                       int64_t next);
/* No block column is in the places of w any more. */
void tlr_store_forget(tlr_work *w);
/* The place of w where one is used is block column q's, in type t; where it was not, none of its
 * tile rows are there. */
status tlr_store_place(tlr_work *w, const tlr *a, backend_type t, int64_t q);
/* Where v begins after u, and where it ends, in numbers. */
int64_t tlr_store_begin_of_v(const tlr *a, const panel *p);
int64_t tlr_store_numbers(const tlr *a, const panel *p);
/* So many bytes at *at at least, of which *has are there; contents are not kept when it grows. */
status tlr_store_room(tlr_work *w, void **at, size_t *has, size_t bytes);
/* Largest modulus of n[0] numbers of u and n[1] of v in single precision. Waits. */
status tlr_store_bounds(tlr_work *w, const int64_t n[2], const float *const kept[2],
                        double most[2]);

/* --- fp16.c: a finished block column with columns in FP16 --- */

/* *bytes: of what is kept of u and v. */
status tlr_fp16_keep(tlr_work *w, const tlr *a, panel *p, size_t *bytes);
/* The way back to single precision, of tile rows i0 .. i1. */
status tlr_fp16_widen(tlr_work *w, const panel *p, int64_t i0, int64_t i1, void *kept, float *to);
/* Where the columns of a block column are that is kept apart in the backend's memory, those in
 * single precision and in FP16 of each tile [U, V][tiles][2]: from *fp32, or, of a negative
 * number, from -1 - that of *halves on. */
void tlr_store_kept(const tlr *a, const panel *p, int64_t *at, const float **fp32,
                    const backend_f16 **fp16);

/* --- blocks.c: memory for block columns, of options.host the host's --- */

static inline int64_t tlr_block_round(int64_t bytes) {
    return (bytes + 511) / 512 * 512;
}
/* Bytes for block column q, until the factor is closed. */
status tlr_block_room(tlr *a, int64_t q, int64_t bytes, char **p);
/* So much of the host's that block column q will need none, likely. */
status tlr_block_prepare(tlr *a, int64_t q);
void tlr_block_free(tlr *a);
/* Whether all of a block column, u, v and diag, is in such blocks. */
static inline bool tlr_in_blocks(const tlr *a) {
    return a->factor && !a->o.fp32 && !a->o.host && !a->spread;
}

/* --- compress.c --- */

/* What compression of one block column is asked for, and what it answers: an entry for each tile,
 * on the host and, in the same order in one block, in the backend's memory. */
typedef struct {
    const bool *rows; /* [r1 - r0] tile rows of the block column that it is about, NULL: all */
    int64_t count, most;
    int64_t bm, bn;    /* largest tile of the block column */
    double *u, *v;     /* where columns go first: those of tile t at t * b * most */
    const double **at; /* tiles */
    int64_t *m, *n;    /* their sizes */
    int64_t *rank;
    int *info;
    char *host, *dev;
    size_t bytes;
} tlr_batch;
/* c->rows is set already. */
status tlr_batch_open(tlr_work *w, const tlr *a, const panel *p, tlr_batch *c);
void tlr_batch_close(tlr_batch *c);
static inline bool tlr_batch_has(const tlr_batch *c, const panel *p, int64_t i) {
    return !c->rows || c->rows[i - p->r0];
}
/* Where tiles of a are cut. */
batch_cut tlr_cut(const tlr *a, int64_t most);
/* What lies at the same place in the backend's memory. */
static inline void *tlr_on_device(const tlr_batch *c, const void *host) {
    return c->dev + ((const char *)host - c->host);
}
/* Places and sizes of the tiles of a dense block column. */
void tlr_place_tiles(const tlr *a, const panel *p, const double *src, int64_t lds, tlr_batch *c);
/* Kind and rank of each tile from the answers, then its columns (right: those of V too; of a dense
 * tile the entries, unless exact is NULL) to where they stay. */
status tlr_decide(const tlr *a, const tlr_batch *c, panel *p);
status tlr_settle(tlr_work *w, const tlr *a, const tlr_batch *c, const panel *p, bool right,
                  const double *exact, int64_t lde);

/* * Dense block column q, its rows from tile row r0 on: src (overwritten where norms are recorded)
 * into tiles. exact: what a dense tile holds (src itself, or the tiles of the factor). tau < 0:
 * that of the options. */
status tlr_compress_panel(tlr_work *w, tlr *a, int64_t q, double *src, int64_t lds,
                          const double *exact, int64_t lde);
/* Its two steps, of the tile rows that c->rows asks for: kinds and ranks of the tiles; then, when
 * those of all tiles are known, memory for the block column, and columns (right: those of V too) to
 * where they stay. c is the caller's to close. */
status tlr_compress_begin(tlr_work *w, tlr *a, int64_t q, const double *src, int64_t lds,
                          tlr_batch *c);
status tlr_compress_end(tlr_work *w, tlr *a, int64_t q, const tlr_batch *c, double *src,
                        int64_t lds, bool right, const double *exact, int64_t lde);
/* D := alpha times block column q; `whole`: of a symmetric one from the diagonal block on. */
status tlr_expand_panel(tlr_work *w, const tlr *a, int64_t q, double alpha, double *d, int64_t ldd);
/* First row of the dense form of block column q, and number of its rows. */
static inline int64_t panel_row(const tlr *a, int64_t q) {
    return a->symmetric ? a->cols->first[a->panel[q].c0] : 0;
}
static inline int64_t panel_rows(const tlr *a, int64_t q) {
    return a->rows->n - panel_row(a, q);
}

/* --- solve_split.c: X := X L^-T in form 'T', X L^-1 in form 'N', or both (in this order: 'A'), X v
 * x n, by products of FP16 numbers; L a factor that takes terms. */
status tlr_solve_split(tlr_work *w, const tlr *l, char form, int64_t v, double *x, int64_t ldx);

/* Leading dimensions, and places, of FP16 numbers are multiples of 16 bytes: tensor cores' fast
 * ways ask for that. */
static inline int64_t split_pad(int64_t n) {
    return (n + 7) / 8 * 8;
}
/* Exponent that brings numbers up to bound to 2^15 at most; the product of two such scales is in
 * the range of single precision. */
static inline int split_exponent(double bound) {
    const int e = backend_fp16_exponent(bound);
    return e < -60 ? -60 : e > 60 ? 60 : e;
}

/* --- recompress.c ---
 * Block column p of C := alpha A B^T + beta C, a recompression for each inner tile. */
status tlr_recompress_panel(tlr_work *w, double alpha, const tlr *a, const tlr *b, double beta,
                            tlr *c, int64_t p);

/* --- products.c ---
 * Products with dense rows, in the form Y := Y + alpha X op(A) (side R); side L: their transposes.
 * Of block column q only tile rows ia .. ib. 'T': Y over rows of A, X over columns; 'N' the
 * reverse. x and y begin at index 0 of their layouts. */
status tlr_side_product(tlr_work *w, const tlr *a, int64_t q, int64_t ia, int64_t ib, char side,
                        char trans, int64_t v, double alpha, const double *x, int64_t ldx,
                        double *y, int64_t ldy);

/* --- trsm.c: D, ldd: block column p of a factor from its diagonal block on, which is
 * factored --- */

/* G of its block, [width][width] in BUF_METRIC. */
status tlr_inner_factors(tlr_work *w, const tlr *l, int64_t p, const double *d, int64_t ldd,
                         double **g);
/* D := M in part k of the rows below the block. */
status tlr_to_metric(tlr_work *w, const tlr *l, int64_t p, int64_t k, const double *g, double *d,
                     int64_t ldd);
/* Tiles of L from those of M that c is about, to where they stay, where U of low-rank tiles is
 * already, and V if there are few tile columns. The bits of a tile do not depend on other tiles,
 * or, where there are few tile columns, on those of other parts. */
status tlr_divide(tlr_work *w, const tlr *l, int64_t p, const tlr_batch *c, const double *d,
                  int64_t ldd);

/* --- procs.c: the rows below a factor's diagonal blocks in parts, and members that share them.
 * m NULL: one has all of them. --- */

/* Parts of block column p's rows (some may have none); tile rows *i0 .. *i1 of part k; whether it
 * is this member's. */
static inline int64_t tlr_parts(const tlr *l) {
    return l->block > 0 ? (l->rows->nt + l->block - 1) / l->block : largest(l->o.parts, 1);
}
void tlr_part(const tlr *l, int64_t p, int64_t k, int64_t *i0, int64_t *i1);
bool tlr_part_is_mine(const tlr_procs *m, const tlr *l, int64_t k);
/* Whether tile row i of block column p is this member's, rows [r1 - r0]. */
void tlr_rows_of(const tlr_procs *m, const tlr *l, int64_t p, bool *rows);
/* The bits of numbers that are not negative (or NaN) are in their order: so they are merged. */
static inline int64_t tlr_bits_of(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline double tlr_number_of(int64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* As tlr_procs.merge. */
status tlr_merge(const tlr_procs *m, status local, int64_t *v, int64_t n);
/* Entries of block column p from its diagonal block on: those of all rows, or with from->own_rows
 * of the block and this member's. */
status tlr_fill_own(const tlr_source *from, const tlr *l, int64_t p, double *d, int64_t ldd);
/* D -= L_q L_q^T, q from q0 to q1, for the columns of block column p: the block on the diagonal and
 * this member's rows. */
status tlr_update_own(tlr_work *w, const tlr_procs *m, const tlr *l, int64_t q0, int64_t q1,
                      int64_t p, double *d, int64_t ldd);
/* Kinds and ranks of all tiles of block column p on all members; local: what came of this one's. */
status tlr_share_kinds(const tlr_procs *m, const tlr *l, int64_t p, status local);
/* The same of what was dropped of them, with options.norms. */
status tlr_share_dropped(const tlr_procs *m, const tlr *l, int64_t p, status local);
/* That, and then their columns, in the precision in which they are kept; local: what came of this
 * member's. */
status tlr_share_columns(tlr_work *w, const tlr_procs *m, const tlr *l, int64_t p, status local);

/* --- pivot.c --- */

/* Largest number of compressed tiles to the left in a tile row of block column p. */
int64_t tlr_compressed_before(const tlr *l, int64_t p);
/* Whether the matrix itself is not positive definite, where block column p's block of the Schur
 * complement (n x n, in the backend's memory) has its first minor that is not positive at k. Each
 * tile was compressed so many times. Waits. */
status tlr_pivot_is_certain(tlr_work *w, const tlr *l, int64_t p, const double *block, int64_t k,
                            double compressions, bool *certain);

/* Place of index i of a dense array of vectors, and of vector r. */
static inline int64_t side_at(char side, int64_t i, int64_t r, int64_t ld) {
    return side == 'R' ? r + i * ld : i + r * ld;
}

#endif
