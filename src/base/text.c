#include "text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_add(text *t, const char *fmt, ...) {
    for (int attempt = 0; attempt < 2 && t->failed == MOAO_OK; attempt++) {
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf(t->s ? t->s + t->len : NULL, t->room - t->len, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < t->room - t->len) {
            t->len += (size_t)n;
            return;
        }
        size_t room = 2 * (t->room + (size_t)(n > 0 ? n : 0)) + 256;
        char *grown = realloc(t->s, room);
        if (grown == NULL || n < 0) {
            t->s = grown ? grown : t->s;
            t->failed = status_fail(MOAO_MEMORY, "no memory for a text of %zu bytes", room);
            return;
        }
        t->s = grown;
        t->room = room;
    }
}

/* Code point of the UTF-8 sequence at *p, which then points behind it; 0xFFFD for what is none. */
static unsigned long next_code(const unsigned char **p) {
    unsigned long c = *(*p)++;
    int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
    if (c < 0x80)
        return c;
    if (more == 0)
        return 0xFFFD;
    static const unsigned long least[4] = {0, 0x80, 0x800,
                                           0x10000}; /* shorter ones are the same character */
    const unsigned long from = least[more];
    c &= 0x3FU >> more;
    for (; more > 0; more--) {
        if ((**p & 0xC0) != 0x80)
            return 0xFFFD;
        c = c << 6 | (*(*p)++ & 0x3FU);
    }
    return c < from || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF) ? 0xFFFD : c;
}

bool text_is_utf8(const char *s) {
    for (const unsigned char *p = (const unsigned char *)s; *p;)
        if (next_code(&p) == 0xFFFD)
            return false;
    return true;
}

/* Whether a spreadsheet would take a cell for a formula. A number is none. */
static bool is_formula(const char *s) {
    char *end;
    if (*s == '\0' || strchr("=+-@\t\r", *s) == NULL)
        return false;
    const bool number = (*s == '+' || *s == '-') && (isdigit((unsigned char)s[1]) || s[1] == '.');
    if (number)
        strtod(s, &end);
    return !number || *end != '\0';
}

void text_add_cell(text *t, const char *s, const char *others) {
    const bool guarded = is_formula(s) || (*s == '\'' && text_cell_value(s) != s);
    if (!guarded && strpbrk(s, ",\"\r\n") == NULL && strpbrk(s, others) == NULL) {
        text_add(t, "%s", s);
        return;
    }
    text_add(t, guarded ? "\"'" : "\"");
    for (; *s != '\0'; s++)
        text_add(t, *s == '"' ? "\"\"" : "%c", *s);
    text_add(t, "\"");
}

const char *text_cell_value(const char *cell) {
    return cell[0] == '\'' && cell[1] != '\0' && strchr("=+-@\t\r'", cell[1]) != NULL ? cell + 1
                                                                                      : cell;
}

void text_add_quoted(text *t, const char *s) {
    text_add(t, "\"");
    for (const unsigned char *p = (const unsigned char *)s; *p;) {
        unsigned long c = next_code(&p);
        if (c == '"' || c == '\\')
            text_add(t, "\\%c", (int)c);
        else if (c >= 0x20 && c < 0x7F)
            text_add(t, "%c", (int)c);
        else if (c <= 0xFFFF)
            text_add(t, "\\u%04lX", c);
        else
            text_add(t, "\\U%08lX", c);
    }
    text_add(t, "\"");
}
