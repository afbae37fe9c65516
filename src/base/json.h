/* Writes a JSON file, member after member, that appears whole or not at all. All functions are
 * local. Values that JSON lacks (NaN, infinities) become null. Failed writes are kept and reported
 * by json_close. */
#ifndef MOAO_JSON_H
#define MOAO_JSON_H

#include "file.h"
#include "moao/status.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct {
    file_out out;
    FILE *stream; /* instead, where not NULL */
    bool line;    /* without line breaks */
    int depth;
    bool first; /* nothing yet in the innermost object or array */
    char close[16];
    status st;
} json;

/* The outermost value is an object, begun by json_open and ended by json_close, which makes the
 * file appear. */
status json_open(json *j, const char *path);
status json_close(json *j);
void json_abandon(json *j); /* fine after json_close, and on {0} */

/* The same on an open stream, which keeps what was written before: nothing appears at once. */
void json_to(json *j, FILE *f);
/* The same on one line. */
void json_line_to(json *j, FILE *f);
status json_done(json *j);

/* Members of an object; in an array, key is NULL. Objects and arrays end with json_end. At most 14
 * deep. */
void json_object(json *j, const char *key);
void json_array(json *j, const char *key);
void json_end(json *j);
void json_number(json *j, const char *key, double value);
void json_integer(json *j, const char *key, long long value);
void json_string(json *j, const char *key, const char *value);
void json_bool(json *j, const char *key, bool value);

#endif
