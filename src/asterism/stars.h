/* A catalogue of stars, or a list of fields, as a plain table. Local. */
#ifndef MOAO_ASTERISM_STARS_H
#define MOAO_ASTERISM_STARS_H

#include "moao/status.h"
#include "system/sky.h"
#include <stdbool.h>
#include <stddef.h>

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

/* What a table has that is no star: without a position, without a magnitude, there twice. */
typedef enum { AST_NO_PLACE, AST_NO_MAGNITUDE, AST_TWICE, AST_REASONS } ast_reason;

typedef struct {
    int count[AST_REASONS];
    int line[AST_REASONS];       /* of the first one */
    char first[AST_REASONS][96]; /* what stands there */
} ast_left_out;

/* Magnitudes of stars: what lies outside stands for none, as -999 and 99.99 do. */
#define AST_BRIGHTEST (-5.0)
#define AST_FAINTEST 30.0

/* Stars that are nearer than that may be one [rad]: 0.2 arcsec. */
#define AST_TWICE_APART 9.6962736e-7

/* Read a table: CSV, or values with blanks between them; its first line names the columns: ra and
 * dec (degrees, or hh:mm:ss and dd:mm:ss), or x and y (arcsec); magnitude (or mag); name. Further
 * columns are not read; # starts a comment. A row without a position is left out. With
 * `magnitudes`, so are stars without one, and a row within 0.2 arcsec of another one that has the
 * same magnitude or name. *left: what was left out. MOAO_INPUT with file and line. Free with
 * ast_stars_free, also after a failure. */
status ast_stars_read(const char *path, bool magnitudes, ast_stars *s, ast_left_out *left);
/* A line for a reason that occurred, "2 stars without a magnitude are left out (...)". */
void ast_left_out_text(const ast_left_out *left, ast_reason why, char *out, size_t n);
void ast_stars_free(ast_stars *s);

/* Those of a field: within `radius` [rad] of x = y = 0, no fainter than `limit` (NAN: any), of more
 * than `most` the brightest; the brightest first. A table by RA and Dec needs the pointing of `sk`.
 */
status ast_stars_of_field(const ast_stars *all, const sky *sk, double radius, double limit,
                          int most, ast_stars *out);

#endif
