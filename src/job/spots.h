/* Natural stars whose spots a mirror corrects (sensors[].spot: corrected): the Strehl ratio of a
 * subaperture, from the run's own residual. */
#ifndef MOAO_SPOTS_H
#define MOAO_SPOTS_H

#include "base/comm.h"
#include "job/cmdline.h"

/* Collective. run_all; where sensors have corrected spots whose Strehl ratio is not given, after it
 * is found: two to four runs, each with the noise that the one before gives, of the sensors' stars
 * as targets, with images of a subaperture at the sensors' wavelengths, under the first profile, in
 * the folder's name with -spots behind. A resumed run takes the ratios that it had. */
status spots_run(const comm *c, const cmdline *cl);

#endif
