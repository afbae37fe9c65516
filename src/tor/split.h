/* A common mirror in closed loop (GLAO or LTAO control) and an open-loop mirror for each target
 * (mode: split). Of the v1 rows W1 of the common mirror and the rows W_k of a target's, solved for
 * as if it had no mirror in front, follow the commands of both,
 *
 *     c1 = Q W1 s1,     c2 = W_k s2 - X Q W1 s,     Q = (I - W1 (G - G'))^-1
 *     pseudo-open-loop slopes:  X = F N - W_k (G - G')
 *     residual slopes:          X = W_k G'
 *
 * G, G': slopes of the common mirror by its model, and as the sensors see it. N: its shapes in the
 * target's direction, F the fit to the target's mirror. s1, s2: slopes as old as the delay of each
 * mirror, or with the weights of its loop; s is s1 where the target's commands know c1, else s2. Of
 * residual slopes behind a closed loop s has both loops, as s1 was when s2 was measured. Model
 * section 6. */
#ifndef MOAO_SPLIT_H
#define MOAO_SPLIT_H

#include "tor/command.h"
#include "tor/rows.h"

typedef struct {
    const sys *s;
    const command_matrix *of; /* NULL: there is no such mirror */
    command_matrix copy;
    bool felt;      /* G and G' matter */
    bool kept;      /* drop is there, for all targets */
    int v1, v2;     /* commands */
    int64_t m;      /* measurements of one delay */
    double *model;  /* m x v1: G - G', NULL: 0 */
    double *real;   /* m x v1: G', NULL: not needed */
    double *shapes; /* points x v1: N */
    double *drop;   /* v2 x v1: F N, then X */
    double *x;      /* v2 x v1 */
    double *q;      /* v1 x v1: W1 (G - G') */
    double *panel;  /* v x width, and v1 x width */
    int *pivot;
    size_t width;
} split_commands;

/* Local. Bytes of the host that it takes with panels of a width, for the plan; 0: none. */
size_t split_bytes(const sys *s, size_t width);
/* Local. `of` is copied, its arrays are borrowed. close: fine on {0}. */
status split_open(const sys *s, const command_matrix *of, size_t width, split_commands *x);
void split_close(split_commands *x);
/* Collective in the group. The rows of a target in direction dir, w (t->nlrow x sys.m, leading
 * dimension ld), as they were solved for, become those of both mirrors. MOAO_NUMERIC where the loop
 * of the common mirror has no steady state. */
status split_apply(split_commands *x, const team *t, engine *e, const double dir[2], double *w,
                   int64_t ld);

#endif
