/* The field on the sky: where x and y point, and where the zenith is. Local, without state.
 *
 * Celestial coordinates are ICRS [rad]. The field is the plane that touches the sphere at the
 * pointing; on it xi points east and eta north, and in a picture with north up east is to the left.
 * Position angles count from north through east. Model section 9. */
#ifndef MOAO_SKY_H
#define MOAO_SKY_H

#include <stdbool.h>

typedef struct {    /* NAN: not given */
    double ra, dec; /* pointing, x = y = 0 */
    double angle;   /* position angle of the y axis; NAN without a pointing and without an angle */
    double hour_angle;  /* of the pointing, west of the meridian positive */
    double zenith;      /* zenith angle that follows from place and time or hour angle */
    double parallactic; /* position angle of the direction to the zenith */
} sky;

/* Direction (x, y) [rad] in the field of a point of the sky, and back. sky_project: false for a
 * point 90 degrees or more from the pointing. */
bool sky_project(const sky *s, double ra, double dec, double xy[2]);
void sky_deproject(const sky *s, const double xy[2], double *ra, double *dec);

/* Zenith angle and parallactic angle at the pointing of `s` from its hour angle and the latitude.
 */
void sky_from_hour_angle(sky *s, double hour_angle, double latitude);
/* The same, and the hour angle, from a time (Julian date, UTC) and a site (longitude positive
 * east). Precession is in it; nutation, aberration, refraction and UT1 - UTC are left out: within
 * 0.02 degrees. */
void sky_from_time(sky *s, double jd, double longitude, double latitude);

/* "2026-11-22T03:14:15" (UTC; the clock or its seconds may be left out) as a Julian date. */
bool sky_read_time(const char *text, double *jd);
/* An angle [rad] as astronomers write it: "10:00:28.6" in hours (is_hours) or degrees, or a number
 * of degrees with "deg" behind it or nothing, of hours with "h". */
bool sky_read_angle(const char *text, bool is_hours, double *angle);

#endif
