#include "params_mistakes.h"

#include "params.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 20, LINE = 2048 };

static struct {
    bool on;
    int n;    /* kept */
    int more; /* beyond those */
    char line[MOST + 1][LINE];
} kept;

/* "file:line:column: key: what": where "what" begins. */
static const char *after_key(const char *line) {
    const char *place = strstr(line, ": ");
    const char *key = place != NULL ? strstr(place + 2, ": ") : NULL;
    return key != NULL ? key + 2 : line;
}

/* The same words at the same place: defaults of sensors are read once for each of them. */
static bool same(const char *a, const char *b) {
    const char *end = strstr(a, ": ");
    const size_t n = end != NULL ? (size_t)(end - a) + 2 : strlen(a) + 1;
    return strncmp(a, b, n) == 0 && strcmp(after_key(a), after_key(b)) == 0;
}

void mistakes_begin(void) {
    kept.on = true;
    kept.n = kept.more = 0;
}

status mistakes_keep(status st) {
    if (st != MOAO_INPUT || !kept.on)
        return st;
    bool known = false;
    for (int i = 0; i < kept.n && !known; i++)
        known = same(kept.line[i], status_message());
    if (!known && kept.n < MOST)
        snprintf(kept.line[kept.n++], LINE, "%s", status_message());
    else if (!known)
        kept.more++;
    status_clear();
    return MOAO_OK;
}

int mistakes_count(void) {
    return kept.n + kept.more;
}

bool mistakes_about(const char *path) {
    const size_t n = strlen(path);
    for (int i = 0; i < kept.n; i++) {
        const char *key = strstr(kept.line[i], ": ");
        if (key != NULL && strncmp(key + 2, path, n) == 0 && strchr(".:[", key[2 + n]) != NULL)
            return true;
    }
    return false;
}

bool mistakes_mention(const char *words) {
    for (int i = 0; i < kept.n; i++)
        if (strstr(kept.line[i], words) != NULL)
            return true;
    return false;
}

status mistakes_end(status st) {
    if (st == MOAO_INPUT)
        st = mistakes_keep(st); /* behind those that came before */
    kept.on = false;
    if (st != MOAO_OK || kept.n == 0)
        return st;
    if (kept.more > 0)
        snprintf(kept.line[MOST], LINE, "and %d more mistake%s", kept.more,
                 kept.more > 1 ? "s" : "");
    return status_fail(MOAO_INPUT, "%s", kept.line[0]);
}

const char *params_mistake(int i) {
    const bool counted = i == MOST && kept.more > 0;
    return (i >= 0 && i < kept.n) || counted ? kept.line[i] : NULL;
}
