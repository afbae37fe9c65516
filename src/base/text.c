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

const char *text_plural(double n) {
    return n == 1 ? "" : "s";
}

void text_add_time(text *t, double seconds) {
    if (seconds < 1)
        text_add(t, "under 1 s");
    else if (seconds < 120)
        text_add(t, "%.0f s", seconds);
    else if (seconds < 7200)
        text_add(t, "%.0f min", seconds / 60);
    else if (seconds < 172800)
        text_add(t, "%.1f h", seconds / 3600);
    else
        text_add(t, "%.3g days", seconds / 86400);
}

bool text_is_utf8(const char *s) {
    for (const unsigned char *p = (const unsigned char *)s; *p;)
        if (next_code(&p) == 0xFFFD)
            return false;
    return true;
}

/* Whether a spreadsheet would take a cell for a formula. A number is none. */
static bool is_formula(const char *s) {
    char *end = NULL;
    if (*s == '\0' || strchr("=+-@\t\r", *s) == NULL)
        return false;
    if ((*s != '+' && *s != '-') || (!isdigit((unsigned char)s[1]) && s[1] != '.'))
        return true;
    strtod(s, &end);
    return *end != '\0';
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

/* Whether s begins with what stands for a character here. */
static bool is_escape(const char *s) {
    return s[0] == '\\' && (s[1] == 'u' || s[1] == 'U');
}

void text_add_ascii(text *t, const char *s) {
    const char *const begin = s;
    text_add(t, "%s", "");
    while (*s != '\0') {
        const unsigned char *p = (const unsigned char *)s;
        const bool edge = *s == ' ' && (s == begin || s[1] == '\0');
        const bool quotes = *s == '\'' && s > begin && s[-1] == '\'';
        unsigned long c = next_code(&p);
        if (c == 0xFFFD && strncmp(s, "\xEF\xBF\xBD", 3) != 0) { /* a byte that is no character */
            c = 0xDC00 | (unsigned char)*s;
            p = (const unsigned char *)s + 1;
        }
        if (c >= 0x20 && c < 0x7F && !edge && !quotes && !is_escape(s))
            text_add(t, "%c", (int)c);
        else
            text_add(t, c <= 0xFFFF ? "\\u%04lX" : "\\U%08lX", c);
        s = (const char *)p;
    }
}

/* UTF-8 of a code point, or the byte that it stands for; returns what follows. */
static char *put_code(char *to, unsigned long c) {
    if (c >= 0xDC80 && c <= 0xDCFF) {
        *to++ = (char)(c & 0xFF);
    } else if (c < 0x80) {
        *to++ = (char)c;
    } else {
        const int more = c >= 0x10000 ? 3 : c >= 0x800 ? 2 : 1;
        static const unsigned char first[4] = {0, 0xC0, 0xE0, 0xF0};
        *to++ = (char)(first[more] | c >> 6 * more);
        for (int k = more - 1; k >= 0; k--)
            *to++ = (char)(0x80 | (c >> 6 * k & 0x3F));
    }
    return to;
}

char *text_from_ascii(char *s) {
    char *to = s;
    for (const char *p = s; *p != '\0';) {
        const size_t digits = p[0] == '\\' && p[1] == 'u' ? 4 : 8;
        char hex[9] = "";
        if (is_escape(p) && strspn(p + 2, "0123456789ABCDEFabcdef") >= digits) {
            memcpy(hex, p + 2, digits);
            const unsigned long c = strtoul(hex, NULL, 16);
            const bool surrogate = c >= 0xD800 && c <= 0xDFFF && (c < 0xDC80 || c > 0xDCFF);
            if (c != 0 && c <= 0x10FFFF && !surrogate) {
                to = put_code(to, c);
                p += 2 + digits;
                continue;
            }
        }
        *to++ = *p++;
    }
    *to = '\0';
    return s;
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
