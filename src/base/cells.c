#include "cells.h"

#include "text.h"

#include <string.h>
#include <strings.h>

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

bool cells_by_commas(const char *line, size_t n) {
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        quoted = quoted != (line[i] == '"');
        if (line[i] == ',' && !quoted)
            return true;
    }
    return false;
}

/* The cell from *i on, into `to`; *i stands behind it. False: a quote that is not closed. */
static bool take_cell(const char *line, size_t n, bool commas, size_t *i, cell *to) {
    const bool quoted = line[*i] == '"';
    size_t used = 0;
    bool closed = !quoted;
    to->at = (int)*i + 1;
    for (*i += quoted; *i < n; ++*i) {
        const char c = line[*i];
        if (quoted && c == '"' && !(*i + 1 < n && line[*i + 1] == '"')) {
            closed = true;
            ++*i;
            break;
        }
        *i += quoted && c == '"';
        if (!quoted && (c == ',' || (!commas && (is_blank(c) || c == '#'))))
            break;
        if (!quoted && c == '#' && is_blank(line[*i - (*i > 0)]))
            break;
        if (used < sizeof to->text - 1)
            to->text[used++] = (unsigned char)c < 0x20 || c == 0x7F ? ' ' : c;
    }
    while (used > 0 && to->text[used - 1] == ' ')
        used--;
    to->text[used] = '\0';
    const char *value = text_cell_value(to->text);
    memmove(to->text, value, strlen(value) + 1);
    return closed;
}

int cells_split(const char *line, size_t n, bool commas, cell *out, int room) {
    int count = 0;
    size_t i = n >= 3 && strncmp(line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    commas = commas && cells_by_commas(line, n);
    while (i < n && is_blank(line[i]))
        i++;
    if (i < n && line[i] == '#')
        return 0;
    for (bool more = i < n; more;) {
        if (count == room)
            return room + 1;
        if (!take_cell(line, n, commas, &i, &out[count++]))
            return -1;
        while (i < n && is_blank(line[i]))
            i++;
        const bool comma = i < n && line[i] == ',';
        for (i += comma; i < n && is_blank(line[i]);)
            i++;
        more = i < n && line[i] != '#';
        if (!more && comma && commas) { /* an empty last cell */
            if (count == room)
                return room + 1;
            out[count++] = (cell){.at = (int)i + 1};
        }
    }
    return count;
}

bool cell_is_missing(const char *text) {
    static const char *const words[] = {"",   "null", "none", "nan", "n/a",
                                        "na", "-",    "--",   "---", "~"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}
