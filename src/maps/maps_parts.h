/* Shared by the files that write maps.fits and psf.fits. Rank 0 only; local. */
#ifndef MOAO_MAPS_PARTS_H
#define MOAO_MAPS_PARTS_H

#include "base/fits.h"
#include "base/progress.h"
#include "base/text.h"
#include "maps.h"
#include "moao/status.h"
#include "params/params.h"
#include "psf/psf.h"
#include "store/store.h"
#include "system/atmos.h"
#include "system/sky.h"
#include "system/system.h"

/* Places of the scalars in a result_block; ensquared energies follow. */
enum { SCALAR_STREHL, SCALAR_FWHM, SCALAR_VARIANCE, SCALAR_EE };

typedef struct maps_data {
    const char *dir;
    const params *par;
    const sys *s;
    const atmos *a;
    store *st;
    const maps_sampling *sampling; /* NULL: every target was computed */
    sky sk;                        /* where the field is; NAN: not known */
    int crop;                      /* side of the images, pixels */
    const psf *ps;                 /* of which images of bands are made */
    double *pixel;                 /* [nlambda] of the images [rad] */
    int nlambda, nexposure, ntarget, nscalar;
    double *value; /* [nscalar][nlambda][nexposure][ntarget]: of the short exposures */
    double *
        mean; /* [nscalar][nlambda][ntarget]: of the long exposure; FWHM NaN until it is measured */
    int nbudget;         /* terms of the error budget, those of the stars last; 0: none */
    double *budget;      /* [nbudget][nexposure][ntarget] variances [m^2] */
    double *budget_mean; /* [nbudget][ntarget] */
} maps_data;

typedef struct {   /* what is written of one scalar */
    char name[32]; /* EXTNAME and column: STREHL, EE_80mas, FWHM, VARIANCE */
    int scalar;
    const char *unit;
    double scale; /* from SI to that unit */
    double box;   /* side of the box [rad], 0: none */
    char title[72];
} maps_quantity;

typedef struct { /* of a column */
    char name[32], form[24], title[72];
} maps_text;

/* The error budget (maps_budget.c): how many columns of TARGETS, their descriptions, what the table
 * says of them, and a target's cells; `first`: number of the first column. */
int maps_budget_count(const maps_data *m);
void maps_budget_columns(const maps_data *m, fitsout_column *columns, maps_text *text);
void maps_budget_header(fitsout *o, const maps_data *m, int first);
void maps_budget_cells(fitsout *o, const maps_data *m, int first, int t);
/* The variances of a target and exposure into m->budget; the long exposure's terms over the targets
 * into the report. */
status maps_budget_load(maps_data *m, int e, int t, const double *terms);
status maps_budget_summary(const maps_data *m, report *rep);

/* Number of quantities (STREHL, each EE, FWHM, VARIANCE: as many as scalars) and the i-th of them.
 */
void maps_quantity_at(const maps_data *m, int i, maps_quantity *q);

/* Keywords of the run, for a primary header; then the comments, a NULL-terminated list. */
void maps_run_header(fitsout *o, const maps_data *m, const char *const *comments);
/* Whether the field's place on the sky is known; keywords that say it; the celestial description of
 * a map's first two axes, with the direction of pixel (1, 1) and the steps [rad]; RA and Dec of a
 * direction in two columns of a table (nothing where they are not known). */
bool maps_on_sky(const maps_data *m);
void maps_sky_header(fitsout *o, const maps_data *m);
void maps_celestial_axes(fitsout *o, const maps_data *m, const double first[2],
                         const double step[2], int naxis);
void maps_sky_cells(fitsout *o, const maps_data *m, int col, long row, const double xy[2]);
/* Tables. */
void maps_table_targets(fitsout *o, const maps_data *m, bool results);
void maps_table_guidestars(fitsout *o, const maps_data *m);
void maps_table_exposures(fitsout *o, const maps_data *m);
void maps_table_wavelengths(fitsout *o, const maps_data *m);
void maps_table_parameters(fitsout *o, const char *effective);

/* psf.fits, finished but not in place, and m->mean's FWHM of the long exposures from the images. */
status maps_write_psf(maps_data *m, const char *effective, fitsout *o);

#endif
