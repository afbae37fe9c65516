#include "progress_json.h"

#include "progress.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool kept; /* the variable said so when it was asked for */

bool progress_is_json(void) {
    const char *mode = getenv("MOAO_PROGRESS");
    return kept || (mode != NULL && strcmp(mode, "json") == 0);
}

void progress_keep_json(void) {
    const char *mode = getenv("MOAO_PROGRESS");
    kept = mode != NULL && strcmp(mode, "json") == 0;
}

void progress_event_begin(progress_event *e, const char *kind) {
    memset(e, 0, sizeof *e);
    e->f = open_memstream(&e->text, &e->size);
    json_line_to(&e->j, e->f != NULL ? e->f : stderr);
    json_string(&e->j, "event", kind);
}

/* In one piece, which lines of other ranks do not break. */
void progress_event_end(progress_event *e) {
    (void)json_done(&e->j); /* what cannot be written here has no reader */
    if (e->f == NULL || fclose(e->f) != 0)
        return;
    fflush(stderr);
    fwrite(e->text, 1, e->size, stderr);
    fflush(stderr);
    free(e->text);
}

void progress_event_text(const char *kind, const char *text) {
    progress_event e;
    progress_event_begin(&e, kind);
    json_string(&e.j, "text", text);
    progress_event_end(&e);
}

void progress_error(const char *message, int code) {
    progress_event e;
    progress_event_begin(&e, "error");
    json_string(&e.j, "text", message);
    json_integer(&e.j, "code", code);
    progress_event_end(&e);
}

void progress_run(int number, int of, const char *folder, const char *state, double seconds) {
    progress_event e;
    progress_event_begin(&e, "run");
    json_integer(&e.j, "number", number);
    json_integer(&e.j, "of", of);
    json_string(&e.j, "folder", folder);
    json_string(&e.j, "state", state);
    json_number(&e.j, "seconds", seconds);
    progress_event_end(&e);
}
