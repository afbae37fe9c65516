/* Lines of progress for programs: one object of JSON each, written at once. Local. */
#ifndef MOAO_PROGRESS_JSON_H
#define MOAO_PROGRESS_JSON_H

#include "json.h"

typedef struct {
    json j;
    FILE *f;
    char *text;
    size_t size;
} progress_event;

/* {"event": kind, ... to stderr. Between the two calls members are added to e->j. */
void progress_event_begin(progress_event *e, const char *kind);
void progress_event_end(progress_event *e);
/* An event with a text alone. */
void progress_event_text(const char *kind, const char *text);

#endif
