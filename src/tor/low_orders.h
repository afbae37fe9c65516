/* Low orders of mirrors that all targets share, by stars of their own (loop.low). N: slopes of
 * these stars, L: those of the others; W = [W_L W_N] the minimum-variance commands of all, for
 * which Cmm0 W' = Cpm0'F' was solved; Z: commands of the low orders, T = Z (Z'MZ)^-1 Z'M
 * (obsseq/fit.h). With G = C_NL C_LL^-1, and W_L + W_N G the commands of L alone, commands become
 *
 *     c = R s_L + T X (s_N - K s_L),     X = W C J' (J C J')^-1,   J = [-K I]
 *     split:        R = W_L + W_N G,          K = G,      for which X = W_N
 *     cascade:      R = (I - T)(W_L + W_N G), K = D_N R, slopes of the mirrors on these sensors
 *     independent:  R = (I - T)(W_L + W_N G), K = 0
 *
 * In time each sensor's slopes have the filter of its own loop. Model section 6. */
#ifndef MOAO_LOW_ORDERS_H
#define MOAO_LOW_ORDERS_H

#include "operator/operator.h"
#include "tor/command.h"
#include "tor/rows.h"

typedef struct {
    const sys *s; /* NULL: there is none */
    engine *e;
    size_t *low; /* [n] measurements of N */
    int n, v, modes;
    int64_t width;
    double *host[2]; /* m x n: what small matrices are computed from */
    double *schur;   /* n x n: J C J' */
    /* on the device: */
    double *z, *q;   /* v x modes: Z, M Z */
    double *inverse; /* modes x modes: (Z'MZ)^-1 */
    double *part[2]; /* modes x width, or modes x n: of a projection */
    double *rows;    /* n x m: rows N of Cmm0^-1, then G in the columns of L */
    double *k;       /* n x m: K in the columns of L, of a cascade */
    double *slopes;  /* n x v: D_N, of a cascade */
    double *cross;   /* m x n: C J', */
    double *cov;     /* m x width: columns of C, of a cascade */
    double *w_low;   /* v x n: W_N, */
    double *x;       /* v x n: X, T X */
    double *panel;   /* v x width, where W is not all here, and of a cascade */
} low_orders;

/* Local. Bytes of the host and of the device that it takes with panels of a width, for the plan;
 * 0: none. group: ranks that share the rows of W. */
size_t low_orders_bytes(const sys *s);
size_t low_orders_device_bytes(const sys *s, size_t width, int group);
/* Local. `of` has modes and shapes. close: fine on {0}. */
status low_orders_open(engine *e, const command_matrix *of, int group, low_orders *x);
void low_orders_close(const engine *e, low_orders *x);
/* Collective in the group. Rows of W (t->nlrow x sys.m, leading dimension ld) become those above;
 * o: the factor that they were solved with, of the profile that the engine has loaded. MOAO_NUMERIC
 * where the slopes of these stars have no inverse. */
status low_orders_apply(low_orders *x, const team *t, linop *o, double *w, int64_t ld);

#endif
