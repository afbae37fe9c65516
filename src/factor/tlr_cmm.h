/* Cmm of a system in the order of tiles (linalg/include/moao/tlr.h): its layout, its entries where
 * a factor wants them, and what a sample of tiles says about their ranks. */
#ifndef MOAO_TLR_CMM_H
#define MOAO_TLR_CMM_H

#include "factor/tlr_group.h"

#include "moao/tlr.h"

typedef struct {
    engine *e;
    tlr_layout order;             /* tiles of near subapertures */
    int64_t *first;               /* [sensors + 1] measurements before each */
    int64_t *perm, *place, *back; /* [m] in the backend's memory: order.perm; the same, counted from
                                     the sensor's first measurement; its inverse */
    double *strip;                /* m x widest: columns of Cmm of one sensor, in their own order */
    tlr_group *group;             /* NULL, or who fills the strip together */
    int held;                     /* which sensor, -1: none; */
    bool *there;                  /* [sensors] and whose rows of it are there */
} tlr_cmm;

/* Order of the tiles for m measurements, unless one is asked for (0: none is). */
int64_t tlr_cmm_tile(int64_t m, int asked);
/* Columns of a block column of such tiles: products are large where there are many measurements. */
int64_t tlr_cmm_width(int64_t tile);
/* Measurements of the largest sensor. */
int64_t tlr_cmm_widest(const sys *s);
/* Local. Layout on the host alone; first [sensors + 1] is the caller's, to be freed. */
status tlr_cmm_layout(const sys *s, int64_t tile, tlr_layout *order, int64_t **first);

/* Local. close: fine on {0}. strip is the caller's to set, with held = -1, before entries are asked
 * for: m x tlr_cmm_widest. */
status tlr_cmm_open(engine *e, int64_t tile, tlr_cmm *c);
void tlr_cmm_close(tlr_cmm *c);
/* Local. The sensor whose measurements tile t has. */
int tlr_cmm_sensor(const tlr_cmm *c, int64_t t);
/* tlr_fill of the profile that is loaded; arg: a tlr_cmm. Collective in its group, unless
 * tlr_cmm_own_rows. */
tlr_fill tlr_cmm_fill;
/* Local. Whether members of a factor make what they need alone (tlr_source.own_rows): on devices,
 * so that no entries are sent. */
bool tlr_cmm_own_rows(const tlr_cmm *c);
/* Least eigenvalue of the noise of the two slopes of a subaperture, of all of them [arcsec^2]. */
status tlr_cmm_noise(matcov *mc, int64_t m, double *least);

/* What a sample of tiles of Cmm of profile p says, on the CPU, in about a second. */
typedef struct tlr_prediction {
    int tile;                  /* order of the largest one */
    double noise;              /* least of a slope [arcsec^2] */
    double tau;                /* tolerance [arcsec^2], */
    double eps;                /* the same relative to the turbulence's part of Cmm: tau nt / |C| */
    double tiles;              /* off the diagonal blocks */
    double mean;               /* rank of a tile of the factor, dense ones counted whole */
    double dense;              /* share of dense tiles */
    double bytes, bytes_dense; /* of the factor; of the triangle */
    bool fp16;                 /* columns that may be are kept in FP16 */
} tlr_prediction;
/* Local. steps: tau is noise 2^(-steps / 8). */
status tlr_predict(const sys *s, const profile *p, int64_t tile, int steps, bool fp16,
                   tlr_prediction *out);

#endif
