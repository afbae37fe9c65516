/* Files of the published MOAO framework: fixed order, each value under a line of comment. All
 * functions are local; a mistake is MOAO_INPUT with a line "file:line:column: key: what is wrong,
 * what is expected". */
#ifndef MOAO_LEGACY_H
#define MOAO_LEGACY_H

#include "moao/status.h"
#include <stdbool.h>

typedef struct {
    int n;
    double r0;        /* as stated [m]; the strengths count, this line can differ from them */
    double *strength; /* [n] r0_l^(-5/3) [m^(-5/3)] */
    double *altitude; /* [n] [m] */
    double *L0;       /* [n] outer scales [m] */
} legacy_profile;

/* Parse the text of a profile file; `name` is for messages. */
status legacy_profile_parse(const char *name, const char *text, legacy_profile *p);
void legacy_profile_free(legacy_profile *p);

enum { LEGACY_UNUSED = 64 }; /* numbers of an item that is not modelled */

typedef struct { /* units as in the file; NAN: not in this variant of the file */
    bool full;   /* the longer variant, with fluxes and targets */
    double diameter, obscuration, frame_time;
    int nsensor; /* without the truth sensor */
    int nlgs, nssp;
    double *inverse_altitude;  /* [nsensor] [1/m] */
    int *type;                 /* [nsensor] 1 NGS, 2 LGS */
    double *direction[2];      /* [nsensor] [arcsec] */
    double *shift[2];          /* [nsensor] [m] */
    double *rotation, *camera; /* [nsensor] of the microlenses, of the camera [deg] */
    double *sensitivity;       /* [nsensor] */
    int ntracking, nstep, nprocessors;
    double tracking[LEGACY_UNUSED];            /* telescope tracking [arcsec2], not modelled */
    double step[LEGACY_UNUSED];                /* of a table of that program */
    double processors[LEGACY_UNUSED];          /* that it uses */
    double *magnitude;                         /* [number of NGS] or NULL */
    double lgs_return;                         /* [ph/m2/s] */
    double pixel[2], wavelength[2];            /* NGS, LGS [arcsec], [m] */
    double bandwidth;                          /* [m] */
    double throughput[2], t_atm;               /* NGS, LGS; atmosphere */
    double ron;                                /* [e-] */
    double noise_variance;                     /* [arcsec2] */
    double tiptilt;                            /* [arcsec2] */
    double lgs_width, lgs_altitude, lgs_depth; /* [arcsec], [m], [m] */
    int ntarget;
    double *target[2]; /* [ntarget] [arcsec] */
} legacy_system;

/* Parse the text of a system file, either variant. */
status legacy_system_parse(const char *name, const char *text, legacy_system *s);
void legacy_system_free(legacy_system *s);

#endif
