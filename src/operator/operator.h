/* Operators: Cmm of a profile as a pair of a factor of Cmm0 (factor/factor.h), which gives W, and
 * the product of an exposure with it (residual/product.h). The stages tor and obsseq know no pair:
 * they call what follows, and find what an operator is like in the fields of its two tables.
 *
 * `solve` follows `make` or exposures. What the factor needs may go when T of an exposure comes and
 * the other way round. */
#ifndef MOAO_OPERATOR_H
#define MOAO_OPERATOR_H

#include "residual/product.h"

typedef struct linop_pair {
    const char *name;
    const factor_kind *factor;
    const product_kind *product;
} linop_pair;

typedef struct linop linop;
struct linop {
    const factor_kind *factor; /* what the two are like */
    const product_kind *product;
    factor *f;
    product *x;
    bool together;    /* targets of the chunk pass together over the columns of an exposure */
    linop *reference; /* of one that is not exact: the same factor with the product's reference */
};

/* Local. The pair of a factor and a product, NULL: they do not go together. */
const linop_pair *linop_of(const factor_kind *f, const product_kind *x);
/* Local. What it is in a word of compute.format. */
const char *linop_format(const linop_pair *pair);

/* Local. A pair of that name, NULL: none. Others are registered, by a program that has them, before
 * the first use; tests name the one that a run takes (base/fault.h, "operator"). Tables of another
 * size, or whose fields do not say what their functions are, are refused. */
const linop_pair *linop_find(const char *name);
status linop_register(const linop_pair *pair);

/* Local. The number that a checkpoint keeps of a pair, from 1 on, the same in every version; and
 * the pair of a number, NULL: none. */
int linop_number(const linop_pair *pair);
const linop_pair *linop_numbered(long number);

/* Local; no device is needed. Adds items of memory and what a target takes, by the pair of the
 * plan.
 */
void linop_bytes(const sys *s, plan *p);

/* Collective. Takes memory. proj: P on the device, rows x t; e and proj stay until close. close:
 * NULL is fine. */
status linop_open(engine *e, const plan *p, const double *proj, linop **o);
void linop_close(linop *o);

/* The memory of n targets: doubles in front of all W; doubles from its start that the factor wants;
 * doubles of W of a target of `size`, and what is kept in addition to it. set_workspace: where it
 * starts. */
int64_t linop_ground(const linop *o);
int64_t linop_room(const linop *o, int n);
int64_t linop_store(const linop *o, int64_t size);
int64_t linop_own(const linop *o);
status linop_set_workspace(linop *o, int n, double *room);

/* Collective. Cmm0 of a profile and its factor; *minor as factor_kind.make. */
status linop_factor(linop *o, const profile *p, int *minor);
/* Where W of a target, whose place is w, is solved for: its right-hand side goes there. */
static inline double *linop_solve_in(const linop *o, double *w) {
    return o->x->solve_in != NULL ? o->x->solve_in : w;
}
/* W := W Cmm0^-1 for n blocks of rows, of targets in directions dir; own[k]: of block k. */
status linop_solve(linop *o, int n, const wrows *w, double (*dir)[2], double *const *own);
/* Collective, after the solves of this rank (factor_kind.solved): the worst status. */
static inline status linop_solved(linop *o, status local) {
    return o->factor->solved != NULL ? o->factor->solved(o->f, local) : local;
}
/* |W Cmm0 - B0| / |B0| that is to be expected, 0: that of rounding. */
static inline double linop_expected(const linop *o) {
    return o->factor->expected != NULL ? o->factor->expected(o->f) : 0;
}

/* T of a profile. The reconstructor is that of the last factor. */
static inline status linop_load(linop *o, const profile *p) {
    return o->product->load != NULL ? o->product->load(o->x, p) : MOAO_OK;
}
static inline status linop_load_lag(linop *o, const profile *p) {
    return o->product->load_lag(o->x, p);
}
static inline status linop_begin(linop *o, const wrows *w, double *own) {
    return o->product->begin != NULL ? o->product->begin(o->x, w, own) : MOAO_OK;
}
static inline status linop_panel(linop *o, int64_t j, int64_t n) {
    return o->product->panel != NULL ? o->product->panel(o->x, j, n) : MOAO_OK;
}
static inline status linop_columns(linop *o, const wrows *w, int64_t j, int64_t n, double *z,
                                   int64_t ldz) {
    return o->product->columns(o->x, w, j, n, z, ldz);
}
static inline status linop_end(linop *o, const wrows *w, double *own, double *y) {
    return o->product->own_products ? o->product->end(o->x, w, own, y) : MOAO_OK;
}
static inline status linop_phase_end(linop *o, const wrows *w, int64_t np, double *ct) {
    return o->product->own_phase ? o->product->phase_end(o->x, w, np, ct) : MOAO_OK;
}
/* The share of the reconstructor's Cpm that exposures leave out. */
static inline double linop_share(const linop *o) {
    return o->product->leaves_share ? o->product->share(o->x) : 0;
}
/* Local. W of target `target` for the reference, where that has a W of its own. */
static inline status linop_sharpen(linop *o, int target, const double dir[2]) {
    return o->product->sharpen != NULL ? o->product->sharpen(o->x, target, dir) : MOAO_OK;
}

/* Be more accurate from now on, as results differ by `excess` times what is allowed (INFINITY: by
 * no number). from: the first step that may be made again; *again: the first one that has to be,
 * for that to hold; LINOP_NOTHING: it cannot be more accurate. The same on every rank. */
status linop_reduce_tolerance(linop *o, double excess, linop_step from, linop_step *again);

#endif
