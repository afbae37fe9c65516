/* Solves by products of FP16 numbers in some terms (solve_split.c): what its operands are and
 * where. */
#ifndef MOAO_TLR_SOLVE_SPLIT_H
#define MOAO_TLR_SOLVE_SPLIT_H

#include "internal.h"

/* U of a tile row, or V of a tile column, without dense tiles: columns of two kinds, those that are
 * kept in single precision, of all tiles, then those that are kept in FP16; their first ones in
 * B, and in Z what they meet there. Where one term is all, all columns are of the first kind. */
typedef struct {
    int64_t rows, n[2], at[2], z[2];
} solve_place;

/* A tile: columns before it, of each kind, in its place of U and of V; of a dense one, its first
 * column in B (else -1). */
typedef struct {
    int64_t u[2], v[2], dense;
} solve_spot;

typedef struct {
    tlr_work *w;
    const tlr *l;
    const panel *p;
    char form;
    int terms, of_fp16; /* of these with columns that are kept in FP16 */
    int64_t v, ld;      /* rows of X; of A */
    float *x;           /* v x n, ld */
    float *block;       /* the diagonal block current */
    /* in the backend's memory: largest |x| of a block column, of what is multiplied, and of what is
     * divided; exponents of X in A and of the inverse, of each block column, of Z, and of what is
     * divided */
    double *most, *bound, *own;
    int32_t *ex, *e_inverse, *et, *ey;
    int eu, ev;
    backend_f16 *a, *b; /* A: what is divided, X, Z; B: U, V and dense tiles, ldb rows */
    int64_t y_cols, x_cols, z_cols, b_cols, ldb; /* x_cols: before Z */
    /* NULL, or upper and lower parts of the inverses of the diagonal blocks, columns ld_inverse
     * apart */
    backend_f16 *inverse;
    int64_t ld_inverse, widest; /* columns of a block column */
    split_place *places;        /* [b_cols] where results with a column of B go in Z */
    int64_t *kept;              /* tlr_store_kept */
    int64_t ia, ib;             /* tile rows current */
    solve_place *ub, *vb;
    solve_spot *spots; /* [ib - ia][c1 - c0] */
} solve_job;

/* FP16 parts of a number in X, in Z, and in U, V and dense tiles, for columns of a kind. */
static inline int solve_x_parts(const solve_job *s) {
    return s->terms == 3 ? 2 : 1;
}
static inline int solve_z_parts(const solve_job *s, int kind) {
    return (kind == 0 ? s->terms == 3 : s->of_fp16 == 2) ? 2 : 1;
}
static inline int solve_b_parts(const solve_job *s, int kind) {
    return kind == 0 && s->terms > 1 ? 2 : 1;
}
/* Columns of a tile of the second kind; the kind of a dense one. */
static inline int64_t solve_fp16(const solve_job *s, const tlr_tile *t) {
    return s->terms > 1 ? t->fp16 : 0;
}
static inline int solve_dense_kind(const solve_job *s, const tlr_tile *t) {
    return solve_fp16(s, t) > 0;
}
static inline int64_t solve_pad(int64_t n) {
    return (n + SPLIT_STEP - 1) / SPLIT_STEP * SPLIT_STEP;
}
static inline solve_spot *solve_spot_of(const solve_job *s, int64_t i, int64_t k) {
    return s->spots + (i - s->ia) * (s->p->c1 - s->p->c0) + k - s->p->c0;
}
/* First column of block column q's X in A: of form 'T' one is there at a time, of 'N' all. Rests
 * are as many columns further on as the block column has. */
static inline int64_t solve_x_of(const solve_job *s, int64_t q) {
    return s->y_cols +
           (s->form == 'T' ? 0 : solve_x_parts(s) * s->l->cols->first[s->l->panel[q].c0]);
}

/* That of block column q, rests solve_pad(its width) columns further on. */
static inline backend_f16 *solve_inverse_of(const solve_job *s, int64_t q) {
    return s->inverse + 2 * q * solve_pad(s->widest) * s->ld_inverse;
}

/* --- solve_operands.c --- */

/* Inverses of all diagonal blocks, made in double precision. */
status solve_invert(solve_job *s);

/* X of the block column current to A. In form 'N' exponents do not grow from one to the next. */
status solve_take_x(solve_job *s);
/* Tile rows ia .. ib of the block column are the current ones: places of all columns, b_cols.
 * close: gives them back, also if open failed. */
status solve_rows_open(solve_job *s, int64_t ia, int64_t ib);
void solve_rows_close(solve_job *s);
/* Their U, V and dense tiles to B; places. */
status solve_take_tiles(solve_job *s);
/* Tile rows of p from ia on whose Z fits in the memory, at least one; columns of that. */
int64_t solve_rows_that_fit(const solve_job *s, const panel *p, int64_t ia, int64_t *cols);

#endif
