/* Solves by products of halves in some terms (solve_terms.c): what its operands are and where. */
#ifndef MOAO_TLR_SOLVE_TERMS_H
#define MOAO_TLR_SOLVE_TERMS_H

#include "tlr/internal.h"

/* U of a tile row, or V of a tile column, without dense tiles: the leading columns of all tiles,
 * then those that are kept as halves; where they are in B, and in Z what they meet there. */
typedef struct {
    int64_t rows, n[2], at[2], z[2];
} solve_place;

/* Columns of a tile that is not dense, by the same two kinds; and how many such are before it in
 * its place of U, and of V; of a dense one, where it is in B. */
typedef struct {
    int64_t n[2], u[2], v[2], dense;
} solve_spot;

typedef struct {
    tlr_work *w;
    const tlr *l;
    const panel *p;
    char form;
    int terms, of_halves; /* of these with columns that are kept as halves */
    int64_t v, ld;        /* of X, A, and Z, which is A's last columns */
    int64_t ldb;
    float *x;     /* v x n */
    float *block; /* the diagonal block in hand */
    double bound; /* of all that is multiplied */
    int *ex;      /* [panels] exponents of X in A */
    int ev, eu, et;
    backend_f16 *a, *b;
    int64_t x_cols, z_cols, b_cols;
    int64_t ia, ib;       /* tile rows in hand */
    solve_place *ub, *vb; /* of tile rows, of tile columns */
    solve_spot *spots;    /* [ib - ia][c1 - c0] */
} solve_job;

static inline backend_f16 *solve_as_halves(void *p) {
    return p;
}

static inline int64_t solve_pad(int64_t n) {
    return (n + TERMS_STEP - 1) / TERMS_STEP * TERMS_STEP;
}

/* Halves of a number in X, in Z, and in U and V, of columns of a kind. */
static inline int solve_left_parts(const solve_job *s) {
    return s->terms == 3 ? 2 : 1;
}
static inline int solve_z_parts(const solve_job *s, int kind) {
    return (kind == 0 ? s->terms == 3 : s->of_halves == 2) ? 2 : 1;
}
static inline int solve_right_parts(const solve_job *s, int kind) {
    return kind == 0 && s->terms > 1 ? 2 : 1;
}

static inline int64_t solve_halves_of(const solve_job *s, const tlr_tile *t) {
    return s->terms > 1 ? t->halves : 0;
}

static inline solve_spot *solve_spot_of(const solve_job *s, int64_t i, int64_t k) {
    return s->spots + (i - s->ia) * (s->p->c1 - s->p->c0) + k - s->p->c0;
}

/* First column in A of tile t's columns of X. */
static inline int64_t solve_x_at(const solve_job *s, int64_t t) {
    const int64_t *first = s->l->cols->first;
    return solve_left_parts(s) * (first[t] - (s->form == 'T' ? first[s->p->c0] : 0));
}

/* --- solve_operands.c --- */

/* X of the super-panel in hand to A. Exponents do not grow from one to the next. */
status solve_take_x(solve_job *s);
/* Places of the tile rows in hand; columns of B. */
void solve_lay_out(solve_job *s);
/* Their U, V and dense tiles to B. */
status solve_take_tiles(solve_job *s);
/* Tile rows of p from ia on whose Z fits in the memory, at least one; columns of that. */
int64_t solve_rows_that_fit(const solve_job *s, const panel *p, int64_t ia, int64_t *cols);

#endif
