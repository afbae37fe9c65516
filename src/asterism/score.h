/* Variances of many asterisms that share all stars but one, on a backend.
 *
 * The residual variance over the pupil of target t is linear in the covariance of its commands, so
 * that of an asterism A is var0_t - tr(S_AA^-1 G_t,AA) with G_t = sym((2 rs - r0) area r0'), blocks
 * of which are made once for every pair of candidates. For one more star k, with K = S_AA^-1 S_Ak
 * and Z = (S_kk - S_kA K)^-1,
 *
 *     S^-1 of A and k = [S_AA^-1 + K Z K'   -K Z]
 *                       [       -Z K'          Z]
 *
 * so that all k of a base A are done with one factor of S_AA and small products. */
#ifndef MOAO_ASTERISM_SCORE_H
#define MOAO_ASTERISM_SCORE_H

#include "asterism/case.h"
#include "moao/backend.h"

#define AST_MOST 16 /* stars of an asterism */

typedef struct ast_scores ast_scores; /* on a device: S, and G by pairs; shared by workers */
typedef struct ast_worker ast_worker; /* a context and its buffers; one thread at a time */

/* Local. `k` is borrowed. */
status ast_scores_init(const backend *be, int device, const ast_case *k, ast_scores **out);
void ast_scores_free(ast_scores *q);

status ast_worker_init(ast_scores *q, int nbase, int range, ast_worker **out);
void ast_worker_free(ast_worker *w);

/* Local. var[(k - k0) ntarget + t]: residual variance [m^2] of target t with the stars
 * base[0..nbase) and star k, for k0 <= k < k1, k1 - k0 <= range. NAN where k is one of the base, or
 * where the matrix is not positive definite. nbase may be 0. */
status ast_worker_run(ast_worker *w, const int *base, int nbase, int k0, int k1, double *var);

#endif
