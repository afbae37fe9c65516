/* A catalogue of stars, or a list of fields, as a plain table. Local. */
#ifndef MOAO_ASTERISM_STARS_H
#define MOAO_ASTERISM_STARS_H

#include "base/status.h"
#include "system/sky.h"
#include <stdbool.h>

typedef struct {
    char name[32];
    double ra, dec; /* ICRS [rad]; NAN: the table gives x and y */
    double xy[2]; /* direction [rad]; NAN before ast_stars_place when the table gives RA and Dec */
    double magnitude; /* NAN: none */
} ast_star;

typedef struct {
    int n;
    ast_star *v;
    bool celestial; /* by RA and Dec */
} ast_stars;

/* Read a table: values with commas or blanks between them; its first line names the columns: ra and
 * dec (degrees, or hh:mm:ss and dd:mm:ss), or x and y (arcsec); magnitude (or mag); name. Further
 * columns are left out; # starts a comment. A star without magnitude is left out when `magnitudes`;
 * *without: how many. MOAO_INPUT with file and line. Free with ast_stars_free, also after a
 * failure. */
status ast_stars_read(const char *path, bool magnitudes, ast_stars *s, int *without);
void ast_stars_free(ast_stars *s);

/* Those of a field: within `radius` [rad] of x = y = 0, no fainter than `limit` (NAN: any), of more
 * than `most` the brightest; the brightest first. A table by RA and Dec needs the pointing of `sk`.
 */
status ast_stars_of_field(const ast_stars *all, const sky *sk, double radius, double limit,
                          int most, ast_stars *out);

#endif
