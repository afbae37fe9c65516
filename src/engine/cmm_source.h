/* Cmm as a source of the formats library (linalg/include/moao/hier.h): entries of the profile
 * loaded, and where its measurements are, so that they can be put in clusters. Spans of rows and
 * columns are filled and entries picked from them: meant for CPUs; on a GPU it is right and slow.
 */
#ifndef MOAO_CMM_SOURCE_H
#define MOAO_CMM_SOURCE_H

#include "engine/engine.h"
#include "moao/hier.h"

/* How measurements are put in clusters. */
typedef enum {
    /* By subapertures of all sensors together, where they are in the pupil (2 coordinates [m]):
     * for HSS, in which a cluster has one block with all others and samples them near it. */
    CMM_JOINT,
    /* Sensor by sensor (a third coordinate; formats that cut nodes at the mean, options.mean_split,
     * cut no sensor before it is alone). Clusters are apart when they are so on every layer that
     * both see, in footprints with the cone of their stars: for H2. */
    CMM_BY_SENSOR
} cmm_clusters;

/* Centre of subaperture k of sensor w in the pupil, registered [m]. */
void cmm_place(const sys *s, int w, int k, double at[2]);

/* Local. e: opened, with a profile loaded (engine_load) whenever entries are asked for. p: the
 * profile whose layers say what is apart, borrowed; CMM_JOINT: not used. with: MATCOV_NOISE,
 * MATCOV_TIPTILT or both, as of fill_cmm. Rows and columns are measurements, in their order. close:
 * fine on {0}. */
status cmm_source_open(engine *e, cmm_clusters how, const profile *p, unsigned with,
                       hier_source *s);
void cmm_source_close(hier_source *s);

#endif
