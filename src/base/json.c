#include "json.h"

#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void put(json *j, const char *text) {
    if (j->stream != NULL)
        fputs(text, j->stream);
    else if (j->st == MOAO_OK)
        j->st = file_append(&j->out, text, strlen(text));
}

/* Bytes that are no UTF-8, as names of files may have, become \udcXX, from which Python makes the
 * same bytes again. */
static void put_string(json *j, const char *s) {
    const bool characters = text_is_utf8(s);
    put(j, "\"");
    for (; *s != '\0'; s++) {
        char t[8];
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            snprintf(t, sizeof t, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            snprintf(t, sizeof t, "\\u%04x", c);
        else if (c >= 0x80 && !characters)
            snprintf(t, sizeof t, "\\udc%02x", c);
        else
            snprintf(t, sizeof t, "%c", c);
        put(j, t);
    }
    put(j, "\"");
}

static void indent(json *j) {
    if (j->line)
        return;
    put(j, "\n");
    for (int i = 0; i < j->depth; i++)
        put(j, "  ");
}

static void begin_member(json *j, const char *key) {
    if (!j->first)
        put(j, ",");
    j->first = false;
    indent(j);
    if (key != NULL) {
        put_string(j, key);
        put(j, ": ");
    }
}

static void begin_group(json *j, const char *open, char close) {
    put(j, open);
    if (j->depth + 1 >= (int)sizeof j->close) {
        if (j->st == MOAO_OK)
            j->st = status_fail(MOAO_INTERNAL, "%s: nested too deeply",
                                j->out.path != NULL ? j->out.path : "JSON");
        return;
    }
    j->close[j->depth++] = close;
    j->first = true;
}

status json_open(json *j, const char *path) {
    memset(j, 0, sizeof *j);
    status st = file_begin(&j->out, path);
    if (st == MOAO_OK)
        begin_group(j, "{", '}');
    return st;
}

void json_to(json *j, FILE *f) {
    memset(j, 0, sizeof *j);
    j->stream = f;
    begin_group(j, "{", '}');
}

void json_line_to(json *j, FILE *f) {
    json_to(j, f);
    j->line = true;
}

status json_done(json *j) {
    while (j->depth > 0)
        json_end(j);
    put(j, "\n");
    status st = j->st;
    if (st == MOAO_OK && (fflush(j->stream) != 0 || ferror(j->stream)))
        st = status_fail(MOAO_IO, "standard output: cannot write");
    memset(j, 0, sizeof *j);
    return st;
}

void json_object(json *j, const char *key) {
    begin_member(j, key);
    begin_group(j, "{", '}');
}

void json_array(json *j, const char *key) {
    begin_member(j, key);
    begin_group(j, "[", ']');
}

void json_end(json *j) {
    char close[2] = {0};
    if (j->depth == 0)
        return;
    close[0] = j->close[--j->depth];
    if (!j->first)
        indent(j);
    put(j, close);
    j->first = false;
}

void json_number(json *j, const char *key, double value) {
    char t[40] = "null";
    if (isfinite(value))
        snprintf(t, sizeof t, "%.15g", value);
    begin_member(j, key);
    put(j, t);
}

void json_integer(json *j, const char *key, long long value) {
    char t[32];
    snprintf(t, sizeof t, "%lld", value);
    begin_member(j, key);
    put(j, t);
}

void json_string(json *j, const char *key, const char *value) {
    begin_member(j, key);
    put_string(j, value);
}

void json_bool(json *j, const char *key, bool value) {
    begin_member(j, key);
    put(j, value ? "true" : "false");
}

status json_close(json *j) {
    while (j->depth > 0)
        json_end(j);
    put(j, "\n");
    status st = j->st;
    if (st == MOAO_OK)
        st = file_commit(&j->out);
    json_abandon(j);
    return st;
}

void json_abandon(json *j) {
    file_abandon(&j->out);
    memset(j, 0, sizeof *j);
}
