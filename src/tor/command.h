/* The command matrix D+ (v x t): from truth-sensor slopes [arcsec] to DM commands [m]. */
#ifndef MOAO_COMMAND_H
#define MOAO_COMMAND_H

#include "base/comm.h"
#include "engine/plan.h"
#include "moao/backend_sparse.h"
#include "system/system.h"

/* D+ = H D' with H = (I - 11'/v) M^-1: D' is a filter (matcov_interaction_filter), so that a
 * product with D+ is one with H, of half the operations, and some percent. */
typedef struct {
    double *h;        /* v x v, the caller's */
    double condition; /* of M, in 1-norms */
} command_inverse;

/* P of reconstructors W = P Ctm0 Cmm0^-1 (tor.h); borrowed. */
typedef struct {
    const double *p;              /* rows of W of a target x sys_fit_columns(s) */
    const double *inverse;        /* NULL, or H, rows x rows: P = H D', and P Ctm is made so */
    const double *x, *y;          /* s->fit.phase: points that commands are fitted to [m] */
    const double *modes, *shapes; /* NULL, or Z and M Z of low orders (low_orders.h), v x modes */
} command_matrix;

/* Collective. D+ = (I - 11'/v) [D'D + g (mu L'L + 11'/v)]^-1 D' (Model section 6) into dplus (v x
 * t, leading dimension v), whole on every rank. g = (206264.8/d_t)^2; L holds one row (1, -2, 1)
 * for every three consecutive valid actuators of a row or column, so that low orders are kept at
 * every size and waffle is not amplified. The columns are shared out over the ranks and gathered.
 * inverse: NULL, or H is made too, which every rank computes. */
status command_init(const comm *c, const sys *s, double *dplus, command_inverse *inverse);
/* Collective. The same on a device, where D+ is H D': every rank makes all of it on its own one. It
 * stands where command_exact says so. MOAO_MEMORY where a device or the host has no room. */
status command_init_device(const comm *c, const sys *s, const backend *be, double *dplus,
                           command_inverse *inverse);

/* Local. The way on the host's processors or on another device, as far as it is known before M is.
 * Tests decide instead where D' has a filter (base/fault.h, "projection": matrix, filter, raw). */
command_way command_choose(const sys *s, bool host);
/* Local. Whether H D' is as accurate as D+: what it loses are the digits of the condition number.
 */
bool command_exact(const command_inverse *inverse);

/* Local. The matrix in brackets, M, of the interaction matrix d (t x v, leading dimension t): its
 * lower triangle into a (v x v), which is 0 before. */
status command_normal(const sys *s, const double *d, double *a);

/* Columns of a matrix that all ranks compute: those of a rank, in whole blocks. */
typedef struct {
    int *count, *offset; /* [ranks] */
    int first, n;        /* of this rank */
} command_columns;
/* Collective. n columns in blocks of `each`; then all of a (rows, leading dimension rows) on every
 * rank, and `of` is freed. */
status command_deal(const comm *c, size_t n, size_t each, command_columns *of);
void command_gather(const comm *c, size_t rows, command_columns *of, double *a);

/* Local. a, a lower triangle of leading dimension ld, += g (mu L'L + 11'/v + ridge I) of a mirror.
 */
status command_regularise_mirror(const dmirror *dm, double g, double mu, double ridge, double *a,
                                 size_t ld);

/* Bytes that command_init needs beside dplus, for the memory plan. */
size_t command_work_bytes(const sys *s);

/* Local. Bytes that a way keeps: D+ (rows x t), H where it needs that, and, where V takes the place
 * of W (for which no residual phase may be wanted), a square for H V' H' and the like. */
size_t command_bytes(size_t rows, size_t t, command_way way, bool phase);
/* Local. Rows of the panels of which P Ctm is made: truth-sensor slopes, and D' times them. */
size_t command_panel_rows(size_t rows, size_t t, command_way way);

#endif
