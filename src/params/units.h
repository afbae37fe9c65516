/* Numbers with units, as they stand in parameter files: "1.65 um", "7.4 arcmin", "10 min".
 *
 * Inside the program everything is SI (angles in rad), but slope variances, which are in arcsec^2.
 */
#ifndef MOAO_UNITS_H
#define MOAO_UNITS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
    DIM_NONE,
    DIM_LENGTH,     /* m */
    DIM_ANGLE,      /* rad */
    DIM_TIME,       /* s */
    DIM_SPEED,      /* m/s */
    DIM_BYTES,      /* B */
    DIM_VARIANCE,   /* arcsec2: variance of a slope */
    DIM_FLUX,       /* ph/m2/s */
    DIM_CHARGE,     /* e- */
    DIM_STRENGTH,   /* m^-5/3: r0^(-5/3) */
    DIM_RATE,       /* Hz */
    DIM_WAVELENGTH, /* m: a length, or the name of a photometric band */
} dimension;

/* "a length", with its article, and "m, km, ...": the units a value of this dimension may carry. */
const char *units_dimension_name(dimension dim);
void units_list(dimension dim, char *out, size_t n);

/* "U=0.36, B=0.44, ...": the bands that a wavelength may be, with their central wavelengths [um].
 */
void units_bands(char *out, size_t n);

/* Convert the number in the whole of `text`; `unit` is the unit of a bare number. Decimal notation
 * only; "inf" only when `infinite`. On failure returns false and says in `why` what is wrong,
 * without the text itself. */
bool units_parse(const char *text, dimension dim, const char *unit, bool infinite, double *value,
                 char *why, size_t n);

/* The shortest text that units_parse turns back into exactly this value: a bare number in `unit`
 * where that is possible, else a number with the unit the program uses inside. */
void units_format(double value, dimension dim, const char *unit, char *out, size_t n);

/* A value in `unit` for messages, 6 digits, without the unit. */
double units_in(double value, dimension dim, const char *unit);

#endif
